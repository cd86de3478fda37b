"""Counts that spread more than Poisson numbers, or have more zeros (hurdles: hurdles.py)."""

from math import log, nan

import numpy as np
import scipy

from subsample_mcmc.calls import helpful
from subsample_mcmc.models.glm import families as f
from subsample_mcmc.models.glm import simulate as draw
from subsample_mcmc.models.glm.blocks import Extra, normal_number, with_blocks
from subsample_mcmc.models.glm.columns import positive
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.model import counted, made
from subsample_mcmc.models.glm.simulate import MOST
from subsample_mcmc.numerics.fastmath import exp
from subsample_mcmc.numerics.special import (
    log_gamma,
    log_sigmoid,
    logsumexp,
    sigmoid,
    softplus,
)
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.predictors import Predictors


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


def draw_zero_or(other):
    """A zero, with the chance that the state says, or what another one draws."""

    def draw(rng, state, data, n):
        return 0.0 if rng.random() < sigmoid(state.logit_zeros[0]) else other(rng, state, data, n)

    return draw


def logit_zeros(state):
    return state.logit_zeros[0]


def log_dispersion(state):
    return state.log_dispersion[0]


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
        etas=etas, sizes=f.negative_binomial_sizes,
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
    parts = inflated_poisson(eta), draw_zero_or(draw.poisson(eta))
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
    parts = inflated_negative_binomial(eta), draw_zero_or(draw_dispersed(eta))
    return with_blocks(*parts, data, rows, [DISPERSION, ZEROS], log_prior, prior_sd, start)


DISPERSION = Extra("log_dispersion", 0.0, normal_number(log_dispersion))
ZEROS = Extra("logit_zeros", 0.0, normal_number(logit_zeros))


def numbers(x, y, offset, exposure, weights, family: str):
    """(data, eta, etas, rows) of a model of counts, with log y!."""
    data, eta, etas, rows = counted(x, y, offset, exposure, weights, family)
    data["log_factorial"] = scipy.special.gammaln(np.asarray(data["y"], dtype=float) + 1.0)
    return data, eta, etas, rows
