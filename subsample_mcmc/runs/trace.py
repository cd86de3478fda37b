"""What `sample` returns: the draws by name, what every kernel counted, and ways to look at both."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.records import similar
from subsample_mcmc.runs.counts import Counts, stats_of
from subsample_mcmc.runs.store import netcdf, store
from subsample_mcmc.runs.store.thinned import thinned_in
from subsample_mcmc.runs.views import arviz_groups
from subsample_mcmc.runs.views.costs import seconds_of
from subsample_mcmc.runs.views.mixing import Mixing, mixing_of
from subsample_mcmc.runs.views.probabilities import ModelProbabilities, probabilities
from subsample_mcmc.runs.views.relabelled import in_words, relabelled
from subsample_mcmc.runs.views.report import Report
from subsample_mcmc.runs.views.summary import summary
from subsample_mcmc.target.axes import alone
from subsample_mcmc.target.layout import TALLY, Layout


class ChainDraws(NamedTuple):
    """All of one chain, in memory."""

    ints: np.ndarray  # (draws, layout.ints)
    floats: np.ndarray  # (draws, layout.floats)
    counts: Counts
    checkpoint: dict[str, np.ndarray] | None  # after the last draw; None: nothing to go on from
    seconds: float  # of sampling so far
    thinned: tuple[np.ndarray, ...] = ()  # of blocks of which not every draw is kept
    processor: float = 0.0  # seconds in which its steps had a core; 0: not known


def together(parts: list[np.ndarray], length: int) -> np.ndarray:
    """Chains as one array (chains, draws, ...) of a length; not copied if they are one array's."""
    base = parts[0].base
    if base is not None and base.shape[:1] == (len(parts),) and base.ndim == 3:
        if all(
            own.shape[1:] == part.shape[1:] and own.ctypes.data == part.ctypes.data
            for own, part in zip(base, parts, strict=True)
        ):
            return base[:, :length]
    return np.stack([part[:length] for part in parts])


