"""Where a Gaussian of many coefficients lies if those that may as well be 0 are 0.

A chain whose coefficients are mostly 0 is far from the fit of all of them, which has the noise of
each: sums that are expanded here leave far less over. Any reference is right, this one is near.
"""

import numpy as np

SMALL = 9.0  # squared, in standard deviations given the others that are left: may as well be 0


def sparse_mean(mean: np.ndarray, covariance: np.ndarray, count: int) -> np.ndarray:
    """The mean given that of the first `count` coordinates the small ones are 0.

    The smallest comes first, and each next one is judged given those: of columns that are much
    alike, one stays.
    """
    mean, covariance = np.array(mean, dtype=float), np.array(covariance, dtype=float)
    left = np.arange(len(mean)) < count
    for _ in range(count):
        variances = np.maximum(np.diag(covariance), 1e-300)
        squares = np.where(left, mean * mean / variances, np.inf)
        k = int(np.argmin(squares))
        if not squares[k] < SMALL:
            break
        column = covariance[k].copy()
        mean -= column * (mean[k] / variances[k])
        covariance -= column[:, None] * (column / variances[k])
        mean[k], covariance[k], covariance[:, k], left[k] = 0.0, 0.0, 0.0, False
    return mean
