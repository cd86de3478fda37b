"""What compiled functions may do with Lines and Jets: what is not listed here does not compile.

Comparisons are by value. Where two arguments of max or min are equal, or that of abs is 0, it is as
an instant later along the line: so what is written with them, and smooth, has its derivatives, and
of what has a kink there they are those to one side (derivatives_jets.py looks for such rows).
"""

import math
import operator
from typing import Any

import numpy as np
from numba import types

from subsample_mcmc.numerics import special
from subsample_mcmc.numerics.jets import arrays, held, kinds, ranges, series, tapes
from subsample_mcmc.numerics.jets.filled import copied, filling
from subsample_mcmc.numerics.jets.held import enter, is_held, is_unknown
from subsample_mcmc.numerics.jets.kinds import (
    SEVERAL,
    LanesType,
    coefficients,
    coefficients_in_lanes,
    jet,
    jet_of,
    lanes_in,
    line_of,
    part_of,
    point,
    rank,
    sign,
    width_of,
)
from subsample_mcmc.numerics.jets.overloads import overload, serve
from subsample_mcmc.numerics.jit import FLAGS, jit

__all__ = [
    "LANES",
    "add_lanes",
    "arrays",
    "coefficients",
    "coefficients_in_lanes",
    "ends_of_coefficient",
    "filling",
    "lane",
    "no_lanes",
    "point",
    "readable",
    "squaring",
    "write_rest",
]

LANES, lane, no_lanes, add_lanes = kinds.LANES, kinds.lane, kinds.no_lanes, kinds.add_lanes
words_of, write_rest = tapes.words_of, tapes.write_rest
held_in_table, read_from_table, finish_table = held.writing, held.reading, held.finish
TABLE_SHAPE = held.ROWS, held.WIDTH
parameter, ends_of_coefficient = ranges.parameter, ranges.ends_of_coefficient
plus, minus, times, product = series.plus, series.minus, series.times, series.product
of_line, of_series = series.of_line, series.of_series


# Where lines bend, besides functions of one number.
SUM, POWER, FACTOR, OTHER_FACTOR = map(held.site, ("sum", "power", "factor", "other factor"))
LARGER, LESS = map(held.site, ("larger", "less"))
FIRST_TERM, SECOND_TERM = map(held.site, ("first term", "second term"))


# ---------------------------------------------------------------------------------------- of lanes
def lane_by_lane(*functions, by) -> None:
    """Register an operation on lanes, or on lanes and a number."""

    def chosen(a, b):
        both = all(isinstance(one, LanesType | types.Number | types.Boolean) for one in (a, b))
        return (lambda a, b: by(a, b)) if both and SEVERAL in (a, b) else None  # noqa: PLW0108

    for function in functions:
        overload(function)(chosen)


ADD, SUBTRACT, MULTIPLY, DIVIDE = kinds.ADD, kinds.SUBTRACT, kinds.MULTIPLY, kinds.DIVIDE
lane_by_lane(operator.add, operator.iadd, by=ADD)
lane_by_lane(operator.sub, operator.isub, by=SUBTRACT)
lane_by_lane(operator.mul, operator.imul, by=MULTIPLY)
lane_by_lane(operator.truediv, operator.itruediv, by=DIVIDE)


# ---------------------------------------------------------------------------------- the operators
def of_two(*functions, literal: bool = False):
    """Register make(ranks, a, b) -> implementation, for two of which one is no number."""

    def register(make):
        def chosen(a, b):
            ranks = rank(a), rank(b)
            return make(ranks, a, b) if 0 < max(ranks) < 9 else None

        for function in functions:
            overload(function, literal=literal, strict=False)(chosen)
        return make

    return register


