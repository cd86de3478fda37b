"""Where a continuous block may lie, and the free coordinates in which kernels move it.

A kernel proposes in u, any real vector; the block is x(u), and log |dx/du| joins the target. So a
positive scale, a probability or a simplex needs no thought in the proposal.
"""

from dataclasses import dataclass
from math import asinh, exp, expm1, hypot, inf, isqrt, log, log1p, sqrt, tanh

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.jit import jit

REAL, LOG, SOFTPLUS, SQUAREROOT, CUBEROOT, INTERVAL, SIMPLEX, ORDERED, SIMPLEXES = range(9)
CHOLESKY = 9
COORDINATES = {
    "log": LOG, "softplus": SOFTPLUS, "squareroot": SQUAREROOT, "cuberoot": CUBEROOT,
}  # fmt: skip
TINY = 1e-100
COARSE = 1e-4  # a step between neighbouring numbers of an interval that is told of
ROOTS = (SQUAREROOT, CUBEROOT)  # coordinates that end at 0


@dataclass(frozen=True)
class Constraint:
    """A set of values and its coordinates. Use sm.positive, sm.interval(low, high), sm.simplex.

    Or sm.ordered: of a vector, each value of which is above the one before it. Of a block of two
    axes sm.simplex is of each row. Or sm.cholesky_corr: of a block of shape (d, d), the Cholesky
    factor L of a correlation matrix L L^T, which is lower triangular, with a positive diagonal and
    rows of length 1. A log_prior of such a block is a density over its d (d - 1) / 2 numbers below
    the diagonal, as Stan's lkj_corr_cholesky is: for LKJ(eta) the sum over rows i = 1, ..., d - 1
    of (d - i - 3 + 2 eta) log L[i, i].

    Example:
        >>> sm.positive, sm.positive("softplus"), sm.simplex, sm.ordered, sm.cholesky_corr
        (sm.positive, sm.positive("softplus"), sm.simplex, sm.ordered, sm.cholesky_corr)
    """

    kind: int
    text: str
    low: float = -inf
    high: float = inf

    def __repr__(self) -> str:
        return f"sm.{self.text}"

    def __call__(self, coordinates: str) -> "Constraint":
        """sm.positive("softplus"), ("log"), ("squareroot"), ("cuberoot"): the same set."""
        if self.kind not in COORDINATES.values() or coordinates not in COORDINATES:
            raise ValueError(
                f'{self.text}({coordinates!r}): only sm.positive takes coordinates, "log" '
                '(default), "softplus", "squareroot" or "cuberoot".'
            )
        return Constraint(COORDINATES[coordinates], f'positive("{coordinates}")', 0.0)

    @property
    def together(self) -> bool:
        """Are its values nothing one by one."""
        return self.kind in (SIMPLEX, SIMPLEXES, ORDERED, CHOLESKY)

    @property
    def noun(self) -> str:
        """What a block of such values is called, whose values mean nothing one by one."""
        return {ORDERED: "an ordered vector", CHOLESKY: "a Cholesky factor"}.get(
            self.kind, "a simplex"
        )

    def constant(self, length: int) -> list[int]:
        """Places in a block of this length whose values are the same in the whole set."""
        if self.kind != CHOLESKY:
            return []
        size = int(self.high)
        return [j for j in range(length) if j == 0 or j % size > j // size]

    def free_length(self, length: int) -> int:
        """Free coordinates of a block of this length."""
        if self.kind == CHOLESKY:
            return (length - int(self.high)) // 2
        if self.kind == SIMPLEXES:
            return length - length // int(self.high)
        return length - 1 if self.kind == SIMPLEX else length

    def of_shape(self, name: str, shape: tuple[int, ...]) -> "Constraint":
        """The same of a block of some shape: of two axes, simplexes by rows, or a factor."""
        if self.kind == CHOLESKY:
            if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
                raise ValueError(
                    f"constraints[{name!r}]: {self!r} is of a square matrix of two rows or more, "
                    f"and the block has shape {shape}."
                )
            return Constraint(CHOLESKY, self.text, -1.0, float(shape[0]))  # a row is as long
        if self.kind == ORDERED and len(shape) != 1:
            raise ValueError(
                f"constraints[{name!r}]: sm.ordered is of a vector, and the block has shape "
                f"{shape}."
            )
        if self.kind != SIMPLEX or len(shape) < 2:
            return self
        if len(shape) > 2 or shape[1] < 2:
            raise ValueError(
                f"constraints[{name!r}]: sm.simplex is of a vector, or of each row of a matrix of "
                f"two columns or more, and the block has shape {shape}."
            )
        # What a row is as long as, where no value ends; as text the same.
        return Constraint(SIMPLEXES, self.text, 0.0, float(shape[1]))

    def value_of(self, j: int) -> int:
        """The place in a block of the value that its j-th free coordinate is named after."""
        if self.kind == CHOLESKY:
            row = (1 + isqrt(1 + 8 * j)) // 2
            return row * int(self.high) + j - row * (row - 1) // 2
        return j + j // (int(self.high) - 1) if self.kind == SIMPLEXES else j

    def check(self, name: str, values: np.ndarray) -> None:
        """Refuse values outside the set, or on its edge, where no coordinates lead."""
        if self.kind == SIMPLEXES:
            for row in values.reshape(-1, int(self.high)):
                simplex.check(name, row)
        elif self.kind == SIMPLEX:
            if values.size < 2 or np.any(values <= 0.0) or abs(values.sum() - 1.0) > 1e-8:
                raise ValueError(
                    f"state {name}={values}: sm.simplex needs at least two positive numbers that "
                    "add up to 1."
                )
        elif self.kind == ORDERED:
            if not np.all(values[1:] > values[:-1]):
                raise ValueError(
                    f"state {name}={values}: sm.ordered needs every value above the one before it."
                )
        elif self.kind == CHOLESKY:
            size = int(self.high)
            if not plain_inside(self.kind, self.low, self.high, values):
                raise ValueError(
                    f"state {name}={values.reshape(size, size).tolist()}: {self!r} needs a lower "
                    "triangular matrix with a positive diagonal and rows of length 1, such as "
                    f"np.eye({size}), or np.linalg.cholesky(R) of a correlation matrix R."
                )
        elif not np.all((values > self.low) & (values < self.high)):
            raise ValueError(
                f"state {name}={values}: sm.{self.text} needs every value strictly between "
                f"{self.low} and {self.high}."
            )

    def pulled(self, values: np.ndarray) -> None:
        """Bring values, each of which has its bounds, into a set that joins them, in place."""
        if self.kind == ORDERED:
            values.sort()
        elif self.kind == SIMPLEX:
            values /= values.sum()
        elif self.kind == SIMPLEXES:
            rows = values.reshape(-1, int(self.high))
            rows /= rows.sum(axis=1, keepdims=True)
        elif self.kind == CHOLESKY:
            rows = values.reshape(int(self.high), -1)
            rows[...] = np.tril(rows, -1) + np.diag(np.abs(np.diag(rows)) + TINY)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)


