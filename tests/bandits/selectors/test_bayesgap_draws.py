"""BayesGap as a selector: what mini-batches teach, impossible arms, and what it calls exact."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers import naive_bandits as naive
from tests.helpers.claims import at_most, below
from tests.helpers.gumbels import table

ROWS = 400


def wide(arms, sd=100.0):
    """A prior that knows nothing: no arm teaches about another."""
    return sd**2 * np.eye(arms)


def rewards_of(rng, arms, rows=ROWS, spread=0.05):
    """Totals some nats apart, on a common part that pairs cancel."""
    common = rng.standard_normal(rows)
    own = spread * rng.standard_normal((arms, rows)) / np.sqrt(rows)
    return common + own + rng.standard_normal((arms, 1)) / rows


def scratch_of(population):
    """Arrays of the selector that was used last."""
    return list(population.engines.values())[-1].idle[-1]


# -------------------------------------------------------------------------------- mini-batches
@pytest.mark.slow
def test_what_is_believed_is_the_posterior_of_one_pooled_mean_of_each_arm(rng):
    """However often an arm is visited, and however the estimate of the noise changes."""
    rewards = rewards_of(rng, 6, 2000, 3.0)
    grid = np.arange(6.0)
    covariance = 9.0 * np.exp(-0.5 * (grid[:, None] - grid) ** 2) + 0.1 * np.eye(6)
    population = table(rewards)
    for seed in range(5):
        sm.draw(population, 1, sm.BayesGap(12_000, covariance, batch=64), seed=seed)
        scratch = scratch_of(population)
        state, at = scratch.belief, int(scratch.place[0])
        seen = np.flatnonzero(state.pulls > 0)
        assert len(seen) > 1 and state.pulls.max() > 64
        n, size = state.pulls[seen], 2000
        own, pooled = state.squares[seen] / (n - 1), scratch.pool[0] / scratch.pool[1]
        least = n / (size * (size - n) * np.maximum(own, 2.0 * pooled))
        most = n / (size * (size - n) * np.maximum(own, 0.5 * pooled))
        precision, value = scratch.told[seen, 0], size * state.means[seen]
        assert np.all((precision >= least * (1 - 1e-9)) & (precision <= most * (1 + 1e-9)))
        apart = np.eye(6) - np.eye(6)[at]
        prior = apart @ covariance @ apart.T
        noise = np.ones(6)
        noise[seen] = 1.0 / precision
        centre, spread = naive.posterior(prior, noise, np.zeros(6), seen, value)
        np.testing.assert_allclose(state.centre, centre, atol=1e-7)
        np.testing.assert_allclose(state.root @ state.root.T, spread, atol=1e-7)


@pytest.mark.slow_for("0.001")
@pytest.mark.slow_for("0.0")
@pytest.mark.parametrize("noise", [0.0, 1e-3, 1e-6, 1e-9])
def test_rows_that_differ_much_may_be_rare(rng, noise):
    """A visit of 64 rows meets none of them: that says little, and not that all is known.

    Taken at its word, half of such draws were wrong; and a third, where all rows differ a little
    and what was told had to be taken back.
    """
    rewards = np.zeros((5, 4000))
    for arm in range(5):
        at = rng.choice(4000, 12, replace=False)
        rewards[arm, at] = rng.choice([-1.0, 1.0], 12) + 0.2 * arm / 12
    population = table(rewards + noise * rng.standard_normal(rewards.shape))
    exact = sm.draw(population, 300, sm.Exact(), seed=1)
    found = sm.draw(population, 300, sm.BayesGap(10**6, wide(5, 4.0), batch=64), seed=1)
    at_most(int((found.arms != exact.arms).sum()), 300, 0.02)
    for seed in range(20):  # nobody holds more precision than its rows say
        sm.draw(population, 1, sm.BayesGap(10**6, wide(5, 4.0), batch=64), seed=seed)
        scratch = scratch_of(population)
        state = scratch.belief
        seen = np.flatnonzero((state.pulls > 0) & (state.pulls < 4000))
        n, pooled = state.pulls[seen], scratch.pool[0] / scratch.pool[1]
        if pooled > 0.0 and len(seen):
            own = state.squares[seen] / (n - 1)
            most = n / (4000 * (4000 - n) * np.maximum(own, 0.5 * pooled))
            assert np.all(scratch.told[seen, 0] <= most * (1 + 1e-6))


@pytest.mark.plain
@pytest.mark.parametrize("batch", [None, 32])
def test_enough_budget_and_a_wide_prior_find_the_exact_arm(rng, batch):
    population, draws = table(rewards_of(rng, 7)), 20 if DISABLED else 200
    exact = sm.draw(population, draws, sm.Exact(), seed=2)
    found = sm.draw(population, draws, sm.BayesGap(10**6, wide(7), batch=batch), seed=2)
    assert np.array_equal(found.arms, exact.arms)


@pytest.mark.plain
def test_a_population_is_read_to_the_end_if_it_must(rng):
    """Arms that differ by much less than their noise; every row of each is read, none twice."""
    rewards = 5.0 * rng.standard_normal((3, 50))
    rewards -= rewards.mean(axis=1, keepdims=True)
    population = table(rewards)
    exact = sm.draw(population, 50, sm.Exact(), seed=3)
    found = sm.draw(population, 50, sm.BayesGap(10**6, wide(3), batch=16), seed=3)
    assert np.array_equal(found.arms[found.exact], exact.arms[found.exact])
    at_most(int((found.arms != exact.arms).sum()), 50, 0.02)
    assert found.pulls.max() == 2 * 2 * 50
    assert np.array_equal(found.ended == "exhausted", found.exact) and found.exact.mean() > 0.8


# ----------------------------------------------------------------------------- impossible arms
def deadly(rng, arms, dead, share, rows=ROWS):
    rewards = rewards_of(rng, arms, rows)
    for arm in dead:
        rewards[arm, rng.random(rows) < share] = -np.inf
    return rewards


@pytest.mark.plain
@pytest.mark.parametrize("batch", [None, 32])
def test_impossible_arms_are_never_named(rng, batch):
    """Among them the one that others are compared with, which has the highest prior mean."""
    rewards = deadly(rng, 6, (0, 3), 0.05)
    population, mean = table(rewards), np.array([50.0, 0.0, 0.0, 25.0, 0.0, 0.0])
    exact = sm.draw(population, 100, sm.Exact(), seed=4)
    selector = sm.BayesGap(10**6, wide(6), mean=mean, batch=batch)
    found = sm.draw(population, 100, selector, seed=4)
    assert np.array_equal(found.arms, exact.arms)


@pytest.mark.plain
def test_all_impossible_is_an_error(rng):
    for share in (0.03, 1.0):
        population = table(deadly(rng, 4, range(4), share))
        for batch in (None, 32):
            for budget in (1000, 10**6):
                with pytest.raises(sm.RewardError, match="all 4 arms are impossible"):
                    sm.draw(population, 1, sm.BayesGap(budget, wide(4), batch=batch), seed=5)


@pytest.mark.plain
def test_a_sum_is_no_distance():
    """The budget ends when an arm has proved impossible: the best of the others is still known.

    The total of arm 1 is -4000 and its distance from arm 0 is 10: learnt as a distance, the total
    would put it behind arm 2.
    """
    rewards = np.full((4, ROWS), -10.0)
    rewards[1] += 10.0 / ROWS
    rewards[3] = -np.inf
    selector = sm.BayesGap(
        6 * 2 * 64, np.diag([1.0, 100.0, 100.0, 1e4]), mean=[9.0, 0.0, 0.0, 8.0], batch=64
    )
    for seed in range(10):
        choice = sm.choose(rewards, [0.0, 0.0, 0.0, 0.0], selector, seed)
        assert choice.arm == 1 and not choice.exact
        assert choice.pulls <= 6 * 2 * 64 + ROWS


@pytest.mark.plain
def test_a_winner_that_is_impossible_after_all():
    """When the only pull has met -inf, what is named is summed, though the budget is spent."""
    rewards = np.zeros((4, 1000))
    rewards[:2] = 1.0
    rewards[:2, 500:] = -np.inf
    mean = [10.0, 9.5, 0.0, 0.0]
    for seed in range(10):
        offsets = [0.0, 0.0, 0.0, 1.0]
        choice = sm.choose(rewards, offsets, sm.BayesGap(1000, np.eye(4), mean=mean), seed)
        assert (choice.arm, choice.pulls, choice.exact) == (3, 3000, False)
        selector = sm.BayesGap(128, np.eye(4), mean=mean, batch=64)
        choice = sm.choose(rewards, offsets, selector, seed)
        assert (choice.arm, choice.pulls, choice.exact) == (3, 128 + 1000, False)


# ------------------------------------------------------------------------------------ exactness
@pytest.mark.plain
def test_what_is_called_exact_is(rng):
    called = 0
    for trial in range(12):
        arms, rows = int(rng.integers(2, 6)), 60
        rewards = rewards_of(rng, arms, rows, 4.0)
        if trial % 3 == 0:
            rewards[rng.integers(arms), rng.integers(rows)] = -np.inf
        population = table(rewards)
        exact = sm.draw(population, 40, sm.Exact(), seed=trial)
        for batch in (None, 16):
            for budget in (rows * arms // 2 + 60, 10 * rows * arms):
                selector = sm.BayesGap(budget, wide(arms, 3.0), batch=batch)
                found = sm.draw(population, 40, selector, seed=trial)
                right = found.arms == exact.arms
                assert np.all(right[found.exact]), (trial, batch, budget)
                assert np.all(found.dropped_early <= arms)
                called += int(found.exact.sum())
                if batch is None:  # exact: all arms were summed; else some were not
                    summed = found.pulls // rows
                    dead = np.isinf(rewards).any()
                    assert dead or np.array_equal(found.dropped_early, arms - summed)
    assert called > 100


@pytest.mark.plain
def test_equal_arms_are_chosen_at_random():
    """One pull of an arm that is better than expected: it is named. Arm 0 is first, and no more."""
    rewards, mean = np.full((5, ROWS), 5.0 / ROWS), [1.0, 1.0, 0.0, 0.0, 0.0]
    selector = sm.BayesGap(ROWS, np.eye(5), mean=mean)
    named = [sm.choose(rewards, None, selector, seed).arm for seed in range(200)]
    counts = np.bincount(named, minlength=5)
    assert counts[:2].sum() == 200
    below(int(counts[0]), 200, 0.7)
    below(int(counts[1]), 200, 0.7)


@pytest.mark.parametrize("batch", [None, 32])
def test_the_level_of_a_log_likelihood_is_no_ones_business(rng, batch):
    """Totals a million nats from the mean of the prior; what counts is how they differ."""
    rewards, grid = rewards_of(rng, 30, spread=0.0), np.arange(30.0)
    rewards += -((grid[:, None] - 12.0) ** 2) / (30.0 * ROWS)
    prior = 30.0 * np.exp(-0.5 * (grid[:, None] - grid) ** 2 / 36.0) + 4.0 * np.eye(30)
    selector = sm.BayesGap(20 * ROWS, prior, batch=batch)
    found = [sm.draw(table(r), 100, selector, seed=1) for r in (rewards, rewards - 1e6 / ROWS)]
    assert np.array_equal(found[0].arms, found[1].arms)
    assert np.array_equal(found[0].pulls, found[1].pulls)
    exact = sm.draw(table(rewards), 100, sm.Exact(), seed=1)
    at_most(int((found[1].arms != exact.arms).sum()), 100, 0.1)
