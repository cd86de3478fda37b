"""Which decisions are made again, exactly, where a run was told nothing of audits.

A race that estimates its error may err more often than it says, and its draws do not show it: rows
of a rare kind, say, that no batch meets. Where that is all that a kernel promises, some decisions
that may be wrong are audited unasked: as many as read a fifth of what its decisions have read (see
wants_audit in kernels/decision.py). That depends on counts, not on a clock, nor on how long the run
is: chains that go on are audited as if they had not stopped.
"""

from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.base import Kernel, labelled
from subsample_mcmc.kernels.decision import UNASKED
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.elsewhere.resident import TOGETHER
from subsample_mcmc.target.model import Model

FEW = 20  # passes over rows elsewhere that nobody need be told of beforehand


def share_of(audit: float | None, model: Model) -> float:
    """What a chain is told, see NOW; rows that are elsewhere are not read again unasked."""
    if audit is not None:
        return float(audit)
    return 0.0 if DISABLED or model.elsewhere is not None else UNASKED


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
