"""How sm.Thinned decides: rows by weight from an alias table, and the tests made of them.

The proofs stand in decisions/thinned.py.
"""

from math import exp, log
from typing import Any

import numpy as np

from subsample_mcmc.approx.control import ControlFunctions
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    BEYOND_BOUND,
    EXACT,
    NOT_FINITE,
    PREDICTED,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum
from subsample_mcmc.decisions.thinned import RowWeights
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, WEYL, draw, hashed, row_kind
from subsample_mcmc.target.rewards import Sources, place

MOST_ROWS = 2**32  # rows are drawn by 32 bits
LARGEST = 1e38  # of bounds: they are kept in single precision
FIRST = 8  # points that are looked at together; then twice as many
ROUNDING = 8.0  # roundings of one row's value by which two residuals may differ
MOST_TRIED = 1.0  # an arm with a larger bound is summed, or a draw would be tried too often ...
HOPELESS = 40.0  # ... unless it is behind by so many nats, and is hardly ever tried

U11 = np.uint64(11)


# --------------------------------------------------------------------------------- rows by weight
@jit
def fill_alias(weights, keep, other, small, large):
    """Vose's algorithm (1991): rows below the mean are filled up by rows above it."""
    n, mean, last = len(weights), 0.0, -1
    for i in range(n):
        mean += weights[i] / n
    few = many = 0
    for i in range(n):
        keep[i], other[i] = weights[i] / mean, i
        if keep[i] < 1.0:
            small[few] = i
            few += 1
        else:
            large[many] = i
            many += 1
    while few > 0 and many > 0:
        few -= 1
        i, j = small[few], large[many - 1]
        other[i] = last = j
        keep[j] -= 1.0 - keep[i]
        if keep[j] < 1.0:
            many -= 1
            small[few] = j
            few += 1
    for k in range(few):  # but for rounding they are 1; never a row without weight
        other[small[k]] = last if last >= 0 else small[k]
    for k in range(many):
        keep[large[k]] = 1.0


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(keep, other) of weights that are not all zero."""
    kind = row_kind(len(weights))
    keep, other = np.zeros(len(weights)), np.zeros(len(weights), dtype=kind)
    small, large = np.zeros((2, len(weights)), dtype=kind)
    fill_alias(weights, keep, other, small, large)
    return keep, other


def rounded_up(values: np.ndarray) -> np.ndarray:
    """In single precision, none of them smaller."""
    found = values.astype(np.float32)
    return np.where(found < values, np.nextafter(found, np.float32(np.inf)), found)


def row_weights(bounds: list[np.ndarray], sums: np.ndarray, shares: np.ndarray) -> RowWeights:
    """From bounds of each row's residual, by configuration; sums: the bounds of all together."""
    size = len(bounds[0])
    if size >= MOST_ROWS:
        raise ValueError(f"Thinned() serves fewer than 2^32 rows, and the model has {size:,}.")
    kept = np.zeros((len(bounds), size), dtype=np.float32)
    keep, other = np.ones(kept.shape), np.zeros(kept.shape, dtype=row_kind(size))
    units, totals = np.zeros((2, len(bounds)))
    for k, own in enumerate(bounds):
        wrong = np.flatnonzero(~(own < LARGEST))
        if len(wrong):
            raise ValueError(
                f"the bound of datum {wrong[0]}'s residual is {own[wrong[0]]}: remainder must be a "
                "number at every datum."
            )
        if sums[k] > 0.0:
            kept[k] = rounded_up(own)
            keep[k], other[k] = alias_table(kept[k])
            units[k], totals[k] = 1.0 / sums[k], kept[k].sum(dtype=float) / sums[k]
    return RowWeights(kept, keep, other, units, totals, shares)


@jit(inner=True)
def uniform(stream):
    """Above 0, and at most 1."""
    stream[0] += WEYL
    return (np.float64(hashed(stream[0]) >> U11) + 0.5) * 2.0**-53


@jit(inner=True)
def draw_row(stream, keep, other):
    """A row, by its weight."""
    n = draw(stream, len(keep))
    return n if uniform(stream) < keep[n] else np.int64(other[n])


# ------------------------------------------------------------------------------------- decisions
@memoised
def known_sums(functions: ControlFunctions) -> Any:
    """predict(case, current): moves the sums of both polynomials into the offsets."""
    known, distance = functions.every, functions.distance

    @jit(inner="always")
    def predict(case, current):
        trial, offsets, own, tally = case.trial, case.offsets, case.trial.control, case.tally[0]
        own.off[0] = 0
        for arm in range(len(offsets)):
            own.sums[arm], own.left[arm] = 0.0, offsets[arm]
        if offsets[0] == -np.inf or offsets[1] == -np.inf:
            return -1, -1, 0
        for arm in range(len(offsets)):
            place(trial, arm)
            own.sums[arm] = known(trial, arm)
            if not abs(own.sums[arm]) < np.inf:
                own.off[0] = 1
        tally.distance += distance(trial, current)
        for arm in range(len(offsets)):
            if own.off[0] == 1:
                own.sums[arm] = 0.0
            offsets[arm] += own.sums[arm]
            own.left[arm] = offsets[arm]
        return -1, -1, 0

    return predict


