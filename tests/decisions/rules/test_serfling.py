"""BernsteinSerfling: coverage of the bound, races with shared rows and with rows of their own."""

import itertools
from math import ceil, log, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions import choose as decide
from subsample_mcmc.decisions.rules.serfling import KAPPA, radius
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.target.population import Shape, Table
from tests.helpers.claims import above, at_most
from tests.helpers.naive import against_exact


@jit
def bound(n, size, s2, spread, term):
    return radius(n, size, s2, n, spread, term)


# ------------------------------------------------------------------------------------ the bound
@pytest.mark.plain
def test_radius_is_the_formula():
    """Eq. 6-7 of Chen & Ghahramani (2016), written once more."""
    assert pytest.approx(4.454653676892) == KAPPA
    for size, n, s2, spread, delta in itertools.product(
        (10, 1000), (1, 4, 5, 6, 9), (0.0, 2.0), (0.0, 3.0), (1e-6, 0.3)
    ):
        rho = 1 - (n - 1) / size if n <= size / 2 else (1 - n / size) * (1 + 1 / n)
        term = log(5 / delta)
        right = sqrt(s2) * sqrt(2 * rho * term / n) + KAPPA * spread * term / n
        assert bound(n, size, s2, spread, term) == pytest.approx(right, rel=1e-12)


@pytest.mark.plain
def test_radius_is_zero_when_all_is_read():
    assert bound(7, 7, 1.0, 2.0, 5.0) == 0.0
    assert bound(1, 1, 0.0, 2.0, 5.0) == 0.0
    assert bound(6, 7, 1.0, 2.0, 5.0) > 0.0


