"""The types of numbers that know their derivatives along a line theta + t s.

    Line   value and slope: a parameter is one, and so is whatever is affine in parameters
    Jet    value and Taylor coefficients of t to t^4: after the first operation that is not affine
    Point  a block of parameters, whose items are Lines; what is cut out of it is a Part

Numbers, Lines and Jets unify in this order: loops and branches are typed as they are for numbers.
A slope is one number, or LANES of them: as many lines at once, whose values are computed once.
With `jit` and its like this file knows numba from inside.
"""

import hashlib
import operator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value
from numba.core.errors import TypingError
from numba.core.imputils import RefType, iternext_impl
from numba.core.registry import cpu_target
from numba.core.typeconv import Conversion
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_cast,
    make_attribute_wrapper,
    models,
    register_model,
)

from subsample_mcmc.numerics import fastmath, special
from subsample_mcmc.numerics.jets import series
from subsample_mcmc.numerics.jets.overloads import known_as
from subsample_mcmc.numerics.pointer_types import OWN, PointerModel, PointerType

# Machine code for jets is kept under a key that these files are part of.
HERE = Path(__file__)
NAMES = ("operators", "overloads", "arrays", "filled", "tapes", "ranges", "intervals", "held")
OTHERS = [HERE.with_name(f"{name}.py") for name in NAMES]
FILES: Any = (series.__file__, fastmath.__file__, special.__file__, HERE, *OTHERS)
CONTENT = hashlib.sha256(b"".join(Path(file).read_bytes() for file in FILES)).hexdigest()[:16]
NUMBERS = types.Integer | types.Float | types.Boolean
LANES = 8  # lines at once: a vector of AVX-512, two of AVX2
FLOAT = types.float64


# ------------------------------------------------------------------------------------------ lanes
class SlopeType(types.Type):
    """What a slope is beside one number: lanes, or lanes with something to them (tapes.py).

    Or what is known of one (ranges.py): then values are of types of their own.
    """

    line_value: Any = types.float64
    jet_value: Any = types.float64

    def of_number(self, builder, number):
        """One of these, of a number."""
        return self.of_lanes(builder, spread(builder, number))

    def no_sign(self, builder):
        """What stands for a sign that cannot be told; None: it can."""
        return

    def of_lanes(self, builder, lanes):
        """One of these, of its lanes."""
        return lanes

    def lanes_of(self, builder, value):
        """The lanes of one of these."""
        return value


class LanesType(SlopeType):
    """LANES numbers, computed with one by one, at once."""

    def __init__(self):
        super().__init__(f"Lanes({LANES}, {CONTENT})")


SEVERAL = LanesType()
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """A vector; in memory, as in a list, one that may start anywhere: vectors want 64 bytes."""

    stored = ir.LiteralStructType([VECTOR], packed=True)

    def __init__(self, manager, kind):
        super().__init__(manager, kind, VECTOR)

    def get_data_type(self):
        return self.stored

    def as_data(self, builder, value):
        return builder.insert_value(ir.Constant(self.stored, ir.Undefined), value, 0)

    def from_data(self, builder, value):
        return builder.extract_value(value, 0)


def spread(builder, number):
    """The same number in all lanes."""
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), mask)


def as_slope(target, builder, value, kind, slope):
    """A number, or lanes, as a slope of one of both kinds."""
    if kind == slope:
        return value
    number = target.cast(builder, value, kind, FLOAT)
    return number if slope == FLOAT else slope.of_number(builder, number)


def as_value(target, builder, value, kind, goal):
    """A number, or what is known of one, as a value."""
    return value if kind == goal else target.cast(builder, value, kind, goal)


def in_lanes(operation: str) -> Any:
    """An operation on two of which one, or both, are lanes."""

    @intrinsic
    def compute(typing, a, b):
        def code(target, builder, signature, given):
            one, two = (
                as_slope(target, builder, value, kind, SEVERAL)
                for value, kind in zip(given, signature.args, strict=True)
            )
            return getattr(builder, operation)(one, two)

        return SEVERAL(types.unliteral(a), types.unliteral(b)), code

    return compute


