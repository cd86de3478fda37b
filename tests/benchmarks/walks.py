"""Sites in an order: windows of neighbours beside sites one by one, effective draws a CPU second.

    python -m tests.benchmarks.walks [--draws 1000] [--runs 3]

A level that walks over 1,000 days with 3 rows each (logistic), over 300 days with 20, and the log
variances of 1,000 days. Medians over runs of other seeds, of one chain: of the slowest of 50 sites,
and of the slowest of what they have in common; the time of whole calls of sm.sample, compiled.
"""

import argparse
import time

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz as az
import numpy as np

import subsample_mcmc as sm
from examples import volatility


def log_likelihood(state, data, n):
    a = state.a[data.day[n]]
    return data.y[n] * a - sm.log1p(sm.exp(a))


def of_day(state, i):
    if i == 0:
        return -0.5 * state.a[0] ** 2
    z = (state.a[i] - state.a[i - 1]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def walk(days, rows):
    """A logistic model of a level that walks, its sites and what they have in common."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(days), rows)
    level = 0.2 * rng.standard_normal(days).cumsum()
    y = (rng.random(len(day)) < 1.0 / (1.0 + np.exp(-level[day]))).astype(float)
    model = sm.Model(
        log_likelihood, {"y": y, "day": day}, {"a": np.zeros(days), "tau": 0.3},
        lambda state: -state.tau[0], constraints={"tau": sm.positive}, touches={"a": "day"},
        site_prior={"a": of_day},
    )  # fmt: skip
    return model, "a", ("tau",)


def measured(model, kernel, sites, common, draws, seed):
    """(effective draws a CPU second of the slowest site, and of the slowest common number)."""
    given = {"chains": 1, "progress": False}
    sm.sample(model, kernel, draws=2, warmup=2, **given)  # compiles
    begun = time.process_time()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, seed=seed, **given)
    spent = time.process_time() - begun
    a = trace.draws[sites][:, :, :: max(1, trace.draws[sites].shape[2] // 50)]
    slowest = min(float(az.ess(np.ascontiguousarray(a[:, :, i]))) for i in range(a.shape[2]))
    others = min(float(az.ess(trace.draws[name].reshape(1, -1))) for name in common)
    return slowest / spent, others / spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{machine.processor()}, {machine.pin()}", flush=True)
    volatile = volatility.simulated(1_000)[0], "h", ("mu", "phi", "sigma")
    cases = {
        "1,000 days, 3 rows each": walk(1_000, 3), "300 days, 20 rows each": walk(300, 20),
        "log variances of 1,000 days": volatile,
    }  # fmt: skip
    print(f"{'':30}{'kernel':20}{'slowest site':>14}{'common':>10}   effective draws a CPU second")
    for case, (model, sites, common) in cases.items():
        scale = common[-1]
        beside = sm.repeat(sm.Metropolis(common, proposal=sm.pcn()), 5)
        if len(common) > 1:
            beside = beside >> sm.interweave(sites, location="mu")
        kernels = {
            "site by site": sm.Metropolis(sites) >> beside,
            "windows": sm.windows(sites) >> beside,
            "windows, scale": sm.windows(sites, scale=scale) >> beside,
        }
        for name, kernel in kernels.items():
            found = [
                measured(model, kernel, sites, common, given.draws, seed + 1)
                for seed in range(given.runs)
            ]
            slowest, others = np.median(found, axis=0)
            print(f"{case:30}{name:20}{slowest:14.3g}{others:10.3g}", flush=True)


if __name__ == "__main__":
    main()
