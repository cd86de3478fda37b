"""Where a control variate is expanded: a point, and steps of about one standard deviation there."""

from math import prod
from typing import Any

import numpy as np

from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.rewards import probe, sum_of


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
            f"Taylor(fit={given!r:.60}): give sm.laplace(model), or a dict of the values of the "
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


def scales_of(model, ints, point: np.ndarray) -> np.ndarray:
    """Steps by the curvature of the log likelihood: about one conditional standard deviation."""
    d = len(point)
    total, points = sum_of, np.tile(point, (3, 1))
    trial = probe(model, np.array(ints), point.copy(), points)
    steps, middle = np.zeros(d), total(trial, 0, model.size)
    for j in range(d):
        step = 1e-5 * max(abs(point[j]), 1e-2)
        for _ in range(8):  # wider, until the curvature stands out of the rounding
            points[1, j], points[2, j] = point[j] + step, point[j] - step
            up, down = (total(trial, p, model.size) for p in (1, 2))
            bend = abs(up - 2.0 * middle + down)
            finite = np.isfinite(bend)
            if not finite or bend > 1e-7 * abs(middle):
                break
            step *= 10.0
        points[1:, j] = point[j]
        known = finite and bend > 0.0
        steps[j] = min(step / np.sqrt(bend), 10.0 * step) if known else step
    return np.diag(steps)


def used_of(model, ints) -> int:
    """Continuous values beyond these are not there in a configuration of the discrete blocks."""
    ends = (v.block.start + v.length(ints) for v in model.variables.values() if not v.support)
    return max(ends, default=0)
