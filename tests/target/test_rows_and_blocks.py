"""Columns, categories, lengths and touches: what a model makes of what it is given."""

import itertools

import numpy as np
import pandas as pd

import subsample_mcmc as sm
from subsample_mcmc.models import glm
from subsample_mcmc.target.axes import in_nanoseconds
from subsample_mcmc.target.data import in_order
from subsample_mcmc.target.layout import PartRun, Run
from subsample_mcmc.target.moved import moved
from subsample_mcmc.target.reuse.remembered import told_of
from subsample_mcmc.target.sources.local import LocalSource
from tests.helpers import runs
from tests.runs.views.test_arviz import trace_of


def test_models_without_some_data_know_their_categories():
    """Else data of predictions by other categories would be taken for codes."""
    group = pd.Categorical(list("bacabc"), ["c", "a", "b"])
    model = sm.Model(
        lambda s, data, n: -0.5 * (data.y[n] - s.a[data.group[n]]) ** 2,
        {"y": np.arange(6.0), "group": group}, {"a": np.zeros(3)}, touches={"a": "group"},
        simulate=lambda rng, s, data, n: s.a[data.group[n]],
    )  # fmt: skip
    rest = model.without([1])
    assert rest.categories["group"].tolist() == ["c", "a", "b"]
    trace = trace_of(rest, {"a": np.tile([1.0, 2.0, 3.0], (2, 30, 1))})
    said = sm.predict(rest, trace, data={"group": ["b", "c", "a"]}, seed=1, progress=False)
    assert said.values[""][0, 0].tolist() == [3.0, 1.0, 2.0]


def test_three_columns_in_any_order_are_put_in_the_model_s():
    """Of two, an order and its inverse are the same."""
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=["a", "b", "c"])
    for names in itertools.permutations("abc"):
        for made_of in (frame[list(names)], frame[list(names)].to_xarray().to_array().T):
            if hasattr(made_of, "dims"):
                made_of = made_of.rename(variable="term")
            found = in_order("x", made_of, ["a", "b", "c"])
            assert np.array_equal(np.asarray(found), frame.to_numpy()), names


def test_lengths_of_blocks_that_move_as_one_count_those_before():
    """Free coordinates in use, of all of them: two of mu, and one or three of theta."""
    model = padded()
    blocks = moved(model, ("mu", "theta"))
    assert blocks.lengths == [3, 5] and blocks.free == 5
    assert blocks.coordinates().lengths.tolist() == [3, 5]


def padded():
    return sm.Model(
        lambda s, data, n: -0.5 * (data.y[n] - s.mu[0] - s.theta[0]) ** 2, {"y": np.zeros(3)},
        {"first": 0, "k": 1, "mu": np.zeros(2), "theta": np.zeros(3)},
        support={"first": 4, "k": 2}, lengths={"theta": ("k", [1, 3])},
    )  # fmt: skip


def test_the_block_that_says_a_length_need_not_be_the_first():
    v = padded().variables["theta"]
    assert v.place == 1
    assert [v.length(np.array([3, k])) for k in (0, 1)] == [1, 3]


def test_a_datum_that_sees_one_site_by_two_columns_depends_on_it_once():
    """Else its log likelihood would count twice in moves of that site."""
    data = {"y": np.arange(4.0), "one": np.array([0, 1, 2, 1]), "other": np.array([1, 1, 0, 2])}
    model = sm.Model(
        lambda s, data, n: -0.5 * (data.y[n] - s.a[data.one[n]] - s.a[data.other[n]]) ** 2, data,
        {"a": np.zeros(3)}, touches={"a": ("one", "other")},
    )  # fmt: skip
    indptr, indices = model.variables["a"].touches
    sites = [indices[i:j].tolist() for i, j in itertools.pairwise(indptr)]
    assert sites == [[0, 2], [0, 1, 3], [2, 3]]


def test_times_beyond_what_nanoseconds_hold_stay_as_they_are():
    far = np.array(["1500-01-01", "2020-01-01"], dtype="M8[D]")
    assert np.array_equal(in_nanoseconds(far), far) and in_nanoseconds(far).dtype == far.dtype
    assert in_nanoseconds(far[1:]).dtype == np.dtype("M8[ns]")


def test_parts_of_a_block_keep_arrays_of_their_own_for_each_kernel():
    run = Run.over(np.zeros(1, np.int64), np.zeros(4), np.zeros(0, np.int64))
    found = []
    for leaf, value in ((1, 2.0), (2, 3.0)):
        run.leaf = leaf
        part = PartRun.of(run, 0, 4, 4, np.zeros(0, np.int64))
        found.append(part.keep("scale", np.full(4, value)))
    assert found[0].tolist() == [2.0] * 4 and found[1].tolist() == [3.0] * 4
    assert set(run.kept) == {"1.scale", "2.scale"}


def test_what_a_start_says_of_components_that_are_not_there_is_left_out():
    model = padded()
    for k, wanted in ((0, [1.0, 0.0, 0.0]), (1, [1.0, 2.0, 3.0])):
        ints, floats = model.ints.copy(), model.floats.copy()
        model.set_state(ints, floats, {"k": k, "theta": [1.0, 2.0, 3.0]})
        assert model.state(ints, floats).theta.tolist() == wanted


def test_what_is_remembered_is_of_where_discrete_blocks_begin():
    """A fit holds them there."""
    one, other = (told_of(runs.model(state={"k": k, "theta": np.array([0.2, 0.1])}))
                  for k in (0, 1))  # fmt: skip
    assert [name for name in one if one[name] != other[name]] == ["initial state"]


def test_columns_of_rows_elsewhere_keep_the_order_of_their_source():
    """Not that of the alphabet: coefficients have the names of their columns."""
    rng = np.random.default_rng(0)
    b, a, y = rng.normal(size=(3, 200))
    parts = [{"b": b[s], "a": a[s], "y": y[s]} for s in (slice(90), slice(90, 200))]
    model = glm.gaussian(LocalSource(parts), "y")
    assert model.columns["x"] == ["b", "a"]
    fit = sm.laplace(model, progress=False).state["beta"]
    here = sm.laplace(glm.gaussian(np.column_stack([b, a]), y), progress=False).state["beta"]
    np.testing.assert_allclose(fit, here, rtol=1e-6)