ADD, SUBTRACT, MULTIPLY, DIVIDE = map(in_lanes, ("fadd", "fsub", "fmul", "fdiv"))


@intrinsic
def sign(typing, slope):
    """1, 0 or -1, of a number or of lanes."""

    def code(target, builder, signature, given):
        several = isinstance(slope, SlopeType)
        if several and (none := slope.no_sign(builder)) is not None:
            return none
        own = slope.lanes_of(builder, given[0]) if several else given[0]
        zero, one, minus = (
            as_slope(target, builder, target.get_constant(FLOAT, x), FLOAT,
                     SEVERAL if several else FLOAT)
            for x in (0.0, 1.0, -1.0)
        )  # fmt: skip
        up = builder.fcmp_ordered(">", own, zero)
        down = builder.fcmp_ordered("<", own, zero)
        found = builder.select(up, one, builder.select(down, minus, zero))
        return slope.of_lanes(builder, found) if several else found

    return slope(slope), code


@intrinsic
def lanes_in(typing, row):
    """LANES numbers that lie together, as the last axis of slopes has them."""

    def code(target, builder, signature, given):
        data = target.make_array(row)(target, builder, value=given[0]).data
        found = builder.load(builder.bitcast(data, VECTOR.as_pointer()))
        found.align = 8  # arrays are not aligned as vectors are
        return found

    return SEVERAL(row), code


@intrinsic
def lane(typing, lanes, which):
    """One of the lanes."""

    def code(target, builder, signature, given):
        return builder.extract_element(given[0], given[1])

    return FLOAT(SEVERAL, types.intp), code


@intrinsic
def no_lanes(typing):
    """Zeros."""
    return SEVERAL(), lambda target, builder, signature, given: ir.Constant(VECTOR, [0.0] * LANES)


@intrinsic
def add_lanes(typing, array, start, slope):
    """Add lanes, or a number in all of them, to LANES numbers that lie together in an array."""

    def code(target, builder, signature, given):
        data = target.make_array(array)(target, builder, value=given[0]).data
        place = builder.bitcast(builder.gep(data, [given[1]]), VECTOR.as_pointer())
        before = builder.load(place)
        lanes = as_slope(target, builder, given[2], signature.args[2], SEVERAL)
        after = builder.store(builder.fadd(before, lanes), place)
        before.align = after.align = 8  # arrays are not aligned as vectors are
        return target.get_dummy_value()

    return types.none(array, types.intp, types.unliteral(slope)), code


# --------------------------------------------------------------------------------- lines and jets
def bent(slope):
    """The slope of the jet that a line becomes, by a function that is not linear."""
    return getattr(slope, "jet_slope", slope)


class Along(types.Type):
    """A number along a line, with slopes of one kind."""

    more = 1  # coefficients besides the value
    value_of = "line_value"  # what a slope calls the type of the value

    def __init__(self, slope):
        self.slope = slope
        self.value = getattr(slope, self.value_of, FLOAT)
        self.content = types.BaseTuple.from_types((self.value, *[slope] * self.more))
        super().__init__(f"{type(self).__name__}({slope}, {CONTENT})")

    def is_less(self, other) -> bool:
        """Can it become one of these without loss."""
        if isinstance(other, Along):
            return bent(other.slope) == self.slope and other.more < self.more
        return isinstance(other, NUMBERS)

    def can_convert_from(self, context, other):
        return Conversion.safe if self.is_less(other) else None

    def unify(self, context, other):
        return self if self.is_less(other) else None


class LineType(Along):
    """c: a value, and its slope."""


class JetType(Along):
    """c: a value, and the coefficients of t to t^4."""

    more = 4
    value_of = "jet_value"


