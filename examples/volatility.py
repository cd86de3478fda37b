"""Stochastic volatility: a log variance for each day, which goes from one day to the next.

    python examples/volatility.py [--days 1500] [--draws 10000] [--quick]

y[t] is normal with log variance h[t]; h[t] is mu + phi (h[t - 1] - mu), and a normal step with the
scale sigma. Each day has one datum, which says little of its h, and h of neighbouring days are
nearly the same: sites that move one by one hold each other. sm.windows moves days together, in
windows of all widths, and sigma with what lies between some of them; the report says what that is
worth. Truth is printed beside it.
"""

import argparse
import time

import numpy as np

import subsample_mcmc as sm

MU, PHI, SIGMA = -9.0, 0.97, 0.2  # what y is drawn with: .011 is a usual size of y


def log_likelihood(state, data, n):
    h = state.h[data.day[n]]
    return -0.5 * (h + data.y[n] * data.y[n] * sm.exp(-h))


def of_day(state, t):
    """h of a day given the day before; of the first, its law in the long run."""
    phi, sigma = state.phi[0], state.sigma[0]
    away = state.h[t] - state.mu[0]
    if t == 0:
        sigma /= (1.0 - phi * phi) ** 0.5
    else:
        away -= phi * (state.h[t - 1] - state.mu[0])
    return -0.5 * (away / sigma) ** 2 - sm.log(sigma)


def log_prior(state):
    """mu is normal, (1 + phi) / 2 beta(20, 1.5), sigma exponential: those of Kim et al. (1998)."""
    phi = 0.5 * (1.0 + state.phi[0])
    return (
        -0.5 * ((state.mu[0] + 9.0) / 3.0) ** 2
        + 19.0 * sm.log(phi) + 0.5 * sm.log(1.0 - phi) - 5.0 * state.sigma[0]
    )  # fmt: skip


def simulated(days):
    """A model, and the log variances that its data were drawn with."""
    rng = np.random.default_rng(0)
    h = np.full(days, MU)
    for t in range(1, days):
        h[t] = MU + PHI * (h[t - 1] - MU) + SIGMA * rng.standard_normal()
    y = np.exp(0.5 * h) * rng.standard_normal(days)
    model = sm.Model(
        log_likelihood, {"y": y, "day": np.arange(days)},
        {"h": np.full(days, -9.0), "mu": -9.0, "phi": 0.9, "sigma": 0.3}, log_prior,
        constraints={"phi": sm.interval(-1.0, 1.0), "sigma": sm.positive},
        touches={"h": "day"}, site_prior={"h": of_day},
    )  # fmt: skip
    return model, h


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=1_500)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="fewer days and draws")
    given = parser.parse_args()
    days, draws = (200, 400) if given.quick else (given.days, given.draws)
    model, truth = simulated(days)
    common = sm.Metropolis(("mu", "phi", "sigma"), proposal=sm.pcn())
    kernel = (
        sm.windows("h", scale="sigma") >> sm.repeat(common, 5) >> sm.interweave("h", location="mu")
    )
    print(kernel.describe(model))
    start = time.perf_counter()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, chains=2, seed=1)
    print(trace.report())
    print(trace.summary(["mu", "phi", "sigma"]).round(3))
    h = trace.draws["h"]
    low, high = np.quantile(h, [0.05, 0.95], axis=(0, 1))
    print(f"truth: mu {MU}, phi {PHI}, sigma {SIGMA}")
    print(
        f"{np.mean((low < truth) & (truth < high)):.0%} of {days:,} log variances lie in their 90% "
        f"intervals; their means miss by {np.sqrt(np.mean((h.mean(axis=(0, 1)) - truth) ** 2)):.2f}"
        f", mu alone by {np.std(truth):.2f} (root mean square)"
    )
    print(f"{days:,} days, {draws:,} draws of two chains: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
