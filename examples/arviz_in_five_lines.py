"""Draws in ArviZ: its table, its diagnostics, its file, in five lines.

`to_arviz` gives what the installed ArviZ works with: InferenceData before version 1, a DataTree
from it on. `store=` writes a run to a netCDF file while it is sampled, and ArviZ reads that file
without this package. Both kinds have groups posterior, sample_stats and decisions.
"""

import tempfile
from pathlib import Path

import arviz as az
import numpy as np

import subsample_mcmc as sm


def log_likelihood(state, data, n):
    z = (data.y[n] - state.mu[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


y = 0.5 + 2.0 * np.random.default_rng(1).standard_t(df=4, size=5_000)
start, constraints = {"mu": 0.0, "sigma": 1.0}, {"sigma": sm.positive}
model = sm.Model(log_likelihood, {"y": y}, start, constraints=constraints)
kernel = sm.Metropolis("mu") >> sm.Metropolis("sigma")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "run.nc"
    trace = sm.sample(model, kernel, draws=2000, seed=2, store=path, progress=False)
    made = trace.to_arviz(observed={"y": y})
    print(az.summary(made).to_string())
    rhat, ess = az.rhat(made), az.ess(made)
    read = az.from_netcdf(path)

    for name, truth in (("mu", 0.5), ("sigma", 2.0)):
        found = made["posterior"][name]
        same = bool((read["posterior"][name] == found).all())
        print(f"\n{name}: truth {truth}, mean {float(found.mean()):.3f}, ", end="")
        print(
            f"rhat {float(rhat[name]):.3f}, ESS {float(ess[name]):.0f}, as in the file: {same}",
            end="",
        )
    stats, decisions = read["sample_stats"], read["decisions"]
    share = decisions["mu_pulls"].sum() / decisions["mu_everything"].sum()
    print(f"\n\nmu: accepted {float(stats['mu_accepted'].mean()):.1%}", end="")
    print(f", share of the data read {float(share):.1%}")
