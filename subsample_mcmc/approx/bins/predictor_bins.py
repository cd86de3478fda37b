"""What bins by columns and predictors do at work: sums of h at any parameters, and residuals."""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.bins.cut import BinSample
from subsample_mcmc.approx.bins.predictor_cut import PredictorBinning, PredictorCut
from subsample_mcmc.approx.bins.quadratics import (
    copy_table,
    interpolate,
    note,
    product,
    spread_of,
    stands,
    subtractor,
    take_over,
)
from subsample_mcmc.approx.control import Bound, ControlFunctions, read_residuals
from subsample_mcmc.approx.taylor.polynomial import table_of
from subsample_mcmc.approx.taylor.predictor_chunks import reader_of
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import call_both
from subsample_mcmc.numerics.rows import CHUNK
from subsample_mcmc.target.exact_sums import MASK, entry
from subsample_mcmc.target.rewards import place


class Near(NamedTuple):
    """The arrays of one chain."""

    cut: PredictorCut
    coefficients: np.ndarray  # (arms, B, m) of h
    reference: np.ndarray  # (arms, B, q) the bins' means, predictors at the arm's parameters
    sums: np.ndarray  # (arms,) the sum of h
    known: np.ndarray  # (arms,) 1: these are of the state in the next two
    ints: np.ndarray  # (arms, ...)
    floats: np.ndarray
    tables: np.ndarray  # (arms,) the configuration
    moments: np.ndarray  # (B, m) at the parameters of the arm in hand
    weights: np.ndarray  # (A,) those parameters, and one
    pairs: np.ndarray  # (M,) their products
    etas: np.ndarray  # (p, P B) the predictors at the points of all bins
    values: np.ndarray  # (P, B) the log likelihoods there
    flat: np.ndarray  # (P B,) the same
    here: np.ndarray  # (p, CHUNK) the predictors of a mini-batch
    where: np.ndarray  # (CHUNK,) its bins
    steps: np.ndarray  # (q, CHUNK) how far it lies from their means
    sample: BinSample  # of the first configuration's bins
    left: np.ndarray  # (arms, K B) the residuals of its rows
    sampled: np.ndarray  # (arms,) 1: these are of the arm's state


class NearSource(NamedTuple):
    """What log likelihoods at the points of all bins are computed with."""

    data: Any  # those points
    near: Near


def make_near(model, made: PredictorBinning, arms: int) -> Bound:
    """Arrays of one chain over what all share."""
    cut = made.cut
    _, count, m = cut.moments.shape
    points, q = cut.points.shape
    p, values = cut.fixed.shape[1], np.zeros((points, count))
    near = Near(
        cut, np.zeros((arms, count, m)), np.zeros((arms, count, q)), np.zeros(arms),
        np.zeros(arms, dtype=np.int64), np.zeros((arms, len(model.ints)), dtype=np.int64),
        np.zeros((arms, len(model.floats))), np.zeros(arms, dtype=np.int64), np.zeros((count, m)),
        np.zeros(cut.centres.shape[2]), np.zeros(cut.second.shape[2]),
        np.zeros((p, values.size)), values, values.reshape(-1), np.zeros((p, CHUNK)),
        np.zeros(CHUNK, dtype=np.int64), np.zeros((q, CHUNK)),
        made.sample, np.zeros((arms, len(made.sample.rows))), np.zeros(arms, dtype=np.int64),
    )  # fmt: skip
    return Bound(near, NearSource(made.pseudo, near))


# ------------------------------------------------------------------------------- parameters
@jit(inner=True)
def fill_weights(cut, table, floats, weights, pairs):
    """Parameters with a part that varies over rows, and products of them as in cut.second."""
    at = 0
    for j in range(cut.counts.shape[1]):
        for i in range(cut.counts[table, j]):
            where = cut.active[table, j, i]
            weights[at] = floats[where - 1] if where > 0 else 1.0
            at += 1
    at, first = np.uint64(0), np.uint64(0)
    for j in range(cut.counts.shape[1]):
        middle, second = first + np.uint64(cut.counts[table, j]), first
        for k in range(j, cut.counts.shape[1]):
            last = second + np.uint64(cut.counts[table, k])
            for i in range(first, middle):
                for l in range(i if j == k else second, last):
                    pairs[at] = weights[i] * weights[l]
                    at += np.uint64(1)
            second = last
        first = middle


