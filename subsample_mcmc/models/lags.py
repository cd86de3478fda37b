"""Weighted sums of the squares before a datum: what an ARCH likelihood spends its time on.

Users' functions count references, and would do so, atomically, for each piece of an array that
they cut (five times slower); functions of this package do not: which is why these are apart.
"""

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit

PASS = {"flags": FLAGS, "disjoint": True, "inner": True}


# --------------------------------------------------------------------------------- one datum
@jit(flags=FLAGS, inner="public")
def weighted(theta, r2, earlier, most, n, count):
    """a_0 + sum_j a_j times the j-th square before datum n; theta = (nu, a_0, a_1, ...)."""
    first = n + 1
    inside = first + most <= len(r2)
    squares = r2[first : first + count] if inside else earlier[first - most :][:count]
    a, h = theta[2 : 2 + count], theta[1]
    for j in range(np.uint64(count)):
        h += a[j] * squares[j]
    return h


# ---------------------------------------------------------------------------- consecutive data
@jit(**PASS)
def one(a, x, out):
    for i in range(np.uint64(len(out))):
        out[i] += a * x[i]


@jit(**PASS)
def five(a, x, out):
    b, c, d, e = x[1:], x[2:], x[3:], x[4:]
    for i in range(np.uint64(len(out))):
        early = a[0] + a[1] * x[i] + a[2] * b[i] + a[3] * c[i]
        out[i] = early + a[4] * d[i] + a[5] * e[i]


@jit(**PASS)
def ten(a, x, out):
    b, c, d, e, f, g, h, k, l = x[1:], x[2:], x[3:], x[4:], x[5:], x[6:], x[7:], x[8:], x[9:]
    for i in range(np.uint64(len(out))):
        early = a[0] * x[i] + a[1] * b[i] + a[2] * c[i] + a[3] * d[i] + a[4] * e[i]
        late = a[5] * f[i] + a[6] * g[i] + a[7] * h[i] + a[8] * k[i] + a[9] * l[i]
        out[i] += early + late


@jit(**PASS)
def add_lags(a, squares, out):
    """Write a[0] + sum_j a[j + 1] squares[i + j] into out[i]: ten lags while out[i] is at hand."""
    count, j = len(a) - 1, 0
    if count % 10 >= 5:
        five(a, squares, out)
        j = 5
    else:
        for i in range(np.uint64(len(out))):
            out[i] = a[0]
    while j + 10 <= count:
        ten(a[1 + j :], squares[j:], out)
        j += 10
    while j < count:
        one(a[1 + j], squares[j:], out)
        j += 1


@jit(flags=FLAGS, disjoint=True, inner="public")
def fill(theta, r2, earlier, most, first, count, out):
    """Write h and nu of consecutive data into the two rows of out."""
    size, nu = out.shape[1], theta[0]
    inside = max(min(len(r2) - most - first, size), 0)  # data whose lags all stand in r2
    if inside > 0:
        add_lags(theta[1 : 2 + count], r2[first + 1 : first + inside + count], out[0, :inside])
    if inside < size:
        start = first + inside + 1 - most
        far = earlier[start : start + size - inside + count - 1]
        add_lags(theta[1 : 2 + count], far, out[0, inside:])
    for i in range(np.uint64(size)):
        out[1, i] = nu
