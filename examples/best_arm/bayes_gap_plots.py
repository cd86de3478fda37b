"""The figures of bayes_gap.py and bayes_gap_wine.py."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

SHORT = {
    "BayesGap, T for T - K": "BayesGap*",
    "ExpectedImprovement": "EI",
    "ProbabilityOfImprovement": "PI",
    "SequentialHalving": "halving",
    "SequentialHalving x 5": "halving x 5",
}


def draw_traffic(found):
    """Figure 2: P(error) of every policy with its interval; simple regret beside it."""
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
    scales = sorted({eta for _, eta in found}, reverse=True)
    names = list(dict.fromkeys(name for name, _ in found))
    at = np.arange(len(names))
    for i, eta in enumerate(scales):
        runs = [found[name, eta] for name in names]
        rate, low, high = np.array([made.error_rate() for made in runs]).T
        place = at + 0.38 * (i - 0.5)
        axes[0].bar(place, rate, 0.36, yerr=(rate - low, high - rate), capsize=3,
                    label=f"eta = {eta:g}")  # fmt: skip
        mean = [made.regrets.mean() for made in runs]
        error = [made.regrets.std(ddof=1) / len(made) ** 0.5 for made in runs]
        axes[1].bar(place, mean, 0.36, yerr=error, capsize=3, label=f"eta = {eta:g}")
    for axis, title in zip(axes, ("P(error), 95% interval", "simple regret, mph"), strict=True):
        axis.set_xticks(at, [SHORT.get(name, name) for name in names], rotation=30, ha="right")
        axis.set_title(title)
        axis.legend()
    axes[1].set_yscale("symlog", linthresh=0.1)
    axes[0].set_xlabel("* exploration by T, not T - K")
    return figure


def draw_sampler(found):
    """Draws of each selector over the exact posterior; one panel per case."""
    cases = list(dict.fromkeys(case for case, *_ in found))
    figure, axes = plt.subplots(1, len(cases), figsize=(4.2 * len(cases), 4.0),
                                layout="constrained")  # fmt: skip
    for axis, case in zip(axes, cases, strict=True):
        for of, name, rate, _, arms, p in found:
            if of != case:
                continue
            if name == "Exact":
                axis.plot(np.cumsum(p), "k", lw=3, alpha=0.3, label="posterior")
                likely = np.flatnonzero(p > 1e-4)
                span = max(likely[-1] - likely[0], 20)
                axis.set_xlim(likely[0] - span, likely[-1] + span)
            values = np.bincount(arms, minlength=len(p)).cumsum() / len(arms)
            axis.plot(values, lw=1, label=f"{SHORT.get(name, name)}: {rate[0]:.1%} wrong")
        axis.set(title=case, xlabel="arm", ylabel="cumulative share")
        axis.legend(fontsize=7)
    return figure


def draw_boxes(named, best, budgets):
    """Figure 3: the RMSE of the models that were named, for each budget."""
    figure, axes = plt.subplots(1, len(budgets), figsize=(5.5 * len(budgets), 4.2),
                                layout="constrained", sharey=True)  # fmt: skip
    for axis, budget in zip(axes, budgets, strict=True):
        names = [name for name, of in named if of == budget]
        labels = [SHORT.get(name, name) for name in names]
        axis.boxplot([named[name, budget] for name in names], tick_labels=labels)
        axis.axhline(best, color="0.6", lw=1, label="best model")
        axis.tick_params(axis="x", rotation=30)
        axis.set(title=f"T = {budget}", ylabel="RMSE of the model that was named")
        axis.legend()
    return figure


def draw_allocations(pulled, named, truth, edges, classes):
    """Figure 4: what was pulled at each round, what was named, and the RMSE of each model."""
    figure, axes = plt.subplots(2, len(pulled), figsize=(6.0 * len(pulled), 6.0), sharex=True,
                                layout="constrained", height_ratios=(2, 1))  # fmt: skip
    for (name, arms), (top, low) in zip(pulled.items(), axes.T, strict=True):
        rounds = np.tile(np.arange(1, arms.shape[1] + 1), len(arms))
        bins = (np.arange(0, len(truth) + 1, 4), np.arange(0.5, arms.shape[1] + 1))
        top.hist2d(arms.ravel(), rounds, bins=bins, cmap="Greys")
        top.set(title=f"{SHORT.get(name, name)}: pulls", ylabel="round")
        low.hist(named[name], bins=bins[0], color="C0", label="named")
        low.set(xlabel="model", ylabel="runs")
        other = low.twinx()
        other.plot(truth, "k", lw=1)
        other.set_ylabel("RMSE")
        for axis in (top, low):
            for edge in edges[1:-1]:
                axis.axvline(edge, color="C3", lw=0.7)
        middle = 0.5 * (np.array(edges[1:]) + edges[:-1])
        low.set_xticks(middle, classes, rotation=30, fontsize=8)
    return figure
