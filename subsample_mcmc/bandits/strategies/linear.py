"""LinGapE (Xu, Honda & Sugiyama 2018): arms whose means are linear in known features.

The leader i has the highest estimate x' theta; its rival j the largest possible lead,

    B = (x_j - x_i)' theta + |x_j - x_i|_{A^-1} C,
    C = R sqrt(2 log(K^2 / delta) + log det A - d log lambda) + sqrt(lambda) S,

A = lambda I + sum of x x' over pulls. The run stops at B <= epsilon; else the arm is pulled that
shrinks |x_i - x_j|_{A^-1} most ("greedy"), or that lags behind the shares of the design that is
best for this pair ("ratio": those of the sparsest way to write x_i - x_j, by a linear program).
With probability 1 - delta the arm it stops at is at most epsilon below the best (their Theorem 1).
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.gaussian import favourite
from subsample_mcmc.bandits.strategies.linear_arms import checked_features, sparsest
from subsample_mcmc.bandits.strategy import (
    HELP,
    OWN_RULE,
    Steps,
    begin,
    note,
    stop,
)
from subsample_mcmc.numerics.jit import FLAGS, jit

AFRESH = 1000  # updates after which the inverse is computed anew: rounding adds up
STEEP = 1e4  # an update that shrinks a length more leaves rounding: anew at once
CLOSE = 1e-6  # a squared distance that is less of its two lengths is not their difference
LINGAPE_RULES = {"greedy": 0, "ratio": 1}
ROOM = 2048  # pairs whose designs are kept


class LinearNumbers(NamedTuple):
    """level: 2 log(K^2 / delta), or without the union; bias: sqrt(lambda) S."""

    features: np.ndarray  # (K, d)
    level: float
    noise: float
    bias: float
    ridge: float
    epsilon: float
    rule: int
    growth: float


class LinearState(NamedTuple):
    """The estimate, what it knows of every arm, and designs of pairs."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    inverse: np.ndarray  # (d, d) A^-1
    estimates: np.ndarray  # (K,) x' theta
    offsets: np.ndarray  # (K,) what is known of each mean besides
    lengths: np.ndarray  # (K,) x' A^-1 x
    moved: np.ndarray  # (d,) A^-1 times a vector
    room: np.ndarray  # (d + 2, d)
    size: np.ndarray  # (3,) log det A - d log lambda, updates since `afresh`, sum of a block
    pairs: np.ndarray  # (K, K) where the design of a pair is; -1: not known
    designs: np.ndarray  # (., K) shares


@jit(inner=True, flags=FLAGS)
def product(row, other):
    total = 0.0
    for j in range(np.uint64(len(row))):
        total += row[j] * other[j]
    return total


@jit(inner=True)
def times_inverse(inverse, row, out):
    """out = inverse row."""
    for i in range(len(out)):
        out[i] = product(inverse[i], row)


@jit(inner=True)
def invert(matrix, inverse):
    """The inverse of a positive definite matrix, in place; returns its log determinant."""
    d, total = len(matrix), 0.0
    for i in range(d):
        for j in range(d):
            inverse[i, j] = 1.0 if i == j else 0.0
    for i in range(d):  # Gauss-Jordan; pivots of such a matrix are positive
        pivot = matrix[i, i]
        total += log(pivot)
        for j in range(d):
            matrix[i, j] /= pivot
            inverse[i, j] /= pivot
        for k in range(d):
            if k != i:
                times = matrix[k, i]
                for j in range(d):
                    matrix[k, j] -= times * matrix[i, j]
                    inverse[k, j] -= times * inverse[i, j]
    return total


@jit(inner=True)
def afresh(params, state):
    """Inverse, estimates and lengths from the pulls and means themselves."""
    features, d = params.features, len(state.inverse)
    matrix, target, theta = state.room[:d], state.room[d], state.room[d + 1]
    for i in range(d):
        target[i] = 0.0
        for j in range(d):
            matrix[i, j] = params.ridge if i == j else 0.0
    for arm in range(len(features)):
        pulls = state.pulls[arm]
        for i in range(d):
            target[i] += pulls * state.means[arm] * features[arm, i]
            for j in range(d):
                matrix[i, j] += pulls * features[arm, i] * features[arm, j]
    state.size[0] = invert(matrix, state.inverse) - d * log(params.ridge)
    state.size[1] = 0.0
    times_inverse(state.inverse, target, theta)
    for arm in range(len(features)):
        state.estimates[arm] = product(features[arm], theta)
        times_inverse(state.inverse, features[arm], state.moved)
        state.lengths[arm] = product(features[arm], state.moved)


@jit(inner=True)
def update(params, state, arm, count, mean):
    """`count` pulls of an arm whose mean is this: a rank-one change of A."""
    features, moved, d = params.features, state.moved, len(state.inverse)
    times_inverse(state.inverse, features[arm], moved)
    grow = 1.0 + count * state.lengths[arm]
    gain = count * (mean - state.estimates[arm]) / grow
    for k in range(len(features)):
        shared = product(features[k], moved)
        state.estimates[k] += gain * shared
        state.lengths[k] -= count * shared * shared / grow
    for i in range(d):
        for j in range(d):
            state.inverse[i, j] -= count * moved[i] * moved[j] / grow
    state.size[0] += log(grow)
    state.size[1] += 1.0 if grow < STEEP else AFRESH


