"""What a GLM is made of: predictors, log factors, their derivatives and bounds, one datum each.

A family is four plain functions in the form that sm.Predictors takes. Stable on both sides: the
logarithm of 1 + exp(z) is max(z, 0) + log1p(exp(-|z|)), and p and 1 - p are computed apart.
No branches: what depends on y or a sign is a select, so that loops over data vectorise.

Bounds of the third and fourth derivative along any unit direction are the least ones:
 * a sigmoid p has p' = p(1-p), p'' = p(1-p)(1-2p), p''' = p(1-p)(1-6p(1-p)), so |p''| is at most
   1 / (6 sqrt 3), where p = 1/2 +- sqrt(3)/6, and |p'''| at most 1/8, where p = 1/2;
 * log(1 + t^2) has the k-th derivative 2 (-1)^(k-1) (k-1)! sin(a)^k cos(k a), t = cot a, extreme
   where cos((k+1) a) = 0: at most 3/2 + sqrt 2 for k = 3 (a = 3 pi/8), and 12 for k = 4 (t = 0);
 * the third derivative of the logarithm of the normal distribution function rises from 0 to
   .29571..., where the fourth is 0, and falls to 0; the fourth has a maximum, .11483..., and a
   minimum, -.18895...: the numbers by which intervals bound it (numerics/jets/intervals.py);
 * log(1 - exp(-u)), u = exp(e), has with B = u / (exp(u) - 1), r = u + B, s = 1 - r, c = 1 - B
   the derivatives B, B s, B (s^2 - r c) and B (s^3 - 3 s r c - r c^2 + B r s), as those of B, r, s
   and c are B s, r c, -r c and -B s. The last two are at most u / 2 in size, and .42605... and
   .69819...: by intervals over all u, in tests/models. u goes with growth 1, and so does the
   smaller of two bounds that do, or are constant.
"""

from math import expm1, sqrt

import numpy as np

from subsample_mcmc.numerics.fastmath import exp, log1p
from subsample_mcmc.numerics.special import log_event, log_normal_cdf, log_normal_cdf_slopes

HALF_LOG_2PI = 0.9189385332046727
SIGMOID_THIRD, SIGMOID_FOURTH = 1.0 / (6.0 * sqrt(3.0)), 0.125
STUDENT_THIRD, STUDENT_FOURTH = 1.5 + sqrt(2.0), 12.0
PROBIT_THIRD, PROBIT_FOURTH = 0.29572, 0.18896
EVENT_THIRD, EVENT_FOURTH = 0.42606, 0.69820


# --------------------------------------------------------------------------------- predictors
def linear(state, data, n):
    """Return x'beta."""
    total = 0.0
    for j in range(np.uint64(state.beta.shape[0])):
        total += data.x[n, j] * state.beta[j]
    return total


def linear_offset(state, data, n):
    """Return x'beta + offset."""
    return linear(state, data, n) + data.offset[n]


def linear_scale(state, data, n):
    """Return (x'beta, log sigma)."""
    return linear(state, data, n), state.log_sigma[0]


# --------------------------------------------------------- predictors of consecutive data at once
FOUR = np.uint64(4)


def by_rows(x, beta, first, out):
    """Write x'beta of the data from `first` on, four sums at a time: for rows that lie together."""
    x, size = x[first:], np.uint64(len(out))
    for i in range(np.uint64(0), size - size % FOUR, FOUR):
        j, k, l = i + np.uint64(1), i + np.uint64(2), i + np.uint64(3)
        a = b = c = d = 0.0
        for m in range(np.uint64(len(beta))):
            slope = beta[m]
            a += x[i, m] * slope
            b += x[j, m] * slope
            c += x[k, m] * slope
            d += x[l, m] * slope
        out[i], out[j], out[k], out[l] = a, b, c, d
    for i in range(size - size % FOUR, size):
        total = 0.0
        for m in range(np.uint64(len(beta))):
            total += x[i, m] * beta[m]
        out[i] = total


def by_columns(x, beta, first, out):
    """The same, column by column: for columns that lie together."""
    for i in range(len(out)):
        out[i] = 0.0
    for m in range(len(beta)):
        column, slope = x.T[m][first:], beta[m]
        for i in range(len(out)):
            out[i] += slope * column[i]


def linears(product):
    """The predictors of `linear`, by one of the two."""

    def etas(state, data, first, out):
        product(data.x, state.beta, first, out[0])

    return etas


def linears_offset(product):
    """Those of `linear_offset`."""

    def etas(state, data, first, out):
        product(data.x, state.beta, first, out[0])
        offset = data.offset[first:]
        for i in range(out.shape[1]):
            out[0, i] += offset[i]

    return etas


def linears_scale(product):
    """Those of `linear_scale`."""

    def etas(state, data, first, out):
        product(data.x, state.beta, first, out[0])
        log_sigma = state.log_sigma[0]
        for i in range(out.shape[1]):
            out[1, i] = log_sigma

    return etas


