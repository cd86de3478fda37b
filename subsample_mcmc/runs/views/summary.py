"""ArviZ's summary of a trace's components by their names, for `Trace.summary` and the page."""

import logging
import warnings
from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from subsample_mcmc.runs.store.netcdf import tilted
from subsample_mcmc.target.axes import alone

FEWEST = 4  # draws of a chain that ArviZ needs


def components(trace: Any, most: int, each: int, blocks=None) -> tuple[dict[str, np.ndarray], bool]:
    """Arrays (chains, draws) by name, of the first components, and whether that is all.

    Labels of clusters are only names: nothing is learnt from their means. Nor is it from those of
    what a constraint makes constant.
    """
    kernels = trace.meta["kernels"]
    labels = {name for told in kernels if told.get("labels") for name in told["writes"]}
    found: dict[str, np.ndarray] = {}
    whole = True
    thinned = {
        name: trace.with_gaps(name, v)
        for name, v in trace.thinned.items()
        if v.shape[1] >= FEWEST or blocks is not None
    }
    for name, values in (trace.drawn | thinned).items():
        if name in labels if blocks is None else name not in blocks:
            continue
        constant = set(trace.constant(name))
        places = (s for j, s in enumerate(np.ndindex(values.shape[2:])) if j not in constant)
        for i, site in enumerate(places):
            if len(found) == most or i == each:
                whole = False
                break
            found[alone(trace.axes.label(name, site), found)] = values[(..., *site)]
    return found, whole


def table(found: dict[str, np.ndarray], gaps: Container[str] = ()) -> Any:
    """ArviZ's summary of some components: a pandas table of numbers, a row for each.

    gaps: names of those that some draws do not have; else nan is no number, and has no mean.
    """
    import arviz
    import pandas
    import xarray

    lengths = {values.shape[1] for values in found.values()}
    if len(lengths) > 1:  # of some blocks, not every draw was kept
        parts = [
            table({k: v for k, v in found.items() if v.shape[1] == length}, gaps)
            for length in lengths
        ]
        return pandas.concat(parts).loc[list(found)]
    data = xarray.Dataset({f"x{i}": (("chain", "draw"), v) for i, v in enumerate(found.values())})
    # ArviZ warns and logs about blocks that never moved and single chains: the report does, too.
    # That of 0.x has a logger of its own, which logging.disable does not reach once it has spoken.
    before, own = logging.root.manager.disable, getattr(arviz, "_log", logging.Logger("none"))
    was = own.disabled
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        own.disabled = True
        try:
            made = arviz.summary(data, round_to="none")
        finally:
            logging.disable(before)
            own.disabled = was
    made = made.apply(pandas.to_numeric).set_axis(list(found))
    for name, values in found.items():
        if np.isnan(values).any():  # ArviZ's interval of such an array begins at some number
            made.loc[name] = np.nan
            if name in gaps and not np.isnan(values).all():
                made.loc[name, ["mean", "sd"]] = np.nanmean(values), np.nanstd(values, ddof=1)
    return made


def summary(trace: Any, names: Iterable[str] | str | None) -> Any:
    """See Trace.summary."""
    import pandas

    blocks = [names] if isinstance(names, str) else names if names is None else list(names)
    for name in blocks or ():
        trace.must_have(name)
    if blocks == []:
        raise ValueError("no block is named: give some names, or None for all.")
    if trace.shape[1] < FEWEST:
        raise ValueError(
            f"{trace.shape[1]} draws per chain: ArviZ's summary needs {FEWEST} or more. Take more "
            "draws."
        )
    found, _ = components(trace, 2**62, 2**62, blocks)
    if few := [name for name, values in found.items() if values.shape[1] < FEWEST]:
        raise ValueError(
            f"{found[few[0]].shape[1]} draws of {few[0]} were kept per chain: ArviZ's summary "
            f"needs {FEWEST} or more. Keep more."
        )
    if not found:
        raise ValueError(
            "all blocks are labels of clusters, which are only names: their means say nothing. "
            "Look at their sizes, np.bincount(trace.draws[name][chain, draw]), or name a block."
        )
    gaps = {
        trace.axes.label(name, site)
        for name, values in (trace.draws | trace.thinned).items()
        if trace.in_use(name) is not None
        for site in np.ndindex(values.shape[2:])
    }
    if not tilted(trace.meta):
        return table(found, gaps)
    parts = []  # each chain has a law of its own
    for chain in range(trace.shape[0]):
        own = {name: values[chain : chain + 1] for name, values in found.items()}
        parts.append(table(own, gaps))
    return pandas.concat(parts, keys=range(trace.shape[0]), names=["chain", None])
