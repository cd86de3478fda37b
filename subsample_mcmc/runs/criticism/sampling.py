"""Which data stand for all, and what they say of a sum over all: sampling with unequal chances.

Data are sampled with chances that rise with what leaving them out may change, which a few draws
tell roughly of all data. So the few that differ most are in the sample, with a weight of their own;
of a simple random sample most have none of them, and neither its sum nor its error knows of them.
(Magnusson, Andersen, Jonasson and Vehtari 2019; order sampling: Rosen 1997.)
"""

from typing import NamedTuple

import numpy as np

ALIKE = 0.5  # share of the sample that all data have the same chance of


class SampleOfData(NamedTuple):
    """A sample of all data."""

    surrogate: np.ndarray  # of all data, what is near their values
    chances: np.ndarray  # of all data, to be in it
    seed: tuple  # of one seed and size, samples for other models are of mostly the same rows


class Total(NamedTuple):
    """A sum over all data, and its errors."""

    value: float
    se: float
    subsampling_se: float


def chances_of(measure: np.ndarray, count: int) -> np.ndarray:
    """The chance of each datum to be in a sample of so many: half alike, half by the measure.

    The sum of chances is the count, and none is above 1.
    """
    if count >= len(measure):
        return np.ones(len(measure))  # else some would be 1 but for rounding
    known = np.where(np.isfinite(measure) & (measure >= 0.0), measure, 0.0)
    most = float(known.max()) or 1.0
    known = np.where(np.isfinite(measure), known, most) / most  # what is no number may be anything
    share = np.full(len(known), 1.0 / len(known))
    if known.sum() > 0.0:
        share = ALIKE * share + (1.0 - ALIKE) * known / known.sum()
    chances = count * share
    while (chances > 1.0).any():  # those are surely in it, and leave their rest to the others
        chances = np.minimum(chances, 1.0)
        free = chances < 1.0
        if not free.any():
            break
        chances[free] *= (count - np.sum(~free)) / chances[free].sum()
    return chances


def sampled(chances: np.ndarray, uniform: np.ndarray, count: int) -> np.ndarray:
    """So many rows, rising, with these chances, by a uniform number of each: Pareto sampling."""
    odds = uniform / (1.0 - uniform)
    order = odds * (1.0 - chances) / chances  # those of a chance of 1 come first
    return np.sort(np.argpartition(order, count - 1)[:count])


def total_of(
    values: np.ndarray, rows: np.ndarray, surrogate: np.ndarray | None, chances: np.ndarray | None
) -> Total:
    """The sum over all data of what is known of some rows: all, or a sample of these chances.

    With a sample, the sum of the surrogate over all data, and of what sampled ones differ from it,
    each over its chance. That is unbiased, and so is the sum of squares that se comes from, the
    error of a sum of N independent values.
    """
    if surrogate is None or chances is None:
        return Total(float(values.sum()), (len(values) * variance(values)) ** 0.5, 0.0)
    size, own_chances = len(surrogate), chances[rows]
    centre = float(surrogate.mean())  # squares of what is far from 0 would lose digits
    own, near, every = values - centre, surrogate[rows] - centre, surrogate - centre
    total = float(every.sum()) + float(np.sum((own - near) / own_chances))
    error = float(np.sum(residuals(own - near, own_chances) ** 2 * (1.0 - own_chances)))
    squares = float(every @ every) + float(np.sum((own**2 - near**2) / own_chances))
    spread = spread_of(squares, total, error, size, own, own_chances)
    return Total(total + size * centre, spread**0.5, error**0.5)


def residuals(apart: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """What each row adds to a sum of N, beside what its like do; of those that may be left out.

    Their squares, times 1 - chance, add up to the squared error of the sum (Rosen 1997).
    """
    weighted, rest = apart / chances, 1.0 - chances
    count = int(np.sum(rest > 0.0))
    if count < 2:
        return weighted
    middle = float(np.sum(rest * weighted) / rest.sum())
    return (count / (count - 1)) ** 0.5 * (weighted - middle)


def spread_of(squares, total, error, size: int, own: np.ndarray, chances: np.ndarray) -> float:
    """The variance of a sum of N independent values, by the sum of squares and the sum."""
    spread = (squares - (total**2 - error) / size) * size / (size - 1)
    if spread > 0.0:
        return float(spread)
    weights = 1.0 / chances  # of a small sample, by chance
    middle = np.average(own, weights=weights)
    return float(size * np.average((own - middle) ** 2, weights=weights))


def variance(values: np.ndarray) -> float:
    """Of the law that values are a sample of; 0 of one."""
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def difference_of(
    values: tuple[np.ndarray, np.ndarray], rows: tuple[np.ndarray, np.ndarray],
    samples: tuple[SampleOfData, SampleOfData],
) -> Total:  # fmt: skip
    """The sum of one model minus that of another, from two samples by the same uniform numbers.

    A row in the one is in the other, too, if its chance is not less there: what both have in
    common is paired, and cancels.
    """
    sums, apart = [], []
    for own, at, sample in zip(values, rows, samples, strict=True):
        sums.append(total_of(own, at, sample.surrogate, sample.chances).value)
        chances = sample.chances[at]
        apart.append(residuals(own - sample.surrogate[at], chances) * chances)
    _, one, two = np.intersect1d(*rows, assume_unique=True, return_indices=True)
    chances = [sample.chances[rows[0][one]] for sample in samples]
    low, high = np.minimum(*chances), np.maximum(*chances)
    error = float(np.sum((apart[0][one] - apart[1][two]) ** 2 * (1.0 / high - 1.0) / low))
    for k in (0, 1):  # rows that are in the one sample with a higher chance than in the other
        own, other = (samples[j].chances[rows[k]] for j in (k, 1 - k))
        less = own < other
        own, other = own[less], other[less]
        error += float(np.sum(apart[k][less] ** 2 * (1.0 / own - 1.0 / other) / own))
    near = samples[0].surrogate - samples[1].surrogate
    centre, size, total = float(near.mean()), len(near), sums[0] - sums[1]
    own = values[0][one] - values[1][two] - centre
    known, near = near[rows[0][one]] - centre, near - centre
    squares = float(near @ near) + float(np.sum((own**2 - known**2) / low))
    spread = spread_of(squares, total - size * centre, error, size, own, low) if len(own) else 0.0
    return Total(total, spread**0.5, error**0.5)
