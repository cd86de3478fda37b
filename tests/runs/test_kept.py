"""What of each draw is kept: blocks by name, and functions of the state; the draws are the same."""

import warnings

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED


def log_likelihood(state, data, n):
    z = data.y[n] - state.b[0] - 0.1 * state.b[1] - 0.01 * state.k[0]
    return -0.5 * (z / state.sigma[0]) ** 2 - sm.log(state.sigma[0])


def log_prior(state):
    return -0.5 * (state.b[0] ** 2 + state.b[1] ** 2) - state.sigma[0]


def ratio(state):
    return state.b[0] / state.sigma[0]


def both(state):
    return np.array([state.b[0] + state.k[0], state.b[1]])


def beyond(state):
    return state.b[state.k[0] + 1]


@pytest.fixture(scope="module")
def model():
    y = np.random.default_rng(0).normal(size=300)
    return sm.Model(
        log_likelihood, {"y": y}, {"b": np.zeros(2), "k": 0, "sigma": 1.0}, log_prior,
        support={"k": 3}, constraints={"sigma": sm.positive},
        dims={"b": "term"}, coords={"term": ["one", "age"]},
    )  # fmt: skip


KERNEL = sm.Metropolis(("b", "sigma"), selector=sm.Exact()) >> sm.Gibbs("k", selector=sm.Exact())


def drawn(model, draws=60, **more):
    return sm.sample(model, KERNEL, draws, 40, chains=2, seed=1, progress=False, **more)


@pytest.fixture(scope="module")
def whole(model):
    return drawn(model)


@pytest.mark.plain
def test_what_is_kept_is_what_was_drawn(model, whole):
    some = drawn(model, keep={"sigma": True, "k": True, "b": False, "ratio": ratio, "both": both})
    assert list(some.draws) == ["k", "sigma", "ratio", "both"]
    for name in ("k", "sigma"):
        assert np.array_equal(some.draws[name], whole.draws[name])
    b, k, sigma = (whole.draws[name] for name in ("b", "k", "sigma"))
    assert np.array_equal(some.draws["ratio"], b[..., 0] / sigma)
    assert np.array_equal(some.draws["both"], np.stack([b[..., 0] + k, b[..., 1]], axis=-1))
    assert some.flat[0].shape == (2, 60, 1) and some.flat[1].shape == (2, 60, 1 + 1 + 2)
    assert some.summary().index.tolist() == ["k", "sigma", "ratio", "both[0]", "both[1]"]
    assert any(w.startswith("ratio: ") for w in some.report().warnings)  # 60 draws are few
    assert drawn(model, keep=["b"]).to_frame().columns[2:].tolist() == ["b[one]", "b[age]"]


@pytest.mark.plain
def test_chains_start_where_a_trace_ended_of_which_functions_were_kept(model):
    blocks = {"b": True, "k": True, "sigma": True}
    some = drawn(model, keep=blocks | {"ratio": ratio})
    last = [{name: some.draws[name][c, -1] for name in blocks} for c in range(2)]
    options = {"chains": 2, "seed": 2, "progress": False}
    one, other = (sm.sample(model, KERNEL, 5, 40, start=s, **options) for s in (some, last))
    for name in blocks:
        assert np.array_equal(one.draws[name], other.draws[name])


EVERY = {"b": 7, "k": 4, "sigma": True}


def same_as_whole(some, whole, draws=60):
    assert list(some.draws) == ["sigma"] and list(some.thinned) == ["b", "k"]
    assert np.array_equal(some.draws["sigma"], whole.draws["sigma"][:, :draws])
    for name, every in (("b", 7), ("k", 4)):
        assert np.array_equal(some.thinned[name], whole.draws[name][:, :draws:every])


@pytest.mark.plain
def test_of_some_blocks_every_kth_draw(model, whole):
    some = drawn(model, keep=EVERY | {"ratio": ratio})
    assert np.array_equal(some.thinned["b"], whole.draws["b"][:, ::7])
    assert some.thinned["b"].shape == (2, 9, 2) and some.thinned["k"].shape == (2, 15)
    assert np.array_equal(some.draws["ratio"], whole.draws["b"][..., 0] / whole.draws["sigma"])
    assert some["b"].dims == ("chain", "draw", "term") and some["b"].draw[1] == 7
    assert np.array_equal(some["b"].sel(term="age"), whole.draws["b"][:, ::7, 1])
    assert "b" in some and "b" not in some.posterior and "b (2,) of every 7th" in repr(some)
    assert np.array_equal(drawn(model, keep={"b": 1, "k": 100}).draws["b"], whole.draws["b"])
    assert drawn(model, keep={"k": 100}).thinned["k"].shape == (2, 1)


