"""The most that each value of a discrete block may weigh, before its polynomial is worked out.

Drawing one of very many values by their polynomials costs a polynomial each, while all but a few
are far behind. So polynomials are expanded once more around one point that all share, and what each
of them, with the bound of its residuals, comes to at most within some distances of it is kept: a
number to look up.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit

MANY = 16  # configurations: draws among fewer work all polynomials out
NEAREST, FARTHEST, RADII = 0.3, 6.5, 64  # distances, in roots of the number of parameters
MARGIN = 1e-8  # of what is added up, for rounding
ROUNDED_UP = 1.0 + 1e-5  # bounds of rows are kept in single precision


class Ceilings(NamedTuple):
    """What is known of all configurations of the discrete blocks within some distances."""

    center: np.ndarray  # (d,) the point
    metric: np.ndarray  # (d, d) B: the distance is |B (x - center)|
    radii: np.ndarray  # (G,) up to which
    # (G, K) sum of h over all data and bound of what it leaves over, at most; or (0, 0): not known
    highest: np.ndarray


NONE = Ceilings(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)))


def ceilings_of(sums: Any, outliers: int) -> Ceilings:
    """From the polynomials of all configurations, whose residuals are bounded.

    With x = center + z, |B z| = r, a polynomial is at most its value at the center, r times the
    length of its gradient, r^2 / 2 times the largest eigenvalue of its curvature, and r^3 / 6 times
    the length of its third derivatives, all in coordinates B z.
    """
    count, d = sums.points.shape
    if count < MANY or len(set(sums.used)) > 1 or sums.used[0] < d:
        return NONE
    best = int(np.argmax(sums.whole.s0))  # there the curvature is that of a posterior
    metric, center = sums.metric[best], sums.points[best]
    inverse = np.linalg.inv(metric)
    radii = sqrt(d) * np.geomspace(NEAREST, FARTHEST, RADII)
    found = [ceiling_of(sums, k, center, inverse, radii, outliers) for k in range(count)]
    return Ceilings(center, metric, radii, np.ascontiguousarray(np.array(found).T))


def ceiling_of(sums: Any, k: int, center, inverse, radii, outliers: int) -> np.ndarray:
    """Of one configuration, at all radii."""
    known, off = sums.whole, center - sums.points[k]
    bent, twisted = np.zeros_like(known.s2[k]), 0.0
    if len(known.s3):
        third = full_third(known.s3[k])
        bent = third @ off
        whitened = np.einsum("abc,ai,bj,ck->ijk", third, inverse, inverse, inverse, optimize=True)
        twisted = float(np.linalg.norm(whitened))
    value = known.s0[k] + off @ (known.s1[k] + known.s2[k] @ off / 2.0 + bent @ off / 6.0)
    slope = known.s1[k] + known.s2[k] @ off + bent @ off / 2.0
    curved = inverse.T @ (known.s2[k] + bent) @ inverse
    steep = float(np.linalg.norm(inverse.T @ slope))
    largest = float(np.linalg.eigvalsh(0.5 * (curved + curved.T))[-1])
    inner = np.concatenate([[0.0], radii[:-1]])  # a ceiling holds from the radius before to its own
    grown = steep * radii + twisted * radii**3 / 6.0
    grown += 0.5 * largest * (radii if largest > 0.0 else inner) ** 2
    size = abs(known.s0[k]) + np.abs(known.s1[k]) @ np.abs(off) + steep * radii
    size += np.linalg.norm(curved) * radii**2 + twisted * radii**3
    stretch = float(np.linalg.norm(sums.metric[k] @ inverse, 2))
    away = stretch * radii + float(np.linalg.norm(sums.metric[k] @ off))
    left = remainders(sums.raced, k, away)
    if outliers:
        left = left + remainders(sums.whole, k, away)
    return value + grown + MARGIN * size + ROUNDED_UP * left


def full_third(third: np.ndarray) -> np.ndarray:
    """(d, d, d) from (d, d (d + 1) / 2), where products of two unlike coordinates count twice."""
    d = len(third)
    b, c = np.tril_indices(d)
    found = np.zeros((d, d, d))
    found[:, b, c] = found[:, c, b] = third * np.where(b == c, 1.0, 0.5)
    return found


def remainders(parts: Any, k: int, sizes: np.ndarray) -> np.ndarray:
    """The bound of the sum of residuals at some distances (polynomial.remainder), with a margin."""
    limits, third = parts.limits[k], len(parts.cubes) > 0
    power = sizes**3 / 6.0 * (sizes / 4.0 if third else 1.0)
    found = limits[0] * power * np.exp(np.minimum(limits[2] * sizes, 700.0)) * (1.0 + 1e-9)
    far = (limits[7] > 0.0) & (sizes > limits[7])
    return np.where(far, np.where(sizes > limits[9], np.inf, found * limits[10]), found)


@jit(inner=True)
def write_ceilings(trial, out):
    """What each value of the site may weigh at most, but for its prior; False: not known here."""
    own, target = trial.control.arrays, trial.target[0]
    kept = own.ceilings
    if len(kept.highest) == 0 or target.joint > 0 or target.site < 0:
        return False
    square = 0.0
    for i in range(len(kept.center)):
        row = 0.0
        for j in range(len(kept.center)):
            row += kept.metric[i, j] * (trial.floats[j] - kept.center[j])
        square += row * row
    size, at = sqrt(square) * (1.0 + 1e-9), 0
    while at < len(kept.radii) and not size <= kept.radii[at]:
        at += 1
    if at == len(kept.radii):
        return False
    site, first = target.start + target.site, 0
    for i in range(len(own.strides)):
        if i != site:
            first += own.strides[i] * trial.ints[i]
    for arm in range(len(out)):
        out[arm] = kept.highest[at, first + arm * own.strides[site]]
    return True
