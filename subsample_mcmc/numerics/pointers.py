"""Records by reference: compiled code gets one address instead of hundreds of numbers.

A NamedTuple that is passed by value reaches machine code as all its numbers, and those of each
array in it, one by one; every call hands all of them on, and most of the time that compiling takes
goes there. `pointer_to` writes them once into a table of words and passes the table's address: a
field is a load, marked as one that never changes, so that LLVM keeps it in a register.

    a number             one word (a complex one two)
    an array             its address, its shape, its strides
    a Generator          where its state and its functions are
    a record in it       its words, in their place

Records of this package are pointed to. A user's own, and plain tuples, stay what they are: their
functions may do with them whatever tuples allow, and where they stand in a record of this package
they are put together again from its words.
"""

import ctypes
import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numba
import numpy as np

from subsample_mcmc.numerics.digest import PACKAGE
from subsample_mcmc.numerics.jit import DISABLED, address_of
from subsample_mcmc.numerics.memo import keep, recall

ABLE = not DISABLED
if ABLE:
    from subsample_mcmc.numerics import pointer_types
    from subsample_mcmc.numerics.pointer_types import (
        INTERFACE,
        NEITHER,
        OWN,
        PointerType,
        items_of,
        words_of,
    )


RECORDS = f"{PACKAGE}.numerics.records"  # the module in which users' records are made


DOUBLE, WORD = struct.Struct("=d"), struct.Struct("=q")


class RecordAddress:
    """A record that is passed without its type: who reads it knows that."""

    def __init__(self, record: Any):
        self.record = record

    @cached_property
    def kind(self) -> Any:
        """The type that whoever reads it takes it to have."""
        return type_of(self.record)

    @cached_property
    def pointer(self) -> Any:
        """Where it is; made when it is wanted, as functions in it are then compiled."""
        return pointer_to(self.record)


class FunctionAddress:
    """A function that is called by its address: function(about, ...) -> float.

    It is compiled when its address is wanted. What calls it knows neither the function nor the
    type of what it is about, and so is compiled once for all of them.
    """

    def __init__(self, function: Any, *arguments: Any):
        """arguments: what it is about, records, and the types of what follows (see `array`)."""
        self.function, self.arguments = function, arguments

    @property
    def compiled(self) -> bool:
        """Else it is plain Python, and has no address."""
        return hasattr(self.function, "py_func")

    @cached_property
    def address(self) -> int:
        """Where its machine code is."""
        if not self.compiled:
            return 0
        kinds = (
            one.kind if isinstance(one, RecordAddress)
            else type_of(one) if isinstance(one, tuple | Pointer) else one
            for one in self.arguments
        )  # fmt: skip
        return address_of(self.function, tuple(kinds))


def functions_in(value: Any) -> Iterator[FunctionAddress]:
    """The functions that are called by address from a record, at any depth."""
    if isinstance(value, FunctionAddress):
        yield value
    value = value.record if isinstance(value, RecordAddress) else value
    if isinstance(value, tuple | Addresses):
        for part in value:
            yield from functions_in(part)


class Addresses(list):
    """Several of these, in an array of their addresses."""

    @cached_property
    def array(self) -> np.ndarray:
        """The addresses."""
        return np.array([word_of(one) for one in self], dtype=np.int64)


def word_of(value: "FunctionAddress | RecordAddress") -> int:
    """The address that stands for it; 0 for what only Python reads."""
    if isinstance(value, FunctionAddress):
        return value.address
    return getattr(value.pointer, "_address", 0)


def array(number: Any) -> Any:
    """The type of an array of such numbers, one after the other, as arguments are declared."""
    return numba.types.Array(numba.from_dtype(np.dtype(number)), 1, "C")


NUMBER, FLOATS = numba.types.int64, array(float)  # whole numbers are passed as this, too


class Pointer:
    """A record, and the address of its words; its fields are read as the record's own."""

    # Names that no field can have: fields do not start with an underscore.
    __slots__ = ("_address", "_kind", "_record", "_words")

    def __init__(self, record: Any, kind: Any, words: np.ndarray):
        self._record, self._kind, self._words = record, kind, words
        words.flags.writeable = False  # machine code may hold a word in a register
        self._address: int = words.ctypes.data

    def __getattr__(self, name: str) -> Any:
        if name in Pointer.__slots__:  # asked before it is made, by copy or pickle
            raise AttributeError(name)
        value = getattr(self._record, name)
        if name not in self._kind.fields:
            return value
        place = self._kind.fields.index(name)
        return pointed(value, self._kind.kinds[place], self._words[self._kind.offsets[place] :])

    def __reduce__(self):
        raise TypeError("addresses mean nothing in another process: send the record itself.")


