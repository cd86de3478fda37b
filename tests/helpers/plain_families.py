"""The families of sm.models.glm as plain functions, as users write them."""

import math

import numpy as np

import subsample_mcmc as sm

SIZE = 600


def linear(state, data, n):
    total = 0.0
    for j in range(len(state.beta)):
        total += data.x[n, j] * state.beta[j]
    return total


def gaussian(state, data, n):
    return -0.5 * ((data.y[n] - linear(state, data, n)) / data.sigma) ** 2


def student_t(state, data, n):
    z = (data.y[n] - linear(state, data, n)) / data.sigma
    return -0.5 * (data.nu + 1.0) * math.log1p(z * z / data.nu)


def student_t_scale(state, data, n):
    z = (data.y[n] - linear(state, data, n)) / sm.exp(state.log_sigma[0])
    return -state.log_sigma[0] - 0.5 * (data.nu + 1.0) * sm.log(1.0 + z**2 / data.nu)


def gaussian_scale(state, data, n):
    z = (data.y[n] - np.dot(data.x[n], state.beta)) / sm.exp(state.log_sigma[0])
    return -0.5 * z * z - state.log_sigma[0]


def logistic(state, data, n):
    e = data.x[n] @ state.beta
    return sm.log_sigmoid(e) if data.y[n] == 1 else sm.log_sigmoid(-e)


def logistic_by_hand(state, data, n):
    e = linear(state, data, n)
    return data.y[n] * e - max(e, 0.0) - sm.log1p(sm.exp(-abs(e)))


def poisson(state, data, n):
    e = linear(state, data, n)
    return data.y[n] * e - sm.exp(e)


def negative_binomial(state, data, n):
    mean, r = sm.exp(linear(state, data, n)), data.dispersion
    return data.y[n] * sm.log(mean / (mean + r)) - r * sm.log(mean + r)


def softmax(state, data, n):
    total, own = 0.0, 0.0
    for k in range(state.beta.shape[0]):
        score = 0.0
        for j in range(state.beta.shape[1]):
            score += data.x[n, j] * state.beta[k, j]
        total = sm.logsumexp(total, score)
        if data.y[n] == k + 1:
            own += score
    return own - total


def made(family, rng):
    """A ready model of a family, and its likelihood written as a plain function."""
    x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, 3))])
    e = x @ [0.3, -0.5, 0.8, 0.2]
    real, counts = e + rng.standard_t(4, SIZE), rng.poisson(np.exp(e))
    coin = (rng.random(SIZE) < 1.0 / (1.0 + np.exp(-e))).astype(int)
    glm = sm.models.glm
    return {
        "gaussian": lambda: (glm.gaussian(x, real, sigma=1.3), gaussian),
        "gaussian scale": lambda: (glm.gaussian(x, real, sigma=None), gaussian_scale),
        "student t": lambda: (glm.student_t(x, real, sigma=1.3), student_t),
        "student t scale": lambda: (glm.student_t(x, real, sigma=None), student_t_scale),
        "logistic": lambda: (glm.logistic(x, coin), logistic),
        "logistic by hand": lambda: (glm.logistic(x, coin), logistic_by_hand),
        "poisson": lambda: (glm.poisson(x, counts), poisson),
        "negative binomial": lambda: (glm.negative_binomial(x, counts, 3.0), negative_binomial),
        "softmax": lambda: (glm.softmax(x[:, :2], np.arange(SIZE) % 3), softmax),
    }[family]()


FAMILIES = (
    "gaussian", "gaussian scale", "student t", "student t scale", "logistic", "logistic by hand",
    "poisson", "negative binomial", "softmax",
)  # fmt: skip
