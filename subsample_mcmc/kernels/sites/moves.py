"""Metropolis moves of the sites of a continuous block, one after the other.

Every site learns a step and scales of its own, and the Gaussian that its values have.
"""

from math import log
from typing import NamedTuple

import numpy as np

from subsample_mcmc.kernels.adapt import Tuning, make_tuning, of_one, step_size
from subsample_mcmc.kernels.continuous import start_from_current
from subsample_mcmc.kernels.decision import Judge, decide
from subsample_mcmc.kernels.proposals.learned import (
    LearnedNumbers,
    learn_gaussian,
    learned_numbers,
    propose_learned,
)
from subsample_mcmc.kernels.proposals.walk import RandomWalk, no_numbers
from subsample_mcmc.kernels.sites.by_site import (
    SitePrior,
    go_to,
    judge_of_sites,
    one_site,
    part_of,
    priors_of_sites,
    site_prior_of,
)
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.moved import BlockCoordinates, all_to_block, all_to_free


class SiteTools(NamedTuple):
    """What a sweep over sites works with."""

    judge: Judge
    coordinates: BlockCoordinates  # of one site
    tuning: Tuning  # of all: its arrays have one row for each site
    numbers: LearnedNumbers
    first: int  # number of the first site
    sites: int
    start: int  # of the first site in the floats
    indptr: np.ndarray  # which part of the data touched is a site's
    prior: SitePrior
    watched: Watched


def bind_sites(kernel, model, run) -> SiteTools:
    """Tools of one chain."""
    name = kernel.block
    variable, site = model.variables[name], one_site(model, name)
    part = part_of(model, run, name)
    one, pace = np.ndim(kernel.scale) == 0, RandomWalk().pace(site.free)
    walks, known = kernel.proposal.walks, None  # a Gaussian of each site, from a fit
    if not walks:
        some = slice(part.first, part.first + part.sites)
        known = kernel.proposal.sites(name, variable.sites, site.free, some)
    tuning = make_tuning(
        run, float(kernel.scale) if one else 1.0, 1.0 if one else kernel.scale, site.free,
        pace.target if kernel.adapt else 0.0, scaled=one, most=log(pace.largest),
        sites=part.sites,
    )  # fmt: skip
    room = kernel.proposal.numbers(site) if walks else no_numbers(site)
    numbers = learned_numbers(run, room, part.sites, site.free, kernel.adapt, known)
    judge = judge_of_sites(kernel, model, run)
    return SiteTools(
        judge, site.coordinates(), tuning, numbers, *part, site_prior_of(model, name, judge),
        watched(model, run, name, judge.trial),
    )  # fmt: skip


@jit(inner="always")
def priors_at(chain, tools, site, ratio):
    """Write the offsets of stay and go, without the threshold; False if one is not a number."""
    own = tools.first + site
    return priors_of_sites(chain, tools.judge, tools.prior, own, own + 1, ratio)


@jit(inner="always")
def sweep_of_sites(chain, tools):
    """step(chain, tools): one decision for each site."""
    judge, to, now = tools.judge, tools.coordinates, chain.now[0]
    trial, tally = judge.trial, judge.tally[0]
    x, y = trial.candidates[0], trial.candidates[1]
    tally.steps += 1
    remember(tools.watched)
    steps = 0.0
    for site in range(tools.sites):
        go_to(trial, tools.start, tools.indptr, site)
        tuning = of_one(tools.tuning, site)
        start_from_current(trial)
        all_to_free(to, x, to.u)
        here = all_to_block(to, to.u, y)
        ratio = propose_learned(chain.rng, tuning, tools.numbers, now, site, to.u, to.v)
        threshold = log(1.0 - chain.rng.random())
        there = all_to_block(to, to.v, y)
        if not priors_at(chain, tools, site, ratio + there - here):
            return
        judge.offsets[0] += threshold
        accepted = 1.0 if decide(chain, judge, 0) == 1 else 0.0
        if now.code != 0:
            return
        steps += step_size(tuning, now)
        learn_gaussian(tuning, tools.numbers, now, site, to.u, accepted)
    sees_others(chain, tools.watched)
    tally.scale = steps / tools.sites
