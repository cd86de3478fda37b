"""Spike and slab in logistic regressions: decisions a CPU second, by columns and rows.

    python -m tests.benchmarks.spikes [--columns 200] [--rows 20000] [--draws 100] [--single]

Columns are standard normal, five of them matter, and ten are expected to be in the model. --single:
in single precision, half the memory.
"""

import argparse
import math
import resource
import time

import numpy as np

import subsample_mcmc as sm

TRUE, SLAB = (0.3, -0.2, 0.1, 0.04, 0.02), 0.5


def prior_of(columns):
    chance = min(0.2, 10.0 / columns)
    inside = math.log(chance) - 0.5 * math.log(2.0 * math.pi * SLAB**2)
    outside = math.log(1.0 - chance)

    def log_prior(state):
        total = 0.0
        for j in range(len(state.beta)):
            if state.gamma[j] == 1:
                z = state.beta[j] / SLAB
                total += inside - 0.5 * z * z
            else:
                total += outside
        return total

    return log_prior


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--single", action="store_true")
    given = parser.parse_args()
    rng, kind = np.random.default_rng(0), np.float32 if given.single else np.float64
    x = rng.standard_normal((given.rows, given.columns), dtype=kind)
    beta = np.zeros(given.columns)
    beta[: len(TRUE)] = TRUE
    y = (rng.random(given.rows) < 1.0 / (1.0 + np.exp(-x @ beta))).astype(float)
    glm = sm.models.glm.logistic(x, y)
    model = sm.Model(
        glm.predictors, glm.data,
        {"gamma": np.ones(given.columns, int), "beta": np.zeros(given.columns)},
        prior_of(given.columns), support={"gamma": 2},
    )  # fmt: skip
    begin = time.process_time()
    fit = sm.laplace(model, "beta", progress=False)
    print(f"fit: {time.process_time() - begin:.1f} CPU s")
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit))
    options = {"chains": 1, "seed": 1, "progress": False}
    begin = time.process_time()
    sm.sample(model, kernel, draws=1, warmup=0, **options)
    print(f"passes over the data, and the first draw: {time.process_time() - begin:.1f} CPU s")
    begin = time.process_time()
    trace = sm.sample(model, kernel, draws=given.draws, warmup=10, **options)
    took = time.process_time() - begin
    stats = trace.stats["beta+gamma"]
    made, read = stats["decisions"].sum(), stats["pulls"].sum()
    each = made / given.draws
    print(
        f"{each * (given.draws + 10) / took:,.0f} decisions a CPU second; of {made:,} "
        f"{stats['predicted'].sum() / made:.1%} read no row, {stats['exact'].sum() / made:.1%} "
        f"one column of all, the mean {read / made:,.0f} residuals\n"
        f"{trace.draws['gamma'].sum(axis=-1).mean():.1f} columns in the model; "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB"
    )


if __name__ == "__main__":
    main()
