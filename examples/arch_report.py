"""What examples/arch_model_selection.py prints and writes as text."""

import json

import numpy as np

DECIDED = {"Gibbs": "order q", "Langevin": "Langevin", "Metropolis": "independence"}
NEAR = (2.0, 0.5)  # nats


class Printer:
    """Prints, and keeps what was printed in a file."""

    def __init__(self, path):
        self.path = path
        path.write_text("")

    def __call__(self, text="") -> None:
        print(text, flush=True)
        with self.path.open("a") as file:
            file.write(f"{text}\n")


def tell(runs, model, series, fits, say, out) -> None:
    """Tables of all runs; the last parts are of the raced run, where there is one."""
    for name, run in runs.items():
        say(f"\n{name}: {run.chosen.title}")
        say(table(run.chosen, fits))
        run.chosen.table.to_csv(out / f"probabilities_{name}.csv")
        for text in run.chosen.warnings:
            say(f"  note: {text}")
        (out / f"kernels_{name}.txt").write_text(f"{run.report}\n")
    say("\nDecisions: data read, and wrong ones among those made again exactly (bound: 95%)")
    say(decisions(runs))
    if len(runs) > 1:
        say(f"\nLargest difference of the two: {apart(runs)}")
    say("\nEffective draws of q, the least over orders, added up over chains")
    say(speeds(runs))
    for text in arrivals(runs):
        say(text)
    run = next(iter(runs.values()))
    say("\nParameters, by order: posterior means and sds")
    # Draws of one order are all worth the same, even where that is next to nothing.
    summary = model.summary(run.trace).drop(columns="draws")
    summary["probability"] = run.chosen.table.probability
    say(summary.round(4).to_string())
    say(f"\nThe next return, in {unit(series)}; 90% intervals")
    say(forecast(model, run, series).to_string())


def table(chosen, fits) -> str:
    """Order, log posterior with its error, visits, log Bayes factor, and what Laplace says."""
    evidences = np.array([fit.log_evidence for fit in fits])
    lines = ["   q   log posterior    +- se    visits       ESS     log BF    +- se   from the fit"]
    laplace = evidences - np.logaddexp.reduce(evidences)
    for (order, row), fitted in zip(chosen.table.iterrows(), laplace, strict=True):
        lines.append(
            f"{order:4d}{row.log_probability:16.3f}{row.log_probability_se:9.3f}"
            f"{row.visits:10,.0f}{row.ess:10,.0f}{row.log_bayes_factor:11.3f}"
            f"{row.log_bayes_factor_se:9.3f}{fitted:15.3f}"
        )
    return "\n".join(lines)


def decisions(runs) -> str:
    """A line per kernel."""
    lines = [
        "                        made  accepted  data read  no data  audited  wrong    rate <="
    ]
    for name, run in runs.items():
        for row in run.report.rows:
            what = DECIDED.get(row["kind"], row["kernel"])
            bound = f"{row['error_upper']:.2g}" if row["audited"] else "exact" * (name == "exact")
            lines.append(
                f"{name:6} {what:13}{row['decisions']:9,}{row['accepted']:9.1%}{row['read']:11.2%}"
                f"{row['predicted']:9.1%}{row['audited']:9,}{row['wrong']:7,}{bound:>11}"
            )
    return "\n".join(lines)


def apart(runs) -> str:
    """How far raced and exact log posteriors lie apart."""
    first, second = (run.chosen.table for run in runs.values())
    gap = (first.log_probability - second.log_probability).to_numpy()
    error = np.hypot(first.log_probability_se, second.log_probability_se).to_numpy()
    k = int(np.nanargmax(np.abs(gap)))
    return (
        f"{gap[k]:+.3f} nats, {abs(gap[k]) / error[k]:.1f} standard errors (q = {first.index[k]})"
    )


def evaluations(trace) -> int:
    """Log likelihoods evaluated by all draws, those of gradients included."""
    stats = trace.stats.values()
    return int(sum(s[key].sum() for s in stats for key in ("pulls", "gradients") if key in s))


def share_read(trace) -> float:
    """Of the log likelihoods that exact decisions without a memory would have read."""
    made = [s for s in trace.stats.values() if "everything" in s]
    return float(sum(s["pulls"].sum() for s in made) / sum(s["everything"].sum() for s in made))


def ess_of(chosen) -> float:
    """The least over the indicators of visited orders, chain by chain and added up."""
    seen = chosen.table[chosen.table.visits > 0]
    return float(seen.ess.min())


