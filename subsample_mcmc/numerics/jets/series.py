"""Truncated Taylor series of one variable: the arithmetic of jets, on tuples of five numbers.

c[k] is the coefficient of t^k, up to t^4. The value of a smooth function of a series g is a series,
too (Faa di Bruno):

    c1 = f1 g1,  c2 = f1 g2 + f2 g1^2,  c3 = f1 g3 + 2 f2 g1 g2 + f3 g1^3, ...

f_k its k-th derivative at g0 over k!. So of each function five numbers at g0 are all there is to
know. Where a derivative does not exist they are nan or infinite, and whoever adds them up meets it.
c[0] is a number; c[1] to c[4] may be several numbers each, of as many lines at once (kinds.py).
"""

from math import erf, erfc, pi, sqrt

import numpy as np

from subsample_mcmc.numerics import fastmath, special
from subsample_mcmc.numerics.jit import jit

ROOT_PI = sqrt(pi)
DENSITY = special.DENSITY
SMALL, LARGE = 1e-60, 1e60  # between them x^p and its derivatives are made of one power


# ------------------------------------------------------------------------------- sums, products
@jit(inner="always")
def product(a, b):
    return (
        a[0] * b[0],
        a[0] * b[1] + a[1] * b[0],
        a[0] * b[2] + a[1] * b[1] + a[2] * b[0],
        a[0] * b[3] + a[1] * b[2] + a[2] * b[1] + a[3] * b[0],
        a[0] * b[4] + a[1] * b[3] + a[2] * b[2] + a[3] * b[1] + a[4] * b[0],
    )


@jit(inner="always")
def product_of_lines(a, b):
    """Of two that have value and slope only."""
    return a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[1] * b[1], 0.0, 0.0


@jit(inner="always")
def product_with_line(a, b):
    """a has value and slope only."""
    return (
        a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[0] * b[2] + a[1] * b[1],
        a[0] * b[3] + a[1] * b[2], a[0] * b[4] + a[1] * b[3],
    )  # fmt: skip


@jit(inner="always")
def plus(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]


@jit(inner="always")
def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4]


@jit(inner="always")
def times(a, x):
    return a[0] * x, a[1] * x, a[2] * x, a[3] * x, a[4] * x


@jit(inner="always")
def over(a, x):
    """Divided by a number."""
    r = 1.0 / x
    return a[0] / x, a[1] * r, a[2] * r, a[3] * r, a[4] * r


@jit(inner="always")
def of_series(f, g):
    """A function of a series, by its f_k at g0."""
    g1, g2, g3, g4 = g[1], g[2], g[3], g[4]
    square = g1 * g1
    return (
        f[0],
        f[1] * g1,
        f[1] * g2 + f[2] * square,
        f[1] * g3 + 2.0 * f[2] * g1 * g2 + f[3] * square * g1,
        f[1] * g4 + f[2] * (2.0 * g1 * g3 + g2 * g2) + 3.0 * f[3] * square * g2
        + f[4] * square * square,
    )  # fmt: skip


@jit(inner="always")
def of_line(f, slope):
    """A function of what has value and slope only, by its f_k at the value."""
    square = slope * slope
    return f[0], f[1] * slope, f[2] * square, f[3] * square * slope, f[4] * square * square


@jit(inner="always")
def at_zero(a, sign, add):
    """(|a| + add * a) where the value of a is 0: to the side where t is above 0."""
    s = sign(a[4])
    for c in (a[3], a[2], a[1]):  # the first that is not 0 decides
        own = sign(c)
        s = own + (1.0 - own * own) * s
    s = s + add
    return 0.0, a[1] * s, a[2] * s, a[3] * s, a[4] * s


# ------------------------------------------------------------------- functions: f_k at x, k = 0..4
@jit(inner="always")
def exp(x):
    e = fastmath.exp(x)
    return e, e, e / 2.0, e / 6.0, e / 24.0


@jit(inner="always")
def logarithm(value, x):
    """Derivatives of log at x, beside its value there."""
    r = 1.0 / x if x > 0.0 else np.nan
    s = r * r
    return value, r, -s / 2.0, s * r / 3.0, -s * s / 4.0


@jit(inner="always")
def log(x):
    return logarithm(fastmath.log(x), x)


