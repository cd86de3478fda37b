"""BayesGap as a strategy, and as a selector for large ordered supports.

As a selector the prior is over the totals of all arms, in nats: log likelihoods of a change point,
a bandwidth or a count are smooth along the support, so that a few arms teach about all of them. Of
the prior only differences count: nobody knows the level of a log likelihood. A pull is the exact
sum of one arm, or a mini-batch of its distances from one reference arm, whose noise is much less
than that of the rewards. The Gumbel noise is known and white: it is an offset of
each arm, never part of the prior. It ends when one arm is ahead by 3 standard deviations, or by the
budget. Nothing bounds the risk that the prior is wrong about arms that were never read.

A reward of -inf rules its arm out. If it is the reference's, another one is chosen and all begins
anew, with what is left of the budget. In a decision in which some arm was ruled out, the one that
is named was read to the end: sums that this takes come on top of the budget.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.bandits.selectors.bayesgap_belief import BayesGapParams, BayesGapScratch
from subsample_mcmc.bandits.selectors.bayesgap_loop import gap_choice
from subsample_mcmc.bandits.strategies.bayesgap import (
    BAYES_GAP,
    HARD,
    BayesGapNumbers,
    bayes_gap_numbers,
)
from subsample_mcmc.bandits.strategies.gaussian import Belief, belief
from subsample_mcmc.bandits.strategy import Steps, Strategy, settle_budget
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.rows import CHUNK, make_rows
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import Sources


@dataclass(frozen=True, repr=False)
class BayesGap(Selector, Strategy):
    """Pull the arm of least possible regret or its closest rival, whichever is less known.

    budget: pulls; as a selector, rewards read in a decision. It may be exceeded if arms are
        impossible, by N for each that would be named, until one is possible.
    covariance: of the means before anything is pulled, a (K, K) matrix; as a selector of totals in
        nats.
    prior_scale: its square multiplies covariance.
    mean: of the prior, a number or one for each arm; as a selector, up to a constant. Rewards of a
        bandit that lie far off it are warned of: arms that were not pulled are believed near it.
    noise: variance of one reward, a number or one for each arm; as a selector it is found from
        the mini-batches.
    epsilon: regret that does not matter: of the two, an arm this far below the best is no error.
    hardness: the paper's H if it is known, with which it bounds the chance of an arm more than
        epsilon below the best; None estimates it from bounds of 3 standard deviations, anew at
        every pull, and nothing is promised.
    all_pulled: the paper's exploration takes one pull for each arm out of the budget: fatal for
        budgets below the number of arms, and harmful just above (50 arms, 52 pulls: regret .12
        instead of .02). None: does so from two pulls for each arm.
    judge_last: let the last posterior count, which the paper's loop leaves out.
    batch: as a selector, rows of a pull; None: all of them.

    Example:
        >>> x = np.linspace(0.0, 1.0, 40)
        >>> prior = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2)  # neighbours are alike
        >>> def pull(data, arm, rng):
        ...     return data.means[arm] + 0.1 * rng.standard_normal()
        >>> data = {"means": np.sin(3.0 * x)}  # best near arm 20
        >>> found = sm.identify(pull, 40, sm.BayesGap(30, prior, noise=0.01), data=data, seed=1)
        >>> 18 <= found.arm <= 23  # with fewer pulls than arms
        True
    """

    budget: int
    covariance: Any
    noise: Any = None
    prior_scale: float = 1.0
    epsilon: float = 0.0
    mean: Any = 0.0
    hardness: float | None = None
    all_pulled: bool | None = None
    judge_last: bool = True
    batch: int | None = None
    guarantee: ClassVar[str] = "none"
    remedy: ClassVar[str] = "Check its covariance, or give a larger budget"

    @property
    def promise(self) -> str:
        """None but what the prior is worth."""
        return "as good as its prior of the totals: audit it"

    def __post_init__(self):
        settle_budget(self)
        if self.batch is not None and not 16 <= self.batch <= CHUNK:
            raise ValueError(f"batch={self.batch!r}: give rows per pull, 16 .. {CHUNK}, or None.")
        if not 0.0 <= self.epsilon < np.inf:
            raise ValueError(f"epsilon={self.epsilon!r}: give a finite regret, 0 or more.")
        if self.hardness is not None and not 0.0 < self.hardness < np.inf:
            raise ValueError(f"hardness={self.hardness!r}: give a finite number above 0, or None.")
        if not 0.0 < self.prior_scale < np.inf:
            raise ValueError(f"prior_scale={self.prior_scale!r}: give a finite number above 0.")

    # ---------------------------------------------------------------- as a strategy of identify
    def steps(self) -> Steps:
        """O(K d) a pull, d the rank of the covariance."""
        return BAYES_GAP

    def numbers(self, arms: int) -> BayesGapNumbers:
        """The prior's root, and the paper's kappa."""
        if self.noise is None:
            raise ValueError("BayesGap(noise=None): identify needs the variance of one reward.")
        return bayes_gap_numbers(self, arms, self.noise)

    def fresh(self, arms: int, params: Any) -> Belief:
        """The prior."""
        return belief(params.prior)

    def most_pulls(self, arms: int) -> int:
        """The budget."""
        return self.budget

    # ----------------------------------------------------------------------- as a selector
    def build(self, sources: Sources) -> Any:
        """The compiled choice."""
        return gap_choice(sources)

    def params(self, shape: Shape) -> BayesGapParams:
        """The prior, and bounds of 3 standard deviations."""
        if not shape.shared:
            raise ValueError("BayesGap() needs arms that share their rows: use sm.Racing().")
        size = shape.sizes[0]
        cost = size if self.batch is None or self.batch >= size else 2 * self.batch
        if self.budget < cost:
            raise ValueError(f"budget={self.budget}: one pull reads {cost} rewards, give more.")
        gap = bayes_gap_numbers(self, shape.arms, 1.0, HARD)
        return BayesGapParams(size, 0 if cost == size else self.batch or 0, gap)

    def scratch(self, shape: Shape) -> BayesGapScratch:
        """The prior, and rows of its own for every arm."""
        params = self.params(shape)
        return BayesGapScratch(
            make_rows(shape.sizes if params.batch else shape.sizes[:1]), belief(params.gap.prior),
            np.zeros((2, CHUNK)), np.zeros(shape.arms), np.zeros((shape.arms, 2)), np.zeros(4),
            np.zeros(1, dtype=np.int64), np.zeros(1),
        )  # fmt: skip
