"""A small normal hierarchy whose conditional laws are known, and whether a chain has them."""

import math

import arviz as az
import numpy as np
from scipy import stats

import subsample_mcmc as sm

SIZES = (0, 1, 2, 5, 10, 30, 80)  # data of each group
SIGMA = 1.5


def log_likelihood(state, data, n):
    z = (data.y[n] - state.a[data.group[n]]) / SIGMA
    return -0.5 * z * z


def log_prior(state):
    return -0.5 * state.mu[0] ** 2 - state.tau[0]  # N(0, 1), and exponential


def of_site(state, site):
    z = (state.a[site] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - math.log(state.tau[0])


def data_of(sizes=SIZES):
    rng = np.random.default_rng(3)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    a = 0.5 + 0.8 * rng.standard_normal(len(sizes))
    return {"y": a[group] + SIGMA * rng.standard_normal(len(group)), "group": group}


def model_of(sizes=SIZES, touches="group", **more):
    given = {
        "log_prior": log_prior, "constraints": {"tau": sm.positive},
        "touches": {"a": touches}, "site_prior": {"a": of_site},
    }  # fmt: skip
    state = {"a": np.zeros(len(sizes)), "mu": 0.0, "tau": 1.0}
    return sm.Model(log_likelihood, data_of(sizes), state, **(given | more))


def hierarchy(**more):
    return sm.Metropolis("a", **more) >> sm.Metropolis(("mu", "tau"))


def sampled(model, kernel, draws=10_000, warmup=1_000, **more):
    given = {"chains": 1, "seed": 5, "progress": False} | more
    return sm.sample(model, kernel, draws, warmup=warmup, **given)


def errors_of(z):
    """How many standard errors the mean of z is from 0, and that of its square from 1."""
    found = []
    for values, truth in ((z, 0.0), (z * z, 1.0)):
        error = values.std() / np.sqrt(float(az.ess(values[None], method="mean")))
        found.append(abs(values.mean() - truth) / error)
    return found


def scores_of_common(a, mu, tau):
    """mu and log tau as normal scores of their law given the sites."""
    groups = a.shape[1]
    precision = groups / tau**2 + 1.0
    of_mu = (mu - a.sum(axis=1) / tau**2 / precision) * np.sqrt(precision)
    # log tau given a and mu: its distribution function on a grid that is finest around its mode.
    squares = ((a - mu[:, None]) ** 2).sum(axis=1)[:, None]
    steps = np.linspace(-4.0, 4.0, 600)
    grid = 0.5 * np.log(squares / groups) + 9.0 * np.sinh(steps) / np.sinh(4.0)
    logp = -0.5 * squares * np.exp(-2.0 * grid) - (groups - 1) * grid - np.exp(grid)
    mass = np.exp(logp - logp.max(axis=1, keepdims=True)) * np.cosh(steps)
    below = (np.cumsum(mass, axis=1) - 0.5 * mass) / mass.sum(axis=1, keepdims=True)
    at = np.array([np.interp(np.log(t), g, b) for t, g, b in zip(tau, grid, below, strict=True)])
    return of_mu, stats.norm.ppf(np.clip(at, 1e-9, 1 - 1e-9))


def scores(trace, sizes=SIZES):
    """Each site, mu and log tau as normal scores of its law given all else: N(0, 1), if right."""
    data = data_of(sizes)
    a, mu, tau = (np.asarray(trace.draws[name])[0] for name in ("a", "mu", "tau"))
    found = {}
    for g in range(len(sizes)):
        y = data["y"][data["group"] == g]
        precision = len(y) / SIGMA**2 + 1.0 / tau**2
        mean = (y.sum() / SIGMA**2 + mu / tau**2) / precision
        found[f"a[{g}]"] = (a[:, g] - mean) * np.sqrt(precision)
    found["mu"], found["tau"] = scores_of_common(a, mu, tau)
    return found


def wrong(trace, sizes=SIZES, limit=5.0):
    """What lies more than `limit` standard errors off: by chance once in 10^5 runs."""
    with np.errstate(all="ignore"):  # a scale of a mutant's may come to 0
        off = {name: max(errors_of(z)) for name, z in scores(trace, sizes).items()}
    return {name: error for name, error in off.items() if not error <= limit}
