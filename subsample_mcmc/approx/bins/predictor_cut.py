"""Data cut into bins by columns and by linear predictors at a fit, one cut per configuration.

Predictors are linear in the parameters, eta_n = X_n x: a bin's mean and second moments of them at
any x are those of its rows X_n times x. So it is enough to add up X_n and its products once. X_n
is read off eta, by differences, which of what is linear are exact.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.bins.cut import (
    MOST_COLUMNS,
    BinSample,
    at_stencil,
    distances,
    elsewhere,
    fields_read,
    grouped,
    largest,
    means,
    moments_of,
    sample_of,
    terms,
    unit_of,
)
from subsample_mcmc.approx.taylor.derivatives_predictors import AWAY
from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.approx.taylor.pilot import drawn, is_about
from subsample_mcmc.approx.taylor.predictor_chunks import Keep, reader_of
from subsample_mcmc.approx.taylor.references import (
    configuration,
    configurations,
    references_of,
    scales_of,
    strides_of,
    used_of,
)
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.target.population import read_only

# ------------------------------------------------------------ X of the predictors, read in pieces
SAME = 1e-12  # of its size: what varies less over rows is rounding
ROOM = 1 << 22  # numbers of X that are held at a time


class Survey(NamedTuple):
    """What one pass over all rows tells."""

    values: np.ndarray  # (p, N) predictors at the reference
    varies: np.ndarray  # (p, 1 + used) which derivatives by (1, x) vary over rows
    fixed: np.ndarray  # derivatives that are the same in all rows; 0 where they vary


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


# ------------------------------------------------------------------------------------------ the cut
LARGEST = 1 << 28  # numbers in all
TABLES = 256  # configurations of the discrete blocks
POINTS = 64  # drawn from a fit, to see how far it moves each row's predictors


class PredictorCut(NamedTuple):
    """What is known of the bins, by configuration; sums are over the rows that are raced.

    K configurations, B bins at most, q = c columns and v predictors that vary over rows, of p.
    """

    strides: np.ndarray  # which configuration a discrete state is: sum of strides times values
    places: np.ndarray  # (p,) which of those that vary a predictor is; -1: none
    used: np.ndarray  # (K,) continuous values beyond these are not there
    bins: np.ndarray  # (K, N) the bin of each row
    reference: np.ndarray  # (K, B, c) the mean of its columns
    moments: np.ndarray  # (K, B, m) of 1, d_k and d_k d_l, k <= l; those of predictors at the fit
    steps: np.ndarray  # (K, B, q) of the stencil
    inverse: np.ndarray  # (K, B, q) 1 / steps; 0 for what does not vary
    fixed: np.ndarray  # (K, p, 1 + d) the part of (1, X) that does not vary over rows
    active: np.ndarray  # (K, v, a) which components of (1, x) have a part that does
    counts: np.ndarray  # (K, v) how many
    # Sums of X over those components, one predictor's after the other's, and of their products.
    centres: np.ndarray  # (K, B, A) means
    cross: np.ndarray  # (K, B, c A) sums of d_k (X - mean)
    second: np.ndarray  # (K, B, M) of (X - mean)' (X - mean) for two predictors j <= k
    points: np.ndarray  # (P, q) the stencil


class PredictorBinning(NamedTuple):
    """What was made for a model, once."""

    cut: PredictorCut
    columns: tuple[int, ...]  # their places among the data's fields
    outliers: np.ndarray
    pseudo: Any  # data of K P B rows: all bins at the stencil's first point, at its second, ...
    sample: BinSample  # of the first configuration's bins, which serve the others well enough


# --------------------------------------------------------------------------------- what is given
def references(given: Any, model) -> list[np.ndarray]:
    """One reference for each configuration of the discrete blocks, checked."""
    if model.predictors is None:
        raise ValueError(
            "Bins(fit=...) cuts linear predictors at the fit, and this model gives log_likelihood "
            "itself: give sm.Predictors(eta, log_factor), or leave fit out."
        )
    several = list(given) if isinstance(given, list | tuple) else [given]
    count = configurations(model)
    if count > TABLES or (count != len(several) and isinstance(given, list | tuple)):
        raise ValueError(
            f"Bins was given {len(several)} fits, and the discrete blocks have "
            f"{count if count < 10**9 else 'more than 10^9'} configurations: give "
            f"one fit, or one for each of them; Bins serves {TABLES} configurations at most."
        )
    for one in several:
        if not (isinstance(one, dict) or hasattr(one, "point")):
            raise TypeError(
                f"Bins(fit={one!r:.60}): give sm.laplace(model), or a dict of the values of the "
                "continuous blocks."
            )
    return references_of(given, model, count)


# ------------------------------------------------------------------------------------------- bins
def crossed(rows: np.ndarray, values: list[np.ndarray], each: int):
    """Parts by quantiles of each column, whatever the others are: a grid, but for empty cells."""
    code = np.zeros(len(rows), dtype=np.int64)
    for column in values:
        place, many = np.zeros(len(rows), dtype=np.int64), min(each, len(rows))
        place[np.argsort(column[rows], kind="stable")] = np.arange(len(rows)) * many // len(rows)
        code = code * many + place
    order = np.argsort(code, kind="stable")
    yield from np.split(rows[order], np.flatnonzero(np.diff(code[order])) + 1)


class Grid(NamedTuple):
    """The bins of one configuration."""

    values: list[np.ndarray]  # columns, and predictors at the fit
    bins: np.ndarray
    centres: np.ndarray
    first: np.ndarray  # a row of each
    far: np.ndarray  # squared distances that rows may come to from the middle of their bins

    def upto(self, count: int) -> "Grid":
        """With bins without rows, placed where the first is."""
        at = np.arange(count) * (np.arange(count) < len(self.first))
        return self._replace(centres=self.centres[at], first=self.first[at])


def spread(model, fit, ints, point: np.ndarray, used: int, strides) -> np.ndarray:
    """A factor of the covariance of a configuration's parameters: of its fit, or by curvature."""
    if is_about(model, fit, ints, strides):
        points = drawn(fit, POINTS)
        return (points - point)[:, :used].T / np.sqrt(len(points))
    return scales_of(model, ints, point)[:used, :used]


