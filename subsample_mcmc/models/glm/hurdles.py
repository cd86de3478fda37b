"""Counts in two steps, a hurdle: zero or not, and how many, as a law's number that is not 0.

Those above 0 are Poisson numbers: with u = exp(eta), r = u + B their mean, and B, c = 1 - B and
s = 1 - r as in families.py, the derivatives of log(exp(u) - 1) by eta are r, r c, r (c^2 - B s) and
r (c^3 - 3 c B s - B s^2 + B r c). The last two are those of families.py plus u, and at most
1.1119 u and 1.3064 u: by intervals over all u, in tests/models.

Or negative binomial ones, of log odds z = eta - log r: with S = log(1 + exp(z)), w = r S and u = w
above, log(1 - P(0)) is the function of families.py at log w, and the derivatives of log w by z are
m = p / S, m d, m d^2 + m d', ..., p = S', q = 1 - p, d = q - m.
"""

from math import expm1, log1p, nan
from math import log as log_of

import numpy as np
import scipy

from subsample_mcmc.calls import helpful
from subsample_mcmc.models.glm.blocks import with_blocks
from subsample_mcmc.models.glm.columns import positive
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.families import (
    SIGMOID_FOURTH,
    SIGMOID_THIRD,
    mean_short,
    shares,
)
from subsample_mcmc.models.glm.model import counted
from subsample_mcmc.models.glm.simulate import MOST
from subsample_mcmc.models.glm.zeros import (
    DISPERSION,
    ZEROS,
    draw_zero_or,
    log_dispersed,
    numbers,
)
from subsample_mcmc.numerics.fastmath import exp, log
from subsample_mcmc.numerics.special import log_event, log_sigmoid, softplus
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.predictors import Predictors

HURDLE_THIRD, HURDLE_FOURTH = 1.1119, 1.3064
FAR = 600.0  # exp(-600) is a number with all its digits
# The fifth derivatives of softplus, and of log(1 - P(0)) of any r, are less: in tests/models.
SOFTPLUS_FIFTH, ABOVE_FIFTH = 0.128, 3.0
STEP = 2.5e-4


# ---------------------------------------------------------------------------------- both of them
def with_zeros(eta):
    """The predictors of a hurdle: log mean before zeros are left out, log odds of a zero."""

    def both(state, data, n):
        return eta(state, data, n), state.logit_zeros[0]

    return both


def etas_with_zeros(etas):
    def both(state, data, first, out):
        etas(state, data, first, out)
        zeros = state.logit_zeros[0]
        for i in range(out.shape[1]):
            out[1, i] = zeros

    return both


# --------------------------------------------------------------------------------------- Poisson
def hurdle(eta, data, n):
    """A zero, or a Poisson number that is none."""
    y = data.y[n]
    if y == 0.0:
        return log_sigmoid(eta[1])
    above = y * eta[0] - exp(eta[0]) - log_event(eta[0]) - data.log_factorial[n]
    return log_sigmoid(-eta[1]) + above


def hurdle_derivatives(eta, data, n):
    p, q = shares(eta[1])
    y, v = float(data.y[n]), p * q
    if y == 0.0:
        return 0.0, q, 0.0, 0.0, -v, 0.0, 0.0, 0.0, -v * (q - p)
    mean = exp(eta[0])
    b, c = mean_short(min(mean, 800.0))
    r = mean + b
    third = r * (c * c - b * (c - mean)) if b > 0.0 else mean
    return y - r, -p, -r * c, 0.0, -v, -third, 0.0, 0.0, -v * (q - p)


def hurdle_remainder(eta, data, n):
    """At eta itself, with growth 1, as for `poisson`.

    No derivative mixes the two predictors: along a direction (s, t) of length 1 they add up to at
    most the larger of the two, as |s|^3 + |t|^3 <= 1.
    """
    mean = exp(eta[0]) if data.y[n] > 0.0 else 0.0
    return max(SIGMOID_THIRD, HURDLE_THIRD * mean), max(SIGMOID_FOURTH, HURDLE_FOURTH * mean)


def draw_poisson_above(eta):
    """Events in a time as long as the mean: the first, given that there is one, and those after."""

    def draw(rng, state, data, n):
        mean = exp(eta(state, data, n))
        if not mean < MOST:
            return nan
        first = -np.log1p(np.expm1(-mean) * rng.random())
        return 1.0 + float(rng.poisson(max(mean - first, 0.0)))

    return draw


# ----------------------------------------------------------------------------- negative binomial
def log_any(z, log_r):
    """log(1 - P(0)) of a negative binomial number, P(0) = exp(-w), w = r log(1 + exp(z)).

    The logarithm of w first: at -FAR and less it is a line, and w no number with digits.
    """
    a = log_r + log(softplus(max(z, -FAR))) + min(z + FAR, 0.0)
    return log(-expm1(-exp(max(a, -FAR)))) + min(a + FAR, 0.0)


