"""What exact minibatch methods are compared on: regressions, in whitened coordinates.

A state theta is mode + factor z, factor the Cholesky factor of the Laplace covariance: z is nearly
standard normal, and all methods walk in it. That is the preconditioning that their papers advise.
"""

import runpy
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.benchmarks import tall_peers
from tests.benchmarks.peers.families import LOGISTIC, STUDENT, bend, of_rows, slope

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
VARIANCE = tall_peers.VARIANCE  # of the normal prior of each coefficient


class Target(NamedTuple):
    """A regression around its mode; rows of `design` are those of x, times the factor."""

    family: int
    design: np.ndarray  # (N, d)
    etas: np.ndarray  # (N,) predictors at the mode
    y: np.ndarray  # (N,)
    mode: np.ndarray
    factor: np.ndarray
    hessian: np.ndarray  # (d, d) of the log likelihood at the mode, less its sign
    slope: np.ndarray  # (d,) of the log likelihood at the mode
    pull: np.ndarray  # (d, d), and
    push: np.ndarray  # (d,): the log prior is -z pull z / 2 - push z, and a constant


def target_of(x: np.ndarray, y: np.ndarray, family: int = LOGISTIC, away: float = 0.0) -> Target:
    """By Newton's method; away: posterior sds by which the reference is off the mode, for tests."""
    mode, covariance = LAPLACE[family](x, y)
    factor = np.linalg.cholesky(covariance)
    mode = mode + factor @ np.full(len(mode), away)
    design, etas, y = np.ascontiguousarray(x @ factor), x @ mode, y.astype(float)
    hessian = (design * of_rows(bend, family, y, etas)[:, None]).T @ design
    return Target(
        family, design, etas, y, mode, factor, hessian,
        design.T @ of_rows(slope, family, y, etas),
        factor.T @ factor / VARIANCE, factor.T @ mode / VARIANCE,
    )  # fmt: skip


def truth_of(x: np.ndarray, y: np.ndarray, family: int) -> tall_peers.Truth:
    """Exact moments, by importance sampling."""
    return tall_peers.long_reference(x, y, laplace=LAPLACE[family], log_posterior=POSTERIOR[family])


# ---------------------------------------------------------------------- robust regression
def robust_laplace(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode by reweighted least squares, and the covariance from the curvature there."""
    d = x.shape[1]
    mode = np.linalg.solve(x.T @ x + np.eye(d) / VARIANCE, x.T @ y)
    for _ in range(200):
        weight = 5.0 / (4.0 + (y - x @ mode) ** 2)
        weighted = (x * weight[:, None]).T
        new = np.linalg.solve(weighted @ x + np.eye(d) / VARIANCE, weighted @ y)
        moved, mode = np.abs(new - mode).max(), new
        if moved < 1e-12:
            curved = of_rows(bend, STUDENT, y, x @ mode)
            return mode, np.linalg.inv((x * curved[:, None]).T @ x + np.eye(d) / VARIANCE)
    raise RuntimeError("reweighted least squares did not converge")


def robust_posterior(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Exact, but for a constant, at every row of `points`."""
    total = -0.5 * np.sum(points**2, axis=1) / VARIANCE
    for lo in range(0, len(y), 512):
        away = y[lo : lo + 512, None] - x[lo : lo + 512] @ points.T
        total -= 2.5 * np.log1p(0.25 * away * away).sum(axis=0)
    return total


LAPLACE = {LOGISTIC: tall_peers.laplace, STUDENT: robust_laplace}
POSTERIOR = {LOGISTIC: tall_peers.log_posterior, STUDENT: robust_posterior}


# ------------------------------------------------------------------------------------------- data
def robust(size: int = 100_000, d: int = 20):
    """A regression whose noise has Student's law with four degrees of freedom."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, d - 1))])
    return x, x @ (rng.standard_normal(d) / np.sqrt(d)) + rng.standard_t(4.0, size)


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


def flights(path: str = "../shared/data/hflights_2011"):
    """Late arrivals of Houston's flights, as in examples/tall_logistic.py."""
    x, y, _ = runpy.run_path(str(EXAMPLES / "tall_logistic.py"))["flights"](path)
    return x, y


# Family, and what makes x and y. The first are as Prado, Nemeth & Sherlock (2024) simulate.
TASKS = {
    **{f"simulated, N={size:g}, d={d}": (LOGISTIC, tall_peers.simulate, size, d)
       for size in (10_000, 100_000, 1_000_000) for d in (10, 20, 30, 50, 100)},
    "robust, N=100000, d=20": (STUDENT, robust),
    "imbalanced, N=1e+06, d=20, 100 ones": (LOGISTIC, imbalanced),
    "collinear levels, N=100000, d=24": (LOGISTIC, levels),
    "flights, N=223874, d=23": (LOGISTIC, flights),
}  # fmt: skip
