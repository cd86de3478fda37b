"""Predictors of each row, read off a tape, and derivatives by them: loops over a mini-batch.

Only two functions know the model, and they are called by their addresses: one writes the slopes of
a row on a tape (numerics/jets/tapes.py), the other gives derivatives along LANES lines.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import AlongLines, jets_of, summing
from subsample_mcmc.approx.taylor.predictor_chunks import chunk_of
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import call_number

LANES = 8
MOST = 24  # slopes that a tape holds
PART = LANES - 1  # coordinates at a time: the first lane is a direction at random, the mark
# Of what is written, this part of its own length, or of the longest, is rounding. What is longer
# than the first and shorter than the second leaves no bound: it may be a predictor.
SAME, TINY = 1e-9, 1e-13


class TracedRow(NamedTuple):
    """What the slopes of a row are written with."""

    state: Any  # on a tape
    data: Any


@memoised
def writer(likelihood) -> Any:
    """write(context, n): the slopes of a row, on the tape whose address its points hold."""
    jets = jets_of()
    likelihood, write_rest = jets.readable(likelihood), jets.write_rest

    @jit(inner="entry", user=True)
    def write(context, n):
        write_rest(likelihood(context.state, context.data, n))
        return 0.0

    return write


class RowSlopes:
    """Room for a mini-batch of one thread."""

    def __init__(self, model, on_lines, ints, point, scales, size: int, most: int, frame=None):
        """most: predictors of a row; frame: in whose columns slopes are told, if not in scales."""
        d = len(point)
        self.tape = np.zeros(1 + MOST * LANES)
        self.words = np.zeros((d, LANES + 1), dtype=np.int64)
        self.words[:, LANES] = self.tape.ctypes.data
        self.slopes, self.out = np.zeros((d, LANES)), np.zeros((4, LANES))
        likelihood, ints = model.compiled[0], np.array(ints)
        traced = TracedRow(on_lines(model, ints, point.copy(), self.words), model.data)
        own = on_lines(model, ints, point.copy(), self.slopes)
        self.traced, self.likelihood = chunk_of(writer(likelihood), traced), likelihood
        none = np.zeros((0, 3, LANES))
        self.along = AlongLines(own, model.data, np.ones(1), self.out[None], none)
        self.scales = scales
        self.patterns = patterns_of(np.diag(scales) if frame is None else frame)
        self.q = np.zeros((most, size, d))
        self.entries = np.zeros((MOST, len(self.patterns) * PART))
        self.lengths, self.longest = np.zeros(MOST), np.zeros(size)

    @cached_property
    def derived(self) -> Any:
        """What gives derivatives of a row; compiled where it is wanted."""
        return chunk_of(summing(self.likelihood, None, False), self.along)

    def find(self, first: int, weights) -> np.ndarray:
        """Write an orthonormal basis of each row's slopes, in units of scales, into q: ranks."""
        ranks = np.zeros(len(weights), dtype=np.int64)
        find_slopes(
            self.traced, first, weights, self.patterns, self.words, self.tape, self.entries,
            self.lengths, self.q, ranks, self.longest,
        )  # fmt: skip
        return ranks

    def derive(self, first: int, weights, turns, away) -> np.ndarray:
        """(rows, lines, 4): coefficients along combinations of q, and along a vector away."""
        found = np.zeros((len(weights), 1 + len(turns), 4))
        derive_rows(
            self.derived, first, weights, self.scales, turns, away, self.q, self.slopes, self.out,
            found,
        )  # fmt: skip
        return found


