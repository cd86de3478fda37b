"""Simulated returns number by number, quantiles of forecasts, samples of data in order of time."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.models import arch
from subsample_mcmc.models.arch.forecasts import quantiles
from subsample_mcmc.runs.criticism.loo import STREAM
from subsample_mcmc.runs.criticism.sampling import sampled
from tests.runs.views.test_arviz import trace_of


@pytest.mark.parametrize("burn", [0, 7])
def test_simulated_returns_follow_their_equation(burn):
    """Number by number: lags of unequal size in their order, from the stationary variance on."""
    alpha, nu, size = (0.2, 0.3, 0.02, 0.1), 6.0, 30
    z = np.random.default_rng(4).standard_t(nu, size + burn)
    spread = nu / (nu - 2.0)
    before = [spread * alpha[0] / (1.0 - sum(alpha[1:]) * spread)] * 3  # squares, the latest last
    wanted = []
    for one in z:
        lags = sum(a * before[-i] for i, a in enumerate(alpha[1:], 1))
        wanted.append(math.sqrt(alpha[0] + lags) * one)
        before.append(wanted[-1] ** 2)
    found = arch.simulate(size, alpha, nu, seed=4, burn=burn)
    np.testing.assert_allclose(found, wanted[burn:], rtol=1e-12)


def test_quantiles_are_the_least_values_at_which_weights_add_up_to_levels():
    found = quantiles(np.array([4.0, 2.0, 1.0, 3.0]), np.full(4, 0.25), (0.25, 0.75))
    assert found.tolist() == [1.0, 3.0]


def arch_loo():
    """(model, trace, loo of all data, and of a sample of 60)."""
    returns = arch.simulate(400, (0.3, 0.2, 0.1), 5.0, seed=2)
    model = arch.ARCH(returns, orders=(1, 2))
    rng = np.random.default_rng(3)
    theta = np.array([5.0, 0.3, 0.2, 0.1]) * np.exp(0.05 * rng.standard_normal((2, 200, 4)))
    trace = trace_of(model, {"q": np.ones((2, 200), int), "theta": theta})
    whole, some = (sm.loo(model, trace, progress=False, seed=7, **more)
                   for more in ({}, {"size": 60}))  # fmt: skip
    return whole, some


@pytest.mark.filterwarnings("ignore:.*have a Pareto k above")
def test_samples_of_returns_are_of_the_rows_that_other_models_have():
    """A model that has its data backwards: rows, chances and surrogates are in order of time."""
    whole, some = arch_loo()
    assert np.abs(some.sample.surrogate - whole.elpd_i).max() < 0.5
    assert np.corrcoef(some.sample.surrogate, whole.elpd_i)[0, 1] > 0.99
    stream = np.random.SeedSequence(7, spawn_key=(STREAM,))
    uniform = np.random.default_rng(stream).random(398)
    assert np.array_equal(sampled(some.sample.chances, uniform, 60), some.rows)
    assert np.allclose(some.elpd_i, whole.elpd_i[some.rows])


def spread(count, error):
    """Estimates that each leave one part out, whose jackknife error is this."""
    signs = np.where(np.arange(count) % 2, -1.0, 1.0)
    return signs[:, None] * np.array([error]) / np.sqrt(count - 1)
