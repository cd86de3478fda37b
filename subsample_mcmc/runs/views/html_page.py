"""A saved run as one HTML page: verdict, summary and draws; folded, what they rest on.

Nothing is loaded from elsewhere, so the page can be mailed and archived. Every panel is a picture
of its own, which a phone stacks and paper does not cut: drawn by the browser where it is small.
"""

import base64
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from subsample_mcmc.runs.views.figures import PANELS, offered
from subsample_mcmc.runs.views.report import Report
from subsample_mcmc.runs.views.summary import components
from subsample_mcmc.style import FILLS, SMALL, folded, line_style, plain, safe, thinned

QUICK = 3_000_000  # draws of all components that a notebook sums up without being asked: a second
MOST_PICTURES = 12  # components whose draws are shown ...
MOST_SITES = 4  # ... of one block
MOST_CHAINS = 4  # lines in one picture
BINS = 40
DOTS = 130  # per inch: sharp on paper at the width of a column
SMALL_FILE = 60_000  # characters: a picture with more is stored as dots

STYLE = """
:root { color-scheme: light dark; --ink: #111; --paper: #fff; --line: #ccc; --act: #b34700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181c; --line: #444;
  --act: #ff9a52; } figure svg, figure img { filter: invert(1) hue-rotate(180deg); } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; max-width: 72rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem;
  border-bottom: 1px solid var(--line); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; }
dd { margin: 0; }
table { font-size: .875rem; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
td b { color: var(--act); }
.made th, .made td { text-align: left; white-space: normal; }
.warnings { border-left: 4px solid var(--act); padding-left: 1rem; }
.warnings h2 { margin-top: 0; border: 0; } .warnings ul { padding-left: 1rem; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
figure { margin: 0; break-inside: avoid; } figure img, figure svg { width: 100%; height: auto; }
figure svg text { font-family: system-ui, sans-serif; }
figcaption, .small { font-size: .875rem; }
details { margin: .5rem 0; border-bottom: 1px solid var(--line); padding-bottom: .5rem; }
summary { cursor: pointer; font-size: 1.1rem; font-weight: 600; padding: .3rem 0; }
pre { white-space: pre-wrap; font-size: .875rem; }
@media (max-width: 30rem) { body { padding: .6rem; } dl { display: block; }
  dd { margin-bottom: .6rem; } table { font-size: .68rem; } th, td { padding: .2rem .22rem; } }
@media print { :root { --ink: #000; --paper: #fff; --line: #999; }
  body { font-size: 10pt; max-width: none; padding: 0; }
  figure svg, figure img { filter: none; }
  details::details-content { content-visibility: visible; height: auto; }
  tr, li { break-inside: avoid; } .pictures { grid-template-columns: 1fr 1fr; }
  table { font-size: 8pt; } th, td { white-space: normal; } }
"""

CAPTIONS = {
    "read": "Share of all rewards that decisions read, in a window that moves along the run.",
    "margins": "Audited decisions, means of each draw: nats between the best two arms, against the "
    "spread a race tells them from. On a line, a race reads about that share of the data.",
    "errors": "Audited decisions that an exact one would have made differently, with 95% bounds on "
    "each side, and the δ that was asked for.",
    "ended": "How decisions ended.",
    "ess_per_second": "Effective draws per second of sampling, all chains' seconds added up.",
    "ess_per_million": "Effective draws per million rewards read.",
}


def page(trace: Any) -> str:
    """The page's text; without matplotlib it has no pictures, and says so."""
    report = Report(trace)
    chains, draws = trace.shape
    kernels = ", ".join(told["label"] for told in trace.meta["kernels"])
    law = f", draws of the {trace.meta['law']}" if trace.meta.get("law") else ""
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{safe(kernels)}: {chains} x {draws:,} draws{safe(law)}</title>",
        f"<style>{STYLE}</style>", "</head>", "<body>",
        f"<h1>A run of {safe(kernels)}{safe(law)}</h1>",
        f'<p class="small">{safe(report.title)}</p>',
        *report.html_verdict(),
        *summary(report),
        *pictures_of_draws(trace),
        "<h2>Details</h2>",
        *decisions(trace, report),
        *report.html_notes(),
        *folded("How it was made", how_made(trace)),
        "</body>", "</html>", "",
    ]  # fmt: skip
    return "\n".join(parts)


def summary(report: Any) -> Iterator[str]:
    """The summary of the report, under its title."""
    if report.summary.rows:
        yield "<h2>Summary</h2>"
        yield from report.html_summary()


def decisions(trace: Any, report: Any) -> Iterator[str]:
    """What decisions cost and how they ended: a table and figures, folded."""
    if report.rows:
        yield from folded(
            "Decisions and their cost", (*report.html_costs(), *panels(trace, report))
        )


def audits_of(trace: Any) -> str:
    """The share of decisions that was asked for, or how many were audited unasked."""
    if (share := trace.meta.get("audit", 0.0)) is not None:
        return f"{100 * share:.3g}% of decisions"
    count = sum(stats.total("audited") for stats in trace.stats.values())
    return f"{count:,} decisions, unasked" if count else "none"


