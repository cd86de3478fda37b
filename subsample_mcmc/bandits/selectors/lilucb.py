"""lil'UCB (Jamieson, Malloy, Nowak & Bubeck 2014), adapted to a finite population.

The arm with the highest upper confidence bound is pulled,

    mean_i + (1 + beta)(1 + sqrt(e)) sqrt(2 s^2 (1 + e) log(log((1 + e) T_i + 2) / nu) / T_i),

until one arm has more than lambda times the pulls of all others together; it is returned. The
"+ 2" is the paper's footnote 1 and keeps the iterated logarithm defined at T = 1. Adaptations of
Chen & Ghahramani (2016, section 3.2): rows without replacement, each arm its own; an arm that has
read all N rows has its exact mean as bound; and the race also ends when such an arm is on top.
"""

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.bandits.scale import SURE_OF_EACH, beyond
from subsample_mcmc.bandits.strategies.lil import (
    LIL,
    LilNumbers,
    LilState,
    iterated,
    lil_constants,
    lil_state,
)
from subsample_mcmc.bandits.strategy import Steps, Strategy
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    EXHAUSTED,
    NOT_FINITE,
    OUT_OF_SPREAD,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import Selector, failed, not_a_sum
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, Rows, make_rows, put_back, take
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import Sources

PILOT = 64  # rows per arm that estimate the scale when none is declared

ARM = np.dtype(
    [
        ("pulls", np.int64),
        ("total", float),
        ("squares", float),  # around the mean
        ("offset", float),  # per row: offset / N
        ("index", float),  # upper confidence bound
    ],
    align=True,
)


class LilUCBParams(NamedTuple):
    """Run-time numbers; `level` is the log of the paper's internal delta."""

    size: int
    width: float  # (1 + beta)(1 + sqrt(e)) sqrt(2 (1 + e))
    inflate: float  # 1 + e
    level: float
    patience: float  # lambda
    scale: float  # negative: estimate it
    sure: float  # nats by which rewards refute the scale; inf: nothing is promised
    batch: int  # 0: grow with the pulls of an arm


class LilUCBScratch(NamedTuple):
    """Arrays of one decision."""

    arms: np.recarray
    heap: np.ndarray  # arms in heap order, highest index first
    rows: Rows
    values: np.ndarray