@memoised
def thinned_choice(sources: Sources, functions: ControlFunctions) -> Any:
    """choose() between staying and going; the log of u stands among the offsets of staying."""
    total, residuals, bounds_of = sources.total, functions.residuals, functions.bounds

    @jit(inner=True)
    def everything(trial, offsets):
        own, size = trial.control, trial.control.size
        stay, go = total(trial, 0, size), total(trial, 1, size)
        if not_a_sum(stay) or not_a_sum(go):
            return failed(NOT_FINITE, 0 if not_a_sum(stay) else 1, -1, 2 * size, 1)
        ahead = offsets[1] - own.sums[1] + go > offsets[0] - own.sums[0] + stay
        return Outcome(1 if ahead else 0, 2 * size, 1, EXACT, 0, -1, -1)

    @jit(inner=True)
    def choose(stream, trial, offsets, params, scratch):
        if offsets[0] == -np.inf or offsets[1] == -np.inf:
            return Outcome(1 if offsets[1] > -np.inf else 0, 0, 0, ALONE, 0, -1, -1)
        bound, rounding, table = np.inf, 0.0, 0
        if trial.control.off[0] == 0:
            bound, rounding, table = bounds_of(trial)
        if not bound <= params.most:
            return everything(trial, offsets)
        weights, gap, pulls, rounds = params.weights, offsets[1] - offsets[0], 0, 0
        auxiliary = bound * weights.shares[table] > params.lost
        if not auxiliary and not gap > 0.0:
            return Outcome(0, 0, 0, PREDICTED, 0, -1, -1)
        rate, unit = bound * weights.totals[table], bound * weights.units[table]
        bounds, keep, other = weights.bounds[table], weights.keep[table], weights.other[table]
        rows, going, staying = scratch.rows, scratch.values[1], scratch.values[0]
        time, batch, more = 0.0, FIRST, rate > 0.0
        while more:
            count = 0
            while count < batch:
                time -= log(uniform(stream))
                if time > rate:
                    more = False
                    break
                rows[count] = draw_row(stream, keep, other)
                count += 1
            if count == 0:
                break
            residuals(trial, 1, rows[:count], going[:count])
            residuals(trial, 0, rows[:count], staying[:count])
            pulls, rounds, batch = pulls + 2 * count, rounds + 1, min(2 * batch, CHUNK)
            for i in range(count):
                r, c = going[i] - staying[i], unit * bounds[rows[i]]
                if not abs(r) <= c + ROUNDING * rounding:
                    code = BEYOND_BOUND if abs(r) < np.inf else NOT_FINITE
                    return failed(code, 1, np.int64(rows[i]), pulls, rounds)
                r, u = min(max(r, -c), c), uniform(stream)
                if auxiliary:
                    if 2.0 * u * c < c - r:
                        gap += log((c + r) / (c - r))
                elif u * c < -r:
                    return Outcome(0, pulls, rounds, RACED, 0, -1, -1)
        ended = PREDICTED if pulls == 0 else RACED
        return Outcome(1 if gap > 0.0 else 0, pulls, rounds, ended, 0, -1, -1)

    return choose


@memoised
def negative_parts(functions: ControlFunctions) -> Any:
    """again(case, chosen): the audit of a proposal: what the factorised test costs at most.

    That is the sum of max(-r_n, 0) over all rows, in nats of acceptance: no error, as an exact
    decision under the same u is coupled to other numbers.
    """
    residuals = functions.residuals

    @jit(inner="entry")
    def again(case, chosen):
        trial, offsets, tally = case.trial, case.left, case.tally[0]
        rows, values, size = case.scratch.rows, case.scratch.values, case.trial.control.size
        if offsets[0] == -np.inf or offsets[1] == -np.inf:
            return -1.0
        whole, against, square = 0.0, 0.0, 0.0
        for first in range(0, size, CHUNK):
            count = min(CHUNK, size - first)
            for i in range(count):
                rows[i] = first + i
            for arm in range(2):
                residuals(trial, arm, rows[:count], values[arm, :count])
            for i in range(count):
                r = values[1, i] - values[0, i]
                whole += r
                against += max(-r, 0.0)
                square += r * r
        if not abs(whole) < np.inf:
            return 1.0
        tally.audited += 1
        tally.regret += against
        tally.margin += abs(offsets[1] - offsets[0] + whole)
        tally.variance += square - whole * whole / size
        return -1.0

    return again


# ------------------------------------------------------------------------------------------ draws
@memoised
def distances(functions: ControlFunctions) -> Any:
    """predict(case, current) of draws: counts how far the state is from the reference."""
    known, distance = functions.every, functions.distance

    @jit(inner="always")
    def predict(case, current):
        trial, offsets = case.trial, case.offsets
        for arm in range(len(offsets)):
            case.left[arm] = offsets[arm]
        if offsets[current] > -np.inf:
            place(trial, current)
            known(trial, current)
            case.tally[0].distance += distance(trial, current)
        return -1, -1, 0

    return predict


