"""A run that was stopped, however it was, goes on bit for bit, or is refused by name."""

import re
import shutil
import subprocess
import sys
import types
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.chain import Program
from subsample_mcmc.runs.store import frames, store
from tests.helpers import runs
from tests.helpers.runs import resumed

ROOT = Path(__file__).resolve().parents[2]


def under_way(path, monkeypatch, **more):
    """A run that is complete but still a journal, of many frames; its bytes, and the header's."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "finish", lambda path: None)
        patch.setattr(parallel, "CHUNK_SECONDS", 0.0)
        patch.setattr(parallel, "TURN_SECONDS", 0.0)
        trace = runs.run(store=path, **more)
    return path.read_bytes(), len(frames.SIGNATURE + frames.header_frame(trace.meta))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A short run that is complete."""
    path = tmp_path_factory.mktemp("finished") / "run.nc"
    runs.run(10, 20, store=path)
    return path


# -------------------------------------------------------------------------------- bit for bit
@pytest.mark.slow
def test_killed_runs_resume():
    command = [sys.executable, "-m", "tests.helpers.kill_and_resume", "--rounds", "5"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 rounds: all equal" in done.stdout


@pytest.mark.slow
def test_a_journal_cut_anywhere_is_completed(tmp_path, monkeypatch, rng):
    data, header = under_way(tmp_path / "whole", monkeypatch)
    whole = runs.run()
    at = [m.start() for m in re.finditer(re.escape(frames.MARK), data)]
    # Just after the header, in the first frame, at the ends of frames, anywhere, and at the end.
    cuts = [header, header + 1, *rng.choice(at[2:], 3), *rng.integers(header, len(data), 6)]
    seen = set()
    for i, cut in enumerate([*cuts, len(data)]):
        path = tmp_path / f"{i}.nc"
        path.write_bytes(data[:cut])
        before = store.peek(path)
        seen |= {draws > 0 for draws in before.draws}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where one chain has draws, and another none
            left = sm.load(path)
        have = [k for k, draws in enumerate(before.draws) if draws > 0] or None
        assert runs.same(left, whole, head=left.shape[1], chains=have)
        found = resumed(path, cores=1 + i % 2)
        assert runs.same(found, whole) and runs.same_states(found, whole), f"cut at byte {cut}"
        assert runs.same(sm.load(path), whole) and store.peek(path).finished
    assert seen == {True, False}


def test_chains_without_a_draw_do_not_hide_those_of_others(tmp_path, monkeypatch):
    """As of four chains on two cores, of which two are complete."""
    path = tmp_path / "run.nc"
    data, _ = under_way(path, monkeypatch, cores=1)
    cuts = [m.start() for m in re.finditer(re.escape(frames.MARK), data)]
    partly = [cut for cut in cuts[1:] if 0 in (now := written(path, data[:cut])) and max(now) > 0]
    draws = written(path, data[: partly[-1]])
    with pytest.warns(UserWarning, match=r"chains have draws, and are shown; .*, sm.resume"):
        trace = sm.load(path)
    have = [k for k, count in enumerate(draws) if count > 0]
    assert trace.shape == (len(have), min(draws[k] for k in have))
    assert runs.same(trace, runs.run(), head=trace.shape[1], chains=have)
    assert runs.same(resumed(path), runs.run())  # and these are made


def written(path, data):
    """How many draws of each chain are in a journal."""
    path.write_bytes(data)
    return store.peek(path).draws


def test_a_journal_that_lacks_only_its_netcdf_becomes_netcdf(tmp_path, monkeypatch):
    """A process that died as it turned one into the other leaves all draws, and half a file."""
    path = tmp_path / "run.nc"
    under_way(path, monkeypatch)
    path.with_name("run.nc.netcdf-part").write_bytes(b"half of it")
    assert not store.peek(path).finished
    found = resumed(path)
    assert runs.same(found, runs.run()) and store.peek(path).finished
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_resumed_in_many_parts_and_further_than_asked(tmp_path):
    path = tmp_path / "run.nc"
    runs.run(20, thin=2, store=path, audit=0.3)
    for draws in (20, 21, 40, 60):
        found = resumed(path, draws)
        whole = runs.run(draws, thin=2, audit=0.3)
        assert runs.same(found, whole) and runs.same_states(found, whole)
        assert found.meta == runs.plain(whole.meta)
    assert runs.same(resumed(path), whole)  # nothing is left to do
    with pytest.raises(ValueError, match="has 60 draws already"):
        resumed(path, 59)


def test_starts_and_seeds_are_remembered(tmp_path, monkeypatch):
    seed = np.random.SeedSequence(2**80, spawn_key=(3, 1))
    more = {"seed": seed, "start": lambda rng: {"theta": rng.normal(size=2)}}
    data, header = under_way(tmp_path / "whole", monkeypatch, **more)
    path = tmp_path / "run.nc"
    path.write_bytes(data[:header])  # no chain has begun
    assert runs.same(resumed(path), runs.run(**more))


def test_a_saved_trace_goes_on(tmp_path):
    path = tmp_path / "run.nc"
    runs.run(20).save(path)
    assert runs.same(resumed(path, 50), runs.run(50))


def test_a_saved_trace_that_was_cut_does_not(tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    trace = runs.run(20)
    trace._checkpoints = [None, None]  # as of chains that Ctrl-C stopped at different draws
    trace.save(path)
    before = path.read_bytes()
    assert runs.same(resumed(path), trace)  # it is complete
    with pytest.raises(ValueError, match="not where each chain stood"):
        resumed(path, 50)
    assert path.read_bytes() == before


def test_somebody_else_was_faster(tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    runs.run(20, store=path)
    stale = store.peek(path)
    resumed(path, 40)
    with monkeypatch.context() as patch:
        patch.setattr(store, "peek", lambda path: stale)
        with pytest.raises(sm.StoreError, match="by another process"):
            resumed(path, 60)
    assert runs.same(resumed(path), runs.run(60))


def test_what_is_returned_is_what_is_stored(tmp_path):
    path = tmp_path / "run.nc"
    trace, loaded = runs.run(store=path), sm.load(path)
    assert runs.same(trace, loaded) and runs.same_states(trace, loaded)
    assert trace.meta == loaded.meta and trace.shape == loaded.shape == (2, 60)
    assert np.array_equal(trace.seconds, loaded.seconds)


SCRIPT = """
import numpy as np
import subsample_mcmc as sm

SCALE = 0.5

def half(value):
    return SCALE * value

def log_likelihood(state, data, n):
    z = data.y[n] - state.mu[0]
    return -half(z * z)

def draw(rng, current, out):
    out[0] = current[0] + rng.uniform(-0.3, 0.3)

model = sm.Model(log_likelihood, {"y": np.linspace(-1.0, 2.0, 200)}, {"mu": 0.1})
kernel = sm.Metropolis("mu", proposal=draw, selector=sm.Exact())

if __name__ == "__main__":
    sm.sample(model, kernel, draws=20, warmup=5, chains=2, seed=3, store="run.nc", progress=False)
"""


@pytest.mark.slow
def test_a_script_is_resumed_by_an_import(tmp_path, monkeypatch):
    script, elsewhere = tmp_path / "here" / "m.py", tmp_path / "there"
    script.parent.mkdir()
    elsewhere.mkdir()
    script.write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "m.py"], cwd=script.parent, env=runs.environment(), check=True, timeout=300
    )
    (elsewhere / "other_name.py").write_text("'''Moved.'''\n\n\n" + SCRIPT)
    monkeypatch.syspath_prepend(elsewhere)
    monkeypatch.chdir(elsewhere)
    import other_name as m

    found = sm.resume(script.parent / "run.nc", m.model, m.kernel, draws=40, progress=False)
    whole = sm.sample(m.model, m.kernel, 40, 5, chains=2, seed=3, progress=False)
    assert runs.same(found, whole)


# ------------------------------------------------------------------------------ what is refused
SOURCE = Path(runs.__file__).read_text(encoding="utf-8")


def variant(*changes, name="elsewhere"):
    """The module of the runs, as another one and with other text."""
    text = SOURCE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    module = types.ModuleType(name)
    module.__file__ = __file__
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    return module


def changed_data(**changes):
    return runs.model(data=runs.data() | changes)


def one_value():
    y = runs.data()["y"]
    y[137] = np.nextafter(y[137], 9.0)
    return changed_data(y=y)


def block(**changes):
    return runs.model(**{"state": {"k": 1, "theta": np.array([0.2, 0.1])} | changes})


KERNELS = {
    "kernel k": [
        runs.kernel(sm.Racing(delta=0.04, batch=16, retreat=False)),
        runs.kernel(sm.Racing(batch=17, retreat=False)),
        runs.kernel(sm.Exact()),
        runs.kernel(sm.Racing(sm.Normal(guard=False), batch=16, retreat=False)),
    ],
    "kernel theta": [
        runs.kernel(scale=0.11),
        runs.kernel(scale=[0.1, 0.1]),
        runs.kernel(second=runs.RACING),
        sm.Gibbs("k", runs.RACING)
        >> sm.Metropolis("theta", 0.1, proposal=sm.pcn([0, 0], np.eye(2)), selector=sm.Exact()),
    ],
    "composition of kernels": [
        sm.cycle(*runs.kernel().parts[::-1]),
        sm.repeat(runs.kernel(), 2),
        runs.kernel() >> sm.Gibbs("k", runs.RACING),
    ],
}
MODELS = {
    "log_likelihood": [
        variant(("STEP = 0.3", "STEP = 0.31")).model,
        variant(("-0.5 * z * z", "-0.49 * z * z")).model,
        variant(("return STEP * k", "return STEP * (k + 1)")).model,
    ],
    "log_prior": [
        variant(("> 50.0", "> 51.0")).model,
        lambda: runs.model(log_prior=None),
    ],
    "data y": [one_value, lambda: changed_data(y=runs.data()["y"].astype(np.float32))],
    "data limit": [lambda: changed_data(limit=1.0)],
    "data extra": [lambda: changed_data(extra=np.zeros(runs.N))],
    "block theta": [
        lambda: block(theta=np.zeros(3)),
        lambda: runs.model(constraints={"theta": sm.interval(-9, 9)}),
    ],
    "block k": [lambda: block(k=[1]), lambda: runs.model(support={"k": 4})],
}


@pytest.mark.parametrize(
    ("name", "given"),
    [(name, {"kernel": k}) for name, changed in KERNELS.items() for k in changed]
    + [(name, {"model": m}) for name, changed in MODELS.items() for m in changed],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_changes_are_refused_by_name(name, given, finished):
    if "model" in given:
        given = {"model": given["model"]()}
    before = finished.read_bytes()
    with pytest.raises(ValueError, match=rf"cannot be resumed: .*{name}") as caught:
        resumed(finished, 30, **given)
    # Nothing that is the same is blamed.
    blamed = str(caught.value).partition("started: ")[2].partition(". Resume")[0]
    others = {*KERNELS, *MODELS} - {name}
    if name != "composition of kernels":
        assert not [other for other in others if other in blamed], blamed
    assert finished.read_bytes() == before


@pytest.mark.parametrize("what", ["subsample_mcmc", "Python", "numpy", "numba"])
def test_other_versions_are_refused(what, finished, monkeypatch):
    found = store.peek(finished)
    key = f"version of {what}"
    old = found.meta | {"fingerprints": found.meta["fingerprints"] | {key: "0.0.1"}}
    monkeypatch.setattr(store, "peek", lambda path: found._replace(meta=old))
    with pytest.raises(ValueError, match=re.escape(f"{key} (0.0.1 then, ")):
        resumed(finished, 30)


def test_runs_whose_rows_were_added_up_in_another_order_are_refused(finished, monkeypatch):
    """Such as those stored by earlier versions, which said nothing of it."""
    found, key = store.peek(finished), "order in which rows are added up"
    prints = {k: v for k, v in found.meta["fingerprints"].items() if k != key}
    for old, told in ((prints, "(new)"), (prints | {key: "one by one"}, "(one by one then, ")):
        meta = found.meta | {"fingerprints": old}
        monkeypatch.setattr(store, "peek", lambda path, meta=meta: found._replace(meta=meta))
        with pytest.raises(ValueError, match=re.escape(f"{key} {told}")):
            resumed(finished, 30)


def test_the_same_made_anew_is_accepted(tmp_path):
    path = tmp_path / "run.nc"
    runs.run(10, store=path)
    other = variant(("Beyond the limit", "Past it"), name="another")
    assert runs.same(resumed(path, 20, model=other.model(), kernel=other.kernel()), runs.run(20))
    again = runs.kernel(sm.Racing(batch=np.int64(16), retreat=False), scale=np.float64(0.1))
    assert runs.same(resumed(path, 30, kernel=again), runs.run(30))
    # Chains have left the place they started at.
    assert runs.same(resumed(path, 40, model=block(theta=np.zeros(2))), runs.run(40))


def test_an_initial_state_that_is_still_needed(tmp_path, monkeypatch):
    data, header = under_way(tmp_path / "whole", monkeypatch)
    path = tmp_path / "run.nc"
    path.write_bytes(data[:header])  # no chain has begun
    with pytest.raises(ValueError, match="initial state"):
        resumed(path, model=block(theta=np.zeros(2)))
    assert runs.same(resumed(path), runs.run())


def refused(path, stored, changed, text, monkeypatch):
    """A run by one kernel is refused to another, and not to its like; nothing is compiled."""
    monkeypatch.setattr(Program, "compile", lambda self, audit=0.0: None)
    monkeypatch.setattr(parallel.Team, "run", lambda self, *given: None)
    runs.run(10, kernel=stored(), store=path)
    resumed(path, kernel=stored())
    with pytest.raises(ValueError, match=text):
        resumed(path, kernel=changed())


def test_predicates_and_weights_are_part_of_a_composition(tmp_path, monkeypatch):
    def guarded(limit):
        def inside(state):
            return state.theta[0] < limit

        return runs.kernel() >> sm.when(inside, sm.Gibbs("k", runs.RACING))

    def mixed(weight):
        first, second = runs.kernel().parts
        return sm.mixture((first, weight), (second, 1.0))

    text = "weights or predicates of kernels"
    for number, (make, a, b) in enumerate([(guarded, 1.0, 1.5), (mixed, 0.5, 0.5000000001)]):
        path = tmp_path / f"{number}.nc"
        with monkeypatch.context() as patch:
            refused(path, lambda: make(a), lambda: make(b), text, patch)  # noqa: B023


def own_rule(factor):
    """A user's own rule: its methods and attributes are part of the run."""

    @dataclass(frozen=True)
    class Mine(Normal):
        level: tuple = field(default=(0.1,))

        def params(self, *given):
            return super().params(*given)

        def note(self):
            return factor

    return runs.kernel(sm.Racing(Mine(), batch=16, retreat=False))


def test_the_code_of_a_users_rule_counts(tmp_path, monkeypatch):
    refused(
        tmp_path / "run.nc", lambda: own_rule(1), lambda: own_rule(2), "kernel k", monkeypatch
    )  # fmt: skip


def own_control(factor):
    """A user's own control variate: what it knows of a model is of another class."""

    likelihood = sm.extend.jit(runs.log_likelihood, flags=sm.extend.FLAGS, inner="always")

    def total(state, arrays):
        return factor * arrays.zero[0]

    def residuals(state, data, arrays, rows, out):
        for i in range(len(rows)):
            out[i] = likelihood(state, data, rows[i])

    class Known(sm.extend.Prepared):
        arrays = sm.extend.record("zero")(np.zeros(1))

        @property
        def functions(self):
            return sm.extend.functions_of_state(sm.extend.jit(total), sm.extend.jit(residuals))

    @dataclass(frozen=True, eq=False)
    class Mine(sm.extend.Control):
        def prepare(self, model):
            return Known()

    return runs.kernel() >> sm.Metropolis("theta", control=Mine(), adapt=False)


def test_the_code_of_a_users_control_variate_counts(tmp_path, monkeypatch):
    refused(
        tmp_path / "run.nc", lambda: own_control(1), lambda: own_control(2), "kernel theta_2",
        monkeypatch,
    )  # fmt: skip


def test_paths_that_hold_no_run(tmp_path):
    with pytest.raises(sm.StoreError, match="cannot be read"):
        resumed(tmp_path / "none.nc")
    (tmp_path / "text").write_text("mine")
    with pytest.raises(sm.StoreError, match="not a run"):
        resumed(tmp_path / "text")


def test_stores_are_refused_before_any_pass_over_the_data(tmp_path, monkeypatch, finished):
    kernel = runs.reading_kernel()
    with pytest.raises(ValueError, match="has 10 draws already"):
        resumed(finished, 5, kernel=kernel)
    # Its journal would be made beside it, under a name that is too long for a file.
    long = shutil.copy(finished, tmp_path / ("r" * 250))
    with pytest.raises(sm.StoreError, match="cannot be created"):
        resumed(long, 20, kernel=kernel)
    cut = tmp_path / "cut.nc"
    trace = sm.load(finished)
    trace._checkpoints = [None, None]
    trace.save(cut)
    with pytest.raises(ValueError, match="not where each chain stood"):
        resumed(cut, 20, kernel=kernel)
    path = tmp_path / "run.nc"
    under_way(path, monkeypatch)
    with (
        store.Journal.open(path),
        pytest.raises(sm.StoreError, match="is being written"),
    ):
        resumed(path, 80, kernel=kernel)
    before = path.read_bytes()
    with pytest.raises(AssertionError, match="the data are read"):
        resumed(path, 80, kernel=kernel)
    assert path.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"r" * 250, "cut.nc", "run.nc"}


@pytest.mark.parametrize("given", [{"cores": 0}, {"draws": 0}, {"draws": 15.5}])
def test_wrong_numbers_touch_nothing(given, finished):
    before = finished.read_bytes()
    with pytest.raises(ValueError, match=next(iter(given))):
        resumed(finished, **given)
    assert finished.read_bytes() == before


# -------------------------------------------------------------------------------- what breaks
@pytest.mark.filterwarnings("ignore:warmup=0")
def test_a_bad_number_leaves_the_store_whole(tmp_path):
    path, model = tmp_path / "run.nc", runs.model(data=runs.data(limit=0.45))
    with pytest.raises(sm.RewardError, match="datum 17") as first:
        runs.run(20_000, 0, chains=1, model=model, store=path)
    left, trace = store.read(path), first.value.trace
    assert not left.finished and runs.same(sm.load(path), trace)
    assert any("are stored in" in note for note in first.value.__notes__)
    draws = trace.shape[1]
    state = left.chains[0].checkpoint
    assert draws > 10 and state["counters"].tolist() == [draws, draws]
    assert np.array_equal(state["floats"], trace.draws["theta"][0, -1])
    assert np.array_equal(state["ints"], trace.draws["k"][0, -1:])
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(sm.RewardError) as again:
            resumed(path, model=model)
        assert str(again.value) == str(first.value)
        assert runs.same(again.value.trace, trace)
    assert len(path.read_bytes()) < len(before) + 100_000  # headers and checkpoints, no draws


FULL = """
import resource, sys
import subsample_mcmc as sm
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.store import store
from tests.helpers import runs
from tests.helpers.runs import resumed

path, room = sys.argv[1], int(sys.argv[2])
parallel.TURN_BYTES = 10_000
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
try:
    runs.run(2000, store=path)
except sm.StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
left, drawn = sm.load(path), store.peek(path).draws
whole = runs.run(2000)
assert runs.same(left, whole, head=left.shape[1])
assert min(drawn) < 2000, drawn
found = sm.resume(path, runs.model(), runs.kernel(), progress=False)
assert runs.same(found, whole) and runs.same_states(found, whole)
print("draws before:", max(drawn))  # the other chain may have none yet
"""


@pytest.mark.slow
def test_a_full_disk_stops_a_run_that_goes_on_later(tmp_path):
    script = tmp_path / "full.py"
    script.write_text(FULL)
    path = tmp_path / "run.nc"
    done = subprocess.run(
        [sys.executable, script, path, "500000"], env=runs.environment(), capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cannot be written" in done.stdout and "draws before are safe" in done.stdout
    assert 100 < int(done.stdout.split("draws before:")[1]) <= 2000
