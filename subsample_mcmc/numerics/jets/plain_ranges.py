"""Balls and Ranges in plain Python: the arithmetic of ranges.py."""

import ctypes
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jets import intervals, series
from subsample_mcmc.numerics.jets.unwrapped import plain

UNIT, NOTE = intervals.UNIT, 2


class UndecidedError(ArithmeticError):
    """A comparison is not the same everywhere."""


def note_at(address: int) -> Any:
    """[radius, slack]."""
    words: Any = (ctypes.c_double * NOTE).from_address(address)
    return np.frombuffer(words, dtype=float)


class Known:
    """A number of which is known between what it lies."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numbers of numpy leave operators to it

    def ends(self) -> "PlainRange":
        """As a Range."""
        raise NotImplementedError

    def __sub__(self, other):
        return self + -1.0 * other

    def __rsub__(self, other):
        return -1.0 * self + other

    def __neg__(self):
        return -1.0 * self

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other

    def __lt__(self, other):
        a, b = self.ends(), ends_of(other)
        return decided(a.high < b.low, a.low >= b.high)

    def __gt__(self, other):
        a, b = ends_of(other), self.ends()
        return decided(a.high < b.low, a.low >= b.high)

    def __le__(self, other):
        a, b = self.ends(), ends_of(other)
        return decided(a.high <= b.low, a.low > b.high)

    def __ge__(self, other):
        a, b = ends_of(other), self.ends()
        return decided(a.high <= b.low, a.low > b.high)

    def __eq__(self, other):
        a, b = self.ends(), ends_of(other)
        same = a.low == a.high and b.low == b.high and a.low == b.low
        return decided(same, a.high < b.low or b.high < a.low)

    def __ne__(self, other):
        return not self == other

    def __bool__(self):
        return self != 0.0


def decided(yes: bool, no: bool) -> bool:
    """What is the same everywhere; else there is no bound."""
    if not yes and not no:
        raise UndecidedError("a comparison is not the same everywhere")
    return bool(yes)


class PlainRange(Known):
    """low and high."""

    __slots__ = ("high", "low")

    def __init__(self, ends: tuple):
        self.low, self.high = ends

    def ends(self):
        return self

    def __add__(self, other):
        b = ends_of(other)
        found = plain(intervals.added)(self.low, self.high, b.low, b.high)
        return PlainRange(found)

    def __mul__(self, other):
        if not isinstance(other, Known):
            return PlainRange(plain(intervals.scaled)(self.low, self.high, other))
        b = other.ends()
        found = plain(intervals.multiplied)(self.low, self.high, b.low, b.high)
        return PlainRange(found)

    def __truediv__(self, other):
        return PlainRange(plain(intervals.divided)(self.low, self.high, other))


class PlainBall(Known):
    """centre +- off, three slopes +- more, and a note."""

    __slots__ = ("centre", "more", "note", "off", "slopes")

    def __init__(self, centre, off, slopes: tuple, more, note):
        self.centre, self.off, self.slopes, self.more, self.note = centre, off, slopes, more, note

    def ends(self):
        if not (self.note or self.off or self.more or any(self.slopes)):  # a constant
            return PlainRange((self.centre, self.centre))
        radius, slack = note_at(self.note) if self.note else (0.0, 0.0)
        found = plain(intervals.reached)(
            self.centre, self.off, self.slopes, self.more, radius, slack
        )
        return PlainRange(found)

    def __add__(self, other):
        if isinstance(other, PlainRange):
            return other + self.ends()
        if not isinstance(other, PlainBall):
            other = PlainBall(other, 0.0, (0.0, 0.0, 0.0), 0.0, 0)
        centre = self.centre + other.centre
        slopes = tuple(a + b for a, b in zip(self.slopes, other.slopes, strict=True))
        off, more = self.off + other.off, self.more + other.more
        return PlainBall(
            centre, off + UNIT * (abs(centre) + off), slopes,
            more + UNIT * (sum(map(abs, slopes)) + more), self.note | other.note,
        )  # fmt: skip

    def scaled(self, centre, slopes: tuple, size, unit):
        """It, times a number of this size."""
        return PlainBall(
            centre, size * self.off + unit * (abs(centre) + size * self.off), slopes,
            size * self.more + unit * (sum(map(abs, slopes)) + size * self.more), self.note,
        )  # fmt: skip

    def __mul__(self, x):
        if isinstance(x, Known):
            return self.ends() * x.ends()
        return self.scaled(self.centre * x, tuple(s * x for s in self.slopes), abs(x), UNIT)

    def __truediv__(self, x):
        x = np.float64(x)
        slopes = tuple(s / x for s in self.slopes)
        return self.scaled(self.centre / x, slopes, 1.0 / abs(x), 3.0 * UNIT)


def ends_of(value: Any) -> PlainRange:
    """A number, a Ball or a Range as a Range."""
    return value.ends() if isinstance(value, Known) else PlainRange((value, value))


def table_of(found: Any) -> Any:
    """A function of one Range or Ball: its derivatives over k!, as Ranges."""

    def of_range(x, *more):
        own = ends_of(x)
        f = plain(found)(np.float64(own.low), np.float64(own.high), *more)
        return tuple(PlainRange((f[2 * k], f[2 * k + 1])) for k in range(5))

    return of_range


POWER = table_of(intervals.power)
NAMES = {name: table_of(found) for name, found in intervals.FUNCTIONS.items()}
# By the functions of series.py that they stand for, as plain.py calls these.
TABLES = {plain(series.FUNCTIONS[name]): found for name, found in NAMES.items()}
TABLES |= {
    plain(series.OURS[name][1]): table_of(found) for name, found in intervals.OURS.items()
} | {plain(series.reciprocal): table_of(intervals.reciprocal)}


def parameter(value: float, row: np.ndarray) -> tuple[PlainBall, PlainRange]:
    """(a Ball, its slope along the direction in hand) of words."""
    *slopes, along = row[:4].view(float)
    note = int(row[4])
    return PlainBall(value, 0.0, tuple(slopes), 0.0, note), PlainRange((along, along))


def ends_of_coefficient(c: tuple, order: int) -> tuple:
    """Ends of the coefficient of t^order, and of the value."""
    one, value = ends_of(c[order]), ends_of(c[0])
    return one.low, one.high, value.low, value.high
