"""The predictors of all rows, kept as coefficients move, and the gradient of their sums.

What is kept is a function of the state alone, to the last bit, whatever way led to it: so draws do
not depend on where a run was stopped, and nothing of it is stored. A predictor is a sum of products
x_nk b_k, each rounded to a multiple of one unit: sums of so few multiples are exact, in any order.
The unit is 2^-48 or less of what predictors can come to, by the state that a sweep begins with.
Gradients are made anew as a sweep begins.
"""

from math import exp, frexp, ldexp
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.columns.columns import ColumnSums
from subsample_mcmc.approx.taylor.predictor_chunks import GIVEN, residuals_of, source_of
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_residuals

MAGIC = 1.5 * 2.0**52  # a number up to 2^51, plus this, less this: the nearest whole number
ROOM = 8.0  # times the sizes of all products together, that their sum may come to in a sweep
LANES = 32

NUMBERS = np.dtype(
    [
        ("scale", float),  # one over ...
        ("unit", float),  # ... that of which predictors are multiples; 0: nothing is kept yet
        ("size", float),  # sum over coefficients of |b_k| times the largest |x_nk| ...
        ("limit", float),  # ... up to which these sums are exact
        ("far", float),  # the farthest of all predictors from that at the reference ...
        ("wide", float),  # ... and the fourth root of the sum of fourth powers of how far they are
        ("square", float),  # squared distance of the coefficients from the reference
    ],
    align=True,
)


class KeptPredictors(NamedTuple):
    """Of one chain."""

    x: np.ndarray  # see ColumnSums, as all up to `rounding`
    offset: np.ndarray
    there: np.ndarray
    point: np.ndarray
    slopes: np.ndarray
    curvature: np.ndarray
    metric: np.ndarray
    largest: np.ndarray
    lengths: np.ndarray
    losses: np.ndarray
    third: float
    growth: float
    steep: float
    rounding: float
    usual: float  # `size` at the reference
    floats: np.ndarray  # (d,) coefficients that predictors are those of
    sums: np.ndarray  # (N,) of the rounded products, in units
    now: np.recarray  # (1,) of NUMBERS
    gradient: np.ndarray  # (d,) of the second-order sums, where coefficients stand
    bend: np.ndarray  # (d,) metric times the distance from the reference
    lanes: np.ndarray  # (2, LANES)
    here: np.ndarray  # (1, CHUNK) predictors whose residuals are asked for ...
    away: np.ndarray  # (1, CHUNK) ... and at the reference
    read: Any  # (context, source, arm, rows, out): residuals of predictors that stand there
    context: Any
    source: Any
    row: Any


