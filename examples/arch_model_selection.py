"""How many lags does volatility remember? Student-t ARCH models of six orders, by MCMC.

    python examples/arch_model_selection.py           a simulated year, 5-minute returns
    python examples/arch_model_selection.py --both    and every decision exactly, too
    python examples/arch_model_selection.py --data bars.csv.gz --year 2016     your own bars

The experiment of Chen & Ghahramani (2016), section 5.2: r_t = sigma_t z_t, z_t Student-t with nu
degrees of freedom, sigma_t^2 = a_0 + sum_{i <= q} a_i r_{t-i}^2, and a chain over the order q in
{5, 10, 15, 20, 25, 30} and its parameters. Every step, of q and of the parameters, is decided by a
race on a few rows. What makes that possible is ours: control variates of third order around a fit
of each order, and pseudo-priors in coordinates in which posteriors are nearly Gaussian. --paper
runs the paper's own settings instead.

--data takes a CSV file of bars, in order of time: the columns `datetime`, or `date` and `time`,
and `close`; others are ignored. Returns are logarithmic; those between two days are dropped
(--overnight rescale keeps them), then the mean is removed and the standard deviation set to 1.

Y. Chen and Z. Ghahramani, "Scalable discrete sampling as a multi-armed bandit problem",
ICML 2016, arXiv:1506.09039.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import arch_figures
import arch_paper
import arch_report
import arch_residuals
import numpy as np
from tqdm import tqdm

import subsample_mcmc as sm

ORDERS = (5, 10, 15, 20, 25, 30)
LARGE = 50_000  # data beyond which fits are matched by their control variate: exact sums take long


class Series(NamedTuple):
    """Returns to model, and how they came about."""

    returns: np.ndarray
    sd: float  # of one unit of them, as a share of the price
    told: str
    times: Any = None


class Sampler(NamedTuple):
    """Kernels for one way of deciding; `tilted` takes WangLandau's arguments."""

    name: str
    tilted: Any
    start: dict


class Run(NamedTuple):
    """What a sampler found."""

    trace: Any
    report: Any  # of the trace
    chosen: Any  # the orders' probabilities
    journey: Any  # a Wang-Landau run from zero, as a table; or None


def main() -> None:
    options = parsed()
    began = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    say = arch_report.Printer(options.output / "report.txt")
    series = series_of(options)
    say(series.told)
    coordinates = "softplus" if options.paper else "squareroot"
    model = sm.models.arch.ARCH(series.returns, ORDERS, coordinates=coordinates)
    settings = arch_paper.settings if options.paper else ours
    fits, control, make = settings(model)
    wanted = ["raced"] * (not options.exact) + ["exact"] * (options.exact or options.both)
    runs = {name: carried_out(make(name), model, fits, options, say) for name in wanted}
    arch_report.tell(runs, model, series, fits, say, options.output)
    if options.plan:
        say(arch_paper.planned(model, fits, make("raced")))
    trace = next(iter(runs.values())).trace
    left = arch_residuals.differences(model, fits, trace, control)
    say("\nN v, nats^2, of what a race has to average out, by control variate: medians")
    say(arch_residuals.table(left))
    files = arch_figures.draw_all(runs, series, left, options.output)
    if options.summary:
        arch_report.write_summary(runs, ORDERS, options.summary)
    say(f"\nWritten in {time.monotonic() - began:.0f} s to {options.output}:")
    say("  " + ", ".join([*files, "report.txt", *(f"{name}.nc" for name in runs)]))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, help="a CSV file of bars (gz too); default: a simulated year")
    add("--year", type=int, help="take only this year of --data")
    add("--overnight", choices=("drop", "rescale"), default="drop", help="returns between two days")
    add("--exact", action="store_true", help="decide everything exactly, instead of racing")
    add("--both", action="store_true", help="race, and decide exactly, and compare")
    add("--paper", action="store_true", help="the settings of the paper")
    add("--plan", action="store_true", help="compare control variates by sm.plan; takes minutes")
    add("--draws", type=int, help="per chain (default 10,000)")
    add("--chains", type=int, help="default 5")
    add(
        "--audit",
        type=float,
        help="share of decisions to check, which takes time (.02; large data .005)",
    )
    add("--seed", type=int, default=1)
    add("--quick", action="store_true", help="the first 3,000 returns, few draws: to see it run")
    add("--output", type=Path, default=Path("results/arch"), help="folder (default results/arch)")
    add("--summary", type=Path, help="write the main numbers to this JSON file")
    options = parser.parse_args()
    if options.exact and options.both:
        parser.error("--exact or --both, not both")
    if options.year and not options.data:
        parser.error("--year needs --data")
    options.draws = options.draws or (1_000 if options.quick else 10_000)
    options.chains = options.chains or (2 if options.quick else 5)
    options.warmup = 500 if options.quick else 2_000
    options.steps = 2_000 if options.quick else 10_000  # of Wang-Landau from zero
    return options


