"""Functions that cannot look up anything beyond an array, told from their bytecode.

Most read data at their own row, data.y[n] and data.x[n, 1], blocks at constants, state.mu[0], and
count with `for j in range(d)`. These need no pass over the data. Whatever is written in another
way is left to checked.py.
"""

import builtins
import dis
import operator
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.bytecode import (
    codes_of,
    fields_read,
    instructions,
    outside,
    outside_functions,
)
from subsample_mcmc.numerics.digest import PACKAGE

# These look up by themselves.
HIDDEN: tuple[str, ...] = (
    "take", "put", "item", "itemset", "flat", "choose", "take_along_axis", "getitem", "setitem",
    "itemgetter", "__getitem__", "__setitem__",
)  # fmt: skip
WHOLE = {"int", "int8", "int16", "int32", "int64", "intp", "uint32", "uint64", "floor", "ceil"}
WHOLE |= {"round", "rint", "trunc", "searchsorted", "digitize", "astype", "argmax", "argmin"}
SUBSCRIPTS = ("SUBSCR", "SLICE")
LOOKS_UP = (operator.itemgetter, operator.methodcaller)


class Token(NamedTuple):
    """One step of a function."""

    kind: str  # "load name", "store name", "delete name", "constant", "attribute", "subscript", ...
    value: Any  # its name or constant; of a loop, where it ends
    jumped: bool  # is it jumped to: the step before it may be another than the one written there
    offset: int


@lru_cache(maxsize=1024)  # a model's functions are looked at for each array, kernel and chain
def tokens(code) -> tuple[Token, ...]:
    """The steps of a function, several in one taken apart."""
    found: list[Token] = []
    jumped = False
    for i in dis.get_instructions(code):
        name, value, jumped = i.opname, i.argval, jumped or i.is_jump_target
        if name in ("NOP", "CACHE", "RESUME", "PRECALL", "EXTENDED_ARG"):
            continue  # what is jumped to then is the next step
        if "_FAST" in name:
            several = value if isinstance(value, tuple) else (value,)
            kinds = [part for part in name.split("_") if part in ("LOAD", "STORE", "DELETE")]
            for k, own in enumerate(several):
                kind = kinds[k] if len(kinds) == len(several) else kinds[0]
                found.append(Token(f"{kind.lower()} name", own, jumped and k == 0, i.offset))
        else:
            if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
                name = "constant"
            elif name in ("LOAD_ATTR", "LOAD_METHOD"):
                name = "attribute"
            elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and i.argrepr == "[]"):
                name, value = "subscript", None
            elif name == "BINARY_OP":
                value = i.argrepr
            found.append(Token(name, value, jumped, i.offset))
        jumped = False
    return tuple(found)


def reads_nothing(function, seen: tuple = ()) -> bool:
    """Is there no look-up in a function and in those of the user's that it calls."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        return True
    for code in codes_of(function):
        for kind, value, *_ in tokens(code):
            if kind == "subscript" or any(s in kind for s in SUBSCRIPTS):
                return False
            if kind == "attribute" and value in HIDDEN:
                return False
    return helpers_read_nothing(function, seen)


def calls_hidden(function) -> bool:
    """Does a function call from outside what looks up by itself, under whatever name."""
    return any(
        {*path, getattr(value, "__name__", "")} & set(HIDDEN) or isinstance(value, LOOKS_UP)
        for path, value in outside_functions(function)
    )


def helpers_read_nothing(function, seen: tuple = ()) -> bool:
    """The same of the functions that it calls; those of this package are trusted."""
    if calls_hidden(function):
        return False
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
        if any(token.kind == "COMPARE_OP" for token in tokens(code)):
            return True
    return any(turns_on_values(helper, (*seen, function)) for helper in helpers_of(function, seen))


def handles_exceptions(function, seen: tuple = ()) -> bool:
    """Does a function catch what is raised in it, or one of the user's that it calls."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        return False
    steps = (step for code in codes_of(function) for step in instructions(code))
    if any(step.opname == "PUSH_EXC_INFO" for step in steps):
        return True
    return any(handles_exceptions(one, (*seen, function)) for one in helpers_of(function, seen))


