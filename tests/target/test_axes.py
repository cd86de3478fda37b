"""Names of blocks' axes: what is taken, what is refused, and that they arrive wherever draws do."""

import pickle

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.axes import Axes, axes_of
from subsample_mcmc.target.layout import Block

TERMS = ["one", "age", "income"]


def blocks(**shapes):
    return [Block(name, False, shape, 0) for name, shape in shapes.items()]


def made(coords, dims, size=5, **shapes):
    return axes_of(coords, dims, blocks(**shapes), size, {}, {})


# ------------------------------------------------------------------------------------ what is taken
def test_labels_of_components():
    axes = made(
        {"term": TERMS, "when": np.array(["2024-01", "2024-02"], "M8[M]"), "k": [10, 20]},
        {"b": "term", "w": ("when", "k"), "free": ["rank"]},
        b=(3,), w=(2, 2), free=(4,), plain=(2, 2), mu=(),
    )  # fmt: skip
    assert [axes.label("b", [i]) for i in range(3)] == ["b[one]", "b[age]", "b[income]"]
    assert axes.label("w", (1, 0)) == "w[2024-02,10]"
    assert axes.label("free", (3,)) == "free[3]"  # an axis with a name, and no labels along it
    assert axes.label("plain", (0, 1)) == "plain[0,1]"
    assert axes.label("mu", ()) == "mu"
    assert axes.at(Block("w", False, (2, 2), 7), 2) == "w[2024-02,10]"
    assert axes.of("plain", 2) == ("plain_dim_0", "plain_dim_1")
    assert axes.of("free", 1) == ("rank",)
    assert set(axes.used(["b", "plain"])) == {"term"}


def test_a_header_gives_them_back():
    axes = made(
        {"a": np.array(["2024-01-01T10:00:00.5", "2024-01-02"], "M8[ms]"), "b": [0.1, 2.0],
         "c": ["x", "ü"], "d": np.array([3, 4], np.int16), "obs": range(5), "e": [True, False]},
        {name: name + "_"[:0] for name in ()} | {f"block_{name}": name for name in "abcde"},
        **{f"block_{name}": (2,) for name in "abcde"},
    )  # fmt: skip
    again = Axes.from_json(axes.to_json())
    assert again.dims == axes.dims
    for name, values in axes.coords.items():
        assert again.coords[name].dtype == values.dtype
        assert np.array_equal(again.coords[name], values)
    assert axes.label("block_e", [0]) == "block_e[True]"
    assert Axes.from_json({}) == Axes()


@pytest.mark.parametrize(("coords", "dims", "words"), [
    ({"term": TERMS[:2]}, {"b": "term"}, r"coords\['term'\] has shape \(2,\): give 3 labels"),
    ({"term": "abc"}, {"b": "term"}, "give 3 labels"),
    ({"tern": TERMS}, {"b": "term"}, r"no axis of any block.*Did you mean 'term'\?"),
    ({"obs": [1, 2]}, None, "give 5 labels, one for each place along this axis of the data"),
    ({"term": ["a", "b", "a"]}, {"b": "term"}, "the label 'a' twice, at 0 and 2"),
    ({"term": ["a", None, "c"]}, {"b": "term"}, "missing labels"),
    ({"term": [0.0, np.nan, 1.0]}, {"b": "term"}, "missing labels"),
    ({"term": np.array(["2024", "NaT", "2025"], "M8[Y]")}, {"b": "term"}, "missing labels"),
    (None, {"c": "term"}, "names 'c', which is no block"),
    (None, {"b": ["term", "other"]}, r"names 2 axes: block 'b' has 1, its shape is \(3,\)"),
    (None, {"mu": "term"}, "names 1 axes: block 'mu' has 0"),
    (None, {"b": "x/y"}, "cannot name an axis"),
    (None, {"b": [3]}, "cannot name an axis"),
    (None, {"b": "chain"}, "every block's draws have the name 'chain' already"),
    (None, {"b": "mu"}, "a block has the name 'mu' already"),
    (None, {"w": ("i", "i")}, "each axis needs a name of its own"),
    (None, {"b": "i", "w": ("i", "j")}, "axis 'i' has 3 places in block 'b' and 2 in block 'w'"),
    ([("term", TERMS)], {"b": "term"}, "give a dict, such as coords="),
    (None, ["term"], "give a dict, such as dims="),
])  # fmt: skip
def test_what_cannot_be(coords, dims, words):
    with pytest.raises((TypeError, ValueError), match=words):
        made(coords, dims, b=(3,), w=(2, 2), mu=())


