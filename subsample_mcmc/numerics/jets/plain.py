"""Lines and Jets in plain Python: the arithmetic of operators.py, where nothing is compiled.

A user's function runs on them as it is, but for the functions of `math` and of this package that it
reaches, which Python cannot be told about: `readable` gives it others in their place.
"""

import math
import operator
import types
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from subsample_mcmc.numerics import special
from subsample_mcmc.numerics.bytecode import loaded_globals
from subsample_mcmc.numerics.digest import PACKAGE
from subsample_mcmc.numerics.jets import plain_ranges, series
from subsample_mcmc.numerics.jets.plain_ranges import Known
from subsample_mcmc.numerics.jets.plain_tapes import PlainTraced, note, of_words, signs

LANES = 8
NUMBER = int | float | np.number | np.bool_


def plain(function: Any) -> Any:
    """What is behind a compiled function."""
    return getattr(function, "py_func", function)


PLUS, MINUS, TIMES, OVER, PRODUCT, OF_SERIES, POWER, RECIPROCAL, AT_ZERO = map(
    plain,
    (series.plus, series.minus, series.times, series.over, series.product, series.of_series,
     series.power, series.reciprocal, series.at_zero),
)  # fmt: skip


def five(value: Any) -> tuple:
    """Coefficients of a jet, or of a number, which changes nowhere."""
    if isinstance(value, PlainJet):
        return value.c
    if not isinstance(value, NUMBER):
        raise TypeError(f"{type(value).__name__} among numbers with derivatives")
    return (np.float64(value), 0.0, 0.0, 0.0, 0.0)


def number(value: Any) -> Any:
    """The value of a jet, or the number itself."""
    return value.c[0] if isinstance(value, PlainJet) else value


class PlainJet:
    """A value, and the coefficients of t to t^4, each of one line or an array of several."""

    __slots__ = ("c",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, c: tuple):
        self.c = c

    def __add__(self, other):
        return PlainJet(PLUS(self.c, five(other)))

    def __sub__(self, other):
        return PlainJet(MINUS(self.c, five(other)))

    def __rsub__(self, other):
        return PlainJet(MINUS(five(other), self.c))

    def __mul__(self, other):
        if isinstance(other, PlainJet):
            return PlainJet(PRODUCT(self.c, other.c))
        return PlainJet(TIMES(self.c, five(other)[0]))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        if isinstance(other, PlainJet):
            return self * of_jet(RECIPROCAL, other)
        with np.errstate(all="ignore"):
            return PlainJet(OVER(self.c, five(other)[0]))

    def __rtruediv__(self, other):
        return of_jet(RECIPROCAL, self) * other

    def __pow__(self, other):
        if isinstance(other, PlainJet):
            return of_jet(FUNCTIONS["exp"], other * of_jet(FUNCTIONS["log"], self))
        if isinstance(other, int) and other in (1, 2, 3, 4):
            square = self * self
            return (self, square, square * self, square * square)[other - 1]
        if isinstance(self.c[0], Known):
            return PlainJet(OF_SERIES(plain_ranges.POWER(self.c[0], five(other)[0]), self.c))
        return of_jet(lambda x: POWER(x, five(other)[0]), self)

    def __rpow__(self, other):
        with np.errstate(all="ignore"):
            return of_jet(FUNCTIONS["exp"], self * np.log(np.float64(other)))

    def __neg__(self):
        return PlainJet(TIMES(self.c, -1.0))

    def __pos__(self):
        return self

    def __abs__(self):
        if self.c[0] == 0.0:
            return PlainJet(AT_ZERO(self.c, signs, 0.0))
        return self if self.c[0] > 0.0 else -self

    def __bool__(self):
        return bool(self.c[0])

    def __lt__(self, other):
        return self.c[0] < number(other)

    def __le__(self, other):
        return self.c[0] <= number(other)

    def __gt__(self, other):
        return self.c[0] > number(other)

    def __ge__(self, other):
        return self.c[0] >= number(other)

    def __eq__(self, other):
        return self.c[0] == number(other)

    def __ne__(self, other):
        return self.c[0] != number(other)

    def __array_ufunc__(self, ufunc, method, *given, **more):
        """What numpy is asked for, of one number or two."""
        if method != "__call__" or more or ufunc.__name__ not in OF_NUMPY:
            raise TypeError(f"np.{ufunc.__name__} of a number with derivatives")
        if any(np.ndim(one) for one in given if not isinstance(one, PlainJet)):
            raise TypeError("an array and a number with derivatives")
        numbers = (one if isinstance(one, PlainJet) else float(one) for one in given)
        return OF_NUMPY[ufunc.__name__](*numbers)


def of_jet(function: Any, x: Any) -> PlainJet:
    """A function of a jet, by its series."""
    if isinstance(x.c[0], Known):
        if function not in plain_ranges.TABLES:
            raise TypeError(f"no bounds are known of {getattr(function, '__name__', function)}")
        with np.errstate(all="ignore"):
            return PlainJet(OF_SERIES(plain_ranges.TABLES[function](x.c[0]), x.c))
    with np.errstate(all="ignore"):
        return PlainJet(OF_SERIES(function(np.float64(x.c[0])), x.c))


def dispatching(function: Any, known: Any) -> Any:
    """A function that also knows what to do with a jet."""

    def call(x):
        return of_jet(known, x) if isinstance(x, PlainJet) else function(x)

    return call


def asking(function: Any) -> Any:
    """A question that is also answered of a jet, by value."""
    return lambda x: function(number(x))


