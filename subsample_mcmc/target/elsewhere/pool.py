"""Rows that one chain has in memory: those that its next decisions will draw.

Row numbers of mini-batches come from a counter (numerics/rows.py), so the rows of the next so many
are known, and are fetched before they are wanted: fresh and uniform for every decision, as in
memory, because they are the same ones. Nothing of it is part of a checkpoint: where a chain goes
on, its counter says what it needs. What is wanted beside them, such as rows that every decision
reads, stays.
"""

import time
from typing import Any

import numpy as np

from subsample_mcmc.numerics.rows import CHUNK, counter_at, slots_between
from subsample_mcmc.target.elsewhere.resident import Resident, look_up, rows_ahead
from subsample_mcmc.target.elsewhere.shared_sums import SharedSums

FIRST = 2048  # rows that are fetched at first
A_PART = 4  # ... and for each part, at least
LASTS = 0.5  # seconds that a block of rows should last ...
DEAR = 8  # times as many rows as were used, at most, where a fetch takes longer than this
FETCHES = 3.0  # ... and as many times as long as it takes to fetch one
SPARE = 1.5  # times what is believed to be wanted until the end is fetched, at most
SPARED = 4  # no draw begins when only so many-th a part of the slots is left
MOST_BYTES = 1 << 30  # of rows of one chain
NONE = np.zeros(0, dtype=np.int64)
FAR = 1 << 40  # slots
NEVER = np.uint64(2**64 - 1)


