"""Tiny models with posteriors that can be enumerated or written down, and how to run them.

Few functions serve many models, because a chain takes seconds to compile: what differs between
tests travels in data and state.
"""

from math import cos, log, pi, sqrt

import numpy as np
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Program, Walker
from tests.helpers.laws import log_posterior, normalised, transitions


def walker(model, kernel, seed=1, audit=0.0) -> Walker:
    """One chain, compiled."""
    program = Program(model, kernel)
    program.compile()
    return Walker(program, np.random.SeedSequence(seed), audit)


def tally(one: Walker, words, label) -> dict:
    """Sums over draws of a kernel's counts."""
    stats_of = one.program.layout.stats(words)[label]
    return {name: values.sum() for name, values in stats_of.items()}


# ------------------------------------------------- x, z[0], z[1]: all interactions, in a table
def table_likelihood(state, data, n):
    if data.index[n] != n:  # whoever gets another n than the datum's own is stopped
        return np.nan
    return data.table[n, state.x[0], state.z[0], state.z[1]]


def table_prior(state):
    return 0.4 * state.x[0] - 0.3 * state.x[0] * state.z[1] + 0.2 * state.z[0]


def table_site_prior(state, data, site, arm):
    """The part of table_prior that a site of z has to do with, given the rest."""
    return 0.2 * arm if site == 0 else -0.3 * state.x[0] * arm


@sm.kernel(writes=("x", "z", "clock"))
def reset(rng, state, data):
    """Put the chain into the next of all states; the clock says which."""
    now = (state.clock[0] + 1) % (data.first * data.second * data.second)
    state.clock[0] = now
    state.x[0] = now // (data.second * data.second)
    state.z[0] = now // data.second % data.second
    state.z[1] = now % data.second


@sm.kernel(writes="clock")
def idle(rng, state, data):
    """For chains that are not reset."""


def table_model(table, touches=None, index=None) -> sm.Model:
    """A model of x and z with the reward table[n, x, z0, z1]."""
    size, first, second, _ = table.shape
    index = np.arange(size) if index is None else index
    data = {"table": table, "index": index, "first": first, "second": second}
    return sm.Model(
        table_likelihood, data, {"x": 0, "z": [0, 0], "clock": 0}, table_prior,
        support={"x": first, "z": second, "clock": first * second * second},
        touches=touches and {"z": touches}, missing="infinite",  # -inf rules a state out
    )  # fmt: skip


def random_table(rng, size, first=4, second=3, scale=0.5):
    """Rewards that add up to a posterior with every state in reach."""
    return scale / sqrt(size) * rng.standard_normal((size, first, second, second))


def smooth_table(rng, size, first=4, second=2, scale=0.5):
    """Rewards in an interval of width 2 / size, of which races can be sure early."""
    table = rng.uniform(-1.0, 1.0, (size, first, second, second)) / size
    table -= table.mean(axis=0)
    return table + scale / size * rng.standard_normal((first, second, second))


def touching_table(rng, size, first=4, second=3, scale=0.5):
    """Rewards of which z[0] touches n = 0, 2 mod 3 and z[1] touches n = 1, 2; and the CSR table."""
    table = random_table(rng, size, first, second, scale)
    n = np.arange(size)
    table[n % 3 == 0] = table[n % 3 == 0][:, :, :, :1]
    table[n % 3 == 1] = table[n % 3 == 1][:, :, :1, :]
    touched = [np.flatnonzero(n % 3 != 1), np.flatnonzero(n % 3 != 0)]
    indptr = np.cumsum([0, *(len(t) for t in touched)])
    return table, (indptr, np.concatenate(touched))


def steps_table(rng, size, first=4, second=3):
    """Rewards for which the values a and a + 1 of x differ in datum a alone."""
    before, after = 0.5 * rng.standard_normal((2, size, 1, second, second))
    return np.where(
        np.arange(size)[:, None, None, None] < np.arange(first)[:, None, None], before, after
    )


