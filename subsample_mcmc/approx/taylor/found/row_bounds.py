"""Bounds of each row's derivatives of third or fourth order, all over a ball: by intervals.

The ball: |B (x - x*)| at most a radius, B the metric of the polynomial. In coordinates w = B (x -
x*) a row's slopes have an orthonormal basis q, of one to three vectors (row_slopes.py), and its log
likelihood is a function of q'w where it takes the branches that it takes at x*: comparisons that
hold all over the ball say that it does. So its derivatives along all directions of length 1 are
those along directions of q, and what an affine number comes to in the ball is its centre, and the
radius times the length of its slopes along q.

One predictor has one direction. Of two, the derivative of order K along (cos t, sin t) is a
trigonometric polynomial in t of degree K, at every point: it is at most its largest value at
m directions on the half circle over cos(K pi / (2 m)) (Ehlich & Zeller 1964). Of three, along
(cos t, sin t cos u, sin t sin u), it is one in t, and one in u for every t: the same twice.

Rounding: intervals are outward (numerics/jets/intervals.py). That slopes lie in the span of q is
known up to what Gram-Schmidt takes for rounding, a part LEFT of the longest of a row: by as much,
in length, each affine number is widened, and LARGER is beyond what that makes of a derivative.
Numbers that are made of data alone are taken as they are.

    Ehlich & Zeller 1964, Schwankung von Polynomen zwischen Gitterpunkten, Math. Z. 86,
        doi:10.1007/BF01111276
"""

from math import cos, factorial, pi
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import jets_of
from subsample_mcmc.approx.taylor.found.row_slopes import RowSlopes
from subsample_mcmc.approx.taylor.predictor_chunks import chunk_of
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import call_number

MOST = 3  # predictors of a row that has bounds
COUNTS = {2: 12, 3: 8}  # directions of a half circle, by predictors
FEWER = {2: 6, 3: 5}  # where bounds need not be close: half as much work
LEFT, LARGER = 1e-8, 1.0 + 1e-6
WORDS = MOST + 2  # of a parameter: its slopes along q, that along the direction, the note's address


class RangedRow(NamedTuple):
    """What bounds of a row along a direction are made with."""

    state: Any  # of Balls
    data: Any
    order: int
    out: np.ndarray  # (4,) ends of a coefficient, and of the value


@memoised
def bounder(likelihood) -> Any:
    """bound(context, n): writes the ends of a coefficient of a row into context.out."""
    jets = jets_of()
    likelihood, ends_of_coefficient = jets.squaring(likelihood), jets.ends_of_coefficient

    @jit(inner="entry", user=True)
    def bound(context, n):
        out = context.out
        out[0], out[1], out[2], out[3] = ends_of_coefficient(
            likelihood(context.state, context.data, n), context.order
        )
        return 0.0

    return bound


class RowBounds:
    """Room for a mini-batch of one thread."""

    def __init__(self, model, on_tape, ints, point, inverse, order: int, size: int):
        """inverse: of the metric, whose columns are the coordinates w."""
        d = len(point)
        self.slopes = RowSlopes(model, on_tape, ints, point, np.ones(d), size, MOST + 1, inverse)
        self.inverse, self.order = np.ascontiguousarray(inverse), order
        self.note, self.words = np.zeros(2), np.zeros((d, WORDS), dtype=np.uint64)
        self.words[:, WORDS - 1] = self.note.ctypes.data
        self.out, self.frame = np.zeros(4), np.zeros((MOST, MOST))
        self.own, self.room = np.zeros((2, MOST, d))
        self.row, self.raised = np.zeros(1, dtype=np.int64), ""
        state = on_tape(model, np.array(ints), point.copy(), self.words)
        context = RangedRow(state, model.data, order + 1, self.out)
        self.ranged = chunk_of(bounder(model.compiled[0]), context)

    def bounds(self, first: int, weights, radius: float, fewer: bool = False) -> np.ndarray:
        """(3, rows): bounds of derivatives, inf where there is none, and of values; predictors.

        fewer: along fewer directions, so that they are less close.
        Of rows behind one whose call ends before its result, by a comparison that is not decided
        or what the user raises, nothing is said: that row has no bound.
        """
        slopes, found, degree = self.slopes, np.zeros((3, len(weights))), self.order + 1
        ranks = slopes.find(first, weights)
        counts = FEWER if fewer else COUNTS
        losses = np.array([loss(rank, degree, counts) for rank in range(MOST + 1)])
        try:
            bound_rows(
                self.ranged, first, weights, ranks, slopes.q, slopes.longest, self.inverse,
                *WAYS[fewer], radius, factorial(degree) * LARGER, losses, self.note, self.words,
                self.words.view(float), self.out, self.frame, self.own, self.room, self.row, found,
            )  # fmt: skip
        except (CompileError, *NUMBA_ERRORS, AttributeError, TypeError, IndexError):
            raise  # not what this row is: it does not compile, or plain Python refuses it
        except Exception as error:
            self.raised = f"{type(error).__name__}: {error}"
            found[0, self.row[0]] = np.inf
        return found


