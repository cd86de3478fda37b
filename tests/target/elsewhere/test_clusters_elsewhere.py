"""Rows on real clusters, started on this machine, and in files: fits and draws are those of memory.

`make clusters` has dask, ray, pyarrow and zarr.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from tests.helpers import runs
from tests.helpers.clusters import ray_here, two_workers

distributed = pytest.importorskip("distributed", reason="needs dask: `make clusters`")
ray = pytest.importorskip("ray", reason="needs ray: `make clusters`")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
da = pytest.importorskip("dask.array", reason="needs dask: `make clusters`")
dd = pytest.importorskip("dask.dataframe", reason="needs dask: `make clusters`")
# What other libraries deprecate among each other is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
SIZE, CUT = 6_000, (0, 2_303, 1_796, 1, 1_900)  # rows of parts


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, SIZE))
    y = rng.random(SIZE) < 1.0 / (1.0 + np.exp(b - 0.5 * a))
    z = 0.3 + 0.5 * a + rng.standard_t(3, SIZE)
    return {"a": a, "b": b, "y": y.astype(float), "z": z}


@pytest.fixture(scope="module")
def client():
    """Two workers of dask, of one core each, on 127.0.0.1."""
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def started():
    """Two workers of ray, on 127.0.0.1."""
    with ray_here(2) as started:
        yield started


def parts(columns):
    stops = np.cumsum(CUT)
    return [
        {n: c[stop - rows : stop] for n, c in columns.items()}
        for stop, rows in zip(stops, CUT, strict=True)
    ]


class Part:
    """Makes a part where it is wanted, on a worker."""

    def __init__(self, pieces):
        self.pieces = pieces

    def __call__(self, i):
        return pd.DataFrame(self.pieces[i])


def dask_frame(columns):
    pieces = parts(columns)
    return dd.from_map(Part(pieces), range(len(CUT)), meta=pd.DataFrame(pieces[0]))


def dask_arrays(columns):
    return {n: da.from_array(c, chunks=(CUT[1:],)) for n, c in columns.items()}


def parquet(columns, folder):
    from pyarrow import parquet

    for i, piece in enumerate(parts(columns)):
        parquet.write_table(pa.table(piece), folder / f"{i}.parquet", row_group_size=1_000)
    return sm.parquet(folder / "*.parquet")


def zarr_arrays(columns, folder):
    zarr = pytest.importorskip("zarr", reason="needs zarr: `make clusters`")
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, column in columns.items():
        group.create_array(name, shape=column.shape, dtype=column.dtype, chunks=(1_000,))[:] = (
            column
        )
    return {name: group[name] for name in columns}


def data_of(kind, columns, request, folder):
    """The columns, as they are elsewhere."""
    if kind.startswith("dask"):
        request.getfixturevalue("client")
        if kind.endswith("arrays"):
            arrays = dask_arrays(columns)
            lasting = kind == "dask, persisted arrays"
            return {n: a.persist() for n, a in arrays.items()} if lasting else arrays
        return dask_frame(columns).persist() if kind == "dask, persisted" else dask_frame(columns)
    if kind.startswith("ray"):
        request.getfixturevalue("started")
        pieces = parts(columns)
        if kind == "ray references":
            return [ray.put(piece) for piece in pieces]
        return ray.data.from_pandas([pd.DataFrame(piece) for piece in pieces[1:]]).materialize()
    return {"parquet": parquet, "zarr": zarr_arrays}[kind](columns, folder)


KINDS = (
    "dask frame", "dask, persisted", "dask arrays", "dask, persisted arrays", "ray",
    "ray references", "parquet", "zarr",
)  # fmt: skip


# ------------------------------------------------------------------------------------ regressions
def regression(data):
    """A logistic regression on what users have at hand."""
    logistic = sm.models.glm.logistic
    if hasattr(data, "npartitions"):
        return logistic(data[["a", "b"]], data["y"])
    if isinstance(data, dict) and isinstance(data["a"], np.ndarray):
        return logistic(np.column_stack([data["a"], data["b"]]), data["y"])
    if isinstance(data, dict) and isinstance(data["a"], da.Array):
        return logistic(da.stack([data["a"], data["b"]], axis=1), data["y"])
    return logistic(data, "y")


def fitted(model):
    """(fit, draws by it)."""
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=sm.Racing(), control=control)
    options = {"draws": 200, "warmup": 20, "chains": 2, "seed": 1, "audit": 0.0, "progress": False}
    return fit, sm.sample(model, kernel, start=[fit.state] * 2, **options)


@pytest.fixture(scope="module")
def near(columns):
    return fitted(regression({n: columns[n] for n in ("a", "b", "y")}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_regression_is_that_of_memory(columns, near, kind, request, tmp_path):
    some = {n: columns[n] for n in ("a", "b", "y")}
    model = regression(data_of(kind, some, request, tmp_path))
    assert model.size == SIZE
    fit, trace = fitted(model)
    assert_same(near, (fit, trace))
    assert "Rows are elsewhere" in str(trace.report())


def assert_same(one, other):
    np.testing.assert_array_equal(one[0].mean, other[0].mean)
    np.testing.assert_array_equal(one[0].factor, other[0].factor)
    assert runs.same(one[1], other[1])


# --------------------------------------------------------------------------------- models of users
def log_likelihood(state, data, n):
    z = data.z[n] - state.mu[0] - 0.5 * state.k[0] * data.a[n]
    return -sm.log1p(z * z)


def log_prior(state):
    return -0.5 * (state.mu[0] / 10.0) ** 2


def model_of(data):
    return sm.Model(log_likelihood, data, {"mu": 0.0, "k": 1}, log_prior, support={"k": 4})


def blocks(selector=None):
    """A discrete and a continuous block, whose decisions read rows."""
    selector = selector or sm.Racing(batch=64)
    return sm.Gibbs("k", selector=selector) >> sm.Metropolis("mu", selector=selector)


RUN = {"draws": 20, "warmup": 6, "chains": 2, "seed": 5, "audit": 0.0, "progress": False}


def small(columns):
    return {n: columns[n] for n in ("a", "z")}


@pytest.fixture(scope="module")
def near_blocks(columns):
    return sm.sample(model_of(small(columns)), blocks(), **RUN)


@pytest.mark.parametrize("kind", KINDS)
def test_two_blocks_are_those_of_memory(columns, near_blocks, kind, request, tmp_path):
    model = model_of(data_of(kind, small(columns), request, tmp_path))
    assert runs.same(sm.sample(model, blocks(), **RUN), near_blocks)


# -------------------------------------------------------------------------------- workers that die
class Killing:
    """Reads a part, unless a file is there: then the file goes, and with it the worker."""

    def __init__(self, read, file):
        self.read, self.file = read, file

    def __call__(self, data, parcel):
        try:
            self.file.unlink()
        except FileNotFoundError:
            return self.read(data, parcel)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it was killed")


def armed(model, monkeypatch, folder, name, call):
    """Kill a worker in the call-th use of a method of what the model knows of its rows."""
    file = folder / f"{name} {call}"
    away, source = model.elsewhere, model.elsewhere.source
    source.read = Killing(source.read, file)
    source._rows_of = None  # what it shared before knows nothing of that
    target = source if name == "request" else away
    right, calls = getattr(target, name), []

    def counting(*given, **named):
        calls.append(name)
        if len(calls) == call:
            file.touch()
        return right(*given, **named)

    monkeypatch.setattr(target, name, counting)
    return lambda: len(calls) >= call and not file.exists()


TWO = ("dask frame", "ray references")


@pytest.mark.parametrize("kind", TWO)
def test_a_worker_that_is_killed_in_a_pass_of_a_fit(
    columns, near, kind, request, monkeypatch, tmp_path
):
    some = {n: columns[n] for n in ("a", "b", "y")}
    model = regression(data_of(kind, some, request, tmp_path))
    killed = armed(model, monkeypatch, tmp_path, "sum_over", 2)
    found = fitted(model)
    assert killed()
    assert_same(near, found)


@pytest.mark.parametrize("kind", TWO)
@pytest.mark.parametrize(("name", "call"), [("request", 2), ("sums_of", 2)])
def test_a_worker_that_is_killed_loses_nothing(
    columns, kind, name, call, request, monkeypatch, tmp_path
):
    """While rows are fetched, and in an exact sum."""
    model = model_of(data_of(kind, small(columns), request, tmp_path))
    killed = armed(model, monkeypatch, tmp_path, name, call)
    selector = sm.Exact() if name == "sums_of" else sm.Racing(batch=64)
    options = RUN | {"draws": 4, "warmup": 2}
    trace = sm.sample(model, blocks(selector), **options)
    assert killed()
    assert runs.same(trace, sm.sample(model_of(small(columns)), blocks(selector), **options))


# ---------------------------------------------------------------------------------- what is sent
@pytest.mark.parametrize("kind", TWO)
def test_what_is_sent_is_small(columns, kind, request, monkeypatch, tmp_path):
    """The model without its rows in a pass, once a worker; and what is sent to each part."""
    from cloudpickle import dumps

    parcels, tasks = [], []
    data = data_of(kind, {n: columns[n] for n in ("a", "b", "y")}, request, tmp_path)
    away = regression(data).elsewhere.source
    share, submit, submit_rows = (
        getattr(type(away), name) for name in ("share", "submit", "submit_rows")
    )

    def sharing(self, parcel):
        asked = parcel.shared
        model = parcel if asked is None else parcel._replace(shared=asked._replace(arguments=()))
        parcels.append((len(dumps(model)), len(dumps(parcel))))
        return share(self, parcel)

    def submitting(self, work, jobs, sent):
        tasks.extend(len(dumps(arguments)) for _, arguments in jobs)
        return submit(self, work, jobs, sent)

    def submitting_rows(self, jobs, sent):
        tasks.append(len(dumps(jobs)))  # a worker may get them all
        return submit_rows(self, jobs, sent)

    monkeypatch.setattr(type(away), "share", sharing)
    monkeypatch.setattr(type(away), "submit_rows", submitting_rows)
    monkeypatch.setattr(type(away), "submit", submitting)
    fitted(regression(data))
    models, wholes = zip(*parcels, strict=True)
    assert len(models) > 4 and max(models) < 10_000 and max(wholes) < 1_000_000
    assert len(tasks) >= 5 * len(CUT) and max(tasks) < 1_000_000


# ------------------------------------------------------------------------- what may go wrong
def test_x_and_y_of_two_kinds(columns):
    x, y = np.column_stack([columns["a"], columns["b"]]), columns["y"]
    far_x, far_y = da.from_array(x, chunks=(1_000, 2)), da.from_array(y, chunks=1_000)
    with pytest.raises(TypeError, match=r"y is ndarray: give it as one, too, .*from_array\(y"):
        sm.models.glm.logistic(far_x, y)
    with pytest.raises(TypeError, match=r"x is ndarray, and y is .*from_array\(x"):
        sm.models.glm.logistic(x, far_y)


def test_a_client_that_was_closed(columns, client):
    other = distributed.Client(processes=False, n_workers=1, dashboard_address=None)
    model = model_of(dask_arrays(small(columns)))
    other.close()
    with pytest.raises(RuntimeError, match=r"does not answer .* distributed.Client\(address\)"):
        sm.sample(model, blocks(sm.Exact()), **RUN)


def test_ray_that_was_shut_down(columns, started, monkeypatch):
    references = [ray.put(piece) for piece in parts(small(columns))]
    model = model_of(references)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    for call in (lambda: model_of(references), lambda: sm.sample(model, blocks(), **RUN)):
        with pytest.raises(RuntimeError, match=r"ray is not running in this process: ray.init"):
            call()


def test_persisted_arrays_live_as_long_as_the_model(columns, client, near_blocks):
    """What is made of them in between, a stack say, keeps nothing of them by itself."""
    arrays = {n: a.persist() for n, a in dask_arrays(small(columns)).items()}
    model = model_of({n: a + 0.0 for n, a in arrays.items()})
    del arrays
    assert runs.same(sm.sample(model, blocks(), **RUN), near_blocks)


# ---------------------------------------------------------------------------- a driver that dies
DRIVER = """
import sys
from pathlib import Path
import subsample_mcmc as sm
from tests.target.elsewhere.test_clusters_elsewhere import blocks, model_of