def cannot_fail(
    function,
    roles: tuple[str, ...],
    state: Any,
    data: Any,
    sizes: dict[str, int],
    seen: tuple = (),
) -> bool:
    """Does a function read blocks at constants, data at its own row, and nothing else.

    roles: what its arguments are, of "state", "data" and those of sizes, {"n": N}, which count from
    0 to there; those with other names are not read. `for j in range(4)` counts, too, and so do
    range(len(state.beta)) and range(data.x.shape[1]). Helpers that read may be called with names
    of the caller's own, linear(state, data, n). seen: the functions that call this one.
    """
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType) or function in seen:
        return False
    code = function.__code__
    own = dict(zip(code.co_varnames[: code.co_argcount], roles, strict=False))
    if len(own) != len(roles) or code.co_cellvars:
        return False
    if any(isinstance(c, types.CodeType) for c in code.co_consts):
        return False
    reads = Reads(function, own, {"state": state, "data": data}, sizes)
    for at, (kind, value, *_) in enumerate(reads.steps):
        if kind in ("store name", "delete name") and value in own:
            return False
        if any(s in kind for s in SUBSCRIPTS) or (kind == "attribute" and value in HIDDEN):
            return False
        if kind == "subscript" and not reads.is_safe(at):
            return False
    return helpers_cannot_fail(function, reads, state, data, seen)


def helpers_cannot_fail(function, reads: "Reads", state: Any, data: Any, seen: tuple) -> bool:
    """The same of the user's functions that it calls: they look up nothing, or are called so."""
    if calls_hidden(function):
        return False
    for path, value in outside_functions(function):
        helper = getattr(value, "py_func", value)
        if not isinstance(helper, types.FunctionType) or trusted(helper):
            continue
        if helper is not function and reads_nothing(helper, (*seen, function)):
            continue
        calls = reads.calls(path)
        if not calls:
            return False
        for roles, sizes in calls:
            if not cannot_fail(helper, roles, state, data, sizes, (*seen, function)):
                return False
    return True


class Loop(NamedTuple):
    """`for name in range(top)`."""

    name: str
    first: int  # the first step in it
    end: int  # the offset at which it ends
    top: int


