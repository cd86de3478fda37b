"""A user's function, first called as plain Python: mistakes show with an ordinary traceback."""

import inspect
import linecache
import math
import re
import types
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import CompileError, RewardError, SlowMathWarning, unread_field, warn
from subsample_mcmc.numerics.bytecode import (
    attribute_chains,
    codes_of,
    divides,
    fields_read,
    loaded_globals,
    outside,
    reads_argument,
)
from subsample_mcmc.numerics.digest import PACKAGE
from subsample_mcmc.numerics.jit import FLAGS, NUMBA_ERRORS, compiles, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import NUMBER, FunctionAddress
from subsample_mcmc.target.exact_sums import has_etas, room_of

SLOW = ("log", "log1p", "exp")
LARGE = 1 << 20  # bytes of an array beyond which it may not be compiled into a function


def plain(function, name: str, call: str) -> types.FunctionType:
    """The Python function behind what a user gave, or an error that says how it is called."""
    found = getattr(function, "py_func", function)
    if not isinstance(found, types.FunctionType):
        raise TypeError(f"{name}={function!r} is not a Python function: give {call}.")
    return found


def called_with(function, name: str, arguments: dict[str, Any], result: str = "float") -> Any:
    """What a user function returns, called uncompiled; a mistake in it is shown with advice."""
    call = f"{name}({', '.join(arguments)}) -> {result}"
    called = plain(function, name, call)
    try:
        signature = inspect.signature(called, follow_wrapped=False)  # of what is called itself
        signature.bind(*arguments.values())
    except TypeError as error:
        raise TypeError(
            f"{called.__name__}{signature} does not take the {len(arguments)} "
            f"arguments that it is called with ({error}): define it as {call}."
        ) from None
    try:
        with np.errstate(all="ignore"):
            return called(*arguments.values())
    except Exception as error:
        if not isinstance(error, ArithmeticError | IndexError):
            for advice in advised(error, called, arguments):
                error.add_note(advice)
        raise


def advised(error: Exception, called, arguments: dict[str, Any]):
    """What to do about an exception of a user function, as notes below its traceback."""
    frame, lines = error.__traceback__, []
    while frame is not None:
        if frame.tb_frame.f_code is called.__code__:
            lines.append(linecache.getline(called.__code__.co_filename, frame.tb_lineno))
        frame = frame.tb_next
    if lines and isinstance(error, TypeError | ValueError):
        yield from unread_fields(lines[0], called, arguments)
    for role, own in names_of(called, arguments).items() if lines else ():
        if role in ("state", "data") and not hasattr(arguments[role], "_fields"):
            if re.search(rf"\b{own}(\.|\[['\"])", lines[0]):
                yield (
                    f"{own} was given as a plain tuple, without names: read {own}[0], or give a "
                    'dict such as {"y": y}, to read data.y[n].'
                )


def names_of(called, arguments) -> dict[str, str]:
    """What a function calls its arguments, by their roles."""
    code = called.__code__
    return dict(zip(arguments, code.co_varnames[: code.co_argcount], strict=False))


def unread_fields(line: str, called, arguments: dict[str, Any]):
    """Advice on each of state and data of which a line computes with a whole array."""
    own = names_of(called, arguments)
    for role, index in (("state", "0"), ("data", own.get("n", own.get("arm")))):
        if role in own and index:
            if told := unread_field(line, own[role], index, arguments[role]):
                yield told


def try_once(function, name: str, arguments: dict[str, Any], hint: str = "") -> float | None:
    """Call a user function of one datum uncompiled; its value, or None if only numbers failed."""
    shown = f"{name}({', '.join(_shown(k, v) for k, v in arguments.items())})"
    try:
        value = called_with(function, name, arguments)
    except (ZeroDivisionError, OverflowError):
        return None  # compiled code returns inf or nan here, which is judged when data are read
    except IndexError as error:
        if hint:
            error.add_note(f"This was {shown}: {hint}")
        raise
    except ValueError as error:
        if "math domain error" in str(error) or "expected a" in str(error):
            return None
        raise
    return judged(value, shown, function, arguments)


def judged(value, shown: str, function, arguments: dict[str, Any]) -> float:
    """`value` as a float; if it is an array, the error shows which block or column was not read."""
    try:
        return number(value, shown)
    except TypeError as error:
        called = getattr(function, "py_func", function)
        try:
            lines = inspect.getsourcelines(called.__code__)[0]
        except (OSError, TypeError):  # typed at a prompt
            lines = []
        told = (said for line in lines for said in unread_fields(line, called, arguments))
        if np.ndim(value) and (advice := next(filter(None, told), "")):
            error.add_note(advice)
        raise


