"""How sm.Thinned draws one of several arms: by rejection, with a Poisson process of rows.

The proof stands in decisions/thinned.py.
"""

from math import exp
from typing import Any

import numpy as np

from subsample_mcmc.approx.control import ControlFunctions
from subsample_mcmc.approx.row_weights import draw_points, rates_of, uniform, without_rare
from subsample_mcmc.approx.thinning import FIRST, beyond, rows_of_sum, sum_of_outliers
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    EXACT,
    NOT_FINITE,
    PREDICTED,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum, possible_arms
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK
from subsample_mcmc.target.rewards import Sources, place

MOST_TRIED = 1.0  # an arm with a larger bound is summed, or a draw would be tried too often ...
HOPELESS = 40.0  # ... unless it is behind by so many nats, and is hardly ever tried
THINNED, OUTLIERS_READ, SUMMED = range(3)  # what was done about an arm's residuals


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
    add_outliers = sum_of_outliers(functions.residuals)

    @jit(inner=True)
    def rates_at(trial, arm, weights, done):
        """(of the process of an arm, rounding of a row)."""
        raced, whole, rounding, table = bound_of(trial, arm)
        rates = rates_of(weights, raced, whole, table)
        return (without_rare(rates) if done != THINNED else rates), rounding

    @jit(inner=True)
    def look(trial, offsets, weights, scratch):
        """Add the polynomials' sums; return the largest log weight that an arm has for certain."""
        own, bounds, floor = trial.control, scratch.bounds, -np.inf
        for arm in range(len(offsets)):
            own.sums[arm], bounds[arm], scratch.done[arm] = 0.0, 0.0, THINNED
            if offsets[arm] == -np.inf:
                continue
            place(trial, arm)
            value = known(trial, arm)
            bounds[arm] = np.inf
            if abs(value) < np.inf:
                own.sums[arm] = value
                offsets[arm] += value
                rates, _ = rates_at(trial, arm, weights, THINNED)
                bound = rates.usual + rates.rare
                bounds[arm] = bound if bound < np.inf else np.inf
                floor = max(floor, offsets[arm] - bounds[arm])
            scratch.first[arm] = bounds[arm] if bounds[arm] < np.inf else own.size
        return floor

    @jit(inner=True)
    def widest(offsets, bounds, floor):
        """The most probable of those arms that must be known better; -1: none."""
        best, highest = -1, floor - HOPELESS
        for arm in range(len(offsets)):
            if bounds[arm] > MOST_TRIED and offsets[arm] > -np.inf:
                if offsets[arm] + bounds[arm] > highest:
                    best, highest = arm, offsets[arm] + bounds[arm]
        return best

    @jit(inner=True)
    def know_better(trial, arm, offsets, weights, scratch):
        """Read an arm's outliers, or if that was done or is not enough all rows; how many."""
        own, done, bounds = trial.control, scratch.done, scratch.bounds
        few = len(own.outliers)
        if done[arm] == THINNED and few > 0 and own.sums[arm] != 0.0:  # a polynomial is known
            rates, _ = rates_at(trial, arm, weights, OUTLIERS_READ)
            if rates.usual <= MOST_TRIED:
                done[arm], bounds[arm] = OUTLIERS_READ, rates.usual
                offsets[arm] += add_outliers(trial, arm, scratch.values[0])
                return few
        before = trial.pulls[0]
        value = total(trial, arm, own.size)
        done[arm], bounds[arm] = SUMMED, 0.0
        offsets[arm] += value - own.sums[arm]
        return rows_of_sum(trial, before)

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
    def lasts(stream, trial, arm, weights, scratch):
        """(1 if no point of a process survives, 0 if one does, or an error; row, rows, rounds)."""
        rows, limits, values = scratch.rows, scratch.limits, scratch.values[0]
        rates, rounding = rates_at(trial, arm, weights, scratch.done[arm])
        rate, time, batch, more = 2.0 * (rates.usual + rates.rare), 0.0, FIRST, True
        read, rounds = 0, 0
        while more:
            time, count = draw_points(
                stream, weights, rates, time, rate, rows[:batch], limits[:batch]
            )
            more = count == batch
            if count == 0:
                break
            residuals(trial, arm, rows[:count], values[:count])
            read, rounds, batch = read + count, rounds + 1, min(2 * batch, CHUNK)
            for i in range(count):
                r, c = values[i], limits[i]
                code = beyond(r, c, rounding)
                if code != 0:
                    return code, np.int64(rows[i]), read, rounds
                if 2.0 * uniform(stream) * c < c - min(max(r, -c), c):
                    return 0, np.int64(-1), read, rounds
        return 1, np.int64(-1), read, rounds

    @jit(inner=True)
    def choose(stream, trial, offsets, params, scratch):
        possible, only = possible_arms(offsets)
        if possible == 1:
            return Outcome(only, 0, 0, ALONE, 0, -1, -1)
        table, weights, bounds = params.weights, scratch.weights, scratch.bounds
        floor, pulls, rounds, summed = look(trial, offsets, table, scratch), 0, 0, 0
        wide = widest(offsets, bounds, floor)
        while wide >= 0:
            pulls += know_better(trial, wide, offsets, table, scratch)
            rounds += 1
            if not_a_sum(offsets[wide]):
                return failed(NOT_FINITE, wide, -1, pulls, rounds)
            summed += 1 if scratch.done[wide] == SUMMED else 0
            floor = max(floor, offsets[wide] - bounds[wide])
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
                code, row, read, looks = lasts(stream, trial, chosen, table, scratch)
                pulls, rounds = pulls + read, rounds + looks
                if code < 0:
                    return failed(code, chosen, row, pulls, rounds)
        scratch.bound[0] += scratch.first[chosen]
        ended = RACED
        if pulls == 0:
            ended = PREDICTED
        elif summed == possible:
            ended = EXACT
        return Outcome(chosen, pulls, rounds, ended, 0, -1, -1)

    return choose
