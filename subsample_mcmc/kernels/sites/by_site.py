"""What kernels share that move the sites of a continuous block one after the other.

A site's decision is about the data that it touches. They are few, as a rule, and then summed in
one loop; where a site touches many, its decision is raced as any other.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.base import BAD_PRIOR, DECIDES_EXACTLY
from subsample_mcmc.kernels.decision import Decision, Judge, fail, in_one_loop
from subsample_mcmc.kernels.sites.asked import check_data, check_site_prior, sites_behind
from subsample_mcmc.kernels.sites.by_sums import by_sums, check_sums, judge_by_sums, told_of_sums
from subsample_mcmc.kernels.sites.touches import MANY, check_touches
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_numbers
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.rewards import place, prior_of
from subsample_mcmc.target.user_functions import prior_by_address

READS_OWN = "each site its own"  # stored with runs whose sites move by data of their own
FEW = 2_000  # data of a site, up to which nothing is won by a race


class SomeSites(NamedTuple):
    """Consecutive sites of a block: all of them, or those that a kernel moves in one thread."""

    first: int  # number of the first site ...
    sites: int  # ... how many there are
    start: int  # where they start in the flat array
    indptr: np.ndarray  # which part of the data touched is each one's


class SitePrior(NamedTuple):
    """How the prior of a site's value is asked."""

    of: Any  # that of one site given those before it, called by its address; 0: the whole is asked
    behind: int  # how many sites before its own it reads
    sites: int  # of the block


NO_SITES = SitePrior(0, 0, 0)


def part_of(model, run, name: str) -> SomeSites:
    """The sites that a kernel bound to `run` moves."""
    variable = model.variables[name]
    first, last = run.part or (0, variable.sites)
    width = variable.block.length // variable.sites
    start = variable.block.start + first * width
    return SomeSites(first, last - first, start, variable.touches[0][first : last + 1])


def moves_by_site(kernel, model) -> bool:
    """Does a kernel's block move site by site."""
    return len(kernel.writes) == 1 and model.variables[kernel.writes[0]].touches is not None


def one_site(model, name: str) -> Moved:
    """The first site of a block, as if it were a block."""
    variable = model.variables[name]
    block = Block(name, False, variable.block.shape[1:], variable.block.start)
    return Moved((replace(variable, block=block),))


def most_rows(model, name: str) -> int:
    """The most data that a site touches."""
    return int(np.diff(model.variables[name].touches[0]).max())


def decision_of(kernel) -> Decision:
    """What the kernel asks, about the data of a site."""
    return replace(kernel.decision, control=None, touched=True)


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
    for argument in ("control", "surrogate"):
        if argument == "control" and by_sums(kernel):
            continue
        if getattr(kernel, argument, None) is not None:
            raise ValueError(
                f"{text}: the block has touches, each site is decided by its own data, and "
                f"{argument} is about all data: leave it out, or the model's touches."
            )
    given = getattr(kernel, kernel.sized) if kernel.sized else 1.0
    if np.ndim(given) and np.shape(given) != (site.free,):
        raise ValueError(
            f"{kernel.sized} has shape {np.shape(given)}: a site of {name!r} has {site.free} "
            "numbers."
        )
    no_whole_prior(name, model)
    check_touches(name, model)
    check_data(name, model)
    if by_sums(kernel):
        check_sums(kernel, model)
    else:
        decision_of(kernel).check(model, name)
    if name in model.site_prior:
        (check_site_prior if by_sums(kernel) else sites_behind)(name, model)


def no_whole_prior(name: str, model) -> None:
    """Refuse many sites whose moves would each ask the prior of the whole state."""
    sites = model.variables[name].sites
    if sites > MANY and name not in model.site_prior:
        raise ValueError(
            f"block {name!r} has {sites} sites, and each of their moves would read the "
            f"prior of the whole state: give sm.Model(site_prior={{{name!r}: f}}), f(state, site), "
            "and take the block's part out of log_prior."
        )


def facts_of_sites(kernel, model) -> dict[str, Any]:
    """What describe() says of it."""
    variable, rows = model.variables[kernel.block], most_rows(model, kernel.block)
    width = variable.block.length // variable.sites
    each = "" if width == 1 else f", {width} numbers each"
    exact = DECIDES_EXACTLY | {"guarantee": "exact"} if summed(kernel, model) else {}
    how = f": {told_of_sums(kernel, model)}" if by_sums(kernel) else ""
    return exact | {
        "rows": rows,
        "takes_control": False,
        "moves": f"{kernel.block} site by site ({variable.sites:,} sites{each})",
        "note": f"at most {rows:,} data per site"
        + (": summed exactly in one loop" if exact else how),
    }


def judge_of_sites(kernel, model, run) -> Judge:
    """What one chain decides with; `go_to` says about which site."""
    name, decision = kernel.block, decision_of(kernel)
    if by_sums(kernel):
        site, (_, indices) = one_site(model, name), model.variables[name].touches
        rows = most_rows(model, name)
        return judge_by_sums(kernel, model, run, site.block, rows, site.candidates(model), indices)
    site, (_, indices) = one_site(model, name), model.variables[name].touches
    rows, ends = most_rows(model, name), site.candidates(model)
    return judge_of_few(decision, model, run, site.block, rows, ends, indices)


def judge_of_few(decision: Decision, model, run, block: Block, rows: int, ends, indices) -> Judge:
    """What decides about rows that sites touch, so many at most: in one loop, where all are read.

    ends: room for the candidates. indices: the rows, of which a decision says its part.
    """
    if decision.selector.reads_everything(rows):
        made = in_one_loop(True), None
        decision = replace(decision, selector=Exact())  # which is not asked
    else:
        made = decision.deciders(model)
    return decision.bind(model, run, block, rows, made, ends, indices)


def site_prior_of(model, name: str, judge: Judge) -> SitePrior:
    """How the prior of a site is asked in a chain."""
    if name not in model.site_prior:
        return NO_SITES
    return terms_of(model, name, judge.trial.calls.context, sites_behind(name, model))


def terms_of(model, name: str, context, behind: int) -> SitePrior:
    """The priors of a block's sites, each of which reads so many before its own."""
    term = prior_by_address(model.site_prior[name], context)
    return SitePrior(term, behind, model.variables[name].sites)


@jit(inner="always")
def go_to(trial, start, indptr, site):
    """Let candidates and data be those of a site of the block that starts there."""
    target = trial.target[0]
    target.start = start + site * target.length
    target.first = indptr[site]
    target.rows = indptr[site + 1] - target.first


@jit(inner="always")
def prior_at(trial, prior, first, last):
    """What the log prior says of the values of sites first .. last - 1, or of the whole state."""
    if prior.of == 0:
        return prior_of(trial)
    total = 0.0
    for site in range(first, min(last + prior.behind, prior.sites)):
        total += call_numbers(prior.of, trial.calls.context, site, 0)
    return total


@jit(inner="always")
def priors_of_sites(chain, judge, prior, first, last, ratio):
    """Write the offsets of stay and go, of sites first .. last - 1, without the threshold.

    False if one is not a number.
    """
    trial, offsets = judge.trial, judge.offsets
    offsets[0], offsets[1] = prior_at(trial, prior, first, last), -np.inf
    if ratio > -np.inf:
        place(trial, 1)
        offsets[1] = prior_at(trial, prior, first, last) + ratio
        place(trial, 0)
    if not_a_sum(offsets[0]) or not_a_sum(offsets[1]):
        fail(chain.now[0], trial, BAD_PRIOR, 0 if not_a_sum(offsets[0]) else 1, -1)
        return False
    return True
