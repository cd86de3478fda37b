"""The figures of examples/author_coreference.py, after Figure 3 of the paper, and two more."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

# Okabe & Ito's palette, which colour-blind readers can tell apart; lines and marks differ, too.
LOOKS = {
    "exact": ("#000000", "-", "o"),
    "paper": ("#D55E00", "--", "s"),
    "ours": ("#0072B2", "-", "^"),
    "merged": ("#009E73", ":", "D"),
}
NAMES = {
    "exact": "exact",
    "paper": "the paper's race",
    "ours": "race with control variate",
    "merged": "the same, with merges and splits",
}


def draw_all(runs: dict, task, out: Path) -> list[str]:
    """Every figure that there is something for; returns the names of the files."""
    files = [decisions(runs, out), sizes(runs, task, out)]
    if runs["exact"].f1 is not None:
        files.insert(0, quality(runs, task, out))
    return files


def save(figure, path: Path) -> str:
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path.name


def look(name: str) -> dict:
    colour, line, mark = LOOKS[name]
    return {
        "color": colour,
        "linestyle": line,
        "marker": mark,
        "markersize": 4,
        "label": NAMES[name],
    }


def quality(runs: dict, task, out: Path) -> str:
    """F1 against factor evaluations, CPU seconds, and iterations; bands: one sd over seeds."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained", sharey=True)
    for name, run in runs.items():
        mean, spread = run.f1.mean(axis=0), run.f1.std(axis=0)
        sweeps = np.arange(1, len(mean) + 1)
        places = [np.cumsum(run.evaluations, axis=1).mean(axis=0),
                  np.cumsum(run.seconds, axis=1).mean(axis=0), sweeps]  # fmt: skip
        for axis, x in zip(axes, places, strict=True):
            shown = x > 0
            axis.plot(x[shown], mean[shown], **look(name))
            axis.fill_between(
                x[shown], (mean - spread)[shown], (mean + spread)[shown], color=LOOKS[name][0],
                alpha=0.15, linewidth=0,
            )  # fmt: skip
    labels = ("pairs scored (log)", "CPU seconds (log)", "sweeps over all mentions")
    for axis, label in zip(axes, labels, strict=True):
        axis.set(xlabel=label)
        axis.grid(alpha=0.3)
    axes[0].set(xscale="log", ylabel="B³ F1 on held-out blocks")
    axes[1].set(xscale="log")
    axes[2].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[2].legend(fontsize=9, loc="lower right")
    seeds = len(runs["exact"].f1)
    figure.suptitle(f"{task.told}; mean of {seeds} seeds, bands: one sd", fontsize=10)
    return save(figure, out / "f1.png")


def decisions(runs: dict, out: Path) -> str:
    """Rate and regret of wrong decisions, and what is read, by sweep."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    everything = runs["exact"].evaluations.mean(axis=0)
    for name, run in runs.items():
        sweeps = np.arange(1, run.evaluations.shape[1] + 1)
        read = run.evaluations.mean(axis=0) / everything
        axes[2].plot(sweeps, 100.0 * np.where(read > 0, read, np.nan), **look(name))
        if not run.audited.sum():
            continue
        wrong, seen = run.wrong.sum(axis=0), run.audited.sum(axis=0)
        axes[0].plot(sweeps, 100.0 * wrong / np.maximum(seen, 1), **look(name))
        lost = np.where(wrong > 0, run.regret.sum(axis=0) / np.maximum(wrong, 1), np.nan)
        axes[1].plot(sweeps, lost, **look(name))
    axes[0].axhline(5.0, color="black", linewidth=0.8, linestyle=":")
    axes[0].text(1, 5.0, "δ", va="bottom")
    axes[0].set(ylabel="% of audited decisions", title="wrong decisions", ylim=(0.0, None))
    axes[1].set(yscale="log", ylabel="nats", title="score lost by a wrong decision")
    axes[2].set(yscale="log", ylabel="% of exact", title="pairs scored")
    for axis in axes:
        axis.set(xlabel="sweep")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.3)
    axes[2].legend(fontsize=9)
    return save(figure, out / "decisions.png")


def sizes(runs: dict, task, out: Path) -> str:
    """How many clusters have how many members, last sweep of the first seed; and the truth."""
    figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
    mentions = task.mentions
    found = {name: members(run.last[0], mentions.block) for name, run in runs.items()}
    most = max(values.max() for values in found.values())
    truth = None
    if mentions.truth is not None:
        truth = np.bincount(mentions.truth[mentions.truth >= 0])
        truth = truth[truth > 0]
        most = max(most, truth.max())
    edges = np.unique(np.append(2.0 ** np.arange(np.ceil(np.log2(most + 1)) + 1), 1.0))
    middle = np.sqrt(edges[:-1] * (edges[1:] - 1.0))
    if truth is not None:
        heights = np.histogram(truth, edges)[0]
        axis.stairs(heights, edges, fill=True, color="#cccccc", label="true clusters")
    for name, values in found.items():
        heights = np.histogram(values, edges)[0].astype(float)
        axis.plot(middle, np.where(heights > 0, heights, np.nan), **look(name))
    axis.set(
        xscale="log", yscale="log", xlabel="members of a cluster", ylabel="clusters",
        title="sizes of clusters: 1, 2-3, 4-7, 8-15, ...",
    )  # fmt: skip
    axis.legend(fontsize=9)
    return save(figure, out / "sizes.png")


def members(labels: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Sizes of clusters."""
    return np.unique(block * len(labels) + labels, return_counts=True)[1]
