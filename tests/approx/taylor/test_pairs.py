"""What a row's residual may change by between two states, which sm.Thinned draws rows by."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import polynomial
from subsample_mcmc.approx.thinning import ROUNDING
from subsample_mcmc.numerics.jit import jit
from tests.helpers.tall import Bench, regression, softmax

compiled: dict = {}


@jit
def most(w, power):
    return polynomial.most_of(w, power)


@pytest.mark.plain
@pytest.mark.parametrize("power", [2, 3])
def test_the_worst_direction(power):
    """Over all unit vectors of a plane, and beyond it by draws."""
    turn = np.linspace(0.0, np.pi, 100_001)
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((20_000, 4))
    wide /= np.linalg.norm(wide, axis=1)[:, None]
    for phi in np.linspace(0.0, np.pi, 33):
        found = np.max(np.abs(np.cos(turn)) * np.abs(np.cos(phi - turn)) ** power)
        said = most(abs(np.cos(phi)), float(power))
        assert found * (1.0 - 1e-12) <= said <= found * (1.0 + 1e-6)
        x = np.array([np.cos(phi), np.sin(phi), 0.0, 0.0])
        assert np.max(np.abs(wide[:, 0]) * np.abs(wide @ x) ** power) <= said


def ratios(model, control, points):
    """The largest ratio of what a row's residuals differ by to its bound, of each pair."""
    weights, found = prepared_for(model, control).row_weights, []
    for one in range(len(points)):
        for two in range(len(points)):
            if one == two:
                continue
            bench = Bench(model, control, points[[one, two]])
            functions = bench.prepared.functions
            if functions.bounds not in compiled:
                bounds = functions.bounds
                compiled[bounds] = jit(lambda trial, bounds=bounds: bounds(trial))
            whole, _, rounding, _ = compiled[functions.bounds](bench.trial)
            limits = whole * weights.units[0, 0] * weights.bounds[0]
            off = np.abs(bench.residuals(1) - bench.residuals(0)) - ROUNDING * rounding
            found.append(np.max(off / np.maximum(limits, 1e-300)))
    return np.array(found)


def eta(state, data, n):
    return state.beta[0] * data.x[n, 0] + state.beta[1] * data.x[n, 1]


def quadratic_derivatives(e, data, n):
    return -e, -1.0


def quartic_derivatives(e, data, n):
    return -e, -1.0, 0.0


def unit_factor(e, data, n):
    return -0.5 * e * e + e**3 / 60.0


def quartic_factor(e, data, n):
    return -0.5 * e * e + e**4 / 240.0


def unit_remainder(e, data, n):
    return 0.1, 0.1


@pytest.mark.parametrize("order", [2, 3])
def test_the_bound_is_attained_and_never_exceeded(order):
    """Rows in all directions, whose derivative of the next order is constant."""
    turn = np.linspace(0.0, 2.0 * np.pi, 720, endpoint=False)
    x = np.column_stack([np.cos(turn), np.sin(turn)])
    factor = unit_factor if order == 2 else quartic_factor
    derivatives = quadratic_derivatives if order == 2 else quartic_derivatives
    parts = sm.Predictors(eta, factor, derivatives, unit_remainder)
    model = sm.Model(parts, {"x": x}, {"beta": np.zeros(2)})
    control = sm.Taylor({"beta": np.zeros(2)}, order=order, outliers=0.0)
    rng = np.random.default_rng(1)
    far = rng.standard_normal((9, 2)) * np.geomspace(0.1, 3.0, 9)[:, None]
    near = far[:4] * (1.0 + 1e-3) + 1e-3 * rng.standard_normal((4, 2))
    found = ratios(model, control, np.concatenate([far, near, np.zeros((1, 2))]))
    assert 0.99 < found.max() <= 1.0


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("family", ["logistic", "poisson", "softmax"])
def test_the_bound_of_families(family, order):
    """Also where it grows with the distance, and where rows have several predictors."""
    if family == "softmax":
        model, reference = softmax(300, 2, "given")
    else:
        model, reference = regression(family, 300, 2, "given", heavy=True, scale=0.3)
    centre = np.ravel(reference["beta"])
    rng = np.random.default_rng(2)
    steps = rng.standard_normal((12, len(centre))) * np.geomspace(0.01, 1.0, 12)[:, None]
    points = np.concatenate([centre + steps, centre + steps[::4] * (1.0 + 1e-4), centre[None]])
    control = sm.Taylor(reference, order=order, outliers=0.0)
    found = ratios(model, control, points)
    assert (0.1 if family != "softmax" else 0.01) < found.max() <= 1.0


def two_etas(state, data, n):
    return state.beta[0] * data.x[n], state.beta[1] * data.x[n]


def mixed_factor(e, data, n):
    return -0.5 * (e[0] ** 2 + e[1] ** 2) + 0.05 * e[0] * e[1] ** data.power[0]


def mixed_squares(e, data, n):
    return -e[0], -e[1], -1.0, 0.0, -1.0


def mixed_cubes(e, data, n):
    return -e[0], -e[1], -1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0


def mixed_remainder(e, data, n):
    """Of .05 a b^2 and .05 a b^3 along unit directions: 6 * .385, and 24 * .325 times .05."""
    return 0.3 * 2.0 / 27.0**0.5, 1.2 * 27.0**0.5 / 16.0


@pytest.mark.parametrize("order", [2, 3])
def test_several_predictors_may_meet_at_any_angle(order):
    """A move along the first, where the second stands far from the reference.

    Their angle in the parameters tells as much as with one predictor, and no more.
    """
    derivatives = mixed_squares if order == 2 else mixed_cubes
    parts = sm.Predictors(two_etas, mixed_factor, derivatives, mixed_remainder)
    data = {"x": np.ones(50), "power": np.full(50, float(order))}
    model = sm.Model(parts, data, {"beta": np.zeros(2)})
    control = sm.Taylor({"beta": np.zeros(2)}, order=order, outliers=0.0)
    found = ratios(model, control, np.array([[-0.01, 1.0], [0.01, 1.0]]))
    assert (0.7 if order == 2 else 0.5) < found.max() <= 1.0


def exponential_factor(e, data, n):
    return sm.exp(e) - 3.0 * e


def exponential_derivatives(e, data, n):
    return sm.exp(e) - 3.0, sm.exp(e), sm.exp(e)


def exponential_remainder(e, data, n):
    return sm.exp(e), sm.exp(e)


@pytest.mark.parametrize("order", [2, 3])
def test_a_bound_that_grows_is_that_of_the_farther_end(order):
    """From near the reference outwards, where derivatives grow as fast as they may."""
    parts = sm.Predictors(
        lambda state, data, n: state.beta[0] * data.x[n], exponential_factor,
        exponential_derivatives, exponential_remainder, growth=1.0,
    )  # fmt: skip
    model = sm.Model(parts, {"x": np.ones(50)}, {"beta": np.zeros(1)})
    control = sm.Taylor({"beta": np.zeros(1)}, order=order, outliers=0.0)
    found = ratios(model, control, np.array([[0.05], [1.0], [3.0], [6.0]]))
    assert 0.4 < found.max() <= 1.0
