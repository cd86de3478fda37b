"""Metropolis moves of the sites of a continuous block, one after the other.

A site's decision is about the data that it touches. They are few, as a rule, and then summed in
one loop; where a site touches many, its decision is raced as any other. Every site learns a step
and scales of its own, and the Gaussian that its values have.
"""

from dataclasses import replace
from math import log
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.adapt import Tuning, make_tuning, of_one, step_size
from subsample_mcmc.kernels.base import BAD_PRIOR
from subsample_mcmc.kernels.continuous import start_from_current
from subsample_mcmc.kernels.decision import Decision, Judge, decide, fail
from subsample_mcmc.kernels.gibbs import MANY, in_one_loop
from subsample_mcmc.kernels.proposals.learned import (
    LearnedNumbers,
    learn_gaussian,
    learned_numbers,
    propose_learned,
)
from subsample_mcmc.kernels.sites.asked import check_data, check_site_prior, prior_by_address
from subsample_mcmc.kernels.sites.touches import check_touches
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_numbers
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.moved import BlockCoordinates, Moved, all_to_block, all_to_free
from subsample_mcmc.target.rewards import place, prior_of


class SiteTools(NamedTuple):
    """What a sweep over sites works with."""

    judge: Judge
    coordinates: BlockCoordinates  # of one site
    tuning: Tuning  # of all: its arrays have one row for each site
    numbers: LearnedNumbers
    sites: int
    start: int  # of the block in the floats
    indptr: np.ndarray  # which part of the data touched is a site's
    prior: Any  # of one site's value, called by its address; 0: the whole prior is asked
    watched: Watched


def one_site(model, name: str) -> Moved:
    """The first site of a block, as if it were a block."""
    variable = model.variables[name]
    block = Block(name, False, variable.block.shape[1:], variable.block.start)
    return Moved((replace(variable, block=block),))


def most_rows(model, name: str) -> int:
    """The most data that a site touches."""
    return int(np.diff(model.variables[name].touches[0]).max())


def decision_of(kernel) -> Decision:
    """Stay or go, about the data of a site."""
    return Decision(kernel.selector, None, touched=True, proposes=True)


def summed(kernel, model) -> bool:
    """Are all sites summed directly: they see too few data for a race, or nothing races."""
    return kernel.selector.reads_everything(most_rows(model, kernel.block))


def check_sites(kernel, model) -> None:
    """Refuse what sites that see data of their own cannot be moved with."""
    name, text = kernel.block, kernel.text()
    variable, site = model.variables[name], one_site(model, name)
    if variable.place >= 0:
        raise ValueError(
            f"{text}: the block has touches, and varies in length: its sites must always be there."
        )
    for given, argument in (
        (kernel.control, "control"), (kernel.surrogate, "surrogate"),
    ):  # fmt: skip
        if given is not None:
            raise ValueError(
                f"{text}: the block has touches, each site is decided by its own data, and "
                f"{argument} is about all data: leave it out, or the model's touches."
            )
    if not kernel.proposal.walks:
        raise ValueError(
            f"{text}: the block has touches, and its sites move by random walks: leave out "
            "proposal, or the model's touches."
        )
    if np.ndim(kernel.scale) and np.shape(kernel.scale) != (site.free,):
        raise ValueError(
            f"scale has shape {np.shape(kernel.scale)}: a site of {name!r} has {site.free} numbers."
        )
    if variable.sites > MANY and name not in model.site_prior:
        raise ValueError(
            f"block {name!r} has {variable.sites} sites, and each of their moves would read the "
            f"prior of the whole state: give sm.Model(site_prior={{{name!r}: f}}), f(state, site), "
            "and take the block's part out of log_prior."
        )
    decision_of(kernel).check(model, name)
    check_touches(name, model)
    check_data(name, model)
    if name in model.site_prior:
        check_site_prior(name, model)


def facts_of_sites(kernel, model) -> dict[str, Any]:
    """What describe() says of it."""
    variable, rows = model.variables[kernel.block], most_rows(model, kernel.block)
    width = variable.block.length // variable.sites
    each = "" if width == 1 else f", {width} numbers each"
    return {
        "rows": rows,
        "takes_control": False,
        "walks": not kernel.adapt,  # else it knows where it goes: no acceptance is too high
        "moves": f"{kernel.block} site by site ({variable.sites:,} sites{each})",
        "note": f"at most {rows:,} data per site"
        + (": summed exactly in one loop" if summed(kernel, model) else ""),
    }


def bind_sites(kernel, model, run) -> SiteTools:
    """Tools of one chain."""
    name = kernel.block
    variable, site = model.variables[name], one_site(model, name)
    indptr, indices = variable.touches
    decision = decision_of(kernel)
    if summed(kernel, model):
        made = in_one_loop(True), None
        decision = replace(decision, selector=Exact())  # which is not asked
    else:
        made = decision.deciders(model)
    one, pace = np.ndim(kernel.scale) == 0, kernel.proposal.pace(site.free)
    tuning = make_tuning(
        run, float(kernel.scale) if one else 1.0, 1.0 if one else kernel.scale, site.free,
        pace.target if kernel.adapt else 0.0, scaled=one, most=log(pace.largest),
        sites=variable.sites,
    )  # fmt: skip
    numbers = learned_numbers(
        run, kernel.proposal.numbers(site), variable.sites, site.free, kernel.adapt
    )
    judge = decision.bind(
        model, run, site.block, most_rows(model, name), made, site.candidates(model), indices
    )
    prior: Any = 0
    if name in model.site_prior:
        prior = prior_by_address(model.site_prior[name], judge.trial.calls.context)
    return SiteTools(
        judge, site.coordinates(), tuning, numbers, variable.sites, variable.block.start, indptr,
        prior, watched(model, run, name, judge.trial),
    )  # fmt: skip


@jit(inner="always")
def prior_at(tools, site):
    """The log prior of a site's value, of its own or of the whole state with it."""
    trial = tools.judge.trial
    if tools.prior != 0:
        return call_numbers(tools.prior, trial.calls.context, site, 0)
    return prior_of(trial)


@jit(inner="always")
def priors_at(chain, tools, site, ratio):
    """Write the offsets of stay and go, without the threshold; False if one is not a number."""
    trial, offsets = tools.judge.trial, tools.judge.offsets
    offsets[0], offsets[1] = prior_at(tools, site), -np.inf
    if ratio > -np.inf:
        place(trial, 1)
        offsets[1] = prior_at(tools, site) + ratio
        place(trial, 0)
    if not_a_sum(offsets[0]) or not_a_sum(offsets[1]):
        fail(chain.now[0], trial, BAD_PRIOR, 0 if not_a_sum(offsets[0]) else 1, -1)
        return False
    return True


@jit(inner="always")
def sweep_of_sites(chain, tools):
    """step(chain, tools): one decision for each site."""
    judge, to, now = tools.judge, tools.coordinates, chain.now[0]
    trial, tally = judge.trial, judge.tally[0]
    target, x, y = trial.target[0], trial.candidates[0], trial.candidates[1]
    tally.steps += 1
    remember(tools.watched)
    steps = 0.0
    for site in range(tools.sites):
        target.start = tools.start + site * target.length
        target.first = tools.indptr[site]
        target.rows = tools.indptr[site + 1] - target.first
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
