"""A user's function, first called as plain Python: mistakes show with an ordinary traceback."""

import inspect
import math
import types
import warnings
from typing import Any

import numpy as np

from subsample_mcmc.bytecode import attribute_chains, loaded_globals
from subsample_mcmc.errors import SlowMathWarning

SLOW = ("log", "log1p", "exp")


def plain(function, name: str, call: str) -> types.FunctionType:
    """The Python function behind what a user gave, or an error that says how it is called."""
    found = getattr(function, "py_func", function)
    if not isinstance(found, types.FunctionType):
        raise TypeError(f"{name}={function!r} is not a Python function: give {call}.")
    return found


def try_once(function, name: str, arguments: dict[str, Any], hint: str = "") -> float | None:
    """Call a user function of one datum uncompiled; its value, or None if only numbers failed."""
    names = ", ".join(arguments)
    called = plain(function, name, f"{name}({names}) -> float")
    shown = f"{name}({', '.join(_shown(k, v) for k, v in arguments.items())})"
    try:
        with np.errstate(all="ignore"):
            value = called(*arguments.values())
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
    return number(value, shown)


def _shown(name, value) -> str:
    return f"{name}={value}" if isinstance(value, int) else name


def number(value, shown: str) -> float:
    """`value` as a float, or an error that says what was returned."""
    if isinstance(value, np.ndarray) and value.ndim:
        advice = " for datum n. Drop the sum over data: the race does it." if "n=" in shown else "."
        if value.shape == (1,) and "state" in shown:
            advice = ". Blocks are arrays, even of one number: read state.mu[0], not state.mu."
        raise TypeError(
            f"{shown} returned an array of shape {value.shape}; it must return one float{advice}"
        )
    if isinstance(value, complex) or not isinstance(
        value, bool | int | float | np.number | np.ndarray
    ):
        raise TypeError(
            f"{shown} returned {value!r} ({type(value).__name__}); it must return one float"
            + (" for datum n." if "n=" in shown else ".")
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
        warnings.warn(
            f"{found.__name__} calls {', '.join(slow)}, which the compiler cannot vectorise: the "
            f"same values from {better} make an exact draw 10 times faster or more.",
            SlowMathWarning,
            stacklevel=3,
        )
