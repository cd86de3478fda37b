"""Numbers of races by formulas: costs, moments of leaders that change, radii; and choices."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.race import change_leader
from subsample_mcmc.decisions.racing import PATIENCE, Racing
from subsample_mcmc.decisions.racing import resize as resize_race
from subsample_mcmc.decisions.rules import normal
from subsample_mcmc.decisions.rules.bnormal import b_normal
from subsample_mcmc.decisions.rules.rule import BUFFER, make_race, skewness, variance_as_seen
from subsample_mcmc.numerics import rows as draws
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.population import Shape
from tests.numerics.test_draws import finish, seeded


def test_a_number_for_retreat_is_patience():
    """About 1.1 + r times the exact cost."""
    shape = Shape((10**6, 10**6), True)
    more = Racing(retreat=0.5).params(shape).patience - Racing().params(shape).patience
    assert more == pytest.approx(0.5) and Racing().params(shape).patience == PATIENCE


def test_the_formula_of_expected_pulls():
    """Of three arms by Eq. 5 at delta / 2."""
    size, gap, arms = 640, 0.3, 3
    for paired, share, side in ((True, 2, "eq5"), (False, 3, "eq5")):
        bound = b_normal(0.05 / share, 64 / size, side)
        rows = size / ((size - 1) * gap**2 / (4.0 * bound**2) + 1.0)
        looks = [64 * 2**k for k in range(5) if 64 * 2**k < size] + [size]
        wanted_rows = min(look for look in looks if look >= rows)
        assert sm.expected_pulls(gap, size, arms, paired=paired) == arms * wanted_rows
    # At a gap where the sides differ: find it.
    gaps = np.linspace(0.05, 1.0, 20_000)
    bound = b_normal(0.4 / 2, 64 / size, "eq5")
    rows = size / ((size - 1) * gaps**2 / (4.0 * bound**2) + 1.0)
    looks = np.array([64, 128, 256, 512, 640])
    wanted_rows = looks[np.minimum(np.searchsorted(looks, rows - 1e-9), 4)]
    assert np.array_equal(sm.expected_pulls(gaps, size, 3, delta=0.4), 3 * wanted_rows)


def test_few_rows_are_expected_to_be_read_all():
    assert sm.expected_pulls(0.5, 50, 3) == 150.0 and sm.expected_pulls(0.5, 64, 2) == 128.0


@jit
def take_some(scratch, stream, m):
    return draws.take(scratch.rows, stream, 0, m)


@jit
def change_size(params, scratch, rows):
    resize_race(params, scratch, rows)


def test_rows_of_a_smaller_population_leave_nothing_behind():
    """100 rows are two words of bits."""
    selector, shape = Racing(), Shape((1_000, 1_000), True)
    scratch, params, stream = selector.scratch(shape), selector.params(shape), seeded(3)
    change_size(params, scratch, 100)
    for _ in range(3):
        with np.errstate(over="ignore"):
            found = [scratch.rows.kept[(at := take_some(scratch, stream, 50)) : at + 50].copy()
                     for _ in range(2)]  # fmt: skip
            assert np.array_equal(np.sort(np.concatenate(found)), np.arange(100))
            finish(scratch.rows)
        assert not scratch.rows.bits.any()


@jit
def swap(race, old, new):
    change_leader(race, old, new)


@jit
def seen_of(race, arm):
    return variance_as_seen(race, arm), skewness(race, arm)


def test_moments_of_a_leader_that_changes_late():
    """Deviations add up, the mean is that of totals, skewness of the buffer."""
    rng = np.random.default_rng(0)
    race, drawn = make_race([50_000] * 3), 4_096
    rewards = rng.gamma(0.5, size=(3, drawn)) * np.array([[1.0], [2.0], [0.5]])
    race.values[:, :BUFFER] = rewards[:, :BUFFER]
    race.alive[:], race.now[0].alive, race.now[0].leader = np.arange(3), 3, 0
    old = rewards[0] - rewards
    race.arms["drawn"], race.arms["seen"] = drawn, drawn
    race.arms["total"] = rewards.sum(axis=1)
    for power, name in ((1, "first"), (2, "second"), (3, "third")):
        race.arms[name] = (old**power).sum(axis=1)
    before = old.std(axis=1)
    swap(race, 0, 1)
    for arm in (0, 2):
        own, buffered = race.arms[arm], rewards[1, :BUFFER] - rewards[arm, :BUFFER]
        spread, skew = seen_of(race, arm)
        assert spread == pytest.approx((before[1] + before[arm]) ** 2)
        centred = buffered - buffered.mean()
        assert skew == pytest.approx((centred**3).mean() / centred.std() ** 3)
        mean = own["shift"] + own["first"] / own["seen"]
        assert mean == pytest.approx((rewards[1] - rewards[arm]).mean())
        assert own["seen"] == drawn


def test_what_a_race_counts_for_a_reward():
    """Residuals are four times as dear; a game costs 16 streamed rewards, of them 1.6."""
    for residual, plain, game in ((False, 3.0, 16.0), (True, 12.0, 1.6)):
        shape = Shape((50_000, 50_000), True, (), residual)
        assert Racing().params(shape).gather_cost == plain
        betting = Racing(sm.Betting(spread=1.0)).params(shape)
        assert betting.gather_cost == pytest.approx(plain + game)


def test_betting_reads_few_rows_at_once():
    """Below about 1e5, as its documentation says."""
    rewards = np.random.default_rng(0).random((2, 20_000)) + np.array([[0.0], [0.05]])
    assert sm.choose(rewards, selector=Racing(sm.Betting(spread=1.1)), seed=1).ended == "exact"


@jit
def may_drop(race, params, memory, arm):
    normal.start(race, params, memory)
    return normal.drop(race, params, memory, arm)


def test_the_radius_of_arms_with_rows_of_their_own(rng):
    """Variances add, each with one pseudo-observation; the larger bound counts."""
    sizes, drawn = (1_000, 20_000), 64
    rule, shape = sm.Normal(paired=False), Shape(sizes, False)
    params, memory = rule.params(shape, 0.05, 64, 2.0), rule.memory(shape)
    values = rng.normal(size=(2, drawn)) * np.array([[1.0], [3.0]])
    prior = 63.0 * values.var(axis=1, ddof=1).sum() / 126.0
    total = sum(
        n * n * (1.0 - 63.0 / (n - 1.0)) * (v / drawn + prior / drawn**2)
        for n, v in zip(sizes, values.var(axis=1), strict=True)
    )
    bound = max(b_normal(0.05, 64 / n, "table1") for n in sizes)
    for leader, arm in ((1, 0), (0, 1)):
        for times, dropped in ((1.0 - 1e-9, False), (1.0 + 1e-9, True)):
            race = make_race(sizes)
            race.alive[:], race.now[0].alive, race.now[0].leader = np.arange(2), 2, leader
            race.arms["drawn"], race.arms["seen"] = drawn, drawn
            race.arms["first"], race.arms["second"] = values.sum(axis=1), (values**2).sum(axis=1)
            race.arms["score"][leader] = times * bound * np.sqrt(total)
            assert may_drop(race, params, memory, arm) == dropped


def test_draws_are_argmaxes_under_fresh_gumbels(rng):
    """Of all draws, also within a block of noise."""
    rewards = rng.normal(size=(4, 50)) * 0.1
    population = sm.Population(lambda data, arm, n: data[0][arm, n], (rewards,), 4, 50)
    found = sm.draw(population, 5_000, sm.Exact(), seed=3, progress=False)
    source = np.random.default_rng(3)
    source.integers(2**64, size=1, dtype=np.uint64)
    noise = np.concatenate([source.standard_exponential((n, 4)) for n in (4_096, 904)])
    assert np.array_equal(found.arms, np.argmax(rewards.sum(axis=1) - np.log(noise), axis=1))


def test_a_log_prior_counts_in_a_choice():
    """It adds to offsets."""
    rewards = np.zeros((3, 40))
    given = {"log_prior": np.array([0.0, 2.0, 1.0])}
    population = sm.Population(lambda data, arm, n: data[0][arm, n], (rewards,), 3, 40, **given)
    for selector in (sm.Exact(), Racing()):
        assert sm.choose(population, selector=selector, seed=1).arm == 1
        assert sm.choose(population, [0.0, 0.0, 1.5], selector, seed=1).arm == 2


def test_excluded_arms_are_not_read():
    rewards = np.ones((3, 40))
    rewards[1] = np.nan
    choice = sm.choose(rewards, [0.0, -np.inf, 1.0], sm.Exact())
    assert (choice.arm, choice.pulls) == (2, 80)
