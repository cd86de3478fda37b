"""Mini-batches without replacement: uniform, fresh for every decision, and nothing left behind."""

import itertools

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.numerics import rows as draws
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.rows import CHUNK, make_rows, put_back, take
from tests.helpers.naive import uncompiled

ALARM = 1e-6  # chance of a false alarm of each chi-square test, were its seed fresh


@jit
def read(rows, stream, p, batches, out):
    """Draw batches of the sizes given in one decision, its rows copied to `out`."""
    done = 0
    for k in range(len(batches)):
        at = take(rows, stream, p, batches[k])
        for i in range(batches[k]):
            out[done + i] = rows.kept[at + i]
        done += batches[k]


@jit
def finish(rows):
    put_back(rows)


@jit
def decide_often(rows, stream, batches, out):
    """One decision per line of `out`."""
    for t in range(len(out)):
        read(rows, stream, 0, batches, out[t])
        put_back(rows)


def seeded(seed):
    return np.random.default_rng(seed).integers(2**64, size=1, dtype=np.uint64)


def sample(size, batches, times, seed, rows=None):
    """The rows of `times` consecutive decisions, one line each."""
    out = np.zeros((times, sum(batches)), dtype=np.int64)
    with np.errstate(over="ignore"):  # plain Python warns where machine code wraps
        decide_often(rows or make_rows([size]), seeded(seed), np.array(batches), out)
    return out


def assert_uniform(counts):
    assert counts.sum() >= 5 * counts.size
    chance = stats.chisquare(counts.ravel()).pvalue
    assert ALARM < chance < 1.0 - ALARM, f"p = {chance} over {counts.size} cells"


def cells(samples, size):
    """Number each line of rows as a figure in base `size`."""
    return samples @ size ** np.arange(samples.shape[1])


# ----------------------------------------------------------------------------------- uniformity
PATTERNS = [
    pytest.param(3, (1,), marks=pytest.mark.plain),
    pytest.param(3, (3,), marks=pytest.mark.plain),
    pytest.param(4, (2, 2), marks=pytest.mark.plain),  # the second batch is listed
    *[(4, (1, 1, 1, 1)), (5, (3,)), (5, (2, 1)), (5, (3, 2)), (5, (1, 3, 1)), (5, (5,))],
    *[(6, (2, 2)), (6, (3, 1, 1)), (6, (5,)), (7, (4,)), (7, (4, 1)), (7, (7,)), (7, (2, 3, 2))],
]


