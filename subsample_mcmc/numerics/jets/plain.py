"""Lines and Jets in plain Python: the arithmetic of operators.py, where nothing is compiled.

A user's function runs on them as it is, but for the functions of `math` and of this package that it
reaches, which Python cannot be told about: `readable` gives it others in their place.
"""

import math
import operator
import types
from functools import reduce
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from subsample_mcmc.numerics import special
from subsample_mcmc.numerics.bytecode import loaded_globals
from subsample_mcmc.numerics.digest import PACKAGE
from subsample_mcmc.numerics.jets import plain_ranges, series
from subsample_mcmc.numerics.jets.plain_ranges import Known
from subsample_mcmc.numerics.jets.plain_tapes import PlainTraced, note, of_words, signs
from subsample_mcmc.numerics.jets.unwrapped import plain

LANES = 8
NUMBER = int | float | np.number | np.bool_


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


def met(a: Any, b: Any) -> None:
    """They are compared: write down what depends on parameters, where slopes are written."""
    if isinstance(gap := five(a)[1] - five(b)[1], PlainTraced):
        note(gap)


def or_array(operation: Any) -> Any:
    """An operator that leaves arrays to numpy, which asks for one item after the other."""

    def operate(self, other):
        array = isinstance(other, np.ndarray | PlainPoint)
        return NotImplemented if array else operation(self, other)

    return operate


class PlainJet:
    """A value, and the coefficients of t to t^4, each of one line or an array of several."""

    __slots__ = ("c",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, c: tuple):
        self.c = c

    @or_array
    def __add__(self, other):
        return PlainJet(PLUS(self.c, five(other)))

    @or_array
    def __sub__(self, other):
        return PlainJet(MINUS(self.c, five(other)))

    @or_array
    def __rsub__(self, other):
        return PlainJet(MINUS(five(other), self.c))

    @or_array
    def __mul__(self, other):
        if other is self and isinstance(self.c[0], Known):
            return self**2
        if isinstance(other, PlainJet):
            return PlainJet(PRODUCT(self.c, other.c))
        return PlainJet(TIMES(self.c, five(other)[0]))

    __radd__, __rmul__ = __add__, __mul__

    @or_array
    def __truediv__(self, other):
        if isinstance(other, PlainJet):
            return self * of_jet(RECIPROCAL, other)
        with np.errstate(all="ignore"):
            return PlainJet(OVER(self.c, five(other)[0]))

    @or_array
    def __rtruediv__(self, other):
        return of_jet(RECIPROCAL, self) * other

    @or_array
    def __pow__(self, other):
        if isinstance(other, PlainJet):
            return of_jet(FUNCTIONS["exp"], other * of_jet(FUNCTIONS["log"], self))
        even = isinstance(self.c[0], Known) and other in (2, 4)  # which no product knows
        if isinstance(other, int) and other in (1, 2, 3, 4) and not even:
            square = self * self
            return (self, square, square * self, square * square)[other - 1]
        if isinstance(self.c[0], Known):
            return PlainJet(OF_SERIES(plain_ranges.POWER(self.c[0], five(other)[0]), self.c))
        return of_jet(lambda x: POWER(x, five(other)[0]), self)

    @or_array
    def __rpow__(self, other):
        with np.errstate(all="ignore"):
            return of_jet(FUNCTIONS["exp"], self * np.log(np.float64(other)))

    def __neg__(self):
        return PlainJet(TIMES(self.c, -1.0))

    def __pos__(self):
        return self

    def __abs__(self):
        met(self, 0.0)
        if self.c[0] == 0.0:
            return PlainJet(AT_ZERO(self.c, signs, 0.0))
        return self if self.c[0] > 0.0 else -self

    def __bool__(self):
        met(self, 0.0)
        return bool(self.c[0])

    def __lt__(self, other):
        met(self, other)
        return self.c[0] < number(other)

    def __le__(self, other):
        met(self, other)
        return self.c[0] <= number(other)

    def __gt__(self, other):
        met(self, other)
        return self.c[0] > number(other)

    def __ge__(self, other):
        met(self, other)
        return self.c[0] >= number(other)

    def __eq__(self, other):
        met(self, other)
        return self.c[0] == number(other)

    def __ne__(self, other):
        met(self, other)
        return self.c[0] != number(other)

    def __array_ufunc__(self, ufunc, method, *given, **more):
        """What numpy is asked for, of one number or two, or of arrays of them."""
        if method != "__call__" or more or ufunc.__name__ not in OF_NUMPY:
            raise TypeError(f"np.{ufunc.__name__} of a number with derivatives")
        if any(isinstance(one, np.ndarray | PlainPoint) for one in given):
            return each(OF_NUMPY[ufunc.__name__], given)
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
    met(a, b)
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
    "not_equal": operator.ne, "clip": lambda a, low, high: smaller(larger(a, low), high),
}  # fmt: skip
OF_NUMPY |= {name: asking(getattr(np, name)) for name in ("isnan", "isinf", "isfinite")}
OF_NUMPY |= {series.NUMPY.get(name, name): MATH[name] for name in FUNCTIONS}
OURS = [(given, dispatching(given, plain(known))) for given, known in series.OURS.values()]
OURS += [(special.logsumexp, logsumexp)]


