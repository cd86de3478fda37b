"""Compiled functions of this package in plain Python, with all that they reach."""

from types import CellType, FunctionType, ModuleType
from typing import Any

from subsample_mcmc.numerics.bytecode import loaded_globals
from subsample_mcmc.numerics.digest import PACKAGE

KNOWN: dict[int, tuple] = {}  # by the function's id: itself, which keeps the id, and the other


def plain(function: Any) -> Any:
    """What is behind a compiled function: others that it calls are Python, too."""
    own = getattr(function, "py_func", None)
    if own is None:
        return function
    if id(function) in KNOWN:
        return KNOWN[id(function)][1]
    scope, cells = dict(own.__globals__), own.__closure__ or ()
    copy = FunctionType(
        own.__code__, scope, own.__name__, own.__defaults__,
        tuple(CellType() for _ in cells) or None,
    )  # fmt: skip
    KNOWN[id(function)] = function, copy
    for name in loaded_globals(own.__code__):
        if name in scope:
            scope[name] = behind(scope[name])
    for old, new in zip(cells, copy.__closure__ or (), strict=True):
        new.cell_contents = behind(old.cell_contents)
    return copy


def behind(value: Any) -> Any:
    """What a plain function reads in a value's place."""
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == PACKAGE:
        return Plainly(value)
    return plain(value)


class Plainly:
    """A module of this package, whose functions are plain."""

    def __init__(self, module: ModuleType):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return behind(getattr(self._module, name))
