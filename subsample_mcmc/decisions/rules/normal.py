"""Racing-Normal: sample means are taken as jointly Gaussian (Chen & Ghahramani 2016, 3.3.2)."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from subsample_mcmc.decisions.rules.bnormal import boundary_line, looks, read_boundary
from subsample_mcmc.decisions.rules.rule import (
    Rule,
    RuleFunctions,
    error_at,
    gap,
    skewness_at,
    standard_error,
    variance,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.records import record
from subsample_mcmc.target.population import Shape

# The guard trusts a mean of T rows once T >= GUARD_ROWS * skewness^2 * (B/z)^2, the last factor
# at least GUARD_FLOOR: a gap far above its bound needs less care. Measured on differences from
# LogNormal(0,1), LogNormal(0,2) and Gamma(.15) so that errors stay within delta >= .01.
GUARD_ROWS = 300.0
GUARD_FLOOR = 0.1
# Where the standard error is many nats, an error within delta may cost thousands of them. So an arm
# that may be more than `worst` nats better than the leader stays in the race until it is SURE
# standard errors off: once in 10^6 looks or so, by Student's t of the first look's 64 rows.
SURE = 5.0
CERTAIN = 1e6  # standard errors: as good as infinitely many, and their third power is a number
FLOORED = 64  # arms up to which a control variate says of each pair how widely it differs


@dataclass(frozen=True)
class Normal(Rule):
    """Drop an arm when its gap exceeds B standard errors, B = B_Normal(delta', first fraction).

    Sharp where means are nearly Gaussian; a heuristic where they are not, hence `asymptotic`.

    paired: variance of the difference to the leader on shared rows, delta' = delta/(D-1). False
        adds the two arms' own radii at delta' = delta/D; arms with rows of their own add
        variances instead (they are independent) and smooth them by one pseudo-observation.
    side: "table1" is the reading behind the paper's Table 1, valid for two arms; with more arms
        "eq5" is used, whose union over arms holds. "eq5" uses it always. "eq27" is the looser
        union over looks of appendix C.3, as printed: delta is not shared among arms.
    guard: corrects the gap for the skewness of the difference and reads on while the batch is
        too small for it. Paired differences only: paired=False is not guarded. It cannot see
        rare spikes that no row read so far contains: if those matter, declare a range and use
        Betting.
    worst: nats that an error may cost within delta. An arm that may be dropped, but would cost more
        if that were wrong, stays in the race until it is 5 standard errors off, or until racing on
        would be dearer than retreat= allows; then it is dropped, within delta. Goes with the
        guard; np.inf drops at once, as the paper does. With a control variate standard errors are
        below a nat, and nothing changes.
    prior: of arms with rows of their own, how many pseudo-observations of the usual spread their
        variance starts with. 0, the paper's: a few equal rewards pass for certainty.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.1], [0.3]], 1.0, (3, 50_000))
        >>> racing = sm.Racing(sm.Normal(guard=False), delta=0.001)
        >>> int(sm.choose(rewards, selector=racing, seed=1).arm)
        2
        >>> racing.guarantee
        'asymptotic'
    """

    paired: bool = True
    side: str = "table1"
    guard: bool = True
    worst: float = 20.0
    prior: float = 1.0
    guarantee: ClassVar[str] = "asymptotic"
    batch: ClassVar[int] = 64

    def __post_init__(self):
        if self.side not in ("table1", "eq5", "eq27"):
            raise ValueError(f'side={self.side!r}: it must be "table1", "eq5" or "eq27".')
        if not self.worst > 0.0:
            raise ValueError(
                f"worst={self.worst!r}: give the nats that a wrong arm may cost within delta, a "
                "positive number, or np.inf for any."
            )
        if not 0.0 <= self.prior < np.inf:
            raise ValueError(f"prior={self.prior!r}: give pseudo-observations, 0 or more.")

    @property
    def takes_floor(self) -> bool:
        """Paired differences of residuals may vary by few rows, which a small batch has not met."""
        return self.paired

    def boundaries_of_own_rows(self, delta: float) -> np.ndarray:
        """A union over looks and rivals; as printed, over looks alone."""
        return union_boundaries(delta, split=self.side != "eq27")

    def functions(self) -> RuleFunctions:
        """The compiled half."""
        return RuleFunctions(drop, start=start, sure=sure)

    def params(self, shape: Shape, delta: float, batch: int, growth: float):
        """B_Normal as a line over the first fraction, at the share of delta of one arm."""
        if not 0.0 < delta < 0.5:
            raise ValueError(
                f"delta={delta!r}: Normal() needs 0 < delta < 0.5 (its boundary is 0 at one half); "
                "use a smaller delta."
            )
        rivals = shape.arms - 1 if self.paired or not shape.shared else shape.arms
        side = self.side if shape.arms == 2 and rivals == 1 else "eq5"
        most = max(looks(batch / size, growth) for size in shape.sizes if size > 0)
        if self.side == "eq27":
            line = union_boundaries(delta, most, split=False)
        else:
            line = boundary_line(delta / max(rivals, 1), side, growth, most)
        kind = 0 if self.paired else (1 if shape.shared else 2)
        fields = record("line", "batch", "growth", "kind", "guard", "worst", "floor", "prior")
        guard = GUARD_ROWS if self.guard else 0.0
        floor = np.zeros((shape.arms if shape.arms <= FLOORED else 1, shape.arms))
        prior = float(self.prior)
        worst = float(self.worst)
        return fields(line, float(batch), float(growth), kind, guard, worst, floor, prior)

    def memory(self, shape: Shape):
        """B per arm: populations of different sizes have different first fractions."""
        return (np.zeros(shape.arms),)


def union_boundaries(delta: float, looks: int = 40, split: bool = True) -> np.ndarray:
    """B for races of 0, 1, ... looks that leave rows unread (rows), by Eq. 27: a union over looks.

    split: also over rivals, 1, 2, 4, ... 2^20 (columns); else one column, as printed.
    """
    from scipy.stats import norm

    rivals = 2.0 ** np.arange(21 if split else 1)
    count = np.maximum(np.arange(looks + 1), 1)[:, None]
    bounds = norm.isf(np.minimum(delta / count / rivals, 0.5))
    bounds[0] = 0.0
    return bounds


@jit(inner="always")
def start(race, params, memory):
    boundary = memory[0]
    for k in range(race.now[0].alive):
        arm = race.alive[k]
        fraction = params.batch / race.arms[arm].rows
        if k > 0 and race.arms[arm].rows == race.arms[race.alive[k - 1]].rows:
            boundary[arm] = boundary[race.alive[k - 1]]
        else:
            boundary[arm] = read_boundary(params.line, fraction, params.growth)


@jit(inner="always")
def corrected(z, skew, rows):
    """Hall's (1992) monotone transform of a studentised mean.

    To first order it undoes the term skew (2 z^2 + 1) phi(z) / (6 sqrt(T)) by which its tail
    exceeds the normal one.
    """
    if skew >= 0.0:
        return z
    a = skew / sqrt(rows)
    return z + a * (z * z / 3.0 + a * z * z * z / 27.0 + 1.0 / 6.0)


@jit(inner="always")
def guarded(z, skew, rows, params, bound):
    """The drop test on a difference whose skewness may have thinned the tail we look at.

    Only negative skewness of leader - arm is dangerous: the arm's rare large rewards are those
    a small batch misses, and then gap and standard error are both wrong in its disfavour.
    """
    if skew >= 0.0 or z <= bound:
        return z > bound
    if rows < params.guard * skew * skew * max(GUARD_FLOOR, (bound / z) ** 2):
        return False
    return corrected(z, skew, rows) > bound


@jit(inner="always")
def believed(race, params, arm):
    """Variance of leader - arm: the sample's, or more where a control variate knows better.

    Residuals may vary by few rows, which a small batch has not met.
    """
    seen, floor, leader = variance(race, arm), params.floor, race.now[0].leader
    if len(floor) == floor.shape[1]:
        return max(seen, floor[leader, arm])
    apart = sqrt(floor[0, leader]) + sqrt(floor[0, arm])  # each from one arm: at most that
    return max(seen, apart * apart)


@jit(inner="always")
def smoothed(race, arm, error, count):
    """Squared standard error with pseudo-observations of the spread seen over all arms.

    Three equal draws give variance 0 and would kill the right arm.
    """
    n, t = race.arms[arm].rows, race.arms[arm].drawn
    if t >= n:
        return 0.0
    pooled, rows = 0.0, 0.0
    for k in range(race.now[0].alive):
        own = race.arms[race.alive[k]]
        if own.seen > 0.0:  # an empty arm has nothing to tell
            pooled += own.second - own.first * own.first / own.seen
            rows += own.seen - 1.0
    prior = pooled / max(rows, 1.0)
    finite = 1.0 - (t - 1.0) / (n - 1.0)
    return error * error + count * n * n * prior * finite / (t * t)


@jit(inner="always")
def drop(race, params, memory, arm):
    leader, distance, bound = race.now[0].leader, gap(race, arm), memory[0][arm]
    if params.kind == 0:
        spread = believed(race, params, arm)
        error = error_at(race, arm, spread)
        if error <= 0.0:  # identical rewards so far: no information, read on
            return False
        if params.guard > 0.0 and bound > 0.0:
            skew = skewness_at(race, arm, spread)
            return guarded(distance / error, skew, race.arms[arm].drawn, params, bound)
        return distance > bound * error
    error = standard_error(race, arm)
    other = standard_error(race, leader)
    if params.kind == 1:
        if error <= 0.0 and other <= 0.0:
            return False
        return distance > bound * (error + other)
    # Independent populations: variances add, each smoothed by pseudo-observations.
    total = smoothed(race, arm, error, params.prior) + smoothed(race, leader, other, params.prior)
    exact = (
        race.arms[arm].drawn == race.arms[arm].rows
        and race.arms[leader].drawn == race.arms[leader].rows
    )
    if total <= 0.0 and not exact:
        return False
    return distance > max(bound, memory[0][leader]) * sqrt(total)


@jit(inner="always")
def sure(race, params, memory, arm):
    """Would the arm, if it is the better one after all, be so by at most `worst` nats."""
    if params.kind != 0 or params.guard == 0.0 or params.worst == np.inf:
        return True
    spread = believed(race, params, arm)
    error = error_at(race, arm, spread)
    if error <= 0.0:
        return True
    z = min((gap(race, arm) + params.worst) / error, CERTAIN)
    return corrected(z, skewness_at(race, arm, spread), race.arms[arm].drawn) > SURE
