"""Pictures of runs: who was pulled when, what was learnt, and how often it was wrong."""

import numpy as np

from subsample_mcmc.style import (
    COLOURS,
    MARKERS,
    SMALL,
    axes_of,
    line_style,
    point_style,
)


def plot_run(run, axes=None, most: int = 7):
    """Pulls of the arms that were pulled most, over time; and every arm's pulls and mean reward."""
    left, right = axes_of("identification.plot", axes, 2)
    shown = np.argsort(-run.pulls, kind="stable")[:most]
    for i, arm in enumerate(shown):
        style = line_style(i, len(run.times))
        style |= {"linewidth": 2.5, "zorder": 3} if arm == run.arm else {}
        label = f"arm {arm}" + (", named" if arm == run.arm else "")
        left.plot(run.times, run.history[:, arm], label=label, **style)
    left.set(xscale="log", yscale="symlog", xlabel="pulls in all", ylabel="pulls of an arm")
    left.set_ylim(bottom=0.0)
    left.legend(fontsize=SMALL)
    pulled = run.pulls > 0
    right.plot(run.pulls[pulled], run.means[pulled], label="an arm", **point_style(0))
    right.plot(
        run.pulls[run.arm], run.means[run.arm], "*", color=COLOURS[1], markersize=13,
        label=f"arm {run.arm}, named",
    )  # fmt: skip
    for arm in shown[run.pulls[shown] > 0]:
        right.annotate(
            str(arm), (run.pulls[arm], run.means[arm]), xytext=(6, 3),
            textcoords="offset points", fontsize=SMALL,
        )  # fmt: skip
    right.set(xscale="log", xlabel="pulls of an arm", ylabel="its mean reward")
    right.margins(0.12)
    right.legend(fontsize=SMALL)
    return np.array([left, right])


def plot_runs(runs, axes=None):
    """Mean pulls of each arm, and errors over time if truth was given."""
    count = 1 if runs.early is None else 2
    found = axes_of("identifications.plot", axes, count)
    arms = np.arange(len(runs.pulls))
    pulled = runs.pulls > 0.0
    # Dots, not bars: a log scale has no 0 that a bar could start from.
    found[0].plot(arms[pulled], runs.pulls[pulled], MARKERS[0], color=COLOURS[0], markersize=5)
    found[0].set(xlabel="arm", ylabel=f"mean pulls of {len(runs):,} runs", yscale="log")
    found[0].xaxis.get_major_locator().set_params(integer=True)
    if count == 2:
        shown = runs.times <= runs.totals.max()
        found[1].plot(
            runs.times[shown], runs.early[shown], color=COLOURS[0], label="leader, so far"
        )
        rate, low, high = runs.error_rate()
        found[1].axhline(rate, color=COLOURS[1], linestyle="--", linewidth=1.2, label="named arm")
        found[1].axhspan(
            low, high, facecolor=COLOURS[1], alpha=0.2, linewidth=0, label="its 95% interval"
        )
        found[1].set(xscale="log", xlabel="pulls", ylabel="share of runs where it is not best")
        found[1].legend(fontsize=SMALL)
    return found
