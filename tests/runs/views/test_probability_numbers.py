"""Numbers of probabilities of models, of mixing and of costs, by formulas."""

import numpy as np
import pytest
from scipy import stats

from subsample_mcmc.runs.views.costs import worst_of
from subsample_mcmc.runs.views.mixing import Mixing, cluster_sizes
from subsample_mcmc.runs.views.probabilities import (
    Joint,
    effective,
    estimate,
    estimate_joint,
    multistate,
)


def tilted_values(rng, chains=3, draws=400, each=3):
    tilts = np.array([[0.0, 1.0, 2.0], [2.0, 0.0, -1.0], [0.0, 0.0, 3.0]])
    p = np.array([0.6, 0.3, 0.1]) * np.exp(tilts)
    p /= p.sum(axis=1, keepdims=True)
    return tilts, np.array([rng.choice(each, draws, p=row) for row in p])


def test_a_batch_is_left_out_of_its_own_chain(rng):
    """Visits expected under all tilts add up to all draws."""
    tilts, values = tilted_values(rng)
    found = estimate(values, tilts)
    number = len(found.batches) // 3
    visits = np.array([np.bincount(v, minlength=3) for v in values])
    for c in range(3):
        for i, part in enumerate(np.array_split(values[c], number)):
            less = visits.copy()
            less[c] -= np.bincount(part, minlength=3)
            assert found.batches[c * number + i] == pytest.approx(multistate(less, tilts), abs=1e-7)
    assert np.exp(found.log_p + found.expected).sum() == pytest.approx(values.size)


def test_chains_disagree_about_several_values_as_seldom_as_about_one():
    """The chance of an alarm is shared among values (as in test_costs.py, of one value)."""
    from tests.runs.views.test_costs import ALARM, Estimate, spread

    limit = np.sqrt(stats.f.isf(ALARM / 5, 3, 36))
    for times, disagree in ((0.97 * limit, False), (1.03 * limit, True)):
        parts = [
            np.repeat(spread(count, error), 5, axis=1) for count, error in ((40, 1.0), (4, times))
        ]
        found = Estimate(np.zeros(5), *parts, np.full(5, 9.0), 1.0, np.zeros(5))
        assert found.error(lambda p: p)[1].tolist() == [disagree] * 5


def test_a_ladder_is_as_slow_as_its_values(rng):
    """At each of 40 values a walk stays for a moment, and takes long to come across."""
    import arviz

    walk = np.abs(np.cumsum(rng.integers(0, 2, (2, 20_000)) * 2 - 1, axis=1) % 78 - 39)
    _, slowest = effective(walk, 40)
    ess = sum(float(arviz.ess(chain[None].astype(float), method="mean")) for chain in walk)
    assert slowest >= 0.999 * walk.size / ess


def test_joint_values_are_as_slow_as_the_slowest_block(rng):
    fast, slow = rng.integers(0, 2, (2, 2_000)), np.arange(2_000) // 100 % 2 * np.ones((2, 1), int)
    joint = Joint(2 * fast + slow, np.zeros((2, 4)), np.arange(4) // 2, [fast, slow], ["slow"])
    assert estimate_joint(joint).slowest > 30.0


def test_sizes_are_those_of_the_labels_of_sites():
    labels = np.array([[[2, 2, 0, 2, 1]], [[0, 1, 1, 0, 4]]])
    assert cluster_sizes(labels, [0, 2, 4]).tolist() == [[[3, 1, 1]], [[2, 2, 1]]]


def test_an_autocorrelation_time_is_in_draws():
    """Draws of which one of five was kept."""
    block = Mixing(100.0, 1, 1, 0, True, True, 1.0, "x", "x", (), 400, 5, False, 0, 0, "")
    assert worst_of([block], 2).iat == 5 * 2 * 400 / 100.0
