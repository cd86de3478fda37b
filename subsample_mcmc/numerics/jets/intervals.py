"""Interval arithmetic, rounded outward: pairs (low, high) between which a number lies.

The result of an operation is right to half a unit in the last place, and is moved outward by more;
functions of libraries, and this package's own, are right to a few units, and are moved by SEVERAL
of them. What is not a number, or infinite, is no bound: both ends are nan, and so is all that
follows from it. Nothing here is compiled with flags that allow an operation to be moved.
"""

from math import erf, erfc, lgamma, log, log1p, pi, sin, sqrt

import numpy as np

from subsample_mcmc.numerics import fastmath, special
from subsample_mcmc.numerics.jets import series
from subsample_mcmc.numerics.jit import jit

UNIT, SEVERAL, TINY = 5e-16, 2e-15, 1e-300
ROUGH = 1e-11  # of polygammas, and of the normal law
SMALL = 1e-290  # what is less than this counts as nothing
SLACK = 1e-12  # what the recursion of log_normal_cdf is off by where its terms cancel
GAMMA_AT, GAMMA_LEAST = 1.4616321449683623, -0.12148629053584961  # of lgamma above 0
STEEP = 1.3169578969248166  # where the third derivative of softplus is extreme: log(2 + sqrt 3)
STEEPEST = sqrt(3.0) / 18.0
DENSITY = series.DENSITY


@jit(inner="always")
def outward(low, high, unit):
    """Moved apart by a part of each; nan where an end is not finite."""
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return np.nan, np.nan
    return low - (abs(low) * unit + TINY), high + (abs(high) * unit + TINY)


@jit(inner="always")
def hull(a, b, unit):
    """Of two numbers."""
    return outward(min(a, b), max(a, b), unit)


@jit(inner=True)
def added(a, b, c, d):
    """(a, b) + (c, d)."""
    return outward(a + c, b + d, UNIT)


@jit(inner=True)
def multiplied(a, b, c, d):
    """(a, b) (c, d)."""
    p, q, r, s = a * c, a * d, b * c, b * d
    if not abs(p) + abs(q) + abs(r) + abs(s) < np.inf:
        return np.nan, np.nan
    low, high = min(p, q), max(p, q)
    return outward(min(low, min(r, s)), max(high, max(r, s)), UNIT)  # noqa: PLW3301


@jit(inner="always")
def scaled(a, b, x):
    """(a, b) x."""
    return hull(a * x, b * x, UNIT)


@jit(inner="always")
def divided(a, b, x):
    """(a, b) / x."""
    return hull(a / x, b / x, UNIT)


# ------------------------------------------------- functions: derivatives over k!, as ten numbers
@jit(inner="always")
def ten(f0, f1, f2, f3, f4):
    """Of five pairs."""
    return f0[0], f0[1], f1[0], f1[1], f2[0], f2[1], f3[0], f3[1], f4[0], f4[1]


@jit(inner="always")
def unknown():
    """No bound."""
    none = np.nan
    return none, none, none, none, none, none, none, none, none, none


@jit(inner="always")
def over(a, x):
    """A pair divided by a number."""
    return divided(a[0], a[1], x)


@jit(inner=True)
def exp(low, high):
    e = outward(fastmath.exp(low), fastmath.exp(high), SEVERAL)
    return ten(e, e, over(e, 2.0), over(e, 6.0), over(e, 24.0))


@jit(inner=True)
def exponential_less_1(low, high):
    e = outward(fastmath.exp(low), fastmath.exp(high), SEVERAL)
    value = outward(np.expm1(low), np.expm1(high), SEVERAL)
    return ten(value, e, over(e, 2.0), over(e, 6.0), over(e, 24.0))


@jit(inner=True)
def logarithm(value, low, high):
    """Derivatives of log beside its value: powers of 1 / x."""
    if not (low > 0.0 and high < np.inf):
        return unknown()
    r, s = 1.0 / high, 1.0 / low
    return ten(
        value, outward(r, s, SEVERAL),
        outward(-s * s / 2.0, -r * r / 2.0, SEVERAL),
        outward(r * r * r / 3.0, s * s * s / 3.0, SEVERAL),
        outward(-s * s * s * s / 4.0, -r * r * r * r / 4.0, SEVERAL),
    )  # fmt: skip


