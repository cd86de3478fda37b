"""A discrete site, a gradient and a walk in one chain keep the joint law, exactly and raced.

theta and z from the prior, data given them, then a few sweeps of Gibbs >> Langevin >> Metropolis:
the pair after them must still be a draw from its posterior given the data (Talts et al. 2018).
"""

from math import log

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.laws import not_uniform, uniform
from tests.helpers.models import tally, walker


def success(theta, z):
    """The chance of y = 1: from .1 to .9, so that rewards span log 9."""
    return 0.1 + 0.25 * z + 0.3 * theta


def likelihood(state, data, n):
    p = 0.1 + 0.25 * state.z[0] + 0.3 * state.theta[0]
    return sm.log(p) if state.y[n] == 1 else sm.log(1.0 - p)


@sm.kernel(writes=("theta", "z", "y"))
def fresh(rng, state, data):
    """One replication: the prior, and data given it."""
    state.theta[0] = 1e-9 + (1.0 - 2e-9) * rng.random()
    state.z[0] = int(3.0 * rng.random())
    p = 0.1 + 0.25 * state.z[0] + 0.3 * state.theta[0]
    for n in range(len(state.y)):
        state.y[n] = 1 if rng.random() < p else 0


def model(size):
    state = {"theta": 0.5, "z": 1, "y": np.zeros(size, dtype=int)}
    return sm.Model(
        likelihood, {"n": np.arange(size)}, state, support={"z": 3, "y": 2},
        constraints={"theta": sm.interval(0.0, 1.0)},
    )  # fmt: skip


def ranks(draws, rng, size, nodes=400):
    """Where z and theta lie in their posterior given the data, by quadrature over theta."""
    ones, theta, z = draws["y"].sum(axis=1), draws["theta"], draws["z"]
    grid = (np.arange(nodes) + 0.5) / nodes
    p = success(grid[None, :], np.arange(3)[:, None])  # (z, theta)
    found = {"z": np.empty(len(z)), "theta": np.empty(len(z))}
    for count in np.unique(ones):
        weight = count * np.log(p) + (size - count) * np.log(1.0 - p)
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        of_z, of_theta = weight.sum(axis=1), np.r_[0.0, np.cumsum(weight.sum(axis=0))]
        at = np.flatnonzero(ones == count)
        below = np.cumsum(of_z)[z[at]] - of_z[z[at]]
        found["z"][at] = below + rng.random(len(at)) * of_z[z[at]]
        found["theta"][at] = np.interp(theta[at], np.arange(nodes + 1) / nodes, of_theta)
    return found


def kernel(selector, batch):
    langevin = sm.Langevin("theta", step=0.4, batch=batch, selector=selector, adapt=False)
    return (
        sm.Gibbs("z", selector)
        >> langevin
        >> sm.Metropolis("theta", 1.0, selector=selector, adapt=False)
    )


def kept(one, draws, rng, size):
    made = one.advance(draws)
    assert one.error is None
    return ranks(one.program.layout.draws(made.ints, made.floats), rng, size), made.words


@pytest.mark.slow
def test_exact(rng):
    one = walker(model(20), fresh >> sm.repeat(kernel(sm.Exact(), 5), 3))
    found, words = kept(one, 40_000, rng, 20)
    uniform(found)
    for label in ("z", "theta", "theta_2"):
        told = tally(one, words, label)
        assert 0.1 < told["accepted"] / told["decisions"] < 0.95


@sm.kernel(writes="z")
def upwards(rng, state, data):
    """Not a kernel of this posterior."""
    if state.z[0] < 2 and rng.random() < 0.05:
        state.z[0] += 1


@pytest.mark.slow
def test_a_kernel_that_is_none_is_noticed(rng):
    one = walker(model(20), fresh >> kernel(sm.Exact(), 5) >> upwards)
    found, _ = kept(one, 40_000, rng, 20)
    not_uniform({"z": found["z"]})


@pytest.mark.slow
def test_betting(rng):
    """At delta 1e-6, 9 decisions a draw: no more than 1e-5 of the law is at stake."""
    size = 400
    race = sm.Racing(sm.Betting(spread=log(9.0)), delta=1e-6, batch=16, retreat=False)
    one = walker(model(size), fresh >> sm.repeat(kernel(race, 100), 3))
    found, words = kept(one, 8_000, rng, size)
    uniform(found)
    told = tally(one, words, "z")
    assert told["early"] > 0.1 * told["decisions"]
