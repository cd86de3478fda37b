"""The figures of examples/best_arm/sh_var.py, laid out like those of the paper."""

import matplotlib as mpl
import numpy as np
from paper import save
from sh_var_data import profile

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe & Ito's palette. Halving is drawn solid, what it is compared with is not.
LOOKS = {
    "Uniform": ("#999999", "v", ":"),
    "SuccessiveRejects": ("#56B4E9", "^", ":"),
    "GapE, b in H": ("#E69F00", "s", ":"),
    "GapE": ("#E69F00", "s", "--"),
    "GapE-V": ("#CC79A7", "D", "--"),
    "VBR-like": ("#009E73", "P", "--"),
    "SH": ("#000000", "o", "-"),
    "SHVar": ("#D55E00", "o", "-"),
    "SHAdaVar": ("#0072B2", "o", "-"),
}


def moments_figure(panels: dict, chosen, name: str) -> None:
    """Means and variances of arms, one panel for each (means, variances)."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 3.6), squeeze=False, layout="constrained"
    )
    for axis, (title, (means, variances)) in zip(axes[0], panels.items(), strict=True):
        arms = np.arange(len(means))
        axis.plot(arms, means, "o-", color="#0072B2", ms=3, lw=1, label="mean")
        axis.plot(arms, variances, "x", color="#D55E00", ms=5, label="variance")
        axis.set(xlabel="arm", title=title)
        axis.legend()
    save(figure, chosen, name)
    plt.close(figure)


def gaussian_figure(chosen) -> None:
    """Figure 1, before and after it was perturbed."""
    rng = np.random.default_rng(chosen.seed)
    panels = {
        "Figure 1: Gaussian bandit, K = 64": profile(64),
        "one run: perturbed": profile(64, rng),
    }
    moments_figure(panels, chosen, "sh_var_figure1")


def movies_figure(bandit, told: str, chosen) -> None:
    """Figure 4: the movies of two runs."""
    panels = {}
    for run in range(2):
        data = bandit.data(np.random.default_rng([chosen.seed, run]))
        panels[f"Figure 4, run {run + 1}: {told}"] = data["means"], data["variances"]
    moments_figure(panels, chosen, "sh_var_figure4")


def errors_figure(found: dict, across: str, title: str, chosen, name: str) -> None:
    """Share of wrong runs, with 95% intervals; found: {place on the x axis: {method: runs}}."""
    figure, axis = plt.subplots(figsize=(7.4, 4.6), layout="constrained")
    places = sorted(found)
    spread = 0.006 * (places[-1] - places[0]) if len(places) > 1 else 1.0
    for number, method in enumerate(found[places[0]]):
        rates = np.array([found[place][method].error_rate() for place in places])
        colour, marker, line = LOOKS[method]
        # Side by side, so that intervals can be told apart.
        at = np.array(places) + spread * (number - len(LOOKS) / 2)
        bars = np.abs(rates[:, 1:].T - rates[:, 0])
        axis.errorbar(
            at, rates[:, 0], bars, color=colour, marker=marker, ls=line, ms=5, lw=1.4,
            elinewidth=0.8, label=method,
        )  # fmt: skip
    axis.set(xlabel=across, ylabel="share of runs that name a wrong arm", title=title)
    axis.set_xticks(places)
    axis.set_ylim(bottom=0.0)
    axis.grid(alpha=0.25)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save(figure, chosen, name)
    plt.close(figure)


def sampler_figure(panels: dict, chosen) -> None:
    """Rewards read by a draw against the share of wrong draws; a panel for each population."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.4 * len(panels), 4.2), squeeze=False, layout="constrained"
    )
    looks = {"equal": "SH", "known-variance": "SHVar", "adaptive-variance": "SHAdaVar"}
    for axis, (title, (lines, race)) in zip(axes[0], panels.items(), strict=True):
        for allocation, points in lines.items():
            read, rate, low, high = np.array(points).T
            colour, marker, line = LOOKS[looks[allocation]]
            axis.errorbar(
                read, rate, (rate - low, high - rate), color=colour, marker=marker, ls=line, ms=5,
                elinewidth=0.8, label=f"SequentialHalving, {allocation}",
            )  # fmt: skip
        read, rate, low, high = race
        axis.errorbar(
            [read], [rate], [[rate - low], [high - rate]], color="#009E73", marker="*", ms=12,
            ls="", label="Racing, delta = 0.05",
        )  # fmt: skip
        axis.set(
            xscale="log", xlabel="share of all rewards read", title=title,
            ylabel="share of wrong draws",
        )  # fmt: skip
        axis.set_ylim(bottom=-0.01)
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)
    save(figure, chosen, "sh_var_sampler")
    plt.close(figure)