@jit(inner=True)
def common(cut, table, k, floats):
    """The part of a predictor that is the same for all rows."""
    value = cut.fixed[table, k, 0]
    for j in range(cut.used[table]):
        value += cut.fixed[table, k, 1 + j] * floats[j]
    return value


# ----------------------------------------------------------------------------------- all bins
@jit(flags=FLAGS, disjoint=True, inner=True)
def add_products(matrix, first, vector, start, out, column):
    """Write start + matrix[:, first:] @ vector into a column: two rows at once, a quarter less."""
    last, most = first + len(vector), len(out) - 1
    for b in range(0, len(out), 2):
        one, two = matrix[b, first:last], matrix[min(b + 1, most), first:last]
        value, other = start, start
        for i in range(np.uint64(len(vector))):
            value += one[i] * vector[i]
            other += two[i] * vector[i]
        out[b, column], out[min(b + 1, most), column] = value, other


@jit(flags=FLAGS, disjoint=True, inner=True)
def spread_out(reference, steps, points, column, out):
    """Write a predictor at the points of all bins."""
    count = np.uint64(len(reference))
    for p in range(np.uint64(len(points))):
        far = points[p, column]
        for b in range(count):
            out[p * count + b] = reference[b, column] + far * steps[b, column]


@jit(inner=True)
def predict(own, table, floats, reference):
    """Write the predictors' means in all bins, and what they are at the bins' points."""
    cut, c, first = own.cut, own.cut.reference.shape[2], 0
    for b in range(len(reference)):
        for k in range(c):
            reference[b, k] = cut.reference[table, b, k]
    for k in range(len(cut.places)):
        base, j, out = common(cut, table, k, floats), cut.places[k], own.etas[k]
        if j < 0:
            for i in range(np.uint64(len(out))):
                out[i] = base
        else:
            last = first + cut.counts[table, j]
            weights = own.weights[first:last]
            add_products(cut.centres[table], first, weights, base, reference, c + j)
            spread_out(reference, cut.steps[table], cut.points, c + j, out)
            first = last


@jit(inner=True)
def fill_moments(own, table):
    """Write the moments of all bins at the parameters in hand, in the order of coefficients."""
    cut, moments, counts = own.cut, own.moments, own.cut.counts[table]
    c, q = cut.reference.shape[2], cut.reference.shape[2] + len(counts)
    copy_table(cut.moments[table], moments)
    at, pair, width = 1 + q, 0, 0
    for j in range(len(counts)):
        width += counts[j]
        for b in range(len(moments)):
            moments[b, 1 + c + j] = 0.0  # around the mean
    for k in range(q):
        first = 0
        for l in range(k, q):
            if k < c <= l:
                last = first + counts[l - c]
                weights = own.weights[first:last]
                add_products(cut.cross[table], k * width + first, weights, 0.0, moments, at)
                first = last
            elif k >= c:
                many, other = counts[k - c], counts[l - c]
                size = many * (many + 1) // 2 if k == l else many * other
                products = own.pairs[pair : pair + size]
                add_products(cut.second[table], pair, products, 0.0, moments, at)
                pair += size
            at += 1


@jit(flags=FLAGS, inner=True)
def find_bins(data, own, table, reference, rows):
    """Write the bins of a mini-batch. Bare loads: their cache misses do not wait for each other."""
    bins = own.cut.bins[table]
    for i in range(np.uint64(len(rows))):
        own.where[i] = bins[np.uint64(rows[i])]


