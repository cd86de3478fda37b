"""How machine code reads a record from an address: where its fields stand, and their loads.

With jit.py, compilers.py and cache.py all that knows numba from inside. Where numba has moved the
names used here, records are passed by value (pointers.py).
"""

import hashlib
from typing import Any

import numba
from llvmlite import ir
from numba.core.cgutils import create_struct_proxy
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
