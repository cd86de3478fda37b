"""Coordinates and dimensions of a PyMC model are those of the draws."""

import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.marks import WARNINGS_OF_PYMC

pm = pytest.importorskip("pymc", reason="needs PyMC: pip install 'subsample-mcmc[pymc]'")
pytestmark = WARNINGS_OF_PYMC
TERMS = ["one", "age", "income"]


def model_with(coords, rng):
    x = rng.normal(size=(80, 3))
    with pm.Model(coords=coords) as made:
        beta = pm.Normal("my beta", 0.0, 2.0, dims="term")
        low = pm.Normal("low", 0.0, 1.0, dims="twice")
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu + x @ beta + 0.0 * low[0], 1.0, observed=x[:, 1], dims="obs_id")
    return sm.from_pymc(made)


def test_draws_have_the_names_of_the_model(rng):
    coords = {"term": TERMS, "twice": ["a", "a"], "obs_id": range(80), "unused": [1, 2]}
    model = model_with(coords, rng)
    assert model.axes.dims == {"my_beta": ("term",), "low": ("twice",)}
    assert {axis: list(values) for axis, values in model.axes.coords.items()} == {"term": TERMS}
    assert pickle.loads(pickle.dumps(model)).axes.dims == model.axes.dims
    kernel = sm.Metropolis(("my_beta", "low", "mu"), selector=sm.Exact())
    trace = sm.sample(model, kernel, 20, 100, chains=1, seed=1, progress=False)
    assert "my_beta[income]" in trace.to_frame() and "low[1]" in trace.to_frame()
    assert trace["my_beta"].sel(term="age").shape == (1, 20)


def test_names_that_blocks_have_name_no_axis(rng):
    model = model_with({"term": TERMS, "twice": [0, 1], "obs_id": range(80)}, rng)
    assert model.axes.dims["low"] == ("twice",)
    x = rng.normal(size=(50, 2))
    with pm.Model(coords={"b_x": ["x", "y"]}) as made:
        b = pm.Normal("b x", 0.0, 1.0, dims="b_x")  # whose block is b_x, too
        pm.Normal("y", x @ b, 1.0, observed=np.zeros(50))
    assert sm.from_pymc(made).axes.dims == {}


@pytest.mark.parametrize(("low", "name"), [(20, "tau_minus_20"), (0, "tau"), (-3, "tau_plus_3")])
def test_what_counts_from_elsewhere_says_so_in_its_name(rng, low, name):
    """Its draws were 20 less than PyMC's, under PyMC's name."""
    level = np.arange(low, low + 6)[rng.integers(6, size=200)]
    with pm.Model() as made:
        tau = pm.DiscreteUniform("tau", low, low + 5)
        pm.Normal("y", tau, 1.0, observed=low + 4 + rng.normal(size=200))
        pm.Normal("z", 0.0, 1.0, observed=level.astype(float))
    model = sm.from_pymc(made)
    assert list(model.variables) == [name]
    trace = sm.sample(model, draws=20, chains=1, seed=1, progress=False)
    assert set(np.ravel(trace.draws[name])) == {4}
    assert set(sm.pymc.posterior(made, trace)["tau"].values.ravel()) == {low + 4}


@pytest.mark.filterwarnings("ignore:.*missing")  # PyMC's
def test_rows_of_missing_outcomes_are_left_out_of_posteriors(rng):
    """mu and y have an entry per row, which may be millions."""
    x = rng.normal(size=40)
    y = np.ma.masked_array(x + rng.normal(size=40), mask=np.arange(40) == 3)
    with pm.Model() as made:
        b = pm.Normal("b", 0.0, 1.0)
        mu = pm.Deterministic("mu", b * x)
        pm.Normal("y", mu, 1.0, observed=y)
    trace = sm.sample(sm.from_pymc(made), draws=20, chains=1, seed=1, progress=False)
    assert set(sm.pymc.posterior(made, trace).data_vars) == {"b", "y_unobserved"}
