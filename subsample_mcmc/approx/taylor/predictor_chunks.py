"""Linear predictors of data, and what a likelihood makes of them, by loops that Python calls.

Only the loops themselves know the model; they are called by their addresses.
"""

from itertools import combinations_with_replacement as multisets
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    RecordAddress,
    array,
    call_number,
    call_residuals,
    pointer_to,
)
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.dyadic import BLOCK
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.rewards import example_context

GIVEN = -1  # in the place of an arm: predictors stand in the source already


def reader_of(eta, count: int) -> Any:
    """look(state, data, rows, out): the predictors of a mini-batch."""
    single = count == 1

    @jit(flags=FLAGS, disjoint=True, inner=True)
    def look(state, data, rows, out):
        for i in range(np.uint64(len(rows))):
            e = eta(state, data, np.int64(rows[i]) & MASK)
            if single:
                out[0, i] = e
            else:
                for k in range(count):
                    out[k, i] = e[k]

    return look


# ------------------------------------------------------------------------------------ residuals
class LinearSource(NamedTuple):
    """What residuals of predictors are computed with."""

    reference: Any  # a state: the reference point, with the discrete values of the arm in hand
    widths: np.ndarray
    here: np.ndarray  # (p, CHUNK) predictors of a mini-batch, at the arm ...
    there: np.ndarray  # ... and at the reference


def source_of(model, ints, floats, widths, rows: int = CHUNK) -> LinearSource:
    """With room for some rows."""
    here, there = np.zeros((2, model.predictors.count(model), rows))
    return LinearSource(model.state(ints, floats), widths, here, there)


class Residuals(NamedTuple):
    """Residuals of predictors that stand in a source."""

    read: Any  # (context, source, arm, rows, out)
    context: Any
    source: Any
    row: Any  # a number of the type that rows have


def residuals_of(model, read, source: LinearSource) -> Any:
    """For `read_given`."""
    row = row_kind(model.size)
    about, own = RecordAddress(example_context(model)), RecordAddress(source)
    function = FunctionAddress(read, about, own, NUMBER, array(row), FLOATS)
    return pointer_to(Residuals(function, about, own, row(0)))


@jit
def read_given(residuals, rows, out):
    """Write the residuals of some rows whose predictors stand in the source."""
    call_residuals(
        residuals.read, residuals.context, residuals.source, residuals.row, GIVEN, rows, out
    )


# ---------------------------------------------------------------------------------------- chunks
class PredictorChunkContext(NamedTuple):
    """Rows in a row, and room for what is read of them."""

    state: Any
    data: Any
    widths: np.ndarray
    e: np.ndarray  # (rows, p) predictors
    f: np.ndarray  # (rows, derivatives); empty: only the predictors are asked for
    v: np.ndarray  # (rows,) values of the log factor
    r: np.ndarray  # (rows,) bounds of the remainder ...
    order: int  # ... of an expansion of this order


class PredictorChunk(NamedTuple):
    """The same, and what fills it."""

    read: Any  # (context, first)
    context: Any


def chunk_of(read, context: Any) -> Any:
    """For `read_chunk`."""
    about = RecordAddress(context)
    return pointer_to(PredictorChunk(FunctionAddress(read, about, NUMBER), about))


@jit
def read_chunk(chunk, first):
    """Fill a chunk, which starts at a row."""
    call_number(chunk.read, chunk.context, first)


@jit(inner="always")
def no_bound(e, data, n):
    """For likelihoods whose remainders are not known."""
    return 0.0, 0.0


def chunk_reader(eta, of_eta, expand, remainder, count: int) -> Any:
    """read(context, first): predictors, derivatives, values, remainders of the rows from there."""
    bounded, single = remainder is not None, count == 1
    bound = jit(remainder, flags=FLAGS, user=True, inner="always") if bounded else no_bound

    @jit(inner="entry", user=True)
    def read(context, first):
        state, data, e, f = context.state, context.data, context.e, context.f
        v, r, widths, cubic = context.v, context.r, context.widths, context.order > 2
        for i in range(len(e)):
            n = (first + i) & MASK
            found = eta(state, data, n)
            if single:
                e[i, 0] = found
            else:
                for k in range(count):
                    e[i, k] = found[k]
            if len(f) == 0:
                continue
            partial = expand(found, data, n, widths)
            for k in range(f.shape[1]):
                f[i, k] = partial[k]
            v[i] = of_eta(found, data, n)
            if bounded:
                third, fourth = bound(found, data, n)
                r[i] = fourth if cubic else third
        return 0.0

    return read


class ReadRows(NamedTuple):
    """What is read of the rows of a few blocks."""

    block: int  # which block comes first
    first: int  # and its first row
    weights: np.ndarray
    x: np.ndarray  # (predictors, rows, d)
    e: np.ndarray  # (rows, predictors)
    f: np.ndarray  # (rows, derivatives)
    v: np.ndarray  # (rows,) log factors
    r: np.ndarray  # (rows,) bounds of the remainder


