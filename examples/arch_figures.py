"""The figures of examples/arch_model_selection.py, after Figure 2 of the paper, and one more."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from arch_report import evaluations, log_posteriors, truth_of, worst_error

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe & Ito's palette, which colour-blind readers can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SAMPLERS = {"raced": PALETTE[0], "exact": PALETTE[1]}
LINES = {"raced": "-", "exact": "--"}
LAGS = 30


def draw_all(runs, series, left, out: Path) -> list[str]:
    """Every figure that the runs have something for; returns the names of the files."""
    files = [returns(series, out), adjusted(runs, out), autocorrelation(runs, out)]
    if any(run.journey is not None for run in runs.values()):
        files.append(wang_landau(runs, out))
    files += [residuals(left, out), decisions(runs, out)]
    return files


def save(figure, path: Path) -> str:
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path.name


def decisions(runs, out) -> str:
    """What decisions read, how far the best was ahead, how often they were wrong."""
    trace = next(iter(runs.values())).trace
    return save(trace.plot()[0].figure, out / "decisions.png")


def returns(series, out) -> str:
    """The series, and how its squares remember."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", width_ratios=(5, 2))
    real = series.times is not None
    shown = 100.0 * series.sd * series.returns if real else series.returns
    axes[0].plot(shown, color="black", linewidth=0.3)
    if real:  # nights have no width: ticks say where months begin
        months = series.times.to_period("M").asi8
        first = np.flatnonzero(np.diff(months, prepend=months[0] - 1))
        first = first[:: -(-len(first) // 8)]
        axes[0].set_xticks(first, series.times[first].strftime("%Y-%m"), fontsize=8)
    axes[0].set(title="returns", xlabel="" if real else "bar", ylabel="%" if real else "return")
    axes[0].margins(x=0.01)
    squares = np.square(series.returns) - np.mean(np.square(series.returns))
    lags = np.arange(1, 41)
    kept = [squares[lag:] @ squares[:-lag] / (squares @ squares) for lag in lags]
    axes[1].bar(lags, kept, color=PALETTE[0])
    axes[1].set(title="their squares", xlabel="lag, bars", ylabel="autocorrelation")
    axes[1].axhline(0.0, color="black", linewidth=0.8)
    return save(figure, out / "returns.png")


def wang_landau(runs, out) -> str:
    """Estimates of log p(q) on the way from zero, against log likelihoods evaluated."""
    truth = truth_of(runs)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for name, run in runs.items():
        if run.journey is None:
            continue
        read, found = log_posteriors(run)
        shown = read > 0
        millions, found = read[shown] / 1e6, found[shown]
        for k, order in enumerate(run.chosen.labels):
            label = f"q = {order}" if name == next(iter(runs)) else None
            axes[0].plot(
                millions, found[:, k], color=PALETTE[k], linestyle=LINES[name], label=label
            )
        off = worst_error(run, truth)[shown]
        axes[1].plot(millions, off, color=SAMPLERS[name], linestyle=LINES[name], label=name)
    for k, value in enumerate(truth):
        if np.isfinite(value):
            axes[0].axhline(value, color=PALETTE[k], linewidth=0.8, linestyle=":")
    decay = next(run.journey.attrs["decay"] for run in runs.values() if run.journey is not None)
    known = "dashed: exact; " if len(runs) > 1 else ""
    axes[0].set(
        xscale="log", xlabel="log likelihoods evaluated, millions", ylabel="log p(q | data), nats",
        title=f"Wang-Landau from zero, steps 1/(1 + t/{decay:g})",
    )  # fmt: skip
    handles, labels = axes[0].get_legend_handles_labels()
    title = f"{known}dotted: long run"
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, title=title,
        title_fontsize=8,
    )  # fmt: skip
    axes[1].axhline(0.5, color="black", linewidth=0.8, linestyle=":")
    place = {"transform": axes[1].get_yaxis_transform(), "fontsize": 8, "va": "bottom"}
    axes[1].text(0.01, 0.5, "half a nat", **place)
    axes[1].set(
        xscale="log", yscale="log", xlabel="log likelihoods evaluated, millions",
        ylabel="nats", title="how far the worst order is off",
    )  # fmt: skip
    axes[1].legend(fontsize=8)
    return save(figure, out / "wang_landau.png")


def adjusted(runs, out) -> str:
    """The posterior under one tilted prior, estimated by each chain: do they agree?"""
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    labels = next(iter(runs.values())).chosen.labels
    common = -truth_of(runs)
    seen = np.isfinite(common)
    common = np.where(seen, common, 0.0)
    at = np.arange(len(labels))
    for i, (name, run) in enumerate(runs.items()):
        values, tilts = run.trace.draws["q"].reshape(run.trace.shape), run.chosen.tilts
        visits = np.array([np.bincount(chain, minlength=len(labels)) for chain in values])
        with np.errstate(divide="ignore"):  # each chain's own tilt undone, the common one put on
            logs = np.log(visits) - tilts + common
        shares = np.exp(logs - np.nanmax(logs, axis=1, keepdims=True))
        shares = shares / shares.sum(axis=1, keepdims=True)
        chains, place = len(shares), at + 0.3 * (i - 0.5 * (len(runs) - 1))
        bars = 2.0 * shares.std(axis=0, ddof=1) / np.sqrt(chains) if chains > 1 else None
        look = {"color": SAMPLERS[name], "capsize": 4, "label": f"{name}, mean of {chains} chains"}
        axes.errorbar(place, shares.mean(axis=0), bars, fmt="s", markersize=5, **look)
        for chain in shares:
            axes.plot(place + 0.07, chain, ".", color=SAMPLERS[name], alpha=0.4, markersize=4)
    axes.axhline(1.0 / seen.sum(), color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks(at, labels)
    axes.set(
        xlabel="order q", ylabel="adjusted posterior", title="bars: 2 standard errors; dots: chains"
    )
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.9 / seen.sum()), max(high, 1.1 / seen.sum()))
    axes.legend(fontsize=8)
    return save(figure, out / "adjusted_posterior.png")


