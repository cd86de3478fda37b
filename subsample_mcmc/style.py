"""How figures look, and numbers and tables: styles that differ without colour, axes to draw on.

Colours are those of Okabe & Ito (2008), which every kind of colour blindness tells apart. No style
is told by colour alone: lines differ in dashes and markers, bars in hatches, so that a figure reads
in black and white too. Text has 8 points or more, and nobody's rcParams are changed.
"""

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v")
FILLS = ("#FFFFFF", "#56B4E9", "#F0E442", "#009E73", "#CC79A7", "#E69F00")
HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
SMALL = 8  # points, of legends and notes
MOST_LINES = 7  # in one panel: more cannot be told apart, or read
MOST_POINTS = 2000  # of one line or cloud: more is ink, and megabytes


def pyplot(what: str) -> Any:
    """Matplotlib's pyplot, or how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{what} draws with matplotlib, which is not installed: "
            "pip install 'subsample-mcmc[plots]'."
        ) from error
    return plt


def axes_of(
    what: str, axes: Any, count: int, size: tuple[float, float] = (4.8, 3.4), across: int = 3
) -> np.ndarray:
    """The axes given, checked and in a row, or new ones, `across` side by side."""
    if axes is None:
        plt = pyplot(what)
        across = min(count, 2 if count == 4 and across == 3 else across)
        down = -(-count // across)
        inches = across * size[0], down * size[1]
        grid = plt.subplots(down, across, figsize=inches, squeeze=False, layout="constrained")[1]
        for spare in grid.flat[count:]:
            spare.remove()
        return grid.ravel()[:count]
    found = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(found) != count:
        raise ValueError(f"axes has {len(found)} parts: give {count}, or none.")
    return found


def line_style(i: int, points: int = 0) -> dict[str, Any]:
    """Of line number i: colour, dashes, and a marker here and there, on `points` points."""
    return {
        "color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)],
        "marker": MARKERS[(i + i // len(DASHES)) % len(MARKERS)], "markersize": 4, "linewidth": 1.2,
        # Markers of lines that coincide lie beside each other.
        "markevery": (min(i * max(1, points // 40), max(0, points - 1)), max(1, points // 8)),
    }  # fmt: skip


def point_style(i: int) -> dict[str, Any]:
    """Of cloud number i: an open marker, so that clouds show through each other."""
    return {
        "color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "markersize": 4,
        "markerfacecolor": "none" if i < len(MARKERS) else None, "markeredgewidth": 0.8,
        "linestyle": "none",
    }  # fmt: skip


def bar_style(i: int) -> dict[str, Any]:
    """Of part number i of stacked bars."""
    fill, hatch = FILLS[i % len(FILLS)], HATCHES[i % len(HATCHES)]
    return {"facecolor": fill, "hatch": hatch, "edgecolor": "black", "linewidth": 0.6}


def note(axes: Any, text: str) -> None:
    """A panel's own explanation of why there is nothing in it."""
    axes.text(
        0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=SMALL + 1,
        wrap=True,
    )  # fmt: skip
    axes.set(xticks=[], yticks=[])


def shown(value: float) -> str:
    """A number as the report writes it."""
    return "not known" if value != value else f"{value:,.0f}" if value >= 1e3 else f"{value:.3g}"


def log_scale(axes: Any, which: str, low: float, high: float) -> None:
    """A log scale of axis "x" or "y" from low to high, its ticks plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 60.0 * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def plain(name: str) -> str:
    """A name as matplotlib shows it: no formula, and not hidden from legends."""
    name = name.replace("$", r"\$")
    return f" {name}" if name.startswith("_") else name


def names_down(axes: Any, names: Sequence[str], places: Any = None) -> None:
    """Names along the y-axis, the first on top."""
    places = np.arange(len(names)) if places is None else places
    axes.set_yticks(places, [plain(name) for name in names])
    axes.set_ylim(max(places, default=0) + 0.6, -0.6)


def thinned(length: int, most: int = MOST_POINTS) -> np.ndarray:
    """Which of so many points are drawn: all, or some evenly spaced, with the last."""
    return np.unique(np.linspace(0, length - 1, min(length, most)).astype(int))


# ------------------------------------------------------------------------------ numbers and tables
# What notebooks show has no colours of its own: it reads on light pages and on dark ones.
TABLE = (
    "border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap;text-align:right"
)
FIRST_COLUMN = "text-align:left"


def significant(value: float) -> str:
    """A number with four significant digits, all of them written; a dash for nan."""
    size = abs(value)
    if value != value:
        return "-"
    if size in (0.0, math.inf):
        return f"{value:g}"
    size = float(f"{size:.3e}")  # as it is rounded: 9.9999 has one digit less than it seems
    if not 1e-4 <= size < 1e15:
        return f"{value:.3e}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(size)))}f}"


def safe(text: Any) -> str:
    """Text that HTML shows as it is."""
    return html.escape(str(text))


def tabled(head: Sequence[str], rest: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in HTML whose first column names the rows; a row of a name alone spans all columns.

    Cells that end with a "!" are bold.
    """
    yield f'<div style="overflow-x:auto"><table cellpadding="4" style="{TABLE}">'
    yield f"<thead><tr>{''.join(f'<th>{safe(cell)}</th>' for cell in head)}</tr></thead><tbody>"
    for first, *cells in rest:
        if not any(cells):
            style = f"{FIRST_COLUMN};font-weight:normal"
            yield f'<tr><th style="{style}" colspan="{len(head)}">{safe(first)}</th></tr>'
            continue
        told = [f"<b>{safe(c)}</b>" if c.endswith("!") else safe(c) for c in cells]
        row = "".join(f"<td>{cell}</td>" for cell in told)
        yield f'<tr><th style="{FIRST_COLUMN}">{safe(first)}</th>{row}</tr>'
    yield "</tbody></table></div>"


def folded(title: str, parts: Iterable[str]) -> Iterator[str]:
    """What is hidden in HTML until a reader asks for it."""
    yield f"<details><summary>{safe(title)}</summary>"
    yield from parts
    yield "</details>"


def listing(items: Iterable[str]) -> Iterator[str]:
    """A list in HTML."""
    yield "<ul>"
    yield from (f"<li>{safe(item)}</li>" for item in items)
    yield "</ul>"
