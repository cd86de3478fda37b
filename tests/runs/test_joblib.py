"""Chains as tasks of a joblib backend: the same draws, wherever they are made."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc import exp, softplus
from subsample_mcmc.kernels import checks
from subsample_mcmc.runs import backends, parallel
from subsample_mcmc.runs.store import store
from tests.helpers import runs
from tests.helpers.runs import resumed


def test_models_and_kernels_pickle():
    model = runs.model(touches={"k": ([0, runs.N], np.arange(runs.N))})
    model.compiled  # noqa: B018, machine code stays behind
    again, kernel = pickle.loads(pickle.dumps((model, runs.kernel())))
    assert again.fingerprints() == model.fingerprints() and kernel.text() == runs.kernel().text()
    for mine, theirs in zip(again.data, model.data, strict=True):
        assert np.array_equal(mine, theirs)
        assert not (isinstance(mine, np.ndarray) and mine.flags.writeable)
    assert again.ints.tolist() == model.ints.tolist() and not again.floats.flags.writeable
    assert not again.variables["k"].touches[0].flags.writeable


def test_without_joblib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "joblib", None)
    for call in (runs.run, resumed):
        with pytest.raises(ImportError, match="parallel='loky' needs joblib: pip install joblib"):
            call(*([tmp_path / "none.nc"] if call is resumed else []), parallel="loky")
    with pytest.raises(ImportError, match="needs joblib"):
        runs.run(parallel="loky", store=tmp_path / "run.nc")
    assert not list(tmp_path.iterdir())


def test_a_backend_that_joblib_does_not_know(tmp_path):
    pytest.importorskip("joblib")
    with pytest.raises(ValueError, match="nonsense"):
        runs.run(parallel="nonsense", store=tmp_path / "run.nc")
    assert not list(tmp_path.iterdir())


# joblib's threads run tasks in this process, where they can be made short.
@pytest.fixture
def short(monkeypatch):
    """Tasks of a tenth of what they are to do."""
    pytest.importorskip("joblib")
    monkeypatch.setattr(parallel, "TASK_SECONDS", -1.0)
    monkeypatch.setattr(parallel, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(parallel, "_programs", {})
    rounds = []
    look = parallel.Team.look

    def looking(self, bars):
        rounds.append([m.drawn for m in self.members])
        look(self, bars)

    monkeypatch.setattr(parallel.Team, "look", looking)
    return rounds


def test_many_tasks_draw_the_same(short, tmp_path):
    whole, more = runs.run(10, 5), {"parallel": "threading", "cores": 2}
    short.clear()
    assert runs.same(runs.run(10, 5, **more), whole)
    assert len(short) > 10  # rounds of tasks
    stored = runs.run(10, 5, store=tmp_path / "run.nc", **more)
    assert runs.same(stored, whole) and runs.same_states(stored, whole)
    assert runs.same(resumed(tmp_path / "run.nc", 20, **more), runs.run(20, 5))
    assert runs.same(resumed(tmp_path / "run.nc", 30), runs.run(30, 5))


def test_ctrl_c_between_tasks(short, tmp_path, monkeypatch):
    look, pressed = parallel.Team.look, []

    def looking(self, bars):
        look(self, bars)
        if not pressed and self.members[0].drawn >= 4:
            pressed.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(parallel.Team, "look", looking)
    path = tmp_path / "run.nc"
    trace = runs.run(10, 5, parallel="threading", store=path)
    assert trace.interrupted and 4 <= trace.shape[1] < 10
    assert runs.same(resumed(path), runs.run(10, 5))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:warmup=0")
def test_a_bad_number_in_a_task(short, tmp_path):
    model = runs.model(data=runs.data(limit=0.45))
    errors = []
    for more in ({}, {"parallel": "threading"}):
        with pytest.raises(sm.RewardError) as caught:
            runs.run(20_000, 0, chains=1, model=model, store=tmp_path / f"{len(errors)}", **more)
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert runs.same(errors[0].trace, errors[1].trace)
    assert runs.same_states(errors[0].trace, errors[1].trace)


SCRIPT = """
import numpy as np
import subsample_mcmc as sm
from tests.helpers import runs

