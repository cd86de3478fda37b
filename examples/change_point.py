"""A change point among 20,000 counts: every position at the price of two passes over the data.

Counts are Poisson with one rate before tau and another from it on. Neighbouring positions differ
in one datum, so `cumulative=True` draws tau among all N + 1 exactly, reading 2 N rewards, not N^2.

A race knows nothing of that order. On a coarse support, 21 positions a thousand data apart, it
finds the best one from a part of the data, and cumulative sums are no use there. The rates have
Gamma(1, 1) priors and can be integrated out: that gives the exact posterior beside both.
"""

import numpy as np
from scipy.special import gammaln

import subsample_mcmc as sm

SIZE, COARSE, CHANGE, RATES = 20_000, 1_000, 13_000, (3.0, 3.6)


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
    return np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()


rng = np.random.default_rng(1)
y = rng.poisson(np.where(np.arange(SIZE) < CHANGE, *RATES)).astype(float)
rates = sm.Metropolis("rate", selector=sm.Exact())
print("support    kernel of tau   share read   mean of tau     sd   total variation")
for step, kernel in ((1, sm.Gibbs("tau", cumulative=True)), (COARSE, sm.Gibbs("tau"))):
    positions = np.arange(0, SIZE + 1, step)
    model = sm.Model(
        log_likelihood, {"y": y, "step": step}, {"tau": 3, "rate": np.array([2.0, 5.0])}, log_prior,
        support={"tau": len(positions)}, constraints={"rate": sm.positive},
    )  # fmt: skip
    trace = sm.sample(model, kernel >> rates, draws=2000, chains=2, seed=2, progress=False)
    tau, stats = trace.draws["tau"], trace.stats["tau"]
    visited = np.bincount(tau.ravel(), minlength=len(positions)) / tau.size
    exact = enumerated(y, positions)
    where = positions[tau]
    share = stats["pulls"].sum() / stats["everything"].sum()
    name = "cumulative" if kernel.cumulative else "race"
    distance = 0.5 * np.abs(visited - exact).sum()
    print(f"{len(positions):7,}    {name:13}{share:13.2%}", end="")
    print(f"{where.mean():14.1f}{where.std():7.1f}{distance:18.3f}")
    mean = exact @ positions
    print(f"{'':11}{'enumerated':26}{mean:14.1f}{np.sqrt(exact @ (positions - mean) ** 2):7.1f}")
