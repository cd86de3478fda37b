"""Racing: a rule, a schedule and a retreat, on shared mini-batches."""

from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.race import RaceParams, RaceScratch, race_choice
from subsample_mcmc.decisions.rules.bnormal import b_normal
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.rules.rule import Rule, make_race
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import make_rows
from subsample_mcmc.target.population import Shape, whole
from subsample_mcmc.target.rewards import Sources

# The retreat: a gathered reward costs this many streamed ones, by number of rows (measured), and
# a race may cost this share of an exact decision before it must be sure to save it.
GATHER_COST = ((1 << 17, 3.0), (1 << 21, 4.0), (1 << 62, 8.0))
PATIENCE = 0.05
# With a control variate few decisions come to that, and a residual costs RESIDUAL_COST times
# a gathered log factor: rent or buy, at most twice the exact cost in such a decision.
RESIDUAL_COST, RESIDUAL_SHARE, RESIDUAL_PATIENCE = 4.0, 0.1, 1.0
FEW = 60  # batches of rows up to which a race that may retreat does so before its first look


@dataclass(frozen=True)
class Racing(Selector):
    """Read mini-batches for all surviving arms, drop those the rule allows, until one is left.

    rule: Normal() (default), BernsteinSerfling(spread=...), Betting(spread=...), or your own.
    delta: chance of a wrong arm per decision that the rule may spend.
    batch: rows before the first look; None takes the rule's own. A few are too few for Normal(): at
        delta=.05, of decisions between two arms that nearly tie, .2 are wrong with 2 rows (.09
        where an error may cost more than `worst` nats), .07 with 8; between forty, half with 2.
    growth: each look reads this many times the rows of the one before (2 = the paper's); 1.0
        means `batch` more rows each time, for rules made for that (TTest, Confidence).
        Rules that are valid at every row (Betting) look more often.
    retreat: stream the surviving arms exactly when that is cheaper than racing on. True: a decision
        costs at most about 1.1 times the exact one, in the worst case; with few rows this is
        decided before the first batch. A number r allows about 1.1 + r, for races that pay after
        some percent of the rows; False races to the end. With a control variate, where few
        decisions come to it, the worst is about 2 (2 + r) times. Where an arm proves impossible, by
        a reward of -inf, after others were dropped in its favour, all arms are summed in addition.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.1], [0.3]], 1.0, (3, 50_000))
        >>> choice = sm.choose(rewards, selector=sm.Racing(delta=0.01), seed=1)
        >>> int(choice.arm), bool(choice.pulls < rewards.size / 20)
        (2, True)
        >>> proved = sm.Racing(sm.Betting(spread=12.0), delta=0.01)  # all rewards within 12 nats
        >>> proved.guarantee, int(sm.choose(rewards, selector=proved, seed=1).arm)
        ('bounded', 2)
    """

    rule: Rule = Normal()
    delta: float = 0.05
    batch: int | None = None
    growth: float = 2.0
    retreat: bool | float = True
    takes_control: ClassVar[bool] = True

    def __post_init__(self):
        if not isinstance(self.delta, int | float | np.number):
            raise TypeError(
                f"delta={self.delta!r}: give a number between 0 and 1, the chance of a wrong arm, "
                "such as 0.05."
            )
        if not 0.0 < self.delta < 1.0:
            raise ValueError(
                f"delta={self.delta!r}: the chance of a wrong arm must lie strictly between 0 "
                "and 1; use Exact() if no error is allowed."
            )
        if self.batch is not None and (int(self.batch) != self.batch or self.batch < 2):
            raise ValueError(f"batch={self.batch!r}: give a whole number of rows, at least 2.")
        if not (self.growth == 1.0 or 1.01 <= self.growth <= 16.0):
            raise ValueError(
                f"growth={self.growth!r}: give a factor between 1.01 and 16, or 1.0 for looks of "
                "equal distance."
            )
        if not (isinstance(self.retreat, bool) or 0.0 < self.retreat < np.inf):
            raise ValueError(
                f"retreat={self.retreat!r}: give True, False, or a positive number, the share of "
                "an exact decision that a race may waste."
            )
        if not isinstance(self.rule, Rule):
            raise TypeError(
                f"rule={self.rule!r}: give a rule such as sm.Normal() or sm.Betting(spread=1.0)."
            )
        if self.growth == 1.0 and not (self.rule.anytime or self.rule.linear):
            raise ValueError(
                f"growth=1.0: {type(self.rule).__name__} spends delta over looks at growing "
                "numbers of rows; give a factor between 1.01 and 16, or a rule for looks of equal "
                "distance, TTest() or Confidence(spread=...)."
            )

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the rule promises."""
        return self.rule.guarantee

    @property
    def dropping_rule(self) -> Rule:
        """Its rule."""
        return self.rule

    def reads_everything(self, rows: int) -> bool:
        """Below two batches no race pays."""
        return rows < 2 * (self.batch or self.rule.batch)

    def first_batch(self, rows: int) -> int:
        """Its batch; with few rows a race that may retreat does so before the first look."""
        batch = int(self.batch or self.rule.batch)
        return 0 if self.retreat and rows <= FEW * batch else batch

    def build(self, sources: Sources) -> Any:
        """The compiled choice."""
        return race_choice(sources, self.rule.functions())

    def params(self, shape: Shape) -> Any:
        """Schedule, cost model and the rule's own numbers."""
        batch = int(self.batch or self.rule.batch)
        largest = max(shape.sizes)
        cost = next(cost for rows, cost in GATHER_COST if largest <= rows)
        if self.rule.compares_pairs and not shape.shared:
            raise ValueError(
                f"{type(self.rule).__name__} compares arms row by row, but these arms have rows of "
                "their own; use sm.Racing(sm.Normal(paired=False)), or "
                "BernsteinSerfling(..., paired=False) as its rule."
            )
        rule = self.rule.params(shape, self.delta, batch, self.growth)
        patience = RESIDUAL_PATIENCE if shape.residual_rewards else PATIENCE
        patience += 0.0 if isinstance(self.retreat, bool) else float(self.retreat)
        cost = cost * RESIDUAL_COST if shape.residual_rewards else cost
        cost += self.rule.cost * (RESIDUAL_SHARE if shape.residual_rewards else 1.0)
        return RaceParams(
            batch, float(self.growth), int(self.rule.anytime), int(shape.shared),
            int(self.rule.compares_pairs), int(self.rule.declares_range),
            cost if self.retreat else 0.0, patience, rule,
        )  # fmt: skip

    def scratch(self, shape: Shape) -> Any:
        """One set of rows if the arms share them, else one per arm."""
        sizes = shape.sizes[:1] if shape.shared else shape.sizes
        rows = make_rows(sizes, shape.barred)
        return RaceScratch(make_race(shape.sizes), rows, self.rule.memory(shape))

    def resize(self) -> Any:
        """Fewer rows, shared by the arms, than the scratch was made for."""
        return resize


