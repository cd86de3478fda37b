"""Rows that are appended where these are: on workers of dask and ray, and in files."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import remainder
from tests.helpers.clusters import ray_here, two_workers

distributed = pytest.importorskip("distributed", reason="needs dask: `make clusters`")
ray = pytest.importorskip("ray", reason="needs ray: `make clusters`")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
da = pytest.importorskip("dask.array", reason="needs dask: `make clusters`")
# What other libraries deprecate among each other is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
OLD, NEW, CUT, MORE = 6_100, 1_003, (2_303, 0, 3_797), (1, 1_002)


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, OLD + NEW))
    y = rng.random(OLD + NEW) < 1.0 / (1.0 + np.exp(b - 0.5 * a))
    return {"a": a, "b": b, "y": y.astype(float)}


def parts(columns, first, cut):
    stops = first + np.cumsum(cut)
    return [
        {n: c[stop - rows : stop] for n, c in columns.items()}
        for stop, rows in zip(stops, cut, strict=True)
    ]


def in_files(columns, first, cut, folder):
    from pyarrow import parquet

    folder.mkdir()
    for i, piece in enumerate(parts(columns, first, cut)):
        parquet.write_table(pa.table(piece), folder / f"{i}.parquet", row_group_size=1_000)
    return sm.parquet(folder / "*.parquet")


def in_dask(columns, first, cut, folder):
    last, sizes = first + sum(cut), tuple(rows for rows in cut if rows)
    return {n: da.from_array(c[first:last], chunks=(sizes,)) for n, c in columns.items()}


def in_ray(columns, first, cut, folder):
    return [ray.put(piece) for piece in parts(columns, first, cut)]


def in_memory(columns, first, cut, folder):
    return {name: column[first : first + sum(cut)] for name, column in columns.items()}


KINDS = {
    "files": (in_files, in_files), "dask": (in_dask, in_dask), "ray": (in_ray, in_ray),
    "dask and memory": (in_dask, in_memory), "files and ray": (in_files, in_ray),
}  # fmt: skip


@pytest.fixture(scope="module")
def clusters():
    with ray_here(1), two_workers() as client:
        yield client


def plain(state, data, n):
    eta = state.beta[0] * data.a[n] + state.beta[1] * data.b[n] + state.beta[2]
    return data.y[n] * eta - sm.softplus(eta)


def appended(model, rows):
    """(sums of all rows, draws with them)."""
    fit = sm.laplace(model, progress=False)
    bigger = model.append(rows)
    control = sm.Taylor(fit, order=3).append(bigger)
    kernel = sm.Metropolis(
        "beta", proposal=sm.pcn(control.fit), control=control, selector=sm.Racing()
    )
    options = {"draws": 60, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
    trace = sm.sample(bigger, kernel, start=[control.fit.state] * 2, **options)
    return prepared_for(bigger, control).sums, trace.draws["beta"]


@pytest.mark.parametrize("kind", KINDS)
def test_appended_rows_are_read_where_they_are(clusters, columns, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(remainder, "EVALUATIONS", 1_000_000)
    x, y = np.column_stack([columns["a"], columns["b"]]), columns["y"]
    rest = {"x": x[OLD:], "y": y[OLD:]}
    wanted, draws = appended(sm.models.glm.logistic(x[:OLD], y[:OLD]), rest)
    old, new = KINDS[kind]
    names = {"x": ["a", "b"], "y": "y"}
    if old is in_dask:
        own = da.stack([in_dask(columns, 0, CUT, None)[n] for n in names["x"]], axis=1)
        own = own.rechunk((own.chunks[0], -1))
        model = sm.models.glm.logistic(own, in_dask(columns, 0, CUT, None)["y"])
        rows = rest
        if new is in_dask:
            rows = {
                n: da.from_array(c, chunks=((1, 1_002), *((2,),) * (c.ndim - 1)))
                for n, c in rest.items()
            }
    else:
        model = sm.models.glm.logistic(old(columns, 0, CUT, tmp_path / "old"), "y")
        rows = new(columns, OLD, MORE, tmp_path / "new")
    sums, found = appended(model, rows)
    for part in ("s1", "s2", "s3", "cubes", "limits"):
        np.testing.assert_array_equal(getattr(sums.whole, part), getattr(wanted.whole, part), part)
    np.testing.assert_array_equal(draws, found)


def test_appended_rows_of_a_function_of_ones_own(clusters, columns, tmp_path, monkeypatch):
    """By derivatives of the function: on dask, and on files beside arrays."""
    monkeypatch.setattr(remainder, "EVALUATIONS", 1_000_000)
    found = []
    for old, new in ((in_dask, in_dask), (in_files, in_memory)):
        model = sm.Model(plain, old(columns, 0, CUT, tmp_path / "own"), {"beta": np.zeros(3)})
        found.append(appended(model, new(columns, OLD, MORE, None)))
    (one, draws), (two, others) = found
    np.testing.assert_array_equal(one.whole.s3, two.whole.s3)
    np.testing.assert_array_equal(draws, others)
