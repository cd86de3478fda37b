"""The compiled race: read a mini-batch for every living arm, rank, drop, retreat.

Chen & Ghahramani (2016), Algorithm 1, with three additions: the retreat, which finishes by
streaming the survivors when racing on would cost more; arms with rows of their own; and rewards
of -inf, which drop their arm with certainty.
"""

from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    BUFFER,
    EXACT,
    EXHAUSTED,
    NOT_FINITE,
    OUT_OF_SPREAD,
    RACED,
    RETREATED,
    Outcome,
    Race,
    RuleFunctions,
    add_moments,
    skewness,
    variance_as_seen,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, Rows, put_back, take
from subsample_mcmc.target.rewards import Sources


class RaceParams(NamedTuple):
    """Run-time numbers of a race."""

    batch: int
    growth: float
    anytime: int
    shared: int
    paired: int
    ranged: int
    gather_cost: float  # 0: never retreat
    patience: float
    rule: Any


class RaceScratch(NamedTuple):
    """Arrays of a race."""

    race: Race
    rows: Rows
    memory: Any


@jit(inner="always")
def next_look(race, params, target):
    """Rows an arm should have read at the next look."""
    if target == 0:
        return params.batch
    if params.anytime:
        return target + max(params.batch, target >> 4)
    if params.growth == 1.0:
        return target + params.batch
    return max(target + 1, int(ceil(target * params.growth)))


@jit(inner="always")
def should_retreat(race, params, spent, target, exact_cost):
    """Is streaming the survivors now better than racing to the next look.

    Two reasons: the rows read would have paid for the stream (rent or buy), or the worst case,
    in which the race still ends by streaming every arm now alive, would cost too much.
    """
    if params.gather_cost == 0.0:
        return False
    ahead, finish, largest = 0.0, 0.0, 0
    for k in range(race.now[0].alive):
        arm = race.alive[k]
        ahead += max(min(target, race.arms[arm].rows) - race.arms[arm].drawn, 0)
        finish += race.arms[arm].rows if race.arms[arm].drawn < race.arms[arm].rows else 0
        largest = max(largest, race.arms[arm].rows)
    if params.gather_cost * min(target, largest) > largest:
        return True
    worst = params.gather_cost * (spent + ahead) + finish
    return worst > (1.0 + params.patience) * exact_cost


# ------------------------------------------------------------------------------------ standings
@jit(inner=True)
def enter(race):
    """Put every arm with a finite offset at the start, nothing read; return how many."""
    now = race.now[0]
    now.alive, now.leader, now.runner = 0, -1, -1
    now.dropped = now.code = 0
    for arm in range(len(race.arms)):
        own = race.arms[arm]
        own.drawn, own.total = 0, 0.0
        own.seen = own.first = own.second = own.third = 0.0
        if own.offset > -np.inf:
            race.alive[now.alive] = arm
            now.alive += 1
    return now.alive


@jit(inner="always")
def remove(race, k):
    """Take the k-th living arm out, keeping the order of the others."""
    for i in range(k, race.now[0].alive - 1):
        race.alive[i] = race.alive[i + 1]
    race.now[0].alive -= 1


@jit(flags=FLAGS, inner=True)
def add_up(values, arm, lo, hi):
    """Sum of one arm's rewards in columns lo:hi."""
    value = 0.0
    for c in range(np.uint64(lo), np.uint64(hi)):
        value += values[arm, c]
    return value


@jit(inner=True)
def find_bad(race, arm, rows, lo, hi):
    """Record the first nan or +inf among columns lo:hi."""
    race.now[0].code, race.now[0].bad_arm, race.now[0].bad_row = NOT_FINITE, arm, -1
    for c in range(lo, hi):
        if not_a_sum(race.values[arm, c]):
            race.now[0].bad_row = rows[c - lo]
            return


@jit(inner=True)
def change_leader(race, old, new):
    """Moments of new - arm, from rows in the buffer; beyond it, from those of old - arm.

    The deviation of new - arm over all rows is at most the sum of those of old - new and old -
    arm (the triangle inequality), and equal to it for the old leader itself. A race that believes
    it reads on a little longer; one that believed the buffer's rows alone would err on heavy tails.
    """
    late = old >= 0 and race.arms[new].drawn > BUFFER
    if late:
        for k in range(race.now[0].alive):
            race.arms[race.alive[k]].latest = sqrt(variance_as_seen(race, race.alive[k]))
    between = race.arms[new].latest
    for k in range(race.now[0].alive):
        arm = race.alive[k]
        own = race.arms[arm]
        own.seen = own.first = own.second = own.third = 0.0
        add_moments(race, new, arm, 0, min(own.drawn, BUFFER))
        if late and arm != new:
            skew, rows = skewness(race, arm), float(own.drawn)
            mean = (race.arms[new].total - own.total) / rows - own.shift
            deviation = between + own.latest
            square = deviation * deviation
            own.seen, own.first = rows, rows * mean
            own.second = rows * (square + mean * mean)
            own.third = rows * (
                skew * square * deviation + 3.0 * mean * square + mean * mean * mean
            )


