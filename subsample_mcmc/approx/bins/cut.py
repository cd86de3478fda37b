"""Data cut into bins of near neighbours: the rows of each, their moments, and pseudo-data.

A bin is known by its mean, the moments of its rows around it, and a few points at which any
likelihood can be interpolated. None of it depends on parameters: it is made once. A likelihood is
evaluated at points of the bins, data of another length and order, so it must see of a datum what
stands in its row; with sm.Predictors that is asked of log_factor alone.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.population import read_only
from subsample_mcmc.target.user_functions import plain

MOST_COLUMNS = 3  # columns: bins that are narrow in every one of them become too many
FEW = 16  # different values of a field that splits the data into groups
GLANCE = 4096  # rows that tell most fields with many values from those with few
CHECKED = 64  # data at which a likelihood is evaluated elsewhere
DONORS = 3  # rows that lend a field's value to others


# ------------------------------------------------------------------------------------- fields
def fields_of(model, columns: tuple[str, ...] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns to cut into bins, fields that split the data into groups), or an error."""
    return chosen_of(arrays_of(model, columns), columns, hint(model))


def arrays_of(model, columns: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    """The data's arrays by name; refuse columns that are not among them, or have no means."""
    arrays = {n: v for n, v in zip(model.data._fields, model.data, strict=True) if np.ndim(v)}
    for name in columns or ():
        if name not in arrays:
            raise ValueError(f"Bins(columns=...): {name!r} is not among the arrays {[*arrays]}.")
        if arrays[name].dtype.kind != "f":
            raise TypeError(
                f"Bins(columns=...): data {name} has dtype {arrays[name].dtype}, and bins have "
                "means: give it as .astype(float), or leave it out, if it has few values."
            )
    return arrays


def hint(model) -> str:
    """What else there is for likelihoods that see more than a few numbers of their row."""
    return ", or Bins(fit=...), which cuts predictors" if model.predictors is not None else ""


def chosen_of(arrays: dict[str, np.ndarray], columns, more: str = "") -> tuple[Any, Any]:
    """(columns, groups) among the arrays that matter, or an error."""
    few = []
    for name, array in arrays.items():
        if array.ndim > 1:
            raise ValueError(
                f"data {name} has shape {array.shape}: Bins needs one number a datum in each "
                f"field. Give a matrix as one array per column, or use sm.Taylor{more}."
            )
        if not np.all(np.isfinite(array)):
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"data {name} is {array[row]} in row {row}: it is in no bin.")
        if name in (columns or ()):
            continue
        if has_few(array):
            few.append(name)
        elif array.dtype.kind != "f":
            raise ValueError(
                f"data {name} has dtype {array.dtype} and more than {FEW} different values: "
                "neither a group nor a column to cut into bins. Give it as .astype(float), leave "
                "it out of the data, or use sm.Taylor."
            )
    chosen = tuple(n for n in arrays if n not in few) if columns is None else columns
    if len(chosen) > MOST_COLUMNS:
        raise ValueError(
            f"{len(chosen)} columns {chosen}: bins that are narrow in each of them would be too "
            f"many. Bins serves {MOST_COLUMNS}; name the ones that matter in columns=, or use "
            "sm.Taylor, which expands in the parameters."
        )
    return chosen, tuple(few)


def has_few(array: np.ndarray) -> bool:
    """Has it so few values that each may have bins of its own."""
    return len(np.unique(array[:GLANCE])) <= FEW and len(np.unique(array)) <= FEW


# --------------------------------------------------------------------- does a datum stand alone
def check_alone(model) -> None:
    """Refuse a likelihood that depends on more than the row's own numbers, by a sample."""
    rng = np.random.default_rng(0)  # the same sample every time
    rows = np.unique(rng.integers(model.size, size=CHECKED))
    # The same numbers at other indices, in data of another length.
    moved = np.append(rows[-1], rows[::-1])
    copied = [v[moved] if np.ndim(v) else v for v in model.data]
    small = type(model.data)(*copied)
    for state in states_near(model, rng):
        there = values_of(model, state, model.data, rows)
        here = values_of(model, state, small, np.arange(len(rows), 0, -1))
        for i in np.flatnonzero((there != here) & ~(np.isnan(there) & np.isnan(here))):
            raise ValueError(
                f"log_likelihood is {there[i]:.6g} at datum {rows[i]}, and {here[i]:.6g} where the "
                f"same numbers stand in row {len(rows) - i} of other data: it depends on n "
                "itself, on other rows or on their number. Bins needs a likelihood that reads "
                f"data.y[n] and the like; use sm.Taylor{hint(model)}."
            )


