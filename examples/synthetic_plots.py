"""The figures of examples/synthetic.py, laid out like those of the paper."""

from math import log, sqrt
from pathlib import Path

import matplotlib as mpl
import numpy as np
from synthetic_cells import (
    BETTING,
    DISTRIBUTIONS,
    EBS,
    GUARDED,
    LIL,
    NORMAL,
    SIGMAS,
    SKEWED,
    SKEWED_SIGMAS,
    Settings,
    probabilities,
    standardised,
)
from synthetic_report import printed_table1

import subsample_mcmc as sm

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe & Ito's palette, which colour-blind readers can tell apart; ours are not drawn solid.
COLOURS = {NORMAL: "#0072B2", EBS: "#D55E00", LIL: "#009E73"}
COLOURS |= {BETTING: "#CC79A7", GUARDED: "#E69F00"}
STYLES = {BETTING: "--", GUARDED: ":"}
MARKERS = dict(zip(DISTRIBUTIONS, "xos", strict=True))
HARDNESS = {0.1: "very hard", 1e-4: "easy", 1e-5: "very easy"}
OURS = "dashed: Racing-Betting, which the paper does not have"


def draw_all(frame, settings: Settings, out: Path) -> list[Path]:
    """Every figure; returns the files written."""
    note = f"N = {settings.size:,}"
    files = [figure1(frame, settings, note, out, with_betting) for with_betting in (False, True)]
    files.append(figure4(out))
    title = f"Figure 5: D = 10, {note}, marginal variance"
    files.append(figure(frame, 10, "marginal", title, out / "figure5.png"))
    for number, D in ((6, 2), (7, 100)):
        title = f"Figure {number}: D = {D}, {note}, paired variance"
        files.append(figure(frame, D, "paired", title, out / f"figure{number}.png"))
        name = out / f"figure{number}_with_betting.png"
        files.append(figure(frame, D, "paired", f"{title}; {OURS}", name, True))
    files.append(skewed(frame, note, out))
    return files


def save(chart, path: Path) -> Path:
    chart.savefig(path, dpi=130)
    plt.close(chart)
    return path


# --------------------------------------------------------------------------- errors and shares
def curves(frame, D, variance, betting):
    """(selector, distribution, rows by sigma) of one page."""
    kinds = [(NORMAL, variance), (EBS, variance), (LIL, "none")]
    if betting:
        kinds.append((BETTING, "paired"))
    for selector, kind in kinds:
        chosen = (frame.D == D) & (frame.selector == selector) & (frame.variance == kind)
        for distribution in DISTRIBUTIONS:
            yield selector, distribution, frame[chosen & (frame.distribution == distribution)]


def error_curve(axes, rows, colour, style, marker, label) -> None:
    """Errors with their intervals; a curve without any error is not drawn, as in the paper."""
    rows = rows.sort_values("delta")
    if not rows.errors.sum():
        return
    seen = rows[rows.errors > 0]
    bars = [seen.error - seen.low, seen.high - seen.error]
    look = {"color": colour, "marker": marker, "mfc": "none", "ms": 5, "lw": 1, "label": label}
    axes.errorbar(seen.delta, seen.error, bars, ls=style, capsize=2, elinewidth=0.7, **look)
    none = rows[rows.errors == 0]
    # On a log axis no error has no place: a triangle stands at the upper limit.
    axes.plot(none.delta, none.high, marker="v", ms=3, ls="none", color=colour, alpha=0.5)


def error_axes(axes, deltas, title) -> None:
    axes.plot(deltas, deltas, color="black", lw=0.8, ls="-")
    axes.set(xscale="log", yscale="log", title=title, xlabel="δ", ylabel="error (95% interval)")
    note = "line: error = δ\n▽ no error: upper limit" if axes.containers else "no error"
    place = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
    axes.text(0.98, 0.03, note, fontsize=6, **place)


def share_curve(axes, rows, colour, style, marker, label) -> None:
    rows = rows.sort_values("delta")
    if rows.empty:  # an interrupted run
        return
    look = {"color": colour, "marker": marker, "mfc": "none", "ms": 5, "lw": 1, "label": label}
    axes.plot(rows.delta, rows.share_read, ls=style, **look)


def share_axes(axes, title, linear) -> None:
    scale = "linear" if linear else "log"
    if not axes.lines:  # log axes want a number
        axes.set(xlim=(1e-3, 0.1), ylim=(1e-3, 1.0))
    axes.set(xscale="log", yscale=scale, title=title, xlabel="δ", ylabel="share of rewards read")
    if linear:
        axes.set_ylim(0.0, 1.05)


def panels(frame, D, variance, betting, error_row, share_row) -> None:
    """Fill a row of error panels and a row of share panels, one per sigma."""
    for sigma, errors, shares in zip(SIGMAS, error_row, share_row, strict=True):
        for selector, distribution, rows in curves(frame, D, variance, betting):
            rows = rows[rows.sigma == sigma]
            look = (COLOURS[selector], STYLES.get(selector, "-"), MARKERS[distribution])
            label = f"{selector}, {distribution}"
            error_curve(errors, rows, *look, label)
            share_curve(shares, rows, *look, label)
        error_axes(errors, sorted(frame.delta.unique()), f"σ = {sigma:g}, {HARDNESS[sigma]}")
        share_axes(shares, f"σ = {sigma:g}" + (", log scale" if sigma < 0.1 else ""), sigma == 0.1)


