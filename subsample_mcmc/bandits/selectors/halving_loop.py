"""One decision by sequential halving: the loop over stages. See halving.py."""

from typing import Any

import numpy as np

from subsample_mcmc.bandits.heap import put
from subsample_mcmc.bandits.selectors.halving_stage import (
    StagePlan,
    bury,
    enter,
    grade,
    keep_best,
    keep_half,
    plan_of,
    rows_of,
    rows_read,
    stages_of,
    wanted,
    weigh_all,
    worth_of,
)
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    EXACT,
    EXHAUSTED,
    NOT_FINITE,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, put_back, take
from subsample_mcmc.target.rewards import Sources


@jit(inner=True)
def stage_budget(size, budget, alive, stages):
    """What each stage may spend: the same, and as much as arms have rows for.

    Stages late enough have read all rows: what they cannot spend, earlier ones may.
    """
    low, high = 0.0, float(budget)
    for _ in range(50):
        each, total, rows, left = 0.5 * (low + high), 0.0, 0.0, alive
        for _ in range(stages):
            more = min(each / left, size - rows)
            rows += more
            total += more * left
            left = (left + 1) // 2
        if total > budget:
            high = each
        else:
            low = each
    return low


@memoised
def halving_choice(sources: Sources) -> Any:
    """choose() for one reward."""
    rewards, total, prefetch = sources

    @jit(inner=True)
    def read(rng, context, params, scratch, plan, arm):
        """One more batch of an arm; False if a reward cannot be added."""
        c = scratch.read[arm]
        first, end = rows_read(params, plan, c), rows_read(params, plan, c + 1)
        value = 0.0
        while first < end:
            m = min(end - first, CHUNK)
            if first + m > scratch.rows.part[0].drawn:
                at = take(scratch.rows, rng, 0, m)
                for i in range(m):
                    scratch.order[first + i] = scratch.rows.kept[at + i]
                scratch.prefetched[0] = prefetch(context, scratch.order[first : first + m])
            rewards(context, arm, scratch.order[first : first + m], scratch.values[:m])
            for i in range(m):
                value += scratch.values[i]
            first += m
        scratch.sums[arm, c] = value
        scratch.read[arm] = c + 1
        scratch.died[0] |= value == -np.inf
        return not not_a_sum(value)

    @jit(inner=True)
    def exact(context, offsets, params, scratch, left):
        """The living arm with the highest sum of all rows, or -1; the arm to blame, or -1."""
        best, highest = -1, -np.inf
        for k in range(left):
            arm = scratch.alive[k]
            value = total(context, arm, params.size)
            if not_a_sum(value):
                return -1, arm
            if value == -np.inf:
                scratch.read[arm] = max(scratch.read[arm], 1)
                scratch.sums[arm, scratch.read[arm] - 1] = value
            if value + offsets[arm] > highest:
                best, highest = arm, value + offsets[arm]
        return best, -1

    @jit(inner=True)
    def equally(rng, context, params, scratch, plan, left, room):
        """A batch of all that have read least; (rewards read, 0 if too dear; the arm to blame)."""
        alive, lowest, cost = scratch.alive, plan.batches, 0
        for k in range(left):
            lowest = min(lowest, scratch.read[alive[k]])
        if lowest >= min(params.least, plan.batches):
            return 0, -1
        rows = rows_of(params, plan, lowest)
        for k in range(left):
            cost += rows if scratch.read[alive[k]] == lowest else 0
        if cost > room:
            return 0, -1
        for k in range(left):
            if scratch.read[alive[k]] == lowest:
                if not read(rng, context, params, scratch, plan, alive[k]):
                    return cost, alive[k]
        return cost, -1

    @jit(inner=True)
    def unequally(rng, context, params, scratch, plan, leader, room):
        """A batch of the arm that is known worst, and of the leader if it has not read it."""
        arm = wanted(scratch)
        if arm < 0:
            return 0, -1
        c = scratch.read[arm]
        behind = c == scratch.read[leader]
        cost = rows_of(params, plan, c) * (2 if behind else 1)
        if cost > room:
            return 0, -1
        if not read(rng, context, params, scratch, plan, arm):
            return cost, arm
        if behind and not read(rng, context, params, scratch, plan, leader):
            return cost, leader
        put(scratch.worth, arm, worth_of(params, scratch, plan, arm))
        return cost, -1

    @jit(inner=True)
    def contest(rng, context, offsets, params, scratch, plan, left, spent):
        """Stages until one arm is left.

        (it, or -1 if all are impossible; rewards read; stages; drops too early; whom to blame)
        """
        stages, early = stages_of(left), 0
        each = stage_budget(params.size, params.budget - spent, left, stages)
        goal, unread = spent + each, 0
        for k in range(left):
            unread += 1 if scratch.read[scratch.alive[k]] == 0 else 0
        if spent + unread * plan.batch > goal:  # something is read of every arm
            goal = float(spent + unread * plan.batch)
            each = max(params.budget - goal, 0.0) / max(stages - 1, 1)
        for stage in range(stages):
            until = params.budget
            if stage < stages - 1:
                until = min(np.int64(goal + each * stage), params.budget)
            leader = -1
            while left > 1:
                if leader < 0:
                    cost, bad = equally(rng, context, params, scratch, plan, left, until - spent)
                    if cost == 0:
                        if params.allocation == 0:
                            break
                        leader = grade(params, scratch, plan, offsets, left)
                        weigh_all(params, scratch, plan, left)
                        continue
                else:
                    room = until - spent
                    cost, bad = unequally(rng, context, params, scratch, plan, leader, room)
                    if cost == 0:
                        break
                spent += cost
                if bad >= 0:
                    return -1, spent, stage + 1, early, bad
                if scratch.died[0]:
                    left = bury(scratch, left)
                    if leader >= 0 and left > 0:
                        leader = grade(params, scratch, plan, offsets, left)
                        weigh_all(params, scratch, plan, left)
            if left <= 1:
                return scratch.alive[0] if left == 1 else -1, spent, stage + 1, early, -1
            grade(params, scratch, plan, offsets, left)
            early += keep_half(scratch, plan, left)
            left = (left + 1) // 2
        return scratch.alive[0], spent, stages, early, -1

    @jit(inner=True)
    def decide(rng, context, offsets, params, scratch, left):
        """A contest; and where all who were left met -inf, another of those dropped before."""
        spent, rounds, rows, plan = 0, 0, min(2, params.size), StagePlan(1, 1)
        while left > 0:
            room = params.budget - spent
            cut = max(left - max(room // rows, 1), 0)
            if cut:
                grade(params, scratch, plan, offsets, left)
                left = keep_best(scratch, left, left - cut)
            early, stages, ended = 0, 1, EXHAUSTED
            if room >= left * params.size:
                arm, bad = exact(context, offsets, params, scratch, left)
                ended = EXACT if spent == 0 else EXHAUSTED
                spent += left * params.size
            elif left == 1:
                arm, bad = scratch.alive[0], -1
            else:
                if rounds == 0:
                    plan = plan_of(params, left)
                    rows = min(plan.batch, params.size)
                arm, spent, stages, early, bad = contest(
                    rng, context, offsets, params, scratch, plan, left, spent
                )
            rounds += stages
            if bad >= 0:
                return failed(NOT_FINITE, bad, -1, spent, rounds)
            if arm >= 0:
                early += cut
                return Outcome(arm, spent, rounds, RACED if early else ended, early, -1, -1)
            left = enter(offsets, scratch, False)
        return failed(ALL_IMPOSSIBLE, -1, -1, spent, rounds)

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        left = enter(offsets, scratch, True)
        if left == 1:
            return Outcome(scratch.alive[0], 0, 0, ALONE, 0, -1, -1)
        choice = decide(rng, context, offsets, params, scratch, left)
        put_back(scratch.rows)
        return choice

    return choose
