"""The figures of examples/best_arm/lin_gap_e.py, laid out like those of the paper."""

import matplotlib as mpl
import numpy as np
from paper import save

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe & Ito's palette, which colour-blind readers can tell apart.
COLOURS = dict(zip(range(4), ("#0072B2", "#56B4E9", "#009E73", "#D55E00"), strict=True))


def curve(axes, places, runs, label, colour, marker) -> None:
    """Means of runs, with two standard errors."""
    about = np.array([made.mean_total() for made in runs])
    axes.errorbar(
        places, about[:, 0], 2.0 * np.nan_to_num(about[:, 1]), label=label, color=colour,
        marker=marker, capsize=3,
    )  # fmt: skip


def curves(chosen, found, title, across, name, log=True) -> None:
    """One curve a strategy over what stands second in the keys of `found`."""
    chart, axes = plt.subplots(figsize=(6.0, 4.2), layout="constrained")
    for at, strategy in enumerate(dict.fromkeys(key[0] for key in found)):
        places = [key[1] for key in found if key[0] == strategy]
        runs = [found[strategy, place] for place in places]
        curve(axes, places, runs, strategy, COLOURS[at], "osD^"[at])
    axes.set(xlabel=across, ylabel="pulls until the stop", title=title)
    if log:
        axes.set_yscale("log")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    save(chart, chosen, name)
    plt.close(chart)


def first(chosen, found, angle) -> None:
    """Figure 1."""
    title = f"Figure 1: a rival at an angle of {angle}"
    curves(chosen, found, title, "d", "lin_gap_e_figure1")


def second(chosen, found) -> None:
    """Figure 2, whose axes are linear."""
    named = {}
    for at, name in enumerate(("LinGapE", "XY-static")):
        named |= {(name, gap): pair[at] for gap, pair in found.items()}
    title = "Figure 2: five orthogonal arms"
    curves(chosen, named, title, "$\\Delta$", "lin_gap_e_figure2", log=False)


def third(chosen, found) -> None:
    """Figure 3."""
    title = "Figure 3: clicks, simulated data"
    curves(chosen, found, title, "arms", "lin_gap_e_figure3", log=False)