def larger(a: Any, b: Any) -> Any:
    """The larger of two, where they are equal that which is it an instant later."""
    if not isinstance(a, PlainJet) and not isinstance(b, PlainJet):
        return max(a, b)
    one, two = five(a), five(b)
    if one[0] == two[0]:
        gap = TIMES(MINUS(one, two), 0.5)
        return PlainJet(PLUS(two, AT_ZERO(gap, signs, 1.0)))
    return PlainJet(one if one[0] > two[0] else two)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two."""
    if not isinstance(a, PlainJet) and not isinstance(b, PlainJet):
        return min(a, b)
    return -larger(-PlainJet(five(a)), -PlainJet(five(b)))


def logsumexp(a: Any, b: Any) -> Any:
    """Of two, of which one may be a jet."""
    if not isinstance(a, PlainJet) and not isinstance(b, PlainJet):
        return special.logsumexp(a, b)
    if any(isinstance(five(one)[0], Known) for one in (a, b)):  # one formula: none to decide
        return b + of_jet(plain(series.softplus), a - b)
    high, low = (a, b) if number(a) > number(b) else (b, a)
    if not number(low) > -np.inf:
        return PlainJet(five(high))
    return high + of_jet(plain(series.softplus), low - high)


FUNCTIONS = {name: plain(known) for name, known in series.FUNCTIONS.items()}
MATH: dict[str, Any] = {
    name: dispatching(getattr(math, name), known) for name, known in FUNCTIONS.items()
}
MATH |= {name: asking(getattr(math, name)) for name in ("isnan", "isinf", "isfinite")}
MATH |= {"pow": operator.pow, "fabs": abs}
OF_NUMPY: dict[str, Any] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "power": operator.pow, "negative": operator.neg,
    "absolute": abs, "fabs": abs, "square": lambda x: x * x, "minimum": smaller, "maximum": larger,
    "fmin": smaller, "fmax": larger, "logaddexp": logsumexp, "positive": operator.pos,
    "reciprocal": lambda x: 1.0 / x, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
    "not_equal": operator.ne,
}  # fmt: skip
OF_NUMPY |= {name: asking(getattr(np, name)) for name in ("isnan", "isinf", "isfinite")}
OF_NUMPY |= {series.NUMPY.get(name, name): MATH[name] for name in FUNCTIONS}
OURS = [(given, dispatching(given, plain(known))) for given, known in series.OURS.values()]


def dot(a: Any, b: Any) -> Any:
    """Of two vectors of which one may be a point."""
    if not isinstance(a, PlainPoint) and not isinstance(b, PlainPoint):
        return np.dot(a, b)
    if len(a.shape) != 1 or a.shape != b.shape:
        raise TypeError("a product of other than two vectors of one length")
    total = a[0] * b[0]
    for j in range(1, len(a)):
        total += a[j] * b[j]
    return total


OURS += [(special.logsumexp, logsumexp), (np.dot, dot)]


class PlainPoint:
    """A block of parameters on a line, or on several: then slopes have one axis more."""

    __array_ufunc__ = None  # arrays leave operators to it, which has none but @

    def __init__(self, values: np.ndarray, slopes: np.ndarray):
        self.values, self.slopes = values, slopes
        self.shape, self.size, self.ndim = values.shape, values.size, values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i):
        value, slope = self.values[i], self.slopes[i]
        if np.ndim(value):
            return PlainPoint(value, slope)
        if slope.dtype == np.uint64:
            value, slope = plain_ranges.parameter(value, slope)
        else:
            slope = of_words(slope)
        return PlainJet((value, slope, 0.0 * slope, 0.0 * slope, 0.0 * slope))

    def __matmul__(self, other):
        return dot(self, other)

    def __rmatmul__(self, other):
        return dot(other, self)


point = PlainPoint


def coefficients(value: Any) -> tuple:
    """What a log likelihood is, as five numbers."""
    return five(value)


def coefficients_in_lanes(value: Any) -> tuple:
    """The same, of which four are arrays."""
    c = five(value)
    return (c[0], *(np.zeros(LANES) + one for one in c[1:]))


def ends_of_coefficient(value: Any, order: int) -> tuple:
    """Ends of a coefficient of what a log likelihood is, and of its value."""
    return plain_ranges.ends_of_coefficient(five(value), order)


def write_rest(value: Any) -> None:
    """Write what a log likelihood's slope is in the end on its tape."""
    slope = five(value)[1]
    if isinstance(slope, PlainTraced):
        note(slope)


def lane(lanes: np.ndarray, which: int) -> float:
    """One of them."""
    return lanes[which]


def no_lanes() -> np.ndarray:
    """Zeros."""
    return np.zeros(LANES)


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
    for name in loaded_globals(function.__code__):
        if name in scope:
            scope[name] = replaced(scope[name], known)
        elif name in ("max", "min"):
            scope[name] = larger_or_smaller(name)
    for old, new in zip(function.__closure__ or (), copy.__closure__ or (), strict=True):
        new.cell_contents = replaced(old.cell_contents, known)
    return copy


def larger_or_smaller(name: str) -> Any:
    """What stands for Python's own max and min."""
    of_numbers, of_two = (max, larger) if name == "max" else (min, smaller)

    def call(*given):
        return of_two(*given) if len(given) == 2 else of_numbers(*given)

    return call


def replaced(value: Any, known: dict[int, Any]) -> Any:
    """What stands for a value that a function reaches."""
    for name, called in MATH.items():
        if value is getattr(math, name):
            return called
    for given, called in OURS:
        if value is given:
            return called
    if value is math:
        return SimpleNamespace(**{**vars(math), **MATH})
    if value is np:
        return SimpleNamespace(**{**vars(np), "dot": dot})
    if isinstance(value, ModuleType):
        ours = value.__name__.partition(".")[0] == PACKAGE
        return Within(value, known) if ours else value
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
