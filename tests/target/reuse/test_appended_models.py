"""Models of appended rows: those of all data, or refused where the rows do not fit."""

import warnings

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.sources.local import parts_of


@pytest.mark.plain
def test_a_model_in_memory_is_that_of_all_data():
    def log_likelihood(state, data, n):
        return -abs(data.y[n] - state.a[data.group[n]])

    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=90), "group": rng.integers(3, size=90)}
    old, new = ({n: c[part] for n, c in data.items()} for part in (slice(70), slice(70, 90)))
    options = {"state": {"a": np.zeros(3)}, "touches": {"a": "group"}}
    model = sm.Model(log_likelihood, old, **options).append(new)
    assert model.fingerprints() == sm.Model(log_likelihood, data, **options).fingerprints()
    frame = {"group": new["group"].astype(np.int32), "y": new["y"]}  # in another order
    assert (sm.Model(log_likelihood, old, **options).append(frame).data.y == data["y"]).all()


@pytest.mark.plain
def test_what_is_appended_must_fit():
    def log_likelihood(state, data, n):
        return -abs(data.y[n] - state.mu[0])

    def neighbour(state, data, n):
        return -abs(data.y[n] - data.y[min(n + 1, len(data.y) - 1)] - state.mu[0])

    y = np.arange(50.0)
    model = sm.Model(log_likelihood, {"y": y}, {"mu": 0.0})
    with pytest.raises(ValueError, match=r"rows have the columns z, and the model y"):
        model.append({"z": y})
    with pytest.raises(TypeError, match="give the same kind of numbers"):
        sm.Model(log_likelihood, {"y": np.arange(50)}, {"mu": 0.0}).append({"y": y})
    short = sm.Model(log_likelihood, {"y": np.arange(50, dtype=np.int8)}, {"mu": 0.0})
    assert short.append({"y": np.array([-128, 127])}).data.y[-2:].tolist() == [-128, 127]
    with pytest.raises(ValueError, match="int8, in which the appended row 1, 300, has no place"):
        short.append({"y": np.array([3, 300])})
    single = sm.Model(log_likelihood, {"y": y.astype(np.float32)}, {"mu": 0.0})
    with pytest.raises(ValueError, match=r"appended row 0, 1e\+300, has no place"):
        single.append({"y": np.array([1e300])})
    with pytest.raises(ValueError, match=r"shape \(\) a row, and of the appended rows \(2,\)"):
        model.append({"y": np.zeros((3, 2))})
    one = sm.Model(log_likelihood, {"y": y, "sigma": 1.0}, {"mu": 0.0})
    assert one.append({"y": y, "sigma": 1.0}).size == 100 == one.append({"y": y}).size
    for more, match in (("sigma", "sigma .* number 3.0, .* model 1.0"), ("nu", "model no number")):
        with pytest.raises(ValueError, match=match):
            one.append({"y": y, more: 3.0})
    with pytest.raises(ValueError, match="data y"):
        model.append({"y": np.array([np.nan])})
    with pytest.raises(ValueError, match="it reads more than its own row"):
        sm.Model(neighbour, {"y": y}, {"mu": 0.0}).append({"y": y})
    with pytest.raises(TypeError, match="are in memory, and those to append are elsewhere"):
        model.append(parts_of({"y": y}, [50]))
    with pytest.raises(ValueError, match="lists the data of each site"):
        sm.Model(
            log_likelihood, {"y": y}, {"mu": 0.0}, touches={"mu": ([0, 50], np.arange(50))}
        ).append({"y": y})
    away = sm.Model(log_likelihood, parts_of({"y": y}, [20, 30]), {"mu": 0.0})
    with pytest.raises(TypeError, match=r"data y is float64.*appended rows int64"):
        away.append({"y": np.arange(3)})
    with pytest.raises(TypeError, match="appended rows missing"):
        away.append({"z": y})


