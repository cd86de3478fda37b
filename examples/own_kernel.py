"""A kernel of your own in ten lines: an exact draw of a mean, beside Metropolis for the scale.

Given sigma, the mean of a Gaussian is Gaussian and needs two numbers, the count and the sum of the
data: its kernel reads no data, where a random walk reads everything to accept or reject. Here that
costs a draw no less, for once mu has moved, exact Metropolis for sigma cannot use the sum that it
remembers, and reads the data twice; but a draw of mu is worth four. `stats` names what the function
returns: here, how far the mean moved. Nothing checks a kernel of your own but a comparison such as
this one, with a chain that does without.
"""

import numpy as np

import subsample_mcmc as sm

SIZE, SPREAD = 2_000, 10.0  # of the data; of the prior of mu


def log_likelihood(state, data, n):
    miss = (data.y[n] - state.mu[0]) / state.sigma[0]
    return -0.5 * miss * miss - sm.log(state.sigma[0])


def log_prior(state):
    return -0.5 * (state.mu[0] / SPREAD) ** 2 - state.sigma[0]


@sm.kernel(writes="mu", stats="moved")
def conjugate(rng, state, data):
    precision = 1.0 / SPREAD**2 + SIZE / state.sigma[0] ** 2
    mean = data.total / state.sigma[0] ** 2 / precision
    old = state.mu[0]
    state.mu[0] = mean + rng.standard_normal() / precision**0.5
    return (abs(state.mu[0] - old) * precision**0.5,)


y = np.random.default_rng(1).normal(0.7, 2.0, SIZE)
data, constraints = {"y": y, "total": y.sum()}, {"sigma": sm.positive}
model = sm.Model(log_likelihood, data, {"mu": 0.0, "sigma": 1.0}, log_prior, None, constraints)
sigma = sm.Metropolis("sigma", selector=sm.Exact())
walk = sm.Metropolis("mu", selector=sm.Exact())
print(f"the data: mean {y.mean():.3f} ± {y.std() / SIZE**0.5:.3f}, sd {y.std():.3f}\n")
print("mu moved by           mu     sd    ESS        sigma     sd    ESS    rewards per draw")
for name, kernel in (("own kernel", conjugate >> sigma), ("Metropolis", walk >> sigma)):
    trace = sm.sample(model, kernel, draws=5000, chains=2, seed=2, progress=False)
    print(f"{name:11}", end="")
    for block in ("mu", "sigma"):
        found = trace.draws[block]
        print(f"{found.mean():13.3f}{found.std():7.3f}{trace.mixing(block).ess:7.0f}", end="")
    print(f"{sum(s['pulls'].mean() for s in trace.stats.values() if 'pulls' in s):20,.0f}")
    if "conjugate" in trace.stats:
        moved = trace.stats["conjugate"]["moved"].mean()
expected = 2.0 / np.pi**0.5  # E |a - b| of two independent standard normals
print(f"\nmoves of the own kernel: {moved:.3f} sd; of independent draws: {expected:.3f}")
