"""Linear predictors of data, and what a likelihood makes of them, by loops that Python calls.

Only the loops themselves know the model; they are called by their addresses.
"""

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