@pytest.mark.parametrize(("size", "batches"), PATTERNS)
def test_every_ordered_sample_is_equally_likely(size, batches):
    order = list(itertools.permutations(range(size), sum(batches)))
    each = 100 if DISABLED else max(100, 40_000 // len(order))
    found = cells(sample(size, batches, each * len(order), seed=size), size)
    expected = cells(np.array(order), size)
    assert np.all(np.isin(found, expected))
    assert_uniform(np.bincount(found, minlength=size**size)[expected])


@pytest.mark.parametrize("batches", [
    pytest.param((2,), marks=pytest.mark.plain), (3,), (1, 1, 1), (2, 1, 1),
])  # fmt: skip
def test_consecutive_decisions_are_independent(batches):
    """All pairs (rows of one decision, rows of the next) are equally likely."""
    size = 4
    order = cells(np.array(list(itertools.permutations(range(size), sum(batches)))), size)
    times = 20 * len(order) ** 2
    found = np.searchsorted(np.sort(order), cells(sample(size, batches, times, seed=1), size))
    assert_uniform(np.bincount(found[::2] * len(order) + found[1::2], minlength=len(order) ** 2))
    assert_uniform(np.bincount(found[1:-1:2] * len(order) + found[2::2], minlength=len(order) ** 2))


def test_rows_of_a_large_population_are_uniform():
    size = 1_000_000
    first = sample(size, (64,), 30_000, seed=2).ravel()
    assert_uniform(np.bincount(first // 1000, minlength=1000))
    assert_uniform(np.bincount(first % 64, minlength=64))
    many = sample(size, (CHUNK,) * 100, 20, seed=3)  # past the end of `kept`
    assert_uniform(np.bincount(many.ravel() // 1000, minlength=1000))
    assert all(np.unique(line).size == line.size for line in many)
    # The last rows, listed and shuffled, in a population of several words of bits
    last = sample(200, (100, 50), 4000, seed=4)
    assert_uniform(np.bincount(last[:, 100:].ravel(), minlength=200))
    assert_uniform(np.bincount(last[:, 149], minlength=200))


def test_overlap_of_consecutive_decisions_is_hypergeometric():
    samples = sample(2000, (100,), 4001, seed=5)
    common = [np.intersect1d(a, b).size for a, b in itertools.pairwise(samples)]
    law = stats.hypergeom(2000, 100, 100)
    z = (np.sum(common) - len(common) * law.mean()) / np.sqrt(len(common) * law.var())
    assert abs(z) < stats.norm.isf(ALARM / 2)


# ------------------------------------------------------------------------ each row once, no trace
def assert_untouched(rows):
    assert not np.any(rows.bits)
    for field in ("drawn", "used", "wiped", "listed"):
        assert not np.any(rows.part[field]), field


def split(size, rng, most=CHUNK):
    """Random batches that add up to `size`."""
    batches = []
    while sum(batches) < size:
        batches.append(min(int(rng.integers(1, most + 1)), size - sum(batches)))
    return batches


@pytest.mark.plain
def test_every_row_comes_exactly_once(rng):
    sizes = [1, 2, 3, 63, 64, 65, 500, 1100, 5000] if DISABLED else range(1, 5001)
    for size in sizes:
        rows, stream, out = make_rows([size]), seeded(size), np.full(size, -1)
        batches = np.array(split(size, rng))
        for _ in range(2):  # the second decision finds nothing of the first
            with np.errstate(over="ignore"):
                read(rows, stream, 0, batches, out)
                assert np.array_equal(np.sort(out), np.arange(size)), (size, batches)
                finish(rows)
            assert_untouched(rows)


@pytest.mark.plain
@pytest.mark.parametrize(("size", "taken"), [
    (1000, 10), (1000, 499), (1000, 500), (1000, 1000), (9000, 4100), (9000, 5000), (70_000, 9000),
])  # fmt: skip
def test_nothing_is_left_behind(size, taken, rng):
    """Through each phase: bits only, `kept` overwritten, the rest listed."""
    rows, stream, out = make_rows([size]), seeded(0), np.zeros(taken, dtype=np.int64)
    for _ in range(3):
        with np.errstate(over="ignore"):
            read(rows, stream, 0, np.array(split(taken, rng)), out)
            finish(rows)
        assert np.unique(out).size == taken and out.min() >= 0 and out.max() < size
        assert_untouched(rows)


@pytest.mark.plain
def test_populations_do_not_touch_each_other(rng):
    sizes = [1, 700, 64, 3000, 65, 1]
    rows, stream = make_rows(sizes), seeded(1)
    left = {p: split(size, rng, 200) for p, size in enumerate(sizes)}
    seen = {p: [] for p in left}
    with np.errstate(over="ignore"):
        while any(left.values()):
            p = int(rng.choice([p for p in left if left[p]]))
            out = np.zeros(left[p][0], dtype=np.int64)
            read(rows, stream, p, np.array([left[p].pop(0)]), out)
            seen[p] += out.tolist()
            used = rows.part["first_kept"][p] + rows.part["used"][p]
            assert used <= rows.part["first_kept"][p] + rows.part["room"][p]
        finish(rows)
    assert_untouched(rows)
    for p, size in enumerate(sizes):
        assert sorted(seen[p]) == list(range(size))


# ----------------------------------------------------------------------- streams and determinism
@pytest.mark.plain
def test_seeds_decide():
    same = [sample(3000, (64, 128), 4, seed=s) for s in (1, 1, 2)]
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(same[0], same[2])
    assert not np.array_equal(same[0][0], same[0][1])


@pytest.mark.skipif(DISABLED, reason="compares with compiled code")
@pytest.mark.parametrize(
    ("size", "batches"), [(7, (3, 4)), (3000, (64, 900, 1024)), (10**6, (500,))]
)
def test_plain_python_draws_the_same_rows(size, batches, monkeypatch):
    plain = uncompiled(draws, monkeypatch)
    rows, stream, out = plain.make_rows([size]), seeded(3), []
    with np.errstate(over="ignore"):
        for _ in range(3):
            out.append([])
            for m in batches:
                at = plain.take(rows, stream, 0, m)
                out[-1] += rows.kept[at : at + m].tolist()
            plain.put_back(rows)
    assert np.array_equal(out, sample(size, batches, 3, seed=3))


@pytest.mark.plain
def test_below_is_the_high_word_of_a_product(rng):
    @jit
    def call(bits, size):
        return draws.below(bits, size)

    for size in (1, 2, 3, 7, 10**6, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 10**12 + 1, 2**48):
        for bits in [0, 2**32 - 1, 2**64 - 1, *map(int, rng.integers(2**64, size=50, dtype="u8"))]:
            assert call(np.uint64(bits), size) == bits * size >> 64


@pytest.mark.parametrize("barred", [(), tuple(range(0, 12_000, 3))])
def test_rows_of_large_populations_are_those_of_small_ones(barred, monkeypatch):
    """The first that a decision draws stand in a table, and more of them in bits, up to all."""
    left = 40_000 - len(barred)
    found = []
    for large in (40_000, 39_999):
        monkeypatch.setattr(draws, "LARGE", large)
        rows = make_rows([left], np.asarray(barred))
        before = rows.few.copy()
        assert (rows.part[0].spread, len(before) > 1) == (large == 40_000, large < 40_000)
        assert np.count_nonzero(before) == (len(barred) if large < 40_000 else 0)
        for batches in ([64, 64], [1024] * 3, [1024] * 5, [1000] * (left // 1000) + [left % 1000]):
            batches = [m for m in batches if m]
            found.append(sample(0, batches, 6, seed=3, rows=rows))
            assert not np.isin(found[-1], barred).any()
            assert np.array_equal(rows.few, before) and rows.part[0].spread == (large == 40_000)
    for small, other in zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True):
        assert np.array_equal(small, other)


# ------------------------------------------------------------------------------- large, read-only
def value(data, arm, n):
    return arm * 1e-3 * data[0][n]


def constant(data, arm, n):
    return 1e-9 * arm * (n & 1)


def test_memory_mapped_data_are_read_and_never_written(tmp_path, rng):
    rng.normal(size=100_000).tofile(tmp_path / "y.bin")
    y = np.memmap(tmp_path / "y.bin", dtype=float, mode="r")
    made = sm.draw(sm.Population(value, (y,), 3), 50, sm.Racing(retreat=False), seed=0)
    again = sm.draw(sm.Population(value, (np.array(y),), 3), 50, sm.Racing(retreat=False), seed=0)
    assert np.array_equal(made.arms, again.arms) and np.array_equal(made.pulls, again.pulls)
    assert made.share_read < 1.0


@pytest.mark.slow
def test_a_hundred_million_rows(tmp_path):
    with open(tmp_path / "y.bin", "wb") as file:
        file.truncate(10**8)  # sparse: zeros
    y = np.memmap(tmp_path / "y.bin", dtype=np.int8, mode="r")
    for population in (sm.Population(value, (y,), 3),
                       sm.Population(constant, (np.zeros(1),), 3, size=10**8)):  # fmt: skip
        made = sm.draw(population, 200, sm.Racing(batch=64), seed=0)
        assert len(made) == 200 and np.unique(made.arms).size == 3


@pytest.mark.slow
def test_rows_beyond_32_bits():
    size = 2**33
    rows = make_rows([size])
    assert rows.kept.dtype == np.int64 and make_rows([2**20]).kept.dtype == np.int32
    samples = sample(size, (CHUNK, CHUNK), 100, seed=6, rows=rows)
    assert samples.max() > 2**32 and samples.min() >= 0
    assert_uniform(np.bincount(samples.ravel() >> 23, minlength=1024))
    assert_uniform(np.bincount(samples.ravel() & 1023, minlength=1024))
    assert_untouched(rows)
