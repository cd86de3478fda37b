"""Every datum, and every site's prior, is asked whether it sees sites that are not its own.

Before a chain runs, by compiled code: at the initial state, and at others, where all blocks have
other values, discrete ones any. Of each datum all sites are changed at once that it is said not to
see, by a little and by much; of each site's prior all other sites.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.sites.independent import told_before
from subsample_mcmc.kernels.sites.touches import by_datum, is_known, left_out
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_numbers, call_rows, pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.blocks import draw_discrete
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.moved import change_all, changed
from subsample_mcmc.target.population import read_only
from subsample_mcmc.target.rewards import new_memory, trial_of
from subsample_mcmc.target.user_functions import AskedPrior, plain, prior_by_address

AWAY = (0.0, 0.0, 3.0, 10.0)  # how far states are from the initial one, which is the first
SIZES = (1.0, 10.0)  # of changes
SPAN = 1 << 16  # data at a time
MOST = 10_000_000  # data that are asked; of more, some evenly spaced
BEHIND = 8  # sites before its own that a site's prior may read


class Passed:
    """A key under which a model keeps for which blocks all was as it is said."""


DATA, PRIORS = Passed(), Passed()


# ------------------------------------------------------------------------------------------ asking
@jit
def write(values, given):
    """The whole block."""
    for j in range(len(values)):
        values[j] = given[j]


@jit
def ask_prior(asked, values, kept, other, width, behind, before, after):
    """The prior of each site where all sites have the values of `kept`, and where others have not.

    width: numbers of a site of the block; 0: the prior is of another block's sites. behind: sites
    before its own that do not count as others.
    """
    write(values, kept)
    for site in range(len(before)):
        before[site] = call_numbers(asked.read, asked.context, site, 0)
    write(values, other)
    for site in range(len(after)):
        first = max(site - behind, 0)
        for j in range(first * width, (site + 1) * width):
            values[j] = kept[j]
        after[site] = call_numbers(asked.read, asked.context, site, 0)
        for j in range(first * width, (site + 1) * width):
            values[j] = other[j]
    write(values, kept)


@jit
def ask_data(trial, values, kept, other, width, start, first, sites, row, before, after):
    """The same of the log likelihood of each datum from `start` on, and of the sites that it sees.

    first: which part of `sites` these are, datum by datum. row: room for one, and its value.
    """
    calls = trial.calls
    write(values, kept)
    for i in range(len(before)):
        row[0] = start + i
        call_rows(calls.rewards, calls.context, calls.row, 0, row, before[i : i + 1])
    write(values, other)
    for i in range(len(after)):
        own = sites[first[i] : first[i + 1]]
        for site in own:
            for j in range(site * width, (site + 1) * width):
                values[j] = kept[j]
        row[0] = start + i
        call_rows(calls.rewards, calls.context, calls.row, 0, row, after[i : i + 1])
        for site in own:
            for j in range(site * width, (site + 1) * width):
                values[j] = other[j]
    write(values, kept)


class Place(NamedTuple):
    """A state, and a block in it as it is and as it may be, too."""

    ints: np.ndarray
    floats: np.ndarray
    values: np.ndarray  # a view: the block in the state
    kept: np.ndarray
    other: np.ndarray
    elsewhere: bool  # far from the initial state: there need not be a log density


def places(model, name: str) -> Iterator[Place]:
    """States in which all are asked, the same every time."""
    variable, rng = model.variables[name], np.random.default_rng(1)
    block = variable.block
    for number, away in enumerate(AWAY):
        ints, floats = model.ints.copy(), model.floats.copy()
        if number:
            with np.errstate(all="ignore"):
                change_all(model, ints, floats, rng, away)
            draw_discrete(model, ints, rng)
        values = (ints if block.discrete else floats)[block.start : block.start + block.length]
        kept = values.copy()
        for size in SIZES[: 1 if block.discrete else len(SIZES)]:
            with np.errstate(all="ignore"):
                other = changed(variable, values, rng, size)
            yield Place(ints, floats, values, kept, other, number > 0 or size > 1.0)


def trial_at(model, place: Place, touched: np.ndarray) -> Any:
    """The context of a user's functions in a state, of the type that moves of sites have."""
    none = Block("none", False, (0,), 0)
    return trial_of(
        model, place.ints, place.floats, new_memory(model), none, 1, None, (), touched
    )  # fmt: skip


def asked(place: Place, ask: Any) -> bool:
    """Do it; False where a user's function raises, which in another state than the first it may."""
    try:
        with np.errstate(all="ignore"):
            ask()
    except Exception:
        place.values[:] = place.kept
        if place.elsewhere:
            return False
        raise
    return True


def differing(place: Place, before: np.ndarray, after: np.ndarray) -> int:
    """The first of what is not the same, or -1."""
    none = np.isnan(before), np.isnan(after)
    unknown = none[0] | none[1] if place.elsewhere else none[0] & none[1]
    wrong = (before != after) & ~unknown
    return int(np.argmax(wrong)) if wrong.any() else -1


# ------------------------------------------------------------------------------------------- priors
def check_site_prior(name: str, model) -> None:
    """Refuse a prior of sites, one of which depends on another one."""
    if behind := seen_behind(name, model):
        raise ValueError(
            f"site_prior[{name!r}] of a site reads "
            f"{'the site' if behind == 1 else f'the {behind} sites'} before it, too, and here "
            "the prior of each site must be of that site alone."
        )


