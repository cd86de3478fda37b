"""What model probabilities do not promise: of chains that never left a value, and of other laws."""

import re

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views.probabilities import ModelProbabilities

EXACT = sm.Exact()


def mirrored(state, data, n):
    """The same for k = 0 at m and k = 1 at -m: both have probability 1/2."""
    mean = state.m[0] if state.k[0] == 0 else -state.m[0]
    return -0.5 * (data.y[n] - mean) ** 2


def model_of():
    y = np.random.default_rng(0).normal(3.0, 1.0, 200)
    wide = -0.5 * 0.01
    return sm.Model(
        mirrored, {"y": y}, {"m": 3.0, "k": 0}, lambda state: wide * state.m[0] ** 2,
        support={"k": 2},
    )  # fmt: skip


def probabilities(starts, chains, draws=300):
    kernel = sm.Gibbs("k", EXACT) >> sm.Metropolis("m", 0.1, selector=EXACT)
    begin = [{"m": 3.0 - 6.0 * k, "k": k} for k in starts] if starts else None
    trace = sm.sample(
        model_of(), kernel, draws, 100, chains, seed=1, start=begin, progress=False
    )  # fmt: skip
    return trace.model_probabilities("k")


@pytest.mark.parametrize(("starts", "chains"), [(None, 4), ([0, 1], 2), ([0, 0, 0, 1], 4)])
def test_chains_that_never_left_a_value_bound_nothing(starts, chains):
    """Of the other value, 1/2, it said e^-6 at most; of two chains apart, .5 +- .05 or .03."""
    found = probabilities(starts, chains)
    seen = found.table[found.table["visits"] > 0]
    assert np.isinf(seen["probability_se"]).all() and np.isinf(seen["log_probability_se"]).all()
    assert any(w.startswith("no chain ever left its value") for w in found.warnings)
    assert not any("below about" in w or "was taken for the error" in w for w in found.warnings)
    if starts is None:
        assert any("not visited: 1 (which tells nothing)" in w for w in found.warnings)


def test_chains_that_leave_do_bound():
    """Of a Gibbs kernel that goes to and fro between two of three values."""
    prior = np.log([0.5, 0.5 - 1e-9, 1e-9])
    model = sm.Model(
        lambda state, data, n: 0.0, {"y": np.zeros(3)}, {"k": 0}, lambda state: prior[state.k[0]],
        support={"k": 3},
    )  # fmt: skip
    trace = sm.sample(model, sm.Gibbs("k", EXACT), 500, 0, 4, seed=1, progress=False)
    found = trace.model_probabilities("k")
    (text,) = found.warnings
    assert text.startswith("not visited: 2 (log probability below about -6.")
    assert 0.005 < found.table["probability_se"][0] < 0.03


def test_other_laws_are_told_of():
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.k[0] - state.a[0]) ** 2,
        {"y": np.full(5, 0.5)}, {"k": 0, "a": 0.0}, lambda state: -0.5 * state.a[0] ** 2,
        support={"k": 2},
    )  # fmt: skip
    before = sm.prior(model, draws=200, seed=1, progress=False).model_probabilities("k")
    assert "these are probabilities of the prior, and no Bayes factors." in before.warnings
    for correct in (True, False):
        walk = sm.Langevin("a", 0.3, batch=5, correct=correct)
        trace = sm.sample(model, sm.Gibbs("k", EXACT) >> walk, 200, 100, 2, seed=1, progress=False)
        told = trace.model_probabilities("k").warnings
        assert any(w.startswith("a: unadjusted draws have a bias") for w in told) != correct


def flips(rng, chains, draws, chance):
    """Chains of two values that each draw leaves by a chance: exactly half of each in the end."""
    moves = rng.random((chains, draws)) < chance
    moves[:, 0] = rng.random(chains) < 0.5
    return np.cumsum(moves, axis=1) % 2


def test_errors_of_short_batches_may_be_far_too_small():
    """One draw of 19 counts: a chain of 250 has 13 effective ones, in batches of 12 draws."""
    rng, away = np.random.default_rng(7), {}
    for draws in (250, 8_000):
        away[draws], told = [], 0
        for _ in range(60):
            found = ModelProbabilities("k", flips(rng, 1, draws, 0.05), np.zeros((1, 2)))
            row = found.table.iloc[0]
            away[draws].append((row["probability"] - 0.5) / row["probability_se"])
            told += any("may be far too small" in warning for warning in found.warnings)
        assert told == (60 if draws == 250 else 0)
    # Of 60 normal numbers the root mean square is above 1.3 with chance 7e-4.
    rms = {draws: float(np.sqrt(np.mean(np.square(z)))) for draws, z in away.items()}
    assert rms[250] > 1.5 and rms[8_000] < 1.3, rms


def test_figures_show_no_bar_of_an_error_that_nobody_knows():
    """A bar of length 0 says that there is none."""
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(3)
    for values, known in ((flips(rng, 2, 2_000, 0.3), True), (np.zeros((2, 50), int), False)):
        found = ModelProbabilities("k", values, np.zeros((2, values.max() + 1)))
        axes = found.plot()
        (bars,) = axes.collections  # a line for each error
        assert sum(len(line) == 2 for line in bars.get_segments()) == (2 if known else 0)
        caps = np.concatenate([line.get_ydata() for line in axes.get_lines()]).astype(float)
        assert np.isfinite(caps).all() if known else np.isnan(caps).all()
        plt.close("all")


def test_slow_chains_bound_less_of_what_they_did_not_visit():
    """A value that none of them had: three visits of as many independent draws, 1 in 19."""
    values = flips(np.random.default_rng(7), 4, 8_000, 0.05)
    told = ModelProbabilities("k", values, np.zeros((4, 3))).warnings
    (text,) = (one for one in told if "below" in one)
    bound = float(re.search(r"below about (-?[\d.]+)\)", text)[1])
    assert abs(bound - np.log(3.0 * 19.0 / 32_000)) < 0.4