def log_likelihood(state, data, n):
    z = data.y[n] - state.mu[0]
    return -0.5 * z * z

@sm.kernel(writes="mu")
def walk(rng, state, data):
    state.mu[0] += rng.normal()

def model(first):
    return sm.Model(log_likelihood, {"y": np.linspace(-1.0, 2.0, 200)}, {"mu": first})

def run(first, kernel, **more):
    return sm.sample(model(first), kernel, 20, 10, chains=2, seed=3, progress=False, **more)

if __name__ == "__main__":
    there = {"parallel": "loky", "cores": 2}
    decided = sm.Metropolis("mu", selector=sm.Exact())
    for first, kernel in ((0.1, decided), (5.0, decided), (0.1, walk)):  # in the same workers
        here = run(first, kernel)
        assert runs.same(run(first, kernel, **there), here), (first, kernel)
    run(0.1, walk, store="run.nc", **there)
    assert runs.same(sm.load("run.nc"), here)
    more = sm.resume("run.nc", model(0.1), walk, draws=30, progress=False, **there)
    assert runs.same(more, sm.sample(model(0.1), walk, 30, 10, 2, seed=3, progress=False))
    print("all equal")
"""


@pytest.mark.slow
def test_workers_of_a_script(tmp_path):
    pytest.importorskip("joblib")
    done = runs.run_script(tmp_path, SCRIPT)
    assert done.returncode == 0 and done.stdout == "all equal\n", done.stdout + done.stderr
    assert not done.stderr
    assert store.peek(tmp_path / "run.nc").finished


# ----------------------------------------------------------------------------- how a model travels
@pytest.mark.parametrize(("name", "needed"), [("dask", "distributed"), ("ray", "ray")])
def test_a_library_that_is_not_there(name, needed, monkeypatch, tmp_path):
    pytest.importorskip("joblib")
    monkeypatch.setitem(sys.modules, needed, None)
    monkeypatch.setitem(sys.modules, "ray.util.joblib", None)
    with pytest.raises(
        ImportError, match=rf"needs {needed}, .*pip install 'subsample-mcmc\[{name}"
    ):
        runs.run(parallel=name, store=tmp_path / "run.nc")
    assert not list(tmp_path.iterdir())


def test_the_name_of_a_backend_is_a_text():
    pytest.importorskip("joblib")
    with pytest.raises(TypeError, match="parallel=4: give the name of a joblib backend"):
        runs.run(parallel=4)


def test_a_file_holds_arrays_once_and_names_those_in_files(tmp_path):
    pytest.importorskip("joblib")
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", rng.normal(size=(50_000, 2)))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    x.flags.writeable = False
    given = {
        "y": rng.normal(size=50_000), "x": x, "part": x[100:], "again": x[::2].T,
        "few": np.arange(9), "row": x[7:9][1], "view": x.view(np.ndarray)[...][30:],
    }  # fmt: skip
    given["y"].flags.writeable = False
    given["table"] = np.ones((300, 300), order="F")
    filed = backends.filed(given, str(tmp_path / "run"))
    assert (tmp_path / "run").stat().st_size < 400_000 + 720_000 + 400_000 + 4_000
    made = filed.open()
    (tmp_path / "run").unlink()  # pages stay as long as they are in use
    for key, value in given.items():
        assert np.array_equal(made[key], value) and made[key].dtype == value.dtype, key
        assert made[key].flags.f_contiguous == value.flags.f_contiguous, key
    assert isinstance(made["x"], np.memmap) and isinstance(made["part"], np.memmap)
    assert not made["y"].flags.writeable and made["few"].flags.writeable
    made["table"][0, 0] = 2.0  # a page of one's own
    assert given["table"][0, 0] == 1.0


@pytest.mark.slow
def test_processes_get_the_model_once(monkeypatch):
    pytest.importorskip("joblib")
    pickles, reduce = [], sm.Model.__reduce__
    monkeypatch.setattr(sm.Model, "__reduce__", lambda self: pickles.append(1) or reduce(self))
    monkeypatch.setattr(parallel, "TASK_SECONDS", 0.0)
    here, there = (runs.run(20, 10, 4, **more) for more in ({}, {"parallel": "loky", "cores": 2}))
    assert runs.same(here, there) and len(pickles) == 1


class OddError(Exception):
    """Of two arguments, of which it hands on one: no pickle makes it again."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def test_errors_that_cannot_be_sent_are_told():
    """Else the worker that raised it would be lost, and with it all others."""
    pytest.importorskip("joblib")
    odd = OddError(1, 2)
    odd.add_note("This was chain 3.")
    sent = backends.as_sent(odd)
    assert str(sent) == "OddError: 1 and 2" and sent.__notes__ == ["This was chain 3."]
    plain = ValueError("no number")
    assert backends.as_sent(plain) is plain


