"""Labels, each of a datum of its own, whose probabilities given all else are known."""

import math

import numpy as np

import subsample_mcmc as sm

COUNT = 30


def of_label(state, data, n):
    z = data.y[n] - state.mu[0] * state.k[n]
    return -0.5 * z * z


def of_k(state, data, site, arm):
    p = 0.1 + 0.8 * site / COUNT
    return math.log(p) if arm == 1 else math.log(1.0 - p)


def labels(**more):
    given = {"log_prior": lambda state: -0.5 * (state.mu[0] - 1.0) ** 2} | more
    y = np.random.default_rng(4).standard_normal(COUNT) + np.repeat([0.0, 2.0], COUNT // 2)
    return sm.Model(
        of_label, {"y": y}, {"k": np.zeros(COUNT, int), "mu": 1.0}, support={"k": 2},
        touches={"k": (np.arange(COUNT + 1), np.arange(COUNT))}, **given,
    )  # fmt: skip


def whole_prior(state):
    total = -0.5 * (state.mu[0] - 1.0) ** 2
    for i in range(COUNT):
        p = 0.1 + 0.8 * i / COUNT
        total += math.log(p) if state.k[i] == 1 else math.log(1.0 - p)
    return total
