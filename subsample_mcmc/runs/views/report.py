"""What a run cost, how often its decisions were wrong, and what to do about it: the report.

Audits re-make decisions, chosen at random, exactly and with the same random numbers. k wrong ones
of n give the one-sided 95% bound e of Clopper & Pearson (1934) on the error rate per decision. A
draw that takes d decisions differs from an exact one with probability at most d e (errors add),
and the error of the stationary law is at most that times a mixing constant which no run can
bound. The report multiplies by the integrated autocorrelation time instead: an indicative
scale, not a bound. Where all decisions were audited, k / n takes the place of e: of these draws
nothing is left to estimate.
"""

import html
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from subsample_mcmc.runs.counts import KernelStats
from subsample_mcmc.target.layout import TALLY

CONFIDENCE = 0.95  # of each side of the interval of an error rate
# What the table shows, in order: title, key of the row, format.
_LINES = (
    ("guarantee", "guarantee", "text"),
    ("delta", "delta", "number"),
    ("steps", "steps", "count"),
    ("decisions per draw", "decisions_per_draw", "number"),
    ("accepted", "accepted", "share"),
    ("data read", "read", "share"),
    ("rewards read per draw", "pulls_per_draw", "number"),
    ("evaluations per decision", "evaluations", "number"),
    ("microseconds per decision", "microseconds", "number"),
    ("ended: one arm possible", "alone", "share"),
    ("ended: predicted, no data raced", "predicted", "share"),
    ("ended: exact from the start", "exact", "share"),
    ("ended: one arm left", "raced", "share"),
    ("ended: all rows read", "exhausted", "share"),
    ("ended: survivors streamed", "retreated", "share"),
    ("audited", "audited", "count"),
    ("wrong", "wrong", "count"),
    ("error per decision <= (95%)", "error_upper", "number"),
    ("error per draw <= (95%)", "error_per_draw", "number"),
    ("L, sum of residuals' bounds: median", "bound", "number"),
    ("L is below it in 95% of draws", "bound_high", "number"),
    ("nats lost per wrong one", "regret_wrong", "number"),
    ("nats lost per audited one", "regret_audited", "number"),
    ("nats between the best two", "margin", "number"),
    ("N v of their difference, nats^2", "variance", "number"),
    ("|skewness| of differences", "skewness", "number"),
    ("ESS (bulk, worst site)", "ess", "number"),
    ("IAT in draws", "iat", "number"),
    ("R-hat (worst site)", "rhat", "number"),
    ("bias scale, NOT a bound", "bias_scale", "number"),
    ("ESS per million rewards", "ess_per_million", "number"),
    ("ESS per second", "ess_per_second", "number"),
)


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
    return 1e6 * share * float(np.sum(trace.seconds)) / max(decisions, 1)


def measure(
    kernel: dict, stats: KernelStats, ess: float, draws: int, seconds: float, rhat: float = np.nan
):
    """One row of the report, a dict: a kernel of `meta`, its statistics, worst ESS and R-hat."""
    total = {f: stats.total(f) for f in TALLY.names or ()}
    decisions, audited, wrong = total["decisions"], total["audited"], total["wrong"]
    lower, upper = clopper_pearson(wrong, audited)
    # Only a decision that dropped an arm early can be wrong, and those are counted.
    upper = min(upper, _ratio(total["early"], decisions)) if wrong == 0 else upper
    per_draw, iat = _ratio(decisions, draws), _ratio(draws, ess)
    proved = kernel.get("guarantee") == "exact" and not wrong  # its errors need no bounding
    # Where all were audited, how often these draws went wrong is a count; `upper` is for others.
    counted = wrong / decisions if audited and audited >= decisions else upper
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
        "early": _ratio(total["early"], decisions),
        **{
            end: _ratio(total[end], decisions)
            for end in ("alone", "predicted", "exact", "raced", "exhausted", "retreated")
        },
        "bound": float(np.median(met)) if len(met) else np.nan,
        "bound_high": float(np.quantile(met, 0.95, method="higher")) if len(met) else np.nan,
        "capped": _ratio(total["capped"], total["steps"]),
        "audited": audited,
        "wrong": wrong,
        "error": _ratio(wrong, audited),
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
        "rhat": rhat,
        # Antithetic chains have an IAT below 1, yet no chain forgets an error before making it.
        "bias_scale": sweep * float(np.maximum(1.0, iat)),
        # Gradients read data like rewards do: a proposal must not look free.
        "ess_per_million": 1e6 * _ratio(ess, total["pulls"] + total["gradients"]),
        "ess_per_second": _ratio(ess, seconds),
    }