@pytest.mark.plain
def test_a_column_in_a_file_is_not_read_whole(tmp_path):
    np.save(tmp_path / "y.npy", np.arange(50.0))

    def log_likelihood(state, data, n):
        return -abs(data.y[n] - state.mu[0])

    mapped = np.load(tmp_path / "y.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="mapped from a file"):
        sm.Model(log_likelihood, {"y": mapped}, {"mu": 0.0}).append({"y": np.zeros(3)})


@pytest.mark.plain
def test_chains_start_from_the_last_draws_of_a_trace():
    def log_likelihood(state, data, n):
        return -abs(data.y[n] - 0.5 * state.k[0] - state.b[0] - state.b[1])

    data = {"y": np.random.default_rng(0).normal(size=100)}
    state = {"k": 0, "b": np.zeros(2)}
    model = sm.Model(log_likelihood, data, state, support={"k": 4})
    kernel = sm.cycle(
        sm.Gibbs("k", selector=sm.Exact()), sm.Metropolis("b", selector=sm.Exact(), adapt=False)
    )
    first = sm.sample(model, kernel, draws=7, warmup=5, chains=2, seed=1, progress=False)
    options = {"draws": 1, "warmup": 0, "chains": 2, "seed": 2, "progress": False}
    found = sm.sample(model, kernel, start=first, **options)
    states = [{"k": first.draws["k"][c, -1], "b": first.draws["b"][c, -1]} for c in (0, 1)]
    wanted = sm.sample(model, kernel, start=states, **options)
    for name in state:
        np.testing.assert_array_equal(found.draws[name], wanted.draws[name])
    with pytest.raises(ValueError, match="start has 2 states for 3 chains"):
        sm.sample(model, kernel, start=first, **(options | {"chains": 3}))


def test_the_seed_of_a_trace_gives_no_further_draws():
    """Of walks by the same random numbers from other states: they come near each other again."""

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.m[0]) ** 2

    y = np.random.default_rng(0).normal(1.0, 1.0, 30)
    model, bigger = (sm.Model(log_likelihood, {"y": one}, {"m": 0.0}) for one in (y, y[:29]))
    kernel = sm.Metropolis("m", 0.5, selector=sm.Exact(), adapt=False)
    options = {"draws": 500, "warmup": 0, "chains": 2, "progress": False}
    first = sm.sample(model, kernel, seed=1, **options)

    def likeness(trace):
        pairs = zip(trace.draws["m"], first.draws["m"], strict=True)
        return np.mean([np.corrcoef(one, other)[0, 1] for one, other in pairs])

    with pytest.warns(UserWarning, match="this trace was drawn with the same seed"):
        again = sm.sample(model, kernel, seed=1, start=first, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = sm.sample(model, kernel, seed=2, start=first, **options)
        sm.sample(bigger, kernel, seed=1, start=first, **options)  # of a posterior of its own
    assert likeness(again) > 0.3 and abs(likeness(other)) < 0.2


def test_blocks_that_were_not_kept_start_as_in_the_model_and_are_told_of():
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.m[0] - state.a[0]) ** 2

    model = sm.Model(
        log_likelihood, {"y": np.full(30, 2.0)}, {"m": 9.0, "a": 0.0},
        lambda state: -0.5 * state.m[0] ** 2 - 0.5 * state.a[0] ** 2,
    )  # fmt: skip
    kernel = sm.Slice("m", selector=sm.Exact(), adapt=False) >> sm.Slice(
        "a", selector=sm.Exact(), adapt=False
    )
    options = {"draws": 10, "chains": 2, "progress": False}
    first = sm.sample(model, kernel, warmup=50, seed=1, keep={"m": 3, "a": True}, **options)
    with pytest.warns(UserWarning, match="the last draws of m were not kept"):
        again = sm.sample(model, kernel, warmup=0, seed=2, start=first, **options)
    assert [set(one) for one in again.meta["start"]] == [{"a"}] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sm.sample(model, kernel, warmup=50, seed=2, start=first, **options)
