"""What a run came to: a verdict, what to do, a summary, and what its decisions cost: the report.

costs.py says how audited errors are counted, findings.py what is warned about, verdict.py the three
lines at the head.
"""

import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from subsample_mcmc.runs.counts import KernelStats
from subsample_mcmc.runs.store.netcdf import tilted
from subsample_mcmc.runs.views.costs import (
    ENDS,
    measure,
    microseconds_of,
    seconds_of,
    with_later_facts,
    worst_of,
)
from subsample_mcmc.runs.views.findings import (
    FEW_DRAWS,
    NOT_THE_POSTERIOR,
    POOR_ESTIMATES,
    Finding,
    block_warnings,
    kernel_notes,
    kernel_warnings,
    tilt_notes,
)
from subsample_mcmc.runs.views.mixing import mixing_of
from subsample_mcmc.runs.views.short_summary import ShortSummary, short_summary
from subsample_mcmc.runs.views.verdict import Seen, verdict_of
from subsample_mcmc.style import folded, listing, safe, tabled

WIDTH = 98  # characters of a line in a terminal
# What the table of costs shows, in order: title, key of the row, format; shares of decisions that
# no kernel has are left out.
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
    (ENDS["predicted"], "predicted", "share"),
    *((ENDS[end], end, "if any") for end in ("raced", "retreated", "exhausted", "exact", "alone")),
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


