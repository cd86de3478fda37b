"""Fixed budgets by gaps and confidence: UCB-E, UGapEb, GapE and GapE-V.

They explore by a constant that depends on how hard the bandit is, which its user does not know:
`hardness` gives it from true means, None estimates it from the means so far, at each pull.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategy import (
    BUDGET,
    Steps,
    Strategy,
    answer_mean,
    begin,
    check_scale,
    settle_budget,
    shuffle,
    stop,
    takes_over,
    tell_all,
)
from subsample_mcmc.numerics.jit import jit

UCB_E, U_GAP_E, GAP_E, GAP_E_V = range(4)
# (share of the free budget per unit of hardness, pulls of each arm before that) of each index.
SHARES = (25.0 / 36.0, 0.25, 4.0 / 9.0, 8.0 / 9.0)


class UGapNumbers(NamedTuple):
    """hardness: below zero, estimated; width: the range b of rewards."""

    budget: int
    rule: int
    share: float
    first: int
    hardness: float
    width: float
    epsilon: float
    inside: int  # b^2 is a factor of the hardness


class Gaps(NamedTuple):
    """Gaps to the best other arm; order of the first round; the answer of UGapE."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray
    gaps: np.ndarray


@jit(inner=True)
def best_two(values):
    """(the highest, its place, the highest but one); of several highest the first place.

    It has no dice, and where gaps are made of it none are needed: the highest but one is as high.
    """
    best, place, second = -np.inf, 0, -np.inf
    for i in range(len(values)):
        if values[i] > best:
            best, place, second = values[i], i, best
        elif values[i] > second:
            second = values[i]
    return best, place, second


@jit(inner=True)
def fill_gaps(state):
    """|best other mean - own mean| of every arm."""
    best, place, second = best_two(state.means)
    for arm in range(len(state.means)):
        state.gaps[arm] = abs((second if arm == place else best) - state.means[arm])


@jit(inner=True)
def hardness_of(params, state):
    """The estimate from the gaps so far, bounded away from infinity."""
    total, b = 0.0, params.width
    for arm in range(len(state.gaps)):
        gap = max(state.gaps[arm], 1e-3 * b)
        if params.rule == U_GAP_E:
            half = max(0.5 * (state.gaps[arm] + params.epsilon), params.epsilon, 1e-3 * b)
            total += b * b / (half * half)
        elif params.rule == GAP_E_V:
            variance = state.squares[arm] / state.pulls[arm]
            root = sqrt(variance) + sqrt(variance + 16.0 / 3.0 * b * gap)
            total += root * root / (gap * gap)
        else:
            total += (b * b if params.inside else 1.0) / (gap * gap)
    return total


@jit(inner=True)
def undecided(state, width, rng):
    """UGapE: the less pulled of the arm with the least possible regret and its closest rival.

    Ties at random, each of them.
    """
    now, arms = state.now[0], len(state.pulls)
    uppers = state.gaps
    for arm in range(arms):
        uppers[arm] = state.means[arm] + width / sqrt(state.pulls[arm])
    best, place, second = best_two(uppers)
    leader, least, ties = 0, np.inf, 0
    for arm in range(arms):
        lower = state.means[arm] - width / sqrt(state.pulls[arm])
        regret = (second if arm == place else best) - lower
        if regret < least:
            leader, least, ties = arm, regret, 1
        elif regret == least:
            ties += 1
            if takes_over(ties, rng):
                leader = arm
    rival, ties = -1, 0
    for arm in range(arms):
        if arm == leader:
            continue
        if rival < 0 or uppers[arm] > uppers[rival]:
            rival, ties = arm, 1
        elif uppers[arm] == uppers[rival]:
            ties += 1
            if takes_over(ties, rng):
                rival = arm
    if least < now.value or now.first == 0:  # the arm that was named with the least regret
        now.value, now.second, now.first = least, leader, 1
    if state.pulls[leader] == state.pulls[rival]:
        return leader if takes_over(2, rng) else rival
    return leader if state.pulls[leader] < state.pulls[rival] else rival


@jit(inner=True)
def gaps_ask(params, state, rng):
    now, order = state.now[0], state.order
    arms = len(order)
    if now.total == params.budget:
        return stop(state, BUDGET)
    now.count = 1
    if now.total < params.first * arms:
        if now.total == 0:
            shuffle(order, rng)
        return order[now.total % arms]
    fill_gaps(state)
    hardness = params.hardness if params.hardness > 0.0 else hardness_of(params, state)
    a, b = params.share * max(params.budget - params.first * arms, 1) / hardness, params.width
    if params.rule == U_GAP_E:
        return undecided(state, sqrt(a) * b, rng)
    best, highest, ties = 0, -np.inf, 0
    for arm in range(arms):
        pulls = state.pulls[arm]
        if params.rule == UCB_E:
            index = state.means[arm] + b * sqrt(a / pulls)
        elif params.rule == GAP_E:
            index = -state.gaps[arm] + b * sqrt(a / pulls)
        else:
            variance = state.squares[arm] / pulls
            index = -state.gaps[arm] + sqrt(2.0 * a * variance / pulls)
            index += 7.0 * a * b / (3.0 * (pulls - 1))
        if index > highest:
            best, highest, ties = arm, index, 1
        elif index == highest:
            ties += 1
            if takes_over(ties, rng):
                best = arm
    return best


@jit(inner=True)
def gaps_answer(params, state):
    """UGapE names the arm whose regret was bounded best at any time."""
    if params.rule == U_GAP_E and state.now[0].first:
        return state.now[0].second
    return answer_mean(params, state)


GAPS = Steps(gaps_ask, tell_all, gaps_answer)


