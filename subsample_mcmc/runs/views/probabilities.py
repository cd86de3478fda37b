"""Posterior probabilities and Bayes factors of the values of a discrete block, from a trace.

Chain c, with the frozen tilt t_c of sm.WangLandau, draws value k with probability
p_k exp(t_ck) / Z_c, where Z_c = sum_k p_k exp(t_ck). Draws of all chains together have the
likelihood  sum_ck N_ck (log p_k + t_ck - log Z_c),  N_ck the visits: concave in log p, and largest
at the multistate estimator  p_k = sum_c N_ck / sum_c n_c exp(t_ck) / Z_c  (Shirts & Chodera 2008,
J. Chem. Phys. 129; for one chain, visits over exp(tilt)). Where another block has a tilt, k is the
joint value of both, whose tilts add up, and probabilities of the block are sums. Standard errors
are those of a jackknife that leaves out a batch of draws at a time, batches being much longer than
the autocorrelation time.
"""

import html
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.runs.store.netcdf import unadjusted
from subsample_mcmc.style import FILLS, axes_of, significant

# ------------------------------------------------------------------------------------ the estimator
BATCHES = (20, 100)  # in all chains together: fewer tell too little of their spread
LONG = 20.0  # autocorrelation times in a batch, if that leaves enough batches
SHORT = 10.0  # ... and in one below which errors may be far too small
ALARM = 0.01  # chance of saying that chains disagree where they do not
MOST_JOINT = 300  # joint values of blocks with tilts: more take minutes
SPREAD_CHAINS = 4  # fewer chains tell too little of the spread between them


