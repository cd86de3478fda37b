"""Jets in plain Python: the arithmetic of jets.py, where nothing is compiled.

A user's function runs on them as it is, but for the functions of `math` and of this package that it
reaches, which Python cannot be told about: `readable` gives it others in their place.
"""

import math
import operator
import types
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics import fastmath, series
from subsample_mcmc.numerics.bytecode import loaded_globals
from subsample_mcmc.numerics.digest import PACKAGE


def plain(function: Any) -> Any:
    """What is behind a compiled function."""
    return getattr(function, "py_func", function)


PLUS, MINUS, TIMES, PRODUCT, OF_SERIES, POWER, RECIPROCAL = map(
    plain,
    (series.plus, series.minus, series.times, series.product, series.of_series, series.power,
     series.reciprocal),
)  # fmt: skip


def coefficients(value: Any) -> tuple:
    """Of a jet, or of a number, which changes nowhere."""
    return value.c if isinstance(value, PlainJet) else (float(value), 0.0, 0.0, 0.0, 0.0)


class PlainJet:
    """A value, and the coefficients of t to t^4."""

    __slots__ = ("c",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, c: tuple):
        self.c = c

    def __add__(self, other):
        return PlainJet(PLUS(self.c, coefficients(other)))

    def __sub__(self, other):
        return PlainJet(MINUS(self.c, coefficients(other)))

    def __rsub__(self, other):
        return PlainJet(MINUS(coefficients(other), self.c))

    def __mul__(self, other):
        if isinstance(other, PlainJet):
            return PlainJet(PRODUCT(self.c, other.c))
        return PlainJet(TIMES(self.c, float(other)))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        if isinstance(other, PlainJet):
            return self * of_jet(RECIPROCAL, other)
        return PlainJet(TIMES(self.c, np.float64(1.0) / other))

    def __rtruediv__(self, other):
        return of_jet(RECIPROCAL, self) * other

    def __pow__(self, other):
        if isinstance(other, PlainJet):
            return of_jet(FUNCTIONS["exp"], other * of_jet(FUNCTIONS["log"], self))
        if other in (1, 2, 3, 4):
            square = self * self
            return (self, square, square * self, square * square)[int(other) - 1]
        return of_jet(lambda x: POWER(x, float(other)), self)

    def __rpow__(self, other):
        return of_jet(FUNCTIONS["exp"], self * math.log(other))

    def __neg__(self):
        return PlainJet(TIMES(self.c, -1.0))

    def __pos__(self):
        return self

    def __abs__(self):
        return of_jet(plain(series.absolute), self)

    def __lt__(self, other):
        return self.c[0] < coefficients(other)[0]

    def __le__(self, other):
        return self.c[0] <= coefficients(other)[0]

    def __gt__(self, other):
        return self.c[0] > coefficients(other)[0]

    def __ge__(self, other):
        return self.c[0] >= coefficients(other)[0]

    def __eq__(self, other):
        return self.c[0] == coefficients(other)[0]

    def __ne__(self, other):
        return self.c[0] != coefficients(other)[0]

    def __array_ufunc__(self, ufunc, method, *given, **more):
        """What numpy is asked for, of one number or two."""
        if method != "__call__" or more or ufunc.__name__ not in OF_NUMPY:
            raise TypeError(f"np.{ufunc.__name__} of a jet")
        numbers = (one if isinstance(one, PlainJet) else float(one) for one in given)
        return OF_NUMPY[ufunc.__name__](*numbers)


def of_jet(function: Any, x: Any) -> PlainJet:
    """A function of a jet, by its series."""
    with np.errstate(all="ignore"):
        return PlainJet(OF_SERIES(function(np.float64(x.c[0])), x.c))


def dispatching(function: Any, known: Any) -> Any:
    """A function that also knows what to do with a jet."""

    def call(x):
        return of_jet(known, x) if isinstance(x, PlainJet) else function(x)

    return call


FUNCTIONS = {name: plain(known) for name, known in series.FUNCTIONS.items()}
MATH = {name: dispatching(getattr(math, name), known) for name, known in FUNCTIONS.items()}
MATH["pow"] = operator.pow
OF_NUMPY: dict[str, Any] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "power": operator.pow, "negative": operator.neg,
    "absolute": abs, "square": lambda x: x * x, "minimum": min, "maximum": max,
    "reciprocal": lambda x: 1.0 / x, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne,
}  # fmt: skip
for name, called in MATH.items():
    OF_NUMPY[series.NUMPY.get(name, name)] = called
OURS = {name: dispatching(getattr(fastmath, name), FUNCTIONS[name]) for name in series.OURS}


class PlainPoint(NamedTuple):
    """A block of parameters on a line."""

    values: np.ndarray
    slopes: np.ndarray

    @property
    def shape(self) -> tuple:
        """Of the block."""
        return self.values.shape

    @property
    def size(self) -> int:
        """How many parameters it has."""
        return self.values.size

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i):
        return PlainJet((float(self.values[i]), float(self.slopes[i]), 0.0, 0.0, 0.0))


point = PlainPoint


# ------------------------------------------------------------------------------ a user's function
def readable(function: FunctionType, known: dict[int, Any] | None = None) -> FunctionType:
    """A copy that calls jets' own functions where it reaches those of `math` or this package."""
    known = {} if known is None else known
    if id(function) in known:
        return known[id(function)]
    scope = dict(function.__globals__)
    copy = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__,
        tuple(types.CellType() for _ in function.__closure__ or ()) or None,
    )  # fmt: skip
    copy.__kwdefaults__ = function.__kwdefaults__
    known[id(function)] = copy
    for name in loaded_globals(function.__code__) & scope.keys():
        scope[name] = replaced(scope[name], known)
    for old, new in zip(function.__closure__ or (), copy.__closure__ or (), strict=True):
        new.cell_contents = replaced(old.cell_contents, known)
    return copy


def replaced(value: Any, known: dict[int, Any]) -> Any:
    """What stands for a value that a function reaches."""
    for home, names in ((math, MATH), (fastmath, OURS)):
        for name, called in names.items():
            if value is getattr(home, name, None):
                return called
    if value is math:
        return SimpleNamespace(**{**vars(math), **MATH})
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == PACKAGE:
        return Within(value, known)
    home = (getattr(value, "__module__", "") or "").partition(".")[0]
    if isinstance(value, FunctionType) and home not in ("numpy", "math"):
        return readable(value, known)
    return value


class Within:
    """A module of this package, whose functions know jets."""

    def __init__(self, module: ModuleType, known: dict[int, Any]):
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        return replaced(getattr(self._module, name), self._known)
