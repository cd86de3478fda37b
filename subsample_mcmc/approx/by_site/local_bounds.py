"""Bounds of the fourth derivative of each row, all over a ball around the fit of its site.

As in approx/taylor/found/row_bounds.py, whose words and margins these are, but in the coordinates
that a row sees: w = (L_g^-1 (a_g - a*_g), L^-1 (beta - beta*)), k of its site and c that all rows
see. So a row costs as much as one of a small model, whatever the number of sites.

A row is a function of Q'w, Q of one to three orthonormal columns. So its derivative along a vector
v of any length is one along Q'v, at most |Q'v| long: a move of its site's numbers alone counts by
|Q_own|, one of the common numbers by |Q_common|, the parts of Q in these coordinates (Frobenius'
norm, which is no smaller than the operator's).
"""

from math import factorial
from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.by_site.monomials import ORDER
from subsample_mcmc.approx.taylor.derivatives_jets import on_lines
from subsample_mcmc.approx.taylor.found.row_bounds import (
    COUNTS,
    LARGER,
    LEFT,
    MOST,
    WAYS,
    WORDS,
    RangedRow,
    bounder,
    loss,
    own_frame,
)
from subsample_mcmc.approx.taylor.found.row_slopes import (
    LANES,
    PART,
    TracedRow,
    fill_basis,
    patterns_of,
    writer,
)
from subsample_mcmc.approx.taylor.found.row_slopes import MOST as MOST_SLOPES
from subsample_mcmc.approx.taylor.predictor_chunks import chunk_of
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import NUMBA_ERRORS, jit
from subsample_mcmc.numerics.pointers import call_number, pointer_to

OWN, COMMON, VALUE, RANK = range(4)  # columns of what is found of a row
FOUND = 4


class Traced(NamedTuple):
    """What the slopes of rows are read with."""

    patterns: np.ndarray  # of w, in lanes
    words: np.ndarray
    tape: np.ndarray
    entries: np.ndarray
    lengths: np.ndarray
    q: np.ndarray
    longest: np.ndarray
    lanes: np.ndarray  # (count, LANES) slopes of what a row sees ...
    bits: np.ndarray  # ... and the same words


class Ranged(NamedTuple):
    """What intervals of rows are made with."""

    ways: np.ndarray
    begin: np.ndarray
    losses: np.ndarray
    note: np.ndarray
    words: np.ndarray
    numbers: np.ndarray  # the same words
    out: np.ndarray
    frame: np.ndarray
    own: np.ndarray
    room: np.ndarray
    row: np.ndarray  # which is looked at


class LocalBounds:
    """Room for the rows of one site after the other."""

    def __init__(self, model, ints, point: np.ndarray, count: int, k: int):
        """count: numbers that a row sees; k: the first of them are its site's."""
        d, likelihood = len(point), model.compiled[0]
        words = np.zeros((d, LANES + 1), dtype=np.int64)
        tape = np.zeros(1 + MOST_SLOPES * LANES)
        words[:, LANES] = tape.ctypes.data
        patterns, lanes = patterns_of(np.eye(count)).view(float), np.zeros((count, LANES))
        self.traced = Traced(
            patterns, words, tape, np.zeros((MOST_SLOPES, len(patterns) * PART)),
            np.zeros(MOST_SLOPES), np.zeros((MOST + 1, 1, count)), np.zeros(1),
            lanes, lanes.view(np.int64),
        )  # fmt: skip
        state = pointer_to(on_lines(model, np.array(ints), point.copy(), words))
        self.write = chunk_of(writer(likelihood), TracedRow(state, model.data))
        note, out = np.zeros(2), np.zeros(4)
        words = np.zeros((d, WORDS), dtype=np.uint64)
        words[:, WORDS - 1] = note.ctypes.data
        losses = np.array([loss(rank, ORDER + 1, COUNTS) for rank in range(MOST + 1)])
        ways, begin = WAYS[False]
        own, room = np.zeros((2, MOST, count))
        self.ranged = Ranged(
            ways, begin, losses, note, words, words.view(float), out, np.zeros((MOST, MOST)), own,
            room, np.zeros(1, dtype=np.int64),
        )  # fmt: skip
        state = pointer_to(on_lines(model, np.array(ints), point.copy(), words))
        self.bound = chunk_of(bounder(likelihood), RangedRow(state, model.data, ORDER + 1, out))
        self.k, self.raised = k, ""
        self.tools = pointer_to(self.traced), pointer_to(self.ranged)

    def of_site(self, rows, places, frame: np.ndarray, radius: float, found: np.ndarray) -> bool:
        """Write (|Q_own| M, |Q_common| M, largest value, rank) of each row; False: one has no M.

        places: of what the rows see, in the state; frame: (count, count), in whose columns w moves
        these. The rows from one without bound on are left as they are.
        """
        times = factorial(ORDER + 1) * LARGER
        try:
            with np.errstate(all="ignore"):
                return bool(bound_site(
                    self.write, self.bound, *self.tools, rows, places,
                    np.ascontiguousarray(frame), self.k, radius, times, found,
                ))  # fmt: skip
        except (CompileError, *NUMBA_ERRORS, AttributeError, TypeError, IndexError):
            raise  # not what this row is: it does not compile, or plain Python refuses it
        except Exception as error:
            self.raised = f"{type(error).__name__}: {error}"
            forget(*self.tools, places)
            return False


