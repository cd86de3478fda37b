"""Compile, memoise and cache: the only file that knows numba from inside.

`jit` compiles a function once per content and keeps the machine code on disk under a key made
of that content: bytecode, constants, options and, recursively, every function, array and number
it reaches through closures and globals. Stock `cache=True` never hits for closures over user
functions, goes stale when another file changes, and can link two closures of one factory to the
wrong function; a key of contents, which is also part of the symbol's name, does none of these.

What cannot be digested (an attribute of a foreign module, say) is compiled and not cached:
never stale. If numba moves the private names used here, `jit` compiles without a disk cache.
The cache lives in SUBSAMPLE_MCMC_CACHE, else in the user's cache directory; "off" disables it.
"""

import builtins
import hashlib
import os
import pickle
import sys
import tempfile
import time
import types as python
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from subsample_mcmc.bytecode import attribute_chains, loaded_globals

CONTRACT = frozenset({"contract"})
# Reductions and user functions: free to reorder, never to assume that nan and inf do not occur.
FLAGS = frozenset({"reassoc", "contract", "nsz"})
DISABLED = bool(numba.config.DISABLE_JIT)
NUMBA_ERRORS = (numba.core.errors.NumbaError,)
RECORDS = f"{__package__}.records"  # the module that machine code on disk says it comes from

try:
    from numba.core import caching, compiler

    class Disjoint(compiler.Compiler):
        """Compiles a function whose array arguments never overlap (4x on mini-batches)."""

        def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
            flags.noalias = True
            super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    CACHE_BASE: Any = caching._Cache
    Dispatcher: Any = numba.core.registry.CPUDispatcher
except (ImportError, AttributeError):  # pragma: no cover  (a numba that moved its private names)
    Disjoint, CACHE_BASE, Dispatcher = None, None, type(numba.njit(lambda: None))


# ------------------------------------------------------------------------------------ compile
def jit(function=None, *, flags=frozenset(), disjoint=False, inner=False, user=False) -> Callable:
    """Return `function` compiled: nogil, numpy's error model, every option explicit.

    `flags` are LLVM's fast-math flags; `disjoint` promises that array arguments do not overlap;
    `inner` functions are only called by compiled ones (no Python wrapper: a third less to compile);
    `user` leaves the function free to allocate (package functions are compiled without
    reference counting). Two functions of equal content share one compiled object.
    """
    if function is None:
        return lambda f: jit(f, flags=flags, disjoint=disjoint, inner=inner, user=user)
    if DISABLED:
        return getattr(function, "py_func", function)
    if isinstance(function, Dispatcher):
        if hasattr(function, "digest"):
            return function
        # A dispatcher made by the user is rebuilt: compiled with his flags, named by content.
        chosen = function.targetoptions.get("fastmath") or frozenset()
        flags = FLAGS if chosen is True else frozenset(getattr(chosen, "flags", chosen))
        function, user = function.py_func, True
    return _compiled(function, (tuple(sorted(flags)), disjoint, inner, user), ())


def without_literals(template):
    """Compile calls f(x, 0) as f(x, int): else every constant argument is a function of its own."""

    def call(args, kws):
        plain = tuple(numba.types.unliteral(a) for a in args)
        return template(plain, {k: numba.types.unliteral(v) for k, v in kws.items()})

    return call


_made: dict[str, Any] = {}


def _compiled(function, options, parents):
    flags, disjoint, inner, user = options
    digest = Digest(function, options, (*parents, function))
    key = digest.hexdigest()
    if key in _made:
        return _made[key]
    frozen = digest.frozen_copy(key)
    wanted = {"pipeline_class": Disjoint} if disjoint and Disjoint is not None else {}
    made = numba.njit(
        nogil=True, error_model="numpy", fastmath=set(flags) or False, _nrt=bool(user),
        no_cpython_wrapper=bool(inner), no_cfunc_wrapper=bool(inner), forceinline=inner == "always",
        **wanted,
    )(frozen)  # fmt: skip
    if hasattr(made, "get_call_template"):
        made.get_call_template = without_literals(made.get_call_template)
    for names in digest.recursive:  # a function that calls itself meets its compiled self
        frozen.__globals__[names] = made
    made.digest = key
    if digest.complete:
        _made[key] = made
        if CACHE_BASE is not None and hasattr(made, "_cache") and cache_directory() is not None:
            made._cache = ContentCache(function.__name__, key)
    else:
        made.digest = f"{key}-{id(made)}"  # not content-keyed: equal to itself only
        made.uncached = digest.unknown
    return made


