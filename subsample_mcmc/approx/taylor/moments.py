"""Sums over data of derivatives times products of predictors' columns, one chunk at a time.

In one thread and in row order: the same data give the same sums, to the last bit, on every run.
"""

from itertools import combinations_with_replacement as multisets
from typing import NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit


class Places(NamedTuple):
    """Where a partial derivative stands in the tuple that `derivatives` returns."""

    second: np.ndarray  # (p, p)
    third: np.ndarray  # (p, p, p)
    used: int  # how many there are


def places(count: int, order: int) -> Places:
    """First derivatives stand in the order of the predictors, then second and third ones."""
    second, third = np.zeros((count,) * 2, dtype=np.int64), np.zeros((count,) * 3, dtype=np.int64)
    at = count
    for k, l in multisets(range(count), 2):
        second[k, l] = second[l, k] = at
        at += 1
    for part in multisets(range(count), 3) if order > 2 else ():
        for k, l, m in permutations(part):
            third[k, l, m] = at
        at += 1
    return Places(second, third, at)


def permutations(part) -> set:
    """All orders of three indices."""
    k, l, m = part
    return {(k, l, m), (k, m, l), (l, k, m), (l, m, k), (m, k, l), (m, l, k)}


@jit(flags=FLAGS)
def add_moments(where, weights, x, f, s1, s2, s3, row, pairs):
    """Add sum_n f_n X_n, f_n X_n X_n' and f_n X_n X_n X_n of the rows of a chunk.

    s3 holds the last two indices as pairs b >= c, those of unlike coordinates twice.
    """
    count, cubic = len(x), s3.shape[1] > 0
    for i in range(len(weights)):
        if weights[i] == 0.0:
            continue
        for k in range(count):
            for b in range(np.uint64(len(s1))):
                s1[b] += f[i, k] * x[k, i, b]
                row[b] = 0.0
            for l in range(count):
                value = f[i, where.second[k, l]]
                for b in range(np.uint64(len(s1))):
                    row[b] += value * x[l, i, b]
            for a in range(np.uint64(len(s1))):
                value = x[k, i, a]
                for b in range(np.uint64(len(s1))):
                    s2[a, b] += value * row[b]
            if not cubic:
                continue
            for q in range(np.uint64(len(pairs))):
                pairs[q] = 0.0
            for l in range(count):
                for m in range(count):
                    value, q = f[i, where.third[k, l, m]], np.uint64(0)
                    for b in range(np.uint64(len(s1))):
                        both = 2.0 * value * x[l, i, b]
                        for c in range(np.uint64(b)):
                            pairs[q + c] += both * x[m, i, c]
                        q += b
                        pairs[q] += 0.5 * both * x[m, i, b]
                        q += np.uint64(1)
            for a in range(np.uint64(len(s1))):
                value = x[k, i, a]
                for q in range(np.uint64(len(pairs))):
                    s3[a, q] += value * pairs[q]


@jit(flags=FLAGS)
def fill_lengths(x, inverse, out):
    """Write |X_n B^-1| (Frobenius) of every row: how far eta_n moves at distance 1, at most."""
    d = np.uint64(len(inverse))
    for i in range(len(out)):
        total = 0.0
        for k in range(len(x)):
            for b in range(d):
                value = 0.0
                for a in range(d):
                    value += x[k, i, a] * inverse[b, a]
                total += value * value
        out[i] = total**0.5
