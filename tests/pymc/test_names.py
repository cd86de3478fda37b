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