class Reads:
    """What a function reads from the arrays that it is given."""

    def __init__(self, function, own: dict[str, str], given: dict[str, Any], sizes: dict[str, int]):
        """own: the role of each argument. given: the arrays by role. sizes: of roles that count."""
        self.own, self.given, self.sizes = own, given, sizes
        self.steps, self.outside = tokens(function.__code__), dict(outside(function))
        self.loops: list[Loop] = []
        self.loops = self.find_loops()

    def is_safe(self, at: int) -> bool:
        """Is the look-up of a step within its array."""
        length, start = self.length_before(at + 1)
        if length is not None:  # data.x.shape[1]
            return self.straight(start + 1, at)
        indices, start = self.indices_before(at)
        if not indices:
            return False
        shape, start = self.shape_before(start)
        if shape is not None:
            within = len(indices) <= len(shape) and all(
                -length <= low and high < length
                for (low, high), length in zip(indices, shape, strict=False)
            )
        else:  # one of a tuple of arrays
            start, within = at - 2, self.is_tuple(at - 2) and self.steps[at - 1].kind == "constant"
        return within and self.straight(start, at)

    def straight(self, start: int, end: int) -> bool:
        """Does each of these steps follow the one before it."""
        return not any(step.jumped for step in self.steps[start + 1 : end + 1])

    def kinds(self, end: int, count: int) -> list[str]:
        """What the `count` steps before one are."""
        return [step.kind for step in self.steps[max(end - count, 0) : end]]

    def role(self, at: int) -> str:
        """The role of the argument that a step loads; empty: it does not."""
        step = self.steps[at] if at >= 0 else None
        return self.own.get(step.value, "") if step and step.kind == "load name" else ""

    def is_tuple(self, at: int) -> bool:
        """Does a step load data that are a tuple of arrays without names."""
        return self.role(at) == "data" and not hasattr(self.given["data"], "_fields")

    # ------------------------------------------------------------------------------ indices
    def indices_before(self, end: int) -> tuple[list[tuple[int, int]], int]:
        """(lowest, highest) of each index that ends before a step; none if one is not known.

        And the step after what they are indices of.
        """
        count, start = 1, end - 1
        if start >= 0 and self.steps[start].kind == "BUILD_TUPLE":
            count, start = self.steps[start].value, start - 1
        elif start >= 0 and isinstance(self.steps[start].value, tuple):  # constants: x[0, 1]
            values = self.steps[start].value
            whole = self.steps[start].kind == "constant" and all(type(i) is int for i in values)
            return ([(i, i) for i in values], start) if whole else ([], start)
        first = start - count + 1
        spans = [self.span(at) for at in range(max(first, 0), start + 1)]
        known = [span for span in spans if span is not None]
        return (known, first) if len(known) == count else ([], first)

    def span(self, at: int) -> tuple[int, int] | None:
        """(lowest, highest) whole number that a step loads; None if that is not known."""
        step = self.steps[at]
        if (number := self.number(at)) is not None:
            return number, number
        if (top := self.sizes.get(self.role(at))) is not None:
            return 0, top - 1
        loops = [loop for loop in self.loops if step[:2] == ("load name", loop.name)]
        if any(loop.first <= at and step.offset < loop.end for loop in loops):
            return 0, max(loop.top for loop in loops) - 1
        return None

    def number(self, at: int) -> int | None:
        """The whole number that a step loads: a constant, here or outside the function."""
        kind, value, *_ = self.steps[at]
        if kind in ("LOAD_GLOBAL", "LOAD_DEREF"):
            value = self.outside.get(value)
        elif kind != "constant":
            return None
        return value if type(value) is int else None

    # ------------------------------------------------------------------------------- arrays
    def shape_before(self, end: int) -> tuple[tuple[int, ...] | None, int]:
        """(shape, first step) of the array that the steps before one load; None if it is another.

        state.b, data[0], or some of their rows, data.x[n].
        """
        kinds = self.kinds(end, 3)
        if kinds[-2:] == ["load name", "attribute"] and self.role(end - 2) in self.given:
            array = getattr(self.given[self.role(end - 2)], self.steps[end - 1].value, None)
            return (None if array is None else np.shape(array)), end - 2
        if kinds == ["load name", "constant", "subscript"] and self.is_tuple(end - 3):
            return np.shape(self.given["data"][self.steps[end - 2].value]), end - 3
        if kinds[-1:] == ["subscript"]:
            indices, start = self.indices_before(end - 1)
            shape, start = self.shape_before(start)
            if indices and shape is not None and len(indices) < len(shape):
                return shape[len(indices) :], start
        return None, end

    # ---------------------------------------------------------------------------- calls of helpers
    def calls(self, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], dict[str, int]]]:
        """(roles, sizes) of each call of a function from outside; none if one is not known.

        Known are calls by position whose arguments are names or constants.
        """
        found = []
        for at, step in enumerate(self.steps):
            if step.kind not in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME") or step.value != path[0]:
                continue
            rest = [("attribute", name) for name in path[1:]]
            first = at + 1 + len(rest)
            if [own[:2] for own in self.steps[at + 1 : first]] != rest:
                return []
            first += self.steps[first : first + 1] != () and self.steps[first].kind == "PUSH_NULL"
            end = first
            while end < len(self.steps) and self.is_plain(end):
                end += 1
            told = end < len(self.steps) and self.steps[end][:2] == ("CALL", end - first)
            if not told or not self.straight(at, end):
                return []
            roles, sizes = [], dict(self.sizes)
            for k in range(first, end):
                role, span = self.role(k), self.span(k)
                if not role and span is not None and span[0] >= 0:  # a loop's count, or a constant
                    role = f"below {span[1] + 1}"
                    sizes[role] = span[1] + 1
                roles.append(role)
            found.append((tuple(roles), sizes))
        return found

    def is_plain(self, at: int) -> bool:
        """Does a step load a name or a number, and nothing else."""
        return self.steps[at].kind in ("load name", "constant") or self.number(at) is not None

    # -------------------------------------------------------------------------------- loops
    def find_loops(self) -> list[Loop]:
        """The loops that count from 0 or above, by names to which nothing else is given."""
        found, headers = [], set()
        for at, step in enumerate(self.steps[:-1]):
            after = self.steps[at + 1]
            if step.kind == "FOR_ITER" and after.kind == "store name":
                if (top := self.range_before(at)) is not None:
                    headers.add(at + 1)
                    found.append(Loop(after.value, at + 2, step.value, top))
        changed = {
            step.value for at, step in enumerate(self.steps)
            if step.kind in ("store name", "delete name") and at not in headers
        }  # fmt: skip
        return [loop for loop in found if loop.name not in changed]

    def range_before(self, end: int) -> int | None:
        """Where range(...) ends, over which a loop goes; None if it goes over something else."""
        if self.kinds(end, 2) != ["CALL", "GET_ITER"]:
            return None
        call = end - 2
        top, start = self.length_before(call)
        if self.steps[call].value == 2:  # range(1, 4)
            first, start = self.number(start), start - 1
            if first is None or first < 0:
                return None
        elif self.steps[call].value != 1:
            return None
        known = top is not None and self.is_builtin(start, "range")
        return top if known and self.straight(start, end - 1) else None

    def length_before(self, end: int) -> tuple[int | None, int]:
        """(value, step before it) of one argument: a number, a length, a size, part of a shape."""
        if self.number(end - 1) is not None:
            return self.number(end - 1), end - 2
        last = self.steps[end - 1]
        if (last.kind, last.value) == ("CALL", 1):
            shape, start = self.shape_before(end - 1)
            known = shape and self.is_builtin(start - 1, "len")
            return (shape[0] if shape and known else None), start - 2
        if (last.kind, last.value) == ("attribute", "size"):
            shape, start = self.shape_before(end - 1)
            return (None if shape is None else int(np.prod(shape))), start - 1
        if last.kind == "subscript" and self.steps[end - 3][:2] == ("attribute", "shape"):
            shape, start = self.shape_before(end - 3)
            place = self.number(end - 2)
            if shape is not None and place is not None and -len(shape) <= place < len(shape):
                return shape[place], start - 1
        return None, end

    def is_builtin(self, at: int, name: str) -> bool:
        """Does a step load a function of Python's own, which no name of the user's hides."""
        if at < 0 or self.steps[at][:2] != ("LOAD_GLOBAL", name):
            return False
        return self.outside.get(name, getattr(builtins, name)) is getattr(builtins, name)


