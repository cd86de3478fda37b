"""What exact minibatch methods are compared on: logistic regressions, in whitened coordinates.

A state theta is mode + factor z, factor the Cholesky factor of the Laplace covariance: z is nearly
standard normal, and all methods walk in it. That is the preconditioning that their papers advise.
"""

from typing import NamedTuple

import numpy as np

from tests.benchmarks import tall_peers

VARIANCE = tall_peers.VARIANCE  # of the normal prior of each coefficient


class Target(NamedTuple):
    """A logistic regression around its mode; rows of `design` are those of x, times the factor."""

    design: np.ndarray  # (N, d)
    etas: np.ndarray  # (N,) predictors at the mode
    y: np.ndarray  # (N,) 0.0 or 1.0
    mode: np.ndarray
    factor: np.ndarray
    hessian: np.ndarray  # (d, d) of the log likelihood at the mode, less its sign
    slope: np.ndarray  # (d,) of the log likelihood at the mode
    pull: np.ndarray  # (d, d), and
    push: np.ndarray  # (d,): the log prior is -z pull z / 2 - push z, and a constant


def target_of(x: np.ndarray, y: np.ndarray, away: float = 0.0) -> Target:
    """By Newton's method; away: posterior sds by which the reference is off the mode, for tests."""
    mode, covariance = tall_peers.laplace(x, y)
    factor = np.linalg.cholesky(covariance)
    mode = mode + factor @ np.full(len(mode), away)
    design, etas = np.ascontiguousarray(x @ factor), x @ mode
    p = 1.0 / (1.0 + np.exp(-etas))
    hessian = (design * (p * (1.0 - p))[:, None]).T @ design
    return Target(
        design, etas, y.astype(float), mode, factor, hessian, design.T @ (y - p),
        factor.T @ factor / VARIANCE, factor.T @ mode / VARIANCE,
    )  # fmt: skip


def imbalanced(size: int = 1_000_000, d: int = 20, ones: int = 100):
    """So many rows of a million are 1."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, d - 1))])
    eta = x[:, 1:] @ (rng.standard_normal(d - 1) / np.sqrt(d))
    y = np.zeros(size)
    y[np.argsort(eta + rng.logistic(size=size))[-ones:]] = 1.0
    return x, y


def levels(size: int = 100_000, d: int = 24):
    """Collinear indicator columns, as of a forest's cover types: some levels are rare."""
    rng = np.random.default_rng(2)
    share = 0.6 ** np.arange(d - 8)
    level = rng.choice(d - 8, size, p=share / share.sum())
    wide = rng.standard_normal((size, 7))
    wide[:, 1] = 0.95 * wide[:, 0] + np.sqrt(1.0 - 0.95**2) * wide[:, 1]
    x = np.column_stack([np.ones(size), wide, np.eye(d - 8)[level]])
    p = 1.0 / (1.0 + np.exp(-0.5 * x @ rng.standard_normal(d)))
    return x, (rng.random(size) < p).astype(float)


# The first are as Prado, Nemeth & Sherlock (2024) simulate.
TASKS = {
    **{f"simulated, N={size:g}, d={d}": (tall_peers.simulate, size, d)
       for size, d in ((10_000, 10), (100_000, 10), (1_000_000, 10), (100_000, 20), (100_000, 50),
                       (1_000_000, 20))},
    "imbalanced, N=1e+06, d=20, 100 ones": (imbalanced,),
    "collinear levels, N=100000, d=24": (levels,),
}  # fmt: skip
