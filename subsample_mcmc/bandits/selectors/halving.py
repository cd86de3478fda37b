"""Sequential halving: a decision of fixed cost, for bandits and for finite populations.

As a strategy of sm.identify it is that of bandits/strategies/halving.py. As a selector it differs
where a population is finite and rows are shared: sums are kept over all stages, arms read the same
rows in the same order, and what is compared, and whose variance is estimated, is the difference
from the leader on the rows that both have read, with the factor 1 - T / N of drawing without
replacement. The theorems of the papers hold for fresh Gaussian rewards in every stage: none is
claimed here.

What it does at the edges:
- Budget for less than two rewards of each arm: as many arms as can have two enter, those with the
  highest offsets (log prior plus Gumbel, which cost nothing). The others are dropped unread.
- Rewards of -inf drop their arm for good. If all who are left meet one, those dropped before come
  back, with what is known of them and what is left of the budget, which may be nothing: then the
  best of them by that is named, read or not. The budget holds all the same.
- A decision counts as exact (dropped_early = 0) where the arm is the argmax for certain: each of
  the others was impossible, or its whole sum was less than another whole sum.
- Variances of "known-variance" are those of a single reward log_factor(data, arm, n) over the rows
  n, in nats squared. A difference from the leader is given the sum of the two. Rows are shared, so
  that rewards that vary together make the true one less; only ratios matter, so this does no harm
  where it is less by the same factor for all arms. "adaptive-variance" estimates the difference's
  own. (As a strategy of sm.identify: those of a pull.)
"""

from dataclasses import dataclass
from math import floor, log
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.bandits.heap import make_heap
from subsample_mcmc.bandits.selectors.halving_loop import halving_choice
from subsample_mcmc.bandits.selectors.halving_stage import (
    APART,
    NEVER,
    HalvingParams,
    HalvingScratch,
    columns_of,
)
from subsample_mcmc.bandits.strategies.halving import (
    HALVING,
    HALVING_ALLOCATIONS,
    HalvingNumbers,
    HalvingState,
    halving_numbers,
    halving_state,
)
from subsample_mcmc.bandits.strategy import Steps, Strategy, check_delta
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.rows import CHUNK, make_rows, row_kind
from subsample_mcmc.target.population import Shape, whole
from subsample_mcmc.target.rewards import Sources


@dataclass(frozen=True, repr=False)
class SequentialHalving(Selector, Strategy):
    """Keep the better half of the arms, stage by stage, for a budget that is never exceeded.

    budget: rewards read in one decision (of a bandit: pulls). A decision that could read all of
        them for it is exact. With less than two for each arm, those with the highest log prior plus
        Gumbel are read, and the others dropped unread.
    allocation: within a stage, "equal"; "known-variance", by `variances` (SHVar); or
        "adaptive-variance", by upper bounds of the estimated ones (SHAdaVar).
    variances: of one reward of each arm, over its rows or pulls (nats squared in a sampler).
    delta: chance that the bound of a variance is too low, with "adaptive-variance".
    Nothing bounds the error: audit it.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.2], [1.0]], 1.0, (3, 20_000))
        >>> choice = sm.choose(rewards, selector=sm.SequentialHalving(budget=600), seed=1)
        >>> int(choice.arm), bool(choice.pulls <= 600)
        (2, True)
    """

    budget: int
    allocation: str = "equal"
    variances: Any = None
    delta: float = 0.05
    guarantee: ClassVar[str] = "none"
    remedy: ClassVar[str] = "Give a larger budget"
    risk = None  # delta is that of variances

    @property
    def promise(self) -> str:
        """Of the cost alone."""
        return f"at most {self.budget:,} rewards a decision, no bound on its error: audit it"

    def __post_init__(self):
        meaning = "the number of rewards (or pulls) of a decision, a whole number, at least 1"
        if not 1 <= self.budget < np.inf:  # nan, too
            raise ValueError(f"budget={self.budget!r}: give {meaning}.")
        object.__setattr__(self, "budget", whole(self.budget, "budget", meaning))
        check_delta(self.delta)
        if self.allocation not in HALVING_ALLOCATIONS:
            raise ValueError(
                f"allocation={self.allocation!r}: it must be one of "
                f"{', '.join(HALVING_ALLOCATIONS)}."
            )
        if (self.variances is not None) != (self.allocation == "known-variance"):
            raise ValueError(
                'variances are what allocation="known-variance" knows: give them there, only there.'
            )

    # ---------------------------------------------------------------- as a strategy of identify
    def steps(self) -> Steps:
        """Stages; O(log K) a pull."""
        return HALVING

    def numbers(self, arms: int) -> HalvingNumbers:
        """Budgets of stages."""
        return halving_numbers(self.budget, arms, self.allocation, self.variances, self.delta)

    def fresh(self, arms: int, params: Any) -> HalvingState:
        """All arms are in."""
        return halving_state(arms)

    def most_pulls(self, arms: int) -> int:
        """The budget."""
        return self.budget

    # ----------------------------------------------------------------------- as a selector
    def build(self, sources: Sources) -> Any:
        """The compiled choice."""
        return halving_choice(sources)

    def params(self, shape: Shape) -> HalvingParams:
        """As given."""
        if not shape.shared:
            raise ValueError(
                "SequentialHalving() compares arms on the rows that both have read, but these arms "
                "have rows of their own: use Racing(Normal(paired=False))."
            )
        known = np.zeros(0) if self.variances is None else np.array(self.variances, dtype=float)
        if self.variances is not None and known.shape != (shape.arms,):
            raise ValueError(
                f"variances has shape {known.shape}: give one number for each of {shape.arms} arms."
            )
        if not np.all((known >= 0.0) & (known < np.inf)):
            raise ValueError(
                f"variances={self.variances!r:.60}: give a finite number, 0 or more, for each arm."
            )
        risk, allocation = log(1.0 / self.delta), HALVING_ALLOCATIONS[self.allocation]
        least = (NEVER, 1, floor(4.0 * risk + 1.0) + 1)[allocation]
        # No more than there is: an int64 holds it, whatever was given.
        budget = min(self.budget, shape.arms * shape.sizes[0])
        return HalvingParams(shape.sizes[0], budget, allocation, least, risk, known)

    def scratch(self, shape: Shape) -> HalvingScratch:
        """Room for the sums of all batches that an arm may read."""
        longest = min(shape.sizes[0], self.budget)
        return HalvingScratch(
            make_rows(shape.sizes[:1]), np.zeros(longest, dtype=row_kind(max(shape.sizes))),
            np.zeros((shape.arms, columns_of(longest))), np.zeros(shape.arms, dtype=np.int64),
            np.zeros(shape.arms, dtype=np.int64), np.zeros(shape.arms), make_heap(shape.arms),
            np.zeros(shape.arms, dtype=APART).view(np.recarray), np.zeros(1, dtype=np.int64),
            np.zeros(CHUNK), np.zeros(1, dtype=np.bool_), np.zeros(1),
        )  # fmt: skip
