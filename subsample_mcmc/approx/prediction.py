"""What a control variate does to a decision: offsets that know most, and arms ruled out by them.

First by the sums over all rows: most decisions end there. For what is left, rows that matter most
are read, the outliers, and known sums are those over the others; then again. The rest is raced.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import ControlFunctions
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK
from subsample_mcmc.target.rewards import Sources


class Questions(NamedTuple):
    """What a selector's rule wants to know of residuals before a race."""

    needs_range: bool  # does it declare a range, of residuals: it holds at any distance
    asks_range: bool  # is that range to be filled in, decision by decision
    takes_floor: bool  # and the least variance of each difference


def questions_of(selector: Selector, functions: ControlFunctions) -> Questions:
    """Those that this control variate can answer."""
    rule = selector.dropping_rule
    if rule is None:
        return Questions(False, False, False)
    floor = rule.takes_floor and functions.spread is not None
    return Questions(rule.declares_range, rule.asks_range, floor)


@memoised
def residual_sources(sources: Sources, functions: ControlFunctions) -> Sources:
    """The batch functions of residuals."""
    plain, total_of, residuals = sources.rewards, sources.total, functions.residuals

    @jit(inner=True)
    def rewards(trial, arm, rows, out):
        if trial.control.off[0] == 1:
            plain(trial, arm, rows, out)
        else:
            residuals(trial, arm, rows, out)

    @jit(inner=True)
    def total(trial, arm, size):
        """Exact sum of the residuals over the rows that are raced: all, less what is known."""
        own = trial.control
        return total_of(trial, arm, own.size) - own.sums[arm]

    return Sources(rewards, total, sources.prefetch)


@memoised
def prediction(
    sources: Sources, functions: ControlFunctions, place: Any, questions: Questions
) -> Any:  # fmt: skip
    """predict(case, current): moves what is known into the offsets, and rules arms out."""
    needs_range, asks_range, takes_floor = questions
    known_sum, _, reach, distance, trusted, estimate, spread, whole, *_ = functions
    far = functions.far
    rewards, early = sources.rewards, whole is not None
    first = whole if early else known_sum

    @jit(inner=True)
    def read_outliers(trial, arm):
        own, value, first = trial.control, 0.0, 0
        while first < len(own.outliers):
            count = min(CHUNK, len(own.outliers) - first)
            rewards(trial, arm, own.outliers[first : first + count], own.values[:count])
            for i in range(count):
                value += own.values[i]
            first += count
        return value

    @jit(inner=True)
    def rule_out(case, everything):
        """Drop arms that the residuals, of the raced or of all data, will not bring back.

        Return how many are left, the best, and whether an unproved risk was taken.
        """
        trial, offsets, own = case.trial, case.offsets, case.trial.control
        leader, left, risk = -1, 0, 0
        for arm in range(len(offsets)):
            if own.left[arm] > -np.inf and (leader < 0 or offsets[arm] > offsets[leader]):
                leader = arm
        for arm in range(len(offsets)):
            if own.left[arm] == -np.inf:
                continue
            if own.off[0] == 0 and arm != leader:
                ahead = offsets[leader] - offsets[arm]
                if own.certain == 1 and ahead > reach(trial, leader, arm, False, everything):
                    own.left[arm] = -np.inf
                    continue
                if own.likely > 0 and ahead > estimate(trial, leader, arm, everything):
                    own.left[arm], risk = -np.inf, 1
                    continue
            left += 1
        return left, leader, risk

    @jit(inner=True)
    def be_exact(case):
        """Known sums, and rewards of outliers, in the place of beliefs; return a bad arm, or -1."""
        trial, offsets, own = case.trial, case.offsets, case.trial.control
        for arm in range(len(offsets)):
            if own.left[arm] == -np.inf:
                continue
            offsets[arm] -= own.sums[arm]
            if early and own.off[0] == 0:
                place(trial, arm)
                own.sums[arm] = known_sum(trial, arm)
            value = read_outliers(trial, arm)
            case.tally[0].pulls += len(own.outliers)
            if not_a_sum(value):
                return arm
            own.sums[arm] += value
            offsets[arm] += own.sums[arm]
            own.left[arm] = offsets[arm]
        return -1

    @jit(inner=True)
    def declare(case):
        """Tell the rule how far the residuals of two arms can lie apart, at these values."""
        low, own = case.params.rule.low, case.trial.control
        for i in range(len(own.left)):
            for j in range(len(own.left)):
                both = own.left[i] > -np.inf and own.left[j] > -np.inf and i != j
                far = np.inf if own.off[0] == 1 else reach(case.trial, i, j, True, False)
                low[i, j] = -far if both else 0.0

    @jit(inner=True)
    def say_spread(case, current):
        """Tell the rule how widely residuals of two arms vary, whatever a small batch shows.

        Of many arms, those of each and the best so far. Without end, which is to sum all rows,
        where no pilot has been: few rows may decide there, of which nothing is known. A chain does
        not go there, nor leave again, by some rows. But what lies there may lose by some: walks
        and slices look at many such arms in vain (at ten times the rows, were all of them read).
        """
        trial, floor, own, best = case.trial, case.params.rule.floor, case.trial.control, 0
        for j in range(len(own.left)):
            if own.left[j] > own.left[best]:
                best = j
        for row in range(len(floor)):
            i = row if len(floor) == len(own.left) else best
            for j in range(len(own.left)):
                floor[row, j] = 0.0
                if own.left[i] > -np.inf and own.left[j] > -np.inf and i != j:
                    if far(trial, i) or (j == current and far(trial, j)):
                        floor[row, j] = np.inf
                    elif own.off[0] == 0:
                        one = spread(trial, i, j)
                        floor[row, j] = one * one

    @jit(inner="always")
    def predict(case, current):
        """Return (an arm whose outliers are no number, or -1; the only arm left, or -1; risk)."""
        trial, offsets, own, tally = case.trial, case.offsets, case.trial.control, case.tally[0]
        possible = 0
        own.off[0] = 0
        for arm in range(len(offsets)):
            own.sums[arm], own.left[arm] = 0.0, offsets[arm]
            possible += 1 if offsets[arm] > -np.inf else 0
        if possible < 2:
            return -1, -1, 0
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            place(trial, arm)
            own.sums[arm] = first(trial, arm)
            if not abs(own.sums[arm]) < np.inf:
                if needs_range and not asks_range:  # the user's range is one of residuals
                    return arm, -1, 0
                own.off[0] = 1
            if not (needs_range or trusted(trial, arm)):
                own.off[0] = 1
        if 0 <= current < len(offsets) and offsets[current] > -np.inf:
            tally.distance += distance(trial, current)
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            if own.off[0] == 1:
                own.sums[arm] = 0.0
            offsets[arm] += own.sums[arm]
            own.left[arm] = offsets[arm]
        left, leader, risk = possible, -1, 0
        if early and own.off[0] == 0:
            left, leader, risk = rule_out(case, True)
        if left > 1:
            bad = be_exact(case)
            if bad >= 0:
                return bad, -1, 0
            left, leader, more = rule_out(case, False)
            risk = max(risk, more)
        if left == 1:
            return -1, leader, risk
        if asks_range:
            declare(case)
        if takes_floor:
            say_spread(case, current)
        return -1, -1, risk

    return predict