def test_what_is_thinned_is_shown(model, whole):
    some = drawn(model, keep=EVERY)
    table = some.summary()
    assert table.index.tolist() == ["sigma", "b[one]", "b[age]", "k"]
    assert table.loc["b[age]", "mean"] == pytest.approx(whole.draws["b"][:, ::7, 1].mean())
    assert some.summary("k").index.tolist() == ["k"]
    assert some.mixing("b").sites == 2 and some.mixing("b").ess > 1.0
    with pytest.raises(ValueError, match=r"3 draws of b.one. were kept per chain"):
        drawn(model, keep={"b": 25, "k": True}).summary("b")
    assert drawn(model, keep={"b": 25, "k": True}).summary().index.tolist() == ["k"]
    made = some.to_arviz(thin=3)
    assert made["posterior_every_7"]["b"].draw.values.tolist() == [0, 21, 42]
    assert np.array_equal(made["posterior_every_4"]["k"], whole.draws["k"][:, ::12])
    assert "b" not in made["posterior"]
    assert some.to_frame().columns.tolist() == ["chain", "draw", "sigma"]
    assert str(some.report()) and "sigma" in some._repr_html_()
    assert "sigma" in some.to_html()
    with pytest.raises(KeyError, match="which are of sigma, b, k"):
        some["c"]
    with pytest.raises(ValueError, match="draws of b, k were not kept, not all of them"):
        some.to_arviz(log_likelihood=model)


@pytest.mark.parametrize("first", [1, 6, 7, 25, 33])
def test_thinned_runs_go_on_wherever_they_stopped(model, whole, tmp_path, first):
    path = tmp_path / "run.nc"
    same_as_whole(drawn(model, first, store=path, keep=EVERY), whole, first)
    same_as_whole(sm.load(path), whole, first)
    same_as_whole(sm.resume(path, model, KERNEL, draws=60, progress=False), whole)
    same_as_whole(sm.load(path), whole)
    with pytest.raises(ValueError, match="changed since it was started: what is kept"):
        sm.resume(path, model, KERNEL, draws=70, keep=EVERY | {"b": 8})


def test_thinned_draws_are_in_files(model, whole, tmp_path):
    xarray = pytest.importorskip("xarray")
    some = drawn(model, keep=EVERY)
    some.save(tmp_path / "run.nc")
    same_as_whole(sm.load(tmp_path / "run.nc"), whole)
    with xarray.open_dataset(tmp_path / "run.nc", group="posterior_every_7") as found:
        assert np.array_equal(found["b"].values, whole.draws["b"][:, ::7])
        assert found["draw"].values.tolist() == list(range(0, 60, 7))
        assert found["term"].values.tolist() == ["one", "age"]


def test_a_journal_holds_them_in_frames_of_any_size(model, whole, tmp_path, monkeypatch):
    """A frame a draw or two: what is kept of it follows from where it begins."""
    monkeypatch.setattr("subsample_mcmc.runs.parallel.TURN_BYTES", 30)
    monkeypatch.setattr("subsample_mcmc.runs.store.frames.MANY", 100)
    monkeypatch.setattr("subsample_mcmc.runs.store.netcdf.MANY", 100)
    path = tmp_path / "run.nc"
    same_as_whole(drawn(model, store=path, keep=EVERY), whole)
    monkeypatch.setattr("subsample_mcmc.runs.store.store.finish", lambda path: None)
    journal = tmp_path / "journal.nc"
    same_as_whole(drawn(model, store=journal, keep=EVERY), whole)
    assert journal.read_bytes()[:6] == b"\x89SMCMC"
    same_as_whole(sm.load(journal), whole)


def test_statistics_are_of_all_kernels(model, whole):
    some = drawn(model, keep=("k",))
    for kernel, stats in whole.stats.items():
        for name, values in stats.items():
            assert np.array_equal(values, some.stats[kernel][name])


def test_a_run_that_keeps_little_goes_on_as_any_other(model, whole, tmp_path):
    """Of names alone a file knows; functions are given again."""
    path = tmp_path / "run.nc"
    drawn(model, 25, store=path, keep=("k",))
    on = sm.resume(path, model, KERNEL, draws=60, progress=False)
    assert list(on.draws) == ["k"] and np.array_equal(on.draws["k"], whole.draws["k"])
    other = tmp_path / "functions.nc"
    drawn(model, 25, store=other, keep={"ratio": ratio})
    with pytest.raises(ValueError, match=r"keeps ratio, functions of the state.*give keep= as"):
        sm.resume(other, model, KERNEL, draws=60)
    with pytest.raises(ValueError, match="changed since it was started: what is kept"):
        sm.resume(other, model, KERNEL, draws=60, keep={"ratio": both})
    on = sm.resume(other, model, KERNEL, draws=60, keep={"ratio": ratio}, progress=False)
    wanted = whole.draws["b"][..., 0] / whole.draws["sigma"]
    assert np.array_equal(on.draws["ratio"], wanted)
    assert np.array_equal(sm.load(other).draws["ratio"], wanted)


