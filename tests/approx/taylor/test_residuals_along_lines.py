"""Residuals of rows along lines, in closed form: what is a polynomial of the order has none."""

from itertools import pairwise

import numpy as np
import pytest

from subsample_mcmc.approx.taylor.influence import (
    FAR,
    HALVINGS,
    HELD,
    LARGEST,
    NEAR,
    TRIES,
    length_of,
    residuals_at,
    ways_of,
)

AT = np.array([1.0, -1.0, FAR, -FAR, NEAR, -NEAR])


def seen(functions, points):
    """What is told of rows whose log likelihoods along a line are these functions."""
    middle = np.array([f(0.0) for f in functions])

    def read(trial, arm, rows, out):
        out[:] = [f(AT[arm - 1]) for f in functions]

    with np.errstate(all="ignore"):
        return residuals_at(read, None, np.arange(len(functions)), middle, points)


@pytest.mark.plain
def test_second_order_leaves_what_a_parabola_does_not_have():
    """The larger of both ends; whatever slope and curvature a row has beside."""
    functions = [
        lambda t: 2.0 - 5.0 * t + 3.0 * t * t,
        lambda t: 1.0 + 7.0 * t - 2.0 * t * t + 0.1 * t**3,
        lambda t: -7.0 * t + 0.1 * t**4,
        lambda t: 0.5 * t + (0.2 * t**4 - 0.2 * t * t if t > 0.0 else 0.0),
        lambda t: 40.0 * t - np.log(2.0 + t),  # no number at -FAR
        lambda t: 1e31 * t**4,
    ]
    cubic, quartic = 0.1 * (FAR**3 - FAR), 0.1 * (FAR**4 - FAR**2)
    np.testing.assert_allclose(
        seen(functions, 4), [0.0, cubic, quartic, 2.0 * quartic, np.inf, LARGEST], atol=1e-12
    )


@pytest.mark.plain
def test_third_order_tells_what_is_odd_from_a_cubic():
    """Two points more do: what is left is of fourth order, or of fifth."""
    functions = [
        lambda t: 2.0 - 5.0 * t + 3.0 * t * t - 0.7 * t**3,
        lambda t: 7.0 * t + 0.4 * t**3 + 0.1 * t**4,
        lambda t: -7.0 * t - 0.4 * t**3 + 0.01 * t**5,
    ]
    # An odd cubic through NEAR and 1 that agrees with t^5 there, and what t^5 is beyond it.
    third = (NEAR**5 - NEAR) / (NEAR**3 - NEAR)
    odd = 0.01 * abs(FAR**5 - FAR * (1.0 - third) - FAR**3 * third)
    np.testing.assert_allclose(seen(functions, 6), [0.0, 0.1 * (FAR**4 - FAR**2), odd], atol=1e-11)


@pytest.mark.plain
def test_lines_are_halved_and_begin_anew_in_free_coordinates():
    lengths = [length_of(tried) for tried in range(TRIES)]
    assert lengths[0] == lengths[HALVINGS + 1] == 1.0
    straight, free = lengths[: HALVINGS + 1], lengths[HALVINGS + 1 :]
    assert straight == free and all(b == 0.5 * a for a, b in pairwise(straight))


@pytest.mark.plain
def test_lines_are_means_given_that_one_coordinate_moves(rng):
    """Where a coordinate is held by the others, it also moves alone, by what they leave of it."""
    held = 0
    for _ in range(30):
        factor = np.tril(rng.standard_normal((4, 4))) + np.diag([0.3, 0.1, 0.5, 0.2])
        covariance = factor @ factor.T
        wanted = []
        for k in range(4):
            sd = np.sqrt(covariance[k, k])
            rest = [j for j in range(4) if j != k]
            step = np.zeros(4)
            step[k] = sd
            step[rest] = covariance[rest, k] / covariance[k, k] * sd
            wanted.append(step)
        for k in range(4):
            rest = [j for j in range(4) if j != k]
            gain = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, k])
            own = covariance[k, k] - covariance[k, rest] @ gain
            if own < HELD * covariance[k, k]:
                wanted.append(np.sqrt(own) * np.eye(4)[k])
                held += 1
        np.testing.assert_allclose(ways_of(factor), wanted, rtol=1e-6, atol=1e-9)
    assert 10 < held < 110
