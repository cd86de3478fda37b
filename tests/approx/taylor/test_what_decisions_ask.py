"""What decisions ask of a polynomial, from numbers that are put into its limits: in closed form.

Bounds and estimates are never seen to be too wide, nor a little too narrow, by what decisions do
with them. So each is compared with its formula, at distances that are read off the arms.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import controls_of, prepared_for
from subsample_mcmc.approx.taylor.polynomial import (
    CAREFUL,
    HEAVY,
    add_gradient,
    estimate,
    raced_sum,
    residual_bounds,
    spread,
    trusted,
    whole_sum,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.rewards import place, probe

ROWS, GROWTH, ROUNDING = 600, 0.05, 1e-3


@jit
def fill(trial, out):
    for arm in range(len(out)):
        place(trial, arm)
        out[arm] = whole_sum(trial, arm)


@jit
def told(trial, i, j, everything, out):
    out[0], out[1] = estimate(trial, i, j, everything), spread(trial, i, j)


@jit
def bounds_told(trial, out):
    out[0], out[1] = residual_bounds(trial)[:2]


@jit
def is_trusted(trial, arm):
    return trusted(trial, arm)


@jit
def sums_again(trial, arm, other, out):
    """At the place of the other arm: over all rows, over those that are raced."""
    place(trial, other)
    out[0] = whole_sum(trial, arm)
    out[1] = raced_sum(trial, arm)


@jit
def gradient_at(trial, arm, out):
    place(trial, arm)
    add_gradient(trial.control.arrays, trial, 0, out)


def bench(arms=4, outliers=0.0, likely=0, order=2):
    """Some arms of a regression, and the arrays that are asked of them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, 2))
    model = sm.models.glm.logistic(x, (rng.random(ROWS) < 0.4).astype(int))
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, outliers=outliers, order=order)
    prepared = prepared_for(model, control)
    bound = prepared.bind(arms)
    steps = rng.uniform(0.5, 2.0, (arms, 2))
    if arms == 2:  # so near each other that what lies between them counts
        steps[1] = 0.8 * steps[0] + [0.1, -0.2]
    points = fit.state["beta"] + steps @ fit.factor.T
    controls = controls_of(model, prepared.functions, bound, arms, prepared.outliers, 0, likely)
    trial = probe(model, model.ints.copy(), model.floats.copy(), points, controls)
    own = bound.arrays
    fill(trial, np.zeros(arms))
    return SimpleNamespace(trial=trial, own=own, points=points, prepared=prepared)


def limited(given, **columns):
    """With such numbers in some columns of the limits, over raced and all rows alike."""
    for parts in (given.own.sums.raced, given.own.sums.whole):
        parts.limits[:] = 0.0
        parts.limits[:, 2], parts.limits[:, 3], parts.limits[:, 16] = GROWTH, ROUNDING, 1e9
        for name, value in columns.items():
            parts.limits[:, int(name[1:])] = value
    return given


def left(size, order=2):
    """What a polynomial of this order leaves over at a distance, by a limit of 1."""
    return size**3 / 6.0 * np.exp(GROWTH * size) * (1.0 if order == 2 else size / 4.0)


def between(own, i, j, limit, order=2):
    """Both remainders, or what lies between them: of one order less, times the step."""
    a, b, gap = own.sizes[i], own.sizes[j], np.linalg.norm(own.scaled[i] - own.scaled[j])
    far = max(a, b)
    way = (order + 1) * left(far, order) * gap / far
    return limit * min(left(a, order) + left(b, order), way)


def asked(given, i, j, everything):
    out = np.zeros(2)
    told(given.trial, i, j, everything, out)
    return out


@pytest.mark.parametrize("likely", [1, 2])
def test_doubts_of_both_arms_are_added_up(likely):
    """Each by the factor of its own configuration: the careful one is the larger of the two."""
    given = limited(bench(likely=likely), _5=0.7)
    given.own.guesses[:] = [[0.1, 0.5], [0.2, 0.3], [-0.4, 0.9], [0.0, np.inf]]
    given.own.sums.learnt.doubts[0] = 0.01, 2.0, 5.0
    factor = {1: 5.0, 2: 2.0}[likely]
    for i, j in ((0, 1), (1, 2), (2, 0)):
        wanted = factor * (given.own.guesses[i, 1] + given.own.guesses[j, 1]) + ROUNDING * ROWS
        np.testing.assert_allclose(asked(given, i, j, True)[0], wanted, rtol=1e-12)
    for i, j in ((0, 3), (3, 1)):  # nothing was learnt of one: a pilot's remainder, and guesses
        wanted = between(given.own, i, j, 0.7) + ROUNDING * ROWS
        wanted += np.abs(given.own.guesses[[i, j], 0]).sum()
        np.testing.assert_allclose(asked(given, i, j, True)[0], wanted, rtol=1e-12)


