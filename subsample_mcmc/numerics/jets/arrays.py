"""Whole-array expressions of Lines and Jets: data.x[n] * state.beta, and what may be done with it.

Numba makes a loop of an array expression, over arrays of numbers. With parameters in it, it is a
Vector here: its parts, and the function that makes an item of theirs, called where an item is asked
for. So nothing is stored, and a sum is the loop that a user would have written by hand. An item
that is asked for twice is computed twice.

Arrays that a user's function may write to are copied where they become a part. A Vector itself is
never written to, but for arrays that a function fills (filled.py): there is no v += ..., and what
needs it does not compile.
"""

import operator
from typing import Any

import numpy as np
from numba import types
from numba.extending import (
    intrinsic,
    lower_builtin,
    make_attribute_wrapper,
    models,
    register_model,
)

from subsample_mcmc.numerics.jets import series
from subsample_mcmc.numerics.jets.kinds import (
    CONTENT,
    NUMBERS,
    Items,
    PartType,
    PointType,
    intrinsics,
    jet_of,
    lanes_in,
    rank,
    width_of,
)
from subsample_mcmc.numerics.jets.overloads import attribute, method, overload


class VectorType(Items):
    """Numbers on a line, one after the other: a rule, a function or None, and one or two parts."""

    def __init__(self, rule: str, function, parts: tuple):
        self.rule, self.function, self.parts = rule, function, parts
        known = getattr(function, "__name__", "")
        super().__init__(f"Vector({rule}, {known}, {parts}, {CONTENT})")


@register_model(VectorType)
class VectorModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, list(zip("ab", kind.parts, strict=False)))


for name in "ab":
    make_attribute_wrapper(VectorType, name, name)


VECTORS: dict[tuple, Any] = {}


def vector(rule: str, function: Any, count: int) -> Any:
    """An intrinsic that puts a Vector together: one for all, never forgotten."""
    key = rule, function, count
    if key not in VECTORS:
        VECTORS[key] = building(rule, function, count)
        kind, name = type(function).__name__, getattr(function, "__name__", "")
        intrinsics("vectors", **{f"{rule} {kind} {name} {count}": VECTORS[key]})
    return VECTORS[key]


def building(rule: str, function: Any, count: int) -> Any:
    """The same, made anew."""

    def build(typing, given):
        kind = VectorType(rule, function, tuple(types.unliteral(one) for one in given))

        def code(target, builder, signature, values):
            made = target.make_helper(builder, kind)
            for name, value, one, part in zip("ab", values, given, kind.parts, strict=False):
                setattr(made, name, target.cast(builder, value, one, part))
            whole = made._getvalue()
            if target.enable_nrt:
                target.nrt.incref(builder, kind, whole)
            return whole

        return kind(*given), code

    if count == 1:
        return intrinsic(lambda typing, a: build(typing, (a,)))
    return intrinsic(lambda typing, a, b: build(typing, (a, b)))


# ------------------------------------------------------------------------------ what is a vector
def axes(kind: Any) -> int:
    """How many axes an array, a point, a part of one or a Vector has; -1: it is none of them."""
    if isinstance(kind, VectorType):
        return 1
    if width_of(kind):
        return (kind.values if isinstance(kind, PartType) else kind.kinds[0]).ndim
    return kind.ndim if isinstance(kind, types.Array) and isinstance(kind.dtype, NUMBERS) else -1


def is_vector(kind: Any) -> bool:
    """Has it one axis."""
    return axes(kind) == 1


def knows(kind: Any) -> bool:
    """Has it derivatives: a point, a part of one, a Vector, a Line or a Jet."""
    return bool(width_of(kind)) or isinstance(kind, VectorType) or rank(kind) in (1, 2)


def are_operands(*kinds: Any) -> bool:
    """Is a Vector to be made of them: some have items, some derivatives, all others are numbers."""
    fit = all(is_vector(kind) or rank(kind) < 9 for kind in kinds)
    return fit and any(map(is_vector, kinds)) and any(map(knows, kinds))


def frozen(a):
    """What a user's function may write to: a copy."""


