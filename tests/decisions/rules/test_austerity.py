"""TTest and Confidence: their formulas, schedules and realised errors, beside Exact."""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.decisions import choose as decide
from subsample_mcmc.decisions.rules.austerity import look_at, looks
from subsample_mcmc.decisions.rules.rule import Rule, RuleFunctions
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.target.population import Shape, Table
from tests.helpers.claims import above, at_most
from tests.helpers.gumbels import against_exact, standardised

TWO = np.array([0.6, 0.4])


def austere(delta=0.05, batch=500):
    """The test as published."""
    return sm.Racing(sm.TTest(), delta=delta, batch=batch, growth=1.0, retreat=False)


# ----------------------------------------------------------------------------------- schedules
@dataclass(frozen=True)
class Diary(Rule):
    """Drops nothing, and writes down how many rows had been read at each look."""

    linear: ClassVar[bool] = True

    def functions(self):
        return RuleFunctions(write)

    def params(self, shape, delta, batch, growth):
        return (0,)

    def memory(self, shape):
        return (np.zeros(300, dtype=np.int64),)


@jit
def write(race, params, memory, arm):
    memory[0][0] += 1
    memory[0][memory[0][0]] = race.arms[arm].drawn
    return False


def race_once(rewards, selector, seed):
    """One decision without offsets: its record, and the arrays that the race left."""
    population = Table(np.asarray(rewards, dtype=float))
    offsets = np.zeros((1, len(rewards)))
    made = decide.many(
        population, selector, np.random.default_rng(seed), lambda lo, hi: offsets, 1, False
    )
    (scratch,) = decide.engine_of(population, selector).idle
    return made[0], scratch


@pytest.mark.slow_for("2600-500-1.0")
@pytest.mark.plain
@pytest.mark.parametrize(("size", "batch", "growth"), [
    (2600, 500, 1.0), (2500, 500, 1.0), (1000, 500, 1.0), (1001, 500, 1.0), (1000, 4, 1.0),
    (1000, 2, 2.0), (1024, 16, 2.0), (1000, 7, 1.3), (200, 2, 1.01),
])  # fmt: skip
def test_looks_are_those_of_the_race(size, batch, growth):
    racing = sm.Racing(Diary(), batch=batch, growth=growth, retreat=False)
    _, scratch = race_once(np.zeros((2, size)), racing, 1)
    seen = scratch.memory[0][1 : 1 + scratch.memory[0][0]]
    assert np.array_equal(seen, looks(size, batch, growth))


def test_equal_distances():
    """Each look reads `batch` more rows; the one that has read everything is not a look."""
    assert looks(2600, 500, 1.0).tolist() == [500, 1000, 1500, 2000, 2500]
    assert looks(2500, 500, 1.0).tolist() == [500, 1000, 1500, 2000]
    assert looks(10, 500, 1.0).tolist() == [500]


@jit
def index(rows, drawn):
    return look_at(rows, drawn)


@pytest.mark.plain
def test_a_look_is_found_by_its_rows():
    for rows in (looks(2600, 500, 1.0), looks(9000, 3, 1.2), np.array([7])):
        assert [index(rows, n) for n in rows] == list(range(len(rows)))


# ------------------------------------------------------------------------------------ formulas
def stop_by_t(differences, size, delta, batch):
    """Korattikara, Chen & Welling (2014), Alg. 1, written once more: rows read, mean ahead."""
    for n in range(batch, size, batch):
        d = differences[:n]
        s = np.std(d, ddof=1) / sqrt(n) * sqrt(1 - (n - 1) / (size - 1))
        if stats.t.sf(abs(d.mean() / s), n - 1) < delta:
            return n, d.mean()
    return size, differences.mean()


def stop_by_series(differences, size, delta, batch, reach, p):
    """Bardenet, Doucet & Holmes (2014) with the Bernstein-Serfling bound: rows read, mean."""
    n, t = batch, 1
    while n < size:
        d = differences[:n]
        term = log(5 / (delta * (p - 1) / (p * t**p)))
        rho = 1 - (n - 1) / size if 2 * n <= size else (1 - n / size) * (1 + 1 / n)
        kappa = 7 / 3 + 3 / sqrt(2)
        if abs(d.mean()) > np.std(d) * sqrt(2 * rho * term / n) + kappa * reach * term / n:
            return n, d.mean()
        n, t = 2 * n, t + 1
    return size, differences.mean()


