"""Who is in which cluster: blocks of mentions that may share one, and the members of each.

Mentions with the same candidate key are a block; no cluster reaches across two. A sweep over one
block reads and writes its own mentions, labels and stretches of every array, so that blocks can be
worked on side by side.

The members of a cluster stand side by side, so that some can be drawn at random. All clusters of a
block live in one stretch of a pool, each with room to grow. A member leaves by swapping places with
the last one; a full cluster moves to the end of the stretch with twice the room; when the stretch
is full it is packed anew. Everything is linear in the number of mentions, and a move costs O(1),
amortised.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import draw


class Blocks(NamedTuple):
    """Mentions sorted by block; block b holds order[start[b]:start[b + 1]].

    Its clusters have the labels start[b] .. start[b + 1] - 1, so that no two blocks share one.
    """

    order: np.ndarray
    start: np.ndarray


def keys_of(candidates: Any, model: Any) -> np.ndarray:
    """One key per mention as integers; -1 where it is missing."""
    import pandas

    size = model.size
    if candidates is None:
        return np.zeros(size, dtype=np.int64)
    if isinstance(candidates, str):
        if candidates not in model.data._fields:
            raise ValueError(
                f"candidates={candidates!r} is no field of the data, which has "
                f"{model.data._fields}: give one of them, an array of keys, or key(data, i)."
            )
        given: Any = getattr(model.data, candidates)
    elif isinstance(candidates, Callable):  # type: ignore[arg-type]
        given = [candidates(model.data, i) for i in range(size)]
    else:
        given = candidates
    array = np.asarray(given) if not hasattr(given, "isna") else given
    if np.ndim(array) != 1 or len(array) != size:
        raise ValueError(
            f"candidates have shape {np.shape(array)}: give one key for each of {size} mentions."
        )
    # Whatever pandas calls missing, the empty string, and negative numbers: no candidates.
    if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
        keys, missing = array, ~(array >= 0)
    else:
        keys = np.array(pandas.Series(array if hasattr(given, "isna") else list(given)), object)
        texts = np.array([isinstance(key, str | bytes) for key in keys], dtype=bool)
        missing = pandas.isna(keys)
        missing[texts] = [not key for key in keys[texts]]
        numbers = pandas.to_numeric(keys[~texts], errors="coerce")
        missing[~texts] |= np.asarray(numbers < 0, dtype=bool)
    codes = np.full(size, -1, dtype=np.int64)
    codes[~missing] = pandas.factorize(keys[~missing], sort=False)[0]
    return codes


def blocks_of(keys: np.ndarray) -> Blocks:
    """Mentions sorted by key; one without a key is a block of its own."""
    keys = keys.copy()
    alone = keys < 0
    keys[alone] = keys.max(initial=-1) + 1 + np.arange(alone.sum())
    order = np.argsort(keys, kind="stable").astype(np.int64)
    found = keys[order]
    first = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    return Blocks(order, np.concatenate([first, [len(keys)]]).astype(np.int64))


def canonical(labels: np.ndarray, blocks: Blocks) -> bool:
    """Do all labels lie in the range of their block."""
    sizes = np.diff(blocks.start)
    first = np.repeat(blocks.start[:-1], sizes)
    found = labels[blocks.order] - first
    return bool(np.all((found >= 0) & (found < np.repeat(sizes, sizes))))


def relabel(labels: np.ndarray, blocks: Blocks) -> None:
    """Give clusters the labels of their blocks, in place.

    Labels are read inside each block: equal ones in two blocks are two clusters.
    """
    sizes = np.diff(blocks.start)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    known, sorted_labels = np.unique(labels[blocks.order], return_inverse=True)  # may be hashes
    pairs = owner * len(known) + sorted_labels
    distinct, codes = np.unique(pairs, return_inverse=True)  # sorted by block, then label
    block = distinct // len(known)
    first = np.searchsorted(block, np.arange(len(sizes)))
    labels[blocks.order] = codes - first[owner] + blocks.start[:-1][owner]


# ------------------------------------------------------------------------------ clusters of a block
STRETCH = 6  # places in the pool per mention: packed, clusters fill at most 2.5, growing 2 more

BLOCK = np.dtype(
    [
        ("clusters", np.int64),  # that are not empty
        ("used", np.int64),  # places of the stretch, gaps included
        ("bad", np.int64),  # 1: a score was no number, that of mentions i and j
        ("i", np.int64),
        ("j", np.int64),
    ],
    align=True,
)


class Members(NamedTuple):
    """The clusters; arrays by mention or by label, one stretch for each block."""

    order: np.ndarray  # mentions by block
    start: np.ndarray
    label: np.ndarray  # by mention: the chain's own block of labels
    place: np.ndarray  # by mention: where in its cluster
    first: np.ndarray  # by label: where the cluster starts in the pool
    size: np.ndarray
    room: np.ndarray
    alive: np.ndarray  # labels of a block, those in use first
    rank: np.ndarray  # by label: where it stands among them
    pool: np.ndarray
    spare: np.ndarray
    now: np.recarray  # (blocks,) of BLOCK


def make_members(blocks: Blocks, label: np.ndarray) -> Members:
    """Empty storage for the clusters that `label` names."""
    size = len(label)
    now = np.zeros(len(blocks.start) - 1, dtype=BLOCK).view(np.recarray)
    place, first, sizes, room, alive, rank, spare = (
        np.zeros(size, dtype=np.int64) for _ in range(7)
    )
    pool = np.zeros(STRETCH * size, dtype=np.int64)
    return Members(
        blocks.order, blocks.start, label, place, first, sizes, room, alive, rank, pool, spare, now
    )


@jit(inner="always")
def gather(m, b):
    """Build the clusters of a block from its labels; the order is that of mentions."""
    lo, hi = m.start[b], m.start[b + 1]
    for y in range(lo, hi):
        m.size[y] = 0
    for k in range(lo, hi):
        m.size[m.label[m.order[k]]] += 1
    used, front, back = STRETCH * lo, lo, hi - 1
    for y in range(lo, hi):
        if m.size[y] > 0:
            m.alive[front], m.rank[y] = y, front
            front += 1
            m.first[y], m.room[y] = used, m.size[y] + (m.size[y] >> 1) + 1
            used += m.room[y]
        else:
            m.alive[back], m.rank[y] = y, back
            back -= 1
        m.size[y] = 0
    for k in range(lo, hi):
        i = m.order[k]
        y = m.label[i]
        m.place[i] = m.size[y]
        m.pool[m.first[y] + m.size[y]] = i
        m.size[y] += 1
    m.now[b].clusters, m.now[b].used = front - lo, used


@jit(inner="always")
def pack(m, b):
    """Close the gaps of a stretch, and give every cluster half its size to grow."""
    lo = m.start[b]
    at, last = lo, lo + m.now[b].clusters
    for k in range(lo, last):
        y = m.alive[k]
        for c in range(m.first[y], m.first[y] + m.size[y]):
            m.spare[at] = m.pool[c]
            at += 1
    used, at = STRETCH * lo, lo
    for k in range(lo, last):
        y = m.alive[k]
        m.first[y], m.room[y] = used, m.size[y] + (m.size[y] >> 1) + 1
        for c in range(m.size[y]):
            m.pool[used + c] = m.spare[at]
            at += 1
        used += m.room[y]
    m.now[b].used = used


@jit(inner="always")
def make_room(m, b, y):
    """Give cluster y room for one more."""
    room, end = max(2, 2 * m.size[y]), STRETCH * m.start[b + 1]
    if m.now[b].used + room > end:
        m.room[y] = 0
        pack(m, b)
        return
    used = m.now[b].used
    for c in range(m.size[y]):
        m.pool[used + c] = m.pool[m.first[y] + c]
    m.first[y], m.room[y] = used, room
    m.now[b].used += room


@jit(inner="always")
def swap_ranks(m, y, other):
    a, b = m.rank[y], m.rank[other]
    m.alive[a], m.alive[b] = other, y
    m.rank[y], m.rank[other] = b, a


@jit(inner="always")
def leave(m, b, i):
    """Take mention i out of its cluster; an empty one is freed, first in line to be used again."""
    y = m.label[i]
    m.size[y] -= 1
    last = m.pool[m.first[y] + m.size[y]]
    m.pool[m.first[y] + m.place[i]] = last
    m.place[last] = m.place[i]
    if m.size[y] == 0:
        m.now[b].clusters -= 1
        swap_ranks(m, y, m.alive[m.start[b] + m.now[b].clusters])


@jit(inner="always")
def join(m, b, i, y):
    """Put mention i, which is in no cluster, into cluster y, which may be empty."""
    if m.size[y] == 0:
        swap_ranks(m, y, m.alive[m.start[b] + m.now[b].clusters])
        m.now[b].clusters += 1
        m.room[y] = 0
    if m.size[y] == m.room[y]:
        make_room(m, b, y)
    m.pool[m.first[y] + m.size[y]] = i
    m.label[i], m.place[i] = y, m.size[y]
    m.size[y] += 1


@jit(inner="always")
def empty_label(m, b):
    """A label that is free: that of a cluster which was just emptied, if there is one."""
    return m.alive[m.start[b] + m.now[b].clusters]


@jit(inner="always")
def bring_forward(m, stream, y, lo, hi):
    """Put members drawn without replacement into places lo .. hi - 1 (Fisher and Yates).

    Places before lo hold those that were drawn before.
    """
    first, size = m.first[y], m.size[y]
    for t in range(lo, hi):
        other = t + draw(stream, size - t)
        i, j = m.pool[first + t], m.pool[first + other]
        m.pool[first + t], m.pool[first + other] = j, i
        m.place[j], m.place[i] = t, other
