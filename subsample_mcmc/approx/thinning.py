"""How sm.Thinned decides about a proposal: the tests made of a Poisson process of rows.

The proofs stand in decisions/thinned.py.
"""

from math import log
from typing import Any

import numpy as np

from subsample_mcmc.approx.control import ControlFunctions
from subsample_mcmc.approx.row_weights import draw_points, rates_of, without_rare
from subsample_mcmc.decisions.rules.rule import (
    ALONE,
    BEYOND_BOUND,
    EXACT,
    NOT_FINITE,
    PREDICTED,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, uniform
from subsample_mcmc.target.rewards import Sources, place

FIRST = 8  # points that are looked at together; then twice as many
ROUNDING = 8.0  # roundings of one row's value by which two residuals may differ


@jit(inner="always")
def beyond(r, c, rounding):
    """The code of a residual that exceeds its bound, or is no number; else 0."""
    if abs(r) <= c + ROUNDING * rounding:
        return 0
    return BEYOND_BOUND if abs(r) < np.inf else NOT_FINITE


@jit(inner="always")
def weighed(r, c, u, auxiliary):
    """What a row that was drawn adds to the gap; in the factorised test -1.0: it refuses."""
    r = min(max(r, -c), c)
    if auxiliary:
        here, there = c - max(r, 0.0), c + min(r, 0.0)
        if u * c < here:
            return log(there / here) if there > 0.0 else -np.inf
        return 0.0
    return -1.0 if u * c < -r else 0.0


@jit(inner="always")
def rows_of_sum(trial, before):
    """What an exact sum counts as read; a sum that was remembered has taken off raced rows."""
    return trial.target[0].rows if trial.pulls[0] < before else trial.control.size


@memoised
def sum_of_outliers(residuals: Any) -> Any:
    """add(trial, arm, values): the sum of their residuals at an arm."""

    @jit(inner=True)
    def add(trial, arm, values):
        rows, total = trial.control.outliers, 0.0
        for first in range(0, len(rows), CHUNK):
            part = rows[first : first + CHUNK]
            residuals(trial, arm, part, values[: len(part)])
            for i in range(len(part)):
                total += values[i]
        return total

    return add


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
def rates_of_proposal(functions: ControlFunctions) -> Any:
    """rates(trial, weights) -> (of the process; 1: outliers are read; rounding of a row)."""
    bounds_of = functions.bounds

    @jit(inner="always")
    def rates(trial, weights):
        raced, whole, rounding, table = np.inf, np.inf, 0.0, 0
        if trial.control.off[0] == 0:
            raced, whole, rounding, table = bounds_of(trial)
        found = rates_of(weights, raced, whole, table)
        if found.rare > len(trial.control.outliers):
            return without_rare(found), 1, rounding
        return found, 0, rounding

    return rates


@memoised
def thinned_choice(sources: Sources, functions: ControlFunctions) -> Any:
    """choose() between staying and going; the log of u stands among the offsets of staying."""
    total, residuals = sources.total, functions.residuals
    rates_at, add_outliers = rates_of_proposal(functions), sum_of_outliers(functions.residuals)

    @jit(inner=True)
    def everything(trial, offsets):
        own, read, before = trial.control, 0, trial.pulls[0]
        stay = total(trial, 0, own.size)
        read, before = rows_of_sum(trial, before), trial.pulls[0]
        go = total(trial, 1, own.size)
        read += rows_of_sum(trial, before)
        if not_a_sum(stay) or not_a_sum(go):
            return failed(NOT_FINITE, 0 if not_a_sum(stay) else 1, -1, read, 1)
        ahead = offsets[1] - own.sums[1] + go > offsets[0] - own.sums[0] + stay
        return Outcome(1 if ahead else 0, read, 1, EXACT, 0, -1, -1)

    @jit(inner=True)
    def choose(stream, trial, offsets, params, scratch):
        if offsets[0] == -np.inf or offsets[1] == -np.inf:
            return Outcome(1 if offsets[1] > -np.inf else 0, 0, 0, ALONE, 0, -1, -1)
        weights, pulls, rounds = params.weights, 0, 0
        rates, read, rounding = rates_at(trial, weights)
        rate = rates.usual + rates.rare
        scratch.bound[0] += rate if rate < np.inf else trial.control.size
        if not rate <= params.most:
            return everything(trial, offsets)
        rows, limits = scratch.rows, scratch.limits
        going, staying = scratch.values[1], scratch.values[0]
        gap = offsets[1] - offsets[0]
        if read == 1:
            gap += add_outliers(trial, 1, going) - add_outliers(trial, 0, staying)
            pulls, rounds = 2 * len(trial.control.outliers), 1
            if not gap < np.inf:
                return failed(NOT_FINITE, 1, -1, pulls, rounds)
        auxiliary = rate * weights.shares[rates.table] > params.lost
        if not (auxiliary or gap > 0.0):
            return Outcome(0, pulls, rounds, PREDICTED if pulls == 0 else RACED, 0, -1, -1)
        time, batch, more = 0.0, FIRST, rate > 0.0
        while more:
            time, count = draw_points(
                stream, weights, rates, time, rate, rows[:batch], limits[:batch]
            )
            more = count == batch
            if count == 0:
                break
            residuals(trial, 1, rows[:count], going[:count])
            residuals(trial, 0, rows[:count], staying[:count])
            pulls, rounds, batch = pulls + 2 * count, rounds + 1, min(2 * batch, CHUNK)
            for i in range(count):
                r, c = going[i] - staying[i], limits[i]
                code = beyond(r, c, rounding)
                if code != 0:
                    return failed(code, 1, np.int64(rows[i]), pulls, rounds)
                added = weighed(r, c, uniform(stream), auxiliary)
                if not auxiliary and added < 0.0:
                    return Outcome(0, pulls, rounds, RACED, 0, -1, -1)
                gap += added
        ended = PREDICTED if pulls == 0 else RACED
        return Outcome(1 if gap > 0.0 else 0, pulls, rounds, ended, 0, -1, -1)

    return choose


@memoised
def negative_parts(functions: ControlFunctions) -> Any:
    """again(case, chosen): the audit of a proposal: what the factorised test costs at most.

    That is the sum of max(-r_n, 0) over the rows that may be drawn, in nats of acceptance: no
    error, as an exact decision under the same u is coupled to other numbers.
    """
    residuals, rates_at = functions.residuals, rates_of_proposal(functions)

    @jit(inner=True)
    def parts_of(trial, scratch, rows):
        """(sum of r, of max(-r, 0), of r squared) of some rows."""
        whole, against, square, values = 0.0, 0.0, 0.0, scratch.values
        for arm in range(2):
            residuals(trial, arm, rows, values[arm, : len(rows)])
        for i in range(len(rows)):
            r = values[1, i] - values[0, i]
            whole += r
            against += max(-r, 0.0)
            square += r * r
        return whole, against, square

    @jit(inner="entry")
    def again(case, chosen):
        trial, offsets, scratch, tally = case.trial, case.left, case.scratch, case.tally[0]
        rows, size, outliers = scratch.rows, trial.control.size, trial.control.outliers
        if offsets[0] == -np.inf or offsets[1] == -np.inf:
            return -1.0
        rates, read, _ = rates_at(trial, case.params.weights)
        if not rates.usual + rates.rare <= case.params.most:  # all was read, at no cost
            return -1.0
        whole, against, square = 0.0, 0.0, 0.0
        for first in range(0, size, CHUNK):
            count = min(CHUNK, size - first)
            for i in range(count):
                rows[i] = first + i
            r, negative, squared = parts_of(trial, scratch, rows[:count])
            whole, against, square = whole + r, against + negative, square + squared
        for first in range(0, read * len(outliers), CHUNK):
            _, negative, _ = parts_of(trial, scratch, outliers[first : first + CHUNK])
            against -= negative
        if not abs(whole) < np.inf:
            return 1.0
        tally.audited += 1
        tally.regret += max(against, 0.0)
        tally.margin += abs(offsets[1] - offsets[0] + whole)
        tally.variance += square - whole * whole / size
        return -1.0

    return again
