"""Counts that spread more than Poisson numbers, or have more zeros: inflated ones, and a hurdle.

A hurdle's counts above 0 are Poisson numbers that are not 0: with u = exp(eta), r = u + B their
mean, and B, c = 1 - B and s = 1 - r as in families.py, the derivatives of log(exp(u) - 1) by eta
are r, r c, r (c^2 - B s) and r (c^3 - 3 c B s - B s^2 + B r c). The last two are those of
families.py plus u, and at most 1.1119 u and 1.3064 u: by intervals over all u, in tests/models.
"""

from math import log, nan

import numpy as np
import scipy

from subsample_mcmc.errors import helpful
from subsample_mcmc.models.glm import families as f
from subsample_mcmc.models.glm import simulate as draw
from subsample_mcmc.models.glm.blocks import Extra, normal_number, with_blocks
from subsample_mcmc.models.glm.columns import positive
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.families import (
    SIGMOID_FOURTH,
    SIGMOID_THIRD,
    mean_short,
    shares,
)
from subsample_mcmc.models.glm.model import counted, made
from subsample_mcmc.models.glm.simulate import MOST
from subsample_mcmc.numerics.fastmath import exp
from subsample_mcmc.numerics.special import (
    log_event,
    log_gamma,
    log_sigmoid,
    logsumexp,
    sigmoid,
    softplus,
)
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.predictors import Predictors

HURDLE_THIRD, HURDLE_FOURTH = 1.1119, 1.3064


# ----------------------------------------------------------------- overdispersed, zero-inflated
def dispersed(eta):
    """Negative binomial: as of `families.negative_binomial`, with all its terms."""

    def log_mass(state, data, n):
        return log_dispersed(eta(state, data, n), state.log_dispersion[0], data, n)

    return log_mass


def log_dispersed(eta, log_r, data, n):
    z, r, y = eta - log_r, exp(log_r), data.y[n]
    ways = log_gamma(y + r) - log_gamma(r) - data.log_factorial[n]
    return ways - y * softplus(-z) - r * softplus(z)


def draw_dispersed(eta):
    def draw(rng, state, data, n):
        r = exp(state.log_dispersion[0])
        mean = exp(eta(state, data, n)) * rng.standard_gamma(r) / r
        return float(rng.poisson(mean)) if mean < MOST else nan

    return draw


def inflated_poisson(eta):
    """A zero, or a Poisson number with log mean eta."""

    def log_mass(state, data, n):
        e, zeros, y = eta(state, data, n), state.logit_zeros[0], data.y[n]
        if y == 0.0:
            return logsumexp(log_sigmoid(zeros), log_sigmoid(-zeros) - exp(e))
        return log_sigmoid(-zeros) + y * e - exp(e) - data.log_factorial[n]

    return log_mass


def inflated_negative_binomial(eta):
    """A zero, or a negative binomial number."""

    def log_mass(state, data, n):
        e, log_r, zeros = eta(state, data, n), state.log_dispersion[0], state.logit_zeros[0]
        if data.y[n] == 0.0:
            r = exp(log_r)
            return logsumexp(log_sigmoid(zeros), log_sigmoid(-zeros) - r * softplus(e - log_r))
        return log_sigmoid(-zeros) + log_dispersed(e, log_r, data, n)

    return log_mass


def draw_inflated_poisson(eta):
    def draw(rng, state, data, n):
        if rng.random() < sigmoid(state.logit_zeros[0]):
            return 0.0
        mean = exp(eta(state, data, n))
        return float(rng.poisson(mean)) if mean < MOST else nan

    return draw


def draw_inflated_negative_binomial(eta):
    other = draw_dispersed(eta)

    def draw(rng, state, data, n):
        return 0.0 if rng.random() < sigmoid(state.logit_zeros[0]) else other(rng, state, data, n)

    return draw


def logit_zeros(state):
    return state.logit_zeros[0]


def log_dispersion(state):
    return state.log_dispersion[0]


# --------------------------------------------------------------------------------------- hurdle
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


def draw_hurdle(eta):
    """Events in a time as long as the mean: the first, given that there is one, and those after."""

    def draw(rng, state, data, n):
        if rng.random() < sigmoid(state.logit_zeros[0]):
            return 0.0
        mean = exp(eta(state, data, n))
        if not mean < MOST:
            return nan
        first = -np.log1p(np.expm1(-mean) * rng.random())
        return 1.0 + float(rng.poisson(max(mean - first, 0.0)))

    return draw


