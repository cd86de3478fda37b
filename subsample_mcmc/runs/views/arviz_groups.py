"""A trace as ArviZ's groups: posterior, sample_stats, decisions, log_likelihood, observed_data.

Pointwise log likelihoods are those of every datum at every draw, computed from all data: they are
not what a race read on the way, and never mini-batch sums scaled up.
"""

import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from subsample_mcmc import __version__
from subsample_mcmc.errors import RewardError, warn
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.runs.store.netcdf import attributes, tilted
from subsample_mcmc.runs.store.thinned import thinned_in
from subsample_mcmc.target.axes import ROWS, Axes, in_nanoseconds
from subsample_mcmc.target.layout import DECISIONS
from subsample_mcmc.target.model import LABELS, Model
from subsample_mcmc.target.pointwise import Pointwise, left_out_of
from subsample_mcmc.target.population import whole

LIMIT = 2_000_000_000  # bytes of log likelihoods that are made at most
# Seconds of compiled work between two looks at Ctrl-C; seconds after which a bar appears.
PATIENT, SLOW = 0.1, 2.0

VERSIONS = {
    "subsample_mcmc": __version__,
    "Python": ".".join(map(str, sys.version_info[:2])),
    "numpy": np.__version__,
}  # what hashes of functions depend on
FUNCTIONS = ("log_likelihood", "log_prior", "prepare", "predictors")  # parts of a fingerprint


def to_arviz(
    trace: Any, flat: Any, observed: Any, log_likelihood: Any, thin: int, progress: Any
) -> Any:
    """See Trace.to_arviz; flat: the integers and the floats of all draws."""
    import xarray

    thin = whole(thin, "thin", "1 for every draw, k for every k-th")
    observed = {} if observed is None else as_dict(observed)
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
        values = pointwise(trace, flat, log_likelihood, kept, progress)
        values = values[..., ::-1] if log_likelihood.backwards else values
        size = values.shape[2]
        name = next(iter(observed)) if len(observed) == 1 else "log_likelihood"
        groups["log_likelihood"] = xarray.Dataset(
            {named(name): (("chain", "draw", ROWS), values)},
            coords={
                **{k: groups[law].coords[k] for k in ("chain", "draw")},
                ROWS: in_nanoseconds(labels.get(ROWS, np.arange(size))),
            },
            attrs=attrs,
        )  # fmt: skip
    if observed:
        groups["observed_data"] = xarray.Dataset(
            {
                named(k): (
                    (ROWS, *Axes().of(k, v.ndim)[1:]) if v.shape[:1] == (size,)
                    else Axes().of(k, v.ndim), v,
                )
                for k, v in observed.items()
            },
            coords={ROWS: in_nanoseconds(labels[ROWS])} if ROWS in labels and size >= 0 else None,
        )  # fmt: skip
    return contained(groups, attrs)


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
    return xarray.Dataset(
        {
            named(k): (("chain", "draw", *axes.of(k, v.ndim - 2)), v[:, kept])
            for k, v in arrays.items()
        },
        coords=at | axes.used(arrays), attrs=attributes(trace.meta, trace.seconds),
    )  # fmt: skip


def thinned_dataset(trace: Any, names: list[str], thin: int = 1) -> Any:
    """The kept draws of blocks of which every k-th is, one k for all, as xarray's Dataset.

    thin: of what the draws' numbers must be multiples, too.
    """
    import xarray

    every = trace.every(names[0])
    step = np.lcm(every, thin) // every
    found = {name: trace.with_gaps(name, trace.thinned[name])[:, ::step] for name in names}
    draws = np.arange(next(iter(found.values())).shape[1]) * every * step
    return xarray.Dataset(
        {
            named(k): (("chain", "draw", *trace.axes.of(k, v.ndim - 2)), v)
            for k, v in found.items()
        },
        coords={"chain": np.arange(trace.shape[0]), "draw": draws} | trace.axes.used(found),
        attrs=attributes(trace.meta, trace.seconds),
    )  # fmt: skip