@memoised
def thinned_draw(sources: Sources, functions: ControlFunctions) -> Any:
    """choose() that draws an arm by its probability; the offsets are log priors."""
    total, residuals = sources.total, functions.residuals
    known, bound_of = functions.every, functions.bound

    @jit(inner=True)
    def look(trial, offsets, totals, bounds):
        """Add the polynomials' sums; return the largest log weight that an arm has for certain."""
        own, floor = trial.control, -np.inf
        for arm in range(len(offsets)):
            own.sums[arm], bounds[arm] = 0.0, 0.0
            if offsets[arm] == -np.inf:
                continue
            place(trial, arm)
            value = known(trial, arm)
            bounds[arm] = np.inf
            if abs(value) < np.inf:
                own.sums[arm] = value
                offsets[arm] += value
                bound, _, table = bound_of(trial, arm)
                if bound < np.inf:
                    bounds[arm] = bound * totals[table]
                floor = max(floor, offsets[arm] - bounds[arm])
        return floor

    @jit(inner=True)
    def widest(offsets, bounds, floor):
        """The most probable of those arms that must be summed; -1: none."""
        best, highest = -1, floor - HOPELESS
        for arm in range(len(offsets)):
            if bounds[arm] > MOST_TRIED and offsets[arm] > -np.inf:
                if offsets[arm] + bounds[arm] > highest:
                    best, highest = arm, offsets[arm] + bounds[arm]
        return best

    @jit(inner=True)
    def propose(stream, weights, whole):
        """An arm, by its weight."""
        u, arm, last = uniform(stream) * whole, 0, -1
        while arm < len(weights) and u > 0.0:
            if weights[arm] > 0.0:
                last = arm
                u -= weights[arm]
            arm += 1
        return last

    @jit(inner=True)
    def lasts(stream, trial, arm, rate, table, scratch):
        """(1 if no point of a process survives, 0 if one does, or an error; row, rows, rounds)."""
        rows, values, time, batch, more = scratch.rows, scratch.values[0], 0.0, FIRST, True
        bound, rounding, own = bound_of(trial, arm)
        unit, bounds, read, rounds = bound * table.units[own], table.bounds[own], 0, 0
        while more:
            count = 0
            while count < batch:
                time -= log(uniform(stream))
                if time > rate:
                    more = False
                    break
                rows[count] = draw_row(stream, table.keep[own], table.other[own])
                count += 1
            if count == 0:
                break
            residuals(trial, arm, rows[:count], values[:count])
            read, rounds, batch = read + count, rounds + 1, min(2 * batch, CHUNK)
            for i in range(count):
                r, c = values[i], unit * bounds[rows[i]]
                if not abs(r) <= c + ROUNDING * rounding:
                    code = BEYOND_BOUND if abs(r) < np.inf else NOT_FINITE
                    return code, np.int64(rows[i]), read, rounds
                if 2.0 * uniform(stream) * c < c - min(max(r, -c), c):
                    return 0, np.int64(-1), read, rounds
        return 1, np.int64(-1), read, rounds

    @jit(inner=True)
    def choose(stream, trial, offsets, params, scratch):
        possible, only, size = 0, -1, trial.control.size
        for arm in range(len(offsets)):
            if offsets[arm] > -np.inf:
                possible += 1
                only = arm
        if possible == 1:
            return Outcome(only, 0, 0, ALONE, 0, -1, -1)
        table, weights, bounds = params.weights, scratch.weights, scratch.bounds
        floor, pulls, rounds, summed = look(trial, offsets, table.totals, bounds), 0, 0, 0
        wide = widest(offsets, bounds, floor)
        while wide >= 0:
            value = total(trial, wide, size)
            pulls, rounds, summed = pulls + size, rounds + 1, summed + 1
            if not_a_sum(value):
                return failed(NOT_FINITE, wide, -1, pulls, rounds)
            offsets[wide] += value - trial.control.sums[wide]
            bounds[wide] = 0.0
            floor = max(floor, offsets[wide])
            wide = widest(offsets, bounds, floor)
        highest, whole = -np.inf, 0.0
        for arm in range(len(offsets)):
            highest = max(highest, offsets[arm] + bounds[arm])
        if highest == -np.inf:
            return failed(ALL_IMPOSSIBLE, -1, -1, pulls, rounds)
        for arm in range(len(offsets)):
            weights[arm] = exp(offsets[arm] + bounds[arm] - highest)
            whole += weights[arm]
        chosen, code = -1, 0
        while code == 0:
            chosen, code = propose(stream, weights, whole), 1
            if bounds[chosen] > 0.0:
                code, row, read, looks = lasts(
                    stream, trial, chosen, 2.0 * bounds[chosen], table, scratch
                )
                pulls, rounds = pulls + read, rounds + looks
                if code < 0:
                    return failed(code, chosen, row, pulls, rounds)
        ended = RACED
        if pulls == 0:
            ended = PREDICTED
        elif summed == possible:
            ended = EXACT
        return Outcome(chosen, pulls, rounds, ended, 0, -1, -1)

    return choose
