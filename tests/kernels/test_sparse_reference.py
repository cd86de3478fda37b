"""Where a Gaussian lies if its small coefficients are 0: one after another is conditioned on."""

import numpy as np
import pytest

from subsample_mcmc.approx.columns.sparse import SMALL, sparse_mean


def given_zeros(mean, covariance, zeros):
    """The mean given that some coordinates are 0, and the covariance of the others given these."""
    rest = np.setdiff1d(np.arange(len(mean)), zeros)
    gain = np.linalg.solve(covariance[np.ix_(zeros, zeros)], covariance[np.ix_(zeros, rest)]).T
    found, left = np.zeros(len(mean)), np.zeros_like(covariance)
    found[rest] = mean[rest] - gain @ mean[zeros]
    left[np.ix_(rest, rest)] = (
        covariance[np.ix_(rest, rest)] - gain @ covariance[np.ix_(zeros, rest)]
    )
    return found, left


@pytest.mark.plain
def test_the_smallest_coefficients_are_conditioned_on_one_by_one(rng):
    """In units of their standard deviations given those before; beyond `count` none is judged."""
    judged = set()
    for _ in range(40):
        root = rng.standard_normal((6, 9))
        covariance = root @ root.T / 9.0
        mean = 4.0 * np.sqrt(np.diag(covariance)) * rng.uniform(-1.0, 1.0, 6)
        mean[4:] = 0.01  # small, and not among those that may be 0
        zeros: list[int] = []
        while True:
            now, left = given_zeros(mean, covariance, zeros)
            squares = [np.inf if k in zeros else now[k] ** 2 / left[k, k] for k in range(4)]
            if min(squares) >= SMALL:
                break
            zeros.append(int(np.argmin(squares)))
        judged.add(len(zeros))
        np.testing.assert_allclose(sparse_mean(mean, covariance, 4), now, atol=1e-9)
    assert len(judged) > 2