def many_scores(product):
    """The scores of softmax."""

    def etas(state, data, first, out):
        for k in range(len(out)):
            product(data.x, state.beta[k], first, out[k])

    return etas


# ------------------------------------------------------------------------------------ gaussian
def gaussian(eta, data, n):
    """Normal density with mean eta and the given sigma."""
    z = (data.y[n] - eta) / data.sigma
    return data.constant - 0.5 * z * z


def gaussian_derivatives(eta, data, n):
    precision = 1.0 / (data.sigma * data.sigma)
    return (data.y[n] - eta) * precision, -precision, 0.0


def gaussian_sizes(eta, data, n):
    precision = 1.0 / (data.sigma * data.sigma)
    return abs(data.y[n] - eta) * precision, precision, 0.0


def gaussian_remainder(eta, data, n):
    return 0.0, 0.0


def gaussian_scale(eta, data, n):
    """Normal density, eta = (mean, log sigma)."""
    z = (data.y[n] - eta[0]) * exp(-eta[1])
    return -0.5 * z * z - eta[1] - HALF_LOG_2PI


def gaussian_scale_derivatives(eta, data, n):
    k = exp(-eta[1])
    z = (data.y[n] - eta[0]) * k
    zz = z * z
    return (
        z * k, zz - 1.0,
        -k * k, -2.0 * z * k, -2.0 * zz,
        0.0, 2.0 * k * k, 4.0 * z * k, 4.0 * zz,
    )  # fmt: skip


# ----------------------------------------------------------------------------------- student t
def student_t(eta, data, n):
    """Student-t density with location eta and the given sigma and nu degrees of freedom."""
    z = (data.y[n] - eta) / data.sigma
    return data.constant - 0.5 * (data.nu + 1.0) * log1p(z * z / data.nu)


def student_t_derivatives(eta, data, n):
    # t = k (y - eta); log(1 + t^2) and its derivatives in terms of w = 1 / (1 + t^2).
    k = 1.0 / (data.sigma * sqrt(data.nu))
    t = (data.y[n] - eta) * k
    w = 1.0 / (1.0 + t * t)
    m = 0.5 * (data.nu + 1.0) * k
    return (
        2.0 * m * t * w,
        -2.0 * m * k * w * (2.0 * w - 1.0),
        4.0 * m * k * k * t * w * w * (1.0 - 4.0 * w),
    )


def student_t_sizes(eta, data, n):
    k = 1.0 / (data.sigma * sqrt(data.nu))
    t = abs(data.y[n] - eta) * k
    w = 1.0 / (1.0 + t * t)
    m = 0.5 * (data.nu + 1.0) * k
    return (
        2.0 * m * t * w,
        2.0 * m * k * w * (2.0 * w + 1.0),
        4.0 * m * k * k * t * w * w * (1.0 + 4.0 * w),
    )


def student_t_remainder(eta, data, n):
    k = 1.0 / (data.sigma * sqrt(data.nu))
    m = 0.5 * (data.nu + 1.0) * k * k * k
    return STUDENT_THIRD * m, STUDENT_FOURTH * m * k


def student_t_scale(eta, data, n):
    """Student-t density, eta = (location, log sigma)."""
    z = (data.y[n] - eta[0]) * exp(-eta[1])
    return data.constant - eta[1] - 0.5 * (data.nu + 1.0) * log1p(z * z / data.nu)