def hurdle_dispersed(eta):
    """A zero, or a negative binomial number that is none, of an unknown dispersion."""

    def log_mass(state, data, n):
        zeros = state.logit_zeros[0]
        if data.y[n] == 0.0:
            return log_sigmoid(zeros)
        e, log_r = eta(state, data, n), state.log_dispersion[0]
        return log_sigmoid(-zeros) + log_dispersed(e, log_r, data, n) - log_any(e - log_r, log_r)

    return log_mass


def hurdle_given(eta, data, n):
    """The same of a given dispersion."""
    y = data.y[n]
    if y == 0.0:
        return log_sigmoid(eta[1])
    z = eta[0] - data.log_dispersion
    above = data.log_ways[n] - y * softplus(-z) - data.dispersion * softplus(z)
    return log_sigmoid(-eta[1]) + above - log_any(z, data.log_dispersion)


def hurdle_given_derivatives(eta, data, n):
    p, q = shares(eta[1])
    y, v = float(data.y[n]), p * q
    if y == 0.0:
        return 0.0, q, 0.0, 0.0, -v, 0.0, 0.0, 0.0, -v * (q - p)
    z, r = eta[0] - data.log_dispersion, data.dispersion
    above, below = shares(z)
    whole = softplus(z)
    b, c = mean_short(min(r * whole, 800.0))
    s = c - min(r * whole, 800.0)
    m = above / whole if whole > 0.0 else 1.0
    d, flat = below - m, above * below
    bend = m * d
    first = y * below - r * above - b * m
    second = -(y + r) * flat - b * (s * m * m + bend)
    third = b * (s * s - (1.0 - s) * c) * m * m * m + 3.0 * b * s * m * bend
    third += b * (bend * d - m * (flat + bend))
    third = -(y + r) * flat * (below - above) - third
    return first, -p, second, 0.0, -v, third, 0.0, 0.0, -v * (q - p)


def hurdle_given_remainder(eta, data, n):
    """Of y = 1 those of `largest`, of each more as for `negative_binomial`; see `hurdle`."""
    more = float(data.y[n]) - 1.0
    if more < 0.0:
        return SIGMOID_THIRD, SIGMOID_FOURTH
    third, fourth = more * SIGMOID_THIRD + data.third, more * SIGMOID_FOURTH + data.fourth
    return max(third, SIGMOID_THIRD), max(fourth, SIGMOID_FOURTH)


def largest(r: float) -> tuple[float, float]:
    """Bounds of the third and fourth derivative of log P(1) / (1 - P(0)) over all means.

    At points STEP apart, and between them by the bound of the next derivative. Beyond both ends
    all are next to 0: they go with exp(z) and r exp(z), and with 1 / z^3.
    """
    z = np.arange(-12.0 - log_of(max(r, 1.0)), 40.0, STEP)
    t = np.exp(-np.abs(z))
    small, large = t / (1.0 + t), 1.0 / (1.0 + t)
    p, q = np.where(z > 0.0, large, small), np.where(z > 0.0, small, large)
    whole, v, odd = np.maximum(z, 0.0) + np.log1p(t), p * q, q - p
    # The derivatives of log w, a1 to a4, and those of d.
    a1 = p / whole
    d = q - a1
    a2 = a1 * d
    d1 = -v - a2
    a3 = a2 * d + a1 * d1
    a4 = a3 * d + 2.0 * a2 * d1 - a1 * (v * odd + a3)
    # Those of log(1 - exp(-w)) by log w.
    w = np.minimum(r * whole, 700.0)
    b = w / np.expm1(w)
    mean, c, s = w + b, 1.0 - b, 1.0 - w - b
    e2, e3 = b * s, b * (s * s - mean * c)
    e4 = b * (s**3 - 3.0 * s * mean * c - mean * c * c + b * mean * s)
    third = (1.0 + r) * v * odd + e3 * a1**3 + 3.0 * e2 * a1 * a2 + b * a3
    fourth = (1.0 + r) * v * (1.0 - 6.0 * v) + e4 * a1**4 + 6.0 * e3 * a1 * a1 * a2
    fourth += e2 * (3.0 * a2 * a2 + 4.0 * a1 * a3) + b * a4
    fifth = (1.0 + r) * SOFTPLUS_FIFTH + ABOVE_FIFTH
    most = float(np.abs(fourth).max()) + 0.5 * STEP * fifth
    return float(np.abs(third).max()) + 0.5 * STEP * most, most


