"""Log likelihoods of single data in given states, compiled: a number a state and row."""

from typing import Any

import numpy as np

from subsample_mcmc.errors import CompileError, compile_message
from subsample_mcmc.numerics.jit import NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.target.elsewhere.resident import refuse_rows_elsewhere
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.model import Model


@memoised
def filler(likelihood: Any, prepare: Any) -> Any:
    """fill(...): the log likelihoods of some rows in all of some states, written into out.

    Rows rise. Consecutive ones have a loop of their own, which is vectorised.
    """
    if prepare is None:

        @jit(inner="always")
        def each(state, data, rows, row):
            first, count = rows[0], np.uint64(len(row))
            if rows[len(rows) - 1] - first == len(rows) - 1:
                for i in range(count):
                    row[i] = likelihood(state, data, (first + np.int64(i)) & MASK)
            else:
                for i in range(count):
                    row[i] = likelihood(state, data, rows[i] & MASK)

    else:

        @jit(inner="always")
        def each(state, data, rows, row):
            made, first, count = prepare(state, data), rows[0], np.uint64(len(row))
            if rows[len(rows) - 1] - first == len(rows) - 1:
                for i in range(count):
                    row[i] = likelihood(state, data, (first + np.int64(i)) & MASK, made)
            else:
                for i in range(count):
                    row[i] = likelihood(state, data, rows[i] & MASK, made)

    @jit
    def fill(drawn_ints, drawn_floats, ints, floats, state, data, rows, out):
        for d in range(len(out)):
            for i in range(len(ints)):
                ints[i] = drawn_ints[d, i]
            for i in range(len(floats)):
                floats[i] = drawn_floats[d, i]
            each(state, data, rows, out[d])

    return fill


class Pointwise:
    """Log likelihoods of a model's data, as its log_likelihood gives them; for one thread."""

    def __init__(self, model: Model):
        refuse_rows_elsewhere(model)
        self.model = model
        self.ints, self.floats = model.ints.copy(), model.floats.copy()
        self.state = model.state(self.ints, self.floats)
        self.fill = filler(*model.compiled[:2])

    def into(self, out: np.ndarray, ints: np.ndarray, floats: np.ndarray, rows: np.ndarray) -> None:
        """Write those of rising rows in states, arrays (states, numbers), into out (states, rows).

        Functions of the state may follow its floats.
        """
        if not len(rows):
            return
        try:
            self.fill(ints, floats, self.ints, self.floats, self.state, self.model.data, rows, out)
        except NUMBA_ERRORS as error:
            raise CompileError(compile_message(error, self.model.log_likelihood)) from error


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
