"""How machine code reads a record from an address: where its fields stand, and their loads.

With jit.py, compilers.py and cache.py all that knows numba from inside. Where numba has moved the
names used here, all runs as plain Python (jit.py).
"""

import hashlib
from typing import Any

import numba
from llvmlite import ir
from numba.core.cgutils import create_struct_proxy, if_unlikely
from numba.core.errors import TypingError
from numba.core.typing.templates import AttributeTemplate

from subsample_mcmc.numerics.cache import spelled

WORD = 8  # bytes
INTERFACE = ("state_address", "state", "next_double", "next_uint64", "next_uint32")
NEITHER = "a record that compiled code reads cannot hold a {}: give arrays and numbers."


class PointerType(numba.types.Type):
    """A pointer to a record: the names and types of its fields, and where each one stands."""

    def __init__(self, record: str, fields: tuple[str, ...], kinds: tuple):
        self.record, self.fields, self.kinds = record, fields, kinds
        sizes = [words_of(kind) for kind in kinds]
        self.offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        self.size = sum(sizes)
        text = repr((record, fields, [spelled(kind) for kind in kinds]))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        super().__init__(f"Pointer({record}, {digest})")  # numba compares types by their names


OWN: dict[Any, type[PointerType]] = {}  # records, pointers to which are of a type of their own


