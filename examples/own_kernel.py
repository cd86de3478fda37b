"""A kernel of your own in a dozen lines: an exact draw of a mean, beside Metropolis for the scale.

Given sigma, the mean of a Gaussian is Gaussian and needs two numbers, the count and the sum of the
data. So its kernel reads no data at all; a random walk proposes, and reads everything twice to
accept. `stats` names what the function returns: here, how far the mean moved, in standard errors.
Nothing checks a kernel of your own but a comparison such as this one, with a chain that has none.
"""

import numpy as np

import subsample_mcmc as sm

SIZE, CENTRE, SPREAD = 2_000, 0.0, 10.0  # of the data; of the prior of mu


def log_likelihood(state, data, n):
    miss = (data.y[n] - state.mu[0]) / state.sigma[0]
    return -0.5 * miss * miss - sm.log(state.sigma[0])


def log_prior(state):
    return -0.5 * ((state.mu[0] - CENTRE) / SPREAD) ** 2 - state.sigma[0]


@sm.kernel(writes="mu", stats="moved")
def conjugate(rng, state, data):
    precision = 1.0 / SPREAD**2 + SIZE / state.sigma[0] ** 2
    mean = (CENTRE / SPREAD**2 + data.total / state.sigma[0] ** 2) / precision
    old = state.mu[0]
    state.mu[0] = mean + rng.standard_normal() / precision**0.5
    return (abs(state.mu[0] - old) * precision**0.5,)


y = np.random.default_rng(1).normal(0.7, 2.0, SIZE)
model = sm.Model(
    log_likelihood, {"y": y, "total": y.sum()}, {"mu": 0.0, "sigma": 1.0}, log_prior,
    constraints={"sigma": sm.positive},
)  # fmt: skip
sigma = sm.Metropolis("sigma", selector=sm.Exact())
walk = sm.Metropolis("mu", selector=sm.Exact())
print("mu moved by            mu    sd     ESS         sigma    sd     ESS   rewards per draw")
for name, kernel in (("own kernel", conjugate >> sigma), ("Metropolis", walk >> sigma)):
    trace = sm.sample(model, kernel, draws=5000, chains=2, seed=2, progress=False)
    print(f"{name:14}", end="")
    for block in ("mu", "sigma"):
        found = trace.draws[block]
        print(f"{found.mean():11.3f} {found.std():.3f} {trace.mixing(block).ess:7.0f}", end="   ")
    print(f"{sum(s['pulls'].mean() for s in trace.stats.values() if 'pulls' in s):16,.0f}")
    if name == "own kernel":
        moved = trace.stats["conjugate"]["moved"].mean()
print(f"\nan own draw moves mu by {moved:.2f} standard errors on average; independent: ", end="")
print(f"{2 / np.pi**0.5:.2f}")
print(f"the data say {y.mean():.3f} ± {y.std() / SIZE**0.5:.3f}")
