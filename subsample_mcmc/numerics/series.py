"""Truncated Taylor series of one variable: the arithmetic of jets, on tuples of five numbers.

c[k] is the coefficient of t^k, up to t^4. The value of a smooth function of a series g is a series,
too (Faa di Bruno):

    c1 = f1 g1,  c2 = f1 g2 + f2 g1^2,  c3 = f1 g3 + 2 f2 g1 g2 + f3 g1^3, ...

f_k its k-th derivative at g0 over k!. So of each function five numbers at g0 are all there is to
know. Where a derivative does not exist they are nan, and whoever adds them up meets it.
"""

from math import acos as arc_cosine
from math import asin as arc_sine
from math import atan, cos, cosh, erf, erfc, expm1, lgamma, pi, sin, sinh, sqrt, tan, tanh

import numpy as np

from subsample_mcmc.numerics import fastmath
from subsample_mcmc.numerics.jit import jit

ROOT_PI = sqrt(pi)
# Beyond this polygammas are summed by their asymptotic series: errors below 1e-15.
FAR = 14.0


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
    return expm1(x), e, e / 2.0, e / 6.0, e / 24.0


@jit(inner="always")
def root(x):
    r = np.sqrt(x)
    s = 1.0 / x if x > 0.0 else np.nan
    return r, r * s / 2.0, -r * s * s / 8.0, r * s**3 / 16.0, -5.0 * r * s**4 / 128.0


@jit(inner="always")
def reciprocal(x):
    r = 1.0 / x if x != 0.0 else np.nan
    s = r * r
    return r, -s, s * r, -s * s, s * s * r


@jit(inner="always")
def term(x, p, binomial, k):
    """binomial x^(p - k), and 0 where there is no such term: 0^-1 would be infinite."""
    return binomial * x ** (p - k) if binomial != 0.0 else 0.0


@jit(inner="always")
def power(x, p):
    """x^p of a number p; of negative x only whole p have one."""
    b1 = p
    b2 = b1 * (p - 1.0) / 2.0
    b3 = b2 * (p - 2.0) / 3.0
    b4 = b3 * (p - 3.0) / 4.0
    ok = x != 0.0 or (p >= 0.0 and (p == np.floor(p) or p > 4.0))
    hole = 0.0 if ok else np.nan  # x^(p - k) at 0 is infinite
    return (
        x**p, term(x, p, b1, 1.0) + hole, term(x, p, b2, 2.0) + hole, term(x, p, b3, 3.0) + hole,
        term(x, p, b4, 4.0) + hole,
    )  # fmt: skip


@jit(inner="always")
def sine(x):
    s, c = sin(x), cos(x)
    return s, c, -s / 2.0, -c / 6.0, s / 24.0


@jit(inner="always")
def cosine(x):
    s, c = sin(x), cos(x)
    return c, -s, -c / 2.0, s / 6.0, c / 24.0


@jit(inner="always")
def tangent(x):
    y = tan(x)
    u = 1.0 + y * y
    return y, u, y * u, u * (1.0 + 3.0 * y * y) / 3.0, y * u * (2.0 + 3.0 * y * y) / 3.0


@jit(inner="always")
def hyperbolic_sine(x):
    s, c = sinh(x), cosh(x)
    return s, c, s / 2.0, c / 6.0, s / 24.0


@jit(inner="always")
def hyperbolic_cosine(x):
    s, c = sinh(x), cosh(x)
    return c, s, c / 2.0, s / 6.0, c / 24.0


@jit(inner="always")
def hyperbolic_tangent(x):
    y = tanh(x)
    u = 1.0 / cosh(x) ** 2 if abs(x) < 300.0 else 0.0  # 1 - y^2 without cancellation
    return y, u, -y * u, -u * (1.0 - 3.0 * y * y) / 3.0, y * u * (2.0 - 3.0 * y * y) / 3.0


