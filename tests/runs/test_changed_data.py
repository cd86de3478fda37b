"""Data changed in place: a run is of the data that it was drawn from, and says so."""

import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.chain import LOOP
from subsample_mcmc.target.model import checksum
from tests.helpers import runs

ARRAYS = {
    "words": np.arange(1000.0), "bytes": np.arange(1003, dtype=np.int8), "none": np.zeros((0, 3)),
    "one": np.array(3.0), "strided": np.arange(3000.0)[::3], "columns": np.ones((50, 4), order="F"),
    "texts": np.array(["a", "bc"] * 20), "unaligned": np.zeros(801, np.uint8)[1:].view(float),
    "repeated": np.broadcast_to(np.arange(5.0), (400, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_a_checksum_tells_any_change(name):
    array = ARRAYS[name]
    before = checksum(array)
    assert checksum(array) == before
    if name == "repeated":  # read once, and not as often as it is repeated
        assert checksum(np.broadcast_to(np.arange(5.0) + 1.0, (400, 5))) != before
        return
    read_only = array.copy()
    read_only.flags.writeable = False
    assert checksum(read_only) == before
    if array.size < 2:
        return
    for at in (0, array.size // 2, array.size - 1):
        changed = array.copy()
        changed.flat[at] = changed.flat[at - 1] if name == "texts" else changed.flat[at] + 1
        assert checksum(changed) != before
    if name in ("words", "bytes", "strided"):
        swapped = array.copy()
        swapped[[1, -3]] = swapped[[-3, 1]]
        assert checksum(swapped) != before
    assert checksum(array.reshape(-1, 1)) != before


def negated_column(x):
    x = x.reshape(-1, 4).copy()
    x[:, 2] *= -1.0
    return x.ravel()


CHANGES = {
    "negated": lambda x, rng: -x,
    "doubled": lambda x, rng: 2.0 * x,
    "a column negated": lambda x, rng: negated_column(x),
    "signs at random": lambda x, rng: x * rng.choice([-1.0, 1.0], len(x)),
    "shuffled": lambda x, rng: rng.permutation(x),
    "reversed": lambda x, rng: x[::-1].copy(),
}


@pytest.mark.parametrize("size", [400, 1_000, 8_192, 65_536])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_many_numbers_at_once_do_not_cancel(change, size, rng):
    """Plain sums of words stay where all signs flip: twice 2^63 is nothing in 64 bits."""
    x = rng.normal(size=size)
    assert checksum(CHANGES[change](x, rng)) != checksum(x)


def test_labels_that_trade_places_are_told(rng):
    abba = np.tile([0, 1, 1, 0], 50)
    assert checksum(1 - abba) != checksum(abba)
    for size in (50, 200):
        labels = rng.integers(2, size=size)
        same = [checksum(rng.permutation(labels)) == checksum(labels) for _ in range(2_000)]
        assert not any(same)  # 2,000 shuffles of so many labels are all others


def stored(model, path):
    """A run that can be gone on with."""
    kernel = runs.kernel()
    sm.sample(model, kernel, draws=20, warmup=5, chains=1, seed=1, store=path, progress=False)
    return kernel


@pytest.mark.plain
def test_a_run_is_of_the_data_as_they_were_when_it_began(tmp_path):
    data = runs.data()
    model = runs.model(data=data)
    kernel = stored(model, tmp_path / "before.nc")
    data["y"] += 5.0  # views of these are the model's
    with pytest.raises(ValueError, match="data y"):
        sm.resume(tmp_path / "before.nc", model, kernel, draws=40, progress=False)
    kernel = stored(model, tmp_path / "after.nc")
    now = {name: np.copy(value)[()] for name, value in data.items()}
    gone_on = sm.resume(
        tmp_path / "after.nc", runs.model(data=now), kernel, draws=40, progress=False
    )
    assert gone_on.draws["theta"].shape[1] == 40
    data["y"] -= 5.0
    with pytest.raises(ValueError, match="data y"):
        sm.resume(tmp_path / "after.nc", runs.model(), kernel, draws=60, progress=False)


@pytest.mark.plain
def test_log_likelihoods_of_other_data_are_refused():
    data = runs.data()
    model = runs.model(data=data)
    trace = sm.sample(model, runs.kernel(), 10, 5, chains=1, seed=1, progress=False)
    trace.to_arviz(log_likelihood=model)
    data["y"] += 5.0
    with pytest.raises(ValueError, match="data y"):
        trace.to_arviz(log_likelihood=model)


def test_more_draws_than_memory_are_put_together_in_parts(monkeypatch):
    """Who asks for 10^10 draws, and stops when he has enough, needs no room for all."""
    usual, empty = runs.run(60, chains=2), np.empty

    def refused(shape, *args, **more):
        if np.ndim(shape) and len(shape) == 3:
            raise MemoryError
        return empty(shape, *args, **more)

    monkeypatch.setattr("subsample_mcmc.runs.parallel.np.empty", refused)
    assert runs.same(usual, runs.run(60, chains=2))


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_the_loop_over_draws_is_compiled_once():
    for draws in (1, 30):
        runs.run(draws, chains=1)
    assert len(LOOP.signatures) == 1


# ------------------------------------------------------------- what was learnt of data as they were
def centred(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


@pytest.mark.plain
def test_control_variates_are_of_the_data_as_they_are():
    """The residuals of a Gaussian are 0: no datum is read, and the sums alone decide."""
    y = np.random.default_rng(0).standard_normal(200 if DISABLED else 2000)
    model = sm.Model(centred, {"y": y}, {"mu": 0.0})
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("mu", proposal=sm.pcn(fit), control=sm.Taylor(fit), adapt=False)
    spread = 1.0 / np.sqrt(len(y))
    for shift in (0.0, 10.0 * spread, 100.0 * spread):
        y += shift
        trace = sm.sample(model, kernel, 400, 10, chains=1, seed=1, progress=False,
                          start=[{"mu": float(y.mean())}])  # fmt: skip
        assert abs(np.mean(trace.draws["mu"]) - y.mean()) < spread


@pytest.mark.plain
def test_look_ups_are_judged_again_in_changed_data():
    def grouped(state, data, n):
        return -0.5 * (data.y[n] - state.b[data.g[n]] - state.c[0]) ** 2

    g = np.arange(400) % 4
    model = sm.Model(grouped, {"y": np.zeros(400), "g": g}, {"b": np.zeros(4), "c": 0.0})
    kernel = sm.Metropolis("b", adapt=False) >> sm.Metropolis("c", adapt=False)
    sm.sample(model, kernel, 2, 1, chains=1, seed=1, progress=False)
    g[200] = 4
    with pytest.raises(IndexError, match=r"datum 200 .*index 4"):
        sm.sample(model, kernel, 2, 1, chains=1, seed=1, progress=False)


LEVEL, LEVELS = 0.0, np.zeros(3)


def at_level(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - LEVEL - LEVELS[0]) ** 2


@pytest.mark.skipif(DISABLED, reason="plain Python sees today's values")
def test_names_with_other_values_are_refused(monkeypatch):
    """Compiled code has those that the names had: it would draw from the old posterior."""
    data = {"y": np.random.default_rng(0).standard_normal(200)}
    kernel = sm.Metropolis("mu", adapt=False)

    def run(model):
        return sm.sample(model, kernel, 20, 1, chains=1, seed=1, progress=False)

    model = sm.Model(at_level, data, {"mu": 0.0})
    run(model)
    run(model)
    monkeypatch.setitem(globals(), "LEVEL", 5.0)
    with pytest.raises(ValueError, match=r"log_likelihood reads names .* Make the model anew"):
        run(model)
    model = sm.Model(at_level, data, {"mu": 0.0})
    run(model)
    monkeypatch.setitem(globals(), "LEVELS", np.ones(3))
    with pytest.raises(ValueError, match="Make the model anew"):
        run(model)


FACTOR = 1.0


def scaled(state, data, n):
    z = (data.y[n] - state.mu[0]) / FACTOR
    return -0.5 * data.weight[n] * z * z


def of_scaled(weight=np.ones(500)):
    data = {"y": np.random.default_rng(1).normal(size=len(weight)), "weight": weight}
    return sm.Model(scaled, data, {"mu": 0.0}, lambda state: -0.5 * state.mu[0] ** 2)


ASKED = {
    "laplace": lambda model, fit: sm.laplace(model, progress=False),
    "matched": lambda model, fit: fit.matched(draws=200),
    "derivatives": lambda model, fit: sm.derivatives(model),
    "without": lambda model, fit: model.without([0]),
    "append": lambda model, fit: model.append({"y": [0.0], "weight": [1.0]}),
    "default_kernel": lambda model, fit: sm.default_kernel(model, progress=False),
}


@pytest.mark.skipif(DISABLED, reason="about compiled code")
@pytest.mark.parametrize("asked", ASKED)
def test_whoever_asks_first_finds_names_with_other_values(asked, monkeypatch):
    """Fits and evidences were those of the old code: -1485.6 for -3462.5."""
    model = of_scaled()
    fit = sm.laplace(model, progress=False)
    ASKED[asked](model, fit)
    monkeypatch.setitem(scaled.__globals__, "FACTOR", 3.0)
    with pytest.raises(ValueError, match="log_likelihood reads names whose values have changed"):
        ASKED[asked](model, fit)


OFFSETS = np.zeros(2)


def towards(z):
    return -0.5 * (z / FACTOR) ** 2


def of_an_arm(data, arm, n):
    return towards(data.y[n] - arm) + OFFSETS[arm]


@pytest.mark.skipif(DISABLED, reason="about compiled code")
def test_a_population_finds_names_with_other_values(monkeypatch):
    """Its draws were those of the old values, whichever names had them."""
    y = np.random.default_rng(1).normal(size=500)

    def refused(population):
        told = "log_factor reads names whose values have changed since the population was made"
        for drawn in (sm.draw, sm.choose):
            with pytest.raises(ValueError, match=told):
                drawn(population, seed=1)
        return True

    population = sm.Population(of_an_arm, {"y": y}, arms=2)
    assert sm.draw(population, 4, seed=1).arms.tolist() == [0, 0, 0, 0]
    monkeypatch.setitem(towards.__globals__, "FACTOR", 2.0 / 2.0)  # bound anew, to what is equal
    assert sm.draw(population, 4, seed=1).arms.tolist() == [0, 0, 0, 0]
    with monkeypatch.context() as patched:  # of a helper
        copied = pickle.loads(pickle.dumps(sm.Population(of_an_arm, {"y": y}, arms=2)))
        assert sm.draw(copied, 4, seed=1).arms.tolist() == [0, 0, 0, 0]
        patched.setitem(towards.__globals__, "FACTOR", 3.0)
        assert refused(population) and refused(copied)
    with monkeypatch.context() as patched:  # in place
        patched.setitem(of_an_arm.__globals__, "OFFSETS", OFFSETS.copy())
        other = sm.Population(of_an_arm, {"y": y}, arms=2)
        of_an_arm.__globals__["OFFSETS"][1] = 9.0
        assert refused(other)
    with monkeypatch.context() as patched:  # a function
        patched.setitem(of_an_arm.__globals__, "towards", abs)
        assert refused(population)
    assert sm.draw(population, 4, seed=1).arms.tolist() == [0, 0, 0, 0]


def test_moments_are_of_the_data_as_they_are():
    """Sums of a control variate that were made before were taken: .8 deviations off."""
    model = of_scaled(weight := np.ones(500))
    control = sm.Taylor({"mu": 0.0})
    sm.laplace(model, progress=False).matched(control, draws=500)
    weight[:] = np.where(model.data.y > 0.0, 3.0, 1.0)
    fit = sm.laplace(model, progress=False)
    old, new = fit.matched(control, draws=500), fit.matched(sm.Taylor({"mu": 0.0}), draws=500)
    assert old.mean == new.mean and old.log_evidence == new.log_evidence
    assert abs(float(old.mean[0] - fit.mean[0])) < 0.3 * float(fit.factor[0, 0])


def test_look_ups_of_a_fit_are_judged_again_in_changed_data():
    """It read what stands behind the table, and with an index far off the process ended."""
    group = np.arange(400) % 4

    def log_likelihood(state, data, n):
        return -0.5 * (state.mu[0] - data.table[data.group[n]]) ** 2

    model = sm.Model(
        log_likelihood, {"group": group}, {"mu": 0.0}, tables={"table": np.arange(4.0)}
    )
    sm.laplace(model, progress=False)
    group[5] = 2**40
    with pytest.raises(IndexError, match=f'asks for index {2**40}, and "table" has 4 values'):
        sm.laplace(model, progress=False)
