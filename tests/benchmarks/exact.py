"""Exact decisions with few rows beside races: what a chain's effective draws cost.

    python -m tests.benchmarks.exact [--only walk]

Logistic regressions, one chain, one thread, all selectors in the same run. Effective draws are
those of the worst coefficient, per second of the whole call; rows are those read a decision.
"""

import argparse
import time

import arviz
import numpy as np

import subsample_mcmc as sm
from tests.benchmarks.report import table

SELECTORS = {
    "Normal": sm.Racing(delta=0.01), "Betting": sm.Racing(sm.Betting(), delta=0.01),
    "Thinned": sm.Thinned(), "Exact": sm.Exact(),
}  # fmt: skip
TASKS = [  # proposal, rows, coefficients, order
    ("walk", 100_000, 10, 3), ("walk", 1_000_000, 10, 3), ("walk", 1_000_000, 10, 2),
    ("pcn", 100_000, 10, 3), ("pcn", 100_000, 20, 3), ("pcn", 100_000, 20, 2),
]  # fmt: skip
PILOT, SECONDS = 1_000, 4.0  # draws, and time that each chain may take


def regression(size: int, d: int):
    """A model, and its fit."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, d - 1))])
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-x @ (0.3 * rng.standard_normal(d))))
    model = sm.models.glm.logistic(x, y.astype(float))
    return model, sm.laplace(model, progress=False)


def kernel_of(proposal: str, fit, order: int, selector):
    """A kernel with Taylor; walks are scaled by the posterior."""
    control = sm.Taylor(fit, order=order)
    if proposal == "pcn":
        return sm.Metropolis("beta", proposal=sm.pcn(fit), selector=selector, control=control)
    scale = 2.4 / np.sqrt(len(fit.mean)) * np.sqrt(np.diag(fit.covariance))
    return sm.Metropolis("beta", scale=scale, adapt=False, selector=selector, control=control)


def chain(model, kernel, draws: int, fit):
    """(seconds, trace) of a call."""
    begun = time.perf_counter()
    trace = sm.sample(
        model, kernel, draws=draws, warmup=0, chains=1, seed=2, start=[fit.state], progress=False
    )
    return time.perf_counter() - begun, trace


def measured(proposal: str, size: int, d: int, order: int) -> list[dict]:
    """A row for each selector."""
    model, fit = regression(size, d)
    found: list[dict] = []
    for name, selector in SELECTORS.items():
        kernel = kernel_of(proposal, fit, order, selector)
        chain(model, kernel, 10, fit)  # compiles, and prepares
        spent, _ = chain(model, kernel, PILOT // (20 if name == "Exact" else 1), fit)
        draws = int(np.clip(SECONDS / spent * PILOT / (20 if name == "Exact" else 1), 200, 400_000))
        spent, trace = chain(model, kernel, draws, fit)
        told, beta = trace.stats["beta"], np.asarray(trace.draws["beta"])
        each = [float(arviz.ess(beta[:, :, j])) for j in range(d)]
        found.append({
            "selector": name,
            "us a draw": 1e6 * spent / draws, "rows": float(np.mean(told["pulls"])) / 2.0,
            "accepted": float(np.mean(told["accepted"])), "ESS/s": min(each) / spent,
        })  # fmt: skip
    first = found[0]["ESS/s"]
    return [row | {"over Normal": row["ESS/s"] / first} for row in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="proposals that start like this")
    options = parser.parse_args()
    tasks = [task for task in TASKS if task[0].startswith(options.only)]
    for task in tasks:
        print(table("{} {:g} d={} order {}".format(*task), measured(*task)), flush=True)


if __name__ == "__main__":
    main()
