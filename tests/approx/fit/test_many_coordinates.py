"""sm.laplace of plain functions with more coordinates than differences serve.

Their predictors are found; fits are compared with closed forms, and with those by sm.Predictors.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit.laplace import Summed

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


def one_through_its_distance(rng, d, size=1_500):
    """Rows that see all coefficients, and as many that see the first through an absolute value."""
    x = rng.standard_normal((2 * size, d))
    x[size:] = 0.0
    y = x @ rng.normal(0.0, 0.3, d) + rng.standard_normal(2 * size)
    y[size:] = rng.laplace(size=size)

    def log_likelihood(state, data, n):
        if data.far[n] == 1:
            return -abs(data.y[n] - state.beta[0])
        return normal(state, data, n)

    far = np.repeat([0, 1], size)
    model = sm.Model(log_likelihood, {"x": x, "y": y, "far": far}, {"beta": np.zeros(d)})
    return model, x[:size], y


@pytest.mark.parametrize("seed", [0, 1])
def test_a_kink_along_one_coordinate_is_seen(seed):
    """Of 20, seed 0: a twelfth of the standard deviation, as directions were mixtures of all."""
    model, x, y = one_through_its_distance(np.random.default_rng(seed), 20)
    fit = sm.laplace(model)
    covariance = np.linalg.inv(x.T @ x)
    mean, sd = (covariance @ x.T @ y[: len(x)])[0], covariance[0, 0] ** 0.5
    at = np.linspace(mean - 6.0 * sd, mean + 6.0 * sd, 4_001)
    log_p = -0.5 * ((at - mean) / sd) ** 2 - np.abs(y[len(x) :, None] - at).sum(axis=0)
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    true = np.sqrt(weights @ (at - weights @ at) ** 2)
    assert abs(fit.covariance[0, 0] ** 0.5 / true - 1.0) < 0.15
    assert abs(fit.mean[0] - weights @ at) < 0.1 * true


@pytest.mark.parametrize("seed", [0, 1])
def test_of_many_coefficients_it_is_refused(seed):
    model, _, _ = one_through_its_distance(np.random.default_rng(seed), D, 1_300)
    with pytest.raises(ValueError, match="kinks"):
        sm.laplace(model)


def test_rows_that_see_no_coefficient_are_no_obstacle(rng):
    """One in 500 sees them, as where others are masked: a sample of rows sees none."""
    x, eta = columns(rng, 200)
    y, seen = np.zeros(100_000), np.zeros(100_000, dtype=int)
    row = np.zeros(100_000, dtype=int)
    places = rng.choice(100_000, 200, replace=False)
    seen[places], row[places] = 1, np.arange(200)
    y[places] = eta + rng.standard_normal(200)

    def log_likelihood(state, data, n):
        if data.seen[n] == 0:
            return 0.0
        rest = data.y[n]
        for j in range(len(state.beta)):
            rest -= data.x[data.row[n], j] * state.beta[j]
        return -0.5 * rest * rest

    data, tables = {"y": y, "seen": seen, "row": row}, {"x": x}
    fit = sm.laplace(sm.Model(log_likelihood, data, {"beta": np.zeros(D)}, tables=tables))
    covariance = np.linalg.inv(x.T @ x)
    np.testing.assert_allclose(fit.mean, covariance @ x.T @ y[places], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(fit.covariance, covariance, rtol=1e-6, atol=1e-10)


def test_why_no_predictors_are_found_is_told(rng):
    def five(state, data, n):
        total = 0.0
        for k in range(7):
            eta = 0.0
            for j in range(10):
                eta += data.x[n, 10 * k + j] * state.beta[10 * k + j]
            total -= eta * eta * (1.0 + eta * eta)
        return total

    model = sm.Model(five, {"x": rng.standard_normal((300, 70))}, {"beta": np.zeros(70)})
    with pytest.raises(ValueError, match=r"too many.*Here datum 0 .* more than 4 predictors"):
        sm.laplace(model)


def test_a_datum_that_is_not_finite_is_not_blamed_on_kinks(rng):
    x, y = columns(rng, 500)
    y[17] = 1e200
    with pytest.raises(ValueError, match="of datum 17") as told:
        sm.laplace(sm.Model(normal, {"x": x, "y": y}, {"beta": np.zeros(D)}))
    assert "kinks" not in str(told.value)


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-3, 1e-4])
def test_what_a_narrow_prior_alone_holds_is_fitted_where_a_search_begins_at_its_mode(scale):
    """Steps that data suggest, which say nothing there, were too long: 2.8 times the sd at 1e-3."""
    y = np.random.default_rng(0).standard_normal(300)

    def log_prior(state):
        return -2.0 * np.log(1.0 + (state.b[0] / scale) ** 2 / 3.0)

    likelihood = sm.Predictors(
        lambda state, data, n: state.b[0] * data.x[n],
        lambda e, data, n: -0.5 * (data.y[n] - e) ** 2,
    )
    model = sm.Model(likelihood, {"x": np.zeros(300), "y": y}, {"b": 0.0}, log_prior)
    fit = sm.laplace(model)
    assert fit.covariance[0, 0] ** 0.5 == pytest.approx(scale * 0.75**0.5, rel=1e-4)


def test_what_data_tell_little_of_has_no_kinks_by_rounding(rng, monkeypatch):
    """A prior a million times as narrow: data bend there by less than sums of them are rounded."""
    x = rng.standard_normal((20_000, 2)) * [1.0, 1e-6]
    y = 1e3 + x[:, 0] + rng.standard_normal(20_000)

    def log_likelihood(state, data, n):
        rest = data.y[n] - state.b[0] - state.b[1] * data.x[n, 0] - state.b[2] * data.x[n, 1]
        return -0.5 * rest * rest

    model = sm.Model(
        log_likelihood, {"x": x, "y": y}, {"b": np.zeros(3)}, lambda s: -0.5 * (s.b[2] / 0.1) ** 2
    )
    asked, seen = Summed.kinked, []
    monkeypatch.setattr(Summed, "kinked", lambda *given: seen.append(asked(*given)) or seen[-1])
    fit = sm.laplace(model)
    assert seen == [False]
    design = np.column_stack([np.ones(len(y)), x])
    covariance = np.linalg.inv(design.T @ design + np.diag([0.0, 0.0, 100.0]))
    np.testing.assert_allclose(fit.covariance, covariance, rtol=1e-4, atol=1e-9)
