"""Which data see which sites of a block; whether they do is told by changing many sites at once."""

import numpy as np

from subsample_mcmc.target.blocks import by_columns
from subsample_mcmc.target.lookups.reads import columns_of_sites
from subsample_mcmc.target.moved import change_all, changed

MANY = 1000  # sites for which a prior of the whole state, at every arm, is no longer sensible
LOOKED_AT = 64  # data that are tried
SEVERAL = 10  # sites from which on it is worth a word that each could move by its own data


def could_touch(model, name: str) -> str:
    """What to tell of a block that moves as one, though a datum sees one of its sites; or empty."""
    variable = model.variables[name]
    block, shape = variable.block, variable.block.shape
    if variable.touches is not None or variable.place >= 0 or block.discrete:
        return ""
    if name in model.together:
        return f"{name!r} moves as one: {model.together[name]}"
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


def by_datum(touches, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(first, sites): the sites that datum n is said to see are sites[first[n]:first[n + 1]]."""
    indptr, indices = touches
    order = np.argsort(indices, kind="stable")
    sites = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[order]
    first = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=size))])
    return first.astype(np.int64), sites.astype(np.int64)


def told_of(name: str, sites) -> str:
    """Sites, in a message."""
    return ", ".join(f"{name}[{site}]" for site in sites) or "no site"


def left_out(name: str, n: int, sites, before: float, after: float) -> str:
    """What to tell of a datum that sees other sites than these."""
    return (
        f"touches[{name!r}]: datum {n} is said to see {told_of(name, sites)}, but its log "
        f"likelihood goes from {before:.6g} to {after:.6g} where the other sites change. Give each "
        "datum all the sites that it sees: a tuple of columns, or (indptr, indices)."
    )


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
                raise ValueError(left_out(name, int(n), seen, before, after))
        values[:] = kept


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
