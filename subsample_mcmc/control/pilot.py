"""What residuals look like around the reference: their size, and the rows they are largest at."""

from math import sqrt
from typing import Any

import numpy as np

from subsample_mcmc.control.polynomial import make_polynomial, polynomial_mean
from subsample_mcmc.control.stencil import whole_state
from subsample_mcmc.draws import CHUNK
from subsample_mcmc.jit import jit
from subsample_mcmc.kernels.controlled import Controls
from subsample_mcmc.kernels.kernel import Run
from subsample_mcmc.kernels.trial import make_trial, place
from subsample_mcmc.selectors.racing import expected_pulls

POINTS = 24  # drawn around the reference
ROWS = 4096  # read at each of them
SAFETY = 2.0  # times the largest residuals seen: what is believed of others
SHARES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2)  # of rows that are always read
WIDTHS = (0.5, 1.0, 2.0)  # of the points' distances, in those of the posterior


class Probe:
    """Residuals at points around the reference of one configuration, callable from Python."""

    def __init__(self, model, source, sums, strides, table: int, outliers):
        d = len(model.floats)
        rng = np.random.default_rng(0)  # the same pilot every time
        steps = rng.standard_normal((POINTS, d))
        steps *= (np.resize(WIDTHS, POINTS) * sqrt(d) / np.linalg.norm(steps, axis=1))[:, None]
        away = np.linalg.solve(sums.metric[table], steps.T).T
        # Directions in which the likelihood is flat would lead out of this world.
        limit = np.abs(sums.points[table]) + 1.0
        away *= np.minimum(1.0, limit / np.maximum(np.abs(away), 1e-300)).min(axis=1)[:, None]
        points = np.concatenate([sums.points[table][None], sums.points[table] + away])
        ints = np.zeros(len(strides), dtype=np.int64)
        left = table
        for i, stride in enumerate(strides):
            ints[i], left = divmod(left, stride)
        own = make_polynomial(model, sums, strides, len(points), source)
        controls = Controls(
            model.size, np.zeros(len(points)), np.zeros(len(points)), outliers, np.zeros(CHUNK),
            0, 0, np.zeros(1, dtype=np.int64), own,
        )  # fmt: skip
        run = Run(ints, sums.points[table].copy(), np.zeros(0, dtype=np.int64))
        block = whole_state(d)
        self.trial = make_trial(model, run, block, model.size, points, None, controls)
        self.arms = range(1, len(points))
        self.read, self.own = reader(source.residuals), own

    def size(self, arm: int) -> float:
        """Distance of a point from the reference."""
        return float(self.own.sizes[arm])

    def residuals(self, arm: int, rows: np.ndarray) -> np.ndarray:
        """Residuals of a point less those of the reference."""
        found = np.zeros((2, len(rows)))
        with np.errstate(all="ignore"):
            for first in range(0, len(rows), CHUNK):
                part = slice(first, first + CHUNK)
                self.read(self.trial, arm, rows[part], found[0, part])
                self.read(self.trial, 0, rows[part], found[1, part])
        return found[0] - found[1]


_readers: dict[Any, Any] = {}


def reader(residuals) -> Any:
    """read(trial, arm, rows, out), callable from Python."""
    if residuals not in _readers:

        @jit
        def read(trial, arm, rows, out):
            place(trial, arm)
            polynomial_mean(trial, arm)
            residuals(trial, arm, rows, out)

        _readers[residuals] = read
    return _readers[residuals]


def pilot(model, source, sums, strides, outliers) -> bool:
    """Write the remainders that were seen, with a margin, into sums.limits; False if none was."""
    rng = np.random.default_rng(1)
    rows = np.sort(rng.choice(model.size, min(ROWS, model.size), replace=False))
    rows = np.setdiff1d(rows, outliers)
    kind = np.int32 if model.size < 2**31 else np.int64
    order, factorial = (4, 24.0) if len(sums.s3) else (3, 6.0)
    raced = model.size - len(outliers)
    for table in range(len(sums.points) if len(rows) else 0):
        probe = Probe(model, source, sums, strides, table, outliers)
        largest = np.zeros(2)
        for arm in probe.arms:
            found = np.abs(probe.residuals(arm, rows.astype(kind)))
            if probe.size(arm) > 0.0 and np.all(np.isfinite(found)):
                unit = probe.size(arm) ** order / factorial
                seen = np.array([raced * found.mean(), found.max()]) / unit
                largest = np.maximum(largest, seen)
        sums.limits[table, 4] = SAFETY * largest[0]
        if not source.known():
            sums.limits[table, :2] = SAFETY * largest
            sums.limits[table, 3] = 1e-13 * (1.0 + abs(sums.s0[table]) / model.size)
    return source.known() or bool(np.all(sums.limits[:, 4] > 0.0))


def influential(model, source, sums, strides, share) -> np.ndarray:
    """The rows, this share of all, whose residuals are largest at a few points.

    share "auto": the one of SHARES at which a decision on a nat is expected to read least.
    """
    scores = np.zeros(model.size)
    kind = np.int32 if model.size < 2**31 else np.int64
    nothing = np.zeros(0, dtype=np.int64)
    for table in range(len(sums.points)):
        probe = Probe(model, source, sums, strides, table, nothing)
        for arm in list(probe.arms)[1:POINTS:6]:
            for first in range(0, model.size, 1 << 16):
                rows = np.arange(first, min(first + (1 << 16), model.size), dtype=kind)
                found = np.abs(probe.residuals(arm, rows))
                part = scores[first : first + len(rows)]
                np.maximum(part, np.where(np.isfinite(found), found, np.inf), out=part)
    if share == "auto":
        share = cheapest(scores)
    count = int(share * model.size)
    return np.sort(np.argpartition(scores, -count)[-count:]) if count else nothing


def cheapest(scores: np.ndarray) -> float:
    """What share of the rows to read always: theirs, and the race's by Prop. 7, cost least."""
    size, costs = len(scores), []
    ordered = np.sort(scores)
    for share in SHARES:
        rest = ordered[: size - int(share * size)]
        spread = size * float(np.mean(rest * rest)) if np.all(np.isfinite(rest)) else np.inf
        gap = 1.0 / np.sqrt(size * max(spread, 1e-300))
        costs.append(2.0 * share * size + expected_pulls(gap, size, 2))
    return SHARES[int(np.argmin(costs))]
