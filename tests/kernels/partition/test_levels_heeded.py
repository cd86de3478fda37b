"""Clusters are ruled out without a logarithm where they would be ruled out with one, too."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition import bilinear
from tests.helpers.partitions import model_of, records, score, swept
from tests.kernels.partition.test_partition import symmetric


@pytest.mark.parametrize("between", [(0.0, 0.36, 0.0), (0.36, 0.0, 0.0), (0.0, 0.0, 0.36)])
def test_what_is_ruled_out_at_once_changes_no_draw(rng, monkeypatch, between):
    """Against bounds that rule out nothing. No chance but that of seeds."""
    labels = rng.permutation(np.repeat(np.arange(12), 60))
    known = symmetric(rng, 12)
    data = records(labels, known + symmetric(rng, 12, 0.3), scale=0.1)
    control = sm.Bilinear(
        tables={"kind": (labels, known)}, edges=(-0.5, 0.5), between=between, within=0.1
    )
    gibbs = sm.GibbsPartition("y", score, control=control, temperature=25.0, cores=1)
    model, found = model_of(data, labels), []
    for _ in range(2):
        found.append([swept(model, gibbs, 2, seed=seed) for seed in range(4)])
        monkeypatch.setattr(bilinear, "upper_lines", lambda *given: np.array([1e9, 1.0, 1e9]))
    for (one, told), (two, other) in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
        assert told["pulls"] == other["pulls"] > 0
        assert told["predicted"] == other["predicted"] > 0