@jit(inner=True)
def resize(params, scratch, rows):
    for arm in range(len(scratch.race.arms)):
        scratch.race.arms[arm].rows = rows
    scratch.rows.part[0].rows = rows
    scratch.rows.part[0].words = (rows + 63) // 64


@helpful
def expected_pulls(
    gap, size: int, arms: int, delta: float = 0.05, batch: int = 64, growth: float = 2.0,
    paired: bool = True,
):  # fmt: skip
    """Pulls that Racing-Normal does not exceed with probability 1 - delta, by the gap's size.

    D ceil_m( N / ((N-1) gap^2 / (4 B^2) + 1) ), B = B_Normal(delta/D', m/N), and ceil_m rounds up
    to the next look (Chen & Ghahramani 2016, Prop. 7; exact means and Gaussian sums assumed).

    It is about the paper's race, Racing(Normal(guard=False), retreat=False). The default reads on
    where an error would cost many nats, and gives up where exact sums are cheaper: of rewards
    without control variate nearly all its decisions read more than this. Of three arms and more the
    paper's race may, too, where its leader changes after 2,048 rows: 10% of decisions among five
    arms at a gap of .02, N=20,000, delta=.05.

    gap: smallest normalised gap of the best arm: (mean difference per row) / (standard deviation of
        the difference, paired; sum of the two standard deviations otherwise); an array works.
    size: rows, N.
    arms: how many, D.
    delta, batch, growth: as in sm.Racing.
    paired: moments are of differences: D' = D - 1; else of each arm, D' = D.

    Example:
        >>> gaps = np.array([0.001, 0.1, 1.0])  # of means, in sds of the difference
        >>> (sm.expected_pulls(gaps, 100_000, 2) / 200_000).round(3).tolist()  # of all rewards
        [1.0, 0.041, 0.001]
    """
    gap = np.asarray(gap, dtype=float)
    if not np.all(gap >= 0.0):
        raise ValueError(f"gap={gap!r}: give normalised gaps that are not negative.")
    size, arms = whole(size, "size", "how many rows"), whole(arms, "arms", "how many, at least 1")
    whole(batch, "batch", "the rows of the first look, at least 1")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta!r}: give a number between 0 and 1, such as 0.05.")
    if arms == 1 or batch >= size:
        pulls = np.full(gap.shape, 0.0 if arms == 1 else float(arms * size))
    else:
        side = "table1" if arms == 2 and paired else "eq5"
        bound = b_normal(delta / (arms - 1 if paired else arms), batch / size, side, growth)
        rows = size / ((size - 1) * gap**2 / (4.0 * bound**2) + 1.0)
        steps = np.ceil(np.maximum(np.log(rows / batch) / log(growth) - 1e-12, 0.0))
        pulls = arms * np.minimum(np.ceil(batch * growth**steps), size)
    return float(pulls) if pulls.ndim == 0 else pulls


@dataclass(frozen=True, repr=False)
class Default(Racing):
    """What stands in kernels that were given no selector: see Kernel.settled."""

    by_default: ClassVar[bool] = True

    def __repr__(self) -> str:
        return "Racing()"

    @property
    def itself(self) -> Racing:
        """A race."""
        return Racing()