def enumerated(model):
    """(states, log posterior) of x and z."""
    return log_posterior(model, ("x", "z"))


def code_of(ints, second):
    """The number of the state of each draw."""
    return (ints[:, 0] * second + ints[:, 1]) * second + ints[:, 2]


def matrix_counts(model, kernel, each, seed=1, label=None):
    """Counts of single steps of a kernel from every state, `each` times; and its tally."""
    one = walker(model, reset >> kernel, seed)
    second = model.variables["z"].support
    states = model.variables["clock"].support
    counts, told = np.zeros((states, states), dtype=np.int64), {}
    chunk = max(10_000 // states, 1)
    for first in range(0, each, chunk):
        made = one.advance(states * min(chunk, each - first))
        assert one.error is None, one.error
        counts += transitions(made.ints[:, 3], code_of(made.ints, second), states)
        for name, value in tally(one, made.words, label).items() if label else ():
            told[name] = told.get(name, 0) + value
    return counts, told


# --------------------------------- theta and z with data drawn anew: kernels must keep the law
NORMAL, EXPONENTIAL, BERNOULLI, CATEGORICAL, NO_JACOBIAN = range(5)
SHARE = (1.0, 0.5)  # of theta[0] and theta[1] in the normal mean


def law_likelihood(state, data, n):
    if data.index[n] != n:
        return np.nan
    kind, theta, y = state.kind[0], state.theta, state.y[n]
    if kind == NORMAL:
        r = y - theta[0] - 0.5 * theta[1] - state.z[0]
        return -0.5 * r * r
    if kind == BERNOULLI:
        return sm.log(theta[0]) if y > 0.5 else sm.log(1.0 - theta[0])
    if kind == CATEGORICAL:
        return sm.log(theta[int(y)])
    return sm.log(theta[0]) - theta[0] * y


def law_prior(state):
    theta = state.theta
    if state.kind[0] == NORMAL:
        return -0.5 * (theta[0] * theta[0] + theta[1] * theta[1])
    if state.kind[0] == EXPONENTIAL:
        return -theta[0]
    if state.kind[0] == NO_JACOBIAN:  # what a kernel in log coordinates without it would do
        return -theta[0] - log(theta[0])
    return 0.0


@sm.kernel(writes=("theta", "z", "y", "kind"))
def fresh(rng, state, data):
    """Draw theta and z from the prior, and the data given them: one replication."""
    kind, theta, y = state.kind[0], state.theta, state.y
    state.z[0] = 0
    if kind == NORMAL:
        state.z[0] = int(3.0 * rng.random())
        for j in range(2):
            theta[j] = sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())
    elif kind == BERNOULLI:
        theta[0] = data.low + (data.high - data.low) * rng.random()
    else:
        total = 0.0
        for j in range(len(theta)):
            theta[j] = -log(1.0 - rng.random())
            total += theta[j]
        for j in range(len(theta)):
            theta[j] /= total if kind == CATEGORICAL else 1.0
    for n in range(len(y)):
        u = 1.0 - rng.random()
        if kind == NORMAL:
            noise = sqrt(-2.0 * log(u)) * cos(2.0 * pi * rng.random())
            y[n] = theta[0] + 0.5 * theta[1] + state.z[0] + noise
        elif kind == BERNOULLI:
            y[n] = 1.0 if u <= theta[0] else 0.0
        elif kind == CATEGORICAL:
            y[n] = 0.0 if u <= theta[0] else (1.0 if u <= theta[0] + theta[1] else 2.0)
        else:
            y[n] = -log(u) / theta[0]


@sm.kernel(writes=("z", "y", "kind"))
def still(rng, state, data):
    """For chains whose data are not drawn anew."""