def must_read_datum(function, name: str, arguments: tuple[str, ...], given: tuple) -> None:
    """Refuse a function that reads arrays of data and never n: it sums over the data itself."""
    called = plain(function, name, f"{name}({', '.join(arguments)}) -> float")
    data, n = arguments.index("data"), arguments.index("n")
    if reads_argument(called, data) and not reads_argument(called, n):
        fields = fields_read(called, data)
        if fields is not None and not any(np.ndim(getattr(given, f, 0)) for f in fields):
            return  # numbers alone
        own = called.__code__.co_varnames
        raise ValueError(
            f"{name} reads {own[data]} and never its argument {own[n]}, so that every datum would "
            "have the same value: it must return the term of ONE datum, read as "
            f"{own[data]}.y[{own[n]}]. Drop its sum or loop over the data: the package adds up."
        )


def must_not_capture(
    function, name: str, arguments: tuple[str, ...], data: tuple, size: int, arms: int = 0
) -> None:
    """Refuse large arrays from outside, which would be compiled in; arms: of a population.

    Compiled code holds a copy of such an array, does not see it change, and with it is too large
    for the cache on disk. Without arms, all arrays of data must have one length.
    """
    called = getattr(function, "py_func", function)
    own = names_of(called, arguments)
    n = own.get("n", "n") if "n" in arguments else ""  # prepare has none
    for user in with_helpers(called):
        for found, value in outside(user):
            if not isinstance(value, np.ndarray) or value.nbytes <= LARGE:
                continue
            given = (
                f"{name} reads {found!r}, an array of shape {value.shape} "
                f"({value.nbytes / 1e6:.0f} MB), from outside: it would be copied into the machine "
                "code, compiled anew in every process, and not see changes."
            )
            named = hasattr(data, "_fields")
            put = f"data={{..., {found!r}: {{}}}}" if named else "data=(..., {})"
            field = own.get("data", "data") + (f".{found}" if named else f"[{len(data)}]")
            if arms or len(value) == size:
                index = n if len(value) == size else own.get("arm") if len(value) == arms else "i"
                read = f"{field}[{index}]" if index else field
                put = put.replace("{}", found)
                raise ValueError(f"{given} Pass it as data, {put}, and read {read}.")
            warn(
                f"{given} Pass it as a table, which may have any length: "
                f"tables={{{found!r}: {found}}}, and read {field}[i].",
            )


def with_helpers(called: types.FunctionType) -> list[types.FunctionType]:
    """A function, and those of the user's that it calls by name."""
    seen = [called]
    for user in seen:
        for _, value in outside(user):
            value = getattr(value, "py_func", value)
            if isinstance(value, types.FunctionType) and value not in seen:
                if (value.__module__ or "").partition(".")[0] not in (PACKAGE, "numpy"):
                    seen.append(value)
    return seen


def divides_whole(function) -> bool:
    """May a function of the user's divide whole numbers, as do // and %."""
    called = getattr(function, "py_func", function)
    if (called.__module__ or "").partition(".")[0] == PACKAGE:
        return False
    return any(divides(code) for user in with_helpers(called) for code in codes_of(user))


def _shown(name, value) -> str:
    return f"{name}={value}" if isinstance(value, int) else name


def number(value, shown: str) -> float:
    """`value` as a float, or an error that says what was returned."""
    if isinstance(value, np.ndarray) and value.ndim:
        advice = (
            " for datum n. Read the datum alone, data.y[n], and drop the sum over data: the "
            "package adds up."
            if "n=" in shown
            else "."
        )
        if value.shape == (1,) and "state" in shown:
            advice = ". Blocks are arrays, even of one number: read state.mu[0], not state.mu."
        raise TypeError(
            f"{shown} returned an array of shape {value.shape}; it must return one float{advice}"
        )
    if isinstance(value, complex) or not isinstance(
        value, bool | int | float | np.bool_ | np.number | np.ndarray
    ):
        raise TypeError(
            f"{shown} returned {value!r} ({type(value).__name__}); it must return one float"
            + (" for datum n." if "n=" in shown else ".")
            + (" Does it end without return?" if value is None else "")
        )
    return float(np.asarray(value).reshape(()))


_warned: set[Any] = set()


def warn_of_slow_math(function) -> None:
    """Say once per function that math.log and the like keep the reward loop from vectorising."""
    found = getattr(function, "py_func", function)
    if found.__code__ in _warned:
        return
    _warned.add(found.__code__)
    used = set()
    reached = {**found.__globals__, **inspect.getclosurevars(found).nonlocals}
    for name in loaded_globals(found.__code__) | set(found.__code__.co_freevars):
        value = reached.get(name)
        if value is math or value is np:
            used |= {f"{name}.{c[0]}" for c in attribute_chains(found.__code__, name) if c}
        elif isinstance(value, types.BuiltinFunctionType | np.ufunc):
            if any(value is getattr(m, f) for m in (math, np) for f in SLOW):
                used.add(f"math.{value.__name__}")
    slow = sorted(u for u in used if u.partition(".")[2] in SLOW)
    if slow:
        better = ", ".join(f"sm.{s.partition('.')[2]}" for s in slow)
        warn(
            f"{found.__name__} calls {', '.join(slow)}, which the compiler cannot vectorise: the "
            f"same values from {better} make an exact draw 10 times faster or more.",
            SlowMathWarning,
        )