def speeds(runs) -> str:
    """ESS by time and by evaluations."""
    lines = ["             ESS   per draw     per second   per million evaluations"]
    for name, run in runs.items():
        row, draws = numbers(run), np.prod(run.trace.shape)
        lines.append(
            f"{name:6}{ess_of(run.chosen):10,.0f}{ess_of(run.chosen) / draws:11.3f}"
            f"{row['ess_per_second']:15,.0f}{row['ess_per_million_evaluations']:26,.1f}"
        )
    both = [numbers(run) for run in runs.values()]
    if len(both) == 2:
        keys = ("ess_per_second", "ess_per_million_evaluations")
        times = [both[0][key] / both[1][key] for key in keys]
        lines.append(f"{'times':6}{times[0]:36.1f}{times[1]:26.1f}")
    return "\n".join(lines)


def log_posteriors(run) -> tuple[np.ndarray, np.ndarray]:
    """(evaluations, estimates by order) along a Wang-Landau run: minus the tilt, normalised."""
    tilts = -run.journey[list(run.chosen.labels)].to_numpy()
    return run.journey["rewards_read"].to_numpy(), tilts - log_sum(tilts)


def log_sum(values: np.ndarray) -> np.ndarray:
    return np.logaddexp.reduce(values, axis=-1, keepdims=True)


def worst_error(run, truth: np.ndarray) -> np.ndarray:
    """Nats that the worst order is off, along the run; orders never visited are left out."""
    known = np.isfinite(truth)
    return np.abs(log_posteriors(run)[1] - truth)[:, known].max(axis=1)


def truth_of(runs) -> np.ndarray:
    """The log posterior that long runs agree on."""
    return next(iter(runs.values())).chosen.table.log_probability.to_numpy()


def arrivals(runs):
    """Evaluations until all orders of a Wang-Landau run from zero are near: 2 nats, half a nat.

    Half a nat is within the noise of the tilts, which meets it sooner or later by chance.
    """
    begun = {name: run for name, run in runs.items() if run.journey is not None}
    ways = {
        name: (log_posteriors(run)[0], worst_error(run, truth_of(runs)))
        for name, run in begun.items()
    }
    for nats in NEAR:
        found = {}
        for name, (read, error) in ways.items():
            near = np.flatnonzero(error < nats)
            head = f"Wang-Landau from zero, {name}:"
            if len(near):
                found[name] = read[near[0]]
                yield f"{head} within {nats:g} nats after {found[name]:,} evaluations"
            else:
                yield f"{head} not within {nats:g} nats after {read[-1]:,}"
        if len(found) == 2 and found["raced"]:
            yield f"  {found['exact'] / found['raced']:.1f} times as many without races"


# -------------------------------------------------------------------------------- forecast, JSON
def unit(series) -> str:
    return "units of the series" if series.times is None else "basis points (sigma: per bar)"


def forecast(model, run, series):
    """Volatility of the next return, by order and averaged over orders."""
    found = model.forecast(run.trace)
    found.iloc[:-1, 0] = run.chosen.table.probability
    found.iloc[-1] = model.forecast(run.trace, weights=run.chosen.weights).iloc[-1]
    scale = 1.0 if series.times is None else 1e4 * series.sd
    made = found[["probability"]].copy()
    made["sigma"] = scale * np.sqrt(found["sigma2"])
    for end in ("low", "high"):
        made[f"sigma_{end}"] = scale * np.sqrt(found[f"sigma2_{end}"])
    for end in ("low", "high"):
        made[f"return_{end}"] = scale * found[f"return_{end}"]
    return made.round(4)


def numbers(run) -> dict:
    """What the summary says about a run."""
    found, trace = run.chosen.table, run.trace
    seconds, ess, errors = float(trace.seconds.sum()), ess_of(run.chosen), {}
    for row in run.report.rows:
        exact = row["guarantee"] == "exact"
        errors[row["kernel"]] = [0.0, 0.0] if exact else [row["error"], row["error_upper"]]
    return {
        "log_posterior": found.log_probability.tolist(),
        "log_posterior_se": found.log_probability_se.tolist(),
        "share_read": share_read(trace),
        "errors": errors,
        "ess_per_second": ess / seconds,
        "ess_per_million_evaluations": 1e6 * ess / evaluations(trace),
        "seconds": seconds,
    }


def write_summary(runs, orders, path) -> None:
    """The main numbers, for programs; what is not a number is null."""
    found = {name: numbers(runs[name]) if name in runs else None for name in ("raced", "exact")}
    text = json.dumps({"orders": list(orders)} | plain(found), indent=2, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def plain(value):
    """The same, with None for nan and infinities, which JSON has no word for."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