@of_two(operator.add, operator.iadd)
def add(ranks, a, b):
    if ranks == (1, 1):
        return lambda a, b: line_of((a.c[0] + b.c[0], a.c[1] + b.c[1]))
    if ranks == (1, 0):
        return lambda a, b: line_of((a.c[0] + b, a.c[1]))
    if ranks == (0, 1):
        return lambda a, b: line_of((a + b.c[0], b.c[1]))
    if ranks == (2, 0):
        return lambda a, b: jet_of((a.c[0] + b, a.c[1], a.c[2], a.c[3], a.c[4]))
    if ranks == (0, 2):
        return lambda a, b: jet_of((a + b.c[0], b.c[1], b.c[2], b.c[3], b.c[4]))
    if is_held(a, b):
        return lambda a, b: enter(a, SUM) + enter(b, SUM)
    if ranks == (2, 1):
        return lambda a, b: jet_of((a.c[0] + b.c[0], a.c[1] + b.c[1], a.c[2], a.c[3], a.c[4]))
    if ranks == (1, 2):
        return lambda a, b: jet_of((a.c[0] + b.c[0], a.c[1] + b.c[1], b.c[2], b.c[3], b.c[4]))
    return lambda a, b: jet_of(plus(a.c, b.c))


@of_two(operator.sub, operator.isub)
def subtract(ranks, a, b):
    if ranks == (1, 1):
        return lambda a, b: line_of((a.c[0] - b.c[0], a.c[1] - b.c[1]))
    if ranks == (1, 0):
        return lambda a, b: line_of((a.c[0] - b, a.c[1]))
    if ranks == (2, 0):
        return lambda a, b: jet_of((a.c[0] - b, a.c[1], a.c[2], a.c[3], a.c[4]))
    if ranks == (2, 1) and not is_held(b):
        return lambda a, b: jet_of((a.c[0] - b.c[0], a.c[1] - b.c[1], a.c[2], a.c[3], a.c[4]))
    if ranks == (2, 2):
        return lambda a, b: jet_of(minus(a.c, b.c))
    return lambda a, b: a + (-b)


@of_two(operator.mul, operator.imul)
def multiply(ranks, a, b):
    if ranks == (1, 0):
        return lambda a, b: line_of((a.c[0] * b, a.c[1] * b))
    if ranks == (2, 0):
        return lambda a, b: jet_of(times(a.c, b))
    if ranks[0] == 0 or ranks == (2, 1):
        return lambda a, b: b * a
    if is_held(a, b):
        return lambda a, b: enter(a, FACTOR) * enter(b, OTHER_FACTOR)
    if ranks == (1, 1):
        return lambda a, b: jet_of(series.product_of_lines(a.c, b.c))
    if ranks == (1, 2):
        return lambda a, b: jet_of(series.product_with_line(a.c, b.c))
    return lambda a, b: jet_of(product(a.c, b.c))


@of_two(operator.truediv, operator.itruediv)
def divide(ranks, a, b):
    if ranks == (1, 0):
        return lambda a, b: line_of((a.c[0] / b, a.c[1] / b))
    if ranks == (2, 0):
        return lambda a, b: jet_of(series.over(a.c, b))
    return lambda a, b: a * inverse(b)


def inverse(a):
    """1 / a."""


def whole(exponent: Any) -> int:
    """A small whole exponent that is written in the source; -1 else."""
    if isinstance(exponent, types.IntegerLiteral) and 0 <= exponent.literal_value <= 4:
        return exponent.literal_value
    return -1


@of_two(operator.pow, operator.ipow, literal=True)
def raise_to(ranks, a, b):
    known, ranged = whole(b), ranks[1] == 0 and a.slope == ranges.RANGE
    if known == 1:
        return lambda a, b: a
    if is_held(a) and known == 2:
        return lambda a, b: enter(a, POWER) ** 2
    if is_held(a) and known == 3:
        return lambda a, b: enter(a, POWER) ** 3
    if is_held(a) and known == 4:
        return lambda a, b: enter(a, POWER) ** 4
    if ranged and known in (2, 4):
        known = -1  # of a * a nobody knows that both are one number, and that it is not negative
    if known == 2:
        return lambda a, b: a * a
    if known == 3:
        return lambda a, b: a * a * a
    if known == 4:
        return lambda a, b: (a * a) * (a * a)
    power = ranges.power if ranged else series.power
    if ranks == (1, 0) and is_held(a):
        return lambda a, b: enter(a, POWER) ** b
    if ranks == (1, 0):
        return lambda a, b: jet_of(of_line(power(a.c[0], float(b)), a.c[1]))
    if ranks == (2, 0):
        return lambda a, b: jet_of(of_series(power(a.c[0], float(b)), a.c))
    return lambda a, b: np.exp(b * np.log(a))


@of_two(math.pow, np.power)
def powers(ranks, a, b):
    return lambda a, b: a**b