def words_of(kind: Any) -> int:
    """How many words a value of this type takes."""
    if isinstance(kind, PointerType):
        return kind.size
    if isinstance(kind, numba.types.BaseTuple):
        return sum(words_of(item) for item in items_of(kind))
    if isinstance(kind, numba.types.Array):
        return 1 + 2 * kind.ndim
    if isinstance(kind, numba.types.NumPyRandomGeneratorType):
        return len(INTERFACE) + 1
    if isinstance(kind, numba.types.NoneType):
        return 0
    if isinstance(kind, numba.types.Number | numba.types.Boolean):
        return -(-numba.np.numpy_support.as_dtype(kind).itemsize // WORD)
    raise TypeError(NEITHER.format(kind))


def items_of(kind: Any) -> tuple:
    """The types of what a record, or a tuple, holds."""
    return kind.kinds if isinstance(kind, PointerType) else tuple(kind)


# ------------------------------------------------------------------------------ what numba is told
@numba.extending.register_model(PointerType)
class PointerModel(numba.extending.models.OpaqueModel):
    """An address."""


@numba.extending.unbox(PointerType)
def unbox_pointer(kind, value, c):
    number = c.pyapi.object_getattr_string(value, "_address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return numba.extending.NativeValue(address)


@numba.extending.infer_getattr
class PointerAttributes(AttributeTemplate):
    """A field's type, by its name."""

    key = PointerType

    def generic_resolve(self, kind, name):
        return kind.kinds[kind.fields.index(name)] if name in kind.fields else None


@numba.extending.lower_getattr_generic(PointerType)
def field_of(context, builder, kind, pointer, name):
    place = kind.fields.index(name)
    return loaded(context, builder, kind.kinds[place], pointer, kind.offsets[place])


def loaded(context, builder, kind, pointer, at: int):
    """The value of a type that stands `at` words from a pointer."""
    if isinstance(kind, PointerType):
        return address(builder, pointer, at, ir.IntType(8))
    if isinstance(kind, numba.types.BaseTuple):
        parts = []
        for part in items_of(kind):
            parts.append(loaded(context, builder, part, pointer, at))
            at += words_of(part)
        return context.make_tuple(builder, kind, parts)
    if isinstance(kind, numba.types.Array):
        return loaded_array(context, builder, kind, pointer, at)
    if isinstance(kind, numba.types.NumPyRandomGeneratorType):
        return loaded_generator(context, builder, kind, pointer, at)
    if isinstance(kind, numba.types.NoneType):
        return context.get_dummy_value()
    stored = context.data_model_manager[kind].get_data_type()
    place = address(builder, pointer, at, stored)
    value = unchanging(builder, place)
    return context.data_model_manager[kind].from_data(builder, value)


def address(builder, pointer, at: int, kind):
    """Where the word `at` stands, as a pointer to a kind."""
    place = builder.gep(pointer, [ir.IntType(64)(at * WORD)]) if at else pointer
    return builder.bitcast(place, kind.as_pointer())


def unchanging(builder, place):
    """Load what never changes."""
    value = builder.load(place)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def loaded_words(context, builder, pointer, at: int, count: int) -> list:
    """Some words, as numbers."""
    word = context.get_value_type(numba.types.intp)
    return [unchanging(builder, address(builder, pointer, at + i, word)) for i in range(count)]


def loaded_array(context, builder, kind, pointer, at: int):
    """An array, from its address, shape and strides; Python owns its memory."""
    model = context.data_model_manager[kind]
    content = context.get_data_type(kind.dtype)
    data = unchanging(builder, address(builder, pointer, at, content.as_pointer()))
    shape = loaded_words(context, builder, pointer, at + 1, kind.ndim)
    strides = loaded_words(context, builder, pointer, at + 1 + kind.ndim, kind.ndim)
    word = context.get_value_type(numba.types.intp)
    count = word(1)
    for k, size in enumerate(shape):
        count = size if k == 0 else builder.mul(count, size)
    parts = {
        "nitems": count, "itemsize": word(context.get_abi_sizeof(content)), "data": data,
        "shape": packed(builder, word, shape), "strides": packed(builder, word, strides),
    }  # fmt: skip
    array = context.get_constant_null(kind)
    for name, value in parts.items():
        array = builder.insert_value(array, value, model.get_field_position(name))
    return array


def packed(builder, word, values: list):
    """Some words as an LLVM array."""
    array = ir.Constant(ir.ArrayType(word, len(values)), None)
    for k, value in enumerate(values):
        array = builder.insert_value(array, value, k)
    return array


def loaded_generator(context, builder, kind, pointer, at: int):
    """A Generator, from where its state and its functions are; Python owns it."""
    bits = numba.types.NumPyRandomBitGeneratorType("bit_generator")
    inner = create_struct_proxy(bits)(context, builder)
    words = loaded_words(context, builder, pointer, at, len(INTERFACE) + 1)
    for name, value in zip(INTERFACE, words, strict=False):
        setattr(inner, name if name.startswith("state") else f"fnptr_{name}", value)
    outer = create_struct_proxy(kind)(context, builder)
    outer.bit_generator = inner._getvalue()
    outer.parent = builder.inttoptr(words[-1], outer.parent.type)
    return outer._getvalue()


# ------------------------------------------------------------------- functions behind addresses
FLOAT, INT, ABOUT = numba.types.float64, numba.types.int64, numba.types.voidptr


def calling(*kinds: Any) -> tuple:
    """(signature, code) of a call: where the function is, and the types of what it is given.

    ABOUT: the address of a record.

    In numba's own calling convention: what the function raises arrives as that exception.
    """

    def code(target, builder, signature, values):
        opaque = ir.IntType(8).as_pointer()
        function = target.call_conv.get_function_type(FLOAT, kinds)
        given = [
            builder.inttoptr(value, opaque) if kind is ABOUT else value
            for kind, value in zip(kinds, values[1:], strict=True)
        ]
        place = builder.inttoptr(values[0], function.as_pointer())
        status, result = target.call_conv.call_function(builder, place, FLOAT, kinds, given)
        with if_unlikely(builder, status.is_error):
            target.call_conv.return_status_propagate(builder, status)
        return result

    return FLOAT(INT, *(INT if kind is ABOUT else kind for kind in kinds)), code


def must_be_array(kind: Any, dtype: Any) -> None:
    """Refuse what is no row of such numbers, one after the other: it would be read as one."""
    fits = isinstance(kind, numba.types.Array) and kind.dtype == dtype
    if not (fits and kind.ndim == 1 and kind.layout == "C" and kind.aligned):
        raise TypingError(f"given {kind}, where an array of {dtype} without gaps is read")


@numba.extending.intrinsic
def call(typing, function, about):
    """function(about)."""
    return calling(ABOUT)


@numba.extending.intrinsic
def call_number(typing, function, about, number):
    """function(about, number)."""
    return calling(ABOUT, INT)


@numba.extending.intrinsic
def call_numbers(typing, function, about, first, second):
    """function(about, first, second)."""
    return calling(ABOUT, INT, INT)


@numba.extending.intrinsic
def call_both(typing, function, about, other, number):
    """function(about, other, number), of two records."""
    return calling(ABOUT, ABOUT, INT)


@numba.extending.intrinsic
def call_rows(typing, function, about, row, arm, rows, out):
    """function(about, arm, rows, out); row: a number of the type that the function's rows have."""
    return with_rows(row, rows, out, calling(ABOUT, INT, rows, out))


@numba.extending.intrinsic
def call_residuals(typing, function, about, other, row, arm, rows, out):
    """function(about, other, arm, rows, out), of two records."""
    return with_rows(row, rows, out, calling(ABOUT, ABOUT, INT, rows, out))


@numba.extending.intrinsic
def call_touch(typing, function, about, row, rows):
    """function(about, rows)."""
    return with_rows(row, rows, None, calling(ABOUT, rows))


@numba.extending.intrinsic
def call_step(typing, function, chain, tools):
    """function(chain, tools): a step of a kernel."""
    return calling(chain, ABOUT)


@numba.extending.intrinsic
def call_record(typing, function, record, number):
    """function(record, number), of a record whose type is known here."""
    return calling(record, INT)


@numba.extending.intrinsic
def call_proposal(typing, function, rng, about):
    """function(rng, about)."""
    return calling(rng, ABOUT)


@numba.extending.intrinsic
def call_decision(typing, function, chain, case, current):
    """function(chain, case, current): a decision between arms."""
    return calling(chain, ABOUT, INT)


def with_rows(row: Any, rows: Any, out: Any, made: tuple) -> tuple:
    """A call with one more argument, that only tells the type of rows, before its last three."""
    must_be_array(rows, numba.types.unliteral(row))
    if out is not None:
        must_be_array(out, FLOAT)
    signature, code = made
    place = len(signature.args) - (1 if out is None else 3)

    def without_row(target, builder, signature, values):
        return code(target, builder, signature, [*values[:place], *values[place + 1 :]])

    kinds = (*signature.args[:place], numba.types.unliteral(row), *signature.args[place:])
    return FLOAT(*kinds), without_row


CALLS: Any = (
    call, call_number, call_numbers, call_both, call_rows, call_residuals, call_touch, call_step,
    call_decision, call_record, call_proposal,
)  # fmt: skip
for known in CALLS:
    known.digest = known._name  # this file is part of every key
