"""LinGapE as a strategy, and as a selector of log-linear factors.

As a selector it reads one arm's rewards at a time, and learns about all arms: what it reads does
not grow with their number. It is for factors that are dear and reveal one number each. Where one
datum shows its whole vector g_n of a log-linear factor x' g_n, reading g_n itself and averaging it
is better by far; examples/best_arm/lin_gap_e.py shows both.

Rows are drawn with replacement. The theorem is about rewards that are independent given which arm
is pulled; rows that are not drawn again, in an order of each arm's own, depend on all rows before.
The bound would not be tighter for them, so that nothing is lost until most rows of an arm are read,
and then the arms that are left are summed.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.bandits.scale import SURE_OF_EACH, beyond
from subsample_mcmc.bandits.strategies.linear import (
    LINEAR,
    LINGAPE_RULES,
    LinearNumbers,
    LinearState,
    add_design,
    linear_ask,
    linear_numbers,
    linear_state,
    mark_rivals,
    update,
)
from subsample_mcmc.bandits.strategies.linear_arms import check_noise
from subsample_mcmc.bandits.strategy import Steps, Strategy, check_delta
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    NOT_FINITE,
    OUT_OF_SPREAD,
    RACED,
    RETREATED,
    Outcome,
)
from subsample_mcmc.decisions.selector import Selector, failed, not_a_sum, possible_arms
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, WEYL, below, hashed, row_kind
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import Sources


class LinGapEParams(NamedTuple):
    """Run-time numbers; batch: rows of an arm that are read at once."""

    size: int
    batch: int
    linear: LinearNumbers


class LinGapEScratch(NamedTuple):
    """What is known, and room for a visit."""

    state: LinearState
    rows: np.ndarray
    values: np.ndarray
    within: np.ndarray  # 1: to be summed, 2: was summed, 0: ruled out


@dataclass(frozen=True, repr=False)
class LinGapE(Selector, Strategy):
    """Best of arms whose means are linear in known features (Xu, Honda & Sugiyama 2018).

    As a selector a reward is the log factor of one row, in nats, and a mean is over all N rows: a
    total over N. So noise is that of one row, in nats; half the range of the log factors of an arm
    will do. norm bounds the vector whose products with features are means: of totals, over N.
    The promise is as good as these numbers: log factors linear in the features, noise and norm no
    less than the truth. Rewards that are wider than noise, or farther from 0 than norm allows, are
    a SpreadError.

    features: (K, d), one row for each arm.
    noise: sub-Gaussian scale of one reward.
    norm: bound of the length of the unknown vector: means of size 1 at features of length .1 need
        10, or more. Means that no vector within it has void the promise, and it says so.
    ridge: the paper's lambda.
    rule: "greedy", or "ratio" (bandits only): after the best design for the closest pair.
    delta, epsilon: with probability 1 - delta the named mean is at most epsilon below the best
        (bandits only, a selector has to name the best).
    union: delta over all pairs, as the paper's; the bound holds without.
    growth: pull the chosen arm this share of its own pulls again before thinking anew (bandits).
    batch: as a selector, rows read at once. Once as many were read of one arm as there are, or of
        all as an exact decision would, the arms that the bound has not ruled out are summed.

    Example:
        >>> features = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
        >>> theta = np.array([1.0, 0.2])
        >>> def pull(data, arm, rng):
        ...     return data.means[arm] + 0.1 * rng.standard_normal()
        >>> linear = sm.LinGapE(features, noise=0.1, norm=2.0)
        >>> sm.identify(pull, 3, linear, data={"means": features @ theta}, seed=1).arm
        0
    """

    features: Any
    delta: float = 0.05
    rule: str = "greedy"
    noise: float = 1.0
    norm: float = 1.0
    ridge: float = 1.0
    epsilon: float = 0.0
    union: bool = True
    growth: float = 0.0
    batch: int = 32
    guarantee: ClassVar[str] = "bounded"
    scale_is: ClassVar[str] = "noise"
    remedy: ClassVar[str] = "Check that rewards are linear in its features, its noise and its norm"

    @property
    def promise(self) -> str:
        """What its bound rests on."""
        return "if rewards are linear in its features, and its noise and norm hold"

    def __post_init__(self):
        check_delta(self.delta)
        check_noise(self.noise)
        if self.rule not in LINGAPE_RULES:
            raise ValueError(f"rule={self.rule!r}: it must be one of {', '.join(LINGAPE_RULES)}.")
        for name in ("norm", "ridge"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name}={getattr(self, name)!r}: give a finite number above 0.")
        for name in ("epsilon", "growth"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}: give a finite number, 0 or more."
                )
        if not 1 <= self.batch <= CHUNK:
            raise ValueError(f"batch={self.batch!r}: give rows per visit between 1 and {CHUNK}.")

    # ---------------------------------------------------------------- as a strategy of identify
    def steps(self) -> Steps:
        """O(K d) a pull."""
        return LINEAR

    def numbers(self, arms: int) -> LinearNumbers:
        """Features on their span, and the bound's constants."""
        return linear_numbers(self, arms)

    def fresh(self, arms: int, params: Any) -> LinearState:
        """Nothing pulled."""
        return linear_state(params)

    def help(self, params: Any, state: Any) -> None:
        """The design of a pair."""
        add_design(params, state)

    # ----------------------------------------------------------------------- as a selector
    def build(self, sources: Sources) -> Any:
        """The compiled choice."""
        return linear_choice(sources)

    def params(self, shape: Shape) -> LinGapEParams:
        """As given."""
        if self.rule != "greedy":
            raise ValueError('LinGapE(rule="ratio") serves bandits only: use rule="greedy".')
        if self.epsilon > 0.0:
            raise ValueError(
                f"LinGapE(epsilon={self.epsilon!r}) names an arm that may not be the best, which "
                "delta then does not bound: as a selector use epsilon=0."
            )
        if not shape.shared:
            raise ValueError("LinGapE() needs arms that share their rows: use sm.Racing().")
        return LinGapEParams(shape.sizes[0], self.batch, linear_numbers(self, shape.arms))

    def scratch(self, shape: Shape) -> LinGapEScratch:
        """Nothing read."""
        state = linear_state(linear_numbers(self, shape.arms))
        within = np.ones(shape.arms, dtype=np.int64)
        rows = np.zeros(CHUNK, dtype=row_kind(max(shape.sizes)))
        return LinGapEScratch(state, rows, np.zeros(CHUNK), within)


