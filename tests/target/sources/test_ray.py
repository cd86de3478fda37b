"""Rows in ray's object store: references to parts of several kinds, and Datasets."""

import numpy as np
import pandas as pd
import pytest

from subsample_mcmc.target.sources import ray as module
from subsample_mcmc.target.sources.found import source_of
from subsample_mcmc.target.sources.local import parts_of
from subsample_mcmc.target.sources.ray import RaySource
from tests.helpers.clusters import ray_here
from tests.helpers.rows import Noted, failing, killing, opened_in, sums

ray = pytest.importorskip("ray", reason="needs ray: `make clusters`")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
# What other libraries deprecate among each other is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
SIZE = 3_000
CUTS = {"even": [1_000] * 3, "uneven": [0, 1, 1_700, 1, 1_298]}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two cores of this machine, on 127.0.0.1."""
    with ray_here(2):
        yield


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(5)
    return {
        "y": rng.normal(size=SIZE).astype(np.float32), "k": rng.integers(0, 9, SIZE),
        "b": rng.random(SIZE) < 0.5,
    }  # fmt: skip


def cut(arrays, lengths, made):
    stops = np.cumsum(lengths)
    return [
        ray.put(made({n: a[stop - length : stop] for n, a in arrays.items()}))
        for stop, length in zip(stops, lengths, strict=True)
    ]


@pytest.mark.parametrize("lengths", CUTS)
@pytest.mark.parametrize("made", [dict, pa.table, pd.DataFrame])
def test_the_same_rows_whatever_parts_are(arrays, made, lengths):
    source = source_of(cut(arrays, CUTS[lengths], made))
    assert repr(source) == f"Ray, {len(CUTS[lengths])} parts, rows not counted yet, 3 columns"
    found = list(source.map(sums, 7))
    assert [r.first for _, r in found] == source.starts().tolist() and source.size == SIZE
    assert source.lengths().tolist() == CUTS[lengths]
    for name, array in arrays.items():
        total = sum(r.sums[name] for _, r in found)
        np.testing.assert_allclose(total, array.astype(float).sum())
    rows = np.array([0, 1, 2, 999, 1_701, 1_702, 2_999])
    ticket, other = source.request(rows), source.request([5])
    source.cancel(other)
    for name, array in source.receive(ticket).items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name][rows])
    assert source.content() == parts_of(arrays, [SIZE]).content()


def test_matrices_are_parts_of_dicts(arrays):
    own = arrays | {"x": np.random.default_rng(6).normal(size=(SIZE, 3))}
    source = source_of(cut(own, CUTS["uneven"], dict))
    assert source.content() == parts_of(own, [SIZE]).content()
    np.testing.assert_array_equal(source.receive(source.request([1, 7]))["x"], own["x"][[1, 7]])


def test_datasets(arrays):
    frame = pd.DataFrame(arrays)
    dataset = ray.data.from_pandas([frame[:10], frame[10:2_000], frame[2_000:]])
    source = source_of(dataset.materialize())
    assert source.lengths().tolist() == [10, 1_990, 1_000]
    assert source.content() == parts_of(arrays, [SIZE]).content()
    lazy = dataset.map_batches(lambda batch: batch)
    with pytest.raises(TypeError, match=r"not computed.*data\.materialize\(\).*sm\.parquet"):
        source_of(lazy)
    assert source_of(lazy.materialize()).size == SIZE


def test_matrices_of_datasets():
    x = np.random.default_rng(7).normal(size=(100, 3))
    dataset = ray.data.from_items([{"y": float(i), "x": x[i]} for i in range(100)])
    source = source_of(dataset.materialize())
    assert source.columns["x"].shape == (3,) and source.size == 100
    found = source.receive(source.request([0, 5, 99]))
    np.testing.assert_array_equal(found["x"], x[[0, 5, 99]])
    np.testing.assert_array_equal(found["y"], [0, 5, 99])


def test_mistakes_and_what_is_missing_are_named(arrays):
    source = RaySource(cut(arrays, CUTS["uneven"], dict))
    with pytest.raises(KeyError, match="a mistake") as caught:
        list(source.map(failing, 3))
    assert "part 3, whose first is row 1701" in caught.value.__notes__[0]
    bad = arrays | {"y": arrays["y"].copy()}
    bad["y"][1_705] = np.nan
    source = RaySource(cut(bad, CUTS["uneven"], dict))
    with pytest.raises(ValueError, match=r"data y has 1 missing.*row 1705 \(part 4\)"):
        list(source.map(sums, 0))
    for wrong in (ray.put(7), ray.put({"a b": np.zeros(3)}), ray.put(pa.table({"y": ["a"]}))):
        with pytest.raises((TypeError, ValueError), match=r"give codes|referenc|cannot be"):
            RaySource([wrong])
    with pytest.raises(ValueError, match="has no part"):
        RaySource([])


def test_parts_of_other_types_are_refused(arrays):
    other = {n: a.astype(np.float64) for n, a in arrays.items()}
    source = RaySource([ray.put(arrays), ray.put(other)])
    with pytest.raises(TypeError, match=r"data y is float64 .* and float32 .* elsewhere") as caught:
        source.lengths()
    assert "part 1" in caught.value.__notes__[0]


def test_what_is_shared_is_pickled_once_and_opened_once_a_worker(arrays, tmp_path):
    source = RaySource(cut(arrays, [100] * 30, dict))
    source.lengths()
    Noted.pickles = 0
    found = {result for _, result in source.map(opened_in, Noted(tmp_path, np.zeros(50_000)))}
    assert Noted.pickles == 1
    assert len(list(tmp_path.iterdir())) == len(found)


def test_rows_of_many_parts_are_fetched_with_one_task_a_core(arrays, monkeypatch):
    source = RaySource(cut(arrays, [100] * 30, dict))
    rows = np.arange(0, SIZE, 7)
    ticket = source.request(rows)
    assert [len(parts) for parts, _ in ticket.groups] == [15, 15]
    np.testing.assert_array_equal(source.receive(ticket)["k"], arrays["k"][rows])
    monkeypatch.setattr(module, "places_of", lambda references: [i % 3 for i in range(30)])
    ticket = source.request(rows)  # as if they were on three machines
    assert [len(parts) for parts, _ in ticket.groups] == [10, 10, 10]
    np.testing.assert_array_equal(source.receive(ticket)["k"], arrays["k"][rows])


def test_nothing_is_lost_with_a_worker(arrays, tmp_path):
    """kill -9 in the middle of a pass: the part is looked at again."""
    source = RaySource(cut(arrays, [300] * 10, dict))
    expected = {r.first: r.sums["y"] for _, r in source.map(sums, 0)}
    found = {r.first: r.sums["y"] for _, r in source.map(killing, tmp_path)}
    assert found == expected and len(list(tmp_path.iterdir())) == 1
