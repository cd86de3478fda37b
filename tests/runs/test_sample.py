"""Chains run the same whatever runs beside them, say what broke, and end when they are told to."""

import importlib
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.errors import CompileError
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.chain import Program
from subsample_mcmc.runs.store import store
from tests.helpers import runs

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:warmup=0")  # the model's first scale is good


@pytest.fixture(scope="module")
def whole():
    """Four chains that nothing happens to."""
    return runs.run(chains=4)


@contextmanager
def running(text, folder, *given):
    """Python code in a process of its own, whose SIGINT works also in the background."""
    code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + text
    script = folder / "child.py"
    script.write_text(code)
    command = [sys.executable, "-m", "child", *map(str, given)]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=runs.environment(),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()  # one that has ended is left as it is; else a failed test would wait


# ------------------------------------------------------------------------------- the same draws
def test_other_chains_and_cores_change_nothing(whole):
    alone = runs.run(chains=1)
    for mine, theirs in zip(alone._arrays, whole._arrays, strict=True):
        assert mine[0].tobytes() == theirs[0].tobytes()
    assert runs.same(runs.run(chains=4, cores=1), whole)
    assert runs.same(runs.run(chains=4, cores=2), whole)
    assert len({chain.tobytes() for chain in whole.draws["theta"]}) == 4


