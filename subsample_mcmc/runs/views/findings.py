"""What a user should act on, and what is good to know: the warnings and notes of a report.

A warning says what was seen and one thing to do. They are in the order of what they cost if nobody
heeds them: first what makes draws wrong, then what makes estimates poor, last what wastes time.
What cannot be acted on, or need not be, is a note.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from subsample_mcmc.runs.views.costs import CONFIDENCE, all_audited, clopper_pearson
from subsample_mcmc.runs.views.mixing import BEYOND, Mixing

ALARM = 0.01  # a rate above delta is reported when chance does this in fewer runs
SKEWED = 3.0  # |skewness| of a difference beyond which the normal tail is far off (lognormal: 6)
RACE_FAILED = 0.9  # share of races that ended with all rows read: racing saves nothing ...
READ_ALL = 0.25  # of thinned decisions that read all data
FEW_ROWS = 5000  # ... which is for want of rows below a few mini-batches of each size
NEARLY_ALL = 0.7  # share of rewards read beyond which a plain exact pass is as fast
ACCEPTANCE = (0.02, 0.98)  # outside, a random walk's step is wrong by orders of magnitude
CAPPED = 0.01  # share of slices given up: beyond, their draws are not the slice sampler's
VISIBLE = 0.1  # a bias below this part of the Monte Carlo error cannot be seen in the estimates
FEW_DRAWS = 100  # per chain: the autocorrelation time cannot be estimated from fewer
FEWEST = 4  # draws per chain that have an R-hat
FEW_EFFECTIVE = 100  # per chain, as Vehtari et al. (2021) ask before any estimate is trusted
FLAGGED = 1.01  # R-hat that Vehtari et al. (2021) call converged, at most
DISAGREE = 1.05  # R-hat beyond which chains tell different things, whatever their length
APART = 1.3  # R-hat that chains of one mode seldom have: more draws are no help
FEW_AUDITS = 10  # as good as none, unless they were asked for
LARGE_LOSS = 20.0  # nats: a draw that loses more has a chance of e^-20 beside the one it replaced
LONG_REST = 50  # draws without a move, from which on one asks whether that can be chance
FAR = 9.0  # squared distance from a reference, 1 on average in the posterior around it: 3 sd off

# What a warning is about, worst first.
NOT_THE_POSTERIOR, WRONG, UNKNOWN_ERROR, MAY_BE_STUCK, POOR_ESTIMATES, SLOW = range(6)


class Finding(NamedTuple):
    """A warning."""

    rank: int  # in the order above
    text: str


def kernel_warnings(row: dict, kernel: dict, audit: float) -> Iterator[Finding]:
    """What is wrong with one kernel's row: what was seen, and what to do; kernel: its facts."""
    yield from wrong_decisions(row, audit)
    yield from moves(row, kernel)
    yield from waste(row, kernel)


def are_apart(block: Mixing, rhat: float) -> bool:
    """Do chains disagree, as far as so many draws can tell?"""
    few = block.draws < FEW_DRAWS and block.every > 1
    return rhat > (APART if few else DISAGREE) and block.draws >= FEWEST


def is_flagged(rhat: float) -> bool:
    """Is R-hat, as it is written, above what is called converged?"""
    return round(rhat, 3) > FLAGGED


def seen(row: dict) -> str:
    """What audits came to."""
    return f"{row['wrong']:,} of {row['audited']:,} audited decisions{told_of(row)} were wrong"


def told_of(row: dict) -> str:
    """Of which decisions those that were audited are, where that is not all."""
    return " by some rows" if row["audited_of"] < 1.0 else ""


def more_than_delta(row: dict) -> bool:
    """Were so many audited decisions wrong that delta does not explain them?"""
    from scipy.stats import binom

    delta, audited, wrong = row["delta"], row["audited"], row["wrong"]
    exact = row["guarantee"] == "exact"
    if exact or not delta or not wrong:
        return False
    return bool(binom.sf(wrong - 1, audited, min(delta / row["audited_of"], 1.0)) < ALARM)


def lost_much(row: dict) -> bool:
    """Did a wrong decision choose what is no draw of the posterior, however rare such ones are?"""
    return bool(row["wrong"] and row["regret_worst"] > LARGE_LOSS)


def is_skewed(row: dict) -> bool:
    """Are differences between arms so skewed that a normal approximation may fail?"""
    return row["asymptotic_normal"] and row["skewness"] > SKEWED and row["raced"] > ALARM


