"""What sm.derivatives says that a polynomial leaves over: of one parameter it is known."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_shown import FAR, Derivatives
from subsample_mcmc.approx.taylor.references import deviations_of


def log_likelihood(state, data, n):
    return data.y[n] * state.theta[0] - sm.exp(data.x[n] * state.theta[0])


def test_what_is_left_is_of_half_a_standard_deviation(rng):
    """Of all rows, in root mean square, and as a part of what the log likelihood changes by.

    The step is up or down; at half of it a cubic's remainder is a sixteenth, or nearly. Of so few
    rows steps were .4 of a deviation, and what is left was said to be a fifteenth.
    """
    x, y = rng.uniform(0.5, 1.5, 300), rng.uniform(0.5, 1.5, 300)
    model = sm.Model(log_likelihood, {"x": x, "y": y}, {"theta": 0.2})
    found = sm.derivatives(model, order=3)
    assert found.rows == 300 and found.parameters == 1
    first = np.exp(0.2 * x)
    sd = (first @ x**2) ** -0.5
    ends = []
    for step in (FAR * sd, -FAR * sd):
        each = []
        for h in (step, 0.5 * step):
            t = x * h
            each.append(np.sqrt(np.mean((first * (np.expm1(t) - t - t**2 / 2 - t**3 / 6)) ** 2)))
        change = np.sqrt(np.mean((y * step - first * np.expm1(x * step)) ** 2))
        ends.append((each[0] / change, np.log2(each[0] / each[1])))
    assert any(np.allclose((found.left, found.power), end, rtol=0.05) for end in ends), (
        found,
        ends,
    )


@pytest.mark.parametrize("size", [300, 3_000])
@pytest.mark.parametrize("at", [0.001, 0.2, 5.0])
def test_deviations_are_those_of_a_mean(size, at, rng):
    """The log likelihood's curvature stood out of the rounding long before: .04 to 1 of them."""
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.mu[0]) ** 2,
        {"y": rng.standard_normal(size)}, {"mu": 0.0},
    )  # fmt: skip
    found = deviations_of(model, model.ints, np.array([at]))
    assert found == pytest.approx(size**-0.5, rel=0.01)


@pytest.mark.plain
@pytest.mark.parametrize(("parameters", "points"), [(1, 3), (2, 7), (5, 31)])
def test_points_of_an_interpolation_are_told(parameters, points):
    """Of the middle, both ways along each parameter, and along each two of them."""
    told = Derivatives("interpolation", "", 2, parameters, 10.0, 7, 0.1, 3.0)
    assert f"by interpolation between {points} points" in str(told)