class PlainArray(np.ndarray):
    """An array of PlainJets."""

    def __array_ufunc__(self, ufunc, method, *given, **more):
        """Item by item, by the functions that know jets; sums and their like one after another."""
        if ufunc is np.matmul and method == "__call__":
            return as_array(np.dot(*(np.asarray(one, dtype=object) for one in given)))
        if ufunc.__name__ not in OF_NUMPY or method not in ("__call__", "reduce"):
            raise TypeError(f"np.{ufunc.__name__}, {method}, of numbers with derivatives")
        function = OF_NUMPY[ufunc.__name__]
        if method == "__call__":
            if more:
                raise TypeError("an array that numbers with derivatives are written to")
            return each(function, given)
        (array,) = given
        if array.ndim != 1:
            raise TypeError("numbers with derivatives are added up along one axis only")
        return reduce(function, array) if len(array) else ufunc.identity


def as_array(found: Any) -> Any:
    """An array of objects as one of PlainJets; one object as it is."""
    return found.view(PlainArray) if isinstance(found, np.ndarray) else found


def each(function: Any, given: tuple) -> Any:
    """A function of numbers, or of jets, item by item."""
    boxed = []
    for one in map(now, given):
        box = np.empty(np.shape(one) if isinstance(one, np.ndarray) else (), dtype=object)
        box[...] = one
        boxed.append(box)
    return as_array(np.frompyfunc(function, len(boxed), 1)(*boxed))


class PlainPoint(np.lib.mixins.NDArrayOperatorsMixin):
    """A block on a line, or on several: then slopes have one axis more. They may change."""

    def __init__(self, values: np.ndarray, slopes: np.ndarray):
        self.values, self.slopes = values, slopes
        self.shape, self.size, self.ndim = values.shape, values.size, values.ndim

    def now(self) -> Any:
        """The array of its jets."""
        made = np.empty(self.shape, dtype=object)
        for where in np.ndindex(*self.shape):
            value: Any = self.values[where]
            slope: Any = self.slopes[where]
            if slope.dtype == np.uint64:
                value, slope = plain_ranges.parameter(value, slope)
            else:
                slope = of_words(slope)
            none = 0.0 * slope
            made[where] = PlainJet((value, slope, none, none, none))
        return as_array(made)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i):
        return self.now()[i]

    def __getattr__(self, name: str):
        return getattr(self.now(), name)

    def __array_ufunc__(self, ufunc, method, *given, **more):
        return getattr(ufunc, method)(*map(now, given), **more)

    def __array_function__(self, function, kinds, given, more):
        return function(*map(now, given), **more)


def now(value: Any) -> Any:
    """Of a point, the array; else the value itself."""
    return value.now() if isinstance(value, PlainPoint) else value


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


def add_lanes(array: np.ndarray, start: int, slope: Any) -> None:
    """Add to LANES numbers that lie together."""
    array.reshape(-1)[start : start + LANES] += slope


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
        elif name == "float":
            scope[name] = lambda x=0.0: x if isinstance(x, PlainJet) else float(x)
    for old, new in zip(function.__closure__ or (), copy.__closure__ or (), strict=True):
        new.cell_contents = replaced(old.cell_contents, known)
    return copy


squaring = readable  # z * z is known as a square by what it is


def filling(function: Any, several: bool) -> FunctionType:
    """The same, with arrays that can be filled with jets."""
    other = ModuleType("numpy")
    other.__dict__.update(vars(np))
    known: dict[int, Any] = {id(np): other}
    for name in ("zeros", "empty", "ones"):
        for given in (name, f"{name}_like"):
            made = objects(float(name == "ones"), given != name)
            known[id(getattr(np, given))] = made
            setattr(other, given, made)
    return readable(function, known)


def objects(value: float, like: bool) -> Any:
    """np.zeros or its like: an array of objects, of one axis."""
    return lambda size: as_array(np.full(len(size) if like else int(size), value, dtype=object))


def larger_or_smaller(name: str) -> Any:
    """What stands for Python's own max and min."""
    of_numbers, of_two = (max, larger) if name == "max" else (min, smaller)

    def call(*given):
        return of_two(*given) if len(given) == 2 else of_numbers(*given)

    return call


def replaced(value: Any, known: dict[int, Any]) -> Any:
    """What stands for a value that a function reaches."""
    if id(value) in known and not isinstance(value, FunctionType):
        return known[id(value)]
    for name, called in MATH.items():
        if value is getattr(math, name):
            return called
    for given, called in OURS:
        if value is given:
            return called
    if value is math:
        return SimpleNamespace(**{**vars(math), **MATH})
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
