"""Data cut into bins of near neighbours: the rows of each, their moments, and pseudo-data.

A bin is known by its mean, the moments of its rows around it, and a few points at which any
likelihood can be interpolated. None of it depends on parameters: it is made once.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.bins.fields import fields_of
from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.approx.taylor.taylor import Keep
from subsample_mcmc.target.population import read_only

GROUPS = 4096
PIECE = 1 << 18  # rows that are added up at a time
NARROW = 0.25  # of a bin's standard deviation: the least step


class Cut(NamedTuple):
    """What is known of the bins; sums are over the rows that are raced."""

    columns: tuple[str, ...]
    bins: np.ndarray  # (N,) the bin of each row
    reference: np.ndarray  # (B, q) its mean
    moments: np.ndarray  # (B, m) sums of 1, d_k and d_k d_l, k <= l, with d = y - reference
    inverse: np.ndarray  # (B, q) of the steps; 0 for a column that does not vary
    outliers: np.ndarray  # rows far from their bin's mean
    pseudo: Any  # data of P B rows: the points of all bins, the same one of each bin in a row


def terms(q: int) -> list[tuple[int, int]]:
    """The products d_k d_l in the order of moments and coefficients."""
    return [(k, j) for k in range(q) for j in range(k, q)]


# ---------------------------------------------------------------------------------------- bins
def cut(model, columns: tuple[str, ...] | None, count: int, share: float) -> Cut:
    """About `count` bins of similar counts; this share of all rows are outliers."""
    names, few = fields_of(model, columns)
    values = [getattr(model.data, name) for name in names]
    parts = list(grouped(model, few, values, count))
    bins = np.zeros(model.size, dtype=np.int16 if len(parts) < 2**15 else np.int32)
    centres = np.zeros((len(parts), len(values)))
    for b, rows in enumerate(parts):
        bins[rows] = b
        # Medians: a mean may lie wherever one far row takes it, far from all others.
        centres[b] = [np.median(column[rows]) for column in values]
    first = np.array([rows[0] for rows in parts])
    del parts
    outliers = largest(distances(bins, values, centres), int(share * model.size))
    keep = Keep(outliers)
    counts, reference = means(bins, values, centres, keep)
    kinds = [column.dtype for column in values]
    for k, kind in enumerate(kinds):
        reference[:, k] = reference[:, k].astype(kind)  # as it will stand in the pseudo-data
    moments, steps = moments_of(bins, values, reference, counts, keep)
    made, inverse = at_stencil(dict(zip(names, kinds, strict=True)), reference, steps)
    made |= elsewhere(model, made, len(stencil(len(names))), few, bins, first, keep)
    pseudo = [
        read_only(np.concatenate(made[name])) if name in made else column
        for name, column in zip(model.data._fields, model.data, strict=True)
    ]
    return Cut(names, bins, reference, moments, inverse, outliers, type(model.data)(*pseudo))


def at_stencil(kinds: dict[str, Any], reference, steps) -> tuple[dict[str, Any], np.ndarray]:
    """(the columns at all points of all bins, one over steps); steps are rounded as columns are."""
    points, made = stencil(reference.shape[1]), {}
    for k, (name, kind) in enumerate(kinds.items()):
        made[name] = (reference[:, k] + points[:, k, None] * steps[:, k]).astype(kind)
        up, down = made[name][1 + 2 * k].astype(float), made[name][2 + 2 * k].astype(float)
        steps[:, k] = 0.5 * (up - down)
    return made, np.divide(1.0, steps, out=np.zeros_like(steps), where=steps > 0.0)


def elsewhere(model, made, points: int, few, bins, first, keep) -> dict[str, Any]:
    """Fields that are not cut, at all points of all bins: constant in a bin, or its mean."""
    found = {}
    for name, column in zip(model.data._fields, model.data, strict=True):
        if np.ndim(column) and name not in made:
            one = column[first]
            if name not in few and column.ndim == 1 and column.dtype.kind == "f":
                one = means(bins, [column], one[:, None], keep)[1][:, 0].astype(column.dtype)
            found[name] = np.stack([one] * points)
    return found


def grouped(model, few: tuple[str, ...], values: list[np.ndarray], count: int, split=None):
    """The rows of each bin: groups first, within each quantiles of one column after another."""
    code = np.zeros(model.size, dtype=np.int64)
    for name in few:
        kinds, place = np.unique(getattr(model.data, name), return_inverse=True)
        code = code * len(kinds) + place.reshape(-1)
        code = np.unique(code, return_inverse=True)[1].reshape(-1)
    groups = int(code.max()) + 1
    if groups > GROUPS:
        raise ValueError(
            f"the fields {few} split the data into {groups} groups: Bins serves {GROUPS}. Use "
            "sm.Taylor."
        )
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(code))[:-1]):
        share = count * len(rows) / model.size
        each = max(1, round(share ** (1.0 / len(values)))) if values else 1
        yield from (split or nested)(rows, values, each)


def nested(rows: np.ndarray, values: list[np.ndarray], each: int):
    """Parts of similar counts by the first column, each of them by the next."""
    if not values:
        yield rows
        return
    rows = rows[np.argsort(values[0][rows], kind="stable")]
    for part in np.array_split(rows, min(each, len(rows))):
        yield from nested(part, values[1:], each)


def distances(bins, values: list[np.ndarray], centres: np.ndarray) -> np.ndarray:
    """Squared distances of all rows from the middle of their bins."""
    found = np.zeros(len(bins))
    for k, column in enumerate(values):
        unit = unit_of(column)
        for first, part in pieces(len(bins)):
            found[part] += ((column[part] - centres[bins[part], k]) / unit) ** 2
    return found


def unit_of(column: np.ndarray) -> float:
    """What distances in a column are measured in.

    One unit for all bins: what is far in a wide bin has large residuals. Not the standard
    deviation, which a few rows of a heavy tail decide.
    """
    low, high = np.quantile(column, (0.16, 0.84))
    return 0.5 * float(high - low) or float(np.std(column)) or 1.0


def largest(distance: np.ndarray, count: int) -> np.ndarray:
    """The rows, this many, that lie farthest; none that lies in the middle."""
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    found = np.argpartition(distance, -count)[-count:]
    return np.sort(found[distance[found] > 0.0])


def pieces(size: int):
    """(first row, slice) of one piece after another."""
    for first in range(0, size, PIECE):
        yield first, slice(first, min(first + PIECE, size))


def means(bins, values, centres, keep) -> tuple[np.ndarray, np.ndarray]:
    """(counts, means) of the raced rows of each bin; where there are none, its middle."""
    count = len(centres)
    counts, shift = np.zeros(count), np.zeros((count, len(values)))
    for first, part in pieces(len(bins)):
        at, weights = bins[part], keep(first, first + len(bins[part]))
        counts += np.bincount(at, weights, count)
        for k, column in enumerate(values):
            shift[:, k] += np.bincount(at, weights * (column[part] - centres[at, k]), count)
    return counts, centres + shift / np.maximum(counts, 1.0)[:, None]


def moments_of(bins, values, reference, counts, keep) -> tuple[np.ndarray, np.ndarray]:
    """(moments, steps) around the reference.

    Steps are those at which interpolation leaves the smallest cubic term over the bin: of all
    d^3 - s^2 d, the one with s^2 = E d^4 / E d^2. (For uniform d the points 0, +-s are then the
    nodes of Gauss and Legendre.) They stay between the bin's ends, where likelihoods are finite.
    """
    count, q = reference.shape
    moments = np.zeros((count, 1 + q + len(terms(q))))
    fourth, low, high = (np.zeros((count, q)) for _ in range(3))
    moments[:, 0] = counts
    for first, part in pieces(len(bins)):
        at, weights = bins[part], keep(first, first + len(bins[part]))
        apart = [column[part] - reference[at, k] for k, column in enumerate(values)]
        for k, d in enumerate(apart):
            moments[:, 1 + k] += np.bincount(at, weights * d, count)
            fourth[:, k] += np.bincount(at, weights * d**4, count)
            np.minimum.at(low[:, k], at, weights * d)
            np.maximum.at(high[:, k], at, weights * d)
        for j, (k, i) in enumerate(terms(q)):
            moments[:, 1 + q + j] += np.bincount(at, weights * apart[k] * apart[i], count)
    own = [1 + q + j for j, (k, i) in enumerate(terms(q)) if k == i]
    square = moments[:, own]
    with np.errstate(invalid="ignore", divide="ignore"):
        best = np.sqrt(fourth / square)
        least = NARROW * np.sqrt(square / counts[:, None])
    steps = np.maximum(np.minimum(best, np.minimum(-low, high)), least)
    return moments, np.where(np.isfinite(steps), steps, 0.0)