def values_of(model, state, data, rows) -> np.ndarray:
    """The log likelihood, uncompiled; inf where it reads outside the data."""
    found = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        for i, n in enumerate(rows):
            try:
                made = () if model.prepare is None else (model.prepare(state, data),)
                found[i] = float(model.log_likelihood(state, data, int(n), *made))
            except IndexError:
                found[i] = np.inf
            except (ArithmeticError, ValueError):  # compiled code returns nan
                continue
    return found


def states_near(model, rng):
    """The initial state, where terms may vanish, and two others."""
    for shift in (0.0, 0.5, 0.5):
        ints, floats = model.ints.copy(), model.floats.copy()
        for variable in model.variables.values() if shift else ():
            block, kind = variable.block, variable.constraint
            part = slice(block.start, block.start + block.length)
            if block.discrete:
                ints[part] = rng.integers(variable.support, size=block.length)
                continue
            x = floats[part]
            room = np.minimum(np.minimum(x - kind.low, kind.high - x), 1.0 + np.abs(x))
            x += shift * room * rng.uniform(-1.0, 1.0, block.length)
            kind.pulled(x)
        yield model.state(ints, floats)


# ------------------------------------------------------------------------- what log_factor reads
def factors(model, etas: np.ndarray, data, rows) -> np.ndarray:
    """log_factor of rows at given predictors, uncompiled; inf where it reads outside the data."""
    call = plain(model.predictors.log_factor, "log_factor", "log_factor(eta, data, n)")
    found = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        for i, n in enumerate(rows):
            eta = float(etas[i, 0]) if etas.shape[1] == 1 else tuple(map(float, etas[i]))
            try:
                found[i] = float(call(eta, data, int(n)))
            except IndexError:
                found[i] = np.inf
            except (ArithmeticError, ValueError):  # compiled code returns nan
                continue
    return found


