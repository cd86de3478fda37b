"""Exact decisions with few rows beside races: what a chain's effective draws cost.

    python -m tests.benchmarks.exact [--only walk | pcn | order | draw]
    python -m tests.benchmarks.exact --peers [--task "N=1e+06"] [--seconds 10] [--pymhss PYTHON]

Logistic regressions, one chain, one thread, all selectors in the same run. Effective draws are
those of the worst coefficient, per second of the whole call; rows are those read a decision.
`order`: the same for sm.Thinned at orders 2 and 3, with the seconds that fitting sums takes.
`--peers`: exact minibatch methods of others beside ours (tests/benchmarks/peers).
Then draws of one of ten locations within a few nats of each other: what a draw more costs.
"""

import argparse
import time
from typing import Any

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz
import numpy as np

import subsample_mcmc as sm
from tests.benchmarks.peers import run as peers
from tests.benchmarks.report import table

SELECTORS = {
    "Normal": sm.Racing(delta=0.01), "Betting": sm.Racing(sm.Betting(), delta=0.01),
    "Thinned": sm.Thinned(), "Exact": sm.Exact(),
}  # fmt: skip
TASKS = [  # proposal, rows, coefficients, order
    ("walk", 100_000, 10, 3), ("walk", 1_000_000, 10, 3), ("walk", 1_000_000, 10, 2),
    ("pcn", 100_000, 10, 3), ("pcn", 100_000, 20, 3), ("pcn", 100_000, 20, 2),
]  # fmt: skip
ORDERS = [  # rows, coefficients
    (10_000, 10), (10_000, 40), (10_000, 80), (100_000, 20), (100_000, 40), (100_000, 60),
    (100_000, 80), (100_000, 100), (1_000_000, 20), (1_000_000, 40),
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


def eta(state, data, n):
    return state.mu[0] + data.step[n] * state.k[0]


def log_factor(e, data, n):
    z = e - data.y[n]
    return z - 2.0 * sm.log1p(sm.exp(z))


def derivatives(e, data, n):
    p = 1.0 / (1.0 + sm.exp(data.y[n] - e))
    w = 2.0 * p * (1.0 - p)
    return 1.0 - 2.0 * p, -w, -w * (1.0 - 2.0 * p)


def remainder(e, data, n):
    return 0.2, 0.25  # twice those of the logistic log likelihood


def draws_of_locations(size: int, order: int, arms: int = 10, count: int = 3_000) -> list[dict]:
    """A row for each selector: microseconds of one draw of so many arms, rows it read."""
    y = np.random.default_rng(0).logistic(size=size)
    step = np.full(size, 0.5 * np.sqrt(3.0 / size))
    parts = sm.Predictors(eta, log_factor, derivatives, remainder)
    start = {"k": arms // 2, "mu": -0.5 * (arms - 1) * step[0]}
    model = sm.Model(parts, {"y": y, "step": step}, start, support={"k": arms})
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=order)
    found: list[dict[str, Any]] = []
    moves = sm.Metropolis("mu", proposal=sm.pcn(fit, beta=0.9), control=control)
    for name, selector in SELECTORS.items():
        draw = sm.Gibbs("k", selector, control=control)
        taken: dict[int, list[float]] = {}
        for times in (10, 60, 10, 60, 10, 60):
            kernel = sm.repeat(draw, times) >> moves
            trace = sm.sample(
                model,
                kernel,
                draws=count // (20 if name == "Exact" else 1),
                warmup=0,
                chains=1,
                seed=2,
                progress=False,
            )
            seconds = 1e6 * float(trace.seconds.sum()) / len(trace.draws["k"][0])
            taken.setdefault(times, []).append(seconds)
        told = trace.stats["k"]
        found.append({
            "N": size, "order": order, "selector": name,
            "us a draw": (np.median(taken[60]) - np.median(taken[10])) / 50.0,
            "evaluations": told["pulls"].sum() / told["decisions"].sum(),
            "no data": told["predicted"].sum() / told["decisions"].sum(),
        })  # fmt: skip
    return found


def chain(model, kernel, draws: int, fit):
    """(seconds, trace) of a call."""
    begun = time.perf_counter()
    trace = sm.sample(
        model, kernel, draws=draws, warmup=0, chains=1, seed=2, start=[fit.state], progress=False
    )
    return time.perf_counter() - begun, trace


def effective(model, fit, kernel, pilot: int = PILOT) -> dict:
    """What a chain costs, after what is compiled and prepared: so many draws say how many fit."""
    prepared, _ = chain(model, kernel, 10, fit)
    spent, _ = chain(model, kernel, pilot, fit)
    draws = int(np.clip(SECONDS / spent * pilot, 200, 400_000))
    spent, trace = chain(model, kernel, draws, fit)
    told, beta = trace.stats["beta"], np.asarray(trace.draws["beta"])
    least = min(float(arviz.ess(beta[:, :, j])) for j in range(beta.shape[-1]))
    return {
        "first call, s": prepared, "us a draw": 1e6 * spent / draws,
        "rows": float(np.mean(told["pulls"])) / 2.0,
        "L, mean": float(np.mean(told["bound"])) if "bound" in told else float("nan"),
        "accepted": float(np.mean(told["accepted"])), "ESS/s": least / spent,
    }  # fmt: skip


def measured(proposal: str, size: int, d: int, order: int) -> list[dict]:
    """A row for each selector."""
    model, fit = regression(size, d)
    found: list[dict] = []
    for name, selector in SELECTORS.items():
        kernel = kernel_of(proposal, fit, order, selector)
        pilot = PILOT // (20 if name == "Exact" else 1)
        found.append({"selector": name} | effective(model, fit, kernel, pilot))
    first = found[0]["ESS/s"]
    return [row | {"over Normal": row["ESS/s"] / first} for row in found]


def of_orders(size: int, d: int) -> list[dict]:
    """A row for each proposal and order, of thinned decisions."""
    model, fit = regression(size, d)
    return [
        {"proposal": proposal, "order": order}
        | effective(model, fit, kernel_of(proposal, fit, order, sm.Thinned()))
        for proposal in ("walk", "pcn") for order in (2, 3)
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="proposals that start like this")
    parser.add_argument("--peers", action="store_true", help="others' methods beside ours")
    parser.add_argument("--task", default="", help="of the peers' tasks, those with this in them")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a peer's chain")
    parser.add_argument("--pymhss", default="", help="a Python that has PyMHSS")
    options = parser.parse_args()
    print(f"{machine.processor()}, {machine.pin()}", flush=True)
    if options.peers:
        peers.main(options.task, options.seconds, options.pymhss)
        return
    tasks = [task for task in TASKS if task[0].startswith(options.only)]
    for task in tasks:
        print(table("{} {:g} d={} order {}".format(*task), measured(*task)), flush=True)
    if "order".startswith(options.only):
        for size, d in ORDERS:
            print(table(f"orders, {size:g} d={d}", of_orders(size, d)), flush=True)
    if "draw".startswith(options.only):
        rows = [row for order in (3, 2) for row in draws_of_locations(100_000, order)]
        print(table("draws of ten locations", rows), flush=True)
        for arms in (100, 1_000):
            rows = draws_of_locations(50_000, 3, arms, count=300)
            print(table(f"draws of {arms} locations", rows), flush=True)


if __name__ == "__main__":
    main()
