"""What sm.Predictors say of a block of rows: predictors, derivatives, values, bounds and slopes.

Slopes X_n are differences of the predictors, which are affine. Each is a loop of its own over the
rows, column by column: these vectorise. What is read of a block depends on its rows alone, so that
sums do not depend on where the rows lie. Only `block_reader` knows the model; what it makes is
called by its address.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.passes.roundings import roundings_of_block
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import call_number
from subsample_mcmc.target.exact_sums import MASK, entry


class PredictorRows(NamedTuple):
    """What is read of a block of rows: a column for each; beyond the last row all is 0."""

    x: np.ndarray  # (p, d, BLOCK) slopes of the predictors; none: not asked for, as below
    f: np.ndarray  # (derivatives, BLOCK) of the log factor by them
    v: np.ndarray  # (BLOCK,) log factors
    r: np.ndarray  # (BLOCK,) bounds of the remainder
    sizes: np.ndarray  # (3, BLOCK) what derivatives round by; or none, as above


class PredictorBlock(NamedTuple):
    """A block of rows, and room for what is read of them."""

    state: Any
    data: Any
    floats: np.ndarray  # where the state has its continuous values ...
    steps: np.ndarray  # ... and how far each is moved: powers of two, by which is divided exactly
    widths: np.ndarray
    e: np.ndarray  # (p, rows) predictors ...
    moved: np.ndarray  # ... and where a value was moved
    order: int  # of the expansion
    rows: PredictorRows


@jit(inner="always")
def no_bound(e, data, n):
    """For likelihoods whose remainders are not known."""
    return 0.0, 0.0


@jit(inner="always")
def no_sizes(e, data, n):
    """For likelihoods of which nobody says by what they round."""
    return 0.0, 0.0, 0.0


UNROLLED = 9  # derivatives of two predictors: of more, loops do not vectorise anyway


def store_of(count: int) -> Any:
    """store(f, i, partial): writes the first derivatives of a tuple into column i."""

    @jit(inner="always")
    def store_one(f, i, partial):
        f[0, i] = partial[0]

    @jit(inner="always")
    def store_many(f, i, partial):
        for k in range(len(f)):
            f[k, i] = partial[k]

    def with_next(before, k):
        @jit(inner="always")
        def store_more(f, i, partial):
            before(f, i, partial)
            f[k, i] = partial[k]

        return store_more

    if count > UNROLLED:
        return store_many
    store = store_one
    for k in range(1, count):
        store = with_next(store, k)
    return store


def block_reader(predictors, eta, of_eta, expand, count: int, used: int) -> Any:
    """read(context, first): predictors, derivatives, values, bounds, slopes of a block of rows.

    In loops of their own, over columns: these vectorise. used: how many derivatives are stored.
    """
    remainder, of, store = predictors.remainder, entry(count), store_of(used)
    bound = no_bound
    if remainder is not None:
        bound = jit(remainder, flags=FLAGS, user=True, inner="always")
    told = no_sizes
    if predictors.sizes is not None:
        told = jit(predictors.sizes, flags=FLAGS, user=True, inner="always")
    look = looker_of(eta, predictors.etas, count)

    @jit(flags=FLAGS, disjoint=True, inner=True, user=True)
    def derive(data, first, widths, e, f):
        for i in range(np.uint64(e.shape[1])):
            store(f, i, expand(of(e, i), data, np.int64(np.uint64(first) + i) & MASK, widths))

    @jit(flags=FLAGS, disjoint=True, inner=True, user=True)
    def value(data, first, e, v):
        for i in range(np.uint64(e.shape[1])):
            v[i] = of_eta(of(e, i), data, np.int64(np.uint64(first) + i) & MASK)

    @jit(flags=FLAGS, disjoint=True, inner=True, user=True)
    def bounds(data, first, cubic, e, r):
        for i in range(np.uint64(e.shape[1])):
            third, fourth = bound(of(e, i), data, np.int64(np.uint64(first) + i) & MASK)
            r[i] = fourth if cubic else third

    @jit(flags=FLAGS, disjoint=True, inner=True, user=True)
    def tell(data, first, e, sizes):
        for i in range(np.uint64(e.shape[1])):
            a, b, c = told(of(e, i), data, np.int64(np.uint64(first) + i) & MASK)
            sizes[0, i], sizes[1, i], sizes[2, i] = a, b, c

    @jit(inner="entry", user=True)
    def read(context, first):
        state, data, e, moved = context.state, context.data, context.e, context.moved
        floats, x = context.floats, context.rows.x
        look(state, data, first & MASK, e)
        if len(context.rows.f) > 0:
            derive(data, first, context.widths, e, context.rows.f)
        if len(context.rows.v) > 0:
            value(data, first, e, context.rows.v)
        if len(context.rows.r) > 0:
            bounds(data, first, context.order > 2, e, context.rows.r)
        if len(context.rows.sizes) > 0:
            tell(data, first, e, context.rows.sizes)
        for j in range(x.shape[1]):
            here, step = floats[j], context.steps[j]
            floats[j] = here + step
            look(state, data, first & MASK, moved)
            floats[j] = here
            for k in range(len(x)):
                fill_slopes(moved[k], e[k], 1.0 / step, x[k, j])
        return 0.0

    return read


def looker_of(eta, etas, count: int) -> Any:
    """look(state, data, first, out): the predictors of consecutive rows."""
    if etas is not None:
        return jit(etas, flags=FLAGS, disjoint=True, user=True, inner=True)
    single = count == 1

    @jit(flags=FLAGS, disjoint=True, inner=True, user=True)
    def look(state, data, first, out):
        for i in range(np.uint64(out.shape[1])):
            found = eta(state, data, np.int64(np.uint64(first) + i) & MASK)
            if single:
                out[0, i] = found
            else:
                for k in range(len(out)):
                    out[k, i] = found[k]

    return look


@jit(disjoint=True, inner=True)
def fill_slopes(there, here, factor, out):
    """Write by how much predictors were moved, times a factor."""
    for i in range(np.uint64(len(here))):
        out[i] = (there[i] - here[i]) * factor


class ReadRows(NamedTuple):
    """What is read of the rows of a few blocks."""

    block: int  # which block comes first
    first: int  # and its first row
    weights: np.ndarray
    e: np.ndarray  # (predictors, rows)
    lengths: np.ndarray  # (predictors, rows) how far each moves at distance 1, at most ...
    rho: np.ndarray  # (rows,) ... and all of them
    v: np.ndarray  # (rows,) log factors
    r: np.ndarray  # (rows,) bounds of the remainder
    off: np.ndarray  # (blocks, 3) by what sums may be off through rounding; or none


@jit(flags=FLAGS, disjoint=True, inner=True)
def add_squares(x, inverse, t, out):
    """Write |X_n B^-1|^2 of one predictor, for the rows of a block."""
    for i in range(np.uint64(len(out))):
        out[i] = 0.0
    for b in range(inverse.shape[1]):
        for i in range(np.uint64(len(out))):
            t[i] = 0.0
        for a in range(len(x)):
            column, factor = x[a], inverse[a, b]
            for i in range(np.uint64(len(out))):
                t[i] += column[i] * factor
        for i in range(np.uint64(len(out))):
            out[i] += t[i] * t[i]


@jit
def read_lengths(
    reader, rows, e, first, inverse, t, etas, lengths, v, r, weights, own, cubic, room, off
):  # fmt: skip
    """Read predictors, lengths of X_n B^-1, values and bounds of the rows of some blocks.

    weights, own, cubic, room: see roundings_of_block; off: what it writes, or none.
    """
    size = e.shape[1]
    for begin in range(0, len(v), size):
        call_number(reader.read, reader.context, first + begin)
        past = begin + size
        for k in range(len(e)):
            add_squares(rows.x[k], inverse, t, lengths[k, begin:past])
            for i in range(size):
                etas[k, begin + i] = e[k, i]
                lengths[k, begin + i] = lengths[k, begin + i] ** 0.5
        for i in range(size):
            v[begin + i] = rows.v[i]
        for i in range(min(size, len(rows.r))):
            r[begin + i] = rows.r[i]
        if len(off) > 0:
            some, block = weights[begin:past], begin // size
            roundings_of_block(rows, e[0], some, own, cubic, room, off[block])
