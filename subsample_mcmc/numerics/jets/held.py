"""A log likelihood in two passes over a mini-batch: first its affine parts, then all the rest.

A loop over parameters inside a loop over data keeps the functions of its result from being computed
for several data at once. So all data are passed over twice. The first pass, at either end of a
step, computes what is affine in the parameters, and writes it into a table where it bends; nothing
else that it computes is used, and the compiler leaves that out. In the second pass what is affine
is not computed but read from the table, where it bends: the loops over parameters are left out, and
what remains is computed for several data at once.

    a Held line   a value, and where in the table its datum's numbers stand
    a loose one   the same, or a number that became a line: total = 0.0 before a loop. Then there
                  is no place in the table, and it may not bend. What is added to a Held line is
                  one, whichever it was: so its place is the same all through a loop, which may be
                  left out

Each operation that bends has two rows of the table of its own. A log likelihood that calls one
twice for a datum has no second pass, nor has one that compares what depends on parameters: it may
go another way at the other end. The first is counted, once, for all data; the second does not
compile.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_cast,
    lower_getattr_generic,
    make_attribute_wrapper,
    models,
    register_model,
)

from subsample_mcmc.numerics.jets import kinds
from subsample_mcmc.numerics.jets.kinds import CONTENT, FLOAT
from subsample_mcmc.numerics.jets.overloads import overload
from subsample_mcmc.numerics.pointer_types import PointerAttributes, loaded
from subsample_mcmc.numerics.rows import CHUNK

SITES: dict[str, int] = {}  # operations that bend: their places in the table
MOST = 64
# The table: how often its datum was written at either end of the step, values of each site there;
# and a row that is never used.
ROWS = 2 + 2 * MOST + 1
WIDTH = CHUNK + 8  # numbers in a row: rows that lie a page apart would be mixed up, and waited for


def site(name: str) -> int:
    """The place of an operation."""
    if len(SITES) == MOST:
        raise ValueError(f"{MOST} operations bend already.")
    return SITES.setdefault(name, len(SITES))


# ---------------------------------------------------------------------------------------- slopes
class HeldSlope(kinds.SlopeType):
    """Where its datum's numbers are, and of a loose one whether they are anywhere."""

    def __init__(self, writes: bool, loose: bool):
        self.writes, self.loose = writes, loose
        self.elsewhere = not writes and not loose  # the value is in the table: 0 stands for it
        super().__init__(f"HeldSlope({writes}, {loose}, {CONTENT})")

    @property
    def line_type(self) -> Any:
        """Of lines with such slopes."""
        return HeldLine

    @property
    def jet_slope(self) -> Any:
        """Of what becomes of lines with such slopes where they bend."""
        return WRITTEN if self.writes else FLOAT

    def of_number(self, builder, number):
        """Of what is nowhere in the table."""
        return ir.Constant(PARTS, None)

    def no_sign(self, builder):
        """Nobody reads what becomes of it."""
        return ir.Constant(PARTS, None)


BIT, PLACE = ir.IntType(1), types.CPointer(types.float64)
PARTS = ir.LiteralStructType([ir.DoubleType().as_pointer(), BIT, BIT])
WRITTEN, LOOSELY_WRITTEN = HeldSlope(True, False), HeldSlope(True, True)
READ, LOOSELY_READ = HeldSlope(False, False), HeldSlope(False, True)


