"""The draw of a mention's cluster: raced, exact, or from known sums; now and then audited."""

from typing import Any

import numpy as np

from subsample_mcmc.decisions.rules.rule import ALONE, EXACT, EXHAUSTED, RACED
from subsample_mcmc.kernels.decision import PREDICTED, count_audit, count_decision, count_end
from subsample_mcmc.kernels.partition.cluster_race import (
    boundary,
    drop,
    enter_all,
    enter_likely,
    estimate,
    gumbel_at,
    leader_of,
    next_target,
    uniform,
)
from subsample_mcmc.kernels.partition.cluster_sums import pair_score
from subsample_mcmc.kernels.partition.members import bring_forward, empty_label
from subsample_mcmc.kernels.partition.pair_scores import LARGEST
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import WEYL


@memoised
def readers(fill: Any, controlled: bool) -> tuple[Any, Any]:
    """read(...) some members more of a cluster, and total(...) of a cluster, compiled."""

    @jit(inner="always")
    def score_members(contest, data, b, i, y, lo, hi):
        """contest.values: scores of members lo .. hi - 1; False if one is no number."""
        m, at = contest.members, contest.members.start[b]
        rows = m.pool[m.first[y] + lo : m.first[y] + hi]
        out = contest.values[at : at + hi - lo]
        fill(data, i, rows, out)
        for k in range(hi - lo):
            if not abs(out[k]) < LARGEST:
                m.now[b].bad, m.now[b].i, m.now[b].j = 1, i, rows[k]
        return m.now[b].bad == 0

    @jit(inner="always")
    def read(contest, data, b, i, y, target):
        m, arm, at = contest.members, contest.arms[y], contest.members.start[b]
        lo = arm.drawn
        if target < m.size[y]:
            bring_forward(m, contest.rows[b : b + 1], y, lo, target)
        if not score_members(contest, data, b, i, y, lo, target):
            return False
        for k in range(target - lo):
            value = contest.values[at + k]
            if controlled:
                value -= pair_score(contest.sums, i, m.pool[m.first[y] + lo + k])
            if lo + k == 0:
                arm.shift = value
            d = value - arm.shift
            arm.total += value
            arm.first += d
            arm.second += d * d
        arm.drawn = target
        return True

    @jit(inner="always")
    def total(contest, data, b, i, y):
        at, value = contest.members.start[b], 0.0
        if score_members(contest, data, b, i, y, 0, contest.members.size[y]):
            for k in range(contest.members.size[y]):
                value += contest.values[at + k]
        return value

    return read, total


@jit(inner="always")
def choose_known(contest, data, b, i, heat, audit):
    """Where the control variate is the score: every sum is known, and no pair is read."""
    m, tally = contest.members, contest.tally[b]
    if m.now[b].clusters == 0:
        count_decision(tally, 0)
        count_end(tally, ALONE)
        return empty_label(m, b)
    count_decision(tally, m.start[b + 1] - m.start[b] - 1)
    count_end(tally, PREDICTED)
    count = enter_all(contest, b, heat, True, i)
    return leader_of(contest, m.start[b], count)


@memoised
def chooser(fill: Any, controlled: bool, racing: bool) -> Any:
    """choose(contest, data, b, i, heat, audit) -> label for a mention in no cluster; -1: bad."""
    if fill is None:
        return choose_known
    controlled = controlled and racing
    read, total = readers(fill, controlled)

    @jit(inner="always")
    def audited(contest, data, b, i, heat, chosen):
        """Decide again, exactly, under the same noise; False if a score is no number."""
        m, lo, tally = contest.members, contest.members.start[b], contest.tally[b]
        count = m.now[b].clusters + 1
        bits = contest.noises[b] - np.uint64(count) * WEYL  # where this decision's noise begins
        first, runner, own = -np.inf, -np.inf, -np.inf
        for k in range(count):
            y = m.alive[lo + k]
            value = contest.numbers.new
            if k < count - 1:
                value = total(contest, data, b, i, y)
            value += heat * gumbel_at(bits, k)
            own = value if y == chosen else own
            runner = max(runner, min(first, value))
            first = max(first, value)
        # The same numbers added in another order: within rounding of the best is the best.
        wrong = first - own > 1e-9 * (1.0 + abs(first))
        count_audit(tally, wrong, first - own, first - runner if runner > -np.inf else 0.0)
        return m.now[b].bad == 0

    @jit(inner="always")
    def race_on(contest, data, b, i, count):
        """Look after look, until one cluster is left or all are read."""
        m, arms, tally, numbers = contest.members, contest.arms, contest.tally[b], contest.numbers
        lo, largest, early, before = m.start[b], 0, 0, count
        for k in range(lo, lo + count):
            largest = max(largest, m.size[contest.racing[k]])
        bound = boundary(numbers, largest, count - 1)
        while True:
            unread = 0
            for k in range(lo, lo + count):
                y = contest.racing[k]
                size, drawn = m.size[y], arms[y].drawn
                if drawn < size:
                    target = next_target(numbers, size, drawn) if racing else size
                    if not read(contest, data, b, i, y, target):
                        return -1
                    tally.pulls += target - drawn
                    estimate(contest, y)
                    unread += size - target
                elif size == 0:
                    arms[y].variance = 0.0
            tally.rounds += 1
            left = drop(contest, lo, count, bound)
            early = 1 if unread > 0 and left < count else early
            count = left
            if unread == 0 or count == 1:
                break
        tally.early += early if before == m.now[b].clusters + 1 else 0
        if not racing:
            count_end(tally, EXACT)
        else:
            count_end(tally, RACED if unread > 0 else EXHAUSTED)
        return leader_of(contest, lo, count)

    @jit(inner="always")
    def choose(contest, data, b, i, heat, audit):
        m, tally = contest.members, contest.tally[b]
        if m.now[b].clusters == 0:
            count_decision(tally, 0)
            count_end(tally, ALONE)
            return empty_label(m, b)
        count_decision(tally, m.start[b + 1] - m.start[b] - 1)
        lo = m.start[b]
        if controlled:
            count = enter_likely(contest, b, heat, i)
        else:
            count = enter_all(contest, b, heat, False, i)
        tally.early += 1 if count <= m.now[b].clusters else 0
        if count == 1:
            count_end(tally, PREDICTED)
            chosen = contest.racing[lo]
        else:
            chosen = race_on(contest, data, b, i, count)
            if chosen < 0:
                return -1
        if audit > 0.0 and uniform(contest.audits[b : b + 1]) < audit:
            if not audited(contest, data, b, i, heat, chosen):
                return -1
        return chosen

    return choose