@overload(operator.neg)
def negative(a):
    if isinstance(a, LanesType):
        return lambda a: MULTIPLY(a, -1.0)
    if rank(a) == 1:
        return lambda a: line_of((-a.c[0], -a.c[1]))
    return (lambda a: jet_of(times(a.c, -1.0))) if rank(a) == 2 else None


@overload(operator.pos)
def positive(a):
    return (lambda a: a) if rank(a) in (1, 2) else None


# ------------------------------------------------------------------------------------ comparisons
def value(a):
    """Of a number, a Line or a Jet: the number."""


@overload(value)
def value_of(a):
    return (lambda a: a.c[0]) if rank(a) else (lambda a: a)


def is_written(*kinds: Any) -> bool:
    """Are slopes written down where they bend, or are compared: then a branch depends on them."""
    return any(rank(kind) in (1, 2) and kind.slope == tapes.TRACED for kind in kinds)


def slope(a):
    """Of a Line or a Jet; 0 of a number."""


@overload(slope)
def slope_of(a):
    return (lambda a: a.c[1]) if rank(a) else (lambda a: 0.0)


def compared(function, by_value) -> None:
    """Register a comparison, by value."""

    @of_two(function)
    def compare(ranks, a, b):
        if is_unknown(a, b):
            return None
        if not is_written(a, b):
            return by_value

        def written(a, b):
            tapes.note(slope(a) - slope(b))
            return by_value(a, b)

        return written


compared(operator.lt, lambda a, b: value(a) < value(b))
compared(operator.le, lambda a, b: value(a) <= value(b))
compared(operator.gt, lambda a, b: value(a) > value(b))
compared(operator.ge, lambda a, b: value(a) >= value(b))
compared(operator.eq, lambda a, b: value(a) == value(b))
compared(operator.ne, lambda a, b: value(a) != value(b))


def question(function) -> None:
    """Register a question of one number, by value."""

    @overload(function, strict=False)
    def ask(x):
        known = rank(x) in (1, 2) and not is_unknown(x)
        return (lambda x: function(x.c[0])) if known else None


for function in (math.isnan, math.isinf, math.isfinite, np.isnan, np.isinf, np.isfinite):
    question(function)


def larger(a, b):
    """The larger of two Jets."""


@overload(larger)
def larger_of(a, b):
    def choose(a, b):
        if a.c[0] > b.c[0]:
            return a
        if a.c[0] == b.c[0]:
            return b + jet_of(series.at_zero(times(minus(a.c, b.c), 0.5), sign, 1.0))
        return b

    def written(a, b):
        tapes.note(a.c[1] - b.c[1])
        return choose(a, b)

    return written if is_written(a, b) else choose


@of_two(max, np.maximum, np.fmax)
def maximum(ranks, a, b):
    if is_held(a, b):
        return lambda a, b: max(enter(a, LARGER), enter(b, LESS))
    return lambda a, b: larger(jet(a, b), jet(b, a))


@of_two(min, np.minimum, np.fmin)
def minimum(ranks, a, b):
    if is_held(a, b):
        return lambda a, b: min(enter(a, LARGER), enter(b, LESS))
    return lambda a, b: -larger(-jet(a, b), -jet(b, a))


@overload(abs)
@overload(np.abs, strict=False)
@overload(np.fabs, strict=False)
@overload(math.fabs, strict=False)
def absolute(x):
    if rank(x) not in (1, 2):
        return None

    def choose(x):
        made = jet(x, x)
        if made.c[0] > 0.0:
            return made
        if made.c[0] == 0.0:
            return jet_of(series.at_zero(made.c, sign, 0.0))
        return -made

    def written(x):
        tapes.note(x.c[1])
        return choose(x)

    return written if is_written(x) else choose


@overload(float)
def as_number(x):
    return (lambda x: x) if rank(x) in (1, 2) else None


@overload(np.where, strict=False)
def where(condition, a, b):
    """Of one condition, a number."""
    if rank(condition) or not 0 < max(rank(a), rank(b)) < 9:
        return None
    return lambda condition, a, b: a if condition else b


@overload(np.clip, strict=False)
def clip(a, low, high):
    if not 0 < max(rank(a), rank(low), rank(high)) < 9:
        return None
    return lambda a, low, high: min(max(a, low), high)


