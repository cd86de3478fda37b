"""What a user gave as data, recognised as a source of rows; arrays in files of zarr and h5py."""

import numpy as np
import pandas as pd
import pytest

from subsample_mcmc.target.sources import found
from subsample_mcmc.target.sources.found import source_of
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.rows import sums

SIZE = 1_000


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(8)
    return {
        "y": rng.normal(size=SIZE).astype(np.float32), "x": rng.normal(size=(SIZE, 3)),
        "k": rng.integers(0, 5, SIZE),
    }  # fmt: skip


IN_MEMORY = {
    "arrays": lambda a: a, "a frame": lambda a: pd.DataFrame({"y": a["y"]}),
    "records": lambda a: np.zeros(3, dtype=[("y", float)]), "a list": lambda a: [1, 2],
    "nothing": lambda a: {}, "columns": lambda a: {"y": pd.Series(a["y"]), "s": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_what_is_in_memory_is_no_source(arrays, kind):
    assert source_of(IN_MEMORY[kind](arrays)) is None


def test_a_source_is_one(arrays):
    source = parts_of(arrays, [SIZE])
    assert source_of(source) is source


def in_zarr(arrays, folder, chunks):
    zarr = pytest.importorskip("zarr", reason="needs zarr: `make clusters`")
    group = zarr.open_group(folder / f"{len(arrays)}.zarr", mode="w")
    for name, array in arrays.items():
        made = group.create_array(
            name, shape=array.shape, dtype=array.dtype, chunks=(chunks[name], *array.shape[1:])
        )
        made[:] = array
    return {name: group[name] for name in arrays}


def in_h5py(arrays, folder, chunks):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / f"{len(arrays)}.h5", "w")
    return {
        name: file.create_dataset(name, data=a, chunks=(chunks[name], *a.shape[1:]))
        for name, a in arrays.items()
    }


@pytest.mark.parametrize("write", [in_zarr, in_h5py])
@pytest.mark.parametrize("step", [1, 300, 10_000])
def test_arrays_in_files(arrays, tmp_path, monkeypatch, write, step):
    monkeypatch.setattr(found, "ROWS", step)
    source = source_of(write(arrays, tmp_path, {"y": 70, "x": 110, "k": 1_000}))
    assert source.lengths().tolist() == [SIZE]  # the coarsest chunks have 1,000 rows
    given = write({n: arrays[n] for n in ("x", "y")}, tmp_path, {"y": 70, "x": 110})
    source = source_of(given | {"k": arrays["k"]})
    whole = {1: 110, 300: 330, 10_000: SIZE}[step]
    assert source.lengths().tolist() == [whole] * (SIZE // whole) + [SIZE % whole] * (whole < SIZE)
    assert repr(source).startswith(f"{write.__name__.partition('_')[2]}, ")
    order = {n: arrays[n] for n in source.columns}
    assert source.content() == parts_of(order, [SIZE]).content()
    assert sum(r.sums["k"] for _, r in source.map(sums, 0)) == arrays["k"].sum()
    rows = np.array([0, 109, 110, 999])
    for name, array in source.receive(source.request(rows)).items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name][rows])
    source.close()


def test_what_does_not_fit(arrays, tmp_path):
    given = in_h5py(arrays, tmp_path, {"y": 70, "x": 110, "k": 1_000})
    with pytest.raises(ValueError, match="data have different lengths"):
        source_of(given | {"z": np.zeros(3)})
    with pytest.raises(ValueError, match="data z is a masked array with 1 missing value, in row 2"):
        source_of(given | {"z": np.ma.array(np.zeros(SIZE), mask=np.arange(SIZE) == 2)})
    with pytest.raises(TypeError, match=r"data s is float, and others .*tables="):
        source_of(given | {"s": 2.0})


def test_datasets_of_pyarrow(arrays, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
    import pyarrow.dataset as files
    import pyarrow.feather
    import pyarrow.parquet

    flat = {n: arrays[n] for n in ("y", "k")}
    table = pa.table(flat)
    assert source_of(table) is None  # a Table is in memory
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "rows.arrow")
    for name, kind in (("rows.parquet", "parquet"), ("rows.arrow", "feather")):
        source = source_of(files.dataset(tmp_path / name, format=kind))
        assert source.size == SIZE
        assert source.content() == parts_of(flat, [SIZE]).content()
        source.close()


def test_libraries_that_are_not_there_are_not_imported(arrays):
    import subprocess
    import sys

    script = (
        "import sys, numpy as np\n"
        "from subsample_mcmc.target.sources.found import source_of\n"
        "source_of({'y': np.zeros(3)}), source_of([1])\n"
        "print([m for m in ('dask', 'ray', 'pyarrow', 'zarr', 'h5py') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert told.stdout.strip() == "[]"
