"""Data and priors that see more sites than it is said: looked at again as the chain runs.

Before it runs all are asked in a few states (asked.py). What none of them shows, as an indicator is
off there or a loss flat, shows in another, and the moves of a site would not see it: so after each
sweep two data are asked whether they see more of it than the sites that are theirs, and one site's
prior of each part of the prior whose code does not tell what it reads.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.base import TOUCHED_BY_OTHERS
from subsample_mcmc.kernels.decision import fail
from subsample_mcmc.kernels.sites.asked import sites_behind
from subsample_mcmc.kernels.sites.independent import may_read, told_before
from subsample_mcmc.kernels.sites.touches import is_known, seen_by
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import Addresses, call_numbers, call_rows
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.rewards import make_trial
from subsample_mcmc.target.user_functions import one_for_all, prior_by_address

# Data at random that are asked again as the chain runs, and how many at once; a change that is none
# of rounding, of a log likelihood and of 1.
WATCHED, AT_ONCE, CHANGE = 1_024, 2, 1e-6
STRIDE = 2_654_435_761  # from one site to the next whose prior is asked; a prime: all have a turn


class Watched(NamedTuple):
    """What data and priors are asked with; without `values`, nothing is asked."""

    trial: Any
    values: np.ndarray  # the block in the state
    before: np.ndarray  # ... as it was before the sweep
    now: np.ndarray  # ... and is after it
    first: np.ndarray  # which part of `sites` each datum is said to see: from ...
    last: np.ndarray  # ... up to
    sites: np.ndarray
    width: int  # numbers of a site
    asked: np.ndarray  # (1,) how many were asked so far
    row: np.ndarray  # (1,) the place of one of them in trial.indices, and its ...
    seen: np.ndarray  # (2, 1) ... log likelihood as the state is, and with other sites as before
    priors: Any  # functions of the context and a site, ...
    turns: np.ndarray  # ... how many sites each has, ...
    behind: np.ndarray  # ... and how many before its own it may read; -1: nothing of the block


class Tables:
    """A key under which a model keeps which data of a block are looked at again."""


TABLES = Tables()


class LookedAt(NamedTuple):
    """Data, and the sites that each is said to see: sites[first:last]."""

    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray
    sites: np.ndarray


def looked_at(model, name: str) -> LookedAt:
    """Which data of a block with touches are, found out once; none where there is no need."""
    tables = model.prepared.setdefault(TABLES, {})
    if name not in tables:
        variable, rng = model.variables[name], np.random.default_rng(0)
        rows = rng.permutation(np.unique(rng.integers(model.size, size=WATCHED)))
        if is_known(model, name):
            rows = rows[:0]
        data, sites = seen_by(variable.touches, rows)
        first, last = (np.searchsorted(data, rows, side=s) for s in ("left", "right"))
        some = last - first < variable.sites  # all others see all sites
        rows, first, last = rows[some], first[some], last[some]
        tables[name] = LookedAt(rows, first, last, sites)
    return tables[name]


class WatchedPrior(NamedTuple):
    """A part of the log prior whose code does not tell which sites of a block it reads."""

    text: str
    function: Any
    sites: int  # it is of each of so many, or 1: of the state
    behind: int  # sites before its own that it may read; -1: none at all


def watched_priors(model, name: str) -> list[WatchedPrior]:
    """Those that moves of the block's sites leave out, all or in part."""
    if name not in model.site_prior or model.variables[name].block.discrete:
        return []  # they ask all of it
    parts = []
    for other, function in model.site_prior.items():
        sites, text = model.variables[other].sites, f"site_prior[{other!r}]"
        if other == name:
            if told_before(name, model) is None:
                parts.append(WatchedPrior(text, function, sites, sites_behind(name, model)))
        elif may_read(function, name, model):
            parts.append(WatchedPrior(text, function, sites, -1))
    rest = model.given[3]
    if rest is not None and may_read(rest, name, model):
        parts.append(WatchedPrior("log_prior", one_for_all(rest), 1, -1))
    return parts