def test_labels_are_the_models_own():
    labels = np.array([1, 2, 3])
    axes = made({"term": labels}, {"b": "term"}, b=(3,))
    labels[0] = 7
    assert axes.label("b", [0]) == "b[1]"
    with pytest.raises(ValueError, match="read-only"):
        axes.coords["term"][0] = 7


# ------------------------------------------------------------------------- taken by themselves
def regression(rng, size=400):
    x = pd.DataFrame({"one": np.ones(size), "age": rng.normal(size=size)})
    x["income"] = rng.normal(size=size)
    return x, x.age - 0.5 * x.income + 0.3 * rng.normal(size=size)


@pytest.mark.parametrize("family", ["gaussian", "student_t", "logistic", "poisson"])
@pytest.mark.parametrize("sigma", ["known", "unknown"])
def test_coefficients_have_the_names_of_columns(rng, family, sigma):
    x, eta = regression(rng)
    y = {"logistic": (eta > 0) * 1.0, "poisson": rng.poisson(np.exp(eta))}.get(family, eta)
    given = {"sigma": None} if sigma == "unknown" and family in ("gaussian", "student_t") else {}
    model = getattr(sm.models.glm, family)(x, y, **given)
    assert model.axes.label("beta", [1]) == "beta[age]"
    fit = sm.laplace(model, progress=False)
    assert fit.to_frame().index[:3].tolist() == ["beta[one]", "beta[age]", "beta[income]"]
    assert "beta[income]" in repr(fit)
    assert not getattr(sm.models.glm, family)(x.to_numpy(), y, **given).axes.dims


def test_scores_of_classes_have_names(rng):
    x, eta = regression(rng)
    y = np.digitize(eta + rng.normal(size=len(eta)), [-0.5, 0.5])
    assert sm.models.glm.softmax(x, y).axes.label("beta", (1, 2)) == "beta[2,income]"
    plain = sm.models.glm.softmax(x.to_numpy(), y)
    assert plain.axes.of("beta", 2) == ("class", "term")
    assert plain.axes.label("beta", (0, 1)) == "beta[1,1]"
    frame = x.set_axis(["a", "b", "a"], axis=1)
    assert sm.models.glm.gaussian(frame, eta).axes == Axes()  # two columns of one name


def test_arch_names_its_coefficients():
    model = sm.models.arch.ARCH(np.random.default_rng(1).normal(size=60), orders=(1, 3))
    names = [model.axes.label("theta", [i]) for i in range(5)]
    assert names == ["theta[nu]", "theta[a0]", "theta[a1]", "theta[a2]", "theta[a3]"]
    assert pickle.loads(pickle.dumps(model)).axes.dims == model.axes.dims


