"""What a race keeps, and what a rule is: the seam between reading data and dropping arms.

A race reads mini-batches for the arms still alive and keeps their sums; a rule decides when an
arm may be dropped. Scores and gaps are totals in nats: N * mean + offset. A rule is a frozen
dataclass and compiled functions, of which it needs the last:

    start(race, params, memory)                         a new decision begins
    observe(race, params, memory, arm, rows, lo, hi)    columns lo:hi of race.values were just read
    sure(race, params, memory, arm) -> bool             would it be no harm to drop `arm` now
    drop(race, params, memory, arm) -> bool             may `arm` be dropped, given the leader

`observe` is called when every arm on shared rows has read the columns, and before the arms' total
and drawn count them: what it finds there is the past.

examples/own_rule.py writes one in 20 lines.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.rows import CHUNK
from subsample_mcmc.target.population import Shape

BUFFER = 2048  # rewards kept per arm, to compare with a leader that was not the leader before

# How a decision ended; negative codes become exceptions in Python.
ALONE, EXACT, RACED, EXHAUSTED, RETREATED = range(5)
PREDICTED = RETREATED + 1  # beside the ends of a race: no row was read
ENDINGS = ("alone", "exact", "raced", "exhausted", "retreated")
NOT_FINITE, ALL_IMPOSSIBLE, OUT_OF_SPREAD, BEYOND_BOUND = -1, -2, -3, -4


class Outcome(NamedTuple):
    """One decision: the arm and what it cost, or a negative `ended` and who is to blame.

    arm: its number; -1 where there is none.
    pulls: rewards that were read.
    rounds: mini-batches that were read.
    ended: how, an index of ENDINGS; negative, an error.
    dropped_early: arms dropped by the rule before all their rows were read.
    bad_arm, bad_row: whose reward was the error; -1 of none.
    """

    arm: int
    pulls: int
    rounds: int
    ended: int
    dropped_early: int
    bad_arm: int
    bad_row: int


# One record per arm: fewer arrays than one per field, and so less to compile.
ARM = np.dtype(
    [
        ("rows", np.int64),  # rows of the arm's population
        ("drawn", np.int64),  # rows read
        ("offset", float),  # what does not depend on data
        ("total", float),  # sum of the rewards read
        ("latest", float),  # sum of the latest chunk
        ("score", float),  # size * mean + offset, in nats
        # Count, shift and power sums of leader - arm (paired), or of the arm's own rewards:
        ("seen", float),
        ("shift", float),
        ("grain", float),  # what of them may be rounding, as a part of 1 in a double
        ("first", float),
        ("second", float),
        ("third", float),
    ],
    align=True,
)
NOW = np.dtype(
    [
        ("alive", np.int64),  # how many arms are left
        ("leader", np.int64),  # the arm with the highest score, -1 before the first look
        ("runner", np.int64),  # the second
        ("dropped", np.int64),  # arms dropped by the rule
        ("code", np.int64),  # 0, or what went wrong ...
        ("bad_arm", np.int64),  # ... in which arm
        ("bad_row", np.int64),  # ... at which datum
        ("grain", float),  # what all may be rounding of besides, see ARM: of residuals, the rewards
        ("prefetched", float),  # a sum nobody reads: it keeps the prefetch from being left out
    ],
    align=True,
)


class Race(NamedTuple):
    """What is known in a race."""

    arms: np.recarray  # (arms,) of ARM
    alive: np.ndarray  # arms still in the race, in the first now[0].alive places
    now: np.recarray  # (1,) of NOW
    values: np.ndarray  # (arms, BUFFER + CHUNK) the first rewards, then the latest chunk


def make_race(sizes) -> Race:
    """Scratch for a race of len(sizes) arms."""
    arms = np.zeros(len(sizes), dtype=ARM).view(np.recarray)
    arms["rows"] = sizes
    now = np.zeros(1, dtype=NOW).view(np.recarray)
    values = np.zeros((len(sizes), BUFFER + CHUNK))
    return Race(arms, np.zeros(len(sizes), dtype=np.int64), now, values)


@jit(inner="always")
def nothing_to_start(race, params, memory):
    """For rules without memory."""


@jit(inner="always")
def nothing_to_observe(race, params, memory, arm, rows, lo, hi):
    """For rules that need no more than the race's own sums and moments."""


