"""The gradient of a polynomial of sums, which proposals follow without data: of either order."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import make_controls
from subsample_mcmc.approx.taylor.polynomial import add_gradient, whole_sum
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.rewards import place, probe


@jit
def sum_and_slope(trial, arm, out):
    place(trial, arm)
    value = whole_sum(trial, 0)
    add_gradient(trial.control.arrays, trial, 0, out)
    return value


@pytest.mark.plain
@pytest.mark.parametrize("order", [2, 3])
def test_the_gradient_is_that_of_the_sum(order):
    """Beside central differences of the sum itself, two deviations off."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(300), rng.exponential(size=300), rng.standard_normal(300)])
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(0.5 - x[:, 1]))).astype(int)
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    controls = make_controls(sm.Taylor(fit, order=order), model, sm.Racing(), 2)
    away = 2.0 * rng.standard_normal((5, 3)) @ fit.factor.T
    ends = 1e-3 * np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
    curved = 0.0
    for at in fit.state["beta"] + away:
        trial = probe(model, model.ints.copy(), model.floats.copy(), at + ends, controls)
        values, slopes = np.zeros(7), np.zeros((7, 3))
        for arm in range(7):
            values[arm] = sum_and_slope(trial, arm, slopes[arm])
        right = (values[1:4] - values[4:]) / 2e-3
        assert slopes[0] == pytest.approx(right, abs=1e-3, rel=1e-4)
        bends = (slopes[1:4] - slopes[4:]) / 2e-3
        curved = max(curved, np.abs(bends + np.linalg.inv(fit.covariance)).max())
    assert order == 2 or curved > 1.0  # a third-order term is seen
