"""What `sample` returns: the draws by name, what every kernel counted, and ways to look at both."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc import store
from subsample_mcmc.evidence import ModelProbabilities, probabilities
from subsample_mcmc.layout import TALLY, Layout
from subsample_mcmc.report import Report

MOST_SITES = 200  # components of one block whose ESS is computed ...
MOST_VALUES = 20_000_000  # ... and draws of them in all: seconds, not minutes
WINDOWS = 50  # a run is smoothed over one part of so many: longer hides a drift, shorter is noise

# Fields of TALLY that belong with any sampler's statistics; the others are about decisions.
_SAMPLER = ("steps", "accepted", "gradients", "capped", "scale")
_ENDS = ("alone", "predicted", "exact", "raced", "exhausted", "retreated")
_DECISIONS = tuple(field for field in TALLY.names or () if field not in _SAMPLER)


class Mixing(NamedTuple):
    """How well one block mixed."""

    ess: float  # bulk, of the worst component that moved; nan if none did
    sites: int
    looked: int  # components whose ESS was computed
    stuck: int  # of those, components that never moved
    moved: bool  # any component, in any chain
    finite: bool


class Trace:
    """Draws of every block, (chains, draws, ...), and what every kernel counted per draw.

    `draws["theta"]` has the shape of the block behind (chains, draws); `stats[kernel][field]` is
    (chains, draws). `to_arviz`, `to_frame`, `report` and `plot_cost` are views of the same
    numbers; `meta` says how they were made and `seconds` how long each chain took.
    """

    def __init__(self, meta: dict[str, Any], chains: Sequence[Any]):
        if not chains:
            raise ValueError("no chains were given; a trace needs one or more. Sample first.")
        self.meta = meta
        self.layout = Layout.from_json(meta["layout"])
        # Chains of an interrupted run end at different draws; arrays need one length.
        length = min(len(chain.words) for chain in chains)
        ints, floats, words = (
            np.stack([np.asarray(getattr(chain, part))[:length] for chain in chains])
            for part in ("ints", "floats", "words")
        )
        self._arrays = (ints, floats, words)
        whole = all(len(chain.words) == length for chain in chains)
        self._states = [getattr(c, "checkpoint", None) for c in chains]
        self._checkpoints = self._states if whole else [None] * len(chains)
        self.interrupted = False  # ended by Ctrl-C
        self.shape = (len(chains), length)
        self.seconds = np.array([float(chain.seconds) for chain in chains])
        self.draws = self.layout.draws(ints, floats)
        self.stats = self.layout.stats(words)

    def __repr__(self) -> str:
        chains, draws = self.shape
        blocks = [f"{b.name} {b.shape if b.shape else 'scalar'}" for b in self.layout.blocks]
        shown = ", ".join(blocks[:6]) + (", ..." if len(blocks) > 6 else "")
        read, whole = (
            sum(int(s[field].sum()) for s in self.stats.values() if field in s)
            for field in ("pulls", "everything")
        )
        share = f"; {100 * read / whole:.3g}% of the data read" if whole else ""
        count = f"{chains} chain{'s' * (chains != 1)} x {draws:,} draws"
        return f"Trace({count}; {shown}{share}; guarantee: {self.meta['guarantee']})"

    def save(self, path: str | os.PathLike) -> None:
        """Write one netCDF file that arviz reads, sm.load gives back and sm.resume goes on from."""
        meta = self.meta | {"draws": self.shape[1], "chains": self.shape[0]}
        with store.Journal.create(path, meta) as journal:
            for i, parts in enumerate(zip(*self._arrays, strict=True)):
                journal.append(i, *parts, self._checkpoints[i] or {}, float(self.seconds[i]))
        store.finish(path)

    def report(self) -> Report:
        """What the run cost, what it guarantees, how audited decisions fared, and warnings."""
        return Report(self)

    def model_probabilities(
        self, name: str, labels: Sequence | None = None, prior: Any = None, against: Any = None
    ) -> ModelProbabilities:
        """Posterior probabilities and Bayes factors of a discrete block's values, with errors.

        Tilts of sm.WangLandau are undone. labels: names of the values, in order. prior: the prior
        probability that the model gives each value, uniform by default: Bayes factors are
        posterior odds over prior odds, against the most probable value or `against`.
        """
        return probabilities(self, name, labels, prior, against)

    def learnt(self, kernel: str, array: str) -> list[np.ndarray | None]:
        """An array that a kernel keeps in checkpoints, by chain; None where none is stored."""
        at = [told["label"] for told in self.meta["kernels"]].index(kernel)
        return [(state or {}).get(f"kernel {at}.{array}") for state in self._states]

    def mixing(self, name: str) -> Mixing:
        """Bulk effective sample size of a block's worst component, and what moved.

        Of a wide block, at most 200 components, evenly spaced, are looked at. With sm.WangLandau,
        chain by chain. Of cluster labels, which are only names: of the size of one's cluster.
        """
        import arviz

        values = self.draws[name]
        chains, draws = self.shape
        tilted = any(told["kind"] == "WangLandau" for told in self.meta["kernels"])
        sites = int(np.prod(values.shape[2:], dtype=int))
        flat = values.reshape(chains, draws, sites)
        most = max(1, min(sites, MOST_SITES, MOST_VALUES // max(1, chains * draws)))
        chosen = np.linspace(0, sites - 1, most).astype(int) if sites else []
        names = any(t.get("labels") and name in t["writes"] for t in self.meta["kernels"])
        # Chain by chain: the block may fill most of the memory, and this makes copies.
        moved = draws < 2 or any(bool(np.any(chain != chain[:1])) for chain in flat)
        finite = all(bool(np.isfinite(chain).all()) for chain in flat)
        found, stuck = [], 0
        sizes = cluster_sizes(flat, chosen) if names else None
        for k, site in enumerate(chosen):
            part = flat[..., site].astype(float) if sizes is None else sizes[..., k]
            # arviz calls a constant perfectly mixed; here it is a sampler that may be stuck.
            still = draws > 1 and bool((part == part[:, :1]).all())
            stuck += still
            if not still and draws >= 4 and np.isfinite(part).all():
                with np.errstate(all="ignore"):
                    # Chains with tilts of their own do not have one law: each by itself.
                    each = [row[None] for row in part] if tilted else [part]
                    found.append(sum(float(arviz.ess(one, method="bulk")) for one in each))
        known = [ess for ess in found if ess == ess]
        return Mixing(min(known, default=np.nan), sites, len(chosen), stuck, moved, finite)

    def to_arviz(self, observed: Any = None) -> Any:
        """ArviZ's container: InferenceData before ArviZ 1, xarray's DataTree from it on.

        Groups are posterior, sample_stats, decisions (what racing counted; "<kernel>_<field>",
        as in sample_stats) and, when `observed` is a dict or named tuple of arrays,
        observed_data. A "/" in a name becomes "|", because netCDF reserves it.
        """
        import arviz
        import xarray

        if observed is not None:
            observed = _as_dict(observed)
        attrs = self._attributes()
        groups = {"posterior": self._dataset(self.draws, attrs)}
        tallies, rest = {}, {}
        for kernel, fields in self.stats.items():
            for field, values in fields.items():
                group = tallies if field in _DECISIONS else rest
                label = f"{kernel}_{field}"
                while label in group:  # kernels "a" and "a_b" with fields "b_c" and "c"
                    label += "_"
                group[label] = values
        groups["sample_stats"] = self._dataset(rest, attrs)
        groups["decisions"] = self._dataset(tallies, attrs)
        if observed is not None:
            groups["observed_data"] = xarray.Dataset(
                {_name(k): (_dims(k, v, 0), v) for k, v in observed.items()}
            )
        if int(arviz.__version__.split(".")[0]) >= 1:
            tree = xarray.DataTree.from_dict(groups)
            tree.attrs.update(attrs)
            return tree
        return arviz.InferenceData(attrs=attrs, **groups)

    def _attributes(self) -> dict[str, str | float]:
        kernels = self.meta["kernels"]
        tilted = [kernel["block"] for kernel in kernels if kernel.get("kind") == "WangLandau"]
        text = self.meta.get("describe") or ", ".join(kernel["label"] for kernel in kernels)
        return {
            "inference_library": "subsample_mcmc",
            "inference_library_version": str(self.meta["version"]),
            "version": str(self.meta["version"]),
            "seed": str(self.meta["seed"]),  # text: seeds may be wider than netCDF's integers
            "kernels": text,
            "guarantee": str(self.meta["guarantee"]),
            "sampling_time": float(self.seconds.max()),  # chains run side by side
            **({"tilted": ", ".join(tilted)} if tilted else {}),
        }

    def _dataset(self, arrays: Mapping[str, np.ndarray], attrs: dict) -> Any:
        import xarray

        chains, draws = self.shape
        return xarray.Dataset(
            {_name(k): (("chain", "draw", *_dims(k, v, 2)), v) for k, v in arrays.items()},
            coords={"chain": np.arange(chains), "draw": np.arange(draws)},
            attrs=attrs,
        )

    def to_frame(self) -> Any:
        """A pandas table: a row per chain and draw; columns chain, draw, theta[0], w[1,2], ..."""
        import pandas

        chains, draws = self.shape
        columns: dict[str, np.ndarray] = {
            "chain": np.repeat(np.arange(chains), draws),
            "draw": np.tile(np.arange(draws), chains),
        }
        for name, values in self.draws.items():
            for site in np.ndindex(values.shape[2:]):
                label = f"{name}[{','.join(map(str, site))}]" if site else name
                columns[label] = values[(..., *site)].ravel()
        return pandas.DataFrame(columns)

    def plot_cost(self, axes: Any = None) -> Any:
        """Two axes: the share of rewards read along the run, and how decisions ended.

        `axes`: a pair of matplotlib axes; None makes a figure.
        """
        deciding = {
            kernel: stats
            for kernel, stats in self.stats.items()
            if "everything" in stats and stats["decisions"].any()
        }
        if not deciding:
            raise ValueError(
                f"the kernels {list(self.stats)} made no decisions in {self.shape[1]} draws, so "
                "there is no cost to plot; use a kernel with a selector, like sm.Gibbs."
            )
        if axes is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    "plot_cost draws with matplotlib, which is not installed: "
                    "pip install 'subsample-mcmc[plots]'."
                ) from error
            axes = plt.subplots(1, 2, figsize=(10, 1.5 + 0.5 * max(4, len(deciding))))[1]
            axes[0].figure.set_layout_engine("constrained")
        along, ended = axes
        for kernel, stats in deciding.items():
            along.plot(_rolling_share(stats["pulls"], stats["everything"]), label=kernel)
        along.set(xlabel="draw", ylabel="share of rewards read")
        if any(stats["pulls"].any() for stats in deciding.values()):
            along.set_yscale("log")  # shares of .1% and 50% are both of interest
        along.legend()
        left = np.zeros(len(deciding))
        for end in _ENDS:
            share = np.array([s[end].sum() / s["decisions"].sum() for s in deciding.values()])
            ended.barh(list(deciding), share, left=left, label=end)
            left += share
        ended.invert_yaxis()
        ended.set(xlabel="share of decisions, by how they ended", xlim=(0, 1))
        ended.legend(ncols=len(_ENDS), loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
        return axes


def cluster_sizes(labels: np.ndarray, sites: Any) -> np.ndarray:
    """How many share the label of each of some sites: (chains, draws, sites)."""
    found = np.empty((*labels.shape[:2], len(sites)))
    for at in np.ndindex(labels.shape[:2]):
        found[at] = np.bincount(labels[at])[labels[at][sites]]
    return found


def _rolling_share(read: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Rewards read over all rewards, of all chains, in a window that ends at each draw."""
    window = max(1, read.shape[1] // WINDOWS)
    sums = []
    for counts in (read, whole):
        total = np.concatenate([[0.0], np.cumsum(counts.sum(0), dtype=float)])
        first = np.maximum(0, np.arange(1, len(total)) - window)
        sums.append(total[1:] - total[first])
    # A window without decisions is a gap in the line.
    return np.divide(sums[0], sums[1], out=np.full_like(sums[0], np.nan), where=sums[1] > 0)


def _as_dict(observed: Any) -> dict[str, np.ndarray]:
    """Data as arrays by name, from a dict or a named tuple."""
    if hasattr(observed, "_asdict"):
        observed = observed._asdict()
    if not isinstance(observed, Mapping):
        raise TypeError(
            f"observed={observed!r:.60} is a {type(observed).__name__}; it must be a dict of "
            "arrays, like the data given to sm.Model: observed={'y': y}."
        )
    return {name: np.asarray(values) for name, values in observed.items()}


def _name(name: str) -> str:
    return name.replace("/", "|")


def _dims(name: str, values: np.ndarray, after: int) -> tuple[str, ...]:
    """ArviZ's own names of dimensions, so that its plots label them as usual."""
    return tuple(f"{_name(name)}_dim_{i}" for i in range(values.ndim - after))
