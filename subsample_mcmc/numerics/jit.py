"""Compile: with the files named below, all that knows numba from inside.

`jit` compiles a function once per content (see digest.py) and keeps the machine code on disk
under a key made of it. Stock `cache=True` never hits for closures over user functions, goes stale
when another file changes, and can link two closures of one factory to the wrong function; a key
of contents, which is also part of the symbol's name, does none of these.
If numba moves the private names used here, it compiles with what is left. The others are
compilers.py, passes/, cache.py, pointer_types.py, jets/kinds.py and jets/overloads.py.
"""

import hashlib
import sys
import sysconfig
import types as python
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from subsample_mcmc.errors import CompileError, compile_message
from subsample_mcmc.numerics import compilers
from subsample_mcmc.numerics.bytecode import looks_up
from subsample_mcmc.numerics.cache import ContentCache, cache_directory
from subsample_mcmc.numerics.compilers import CACHE_BASE, COMPILERS, KNOWN, Dispatcher
from subsample_mcmc.numerics.digest import PACKAGE, VERSIONED, Digest, belongs
from subsample_mcmc.numerics.memo import keep, recall

CONTRACT = frozenset({"contract"})
# Reductions and user functions: free to reorder, never to assume that nan and inf do not occur.
FLAGS = frozenset({"reassoc", "contract", "nsz"})
NUMBA = numba.__version__
NOT_FOR_PYTHON = (True, "always", "entry")
DISABLED = bool(numba.config.DISABLE_JIT)
try:
    from subsample_mcmc.numerics import pointer_types  # noqa: F401
except (ImportError, AttributeError) as moved:
    DISABLED = True
    warnings.warn(
        f"this version of subsample_mcmc does not know numba {numba.__version__} ({moved}): all "
        "runs as plain Python, right but some hundred times slower. Install another numba.",
        stacklevel=2,
    )
NUMBA_ERRORS = (numba.core.errors.NumbaError, numba.core.errors.UnsupportedBytecodeError)

# What machine code depends on besides its source and the types of its arguments.
CONFIG = (
    "BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML",
)  # fmt: skip
VERSIONS: tuple = (
    sys.version_info[:3], sysconfig.get_config_var("SOABI"), numba.__version__,
    llvmlite.__version__, np.__version__, *(getattr(numba.config, name, None) for name in CONFIG),
)  # fmt: skip
with suppress(OSError):  # these files decide how everything is compiled
    here = Path(__file__)
    for file in (
        here, here.with_name("compilers.py"), here.with_name("pointer_types.py"),
        *sorted(here.with_name("passes").glob("*.py")),
    ):  # fmt: skip
        VERSIONS += (hashlib.sha256(Path(file).read_bytes()).hexdigest(),)


# Functions that are there for numba to choose what they are, by types (jets/overloads.py).
CHOSEN_BY_TYPES: set[Callable] = set()


# ------------------------------------------------------------------------------------ compile
def jit(
    function=None, *, flags=frozenset(), disjoint=False, inner=False, user=False, checked=False,
    squares=False,
) -> Callable:  # fmt: skip
    """Return `function` compiled: nogil, numpy's error model, every option explicit.

    Two functions of equal content share one compiled object.

    function: plain Python; None: a decorator with these options.
    flags: LLVM's fast-math flags.
    disjoint: array arguments do not overlap.
    inner: only compiled functions call it (no Python wrapper: a third less to compile); "always"
        ones are inlined whatever their size, which loops need to vectorise, and "public" ones too,
        though Python may call them; "entry" ones are called by address.
    user: the function may allocate (package functions are compiled without reference counting).
    checked: the function, and those of a user's that it reaches, raise IndexError for every look-up
        beyond an array, and for negative indices that are not written as constants.
    squares: in the function, and in those of a user's that it reaches, z * z of one name is z ** 2.
    """
    if function is None:
        return lambda f: jit(
            f, flags=flags, disjoint=disjoint, inner=inner, user=user, checked=checked,
            squares=squares,
        )  # fmt: skip
    if DISABLED:
        return getattr(function, "py_func", function)
    more = "checked" if checked else "squares" if squares else ""
    function, options = opened(function, (tuple(sorted(flags)), disjoint, inner, user, more))
    return _compiled(function, options, ())


def opened(function, options):
    """Undo a user's own @njit: his dispatcher is compiled anew, with the flags he chose."""
    if not isinstance(function, Dispatcher) or hasattr(function, "digest"):
        return function, options
    chosen = function.targetoptions.get("fastmath") or frozenset()
    flags = FLAGS if chosen is True else frozenset(getattr(chosen, "flags", chosen))
    return function.py_func, (tuple(sorted(flags)), False, options[2], True, options[4])


def must_call_by_name(function) -> None:
    """Refuse a user's function as a default: it would stay as it is, whatever is asked of it."""
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if (held := held_in(value)) is not None:
            raise CompileError(hidden(function, held, "has {} as the default of an argument"))


def held_in(value) -> Any:
    """The user's function that a value is, or that a tuple holds; or None."""
    if isinstance(value, tuple):
        return next((found for part in value if (found := held_in(part)) is not None), None)
    own = isinstance(value, Dispatcher) and not hasattr(value, "digest")
    plain = isinstance(value, python.FunctionType) and not belongs(value, VERSIONED)
    return value if own or plain else None


def of_another_kind(value) -> Any:
    """The plain function behind one of numba.vectorize, or of numba.cfunc; or None."""
    return getattr(getattr(value, "_dispatcher", None), "py_func", getattr(value, "_pyfunc", None))


