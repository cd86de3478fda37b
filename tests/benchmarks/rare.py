"""Data in which few rows decide: are raced decisions wrong more often than delta, and at what cost.

    python -m tests.benchmarks.rare                      every data set, delta .05, .01 and .001
    python -m tests.benchmarks.rare --only 3 17 --delta .001 --steps 3000
    python -m tests.benchmarks.rare --beside             and sm.Betting, and sm.Thinned
    python -m tests.benchmarks.rare --json rare.jsonl    one line per cell, appended

Levels of 3 to 300 rows among 10^4 to 10^6, separated or not, one or many of them; columns with a
few huge values; GLMs with proved bounds, and plain likelihoods without. Each chain has the default
control variate, and every decision is made again exactly (a part of them where N is 10^6). `over`
is the chance of as many wrong decisions if the rate were delta: below 1e-4 the promise is broken.
`mean` and `sd` compare each coordinate with a chain of sm.Exact(): the largest difference of means
in Monte Carlo errors; the smallest and largest ratio of standard deviations, and (in brackets) how
many of its errors the logarithm of one is off.
"""

import argparse
import json
import time

from tests.benchmarks import machine  # first: it limits the threads of numpy  # noqa: F401

# isort: split
import arviz as az
import numpy as np
from scipy.stats import binom

import subsample_mcmc as sm
from tests.benchmarks.rarecases import CASES, Case, control_of, fit_of, kernel_of, model_of

AUDITED = 4_000_000_000  # evaluations that the audits of a cell may take


# ------------------------------------------------------------------------------------- one cell
def moments(draws) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(mean, standard deviation, effective sample size, error of log sd) of each coordinate."""

    def size(values):
        return np.array([float(az.ess(column[None, :])) for column in values.T])

    square = (draws - draws.mean(axis=0)) ** 2
    variance = square.mean(axis=0)
    error = 0.5 * square.std(axis=0) / np.maximum(variance, 1e-300) / np.sqrt(size(square))
    return draws.mean(axis=0), np.sqrt(variance), size(draws), error


def values_of(case: Case, draws) -> np.ndarray:
    """What is compared, a column each; of several models, which it is and what they share."""
    beta = draws["beta"][0]
    if case.kernel == "pseudo":
        return np.column_stack([draws["q"][0].astype(float), beta[:, :-1]])
    if case.kernel == "gibbs":
        return np.column_stack([draws["k"][0].astype(float), beta])
    return beta


def start_of(fit) -> dict:
    """The mode, of the last model where there are several."""
    return fit[-1].state if isinstance(fit, list) else fit.state


def reference(case: Case, model, fit, control, steps: int):
    """Moments by exact decisions."""
    kernel = kernel_of(case, fit, sm.Exact(), control)
    trace = sm.sample(model, kernel, draws=steps, warmup=steps // 4, chains=1, seed=5,
                      start=start_of(fit), progress=False)  # fmt: skip
    return moments(values_of(case, trace.draws))


def cell(case: Case, model, fit, control, selector, steps: int, exact) -> dict:
    """One chain, audited."""
    delta = getattr(selector, "delta", 0.0)
    kernel = kernel_of(case, fit, selector, control)
    arguments = {"draws": steps, "warmup": steps // 4, "chains": 1, "seed": 7, "progress": False}
    arguments |= {"start": start_of(fit)}
    share = min(1.0, AUDITED / (2.0 * model.size * steps))
    audited = sm.sample(model, kernel, audit=share, **arguments).stats
    start = time.process_time()
    trace = sm.sample(model, kernel, audit=0.0, **arguments)
    seconds = time.process_time() - start
    checked, wrong, regret = (
        sum(float(of[name].sum()) for of in audited.values())
        for name in ("audited", "wrong", "regret")
    )
    mean, sd, ess, error = moments(values_of(case, trace.draws))
    told = {
        "case": case.name, "delta": delta, "checked": int(checked), "wrong": int(wrong),
        "over": float(binom.sf(wrong - 1, checked, delta)),
        # Of a wrong decision; of an exact one, what it costs in acceptance.
        "regret": regret / max(wrong if delta else checked, 1),
        "accepted": float(audited["beta"]["accepted"].mean()),
        "pulls": sum(float(of["pulls"].mean()) for of in audited.values()),
        "ess_s": float(ess.min()) / seconds,
    }  # fmt: skip
    if exact is not None:
        errors = np.sqrt(sd**2 / ess + exact[1] ** 2 / exact[2])
        told["mean"] = float((np.abs(mean - exact[0]) / errors).max())
        told["sd"] = [float((sd / exact[1]).min()), float((sd / exact[1]).max())]
        off = np.abs(np.log(sd / exact[1])) / np.hypot(error, exact[3])
        told["sd_errors"] = float(off.max())
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int, nargs="*", help="numbers of data sets")
    parser.add_argument("--delta", type=float, nargs="*", default=[0.05, 0.01, 0.001])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--beside", action="store_true", help="sm.Betting and sm.Thinned as well")
    parser.add_argument("--no-exact", action="store_true", help="no moments of sm.Exact()")
    parser.add_argument("--json", help="a file to which each cell is appended as a line")
    given = parser.parse_args()
    print(f"{'data':44s} {'delta':>6s} {'wrong':>11s} {'over':>8s} {'regret':>7s} {'acc':>5s} "
          f"{'rows':>8s} {'ESS/s':>8s} {'mean':>5s} sd", flush=True)  # fmt: skip
    for number, case in enumerate(CASES):
        if given.only and number not in given.only:
            continue
        model = model_of(case)
        fit, start = fit_of(case, model), time.process_time()
        control = control_of(case, fit)
        kept = len(control.always_read(model))
        prepared = time.process_time() - start
        exact = None
        if not given.no_exact:
            exact = reference(case, model, fit, control, 2 * given.steps)
        ways = {f"{delta:g}": sm.Racing(delta=delta) for delta in given.delta}
        if given.beside:
            ways |= {"bet": sm.Racing(sm.Betting(), delta=0.01), "thin": sm.Thinned()}
        for way, selector in ways.items():
            try:
                told = cell(case, model, fit, control, selector, given.steps, exact)
            except ValueError as error:
                print(f"{number:2d} {case.name:41s} {way:>6s} refused: {error!s:.60}", flush=True)
                continue
            told |= {"number": number, "outliers": kept, "prepared": prepared, "way": way}
            more = ""
            if exact is not None:
                more = f"{told['mean']:5.1f} {told['sd'][0]:.2f}-{told['sd'][1]:.2f}"
                more += f" ({told['sd_errors']:.1f})"
            flag = "  BROKEN" if told["over"] < 1e-4 else ""
            print(f"{number:2d} {case.name:41s} {way:>6s} {told['wrong']:5d}/{told['checked']:5d} "
                  f"{told['over']:8.1e} {told['regret']:7.2g} {told['accepted']:5.2f} "
                  f"{told['pulls']:8.1f} {told['ess_s']:8.0f} {more} m={kept} "
                  f"{prepared:.1f}s{flag}", flush=True)  # fmt: skip
            if given.json:
                with open(given.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