class Digest:
    """What a function is: a hash of all it reads, and a copy frozen to exactly that."""

    def __init__(self, function, options, parents):
        self.function, self.options, self.parents = function, options, parents
        self.hash = hashlib.sha256(repr((options, VERSIONS)).encode())
        self.globals: dict[str, Any] = {}
        self.cells: list[Any] = []
        self.recursive: list[str] = []
        self.unknown: list[str] = []
        self.code(function.__code__)
        self.put("defaults", self.value("defaults", function.__defaults__))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.cells = [self.reached(name, cell.cell_contents) for name, cell in cells.items()]

    @property
    def complete(self) -> bool:
        return not self.unknown

    def hexdigest(self) -> str:
        return self.hash.hexdigest()

    def put(self, *parts):
        self.hash.update(repr(parts).encode())

    def code(self, code):
        """Digest one code object, nested ones included, and follow the globals it loads."""
        self.put(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
        self.put(code.co_argcount, code.co_kwonlyargcount)
        for constant in code.co_consts:
            if isinstance(constant, python.CodeType):
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
                raise NameError(
                    f"{self.function.__name__} uses {name!r}, which is not defined yet: compiled "
                    "functions see the names that exist when they are handed over; define it first."
                )

    def reached(self, name, value):
        """Digest a value the function reaches; return it frozen, a plain function compiled."""
        if isinstance(value, python.FunctionType):
            if value in self.parents:
                self.put(name, "itself", self.parents.index(value))
                if value is self.function:
                    self.recursive.append(name)
                else:
                    self.unknown.append(f"{name} (mutual recursion)")
                return value
            flags, _, inner, user = self.options
            value = _compiled(value, (flags, False, inner, user), (*self.parents, value))
        elif isinstance(value, Dispatcher):
            value = jit(value)
        if isinstance(value, Dispatcher):
            self.put(name, value.digest)
            self.unknown += getattr(value, "uncached", [])
        elif isinstance(value, python.ModuleType):
            self.module(name, value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            value = value.copy()  # numba compiles a global array as a constant
            self.put(name, value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest())
        else:
            self.put(name, self.value(name, value))
        return value

    def module(self, name, module):
        """Digest the attributes read from a module: ours by content, numpy's by version."""
        for chain in sorted(attribute_chains(self.function.__code__, name)):
            value, path = module, [name]
            for attribute in chain:
                if not isinstance(value, python.ModuleType):
                    break
                path.append(attribute)
                value = getattr(value, attribute, None)
            dotted = ".".join(path)
            top = module.__name__.partition(".")[0]
            if top in ("math", "cmath", "numpy"):
                self.put(dotted, module.__name__)
            elif top == __package__ and isinstance(value, Dispatcher):
                self.put(dotted, value.digest)
            elif top == __package__ and isinstance(value, int | float | str):
                self.put(dotted, value)
            else:
                self.unknown.append(f"{dotted} (attribute of a foreign module)")

    def value(self, name, value) -> str:
        """A text that tells two constants apart; what has none is noted as unknown."""
        kind = type(value).__name__
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{kind}:{value!r}"
        if isinstance(value, np.generic):
            return f"{kind}:{value.tobytes()!r}"
        if isinstance(value, tuple | frozenset):
            parts = [self.value(name, item) for item in value]
            parts = sorted(parts) if isinstance(value, frozenset) else parts
            return f"{kind}{getattr(value, '_fields', '')}({','.join(parts)})"
        top = (getattr(value, "__module__", None) or "").partition(".")[0]
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            return f"record:{value.__qualname__}{value._fields}"
        if top in ("builtins", "math", "numpy") or isinstance(value, np.ufunc):
            return f"{top}:{getattr(value, '__qualname__', value)}"
        self.unknown.append(f"{name} ({kind})")
        return kind

    def frozen_copy(self, key) -> python.FunctionType:
        """A copy that sees today's globals and cells only, named by its content.

        numba's symbol names use the qualname: without the digest in it, a cached closure and a
        new one of the same factory get one symbol and the linker silently merges them. The
        module is ours because unpickling machine code imports the module it names.
        """
        f, scope = self.function, {**self.globals, "__name__": RECORDS}
        scope["__builtins__"] = f.__globals__.get("__builtins__", __builtins__)
        cells = tuple(python.CellType(value) for value in self.cells) or None
        copy = python.FunctionType(f.__code__, scope, f.__name__, f.__defaults__, cells)
        copy.__kwdefaults__, copy.__doc__ = f.__kwdefaults__, f.__doc__
        copy.__qualname__, copy.__module__ = f"{f.__name__}_{key[:16]}", RECORDS
        return copy


VERSIONS = (
    sys.version_info[:3], numba.__version__, llvmlite.__version__, np.__version__,
    numba.config.BOUNDSCHECK, numba.config.OPT, numba.config.DEBUGINFO_DEFAULT,
)  # fmt: skip


# -------------------------------------------------------------------------------------- cache
def cache_directory() -> Path | None:
    """Where machine code is kept, created on demand; None when it cannot be, or is "off"."""
    chosen = os.environ.get("SUBSAMPLE_MCMC_CACHE", "")
    if chosen == "off":
        return None
    home = Path.home() / "Library" / "Caches" if sys.platform == "darwin" else Path.home() / ".cache"
    system = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or home
    path = Path(chosen) if chosen else Path(system) / "subsample_mcmc"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return path if os.access(path, os.W_OK) else None


class ContentCache(CACHE_BASE or object):
    """One file per function content and signature, written by atomic rename."""

    def __init__(self, name, digest):
        self.name, self.digest = name, digest

    def path(self, signature, target) -> Path | None:
        machine = repr((str(signature), target.codegen().magic_tuple()))
        key = hashlib.sha256((self.digest + machine).encode()).hexdigest()[:32]
        directory = cache_directory()
        return directory / f"{self.name}-{key}.bin" if directory else None

    def load_overload(self, sig, target_context):
        """Machine code for a signature, or None; a damaged file is a miss."""
        path = self.path(sig, target_context)
        try:
            raw = path.read_bytes() if path else b""
            if len(raw) < 33 or hashlib.sha256(raw[32:]).digest() != raw[:32]:
                return None
            os.utime(path)
            target_context.refresh()
            return compiler.CompileResult._rebuild(target_context, *pickle.loads(raw[32:]))
        except Exception:  # an unreadable entry must never stop a run: it is compiled anew
            return None

    def save_overload(self, sig, data):
        """Write machine code beside its checksum; several writers may race, the last one wins."""
        if data.lifted or data.library.has_dynamic_globals:
            return
        path = self.path(sig, data.target_context)
        if path is None:
            return
        try:
            payload = pickle.dumps(data._reduce(), protocol=pickle.HIGHEST_PROTOCOL)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(file.name).replace(path)
            forget_old(path.parent)
        except Exception:  # a full disk must never stop a run
            return

    @property
    def cache_path(self):
        return str(cache_directory())

    def enable(self): ...
    def disable(self): ...
    def flush(self): ...


def forget_old(directory, days=90):
    """Delete entries that no process has read for `days`; looked at once a day."""
    stamp = directory / "swept"
    now = time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < 86_400:
        return
    stamp.touch()
    for path in directory.glob("*.bin"):
        if now - path.stat().st_mtime > days * 86_400:
            path.unlink(missing_ok=True)
