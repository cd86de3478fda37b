"""What a Taylor sum leaves over, learnt: a regression on exact sums at points of the posterior.

The remainder of a whole sum is a smooth function of the parameters, small and mostly negative, and
where N is some thousands it is what keeps a decision from being made without data. Some thousand
exact sums at draws from the fit, which cost little when N is small, tell most of it: as a sum of
powers of single coordinates, and of the terms that the polynomial has anyway. What is then left
over is some hundredths of a nat, and cross-validation says how much.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit

EVALUATIONS = 100_000_000  # log likelihoods of one datum that the exact sums of one table may read
POINTS = 3000  # at most; below FEW nothing is learnt
FEW, FOLDS = 24, 3
COMMON, POWERS = 6, 4  # features of the polynomial's terms; powers of each coordinate
RIDGE = 1e-12  # of the mean square of a feature: what rounding leaves of the rest
SLOPE = 0.2  # doubt grows with this share of what is said: large remainders are known less well
# Expected excess, in nats, of an error over its doubt. The top two arms of a decision are as close
# as g with density at most 1 a nat, so this is the chance of a wrong prediction, an arm.
RISK = 1.25e-4
SEEN = 1000  # of so many points one lies farther off than is believed
SAFETY = 1.5


class Learnt(NamedTuple):
    """By configuration of the discrete blocks."""

    known: np.ndarray  # (K,) 0: nothing was learnt
    scales: np.ndarray  # (K, d) one over the standard deviation of each coordinate
    weights: np.ndarray  # (K, COMMON + POWERS d) of the features
    reach: np.ndarray  # (K, 2) distance, and scaled coordinate, up to which it is believed
    doubts: np.ndarray  # (K, 3) base; factor at the risk above, and at the largest error seen
    spreads: np.ndarray  # (K,) root mean square of a raced row's residual, a unit of doubt


def nothing(count: int, d: int) -> Learnt:
    """Before anything is learnt."""
    return Learnt(
        np.zeros(count, dtype=np.int64), np.zeros((count, d)),
        np.zeros((count, COMMON + POWERS * d)), np.zeros((count, 2)), np.zeros((count, 3)),
        np.zeros(count),
    )  # fmt: skip


@jit(flags=FLAGS, inner=True)
def sum_of_powers(weights, scales, steps, used):
    """(sum over coordinates of a polynomial in each, the largest of them)."""
    value, largest, d = 0.0, 0.0, np.uint64(len(scales))
    for j in range(np.uint64(used)):
        s = scales[j] * steps[j]
        at = np.uint64(COMMON) + j
        tail = weights[at + d + d] + s * weights[at + d + d + d]
        value += s * (weights[at] + s * (weights[at + d] + s * tail))
        largest = max(largest, abs(s))
    return value, largest


@jit(inner="always")
def guess(learnt, table, steps, used, size, cubic):
    """(remainder, the unit of its doubt): doubts are factors of it; inf: nothing is known."""
    if learnt.known[table] == 0:
        return 0.0, np.inf
    w, q = learnt.weights[table], 0.5 * size * size
    value, largest = sum_of_powers(w, learnt.scales[table], steps, used)
    value += w[0] + q * (w[1] + q * w[2]) + cubic * (w[3] + w[4] * cubic / (q + 1.0) + w[5] * q)
    if size > learnt.reach[table, 0] or largest > learnt.reach[table, 1]:
        return 0.0, np.inf
    return value, learnt.doubts[table, 0] + SLOPE * abs(value)


def features(steps: np.ndarray, scales, sizes, cubics, powers: int) -> np.ndarray:
    """Design matrix of the remainder regression: one row for each point."""
    q, s = 0.5 * sizes**2, steps * scales
    common = [np.ones_like(q), q, q * q, cubics, cubics**2 / (q + 1.0), cubics * q]
    return np.column_stack(common + [s**p for p in range(1, powers + 1)])


def learn(learnt: Learnt, table: int, steps, sizes, cubics, left: np.ndarray) -> None:
    """Fit the remainders `left` at some points; each third of them judges a fit to the others."""
    good = np.isfinite(left) & (sizes > 0.0)
    steps, sizes, cubics, left = steps[good], sizes[good], cubics[good], left[good]
    count, spread = len(left), steps.std(axis=0)
    if count < FEW:
        return
    scales = np.where(spread > 0.0, 1.0 / np.maximum(spread, 1e-300), 0.0)
    needed = COMMON + POWERS * int((spread > 0.0).sum())
    matrix = features(steps, scales, sizes, cubics, POWERS if count >= 4 * needed else 0)
    matrix = matrix if count >= 8 * COMMON else matrix[:, :1]
    most = np.abs(left).max()
    if not most > 0.0:  # nothing is left over, and features would tell as much
        learnt.scales[table], learnt.reach[table] = scales, (reached(sizes), np.inf)
        learnt.known[table] = 1
        return
    weight = 1.0 / (np.median(np.abs(left)) + np.abs(left) + 1e-6 * most)
    norm = np.maximum(np.abs(matrix * weight[:, None]).max(axis=0), 1e-300)
    scaled, wanted = matrix * weight[:, None] / norm, left * weight

    said, part = np.zeros(count), np.arange(count) % FOLDS
    folds = [scaled[part == fold] for fold in range(FOLDS)]
    squares = np.array([rows.T @ rows for rows in folds])
    products = np.array([rows.T @ wanted[part == f] for f, rows in enumerate(folds)])
    ridge = RIDGE * np.trace(squares.sum(axis=0)) / squares.shape[1] * np.eye(squares.shape[1])

    def fitted(which):
        square, product = squares[which].sum(axis=0), products[which].sum(axis=0)
        return np.linalg.solve(square + ridge, product) / norm

    for fold in range(FOLDS):
        said[part == fold] = matrix[part == fold] @ fitted(np.arange(FOLDS) != fold)
    error = np.abs(left - said)
    base = float(np.median(error)) + 1e-300
    unit = base + SLOPE * np.abs(said)
    largest = float((error / unit).max())
    factors = np.linspace(0.0, largest, 400)
    excess = np.array([np.maximum(error - f * unit, 0.0).mean() for f in factors])
    found = fitted(slice(None))
    found[~matrix.any(axis=0)] = 0.0  # of coordinates that are not there
    learnt.weights[table, : len(found)] = found
    learnt.scales[table] = scales
    learnt.reach[table] = reached(sizes), reached(np.abs(steps * scales).max(axis=1))
    bold = SAFETY * float(factors[np.argmax(excess <= RISK)])
    learnt.doubts[table] = base, bold, 2.0 * max(largest, bold)
    learnt.known[table] = 1


def reached(distances: np.ndarray) -> float:
    """The distance beyond which too few points lie to tell anything."""
    return float(np.sort(distances)[-max(1, len(distances) // SEEN)])


def how_many(size: int) -> int:
    """Points whose exact sums are worth their cost."""
    return min(POINTS, EVALUATIONS // size)