def legend(chart, axes, columns) -> None:
    handles, labels = axes.get_legend_handles_labels()
    chart.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7)


def figure(frame, D, variance, title, path, betting=False) -> Path:
    """Figures 5, 6 and 7: errors above, shares below."""
    chart, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
    panels(frame, D, variance, betting, axes[0], axes[1])
    chart.suptitle(title, fontsize=10)
    legend(chart, axes[1, 0], 4 if betting else 3)
    return save(chart, path)


def figure1(frame, settings, note, out, betting) -> Path:
    chart, axes = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    panels(frame, 10, "paired", betting, axes[0, 1:], axes[1, 1:])
    axes[0, 0].bar(np.arange(1, 11), probabilities(10), color="#0072B2")
    axes[0, 0].set(title="p(X)", xlabel="X")
    bounds(axes[1, 0], settings)
    title = f"Figure 1: D = 10, {note}, paired variance" + (f"; {OURS}" if betting else "")
    chart.suptitle(title, fontsize=10)
    legend(chart, axes[1, 1], 4 if betting else 3)
    return save(chart, out / ("figure1_with_betting.png" if betting else "figure1.png"))


# -------------------------------------------------------------------------------- 1(e), 4, skew
def bounds(axes, settings, delta=0.1, sigma=0.1) -> None:
    """The uncertainty G(T) of one mean, by T: what each selector holds against a gap."""
    size = settings.size
    rows = np.unique(np.geomspace(2, size, 200).astype(int)).astype(float)
    odds = 1.0 - (rows - 1.0) / (size - 1.0)
    looked = rows >= 50
    normal = sigma / np.sqrt(rows) * np.sqrt(odds) * sm.b_normal(delta, 50 / size)
    axes.plot(rows[looked], normal[looked], color=COLOURS[NORMAL], label=NORMAL)
    for distribution in DISTRIBUTIONS:
        width = sigma * np.ptp(standardised(10, distribution, settings), axis=1).max()
        looks = np.ceil(np.log2(size / 2))  # before the one that has read everything
        term = log(5.0 * looks / delta)
        early, late = 1.0 - (rows - 1) / size, (1 - rows / size) * (1 + 1 / rows)
        rest = np.where(rows <= size / 2, early, late)
        kappa = 7.0 / 3.0 + 3.0 / sqrt(2.0)
        ebs = sigma * np.sqrt(2.0 * rest * term / rows) + kappa * width * term / rows
        # lil'UCB's heuristic constants: beta = .5, epsilon = 0, internal delta/5.
        iterated = np.log(np.log(rows + 2.0) * 5.0 / delta)
        lil = 1.5 * (width / 2.0) * np.sqrt(2.0 * iterated / rows)
        every = {"marker": MARKERS[distribution], "mfc": "none", "ms": 4, "markevery": 20}
        read = rows < size  # then the mean is exact and G = 0
        axes.plot(rows[read], ebs[read], color=COLOURS[EBS], label=EBS, **every)
        axes.plot(rows[read], lil[read], color=COLOURS[LIL], label=LIL, **every)
    axes.set(xscale="log", yscale="log", title=f"G(T), δ = {delta:g}, σ = {sigma:g}", xlabel="T")


def figure4(out: Path) -> Path:
    chart, axes = plt.subplots(figsize=(6.5, 5), layout="constrained")
    printed = printed_table1()
    deltas = np.geomspace(1e-6, 0.49, 200)
    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"]
    for column, colour in zip(printed.columns, colours, strict=True):
        axes.plot(deltas, sm.b_normal(deltas, column), color=colour, lw=1, label=f"{column:g}")
        axes.plot(printed.index, printed[column], ".", ms=3, color=colour)
    title = "Figure 4: B_Normal, lines ours, dots printed"
    axes.set(xscale="log", xlabel="δ", ylabel="B_Normal", title=title)
    axes.legend(title="first fraction", fontsize=7, title_fontsize=7)
    return save(chart, out / "figure4.png")


def skewed(frame, note, out) -> Path:
    """Our own page: two arms, the second constant, so that the difference is skewed."""
    chart, axes = plt.subplots(4, 3, figsize=(11, 12), layout="constrained")
    looks = {NORMAL: "x", GUARDED: "s", BETTING: "o"}
    for row, sigma in enumerate(SKEWED_SIGMAS):
        for column, distribution in enumerate(SKEWED):
            errors, shares = axes[2 * row, column], axes[2 * row + 1, column]
            here = frame[(frame.distribution == distribution) & (frame.sigma == sigma)]
            for selector, marker in looks.items():
                rows = here[here.selector == selector]
                look = (COLOURS[selector], STYLES.get(selector, "-"), marker, selector)
                error_curve(errors, rows, *look)
                share_curve(shares, rows, *look)
            title = f"{distribution.removeprefix('skewed ')} - constant, σ = {sigma:g}"
            error_axes(errors, sorted(frame.delta.unique()), title)
            share_axes(shares, title, linear=True)
    chart.suptitle(
        f"Not in the paper: skewed differences, D = 2, {note}. Racing-Normal as the paper has it, "
        "with our guard, and Racing-Betting", fontsize=10,
    )  # fmt: skip
    legend(chart, axes[1, 0], 3)
    return save(chart, out / "skewed.png")
