"""Columns whose numbers have too few digits for what is done with them are told of."""

import numpy as np
import pytest

import subsample_mcmc as sm


def location(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def of_a_row(state, data, n):
    return -0.5 * (data.x[n, 1] - state.mu[0]) ** 2


def made(**data):
    return sm.Model(location if "y" in data else of_a_row, data, {"mu": 0.0})


def far(rng):
    return (1e8 + 10.0 * rng.standard_normal(500)).astype(np.float32)


def test_float32_far_from_zero(rng):
    with pytest.warns(UserWarning, match=r"data y is float32, whose numbers near 1e\+08 lie 8 "):
        made(y=far(rng))
    beside = np.column_stack([rng.standard_normal(500).astype(np.float32), far(rng)])
    with pytest.warns(UserWarning, match=r"data x \(its column 1\) is float32"):
        made(x=beside)


def test_integers_with_more_digits_than_a_float():
    stamps = 2**60 + np.arange(500)
    with pytest.warns(UserWarning, match=r"data y holds integers such as 11529.*rounded to 256"):
        made(y=stamps)


@pytest.mark.plain
def test_what_has_enough_digits(rng):
    made(y=rng.standard_normal(500).astype(np.float32))
    made(x=rng.standard_normal((500, 3)).astype(np.float32))
    made(y=np.arange(500) + 10**9)
    made(y=np.arange(500, dtype=np.uint64))
