"""Firefly Monte Carlo (Maclaurin & Adams 2014), compiled, with bounds tight at the mode.

Row n is bright (z_n = 1) or dark. With B_n <= L_n, its log quadratic in the predictor and tight at
the mode (families.chord), the joint density is

    prior * prod_n B_n * prod_bright (L_n / B_n - 1),

of which the product over all rows is known from sums. A step moves the state by Metropolis-Hastings
given the bright rows, then asks every bright row whether to go dark and a binomial number of dark
ones, a share q of them, whether to light up: their explicit resampling, as Metropolis-Hastings.
"""

from math import expm1, log

import numba
import numpy as np

from tests.benchmarks.peers.families import chord, log_factor, of_rows, slope
from tests.benchmarks.peers.targets import Target
from tests.benchmarks.peers.walks import known

SHARES = (1e-4, 1e-3, 1e-2)  # q; the best is taken


@numba.njit
def above(target, n, z):
    """log(L_n / B_n) at z, at least 0."""
    step = 0.0
    for j in range(len(z)):
        step += target.design[n, j] * z[j]
    family, y, e = target.family, target.y[n], target.etas[n]
    bound = log_factor(family, y, e) + (slope(family, y, e) - chord(family, y, e) * step) * step
    return max(log_factor(family, y, e + step) - bound, 0.0)


def sums_of(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """(slope, curvature) of the sum of all log B_n, by z."""
    bent = 2.0 * of_rows(chord, target.family, target.y, target.etas)
    return target.slope, (target.design * bent[:, None]).T @ target.design


@numba.njit
def odds(target, n, z):
    """log(L_n / B_n - 1)."""
    x = above(target, n, z)
    return log(expm1(x)) if x > 0.0 else -np.inf


@numba.njit
def fly(target, tilt, hessian, scale, share, draws, rng):
    """(states, rows read, proposals accepted), from the mode with every row dark."""
    d, size, rows, moved = len(target.mode), len(target.y), 0, 0
    order, bright = np.arange(size), 0  # bright rows come first
    values = np.zeros(size)  # of bright rows: log(L / B - 1) at the state
    z, chain, log_share = np.zeros(d), np.zeros((draws, d)), log(share)
    for t in range(draws):
        new = z + scale * rng.standard_normal(d)
        gap = known(target, new, 0) - known(target, z, 0) + tilt @ (new - z)
        gap -= 0.5 * (new @ hessian @ new - z @ hessian @ z)
        there = np.empty(bright)
        for i in range(bright):
            there[i] = odds(target, order[i], new)
            gap += there[i] - values[order[i]]
        rows += bright
        if log(rng.random()) < gap:
            for i in range(bright):
                values[order[i]] = there[i]
            z, moved = new, moved + 1
        was, i = bright, bright - 1
        while i >= 0:  # bright rows may go dark, with probability min(1, q / odds)
            n = order[i]
            if log(rng.random()) < log_share - values[n]:
                bright -= 1
                order[i], order[bright] = order[bright], n
            i -= 1
        # Dark rows, of those that were dark before, may light up with probability min(1, odds / q).
        asked = rng.binomial(size - was, share)
        for k in range(asked):
            at = was + k + rng.integers(0, size - was - k)
            order[at], order[was + k] = order[was + k], order[at]
        for k in range(asked):
            n = order[was + k]
            rows += 1
            value = odds(target, n, z)
            if log(rng.random()) < value - log_share:
                values[n] = value
                order[bright], order[was + k] = n, order[bright]
                bright += 1
        chain[t] = z
    return chain, rows, moved


def flier(target: Target):
    """run(kappa, share, draws, seed)."""
    tilt, hessian = sums_of(target)

    def run(kappa: float, share: float, draws: int, seed: int):
        scale = kappa / np.sqrt(len(target.mode))
        return fly(target, tilt, hessian, scale, share, draws, np.random.default_rng(seed))

    return run
