"""Simulation-based calibration of a small hierarchy, by many data sets for each way to move it.

Parameters are drawn from the prior, data from them: then the rank of each among thinned draws of
its posterior is uniform (Talts et al. 2018). One chi-squared test for each of seven quantities: a
false alarm once in 10^5 runs of each. The scale keeps off zero: what is tested is whether moves are
right, and a scale at zero is left so seldom by one of them that a short chain would not tell.
"""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites import side_by_side
from tests.helpers.by_sums import poisson
from tests.helpers.groups import SIGMA, log_likelihood, of_site
from tests.kernels.sites.test_interweave import mutated

SETS, RANKS, THIN, BINS = 500, 49, 40, 10
FEW = 150  # of them: what tells a mutant; parts on cores wait for one another at each step
SIZES = np.array([1, 2, 4, 8, 3])
GROUP = np.repeat(np.arange(5), SIZES)


def log_prior(state):  # mu and 2 log tau are standard normal
    log_tau = sm.log(state.tau[0])
    return -0.5 * state.mu[0] ** 2 - 2.0 * log_tau**2 - log_tau


def sites():
    return sm.Metropolis("a") >> sm.Metropolis(("mu", "tau"), proposal=sm.pcn())


def slices():
    return sm.Slice("a") >> sm.Slice(("mu", "tau"))


def on_cores():
    """As sites, in parts that have random streams of their own."""
    return sm.side_by_side(sm.Metropolis("a"), 1) >> sm.Metropolis(("mu", "tau"), proposal=sm.pcn())


def slopes():
    return sm.Langevin("a") >> sm.Metropolis(("mu", "tau"), proposal=sm.pcn())


def interwoven():
    return sites() >> sm.interweave("a", location="mu", scale="tau")


def mistaken():
    """Without the Jacobian of stretching."""
    mistake = "return by + change * (end - start) * (high - low)", "return 0.0 * by"
    return sites() >> mutated(*mistake, "a", location="mu", scale="tau")


def together():
    """All as one: the plainest joint move, by a Gaussian that is learnt."""
    return sm.Metropolis(("a", "mu", "tau"), proposal=sm.pcn(), selector=sm.Exact())


def ranks_of(kernel, sets=SETS) -> np.ndarray:
    """(sets, quantities): how many of the draws lie below what the data were drawn with."""
    rng, found = np.random.default_rng(11), []
    for k in range(sets):
        mu, tau = rng.standard_normal(), np.exp(0.5 * rng.standard_normal())
        a = mu + tau * rng.standard_normal(5)
        y = a[GROUP] + SIGMA * rng.standard_normal(len(GROUP))
        model = sm.Model(
            log_likelihood, {"y": y, "group": GROUP}, {"a": np.zeros(5), "mu": 0.0, "tau": 1.0},
            log_prior, constraints={"tau": sm.positive}, touches={"a": "group"},
            site_prior={"a": of_site},
        )  # fmt: skip
        trace = sm.sample(
            model, kernel, RANKS, warmup=600, thin=THIN, chains=1, seed=k, progress=False
        )
        drawn = np.concatenate(
            [np.asarray(trace.draws[n])[0].reshape(RANKS, -1) for n in ("a", "mu", "tau")], axis=1
        )
        found.append((drawn < np.concatenate([a, [mu, tau]])).sum(axis=0))
    return np.array(found)


def chances(ranks: np.ndarray) -> np.ndarray:
    """Of a chi-squared as large, for each quantity."""
    bins = ranks * BINS // (RANKS + 1)
    counts = np.stack([np.bincount(line, minlength=BINS) for line in bins.T])
    expected = len(ranks) / BINS
    return stats.chi2.sf(((counts - expected) ** 2).sum(axis=1) / expected, BINS - 1)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [sites, slices, slopes, interwoven, together, on_cores])
def test_ranks_are_uniform(kernel, monkeypatch):
    monkeypatch.setattr(side_by_side, "LEAST", 25)  # of five sites, four parts
    sets = FEW if kernel is on_cores else SETS
    assert chances(ranks_of(kernel(), sets)).min() > 1e-5


@pytest.mark.slow
def test_a_mutant_is_not_calibrated():
    assert chances(ranks_of(mistaken(), FEW)).min() < 1e-8


COUNTS = np.repeat(np.arange(3), 16)


def counts_by_sums() -> np.ndarray:
    """As ranks_of: counts of three groups with a slope, around a point that is no mode.

    Wide decisions are thinned, too: nothing is read but what a Poisson process draws.
    """
    rng, found = np.random.default_rng(12), []
    at = sm.SiteTaylor({"a": np.zeros(3), "slope": np.zeros(1)})
    wide = {"selector": sm.Thinned(most=1e6), "control": at}
    kernel = sm.Metropolis("a", scale=0.4, **wide) >> sm.Metropolis("slope", scale=0.3, **wide)
    for k in range(SETS):
        a, slope = 0.5 * rng.standard_normal(3), 0.5 * rng.standard_normal()
        x = rng.standard_normal(len(COUNTS))
        y = rng.poisson(np.exp(a[COUNTS] + slope * x)).astype(float)
        model = sm.Model(
            poisson, {"y": y, "x": x, "group": COUNTS}, {"a": np.zeros(3), "slope": 0.0},
            lambda state: -2.0 * state.slope[0] ** 2, touches={"a": "group"},
            site_prior={"a": lambda state, g: -2.0 * state.a[g] ** 2},
        )  # fmt: skip
        trace = sm.sample(
            model, kernel, RANKS, warmup=300, thin=20, chains=1, seed=k, progress=False
        )
        drawn = np.concatenate(
            [np.asarray(trace.draws[n])[0].reshape(RANKS, -1) for n in ("a", "slope")], axis=1
        )
        found.append((drawn < np.append(a, slope)).sum(axis=0))
    return np.array(found)


@pytest.mark.slow
def test_ranks_by_polynomials_of_sites_are_uniform():
    assert chances(counts_by_sums()).min() > 1e-5