def patterns_of(frame: np.ndarray) -> np.ndarray:
    """(parts, d, LANES): slopes along a frame's columns, PART at a time, behind the mark's."""
    d = len(frame)
    found = np.zeros((-(-d // PART), d, LANES))
    found[:, :, 0] = frame @ np.random.default_rng(7).standard_normal(d)
    for j in range(d):
        found[j // PART, :, 1 + j % PART] = frame[:, j]
    return found.view(np.int64)


@jit(flags=FLAGS, inner=True)
def product(a, b):
    """Of two vectors."""
    total = 0.0
    for j in range(np.uint64(len(a))):
        total += a[j] * b[j]
    return total


@jit(flags=FLAGS, inner=True)
def take_off(a, x, b):
    """a -= x b."""
    for j in range(np.uint64(len(a))):
        a[j] -= x * b[j]


@jit(inner=True)
def fill_basis(entries, count, own, q, i, longest_of):
    """Gram-Schmidt with pivots, into q[:, i]; how many there are, or one more than there is room.

    entries are changed; own: room for their lengths, of which the longest is kept.
    """
    d, longest = q.shape[2], 0.0
    for k in range(count):
        own[k] = product(entries[k, :d], entries[k, :d])
        longest = max(longest, own[k])
    longest_of[i] = longest**0.5
    for rank in range(len(q) + 1):
        pivot, most, short = -1, 0.0, False
        for k in range(count):
            left = product(entries[k, :d], entries[k, :d])
            if left > SAME * SAME * own[k]:
                short = short or left <= TINY * TINY * longest
                if left > max(most, TINY * TINY * longest):
                    pivot, most = k, left
        if pivot < 0 and short:
            longest_of[i] = np.inf
        if pivot < 0 or rank == len(q):
            return rank if pivot < 0 else rank + 1
        basis = q[rank, i]
        for j in range(d):
            basis[j] = entries[pivot, j]
        for _ in range(2):  # twice is enough
            for k in range(rank):
                take_off(basis, product(basis, q[k, i]), q[k, i])
            size = product(basis, basis) ** 0.5
            for j in range(d):
                basis[j] /= size
        for k in range(count):
            take_off(entries[k, :d], product(entries[k, :d], basis), basis)
    return 0


@jit
def find_slopes(traced, first, weights, patterns, words, tape, entries, lengths, q, ranks, longest):
    """See RowSlopes.find; a row that writes other than the same for all coordinates has rank -1."""
    for i in range(len(weights)):
        for k in range(len(q)):
            for j in range(q.shape[2]):
                q[k, i, j] = 0.0
        if weights[i] == 0.0:
            continue
        before, written = -1, 0.0
        for g in range(len(patterns)):
            tape[0] = 0.0
            for j in range(len(words)):
                for k in range(LANES):
                    words[j, k] = patterns[g, j, k]
            call_number(traced.read, traced.context, first + i)
            written = max(written, tape[0])
            count = min(int(tape[0]), MOST)
            if before not in (-1, count):
                ranks[i] = -1
            before = count
            for k in range(count):
                for j in range(PART):
                    entries[k, g * PART + j] = tape[1 + k * LANES + 1 + j]
        if ranks[i] == 0:
            ranks[i] = fill_basis(entries, before, lengths, q, i, longest)
        if written > MOST:  # there may be others: sums are compared, and bounds have no use for it
            longest[i] = np.inf


@jit
def derive_rows(derived, first, weights, scales, turns, away, q, slopes, out, found):
    """See RowSlopes.derive: the first line is `away`, from which turns are not made."""
    lines, d = found.shape[1], len(scales)
    for i in range(len(weights)):
        if weights[i] == 0.0:
            continue
        for start in range(0, lines, LANES):
            count = min(LANES, lines - start)
            for j in range(d):
                for k in range(LANES):
                    slopes[j, k] = 0.0
            for k in range(count):
                for j in range(d):
                    value = away[j] if start + k == 0 else 0.0
                    if start + k > 0:
                        for l in range(turns.shape[1]):
                            value += turns[start + k - 1, l] * q[l, i, j]
                    slopes[j, k] = scales[j] * value
            for k in range(LANES):
                for c in range(4):
                    out[c, k] = 0.0
            call_number(derived.read, derived.context, first + i)
            for k in range(count):
                for c in range(4):
                    found[i, start + k, c] = out[c, k]


class Kept(NamedTuple):
    """How a row's derivatives by predictors follow from coefficients along lines: matrices."""

    first: np.ndarray  # (p, lines) of the first
    second: np.ndarray  # (pairs, lines)
    third: np.ndarray  # (triples, lines)


@jit(flags=FLAGS)
def fill_partials(along, matrices, f):
    """Partial derivatives of each row, from coefficients along lines but the first."""
    p, two, three = len(matrices.first), len(matrices.second), len(matrices.third)
    for i in range(len(f)):
        for k in range(p + two + three):
            value = 0.0
            for line in range(along.shape[1] - 1):
                if k < p:
                    value += matrices.first[k, line] * along[i, 1 + line, 1]
                elif k < p + two:
                    value += matrices.second[k - p, line] * along[i, 1 + line, 2]
                else:
                    value += matrices.third[k - p - two, line] * along[i, 1 + line, 3]
            f[i, k] = value


@jit(flags=FLAGS)
def compare(where, along, q, f, away, cubic, weights, loose, floor, t, seen):
    """A row whose coefficients along `away` are not those of its partial derivatives, or -1.

    t: room for steps of predictors; seen: the sums of all differences, and of what is compared, to
    which they are added.
    """
    p, worst = len(q), -1
    for i in range(len(f)):
        if weights[i] == 0.0:
            continue
        for k in range(p):
            t[k] = product(q[k, i], away)
        one, two, three = 0.0, 0.0, 0.0
        for k in range(p):
            one += f[i, k] * t[k]
            for l in range(p):
                two += 0.5 * f[i, where.second[k, l]] * t[k] * t[l]
                if cubic:
                    for m in range(p):
                        three += f[i, where.third[k, l, m]] * t[k] * t[l] * t[m] / 6.0
        c0, c1, c2, c3 = along[i, 0, 0], along[i, 0, 1], along[i, 0, 2], along[i, 0, 3]
        off, size = abs(c1 - one) + abs(c2 - two), abs(c1) + abs(c2)
        if cubic:
            off, size = off + abs(c3 - three), size + abs(c3)
        if not off <= loose * size + floor * (1.0 + abs(c0)):
            worst = i
        seen[0] += off
        seen[1] += size
    return worst
