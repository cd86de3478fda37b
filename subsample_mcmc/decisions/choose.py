"""One decision and one draw: `choose` and `draw`.

A draw from p(arm) ~ prior(arm) * prod_n f_n(arm) is a decision: add a Gumbel variable to every
arm's log prior and take the arm with the largest total (Chen & Ghahramani 2016, Eq. 2-3). So
`draw` is `choose` with fresh Gumbels, and a selector that errs with probability at most delta
whatever the Gumbels are draws within total variation delta of p (their Proposition 1).
"""

import pickle
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ENDINGS,
    NOT_FINITE,
    OUT_OF_SPREAD,
    Outcome,
)
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.errors import CompileError, RewardError, SpreadError, compile_message
from subsample_mcmc.numerics.compared import (
    extremes_of,
    in_numbers,
    refuse_apart,
    value_of,
    zeros_of,
)
from subsample_mcmc.numerics.jit import DISABLED, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.data import datum_of, not_masked
from subsample_mcmc.target.lookups.bounds import check_population
from subsample_mcmc.target.population import Population, Table, offsets_of, whole
from subsample_mcmc.target.rewards import (
    POPULATION,
    calls_of_population,
    population_rewards_of,
)
from subsample_mcmc.target.user_functions import divides_whole, plain

BLOCK = 4096  # draws whose Gumbels are made at once
PATIENT = 0.1  # seconds of compiled work between two looks at the keyboard
SLOW = 2.0  # seconds after which a progress bar appears


class Choice(NamedTuple):
    """One decision: the arm, what it cost, and whether anything was left to chance.

    arm: its number.
    pulls: rewards that were read.
    rounds: mini-batches that were read of each arm that was still in.
    exact: no arm was dropped before all its rows were read, so the arm is the argmax.
    dropped_early: arms that were dropped before all their rows were read.
    ended: "alone" (one arm was possible), "exact", "raced", "exhausted" (all rows were read) or
        "retreated" (the rest was summed exactly).

    Example:
        >>> choice = sm.choose([[0.0, 1.0], [2.0, 3.0]], selector=sm.Exact())
        >>> int(choice.arm), int(choice.pulls), bool(choice.exact)
        (1, 4, True)
    """

    arm: int
    pulls: int
    rounds: int
    exact: bool
    dropped_early: int
    ended: str


@dataclass(frozen=True)
class Draws:
    """Many decisions: one entry per draw in every array.

    arms: that were drawn.
    pulls, rounds, dropped_early, ended: of each draw, as in sm.Choice.
    everything: rewards that an exact draw reads.
    guarantee: that of the selector.

    Example:
        >>> data = {"y": np.ones(100)}
        >>> population = sm.Population(lambda data, arm, n: data.y[n] * arm, data, arms=3)
        >>> draws = sm.draw(population, size=4, selector=sm.Exact(), seed=1)
        >>> draws.arms.tolist(), draws.share_read
        ([2, 2, 2, 2], 1.0)
        >>> draws.to_frame().columns.tolist()[:3]
        ['arm', 'pulls', 'rounds']
    """

    arms: np.ndarray
    pulls: np.ndarray
    rounds: np.ndarray
    dropped_early: np.ndarray
    ended: np.ndarray
    everything: int
    guarantee: str

    @property
    def exact(self) -> np.ndarray:
        """Which draws are free of error whatever the rule."""
        return self.dropped_early == 0

    @property
    def share_read(self) -> float:
        """Rewards read, as a share of those an exact draw reads."""
        return float(self.pulls.mean()) / self.everything

    def to_frame(self):
        """One row per draw, as a pandas DataFrame."""
        import pandas as pd  # a fifth of a second at import, seldom needed

        names = ("arms", "pulls", "rounds", "dropped_early", "ended")
        return pd.DataFrame({name: getattr(self, name) for name in names}).rename(
            columns={"arms": "arm"}
        )

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        names, counts = np.unique(self.ended, return_counts=True)
        how = ", ".join(f"{n} {name}" for name, n in zip(names, counts, strict=True))
        return (
            f"Draws({len(self)} draws, {self.share_read:.3%} of rewards read, "
            f"{how}; guarantee {self.guarantee!r})"
        )


