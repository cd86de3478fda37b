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

from math import lgamma, log, pi

import numpy as np

from subsample_mcmc.models.lags import fill, weighted
from subsample_mcmc.numerics.fastmath import BIAS, CARRY, MAGIC, MANTISSA, NAN, ROOT, WIDTH, L
from subsample_mcmc.numerics.fastmath import log as fast_log
from subsample_mcmc.numerics.jit import CONTRACT, DISABLED, jit

HALF_LOG_PI, LN2 = 0.5 * log(pi), log(2.0)


# ---------------------------------------------------------------------------------- predictors
def eta(state, data, n):
    """(h, nu) of one datum."""
    count = int(data.orders[0, state.q[0]])
    found = weighted(state.theta, data.r2, data.earlier, data.most, n, count)
    return found, state.theta[0]


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