@pytest.mark.parametrize(("far", "order"), [(0, 2), (1, 3)])
def test_what_no_pilot_has_seen_is_not_estimated(far, order):
    """Where either arm is farther off than its pilots were; and by its own column of limits."""
    given = limited(bench(arms=2, likely=2, order=order), _4=9.0, _5=0.7, _6=9.0)
    wanted = between(given.own, 0, 1, 0.7, order) + ROUNDING * ROWS
    np.testing.assert_allclose(asked(given, 0, 1, False)[0], wanted, rtol=1e-12)
    arms = (0, 1) if given.own.sizes[far] > given.own.sizes[1 - far] else (1, 0)
    limited(given, _5=0.7, _16=given.own.sizes.mean())  # one of both is beyond that
    assert asked(given, *arms, False)[0] == asked(given, *arms[::-1], False)[0] == np.inf


@pytest.mark.parametrize(("likely", "outliers", "wide"), [
    (2, 0.0, HEAVY), (2, 0.05, 1.0), (1, 0.0, CAREFUL), (1, 0.05, CAREFUL),
])  # fmt: skip
def test_spreads_are_wider_where_rows_or_delta_ask_for_it(likely, outliers, wide):
    given = limited(bench(likely=likely, outliers=outliers), _5=9.0, _6=0.3)
    given.own.guesses[:, 1] = 0.5, 0.3, 0.9, np.inf
    given.own.sums.learnt.spreads[0] = 0.0
    wanted = wide * between(given.own, 0, 1, 0.3)
    np.testing.assert_allclose(asked(given, 0, 1, False)[1], wanted, rtol=1e-12)
    given.own.sums.learnt.spreads[0] = 4.0
    wanted = wide * 4.0 * np.hypot(0.3, 0.9)
    np.testing.assert_allclose(asked(given, 1, 2, False)[1], wanted, rtol=1e-12)
    wanted = wide * between(given.own, 2, 3, 0.3)  # nothing was learnt of one
    np.testing.assert_allclose(asked(given, 2, 3, False)[1], wanted, rtol=1e-12)


@pytest.mark.parametrize("outliers", [0.0, 0.05])
@pytest.mark.parametrize("order", [2, 3])
def test_bounds_of_all_rows_are_not_those_of_the_raced(outliers, order):
    """Along all directions of several predictors: of the step's length, and of both ends' powers.

    Where no row is always read both are the same sum.
    """
    given = limited(bench(arms=2, outliers=outliers, order=order), _0=0.2, _8=1.0)
    if outliers:
        given.own.sums.whole.limits[:, 0] = 0.5
    own, out = given.own, np.zeros(2)
    bounds_told(given.trial, out)
    sizes, gap = own.sizes, np.linalg.norm(own.scaled[0] - own.scaled[1])
    far = sizes.max()

    mean = np.mean((sizes / far) ** order)
    way = (order + 1) * left(far, order) * mean * gap / far
    wanted = min(left(sizes[0], order) + left(sizes[1], order), way)
    whole = 0.5 if outliers else 0.2
    np.testing.assert_allclose(out, np.array([0.2, whole]) * wanted, rtol=1e-8)


def test_trust_ends_where_residuals_vary_as_much_as_likelihoods():
    """By the root of as many rows as are raced, times the distance, at least 1."""
    given = bench()
    for arm, size in enumerate(given.own.sizes):
        most = np.sqrt(ROWS) * max(size, 1.0) / left(size)
        for times in (0.999, 1.001):
            limited(given, _4=most * times)
            assert is_trusted(given.trial, arm) == (times < 1.0)


def test_an_arm_that_comes_to_the_other_one_knows_what_that_knew():
    """As where a proposal was accepted: all that is known of it, which need not be found anew."""
    given, out = bench(arms=2, likely=2), np.zeros(2)
    own = given.own
    own.guesses[1] = 0.25, 0.75
    sums_again(given.trial, 0, 1, out)
    assert out[0] == out[1] == own.values[1] == own.values[0]
    for known in (own.sizes, own.tables, own.steps, own.scaled, own.guesses):
        np.testing.assert_array_equal(known[0], known[1])


def test_a_gradient_leaves_no_sum_of_another_place():
    """It is that of the polynomial over all rows, as differences say; then sums are made anew."""
    given, slope, out = bench(arms=3, outliers=0.05), np.zeros(2), np.zeros(2)
    whole, point = given.own.sums.whole, given.own.sums.points[0]

    def value(x):
        d = x - point
        return whole.s0[0] + whole.s1[0] @ d + d @ whole.s2[0] @ d / 2.0

    for arm in (1, 2, 0):
        x = given.points[arm]
        gradient_at(given.trial, arm, slope)
        wanted = [(value(x + h) - value(x - h)) / 2e-3 for h in 1e-3 * np.eye(2)]
        np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-6)
        sums_again(given.trial, 0, arm, out)
        np.testing.assert_allclose(out[0], value(x), rtol=1e-12)
