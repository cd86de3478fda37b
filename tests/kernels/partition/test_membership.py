"""Clusters' storage and sums of a bilinear score: a million random moves, and nothing is lost."""

from typing import NamedTuple

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition.cluster_sums import (
    add_to_sums,
    cluster_scores,
    make_sums,
    pair_score,
    sum_anew,
    take_from_sums,
)
from subsample_mcmc.kernels.partition.members import (
    STRETCH,
    blocks_of,
    bring_forward,
    canonical,
    empty_label,
    gather,
    join,
    leave,
    make_members,
    relabel,
)
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.rows import WEYL, below, hashed
from tests.helpers.claims import equal
from tests.kernels.partition.test_partition import bilinear


@pytest.fixture(autouse=True)
def quiet():
    """Without the JIT, streams of bits overflow as they should."""
    with np.errstate(over="ignore"):
        yield


MOVES = 200 if DISABLED else 20_000


class Habits(NamedTuple):
    """How often a mention that left opens a cluster, or joins the giant; else a member's own."""

    opens: float
    giant: float


MIXED, OPENING, GROWING = Habits(0.15, 0.0), Habits(0.97, 0.0), Habits(0.0, 0.9)


@jit(inner=True)
def chance(stream):
    stream[0] += WEYL
    return np.float64(hashed(stream[0]) >> np.uint64(11)) * 2.0**-53


@jit(inner=True)
def number(stream, size):
    stream[0] += WEYL
    return below(hashed(stream[0]), size)


@jit(inner=True)
def target_of(m, b, habits, stream):
    """Where a mention goes: a new cluster, the giant, or the cluster of a random mention.

    The giant is the cluster of the block's lowest label in use.
    """
    lo, hi = m.start[b], m.start[b + 1]
    if m.now[b].clusters == 0:
        return empty_label(m, b)
    u = chance(stream)
    if u < habits.opens:
        return empty_label(m, b)
    if u < habits.opens + habits.giant:
        y = lo
        while m.size[y] == 0:
            y += 1
        return y
    y = m.label[m.order[lo + number(stream, hi - lo)]]
    return y if m.size[y] > 0 else m.alive[lo]


@jit
def move_about(m, b, moves, habits, stream):
    """Leave, look at members, join: what a sweep does; how often a cluster was emptied."""
    lo, hi = m.start[b], m.start[b + 1]
    emptied = 0
    for _ in range(moves):
        i = m.order[lo + number(stream, hi - lo)]
        old = m.label[i]
        leave(m, b, i)
        emptied += 1 if m.size[old] == 0 else 0
        if m.now[b].clusters > 0:
            y = m.alive[lo + number(stream, m.now[b].clusters)]
            first = min(m.size[y], number(stream, 4))
            bring_forward(m, stream, y, 0, first)
            bring_forward(m, stream, y, first, min(m.size[y], first + number(stream, 8)))
        join(m, b, i, target_of(m, b, habits, stream))
    return emptied


@jit
def move_with_sums(m, s, b, moves, habits, stream):
    """As sweeps do: sums are changed only if the mention ends up elsewhere."""
    lo, hi = m.start[b], m.start[b + 1]
    for _ in range(moves):
        i = m.order[lo + number(stream, hi - lo)]
        old = m.label[i]
        leave(m, b, i)
        y = target_of(m, b, habits, stream)
        join(m, b, i, y)
        if y != old:
            take_from_sums(s, i, old, m.size[old] == 0)
            add_to_sums(s, i, y)


@jit
def start_over(m, b):
    gather(m, b)


@jit
def sums_over(m, s, b):
    sum_anew(s, m, b)


@jit
def scores_without(m, s, b, i, out, alive):
    """The sums that a decision about mention i sees; its cluster is left as it was."""
    old = m.label[i]
    leave(m, b, i)
    cluster_scores(s, m, b, i, out)
    clusters = m.now[b].clusters
    for k in range(clusters):
        alive[k] = m.alive[m.start[b] + k]
    join(m, b, i, old)
    return clusters


@jit
def drawn_of(m, b, y, count, trials, stream, out):
    """How often each member is among the first after bring_forward, in two looks."""
    for _ in range(trials):
        bring_forward(m, stream, y, 0, 1)
        bring_forward(m, stream, y, 1, count)
        for k in range(count):
            out[k, m.pool[m.first[y] + k]] += 1


@jit
def pair_of(s, i, j):
    return pair_score(s, i, j)


