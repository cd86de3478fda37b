"""Arrays that a user's function fills item by item with what depends on the parameters.

np.zeros makes an array of numbers, into which no Jet can be written. So a function that does not
compile as it is, is copied with another numpy: its zeros, empty, ones and their like give a Vector
of the rule "kept", which has an array of values and one of coefficients, and can be written to.
"""

import operator
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types

from subsample_mcmc.numerics.bytecode import loaded_globals
from subsample_mcmc.numerics.jets.arrays import VectorType, vector
from subsample_mcmc.numerics.jets.kinds import (
    LANES,
    coefficients,
    coefficients_in_lanes,
    lane,
    rank,
)
from subsample_mcmc.numerics.jets.overloads import overload
from subsample_mcmc.numerics.jit import FLAGS, jit

KEPT: Any = vector("kept", None, 2)


@overload(operator.setitem)
def put(v, i, x):
    """Write a number, a Line or a Jet."""
    kept = isinstance(v, VectorType) and v.rule == "kept"
    if not kept or not isinstance(i, types.Integer) or rank(x) == 9:
        return None
    if v.parts[1].ndim == 2:

        def write(v, i, x):
            c = coefficients(x)
            v.a[i] = c[0]
            v.b[i, 0], v.b[i, 1], v.b[i, 2], v.b[i, 3] = c[1], c[2], c[3], c[4]

        return write

    def write_lanes(v, i, x):
        c = coefficients_in_lanes(x)
        v.a[i] = c[0]
        for k in range(LANES):
            v.b[i, 0, k] = lane(c[1], k)
            v.b[i, 1, k] = lane(c[2], k)
            v.b[i, 2, k] = lane(c[3], k)
            v.b[i, 3, k] = lane(c[4], k)

    return write_lanes


# ------------------------------------------------------------------- a function's other numpy
def makers(several: bool) -> dict[str, Any]:
    """np.zeros and its like, of one axis."""

    def of_value(value: float, like: bool) -> Any:
        if several:

            @jit(user=True, inner="always")
            def make(size):
                return KEPT(np.full(size, value), np.zeros((size, 4, LANES)))
        else:

            @jit(user=True, inner="always")
            def make(size):
                return KEPT(np.full(size, value), np.zeros((size, 4)))

        if not like:
            return make

        @jit(user=True, inner="always")
        def make_like(array):
            return make(len(array))

        return make_like

    found = {}
    for name, value in (("zeros", 0.0), ("empty", 0.0), ("ones", 1.0)):
        found[name] = of_value(value, False)
        found[f"{name}_like"] = of_value(value, True)
    return found


def filling(function: Any, several: bool) -> Any:
    """A user's function, compiled with arrays that can be filled."""
    made = makers(several)
    other = ModuleType("numpy")
    other.__dict__.update(vars(np), **made)
    own = {id(getattr(np, name)): new for name, new in made.items()}
    return jit(copied(function, {id(np): other} | own), flags=FLAGS, user=True, inner="always")


def copied(function: Any, known: dict[int, Any]) -> Any:
    """A copy of a function, and of the user's that it reaches, which reads other globals."""
    users = getattr(function, "of_user", False)
    function = getattr(function, "py_func", function)
    if id(function) in known:
        return known[id(function)]
    scope = dict(function.__globals__)
    cells = tuple(CellType() for _ in function.__closure__ or ())
    copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    if users:  # what was compiled says that it is ours, and so would never be freed
        copy.__module__ = "a user's"
    known[id(function)] = copy

    def replaced(value):
        if id(value) in known:
            return known[id(value)]
        own = getattr(value, "of_user", isinstance(value, FunctionType))
        return copied(value, known) if own and callable(value) else value

    for name in loaded_globals(function.__code__):
        if name in scope:
            scope[name] = replaced(scope[name])
    for old, new in zip(function.__closure__ or (), cells, strict=True):
        new.cell_contents = replaced(old.cell_contents)
    return copy
