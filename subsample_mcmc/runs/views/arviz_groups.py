"""A trace as ArviZ's groups: posterior, sample_stats, decisions, log_likelihood, observed_data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from subsample_mcmc.runs.store.netcdf import attributes
from subsample_mcmc.runs.store.thinned import thinned_in
from subsample_mcmc.runs.views.log_likelihoods import LogLikelihoods, check, kept_draws, lazily
from subsample_mcmc.target.axes import ROWS, Axes, in_nanoseconds
from subsample_mcmc.target.data import not_masked
from subsample_mcmc.target.elsewhere.resident import refuse_rows_elsewhere
from subsample_mcmc.target.layout import DECISIONS
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.row_labels import refuse_other_rows


def to_arviz(trace: Any, observed: Any, log_likelihood: Any, thin: int, progress: Any) -> Any:
    """See Trace.to_arviz."""
    import xarray

    thin = whole(thin, "thin", "1 for every draw, k for every k-th")
    row_labels = trace.row_labels
    if row_labels is None:  # of a stored run
        row_labels = getattr(log_likelihood, "row_labels", None)
    observed = {} if observed is None else as_dict(observed, row_labels)
    kept = slice(0, trace.shape[1], thin)
    attrs = attributes(trace.meta, trace.seconds)
    labels = trace.axes.coords
    law = law_of(trace)
    groups = {law: dataset(trace, trace.drawn, kept)}
    thinned = thinned_in(trace.meta)
    for place in dict.fromkeys(block.group for block in thinned):
        names = [block.name for block in thinned if block.group == place]
        groups[place] = thinned_dataset(trace, names, thin)
    tallies: dict[str, np.ndarray] = {}
    rest: dict[str, np.ndarray] = {}
    for kernel, fields in trace.stats.items():
        for field, values in fields.items():
            group = tallies if field in DECISIONS else rest
            label = f"{kernel}_{field}"
            while label in group:  # kernels "a" and "a_b" with fields "b_c" and "c"
                label += "_"
            group[label] = values
    groups["sample_stats"] = dataset(trace, rest, kept)
    groups["decisions"] = dataset(trace, tallies, kept)
    size = -1
    if log_likelihood is not None:
        refuse_rows_elsewhere(log_likelihood, "log_likelihood=")
        check(trace, log_likelihood)
        every = np.arange(trace.shape[1])[kept]
        found = LogLikelihoods(trace, log_likelihood, every, None, progress)
        found.refuse_too_many(trace.shape[1])
        size = found.shape[2]
        name = next(iter(observed)) if len(observed) == 1 else "log_likelihood"
        groups["log_likelihood"] = likelihoods(trace, found, found.all(), name)
    if observed:
        made = xarray.Dataset(
            {
                named(k): (
                    (ROWS, *Axes().of(k, v.ndim)[1:]) if v.shape[:1] == (size,)
                    else Axes().of(k, v.ndim), v,
                )
                for k, v in observed.items()
            },
            coords={ROWS: in_nanoseconds(labels[ROWS])} if ROWS in labels and size >= 0 else None,
        )  # fmt: skip
        groups["observed_data"] = numbered(made)
    return contained(groups, attrs)


def likelihoods(trace: Any, of: LogLikelihoods, values: Any, name: str) -> Any:
    """The group of log likelihoods, or a part of it: values are numbers, or are made when read."""
    import xarray

    labels = trace.axes.coords.get(ROWS)
    return xarray.Dataset(
        {named(name): (("chain", "draw", ROWS), values)},
        coords={
            "chain": np.arange(trace.shape[0]), "draw": of.draws,
            ROWS: in_nanoseconds(of.rows if labels is None else labels[of.rows]),
        },
        attrs=attributes(trace.meta, trace.seconds),
    )  # fmt: skip


def log_likelihood(trace: Any, model: Any, draws: Any, rows: Any) -> Any:
    """See Trace.log_likelihood."""
    kept = kept_draws(trace, draws)
    refuse_rows_elsewhere(model, "trace.log_likelihood")
    check(trace, model, "model", needs_likelihood=True)
    found = LogLikelihoods(trace, model, kept, rows, None)
    return likelihoods(trace, found, lazily(found), "log_likelihood")


def law_of(trace: Any) -> str:
    """What a trace's draws are from, as ArviZ names groups: posterior, or prior."""
    return trace.meta.get("law", "posterior")


def contained(groups: dict[str, Any], attrs: Mapping) -> Any:
    """ArviZ's container of Datasets by group."""
    import arviz
    import xarray

    if int(arviz.__version__.split(".")[0]) >= 1:
        tree = xarray.DataTree.from_dict(groups)
        tree.attrs.update(attrs)
        return tree
    return arviz.InferenceData(attrs=attrs, **groups)


def dataset(trace: Any, arrays: Mapping[str, np.ndarray], kept: Any = slice(None)) -> Any:
    """Arrays (chains, draws, ...) by name as xarray's Dataset; of a slice of draws, no copies."""
    import xarray

    axes = trace.axes
    at = {"chain": np.arange(trace.shape[0]), "draw": np.arange(trace.shape[1])[kept]}
    made = xarray.Dataset(
        {
            named(k): (("chain", "draw", *axes.of(k, v.ndim - 2)), v[:, kept])
            for k, v in arrays.items()
        },
        coords=at | axes.used(arrays), attrs=attributes(trace.meta, trace.seconds),
    )  # fmt: skip
    return numbered(made)


def numbered(dataset: Any) -> Any:
    """The same, with the numbers of places along axes without labels: some of ArviZ's plots ask."""
    bare = {a: np.arange(n) for a, n in dataset.sizes.items() if a not in dataset.coords}
    return dataset.assign_coords(bare)


def thinned_dataset(trace: Any, names: list[str], thin: int = 1) -> Any:
    """The kept draws of blocks of which every k-th is, one k for all, as xarray's Dataset.

    thin: of what the draws' numbers must be multiples, too.
    """
    import xarray

    every = trace.every(names[0])
    step = np.lcm(every, thin) // every
    found = {name: trace.with_gaps(name, trace.thinned[name])[:, ::step] for name in names}
    draws = np.arange(next(iter(found.values())).shape[1]) * every * step
    made = xarray.Dataset(
        {
            named(k): (("chain", "draw", *trace.axes.of(k, v.ndim - 2)), v)
            for k, v in found.items()
        },
        coords={"chain": np.arange(trace.shape[0]), "draw": draws} | trace.axes.used(found),
        attrs=attributes(trace.meta, trace.seconds),
    )  # fmt: skip
    return numbered(made)


# ----------------------------------------------------------------------------------- names
def as_dict(observed: Any, row_labels: Any) -> dict[str, np.ndarray]:
    """Data as arrays by name, from a dict or a named tuple; row_labels: of the model, if known."""
    if hasattr(observed, "_asdict"):
        observed = observed._asdict()
    if not isinstance(observed, Mapping):
        raise TypeError(
            f"observed={observed!r:.60} is a {type(observed).__name__}; it must be a dict of "
            "arrays, like the data given to sm.Model: observed={'y': y}."
        )
    for name, values in observed.items():
        refuse_other_rows(f"observed {name}", values, row_labels)
    return {
        name: np.asarray(
            not_masked(values, f"observed {name}", "give NaN instead, x.filled(np.nan).")
        )
        for name, values in observed.items()
    }


def named(name: str) -> str:
    """A name that netCDF allows: it reserves the slash."""
    return name.replace("/", "|")
