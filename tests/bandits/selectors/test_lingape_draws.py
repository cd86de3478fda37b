"""LinGapE as a selector: excluded and impossible arms, and what its bound promises."""

import numpy as np
import pytest
from scipy.stats import chisquare

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.claims import at_most
from tests.helpers.gumbels import table


def linear(rng, arms, rows, scale):
    """Rewards x' g_n, their features and standard deviation."""
    features = np.c_[np.ones(arms), np.linspace(-1.0, 1.0, arms)]
    slopes = scale * rng.standard_normal((rows, 2))
    slopes += np.array([0.0, 1.5]) / rows - slopes.mean(axis=0)
    rewards = features @ slopes.T
    return rewards, features, float(rewards.std(axis=1).max())


def draws(rewards, selector, count, seed, log_prior=None):
    return sm.draw(table(rewards, log_prior), count, selector, seed=seed)


@pytest.mark.plain
def test_excluded_arms_are_not_read(rng):
    """The arms at both ends tell most, but their prior is 0 and their rewards are no numbers."""
    rewards, features, noise = linear(rng, 20, 4000, 1e-4)
    rewards[[0, 7, 19]] = np.nan
    prior = np.zeros(20)
    prior[[0, 7, 19]] = -np.inf
    selector = sm.LinGapE(features, delta=0.1, noise=noise, norm=3.0 / 4000)
    count = 20 if DISABLED else 100
    found = draws(rewards, selector, count, 1, prior)
    exact = draws(rewards, sm.Exact(), count, 1, prior)
    at_most(int((found.arms != exact.arms).sum()), count, 0.1)
    assert (found.ended == "raced").any()
    every = draws(rewards, sm.LinGapE(features, noise=10.0), count // 2, 1, prior)
    assert np.array_equal(every.arms, exact.arms[: count // 2]) and np.all(every.exact)


@pytest.mark.plain
def test_noise_without_end_is_summed(rng):
    """Enough budget there is by itself; at most twice what an exact decision reads."""
    rewards, features, noise = linear(rng, 8, 300, 0.5)
    exact = draws(rewards, sm.Exact(), 200, 2)
    found = draws(rewards, sm.LinGapE(features, noise=noise, norm=0.1), 200, 2)
    assert np.array_equal(found.arms[found.exact], exact.arms[found.exact])
    assert np.array_equal(found.arms, exact.arms)
    assert found.exact.any() and found.pulls.max() <= 2 * rewards.size


@pytest.mark.plain
def test_impossible_arms_that_no_visit_shows_void_the_linear_bound(rng):
    """One row in 4000: what was ruled out in favour of those arms is summed after all."""
    features = np.array([(1.0, x, z) for x in (-1.0, 1.0) for z in (-1.0, 0.0, 1.0)])
    slopes = 0.01 * rng.standard_normal((4000, 3))
    slopes += np.array([0.0, 20.0, 0.0]) / 4000 - slopes.mean(axis=0)
    rewards = features @ slopes.T
    for arm in range(3, 6):
        rewards[arm, rng.integers(4000)] = -np.inf
    count = 20 if DISABLED else 60
    exact = draws(rewards, sm.Exact(), count, 3)
    found = draws(rewards, sm.LinGapE(features, noise=0.02, norm=0.01), count, 3)
    summed = found.ended == "retreated"
    assert summed.sum() > count // 3
    assert np.array_equal(found.arms[summed], exact.arms[summed])
    with pytest.raises(sm.RewardError, match="all 6 arms are impossible"):
        draws(np.full((6, 4000), -np.inf), sm.LinGapE(features), 1, 4)


@pytest.mark.plain
def test_rows_are_independent():
    """Drawn again, as the theorem wants: with 40 rows some of 32 occur twice, in every visit."""
    seen = np.zeros((2, 40))
    seen[1] = 2.0 ** -np.arange(40)  # a sum of 32 different ones would be below 2
    population = table(seen / 40)
    features = np.array([[1.0, 0.0], [0.0, 1.0]])
    sums = []
    for seed in range(40):
        sm.draw(population, 1, sm.LinGapE(features, noise=1.0, norm=1.0), seed=seed)
        state = next(iter(population.engines.values())).idle[-1].state
        if state.pulls[1] == 32:
            sums.append(32 * 40 * state.means[1])
    assert len(sums) > 10 and max(sums) > 2.0


def test_every_row_is_drawn_as_often(rng):
    population, counts = table(1e-3 * rng.standard_normal((2, 40))), np.zeros(40)
    for seed in range(1500):
        sm.draw(population, 1, sm.LinGapE(np.eye(2), noise=1.0, norm=1.0, batch=32), seed=seed)
        rows = next(iter(population.engines.values())).idle[-1].rows[:32]
        counts += np.bincount(rows, minlength=40)
    assert counts.sum() == 1500 * 32
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.plain
def test_an_arm_that_may_not_be_best_is_refused():
    """Errors of less than epsilon are not bounded by delta, and draws would be wrong by them."""
    features = np.eye(3)
    with pytest.raises(ValueError, match=r"LinGapE\(epsilon=0.1\).*epsilon=0"):
        draws(np.zeros((3, 100)), sm.LinGapE(features, epsilon=0.1), 1, 1)
    with pytest.raises(ValueError, match="noise=-1: give"):
        sm.LinGapE(features, noise=-1)
