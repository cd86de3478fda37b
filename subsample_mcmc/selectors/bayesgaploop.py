"""The compiled loop of BayesGap as a selector: pull, pool, learn, and name an arm that is possible.

Without mini-batches a pull is the exact total of an arm. With them it is a few more rows of its
distances from one reference arm; all rows of an arm so far are one observation, its mean. With n of
N rows, and a distance of variance s^2, the precision of the distance of totals is

    P(n) = n / (N^2 s^2 (1 - n / N)),

so that a visit teaches P(new) - P(old), of the value that makes the new mean of the old one.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.bayesgap import GapNumbers, choose_arm
from subsample_mcmc.bandits.gaussian import Belief, weigh
from subsample_mcmc.draws import WEYL, Rows, hashed, put_back, take
from subsample_mcmc.jit import jit
from subsample_mcmc.rules.race import ALL_IMPOSSIBLE, ALONE, EXHAUSTED, NOT_FINITE, RACED, Choice
from subsample_mcmc.selectors.selector import Sources, failed, not_a_sum

EXACT = 1e-12  # share of an arm's variance that is left when its total is known
ANEW = 2.0  # a variance that changed by this factor is told to all arms again
ROUNDING = 1e-14  # of the rewards: distances that vary by less do not vary


class Params(NamedTuple):
    """Run-time numbers; batch: rows of a pull, 0 for all of them."""

    size: int
    batch: int
    gap: GapNumbers


class Scratch(NamedTuple):
    """Each arm draws rows of its own; the belief's pulls, means and squares are of distances."""

    rows: Rows
    belief: Belief
    values: np.ndarray  # rewards of an arm and of the reference
    known: np.ndarray  # (K,) totals, or distances from the reference, of arms read to the end; nan
    told: np.ndarray  # (K, 2) precision that the belief has of each arm, and times its value
    pool: np.ndarray  # squares, their degrees of freedom, variance last told to all, prior variance
    place: np.ndarray  # the reference


@jit(inner=True)
def believe_prior(params, scratch):
    """Nothing is known; of distances from the reference, where these are pulled."""
    prior, state, best = params.gap.prior, scratch.belief, scratch.place[0]
    paired = 1.0 if params.batch else 0.0
    for k in range(len(state.offsets)):
        scratch.known[k] = np.nan
        scratch.told[k, 0] = scratch.told[k, 1] = 0.0
        state.centre[k] = prior.mean[k] - paired * prior.mean[best]
        variance = 0.0
        for j in range(prior.root.shape[1]):
            state.root[k, j] = prior.root[k, j] - paired * prior.root[best, j]
            variance += state.root[k, j] * state.root[k, j]
        state.sd[k] = np.sqrt(variance) if params.batch else prior.sd[k]
        scratch.pool[3] = max(scratch.pool[3], variance)
    if params.batch:
        scratch.known[best] = 0.0


@jit(inner=True)
def begin_anew(params, scratch):
    """No rows read, and the likeliest of the possible arms as the reference."""
    prior, state, now = params.gap.prior, scratch.belief, scratch.belief.now[0]
    now.total = now.ended = now.count = now.second = 0
    best = 0
    scratch.pool[:] = 0.0
    for k in range(len(state.offsets)):
        if state.offsets[k] + prior.mean[k] > state.offsets[best] + prior.mean[best]:
            best = k
        state.pulls[k] = 0
        state.means[k] = state.squares[k] = 0.0
    scratch.place[0] = best
    believe_prior(params, scratch)


@jit(inner=True)
def value_of(scratch, arm):
    """What is believed of an arm's score, or known."""
    state, known = scratch.belief, scratch.known[arm]
    return state.offsets[arm] + (state.centre[arm] if np.isnan(known) else known)


@jit(inner=True)
def most_likely(scratch):
    """The possible arm with the highest score; -1: all are impossible."""
    state, best = scratch.belief, -1
    for k in range(len(state.offsets)):
        if state.offsets[k] > -np.inf and (
            best < 0 or value_of(scratch, k) > value_of(scratch, best)
        ):
            best = k
    return best


@jit(inner=True)
def possible(state):
    """How many arms are not known to be impossible."""
    count = 0
    for k in range(len(state.offsets)):
        count += 1 if state.offsets[k] > -np.inf else 0
    return count


@jit(inner=True)
def never_read(params, scratch):
    """How many possible arms were not read to the end.

    Where some arm was, the reference was, too; else its distance from itself is all that is known.
    """
    count, read = 0, 0
    for k in range(len(scratch.known)):
        if scratch.belief.offsets[k] > -np.inf:
            count += 1
            read += 0 if np.isnan(scratch.known[k]) else 1
    return count - (0 if params.batch and read == 1 else read)


