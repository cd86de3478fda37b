"""A stored run comes back bit for bit, whenever the process dies and whatever the disk does."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.errors import StoreError
from subsample_mcmc.runs.counts import Counts
from subsample_mcmc.runs.store import frames, netcdf, store
from subsample_mcmc.runs.trace import ChainDraws, Trace
from subsample_mcmc.target.layout import Block, Column, Layout

LAYOUT = Layout(
    (
        Block("z", True, (3,), 0),
        Block("k", True, (), 3),
        Block("beta", False, (2, 2), 0),
        Block("sigma", False, (1,), 4),
    ),
    (
        Column("gibbs", "steps", "i8", 0),
        Column("gibbs", "pulls", "i8", 1),
        Column("gibbs", "regret", "f8", 2),
        Column("walk", "scale", "f8", 4),  # no column names word 3: it must survive all the same
    ),
)
DRAWS, CHAINS = 12, 2
ROOT = Path(__file__).resolve().parents[3]
# NaNs whose bits differ, infinities, a negative zero and a denormal number.
STRANGE = np.array(
    [0x7FF8000000000001, 0xFFF8000000000123, 0x7FF0000000000000, 0x8000000000000000, 1], np.uint64
)


def header(layout=LAYOUT, draws=DRAWS, **more):
    return {"layout": layout.to_json(), "chains": CHAINS, "draws": draws, **more}


def random_rows(rng, draws, layout=LAYOUT):
    def bits(width):
        return rng.integers(-(2**63), 2**63, size=(draws, width), dtype=np.int64)

    floats = bits(layout.floats).view(np.float64)
    if floats.size >= len(STRANGE):
        floats.reshape(-1)[: len(STRANGE)] = STRANGE.view(np.float64)
    return bits(layout.ints), floats, bits(layout.words)


def random_state(rng):
    return {
        "rng": rng.integers(0, 2**64, size=4, dtype=np.uint64),
        "draws": np.array(rng.integers(100)),
        "mass": rng.normal(size=(2, 3)),
        "flags": rng.random(5) < 0.5,
        "half": rng.normal(size=3).astype(np.float32),
        "complex": rng.normal(size=2) + 1j,
        "byte": np.array([3, 255], np.uint8),
        "big": np.array([1, 2], ">i4"),
        "none": np.empty((0, 4)),
        "fortran": np.asfortranarray(rng.normal(size=(2, 3))),
        "σ": np.array(STRANGE.view(np.float64)),
    }


def same(one, other):
    """Equal bits, types and shapes; byte order aside."""
    kinds = one.dtype.newbyteorder("=") == other.dtype.newbyteorder("=")
    native = one.astype(one.dtype.newbyteorder("="))
    return kinds and one.shape == other.shape and native.tobytes() == other.tobytes()


class Twin:
    """Writes a journal, and keeps in memory what it must hold."""

    def __init__(self, path, rng, layout=LAYOUT, draws=DRAWS, **more):
        self.path, self.rng, self.layout = path, rng, layout
        self.journal = store.Journal.create(path, header(layout, draws, **more))
        self.rows = [[random_rows(rng, 0, layout)] for _ in range(CHAINS)]
        self.states = [None] * CHAINS
        self.seconds = [0.0] * CHAINS

    def append(self, chain, draws):
        rows, state = random_rows(self.rng, draws, self.layout), random_state(self.rng)
        seconds = self.seconds[chain] + self.rng.random()
        self.journal.append(chain, *rows, state, seconds)
        self.rows[chain].append(rows)
        self.states[chain], self.seconds[chain] = state, seconds

    def fill(self, sizes=(0, 5, 4, 3)):
        for size in sizes:
            for chain in range(CHAINS):
                self.append(chain, size)
        return self

    def check(self, finished=False):
        found, ends = store.read(self.path), store.peek(self.path)
        assert found.finished == ends.finished == finished
        assert found.meta == ends.meta
        for chain, data in enumerate(found.chains):
            for part, name in enumerate(("ints", "floats", "words")):
                expected = np.concatenate([rows[part] for rows in self.rows[chain]])
                assert same(expected, getattr(data, name)), (chain, name)
            for state in (data.checkpoint, ends.checkpoints[chain]):
                if self.states[chain] is None:
                    assert state is None
                    continue
                assert list(state) == list(self.states[chain])
                for name, value in self.states[chain].items():
                    assert same(value, state[name]), name
            assert ends.draws[chain] == len(data.ints)
            assert data.seconds == ends.seconds[chain] == self.seconds[chain]
        return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.nc"


@pytest.fixture
def twin(path, rng):
    made = Twin(path, rng)
    yield made
    made.journal.close()


def child(code, *arguments, **options):
    """Runs Python with this module's names, in the project's folder."""
    start = "import os, sys\nfrom pathlib import Path\n"
    start += "from subsample_mcmc.runs.store import frames, store\n"
    return subprocess.run(
        [sys.executable, "-c", start + code, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60, **options,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ journal
def test_what_is_appended_is_read_back(twin):
    twin.check()
    for chain, draws in (0, 0), (0, 3), (1, 1), (0, 2), (1, 0):
        twin.append(chain, draws)
        twin.check()
        assert twin.journal.draws == tuple(store.peek(twin.path).draws)


def test_arrays_that_are_read_belong_to_the_reader(twin):
    data = twin.fill().check().chains[0]
    data.ints[0] = 1
    data.checkpoint["mass"][0] = 1.0
    twin.check()


@pytest.mark.parametrize("without", ["ints", "floats", "words", "everything"])
def test_layouts_may_lack_a_kind_and_blocks_their_elements(path, rng, without):
    blocks = [
        b
        for b in LAYOUT.blocks
        if without not in {"everything", "ints" if b.discrete else "floats"}
    ]
    blocks.append(Block("empty", False, (2, 0), 0))
    columns = () if without in {"words", "everything"} else LAYOUT.columns
    twin = Twin(path, rng, Layout(tuple(blocks), columns)).fill()
    twin.check()
    twin.journal.close()
    store.finish(path)
    twin.check(finished=True)


def test_a_tail_torn_at_any_byte_is_ignored_and_cut_off(twin):
    twin.fill()
    whole = twin.path.stat().st_size
    kept = [list(rows) for rows in twin.rows], list(twin.states), list(twin.seconds)
    twin.append(0, 1)
    twin.journal.close()
    twin.rows, twin.states, twin.seconds = kept
    data = twin.path.read_bytes()
    for size in range(whole, len(data)):
        twin.path.write_bytes(data[:size])
        assert store.peek(twin.path).draws == [DRAWS, DRAWS], size
        if size % 50 == 0 or size > len(data) - 3 or size < whole + 3:
            twin.check()
            assert twin.path.stat().st_size == size, "reading must not touch the file"
        with store.Journal.open(twin.path) as journal:
            assert journal.draws == (DRAWS, DRAWS)
        assert twin.path.stat().st_size == whole, size
    with store.Journal.open(twin.path) as twin.journal:
        twin.append(0, 2)
    twin.check()


def test_a_wrong_byte_anywhere_in_the_last_frame_is_noticed(twin):
    twin.fill()
    whole = twin.path.stat().st_size
    twin.append(1, 1)
    twin.journal.close()
    data = bytearray(twin.path.read_bytes())
    for at in range(whole, len(data)):
        data[at] ^= 0x10
        twin.path.write_bytes(data)
        assert store.peek(twin.path).draws == [DRAWS, DRAWS], at
        if at % 50 == 0:
            assert len(store.read(twin.path).chains[1].ints) == DRAWS
        data[at] ^= 0x10
    twin.path.write_bytes(data)
    twin.check()


@pytest.mark.parametrize("part", ["head", "rows", "checkpoint"])
def test_damage_before_whole_frames_is_not_taken_for_a_torn_tail(twin, part):
    """Cutting it off would throw good draws away."""
    twin.fill((4,))
    begin = twin.path.stat().st_size
    twin.fill((4, 4))
    twin.journal.close()
    size = twin.path.stat().st_size
    offset = {"head": 20, "rows": frames.HEAD_BYTES + 5, "checkpoint": frames.HEAD_BYTES + 500}
    data = bytearray(twin.path.read_bytes())
    data[begin + offset[part]] ^= 1
    twin.path.write_bytes(data)
    for function in store.read, store.Journal.open, store.finish:
        with pytest.raises(StoreError, match=f"damaged at byte {begin}.*truncate -s {begin}"):
            function(twin.path)
    assert twin.path.stat().st_size == size
    os.truncate(twin.path, begin)
    assert store.peek(twin.path).draws == [4, 4]


def test_the_search_for_whole_frames_misses_none(twin, monkeypatch):
    """A frame may lie across two pieces of the file that are searched one by one."""
    size = twin.path.stat().st_size
    twin.append(0, 1)
    twin.append(1, 1)
    twin.journal.close()
    data = bytearray(twin.path.read_bytes())
    data[size + 20] ^= 1
    twin.path.write_bytes(data)
    for piece in range(100, 150):
        monkeypatch.setattr(frames, "PIECE", piece)
        with pytest.raises(StoreError, match="damaged"):
            store.peek(twin.path)


def test_frames_of_two_writers_are_noticed(twin):
    twin.append(0, 2)
    size = twin.path.stat().st_size
    twin.append(0, 2)
    twin.journal.close()
    data = twin.path.read_bytes()
    twin.path.write_bytes(data + data[size:])
    with pytest.raises(StoreError, match="draw 2 of chain 0 where draw 4 belongs"):
        store.read(twin.path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty.*Delete it"),
        (b"x", "is not a run of subsample_mcmc"),
        (b"chain,draw,z\n0,0,1\n" * 9, "is not a run of subsample_mcmc"),
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "is damaged or not whole"),
        (frames.SIGNATURE[:5], "is not a run of subsample_mcmc"),
        (frames.SIGNATURE, "no whole header.*Delete it"),
        (frames.SIGNATURE + frames.header_frame(header())[:-1], "no whole header.*Delete it"),
        (frames.SIGNATURE.replace(b"1", b"2") + bytes(99), "another format"),
    ],
)
def test_files_of_others_are_refused(path, content, message):
    path.write_bytes(content)
    for function in store.read, store.peek, store.finish:
        with pytest.raises(StoreError, match=message):
            function(path)
    assert path.read_bytes() == content
    with pytest.raises(StoreError):
        store.Journal.open(path)


def test_netcdf_of_others_is_refused(path):
    with h5netcdf.File(path, "w") as file:
        file.create_group("posterior")
    with pytest.raises(StoreError, match=r"netCDF or HDF5, but not a run.*arviz\.from_netcdf"):
        store.read(path)


def test_paths_that_cannot_be(path, tmp_path):
    for function in store.read, store.peek, store.finish, store.Journal.open:
        with pytest.raises(StoreError, match="No such file"):
            function(path)
        with pytest.raises(StoreError, match="Is a directory"):
            function(tmp_path)
    with pytest.raises(StoreError, match="directory must exist"):
        store.Journal.create(tmp_path / "none" / "run.nc", header())


def test_an_existing_path_is_refused(twin):
    twin.fill()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"sm\.resume.*another path.*delete"):
            store.Journal.create(twin.path, header())
        twin.check()
        twin.journal.close()


def test_a_header_that_cannot_be_written_leaves_no_file(path):
    with pytest.raises(TypeError):
        store.Journal.create(path, header(seed=object()))
    assert not path.exists()


def test_a_disk_that_is_full_from_the_start_leaves_no_file(path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.Journal.create(path, header())
    assert not path.exists()


def test_blocks_that_netcdf_cannot_tell_apart_are_refused_before_sampling(path):
    for blocks in (
        (Block("draw", True, (1,), 0),),
        (Block("chain", False, (), 0),),
        (Block("a/b", True, (1,), 0), Block("a|b", True, (1,), 1)),
        (Block("x", True, (1,), 0), Block("x_dim_0", True, (1,), 1)),
        (Block("x_dim_0", True, (), 0), Block("x", True, (1,), 1)),
    ):
        with pytest.raises(StoreError, match="Rename"):
            store.Journal.create(path, header(Layout(blocks, ())))
    assert not path.exists()


def test_a_block_may_be_named_as_an_axis_would_be_that_has_another_name(path):
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.x[0] - state.x_dim_0[0]) ** 2

    model = sm.Model(
        log_likelihood, {"y": np.arange(9.0)}, {"x": np.zeros(2), "x_dim_0": np.zeros(3)},
        lambda state: -0.5 * (np.sum(state.x**2) + np.sum(state.x_dim_0**2)), dims={"x": ["tag"]},
    )  # fmt: skip
    kernel = sm.Slice("x", selector=sm.Exact()) >> sm.Slice("x_dim_0", selector=sm.Exact())
    run = {"draws": 9, "warmup": 1, "chains": 1, "seed": 1, "progress": False}
    trace = sm.sample(model, kernel, **run, store=path)
    for name in ("x", "x_dim_0"):
        np.testing.assert_array_equal(sm.load(path).draws[name], trace.draws[name])
    assert sm.resume(path, model, kernel, draws=12, progress=False).shape == (1, 12)


def test_seconds_of_chains_that_were_cut_are_of_the_draws_that_are_saved(path):
    """Of 4,000 draws in 4 s and 1,000 in 1 s there are 1,000 of each, in 2 s."""
    model = sm.Model(lambda state, data, n: -(state.mu[0] ** 2), {"y": [0.0]}, {"mu": 0.0})
    kernel = sm.Slice("mu", selector=sm.Exact(), adapt=False)
    whole = sm.sample(model, kernel, 4_000, 0, chains=2, seed=1, progress=False)
    chains = []
    for i, n in enumerate((4_000, 1_000)):
        counts = Counts.of(whole._counts[i].words()[:n])
        chains.append(ChainDraws(*(part[i][:n] for part in whole.flat), counts, None, n / 1_000))
    cut = Trace(whole.meta, chains)
    cut.save(path)
    found = sm.load(path)
    assert cut.shape == found.shape == (2, 1_000)
    np.testing.assert_allclose(found.seconds, [1.0, 1.0])
    rows = [one.report().rows[0]["ess_per_second"] for one in (cut, found)]
    np.testing.assert_allclose(*rows)


def test_names_with_slashes_and_of_similar_statistics(path, rng):
    columns = [("a", "b_steps"), ("a_b", "steps"), ("gibbs(z)/2", "x"), ("draw", "y")]
    layout = Layout(
        (Block("group/z", True, (2,), 0),),
        tuple(Column(kernel, field, "i8", i) for i, (kernel, field) in enumerate(columns)),
    )
    twin = Twin(path, rng, layout).fill()
    twin.journal.close()
    store.finish(path)
    found = twin.check(finished=True)
    with h5netcdf.File(path) as file:
        assert same(file["posterior"]["group|z"][1], found.chains[1].ints)
        names = {"a_b_steps", "a_b_steps_", "gibbs(z)|2_x", "draw_y", "chain", "draw"}
        assert set(file["sample_stats"].variables) == names


def test_arrays_of_another_layout_are_refused(twin, rng):
    ints, floats, words = random_rows(rng, 2)
    for bad in (
        (ints[:, 1:], floats, words),
        (ints[:1], floats, words),
        (ints.astype(float), floats, words),
        (ints, np.zeros_like(floats, np.float32), words),
    ):
        with pytest.raises(ValueError, match="the layout needs"):
            twin.journal.append(0, *bad, {}, 0.0)
    with pytest.raises(ValueError, match="chain=2"):
        twin.journal.append(2, ints, floats, words, {}, 0.0)
    for value in np.array(["text"]), np.array([None]):
        with pytest.raises(TypeError, match="'state' is an array of"):
            twin.journal.append(0, ints, floats, words, {"state": value}, 0.0)
    twin.check()


def test_a_new_header_replaces_the_old_one(twin):
    twin.fill()
    twin.journal.close()
    new = header(draws=20, note="further")
    with store.Journal.open(twin.path, new) as twin.journal:
        assert twin.journal.meta == store.peek(twin.path).meta == json.loads(json.dumps(new))
        twin.fill((8,))
    assert twin.check().meta == json.loads(json.dumps(new))
    store.finish(twin.path)
    twin.check(finished=True)


def test_another_layout_or_number_of_chains_is_refused(twin):
    twin.fill().journal.close()
    for _ in range(2):
        for new in header(Layout(LAYOUT.blocks, ())), {**header(), "chains": 3}:
            with pytest.raises(StoreError, match="was sampled with other"):
                store.reopen(twin.path, new)
        store.finish(twin.path)
    twin.check(finished=True)


# ---------------------------------------------------------------------- processes and threads
@pytest.mark.slow
def test_another_process_reads_while_this_one_writes(twin):
    twin.fill((3,))
    code = "run = store.read(sys.argv[1]); print(run.finished, [len(c.ints) for c in run.chains])"
    done = child(code, twin.path)
    assert done.stdout.split("\n")[0] == "False [3, 3]", done.stderr
    twin.append(1, 2)
    twin.check()


@pytest.mark.slow
def test_two_writers_are_refused(twin):
    twin.fill()
    done = child("store.Journal.open(sys.argv[1])", twin.path)
    assert "StoreError" in done.stderr and "is being written" in done.stderr
    for function in store.Journal.open, store.finish:
        with pytest.raises(StoreError, match="is being written"):
            function(twin.path)
    twin.journal.close()
    twin.check()
    store.finish(twin.path)
    with store.reopen(twin.path, header(draws=20)):
        with pytest.raises(StoreError, match="is being written"):
            store.reopen(twin.path, header(draws=20))
        with pytest.raises(StoreError, match="is being written"):
            store.finish(twin.path)


def test_a_file_that_was_replaced_before_the_lock_is_refused(twin, monkeypatch):
    """Its new content would be lost: what is appended would go to a file without a name."""
    twin.fill().journal.close()
    opened = os.open

    def slow(*arguments):
        monkeypatch.setattr(os, "open", opened)
        fd = opened(*arguments)
        store.finish(twin.path)
        return fd

    monkeypatch.setattr(os, "open", slow)
    with pytest.raises(StoreError, match="is being written"):
        store.Journal.open(twin.path)
    twin.check(finished=True)


def test_threads_append_together(path, monkeypatch):
    write = os.write

    def slow(fd, data):
        time.sleep(1e-4)  # lets another thread run between two parts of a frame
        return write(fd, data[: max(1, len(data) // 2)] if len(data) > 100 else data)

    monkeypatch.setattr(os, "write", slow)
    with store.Journal.create(path, header(draws=40)) as journal:

        def work(chain):
            for draw in range(40):
                rows = [np.full((1, w), draw, t) for w, t in zip((4, 5, 5), "ifi", strict=True)]
                rows = [r.astype(f"{r.dtype.kind}8") for r in rows]
                journal.append(chain, *rows, {"draw": np.array(draw)}, float(draw))

        threads = [threading.Thread(target=work, args=(c,)) for c in range(CHAINS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for chain in store.read(path).chains:
        assert (chain.words[:, 0] == np.arange(40)).all()
        assert chain.checkpoint["draw"] == 39


@pytest.mark.slow
def test_a_full_disk_leaves_what_was_stored(twin):
    twin.fill((2,))
    before = twin.path.read_bytes()
    twin.journal.close()
    code = """
