"""Data that a table of touches leaves out: looked at again as the chain runs.

Before it runs, a sample of the data is asked in two states (touches.py). What neither shows, as an
indicator is off there or a loss flat, shows in another, and the moves of a site would not see it:
so after each sweep two data are asked whether they see more of it than the sites that are theirs.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.base import TOUCHED_BY_OTHERS
from subsample_mcmc.kernels.decision import fail
from subsample_mcmc.kernels.sites.touches import seen_by
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_rows
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.blocks import by_columns
from subsample_mcmc.target.lookups.reads import columns_of_sites
from subsample_mcmc.target.rewards import make_trial

# Data at random that are asked again as the chain runs, and how many at once; a change that is none
# of rounding, of a log likelihood and of 1.
WATCHED, AT_ONCE, CHANGE = 1_024, 2, 1e-6


class Watched(NamedTuple):
    """What data are asked with; without data, nothing is asked."""

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


class Tables:
    """A key under which a model keeps which data of a block are looked at again."""


TABLES = Tables()


class LookedAt(NamedTuple):
    """Data, and the sites that each is said to see: sites[first:last]."""

    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray
    sites: np.ndarray


def is_known(model, name: str) -> bool:
    """Is the table of a block the one that the code of log_likelihood says."""
    columns, (indptr, indices) = columns_of_sites(model, name), model.variables[name].touches
    if not columns:
        return False
    given = [np.asarray(getattr(model.data, column)) for column in columns]
    if any(c.shape != (model.size,) or c.min() < 0 for c in given):
        return False
    wanted = by_columns(given, len(indptr) - 1)
    return all(np.array_equal(*both) for both in zip(wanted, (indptr, indices), strict=True))


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


def watched(model, run, name: str, trial) -> Watched:
    """What one chain looks at again of a block; nothing where there is no need.

    trial: the kernel's own, of rows that its sites touch, or of all.
    """
    variable, none = model.variables[name], np.zeros(0, dtype=np.int64)
    block, table = variable.block, LookedAt(none, none, none, none)
    whole = run.part is None  # of parts that move side by side, the whole is watched
    if whole and variable.touches is not None and trial.indices is variable.touches[1]:
        table = looked_at(model, name)
    rows = table.rows
    values = run.ints if block.discrete else run.floats
    values = values[block.start : block.start + (block.length if len(rows) else 0)]
    if len(rows):
        leaf = trial.target["leaf"]
        trial = make_trial(model, run, block, 1, touched=rows)
        trial.target["leaf"] = leaf
    return Watched(
        trial, values, values.copy(), values.copy(),
        table.first, table.last, table.sites, block.length // variable.sites,
        np.zeros(1, dtype=np.int64), np.zeros(1, dtype=row_kind(model.size)), np.zeros((2, 1)),
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


@jit(inner=True)
def sees_others(chain, watched):
    """After a sweep: does a datum see a site that is not its own; then the chain must end."""
    trial, count = watched.trial, len(watched.trial.indices)
    calls = trial.calls
    values, before, now = watched.values, watched.before, watched.now
    for _ in range(AT_ONCE if len(values) > 0 else 0):
        k = watched.asked[0] % count
        watched.asked[0] += 1
        for j in range(len(values)):
            now[j] = values[j]
            values[j] = before[j]
        for i in range(watched.first[k], watched.last[k]):
            start = watched.sites[i] * watched.width
            for j in range(start, start + watched.width):
                values[j] = now[j]
        watched.row[0] = k
        call_rows(calls.rewards, calls.context, calls.row, 0, watched.row, watched.seen[1])
        for j in range(len(values)):
            values[j] = now[j]
        call_rows(calls.rewards, calls.context, calls.row, 0, watched.row, watched.seen[0])
        if differ(watched.seen[0, 0], watched.seen[1, 0]):
            fail(chain.now[0], trial, TOUCHED_BY_OTHERS, 0, trial.indices[k])
            return True
    return False
