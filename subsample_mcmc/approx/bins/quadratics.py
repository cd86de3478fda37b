"""Quadratics of bins: fitted to values at a few points, subtracted row by row, summed by moments.

Coefficients and moments stand in one order: 1, d_k, then d_k d_l for k <= l, where d is a row's
distance from the reference of its bin.
"""

from math import sqrt
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.rows import CHUNK

ALIKE = 4.0  # times what a bin's middle says, up to which its ends say the same
UNLIKE_CUBICS = 0.25  # of a bin's squares that no multiple of a cubic explains: it has a break
UNLIKE = 8.0  # times what residuals of bins are on average, from which on one has more than a bend


@jit(inner="always")
def finite(value, middle):
    """A coefficient, or nothing where it is none."""
    return value if abs(value) < np.inf and abs(middle) < np.inf else 0.0


@jit(flags=FLAGS, disjoint=True, inner=True)
def interpolate(values, inverse, out):
    """Coefficients of 1, d_k and d_k d_l in every bin, through its values at the stencil.

    Where a value is not finite its terms are left out: any h will do, as long as the residuals
    and the sum take the same.
    """
    q, at, middle = inverse.shape[1], 1 + inverse.shape[1], values[0]
    count = np.uint64(len(inverse))
    for b in range(count):
        out[b, 0] = finite(middle[b], middle[b])
    for k in range(q):
        up, down = values[1 + 2 * k], values[2 + 2 * k]
        for b in range(count):
            slope = 0.5 * (up[b] - down[b]) * inverse[b, k]
            out[b, 1 + k] = finite(slope, middle[b])
            bend = 0.5 * (up[b] + down[b] - 2.0 * middle[b]) * inverse[b, k] * inverse[b, k]
            out[b, at] = finite(bend, middle[b])
        at += 1
        for j in range(k + 1, q):
            right, left = values[1 + 2 * j], values[2 + 2 * j]
            pair = 1 + 2 * q + k * (2 * q - k - 1) + 2 * (j - k - 1)
            both, none = values[pair], values[pair + 1]
            for b in range(count):
                ends = up[b] + down[b] + right[b] + left[b]
                bend = 0.5 * (both[b] + none[b] - ends) + middle[b]
                out[b, at] = finite(bend * inverse[b, k] * inverse[b, j], middle[b])
            at += 1


@jit(flags=FLAGS, inner=True)
def product(a, b):
    """Sum of the products of two tables."""
    total = 0.0
    for i in range(np.uint64(a.shape[0])):
        for j in range(np.uint64(a.shape[1])):
            total += a[i, j] * b[i, j]
    return total


def subtractor(q: int) -> Any:
    """subtract(own, coefficients, out): h of a mini-batch, whose bins and steps stand in own."""

    @jit(flags=FLAGS, inner=True)
    def subtract(own, coefficients, out):
        for i in range(np.uint64(len(out))):
            b, at = np.uint64(own.where[i]), 1 + q
            value = coefficients[b, 0]
            for k in range(q):
                along = coefficients[b, 1 + k]
                for j in range(k, q):
                    along += coefficients[b, at] * own.steps[j, i]
                    at += 1
                value += own.steps[k, i] * along
            out[i] -= value

    return subtract


# --------------------------------------------------------------------------- what is known of arms
@jit(inner=True)
def stands(own, trial, arm):
    """Is what is kept of an arm of the present state: the same numbers, to the last bit."""
    if own.known[arm] == 0:
        return False
    for j in range(len(trial.floats)):
        if own.floats[arm, j] != trial.floats[j]:
            return False
    for j in range(len(trial.ints)):
        if own.ints[arm, j] != trial.ints[j]:
            return False
    return True


@jit(inner=True)
def note(own, trial, arm):
    """Say that what is kept of an arm is of the present state."""
    for j in range(len(trial.floats)):
        own.floats[arm, j] = trial.floats[j]
    for j in range(len(trial.ints)):
        own.ints[arm, j] = trial.ints[j]
    own.known[arm], own.sampled[arm] = 1, 0


@jit(inner=True)
def copy_table(source, out):
    """Write a table into another: a loop compiles in a tenth of the time of out[:] = source."""
    for b in range(np.uint64(out.shape[0])):
        for j in range(np.uint64(out.shape[1])):
            out[b, j] = source[b, j]


@jit(inner=True)
def take_over(own, arm, other):
    """Copy another arm's sampled residuals: this arm is now in the state that that one had."""
    own.sampled[arm] = own.sampled[other]
    for i in range(len(own.sample.rows)):
        own.left[arm, i] = own.left[other, i]


# ------------------------------------------------------------------------ how residuals vary
def spread_of(residuals: Any) -> Any:
    """spread(trial, i, j): see ControlFunctions; by a few rows of each bin, read once an arm."""

    @jit(inner=True)
    def look(trial, arm):
        own, first = trial.control.arrays, 0
        rows = own.sample.rows
        if own.sampled[arm] == 1:
            return
        while first < len(rows):
            count = min(CHUNK, len(rows) - first)
            some = slice(first, first + count)
            residuals(trial, arm, rows[some], own.left[arm, some])
            first += count
        own.sampled[arm] = 1
        trial.pulls[0] += len(rows)

    @jit(inner=True)
    def alone(own, arm, b):
        """The mean square of one arm's residuals in a bin."""
        largest, count = 0.0, len(own.sample.shares)
        for k in range(len(own.sample.tame)):
            left = own.left[arm, k * count + b]
            if abs(left) < np.inf:
                largest = max(largest, own.sample.tame[k, b] * left * left)
        return largest

    @jit(inner=True)
    def breaks(own, arm, b):
        """Are residuals in a bin nothing like a cubic, which what is smooth leaves over."""
        product, cubics, squares = 0.0, 0.0, 0.0
        for k in range(len(own.sample.tame)):
            left = own.left[arm, k * len(own.sample.shares) + b]
            if abs(left) < np.inf:
                product += left * own.sample.cubic[k, b]
                cubics += own.sample.cubic[k, b] * own.sample.cubic[k, b]
                squares += left * left
        return cubics > 0.0 and product * product < (1.0 - UNLIKE_CUBICS) * cubics * squares

    @jit(inner=True)
    def spread(trial, i, j):
        look(trial, i)
        look(trial, j)
        own, total, usually = trial.control.arrays, 0.0, 0.0
        tame, count = own.sample.tame, len(own.sample.shares)
        for b in range(count):
            usually += min(alone(own, i, b), alone(own, j, b)) / count
        for b in range(count):
            if own.sample.shares[b] == 0.0:
                continue
            usual, widest = 0.0, 0.0
            for k in range(len(tame)):
                apart = own.left[i, k * count + b] - own.left[j, k * count + b]
                if abs(apart) == np.inf:  # impossible at one arm alone: one row decides
                    return np.inf
                if apart == apart:
                    square = tame[k, b] * apart * apart
                    usual = square if k == 0 else usual
                    widest = max(widest, square)
            square = widest if widest > ALIKE * usual else usual
            both = alone(own, i, b) + alone(own, j, b)
            if both > UNLIKE * usually and (breaks(own, i, b) or breaks(own, j, b)):
                square = max(square, both)  # a step of each may lie between the same two rows
            total += own.sample.shares[b] * square
        return sqrt(total)

    return spread