def half_circle(count: int) -> np.ndarray:
    """(count, 2): directions."""
    steps = np.arange(count) * (pi / count)
    return np.column_stack([np.cos(steps), np.sin(steps)])


def directions(rank: int, counts: dict[int, int]) -> np.ndarray:
    """(directions, MOST): along which a row of so many predictors is looked at."""
    if rank < 2:
        found = np.ones((1, 1))
    elif rank == 2:
        found = half_circle(counts[2])
    else:
        own = half_circle(counts[3])
        found = np.array(
            [[1.0, 0.0, 0.0]] + [[c, s * a, s * b] for c, s in own[1:] for a, b in own]
        )
    return np.pad(found, ((0, 0), (0, MOST - found.shape[1])))


def loss(rank: int, degree: int, counts: dict[int, int]) -> float:
    """By how much a derivative may exceed those along these directions."""
    if rank < 2:
        return 1.0
    return (1.0 / cos(degree * pi / (2.0 * counts[rank]))) ** (rank - 1)


def every_way(counts: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(all directions, one rank after the other; where those of each begin)."""
    each = [directions(rank, counts) for rank in range(MOST + 1)]
    return np.concatenate(each), np.cumsum([0] + [len(own) for own in each])


WAYS = {False: every_way(COUNTS), True: every_way(FEWER)}


@jit(inner=True)
def own_frame(q, i, rank, frame):
    """An orthonormal basis of the span of q[:, i], as combinations of it, into frame's rows.

    It makes no difference, but for signs, which slopes were written first: all but the last are
    made of vectors that are the same for all rows.
    """
    d = q.shape[2]
    for k in range(rank):
        for j in range(rank):
            frame[k, j] = 1.0 if k == j else 0.0
    for k in range(rank - 1):
        size = 0.0
        for l in range(rank):
            frame[k, l] = 0.0
            for j in range(d):
                frame[k, l] += q[l, i, j] / (1.0 + j) ** (k + 1)
        for before in range(k):
            along = 0.0
            for l in range(rank):
                along += frame[k, l] * frame[before, l]
            for l in range(rank):
                frame[k, l] -= along * frame[before, l]
        for l in range(rank):
            size += frame[k, l] ** 2
        if not size > 1e-18:  # then any basis does
            for a in range(rank):
                for b in range(rank):
                    frame[a, b] = 1.0 if a == b else 0.0
            return
        for l in range(rank):
            frame[k, l] /= size**0.5
    if rank == 2:
        frame[1, 0], frame[1, 1] = -frame[0, 1], frame[0, 0]
    elif rank == 3:
        for l in range(3):
            m, n = (l + 1) % 3, (l + 2) % 3
            frame[2, l] = frame[0, m] * frame[1, n] - frame[0, n] * frame[1, m]


@jit
def bound_rows(
    ranged, first, weights, ranks, q, longest, inverse, ways, begin, radius, times, losses, note,
    words, numbers, out, frame, own, room, row, found,
):  # fmt: skip
    """See RowBounds.bounds."""
    d, most = len(inverse), len(room)
    for i in range(len(weights)):
        if weights[i] == 0.0:
            continue
        rank, bound, row[0] = ranks[i], 0.0, i
        found[2, i] = rank
        if rank < 0 or rank > most:
            found[0, i] = np.inf
            continue
        own_frame(q, i, rank, frame)
        for k in range(rank):
            for l in range(d):
                own[k, l] = 0.0
                for m in range(rank):
                    own[k, l] += frame[k, m] * q[m, i, l]
        for k in range(most):
            for j in range(d):
                value = 0.0
                for l in range(d if k < rank else 0):
                    value += inverse[j, l] * own[k, l]
                room[k, j] = numbers[j, k] = value
        note[0], note[1] = radius, LEFT * longest[i] * radius
        for way in range(begin[rank], begin[rank + 1]):
            for j in range(d):
                value = 0.0
                for k in range(most):
                    value += ways[way, k] * room[k, j]
                numbers[j, most] = value
            call_number(ranged.read, ranged.context, first + i)
            size = max(abs(out[0]), abs(out[1]))
            if not (out[0] <= out[1] and size < np.inf):
                bound = np.inf
                break
            bound = max(bound, size)
        found[0, i] = bound * times * losses[rank]
        found[1, i] = max(abs(out[2]), abs(out[3]))
        if not found[1, i] < np.inf:
            found[0, i], found[1, i] = np.inf, 0.0