def is_confirmed(row: dict) -> bool:
    """Do audits say that the error rate is at most delta: at 95% confidence, or of these draws."""
    return not row["wrong"] and (all_audited(row) or row["error_upper"] <= (row["delta"] or 0.0))


def wrong_decisions(row: dict, audit: float) -> Iterator[Finding]:
    """Errors that audits saw, or would have to look for."""
    delta, wrong, exact = row["delta"], row["wrong"], row["guarantee"] == "exact"
    remedy = row["remedy"]
    if exact and wrong:
        yield Finding(
            WRONG,
            f"{seen(row)} in an exact kernel, by {row['regret_wrong']:.2g} nats. Unless these are "
            "ties within rounding, report a bug.",
        )
    elif more_than_delta(row):
        bounds = f"95% bounds {row['error_lower']:.2g} and {row['error_upper']:.2g}"
        why = ""
        if is_skewed(row):
            why = (
                f": differences have a mean |skewness| of {row['skewness']:.2g}, where a normal "
                "approximation fails in the tail"
            )
        usual = "Decide exactly: selector=sm.Exact()"
        use = remedy or ("Check the declared range" if row["guarantee"] == "bounded" else usual)
        yield Finding(
            WRONG,
            f"{seen(row)} ({row['error']:.2g}, {bounds}), more than delta={delta:g} allows{why}. "
            f"{use}.",
        )
    elif bias := errors_that_show(row):
        yield bias
    if lost_much(row):
        yield Finding(
            WRONG,
            f"wrong decisions lost as much as {row['regret_worst']:.3g} nats each: however rare, "
            "what they chose is no draw of the posterior. Decide exactly: selector=sm.Exact().",
        )
    if is_skewed(row) and not more_than_delta(row) and not is_confirmed(row):
        use = "Use sm.Betting with a range"
        if not wrong:
            needed = -np.log(1 - CONFIDENCE) / delta
            use = f"Audit more decisions: {needed:,.0f} without an error would bound it by delta"
        yield Finding(
            UNKNOWN_ERROR,
            f"differences between arms have a mean |skewness| of {row['skewness']:.2g}, above "
            f"{SKEWED:g}, where a normal approximation fails in the tail. {use}.",
        )
    few = row["audited"] < FEW_AUDITS and not wrong and not is_confirmed(row)
    unknown = few and not (row["audited"] and audit)
    if row["guarantee"] == "asymptotic" and row["early"] > 0 and unknown:
        told = "no decision was"
        if row["audited"]:
            told = f"only {row['audited']:,} of {row['decisions']:,} decisions were"
        yield Finding(
            UNKNOWN_ERROR,
            f"it is asymptotic and {told} audited, so nothing tells how often it errs. Use "
            "sm.sample(..., audit=0.01).",
        )


def bias_limit(row: dict) -> float:
    """A bias scale that cannot be seen in estimates; nan where the ESS is not known."""
    return float(VISIBLE / np.sqrt(row["ess"]))


def decisions_in_iat(row: dict) -> float:
    """How many decisions an error is felt in."""
    return row["decisions_per_draw"] * max(row["iat"], 1.0)


def errors_that_show(row: dict) -> Finding | None:
    """Errors were seen, and what they may add up to is beside the Monte Carlo error."""
    limit = bias_limit(row)
    if row["guarantee"] == "exact" or not row["wrong"] or not row["bias_scale"] > limit:
        return None
    use = "Decide exactly: selector=sm.Exact()" if lost_much(row) else "Use a smaller delta"
    use = row["remedy"] or use
    if row["error"] * decisions_in_iat(row) <= limit:
        use = f"To know, audit more decisions, about {audits_to_know(row):,}"
    return Finding(
        WRONG,
        f"{seen(row)}, so a draw may differ with probability {row['error_per_draw']:.2g}: a "
        f"bias scale of {row['bias_scale']:.2g}, above {limit:.2g}, a tenth of the Monte "
        f"Carlo error. {use}.",
    )


def audits_needed(row: dict) -> float:
    """Audits without an error, from which on a bias is known not to show."""
    # Without errors, n audits bound the rate by -log(1 - CONFIDENCE) / n.
    return -np.log(1 - CONFIDENCE) * decisions_in_iat(row) / bias_limit(row)


