"""Numbers that know their derivatives, and intervals: signs, slopes and what rounding adds."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jets import intervals, ranges
from subsample_mcmc.numerics.jets.intervals import UNIT
from subsample_mcmc.numerics.jets.plain import PlainJet
from subsample_mcmc.numerics.jit import jit


@pytest.mark.parametrize(("c", "sign"), [
    ((1.0, -1.0, -1.0, -1.0), 1), ((-1.0, 2.0, 3.0, 4.0), -1), ((0.0, -2.0, 5.0, 0.0), -1),
    ((0.0, 0.0, 3.0, -4.0), 1), ((0.0, 0.0, 0.0, -4.0), -1),
])  # fmt: skip
def test_the_first_coefficient_decides_where_a_number_is_0(c, sign):
    """|g| an instant after t = 0, by the lowest power that is there."""
    assert abs(PlainJet((0.0, *c))).c[1:] == tuple(sign * x for x in c)


@jit
def reached_by(centre, off, s, slopes_off, radius, slack):
    return intervals.reached(centre, off, (s, 0.0, 0.0), slopes_off, radius, slack)


def test_how_far_an_affine_number_comes():
    """Radius (|slopes| + what they are off), slack, and what the centre is off."""
    low, high = reached_by(10.0, 0.125, 3.0, 0.5, 2.0, 0.25)
    far = 2.0 * (3.0 + 0.5) + 0.25 + 0.125
    assert 10.0 - far - 1e-13 < low < 10.0 - far and 10.0 + far < high < 10.0 + far + 1e-13


@jit
def off_of_two(sign):
    a = ranges.ball(1.0, 0.25, 1.0, 0.0, 0.0, 0.125, 0)
    b = ranges.ball(4.0, 0.5, 2.0, 0.0, 0.0, 0.0625, 0)
    c = ranges.ball_of_two(a, b, sign)
    return c.centre, c.off, c.s1, c.more


@jit
def off_of_a_multiple(x, over):
    a = ranges.ball(1.0, 0.25, 1.0, 0.0, 0.0, 0.125, 0)
    c = ranges.ball_over(a, x) if over else ranges.ball_times(a, x)
    return c.centre, c.off, c.s1, c.more


def test_what_balls_are_off_adds_up_and_is_multiplied():
    """Exact numbers, so that only UNIT of each is more."""
    for sign in (1.0, -1.0):
        centre, off, slope, more = off_of_two(sign)
        assert (centre, slope) == (1.0 + 4.0 * sign, 1.0 + 2.0 * sign)
        for found, least, size in ((off, 0.75, abs(centre)), (more, 0.1875, abs(slope))):
            assert least + 0.5 * UNIT * (least + size) < found < least + 2.0 * UNIT * (least + size)
    for over in (False, True):
        x = -1.0 / 8.0 if over else -8.0
        centre, off, slope, more = off_of_a_multiple(x, over)
        assert (centre, slope) == (-8.0, -8.0)
        for found, least in ((off, 2.0), (more, 1.0)):
            assert least + 0.5 * UNIT * (least + 8.0) < found < least + 8.0 * UNIT * (least + 8.0)


def test_logsumexp_of_nothing_and_of_all():
    """Where the difference of both is no number."""
    for x in (-np.inf, np.inf):
        assert float(sm.logsumexp(x, x)) == x
    assert float(sm.logsumexp(-np.inf, 1.0)) == float(sm.logsumexp(1.0, -np.inf)) == 1.0
