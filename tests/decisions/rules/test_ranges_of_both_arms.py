"""The Bernstein-Serfling bound of a pair: the ranges of both arms, and the rows that tell s."""

from math import log, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules.serfling import KAPPA, radius
from subsample_mcmc.numerics.jit import jit


@jit
def bound(n, size, s2, counted, spread, term):
    return radius(n, size, s2, counted, spread, term)


@pytest.mark.plain
@pytest.mark.parametrize("rare", [0, 1])
def test_either_arm_may_be_the_one_with_rare_rows(rare):
    """One arm is 0 everywhere; 50 of 10,000 rows of the other outweigh its small usual rewards.

    Their range keeps any race from an end before all is read, whichever of the two is ahead until
    then. So no draw may err, whatever the seed: no false alarms.
    """
    rewards, spread = np.zeros((2, 10_000)), np.zeros(2)
    rewards[rare] = 1e-3
    rewards[rare, ::200] = -1.0
    if rare == 1:
        rewards[rare] *= -1.0  # it is behind until its rare rows are met
    spread[rare] = 1.001
    selector = sm.Racing(sm.BernsteinSerfling(spread=spread), 0.05, retreat=False)
    for seed in range(20):
        assert sm.choose(rewards, selector=selector, seed=seed).arm == 1


@pytest.mark.plain
def test_a_deviation_of_few_rows_counts_as_of_few():
    """After a change of leader it is told by the rows since then: the second term is of these."""
    term = log(100.0)
    for counted in (16, 64, 256):
        right = sqrt(2.0 * 0.25 * (1.0 - 255.0 / 1000.0) * term / 256)
        right += KAPPA * 2.0 * term / counted
        assert bound(256, 1000, 0.25, counted, 2.0, term) == pytest.approx(right, rel=1e-12)
    assert bound(256, 1000, 0.25, 999, 2.0, term) == bound(256, 1000, 0.25, 256, 2.0, term)