@jit(inner=True)
def logarithms(low, high):
    if not low > 0.0:
        return unknown()
    return logarithm(outward(log(low), log(high), SEVERAL), low, high)


@jit(inner=True)
def logarithms_of_1_and(low, high):
    if not low > -1.0:
        return unknown()
    one = outward(1.0 + low, 1.0 + high, UNIT)
    return logarithm(outward(log1p(low), log1p(high), SEVERAL), one[0], one[1])


@jit(inner="always")
def term(low, high, p, binomial):
    """binomial x^p of a number p."""
    if binomial == 0.0:
        return 0.0, 0.0
    far = 0.0  # an exponent that was rounded is off by as much times this
    for end in (low, high):
        if end != 0.0:
            far = max(far, abs(np.log(abs(end))))
    unit = SEVERAL + UNIT * (5.0 + abs(p)) * far
    found = hull(binomial * low**p, binomial * high**p, unit)
    if low <= 0.0 <= high:
        if p < 0.0 or p != np.floor(p):
            return np.nan, np.nan
        if p == 0.0:
            return hull(binomial, binomial, SEVERAL)
        return min(found[0], 0.0), max(found[1], 0.0)
    return found


@jit(inner=True)
def power(low, high, p):
    """x^p of a number p; where x may be negative only whole p have one."""
    if low < 0.0 and p != np.floor(p):
        return unknown()
    b2 = p * (p - 1.0) / 2.0
    b3 = b2 * (p - 2.0) / 3.0
    return ten(
        term(low, high, p, 1.0), term(low, high, p - 1.0, p), term(low, high, p - 2.0, b2),
        term(low, high, p - 3.0, b3), term(low, high, p - 4.0, b3 * (p - 3.0) / 4.0),
    )  # fmt: skip


@jit(inner=True)
def root(low, high):
    if not low > 0.0:
        return unknown()
    return power(low, high, 0.5)


@jit(inner=True)
def reciprocal(low, high):
    return power(low, high, -1.0)


@jit(inner="always")
def sine_over(low, high):
    """The sine of an interval: its ends, and 1 or -1 where it reaches them."""
    if not high - low < 2.0 * pi or not abs(low) + abs(high) < 1e6:
        return -1.0, 1.0
    least, most = outward(min(sin(low), sin(high)), max(sin(low), sin(high)), SEVERAL)
    margin = 1e-9
    if np.floor((high - 0.5 * pi + margin) / (2.0 * pi)) > np.floor(
        (low - 0.5 * pi - margin) / (2.0 * pi)
    ):
        most = 1.0
    if np.floor((high + 0.5 * pi + margin) / (2.0 * pi)) > np.floor(
        (low + 0.5 * pi - margin) / (2.0 * pi)
    ):
        least = -1.0
    return least, most


@jit(inner="always")
def against(a):
    """Of a pair, minus."""
    return -a[1], -a[0]


@jit(inner=True)
def sine(low, high):
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return unknown()
    s, c = sine_over(low, high), sine_over(low + 0.5 * pi - 1e-9, high + 0.5 * pi + 1e-9)
    return ten(s, c, over(against(s), 2.0), over(against(c), 6.0), over(s, 24.0))


@jit(inner=True)
def cosine(low, high):
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return unknown()
    s, c = sine_over(low, high), sine_over(low + 0.5 * pi - 1e-9, high + 0.5 * pi + 1e-9)
    return ten(c, against(s), over(against(c), 2.0), over(s, 6.0), over(c, 24.0))


@jit(inner="always")
def share(x):
    """p (1 - p) and p (1 - p) (1 - 2 p) of the logistic law."""
    e = fastmath.exp(-abs(x))
    large = 1.0 / (1.0 + e)
    v = e * large * large
    odd = v * (1.0 - e) * large
    return v, -odd if x > 0.0 else odd


