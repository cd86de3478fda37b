"""Bounds of each row's derivatives of third or fourth order, all over a ball: by intervals.

The ball: |B (x - x*)| at most a radius, B the metric of the polynomial. In coordinates w = B (x -
x*) a row's slopes have an orthonormal basis q, of one or two vectors (row_slopes.py), and its log
likelihood is a function of q'w where it takes the branches that it takes at x*: comparisons that
hold all over the ball say that it does. So its derivatives along all directions of length 1 are
those along directions of q, and what an affine number comes to in the ball is its centre, and the
radius times the length of its slopes along q.

One predictor has one direction. Of two, the derivative of order K along (cos t, sin t) is a
trigonometric polynomial in t of degree K, at every point: it is at most its largest value at
DIRECTIONS on the half circle over cos(K pi / (2 DIRECTIONS)) (Ehlich & Zeller 1964).

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
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import call_number

MOST = 2  # predictors of a row that has bounds
DIRECTIONS = 12
LEFT, LARGER = 1e-8, 1.0 + 1e-6
WORDS = 4  # of a parameter: its slopes along q, that along the direction, the note's address


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
    likelihood, ends_of_coefficient = jets.readable(likelihood), jets.ends_of_coefficient

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
        self.slopes = RowSlopes(
            model, on_tape, ints, point, np.ones(d), order, size, MOST + 1, inverse
        )
        self.inverse, self.order = np.ascontiguousarray(inverse), order
        self.note, self.words = np.zeros(3), np.zeros((d, WORDS), dtype=np.uint64)
        self.words[:, WORDS - 1] = self.note.ctypes.data
        self.out, self.room = np.zeros(4), np.zeros((MOST, d))
        state = on_tape(model, np.array(ints), point.copy(), self.words)
        context = RangedRow(state, model.data, order + 1, self.out)
        self.ranged = chunk_of(bounder(model.compiled[0]), context)

    def bounds(self, first: int, weights, radius: float) -> np.ndarray:
        """(3, rows): bounds of derivatives, inf where there is none, and of values; predictors."""
        slopes, found = self.slopes, np.zeros((3, len(weights)))
        ranks = slopes.find(first, weights)
        steps = np.arange(DIRECTIONS) * (pi / DIRECTIONS)
        turns = np.column_stack([np.cos(steps), np.sin(steps)])
        degree = self.order + 1
        bound_rows(
            self.ranged, first, weights, ranks, slopes.q, slopes.longest, self.inverse, turns,
            radius, factorial(degree) * LARGER, 1.0 / cos(degree * pi / (2.0 * DIRECTIONS)),
            self.note, self.words, self.words.view(float), self.out, self.room, found,
        )  # fmt: skip
        return found


@jit(inner=True)
def turn(room, q, i):
    """Turn both vectors so that which slopes were written first makes no difference."""
    one, two = 0.0, 0.0
    for j in range(q.shape[2]):
        one += q[0, i, j] / (1.0 + j)
        two += q[1, i, j] / (1.0 + j)
    size = (one * one + two * two) ** 0.5
    if not size > 1e-9:
        return
    c, s = one / size, two / size
    for j in range(room.shape[1]):
        a, b = room[0, j], room[1, j]
        room[0, j], room[1, j] = c * a + s * b, c * b - s * a


@jit
def bound_rows(
    ranged, first, weights, ranks, q, longest, inverse, turns, radius, times, several, note, words,
    numbers, out, room, found,
):  # fmt: skip
    """See RowBounds.bounds."""
    d = len(inverse)
    for i in range(len(weights)):
        if weights[i] == 0.0:
            continue
        rank, bound = ranks[i], 0.0
        found[2, i] = rank
        if rank < 0 or rank > len(room):
            found[0, i] = np.inf
            continue
        for k in range(len(room)):
            for j in range(d):
                value = 0.0
                for l in range(d if k < rank else 0):
                    value += inverse[j, l] * q[k, i, l]
                room[k, j] = value
        if rank == 2:
            turn(room, q, i)
        for k in range(len(room)):
            for j in range(d):
                numbers[j, k] = room[k, j]
        note[0], note[1], note[2] = 0.0, radius, LEFT * longest[i] * radius
        for way in range(len(turns) if rank > 1 else 1):
            for j in range(d):
                numbers[j, 2] = turns[way, 0] * room[0, j] + turns[way, 1] * room[1, j]
            call_number(ranged.read, ranged.context, first + i)
            size = max(abs(out[0]), abs(out[1]))
            if not (out[0] <= out[1] and size < np.inf) or note[0] > 0.0:
                bound = np.inf
                break
            bound = max(bound, size)
        found[0, i] = bound * times * (several if rank > 1 else 1.0)
        found[1, i] = max(abs(out[2]), abs(out[3]))
        if not found[1, i] < np.inf:
            found[0, i], found[1, i] = np.inf, 0.0
