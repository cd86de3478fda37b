"""Which globals, and which attributes of modules, a compiled Python function reads."""

import dis
import random
import re
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=1024)  # codes: of a model, and of each kernel, a few are asked for many times
def instructions(code) -> tuple[dis.Instruction, ...]:
    """What a code object does, without the prefixes of long arguments."""
    return tuple(i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG")


DIVISIONS = ("//", "%", "//=", "%=")
LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
LOADING = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL")
DRAWS = {  # methods of generators, by which an import within a function draws
    "gauss", "uniform", "randint", "randrange", "choice", "choices", "shuffle", "sample", "normal",
    "normalvariate", "expovariate", "betavariate", "gammavariate", "standard_normal",
}  # fmt: skip
LONGER, CACHE = dis.opmap["EXTENDED_ARG"], dis.opmap.get("CACHE", 0)
GLOBAL, NAME, DEREF = (dis.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"))
ATTRIBUTE, METHOD = dis.opmap["LOAD_ATTR"], dis.opmap.get("LOAD_METHOD", -1)  # 3.12: one of both
FLAG = int(sys.version_info >= (3, 12))  # bits below the number of an attribute's name


def divides(code) -> bool:
    """Is there // or % or divmod: of whole numbers by 0 they are 0 where they are compiled."""
    done = (i.argrepr for i in instructions(code) if i.opname == "BINARY_OP")
    return "divmod" in code.co_names or not set(done).isdisjoint(DIVISIONS)


def words(code) -> Iterator[tuple[int, int]]:
    """(operation, number) of each step of a code object.

    What `instructions` finds in ten times the time: every function is looked at when it is defined.
    """
    longer, written = 0, code.co_code
    for at in range(0, len(written), 2):
        does, number = written[at], longer << 8 | written[at + 1]
        longer = number if does == LONGER else 0
        if does not in (LONGER, CACHE):
            yield does, number


@lru_cache(maxsize=4096)  # codes: what helpers of many functions read is asked for as often
def loaded_globals(code) -> frozenset[str]:
    """Names a code object loads from its module, nested code objects excluded."""
    found = set()
    for does, number in words(code):
        if does == GLOBAL:
            found.add(code.co_names[number >> 1])  # its lowest bit is a flag
        elif does == NAME:
            found.add(code.co_names[number])
    return frozenset(found)


@lru_cache(maxsize=4096)
def attribute_chains(code, name) -> frozenset[tuple[str, ...]]:
    """The attribute paths read from the global or cell `name`: m.a.b gives ("a", "b")."""
    found, chain = set(), None
    for does, number in words(code):
        if chain is not None and does == ATTRIBUTE:
            chain.append(code.co_names[number >> FLAG])
            continue
        if chain is not None and does == METHOD:
            chain.append(code.co_names[number])
            continue
        if chain is not None:
            found.add(tuple(chain))
            chain = None
        if does == GLOBAL:
            chain = [] if code.co_names[number >> 1] == name else None
        elif does == NAME:
            chain = [] if code.co_names[number] == name else None
        elif does == DEREF:
            chain = [] if code._varname_from_oparg(number) == name else None
    nested = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return frozenset(found).union(*(attribute_chains(c, name) for c in nested))


def codes_of(function) -> list[types.CodeType]:
    """The code of a function and of those nested in it."""
    codes = [function.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return codes


def followed(module: types.ModuleType, chain: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
    """(the part of a chain of attributes that leads out of modules, what stands there)."""
    value: Any = module
    for length, attribute in enumerate(chain):
        if not isinstance(value, types.ModuleType):
            return chain[:length], value
        value = getattr(value, attribute, None)
    return chain, value


def outside(function) -> Iterator[tuple[str, Any]]:
    """Names and values that a function, or one nested in it, reads from its module and closure."""
    for name in sorted(set().union(*(loaded_globals(code) for code in codes_of(function)))):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not defined yet
            continue


def outside_functions(function) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, function) of what it calls from outside: a helper, and module.helper."""
    for name, value in outside(function):
        if not isinstance(value, types.ModuleType):
            yield (name,), value
            continue
        for chain in sorted(attribute_chains(function.__code__, name)):
            path, reached = followed(value, chain)
            if not isinstance(reached, types.ModuleType):
                yield (name, *path), reached


def looks_up(function, seen: tuple = ()) -> bool:
    """Is there x[i] in a function, or in one from outside that it may call."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType) or function in seen:
        return False
    steps = (i for code in codes_of(function) for i in instructions(code))
    if any("SUBSCR" in i.opname or "SLICE" in i.opname or i.argrepr == "[]" for i in steps):
        return True
    return any(looks_up(value, (*seen, function)) for _, value in outside_functions(function))


def global_generator(function, seen: tuple = ()) -> str:
    """What a function, or one that it calls, draws by that has a state of its own; or "".

    np.random.normal and random.gauss are methods of one generator of the whole process; a new
    generator without a seed is another each time. Functions of libraries are not looked into: they
    may draw so, unless they are given a generator.
    """
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType) or function in seen:
        return ""
    if seen and function.__code__.co_filename.startswith(LIBRARIES):
        return ""
    for path, value in outside_functions(function):
        bound = isinstance(value, types.MethodType | types.BuiltinMethodType)
        owner = value.__self__ if bound else value
        if isinstance(owner, np.random.Generator | np.random.RandomState | random.Random):
            return ".".join(path)
        if type(owner).__module__.startswith("scipy.stats") and draws_alone(function):
            return f"{'.'.join(path)}.rvs() without random_state"
        if found := global_generator(value, (*seen, function)):
            return found
    return unseeded(function)


def unseeded(function) -> str:
    """How a function makes a generator without a seed, as default_rng(); or ""."""
    for code in codes_of(function):
        steps = [i for i in instructions(code) if i.opname not in ("PRECALL", "PUSH_NULL")]
        for this, following, last in zip(steps, steps[1:], steps[2:], strict=False):
            if this.opname == "IMPORT_NAME" and this.argval in ("random", "numpy.random"):
                if words_of(code) & DRAWS:
                    return str(this.argval)
            if this.opname not in LOADING or this.argval not in ("default_rng", "RandomState"):
                continue
            none = following.opname == "LOAD_CONST" and following.argval is None
            call = last if none else following
            if call.opname == "CALL" and call.arg == int(none):
                return f"{this.argval}()"
    return ""


def draws_alone(function) -> bool:
    """Is there .rvs() in it, and nothing that may be the generator that it is given."""
    words = set().union(*(words_of(code) for code in codes_of(function)))
    calls = (i for code in codes_of(function) for i in instructions(code) if i.opname == "CALL")
    several = any((i.arg or 0) >= 2 for i in calls)
    return "rvs" in words and "random_state" not in words and not several


def words_of(code) -> set[str]:
    """Names of attributes and of keyword arguments in a code object."""
    keywords = (c for c in code.co_consts if isinstance(c, tuple))
    return {*code.co_names, *(word for c in keywords for word in c if isinstance(word, str))}


def twin(module: types.ModuleType, path: tuple[str, ...], value: Any) -> types.ModuleType:
    """A copy of a module in which what stands at a path is something else."""
    copy = types.ModuleType(module.__name__)
    vars(copy).update(vars(module))
    first, rest = path[0], path[1:]
    setattr(copy, first, twin(getattr(module, first), rest, value) if rest else value)
    return copy


def reads_argument(function, position: int) -> bool:
    """Does a function look at an argument before it gives its name to something else."""
    code = function.__code__
    if position >= code.co_argcount:
        return True  # *args: nobody knows
    name = code.co_varnames[position]
    if name in code.co_cellvars:  # an inner function sees it
        return True
    for i in instructions(code):
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)  # two in one: Python 3.13
        if "_FAST" in i.opname and name in names:  # a comprehension puts it aside: may come later
            return re.findall("LOAD|STORE|DELETE", i.opname)[names.index(name)] == "LOAD"
    return False


# What puts one value, or two, on the stack for a call, and nothing else.
LOADS = re.compile("LOAD_(FAST|CONST|SMALL_INT)(_BORROW)?(_LOAD_FAST(_BORROW)?)?")


def fields_read(function, position: int, helpers: bool = True, seen: tuple = ()) -> set[str] | None:
    """Names of the attributes read of an argument; None if it is used in another way as well.

    helpers: what functions from outside read of it is followed, where it is handed on whole, as in
    `log_odds(state, data, n)`.
    """
    code = function.__code__
    name, steps, found = code.co_varnames[position], instructions(code), set()
    if name in code.co_cellvars:
        return None
    for at, (i, after) in enumerate(zip(steps, [*steps[1:], None], strict=True)):
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        if "_FAST" not in i.opname or name not in names:
            continue
        if "LOAD" not in i.opname:
            return None
        if after is not None and after.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if names[-1] == name and names.count(name) == 1:
                found.add(after.argval)
                continue
        for taken, place in handed_on(function, steps, at, name) if helpers else ((None, 0),):
            if taken is None:
                return None
            if (taken, place) not in (*seen, (function, position)):
                more = fields_read(taken, place, True, (*seen, (function, position)))
                if more is None:
                    return None
                found |= more
    return found


def handed_on(function, steps, at: int, name: str) -> list[tuple[Any, int]]:
    """(function, position) for each argument `name` that step `at` loads; [(None, 0)]: unknown.

    Known is a call of a plain function from outside, by positions, whose arguments are all names of
    the caller's own, or constants.
    """

    def loaded(i) -> int:
        """How many values it loads for a call; 0: it does something else."""
        if not LOADS.fullmatch(i.opname):
            return 0
        return len(i.argval) if i.opname.count("LOAD") == 2 else 1

    unknown, first, end = [(None, 0)], at, at
    while first > 0 and loaded(steps[first - 1]):
        first -= 1
    while end < len(steps) and loaded(steps[end]):
        end += 1
    own_null = first > 0 and steps[first - 1].opname == "PUSH_NULL"  # from Python 3.13 on
    place = first - 2 if own_null else first - 1
    if place < 0 or steps[place].opname not in ("LOAD_GLOBAL", "LOAD_DEREF"):
        return unknown
    called, count = steps[place], sum(loaded(i) for i in steps[first:end])
    before = place > 0 and steps[place - 1].opname == "PUSH_NULL"
    if not (own_null or before or "NULL" in called.argrepr):
        return unknown  # itself an argument
    end += end < len(steps) and steps[end].opname == "PRECALL"  # of Python 3.11
    if end == len(steps) or steps[end].opname != "CALL" or steps[end].arg != count:
        return unknown
    if any(i.is_jump_target for i in steps[place + 1 : end + 1]):
        return unknown  # one of several functions
    value = dict(outside(function)).get(called.argval)
    value = getattr(value, "py_func", value)
    if not isinstance(value, types.FunctionType) or count > value.__code__.co_argcount:
        return unknown
    names: list[Any] = []
    for i in steps[first:end]:
        names += i.argval if loaded(i) == 2 else [i.argval if "FAST" in i.opname else None]
    own = steps[at].argval if isinstance(steps[at].argval, tuple) else (steps[at].argval,)
    start = sum(loaded(i) for i in steps[first:at])
    return [(value, start + k) for k, n in enumerate(own) if n == name]