def test_sizes_of_chunks_and_turns_change_nothing(whole, monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_SECONDS", 0.0)  # a draw a chunk
    monkeypatch.setattr(parallel, "TURN_SECONDS", 0.0)
    assert runs.same(runs.run(chains=4, cores=2), whole)
    assert runs.same_states(runs.run(chains=4, cores=3), whole)


def test_a_store_changes_nothing(whole, tmp_path):
    stored = runs.run(chains=4, store=tmp_path / "run.nc")
    assert runs.same(stored, whole) and runs.same_states(stored, whole)
    assert stored.meta == runs.plain(whole.meta)


def test_an_audit_changes_no_draw(whole):
    audited = runs.run(chains=4, audit=0.5)
    for name, values in whole.draws.items():
        assert values.tobytes() == audited.draws[name].tobytes()
    assert audited.stats["k"]["audited"].sum() > 0


def test_a_thinned_draw_is_every_third(whole):
    thinned = runs.run(draws=20, chains=4, thin=3)
    for name, values in whole.draws.items():
        assert np.array_equal(values[:, 2::3], thinned.draws[name])
    for kernel, stats in whole.stats.items():
        for name in ("steps", "decisions", "pulls", "accepted"):
            summed = stats[name].reshape(4, 20, 3).sum(axis=2)
            assert np.array_equal(summed, thinned.stats[kernel][name])


def test_more_draws_begin_with_the_same_ones(whole):
    assert runs.same(runs.run(draws=90, chains=4), whole, head=60)


def test_warm_up_is_not_kept_but_felt():
    cold, warm = runs.run(warmup=0), runs.run(warmup=200)
    assert cold.shape == warm.shape == (2, 60)
    assert np.allclose(cold.stats["theta"]["scale"], 0.1, rtol=1e-12)  # nothing was learnt
    scales = warm.stats["theta"]["scale"]
    assert np.all(scales == scales[:, :1]) and np.all(abs(scales - 0.1) > 1e-3)
    # Steps of the two runs are the same as long as nothing was learnt from them.
    assert runs.same(runs.run(draws=1, warmup=0), cold, head=1)


# ---------------------------------------------------------------------------------------- seeds
def test_without_a_seed_runs_differ():
    first, second = runs.run(seed=None), runs.run(seed=None)
    assert not runs.same(first, second)
    again = runs.run(seed=int(first.meta["seed"]))
    assert runs.same(first, again)  # what a trace says is enough to repeat it


@pytest.mark.parametrize("seed", [np.int64(1), np.uint8(1), np.random.SeedSequence(1)], ids=repr)
def test_one_seed_in_many_guises(seed):
    assert runs.same(runs.run(seed=seed), runs.run(seed=1))


def test_seed_sequences_are_told_apart():
    root = np.random.SeedSequence(1, spawn_key=(3,))
    spawned = runs.run(seed=root)
    assert runs.same(spawned, runs.run(seed=np.random.SeedSequence(1, spawn_key=(3,))))
    assert not runs.same(spawned, runs.run(seed=1))
    # The chains of a spawned seed are not those of its parent, shifted.
    assert not set(map(bytes, spawned.draws["theta"])) & set(
        map(bytes, runs.run(seed=1, chains=5).draws["theta"])
    )
    words = runs.run(seed=np.random.SeedSequence([1, 2]))
    assert runs.same(words, runs.run(seed=np.random.SeedSequence([1, 2])))
    assert not runs.same(words, runs.run(seed=np.random.SeedSequence([1, 3])))
    huge = 2**100 + 1
    assert runs.same(runs.run(seed=huge), runs.run(seed=np.random.SeedSequence(huge)))
    assert not runs.same(runs.run(seed=huge), runs.run(seed=1))


def test_a_generator_is_advanced():
    given = np.random.default_rng(5)
    first, second = runs.run(seed=given), runs.run(seed=given)
    assert not runs.same(first, second)
    assert runs.same(first, runs.run(seed=np.random.default_rng(5)))


# --------------------------------------------------------------------------------------- starts
def test_chains_start_where_they_are_told(tmp_path):
    places = [{"theta": [0.3, 0.0]}, {"theta": [-0.3, 0.1], "k": 2}]
    quiet = runs.kernel(scale=1e-12)
    found = runs.run(draws=1, warmup=0, start=places, kernel=quiet, store=tmp_path / "run.nc")
    assert np.allclose(found.draws["theta"][:, 0], [[0.3, 0.0], [-0.3, 0.1]])
    assert found.meta["start"] == runs.plain(places)
    drawn = runs.run(draws=1, warmup=0, kernel=quiet)
    assert np.allclose(drawn.draws["theta"][:, 0], [0.2, 0.1])  # else as in the model
    alone = runs.run(draws=1, warmup=0, chains=1, start=places[1], kernel=quiet)
    assert alone.meta["start"] == runs.plain(places[1:])
    assert np.allclose(alone.draws["theta"][:, 0], [[-0.3, 0.1]])


def test_starts_by_a_function_are_random_and_repeatable():
    def start(rng):
        return {"theta": rng.normal(size=2), "k": rng.integers(3)}

    four, two = runs.run(chains=4, start=start), runs.run(chains=2, start=start)
    for many, few in zip(four._arrays, two._arrays, strict=True):
        assert many[:2].tobytes() == few.tobytes()
    places = four.meta["start"]
    assert len({str(place) for place in places}) == 4
    assert runs.same(runs.run(chains=4, start=places), four)


@pytest.mark.parametrize(
    ("start", "error", "text"),
    [
        ([{}], ValueError, "1 states for 2 chains"),
        ({"theta": [0.0, 0.0]}, TypeError, "one dict for 2 chains"),
        ([{"mu": 0.0}, {}], ValueError, "'mu' is not in the state"),
        ([{"k": 3}, {}], ValueError, "support is 0 .. 2"),
        ([{"theta": [0.0]}, {}], ValueError, "shape"),
        ([{"theta": [np.nan, 0.0]}, {}], ValueError, "finite"),
        ([{"k": 0.5}, {}], TypeError, "discrete"),
    ],
)
def test_wrong_starts_are_refused(start, error, text):
    with pytest.raises(error, match=re.escape(text)):
        runs.run(start=start)


# ------------------------------------------------------------------------------------ arguments
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"draws": 0}, "draws=0"),
        ({"draws": 2.5}, "draws=2.5"),
        ({"chains": 0}, "chains=0"),
        ({"warmup": -1}, "warmup=-1"),
        ({"warmup": 0.5}, "warmup=0.5"),
        ({"thin": 0}, "thin=0"),
        ({"audit": 1.5}, "audit=1.5"),
        ({"audit": np.nan}, "audit=nan"),
        ({"cores": 0}, "cores=0"),
        ({"cores": -1}, "cores=-1"),
    ],
)
def test_wrong_numbers_are_refused_before_anything_is_done(given, text, tmp_path):
    with pytest.raises(ValueError, match=re.escape(text)):
        runs.run(store=tmp_path / "run.nc", **given)
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(tmp_path):
    stored = runs.run(
        np.int64(60), np.int32(40), np.int8(2), np.int64(1), thin=np.int64(1),
        audit=np.float32(0.5), cores=np.int64(2), store=tmp_path / "run.nc",
        kernel=runs.kernel(sm.Racing(delta=np.float32(0.05), batch=np.int64(16), retreat=False)),
    )  # fmt: skip
    assert stored.shape == (2, 60)


