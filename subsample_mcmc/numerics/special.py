"""softplus, log_sigmoid, logsumexp, digamma, the normal law: functions of one datum's numbers.

What likelihoods are made of besides log and exp. They have no branch that depends on the sign where
a formula is smooth, so that derivatives (jets/) and bounds of them are those of one expression.
All of them count in float64.
"""

from math import erfc, lgamma

import numpy as np

from subsample_mcmc.numerics import fastmath
from subsample_mcmc.numerics.fastmath import for_python
from subsample_mcmc.numerics.jit import CONTRACT, jit

ROOT_HALF = 0.7071067811865476
HALF_LOG_2PI = 0.9189385332046727
DENSITY = 0.3989422804014327  # of a standard normal variable at 0
# B_2 to B_14: from FAR on the asymptotic series of digamma and its derivatives is right to 1e-16.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
FAR = 18.0
TAIL, STEPS = -3.0, 60  # below TAIL the normal tail is a continued fraction of so many steps


# ------------------------------------------------------------------------------------ logarithms
@jit(flags=CONTRACT, inner="public")
def softplus(x):
    """log(1 + exp(x)) of one number, right on both sides: x far above 0, exp(x) far below.

    x: a number.

    Example:
        >>> float(sm.softplus(800.0))  # where exp(x) is infinite
        800.0
    """
    return max(np.float64(x), 0.0) + fastmath.log1p(fastmath.exp(-abs(np.float64(x))))


@jit(flags=CONTRACT, inner="public")
def log_sigmoid(x):
    """log(1 / (1 + exp(-x))) of one number: the log probability of a success with log odds x.

    x: log odds.

    Example:
        >>> float(sm.log_sigmoid(-800.0))
        -800.0
    """
    return min(np.float64(x), 0.0) - fastmath.log1p(fastmath.exp(-abs(np.float64(x))))


@jit(flags=CONTRACT, inner="public")
def sigmoid(x):
    """1 / (1 + exp(-x)), right on both sides."""
    small = fastmath.exp(-abs(np.float64(x)))
    return (1.0 if x >= 0.0 else small) / (1.0 + small)


@jit(flags=CONTRACT, inner="public")
def logsumexp(a, b):
    """log(exp(a) + exp(b)) of two numbers: a mixture of two log densities.

    a, b: logarithms, -inf for none.

    Example:
        >>> round(float(sm.logsumexp(-1000.0, -1000.0)), 6)
        -999.306853
    """
    a, b = np.float64(a), np.float64(b)
    high, low = a if a > b else b, b if a > b else a
    gap = low - high if low != high else 0.0  # inf - inf would be none
    return high + fastmath.log1p(fastmath.exp(gap))


# ----------------------------------------------------------------------------------- polygammas
@jit(flags=CONTRACT, inner="always")
def far_polygamma(n, z):
    """The n-th derivative of digamma at z >= FAR, for n >= 1, times (-1)^(n + 1) z^n.

    (n-1)! + n!/(2 z) + sum over k of B_2k (2k + n - 1)!/(2k)! / z^2k.
    """
    r = 1.0 / z
    square, power, factorial = r * r, 1.0, 1.0
    for i in range(2, n):
        factorial *= i
    total = factorial + 0.5 * factorial * n * r
    for k in range(len(BERNOULLI)):
        power *= square
        rising = 1.0
        for i in range(1, n):
            rising *= 2 * k + 2 + i
        total += BERNOULLI[k] * rising * power
    return total


@jit(flags=CONTRACT, inner="always")
def polygammas(x):
    """Digamma and its first four derivatives at x > 0; elsewhere nan."""
    if not x > 0.0:
        return np.nan, np.nan, np.nan, np.nan, np.nan
    if x == np.inf:
        return np.inf, 0.0, 0.0, 0.0, 0.0
    a = b = c = d = e = 0.0
    z = x
    while z < FAR:  # psi(z) = psi(z + 1) - 1 / z
        r = 1.0 / z
        s = r * r
        a, b, c, d, e = a - r, b + s, c - 2.0 * s * r, d + 6.0 * s * s, e - 24.0 * s * s * r
        z += 1.0
    r = 1.0 / z
    square = r * r
    value, power = fastmath.log(z) - 0.5 * r, 1.0
    for k in range(len(BERNOULLI)):
        power *= square
        value -= BERNOULLI[k] / (2 * k + 2) * power
    return (
        a + value, b + far_polygamma(1, z) * r, c - far_polygamma(2, z) * square,
        d + far_polygamma(3, z) * square * r, e - far_polygamma(4, z) * square * square,
    )  # fmt: skip


