"""What rows without bounds score: their residuals where their predictors are two deviations off."""

import math

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_predictors import AWAY, Linear
from subsample_mcmc.numerics.progress import Bar


def test_scores_are_the_largest_residuals_along_all_ways(rng):
    """By each predictor alone, by both alike, and one against the other; and from the reference.

    Three kinds of rows, each of which one of these ways shows best; the last is no number there,
    so that nothing is known of it. What a row's log factor is at the reference does not count.
    """
    size = 40
    kind, x = np.arange(size) % 4, rng.uniform(0.2, 0.5, size)

    def eta(state, data, n):
        return state.a[0] * data.x[n], state.b[0] * data.x[n]

    def log_factor(e, data, n):
        if data.kind[n] == 0:
            return sm.exp(e[0] + e[1]) + 30.0
        if data.kind[n] == 1:
            return sm.exp(e[0] - e[1]) - 40.0
        if data.kind[n] == 2:
            return sm.exp(e[1]) + 0.1 * n
        return math.log(0.1 + e[0]) if e[0] > -0.1 else -math.inf

    def derivatives(e, data, n):
        if data.kind[n] == 0:
            f = sm.exp(e[0] + e[1])
            return f, f, f, f, f
        if data.kind[n] == 1:
            f = sm.exp(e[0] - e[1])
            return f, -f, f, -f, f
        if data.kind[n] == 2:
            f = sm.exp(e[1])
            return 0.0, f, 0.0, 0.0, f
        f = 1.0 / (0.1 + e[0]) if e[0] > -0.1 else math.nan
        return f, 0.0, -f * f, 0.0, 0.0

    model = sm.Model(
        sm.Predictors(eta, log_factor, derivatives), {"x": x, "kind": kind}, {"a": 0.0, "b": 0.0}
    )
    point, scores = np.zeros(2), np.zeros(size, dtype=np.float32)
    with Bar(disable=True) as bar:
        Linear(model, 2, False, point).score(model.ints, point, bar, np.eye(2), scores)
    t = AWAY * x  # with this metric a predictor's deviation is the length of its slopes

    def left(t):
        """Of exp(t), without its parabola; of both signs the larger."""
        return np.maximum(np.exp(t) - 1.0 - t - t**2 / 2, np.abs(np.exp(-t) - 1.0 + t - t**2 / 2))

    wanted = np.where(kind == 2, left(t), np.where(kind == 3, np.inf, left(2.0 * t)))
    np.testing.assert_allclose(scores, wanted, rtol=1e-4)
