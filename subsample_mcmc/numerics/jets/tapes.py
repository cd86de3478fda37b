"""Slopes that are written down where a function bends: so predictors are found.

A log likelihood that bends in a few numbers that are affine in the parameters is a function of
these. Each of its operations that is not affine multiplies slopes (series.py): so a slope that
knows a tape, a Traced, writes itself down when it is multiplied by another, and so does what is
left in the end. All that was written spans the gradients of the predictors: at this state, and
wherever the function takes the same branches. For of the slope of a jet what was not yet written is
the same number everywhere: that of the affine numbers which were added to it.

A tape: [how many were written, LANES numbers of each of the first MOST]. The first lane is a mark,
a slope along a direction at random: what bears the mark of another is not written again.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, make_attribute_wrapper, models, register_model

from subsample_mcmc.numerics.jets import kinds
from subsample_mcmc.numerics.jets.kinds import CONTENT, FLOAT, LANES, SEVERAL, VECTOR
from subsample_mcmc.numerics.jets.overloads import overload
from subsample_mcmc.numerics.jit import jit

MOST = 24  # slopes of one row


class TracedType(kinds.SlopeType):
    """Lanes, and the address of a tape; 0: they are on it, or on none."""

    def __init__(self):
        super().__init__(f"Traced({CONTENT})")

    def of_lanes(self, builder, lanes, tape=None):
        """Of what is on no tape, or on one."""
        made = ir.Constant(ir.LiteralStructType([VECTOR, ir.IntType(64)]), ir.Undefined)
        made = builder.insert_value(made, lanes, 0)
        return builder.insert_value(made, ir.IntType(64)(0) if tape is None else tape, 1)

    def lanes_of(self, builder, value):
        """Its lanes."""
        return builder.extract_value(value, 0)


TRACED = TracedType()


@register_model(TracedType)
class TracedModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("lanes", SEVERAL), ("tape", types.int64)])


for name in ("lanes", "tape"):
    make_attribute_wrapper(TracedType, name, name)


@intrinsic
def traced(typing, lanes, tape):
    """A Traced of its parts."""

    def code(target, builder, signature, given):
        return TRACED.of_lanes(builder, *given)

    return TRACED(lanes, tape), code


# -------------------------------------------------------------------------------------- the tape
def place(builder, address, index, kind):
    """A pointer to a number of a tape."""
    start = builder.inttoptr(address, ir.DoubleType().as_pointer())
    return builder.bitcast(builder.gep(start, [index]), kind.as_pointer())


@intrinsic
def number_at(typing, tape, i):
    """One of its numbers."""

    def code(target, builder, signature, given):
        return builder.load(place(builder, *given, ir.DoubleType()))

    return FLOAT(types.int64, types.int64), code


@intrinsic
def write_number(typing, tape, i, number):
    """Write one of them."""

    def code(target, builder, signature, given):
        builder.store(given[2], place(builder, given[0], given[1], ir.DoubleType()))
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, FLOAT), code


@intrinsic
def write_lanes(typing, tape, i, lanes):
    """Write LANES of them."""

    def code(target, builder, signature, given):
        made = builder.store(given[2], place(builder, given[0], given[1], VECTOR))
        made.align = 8
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, SEVERAL), code


@intrinsic
def words_of(typing, row):
    """A Traced that lies in memory as LANES numbers, and an address."""

    def code(target, builder, signature, given):
        data = target.make_array(row)(target, builder, value=given[0]).data
        lanes = builder.load(builder.bitcast(data, VECTOR.as_pointer()))
        lanes.align = 8
        tape = builder.load(builder.gep(data, [ir.IntType(32)(LANES)]))
        return TRACED.of_lanes(builder, lanes, tape)

    return TRACED(row), code


kept = kinds.reading(TRACED)
kinds.intrinsics(
    "tapes", traced=traced, number_at=number_at, write_number=write_number,
    write_lanes=write_lanes, words_of=words_of, kept=kept,
)  # fmt: skip


@jit(inner=True)
def put_down(tape, lanes):
    """Write lanes on a tape, unless their mark is there."""
    mark = kinds.lane(lanes, 0)
    if mark == 0.0:
        return
    count = int(number_at(tape, 0))
    for k in range(min(count, MOST)):
        if number_at(tape, 1 + LANES * k) == mark:
            return
    if count < MOST:
        write_lanes(tape, 1 + LANES * count, lanes)
    write_number(tape, 0, count + 1.0)


@jit(inner="always")
def note(slope):
    """Write a Traced on its tape."""
    if slope.tape != 0:
        put_down(slope.tape, slope.lanes)


# ---------------------------------------------------------------------------------- what slopes do
def traced_operation(*functions):
    """Register make(both, first, a, b): where one is a Traced; both are, or the first."""

    def register(make):
        def chosen(a, b):
            known = [isinstance(one, TracedType) for one in (a, b)]
            others = [isinstance(one, types.Number | types.Boolean | TracedType) for one in (a, b)]
            return make(all(known), known[0], a, b) if any(known) and all(others) else None

        for function in functions:
            overload(function)(chosen)
        return make

    return register


@traced_operation(operator.add, operator.iadd)
def add(both, first, a, b):
    if both:
        return lambda a, b: traced(a.lanes + b.lanes, a.tape | b.tape)
    if first:
        return lambda a, b: traced(a.lanes + b, a.tape)
    return lambda a, b: traced(a + b.lanes, b.tape)


@traced_operation(operator.sub, operator.isub)
def subtract(both, first, a, b):
    if both:
        return lambda a, b: traced(a.lanes - b.lanes, a.tape | b.tape)
    if first:
        return lambda a, b: traced(a.lanes - b, a.tape)
    return lambda a, b: traced(a - b.lanes, b.tape)


@traced_operation(operator.mul, operator.imul)
def multiply(both, first, a, b):
    if both:

        def bend(a, b):
            note(a)
            note(b)
            return traced(kinds.no_lanes(), 0)

        return bend
    if first:
        return lambda a, b: traced(a.lanes * b, a.tape)
    return lambda a, b: traced(b.lanes * a, b.tape)


@traced_operation(operator.truediv, operator.itruediv)
def divide(both, first, a, b):
    return (lambda a, b: traced(a.lanes / b, a.tape)) if first and not both else None


@overload(operator.neg)
def negative(a):
    return (lambda a: traced(-a.lanes, a.tape)) if isinstance(a, TracedType) else None


# ----------------------------------------------------------------------------------------- points
def is_traced(block: Any) -> bool:
    """Of a point, or a part of one: are its slopes words, those of LANES numbers and a tape."""
    slopes = block.slopes if isinstance(block, kinds.PartType) else block.kinds[1]
    return slopes.dtype == types.int64


@jit(inner="always")
def write_rest(value):
    """Write what a log likelihood's slope is in the end."""
    note(kept(value)[1])