@overload(frozen)
def frozen_of(a):
    if isinstance(a, VectorType) and a.rule == "kept":
        kept = vector("kept", None, 2)
        return lambda a: kept(a.a.copy(), a.b.copy())
    return (lambda a: a.copy()) if isinstance(a, types.Array) and a.mutable else (lambda a: a)


# ------------------------------------------------------------------------------------- operations
def of_one(function: Any, named: Any = None) -> None:
    """Let a function of one number, or operator, be called with a vector."""
    each = vector("each", named or function, 1)

    @overload(function, strict=False)
    def chosen(x):
        return (lambda x: each(frozen(x))) if knows(x) and is_vector(x) else None


def of_two(function: Any, named: Any = None) -> None:
    """The same of two, of which one has derivatives, and one or both are vectors."""
    each = vector("each", named or function, 2)

    @overload(function, strict=False)
    def chosen(a, b):
        if not are_operands(a, b):
            return None
        if is_vector(a) and is_vector(b):

            def both(a, b):
                if len(a) != len(b) and len(a) != 1 and len(b) != 1:
                    raise ValueError("arrays of different lengths")
                return each(frozen(a), frozen(b))

            return both
        return lambda a, b: each(frozen(a), frozen(b))


for name in series.FUNCTIONS:
    if twin := series.NUMPY.get(name, name):
        of_one(getattr(np, twin))
for known in (operator.neg, operator.pos, np.square, np.reciprocal, np.abs, np.fabs):
    of_one(known)
of_one(np.negative, operator.neg)
for known in (np.maximum, np.minimum, np.fmax, np.fmin, np.power, np.logaddexp):
    of_two(known)
for name, twin in (
    ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"),
):  # fmt: skip
    of_two(getattr(operator, name))
    of_two(getattr(np, twin), getattr(operator, name))


@overload(operator.pow, literal=True)
def power(a, b):
    if not are_operands(a, b):
        return None
    if isinstance(b, types.IntegerLiteral) and b.literal_value == 2:
        return lambda a, b: np.square(a)
    return lambda a, b: np.power(a, b)  # noqa: PLW0108


@overload(operator.matmul)
@overload(np.dot, strict=False)
def product(a, b):
    """Of two vectors a number, of a matrix and a vector a Vector."""
    if not (knows(a) or knows(b)) or min(axes(a), axes(b)) < 1 or axes(a) + axes(b) > 3:
        return None
    if axes(a) + axes(b) == 3:
        made, along = vector("rows" if axes(a) == 2 else "columns", None, 2), axes(a) - 1

        def lazy(a, b):
            if a.shape[along] != b.shape[0]:
                raise ValueError("a matrix and a vector of different lengths")
            return made(frozen(a), frozen(b))

        return lazy

    def add_up(a, b):
        if len(a) != len(b):
            raise ValueError("vectors of different lengths")
        if len(a) == 0:
            return 0.0
        total = a[0] * b[0]
        for j in range(1, len(a)):
            total += a[j] * b[j]
        return total

    return add_up


# ------------------------------------------------------------------------------- items, and lengths
def at(x, i):
    """Item i of a vector, the only one where it has one; a number is what it is."""


@overload(at)
def at_of(x, i):
    return (lambda x, i: x[min(i, len(x) - 1)]) if is_vector(x) else (lambda x, i: x)


def made(v, i):
    """Item i of a Vector, i not below 0."""


@overload(made)
def made_of(v, i):
    function = v.function
    if v.rule == "each" and len(v.parts) == 1:
        return lambda v, i: function(v.a[i])
    if v.rule == "each":
        return lambda v, i: function(at(v.a, i), at(v.b, i))
    if v.rule == "taken":
        return lambda v, i: v.a[v.b[i]]
    if v.rule == "kept" and v.parts[1].ndim == 2:
        return lambda v, i: jet_of((v.a[i], v.b[i, 0], v.b[i, 1], v.b[i, 2], v.b[i, 3]))
    if v.rule == "kept":

        def whole(v, i):
            one, two, three = lanes_in(v.b[i, 0]), lanes_in(v.b[i, 1]), lanes_in(v.b[i, 2])
            return jet_of((v.a[i], one, two, three, lanes_in(v.b[i, 3])))

        return whole
    if v.rule == "cut":
        return lambda v, i: v.a[v.b[0] + i * v.b[2]]
    if v.rule == "columns":

        def add_up(v, i):
            total = v.a[0] * v.b[0, i]
            for j in range(1, len(v.a)):
                total += v.a[j] * v.b[j, i]
            return total

        return add_up
    return lambda v, i: product_of(v.a[i], v.b)


