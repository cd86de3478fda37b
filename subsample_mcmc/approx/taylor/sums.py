"""What one pass over the data leaves of them: sums of derivatives, and a metric."""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.remainder import Learnt

FLOOR = 1e-12  # eigenvalues of the curvature below this part of the largest count as this


class Terms(NamedTuple):
    """Sums over some rows, by configuration of the discrete blocks."""

    s0: np.ndarray  # (K,)
    s1: np.ndarray  # (K, d)
    s2: np.ndarray  # (K, d, d)
    s3: np.ndarray  # (K, d, d (d + 1) / 2), products of two unlike coordinates twice; or empty
    cubes: np.ndarray  # (K, d (d + 1) (d + 2) / 6) its terms x_i x_j x_k, i >= j >= k; or empty
    # (K, 7) remainder of the sum, of a row; growth; rounding; a pilot's remainders, of the sum of
    # absolute values and of the sum, and of a row's root mean square.
    limits: np.ndarray


class Sums(NamedTuple):
    """What is known of a model; shared by all chains."""

    points: np.ndarray  # (K, d) references
    used: np.ndarray  # (K,) coordinates beyond these are not there
    metric: np.ndarray  # (K, d, d) B
    raced: Terms
    whole: Terms  # over all rows
    learnt: Learnt  # what the whole sum leaves over


def terms(s0, s1, s2, s3, limits) -> Terms:
    """Sums of all configurations, third-order ones also in their most compact form."""
    if not s3.size:
        return Terms(s0, s1, s2, s3, np.zeros((0, 1)), limits)
    d, parts = s1.shape[1], []
    for i in range(d):
        b, c = np.tril_indices(i + 1)
        same = (b == i).astype(int) + (c == i)  # of three indices, how often i is among the others
        parts.append(s3[:, i, : len(b)] * np.array([3.0, 1.5, 1.0])[same])
    return Terms(s0, s1, s2, s3, np.concatenate(parts, axis=1), limits)


def metric_of(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, its inverse) with B'B = curvature, made positive definite where it is not."""
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    top = float(np.abs(values).max())
    if top == 0.0:  # nothing to measure distances by, and nothing that grows with them
        return np.eye(len(values)), np.eye(len(values))
    roots = np.sqrt(np.maximum(np.abs(values), FLOOR * top))
    return roots[:, None] * vectors.T, vectors / roots


def inverse_of(metric: np.ndarray, used: int) -> np.ndarray:
    """The inverse of a metric's part that is used; zeros beside it."""
    inverse = np.zeros_like(metric)
    inverse[:used, :used] = np.linalg.inv(metric[:used, :used])
    return inverse
