"""Where a control variate is expanded: a point, and steps of about one standard deviation there."""

from math import prod
from typing import Any

import numpy as np

from subsample_mcmc.target.dyadic import BLOCK, Tree, aligned, blocks_of, in_threads
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.rewards import probe, sums_between

# Blocks that are read at one point before they are read at the next, at least; blocks, times
# points, that are worth a call, and a thread.
FEWEST, TOGETHER, WORTH = 64, 2048, 16_384


# ----------------------------------------------------------------- values of the discrete blocks
def sites_seen(model, variable) -> np.ndarray:
    """Which sites of a discrete block a datum may depend on, or the length of another block.

    The others have no configurations: not those of a block that the user's functions do not read,
    nor those to which touches gives no datum.
    """
    block, seen = variable.block, np.ones(variable.block.length, dtype=bool)
    if any(v.place == block.start for v in model.variables.values() if not v.support):
        return seen
    if variable.touches is not None:
        seen &= np.diff(variable.touches[0]) > 0
    return np.zeros_like(seen) if unread(model, (block.name,)) else seen


def configurations(model) -> int:
    """How many values the discrete sites that data depend on have together."""
    return prod(
        v.support ** int(np.sum(sites_seen(model, v)))
        for v in model.variables.values()
        if v.support
    )


def strides_of(model) -> np.ndarray:
    """Which configuration a state is: the sum of these times the values of the discrete sites."""
    discrete = [v for v in model.variables.values() if v.support]
    seen = [bool(s) for v in discrete for s in sites_seen(model, v)]
    sizes = [v.support for v in discrete for _ in range(v.block.length)]
    sizes = [size if s else 1 for size, s in zip(sizes, seen, strict=True)]
    made = [prod(sizes[i + 1 :]) if seen[i] else 0 for i in range(len(sizes))]
    return np.array(made, dtype=np.int64)


def configuration(strides, table: int) -> np.ndarray:
    """Values of the discrete sites: the inverse of table_of. Sites that no datum sees are 0."""
    ints, left = np.zeros(len(strides), dtype=np.int64), table
    for i, stride in enumerate(strides):
        if stride:
            ints[i], left = divmod(left, stride)
    return ints


# -------------------------------------------------------------------------------------- references
def references_of(given: Any, model, count: int) -> list[np.ndarray]:
    """One reference for each of `count` configurations of the discrete blocks, checked."""
    several = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(several) != count:
        raise ValueError(
            f"Taylor was given {len(several)} references: give one, or one for each of the {count} "
            "configurations of the discrete blocks that data depend on."
        )
    return [point_of(one, model) for one in several]


def point_of(given: Any, model) -> np.ndarray:
    """All continuous values of a fit, or of a dict of blocks."""
    if isinstance(given, dict):
        ints, floats = model.ints.copy(), model.floats.copy()
        model.set_state(ints, floats, given)
        return floats
    if not hasattr(given, "point"):
        raise TypeError(
            f"{given!r:.60} is no fit: give sm.laplace(model), or a dict of the values of the "
            "continuous blocks."
        )
    theirs = given.model
    if theirs is not model and theirs.fingerprints() != model.fingerprints():
        mine = model.fingerprints()
        changed = [k for k, v in theirs.fingerprints().items() if mine.get(k) != v]
        raise ValueError(
            f"the fit was made for another model or other data (different: {', '.join(changed)}): "
            "fit this model."
        )
    return np.array(given.point, dtype=float)


def totals_at(model, ints, points: np.ndarray, tell=lambda rows: None) -> np.ndarray:
    """Exact sums over all rows, at each point; tell(rows): of each point, a part at a time."""
    blocks = blocks_of(model.size)

    def part(first, last):
        found = some_totals(model, ints, points, first, last)
        tell(min(last * BLOCK, model.size) - first * BLOCK)
        return found

    return in_threads(part, 0, blocks, fewest=max(1, WORTH // len(points))).root(blocks)


def some_totals(model, ints, points: np.ndarray, first: int, last: int, origin: int = 0) -> Tree:
    """The same of some blocks, as a part of the tree of all.

    origin: which block of all rows the model's first row begins, where these are its own.
    """
    trial, tree = probe(model, np.array(ints), points[0].copy(), points), Tree()
    step = max(FEWEST, TOGETHER // len(points))
    for start in range(first, last, step):
        for level, index in aligned(origin + start, origin + min(start + step, last)):
            begin, end = (((index + k) << level) - origin for k in (0, 1))
            sums = np.zeros(len(points))
            sums_between(trial, begin * BLOCK, min(end * BLOCK, model.size), sums)
            tree.add(level, index, sums)
    return tree


def scales_of(model, ints, point: np.ndarray) -> np.ndarray:
    """Steps by the curvature of the log likelihood: about one conditional standard deviation."""
    d, middle, bends = len(point), None, np.zeros(len(point))
    steps, left = 1e-5 * np.maximum(np.abs(point), 1e-2), np.arange(d)
    for _ in range(8):  # wider, until the curvature stands out of the rounding
        if not len(left):
            break
        ends = np.diag(steps)[left]
        parts = [ends, -ends] if middle is not None else [ends, -ends, np.zeros((1, d))]
        totals = totals_at(model, ints, point + np.concatenate(parts))
        up, down = totals[: 2 * len(left)].reshape(2, -1)
        middle = totals[-1] if middle is None else middle
        bends[left] = np.abs(up - 2.0 * middle + down)
        left = left[np.isfinite(bends[left]) & ~(bends[left] > 1e-7 * abs(middle))]
        steps[left] *= 10.0
    known = np.isfinite(bends) & (bends > 0.0)
    widths = steps / np.sqrt(np.where(known, bends, 1.0))
    return np.diag(np.where(known, np.minimum(widths, 10.0 * steps), steps))


def deviations_of(model, ints, point: np.ndarray) -> np.ndarray:
    """Conditional standard deviations: where the curvature at so many is one nat.

    The steps of `scales_of`, which stop short of them where a curvature soon stands out of the
    rounding, as of few data; gone on from.
    """
    steps = np.diag(scales_of(model, ints, point)).copy()
    for _ in range(8):
        ends = np.diag(steps)
        parts = [ends, -ends, np.zeros((1, len(point)))]
        totals = totals_at(model, ints, point + np.concatenate(parts))
        up, down = totals[:-1].reshape(2, -1)
        bends = np.abs(up - 2.0 * totals[-1] + down)
        known = np.isfinite(bends) & (bends > 0.0)
        ratios = np.clip(1.0 / np.sqrt(np.where(known, bends, 1.0)), 0.1, 10.0)
        steps *= ratios
        if np.all(np.abs(np.log(ratios)) < 0.1):
            break
    return steps


def scales_by(curvatures: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Steps of about a standard deviation; where there is no curvature, a part of the value."""
    size = np.abs(curvatures)
    known = np.isfinite(size) & (size > 0.0)
    return np.where(
        known, 1.0 / np.sqrt(np.where(known, size, 1.0)), np.maximum(np.abs(point), 1e-3)
    )


def used_of(model, ints) -> int:
    """Continuous values beyond these are not there in a configuration of the discrete blocks."""
    ends = (v.block.start + v.length(ints) for v in model.variables.values() if not v.support)
    return max(ends, default=0)
