"""XY-allocation (Soare, Lazaric & Munos 2014): designs of experiments for linear arms.

With ordinary least squares and n pulls that were planned without looking, with probability
1 - delta for all n and arms,

    |x' (theta - estimate)| <= sqrt(8) s |x|_{A^-1} sqrt(log(6 / pi^2 n^2 K / delta)).

"static" pulls what shrinks the largest |x - x'|_{A^-1} over all pairs most; "adaptive" restarts in
phases, over the pairs of arms that are still possible; "oracle" knows theta, and weighs the pairs
with the best arm by their gaps: what no strategy can know. The arm each stops at is the best with
probability 1 - delta.
"""

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.gaussian import favourite
from subsample_mcmc.bandits.strategies.linear import invert, product, times_inverse
from subsample_mcmc.bandits.strategies.linear_arms import best_shares, check_noise, checked_features
from subsample_mcmc.bandits.strategy import (
    OWN_RULE,
    Steps,
    Strategy,
    begin,
    check_delta,
    highest_mean,
    note,
    stop,
)
from subsample_mcmc.numerics.jit import jit


# -------------------------------------------------------------------------- lengths of directions
class DesignNumbers(NamedTuple):
    """gaps: of each arm to the best, known to the oracle."""

    features: np.ndarray
    width: float
    level: float  # log(6 / pi^2 K / delta), of K or K^2 directions
    allocation: int
    best: int
    gaps: np.ndarray
    shares: np.ndarray  # of the oracle


