"""Exact sums over rows that are elsewhere, for all chains of a run that wait for some: one pass.

A chain that wants sums goes at once where no pass is under way. Those that come to want some while
one is are answered together by the next, and so are those that stood aside, for others to go on in
the same thread. What a sum is does not depend on which others are made with it.
"""

import threading
import time
from typing import Any

import numpy as np

GRACE = 0.125  # times what a pass takes: so long the next one waits for chains of the last


class SharedSums:
    """The pools of a run (pool.py) that wait for exact sums, and passes that answer them."""

    def __init__(self, elsewhere: Any):
        """elsewhere: RowsElsewhere."""
        self.elsewhere = elsewhere
        self.waiting: list[Any] = []
        self.listing, self.passing = threading.Condition(), threading.Lock()
        self.answered: list[Any] = []  # by the last pass ...
        self.took = 0.0  # ... and seconds of it

    def ask(self, pool: Any) -> None:
        """Its sums are wanted: they are made by the next pass, whoever begins it."""
        with self.listing:
            self.waiting.append(pool)
            self.listing.notify_all()

    def answer(self, pool: Any) -> None:
        """Return once its sums are known: by a pass of others, or by one for all that wait now."""
        queued = self.passing.locked()
        with self.passing:
            if not is_among(pool, self.waiting):
                return  # known by the pass that was under way
            pools = self.gathered(queued)
            began = time.monotonic()
            states = np.concatenate([one.asked for one in pools])
            values = sums_of_states(self.elsewhere, states, len(pool.floats))
            self.took = time.monotonic() - began
            for one in pools:
                own, values = values[: len(one.asked)], values[len(one.asked) :]
                for state, value in zip(one.asked, own, strict=True):
                    one.resident.knows(state, value)
                if not one.blocked:  # it stands aside, and measures nothing
                    one.waited += self.took
            pool.sums += 1
            with self.listing:
                self.waiting = [one for one in self.waiting if not is_among(one, pools)]
            self.answered = pools

    def gathered(self, queued: bool) -> list[Any]:
        """Who waits now; queued: behind a pass, whose chains may be about to ask again."""

        def asked_again() -> bool:
            return all(is_among(one, self.waiting) for one in self.answered)

        with self.listing:
            if queued:
                self.listing.wait_for(asked_again, self.took * GRACE)
            return list(self.waiting)


def is_among(pool: Any, pools: list[Any]) -> bool:
    """Is it one of them."""
    return any(one is pool for one in pools)


def sums_of_states(elsewhere: Any, states: np.ndarray, numbers: int) -> np.ndarray:
    """Their exact sums, each distinct one made once. numbers: so many floats, then integers."""
    states = np.concatenate([states[:, numbers:], states[:, :numbers]], axis=1)
    # To the last bit, as they are looked up: nan is itself, and 0 is not -0.
    _, first, which = np.unique(
        np.ascontiguousarray(states).view(np.uint64), axis=0, return_index=True, return_inverse=True
    )
    states = states[first]
    left = states.shape[1] - numbers
    changes = np.flatnonzero((states[1:, :left] != states[:-1, :left]).any(axis=1)) + 1
    asked = [
        (same[0, :left].astype(np.int64), same[:, left:]) for same in np.split(states, changes)
    ]
    return elsewhere.sums_of(asked)[np.ravel(which)]
