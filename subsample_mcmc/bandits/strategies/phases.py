"""Median elimination, and exponential-gap elimination, whose phases each contain one."""

from dataclasses import dataclass
from math import ceil, inf, log
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategy import (
    COUNTABLE_PULLS,
    OWN_RULE,
    Steps,
    Strategy,
    begin,
    check_delta,
    check_scale,
    highest_inside,
    note,
    shuffle,
    stop,
)
from subsample_mcmc.numerics.jit import jit


class ExponentialGapNumbers(NamedTuple):
    """Of exponential-gap elimination; median: 1 for one median elimination alone."""

    level: float  # log(delta)
    epsilon: float
    scale: float
    median: int


class Stages(NamedTuple):
    """Means of the stage under way, those of the phase around it; accuracy and risk."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray  # arms that are in
    inner: np.ndarray  # those that the median elimination has left
    stage: np.ndarray  # means of this stage alone
    phase: np.ndarray  # of the phase
    level: np.ndarray  # (epsilon, log(delta)) of the stage


def stages(arms: int) -> Stages:
    """All arms are in."""
    state = Stages(
        *begin(arms), np.arange(arms), np.arange(arms), np.zeros(arms), np.zeros(arms), np.zeros(2)
    )
    state.now["left"] = arms
    return state


@jit(inner=True)
def open_round(params, state):
    """Begin a stage of it: fresh means."""
    now, each = state.now[0], 2.0 * params.scale / state.level[0]
    now.goal = np.int64(np.ceil(4.0 * each * each * (log(3.0) - state.level[1])))
    now.cursor = 0
    for i in range(now.second):
        state.stage[state.inner[i]] = 0.0


@jit(inner=True)
def open_median(params, state, epsilon, level):
    """Begin a median elimination of all arms that are in; level: log(delta)."""
    now = state.now[0]
    state.level[0], state.level[1] = epsilon / 4.0, level - log(2.0)
    for i in range(now.left):
        state.inner[i] = state.order[i]
    now.second = now.left  # arms left in it
    now.first = 1  # it is under way
    open_round(params, state)


@jit(inner=True)
def halve(state):
    """Keep the upper half of the stage's means."""
    now, inner, stage = state.now[0], state.inner, state.stage
    keep = (now.second + 1) // 2
    for i in range(keep):  # half a selection sort
        best = i
        for j in range(i + 1, now.second):
            if stage[inner[j]] > stage[inner[best]]:
                best = j
        inner[i], inner[best] = inner[best], inner[i]
    now.second = keep


@jit(inner=True)
def risk_of(params, phase):
    """log(delta / (50 r^3)) of phase r."""
    return params.level - log(50.0 * float(phase) ** 3)


@jit(inner=True)
def open_phase(params, state):
    """Begin phase r: every arm that is in, afresh."""
    now = state.now[0]
    now.stage += 1
    epsilon = 0.25 * 0.5**now.stage
    each = 2.0 * params.scale / epsilon
    now.goal = np.int64(np.ceil(2.0 * each * each * (log(2.0) - risk_of(params, now.stage))))
    now.first = now.cursor = 0
    for i in range(now.left):
        state.phase[state.order[i]] = 0.0


@jit(inner=True)
def phased_ask(params, state, rng):
    now = state.now[0]
    if now.total == 0:
        shuffle(state.order, rng)
        if params.median:
            open_median(params, state, params.epsilon, params.level)
        else:
            open_phase(params, state)
    if now.first == 0 and now.cursor == now.left * now.goal:
        epsilon = 0.25 * 0.5**now.stage
        open_median(params, state, epsilon / 2.0, risk_of(params, now.stage))
    while now.first == 1 and now.cursor == now.second * now.goal:
        halve(state)
        if now.second > 1:
            state.level[0] *= 0.75
            state.level[1] -= log(2.0)
            open_round(params, state)
        elif params.median:
            return stop(state, OWN_RULE)
        else:
            bar, left = state.phase[state.inner[0]] - 0.25 * 0.5**now.stage, 0
            for i in range(now.left):
                if state.phase[state.order[i]] >= bar:
                    state.order[left], state.order[i] = state.order[i], state.order[left]
                    left += 1
            now.left = left
            if left == 1:
                return stop(state, OWN_RULE)
            open_phase(params, state)
    now.cursor += 1  # in turn, not in blocks: a stopping rule around it sees all arms
    now.count = 1
    if now.first == 1:
        return state.inner[(now.cursor - 1) % now.second]
    return state.order[(now.cursor - 1) % now.left]


