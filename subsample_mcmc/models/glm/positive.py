"""Gamma regression of positive numbers, and beta regression of shares."""

from math import log as log_of

import numpy as np
import scipy

from subsample_mcmc.calls import helpful
from subsample_mcmc.models.glm.blocks import Extra, normal_number, with_blocks
from subsample_mcmc.models.glm.columns import positive, restricted, rows_of
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.families import linear
from subsample_mcmc.models.glm.model import made, with_offset
from subsample_mcmc.numerics.fastmath import exp, log, log1p
from subsample_mcmc.numerics.special import log_gamma, sigmoid
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.predictors import Predictors


# ------------------------------------------------------------------------------- one datum each
def gamma(eta, data, n):
    """Gamma density of log mean eta and the given shape."""
    log_y = log(data.y[n])
    z = log_y - eta
    return data.constant + data.shape * (z - exp(z)) - log_y


def gamma_derivatives(eta, data, n):
    mean = data.shape * exp(log(data.y[n]) - eta)
    return mean - data.shape, -mean, mean


def gamma_remainder(eta, data, n):
    """At eta itself: exp(-e) <= exp(-eta) exp(|e - eta|), so they go with growth 1."""
    mean = data.shape * exp(log(data.y[n]) - eta)
    return mean, mean


def gamma_shape(eta):
    """The same of an unknown shape, with these predictors."""

    def log_density(state, data, n):
        log_y, log_shape = log(data.y[n]), state.log_shape[0]
        z, shape = log_y - eta(state, data, n), exp(log_shape)
        return shape * (z - exp(z)) + shape * log_shape - log_gamma(shape) - log_y

    return log_density


def draw_gamma(eta):
    def draw(rng, state, data, n):
        return exp(eta(state, data, n)) * rng.standard_gamma(data.shape) / data.shape

    return draw


def draw_gamma_shape(eta):
    def draw(rng, state, data, n):
        shape = exp(state.log_shape[0])
        return exp(eta(state, data, n)) * rng.standard_gamma(shape) / shape

    return draw


def beta(state, data, n):
    """Beta density of log odds eta of the mean, and a precision."""
    eta, precision, y = linear(state, data, n), exp(state.log_precision[0]), data.y[n]
    a, b = precision * sigmoid(eta), precision * sigmoid(-eta)
    ways = log_gamma(precision) - log_gamma(a) - log_gamma(b)
    return ways + (a - 1.0) * log(y) + (b - 1.0) * log1p(-y)


def draw_beta(rng, state, data, n):
    eta, precision = linear(state, data, n), exp(state.log_precision[0])
    mean = sigmoid(eta)
    one, other = rng.standard_gamma(precision * mean), rng.standard_gamma(precision * sigmoid(-eta))
    if one + other == 0.0:  # of a precision near 0 all is at the ends
        return 1.0 if rng.random() < mean else 0.0
    return one / (one + other)


def log_shape(state):
    return state.log_shape[0]


def log_precision(state):
    return state.log_precision[0]


# -------------------------------------------------------------------------------------- models
@helpful
@by_parts
def gamma_regression(
    x,
    y,
    shape=None,
    offset=None,
    prior_sd=10.0,
    log_prior=None,
    start=None,
    exposure=None,
    weights=None,
) -> Model:
    """Gamma regression: y > 0 has mean mu = exp(x'beta + offset) and variance mu^2 / shape.

    Blocks: beta (d,), and log_shape, a priori Normal(0, 2^2), where shape is None.

    y: positive numbers.
    shape: a positive number, of which all derivatives have bounds, by which decisions are proved;
        None: unknown, then there are none everywhere: see sm.models.glm.ordered_logistic.
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> y = np.exp(x @ [1.0, 0.5]) * rng.gamma(4.0, 0.25, 3_000)
        >>> fit = sm.laplace(sm.models.glm.gamma_regression(x, y), progress=False)
        >>> fit.state["beta"].round(1), round(float(np.exp(fit.state["log_shape"])))
        (array([1. , 0.5]), 4)
    """
    rows = rows_of(x, y, offset=offset, exposure=exposure, weights=weights)
    needs = "gamma_regression needs positive numbers"
    data, eta, etas = with_offset(rows, restricted(rows.y, above_zero, needs))
    if shape is None:
        extra = Extra("log_shape", 0.0, normal_number(log_shape))
        parts = gamma_shape(eta), draw_gamma_shape(eta)
        return with_blocks(*parts, data, rows, [extra], log_prior, prior_sd, start)
    shape = positive(shape, "shape", "that of the gamma law, or None if it is unknown")
    constant = shape * log_of(shape) - float(scipy.special.gammaln(shape))
    data |= {"shape": shape, "constant": constant}
    predictors = Predictors(eta, gamma, gamma_derivatives, gamma_remainder, growth=1.0, etas=etas)
    return made(predictors, draw_gamma(eta), data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def beta_regression(x, y, prior_sd=10.0, log_prior=None, start=None, weights=None) -> Model:
    """Beta regression of shares: y in (0, 1) has a mean m of log odds x'beta.

    Its variance is m (1 - m) / (1 + precision). Blocks: beta (d,), log_precision, a priori
    Normal(0, 2^2). Derivatives have no bounds everywhere: see sm.models.glm.ordered_logistic.

    y: shares, between 0 and 1.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> mean = 1.0 / (1.0 + np.exp(-x @ [0.5, -1.0]))
        >>> y = rng.beta(20.0 * mean, 20.0 * (1.0 - mean))
        >>> fit = sm.laplace(sm.models.glm.beta_regression(x, y), progress=False)
        >>> fit.state["beta"].round(1), round(float(np.exp(fit.state["log_precision"])))
        (array([ 0.5, -1. ]), 20)
    """
    rows = rows_of(x, y, weights=weights)
    needs = (
        "beta_regression needs shares above 0 and below 1, where it has a density; shares of so "
        "many trials are for binomial"
    )
    data = {"x": rows.x, "y": restricted(rows.y, lambda p: (p > 0.0) & (p < 1.0), needs)}
    extra = Extra("log_precision", 0.0, normal_number(log_precision))
    return with_blocks(beta, draw_beta, data, rows, [extra], log_prior, prior_sd, start)


def above_zero(piece: np.ndarray) -> np.ndarray:
    return piece > 0.0