class Keep:
    """Weights of rows: 1, or 0 for those that every decision reads; or the other way round.

    first: which of all rows is the first of those that are asked for.
    """

    def __init__(self, outliers: np.ndarray, others: bool = True, first: int = 0):
        self.outliers, self.others, self.first = outliers, others, first

    def __call__(self, first: int, last: int) -> np.ndarray:
        weights = np.full(last - first, float(self.others))
        begin, past = first + self.first, last + self.first
        low, high = np.searchsorted(self.outliers, (begin, past))
        weights[self.outliers[low:high] - begin] = float(not self.others)
        return weights


def every(first: int, last: int) -> np.ndarray:
    """Weights of rows that are all read."""
    return np.ones(last - first)


# -------------------------------------------------------------------------- moments of predictors
class Places(NamedTuple):
    """Where a partial derivative stands in the tuple that `derivatives` returns."""

    second: np.ndarray  # (p, p)
    third: np.ndarray  # (p, p, p)
    used: int  # how many there are


def places(count: int, order: int) -> Places:
    """First derivatives stand in the order of the predictors, then second and third ones."""
    second, third = np.zeros((count,) * 2, dtype=np.int64), np.zeros((count,) * 3, dtype=np.int64)
    at = count
    for k, l in multisets(range(count), 2):
        second[k, l] = second[l, k] = at
        at += 1
    for part in multisets(range(count), 3) if order > 2 else ():
        for k, l, m in permutations(part):
            third[k, l, m] = at
        at += 1
    return Places(second, third, at)


def permutations(part) -> set:
    """All orders of three indices."""
    k, l, m = part
    return {(k, l, m), (k, m, l), (l, k, m), (l, m, k), (m, k, l), (m, l, k)}


@jit(flags=FLAGS, inner=True)
def fill_pairs(where, x, f, i, k, pairs):
    """Write sum_lm f_klm X_l X_m of a row, as pairs."""
    count, d = len(x), np.uint64(x.shape[2])
    for q in range(np.uint64(len(pairs))):
        pairs[q] = 0.0
    for l in range(count):
        for m in range(count):
            value, q = f[i, where.third[k, l, m]], np.uint64(0)
            for b in range(d):
                both = 2.0 * value * x[l, i, b]
                for c in range(np.uint64(b)):
                    pairs[q + c] += both * x[m, i, c]
                q += b
                pairs[q] += 0.5 * both * x[m, i, b]
                q += np.uint64(1)


@jit(flags=FLAGS)
def add_moments(where, weights, values, x, f, sums, row, pairs):
    """Add sum_n v_n, f_n X_n, f_n X_n X_n' and f_n X_n X_n X_n of the rows of a chunk, by block.

    sums: (blocks, numbers), one sum after the other; see `apart`. Of the last, the last two indices
    stand as pairs b >= c, those of unlike coordinates twice.
    """
    count, d = len(x), np.uint64(len(row))
    for block in range(len(sums)):
        s1, s2 = sums[block, 1 : 1 + d], sums[block, 1 + d : 1 + d + d * d]
        s3 = sums[block, 1 + d + d * d :]
        for i in range(block * BLOCK, min(block * BLOCK + BLOCK, len(weights))):
            if weights[i] == 0.0:
                continue
            sums[block, 0] += values[i]
            for k in range(count):
                for b in range(d):
                    s1[b] += f[i, k] * x[k, i, b]
                    row[b] = 0.0
                for l in range(count):
                    value = f[i, where.second[k, l]]
                    for b in range(d):
                        row[b] += value * x[l, i, b]
                for a in range(d):
                    value, at = x[k, i, a], a * d
                    for b in range(d):
                        s2[at + b] += value * row[b]
                if len(pairs):
                    fill_pairs(where, x, f, i, k, pairs)
                    for a in range(d):
                        value, at = x[k, i, a], a * np.uint64(len(pairs))
                        for q in range(np.uint64(len(pairs))):
                            s3[at + q] += value * pairs[q]


def numbers_of(d: int, cubic: bool) -> int:
    """How many numbers sums of so many coordinates have, one block's in a row."""
    return 1 + d + d * d + cubic * d * (d * (d + 1) // 2)


def apart(sums: np.ndarray, d: int, room: int) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """(s0, s1, s2, s3) for `room` coordinates, of which the first d stand in the sums."""
    cubic = len(sums) > 1 + d + d * d
    one, two = np.zeros(room), np.zeros((room, room))
    three = np.zeros((room, cubic * (room * (room + 1) // 2)))
    one[:d] = sums[1 : 1 + d]
    two[:d, :d] = sums[1 + d : 1 + d + d * d].reshape(d, d)
    if cubic:
        three[:d, : d * (d + 1) // 2] = sums[1 + d + d * d :].reshape(d, -1)
    return float(sums[0]), one, two, three


@jit(flags=FLAGS)
def fill_lengths(x, inverse, out):
    """Write |X_n B^-1| (Frobenius) of every row: how far eta_n moves at distance 1, at most."""
    d = np.uint64(len(inverse))
    for i in range(len(out)):
        total = 0.0
        for k in range(len(x)):
            for b in range(d):
                value = 0.0
                for a in range(d):
                    value += x[k, i, a] * inverse[b, a]
                total += value * value
        out[i] = total**0.5