class Engine(NamedTuple):
    """A selector bound to a population: compiled loop, numbers, and a pool of scratch arrays."""

    loop: Any
    calls: Any
    params: Any
    idle: list


@helpful
def choose(rewards, offsets=None, selector=None, seed=None) -> Choice:
    """The arm with the largest total of rewards plus offset, found by reading what is needed.

    rewards: (arms, N) array with shared rows, list of 1-D arrays of any lengths (arms with rows of
        their own), or sm.Population (whose log prior counts).
    offsets: one number per arm, -inf excludes it; default zeros, no Gumbels.
    selector: how it is decided; default sm.Racing(), of arms with rows of their own
        sm.Racing(sm.Normal(paired=False)).
    seed: of the rows that are read: None, an int, a SeedSequence, or a Generator.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.1], [0.3]], 1.0, (3, 50_000))
        >>> choice = sm.choose(rewards, seed=1)
        >>> int(choice.arm), bool(choice.pulls < rewards.size / 20)
        (2, True)
        >>> int(sm.choose(rewards, offsets=[0.0, 1e6, 0.0], seed=1).arm)
        1
    """
    population = rewards if isinstance(rewards, Population) else Table(rewards)
    given = np.zeros(population.arms) if offsets is None else not_masked(offsets, "offsets")
    total = np.asarray(given, dtype=float)
    if total.shape != (population.arms,):
        raise ValueError(
            f"offsets has shape {total.shape}: give one number for each of {population.arms} arms."
        )
    offsets_of(total, "offsets")
    total = offsets_of(total + getattr(population, "log_prior", 0.0), "offsets + log_prior")
    generator = generator_of(seed)
    made = many(
        population,
        usual_selector(population) if selector is None else selector,
        generator,
        lambda lo, hi: total[None, :],
        1,
        False,
    )
    record = made[0]
    return Choice(
        int(record["arm"]), int(record["pulls"]), int(record["rounds"]),
        bool(record["dropped_early"] == 0), int(record["dropped_early"]), ENDINGS[record["ended"]],
    )  # fmt: skip


def usual_selector(population) -> Racing:
    """What decides where no selector was given: arms with rows of their own have no pairs."""
    return Racing() if population.shape.shared else Racing(Normal(paired=False))


@helpful
def draw(population, size=1, selector=None, seed=None, progress=None) -> Draws:
    """Independent draws of an arm, each with fresh Gumbels and fresh rows.

    The Gumbels do not depend on the selector: with one seed, Exact() and Racing() decide under the
    same Gumbels.

    population: an sm.Population.
    size: how many draws.
    selector: how each is decided; default sm.Racing().
    seed: None, an int, a SeedSequence, or a Generator, which is advanced.
    progress: a bar; None shows it when the work takes seconds.

    Example:
        >>> def log_factor(data, arm, n):
        ...     return -abs(data.y[n] - data.location[arm])
        >>> y = np.random.default_rng(0).normal(1.0, 1.0, 50_000)
        >>> population = sm.Population(log_factor, {"y": y, "location": np.arange(3.0)}, arms=3)
        >>> draws = sm.draw(population, size=200, seed=1)
        >>> np.bincount(draws.arms, minlength=3).tolist()
        [0, 200, 0]
        >>> bool(draws.share_read < 0.05)
        True
    """
    if not isinstance(population, Population):
        raise TypeError(
            f"draw(population={type(population).__name__}): give an sm.Population; for rewards in "
            "arrays use sm.Population(lambda data, arm, n: data[0][arm, n], (rewards,), arms, N)."
        )
    size = whole(size, "size", "the number of draws, at least 1")
    selector = Racing() if selector is None else selector
    generator = generator_of(seed)

    def gumbels(lo, hi):
        noise = generator.standard_exponential((hi - lo, population.arms))
        with np.errstate(divide="ignore"):
            return population.log_prior - np.log(noise)

    made = many(population, selector, generator, gumbels, size, progress)
    return Draws(
        made["arm"].copy(), made["pulls"].copy(), made["rounds"].copy(),
        made["dropped_early"].copy(), np.array(ENDINGS)[made["ended"]],
        sum(population.shape.sizes), selector.guarantee,
    )  # fmt: skip


RESULT = np.dtype([(name, np.int64) for name in Outcome._fields])


