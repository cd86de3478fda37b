"""Fits of models whose data see two predictors, of which nobody gave derivatives."""

import numpy as np

import subsample_mcmc as sm


def test_the_covariance_of_two_predictors_without_derivatives(rng):
    """Where both stand in one square, so that mixed differences tell their correlation.

    The posterior is a Gaussian, known in closed form.
    """
    x, y = rng.uniform(0.0, 1.0, 400), rng.standard_normal(400) + 0.5

    def eta(state, data, n):
        return state.a[0] * data.x[n], state.b[0] * data.x[n]

    def log_factor(e, data, n):
        return -0.5 * (data.y[n] - e[0] - 0.7 * e[1]) ** 2 - 0.5 * (e[1] - 0.3) ** 2

    model = sm.Model(
        sm.Predictors(eta, log_factor), {"x": x, "y": y}, {"a": 0.0, "b": 0.0},
        lambda s: -0.5 * (s.a[0] ** 2 + s.b[0] ** 2),
    )  # fmt: skip
    fit, square = sm.laplace(model), float(np.sum(x * x))
    precision = np.eye(2) + square * np.array([[1.0, 0.7], [0.7, 0.49 + 1.0]])
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(precision), rtol=1e-5)
    slope = np.array([np.sum(x * y), 0.7 * np.sum(x * y) + 0.3 * np.sum(x)])
    np.testing.assert_allclose(fit.mean, np.linalg.solve(precision, slope), rtol=1e-5)
