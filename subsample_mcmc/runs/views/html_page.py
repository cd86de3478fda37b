"""A saved run as one HTML page: how it was made, the report, a summary, and figures.

Nothing is loaded from elsewhere, so the page can be mailed and archived. Every panel is a picture
of its own, which a phone stacks and paper does not cut.
"""

import base64
import html
import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from subsample_mcmc.runs.store.netcdf import tempered, tilted
from subsample_mcmc.runs.views.figures import PANELS, offered
from subsample_mcmc.runs.views.summary import FEWEST, components, table
from subsample_mcmc.style import FILLS, SMALL, line_style, plain, thinned

MOST_ROWS = 50  # of the summary
FEW_ROWS = 10  # of that in a notebook, which is shown without being asked for, and so only ...
QUICK = 200_000  # ... of at most so many draws: a second
MOST_PICTURES = 12  # components whose draws are shown ...
MOST_SITES = 4  # ... of one block
MOST_CHAINS = 4  # lines in one picture
BINS = 40
DOTS = 130  # per inch: sharp on paper at the width of a column

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #111; background: #fff; margin: 0 auto;
  max-width: 72rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #999; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ccc;
  white-space: nowrap; }
th:first-child { text-align: left; white-space: normal; }
.made td { text-align: left; white-space: normal; }
.wide { overflow-x: auto; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
figure { margin: 0; break-inside: avoid; } img { width: 100%; height: auto; }
figcaption, .small { font-size: .875rem; }
.warnings li { border-left: 4px solid #D55E00; padding-left: .5rem; list-style: none; }
pre { white-space: pre-wrap; font-size: .875rem; }
@media print { body { font-size: 10pt; max-width: none; padding: 0; }
  .wide { overflow: visible; } tr, li { break-inside: avoid; }
  .pictures { grid-template-columns: 1fr 1fr; } table { font-size: 8pt; }
  th, td { white-space: normal; } }
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
    report = trace.report()
    chains, draws = trace.shape
    kernels = ", ".join(told["label"] for told in trace.meta["kernels"])
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{safe(kernels)}: {chains} x {draws:,} draws</title>",
        f"<style>{STYLE}</style>", "</head>", "<body>",
        f"<h1>A run of {safe(kernels)}</h1>",
        *how_made(trace),
        *listed("Warnings", report.warnings),
        *reported(report),
        *listed("Notes", report.notes),
        *summary(trace),
        *pictures(trace, report.rows),
        "</body>", "</html>", "",
    ]  # fmt: skip
    return "\n".join(parts)


def safe(text: Any) -> str:
    """Text that HTML shows as it is."""
    return html.escape(str(text))


def how_made(trace: Any) -> Iterator[str]:
    """What the header of the run says."""
    meta, (chains, draws) = trace.meta, trace.shape
    facts = {
        "draws": f"{draws:,} in each of {chains} chain{'s' * (chains != 1)}",
        "of a planned": f"{meta['draws']:,}" if meta.get("draws", draws) != draws else None,
        "warm-up": f"{meta['warmup']:,} steps, not kept",
        "steps per draw": meta.get("thin"),
        "guarantee": meta["guarantee"],
        "audited": f"{100 * (meta.get('audit') or 0.0):.3g}% of decisions",
        "seconds": f"{float(np.sum(trace.seconds)):.3g}, all chains added up",
        "seed": meta["seed"],
        "subsample_mcmc": meta["version"],
    }
    yield '<table class="made">'
    for name, value in facts.items():
        if value is not None:
            yield f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>"
    yield "</table>"
    if meta.get("describe"):
        yield f"<h2>Kernels</h2>\n<pre>{safe(meta['describe'])}</pre>"


def listed(title: str, items: list[str]) -> Iterator[str]:
    """A list, if there is anything in it."""
    if items:
        yield f'<h2>{title}</h2>\n<ul class="{title.lower()}">'
        yield from (f"<li>{safe(item)}</li>" for item in items)
        yield "</ul>"


def reported(report: Any) -> Iterator[str]:
    """The table of the report: its own cells, so that text and page never disagree."""
    if report.rows:
        head, *rest = report.costs()
        yield "<h2>Report</h2>"
        yield from tabled(head, rest)
    yield f'<p class="small">{safe(report.title)}</p>'


def tabled(head: list[str], rest: Iterable[list[str]]) -> Iterator[str]:
    """A table whose first column names the rows."""
    yield '<div class="wide"><table>'
    yield f"<thead><tr>{''.join(f'<th>{safe(cell)}</th>' for cell in head)}</tr></thead><tbody>"
    for first, *cells in rest:
        yield f"<tr><th>{safe(first)}</th>{''.join(f'<td>{safe(c)}</td>' for c in cells)}</tr>"
    yield "</tbody></table></div>"


def short(trace: Any) -> str:
    """What a notebook shows of a trace: what it is, and its first components."""
    quick = trace.draws and trace.shape[0] * trace.shape[1] <= QUICK
    shown = summary(trace, FEW_ROWS) if quick else ()
    return "\n".join([f"<p>{safe(trace)}</p>", *shown])


def summary(trace: Any, most: int = MOST_ROWS) -> Iterator[str]:
    """ArviZ's summary of the first components."""
    found, whole = components(trace, most, most)
    if not found or trace.shape[1] < FEWEST:
        return
    made = table(found)
    yield "<h2>Summary</h2>"
    rows = zip(made.index, made.itertuples(index=False), strict=True)
    head = ["", *map(str, made.columns)]
    yield from tabled(head, [[name, *(cell(x) for x in row)] for name, row in rows])
    if blocks := tilted(trace.meta):
        yield (
            f"<p>sm.WangLandau tilted {html.escape(', '.join(blocks))}: these are means of the "
            "draws, not of the posterior, which trace.model_probabilities(...) gives, and weights "
            "for others.</p>"
        )
    if labels := tempered(trace.meta):
        yield f"<p>Not of the posterior: tempered draws of {html.escape(', '.join(labels))}.</p>"
    if not whole:
        yield f'<p class="small">The first {len(found)} components.</p>'


def cell(value: Any) -> str:
    """One number of the summary."""
    return f"{value:.4g}" if value == value else "-"


def pictures(trace: Any, rows: list[dict]) -> Iterator[str]:
    """The panels of trace.plot, and the draws of small blocks."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        yield (
            "<h2>Figures</h2>\n<p>Figures need matplotlib, which was not installed where this page "
            "was made: pip install 'subsample-mcmc[plots]'.</p>"
        )
        return
    drawn = []
    for name, part in offered(rows).items():
        size = 5.2, 3.7 + 0.25 * max(0, len(part) - 4)
        figure = Figure(figsize=size, layout="constrained")
        PANELS[name](figure.subplots(), trace, part)
        drawn.append((figure, CAPTIONS[name]))
    yield from shown("What it cost", drawn)
    found, whole = components(trace, MOST_PICTURES, MOST_SITES)
    about = "Draws of each chain, and how often each value was drawn, all chains together"
    if found and trace.shape[1]:
        drawn = [(pictured(Figure, label, values), label) for label, values in found.items()]
        yield from shown("Draws", drawn)
        about += f"; lines are of the first {MOST_CHAINS}" * (trace.shape[0] > MOST_CHAINS)
        yield f'<p class="small">{about}{"" if whole else f"; the first {len(found)}"}.</p>'


def pictured(figure: Any, label: str, values: np.ndarray) -> Any:
    """The chains of one component, and its histogram beside them on the same axis."""
    made = figure(figsize=(5.2, 2.4), layout="constrained")
    along, beside = made.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    at = thinned(values.shape[1])
    for i, chain in enumerate(values[:MOST_CHAINS]):
        style = line_style(i, len(at)) | {"linewidth": 0.6}
        along.plot(at, chain[at], label=f"chain {i}", **style)
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


def shown(title: str, drawn: list[tuple[Any, str]]) -> Iterator[str]:
    """Figures as pictures in the text of the page."""
    if not drawn:
        return
    yield f'<h2>{title}</h2>\n<div class="pictures">'
    for figure, caption in drawn:
        file = io.BytesIO()
        # No date and no version of matplotlib: the same run gives the same page.
        figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
        text = base64.b64encode(file.getvalue()).decode("ascii")
        yield (
            f'<figure><img alt="{safe(caption)}" src="data:image/png;base64,{text}">'
            f"<figcaption>{safe(caption)}</figcaption></figure>"
        )
    yield "</div>"