def test_a_kernel_of_a_users_is_compiled_once_to_be_looked_at(monkeypatch):
    """One that no key is known of was compiled anew after 1, 2, 4, ... turns."""
    asked, known = [], checks.compiles
    monkeypatch.setattr(checks, "compiles", lambda *a, **k: asked.append(a[0]) or known(*a, **k))

    @sm.kernel(writes="mu")
    def stay(rng, state, data):
        state.mu[0] += 0.0
        if rng.random() < 0.0:
            raise OddError(1, 2)

    data = {"y": np.random.default_rng(0).standard_normal(50)}
    model = sm.Model(lambda s, d, n: -0.5 * (d.y[n] - s.mu[0]) ** 2, data, {"mu": 0.0})
    kernel = stay >> sm.Metropolis("mu", selector=sm.Exact())
    sm.sample(model, kernel, draws=50, warmup=50, chains=2, seed=1, progress=False)
    assert len(asked) == 1


def test_what_is_repeated_is_no_other_data(tmp_path):
    """np.broadcast_to is read once here, and whole where it was sent."""
    pytest.importorskip("joblib")
    y = np.random.default_rng(0).laplace(1.5, 1.0, 400)

    def log_likelihood(state, data, n):
        return -abs(data.y[n] - data.u[n, state.k[0]])

    data = {"y": y, "u": np.broadcast_to(0.5 * np.arange(8.0), (400, 8))}
    model = sm.Model(log_likelihood, data, {"k": 0}, support={"k": 8})
    draws = [
        sm.sample(model, sm.Gibbs("k"), draws=50, warmup=0, chains=2, cores=2, seed=1,
                  parallel=backend, progress=False).draws["k"]
        for backend in (None, "loky")
    ]  # fmt: skip
    assert np.array_equal(*draws)


MODULE = """
import subsample_mcmc as sm

SCALE = {scale}


def log_likelihood(state, data, n):
    return -SCALE * abs(data.y[n] - 0.5 * state.k[0])


def kept(state):
    return {kept} * state.k[0]


def often(state):
    return state.k[0] > {often}
"""


