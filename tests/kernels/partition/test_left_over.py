"""What a control variate of pairs leaves over on average, and between clusters, is heeded.

Bounds of shares of wrong decisions cry wolf once in a million (claims.at_most).
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.claims import at_most
from tests.helpers.partitions import model_of, records, score, swept
from tests.kernels.partition.test_partition import symmetric

DELTA = 0.05


def told_by(kernel, data, labels, control, heat, seed):
    """Statistics of one sweep, all decisions audited.

    What clusters would be split into is far apart, for moves of whole ones: they stay.
    """
    gibbs = sm.GibbsPartition("y", score, control=control, temperature=heat, cores=1)
    given = gibbs if kernel == "gibbs" else sm.MergeSplit(gibbs, moves=0.6)
    told = swept(model_of(data, labels), given, audit=1.0, seed=seed)[1]
    assert told["audited"] == told["decisions"] > 100
    return told


def alike(kernel):
    """What is known of the scores of mentions of one kind."""
    return 400.0 * np.eye(3) * (kernel == "merges")


@pytest.mark.parametrize("kernel", ["gibbs", "merges"])
def test_a_mean_that_is_left_over_is_heeded(rng, kernel):
    """One half of the score of each pair: what is known of clusters' sums is off by far."""
    labels = rng.permutation(np.repeat(np.arange(3), (300, 250, 200)))
    known, shift = symmetric(rng, 3, 0.05) + alike(kernel), 0.4 if kernel == "gibbs" else -0.4
    data = records(labels, known + shift, scale=0.3)
    control = sm.Bilinear(
        tables={"kind": (labels, known)}, shift=shift, within=np.pi**2 / 3 * 0.3**2,
    )  # fmt: skip
    heat = 60.0 if kernel == "gibbs" else 20_000.0
    told = told_by(kernel, data, labels, control, heat, int(rng.integers(999)))
    assert told["predicted"] > 0
    at_most(int(told["wrong"]), int(told["audited"]), DELTA)


@pytest.mark.parametrize("kernel", ["gibbs", "merges"])
def test_what_differs_between_clusters_is_heeded(rng, kernel):
    """It is all that differs: the control variate says nothing of it."""
    labels = rng.permutation(np.repeat(np.arange(3), (300, 250, 200)))
    table = 0.3 * np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 1.0], [-1.0, 1.0, 0.0]])
    data = records(labels, table + alike(kernel), scale=0.3)
    control = sm.Bilinear(
        tables={"kind": (labels, alike(kernel))}, between=0.06, within=np.pi**2 / 3 * 0.3**2,
    )  # fmt: skip
    heat = 20.0 if kernel == "gibbs" else 20_000.0
    told = told_by(kernel, data, labels, control, heat, int(rng.integers(999)))
    assert told["raced"] > 10
    at_most(int(told["wrong"]), int(told["audited"]), DELTA)
