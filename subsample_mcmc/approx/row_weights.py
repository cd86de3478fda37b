"""Rows by weight: alias tables on the bounds of residuals, and points of a process drawn by them.

Rows that a control variate names as outliers have a table of their own: their bounds may be most of
the sum, and then they are read instead.
"""

from math import log
from typing import NamedTuple

import numpy as np

from subsample_mcmc.decisions.thinned import RowWeights
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import draw, row_kind, uniform

LARGEST = 1e38  # of bounds: they are kept in single precision
UNKNOWN = 1e200  # nats that no bound of a sum comes to where one is known


# ------------------------------------------------------------------------------------- the tables
@jit
def fill_alias(weights, keep, other, small, large):
    """Vose's algorithm (1991): rows below the mean are filled up by rows above it."""
    n, mean, last = len(weights), 0.0, -1
    for i in range(n):
        mean += weights[i] / n
    few = many = 0
    for i in range(n):
        keep[i], other[i] = weights[i] / mean, i
        if keep[i] < 1.0:
            small[few] = i
            few += 1
        else:
            large[many] = i
            many += 1
    while few > 0 and many > 0:
        few -= 1
        i, j = small[few], large[many - 1]
        other[i] = last = j
        keep[j] -= 1.0 - keep[i]
        if keep[j] < 1.0:
            many -= 1
            small[few] = j
            few += 1
    for k in range(few):  # but for rounding they are 1; never a row without weight
        other[small[k]] = last if last >= 0 else small[k]
    for k in range(many):
        keep[large[k]] = 1.0


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(keep, other) of weights that are not all zero."""
    weights = weights.astype(float)  # plain Python would add single precision up in it
    kind = row_kind(len(weights))
    keep, other = np.zeros(len(weights)), np.zeros(len(weights), dtype=kind)
    small, large = np.zeros((2, len(weights)), dtype=kind)
    fill_alias(weights, keep, other, small, large)
    return keep, other


def rounded_up(values: np.ndarray) -> np.ndarray:
    """In single precision, none of them smaller."""
    found = values.astype(np.float32)
    return np.where(found < values, np.nextafter(found, np.float32(np.inf)), found)


def row_weights(
    bounds: list[np.ndarray], outliers: np.ndarray, raced: np.ndarray, whole: np.ndarray,
    shares: np.ndarray,
) -> RowWeights:  # fmt: skip
    """From bounds of each row's residual, by configuration.

    raced, whole: what the bounds of all rows but the outliers, and of all, add up to.
    """
    count, size, few = len(bounds), len(bounds[0]), len(outliers)
    kind = row_kind(size)
    kept, units, totals = np.zeros((count, size), dtype=np.float32), *np.zeros((2, count, 2))
    keep, other = np.ones(kept.shape), np.zeros(kept.shape, dtype=kind)
    rare_keep, rare_other = np.ones((count, few)), np.zeros((count, few), dtype=row_kind(few + 1))
    for k, own in enumerate(bounds):
        wrong = np.flatnonzero(~(own < LARGEST))
        if len(wrong):
            raise ValueError(
                f"the bound of datum {wrong[0]}'s residual is {own[wrong[0]]}: remainder must be a "
                "number at every datum."
            )
        kept[k] = rounded_up(own)
        usual, rare = kept[k].copy(), kept[k][outliers]
        usual[outliers] = 0.0
        for at, some, sums in ((0, usual, raced), (1, rare, whole)):
            if sums[k] > 0.0:
                units[k, at], totals[k, at] = 1.0 / sums[k], some.sum(dtype=float) / sums[k]
        if totals[k, 0] > 0.0:
            keep[k], other[k] = alias_table(usual)
        if totals[k, 1] > 0.0:
            rare_keep[k], rare_other[k] = alias_table(rare)
    numbers = np.asarray(outliers).astype(kind)
    return RowWeights(
        kept, keep, other, numbers, rare_keep, rare_other, units, totals, np.asarray(shares)
    )


# ------------------------------------------------------------------------------------- the points
class Rates(NamedTuple):
    """Of a Poisson process whose points are rows, for one pair of states, or one state."""

    table: int
    usual: float  # points of all rows but the outliers: the sum of their bounds
    rare: float  # of the outliers; 0 where they are read instead
    unit: float  # of a row's bound, among the first ...
    rare_unit: float  # ... and the second


@jit(inner="always")
def rates_of(weights, raced, whole, table):
    """raced, whole: bounds of the sums of all residuals but the outliers', and of all.

    Beyond UNKNOWN they say nothing, and may not be shared out: no row has a bound there, not even
    one whose residual is nothing where bounds hold.
    """
    if not (raced < UNKNOWN and whole < UNKNOWN):
        return Rates(table, np.inf, 0.0, np.inf, np.inf)
    rare = 0.0
    if weights.totals[table, 1] > 0.0:
        rare = whole * weights.totals[table, 1]
    units = weights.units[table]
    return Rates(table, raced * weights.totals[table, 0], rare, raced * units[0], whole * units[1])


@jit(inner="always")
def without_rare(rates):
    """Those of the rows that are left where outliers are read."""
    return Rates(rates.table, rates.usual, 0.0, rates.unit, rates.rare_unit)


@jit(inner=True)
def draw_row(stream, keep, other):
    """A row, by its weight."""
    n = draw(stream, len(keep))
    return n if uniform(stream) < keep[n] else np.int64(other[n])


@jit(inner=True)
def draw_point(stream, weights, rates):
    """(a row, the bound of its residual)."""
    table = rates.table
    if rates.rare > 0.0 and uniform(stream) * (rates.usual + rates.rare) > rates.usual:
        at = draw_row(stream, weights.rare_keep[table], weights.rare_other[table])
        n = np.int64(weights.outliers[at])
        return n, rates.rare_unit * weights.bounds[table, n]
    n = draw_row(stream, weights.keep[table], weights.other[table])
    return n, rates.unit * weights.bounds[table, n]


@jit(inner=True)
def draw_points(stream, weights, rates, time, end, rows, limits):
    """Points after a time and before the end, as many as there is room for; (the time, how many).

    Less than there is room for: there are no more.
    """
    for count in range(len(rows)):
        time -= log(uniform(stream))
        if time > end:
            return time, count
        rows[count], limits[count] = draw_point(stream, weights, rates)
    return time, len(rows)
