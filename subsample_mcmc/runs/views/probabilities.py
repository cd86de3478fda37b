"""Posterior probabilities and Bayes factors of the values of a discrete block, from a trace."""

import html
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from subsample_mcmc.runs.views.multistate import Estimate, estimate
from subsample_mcmc.style import FILLS, axes_of

FEW_EFFECTIVE, FEW_ENTRIES = 50, 10  # draws of a value that are too few for an error bar
UNEVEN = 0.2  # of an even share of a chain's draws: less, and its tilt is off by 1.6 nats
SHOWN = 6  # values that one warning names


def listed(items: Iterable[Any]) -> str:
    """Some of them, and how many more."""
    texts = [str(item) for item in items]
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def uneven(shares: np.ndarray, tilted: dict | None, warmup: int) -> Iterator[str]:
    """Is the tilt far from what makes visits even: shares (chains, values) of the draws."""
    if tilted is None:
        return
    if warmup == 0:
        yield (
            f"{tilted['label']}: no warm-up, so the tilt stayed as it started. Use "
            "sm.sample(..., warmup=1000) or more."
        )
    low, high, even = shares.min(), shares.max(), 1.0 / shares.shape[1]
    if low < UNEVEN * even:
        reach = tilted["rate"] * tilted["decay"] * np.log1p(warmup / tilted["decay"])
        yield (
            f"{tilted['label']}: visits are far from even: from {low:.2%} to {high:.2%} of a "
            f"chain's draws, where each value should have {even:.3g}: adapting was not finished. "
            f"In {warmup:,} steps of warm-up a tilt bridges {reach:,.0f} nats at most. Use a "
            "longer warm-up, or start=-log_evidences (of sm.laplace fits, say). A value that "
            "the prior excludes is never visited."
        )


def scarce(
    found: Estimate, values: np.ndarray, by_chain: np.ndarray, labels: list
) -> Iterator[str]:
    """What was visited too rarely, or never."""
    visits, arrived = by_chain.sum(axis=0), values[:, 1:][values[:, 1:] != values[:, :-1]]
    entries = np.bincount(arrived, minlength=len(visits))
    told = []
    for k in np.flatnonzero(visits == 0):
        # Three visits expected: with probability .95 there is one, if they are independent.
        bound = np.log(3.0 * found.slowest) - found.expected[k]
        told.append(
            f"{labels[k]} (log probability below about {bound:.3g})"
            if bound < 0.0
            else f"{labels[k]} (which tells nothing)"
        )
    if told:
        yield f"not visited: {listed(told)}. These are no error bars: take more draws or warm-up."
    told = []
    for k in np.flatnonzero((visits > 0) & (visits < visits.sum())):
        chains = np.count_nonzero(by_chain[:, k])
        if not found.ess[k] >= FEW_EFFECTIVE or chains < len(values) or entries[k] < FEW_ENTRIES:
            told.append(
                f"{labels[k]} (ESS {found.ess[k]:.0f}, in {chains} of {len(values)} chains, "
                f"entered {entries[k]} times)"
            )
    if told:
        yield (
            f"hardly visited: {listed(told)}. Their error bars are unreliable: take more draws, or "
            "flatten visits by sm.WangLandau."
        )


def probabilities(trace: Any, name: str, labels=None, prior=None, against=None):
    """ModelProbabilities of a block of a trace, its arguments checked."""
    if name not in trace.draws:
        raise ValueError(f"{name!r} is no block of {list(trace.draws)}: name a discrete one.")
    drawn, (chains, draws) = trace.draws[name], trace.shape
    if drawn.dtype.kind != "i" or drawn.size != chains * draws:
        raise ValueError(
            f"block {name!r} is {drawn.dtype} of shape {drawn.shape[2:]}: it must be discrete, of "
            "one site, such as the number of a model."
        )
    if draws == 0:
        raise ValueError("the trace has no draws: take some, sm.sample(..., draws=1000).")
    values = drawn.reshape(chains, draws)
    kernels = trace.meta["kernels"]
    tilted = next((k for k in kernels if k.get("block") == name), None)
    known = [k["arms"] for k in kernels if k["arms"] and name in k["writes"]]
    known += [tilted["values"]] if tilted else []
    each = max([*(n for n in known if n), int(values.max()) + 1])
    if not known and labels is not None:
        each = max(each, len(labels))
    if labels is not None and len(labels) != each:
        raise ValueError(f"labels has {len(labels)} names for {each} values of {name!r}.")
    if against is not None and against not in (range(each) if labels is None else list(labels)):
        raise ValueError(
            f"against={against!r}: name one of {listed(range(each) if labels is None else labels)}."
        )
    if prior is not None:
        prior = np.asarray(prior, dtype=float)
        if prior.shape != (each,) or not np.all((prior > 0.0) & (prior < np.inf)):
            raise ValueError(
                f"prior={prior!r:.80}: give the model's prior probability of each of {each} "
                f"values of {name!r}, all positive; Bayes factors are odds over prior odds."
            )
    tilts, history = np.zeros((chains, each)), None
    if tilted is not None:
        tilts = frozen(trace, tilted["label"], each)
        history = travelled(trace, tilted["label"], range(each) if labels is None else labels)
    return ModelProbabilities(
        name, values, tilts, labels, prior, against, tilted, trace.meta["warmup"], history
    )


def frozen(trace: Any, label: str, each: int) -> np.ndarray:
    """The tilts (chains, values) of the draws; nan where they are neither stored nor visited."""
    stats, found = trace.stats[label], np.full((trace.shape[0], each), np.nan)
    for c, stored in enumerate(trace.learnt(label, "tilt")):
        if stored is not None:
            found[c] = stored
        else:  # draws know the tilts of where they went
            ran = stats["steps"][c] > 0
            found[c, stats["value"][c, ran]] = stats["tilt"][c, ran]
    return found


