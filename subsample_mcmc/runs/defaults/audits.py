"""How many decisions are made again, exactly, where a run was told nothing of audits.

A race that estimates its error may err more often than it says, and its draws do not show it: rows
of a rare kind, say, that no batch meets. Where that is all that a kernel promises, some decisions
are audited unasked: so few that nobody waits for them, so many that a race which is often wrong, or
wrong by much, is found out. The share depends on the model, the kernel and the number of steps, not
on a clock: two machines count the same.
"""

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.base import Kernel, Leaf, labelled
from subsample_mcmc.kernels.custom import Custom
from subsample_mcmc.kernels.partition.merge_split import MergeSplit
from subsample_mcmc.kernels.slice import Slice
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.elsewhere.resident import TOGETHER
from subsample_mcmc.target.model import Model

REWARDS = 4e6  # of a chain's audits: hundredths of a second, as rewards usually are
MOST = 0.05  # of all decisions: races of few rows read a good part of them as it is
TESTS = 6  # of a slice, along one coordinate
FEW = 20  # passes over rows elsewhere that nobody need be told of beforehand


def usual_share(kernel: Kernel, model: Model, steps: int) -> float:
    """Of decisions, by what exact ones read; 0.0 where all kernels have a proof, or decide by all.

    Rows that are elsewhere would have to come again, and in plain Python sums are long: there it is
    the user's to say.
    """
    leaves = list(kernel.leaves())
    if DISABLED or any(isinstance(leaf, Custom) and leaf.obstacle(model) for leaf in leaves):
        return 0.0
    told = [(leaf, leaf.facts(model)) for leaf in leaves]
    raced = [(leaf, facts) for leaf, facts in told if facts["subsamples"]]
    unproved = any(facts["guarantee"] in ("asymptotic", "none") for _, facts in raced)
    if not unproved or model.elsewhere is not None:
        return 0.0
    by_all = sum(rewards_by_all(leaf, facts, model) for leaf, facts in raced)
    return min(MOST, REWARDS / (max(steps, 1) * max(by_all, 1.0)))


def rewards_by_all(leaf: Leaf, facts: dict, model: Model) -> float:
    """About how many rewards a kernel's step would read if it decided exactly."""
    if facts.get("labels"):
        partition = leaf.partition if isinstance(leaf, MergeSplit) else leaf
        sizes = np.diff(partition.blocks(model).start)  # type: ignore[attr-defined]
        return float((sizes.astype(float) ** 2).sum())
    arms = float(facts["arms"] or 2)
    touches = model.variables[leaf.writes[0]].touches
    if facts["rows"] < model.size and touches is not None:  # each site is about its own
        return arms * len(touches[1])
    lengths = [model.variables[name].block.length for name in leaf.writes]
    if isinstance(leaf, Slice):
        return arms * model.size * TESTS * sum(lengths)
    at_once = facts.get("proposes") and "zeros" not in facts  # else one coordinate at a time
    return arms * model.size * (1 if at_once else lengths[0])


def warn_of_passes(kernel: Kernel, model: Model, audit: float, chains: int, steps: int) -> None:
    """Say how many passes over rows that are elsewhere the exact sums of audits take."""
    leaves = [leaf for _, leaf in labelled(kernel) if getattr(leaf, "selector", None) is not None]
    sums = int(2 * audit * steps * len(leaves))  # of a chain: two states a decision, at least
    least = -(-sums // TOGETHER)  # where all chains share each
    if model.elsewhere is not None and chains * least > FEW:
        known = f"{least:,}" if chains == 1 else f"{least:,} to {chains * least:,}"
        warn(
            f"audit={audit}: rows are elsewhere, and exact sums of some {chains * sums:,} states "
            f"take about {known} passes over all of them, or more. Give a smaller share, or "
            "audit a short run: sm.audit(model, selector, kernel, steps=200)."
        )