# -------------------------------------------------------------------------------------- models
@helpful
@by_parts
def negative_binomial(
    x, y, dispersion=None, offset=None, prior_sd=10.0, log_prior=None, start=None, exposure=None,
    weights=None,
) -> Model:  # fmt: skip
    """Overdispersed counts: mean mu = exp(x'beta + offset), variance mu + mu^2 / dispersion.

    Blocks: beta (d,).

    y: counts.
    dispersion: a given positive number, large for nearly Poisson counts: then derivatives have
        bounds, and the terms lgamma(y + dispersion) - lgamma(dispersion) - log y! are left out;
        None: unknown, a second block log_dispersion, a priori Normal(0, 2^2).
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(9_000), rng.standard_normal(9_000)])
        >>> y = rng.poisson(np.exp(x @ [1.0, 0.5]) * rng.gamma(3.0, 1.0 / 3.0, 9_000))
        >>> fit = sm.laplace(sm.models.glm.negative_binomial(x, y), progress=False)
        >>> fit.state["beta"].round(1), round(float(np.exp(fit.state["log_dispersion"])))
        (array([1. , 0.5]), 3)
    """
    if dispersion is None:
        data, eta, _, rows = numbers(x, y, offset, exposure, weights, "negative_binomial")
        extras, parts = [DISPERSION], (dispersed(eta), draw_dispersed(eta))
        return with_blocks(*parts, data, rows, extras, log_prior, prior_sd, start)
    data, eta, etas, rows = counted(x, y, offset, exposure, weights, "negative_binomial")
    dispersion = positive(dispersion, "dispersion", "r in the variance mu + mu^2 / r, or None")
    data |= {"dispersion": dispersion, "log_dispersion": log(dispersion)}
    predictors = Predictors(
        eta, f.negative_binomial, f.negative_binomial_derivatives, f.negative_binomial_remainder,
        etas=etas,
    )  # fmt: skip
    return made(predictors, draw.negative_binomial(eta), data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def zero_inflated_poisson(
    x,
    y,
    offset=None,
    prior_sd=10.0,
    log_prior=None,
    start=None,
    exposure=None,
    weights=None,
) -> Model:
    """Counts, some of which are zeros for another reason: else of mean exp(x'beta + offset).

    Blocks: beta (d,), logit_zeros: log odds of a zero of that other kind, a priori Normal(0, 2^2).
    Derivatives have no bounds everywhere: see sm.models.glm.ordered_logistic.

    y: counts.
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> y = rng.poisson(np.exp(x @ [1.0, 0.5])) * (rng.random(3_000) < 0.7)
        >>> fit = sm.laplace(sm.models.glm.zero_inflated_poisson(x, y), progress=False)
        >>> fit.state["beta"].round(1), round(float(fit.state["logit_zeros"]), 1)
        (array([1. , 0.5]), -0.9)
    """
    data, eta, _, rows = numbers(x, y, offset, exposure, weights, "zero_inflated_poisson")
    parts = inflated_poisson(eta), draw_inflated_poisson(eta)
    return with_blocks(*parts, data, rows, [ZEROS], log_prior, prior_sd, start)


@helpful
@by_parts
def zero_inflated_negative_binomial(
    x,
    y,
    offset=None,
    prior_sd=10.0,
    log_prior=None,
    start=None,
    exposure=None,
    weights=None,
) -> Model:
    """The same of overdispersed counts: variance mu + mu^2 / exp(log_dispersion).

    Blocks: beta (d,), log_dispersion and logit_zeros, a priori Normal(0, 2^2) each.
    All else as of `zero_inflated_poisson`.

    y: counts.
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(9_000), rng.standard_normal(9_000)])
        >>> mean = np.exp(x @ [1.0, 0.5]) * rng.gamma(3.0, 1.0 / 3.0, 9_000)
        >>> y = rng.poisson(mean) * (rng.random(9_000) < 0.7)
        >>> model = sm.models.glm.zero_inflated_negative_binomial(x, y)
        >>> fit = sm.laplace(model, progress=False)
        >>> fit.state["beta"].round(1), round(float(np.exp(fit.state["log_dispersion"])))
        (array([1. , 0.5]), 3)
    """
    data, eta, _, rows = numbers(x, y, offset, exposure, weights, "zero_inflated_negative_binomial")
    parts = inflated_negative_binomial(eta), draw_inflated_negative_binomial(eta)
    return with_blocks(*parts, data, rows, [DISPERSION, ZEROS], log_prior, prior_sd, start)


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
    parts = predictors, draw_hurdle(eta)
    return with_blocks(*parts, data, rows, [ZEROS], log_prior, prior_sd, start)


DISPERSION = Extra("log_dispersion", 0.0, normal_number(log_dispersion))
ZEROS = Extra("logit_zeros", 0.0, normal_number(logit_zeros))


def numbers(x, y, offset, exposure, weights, family: str):
    """(data, eta, etas, rows) of a model of counts, with log y!."""
    data, eta, etas, rows = counted(x, y, offset, exposure, weights, family)
    data["log_factorial"] = scipy.special.gammaln(np.asarray(data["y"], dtype=float) + 1.0)
    return data, eta, etas, rows
