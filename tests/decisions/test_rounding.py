"""Rewards that differ by rounding alone say nothing: races read on, whatever stands around them."""

from dataclasses import dataclass

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules.rule import Rule, RuleFunctions, error_at, gap, grain_of
from subsample_mcmc.numerics.jit import DISABLED, jit
from tests.helpers.claims import above, at_most
from tests.helpers.laws import ALARM

SIZE, DRAWS = 20_000, 1_000
Y = np.random.default_rng(0).exponential(size=SIZE) + 2.0
X = np.random.default_rng(1).standard_normal(SIZE)


def shifted(kind=float):
    """Where waiting times begin: a constant apart but for the few rows before, which are -inf."""

    def log_factor(data, arm, n):
        d = data.y[n] - data.start[arm]
        return -d / 0.7 if d >= 0.0 else -np.inf

    first = np.sort(Y)
    data = {"y": Y.astype(kind), "start": np.array([first[0] - 1e-6, first[60]]).astype(kind)}
    return sm.Population(log_factor, data, arms=2)


def spliced(kind=float):
    """How many exceed a threshold, 1 of 200: a constant apart in all others, which have a law."""

    def log_factor(data, arm, n):
        v, p = data.x[n], data.p[arm]
        return sm.log(p) - (v - data.u) if v >= data.u else sm.log1p(-p) - 0.5 * v * v

    threshold = np.sort(X)[-100]
    data = {"x": X.astype(kind), "u": kind(threshold), "p": np.array([0.0045, 0.0055], dtype=kind)}
    return sm.Population(log_factor, data, arms=2)


def wrong(population, selector) -> tuple[int, int]:
    """(draws that are not those of exact decisions under the same noise, all)."""
    given = {"size": DRAWS, "seed": 1, "progress": False}
    raced = sm.draw(population, selector=selector, **given)
    exact = sm.draw(population, selector=sm.Exact(), **given)
    return int((np.asarray(raced.arms) != np.asarray(exact.arms)).sum()), DRAWS


RULES = {
    "normal": sm.Racing(delta=0.001),
    "without guard": sm.Racing(sm.Normal(guard=False), delta=0.001),
    "t-test": sm.Racing(sm.TTest(), delta=0.001),
}


@pytest.mark.skipif(DISABLED, reason="thousands of decisions")
@pytest.mark.parametrize("kind", [float, np.float32])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("made", [shifted, spliced])
def test_few_rows_decide(made, name, kind):
    """.92, .27 and .74 of decisions were wrong, at any delta: the shares of the better arm."""
    at_most(*wrong(made(kind), RULES[name]), 0.001, ALARM)


@jit(inner="always")
def drop(race, params, memory, arm):
    """A grain of the differences themselves, as it was."""
    own = race.arms[arm]
    mean = own.first / own.seen
    spread = own.second / own.seen - mean * mean
    if spread <= 1e-28 * (own.shift * own.shift + own.second / own.seen):
        return False
    return gap(race, arm) > 3.0 * error_at(race, arm, spread)


@dataclass(frozen=True)
class ByDifferences(Rule):
    """Three standard errors."""

    def functions(self):
        return RuleFunctions(drop)

    def params(self, shape, delta, batch, growth):
        return (delta,)


@pytest.mark.skipif(DISABLED, reason="thousands of decisions")
@pytest.mark.parametrize("made", [shifted, spliced])
def test_differences_alone_do_not_tell(made):
    """The mutant: by what differences come to, their rounding is as good as a spread."""
    above(*wrong(made(), sm.Racing(ByDifferences(), delta=0.001)), 0.1, ALARM)


@pytest.mark.parametrize(("values", "grain"), [
    ([[0.1, -0.7], [0.3, 0.2]], 0.9),  # the largest pair
    ([[0.5, -0.25], [1.0, 3.0]], 3.25 * 2.0**29),  # all have 32 bits
    ([[0.0, 0.0], [0.0, 0.0]], 0.0),
])  # fmt: skip
def test_what_may_be_rounding(values, grain):
    values = np.array(values)

    @jit
    def told(values, leader, arm):
        return grain_of(values, leader, arm, 0, 2)

    assert told(values, 1, 0) == pytest.approx(grain, rel=1e-15)
    alone = 2.0 * np.abs(values[0]).max() * (1.0 if grain == 0.9 else 2.0**29)
    assert told(values, -1, 0) == alone


def test_real_differences_below_large_rewards_are_raced():
    """A millionth of what all rewards have in common is no rounding."""
    rng = np.random.default_rng(2)
    common = 1e3 * rng.standard_normal(SIZE)
    rewards = np.stack([common, common + 1e-3 * (rng.standard_normal(SIZE) + 0.5)])
    made = sm.choose(rewards, selector=sm.Racing(delta=0.01), seed=1)
    assert made.arm == 1 and made.pulls < SIZE


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e6 + 0.3])
def test_bounds_take_the_variance_as_it_is(offset):
    """Counts beside a million fit 32 bits, and passed for rounding: 12 of 100 wrong."""
    rng = np.random.default_rng(5)
    rewards = (rng.random((2, 200_000)) < 0.5).astype(float) + offset
    best = int(np.argmax(rewards.sum(axis=1)))
    racing = sm.Racing(sm.BernsteinSerfling(spread=1.0), delta=0.01)
    made = [sm.choose(rewards, selector=racing, seed=seed) for seed in range(30)]
    at_most(sum(one.arm != best for one in made), 30, 0.01, ALARM)
    assert min(one.pulls for one in made) > 1.9 * 200_000  # nearly all rows of both
