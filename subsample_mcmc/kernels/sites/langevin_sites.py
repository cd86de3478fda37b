"""Langevin moves of the sites of a continuous block, one after the other.

v = u + h/2 M g(u) + (h M)^1/2 z in a site's free coordinates, g the gradient of that site's log
prior and of the log likelihoods of its own data, M the squares of scales; then Metropolis-Hastings,
about the same data (Roberts & Rosenthal 1998). Every site learns h and scales of its own. g is by
central differences: whatever function of u it is, the decision is exact. Its push is cut to a
length: where a likelihood falls faster than a Gaussian it would throw proposals away.
"""

from math import log
from typing import NamedTuple

import numpy as np

from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.adapt import Tuning, learn, make_tuning, of_one, step_size
from subsample_mcmc.kernels.continuous import start_from_current
from subsample_mcmc.kernels.decision import Judge, decide, fail
from subsample_mcmc.kernels.gradient import central, difference
from subsample_mcmc.kernels.proposals.langevin_step import LONGEST, OPTIMAL
from subsample_mcmc.kernels.sites.by_site import (
    SitePrior,
    go_to,
    judge_of_sites,
    most_rows,
    one_site,
    part_of,
    prior_at,
    site_prior_of,
)
from subsample_mcmc.kernels.sites.moves import priors_at
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.moved import BlockCoordinates, all_to_block, all_to_free
from subsample_mcmc.target.rewards import Trial, make_trial, place, rewards


class SiteSlopes(NamedTuple):
    """What a sweep over sites works with."""

    judge: Judge
    coordinates: BlockCoordinates  # of one site
    tuning: Tuning  # of all: its arrays have one row for each site
    probe: Trial  # with candidates of its own: the two ends of a difference
    first: int  # number of the first site
    sites: int
    start: int  # of the first site in the floats
    indptr: np.ndarray  # which part of the data touched is a site's
    prior: SitePrior
    watched: Watched
    order: np.ndarray  # (most rows,) places of a site's data among its own
    up: np.ndarray  # (CHUNK,) rewards at either end
    down: np.ndarray
    point: np.ndarray  # (k,) free coordinates of an end
    noise: np.ndarray  # z
    here: np.ndarray  # the push of u, in units of the noise
    there: np.ndarray  # the push of v
    bad: np.ndarray  # (1,) the datum to blame, or -1


def bind_slopes(kernel, model, run) -> SiteSlopes:
    """Tools of one chain."""
    name = kernel.writes[0]
    variable, site, most = model.variables[name], one_site(model, name), most_rows(model, name)
    part, indices = part_of(model, run, name), variable.touches[1]
    h = 1.0 / (1.0 + len(indices) / variable.sites) if kernel.step == "auto" else float(kernel.step)
    tuning = make_tuning(
        run, h**0.5, 1.0, site.free, OPTIMAL if kernel.adapt else 0.0, scaled=kernel.adapt,
        sites=part.sites,
    )  # fmt: skip
    judge = judge_of_sites(kernel, model, run)
    probe = make_trial(model, run, site.block, most, site.candidates(model), indices)
    return SiteSlopes(
        judge, site.coordinates(), tuning, probe, *part,
        site_prior_of(model, name, judge), watched(model, run, name, judge.trial),
        np.arange(most, dtype=row_kind(model.size)), np.zeros(CHUNK), np.zeros(CHUNK),
        np.zeros(site.free), np.zeros(site.free), np.zeros(site.free), np.zeros(site.free),
        np.full(1, -1),
    )  # fmt: skip


@jit(inner=True)
def along_data(tools):
    """The log likelihood of a site's data at the one end of a difference, less at the other.

    nan says that one is none; -inf, that one is impossible.
    """
    probe, total, first = tools.probe, 0.0, 0
    while first < probe.target[0].rows:
        count = min(CHUNK, probe.target[0].rows - first)
        rows = tools.order[first : first + count]
        rewards(probe, 0, rows, tools.up[:count])
        rewards(probe, 1, rows, tools.down[:count])
        change = difference(tools.up, tools.down, count)
        if not abs(change) < np.inf:
            for i in range(count):
                if not_a_sum(tools.up[i]) or not_a_sum(tools.down[i]):
                    tools.bad[0] = probe.indices[probe.target[0].first + rows[i]]
                    return np.nan
            return -np.inf
        total += change
        first += count
    return total


@jit(inner="always")
def prior_of_site(tools, site):
    at = tools.first + site
    return prior_at(tools.probe, tools.prior, at, at + 1)


slopes = central(prior_of_site, along_data)


@jit(inner="always")
def push_of_site(tools, tuning, site, u, root, push):
    """Write h^1/2 / 2 L' g(u), cut to a length; 0 or what went wrong.

    One of the points of its differences is left in the state.
    """
    tools.bad[0] = -1
    code, square = slopes(tools, tools.coordinates, u, tools.point, push, site), 0.0
    longest = LONGEST * len(u) ** 0.5
    for i in range(len(u)):
        push[i] *= 0.5 * root * tuning.scales[i]
        square += push[i] * push[i]
    if square > longest * longest:
        for i in range(len(u)):
            push[i] *= longest / square**0.5
    tools.judge.tally[0].gradients += 2 * len(u) * tools.probe.target[0].rows
    return code


@jit(inner="always")
def sweep_of_slopes(chain, tools):
    """step(chain, tools): one decision for each site."""
    judge, to, now = tools.judge, tools.coordinates, chain.now[0]
    trial, tally = judge.trial, judge.tally[0]
    x, y, u, v, z = trial.candidates[0], trial.candidates[1], to.u, to.v, tools.noise
    tally.steps += 1
    remember(tools.watched)
    steps = 0.0
    for site in range(tools.sites):
        go_to(trial, tools.start, tools.indptr, site)
        go_to(tools.probe, tools.start, tools.indptr, site)
        tuning = of_one(tools.tuning, site)
        root = step_size(tuning, now)
        start_from_current(trial)
        all_to_free(to, x, u)
        here = all_to_block(to, u, y)
        code = push_of_site(tools, tuning, site, u, root, tools.here)
        place(trial, 0)
        if code != 0:
            fail(now, trial, code, 0, tools.bad[0])
            return
        fill_normal(chain.rng, z)
        threshold = log(1.0 - chain.rng.random())
        for i in range(len(u)):
            v[i] = u[i] + root * tuning.scales[i] * (z[i] + tools.here[i])
        ratio = all_to_block(to, v, y) - here
        if ratio > -np.inf:
            # The way back needs z' = -(z + push(u) + push(v)). A push that is no number counts as
            # what it is without, which leaves the step exact: from there the chain would stop.
            push_of_site(tools, tuning, site, v, root, tools.there)
            place(trial, 0)
            for i in range(len(u)):
                back = z[i] + tools.here[i] + tools.there[i]
                ratio += 0.5 * (z[i] * z[i] - back * back)
        if not priors_at(chain, tools, site, ratio):
            return
        judge.offsets[0] += threshold
        accepted = 1.0 if decide(chain, judge, 0) == 1 else 0.0
        if now.code != 0:
            return
        steps += root * root
        learn(tuning, now, u, accepted)
    sees_others(chain, tools.watched)
    tally.scale = steps / tools.sites