def with_column(before, field: int, k: int):
    """A reader of mini-batches that also takes one more column."""

    @jit(flags=FLAGS, inner=True)
    def read(data, own, table, reference, rows):
        before(data, own, table, reference, rows)
        column = data[field]
        for i in range(np.uint64(len(rows))):
            own.steps[k, i] = column[np.uint64(rows[i])] - reference[np.uint64(own.where[i]), k]

    return read


def with_predictors(before):
    """A reader of mini-batches that also takes the predictors."""

    @jit(flags=FLAGS, inner=True)
    def read(data, own, table, reference, rows):
        before(data, own, table, reference, rows)
        c = own.cut.reference.shape[2]
        for k in range(len(own.cut.places)):
            j = own.cut.places[k]
            if j >= 0:
                steps, here = own.steps[c + j], own.here[k]
                for i in range(np.uint64(len(rows))):
                    steps[i] = here[i] - reference[np.uint64(own.where[i]), c + j]

    return read


@jit(inner=True)
def near_residuals(trial, arm, rows, out):
    """l - h of a mini-batch."""
    place(trial, arm)
    read_residuals(trial, arm, rows, out)


@jit(inner=True)
def near_sum(trial, arm):
    """The sum of h over all rows, at the arm that stands in the state."""
    own, other = trial.control.arrays, 1 - arm
    if stands(own, trial, arm):  # it was rejected, or did not move
        return own.sums[arm]
    mine, reference = own.coefficients[arm], own.reference[arm]
    if len(own.sums) == 2 and stands(own, trial, other):  # it was accepted
        copy_table(own.coefficients[other], mine)
        copy_table(own.reference[other], reference)
        own.tables[arm], own.sums[arm] = own.tables[other], own.sums[other]
        note(own, trial, arm)
        take_over(own, arm, other)
    else:
        cut, table = own.cut, table_of(own.cut, trial.ints)
        fill_weights(cut, table, trial.floats, own.weights, own.pairs)
        predict(own, table, trial.floats, reference)
        control, first = trial.control, table * len(own.flat)
        call_both(control.adder, trial.calls.context, control.source, first)
        interpolate(own.values, cut.inverse[table], mine)
        fill_moments(own, table)
        own.tables[arm], own.sums[arm] = table, product(mine, own.moments)
        note(own, trial, arm)
    return own.sums[arm]


near_spread = spread_of(near_residuals)


def predictor_functions(given, made: PredictorBinning) -> ControlFunctions:
    """The compiled half for one model's predictors."""
    p, q = made.cut.fixed.shape[1], made.cut.points.shape[1]
    log_factor = jit(given.log_factor, flags=FLAGS, user=True, inner="always")
    look = reader_of(jit(given.eta, flags=FLAGS, user=True, inner="always"), p)
    of, subtract, read = entry(p), subtractor(q), find_bins
    for k, field in enumerate(made.columns):
        read = with_column(read, field, k)
    read = with_predictors(read)

    @jit(flags=FLAGS, disjoint=True, inner=True)
    def gather(data, etas, rows, out):
        for i in range(np.uint64(len(rows))):
            out[i] = log_factor(of(etas, i), data, np.int64(rows[i]) & MASK)

    @jit(flags=FLAGS, disjoint=True, inner=True)
    def stream(data, etas, first, out):
        for i in range(np.uint64(len(out))):
            out[i] = log_factor(of(etas, i), data, np.int64(np.uint64(first) + i) & MASK)

    @jit(inner="entry")
    def reader(context, source, arm, rows, out):
        own = source.near
        look(context.state, context.data, rows, own.here)
        gather(context.data, own.here, rows, out)
        read(context.data, own, own.tables[arm], own.reference[arm], rows)
        subtract(own, own.coefficients[arm], out)
        return 0.0

    @jit(inner="entry")
    def adder(context, source, first):
        stream(source.data, source.near.etas, first, source.near.flat)
        return 0.0

    return ControlFunctions(
        near_sum, near_residuals, spread=near_spread, reader=reader, adder=adder
    )
