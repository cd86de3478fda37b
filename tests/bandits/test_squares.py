"""What selectors keep of the spread of rewards is that of the rows that they read."""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.bandits.selectors.test_bayesgap_draws import rewards_of, scratch_of
from tests.helpers.gumbels import table


def test_bayesgap_pools_squares_around_the_mean_of_each_arm(rng):
    """One degree of freedom less for each arm that was read, however often it was visited."""
    population = table(rewards_of(rng, 8, 2000, 3.0))
    several = 0
    for batch, budget in ((16, 1_200), (64, 8_000)):
        for seed in range(5):
            sm.draw(population, 1, sm.BayesGap(budget, 9.0 * np.eye(8), batch=batch), seed=seed)
            scratch = scratch_of(population)
            n = scratch.belief.pulls[scratch.belief.pulls > 0]
            several += len(n) > 1
            assert scratch.pool[1] == (n - 1).sum()
            assert scratch.pool[0] == pytest.approx(scratch.belief.squares.sum(), rel=1e-9)
    assert several > 5


@pytest.mark.parametrize("batch", [1, 4, 32])
def test_lingape_sees_rewards_wider_than_its_noise_in_visits_of_any_size(rng, batch):
    """Of visits of one row all that they differ by is between visits."""
    noise, means = rng.standard_normal((3, 20_000)), np.array([[0.0], [3.0], [0.0]])
    for seed in range(5):
        wide = sm.LinGapE(np.eye(3), noise=0.1, norm=4.0, batch=batch)
        with pytest.raises(sm.SpreadError, match=r"rewards of arm \d are outside"):
            sm.choose(means + noise, selector=wide, seed=seed)
        right = sm.LinGapE(np.eye(3), noise=1.0, norm=4.0, batch=batch)
        assert sm.choose(means + np.sign(noise), selector=right, seed=seed).arm == 1
