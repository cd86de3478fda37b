"""Derivatives of a user's function along a line, inside machine code: numbers that know them.

Along theta + t s a parameter is a Line, value and slope, and so is whatever is affine in it. The
first operation that is not makes a Jet of it: value and Taylor coefficients up to t^4 (series.py).
A function of one datum that is handed a state of Points, whose items are Lines, returns a Jet: all
derivatives along s from one call, a few times as long as one for numbers. Coefficients that nobody
reads cost nothing, as LLVM leaves them out.

Comparisons are by value, so loops and branches run as they do for numbers, and numbers, Lines and
Jets unify in this order. What is not listed here does not compile; then derivatives come from
interpolation.
"""

import hashlib
import math
import operator
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_cast
from numba.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    register_model,
)

from subsample_mcmc.numerics import fastmath, series
from subsample_mcmc.numerics.jit import FLAGS
from subsample_mcmc.numerics.pointer_types import PointerType

# Machine code for jets is kept under a key that these files are part of.
CONTENT = hashlib.sha256(
    b"".join(Path(file).read_bytes() for file in (__file__, series.__file__, fastmath.__file__))
).hexdigest()[:16]
NUMBERS = types.Integer | types.Float | types.Boolean
INLINED = {"forceinline": True, "fastmath": set(FLAGS), "error_model": "numpy"}
PAIR, FIVE = types.UniTuple(types.float64, 2), types.UniTuple(types.float64, 5)


class Point(NamedTuple):
    """A block of parameters on a line: its items are Lines."""

    values: np.ndarray
    slopes: np.ndarray
    shape: tuple
    size: int


def point(values: np.ndarray, slopes: np.ndarray) -> Point:
    """A block, with what else functions ask of an array."""
    return Point(values, slopes, values.shape, values.size)


# -------------------------------------------------------------------------------------- the types
class LineType(types.Type):
    """c: a value, and its slope."""

    def __init__(self):
        super().__init__(f"Line({CONTENT})")

    def can_convert_from(self, context, other):
        return numba.core.typeconv.Conversion.safe if isinstance(other, NUMBERS) else None

    def unify(self, context, other):
        return self if isinstance(other, NUMBERS) else None


class JetType(types.Type):
    """c: a value, and the coefficients of t to t^4."""

    def __init__(self):
        super().__init__(f"Jet({CONTENT})")

    def can_convert_from(self, context, other):
        simple = isinstance(other, NUMBERS | LineType)
        return numba.core.typeconv.Conversion.safe if simple else None

    def unify(self, context, other):
        return self if isinstance(other, NUMBERS | LineType) else None


LINE, JET = LineType(), JetType()


@register_model(LineType)
class LineModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("c", PAIR)])


@register_model(JetType)
class JetModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("c", FIVE)])


make_attribute_wrapper(LineType, "c", "c")
make_attribute_wrapper(JetType, "c", "c")


def struct_of(kind, builder, target, values):
    """The one member of a Line, or a Jet."""
    made = numba.core.cgutils.create_struct_proxy(kind)(target, builder)
    made.c = values
    return made._getvalue()


@intrinsic
def line_of(typing, pair):
    """A Line of its value and slope."""
    return LINE(PAIR), lambda target, builder, kinds, given: struct_of(
        LINE, builder, target, given[0]
    )


@intrinsic
def jet_of(typing, five):
    """A Jet of its coefficients."""
    return JET(FIVE), lambda target, builder, kinds, given: struct_of(
        JET, builder, target, given[0]
    )


@intrinsic
def coefficients(typing, value):
    """Of a number, a Line or a Jet: five numbers."""
    if rank(value) == 9:
        raise TypingError(f"the log likelihood of a datum is {value}, where a number is wanted")

    def code(target, builder, signature, given):
        whole = target.cast(builder, given[0], value, JET)
        return numba.core.cgutils.create_struct_proxy(JET)(target, builder, value=whole).c

    return FIVE(value), code


coefficients.digest = CONTENT


def widened(kind, zeros: int):
    """A cast that puts zeros behind what is there."""

    def cast(target, builder, source, goal, value):
        zero = target.get_constant(types.float64, 0.0)
        if isinstance(source, LineType):
            pair = numba.core.cgutils.create_struct_proxy(source)(target, builder, value=value).c
            parts = [builder.extract_value(pair, i) for i in range(2)]
        else:
            parts = [target.cast(builder, value, source, types.float64)]
        tuple_type = types.UniTuple(types.float64, len(parts) + zeros)
        made = target.make_tuple(builder, tuple_type, parts + [zero] * zeros)
        return struct_of(kind, builder, target, made)

    return cast