# ---------------------------------------------------------------------- functions of one argument
def register(function, known) -> None:
    """A function of one Line or Jet, by its series."""
    numbers, over_balls, site = known, ranges.TABLES.get(known), held.site(known.__name__)

    @overload(function, strict=False)
    def chosen(x):
        ranged = rank(x) in (1, 2) and x.slope == ranges.RANGE
        known = over_balls if ranged else numbers
        if rank(x) == 0 or known is None:
            return None
        if is_held(x):

            def entered(x):
                line = enter(x, site)
                return jet_of(of_line(known(line.c[0]), line.c[1]))

            return entered
        if rank(x) == 1:
            return lambda x: jet_of(of_line(known(x.c[0]), x.c[1]))
        if rank(x) == 2:
            return lambda x: jet_of(of_series(known(x.c[0]), x.c))
        return None


for name, known in series.FUNCTIONS.items():
    register(getattr(math, name), known)
    if twin := series.NUMPY.get(name, name):
        register(getattr(np, twin), known)
for function in (inverse, np.reciprocal):
    register(function, series.reciprocal)


@overload(np.square, strict=False)
def square(x):
    return (lambda x: x**2) if rank(x) in (1, 2) else None


# --------------------------------------------------------------- functions of this package's own
def has_slope(kind: Any) -> bool:
    """Is it a Line or a Jet."""
    return rank(kind) in (1, 2)


def ours(name: str, known: Any) -> Any:
    """A name of this file's own, under which a function of the package is registered."""

    def function(x):
        """Of a Line or a Jet."""

    function.__name__ = name
    register(function, known)
    return function


for name, (dispatcher, known) in series.OURS.items():
    serve(dispatcher, ours(name, known), has_slope)
soft = ours("soft", series.softplus)


@of_two(np.logaddexp)
def logsumexp(ranks, a, b):
    def choose(a, b):
        gap = a - b
        if value(a) > value(b):
            return a + soft(-gap) if value(b) > -np.inf else jet(a, gap)
        return b + soft(gap) if value(a) > -np.inf else jet(b, gap)

    if is_held(a, b):
        return lambda a, b: choose(jet(enter(a, FIRST_TERM), b), jet(enter(b, SECOND_TERM), a))
    ranged = (a if ranks[0] else b).slope == ranges.RANGE  # one formula for both: none to decide
    return (lambda a, b: b + soft(a - b)) if ranged else choose


def logsumexp_of_two(a, b):
    """Of Lines, Jets and numbers."""


of_two(logsumexp_of_two)(logsumexp)
serve(special.logsumexp, logsumexp_of_two, has_slope, 2)


# ----------------------------------------------------------------------------------------- points
def counts(block, index) -> int:
    """How many axes of a point an index leaves; -1: it is none of numbers and slices."""
    values = block.values if isinstance(block, kinds.PartType) else block.kinds[0]
    several = index.types if isinstance(index, types.BaseTuple) else (index,)
    if not all(isinstance(one, types.Integer | types.SliceType) for one in several):
        return -1
    return values.ndim - sum(isinstance(one, types.Integer) for one in several)


@overload(operator.getitem)
def item(block, i):
    width = width_of(block)
    left = counts(block, i) if width else -1
    if left < 0:
        return None
    if isinstance(block, held.HeldPart):
        if left:
            return lambda block, i: held.part_like(block, block.values[i], block.slopes[i])
        return lambda block, i: line_of((block.values[i], held.slope_like(block)))
    if left:
        return lambda block, i: part_of(block.values[i], block.slopes[i])
    if width == 1:
        return lambda block, i: line_of((block.values[i], block.slopes[i]))
    if ranges.is_ranged(block):
        return lambda block, i: line_of(parameter(block.values[i], block.slopes[i]))
    if tapes.is_traced(block):
        return lambda block, i: line_of((block.values[i], words_of(block.slopes[i])))
    return lambda block, i: line_of((block.values[i], lanes_in(block.slopes[i])))


@overload(len)
def length(block):
    return (lambda block: len(block.values)) if width_of(block) else None


def readable(function: Any) -> Any:
    """Compiled functions read jets as they are."""
    return function


def squaring(function: Any) -> Any:
    """A user's function, compiled so that z * z is a square: for bounds, of which it has better."""
    return jit(copied(function, {}), flags=FLAGS, user=True, inner="always", squares=True)