def keep_predictors(model, columns: ColumnSums) -> KeptPredictors:
    """Room for one chain; nothing is kept yet."""
    d, size = columns.x.shape
    source = source_of(model, model.ints.copy(), columns.point.copy(), columns.source.widths)
    asked = residuals_of(model, columns.source.reading, source)
    usual = float((np.abs(columns.point) * columns.largest).sum())
    gradient, bend = np.zeros((2, d))
    shared = columns._asdict()
    del shared["source"]
    return KeptPredictors(
        **shared, usual=usual, floats=np.zeros(d), sums=np.zeros(size),
        now=np.zeros(1, dtype=NUMBERS).view(np.recarray), gradient=gradient, bend=bend,
        lanes=np.zeros((2, LANES)), here=source.here, away=source.there, read=asked.read,
        context=asked.context, source=asked.source, row=asked.row,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ predictors
# Without the flags that let LLVM change the order of additions.
@jit(inner="always")
def whole(value):
    """The nearest whole number."""
    return (value + MAGIC) - MAGIC


@jit(disjoint=True, inner=True)
def move_column(x, sums, before, after):
    """Let coefficient b_k, in units, be `after` in the sums."""
    for n in range(np.uint64(len(sums))):
        sums[n] += whole(x[n] * after) - whole(x[n] * before)


@jit(disjoint=True, inner=True)
def distances(sums, unit, offset, there, most, fourth):
    """(the largest |eta_n - eta*_n|, the fourth root of the sum of their fourth powers)."""
    size = np.uint64(len(sums))
    for i in range(np.uint64(LANES)):
        most[i] = fourth[i] = 0.0
    for first in range(np.uint64(0), size - size % np.uint64(LANES), np.uint64(LANES)):
        for i in range(np.uint64(LANES)):
            n = first + i
            gap = offset[n] + sums[n] * unit - there[n]
            square = gap * gap
            most[i] = square if square > most[i] else most[i]
            fourth[i] += square * square
    far, total = 0.0, 0.0
    for n in range(size - size % np.uint64(LANES), size):
        gap = offset[n] + sums[n] * unit - there[n]
        far, total = max(far, gap * gap), total + gap * gap * (gap * gap)
    for i in range(np.uint64(LANES)):
        far, total = max(far, most[i]), total + fourth[i]
    return far**0.5 * (1.0 + 1e-12), total**0.25 * (1.0 + 1e-9)


@jit(inner=True)
def measure(kept):
    """How far the predictors are from those at the reference."""
    now, lanes = kept.now[0], kept.lanes
    now.far, now.wide = distances(kept.sums, now.unit, kept.offset, kept.there, lanes[0], lanes[1])


@jit(inner=True)
def catch_up(kept, floats):
    """Let the predictors be those of the state, in the unit that it asks for."""
    now, size = kept.now[0], 0.0
    for k in range(len(floats)):
        size += abs(floats[k]) * kept.largest[k]
    now.size = size
    _, power = frexp(min(ROOM * max(size, kept.usual), 1e300))
    now.limit = ldexp(0.5, power)
    scale, unit = ldexp(1.0, 52 - power), ldexp(1.0, power - 52)
    if unit != now.unit:
        now.scale, now.unit = scale, unit
        for n in range(len(kept.sums)):
            kept.sums[n] = 0.0
        for k in range(len(floats)):
            kept.floats[k] = 0.0
    for k in range(len(floats)):
        if floats[k] != kept.floats[k]:
            move_column(kept.x[k], kept.sums, kept.floats[k] * scale, floats[k] * scale)
            kept.floats[k] = floats[k]
    measure(kept)


@jit(disjoint=True, inner=True)
def add_scaled(out, factor, values):
    """out += factor * values."""
    for i in range(np.uint64(len(out))):
        out[i] += factor * values[i]


@jit(inner=True)
def gradient_anew(kept):
    """Gradient and distance where the coefficients stand: of these alone."""
    for i in range(len(kept.point)):
        kept.gradient[i], kept.bend[i] = kept.slopes[i], 0.0
    for k in range(len(kept.point)):
        step = kept.floats[k] - kept.point[k]
        add_scaled(kept.gradient, step, kept.curvature[k])
        add_scaled(kept.bend, step, kept.metric[k])
    square = 0.0
    for k in range(len(kept.point)):
        square += (kept.floats[k] - kept.point[k]) * kept.bend[k]
    kept.now[0].square = square


@jit(inner=True)
def begin(kept, floats):
    """As a sweep begins: all that is kept is that of the state."""
    catch_up(kept, floats)
    gradient_anew(kept)


@jit(inner="always")
def square_after(kept, k, after):
    """The squared distance from the reference after the move."""
    step = after - kept.floats[k]
    return kept.now[0].square + step * (2.0 * kept.bend[k] + step * kept.metric[k, k])


@jit(inner=True)
def go(kept, floats, k):
    """Coefficient k has moved to where it stands in the state."""
    now, before, after = kept.now[0], kept.floats[k], floats[k]
    now.square = square_after(kept, k, after)
    add_scaled(kept.gradient, after - before, kept.curvature[k])
    add_scaled(kept.bend, after - before, kept.metric[k])
    now.size += (abs(after) - abs(before)) * kept.largest[k]
    if now.size > now.limit:
        catch_up(kept, floats)
        return
    move_column(kept.x[k], kept.sums, before * now.scale, after * now.scale)
    kept.floats[k] = after
    measure(kept)


# ------------------------------------------------------------------------ what is known of moves
@jit(inner="always")
def known_gap(kept, k, after):
    """By how much the second-order sums change where coefficient k moves."""
    step = after - kept.floats[k]
    return step * (kept.gradient[k] + 0.5 * step * kept.curvature[k, k])


@jit(inner="always")
def grown(kept, far):
    """By how much bounds grow so far from the reference."""
    power = min(kept.growth * far, 700.0)
    return 1.0 if power == 0.0 else exp(power)  # which costs more


@jit(inner="always")
def residual_bound(kept, k, after):
    """Of the difference of any row's residuals."""
    wide = abs(after - kept.floats[k]) * kept.largest[k]
    far = kept.now[0].far + wide
    return 0.5 * kept.third * wide * far * far * grown(kept, far)


@jit(inner="always")
def sum_bound(kept, k, after):
    """Of the sum of all of them: by Cauchy-Schwarz over the rows, and Minkowski on the way."""
    step = abs(after - kept.floats[k])
    wide = kept.now[0].wide + step * kept.lengths[1, k]
    more = grown(kept, kept.now[0].far + step * kept.largest[k])
    return 0.5 * kept.third * step * kept.lengths[0, k] * wide * wide * more


@jit(inner="always")
def rounding_of_row(kept):
    """By how much a residual may be off."""
    return kept.rounding + 8.0 * kept.now[0].unit * (kept.steep + 1.0)


@jit(inner=True)
def read_residuals(kept, k, value, rows, out):
    """Residuals of some rows where coefficient k is `value`."""
    x, sums, now = kept.x[k], kept.sums, kept.now[0]
    before, after = kept.floats[k] * now.scale, value * now.scale
    for i in range(np.uint64(len(rows))):
        n = np.uint64(rows[i])
        moved = sums[n] + (whole(x[n] * after) - whole(x[n] * before))
        kept.here[0, i], kept.away[0, i] = kept.offset[n] + moved * now.unit, kept.there[n]
    call_residuals(kept.read, kept.context, kept.source, kept.row, GIVEN, rows, out)