real = Constraint(REAL, "real")
positive = Constraint(LOG, "positive", 0.0)
simplex = Constraint(SIMPLEX, "simplex", 0.0, 1.0)
ordered = Constraint(ORDERED, "ordered")
cholesky_corr = Constraint(CHOLESKY, "cholesky_corr", -1.0)


@helpful
def interval(low: float, high: float) -> Constraint:
    """Values strictly between two finite numbers.

    low, high: the two numbers.

    Example:
        >>> model = sm.Model(
        ...     lambda state, data, n: sm.log(state.p[0]) if data.y[n] else sm.log1p(-state.p[0]),
        ...     {"y": np.arange(10) < 7},
        ...     state={"p": 0.5},
        ...     constraints={"p": sm.interval(0.0, 1.0)},
        ... )
        >>> round(float(sm.laplace(model).state["p"]), 1)
        0.7
    """
    if not (-inf < low < high < inf and high - low < inf):
        raise ValueError(
            f"interval({low}, {high}): give finite numbers with low < high, at most 1e308 apart."
        )
    if low < 0.0 < high and (step := np.spacing(max(-low, high))) > COARSE:
        warn(
            f"interval({low:g}, {high:g}) is so wide that moves in its free coordinates tell "
            f"numbers near its middle apart by {step:.2g} only. Leave the constraint out, if the "
            "ends mean nothing, or give nearer ones."
        )
    return Constraint(
        INTERVAL, f"interval({float(low)!r}, {float(high)!r})", float(low), float(high)
    )


# A row of a Cholesky factor of a correlation matrix is a point of a half sphere. Its numbers are,
# from the left, tanh(u) of what those before it leave of its length 1; the diagonal is what is left
# in the end, 1 / cosh(u) of each. tanh(u) are canonical partial correlations (Lewandowski,
# Kurowicka & Joe 2009). Nothing is subtracted: factors keep their digits next to correlations of 1.
@jit(inner=True)
def inside(kind, low, high, x):
    """Do these values lie in the set.

    The largest of a simplex may round to 1 where all others are small: as `to_block` has it.
    """
    if kind == CHOLESKY:
        size = int(high)
        for i in range(size):
            total = 0.0
            for j in range(size):
                value = x[i * size + j]
                if j > i and value != 0.0:
                    return False
                total += value * value
            if not x[i * size + i] > 0.0 or not abs(total - 1.0) < 1e-8:
                return False
        return True
    if kind == SIMPLEXES:
        size = int(high)
        for first in range(0, len(x), size):
            total = 0.0
            for j in range(first, first + size):
                if not x[j] > 0.0:
                    return False
                total += x[j]
            if not abs(total - 1.0) < 1e-8:
                return False
        return True
    total, most = 0.0, np.inf if kind == SIMPLEX else high
    for j in range(len(x)):
        if not low < x[j] < most:
            return False
        if kind == ORDERED and j > 0 and not x[j - 1] < x[j]:
            return False
        total += x[j]
    return kind != SIMPLEX or abs(total - 1.0) < 1e-8