@jit(inner=True)
def distance(params, state, arm, leader, moved):
    """|x - x_leader|_{A^-1}, where moved = A^-1 x_leader."""
    features, inverse, d = params.features, state.inverse, len(state.inverse)
    both = state.lengths[arm] + state.lengths[leader]
    square = both - 2.0 * product(features[arm], moved)
    if square < CLOSE * both:  # of nearly equal arms most digits are gone
        square = 0.0
        for i in range(d):
            row = 0.0
            for j in range(d):
                row += inverse[i, j] * (features[arm, j] - features[leader, j])
            square += row * (features[arm, i] - features[leader, i])
    return sqrt(max(square, 0.0))


@jit(inner=True)
def greedy(params, state, leader, rival):
    """The arm whose pull shrinks |x_i - x_j|_{A^-1} most (Sherman & Morrison).

    Arms that an offset of -inf excludes are not pulled.
    """
    features, d = params.features, len(state.inverse)
    moved = state.moved
    for i in range(d):
        moved[i] = 0.0
        for j in range(d):
            moved[i] += state.inverse[i, j] * (features[leader, j] - features[rival, j])
    best, most = leader, -np.inf
    for k in range(len(features)):
        shared = product(features[k], moved)
        found = shared * shared / (1.0 + state.lengths[k])
        if found > most and state.offsets[k] > -np.inf:
            best, most = k, found
    return best


@jit(inner=True)
def linear_ask(params, state, rng):
    now, features = state.now[0], params.features
    arms, moved, leader = len(features), state.moved, 0
    if state.size[1] >= AFRESH:
        afresh(params, state)
    for k in range(arms):
        if state.estimates[k] + state.offsets[k] > state.estimates[leader] + state.offsets[leader]:
            leader = k
    wide = params.noise * sqrt(params.level + state.size[0]) + params.bias
    times_inverse(state.inverse, features[leader], moved)
    rival, lead = -1, -np.inf
    for k in range(arms):
        if k != leader and state.offsets[k] > -np.inf:
            found = state.estimates[k] - state.estimates[leader]
            found += wide * distance(params, state, k, leader, moved)
            found += state.offsets[k] - state.offsets[leader]
            if found > lead:
                rival, lead = k, found
    if lead <= params.epsilon:
        return stop(state, OWN_RULE)
    now.first, now.second = leader, rival
    if params.rule == 0:
        arm = greedy(params, state, leader, rival)
    else:
        at = state.pairs[leader, rival]
        if at < 0:
            return HELP
        arm, least = -1, np.inf
        for k in range(arms):
            if state.designs[at, k] > 0.0 and state.pulls[k] / state.designs[at, k] < least:
                arm, least = k, state.pulls[k] / state.designs[at, k]
    now.count = max(1, np.int64(params.growth * state.pulls[arm]))
    return arm


@jit(inner=True)
def linear_tell(params, state, arm, reward):
    now = state.now[0]
    note(state, arm, reward)
    state.size[2] += reward
    now.cursor += 1
    if now.count == 0:
        update(params, state, arm, now.cursor, state.size[2] / now.cursor)
        state.size[2], now.cursor = 0.0, 0


@jit(inner=True)
def linear_answer(params, state):
    """The highest estimate; of equal ones that of the arm pulled most."""
    return favourite(state.estimates, state.pulls)


@jit(inner=True)
def mark_rivals(params, state, out):
    """Which arms the bound has not ruled out (out: 1 or 0); how many, the leader among them."""
    features, moved, leader, count = params.features, state.moved, 0, 0
    for k in range(len(features)):
        if state.estimates[k] + state.offsets[k] > state.estimates[leader] + state.offsets[leader]:
            leader = k
    wide = params.noise * sqrt(params.level + state.size[0]) + params.bias
    times_inverse(state.inverse, features[leader], moved)
    for k in range(len(features)):
        lead = state.estimates[k] - state.estimates[leader]
        lead += wide * distance(params, state, k, leader, moved)
        lead += state.offsets[k] - state.offsets[leader]
        out[k] = 1 if k == leader or lead > params.epsilon else 0
        count += out[k]
    return count


LINEAR = Steps(linear_ask, linear_tell, linear_answer)


def linear_numbers(spec, arms: int) -> LinearNumbers:
    """Numbers of an sm.LinGapE."""
    features = np.ascontiguousarray(checked_features(spec.features, arms))
    level = 2.0 * log((arms * arms if spec.union else 1.0) / spec.delta)
    return LinearNumbers(
        features, level, spec.noise, sqrt(spec.ridge) * spec.norm, spec.ridge, spec.epsilon,
        LINGAPE_RULES[spec.rule], spec.growth,
    )  # fmt: skip


def linear_state(params: LinearNumbers) -> LinearState:
    """Nothing pulled."""
    arms, d = params.features.shape
    pairs = arms if params.rule else 1
    return LinearState(
        *begin(arms), np.eye(d) / params.ridge, np.zeros(arms), np.zeros(arms),
        (params.features**2).sum(axis=1) / params.ridge, np.zeros(d), np.zeros((d + 2, d)),
        np.zeros(3), np.full((pairs, pairs), -1),
        np.zeros((min(arms * (arms - 1) // 2, ROOM) if params.rule else 0, arms)),
    )  # fmt: skip


def add_design(params: LinearNumbers, state: LinearState) -> None:
    """The design of the pair that `ask` wants; of the oldest pair there is room for, if need be."""
    now, features, pairs = state.now[0], params.features, state.pairs
    at = int(now.goal) % len(state.designs)
    pairs[pairs == at] = -1
    state.designs[at] = sparsest(features, features[now.first] - features[now.second])
    pairs[now.first, now.second] = pairs[now.second, now.first] = at
    now.goal += 1
