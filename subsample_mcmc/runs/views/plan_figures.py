"""Figures of a plan: what a decision takes by each variant, and why; numbers are its rows'."""

from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.runs.views.figures import chosen, draw_gaps
from subsample_mcmc.style import COLOURS, SMALL, axes_of, log_scale, names_down, shown


def plot_plan(plan: Any, axes: Any = None, panels: Any = None) -> np.ndarray:
    """Panels of a plan, by name; None: all."""
    wanted = tuple(PLANNED) if panels is None else chosen(panels, tuple(PLANNED))
    found = axes_of("plan.plot", axes, len(wanted), (4.8, 2.6 + 0.22 * len(plan.rows)))
    for name, panel in zip(wanted, found, strict=True):
        PLANNED[name](panel, plan)
    return found


def down(axes: Any, plan: Any) -> tuple[list[float], list[bool]]:
    """A line per kernel and variant: where, and whether it was its kernel's fastest."""
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
    places, fastest = down(axes, plan)
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
    places, _ = down(axes, plan)
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


PLANNED: dict[str, Callable] = {
    "times": draw_times,
    "shares": draw_shares,
    "gaps": draw_planned_gaps,
}
