"""By how much a polynomial of sums over rows may be off through rounding: a bound that is proved.

Of one predictor, e = x.b plus a number of the row, whose derivatives say by which sizes they round
(Predictors.sizes). At distance s from the reference the sum is off by at most
s W1 + s^2 W2 / 2 + s^3 W3 / 6, each W a sum over blocks of what `roundings_of_block` writes. The
proof stands in docs/how/rounding.md.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit

UNIT = 2.0**-53
OWN = 64.0  # of the sizes that are told, by which derivatives may be off, in units
# Additions between a row and the root of a tree of at most 2^56 rows: eight in its block, and 48.
DEPTH = 56.0
MARGIN = 1.01  # what is of second order, and what rounds here


class Roundings(NamedTuple):
    """What is the same for all rows."""

    reach: np.ndarray  # (d,) how far each parameter moves at distance 1, at most
    size: np.ndarray  # (d,) of each parameter at the reference
    by_steps: float  # the sum of reach over the steps by which slopes are read
    eta: float  # units by which a predictor may be off, of the sum of its terms' sizes
    others: float  # units for products, additions, and the polynomial's own terms


def roundings_of(inverse: np.ndarray, point: np.ndarray, steps: np.ndarray) -> Roundings:
    """inverse: of the metric, of the d parameters in use."""
    d = len(inverse)
    reach = np.sqrt((inverse * inverse).sum(axis=1))
    return Roundings(
        reach, np.abs(point[:d]), float((reach / steps[:d]).sum()), d + 2.0,
        DEPTH + 4.0 + 0.5 * d * d + 2.0 * d + 8.0,
    )  # fmt: skip


@jit(flags=FLAGS, disjoint=True, inner=True)
def add_terms(x, reach, size, far, terms):
    """Add to how far predictors of the rows of a block move, and to the sizes of their terms."""
    for i in range(np.uint64(len(far))):
        far[i] += abs(x[i]) * reach
        terms[i] += 2.0 * abs(x[i]) * size


@jit(flags=FLAGS, disjoint=True, inner=True)
def add_roundings(own, f, sizes, weights, far, terms, out):
    """Write what the rows of a block add to W1, W2, W3; f: four derivatives, or bounds of them."""
    one, two, three = 0.0, 0.0, 0.0
    f1, f2, f3, f4 = f
    sizes1, sizes2, sizes3 = sizes
    for i in range(np.uint64(len(far))):
        a, b, c, r = abs(f1[i]), abs(f2[i]), abs(f3[i]), far[i]
        off = own.eta * terms[i]
        slope = 2.0 * own.by_steps * off + (2.0 * own.eta + 2.0) * r
        raced = 1.0 if weights[i] > 0.0 else 0.0
        one += raced * ((OWN * sizes1[i] + own.others * a + off * b) * r + a * slope)
        two += raced * r * ((OWN * sizes2[i] + own.others * b + off * c) * r + 2.0 * b * slope)
        three += (
            raced * r * r * ((OWN * sizes3[i] + own.others * c + off * f4[i]) * r + 3.0 * c * slope)
        )
    unit = UNIT * MARGIN
    out[0], out[1], out[2] = unit * one, unit * two, unit * three


@jit
def roundings_of_block(rows, e, weights, own, cubic, room, out):
    """Write what a block of rows does to W1, W2, W3."""
    count = len(e)
    far, terms = room[0, :count], room[1, :count]
    for i in range(count):
        far[i], terms[i] = 0.0, abs(e[i])
    for j in range(rows.x.shape[1]):
        add_terms(rows.x[0, j], own.reach[j], own.size[j], far, terms)
    third = rows.f[2] if cubic else rows.r
    sizes = rows.sizes[0], rows.sizes[1], rows.sizes[2]
    add_roundings(own, (rows.f[0], rows.f[1], third, rows.r), sizes, weights, far, terms, out)
    if not cubic:
        out[2] = 0.0


@jit(inner="always")
def is_far(limits, size):
    """Is it beyond the distance up to which the first bounds hold."""
    return 0.0 < limits[7] < size


@jit(inner="always")
def rounding_of(own, parts, i, j):
    """Of one row's residual, at two arms."""
    found = 0.0
    for arm in (i, j):
        limits = parts.limits[own.tables[arm]]
        found = max(found, limits[11] if is_far(limits, own.sizes[arm]) else limits[3])
    return found


@jit(inner="always")
def sum_rounding(trial, parts, i, j, everything, bound, each):
    """Bound of what rounding does to the difference of two known sums.

    bound: of what these leave over; each: of what one row's residual is off.
    """
    own, table, found = trial.control.arrays, trial.control.arrays.tables[i], bound * 1e-12
    limits = parts.limits[table]
    if table != own.tables[j] or limits[15] == 0.0:
        return each * trial.control.size
    for arm in (i, j):
        size = own.sizes[arm]
        found += size * (limits[12] + size * (0.5 * limits[13] + size * limits[14] / 6.0))
        found += 1e-15 * abs(own.values[arm])  # as it is added to offsets
    if not everything:  # these rows were read, and added
        found += 2.0 * own.sums.whole.limits[table, 3] * len(trial.control.outliers)
    return found
