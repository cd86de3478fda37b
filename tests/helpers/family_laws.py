"""The families of sm.models.glm that have blocks beside beta, and their laws by scipy."""

from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

import subsample_mcmc as sm

glm = sm.models.glm
BETA = np.array([0.4, -0.6, 0.3])
CUTS = np.array([-1.1, 0.3, 1.6])


class Family(NamedTuple):
    """How data are made and a model of them, and one datum's law: log_law(y, eta, state, data)."""

    make: Any  # (x, y, more) -> model
    draw: Any  # (eta, rng) -> y, a dict of more
    log_law: Any  # (y, eta, state, more) -> log densities of all data
    below: Any  # (value, eta, state) -> P(y <= value), of data that are known exactly
    blocks: dict  # true values
    intercept: bool = True


def levels_between(cdf, sf):
    """Log probabilities of levels, on the side where they are small."""

    def law(y, eta, state, more):
        cuts = np.concatenate([[-np.inf], state["cutpoints"], [np.inf]])
        k = np.asarray(y, dtype=int)
        upper, lower = cuts[k + 1] - eta, cuts[k] - eta
        flipped = lower > 0.0
        with np.errstate(all="ignore"):
            return np.log(np.where(flipped, sf(lower) - sf(upper), cdf(upper) - cdf(lower)))

    return law


def known_between(law, y, more):
    """log(f) where known, log S where beyond, log(S - S) where between."""
    upper = more.get("upper", y)
    if "event" in more:
        upper = np.where(more["event"], y, np.inf)
    with np.errstate(all="ignore"):
        return np.where(
            upper == y, law.logpdf(y),
            np.where(upper == np.inf, law.logsf(y), np.log(law.sf(y) - law.sf(upper))),
        )  # fmt: skip


def weibull(eta, state):
    return stats.weibull_min(np.exp(state["log_shape"]), scale=np.exp(eta))


def log_normal(eta, state):
    return stats.lognorm(np.exp(state["log_sigma"]), scale=np.exp(eta))


def gamma(eta, state):
    shape = np.exp(state["log_shape"])
    return stats.gamma(shape, scale=np.exp(eta) / shape)


def beta(eta, state):
    precision = np.exp(state["log_precision"])
    return stats.beta(precision * special.expit(eta), precision * special.expit(-eta))


def counts(eta, state):
    if "log_dispersion" not in state:
        return stats.poisson(np.exp(eta))
    r = np.exp(state["log_dispersion"])
    return stats.nbinom(r, r / (r + np.exp(eta)))


def inflated(y, eta, state, more):
    zeros, law = state["logit_zeros"], counts(eta, state)
    of_law = special.log_expit(-zeros) + law.logpmf(y)
    return np.where(y == 0, np.logaddexp(special.log_expit(zeros), of_law), of_law)


def inflated_below(value, eta, state):
    share = special.expit(state["logit_zeros"])
    return share + (1.0 - share) * counts(eta, state).cdf(value)


def hurdle(y, eta, state, more):
    zeros, law = state["logit_zeros"], counts(eta, state)
    above = special.log_expit(-zeros) + law.logpmf(y) - np.log(-np.expm1(law.logpmf(0)))
    return np.where(y == 0, special.log_expit(zeros), above)


def hurdle_below(value, eta, state):
    share, law = special.expit(state["logit_zeros"]), counts(eta, state)
    return share + (1.0 - share) * (law.cdf(value) - law.pmf(0)) / (1.0 - law.pmf(0))


def censored(times, rng):
    """Half are looked at once in a while only; all others until some time that is their own."""
    low, last = 2.0 ** np.floor(np.log2(times)), rng.exponential(4.0, len(times))
    looked, first = rng.random(len(times)) < 0.5, times < 0.5
    y = np.where(looked, np.where(first, 0.0, low), np.minimum(times, last))
    seen = np.where(first, 0.5, 2.0 * low)
    return y, {"upper": np.where(looked, seen, np.where(times <= last, times, np.inf))}


def draw_poisson(eta, rng):
    return rng.poisson(np.exp(eta))


def draw_dispersed(eta, rng):
    return rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, len(eta)))


def with_zeros(law, share, hurdle=False):
    """Numbers of a law, none of them 0 behind a hurdle; and that share of zeros."""

    def draw(eta, rng):
        y = law(eta, rng)
        while hurdle and (y == 0).any():
            y = np.where(y == 0, law(eta, rng), y)
        return np.where(rng.random(len(eta)) < share, 0, y), {}

    return draw