@register_model(LineType)
@register_model(JetType)
class AlongModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("c", kind.content)])


for made in (LineType, JetType):
    make_attribute_wrapper(made, "c", "c")


def rank(kind: Any) -> int:
    """0 of numbers, 1 of Lines, 2 of Jets, 9 of what is none of them."""
    if isinstance(kind, Along):
        return 1 if isinstance(kind, LineType) else 2
    return 0 if isinstance(kind, NUMBERS) else 9


def put_together(target, builder, kind, parts):
    """A Line, or a Jet, of its coefficients."""
    made = target.make_helper(builder, kind)
    made.c = target.make_tuple(builder, kind.content, parts)
    return made._getvalue()


def of_parts(make) -> Any:
    """A Line, or a Jet, of a tuple: where some of its coefficients are lanes, all become lanes."""

    @intrinsic
    def build(typing, parts):
        kinds = [types.unliteral(part) for part in parts]
        kind = make(next((one for one in kinds if isinstance(one, SlopeType)), FLOAT))

        def code(target, builder, signature, given):
            values = [builder.extract_value(given[0], i) for i in range(len(kinds))]
            each = zip(values[1:], parts.types[1:], strict=True)
            cast = [as_slope(target, builder, *one, kind.slope) for one in each]
            first = as_value(target, builder, values[0], kinds[0], kind.value)
            if getattr(kind.slope, "elsewhere", False):
                first = target.get_constant(FLOAT, 0.0)
            return put_together(target, builder, kind, [first, *cast])

        return kind(parts), code

    return build


line_of = of_parts(lambda slope: getattr(slope, "line_type", LineType)(slope))
jet_of = of_parts(JetType)


def become(target, builder, source, goal, value):
    """A cast that puts zeros behind what is there."""
    if isinstance(source, Along):
        content = target.make_helper(builder, source, value=value).c
        parts = [builder.extract_value(content, i) for i in range(1 + source.more)]
        parts[0] = as_value(target, builder, parts[0], source.value, goal.value)
    else:
        parts = [target.cast(builder, value, source, goal.value)]
    zero = as_slope(target, builder, target.get_constant(FLOAT, 0.0), FLOAT, goal.slope)
    return put_together(target, builder, goal, parts + [zero] * (1 + goal.more - len(parts)))


for kind in (types.Integer, types.Float, types.Boolean):
    lower_cast(kind, LineType)(become)
    lower_cast(kind, JetType)(become)
lower_cast(LineType, JetType)(become)


@intrinsic
def jet(typing, a, like):
    """A number, a Line or a Jet as a Jet, of a kind with `like` where that is none."""
    goal = JetType(bent((a if rank(a) else like).slope))

    def code(target, builder, signature, given):
        return target.cast(builder, given[0], types.unliteral(a), goal)

    return goal(types.unliteral(a), like), code


def reading(slope) -> Any:
    """What a log likelihood is, as five coefficients."""
    goal = JetType(slope)

    @intrinsic
    def coefficients(typing, value):
        if rank(value) == 9:
            raise TypingError(f"log_likelihood is {value}, where a number is wanted")

        def code(target, builder, signature, given):
            whole = target.cast(builder, given[0], value, goal)
            return target.make_helper(builder, goal, value=whole).c

        return goal.content(value), code

    return coefficients


coefficients, coefficients_in_lanes = reading(FLOAT), reading(SEVERAL)


# ----------------------------------------------------------------------------------------- points
class Point(NamedTuple):
    """A block of parameters on a line, or on LANES of them: then slopes have one axis more."""

    values: np.ndarray
    slopes: np.ndarray
    shape: tuple
    size: int
    ndim: int


# Pointers to records are types by this name. So functions of points, whose results are jets, are
# kept under a key that the files of jets are part of, as those are whose arguments are.
Point.__qualname__ = f"Point, {CONTENT}"