class Estimate(NamedTuple):
    """Log probabilities of all values, from all draws and with parts of them left out."""

    log_p: np.ndarray  # (values,); -inf: never visited
    batches: np.ndarray  # (batches, values): one batch of one chain left out
    chains: np.ndarray  # (chains, values): one chain left out
    ess: np.ndarray  # (values,) of being there or not; nan where that never changes
    slowest: float  # autocorrelation time, in draws
    expected: np.ndarray  # (values,) log of the visits expected, per unit of probability

    def summed(self, group: np.ndarray, each: int, ess: np.ndarray) -> "Estimate":
        """Of the values of one block, where these are joint values: group says whose each is."""

        def over(logs: np.ndarray) -> np.ndarray:
            found = np.full((*logs.shape[:-1], each), -np.inf)
            for k in np.unique(group):
                found[..., k] = np.logaddexp.reduce(logs[..., group == k], axis=-1)
            return found

        chains = over(self.chains) if len(self.chains) else np.zeros((0, each))
        # Visits expected of values without any depend on which joint values they have: unknown.
        return Estimate(
            over(self.log_p), over(self.batches), chains, ess, self.slowest, np.full(each, np.nan)
        )

    def error(self, of: Callable) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of of(log_p), and where chains differ by more than batches explain."""
        from scipy.stats import f

        (count, values), many = self.batches.shape, len(self.chains)
        if np.isnan(self.ess).all():  # no chain left its value: these are where chains began
            return np.full(values, np.inf), np.zeros(values, dtype=bool)
        with np.errstate(invalid="ignore"):  # -inf less -inf: not visited
            se = jackknife(of(self.batches))
            if many < SPREAD_CHAINS or count < 2 * many:
                return se, np.zeros(values, dtype=bool)
            between = jackknife(of(self.chains))
            limit = np.sqrt(f.isf(ALARM / values, many - 1, count - many)) * se
        disagree = np.isfinite(between) & (between > limit)
        return np.where(disagree, between, se), disagree


def jackknife(estimates: np.ndarray) -> np.ndarray:
    """Standard errors from estimates (parts, ...) that each leave one part out; inf: unknown."""
    count = len(estimates)
    if count < 2:
        return np.full(estimates.shape[1:], np.inf)
    with np.errstate(invalid="ignore"):
        away = ((estimates - estimates.mean(axis=0)) ** 2).sum(axis=0)
        return np.nan_to_num(np.sqrt((count - 1) / count * away), nan=np.inf)


def log_sum(values: np.ndarray) -> np.ndarray:
    """log sum exp over the last axis."""
    top = values.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(values - top).sum(axis=-1, keepdims=True)))[..., 0]


def multistate(visits: np.ndarray, tilts: np.ndarray, first=None) -> np.ndarray:
    """Log probabilities from visits (chains, values) under tilts; -inf where there are none.

    A tilt of -inf says that a chain has nothing to tell about a value. Newton's method, from
    `first` or from one chain after the other, with steps halved until the likelihood grows.
    """
    seen, drew = visits.sum(axis=0) > 0, visits.sum(axis=1) > 0
    found = np.full(visits.shape[1], -np.inf)
    visits, tilts = visits[drew][:, seen].astype(float), tilts[drew][:, seen]
    each, total = visits.sum(axis=1), visits.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # By chain, log visits less tilt, centred where there are visits.
        own = np.where(visits > 0, np.log(visits) - tilts, np.nan)
        own -= np.nanmean(own, axis=1, keepdims=True)
    p = np.nanmean(own, axis=0) if first is None else first[seen]

    def likelihood(p):
        return total @ p - each @ log_sum(p + tilts)

    best = likelihood(p)
    for _ in range(200):
        chance = np.exp(p + tilts - log_sum(p + tilts)[:, None])
        expected = each @ chance
        slope = total - expected
        if np.abs(slope).max() < 1e-10 * each.sum():
            break
        curve = np.diag(expected) - (chance.T * each) @ chance
        # A constant changes nothing: fixed by the added constant, as slope adds up to zero.
        step = np.linalg.lstsq(curve + expected.mean() / len(p), slope, rcond=1e-12)[0]
        step *= min(1.0, 10.0 / max(np.abs(step).max(), 1e-300))
        for _ in range(60):
            now = likelihood(p + step)
            if now >= best:
                break
            step *= 0.5
        else:
            break  # to rounding
        p, best = p + step, now
    found[seen] = p - log_sum(p)
    return found


def estimate(values: np.ndarray, tilts: np.ndarray, known: tuple | None = None) -> Estimate:
    """Log probabilities from values (chains, draws) drawn under tilts (chains, values).

    known: what `effective` says, where these are joint values.

    A tilt of nan is unknown. A chain that never visited its value is not asked about it: its visits
    then tell of the shares of the other values among themselves.
    """
    chains, draws = values.shape
    each = tilts.shape[1]
    tilts = np.where(np.isnan(tilts), -np.inf, tilts)
    ess, slowest = effective(values, each) if known is None else known
    least, most = (max(-(-count // chains), 2) for count in BATCHES)
    number = int(min(np.clip(draws / (LONG * slowest), least, most), draws))
    parts = [np.array_split(chain, number) for chain in values]
    counts = np.array([[np.bincount(part, minlength=each) for part in own] for own in parts])
    visits = counts.sum(axis=1)
    log_p = multistate(visits, tilts)
    batches, without = [], []
    for c in range(chains):
        for i in range(number):
            left = visits.copy()
            left[c] -= counts[c, i]
            batches.append(multistate(left, tilts, log_p) if left.any() else log_p)
        if chains > 1:
            rest = np.arange(chains) != c
            without.append(multistate(visits[rest], tilts[rest], log_p))
    seen = visits.sum(axis=0) > 0
    log_z = log_sum((log_p + tilts)[:, seen])
    with np.errstate(invalid="ignore"):  # nan: no chain's tilt is known
        expected = log_sum((np.log(draws) + tilts - log_z[:, None]).T)
    return Estimate(log_p, np.array(batches), np.array(without), ess, slowest, expected)


def effective(values: np.ndarray, each: int) -> tuple[np.ndarray, float]:
    """Effective sample size of being at each value or not, nan where that never changes.

    Chain by chain, and added: under other tilts, other shares are no sign of slow mixing. And the
    longest autocorrelation time, in draws.
    """
    import arviz

    found, slowest, draws = np.full(each, np.nan), 1.0, values.shape[1]
    if draws < 4:
        return found, slowest
    # The value itself, too: on a ladder of values it may be slower than being at any of them.
    for k in (-1, *np.unique(values)):
        each_chain = values if k < 0 else values == k
        varies = [chain.astype(float) for chain in each_chain if (chain != chain[0]).any()]
        if varies:
            ess = sum(float(arviz.ess(chain[None], method="mean")) for chain in varies)
            slowest = max(slowest, draws * len(varies) / ess)
            if k >= 0:
                found[k] = ess
    return found, slowest


class Joint(NamedTuple):
    """Joint values of a block and of the others that have a tilt: those that were visited."""

    values: np.ndarray  # (chains, draws)
    tilts: np.ndarray  # (chains, values), of all blocks together
    group: np.ndarray  # (values,) what the block itself is there
    parts: list[np.ndarray]  # (chains, draws) of each block
    others: list[str]  # blocks that have a tilt, but for the block itself


def joint_of(trace: Any, values: np.ndarray, own: np.ndarray, others: dict[str, np.ndarray]):
    """A Joint of a block's values with its own tilts, and the blocks with tilts beside it."""
    parts = [values, *(trace.draws[b].reshape(values.shape) for b in others)]
    stacked, found = np.unique(np.stack(parts).reshape(len(parts), -1), axis=1, return_inverse=True)
    if stacked.shape[1] > MOST_JOINT:
        raise ValueError(
            f"probabilities under the tilts of {', '.join(others)} are of joint values of these "
            f"blocks, of which {stacked.shape[1]:,} were visited, and {MOST_JOINT:,} can be "
            "solved for: tilt fewer blocks, or sample without sm.WangLandau."
        )
    tilts = own[:, stacked[0]]
    for tilt, at in zip(others.values(), stacked[1:], strict=True):
        tilts = tilts + tilt[:, at]
    return Joint(found.reshape(values.shape), tilts, stacked[0], parts, list(others))


def estimate_joint(joint: Joint) -> Estimate:
    """The same of joint values."""
    slowest = max(effective(part, int(part.max()) + 1)[1] for part in joint.parts)
    return estimate(joint.values, joint.tilts, (np.zeros(joint.tilts.shape[1]), slowest))