@jit(inner=True)
def softplus(low, high):
    """p rises; p (1 - p) falls from 0 on both ways; the third derivative is extreme at +-STEEP."""
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return unknown()
    value = outward(special.softplus(low), special.softplus(high), SEVERAL)
    p = outward(1.0 / (1.0 + fastmath.exp(-low)), 1.0 / (1.0 + fastmath.exp(-high)), SEVERAL)
    v0, t0 = share(low)
    v1, t1 = share(high)
    least, most = outward(min(v0, v1), max(v0, v1), SEVERAL)
    if low <= 0.0 <= high:
        most = 0.25
    beside = SEVERAL * max(v0, v1)  # near 0, where 1 - 2 p is a difference
    third = min(t0, t1) - beside, max(t0, t1) + beside
    if low <= -STEEP + 1e-9 and high >= -STEEP - 1e-9:
        third = third[0], STEEPEST * (1.0 + SEVERAL)
    if low <= STEEP + 1e-9 and high >= STEEP - 1e-9:
        third = -STEEPEST * (1.0 + SEVERAL), third[1]
    # v - 6 v^2 rises to v = 1/12.
    a, b = least - 6.0 * least * least, most - 6.0 * most * most
    off = 4.0 * UNIT * (most + 6.0 * most * most)
    fourth = min(a, b) - off, max(a, b) + off
    if least <= 1.0 / 12.0 <= most:
        fourth = fourth[0], 1.0 / 24.0 + off
    return ten(value, p, over((least, most), 2.0), over(third, 6.0), over(fourth, 24.0))


@jit(inner=True)
def log_sigmoid(low, high):
    """-softplus(-x)."""
    f = softplus(-high, -low)
    return -f[1], -f[0], f[2], f[3], -f[5], -f[4], f[6], f[7], -f[9], -f[8]


@jit(inner=True)
def log_gamma(low, high):
    if not (low > 0.0 and high < np.inf):
        return unknown()
    f, g = special.polygammas(low), special.polygammas(high)
    value = hull(lgamma(low), lgamma(high), ROUGH)
    value = value[0] - ROUGH, value[1] + ROUGH  # it crosses 0, where nothing is relative
    if low < GAMMA_AT < high:
        value = min(value[0], GAMMA_LEAST - ROUGH), value[1]
    first = outward(f[0] - ROUGH, g[0] + ROUGH, ROUGH)
    return ten(
        value, first, over(hull(f[1], g[1], ROUGH), 2.0), over(hull(f[2], g[2], ROUGH), 6.0),
        over(hull(f[3], g[3], ROUGH), 24.0),
    )  # fmt: skip


@jit(inner=True)
def digamma(low, high):
    if not (low > 0.0 and high < np.inf):
        return unknown()
    f, g = special.polygammas(low), special.polygammas(high)
    return ten(
        outward(f[0] - ROUGH, g[0] + ROUGH, ROUGH), hull(f[1], g[1], ROUGH),
        over(hull(f[2], g[2], ROUGH), 2.0), over(hull(f[3], g[3], ROUGH), 6.0),
        over(hull(f[4], g[4], ROUGH), 24.0),
    )  # fmt: skip


# ------------------------------------------ functions whose derivatives have peaks that are known
@jit(inner="always")
def reaching(f, low, high, at, value):
    """A pair, and where `at` lies between the ends, the value there."""
    if not low - 1e-9 <= at <= high + 1e-9:
        return f
    least, most = hull(value, value, SEVERAL)
    return min(f[0], least), max(f[1], most)


@jit(inner="always")
def reaching_both(f, low, high, at, value, odd):
    """The same, and at -at; of an odd function the value there is -value."""
    f = reaching(f, low, high, at, value)
    return reaching(f, low, high, -at, -value if odd else value)


@jit(inner="always")
def odd_of_logistic(x):
    """The fourth derivative of the logistic law: v (1 - 2 p) (1 - 12 v)."""
    v, odd = share(x)
    return odd * (1.0 - 12.0 * v)


