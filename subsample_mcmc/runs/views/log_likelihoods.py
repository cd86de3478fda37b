"""Log likelihoods of every datum at every draw, made as they are read: chains, draws, data.

They are computed from all data: they are not what a race read on the way, and never mini-batch sums
scaled up. `lazily` gives them to xarray, which reads the part that is asked for.
"""

import sys
import time
from typing import Any

import numpy as np

from subsample_mcmc import __version__
from subsample_mcmc.errors import RewardError, warn
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.runs.store.netcdf import tilted
from subsample_mcmc.target.model import ELSEWHERE, LABELS, Model
from subsample_mcmc.target.pointwise import Pointwise, left_out_of
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.row_labels import refuse_wrong_rows

LIMIT = 2_000_000_000  # bytes of log likelihoods that are made at a time
# Seconds of compiled work between two looks at Ctrl-C; seconds after which a bar appears.
PATIENT, SLOW = 0.1, 2.0

VERSIONS = {
    "subsample_mcmc": __version__,
    "Python": ".".join(map(str, sys.version_info[:2])),
    "numpy": np.__version__,
}  # what hashes of functions depend on
FUNCTIONS = ("log_likelihood", "log_prior", "prepare", "predictors")  # parts of a fingerprint


class LogLikelihoods:
    """Those of the model that was sampled, at some draws of each chain of a trace, of some data.

    draws: numbers of draws. rows: numbers of data, as their user counts them, or what picks them
    (a slice, truth values); None: all. progress: a bar; None: where it takes seconds.
    """

    def __init__(self, trace: Any, model: Any, draws: np.ndarray, rows: Any, progress: Any):
        if tilts := tilted(trace.meta):
            warn(
                f"sm.WangLandau tilted {', '.join(tilts)}, so these draws are not from the "
                "posterior: weight their log likelihoods by "
                "trace.model_probabilities(...).weights. az.loo and az.compare do not know of "
                "weights; sample without sm.WangLandau for them.",
            )
        if weighted(model):
            warn(
                "this model has row weights: these are log likelihoods times weights, of no datum "
                "by itself. az.loo and az.compare do not know of weights: compare models of rows "
                "without them."
            )
        if blocks := own_labels(model)[0]:
            warn(
                f"data have a label of their own, in {', '.join(blocks)}: these are log "
                "likelihoods given labels. Where a value of these is hardly ever drawn, az.loo "
                "takes data to be predicted far too well, whatever its k. Sum labels out of the "
                "likelihood, or take sm.kfold."
            )
        self.model, self.flat, self.draws, self.progress = model, trace.flat, draws, progress
        refuse_wrong_rows(rows, model.row_labels)
        self.rows = picked(rows, model.size)
        self.shape = trace.shape[0], len(draws), len(self.rows)

    def __repr__(self) -> str:
        return f"LogLikelihoods(of {self.model!r}, {' x '.join(map(str, self.shape))})"

    def all(self) -> np.ndarray:
        """All of them."""
        return self.read(*map(np.arange, self.shape))

    def read(self, chains: np.ndarray, draws: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Those of some chains, draws and data, by their places here."""
        model, shape = self.model, (len(chains), len(draws), len(rows))
        if (needed := 8 * int(np.prod(shape))) > LIMIT:
            raise ValueError(
                f"{shape[0]} x {shape[1]:,} draws x {shape[2]:,} data are {needed / 1e9:.3g} GB; "
                f"at most {LIMIT / 1e9:.3g} GB are made at a time. Read a part, .isel(obs=slice(0, "
                "1000)), or ask for less, trace.log_likelihood(model, draws=100, rows=slice(0, "
                "1000)). sm.loo and sm.kfold need no such array."
            )
        wanted = self.rows[rows]
        if model.backwards:  # what the model's first datum is comes last to its user
            wanted = model.size - 1 - wanted
        own, back = np.unique(wanted, return_inverse=True)
        found = np.empty((*shape[:2], len(own)))
        with DrawsDone(shape[0] * shape[1], self.progress) as watched:
            for i, chain in enumerate(chains):
                drawn = [np.ascontiguousarray(part[chain, self.draws[draws]]) for part in self.flat]
                self.fill(found[i], drawn, own, watched)
                self.refuse_numbers(found[i], int(chain), self.draws[draws], own)
        every = np.arange(len(own))
        if np.array_equal(back, every):
            return found
        return found[..., ::-1] if np.array_equal(back, every[::-1]) else found[..., back]

    def fill(self, out: np.ndarray, drawn: list, rows: np.ndarray, watched: "DrawsDone") -> None:
        """Write those of rising rows at some states of one chain into out, with all terms."""
        likelihoods, step, done = Pointwise(self.model), 1, 0
        while done < len(out):
            part, then = slice(done, min(done + step, len(out))), time.monotonic()
            likelihoods.into(out[part], drawn[0][part], drawn[1][part], rows)
            watched.more(part.stop - done)
            done = part.stop
            quick = time.monotonic() - then < PATIENT / 2
            step = step * 2 if quick else max(step // 2, 1)
        of_draws, of_data = left_out_of(self.model, *drawn)
        if np.ndim(of_data):
            out += of_data[rows]
        elif np.ndim(of_draws):
            out += of_draws[:, None]

    def refuse_numbers(self, values: np.ndarray, chain: int, draws: np.ndarray, rows) -> None:
        """Refuse nan and +inf: mistakes that a race did not meet if it did not read that datum."""
        bad = ~(values < np.inf)
        if bad.any():
            d, n = (int(i) for i in np.argwhere(bad)[0])
            raise RewardError(
                f"log_likelihood is {values[d, n]} at datum {rows[n]} of draw {draws[d]} of "
                f"chain {chain}: it must be finite, or -inf where the state is impossible. The "
                "chain had not read this datum in this state; mend the function, and sample again."
            )

    def refuse_too_many(self, length: int) -> None:
        """Refuse what Trace.to_arviz cannot hold; length: of the trace."""
        chains, draws, size = self.shape
        needed, fewest = 8 * chains * draws * size, 8 * chains * size
        if needed <= LIMIT:
            return
        thin = -(-length // max(LIMIT // fewest, 1))
        advice = (
            f"take fewer draws, evenly spaced: to_arviz(..., thin={thin}) keeps one of {thin} in "
            "all groups."
            if fewest <= LIMIT
            else "even one draw of each chain is too many; leave log_likelihood out."
        )
        raise ValueError(
            f"log_likelihood={self.model!r}: {chains} x {draws:,} draws x {size:,} data "
            f"are {needed / 1e9:.3g} GB; at most {LIMIT / 1e9:.3g} GB are made: {advice} "
            "trace.log_likelihood(model) makes what is read of it."
        )


def weighted(model: Model) -> bool:
    """Do rows count for several, or for a part: w log p is the log density of no datum."""
    factor = model.log_likelihood if model.predictors is None else model.predictors.log_factor
    column = getattr(getattr(factor, "py_func", factor), "weights", "")
    return bool(column) and bool(np.any(np.asarray(getattr(model.data, column)) != 1.0))


def own_labels(model: Model) -> tuple[list[str], np.ndarray]:
    """(discrete blocks with sites that one datum alone sees; which data see such a site).

    Without touches a block with as many numbers as there are data is taken for their labels.
    """
    names, found = [], np.zeros(model.size, dtype=bool)
    for name, v in model.variables.items():
        if v.support < 2:
            continue
        if v.touches is None:
            alone = np.arange(model.size if v.block.length == model.size > 1 else 0)
        else:
            ends, rows = v.touches
            alone = rows[ends[:-1][np.diff(ends) == 1]]
        if len(alone):
            names.append(name)
            found[alone] = True
    return names, found


class DrawsDone:
    """A bar over draws, which appears where they take long."""

    def __init__(self, total: int, progress: Any):
        self.total, self.progress = total, progress
        self.bar: Bar | None = None
        self.done, self.began = 0, time.monotonic()

    def __enter__(self) -> "DrawsDone":
        return self

    def __exit__(self, *error: Any) -> None:
        if self.bar is not None:
            self.bar.close()

    def more(self, count: int) -> None:
        """So many more draws are done."""
        self.done += count
        late = time.monotonic() - self.began > SLOW * (not self.progress)
        if self.bar is None and self.progress is not False and late:
            self.bar = Bar(total=self.total, desc="log likelihoods", unit="draw")
        if self.bar is not None:
            self.bar.update(self.done - self.bar.n)


def picked(rows: Any, size: int) -> np.ndarray:
    """Numbers of data, of a slice, of numbers or of truth values; None: all."""
    every = np.arange(size)
    try:
        found = every if rows is None else np.atleast_1d(every[rows])
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"rows={rows!r:.60}: give numbers of data, 0 to {size - 1:,}, or a slice of them."
        ) from error
    if found.ndim != 1:
        raise ValueError(f"rows has shape {np.shape(rows)}: give a list of numbers of data.")
    return found


@memoised
def lazy_array() -> type:
    """xarray's kind of arrays that are made as they are read; xarray takes long to import."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Lazy(BackendArray):
        def __init__(self, of: LogLikelihoods):
            self.of, self.shape, self.dtype = of, of.shape, np.dtype(float)

        def __reduce__(self):
            return wrapped, (self.of,)

        def __getitem__(self, key):
            outer = indexing.IndexingSupport.OUTER
            return indexing.explicit_indexing_adapter(key, self.shape, outer, self.read)

        def read(self, key):
            """By a number, a slice or numbers of each axis."""
            at = [np.arange(n)[k] for n, k in zip(self.shape, key, strict=True)]
            made = self.of.read(*map(np.atleast_1d, at))
            return made[tuple(slice(None) if np.ndim(k) else 0 for k in at)]

    return Lazy


def wrapped(of: LogLikelihoods) -> Any:
    """As an array of xarray's."""
    return lazy_array()(of)


def lazily(of: LogLikelihoods) -> Any:
    """As what xarray takes for an array: indexed without being read."""
    from xarray.core import indexing

    return indexing.LazilyIndexedArray(wrapped(of))


# ------------------------------------------------------------------------- is it the same model
def kept_draws(trace: Any, draws: Any) -> np.ndarray:
    """Which draws of each chain are used, where `draws` says how many: these are spread evenly."""
    most = trace.shape[1]
    count = most if draws is None else whole(draws, "draws", "of each chain, at least 1")
    return np.unique(np.linspace(0, most - 1, min(count, most)).astype(int))


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
    if model.beside and needed:
        raise ValueError(
            f"{argument}={model!r}: log likelihoods of its rows have the prior of "
            f"{model.beside[0]} in them, and are not those of data alone. Take PyMC's: "
            "arviz.InferenceData(posterior=sm.pymc.posterior(pm_model, trace)), and "
            "pm.compute_log_likelihood of that."
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
    data = tuple(f"data {field}" for field in model.data._fields)
    parts = *data, ELSEWHERE, *FUNCTIONS
    known = {k: v for k, v in stored.items() if k in parts or k.startswith(("block ", LABELS))}
    # Runs that were stored before had fewer labels.
    today = {k: v for k, v in today.items() if k in stored or not k.startswith(LABELS)}
    if any(stored.get(f"version of {name}") != version for name, version in VERSIONS.items()):
        for name in FUNCTIONS:  # bytecode differs between versions of Python
            known.pop(name, None), today.pop(name, None)
    changed = [k for k in {**known, **today} if known.get(k) != today.get(k)]
    if changed:
        raise ValueError(
            f"{argument}={model!r} is not the model that was sampled: its {', '.join(changed)} "
            "differ, or were changed since. Give the sm.Model that sm.sample was given."
        )
