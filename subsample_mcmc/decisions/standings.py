"""Who is in the race and who leads: entering, leaving, ranking, and the moments behind it."""

from math import sqrt

import numpy as np

from subsample_mcmc.decisions.rules.rule import BUFFER, NOT_FINITE, add_moments, skewness, variance
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.numerics.jit import FLAGS, jit


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
            race.arms[race.alive[k]].latest = sqrt(variance(race, race.alive[k]))
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
