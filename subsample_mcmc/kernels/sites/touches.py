"""Are the data that sites are said to touch all that depend on them."""

import numpy as np

from subsample_mcmc.target.moved import Moved

LOOKED_AT = 64  # data that a table of touches is tried on


def check_touches(name: str, model) -> None:
    """Refuse a table of touches that leaves out data which depend on a site, by a sample.

    Of each datum looked at, all the sites that it is said not to see are changed at once.
    """
    variable = model.variables[name]
    block, (indptr, indices) = variable.block, variable.touches
    blocks, rng = Moved((variable,)), np.random.default_rng(0)  # the same sample every time
    floats = model.floats.copy()
    state = model.state(model.ints.copy(), floats)
    values, other = blocks.of(floats), np.zeros(block.length)
    kept = values.copy()
    u = blocks.free_at(kept)
    blocks.blocks_at(u + rng.uniform(0.2, 1.0, len(u)), other)
    width = block.length // variable.sites
    looked_at = np.unique(rng.integers(model.size, size=LOOKED_AT))
    entries = np.flatnonzero(np.isin(indices, looked_at))  # few, found in one pass
    sites_of = np.searchsorted(indptr, entries, side="right") - 1
    for n in looked_at:
        seen = sites_of[indices[entries] == n]
        values[:] = kept
        before = at(model, state, int(n))
        values[:] = other
        for site in seen:
            values[site * width : (site + 1) * width] = kept[site * width : (site + 1) * width]
        after = at(model, state, int(n))
        if before != after and not (np.isnan(before) and np.isnan(after)):
            sites = ", ".join(f"{name}[{site}]" for site in seen) or "no site"
            raise ValueError(
                f"touches[{name!r}]: datum {n} is said to see {sites}, but its log likelihood goes "
                f"from {before:.6g} to {after:.6g} where the other sites change. Give each datum "
                "all the sites that it sees: a tuple of columns, or (indptr, indices)."
            )


def at(model, state, n: int) -> float:
    """The log likelihood of a datum, in plain Python."""
    with np.errstate(all="ignore"):
        return float(model.log_likelihood(state, model.data, n, *model.extra(state)))
