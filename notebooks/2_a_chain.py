# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A chain: from one decision to a posterior
#
# The first notebook made one decision. A chain makes thousands, in turn: each kernel draws or moves
# one block of the state, given the others. Here a sensor hears a signal x late and faintly,
#
# y[n] = gain · x[n − lag] + noise · (a standard normal),
#
# and we want the lag, one of 41, the gain and the noise level, from 100,000 samples.

# %%
import tempfile
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np

import subsample_mcmc as sm

N, LAGS = 100_000, 41
rng = np.random.default_rng(1)
x = rng.standard_normal(N)
y = rng.standard_normal(N)
y[17:] += 0.2 * x[:-17]

# %% [markdown]
# ## The model
#
# Data, a state of named blocks, and the log likelihood of one datum in plain Python. An integer is
# a discrete block and needs a support; a float is a continuous one, and may have a constraint.


# %%
def log_likelihood(state, data, n):
    lag = state.lag[0]
    heard = state.gain[0] * data.x[n - lag] if n >= lag else 0.0
    miss = (data.y[n] - heard) / state.noise[0]
    return -0.5 * miss * miss - sm.log(state.noise[0])


def log_prior(state):
    return -0.5 * state.gain[0] ** 2 - state.noise[0]


model = sm.Model(
    log_likelihood,
    {"x": x, "y": y},
    {"lag": 0, "gain": 0.5, "noise": 2.0},
    log_prior,
    support={"lag": LAGS},
    constraints={"noise": sm.positive},
)
model

# %% [markdown]
# ## The kernels
#
# Most lags are hopeless, so a race drops them after a few batches. Gain and noise move by steps of
# the posterior's size, which differ by a nat or two: no race resolves that, and Exact does the same
# with less ado. `>>` runs kernels in turn; `describe` says what each promises.

# %%
kernel = (
    sm.Gibbs("lag", selector=sm.Racing(delta=0.01))
    >> sm.Metropolis("gain", selector=sm.Exact())
    >> sm.Metropolis("noise", selector=sm.Exact())
)
print(kernel.describe(model))

# %% [markdown]
# ## Sampling
#
# Four chains, each from another lag. `audit=0.02` makes one decision in fifty again, exactly, with
# the same random numbers. `store` appends the draws to a file as they are made.

# %%
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "run.nc"
start = [{"lag": lag} for lag in (0, 10, 20, 30)]
trace = sm.sample(
    model,
    kernel,
    draws=1000,
    warmup=500,
    seed=2,
    audit=0.02,
    store=path,
    start=start,
    progress=False,
)
trace

# %% [markdown]
# ## The report
#
# First a verdict: has it converged, what was given up, what would make it faster; then what to act
# on, and the posterior's moments. Folded below: what each kernel read, how its decisions ended, and
# how many audited ones were wrong. The lag never moves once warm-up is over: all four chains came
# to the same one from different starts, so here that is the answer, and not a chain that is stuck.

# %%
trace.report()

# %% [markdown]
# ## The posterior
#
# `draws` has an array of shape (chains, draws, ...) per block; `to_arviz` hands them to ArviZ. With
# `to_arviz(log_likelihood=model, thin=…)` it has the log likelihood of every datum at some draws,
# too, which `az.loo` and `az.compare` need.

# %%
print("lags drawn:", np.unique(trace.draws["lag"]), "(17 was simulated)")
print(az.summary(trace.to_arviz(), var_names=["gain", "noise"]).to_string())

figure, axes = plt.subplots(2, 2, figsize=(9, 4.5), layout="constrained")
for (along, density), (name, truth) in zip(axes, {"gain": 0.2, "noise": 1.0}.items(), strict=True):
    for chain in trace.draws[name]:
        along.plot(chain, linewidth=0.5)
        density.hist(chain, bins=40, density=True, histtype="step")
    along.set(xlabel="draw", ylabel=name)
    density.axvline(truth, color="black", linestyle="--", label="simulated")
    density.set(xlabel=name, yticks=[])
axes[0, 1].legend()
plt.show()

# %% [markdown]
# ## What it cost
#
# Left: the share of all rewards that each kernel read along the run. For both Exact ones it is a
# half, as they remember the sum of the state that they stand at. Right: how decisions ended.

# %%
trace.plot(panels=("read", "ended"))
plt.show()

# %% [markdown]
# ## Going on
#
# The file holds the chains' random streams and what their kernels have learnt, too. `resume` checks
# that model and kernel are the same, and goes on as if the run had not stopped.

# %%
longer = sm.resume(path, model, kernel, draws=2000, progress=False)
same = all((longer.draws[name][:, :1000] == trace.draws[name]).all() for name in trace.draws)
print(longer)
print("starts with the draws made before:", same)
for name in ("gain", "noise"):
    print(f"ESS of {name}: {trace.mixing(name).ess:.0f}, now {longer.mixing(name).ess:.0f}")
folder.cleanup()
