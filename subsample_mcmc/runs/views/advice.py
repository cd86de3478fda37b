"""What a report worries about: one sentence for what was seen, one for what to do."""

from collections.abc import Iterator
from typing import Any

import numpy as np

CONFIDENCE = 0.95  # of each side of the interval of an error rate
ALARM = 0.01  # a rate above delta is reported when chance does this in fewer runs
SKEWED = 3.0  # |skewness| of a difference beyond which the normal tail is far off (lognormal: 6)
RACE_FAILED = 0.9  # share of races that ended with all rows read: racing saves nothing ...
FEW_ROWS = 5000  # ... which is for want of rows below a few mini-batches of each size
NEARLY_ALL = 0.7  # share of rewards read beyond which a plain exact pass is as fast
ACCEPTANCE = (0.02, 0.98)  # outside, a random walk's step is wrong by orders of magnitude
CAPPED = 0.01  # share of slices given up: beyond, their draws are not the slice sampler's
VISIBLE = 0.1  # a bias below this part of the Monte Carlo error cannot be seen in the estimates
FEW_DRAWS = 100  # per chain: the autocorrelation time cannot be estimated from fewer
FEW_EFFECTIVE = 100  # per chain, as Vehtari et al. (2021) ask before any estimate is trusted
DEAR = 20.0  # nats: a draw that loses more has a chance of e^-20 beside the one it replaced
STILL = 50  # draws without a move, from which on one asks whether that can be chance
FAR = 9.0  # squared distance from a reference, 1 on average in the posterior around it: 3 sd off


def all_audited(row: dict) -> bool:
    """Was every decision of a kernel made again: its errors are then counted, not estimated."""
    return 0 < row["decisions"] <= row["audited"]