def student_t_scale_derivatives(eta, data, n):
    k = exp(-eta[1]) / sqrt(data.nu)
    t = (data.y[n] - eta[0]) * k
    w = 1.0 / (1.0 + t * t)
    v = t * w * t  # 1 - w without cancellation
    m = 0.5 * (data.nu + 1.0)
    tail = 8.0 * m * w * (w - v)  # of abb and bbb
    return (
        2.0 * m * k * t * w, 2.0 * m * v - 1.0,
        -2.0 * m * k * k * w * (w - v), -4.0 * m * k * t * w * w, -4.0 * m * w * v,
        4.0 * m * k * k * k * t * w * w * (v - 3.0 * w), 4.0 * m * k * k * w * w * (w - 3.0 * v),
        tail * k * t * w, tail * v,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ logistic
def shares(z):
    """p = 1 / (1 + exp(-z)) and 1 - p, both with all their digits."""
    t = exp(-abs(z))
    large = 1.0 / (1.0 + t)
    small = t * large
    return large if z > 0.0 else small, small if z > 0.0 else large


def logistic(eta, data, n):
    """Probability of y = 1 (or 0) with log odds eta."""
    z = eta if data.y[n] == 1.0 else -eta
    return min(z, 0.0) - log1p(exp(-abs(z)))


def logistic_derivatives(eta, data, n):
    p, q = shares(eta)
    return q if data.y[n] == 1.0 else -p, -p * q, -p * q * (q - p)


def logistic_sizes(eta, data, n):
    p, q = shares(eta)
    return q if data.y[n] == 1.0 else p, p * q, p * q


def logistic_remainder(eta, data, n):
    return SIGMOID_THIRD, SIGMOID_FOURTH


# ---------------------------------------------------------- probit, and complementary log-log
def probit(eta, data, n):
    """Probability of y = 1 (or 0), that a normal variable is below eta (or above)."""
    return log_normal_cdf(eta if data.y[n] == 1.0 else -eta)


def probit_derivatives(eta, data, n):
    sign = 1.0 if data.y[n] == 1.0 else -1.0
    first, second, third, _ = log_normal_cdf_slopes(sign * eta)
    return sign * first, second, sign * third


def probit_remainder(eta, data, n):
    return PROBIT_THIRD, PROBIT_FOURTH


def cloglog(eta, data, n):
    """Probability of at least one event (y = 1), or none (y = 0), with log mean eta."""
    return log_event(eta) if data.y[n] == 1.0 else -exp(eta)


def cloglog_derivatives(eta, data, n):
    mean = exp(eta)
    if data.y[n] != 1.0:
        return -mean, -mean, -mean
    u = min(mean, 800.0)  # beyond it all is 0
    b, c = mean_short(u)
    s = c - u
    return b, b * s, b * (s * s - (u + b) * c)


def cloglog_remainder(eta, data, n):
    """At eta itself, with growth 1, as for `poisson`."""
    mean = exp(eta)
    if data.y[n] != 1.0:
        return mean, mean
    return min(0.5 * mean, EVENT_THIRD), min(0.5 * mean, EVENT_FOURTH)


def mean_short(u):
    """b = u / (exp(u) - 1), by how much u is below the mean of a Poisson number above 0, and 1 - b.

    Where 1 - b would cancel it is a series, of Bernoulli's numbers.
    """
    v = u * u
    tail = 1.0 - v / 42.0 * (1.0 - v / 40.0 * (1.0 - v / 39.6))
    series = u * (0.5 - u * (1.0 - v / 60.0 * tail) / 12.0)
    b = 1.0 - series if u < 0.3 else u * exp(-u) / -expm1(-u)
    return b, series if u < 0.3 else 1.0 - b


# ------------------------------------------------------------------------------------ binomial
def binomial(eta, data, n):
    """Probability of y of so many trials, log odds eta, without the number of ways."""
    tail, y = log1p(exp(-abs(eta))), float(data.y[n])
    return -y * (max(-eta, 0.0) + tail) - (data.trials[n] - y) * (max(eta, 0.0) + tail)


def binomial_derivatives(eta, data, n):
    p, q = shares(eta)
    y, m = float(data.y[n]), float(data.trials[n])
    return y * q - (m - y) * p, -m * p * q, -m * p * q * (q - p)


def binomial_sizes(eta, data, n):
    p, q = shares(eta)
    y, m = float(data.y[n]), float(data.trials[n])
    return y * q + (m - y) * p, m * p * q, m * p * q


def binomial_remainder(eta, data, n):
    return data.trials[n] * SIGMOID_THIRD, data.trials[n] * SIGMOID_FOURTH


# --------------------------------------------------------------------------------------- counts
def poisson(eta, data, n):
    """Probability of y, log mean eta, times y!."""
    return data.y[n] * eta - exp(eta)


def poisson_derivatives(eta, data, n):
    mean = exp(eta)
    return data.y[n] - mean, -mean, -mean


def poisson_sizes(eta, data, n):
    mean = exp(eta)
    return data.y[n] + mean, mean, mean


def poisson_remainder(eta, data, n):
    """At eta itself: exp(e) <= exp(eta) exp(|e - eta|), so they go with growth 1."""
    mean = exp(eta)
    return mean, mean


def negative_binomial(eta, data, n):
    """Probability of y, log mean eta, without its Gamma functions of y and the dispersion."""
    z = eta - data.log_dispersion
    tail = log1p(exp(-abs(z)))
    # y z - (y + r) log(1 + exp(z)), as two terms of one sign.
    return -data.y[n] * (max(-z, 0.0) + tail) - data.dispersion * (max(z, 0.0) + tail)


def negative_binomial_derivatives(eta, data, n):
    p, q = shares(eta - data.log_dispersion)
    y, r = float(data.y[n]), data.dispersion
    return y * q - r * p, -(y + r) * p * q, -(y + r) * p * q * (q - p)


def negative_binomial_sizes(eta, data, n):
    z = eta - data.log_dispersion
    p, q = shares(z)
    y, r = float(data.y[n]), data.dispersion
    wide = 1.0 + abs(z)  # z itself is rounded
    pq = (y + r) * p * q * wide
    return (y * q + r * p) * wide, pq, pq


def negative_binomial_remainder(eta, data, n):
    scale = float(data.y[n]) + data.dispersion
    return scale * SIGMOID_THIRD, scale * SIGMOID_FOURTH
