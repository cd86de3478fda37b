"""Rows in memory of data that are elsewhere, as compiled code finds them: by their numbers.

They stand in arrays beside the columns, as fields of the data that users' functions get. A reward
that is asked of a row which is not there, or a sum over all rows that is not known, is nan, and
what was wanted is written down: the chain stops, and whoever runs it looks there before anything
else.
"""

from math import copysign
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.records import record
from subsample_mcmc.numerics.rows import CHUNK, WEYL, below, hashed, row_kind
from subsample_mcmc.target.population import read_only

MARK = "resident_"  # how the names of these fields begin
SUMS = 1024  # exact sums that are known at a time
TOGETHER = 64  # exact sums that are made in one pass
NONE = np.int64(-1)


class Resident:
    """The arrays of some rows, and what compiled code needs to find them.

    rows: how many there is room for. ints, floats: the state that exact sums are of.
    """

    def __init__(self, columns: dict[str, Any], size: int, rows: int, ints, floats):
        """columns: examples of the columns, of any length, and of numbers."""
        self.size, self.room = size, rows
        places = 1 << max(int(2 * rows - 1).bit_length(), 4)
        self.columns = {
            name: np.zeros((rows, *np.shape(value)[1:]), dtype=value.dtype)
            for name, value in columns.items()
        }
        self.keys = np.full(places, NONE)
        self.slots = np.zeros(places, dtype=np.int64)
        self.found = np.zeros(CHUNK, dtype=row_kind(size))
        self.lost = np.zeros(CHUNK, dtype=np.int64)
        self.told = np.zeros(2, dtype=np.int64)  # rows that were not there, sums not known
        self.wanted = np.zeros((TOGETHER, len(floats) + len(ints)))  # states of these sums
        self.sums = np.zeros((1 + SUMS, len(ints) + len(floats) + 1))  # row 0: how many, the next
        self.ints, self.floats = ints, floats

    def record(self, others: Any) -> Any:
        """Data as users' functions read them; others: what is no column, tables and numbers."""
        own = {
            f"{MARK}{name}": getattr(self, name)
            for name in ("keys", "slots", "found", "lost", "told", "wanted", "sums", "ints",
                         "floats")
        }  # fmt: skip
        fields = others | {name: read_only(array) for name, array in self.columns.items()} | own
        return record(*fields)(*fields.values())

    def fill(self, held: list[tuple[np.ndarray, dict[str, np.ndarray]]]) -> None:
        """Hold these (rows, columns), one after the other, and no others."""
        first = 0
        self.keys[:] = NONE
        for rows, columns in held:
            for name, array in self.columns.items():
                array[first : first + len(rows)] = columns[name]
            index_rows(self.keys, self.slots, np.ascontiguousarray(rows, dtype=np.int64), first)
            first += len(rows)

    def knows(self, state: np.ndarray, value: float) -> None:
        """Take an exact sum; the oldest is forgotten."""
        slot = 1 + int(self.sums[0, 1]) % SUMS
        self.sums[slot, :-1], self.sums[slot, -1] = state, value
        self.sums[0, 0] = min(self.sums[0, 0] + 1, SUMS)
        self.sums[0, 1] = slot % SUMS

    @property
    def stopped(self) -> bool:
        """Was something wanted that was not there."""
        return bool(self.told.any())


def refuse_rows_elsewhere(model: Any, what: str = "this") -> None:
    """Refuse a model whose rows are elsewhere, where they are read outside of a chain or a pass."""
    if getattr(model, "elsewhere", None) is not None:  # others are refused as no model
        raise ValueError(
            f"{what} reads rows at random, and those of {model!r} are elsewhere: "
            f"{model.elsewhere.source}. Make a model of some of the rows in memory, and sample it."
        )


@jit
def index_rows(keys, slots, rows, first):
    """Add rows to the table in which they are found by their numbers: open addressing.

    first: where the first of them stands in the columns.
    """
    mask = np.uint64(len(keys) - 1)
    for i in range(len(rows)):
        at = hashed(np.uint64(rows[i])) & mask
        while keys[at] >= 0 and keys[at] != rows[i]:
            at = (at + np.uint64(1)) & mask
        keys[at], slots[at] = rows[i], first + i