@jit(flags=CONTRACT, inner="public")
def digamma(x):
    """The derivative of the logarithm of the gamma function at one number above 0; nan elsewhere.

    x: a number.

    Example:
        >>> round(float(sm.digamma(1.0)), 9)  # minus Euler's constant
        -0.577215665
    """
    return polygammas(np.float64(x))[0]


@jit(flags=CONTRACT, inner="public")
def log_gamma(x):
    """math.lgamma, but infinite at its poles, where that one raises an error."""
    x = np.float64(x)
    return np.inf if x <= 0.0 and x == np.floor(x) else lgamma(x)


# ------------------------------------------------------------------------------- the normal law
@jit(flags=CONTRACT, inner="public")
def normal_cdf(x):
    """The probability that a standard normal variable is below x.

    x: a number.

    Example:
        >>> float(sm.normal_cdf(0.0))
        0.5
    """
    return 0.5 * erfc(-ROOT_HALF * np.float64(x))


@jit(flags=CONTRACT, inner="always")
def mills(t):
    """r1, r2, r3, r4 for t >= 3: moments of the density prop. to exp(-t s - s^2/2) on s > 0.

    Its k-th moment is r1 ... rk, as partial integration gives r_k = k / (t + r_(k+1)), and its mass
    1 / (t + r1), the ratio of Mills: all of one sign, so nothing cancels (a continued fraction of
    Laplace's).
    """
    r = 0.0
    for k in range(STEPS, 4, -1):
        r = k / (t + r)
    r4 = 4.0 / (t + r)
    r3 = 3.0 / (t + r4)
    r2 = 2.0 / (t + r3)
    return 1.0 / (t + r2), r2, r3, r4


@jit(flags=CONTRACT, inner="public")
def log_normal_cdf(x):
    """The logarithm of `sm.normal_cdf`, right in the far tail: for probit models.

    x: a number.

    Example:
        >>> round(float(sm.log_normal_cdf(-40.0)), 6)  # where the probability itself is 0
        -804.608442
    """
    x = np.float64(x)
    if x < TAIL:
        r1 = mills(-x)[0]
        return -0.5 * x * x - HALF_LOG_2PI - fastmath.log(r1 - x)
    if x < 0.0:
        return fastmath.log(0.5 * erfc(-ROOT_HALF * x))
    return fastmath.log1p(-0.5 * erfc(ROOT_HALF * x))


@jit(inner="public")
def log_normal_cdf_slopes(x):
    """The first four derivatives of `log_normal_cdf`.

    In the lower tail they are cumulants (see `mills`), where a recursion would cancel.
    """
    if x < TAIL:
        r1, r2, r3, r4 = mills(-x)
        square = r1 * r1
        two = r1 * (r2 - r1)  # cumulants of moments r1, r1 r2, r1 r2 r3, ...
        three = r1 * (r2 * r3 - 3.0 * r1 * r2 + 2.0 * square)
        four = r1 * (
            r2 * r3 * r4 - 4.0 * r1 * r2 * r3 - 3.0 * r1 * r2 * r2 + 12.0 * square * r2
            - 6.0 * square * r1
        )  # fmt: skip
        return r1 - x, two - 1.0, three, four
    x = min(x, 40.0) if x == x else x  # from there on all is 0
    f1 = DENSITY * fastmath.exp(-0.5 * x * x) / normal_cdf(x)
    s = x + f1
    f2 = -f1 * s
    f3 = -(f2 * s + f1 * (1.0 + f2))
    f4 = -(f3 * s + 2.0 * f2 * (1.0 + f2) + f1 * f3)
    return f1, f2, f3, f4


@jit(flags=CONTRACT, inner="public")
def log_event(x):
    """log(1 - exp(-exp(x))): of at least one event of a Poisson number with log mean x.

    log(1 - e^-u) is x - u/2 + log(sinh(u/2) / (u/2)), of which nothing is lost where u is small.
    """
    x = np.float64(x)
    u = fastmath.exp(x)
    if u > 0.5:
        return fastmath.log1p(-fastmath.exp(-u))
    v = 0.25 * u * u  # sinh(w)/w - 1 at w = u/2, v = w^2 up to 1/16
    odd = v / 6.0 * (
        1.0 + v / 20.0 * (1.0 + v / 42.0 * (1.0 + v / 72.0 * (1.0 + v / 110.0)))
    )  # fmt: skip
    return x - 0.5 * u + fastmath.log1p(odd)


(
    softplus, log_sigmoid, sigmoid, logsumexp, digamma, log_gamma, normal_cdf, log_normal_cdf,
    log_event,
) = map(
    for_python,
    (
        softplus, log_sigmoid, sigmoid, logsumexp, digamma, log_gamma, normal_cdf, log_normal_cdf,
        log_event,
    ),
)  # fmt: skip
