"""What a race keeps, and what a rule is: the seam between reading data and dropping arms.

A race reads mini-batches for the arms still alive and keeps their sums; a rule decides when an
arm may be dropped. Scores and gaps are totals in nats: N * mean + offset. A rule is a frozen
dataclass and three compiled functions:

    start(race, params, memory)                         a new decision begins
    observe(race, params, memory, arm, rows, lo, hi)    columns lo:hi of race.values were just read
    drop(race, params, memory, arm) -> bool             may `arm` be dropped, given the leader

`observe` is called when every arm on shared rows has read the columns, and before race.sums and
race.drawn count them: what it finds there is the past.

examples/own_rule.py writes one in 25 lines.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.draws import CHUNK
from subsample_mcmc.jit import FLAGS, jit

BUFFER = 2048  # rewards kept per arm, to compare with a leader that was not the leader before

# How a decision ended; negative codes become exceptions in Python.
ALONE, EXACT, RACED, EXHAUSTED, RETREATED = range(5)
ENDINGS = ("alone", "exact", "raced", "exhausted", "retreated")
NOT_FINITE, ALL_IMPOSSIBLE, OUT_OF_SPREAD = -1, -2, -3


class Choice(NamedTuple):
    """One decision: the arm and what it cost, or a negative `ended` and who is to blame."""

    arm: int
    pulls: int
    rounds: int
    ended: int
    dropped_early: int  # arms dropped by the rule before all their rows were read
    bad_arm: int
    bad_row: int


class Race(NamedTuple):
    """What is known in a race; every array has one entry per arm unless it says otherwise."""

    alive: np.ndarray  # arms still in the race, in the first count[0] places
    count: np.ndarray  # (1,) how many those are
    leader: np.ndarray  # (2,) the leader and the runner-up, -1 before the first look
    offset: np.ndarray  # what does not depend on data
    size: np.ndarray  # rows of the arm's population
    drawn: np.ndarray  # rows read
    sums: np.ndarray  # sum of the rewards read
    latest: np.ndarray  # sum of the latest chunk
    score: np.ndarray  # size * mean + offset, in nats
    values: np.ndarray  # (arms, BUFFER + CHUNK) the first rewards, then the latest chunk
    moments: np.ndarray  # (arms, 5) count, shift and power sums of leader - arm (paired) or arm
    dropped: np.ndarray  # (1,) arms dropped by the rule
    bad: np.ndarray  # (3,) error code, arm, row


def make_race(sizes) -> Race:
    """Scratch for a race of len(sizes) arms."""
    arms = len(sizes)
    return Race(
        np.zeros(arms, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.zeros(arms),
        np.asarray(sizes, dtype=np.int64),
        np.zeros(arms, dtype=np.int64),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros((arms, BUFFER + CHUNK)),
        np.zeros((arms, 5)),
        np.zeros(1, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
    )


class Shape(NamedTuple):
    """What a rule or selector must know about a population before any reward is read."""

    sizes: tuple[int, ...]  # rows per arm
    shared: bool  # do all arms share one set of rows

    @property
    def arms(self) -> int:
        return len(self.sizes)


class RuleFunctions(NamedTuple):
    """The compiled half of a rule; functions are compile-time, numbers travel in params."""

    start: Any
    observe: Any
    drop: Any


@dataclass(frozen=True)
class Rule:
    """When an arm may be dropped. Subclass it, set the class attributes, write two methods."""

    guarantee: ClassVar[str] = "asymptotic"  # or "bounded": TV <= delta per decision, proved
    batch: ClassVar[int] = 64  # rows before the first look
    anytime: ClassVar[bool] = False  # valid at every row: look often, looks cost nothing
    declares_range: ClassVar[bool] = False  # needs a known range of rewards

    @property
    def compares_pairs(self) -> bool:
        """Are the moments those of leader - arm on shared rows, or of the arm alone."""
        return getattr(self, "paired", True)

    def functions(self) -> RuleFunctions:
        """Return the three compiled functions."""
        raise TypeError(f"{type(self).__name__} must define functions(): see rules/race.py.")

    def params(self, shape: Shape, delta: float, batch: int, growth: float) -> tuple:
        """Run-time numbers for a population; raises if the rule cannot serve it."""
        raise TypeError(f"{type(self).__name__} must define params(): see rules/race.py.")

    def memory(self, shape: Shape) -> tuple:
        """Arrays the rule keeps between calls."""
        return (np.zeros(1),)


@jit
def nothing_to_start(race, params, memory):
    """For rules without memory."""


@jit
def nothing_to_observe(race, params, memory, arm, rows, lo, hi):
    """For rules that need no more than the race's own sums and moments."""


# -------------------------------------------------------------------------- moments, gap, spread
@jit(flags=FLAGS)
def add_moments(race, leader, arm, lo, hi):
    """Add columns lo:hi to the moments of `arm` (against `leader`, or alone if it is -1)."""
    values, own = race.values, race.moments[arm]
    if own[0] == 0.0:  # shifting by a typical value keeps the power sums accurate
        own[1] = values[arm, lo] if leader < 0 else values[leader, lo] - values[arm, lo]
    shift, first, second, third = own[1], 0.0, 0.0, 0.0
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
    own[0] += hi - lo
    own[2] += first
    own[3] += second
    own[4] += third


@jit
def mean_gap(race, arm):
    """Mean over the counted rows of leader - arm (paired), or of the arm."""
    own = race.moments[arm]
    return own[1] + own[2] / own[0]


@jit
def variance(race, arm):
    """Biased sample variance of leader - arm (paired) or of the arm; 0 when it is only noise."""
    own = race.moments[arm]
    mean = own[2] / own[0]
    spread = own[3] / own[0] - mean * mean
    # Rewards that differ by rounding alone have no variance to speak of.
    floor = 1e-28 * (own[1] * own[1] + own[3] / own[0])
    return spread if spread > floor else 0.0


@jit
def skewness(race, arm):
    """Sample skewness of leader - arm (paired) or of the arm; 0 without variance."""
    own = race.moments[arm]
    mean, square = own[2] / own[0], own[3] / own[0]
    spread = variance(race, arm)
    if spread <= 0.0:
        return 0.0
    return (own[4] / own[0] - 3.0 * mean * square + 2.0 * mean**3) / (spread * sqrt(spread))


@jit
def gap(race, arm):
    """Nats by which the leader's estimated total exceeds the arm's."""
    return race.score[race.leader[0]] - race.score[arm]


@jit
def standard_error(race, arm):
    """Standard error, in nats, of the total behind the moments of `arm`: N s/sqrt(T) (1-f)^1/2.

    f = (T-1)/(N-1): nothing is uncertain once every row is read (Chen & Ghahramani 2016, Eq. 9).
    """
    n, t = race.size[arm], race.drawn[arm]
    if t >= n:
        return 0.0
    return n * sqrt(variance(race, arm) / t * (1.0 - (t - 1.0) / (n - 1.0)))
