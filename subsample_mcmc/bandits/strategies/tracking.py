"""Track-and-Stop (Garivier & Kaufmann 2016) for Gaussian arms."""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.top_two import (
    TopTwo,
    base_of,
    check_threshold,
    closest,
    threshold,
)
from subsample_mcmc.bandits.strategies.ucb import each
from subsample_mcmc.bandits.strategy import (
    OWN_RULE,
    Steps,
    Strategy,
    answer_mean,
    check_delta,
    check_scale,
    leading,
    pull_each_once,
    stop,
    takes_over,
    tell_all,
)
from subsample_mcmc.numerics.jit import jit


class TrackingNumbers(NamedTuple):
    """base: 2 C(..) of the proved threshold; every: pulls between two looks at the weights."""

    level: float  # log(delta)
    variance: float
    base: float
    every: int


class Tracking(NamedTuple):
    """The shares that would be best if the means were right."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray
    weights: np.ndarray


@jit(inner=True)
def ratios(state, leader, level, weights):
    """Sum of x_b^2 - 1, where x_b / (1 + x_b) * gap_b^2 = level; x_b is the share b / leader."""
    total = -1.0
    for arm in range(len(weights)):
        if arm != leader:
            gap = state.means[leader] - state.means[arm]
            x = level / max(gap * gap - level, 1e-300)
            weights[arm] = x
            total += x * x
    return total


@jit(inner=True)
def solve_weights(state, leader):
    """The optimal shares for these means (Garivier & Kaufmann 2016, Theorem 5), by bisection."""
    weights, nearest, equal = state.weights, np.inf, 0
    for arm in range(len(weights)):
        if arm != leader:
            gap = state.means[leader] - state.means[arm]
            nearest = min(nearest, gap * gap)
    for arm in range(len(weights)):
        gap = state.means[leader] - state.means[arm]
        equal += arm == leader or gap == 0.0
    if equal > 1:  # no finite number of pulls would do: the tied arms share them all
        for arm in range(len(weights)):
            tied = arm == leader or state.means[arm] == state.means[leader]
            weights[arm] = 1.0 / equal if tied else 0.0
        return
    low, high = 0.0, nearest
    for _ in range(60):
        middle = 0.5 * (low + high)
        if ratios(state, leader, middle, weights) < 0.0:
            low = middle
        else:
            high = middle
    ratios(state, leader, low, weights)
    weights[leader], total = 1.0, 0.0
    for arm in range(len(weights)):
        total += weights[arm]
    for arm in range(len(weights)):
        weights[arm] /= total


@jit(inner=True)
def tracking_ask(params, state, rng):
    now, arms = state.now[0], len(state.pulls)
    first = pull_each_once(state, rng, state.order)
    if first >= 0:
        return first
    leader = leading(state, rng)
    if closest(params, state, leader, False, rng)[1] > threshold(params, now.total):
        return stop(state, OWN_RULE)
    now.count = 1
    least, fewest, ties = 0, np.iinfo(np.int64).max, 0
    for arm in range(arms):
        if state.pulls[arm] < fewest:
            least, fewest, ties = arm, state.pulls[arm], 1
        elif state.pulls[arm] == fewest:
            ties += 1
            if takes_over(ties, rng):
                least = arm
    if fewest < sqrt(now.total) - 0.5 * arms:  # forced exploration
        return least
    if now.goal <= now.total:
        solve_weights(state, leader)
        now.goal = now.total + params.every
    best, behind, ties = 0, -np.inf, 0
    for arm in range(arms):
        lag = now.total * state.weights[arm] - state.pulls[arm]
        if lag > behind:
            best, behind, ties = arm, lag, 1
        elif lag == behind:
            ties += 1
            if takes_over(ties, rng):
                best = arm
    return best


TRACKING = Steps(tracking_ask, tell_all, answer_mean)


@dataclass(frozen=True)
class TrackAndStop(Strategy):
    """Pull arms in the shares that would tell the best apart soonest (Garivier & Kaufmann 2016).

    D-tracking. The expected number of pulls comes as close as can be to the lower bound, as delta
    goes to 0. Ties are broken at random.

    delta: chance of a wrong arm at most.
    threshold: as in sm.bandits.TopTwo.
    every: pulls between two solutions for the shares; default K.
    scale: the standard deviation of the rewards, at least. A run whose rewards vary by more has no
        guarantee, and says so.
    """

    delta: float = 0.05
    scale: float = 1.0
    threshold: str = "proved"
    every: int | None = None
    guarantee_of: ClassVar[dict[str, str]] = TopTwo.guarantee_of

    def __post_init__(self):
        check_delta(self.delta)
        check_scale(self.scale)
        check_threshold(self.threshold)
        if self.every is not None and (self.every < 1 or int(self.every) != self.every):
            raise ValueError(f"every={self.every!r}: give a number of pulls, at least 1, or None.")

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """Of the threshold."""
        return self.guarantee_of[self.threshold]

    def steps(self) -> Steps:
        """One pull at a time."""
        return TRACKING

    def numbers(self, arms: int) -> TrackingNumbers:
        """As given."""
        return TrackingNumbers(
            log(self.delta), self.scale**2, base_of(self, arms), self.every or arms
        )

    def fresh(self, arms: int, params: Any) -> Tracking:
        """Nothing pulled."""
        return Tracking(*each(arms), np.zeros(arms))
