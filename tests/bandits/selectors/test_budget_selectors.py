"""Selectors from best-arm identification: fixed budgets, linear and smooth arms.

Each decides beside sm.Exact under the same Gumbels. Where the difference of two arms is the same
in every datum, a selector that compares arms on the same rows cannot err, whatever it reads: that
is tested by equality. Elsewhere errors are counted.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.claims import at_most
from tests.helpers.gumbels import table


# --------------------------------------------------------------------------------------- LinGapE
def linear(rng, arms, rows, scale):
    """Rewards x' g_n: a population, its features, and the standard deviation of a reward."""
    features = np.c_[np.ones(arms), np.linspace(-1.0, 1.0, arms)]
    slopes = scale * rng.standard_normal((rows, 2))
    slopes += np.array([0.0, 1.5]) / rows - slopes.mean(axis=0)
    rewards = features @ slopes.T
    return table(rewards), features, float(rewards.std(axis=1).max()), rewards


@pytest.mark.slow
def test_lingape_decides_by_few_arms(rng):
    """Gaps of a tenth of a nat and more, in 40 arms: errors at most delta."""
    population, features, noise, _ = linear(rng, 40, 30_000, 1e-4)
    exact = sm.draw(population, 300, sm.Exact(), seed=5)
    selector = sm.LinGapE(features, delta=0.1, noise=noise, norm=3.0 / 30_000)
    found = sm.draw(population, 300, selector, seed=5)
    at_most(int((found.arms != exact.arms).sum()), 300, 0.1)
    assert found.share_read < 0.5 and found.guarantee == "bounded"


@pytest.mark.slow
@pytest.mark.plain
def test_lingape_falls_back_on_sums(rng):
    """Rewards too noisy to tell: exact, at twice the price at most."""
    population, features, noise, rewards = linear(rng, 10, 500, 1.0)
    exact = sm.draw(population, 100, sm.Exact(), seed=6)
    found = sm.draw(population, 100, sm.LinGapE(features, noise=noise, norm=0.1), seed=6)
    assert np.array_equal(found.arms, exact.arms)
    assert found.pulls.max() <= 2 * rewards.size
    rewards = rewards.copy()
    rewards[3, ::2] = -np.inf
    exact = sm.draw(table(rewards), 100, sm.Exact(), seed=6)
    found = sm.draw(table(rewards), 100, sm.LinGapE(features, noise=noise, norm=0.1), seed=6)
    assert np.array_equal(found.arms, exact.arms)


@pytest.mark.plain
def test_what_lingape_refuses(rng):
    population, features, _, _ = linear(rng, 10, 500, 1.0)
    with pytest.raises(ValueError, match="ratio"):
        sm.draw(population, 1, sm.LinGapE(features, rule="ratio"))
    with pytest.raises(ValueError, match="one row for each of 10 arms"):
        sm.draw(population, 1, sm.LinGapE(features[:5]))
    with pytest.raises(ValueError, match="equal features"):
        sm.draw(population, 1, sm.LinGapE(np.ones((10, 2))))


# -------------------------------------------------------------------------------------- BayesGap
def smooth(rng, arms, rows, height):
    """Rewards whose totals are a smooth curve of the arm, and the covariance of such curves."""
    grid = np.linspace(-1.0, 1.0, arms)
    slopes = rng.standard_normal(rows)
    rewards = -0.5 * height / rows * (grid[:, None] - 0.2 - slopes / 20.0) ** 2
    apart = grid[:, None] - grid
    return table(rewards), height**2 * np.exp(-0.5 * (apart / 0.5) ** 2), rewards.sum(axis=1)


@pytest.mark.parametrize("batch", [None, 64])
def test_bayesgap_reads_a_few_arms_of_many(rng, batch):
    population, covariance, totals = smooth(rng, 200, 1500, 30.0)
    exact = sm.draw(population, 200, sm.Exact(), seed=7)
    selector = sm.BayesGap(30 * 1500, covariance, mean=totals.mean(), batch=batch)
    found = sm.draw(population, 200, selector, seed=7)
    assert found.pulls.max() <= 30 * 1500
    at_most(int((found.arms != exact.arms).sum()), 200, 0.1)
    assert found.guarantee == "none"


@pytest.mark.plain
def test_bayesgap_and_impossible_arms(rng):
    population, covariance, totals = smooth(rng, 50, 600, 10.0)
    rewards = np.array(population.data[0])
    rewards[20:, 100] = -np.inf
    found = sm.draw(
        table(rewards), 50, sm.BayesGap(40 * 600, covariance, mean=totals.mean()), seed=8
    )
    assert found.arms.max() < 20
    with pytest.raises(sm.RewardError, match="all 50 arms are impossible"):
        sm.draw(table(np.full((50, 600), -np.inf)), 1, sm.BayesGap(60 * 600, covariance))
    rewards[:] = np.inf
    with pytest.raises(sm.RewardError, match="at datum"):
        sm.draw(table(rewards), 1, sm.BayesGap(40 * 600, covariance))


@pytest.mark.plain
def test_what_bayesgap_refuses(rng):
    population, covariance, _ = smooth(rng, 50, 600, 10.0)
    with pytest.raises(ValueError, match="budget=100: one pull reads 600"):
        sm.draw(population, 1, sm.BayesGap(100, covariance))
    with pytest.raises(ValueError, match="symmetric matrix"):
        sm.draw(population, 1, sm.BayesGap(1000, covariance[:5]))
    with pytest.raises(ValueError, match="none may be negative"):
        sm.draw(population, 1, sm.BayesGap(1000, -covariance))
    with pytest.raises(ValueError, match="batch=3"):
        sm.BayesGap(1000, covariance, batch=3)
