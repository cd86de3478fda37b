"""Residuals of linear predictors, and weights of rows: by loops that Python calls.

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
class PredictorChunk(NamedTuple):
    """Some rows, with room for what is read of them, and what reads it."""

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


class Keep:
    """Weights of rows: 1, or 0 for those that every decision reads; or the other way round.

    first: which of all rows is the first of those that are asked for.
    """

    def __init__(self, outliers: np.ndarray, others: bool = True, first: int = 0):
        self.outliers, self.others, self.first = outliers, others, first
        self.alike = np.zeros(0)  # weights that are all the same, of which nobody changes one

    def __call__(self, first: int, last: int) -> np.ndarray:
        begin, past = first + self.first, last + self.first
        low, high = np.searchsorted(self.outliers, (begin, past))
        if low == high:
            alike = self.alike  # other threads may make another, and a shorter one
            if len(alike) < last - first:
                self.alike = alike = np.full(last - first, float(self.others))
            return alike[: last - first]
        weights = np.full(last - first, float(self.others))
        weights[self.outliers[low:high] - begin] = float(not self.others)
        return weights


def every(first: int, last: int) -> np.ndarray:
    """Weights of rows that are all read."""
    return np.ones(last - first)
