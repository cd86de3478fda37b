"""What kernels counted, in few bytes: it reads as the words that it was."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.counts import Counts, KernelStats
from tests.helpers import runs

BIG = 2**62


def words(rng, draws):
    """Columns of all kinds: still, small, of either sign, large, and the bits of floats."""
    return np.stack(
        [
            np.zeros(draws, np.int64), np.full(draws, -BIG), rng.integers(0, 2, draws),
            rng.integers(-128, 128, draws), rng.integers(-129, 128, draws),
            rng.integers(-(2**15), 2**15, draws), rng.integers(0, 2**31, draws),
            2**31 - np.arange(draws), rng.integers(-BIG, BIG, draws),
            rng.standard_normal(draws).view(np.int64), np.full(draws, np.float64(0.3).view("i8")),
        ],
        axis=1,
    )  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("draws", [1, 2, 700])
def test_columns_read_as_they_were_written(rng, draws):
    given = words(rng, draws)
    for order in "CF":
        found = Counts.of(np.asarray(given, order=order))
        assert len(found) == draws and np.array_equal(found.words(), given)
        for i in range(given.shape[1]):
            assert found.column(i).dtype == np.int64
            assert np.array_equal(found.column(i), given[:, i])
            if np.abs(given[:, i]).max() < 2**40:
                assert found.total(i, "i8") == given[:, i].sum()
        reals = given[:, 9].view(float)
        assert found.total(9, "f8") == reals.sum()
    if draws == 700:
        assert found.total(1, "i8") == -700 * BIG  # beyond what 8 bytes hold
        sizes = [0 if isinstance(c, int) else c.itemsize for c in found.columns]
        assert sizes == [0, 0, 1, 1, 2, 2, 4, 8, 8, 8, 0]
        assert found.nbytes == draws * sum(sizes)


@pytest.mark.plain
def test_parts_are_joined(rng):
    """Parts in which a column stands still at different values, or needs other sizes."""
    parts = [words(rng, n) for n in (5, 1, 300)]
    parts[1][:, 0], parts[2][:, 2] = 7, 2**40
    parts.insert(1, np.empty((0, parts[0].shape[1]), np.int64))
    found = Counts.joined([Counts.of(part) for part in parts])
    assert np.array_equal(found.words(), np.concatenate(parts)) and len(found) == 306
    assert isinstance(found.columns[1], int)  # the same in all
    nothing = Counts.joined([Counts.of(parts[1])])
    assert len(nothing) == 0 and nothing.words().shape == parts[1].shape


@pytest.mark.plain
def test_sums_are_those_of_the_arrays(rng):
    chains = [Counts.of(words(rng, n)) for n in (50, 60)]
    stats = KernelStats({"a": (3, "i8"), "b": (9, "f8"), "still": (0, "i8")}, chains, 50)
    assert list(stats) == ["a", "b", "still"] and "c" not in stats and len(stats) == 3
    for name in stats:  # chains of an interrupted run are cut to one length
        assert stats[name].shape == (2, 50)
        assert stats.total(name) == stats[name].sum()
    assert stats["b"].dtype == float and stats["a"] is stats["a"]
    assert stats.total("c") == 0
    with pytest.raises(KeyError):
        stats["c"]


def test_draws_of_a_run_are_not_copied(tmp_path, monkeypatch):
    """They are written to where they are read; other chains, and a store, give the same."""
    stacked, usual = [], np.stack

    def spied(parts, *args, **more):
        stacked.append(np.ndim(parts[0]))
        return usual(parts, *args, **more)

    monkeypatch.setattr("subsample_mcmc.runs.trace.np.stack", spied)
    trace = runs.run(60, chains=3)
    assert trace.draws["theta"].shape == (3, 60, 2) and 2 not in stacked
    assert runs.same(trace, runs.run(60, chains=3, store=tmp_path / "run.nc"))
    assert runs.same(trace, sm.load(tmp_path / "run.nc"))
    assert runs.same(trace, runs.run(60, chains=3, parallel="threading"))


def test_chains_of_unequal_length_are_saved(tmp_path):
    """Of a run that broke: each has what it drew, and the trace what all of them have."""
    with pytest.raises(sm.RewardError) as broken:
        runs.run(
            3000, model=runs.model(data=runs.data(limit=0.6)), chains=3, warmup=3,
            parallel="threading",
        )  # fmt: skip
    trace = broken.value.trace
    assert len({len(counts) for counts in trace._counts}) > 1
    trace.save(tmp_path / "cut.nc")
    assert runs.same(sm.load(tmp_path / "cut.nc"), trace)