# ------------------------------------------------------------------------------- what is told of it
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
    if (length := values.size // len(found.batches)) < SHORT * found.slowest:
        yield (
            f"errors are from batches of {length:,} draws, of which {found.slowest:,.0f} count for "
            "one, and may be far too small. Take more draws."
        )
    visits, arrived = by_chain.sum(axis=0), values[:, 1:][values[:, 1:] != values[:, :-1]]
    entries = np.bincount(arrived, minlength=len(visits))
    told = []
    for k in np.flatnonzero(visits == 0):
        # Three visits expected: with probability .95 there is one, if they are independent.
        bound = np.log(3.0 * found.slowest) - found.expected[k]
        told.append(
            f"{labels[k]} (log probability below about {bound:.3g})"
            if bound < 0.0 and entries.any()
            else f"{labels[k]} (which tells nothing)"
        )
    if told:
        yield f"not visited: {listed(told)}. These are no error bars: take more draws or warm-up."
    if len(visits) > 1 and not entries.any():
        yield (
            "no chain ever left its value. One value may have all the mass; if not, kernels cannot "
            "leave it, and these are where chains started: start them elsewhere to tell."
        )
    told = []
    for k in np.flatnonzero((visits > 0) & (visits < visits.sum())):
        chains = np.count_nonzero(by_chain[:, k])
        seldom = entries[k] < FEW_ENTRIES and visits[k] < visits.max()
        if not found.ess[k] >= FEW_EFFECTIVE or chains < len(values) or seldom:
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
    joint, beside = None, [k for k in kernels if k.get("block") and k["block"] != name]
    if gone := [k["block"] for k in beside if k["block"] not in trace.draws]:
        raise ValueError(
            f"draws of {name!r} are under the tilts of {', '.join(gone)}, whose own draws were not "
            "kept: keep them, sample(keep=...), as these tilts cannot be undone without."
        )
    if beside:
        sizes = {k["block"]: int(trace.draws[k["block"]].max()) + 1 for k in beside}
        others = {
            k["block"]: frozen(trace, k["label"], max(sizes[k["block"]], k["values"] or 0))
            for k in beside
        }
        joint = joint_of(trace, values, tilts, others)
    found = ModelProbabilities(
        name, values, tilts, labels, prior, against, tilted, trace.meta["warmup"], history, joint
    )
    if law := trace.meta.get("law"):
        found.warnings.append(f"these are probabilities of the {law}, and no Bayes factors.")
    if led := unadjusted(trace.meta):
        found.warnings.append(f"{listed(led)}: unadjusted draws have a bias, and so have these.")
    if hot := [k["label"] for k in kernels if k.get("temperature")]:
        found.warnings.append(
            f"these are no posterior probabilities: {listed(hot)} drew at a temperature other than "
            "1. Sample without temperature=, or let it end at 1 before the warm-up does."
        )
    return found


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
        probable value, or `against`) and its se. Tilts of sm.WangLandau are undone,
        also those of other blocks.
    warnings: why some of it should not be trusted.
    weights: (chains, draws), they add up to 1: averages of other blocks over the posterior of all
        values are sums with these weights.
    tilts: (chains, values), nan where it is not known; history: None, or a table of how
        WangLandau found them: chain, iteration, rewards_read and the tilt of each value.
    """

    def __init__(
        self, name: str, values: np.ndarray, tilts: np.ndarray, labels: Sequence | None = None,
        prior=None, against: Any = None, tilted: dict | None = None, warmup: int = 0,
        history: Any = None, joint: Joint | None = None,
    ):  # fmt: skip
        import pandas

        self.name, self.tilts, self.history = name, tilts, history
        self.labels = list(range(tilts.shape[1])) if labels is None else list(labels)
        (chains, draws), states = values.shape, values if joint is None else joint.values
        if joint is None:
            found = whole = estimate(values, tilts)
        else:
            whole = estimate_joint(joint)
            ess = effective(values, tilts.shape[1])[0]
            found = whole.summed(joint.group, tilts.shape[1], ess)
        log_p = found.log_p
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
            count = np.bincount(states.ravel(), minlength=len(whole.log_p))
            self.weights = np.where(count > 0, np.exp(whole.log_p) / count, 0.0)[states]
        undone = [name] * (tilted is not None) + (joint.others if joint else [])
        self.title = f"{name}: {len(log_p)} values, {chains} chains x {draws:,} draws" + (
            f", the tilts of {' and '.join(undone)} undone"
            if joint
            else ", their tilts undone" * (tilted is not None)
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
        if (unknown := np.isnan(tilts if joint is None else joint.tilts)).any():
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
        shown = table.to_string(float_format=significant)
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
        doubled = 2.0 * rows["log_probability_se"].replace(np.inf, np.nan).to_numpy()
        axes.bar(
            at[known], rows["log_probability"], yerr=doubled,
            capsize=4, facecolor=FILLS[1], edgecolor="black", linewidth=0.6,
        )  # fmt: skip
        axes.set_xticks(at, [str(label) for label in (self.labels if labels is None else labels)])
        axes.set(xlabel=self.name, ylabel="log posterior probability, ± 2 standard errors")
        return axes
