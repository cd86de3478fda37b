"""Racing-Betting: drop an arm once a fair game against "it is the best" has paid 1/delta.

Statement. Rows are drawn uniformly without replacement, rewards lie in the declared range. Then
P(the race returns another arm than the argmax | offsets) <= delta, hence TV <= delta for a draw.

Proof. Arm i plays one game. Before row t it chooses from the PAST a rival j, a bet lambda >= 0,
and a lower bound a of d = l_j - l_i. If i is the best arm, the d still unread sum to at most
o_i - o_j - D (o offsets, D what was read), so E[d_t | past] <= m_t = (o_i - o_j - D)/(N - t + 1)
whichever rival was chosen, and K <- K (1 + lambda (d_t - m_t)) is a nonnegative supermartingale
from 1 as long as lambda <= c/(m_t - a), c < 1. By Ville, P(sup K >= 1/delta) <= delta. An error
requires that the best arm is dropped, and only the best arm's game must not err: no union over
arms, none over looks. If m_t < a, i cannot be the best: that is certain. QED

The game is a mixture of eight bets lambda_k = min(theta_k N/(N - t + 1), c/(m_t - a)): under
Gaussian drift the best bet grows like N/(N - t + 1), and theta_k covers gaps that would be
decided at odds o_k = T/(N - T). The betting martingales are those of Waudby-Smith & Ramdas
(2024, JRSS-B 86(1)), used here on differences to a predictable rival.
"""

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.rules.rule import Rule, RuleFunctions
from subsample_mcmc.decisions.rules.spread import SLACK, declared_spread, outside, report
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.records import record
from subsample_mcmc.target.population import Shape

BETS = 8
SAFETY = 0.9  # c: how much of the wealth one row may lose
ONE_INTERVAL, WIDTH_PER_ARM, PAIR_BOUNDS = range(3)


class Memory(NamedTuple):
    """What the games keep."""

    wealth: np.ndarray  # (arms, BETS)
    theta: np.ndarray  # (BETS,) the bets of the arm in hand
    game: np.ndarray  # (arms, 2) degrees of freedom and sum of squares of l_j - l_i in chunks
    past: np.ndarray  # (arms, 2) `seen` before the chunk in hand
    seen: np.ndarray  # (arms, 2) lowest and highest reward of each interval declared
    lost: np.ndarray  # (arms,) 1: the game has paid 1/delta, or the arm cannot be the best


