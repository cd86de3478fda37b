"""How sm.Thinned draws one of several arms: by rejection, with a Poisson process of rows.

The proof stands in decisions/thinned.py.
"""

from math import exp, log
from typing import Any

import numpy as np

from subsample_mcmc.approx.control import ControlFunctions
from subsample_mcmc.approx.row_weights import draw_points, rates_of, without_rare
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
from subsample_mcmc.numerics.rows import CHUNK, draw, uniform
from subsample_mcmc.target.rewards import Sources, place

MOST_TRIED = 1.0  # an arm with a larger bound is summed, or a draw would be tried too often ...
HOPELESS = 40.0  # ... unless it is behind by so many nats, and is hardly ever tried
THINNED, OUTLIERS_READ, SUMMED = range(3)  # what was done about an arm's residuals
NEAR, UNSEEN, SEEN = range(3)  # is an arm among those that are looked at; of others, was it since


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
    known, bound_of, ceilings = functions.every, functions.bound, functions.ceilings
    add_outliers = sum_of_outliers(functions.residuals)

    @jit(inner=True)
    def rates_at(trial, arm, weights, done):
        """(of the process of an arm, rounding of a row)."""
        raced, whole, rounding, table = bound_of(trial, arm)
        rates = rates_of(weights, raced, whole, table)
        return (without_rare(rates) if done != THINNED else rates), rounding

    @jit(inner=True)
    def look(trial, arm, offsets, weights, scratch):
        """Add the polynomials' sum; return the log weight that the arm has for certain."""
        own, bounds = trial.control, scratch.bounds
        own.sums[arm], bounds[arm], scratch.done[arm] = 0.0, np.inf, THINNED
        place(trial, arm)
        value = known(trial, arm)
        if abs(value) < np.inf:
            own.sums[arm] = value
            offsets[arm] += value
            rates, _ = rates_at(trial, arm, weights, THINNED)
            bound = rates.usual + rates.rare
            bounds[arm] = bound if bound < np.inf else np.inf
        scratch.first[arm] = bounds[arm] if bounds[arm] < np.inf else own.size
        return offsets[arm] - bounds[arm]

    @jit(inner=True)
    def best_by_ceiling(trial, offsets, most):
        """Write what arms weigh at most; return the first by that, -1 where it is not known."""
        best = -1
        if ceilings(trial, most):
            for arm in range(len(offsets)):
                most[arm] += offsets[arm]
                if -np.inf < most[arm] < np.inf and (best < 0 or most[arm] > most[best]):
                    best = arm
        return best

    @jit(inner=True)
    def look_at_near(trial, offsets, weights, behind, scratch):
        """(how many arms are near, what is certain of the best, the most that others weigh).

        -inf: there are no others.
        """
        near, far, most, count, cut = scratch.near, scratch.far, scratch.weights, 0, -np.inf
        best, floor = best_by_ceiling(trial, offsets, most), -np.inf
        if best >= 0:
            floor = look(trial, best, offsets, weights, scratch)
            cut = floor - behind - log(len(offsets))
        for arm in range(len(offsets)):
            far[arm] = UNSEEN
            if offsets[arm] == -np.inf or (cut > -np.inf and arm != best and most[arm] <= cut):
                continue
            near[count], far[arm] = arm, NEAR
            count += 1
            if arm != best:
                floor = max(floor, look(trial, arm, offsets, weights, scratch))
        return count, floor, cut

    @jit(inner=True)
    def widest(near, offsets, bounds, floor):
        """The most probable of those arms that must be known better; -1: none."""
        best, highest = -1, floor - HOPELESS
        for arm in near:
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
    def propose(stream, near, weights, whole, rest):
        """An arm of those that are near, by its weight; -1: one of the others, by `rest`."""
        u, last = uniform(stream) * (whole + rest), -1
        if rest > 0.0 and u > whole:
            return -1
        for arm in near:
            if u <= 0.0:
                break
            if weights[arm] > 0.0:
                last = arm
                u -= weights[arm]
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
        table, weights, bounds, far = params.weights, scratch.weights, scratch.bounds, scratch.far
        count, floor, cut = look_at_near(trial, offsets, table, params.behind, scratch)
        near, pulls, rounds, summed = scratch.near[:count], 0, 0, 0
        wide = widest(near, offsets, bounds, floor)
        while wide >= 0:
            pulls += know_better(trial, wide, offsets, table, scratch)
            rounds += 1
            if not_a_sum(offsets[wide]):
                return failed(NOT_FINITE, wide, -1, pulls, rounds)
            summed += 1 if scratch.done[wide] == SUMMED else 0
            floor = max(floor, offsets[wide] - bounds[wide])
            wide = widest(near, offsets, bounds, floor)
        highest, whole, rest = -np.inf, 0.0, 0.0
        for arm in near:
            highest = max(highest, offsets[arm] + bounds[arm])
        if highest == -np.inf:
            return failed(ALL_IMPOSSIBLE, -1, -1, pulls, rounds)
        for arm in near:
            weights[arm] = exp(offsets[arm] + bounds[arm] - highest)
            whole += weights[arm]
        if count < possible:
            rest = len(offsets) * exp(cut - highest)
        chosen, code = -1, 0
        while code == 0:
            chosen = propose(stream, near, weights, whole, rest)
            if chosen < 0:  # any arm, which must be one of those that are far behind
                chosen = draw(stream, len(offsets))
                if far[chosen] == NEAR or offsets[chosen] == -np.inf:
                    continue
                if far[chosen] == UNSEEN:
                    far[chosen] = SEEN
                    look(trial, chosen, offsets, table, scratch)
                    if bounds[chosen] > MOST_TRIED:
                        pulls += know_better(trial, chosen, offsets, table, scratch)
                        rounds += 1
                        if not_a_sum(offsets[chosen]):
                            return failed(NOT_FINITE, chosen, -1, pulls, rounds)
                if log(uniform(stream)) > offsets[chosen] + bounds[chosen] - cut:
                    continue
            code = 1
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