def grid(model, few, values: list[np.ndarray], swings: np.ndarray, count: int) -> Grid:
    """About `count` bins by marginal quantiles.

    A row whose predictor moves by itself, as that of a level with few rows does, leaves its bin
    when parameters change: it is as far as it may come, at AWAY standard deviations.
    """
    bins = np.zeros(model.size, dtype=np.int32)
    centres, first = [], []
    for b, rows in enumerate(grouped(model, few, values, count, crossed)):
        bins[rows] = b
        centres.append([np.median(column[rows]) for column in values])
        first.append(rows[0])
    middle = np.array(centres).reshape(len(first), len(values))
    far = distances(bins, values, middle)
    for swing, column in zip(swings, values[len(values) - len(swings) :], strict=True):
        # Of a predictor that is constant at the reference only the swings themselves say how wide.
        unit = unit_of(column) or AWAY * float(np.sqrt(np.mean(swing**2))) or 1.0
        far += (AWAY / unit * swing) ** 2
    return Grid(values, bins, middle, np.array(first), far)


def predictor_cut(model, columns, count: int, share: float, fit) -> PredictorBinning:
    """About `count` bins of each configuration, and one set of outliers: this share of all rows."""
    points, strides = references(fit, model), strides_of(model)
    names, few = fields_read(model, columns, points[0])
    taken = {name: getattr(model.data, name) for name in names}
    designs = [Design(model, configuration(strides, k), point) for k, point in enumerate(points)]
    surveys = [design.survey() for design in designs]
    count_of = model.predictors.count(model)
    moving = tuple(k for k in range(count_of) if any(found.varies[k].any() for found in surveys))
    if len(names) + len(moving) > MOST_COLUMNS:
        raise ValueError(
            f"{len(names)} columns {names} and {len(moving)} predictors that vary over rows: bins "
            "that are narrow in each of them would be too many. Bins serves "
            f"{MOST_COLUMNS} in all; use sm.Taylor, which expands in the parameters."
        )
    several = list(fit) if isinstance(fit, list | tuple) else [fit] * len(points)
    grids = []
    for k, (design, found) in enumerate(zip(designs, surveys, strict=True)):
        ints, values = configuration(strides, k), [*taken.values(), *found.values[list(moving)]]
        factor = spread(model, several[k], ints, points[k], design.used, strides)
        grids.append(grid(model, few, values, design.swings(factor)[list(moving)], count))
    far = np.max([made.far for made in grids], axis=0)
    keep = Keep(largest(far, int(share * model.size)))
    most = max(len(made.first) for made in grids)
    if (size := most * sum(found.varies.sum() ** 2 for found in surveys)) > LARGEST:
        raise ValueError(
            f"moments of {most} bins with {surveys[-1].varies.sum()} coefficients are about "
            f"{size:.2g} numbers: use fewer bins, or sm.Taylor."
        )
    tables = [
        table(model, design, found, made.upto(most), moving, taken, few, keep)
        for design, found, made in zip(designs, surveys, grids, strict=True)
    ]
    parts = {name: padded([kept[name] for kept, _, _ in tables]) for name in tables[0][0]}
    pseudo = [
        read_only(np.concatenate([np.concatenate(data[name]) for _, data, _ in tables]))
        if np.ndim(column)
        else column
        for name, column in zip(model.data._fields, model.data, strict=True)
    ]
    fields = tuple(model.data._fields.index(name) for name in names)
    used = np.array([design.used for design in designs])
    places = np.array([moving.index(k) if k in moving else -1 for k in range(count_of)])
    cut = PredictorCut(
        strides=strides, places=places, used=used, points=stencil(len(names) + len(moving)), **parts
    )
    return PredictorBinning(cut, fields, keep.outliers, type(model.data)(*pseudo), tables[0][2])