@dataclass(frozen=True)
class Betting(Rule):
    """Drop an arm when a betting game says so: TV <= delta, proved; no union over arms or looks.

    spread: width of one interval that holds every reward of every arm, or an array of widths
        per arm (each arm's rewards in an interval of that width, wherever it lies).
    bounds: instead of a spread, (low, high) with low <= l_i - l_j <= high for every row and
        every pair of arms i > j (for two arms: the range of l_1 - l_0); numbers, or matrices
        read at [i, j].
    Both are checked against the rewards read; a violation is an error that names the datum.
    A game costs about 9 ns a reward. The retreat counts that against a fast log factor, so with
    few rows (below about 1e5) it reads everything at once: Racing(..., retreat=False) if a
    reward of yours is dear.

    Example:
        >>> rewards = np.random.default_rng(0).uniform([[0.0], [0.1]], 1.0, (2, 50_000))
        >>> racing = sm.Racing(sm.Betting(spread=1.0))  # an interval of length 1 holds all
        >>> int(sm.choose(rewards, selector=racing, seed=1).arm), racing.guarantee
        (1, 'bounded')
    """

    spread: float | np.ndarray | None = None
    bounds: tuple | None = None
    guarantee: ClassVar[str] = "bounded"
    batch: ClassVar[int] = 64
    anytime: ClassVar[bool] = True
    declares_range: ClassVar[bool] = True
    range_of_pairs: ClassVar[bool] = True
    cost: ClassVar[float] = 16.0  # about 9 ns
    paired: ClassVar[bool] = True

    @property
    def asks_range(self) -> bool:
        """Without spread and bounds, a control variate is asked."""
        return self.spread is None and self.bounds is None

    def with_asked_range(self, arms: int) -> Rule:
        """Bounds as matrices, which are written before every decision."""
        low = np.zeros((arms, arms))
        return replace(self, bounds=(low, low))

    def functions(self) -> RuleFunctions:
        """The compiled half."""
        return RuleFunctions(drop, observe, start)

    def params(self, shape: Shape, delta: float, batch: int, growth: float):
        """The lower bounds of all differences, and the bets."""
        arms, size = shape.arms, max(shape.sizes[0], 1)
        widths, low = np.zeros(arms), np.zeros((1, 1))
        if self.bounds is not None and self.spread is not None:
            raise ValueError("Betting(spread=..., bounds=...): declare one of the two, not both.")
        if self.bounds is not None:
            kind, low = PAIR_BOUNDS, lower_bounds(self.bounds, arms)
        else:
            widths = declared_spread("Betting", self.spread, arms)
            kind = ONE_INTERVAL if np.asarray(self.spread).ndim == 0 else WIDTH_PER_ARM
        first = batch / size
        ratio = max(4.0, (10.0 / first) ** (1.0 / (BETS - 1)))
        odds = first * ratio ** np.arange(BETS)
        # The bet that is best for a gap decided at odds o, per standard deviation of d.
        theta = np.sqrt(2.0 * (log(1.0 / delta) + 2.0) / (odds * size))
        fields = record("kind", "widths", "low", "theta", "target")
        return fields(kind, widths, low, theta, BETS / delta)

    def memory(self, shape: Shape):
        """The wealth of every arm's game and what it bets from."""
        arms = shape.arms
        return Memory(
            np.ones((arms, BETS)), np.zeros(BETS), np.zeros((arms, 2)),
            np.zeros((arms, 2)), np.zeros((arms, 2)), np.zeros(arms, dtype=np.int64),
        )  # fmt: skip


def lower_bounds(bounds, arms: int) -> np.ndarray:
    """Matrix of lower bounds of l_j - l_i at [j, i], from the user's (low, high)."""
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=float), (arms, arms)) for b in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            f"Betting(bounds={bounds!r}): give (low, high), two numbers or two ({arms}, {arms}) "
            "arrays with low <= l_i - l_j <= high for arms i > j."
        ) from None
    matrix = np.where(np.tri(arms, k=-1, dtype=bool), low, -high.T)
    matrix = np.where(np.eye(arms, dtype=bool), 0.0, matrix)
    if not np.all(np.isfinite(matrix)) or np.any(low > high):
        raise ValueError(f"Betting(bounds={bounds!r}): low <= high must hold and both be finite.")
    return matrix


@jit(inner="always")
def start(race, params, memory):
    """Begin a decision; in one under way, where an arm proved impossible, play on from <= 1."""
    fresh = race.arms[race.alive[0]].drawn == 0
    for arm in range(len(race.arms)):
        for k in range(BETS):
            memory.wealth[arm, k] = 1.0 if fresh else min(memory.wealth[arm, k], 1.0)
        memory.game[arm, 0] = memory.game[arm, 1] = 0.0
        memory.lost[arm] = 0
    for i in range(len(memory.seen) if fresh else 0):
        memory.seen[i, 0], memory.seen[i, 1] = np.inf, -np.inf


@jit(inner=True)
def lower_bound(race, params, memory, rival, arm):
    """The least that l_rival - l_arm can be at a row, from what is declared and the past."""
    if params.kind == PAIR_BOUNDS:
        return params.low[rival, arm] * (SLACK if params.low[rival, arm] < 0.0 else 1.0 / SLACK)
    if params.kind == ONE_INTERVAL:
        return -params.widths[0] * SLACK
    # Each arm's interval contains what was seen of it: l_rival >= its highest - its width, ...
    high, low = memory.past[rival, 1], memory.past[arm, 0]
    return (high - params.widths[rival] * SLACK) - (low + params.widths[arm] * SLACK)


