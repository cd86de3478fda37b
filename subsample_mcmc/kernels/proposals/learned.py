"""Proposals around a Gaussian that is learnt in warm-up: sm.pcn() without one, and by sites.

A random walk takes some five moves of one number, and more of several, to forget where it was.
Posteriors of many data are nearly normal: a proposal from the normal distribution that the values
had in warm-up forgets at once. Now and then it walks all the same, in the covariance that was
learnt: which serves where tails are heavier than the Gaussian's, and, in warm-up, where it is still
too narrow. A coin that knows nothing of the state chooses between the two, and both are reversible.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.kernels.adapt import (
    AVERAGE,
    LOG_STEP,
    SETTLED,
    STEPS,
    WEIGHT,
    WINDOW,
    Tuning,
    learn,
    of_one,
    step_size,
)
from subsample_mcmc.kernels.proposals.gaussian import OPTIMAL, add_correlated, by_columns, gaussian
from subsample_mcmc.kernels.proposals.walk import (
    ProposalNumbers,
    RandomWalk,
    no_numbers,
    random_walk,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal

# Shares of random walks among the proposals of what knows its Gaussian, in warm-up and after.
WARM, WALKS = 1 / 2, 1 / 8
TARGET = 0.55  # acceptance of the others, below which beta falls: see sm.pcn
ABOVE = 0.5  # how far log beta may rise above 0: a few refusals do not take it below, then
# A chain seldom gets out of tails that are heavier than its proposals': these are drawn wider than
# what was seen, by 15% (over the root of how many numbers there are: all of them cost acceptance),
# and by as much again as a variance of so few independent draws may be off.
WIDER, DRAWS = 0.15, 5.0
# Values in the first window: 15 of each number within these bounds. Each is twice the one before.
FEWEST, OF_EACH = 50.0, 15.0
PATIENCE = 10.0  # times as long is the first window where a fit is known
LATEST = (
    0.85  # share of warm-up after which no Gaussian is learnt, and beta has time to fit the last
)
ALMOST = 0.1  # of a window: too little of warm-up is left to wait for
SINGULAR = 1e-10  # of a variance: what others leave of it, from which on there is no Gaussian
MOST = 500  # numbers whose covariance is learnt
SEEN, END, KNOWN, TOTAL = range(4)
LEARNS = "from a Gaussian, learnt from windows that grow; "  # stored with runs that do
UNKNOWN, WALK, GAUSSIAN = range(3)  # how a proposal is made: without a Gaussian, or with it


class LearnedNumbers(NamedTuple):
    """What is known of the values of a block, or of each of its sites, and what warm-up sees now.

    All arrays have a row for each site; a block that moves as one is the only site.
    """

    learns: int  # 0: nothing is learnt; all walk, if no fit is known either
    how: np.ndarray  # (1,) how the last proposal was made
    numbers: ProposalNumbers  # mean and factor of each Gaussian
    beta: Tuning
    walk: Tuning  # the step of walks in the covariance that was learnt
    window: (
        np.ndarray
    )  # (sites, 4) values in the window, its end, is the Gaussian known, all values
    mean: np.ndarray  # (sites, d) of the window
    cross: np.ndarray  # (sites, d, d) sums of products around it: the lower triangle
    last: np.ndarray  # (sites, d) the value before
    jumps: np.ndarray  # (sites, d) sums of squares of what it took to the next


def learned_numbers(
    run, numbers: ProposalNumbers, sites: int, free: int, learns: bool, known: Any = None
) -> LearnedNumbers:
    """Registered with the chain's checkpoint; known: (means, lower factors) of a fit, or nothing.

    A Gaussian that is known stays as it is for more values: a window of few would be no better.
    """
    rows = sites if learns or known else 0
    window, unused = np.zeros((rows, 4)), np.zeros((rows, 0))
    window[:, END] = min(max(OF_EACH * free, FEWEST), WINDOW)
    mean, columns = np.zeros((rows, free)), np.zeros((rows, free, free))
    if known is not None:
        mean[:], columns[:] = known[0], by_columns(known[1])
        window[:, END] *= PATIENCE
        window[:, KNOWN] = 1.0
    numbers = numbers._replace(
        mean=run.keep("gaussian_mean", mean), columns=run.keep("gaussian_columns", columns)
    )
    beta, walk = np.zeros((2, rows, 6))  # logs of 1
    walk[:, LOG_STEP] = walk[:, AVERAGE] = log(OPTIMAL / sqrt(free))
    pace = RandomWalk().pace(free)
    return LearnedNumbers(
        int(learns), np.zeros(1, dtype=np.int64), numbers,
        Tuning(TARGET * learns, 0, ABOVE, run.keep("beta", beta), unused, unused, unused),
        Tuning(pace.target * learns, 0, np.inf, run.keep("walk", walk), unused, unused, unused),
        run.keep("window", window), run.keep("window_mean", np.zeros((rows, free))),
        run.keep("window_cross", np.zeros((rows, free, free))),
        run.keep("window_last", np.zeros((rows, free))),
        run.keep("window_jumps", np.zeros((rows, free))),
    )  # fmt: skip


@jit(inner=True)
def factor(cross, scale, columns):
    """Write the Cholesky factor of scale * cross by columns; False, and nothing, if it has none.

    cross: its lower triangle, which is lost.
    """
    d = len(cross)
    for j in range(d):
        whole = cross[j, j] * scale
        for i in range(j, d):
            value = cross[i, j] * scale
            for k in range(j):
                value -= cross[i, k] * cross[j, k]
            if i > j:
                cross[i, j] = value / cross[j, j]
            elif value > SINGULAR * whole and value > 1e-300:
                cross[j, j] = value**0.5
            else:
                return False
    for j in range(d):
        for i in range(d):
            columns[j, i] = cross[i, j] if i >= j else 0.0
    return True


@jit(inner=True)
def start_anew(step, log_step):
    """Try and average steps from here on: those before were in units of another Gaussian.

    They would stay where they are, else, if little of warm-up is left: a beta that fell because
    a Gaussian was poor does not rise as fast as one that is too large falls.
    """
    step[LOG_STEP] = step[AVERAGE] = log_step
    step[WEIGHT] = step[STEPS] = 0.0


@jit(inner=True)
def take_in(known, site, u):
    """One more value in the window."""
    window, mean, cross = known.window[site], known.mean[site], known.cross[site]
    last, jumps = known.last[site], known.jumps[site]
    window[SEEN] += 1.0
    window[TOTAL] += 1.0
    seen = window[SEEN]
    # mean_n = mean_(n-1) + change / n; products around it: (1 - 1/n) change change'.
    for i in range(len(u)):
        for j in range(i + 1):
            cross[i, j] += (1.0 - 1.0 / seen) * (u[i] - mean[i]) * (u[j] - mean[j])
    for i in range(len(u)):
        mean[i] += (u[i] - mean[i]) / seen
        if seen > 1.0:
            jumps[i] += (u[i] - last[i]) ** 2
        last[i] = u[i]


@jit(inner=True)
def independent(known, site):
    """How many independent values are worth as much as those in the window, at least 1.

    As of the slowest number, if its correlation falls as a power r^k of the lag k: jumps are, in
    the mean, 2 (1 - r) variances, and n values worth n (1 - r) / (1 + r).
    """
    jumps, cross, apart = known.jumps[site], known.cross[site], 1.0  # 1 - r
    for i in range(len(jumps)):
        apart = min(apart, jumps[i] / max(2.0 * cross[i, i], 1e-300))
    return max(known.window[site, SEEN] * apart / (2.0 - apart), 1.0)


@jit(inner="always")
def ends(window, now):
    """Is it time to learn the Gaussian of a window; one that would be the last takes what is left.

    Beta and the step need time to fit a new one: none at the end of warm-up.
    """
    seen = window[SEEN]
    if seen < window[END]:
        return False
    if now.warmup > 0:
        if now.iteration > LATEST * now.warmup:
            return False
        left = (SETTLED * now.warmup - now.iteration) * window[TOTAL] / max(now.iteration, 1)
        if ALMOST * seen < left < 2.0 * seen:
            window[END] = seen + np.floor(left)
            return False
    return True


@jit(inner="always")
def watch(known, site, u, now):
    """Take note of a value in warm-up; at the end of a window, know its Gaussian."""
    if known.learns == 0 or now.warm == 0:
        return
    take_in(known, site, u)
    window = known.window[site]
    if not ends(window, now):
        return
    wider = (1.0 + WIDER / len(u) ** 0.5) ** 2 + DRAWS / independent(known, site)
    if factor(known.cross[site], wider / window[SEEN], known.numbers.columns[site]):
        window[KNOWN] = 1.0
        for i in range(len(u)):
            known.numbers.mean[site, i] = known.mean[site, i]
        start_anew(known.beta.step[site], 0.0)
        start_anew(known.walk.step[site], log(OPTIMAL / len(u) ** 0.5))
    known.mean[site] = 0.0
    known.cross[site] = 0.0
    known.jumps[site] = 0.0
    window[END] = 2.0 * window[SEEN]
    window[SEEN] = 0.0


@jit(inner="always")
def propose_learned(rng, tuning, known, now, which, u, v):
    known.how[0] = UNKNOWN
    if len(known.window) == 0 or known.window[which, KNOWN] == 0.0:
        return random_walk(rng, tuning, known.numbers, now, 0, u, v)
    if rng.random() < (WARM if now.warm == 1 else WALKS):
        known.how[0] = WALK
        noise, step = known.numbers.noise, step_size(of_one(known.walk, which), now)
        fill_normal(rng, noise)
        v[:] = 0.0
        add_correlated(known.numbers.columns[which], noise, v)
        for i in range(len(u)):
            v[i] = u[i] + step * v[i]
        return 0.0
    known.how[0] = GAUSSIAN
    return gaussian(rng, of_one(known.beta, which), known.numbers, now, which, u, v)


@jit(inner="always")
def learn_gaussian(tuning, known, now, which, u, accepted):
    """The step of the proposal that was made; and the Gaussian."""
    if known.how[0] == UNKNOWN:
        learn(tuning, now, u, accepted)
    elif known.how[0] == WALK:
        learn(of_one(known.walk, which), now, u, accepted)
    else:
        learn(of_one(known.beta, which), now, u, accepted)
    watch(known, which, u, now)


@dataclass(frozen=True, eq=False)
class Learned(RandomWalk):
    """sm.pcn() without mean and covariance: warm-up learns both."""

    learned: ClassVar[bool] = True

    def build(self) -> tuple[Any, Any]:
        return propose_learned, learn_gaussian

    def numbers(self, blocks) -> ProposalNumbers:
        if blocks.varies:
            raise ValueError(
                f"sm.pcn() learns one Gaussian, and block {blocks.names[-1]!r} has several "
                "lengths: give a list of fits, one for each, "
                "[sm.laplace(model, ..., given={...: k}) for k in ...]."
            )
        if blocks.free > MOST:
            raise ValueError(
                f"sm.pcn() learns a covariance, of at most {MOST} free coordinates: "
                f"{blocks.sizes()}. Give a fit, sm.pcn(sm.laplace(model)), or leave proposal out."
            )
        return no_numbers(blocks)