@pytest.mark.slow
def test_workers_that_have_another_module_are_told_of(tmp_path, monkeypatch):
    """Functions of modules go there by name: a worker has the module as it imported it."""
    import importlib

    joblib = pytest.importorskip("joblib")
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)  # which has another path
    file = tmp_path / "edited_module.py"
    file.write_text(MODULE.format(scale=1.0, kept=3, often=0))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_module")
    y = np.random.default_rng(0).laplace(1.5, 1.0, 400)

    def drawn(backend):
        model = sm.Model(module.log_likelihood, {"y": y}, {"k": 0}, support={"k": 8})
        return sm.sample(model, sm.Gibbs("k"), draws=200, warmup=0, chains=2, cores=2, seed=1,
                         parallel=backend, progress=False).draws["k"]  # fmt: skip

    first = drawn(None)
    assert np.array_equal(first, drawn("loky"))
    file.write_text(MODULE.format(scale=0.05, kept=3, often=0))
    importlib.invalidate_caches()
    module = importlib.reload(module)
    assert not np.array_equal(first, drawn(None))
    with pytest.raises(RuntimeError, match="in this worker process log_likelihood is another"):
        drawn("loky")
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)  # as it says
    assert np.array_equal(drawn(None), drawn("loky"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value", "told"), [
    ("kept", 4.0, "what is kept is another"), ("often", 2, "how kernels are composed is another"),
])  # fmt: skip
def test_what_else_goes_to_workers_is_the_same_there(tmp_path, monkeypatch, name, value, told):
    """Functions of what is kept, and when a kernel runs."""
    import importlib

    joblib = pytest.importorskip("joblib")
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    file, given = tmp_path / f"edited_{name}.py", {"scale": 1.0, "kept": 3.0, "often": 0}
    file.write_text(MODULE.format(**given))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(file.stem)
    y = np.random.default_rng(0).laplace(1.5, 1.0, 400)
    model = sm.Model(log_likelihood_of_k, {"y": y}, {"k": 0, "b": 0.0}, support={"k": 8})

    def drawn(backend):
        kernel = sm.Gibbs("k") >> sm.when(module.often, sm.Metropolis("b", adapt=False))
        keep = {"k": True, "f": module.kept}
        trace = sm.sample(model, kernel, draws=50, warmup=0, chains=2, cores=2, seed=1, keep=keep,
                          parallel=backend, progress=False)  # fmt: skip
        return trace.draws["f"]

    assert np.array_equal(drawn(None), drawn("loky"))
    file.write_text(MODULE.format(**given | {name: value}))
    importlib.invalidate_caches()
    module = importlib.reload(module)
    with pytest.raises(RuntimeError, match=f"in this worker process {told}"):
        drawn("loky")
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)


def log_likelihood_of_k(state, data, n):
    return -abs(data.y[n] - 0.5 * state.k[0] - state.b[0])


def exponential(data):
    """A likelihood that is sent by value, with all that it names."""

    def log_likelihood(state, data, n):
        s = exp(state.b[2])
        z = data.y[n] - state.b[0] - state.b[1] * data.x[n]
        return -s * z * z - softplus(z) + state.b[2]

    return sm.Model(log_likelihood, data, {"b": np.zeros(3)}, lambda state: -(state.b @ state.b))


NAMED = "import pickle, sys, subsample_mcmc as sm; found = pickle.load(sys.stdin.buffer)"


def test_functions_of_the_package_have_their_names_elsewhere():
    """They were other functions there, which knew nothing of derivatives."""
    pytest.importorskip("joblib")
    names = ("exp", "log", "log1p", "softplus", "log_sigmoid", "digamma", "normal_cdf")
    sent = backends.pickled({name: getattr(sm, name) for name in names})
    check = f"{NAMED}; assert all(v is getattr(sm, k) for k, v in found.items())"
    subprocess.run([sys.executable, "-c", check], input=sent, check=True)
    assert len(sent) < 100 * len(names)


@pytest.mark.slow
def test_derivatives_are_made_in_workers():
    pytest.importorskip("joblib")
    rng = np.random.default_rng(0)
    model = exponential({"x": rng.standard_normal(4_000), "y": rng.standard_normal(4_000)})
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("b", proposal=sm.pcn(fit), control=sm.Taylor(fit))
    drawn = [
        sm.sample(model, kernel, draws=20, warmup=10, chains=2, seed=1, progress=False, **more)
        for more in ({}, {"parallel": "loky", "cores": 2})
    ]
    assert np.array_equal(drawn[0].draws["b"], drawn[1].draws["b"])