@jit(inner=True)
def phased_tell(params, state, arm, reward):
    now = state.now[0]
    note(state, arm, reward)
    own, among = (state.stage, now.second) if now.first == 1 else (state.phase, now.left)
    own[arm] += (reward - own[arm]) / ((now.cursor - 1) // among + 1)


@jit(inner=True)
def phased_answer(params, state):
    """Before the end the highest mean of those that are in, of several the most pulled."""
    if state.now[0].ended == OWN_RULE:
        return state.inner[0] if params.median else state.order[0]
    return highest_inside(state, state.order)


PHASED = Steps(phased_ask, phased_tell, phased_answer)


# ---------------------------------------------------------------------------------- strategies
def countable(strategy, arms, pulls):
    """So many pulls, if an integer holds them."""
    if pulls < COUNTABLE_PULLS:
        return pulls
    raise ValueError(
        f"{strategy} asks for {pulls:.2g} pulls of {arms} arms to begin with, and no more than "
        f"{COUNTABLE_PULLS:.2g} can be counted. Give a larger epsilon, or a scale that fits the "
        "rewards; LUCB(epsilon=...) stops as soon as rewards allow it."
    )


def median_pulls(arms: int, epsilon: float, level: float, scale: float) -> float:
    """Of a whole median elimination, in floating point; inf if even that overflows."""
    epsilon, level, total = epsilon / 4.0, level - log(2.0), 0.0
    while arms > 1:
        each = 2.0 * scale / epsilon if epsilon > 0.0 else inf
        total += arms * (each * each * 4.0 * (log(3.0) - level) + 1.0)
        arms, epsilon, level = (arms + 1) // 2, 0.75 * epsilon, level - log(2.0)
    return total


@dataclass(frozen=True)
class MedianElimination(Strategy):
    """Halve the arms stage by stage (Even-Dar, Mannor & Mansour 2006): best to within epsilon.

    What delta bounds is the chance to name an arm whose mean is more than epsilon below the best:
    one that is not best but that close is no error. Pulls grow with 1 / epsilon^2, whatever the
    rewards.

    epsilon: regret that is no error.
    delta: chance of an error at most.
    scale: of sub-Gaussian rewards; 1/2 serves rewards in [0, 1].
    """

    epsilon: float
    delta: float = 0.05
    scale: float = 0.5
    guarantee = "bounded"

    def __post_init__(self):
        check_delta(self.delta)
        check_scale(self.scale)
        if not 0.0 < self.epsilon < inf:
            raise ValueError(f"epsilon={self.epsilon!r}: give the accuracy of the mean, above 0.")

    def steps(self) -> Steps:
        """Stages."""
        return PHASED

    def numbers(self, arms: int) -> ExponentialGapNumbers:
        """As given."""
        self.most_pulls(arms)  # or raises
        return ExponentialGapNumbers(log(self.delta), self.epsilon, self.scale, 1)

    def fresh(self, arms: int, params: Any) -> Stages:
        """All arms are in."""
        return stages(arms)

    def most_pulls(self, arms: int) -> int:
        """The sum of all stages: it does not depend on rewards."""
        countable(self, arms, median_pulls(arms, self.epsilon, log(self.delta), self.scale))
        epsilon, level, total = self.epsilon / 4.0, log(self.delta) - log(2.0), 0
        while arms > 1:
            each = 2.0 * self.scale / epsilon
            total += arms * ceil(4.0 * each * each * (log(3.0) - level))
            arms, epsilon, level = (arms + 1) // 2, 0.75 * epsilon, level - log(2.0)
        return total


@dataclass(frozen=True)
class ExponentialGap(Strategy):
    """Exponential-gap elimination (Karnin, Koren & Somekh 2013): order-optimal, with constants.

    The first phase alone pulls every arm some hundred thousand times: with LILStopping around it
    it ends long before, much like pulling all arms in turn.
    delta: chance of a wrong arm at most.
    scale: the sub-Gaussian scale of the rewards: the standard deviation of Gaussian ones, half the
        width of the range of others; .5 serves rewards in [0, 1]. A run whose rewards vary by more
        has no guarantee, and says so.
    """

    delta: float = 0.05
    scale: float = 0.5
    guarantee = "bounded"

    def __post_init__(self):
        check_delta(self.delta)
        check_scale(self.scale)

    def steps(self) -> Steps:
        """Phases, each with a median elimination."""
        return PHASED

    def numbers(self, arms: int) -> ExponentialGapNumbers:
        """As given. Phases after the first are longer, and begin after so many pulls as it has."""
        if arms > 1:
            each, level = 16.0 * self.scale, log(self.delta) - log(50.0)
            first = arms * (2.0 * each * each * (log(2.0) - level) + 1.0)
            inner = median_pulls(arms, 1.0 / 16.0, level, self.scale)
            countable(self, arms, first + inner)
        return ExponentialGapNumbers(log(self.delta), 0.0, self.scale, 0)

    def fresh(self, arms: int, params: Any) -> Stages:
        """All arms are in."""
        return stages(arms)
