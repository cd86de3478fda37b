"""log, log1p and exp of one number, which LLVM vectorises inside a caller's loop.

Use them in your own functions instead of `math.log` and friends: a sum of `math.log1p` over data
calls libm once per datum, a sum of `sm.log1p` runs eight data per instruction (AVX-512).
They are scalar functions, right at 0, infinities, nan and subnormal numbers. A float32 gives a
float32, computed in float32 (sixteen per instruction); any other real number counts as float64.
Called from plain Python they return a numpy scalar.

There is no branch and no table in them: special values are selects, exponents are read and
written as bits, and each polynomial is short enough for a loop body. They are compiled with
`contract` only: reassociation would fold log1p's x - ((1 + x) - 1) to 0. These flags stay on the
instructions when a caller with looser flags inlines them.

Largest error found, in ulp of the result, with fused multiply-add / without (an old CPU, plain
Python), over 8e6 / 4e6 random arguments in each of 5 to 10 ranges (all exponents, subnormal
numbers, around 0, 1 and the branch points); the tests' bound in brackets:

                    log                 log1p                   exp
    float64   1.19 / 1.30 (1.35)   1.79 / 1.85 (1.90)   1.22 / 1.20 (1.25)
    float32   0.94 / 0.96 (1.00)   1.50 / 1.54 (1.60)   1.08 / 1.04 (1.10)

Plain Python and jitted results agreed to 1 ulp wherever compared. log1p(-0.0) is 0.0.

Ng, K. C. (1993). fdlibm, e_log.c and s_log1p.c. Sun Microsystems. https://netlib.org/fdlibm
"""

import functools

import numpy as np

from subsample_mcmc.numerics.jit import CONTRACT, DISABLED, jit

INF, NAN = np.inf, np.nan
INF32, NAN32 = np.float32(INF), np.float32(NAN)
ZERO32, HALF32, ONE32, TWO32 = (np.float32(c) for c in (0.0, 0.5, 1.0, 2.0))

# Bits of a float64 and of a float32: x = mantissa 2^(e - bias), e stored above the mantissa.
MANTISSA, EXPONENT = np.uint64(0x000FFFFFFFFFFFFF), np.uint64(0x7FF0000000000000)
MANTISSA32, EXPONENT32 = np.uint32(0x007FFFFF), np.uint32(0x7F800000)
WIDTH, WIDTH32 = np.uint64(52), np.uint32(23)
LEAST, LEAST32 = np.uint64(0x0010000000000000), np.uint32(0x00800000)  # smallest normal number
NORMAL, NORMAL32 = EXPONENT - LEAST, EXPONENT32 - LEAST32  # how many bit patterns are normal > 0
# sqrt(1/2), and what carries a mantissa at or above sqrt(2) into the next exponent.
ROOT, ROOT32 = np.uint64(0x3FE6A09E667F3BCD), np.uint32(0x3F3504F3)
CARRY = np.uint64(0x3FF0000000000000) - ROOT
CARRY32 = np.uint32(0x3F800000) - ROOT32
# An integer e < 2^52 put in the mantissa of 2^52 is the number 2^52 + e: a conversion that AVX2
# has too (it has none from 64-bit integers).
MAGIC, MAGIC32 = np.uint64(0x4330000000000000), np.uint32(0x4B000000)
BIAS, BIAS32 = 2.0**52 + 1023.0, np.float32(2.0**23 + 127.0)
LIFT, LIFT32 = 2.0**54, np.float32(2.0**25)  # makes subnormal numbers normal
LIFTED, LIFTED32 = BIAS + 54.0, BIAS32 + np.float32(25.0)

# ln 2 = HIGH + LOW, HIGH short enough that k HIGH is exact for every exponent k.
HIGH, LOW = 0.6931471803691238, 1.9082149292705877e-10
HIGH32, LOW32 = np.float32(0.693145751953125), np.float32(1.4286068202862268e-06)

# (log((1+s)/(1-s))/s - 2)/z, s = sqrt(z), |s| <= 3 - 2 sqrt(2): error < 5e-18 in log (float32:
# 2e-11). mpmath.chebyfit(that, [0, (3 - 2 sqrt(2))^2], 7 or 4) at 40 digits.
L = (0.666666666666667, 0.39999999999899505, 0.28571428625975487, 0.2222221113479508,
     0.18182889125261723, 0.15331721600556042, 0.14616449685043406)  # fmt: skip
L32 = tuple(map(np.float32, (0.6666666655449709, 0.40000121839806124, 0.28550820815960665,
                             0.23330467216303835)))  # fmt: skip
# (exp(r) - 1 - r)/r^2, |r| <= 1.001 ln(2)/2, error < 2e-17 in exp (float32: 8e-9).
# mpmath.chebyfit(that, [-bound, bound], 10 or 5) at 40 digits.
E = (0.5, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039, 0.0013888888917367081,
     0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06,
     2.7620201591031547e-07, 2.5100472505694996e-08)  # fmt: skip