@pytest.mark.slow_for("series")
@pytest.mark.parametrize("rule", ["t", "series"])
def test_decides_as_published(rule, rng):
    """At the look, and for the arm, of a plain version on the rows in the order they were read."""
    size, batch, stopped = 2000, 40, []
    for seed in range(60):
        rewards = rng.standard_normal((2, size)) * [[1.0], [0.3]] + [[0.0], [0.15 * (seed % 4)]]
        if rule == "t":
            racing = austere(0.02, batch)
        else:
            rewards = np.clip(rewards, -0.6, 0.6)
            confidence = sm.Confidence(spread=1.2, p=1.5)
            racing = sm.Racing(confidence, delta=0.2, batch=batch, retreat=False)
        made, scratch = race_once(rewards, racing, seed)
        # All rows fit into the buffer: what was read stands there, in order.
        values = scratch.race.values[:, : made["pulls"] // 2]
        difference = np.concatenate([values[0] - values[1], np.full(size - len(values[0]), 1e9)])
        if rule == "t":
            n, mean = stop_by_t(difference, size, 0.02, batch)
        else:
            n, mean = stop_by_series(difference, size, 0.2, batch, 2.4, 1.5)
        assert (2 * n, int(mean < 0)) == (made["pulls"], made["arm"])
        stopped.append(n)
    assert len(set(stopped)) > 8 if rule == "t" else len(set(stopped)) > 3


def test_critical_values_are_students():
    pair = Shape((20_000,) * 2, shared=True)
    for delta in (1e-6, 0.05, 0.4):
        params = sm.TTest().params(pair, delta, 2, 1.3)
        assert params.rows[0] == 2 and params.rows[-1] > 10_000
        wanted = stats.t.isf(delta, params.rows - 1)
        assert params.critical == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("p", [1.01, 1.5, 2.0, 9.0])
def test_shares_of_delta_add_up_to_less(p):
    """However many looks there are: 1e6 of them, and the tail of the series by its integral."""
    pair = Shape((10_000_000,) * 2, shared=True)
    params = sm.Confidence(spread=1.0, p=p).params(pair, 0.1, 10, 1.0)
    shares = 5.0 * np.exp(-params.terms)
    assert shares[0] == pytest.approx(0.1 * (p - 1) / p)
    rest = 0.1 / p * len(shares) ** (1.0 - p)
    assert 0.05 < shares.sum() + rest <= 0.1 + 1e-12


# ------------------------------------------------------------------------------- realised error
@pytest.mark.parametrize("growth", [1.0, 2.0])
@pytest.mark.parametrize("delta", [0.05, 0.4])
def test_confidence_keeps_delta(growth, delta, rng):
    """Gaussian differences under the same Gumbels as Exact; false alarms 1e-6 a count."""
    rewards = standardised(rng.standard_normal((2, 4000)), 2e-3, TWO)
    rule = sm.Confidence(spread=np.ptp(rewards, axis=1))
    racing = sm.Racing(rule, delta=delta, batch=100, growth=growth, retreat=False)
    made = against_exact(rewards, racing, 3000)
    at_most(made.wrong, made.draws, delta)
    assert made.share_read < 0.95


def test_the_level_of_a_look_is_not_that_of_a_decision(rng):
    """TTest at delta .05 and nearly tied arms: errors are proved to exceed .25.

    The gaps, of a few nats, are nothing beside sqrt(N) sigma = 140 nats.
    """
    rewards = standardised(rng.standard_normal((2, 20_000)), 1.0, TWO)
    made = against_exact(rewards, austere(), 2000)
    above(made.wrong, made.draws, 0.25)
    corrected = against_exact(rewards, sm.Racing(sm.Normal(), delta=0.05, retreat=False), 2000)
    at_most(corrected.wrong, corrected.draws, 0.05)


def test_one_look_of_the_t_test_keeps_its_level(rng):
    """With one look before the exact one, delta is the level it says, of a wrong side."""
    rewards = standardised(rng.standard_normal((2, 1000)), 1.0, TWO)
    made = against_exact(rewards, austere(0.05, 500), 4000)
    at_most(made.wrong, made.draws, 0.05)


# --------------------------------------------------------------------------------------- guards
def rules():
    return (sm.TTest(), sm.Confidence(spread=1.0))


@pytest.mark.plain
@pytest.mark.parametrize("rule", rules(), ids=["t", "confidence"])
def test_equal_rewards_are_read_to_the_end(rule):
    racing = sm.Racing(rule, batch=100, growth=1.0, retreat=False)
    choice = sm.choose(np.full((2, 1050), 0.3), selector=racing, seed=1)
    assert choice == (0, 2100, 11, True, 0, "exhausted")


@pytest.mark.plain
def test_a_constant_difference_decides_no_t_test():
    """A standard error of zero is not infinite evidence: the spikes may be elsewhere."""
    rewards = np.zeros((2, 1050))
    rewards[1] = 1e-3
    rewards[0, 17] = 2.0
    for seed in range(20):
        assert sm.choose(rewards, selector=austere(batch=100), seed=seed).arm == 0


@pytest.mark.plain
def test_an_impossible_arm_and_a_single_one():
    rewards = np.random.default_rng(0).random((2, 1050))
    rewards[0, ::2] = -np.inf
    for rule in rules():
        racing = sm.Racing(rule, batch=100, growth=1.0, retreat=False)
        assert sm.choose(rewards, selector=racing, seed=1).arm == 1
        assert sm.choose(rewards[:1], selector=racing, seed=1).pulls == 0


@pytest.mark.plain
def test_a_reward_outside_the_spread_is_named():
    rewards = np.random.default_rng(0).random((2, 400))
    rewards[1, 111] = 1.3
    racing = sm.Racing(sm.Confidence(spread=1.0), retreat=False)
    with pytest.raises(sm.SpreadError, match=r"arm 1 at datum 111 is 1\.3, outside"):
        sm.choose(rewards, selector=racing, seed=0)


def test_refusals_say_what_to_do():
    three = np.zeros((3, 300))
    for rule in rules():
        with pytest.raises(ValueError, match=r"compares two arms.* has 3; use Normal\(\)"):
            sm.choose(three, selector=sm.Racing(rule))
    with pytest.raises(ValueError, match=r"delta=0\.5: TTest\(\) needs"):
        sm.choose(three[:2], selector=sm.Racing(sm.TTest(), delta=0.5))
    with pytest.raises(ValueError, match=r"no range.*spread="):
        sm.choose(three[:2], selector=sm.Racing(sm.Confidence()))
    with pytest.raises(ValueError, match=r"rows of their own"):
        sm.choose([np.zeros(300), np.zeros(200)], selector=sm.Racing(sm.TTest()))
    for p in (1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"give p > 1"):
            sm.Confidence(spread=1.0, p=p)


def test_equal_distances_are_for_rules_made_for_them():
    for rule in (sm.Normal(), sm.BernsteinSerfling(spread=1.0)):
        with pytest.raises(ValueError, match=rf"growth=1\.0: {type(rule).__name__} spends.*TTest"):
            sm.Racing(rule, growth=1.0)
    sm.Racing(sm.Betting(spread=1.0), growth=1.0)  # looks where it likes
    for growth in (1.005, 0.0, 17.0, np.nan):
        with pytest.raises(ValueError, match=r"between 1\.01 and 16, or 1\.0"):
            sm.Racing(growth=growth)


# ------------------------------------------------------------------------------ in a Metropolis
def coin(state, data, n):
    return sm.log(state.p[0]) if data.y[n] == 1 else sm.log(1.0 - state.p[0])


@pytest.mark.parametrize("rule", [sm.TTest(), sm.Confidence(spread=log(9.0))], ids=["t", "series"])
def test_metropolis(rule):
    """Audited: decisions end early, and those of a bounded rule keep delta."""
    size, draws = (500, 20) if DISABLED else (20_000, 1500)
    y = (np.arange(size) % 10 < 3).astype(np.int64)
    model = sm.Model(coin, {"y": y}, {"p": 0.3}, constraints={"p": sm.interval(0.1, 0.9)})
    racing = sm.Racing(rule, delta=0.05, batch=100, growth=1.0, retreat=False)
    kernel = sm.Metropolis("p", scale=2.0, selector=racing, adapt=False)
    trace = sm.sample(
        model, kernel, draws=draws, warmup=0, chains=1, seed=1, audit=1.0, progress=False
    )
    told = {name: value.sum() for name, value in trace.stats["p"].items()}
    assert told["audited"] == told["decisions"]
    assert kernel.guarantee == ("asymptotic" if rule == sm.TTest() else "bounded")
    if not DISABLED:
        assert told["raced"] > 0.2 * told["decisions"]
        assert told["pulls"] < 0.9 * told["everything"]
        if kernel.guarantee == "bounded":
            at_most(told["wrong"], told["audited"], 0.05)