def kernel_warnings(row: dict, kernel: dict, audit: float) -> Iterator[str]:
    """What is wrong with one kernel's row: what was seen, and what to do; kernel: its facts."""
    from scipy.stats import binom

    delta, audited, wrong, read = row["delta"], row["audited"], row["wrong"], row["read"]
    exact, proved = row["guarantee"] == "exact", row["guarantee"] == "bounded"
    racing = row["decisions"] and not exact and kernel.get("subsamples", True)
    seen = f"{wrong:,} of {audited:,} audited decisions were wrong"
    if exact and wrong:
        yield (
            f"{seen} in an exact kernel, by {row['regret_wrong']:.2g} nats. Unless these are "
            "ties within rounding, report a bug."
        )
    elif delta is not None and wrong and binom.sf(wrong - 1, audited, delta) < ALARM:
        bounds = f"95% bounds {row['error_lower']:.2g} and {row['error_upper']:.2g}"
        usual = "Check the declared range", "Use a smaller delta, Betting with a range"
        use = row["remedy"] or usual[not proved]
        yield (
            f"{seen} ({row['error']:.2g}, {bounds}), more than delta={delta:g} allows. {use}, "
            "or sm.Exact()."
        )
    if wrong and row["regret_worst"] > DEAR:
        yield (
            f"wrong decisions lost as much as {row['regret_worst']:.3g} nats each: however rare, "
            "what they chose is no draw of the posterior. Give it a control variate, "
            "sm.Betting with a range, or sm.Exact()."
        )
    if row["asymptotic_normal"] and row["skewness"] > SKEWED and row["raced"] > ALARM:
        more = "" if all_audited(row) else ", or audit more decisions"
        yield (
            f"differences between arms have a mean |skewness| of {row['skewness']:.2g}, above "
            f"{SKEWED:g}, where a normal approximation fails in the tail. Use sm.Betting with "
            f"a range{more}."
        )
    failed = row["exact"] + row["exhausted"] + row["retreated"]
    if racing and failed > RACE_FAILED and (row["rows"] or 0) < FEW_ROWS:
        yield (
            f"{failed:.0%} of decisions read all rows of the arms left ({read:.0%} of all "
            f"rewards): {row['rows']} data are too few to race. sm.Exact() does the same work "
            "without a risk."
        )
    elif racing and read > NEARLY_ALL:
        control = "Give it a control variate, control=sm.Taylor(sm.laplace(model)), or"
        use = control if kernel.get("takes_control", True) else "Use"
        yield (
            f"decisions read {read:.0%} of all rewards, so racing saves little. {use} sm.Exact(). "
            "(A label for every datum: sum it out, or sm.Exact().)"
        )
    if row["distance"] > FAR:
        yield (
            f"its states lie {np.sqrt(row['distance']):.2g} posterior sd per parameter from the "
            "control variate's reference (1 is usual), where it explains less: residuals grow with "
            "the third power of that. Fit again where the chain is (sm.laplace from its last "
            "state), or take a longer warmup."
        )
    if row["guarantee"] == "asymptotic" and not audit and row["early"] > 0:
        yield (
            "it is asymptotic and no decision was audited, so nothing tells how often it "
            "errs. Use sm.sample(..., audit=0.01)."
        )
    if row["guarantee"] == "unadjusted":
        yield (
            "it is unadjusted: its bias is not controlled, and depends on the step size. Use "
            "correct=True, or halve the step until the estimates stay."
        )
    low, high = ACCEPTANCE
    if kernel.get("proposes") and (rate := row["accepted"]) == rate:
        # A proposal that fits the posterior may always be accepted.
        if not low <= rate <= (high if row["walks"] else 1.0):
            change = "Lower" if rate < low else "Raise"
            yield (
                f"{rate:.2%} of proposals were accepted. {change} its scale or step, or take a "
                "longer warmup."
            )
    rate, still = row["accepted"], row["still"]
    if still >= STILL and rate > 0.0 and row["steps"] * (1.0 - min(rate, 1.0)) ** still < ALARM:
        yield (
            f"a chain stood still for {still:,} draws in a row, where {rate:.0%} of proposals are "
            "accepted on average: there, in a tail that it seldom proposes, nearly all proposals "
            "are refused. Propose from wider tails (sm.pcn: a lower beta, or a wider covariance), "
            "or compose it with a random walk: kernel >> sm.Metropolis(block)."
        )
    if row["capped"] > CAPPED:
        yield (
            f"{row['capped']:.1%} of steps gave up a slice after too many tests. Set its width "
            "nearer to the posterior's, or allow more tests."
        )
    limit = VISIBLE / np.sqrt(row["ess"])
    if not exact and row["bias_scale"] > limit:
        # Without errors, n audits bound the rate by -log(1 - CONFIDENCE) / n.
        each = row["decisions_per_draw"] * max(row["iat"], 1.0)
        needed = -np.log(1 - CONFIDENCE) * each / limit
        if row["error"] * each > limit:
            advice = f"{row['remedy'] or 'Use a smaller delta'}, or sm.Exact()."
        elif needed < row["decisions"]:
            advice = f"That is for want of audits: take about {needed:,.0f}."
        else:
            advice = "That is for want of audits: take more draws, audit all, or use sm.Exact()."
        yield (
            f"{seen}, so a draw may differ with probability {row['error_per_draw']:.2g}: a "
            f"bias scale of {row['bias_scale']:.2g}, above {limit:.2g}, a tenth of the Monte "
            f"Carlo error. {advice}"
        )


def block_warnings(block: Any, chains: int) -> Iterator[str]:
    """What is wrong with one block's draws."""
    if not block.finite:
        yield "it has draws that are not finite: check the log likelihood and the constraints."
    if block.sites and not block.moved:
        yield (
            "it never moved in any chain. One value may have all the mass; if not, its kernel "
            "cannot leave it: propose other moves, or start the chains elsewhere."
        )
    if block.ess < FEW_EFFECTIVE * chains:
        yield (
            f"its ESS is {block.ess:.0f}, below {FEW_EFFECTIVE} per chain: estimates and the "
            "IAT here are unreliable. Take more draws."
        )


def tilted(kernel: dict, stats: dict) -> Iterator[str]:
    """What to know about draws under a prior that sm.WangLandau has tilted."""
    label, block, ran = kernel["label"], kernel["block"], stats["steps"] > 0
    seen = stats["tilt"][ran]
    reach = (
        f", from {seen.min():.3g} to {seen.max():.3g} nats where draws were" if ran.any() else ""
    )
    yield f"{label}: WangLandau, frozen tilt{reach}."
    yield (
        f"draws of {block}, and of what depends on it, are tilted: use "
        f"trace.model_probabilities({block!r}), and its weights for averages of other blocks."
    )