import resource, numpy as np
import subsample_mcmc as sm
from subsample_mcmc.errors import StoreError
path = sys.argv[1]
journal = store.Journal.open(path)
size = Path(path).stat().st_size
rows = np.ones((3, 4), np.int64), np.ones((3, 5)), np.ones((3, 5), np.int64)
for room in 0, 1, 100, 400:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
    try:
        journal.append(0, *rows, {}, 1.0)
    except StoreError as error:
        print(error)
    assert Path(path).stat().st_size == size, Path(path).stat().st_size
    assert journal.draws == (2, 2)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(Path(path).read_bytes().hex())
journal.append(0, *rows, {}, 1.0)
"""
    done = child(code, twin.path)
    *messages, content = done.stdout.strip().split("\n")
    assert len(messages) == 4, done.stderr
    for message in messages:
        assert str(twin.path) in message and "sm.resume" in message
        assert "2, 2 of 12 (per chain)" in message
    assert bytes.fromhex(content) == before
    assert store.peek(twin.path).draws == [5, 2], done.stderr


def test_an_interrupt_in_the_middle_of_a_write_leaves_whole_frames(twin, monkeypatch):
    twin.fill((2,))
    size, write = twin.path.stat().st_size, os.write

    def interrupted(fd, data):
        if len(data) < 200:
            raise KeyboardInterrupt
        return write(fd, data[:100])

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        twin.journal.append(0, *random_rows(twin.rng, 3), {}, 0.0)
    assert twin.path.stat().st_size == size
    monkeypatch.undo()
    twin.append(0, 3)
    twin.check()


def test_a_tail_that_cannot_be_cut_off_ends_the_journal(twin, monkeypatch):
    twin.fill((2,))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "ftruncate", full)
    for message in "No space left", "is closed":
        with pytest.raises(StoreError, match=message):
            twin.append(0, 3)
        monkeypatch.undo()
    twin.check()


def test_nothing_is_appended_once_closed(twin):
    twin.fill().journal.close()
    twin.journal.close()
    with pytest.raises(StoreError, match="is closed"):
        twin.append(0, 1)
    twin.check()


# ------------------------------------------------------------------------------------- netCDF
@pytest.mark.filterwarnings("ignore:.* group is not defined in the InferenceData scheme")  # 0.20
def test_finished_runs_are_read_by_arviz(path, rng):
    arviz = pytest.importorskip("arviz")
    seed = 2**100 + 1
    twin = Twin(path, rng, version="0.1.0", seed=seed, describe="gibbs(z), walk(beta)").fill()
    twin.journal.close()
    store.finish(path)
    found = twin.check(finished=True)
    run = arviz.from_netcdf(path)
    values = LAYOUT.draws(
        np.stack([c.ints for c in found.chains]), np.stack([c.floats for c in found.chains])
    )
    dims = {"z": ("z_dim_0",), "k": (), "beta": ("beta_dim_0", "beta_dim_1")}
    for name, value in values.items():
        stored = run["posterior"][name]
        assert stored.dims == ("chain", "draw", *dims.get(name, ("sigma_dim_0",)))
        assert same(value, stored.values), name
    assert list(run["posterior"]["draw"]) == list(range(DRAWS))
    assert list(run["posterior"]["chain"]) == list(range(CHAINS))
    words = np.stack([c.words for c in found.chains])
    stats = LAYOUT.stats(words)
    assert set(run["sample_stats"].data_vars) == {"gibbs_steps", "walk_scale"}
    assert set(run["decisions"].data_vars) == {"gibbs_pulls", "gibbs_regret"}
    for group, kernel, field in (
        ("sample_stats", "gibbs", "steps"),
        ("sample_stats", "walk", "scale"),
        ("decisions", "gibbs", "pulls"),
        ("decisions", "gibbs", "regret"),
    ):
        assert same(stats[kernel][field], run[group][f"{kernel}_{field}"].values), field
    assert run.attrs["inference_library_version"] == "0.1.0"
    assert run.attrs["seed"] == str(seed)
    assert run.attrs["kernels"] == "gibbs(z), walk(beta)"
    run.close()


def located(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


@pytest.mark.filterwarnings("ignore:.* group is not defined in the InferenceData scheme")  # 0.20
def test_a_file_has_the_groups_and_attributes_of_to_arviz(path):
    arviz = pytest.importorskip("arviz")
    model = sm.Model(located, {"y": np.linspace(-1.0, 1.0, 50)}, {"mu": 0.0})
    trace = sm.sample(model, sm.Metropolis("mu"), 10, 5, chains=2, seed=1, store=path,
                      progress=False)  # fmt: skip
    run, made = arviz.from_netcdf(path), trace.to_arviz()
    assert dict(run.attrs) == dict(made.attrs)
    assert {"guarantee", "sampling_time", "version"} < set(run.attrs)
    for group in ("posterior", "sample_stats", "decisions"):
        assert set(run[group].data_vars) == set(made[group].data_vars)
        for name in run[group].data_vars:
            assert same(run[group][name].values, made[group][name].values), name
    run.close()


def test_files_that_had_statistics_in_another_group_are_read(path, monkeypatch):
    model = sm.Model(located, {"y": np.linspace(-1.0, 1.0, 50)}, {"mu": 0.0})
    monkeypatch.setattr(netcdf, "DECISIONS", netcdf.DECISIONS - {"predicted", "distance"})
    kernel = sm.Metropolis("mu")
    trace = sm.sample(model, kernel, 10, 5, chains=2, seed=1, store=path, progress=False)
    monkeypatch.undo()
    found = sm.load(path)
    for name, values in trace.stats["mu"].items():
        assert same(np.asarray(values), np.asarray(found.stats["mu"][name])), name
    more = sm.resume(path, model, kernel, draws=15, progress=False)
    assert more.shape == (2, 15)
    with h5py.File(path) as file:
        assert "mu_predicted" in file["decisions"]


def test_finish_refuses_an_incomplete_run(twin):
    twin.fill((5,))
    twin.append(0, DRAWS - 5)
    twin.journal.close()
    with pytest.raises(StoreError, match=r"12, 5 draws \(per chain\) of 12.*sm\.resume"):
        store.finish(twin.path)
    twin.check()
    with store.Journal.open(twin.path) as twin.journal:
        twin.append(1, DRAWS - 5)
    store.finish(twin.path)
    store.finish(twin.path)  # nothing left to do
    twin.check(finished=True)
    assert sorted(os.listdir(twin.path.parent)) == [twin.path.name]


def test_nobody_appends_while_a_run_is_finished(twin, monkeypatch):
    twin.fill().journal.close()
    write = netcdf.write

    def meanwhile(path, run):
        with pytest.raises(StoreError, match="is being written"):
            store.Journal.open(twin.path)
        write(path, run)

    monkeypatch.setattr(netcdf, "write", meanwhile)
    store.finish(twin.path)
    twin.check(finished=True)


@pytest.mark.parametrize(("draws", "chunk"), [(1, 2**18), (DRAWS, 2**18), (DRAWS, 1), (4000, 200)])
def test_the_space_that_is_reserved_suffices(path, rng, monkeypatch, draws, chunk):
    """HDF5 crashes the process when the disk is full, so it must not need more."""
    monkeypatch.setattr(netcdf, "CHUNK", chunk)
    twin = Twin(path, rng, draws=draws, note="x" * 100_000).fill((draws,))
    twin.journal.close()
    with frames.opened(path) as run:
        reserved = netcdf.space(run)
    store.finish(path)
    twin.check(finished=True)
    assert reserved / 3 < path.stat().st_size + 200_000 and path.stat().st_size < reserved


def test_a_run_of_no_draws(path, rng):
    twin = Twin(path, rng, draws=0).fill((0, 0))
    twin.journal.close()
    store.finish(path)
    twin.check(finished=True)


@pytest.mark.plain  # one round trip with the lowest versions of h5netcdf and h5py, too
def test_further_draws_after_the_end(twin, monkeypatch):
    monkeypatch.setattr(frames, "MANY", 300)  # several pieces, of journal and of netCDF
    monkeypatch.setattr(netcdf, "MANY", 300)
    monkeypatch.setattr(netcdf, "CHUNK", 100)
    twin.fill().journal.close()
    for extra in 0, 3, 20:
        store.finish(twin.path)
        found = twin.check(finished=True)
        new = {**found.meta, "draws": found.meta["draws"] + extra, "extra": extra}
        with store.reopen(twin.path, new) as twin.journal:
            assert twin.journal.path == twin.path
            assert twin.check().meta == new
            twin.fill((extra,))
        assert twin.check().meta == new
    assert sorted(os.listdir(twin.path.parent)) == [twin.path.name]


def test_large_runs_are_moved_in_pieces(twin, monkeypatch):
    monkeypatch.setattr(frames, "MANY", 300)
    monkeypatch.setattr(netcdf, "MANY", 300)
    twin.fill((1,) * DRAWS).journal.close()
    with frames.opened(twin.path) as run:
        sizes = [len(rows["ints"]) for rows in run.rows(0)]
    assert sizes == [3, 3, 3, 3]  # 112 bytes a draw
    store.finish(twin.path)
    with netcdf.opened(twin.path) as run:
        assert [len(rows["ints"]) for rows in run.rows(0)] == [2] * 6


def test_links_and_permissions_are_kept(twin):
    twin.fill().journal.close()
    twin.path.chmod(0o640)
    link = twin.path.with_name("link.nc")
    link.symlink_to(twin.path.name)
    store.finish(link)
    assert link.is_symlink() and twin.check(finished=True)
    store.reopen(link, header(draws=20)).close()
    assert link.is_symlink() and twin.check(finished=False)
    assert twin.path.stat().st_mode & 0o777 == 0o640


def test_what_a_killed_conversion_left_is_replaced(twin):
    twin.fill().journal.close()
    for kind in "netcdf", "journal":
        twin.path.with_name(f"{twin.path.name}.{kind}-part").write_bytes(b"left over" * 9999)
    twin.check()
    store.finish(twin.path)
    twin.check(finished=True)
    store.reopen(twin.path, header(draws=20)).close()
    twin.check()
    assert sorted(os.listdir(twin.path.parent)) == [twin.path.name]


DIE = """
import signal
count = [0]
def dying(function):
    def call(*arguments, **named):
        count[0] += 1
        if count[0] > int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return call