@jit(inner="always")
def log1p(x):
    return logarithm(fastmath.log1p(x), 1.0 + x)


@jit(inner="always")
def log2(x):
    return times(log(x), 1.4426950408889634)


@jit(inner="always")
def log10(x):
    return times(log(x), 0.4342944819032518)


@jit(inner="always")
def exponential_less_1(x):
    e = fastmath.exp(x)
    return np.expm1(x), e, e / 2.0, e / 6.0, e / 24.0


@jit(inner="always")
def root(x):
    r = np.sqrt(x)
    s = 1.0 / x if x > 0.0 else np.nan
    first = 0.5 / r if x > 0.0 else np.nan
    second = first * s
    third = second * s
    return r, first, -second / 4.0, third / 8.0, -5.0 * third * s / 64.0


@jit(inner="always")
def reciprocal(x):
    r = 1.0 / x
    s = r * r
    return r, -s, s * r, -s * s, s * s * r


@jit(inner="always")
def term(x, p, binomial, k):
    """binomial x^(p - k), and 0 where there is no such term: 0^-1 would be infinite."""
    return binomial * x ** (p - k) if binomial != 0.0 else 0.0


@jit(inner="always")
def power(x, p):
    """x^p of a number p; of negative x only whole p have one."""
    value = x**p
    b1 = p
    b2 = b1 * (p - 1.0) / 2.0
    b3 = b2 * (p - 2.0) / 3.0
    b4 = b3 * (p - 3.0) / 4.0
    if SMALL < abs(x) < LARGE and SMALL < abs(value) < LARGE:
        r = 1.0 / x
        first = value * r
        second = first * r
        third = second * r
        return value, b1 * first, b2 * second, b3 * third, b4 * third * r
    return value, term(x, p, b1, 1.0), term(x, p, b2, 2.0), term(x, p, b3, 3.0), term(x, p, b4, 4.0)


@jit(inner="always")
def sine(x):
    s, c = np.sin(x), np.cos(x)
    return s, c, -s / 2.0, -c / 6.0, s / 24.0


@jit(inner="always")
def cosine(x):
    s, c = np.sin(x), np.cos(x)
    return c, -s, -c / 2.0, s / 6.0, c / 24.0


@jit(inner="always")
def tangent(x):
    y = np.tan(x)
    u = 1.0 + y * y
    return y, u, y * u, u * (1.0 + 3.0 * y * y) / 3.0, y * u * (2.0 + 3.0 * y * y) / 3.0


@jit(inner="always")
def hyperbolic_sine(x):
    s, c = np.sinh(x), np.cosh(x)
    return s, c, s / 2.0, c / 6.0, s / 24.0


@jit(inner="always")
def hyperbolic_cosine(x):
    s, c = np.sinh(x), np.cosh(x)
    return c, s, c / 2.0, s / 6.0, c / 24.0


@jit(inner="always")
def hyperbolic_tangent(x):
    y = np.tanh(x)
    u = 1.0 / np.cosh(x) ** 2  # 1 - y^2 without cancellation
    return y, u, -y * u, -u * (1.0 - 3.0 * y * y) / 3.0, y * u * (2.0 - 3.0 * y * y) / 3.0


@jit(inner="always")
def inverse_tangent(x):
    value, x = np.arctan(x), min(max(x, -1e50), 1e50) if x == x else x  # there all is next to 0
    w = 1.0 / (1.0 + x * x)
    square = w * w
    return (
        value, w, -x * square, (3.0 * x * x - 1.0) * square * w / 3.0,
        x * (1.0 - x * x) * square * square,
    )  # fmt: skip


@jit(inner="always")
def inverse_sine(x):
    w = (1.0 - x) * (1.0 + x)
    s = 1.0 / np.sqrt(w) if w > 0.0 else np.nan
    square = s * s
    return (
        np.arcsin(x), s, x * s * square / 2.0,
        (1.0 + 2.0 * x * x) * s * square**2 / 6.0, x * (9.0 + 6.0 * x * x) * s * square**3 / 24.0,
    )  # fmt: skip


@jit(inner="always")
def inverse_cosine(x):
    f = inverse_sine(x)
    return np.arccos(x), -f[1], -f[2], -f[3], -f[4]


