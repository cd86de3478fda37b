"""Two published tests for Metropolis-Hastings, as rules for races of two arms: for comparison.

`TTest` is the sequential test of Korattikara, Chen & Welling (2014, ICML, Alg. 1), which looks
every `batch` rows and stops at one look's level. `Confidence` is the stopping rule of Bardenet,
Doucet & Holmes (2014, ICML), which spends delta over the looks as a convergent series. Chen &
Ghahramani (2016, section 4) derive both as special cases of their race: two arms, log u in the
offset of the current state. Normal and BernsteinSerfling are their successors.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar

import numpy as np
import scipy

from subsample_mcmc.decisions.rules.rule import (
    Rule,
    RuleFunctions,
    gap,
    standard_error,
    variance_as_seen,
)
from subsample_mcmc.decisions.rules.serfling import observe, radius, start
from subsample_mcmc.decisions.rules.spread import declared_spread
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.records import record
from subsample_mcmc.target.population import Shape


@dataclass(frozen=True)
class TTest(Rule):
    """Drop the arm behind when a t-test at level delta says so, at each look anew.

    Published with looks of equal distance: sm.Racing(sm.TTest(), delta=0.05, batch=500,
    growth=1.0, retreat=False). Two arms only.

    delta is the level of ONE look, the paper's epsilon; nothing corrects for looking again. So the
    error of a decision may be far above delta: .34 at delta = .05 with N/batch = 40 looks and
    arms that nearly tie (.19 at growth 2), where Normal(), whose delta is the decision's, has .05.
    Rewards that do not differ at all, variance zero, decide nothing: it reads on.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.3]], 1.0, (2, 50_000))
        >>> racing = sm.Racing(sm.TTest(), batch=500, growth=1.0)  # looks every 500 rows
        >>> int(sm.choose(rewards, selector=racing, seed=1).arm), racing.guarantee
        (1, 'asymptotic')
    """

    guarantee: ClassVar[str] = "asymptotic"
    batch: ClassVar[int] = 500
    linear: ClassVar[bool] = True
    paired: ClassVar[bool] = True

    def functions(self) -> RuleFunctions:
        """The compiled half."""
        return RuleFunctions(beyond_t)

    def params(self, shape: Shape, delta: float, batch: int, growth: float):
        """Student's upper quantile at every look, n - 1 degrees of freedom for n rows."""
        two_arms("TTest", shape)
        if not 0.0 < delta < 0.5:
            raise ValueError(
                f"delta={delta!r}: TTest() needs 0 < delta < 0.5, the one-sided level of a look; "
                "use a smaller delta."
            )
        rows = looks(max(shape.sizes), batch, growth)
        return record("rows", "critical")(rows, -scipy.special.stdtrit(rows - 1.0, delta))


@dataclass(frozen=True)
class Confidence(Rule):
    """Drop the arm behind when the gap exceeds a Bernstein-Serfling radius: TV <= delta, proved.

    Look t = 1, 2, ... may err with delta_t = (p - 1)/(p t^p) delta; these add up to at most delta
    however many looks there are, since sum t^-p <= p/(p - 1). Early looks get the most, where
    BernsteinSerfling shares alike among those it can have. Two arms only.

    spread: width of one interval that holds every reward of both arms, or one width per arm. It is
        checked against the rewards read; a violation is an error.
    p: how fast delta_t falls, above 1.

    Example:
        >>> rewards = np.random.default_rng(0).uniform([[0.0], [0.4]], 1.0, (2, 50_000))
        >>> racing = sm.Racing(sm.Confidence(spread=1.0))
        >>> int(sm.choose(rewards, selector=racing, seed=1).arm), racing.guarantee
        (1, 'bounded')
    """

    spread: float | np.ndarray | None = None
    p: float = 2.0
    guarantee: ClassVar[str] = "bounded"
    batch: ClassVar[int] = 64
    declares_range: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    paired: ClassVar[bool] = True

    def __post_init__(self):
        if not 1.0 < self.p < np.inf:
            raise ValueError(f"p={self.p!r}: give p > 1, or the looks' shares of delta diverge.")

    def functions(self) -> RuleFunctions:
        """The compiled half: the range is watched as BernsteinSerfling does."""
        return RuleFunctions(beyond_radius, observe, start)

    def params(self, shape: Shape, delta: float, batch: int, growth: float):
        """log(5/delta_t) at every look."""
        two_arms("Confidence", shape)
        spread = declared_spread("Confidence", self.spread, shape.arms)
        rows = looks(max(shape.sizes), batch, growth)
        shares = delta * (self.p - 1.0) / (self.p * (1.0 + np.arange(len(rows))) ** self.p)
        return record("spread", "rows", "terms")(spread, rows, np.log(5.0 / shares))

    def memory(self, shape: Shape):
        """Smallest and largest reward seen per arm."""
        return (np.zeros((shape.arms, 2)),)


def two_arms(rule: str, shape: Shape) -> None:
    """Refuse more arms than the paper's test is about."""
    if shape.arms > 2:
        raise ValueError(
            f"{rule}() compares two arms, as Metropolis and slice tests do, but this decision has "
            f"{shape.arms}; use Normal() or BernsteinSerfling(spread=...), its extensions."
        )


def looks(size: int, batch: int, growth: float) -> np.ndarray:
    """Rows read at each look before the one that has read everything; never empty."""
    if growth == 1.0:
        return np.arange(batch, max(size, batch + 1), batch, dtype=np.int64)
    found = [batch]
    while (after := max(found[-1] + 1, ceil(found[-1] * growth))) < size:
        found.append(after)
    return np.array(found, dtype=np.int64)


@jit(inner=True)
def look_at(rows, drawn):
    """Which look has read `drawn` rows."""
    low, high = 0, len(rows) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if rows[middle] <= drawn:
            low = middle
        else:
            high = middle - 1
    return low


@jit(inner="always")
def beyond_t(race, params, memory, arm):
    # The paper's s_l has divisor n - 1, the race's variance n.
    n = float(race.arms[arm].drawn)
    error = standard_error(race, arm) * sqrt(n / (n - 1.0))
    return error > 0.0 and gap(race, arm) > params.critical[look_at(params.rows, n)] * error


@jit(inner="always")
def beyond_radius(race, params, memory, arm):
    own, both = race.arms[arm], params.spread[0] + params.spread[1]
    term = params.terms[look_at(params.rows, own.drawn)]
    reach = radius(own.drawn, own.rows, variance_as_seen(race, arm), own.seen, both, term)
    return gap(race, arm) > own.rows * reach
