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

from subsample_mcmc.target.elsewhere.resident import Resident, rows_ahead

FIRST = 4096  # rows that are fetched at first
LASTS = 1.0  # seconds that a block of rows should last: sooner, and the next one is twice as long
MOST_BYTES = 1 << 30  # of rows of one chain


class Pool:
    """The rows of one chain."""

    def __init__(self, model, ints: np.ndarray, floats: np.ndarray):
        self.model, self.ints, self.floats = model, ints, floats
        self.block, self.fetched, self.waited, self.sums = FIRST, 0, 0.0, 0
        none = np.zeros(0, dtype=np.int64)
        # Rows that stay; those that this draw missed, and the one before that missed some; and
        # where the stream of rows stood when they were.
        self.kept, self.missed, self.before, self.counter = none, none, none, -1
        self.ahead: tuple[np.ndarray, Any] | None = None  # (rows that are on their way, ticket)
        self.began = 0.0
        self.rows = np.zeros(0, dtype=np.int64)  # those that are here, in order
        self.make_room(4 * FIRST)

    def make_room(self, rows: int) -> None:
        """New arrays; who has the address of the old ones must take these."""
        away = self.model.elsewhere
        bytes_each = sum(column.nbytes // max(len(column), 1) for column in away.example.values())
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
        self.rows = np.zeros(0, dtype=np.int64)

    @property
    def stopped(self) -> bool:
        """Does the chain want what is not here."""
        return self.resident.stopped

    @property
    def told(self) -> np.ndarray:
        """Rows fetched, passes for exact sums, seconds that the chain waited for both."""
        return np.array([self.fetched, self.sums, self.waited])

    def forget(self) -> None:
        """Nothing was wanted."""
        self.resident.told[:] = 0

    def serve(self, counter: np.ndarray) -> bool:
        """Fetch what is wanted, and what is drawn next; True if the arrays are new ones.

        counter: of the chain's stream of rows, where it will go on.
        """
        told, began = self.resident.told, time.monotonic()
        if told[1]:
            self.make_sums(self.resident.wanted[: told[1]].copy())
        new = self.take_rows(counter, int(told[0])) if told[0] else False
        told[:] = 0
        self.waited += time.monotonic() - began
        return new

    def make_sums(self, states: np.ndarray) -> None:
        """Know the exact sums of some states: one pass for all that share their integers."""
        numbers = len(self.floats)
        which, group = np.unique(states[:, numbers:], axis=0, return_inverse=True)
        for i, ints in enumerate(which):
            own = states[np.ravel(group) == i]
            values = self.model.elsewhere.sums_at(ints.astype(np.int64), own[:, :numbers])
            for state, value in zip(own, values, strict=True):
                self.resident.knows(state, value)
            self.sums += 1

    def take_rows(self, counter: np.ndarray, lost: int) -> bool:
        """Have the rows of the next mini-batches, and those that were missed, in memory."""
        source = self.model.elsewhere.source
        again = self.counter == int(counter[0])  # the same draw wants more
        if again or (self.began and time.monotonic() - self.began < LASTS):
            self.block *= 2
        if not again:  # what is missed in two draws is read by all
            self.kept = np.union1d(self.kept, np.intersect1d(self.missed, self.before))
            self.before, self.missed = self.missed, self.missed[:0]
        self.counter = int(counter[0])
        coming = np.zeros(self.block, dtype=np.int64)
        rows_ahead(counter[0], self.model.size, coming)
        beside = np.setdiff1d(self.resident.lost[:lost], coming)
        self.missed = np.union1d(self.missed, beside)
        wanted = np.union1d(coming, np.union1d(self.kept, self.missed))
        columns: dict[str, np.ndarray] = {}
        held = [(self.rows, self.resident.columns)]
        if self.ahead is not None:
            rows, ticket = self.ahead
            held.append((rows, source.receive(ticket)))
            self.ahead = None
        left = wanted
        for rows, _ in held:
            left = np.setdiff1d(left, rows, assume_unique=True)
        if len(left):
            held.append((left, source.receive(source.request(left))))
            self.fetched += len(left)
        for name, example in self.resident.columns.items():
            columns[name] = np.empty((len(wanted), *example.shape[1:]), dtype=example.dtype)
        for rows, found in held:
            here = np.isin(wanted, rows, assume_unique=True)
            at = np.searchsorted(rows, wanted[here])
            for name, column in columns.items():
                column[here] = found[name][at]
        new = len(wanted) > self.resident.room
        if new:
            self.make_room(2 * len(wanted))
        self.resident.fill(wanted, columns)
        self.rows = wanted
        self.ask_ahead(counter)
        self.began = time.monotonic()
        return new

    def ask_ahead(self, counter: np.ndarray) -> None:
        """Let the rows after these come while the chain goes on."""
        source, after = self.model.elsewhere.source, np.zeros(2 * self.block, dtype=np.int64)
        rows_ahead(counter[0], self.model.size, after)
        rows = np.setdiff1d(after[self.block :], self.rows)
        self.fetched += len(rows)
        self.ahead = rows, source.request(rows)

    def close(self) -> None:
        """Nothing more is wanted."""
        if self.ahead is not None:
            self.model.elsewhere.source.cancel(self.ahead[1])
            self.ahead = None