def test_a_mistake_of_the_user_leaves_no_file(tmp_path):
    def wrong(state, data, n):
        return float({"a": object()}["a"] is None)

    path = tmp_path / "run.nc"
    with pytest.raises(CompileError, match="wrong cannot be compiled"):
        runs.run(model=runs.model(log_likelihood=wrong), store=path)
    assert not path.exists()
    runs.run(draws=2, store=path)  # the path is free


@pytest.mark.parametrize("place", ["taken.nc", "no_such_folder/run.nc"])
def test_paths_are_refused_before_any_pass_over_the_data(tmp_path, place):
    (tmp_path / "taken.nc").write_text("something else")
    model = runs.model()
    kernel = runs.reading_kernel()
    with pytest.raises(sm.StoreError, match=r"exists already|cannot be created"):
        sm.sample(model, kernel, draws=10, seed=1, store=tmp_path / place, progress=False)
    assert (tmp_path / "taken.nc").read_text() == "something else"
    with pytest.raises(AssertionError, match="the data are read"):  # and leaves no file there
        sm.sample(model, kernel, draws=10, seed=1, store=tmp_path / "free.nc", progress=False)
    assert not (tmp_path / "free.nc").exists()


def test_paths_are_refused_before_compiling(tmp_path, monkeypatch):
    def never(self):
        raise AssertionError("compiled")

    taken, closed = tmp_path / "taken.nc", tmp_path / "closed"
    taken.write_bytes(b"mine")
    monkeypatch.setattr(Program, "compile", never)
    with pytest.raises(sm.StoreError, match="exists already"):
        runs.run(store=taken)
    assert taken.read_bytes() == b"mine"
    with pytest.raises(sm.StoreError, match="cannot be created"):
        runs.run(store=closed / "run.nc")
    closed.mkdir(mode=0o500)
    if not runs.writable(closed):  # root writes everywhere
        with pytest.raises(sm.StoreError, match="cannot be created"):
            runs.run(store=closed / "run.nc")


# ----------------------------------------------------------------------------------- what breaks
SELECTORS = {"exact": (runs.RACING, sm.Exact()), "racing": (runs.RACING, runs.RACING)}
LIMIT = 0.45


def broken(selectors="exact", **more):
    """A run that comes to where the likelihood is nan; what it raised."""
    model = runs.model(data=runs.data(LIMIT))
    with pytest.raises(sm.RewardError) as caught:
        runs.run(20_000, 0, model=model, kernel=runs.kernel(*SELECTORS[selectors]), **more)
    return caught.value


@pytest.mark.parametrize("selectors", ["exact", pytest.param("racing", marks=pytest.mark.slow)])
def test_a_bad_number_ends_the_run_and_leaves_what_was_drawn(selectors):
    error = broken(selectors, chains=1)
    found = re.search(
        r"chain 0, iteration (\d+), kernel (\w+): .* datum 17 \(.*?\) for (.*?);", str(error)
    )
    assert found, str(error)
    iteration, kernel, arm = found.groups()
    assert kernel == "theta" and arm.startswith("a proposal for theta = [")
    assert error.trace.shape == (1, int(iteration)) and int(iteration) > 10
    assert f"{iteration} draws of each chain" in error.__notes__[0]
    # They are what the chain draws where nothing is wrong.
    good = runs.run(int(iteration), 0, 1, kernel=runs.kernel(*SELECTORS[selectors]))
    assert runs.same(error.trace, good) and runs.same_states(error.trace, good)


def test_steps_of_an_unfinished_draw_are_undone():
    single, thinned = broken(chains=1), broken(chains=1, thin=7)
    steps, draws = single.trace.shape[1], thinned.trace.shape[1]
    assert draws == steps // 7
    assert str(single) == str(thinned)
    for name, values in single.trace.draws.items():
        assert np.array_equal(values[:, 6::7][:, :draws], thinned.trace.draws[name])