def series_of(options) -> Series:
    """The returns, and a line that says what was done to them."""
    if options.data is None:
        returns, sd, times = sm.models.arch.example_returns(), 1.0, None
        told = f"{len(returns):,} simulated returns: nu = 4, a_0 = .1, 15 lags that fade"
    else:
        try:
            bars = sm.models.returns.read_bars(options.data)
        except (OSError, ValueError) as error:  # pandas' EmptyDataError is one
            raise SystemExit(f"{options.data}: {error}") from None
        if options.year:
            bars = bars[bars["time"].dt.year == options.year].reset_index(drop=True)
            if bars.empty:
                raise SystemExit(f"{options.data} has no bars of {options.year}.")
        made = sm.models.returns.log_returns(bars, overnight=options.overnight)
        returns, mean, sd = sm.models.returns.standardised(made)
        told, times = f"{made}\nmean {mean:.3g} removed, divided by their sd {sd:.4g}", made.times
    if options.quick and len(returns) > 3_000:
        returns, told = returns[:3_000], f"{told}; only the first 3,000 are used"
        returns = returns - returns.mean()
    return Series(returns, sd, told, times)


# ------------------------------------------------------------------------------------- samplers
def ours(model):
    """(fits, control variate, sampler by name): proposals from fits, cubic control variates."""
    orders = range(len(model.orders))
    bar = tqdm(orders, "fit of each order", unit="order")
    raw = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in bar]
    # Its sums stand for the likelihood where summing over all data would take a minute.
    known = sm.Taylor(raw) if model.size > LARGE else None
    fits = [fit.matched(control=known) for fit in tqdm(raw, "moments of each fit", unit="order")]
    taylor = sm.Taylor(fits, outliers=0.01)

    def sampler(name):
        raced = name == "raced"
        control, selector = (taylor, sm.Racing()) if raced else (None, sm.Exact())
        how = {"control": control, "selector": selector}
        choice = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits), **how)
        # Both propose from fits alone, and the exact sampler like the raced one.
        local = sm.Langevin("theta", control=taylor, selector=selector)
        jump = sm.Metropolis("theta", proposal=sm.independence(fits), **how)
        moves = choice >> sm.mixture((local, 0.5), (jump, 0.5))
        return Sampler(name, lambda **tilt: moves >> sm.WangLandau("q", **tilt), best(fits).state)

    return fits, taylor, sampler


def best(fits):
    """The fit of the likeliest order."""
    return max(fits, key=lambda fit: fit.log_evidence)


def carried_out(sampler, model, fits, options, say) -> Run:
    """Sample, and once more from no knowledge of the orders: how fast is that found out?"""
    path = options.output / f"{sampler.name}.nc"
    path.unlink(missing_ok=True)
    audit = options.audit
    if audit is None:
        audit = 0.02 if model.size <= LARGE else 0.005
    print(
        f"\n{sampler.name}: control variates, and compiling if it is the first time ...", flush=True
    )
    evidences = np.array([fit.log_evidence for fit in fits])
    # With one seed the two samplers would go the same way until a decision differs.
    seed = np.random.SeedSequence(options.seed, spawn_key=(int(sampler.name == "exact"),))
    trace = sm.sample(
        model, sampler.tilted(start=-evidences), draws=options.draws, warmup=options.warmup,
        chains=options.chains, seed=seed, start=[sampler.start] * options.chains,
        audit=audit if sampler.name == "raced" else 0.0, store=path,
    )  # fmt: skip
    chosen = trace.model_probabilities("q", labels=list(model.orders))
    return Run(trace, trace.report(), chosen, journey(sampler, model, evidences, options, say))


def journey(sampler, model, evidences, options, say):
    """The tilts of a Wang-Landau run that starts from zero, and the evaluations it took."""
    # So many nats have to be bridged; T steps of 1 / (1 + t / decay) take decay log(1 + T / decay).
    apart, steps = float((evidences - evidences.min()).sum()), options.steps
    decays = [100.0 * 2**i for i in range(12) if 100.0 * 2**i < 0.5 * steps]
    able = [decay for decay in decays if decay * np.log1p(steps / decay) > 1.2 * apart]
    if not able:
        say(f"{apart:,.0f} nats to bridge: too many for {steps:,} steps of Wang-Landau from zero.")
        return None
    trace = sm.sample(
        model, sampler.tilted(decay=able[0]), draws=1, warmup=steps, chains=1,
        seed=options.seed + 1, start=[sampler.start],
    )  # fmt: skip
    history = trace.model_probabilities("q", labels=list(model.orders)).history
    history.attrs["decay"] = able[0]
    return history


if __name__ == "__main__":
    main()
