"""Mini-batches without replacement, fresh and uniform for every decision.

A population of N rows keeps one bit per row: drawn in this decision or not. A row is drawn
uniformly from all N and rejected if its bit is set, which is sampling without replacement
exactly, costs about one cache miss less than swapping an index array, and needs N/8 bytes of it.
Of very many rows, those that a decision draws first stand in a small table, so that memory does not
grow with N where decisions draw few. Once few rows are left they are listed and shuffled lazily
(Fisher-Yates), so that reading all N costs O(N). Between decisions every bit is zero again;
clearing costs what was drawn.

Row numbers come from a counter hashed by SplitMix64 (Steele, Lea & Flood 2014): one uint64 of
state, seeded from the caller's generator, never reused within a run. A row's probability
differs from 1/N by less than N / 2^64 of it.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit

CHUNK = 1024  # most rows of one call of `take`: what a race reads before it looks again
LARGE = 1 << 26  # rows of one population, above which the first FEW drawn stand in a table
FEW = 1 << 13
WEYL = np.uint64(0x9E3779B97F4A7C15)
BACK = np.uint64(pow(int(WEYL), -1, 1 << 64))  # times WEYL: 1
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_U1, _U27, _U30, _U31, _U32, _U63 = (np.uint64(i) for i in (1, 27, 30, 31, 32, 63))
U11 = np.uint64(11)


PART = np.dtype(
    [
        ("rows", np.int64),  # rows of the population
        ("first_word", np.int64),  # where its bits start
        ("words", np.int64),  # how many words they fill
        ("first_kept", np.int64),  # where its part of `kept` starts
        ("room", np.int64),  # how long that is
        ("barred", np.int64),  # rows that are never drawn
        ("drawn", np.int64),  # rows drawn so far
        ("used", np.int64),  # entries of `kept` in use
        ("wiped", np.int64),  # 1: `kept` does not list every drawn row, clear all bits instead
        ("listed", np.int64),  # 1: the remaining rows stand in `kept`, shuffled as they are taken
        ("spread", np.int64),  # 1: rows drawn are bits; 0: they stand in `few`
    ],
    align=True,
)


class Rows(NamedTuple):
    """Which rows of each population have been drawn in the decision under way."""

    bits: np.ndarray  # uint64, one bit per row, set while drawn
    bars: np.ndarray  # the bits of rows that are never drawn; empty if there are none
    kept: np.ndarray  # rows drawn, in order; the slices `take` points at live here
    targets: np.ndarray  # int64 (CHUNK,), candidates before rejection
    few: np.ndarray  # int64, of a large population: rows + 1, barred or drawn, by their hash
    part: np.recarray  # one PART per population


def row_kind(rows: int) -> Any:
    """The type of row numbers."""
    return np.int32 if rows < 2**31 else np.int64


def make_rows(sizes, barred=()) -> Rows:
    """Empty bookkeeping for populations of the given sizes (one entry if the arms share rows).

    sizes: rows of each population.
    barred: rows beside them that are never drawn; the one population is what is left.
    """
    part = np.zeros(len(sizes), dtype=PART).view(np.recarray)
    part["barred"] = len(barred)
    part["rows"] = np.asarray(sizes) + len(barred)
    part["words"] = (part["rows"] + 63) // 64
    part["room"] = np.minimum(part["rows"], np.maximum(4 * CHUNK, part["rows"] >> 4))
    part["first_word"] = np.cumsum(part["words"]) - part["words"]
    part["first_kept"] = np.cumsum(part["room"]) - part["room"]
    kind = row_kind(part["rows"].max())
    bits = np.zeros(part["words"].sum(), dtype=np.uint64)
    where = np.asarray(barred, dtype=np.int64)
    bars = np.zeros(len(bits) if len(barred) else 0, dtype=np.uint64)
    for words in (bits, bars) if len(barred) else ():  # no copies: memory that is not written to
        np.bitwise_or.at(words, where >> 6, _U1 << (where & 63).astype(np.uint64))
    few = np.zeros(1, dtype=np.int64)
    part["spread"] = 1
    if len(sizes) == 1 and part["rows"][0] > LARGE:
        few = np.zeros(1 << (4 * (FEW + len(where)) - 1).bit_length(), dtype=np.int64)
        part["spread"] = 0
        _insert_all(few, where)
    return Rows(
        bits, bars, np.zeros(part["room"].sum(), dtype=kind), np.zeros(CHUNK, dtype=np.int64), few,
        part,
    )  # fmt: skip


@jit(inner=True)
def hashed(counter):
    """SplitMix64's output for one value of its counter: 64 bits that pass as random."""
    z = (counter ^ (counter >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@jit(inner=True)
def below(bits, size):
    """floor(bits * size / 2^64): uniform on 0 .. size - 1."""
    size = np.uint64(size)
    high, low = size >> _U32, size & _LOW
    upper = (bits >> _U32) * low + (((bits & _LOW) * low) >> _U32)
    middle = (bits & _LOW) * high + (upper & _LOW)
    return np.int64((bits >> _U32) * high + (upper >> _U32) + (middle >> _U32))


@jit(inner=True)
def draw(stream, size):
    """The next number of a stream, uniform on 0 .. size - 1."""
    stream[0] += WEYL
    return below(hashed(stream[0]), size)


@jit(inner=True)
def uniform(stream):
    """The next of a stream between 0 and 1: above 0, and 1 once in 2^54."""
    stream[0] += WEYL
    return (np.float64(hashed(stream[0]) >> U11) + 0.5) * 2.0**-53


@jit(inner=True)
def chance_of_audit(chain):
    """A number between 0 and 1, of a stream of its own: draws are the same without audits."""
    chain.audits[0] += WEYL
    return (hashed(chain.audits[0]) >> U11) * 2.0**-53


@jit(inner=True)
def is_audited(chain):
    """Is this decision audited, of the share that was asked for."""
    return chance_of_audit(chain) < chain.now[0].audit


def slots_between(first: np.uint64, counter: np.uint64) -> int:
    """How many numbers of a stream were drawn from one value of its counter to another."""
    return (int(counter) - int(first)) * int(BACK) % (1 << 64)


def counter_at(first: np.uint64, slots: int) -> np.uint64:
    """The counter after so many numbers more were drawn."""
    return np.uint64((int(first) + slots * int(WEYL)) % (1 << 64))


@jit(inner=True)
def _insert(few, row):
    """Add a row to the table; 0 if it was there."""
    mask = np.uint64(len(few) - 1)
    at = hashed(np.uint64(row)) & mask
    while few[at] != 0:
        if few[at] == row + 1:
            return np.int64(0)
        at = (at + _U1) & mask
    few[at] = row + 1
    return np.int64(1)


@jit
def _insert_all(few, rows):
    for i in range(len(rows)):
        _insert(few, rows[i])


@jit(inner=True)
def _remove_drawn(rows, p):
    """Take the rows drawn out of the table, the last one first: then it is as it was before."""
    few, first = rows.few, rows.part[p].first_kept
    mask = np.uint64(len(few) - 1)
    for i in range(rows.part[p].used):
        row = np.int64(rows.kept[first + rows.part[p].used - 1 - i])
        at = hashed(np.uint64(row)) & mask
        while few[at] != row + 1:
            at = (at + _U1) & mask
        few[at] = 0


@jit(inner=True)
def _spread(rows, p):
    """From here on, rows drawn are bits."""
    _remove_drawn(rows, p)
    first = rows.part[p].first_kept
    for i in range(first, first + rows.part[p].used):
        row = np.int64(rows.kept[i])
        rows.bits[rows.part[p].first_word + (row >> 6)] |= _U1 << (np.uint64(row) & _U63)
    rows.part[p].spread = 1


@jit(inner=True)
def _take_few(rows, stream, p, m):
    """The same rows as by bits."""
    start = rows.part[p].first_kept + rows.part[p].used
    rows.part[p].used += m
    rows.part[p].drawn += m
    found = np.int64(0)
    while found < m:
        row = draw(stream, rows.part[p].rows)
        rows.kept[start + found] = row
        found += _insert(rows.few, row)
    return start


@jit(inner=True)
def _list_remaining(rows, p):
    count = rows.part[p].first_kept
    for row in range(rows.part[p].rows):
        word = rows.bits[rows.part[p].first_word + (row >> 6)]
        if (word >> (np.uint64(row) & _U63)) & _U1 == np.uint64(0):
            rows.kept[count] = row
            count += 1
    rows.part[p].used, rows.part[p].wiped, rows.part[p].listed = 0, 1, 1


@jit(inner=True)
def _shuffle_next(rows, stream, p, m, left):
    start = rows.part[p].first_kept + rows.part[p].used
    for i in range(m):
        stream[0] += WEYL
        other = start + i + below(hashed(stream[0]), left - i)
        rows.kept[start + i], rows.kept[other] = rows.kept[other], rows.kept[start + i]
    rows.part[p].used += m
    return start


@jit(inner=True)
def take(rows, stream, p, m):
    """Draw new rows; return where in `rows.kept` they start.

    rows: that `make_rows` made.
    stream: of random numbers, of which one is taken for each row.
    p: number of the population.
    m: how many, at most CHUNK.
    """
    if rows.part[p].spread == 0:
        if rows.part[p].drawn + m <= min(FEW, rows.part[p].room):
            return _take_few(rows, stream, p, m)
        _spread(rows, p)
    part = rows.part[p]
    size, word, room = part.rows, part.first_word, part.room
    left = size - part.barred - part.drawn
    if rows.part[p].listed == 0 and left <= room and 2 * left <= size:
        _list_remaining(rows, p)
    rows.part[p].drawn += m
    if rows.part[p].listed == 1:
        return _shuffle_next(rows, stream, p, m, left)
    if rows.part[p].used + m > room:
        rows.part[p].used, rows.part[p].wiped = 0, 1
    start = rows.part[p].first_kept + rows.part[p].used
    rows.part[p].used += m
    found = np.int64(0)
    while found < m:
        # Two loops on purpose: the first is pure arithmetic and vectorises, the second only
        # tests and sets bits, so that cache misses overlap.
        wanted = m - found
        counter = stream[0]
        for i in range(np.uint64(wanted)):
            rows.targets[i] = below(hashed(counter + (np.uint64(i) + _U1) * WEYL), size)
        stream[0] = counter + np.uint64(wanted) * WEYL
        for i in range(np.uint64(wanted)):
            row = rows.targets[i]
            place = np.uint64(word + (row >> 6))
            mask = _U1 << (np.uint64(row) & _U63)
            old = rows.bits[place]
            rows.bits[place] = old | mask
            rows.kept[np.uint64(start + found)] = row
            found += np.int64((old & mask) == np.uint64(0))
    return start


@jit(inner=True)
def put_back(rows):
    """Forget the decision: every bit as before, at the cost of what was drawn.

    rows: that `make_rows` made.
    """
    plain = len(rows.bars) == 0
    for p in range(len(rows.part)):
        if rows.part[p].drawn == 0:
            continue
        if rows.part[p].spread == 0:
            _remove_drawn(rows, p)
            rows.part[p].drawn = rows.part[p].used = 0
            continue
        first = rows.part[p].first_word
        if rows.part[p].wiped == 1:
            for word in range(first, first + rows.part[p].words):
                rows.bits[word] = np.uint64(0) if plain else rows.bars[word]
        else:
            for i in range(rows.part[p].first_kept, rows.part[p].first_kept + rows.part[p].used):
                word = first + (np.int64(rows.kept[i]) >> 6)
                rows.bits[word] = np.uint64(0) if plain else rows.bars[word]
        rows.part[p].drawn = rows.part[p].used = rows.part[p].wiped = rows.part[p].listed = 0
        rows.part[p].spread = 1 if len(rows.few) == 1 else 0
