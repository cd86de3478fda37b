"""Figures of a run: what ArviZ does not draw.

Numbers come from `trace.report().rows`, so that figure and report never disagree. Only what varies
along a run, or from decision to decision, is taken from `trace.stats`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.runs.views.costs import ENDS
from subsample_mcmc.style import (
    COLOURS,
    FILLS,
    MOST_LINES,
    SMALL,
    axes_of,
    bar_style,
    line_style,
    log_scale,
    names_down,
    note,
    plain,
    point_style,
    shown,
    thinned,
)

WINDOWS = 50  # a run is smoothed over one part of so many: longer hides a drift, shorter is noise
SHARES = (0.5, 0.1, 0.01, 1e-3)  # of the data, where lines of equal cost are drawn
NOT_AUDITED = "No decision was audited:\nsm.sample(..., audit=0.02) fills this."


def chosen(wanted: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Names of panels, checked."""
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"panels={wanted!r}: name some of {', '.join(known)}.")
    return names


def offered(rows: list[dict]) -> dict[str, list[dict]]:
    """The rows that each panel shows; without those that have nothing to show."""
    found = {}
    for name in PANELS:
        ess = name.startswith("ess")
        found[name] = rows if ess else [row for row in rows if row["decisions"]]
        if ess and not any(row[name] > 0.0 for row in rows):
            found[name] = []
    return {name: part for name, part in found.items() if part}


def plot_trace(trace: Any, axes: Any = None, panels: Any = None) -> np.ndarray:
    """Panels of a run, by name; None: all that have something to show."""
    wanted = None if panels is None else chosen(panels, tuple(PANELS))
    rows = trace.report().rows
    having = offered(rows)
    needed = wanted or tuple(having) or ("ended",)
    if lacking := [name for name in needed if name not in having]:
        names, what = [row["kernel"] for row in rows], "decisions"
        if lacking[0].startswith("ess"):
            what = "moves with a known ESS" + " and rewards read" * lacking[0].endswith("million")
        raise ValueError(
            f"the kernels {names} made no {what} in {trace.shape[1]} draws, so there is nothing "
            f"to plot for {', '.join(lacking)}; name others of {', '.join(PANELS)}, take more "
            "draws, or use a kernel with a selector, like sm.Gibbs."
        )
    height = 3.4 + 0.25 * max(0, len(rows) - 4)
    found = axes_of("trace.plot", axes, len(needed), (4.8, height))
    for name, panel in zip(needed, found, strict=True):
        PANELS[name](panel, trace, having[name])
    return found


def draw_read(axes: Any, trace: Any, rows: list[dict]) -> None:
    """The share of rewards read, in a window that moves along the run."""
    most = sorted(rows, key=lambda row: -row["pulls_per_draw"])[:MOST_LINES]
    positive: list[float] = []
    for i, row in enumerate(row for row in rows if row in most):
        stats = trace.stats[row["kernel"]]
        share = rolling_share(stats["pulls"], stats["everything"])
        at = thinned(len(share))
        positive += share[at][share[at] > 0.0].tolist()
        label = f"{plain(row['kernel'])}: {100 * row['read']:.3g}% in all"
        axes.plot(at, share[at], label=label, **line_style(i, len(at)))
    axes.set(xlabel="draw", ylabel="share of rewards read")
    if positive:  # shares of .1% and 50% are both of interest
        log_scale(axes, "y", 0.7 * min(positive), 1.4 * max(positive))
    else:
        axes.set_ylim(-0.02, 1.0)
    left_out = len(rows) - len(most)
    title = f"the {MOST_LINES} kernels that read most; {left_out} more" if left_out else None
    axes.legend(fontsize=SMALL, title=title, title_fontsize=SMALL)


