"""One datum's log factor as a polynomial in its predictors, and predictors read in batches."""

from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.target.exact_sums import MASK


def expanded(predictors, count: int, order: int) -> Any:
    """expand(e, data, n, widths) -> the partial derivatives of log_factor, as one tuple."""
    if predictors.derivatives is not None:
        given = jit(predictors.derivatives, flags=FLAGS, user=True, inner="always")
        last = 2 if order > 2 else 1

        @jit(flags=FLAGS, inner="always")
        def expand(e, data, n, widths):
            return given(e, data, n)

        @jit(flags=FLAGS, inner="always")
        def expand_numbers(e, data, n, widths):
            f = given(e, data, n)  # whole numbers among them are as good
            return 1.0 * f[0], 1.0 * f[1], 1.0 * f[last]

        return expand_numbers if count == 1 else expand
    of_eta = jit(predictors.log_factor, flags=FLAGS, user=True, inner="always")
    if count == 1:

        @jit(flags=FLAGS, inner="always")
        def expand_one(e, data, n, widths):
            h = widths[0]
            up, middle, down = of_eta(e + h, data, n), of_eta(e, data, n), of_eta(e - h, data, n)
            upper, lower = of_eta(e + 2.0 * h, data, n), of_eta(e - 2.0 * h, data, n)
            return (
                (8.0 * (up - down) - (upper - lower)) / (12.0 * h),
                (16.0 * (up + down) - (upper + lower) - 30.0 * middle) / (12.0 * h * h),
                (upper - lower - 2.0 * (up - down)) / (2.0 * h * h * h),
            )

        return expand_one
    if count != 2 or order > 2:
        raise ValueError(
            f"{count} predictors at order {order} need Predictors(derivatives=...): differences "
            "serve one predictor, and two at second order."
        )

    @jit(flags=FLAGS, inner="always")
    def expand_two(e, data, n, widths):
        a, b, h, k = e[0], e[1], widths[0], widths[1]
        middle = of_eta((a, b), data, n)
        right, left = of_eta((a + h, b), data, n), of_eta((a - h, b), data, n)
        up, down = of_eta((a, b + k), data, n), of_eta((a, b - k), data, n)
        both = of_eta((a + h, b + k), data, n) + of_eta((a - h, b - k), data, n)
        return (
            (right - left) / (2.0 * h),
            (up - down) / (2.0 * k),
            (right - 2.0 * middle + left) / (h * h),
            (both - right - left - up - down + 2.0 * middle) / (2.0 * h * k),
            (up - 2.0 * middle + down) / (k * k),
        )

    return expand_two


def contraction(count: int, order: int) -> Any:
    """value(f, e, e0): the polynomial in e - e0 with partial derivatives f, without constant."""
    cubic = order > 2
    if count == 1:

        @jit(flags=FLAGS, inner="always")
        def of_one(f, e, e0):
            t = e - e0
            value = f[0] + 0.5 * f[1] * t
            if cubic:
                value += f[2] * (t * t) / 6.0
            return value * t

        return of_one

    @jit(flags=FLAGS, inner="always")
    def of_many(f, e, e0):
        value, at = 0.0, count
        for k in range(count):
            value += f[k] * (e[k] - e0[k])
        for k in range(count):
            for l in range(k, count):
                weight = 0.5 if k == l else 1.0
                value += weight * f[at] * (e[k] - e0[k]) * (e[l] - e0[l])
                at += 1
        if cubic:
            for k in range(count):
                for l in range(k, count):
                    for m in range(l, count):
                        weight = 1.0 if k < l < m else 1.0 / 6.0 if k == m else 0.5
                        product = (e[k] - e0[k]) * (e[l] - e0[l]) * (e[m] - e0[m])
                        value += weight * f[at] * product
                        at += 1
        return value

    return of_many


def reader_of(eta, count: int) -> Any:
    """look(state, data, rows, out): the predictors of a mini-batch."""
    single = count == 1

    @jit(flags=FLAGS, disjoint=True, inner=True)
    def look(state, data, rows, out):
        for i in range(np.uint64(len(rows))):
            e = eta(state, data, np.int64(rows[i]) & MASK)
            if single:
                out[0, i] = e
            else:
                for k in range(count):
                    out[k, i] = e[k]

    return look


@jit(inner="always")
def no_bound(e, data, n):
    """For likelihoods whose remainders are not known."""
    return 0.0, 0.0