@jit(inner=True)
def sigmoid(low, high):
    """The derivative of softplus; its fourth has peaks where 1 - 30 v + 120 v^2 is 0."""
    f = softplus(low, high)
    a, b = odd_of_logistic(low), odd_of_logistic(high)
    beside = 4.0 * SEVERAL * max(share(low)[0], share(high)[0])  # where it is a difference
    g = min(a, b) - beside, max(a, b) + beside
    g = reaching_both(g, low, high, 0.84263294812937664, 0.12768392196780176, True)
    g = reaching_both(g, low, high, 3.1443184061549304, -0.019065223250383905, True)
    return ten(
        (f[2], f[3]), over((f[4], f[5]), 0.5), over((f[6], f[7]), 1.0 / 3.0),
        over((f[8], f[9]), 0.25), over(g, 24.0),
    )  # fmt: skip


@jit(inner=True)
def hyperbolic_tangent(low, high):
    """2 sigmoid(2 x) - 1."""
    f = sigmoid(2.0 * low, 2.0 * high)
    return ten(
        outward(np.tanh(low), np.tanh(high), SEVERAL), over((f[2], f[3]), 0.25),
        over((f[4], f[5]), 0.125), over((f[6], f[7]), 0.0625), over((f[8], f[9]), 0.03125),
    )  # fmt: skip


@jit(inner="always")
def hyperbolic(low, high):
    """(sinh, which rises, cosh, which has its least at 0)."""
    a, b = np.cosh(low), np.cosh(high)
    return (
        outward(np.sinh(low), np.sinh(high), SEVERAL),
        reaching(hull(a, b, SEVERAL), low, high, 0.0, 1.0),
    )  # fmt: skip


@jit(inner=True)
def hyperbolic_sine(low, high):
    s, c = hyperbolic(low, high)
    return ten(s, c, over(s, 2.0), over(c, 6.0), over(s, 24.0))


@jit(inner=True)
def hyperbolic_cosine(low, high):
    s, c = hyperbolic(low, high)
    return ten(c, s, over(c, 2.0), over(s, 6.0), over(c, 24.0))


@jit(inner="always")
def density(x):
    """The normal law's, and its first three derivatives."""
    x = min(max(x, -40.0), 40.0)
    g, square = DENSITY * fastmath.exp(-0.5 * x * x), x * x
    return g, -x * g, (square - 1.0) * g, x * (3.0 - square) * g


@jit(inner="always")
def densities(low, high):
    """They all over an interval; what is so small that it is 0 is SMALL."""
    f, g = density(low), density(high)
    # By so much of the law's density polynomials of x are off, also where their terms cancel.
    x = min(max(abs(low), abs(high)), 40.0)  # beyond, it is 0
    lost = 2.0 * SEVERAL * max(f[0], g[0]) * (1.0 + x) * (1.0 + x * x)
    d0 = outward(min(f[0], g[0]) - SMALL, max(f[0], g[0]) + SMALL, ROUGH)
    d1 = outward(min(f[1], g[1]) - SMALL, max(f[1], g[1]) + SMALL, ROUGH)
    d2 = outward(min(f[2], g[2]) - lost - SMALL, max(f[2], g[2]) + lost + SMALL, ROUGH)
    d3 = outward(min(f[3], g[3]) - lost - SMALL, max(f[3], g[3]) + lost + SMALL, ROUGH)
    d0 = reaching(d0, low, high, 0.0, DENSITY)
    d1 = reaching_both(d1, low, high, 1.0, -0.24197072451914335, True)
    d2 = reaching(d2, low, high, 0.0, -DENSITY)
    d2 = reaching_both(d2, low, high, sqrt(3.0), 0.17803210983190294, False)
    d3 = reaching_both(d3, low, high, 0.74196378430272586, 0.55058783950081938, True)
    d3 = reaching_both(d3, low, high, 2.3344142183389772, -0.14956223570663962, True)
    return d0, d1, d2, d3


