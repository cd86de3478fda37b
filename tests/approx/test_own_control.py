"""Control variates of one's own: the known sum and the residuals are seen to be of one function."""

from dataclasses import dataclass

import numpy as np
import pytest

import subsample_mcmc as sm

SIZE = 600
DATA = {"y": np.random.default_rng(1).standard_t(4.0, SIZE)}


def log_density(state, y):
    z = y - state.mu[0] - state.shift[state.k[0]]
    return -2.5 * sm.log1p(0.25 * z * z)


def log_likelihood(state, data, n):
    return log_density(state, data.y[n])


density = sm.extend.jit(log_density, flags=sm.extend.FLAGS, inner="always")


def total(state, arrays):
    """Of data rounded to cells; what is off by a factor is not what residuals leave out."""
    found = arrays.constant[0]
    for c in range(len(arrays.centres)):
        found += arrays.counts[c] * density(state, arrays.centres[c])
    if state.k[0] > 0:
        found += arrays.constant[1]
    return arrays.factor[0] * found


def residuals(state, data, arrays, rows, out):
    for i in range(len(rows)):
        rounded = arrays.centres[arrays.cell[rows[i]]]
        out[i] = density(state, data.y[rows[i]]) - density(state, rounded)


total, residuals = sm.extend.jit(total), sm.extend.jit(residuals)


class RoundedData(sm.extend.Prepared):
    """Cells of the data but the outliers; lies: (factor, constant of all, constant where k > 0)."""

    def __init__(self, y, outliers, lies):
        self.outliers = np.asarray(outliers, dtype=np.int64)
        cells, cell = np.unique(np.rint(2.0 * y), return_inverse=True)
        counts = np.bincount(np.delete(cell, self.outliers), minlength=len(cells)).astype(float)
        arrays = sm.extend.record("centres", "counts", "cell", "factor", "constant")
        self.arrays = arrays(0.5 * cells, counts, cell, np.array(lies[:1]), np.array(lies[1:]))

    @property
    def functions(self):
        return sm.extend.functions_of_state(total, residuals)


@dataclass(frozen=True, eq=False)
class Rounded(sm.extend.Control):
    lies: tuple = (1.0, 0.0, 0.0)
    outliers: tuple = ()

    def prepare(self, model):
        return RoundedData(model.data.y, self.outliers, self.lies)


def run(control):
    model = sm.Model(
        log_likelihood, DATA, {"mu": 0.0, "k": 0, "shift": [0.0, 0.1]}, support={"k": 2},
    )  # fmt: skip
    kernel = sm.Metropolis("mu", 0.05, control=control, adapt=False)
    kernel = kernel >> sm.Metropolis("shift", 0.05, adapt=False) >> sm.Gibbs("k")
    return sm.sample(model, kernel, draws=5, warmup=0, chains=1, seed=1, progress=False)


@pytest.mark.parametrize("lies", [(1.001, 0.0, 0.0), (0.9, 0.0, 0.0), (1.0, 0.0, 1e-3)])
def test_sums_of_another_function_are_refused(lies):
    """A sum that is off by a thousandth; one that is right but for a value of a discrete block."""
    with pytest.raises(ValueError, match="is not what it says: from the model's initial state"):
        run(Rounded(lies))


@pytest.mark.slow_for("outliers0-lies0")
@pytest.mark.parametrize("lies", [(1.0, 0.0, 0.0), (1.0, 1e4, 0.0)])
@pytest.mark.parametrize("outliers", [(), (0, 7, SIZE - 1)])
def test_right_sums_are_taken_and_constants_do_no_harm(lies, outliers):
    assert run(Rounded(lies, outliers)).shape == (1, 5)


def test_outliers_that_are_summed_as_well_are_refused():
    """They are read beside the sum: in it they count twice."""

    @dataclass(frozen=True, eq=False)
    class Twice(sm.extend.Control):
        def prepare(self, model):
            made = RoundedData(model.data.y, (), (1.0, 0.0, 0.0))
            made.outliers = np.argsort(-np.abs(model.data.y))[:20]
            return made

    with pytest.raises(ValueError, match="The sum is that of h over all rows but outliers"):
        run(Twice())
