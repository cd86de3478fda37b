"""X_n of linear predictors eta_n = X_n x, read off eta: what is linear has exact differences."""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.expansion import reader_of
from subsample_mcmc.approx.taylor.references import used_of
from subsample_mcmc.numerics.jit import FLAGS, jit

SAME = 1e-12  # of its size: what varies less over rows is rounding
ROOM = 1 << 22  # numbers of X that are held at a time


class Survey(NamedTuple):
    """What one pass over all rows tells."""

    values: np.ndarray  # (p, N) predictors at the reference
    varies: np.ndarray  # (p, 1 + used) which derivatives by (1, x) vary over rows
    fixed: np.ndarray  # what those are that do not; else 0


class Design:
    """X_n of rows, in one configuration: derivatives of the predictors by (1, x)."""

    def __init__(self, model, ints: np.ndarray, point: np.ndarray):
        count = model.predictors.count(model)
        look = reader_of(jit(model.predictors.eta, flags=FLAGS, user=True, inner="always"), count)

        @jit
        def read(state, data, rows, out):
            look(state, data, rows, out)

        self.read, self.model, self.count = read, model, count
        self.used = used_of(model, ints)
        self.point = point[: self.used]
        self.scale = np.maximum(np.abs(self.point), 1.0)
        self.floats = np.zeros(len(point))
        self.state = model.state(ints, self.floats)
        self.step = max(256, ROOM // (count * (1 + self.used)))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """(p, rows, 1 + used)."""
        found = np.zeros((self.count, len(rows), 1 + self.used))
        base, other = np.zeros((2, self.count, len(rows)))
        self.read(self.state, self.model.data, rows, base)
        found[:, :, 0] = base
        for j, scale in enumerate(self.scale):
            self.floats[j] = scale
            self.read(self.state, self.model.data, rows, other)
            self.floats[j] = 0.0
            found[:, :, 1 + j] = (other - base) / scale
        return found

    def survey(self) -> Survey:
        """One pass over all rows."""
        values, size = np.zeros((self.count, self.model.size)), self.model.size
        low = np.full((self.count, 1 + self.used), np.inf)
        high = -low
        for first in range(0, size, self.step):
            last = min(first + self.step, size)
            x = self(np.arange(first, last))
            values[:, first:last] = x[:, :, 0] + x[:, :, 1:] @ self.point
            low, high = np.minimum(low, x.min(axis=1)), np.maximum(high, x.max(axis=1))
        if not np.all(np.isfinite(values)):
            k, n = (int(v) for v in np.argwhere(~np.isfinite(values))[0])
            raise ValueError(f"predictor {k} of datum {n} is {values[k, n]} at the fit.")
        reach = np.maximum(np.abs(low), np.abs(high))
        reach[:, 1:] += reach[:, :1] / self.scale  # differences are rounded as eta is
        varies = high - low > SAME * reach
        return Survey(values, varies, np.where(varies, 0.0, low))

    def swings(self, factor: np.ndarray) -> np.ndarray:
        """(p, N) standard deviations of the predictors, of parameters with covariance F F'."""
        found, size = np.zeros((self.count, self.model.size)), self.model.size
        for first in range(0, size, self.step):
            last = min(first + self.step, size)
            moved = self(np.arange(first, last))[:, :, 1:] @ factor
            found[:, first:last] = np.sqrt(np.sum(moved**2, axis=2))
        return found

    def moments(self, rows: np.ndarray, columns: np.ndarray, parts: list) -> tuple:
        """(means of the parts of X, sums of products of columns and them around their means)."""
        mean, square, count = np.zeros(0), np.zeros((0, 0)), 0
        for first in range(0, max(len(rows), 1), self.step):
            some = slice(first, first + self.step)
            x = self(rows[some])
            z = np.concatenate([columns[some], *(x[k][:, at] for k, at in parts)], axis=1)
            n = len(z)
            here = z.mean(axis=0) if n else np.zeros(z.shape[1])
            z -= here
            if count:  # two sets around their own means
                gap = here - mean
                mean += gap * (n / (count + n))
                square += z.T @ z + np.outer(gap, gap) * (count * n / (count + n))
            else:
                mean, square = here, z.T @ z
            count += n
        return mean[columns.shape[1] :], square