def watched(model, run, name: str, trial) -> Watched:
    """What one chain looks at again of a block; nothing where there is no need.

    trial: the kernel's own, of rows that its sites touch, or of all.
    """
    variable, none = model.variables[name], np.zeros(0, dtype=np.int64)
    block, table = variable.block, LookedAt(none, none, none, none)
    whole = run.part is None  # of parts that move side by side, the whole is watched
    if whole and variable.touches is not None and trial.indices is variable.touches[1]:
        table = looked_at(model, name)
    rows, priors = table.rows, watched_priors(model, name) if whole else []
    values = run.ints if block.discrete else run.floats
    values = values[block.start : block.start + (block.length if len(rows) or priors else 0)]
    if len(rows):
        leaf = trial.target["leaf"]
        trial = make_trial(model, run, block, 1, touched=rows)
        trial.target["leaf"] = leaf
    return Watched(
        trial, values, values.copy(), values.copy(),
        table.first, table.last, table.sites, block.length // variable.sites,
        np.zeros(1, dtype=np.int64), np.zeros(1, dtype=row_kind(model.size)), np.zeros((2, 1)),
        Addresses(prior_by_address(p.function, trial.calls.context) for p in priors),
        np.array([p.sites for p in priors], dtype=np.int64),
        np.array([p.behind for p in priors], dtype=np.int64),
    )  # fmt: skip


@jit(inner="always")
def differ(here, there):
    """Are two log likelihoods of a datum not the same, to rounding."""
    return not abs(there - here) <= CHANGE * (1.0 + abs(here))


@jit(inner=True)
def remember(watched):
    """Before a sweep: keep what the block is."""
    for j in range(len(watched.values)):
        watched.before[j] = watched.values[j]


@jit(inner="always")
def as_before(watched, first, last):
    """All of the block as it was before the sweep, but for some numbers; `now` keeps what it is."""
    values, now = watched.values, watched.now
    for j in range(len(values)):
        now[j] = values[j]
        values[j] = watched.before[j]
    for j in range(first, last):
        values[j] = now[j]


@jit(inner="always")
def as_now(watched):
    """All of it as it is."""
    for j in range(len(watched.values)):
        watched.values[j] = watched.now[j]


@jit(inner=True)
def sees_others(chain, watched):
    """After a sweep: does a datum or a prior see a site that is not its own; then it must end."""
    if len(watched.values) == 0:
        return False
    trial, count = watched.trial, len(watched.first)
    calls, width, asked = trial.calls, watched.width, watched.asked[0]
    watched.asked[0] += AT_ONCE
    for i in range(AT_ONCE if count > 0 else 0):
        k = (asked + i) % count
        as_before(watched, 0, 0)
        for own in range(watched.first[k], watched.last[k]):
            start = watched.sites[own] * width
            for j in range(start, start + width):
                watched.values[j] = watched.now[j]
        watched.row[0] = k
        call_rows(calls.rewards, calls.context, calls.row, 0, watched.row, watched.seen[1])
        as_now(watched)
        call_rows(calls.rewards, calls.context, calls.row, 0, watched.row, watched.seen[0])
        if differ(watched.seen[0, 0], watched.seen[1, 0]):
            fail(chain.now[0], trial, TOUCHED_BY_OTHERS, 0, trial.indices[k])
            return True
    for k in range(len(watched.priors)):
        site, behind = asked // AT_ONCE * STRIDE % watched.turns[k], watched.behind[k]
        here = call_numbers(watched.priors[k], calls.context, site, 0)
        as_before(watched, max(site - behind, 0) * width, (site + 1) * width * (behind >= 0))
        there = call_numbers(watched.priors[k], calls.context, site, 0)
        as_now(watched)
        if differ(here, there):
            fail(chain.now[0], trial, TOUCHED_BY_OTHERS, k, -1 - site)
            return True
    return False