POPULATIONS = {
    "rare": lambda rng, size: (np.arange(size) < max(size // 100, 1)).astype(float),
    "coins": lambda rng, size: (np.arange(size) % 2).astype(float),
    "normal": lambda rng, size: rng.normal(size=size),
    "lognormal": lambda rng, size: rng.lognormal(0.0, 2.0, size),
}


@pytest.mark.plain
@pytest.mark.parametrize("name", POPULATIONS)
def test_coverage_by_enumeration(name):
    """Over all samples of n of 8 rows the bound fails in a share of at most delta, on each side."""
    values = POPULATIONS[name](np.random.default_rng(0), 8)
    for n, delta in itertools.product(range(1, 9), (0.1, 0.5, 0.99)):
        fails = np.zeros(2)
        samples = np.array([values[list(c)] for c in itertools.combinations(range(8), n)])
        for sample in samples:
            reach = bound(n, 8, sample.var(), np.ptp(values), log(5 / delta)) + 1e-12
            miss = sample.mean() - values.mean()
            fails += [miss > reach, -miss > reach]
        assert np.all(fails <= delta * len(samples))


def misses(name, size, n, delta, kappa=True, times=4000):
    """How often a sample mean lies further above, or below, the mean than the bound allows."""
    rng = np.random.default_rng(1)
    values = POPULATIONS[name](rng, size)
    samples = rng.permuted(np.tile(values, (times, 1)), axis=1)[:, :n]
    spread = np.ptp(values) if kappa else 0.0
    reach = np.array([bound(n, size, s2, spread, log(5 / delta)) for s2 in samples.var(axis=1)])
    miss = samples.mean(axis=1) - values.mean()
    return np.count_nonzero(miss > reach), np.count_nonzero(-miss > reach), times


@pytest.mark.parametrize("name", POPULATIONS)
def test_coverage_by_simulation(name):
    for size, n, delta in itertools.product((100, 500), (5, 40, 90), (0.05, 0.5)):
        up, down, times = misses(name, size, n, delta)
        at_most(up, times, delta)
        at_most(down, times, delta)


def test_coverage_fails_without_the_range():
    """The same simulation on a bound without its last term: the test above can fail."""
    _, down, times = misses("rare", 500, 40, 0.05, kappa=False)
    above(down, times, 0.05)


@pytest.mark.plain
def test_risk_is_split_over_looks_and_arms():
    """Every look before the last, times the rivals (paired) or all arms (each its own bound)."""
    for size, batch, growth in itertools.product((7, 8, 9, 1000, 4096), (2, 3), (1.5, 2.0, 4.0)):
        looks, target = 0, batch
        while target < size:
            looks, target = looks + 1, max(target + 1, ceil(target * growth))
        shared = Shape((size,) * 5, shared=True)
        for paired, parts in ((True, 4), (False, 5)):
            rule = sm.BernsteinSerfling(spread=1.0, paired=paired)
            shares = np.exp(rule.params(shared, 0.1, batch, growth).terms) * 0.1 / 5.0
            assert np.all(shares >= parts * looks * (1 - 1e-12)), (size, batch, growth)
            if (size, batch, growth) == (4096, 2, 2.0):  # 2, 4, ..., 2048
                assert shares == pytest.approx(11.0 * parts)


# ------------------------------------------------------------------------------------- the race
@pytest.mark.parametrize("paired", [True, False])
def test_realised_error(paired, rng):
    """Easy enough that arms are dropped early, on skewed rewards; false alarms 1e-6 a count."""
    rewards = np.minimum(rng.lognormal(0.0, 1.0, (6, 4000)), 5.0)
    rewards = 1e-3 * (rewards - rewards.mean(axis=1, keepdims=True))
    rule = sm.BernsteinSerfling(spread=np.ptp(rewards, axis=1), paired=paired)
    for delta in (0.05, 0.5):
        made, wrong = against_exact(rewards, sm.Racing(rule, delta, retreat=False), 1500, 3)
        at_most(wrong, len(made), delta)
        assert made.dropped_early.mean() > 1.0 and made.share_read < 0.9


def unequal(rng):
    """Arms of 1 to 3000 rows, totals some nats apart, rewards of very different means."""
    sizes = np.rint(np.exp(rng.uniform(0.0, np.log(3000.0), 8))).astype(int)
    sizes[:2] = 1, 3000
    arms = [rng.normal(0.0, 1.0) + 5e-3 * rng.random(n) for n in sizes]
    totals = np.array([a.sum() for a in arms])
    return arms, -np.rint(totals) + rng.gumbel(0.0, 3.0, len(arms)), totals


@pytest.mark.plain
@pytest.mark.parametrize("retreat", [True, False])
def test_arms_with_rows_of_their_own_decide_on_totals(retreat):
    """Against exact sums. Decisions in which no arm was dropped early are right, always."""
    rng, trials = np.random.default_rng(0), 3 if DISABLED else 150
    rule, delta = sm.BernsteinSerfling(spread=5e-3, paired=False), 0.1
    selector = sm.Racing(rule, delta, batch=16, retreat=retreat)
    wrong, early, pulls, rows = 0, 0, 0, 0
    for seed in range(trials):
        arms, offsets, totals = unequal(rng)
        choice = sm.choose(arms, offsets, selector, seed)
        error = choice.arm != np.argmax(totals + offsets)
        assert not (choice.exact and error)
        wrong, early = wrong + error, early + choice.dropped_early
        pulls, rows = pulls + choice.pulls, rows + sum(map(len, arms))
    at_most(wrong, trials, delta)
    if not retreat:
        assert early > trials and pulls < rows


@pytest.mark.slow
def test_ten_thousand_decisions_with_rows_of_their_own():
    rng, delta = np.random.default_rng(1), 0.05
    rule = sm.BernsteinSerfling(spread=5e-3, paired=False)
    selector, wrong = sm.Racing(rule, delta, batch=16, retreat=False), 0
    for seed in range(10_000):
        arms, offsets, totals = unequal(rng)
        wrong += sm.choose(arms, offsets, selector, seed).arm != np.argmax(totals + offsets)
    at_most(wrong, 10_000, delta)


def test_moments_are_those_of_rows_read():
    """After the leader changed late, with a first batch whose doublings skip 2048.

    The mean of leader - arm is known to 0.05; columns of no reward would move it by a fifth.
    """
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=(3, 60_000))
    rewards -= rewards.mean(axis=1, keepdims=True)
    level = np.array([0.0, 20.0, 40.0])
    offsets = -60_000.0 * level[None]
    population = Table(rewards + level[:, None])
    rule = sm.BernsteinSerfling(spread=12.0)
    selector = sm.Racing(rule, 0.05, batch=50, retreat=False)
    for seed in range(8):
        generator = np.random.default_rng(seed)
        decide.many(population, selector, generator, lambda lo, hi: offsets, 1, False)
        (scratch,) = decide.engine_of(population, selector).idle
        race = scratch.race
        for arm in range(3):
            own, leader = race.arms[arm], race.now[0].leader
            mean = own["shift"] + own["first"] / own["seen"]
            assert mean == pytest.approx(level[leader] - level[arm], abs=0.3)


# ------------------------------------------------------------------------ the range, and refusals
@pytest.mark.plain
def test_an_impossible_arm_with_rows_of_its_own_dies():
    arms = [np.full(400, 0.5), np.full(300, 0.1), np.full(200, 9.0)]
    arms[2][::3] = -np.inf
    rule = sm.BernsteinSerfling(spread=1.0, paired=False)
    assert sm.choose(arms, selector=sm.Racing(rule, retreat=False), seed=0).arm == 0


@pytest.mark.plain
def test_a_reward_outside_the_spread_is_named_with_its_own_row():
    arms = [np.full(400, 0.5), np.full(400, 0.1), np.full(200, 0.7)]
    arms[1][111] = 1.3
    rule = sm.BernsteinSerfling(spread=1.0, paired=False)
    with pytest.raises(sm.SpreadError, match=r"arm 1 at datum 111 is 1\.3, outside"):
        sm.choose(arms, [0.0, 160.0, 60.0], sm.Racing(rule, 1e-6, retreat=False), seed=0)


@pytest.mark.plain
def test_refusals_say_what_to_do():
    cases = (
        (sm.BernsteinSerfling(), r"no range.*spread=.*Normal"),
        (sm.BernsteinSerfling(spread=1.0), r"rows of their own.*paired=False"),
        (
            sm.BernsteinSerfling(spread=np.array([1.0, -1.0]), paired=False),
            "finite and not negative",
        ),
    )
    for rule, words in cases:
        shared = "rows" not in words
        rewards = np.zeros((2, 300)) if shared else [np.zeros(300), np.zeros(200)]
        with pytest.raises(ValueError, match=words):
            sm.choose(rewards, selector=sm.Racing(rule))