plain_inside = getattr(inside, "py_func", inside)


@jit(inner=True)
def to_free(kind, low, high, x, u):
    """Write the free coordinates of a block into u; of a padded block, the first len(u)."""
    if kind == CHOLESKY:
        size, k = int(high), len(u) - 1
        for i in range(size - 1, 0, -1):
            left = x[i * size + i]  # of the row's length, right of what is read
            for j in range(i - 1, -1, -1):
                value = x[i * size + j]
                ratio = value / left
                if abs(ratio) < np.inf:
                    u[k] = asinh(ratio)
                else:
                    far = log(2.0) + log(abs(value)) - log(left)
                    u[k] = far if value > 0.0 else -far
                left = hypot(value, left)
                k -= 1
        return
    last = len(x) - 1
    if kind == SIMPLEXES:
        size = int(high)
        for j in range(len(u)):
            row = j // (size - 1)
            a, b = x[j + row], x[(row + 1) * size - 1]
            ratio = a / b
            u[j] = log(ratio) if 0.0 < ratio < np.inf else log(a) - log(b)
        return
    for j in range(len(u)):
        if kind == REAL:
            u[j] = x[j]
        elif kind == LOG:
            u[j] = log(x[j])
        elif kind == SOFTPLUS:
            u[j] = x[j] if x[j] > 36.0 else x[j] + log(-expm1(-x[j]))
        elif kind == SQUAREROOT:
            u[j] = sqrt(x[j])
        elif kind == CUBEROOT:
            u[j] = x[j] ** (1.0 / 3.0)
        elif kind == ORDERED:
            u[j] = log(x[j] - x[j - 1]) if j > 0 else x[j]
        else:
            a, b = (x[j] - low, high - x[j]) if kind == INTERVAL else (x[j], x[last])
            ratio = a / b  # too large or too small a number, maybe
            u[j] = log(ratio) if 0.0 < ratio < np.inf else log(a) - log(b)


@jit(inner=True)
def to_block(kind, low, high, u, x):
    """Write the block at free coordinates u into x; return log |dx/du|, -inf outside the set.

    What rounds to the edge of the set (x = 0, say) counts as outside: there is no way back.
    Of a padded block only the first len(u) values are written.
    """
    jacobian = 0.0
    if kind == CHOLESKY:
        size, k = int(high), 0
        for i in range(size):
            left = 1.0  # of the row's length
            for j in range(size):
                x[i * size + j] = 0.0
            for j in range(i):
                x[i * size + j] = left * tanh(u[k])
                far = exp(-abs(u[k]))
                rest = 2.0 * far / (1.0 + far * far)  # 1 / cosh(u)
                jacobian += log(left) + 2.0 * log(rest) if left * rest > 0.0 else -np.inf
                left *= rest
                k += 1
            x[i * size + i] = left
        return jacobian
    if kind in (SIMPLEX, SIMPLEXES):
        last = len(x) - 1 if kind == SIMPLEX else int(high) - 1
        for row in range(len(u) // last):
            start, first = row * last, row * (last + 1)
            top, total = 0.0, 0.0
            for j in range(start, start + last):
                top = max(top, u[j])
            for j in range(last):
                x[first + j] = exp(u[start + j] - top)
                total += x[first + j]
            x[first + last] = exp(-top)
            total += x[first + last]
            for j in range(first, first + last + 1):
                x[j] /= total
                jacobian += log(x[j]) if x[j] > 0.0 else -np.inf
        return jacobian
    for j in range(len(u)):
        v = u[j]
        if kind == REAL:
            x[j] = v
            continue
        if kind == LOG:
            x[j] = exp(v) if v < 709.0 else np.inf
            jacobian += v
        elif kind == SOFTPLUS:
            x[j] = max(v, 0.0) + log1p(exp(-abs(v)))
            jacobian -= max(-v, 0.0) + log1p(exp(-abs(v)))
        elif kind == SQUAREROOT:
            x[j] = v * v
            jacobian += log(2.0 * v) if v > 0.0 else -np.inf
        elif kind == CUBEROOT:
            x[j] = v * v * v
            jacobian += log(3.0 * v * v) if v > 0.0 else -np.inf
        elif kind == ORDERED:
            x[j] = v
            if j > 0:
                x[j] = x[j - 1] + (exp(v) if v < 709.0 else np.inf)
                jacobian += v if x[j - 1] < x[j] else -np.inf
        else:
            # From the nearer end: x - low and high - x both keep their digits.
            part = (high - low) * (exp(-abs(v)) / (1.0 + exp(-abs(v))))
            x[j] = high - part if v > 0.0 else low + part
            jacobian += log(high - low) - abs(v) - 2.0 * log1p(exp(-abs(v)))
        if not low < x[j] < high:
            jacobian = -np.inf
    return jacobian
