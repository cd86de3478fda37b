"""What each kernel's decisions cost, and how often audited ones were wrong: a row for each kernel.

Audits re-make decisions, chosen at random, exactly and with the same random numbers. k wrong ones
of n give the one-sided 95% bound e of Clopper & Pearson (1934) on the error rate per decision. A
draw that takes d decisions differs from an exact one with probability at most d e (errors add),
and the error of the stationary law is at most that times a mixing constant which no run can
bound. The report multiplies by the integrated autocorrelation time instead: an indicative
scale, not a bound. Where all decisions were audited, k / n takes the place of e: of these draws
nothing is left to estimate.

Unasked, those are audited which may be wrong, as they dropped an arm early. How many they are is
counted: their share of all decisions times k / n, and times e, is the rate of all, and its bound.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.runs.counts import KernelStats
from subsample_mcmc.runs.views.mixing import Mixing
from subsample_mcmc.target.layout import TALLY

CONFIDENCE = 0.95  # of each side of the interval of an error rate
COARSE = 2.0  # kept draws per effective one, below which thinning hides how chains mix
# How decisions end: the names of their shares in a row, and in words.
ENDS = {
    "alone": "only one arm was possible",
    "predicted": "decided without data",
    "exact": "summed exactly from the start",
    "raced": "decided by some rows",
    "exhausted": "raced until all rows were read",
    "retreated": "raced, then all rows summed",
}


def clopper_pearson(wrong: int, audited: int) -> tuple[float, float]:
    """Lower and upper 95% bounds (one-sided each) on an error rate; (nan, nan) without audits."""
    from scipy.stats import beta

    if audited == 0:
        return np.nan, np.nan
    right = audited - wrong
    lower = beta.ppf(1 - CONFIDENCE, wrong, right + 1) if wrong else 0.0
    upper = beta.ppf(CONFIDENCE, wrong + 1, right) if right else 1.0
    return float(lower), float(upper)


def _ratio(part: float, whole: float) -> float:
    """A share; nan of nothing."""
    return part / whole if whole else np.nan


def _each(stats) -> np.ndarray:
    """What the wrong decisions of each draw lost, each."""
    return np.asarray(stats.get("regret", 0.0)) / np.maximum(stats.get("wrong", 1), 1)


def with_later_facts(kernel: dict[str, Any]) -> dict[str, Any]:
    """A kernel's facts, with those that its run did not store yet, as far as others tell them.

    Runs that were stored before kernels said so themselves: two kinds proposed; who had a delta
    raced; nearly all raced by sm.Racing, which takes control variates.
    """
    earlier = "subsamples" not in kernel
    told = {
        "subsamples": kernel.get("delta") is not None, "takes_control": True,
        "continuous": True,
        "proposes": earlier and kernel.get("kind") in ("Metropolis", "Langevin"),
    }  # fmt: skip
    return told | kernel


def longest_rest(stats: Mapping) -> int:
    """The most draws in a row, of one chain, in which a kernel ran and accepted nothing."""
    if "accepted" not in stats or "steps" not in stats:
        return 0
    longest = 0
    for accepted, steps in zip(stats["accepted"], stats["steps"], strict=True):
        moved = accepted[steps > 0] > 0
        # Places of moves, between one before the first draw and one after the last.
        places = np.concatenate([[-1], np.flatnonzero(moved), [len(moved)]])
        longest = max(longest, int(np.diff(places).max()) - 1)
    return longest


def bounds_met(stats: Mapping) -> np.ndarray:
    """Of each draw that decided by thinning: what bounds of all residuals add up to, a decision."""
    if "bound" not in stats:
        return np.zeros(0)
    decided = stats["decisions"] > 0
    return stats["bound"][decided] / stats["decisions"][decided]


def evaluations_of(kernel: dict, total: dict) -> float:
    """Of the likelihood, in one decision: those that a control variate takes beside the data's."""
    each, before = kernel.get("evaluations") or (0, 0)
    arms = 1 if kernel.get("proposes") else kernel.get("arms") or 1
    return _ratio(total["pulls"] * (1 + each), total["decisions"]) + before * arms


def microseconds_of(trace: Any, decisions: int) -> float:
    """Of one of these decisions, which are those of draws: seconds are of the warm-up, too."""
    drawn = trace.shape[1] * (trace.meta.get("thin") or 1)
    share = drawn / (drawn + (trace.meta.get("warmup") or 0))
    return 1e6 * share * float(seconds_of(trace).sum()) / max(decisions, 1)


def seconds_of(trace: Any) -> np.ndarray:
    """Of each chain until the last draw that all of them have: others were cut off."""
    before, each = trace.meta.get("warmup") or 0, trace.meta.get("thin") or 1
    shown, made = (before + each * np.array(draws) for draws in (trace.shape[1], trace.made))
    return np.asarray(trace.seconds * shown / np.maximum(made, 1))