@dataclass(frozen=True)
class ByGaps(Strategy):
    """What UCBE, UGapE, GapE and GapEV share. Equal indices are told apart at random.

    What their arguments are stands at UCBE.
    """

    budget: int
    width: float = 1.0
    hardness: float | None = None

    rule = UCB_E
    first = 1

    def __post_init__(self):
        settle_budget(self)
        check_scale(self.width, "width")
        if not 0.0 <= getattr(self, "epsilon", 0.0) < np.inf:
            raise ValueError(f"epsilon={self.epsilon!r}: give a finite regret, 0 or more.")
        if self.hardness is not None and not 0.0 < self.hardness < np.inf:
            raise ValueError(
                f"hardness={self.hardness!r}: give a finite number above 0 (two best arms with "
                "equal means have none), or None to estimate it from rewards."
            )

    def steps(self) -> Steps:
        """One pull at a time, O(K)."""
        return GAPS

    def numbers(self, arms: int) -> UGapNumbers:
        """As given."""
        if self.budget < self.first * arms:
            raise ValueError(
                f"budget={self.budget}: {type(self).__name__} pulls each of {arms} arms "
                f"{self.first} times before it compares them."
            )
        hardness = -1.0 if self.hardness is None else self.hardness
        return UGapNumbers(
            self.budget, self.rule, SHARES[self.rule], self.first, hardness, self.width,
            getattr(self, "epsilon", 0.0), int(getattr(self, "b_in_hardness", True)),
        )  # fmt: skip

    def fresh(self, arms: int, params: Any) -> Gaps:
        """Nothing pulled."""
        return Gaps(*begin(arms), np.arange(arms), np.zeros(arms))

    def most_pulls(self, arms: int) -> int:
        """As given."""
        return self.budget


@dataclass(frozen=True)
class UCBE(ByGaps):
    """UCB-E (Audibert, Bubeck & Munos 2010): the highest mean + b sqrt(a / T).

    budget: pulls in all.
    width: of the range of rewards.
    hardness: the sum that the constant is made of, by `hardness_of_means`; None: estimated from the
        means so far.
    """


@dataclass(frozen=True)
class UGapE(ByGaps):
    """UGapEb (Gabillon, Ghavamzadeh & Lazaric 2012): the least possible regret, or its rival.

    budget, width, hardness: as in sm.bandits.UCBE.
    epsilon: its error is to name an arm whose mean is more than this below the best.
    """

    epsilon: float = 0.0
    rule = U_GAP_E


@dataclass(frozen=True)
class GapE(ByGaps):
    """GapE (Gabillon, Ghavamzadeh, Lazaric & Bubeck 2011): the highest b sqrt(a / T) - gap.

    budget, width, hardness: as in sm.bandits.UCBE.
    b_in_hardness: H = sum b^2 / gap^2, as its theorem; False: sum 1 / gap^2, by which the
        experiments of Lalitha et al. (2023) come out.
    """

    b_in_hardness: bool = True
    rule = GAP_E


@dataclass(frozen=True)
class GapEV(ByGaps):
    """GapE-V: variances in the index, sqrt(2 a s^2 / T) + 7 a b / (3 (T - 1)) - gap.

    budget, width, hardness: as in sm.bandits.UCBE.
    """

    rule = GAP_E_V
    first = 2


# --------------------------------------------------------------------------- how hard a bandit is
def hardness_of_means(strategy: type, means, width=1.0, variances=None, epsilon=0.0, inside=True):
    """The hardness that a strategy's constant is made of, from true means (and variances).

    Two best arms are infinitely hard to tell apart, one arm is nothing to tell: both are refused,
    but for UGapE with epsilon above 0, which need not tell them apart.

    strategy: a class, UCBE, UGapE, GapE or GapEV.
    means: true ones, of two arms or more.
    width: as in sm.bandits.UCBE.
    variances: true ones, which GapEV needs.
    epsilon: as in sm.bandits.UGapE.
    inside: what GapE calls b_in_hardness.
    """
    if strategy not in (UCBE, UGapE, GapE, GapEV):
        raise TypeError(
            f"strategy={strategy!r:.60}: give one of the classes UCBE, UGapE, GapE and GapEV, as "
            "sm.bandits.UGapE, not one of their objects."
        )
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon={epsilon!r}: give a regret, 0 or more.")
    means = np.asarray(means, dtype=float)
    if means.ndim != 1 or len(means) < 2 or not np.all(np.isfinite(means)):
        raise ValueError(f"means={means!r:.60}: give the finite means of two arms or more.")
    ordered = np.sort(means)
    gaps = np.where(means == ordered[-1], ordered[-1] - ordered[-2], ordered[-1] - means)
    if ordered[-1] == ordered[-2] and not (strategy is UGapE and epsilon > 0.0):
        raise ValueError(
            f"{np.sum(means == ordered[-1])} of {len(means)} arms have the highest mean, "
            f"{ordered[-1]}: nothing finite is the hardness of telling them apart. Pass "
            "hardness=None to the strategy, or use UGapE with epsilon above 0."
        )
    if strategy is UGapE:
        return float(np.sum(width**2 / np.maximum(0.5 * (gaps + epsilon), epsilon) ** 2))
    if strategy is GapEV:
        v = np.asarray(variances, dtype=float)
        if v.shape != means.shape or not np.all(v >= 0.0) or not np.all(np.isfinite(v)):
            raise ValueError(
                f"variances={variances!r:.60}: GapEV needs a number, 0 or more, for each of "
                f"{len(means)} arms."
            )
        return float(np.sum(((np.sqrt(v) + np.sqrt(v + 16.0 / 3.0 * width * gaps)) / gaps) ** 2))
    return float(np.sum((width**2 if inside else 1.0) / gaps**2))