@jit(inner="always")
def gaussian(x):
    """Derivatives of erf, from the first on, over k!."""
    x = min(max(x, -30.0), 30.0) if x == x else x  # there all is 0
    g = 2.0 / ROOT_PI * fastmath.exp(-x * x)
    square = x * x
    return g, -x * g, (2.0 * square - 1.0) * g / 3.0, x * (3.0 - 2.0 * square) * g / 6.0


@jit(inner="always")
def error(x):
    g = gaussian(x)
    return erf(x), g[0], g[1], g[2], g[3]


@jit(inner="always")
def complement(x):
    g = gaussian(x)
    return erfc(x), -g[0], -g[1], -g[2], -g[3]


@jit(inner="always")
def shares(x):
    """Of the logistic law: p, 1 - p, p (1 - p) and 1 - 2 p, each without cancellation."""
    e = fastmath.exp(-abs(x))
    large = 1.0 / (1.0 + e)
    small, odd = e * large, (1.0 - e) * large
    if x > 0.0:
        return large, small, small * large, -odd
    return small, large, small * large, odd


@jit(inner="always")
def softplus(x):
    p, _, v, odd = shares(x)
    return special.softplus(x), p, v / 2.0, v * odd / 6.0, v * (1.0 - 6.0 * v) / 24.0


@jit(inner="always")
def log_sigmoid(x):
    _, q, v, odd = shares(x)
    return special.log_sigmoid(x), q, -v / 2.0, -v * odd / 6.0, -v * (1.0 - 6.0 * v) / 24.0


@jit(inner="always")
def sigmoid(x):
    p, _, v, odd = shares(x)
    return p, v, v * odd / 2.0, v * (1.0 - 6.0 * v) / 6.0, v * odd * (1.0 - 12.0 * v) / 24.0


@jit(inner="always")
def log_gamma(x):
    """lgamma above 0, where its derivatives are polygammas."""
    f = special.polygammas(x)
    return special.log_gamma(x), f[0], f[1] / 2.0, f[2] / 6.0, f[3] / 24.0


@jit(inner="always")
def digamma(x):
    f = special.polygammas(x)
    return f[0], f[1], f[2] / 2.0, f[3] / 6.0, f[4] / 24.0


@jit(inner="always")
def normal_cdf(x):
    x = min(max(x, -40.0), 40.0) if x == x else x  # there all is 0
    g, square = DENSITY * fastmath.exp(-0.5 * x * x), x * x
    return (
        special.normal_cdf(x), g, -x * g / 2.0, (square - 1.0) * g / 6.0,
        x * (3.0 - square) * g / 24.0,
    )  # fmt: skip


@jit(inner="always")
def log_normal_cdf(x):
    f = special.log_normal_cdf_slopes(x)
    return special.log_normal_cdf(x), f[0], f[1] / 2.0, f[2] / 6.0, f[3] / 24.0


# By the names that `math` has for them; numpy has others for some, or none ("").
FUNCTIONS = {
    "exp": exp, "log": log, "log1p": log1p, "log2": log2, "log10": log10,
    "expm1": exponential_less_1, "sqrt": root, "sin": sine, "cos": cosine, "tan": tangent,
    "sinh": hyperbolic_sine, "cosh": hyperbolic_cosine, "tanh": hyperbolic_tangent,
    "atan": inverse_tangent, "asin": inverse_sine, "acos": inverse_cosine, "erf": error,
    "erfc": complement, "lgamma": log_gamma,
}  # fmt: skip
NUMPY = {"atan": "arctan", "asin": "arcsin", "acos": "arccos", "lgamma": "", "erf": "", "erfc": ""}
# Of this package; sm.logsumexp, of two, is made of softplus.
OURS = {
    "log": (fastmath.log, log), "log1p": (fastmath.log1p, log1p), "exp": (fastmath.exp, exp),
    "softplus": (special.softplus, softplus), "log_sigmoid": (special.log_sigmoid, log_sigmoid),
    "digamma": (special.digamma, digamma), "normal_cdf": (special.normal_cdf, normal_cdf),
    "log_normal_cdf": (special.log_normal_cdf, log_normal_cdf),
    "log_gamma": (special.log_gamma, log_gamma), "sigmoid": (special.sigmoid, sigmoid),
}  # fmt: skip
