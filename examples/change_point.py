"""A change point among 20,000 counts: every position at the price of two passes over the data.

Counts are Poisson with one rate before tau and another from it on. Neighbouring positions differ
in one datum, so `cumulative=True` draws tau among all N + 1 exactly, reading 2 N rewards, not N^2.

A race does not need that order, and its candidates may be anything. Here they are 21 positions a
thousand data apart, and it reads a part of the data, yet more than the cumulative sums did for all
20,001: where the order is known, use it. The rates have Exponential(1) priors and can be integrated
out, which gives the exact posterior beside both.
"""

import numpy as np
from scipy.special import gammaln, softmax

import subsample_mcmc as sm

SIZE, COARSE, CHANGE, RATES = 20_000, 1_000, 13_100, (3.0, 4.0)


def log_likelihood(state, data, n):
    rate = state.rate[0] if n < state.tau[0] * data.step else state.rate[1]
    return data.y[n] * sm.log(rate) - rate


def log_prior(state):
    return -state.rate[0] - state.rate[1]


def enumerated(y, positions):
    """Posterior of the position, rates integrated out: each side is Gamma(1 + sum, 1 + count)."""
    before = np.concatenate([[0], np.cumsum(y)])[positions]
    log_p = np.zeros(len(positions))
    for total, count in ((before, positions), (y.sum() - before, SIZE - positions)):
        log_p += gammaln(1.0 + total) - (1.0 + total) * np.log(1.0 + count)
    return softmax(log_p)


rng = np.random.default_rng(1)
y = rng.poisson(np.where(np.arange(SIZE) < CHANGE, *RATES)).astype(float)
rates = sm.Metropolis("rate", selector=sm.Exact())
print("support  tau by         rewards read   of all   mean of tau     sd   total variation")
for step, kernel in ((1, sm.Gibbs("tau", cumulative=True)), (COARSE, sm.Gibbs("tau"))):
    positions = np.arange(0, SIZE + 1, step)
    model = sm.Model(
        log_likelihood, {"y": y, "step": step}, {"tau": 3, "rate": np.array([2.0, 5.0])}, log_prior,
        support={"tau": len(positions)}, constraints={"rate": sm.positive},
    )  # fmt: skip
    options = {"draws": 1000, "warmup": 300, "chains": 2, "seed": 2, "progress": False}
    trace = sm.sample(model, kernel >> rates, **options)
    tau, stats = trace.draws["tau"], trace.stats["tau"]
    exact = enumerated(y, positions)
    mean = exact @ positions
    sd = np.sqrt(exact @ (positions - mean) ** 2)
    distance = 0.5 * np.abs(np.bincount(tau.ravel(), minlength=len(exact)) / tau.size - exact).sum()
    share = stats["pulls"].sum() / stats["everything"].sum()
    name = "cumulative sum" if kernel.cumulative else "race"
    print(f"{len(positions):7,}  {name:15}{stats['pulls'].mean():12,.0f}{share:9.2%}", end="")
    print(f"{positions[tau].mean():14.1f}{positions[tau].std():7.1f}{distance:18.3f}")
    print(f"{'':9}{'enumeration':36}{mean:14.1f}{sd:7.1f}")
