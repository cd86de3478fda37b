"""One decision about one coefficient: exactly, by rows drawn by what each may contribute.

The tests are those of sm.Thinned (decisions/thinned.py, where the proofs stand), of a move from x
to y along one coefficient, with Delta what is known without rows, r_n differences of residuals:

- *factorised*: accept if log u < Delta, and no point of a Poisson process rejects. Bounds are the
  same for all rows, so a point is any row. Where they add up to too many rows, all are read, and
  exp(-sum r_n^-) is what the process would have accepted with: the same test;
- *everything*, where residuals are expected to cost more than `lost`, and in one decision of some:
  accept if log u < Delta + sum r_n, by one column of all rows, unless their bound tells.

Which test it is depends on coefficients and reference alone: on |y - x| and on the larger of both
squared distances from the reference, the same from x to y and from y to x; and on chance, so that
no coefficient is held where residuals cost more than expected, as those of rows far off may. (How
rows are read may depend on x: it is the same test.)
"""

from math import log
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.thinning import FIRST, beyond
from subsample_mcmc.decisions.rules.rule import EXACT, NOT_FINITE, PREDICTED, RACED, Outcome
from subsample_mcmc.decisions.selector import failed
from subsample_mcmc.kernels.columns.kept import (
    KeptPredictors,
    known_gap,
    read_residuals,
    residual_bound,
    rounding_of_row,
    square_after,
    sum_bound,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import CHUNK, draw, row_kind, uniform

SOME = 1 / 16  # decisions that are about all rows, whatever residuals may cost


class Flips(NamedTuple):
    """What decisions about single coefficients are made with."""

    kept: KeptPredictors
    most: float  # rows drawn, beyond which all are read
    lost: float  # nats that residuals may be expected to cost, beyond which all rows decide
    rows: np.ndarray  # (CHUNK,)
    values: np.ndarray  # (2, CHUNK) residuals at both values
    bound: np.ndarray  # (1,) a statistic: what bounds of all residuals add up to


class Read(NamedTuple):
    """Of all rows: differences of residuals."""

    total: float
    against: float  # the sum of the negative ones, without their sign
    square: float
    code: int  # 0, or what is wrong ...
    row: int  # ... with which


def make_flips(kept: KeptPredictors, selector: Any, bound: np.ndarray) -> Flips:
    """selector: sm.Thinned."""
    size = len(kept.offset)
    return Flips(
        kept, selector.most * size, selector.lost, np.zeros(CHUNK, dtype=row_kind(size)),
        np.zeros((2, CHUNK)), bound,
    )  # fmt: skip


@jit(inner=True)
def read_all(flips, k, value, bound):
    """Both residuals of every row."""
    kept, size = flips.kept, len(flips.kept.sums)
    total, against, square, rounding = 0.0, 0.0, 0.0, rounding_of_row(kept)
    staying, going = flips.values[0], flips.values[1]
    for first in range(0, size, CHUNK):
        count = min(CHUNK, size - first)
        for i in range(count):
            flips.rows[i] = first + i
        read_residuals(kept, k, value, flips.rows[:count], going[:count])
        read_residuals(kept, k, kept.floats[k], flips.rows[:count], staying[:count])
        for i in range(count):
            r = going[i] - staying[i]
            total += r
            against += max(-r, 0.0)
            square += r * r
            code = beyond(r, bound, rounding)
            if code != 0:
                return Read(total, against, square, code, first + i)
    return Read(total, against, square, 0, -1)


@jit(inner="always")
def decided_by_all(flips, k, value):
    """Would residuals be expected to cost more than they may; the same from either end."""
    kept = flips.kept
    far = max(kept.now[0].square, square_after(kept, k, value))
    return not kept.losses[k] * abs(value - kept.floats[k]) * far <= flips.lost


@jit(inner=True)
def read_some(stream, flips, k, value, bound, rate):
    """Points of the process, until one rejects or there is none left."""
    kept, rounding, time = flips.kept, rounding_of_row(flips.kept), 0.0
    pulls, rounds, batch, more = 0, 0, FIRST, rate > 0.0
    staying, going = flips.values[0], flips.values[1]
    while more:
        count = 0
        while count < batch:
            time -= log(uniform(stream))
            if time > rate:
                more = False
                break
            flips.rows[count] = draw(stream, len(kept.sums))
            count += 1
        if count == 0:
            break
        read_residuals(kept, k, value, flips.rows[:count], going[:count])
        read_residuals(kept, k, kept.floats[k], flips.rows[:count], staying[:count])
        pulls, rounds, batch = pulls + 2 * count, rounds + 1, min(2 * batch, CHUNK)
        for i in range(count):
            r = going[i] - staying[i]
            code = beyond(r, bound, rounding)
            if code != 0:
                return failed(code, 1, np.int64(flips.rows[i]), pulls, rounds)
            if uniform(stream) * bound < -r:
                return Outcome(0, pulls, rounds, RACED, 0, -1, -1)
    return Outcome(1, pulls, rounds, PREDICTED if pulls == 0 else RACED, 0, -1, -1)


@jit(inner=True)
def choose(stream, flips, k, value, ahead):
    """Stay, or let coefficient k be `value`; ahead: Delta - log u."""
    kept, everything = flips.kept, 2 * len(flips.kept.sums)
    bound = residual_bound(kept, k, value)
    rate = bound * len(kept.sums)
    flips.bound[0] += rate if rate < np.inf else len(kept.sums)
    if not abs(ahead) < np.inf:
        return failed(NOT_FINITE, 1, -1, 0, 0)
    by_all = uniform(stream) < SOME or decided_by_all(flips, k, value)
    # What residuals can bring back, with a margin for rounding.
    reach = 1.000001 * sum_bound(kept, k, value) + 1e-9 if by_all else 0.0
    if ahead <= -reach:
        return Outcome(0, 0, 0, PREDICTED, 0, -1, -1)
    if by_all and ahead > reach:
        return Outcome(1, 0, 0, PREDICTED, 0, -1, -1)
    if rate <= flips.most and not by_all:
        return read_some(stream, flips, k, value, bound, rate)
    found = read_all(flips, k, value, bound)
    if found.code != 0:
        return failed(found.code, 1, found.row, everything, 1)
    if by_all:
        goes = ahead + found.total > 0.0
    else:
        goes = log(uniform(stream)) < -found.against
    return Outcome(1 if goes else 0, everything, 1, EXACT, 0, -1, -1)


@jit(inner=True)
def audit(flips, tally, k, value):
    """What residuals cost this decision at most; return a row that is no number, or -1."""
    if decided_by_all(flips, k, value):  # nothing
        return -1
    found = read_all(flips, k, value, np.inf)
    if found.code != 0:
        return found.row
    if found.total == -np.inf:  # as a log factor is, where an exponential overflows, say
        return -1
    tally.audited += 1
    tally.regret += found.against
    tally.margin += abs(known_gap(flips.kept, k, value) + found.total)
    tally.variance += found.square - found.total * found.total / len(flips.kept.sums)
    return -1