class Report:
    """A verdict, costs, guarantees and audited errors of a run: to read, and `rows` for programs.

    `verdict` has three answers: `converged`, `given_up`, `faster`. `warnings` is what to act on,
    worst first, `notes` what is good to know. `rows` holds a dict per kernel; its shares are of the
    kernel's decisions.
    """

    def __init__(self, trace: Any):
        meta, (chains, draws) = trace.meta, trace.shape
        kernels = [with_later_facts(kernel) for kernel in meta["kernels"]]
        seconds = float(seconds_of(trace).sum())
        written = {name for kernel in kernels for name in kernel["writes"]}
        self.trace = trace
        functions = list((meta.get("keep") or {}).get("functions", ()))
        kept = *trace.draws, *trace.thinned
        moving = written | set(functions)
        self.blocks = {name: mixing_of(trace, name) for name in kept if name in moving}
        seen = Seen(
            self.blocks, functions, [name for name in sorted(written) if name not in kept],
            [name for name in kept if name not in moving], tilted(meta),
            meta.get("law", "posterior"), chains > 1 and began_alike(meta),
        )  # fmt: skip
        self.title = f"{trace!r}, {float(np.sum(trace.seconds)):.3g} s"
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        found: list[Finding] = []
        if draws < FEW_DRAWS:
            wanted = f"ESS and IAT need {FEW_DRAWS} or more to mean anything."
            text = f"{draws} draws per chain: {wanted} Take more draws."
            found.append(Finding(POOR_ESTIMATES, text))
        deciders = [kernel for kernel in kernels if not kernel.get("block")]
        audit = meta.get("audit", 0.0)  # None: nobody asked for any
        for kernel in kernels:
            stats = trace.stats.get(kernel["label"]) or KernelStats({}, (), 0)
            if kernel not in deciders:  # it tilts that block's prior, moves nothing: no column
                self.notes += tilt_notes(kernel, stats)
                continue
            known = [self.blocks[name] for name in kernel["writes"] if name in self.blocks]
            worst = worst_of(known, chains)
            row = measure(kernel, stats, worst, chains * draws, seconds, audit is None)
            self.rows.append(row)
            named = kernel_warnings(row, kernel, audit or 0.0)
            found += [Finding(rank, f"{row['kernel']}: {text}") for rank, text in named]
            self.notes += [f"{row['kernel']}: {text}" for text in kernel_notes(row)]
            if row["guarantee"] == "none" and not row["promise"]:
                self.notes.append(f"{row['kernel']}: your own kernel; nothing here checks it.")
            if row["promise"] and kernel.get("temperature"):
                found.append(Finding(NOT_THE_POSTERIOR, f"{row['kernel']}: {row['promise']}"))
            elif row["promise"]:
                self.notes.append(f"{row['kernel']}: {row['promise']}")
            if row["iat_at_most"]:
                self.notes.append(
                    f"{row['kernel']}: its IAT is at most {row['iat']:,.0f} draws. Not every draw "
                    "was kept, and those that were are nearly independent."
                )
            if row["note"]:
                self.notes.append(f"{row['kernel']}: {row['note']}")
        deciding = [row for row in self.rows if row["decisions"]]
        for row in self.rows:  # the time of several that decide is not known apart
            alone = deciding == [row]
            row["microseconds"] = microseconds_of(trace, row["decisions"]) if alone else np.nan
        if trace.fetched is not None:
            rows, sums, waited = trace.fetched
            self.notes.append(
                f"Rows are elsewhere: {rows:,.0f} were fetched, and {sums:,.0f} passes over all "
                f"made exact sums; chains waited {waited:.3g} s for both, together."
            )
        if max(trace.made) > draws:
            self.notes.append(
                f"Chains have {draws:,} to {max(trace.made):,} draws: the first {draws:,} of each "
                "are here. Of a stored run sm.resume makes the others."
            )
        if meta.get("chosen"):
            lines = meta["chosen"].splitlines()
            code = "; ".join(line for line in lines if not line.startswith("# "))
            self.notes.append(f"The kernel was chosen by pilots, as by sm.default_kernel: {code}")
            self.notes += [f"Before, {line[2:]}." for line in lines if line.startswith("# ")]
        for name, block in self.blocks.items():
            told = block_warnings(block, chains, name in functions)
            found += [Finding(rank, f"{name}: {text}") for rank, text in told]
            if block.looked < block.sites:
                which = "evenly spaced" if trace.in_use(name) is None else "which all draws have"
                few = f"{block.looked} of {block.sites:,} sites, {which}"
                self.notes.append(f"{name}: its ESS is the worst of {few}.")
            if block.moved and block.stuck:
                self.notes.append(f"{name}: its ESS leaves out {block.stuck} that never moved.")
        found.sort(key=lambda finding: finding.rank)
        self.warnings = [finding.text for finding in found]
        self.verdict = verdict_of(trace.shape, self.rows, deciders, seen)

    @cached_property
    def summary(self) -> ShortSummary:
        """Posterior moments of components, those that are shown."""
        return short_summary(self.trace, self.blocks)

    def to_frame(self):
        """A pandas table with one row per kernel."""
        import pandas

        return pandas.DataFrame(self.rows).set_index("kernel") if self.rows else pandas.DataFrame()

    def costs(self) -> list[list[str]]:
        """The table of costs line by line, a column per kernel; without lines that say nothing."""
        table = [["", *(row["kernel"] for row in self.rows)]]
        for title, key, kind in _LINES:
            cells = [_show(row[key], kind) for row in self.rows]
            nothing = {"-", "0%"} if kind == "if any" else {"-"}
            if set(cells) - nothing:
                table.append([title, *cells])
        return table

    def __str__(self) -> str:
        lines = [self.title, ""]
        for asked, answer in self.verdict.lines():
            lines.append(textwrap.fill(f"{asked:<10} {answer}", WIDTH, subsequent_indent=" " * 11))
        lines.append("")
        lines += _listed("Warnings", self.warnings)
        if self.summary.rows:
            lines += ["Summary", *_columns(self.summary.cells())]
            lines += [textwrap.fill(text, WIDTH) for text in self.summary.captions]
            lines.append("")
        if self.rows:
            lines += ["Decisions and their cost", *_columns(self.costs()), ""]
        return "\n".join([*lines, *_listed("Notes", self.notes)]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "\n".join([f"<p>{safe(self.title)}</p>", *self.html()])

    def html(self) -> Iterator[str]:
        """Verdict, warnings and summary; the rest folded."""
        yield from self.html_verdict()
        yield from self.html_summary()
        if self.rows:
            yield from folded("Decisions and their cost", self.html_costs())
        yield from self.html_notes()

    def html_answers(self) -> Iterator[str]:
        """The verdict."""
        yield "<dl>"
        for asked, answer in self.verdict.lines():
            yield f"<dt><b>{asked}</b></dt><dd>{safe(answer)}</dd>"
        yield "</dl>"

    def html_verdict(self) -> Iterator[str]:
        """The verdict, and what to act on."""
        yield from self.html_answers()
        if self.warnings:
            yield '<div class="warnings"><p><b>Warnings</b></p>'
            yield from listing(self.warnings)
            yield "</div>"

    def html_summary(self) -> Iterator[str]:
        """The summary, with what to know about it."""
        if self.summary.rows:
            head, *rest = self.summary.cells()
            yield from tabled(head, rest)
            yield from (f"<p>{safe(text)}</p>" for text in self.summary.captions)

    def html_costs(self) -> Iterator[str]:
        """The table of costs."""
        head, *rest = self.costs()
        yield from tabled(head, rest)

    def html_notes(self) -> Iterator[str]:
        """What is good to know, folded."""
        if self.notes:
            yield from folded(f"Notes ({len(self.notes)})", listing(self.notes))


def began_alike(meta: dict[str, Any]) -> bool:
    """Did all chains begin at one state: where none was given, or equal ones."""
    given = meta.get("start", ())  # what was made by hand says nothing
    return given is None or (len(given) > 1 and all(one == given[0] for one in given[1:]))


def _columns(table: list[list[str]]) -> list[str]:
    """A table as text, as many columns side by side as fit a terminal."""
    widths = [max(len(line[i]) for line in table if any(line[1:])) for i in range(len(table[0]))]
    lines: list[str] = []
    start = 1
    while start < len(widths):
        stop = start + 1
        while stop < len(widths) and sum(widths[start : stop + 1]) + widths[0] < WIDTH - stop:
            stop += 1
        lines += [""] * (start > 1)
        for line in table:
            cells = [line[i].rjust(widths[i]) for i in range(start, stop)]
            lines.append("  ".join([line[0].ljust(widths[0]), *cells]).rstrip())
        start = stop
    return lines


def _listed(title: str, items: list[str]) -> list[str]:
    """A list as text, if there is anything in it."""
    wrapped = [textwrap.fill(f"- {item}", WIDTH, subsequent_indent="  ") for item in items]
    return [title, *wrapped, ""] if items else []


def _show(value: Any, kind: str) -> str:
    """A cell of the table; a dash where nothing is known."""
    if value is None or (kind != "text" and np.isnan(value)):
        return "-"
    if kind in ("share", "if any"):
        return f"{100 * value:.3g}%"
    if kind == "count" or (kind == "number" and value >= 1e3):
        return f"{value:,.0f}"
    return f"{value:.3g}" if kind == "number" else str(value)
