"""Top-two rules for Gaussian arms, and the stopping rule that they share with Track-and-Stop.

They stop by the generalised likelihood ratio of the leader and its closest rival,

    N_1 N_b (mean_1 - mean_b)^2 / (2 s^2 (N_1 + N_b)) > threshold(t, delta).

"proved" is that of Kaufmann & Koolen (2021, Corollary 10) for Gaussian arms, 2 C(log((K - 1) /
delta) / 2) + 4 log(4 + log(t / 2)); "practice" log((1 + log t) / delta), that of the experiments of
Garivier & Kaufmann, which no theorem covers: with it nothing is promised.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy

from subsample_mcmc.bandits.strategies.ucb import Each, each
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

TOP_TWO_RULES = {"EB-TCI": 0, "T3C": 1, "TTTS": 2}
TRIES = 1000  # of Thompson draws for a challenger, before the closest rival is taken


class TopTwoNumbers(NamedTuple):
    """base: 2 C(..) of the proved threshold, else 0; beta: how often the leader is pulled."""

    level: float  # log(delta), which is finite where 1 / delta is not
    variance: float
    base: float
    rule: int
    beta: float


@jit(inner=True)
def threshold(params, total):
    """Of the likelihood ratio."""
    if params.base > 0.0:
        return params.base + 4.0 * log(4.0 + log(0.5 * total))
    return log(1.0 + log(total)) - params.level


@jit(inner=True)
def evidence(params, state, leader, rival):
    """The likelihood ratio of two arms; 0 if the rival is not behind."""
    gap = max(state.means[leader] - state.means[rival], 0.0)
    each = 1.0 / state.pulls[leader] + 1.0 / state.pulls[rival]
    return gap * gap / (2.0 * params.variance * each)


@jit(inner=True)
def closest(params, state, leader, penalty, rng):
    """(the rival with the least evidence against it, that evidence); penalty: plus log pulls.

    One of several at random: all that have a higher mean than a drawn leader tie at 0.
    """
    best, least, ties = -1, np.inf, 0
    for arm in range(len(state.pulls)):
        if arm != leader:
            found = evidence(params, state, leader, arm)
            if penalty:
                found += log(state.pulls[arm])
            if found < least:
                best, least, ties = arm, found, 1
            elif found == least:
                ties += 1
                if takes_over(ties, rng):
                    best = arm
    return best, least


@jit(inner=True)
def drawn(params, state, rng):
    """The best arm of a draw from the posterior under flat priors."""
    best, highest = 0, -np.inf
    for arm in range(len(state.pulls)):
        sd = sqrt(params.variance / state.pulls[arm])
        value = state.means[arm] + sd * rng.standard_normal()
        if value > highest:
            best, highest = arm, value
    return best


@jit(inner=True)
def top_two_ask(params, state, rng):
    now = state.now[0]
    first = pull_each_once(state, rng, state.order)
    if first >= 0:
        return first
    best = leading(state, rng)
    if closest(params, state, best, False, rng)[1] > threshold(params, now.total):
        return stop(state, OWN_RULE)
    now.count = 1
    leader = best if params.rule == 0 else drawn(params, state, rng)
    if rng.random() < params.beta:
        return leader
    if params.rule == 2:
        for _ in range(TRIES):
            other = drawn(params, state, rng)
            if other != leader:
                return other
    return closest(params, state, leader, params.rule == 0, rng)[0]


TOP_TWO = Steps(top_two_ask, tell_all, answer_mean)


@dataclass(frozen=True)
class TopTwo(Strategy):
    """Pull a leader with probability beta, else its challenger.

    delta: chance of a wrong arm at most.
    rule: "EB-TCI" (Jourdan, Degenne, Baudry, de Heide & Kaufmann 2022): the highest mean, and the
        rival with the least evidence plus log pulls against it; "T3C" (Shang et al. 2020): the
        best of a posterior draw, and the rival with the least evidence; "TTTS" (Russo 2016): both
        by posterior draws. O(K) a pull.
    scale: the standard deviation of Gaussian rewards.
    beta: how often the leader is pulled.
    threshold: "proved", by which it errs with probability delta at most; or "practice", which
        stops sooner and promises nothing, not even as delta goes to 0.
    Of equal means, or of rivals with equal evidence, one at random.
    """

    delta: float = 0.05
    scale: float = 1.0
    rule: str = "EB-TCI"
    beta: float = 0.5
    threshold: str = "proved"
    guarantee_of: ClassVar[dict[str, str]] = {"proved": "bounded", "practice": "none"}

    def __post_init__(self):
        check_delta(self.delta)
        check_scale(self.scale)
        if self.rule not in TOP_TWO_RULES:
            raise ValueError(f"rule={self.rule!r}: it must be one of {', '.join(TOP_TWO_RULES)}.")
        if not 0.0 < self.beta < 1.0:
            raise ValueError(f"beta={self.beta!r}: give the share of the leader's pulls, 0 .. 1.")
        check_threshold(self.threshold)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """Of the threshold."""
        return self.guarantee_of[self.threshold]

    def steps(self) -> Steps:
        """One pull at a time."""
        return TOP_TWO

    def numbers(self, arms: int) -> TopTwoNumbers:
        """As given."""
        base = base_of(self, arms)
        return TopTwoNumbers(
            log(self.delta), self.scale**2, base, TOP_TWO_RULES[self.rule], self.beta
        )

    def fresh(self, arms: int, params: Any) -> Each:
        """Nothing pulled."""
        return each(arms)


def base_of(strategy, arms: int) -> float:
    """2 C(log((K - 1) / delta) / 2) of the proved threshold, C(x) = min (g(l) + x) / l over l."""
    if strategy.threshold != "proved" or arms < 2:
        return 0.0
    from scipy.optimize import minimize_scalar  # .2 s at import, seldom needed

    x = 0.5 * (log(arms - 1) - log(strategy.delta))

    def value(at):
        sums = float(scipy.special.zeta(2.0 * at))
        return (2.0 * at - 2.0 * at * log(4.0 * at) + log(sums) - 0.5 * log(1.0 - at) + x) / at

    return 2.0 * float(
        minimize_scalar(value, bounds=(0.5 + 1e-9, 1.0 - 1e-9), method="bounded").fun
    )


def check_threshold(threshold) -> None:
    """Refuse other names."""
    if threshold not in TopTwo.guarantee_of:
        raise ValueError(f'threshold={threshold!r}: it must be "proved" or "practice".')