def sites_behind(name: str, model) -> int:
    """How many sites before its own the prior of a site may read; refuses priors as below.

    As many as its code says, or as many as it may: an indicator that is off where the priors are
    asked may let it read more of them than it was seen to.
    """
    seen = seen_behind(name, model)
    told = told_before(name, model)
    if told is not None and told > BEHIND:
        raise ValueError(
            f"site_prior[{name!r}] reads {name}[site - {told}]: it may read up to {BEHIND} sites "
            "before its own. Leave site_prior out and give log_prior the whole, which every move "
            "then reads; or let rows of data touch both sites."
        )
    return BEHIND if told is None else max(seen, told)


def seen_behind(name: str, model) -> int:
    """How many sites before its own the prior of a site is seen to read: of a walk one.

    Refuses a prior of sites that leaves out a part which depends on them, and which moves miss: no
    site's prior may change with sites after it, or long before it, and nothing else in the log
    prior with the block.
    """
    done = model.prepared.setdefault(PRIORS, {})
    if name in done:
        return done[name]
    variable, behind = model.variables[name], 0
    width, touched = variable.block.length // variable.sites, variable.touches[1]
    for place in places(model, name):
        trial, own = trial_at(model, place, touched), True
        for function, roles, sizes in model.priors:
            if roles == ("state",):
                check_rest(name, model, place)
                continue
            mine = own and function is model.site_prior[name]
            own = own and not mine  # the same function may be another block's, too
            prior = prior_by_address(function, trial.calls.context)
            record = pointer_to(AskedPrior(prior, trial.calls.context))
            before, after = np.zeros((2, sizes["site"]))
            about = record, place.values, place.kept, place.other, width * mine
            while True:
                every = *about, behind, before, after
                if not asked(place, lambda every=every: ask_prior(*every)):
                    break
                site = differing(place, before, after)
                if site < 0:
                    break
                change = f"goes from {before[site]:.6g} to {after[site]:.6g}"
                if not mine:
                    raise ValueError(outside(name, f"site_prior of another block, {site},", change))
                if behind == BEHIND:
                    raise ValueError(far_off(name, site, change))
                behind += 1
    done[name] = behind
    return behind


def far_off(name: str, site: int, change: str) -> str:
    """What to tell of a site's prior that depends on sites which it may not read."""
    first = f" Of site 0, {name}[site - 1] is the last one: it has none before it." * (site == 0)
    return (
        f"site_prior[{name!r}] of site {site} {change} where other sites of {name!r} change, which "
        f"their moves would not see: it may read {name}[site] and up to {BEHIND} sites before it, "
        f"{name}[site - 1] say, as in a walk, each term once, for the last of its sites.{first} Or "
        "leave site_prior out and give log_prior the whole, which every move then reads."
    )


def check_rest(name: str, model, place: Place) -> None:
    """Refuse a log_prior that depends on a block of which sites have priors of their own."""
    rest, found = plain(model.given[3], "log_prior", "f(state)"), np.zeros(2)
    state = model.state(place.ints, place.floats)

    def ask():
        found[0] = rest(state)
        place.values[:] = place.other
        found[1] = rest(state)

    known = asked(place, ask)
    place.values[:] = place.kept
    if known and differing(place, found[:1], found[1:]) == 0:
        change = f"goes from {found[0]:.6g} to {found[1]:.6g}"
        raise ValueError(outside(name, "log_prior", change))


def outside(name: str, what: str, change: str) -> str:
    """What to tell of another part of the log prior that depends on a block."""
    return (
        f"{what} {change} where {name!r} changes, and has site_prior[{name!r}]: the moves of its "
        f"sites would not see that. Take the part with {name!r} out of it, or leave "
        f"site_prior[{name!r}] out."
    )


# --------------------------------------------------------------------------------------------- data
def check_data(name: str, model) -> None:
    """Refuse a table of touches that leaves out data which depend on a site: all are asked.

    Not where the code of log_likelihood says the table.
    """
    done = model.prepared.setdefault(DATA, set())
    if name in done or model.log_likelihood is None or is_known(model, name):
        return
    variable, size = model.variables[name], model.size
    width = variable.block.length // variable.sites
    every = read_only(np.unique(np.linspace(0, size - 1, min(size, MOST)).astype(np.int64)))
    first, sites = by_datum(variable.touches, size)
    row = np.zeros(1, dtype=row_kind(size))
    for place in places(model, name):
        trial = pointer_to(trial_at(model, place, every))
        for start in range(0, len(every), SPAN):
            rows = every[start : start + SPAN]
            own = first[rows], first[rows + 1]
            part = np.concatenate([[0], np.cumsum(own[1] - own[0])])
            seen = sites[first[rows[0]] : first[rows[-1] + 1]]
            if len(rows) != rows[-1] + 1 - rows[0]:  # not all that lie between
                seen = np.concatenate([sites[a:b] for a, b in zip(*own, strict=True)])
            before, after = np.zeros((2, len(rows)))
            about = (
                trial, place.values, place.kept, place.other, width, start, part, seen, row,
                before, after,
            )  # fmt: skip
            if not asked(place, lambda about=about: ask_data(*about)):
                break
            i = differing(place, before, after)
            if i >= 0:
                own_sites = seen[part[i] : part[i + 1]]
                raise ValueError(left_out(name, rows[i], own_sites, before[i], after[i]))
    done.add(name)