def audits_to_know(row: dict) -> int:
    """The same where errors were seen: as many as show it if they stay as rare as they were."""
    most, audits = bias_limit(row) / decisions_in_iat(row), row["audited"]
    while clopper_pearson(round(audits * row["error"]), audits)[1] > most and audits < 10**12:
        audits *= 2
    return audits


def moves(row: dict, kernel: dict) -> Iterator[Finding]:
    """How its proposals fared."""
    if row["guarantee"] == "unadjusted":
        use = "Compare with half the step"
        yield Finding(
            WRONG,
            "it is unadjusted: its bias is not controlled, and depends on the step size. "
            f"{'Use correct=True' if kernel.get('kind') == 'Langevin' else use}.",
        )
    rate, still = row["accepted"], row["still"]
    chance = row["steps"] * (1.0 - min(rate, 1.0)) ** still  # of such a rest anywhere in the run
    if still >= LONG_REST and rate > 0.0 and chance < ALARM:
        yield Finding(
            MAY_BE_STUCK,
            f"a chain stood still for {still:,} draws in a row, where {rate:.0%} of proposals are "
            "accepted on average: there, in a tail that it seldom proposes, nearly all proposals "
            "are refused. Compose it with a random walk: kernel >> sm.Metropolis(block).",
        )
    if row["capped"] > CAPPED:
        yield Finding(
            MAY_BE_STUCK,
            f"{row['capped']:.1%} of steps gave up a slice after too many tests. Set its width "
            "nearer to the posterior's.",
        )
    low, high = ACCEPTANCE
    if kernel["proposes"] and rate == rate:
        # A proposal that fits the posterior may always be accepted.
        if not low <= rate <= (high if row["walks"] else 1.0):
            change = "Lower" if rate < low else "Raise"
            yield Finding(
                SLOW, f"{rate:.2%} of proposals were accepted. {change} its scale or step."
            )


def waste(row: dict, kernel: dict) -> Iterator[Finding]:
    """Data that are read for nothing."""
    failed = row["exact"] + row["exhausted"] + row["retreated"]
    racing = row["decisions"] and row["guarantee"] != "exact" and kernel["subsamples"]
    read = row["read"]
    if racing and failed > RACE_FAILED and (row["rows"] or 0) < FEW_ROWS:
        yield Finding(
            SLOW,
            f"{failed:.0%} of decisions read all rows of the arms left ({read:.0%} of all "
            f"rewards): {row['rows']} data are too few to race. sm.Exact() does the same work "
            "without a risk.",
        )
    elif racing and read > NEARLY_ALL:
        control = "Give it a control variate, control=sm.Taylor(sm.laplace(model))"
        able = kernel["takes_control"] and kernel["continuous"] and not kernel.get("control")
        yield Finding(
            SLOW,
            f"decisions read {read:.0%} of all rewards, so racing saves little. "
            f"{control if able else 'Use sm.Exact()'}.",
        )
    dear = kernel.get("parts") == ["Thinned"] and not kernel.get("by_column")  # which is cheap
    if dear and row["exact"] > READ_ALL:
        yield Finding(
            SLOW,
            f"{row['exact']:.0%} of its decisions read all data: bounds of the residuals add up to "
            "more than a twentieth of the rows. They are exact, and dear: where asymptotic will "
            "do, selector=sm.Racing() reads fewer.",
        )
    if row["distance"] > FAR:
        yield Finding(
            SLOW,
            f"its states lie {np.sqrt(row['distance']):.2g} posterior sd per parameter from the "
            "control variate's reference (1 is usual), where it explains less: residuals grow with "
            "the third power of that. Fit again where the chain is: sm.laplace from its last "
            "state.",
        )