def fields_read(model, columns, point: np.ndarray) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns to cut, groups) among the fields that log_factor reads, by a sample; or an error."""
    arrays, rng = arrays_of(model, columns), np.random.default_rng(0)
    rows = np.unique(rng.integers(model.size, size=CHECKED))
    call = plain(model.predictors.eta, "eta", "eta(state, data, n)")
    state = model.state(np.zeros_like(model.ints), point.copy())
    etas = np.array([call(state, model.data, int(n)) for n in rows], dtype=float)
    etas = etas.reshape(len(rows), -1)[rng.permutation(len(rows))]  # any will do
    there = factors(model, etas, model.data, rows)
    moved = np.append(rows[-1], rows[::-1])  # the same numbers at other indices
    small = {n: v[moved] if np.ndim(v) else v for n, v in model.data._asdict().items()}
    backwards = np.arange(len(rows), 0, -1)

    def changed(data) -> np.ndarray:
        here = factors(model, etas, type(model.data)(**data), backwards)
        return np.flatnonzero((there != here) & ~(np.isnan(there) & np.isnan(here)))

    for i in changed(small):
        raise ValueError(
            f"log_factor at datum {rows[i]} differs from what it is where the same numbers stand "
            f"in row {len(rows) - i} of other data: it depends on n itself, on other rows or on "
            "their number. What looks at other rows belongs into eta; or use sm.Taylor."
        )
    read = {}
    for name, array in arrays.items():
        donors = rng.integers(model.size, size=DONORS)
        if array.ndim == 1 and has_few(array):  # one for each value: some may be rare
            donors = np.unique(array, return_index=True)[1]
        lent = [{**small, name: np.stack([array[donor]] * len(moved))} for donor in donors]
        if name in (columns or ()) or any(len(changed(data)) for data in lent):
            read[name] = array
    return chosen_of(read, columns)


# ------------------------------------------------------------------------------------------ the cut
GROUPS = 4096
MANY = 2  # times as many bins as were asked for, up to which each value of a column has its own
PIECE = 1 << 18  # rows that are added up at a time
NARROW = 0.25  # of a bin's standard deviation: the least step
ROUNDING = 1e-12  # of a column's largest value: what varies by less is constant


class Cut(NamedTuple):
    """What is known of the bins; sums are over the rows that are raced."""

    columns: tuple[str, ...]
    bins: np.ndarray  # (N,) the bin of each row
    reference: np.ndarray  # (B, q) its mean
    moments: np.ndarray  # (B, m) sums of 1, d_k and d_k d_l, k <= l, with d = y - reference
    inverse: np.ndarray  # (B, q) of the steps; 0 for a column that does not vary
    outliers: np.ndarray  # rows far from their bin's mean
    pseudo: Any  # data of P B rows: the points of all bins, the same one of each bin in a row
    sample: "BinSample"


class BinSample(NamedTuple):
    """A few rows of each bin: how widely its residuals vary, whatever a small batch meets.

    One where a cubic that is 0 at the bin's points is as large as it is on average, and those at
    both ends of each column: a step of the likelihood beyond the points is seen by one of these.
    """

    rows: np.ndarray  # (K B,) of the first kind, one of each bin; then of the next
    shares: np.ndarray  # (B,) of the raced rows that are in the bin
    tame: np.ndarray  # (K, B) mean square of that cubic over its square at the row, 1 at most
    cubic: np.ndarray  # (K, B) the cubic there; 0 where it is one of several columns


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
    sample = sample_of(bins, values, reference, steps, first, keep)
    pseudo = [
        read_only(np.concatenate(made[name])) if name in made else column
        for name, column in zip(model.data._fields, model.data, strict=True)
    ]
    return Cut(
        names, bins, reference, moments, inverse, outliers, type(model.data)(*pseudo), sample
    )  # fmt: skip


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
    """Parts of similar counts by the first column, each of them by the next.

    A column of few values, whole years say, has a bin for each: there nothing is left over.
    """
    if not values:
        yield rows
        return
    rows = rows[np.argsort(values[0][rows], kind="stable")]
    ends = np.flatnonzero(np.diff(values[0][rows])) + 1
    few = len(ends) < MANY * each
    for part in np.split(rows, ends) if few else np.array_split(rows, min(each, len(rows))):
        yield from nested(part, values[1:], each)


def distances(bins, values: list[np.ndarray], centres: np.ndarray) -> np.ndarray:
    """Squared distances of all rows from the middle of their bins."""
    found = np.zeros(len(bins))
    for k, column in enumerate(values):
        unit = unit_of(column) or 1.0
        for first, part in pieces(len(bins)):
            found[part] += ((column[part] - centres[bins[part], k]) / unit) ** 2
    return found


def unit_of(column: np.ndarray) -> float:
    """What distances in a column are measured in; 0 where it is constant, but for rounding.

    One unit for all bins: what is far in a wide bin has large residuals. Not the standard
    deviation, which a few rows of a heavy tail decide.
    """
    low, high = np.quantile(column, (0.16, 0.84))
    unit = 0.5 * float(high - low) or float(np.std(column))
    return unit if unit > ROUNDING * float(np.abs(column).max()) else 0.0


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


def sample_of(bins, values, reference, steps, first, keep) -> BinSample:
    """Raced rows of each bin; of one that has none, its first."""
    count, q = reference.shape

    def cubic(k: int, which, at) -> tuple[np.ndarray, np.ndarray]:
        """(distances in steps, a cubic of these that is 0 at a bin's points), of some rows."""
        own = steps[at, k]
        d = (values[k][which] - reference[at, k]) / np.where(own > 0.0, own, 1.0)
        return d, np.where(own > 0.0, d * (d * d - 1.0), 0.0)

    def pieces_of():
        """(first row, bins, weights, squares of the cubic, distances) of the rows, by pieces."""
        for begin, part in pieces(len(bins)):
            at, square, apart = bins[part], np.zeros(len(bins[part])), []
            for k in range(q):
                d, bend = cubic(k, part, at)
                square += bend**2
                apart.append(d)
            yield begin, at, keep(begin, begin + len(at)), square, apart

    counts, typical = np.zeros(count), np.zeros(count)
    for _, at, weights, square, _ in pieces_of():
        counts += np.bincount(at, weights, count)
        typical += np.bincount(at, weights * square, count)
    typical /= np.maximum(counts, 1.0)
    rows = np.tile(first, (1 + 2 * q, 1))
    found, least = np.zeros(rows.shape), np.full(rows.shape, np.inf)
    for begin, at, weights, square, apart in pieces_of():
        scores = [np.abs(square - typical[at]), *(s * d for d in apart for s in (1.0, -1.0))]
        for k, score in enumerate(scores):
            score = np.where(weights > 0.0, score, np.inf)
            order = np.lexsort((score, at))
            which, place = np.unique(at[order], return_index=True)
            best = order[place]
            better = score[best] < least[k, which]
            which, best = which[better], best[better]
            least[k, which], rows[k, which] = score[best], begin + best
            found[k, which] = square[best]
    tame = np.divide(typical, found, out=np.ones(rows.shape), where=found > typical)
    shares = counts / max(counts.sum(), 1.0)
    numbers = rows.reshape(-1).astype(row_kind(len(bins)))
    alone = cubic(0, rows, np.arange(count))[1] if q == 1 else np.zeros(rows.shape)
    return BinSample(numbers, shares, tame, alone)