@jit(inner="always")
def always_sure(race, params, memory, arm):
    """For rules that do not look at what an error would cost."""
    return True


class RuleFunctions(NamedTuple):
    """The compiled half of a rule; functions are compile-time, numbers travel in params.

    drop(race, params, memory, arm) -> bool: may an arm be dropped.
    observe(race, params, memory, arm, rows, lo, hi): keep what it needs of an arm's rewards.
    start(race, params, memory): of a decision.
    sure(race, params, memory, arm) -> bool: of an arm that may be dropped, is an error cheap or
        next to impossible. If not, it stays in the race for as long as that may go on.
    """

    drop: Any
    observe: Any = nothing_to_observe
    start: Any = nothing_to_start
    sure: Any = always_sure


@dataclass(frozen=True)
class Rule:
    """When an arm may be dropped. Subclass it, set the class attributes, write two methods."""

    guarantee: ClassVar[str] = "asymptotic"  # or "bounded": TV <= delta per decision, proved
    batch: ClassVar[int] = 64  # rows before the first look
    anytime: ClassVar[bool] = False  # valid at every row: look often, looks cost nothing
    declares_range: ClassVar[bool] = False  # needs a known range of rewards
    range_of_pairs: ClassVar[bool] = False  # or of differences, which a control variate may know
    linear: ClassVar[bool] = False  # serves the linear schedule, growth=1.0
    cost: ClassVar[float] = 0.0  # of observing a reward, in rewards streamed by an exact decision

    @property
    def compares_pairs(self) -> bool:
        """Are the moments those of leader - arm on shared rows, or of the arm alone."""
        return getattr(self, "paired", True)

    # Where a control variate goes before the race, it may know more about rewards than a rule does.
    @property
    def asks_range(self) -> bool:
        """Was it given no range, and can it work with lower bounds of differences instead.

        Then a control variate writes these at every decision: into `low` of the params, (arms,
        arms), low[i, j] <= l_i - l_j of every row.
        """
        return False

    def with_asked_range(self, arms: int) -> "Rule":
        """The same rule with room for these bounds."""
        return self

    @property
    def takes_floor(self) -> bool:
        """May a control variate write the least variance of each difference before every decision.

        Into `floor` of the params, (arms, arms): a small batch may not show how widely they vary.
        Or (1, arms), of each arm and one of them: standard deviations of others add up, at most.
        """
        return False

    def boundaries_of_own_rows(self, delta: float) -> np.ndarray | None:
        """For arms with rows of their own: how many standard errors apart they must be.

        By looks (rows) and rivals, 1, 2, 4, ... (columns); None if the rule serves no such arms.
        """
        return None

    def functions(self) -> RuleFunctions:
        """Return the compiled functions."""
        raise TypeError(
            f"{type(self).__name__} must define functions(): see decisions/rules/rule.py."
        )

    def params(self, shape: Shape, delta: float, batch: int, growth: float) -> tuple:
        """Run-time numbers for a population; raises if the rule cannot serve it."""
        raise TypeError(f"{type(self).__name__} must define params(): see decisions/rules/rule.py.")

    def memory(self, shape: Shape) -> tuple:
        """Arrays the rule keeps between calls."""
        return (np.zeros(1),)


# -------------------------------------------------------------------------- moments, gap, spread
GLANCE = 64  # rewards that tell how large all are, but for a factor that does not matter
SINGLE = 2.0**29  # how much coarser numbers of 32 bits are than those of 64