for number in (types.Integer, types.Float, types.Boolean):
    lower_cast(number, LineType)(widened(LINE, 1))
    lower_cast(number, JetType)(widened(JET, 4))
lower_cast(LineType, JetType)(widened(JET, 3))


# ---------------------------------------------------------------------------------- the operators
def rank(kind: Any) -> int:
    """0 of numbers, 1 of Lines, 2 of Jets, 9 of what is none of them."""
    if isinstance(kind, LineType):
        return 1
    if isinstance(kind, JetType):
        return 2
    return 0 if isinstance(kind, NUMBERS) else 9


def of_two(*functions, literal: bool = False):
    """Register make(ranks, a, b) -> implementation, for two of which one is no number."""

    def register(make):
        def chosen(a, b):
            ranks = rank(a), rank(b)
            return make(ranks, a, b) if 0 < max(ranks) < 9 else None

        for function in functions:
            overload(function, jit_options=INLINED, prefer_literal=literal, strict=False)(chosen)
        return make

    return register


plus, minus, times, product = series.plus, series.minus, series.times, series.product


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
    if ranks == (0, 1):
        return lambda a, b: line_of((a - b.c[0], -b.c[1]))
    if ranks == (2, 0):
        return lambda a, b: jet_of((a.c[0] - b, a.c[1], a.c[2], a.c[3], a.c[4]))
    if ranks == (0, 2):
        return lambda a, b: jet_of((a - b.c[0], -b.c[1], -b.c[2], -b.c[3], -b.c[4]))
    if ranks == (2, 1):
        return lambda a, b: jet_of((a.c[0] - b.c[0], a.c[1] - b.c[1], a.c[2], a.c[3], a.c[4]))
    if ranks == (1, 2):
        return lambda a, b: jet_of((a.c[0] - b.c[0], a.c[1] - b.c[1], -b.c[2], -b.c[3], -b.c[4]))
    return lambda a, b: jet_of(minus(a.c, b.c))


@of_two(operator.mul, operator.imul)
def multiply(ranks, a, b):
    if ranks == (1, 0):
        return lambda a, b: line_of((a.c[0] * b, a.c[1] * b))
    if ranks == (0, 1):
        return lambda a, b: line_of((a * b.c[0], a * b.c[1]))
    if ranks == (1, 1):
        return lambda a, b: jet_of(series.product_of_lines(a.c, b.c))
    if ranks == (2, 0):
        return lambda a, b: jet_of(times(a.c, b))
    if ranks == (0, 2):
        return lambda a, b: jet_of(times(b.c, a))
    if ranks == (1, 2):
        return lambda a, b: jet_of(series.product_with_line(a.c, b.c))
    if ranks == (2, 1):
        return lambda a, b: jet_of(series.product_with_line(b.c, a.c))
    return lambda a, b: jet_of(product(a.c, b.c))


@of_two(operator.truediv, operator.itruediv)
def divide(ranks, a, b):
    if ranks[1] == 0:
        if ranks[0] == 1:
            return lambda a, b: line_of((a.c[0] / b, a.c[1] / b))
        return lambda a, b: jet_of(times(a.c, 1.0 / b))
    return lambda a, b: a * inverse(b)


def inverse(a):
    """1 / a."""


def whole(exponent: Any) -> int:
    """A small whole exponent that is written in the source; -1 else."""
    if isinstance(exponent, types.IntegerLiteral) and 0 <= exponent.literal_value <= 8:
        return exponent.literal_value
    return -1


@of_two(operator.pow, operator.ipow, literal=True)
def raise_to(ranks, a, b):
    known = whole(b)
    if known == 1:
        return lambda a, b: a
    if known == 2:
        return lambda a, b: a * a
    if known == 3:
        return lambda a, b: a * a * a
    if known == 4:
        return lambda a, b: (a * a) * (a * a)
    if ranks == (1, 0):
        return lambda a, b: jet_of(series.of_line(series.power(a.c[0], float(b)), a.c[1]))
    if ranks == (2, 0):
        return lambda a, b: jet_of(series.of_series(series.power(a.c[0], float(b)), a.c))
    return lambda a, b: np.exp(b * np.log(a))


for also in (math.pow, np.power):
    overload(also, jit_options=INLINED, strict=False)(
        lambda a, b: (lambda a, b: a**b) if 0 < max(rank(a), rank(b)) < 9 else None
    )