def autocorrelation(runs, out) -> str:
    """Of the order's place in the list, by lag and by evaluations."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, run in runs.items():
        values = run.trace.draws["q"].reshape(run.trace.shape).astype(float)
        values = values - values.mean(axis=1, keepdims=True)
        lags = np.arange(min(LAGS, values.shape[1] - 1) + 1)
        squares = (values**2).mean()
        found = [(values[:, lag:] * values[:, : values.shape[1] - lag]).mean() for lag in lags]
        each = evaluations(run.trace) / values.size
        look = {"color": SAMPLERS[name], "marker": "o", "markersize": 3, "label": name}
        axes[0].plot(lags, np.array(found) / squares, linestyle=LINES[name], **look)
        axes[1].plot(each * lags[1:], np.array(found[1:]) / squares, linestyle=LINES[name], **look)
    axes[0].set(xlabel="lag, iterations", ylabel="autocorrelation of q")
    axes[1].set(xscale="log", xlabel="the same lags, in log likelihoods evaluated")
    for panel in axes:
        panel.axhline(0.0, color="black", linewidth=0.8)
    axes[0].legend(fontsize=8)
    return save(figure, out / "autocorrelation.png")


def residuals(left, out) -> str:
    """What is left to race: one decision's differences, and N v of many by kind of control."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    kinds = left.kinds
    edges = np.geomspace(1e-10, 10.0, 90)
    for k, name in enumerate(kinds[: len(left.one)]):
        heights = np.histogram(np.abs(left.one[k]), edges)[0]
        axes[0].stairs(heights, edges, color=PALETTE[k], label=name)
    axes[0].set(
        xscale="log", yscale="log", xlabel="|difference| of one datum, nats", ylabel="data",
        title="one decision between two orders, by control variate",
    )  # fmt: skip
    axes[0].legend(fontsize=8)
    rng = np.random.default_rng(0)
    for i, (name, values) in enumerate(left.spreads.items()):
        for k in range(len(kinds)):
            place = k + 0.25 * (i - 0.5) + 0.08 * rng.uniform(-1.0, 1.0, len(values))
            label = f"decisions of {name}" if k == 0 else None
            axes[1].plot(
                place, values[:, k], ".", color=PALETTE[i], alpha=0.5, markersize=5, label=label
            )
            axes[1].plot(k + 0.25 * (i - 0.5), np.median(values[:, k]), "k_", markersize=14)
    # A nat is three standard errors of N times the mean of a share f: N v (1/f - 1) = 1/9.
    axes[1].axhline(1.0 / (9.0 * 99.0), color="black", linewidth=0.8, linestyle=":")
    place = {"transform": axes[1].get_yaxis_transform(), "fontsize": 8, "va": "bottom"}
    axes[1].text(0.01, 1.2e-3, "below: 1% of the data tell a nat", **place)
    axes[1].set_xticks(range(len(kinds)), kinds, fontsize=8)
    axes[1].set(
        yscale="log", ylabel="N v, nats²", title="spread to be told from zero, decision by decision"
    )
    axes[1].legend(fontsize=8)
    return save(figure, out / "control_variates.png")