class Report:
    """Costs, guarantees and audited errors of a run: a table to read, `rows` for programs.

    `rows` holds a dict per kernel, `warnings` what to worry about, `notes` what to know.
    Shares are of the kernel's decisions; the module's docstring says how errors add up.
    """

    def __init__(self, trace: Any):
        meta, (chains, draws) = trace.meta, trace.shape
        kernels = [with_later_facts(kernel) for kernel in meta["kernels"]]
        seconds = float(np.sum(trace.seconds))
        written = {name for kernel in kernels for name in kernel["writes"]}
        written |= set((meta.get("keep") or {}).get("functions", ()))
        blocks = {name: trace.mixing(name) for name in trace.draws if name in written}
        self.title = f"{trace!r}, {seconds:.3g} s"
        self.rows: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        if draws < FEW_DRAWS:
            wanted = f"ESS and IAT need {FEW_DRAWS} or more to mean anything."
            self.warnings.append(f"{draws} draws per chain: {wanted} Take more draws.")
        for kernel in kernels:
            known = [blocks[n].ess for n in kernel["writes"] if n in blocks]
            worst = min((ess for ess in known if ess == ess), default=np.nan)
            apart = [blocks[n].rhat for n in kernel["writes"] if n in blocks]
            rhat = max((one for one in apart if one == one), default=np.nan)
            stats = trace.stats.get(kernel["label"]) or KernelStats({}, (), 0)
            if kernel.get("block"):  # it tilts that block's prior, moves nothing: no column
                self.notes += tilted(kernel, stats)
                continue
            row = measure(kernel, stats, worst, chains * draws, seconds, rhat)
            self.rows.append(row)
            found = kernel_warnings(row, kernel, meta.get("audit") or 0.0)
            self.warnings += [f"{row['kernel']}: {text}" for text in found]
            if row["guarantee"] == "none" and not row["promise"]:
                self.notes.append(f"{row['kernel']}: your own kernel; nothing here checks it.")
            if row["promise"]:
                among = self.warnings if kernel.get("temperature") else self.notes
                among.append(f"{row['kernel']}: {row['promise']}")
            if row["note"]:
                self.notes.append(f"{row['kernel']}: {row['note']}")
            if row["guarantee"] != "exact" and all_audited(row) and not row["wrong"]:
                self.notes.append(
                    f"{row['kernel']}: all {row['decisions']:,} decisions were audited and none "
                    "was wrong, so these draws are those of exact decisions. (The bound per "
                    "decision is for other runs.)"
                )
        deciding = [row for row in self.rows if row["decisions"]]
        for row in self.rows:  # the time of several that decide is not known apart
            alone = deciding == [row]
            row["microseconds"] = microseconds_of(trace, row["decisions"]) if alone else np.nan
        if meta.get("chosen"):
            lines = meta["chosen"].splitlines()
            code = "; ".join(line for line in lines if not line.startswith("# "))
            self.notes.append(f"The kernel was chosen by pilots, as by sm.default_kernel: {code}")
            self.notes += [f"Before, {line[2:]}." for line in lines if line.startswith("# ")]
        for name, block in blocks.items():
            self.warnings += [f"{name}: {text}" for text in block_warnings(block, chains)]
            if block.looked < block.sites:
                which = "evenly spaced" if trace.in_use(name) is None else "which all draws have"
                few = f"{block.looked} of {block.sites:,} sites, {which}"
                self.notes.append(f"{name}: its ESS is the worst of {few}.")
            if block.moved and block.stuck:
                self.notes.append(f"{name}: its ESS leaves out {block.stuck} that never moved.")

    def to_frame(self):
        """A pandas table with one row per kernel."""
        import pandas

        return pandas.DataFrame(self.rows).set_index("kernel") if self.rows else pandas.DataFrame()

    def _cells(self) -> list[list[str]]:
        """The table line by line, a column per kernel; lines without any number are left out."""
        table = [["", *(row["kernel"] for row in self.rows)]]
        for title, key, kind in _LINES:
            cells = [_show(row[key], kind) for row in self.rows]
            if any(cell != "-" for cell in cells):
                table.append([title, *cells])
        return table

    def __str__(self) -> str:
        lines, table = [self.title, ""], self._cells() if self.rows else [[]]
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        start = 1
        while start < len(widths):  # as many kernels side by side as fit a terminal
            stop = start + 1
            while stop < len(widths) and sum(widths[start : stop + 1]) + widths[0] < 98 - stop:
                stop += 1
            for line in table:
                cells = [line[i].rjust(widths[i]) for i in range(start, stop)]
                lines.append("  ".join([line[0].ljust(widths[0]), *cells]).rstrip())
            lines, start = [*lines, ""], stop
        for title, items in (("Warnings", self.warnings), ("Notes", self.notes)):
            wrapped = [textwrap.fill(f"- {i}", 98, subsequent_indent="  ") for i in items]
            lines += [title, *wrapped, ""] if items else []
        return "\n".join(lines).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _show(value: Any, kind: str) -> str:
    """A cell of the table; a dash where nothing is known."""
    if value is None or (kind != "text" and np.isnan(value)):
        return "-"
    if kind == "share":
        return f"{100 * value:.3g}%"
    if kind == "count" or (kind == "number" and value >= 1e3):
        return f"{value:,.0f}"
    return f"{value:.3g}" if kind == "number" else str(value)


