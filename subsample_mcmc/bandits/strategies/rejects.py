"""Fixed budgets that drop one arm a phase: successive rejects, and a variant by variances."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategy import (
    BUDGET,
    Steps,
    Strategy,
    begin,
    highest_inside,
    settle_budget,
    shuffle,
    stop,
    tell_all,
)
from subsample_mcmc.numerics.jit import jit


class RejectNumbers(NamedTuple):
    """by_variance: pulls of a phase go to the largest variance / pulls; bonus: of upper bounds."""

    budget: int
    by_variance: int
    bonus: float
    scale: float  # 1 / (1/2 + sum_{i=2}^K 1/i)


class Rejects(NamedTuple):
    """Arms that are in stand first."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray


@jit(inner=True)
def quota(params, arms, phase):
    """n_k of phase k = 1 .. K - 1: pulls that each arm that is in has had by its end.

    One at least: the formula has 0 where the budget is K, which is one for each. If it is more,
    all are 1 or more by themselves, and the sum of them keeps within the budget as it is.
    """
    if phase == 0:
        return 0
    share = params.scale * (params.budget - arms) / (arms + 1.0 - phase)
    return max(np.int64(np.ceil(share - 1e-9)), 1)


@jit(inner=True)
def rejects_ask(params, state, rng):
    now, order = state.now[0], state.order
    arms = len(order)
    if now.total == 0:
        shuffle(order, rng)
        now.stage, now.goal = 1, quota(params, arms, 1) * arms
    while now.total >= min(now.goal, params.budget):
        worst, lowest = 0, np.inf
        for i in range(now.left):
            arm = order[i]
            bound = state.means[arm] if state.pulls[arm] else -np.inf
            if params.bonus > 0.0 and state.pulls[arm] > 1:
                variance = state.squares[arm] / (state.pulls[arm] - 1)
                bound += params.bonus * sqrt(variance / state.pulls[arm])
            if bound < lowest:
                worst, lowest = i, bound
        now.left -= 1
        order[worst], order[now.left] = order[now.left], order[worst]
        if now.left == 1:
            return stop(state, BUDGET)
        now.stage += 1
        more = quota(params, arms, now.stage) - quota(params, arms, now.stage - 1)
        now.goal += more * now.left
    now.count = 1
    best, highest = order[0], -np.inf
    for i in range(now.left):
        arm = order[i]
        pulls = state.pulls[arm]
        index = -float(pulls)
        if params.by_variance:
            index = np.inf if pulls == 0 else 1e300
            if pulls > 1:
                index = state.squares[arm] / (pulls - 1) / pulls
        fewer = index == highest and pulls < state.pulls[best]  # variances may all be 0
        if index > highest or fewer:
            best, highest = arm, index
    return best


@jit(inner=True)
def rejects_answer(params, state):
    """The arm that is left; before that, the highest mean of those that are in.

    Of several the one that was pulled most, then one by the random order.
    """
    return highest_inside(state, state.order)


REJECTS = Steps(rejects_ask, tell_all, rejects_answer)


@dataclass(frozen=True)
class SuccessiveRejects(Strategy):
    """K - 1 phases, each drops the lowest mean (Audibert, Bubeck & Munos 2010).

    The budget is never exceeded, and every arm is pulled once at least.

    budget: pulls in all.
    """

    budget: int
    by_variance = 0
    bonus = 0.0

    def __post_init__(self):
        settle_budget(self)

    def steps(self) -> Steps:
        """Phases."""
        return REJECTS

    def numbers(self, arms: int) -> RejectNumbers:
        """The schedule."""
        if self.budget < arms:
            raise ValueError(
                f"budget={self.budget}: give at least one pull for each of {arms} arms."
            )
        scale = 1.0 / (0.5 + sum(1.0 / i for i in range(2, arms + 1)))
        return RejectNumbers(self.budget, self.by_variance, self.bonus, scale)

    def fresh(self, arms: int, params: Any) -> Rejects:
        """All arms are in."""
        state = Rejects(*begin(arms), np.arange(arms))
        state.now["left"] = arms
        return state

    def most_pulls(self, arms: int) -> int:
        """At most as given."""
        return self.budget


@dataclass(frozen=True)
class VarianceRejects(SuccessiveRejects):
    """Successive rejects whose phases pull the largest variance / pulls: like VBR, not VBR.

    Variance-based rejects (Faella, Finzi & Sauro 2020) drops an arm a phase by intervals of 1.96
    standard deviations; no public text gives more, so this stands in for it. Where several arms
    have the largest, as all do that do not vary, the least pulled of them is next.

    budget: pulls in all.
    """

    by_variance = 1
    bonus = 1.96