class Worst(NamedTuple):
    """How the worst of the blocks mixed that a kernel moves; nan where not known."""

    ess: float  # of the draws that were kept
    rhat: float
    iat: float  # in draws
    iat_at_most: bool  # kept draws are nearly independent: others between them may be, too


def worst_of(blocks: Sequence[Mixing], chains: int) -> Worst:
    """The lowest ESS, the highest R-hat and the longest IAT."""
    known = [block for block in blocks if block.ess == block.ess]
    iats = [
        (block.every * chains * block.draws / block.ess, is_coarse(block, chains))
        for block in known
    ]
    return Worst(
        min((block.ess for block in known), default=np.nan),
        max((block.rhat for block in blocks if block.rhat == block.rhat), default=np.nan),
        *max(iats, default=(np.nan, False)),
    )


def is_coarse(block: Mixing, chains: int) -> bool:
    """Were so few draws kept that they do not tell how long draws depend on each other?"""
    return block.every > 1 and chains * block.draws < COARSE * block.ess


def measure(
    kernel: dict, stats: KernelStats, worst: Worst, draws: int, seconds: float,
    unasked: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """One row of the report, a dict: a kernel of `meta`, its statistics, how its blocks mixed.

    unasked: were audits made of their own accord, of decisions alone that may be wrong.
    """
    total = {f: stats.total(f) for f in TALLY.names or ()}
    decisions, audited, wrong = total["decisions"], total["audited"], total["wrong"]
    # Only a decision that dropped an arm early can be wrong, and those are counted.
    early = _ratio(total["early"], decisions)
    part = early if unasked else 1.0  # of decisions: those that audits are drawn from
    lower, upper = (part * bound for bound in clopper_pearson(wrong, audited))
    if audited and not unasked and wrong <= total["early"]:
        upper = min(upper, clopper_pearson(total["early"], decisions)[1] if wrong else early)
    per_draw, (ess, rhat, iat, at_most) = _ratio(decisions, draws), worst
    proved = kernel.get("guarantee") == "exact" and not wrong  # its errors need no bounding
    # Where all were audited, how often these draws went wrong is a count; `upper` is for others.
    counted = wrong / decisions if audited and audited >= part * decisions else upper
    sweep = min(1.0, counted * per_draw) if audited and not proved else np.nan
    met = bounds_met(stats)
    return {
        "kernel": kernel["label"],
        **{k: kernel.get(k) for k in ("kind", "guarantee", "selector", "delta", "rows", "arms")},
        "asymptotic_normal": bool(kernel.get("asymptotic_normal")),
        **{k: kernel.get(k) or "" for k in ("note", "promise", "remedy")},
        "walks": bool(kernel.get("walks", True)),
        "steps": total["steps"],
        "decisions": decisions,
        "decisions_per_draw": per_draw,
        "accepted": _ratio(total["accepted"], decisions),
        "read": _ratio(total["pulls"], total["everything"]),
        "pulls_per_draw": _ratio(total["pulls"], draws),
        "evaluations": evaluations_of(kernel, total),
        "early": early,
        **{end: _ratio(total[end], decisions) for end in ENDS},
        "bound": float(np.median(met)) if len(met) else np.nan,
        "bound_high": float(np.quantile(met, 0.95, method="higher")) if len(met) else np.nan,
        "capped": _ratio(total["capped"], total["steps"]),
        "audited": audited,
        "wrong": wrong,
        "audited_of": part,
        "error": part * _ratio(wrong, audited),
        "error_lower": lower,
        "error_upper": upper,
        "error_per_draw": sweep,
        "regret_wrong": _ratio(total["regret"], wrong),
        # Of one decision, if those of a draw that were wrong lost alike.
        "regret_worst": float(np.max(_each(stats))) if audited else 0.0,
        "still": longest_rest(stats) if not kernel.get("walks", True) else 0,
        "regret_audited": _ratio(total["regret"], audited),
        "margin": _ratio(total["margin"], audited),
        # Rewards of one arm have no partner in another where arms have rows of their own.
        "skewness": np.nan if kernel.get("labels") else _ratio(total["skewness"], audited),
        "variance": np.nan if kernel.get("labels") else _ratio(total["variance"], audited),
        "distance": _ratio(total["distance"], decisions),
        "ess": ess,
        "iat": iat,
        "iat_at_most": at_most,
        "rhat": rhat,
        # Antithetic chains have an IAT below 1, yet no chain forgets an error before making it.
        "bias_scale": sweep * float(np.maximum(1.0, iat)),
        # Gradients read data like rewards do: a proposal must not look free.
        "ess_per_million": 1e6 * _ratio(ess, total["pulls"] + total["gradients"]),
        "ess_per_second": _ratio(ess, seconds),
    }


def all_audited(row: dict) -> bool:
    """Was every decision of a kernel made again: its errors are then counted, not estimated."""
    return 0 < row["decisions"] <= row["audited"]
