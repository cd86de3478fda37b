"""Models of some of the data: the same draws as of a model made of them, or a refusal."""

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm

Y = np.random.default_rng(2).normal(0.3, 1.0, 60)
GONE = np.array([0, 7, 8, 31, 59])
KEPT = np.setdiff1d(np.arange(60), GONE)


def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - state.b[0] * data.x[n, 1]) ** 2 / data.scale


def model(rows=slice(None), **more):
    x = np.column_stack([np.ones(60), np.arange(60.0)])[rows]
    data = {"y": Y[rows], "x": x, "scale": 1.5}
    return sm.Model(log_likelihood, data, {"mu": 0.0, "b": 0.0}, **more)


def draws(given, kernel, block):
    return sm.sample(given, kernel, 30, 30, chains=1, seed=3, progress=False).draws[block]


def test_draws_are_those_of_a_model_of_the_rest():
    kernel = sm.Metropolis("mu", 0.2) >> sm.Metropolis("b", 0.02)
    rest = model().without(GONE)
    assert rest.size == 55 and rest.data.scale == 1.5
    assert np.array_equal(draws(rest, kernel, "mu"), draws(model(KEPT), kernel, "mu"))
    mask = np.isin(np.arange(60), GONE)
    again = model().without(mask)
    assert np.array_equal(again.data.x, rest.data.x) and again.fingerprints() == rest.fingerprints()
    assert rest.without([0]).size == 54  # of the rest


def test_rows_side_by_side_are_shared_and_labels_are_kept():
    labels = [f"day {n}" for n in range(60)]
    given = model(coords={"obs": labels})
    head = given.without(np.arange(40, 60))
    assert np.shares_memory(head.data.x, given.data.x) and head.size == 40
    assert given.without(GONE).axes.coords["obs"].tolist() == [labels[n] for n in KEPT]
    assert not np.shares_memory(given.without(GONE).data.x, given.data.x)


def of_groups(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2


def of_lists(state, data, n):
    value = 0.0
    for j in range(3):
        value += state.z[data.first[n] + j]
    return -0.5 * (data.y[n] - 0.3 * value) ** 2


def test_touches_go_with_their_rows():
    group = pd.Categorical(np.tile(["a", "b", "c"], 20))
    frame = pd.DataFrame({"y": Y, "group": group})
    given = sm.Model(of_groups, frame, {"a": np.zeros(3)}, touches={"a": "group"})
    kernel = sm.Metropolis("a", 0.5, selector=sm.Exact())
    rest = sm.Model(of_groups, frame.iloc[KEPT], {"a": np.zeros(3)}, touches={"a": "group"})
    assert np.array_equal(draws(given.without(GONE), kernel, "a"), draws(rest, kernel, "a"))
    assert given.without(GONE).axes.coords["group"].tolist() == ["a", "b", "c"]

    def listed(rows):  # datum n sees sites first[n] .. first[n] + 2
        first = (np.arange(60) % 8)[rows]
        seen = [np.flatnonzero((first <= i) & (i < first + 3)) for i in range(10)]
        lists = np.cumsum([0, *map(len, seen)]), np.concatenate(seen)
        return sm.Model(
            of_lists, {"y": Y[rows], "first": first}, {"z": np.zeros(10, int)}, support={"z": 2},
            touches={"z": lists},
        )  # fmt: skip

    given, rest = listed(np.arange(60)).without(GONE), listed(KEPT)
    for mine, its in zip(given.variables["z"].touches, rest.variables["z"].touches, strict=True):
        assert np.array_equal(mine, its)
    kernel = sm.Gibbs("z", sm.Exact())
    assert np.array_equal(draws(given, kernel, "z"), draws(rest, kernel, "z"))


def test_ready_models_keep_what_they_know():
    rng = np.random.default_rng(5)
    x = pd.DataFrame({"one": np.ones(60), "age": rng.normal(size=60)})
    given = sm.models.glm.poisson(x, rng.poisson(2.0, 60).astype(float))
    rest = given.without(GONE)
    assert rest.axes.label("beta", (1,)) == "beta[age]" and rest.columns == given.columns
    assert np.array_equal(rest.left_out(None), given.left_out(None)[KEPT])
    assert rest.simulate is given.simulate


# -------------------------------------------------------------------------------- what is refused
def of_number(state, data, n):
    return -0.5 * (data.y[n] - (state.mu[0] if n < 20 else state.b[0])) ** 2


def of_neighbour(state, data, n):
    before = data.y[n - 1] if n > 0 else 0.0
    return -0.5 * (data.y[n] - state.b[0] * before) ** 2


def of_own(state, data, n):
    return -0.5 * (data.y[n] - state.z[n]) ** 2


def with_mean(state, data, n, made):
    return -0.5 * (data.y[n] - state.b[0] * made[0]) ** 2


def mean_of_all(state, data):
    total = 0.0
    for n in range(len(data.y)):
        total += data.y[n]
    return (total / len(data.y),)


@pytest.mark.parametrize(
    ("function", "more"),
    [
        (of_number, {}), (of_neighbour, {}), (of_own, {"state": {"z": np.zeros(60)}}),
        (of_own, {"state": {"z": np.zeros(60, int)}, "support": {"z": 3}}),
        (with_mean, {"prepare": mean_of_all}),
    ],
)  # fmt: skip
def test_functions_of_more_than_their_row_are_refused(function, more):
    state = {"mu": 0.0, "b": 0.0}
    given = sm.Model(function, {"y": Y}, **{"state": state} | more)
    with pytest.raises(ValueError, match="it reads more than its own row"):
        given.without(GONE)


def of_own_column(state, data, n):
    return -0.5 * (data.y[n] - state.z[data.own[n]]) ** 2


def test_what_the_refusal_advises_is_taken():
    data = {"y": Y, "own": np.arange(60)}
    given = sm.Model(of_own_column, data, {"z": np.zeros(60)}, touches={"z": "own"})
    rest = given.without(GONE)
    assert rest.data.own.tolist() == KEPT.tolist() and rest.variables["z"].sites == 60


def test_a_neighbour_is_seen_among_millions(monkeypatch):
    monkeypatch.setattr("subsample_mcmc.target.reuse.subset.MOST", 10)
    y = np.random.default_rng(1).normal(size=5_000)
    given = sm.Model(of_neighbour, {"y": y}, {"mu": 0.0, "b": 0.0})
    with pytest.raises(ValueError, match=r"datum 1235 .*and it is datum 1234"):
        given.without([1234])


@pytest.mark.parametrize(("rows", "error", "words"), [
    ([60], ValueError, "rows has 60: rows are 0 .. 59"),
    ([-1], ValueError, "rows has -1"),
    (np.zeros(59, bool), ValueError, "give 60 booleans"),
    (np.arange(60), ValueError, "all 60 data would be left out"),
    ([0.5], TypeError, "give numbers of rows"),
    (3, TypeError, "give numbers of rows"),
])  # fmt: skip
def test_rows_that_are_none(rows, error, words):
    with pytest.raises(error, match=words):
        model().without(rows)


def test_models_of_series_and_partitions_are_refused():
    none = sm.Model(None, {"y": Y}, {"z": np.zeros(60, int)}, support={"z": 2})
    with pytest.raises(ValueError, match="nothing says what is left of it"):
        none.without([1])
    arch = sm.models.arch.ARCH(sm.models.arch.example_returns(60), (2, 3))
    with pytest.raises(ValueError, match="ARCH makes its data itself"):
        arch.without([1])
