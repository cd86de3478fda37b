"""Small hierarchies, what is known of their sites, and decisions made many times over."""

import math

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.by_site.control import local_blocks
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.kernels.base import NOW, Chain
from subsample_mcmc.kernels.decision import decide
from subsample_mcmc.kernels.sites.by_site import go_to, judge_of_sites
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.layout import Run
from subsample_mcmc.target.rewards import place


def poisson(state, data, n):
    eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def logistic(state, data, n):
    g = data.group[n]
    eta = state.a[g, 0] + state.a[g, 1] * data.x[n] + state.a[g, 2] * data.z[n]
    return data.y[n] * eta - sm.softplus(eta)


def student(state, data, n):
    """Two predictors: where it is, and its scale; three numbers that all rows see."""
    at = state.a[data.group[n]] + state.beta[0] * data.x[n] + state.beta[1] * data.z[n]
    r = (data.y[n] - at) * sm.exp(-state.beta[2])
    return -2.5 * sm.log1p(0.25 * r**2) - state.beta[2]


def of_site(state, g):
    return -0.5 * state.a[g] ** 2


def of_three(state, g):
    return -0.5 * (state.a[g, 0] ** 2 + state.a[g, 1] ** 2 + state.a[g, 2] ** 2)


def prior_of_slope(state):
    return -0.5 * state.slope[0] ** 2


def prior_of_beta(state):
    return -0.5 * (state.beta[0] ** 2 + state.beta[1] ** 2 + state.beta[2] ** 2)


def data_of(family, groups, rows, seed=3):
    """Data of groups of so many rows, in no order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(groups), rows))
    x, z = rng.standard_normal((2, groups * rows))
    a = 0.3 + 0.5 * rng.standard_normal((groups, 3))
    if family == "poisson":
        y = rng.poisson(np.exp(a[group, 0] + 0.3 * x)).astype(float)
    elif family == "logistic":
        eta = a[group, 0] + a[group, 1] * x + a[group, 2] * z
        y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    else:
        y = a[group, 0] + 0.3 * x - 0.2 * z + rng.standard_t(4, len(x))
    return {"y": y, "x": x, "z": z, "group": group}


def model_of(family="poisson", groups=3, rows=40, data=None):
    """One of the families above."""
    data = data_of(family, groups, rows) if data is None else data
    given = {"touches": {"a": "group"}}
    if family == "logistic":
        return sm.Model(
            logistic, data, {"a": np.zeros((groups, 3))}, site_prior={"a": of_three}, **given
        )
    state = {"a": np.zeros(groups)} | (
        {"slope": 0.0} if family == "poisson" else {"beta": np.zeros(3)}
    )
    likelihood, prior = (
        (poisson, prior_of_slope) if family == "poisson" else (student, prior_of_beta)
    )
    return sm.Model(likelihood, data, state, prior, site_prior={"a": of_site}, **given)


NEAR = {
    "poisson": {"a": 0.3, "slope": 0.3}, "logistic": {"a": 0.2},
    "student": {"a": 0.3, "beta": np.array([0.3, -0.2, 0.1])},
}  # fmt: skip


def reference_of(model, family):
    """Values near the mode, not at it."""
    given = {}
    for name, value in NEAR[family].items():
        given[name] = np.broadcast_to(value, model.variables[name].block.shape or (1,)).copy()
    return given


def rows_at(model, floats):
    """The log likelihood of each row."""
    data, out = model.data, np.zeros(model.size)
    state = model.state(model.ints, floats)
    function = getattr(model.log_likelihood, "py_func", model.log_likelihood)
    with np.errstate(all="ignore"):
        for n in range(model.size):
            out[n] = function(state, data, n)
    return out


def total_at(model, floats):
    """Their sum."""
    return math.fsum(rows_at(model, floats))


class Known:
    """What is known of a model's sites, in coordinates w."""

    def __init__(self, model, control):
        self.model, self.control = model, control
        self.sums = prepared_for(model, control).sums
        self.units = np.linalg.inv(self.sums.inverse)
        self.wide = np.linalg.inv(self.sums.inverse_common)
        self.k, self.c = self.sums.places.shape[1], len(self.sums.common)

    def floats(self, site, w):
        """The state where one site, and what all rows see, are at w, and all else at the fit."""
        found = self.sums.point.copy()
        found[self.sums.places[site]] += self.units[site] @ w[: self.k]
        found[self.sums.common] += self.wide @ w[self.k :]
        return found

    def rows(self, site):
        """Places of a site's rows among `indices`."""
        return np.arange(*self.sums.indptr[site : site + 2])


def deciding(model, kernel, floats, words=64):
    """(judge of a kernel, as its steps see it; the state it decides about)."""
    kernel = kernel.settled(model)
    run = Run.over(model.ints.copy(), floats.copy(), np.zeros(words, dtype=np.int64))
    by_site = kernel.writes[0] in local_blocks(model)
    judge = judge_of_sites(kernel, model, run) if by_site else kernel.judge(model, run)
    return judge, run


@jit
def repeat(chain, judge, ratio, times):
    """How often a proposal is accepted, from the same state each time."""
    trial, accepted = judge.trial, 0
    for _ in range(times):
        judge.offsets[0], judge.offsets[1] = np.log(1.0 - chain.rng.random()), ratio
        accepted += decide(chain, judge, 0)
        place(trial, 0)
    return accepted


@jit
def at_site(judge, start, indptr, site):
    go_to(judge.trial, start, indptr, site)


def accepted(model, kernel, floats, here, there, site=-1, times=100_000, seed=1, ratio=0.0):
    """The share of moves from one value of a block, or of a site, to another that are made."""
    judge, _ = deciding(model, kernel, floats)
    pointed = pointer_to(judge)
    block = model.variables[kernel.writes[0]]
    if site >= 0:
        at_site(pointed, block.block.start, block.touches[0], site)
    judge.trial.candidates[0], judge.trial.candidates[1] = here, there
    chain = Chain(
        np.random.Generator(np.random.PCG64(seed)), np.array([seed], dtype=np.uint64),
        np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=NOW).view(np.recarray),
    )  # fmt: skip
    target = judge.trial.target[0]
    for j in range(target.length):
        judge.trial.floats[target.start + j] = judge.trial.candidates[0, j]
    found = repeat(pointer_to(chain), pointed, ratio, times)
    assert chain.now[0].code == 0, f"code {chain.now[0].code} at row {chain.now[0].row}"
    return found / times, judge.tally[0]