def draw_above(rng, mean, r):
    """A negative binomial number above 0: of events at a rate that is a Gamma number.

    The time of the first, given that it is below 1; then the rate, given that time; then the rest.
    """
    if not mean < MOST:
        return nan
    scale = mean / r
    if scale < 1e-300:
        return 1.0
    share = -expm1(-r * log1p(scale))
    first = min(expm1(-log1p(-share * rng.random()) / r) / scale, 1.0)
    rate = rng.standard_gamma(r + 1.0) / (1.0 / scale + first)
    return 1.0 + float(rng.poisson(rate * (1.0 - first))) if rate < MOST else nan


def draw_dispersed_above(eta):
    def draw(rng, state, data, n):
        return draw_above(rng, exp(eta(state, data, n)), exp(state.log_dispersion[0]))

    return draw


def draw_given_above(eta):
    def draw(rng, state, data, n):
        return draw_above(rng, exp(eta(state, data, n)), data.dispersion)

    return draw


# ---------------------------------------------------------------------------------------- models
@helpful
@by_parts
def hurdle_poisson(
    x,
    y,
    offset=None,
    prior_sd=10.0,
    log_prior=None,
    start=None,
    exposure=None,
    weights=None,
) -> Model:
    """Counts in two steps: zero or not, and how many, as a Poisson number that is not 0.

    That number has mean exp(x'beta + offset) before zeros are left out. All
    derivatives have bounds. Blocks: beta (d,), and logit_zeros, log odds of a zero, a priori
    Normal(0, 2^2).

    y: counts.
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> y = rng.poisson(np.exp(x @ [1.0, 0.5])) * (rng.random(3_000) < 0.7)
        >>> fit = sm.laplace(sm.models.glm.hurdle_poisson(x, y), progress=False)
        >>> fit.state["beta"].round(1), round(float(fit.state["logit_zeros"]), 1)
        (array([1. , 0.5]), -0.6)
    """
    data, eta, etas, rows = numbers(x, y, offset, exposure, weights, "hurdle_poisson")
    predictors = Predictors(
        with_zeros(eta), hurdle, hurdle_derivatives, hurdle_remainder, growth=1.0,
        etas=etas_with_zeros(etas),
    )  # fmt: skip
    parts = predictors, draw_zero_or(draw_poisson_above(eta))
    return with_blocks(*parts, data, rows, [ZEROS], log_prior, prior_sd, start)


@helpful
@by_parts
def hurdle_negative_binomial(
    x,
    y,
    dispersion=None,
    offset=None,
    prior_sd=10.0,
    log_prior=None,
    start=None,
    exposure=None,
    weights=None,
) -> Model:
    """The same of overdispersed counts: those above 0 are negative binomial numbers that are not 0.

    That number has mean mu = exp(x'beta + offset) and variance mu + mu^2 / dispersion before zeros
    are left out. Blocks: beta (d,), logit_zeros, and log_dispersion where that is unknown, a priori
    Normal(0, 2^2) each.

    y: counts.
    dispersion: a given positive number, of which all derivatives have bounds, by which decisions
        are proved; None: unknown, then there are none everywhere: see
        sm.models.glm.ordered_logistic.
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(9_000), rng.standard_normal(9_000)])
        >>> mean = np.exp(x @ [1.0, 0.5]) * rng.gamma(3.0, 1.0 / 3.0, 9_000)
        >>> y = rng.poisson(mean) * (rng.random(9_000) < 0.7)
        >>> fit = sm.laplace(sm.models.glm.hurdle_negative_binomial(x, y), progress=False)
        >>> fit.state["beta"].round(1), round(float(np.exp(fit.state["log_dispersion"])))
        (array([1. , 0.5]), 3)
    """
    family = "hurdle_negative_binomial"
    if dispersion is None:
        data, eta, _, rows = numbers(x, y, offset, exposure, weights, family)
        parts = hurdle_dispersed(eta), draw_zero_or(draw_dispersed_above(eta))
        return with_blocks(*parts, data, rows, [DISPERSION, ZEROS], log_prior, prior_sd, start)
    data, eta, etas, rows = counted(x, y, offset, exposure, weights, family)
    r = positive(dispersion, "dispersion", "r in the variance mu + mu^2 / r, or None")
    counts, gamma = np.asarray(data["y"], dtype=float), scipy.special.gammaln
    third, fourth = largest(r)
    data |= {
        "dispersion": r, "log_dispersion": log_of(r), "third": third, "fourth": fourth,
        "log_ways": gamma(counts + r) - gamma(r) - gamma(counts + 1.0),
    }  # fmt: skip
    predictors = Predictors(
        with_zeros(eta), hurdle_given, hurdle_given_derivatives, hurdle_given_remainder,
        etas=etas_with_zeros(etas),
    )  # fmt: skip
    parts = predictors, draw_zero_or(draw_given_above(eta))
    return with_blocks(*parts, data, rows, [ZEROS], log_prior, prior_sd, start)
