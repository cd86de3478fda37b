"""What Pareto k cannot tell: labels of single data, weights without a tail."""

import re
import warnings

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views.log_likelihoods import own_labels


def components(touches, size=60, known=None):
    """Three normals far apart: a datum's label is as good as known, and never moves."""
    rng = np.random.default_rng(1)
    centres = np.array([-10.0, 0.0, 10.0])
    y = centres[rng.integers(0, 3, size)] + rng.normal(size=size)
    own = np.arange(size) if known is None else known
    return sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - 10.0 * (state.z[data.own[n]] - 1.0)) ** 2,
        {"y": y, "own": own}, {"z": np.abs(y[:, None] - centres).argmin(1)[np.unique(own)]},
        support={"z": 3}, **({"touches": {"z": "own"}} if touches else {}),
    )  # fmt: skip


@pytest.mark.parametrize("touches", [True, False])
def test_labels_of_single_data_are_told_of(touches):
    """Given them each datum was predicted log 3 too well, with every k good."""
    model = components(touches)
    trace = sm.sample(model, sm.Gibbs("z"), draws=200, warmup=0, chains=2, seed=1, progress=False)
    with pytest.warns(UserWarning, match="60 of 60 data have a label of their own, in z, that no"):
        found = sm.loo(model, trace, progress=False)
    assert np.all(found.k == np.inf) and found.counts == (0, 0, 60)
    with pytest.warns(UserWarning, match=r"label of their own, in z: .* or take sm\.kfold"):
        trace.to_arviz(log_likelihood=model)


def told_of(model, trace, **more):
    """(of how many data, of how many, what is told)."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sm.loo(model, trace, progress=False, **more)
    found = [re.match(r"(\d+) of (\d+) data (.{18})", str(one.message)) for one in told]
    return sorted((int(one[1]), int(one[2]), one[3].strip()) for one in found)


@pytest.mark.filterwarnings("ignore:.* of 20 data")
def test_of_labels_that_several_data_share_k_tells():
    """The last two of 60 data have one label: that of the others is each datum's own."""
    shared = np.append(np.arange(58), [58, 58])
    model = components(True, known=shared)
    names, own = own_labels(model)
    assert names == ["z"] and own.sum() == 58 and not own[58:].any()
    trace = sm.sample(model, sm.Gibbs("z"), draws=200, warmup=0, chains=2, seed=1, progress=False)
    # All weights of the other two are alike, as their label never moved: of these k is not known.
    assert told_of(model, trace) == [(2, 60, "have no Pareto k:"), (58, 60, "have a label of th")]
    rows = sm.loo(model, trace, size=20, seed=3, progress=False).rows
    assert told_of(model, trace, size=20, seed=3)[-1] == (
        int((rows < 58).sum()), 20, "have a label of th"
    )  # fmt: skip
    groups = components(True, known=np.arange(60) // 2)
    assert own_labels(groups) == ([], pytest.approx(np.zeros(60)))
    assert own_labels(sm.models.glm.gaussian(np.ones((60, 1)), np.zeros(60)))[0] == []


def test_data_that_all_draws_see_alike_are_left_out_exactly(recwarn):
    """As missing ones, of which the likelihood is 1: their k was infinity."""
    y = np.random.default_rng(0).normal(size=50)
    y[[3, 9]] = np.nan
    model = sm.Model(
        lambda state, data, n:
            0.0 if data.y[n] != data.y[n] else -0.5 * (data.y[n] - state.mu[0]) ** 2,
        {"y": y}, {"mu": 0.0}, missing="allow",
    )  # fmt: skip
    trace = sm.sample(model, sm.Slice("mu"), draws=500, chains=2, seed=1, progress=False)
    found = sm.loo(model, trace, progress=False)
    assert np.flatnonzero(found.k == -np.inf).tolist() == [3, 9]
    assert np.all(found.elpd_i[[3, 9]] == 0.0) and found.counts == (50, 0, 0)
    assert not recwarn.list


def test_what_chains_did_not_leave_is_not_left_out_exactly():
    """One datum decides a bit, which has one value in all draws, and the others see nothing."""
    x = np.zeros(50)
    x[7] = 10.0
    y = np.random.default_rng(0).normal(size=50)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - data.x[n] * state.k[0]) ** 2,
        {"y": y, "x": x}, {"k": 0}, support={"k": 2},
    )  # fmt: skip
    trace = sm.sample(model, sm.Gibbs("k"), draws=200, warmup=0, chains=2, seed=1, progress=False)
    with pytest.warns(UserWarning, match="50 of 50 data have no Pareto k"):
        found = sm.loo(model, trace, progress=False)
    assert np.all(found.k == np.inf)


def test_weights_of_few_values_are_said_to_have_no_k():
    """A place on a grid, of which two values have the mass: its numbers are right, without a k."""
    y = 0.5 + np.random.default_rng(0).normal(size=200)
    grid = np.arange(6)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - 0.2 * state.k[0]) ** 2, {"y": y}, {"k": 2},
        support={"k": 6},
    )  # fmt: skip
    trace = sm.sample(model, sm.Gibbs("k"), draws=1_000, chains=2, seed=1, progress=False)
    with pytest.warns(UserWarning, match="have no Pareto k: their importance weights take too few"):
        found = sm.loo(model, trace, progress=False)
    each = -0.5 * (y[:, None] - 0.2 * grid) ** 2
    left = each.sum(axis=0) - each  # of the others, at each place
    weights = np.exp(left - left.max(axis=1, keepdims=True))
    exact = np.log((weights * np.exp(each)).sum(axis=1) / weights.sum(axis=1))
    assert np.abs(found.elpd_i - exact).max() < 0.02


def test_a_label_of_a_single_datum_has_no_k_though_it_moves():
    """Two normals near each other: labels go to and fro, and weights alone would give a good k."""
    y = np.random.default_rng(1).normal(size=60)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - 0.5 * state.z[data.own[n]] - state.mu[0]) ** 2,
        {"y": y, "own": np.append(np.arange(58), [58, 58])}, {"z": np.zeros(59, int), "mu": 0.0},
        support={"z": 2}, touches={"z": "own"},
    )  # fmt: skip
    kernel = sm.Gibbs("z") >> sm.Slice("mu")
    trace = sm.sample(model, kernel, draws=200, chains=2, seed=1, progress=False)
    with pytest.warns(UserWarning, match="58 of 60 data have a label of their own"):
        found = sm.loo(model, trace, progress=False)
    assert np.all(found.k[:58] == np.inf) and np.all(np.isfinite(found.k[58:]))
    assert found.counts[2] == 58
