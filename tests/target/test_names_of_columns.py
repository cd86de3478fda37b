"""Matrices whose columns have names: what is predicted or appended is put by them, not by place."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import subsample_mcmc as sm
from subsample_mcmc.runs import fingerprint
from subsample_mcmc.target.data import in_order, names_of_columns

SIZE = 400


def labelled(frame):
    return xr.DataArray(frame.to_numpy(), dims=("row", "term"), coords={"term": list(frame)})


def table(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)


def polars(frame):
    return pytest.importorskip("polars").DataFrame({name: frame[name].to_numpy() for name in frame})


KINDS = pytest.mark.parametrize("kind", [pd.DataFrame, labelled, table, polars])


def rows():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=SIZE), "b": rng.normal(size=SIZE)})
    frame["y"] = 5.0 + frame.a - 2.0 * frame.b + 0.1 * rng.normal(size=SIZE)
    return frame


NEW = pd.DataFrame({"Intercept": [1.0, 1.0], "a": [1.0, 0.0], "b": [0.0, 1.0]})


def predicted(model, x):
    trace = sm.sample(model, draws=100, chains=1, seed=1, progress=False)
    said = sm.predict(model, trace, data={"x": x}, seed=1, progress=False)
    return said.values[""].mean(axis=(0, 1))


@KINDS
def test_predictions_of_formulas_and_matrices(kind):
    """Exactly 6 and 3, but for the noise of 100 draws, .01; 5 - 2 + 0 = 3 and -1 by place."""
    frame = rows()
    other = kind(NEW[["b", "a", "Intercept"]])
    for model in (
        sm.models.glm.gaussian("y ~ a + b", frame, sigma=0.1),
        sm.models.glm.gaussian(kind(frame.assign(Intercept=1.0)[list(NEW)]), frame.y.to_numpy(),
                               sigma=0.1),
    ):  # fmt: skip
        assert model.columns == {"x": ["Intercept", "a", "b"]}
        np.testing.assert_allclose(predicted(model, other), [6.0, 3.0], atol=0.08)
        with pytest.raises(ValueError, match=r"data x has the columns \['b', 'a', 'one'\]"):
            predicted(model, kind(NEW.rename(columns={"Intercept": "one"})[["b", "a", "one"]]))


def test_by_place_without_names():
    model = sm.models.glm.gaussian("y ~ a + b", rows(), sigma=0.1)
    np.testing.assert_allclose(predicted(model, NEW.to_numpy()), [6.0, 3.0], atol=0.08)


def squares(state, data, n):
    z = data.y[n] - 5.0 - state.c[0] * data.x[n, 0] - state.c[1] * data.x[n, 1]
    return -0.5 * z * z


@KINDS
def test_appended_rows(kind):
    """The same rows once more, in another order of columns, have the same best coefficients."""
    frame = rows()
    y = frame.y.to_numpy()
    model = sm.Model(squares, {"x": kind(frame[["a", "b"]]), "y": y}, {"c": np.zeros(2)})
    more = model.append({"x": kind(frame[["b", "a"]]), "y": y})
    np.testing.assert_array_equal(more.data.x[:SIZE], more.data.x[SIZE:])
    with pytest.raises(ValueError, match="the model was given"):
        model.append({"x": kind(frame[["b", "y"]]), "y": y})


def test_names_of_columns():
    frame = rows()
    assert names_of_columns(frame[["b", "a"]]) == ["b", "a"]
    assert names_of_columns(labelled(frame[["b", "a"]])) == ["b", "a"]
    assert names_of_columns(xr.DataArray(frame.to_numpy(), dims=("i", "j"))) is None
    assert names_of_columns(frame.to_numpy()) is None
    numbered = pd.DataFrame(np.zeros((2, 2)))
    assert in_order("x", numbered, ["a", "b"]) is numbered  # nobody gave names
    assert list(in_order("x", numbered, ["1", "0"])) == [1, 0]  # these are the model's names
    twice = pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
    assert in_order("x", twice, ["a", "a"]) is twice
    with pytest.raises(ValueError, match="has the columns"):
        in_order("x", twice, ["a", "b"])


def test_arrays_of_xarray_in_memory_are_no_collections_of_dask():
    x, y = rows()[["a", "b"]].to_numpy(), rows().y.to_numpy()
    matrix, column = xr.DataArray(x, dims=("i", "j")), xr.DataArray(y, dims="i")
    for one, other in ((matrix, y), (x, column), (matrix, column)):
        model = sm.models.glm.gaussian(one, other, sigma=0.1)
        np.testing.assert_array_equal(model.data.x, x)


def test_runs_that_were_stored_before_columns_had_names_go_on():
    today = {"data x": "1", "labels of data x": "2", "version of numpy": "3"}
    stored = {"data x": "1", "version of numpy": "3"}
    fingerprint.refuse_changes(stored, today, "run.nc", begun=True)
    for changed in ({"labels of data x": "9"}, {"data z": "1"}):
        with pytest.raises(ValueError, match="changed since it was started"):
            fingerprint.refuse_changes(stored | changed, today, "run.nc", begun=True)


# ---------------------------------------------------------------------------------------- tables
def by_price(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] * data.price[data.k[n]]) ** 2


def paid(rng, state, data, n):
    return state.b[0] * data.price[data.k[n]]


def test_predictions_with_another_table_of_any_length():
    rng, price = np.random.default_rng(0), np.array([1.0, 2.0, 3.0])
    k = rng.integers(0, 3, SIZE)
    y = 0.5 * price[k] + 0.1 * rng.normal(size=SIZE)
    model = sm.Model(by_price, {"k": k, "y": y}, {"b": 0.0}, tables={"price": price}, simulate=paid)
    trace = sm.sample(model, draws=100, chains=1, seed=1, progress=False)
    given = {"k": [0, 1], "price": 10.0 * price}
    said = sm.predict(model, trace, data=given, seed=1, progress=False).values[""]
    expected = trace.draws["b"][..., None] * np.array([10.0, 20.0])
    np.testing.assert_allclose(said, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="give at least one of k, y"):
        sm.predict(model, trace, data={"price": price}, seed=1, progress=False)
