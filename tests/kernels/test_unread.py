"""Discrete blocks that no datum depends on: drawn from the prior, without data."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm


def by_indicator(state):
    """A normal whose width depends on an indicator, which is 1 with probability .3."""
    if state.gamma[0] == 1:
        return -0.5 * state.mu[0] ** 2 + math.log(0.3)
    return -0.5 * (state.mu[0] / 0.1) ** 2 - math.log(0.1) + math.log(0.7)


def around(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


@pytest.mark.parametrize("selector", [sm.Racing(), sm.Exact()])
def test_what_no_datum_depends_on_is_drawn_from_the_prior(selector):
    y = np.random.default_rng(8).standard_normal(2_000) + 0.2
    model = sm.Model(around, {"y": y}, {"gamma": 0, "mu": 0.0}, by_indicator, support={"gamma": 2})
    gibbs = sm.Gibbs("gamma", selector=selector)
    assert "Exact(); guarantee: exact (no datum depends on it" in gibbs.describe(model)
    kernel = gibbs >> sm.Metropolis("mu", selector=sm.Exact(), scale=0.05)
    trace = sm.sample(model, kernel, 20_000, warmup=500, chains=1, seed=3, progress=False)
    assert trace.stats["gamma"]["pulls"].sum() == 0
    # Given mu, both weights are known: so is the law of the indicator.
    mu, gamma = np.asarray(trace.draws["mu"]).ravel()[:-1], np.asarray(trace.draws["gamma"]).ravel()
    on, off = 0.3 * np.exp(-0.5 * mu**2), 7.0 * np.exp(-0.5 * (mu / 0.1) ** 2)
    chance = on / (on + off)
    z = (gamma[1:] - chance).sum() / np.sqrt((chance * (1.0 - chance)).sum())
    assert 0.02 < chance.mean() < 0.98 and abs(z) < 4.9  # by chance once in 10^6


def test_a_block_that_a_helper_may_read_is_raced():
    model = sm.Model(through_helper, {"y": np.zeros(500)}, {"k": 0}, support={"k": 2})
    assert "no datum depends" not in sm.Gibbs("k", selector=sm.Exact()).describe(model)


def through_helper(state, data, n):
    return reads_k(state, data, n)


def reads_k(state, data, n):
    return -0.5 * (data.y[n] - state.k[0]) ** 2
