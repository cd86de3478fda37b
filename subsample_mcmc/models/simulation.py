"""Simulated ARCH series: of given parameters, and one to try things on."""

from typing import Any

import numpy as np

from subsample_mcmc.target.population import whole

# One year of five-minute bars as they might be: about a third of today's squared scale is an
# echo of the last 15 bars, ever fainter, and innovations have heavy tails.
YEAR, SEED, NU = 13_702, 2021, 4.0  # of 2016 to 2025, a seed under which orders compete
ECHO = 0.4 * np.exp(-np.arange(15) / 8.0) / np.exp(-np.arange(15) / 8.0).sum()
ALPHA = (0.1, *map(float, ECHO))


def simulate(size: int, alpha: Any, nu: float, seed: Any = None, burn: int = 1000) -> np.ndarray:
    """Returns r_t = sigma_t z_t, sigma_t^2 = alpha[0] + sum_i alpha[i] r_{t-i}^2.

    z_t is standard Student-t with nu degrees of freedom, of variance nu / (nu - 2): the series is
    stationary with a finite variance if sum(alpha[1:]) nu / (nu - 2) < 1, else it is refused.
    burn: values that are thrown away, after a start at the stationary variance.
    seed: None, int, SeedSequence or Generator.
    """
    a, nu, size = np.asarray(alpha, dtype=float), float(nu), whole(size, "size", "how many")
    if a.ndim != 1 or len(a) < 1 or not (a[0] > 0.0 and np.all((a >= 0.0) & (a < np.inf))):
        raise ValueError(f"alpha={alpha!r}: give (a_0, a_1, ..., a_q), a_0 > 0, the others >= 0.")
    echo = a[1:].sum()
    if not (2.0 < nu < np.inf and echo * nu / (nu - 2.0) < 1.0):
        raise ValueError(
            f"nu={nu:g} and sum(alpha[1:])={echo:g}: with scale sigma_t, Student-t innovations "
            "have the variance nu / (nu - 2), so a stationary series needs nu > 2 and "
            "sum(alpha[1:]) nu / (nu - 2) < 1; otherwise it explodes."
        )
    if burn != int(burn) or burn < 0:
        raise ValueError(f"burn={burn!r}: give a whole number, 0 or more.")
    rng, order, spread = np.random.default_rng(seed), len(a) - 1, nu / (nu - 2.0)
    z = rng.standard_t(nu, size + int(burn))
    r = np.empty(order + len(z))
    squares = np.full(len(r), spread * a[0] / (1.0 - echo * spread))
    weights = np.ascontiguousarray(a[:0:-1])  # of the earliest lag first
    for t in range(order, len(r)):
        r[t] = np.sqrt(a[0] + weights @ squares[t - order : t]) * z[t - order]
        squares[t] = r[t] * r[t]
    return r[order + int(burn) :]


def example_returns(size: int = YEAR, seed: Any = SEED) -> np.ndarray:
    """A year of five-minute returns: nu = 4, a_0 = .1, 15 lags that fade like exp(-i / 8).

    The a_i add up to .4, so the variance is 1. seed 2021 gives the series of the examples.
    """
    return simulate(size, ALPHA, NU, seed)