def table(
    model, design, survey, made: Grid, moving, taken, few, keep
) -> tuple[dict, dict, BinSample]:
    """(what PredictorCut keeps of one configuration, by name; data of its stencil; a sample)."""
    bins, columns, c = made.bins, made.values[: len(taken)], len(taken)
    counts, reference = means(bins, made.values, made.centres, keep)
    kinds = {name: column.dtype for name, column in taken.items()}
    for k, kind in enumerate(kinds.values()):
        reference[:, k] = reference[:, k].astype(kind)  # as it will stand in the pseudo-data
    moments, steps = moments_of(bins, made.values, reference, counts, keep)
    data, inverse = at_stencil(kinds, reference, steps)
    data |= elsewhere(model, data, len(stencil(len(made.values))), few, bins, made.first, keep)
    parts = [(k, np.flatnonzero(survey.varies[k])) for k in moving]
    ends = np.cumsum([c, *(len(active) for _, active in parts)])
    spans = [slice(a, b) for a, b in itertools.pairwise(ends)]
    width, pairs = int(ends[-1]) - c, terms(len(parts))
    numbers = sum(len(packed(np.zeros((ends[-1],) * 2), spans[j], spans[k])) for j, k in pairs)
    rooms = (width, c * width, numbers)
    centres, cross, second = (np.zeros((len(counts), room)) for room in rooms)
    rows = np.flatnonzero(keep(0, model.size))
    rows = rows[np.argsort(bins[rows], kind="stable")]
    ends = np.searchsorted(bins[rows], np.arange(len(counts) + 1))
    for b, (first, last) in enumerate(itertools.pairwise(ends)):
        own = rows[first:last]
        apart = [column[own] - reference[b, k] for k, column in enumerate(columns)]
        centres[b], square = design.moments(own, np.reshape(apart, (c, len(own))).T, parts)
        cross[b] = square[:c, c:].ravel()
        if pairs:
            second[b] = np.concatenate([packed(square, spans[j], spans[k]) for j, k in pairs])
    active = padded([np.zeros(0, dtype=np.int64), *(active for _, active in parts)])[1:]
    used = np.array([len(at) for _, at in parts], dtype=np.int64)
    return {
        "bins": bins.astype(np.int16 if len(counts) < 2**15 else np.int32),
        "reference": reference[:, :c], "moments": moments, "steps": steps, "inverse": inverse,
        "fixed": survey.fixed, "active": active, "counts": used,
        "centres": centres, "cross": cross, "second": second,
    }, data, sample_of(bins, made.values, reference, steps, made.first, keep)  # fmt: skip


def packed(square: np.ndarray, one: slice, two: slice) -> np.ndarray:
    """A block of sums of products; of a symmetric one the upper half, what lies beside it twice."""
    block = square[one, two]
    if one != two:
        return block.ravel()
    return ((2.0 - np.eye(len(block))) * block)[np.triu_indices(len(block))]


def padded(tables: list[np.ndarray]) -> np.ndarray:
    """Tables of all configurations in one, with zeros where some are smaller."""
    found = np.zeros((len(tables), *np.max([t.shape for t in tables], axis=0)), tables[0].dtype)
    for whole, part in zip(found, tables, strict=True):
        whole[tuple(slice(n) for n in part.shape)] = part
    return found