@dataclass(frozen=True)
class LilUCB(Selector, Strategy):
    """Pull the arm with the highest LIL upper confidence bound until one dominates all others.

    delta: chance of a wrong arm that the theory variant bounds.
    variant: "theory" holds its Theorem 2 and needs `scale`; "heuristic" has the constants that
        its authors found fastest and no guarantee: with D = 100 arms it exceeds delta.
    scale: sub-Gaussian scale of the rewards, half their range; None (heuristic only) estimates
        a standard deviation from 64 rows of each arm.
    batch: rows per visit of an arm; 1 is the paper's, None grows to 1/32 of the arm's pulls (of
        sm.identify: None is 1). The bound holds at all times, so looking less often is valid; and
        after a visit of several rows an arm that dominates the others is returned only once it
        is on top again, as the theorem needs it.
    Rewards that are wider than the scale of the theory variant, as a selector, are a SpreadError.
    Of the theory variant, lambda is what the proof asks for (20.8 at delta = .1), not the 9 that
        its authors recommend: it stops the later for it.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.2], [1.0]], 1.0, (3, 20_000))
        >>> int(sm.choose(rewards, selector=sm.LilUCB(delta=0.1), seed=1).arm)
        2
    """

    delta: float = 0.05
    variant: str = "heuristic"
    scale: float | None = None
    batch: int | None = None

    def __post_init__(self):
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta={self.delta!r}: give a chance of error between 0 and 1.")
        if self.variant not in self.guarantee_of:
            raise ValueError(
                f"variant={self.variant!r}: it must be one of {', '.join(self.guarantee_of)}."
            )
        if self.scale is None and self.variant != "heuristic":
            raise ValueError(
                f'LilUCB(variant="{self.variant}") was given no scale: it needs the sub-Gaussian '
                "scale of the rewards; pass scale=half the width of their range."
            )
        if self.scale is not None and not 0.0 <= self.scale < np.inf:
            raise ValueError(f"scale={self.scale!r}: give a finite number that is not negative.")
        if self.batch is not None and not 1 <= self.batch <= CHUNK:
            raise ValueError(f"batch={self.batch!r}: give rows per visit between 1 and {CHUNK}.")

    guarantee_of: ClassVar[dict[str, str]] = {
        "theory": "bounded",
        "heuristic": "none",
        "experiment": "none",
    }

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """Bounded for the theory variant; none for the heuristic."""
        return self.guarantee_of[self.variant]

    @property
    def promise(self) -> str:
        """That of the heuristic, in words."""
        return "" if self.guarantee == "bounded" else "may err more often than delta: audit it"

    def build(self, sources: Sources) -> Any:
        """The compiled choice."""
        return lil_choice(sources)

    def params(self, shape: Shape) -> LilUCBParams:
        """The paper's constants for one population."""
        if len(set(shape.sizes)) != 1:
            raise ValueError(
                f"LilUCB() compares means, but the arms have {min(shape.sizes)} to "
                f"{max(shape.sizes)} rows; use Racing(Normal(paired=False)), which decides on "
                "totals."
            )
        e, width, level, patience = lil_constants(self.variant, self.delta, shape.arms)
        scale = -1.0 if self.scale is None else float(self.scale)
        sure = SURE_OF_EACH if self.guarantee == "bounded" else inf
        return LilUCBParams(
            shape.sizes[0], width, 1.0 + e, level, patience, scale, sure, self.batch or 0
        )

    # ---------------------------------------------------------------- as a strategy of identify
    def steps(self) -> Steps:
        """O(log K) a pull."""
        return LIL

    def numbers(self, arms: int) -> LilNumbers:
        """The paper's constants, times the scale."""
        if self.scale is None or self.scale == 0.0:
            raise ValueError(
                f"LilUCB(scale={self.scale}): identify needs the sub-Gaussian scale of rewards, "
                "above 0: their standard deviation if they are Gaussian, half the width of their "
                "range if they have one."
            )
        e, width, level, patience = lil_constants(self.variant, self.delta, arms)
        return LilNumbers(width * self.scale, 1.0 + e, level, patience, self.batch or 1)

    def fresh(self, arms: int, params: Any) -> LilState:
        """Nothing pulled."""
        return lil_state(arms)

    # ----------------------------------------------------------------------- as a selector
    def scratch(self, shape: Shape) -> LilUCBScratch:
        """Rows of its own for every arm."""
        arms = np.zeros(shape.arms, dtype=ARM).view(np.recarray)
        heap = np.zeros(shape.arms, dtype=np.int64)
        return LilUCBScratch(arms, heap, make_rows(shape.sizes), np.zeros(CHUNK))


@jit(inner=True)
def upper_bound(params, scale, own):
    """Upper confidence bound of the mean reward plus offset of one arm."""
    mean = own.total / own.pulls + own.offset
    if own.pulls >= params.size or mean == -np.inf:
        return mean
    return mean + params.width * scale * iterated(own.pulls, params.inflate, params.level)


@jit(inner=True)
def sink(arms, heap, place, count):
    """Restore heap order below `place`."""
    moving = heap[place]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and arms[heap[child + 1]].index > arms[heap[child]].index:
            child += 1
        if arms[moving].index >= arms[heap[child]].index:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moving