def product_of(a, b):
    """np.dot, by another name: numba has its own for that."""


overload(product_of)(product)


@overload(operator.getitem)
def item(block, i):
    if isinstance(block, VectorType) and isinstance(i, types.Integer):

        def pick(block, i):
            j = np.intp(i)
            return made(block, j if j >= 0 else j + len(block))

        return pick
    if isinstance(block, VectorType) and isinstance(i, types.SliceType):
        if block.rule == "kept":  # as of numpy's arrays, its items are those of the array
            kept = vector("kept", None, 2)
            return lambda block, i: kept(block.a[i], block.b[i])
        cut = vector("cut", None, 2)
        return lambda block, i: cut(block, i.indices(len(block)))
    whole = isinstance(i, types.Array) and i.ndim == 1 and isinstance(i.dtype, types.Integer)
    if width_of(block) and axes(block) == 1 and whole:
        taken = vector("taken", None, 2)
        return lambda block, i: taken(block, frozen(i))
    return None


@overload(len)
def length(v):
    if not isinstance(v, VectorType):
        return None
    if v.rule == "taken":
        return lambda v: len(v.b)
    if v.rule == "kept":
        return lambda v: len(v.a)
    if v.rule == "cut":
        return lambda v: len(range(v.b[0], v.b[1], v.b[2]))
    if v.rule == "columns":
        return lambda v: v.b.shape[1]
    if v.rule == "rows" or not is_vector(v.parts[-1]):
        return lambda v: len(v.a)
    if len(v.parts) == 1 or not is_vector(v.parts[0]):
        return (lambda v: len(v.a)) if len(v.parts) == 1 else (lambda v: len(v.b))
    return lambda v: len(v.b) if len(v.a) == 1 else len(v.a)


@attribute(VectorType, "shape")
def shape_of(v):
    return lambda v: (len(v),)


@attribute(VectorType, "size")
def size_of(v):
    return lambda v: len(v)  # noqa: PLW0108


@attribute(PartType, "shape")
def shape_of_part(v):
    return lambda v: v.values.shape


@attribute(PartType, "size")
def size_of_part(v):
    return lambda v: v.values.size


# ------------------------------------------------------------------------------------- reductions
def reduction(name: str, implementation: Any, *others: Any) -> None:
    """Let np.name(v), v.name() and others be called with what has derivatives, and one axis."""

    def chosen(v):
        return implementation if knows(v) and is_vector(v) else None

    for function in (getattr(np, name), *others):
        overload(function, strict=False)(chosen)

    def code(target, builder, signature, given):
        return target.compile_internal(builder, implementation, signature, given)

    for kind in (VectorType, PartType, PointType):
        method(kind, name)(chosen)
        # Older versions of numba take np.name(v) for v.name(), and ask for this under that name.
        lower_builtin(getattr(np, name), kind)(code)


def total(v):
    if len(v) == 0:
        return 0.0
    found = v[0]
    for j in range(1, len(v)):
        found += v[j]
    return found


def mean(v):
    found = v[0]
    for j in range(1, len(v)):
        found += v[j]
    return found / len(v)


def times(v):
    if len(v) == 0:
        return 1.0
    found = v[0]
    for j in range(1, len(v)):
        found *= v[j]
    return found


def largest(v):
    found = v[0]
    for j in range(1, len(v)):
        found = max(found, v[j])
    return found


def smallest(v):
    found = v[0]
    for j in range(1, len(v)):
        found = min(found, v[j])
    return found


reduction("sum", total, sum)
reduction("mean", mean)
reduction("prod", times)
reduction("max", largest)
reduction("min", smallest)


@method(VectorType, "dot")
@method(PartType, "dot")
@method(PointType, "dot")
def dot(a, b):
    return (lambda a, b: product_of(a, b)) if axes(b) > 0 else None  # noqa: PLW0108
