"""The compiled loop of BayesGap as a selector: pull, learn, and name an arm that is possible."""

from typing import Any

import numpy as np

from subsample_mcmc.bandits.selectors.bayesgap_belief import (
    EXACT,
    begin_anew,
    learn_batch,
    most_likely,
    never_read,
    possible,
)
from subsample_mcmc.bandits.strategies.bayesgap import choose_arm
from subsample_mcmc.bandits.strategies.gaussian import weigh
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    EXHAUSTED,
    NOT_FINITE,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum, possible_arms
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import WEYL, hashed, put_back, take
from subsample_mcmc.target.rewards import Sources


@memoised
def gap_choice(sources: Sources) -> Any:
    """choose() for one reward."""
    rewards, total = sources.rewards, sources.total

    @jit(inner=True)
    def sum_up(context, params, scratch, arm):
        """The exact total of an arm; without mini-batches, what it teaches."""
        state, value = scratch.belief, total(context, arm, params.size)
        if value == -np.inf:
            state.offsets[arm] = -np.inf
        elif params.batch == 0 and value < np.inf:
            scratch.known[arm] = value - scratch.level[0]
            precision = 1.0 / (EXACT * max(state.sd[arm] ** 2, 1e-300))
            surprise = scratch.known[arm] - state.centre[arm]
            weigh(state, arm, precision, precision * surprise)
        return value

    @jit(inner=True)
    def sum_reference(rng, context, params, scratch):
        """(how many arms were summed until one was possible, -1 or the one to blame)."""
        count = 0
        while possible(scratch.belief) > 0:
            count += 1
            begin_anew(params, scratch, rng)
            at = scratch.place[0]
            scratch.level[0] = total(context, at, params.size)
            if not_a_sum(scratch.level[0]):
                return count, at
            if scratch.level[0] > -np.inf:
                break
            scratch.belief.offsets[at] = -np.inf
        return count, -1

    @jit(inner=True)
    def read(rng, context, params, scratch, arm, m):
        """m more distances of an arm from the reference; which of the two is no number, or -1."""
        rows, values, offsets = scratch.rows, scratch.values, scratch.belief.offsets
        reference, own, other = scratch.place[0], 0.0, 0.0
        at = take(rows, rng, arm, m)
        rewards(context, arm, rows.kept[at : at + m], values[0, :m])
        rewards(context, reference, rows.kept[at : at + m], values[1, :m])
        for i in range(m):
            own += values[0, i]
            other += values[1, i]
        if not_a_sum(own) or not_a_sum(other):
            return arm if not_a_sum(own) else reference
        if own == -np.inf:
            offsets[arm] = -np.inf
        if other == -np.inf:  # nothing was learnt but distances from what is no place
            offsets[reference] = -np.inf
            put_back(rows)
            if possible(scratch.belief) > 0:
                begin_anew(params, scratch, rng)
        elif own > -np.inf:
            learn_batch(params, scratch, arm, m)
        return -1

    @jit(inner=True)
    def contest(rng, context, params, scratch, alive):
        state, rounds, bad = scratch.belief, 0, -1
        if params.batch:
            begin_anew(params, scratch, rng)
        else:
            rounds, bad = sum_reference(rng, context, params, scratch)
        spent = rounds * params.size
        if bad >= 0:
            return failed(NOT_FINITE, bad, -1, spent, rounds)
        while possible(state) > 0:
            rng[0] += WEYL
            salt = np.int64(hashed(rng[0]) >> np.uint64(33))
            arm, regret = choose_arm(params.gap, state, salt)
            m = min(params.batch, params.size - scratch.rows.part[arm].drawn) if params.batch else 0
            cost = 2 * m if params.batch else params.size
            decided = regret <= params.gap.epsilon or not np.isnan(scratch.known[arm])
            if decided or spent + cost > params.gap.budget:
                break
            spent += cost
            rounds += 1
            state.now[0].total += 1
            bad = -1
            if params.batch:
                bad = read(rng, context, params, scratch, arm, m)
            elif not_a_sum(sum_up(context, params, scratch, arm)):
                bad = arm
            if bad >= 0:
                return failed(NOT_FINITE, bad, -1, spent, rounds)
        # Where one arm was impossible, its likes may be: the one that is named must not be.
        while True:
            best, left = most_likely(scratch), never_read(params, scratch)
            if best < 0:
                return failed(ALL_IMPOSSIBLE, -1, -1, spent, rounds)
            read_all = not np.isnan(scratch.known[best]) and (
                params.batch == 0 or best != scratch.place[0] or left < possible(state)
            )
            ended = RACED if left > 0 else EXHAUSTED
            if alive == possible(state) or read_all:
                return Outcome(best, spent, rounds, ended, left, -1, -1)
            spent += params.size
            value = sum_up(context, params, scratch, best)
            if not_a_sum(value):
                return failed(NOT_FINITE, best, -1, spent, rounds)
            if params.batch and value > -np.inf:  # possible; how far from the rest is not known
                left = left if possible(state) > 1 else 0
                return Outcome(best, spent, rounds, ended, left, -1, -1)

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        for arm in range(len(offsets)):
            scratch.belief.offsets[arm] = offsets[arm]
        alive, last = possible_arms(offsets)
        if alive == 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, 0, 0)
        if alive == 1:
            return Outcome(last, 0, 0, ALONE, 0, -1, -1)
        choice = contest(rng, context, params, scratch, alive)
        put_back(scratch.rows)
        return choice

    return choose
