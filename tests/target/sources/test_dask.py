"""Rows in collections of dask: on workers of a real cluster, some killed, and in threads."""

import os
import signal

import numpy as np
import pandas as pd
import pytest

from subsample_mcmc.target.sources import dask as module
from subsample_mcmc.target.sources.dask import DaskSource, dask_source
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.clusters import two_workers
from tests.helpers.rows import Noted, failing, killing, opened_in, sums

cloudpickle = pytest.importorskip("cloudpickle", reason="needs dask: `make clusters`")
distributed = pytest.importorskip("distributed", reason="needs dask: `make clusters`")
da = pytest.importorskip("dask.array", reason="needs dask: `make clusters`")
dd = pytest.importorskip("dask.dataframe", reason="needs dask: `make clusters`")
# What other libraries deprecate among each other is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
SIZE = 3_000
CUTS = {"even": (1_000,) * 3, "uneven": (1, 0, 1_700, 1, 1_298, 0)}


@pytest.fixture(scope="module")
def client():
    """Two workers of one core each, on 127.0.0.1."""
    with two_workers() as client:
        yield client


@pytest.fixture(params=["cluster", "threads"])
def where(request):
    if request.param == "cluster":
        yield request.getfixturevalue("client")
    else:  # a client that another test made is not the default one here
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setattr(module, "client_in_use", lambda: None)
        yield None


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(4)
    return pd.DataFrame({
        "y": rng.normal(size=SIZE), "x": rng.normal(size=SIZE).astype(np.float32),
        "k": pd.array(rng.integers(0, 9, SIZE), dtype="Int32"), "b": rng.random(SIZE) < 0.5,
        "c": pd.Categorical(rng.choice(["low", "mid"], SIZE), ["low", "mid", "high"]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def arrays(frame):
    codes = frame["c"].cat.codes.to_numpy(np.int64)
    columns = {"y": "f8", "x": "f4", "k": "i4", "b": "?"}
    return {n: frame[n].to_numpy(dtype=kind) for n, kind in columns.items()} | {"c": codes}


def slice_of(bounds, frame):
    return frame.iloc[bounds[0] : bounds[1]]


def cut_frame(frame, lengths):
    stops = np.cumsum(lengths)
    bounds = [(int(stop) - length, int(stop)) for stop, length in zip(stops, lengths, strict=True)]
    return dd.from_map(slice_of, bounds, frame=frame, meta=frame.iloc[:0])


def cut_arrays(arrays, lengths):
    return {n: da.from_array(a, chunks=(lengths, *a.shape[1:])) for n, a in arrays.items()}


def matrix(arrays):
    return {"y": arrays["y"], "x": np.column_stack([arrays["x"], arrays["x"] ** 2])}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", ["frame", "persisted frame", "arrays", "columns"])
def test_the_same_rows_wherever_they_are(where, frame, arrays, kind, cut):
    if kind == "arrays":
        expected = matrix(arrays)
        source = dask_source(cut_arrays(expected, CUTS[cut]))
        assert source.lengths().tolist() == list(CUTS[cut])
    elif kind == "columns":
        whole = cut_frame(frame, CUTS[cut])
        expected = {"x": arrays["x"], "group": arrays["c"]}
        source = dask_source({"x": whole["x"], "group": whole["c"]})
        assert source.columns["group"].categories == ("low", "mid", "high")
    else:
        whole = cut_frame(frame, CUTS[cut])
        if "persisted" in kind:
            whole = whole.persist() if where else whole.persist(scheduler="threads")
        expected, source = arrays, dask_source(whole)
        assert repr(source) == f"Dask, {len(CUTS[cut])} parts, rows not counted yet, 5 columns"
    assert isinstance(source, DaskSource) == (where is not None)
    found = list(source.map(sums, 7))
    assert [(part, r.part, r.shared) for part, r in found] == [
        (p, p, 7) for p in range(len(CUTS[cut]))
    ]
    assert [r.first for _, r in found] == source.starts().tolist() and source.size == SIZE
    for name, array in expected.items():
        total = sum(r.sums[name] for _, r in found)
        np.testing.assert_allclose(total, array.astype(float).sum(axis=0))
    rows = np.array([0, 1, 2, 999, 1_000, 1_701, 1_702, 2_999])
    ticket, other = source.request(rows), source.request([5])
    source.cancel(other)
    for name, array in source.receive(ticket).items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name][rows])
    if kind == "arrays":
        assert source.content() == parts_of(expected, [SIZE]).content()
    source.close()


def test_content_is_that_of_other_cuts_and_clusters(client, frame, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "client_in_use", lambda: None)
        here = dask_source(cut_frame(frame, CUTS["uneven"]))
    there = dask_source(cut_frame(frame, CUTS["even"]))
    assert here.content() == there.content()
    other = frame.assign(y=frame["y"].where(frame.index != 1_500, 0.25))
    assert dask_source(cut_frame(other, CUTS["even"])).content() != there.content()


def test_exceptions_arrive_as_they_are(where, frame):
    source = dask_source(cut_frame(frame, CUTS["uneven"]))
    with pytest.raises(KeyError, match="a mistake") as caught:
        list(source.map(failing, 3))
    assert "partition 3, whose first is row 1701" in caught.value.__notes__[0]


def test_what_is_missing_is_named(where, frame):
    for name, value, words in (
        ("y", np.nan, r"1 missing value \(NaN\)"), ("y", np.inf, "1 infinite value"),
        ("k", pd.NA, "1 missing value,"), ("c", None, "1 missing value,"),
    ):  # fmt: skip
        bad = frame.copy()
        bad.loc[1_705, name] = value
        source = dask_source(cut_frame(bad, CUTS["uneven"]))
        with pytest.raises(ValueError, match=rf"data {name} has {words}.*row 1705 \(partition 4\)"):
            list(source.map(sums, 0))


def test_values_below_a_mask_are_missing(where, arrays):
    """Those of every second row are 1,000: they were data, and the mean of all was near 500."""
    below = np.arange(SIZE) % 2 == 1
    y = np.ma.array(np.where(below, 1e3, arrays["y"]), mask=below)
    source = dask_source({"y": da.from_array(y, chunks=700)})
    with pytest.raises(ValueError, match=r"data y has 350 missing values .* row 1 \(partition 0\)"):
        source.noticed()


def test_arrays_of_other_chunks_are_cut_as_the_coarsest(where, arrays):
    expected = matrix(arrays)
    given = {
        "y": da.from_array(expected["y"], chunks=500),
        "x": da.from_array(expected["x"], chunks=(1_600, 1)),
    }
    source = dask_source(given)
    assert source.lengths().tolist() == [1_600, 1_400]
    assert source.content() == parts_of(expected, [SIZE]).content()
    with pytest.raises(ValueError, match=r"different lengths: .*'x': 3000, 'z': 10\}"):
        dask_source(given | {"z": da.zeros(10)})


def test_lengths_that_are_not_known(where, arrays):
    y = da.from_array(arrays["y"], chunks=1_000)
    kept = y[y > 0]
    source = dask_source({"y": kept, "z": kept * 2})
    expected = arrays["y"][arrays["y"] > 0]
    assert source.size == len(expected)
    found = source.receive(source.request([0, 900]))["z"]
    np.testing.assert_array_equal(found, 2 * expected[[0, 900]])
    with pytest.raises(ValueError, match=r"different numbers of parts.*compute_chunk_sizes"):
        dask_source({"y": kept, "z": da.zeros(SIZE, chunks=500)})
    source = dask_source({"y": kept, "z": y})
    with pytest.raises(ValueError, match="different lengths"):
        source.lengths()


def test_what_cannot_be_read(frame):
    with pytest.raises(TypeError, match="and others are collections of dask"):
        dask_source({"y": da.zeros(5), "x": np.zeros(5)})
    unknown = cut_frame(frame, CUTS["even"])
    unknown["c"] = unknown["c"].astype(str).astype("category")
    with pytest.raises(TypeError, match=r"data c has categories that are not known.*as_known"):
        dask_source(unknown)
    words = frame.assign(c=frame["c"].astype(str))
    with pytest.raises(TypeError, match="data c is a column of type str"):
        dask_source(cut_frame(words, CUTS["even"]))


def changing(bounds, folder):
    """A part that has other values each time it is made."""
    count = len(os.listdir(folder))
    (folder / str(count)).touch()
    return pd.DataFrame({"y": np.arange(*bounds) + float(bounds[0] > 0) * count})


def test_rows_that_change_are_named(where, tmp_path):
    meta = pd.DataFrame({"y": np.zeros(0)})
    made = dd.from_map(changing, [(0, 10), (10, 20)], folder=tmp_path, meta=meta)
    source = dask_source(made)
    with pytest.raises(ValueError, match=r"passes: partition 1, whose first is row 10"):
        list(source.map(sums, 0))


def test_scattered_parts_are_refused(client, frame):
    scattered = client.scatter([frame[:1_000], frame[1_000:]])
    made = dd.from_delayed(scattered, meta=frame[:0])
    kept = made.persist()
    distributed.wait(kept)
    for given in (made, kept):
        with pytest.raises(ValueError, match=r"DataFrame-.* and 1 others .* scattered.*from_map"):
            dask_source(given)
    assert dask_source(cut_frame(frame, CUTS["even"]).persist()).size == SIZE


def test_what_is_shared_is_pickled_once_and_opened_once_a_worker(client, frame, tmp_path):
    source = dask_source(cut_frame(frame, (100,) * 30).persist())
    source.lengths()
    Noted.pickles = 0
    shared = Noted(tmp_path, np.zeros(50_000))
    found = {result for _, result in source.map(opened_in, shared)}
    assert Noted.pickles == 1 and len(found) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_shared_does_not_travel_with_each_task(client, frame, monkeypatch):
    source = dask_source(cut_frame(frame, (100,) * 30).persist())
    source.lengths()
    sent, compute = [], client.compute

    def computed(calls, **options):
        sent.extend(calls)
        return compute(calls, **options)

    monkeypatch.setattr(client, "compute", computed)
    assert [part for part, _ in source.map(sums, np.zeros(50_000))] == list(range(30))
    sizes = [len(cloudpickle.dumps(call.dask[call.key])) for call in sent]
    # Of parts that a worker holds, some by a task: four tasks a thread, and what is left.
    assert 4 <= len(sizes) <= 15 and max(sizes) < 10_000
    (shared,) = {key for call in sent for key in call.dask if str(key).startswith("bytes")}
    assert len(cloudpickle.dumps(sent[0].dask[shared])) > 400_000


def test_rows_of_many_parts_are_fetched_with_one_task_a_worker(client, frame, arrays, monkeypatch):
    source = dask_source(cut_frame(frame, (100,) * 30).persist())
    source.lengths()
    groups = []
    monkeypatch.setattr(source, "submit", lambda *given: groups.append(given) or [])
    ticket = source.request(np.arange(0, SIZE, 7))
    places = client.who_has(list(source.held.values()))
    holders = {workers[0] for workers in places.values()}  # on a busy machine one may have all
    assert len(ticket.groups) == len(holders) and [job for _, job, _ in groups] == [[]]
    assert sorted(part for parts, _ in ticket.groups for part in parts) == list(range(30))
    np.testing.assert_array_equal(source.receive(ticket)["x"], arrays["x"][::7])


def test_nothing_is_lost_with_a_worker(client, frame, arrays, tmp_path):
    """kill -9 in the middle of a pass, and of a request of rows: what it held is made again."""
    source = dask_source(cut_frame(frame, (300,) * 10).persist())
    expected = {r.first: r.sums["y"] for _, r in source.map(sums, 0)}
    found = {r.first: r.sums["y"] for _, r in source.map(killing, tmp_path)}
    assert found == expected and len(list(tmp_path.iterdir())) == 1
    ticket = source.request(np.arange(0, SIZE, 3))
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    np.testing.assert_array_equal(source.receive(ticket)["x"], arrays["x"][::3])
    assert {r.first: r.sums["y"] for _, r in source.map(sums, 0)} == expected