def pointer_to(value: Any) -> Any:
    """`value` with each record of this package in it replaced by a pointer; plain Python: as is."""
    if not ABLE or not isinstance(value, tuple):
        return value
    if is_ours(value):
        kind = type_of(value)
        words: list[int] = []
        write(words, kind, value)
        return Pointer(value, kind, np.array(words or [0], dtype=np.int64))
    parts = [pointer_to(part) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def pointed(value: Any, kind: Any, words: np.ndarray) -> Any:
    """A field of a record: where it is a record itself, a pointer into the same words."""
    if isinstance(kind, PointerType):
        return Pointer(getattr(value, "_record", value), kind, words)
    if not isinstance(kind, numba.types.BaseTuple):
        return value
    parts = []
    for part, item in zip(items_of(kind), value, strict=True):
        parts.append(pointed(item, part, words))
        words = words[words_of(part) :]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def is_ours(value: Any) -> bool:
    """Is it a record that this package defines: one that no user's function takes apart."""
    module = type(value).__module__
    return hasattr(value, "_fields") and module.partition(".")[0] == PACKAGE and module != RECORDS


def array_type(value: np.ndarray) -> Any:
    """The numba type of an array, which numba takes a while to find."""
    flags = value.flags
    shape = value.ndim, flags.c_contiguous, flags.f_contiguous
    key = ("array", type(value), value.dtype, *shape, flags.writeable, flags.aligned)
    kind = recall(key)
    return keep(key, numba.typeof(value)) if kind is None else kind


def pointer_type(record: Any, kinds: list) -> Any:
    """The type of a pointer to a record; naming it takes a while."""
    key = ("pointer", record, *[kind._code for kind in kinds])  # numba's number of each type
    kind = recall(key)
    if kind is None:
        made = OWN.get(record, PointerType)
        kind = keep(key, made(record.__qualname__, record._fields, tuple(kinds)))
    return kind


def tuple_type(given: Any, kinds: list) -> Any:
    """The type of a tuple that is not pointed to."""
    key = ("tuple", given, *[kind._code for kind in kinds])
    kind = recall(key)
    if kind is None:
        names = (given,) if hasattr(given, "_fields") else ()
        kind = keep(key, numba.types.BaseTuple.from_types(tuple(kinds), *names))
    return kind


def type_of(value: Any) -> Any:
    """The numba type of a value inside a record."""
    given = type(value)
    if given is float:
        return numba.types.float64
    if given is int and -(2**63) <= value < 2**63:
        return numba.types.int64
    if isinstance(value, np.ndarray):
        try:
            return array_type(value)
        except ValueError:
            raise TypeError(NEITHER.format(f"{given.__name__} of {value.dtype}")) from None
    if isinstance(value, Pointer):
        return value._kind
    if isinstance(value, RecordAddress | FunctionAddress):
        return numba.types.int64
    if isinstance(value, Addresses):
        return array(np.int64)
    if isinstance(value, tuple):
        kinds = [type_of(part) for part in value]
        return pointer_type(given, kinds) if is_ours(value) else tuple_type(given, kinds)
    try:
        return numba.typeof(value)
    except ValueError:
        raise TypeError(NEITHER.format(given.__name__)) from None


def write(words: list[int], kind: Any, value: Any) -> None:
    """Append the words of one value."""
    given = type(value)
    if given is int and value < 2**63:
        words.append(value)
    elif given is float:
        words.append(WORD.unpack(DOUBLE.pack(value))[0])
    elif isinstance(value, np.ndarray):
        words.append(value.ctypes.data)
        words.extend(value.shape)
        words.extend(value.strides)
    elif isinstance(value, Pointer):
        words.extend(value._words[: kind.size].tolist())
    elif isinstance(value, FunctionAddress | RecordAddress):
        words.append(word_of(value))
    elif isinstance(value, Addresses):
        write(words, kind, value.array)
    elif isinstance(value, tuple):
        for part, item in zip(items_of(kind), value, strict=True):
            write(words, part, item)
    elif isinstance(value, np.random.Generator):
        words.extend(interface_of(value))
        words.append(id(value))
    elif value is not None:
        words.extend(words_of_number(kind, value))


def words_of_number(kind: Any, value: Any) -> list[int]:
    """A number of another type: its bytes, in whole words."""
    number = np.array([value], dtype=numba.np.numpy_support.as_dtype(kind))
    words = np.zeros(words_of(kind), dtype=np.int64)
    words.view(np.uint8)[: number.nbytes] = number.view(np.uint8)
    return words.tolist()


def interface_of(generator: np.random.Generator) -> list[int]:
    """Where a generator's state and functions are."""
    interface: Any = generator.bit_generator.ctypes
    functions = [
        ctypes.cast(getattr(interface, name), ctypes.c_void_p).value for name in INTERFACE[2:]
    ]
    return [interface.state_address, interface.state.value, *functions]  # type: ignore[list-item]


if ABLE:

    @numba.extending.typeof_impl.register(Pointer)
    def typeof_pointer(value, _):
        return value._kind


# --------------------------------------------------------------------------- calls by address
def plain_call(function, about, *given):
    """Plain Python: what stands for an address is the function, or the record, itself."""
    return function.function(about.record, *given)


def plain_call_both(function, about, other, *given):
    """The same of two records."""
    return function.function(about.record, other.record, *given)


def plain_call_rows(function, about, row, *given):
    """The same of rows, whose type is of no matter."""
    return function.function(about.record, *given)


def plain_call_residuals(function, about, other, row, *given):
    """The same of two records and rows."""
    return function.function(about.record, other.record, *given)


def plain_call_step(function, chain, tools):
    """A step of a kernel."""
    return function.function(chain, tools.record)


def plain_call_record(function, record, number):
    """Of a record that is there itself."""
    return function.function(record, number)


def plain_call_proposal(function, rng, about):
    """Of a generator and a record."""
    return function.function(rng, about.record)


def plain_call_decision(function, chain, case, current):
    """A decision between arms."""
    return function.function(chain, case.record, current)


def by_address(name: str, plain: Any) -> Any:
    """The call that machine code makes, or that of plain Python."""
    return getattr(pointer_types, name) if ABLE else plain


call = by_address("call", plain_call)
call_number = by_address("call_number", plain_call)
call_numbers = by_address("call_numbers", plain_call)
call_both = by_address("call_both", plain_call_both)
call_rows = by_address("call_rows", plain_call_rows)
call_touch = by_address("call_touch", plain_call_rows)
call_residuals = by_address("call_residuals", plain_call_residuals)
call_step = by_address("call_step", plain_call_step)
call_record = by_address("call_record", plain_call_record)
call_proposal = by_address("call_proposal", plain_call_proposal)
call_decision = by_address("call_decision", plain_call_decision)