rows = sm.parquet(Path(sys.argv[1]) / "*.parquet")
options = {"draws": 1_000_000, "warmup": 6, "chains": 2, "seed": 5, "audit": 0.0, "progress": False}
sm.sample(model_of(rows), blocks(), store=sys.argv[2], **options)
"""


def drawn(path):
    """Draws of each chain that are in a store by now."""
    try:
        return sm.load(path).shape[1]
    except (OSError, ValueError, sm.StoreError):
        return 0


def test_a_driver_that_is_killed_goes_on_elsewhere(columns, client, tmp_path):
    """Begun on files, killed, and gone on with on a cluster of dask: as if it were in memory."""
    parquet(small(columns), tmp_path)
    path = tmp_path / "run.nc"
    command = [sys.executable, "-c", DRIVER, str(tmp_path), str(path)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.getcwd()})
    for _ in range(1_500):  # five minutes
        if drawn(path) >= 10 or process.poll() is not None:
            break
        time.sleep(0.2)
    assert process.poll() is None
    process.kill()
    process.wait()
    begun = drawn(path)
    assert begun >= 10
    trace = sm.resume(path, model_of(dask_frame(small(columns))), blocks(), begun + 20)
    wanted = sm.sample(model_of(small(columns)), blocks(), **RUN | {"draws": begun + 20})
    assert runs.same(trace, wanted)


# --------------------------------------------------------------------------------------- memory
LITTLE = """
import resource, sys
from pathlib import Path
import numpy as np, pyarrow, subsample_mcmc as sm
from pyarrow import parquet