@jit(inner=True)
def begin_anew(params, state, offsets, size):
    """As before the first pull."""
    now, features = state.now[0], params.features
    now.total = now.ended = now.count = 0
    state.size[0] = state.size[1] = state.size[2] = 0.0
    for i in range(len(state.inverse)):
        for j in range(len(state.inverse)):
            state.inverse[i, j] = 1.0 / params.ridge if i == j else 0.0
    for arm in range(len(features)):
        state.pulls[arm] = 0
        state.squares[arm] = 0.0
        state.means[arm] = state.estimates[arm] = state.lengths[arm] = 0.0
        state.offsets[arm] = offsets[arm] / size
        for j in range(features.shape[1]):
            state.lengths[arm] += features[arm, j] * features[arm, j] / params.ridge


@jit(inner=True)
def refuting(params, state):
    """An arm whose rewards by themselves are wider than noise, or means than norm allows; -1: none.

    So large a mean of n rewards has probability exp(-n (excess / noise)^2 / 2) at most.
    """
    sure = SURE_OF_EACH + log(2.0 * len(state.pulls))
    for k in range(len(state.pulls)):
        pulls, square = state.pulls[k], 0.0
        for j in range(params.features.shape[1]):
            square += params.features[k, j] * params.features[k, j]
        most = params.bias / sqrt(params.ridge) * sqrt(square)  # norm times the arm's length
        over = max(abs(state.means[k]) - most, 0.0) / params.noise
        squares = state.squares[k] / params.noise / params.noise
        if 0.5 * pulls * over * over > sure or beyond(float(pulls), squares, sure):
            return k
    return -1