def seen(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2


def paired(state, data, n):
    e = state.a[data.group[n]] - state.a[data.other[n]]
    return -0.5 * (data.y[n] - e) ** 2


def normal(state):
    return -0.5 * (state.a[0] ** 2 + state.a[1] ** 2 + state.a[2] ** 2)


def ratings(rng, size=300):
    land = pd.Categorical(rng.choice(["fr", "de", "it"], size), categories=["it", "fr", "de"])
    return pd.DataFrame({"y": rng.normal(size=size) + 3.0 * land.codes, "group": land})


@pytest.mark.parametrize("kind", ["frame", "dict of series", "categoricals", "record"])
def test_sites_have_the_names_of_categories(rng, kind):
    frame = ratings(rng)
    data = {
        "frame": frame,
        "dict of series": {"y": frame.y, "group": frame.group},
        "categoricals": {"y": frame.y.to_numpy(), "group": frame.group.array},
        "record": sm.Model(seen, {"y": frame.y, "group": frame.group.cat.codes.astype(int)},
                           {"a": np.zeros(3)}).data._replace(group=frame.group),
    }[kind]  # fmt: skip
    model = sm.Model(seen, data, {"a": np.zeros(3)}, normal, touches={"a": "group"})
    assert model.axes.dims == {"a": ("group",)}
    assert model.axes.coords["group"].tolist() == ["it", "fr", "de"]
    assert np.array_equal(model.data.group, frame.group.cat.codes)
    trace = sm.sample(model, sm.Metropolis("a"), 300, 300, chains=2, seed=1, progress=False)
    assert trace.posterior.a.dims == ("chain", "draw", "group")
    means = {name: float(trace["a"].sel(group=name).mean()) for name in ("it", "fr", "de")}
    truth = frame.y.groupby(frame.group, observed=True).mean().to_dict()
    for name, value in means.items():  # a standard error of each: .1; these sites are 3 apart
        assert abs(value - truth[name]) < 0.5


def test_two_columns_of_sites(rng):
    frame = ratings(rng)
    frame["other"] = frame.group.sample(frac=1.0, random_state=1).array
    model = sm.Model(paired, frame, {"a": np.zeros(3)}, normal, touches={"a": ("group", "other")})
    assert model.axes.of("a", 1) == ("a_dim_0",)
    assert model.axes.label("a", [2]) == "a[de]"
    frame["other"] = frame.other.cat.reorder_categories(["de", "it", "fr"])
    with pytest.raises(ValueError, match="data other has other categories, or in another order"):
        sm.Model(paired, frame, {"a": np.zeros(3)}, normal, touches={"a": ("group", "other")})


def test_names_that_nobody_asked_for_stop_no_model(rng):
    frame = ratings(rng).rename(columns={"group": "obs"})

    def by_obs(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.obs[n]]) ** 2

    model = sm.Model(by_obs, frame, {"a": np.zeros(3)}, normal, touches={"a": "obs"})
    assert model.axes.label("a", [2]) == "a[de]" and model.axes.of("a", 1) == ("a_dim_0",)
    model = sm.Model(
        seen, ratings(rng), {"a": np.zeros(3), "c": np.zeros(5)}, normal,
        touches={"a": "group"}, dims={"c": "group"},
    )  # fmt: skip
    assert model.axes.of("a", 1) == ("a_dim_0",)


def test_one_axis_has_one_set_of_categories(rng):
    frame = ratings(rng)
    frame["row"] = pd.Categorical(rng.choice(["x", "y", "z"], len(frame)))

    def both(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.group[n]] - state.b[data.row[n]]) ** 2

    with pytest.raises(ValueError, match="axis 'g' of block 'b' has other categories"):
        sm.Model(
            both, frame, {"a": np.zeros(3), "b": np.zeros(3)}, normal,
            touches={"a": "group", "b": "row"}, dims={"a": "g", "b": "g"},
        )  # fmt: skip


def test_categories_and_names_of_ones_own(rng):
    frame = ratings(rng)
    common = dict(data=frame, state={"a": np.zeros(3)}, log_prior=normal, touches={"a": "group"})
    model = sm.Model(seen, dims={"a": "country"}, **common)
    assert model.axes.label("a", [1]) == "a[fr]" and model.axes.dims == {"a": ("country",)}
    model = sm.Model(seen, coords={"group": ["Italia", "France", "Germany"]}, **common)
    assert model.axes.label("a", [1]) == "a[France]"
    more = sm.Model(seen, frame, {"a": np.zeros(4)}, normal, touches={"a": "group"})
    assert more.axes == Axes()  # a site that has no category
    again = pickle.loads(pickle.dumps(model))
    assert again.axes.dims == model.axes.dims
    assert again.axes.coords["group"].tolist() == model.axes.coords["group"].tolist()


def test_categories_that_say_no_sites_are_refused(rng):
    frame = ratings(rng)
    with pytest.raises(TypeError, match=r"data group is a column of type category.*cat\.codes"):
        sm.Model(seen, frame, {"a": np.zeros(3)}, normal)
    frame.loc[7, "group"] = None
    with pytest.raises(ValueError, match="has 1 missing value, in row 7"):
        sm.Model(seen, frame, {"a": np.zeros(3)}, normal, touches={"a": "group"})
    two = ratings(rng)
    with pytest.raises(ValueError, match=r"block 'a' has sites 0 \.\. 1"):
        sm.Model(seen, two, {"a": np.zeros(2)}, None, touches={"a": "group"})