@pytest.mark.slow
def test_in_processes(model, whole):
    keep = {"k": True, "ratio": ratio}
    some = drawn(model, keep=keep, parallel="loky", cores=2)
    assert np.array_equal(some.draws["k"], whole.draws["k"])
    assert np.array_equal(some.draws["ratio"], whole.draws["b"][..., 0] / whole.draws["sigma"])
    same_as_whole(drawn(model, keep=EVERY, parallel="loky", cores=2), whole)


def test_what_needs_whole_draws_says_so(model):
    some = drawn(model, keep=("k", "b"))
    with pytest.raises(ValueError, match="draws of sigma were not kept"):
        some.to_arviz(log_likelihood=model)

    def simulate(rng, state, data, n):
        return state.b[0] + state.sigma[0] * rng.standard_normal()

    with pytest.raises(ValueError, match="draws of sigma were not kept"):
        sm.predict(model, some, simulate)
    more = drawn(model, keep={"b": True, "k": True, "sigma": True, "ratio": ratio})
    made = sm.predict(model, more, simulate, seed=1, progress=False)
    same = sm.predict(model, drawn(model), simulate, seed=1, progress=False)
    assert np.array_equal(made.values[""], same.values[""])
    values = more.to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
    wanted = drawn(model).to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
    assert np.array_equal(values, wanted)


def test_what_does_not_compile_runs_in_python(model, whole):
    table = {0: 1.0, 1: 10.0, 2: 100.0}

    def looked_up(state):
        return table[int(state.k[0])]

    some = drawn(model, keep={"looked up": looked_up})
    assert np.array_equal(some.draws["looked up"], 10.0 ** whole.draws["k"])


@pytest.mark.parametrize(("keep", "error", "words"), [
    ("k", TypeError, "give names of blocks"),
    (3, TypeError, "give names of blocks"),
    (["c"], ValueError, "keep names 'c', which is no block"),
    (["sgima"], ValueError, "Did you mean 'sigma'"),
    ({}, ValueError, "keep is empty"),
    ({"k": False}, ValueError, "keep is empty"),
    ({"k": 0}, TypeError, "give True, or k, a whole number"),
    ({"k": 2.5}, TypeError, "give True, or k, a whole number"),
    ({"c": 100}, ValueError, "keep names 'c', which is no block"),
    ({"pair": lambda state: (1.0, 2.0)}, TypeError, "return np.array"),
    ({"b": True, "term": ratio}, ValueError, "an axis of a block has this name"),
    ({"k": ratio}, ValueError, "a function needs a name that no block has"),
    ({"chain": ratio}, ValueError, "a function needs a name that no block has"),
    ({"text": lambda state: "a"}, TypeError, "must return a number, or an array of numbers"),
    ({"nothing": lambda state: state.nothing}, AttributeError, "nothing"),
    ({"two": lambda state, data: 0.0}, TypeError, "does not take the 1"),
])  # fmt: skip
def test_what_cannot_be_kept(model, keep, error, words):
    with pytest.raises(error, match=words):
        drawn(model, keep=keep)


def test_look_ups_beyond_a_block_are_told(model):
    with pytest.raises(IndexError, match=r"keep\['one more'\] reads beyond block .b."):
        drawn(model, keep={"one more": beyond})


@pytest.mark.skipif(DISABLED, reason="Python tells by itself")
def test_arrays_of_other_shapes_are_told(model):
    def shrinks(state):
        return np.zeros(3 - state.k[0])

    with pytest.raises(ValueError, match="an array of another shape"):
        drawn(model, keep={"shrinks": shrinks})


def test_a_function_that_is_no_number_in_some_draws_has_no_mean():
    """The mean of the draws in which it is one was told, of a root of what is below 0 in half."""

    def root(state):
        return np.sqrt(state.m[0])

    model = sm.Model(
        lambda state, data, n: 0.0 * data.y[n], {"y": np.zeros(2)}, {"m": 1.0},
        lambda state: -0.5 * state.m[0] ** 2,
    )  # fmt: skip
    kernel, keep = sm.Slice("m", selector=sm.Exact()), {"m": True, "root": root}
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        trace = sm.sample(model, kernel, 200, 50, 2, seed=1, keep=keep, progress=False)
    assert 0.2 < np.isnan(trace.draws["root"]).mean() < 0.8
    table = trace.summary()
    assert table.loc["root"].isna().all() and table.loc["m"].notna().all()
