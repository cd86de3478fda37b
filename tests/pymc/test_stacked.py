"""Values that are put together and looked up: beyond them PyMC raises, and nothing may be drawn."""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.marks import WARNINGS_OF_PYMC

pm = pytest.importorskip("pymc", reason="needs PyMC: pip install 'subsample-mcmc[pymc]'")
pytestmark = WARNINGS_OF_PYMC

Y = np.random.default_rng(0).normal(size=50)


def model_of(join, values, count):
    with pm.Model() as model:
        a = pm.Normal("a")
        k = pm.Categorical("k", np.full(values, 1.0 / values))
        parts = [a * 0.01 * j for j in range(count)]
        joined = pm.math.stack(parts) if join == "stack" else pm.math.concatenate(
            [part[None] for part in parts])  # fmt: skip
        pm.Normal("y", joined[k], 1.0, observed=Y)
    return model


@pytest.mark.parametrize("join", ["stack", "concatenate"])
def test_a_look_up_beyond_what_is_put_together_is_refused(join):
    told = (
        r"an index goes from 0 to 11, into 11 values that are put together \(stack, concatenate\)"
    )
    with pytest.raises(ValueError, match=told):
        sm.from_pymc(model_of(join, 12, 11))
    model = sm.from_pymc(model_of(join, 11, 11))
    assert model.variables["k"].support == 11


def test_a_branch_that_no_row_takes_may_have_no_value():
    """log(x) of negative x, folded into a column, where the model takes another branch there."""
    x = np.random.default_rng(1).normal(size=50)
    with pm.Model() as made:
        a, xd = pm.Normal("a"), pm.Data("x", x)
        mean = pm.math.switch(xd > 0.0, a * pm.math.log(xd), a)
        pm.Normal("y", mean, 1.0, observed=Y)
    model = sm.from_pymc(made)
    trace = sm.sample(model, draws=500, chains=2, seed=1, progress=False)
    slopes = np.where(x > 0.0, np.log(np.abs(x)), 1.0)
    precision = 1.0 + slopes @ slopes
    error = 5.0 / np.sqrt(precision * float(trace.mixing("a").ess))  # an alarm in a million
    assert abs(trace.draws["a"].mean() - slopes @ Y / precision) < error


def test_values_that_are_missing_in_data_are_refused():
    x = np.random.default_rng(1).normal(size=50)
    x[3] = np.nan
    with pm.Model() as made:
        a = pm.Normal("a")
        pm.Normal("y", a * x, 1.0, observed=Y)
    with pytest.raises(ValueError, match="nan"):
        sm.from_pymc(made)
