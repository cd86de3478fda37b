"""Log likelihoods of single data in given states, compiled: a number a state and row."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import CompileError, compile_message
from subsample_mcmc.numerics.jit import FLAGS, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    RecordAddress,
    array,
    call_rows,
    pointer_to,
)
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.elsewhere.resident import refuse_rows_elsewhere
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.model import Model


class PointContext(NamedTuple):
    """What a log likelihood reads."""

    state: Any
    data: Any


class PointCalls(NamedTuple):
    """A model's function by its address, and what it is about: no type of the model."""

    context: Any  # a PointContext
    row: Any  # a number of the type that rows have
    read: Any  # (context, unused, rows, out)


@memoised
def reader(likelihood: Any, prepare: Any) -> Any:
    """read(context, unused, rows, out): the log likelihoods of some rows, which rise.

    Consecutive ones have a loop of their own, which is vectorised.
    """
    if prepare is None:

        @jit(flags=FLAGS, disjoint=True, inner="entry")
        def read(context, unused, rows, out):
            state, data, first = context.state, context.data, np.int64(rows[0])
            if rows[len(rows) - 1] - first == len(rows) - 1:
                for i in range(np.uint64(len(out))):
                    out[i] = likelihood(state, data, (first + np.int64(i)) & MASK)
            else:
                for i in range(np.uint64(len(out))):
                    out[i] = likelihood(state, data, np.int64(rows[i]) & MASK)
            return 0.0

    else:

        @jit(flags=FLAGS, disjoint=True, inner="entry", user=True)
        def read(context, unused, rows, out):
            state, data, first = context.state, context.data, np.int64(rows[0])
            made = prepare(state, data)
            if rows[len(rows) - 1] - first == len(rows) - 1:
                for i in range(np.uint64(len(out))):
                    out[i] = likelihood(state, data, (first + np.int64(i)) & MASK, made)
            else:
                for i in range(np.uint64(len(out))):
                    out[i] = likelihood(state, data, np.int64(rows[i]) & MASK, made)
            return 0.0

    return read


@jit
def fill(drawn_ints, drawn_floats, ints, floats, calls, rows, out):
    """The log likelihoods of some rows in all of some states, written into out."""
    for d in range(len(out)):
        for i in range(len(ints)):
            ints[i] = drawn_ints[d, i]
        for i in range(len(floats)):
            floats[i] = drawn_floats[d, i]
        call_rows(calls.read, calls.context, calls.row, 0, rows, out[d])


class Pointwise:
    """Log likelihoods of a model's data, as its log_likelihood gives them; for one thread."""

    def __init__(self, model: Model):
        refuse_rows_elsewhere(model)
        self.model = model
        self.ints, self.floats = model.ints.copy(), model.floats.copy()
        self.kind = row_kind(model.size)

    @cached_property
    def calls(self) -> Any:
        """What knows the model, compiled when it is first called."""
        model, read = self.model, reader(*self.model.compiled[:2])
        about = RecordAddress(PointContext(model.state(self.ints, self.floats), model.data))
        read = FunctionAddress(read, about, NUMBER, array(self.kind), FLOATS)
        return pointer_to(PointCalls(about, self.kind(0), read))

    def into(self, out: np.ndarray, ints: np.ndarray, floats: np.ndarray, rows: np.ndarray) -> None:
        """Write those of rising rows in states, arrays (states, numbers), into out (states, rows).

        Functions of the state may follow its floats.
        """
        if not len(rows):
            return
        rows = np.ascontiguousarray(rows, dtype=self.kind)
        whole = out if out.flags.c_contiguous else np.empty_like(out, order="C")
        try:
            fill(ints, floats, self.ints, self.floats, self.calls, rows, whole)
        except NUMBA_ERRORS as error:
            raise CompileError(compile_message(error, self.model.log_likelihood)) from error
        if whole is not out:
            out[:] = whole


def left_out_of(model: Model, ints: np.ndarray, floats: np.ndarray) -> tuple[Any, Any]:
    """What a model's log likelihoods lack of log densities: a number a state, one a datum, or 0.0.

    What is one a datum is the same in all states.
    """
    if type(model).left_out is Model.left_out or not len(ints):
        return 0.0, 0.0
    own = model.ints.copy(), model.floats.copy()
    state, found = model.state(*own), []
    for d in range(len(ints)):
        own[0][:], own[1][:] = ints[d, : len(own[0])], floats[d, : len(own[1])]
        found.append(model.left_out(state))
        if np.ndim(found[0]):
            return 0.0, np.asarray(found[0], dtype=float)
    return np.array(found), 0.0
