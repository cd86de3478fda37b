"""Kernels that are composed at random draw the posterior; more: tests/benchmarks/compositions.py.

A false alarm: of some 50 standard normal numbers one beyond 5, once in 35,000 runs of this file.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.benchmarks.compositions import WORST, run

pytestmark = [
    pytest.mark.slow, pytest.mark.skipif(DISABLED, reason="needs many steps"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]  # fmt: skip
SEEDS = [1, 2, 5, 7, 8, 11]


@pytest.mark.parametrize("seed", SEEDS)
def test_they_draw_the_posterior(seed):
    row = run(seed, 0, 4_000)
    assert row["z"], row
    assert np.max(np.abs(row["z"])) < WORST, row


@sm.kernel(writes="mu")
def nudge(rng, state, data):
    """A mutant beside the others: a fifth or so of a standard deviation upwards."""
    state.mu[0] += 0.01


def test_a_kernel_that_drifts_is_seen():
    rows = [run(seed, 0, 4_000, lambda kernel: kernel >> nudge) for seed in SEEDS[:3]]
    assert sum(np.max(np.abs(row["z"])) > WORST for row in rows) >= 2, rows
