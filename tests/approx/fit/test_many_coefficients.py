"""sm.laplace of many coefficients: exact for normal data, in memory of the order of a matrix."""

import tracemalloc

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import newton

MANY = newton.FEW + 16


def apart(state):
    """A sum over coefficients."""
    total = 0.0
    for j in range(len(state.beta)):
        total -= 2.0 * (state.beta[j] - 0.1) ** 2
    return total


def tied(state):
    """Each is near the one before."""
    total = -2.0 * state.beta[0] ** 2
    for j in range(1, len(state.beta)):
        total -= 2.0 * (state.beta[j] - 0.9 * state.beta[j - 1]) ** 2
    return total


def precision(prior) -> tuple[np.ndarray, np.ndarray]:
    """(that of the prior, times its mean)."""
    if prior is apart:
        return 4.0 * np.eye(MANY), np.full(MANY, 0.4)
    root = np.eye(MANY) - 0.9 * np.eye(MANY, k=-1)
    return 4.0 * root.T @ root, np.zeros(MANY)


def normal_data(rng, prior):
    """(model, x, y) of normal data with a known scale."""
    x = rng.standard_normal((400, MANY))
    y = x @ rng.standard_normal(MANY) + rng.standard_normal(400)
    return sm.models.glm.gaussian(x, y, sigma=1.0, log_prior=prior), x, y


def errors(fit, prior, x, y) -> tuple[float, float]:
    """Of means, in standard deviations, and of the precision, in their units."""
    own, shift = precision(prior)
    whole = x.T @ x + own
    truth, sd = np.linalg.solve(whole, x.T @ y + shift), 1.0 / np.sqrt(np.diag(whole))
    apart = sd[:, None] * (np.linalg.inv(fit.covariance) - whole) * sd
    return float(np.max(np.abs(fit.mean - truth) / sd)), float(np.abs(apart).max())


@pytest.mark.parametrize("prior", [apart, tied])
def test_means_and_precisions_are_exact(prior, rng):
    """Of priors that are sums over coefficients, and of others: all are quadratic."""
    model, x, y = normal_data(rng, prior)
    mean, curvature = errors(sm.laplace(model, progress=False), prior, x, y)
    assert mean < 1e-5 and curvature < 1e-7, (mean, curvature)


def test_ties_that_are_taken_for_none_would_be_seen(rng, monkeypatch):
    """The mutant: every log density is taken for a sum over coordinates."""
    monkeypatch.setattr(newton, "APART", np.inf)
    model, x, y = normal_data(rng, tied)
    assert errors(sm.laplace(model, progress=False), tied, x, y)[1] > 1e-3


def test_ties_of_two_coefficients_are_found(rng):
    """However little they weigh: one pair of so many."""

    def one_pair(state):
        total = -0.01 * state.beta[3] * state.beta[70]
        for j in range(len(state.beta)):
            total -= 0.5 * state.beta[j] ** 2
        return total

    model, x, _ = normal_data(rng, one_pair)
    fit = sm.laplace(model, progress=False)
    found = np.linalg.inv(fit.covariance)[3, 70] - x[:, 3] @ x[:, 70]
    assert abs(found - 0.01) < 1e-4


@pytest.mark.slow
def test_memory_is_that_of_a_few_matrices(rng):
    """400 coefficients: 160,000 points of 400 numbers, a stencil of all pairs, are 500 MB."""
    x = rng.standard_normal((2_000, 400))
    y = (rng.random(2_000) < 0.5).astype(float)
    model = sm.models.glm.logistic(x, y)
    sm.laplace(sm.models.glm.logistic(x[:, :2], y), progress=False)  # compiles
    tracemalloc.start()
    try:
        sm.laplace(model, progress=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * 400 * 400 * 8