def intact(m, b):
    """Labels, storage and places agree; sizes, rooms and ranks hold; nothing leaves its stretch."""
    lo, hi = int(m.start[b]), int(m.start[b + 1])
    mine, own = m.order[lo:hi], np.arange(lo, hi)
    sizes = np.bincount(m.label[mine] - lo, minlength=hi - lo)
    assert np.array_equal(sizes, m.size[lo:hi])
    assert np.array_equal(m.pool[m.first[m.label[mine]] + m.place[mine]], mine)
    assert np.all((m.place[mine] >= 0) & (m.place[mine] < m.size[m.label[mine]]))
    clusters = int(m.now[b].clusters)
    assert np.array_equal(np.sort(m.alive[lo:hi]), own)
    assert np.array_equal(m.rank[m.alive[lo:hi]], own)
    used = m.alive[lo : lo + clusters]
    assert np.all(m.size[used] > 0) and np.all(m.size[m.alive[lo + clusters : hi]] == 0)
    assert np.all(m.room[used] >= m.size[used])
    used = used[np.argsort(m.first[used])]
    ends = m.first[used] + m.room[used]
    assert np.all(ends[:-1] <= m.first[used][1:])
    assert m.first[used[0]] >= STRETCH * lo
    assert ends[-1] <= m.now[b].used <= STRETCH * hi


def heavy_tailed(rng, size):
    """Labels 0, 0, 0, ..., 1, 1, ..., in random order: cluster sizes fall like 1 / rank^2."""
    weights = 1.0 / np.arange(1, size + 1) ** 1.3
    return rng.choice(size, size, p=weights / weights.sum())


def several_blocks(rng, sizes):
    """Members of blocks whose mentions are mixed, with heavy-tailed clusters."""
    keys = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    blocks = blocks_of(keys)
    label = heavy_tailed(rng, len(keys)).astype(np.int64)
    relabel(label, blocks)
    assert canonical(label, blocks)
    m = make_members(blocks, label)
    for b in range(len(sizes)):
        start_over(m, b)
        intact(m, b)
    return m


def stream_of(rng):
    return rng.integers(2**63, size=1).astype(np.uint64)


# ------------------------------------------------------------------------------------ storage
@pytest.mark.slow
@pytest.mark.plain
def test_a_million_moves(rng):
    m = several_blocks(rng, [40, 60, 30] if DISABLED else [400, 1500, 300])
    stream, apart = stream_of(rng), [k for b in (0, 2) for k in range(m.start[b], m.start[b + 1])]
    before = [a[apart].copy() for a in (m.alive, m.rank, m.size, m.first, m.room)]
    emptied = 0
    # Mixed, then all singletons, then one giant, and so on: clusters run out of room in all ways.
    for turn in range(50):
        habits = (MIXED, OPENING, MIXED, GROWING, OPENING, GROWING)[turn % 6]
        emptied += move_about(m, 1, MOVES, habits, stream)
        intact(m, 1)
        if turn % 6 in (3, 5) and not DISABLED:
            assert m.size[m.start[1] : m.start[2]].max() > 1300
        if turn % 6 == 1 and not DISABLED:
            assert m.now[1].clusters > 1200
    assert emptied > 5 * (20 if DISABLED else 20_000)
    # Its neighbours were left alone.
    for a, was in zip((m.alive, m.rank, m.size, m.first, m.room), before, strict=True):
        assert np.array_equal(a[apart], was)
    for b in (0, 2):
        intact(m, b)


@pytest.mark.plain
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_small_blocks(rng, size):
    """The stretch is full soonest where there is little of it."""
    m = several_blocks(rng, [3, size, 2])
    stream = stream_of(rng)
    for habits in (MIXED, OPENING, GROWING) * 20:
        move_about(m, 1, 50 if DISABLED else 500, habits, stream)
        for b in range(3):
            intact(m, b)


@pytest.mark.plain
def test_what_was_emptied_is_used_again_first(rng):
    m = several_blocks(rng, [5])
    m.label[:] = [0, 0, 1, 2, 2]
    start_over(m, 0)
    assert m.now[0].clusters == 3 and sorted(m.alive[3:]) == [3, 4]
    leave_one(m, 2)
    assert m.now[0].clusters == 2 and free_label(m) == 1
    join_one(m, 2, 1)
    intact(m, 0)
    assert free_label(m) in (3, 4)


