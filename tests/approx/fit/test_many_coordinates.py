"""sm.laplace of plain functions with more coordinates than differences serve.

Their predictors are found; fits are compared with closed forms, and with those by sm.Predictors.
"""

import numpy as np
import pytest

import subsample_mcmc as sm

D, SIZE = 80, 1_500


def columns(rng, size=SIZE, d=D):
    x = rng.standard_normal((size, d))
    return x, x @ np.linspace(-0.3, 0.3, d)


def normal(state, data, n):
    rest = data.y[n]
    for j in range(len(state.beta)):
        rest -= data.x[n, j] * state.beta[j]
    return -0.5 * rest * rest


def logistic(state, data, n):
    eta = 0.0
    for j in range(len(state.beta)):
        eta += data.x[n, j] * state.beta[j]
    return data.y[n] * eta - sm.log1p(sm.exp(eta))


def of_scale(state, data, n):
    rest = data.y[n]
    for j in range(len(state.beta)):
        rest -= data.x[n, j] * state.beta[j]
    return -0.5 * (rest / state.sigma[0]) ** 2 - sm.log(state.sigma[0])


def test_a_normal_one_has_its_closed_form(rng):
    x, eta = columns(rng)
    y = eta + rng.standard_normal(SIZE)
    fit = sm.laplace(sm.Model(normal, {"x": x, "y": y}, {"beta": np.zeros(D)}))
    covariance = np.linalg.inv(x.T @ x)
    np.testing.assert_allclose(fit.mean, covariance @ x.T @ y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fit.covariance, covariance, rtol=1e-6, atol=1e-10)


@pytest.mark.slow
def test_a_logistic_one_is_that_of_its_predictors(rng):
    """Of 60,000 rows the search begins on some; priors count."""
    x, eta = columns(rng, 60_000, 70)
    y = (rng.random(60_000) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    given = sm.models.glm.logistic(x, y)
    fit = sm.laplace(sm.Model(logistic, {"x": x, "y": y}, {"beta": np.zeros(70)}, given.log_prior))
    same = sm.laplace(given)
    np.testing.assert_allclose(fit.mean, same.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit.covariance, same.covariance, rtol=1e-6, atol=1e-12)


@pytest.mark.slow
def test_a_scale_beside_them_is_fitted_or_held(rng):
    x, eta = columns(rng)
    y = eta + 0.7 * rng.standard_normal(SIZE)
    model = sm.Model(
        of_scale, {"x": x, "y": y}, {"beta": np.zeros(D), "sigma": 1.0},
        constraints={"sigma": sm.positive},
    )  # fmt: skip
    least = np.linalg.lstsq(x, y, rcond=None)[0]
    sigma = np.sqrt(np.mean((y - x @ least) ** 2))
    fit = sm.laplace(model)  # the mode of log sigma: its Jacobian counts
    np.testing.assert_allclose(fit.state["beta"], least, rtol=1e-5, atol=1e-7)
    assert fit.state["sigma"] == pytest.approx(sigma * (SIZE / (SIZE - 1.0)) ** 0.5, rel=1e-5)
    held = sm.laplace(model, "beta", given={"sigma": 2.0})
    np.testing.assert_allclose(held.covariance, 4.0 * np.linalg.inv(x.T @ x), rtol=1e-6, atol=1e-9)


def test_what_has_no_few_predictors_is_refused(rng):
    def each(state, data, n):
        total = data.y[n]
        for j in range(len(state.beta)):
            total -= data.x[n, j] * sm.exp(0.01 * state.beta[j])
        return -0.5 * total * total

    x, eta = columns(rng, 200)
    with pytest.raises(ValueError, match="80 free coordinates are too many for differences"):
        sm.laplace(sm.Model(each, {"x": x, "y": eta}, {"beta": np.zeros(D)}))


@pytest.mark.parametrize("curved", [0.0, 1.0])
def test_kinks_are_told(rng, curved):
    """Derivatives see none of them; with a curved part beside them there is a mode all the same."""

    def kinked(state, data, n):
        rest = data.y[n]
        for j in range(len(state.beta)):
            rest -= data.x[n, j] * state.beta[j]
        return -abs(rest) - 0.5 * curved * rest * rest

    x, eta = columns(rng)
    y = eta + rng.laplace(size=SIZE)
    with pytest.raises(ValueError, match="kinks"):
        sm.laplace(sm.Model(kinked, {"x": x, "y": y}, {"beta": np.zeros(D)}))


@pytest.mark.slow
def test_a_run_without_a_kernel_goes_along_the_fit(rng):
    """It walked, and did not mix."""
    x, eta = columns(rng)
    y = eta + rng.standard_normal(SIZE)
    model = sm.Model(normal, {"x": x, "y": y}, {"beta": np.zeros(D)})
    trace = sm.sample(model, draws=1_000, warmup=200, chains=2, seed=1, progress=False)
    draws, covariance = trace.draws["beta"].reshape(-1, D), np.linalg.inv(x.T @ x)
    z = (draws.mean(0) - covariance @ x.T @ y) / np.sqrt(np.diag(covariance))
    least = min(trace.mixing("beta").ess, len(draws))
    assert least > 500
    assert np.abs(z).max() < 6.0 / np.sqrt(least)  # of 80: wolf with probability 2e-7
