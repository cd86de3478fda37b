"""The log likelihoods of the peers' regressions, one row each, by its predictor.

A family is a number, so that a compiled method serves all of them. MOST holds the least bounds of
the first three derivatives, from which every method's own bounds follow.
"""

from math import exp, log1p, sqrt, tanh

import numba
import numpy as np

LOGISTIC, STUDENT = 0, 1  # of 0 and 1; with 4 degrees of freedom and scale 1
MOST = np.array(
    [[1.0, 0.25, 1.0 / (6.0 * sqrt(3.0))], [1.25, 1.25, (1.5 + sqrt(2.0)) * 5.0 / 16.0]]
)


@numba.njit
def log_factor(family, y, eta):
    """Of one row, but for a constant; logistic: both signs without overflow."""
    if family == LOGISTIC:
        low = min(eta, 0.0) - log1p(exp(-abs(eta)))  # log of the probability of a 1
        return low - (1.0 - y) * eta
    return -2.5 * log1p(0.25 * (y - eta) ** 2)


@numba.njit
def slope(family, y, eta):
    """Its derivative."""
    if family == LOGISTIC:
        return y - 1.0 / (1.0 + exp(-eta))
    return 5.0 * (y - eta) / (4.0 + (y - eta) ** 2)


@numba.njit
def bend(family, y, eta):
    """Its second derivative, less its sign."""
    if family == LOGISTIC:
        p = 1.0 / (1.0 + exp(-eta))
        return p * (1.0 - p)
    square = (y - eta) ** 2
    return 5.0 * (4.0 - square) / (4.0 + square) ** 2


@numba.njit
def chord(family, y, eta):
    """a such that l(e) + l'(e) s - a s^2 <= l(e + s) for all s: the bounds of Firefly.

    Logistic: Jaakkola & Jordan (1997). Student: log(1 + r^2 / 4) is concave in r^2.
    """
    if family == LOGISTIC:
        return 0.125 if abs(eta) < 1e-6 else tanh(0.5 * eta) / (4.0 * eta)
    return 2.5 / (4.0 + (y - eta) ** 2)


@numba.njit
def of_rows(function, family, y, etas):
    """Values of one of the above at all rows."""
    found = np.empty(len(y))
    for n in range(len(y)):
        found[n] = function(family, y[n], etas[n])
    return found


@numba.njit
def sum_of_rows(family, y, etas):
    """The log likelihood."""
    total = 0.0
    for n in range(len(y)):
        total += log_factor(family, y[n], etas[n])
    return total
