"""Mini-batches without replacement, fresh and uniform for every decision.

A population of N rows keeps one bit per row: drawn in this decision or not. A row is drawn
uniformly from all N and rejected if its bit is set, which is sampling without replacement
exactly, costs about one cache miss less than swapping an index array, and needs N/8 bytes of it.
Once few rows are left they are listed and shuffled lazily (Fisher-Yates), so that reading all N
costs O(N). Between decisions every bit is zero again; clearing costs what was drawn.

Row numbers come from a counter hashed by SplitMix64 (Steele, Lea & Flood 2014): one uint64 of
state, seeded from the caller's generator, never reused within a run. A row's probability
differs from 1/N by less than 2^-32 of it.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.jit import jit

CHUNK = 1024  # most rows of one call of `take`: what a race reads before it looks again
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_U1, _U6, _U27, _U30, _U31, _U32, _U63 = (np.uint64(i) for i in (1, 6, 27, 30, 31, 32, 63))


class Rows(NamedTuple):
    """Which rows of each population have been drawn in the decision under way."""

    bits: np.ndarray  # uint64, one bit per row, set while drawn
    kept: np.ndarray  # rows drawn, in order; the slices `take` points at live here
    targets: np.ndarray  # int64 (CHUNK,), candidates before rejection
    size: np.ndarray  # rows of each population
    first_word: np.ndarray  # where a population's bits start
    first_kept: np.ndarray  # where its part of `kept` starts
    drawn: np.ndarray  # rows drawn so far
    used: np.ndarray  # entries of `kept` in use
    wiped: np.ndarray  # 1: `kept` no longer lists every drawn row, clear all bits instead
    listed: np.ndarray  # 1: the remaining rows stand in `kept`, shuffled as they are taken


def make_rows(sizes) -> Rows:
    """Empty bookkeeping for populations of the given sizes (one entry if the arms share rows)."""
    size = np.asarray(sizes, dtype=np.int64)
    room = np.minimum(size, np.maximum(4 * CHUNK, size >> 4))
    kind = np.int32 if size.size == 0 or size.max() < 2**31 else np.int64
    first_word = np.concatenate(([0], np.cumsum((size + 63) // 64)))
    first_kept = np.concatenate(([0], np.cumsum(room)))
    counts = [np.zeros(size.size, dtype=np.int64) for _ in range(4)]
    return Rows(
        np.zeros(first_word[-1], dtype=np.uint64),
        np.zeros(first_kept[-1], dtype=kind),
        np.zeros(CHUNK, dtype=np.int64),
        size, first_word, first_kept, *counts,
    )  # fmt: skip


@jit
def hashed(counter):
    """SplitMix64's output for one value of its counter: 64 bits that pass as random."""
    z = (counter ^ (counter >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@jit
def below(bits, size):
    """floor(bits * size / 2^64) for size < 2^32: uniform on 0 .. size - 1."""
    size = np.uint64(size)
    return np.int64(((bits >> _U32) * size + (((bits & _LOW) * size) >> _U32)) >> _U32)


@jit
def _list_remaining(rows, p):
    count = rows.first_kept[p]
    for row in range(rows.size[p]):
        word = rows.bits[rows.first_word[p] + (row >> 6)]
        if (word >> (np.uint64(row) & _U63)) & _U1 == np.uint64(0):
            rows.kept[count] = row
            count += 1
    rows.used[p], rows.wiped[p], rows.listed[p] = 0, 1, 1


@jit
def _shuffle_next(rows, stream, p, m, left):
    start = rows.first_kept[p] + rows.used[p]
    for i in range(m):
        stream[0] += _WEYL
        other = start + i + below(hashed(stream[0]), left - i)
        rows.kept[start + i], rows.kept[other] = rows.kept[other], rows.kept[start + i]
    rows.used[p] += m
    return start


@jit
def take(rows, stream, p, m):
    """Draw `m` <= CHUNK new rows of population `p`; return where in `rows.kept` they start."""
    size, word = rows.size[p], rows.first_word[p]
    room = rows.first_kept[p + 1] - rows.first_kept[p]
    left = size - rows.drawn[p]
    if rows.listed[p] == 0 and left <= room and 2 * left <= size:
        _list_remaining(rows, p)
    rows.drawn[p] += m
    if rows.listed[p] == 1:
        return _shuffle_next(rows, stream, p, m, left)
    if rows.used[p] + m > room:
        rows.used[p], rows.wiped[p] = 0, 1
    start = rows.first_kept[p] + rows.used[p]
    rows.used[p] += m
    found = np.int64(0)
    while found < m:
        # Two loops on purpose: the first is pure arithmetic and vectorises, the second only
        # tests and sets bits, so that cache misses overlap.
        wanted = m - found
        counter = stream[0]
        for i in range(np.uint64(wanted)):
            rows.targets[i] = below(hashed(counter + (i + _U1) * _WEYL), size)
        stream[0] = counter + np.uint64(wanted) * _WEYL
        for i in range(np.uint64(wanted)):
            row = rows.targets[i]
            place = np.uint64(word + (row >> 6))
            mask = _U1 << (np.uint64(row) & _U63)
            old = rows.bits[place]
            rows.bits[place] = old | mask
            rows.kept[np.uint64(start + found)] = row
            found += np.int64((old & mask) == np.uint64(0))
    return start


@jit
def put_back(rows):
    """Forget the decision: every bit zero again, at the cost of what was drawn."""
    for p in range(len(rows.size)):
        if rows.drawn[p] == 0:
            continue
        first = rows.first_word[p]
        if rows.wiped[p] == 1:
            for word in range(first, rows.first_word[p + 1]):
                rows.bits[word] = np.uint64(0)
        else:
            for i in range(rows.first_kept[p], rows.first_kept[p] + rows.used[p]):
                rows.bits[first + (np.int64(rows.kept[i]) >> 6)] = np.uint64(0)
        rows.drawn[p] = rows.used[p] = rows.wiped[p] = rows.listed[p] = 0