@memoised
def lil_choice(sources: Sources) -> Any:
    """choose() for one reward."""
    rewards = sources.rewards

    @jit(inner=True)
    def visit(rng, context, scratch, arm, m):
        """Pull `m` new rows of an arm; False if a reward cannot be added."""
        own, values, rows = scratch.arms[arm], scratch.values, scratch.rows
        at = take(rows, rng, arm, m)
        rewards(context, arm, rows.kept[at : at + m], values[:m])
        value, squares = 0.0, 0.0
        for i in range(m):
            value += values[i]
        mean = value / m
        for i in range(m):
            squares += (values[i] - mean) ** 2
        if own.pulls:  # two sets of squares, each around its own mean
            apart = mean - own.total / own.pulls
            squares += apart * apart * own.pulls / (own.pulls + m) * m
        own.pulls += m
        own.total += value
        own.squares += squares
        return not not_a_sum(value)

    @jit(inner=True)
    def deviation(scratch, alive):
        """Largest standard deviation among the pilots."""
        most = 0.0
        for k in range(alive):
            own = scratch.arms[scratch.heap[k]]
            if own.total > -np.inf:
                most = max(most, own.squares / own.pulls)
        return sqrt(most)

    @jit(inner=True)
    def widest(scratch, alive, params):
        """The arm of the most squares if rewards, or one arm's, are wider than the scale; or -1."""
        many, squares, arm, most = 0.0, 0.0, -1, 0.0
        scale, sure = params.scale, params.sure + log(alive)
        for k in range(alive):
            own = scratch.arms[scratch.heap[k]]
            if own.pulls > 1 and own.total > -np.inf:
                many += own.pulls
                squares += own.squares
                if scale > 0.0 and beyond(float(own.pulls), own.squares / scale / scale, sure):
                    return scratch.heap[k]
                if own.squares >= most * own.pulls:
                    arm, most = scratch.heap[k], own.squares / own.pulls
        wide = params.scale > 0.0 and beyond(
            many, squares / params.scale / params.scale, params.sure
        )
        return arm if wide or (params.scale == 0.0 and squares > 0.0) else -1

    @jit(inner=True)
    def contest(rng, context, params, scratch, alive):
        arms, heap, rounds, pulls = scratch.arms, scratch.heap, 0, 0
        first = 1 if params.scale >= 0.0 else min(PILOT, params.size)
        for k in range(alive):
            if not visit(rng, context, scratch, heap[k], first):
                return failed(NOT_FINITE, heap[k], -1, pulls, rounds)
            pulls += first
        scale = params.scale if params.scale >= 0.0 else deviation(scratch, alive)
        for k in range(alive):
            arms[heap[k]].index = upper_bound(params, scale, arms[heap[k]])
        for place in range(alive // 2 - 1, -1, -1):
            sink(arms, heap, place, alive)
        while True:
            arm = heap[0]
            own = arms[arm]
            if own.index == -np.inf:
                return failed(ALL_IMPOSSIBLE, -1, -1, pulls, rounds)
            done = own.pulls >= params.size
            if done or params.scale == 0.0:
                break
            # Only the arm just pulled can newly dominate: after one row at once, as in the paper;
            # after several here, where it is on top, for these may have taken a worse arm so far.
            if own.pulls >= 1.0 + params.patience * (pulls - own.pulls):
                break
            m = params.batch if params.batch > 0 else min(max(own.pulls >> 5, 1), CHUNK)
            m = min(m, params.size - own.pulls)
            if not visit(rng, context, scratch, arm, m):
                return failed(NOT_FINITE, arm, -1, pulls, rounds)
            pulls += m
            rounds += 1
            dominates = own.pulls >= 1.0 + params.patience * (pulls - own.pulls)
            if m == 1 and dominates and own.total > -np.inf:
                break
            own.index = upper_bound(params, scale, own)
            sink(arms, heap, 0, alive)
        if not done and params.sure < np.inf:
            arm_of_most = widest(scratch, alive, params)
            if arm_of_most >= 0:
                return failed(OUT_OF_SPREAD, arm_of_most, -1, pulls, rounds)
        unread = 0
        for k in range(alive):
            other = arms[heap[k]]
            unread += 1 if other.pulls < params.size and other.total > -np.inf else 0
        return Outcome(arm, pulls, rounds, EXHAUSTED if done else RACED, unread, -1, -1)

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        alive = 0
        for arm in range(len(offsets)):
            own = scratch.arms[arm]
            own.pulls, own.total, own.squares = 0, 0.0, 0.0
            own.offset = offsets[arm] / params.size
            if offsets[arm] > -np.inf:
                scratch.heap[alive] = arm
                alive += 1
        if alive == 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, 0, 0)
        if alive == 1:
            return Outcome(scratch.heap[0], 0, 0, ALONE, 0, -1, -1)
        choice = contest(rng, context, params, scratch, alive)
        put_back(scratch.rows)
        return choice

    return choose