class Trace:
    """Draws of every block, (chains, draws, ...), and what every kernel counted per draw.

    `draws["theta"]` has the shape of the block behind (chains, draws); `trace["theta"]` is the same
    as xarray's DataArray, with the names that the model gave to axes; `stats[kernel][field]` is
    (chains, draws). `len(trace)` is the draws of a chain. Blocks of which only every k-th draw was
    kept, keep={"z": 100}, are in `thinned`, (chains, draws / 100, ...), and in trace["z"].
    `summary`, `to_arviz`, `to_frame`, `report` and `plot` are views of the same numbers; `meta`
    says how they were made, `seconds` how long each chain took, and `processor` for how much of it
    its steps had a core, in the chain's own thread (0: not known, as of stored runs).

    meta: how the draws were made, as runs write it down.
    chains: what each chain drew and counted; sm.sample and sm.load make them.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> trace = sm.sample(model, sm.Gibbs("k"), draws=50, warmup=0, chains=2, seed=1)
        >>> trace.draws["k"].shape, trace.stats["k"]["pulls"].shape
        ((2, 50), (2, 50))
        >>> trace.to_frame().columns.tolist()
        ['chain', 'draw', 'k']
        >>> float(trace["k"].mean())  # xarray, with the names that the model's axes have
        3.0
    """

    def __init__(self, meta: dict[str, Any], chains: Sequence[Any]):
        if not chains:
            raise ValueError("no chains were given; a trace needs one or more. Sample first.")
        self.meta = meta
        self.layout = Layout.from_json(meta["layout"])
        self.axes = netcdf.axes_in(meta)
        # Chains of an interrupted run end at different draws; arrays need one length.
        length = min(len(chain.ints) for chain in chains)
        ints, floats = (
            together([np.asarray(getattr(chain, part)) for chain in chains], length)
            for part in ("ints", "floats")
        )
        self.flat = ints, floats
        self._counts = [
            chain.counts if isinstance(chain, ChainDraws) else Counts.of(np.asarray(chain.words))
            for chain in chains
        ]
        self.made = [len(counts) for counts in self._counts]  # draws, before chains were cut
        whole = all(len(chain.ints) == length for chain in chains)
        self._states = [getattr(c, "checkpoint", None) for c in chains]
        self._checkpoints = self._states if whole else [None] * len(chains)
        self.interrupted = False  # ended by Ctrl-C
        # Where rows are elsewhere, of this call: rows fetched, sums over all, seconds waited.
        self.fetched: Any = None
        self.row_labels: Any = None  # what pandas calls the model's rows, of a run made here
        self.shape = (len(chains), length)
        self.seconds = np.array([float(chain.seconds) for chain in chains])
        self.processor = np.array([float(getattr(chain, "processor", 0.0)) for chain in chains])
        self.draws = self.layout.draws(ints, floats)
        self.thinned = thinned_draws(meta, chains, length)
        self.stats = stats_of(self.layout, self._counts, length)

    @property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All that was drawn and counted: (chains, draws, ...) of integers, floats, words."""
        words = [counts.words()[: self.shape[1]] for counts in self._counts]
        return (*self.flat, np.stack(words))

    def __repr__(self) -> str:
        chains, draws = self.shape
        blocks = [f"{b.name} {b.shape if b.shape else 'scalar'}" for b in self.layout.blocks]
        blocks += [f"{b.name} {b.shape} of every {b.every}th" for b in thinned_in(self.meta)]
        shown = ", ".join(blocks[:6]) + (", ..." if len(blocks) > 6 else "")
        read, whole = (
            sum(int(s.total(field)) for s in self.stats.values())
            for field in ("pulls", "everything")
        )
        share = f"; {100 * read / whole:.3g}% of the data read" if whole else ""
        count = f"{chains} chain{'s' * (chains != 1)} x {draws:,} draws"
        if self.meta.get("law"):
            count += f" of the {self.meta['law']}"
        return f"Trace({count}; {shown}{share}; guarantee: {self.meta['guarantee']})"

    def _repr_html_(self) -> str:
        from subsample_mcmc.runs.views.html_page import short

        return short(self)

    def __getitem__(self, name: str) -> Any:
        self.must_have(name)
        if name in self.thinned:
            return arviz_groups.thinned_dataset(self, [name])[arviz_groups.named(name)]
        return self.posterior[arviz_groups.named(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.draws or name in self.thinned

    def __iter__(self) -> Iterator[str]:
        return iter(self.draws)

    def __len__(self) -> int:
        return self.shape[1]

    def __bool__(self) -> bool:
        return True

    def must_have(self, name: Any) -> None:
        """Refuse what is no block of the draws.

        name: of a block.
        """
        known = (*self.draws, *self.thinned)
        if name not in known:
            raise KeyError(
                f"{name!r} is no block of these draws, which are of {', '.join(known)}."
                f"{similar(str(name), known)}"
            )

    @property
    def posterior(self) -> Any:
        """All blocks as xarray's Dataset of dimensions chain, draw and the blocks' own; no copy.

        Components that a draw does not have (sm.Model(lengths=...)) are nan.
        """
        return arviz_groups.dataset(self, self.drawn)

    def in_use(self, name: str) -> np.ndarray | None:
        """Which components each draw of a block has, (chains, draws, length); None: all.

        name: of a block.
        """
        told = (self.meta.get("lengths") or {}).get(name)
        if told is None or told["by"] not in self.draws:
            return None
        counts = np.asarray(told["lengths"])[self.draws[told["by"]]]
        if name in self.thinned:
            counts, length = counts[:, :: self.every(name)], self.thinned[name].shape[2]
            return np.arange(length) < counts[..., None]
        return np.arange(self.draws[name].shape[2]) < counts[..., None]

    def constant(self, name: str) -> list[int]:
        """Places in a block, flat, that its constraint makes constant: zeros above a diagonal.

        name: of a block.
        """
        return (self.meta.get("constant") or {}).get(name, [])

    def every(self, name: str) -> int:
        """Of how many draws one is kept, of a block.

        name: of a block.
        """
        return next((b.every for b in thinned_in(self.meta) if b.name == name), 1)

    @property
    def drawn(self) -> dict[str, np.ndarray]:
        """The draws by block, nan where a draw does not have a component."""
        return {name: self.with_gaps(name, values) for name, values in self.draws.items()}

    def with_gaps(self, name: str, values: np.ndarray) -> np.ndarray:
        """Draws of a block, nan where a draw does not have a component.

        name: of a block.
        values: its draws.
        """
        used = self.in_use(name)
        return values if used is None else np.where(used, values, np.nan)

    def summary(self, names: Sequence[str] | str | None = None) -> Any:
        """ArviZ's summary as a pandas table of numbers: a row per component, beta[age] by name.

        names: of blocks; default all but labels of clusters, which are only names.

        What a constraint makes constant is left out, such as zeros above a diagonal. Draws that
        sm.WangLandau tilted are told chain by chain: each has a law of its own, which is not the
        posterior.
        """
        return summary(self, names)

    def save(self, path: str | os.PathLike) -> None:
        """Write one netCDF file that arviz reads, sm.load gives back and sm.resume goes on from.

        path: of the file.
        """
        meta = self.meta | {"draws": self.shape[1], "chains": self.shape[0]}
        seconds = seconds_of(self).tolist()
        with store.Journal.create(path, meta) as journal:
            for i, blocks in enumerate(zip(*self.flat, strict=True)):
                words, state = self._counts[i].words()[: self.shape[1]], self._checkpoints[i] or {}
                kept = [v[i].reshape(len(v[i]), -1) for v in self.thinned.values()]
                journal.append(i, *blocks, words, state, seconds[i], kept)
        store.finish(path)

    def relabel(
        self, labels: Any = None, *, by: Any, blocks: Any = None, model: Any = None
    ) -> "Trace":
        """A trace in which the components of each draw are in order: for label switching.

        by: the block that they are sorted by, rising, an entry of its first axis each; of rows,
            by=("mu", 0) sorts by column 0.
        labels: discrete blocks whose values are numbers of components, "z"; they change with them.
        blocks: others with an entry for each component, along their first axis; {"P": (0, 1)} for
            those along other ones. Where the model names axes (sm.Model(dims={"mu": ["component"],
            "w": ["feature", "component"]})), those of the same axis, wherever it is.
        model: the sm.Model that was sampled: then it is looked at, in 20 draws, whether it is the
            same when components trade names. Of a model that is not, sorted draws are of no law.

        What does not depend on names is as it was: predictions, log likelihoods, densities. One
        number orders components: where those of two come near each other, their laws are cut off
        there. Functions of the state that were kept, keep={"first": f}, stay as they are, with a
        warning. The new trace cannot be resumed.

        Example:
            >>> def log_likelihood(state, data, n):
            ...     return -0.5 * (data.y[n] - state.mu[state.z[data.own[n]]]) ** 2
            >>> y, own = np.repeat([-3.0, 3.0], 20), np.arange(40)
            >>> model = sm.Model(
            ...     log_likelihood, {"y": y, "own": own}, support={"z": 2}, touches={"z": "own"},
            ...     state={"mu": [3.0, -3.0], "z": np.zeros(40, int)},
            ... )
            >>> kernel = sm.Gibbs("z", sm.Exact()) >> sm.Metropolis("mu", 0.2)
            >>> trace = sm.sample(model, kernel, 100, 100, seed=1, progress=False)
            >>> ordered = trace.relabel("z", by="mu", model=model)
            >>> bool((np.diff(ordered.draws["mu"]) >= 0.0).all()), int(ordered.draws["z"][0, 0, 0])
            (True, 0)
        """
        parts = relabelled(self, labels, by, blocks, model)
        prints = dict(self.meta.get("fingerprints") or {})
        prints["relabelled"] = in_words(labels, by, blocks)
        chains = [
            ChainDraws(
                parts.ints[i], parts.floats[i], self._counts[i], None, float(self.seconds[i]),
                tuple(v[i].reshape(len(v[i]), -1) for v in parts.thinned.values()),
            )
            for i in range(self.shape[0])
        ]  # fmt: skip
        made = Trace(self.meta | {"fingerprints": prints}, chains)
        made.row_labels = self.row_labels
        return made

    def report(self) -> Report:
        """A verdict, warnings, a summary, what the run cost and how audited decisions fared."""
        return Report(self)

    def model_probabilities(
        self, name: str, labels: Sequence | None = None, prior: Any = None, against: Any = None
    ) -> ModelProbabilities:
        """Posterior probabilities and Bayes factors of a discrete block's values, with errors.

        Tilts of sm.WangLandau are undone. Bayes factors are posterior odds over prior odds.

        name: of the block.
        labels: names of the values, in order.
        prior: the prior probability that the model gives each value; default: uniform.
        against: the value that others are compared with; default: the most probable one.
        """
        return probabilities(self, name, labels, prior, against)

    def learnt(self, kernel: str, array: str) -> list[np.ndarray | None]:
        """An array that a kernel keeps in checkpoints, by chain; None where none is stored.

        kernel: its label, as in stats.
        array: its name.
        """
        labels = [told["label"] for told in self.meta["kernels"]]
        if kernel not in labels:
            raise KeyError(
                f"{kernel!r} is no kernel of this run, which had {', '.join(labels)}."
                f"{similar(str(kernel), labels)}"
            )
        at = labels.index(kernel)
        return [(state or {}).get(f"kernel {at}.{array}") for state in self._states]

    def mixing(self, name: str) -> Mixing:
        """Bulk effective sample size and R-hat of a block's worst components, and what moved.

        Of a wide block, at most 200 components, evenly spaced, are looked at. With sm.WangLandau,
        chain by chain. Of cluster labels, which are only names: of the size of one's cluster.

        name: of a block.
        """
        return mixing_of(self, name)

    def to_arviz(
        self, observed: Any = None, log_likelihood: Any = None, thin: int = 1,
        progress: bool | None = None,
    ) -> Any:  # fmt: skip
        """ArviZ's container: InferenceData before ArviZ 1, xarray's DataTree from it on.

        Groups are posterior, sample_stats and decisions (what racing counted; "<kernel>_<field>",
        as in sample_stats), and posterior_every_100 of blocks of which only such draws were kept. A
        "/" in a name becomes "|", because netCDF reserves it.

        observed: a dict or named tuple of arrays, for a group observed_data.
        log_likelihood: the sm.Model that was sampled, for a group log_likelihood of dimensions
            chain, draw, obs, which az.loo and az.compare need: the function's value for every
            datum at every draw, all data read. It is named as the one array of observed, else
            "log_likelihood". To compare models, your functions must keep constants that differ;
            what those of sm.models leave out, such as log y! of counts, is added here.
        thin: keep every thin-th draw, in all groups. Log likelihoods beyond 2 GB are refused.
        progress: a bar; None shows it when the work takes seconds.
        """
        return arviz_groups.to_arviz(self, observed, log_likelihood, thin, progress)

    def log_likelihood(self, model: Any, draws: int | None = None, rows: Any = None) -> Any:
        """The log likelihood of every datum at every draw: xarray's Dataset, made as it is read.

        Of dimensions chain, draw, obs, as to_arviz(log_likelihood=model) has it; but nothing is
        computed until values are asked for, and then no more than is asked for, each time:
        found.isel(obs=slice(0, 100)).mean(). At most 2 GB at a time; found.load() keeps them.

        model: the sm.Model that was sampled.
        draws: of each chain, evenly spaced; default all.
        rows: numbers of data, or a slice; default all.

        Example:
            >>> def log_likelihood(state, data, n):
            ...     return -abs(data.y[n] - state.mu[0]) - 0.6931
            >>> y = np.random.default_rng(0).laplace(size=100_000)
            >>> model = sm.Model(log_likelihood, {"y": y}, {"mu": 0.0})
            >>> trace = sm.sample(model, sm.Slice("mu"), draws=200, seed=1, progress=False)
            >>> found = trace.log_likelihood(model).log_likelihood
            >>> found.shape, found.isel(obs=[7, 99_999]).mean(("chain", "draw")).shape
            ((4, 200, 100000), (2,))
        """
        return arviz_groups.log_likelihood(self, model, draws, rows)

    def to_frame(self) -> Any:
        """A pandas table: a row per chain and draw; columns chain, draw, mu, beta[age], ..."""
        import pandas

        chains, draws = self.shape
        columns: dict[str, np.ndarray] = {
            "chain": np.repeat(np.arange(chains), draws),
            "draw": np.tile(np.arange(draws), chains),
        }
        for name, values in self.drawn.items():
            for site in np.ndindex(values.shape[2:]):
                label = alone(self.axes.label(name, site), columns)
                columns[label] = values[(..., *site)].ravel()
        return pandas.DataFrame(columns)

    def decisions(self) -> Any:
        """A pandas table of what decisions cost: a row per kernel, chain and draw.

        Columns are kernel, chain, draw and what was counted: decisions, pulls (rewards read),
        everything (those of exact decisions), how they ended, audited, wrong, regret, ...
        """
        import pandas

        columns: dict[str, list] = {name: [] for name in ("kernel", "chain", "draw")}
        columns |= {field: [] for field in TALLY.names or ()}
        chain, draw = (axis.ravel() for axis in np.indices(self.shape))
        for kernel, stats in self.stats.items():
            if set(TALLY.names or ()) <= set(stats):  # it makes decisions
                at = {"kernel": np.full(chain.size, kernel, object), "chain": chain, "draw": draw}
                for name, parts in columns.items():
                    parts.append(at[name] if name in at else stats[name].ravel())
        joined = {k: np.concatenate(parts) if parts else [] for k, parts in columns.items()}
        return pandas.DataFrame(joined)

    def plot(self, axes: Any = None, panels: Any = None) -> Any:
        """What ArviZ does not draw: matplotlib axes, an array of one per panel.

        axes: as many of your own as there are panels; None: of a new figure,
            `trace.plot()[0].figure`.
        panels: names of "read" (share of rewards read along the run), "margins" (nats between the
            best two arms against what a race tells them from, of audited decisions), "errors"
            (audited error rates with their bounds, and delta), "ended" (how decisions ended),
            "ess_per_second" and "ess_per_million" (rewards read); None: all that have something
            to show.
        """
        from subsample_mcmc.runs.views.figures import plot_trace

        return plot_trace(self, axes, panels)

    def to_html(self, path: str | os.PathLike | None = None) -> str:
        """One HTML page that needs no other file: report and figures.

        path: of a file that it is written to, too.
        """
        from subsample_mcmc.runs.views.html_page import page

        text = page(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def thinned_draws(meta: dict[str, Any], chains: Sequence[Any], length: int) -> dict:
    """Draws (chains, kept draws, ...) of blocks of which not every one is kept, by name."""
    found = {}
    for i, block in enumerate(thinned_in(meta)):
        parts = [np.asarray(chain.thinned[i])[: block.before(length)] for chain in chains]
        found[block.name] = np.stack([part.reshape(-1, *block.shape) for part in parts])
        found[block.name].flags.writeable = False
    return found


def trace_of(meta: dict[str, Any], chains: list, told: str = "") -> Trace:
    """The trace of chains that have draws, where some have; told: what a warning says of others.

    Arrays of draws are as long as the shortest chain: of four chains on two cores that ended early,
    two may be complete. Without words there is no warning: an error of a chain says on its own how
    many chains have draws, and where warnings are errors one would take its place.
    """
    have = [chain for chain in chains if len(chain.ints)] or chains
    if told and len(have) < len(chains):
        warn(f"{len(have)} of {len(chains)} chains have draws, and are shown; {told}")
    return Trace(meta, have)