@jit(inner=True)
def normal_cdf(low, high):
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return unknown()
    d0, d1, d2, d3 = densities(low, high)
    least, most = special.normal_cdf(low) - SMALL, special.normal_cdf(high) + SMALL
    value = outward(least, most, ROUGH)
    return ten(value, d0, over(d1, 2.0), over(d2, 6.0), over(d3, 24.0))


@jit(inner=True)
def error(low, high):
    """erf x is 2 normal_cdf(sqrt(2) x) - 1."""
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return unknown()
    d0, d1, d2, d3 = densities(*hull(sqrt(2.0) * low, sqrt(2.0) * high, UNIT))
    return ten(
        outward(erf(low), erf(high), ROUGH), over(d0, 1.0 / sqrt(8.0)), over(d1, 0.5),
        over(d2, 6.0 / sqrt(32.0)), over(d3, 3.0),
    )  # fmt: skip


@jit(inner=True)
def complement(low, high):
    """1 - erf x."""
    f = error(low, high)
    least, most = erfc(high) - SMALL, erfc(low) + SMALL
    return ten(
        outward(least, most, ROUGH), against((f[2], f[3])), against((f[4], f[5])),
        against((f[6], f[7])), against((f[8], f[9])),
    )  # fmt: skip


@jit(inner="always")
def of_log_normal_cdf(x):
    """Its value and derivatives (the formulas of series.py)."""
    f = series.log_normal_cdf(x)
    return f[0], f[1], 2.0 * f[2], 6.0 * f[3], 24.0 * f[4]


@jit(inner=True)
def log_normal_cdf(low, high):
    """The first falls from infinity, the second rises from -1 to 0; the others have peaks."""
    if not (abs(low) < np.inf and abs(high) < np.inf):
        return unknown()
    f, g = of_log_normal_cdf(low), of_log_normal_cdf(high)
    third = hull(f[3], g[3], ROUGH)
    fourth = hull(f[4], g[4], ROUGH)
    third = third[0] - SLACK, third[1] + SLACK
    fourth = fourth[0] - SLACK, fourth[1] + SLACK
    third = reaching(third, low, high, 1.0023693422683706, 0.29571881919312310)
    fourth = reaching(fourth, low, high, -0.029833620926059145, 0.11483629895508604)
    fourth = reaching(fourth, low, high, 2.0712889388088740, -0.18895683512084606)
    return ten(
        outward(f[0] - SMALL, g[0] + SMALL, ROUGH), outward(g[1] - SMALL, f[1] + SMALL, ROUGH),
        over(outward(f[2] - SLACK, g[2] + SLACK, ROUGH), 2.0), over(third, 6.0),
        over(fourth, 24.0),
    )  # fmt: skip


# ------------------------------------------------------------- affine numbers known over a ball
@jit(inner=True)
def reached(centre, off, slopes, slopes_off, radius, slack):
    """What an affine number comes to: centre +- off, +- radius |slopes|, and some slack."""
    one, two, three = slopes
    length = (one * one + two * two + three * three) ** 0.5
    far = radius * (length * (1.0 + 4.0 * UNIT) + slopes_off) + slack
    far += off
    return outward(centre - far, centre + far, 4.0 * UNIT)


# By the names of series.FUNCTIONS, and of series.OURS.
FUNCTIONS = {
    "exp": exp, "log": logarithms, "log1p": logarithms_of_1_and, "expm1": exponential_less_1,
    "sqrt": root, "sin": sine, "cos": cosine, "lgamma": log_gamma, "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine, "tanh": hyperbolic_tangent, "erf": error, "erfc": complement,
}  # fmt: skip
OURS = {
    "log": logarithms, "log1p": logarithms_of_1_and, "exp": exp, "softplus": softplus,
    "log_sigmoid": log_sigmoid, "digamma": digamma, "log_gamma": log_gamma, "sigmoid": sigmoid,
    "normal_cdf": normal_cdf, "log_normal_cdf": log_normal_cdf,
}  # fmt: skip
