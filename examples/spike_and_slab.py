"""Which of thirty columns matter: spike and slab in a logistic regression of 200,000 rows.

    python examples/spike_and_slab.py [--rows 200000] [--columns 30] [--draws 20000] [--quick]

A coefficient is 0 with probability .8, else normal with standard deviation .5; gamma[j] says which.
The likelihood reads the coefficients alone, so one fit and one control variate serve all 2^30
choices of columns, and nearly all decisions read no row. Two coefficients are small enough to be in
doubt. Beside it, a chain that decides by all rows, on few draws; of more than a hundred columns,
where these would take hours, none.

Of many columns the bounds of that control variate say little. Then the predictors of all rows are
kept, and a decision is about one column: `--columns 1000 --draws 200`, 67,000 indicators a second
on a busy machine, after two minutes of CPU time for fit and sums.
"""

import argparse
import math
import time

import numpy as np

import subsample_mcmc as sm

TRUE = (0.3, -0.2, 0.1, 0.02, 0.01)  # the other coefficients are 0
PROBABILITY, SLAB = 0.2, 0.5
MANY = 100  # columns, beyond which nothing is decided by all rows
ON = math.log(PROBABILITY) - 0.5 * math.log(2.0 * math.pi * SLAB**2)
OFF = math.log(1.0 - PROBABILITY)


def log_prior(state):
    total = 0.0
    for j in range(len(state.beta)):
        if state.gamma[j] == 1:
            z = state.beta[j] / SLAB
            total += ON - 0.5 * z * z
        else:
            total += OFF
    return total


def simulated(rows, columns):
    rng = np.random.default_rng(0)
    x, beta = rng.standard_normal((rows, columns)), np.zeros(columns)
    beta[: len(TRUE)] = TRUE
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-x @ beta))).astype(float)
    given = sm.models.glm.logistic(x, y)
    return sm.Model(
        given.predictors, given.data, {"gamma": np.ones(columns, int), "beta": np.zeros(columns)},
        log_prior, support={"gamma": 2},
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="fewer rows and draws")
    given = parser.parse_args()
    rows, columns, draws, beside = given.rows, given.columns, given.draws, 200
    if given.quick:
        rows, columns, draws, beside = 10_000, 8, 2_000, 200
    model = simulated(rows, columns)
    fit = sm.laplace(model, "beta")  # of all columns
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit))
    print(kernel.describe(model))
    options = {"chains": 1, "seed": 1, "progress": False}
    sm.sample(model, kernel, draws=2, warmup=0, **options)  # compiled, and its sums made
    start = time.perf_counter()
    trace = sm.sample(model, kernel, draws=draws, warmup=100, **options)
    took = time.perf_counter() - start
    every = sm.SpikeAndSlab("beta", "gamma", fit, selector=sm.Exact())
    flips = columns * (draws + 100)
    print(f"\n{draws:,} sweeps over {columns} columns, {rows:,} rows: {took:.2f} s,")
    print(f"{flips / took:,.0f} indicators a second", end="")
    shares = np.full(columns, np.nan)
    if columns <= MANY:
        start = time.perf_counter()
        plain = sm.sample(model, every, draws=beside, warmup=10, **options)
        slow = time.perf_counter() - start
        print(f"; by all rows {columns * (beside + 10) / slow:,.0f}", end="")
        shares = plain.draws["gamma"][0].mean(axis=0)
    print("\n")
    gamma, beta = trace.draws["gamma"][0], trace.draws["beta"][0]
    print("column  truth  in the model  by all rows    mean if in")
    for j in range(min(columns, 10)):
        on = gamma[:, j] == 1
        mean = f"{beta[on, j].mean():10.4f}" if on.any() else f"{'-':>10s}"
        true = TRUE[j] if j < len(TRUE) else 0.0
        other = f"{shares[j]:.3f}" if columns <= MANY else "-"
        print(f"{j:6d} {true:6.2f} {on.mean():13.3f} {other:>12s} {mean:>13s}")


if __name__ == "__main__":
    main()
