"""Pictures of runs: who was pulled when, what was learnt, and how often it was wrong."""

import numpy as np


def axes_of(axes, count: int):
    """The axes given, or new ones side by side."""
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(1, count, figsize=(5.0 * count, 3.6), layout="constrained")[1]
    axes = np.atleast_1d(axes)
    if len(axes) != count:
        raise ValueError(f"axes has {len(axes)} parts: give {count}, or none.")
    return axes


def plot_run(run, axes=None, most: int = 10):
    """Pulls over time, and the means in the end, of the arms that were pulled most."""
    left, right = axes_of(axes, 2)
    shown = np.argsort(-run.pulls, kind="stable")[:most]
    for arm in shown:
        style = {"lw": 2.5, "zorder": 3} if arm == run.arm else {"lw": 1.0}
        left.plot(run.times, run.history[:, arm], label=f"arm {arm}", **style)
    left.set(xscale="log", yscale="symlog", xlabel="pulls in all", ylabel="pulls of an arm")
    left.legend(fontsize="small", frameon=False)
    places = np.arange(len(shown))
    colours = ["C1" if arm == run.arm else "C0" for arm in shown]
    right.bar(places, run.pulls[shown], color=colours)
    right.set(yscale="log", xlabel="arm", ylabel="pulls")
    right.set_xticks(places, [str(arm) for arm in shown])
    means = right.twinx()
    means.plot(places, run.means[shown], "k.", ms=8)
    means.set_ylabel("mean reward (dots)")
    return np.array([left, right])


def plot_runs(runs, axes=None):
    """Mean pulls of each arm, and errors over time if truth was given."""
    count = 1 if runs.early is None else 2
    found = axes_of(axes, count)
    found[0].bar(np.arange(len(runs.pulls)), runs.pulls)
    found[0].set(xlabel="arm", ylabel=f"mean pulls of {len(runs)} runs", yscale="log")
    if count == 2:
        shown = runs.times <= runs.totals.max()
        found[1].plot(runs.times[shown], runs.early[shown])
        rate, low, high = runs.error_rate()
        found[1].axhline(rate, color="C1", lw=1.0)
        found[1].axhspan(low, high, color="C1", alpha=0.2, lw=0)
        found[1].set(xscale="log", xlabel="pulls", ylabel="runs whose leader is not best")
    return found
