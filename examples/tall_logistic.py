"""Logistic regression on 200,000 rows: where a raced Metropolis step is cheap, and where it is not.

A step accepts or rejects, and races for it. Far from the mode a proposal is plainly better or
worse, and a small part of the data tells. Near the mode, steps as small as the posterior change the
log posterior by a nat or two, which no subsample can resolve: the race notices, goes back to the
exact sums, and is then a little slower than sm.Exact(). Steps that are too large are cheap again,
because they are hopeless. So racing shortens the burn-in here, and no more: that is what control
variates are for.
"""

import numpy as np

import subsample_mcmc as sm

SIZE, TRUE = 200_000, np.array([-1.0, 0.5, 0.25])


def log_likelihood(state, data, n):
    """log P(y | x, beta), with data.x already multiplied by 1 or -1 according to y."""
    eta = state.beta[0] * data.x0[n] + state.beta[1] * data.x1[n] + state.beta[2] * data.x2[n]
    return -sm.log1p(sm.exp(-eta))


def newton(x):
    """The mode, and the covariance there."""
    beta = np.zeros(3)
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(x @ beta))
        covariance = np.linalg.inv((x * (p * (1.0 - p))[:, None]).T @ x)
        beta = beta + covariance @ (x.T @ p)
    return beta, covariance


rng = np.random.default_rng(1)
x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, 2))])
x *= np.where(rng.random(SIZE) < 1.0 / (1.0 + np.exp(-x @ TRUE)), 1.0, -1.0)[:, None]
mode, covariance = newton(x)
sd = np.sqrt(np.diag(covariance))
data = {f"x{j}": np.ascontiguousarray(x[:, j]) for j in range(3)}
model = sm.Model(log_likelihood, data, {"beta": np.zeros(3)})
print("                step, in posterior sd   accepted   share read   us per step")
for place, start in (("far away", mode + 1.0), ("at the mode", mode)):
    for step in (0.3, 1.0, 10.0, 100.0):
        for selector in (sm.Racing(delta=0.01), sm.Exact()):
            kernel = sm.Metropolis("beta", scale=step * sd, selector=selector, adapt=False)
            trace = sm.sample(
                model, kernel, draws=100, warmup=0, chains=2, seed=2, start=[{"beta": start}] * 2,
                progress=False, 
            )
            stats = trace.stats["beta"]
            share = stats["pulls"].sum() / stats["everything"].sum()
            print(place, step, f"{stats['accepted'].mean():.1%}", f"{share:.1%}", trace.seconds.mean()/100*1e6)
