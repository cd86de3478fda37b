"""Logistic regression on 200,000 rows: where a raced Metropolis step is cheap, and where it is not.

Far from the mode a proposal is plainly better or worse, and a small part of the data tells. At the
mode, a step of the posterior's size changes the log posterior by a nat or two, which no subsample
resolves: the race notices, goes back to the exact sums, and costs what sm.Exact() does. Steps far
too large are cheap again, for they are hopeless. So racing alone shortens the burn-in, no more.
"""

import numpy as np

import subsample_mcmc as sm

SIZE, TRUE = 200_000, np.array([-1.0, 0.5, 0.25])


def log_likelihood(state, data, n):
    # Rows of x have been multiplied by y = 1 or -1.
    eta = state.beta[0] * data.x0[n] + state.beta[1] * data.x1[n] + state.beta[2] * data.x2[n]
    return -sm.log1p(sm.exp(-eta))


def newton(x):
    """The mode, and standard deviations by the curvature there."""
    beta = np.zeros(3)
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(x @ beta))
        covariance = np.linalg.inv((x * (p * (1.0 - p))[:, None]).T @ x)
        beta += covariance @ (x.T @ p)
    return beta, np.sqrt(np.diag(covariance))


rng = np.random.default_rng(1)
x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, 2))])
x *= np.where(rng.random(SIZE) < 1.0 / (1.0 + np.exp(-x @ TRUE)), 1.0, -1.0)[:, None]
mode, sd = newton(x)
# One array per column: data.x[n, j] does not compile to vector instructions, and is far slower.
columns = {f"x{j}": np.ascontiguousarray(x[:, j]) for j in range(3)}
model = sm.Model(log_likelihood, columns, {"beta": np.zeros(3)})


def run(selector, scale, start, **options):
    kernel = sm.Metropolis("beta", scale, selector=selector, adapt="warmup" in options)
    options = {"draws": 100, "warmup": 0, "chains": 2, "seed": 2, "progress": False} | options
    trace = sm.sample(model, kernel, start=[{"beta": start}] * 2, **options)
    total = {name: values.sum() for name, values in trace.stats["beta"].items()}
    return trace, total["accepted"] / total["steps"], total["pulls"] / total["everything"]


race = sm.Racing(delta=0.01)
print("start      step, in posterior sd   accepted   share read   ms per step: race   exact")
for place, start in (("far away", mode + 1.0), ("mode", mode)):
    for step in (0.3, 1.0, 10.0, 100.0):
        trace, accepted, share = run(race, step * sd, start)
        ms = [1000 * t.seconds.mean() / 100 for t in (trace, run(sm.Exact(), step * sd, start)[0])]
        print(f"{place:11}{step:21}{accepted:11.1%}{share:13.1%}{ms[0]:20.2f}{ms[1]:8.2f}")

trace, accepted, share = run(race, 0.01, mode + 0.1, warmup=500, draws=1000)
print(f"\nrace, adapted: accepted {accepted:.1%}, read {share:.1%}")
print("           truth     mode, sd       draws: mean, sd")
for j, found in enumerate(trace.draws["beta"].reshape(-1, 3).T):
    print(f"beta[{j}]{TRUE[j]:9.2f}{mode[j]:9.3f}, {sd[j]:.4f}", end="")
    print(f"{found.mean():14.3f}, {found.std():.4f}")