E32 = tuple(map(np.float32, (0.5, 0.16666576666119928, 0.04166655421298415,
                             0.008363232883682618, 0.0013926250831497611)))  # fmt: skip
PER_LN2, PER_LN2_32 = 1.4426950408889634, np.float32(1.4426950408889634)
# Adding 1.5 2^52 rounds to an integer and leaves it in the low bits; here 2 bias + that integer,
# so that it stays positive and splits into two valid exponents.
ROUND, ROUND32 = 1.5 * 2.0**52 + 2046.0, np.float32(1.5 * 2.0**23 + 254.0)
FIELD, FIELD32 = np.uint64(0xFFF), np.uint32(0x3FF)
BIT, BIT32 = np.uint64(1), np.uint32(1)
# Beyond these exp is 0 or inf whatever the argument.
FLOOR, CEILING = -746.0, 710.0
FLOOR32, CEILING32 = np.float32(-104.5), np.float32(89.0)


# ---------------------------------------------------------------------------------- logarithms
@jit(flags=CONTRACT, inner="always")
def _log_near_one(f, k):
    """Sum k ln 2 + log(1 + f), for sqrt(1/2) <= 1 + f < sqrt(2).

    With s = f/(2 + f), log(1 + f) = 2 s + s R = f - s (f - R), R = s^2 L(s^2): f is exact, and s,
    which is not, enters only the small second term (Ng 1993, fdlibm e_log.c).
    """
    s = f / (2.0 + f)
    z = s * s
    r = z * (L[0] + z * (L[1] + z * (L[2] + z * (L[3] + z * (L[4] + z * (L[5] + z * L[6]))))))
    return (f - s * (f - r) + k * LOW) + k * HIGH


@jit(flags=CONTRACT, inner="always")
def _log64(x):
    """Return log(x): x = 2^k m with sqrt(1/2) <= m < sqrt(2), then log(m)."""
    normal = (np.float64(x).view(np.uint64) - LEAST) < NORMAL
    t = np.float64(x if normal else x * LIFT).view(np.uint64) + CARRY
    # What is special enters through the exponent (k = -inf, inf or nan gives just that), beside
    # the polynomial instead of after it. x LIFT is inf or nan for these, and else next to 0.
    bias = BIAS if normal else LIFTED - x * LIFT
    bias = bias if x > 0.0 else (INF if x == 0.0 else NAN)
    k = np.uint64((t >> WIDTH) | MAGIC).view(np.float64) - bias
    m = np.uint64((t & MANTISSA) + ROOT).view(np.float64)
    return _log_near_one(m - 1.0, k)


@jit(flags=CONTRACT, inner="always")
def _log1p64(x):
    """Return log(1 + x): log(u), u = fl(1 + x) = 2^k m, with the rounding error put back into m."""
    u = 1.0 + x
    lost = x - (u - 1.0)
    t = np.float64(u).view(np.uint64) + CARRY
    k = np.uint64((t >> WIDTH) | MAGIC).view(np.float64) - BIAS
    m = np.uint64((t & MANTISSA) + ROOT).view(np.float64)
    # 2^(1-k), finite for every k that 1 + x can have (2^-k is not). m - 1 + lost is x if k = 0.
    twice = np.uint64(~t & EXPONENT).view(np.float64)
    value = _log_near_one((m - 1.0) + lost * twice * 0.5, k)
    value = x if x == INF else value
    return value if x > -1.0 else (-INF if x == -1.0 else NAN)


@jit(flags=CONTRACT, inner="always")
def _log_near_one32(f, k):
    """Do as `_log_near_one` in float32."""
    s = f / (TWO32 + f)
    z = s * s
    r = z * (L32[0] + z * (L32[1] + z * (L32[2] + z * L32[3])))
    return (f - s * (f - r) + k * LOW32) + k * HIGH32


# numba widens every integer to 64 bits: the casts keep sixteen lanes in a vector.
@jit(flags=CONTRACT, inner="always")
def _log32(x):
    """Do as `_log64` in float32."""
    normal = np.uint32(np.float32(x).view(np.uint32) - LEAST32) < NORMAL32
    t = np.uint32(np.float32(x if normal else x * LIFT32).view(np.uint32) + CARRY32)
    bias = BIAS32 if normal else LIFTED32 - x * LIFT32
    bias = bias if x > ZERO32 else (INF32 if x == ZERO32 else NAN32)
    k = np.uint32((t >> WIDTH32) | MAGIC32).view(np.float32) - bias
    m = np.uint32((t & MANTISSA32) + ROOT32).view(np.float32)
    return _log_near_one32(m - ONE32, k)


