"""A hierarchy whose common block varies in length: the density of what its fit draws."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm

LENGTHS, SITES, ROWS = (1, 2), 80, 400


def log_likelihood(state, data, n):
    e = state.a[data.g[n]]
    for j in range(LENGTHS[state.q[0]]):
        e += state.theta[j] * data.x[n] ** (j + 1)
    return -0.5 * (data.y[n] - e) ** 2


def log_prior(state):
    value = 0.0
    for j in range(LENGTHS[state.q[0]]):
        value -= 0.5 * state.theta[j] ** 2
    return value


@pytest.mark.plain
@pytest.mark.parametrize("q", [0, 1])
def test_draws_have_a_density_whichever_length_is_in_use(q):
    """All is normal: evidence, and log_prob of a draw, beside the dense Gaussian."""
    rng, k = np.random.default_rng(0), LENGTHS[q]
    g, x, y = rng.integers(SITES, size=ROWS), *rng.standard_normal((2, ROWS))
    model = sm.Model(
        log_likelihood, {"y": y, "x": x, "g": g},
        {"q": 0, "theta": np.zeros(2), "a": np.zeros(SITES)}, log_prior, support={"q": 2},
        lengths={"theta": ("q", LENGTHS)}, touches={"a": "g"},
        site_prior={"a": lambda state, i: -0.5 * state.a[i] ** 2},
    )  # fmt: skip
    fit = sm.laplace(model, ("theta", "a"), given={"q": q}, progress=False)
    design = np.zeros((ROWS, k + SITES))
    design[:, :k] = x[:, None] ** np.arange(1, k + 1)
    design[np.arange(ROWS), k + g] = 1.0
    covariance = np.linalg.inv(design.T @ design + np.eye(k + SITES))
    mean = covariance @ design.T @ y
    state = fit.draw(rng)
    values = np.concatenate([state["theta"][:k], state["a"]])
    law = stats.multivariate_normal(mean, covariance)
    assert fit.log_prob(state) == pytest.approx(law.logpdf(values), abs=1e-3)
    height = 0.5 * (design.T @ y) @ mean - 0.5 * y @ y
    volume = 0.5 * ((k + SITES) * np.log(2.0 * np.pi) + np.linalg.slogdet(covariance)[1])
    assert fit.log_evidence == pytest.approx(height + volume, abs=1e-5)