def draw_beta(eta, rng):
    mean = special.expit(eta)
    return np.clip(rng.beta(12.0 * mean, 12.0 * (1.0 - mean)), 1e-12, 1.0 - 1e-12), {}


EXPONENTIAL_SHAPE = {"log_shape": np.log(1.6)}
FAMILIES = {
    "ordered_logistic": Family(
        lambda x, y, more: glm.ordered_logistic(x, y),
        lambda eta, rng: (np.digitize(eta + rng.logistic(size=len(eta)), CUTS), {}),
        levels_between(special.expit, lambda z: special.expit(-z)),
        lambda v, eta, state: special.expit(state["cutpoints"][int(v)] - eta),
        {"cutpoints": CUTS}, False,
    ),
    "ordered_probit": Family(
        lambda x, y, more: glm.ordered_probit(x, y),
        lambda eta, rng: (np.digitize(eta + rng.standard_normal(len(eta)), CUTS), {}),
        levels_between(stats.norm.cdf, stats.norm.sf),
        lambda v, eta, state: stats.norm.cdf(state["cutpoints"][int(v)] - eta),
        {"cutpoints": CUTS}, False,
    ),
    "gamma_regression": Family(
        lambda x, y, more: glm.gamma_regression(x, y),
        lambda eta, rng: (np.exp(eta) * rng.gamma(1.6, 1.0 / 1.6, len(eta)), {}),
        lambda y, eta, state, more: gamma(eta, state).logpdf(y),
        lambda v, eta, state: gamma(eta, state).cdf(v), EXPONENTIAL_SHAPE,
    ),
    "beta_regression": Family(
        lambda x, y, more: glm.beta_regression(x, y), draw_beta,
        lambda y, eta, state, more: beta(eta, state).logpdf(y),
        lambda v, eta, state: beta(eta, state).cdf(v), {"log_precision": np.log(12.0)},
    ),
    "weibull": Family(
        lambda x, y, more: glm.weibull(x, y, **more),
        lambda eta, rng: censored(np.exp(eta) * rng.weibull(1.6, len(eta)), rng),
        lambda y, eta, state, more: known_between(weibull(eta, state), y, more),
        lambda v, eta, state: weibull(eta, state).cdf(v), EXPONENTIAL_SHAPE,
    ),
    "log_normal": Family(
        lambda x, y, more: glm.log_normal(x, y, **more),
        lambda eta, rng: censored(np.exp(eta + 0.7 * rng.standard_normal(len(eta))), rng),
        lambda y, eta, state, more: known_between(log_normal(eta, state), y, more),
        lambda v, eta, state: log_normal(eta, state).cdf(v), {"log_sigma": np.log(0.7)},
    ),
    "zero_inflated_poisson": Family(
        lambda x, y, more: glm.zero_inflated_poisson(x, y), with_zeros(draw_poisson, 0.3),
        inflated, inflated_below, {"logit_zeros": special.logit(0.3)},
    ),
    "negative_binomial": Family(
        lambda x, y, more: glm.negative_binomial(x, y), with_zeros(draw_dispersed, 0.0),
        lambda y, eta, state, more: counts(eta, state).logpmf(y),
        lambda v, eta, state: counts(eta, state).cdf(v), {"log_dispersion": np.log(2.0)},
    ),
    "zero_inflated_negative_binomial": Family(
        lambda x, y, more: glm.zero_inflated_negative_binomial(x, y),
        with_zeros(draw_dispersed, 0.3), inflated, inflated_below,
        {"log_dispersion": np.log(2.0), "logit_zeros": special.logit(0.3)},
    ),
    "hurdle_poisson": Family(
        lambda x, y, more: glm.hurdle_poisson(x, y), with_zeros(draw_poisson, 0.3, True), hurdle,
        hurdle_below, {"logit_zeros": special.logit(0.3)},
    ),
    "hurdle_negative_binomial": Family(
        lambda x, y, more: glm.hurdle_negative_binomial(x, y),
        with_zeros(draw_dispersed, 0.3, True), hurdle, hurdle_below,
        {"log_dispersion": np.log(2.0), "logit_zeros": special.logit(0.3)},
    ),
}  # fmt: skip


def made(name: str, size: int, seed: int = 0):
    """(model, x, y, more) of data that the family makes at its true values."""
    family, rng = FAMILIES[name], np.random.default_rng(seed)
    x = rng.standard_normal((size, 3))
    if family.intercept:
        x[:, 0] = 1.0
    y, more = family.draw(x @ BETA, rng)
    return family.make(x, y, more), x, y, more