@jit(inner="always")
def inverse_tangent(x):
    w = 1.0 / (1.0 + x * x)
    square = w * w
    return (
        atan(x), w, -x * square, (3.0 * x * x - 1.0) * square * w / 3.0,
        x * (1.0 - x * x) * square * square,
    )  # fmt: skip


@jit(inner="always")
def inverse_sine(x):
    w = 1.0 - x * x
    s = 1.0 / np.sqrt(w) if w > 0.0 else np.nan
    square = s * s
    return (
        arc_sine(x) if w >= 0.0 else np.nan, s, x * s * square / 2.0,
        (1.0 + 2.0 * x * x) * s * square**2 / 6.0, x * (9.0 + 6.0 * x * x) * s * square**3 / 24.0,
    )  # fmt: skip


@jit(inner="always")
def inverse_cosine(x):
    f = inverse_sine(x)
    return arc_cosine(x) if abs(x) <= 1.0 else np.nan, -f[1], -f[2], -f[3], -f[4]


@jit(inner="always")
def gaussian(x):
    """Derivatives of erf, from the first on, over k!."""
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
def softplus(x):
    """log(1 + exp(x))."""
    e = fastmath.exp(-abs(x))
    p = 1.0 / (1.0 + e) if x > 0.0 else e / (1.0 + e)
    v = e / (1.0 + e) ** 2  # p (1 - p), without cancellation
    odd = (1.0 - e) / (1.0 + e) * (-1.0 if x > 0.0 else 1.0)  # 1 - 2 p
    value = max(x, 0.0) + fastmath.log1p(e)
    return value, p, v / 2.0, v * odd / 6.0, v * (1.0 - 6.0 * v) / 24.0


@jit(inner="always")
def absolute(x):
    s = 1.0 if x > 0.0 else -1.0 if x < 0.0 else np.nan
    return abs(x), s, 0.0 * s, 0.0 * s, 0.0 * s


@jit(inner="always")
def log_gamma(x):
    """lgamma above 0, where its derivatives are polygammas: those of x + n, and n terms."""
    if not x > 0.0:
        return lgamma(x) if x != 0.0 else np.inf, np.nan, np.nan, np.nan, np.nan
    a = b = c = d = 0.0
    z = x
    while z < FAR:
        r = 1.0 / z
        s = r * r
        a, b, c, d, z = a - r, b + s, c - 2.0 * s * r, d + 6.0 * s * s, z + 1.0
    r = 1.0 / z
    s = r * r
    a += (
        fastmath.log(z)
        - r / 2.0
        - s
        * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    )
    b += (
        r
        + s / 2.0
        + r
        * s
        * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * 691 / 2730)))))
    )
    c += (
        -s
        - r * s
        - s * s * (1 / 2 - s * (1 / 6 - s * (1 / 6 - s * (3 / 10 - s * (5 / 6 - s * 691 / 210)))))
    )
    d += (
        2.0 * r * s
        + 3.0 * s * s
        + r * s * s * (2.0 - s * (1.0 - s * (4 / 3 - s * (3.0 - s * (10.0 - s * 691 / 15)))))
    )
    return lgamma(x), a, b / 2.0, c / 6.0, d / 24.0


# By the names that `math` has for them; numpy has others for some, or none ("").
FUNCTIONS = {
    "exp": exp, "log": log, "log1p": log1p, "log2": log2, "log10": log10,
    "expm1": exponential_less_1, "sqrt": root, "sin": sine, "cos": cosine, "tan": tangent,
    "sinh": hyperbolic_sine, "cosh": hyperbolic_cosine, "tanh": hyperbolic_tangent,
    "atan": inverse_tangent, "asin": inverse_sine, "acos": inverse_cosine, "erf": error,
    "erfc": complement, "lgamma": log_gamma, "fabs": absolute,
}  # fmt: skip
NUMPY = {"atan": "arctan", "asin": "arcsin", "acos": "arccos", "lgamma": "", "erf": "", "erfc": ""}
OURS = ("log", "log1p", "exp")  # of this package
