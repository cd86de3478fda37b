"""Strategies in rounds: all arms in turn, and successive elimination."""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.lil import EPSILON, constant, iterated
from subsample_mcmc.bandits.strategy import (
    BUDGET,
    OWN_RULE,
    Steps,
    Strategy,
    answer_mean,
    begin,
    check_delta,
    check_scale,
    highest_inside,
    settle_budget,
    shuffle,
    stop,
    tell_all,
)
from subsample_mcmc.numerics.jit import jit


class Order(NamedTuple):
    """Arms in the order of a round; the first `now.left` are in."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray


def in_order(arms: int) -> Order:
    """All arms are in."""
    state = Order(*begin(arms), np.arange(arms))
    state.now["left"] = arms
    return state


# ------------------------------------------------------------------------------------- uniform
class UniformNumbers(NamedTuple):
    """Pulls in all; below zero: without end."""

    budget: int


@jit(inner=True)
def uniform_ask(params, state, rng):
    now, arms = state.now[0], len(state.order)
    if now.total == params.budget:
        return stop(state, BUDGET)
    if now.total == 0:
        shuffle(state.order, rng)
    now.count = 1
    return state.order[now.total % arms]


UNIFORM = Steps(uniform_ask, tell_all, answer_mean)


@dataclass(frozen=True)
class Uniform(Strategy):
    """Arms one after the other, in random order.

    budget: pulls in all; None goes on until it is stopped.
    """

    budget: int | None = None

    def __post_init__(self):
        if self.budget is not None:
            settle_budget(self)

    def steps(self) -> Steps:
        """Round robin."""
        return UNIFORM

    def numbers(self, arms: int) -> UniformNumbers:
        """The budget."""
        return UniformNumbers(-1 if self.budget is None else self.budget)

    def fresh(self, arms: int, params: Any) -> Order:
        """All arms are in."""
        return in_order(arms)

    def most_pulls(self, arms: int) -> int | None:
        """As given."""
        return self.budget


# ----------------------------------------------------------------------- successive elimination
class RoundNumbers(NamedTuple):
    """The radius after T rounds: width * sqrt((.. - level) / T); lil: 1 for the LIL bound."""

    lil: int
    width: float
    inflate: float
    level: float


@jit(inner=True)
def radius_of(params, rounds):
    if params.lil:
        return params.width * iterated(rounds, params.inflate, params.level)
    return params.width * sqrt((2.0 * log(rounds) - params.level) / rounds)


@jit(inner=True)
def successive_ask(params, state, rng):
    now, order = state.now[0], state.order
    if now.total == 0:
        shuffle(order, rng)
    if now.cursor == now.left:  # a round is over: all that are in have as many pulls
        now.cursor = 0
        now.stage += 1
        best, radius, left = -np.inf, radius_of(params, now.stage), 0
        for i in range(now.left):
            best = max(best, state.means[order[i]])
        for i in range(now.left):
            if best - state.means[order[i]] < 2.0 * radius:
                order[left], order[i] = order[i], order[left]
                left += 1
        now.left = left
        if left == 1:
            return stop(state, OWN_RULE)
    now.cursor += 1
    now.count = 1
    return order[now.cursor - 1]


@jit(inner=True)
def successive_answer(params, state):
    """The highest mean among those that are in; of several one by their random order."""
    return highest_inside(state, state.order)


SUCCESSIVE = Steps(successive_ask, tell_all, successive_answer)


@dataclass(frozen=True)
class SuccessiveElimination(Strategy):
    """Pull all arms that are in, then drop those whose interval lies below another's.

    delta: chance of a wrong arm at most.
    scale: as in sm.bandits.LUCB.
    radius: "lemma" or "paper", that of LILStopping; or "hoeffding", of Even-Dar, Mannor & Mansour
        (2006). The first and the last hold at all times: the best arm is dropped with probability
        delta at most, for sub-Gaussian rewards of this scale.
    """

    delta: float = 0.05
    scale: float = 0.5
    radius: str = "lemma"
    guarantee_of: ClassVar[dict[str, str]] = {
        "lemma": "bounded", "paper": "none", "hoeffding": "bounded",
    }  # fmt: skip

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """Of the radius."""
        return self.guarantee_of[self.radius]

    def __post_init__(self):
        check_delta(self.delta)
        check_scale(self.scale)
        if self.radius not in self.guarantee_of:
            raise ValueError(
                f"radius={self.radius!r}: it must be {' or '.join(self.guarantee_of)}."
            )

    def steps(self) -> Steps:
        """Rounds."""
        return SUCCESSIVE

    def numbers(self, arms: int) -> RoundNumbers:
        """Width and level of the radius."""
        if self.radius == "hoeffding":
            # 2 K sum_T exp(-log(c K T^2 / delta)) <= delta for c >= pi^2 / 3 = 3.3; they have 5.
            level = log(self.delta) - log(5.0 * arms)
            return RoundNumbers(0, sqrt(2.0) * self.scale, 0.0, level)
        e = EPSILON
        width = (1.0 + sqrt(e)) * self.scale * sqrt(2.0 * (1.0 + e))
        level = log(self.delta) - log(2.0 * arms)
        if self.radius == "lemma":
            level = (level - log(constant(e))) / (1.0 + e)
        return RoundNumbers(1, width, 1.0 + e, level)

    def fresh(self, arms: int, params: Any) -> Order:
        """All arms are in."""
        return in_order(arms)
