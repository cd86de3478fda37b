"""Residuals of a log likelihood in two passes over a mini-batch (numerics/jets/held.py).

The second is computed for several data at once, as the log factor of sm.Predictors is. Which models
have two passes is found out at all their data, around all references: the way that a datum takes
does not depend on parameters, or its first pass does not compile.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import functions_of, jets_of, on_lines
from subsample_mcmc.approx.taylor.predictor_chunks import chunk_of, read_chunk
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.exact_sums import MASK

THERE, HERE = 0, 1  # ends of a step, as rows of the table: the reference, and the arm


class TwoPassSource(NamedTuple):
    """What residuals are computed with."""

    reference: Any  # a state of Points, with the discrete values of the arm in hand
    moved: Any  # the same, at the arm
    start: np.ndarray  # (d,) values of the one
    floats: np.ndarray  # (d,) and of the other
    steps: np.ndarray  # (arms, d) between them
    table: np.ndarray  # what the first pass leaves to the second


def source_of(model, ints, floats, steps) -> TwoPassSource:
    """Of one chain; ints, floats: of the reference, which others write."""
    moved, none = floats.copy(), np.zeros(len(floats))
    there, here = (on_lines(model, ints, values, none) for values in (floats, moved))
    return TwoPassSource(there, here, floats, moved, steps, table_of())


class FirstPassContext(NamedTuple):
    """What the first pass over some rows is made with."""

    reference: Any
    data: Any
    table: np.ndarray
    rows: np.ndarray


def table_of() -> np.ndarray:
    """Room for a mini-batch."""
    return np.zeros(jets_of().TABLE_SHAPE)


@memoised
def first_pass(likelihood, counted: bool) -> Any:
    """write(state, data, table, end, rows): what is affine in the parameters."""
    jets = jets_of()
    likelihood, held, finish = jets.readable(likelihood), jets.held_in_table, jets.finish_table

    @jit(flags=FLAGS, disjoint=True, inner=True)
    def write(state, data, table, end, rows):
        for i in range(np.uint64(len(rows))):
            own = held(state, table, end, np.int64(i), counted)
            finish(likelihood(own, data, np.int64(rows[i]) & MASK))

    return write


@memoised
def both_passes(likelihood, cubic: bool, constant: bool) -> Any:
    """read(context, source, arm, rows, out): l - h of a mini-batch, h with its constant or not."""
    jets, write = jets_of(), first_pass(likelihood, False)
    likelihood, held = jets.readable(likelihood), jets.read_from_table
    coefficients = jets.coefficients

    @jit(flags=FLAGS, disjoint=True, inner="entry", user=True)
    def read(context, source, arm, rows, out):
        reference, data, table = source.reference, context.data, source.table
        for j in range(len(source.floats)):
            source.floats[j] = source.start[j] + source.steps[arm, j]
        write(source.moved, data, table, HERE, rows)
        write(reference, data, table, THERE, rows)
        for i in range(np.uint64(len(rows))):
            n, k = np.int64(rows[i]) & MASK, np.int64(i)
            value = coefficients(likelihood(held(reference, table, HERE, k, False), data, n))[0]
            c = coefficients(likelihood(held(reference, table, THERE, k, False), data, n))
            h = c[1] + c[2]
            if cubic:
                h += c[3]
            if constant:
                h += c[0]
            out[i] = value - h
        return 0.0

    return read


@memoised
def surveying(likelihood) -> Any:
    """survey(context, first): the first pass over context.rows."""
    write = first_pass(likelihood, True)

    @jit(inner="entry", user=True)
    def survey(context, first):
        write(context.reference, context.data, context.table, THERE, context.rows)
        return 0.0

    return survey


def has_two_passes(model, references, configured: Any) -> bool:
    """Is each datum's log likelihood to be had in two passes: at most once through each operation.

    configured(table): the discrete values of a configuration.
    """
    likelihood, prepare, filled = functions_of(model)
    if DISABLED or filled or prepare is not None:
        return False
    table, rows = table_of(), np.zeros(CHUNK, dtype=row_kind(model.size))
    try:
        for k, point in enumerate(references):
            state = on_lines(model, np.array(configured(k)), point.copy(), np.zeros(len(point)))
            own = FirstPassContext(pointer_to(state), model.data, table, rows)
            survey = chunk_of(surveying(likelihood), own)
            for first in range(0, model.size, CHUNK):
                rows[:] = np.minimum(np.arange(first, first + CHUNK), model.size - 1)
                table[0], table[2::2] = 0.0, np.nan
                read_chunk(survey, first)
                written = ~np.isnan(table[2::2, :CHUNK])
                if not np.array_equal(table[0, :CHUNK], written.sum(axis=0)):
                    return False
    except (CompileError, *NUMBA_ERRORS, ArithmeticError, AttributeError, TypeError, LookupError):
        return False
    return True
