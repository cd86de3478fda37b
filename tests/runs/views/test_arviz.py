"""Traces in ArviZ, of either major version, and in pandas: log likelihoods above all."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.runs.views import log_likelihoods
from subsample_mcmc.target.layout import TALLY, Layout

N = 120


# ------------------------------------------------------------------- two models, really sampled
def log_likelihood(state, data, n):
    """Student-t or normal, with all constants."""
    z = (data.y[n] - state.mu[0]) / state.sigma[0]
    if data.heavy > 0.0:  # 3 degrees of freedom
        return -2.0 * sm.log1p(z * z / 3.0) - sm.log(state.sigma[0]) + data.constant
    return -0.5 * z * z - sm.log(state.sigma[0]) + data.constant


def log_prior(state):
    return -0.01 * state.mu[0] ** 2 - state.sigma[0]


def law(heavy):
    return stats.t(3) if heavy else stats.norm()


def model_of(y, heavy, mu=0.0):
    data = {"y": y, "heavy": float(heavy), "constant": law(heavy).logpdf(0.0)}
    return sm.Model(
        log_likelihood, data, {"mu": mu, "sigma": 1.0}, log_prior,
        constraints={"sigma": sm.positive},
    )  # fmt: skip


@pytest.fixture(scope="module")
def y():
    return np.random.default_rng(1).standard_t(3, N) + 0.5


@pytest.fixture(scope="module")
def models(y):
    return {"normal": model_of(y, False), "student": model_of(y, True)}


@pytest.fixture(scope="module")
def traces(models):
    selector = sm.Exact()
    kernel = sm.Metropolis("mu", selector=selector) >> sm.Metropolis("sigma", selector=selector)
    options = {"draws": 400, "warmup": 200, "chains": 2, "seed": 1, "progress": False}
    return {name: sm.sample(model, kernel, **options) for name, model in models.items()}


def values_of(trace, y, heavy):
    """The same by numpy and scipy: (chains, draws, N)."""
    mu, sigma = (trace.draws[name][..., None] for name in ("mu", "sigma"))
    return law(heavy).logpdf((y - mu) / sigma) - np.log(sigma)


@pytest.mark.parametrize("name", ["normal", "student"])
def test_log_likelihoods_are_those_of_every_datum_and_draw(traces, models, y, name):
    made = traces[name].to_arviz(log_likelihood=models[name])
    found = made["log_likelihood"]["log_likelihood"]
    assert found.dims == ("chain", "draw", "obs") and found.shape == (2, 400, N)
    np.testing.assert_allclose(found, values_of(traces[name], y, name == "student"), atol=1e-9)
    np.testing.assert_array_equal(made["log_likelihood"]["draw"], made["posterior"]["draw"])
    np.testing.assert_array_equal(made["posterior"]["mu"], traces[name].draws["mu"])


def test_they_are_named_as_what_was_observed(traces, models, y):
    student, model = traces["student"], models["student"]
    made = student.to_arviz(observed={"y": y}, log_likelihood=model)
    assert list(made["log_likelihood"].data_vars) == ["y"]
    assert made["observed_data"]["y"].dims == ("obs",)
    made = student.to_arviz(observed={"y": y, "u": np.zeros((N, 2))}, log_likelihood=model)
    assert list(made["log_likelihood"].data_vars) == ["log_likelihood"]
    assert made["observed_data"]["u"].dims == ("obs", "u_dim_1")
    made = student.to_arviz(observed={"y": y})
    assert made["observed_data"]["y"].dims == ("y_dim_0",)
    assert "log_likelihood" not in dir(made) and "log_likelihood" not in list(made)


@pytest.mark.filterwarnings("ignore")  # of ArviZ and matplotlib about each other
def test_arviz_works_on_what_it_gets(traces, models, y):
    az = pytest.importorskip("arviz")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    made = {name: trace.to_arviz(log_likelihood=models[name]) for name, trace in traces.items()}
    table = az.summary(made["student"])
    assert list(table.index) == ["mu", "sigma"]
    first = float(table.loc["mu", "mean"])  # rounded, and on ArviZ 1 perhaps text
    assert first == pytest.approx(traces["student"].draws["mu"].mean(), abs=0.006)
    az.plot_trace(made["student"])
    pyplot.close("all")
    compared = az.compare(made)
    assert list(compared.index) == ["student", "normal"]
    (column,) = [c for c in ("elpd_loo", "elpd") if c in compared.columns]
    assert compared.loc["normal", column] < compared.loc["student", column]  # ArviZ 1 rounds
    for name, trace in traces.items():
        own = made[name].copy()  # the same container, its values by numpy
        own["log_likelihood"]["log_likelihood"][...] = values_of(trace, y, name == "student")
        elpd, expected = (getattr(az.loo(one), column) for one in (made[name], own))
        assert elpd == pytest.approx(expected, rel=1e-9)
        assert elpd < values_of(trace, y, name == "student").mean(axis=(0, 1)).sum()


def test_places_along_axes_have_numbers_as_arviz_gives_them(y):
    """az.plot_rank of ArviZ 1 looks for them, in every group."""
    model = sm.Model(
        lambda state, data, n: -((data.y[n] - state.b[1, 0]) ** 2),
        {"y": y, "x": np.zeros((len(y), 2))}, {"b": np.zeros((2, 3)), "named": np.zeros(2)},
        dims={"named": "term"}, coords={"term": ["one", "age"]},
    )  # fmt: skip
    kernel = sm.Metropolis("b", adapt=False) >> sm.Metropolis("named", adapt=False)
    trace = sm.sample(model, kernel, draws=4, warmup=0, chains=2, seed=1, progress=False)
    seen = {"y": y, "x": np.zeros((len(y), 2))}
    made = trace.to_arviz(observed=seen, log_likelihood=model)
    for group in ("posterior", "sample_stats", "log_likelihood", "observed_data"):
        for axis, length in made[group].sizes.items():
            places = made[group].coords[axis].values
            assert places.tolist() == (["one", "age"] if axis == "term" else list(range(length)))
    assert {"b_dim_0", "b_dim_1", "term"} <= set(made["posterior"].sizes)


def test_netcdf_keeps_them(traces, models, tmp_path):
    az = pytest.importorskip("arviz")
    made = traces["student"].to_arviz(log_likelihood=models["student"])
    made.to_netcdf(str(tmp_path / "run.nc"))
    back = az.from_netcdf(str(tmp_path / "run.nc"))
    kept = back["log_likelihood"]["log_likelihood"].values
    np.testing.assert_array_equal(kept, made["log_likelihood"]["log_likelihood"].values)


def test_thin_keeps_evenly_spaced_draws_of_all_groups(traces, models):
    trace, model = traces["student"], models["student"]
    every, some = (trace.to_arviz(log_likelihood=model, thin=k) for k in (1, 7))
    for group in ("posterior", "sample_stats", "decisions", "log_likelihood"):
        np.testing.assert_array_equal(some[group]["draw"], np.arange(0, 400, 7))
        for name, values in every[group].data_vars.items():
            np.testing.assert_array_equal(some[group][name], values[:, ::7])
    with pytest.raises(ValueError, match=r"thin=0: give 1 for every draw"):
        trace.to_arviz(thin=0)


def test_too_much_is_refused_with_what_would_do(traces, models, monkeypatch):
    trace, model = traces["student"], models["student"]
    monkeypatch.setattr(log_likelihoods, "LIMIT", 8 * 2 * N * 100)  # a hundred draws of both chains
    told = r"2 x 400 draws x 120 data are 0.000768 GB; at most 0.000192 GB .* thin=4\)"
    with pytest.raises(ValueError, match=told):
        trace.to_arviz(log_likelihood=model)
    assert trace.to_arviz(log_likelihood=model, thin=4)["log_likelihood"].sizes["draw"] == 100
    with pytest.raises(ValueError, match=r"thin=4\)"):
        trace.to_arviz(log_likelihood=model, thin=3)
    monkeypatch.setattr(log_likelihoods, "LIMIT", 8 * 2 * N - 1)
    with pytest.raises(ValueError, match=r"even one draw of each chain is too many"):
        trace.to_arviz(log_likelihood=model, thin=400)


def test_a_bar_is_shown_on_demand(traces, models, capsys):
    traces["student"].to_arviz(log_likelihood=models["student"], progress=True)
    assert "log likelihoods" in capsys.readouterr().err
    traces["student"].to_arviz(log_likelihood=models["student"])
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------------ is it the same model
def other_likelihood(state, data, n):
    return -abs(data.y[n] - state.mu[0]) / state.sigma[0]


def test_only_the_model_that_was_sampled_will_do(traces, models, y):
    trace, given = traces["student"], models["student"]
    told = r"is not the model that was sampled: its "
    for wrong, part in {
        models["normal"]: "data heavy, data constant differ",
        model_of(y + 1.0, True): "data y differ",
        sm.Model(*given.given[:3], None, constraints={"sigma": sm.positive}): "log_prior differ",
        sm.Model(other_likelihood, *given.given[1:]): "log_likelihood differ",
        sm.Model(*given.given[:4]): "block sigma differ",
        sm.Model(*given.given[:2], {"mu": [0.0], "sigma": 1.0}, log_prior):
            r"blocks are mu\[1\], sigma\[\], those of the draws mu\[\], sigma\[\]",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=told + part):
            trace.to_arviz(log_likelihood=wrong)
    trace.to_arviz(log_likelihood=model_of(y.copy(), True, mu=1.0), thin=100)  # another start
    none = sm.Model(None, {"y": y}, {"z": np.zeros(N, int)}, support={"z": 2})
    with pytest.raises(ValueError, match="has no log_likelihood of single data"):
        trace.to_arviz(log_likelihood=none)
    with pytest.raises(TypeError, match=r"log_likelihood=True: give the sm.Model that was sampled"):
        trace.to_arviz(log_likelihood=True)


def test_a_stored_run_knows_its_model(traces, models, y, tmp_path):
    traces["student"].save(tmp_path / "run.nc")
    stored = sm.load(tmp_path / "run.nc")
    made = stored.to_arviz(log_likelihood=models["student"], thin=50)["log_likelihood"]
    assert made["log_likelihood"].shape == (2, 8, N)
    # Hashes of functions are those of one Python: with another, data and blocks are compared.
    stored.meta["fingerprints"] |= {"version of Python": "3.0", "log_likelihood": "of 3.0"}
    stored.to_arviz(log_likelihood=models["student"], thin=50)
    with pytest.raises(ValueError, match="its data y differ"):
        stored.to_arviz(log_likelihood=model_of(y + 1.0, True), thin=50)


# ------------------------------------------------------------- models of other forms, any draws
def trace_of(model, draws, kernels=()):
    """A trace of these draws, {block: (chains, draws, ...)}; no kernel ran."""
    layout = Layout(model.blocks, ())
    shape = next(iter(draws.values())).shape[:2]
    parts: dict[bool, list] = {True: [np.zeros((*shape, 0), int)], False: [np.zeros((*shape, 0))]}
    for block in model.blocks:
        parts[block.discrete].append(draws[block.name].reshape(*shape, block.length))
    ints, floats = (np.concatenate(parts[discrete], axis=2) for discrete in (True, False))
    meta = {
        "layout": layout.to_json(), "kernels": list(kernels), "guarantee": "exact",
        "version": sm.__version__, "seed": "1", "fingerprints": model.fingerprints(),
    }  # fmt: skip
    words = np.zeros((shape[1], 1), dtype=np.int64)
    chains = [
        SimpleNamespace(ints=ints[c], floats=floats[c], words=words, seconds=1.0)
        for c in range(shape[0])
    ]
    return Trace(meta, chains)


def pointwise(trace, model, **options):
    made = trace.to_arviz(log_likelihood=model, **options)
    return made["log_likelihood"]["log_likelihood"].values


def with_shares(state, data, n, prepared):
    return prepared[0] + prepared[1] * data.y[n] + state.w[state.k[0], 1]


def shares(state, data):
    return sm.log(state.w[0, 0]), float(state.k[0])


@pytest.mark.plain
def test_models_that_prepare(rng):
    y, w = rng.normal(size=40), rng.uniform(1, 2, size=(2, 15, 3, 2))
    k = rng.integers(0, 3, size=(2, 15))
    model = sm.Model(
        with_shares, {"y": y}, {"w": np.ones((3, 2)), "k": 0}, support={"k": 3}, prepare=shares
    )
    chosen = np.take_along_axis(w[..., 1], k[..., None], 2)
    expected = np.log(w[:, :, :1, 0]) + k[..., None] * y + chosen
    found = pointwise(trace_of(model, {"w": w, "k": k}), model)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def polynomial(state, data, n):
    mean, power = 0.0, 1.0
    for j in range(state.q[0] + 1):
        mean += state.theta[j] * power
        power *= data.x[n]
    return -0.5 * (data.y[n] - mean) ** 2


@pytest.mark.plain
def test_models_of_unequal_length(rng):
    x, y = rng.normal(size=(2, 40))
    q, theta = rng.integers(0, 3, size=(2, 15)), rng.normal(size=(2, 15, 3))
    theta[q < 2, 2], theta[q < 1, 1] = 0.0, 0.0  # what is not in use stands still
    model = sm.Model(
        polynomial, {"x": x, "y": y}, {"q": 0, "theta": np.zeros(3)}, support={"q": 3},
        lengths={"theta": ("q", [1, 2, 3])},
    )  # fmt: skip
    expected = -0.5 * (y - theta @ np.array([x**0, x, x**2])) ** 2
    trace = trace_of(model, {"q": q, "theta": theta})
    np.testing.assert_allclose(pointwise(trace, model), expected, atol=1e-12)
    kernels = [{"label": "tilt", "kind": "WangLandau", "block": "q"}]
    tilted = trace_of(model, {"q": q, "theta": theta}, kernels)
    with pytest.warns(UserWarning, match=r"WangLandau tilted q, .* not from the posterior"):
        pointwise(tilted, model)


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_log_likelihoods_of_counts_are_log_probabilities(rng, family):
    """Chains do not read the Gamma functions of y, by which such models are compared."""
    x, beta = rng.normal(size=(40, 3)), 0.3 * rng.normal(size=(2, 15, 3))
    y, offset = rng.poisson(3.0, size=40).astype(float), rng.uniform(0.0, 1.0, size=40)
    mean = np.exp(np.einsum("nj,cdj->cdn", x, beta) + offset)
    if family == "poisson":
        model, law = sm.models.glm.poisson(x, y, offset), stats.poisson(mean)
    else:
        model = sm.models.glm.negative_binomial(x, y, 2.5, offset)
        law = stats.nbinom(2.5, 2.5 / (2.5 + mean))
    found = pointwise(trace_of(model, {"beta": beta}), model)
    np.testing.assert_allclose(found, law.logpmf(y), rtol=1e-10, atol=1e-10)


def test_log_likelihoods_of_arch_are_log_densities(rng):
    returns = sm.models.arch.example_returns(60)
    model = sm.models.arch.ARCH(returns, (2, 3))
    theta = rng.uniform(0.5, 2.0, size=(1, 5, 5))
    theta[..., 0] += 3.0
    q = np.array([[0, 1, 1, 0, 1]])
    found = pointwise(trace_of(model, {"q": q, "theta": theta}), model)
    r = np.asarray(returns)
    for d, k in enumerate(q[0]):
        order = (2, 3)[k]
        past = np.stack([r[3 - j : len(r) - j] for j in range(1, order + 1)])
        h = theta[0, d, 1] + theta[0, d, 2 : order + 2] @ past**2
        wanted = stats.t(theta[0, d, 0]).logpdf(r[3:] / np.sqrt(h)) - 0.5 * np.log(h)
        np.testing.assert_allclose(found[0, d], wanted, rtol=1e-8)  # in order of time


def test_models_of_predictors(rng):
    x, beta = rng.normal(size=(40, 3)), rng.normal(size=(2, 15, 3))
    y = rng.integers(0, 2, size=40).astype(float)
    model = sm.models.glm.logistic(x, y)
    eta = np.einsum("nj,cdj->cdn", x, beta)
    expected = -np.logaddexp(0.0, np.where(y == 1.0, -eta, eta))
    found = pointwise(trace_of(model, {"beta": beta}), model)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def root(state, data, n):
    return np.sqrt(data.y[n] - state.mu[0])


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_no_race_had_read_is_refused():
    model = sm.Model(root, {"y": np.arange(1.0, 11.0)}, {"mu": 0.0})
    mu = np.zeros((2, 9))
    mu[1, 6] = 3.5  # of the third datum and those before, there is no root
    trace = trace_of(model, {"mu": mu})
    assert pointwise(trace, model, thin=4).shape == (2, 3, 10)
    with pytest.raises(sm.RewardError, match="nan at datum 0 of draw 6 of chain 1: it must be fin"):
        pointwise(trace, model)
    with pytest.raises(sm.RewardError, match="of draw 6 of chain 1"):
        pointwise(trace, model, thin=3)


# ------------------------------------------------------------------------------------- pandas
def test_decisions_are_a_table(traces):
    trace = traces["student"]
    table = trace.decisions()
    assert list(table) == ["kernel", "chain", "draw", *TALLY.names]
    assert len(table) == 2 * 2 * 400
    for kernel, stats_of in trace.stats.items():
        own = table[table.kernel == kernel].set_index(["chain", "draw"])
        for field in ("decisions", "pulls", "scale"):
            assert own[field].dtype == TALLY[field]
            assert (own[field].unstack().to_numpy() == stats_of[field]).all()
    assert table.groupby("kernel")["decisions"].sum().to_dict() == {"mu": 800, "sigma": 800}
    none = Trace(trace.meta | {"layout": trace.layout._replace(columns=()).to_json()}, [
        SimpleNamespace(ints=np.zeros((5, 0)), floats=np.zeros((5, 2)), words=np.zeros((5, 1)),
                        seconds=1.0)
    ])  # fmt: skip
    assert list(none.decisions()) == list(table) and none.decisions().empty


# ------------------------------------------------------------------- computed where it is read
@pytest.fixture
def read(monkeypatch):
    """How many log likelihoods are computed, as a list of one number."""
    count, into = [0], log_likelihoods.Pointwise.into

    def counted(self, out, ints, floats, rows):
        count[0] += out.size
        return into(self, out, ints, floats, rows)

    monkeypatch.setattr(log_likelihoods.Pointwise, "into", counted)
    return count


def test_nothing_is_computed_before_it_is_read(traces, models, read):
    trace, model = traces["student"], models["student"]
    found = trace.log_likelihood(model)
    group = trace.to_arviz(log_likelihood=model)["log_likelihood"]
    assert read == [2 * 400 * N]
    every = group["log_likelihood"].values
    read[0] = 0
    text = repr(found) + found._repr_html_()
    part = found["log_likelihood"].isel(obs=slice(3, 8), draw=[399, 5, 7], chain=1)
    assert read == [0] and "log_likelihood" in text
    np.testing.assert_array_equal(part.values, every[1][[399, 5, 7], 3:8])
    assert read == [3 * 5]  # and no others
    for key in (
        (0, 7, -1),
        (slice(None), 7, [9, 2]),
        (1, slice(0, 400, 133), slice(None, None, -1)),
    ):
        wanted = every[key] if not isinstance(key[2], list) else every[:, 7][:, [9, 2]]
        np.testing.assert_array_equal(found["log_likelihood"][key].values, wanted)
    assert found.sizes == group.sizes and found.attrs == group.attrs
    for axis in ("chain", "draw", "obs"):
        np.testing.assert_array_equal(found[axis], group[axis])
    np.testing.assert_array_equal(found.load()["log_likelihood"].values, every)
    read[0] = 0
    np.testing.assert_array_equal(found["log_likelihood"].values, every)
    assert read == [0]  # what was loaded is kept


def test_some_draws_and_some_data(traces, models, read):
    trace, model = traces["student"], models["student"]
    every = trace.to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
    found = trace.log_likelihood(model, draws=5, rows=[100, 2, 50])
    assert found["draw"].values.tolist() == [0, 99, 199, 299, 399]
    assert found["obs"].values.tolist() == [100, 2, 50]
    read[0] = 0
    wanted = every[:, found["draw"].values][..., [100, 2, 50]]
    np.testing.assert_array_equal(found["log_likelihood"].values, wanted)
    assert read == [2 * 5 * 3]
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again["log_likelihood"].values, wanted)
    where = np.arange(N) % 40 == 0
    assert trace.log_likelihood(model, rows=where)["obs"].values.tolist() == [0, 40, 80]
    assert trace.log_likelihood(model, rows=slice(-2, None))["obs"].values.tolist() == [
        N - 2,
        N - 1,
    ]
    for rows in ([N], "y", [[1, 2]], 0.5):
        with pytest.raises(ValueError, match="rows"):
            trace.log_likelihood(model, rows=rows)
    with pytest.raises(ValueError, match="draws=0"):
        trace.log_likelihood(model, draws=0)
    with pytest.raises(ValueError, match="is not the model that was sampled"):
        trace.log_likelihood(models["normal"])


def test_more_than_fits_is_refused_as_it_is_read(traces, models, monkeypatch):
    trace, model = traces["student"], models["student"]
    monkeypatch.setattr(log_likelihoods, "LIMIT", 8 * 2 * 400 * 10)
    found = trace.log_likelihood(model)["log_likelihood"]
    assert np.isfinite(found.isel(obs=slice(0, 10)).values).all()
    with pytest.raises(ValueError, match=r"2 x 400 draws x 120 data are .* \.isel\(obs=slice"):
        found.mean()


def test_terms_that_are_left_out_are_added_to_every_part(rng):
    """Of counts, log y! of each datum."""
    x = rng.standard_normal((40, 1))
    y = rng.poisson(4.0, 40)
    model = sm.models.glm.poisson(x, y)
    trace = trace_of(model, {"beta": rng.standard_normal((2, 6, 1)) * 0.3})
    found = trace.log_likelihood(model, rows=[30, 4])["log_likelihood"].values
    means = np.exp(trace.draws["beta"] @ x[[30, 4]].T)
    np.testing.assert_allclose(found, stats.poisson.logpmf(y[[30, 4]], means), rtol=1e-9)


def test_returns_are_in_order_of_time(rng):
    returns = sm.models.arch.simulate(60, (0.3, 0.2), 5.0, seed=2)
    model = sm.models.arch.ARCH(returns, orders=(1, 2))
    theta = rng.uniform(0.1, 0.5, (2, 4, 4)) + np.array([3.0, 0.0, 0.0, 0.0])
    trace = trace_of(model, {"q": np.zeros((2, 4), int), "theta": theta})
    found = trace.log_likelihood(model)["log_likelihood"]
    nu, a0, a1 = (theta[..., j, None] for j in range(3))
    scale = np.sqrt(a0 + a1 * returns[1:-1] ** 2)
    wanted = stats.t.logpdf(returns[2:], nu, scale=scale)
    np.testing.assert_allclose(found.values, wanted, rtol=1e-9)
    np.testing.assert_allclose(found.isel(obs=[0, 9, 3]).values, wanted[..., [0, 9, 3]], rtol=1e-9)