class Pool:
    """The rows of one chain.

    Where a row stands in the stream, counted from where the chain first wanted one, is called its
    slot. Slots from where the chain stands up to `end` are here, those up to `coming` on their way.
    """

    def __init__(self, model, ints: np.ndarray, floats: np.ndarray, shared: SharedSums):
        """shared: with the other chains of a run."""
        self.model, self.ints, self.floats, self.shared = model, ints, floats, shared
        self.fetched, self.waited, self.sums = 0, 0.0, 0
        self.asked: np.ndarray | None = None  # states whose exact sums the chain waits for
        self.blocked = False  # does its thread wait for them
        # Rows that stay; those that this draw missed, and the one before that missed some; and
        # where the stream of rows stood when they were.
        self.kept, self.missed, self.before, self.counter = NONE, NONE, NONE, -1
        self.ahead: tuple[np.ndarray, Any, float] | None = None  # rows under way, ticket, since
        self.origin, self.end, self.coming = np.uint64(0), 0, 0
        # For the loop over draws: the counter from which on rows are here, and how many slots
        # further on no draw begins until more are.
        self.mark = np.array([0, NEVER], dtype=np.uint64)
        self.began = time.monotonic()
        self.takes = 0.0  # seconds, to fetch a block
        self.rows = NONE  # those that are here
        self.make_room(4 * FIRST)

    def make_room(self, rows: int) -> None:
        """New arrays; who has the address of the old ones must take these."""
        away = self.model.elsewhere
        bytes_each = bytes_of_row(away.example)
        if rows * bytes_each > MOST_BYTES:
            raise MemoryError(
                f"one decision asks for more than {rows // 4:,} rows, and {rows:,} of them take "
                f"{rows * bytes_each / 1e9:.3g} GB: rows that are elsewhere are for decisions that "
                "read few of them. Give the kernel a control variate, control=sm.Taylor(fit)."
            )
        columns = {name: np.asarray(array) for name, array in away.example.items()}
        old = getattr(self, "resident", None)
        self.resident = Resident(columns, self.model.size, rows, self.ints, self.floats)
        if old is not None:
            self.resident.sums[:] = old.sums
        self.data = self.resident.record(away.others)
        self.rows = NONE

    @property
    def stopped(self) -> bool:
        """Does the chain want what is not here."""
        return self.resident.stopped

    @property
    def told(self) -> np.ndarray:
        """Rows fetched, passes that it began for exact sums, seconds that it waited for both."""
        return np.array([self.fetched, self.sums, self.waited])

    def forget(self) -> None:
        """Nothing was wanted."""
        self.resident.told[:] = 0

    def ask(self) -> bool:
        """Are exact sums wanted; then a pass for other chains makes them, too."""
        sums = int(self.resident.told[1])
        if sums and self.asked is None:
            self.asked = self.resident.wanted[:sums].copy()
            self.shared.ask(self)
        return sums > 0

    def serve(self, counter: np.ndarray, steps: int = 0, left: int | None = None) -> bool:
        """Fetch what is wanted, and what is drawn next; True if the arrays are new ones.

        counter: of the chain's stream of rows, where it will go on.
        steps, left: that the chain has made, and will make; None: nobody knows.
        """
        told, began = self.resident.told, time.monotonic()
        sums, lost = self.ask(), int(told[0])
        if sums:
            self.blocked = True
            self.shared.answer(self)
            self.blocked, self.asked = False, None
        new = self.take_rows(counter, lost, steps, left) if lost or not sums else False
        told[:] = 0
        self.waited += time.monotonic() - began
        return new

    def take_rows(
        self, counter: np.ndarray, lost: int, steps: int = 0, left: int | None = None
    ) -> bool:
        """Have the rows of the next mini-batches, and those that were missed, in memory."""
        source, size, table = self.model.elsewhere.source, self.model.size, self.resident
        at = slots_between(self.origin, counter[0])
        if not self.end or at > self.coming + FAR:
            self.begin(counter)
            at = 0
        elif at > self.coming:  # by rows that were missed before
            self.drop_ahead()
            self.end = self.coming = at
        again = lost > 0 and self.counter == int(counter[0])  # the same draw wants more
        if lost and not again:  # what is missed in two draws is read by all
            self.kept = np.union1d(self.kept, np.intersect1d(self.missed, self.before))
            self.before, self.missed = self.missed, NONE
        self.counter = int(counter[0])
        block, need = self.sizes(at, steps, left)
        end = max(self.coming, at + 2 * (self.end - at) if again else 0)
        if end - at < block // 2:  # what is under way is not enough
            end = at + block
        on_their_way = self.receive_ahead()
        stream = np.zeros(end - at, dtype=np.int64)
        rows_ahead(counter[0], size, stream)
        coming = distinct(stream)
        if lost:
            missing = table.lost[:lost]
            self.missed = np.union1d(self.missed, missing[~is_in(missing, coming)])
        beside = np.concatenate([self.kept, self.missed])
        wanted = distinct(np.concatenate([coming, beside])) if len(beside) else coming
        held = self.held_of(wanted, on_their_way)
        known = sum(len(rows) for rows, _ in held)
        if known < len(wanted):
            rows = wanted
            for some, _ in held:
                rows = rows[~is_in(rows, some)]
            asked = time.monotonic()
            held.append((rows, source.receive(source.request(rows))))
            self.takes = time.monotonic() - asked
            self.fetched += len(rows)
        new = len(wanted) > table.room
        if new:
            self.make_room(len(wanted) + len(wanted) // 2)
        self.resident.fill(held)
        self.rows = np.concatenate([rows for rows, _ in held])
        self.end = self.coming = end
        self.ask_ahead(int(min(block, need - (end - at))))
        self.mark[:] = counter[0], np.uint64(max(end - at - max(CHUNK, (end - at) // SPARED), 0))
        return new

    def begin(self, counter: np.ndarray) -> None:
        """Count slots from here on: of a chain that stands elsewhere than where it was, too."""
        self.drop_ahead()
        self.origin, self.end, self.coming = counter[0], 0, 0

    def sizes(self, at: int, steps: int, left: int | None) -> tuple[int, float]:
        """(slots of the next block, slots that are believed to be wanted until the end).

        What decisions have used so far says both, and how long a fetch takes. At a time about as
        much is fetched as was used before.
        """
        source = self.model.elsewhere.source
        first = max(FIRST, A_PART * source.count)
        seconds = max(time.monotonic() - self.began - self.waited, 1e-3)
        need = np.inf
        if left is not None:
            need = SPARE * (at + CHUNK) / max(steps, 1) * left + CHUNK
        block = at / seconds * max(LASTS, FETCHES * self.takes)
        # Where a fetch takes long, it is for the parts that are read: more of their rows cost less.
        most = at if self.takes < LASTS else DEAR * at
        block = min(
            block, need, most, MOST_BYTES // (8 * bytes_of_row(self.model.elsewhere.example))
        )
        return max(int(block), first), need

    def receive_ahead(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Rows that were under way, and their columns."""
        if self.ahead is None:
            return NONE, {}
        rows, ticket, asked = self.ahead
        self.ahead = None
        begun = time.monotonic()
        columns = self.model.elsewhere.source.receive(ticket)
        now = time.monotonic()
        # Rows that nobody waited for came sooner than this.
        self.takes = now - asked if now - begun > 1e-3 else min(self.takes, now - asked)
        return rows, columns

    def held_of(self, wanted: np.ndarray, came: tuple) -> list[tuple[np.ndarray, dict]]:
        """(rows, columns) of those wanted rows that are here, and of those that came."""
        table, slots = self.resident, np.empty(len(wanted), dtype=np.int64)
        look_up(table.keys, table.slots, wanted, slots)
        here = slots >= 0
        held = [(wanted[here], {n: c[slots[here]] for n, c in table.columns.items()})]
        rows, columns = came
        use = is_in(rows, wanted)
        if not use.all():
            rows, columns = rows[use], {name: column[use] for name, column in columns.items()}
        if len(rows):
            held.append((rows, columns))
        return held

    def ask_ahead(self, slots: int) -> None:
        """Let the rows of so many slots more come while the chain goes on."""
        if slots <= 0:
            return
        source, table = self.model.elsewhere.source, self.resident
        after = np.zeros(slots, dtype=np.int64)
        rows_ahead(counter_at(self.origin, self.end), self.model.size, after)
        rows = distinct(after)
        found = np.empty(len(rows), dtype=np.int64)
        look_up(table.keys, table.slots, rows, found)
        rows = rows[found < 0]
        self.coming = self.end + slots
        self.fetched += len(rows)
        self.ahead = rows, source.request(rows), time.monotonic()

    def drop_ahead(self) -> None:
        """What is under way is not wanted."""
        if self.ahead is not None:
            self.model.elsewhere.source.cancel(self.ahead[1])
            self.ahead = None

    def close(self) -> None:
        """Nothing more is wanted."""
        self.drop_ahead()


def distinct(rows: np.ndarray) -> np.ndarray:
    """Row numbers in ascending order, each once."""
    rows = np.sort(rows)
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = rows[1:] != rows[:-1]
    return rows if fresh.all() else rows[fresh]


def is_in(rows: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Which rows are among some, which are in ascending order."""
    if not len(some):
        return np.zeros(len(rows), dtype=bool)
    return some[np.minimum(np.searchsorted(some, rows), len(some) - 1)] == rows


def bytes_of_row(columns: dict[str, Any]) -> int:
    """Of some rows of columns, what one takes."""
    return max(sum(column.nbytes // max(len(column), 1) for column in columns.values()), 1)