@jit(flags=CONTRACT, inner="always")
def _log1p32(x):
    """Do as `_log1p64` in float32."""
    u = ONE32 + x
    lost = x - (u - ONE32)
    t = np.uint32(np.float32(u).view(np.uint32) + CARRY32)
    k = np.uint32((t >> WIDTH32) | MAGIC32).view(np.float32) - BIAS32
    m = np.uint32((t & MANTISSA32) + ROOT32).view(np.float32)
    twice = np.uint32(~t & EXPONENT32).view(np.float32)
    value = _log_near_one32((m - ONE32) + lost * twice * HALF32, k)
    value = x if x == INF32 else value
    return value if x > -ONE32 else (-INF32 if x == -ONE32 else NAN32)


# --------------------------------------------------------------------------------- exponentials
@jit(flags=CONTRACT, inner="always")
def _exp64(x):
    """Return exp(x) = 2^k exp(r), k = round(x / ln 2), exp(r) = 1 + r + r^2 E(r)."""
    y = CEILING if x > CEILING else x  # these comparisons let nan through
    y = FLOOR if y < FLOOR else y
    t = y * PER_LN2 + ROUND
    k = t - ROUND
    r = (y - k * HIGH) - k * LOW
    z = r * r
    low = (E[0] + r * E[1]) + z * (E[2] + r * E[3])
    high = ((E[4] + r * E[5]) + z * (E[6] + r * E[7])) + z * z * (E[8] + r * E[9])
    value = 1.0 + (r + z * (low + z * z * high))
    # In two factors: 2^k itself does not exist where the result is subnormal or k = 1024.
    n = np.float64(t).view(np.uint64) & FIELD
    half = n >> BIT
    first = np.uint64(half << WIDTH).view(np.float64)
    return value * first * np.uint64((n - half) << WIDTH).view(np.float64)


@jit(flags=CONTRACT, inner="always")
def _exp32(x):
    """Do as `_exp64` in float32."""
    y = CEILING32 if x > CEILING32 else x
    y = FLOOR32 if y < FLOOR32 else y
    t = y * PER_LN2_32 + ROUND32
    k = t - ROUND32
    r = (y - k * HIGH32) - k * LOW32
    e = E32[0] + r * (E32[1] + r * (E32[2] + r * (E32[3] + r * E32[4])))
    value = ONE32 + (r + r * r * e)
    n = np.uint32(np.float32(t).view(np.uint32) & FIELD32)
    half = np.uint32(n >> BIT32)
    first = np.uint32(half << WIDTH32).view(np.float32)
    return value * first * np.uint32(np.uint32(n - half) << WIDTH32).view(np.float32)


# ----------------------------------------------------------------------------- public functions
@jit(flags=CONTRACT, inner="public")
def log(x):
    """Natural logarithm of one number: -inf at 0, nan below.

    x: a number.

    Example:
        >>> float(sm.log(2.0)) == np.log(2.0)
        np.True_
    """
    # numba prunes the other branch, so the result has the type of the argument.
    if isinstance(x, np.float32):
        return _log32(x)
    return _log64(np.float64(x))


@jit(flags=CONTRACT, inner="public")
def log1p(x):
    """Logarithm of 1 + x for one number, accurate for small x: -inf at -1, nan below.

    x: a number.

    Example:
        >>> float(sm.log1p(1e-300))  # exact near 0
        1e-300
    """
    if isinstance(x, np.float32):
        return _log1p32(x)
    return _log1p64(np.float64(x))


@jit(flags=CONTRACT, inner="public")
def exp(x):
    """Exponential of one number: inf above 709.78 (float32: 88.72), subnormal, then 0 far below.

    x: a number.

    Example:
        >>> round(float(sm.exp(1.0)), 12)
        2.718281828459
    """
    if isinstance(x, np.float32):
        return _exp32(x)
    return _exp64(np.float64(x))


def _called_from_python(function, name, *given):
    """Return `function` of numbers as a numpy scalar of x's precision, silent where bits wrap."""
    for x in given:
        if np.ndim(x) > 0:
            raise TypeError(
                f"{name} was given an array of shape {np.shape(x)}; it takes one number, inside a "
                "function of one datum."
                + (f" For whole arrays use np.{name}." if hasattr(np, name) else "")
            )
    narrow = name in ("log", "log1p", "exp") and isinstance(given[0], np.float32)
    real = np.float32 if narrow else np.float64
    with np.errstate(all="ignore"):
        return real(function(*(real(float(x)) for x in given)))


if DISABLED:

    def for_python(function):
        """Return `function` with the checks and types of a call from Python."""

        @functools.wraps(function)
        def call(*given):
            return _called_from_python(function, function.__name__, *given)

        return call
else:

    class Scalar(type(log)):  # type: ignore[misc]
        """A compiled function that stays one for numba, and checks a call from Python."""

        def __call__(self, *given):
            return _called_from_python(super().__call__, self.__name__, *given)

    def for_python(function):
        """Return `function`, which now checks its arguments when Python calls it."""
        function.__class__ = Scalar
        return function


log, log1p, exp = for_python(log), for_python(log1p), for_python(exp)
