"""Who decides in cost_per_decision: ours, and numpy. Peers are in cost_peers.py.

A decider is made for one data set; run(count, rng) makes `count` decisions and returns the share
of log factors that they read.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.runs.chain import Program, Walker
from tests.benchmarks import rivals, work
from tests.benchmarks.measure import Row as Judged
from tests.benchmarks.measure import judge
from tests.benchmarks.tall import counted

DISCRETE, METROPOLIS = "a", "b"  # the panels
DELTA = 0.01  # risk of a decision in the races with a control variate, as in tall.py
COEFFICIENTS = 10
AUDITED, AUDIT_FACTORS = 2000, 2e8  # decisions made again exactly, and what that may read
clock = time.process_time


@dataclass
class Decider:
    """One line of a panel, on one data set."""

    panel: str
    name: str
    run: Callable[[int, Any], float]
    ours: bool = False
    audit: Callable[[int], tuple[int, int]] | None = None  # (audited, wrong) of so many decisions
    setup: float = 0.0  # seconds, once: the fit, and sums over the data
    unit: int = 1  # decisions that one of `count` stands for
    seconds: list[float] = field(default_factory=list)  # a decision, by round
    share: float = float("nan")
    count: int = 0


def walker(model, kernel, seed: int, start=None, audit: float = 0.0) -> Walker:
    """A chain of a model, at a point of its own if one is given."""
    program = Program(model, kernel)
    program.compile()
    one = Walker(program, np.random.SeedSequence(seed), audit)
    if start is not None:
        one.restore({**one.checkpoint(), "floats": np.asarray(start, dtype=float)})
    return one


def of_chain(panel, name, model, kernel, label, setup=0.0, start=None, arms=2, seed=1) -> Decider:
    """A decision is a step of a chain: proposal, prior and bookkeeping are in its time."""
    one = walker(model, kernel, seed, start)

    def run(count, rng):
        out = one.advance(count)
        if one.error:
            raise one.error
        total = counted(one, out.words, label)
        return total["pulls"] / (count * arms * model.size)

    def audit(count):
        checked = walker(model, kernel, seed + 1, start, audit=1.0)
        out = checked.advance(count)
        total = counted(checked, out.words, label)
        return int(total["audited"]), int(total["wrong"])

    return Decider(panel, name, run, True, audit, setup)


# --------------------------------------------------------------------------- a discrete decision
def by_hand(panel, name, make, y, location, ours=False, totals=None) -> Decider | str:
    """A rival of draws.py: a population of our own, or code without us."""
    run = make(y, location)
    if isinstance(run, str):
        return run

    def shared(count, rng):
        return run(count, rng)[1]

    def audit(count):
        row, rng = Judged("", len(y), name, False), work.Recorder(1, len(y), 99)
        arms, _ = run(count, rng)
        judge(row, arms, work.regrets(arms, rng.gumbels(), totals))
        return row.draws, row.errors

    return Decider(panel, name, shared, ours, None if totals is None else audit)


def location(state, data, n):
    return state.mu[0] + data.step * (state.k[0] - 3)  # work.BEST


def student(eta, data, n):
    r = data.y[n] - eta
    return -2.5 * sm.log1p(r * r / 4.0)  # work.FREEDOM


def slopes(eta, data, n):
    r = data.y[n] - eta
    v = 4.0 + r * r
    return (5.0 * r / v, 5.0 * (r * r - 4.0) / (v * v), 10.0 * r * (r * r - 12.0) / (v * v * v))


def bounds(eta, data, n):
    return 1.8214, 1.875  # 5 (3/2 + 2^1/2) / 8, twice the least that holds; 6 * 5 / 16


@sm.kernel(writes="mu")
def jump(rng, state, data):
    state.mu[0] = data.step * rng.standard_normal()


def discrete(size: int, seed: int) -> Iterator[Decider]:
    """Ten Student-t locations: far apart, or 1 / sqrt(N) apart."""
    for case, name in (("easy", "Racing, arms far apart"), ("posterior", "Racing, posterior")):
        y, at = work.fresh_data(case, size, seed), work.locations(work.spacing(case, size))
        totals = work.exact_totals(y, at)
        make = rivals.ours(work.student_t, rivals.racing)
        yield by_hand(DISCRETE, name, make, y, at, True, totals)
    yield by_hand(DISCRETE, "Exact", rivals.ours(work.student_t, rivals.exact), y, at, True, totals)
    yield by_hand(DISCRETE, "numpy", rivals.numpy_chunks, y, at)
    data = {"y": y, "step": 1.0 / sqrt(size)}
    likelihood = sm.Predictors(location, student, slopes, bounds)
    model = sm.Model(likelihood, data, {"k": 3, "mu": 0.0}, support={"k": work.ARMS})
    control = sm.Taylor({"mu": 0.0}, order=2)
    begun = clock()
    prepared_for(model, control)
    setup = clock() - begun
    for name, rule in (("Racing + Taylor", sm.Normal()), ("Racing + Taylor, proved", sm.Betting())):
        gibbs = sm.Gibbs("k", sm.Racing(rule, delta=DELTA), control=control)
        yield of_chain(DISCRETE, name, model, jump >> gibbs, "k", setup, arms=work.ARMS)


# ------------------------------------------------------------------------- a Metropolis decision
def numpy_metropolis(x, y, start, scale) -> Callable:
    """A random walk that remembers the log likelihood it stands at."""
    rng = np.random.default_rng(1)

    def log_posterior(beta):
        eta = x @ beta
        return y @ eta - np.logaddexp(0.0, eta).sum() - 0.5 * beta @ beta / 100.0

    here = [start, log_posterior(start)]

    def run(count, _):
        for _ in range(count):
            there = here[0] + scale * rng.standard_normal(len(start))
            level = log_posterior(there)
            if np.log(rng.random()) < level - here[1]:
                here[:] = there, level
        return 0.5  # of the two arms' factors, one arm's are remembered

    return run


def metropolis(model, fit, start, scale, spent) -> Iterator[Decider]:
    """A random walk of a logistic regression, decided in several ways."""
    raced, proved = sm.Racing(delta=DELTA), sm.Racing(sm.Betting(), delta=DELTA)
    second, third = sm.Taylor(fit, order=2), sm.Taylor(fit, order=3)
    for name, selector, control in (
        ("Exact", sm.Exact(), None),
        ("Racing, posterior", raced, None),
        ("Racing + Taylor 2", raced, second),
        ("Racing + Taylor", raced, third),
        ("Racing + Taylor, proved", proved, third),
    ):
        begun = clock()
        if control is not None:
            prepared_for(model, control)
        setup = clock() - begun + (spent if control is not None else 0.0)
        kernel = sm.Metropolis("beta", scale, selector=selector, control=control, adapt=False)
        yield of_chain(METROPOLIS, name, model, kernel, "beta", setup, start)


def audits(size: int, arms: int) -> int:
    """How many decisions to make again exactly."""
    return int(np.clip(AUDIT_FACTORS / (arms * size), 5, AUDITED))