folder, rows = Path(sys.argv[1]), int(sys.argv[2])
for part in range(rows // 250_000 - len(list(folder.iterdir()))):
    rng = np.random.default_rng([7, part])
    x = rng.standard_normal((250_000, 5), dtype=np.float32)
    y = rng.random(250_000) < 1.0 / (1.0 + np.exp(-x[:, 0]))
    table = pyarrow.table({f"x{j}": x[:, j] for j in range(5)} | {"y": y.astype(np.float32)})
    parquet.write_table(table, folder / f"{part:03}.parquet")
model = sm.models.glm.logistic(sm.parquet(folder / "*.parquet"), "y")
model.elsewhere.source.kept = 1 << 24  # bytes of parts that are kept for single rows
fit = sm.laplace(model, progress=False)
kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit))
options = {"draws": 200, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
sm.sample(model, kernel, start=[fit.state] * 2, **options)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """192 MB of rows in files, and 24: within 100 MB of each other, 32 of them scores of rows."""

    def peak(rows):
        folder = tmp_path / str(rows)
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-c", LITTLE, str(folder), str(rows)]
        environment = os.environ | {"PYTHONPATH": os.getcwd()}
        return float(subprocess.check_output(command, env=environment, text=True).split()[-1])

    peak(1_000_000)  # compiles
    assert peak(8_000_000) < peak(1_000_000) + 100.0
