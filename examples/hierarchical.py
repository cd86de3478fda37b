"""Varying intercepts: counts in groups, whose intercepts have a mean and a scale of their own.

    python examples/hierarchical.py [--rows 300000] [--groups 500] [--quick]

y[n] is Poisson with log rate a[group[n]] + slope x[n]; a[g] is normal around mu with scale tau. The
column `group` says which intercept a datum sees: a sweep over all of them reads every datum twice,
however many there are. mu and tau are seen by no datum, and read none. Truth is printed beside it.
"""

import argparse
import time

import numpy as np

import subsample_mcmc as sm

MU, TAU, SLOPE = 0.5, 0.6, 0.3  # what y is drawn with


def log_likelihood(state, data, n):
    eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def log_prior(state):  # normal, and half-normal
    return -0.5 * (state.mu[0] ** 2 / 4.0 + state.tau[0] ** 2 + state.slope[0] ** 2)


def of_intercept(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def simulated(rows, groups):
    """A model, and the intercepts that its data were drawn with."""
    rng = np.random.default_rng(0)
    group = np.sort(rng.integers(groups, size=rows))  # in order, a group is read in one piece
    x = rng.standard_normal(rows)
    a = MU + TAU * rng.standard_normal(groups)
    y = rng.poisson(np.exp(a[group] + SLOPE * x)).astype(float)
    model = sm.Model(
        log_likelihood, {"y": y, "x": x, "group": group},
        {"a": np.zeros(groups), "slope": 0.0, "mu": 0.0, "tau": 1.0}, log_prior,
        constraints={"tau": sm.positive}, touches={"a": "group"},
        site_prior={"a": of_intercept},
    )  # fmt: skip
    return model, a


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="fewer data and draws")
    given = parser.parse_args()
    rows, groups, draws = given.rows, given.groups, 1_000
    if given.quick:
        rows, groups, draws = 10_000, 40, 500
    model, truth = simulated(rows, groups)
    # mu and tau cost next to nothing: five moves of them for one of all else.
    kernel = sm.cycle(
        sm.Metropolis("a"),
        sm.Metropolis("slope", selector=sm.Exact()),
        sm.repeat(sm.Metropolis(("mu", "tau")), 5),
    )
    print(kernel.describe(model))
    start = time.perf_counter()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws, chains=2, seed=1, progress=False)
    took = time.perf_counter() - start
    print(f"\n{rows:,} rows, {groups:,} groups: {took:.1f} s\n")
    print("parameter  truth    mean      sd   ESS")
    for name, true in (("mu", MU), ("tau", TAU), ("slope", SLOPE)):
        values = trace.draws[name]
        ess = trace.mixing(name).ess
        print(f"{name:9s} {true:6.3f}  {values.mean():6.3f}  {values.std():6.4f} {ess:5,.0f}")
    a = trace.draws["a"].reshape(-1, groups)
    off = (a.mean(axis=0) - truth) / a.std(axis=0)
    print(f"\nintercepts: the truth lies {off.std():.2f} posterior sds off (expected: 1)")
    print(f"the slowest of them has {trace.mixing('a').ess:,.0f} effective draws")


if __name__ == "__main__":
    main()
