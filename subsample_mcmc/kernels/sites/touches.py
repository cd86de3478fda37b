"""Are data and priors of a site all that depends on it; told by changing many sites at once."""

import numpy as np

from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.reads import columns_of_sites
from subsample_mcmc.target.user_functions import plain

LOOKED_AT = 64  # data or sites that are tried
HALVES = 4  # random halves of the sites that are changed
SEVERAL = 10  # sites from which on it is worth a word that each could move by its own data


def could_touch(model, name: str) -> str:
    """What to tell of a block that moves as one, though a datum sees one of its sites; or empty."""
    variable = model.variables[name]
    block, shape = variable.block, variable.block.shape
    if variable.touches is not None or variable.place >= 0 or block.discrete:
        return ""
    if not shape or shape[0] < SEVERAL:
        return ""
    columns = columns_of_sites(model, name)
    if not columns:
        return ""
    told = repr(columns[0]) if len(columns) == 1 else repr(columns)
    seen = " and ".join(f"{name}[data.{column}[n]]" for column in columns)
    return (
        f"of {name!r} a datum sees {seen} alone, of {shape[0]:,}: given touches={{{name!r}: "
        f"{told}}} and site_prior={{{name!r}: f}}, sm.Model lets each move by its own data"
    )


def seen_by(touches, rows) -> tuple[np.ndarray, np.ndarray]:
    """(data, sites): each site that one of these data is said to see, in the order of the data."""
    indptr, indices = touches
    entries = np.flatnonzero(np.isin(indices, rows))  # few, found in one pass
    entries = entries[np.argsort(indices[entries], kind="stable")]
    return indices[entries], np.searchsorted(indptr, entries, side="right") - 1


def told_of(name: str, sites) -> str:
    """Sites, in a message."""
    return ", ".join(f"{name}[{site}]" for site in sites) or "no site"


def check_touches(name: str, model) -> None:
    """Refuse a table of touches that leaves out data which depend on a site, by a sample.

    Of each datum looked at, all the sites that it is said not to see are changed at once: in the
    initial state, and elsewhere, as a zero there may hide what they do.
    """
    variable = model.variables[name]
    block = variable.block
    rng = np.random.default_rng(0)  # the same sample every time
    ints, floats = model.ints.copy(), model.floats.copy()
    state = model.state(ints, floats)
    first, width = block.start, block.length // variable.sites
    values = (ints if block.discrete else floats)[first : first + block.length]
    looked_at = np.unique(rng.integers(model.size, size=LOOKED_AT))
    data, sites = seen_by(variable.touches, looked_at)
    for elsewhere in (False, True):
        if elsewhere:
            change_all(model, ints, floats, rng)
        kept, other = values.copy(), changed(variable, values, rng)
        for n in looked_at:
            seen = sites[data == n]
            values[:] = kept
            before = at(model, state, int(n), elsewhere)
            values[:] = other
            for site in seen:
                part = slice(site * width, (site + 1) * width)
                values[part] = kept[part]
            after = at(model, state, int(n), elsewhere)
            none = np.isnan([before, after])
            if before != after and not (none.any() if elsewhere else none.all()):
                raise ValueError(
                    f"touches[{name!r}]: datum {n} is said to see {told_of(name, seen)}, but its "
                    f"log likelihood goes from {before:.6g} to {after:.6g} where the other "
                    "sites change. Give each datum all the sites that it sees: a tuple of "
                    "columns, or (indptr, indices)."
                )
        values[:] = kept


def changed(variable, values: np.ndarray, rng) -> np.ndarray:
    """Other values of a block, every one of them allowed, and none as it was if there are two."""
    if variable.block.discrete:
        steps = rng.integers(1, max(variable.support, 2), size=len(values))
        return (values + steps) % variable.support
    blocks, other = Moved((variable,)), np.zeros(len(values))
    u = blocks.free_at(values)
    blocks.blocks_at(u + rng.uniform(0.2, 1.0, len(u)), other)
    return other


def change_all(model, ints: np.ndarray, floats: np.ndarray, rng) -> None:
    """Another state, with nothing at zero that might hide a dependence."""
    for v in model.variables.values():
        if v.place < 0:
            flat = (ints if v.block.discrete else floats)[v.block.start :]
            flat[: v.block.length] = changed(v, flat[: v.block.length], rng)


def check_site_prior(name: str, model) -> None:
    """Refuse a prior of sites that leaves out a part which depends on them, by a sample.

    Half of the sites are changed at once: no other site's prior may change with them. Nor may what
    else is in the log prior, where all are changed.
    """
    variable = model.variables[name]
    rng = np.random.default_rng(0)  # the same sample every time
    floats = model.floats.copy()
    state = model.state(model.ints.copy(), floats)
    values = Moved((variable,)).of(floats)
    kept, other = values.copy(), changed(variable, values, rng)
    width = variable.block.length // variable.sites
    of_site = plain(model.site_prior[name], "site_prior", "f(state, site)")
    for _ in range(HALVES):
        moved = rng.random(variable.sites) < 0.5
        still = np.flatnonzero(~moved)
        for site in rng.permutation(still)[:LOOKED_AT]:
            values[:] = kept
            before = called(of_site, state, int(site))
            values[:] = np.where(np.repeat(moved, width), other, kept)
            after = called(of_site, state, int(site))
            if before != after and not np.isnan([before, after]).all():
                raise ValueError(
                    f"site_prior[{name!r}] of site {site} goes from {before:.6g} to {after:.6g} "
                    f"where other sites of {name!r} change, which their moves would not see: leave "
                    "site_prior out and give log_prior the whole, which every move then reads."
                )
    for function, roles, sizes in model.priors:
        if function is model.site_prior[name]:
            continue
        count = sizes.get("site", 1)
        tried = rng.permutation(count)[:LOOKED_AT] if len(roles) > 1 else [0]
        for site in tried:
            given = (int(site),) if len(roles) > 1 else ()
            values[:] = kept
            before = called(plain(function, "log_prior", "f(state)"), state, *given)
            values[:] = other
            after = called(plain(function, "log_prior", "f(state)"), state, *given)
            if before != after and not np.isnan([before, after]).all():
                what = "log_prior" if len(roles) == 1 else f"site_prior of another block, {site},"
                raise ValueError(
                    f"{what} goes from {before:.6g} to {after:.6g} where {name!r} changes, and has "
                    f"site_prior[{name!r}]: the moves of its sites would not see that. Take the "
                    f"part with {name!r} out of it, or leave site_prior[{name!r}] out."
                )


def called(function, state, *given) -> float:
    """A prior, in plain Python."""
    with np.errstate(all="ignore"):
        return float(function(state, *given))


def at(model, state, n: int, elsewhere: bool) -> float:
    """The log likelihood of a datum, in plain Python; elsewhere it may have none: then nan."""
    try:
        with np.errstate(all="ignore"):
            return float(model.log_likelihood(state, model.data, n, *model.extra(state)))
    except Exception:
        if elsewhere:
            return np.nan
        raise
