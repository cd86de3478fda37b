"""Rows that are drawn: at the ends of what there is room for."""

import numpy as np
import pytest

from subsample_mcmc.numerics import rows as draws
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import WEYL, make_rows, row_kind
from tests.numerics.test_draws import assert_untouched, finish, read, seeded


@jit
def next_uniform(stream):
    return draws.uniform(stream)


def test_a_uniform_number_is_above_0():
    """SplitMix64 makes 0 of 0."""
    stream = np.array([2**64 - int(WEYL)], dtype=np.uint64)
    with np.errstate(over="ignore"):
        assert next_uniform(stream) == 2.0**-54 and stream[0] == 0


def test_the_type_of_row_numbers():
    assert row_kind(2**31 - 1) is np.int32 and row_kind(2**31) is np.int64


def test_a_part_of_kept_ends_where_the_next_begins():
    """6,250 rows fit; one more begins anew."""
    rows, stream = make_rows([100_000, 100_000]), seeded(1)
    few, many = np.zeros(2, int), np.zeros(6_251, int)
    with np.errstate(over="ignore"):
        read(rows, stream, 1, np.array([2]), few)
        before = rows.kept[6_250:6_252].copy()
        read(rows, stream, 0, np.array([1024] * 6 + [106, 1]), many)
        assert np.array_equal(before, few) and np.array_equal(rows.kept[6_250:6_252], few)
        finish(rows)
    assert_untouched(rows)


@pytest.mark.parametrize("batches", [[500, 300, 150, 30, 20], [10] * 100])
def test_rows_beside_barred_ones_come_exactly_once(batches):
    """Until none is left."""
    barred = np.arange(0, 1_500, 3)
    rows, stream, out = make_rows([1_000], barred), seeded(2), np.zeros(1_000, int)
    for _ in range(2):
        with np.errstate(over="ignore"):
            read(rows, stream, 0, np.array(batches), out)
            finish(rows)
        assert np.array_equal(np.sort(out), np.setdiff1d(np.arange(1_500), barred))
