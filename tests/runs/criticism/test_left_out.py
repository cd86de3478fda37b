"""Cross validation: terms of samples, effective draws, streams of folds, the worst of R-hats."""

import importlib
from types import SimpleNamespace

import arviz
import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.models import glm
from subsample_mcmc.runs.criticism.kfold import largest_rhat
from subsample_mcmc.runs.criticism.loo import efficiency
from subsample_mcmc.runs.criticism.sampling import spread_of
from tests.runs.views.test_arviz import trace_of


def poisson_trace(size=60, draws=300):
    rng = np.random.default_rng(5)
    y = rng.poisson(9.0, size)
    model = glm.poisson(np.ones((size, 1)), y)
    beta = np.log(y.mean()) + 0.04 * rng.standard_normal((2, draws, 1))
    return model, y, trace_of(model, {"beta": beta})


def test_terms_of_counts_go_with_the_rows_of_a_sample():
    """log y! is left out of what draws depend on, and is another number of each datum."""
    model, _, trace = poisson_trace()
    whole, some = (sm.loo(model, trace, progress=False, seed=1, **more)
                   for more in ({}, {"size": 15}))  # fmt: skip
    assert not np.array_equal(some.rows, np.arange(15))
    np.testing.assert_allclose(some.elpd_i, whole.elpd_i[some.rows], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*chains of .* folds")
def test_cross_validated_counts_are_log_probabilities():
    """With log y!, which log likelihoods lack: each is near that at the mean of other folds."""
    _, y, _ = poisson_trace()
    model = glm.poisson(np.ones((len(y), 1)), y)
    found = sm.kfold(model, sm.Slice("beta"), folds=3, draws=200, warmup=100, chains=2, seed=1,
                     progress=False)  # fmt: skip
    means = np.array([y[found.fold != i].mean() for i in range(3)])[found.fold]
    assert np.abs(found.elpd_i - stats.poisson.logpmf(y, means)).max() < 0.1


def test_effective_draws_are_the_mean_of_all_components():
    """Of a number that mixes slowly, and of nine in another block that do not."""
    rng = np.random.default_rng(2)
    model = sm.Model(lambda s, data, n: 0.0 * data.y[n] + 0.0 * s.a[0] + 0.0 * s.b[0],
                     {"y": np.zeros(4)}, {"a": 0.0, "b": np.zeros(9)})  # fmt: skip
    a, b = rng.standard_normal((2, 400)), rng.standard_normal((2, 400, 9))
    for i in range(1, 400):
        a[:, i] = 0.9 * a[:, i - 1] + 0.43 * a[:, i]
    every = [arviz.ess(v, method="mean") for v in (a, *np.moveaxis(b, 2, 0))]
    found = efficiency(trace_of(model, {"a": a, "b": b}), np.arange(400))
    assert found == pytest.approx(np.mean([float(e) for e in every]) / 800)


def test_a_spread_that_is_negative_by_chance_is_that_of_the_sample():
    """Of all N, as other spreads are: N times the weighted variance of sampled values."""
    own, chances = np.array([1.0, 2.0, 6.0]), np.array([0.5, 0.25, 0.25])
    weights = 1.0 / chances
    middle = np.average(own, weights=weights)
    wanted = 12 * np.average((own - middle) ** 2, weights=weights)
    assert spread_of(1.0, 100.0, 0.0, 12, own, chances) == pytest.approx(wanted)


def test_folds_are_sampled_by_streams_of_their_own(monkeypatch):
    module, seen = importlib.import_module("subsample_mcmc.runs.criticism.kfold"), []

    def spied(model, kernel, draws, warmup, chains, seed, *given, **more):
        seen.append((seed.entropy, seed.spawn_key))
        return sm.sample(model, kernel, draws, warmup, chains, seed, *given, **more)

    monkeypatch.setattr(module, "sample", spied)
    model = sm.Model(lambda s, data, n: -0.5 * (data.y[n] - s.mu[0]) ** 2,
                     {"y": np.linspace(-1.0, 1.0, 12)}, {"mu": 0.0})  # fmt: skip
    sm.kfold(model, sm.Slice("mu"), folds=3, draws=300, warmup=50, chains=2, seed=1, progress=False)
    assert len(seen) == len(set(seen)) == 3


def test_the_r_hat_of_a_fold_is_that_of_its_worst_block():
    known = {"a": 1.4, "b": 1.0}
    block = SimpleNamespace(block=SimpleNamespace(discrete=False))
    model = SimpleNamespace(variables={name: block for name in known})
    trace = SimpleNamespace(
        mixing=lambda name: SimpleNamespace(held=0, moved=True, rhat=known[name])
    )
    assert largest_rhat(trace, model) == 1.4


def test_fewer_draws_that_are_left_out_are_evenly_spaced():
    """As a trace of these draws alone has it, to the last bit."""
    rng = np.random.default_rng(3)
    y, mu = rng.normal(size=40), rng.normal(0.0, 0.16, (2, 400))
    model = sm.Model(lambda s, data, n: -0.5 * (data.y[n] - s.mu[0]) ** 2, {"y": y}, {"mu": 0.0})
    kept = np.linspace(0, 399, 50).astype(int)
    found, wanted = (
        sm.loo(model, trace_of(model, {"mu": part}), progress=False, **more)
        for part, more in ((mu, {"draws": 50}), (mu[:, kept], {}))
    )
    assert np.array_equal(found.elpd_i, wanted.elpd_i) and found.draws == 100