@contextmanager
def blaming(model):
    """Turn an error of the compiler into one that names the user's function and line."""
    try:
        yield
    except NUMBA_ERRORS as error:
        told = f"the model cannot be compiled: {' '.join(str(error).split())[:600]}"
        raise CompileError(uncompiled(model) or told) from error


def uncompiled(model) -> str:
    """Which of a model's functions does not compile, and why; empty if all do."""
    state = model.state(model.ints.copy(), model.floats.copy())
    given = (state, model.data, np.int64(0), *model.extra(state))
    suspects = [
        (model.prepare, given[:2]),
        (model.log_likelihood, given),
        (model.log_prior, (state,)),
    ]
    if has_etas(model):
        suspects.append((model.predictors.etas, (*given[:3], room_of(model))))
    reasons = (compiles(function, given, FLAGS) for function, given in suspects if function)
    return next((reason for reason in reasons if reason), "")


def flat(state):
    """The prior of a model that was given none."""
    return 0.0


def with_sites(log_prior, of_site, sites: int):
    """A log prior and those of a block's sites, as one plain function that can be compiled."""
    rest = log_prior or flat

    def log_prior_of_all(state):
        total = 1.0 * rest(state)
        for site in range(sites):
            total += of_site(state, site)
        return total

    return log_prior_of_all


def one_for_all(log_prior):
    """A log prior as that of a site, whichever."""

    def log_prior_of_state(state, site):
        return log_prior(state)

    return log_prior_of_state


TRIED: ContextVar[bool] = ContextVar("tried", default=False)


@contextmanager
def noted(flag: ContextVar[bool]):
    """Let what is made here know that a flag is set."""
    token = flag.set(True)
    try:
        yield
    finally:
        flag.reset(token)


def tried_before():
    """Models that are made here have functions that were tried: on some of all rows, say."""
    return noted(TRIED)


def try_functions(model) -> None:
    """Call what the user gave once uncompiled, on the first and the last datum."""
    if TRIED.get():
        return
    state = model.state(model.ints, model.floats)
    names = ("state", "data", "n", "prepared")
    made: tuple = ()
    if model.prepare is not None:
        result = called_with(
            model.prepare, "prepare", {"state": state, "data": model.data}, "tuple"
        )
        must_not_capture(model.prepare, "prepare", names[:2], model.data, model.size)
        if not isinstance(result, tuple):
            raise TypeError(f"prepare(state, data) returned {result!r}: it must be a tuple.")
        made = (result,)
    for n in sorted({0, model.size - 1}) if model.log_likelihood is not None else ():
        arguments = dict(zip(names, (state, model.data, n, *made), strict=False))
        value = try_once(model.log_likelihood, "log_likelihood", arguments)
        if value is not None and not value < np.inf:
            raise RewardError(
                f"log_likelihood is {value} at datum {n} of the initial state {model.show()}: "
                "it must be finite, or -inf where the state is impossible."
            )
    if model.predictors is not None and model.predictors.etas is not None:
        model.predictors.check_etas(model)
    if model.log_likelihood is not None:
        if model.predictors is None and model.prepare is None and model.size > 1:
            must_read_datum(model.log_likelihood, "log_likelihood", names[:3], model.data)
        must_not_capture(model.log_likelihood, "log_likelihood", names[:3], model.data, model.size)
        warn_of_slow_math(model.log_likelihood)
    if model.log_prior is not None:
        value = called_with(model.log_prior, "log_prior", {"state": state})
        value = judged(value, "log_prior(state)", model.log_prior, {"state": state})
        if not -np.inf < value < np.inf:
            raise ValueError(
                f"log_prior is {value} at the initial state {model.show()}: start where the "
                "prior is positive."
            )


# ------------------------------------------------------------------------- priors of single sites
@memoised
def of_one_site(prior) -> Any:
    """A prior of one site's value, to be called by its address."""

    @jit(inner="entry", user=True)
    def value(context, site, nothing):
        return 1.0 * prior(context.state, site)

    return value


def prior_by_address(prior, context) -> FunctionAddress:
    """A user's f(state, site), called with a context and a site."""
    function = of_one_site(jit(prior, flags=FLAGS, user=True, inner=True))
    return FunctionAddress(function, context, NUMBER, NUMBER)


class AskedPrior(NamedTuple):
    """A site's prior, and what it reads."""

    read: Any  # (context, site, nothing)
    context: Any