def block_warnings(block: Mixing, chains: int, function: bool = False) -> Iterator[Finding]:
    """What is wrong with one block's draws, or those of a function of the state."""
    if not block.finite:
        yield Finding(
            NOT_THE_POSTERIOR,
            "it has draws that are not finite: check the log likelihood and the constraints.",
        )
    if block.beyond and not function:
        yield Finding(
            NOT_THE_POSTERIOR,
            f"its draws go beyond {BEYOND:g}, where numbers end: there may be no law, as with a "
            "flat prior of what data say too little of. Give it a prior.",
        )
    if block.crowded and not function:
        yield Finding(
            NOT_THE_POSTERIOR,
            f"{block.crowded}, where numbers end: the mass beyond is counted nearby, and there may "
            "be no law at all, as with a prior that grows without end. Give a prior that holds it "
            "away; or, of a probability next to 1, that of the contrary, or sm.simplex of both.",
        )
    few = block.draws < FEW_DRAWS and block.every > 1
    if few:
        yield Finding(
            POOR_ESTIMATES,
            f"of each chain {block.draws} of its draws were kept, too few to tell how it mixed "
            f"({FEW_DRAWS} or more). Keep more of them, or take more draws.",
        )
    if few and block.draws < FEWEST:
        return
    if block.sites and not block.moved and block.rhat == np.inf:
        yield Finding(
            NOT_THE_POSTERIOR,
            "it never moved in any chain, and chains stand at different values: its kernel cannot "
            "leave them. Propose other moves.",
        )
    elif block.sites and not block.moved:
        yield Finding(
            MAY_BE_STUCK,
            "it never moved in any chain. One value may have all the mass; if not, its kernel "
            "cannot leave it: start the chains elsewhere to tell.",
        )
    elif block.held and not block.discrete and not function:
        where = "any chain" if block.holding == chains else f"{block.holding} of {chains} chains"
        more = f", nor did {block.held - 1:,} more" * (block.held > 1)
        yield Finding(
            MAY_BE_STUCK if block.holding == chains else NOT_THE_POSTERIOR,
            f"{block.held_one} never moved in {where}{more}. It is continuous, so its kernel may "
            "refuse every proposal: see what is accepted there, with a smaller scale.",
        )
    ess, rhat = "its ESS", "R-hat"
    if block.sites > 1:
        ess, rhat = f"the ESS of {block.slowest}", f"R-hat of {block.farthest}"
    if are_apart(block, block.rhat) and block.moved:
        use = "Take a longer warmup and more draws."
        if block.rhat > APART:
            use = (
                "Each may be held by a mode of its own: look at them one by one, "
                "arviz.plot_trace(trace.to_arviz())."
            )
        far = "infinite" if block.rhat == np.inf else f"{block.rhat:.3g}"
        yield Finding(
            NOT_THE_POSTERIOR,
            f"its chains disagree: {rhat} is {far}, and about 1 where all tell the same; {ess} is "
            f"{block.ess:.0f}. {use}",
        )
    elif block.ess < FEW_EFFECTIVE * chains and not few:
        yield Finding(
            POOR_ESTIMATES,
            f"{ess} is {block.ess:.0f}, below {FEW_EFFECTIVE * chains}, {FEW_EFFECTIVE} for each "
            "chain: estimates and the IAT here are unreliable. Take more draws.",
        )


# ------------------------------------------------------------------------------------------ notes
def kernel_notes(row: dict) -> Iterator[str]:
    """What is good to know of one kernel's row."""
    if row["guarantee"] == "exact" or not row["audited"] or row["wrong"]:
        return
    if all_audited(row):
        yield (
            f"all {row['decisions']:,} decisions were audited and none was wrong, so these draws "
            "are those of exact decisions. (The bound per decision is for other runs.)"
        )
    elif row["bias_scale"] > bias_limit(row):
        needed = audits_needed(row)
        how = f"{needed:,.0f} audits would"
        if needed >= row["decisions"]:
            how = f"{needed:,.0f} audits would, more than there are decisions here,"
        yield (
            f"{seen(row)}, so at most {share(row['error_upper'])} are (95%). About {how} show that "
            "what is left is below a tenth of the Monte Carlo error."
        )
    if is_skewed(row) and is_confirmed(row):
        yield (
            f"differences between arms have a mean |skewness| of {row['skewness']:.2g}: a normal "
            "approximation may fail in the tail, and no audited decision shows that it does."
        )


def share(part: float) -> str:
    """A rate as a percentage."""
    return f"{100 * part:.2g}%" if part < 0.095 else f"{100 * part:.0f}%"


def tilt_notes(kernel: dict, stats: Mapping) -> Iterator[str]:
    """What to know about draws under a prior that sm.WangLandau has tilted."""
    label, block, ran = kernel["label"], kernel["block"], stats["steps"] > 0
    found = stats["tilt"][ran]
    reach = (
        f", from {found.min():.3g} to {found.max():.3g} nats where draws were" if ran.any() else ""
    )
    yield f"{label}: WangLandau, frozen tilt{reach}."
    yield (
        f"draws of {block}, and of what depends on it, are tilted: use "
        f"trace.model_probabilities({block!r}), and its weights for averages of other blocks."
    )