@jit(inner="always")
def rank(race, paired):
    """Score the living arms, find the leader, and refresh the moments if it is a new one."""
    old, best = race.now[0].leader, -1
    for k in range(race.now[0].alive):
        arm = race.alive[k]
        own = race.arms[arm]
        own.score = own.offset + (own.total * (own.rows / own.drawn) if own.drawn > 0 else 0.0)
        if best < 0 or own.score > race.arms[best].score:
            best = arm
    race.now[0].leader = best
    if paired and best != old:
        change_leader(race, old, best)


@jit(inner="always")
def find_runner(race):
    """The second best of the living: the leader's rival, chosen once the hopeless are dropped."""
    best = -1
    for k in range(race.now[0].alive):
        arm = race.alive[k]
        if arm != race.now[0].leader and (best < 0 or race.arms[arm].score > race.arms[best].score):
            best = arm
    race.now[0].runner = best


# ------------------------------------------------------------------------------------ the race
@memoised
def race_choice(sources: Sources, functions: RuleFunctions) -> Any:
    """choose() for one reward and one rule."""
    rewards, total, prefetch = sources
    drop, observe, start, sure = functions

    @jit(inner=True)
    def count(params, scratch, arm, kept, lo, hi):
        """Let the rule observe an arm's new columns, then add them to what is known."""
        race = scratch.race
        if race.arms[arm].latest > -np.inf:
            observe(race, params.rule, scratch.memory, arm, kept, lo, hi)
            if not params.paired:
                add_moments(race, -1, arm, lo, hi)
            elif race.now[0].leader >= 0:
                add_moments(race, race.now[0].leader, arm, lo, hi)

    @jit(inner=True)
    def bury(race, params, memory, kept, lo, hi):
        """Drop, with certainty, every arm whose new rewards contain -inf.

        Arms dropped before may have been dropped in its favour. So nobody is left in the race,
        which then sums every arm; or, where a range was declared, the range was wrong.
        """
        now, before = race.now[0], race.now[0].alive
        for k in range(before - 1, -1, -1):
            arm = race.alive[k]
            if race.arms[arm].latest > -np.inf:
                continue
            remove(race, k)
            # Games played against an arm that is now out of the range count for nothing.
            start(race, params.rule, memory)
            now.leader = now.runner = -1
            if now.dropped > 0 and params.ranged:
                now.code, now.bad_arm, now.bad_row = OUT_OF_SPREAD, arm, -1
                for c in range(lo, hi):
                    if race.values[arm, c] == -np.inf:
                        now.bad_row = kept[c - lo]
        if now.alive < before and now.dropped > 0:
            now.alive = 0

    @jit(inner="always")
    def read(rng, context, params, scratch, target):
        """Read at most CHUNK more rows of every arm that is short of `target`; return pulls."""
        race, rows = scratch.race, scratch.rows
        pulls, lo, hi, at, m = 0, 0, 0, 0, 0
        for k in range(race.now[0].alive):
            arm = race.alive[k]
            short = min(target, race.arms[arm].rows) - race.arms[arm].drawn
            if pulls == 0 or not params.shared:
                lo = min(race.arms[arm].drawn, BUFFER)
                # A chunk that does not end in the buffer would leave columns of it unwritten.
                m = min(short, CHUNK, BUFFER - lo if lo < BUFFER else CHUNK)
                if m <= 0:
                    continue
                at = take(rows, rng, 0 if params.shared else arm, m)
                hi = lo + m
            if pulls == 0:
                race.now[0].prefetched = prefetch(context, rows.kept[at : at + m])
            rewards(context, arm, rows.kept[at : at + m], race.values[arm, lo:hi])
            race.arms[arm].latest = add_up(race.values, arm, lo, hi)
            pulls += m
            if not_a_sum(race.arms[arm].latest):
                find_bad(race, arm, rows.kept[at : at + m], lo, hi)
                return pulls
            if not params.shared:
                count(params, scratch, arm, rows.kept[at : at + m], lo, hi)
                race.arms[arm].total += race.arms[arm].latest
                race.arms[arm].drawn += m
        if params.shared and pulls > 0:
            bury(race, params, scratch.memory, rows.kept[at : at + m], lo, hi)
            for k in range(race.now[0].alive):
                count(params, scratch, race.alive[k], rows.kept[at : at + m], lo, hi)
            # Only now: what an arm's rule knows of its rivals must be the past, too.
            for k in range(race.now[0].alive):
                race.arms[race.alive[k]].total += race.arms[race.alive[k]].latest
                race.arms[race.alive[k]].drawn += m
        elif pulls > 0:
            bury(race, params, scratch.memory, rows.kept[at : at + m], lo, lo)
        return pulls

    @jit(inner=True)
    def stream(context, params, race, pulls, rounds, ended):
        """Finish exactly: totals of the living arms, from sums where all rows were read.

        If one of them proves impossible, what was dropped in its favour was dropped in error:
        then every arm is summed, or, where a range was declared, the range was wrong.
        """
        while True:
            best, highest, dead = -1, -np.inf, -1
            for k in range(race.now[0].alive):
                arm = race.alive[k]
                value = race.arms[arm].total
                if race.arms[arm].drawn < race.arms[arm].rows:
                    value = total(context, arm, race.arms[arm].rows)
                    pulls += race.arms[arm].rows
                if not_a_sum(value):
                    for j in range(k + 1, race.now[0].alive):  # one pass for all, of rows elsewhere
                        other = race.alive[j]
                        if race.arms[other].drawn < race.arms[other].rows:
                            total(context, other, race.arms[other].rows)
                    return failed(NOT_FINITE, arm, -1, pulls, rounds)
                if value == -np.inf:
                    dead = arm
                if race.arms[arm].offset + value > highest:
                    best, highest = arm, race.arms[arm].offset + value
            if dead < 0 or race.now[0].dropped == 0:
                break
            if params.ranged:
                return failed(OUT_OF_SPREAD, dead, -1, pulls, rounds)
            enter(race)
        if best < 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, pulls, rounds)
        return Outcome(best, pulls, rounds, ended, race.now[0].dropped, -1, -1)

    @jit(inner=True)
    def rule_out(race, params, memory, careful):
        """Drop what the rule allows; careful: only where an error would be cheap or impossible."""
        before = race.now[0].alive
        for k in range(before - 1, -1, -1):
            arm = race.alive[k]
            if arm == race.now[0].leader or not drop(race, params.rule, memory, arm):
                continue
            if not careful or sure(race, params.rule, memory, arm):
                remove(race, k)
                race.now[0].dropped += 1
        return before - race.now[0].alive

    @jit(inner=True)
    def race_on(rng, context, params, scratch, exact_cost, most):
        """Look, drop, and read on, until one arm is left, all rows are read, or it is too dear."""
        race = scratch.race
        pulls, rounds, target = 0, 0, 0
        while True:
            target = next_look(race, params, target)
            if should_retreat(race, params, pulls, target, exact_cost):
                if rounds > 0 and rule_out(race, params, scratch.memory, False) > 0:
                    if race.now[0].alive == 1:
                        return Outcome(
                            race.alive[0], pulls, rounds, RACED, race.now[0].dropped, -1, -1
                        )
                    find_runner(race)
            if should_retreat(race, params, pulls, target, exact_cost):
                return stream(
                    context, params, race, pulls, rounds + 1, RETREATED if rounds else EXACT
                )
            more = 1
            while more > 0:
                more = read(rng, context, params, scratch, target)
                pulls += more
                if race.now[0].code != 0:
                    return failed(
                        race.now[0].code, race.now[0].bad_arm, race.now[0].bad_row, pulls, rounds
                    )
            rounds += 1
            if race.now[0].alive == 0:  # -inf left nobody who is surely the best: sum all arms
                enter(race)
                return stream(context, params, race, pulls, rounds, RETREATED)
            if target >= most:
                return stream(context, params, race, pulls, rounds, EXHAUSTED)
            rank(race, params.paired)
            rule_out(race, params, scratch.memory, True)
            if race.now[0].alive == 1:
                return Outcome(race.alive[0], pulls, rounds, RACED, race.now[0].dropped, -1, -1)
            find_runner(race)

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        race = scratch.race
        for arm in range(len(offsets)):
            race.arms[arm].offset = offsets[arm]
        alive = enter(race)
        if alive == 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, 0, 0)
        if alive == 1:
            return Outcome(race.alive[0], 0, 0, ALONE, 0, -1, -1)
        exact_cost, largest = 0.0, 0
        for k in range(alive):
            exact_cost += race.arms[race.alive[k]].rows
            largest = max(largest, race.arms[race.alive[k]].rows)
        if largest < 2 * params.batch:
            return stream(context, params, race, 0, 1, EXACT)
        start(race, params.rule, scratch.memory)
        choice = race_on(rng, context, params, scratch, exact_cost, largest)
        put_back(scratch.rows)
        return choice

    return choose
