"""A control variate's score over all pairs of two parts, by tokens and tables: each pair."""

from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition import pair_test
from subsample_mcmc.kernels.partition.cluster_sums import make_sums
from subsample_mcmc.kernels.partition.members import blocks_of, make_members

part_scores = getattr(pair_test.part_scores, "py_func", pair_test.part_scores)
SIZE = 24


def bilinear(rng):
    """With a constant, rare and usual tokens, and tables, two of which are joined.

    Some mentions have no category.
    """
    tokens, tables = {}, {}
    for name, count, coefficient in (("title", 9, 0.7), ("place", 25, -1.3)):
        some = [rng.choice(count, rng.integers(0, 5), replace=False) for _ in range(SIZE)]
        lists = [np.sort(one) for one in some]
        lists[:2] = np.array([0]), np.array([0, count - 1])  # tokens of two kinds side by side
        indptr = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
        ids = np.concatenate(lists)
        tokens[name] = indptr, ids, rng.uniform(0.5, 2.0, len(ids)), coefficient
    for name, count in (("year", 3), ("month", 4), ("kind", 40)):
        table = rng.standard_normal((count, count))
        tables[name] = rng.integers(-1, count, SIZE), table + table.T
    return sm.Bilinear(tokens, tables, constant=0.9)


@pytest.mark.plain
def test_the_sum_over_two_parts_is_that_of_their_pairs(rng):
    """Of parts of any size, one after the other in the same room, which is empty again behind."""
    control, blocks = bilinear(rng), blocks_of(np.zeros(SIZE, dtype=np.int64))
    sums = make_sums(control.pieces(), make_members(blocks, np.arange(SIZE)))
    contest = SimpleNamespace(sums=sums)
    extra = SimpleNamespace(
        weight=np.zeros(len(sums.used)), column=np.zeros((1, sums.column.shape[1])),
        parts=np.zeros(SIZE, dtype=np.int64),
    )  # fmt: skip
    for lo, middle, hi in ((0, 1, 2), (0, 5, 24), (3, 20, 23), (2, 3, 19), (0, 12, 24)):
        extra.parts[:] = rng.permutation(SIZE)
        one, other = np.meshgrid(extra.parts[lo:middle], extra.parts[middle:hi])
        wanted = control.values(one.ravel(), other.ravel()).sum()
        found = part_scores(contest, extra, 0, lo, middle, hi)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
        assert not extra.weight.any() and not extra.column.any()
