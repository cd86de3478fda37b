"""Lengths x' A^-1 x' of directions between arms, by the pulls of a phase: for XY-allocation."""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.linear import invert, product, times_inverse
from subsample_mcmc.numerics.jit import jit


class DesignNumbers(NamedTuple):
    """gaps: of each arm to the best, known to the oracle."""

    features: np.ndarray
    width: float
    level: float  # log(6 / pi^2 K / delta), of K or K^2 directions
    allocation: int
    best: int
    gaps: np.ndarray
    shares: np.ndarray  # of the oracle


class DesignState(NamedTuple):
    """Statistics of this phase, lengths x' A^-1 x', arms that are possible (1 or 0)."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    counts: np.ndarray
    centres: np.ndarray
    gram: np.ndarray  # (K, K)
    estimates: np.ndarray
    possible: np.ndarray
    room: np.ndarray  # (2 d + 2, d)
    levels: np.ndarray  # (worst length of the phase before per pull, of this one)


@jit(inner=True)
def afresh(params, state):
    """Lengths and estimates from the pulls of this phase."""
    features, arms = params.features, len(params.features)
    d = features.shape[1]
    matrix, inverse = state.room[:d], state.room[d : 2 * d]
    target, moved = state.room[2 * d], state.room[2 * d + 1]
    for i in range(d):
        target[i] = 0.0
        for j in range(d):
            matrix[i, j] = 0.0
    for arm in range(arms):
        for i in range(d):
            target[i] += state.counts[arm] * state.centres[arm] * features[arm, i]
            for j in range(d):
                matrix[i, j] += state.counts[arm] * features[arm, i] * features[arm, j]
    invert(matrix, inverse)
    for arm in range(arms):
        times_inverse(inverse, features[arm], moved)
        state.estimates[arm] = product(target, moved)
        for k in range(arms):
            state.gram[arm, k] = product(features[k], moved)


@jit(inner=True)
def apart(gram, i, j):
    """|x_i - x_j|^2_{A^-1}."""
    return gram[i, i] + gram[j, j] - 2.0 * gram[i, j]


@jit(inner=True)
def worst(params, state, arm):
    """The largest length of a direction after one more pull of an arm; arm < 0: as it is."""
    gram, found = state.gram, 0.0
    grow = 1.0 + gram[arm, arm] if arm >= 0 else 1.0
    for i in range(len(gram)):
        if state.possible[i]:
            for j in range(i):
                if state.possible[j]:
                    length = apart(gram, i, j)
                    if arm >= 0:
                        shared = gram[i, arm] - gram[j, arm]
                        length -= shared * shared / grow
                    found = max(found, length)
    return found
