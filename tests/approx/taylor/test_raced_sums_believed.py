"""What a pilot believes of the raced sum, where some rows are always read."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import pilot
from subsample_mcmc.approx.taylor.remainder import how_many
from subsample_mcmc.numerics.jit import DISABLED

ROWS, FROM = 2_000, 2.8  # standard deviations beyond which the likelihood falls steeply


@pytest.mark.skipif(DISABLED, reason="thousands of exact sums")
@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_sums_are_believed_no_better_than_at_many_points(outliers):
    """Some 3,000 exact sums know a bend that none of the pilot's two dozen points came to.

    Each of the raced sum and the sum over all is believed up to what it left over there, whether
    rows are always read or not: no false alarms.
    """
    rng = np.random.default_rng(0)
    y, weight = rng.standard_normal(ROWS), np.where(np.arange(ROWS) % 50 == 0, 3.0, 1.0)
    mean, sd = float(np.average(y, weights=weight)), float(weight.sum() ** -0.5)
    far = mean + FROM * sd

    def log_likelihood(state, data, n):
        value = -0.5 * data.w[n] * (data.y[n] - state.theta[0]) ** 2
        return value - 20.0 * data.w[n] * max(state.theta[0] - far, 0.0)

    model = sm.Model(log_likelihood, {"y": y, "w": weight}, {"theta": mean})
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=2, outliers=outliers)
    prepared = prepared_for(model, control)
    prepared.study(control)
    sums, raced = prepared.sums, np.setdiff1d(np.arange(ROWS), prepared.outliers)
    assert len(raced) == ROWS * (1.0 - outliers)
    theta = pilot.drawn(fit, how_many(ROWS)).ravel()
    theta = theta[theta > far]
    assert len(theta) > 3
    for parts, rows in ((sums.raced, raced), (sums.whole, np.arange(ROWS))):
        left = 20.0 * weight[rows].sum() * (theta - far)  # all else is a parabola
        sizes = abs(sums.metric[0, 0, 0]) * np.abs(theta - sums.points[0, 0])
        assert np.all(left <= parts.limits[0, 5] * pilot.unit_of(parts, sizes))