"""


@pytest.mark.slow_for("0")
@pytest.mark.parametrize("after", [0, 7])
def test_kill_in_the_middle_of_finish(twin, after):
    twin.fill().journal.close()
    code = """
from subsample_mcmc.runs.store import netcdf
frames.MANY = 300
netcdf.StoredVariable.take = dying(netcdf.StoredVariable.take)
store.finish(sys.argv[1])
"""
    assert child(DIE + code, twin.path, after).returncode == -signal.SIGKILL
    assert len(os.listdir(twin.path.parent)) == 2, "it died before or after the conversion"
    twin.check()
    store.finish(twin.path)
    twin.check(finished=True)
    assert len(os.listdir(twin.path.parent)) == 1


@pytest.mark.slow_for("4")
@pytest.mark.parametrize("after", [0, 4])
def test_kill_in_the_middle_of_reopen(twin, after):
    twin.fill().journal.close()
    store.finish(twin.path)
    code = """
from subsample_mcmc.runs.store import netcdf
netcdf.MANY = 300
store.Journal.append = dying(store.Journal.append)
store.reopen(sys.argv[1], store.peek(sys.argv[1]).meta)
"""
    assert child(DIE + code, twin.path, after).returncode == -signal.SIGKILL
    assert len(os.listdir(twin.path.parent)) == 2
    twin.check(finished=True)
    with store.reopen(twin.path, header(draws=DRAWS + 1)) as twin.journal:
        twin.fill((1,))
    twin.check()
    assert len(os.listdir(twin.path.parent)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, 3_000, 9_000])
def test_a_disk_that_is_full_at_the_end_leaves_the_journal(twin, room):
    twin.fill().journal.close()
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
store.finish(sys.argv[1])
"""
    done = child(code, twin.path, room)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "draws are safe" in done.stderr.replace("All draws", "draws"), done.stderr
    twin.check()
    assert sorted(os.listdir(twin.path.parent)) == [twin.path.name]
    store.finish(twin.path)
    twin.check(finished=True)


def test_a_disk_that_is_full_when_going_further_leaves_netcdf(twin):
    twin.fill().journal.close()
    store.finish(twin.path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limit[1]))
    try:
        with pytest.raises(StoreError, match=r"cannot be reopened.*It is as it was"):
            store.reopen(twin.path, header(draws=20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    twin.check(finished=True)
    assert sorted(os.listdir(twin.path.parent)) == [twin.path.name]


def test_a_reader_who_comes_between_looks_again(twin, monkeypatch):
    twin.fill().journal.close()
    opened = frames.opened

    def late(path, verify=True):
        monkeypatch.setattr(frames, "opened", opened)
        store.finish(path)
        return opened(path, verify)

    monkeypatch.setattr(frames, "opened", late)
    assert store.read(twin.path).finished
    twin.check(finished=True)
