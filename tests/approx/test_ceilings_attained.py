"""Ceilings of one parameter in closed form: where all that they add up has one sign, they hold."""

from types import SimpleNamespace

import numpy as np
import pytest

from subsample_mcmc.approx.taylor.ceilings import ceiling_of
from subsample_mcmc.approx.taylor.polynomial import LIMITS, terms

RADII = np.array([1e-6, 0.3, 1.0, 4.0])


def known(s0, s1, s2, s3, limits):
    """Sums of two configurations, of one parameter; s3: None, of second order."""
    third = np.zeros((0, 1, 1)) if s3 is None else np.array(s3).reshape(2, 1, 1)
    kept = np.zeros((2, LIMITS))
    kept[:, : limits.shape[1]] = limits
    return terms(
        np.array(s0), np.array(s1).reshape(2, 1), np.array(s2).reshape(2, 1, 1), third, kept
    )


@pytest.mark.plain
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("outliers", [0, 5])
def test_ceilings_of_one_parameter_are_attained(order, outliers):
    """That of a polynomial whose derivatives are all positive, with what is left over there.

    Seen from another reference, at which it is lower, and in units of that one's metric: a term of
    its value, slope or curvature that is left out makes them too low.
    """
    s3 = None if order == 2 else [-9.0, 1.7]
    bounds = np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.11]])  # remainder of the sum, .., growth
    whole = known([0.0, -3.0], [0.0, 2.0], [-4.0, 5.0], s3, bounds + [[0.0], [0.2]] * np.eye(3)[0])
    raced = known([0.0, -2.0], [0.0, 1.0], [-4.0, 4.0], s3, bounds)
    metric = np.array([2.0, 3.0]).reshape(2, 1, 1)
    sums = SimpleNamespace(
        points=np.array([[1.5], [0.7]]), metric=metric, whole=whole, raced=raced,
        used=np.array([1, 1]),
    )  # fmt: skip
    found = ceiling_of(sums, 1, np.array([1.5]), np.array([[0.5]]), RADII, outliers)
    step = 0.8 + RADII / 2.0  # from its own reference, to the far end of each radius
    value = -3.0 + 2.0 * step + 5.0 * step**2 / 2.0
    if order == 3:
        value += 1.7 * step**3 / 6.0
    size = 3.0 * step
    left = size**3 / 6.0 if order == 2 else size**4 / 24.0
    left *= np.exp(0.11 * size) * (0.3 + (0.5 if outliers else 0.0))
    assert np.all(found >= value + left)
    np.testing.assert_allclose(found, value + left, rtol=1e-4)


@pytest.mark.plain
def test_what_bends_down_does_so_from_the_inner_end():
    """And far from references so many times the bounds hold, and beyond that none."""
    bounds = np.zeros((2, 17))
    bounds[1, [0, 7, 9, 10]] = 0.3, 2.0, 5.0, 50.0
    sums = SimpleNamespace(
        points=np.zeros((2, 1)), metric=np.ones((2, 1, 1)), used=np.array([1, 1]),
        whole=known([0.0, 1.0], [0.0, 0.0], [-1.0, -6.0], None, bounds),
        raced=known([0.0, 1.0], [0.0, 0.0], [-1.0, -6.0], None, bounds),
    )  # fmt: skip
    radii = np.array([1.0, 2.0, 4.0, 6.0])
    found = ceiling_of(sums, 1, np.zeros(1), np.eye(1), radii, 0)
    inner = np.array([0.0, 1.0, 2.0])
    left = 0.3 * radii[:3] ** 3 / 6.0 * [1.0, 1.0, 50.0]
    np.testing.assert_allclose(found[:3], 1.0 - 3.0 * inner**2 + left, rtol=1e-4, atol=1e-5)
    assert found[3] == np.inf
