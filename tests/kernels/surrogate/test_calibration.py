"""Simulation-based calibration of a surrogate made anew from the groups, over 500 data sets.

As tests/kernels/sites/test_calibration.py, of counts with a slope and an intercept that all data
see: one chi-squared test for each of eight quantities, a false alarm once in 10^5 runs of each. The
fit is of one data set, for all: where the surrogate is made first does not matter.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.kernels.sites.test_calibration import RANKS, SETS, THIN, chances
from tests.kernels.surrogate.test_transition import mutated

GROUP = np.repeat(np.arange(5), [1, 2, 4, 8, 3])
X = np.linspace(-1.0, 1.0, len(GROUP))[np.random.default_rng(1).permutation(len(GROUP))]


def log_likelihood(state, data, n):
    eta = state.c[0] + state.a[data.group[n]] + state.b[0] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def log_prior(state):  # b and c are standard normal, and so is 2 log tau
    log_tau = sm.log(state.tau[0])
    return -0.5 * (state.b[0] ** 2 + state.c[0] ** 2) - 2.0 * log_tau**2 - log_tau


def of_site(state, g):
    z = state.a[g] / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def drawn(rng):
    """(what a data set was drawn with, a model of it)."""
    b, c, tau = *rng.standard_normal(2), np.exp(0.5 * rng.standard_normal())
    a = tau * rng.standard_normal(5)
    y = rng.poisson(np.exp(np.minimum(c + a[GROUP] + b * X, 20.0))).astype(float)
    model = sm.Model(
        log_likelihood, {"y": y, "x": X, "group": GROUP},
        {"a": np.zeros(5), "b": 0.0, "c": 0.0, "tau": 1.0}, log_prior,
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip
    return np.array([*a, b, c, tau]), model


def ranks_of(kind, sets=SETS, moves=8) -> np.ndarray:
    """(sets, quantities): how many of the draws lie below what the data were drawn with."""
    fit = sm.laplace(drawn(np.random.default_rng(3))[1], ("b", "c"), progress=False)
    kernel = sm.cycle(
        sm.Metropolis("a"), sm.Metropolis("tau"), kind(("b", "c"), fit, moves),
        sm.interweave("a", location="c"),
    )  # fmt: skip
    rng, found = np.random.default_rng(12), []
    for k in range(sets):
        truth, model = drawn(rng)
        trace = sm.sample(
            model, kernel, RANKS, warmup=600, thin=THIN, chains=1, seed=k, progress=False
        )
        draws = [np.asarray(trace.draws[n])[0].reshape(RANKS, -1) for n in ("a", "b", "c", "tau")]
        found.append((np.concatenate(draws, axis=1) < truth).sum(axis=0))
    return np.array(found)


@pytest.mark.slow
def test_ranks_are_uniform():
    assert chances(ranks_of(sm.SurrogateTransition)).min() > 1e-5


@pytest.mark.slow
def test_a_surrogate_that_follows_the_chain_unseen_is_not_calibrated():
    """It leans to where the chain stands: after all checks, with every step."""
    old = "own.found[NO_PRIOR] = 0.0\n    for i"
    new = old.replace("for i", "own.s1[0] += 30.0 * (tools.here[0] - own.mean[0])\n    for i")
    assert chances(ranks_of(mutated(old, new), moves=1)).min() < 1e-8