# -------------------------------------------------------------------------- wherever draws arrive
@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    x, eta = regression(rng)
    whole = sm.models.glm.gaussian(x, eta + rng.normal(size=len(eta)))
    names = [f"person {i}" for i in range(len(eta))]
    return sm.Model(
        whole.predictors, whole.data, {"beta": np.zeros(3)}, whole.log_prior,
        dims={"beta": "term"}, coords={"term": TERMS, "obs": names},
    )  # fmt: skip


def drawn(model, **more):
    kernel = sm.Metropolis("beta", selector=sm.Exact())
    return sm.sample(model, kernel, 60, 200, chains=2, seed=3, progress=False, **more)


def test_tables_and_pages_say_them(model):
    trace = drawn(model)
    assert trace.to_frame().columns.tolist() == ["chain", "draw", *(f"beta[{t}]" for t in TERMS)]
    assert trace.summary().index.tolist() == [f"beta[{t}]" for t in TERMS]
    assert "beta[income]" in trace.to_html() and "beta[income]" in trace._repr_html_()
    mixing = trace.mixing("beta")
    assert mixing.slowest in trace.summary().index and mixing.farthest in trace.summary().index
    ess = trace.summary()["ess_bulk"]
    assert mixing.slowest == ess.idxmin() and mixing.ess == pytest.approx(ess.min())
    warned = [w for w in trace.report().warnings if "ESS of" in w]
    assert warned and all(f"the ESS of {mixing.slowest} is" in w for w in warned)


def test_arviz_selects_by_them(model):
    trace = drawn(model)
    groups = trace.to_arviz(observed={"y": model.data.y}, log_likelihood=model, thin=10)
    chosen = groups["posterior"]["beta"].sel(term="age")
    assert np.array_equal(chosen.values, trace.draws["beta"][:, ::10, 1])
    assert groups["log_likelihood"]["y"].sel(obs="person 7").shape == (2, 6)
    assert float(groups["observed_data"]["y"].sel(obs="person 7")) == model.data.y[7]


@pytest.mark.parametrize("way", ["store", "save"])
def test_files_keep_them(model, tmp_path, way):
    import xarray

    path = tmp_path / "run.nc"
    if way == "store":
        trace = drawn(model, store=path)
    else:
        trace = drawn(model)
        trace.save(path)
    assert sm.load(path).to_frame().equals(trace.to_frame())
    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as read:
        assert read.beta.dims == ("chain", "draw", "term")
        assert read.term.values.tolist() == TERMS
        assert np.array_equal(read.beta.sel(term="age").values, trace.draws["beta"][..., 1])
    more = sm.resume(path, model, sm.Metropolis("beta", selector=sm.Exact()), draws=80)
    assert more.summary().index.tolist() == [f"beta[{t}]" for t in TERMS]


def flat(state, data, n):
    return -0.5 * (data.y[n] - state.a[0] - state.b[0, 1]) ** 2 - 1e-3 * state.c[1]


def test_every_kind_of_label_in_a_file(tmp_path, rng):
    """Times are read as times, numbers as numbers; two blocks may share an axis."""
    import xarray

    days = np.array(["2024-01-31", "2024-02-29"], "M8[D]")
    moments = pd.DatetimeIndex(["2024-01-31T10:00:00.000000001", "2024-02-29T00:00:00.000000000"])
    model = sm.Model(
        flat, {"y": rng.normal(size=50)},
        {"a": np.zeros(2), "b": np.zeros((2, 2)), "c": np.zeros(2)},
        lambda state: -0.5 * (state.a[0] ** 2 + state.b[0, 1] ** 2),
        dims={"a": "day", "b": ("moment", "dose"), "c": "day"},
        coords={"day": days, "moment": moments, "dose": [0.5, 1.0]},
    )  # fmt: skip
    path = tmp_path / "run.nc"
    kernel = sm.Metropolis(("a", "b", "c"), selector=sm.Exact(), adapt=False)
    trace = sm.sample(model, kernel, 10, 0, chains=1, seed=1, store=path, progress=False)
    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as read:
        assert np.array_equal(read.day.values, days)
        assert np.array_equal(read.moment.values, moments.to_numpy())
        assert read.dose.values.tolist() == [0.5, 1.0]
        assert read.a.dims[2:] == read.c.dims[2:] == ("day",)
    assert trace.axes.label("b", (1, 0)) == "b[2024-02-29,0.5]"
    assert trace.posterior.equals(drop_units(path))


def drop_units(path):
    import xarray

    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as read:
        return read.load()
