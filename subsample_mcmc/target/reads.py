"""Functions that cannot look up anything beyond an array, told from their bytecode.

Most read data at their own row, data.y[n], and blocks at constants, state.mu[0]. These need no
pass over the data. Whatever is written in another way is left to lookups.py.
"""

import dis
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from subsample_mcmc.numerics.bytecode import codes_of, outside_functions
from subsample_mcmc.numerics.digest import PACKAGE

HIDDEN = ("take", "put", "item", "itemset", "flat", "choose")  # these look up by themselves
WHOLE = {"int", "int8", "int16", "int32", "int64", "intp", "uint32", "uint64", "floor", "ceil"}
WHOLE |= {"round", "rint", "trunc", "searchsorted", "digitize", "astype", "argmax", "argmin"}
SUBSCRIPTS = ("SUBSCR", "SLICE")


def tokens(code) -> list[tuple[str, Any, bool]]:
    """(kind, name or constant, is it jumped to) of each step, several in one taken apart."""
    found, jumped = [], False
    for i in dis.get_instructions(code):
        name, value, jumped = i.opname, i.argval, jumped or i.is_jump_target
        if name in ("NOP", "CACHE", "RESUME", "PRECALL", "EXTENDED_ARG"):
            continue  # what is jumped to then is the next step
        if "_FAST" in name:
            several = value if isinstance(value, tuple) else (value,)
            kinds = [part for part in name.split("_") if part in ("LOAD", "STORE", "DELETE")]
            for k, own in enumerate(several):
                kind = kinds[k] if len(kinds) == len(several) else kinds[0]
                found.append((f"{kind.lower()} name", own, jumped and k == 0))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            found.append(("constant", value, jumped))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            found.append(("attribute", value, jumped))
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and i.argrepr == "[]"):
            found.append(("subscript", None, jumped))
        else:
            found.append((name, value, jumped))
        jumped = False
    return found


def reads_nothing(function, seen: tuple = ()) -> bool:
    """Is there no look-up in a function and in those of the user's that it calls."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        return True
    for code in codes_of(function):
        for kind, value, _ in tokens(code):
            if kind == "subscript" or any(s in kind for s in SUBSCRIPTS):
                return False
            if kind == "attribute" and value in HIDDEN:
                return False
    return helpers_read_nothing(function, seen)


def helpers_read_nothing(function, seen: tuple = ()) -> bool:
    """The same of the functions that it calls; those of this package are trusted."""
    return all(reads_nothing(helper, (*seen, function)) for helper in helpers_of(function, seen))


def helpers_of(function, seen: tuple) -> Iterator[types.FunctionType]:
    """The user's functions that a function calls, but for itself and those seen."""
    for _, value in outside_functions(function):
        helper = getattr(value, "py_func", value)
        if isinstance(helper, types.FunctionType) and helper not in (*seen, function):
            if not trusted(helper):
                yield helper


def trusted(function: Any) -> bool:
    """Is it a function of this package, or of numpy, and so not to be checked."""
    function = getattr(function, "py_func", function)
    home = (getattr(function, "__module__", None) or "").partition(".")[0]
    code = getattr(function, "__code__", None)
    written = getattr(code, "co_filename", "").startswith("<")  # from a user's PyMC model
    return home in (PACKAGE, "numpy") and not written


def turns_on_values(function, seen: tuple = ()) -> bool:
    """Does a function compare, or make whole numbers of floats, or one that it calls.

    An index may then depend on the values of continuous blocks: int(t), or k while x > cuts[k].
    """
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        return False
    for code in codes_of(function):
        if WHOLE & set(code.co_names):
            return True
        if any(kind == "COMPARE_OP" for kind, _, _ in tokens(code)):
            return True
    return any(turns_on_values(helper, (*seen, function)) for helper in helpers_of(function, seen))


def cannot_fail(
    function, roles: tuple[str, ...], state: Any, data: Any, sizes: dict[str, int]
) -> bool:
    """Does a function read blocks at constants, data at its own row, and nothing else.

    roles: what its arguments are, of "state", "data" and those of sizes, {"n": N}, which count from
    0 to there; those with other names are not read.
    """
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        return False
    code, steps = function.__code__, tokens(function.__code__)
    own = dict(zip(code.co_varnames[: code.co_argcount], roles, strict=False))
    if len(own) != len(roles) or code.co_cellvars:
        return False
    if any(isinstance(c, types.CodeType) for c in code.co_consts):
        return False
    for at, (kind, value, jumped) in enumerate(steps):
        if kind in ("store name", "delete name") and value in own:
            return False
        if any(s in kind for s in SUBSCRIPTS) or (kind == "attribute" and value in HIDDEN):
            return False
        if kind == "subscript":
            before = steps[max(at - 4, 0) : at]
            if jumped or not is_safe(before, own, {"state": state, "data": data}, sizes):
                return False
    return helpers_read_nothing(function)


def is_safe(before: list, own: dict[str, str], given: dict[str, Any], sizes: dict) -> bool:
    """Is a look-up one of data.y[n], state.mu[0], data[0] and data[0][n].

    before: the steps before it. One that is jumped to may follow another than that before it.
    """
    kinds = [kind for kind, _, _ in before]
    values = [own.get(v, "") if k == "load name" else v for k, v, _ in before]
    straight = [not any(jumped for _, _, jumped in before[-i:]) for i in range(4)]
    name, constant, attribute = "load name", "constant", "attribute"
    if kinds[-2:] == [name, constant] and straight[1]:  # one of a tuple of arrays
        return values[-2] == "data" and not hasattr(given["data"], "_fields")
    if kinds[-3:] == [name, attribute, constant] and straight[2] and values[-3] in given:
        array: Any = getattr(given[values[-3]], values[-2], None)
        parts = values[-1] if isinstance(values[-1], tuple) else (values[-1],)
        pairs = list(zip(parts, np.shape(array), strict=False))
        return len(pairs) == len(parts) and all(
            isinstance(i, int) and -length <= i < length for i, length in pairs
        )
    array = None
    if kinds[-3:] == [name, attribute, name] and straight[2]:
        array = getattr(given["data"], values[-2], None) if values[-3] == "data" else None
    elif kinds == [name, constant, "subscript", name] and straight[3] and values[0] == "data":
        array = given["data"][values[1]]
    top = sizes.get(values[-1]) if kinds[-1:] == [name] else None
    return top is not None and np.ndim(array) > 0 and len(array) >= top