# --------------------------------------------------------------------- blocks that no datum sees
def unread(model, names: tuple[str, ...]) -> bool:
    """Does no datum depend on these blocks: neither log_likelihood nor prepare reads them.

    Told from the code, and from that of functions to which the state is handed on whole.
    """
    likelihood = read_by_row(model)
    if likelihood is None or any(model.variables[name].place >= 0 for name in names):
        return False
    for function in (likelihood, model.prepare):
        if function is None:
            continue
        function = getattr(function, "py_func", function)
        code = getattr(function, "__code__", None)
        if code is None or code.co_argcount == 0:
            return False
        fields = blocks_read(function, model)
        if fields is None or fields & set(names):
            return False
    return True


def read_by_row(model) -> Any:
    """The function of the user's that reads the blocks for a datum; None without a likelihood."""
    return model.predictors.eta if model.predictors is not None else model.log_likelihood


def blocks_read(function, model, helpers: bool = True) -> set[str] | None:
    """The blocks that a function of the state reads; None if it may read all of them.

    As where it calls a method of the state, state._asdict(), or hands it on in a way that is not
    followed; helpers: whether the user's functions to which it hands it are looked at, too.
    """
    fields = fields_read(function, 0, helpers)
    return fields if fields is not None and fields <= set(model.names) else None


# ------------------------------------------------------- blocks of which each datum sees a site
def columns_of_sites(model, name: str) -> tuple[str, ...]:
    """The columns by which log_likelihood looks up the sites of a block; empty: not known.

    ("group",) where all it reads of block a is state.a[data.group[n]], or g = data.group[n] and
    state.a[g, j]. Told from the code, as of `unread`. Sites of discrete blocks are single numbers.
    """
    block = model.variables[name].block
    if block.discrete and len(block.shape) > 1:
        return ()
    likelihood = read_by_row(model)
    function = getattr(likelihood, "py_func", likelihood)
    code = getattr(function, "__code__", None)
    if code is None or not code.co_argcount or blocks_read(function, model, False) is None:
        return ()
    if model.prepare is not None:  # its own part is read at no row
        read = blocks_read(getattr(model.prepare, "py_func", model.prepare), model, False)
        if read is None or name in read:
            return ()
    steps = tokens(code)
    arguments = code.co_varnames[: code.co_argcount]
    written = [step.value for step in steps if step.kind in ("store name", "delete name")]
    inner = code.co_cellvars or any(isinstance(c, types.CodeType) for c in code.co_consts)
    if len(arguments) < 3 or set(arguments) & set(written) or inner:
        return ()
    state, data, n = arguments[:3]
    own = [("load name", data), ("attribute", None), ("load name", n), ("subscript", None)]

    def column(start: int) -> str:
        """Of data.group[n], which begins at a step; empty: another begins there."""
        here = steps[start : start + 4]
        like = [(s.kind, None if s.kind == "attribute" else s.value) for s in here] == own
        return here[1].value if like and not any(s.jumped for s in here[1:]) else ""

    named = {
        step.value: column(at - 4) for at, step in enumerate(steps)
        if step.kind == "store name" and at >= 4 and not step.jumped
        and written.count(step.value) == 1
    }  # fmt: skip
    found: dict[str, None] = {}
    for at, step in enumerate(steps):
        if step[:2] != ("attribute", name) or steps[at - 1][:2] != ("load name", state):
            continue
        known, end = column(at + 1), at + 5
        if not known and at + 1 < len(steps) and steps[at + 1].kind == "load name":
            known, end = named.get(steps[at + 1].value, ""), at + 2
        if [step[:2] for step in steps[end + 1 : end + 2]] == [("BUILD_TUPLE", 2)]:
            end += 2
        straight = end < len(steps) and not any(s.jumped for s in steps[at : end + 1])
        if not known or not straight or steps[end].kind != "subscript":
            return ()
        found[known] = None
    whole = [np.asarray(getattr(model.data, key, 0.0)) for key in found]
    return tuple(found) if all(a.ndim == 1 and a.dtype.kind in "iu" for a in whole) else ()
