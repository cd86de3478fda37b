"""How wide rewards were, all runs together, and how far from a prior: numbers by formulas."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.bandits.prior_seen import off_prior
from subsample_mcmc.bandits.scale import (
    SURE,
    RewardsSeen,
    Spread,
    is_longer,
    is_wide_arm,
    nats,
    no_rewards,
    spread_of,
    wanted,
)

B = sm.bandits
QUIET = {"progress": False}


@pytest.mark.parametrize("many", [2.0, 20.0, 1000.0])
def test_nats_bound_a_chi_square_tail(many):
    """P(chi2_n > s) <= e^-nats, Chernoff: and it is the best exponent, so not far below."""
    for times in (1.1, 1.3, 2.0):
        bound, tail = nats(many, times * many), -stats.chi2.logsf(times * many, many)
        assert bound <= tail < 1.05 * bound + 6.0
    assert nats(many, many) == 0.0


def test_spreads_of_runs_add_up():
    one, two = Spread(10, 2, 30, 4, 5, 9, 3), Spread(20, 3, 10, 1, 6, 60, 4)
    assert one.plus(two) == two.plus(one) == Spread(30, 5, 40, 5, 6, 60, 7)


B = sm.bandits


def test_the_spread_of_a_run_counts_arms_that_were_repeated():
    """An arm pulled once says nothing of the spread."""
    seen = RewardsSeen(np.array([1, 2, 3]), np.zeros(3), np.array([0.0, 8.0, 16.0]))
    assert spread_of(B.LUCB(scale=2.0), "own rule", seen) == Spread(5, 2, 6.0, 0.0, 2, 2.0, 2) or (
        spread_of(B.LUCB(scale=2.0), "own rule", seen)[:3] == (5.0, 2.0, 6.0)
    )


def test_of_many_arms_one_is_wide_by_chance():
    """The widest of a million."""
    many = 50.0
    squares = next(s for s in np.arange(50.0, 500.0) if nats(many, s) > SURE + 1.0)
    spread = Spread(1e9, 0, 0, 0, many, squares, 1.0)
    assert is_wide_arm(spread) and not is_wide_arm(spread._replace(arms=1e6))


def test_a_norm_that_is_too_short_adds_squares():
    """Of a fit that is cut at the norm, in units of noise^2; none where it is not cut."""
    features, theta = np.eye(3), np.array([3.0, 4.0, 0.0])
    pulls = np.full(3, 10)
    seen = RewardsSeen(pulls, features @ theta, np.full(3, 9.0))
    assert spread_of(sm.LinGapE(features, noise=2.0, norm=9.0), "own rule", seen).off_norm == 0.0
    # Within norm 2.5 the best is theta / 2: 10 pulls each, sum of squares 10 * 6.25.
    found = spread_of(sm.LinGapE(features, noise=2.0, norm=2.5), "own rule", seen)
    assert found.off_norm == pytest.approx(10 * 6.25 / 4.0)
    # S12 wants residuals around the fit as well: four arms in three dimensions.
    more = np.vstack([features, [1.0, 1.0, 1.0]])
    seen = RewardsSeen(np.full(4, 10), np.array([3.0, 4.0, 0.0, 9.0]), np.full(4, 9.0))
    assert spread_of(sm.LinGapE(more, noise=1.0, norm=99.0), "own rule", seen).off_norm < 1e-9


def test_a_length_is_refuted_as_a_scale_is():
    """At SURE nats, no later."""
    squares = next(s for s in np.arange(50.0, 500.0, 0.5) if nats(50.0, s) > SURE)
    spread = Spread(50.0, 0.0, squares - 30.0, 30.0)
    assert is_longer(spread) and not is_longer(spread._replace(off_norm=29.0))


def test_arms_that_were_pulled_take_turns():
    """Those that were not are left out."""
    run, more, asked = (
        RewardsSeen(np.array([1, 0, 1, 0]), np.array([0.0, 0.0, 5.0, 0.0]), np.zeros(4)),
        no_rewards(4),
        [],
    )
    for _ in range(5):
        asked.append(wanted(B.LUCB(scale=1.0), "own rule", run, more))
        more.pulls[asked[-1]] += 1
    assert asked == [2, 0, 2, 0, 2]


QUIET = {"progress": False}


def test_a_scale_that_all_runs_refute_together():
    """A run of twenty rewards 1.7 times as wide does not refute it, 30 of them do."""

    def far(arm, rng):
        return 1000.0 * arm + 1.7 * rng.standard_normal()

    with pytest.warns(UserWarning, match="around the means of their arms"):
        runs = sm.identify(far, 2, B.LUCB(scale=1.0), runs=30, seed=1, **QUIET)
    assert runs.guarantee == "none"
    assert sm.identify(far, 2, B.LUCB(scale=1.0), seed=1, **QUIET).guarantee == "bounded"


def test_how_far_means_lie_off_a_prior():
    """In sds of a mean of so many pulls; one of many arms does by chance."""

    def off(arms, pulls, mean):
        seen = RewardsSeen(
            np.r_[pulls, np.zeros(arms - 1, int)], np.r_[mean, np.zeros(arms - 1)], np.zeros(arms)
        )
        return off_prior(sm.BayesGap(9, np.eye(arms), 3.0, prior_scale=0.5), seen)

    assert off(2, 4, 8.0) == pytest.approx(8.0 / np.sqrt(0.25 + 3.0 / 4.0))
    limit = np.sqrt(2.0 * (SURE + np.log(2)))
    assert off(2, 4, limit * 0.99) == 0.0 and off(2, 4, limit * 1.01) > 0.0
    assert off(500, 4, limit * 1.01) == 0.0
