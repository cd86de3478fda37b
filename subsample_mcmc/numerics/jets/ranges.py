"""Numbers of which is known between what they lie: for derivatives all over a ball.

    Ball    an affine number: a centre, and slopes along three directions of the ball
    Range   a low and a high end, which are those of intervals.py

They stand in Lines and Jets (kinds.py) in the place of numbers: a Line is a Ball, and its slope
along a direction a Range; a Jet is five Ranges. So operators.py and series.py are as they are.

A Ball knows a note, two numbers: [the radius of the ball, slack]; a constant has none. A comparison
that the ends do not decide ends the call: what a branch does that is not known to be taken says
nothing, and might loop for ever, or read beyond an array.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import (
    intrinsic,
    lower_cast,
    make_attribute_wrapper,
    models,
    register_model,
)

from subsample_mcmc.numerics.jets import intervals, kinds, series
from subsample_mcmc.numerics.jets.kinds import CONTENT, FLOAT
from subsample_mcmc.numerics.jets.overloads import overload
from subsample_mcmc.numerics.jets.tapes import number_at
from subsample_mcmc.numerics.jit import jit

UNIT = intervals.UNIT


class BallType(types.Type):
    """centre +- off, slopes s1, s2 and s3 +- more, and a note."""

    def __init__(self):
        super().__init__(f"Ball({CONTENT})")


BALL = BallType()


class RangeType(kinds.SlopeType):
    """low and high."""

    line_value = BALL

    def __init__(self):
        super().__init__(f"Range({CONTENT})")

    @property
    def jet_value(self):
        return self

    def of_number(self, builder, number):
        """The number itself."""
        return packed(builder, [number, number])

    def no_sign(self, builder):
        """Where it matters which sign a slope has there is a kink: no bound."""
        none = ir.Constant(ir.DoubleType(), float("nan"))
        return packed(builder, [none, none])


RANGE = RangeType()
PARTS = ("centre", "off", "s1", "s2", "s3", "more", "note")


def packed(builder, parts):
    """A structure of its members."""
    made = ir.Constant(ir.LiteralStructType([part.type for part in parts]), ir.Undefined)
    for i, part in enumerate(parts):
        made = builder.insert_value(made, part, i)
    return made


@register_model(BallType)
class BallModel(models.StructModel):
    def __init__(self, manager, kind):
        members = [(name, types.int64 if name == "note" else FLOAT) for name in PARTS]
        super().__init__(manager, kind, members)


@register_model(RangeType)
class RangeModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("low", FLOAT), ("high", FLOAT)])


for name in PARTS:
    make_attribute_wrapper(BallType, name, name)
for name in ("low", "high"):
    make_attribute_wrapper(RangeType, name, name)


@intrinsic
def ball(typing, centre, off, s1, s2, s3, more, note):
    """A Ball of its parts."""

    def code(target, builder, signature, given):
        return packed(builder, given)

    return BALL(*[FLOAT] * 6, types.int64), code


@intrinsic
def ranged(typing, ends):
    """A Range of a pair."""

    def code(target, builder, signature, given):
        return packed(builder, [builder.extract_value(given[0], i) for i in range(2)])

    return RANGE(types.UniTuple(FLOAT, 2)), code


@intrinsic
def words_of(typing, row):
    """(s1, s2, s3, slope along the direction in hand, address of the note) of a parameter."""
    kind = types.BaseTuple.from_types((FLOAT, FLOAT, FLOAT, FLOAT, types.int64))

    def code(target, builder, signature, given):
        data = target.make_array(row)(target, builder, value=given[0]).data
        words = [builder.load(builder.gep(data, [ir.IntType(32)(i)])) for i in range(5)]
        numbers = [builder.bitcast(word, ir.DoubleType()) for word in words[:4]]
        return target.make_tuple(builder, kind, [*numbers, words[4]])

    return kind(row), code


kept = kinds.reading(RANGE)
kinds.intrinsics("ranges", ball=ball, ranged=ranged, words_of=words_of, kept=kept)


# ----------------------------------------------------------------------------- one becomes another
@jit(inner="always")
def sizes(s1, s2, s3):
    return abs(s1) + abs(s2) + abs(s3)


@jit(inner=True)
def range_of(a):
    """The ends of a Ball; of a constant, the number itself."""
    if a.note == 0 and a.off == 0.0 and sizes(a.s1, a.s2, a.s3) + a.more == 0.0:
        return ranged((a.centre, a.centre))
    radius, slack = 0.0, 0.0
    if a.note != 0:
        radius, slack = number_at(a.note, 0), number_at(a.note, 1)
    return ranged(intervals.reached(a.centre, a.off, (a.s1, a.s2, a.s3), a.more, radius, slack))


def number_to_ball(target, builder, source, goal, value):
    """A number that stands still."""
    number, zero = target.cast(builder, value, source, FLOAT), ir.Constant(ir.DoubleType(), 0.0)
    return packed(builder, [number, *[zero] * 5, ir.IntType(64)(0)])


def number_to_range(target, builder, source, goal, value):
    """The same."""
    return RANGE.of_number(builder, target.cast(builder, value, source, FLOAT))


for kind in (types.Integer, types.Float, types.Boolean):
    lower_cast(kind, BallType)(number_to_ball)
    lower_cast(kind, RangeType)(number_to_range)


@lower_cast(BallType, RangeType)
def ball_to_range(target, builder, source, goal, value):
    return target.compile_internal(builder, lambda a: range_of(a), RANGE(BALL), [value])  # noqa: PLW0108


# -------------------------------------------------------------------------------------- arithmetic
@jit(inner=True)
def ball_of_two(a, b, sign):
    """a + sign b, of Balls."""
    centre = a.centre + sign * b.centre
    s1, s2, s3 = a.s1 + sign * b.s1, a.s2 + sign * b.s2, a.s3 + sign * b.s3
    return ball(
        centre, a.off + b.off + UNIT * (abs(centre) + a.off + b.off), s1, s2, s3,
        a.more + b.more + UNIT * (sizes(s1, s2, s3) + a.more + b.more), a.note | b.note,
    )  # fmt: skip


@jit(inner=True)
def ball_and_number(a, x):
    """a + x."""
    centre = a.centre + x
    return ball(centre, a.off + UNIT * (abs(centre) + a.off), a.s1, a.s2, a.s3, a.more, a.note)


@jit(inner="always")
def ball_scaled(a, centre, s1, s2, s3, size, unit):
    """a times a number of this size."""
    return ball(
        centre, size * a.off + unit * (abs(centre) + size * a.off), s1, s2, s3,
        size * a.more + unit * (sizes(s1, s2, s3) + size * a.more), a.note,
    )  # fmt: skip


@jit(inner=True)
def ball_times(a, x):
    """a x."""
    return ball_scaled(a, a.centre * x, a.s1 * x, a.s2 * x, a.s3 * x, abs(x), UNIT)


@jit(inner=True)
def ball_over(a, x):
    """a / x."""
    return ball_scaled(
        a, a.centre / x, a.s1 / x, a.s2 / x, a.s3 / x, 1.0 / abs(x), 3.0 * UNIT
    )  # fmt: skip


@jit(inner=True)
def plus(a, b):
    """Of Ranges."""
    return ranged(intervals.added(a.low, a.high, b.low, b.high))


@jit(inner=True)
def minus(a, b):
    return ranged(intervals.added(a.low, a.high, -b.high, -b.low))


@jit(inner=True)
def times(a, b):
    return ranged(intervals.multiplied(a.low, a.high, b.low, b.high))


@jit(inner=True)
def range_and_number(a, x):
    return ranged(intervals.added(a.low, a.high, x, x))


@jit(inner=True)
def range_times(a, x):
    return ranged(intervals.scaled(a.low, a.high, x))


@jit(inner=True)
def range_over(a, x):
    return ranged(intervals.divided(a.low, a.high, x))


def kind_of(a: Any) -> str:
    """b, r or n: Ball, Range or number; empty for what is none of them."""
    if isinstance(a, BallType | RangeType):
        return "b" if isinstance(a, BallType) else "r"
    return "n" if isinstance(a, types.Number | types.Boolean) else ""


def of_two(*functions):
    """Register make(kinds) -> implementation, for two of which one is no number."""

    def register(make):
        def chosen(a, b):
            both = kind_of(a) + kind_of(b)
            return make(both) if len(both) == 2 and both != "nn" else None

        for function in functions:
            overload(function)(chosen)
        return make

    return register


@of_two(operator.add, operator.iadd)
def add(both):
    return {
        "bb": lambda a, b: ball_of_two(a, b, 1.0),
        "bn": lambda a, b: ball_and_number(a, 1.0 * b),
        "nb": lambda a, b: ball_and_number(b, 1.0 * a),
        "rr": lambda a, b: plus(a, b),  # noqa: PLW0108
        "rn": lambda a, b: range_and_number(a, 1.0 * b),
        "nr": lambda a, b: range_and_number(b, 1.0 * a),
        "br": lambda a, b: plus(range_of(a), b),
        "rb": lambda a, b: plus(a, range_of(b)),
    }[both]


@of_two(operator.sub, operator.isub)
def subtract(both):
    return {
        "bb": lambda a, b: ball_of_two(a, b, -1.0),
        "bn": lambda a, b: ball_and_number(a, -1.0 * b),
        "nb": lambda a, b: ball_and_number(ball_times(b, -1.0), 1.0 * a),
        "rr": lambda a, b: minus(a, b),  # noqa: PLW0108
        "rn": lambda a, b: range_and_number(a, -1.0 * b),
        "nr": lambda a, b: range_and_number(range_times(b, -1.0), 1.0 * a),
        "br": lambda a, b: minus(range_of(a), b),
        "rb": lambda a, b: minus(a, range_of(b)),
    }[both]


@of_two(operator.mul, operator.imul)
def multiply(both):
    return {
        "bb": lambda a, b: times(range_of(a), range_of(b)),
        "bn": lambda a, b: ball_times(a, 1.0 * b),
        "nb": lambda a, b: ball_times(b, 1.0 * a),
        "rr": lambda a, b: times(a, b),  # noqa: PLW0108
        "rn": lambda a, b: range_times(a, 1.0 * b),
        "nr": lambda a, b: range_times(b, 1.0 * a),
        "br": lambda a, b: times(range_of(a), b),
        "rb": lambda a, b: times(a, range_of(b)),
    }[both]


@of_two(operator.truediv, operator.itruediv)
def divide(both):
    return {
        "bn": lambda a, b: ball_over(a, 1.0 * b), "rn": lambda a, b: range_over(a, 1.0 * b),
    }.get(both)  # fmt: skip


@overload(operator.neg)
def negative(a):
    return {"b": lambda a: ball_times(a, -1.0), "r": lambda a: range_times(a, -1.0)}.get(kind_of(a))


# ------------------------------------------------------------------------------------ comparisons
@intrinsic
def ends_of(typing, a):
    """(low, high) of a Ball, a Range or a number."""
    kind = types.UniTuple(FLOAT, 2)
    if not kind_of(a):
        raise kinds.TypingError(f"{a} among numbers with derivatives")

    def code(target, builder, signature, given):
        found = (
            given[0] if a == RANGE else target.cast(builder, given[0], types.unliteral(a), RANGE)
        )
        return target.make_tuple(builder, kind, [builder.extract_value(found, i) for i in range(2)])

    return kind(types.unliteral(a)), code


of_ends: Any = ends_of
kinds.intrinsics("ranges", ends_of=of_ends)


@jit(inner=True)
def decided(yes, no):
    """What is the same everywhere; else there is no bound."""
    if not yes and not no:
        raise ArithmeticError("a comparison is not the same everywhere")
    return yes


@jit(inner=True)
def is_less(a, b):
    """Of ends."""
    return decided(a[1] < b[0], a[0] >= b[1])


@jit(inner=True)
def is_at_most(a, b):
    return decided(a[1] <= b[0], a[0] > b[1])


@jit(inner=True)
def is_same(a, b):
    same = a[0] == a[1] and b[0] == b[1] and a[0] == b[0]
    return decided(same, a[1] < b[0] or b[1] < a[0])


for function, compared in (
    (operator.lt, lambda a, b: is_less(of_ends(a), of_ends(b))),
    (operator.gt, lambda a, b: is_less(of_ends(b), of_ends(a))),
    (operator.le, lambda a, b: is_at_most(of_ends(a), of_ends(b))),
    (operator.ge, lambda a, b: is_at_most(of_ends(b), of_ends(a))),
    (operator.eq, lambda a, b: is_same(of_ends(a), of_ends(b))),
    (operator.ne, lambda a, b: not is_same(of_ends(a), of_ends(b))),
):
    of_two(function)(lambda both, compared=compared: compared)


# --------------------------------------------------------------------------------------- functions
@jit(inner="always")
def as_ranges(f):
    """Five Ranges, of their ends one after the other."""
    return (
        ranged((f[0], f[1])), ranged((f[2], f[3])), ranged((f[4], f[5])), ranged((f[6], f[7])),
        ranged((f[8], f[9])),
    )  # fmt: skip


def table_of(found: Any) -> Any:
    """A function of one Range or Ball: its derivatives over k!, as Ranges."""

    @jit(inner="always")
    def of_range(x):
        low, high = ends_of(x)
        return as_ranges(found(low, high))

    return of_range


@jit(inner="always")
def power(x, p):
    """x^p of a number p."""
    low, high = ends_of(x)
    return as_ranges(intervals.power(low, high, p))


# By the functions of series.py that they stand for.
TABLES = {series.FUNCTIONS[name]: table_of(found) for name, found in intervals.FUNCTIONS.items()}
TABLES |= {series.OURS[name][1]: table_of(found) for name, found in intervals.OURS.items()}
TABLES |= {series.reciprocal: table_of(intervals.reciprocal)}


def is_ranged(block: Any) -> bool:
    """Of a point, or a part of one: are its slopes words, those of Balls."""
    slopes = block.slopes if isinstance(block, kinds.PartType) else block.kinds[1]
    return slopes.dtype == types.uint64


@jit(inner="always")
def parameter(value, row):
    """(a Ball, its slope along the direction in hand)."""
    s1, s2, s3, along, note = words_of(row)
    return ball(value, 0.0, s1, s2, s3, 0.0, note), ranged((along, along))


@jit(inner="always")
def ends_of_coefficient(value, order):
    """Ends of the coefficient of t^order of what a log likelihood is; and those of its value."""
    c = kept(value)
    if order > 3:
        return c[4].low, c[4].high, c[0].low, c[0].high
    return c[3].low, c[3].high, c[0].low, c[0].high