# ------------------------------------------------------------------------- log likelihoods
def pointwise(trace: Any, flat: Any, model: Any, kept: slice, progress: Any) -> np.ndarray:
    """Log likelihoods (chains, draws, N) of every datum at some draws of a trace."""
    check(trace, model)
    chains, draws = trace.shape[0], len(range(*kept.indices(trace.shape[1])))
    needed = 8 * chains * draws * model.size
    if needed > LIMIT:
        fewest = 8 * chains * model.size
        thin = -(-trace.shape[1] // max(LIMIT // fewest, 1))
        advice = (
            f"take fewer draws, evenly spaced: to_arviz(..., thin={thin}) keeps one of {thin} in "
            "all groups."
            if fewest <= LIMIT
            else "even one draw of each chain is too many; leave log_likelihood out."
        )
        raise ValueError(
            f"log_likelihood={model!r}: {chains} x {draws:,} draws x {model.size:,} data "
            f"are {needed / 1e9:.3g} GB; at most {LIMIT / 1e9:.3g} GB are made: {advice}"
        )
    if tilts := tilted(trace.meta):
        warn(
            f"sm.WangLandau tilted {', '.join(tilts)}, so these draws are not from the posterior: "
            "weight their log likelihoods by trace.model_probabilities(...).weights. az.loo and "
            "az.compare do not know of weights; sample without sm.WangLandau for them.",
        )
    found = np.empty((chains, draws, model.size))
    likelihoods, rows = Pointwise(model), np.arange(model.size)
    bar, began, step = None, time.monotonic(), 1
    try:
        for c in range(chains):
            drawn, done = [np.ascontiguousarray(part[c, kept]) for part in flat], 0
            while done < draws:
                until, then = min(done + step, draws), time.monotonic()
                part = slice(done, until)
                likelihoods.into(found[c, part], drawn[0][part], drawn[1][part], rows)
                done, now = until, time.monotonic()
                step = step * 2 if now - then < PATIENT / 2 else max(step // 2, 1)
                if bar is None and progress is not False and now - began > SLOW * (not progress):
                    bar = Bar(total=chains * draws, desc="log likelihoods", unit="draw")
                if bar is not None:
                    bar.update(c * draws + done - bar.n)
            of_draws, of_data = left_out_of(model, *drawn)
            if np.ndim(of_draws) or np.ndim(of_data):
                found[c] += of_data + np.reshape(of_draws, (-1, 1))
            refuse_numbers(found[c], c, kept)
    finally:
        if bar is not None:
            bar.close()
    return found


def check(
    trace: Any, model: Any, argument: str = "log_likelihood", needs_likelihood: bool = False
) -> None:
    """Refuse what is not the model that was sampled; argument: as what it was given."""
    if not isinstance(model, Model):
        raise TypeError(
            f"log_likelihood={model!r:.60}: give the sm.Model that was sampled, whose function "
            "is then evaluated at every draw and datum."
        )
    needed = needs_likelihood or argument == "log_likelihood"
    if model.log_likelihood is None and needed:
        advice = " Leave log_likelihood out." if argument == "log_likelihood" else ""
        raise ValueError(
            f"{argument}={model!r} has no log_likelihood of single data: its kernels bring a "
            f"target of their own.{advice}"
        )
    gone = [name for name in model.names if name not in trace.draws]
    if trace.meta.get("keep") and gone:
        raise ValueError(
            f"{argument}={model!r}: draws of {', '.join(gone)} were not kept, not all of them at "
            "least, and each datum may depend on them: sample with all blocks kept."
        )
    kept = tuple(b for b in trace.layout.blocks if b.name in model.names)
    if model.blocks != kept:
        mine, its = (
            ", ".join(f"{b.name}{list(b.shape)}" for b in blocks)
            for blocks in (model.blocks, trace.layout.blocks)
        )
        raise ValueError(
            f"{argument}={model!r} is not the model that was sampled: its blocks are {mine}, "
            f"those of the draws {its}. Give the sm.Model that sm.sample was given."
        )
    stored = trace.meta.get("fingerprints")
    if not stored:
        return
    today = model.fingerprints()
    parts = tuple(f"data {field}" for field in model.data._fields) + FUNCTIONS
    known = {k: v for k, v in stored.items() if k in parts or k.startswith(("block ", LABELS))}
    if not any(k.startswith(LABELS) for k in stored):  # runs that were stored before had none
        today = {k: v for k, v in today.items() if not k.startswith(LABELS)}
    if any(stored.get(f"version of {name}") != version for name, version in VERSIONS.items()):
        for name in FUNCTIONS:  # bytecode differs between versions of Python
            known.pop(name, None), today.pop(name, None)
    changed = [k for k in {**known, **today} if known.get(k) != today.get(k)]
    if changed:
        raise ValueError(
            f"{argument}={model!r} is not the model that was sampled: its {', '.join(changed)} "
            "differ, or were changed since. Give the sm.Model that sm.sample was given."
        )


def refuse_numbers(values: np.ndarray, chain: int, kept: slice) -> None:
    """Refuse nan and +inf: mistakes that a race did not meet if it did not read that datum."""
    bad = ~(values < np.inf)
    if bad.any():
        d, n = (int(i) for i in np.argwhere(bad)[0])
        raise RewardError(
            f"log_likelihood is {values[d, n]} at datum {n} of draw {d * (kept.step or 1)} of "
            f"chain {chain}: it must be finite, or -inf where the state is impossible. The chain "
            "had not read this datum in this state; mend the function, and sample again."
        )


# ----------------------------------------------------------------------------------- names
def as_dict(observed: Any) -> dict[str, np.ndarray]:
    """Data as arrays by name, from a dict or a named tuple."""
    if hasattr(observed, "_asdict"):
        observed = observed._asdict()
    if not isinstance(observed, Mapping):
        raise TypeError(
            f"observed={observed!r:.60} is a {type(observed).__name__}; it must be a dict of "
            "arrays, like the data given to sm.Model: observed={'y': y}."
        )
    return {name: np.asarray(values) for name, values in observed.items()}


def named(name: str) -> str:
    """A name that netCDF allows: it reserves the slash."""
    return name.replace("/", "|")