def how_made(trace: Any) -> Iterator[str]:
    """What the header of the run says."""
    meta, (chains, draws) = trace.meta, trace.shape
    facts = {
        "draws": f"{draws:,} in each of {chains} chain{'s' * (chains != 1)}",
        "of a planned": f"{meta['draws']:,}" if meta.get("draws", draws) != draws else None,
        "warm-up": f"{meta['warmup']:,} steps, not kept",
        "steps per draw": meta.get("thin"),
        "guarantee": meta["guarantee"],
        "audited": audits_of(trace),
        "seconds": f"{float(np.sum(trace.seconds)):.3g}, all chains added up",
        "law": meta.get("law"),
        "seed": meta["seed"],
        "subsample_mcmc": meta["version"],
    }
    yield '<table class="made">'
    for name, value in facts.items():
        if value is not None:
            yield f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>"
    yield "</table>"
    if meta.get("describe"):
        yield f"<pre>{safe(meta['describe'])}</pre>"


def short(trace: Any) -> str:
    """What a notebook shows of a trace: what it is, verdict and summary, if these are quick."""
    parts = [f"<p>{safe(trace)}</p>"]
    if 0 < sum(values.size for values in trace.draws.values()) <= QUICK:
        report = Report(trace)
        count = len(report.warnings)
        parts += [*report.html_answers(), *report.html_summary()]
        if count:
            told = f"{count} warning{'s' * (count > 1)}: trace.report() shows what to do."
            parts.append(f"<p><b>{told}</b></p>")
    return "\n".join(parts)


def panels(trace: Any, report: Any) -> Iterator[str]:
    """The panels of trace.plot."""
    if figure := drawing():
        drawn = []
        for name, part in offered(report.rows).items():
            size = 5.2, 3.7 + 0.25 * max(0, len(part) - 4)
            made = figure(figsize=size, layout="constrained")
            PANELS[name](made.subplots(), trace, part)
            drawn.append((made, CAPTIONS[name]))
        yield from shown(drawn)


def drawing() -> Any:
    """matplotlib's Figure, or None where it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    return Figure


def pictures_of_draws(trace: Any) -> Iterator[str]:
    """The draws of small blocks."""
    found, whole = components(trace, MOST_PICTURES, MOST_SITES)
    if not found or not trace.shape[1]:
        return
    yield "<h2>Draws</h2>"
    if not (figure := drawing()):
        yield (
            "<p>Figures need matplotlib, which was not installed where this page was made: pip "
            "install 'subsample-mcmc[plots]'.</p>"
        )
        return
    drawn = []
    for label, values in found.items():
        every = trace.every(label if label in trace else label.partition("[")[0])
        drawn.append((pictured(figure, label, values, every), label))
    yield from shown(drawn)
    about = "Draws of each chain, and how often each value was drawn, all chains together"
    about += f"; lines are of the first {MOST_CHAINS}" * (trace.shape[0] > MOST_CHAINS)
    about += "" if whole else f"; the first {MOST_SITES} of each block, at most {MOST_PICTURES}"
    yield f'<p class="small">{about}.</p>'


def pictured(figure: Any, label: str, values: np.ndarray, every: int = 1) -> Any:
    """The chains of one component, and its histogram beside them on the same axis.

    every: of how many draws one was kept.
    """
    made = figure(figsize=(5.2, 2.4), layout="constrained")
    along, beside = made.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    at = thinned(values.shape[1])
    for i, chain in enumerate(values[:MOST_CHAINS]):
        style = line_style(i, len(at)) | {"linewidth": 0.6}
        along.plot(at * every, chain[at], label=f"chain {i}", **style)
    finite = values[np.isfinite(values)]
    weights = np.full(len(finite), 1.0 / max(1, len(finite)))
    low, high = (finite.min(), finite.max()) if len(finite) else (0, 1)
    bins: Any = BINS
    if values.dtype.kind in "iu":  # as many whole numbers in every bin
        step = -(-(high - low + 1) // BINS)
        bins = np.arange(low, high + step + 1, step) - 0.5
        beside.yaxis.get_major_locator().set_params(integer=True)
    beside.hist(
        finite, bins, weights=weights, orientation="horizontal", facecolor=FILLS[1],
        edgecolor="black", linewidth=0.4,
    )  # fmt: skip
    along.set(xlabel="draw", ylabel=plain(label))
    beside.set_xlabel("share")
    if len(values) > 1:
        made.legend(
            *along.get_legend_handles_labels(), fontsize=SMALL, ncols=4, loc="outside upper center"
        )
    return made


def shown(drawn: list[tuple[Any, str]]) -> Iterator[str]:
    """Figures as pictures in the text of the page."""
    if not drawn:
        return
    yield '<div class="pictures">'
    for i, (figure, caption) in enumerate(drawn):
        for part in (figure, *figure.axes):  # the page's own colour, light or dark
            part.patch.set_alpha(0.0)
        picture = as_vectors(figure, f"{caption} {i}", caption)
        if len(picture) > SMALL_FILE:
            picture = as_dots(figure, caption)
        yield f"<figure>{picture}<figcaption>{safe(caption)}</figcaption></figure>"
    yield "</div>"


def as_vectors(figure: Any, salt: str, caption: str) -> str:
    """A figure as SVG that stands in a page: its text is text, its names are its own.

    No date and no version of matplotlib: the same run gives the same page.
    """
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=none)
    text = file.getvalue()
    text = re.sub(r" xmlns(:\w+)?=\"[^\"]*\"", "", text[text.index("<svg") :])
    used = set(re.findall(r"#([\w.-]+)", text))  # others repeat from figure to figure
    text = re.sub(r' id="([\w.-]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    return text.replace("<svg", f'<svg role="img" aria-label="{safe(caption)}"', 1)


def as_dots(figure: Any, caption: str) -> str:
    """A figure as PNG, in the page."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    text = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="{safe(caption)}" src="data:image/png;base64,{text}">'
