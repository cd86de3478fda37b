"""Racing-EBS: the empirical Bernstein-Serfling bound (Chen & Ghahramani 2016, Eq. 6-7).

Bardenet & Maillard (2015, Bernoulli 21(3), Thm 4): n rewards drawn without replacement from N
with range C have, with probability at least 1 - delta,

    mean_n - mean <= s_n sqrt(2 rho_n log(5/delta) / n) + kappa C log(5/delta) / n,

kappa = 7/3 + 3/sqrt(2), rho_n = 1 - (n-1)/N for n <= N/2, (1 - n/N)(1 + 1/n) above, s_n the
biased standard deviation. Union bounds over looks and over arms make it hold for a race.
"""

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import ClassVar

import numpy as np

from subsample_mcmc.decisions.rules.rule import Rule, RuleFunctions, gap, variance_as_seen
from subsample_mcmc.decisions.rules.spread import declared_spread, outside
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.records import record
from subsample_mcmc.target.population import Shape

KAPPA = 7.0 / 3.0 + 3.0 / sqrt(2.0)


@dataclass(frozen=True)
class BernsteinSerfling(Rule):
    """Drop an arm when its gap exceeds the Bernstein-Serfling radius: TV <= delta, proved.

    spread: width of one interval that holds every reward of every arm, or an array of widths
        per arm. It is checked against the rewards read; a violation is an error.
    paired: bound the difference to the leader at delta/(D-1) and range C_leader + C_arm; False
        adds two bounds at delta/D.

    Example:
        >>> rewards = np.random.default_rng(0).uniform([[0.0], [0.3]], 1.0, (2, 100_000))
        >>> racing = sm.Racing(sm.BernsteinSerfling(spread=1.0))
        >>> int(sm.choose(rewards, selector=racing, seed=1).arm), racing.guarantee
        (1, 'bounded')
    """

    spread: float | np.ndarray | None = None
    paired: bool = True
    guarantee: ClassVar[str] = "bounded"
    batch: ClassVar[int] = 2
    declares_range: ClassVar[bool] = True

    def functions(self) -> RuleFunctions:
        """The compiled half."""
        return RuleFunctions(drop, observe, start)

    def params(self, shape: Shape, delta: float, batch: int, growth: float):
        """log(5/delta'), one entry per number of rows of a population."""
        spread = declared_spread("BernsteinSerfling", self.spread, shape.arms)
        rivals = max(shape.arms - 1, 1) if self.paired else shape.arms
        terms = np.zeros(shape.arms)
        for arm, size in enumerate(shape.sizes):
            # t* - 1 looks come before the one that has read everything.
            early = max(ceil(log(max(size / batch, 1.0)) / log(growth) - 1e-9), 1)
            terms[arm] = log(5.0 * early * rivals / delta)
        return record("spread", "terms", "paired")(spread, terms, int(self.paired))

    def memory(self, shape: Shape):
        """Smallest and largest reward seen per arm."""
        return (np.zeros((shape.arms, 2)),)


@jit(inner="always")
def start(race, params, memory):
    seen = memory[0]
    if race.arms[race.alive[0]].drawn == 0:  # else an arm turned out impossible: keep watching
        for arm in range(len(race.arms)):
            seen[arm, 0], seen[arm, 1] = np.inf, -np.inf


@jit(inner="always")
def observe(race, params, memory, arm, rows, lo, hi):
    outside(race, params.spread, memory[0], arm, arm, rows, lo, hi)


@jit(inner=True)
def radius(n, size, s2, counted, spread, term):
    """The bound on mean_n - mean, at log(5/delta) = term, s2 estimated from `counted` <= n rows.

    The second term pays for estimating the deviation; with fewer rows it grows like 1/counted.
    """
    if n >= size:
        return 0.0
    rho = 1.0 - (n - 1.0) / size if 2 * n <= size else (1.0 - n / size) * (1.0 + 1.0 / n)
    return sqrt(2.0 * s2 * rho * term / n) + KAPPA * spread * term / min(n, counted)


@jit(inner="always")
def drop(race, params, memory, arm):
    own, best = race.arms[arm], race.arms[race.now[0].leader]
    s2, term = variance_as_seen(race, arm), params.terms[arm]
    if params.paired:
        both = params.spread[race.now[0].leader] + params.spread[arm]
        return gap(race, arm) > own.rows * radius(own.drawn, own.rows, s2, own.seen, both, term)
    reach = own.rows * radius(own.drawn, own.rows, s2, own.seen, params.spread[arm], term)
    leader = race.now[0].leader
    s2, term = variance_as_seen(race, leader), params.terms[leader]
    reach += best.rows * radius(best.drawn, best.rows, s2, best.seen, params.spread[leader], term)
    return gap(race, arm) > reach