@register_model(HeldSlope)
class HeldSlopeModel(models.PrimitiveModel):
    """A place, is there one, and are writings counted."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, PARTS)


def is_slope(kind: Any) -> bool:
    """Is it one of these."""
    return isinstance(kind, HeldSlope)


@intrinsic
def joined(typing, a, b):
    """What becomes of two slopes of which one, or both, are these."""
    both = [one for one in (a, b) if is_slope(one)]
    surely = [one for one in both if not one.loose]
    goal = (surely or both)[0]

    def code(target, builder, signature, given):
        own = [v for v, kind in zip(given, signature.args, strict=True) if kind == goal]
        if len(own) == 1 or not goal.loose:
            return own[0]
        return builder.select(builder.extract_value(own[0], 1), *own)

    return goal(types.unliteral(a), types.unliteral(b)), code


def of_two(*functions) -> None:
    """Register operations."""

    def chosen(a, b):
        fit = all(is_slope(one) or isinstance(one, types.Number | types.Boolean) for one in (a, b))
        return (lambda a, b: joined(a, b)) if fit and (is_slope(a) or is_slope(b)) else None  # noqa: PLW0108

    for function in functions:
        overload(function)(chosen)


of_two(operator.add, operator.iadd, operator.sub, operator.isub)
of_two(operator.mul, operator.imul, operator.truediv, operator.itruediv)


@overload(operator.neg)
def negative(a):
    return (lambda a: a) if is_slope(a) else None


# ----------------------------------------------------------------------------------------- lines
class HeldLine(kinds.LineType):
    """A line, or a loose one."""

    def is_less(self, other) -> bool:
        if isinstance(other, HeldLine):
            return self.slope.loose and other.slope.writes == self.slope.writes
        return self.slope.loose and isinstance(other, kinds.NUMBERS)

    def unify(self, context, other):
        if isinstance(other, HeldLine) and other.slope == self.slope:
            return self
        if isinstance(other, HeldLine | kinds.NUMBERS):
            return HeldLine(LOOSELY_WRITTEN if self.slope.writes else LOOSELY_READ)
        return None


@register_model(HeldLine)
class HeldLineModel(kinds.AlongModel):
    pass


@lower_cast(HeldLine, HeldLine)
def loosen(target, builder, source, goal, value):
    """Cast a held line to a loose one: both parts are copied."""
    content = target.make_helper(builder, source, value=value).c
    parts = [builder.extract_value(content, i) for i in range(2)]
    return kinds.put_together(target, builder, goal, parts)


def is_held(*given: Any) -> bool:
    """Is one of them such a line."""
    return any(isinstance(kind, HeldLine) for kind in given)


def is_unknown(*given: Any) -> bool:
    """Is the value of one of them not to be compared."""
    return any(isinstance(kind, kinds.Along) and is_slope(kind.slope) for kind in given)


@intrinsic
def is_there(typing, slope):
    """Has a slope a place in the table."""

    def code(target, builder, signature, given):
        return builder.extract_value(given[0], 1)

    return types.boolean(slope), code


@intrinsic
def is_counted(typing, slope):
    """Is it counted how often its datum is written."""

    def code(target, builder, signature, given):
        return builder.extract_value(given[0], 2)

    return types.boolean(slope), code


def pointer(builder, slope, row):
    """To the number of a slope's datum in a row of the table."""
    at = builder.mul(row, row.type(WIDTH))
    return builder.gep(builder.extract_value(slope, 0), [at])


@intrinsic
def number_at(typing, slope, row):
    """What stands in a row of the table."""

    def code(target, builder, signature, given):
        return builder.load(pointer(builder, *given))

    return types.float64(slope, types.intp), code


@intrinsic
def put_number(typing, slope, row, number):
    """Write into a row of the table."""

    def code(target, builder, signature, given):
        builder.store(given[2], pointer(builder, *given[:2]))
        return target.get_dummy_value()

    return types.void(slope, types.intp, types.float64), code


@intrinsic
def surely(typing, slope):
    """A slope of which nobody asks whether it has a place."""
    goal = WRITTEN if slope.writes else READ
    return goal(slope), lambda target, builder, signature, given: given[0]


line = kinds.of_parts(kinds.LineType)


NOWHERE = "a number without place bends"


def enter(x, where):
    """A line as it is where it bends, at a site; other numbers are what they are."""


@overload(enter)
def enter_at(x, where):
    if not is_held(x):
        return lambda x, where: x
    if x.slope.writes:

        def write(x, where):
            slope = x.c[1]
            if not is_there(slope):
                raise ArithmeticError(NOWHERE)
            put_number(slope, 2 + 2 * where, x.c[0])
            if is_counted(slope):
                put_number(slope, 0, number_at(slope, 0) + 1.0)
            return line((x.c[0], surely(slope)))

        return write

    def read(x, where):
        slope, row = x.c[1], 2 + 2 * where
        start = number_at(slope, row)
        return line((start, number_at(slope, row + 1) - start))

    return read


CAST = site("a line becomes a jet")


def enter_cast(x):
    return enter(x, CAST)