@sm.kernel(writes="theta")
def conjugate(rng, state, data):
    """An exact draw of theta given z and the data, for the normal kind."""
    theta, size = state.theta, len(state.y)
    total = 0.0
    for n in range(size):
        total += state.y[n] - state.z[0]
    for j in range(2):  # one coordinate given the other, in turn
        share, other = (1.0, 0.5 * theta[1]) if j == 0 else (0.5, theta[0])
        variance = 1.0 / (1.0 + size * share * share)
        noise = sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())
        theta[j] = variance * share * (total - size * other) + sqrt(variance) * noise


STARTS = {
    NORMAL: [0.3, -0.2],
    EXPONENTIAL: 0.7,
    NO_JACOBIAN: 0.7,
    BERNOULLI: 0.4,
    CATEGORICAL: [0.2, 0.3, 0.5],
}


def law_model(kind, constraint=None, size=6, low=0.0, high=1.0) -> sm.Model:
    """theta of one kind, with data among the state."""
    start = np.atleast_1d(STARTS[kind])
    state = {"theta": start, "z": 0, "y": np.ones(size), "kind": kind}
    data = {"index": np.arange(size), "low": low, "high": high}
    return sm.Model(
        law_likelihood, data, state, law_prior, support={"z": 3, "kind": 5},
        constraints=constraint and {"theta": constraint},
    )  # fmt: skip


def ranks(model, draws, rng, moves_z=False) -> dict:
    """Where each draw of theta (and z) lies in its posterior given the data: uniform if right."""
    theta, y, z, kind = draws["theta"], draws["y"], draws["z"], int(draws["kind"][0])
    size = y.shape[1]
    if kind == CATEGORICAL:
        seen = np.stack([(y == j).sum(axis=1) for j in range(3)], axis=1)
        return {
            f"theta[{j}]": stats.beta.cdf(theta[:, j], 1 + seen[:, j], 2 + size - seen[:, j])
            for j in range(3)
        }
    if kind == BERNOULLI:
        law = stats.beta(1 + y.sum(axis=1), 1 + size - y.sum(axis=1))
        least, most = law.cdf(model.data.low), law.cdf(model.data.high)
        return {"theta": (law.cdf(theta[:, 0]) - least) / (most - least)}
    if kind != NORMAL:
        return {"theta": stats.gamma.cdf(theta[:, 0], 1 + size, scale=1 / (1 + y.sum(axis=1)))}
    share, spread = np.array(SHARE), 1.0 + size * 1.25
    rest = y[:, None, :] - np.arange(3)[:, None]  # (draws, values of z, data)
    total = rest.sum(axis=2)
    weight = -0.5 * ((rest**2).sum(axis=2) - 1.25 * total**2 / spread)
    p = np.exp(weight - weight.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    found = {}
    if moves_z:
        at = np.arange(len(z))
        below = np.cumsum(p, axis=1)[at, z] - p[at, z]
        found["z"] = below + rng.random(len(z)) * p[at, z]
    else:
        p = (np.arange(3) == z[:, None]).astype(float)
    for j in range(2):
        mean = share[j] * total / spread
        deviation = sqrt(1.0 - size * share[j] ** 2 / spread)
        found[f"theta[{j}]"] = (p * stats.norm.cdf((theta[:, j, None] - mean) / deviation)).sum(1)
    return found


def replicated(model, kernel, count, rng, times=8, seed=1, moves_z=False):
    """Ranks after some steps of a kernel on fresh data, and its walker and words."""
    one = walker(model, fresh >> sm.repeat(kernel, times), seed)
    made = one.advance(count)
    assert one.error is None, one.error
    draws = one.program.layout.draws(made.ints, made.floats)
    return ranks(model, draws, rng, moves_z), one, made


def posterior(model):
    """Probabilities of the states of x and z."""
    return normalised(enumerated(model)[1])


def densities(model, point):
    """(log likelihood of every row, log prior) at a point, of the functions uncompiled."""
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, point)
    state = model.state(ints, floats)
    with np.errstate(all="ignore"):
        made = model.extra(state)
        rows = [model.log_likelihood(state, model.data, n, *made) for n in range(model.size)]
        return np.array(rows, dtype=float), model.log_prior(state)