class DesignState(NamedTuple):
    """Statistics of this phase, lengths x' A^-1 x', arms that are possible (1 or 0)."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    counts: np.ndarray
    centres: np.ndarray
    gram: np.ndarray  # (K, K)
    estimates: np.ndarray
    possible: np.ndarray
    room: np.ndarray  # (2 d + 2, d)
    levels: np.ndarray  # (worst length of the phase before per pull, of this one)


@jit(inner=True)
def afresh(params, state):
    """Lengths and estimates from the pulls of this phase."""
    features, arms = params.features, len(params.features)
    d = features.shape[1]
    matrix, inverse = state.room[:d], state.room[d : 2 * d]
    target, moved = state.room[2 * d], state.room[2 * d + 1]
    for i in range(d):
        target[i] = 0.0
        for j in range(d):
            matrix[i, j] = 0.0
    for arm in range(arms):
        for i in range(d):
            target[i] += state.counts[arm] * state.centres[arm] * features[arm, i]
            for j in range(d):
                matrix[i, j] += state.counts[arm] * features[arm, i] * features[arm, j]
    invert(matrix, inverse)
    for arm in range(arms):
        times_inverse(inverse, features[arm], moved)
        state.estimates[arm] = product(target, moved)
        for k in range(arms):
            state.gram[arm, k] = product(features[k], moved)


@jit(inner=True)
def apart(gram, i, j):
    """|x_i - x_j|^2_{A^-1}."""
    return gram[i, i] + gram[j, j] - 2.0 * gram[i, j]


@jit(inner=True)
def worst(params, state, arm):
    """The largest length of a direction after one more pull of an arm; arm < 0: as it is."""
    gram, found = state.gram, 0.0
    grow = 1.0 + gram[arm, arm] if arm >= 0 else 1.0
    for i in range(len(gram)):
        if state.possible[i]:
            for j in range(i):
                if state.possible[j]:
                    length = apart(gram, i, j)
                    if arm >= 0:
                        shared = gram[i, arm] - gram[j, arm]
                        length -= shared * shared / grow
                    found = max(found, length)
    return found


# ------------------------------------------------------------------------------------- the strategy
XY_ALLOCATIONS = {"static": 0, "adaptive": 1, "oracle": 2}
AFRESH = 1000  # pulls after which lengths are computed anew: rounding adds up
TIE = 1e-10  # relative: ties are the rule, and the lowest index would be pulled for ever
SHRINK = 0.1  # alpha of the adaptive phases


@jit(inner=True)
def bound(params, count):
    return params.width * sqrt(2.0 * log(count) + params.level)


@jit(inner=True)
def beaten(params, state, arm, by, wide):
    """Is an arm surely behind another."""
    lead = state.estimates[by] - state.estimates[arm]
    return lead > wide * sqrt(max(apart(state.gram, arm, by), 0.0))


@jit(inner=True)
def alone(params, state, best, wide):
    """Is an arm surely ahead of all others; the oracle knows by how much."""
    for j in range(len(state.gram)):
        if j != best:
            lead = (
                params.gaps[j]
                if params.allocation == 2
                else (state.estimates[best] - state.estimates[j])
            )
            if wide * sqrt(max(apart(state.gram, best, j), 0.0)) > lead:
                return False
    return True


@jit(inner=True)
def likeliest(state):
    """The possible arm with the highest estimate; of equal ones that of the arm pulled most."""
    best, pulls, estimates = -1, state.pulls, state.estimates
    for k in range(len(pulls)):
        if state.possible[k] and (
            best < 0
            or estimates[k] > estimates[best]
            or (estimates[k] == estimates[best] and pulls[k] > pulls[best])
        ):
            best = k
    return best


@jit(inner=True)
def open_phase(params, state):
    """Judge who is still possible by this phase, then forget all of it but who was best."""
    now, arms, wide = state.now[0], len(state.gram), bound(params, state.now[0].cursor)
    now.left = 0
    for k in range(arms):
        state.possible[k] = 1
        for j in range(arms):
            if j != k and beaten(params, state, k, j, wide):
                state.possible[k] = 0
        now.left += state.possible[k]
    now.second, now.first = likeliest(state), now.cursor
    state.levels[0] = state.levels[1]
    for k in range(arms):
        state.counts[k] = 0
        state.centres[k] = 0.0
    now.cursor = 0


@jit(inner=True)
def design_ask(params, state, rng):
    now, arms = state.now[0], len(params.features)
    now.count = 1
    if now.cursor < arms:  # each arm once, in every phase
        return now.cursor
    if now.cursor == arms or now.cursor % AFRESH == 0:
        afresh(params, state)
    if params.allocation == 1:
        state.levels[1] = worst(params, state, -1)
        if state.levels[1] <= SHRINK * state.levels[0]:
            open_phase(params, state)
            if now.left == 1:
                return stop(state, OWN_RULE)
            return 0
    else:
        best = params.best
        if params.allocation != 2:
            best = favourite(state.estimates, state.pulls)
        if alone(params, state, best, bound(params, now.cursor)):
            now.second = best
            return stop(state, OWN_RULE)
    chosen, least, ties = 0, np.inf, 0
    if params.allocation == 2:
        for arm in range(arms):
            share = params.shares[arm]
            if share > 0.0 and state.counts[arm] / share < least:
                chosen, least = arm, state.counts[arm] / share
        return chosen
    for arm in range(arms):
        found = worst(params, state, arm)
        if found < least * (1.0 - TIE):
            chosen, least, ties = arm, found, 1
        elif found <= least * (1.0 + TIE):
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = arm
    return chosen


@jit(inner=True)
def design_tell(params, state, arm, reward):
    now, gram = state.now[0], state.gram
    note(state, arm, reward)
    now.cursor += 1
    state.counts[arm] += 1
    gain = reward - state.estimates[arm]
    state.centres[arm] += (reward - state.centres[arm]) / state.counts[arm]
    if now.cursor <= len(gram):
        return
    grow = 1.0 + gram[arm, arm]
    row = state.levels[2:]
    for k in range(len(gram)):
        row[k] = gram[k, arm]
    for k in range(len(gram)):
        state.estimates[k] += row[k] * gain / grow
        for j in range(len(gram)):
            gram[k, j] -= row[k] * row[j] / grow


@jit(inner=True)
def design_answer(params, state):
    """The possible arm with the highest estimate: by the last phase, until this one is as long."""
    now = state.now[0]
    if params.allocation == 2:
        return params.best
    if now.total <= len(state.possible) and now.ended != OWN_RULE:  # nothing was estimated yet
        return highest_mean(state)
    if params.allocation == 1 and now.cursor < now.first:
        return now.second
    return likeliest(state)


DESIGN = Steps(design_ask, design_tell, design_answer)


@dataclass(frozen=True, eq=False, repr=False)
class XYAllocation(Strategy):
    """Experiments designed for the directions between arms; O(K^3) a pull.

    features: (K, d), one row for each arm.
    delta: chance of a wrong arm at most.
    noise: sub-Gaussian scale of rewards.
    allocation: "static", "adaptive" or "oracle".
    theta: the truth, for "oracle" alone.
    """

    features: Any
    delta: float = 0.05
    noise: float = 1.0
    allocation: str = "static"
    theta: Any = None
    guarantee = "bounded"
    scale_is = "noise"

    def __post_init__(self):
        check_delta(self.delta)
        check_noise(self.noise)
        if self.allocation not in XY_ALLOCATIONS:
            raise ValueError(
                f"allocation={self.allocation!r}: it must be one of {', '.join(XY_ALLOCATIONS)}."
            )
        if (self.theta is not None) != (self.allocation == "oracle"):
            raise ValueError(
                'theta is what allocation="oracle" knows: give it there, and only there.'
            )

    def steps(self) -> Steps:
        """One pull at a time."""
        return DESIGN

    def numbers(self, arms: int) -> DesignNumbers:
        """Features on their span; the oracle's gaps."""
        features = checked_features(self.features, arms)
        means = np.zeros(arms)
        if self.theta is not None:
            given, theta = np.array(self.features, dtype=float), np.array(self.theta, dtype=float)
            if theta.shape != given.shape[1:] or not np.isfinite(theta).all():
                raise ValueError(
                    f"theta={self.theta!r:.60}: give {given.shape[1]} finite numbers, one for each "
                    "column of features."
                )
            means = given @ theta
        best = int(means.argmax())
        gaps, shares = means[best] - means, np.zeros(arms)
        if self.theta is not None and arms > 1:
            others = np.delete(np.arange(arms), best)
            if gaps[others].min() == 0.0:
                raise ValueError("theta gives two arms the best mean: no design tells them apart.")
            shares = best_shares(features, (features[best] - features[others]) / gaps[others, None])
        level = log(6.0 / pi**2) + (1 if self.theta is not None else 2) * log(arms)
        return DesignNumbers(
            np.ascontiguousarray(features), sqrt(8.0) * self.noise, level - log(self.delta),
            XY_ALLOCATIONS[self.allocation], best, gaps, shares,
        )  # fmt: skip

    def fresh(self, arms: int, params: Any) -> DesignState:
        """Nothing pulled."""
        d = params.features.shape[1]
        levels = np.zeros(2 + arms)
        levels[:2] = 1.0 / (d * (d + 1) + 1)  # rho_0 / n_0
        return DesignState(
            *begin(arms), np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros((arms, arms)),
            np.zeros(arms), np.ones(arms, dtype=np.int64), np.zeros((2 * d + 2, d)), levels,
        )  # fmt: skip
