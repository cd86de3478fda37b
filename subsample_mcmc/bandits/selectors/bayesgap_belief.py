"""What BayesGap as a selector believes of the arms of one decision, and how it learns.

The belief is about differences of totals from that of one reference arm: their common level does
not matter to the choice, and no prior knows it. Without mini-batches a pull is the exact total of
an arm, first of all of the reference. With them it is a few more rows of an arm and the reference;
all rows of an arm so far are one observation, their mean distance. With n of N rows, and a
distance of variance s^2, the precision of the distance of totals is

    P(n) = n / (N^2 s^2 (1 - n / N)),

so that a visit teaches P(new) - P(old), of the value that makes the new mean of the old one.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.bayesgap import BayesGapNumbers
from subsample_mcmc.bandits.strategies.gaussian import Belief, weigh
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import WEYL, Rows, hashed

EXACT = 1e-12  # share of an arm's variance that is left when its total is known
ANEW = 2.0  # a variance that changed by this factor is told to all arms again
ROUNDING = 1e-14  # of the rewards: distances that vary by less do not vary


class BayesGapParams(NamedTuple):
    """Run-time numbers; batch: rows of a pull, 0 for all of them."""

    size: int
    batch: int
    gap: BayesGapNumbers


class BayesGapScratch(NamedTuple):
    """Each arm draws rows of its own; the belief's pulls, means and squares are of distances."""

    rows: Rows
    belief: Belief
    values: np.ndarray  # rewards of an arm and of the reference
    known: np.ndarray  # (K,) distances of arms that were read to the end; nan
    told: np.ndarray  # (K, 2) precision that the belief has of each arm, and times its value
    pool: np.ndarray  # squares, their degrees of freedom, variance last told to all, prior variance
    place: np.ndarray  # the reference
    level: np.ndarray  # its total, without mini-batches


@jit(inner=True)
def believe_prior(params, scratch):
    """Nothing is known but that the reference is no distance from itself."""
    prior, state, best = params.gap.prior, scratch.belief, scratch.place[0]
    for k in range(len(state.offsets)):
        scratch.known[k] = np.nan
        scratch.told[k, 0] = scratch.told[k, 1] = 0.0
        state.centre[k] = prior.mean[k] - prior.mean[best]
        variance = 0.0
        for j in range(prior.root.shape[1]):
            state.root[k, j] = prior.root[k, j] - prior.root[best, j]
            variance += state.root[k, j] * state.root[k, j]
        state.sd[k] = np.sqrt(variance)
        scratch.pool[3] = max(scratch.pool[3], variance)
    scratch.known[best] = 0.0


@jit(inner=True)
def begin_anew(params, scratch, rng):
    """No rows read, and the likeliest of the possible arms as the reference, any of equal ones."""
    prior, state, now = params.gap.prior, scratch.belief, scratch.belief.now[0]
    now.total = now.ended = now.count = now.second = 0
    best, highest, ties = 0, -np.inf, np.uint64(0)
    scratch.pool[:] = 0.0
    for k in range(len(state.offsets)):
        score = state.offsets[k] + prior.mean[k]
        if score > highest:
            best, highest, ties = k, score, np.uint64(1)
        elif score == highest:
            ties += np.uint64(1)
            rng[0] += WEYL
            best = k if hashed(rng[0]) % ties == np.uint64(0) else best
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
    """The possible arm with the highest score, of equal ones one that was read; -1: none is."""
    state, best, highest = scratch.belief, -1, -np.inf
    for k in range(len(state.offsets)):
        if state.offsets[k] > -np.inf:
            value = value_of(scratch, k)
            read = value == highest and np.isnan(scratch.known[best])
            if best < 0 or value > highest or (read and not np.isnan(scratch.known[k])):
                best, highest = k, value
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
