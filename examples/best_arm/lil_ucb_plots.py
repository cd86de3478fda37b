"""Figures 2 and 3 of lil_ucb.py, as tables and drawn."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from paper import table
from scipy.stats import binomtest

COLOURS = ["#888888", "#b07d3b", "#2a9d5c", "#9ecae1", "#1f5fa8", "#c23b3b", "#111111", "#8e5ea2"]
COLOURS += ["#e083b8"]
MARKERS = "oXs^vDPd*"


# --------------------------------------------------------------------------------------- tables
def cut(runs) -> int:
    """How many were ended by max_pulls."""
    return int(np.sum(runs.stopped_by == "max_pulls"))


def stopping_table(found) -> None:
    """Stopping times / H1 of Figure 2, a table for each scenario."""
    names = list(dict.fromkeys(name for _, name in found))
    for scenario, problems in by_scenario(found):
        rows = [["H1", *(f"{p.hardness:,.0f}" for p in problems)]]
        rows += [[name, *(cell(p, found.get((p, name))) for p in problems)] for name in names]
        columns = [scenario, *(f"K = {p.arms:,}" for p in problems)]
        count = max(len(runs) for runs in found.values())
        table(columns, rows, f"Figure 2: stopping times / H1 +- standard error, {count} runs")
    print('\n"-": would take too long. "cut": so many runs were ended by max_pulls.')


def by_scenario(found) -> list:
    """[(scenario, its problems)]."""
    problems = list(dict.fromkeys(problem for problem, _ in found))
    scenarios = dict.fromkeys(problem.scenario for problem in problems)
    return [(s, [p for p in problems if p.scenario == s]) for s in scenarios]


def cell(problem, runs) -> str:
    """A stopping time; no ratio is claimed where runs were cut off."""
    if runs is None:
        return "-"
    if cut(runs):
        return f"cut {cut(runs)}/{len(runs)} at {runs.totals.max() / problem.hardness:,.0f}"
    middle, error = (value / problem.hardness for value in runs.mean_total())
    return f"{middle:,.1f} +- {error:.1f}"


def reached(runs, level) -> np.ndarray:
    """Pulls until the leader is wrong so seldom: as found, at least, at most (95% bounds)."""
    count = len(runs)
    wrong = np.rint(runs.early * count).astype(int).tolist()
    bounds = {k: binomtest(k, count).proportion_ci() for k in set(wrong)}
    low, high = (np.array([bounds[k][side] for k in wrong]) for side in (0, 1))
    times = [runs.times[v <= level] for v in (runs.early, low, high)]
    return np.array([t[0] if len(t) else np.inf for t in times])


def early_table(early, level, window) -> None:
    """When the curves of Figure 3 come down to a level."""
    names = list(dict.fromkeys(name for _, name in early))
    for scenario, problems in by_scenario(early):
        rows = []
        for name in names:
            row = [name]
            for problem in problems:
                runs = early.get((problem, name))
                at = np.nan if runs is None else reached(runs, level)[0] / problem.hardness
                row.append(
                    "-" if np.isnan(at) else f"> {window:g}" if at == np.inf else f"{at:.2f}"
                )
            rows.append(row)
        counts = [
            max(len(r) for (p, _), r in early.items() if p == problem) for problem in problems
        ]
        columns = [scenario, *(f"K = {p.arms:,}" for p in problems)]
        rows.append(["runs", *(f"{count:,}" for count in counts)])
        table(columns, rows, f"Figure 3: pulls / H1 until the leader is wrong in {level:.0%}")


# -------------------------------------------------------------------------------------- figures
def styles(names, dashed) -> dict:
    """Colour, marker and line of each strategy, the same in both figures."""
    names = [*names, *(name for name in dashed if name not in names)]
    return {
        name: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": "--" if name in dashed else "-",
            "label": name,
        }
        for i, name in enumerate(names)
    }


def legend(figure, axes) -> None:
    """One for all panels, below them."""
    entries = {}
    for panel in np.ravel(axes):
        lines, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, lines, strict=True))
    height = 0.75 / figure.get_size_inches()[1]  # inches of the legend
    figure.tight_layout(rect=(0.0, height, 1.0, 1.0))
    figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=5, frameon=False)


def stopping_times(found, usual, later):
    """Figure 2: stopping times / H1 against K; later: dashed, they are not in the paper."""
    look = styles(usual, later)
    scenarios = list(dict.fromkeys(problem.scenario for problem, _ in found))
    figure, axes = plt.subplots(1, len(scenarios), figsize=(12, 5), sharey=True, squeeze=False)
    for panel, scenario in zip(axes[0], scenarios, strict=True):
        for name, style in look.items():
            # Runs that max_pulls ended have no stopping time.
            runs = {
                problem: each
                for (problem, other), each in found.items()
                if other == name and problem.scenario == scenario and not cut(each)
            }
            if runs:
                means = np.array([r.mean_total() for r in runs.values()])
                means /= np.array([problem.hardness for problem in runs])[:, None]
                arms = [problem.arms for problem in runs]
                panel.errorbar(arms, means[:, 0], 1.96 * means[:, 1], **style, ms=5, lw=1.3)
        panel.set(title=scenario, xlabel="arms K", xscale="log", yscale="log")
        arms = sorted({problem.arms for problem, _ in found})
        panel.set_xticks(arms, [f"{k:,}" for k in arms])
        panel.set_xticks([], minor=True)
        panel.grid(alpha=0.3)
    axes[0, 0].set_ylabel("pulls until it stops / H1")
    legend(figure, axes)
    return figure


def anytime(early, found, window, later):
    """Figure 3: how often the leader is wrong; triangles: where the strategy stops on average."""
    names = list(dict.fromkeys(name for _, name in found))
    look = styles([name for name in names if name not in later], later)
    scenarios = list(dict.fromkeys(problem.scenario for problem, _ in early))
    sizes = sorted({problem.arms for problem, _ in early})
    shape = (len(sizes), len(scenarios))
    figure, axes = plt.subplots(*shape, figsize=(12, 3.0 * shape[0] + 0.8), squeeze=False)
    for (problem, name), runs in early.items():
        panel = axes[sizes.index(problem.arms), scenarios.index(problem.scenario)]
        style = {**look[name], "marker": ""}
        inside = runs.times >= problem.arms
        panel.plot(runs.times[inside] / problem.hardness, runs.early[inside], **style, lw=1.3)
        stopped = found.get((problem, name))
        if stopped is not None and not cut(stopped):
            at = stopped.mean_total()[0] / problem.hardness
            if at <= window:
                panel.plot(at, -0.03, "^", color=style["color"], ms=6, clip_on=False, zorder=3)
        panel.set(title=str(problem), xscale="log", xlim=(None, window), ylim=(-0.03, 1.0))
        panel.grid(alpha=0.3)
    for panel in axes[-1]:
        panel.set_xlabel("pulls / H1")
    for panel in axes[:, 0]:
        panel.set_ylabel("P(leader is not best)")
    legend(figure, axes)
    return figure
