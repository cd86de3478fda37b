"""Confidence bounds that look at all arms: UCB1, LUCB1 and LUCB++. O(K) a pull."""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.lil import EPSILON, constant, iterated
from subsample_mcmc.bandits.strategy import (
    OWN_RULE,
    Steps,
    Strategy,
    answer_mean,
    begin,
    check_delta,
    check_scale,
    leading,
    pull_each_once,
    stop,
    takes_over,
    tell_all,
)
from subsample_mcmc.numerics.jit import jit


class Each(NamedTuple):
    """A first round in random order."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray


def each(arms: int) -> Each:
    """Nothing pulled.

    arms: how many.
    """
    return Each(*begin(arms), np.zeros(arms, dtype=np.int64))


# ---------------------------------------------------------------------------------------- UCB1
class Width(NamedTuple):
    """Of the bounds: width * sqrt(log(t) / T)."""

    width: float


@jit(inner=True)
def ucb_ask(params, state, rng):
    now, arms = state.now[0], len(state.pulls)
    first = pull_each_once(state, rng, state.order)
    if first >= 0:
        return first
    best, highest, wide, ties = 0, -np.inf, params.width * sqrt(log(now.total)), 0
    for arm in range(arms):
        upper = state.means[arm] + wide / sqrt(state.pulls[arm])
        if upper > highest:
            best, highest, ties = arm, upper, 1
        elif upper == highest:
            ties += 1
            if takes_over(ties, rng):
                best = arm
    now.count = 1
    return best


UCB = Steps(ucb_ask, tell_all, answer_mean)


@dataclass(frozen=True)
class UCB1(Strategy):
    """Pull the highest of mean + sqrt(8 s^2 log(t) / T) (Auer, Cesa-Bianchi & Fischer 2002).

    Of several highest, one at random. Made for regret: it never stops by itself. Put LILStopping
    around it.

    scale: as in sm.bandits.LUCB.
    """

    scale: float = 0.5

    def __post_init__(self):
        check_scale(self.scale)

    def steps(self) -> Steps:
        """Bounds anew at every pull."""
        return UCB

    def numbers(self, arms: int) -> Width:
        """Their width."""
        return Width(sqrt(8.0) * self.scale)

    def fresh(self, arms: int, params: Any) -> Each:
        """Nothing pulled."""
        return each(arms)


# ---------------------------------------------------------------------------------------- LUCB
class LucbNumbers(NamedTuple):
    """plus: 1 for LUCB++; logs of the levels: of the leader's bound, of the others'."""

    plus: int
    width: float
    inflate: float
    leader: float
    others: float
    epsilon: float


@jit(inner=True)
def lucb_radius(params, pulls, total, level):
    if params.plus:
        return params.width * iterated(pulls, params.inflate, level)
    return params.width * sqrt((4.0 * log(total) - level) / pulls)


@jit(inner=True)
def lucb_ask(params, state, rng):
    now, arms = state.now[0], len(state.pulls)
    first = pull_each_once(state, rng, state.order)
    if first >= 0:
        return first
    now.count = 1
    if now.second >= 0 and now.left == 1:  # the other of the pair
        now.left = 0
        return now.second
    leader, rival, highest, ties = leading(state, rng), -1, -np.inf, 0
    total = float(now.total)
    for arm in range(arms):
        if arm != leader:
            upper = state.means[arm] + lucb_radius(params, state.pulls[arm], total, params.others)
            if upper > highest:
                rival, highest, ties = arm, upper, 1
            elif upper == highest:
                ties += 1
                if takes_over(ties, rng):
                    rival = arm
    radius = lucb_radius(params, state.pulls[leader], total, params.leader)
    if highest - (state.means[leader] - radius) <= params.epsilon:
        return stop(state, OWN_RULE)
    now.second, now.left = rival, 1
    return leader


LUCB_STEPS = Steps(lucb_ask, tell_all, answer_mean)


@dataclass(frozen=True)
class LUCB(Strategy):
    """Pull the leader and its closest rival until the two are apart by their bounds.

    delta: chance of a wrong arm at most.
    variant: "1" (Kalyanakrishnan, Tewari, Auer & Stone 2012), with a bound for all arms and times
        by their union; "++" (Simchowitz, Jamieson & Recht 2017), with the LIL bound, delta / 2 for
        every rival and delta / (2 (K - 1)) for the leader: log K is paid by the leader alone.
    epsilon: what delta bounds is the chance to name an arm whose mean is more than this below the
        best: above 0, an arm that is not best but that close is no error.
    Of equal means or bounds, one at random.
    scale: the sub-Gaussian scale of the rewards: the standard deviation of Gaussian ones, half the
        width of the range of others; .5 serves rewards in [0, 1]. A run whose rewards vary by more
        has no guarantee, and says so.
    """

    delta: float = 0.05
    scale: float = 0.5
    variant: str = "1"
    epsilon: float = 0.0
    guarantee = "bounded"

    def __post_init__(self):
        check_delta(self.delta)
        check_scale(self.scale)
        if self.variant not in ("1", "++"):
            raise ValueError(f'variant={self.variant!r}: it must be "1" or "++".')
        if not 0.0 <= self.epsilon < np.inf:
            raise ValueError(f"epsilon={self.epsilon!r}: give a finite number, 0 or more.")

    def steps(self) -> Steps:
        """Pairs."""
        return LUCB_STEPS

    def numbers(self, arms: int) -> LucbNumbers:
        """Width and levels."""
        if self.variant == "1":
            # sqrt(log(5 K t^4 / (4 delta)) / (2 T)) for rewards in [0, 1], whose scale is 1/2.
            width, level = sqrt(2.0) * self.scale, log(self.delta) - log(1.25 * arms)
            return LucbNumbers(0, width, 0.0, level, level, self.epsilon)
        e = EPSILON
        width = (1.0 + sqrt(e)) * self.scale * sqrt(2.0 * (1.0 + e))
        leader, others = (
            (log(self.delta) - log(2.0 * among * constant(e))) / (1.0 + e)
            for among in (max(arms - 1, 1), 1)
        )
        return LucbNumbers(1, width, 1.0 + e, leader, others, self.epsilon)

    def fresh(self, arms: int, params: Any) -> Each:
        """Nothing pulled."""
        state = each(arms)
        state.now["second"] = -1
        return state