@overload(operator.neg, jit_options=INLINED)
def negative(a):
    if rank(a) == 1:
        return lambda a: line_of((-a.c[0], -a.c[1]))
    if rank(a) == 2:
        return lambda a: jet_of(times(a.c, -1.0))
    return None


@overload(operator.pos, jit_options=INLINED)
def positive(a):
    return (lambda a: a) if rank(a) in (1, 2) else None


def value(a):
    """Of a number, a Line or a Jet: the number."""


@overload(value, jit_options=INLINED)
def value_of(a):
    return (lambda a: a.c[0]) if rank(a) else (lambda a: a)


@of_two(operator.lt)
def less(ranks, a, b):
    return lambda a, b: value(a) < value(b)


@of_two(operator.le)
def at_most(ranks, a, b):
    return lambda a, b: value(a) <= value(b)


@of_two(operator.gt)
def greater(ranks, a, b):
    return lambda a, b: value(a) > value(b)


@of_two(operator.ge)
def at_least(ranks, a, b):
    return lambda a, b: value(a) >= value(b)


@of_two(operator.eq)
def equal(ranks, a, b):
    return lambda a, b: value(a) == value(b)


@of_two(operator.ne)
def unequal(ranks, a, b):
    return lambda a, b: value(a) != value(b)


def jet(a):
    """A number, a Line or a Jet, as a Jet."""


@overload(jet, jit_options=INLINED)
def as_jet(a):
    if rank(a) == 2:
        return lambda a: a
    if rank(a) == 1:
        return lambda a: jet_of((a.c[0], a.c[1], 0.0, 0.0, 0.0))
    return lambda a: jet_of((float(a), 0.0, 0.0, 0.0, 0.0))


def line(a):
    """A number or a Line, as a Line."""


@overload(line, jit_options=INLINED)
def as_line(a):
    return (lambda a: a) if rank(a) == 1 else (lambda a: line_of((float(a), 0.0)))


@of_two(min, np.minimum)
def minimum(ranks, a, b):
    if max(ranks) == 1:
        return lambda a, b: line(a) if value(a) <= value(b) else line(b)
    return lambda a, b: jet(a) if value(a) <= value(b) else jet(b)


@of_two(max, np.maximum)
def maximum(ranks, a, b):
    if max(ranks) == 1:
        return lambda a, b: line(a) if value(a) >= value(b) else line(b)
    return lambda a, b: jet(a) if value(a) >= value(b) else jet(b)


# ---------------------------------------------------------------------- functions of one argument
def register(function, known) -> None:
    """A function of one Line or Jet, by its series."""

    @overload(function, jit_options=INLINED, strict=False)
    def chosen(x):
        if rank(x) == 1:
            return lambda x: jet_of(series.of_line(known(x.c[0]), x.c[1]))
        if rank(x) == 2:
            return lambda x: jet_of(series.of_series(known(x.c[0]), x.c))
        return None


for name, known in series.FUNCTIONS.items():
    register(getattr(math, name), known)
    if twin := series.NUMPY.get(name, name):
        register(getattr(np, twin), known)
for function in (abs, np.abs):
    register(function, series.absolute)
for function in (inverse, np.reciprocal):
    register(function, series.reciprocal)


@overload(np.square, jit_options=INLINED, strict=False)
def square(x):
    return (lambda x: x * x) if rank(x) in (1, 2) else None


# ----------------------------------------------------------------------------------------- points
def is_point(kind: Any) -> bool:
    return isinstance(kind, PointerType) and kind.fields == Point._fields


@overload(operator.getitem, jit_options=INLINED)
def item(block, i):
    if not is_point(block):
        return None
    return lambda block, i: line_of((block.values[i], block.slopes[i]))


@overload(len, jit_options=INLINED)
def length(block):
    return (lambda block: len(block.values)) if is_point(block) else None


# --------------------------------------------------------------- functions of this package's own
def serve(dispatcher: Any, known: Any) -> None:
    """Let sm.log and its like be called with a Line or a Jet."""

    @numba.njit(**INLINED)
    def of_jets(x):
        return known(x)

    template, overload_of = dispatcher.get_call_template, dispatcher.get_overload

    def get_call_template(args, kws):
        served = of_jets.get_call_template if rank(args[0]) in (1, 2) else template
        return served(args, kws)

    def get_overload(kinds):
        served = of_jets.get_overload if rank(kinds[0]) in (1, 2) else overload_of
        return served(kinds)

    dispatcher.get_call_template, dispatcher.get_overload = get_call_template, get_overload


for name in series.OURS:
    serve(getattr(fastmath, name), getattr(np, name))


def readable(function: Any) -> Any:
    """Compiled functions read jets as they are."""
    return function