def many(population, selector, generator, offsets, size, progress) -> np.ndarray:
    """`size` decisions; Python looks in several times a second for Ctrl-C and the bar."""
    if not isinstance(selector, Selector):
        raise TypeError(
            f"selector={selector!r}: give a selector such as sm.Exact() or sm.Racing()."
        )
    if isinstance(population, Population):
        population.notice_changes()
    # Drawn whether or not the selector reads rows, so that all selectors see the same Gumbels.
    stream = generator.integers(2**64, size=1, dtype=np.uint64)
    engine = engine_of(population, selector)
    fresh = not engine.idle
    scratch = pointer_to(selector.scratch(population.shape)) if fresh else engine.idle.pop()
    results = np.zeros((size, len(Outcome._fields)), dtype=np.int64)
    bar, started, step = None, time.monotonic(), 1
    try:
        for block in range(0, size, BLOCK):
            stop = min(block + BLOCK, size)
            noise = offsets(block, stop)
            done = block
            while done < stop:
                until = min(done + step, stop)
                then = time.monotonic()
                with np.errstate(all="ignore"):  # plain Python warns where machine code wraps
                    reached = engine.loop(
                        stream, engine.calls, noise, engine.params, scratch,
                        results, block, done, until,
                    )  # fmt: skip
                if reached < until:
                    raise explanation(population, selector, Outcome(*results[reached].tolist()))
                done, now = until, time.monotonic()
                step = step * 2 if now - then < PATIENT / 2 else max(step // 2, 1)
                if bar is None and progress is not False and now - started > SLOW * (not progress):
                    bar = Bar(total=size, desc="draws", unit="draw")
                if bar is not None:
                    bar.update(done - bar.n)
        engine.idle.append(scratch)  # after an interrupt it is dropped: it may be half written
    finally:
        if bar is not None:
            bar.close()
    return results.view(RESULT)[:, 0]


def engine_of(population, selector) -> Engine:
    """The engine of a population and a selector, made on first use."""
    try:
        hash(selector)
        key: Any = selector
    except TypeError:  # a selector that holds arrays
        key = pickle.dumps(selector)
    if key not in population.engines:
        params = selector.params(population.shape)
        if isinstance(population, Population):
            check_population(population)
        loop = loop_over(selector.build(POPULATION))
        scratch = pointer_to(selector.scratch(population.shape))
        try:
            engine = Engine(loop, calls_of(population), pointer_to(params), [scratch])
            compile_engine(engine)
        except NUMBA_ERRORS as error:
            raise CompileError(blamed(error, population, selector)) from error
        if isinstance(population, Population) and not population.engines:
            check_compiled_factor(population)
        population.engines[key] = engine
    return population.engines[key]


def check_compiled_factor(population) -> None:
    """Refuse a log_factor that says something else where it is compiled: at some arms and data."""
    if DISABLED:
        return
    rng, data = np.random.default_rng(4), population.data
    rare = extremes_of(data, population.size)
    rare += zeros_of(data, population.size) if divides_whole(population.log_factor) else []
    rows = np.r_[0, population.size - 1, rare, rng.integers(0, population.size, size=24)]
    rows = np.unique(rows).astype(np.int64)
    factor = plain(population.log_factor, "log_factor", "f")
    for arm in np.unique(np.r_[0, population.arms - 1, rng.integers(0, population.arms, size=3)]):
        compiled = np.zeros(len(rows))
        asked = rows.astype(row_kind(population.size))
        try:
            population_rewards_of(calls_of(population), int(arm), asked, compiled)
        except Exception:
            return  # raised by the user's function: the draws tell of it
        for n, value in zip(rows.tolist(), compiled.tolist(), strict=True):
            given = int(arm), n

            def read(kind, given=given):
                return value_of(factor, (in_numbers(data, kind), *given), (data, *given))

            def told(arm=arm, n=n):
                return (
                    f"log_factor of datum {n}{datum_of(data, n, population.size)}, arm {arm},",
                    "",
                )

            refuse_apart(read, value, told)


def compile_engine(engine) -> None:
    """Compile before any work starts, so that a mistake in a user function shows by itself."""
    empty, none = np.zeros((1, len(Outcome._fields)), dtype=np.int64), np.zeros((1, 1))
    stream = np.zeros(1, dtype=np.uint64)
    engine.loop(stream, engine.calls, none, engine.params, engine.idle[0], empty, 0, 0, 0)


def blamed(error, population, selector) -> str:
    """Which of the user's functions does not compile: his reward, or else his selector or rule."""
    if isinstance(population, Population):
        try:
            rewards_at(population, 0, 0, 0)  # compiles the reward alone
        except NUMBA_ERRORS as own:
            return compile_message(own, population.log_factor)
    reason = str(error).strip().splitlines()
    return f"{selector!r} cannot be compiled: {' '.join(reason)[:600]}"


@memoised
def loop_over(choose_one) -> Any:
    """The compiled loop over decisions: Python is entered once per batch of them."""

    @jit
    def loop(stream, context, offsets, params, scratch, results, first, lo, hi):
        for k in range(lo, hi):
            made = choose_one(stream, context, offsets[k - first], params, scratch)
            results[k, 0] = made.arm
            results[k, 1] = made.pulls
            results[k, 2] = made.rounds
            results[k, 3] = made.ended
            results[k, 4] = made.dropped_early
            results[k, 5] = made.bad_arm
            results[k, 6] = made.bad_row
            if made.ended < 0:
                return k
        return hi

    return loop


# ----------------------------------------------------------------------- what went wrong, in words
def explanation(population, selector, record) -> Exception:
    """The exception for a decision that could not be made."""
    arm, row = record.bad_arm, record.bad_row
    if record.ended == ALL_IMPOSSIBLE:
        return RewardError(
            f"all {population.arms} arms are impossible: each has a reward of -inf or an excluded "
            "offset. Check the support of the arms, or floor the log factor."
        )
    if row < 0:
        row = first_bad(population, arm, record.ended)
    if row < 0 and record.ended == NOT_FINITE:
        return RewardError(
            f"the rewards of arm {arm} are finite, and their sum is not: beyond 1e308. Take off "
            "what all arms have in common, or divide all rewards by one number."
        )
    if row < 0 and record.ended == OUT_OF_SPREAD:
        return SpreadError(
            f"the rewards of arm {arm} are outside the declared range of {selector!r}: they vary "
            "by more, or are farther from 0, so the guarantee would be void. Declare a wider one, "
            "or use sm.Racing()."
        )
    value = float(rewards_at(population, arm, row, row + 1)[0]) if row >= 0 else 0.0
    where = f"reward of arm {arm} at datum {row} is {value}"
    own = isinstance(population, Population)  # of a table the reward says all
    datum = datum_of(population.data, row, population.size) if own and row >= 0 else ""
    if record.ended == NOT_FINITE:
        return RewardError(
            f"the {where}{datum}: rewards must be finite, or -inf for an impossible arm. A nan is "
            "often the log or root of a negative number, or a missing value: correct or drop the "
            "datum, or return -inf where the arm is impossible."
        )
    if record.ended == OUT_OF_SPREAD:
        declared = selector.dropping_rule or selector
        return SpreadError(
            f"the {where}, outside the declared range {declared!r} (itself, by its difference "
            "to another arm, or farther from one read before than the range is wide), so the "
            "guarantee would be void. Declare a wider range, or use sm.Normal(), which needs none."
        )
    return RuntimeError(f"unknown end of a decision: {record}")


def rewards_at(population, arm, lo, hi) -> np.ndarray:
    """Rewards lo:hi of an arm, through the compiled function."""
    rows, out = np.arange(lo, hi, dtype=row_kind(max(population.shape.sizes))), np.zeros(hi - lo)
    population_rewards_of(calls_of(population), arm, rows, out)
    return out


def calls_of(population) -> Any:
    """The population's functions, compiled once."""
    if population.calls is None:
        population.calls = pointer_to(calls_of_population(population))
    return population.calls


def first_bad(population, arm, code) -> int:
    """The first row of an arm whose reward cannot be added; found by a scan, for the message."""
    size = population.shape.sizes[arm]
    for lo in range(0, size, 1 << 16):
        out = rewards_at(population, arm, lo, min(lo + (1 << 16), size))
        wrong = np.flatnonzero(~(out < np.inf) if code == NOT_FINITE else out == -np.inf)
        if wrong.size:
            return lo + int(wrong[0])
    return -1
