"""A logistic regression on two columns, in three ways, and what its sums are compared by."""

import numpy as np

import subsample_mcmc as sm


def columns_of(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((size, 2))
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [0.5, -1.0]))
    return {"a": x[:, 0].copy(), "b": x[:, 1].copy(), "y": y.astype(float)}


def plain(state, data, n):
    eta = state.beta[0] * data.a[n] + state.beta[1] * data.b[n] + state.beta[2]
    return data.y[n] * eta - sm.softplus(eta)


def predictor(state, data, n):
    return state.beta[0] * data.a[n] + state.beta[1] * data.b[n]


def factor(eta, data, n):
    return data.y[n] * eta - sm.softplus(eta)


def flat(state):
    return -0.005 * (state.beta[0] ** 2 + state.beta[1] ** 2)


def leaves(value):
    """All arrays and numbers in a tuple of tuples."""
    if not isinstance(value, tuple):
        yield value
        return
    for part in value:
        yield from leaves(part)


def same(one, other):
    """Are two of them equal to the last bit."""
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
