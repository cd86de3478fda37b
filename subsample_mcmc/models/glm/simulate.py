"""One datum drawn from each family, as sm.predict calls it: f(rng, state, data, n) -> float."""

from math import exp, floor, nan

from subsample_mcmc.models.glm.families import linear, linear_scale
from subsample_mcmc.models.glm.scores import score

MOST = 1e15  # a mean of counts: numbers beyond it have no whole steps of one


def gaussian(rng, state, data, n):
    return linear(state, data, n) + data.sigma * rng.standard_normal()


def gaussian_scale(rng, state, data, n):
    eta, log_sigma = linear_scale(state, data, n)
    return eta + exp(log_sigma) * rng.standard_normal()


def student_t(rng, state, data, n):
    return linear(state, data, n) + data.sigma * rng.standard_t(data.nu)


def student_t_scale(rng, state, data, n):
    eta, log_sigma = linear_scale(state, data, n)
    return eta + exp(log_sigma) * rng.standard_t(data.nu)


def logistic(rng, state, data, n):
    eta = linear(state, data, n)
    if eta != eta:
        return eta
    return 1.0 if rng.random() * (1.0 + exp(-abs(eta))) < (1.0 if eta > 0.0 else exp(eta)) else 0.0


def probit(rng, state, data, n):
    eta = linear(state, data, n)
    return eta if eta != eta else 1.0 if rng.standard_normal() < eta else 0.0


def cloglog(eta):
    """Is there an event until a time that is exponential."""

    def draw(rng, state, data, n):
        e = eta(state, data, n)
        return e if e != e else 1.0 if rng.standard_exponential() < exp(min(e, 700.0)) else 0.0

    return draw


def binomial(rng, state, data, n):
    eta, trials = linear(state, data, n), data.trials[n]
    if eta != eta or not trials >= 0.0 or trials != floor(trials):
        return nan  # which is told of, by datum
    small = exp(-abs(eta)) / (1.0 + exp(-abs(eta)))
    drawn = float(rng.binomial(int(trials), small))
    return trials - drawn if eta > 0.0 else drawn


def poisson(eta):
    """Of counts with these predictors."""

    def draw(rng, state, data, n):
        mean = exp(eta(state, data, n))
        return float(rng.poisson(mean)) if mean < MOST else nan  # which is told of, by datum

    return draw


def negative_binomial(eta):
    """Poisson counts whose mean has a Gamma factor of mean 1 and variance 1 / dispersion."""

    def draw(rng, state, data, n):
        mean = exp(eta(state, data, n)) / data.dispersion
        drawn = mean * rng.standard_gamma(data.dispersion)
        return float(rng.poisson(drawn)) if drawn < MOST else nan

    return draw


def softmax(rng, state, data, n):
    """The first class at which the probabilities add up to a uniform number."""
    classes = state.beta.shape[0]
    top = total = 0.0
    for k in range(classes):
        top = max(top, score(state, data, n, k))
    for k in range(-1, classes):
        total += exp((score(state, data, n, k) if k >= 0 else 0.0) - top)
    if total != total:
        return total
    left = rng.random() * total - exp(-top)
    k = 0
    while left >= 0.0 and k < classes:
        left -= exp(score(state, data, n, k) - top)
        k += 1
    return float(k)