@jit(inner=True)
def play(race, params, memory, rival, arm, lo, hi, least):
    """Bet on columns lo:hi; return the column that breaks the bound, or -1."""
    wealth, theta, values = memory.wealth[arm], memory.theta, race.values
    balance = (
        race.arms[arm].offset
        - race.arms[rival].offset
        - (race.arms[rival].total - race.arms[arm].total)
    )
    size, left = float(race.arms[arm].rows), float(race.arms[arm].rows - race.arms[arm].drawn)
    for c in range(np.uint64(lo), np.uint64(hi)):
        d = values[rival, c] - values[arm, c]
        if d < least:
            return np.int64(c)
        mean = balance / left  # the most the mean of the unread d can be if `arm` is the best
        room = mean - least
        if room < -1e-9 * (abs(mean) + abs(least)):
            memory.lost[arm] = 1
            return -1
        odds, cap, excess = size / left, SAFETY / max(room, 1e-300), d - mean
        most = 0.0
        for k in range(BETS):
            bet = min(theta[k] * odds, cap)
            # A floor of 1e-100 keeps denormals away; it adds less than N * 1e-100 to delta.
            wealth[k] = max(wealth[k] * (1.0 + bet * excess), 1e-100)
            most += wealth[k]
        if most >= params.target:
            memory.lost[arm] = 1
            return -1
        balance -= d
        left -= 1.0
    return -1


@jit(flags=FLAGS, inner=True)
def squares(values, rival, arm, lo, hi):
    """Sum of squares of l_rival - l_arm about its mean over columns lo:hi."""
    first, shift = 0.0, values[rival, lo] - values[arm, lo]
    second = 0.0
    for c in range(np.uint64(lo), np.uint64(hi)):
        d = values[rival, c] - values[arm, c] - shift
        first += d
        second += d * d
    return max(second - first * first / (hi - lo), 0.0)


@jit(inner="always")
def observe(race, params, memory, arm, rows, lo, hi):
    """Play one arm's game on the rows just read, then learn from them."""
    memory.past[arm, 0], memory.past[arm, 1] = memory.seen[arm, 0], memory.seen[arm, 1]
    rival = race.now[0].leader if arm != race.now[0].leader else race.now[0].runner
    if rival < 0:  # the first batch: nothing is known to bet on, only to learn
        rival = race.alive[0] if arm != race.alive[0] else race.alive[race.now[0].alive - 1]
        if params.kind == PAIR_BOUNDS and rival != arm:
            least = lower_bound(race, params, memory, rival, arm)
            for c in range(lo, hi):
                if race.values[rival, c] - race.values[arm, c] < least:
                    report(race, arm, rows[c - lo])
                    return
    elif memory.lost[arm] == 0 and memory.game[arm, 0] > 0.0:
        least = lower_bound(race, params, memory, rival, arm)
        squared = memory.game[arm, 1] / memory.game[arm, 0]
        if squared == 0.0:  # all differences equal so far: the next may be as rare as 1 / rows
            squared = least * least / memory.game[arm, 0]
        for b in range(BETS):
            memory.theta[b] = params.theta[b] / max(sqrt(squared), 1e-300)
        broken = play(race, params, memory, rival, arm, lo, hi, least)
        if broken >= 0:
            report(race, arm, rows[broken - lo])
            return
    memory.game[arm, 0] += hi - lo - 1.0
    memory.game[arm, 1] += squares(race.values, rival, arm, lo, hi)
    if params.kind == ONE_INTERVAL:
        outside(race, params.widths, memory.seen, 0, arm, rows, lo, hi)
    elif params.kind == WIDTH_PER_ARM:
        outside(race, params.widths, memory.seen, arm, arm, rows, lo, hi)


@jit(inner="always")
def drop(race, params, memory, arm):
    return memory.lost[arm] == 1