# ------------------------------------------------------------------ what is wrong, and what to do
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
FEW_EFFECTIVE = 100  # per chain, as Vehtari et al. (2021) ask before any estimate is trusted
DISAGREE = 1.05  # R-hat (Vehtari et al. 2021) beyond which chains tell different things
LARGE_LOSS = 20.0  # nats: a draw that loses more has a chance of e^-20 beside the one it replaced
LONG_REST = 50  # draws without a move, from which on one asks whether that can be chance
FAR = 9.0  # squared distance from a reference, 1 on average in the posterior around it: 3 sd off


def all_audited(row: dict) -> bool:
    """Was every decision of a kernel made again: its errors are then counted, not estimated."""
    return 0 < row["decisions"] <= row["audited"]


def kernel_warnings(row: dict, kernel: dict, audit: float) -> Iterator[str]:
    """What is wrong with one kernel's row: what was seen, and what to do; kernel: its facts."""
    from scipy.stats import binom

    delta, audited, wrong, read = row["delta"], row["audited"], row["wrong"], row["read"]
    exact, proved = row["guarantee"] == "exact", row["guarantee"] == "bounded"
    racing = row["decisions"] and not exact and kernel["subsamples"]
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
    if wrong and row["regret_worst"] > LARGE_LOSS:
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
        use = control if kernel["takes_control"] else "Use"
        yield (
            f"decisions read {read:.0%} of all rewards, so racing saves little. {use} sm.Exact(). "
            "(A label for every datum: sum it out, or sm.Exact().)"
        )
    if kernel.get("parts") == ["Thinned"] and row["exact"] > READ_ALL:
        yield (
            f"{row['exact']:.0%} of its decisions read all data: bounds of the residuals add up to "
            "more than a twentieth of the rows. They are exact, and dear: where asymptotic will "
            "do, selector=sm.Racing() reads fewer; a fit nearer to the chain has tighter bounds."
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
    if kernel["proposes"] and (rate := row["accepted"]) == rate:
        # A proposal that fits the posterior may always be accepted.
        if not low <= rate <= (high if row["walks"] else 1.0):
            change = "Lower" if rate < low else "Raise"
            yield (
                f"{rate:.2%} of proposals were accepted. {change} its scale or step, or take a "
                "longer warmup."
            )
    rate, still = row["accepted"], row["still"]
    chance = row["steps"] * (1.0 - min(rate, 1.0)) ** still  # of such a rest anywhere in the run
    if still >= LONG_REST and rate > 0.0 and chance < ALARM:
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
    if block.sites and not block.moved and block.rhat == np.inf:
        yield (
            "it never moved in any chain, and chains stand at different values: its kernel cannot "
            "leave them. Propose other moves, or mend the model that forbids them."
        )
    elif block.sites and not block.moved:
        yield (
            "it never moved in any chain. One value may have all the mass; if not, its kernel "
            "cannot leave it: propose other moves, or start the chains elsewhere."
        )
    ess, rhat = "its ESS", "R-hat"
    if block.sites > 1:
        ess, rhat = f"the ESS of {block.slowest}", f"R-hat of {block.farthest}"
    if block.rhat > DISAGREE and block.moved:
        yield (
            f"its chains disagree: {rhat} is {block.rhat:.3g}, and about 1 where all tell the "
            "same. They have not come together yet, or each is held by a mode of its own: look at "
            "them one by one (arviz.plot_trace). Take a longer warmup and more draws; between "
            "modes, a kernel that jumps."
        )
    if block.ess < FEW_EFFECTIVE * chains:
        yield (
            f"{ess} is {block.ess:.0f}, below {FEW_EFFECTIVE * chains}, {FEW_EFFECTIVE} for each "
            "chain: estimates and the IAT here are unreliable. Take more draws."
        )


def tilted(kernel: dict, stats: Mapping) -> Iterator[str]:
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
