"""A mixture of three Gaussians: labels drawn one datum at a time, parameters by Metropolis.

Label z[n] matters to datum n only: `touches` says so, and a sweep over all labels reads every datum
once per component. The weights are the labels' prior; log w[z[n]] stands in the likelihood of datum
n, so that no prior sums over all labels. A thousand data are too few to race: moves are exact.

Labels can be summed out, and then they should be: a second model does that, and a simplex, three
means and three positive scales move as one, by proposals from one fit. Both chains must find the
same posterior. Their effective sample sizes (ESS) say what labels, and moves in turn, cost.
"""

import numpy as np

import subsample_mcmc as sm

SIZE, TRUE = 1_000, {"w": [0.5, 0.3, 0.2], "mu": [-2.0, 1.0, 4.0], "sigma": [0.8, 1.0, 0.6]}


def labelled(state, data, n):
    k = state.z[n]
    miss = (data.y[n] - state.mu[k]) / state.sigma[k]
    return sm.log(state.w[k] / state.sigma[k]) - 0.5 * miss * miss


def summed_out(state, data, n):
    total = 0.0
    for k in range(3):
        miss = (data.y[n] - state.mu[k]) / state.sigma[k]
        total += state.w[k] / state.sigma[k] * sm.exp(-0.5 * miss * miss)
    return sm.log(total)


def log_prior(state):
    return -0.02 * np.sum(state.mu**2) - 0.5 * np.sum(np.log(state.sigma) ** 2)


rng = np.random.default_rng(1)
z = rng.choice(3, size=SIZE, p=TRUE["w"])
data = {"y": rng.normal(np.array(TRUE["mu"])[z], np.array(TRUE["sigma"])[z])}
start = {"w": np.full(3, 1 / 3), "mu": np.array([-3.0, 0.0, 3.0]), "sigma": np.ones(3)}
limits = {"sigma": sm.positive, "w": sm.simplex}
touches = {"z": (np.arange(SIZE + 1), np.arange(SIZE))}
labels = {"z": np.zeros(SIZE, dtype=int)}
model = sm.Model(labelled, data, start | labels, log_prior, {"z": 3}, limits, touches)
without = sm.Model(summed_out, data, start, log_prior, constraints=limits)
mu, sigma, w = (sm.Metropolis(name, selector=sm.Exact()) for name in ("mu", "sigma", "w"))
moves = sm.repeat(mu >> sigma >> w, 3)
options = {"draws": 4000, "chains": 2, "seed": 2, "progress": False}
gibbs = sm.Gibbs("z", log_prior=lambda state, data, site, arm: 0.0)  # it is in the likelihood
first = sm.sample(model, gibbs >> moves, **options)
as_one = sm.pcn(sm.laplace(without, progress=False), beta=0.9)
joint = sm.Metropolis(("w", "mu", "sigma"), proposal=as_one, selector=sm.Exact())
second = sm.sample(without, joint, **options)

print("            truth      with labels   ESS       summed out   ESS")
for name, truth in TRUE.items():
    for k, value in enumerate(truth):
        print(f"{name}[{k}]".ljust(10) + f"{value:7.2f}", end="")
        for trace in (first, second):
            found, ess = trace.draws[name][..., k], trace.mixing(name).ess
            print(f"{found.mean():11.3f} ± {found.std():.3f}{ess:6.0f}", end="")
        print()
print(f"\nrewards read by a sweep, per label: {first.stats['z']['pulls'].mean() / SIZE:.0f}")
