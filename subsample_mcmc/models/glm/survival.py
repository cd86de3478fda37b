"""Times until an event, of which some are known to lie in a range only: Weibull and log-normal.

Of datum n is known: y[n] == upper[n], the time itself; y[n] < upper[n] < inf, that it lies between;
upper[n] == inf, that it is beyond y[n].
"""

from math import expm1

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.models.glm.blocks import Extra, normal_number, with_blocks
from subsample_mcmc.models.glm.columns import first_wrong, restricted, rows_of, zero_one
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.families import HALF_LOG_2PI, linear
from subsample_mcmc.models.glm.model import PIECE
from subsample_mcmc.models.glm.ordered import log_between
from subsample_mcmc.models.glm.positive import log_shape
from subsample_mcmc.numerics.fastmath import exp, log
from subsample_mcmc.numerics.special import log_normal_cdf
from subsample_mcmc.target.data import as_array
from subsample_mcmc.target.model import Model

FAR = 150.0  # up to here exp(4 z), which fourth derivatives are made of, is a number


# ------------------------------------------------------------------------------- one datum each
def weibull_time(state, data, n):
    """With z = shape (log y - eta) the rest is exp(-exp(z)).

    Between two ends it is the difference of two such numbers, exp(-exp(z)) (1 - exp(-exp(w))):
    exp(w) is what the hazard at upper has more than that at y. Where shape is large it has more by
    so much that only w is a number.
    """
    shape, eta, upper = exp(state.log_shape[0]), linear(state, data, n), data.upper[n]
    if data.y[n] == 0.0:  # before upper
        return log_event(shape * (log(upper) - eta))
    log_y = log(data.y[n])
    z = shape * (log_y - eta)
    hazard = exp(z)
    if upper == data.y[n]:
        return state.log_shape[0] + z - hazard - log_y
    if upper == np.inf:
        return -hazard
    more = log(-expm1(shape * (log_y - log(upper))))
    return log_event(shape * (log(upper) - eta) + more) - hazard


def log_event(x):
    """log(1 - exp(-exp(x))), of functions that have intervals: far below it is x, far above 0."""
    return log(-expm1(-exp(min(max(x, -FAR), FAR)))) + min(x + FAR, 0.0)


def log_normal_time(state, data, n):
    """Of z = (log y - eta) / sigma, and of the same of upper."""
    eta, upper, each = linear(state, data, n), data.upper[n], exp(-state.log_sigma[0])
    if data.y[n] == 0.0:
        return log_normal_cdf((log(upper) - eta) * each)
    log_y = log(data.y[n])
    z = (log_y - eta) * each
    if upper == data.y[n]:
        return -0.5 * z**2 - state.log_sigma[0] - log_y - HALF_LOG_2PI
    if upper == np.inf:
        return log_normal_cdf(-z)
    return log_between((log(upper) - eta) * each, z)


def draw_weibull(rng, state, data, n):
    return exp(linear(state, data, n) + log(rng.standard_exponential()) * exp(-state.log_shape[0]))


def draw_log_normal(rng, state, data, n):
    return exp(linear(state, data, n) + exp(state.log_sigma[0]) * rng.standard_normal())


def log_sigma(state):
    return state.log_sigma[0]


# -------------------------------------------------------------------------------------- models
@helpful
@by_parts
def weibull(
    x, y, event=None, upper=None, prior_sd=10.0, log_prior=None, start=None, weights=None
) -> Model:
    """Weibull regression of times: P(time > t) = exp(-(t / exp(x'beta))^shape), censored or not.

    Blocks: beta (d,): accelerated failure times, each coefficient stretches time by its
    exponential; log_shape, a priori Normal(0, 2^2).
    Predictions are of the times themselves. Derivatives have no bounds everywhere: see
    sm.models.glm.ordered_logistic.

    y: positive times.
    event: 1 where it happened at y; 0 where it had not until then (censored on the right).
    upper: instead of event, where it happened between y and upper: the same as y if it is known,
        np.inf if it had not until y; y is 0 if it was before upper.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> times, last = np.exp(x @ [1.0, 0.5]) * rng.weibull(2.0, 3_000), rng.uniform(1, 9, 3_000)
        >>> y, event = np.minimum(times, last), times <= last
        >>> fit = sm.laplace(sm.models.glm.weibull(x, y, event), progress=False)
        >>> fit.state["beta"].round(1), round(float(np.exp(fit.state["log_shape"])))
        (array([1. , 0.5]), 2)
    """
    data, rows = times_of(x, y, event, upper, weights, "weibull")
    extra = Extra("log_shape", 0.0, normal_number(log_shape))
    parts = weibull_time, draw_weibull
    return with_blocks(*parts, data, rows, [extra], log_prior, prior_sd, start)