def point(values: np.ndarray, slopes: np.ndarray) -> Point:
    """A block, with what else functions ask of an array."""
    return Point(values, slopes, values.shape, values.size, values.ndim)


class Items(types.IterableType):
    """What is read by index, and so may be iterated over."""

    @property
    def iterator_type(self):
        return ItemsIterator(self)


class ItemsIterator(types.SimpleIteratorType):
    """Where an iteration is."""

    def __init__(self, items):
        self.items = items
        typing = cpu_target.typing_context
        item = typing.resolve_function_type(operator.getitem, (items, types.intp), {})
        super().__init__(f"Iterator({items})", item.return_type)


class PointType(PointerType, Items):
    """A pointer to a point: unlike those to other records it has methods."""


register_model(PointType)(PointerModel)
OWN[Point] = PointType


class PartType(Items):
    """A row, or some rows, of a point."""

    def __init__(self, values, slopes):
        self.values, self.slopes = values, slopes
        super().__init__(f"Part({values}, {slopes}, {CONTENT})")


@register_model(PartType)
class PartModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("values", kind.values), ("slopes", kind.slopes)])


for name in ("values", "slopes"):
    make_attribute_wrapper(PartType, name, name)


@intrinsic
def part_of(typing, values, slopes):
    """A Part of its values and its slopes."""
    kind = PartType(values, slopes)

    def code(target, builder, signature, given):
        made = target.make_helper(builder, kind)
        made.values, made.slopes = given
        return made._getvalue()

    return kind(values, slopes), code


def width_of(kind: Any) -> int:
    """Of a point, or a part of one: lines at once; 0 for what is none."""
    if isinstance(kind, PartType):
        values, slopes = kind.values, kind.slopes
    elif isinstance(kind, PointType):
        values, slopes = kind.kinds[:2]
    else:
        return 0
    return 1 if slopes.ndim == values.ndim else LANES


# -------------------------------------------------------------------------------------- iteration
@register_model(ItemsIterator)
class IteratorModel(models.StructModel):
    def __init__(self, manager, kind):
        fields = [("index", types.EphemeralPointer(types.intp)), ("items", kind.items)]
        super().__init__(manager, kind, fields)


@lower_builtin("getiter", Items)
def begin(target, builder, signature, given):
    made = target.make_helper(builder, signature.return_type)
    made.index = alloca_once_value(builder, target.get_constant(types.intp, 0))
    made.items = given[0]
    if target.enable_nrt:
        target.nrt.incref(builder, signature.args[0], given[0])
    return made._getvalue()


def count_of(items):
    return len(items)


@lower_builtin("iternext", ItemsIterator)
@iternext_impl(RefType.NEW)
def go_on(target, builder, signature, given, result):
    kind = signature.args[0]
    made = target.make_helper(builder, kind, value=given[0])
    index = builder.load(made.index)
    size = target.compile_internal(builder, count_of, types.intp(kind.items), [made.items])
    left = builder.icmp_signed("<", index, size)
    result.set_valid(left)
    with builder.if_then(left):
        taken = kind.yield_type(kind.items, types.intp)
        result.yield_(
            target.compile_internal(builder, lambda v, i: v[i], taken, [made.items, index])
        )
        builder.store(builder.add(index, index.type(1)), made.index)


def intrinsics(where: str, **named: Any) -> None:
    """Let `jit` know intrinsics by the names that they have in a file, and what files say."""
    for name, one in named.items():
        known_as(f"{name} of {where}, {CONTENT}", one)


intrinsics(
    "kinds", ADD=ADD, SUBTRACT=SUBTRACT, MULTIPLY=MULTIPLY, DIVIDE=DIVIDE, sign=sign,
    add_lanes=add_lanes, lanes_in=lanes_in, lane=lane, no_lanes=no_lanes, line_of=line_of,
    jet_of=jet_of, jet=jet, coefficients=coefficients,
    coefficients_in_lanes=coefficients_in_lanes, part_of=part_of,
)  # fmt: skip