def hidden(function, held, how: str, remedy: str = "") -> str:
    """What is said of a function that stays as the user's numba made it."""
    name = held.__name__
    return (
        f"{function.__name__} {how.format(name)}: its look-ups could not be checked. "
        f"{remedy or f'Call it by its own name, {name}(...).'}"
    )


def without_literals(template):
    """Compile calls f(x, 0) as f(x, int): else every constant argument is a function of its own."""

    def call(args, kws):
        plain = tuple(numba.types.unliteral(a) for a in args)
        return template(plain, {k: numba.types.unliteral(v) for k, v in kws.items()})

    return call


def _compiled(function, options, callers):
    if isinstance(function, Dispatcher):  # ours already
        return function
    flags, _, inner, user, more = options
    foreign = (function.__module__ or "").partition(".")[0] != PACKAGE  # is it a user's
    must_call_by_name(function)

    def compiled(value):
        """A function that this one reaches, compiled; None for other values."""
        if isinstance(value, python.FunctionType) and value in CHOSEN_BY_TYPES:
            return None
        if isinstance(value, tuple) and (held := held_in(value)) is not None:
            raise CompileError(hidden(function, held, "reads {} from a tuple of functions"))
        if (held := of_another_kind(value)) is not None and looks_up(held):
            how = "calls {}, which numba made of a plain function without checks"
            raise CompileError(hidden(function, held, how, "Make it a plain function, or @njit."))
        inside = inner if inner in ("always", "public") else True
        value, own = opened(value, (flags, False, inside, user, more))
        if isinstance(value, python.FunctionType) and value in callers:
            raise CompileError(
                f"{function.__name__} and {value.__name__} call each other: a compiled function "
                "may call itself, but not in a circle. Make one function of them."
            )
        if isinstance(value, python.FunctionType | Dispatcher) and not belongs(value, VERSIONED):
            return _compiled(value, own, (*callers, function))
        return None

    digest = Digest(function, (options, foreign, VERSIONS), compiled)
    key = digest.hash.hexdigest()
    if (known := recall(("jit", key))) is not None:
        return known
    frozen = digest.frozen_copy(key)
    made = numba.njit(**numba_options(*options, of_user=digest.of_user, foreign=foreign))(frozen)
    if not foreign and "<locals>" not in function.__qualname__:
        made.__class__, made.place = compilers.Named, (function.__module__, function.__qualname__)
    if hasattr(made, "get_call_template"):
        made.get_call_template = without_literals(made.get_call_template)
    if inner in NOT_FOR_PYTHON:
        forbid_python(made)
    for name in digest.recursive:  # a function that calls itself meets its compiled self
        if name in digest.cells:
            digest.cells[name].cell_contents = made
        else:
            frozen.__globals__[name] = made
    made.digest, made.of_user = key, digest.of_user
    if digest.unknown:
        made.digest = f"{key}-{id(made)}"  # not content-keyed: equal to itself only
        made.uncached = digest.unknown
        return made
    if CACHE_BASE is not None and hasattr(made, "_cache") and cache_directory() is not None:
        made._cache = ContentCache(function.__name__, key)
    return keep(("jit", key), made)


def numba_options(
    flags, disjoint, inner, user, more="", of_user=False, foreign=False
) -> dict[str, Any]:
    """Arguments of numba.njit; its undocumented ones only as long as it knows them.

    of_user: does it reach a user's function. foreign: is it one.
    """
    undocumented = {
        "_nrt": bool(user),
        "no_cpython_wrapper": inner in NOT_FOR_PYTHON,
        "no_cfunc_wrapper": True,
        "forceinline": inner in ("always", "public"),
    }
    wanted = {name: value for name, value in undocumented.items() if name in KNOWN}
    if COMPILERS:
        outer = compilers.OfUser if of_user else compilers.Outer
        where = compilers.Inner if inner in (True, "always") else outer
        wanted["pipeline_class"] = COMPILERS[where, disjoint, more, foreign]
    wanted["boundscheck"] = True if more == "checked" else None  # None: as the environment says
    return {"nogil": True, "error_model": "numpy", "fastmath": set(flags) or False, **wanted}


def compiles(function, arguments, flags=frozenset(), checked=False) -> str:
    """Why a user function cannot be compiled for these arguments; empty if it can."""
    if DISABLED:
        return ""
    try:  # for functions that call it: machine code for Python would take three times as long
        made = jit(function, flags=flags, user=True, inner=True, checked=checked)
        made.compile(tuple(numba.typeof(a) for a in arguments))
    except (*NUMBA_ERRORS, TypeError) as error:  # CompileError is one
        return compile_message(error, function)
    return ""


def address_of(made, kinds: tuple) -> int:
    """Where the machine code of a compiled function is, for arguments of these types."""
    known = vars(made).setdefault("addresses", {})
    if kinds in known:
        return known[kinds]
    if kinds not in made.overloads:
        made.compile(kinds)
    result = made.overloads[kinds]
    if result.signature.return_type != numba.types.float64:
        raise TypeError(f"{made.__name__} returns {result.signature.return_type}, not a float.")
    known[kinds] = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return known[kinds]


def forbid_python(made):
    """Refuse calls from Python of a function without Python wrapper: they crash the process."""

    def refuse(*args, **kws):
        raise TypeError(f"{made.__name__} has inner=True: only compiled functions can call it.")

    if hasattr(made, "_insert") and "no_cpython_wrapper" in KNOWN:
        made._insert, made._compile_for_args = lambda *args: None, refuse
