"""Symmetric tensors of derivatives, from derivatives along lines: polarization.

A quadratic form is known by its values along e_i and e_i + e_j, a cubic one by those along e_i,
e_i + e_j, e_i - e_j and e_i + e_j + e_k: as many lines as it has numbers.
"""

from itertools import combinations
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import jit

EVEN = 1e-9  # by which derivatives along opposite directions may, of all derivatives of a datum


def lines_of(d: int, cubic: bool) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(which coordinates, with which signs) of each line; the first d are the coordinates."""
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((i,), (1,)) for i in range(d)]
    for pair in combinations(range(d), 2):
        found += [(pair, (1, 1)), (pair, (1, -1))][: 2 if cubic else 1]
    if cubic:
        found += [(three, (1, 1, 1)) for three in combinations(range(d), 3)]
    return found


def tensors(sums: np.ndarray, d: int, cubic: bool) -> tuple[float, Any, Any, Any]:
    """(value, gradient, Hessian, third derivatives) from coefficients along lines_of(d, cubic)."""
    places = {line: k for k, line in enumerate(lines_of(d, cubic))}
    gradient, hessian = sums[:d, 1].copy(), np.diag(2.0 * sums[:d, 2])
    third = np.zeros((d, d, d) if cubic else 0)
    cube = 6.0 * sums[:, 3]
    for i in range(d if cubic else 0):
        third[i, i, i] = cube[i]
    for i, j in combinations(range(d), 2):
        plus = places[(i, j), (1, 1)]
        bent = 0.5 * (2.0 * sums[plus, 2] - hessian[i, i] - hessian[j, j])
        if cubic:
            minus = places[(i, j), (1, -1)]
            bent = 0.5 * (sums[plus, 2] - sums[minus, 2])
            both, apart = cube[plus], cube[minus]  # T(e_i + e_j), T(e_i - e_j)
            put(third, (i, i, j), ((both - apart) / 2.0 - cube[j]) / 3.0)
            put(third, (i, j, j), ((both + apart) / 2.0 - cube[i]) / 3.0)
        hessian[i, j] = hessian[j, i] = bent
    for i, j, k in combinations(range(d), 3) if cubic else ():
        pairs = sum(third[a, a, b] + third[a, b, b] for a, b in combinations((i, j, k), 2))
        alone = cube[i] + cube[j] + cube[k]
        whole = cube[places[(i, j, k), (1, 1, 1)]]
        put(third, (i, j, k), (whole - alone - 3.0 * pairs) / 6.0)
    return float(sums[0, 0]), gradient, hessian, third


def put(third: np.ndarray, at: tuple[int, int, int], value: float) -> None:
    """Write a number in all places that are the same."""
    i, j, k = at
    for a, b, c in {(i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)}:
        third[a, b, c] = value


def by_pairs(third: np.ndarray) -> np.ndarray:
    """Its last two indices as pairs b >= c, those of unlike coordinates twice: Terms.s3."""
    b, c = np.tril_indices(len(third))
    return third[:, b, c] * np.where(b == c, 1.0, 2.0)


@jit
def first_bent(each, order):
    """The first row whose derivatives differ in opposite directions, or that has none; else -1.

    each: (rows, 3, lanes) coefficients; the second half of the lines is opposite to the first.
    """
    half = each.shape[2] // 2
    for i in range(len(each)):
        for k in range(half):
            size, off, sign = 0.0, 0.0, -1.0
            for degree in range(order):
                a, b = each[i, degree, k], sign * each[i, degree, k + half]
                size += abs(a) + abs(b)
                off += abs(a - b)
                sign = -sign
            if not off <= EVEN * size:
                return i
    return -1