@memoised
def linear_choice(sources: Sources) -> Any:
    """choose() for one reward."""
    rewards, total = sources.rewards, sources.total

    @jit(inner=True)
    def exact(context, offsets, params, scratch, spent, rounds, alive):
        """The sums of all rows of the arms that are in; of all, if an impossible one is among them.

        No linear function is -inf: what was ruled out by one was not ruled out at all.
        """
        best, highest, summed, arm = -1, -np.inf, 0, 0
        while arm < len(offsets):
            if offsets[arm] > -np.inf and scratch.within[arm] == 1:
                value = total(context, arm, params.size)
                spent += params.size
                summed += 1
                scratch.within[arm] = 2
                if not_a_sum(value):
                    return failed(NOT_FINITE, arm, -1, spent, rounds)
                if value + offsets[arm] > highest:
                    best, highest = arm, value + offsets[arm]
                if value == -np.inf:
                    for k in range(len(offsets)):
                        scratch.within[k] = max(scratch.within[k], 1)
                    arm = -1
            arm += 1
        if best < 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, spent, rounds)
        return Outcome(best, spent, rounds, RETREATED, alive - summed, -1, -1)

    @jit(inner=True)
    def contest(rng, context, offsets, params, scratch, alive):
        state, rows, values, m = scratch.state, scratch.rows, scratch.values, params.batch
        spent, rounds = 0, 0
        begin_anew(params.linear, state, offsets, params.size)
        while True:
            arm = linear_ask(params.linear, state, rng)
            if arm < 0:
                best, widest, squares, many = 0, 0, 0.0, 0.0
                for k in range(len(offsets)):
                    many += state.pulls[k]
                    squares += state.squares[k] / params.linear.noise / params.linear.noise
                    if state.squares[k] > state.squares[widest]:
                        widest = k
                refuted = refuting(params.linear, state)
                if refuted >= 0 or beyond(many, squares, SURE_OF_EACH):
                    widest = refuted if refuted >= 0 else widest
                    return failed(OUT_OF_SPREAD, widest, -1, spent, rounds)
                for k in range(len(offsets)):
                    if state.estimates[k] + state.offsets[k] > (
                        state.estimates[best] + state.offsets[best]
                    ):
                        best = k
                return Outcome(best, spent, rounds, RACED, alive - 1, -1, -1)
            if state.pulls[arm] + m > params.size or spent + m > alive * params.size:
                mark_rivals(params.linear, state, scratch.within)
                return exact(context, offsets, params, scratch, spent, rounds, alive)
            for i in range(m):
                rng[0] += WEYL
                rows[i] = below(hashed(rng[0]), params.size)
            rewards(context, arm, rows[:m], values[:m])
            value = 0.0
            for i in range(m):
                value += values[i]
            spent += m
            rounds += 1
            if not_a_sum(value):
                return failed(NOT_FINITE, arm, -1, spent, rounds)
            if value == -np.inf:  # no linear function is: impossible arms are found by summing
                for k in range(len(offsets)):
                    scratch.within[k] = 1
                return exact(context, offsets, params, scratch, spent, rounds, alive)
            apart, pulls = value / m - state.means[arm], state.pulls[arm]
            state.squares[arm] += apart * apart * m * pulls / (pulls + m)
            for i in range(m):
                state.squares[arm] += (values[i] - value / m) ** 2
            update(params.linear, state, arm, m, value / m)
            state.means[arm] += (value / m - state.means[arm]) * m / (state.pulls[arm] + m)
            state.pulls[arm] += m

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        alive, last = possible_arms(offsets)
        if alive == 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, 0, 0)
        if alive == 1:
            return Outcome(last, 0, 0, ALONE, 0, -1, -1)
        return contest(rng, context, offsets, params, scratch, alive)

    return choose