def test_a_bad_number_in_warm_up():
    model = runs.model(data=runs.data(LIMIT))
    with pytest.raises(sm.RewardError, match="chain 0, iteration") as caught:
        runs.run(10, 20_000, chains=1, model=model)
    assert caught.value.trace.shape == (1, 0)


@pytest.mark.parametrize("cores", [1, 2])
def test_one_broken_chain_ends_the_others(cores, monkeypatch):
    monkeypatch.setattr(parallel, "TURN_SECONDS", 0.0)
    places = [{"theta": [value, 0.0]} for value in (-3.0, -3.0, 0.44, -3.0)]
    error = broken(chains=4, cores=cores, start=places)
    assert re.search(r"chain \d, iteration", str(error))
    good = runs.run(max(error.trace.shape[1], 1), 0, 4, start=places)
    assert runs.same(error.trace, good, head=error.trace.shape[1])


def test_nan_of_the_prior_names_itself():
    with pytest.raises(sm.RewardError, match=r"the log prior is nan or \+inf at a proposal"):
        runs.run(chains=1, start=[{"theta": [0.0, 49.999]}])


# ---------------------------------------------------------------------------------------- Ctrl-C
def interrupting(monkeypatch, enough):
    """Ctrl-C as soon as all chains have so many draws."""
    look, pressed = parallel.Team.look, []

    def looking(self, bars):
        look(self, bars)
        if not pressed and min(m.drawn for m in self.members) >= enough:
            pressed.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(parallel.Team, "look", looking)
    monkeypatch.setattr(parallel, "LOOK_SECONDS", 0.001)


@pytest.mark.parametrize("cores", [1, 4])
def test_an_interrupt_leaves_draws_of_all_chains(cores, monkeypatch, tmp_path):
    interrupting(monkeypatch, 20)
    monkeypatch.setattr(parallel, "CHUNK_SECONDS", 0.002)
    monkeypatch.setattr(parallel, "TURN_SECONDS", 0.002)
    trace = runs.run(10**7, chains=4, cores=cores)
    chains, draws = trace.shape
    assert trace.interrupted and chains == 4 and 20 <= draws < 10**7
    assert runs.same(trace, runs.run(draws, chains=4))


CTRL_C = """
import sys
from subsample_mcmc.runs import parallel
from tests.helpers import runs

parallel.TURN_SECONDS = 0.05
look, told = parallel.Team.look, []
def looking(self, bars):
    look(self, bars)
    if not told and all(m.drawn for m in self.members):
        told.append(print("drawing", flush=True))
parallel.Team.look = looking
trace = runs.run(10**7, store=sys.argv[1] if sys.argv[1:] else None)
assert trace.interrupted and 0 < trace.shape[1] < 10**7
assert runs.same(trace, runs.run(trace.shape[1]))
print("equal to the head")
"""


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_ctrl_c_gives_what_there_is(stored, tmp_path):
    path = tmp_path / "run.nc"
    with running(CTRL_C, tmp_path, *([path] if stored else [])) as process:
        assert process.stdout.readline() == "drawing\n", process.stdout.read()
        if stored:
            while not min(store.peek(path).draws) and process.poll() is None:
                time.sleep(0.01)  # chains are written one after another
            seen = sm.load(path)  # while the other process writes
            with pytest.raises(sm.StoreError, match="is being written"):
                runs.resumed(path)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and "equal to the head" in printed, printed
    if stored:
        left = store.peek(path)
        total = max(left.draws) + 10
        assert not left.finished and total < 10**7
        found = runs.resumed(path, total)
        assert runs.same(found, runs.run(total))
        assert 0 < seen.shape[1] < total and runs.same(seen, found, head=seen.shape[1])


# -------------------------------------------------------------------------------------- progress
def shown(capsys, **more):
    runs.run(progress=True, **more)
    captured = capsys.readouterr()
    assert not captured.out
    return captured.err


def test_a_bar_for_each_chain(capsys):
    text = shown(capsys, chains=3)
    last = [re.findall(rf"chain {i}: .*", text)[-1] for i in range(3)]
    for bar in last:
        assert "100/100" in bar  # warm-up included
        accepted, read = re.search(r"accepted ([\d.]+), read ([\d.]+)%", bar).groups()
        assert 0.0 < float(accepted) < 1.0 and 20.0 < float(read) < 100.0
    assert "chain 3" not in text