@jit
def leave_one(m, i):
    leave(m, 0, i)


@jit
def join_one(m, i, y):
    join(m, 0, i, y)


@jit
def free_label(m):
    return empty_label(m, 0)


def test_members_are_drawn_without_replacement_all_alike(rng):
    """Whatever the order in which they were left by earlier draws."""
    m = several_blocks(rng, [12])
    m.label[:] = [0] * 9 + [1, 1, 2]
    start_over(m, 0)
    trials, out = 60_000, np.zeros((4, 12), dtype=np.int64)
    drawn_of(m, 0, 0, 4, trials, stream_of(rng), out)
    intact(m, 0)
    assert not out[:, 9:].any()
    for k in range(4):
        for i in range(9):
            equal(int(out[k, i]), trials, 1 / 9, 1e-6 / 36)


# --------------------------------------------------------------------------------------- sums
def with_sums(rng, size):
    """One large block and two small ones, of mentions with tokens and categories."""
    control, _ = bilinear(rng, size=size)
    sizes = [size // 10, size - 2 * (size // 10), size // 10]
    m = several_blocks(rng, sizes)
    s = make_sums(control.pieces(), m)
    for b in range(3):
        sums_over(m, s, b)
    return control, m, s


def brute(control, m, i):
    """Sum of the scores of i and the others in each cluster."""
    others = np.flatnonzero(np.arange(len(m.label)) != i)
    scores = control.values(np.full(len(others), i), others)
    return np.bincount(m.label[others], weights=scores, minlength=len(m.label))


def agree(control, m, s, b, rng, count=4):
    """Sums against pairs, for some mentions of a block and every cluster of it."""
    out = np.full(len(m.label), np.nan)
    lo, hi = m.start[b], m.start[b + 1]
    for i in m.order[lo + rng.choice(hi - lo, min(count, hi - lo), replace=False)]:
        room = np.zeros(hi - lo, dtype=np.int64)
        alive = room[: scores_without(m, s, b, i, out, room)]
        assert np.allclose(out[alive], brute(control, m, i)[alive], rtol=1e-9, atol=1e-9)
        j = m.order[lo + rng.integers(hi - lo)]
        if j != i:
            assert pair_of(s, i, j) == pytest.approx(control.value(i, j), rel=1e-12, abs=1e-12)


@pytest.mark.slow
@pytest.mark.plain
@pytest.mark.parametrize("turns", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_sums_after_many_moves(rng, turns):
    control, m, s = with_sums(rng, 40 if DISABLED else 300)
    stream = stream_of(rng)
    for b in range(3):
        agree(control, m, s, b, rng)
    for turn in range(turns):
        habits = (MIXED, OPENING, GROWING)[turn % 3]
        move_with_sums(m, s, 1, MOVES, habits, stream)
        intact(m, 1)
        agree(control, m, s, 1, rng)
        # A cluster that is empty has no sum, exactly, and stands in no token's list.
        lo, hi = m.start[1], m.start[2]
        empty = np.flatnonzero(m.size[lo:hi] == 0) + lo
        assert not s.column[empty].any()
        for t in range(s.blocks[1], s.blocks[2]):
            listed = s.cluster[s.lists[t] : s.lists[t] + s.used[t]]
            assert len(set(listed.tolist())) == len(listed) and np.all(m.size[listed] > 0)
            assert s.used[t] <= s.lists[t + 1] - s.lists[t]
    for b in range(3):
        agree(control, m, s, b, rng)
    before = s.column.copy()
    for b in range(3):
        sums_over(m, s, b)
    assert np.allclose(s.column, before, rtol=1e-9, atol=1e-9)


@pytest.mark.plain
def test_tokens_of_one_mention_in_a_block_have_no_sums(rng):
    tokens = {"t": (np.array([0, 2, 4, 5, 6]), np.array([0, 1, 0, 2, 1, 2]), np.ones(6), 2.0)}
    control = sm.Bilinear(tokens=tokens)
    blocks = blocks_of(np.array([0, 0, 1, 1]))
    m = make_members(blocks, np.array([0, 0, 2, 3]))
    s = make_sums(control.pieces(), m)
    assert s.blocks.tolist() == [0, 1, 1]  # in the first block token 0 occurs twice; others once
    assert s.tokens.tolist() == [0, 1, 2, 2, 2]
    for b in range(2):
        start_over(m, b)
        sums_over(m, s, b)
        agree(control, m, s, b, rng)