@helpful
@by_parts
def log_normal(
    x, y, event=None, upper=None, prior_sd=10.0, log_prior=None, start=None, weights=None
) -> Model:
    """Log-normal regression of times: log time is Normal(x'beta, sigma^2), censored or not.

    Blocks: beta (d,), log_sigma, a priori Normal(0, 2^2). Of times in ranges that are narrow, and
    far from what is expected, intervals tell no bounds: then decisions by sm.Taylor are asymptotic.
    All else as of `weibull`.

    y, event, upper: as in sm.models.glm.weibull.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> times, last = np.exp(x @ [1.0, 0.5] + rng.standard_normal(3_000)), np.full(3_000, 5.0)
        >>> y, event = np.minimum(times, last), times <= last
        >>> fit = sm.laplace(sm.models.glm.log_normal(x, y, event), progress=False)
        >>> fit.state["beta"].round(1)
        array([1. , 0.5])
    """
    data, rows = times_of(x, y, event, upper, weights, "log_normal")
    spread = float(np.std(np.log(data["y"][:PIECE][data["y"][:PIECE] > 0.0]), dtype=float))
    extra = Extra(
        "log_sigma", float(np.log(spread)) if spread > 0.0 else 0.0, normal_number(log_sigma)
    )
    parts = log_normal_time, draw_log_normal
    return with_blocks(*parts, data, rows, [extra], log_prior, prior_sd, start)


for draw in (draw_weibull, draw_log_normal):
    draw.ends = "upper"  # type: ignore[attr-defined]  # sm.predict: where y is no whole observation


def times_of(x, y, event, upper, weights, family: str):
    """(data, rows): the ends of what is known of each time, checked."""
    if event is not None and upper is not None:
        raise ValueError(
            f"{family} was given event and upper: event=1 is upper=y, event=0 is upper=np.inf."
        )
    rows = rows_of(x, y, event=event, upper=upper, weights=weights)
    y, size = np.asarray(rows.y, dtype=float), len(rows.x)
    ends = y
    for name in ("event", "upper"):
        if rows.others[name] is not None:
            ends = np.asarray(as_array(rows.others[name], name), dtype=float)
            if ends.shape != (size,):
                raise ValueError(
                    f"{name} has shape {ends.shape}: give one value per row of x, ({size},)."
                )
    if event is not None:
        wrong = first_wrong(ends, zero_one)
        if wrong is not None:
            raise ValueError(
                f"event[{wrong[0]}] is {ends[wrong]:g}: give 1 (or True) where the event was seen "
                "at y, 0 where it had not happened until then."
            )
        ends = np.where(ends == 1.0, y, np.inf)
    early = np.flatnonzero(~(ends >= y))
    if early.size:
        n = early[0]
        raise ValueError(
            f"upper[{n}] is {ends[n]:g}, and y[{n}] is {y[n]:g}: upper is the same, or later."
        )
    restricted(y, lambda piece: piece >= 0.0, f"{family} needs positive times")
    empty = np.flatnonzero((y == 0.0) & ((ends == 0.0) | (ends == np.inf)))
    if empty.size:
        raise ValueError(
            f"y[{empty[0]}] is 0: {family} needs positive times; a row that is censored on the "
            "right at 0 says nothing, and can be dropped. What happened before a time t is y=0, "
            "upper=t."
        )
    if rows.design is not None:  # draws need neither
        for name in ("event", "upper"):
            rows.design.forget(name)
    return {"x": rows.x, "y": y, "upper": ends}, rows