def travelled(trace: Any, label: str, labels: Sequence) -> Any:
    """How the tilts were found, as a table; None if that is not stored."""
    import pandas

    parts = []
    lines = trace.learnt(label, "counts")
    for c, stored in enumerate(trace.learnt(label, "history")):
        if stored is not None:
            table = pandas.DataFrame(
                stored[: lines[c][1]], columns=["iteration", "rewards_read", *labels]
            ).astype({"iteration": int, "rewards_read": int})
            table.insert(0, "chain", c)
            parts.append(table)
    return pandas.concat(parts, ignore_index=True) if parts else None


class ModelProbabilities:
    """Posterior probabilities of the values of a discrete block, with Monte Carlo errors.

    table: a pandas table, one row per value: visits, ess (of being there or not), log_probability,
        log_probability_se, probability, probability_se, log_bayes_factor (against the most
        probable value, or `against`) and its se. Tilts of sm.WangLandau are undone.
    warnings: why some of it should not be trusted.
    weights: (chains, draws), they add up to 1: averages of other blocks over the posterior of all
        values are sums with these weights.
    tilts: (chains, values), nan where it is not known; history: None, or a table of how
        WangLandau found them: chain, iteration, rewards_read and the tilt of each value.
    """

    def __init__(
        self, name: str, values: np.ndarray, tilts: np.ndarray, labels: Sequence | None = None,
        prior=None, against: Any = None, tilted: dict | None = None, warmup: int = 0,
        history: Any = None,
    ):  # fmt: skip
        import pandas

        self.name, self.tilts, self.history = name, tilts, history
        self.labels = list(range(tilts.shape[1])) if labels is None else list(labels)
        found = estimate(values, tilts)
        log_p, (chains, draws) = found.log_p, values.shape
        by_chain = np.array([np.bincount(v, minlength=len(log_p)) for v in values])
        visits = by_chain.sum(axis=0)
        best = int(np.argmax(log_p)) if against is None else self.labels.index(against)
        log_prior = np.log(np.ones(len(log_p)) if prior is None else prior)

        def factor(p):
            return (p - log_prior) - (p - log_prior)[..., best : best + 1]

        errors = [found.error(of) for of in (lambda p: p, np.exp, factor)]
        known = (visits > 0, visits > 0, (visits > 0) & (visits[best] > 0))
        log_se, se, factor_se = (
            np.where(told, error, np.nan) for told, (error, _) in zip(known, errors, strict=True)
        )
        with np.errstate(invalid="ignore"):
            factors = factor(log_p)
        self.table = pandas.DataFrame(
            {
                "visits": visits, "ess": found.ess,
                "log_probability": log_p, "log_probability_se": log_se,
                "probability": np.exp(log_p), "probability_se": se,
                "log_bayes_factor": factors, "log_bayes_factor_se": factor_se,
            }, index=pandas.Index(self.labels, name=name),
        )  # fmt: skip
        with np.errstate(invalid="ignore", divide="ignore"):
            self.weights = np.where(visits > 0, np.exp(log_p) / visits, 0.0)[values]
        self.title = f"{name}: {len(log_p)} values, {chains} chains x {draws:,} draws" + (
            ", their tilts undone" if tilted else ""
        )
        self.warnings = [
            *uneven(by_chain / draws, tilted, warmup),
            *scarce(found, values, by_chain, self.labels),
        ]
        if differ := [self.labels[k] for k in np.flatnonzero(errors[0][1])]:
            self.warnings.append(
                f"chains disagree about {listed(differ)}: their spread, which is more than their "
                "autocorrelation explains, was taken for the error. Take more draws, or mix "
                "kernels that cross between the values."
            )
        if (unknown := np.isnan(tilts)).any():
            self.warnings.append(
                f"the tilts of {unknown.sum()} values that a chain never visited are not stored; "
                "that chain tells nothing about them here."
            )

    def __repr__(self) -> str:
        named = [
            str(c).replace("probability", "p").replace("bayes_factor", "BF") for c in self.table
        ]
        named = ["se" if c.endswith("_se") else c.replace("_", " ") for c in named]
        table = self.table.set_axis(named, axis=1)
        shown = table.to_string(float_format=lambda x: f"{x:.4g}")
        wrapped = [textwrap.fill(f"- {w}", 98, subsequent_indent="  ") for w in self.warnings]
        return "\n".join([self.title, "", shown, *(["", "Warnings", *wrapped] if wrapped else [])])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def to_frame(self) -> Any:
        """A pandas table with one row per value: a copy of `table`."""
        return self.table.copy()

    def plot(self, axes: Any = None, labels: Sequence | None = None) -> Any:
        """Log probabilities with two standard errors, as bars: matplotlib axes."""
        if axes is None:
            (axes,) = axes_of("plot", None, 1, (6.0, 4.0))
        known = np.isfinite(self.table["log_probability"].to_numpy())
        rows, at = self.table[known], np.arange(len(known))
        doubled = 2.0 * rows["log_probability_se"].to_numpy()
        axes.bar(
            at[known], rows["log_probability"], yerr=np.where(np.isfinite(doubled), doubled, 0.0),
            capsize=4, facecolor=FILLS[1], edgecolor="black", linewidth=0.6,
        )  # fmt: skip
        axes.set_xticks(at, [str(label) for label in (self.labels if labels is None else labels)])
        axes.set(xlabel=self.name, ylabel="log posterior probability, ± 2 standard errors")
        return axes