@lower_cast(HeldLine, kinds.JetType)
def become(target, builder, source, goal, value):
    """As where it bends."""
    inner = kinds.LineType(source.slope.jet_slope)
    made = target.compile_internal(builder, enter_cast, inner(source), [value])
    return kinds.become(target, builder, inner, goal, made)


# ---------------------------------------------------------------------------------------- points
class HeldPart(kinds.PartType):
    """A block, or a part of one, whose items are Held."""

    def __init__(self, values, slopes, slope):
        super().__init__(values, slopes)
        self.slope = slope
        self.name = f"HeldPart({values}, {slopes}, {slope})"


@register_model(HeldPart)
class HeldPartModel(models.StructModel):
    def __init__(self, manager, kind):
        fields = [("values", kind.values), ("slopes", kind.slopes), ("place", PLACE),
                  ("counted", types.boolean)]  # fmt: skip
        super().__init__(manager, kind, fields)


for name in ("values", "slopes"):
    make_attribute_wrapper(HeldPart, name, name)


@intrinsic
def part_like(typing, like, values, slopes):
    """A part of one of these."""
    kind = HeldPart(values, slopes, like.slope)

    def code(target, builder, signature, given):
        made = target.make_helper(builder, kind)
        whole = target.make_helper(builder, like, value=given[0])
        made.place, made.counted = whole.place, whole.counted
        made.values, made.slopes = given[1:]
        return made._getvalue()

    return kind(like, values, slopes), code


@intrinsic
def slope_like(typing, like):
    """The slope of one of its items."""

    def code(target, builder, signature, given):
        whole = target.make_helper(builder, like, value=given[0])
        made = ir.Constant(PARTS, ir.Undefined)
        for i, part in enumerate((whole.place, BIT(1), whole.counted)):
            made = builder.insert_value(made, part, i)
        return made

    return like.slope(like), code


class HeldState(types.Type):
    """A state whose continuous blocks are such parts."""

    def __init__(self, record, slope):
        self.record, self.slope = record, slope
        super().__init__(f"HeldState({record}, {slope})")


@register_model(HeldState)
class HeldStateModel(models.StructModel):
    def __init__(self, manager, kind):
        fields = [("record", kind.record), ("place", PLACE), ("counted", types.boolean)]
        super().__init__(manager, kind, fields)


@infer_getattr
class HeldStateAttributes(PointerAttributes):
    """A block's type, by its name."""

    key = HeldState

    def generic_resolve(self, kind, name):
        if name not in kind.record.fields:
            return None
        own = kind.record[kind.record.fields.index(name)]
        held = isinstance(own, kinds.PointType)
        return HeldPart(*own.kinds[:2], kind.slope) if held else own


@lower_getattr_generic(HeldState)
def block_of(target, builder, kind, value, name):
    where = kind.record.fields.index(name)
    state, own = target.make_helper(builder, kind, value=value), kind.record[where]
    block = builder.extract_value(state.record, where)
    if not isinstance(own, kinds.PointType):
        return block
    made = target.make_helper(builder, HeldPart(*own.kinds[:2], kind.slope))
    made.values, made.slopes = (
        loaded(target, builder, own.kinds[i], block, own.offsets[i]) for i in range(2)
    )
    made.place, made.counted = state.place, state.counted
    return made._getvalue()


def holding(slope) -> Any:
    """An intrinsic: a state of a datum, the i-th of a mini-batch, with a table from some row on."""

    @intrinsic
    def hold(typing, record, table, row, i, counted):
        kind = HeldState(record, slope)

        def code(target, builder, signature, given):
            made = target.make_helper(builder, kind)
            made.record = given[0]
            data = target.make_array(table)(target, builder, value=given[1]).data
            at = builder.add(builder.mul(given[2], given[2].type(WIDTH)), given[3])
            made.place, made.counted = builder.gep(data, [at]), given[4]
            return made._getvalue()

        return kind(record, table, types.intp, types.intp, types.boolean), code

    return hold


writing, reading = holding(WRITTEN), holding(READ)
finish = kinds.reading(WRITTEN)
kinds.intrinsics(
    "held", joined=joined, is_there=is_there, is_counted=is_counted, number_at=number_at,
    put_number=put_number, surely=surely, line=line, part_like=part_like, slope_like=slope_like,
    writing=writing, reading=reading, finish=finish,
)  # fmt: skip
