"""Functions of numbers that generated code may call."""

import math
from typing import Any

import numpy as np

from subsample_mcmc.numerics.fastmath import exp, log, log1p
from subsample_mcmc.numerics.special import log_gamma, sigmoid, softplus


def expm1(x):
    """Exp(x) - 1."""
    return math.expm1(x) if x < 700.0 else exp(x)


def log1mexp(x):
    """Log of 1 - exp(x), for x < 0."""
    return log(-expm1(x)) if x > -0.6931471805599453 else log1p(-exp(x))


def sqrt(x):
    """Square root; nan of what has none."""
    return math.sqrt(x) if x >= 0.0 else x * math.nan


def psi(x):
    """The digamma function for x > 0: recurrence up to 10, then the asymptotic series."""
    found = 0.0
    while x < 10.0:
        if x <= 0.0:
            return math.nan
        found -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    tail = z * (
        1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760))))
    )
    return found + log(x) - 0.5 / x - tail


def erfcx(x):
    """Exp(x^2) erfc(x); an asymptotic series where erfc would be 0."""
    if x < 20.0:
        return exp(x * x) * math.erfc(x) if x > -26.0 else math.inf
    z = 0.5 / (x * x)
    tail = 1.0 - z * (1.0 - 3.0 * z * (1.0 - 5.0 * z * (1.0 - 7.0 * z * (1.0 - 9.0 * z))))
    return 0.5641895835477563 / x * tail


def least(a, b):
    """The smaller of two numbers; nan if one is nan, which min does not say."""
    return a if (a <= b) | (a != a) else b


def most(a, b):
    """The larger of two numbers; nan if one is nan."""
    return a if (a >= b) | (a != a) else b


def sign(x):
    """-1, 0 or 1."""
    return (1.0 if x > 0 else 0.0) - (1.0 if x < 0 else 0.0)


SCOPE: dict[str, Any] = {
    "exp": exp, "log": log, "log1p": log1p, "softplus": softplus, "sigmoid": sigmoid,
    "expm1": expm1, "log1mexp": log1mexp, "sqrt": sqrt, "gammaln": log_gamma, "psi": psi,
    "sign": sign, "erf": math.erf, "erfc": math.erfc, "erfcx": erfcx, "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "atan": math.atan, "tanh": math.tanh, "sinh": math.sinh,
    "cosh": math.cosh, "floor": math.floor, "ceil": math.ceil, "isnan": math.isnan,
    "isinf": math.isinf, "inf": math.inf, "nan": math.nan, "int64": np.int64,
    "least": least, "most": most,
}  # fmt: skip