def rolling_share(read: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Rewards read over all rewards, of all chains, in a window that ends at each draw."""
    window = max(1, read.shape[1] // WINDOWS)
    sums = []
    for counts in (read, whole):
        total = np.concatenate([[0.0], np.cumsum(counts.sum(0), dtype=float)])
        first = np.maximum(0, np.arange(1, len(total)) - window)
        sums.append(total[1:] - total[first])
    # A window without decisions is a gap in the line.
    return np.divide(sums[0], sums[1], out=np.full_like(sums[0], np.nan), where=sums[1] > 0)


def draw_margins(axes: Any, trace: Any, rows: list[dict]) -> None:
    """Gaps of audited decisions, means of each draw, against what a race tells them from."""
    clouds = []
    for row in rows:
        stats = trace.stats[row["kernel"]]
        seen = stats["audited"] > 0
        each = stats["audited"][seen]
        clouds.append(
            (row["kernel"], stats["margin"][seen] / each, stats["variance"][seen] / each, row)
        )
    draw_gaps(axes, clouds)


def draw_gaps(axes: Any, clouds: Sequence[tuple[str, np.ndarray, np.ndarray, Mapping]]) -> None:
    """Points (sqrt(2 N v log(D / delta)), G): name, gaps G, variances N v, row with D and delta.

    An estimate from a share f of the rows has the variance N v (1 / f - 1), so that a race is over
    about where G^2 = 2 N v log(D / delta) (1 / f - 1): the lines.
    """
    clouds = [cloud for cloud in clouds if len(cloud[1])]
    if not clouds:
        return note(axes, NOT_AUDITED)
    points = []
    for i, (name, gaps, variances, row) in enumerate(clouds[:MOST_LINES]):
        risk = np.log((row.get("arms") or 2) / (row.get("delta") or Racing().delta))
        known = (gaps > 0.0) & (variances > 0.0)
        at = np.flatnonzero(known)[thinned(int(known.sum()))] if known.any() else []
        hidden = len(gaps) - int(known.sum())  # ties, and differences that are constant or unknown
        label = plain(name) + (f" ({hidden:,} of {len(gaps):,} have no spread)" if hidden else "")
        x = np.sqrt(2.0 * risk * variances[at])
        axes.plot(x, gaps[at], label=label, **point_style(i))
        points += zip(x, gaps[at], strict=True)
    axes.set(xlabel="√(2 N v log(D/δ)): spread of what is raced, nats")
    axes.set(ylabel="G: nats between the best two")
    if points:
        lines_of_cost(axes, np.array(points))
    axes.legend(fontsize=SMALL, loc="lower right")
    return None


def lines_of_cost(axes: Any, points: np.ndarray) -> None:
    """Where a race reads a given share, and a frame in which the points and one line are."""
    (low, bottom), (high, top) = 0.5 * points.min(axis=0), 2.0 * points.max(axis=0)
    high, top = max(high, top), max(top, 2.0 * low)
    log_scale(axes, "x", low, high)
    log_scale(axes, "y", bottom, top)
    right = 2.0
    for share in SHARES:
        slope = np.sqrt(1.0 / share - 1.0)
        axes.plot([low, high], [slope * low, slope * high], color="0.4", linewidth=0.8, zorder=1)
        x = min(high, top / slope)
        place = np.log(x / low) / np.log(high / low)
        if place > 0.1 and place < right - 0.2:  # in the frame, and clear of the one before
            right = place
            axes.annotate(
                f"reads {100 * share:.3g}%", (x, slope * x), xytext=(-3, -3), fontsize=SMALL,
                textcoords="offset points", ha="right", va="top", color="0.2",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            )  # fmt: skip


def draw_errors(axes: Any, trace: Any, rows: list[dict]) -> None:
    """Error rates of audited decisions with their bounds, against delta."""
    if not any(row["audited"] for row in rows):
        return note(axes, NOT_AUDITED)
    keys = ("error_lower", "error_upper", "error", "delta")
    known = [row[key] for row in rows for key in keys if row["audited"] and row[key]]
    known = [rate for rate in known if rate == rate] or [1e-3]
    left, names = min(known) / 3.0, []
    for y, row in enumerate(rows):
        counts = f"{row['wrong']:,} of {row['audited']:,} wrong"
        names.append(f"{row['kernel']}\n{counts if row['audited'] else 'not audited'}")
        low, high = max(row["error_lower"], left), max(row["error_upper"], left)
        if row["audited"] and row["error_upper"] == 0.0:
            axes.annotate(" 0: no arm was dropped early", (left, y), va="center", fontsize=SMALL)
        elif row["audited"]:
            axes.plot([low, high], [y, y], color="black", linewidth=1.5, gid="bounds")
            axes.plot(high, y, "|", color="black", markersize=10)
            # A log scale has no 0: an arrow to the left says that the lower bound is 0.
            end = "|" if row["error_lower"] > 0.0 else "<"
            axes.plot(low, y, end, color="black", markersize=8, clip_on=False)
        if row["wrong"]:
            axes.plot(row["error"], y, "o", color="black", markersize=6, gid="rate")
        if row["delta"]:
            axes.plot(
                row["delta"], y, "D", color=COLOURS[1], markerfacecolor="white", markersize=7,
                gid="delta",
            )  # fmt: skip
    axes.plot([], [], "|-", color="black", markersize=8, label="95% bounds")
    axes.plot([], [], "o", color="black", label="rate")
    axes.plot([], [], "D", color=COLOURS[1], markerfacecolor="white", label="δ")
    names_down(axes, names)
    log_scale(axes, "x", left, 2.0 * max(known))
    axes.set_xlabel("rate of wrong decisions")
    axes.legend(fontsize=SMALL, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return None


def draw_ended(axes: Any, trace: Any, rows: list[dict]) -> None:
    """How decisions ended, as shares of each kernel's."""
    left = np.zeros(len(rows))
    for i, (end, words) in enumerate(ENDS.items()):
        share = np.array([row[end] for row in rows])
        if share.any():
            axes.barh(np.arange(len(rows)), share, 0.6, left, label=words, **bar_style(i))
        left += share
    names_down(axes, [row["kernel"] for row in rows])
    axes.set(xlabel="share of decisions, by how they ended", xlim=(0, 1))
    axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=SMALL)


