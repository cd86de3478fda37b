"""What an ARCH model is made of: predictors, log factors, their derivatives and the prior.

r_t = sigma_t z_t with z_t standard Student-t of nu degrees of freedom (scale sigma_t, not unit
variance) and sigma_t^2 = a_0 + sum_i a_i r_{t-i}^2. A log factor sees the parameters through
h = sigma_t^2, linear in a, and nu. What depends on nu alone, N times the logarithm of the
t density's constant, is part of the log prior: it is known without reading data.

Squares of returns are kept latest first: then the lags of a datum are what follows it, in the
order of their coefficients, and a sum over lags is one over two consecutive pieces of memory,
which is what vector instructions want. Datum n is the (n + 1)-th return from the end; its lag i
is r2[n + i] in the whole series. Data arrays share one length, N, but the lags reach further back:
so the series of N + m squares is given as two overlapping views, its first N as r2 and its last N
as earlier (earlier[n] = r2[n + m] in the whole series), and nothing is copied.
"""

from math import lgamma, log, pi, sqrt

import numpy as np

from subsample_mcmc.numerics.fastmath import BIAS, CARRY, MAGIC, MANTISSA, NAN, ROOT, WIDTH, L
from subsample_mcmc.numerics.fastmath import log as fast_log
from subsample_mcmc.numerics.jit import CONTRACT, DISABLED, FLAGS, jit

# ------------------------------------------------------------------------------------------- lags
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


# ----------------------------------------------------------------------- predictors and log factors
HALF_LOG_PI, LN2 = 0.5 * log(pi), log(2.0)


# ---------------------------------------------------------------------------------- predictors
def eta(state, data, n):
    """(h, nu) of one datum."""
    count = int(data.orders[0, state.q[0]])
    found = weighted(state.theta, data.r2, data.earlier, data.most, n, count)
    return found, state.theta[0]


def simulate(rng, state, data, n):
    """A return in the place of datum n, given those before it."""
    h, nu = eta(state, data, n)
    return sqrt(h) * rng.standard_t(nu)


def etas(state, data, first, out):
    """(h, nu) of consecutive data: lag by lag instead of datum by datum."""
    count = int(data.orders[0, state.q[0]])
    fill(state.theta, data.r2, data.earlier, data.most, first, count, out)


# ----------------------------------------------------------------------------------- log factor
@jit(flags=CONTRACT, inner="public")  # reassociation would multiply out (2^52 + k) LN2
def log_positive(x):
    """log(x) of a positive normal number, nan for others: two thirds of the work of sm.log.

    Within 3 ulp; its steps are those of sm.log (fastmath.py), which is right for every number.
    """
    t = np.float64(x).view(np.uint64) + CARRY
    k = np.uint64((t >> WIDTH) | MAGIC).view(np.float64) - BIAS
    f = np.uint64((t & MANTISSA) + ROOT).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    r = z * (L[0] + z * (L[1] + z * (L[2] + z * (L[3] + z * (L[4] + z * (L[5] + z * L[6]))))))
    return s * (2.0 + r) + k * LN2 if x > 0.0 else NAN


if DISABLED:  # the same, silent where bits wrap
    log_positive = fast_log


def log_factor(eta, data, n):
    """Student-t density with scale sqrt(h), without what depends on nu alone."""
    h, nu = eta
    spread = log_positive(nu * h + data.r2[n])
    return 0.5 * nu * log_positive(h) - 0.5 * (nu + 1.0) * spread


def derivatives(eta, data, n):
    """Partial derivatives by h and nu, to third order.

    In terms of u = r^2 / s, v = nu h / s and w = h / s, where s = nu h + r^2, so that u + v = 1:
    by h, u has the derivative -u v / h; by nu, u has -u w, and w has -w^2.
    """
    h, nu = eta
    i, t, m = 1.0 / h, 1.0 / (nu * h + data.r2[n]), 0.5 * (nu + 1.0)
    u, w = data.r2[n] * t, h * t
    v = nu * w
    first, mw = 1.0 + v, m * w
    return (
        (m * u - 0.5) * i,
        0.5 * log_positive(w) - mw,
        (0.5 - m * u * first) * i * i,
        u * (0.5 - mw) * i,
        w * (mw - 1.0),
        (2.0 * m * u * (first + v * v) - 1.0) * i * i * i,
        u * (2.0 * mw * v - 0.5 * first) * i * i,
        u * w * (2.0 * mw - 1.0) * i,
        w * w * (1.5 - 2.0 * mw),
    )


# ---------------------------------------------------------------------------------------- prior
def constant(nu):
    """What depends on nu alone, of one datum."""
    gammas = lgamma(0.5 * (nu + 1.0)) - lgamma(0.5 * nu)
    return gammas + 0.5 * nu * log(nu) - HALF_LOG_PI


def gamma_prior(size, orders, log_weights, nu_prior, alpha_prior):
    """log_prior(state): q, Gamma(shape, rate) components in use, and N t-density constants."""
    (shape, rate), (each, per) = nu_prior, alpha_prior
    whole = [
        weight + shape * log(rate) - lgamma(shape) + (q + 1) * (each * log(per) - lgamma(each))
        for weight, q in zip(log_weights, orders, strict=True)
    ]
    constants, ends = np.array(whole), np.array(orders) + 2
    power, exponent = shape - 1.0, each - 1.0

    def log_prior(state):
        theta, nu = state.theta, state.theta[0]
        total, logs = 0.0, 0.0
        for j in range(1, ends[state.q[0]]):
            total += theta[j]
            if exponent != 0.0:
                logs += log(theta[j])
        own = constants[state.q[0]] - rate * nu - per * total + exponent * logs
        if power != 0.0:
            own += power * log(nu)
        return own + size * constant(nu)

    return log_prior


def with_constants(size, log_prior):
    """A user's log_prior(state), and N t-density constants."""

    def complete(state):
        return log_prior(state) + size * constant(state.theta[0])

    return complete