@jit(flags=FLAGS, inner=True)
def grain_of(values, leader, arm, lo, hi):
    """The largest reward behind some differences, times how coarse such numbers are.

    Differences round as the rewards do that they are of, however small they are themselves.
    """
    largest, other, fine = 0.0, arm if leader < 0 else leader, 0
    for c in range(np.uint64(lo), np.uint64(hi)):
        one, two = values[arm, c], values[other, c]
        largest = max(largest, abs(one) + abs(two))
        fine += (np.float64(np.float32(one)) != one) | (np.float64(np.float32(two)) != two)
    return largest if fine > 0 else SINGLE * largest


@jit(flags=FLAGS, inner=True)
def add_moments(race, leader, arm, lo, hi):
    """Add columns lo:hi to the moments of `arm` (against `leader`, or alone if it is -1)."""
    values, own = race.values, race.arms[arm]
    if own.seen == 0.0:  # shifting by a typical value keeps the power sums accurate
        own.shift = values[arm, lo] if leader < 0 else values[leader, lo] - values[arm, lo]
        own.grain = max(race.now[0].grain, grain_of(values, leader, arm, lo, min(hi, lo + GLANCE)))
    shift, first, second, third = own.shift, 0.0, 0.0, 0.0
    if leader < 0:
        for c in range(np.uint64(lo), np.uint64(hi)):
            d = values[arm, c] - shift
            first += d
            second += d * d
            third += d * d * d
    else:
        for c in range(np.uint64(lo), np.uint64(hi)):
            d = values[leader, c] - values[arm, c] - shift
            first += d
            second += d * d
            third += d * d * d
    own.seen += hi - lo
    own.first += first
    own.second += second
    own.third += third


@jit(inner="always")
def variance_as_seen(race, arm):
    """The same, rounding or not: what a bound may take, which more never harms."""
    own = race.arms[arm]
    mean = own.first / own.seen
    return max(own.second / own.seen - mean * mean, 0.0)


@jit(inner="always")
def variance(race, arm):
    """Biased sample variance of leader - arm (paired) or of the arm; 0 when it is only noise.

    race, arm: as in sm.extend.gap.
    """
    own, spread = race.arms[arm], variance_as_seen(race, arm)
    # Rewards that differ by rounding alone have no variance to speak of.
    return spread if spread > 1e-28 * own.grain * own.grain else 0.0


@jit(inner="always")
def skewness_at(race, arm, spread):
    """The same at another variance of the rewards: its third moment over spread^1.5."""
    own = race.arms[arm]
    mean, square = own.first / own.seen, own.second / own.seen
    if spread <= 0.0:
        return 0.0
    return (own.third / own.seen - 3.0 * mean * square + 2.0 * mean * mean * mean) / (
        spread * sqrt(spread)
    )


@jit(inner="always")
def skewness(race, arm):
    """Sample skewness of leader - arm (paired) or of the arm; 0 without variance.

    race, arm: as in sm.extend.gap.
    """
    return skewness_at(race, arm, variance(race, arm))


@jit(inner="always")
def gap(race, arm):
    """Nats by which the leader's estimated total exceeds the arm's.

    race: as a rule's functions get it.
    arm: its number.
    """
    return race.arms[race.now[0].leader].score - race.arms[arm].score


@jit(inner="always")
def error_at(race, arm, spread):
    """The same at another variance s^2 of the rewards: N s/sqrt(T) (1-f)^1/2.

    f = (T-1)/(N-1): nothing is uncertain once every row is read (Chen & Ghahramani 2016, Eq. 9).
    """
    n, t = race.arms[arm].rows, race.arms[arm].drawn
    if t >= n:
        return 0.0
    return n * sqrt(spread / t * (1.0 - (t - 1.0) / (n - 1.0)))


@jit(inner="always")
def standard_error(race, arm):
    """Standard error, in nats, of the total behind the moments of `arm`.

    race, arm: as in sm.extend.gap.
    """
    return error_at(race, arm, variance(race, arm))
