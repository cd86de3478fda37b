"""Data that a posterior predicts: their law, by names, on any number of cores; what is refused."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.marks import slow_but

BETA = np.array([0.4, -0.8])
COUNTS = ("poisson", "negative_binomial")


@sm.kernel(writes="beta")
def stay(rng, state, data):
    """Leaves all as it is, so that predictions are of one known state."""


def regression(family, **more):
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(30), rng.normal(size=30)])
    y = rng.integers(0, 3 if family == "softmax" else 2, 30)
    start = np.array([BETA, -BETA]) if family == "softmax" else BETA
    return getattr(sm.models.glm, family)(x, y, start=start, **more)


def still(model, draws, kernel=stay):
    if "log_sigma" in model.names:
        kernel = stay_with_scale
    return sm.sample(model, kernel, draws, 0, chains=2, seed=1, progress=False)


@sm.kernel(writes=("beta", "log_sigma"))
def stay_with_scale(rng, state, data):
    """The same."""


# ----------------------------------------------------------------------------------------- the law
def law(model, family):
    """The distribution of each datum at the state where chains stay."""
    beta = np.asarray(model.given[2]["beta"])
    eta = np.asarray(model.data.x) @ beta.T
    if family in COUNTS:
        mean = np.exp(eta + (model.data.offset if hasattr(model.data, "offset") else 0.0))
        r = getattr(model.data, "dispersion", None)
        return stats.poisson(mean) if r is None else stats.nbinom(r, r / (r + mean))
    if family == "binomial":
        return stats.binom(np.asarray(model.data.trials), 1.0 / (1.0 + np.exp(-eta)))
    if family == "logistic":
        return stats.bernoulli(1.0 / (1.0 + np.exp(-eta)))
    if family == "softmax":
        scores = np.exp(np.column_stack([np.zeros(30), eta]))
        return Classes(np.cumsum(scores / scores.sum(axis=1, keepdims=True), axis=1))
    sigma = (
        model.data.sigma if hasattr(model.data, "sigma") else np.exp(model.given[2]["log_sigma"])
    )
    return stats.norm(eta, sigma) if family == "gaussian" else stats.t(4.0, eta, sigma)


class Classes:
    """Distributions of classes by their cumulated probabilities."""

    def __init__(self, cumulated):
        self.cumulated = cumulated

    def cdf(self, y):
        padded = np.column_stack([np.zeros(30), self.cumulated])
        return np.take_along_axis(padded, np.atleast_2d(y).astype(int).T + 1, axis=1).T


def chance(model, family, made) -> float:
    """Of predictions that fit worse, by Kolmogorov and Smirnov: ranks are uniform if they fit."""
    rng = np.random.default_rng(8)
    known, flat = law(model, family), made.reshape(-1, 30)
    if family in ("gaussian", "student_t"):
        ranks = known.cdf(flat)
    else:  # within a step of the distribution, at random
        ranks = []
        for y in flat:
            top, bottom = np.ravel(known.cdf(y)), np.ravel(known.cdf(y - 1))
            ranks.append(bottom + rng.random(30) * (top - bottom))
    return float(stats.kstest(np.ravel(ranks), "uniform").pvalue)


FAMILIES = [
    ("gaussian", {"sigma": 0.7}), ("gaussian", {"sigma": None}), ("student_t", {"sigma": 0.7}),
    ("student_t", {"sigma": None}), ("logistic", {}), ("poisson", {}),
    ("binomial", {"trials": 1 + np.arange(30)}),
    ("poisson", {"offset": np.linspace(-1.0, 2.0, 30)}), ("negative_binomial", {"dispersion": 1.5}),
    ("softmax", {"classes": 3}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "more"),
    slow_but(FAMILIES[:5:2], FAMILIES),
    ids=[f"{n} {list(m)}" for n, m in FAMILIES],
)
def test_families_draw_their_own_data(family, more):
    """30,000 data each: shares off by .015 would be seen; a false alarm once in 10^6."""
    model = regression(family, **more)
    made = sm.predict(model, still(model, 500), seed=4, progress=False)
    assert made.dataset.y.shape == (2, 500, 30)
    assert chance(model, family, made.values[""]) > 1e-6


def twice_as_wide(rng, state, data, n):
    eta = data.x[n, 0] * state.beta[0] + data.x[n, 1] * state.beta[1]
    return eta + 1.1 * data.sigma * rng.standard_normal()


def test_another_law_is_seen():
    model = regression("gaussian", sigma=0.7)
    made = sm.predict(model, still(model, 500), twice_as_wide, seed=4, progress=False)
    assert chance(model, "gaussian", made.values[""]) < 1e-9
    model = regression("negative_binomial", dispersion=5.0)
    made = sm.predict(model, still(model, 500), seed=4, progress=False)
    assert chance(regression("poisson"), "poisson", made.values[""]) < 1e-9


def normal_datum(rng, state, data, n):
    return state.beta[0] + data.x[n, 1] * rng.standard_normal()


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(80), rng.normal(size=80)])
    model = sm.models.glm.gaussian(x, x @ BETA + rng.normal(size=80))
    kernel = sm.Metropolis("beta", selector=sm.Exact())
    return model, sm.sample(model, kernel, 40, 200, chains=2, seed=1, progress=False)


@pytest.mark.plain
def test_draws_are_those_of_their_states(drawn):
    model, trace = drawn
    made = sm.predict(model, trace, normal_datum, seed=6, progress=False).values[""]
    root = np.random.SeedSequence(6).entropy
    for c, i in ((0, 0), (0, 39), (1, 17)):
        stream = np.random.SeedSequence(root, spawn_key=(2**32 - 2, c, i))
        rng = np.random.default_rng(stream)
        z = np.array([rng.standard_normal() for _ in range(80)])
        wanted = trace.draws["beta"][c, i, 0] + model.data.x[:, 1] * z
        assert np.allclose(made[c, i], wanted, rtol=1e-14, atol=1e-14)


def test_cores_and_what_is_kept_change_nothing(drawn):
    model, trace = drawn
    made = sm.predict(model, trace, seed=6, progress=False)
    for cores in (1, 5):
        again = sm.predict(model, trace, seed=6, cores=cores, progress=False)
        assert np.array_equal(made.values[""], again.values[""])
    some = sm.predict(model, trace, seed=6, draws=9, progress=False)
    assert some.kept[0] == 0 and some.kept[-1] == 39 and len(some.kept) == 9
    assert np.array_equal(some.values[""], made.values[""][:, some.kept])
    asked = {"mean": np.mean, "ends": lambda y: y[[0, -1]]}
    told = sm.predict(model, trace, seed=6, statistics=asked, progress=False)
    assert np.array_equal(told.values["mean"], made.values[""].mean(axis=2))
    assert np.array_equal(told.dataset["ends"].values, made.values[""][..., [0, -1]])
    assert told.dataset["ends"].dims == ("chain", "draw", "ends_dim_0")
    assert not np.array_equal(made.values[""], sm.predict(model, trace, seed=7).values[""])


@sm.kernel(writes="a")
def leaves_it(rng, state, data):
    """Leaves the block as it is."""


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="as many numbers take too long in plain Python")
def test_statistics_take_no_memory_of_data_times_draws():
    """100,000 data of 600 draws are 480 MB: a few rows of them at a time are enough."""
    size, draws = 100_000, 600
    model = sm.Model(
        lambda state, data, n: -data.y[n] * state.a[0], {"y": np.ones(size)}, {"a": 2.0}
    )
    trace = sm.sample(model, leaves_it, draws // 2, chains=2, seed=1, progress=False)
    asked = {"mean": np.mean, "largest": np.max}

    def numbers(rng, state, data, n):
        return state.a[0] + rng.standard_normal()

    sm.predict(model, trace, numbers, draws=2, statistics=asked, progress=False)  # it compiles
    tracemalloc.start()
    try:
        said = sm.predict(model, trace, numbers, statistics=asked, seed=2, cores=2, progress=False)
        most = tracemalloc.get_traced_memory()[1]
        whole = sm.predict(model, trace, numbers, draws=20, seed=2, progress=False)
        all_of = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert whole.values[""].nbytes == 8 * 40 * size < all_of  # such arrays are seen
    assert most < 0.05 * 8 * size * draws, most
    error = 1.0 / np.sqrt(size * draws)
    assert abs(said.values["mean"].mean() - 2.0) < 5.0 * error


# --------------------------------------------------------------------------------- what is shown
def test_tables_tell_what_a_model_does_not_make(drawn):
    model, trace = drawn
    made = sm.predict(model, trace, seed=6, progress=False)
    table = made.summary()
    assert table.index.tolist() == ["mean", "sd", "least", "largest"]
    assert table.loc["largest", "observed"] == model.data.y.max()
    assert table.loc["mean", "mean"] == pytest.approx(made.values[""].mean(), abs=1e-12)
    share = np.mean(made.of(np.std) >= np.std(model.data.y))
    assert table.loc["sd", "P(>= observed)"] == share and 0.0 < share < 1.0
    far = sm.predict(model, trace, observed=model.data.y * 3.0, seed=6, progress=False).summary()
    assert far.loc["sd", "P(>= observed)"] == 0.0
    unseen = sm.predict(model, trace, data={"x": model.data.x[:5]}, seed=6, progress=False)
    assert unseen.observed is None and "observed" not in unseen.summary()
    assert repr(made) == "Predictions(2 chains x 40 draws: 80 data)"
    assert "<table" in made._repr_html_()


def test_what_is_the_same_as_observed_is_not_less(drawn):
    """Counts often are: the share of predicted data sets that are at least as large has them."""
    model, trace = drawn
    zeros = {"zeros": lambda y: float(np.sum(y == 0.0))}
    made = sm.predict(model, trace, statistics=zeros, seed=6, progress=False)
    assert made.summary().loc["zeros", "observed"] == made.summary().loc["zeros", "mean"] == 0.0
    assert made.summary().loc["zeros", "P(>= observed)"] == 1.0


def test_arviz_finds_them(drawn):
    model, trace = drawn
    found = sm.predict(model, trace, draws=10, seed=6, progress=False).to_arviz()
    group = found["posterior_predictive"]
    assert group["y"].dims == ("chain", "draw", "obs")
    assert np.array_equal(group["draw"].values, found["posterior"]["draw"].values)
    assert np.array_equal(found["observed_data"]["y"].values, model.data.y)
    new = sm.predict(model, trace, data=model.data._asdict(), seed=6, progress=False).to_arviz()
    assert np.array_equal(new["predictions"]["y"].values.shape, (2, 40, 80))


def test_figures_show_them(drawn):
    plt = pytest.importorskip("matplotlib.pyplot")
    model, trace = drawn
    (axes,) = sm.predict(model, trace, seed=6, progress=False).plot()
    assert axes.get_legend_handles_labels()[1] == ["predicted, 90%", "predicted, mean", "observed"]
    told = sm.predict(model, trace, seed=6, statistics={"a": np.mean, "b": np.max}, progress=False)
    panels = told.plot()
    assert [panel.get_xlabel() for panel in panels] == ["a", "b"]
    assert "observed" in panels[0].get_legend_handles_labels()[1][0]
    plt.close("all")


# ------------------------------------------------------------------------------------ other data
def of_group(rng, state, data, n):
    return state.a[data.group[n]] + 5.0 * (rng.random() < 0.5)


def seen(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2


@sm.kernel(writes="a")
def stay_a(rng, state, data):
    """Leaves all as it is."""


def grouped():
    group = pd.Categorical(["b", "a", "c", "a"], categories=["c", "a", "b"])
    frame = pd.DataFrame({"y": np.arange(4.0), "group": group})
    model = sm.Model(seen, frame, {"a": [10.0, 20.0, 30.0]}, touches={"a": "group"})
    return model, sm.sample(model, stay_a, 5, 0, chains=1, seed=1, progress=False)


@pytest.mark.parametrize("kind", ["categories", "text", "other order", "frame", "codes"])
def test_groups_are_found_by_their_names(kind):
    model, trace = grouped()
    names = ["a", "b", "b"]
    data = {
        "categories": {"group": pd.Categorical(names, categories=["c", "a", "b"])},
        "text": {"group": np.array(names)},
        "other order": {"group": pd.Series(names, dtype="category")},  # a, b: 0, 1
        "frame": pd.DataFrame({"more": [1, 2, 3], "group": names}),
        "codes": {"group": np.array([1, 2, 2])},
    }[kind]
    made = sm.predict(model, trace, of_group, data=data, progress=False).values[""]
    assert set(np.ravel(made - [20.0, 30.0, 30.0])) == {0.0, 5.0}


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
@pytest.mark.parametrize("other", ["ns", "s"])
def test_dates_are_categories_in_any_unit(unit, other):
    days = pd.to_datetime(["2024-01-03", "2024-01-01", "2024-02-01", "2024-01-03"])
    frame = pd.DataFrame({"y": np.arange(4.0), "group": pd.Categorical(days.as_unit(unit))})
    model = sm.Model(seen, frame, {"a": [10.0, 20.0, 30.0]}, touches={"a": "group"})
    trace = sm.sample(model, stay_a, 5, 0, chains=1, seed=1, progress=False)
    new = days[:3].as_unit(other)
    for group in (pd.Categorical(new), pd.Series(new), new.to_numpy(), list(new)):
        made = sm.predict(model, trace, of_group, data={"group": group}, progress=False).values[""]
        assert set(np.ravel(made - [20.0, 10.0, 30.0])) == {0.0, 5.0}
    for late in (new + pd.Timedelta("1ms"), new.to_numpy() + np.timedelta64(1, "ms")):
        with pytest.raises(ValueError, match=r"data group is .* the model does not know"):
            sm.predict(model, trace, of_group, data={"group": late}, progress=False)


def test_columns_are_found_by_their_names(rng):
    x = pd.DataFrame({"one": np.ones(50), "age": rng.normal(size=50)})
    model = sm.models.glm.gaussian(x, 5.0 * x.age, sigma=1e-6, start=[0.0, 5.0])
    trace = still(model, 3)
    new = pd.DataFrame({"age": [1.0, 2.0], "one": [1.0, 1.0]})
    made = sm.predict(model, trace, data={"x": new}, progress=False).values[""]
    assert np.allclose(made, [5.0, 10.0], atol=1e-4)
    with pytest.raises(ValueError, match=r"columns \['age', 'sex'\]: the model was given"):
        sm.predict(model, trace, data={"x": new.set_axis(["age", "sex"], axis=1)})


def test_numbers_that_are_categories_are_labels_not_codes():
    frame = pd.DataFrame({"y": np.zeros(3), "group": pd.Categorical([1, 2, 3])})
    model = sm.Model(seen, frame, {"a": [10.0, 20.0, 30.0]}, touches={"a": "group"})
    trace = sm.sample(model, stay_a, 5, 0, chains=1, seed=1, progress=False)
    for group in (pd.Series([1, 2, 1]), pd.Categorical([1, 2, 1])):
        made = sm.predict(model, trace, of_group, data={"group": group}, progress=False).values[""]
        assert set(np.ravel(made - [10.0, 20.0, 10.0])) == {0.0, 5.0}


def test_numbers_that_may_be_codes_or_texts_are_refused():
    frame = pd.DataFrame({"y": np.zeros(3), "group": pd.Categorical(["1", "2", "3"])})
    model = sm.Model(seen, frame, {"a": [10.0, 20.0, 30.0]}, touches={"a": "group"})
    trace = sm.sample(model, stay_a, 5, 0, chains=1, seed=1, progress=False)
    told = "data group has the number 1: is it a code, the category '2', or the category '1'"
    with pytest.raises(ValueError, match=told):
        sm.predict(model, trace, of_group, data={"group": np.array([1, 2])}, progress=False)
    made = sm.predict(model, trace, of_group, data={"group": ["1", "2"]}, progress=False)
    assert set(np.ravel(made.values[""] - [10.0, 20.0])) == {0.0, 5.0}


def test_labels_are_of_a_run(tmp_path):
    """Codes alone would be the same, and mean something else."""
    model, trace = grouped()
    trace.save(tmp_path / "run.nc")
    other = pd.DataFrame({"y": np.arange(4.0), "group": pd.Categorical.from_codes(
        [2, 1, 0, 1], ["x", "y", "z"])})  # fmt: skip
    twin = sm.Model(seen, other, {"a": [10.0, 20.0, 30.0]}, touches={"a": "group"})
    assert np.array_equal(twin.data.group, model.data.group)
    with pytest.raises(ValueError, match="its labels of data group differ"):
        sm.predict(twin, trace, of_group, progress=False)
    with pytest.raises(ValueError, match="changed since it was started: labels of data group"):
        sm.resume(tmp_path / "run.nc", twin, stay_a, draws=9, progress=False)


def test_new_data_are_as_the_model_would_take_them(rng):
    x, trials = rng.normal(size=(40, 1)), np.full(40, 5.0)
    model = sm.models.glm.binomial(x, np.zeros(40), trials, start=[-1.0])
    trace = still(model, 3)
    for wrong in (2.5, -3.0):
        data = {"x": x[:2], "trials": np.array([4.0, wrong])}
        with pytest.raises(sm.RewardError, match="simulate is nan at datum 1"):
            sm.predict(model, trace, data=data, progress=False)
    with pytest.raises(ValueError, match="data x has 1 infinite value, in row 1"):
        sm.predict(model, trace, data={"x": np.array([[0.0], [np.inf]]), "trials": np.full(2, 5.0)})


def test_matrices_of_ones_own_are_put_by_their_columns(rng):
    x = pd.DataFrame({"p": rng.normal(size=40), "q": rng.normal(size=40)})

    def likelihood(state, data, n):
        return -0.5 * (data.y[n] - data.x[n, 0] * state.b[0]) ** 2

    def simulated(rng, state, data, n):
        return data.x[n, 0] + 100.0 * data.x[n, 1] + 0.0 * rng.random()

    model = sm.Model(likelihood, {"x": x, "y": np.zeros(40)}, {"b": 0.0}, simulate=simulated)
    kernel = sm.Metropolis("b", selector=sm.Exact(), adapt=False)
    trace = sm.sample(model, kernel, 3, 0, chains=1, seed=1, progress=False)
    made = sm.predict(model, trace, data={"x": x[["q", "p"]][:5]}, progress=False).values[""]
    assert np.allclose(made, x.p[:5] + 100.0 * x.q[:5])
    for columns in ([np.ones(5), x.p[:5], x.q[:5]], [x.p[:5]]):  # more of them went unseen
        with pytest.raises(ValueError, match=r"data x has shape .* and \(2,\) in the model"):
            sm.predict(model, trace, data={"x": np.column_stack(columns)}, progress=False)


@pytest.mark.parametrize("family", ["logistic", "binomial", "poisson", "softmax"])
def test_missing_values_and_endless_rates_are_told_of(family):
    more = {"trials": 5} if family == "binomial" else {}
    model = regression(family, **more)
    trace = still(model, 2)
    x = np.array(model.data.x)[:4]
    rest = {"trials": np.full(4, 5.0)} if family == "binomial" else {}
    with pytest.raises(ValueError, match="data x has 1 missing value"):
        sm.predict(model, trace, data={"x": np.where(np.eye(4, 2), np.nan, x)[:1], **{
            k: v[:1] for k, v in rest.items()}})  # fmt: skip
    if family == "poisson":
        with pytest.raises(sm.RewardError, match="simulate is nan at datum 2"):
            sm.predict(model, trace, data={"x": x * np.array([1.0, 1.0, 200.0, 1.0])[:, None]})


def test_statistics_may_not_change_the_data(drawn):
    model, trace = drawn

    def centred(y):
        y -= y.mean()
        return y.std()

    with pytest.raises(ValueError, match="read-only"):
        sm.predict(model, trace, statistics={"sd": centred}, progress=False)


# -------------------------------------------------------------------------------- what is refused
def beyond(rng, state, data, n):
    return state.a[data.group[n] + 1]


def reads_y(rng, state, data, n):
    return data.y[n] + rng.random()


def nowhere(rng, state, data, n):
    return np.nan if data.y[n] > 2.5 else 0.0


def broken(rng, state, data, n):
    return data.nothing[n]


def no_number(rng, state, data, n):
    return None


@pytest.mark.parametrize(("given", "error", "words"), [
    ({"simulate": None}, TypeError, "does not say how a datum is drawn"),
    ({"data": {"group": ["a", "x"]}}, ValueError, "data group is 'x' in row 1, which the model"),
    ({"data": {"grup": [1]}}, ValueError, r"'grup' is none of the model's.*Did you mean 'group'"),
    ({"data": {"group": [3, 0]}}, IndexError, "at datum 0 .* asks for index 3"),
    ({"data": {"group": np.array([1, 2, 0, 7])}}, IndexError, r"3 \(group=7\), draw 0 .* index 7"),
    ({"data": [1, 2]}, TypeError, "give a dict of arrays, or a data frame"),
    ({"simulate": beyond}, IndexError, "at datum 0 .* asks for index 3"),
    ({"simulate": reads_y, "data": {"group": [0]}}, ValueError, "data has no column 'y'"),
    ({"simulate": nowhere}, sm.RewardError, r"simulate is nan at datum 3 \(y=3, group=1\), draw 0"),
    ({"simulate": broken}, AttributeError, "nothing"),
    ({"simulate": no_number}, TypeError, "returned None"),
    ({"simulate": lambda state, data, n: 0.0}, TypeError, "does not take the 4 arguments"),
    ({"observed": np.zeros(3)}, ValueError, r"observed has shape \(3,\): 4 data are predicted"),
    ({"statistics": [np.mean]}, TypeError, "give functions of a data set by name"),
    ({"statistics": {"all": lambda y: y}}, ValueError, "leave statistics out to keep whole"),
    ({"statistics": {"text": lambda y: "a"}}, TypeError, "it must return numbers"),
    ({"statistics": lambda y: y[: 1 + int(y[0] > 32.0)]}, ValueError, "must be the same of all"),
    ({"draws": 0}, ValueError, "draws"),
])  # fmt: skip
def test_what_cannot_be_predicted(given, error, words):
    model, trace = grouped()
    with pytest.raises(error, match=words):
        sm.predict(model, trace, **{"simulate": of_group, "progress": False, "seed": 3} | given)


def test_other_models_and_too_many_data_are_refused(drawn, monkeypatch):
    model, trace = drawn
    with pytest.raises(ValueError, match="is not the model that was sampled"):
        sm.predict(grouped()[0], trace, of_group)
    with pytest.raises(TypeError, match="give the Trace"):
        sm.predict(model, model)
    monkeypatch.setattr("subsample_mcmc.runs.predict.LIMIT", 80 * 2 * 8 * 7)
    with pytest.raises(ValueError, match=r"Give draws=7, or statistics="):
        sm.predict(model, trace)
    assert sm.predict(model, trace, draws=7, progress=False).values[""].shape == (2, 7, 80)
    with pytest.raises(ValueError, match="only mean of each data set were kept"):
        sm.predict(model, trace, statistics={"mean": np.mean}, progress=False).of(np.std)


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_what_does_not_compile_is_told(drawn):
    from scipy.special import gammaln

    def with_scipy(rng, state, data, n):
        return gammaln(2.0 + rng.random())

    with pytest.raises(sm.CompileError, match="with_scipy cannot be compiled"):
        sm.predict(*drawn, with_scipy, progress=False)


def test_draws_of_tilted_chains_are_told_of():
    def likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.k[0]) ** 2

    def simulated(rng, state, data, n):
        return state.k[0] + rng.standard_normal()

    model = sm.Model(likelihood, {"y": np.zeros(30)}, {"k": 0}, support={"k": 3},
                     simulate=simulated)  # fmt: skip
    kernel = sm.Gibbs("k", selector=sm.Exact()) >> sm.WangLandau("k")
    trace = sm.sample(model, kernel, 50, 500, chains=1, seed=1, progress=False)
    with pytest.warns(UserWarning, match="k: these draws are not from the posterior"):
        sm.predict(model, trace, progress=False)
    assert trace.summary().index.names == ["chain", None]  # a law of its own for each


@pytest.mark.parametrize("column", ["count", "index"])
def test_a_column_may_be_named_as_methods_of_tuples_are(column):
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.x[n] - state.mu[0]) ** 2,
        {"x": np.linspace(0.0, 1.0, 50), column: np.arange(50)},
        {"mu": 0.0}, simulate=lambda rng, state, data, n: state.mu[0] + data.x[n],
    )  # fmt: skip
    trace = sm.sample(model, sm.Slice("mu"), 20, 20, chains=1, seed=1, progress=False)
    said = sm.predict(model, trace, data={"x": np.zeros(3)}, seed=1, progress=False)
    assert np.allclose(said.values[""], trace["mu"].to_numpy()[:, :, None])


def test_tables_are_those_of_the_model():
    """What stands beside the rows is not looked for in other data."""
    data = {"y": np.zeros(6), "shop": np.array([0, 1, 2, 0, 1, 2])}

    def seen_price(state, data, n):
        return -0.5 * (data.y[n] - state.a[0] * data.price[data.shop[n]]) ** 2

    def drawn_price(rng, state, data, n):
        return data.price[data.shop[n]] + 0.0 * rng.random()

    model = sm.Model(seen_price, data, {"a": [1.0]}, tables={"price": np.array([3.0, 5.0, 7.0])})
    trace = sm.sample(model, stay_a, 5, 0, chains=1, seed=1, progress=False)
    new = {"shop": np.array([2, 0])}
    made = sm.predict(model, trace, drawn_price, data=new, progress=False).values[""]
    assert np.array_equal(np.unique(made, axis=1), [[[7.0, 3.0]]])
    with pytest.raises(IndexError, match="shop"):
        sm.predict(model, trace, drawn_price, data={"shop": np.array([3])}, progress=False)


def test_a_column_that_new_data_lack_is_named():
    """Not a look-up beyond a table: the model's columns are no tables to its user."""
    x = np.random.default_rng(0).standard_normal(50)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.b[0] * data.x[n]) ** 2,
        {"x": x, "y": x}, {"b": 0.0},
        simulate=lambda rng, state, data, n: rng.normal(state.b[0] * data.x[n]),
    )  # fmt: skip
    kernel = sm.Metropolis("b", selector=sm.Exact())
    trace = sm.sample(model, kernel, draws=10, warmup=10, chains=1, seed=1, progress=False)
    with pytest.raises(ValueError, match=r"no column 'x', which simulate reads: give data=\{'x'"):
        sm.predict(model, trace, data={"y": x[:5]}, progress=False)
    assert sm.predict(model, trace, data={"x": x[:5]}, progress=False).values[""].shape[-1] == 5
