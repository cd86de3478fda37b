"""What a compiled function is: a hash of everything it reads, and a copy frozen to exactly that.

The hash covers bytecode, constants, options and, recursively, every function, array and number
that is reached through closures and globals, and the attributes read from modules: this
package's by content, those of math and numpy by version. What has no digest, an attribute of a
foreign module say, is named in `unknown`: such a function is compiled and never cached.
"""

import builtins
import functools
import hashlib
import inspect
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import numpy as np

from subsample_mcmc.numerics.bytecode import (
    attribute_chains,
    followed,
    loaded_globals,
    outside_functions,
    twin,
)

PACKAGE = __name__.partition(".")[0]
RECORDS = f"{__package__}.records"  # the module that machine code on disk says it comes from
LIBRARIES = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))  # in a file's path
DEEPEST = 8  # functions and objects of a user's that lead to each other
VERSIONED = ("builtins", "math", "cmath", "numpy")  # what they hold is known by their version


def belongs(value: Any, packages) -> bool:
    """Is `value` what its module, in one of these packages, has under its name."""
    home, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
    known = isinstance(home, str) and home.partition(".")[0] in packages
    return known and getattr(sys.modules.get(home), name, None) is value


class Digest:
    """What a function is: a hash of all it reads, and a copy frozen to exactly that."""

    def __init__(self, function, salt, compiled):
        """compiled(value): the compiled function for a function that is reached, else None."""
        self.function, self.compiled = function, compiled
        self.hash = hashlib.sha256(repr(salt).encode())
        self.globals: dict[str, Any] = {}
        self.cells: dict[str, types.CellType] = {}
        self.recursive: list[str] = []  # names by which the function calls itself
        self.unknown: list[str] = []  # what has no digest
        # Is it a user's function, or does it reach one.
        self.of_user = (function.__module__ or "").partition(".")[0] != PACKAGE
        self.code(function.__code__)
        defaults = (function.__defaults__, *sorted((function.__kwdefaults__ or {}).items()))
        self.put("defaults", self.value("defaults", defaults))
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                value = cell.cell_contents
            except ValueError:
                raise self.missing(name) from None
            self.cells[name] = types.CellType(self.reached(name, value))

    def put(self, *parts):
        self.hash.update(repr(parts).encode())

    def code(self, code):
        """Digest one code object, nested ones included, and follow the globals it loads."""
        flags = code.co_flags | inspect.CO_OPTIMIZED  # which numba clears while cProfile runs
        self.put(code.co_code, code.co_names, code.co_varnames, code.co_freevars, flags)
        self.put(code.co_argcount, code.co_kwonlyargcount, code.co_cellvars, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.put(self.value("constant", constant))
        scope = self.function.__globals__
        for name in sorted(loaded_globals(code) - self.globals.keys()):
            if name in scope:
                self.globals[name] = self.reached(name, scope[name])
            elif hasattr(builtins, name):
                self.put("builtin", name)
            else:
                raise self.missing(name)

    def missing(self, name) -> NameError:
        return NameError(
            f"{self.function.__name__} uses {name!r}, which is not defined yet: compiled "
            "functions see the names that exist when they are handed over; define it first."
        )

    def reached(self, name, value):
        """Digest a value the function reaches; return it frozen, a plain function compiled."""
        if getattr(value, "py_func", value) is self.function:
            self.put(name, "itself")
            self.recursive.append(name)
        elif (made := self.compiled(value)) is not None:
            self.put(name, made.digest)
            self.unknown += getattr(made, "uncached", [])
            self.of_user |= getattr(made, "of_user", False)
            return made
        elif isinstance(getattr(value, "digest", None), str):  # a call of what is at an address
            self.put(name, value.digest)
        elif isinstance(value, types.ModuleType):
            value = self.module(name, value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            value = value.copy()  # numba compiles a global array as a constant
            self.put(name, repr(value.dtype), value.shape, hashlib.sha256(value.tobytes()).digest())
        else:
            self.put(name, self.value(name, value))
        return value

    def module(self, name, module):
        """Digest the attributes read from a module: ours by content, numpy's by version.

        Return the module, or a copy in which a user's functions are compiled.
        """
        found = module
        for chain in sorted(attribute_chains(self.function.__code__, name)):
            path, value = followed(module, chain)
            dotted = ".".join((name, *path))
            top = module.__name__.partition(".")[0]
            if top in VERSIONED:
                # Of numpy; but for what stands in its place where arrays are filled (jets/).
                self.put(dotted, getattr(value, "digest", module.__name__))
            elif hasattr(value, "py_func"):  # sm.log, or a helper of the user's
                made = self.compiled(value)
                self.put(dotted, made.digest)
                self.unknown += getattr(made, "uncached", [])
                self.of_user |= getattr(made, "of_user", False)
                found = found if top == PACKAGE else twin(found, path, made)
            elif top == PACKAGE and isinstance(getattr(value, "digest", None), str):
                self.put(dotted, value.digest)
            elif top == PACKAGE and isinstance(value, int | float | str):
                self.put(dotted, value)
            else:  # in the hash, for stores; machine code with it is kept in memory alone
                self.put(dotted, self.kept(dotted, value))
                self.unknown.append(f"{dotted} (attribute of a foreign module)")
        return found

    def kept(self, name, value: Any) -> str:
        """What tells two values apart that a function may be handed, collections by what they hold.

        Machine code that reads such a thing is not kept: it may change in place. What functions of
        this package look up in is theirs alone.
        """
        if isinstance(value, types.FunctionType):
            code = value.__code__
            constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
            text = f"{value.__qualname__}:{code.co_code!r}[{', '.join(map(steady, constants))}]"
            return text + within(value, lambda: content(value))
        if (self.function.__module__ or "").partition(".")[0] == PACKAGE:
            return type(value).__name__
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return f"{value.dtype!r}{value.shape}:{hashlib.sha256(value.tobytes()).hexdigest()}"
        if isinstance(value, list | tuple):
            return f"{type(value).__name__}({','.join(self.kept(name, item) for item in value)})"
        if isinstance(value, dict):
            items = (f"{self.kept(name, k)}={self.kept(name, v)}" for k, v in value.items())
            return f"dict({','.join(items)})"
        plain = bool | int | float | complex | str | bytes | range | slice
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name}={self.kept(name, value.value)}"
        exact = type(value).__name__ in ("Fraction", "Decimal")
        if value is None or exact or isinstance(value, plain):
            return repr(value)
        if (parts := parts_of(value)) is not None:
            return f"{type(value).__name__}({', '.join(self.kept(name, one) for one in parts)})"
        if isinstance(value, type):
            return type(value).__name__ + within(value, lambda: self.kept(name, own_of(value)))
        kind = type(value)
        of_class = within(kind, lambda: self.kept(name, own_of(kind)))
        return kind.__name__ + within(value, lambda: self.kept(name, vars(value))) + of_class

    def value(self, name, value: Any) -> str:
        """A text that tells two constants apart; what has none is noted as unknown."""
        kind = type(value).__name__
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{kind}:{value!r}"
        if value is Ellipsis:
            return kind
        if isinstance(value, np.generic):
            return f"{value.dtype!r}:{value.tobytes()!r}"
        if isinstance(value, tuple | frozenset):
            parts = [self.value(name, item) for item in value]
            parts = sorted(parts) if isinstance(value, frozenset) else parts
            return f"{kind}{getattr(value, '_fields', '')}({','.join(parts)})"
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            defaults = getattr(value, "_field_defaults", {})
            text = self.value(name, tuple(sorted(defaults.items())))
            return f"record:{value.__qualname__}{value._fields}{text}"
        if isinstance(value, np.dtype):
            return repr(value)
        own = getattr(value, "__name__", "")
        if belongs(value, VERSIONED):
            return f"{value.__module__}.{own}"
        if isinstance(value, np.ufunc) and getattr(np, own, None) is value:
            return f"numpy.{own}"
        self.unknown.append(f"{name} ({kind})")
        return self.kept(name, value)

    def frozen_copy(self, key) -> types.FunctionType:
        """A copy that sees today's globals and cells only, named by its content.

        numba's symbol names use the qualname: without the digest in it, a cached closure and a
        new one of the same factory get one symbol and the linker silently merges them. The
        module is ours because unpickling machine code imports the module it names.
        """
        f, scope = self.function, {**self.globals, "__name__": RECORDS}
        scope["__builtins__"] = f.__globals__.get("__builtins__", __builtins__)
        cells = tuple(self.cells.values()) or None
        copy = types.FunctionType(f.__code__, scope, f.__name__, f.__defaults__, cells)
        copy.__kwdefaults__, copy.__doc__ = f.__kwdefaults__, f.__doc__
        copy.__qualname__, copy.__module__ = f"{f.__name__}_{key[:16]}", RECORDS
        return copy


_looked_into = threading.local()  # what is being looked into: it may lead back to itself


def within(value: Any, look: Callable[[], str]) -> str:
    """What a function or an object of a user's reads or holds in turn; nothing of a library's."""
    stack = vars(_looked_into).setdefault("stack", [])
    known = isinstance(value, types.FunctionType) or hasattr(value, "__dict__")
    if of_library(value) or not known or isinstance(value, types.ModuleType):
        return ""
    if any(one is value for one in stack) or len(stack) >= DEEPEST:
        return ""
    stack.append(value)
    try:
        return look()
    except Exception:  # a name that is not there yet, an object that does not tell
        return ""
    finally:
        stack.pop()


def of_library(value: Any) -> bool:
    """Is its module a library's; of classes, this package too, the version of which runs keep."""
    home = getattr(value, "__module__", "") or ""
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    own = isinstance(value, type) and home.partition(".")[0] == PACKAGE
    return own or any(part in file for part in LIBRARIES)


def own_of(kind: type) -> dict[str, Any]:
    """What a user's class says: its functions, and numbers, texts and collections by name."""
    found = {}
    for base in kind.__mro__[:-1]:
        if of_library(base):
            continue
        for name, value in vars(base).items():
            value = getattr(value, "fget", getattr(value, "__func__", value))
            if name.startswith("__") and name != "__call__":
                continue
            if isinstance(value, types.FunctionType | int | float | str | list | tuple | dict):
                found.setdefault(name, value)
    return dict(sorted(found.items()))


def steady(constant: Any) -> str:
    """A constant of a function as text; a set, as of `x in {1, 2}`, in the same order always."""
    if isinstance(constant, frozenset):
        return f"frozenset({sorted(map(steady, constant))})"
    return repr(constant)


def parts_of(value: Any) -> list | None:
    """What an object of a library's consists of, where that is known; None: it is not."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, type) and issubclass(value, Enum):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if any(kind.__name__.endswith("CFuncPtr") for kind in type(value).__mro__):  # of ctypes
        return [getattr(value, "__name__", "")]
    if isinstance(own := getattr(value, "_pyfunc", None), types.FunctionType):  # numba.cfunc
        return [own]
    if hasattr(value, "dist") and hasattr(value, "kwds"):  # a law of scipy's, with its parameters
        return [getattr(value.dist, "name", ""), value.args, value.kwds]
    return None


def content(function, callers=()) -> str:
    """A hash of what a function says, whichever module or file it stands in, compiled or not.

    For stores: it leaves out versions of compilers, and what has no digest (see `unknown`).
    """
    function = getattr(function, "py_func", function)
    known: dict[Any, str] | None = vars(_looked_into).get("contents")
    around = (*callers, *vars(_looked_into).get("stack", ()))
    if not is_ours(function) or any(map(is_ours, around)):
        known = None  # what it says depends on who calls it, where it leads back to them
    if known is not None and function in known:
        return known[function]

    def reached(value):
        value = getattr(value, "py_func", value)
        if not isinstance(value, types.FunctionType) or value in callers:
            return None
        if belongs(value, VERSIONED):
            return None
        return types.SimpleNamespace(digest=content(value, (*callers, function)))

    found = Digest(function, (), reached).hash.hexdigest()
    if known is not None:
        known[function] = found
    return found


def is_ours(value: Any) -> bool:
    """Is it a function that stands in a module of this package: it reaches nothing of a user's."""
    home = getattr(value, "__module__", None) or ""
    if not isinstance(value, types.FunctionType) or home.partition(".")[0] != PACKAGE:
        return False
    module = getattr(sys.modules.get(home), "__dict__", None)
    return value.__closure__ is None and value.__globals__ is module


@contextmanager
def each_once() -> Iterator[None]:
    """While this lasts, what a function of this package says is found out once."""
    _looked_into.contents = {}
    try:
        yield
    finally:
        del _looked_into.contents


class Namespace:
    """What a compiled function reads by name: has it other values than when that was looked at."""

    def __init__(self, function):
        self.function = getattr(function, "py_func", function)
        self.said, self.values = content(self.function), read_by_name(self.function)

    def __getstate__(self) -> dict[str, Any]:
        """Without the values: a module's own functions, say, are not to be pickled."""
        return vars(self) | {"values": []}

    def has_changed(self) -> bool:
        """Most often nothing was bound anew, which takes microseconds to see."""
        now = read_by_name(self.function)
        if len(now) == len(self.values) and all(map(alike, now, self.values)):
            return False
        if content(self.function) != self.said:
            return True
        self.values = now  # bound anew, to what is equal
        return False


def alike(now: Any, before: Any) -> bool:
    """Is it the same thing, or an array that holds the same bytes."""
    return now is before or (isinstance(now, bytes) and now == before)


def read_by_name(function, seen: list | None = None) -> list[Any]:
    """What a function, and those of a user's that it calls, read from modules and closures."""
    seen = [] if seen is None else seen
    seen.append(function)
    found = []
    for _, value in outside_functions(function):
        # Arrays may be changed in place; compiled code has them as they were.
        array = isinstance(value, np.ndarray)
        found.append(f"{value.dtype}{value.shape}".encode() + value.tobytes() if array else value)
        helper = getattr(value, "py_func", value)
        if not isinstance(helper, types.FunctionType) or helper in seen or of_library(helper):
            continue
        if (helper.__module__ or "").partition(".")[0] != PACKAGE:
            found += read_by_name(helper, seen)
    return found
