"""Starts whose coefficients contradict their indicators: these count."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED


def log_prior(state):
    total = 0.0
    for j in range(3):
        total -= 0.5 * state.beta[j] ** 2 + 20.0 if state.gamma[j] == 1 else 0.0
    return total


@pytest.mark.skipif(DISABLED, reason="a fit, and hundreds of decisions")
def test_a_coefficient_that_is_off_is_0_from_the_first_draw():
    """Starts are often a fit of all coefficients. None of these is worth 20 nats: all stay off.

    Were they left where they start, the likelihood would read them as long as they are off. That
    one is on at some draw has a probability below 1e-6.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    given = sm.models.glm.gaussian(x, rng.standard_normal(300), sigma=1.0)
    model = sm.Model(
        given.predictors, given.data, {"gamma": np.ones(3, int), "beta": np.zeros(3)},
        log_prior, support={"gamma": 2},
    )  # fmt: skip
    fit = sm.laplace(model, "beta", progress=False)
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, selector=sm.Exact())
    start = {"gamma": np.zeros(3, int), "beta": np.array([0.7, -0.4, 0.2])}
    trace = sm.sample(
        model, kernel, draws=20, warmup=0, chains=1, seed=1, start=[start], progress=False
    )
    assert not trace.draws["gamma"].any()
    assert np.all(trace.draws["beta"] == 0.0)
