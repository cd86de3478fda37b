"""Races of clusters: boundaries by the number of rivals, and samples of all pairs of two parts.

Bounds of shares of wrong decisions cry wolf once in a million (claims.at_most).
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules import normal
from tests.helpers.claims import at_most
from tests.helpers.partitions import model_of, records, score, swept
from tests.kernels.partition.test_partition import symmetric

DELTA = 0.05


def test_a_boundary_is_that_of_all_rivals(rng, monkeypatch):
    """With one it would be next to nothing; with more, all is read: then no decision is wrong."""

    def of_one_alone(*args, **more):
        found = np.full((41, 21), 1e9)
        found[:, 0] = 0.02
        return found

    monkeypatch.setattr(normal, "union_boundaries", of_one_alone)
    labels = rng.permutation(np.repeat(np.arange(5), 60))
    data = records(labels, symmetric(rng, 5, 0.2), scale=0.5)
    gibbs = sm.GibbsPartition("y", score, temperature=30.0, cores=1)
    told = swept(model_of(data, labels), gibbs, audit=1.0)[1]
    assert told["audited"] == told["decisions"] == 300
    assert told["wrong"] == 0 and told["pulls"] == told["everything"]


@pytest.mark.slow
def test_pairs_of_all_members_are_drawn(rng):
    """Of two mentions of a kind each one draws a large cluster in, and one keeps it off."""
    kind = np.concatenate([np.zeros(2_000), np.tile([1, 2], 400)]).astype(np.int64)
    labels = np.concatenate([np.arange(2_000) % 2, 2_000 + np.repeat(np.arange(400), 2)])
    table = np.array([[2.0, 1.0, -1.0], [1.0, 0.0, 2.0], [-1.0, 2.0, 0.0]])
    data = records(kind, table, scale=0.2)
    gibbs = sm.GibbsPartition("y", score, temperature=300.0, cores=1)
    kernel, wrong, audited = sm.MergeSplit(gibbs, moves=0.1), 0, 0
    for seed in range(4):
        told = swept(model_of(data, labels), kernel, audit=1.0, seed=seed)[1]
        wrong, audited = wrong + int(told["wrong"]), audited + int(told["audited"])
    at_most(wrong, audited, DELTA)