def draw_rate(key: str, label: str) -> Callable:
    """A panel of bars, one per kernel, with their numbers."""

    def draw(axes: Any, trace: Any, rows: list[dict]) -> None:
        values = [row[key] if row[key] == row[key] else 0.0 for row in rows]
        bars = axes.barh(
            np.arange(len(rows)), values, 0.6, facecolor=FILLS[1], edgecolor="black", linewidth=0.6
        )
        axes.bar_label(bars, [shown(row[key]) for row in rows], padding=3, fontsize=SMALL + 1)
        names_down(axes, [row["kernel"] for row in rows])
        axes.set(xlabel=label, xlim=(0.0, 1.25 * max(values, default=0.0) or 1.0))

    return draw


PANELS: dict[str, Callable] = {
    "read": draw_read,
    "margins": draw_margins,
    "errors": draw_errors,
    "ended": draw_ended,
    "ess_per_second": draw_rate("ess_per_second", "ESS (bulk, worst site) per second"),
    "ess_per_million": draw_rate("ess_per_million", "ESS per million rewards read"),
}


# ------------------------------------------------------------------------------- figures of plans
def plot_plan(plan: Any, axes: Any = None, panels: Any = None) -> np.ndarray:
    """Panels of a plan, by name; None: all."""
    wanted = tuple(PLAN_PANELS) if panels is None else chosen(panels, tuple(PLAN_PANELS))
    found = axes_of("plan.plot", axes, len(wanted), (4.8, 2.6 + 0.22 * len(plan.rows)))
    for name, panel in zip(wanted, found, strict=True):
        PLAN_PANELS[name](panel, plan)
    return found


def name_rows(axes: Any, plan: Any) -> tuple[list[float], list[bool]]:
    """Name a plan's rows along the y-axis: (place of each, was it its kernel's fastest).

    Names of the fastest, which the plan advises, are bold.
    """
    kernels = list(dict.fromkeys(row["kernel"] for row in plan.rows))
    places = [i + 0.6 * kernels.index(row["kernel"]) for i, row in enumerate(plan.rows)]
    times = {k: [r["us a decision"] for r in plan.rows if r["kernel"] == k] for k in kernels}
    fastest = [row["us a decision"] == min(times[row["kernel"]]) for row in plan.rows]
    several = len(kernels) > 1
    names = [f"{r['kernel']}, {r['variant']}" if several else r["variant"] for r in plan.rows]
    names_down(axes, names, places)
    for text, best in zip(axes.get_yticklabels(), fastest, strict=True):
        text.set_fontweight("bold" if best else "normal")
    return places, fastest


def draw_times(axes: Any, plan: Any) -> None:
    """Time per decision; a star is the advice."""
    places, fastest = name_rows(axes, plan)
    for i, (y, best, row) in enumerate(zip(places, fastest, plan.rows, strict=True)):
        value = row["us a decision"]
        told = "fastest" if best and True not in fastest[:i] else None
        look = {"marker": "*", "markersize": 13} if best else {"marker": "o", "markersize": 6}
        axes.plot(value, y, color=COLOURS[0 if best else 6], linestyle="none", label=told, **look)
        axes.annotate(
            shown(value), (value, y), xytext=(9, 0), textcoords="offset points", va="center",
            fontsize=SMALL + 1,
        )  # fmt: skip
    times = [row["us a decision"] for row in plan.rows]
    log_scale(axes, "x", 0.5 * min(times), 6.0 * max(times))
    axes.set_xlabel("time per decision, µs")
    axes.legend(fontsize=SMALL, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def draw_shares(axes: Any, plan: Any) -> None:
    """Shares of all rewards: read by the pilot, and expected of its gaps and spreads."""
    places, _ = name_rows(axes, plan)
    kinds = (("read", "read in the pilot", "o", COLOURS[0], 6), ("expected", "expected of its G "
             "and N v", "D", "none", 9))  # fmt: skip
    known = [r[key] for r in plan.rows for key, *_ in kinds if r[key] > 0.0]
    left = min(known, default=1e-3) / 3.0
    for key, label, marker, face, size in kinds:
        values = np.array([row[key] for row in plan.rows])
        axes.plot(
            np.where(values == 0.0, left, values), places, marker, color=COLOURS[0],
            markerfacecolor=face, markersize=size, label=label, clip_on=False,
        )  # fmt: skip
        for y in np.array(places)[values == 0.0]:
            axes.annotate("  none", (left, y), va="center", fontsize=SMALL)
    log_scale(axes, "x", left, 1.5 * max(known, default=1.0))
    axes.set_xlabel("share of all rewards")
    axes.legend(fontsize=SMALL, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def draw_planned_gaps(axes: Any, plan: Any) -> None:
    """Gaps of the pilots' decisions against what a race tells them from."""
    rows = {(row["kernel"], row["variant"]): row for row in plan.rows}
    several = len({kernel for kernel, _ in plan.decisions}) > 1
    draw_gaps(axes, [
        (f"{kernel}, {variant}" if several else variant, gaps, variances, rows[kernel, variant])
        for (kernel, variant), (gaps, variances) in plan.decisions.items()
    ])  # fmt: skip


PLAN_PANELS: dict[str, Callable] = {
    "times": draw_times,
    "shares": draw_shares,
    "gaps": draw_planned_gaps,
}
