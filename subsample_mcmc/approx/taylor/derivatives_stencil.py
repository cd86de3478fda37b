"""Second-order residuals of any likelihood, by interpolation: no derivatives, no work for users.

Take a reference x* and steps x* + L z of about one posterior standard deviation. The polynomial in
z through l_n at z = 0, +-e_i and +-(e_i + e_j) is a weighted sum of these d^2 + d + 1 values, the
weights depending on z alone. So its sum over n is the same weighted sum of totals: whatever the
rounding or the smoothness of l_n, sum_n h is what it is said to be.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.polynomial import locate
from subsample_mcmc.approx.taylor.references import scales_of, totals_at
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.rewards import (
    Trial,
    place,
    probe,
    rewards,
    rewards_of,
)

HALVINGS = 12  # of the steps, until no point of the stencil lies where a likelihood is impossible
MOST_PARAMETERS = 64  # parameters: the stencil has 4,161 points


class Arrays(NamedTuple):
    """What the residuals of one chain need."""

    probe: Trial  # its candidates are the stencils of all configurations
    inverse: np.ndarray  # (K, d, d) of L
    z: np.ndarray
    weights: np.ndarray
    rows: np.ndarray  # (CHUNK,) rows whose values stand in `values`
    values: np.ndarray  # (points, CHUNK)
    now: np.ndarray  # (2,) how many rows, and of which configuration


def stencil(d: int) -> np.ndarray:
    """The points z, one per row: 0, +e_i, -e_i, then +(e_i + e_j), -(e_i + e_j) for i < j."""
    unit = np.eye(d)
    pairs = [unit[i] + unit[j] for i in range(d) for j in range(i + 1, d)]
    points = [np.zeros(d)]
    for step in (*unit, *pairs):
        points += [step, -step]
    return np.array(points)


def quadratic(totals: np.ndarray, d: int) -> tuple[float, np.ndarray, np.ndarray]:
    """(value, gradient, Hessian) in z of the polynomial through totals at the stencil."""
    up, down = totals[1 : 2 * d + 1 : 2], totals[2 : 2 * d + 1 : 2]
    both = totals[2 * d + 1 :: 2] + totals[2 * d + 2 :: 2]
    hessian = np.diag(up + down - 2.0 * totals[0])
    i, j = np.triu_indices(d, 1)
    hessian[i, j] = hessian[j, i] = 0.5 * (both - (up + down)[i] - (up + down)[j]) + totals[0]
    return float(totals[0]), 0.5 * (up - down), hessian


@jit(flags=FLAGS, inner=True)
def fill_weights(z, w):
    """Weights of the stencil's values in the polynomial at z."""
    d = len(z)
    total, at, w[0] = 0.0, 2 * d + 1, 1.0
    for i in range(d):
        total += z[i]
    for i in range(d):
        # Pairs take z_i z_j / 2 from the values at +-e_i: all of them are z_i (total - z_i) / 2.
        curved = 0.5 * z[i] * z[i] - 0.5 * z[i] * (total - z[i])
        w[1 + 2 * i] = curved + 0.5 * z[i]
        w[2 + 2 * i] = curved - 0.5 * z[i]
        w[0] -= z[i] * z[i]
    for i in range(d):
        for j in range(i + 1, d):
            both = z[i] * z[j]
            w[at] = w[at + 1] = 0.5 * both
            w[0] += both
            at += 2


@jit(inner=True)
def same(source, table, rows):
    """Are these the rows whose values stand in the source."""
    if source.now[0] != len(rows) or source.now[1] != table:
        return False
    for i in range(len(rows)):
        if source.rows[i] != rows[i]:
            return False
    return True


@jit(inner=True)
def look_up(source, table, rows):
    """Values at the stencil: the arms of a decision ask for the same rows in turn."""
    m, count = len(rows), len(source.weights)
    for p in range(count):
        rewards(source.probe, table * count + p, rows, source.values[p, :m])
    for i in range(m):
        source.rows[i] = rows[i]
    source.now[0], source.now[1] = m, table


@jit(flags=FLAGS, inner=True)
def subtract(values, weights, out):
    """Take an interpolation from out."""
    for p in range(np.uint64(len(weights))):
        weight = weights[p]
        for i in range(np.uint64(len(out))):
            out[i] -= weight * values[p, i]