def test_many_chains_share_a_bar(capsys):
    text = shown(capsys, draws=10, warmup=0, chains=9)
    assert "chains:" in text and "90/90" in text and "chain 0" not in text


def test_no_bar_if_not_wanted(capsys):
    runs.run()
    assert capsys.readouterr() == ("", "")


def test_statistics_of_users_are_not_mistaken_for_ours(capsys):
    @sm.kernel(writes="k", stats=("decisions", "accepted", "pulls", "everything"))
    def flip(rng, state, data):
        state.k[0] = rng.integers(3)
        return 1.0, 1.0, 5.0, 5.0

    kernel = flip >> sm.Metropolis("theta", 0.1, selector=sm.Exact(), adapt=False)
    text = shown(capsys, draws=20, warmup=0, kernel=kernel)
    accepted = [float(v) for v in re.findall(r"accepted ([\d.]+)", text)]
    assert accepted and max(accepted) <= 1.0


# ---------------------------------------------------------------------------------------- memory
def test_stored_draws_are_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(parallel, "TURN_BYTES", 20_000)
    monkeypatch.setattr(parallel, "CHUNK_SECONDS", 10.0)  # so that bytes alone decide
    monkeypatch.setattr(parallel, "TURN_SECONDS", 1e9)
    collect, most, handed = parallel.Team.collect, [0], [0]

    def collecting(self, member, *given):
        collect(self, member, *given)
        held = sum(chunk.nbytes for chunk in member.chunks)
        most[0] = max(most[0], held)

    append = store.Journal.append

    def appending(self, *given):
        handed[0] += 1
        append(self, *given)

    monkeypatch.setattr(parallel.Team, "collect", collecting)
    monkeypatch.setattr(store.Journal, "append", appending)
    trace = runs.run(2000, store=tmp_path / "run.nc")
    size = sum(part.nbytes for part in (*trace.flat, *trace._counts))
    assert size > 5 * 20_000 and most[0] <= 2 * 20_000
    assert handed[0] > size // 40_000


def test_an_audit_begins_where_a_trace_ended(monkeypatch):
    model = sm.Model(at_its_own, {"y": np.zeros(50)}, {"k": 0, "b": 0.0}, support={"k": 9})
    kernel = sm.Gibbs("k") >> sm.Metropolis("b", adapt=False)
    trace = sm.sample(model, kernel, 20, 0, seed=1, keep={"k": True, "b": True, "f": twice},
                      progress=False)  # fmt: skip
    begun = []

    def spy(*given, start, **more):
        begun.append(start)
        return sm.sample(*given, start=start, **more)

    monkeypatch.setattr(importlib.import_module("subsample_mcmc.runs.audit"), "sample", spy)
    sm.audit(model, sm.Racing(), kernel, steps=5, warmup=0, trace=trace, seed=1)
    assert begun == [[{"k": trace.draws["k"][0, -1], "b": trace.draws["b"][0, -1]}]]
    assert trace.draws["b"][0, -1] != 0.0


def at_its_own(state, data, n):
    return -0.1 * (data.y[n] - state.b[0]) ** 2 - 0.01 * state.k[0]


def twice(state):
    return 2.0 * state.k[0]


@pytest.mark.parametrize("hot", [10, 11])
def test_the_first_draw_that_is_kept_is_one_at_its_temperature(hot):
    """Iteration 10 makes the first draw after 10 of warm-up: hotter, it is not the posterior's."""
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.k[0]) ** 2, {"y": np.zeros(9)}, {"k": 0},
        support={"k": 3},
    )  # fmt: skip
    kernel = sm.Gibbs("k", sm.Exact(), temperature=[2.0] * hot + [1.0])
    given = {"draws": 20, "warmup": 10, "chains": 1, "seed": 1, "progress": False}
    if hot == 10:
        assert not sm.sample(model, kernel, **given).meta["kernels"][0].get("temperature")
        return
    with pytest.warns(UserWarning, match="comes to 1 after 11 iterations"):
        trace = sm.sample(model, kernel, **given)
    assert trace.meta["kernels"][0]["temperature"] == 2.0