@jit
def look_up(keys, slots, rows, out):
    """Where rows stand; -1: not here."""
    mask = np.uint64(len(keys) - 1)
    for i in range(len(rows)):
        at = hashed(np.uint64(rows[i])) & mask
        while keys[at] >= 0 and keys[at] != rows[i]:
            at = (at + np.uint64(1)) & mask
        out[i] = slots[at] if keys[at] == rows[i] else -1


@jit(inner=True)
def find_rows(data, rows):
    """Write where rows stand into data.resident_found; False if one is not there."""
    keys, slots, found = data.resident_keys, data.resident_slots, data.resident_found
    told, mask = data.resident_told, np.uint64(len(keys) - 1)
    missing = 0
    for i in range(len(rows)):
        row = np.int64(rows[i])
        at = hashed(np.uint64(row)) & mask
        while keys[at] >= 0 and keys[at] != row:
            at = (at + np.uint64(1)) & mask
        if keys[at] == row:
            found[i] = slots[at]
            continue
        missing += 1
        found[i] = 0
        if told[0] < len(data.resident_lost):
            data.resident_lost[told[0]] = row
            told[0] += 1
    return missing == 0


@jit(inner=True)
def fill_nan(out):
    """These are not known."""
    for i in range(len(out)):
        out[i] = np.nan


@memoised
def read_resident(read) -> Any:
    """(context, arm, rows, out) by the rows that are in memory; see rewards.reading."""

    @jit(inner="entry", user=True)
    def read_rows(context, arm, rows, out):
        found, count = context.data.resident_found, len(rows)
        for first in range(0, count, len(found)):
            some = min(count - first, len(found))
            if find_rows(context.data, rows[first : first + some]):
                read(context, arm, found[:some], out[first : first + some])
            else:
                fill_nan(out[first : first + some])
        return 0.0

    return read_rows


@memoised
def reader_of_resident(reader) -> Any:
    """The same of what reads residuals: (context, source, arm, rows, out)."""

    @jit(inner="entry", user=True)
    def read_rows(context, source, arm, rows, out):
        found, count = context.data.resident_found, len(rows)
        for first in range(0, count, len(found)):
            some = min(count - first, len(found))
            if find_rows(context.data, rows[first : first + some]):
                reader(context, source, arm, found[:some], out[first : first + some])
            else:
                fill_nan(out[first : first + some])
        return 0.0

    return read_rows


@jit(inner=True)
def same_state(row, floats, ints):
    """Does a row begin with this state, to the last bit."""
    same = True
    for j in range(len(floats)):
        same &= row[j] == floats[j] and copysign(1.0, row[j]) == copysign(1.0, floats[j])
    for j in range(len(ints)):
        same &= row[len(floats) + j] == ints[j]
    return same


@jit(inner="entry")
def known_sum(context, first, last):
    """The exact sum, over all rows, of the state as it is, if it was made beforehand."""
    data = context.data
    sums, ints, floats = data.resident_sums, data.resident_ints, data.resident_floats
    for slot in range(1, 1 + np.int64(sums[0, 0])):
        if same_state(sums[slot], floats, ints):
            return sums[slot, len(floats) + len(ints)]
    count, wanted = data.resident_told[1], data.resident_wanted
    for i in range(count):
        if same_state(wanted[i], floats, ints):
            return np.nan
    if count < len(wanted):
        for j in range(len(floats)):
            wanted[count, j] = floats[j]
        for j in range(len(ints)):
            wanted[count, len(floats) + j] = ints[j]
        data.resident_told[1] = count + 1
    return np.nan


@jit
def rows_ahead(counter, size, out):
    """Rows that a stream of mini-batches draws next; see numerics/rows.py, take."""
    for i in range(np.uint64(len(out))):
        out[i] = below(hashed(counter + (np.uint64(i) + np.uint64(1)) * WEYL), size)
