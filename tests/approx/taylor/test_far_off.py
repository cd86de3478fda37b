"""What a pilot saw near the reference says nothing of a place far from it."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for

SIZE = 1_000
Y = 2.0 + np.random.default_rng(0).standard_normal(SIZE)


def two_sided():
    """Exactly quadratic around each of two modes, which are each other's mirror image."""
    return sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - abs(state.t[0])) ** 2, {"y": Y}, {"t": 2.0}
    )


def draws(fit, start, make=sm.pcn, **more):
    """Of 40 chains, three steps each."""
    kernel = sm.Metropolis("t", proposal=make(fit), **more)
    trace = sm.sample(
        fit.model, kernel, 3, 0, chains=40, start=[{"t": start}] * 40, seed=1, progress=False
    )
    return trace.draws["t"]


@pytest.mark.parametrize("make", [sm.pcn, sm.independence])
def test_far_from_a_fit_decisions_are_those_of_all_data(make):
    """All of 40 chains left a mode for the fit's own, 7,800 nats by the polynomial, unread."""
    fit = sm.laplace(two_sided())
    for start in (-2.0, 2.0):
        found = draws(fit, start, make, control=sm.Taylor(fit))
        assert np.array_equal(found, draws(fit, start, make, selector=sm.Exact()))
        assert np.all(np.sign(found) == np.sign(start))


def test_a_mutant_that_believes_everywhere_is_seen():
    fit = sm.laplace(two_sided())
    control = sm.Taylor(fit)
    prepared = prepared_for(fit.model, control)
    assert np.all(prepared.sums.whole.limits[:, 16] > 2.0)
    for parts in (prepared.sums.raced, prepared.sums.whole):
        parts.limits[:, 16] = 1e9
    assert np.all(draws(fit, -2.0, control=control)[:, -1] > -1.8)


def test_near_the_fit_hardly_anything_is_read():
    """Draws lie within what pilots have seen, or hardly beyond; some proposals have wide tails."""
    fit = sm.laplace(two_sided())
    kernel = sm.Metropolis("t", proposal=sm.pcn(fit), control=sm.Taylor(fit))
    trace = sm.sample(fit.model, kernel, 4_000, 0, chains=2, start=fit.start, seed=1,
                      progress=False)  # fmt: skip
    assert (trace.stats["t"]["pulls"] > 0).mean() < 0.01
