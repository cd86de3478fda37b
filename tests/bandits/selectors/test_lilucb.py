"""The adapted lil'UCB: its bound, its stopping rule, and what the paper says of it."""

from math import exp, log, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.population import Shape
from tests.helpers.claims import above, at_most
from tests.helpers.gumbels import against_exact, standardised


def naive(orders, offsets, params, batch=1):
    """lil'UCB as the papers write it, one row at a time, each arm in its given order.

    batch: rows in a row; then it stops only at an arm that is on top.
    """
    arms, size = orders.shape
    pulls, total = np.ones(arms, dtype=int), orders[:, 0].copy()

    def bound(arm):
        mean = total[arm] / pulls[arm] + offsets[arm] / size
        if pulls[arm] == size:
            return mean
        iterated = log(log(params.inflate * pulls[arm] + 2.0)) - params.level
        return mean + params.width * params.scale * sqrt(iterated / pulls[arm])

    def dominates(arm):
        return pulls[arm] >= 1.0 + params.patience * (pulls.sum() - pulls[arm])

    while True:
        arm = int(np.argmax([bound(a) for a in range(arms)]))
        if pulls[arm] == size or (batch > 1 and dominates(arm)):
            return arm, int(pulls.sum())
        new = min(batch, size - pulls[arm])
        total[arm] += orders[arm, pulls[arm] : pulls[arm] + new].sum()
        pulls[arm] += new
        if batch == 1 and dominates(arm):
            return arm, int(pulls.sum())


def test_parameters_are_the_papers():
    shape = Shape((1000,) * 10, shared=True)
    heuristic = sm.LilUCB(delta=0.1, scale=0.5).params(shape)
    assert (heuristic.patience, exp(heuristic.level)) == (2.0, pytest.approx(0.02))
    assert heuristic.width == pytest.approx(1.5 * sqrt(2.0))
    theory = sm.LilUCB(delta=0.1, scale=0.5, variant="theory").params(shape)
    assert theory.patience == pytest.approx(20.8, abs=0.05)  # 9 is recommended, this is proved
    assert exp(theory.level) == pytest.approx(2.8e-8, rel=0.02)


@pytest.mark.parametrize("batch", [1, 5, 60])
def test_it_makes_the_decisions_of_the_naive_version(batch, rng):
    """Rewards of an arm are constant, so the order in which its rows are read does not matter."""
    for seed in range(20):
        means = rng.normal(0.0, 0.3, 5)
        rewards = np.repeat(means[:, None], 400, axis=1)
        selector = sm.LilUCB(delta=0.1, scale=0.5, batch=batch)
        offsets = rng.normal(0.0, 30.0, 5)
        choice = sm.choose(rewards, offsets, selector, seed=seed)
        params = selector.params(Shape((400,) * 5, shared=True))
        assert (choice.arm, choice.pulls) == naive(rewards, offsets, params, batch)


def test_theory_keeps_delta_however_many_rows_a_visit_reads(rng):
    """A first visit of 500 rows makes either arm dominate the other: that alone says nothing."""
    rewards = standardised(rng.random((2, 5000)), 3e-3, np.array([0.5, 0.5]))
    scale = float(np.ptp(rewards, axis=1).max()) / 2
    found = against_exact(rewards, sm.LilUCB(0.1, "theory", scale, batch=500), 500)
    at_most(found.wrong, 500, 0.1)


def test_theory_keeps_delta_and_reads_more_than_the_heuristic(rng):
    rewards = standardised(rng.random((5, 5000)), 3e-3, 0.6 ** np.arange(5))
    scale = float(np.ptp(rewards, axis=1).max()) / 2
    theory = against_exact(rewards, sm.LilUCB(0.1, "theory", scale), 500)
    heuristic = against_exact(rewards, sm.LilUCB(0.1, "heuristic", scale), 500)
    at_most(theory.wrong, 500, 0.1)
    at_most(heuristic.wrong, 500, 0.1)
    assert heuristic.share_read < theory.share_read <= 1.0


def test_batches_change_little(rng):
    rewards = standardised(rng.random((5, 20_000)), 1e-4, 0.6 ** np.arange(5))
    scale = float(np.ptp(rewards, axis=1).max()) / 2
    single = against_exact(rewards, sm.LilUCB(0.1, scale=scale, batch=1), 200)
    grown = against_exact(rewards, sm.LilUCB(0.1, scale=scale), 200)
    assert single.share_read <= grown.share_read * 1.05
    assert grown.share_read <= single.share_read * 1.10


@pytest.mark.slow
def test_the_heuristic_exceeds_delta_with_a_hundred_arms(rng):
    """Paper 000, Appendix C.1: D = 100, uniform rewards; its own warning, reproduced."""
    p = 0.9 ** np.arange(100)
    rewards = standardised(rng.random((100, 100_000)), 1e-5, p / p.sum())
    scale = float(np.ptp(rewards, axis=1).max()) / 2
    result = against_exact(rewards, sm.LilUCB(0.001, scale=scale), 40_000)
    above(result.wrong, result.draws, 0.001)


@pytest.mark.plain
def test_equal_means_stop_at_the_exact_sums():
    choice = sm.choose(np.ones((3, 50)), selector=sm.LilUCB(scale=1.0), seed=1)
    assert choice.pulls <= 150
    assert choice.arm in (0, 1, 2)


@pytest.mark.plain
def test_without_a_scale_it_estimates_one(rng):
    rewards = rng.standard_normal((3, 3000))
    rewards[1] += 1.0
    choice = sm.choose(rewards, selector=sm.LilUCB(), seed=1)
    assert choice.arm == 1
    assert choice.pulls < 9000
    assert sm.LilUCB().guarantee == "none"
    assert sm.LilUCB(variant="theory", scale=1.0).guarantee == "bounded"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delta": 2.0}, "delta=2.0"),
        ({"variant": "other"}, "theory"),
        ({"variant": "theory"}, "no scale"),
        ({"scale": -1.0}, "scale=-1.0"),
        ({"scale": np.nan}, "scale=nan"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_wrong_numbers_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        sm.LilUCB(**wrong)


def test_unequal_arms_are_refused():
    with pytest.raises(ValueError, match="decides on totals"):
        sm.choose([np.zeros(5), np.zeros(7)], selector=sm.LilUCB(scale=1.0))
