"""What is given by row later than the data, in another order of its rows, is refused."""

import copy

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.row_labels import row_labels_of

N = 60
ORDERED = pd.DataFrame(
    {
        "y": np.random.default_rng(1).normal(size=N),
        "a": np.random.default_rng(2).normal(size=N),
        "count": np.random.default_rng(3).poisson(2.0, N),
    }
)
LABELS = {
    "numbers": ORDERED.index,
    "names": pd.Index([f"site {i}" for i in range(N)]),
    "times": pd.date_range("2020-01-01", periods=N),
    "pairs": pd.MultiIndex.from_arrays([np.arange(N) // 3, np.arange(N) % 3]),
}


def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] * data.a[n]) ** 2


def simulate(rng, state, data, n):
    return state.mu[0] * data.a[n] + rng.normal()


def shuffled(frame):
    return frame.sample(frac=1.0, random_state=0)


def model_of(frame):
    return sm.Model(log_likelihood, frame, {"mu": 0.0}, simulate=simulate)


@pytest.fixture(scope="module")
def trace():
    return sm.sample(
        model_of(shuffled(ORDERED)), sm.Metropolis("mu"), draws=10, warmup=10, chains=1, seed=1,
        progress=False,
    )  # fmt: skip


def by_row(model, trace):
    """Everything that takes a value for each row of a model later than its data, by name."""
    kernel = sm.Metropolis("mu")
    return {
        "without": lambda y: model.without(y > 0.0).data.y,
        "log_likelihood": lambda y: trace.log_likelihood(model, rows=y > 0.0).obs.to_numpy(),
        "predict": lambda y: sm.predict(model, trace, observed=y, seed=1, progress=False).observed,
        "to_arviz": lambda y: np.asarray(
            trace.to_arviz(observed={"y": y})["observed_data"]["y"]
        ),
        "kfold": lambda y: sm.kfold(
            model, kernel, folds=(y > 0.0).astype(int), draws=10, warmup=10, chains=2, seed=1,
            progress=False,
        ).fold,
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:chains of")
@pytest.mark.parametrize("call", ["without", "log_likelihood", "predict", "to_arviz", "kfold"])
def test_rows_in_another_order_are_refused(trace, call):
    frame = shuffled(ORDERED)
    run = by_row(model_of(frame), trace)[call]
    with pytest.raises(ValueError, match="the same rows in another order: align them before"):
        run(ORDERED.y)
    aligned, of_arrays = run(ORDERED.y.loc[frame.index]), run(frame.y.to_numpy())
    assert np.array_equal(aligned, of_arrays)
    with pytest.warns(UserWarning, match="has other row labels than the data: in row 0 100"):
        assert np.array_equal(run(frame.y.set_axis(range(100, 100 + N))), of_arrays)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_tell_an_order(kind):
    frame = ORDERED.set_axis(LABELS[kind])
    model = model_of(shuffled(frame))
    assert model.row_labels.equals(shuffled(frame).index)
    with pytest.raises(ValueError, match="another order"):
        model.without(frame.y > 0.0)
    assert model.without(shuffled(frame).y > 0.0).data.y.max() <= 0.0


def test_of_arrays_no_order_is_known():
    model = model_of({"y": ORDERED.y.to_numpy(), "a": ORDERED.a.to_numpy()})
    assert model.row_labels is None
    assert model.without(shuffled(ORDERED).y > 0.0).size == (ORDERED.y <= 0.0).sum()


def test_rows_that_remain_keep_their_labels():
    frame = shuffled(ORDERED)
    rest = model_of(frame).without(np.arange(5))
    with pytest.raises(ValueError, match="another order"):
        rest.without(ORDERED.y.drop(frame.index[:5]) > 0.0)
    assert rest.without(frame.y[5:] > 0.0).data.y.max() <= 0.0


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_no_numbers_of_rows(kind, trace):
    frame = ORDERED.set_axis(LABELS[kind])
    model = model_of(shuffled(frame))
    some = shuffled(frame).index[:3]
    for call in (model.without, lambda rows: trace.log_likelihood(model, rows=rows)):
        with pytest.raises(TypeError, match=r"rows are taken by position, 0 to 59: give frame\."):
            call(some)
    places = shuffled(frame).index.get_indexer(some)
    assert np.array_equal(model.without(places).data.y, shuffled(frame).y.to_numpy()[3:])
    in_place = model_of(frame.reset_index(drop=True))  # labels are the numbers of the rows
    assert in_place.without(pd.Index([0, 1])).size == N - 2


@pytest.mark.parametrize("kind", LABELS)
def test_names_of_rows_in_another_order_are_refused(kind):
    frame = ORDERED.set_axis(LABELS[kind])
    if kind == "pairs":
        frame = frame.set_axis(frame.index.map(str))
    names = pd.Series(frame.index.astype(str), index=frame.index)
    for given in (names, frame.index):
        with pytest.raises(ValueError, match=r"coords obs has other row labels.*another order"):
            sm.Model(log_likelihood, shuffled(frame), {"mu": 0.0}, coords={"obs": given})
    own = shuffled(frame)
    model = sm.Model(log_likelihood, own, {"mu": 0.0}, coords={"obs": names.loc[own.index]})
    assert list(model.axes.coords["obs"]) == list(own.index.astype(str))


def test_a_stored_run_knows_the_rows_of_its_model_by_that(tmp_path, trace):
    trace.save(tmp_path / "run.nc")
    stored, model = sm.load(tmp_path / "run.nc"), model_of(shuffled(ORDERED))
    with pytest.raises(ValueError, match="another order"):
        stored.to_arviz(observed={"y": ORDERED.y}, log_likelihood=model)
    assert stored.to_arviz(observed={"y": ORDERED.y}) is not None  # nothing tells


def test_names_of_rows_that_have_but_numbers_may_be_any():
    for names in (pd.date_range("2020-01-01", periods=N), pd.Index(np.arange(N)[::-1])):
        model = sm.Model(log_likelihood, ORDERED, {"mu": 0.0}, coords={"obs": names})
        assert list(model.axes.coords["obs"]) == list(np.asarray(names))


def test_what_is_equal_in_other_kinds_is_not_refused():
    """Times in two zones, categories, not-a-number; labels that repeat have an order, too."""
    here = pd.date_range("2020-01-01", periods=N, tz="UTC")
    model = model_of(ORDERED.set_axis(here))
    assert model.without(ORDERED.y.set_axis(here.tz_convert("Asia/Tokyo")) > 0.0).size < N
    names = [f"s{i}" for i in range(N)]
    model = model_of(ORDERED.set_axis(pd.CategoricalIndex(names)))
    assert model.without(ORDERED.y.set_axis(pd.Index(names)) > 0.0).size < N
    gone = pd.Index([np.nan, *range(1, N)])
    assert model_of(ORDERED.set_axis(gone)).without(ORDERED.y.set_axis(gone.copy()) > 0.0).size < N
    years = pd.Index(np.arange(N) // 7)
    with pytest.raises(ValueError, match="another order"):
        model_of(ORDERED.set_axis(years)).without(ORDERED.y.set_axis(years[::-1]) > 0.0)
    pairs = pd.MultiIndex.from_arrays([np.arange(N), np.arange(N), np.zeros(N)])
    with pytest.warns(UserWarning, match=r"in row 0 \(0, 0\), where the data has \(0, 0, 0.0\)"):
        model_of(ORDERED.set_axis(pairs)).without(ORDERED.y.set_axis(pairs.droplevel(2)) > 0.0)


def of_rows(state, data, n):
    return -0.5 * (data.y[n] - state.z[n]) ** 2


def test_states_by_row_in_another_order_are_refused():
    frame = shuffled(ORDERED)
    with pytest.raises(ValueError, match=r"state z has other row labels.*another order"):
        sm.Model(of_rows, frame, {"z": ORDERED.y})
    model = sm.Model(of_rows, frame, {"z": frame.y})
    with pytest.raises(ValueError, match="state z has other row labels"):
        sm.sample(model, sm.Slice("z"), 5, chains=1, start={"z": ORDERED.y}, progress=False)
    sm.Model(of_rows, frame, {"z": pd.Series(np.zeros(N), index=range(5, N + 5))})  # of others


def test_more_rows_and_copies_keep_labels():
    frame = shuffled(ORDERED)
    more = frame.iloc[:10].set_axis(range(100, 110))
    both = model_of(frame).append(more)
    assert both.row_labels.equals(frame.index.append(more.index))
    with pytest.raises(ValueError, match="another order"):
        both.without(pd.concat([ORDERED, more]).y > 0.0)
    assert copy.copy(model_of(frame)).row_labels.equals(frame.index)
    assert model_of(frame).append({"y": [0.0], "a": [1.0], "count": [2]}).row_labels is None


def test_differences_of_models_in_another_order_are_told_of(trace):
    def of_z(state, data, n):
        return -0.5 * (data.z[n] - state.mu[0]) ** 2

    frame, found = ORDERED.rename(columns={"y": "z"})[["z"]], []
    for one in (frame, shuffled(frame)):
        model = sm.Model(of_z, one, {"mu": 0.0})
        drawn = sm.sample(model, sm.Slice("mu"), 200, 50, chains=2, seed=1, progress=False)
        found.append(sm.loo(model, drawn, progress=False))
    with pytest.warns(UserWarning, match="in the same order"):
        found[0].difference(found[1])


def test_categories_of_new_data_in_another_order_are_refused():
    group = pd.Series(np.where(ORDERED.y > 0.0, "high", "low")).astype("category")
    model = sm.Model(
        lambda s, d, n: -0.5 * (d.y[n] - s.a[d.group[n]]) ** 2,
        {"y": ORDERED.y, "group": group}, {"a": np.zeros(2)}, touches={"a": "group"},
        simulate=lambda rng, s, d, n: s.a[d.group[n]] + d.y[n],
    )  # fmt: skip
    run = sm.sample(model, sm.Slice("a"), 5, 5, chains=1, seed=1, progress=False)
    with pytest.raises(ValueError, match="data group has other row labels than y"):
        sm.predict(model, run, data={"y": ORDERED.y, "group": shuffled(group)}, progress=False)


def test_new_data_of_predictions_have_their_own_order(trace):
    model = model_of(shuffled(ORDERED))
    for new in (ORDERED, {"a": ORDERED.a}):
        said = sm.predict(model, trace, data=new, observed=ORDERED.y, seed=1, progress=False)
        assert np.array_equal(said.observed, ORDERED.y)
        with pytest.raises(ValueError, match="another order"):
            sm.predict(model, trace, data=new, observed=shuffled(ORDERED).y, progress=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: sm.models.glm.poisson(frame[["a"]], frame["count"]),
        lambda frame: sm.models.glm.poisson(frame[["a"]].to_numpy(), frame["count"]),
        lambda frame: sm.models.glm.gaussian(frame[["a"]], frame.y, sigma=1.0),
        lambda frame: sm.models.glm.poisson(
            frame[["a"]].to_numpy(), frame["count"].to_numpy(), weights=frame["count"] + 1.0
        ),
    ],
)
def test_of_ready_models(make):
    model = make(shuffled(ORDERED))
    with pytest.raises(ValueError, match="another order"):
        model.without(ORDERED.y > 0.0)
    assert model.without(shuffled(ORDERED).y > 0.0).size == (ORDERED.y <= 0.0).sum()


def test_of_a_formula():
    pytest.importorskip("formulaic")
    model = sm.models.glm.poisson("count ~ a", shuffled(ORDERED))
    with pytest.raises(ValueError, match="another order"):
        model.without(ORDERED.y > 0.0)


def test_categories_in_another_order_are_refused():
    group = pd.Series(np.where(ORDERED.y > 0.0, "high", "low")).astype("category")
    data = {"y": shuffled(ORDERED).y, "group": group}
    state, touches = {"a": np.zeros(2)}, {"a": "group"}

    def of_group(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2

    with pytest.raises(ValueError, match="data group has other row labels than y"):
        sm.Model(of_group, data, state, touches=touches)
    model = sm.Model(of_group, data | {"group": shuffled(group)}, state, touches=touches)
    assert np.array_equal(model.data.group == 0, model.data.y > 0.0)


def test_labels_of_an_array_of_xarray():
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(np.arange(3.0), dims="t", coords={"t": [2, 0, 1]})
    assert row_labels_of({"scale": 1.0, "x": np.zeros(3), "y": array}, 3).tolist() == [2, 0, 1]
    assert row_labels_of({"y": array}, 4) is None