@jit(inner=True)
def pooled_variance(params, pool):
    """Of one distance, by those of all arms.

    Rows that differ much may be rare, and none be among those that were read. What the prior
    expects may sit in a single row: that counts as one more row.
    """
    return max(pool[0] / pool[1], pool[3] / (params.size * (pool[1] + 1.0)))


@jit(inner=True)
def variance_of(params, scratch, arm):
    """Of one distance: the arm's own or that of all arms, whichever is more."""
    own = scratch.belief.squares[arm] / max(scratch.belief.pulls[arm] - 1, 1)
    return max(pooled_variance(params, scratch.pool), own)


@jit(inner=True)
def tell(params, scratch, arm):
    """Let the belief know of an arm what its rows say by now, no more and no less.

    False where it was told so much too much that it must begin with the prior: taking nearly all
    of a precision back leaves nothing but rounding.
    """
    state, told, n = scratch.belief, scratch.told, scratch.belief.pulls[arm]
    value = state.means[arm] * params.size
    if n == params.size:
        if np.isnan(scratch.known[arm]):
            scratch.known[arm] = value
            precision = 1.0 / (EXACT * max(state.sd[arm] ** 2, 1e-300))
            weigh(state, arm, precision, precision * (value - state.centre[arm]))
    elif n > 0:
        noise = variance_of(params, scratch, arm) * params.size * (params.size - n)
        more = n / noise - told[arm, 0]
        if more < -0.5 * told[arm, 0]:
            return False
        weigh(state, arm, more, n / noise * value - told[arm, 1] - more * state.centre[arm])
        told[arm, 0], told[arm, 1] = n / noise, n / noise * value
    return True


@jit(inner=True)
def pool_batch(params, scratch, arm, m):
    """Add m distances to those of an arm, and to the squares of all."""
    state, pool, values = scratch.belief, scratch.pool, scratch.values
    before, squares = state.squares[arm], state.squares[arm]
    n, mean = state.pulls[arm], state.means[arm]
    for i in range(m):
        apart = values[0, i] - values[1, i]
        step = apart - mean
        n += 1
        if abs(step) > ROUNDING * (abs(values[0, i]) + abs(values[1, i])):
            mean += step / n
            squares += step * (apart - mean)
    pool[1] += m - 1 if state.pulls[arm] == 0 else m
    state.pulls[arm], state.means[arm], state.squares[arm] = n, mean, squares
    pool[0] += squares - before


@jit(inner=True)
def learn_batch(params, scratch, arm, m):
    """What m distances teach about an arm, and about the noise of all."""
    state, pool = scratch.belief, scratch.pool
    pool_batch(params, scratch, arm, m)
    level = pooled_variance(params, pool)
    if level > ANEW * pool[2] or level < pool[2] / ANEW or not tell(params, scratch, arm):
        pool[2] = level
        believe_prior(params, scratch)
        for k in range(len(state.pulls)):
            tell(params, scratch, k)


_made: dict[Sources, Any] = {}


def gap_choice(sources: Sources) -> Any:
    """choose() for one reward; memoised so that equal rewards share machine code."""
    if sources in _made:
        return _made[sources]
    rewards, total = sources.rewards, sources.total

    @jit(inner=True)
    def sum_up(context, params, scratch, arm):
        """The exact total of an arm; what it is worth, if totals are what is believed."""
        state, value = scratch.belief, total(context, arm, params.size)
        if value == -np.inf:
            state.offsets[arm] = -np.inf
        elif params.batch == 0 and value < np.inf:
            scratch.known[arm] = value
            precision = 1.0 / (EXACT * max(state.sd[arm] ** 2, 1e-300))
            weigh(state, arm, precision, precision * (value - state.centre[arm]))
        return value

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
                begin_anew(params, scratch)
        elif own > -np.inf:
            learn_batch(params, scratch, arm, m)
        return -1

    @jit(inner=True)
    def contest(rng, context, params, scratch, alive):
        state, spent, rounds = scratch.belief, 0, 0
        begin_anew(params, scratch)
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
                return Choice(best, spent, rounds, ended, left, -1, -1)
            spent += params.size
            value = sum_up(context, params, scratch, best)
            if not_a_sum(value):
                return failed(NOT_FINITE, best, -1, spent, rounds)
            if params.batch and value > -np.inf:  # possible; how far from the rest is not known
                left = left if possible(state) > 1 else 0
                return Choice(best, spent, rounds, ended, left, -1, -1)

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        alive, last = 0, 0
        for arm in range(len(offsets)):
            scratch.belief.offsets[arm] = offsets[arm]
            if offsets[arm] > -np.inf:
                alive, last = alive + 1, arm
        if alive == 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, 0, 0)
        if alive == 1:
            return Choice(last, 0, 0, ALONE, 0, -1, -1)
        choice = contest(rng, context, params, scratch, alive)
        put_back(scratch.rows)
        return choice

    _made[sources] = choose
    return choose