@jit(inner=True)
def stencil_residuals(trial, arm, rows, out):
    """The hot loop: fills out with l - h of a mini-batch."""
    own = trial.control.arrays
    source, table, steps = own.source, own.tables[arm], own.steps[arm]
    place(trial, arm)  # the stencil wants the arm's discrete values
    locate(own, trial.ints, table)
    if not same(source, table, rows):
        look_up(source, table, rows)
    for i in range(len(steps)):
        source.z[i] = 0.0
        for j in range(len(steps)):
            source.z[i] += source.inverse[table, i, j] * steps[j]
    fill_weights(source.z, source.weights)
    rewards(trial, arm, rows, out)
    subtract(source.values, source.weights, out)


class Stencil:
    """A source of derivatives: log_likelihood itself, at a few points around the reference."""

    needs = "sm.Predictors(..., remainder=...): a likelihood of linear predictors, with a bound"
    constant = True

    def __init__(self, model, count: int):
        """count: configurations of the discrete blocks."""
        self.model, self.order = model, 2
        self.factors = np.zeros((count, len(model.floats), len(model.floats)))
        d = len(model.floats)
        if d > MOST_PARAMETERS:
            raise ValueError(
                f"the model has {d} continuous parameters: interpolation serves {MOST_PARAMETERS}. "
                "Give sm.Predictors(eta, log_factor), or Taylor(derivatives=...)."
            )
        self.points = stencil(d)
        self.references = np.zeros((count, d))
        self.shared: Any = None  # what of_all() returns, once it was asked for

    def known(self) -> bool:
        """No bound is known of a function that is only evaluated."""
        return False

    def kept(self) -> tuple:
        """What its residuals are made from, for a copy in another process."""
        return self.references, self.factors

    def restore(self, kept: tuple) -> None:
        """The inverse of kept()."""
        self.references, self.factors = kept
        self.shared = None

    def of_all(self) -> tuple[np.ndarray, np.ndarray]:
        """(all points of all configurations, one per row; the inverses of their factors).

        Every chain, and each look at the residuals of one configuration, reads the same.
        """
        if self.shared is None:
            parts = zip(self.references, self.factors, strict=True)
            points = np.concatenate([point + self.points @ f.T for point, f in parts])
            self.shared = points, np.linalg.inv(self.factors)
        return self.shared

    def bind(self, ints, floats, steps) -> tuple[Any, Any]:
        """Arrays of one chain, over those of its reference state."""
        model, d = self.model, len(floats)
        candidates, inverse = self.of_all()
        trial = probe(model, ints, floats, candidates)
        count = len(self.points)
        arrays = Arrays(
            trial, inverse, np.zeros(d), np.zeros(count),
            np.zeros(CHUNK, dtype=row_kind(model.size)), np.zeros((count, CHUNK)), np.full(2, -1),
        )  # fmt: skip
        return arrays, None

    reading = None  # residuals are made of rewards alone

    @property
    def residuals(self) -> Any:
        """Rewards, less their interpolation."""
        return stencil_residuals

    def sums(self, ints, point, keep, bar, table: int = 0) -> Any:
        """(s0, s1, s2, s3) at a reference: totals at the stencil, its steps shortened if needed."""
        d, model, self.shared = len(point), self.model, None
        self.references[table], self.factors[table] = point, scales_of(model, ints, point)
        unused = np.zeros((d, 0))
        for _ in range(HALVINGS):
            with np.errstate(all="ignore"):
                totals = self.totals(ints, point + self.points @ self.factors[table].T, keep, bar)
            if np.all(np.isfinite(totals)):
                value, gradient, hessian = quadratic(totals, d)
                inverse = np.linalg.inv(self.factors[table])
                return value, inverse.T @ gradient, inverse.T @ hessian @ inverse, unused
            self.factors[table] *= 0.5
        raise ValueError(
            f"log_likelihood is not finite near the reference {model.show(ints, point)}: choose "
            "one in the inside of its support."
        )

    def totals(self, ints, points, keep, bar) -> np.ndarray:
        """Sums of the log likelihood over the raced rows, at each point."""
        model = self.model
        found = totals_at(model, ints, points, bar.update)
        if not len(keep.outliers):
            return found
        trial = probe(model, np.array(ints), points[0].copy(), points)
        few, values = keep.outliers.astype(row_kind(model.size)), np.zeros(CHUNK)
        for p in range(len(points)):
            for first in range(0, len(few), CHUNK):
                part = few[first : first + CHUNK]
                rewards_of(trial, p, part, values[: len(part)])
                found[p] -= values[: len(part)].sum()
        return found