@jit
def forget(traced, ranged, places):
    """Let nothing move."""
    for j in range(len(places)):
        for l in range(LANES):
            traced.words[places[j], l] = 0
        for l in range(MOST + 1):
            ranged.words[places[j], l] = 0


@jit(inner=True)
def rank_of(write, traced, frame, places, n):
    """Write an orthonormal basis of a row's slopes in w into traced.q; how many, or -1."""
    before, rank, written = -1, 0, 0.0
    words, tape, entries = traced.words, traced.tape, traced.entries
    for g in range(len(traced.patterns)):
        tape[0] = 0.0
        for l in range(LANES):
            for j in range(len(places)):
                value = 0.0
                for i in range(len(places)):
                    value += frame[j, i] * traced.patterns[g, i, l]
                traced.lanes[j, l] = value
        for j in range(len(places)):
            for l in range(LANES):
                words[places[j], l] = traced.bits[j, l]
        call_number(write.read, write.context, n)
        written = max(written, tape[0])
        count = min(int(tape[0]), MOST_SLOPES)
        if before not in (-1, count):
            rank = -1
        before = count
        for i in range(count):
            for l in range(PART):
                entries[i, g * PART + l] = tape[1 + i * LANES + 1 + l]
    q = traced.q
    for i in range(len(q)):
        for j in range(q.shape[2]):
            q[i, 0, j] = 0.0
    if rank == 0:
        rank = fill_basis(entries, before, traced.lengths, q, 0, traced.longest)
    if written > MOST_SLOPES:
        traced.longest[0] = np.inf
    return rank


@jit(inner=True)
def bound_of(bound, traced, ranged, frame, places, n, rank, radius):
    """The largest coefficient of a row along directions of its slopes; inf: there is none."""
    note, numbers, out = ranged.note, ranged.numbers, ranged.out
    count, own, room, largest = len(places), ranged.own, ranged.room, 0.0
    own_frame(traced.q, 0, rank, ranged.frame)
    for i in range(rank):
        for l in range(count):
            own[i, l] = 0.0
            for m in range(rank):
                own[i, l] += ranged.frame[i, m] * traced.q[m, 0, l]
    for i in range(MOST):
        for j in range(count):
            value = 0.0
            for l in range(count if i < rank else 0):
                value += frame[j, l] * own[i, l]
            room[i, j] = numbers[places[j], i] = value
    note[0], note[1] = radius, LEFT * traced.longest[0] * radius
    for way in range(ranged.begin[rank], ranged.begin[rank + 1]):
        for j in range(count):
            value = 0.0
            for i in range(MOST):
                value += ranged.ways[way, i] * room[i, j]
            numbers[places[j], MOST] = value
        call_number(bound.read, bound.context, n)
        size = max(abs(out[0]), abs(out[1]))
        if not (out[0] <= out[1] and size < np.inf):
            return np.inf
        largest = max(largest, size)
    return largest if max(abs(out[2]), abs(out[3])) < np.inf else np.inf


@jit
def bound_site(write, bound, traced, ranged, rows, places, frame, k, radius, times, found):
    """See LocalBounds.of_site."""
    good = True
    for i in range(len(rows)):
        n = np.int64(rows[i])
        ranged.row[0] = n
        rank = rank_of(write, traced, frame, places, n)
        found[i, RANK] = rank
        if rank < 0 or rank > MOST:
            good = False
            break
        largest = bound_of(bound, traced, ranged, frame, places, n, rank, radius)
        if not largest < np.inf:
            good = False
            break
        own, common = 0.0, 0.0
        for m in range(rank):
            for l in range(len(places)):
                if l < k:
                    own += traced.q[m, 0, l] ** 2
                else:
                    common += traced.q[m, 0, l] ** 2
        largest *= times * ranged.losses[rank]
        found[i, OWN] = largest * min(1.0, own**0.5 * LARGER)
        found[i, COMMON] = largest * min(1.0, common**0.5 * LARGER)
        found[i, VALUE] = max(abs(ranged.out[2]), abs(ranged.out[3]))
    forget(traced, ranged, places)
    return good
