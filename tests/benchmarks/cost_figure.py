"""The figure of cost_per_decision: readable in print, without colours, and without its caption."""

import re
from math import log10
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.cost_methods import DISCRETE, METROPOLIS

BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = (  # Okabe and Ito's colours
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip


class Style(NamedTuple):
    """How one line looks, and what stands at its end."""

    label: str
    colour: str
    marker: str
    dashes: str | tuple = "-"
    bold: bool = False


PANELS = {
    DISCRETE: ("a   a Gibbs draw among ten arms", {
        "PyMC": Style("PyMC", PURPLE, "v", (0, (1, 1.2))),
        "NumPyro": Style("NumPyro", ORANGE, "^", (0, (4, 1.5, 1, 1.5))),
        "numpy": Style("numpy", SKY, "D", (0, (1, 2.5))),
        "Exact": Style("sm.Exact", BLACK, "o"),
        "Racing, posterior": Style("sm.Racing, within nats", RED, "x", (0, (5, 2))),
        "Racing, arms far apart": Style("sm.Racing, far apart", GREEN, "s", "-", True),
        "Racing + Taylor": Style("sm.Racing + Taylor,\nwithin nats", BLUE, "P", "-", True),
    }),
    METROPOLIS: ("b   a Metropolis decision on ten coefficients", {
        "PyMC": Style("PyMC", PURPLE, "v", (0, (1, 1.2))),
        "BlackJAX": Style("BlackJAX", ORANGE, "^", (0, (4, 1.5, 1, 1.5))),
        "numpy": Style("numpy", SKY, "D", (0, (1, 2.5))),
        "Exact": Style("sm.Exact", BLACK, "o"),
        "Racing, posterior": Style("sm.Racing", RED, "x", (0, (5, 2))),
        "Racing + Taylor": Style("sm.Racing + Taylor", BLUE, "P", "-", True),
    }),
}  # fmt: skip
APART = 0.058  # of the axis' height, between lines of labels


def draw(rows: list[dict], path: Path) -> None:
    """Cost against N, one panel for each kind of decision."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # svg.hashsalt: the same numbers give the same file.
    look = {
        "font.size": 9, "font.family": "DejaVu Sans", "svg.hashsalt": "cost",
        "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    with matplotlib.rc_context(look):
        figure, axes = pyplot.subplots(1, 2, figsize=(10.2, 4.3), sharey=True)
        found = []
        for ax, (panel, (what, styles)) in zip(axes, PANELS.items(), strict=True):
            found.append(lines(ax, [row for row in rows if row["panel"] == panel], styles))
            ax.set(xscale="log", yscale="log", xlabel=f"number of data N\n{what}")
            ax.grid(True, which="major", linewidth=0.4, color="#DDDDDD")
            ax.set_axisbelow(True)
            ax.minorticks_off()
        for ax, ends, (_, styles) in zip(axes, found, PANELS.values(), strict=True):
            label(ax, ends, styles)  # only now: the panels share their limits
        axes[0].set_ylabel("microseconds per decision")
        axes[1].tick_params(labelleft=True)
        figure.subplots_adjust(left=0.065, right=0.85, bottom=0.155, top=0.98, wspace=0.68)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, facecolor="white", dpi=150)
        pyplot.close(figure)
    if path.suffix == ".svg":
        path.write_text(portable(path.read_text(encoding="utf-8")), encoding="utf-8")


def portable(text: str) -> str:
    """An SVG that looks alike where DejaVu Sans is missing: Verdana is as wide."""
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "'DejaVu Sans', Verdana, sans-serif", text)
    text = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found.group()):.2f}", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def lines(ax, rows: list[dict], styles: dict[str, Style]) -> dict[str, tuple[float, float]]:
    """Draw them, with quartiles; return where each ends."""
    ends = {}
    for name, style in styles.items():
        some = sorted((row for row in rows if row["decider"] == name), key=lambda row: row["N"])
        if not some:
            continue
        x, y = [row["N"] for row in some], [row["median_us"] for row in some]
        low, high = [row["q1_us"] for row in some], [row["q3_us"] for row in some]
        ax.fill_between(x, low, high, color=style.colour, alpha=0.2, linewidth=0)
        size = 8 if style.marker == "x" else 6 if style.bold else 5  # it shows around a circle
        ax.plot(
            x, y, color=style.colour, marker=style.marker, linestyle=style.dashes,
            linewidth=2.2 if style.bold else 1.3, markersize=size, markeredgewidth=1.4,
        )  # fmt: skip
        ends[name] = (x[-1], y[-1])
    return ends


def label(ax, ends: dict, styles: dict[str, Style]) -> None:
    """Names to the right of the lines' ends, moved apart where they would meet."""
    low, high = (log10(limit) for limit in ax.get_ylim())
    right = max((x for x, _ in ends.values()), default=1.0)
    order = sorted(ends, key=lambda name: ends[name][1])
    at = [(log10(ends[name][1]) - low) / (high - low) for name in order]
    height = [APART * (1 + styles[name].label.count("\n")) for name in order]
    for _ in range(200):
        for i in range(len(order) - 1):
            meet = 0.5 * (height[i] + height[i + 1]) - (at[i + 1] - at[i])
            if meet > 0.0:
                at[i], at[i + 1] = at[i] - 0.5 * meet, at[i + 1] + 0.5 * meet
    for name, place in zip(order, at, strict=True):
        style = styles[name]
        ax.annotate(
            style.label, (right, place), xycoords=("data", "axes fraction"), xytext=(9, 0),
            textcoords="offset points", color=style.colour if style.bold else "#222222",
            va="center", annotation_clip=False, fontweight="bold" if style.bold else "normal",
        )  # fmt: skip
