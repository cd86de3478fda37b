"""A PyMC model, sampled from the data it needs: logistic regression on 100,000 rows.

    python examples/pymc_bridge.py           PyMC's model, our kernel
    python examples/pymc_bridge.py --nuts    and PyMC's NUTS, for comparison

sm.from_pymc makes an sm.Model, sm.laplace its proposals, sm.Taylor the control variate.
"""

import argparse
import time

import arviz
import numpy as np

import subsample_mcmc as sm


def told(name, seconds, draws):  # effective draws of the worst coefficient
    ess = min(float(arviz.ess(draws[..., j])) for j in range(draws.shape[-1]))
    print(f"{name}: {seconds:.1f} s, {ess:.0f} effective draws, {ess / seconds:,.0f} a second")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nuts", action="store_true", help="sample with PyMC, too")
    parser.add_argument("--size", type=int, default=100_000, help="rows")
    options = parser.parse_args()
    try:
        import pymc as pm
    except ImportError:
        print("This example needs PyMC: pip install 'subsample-mcmc[pymc]'")
        return
    rng = np.random.default_rng(1)
    truth = np.array([-1.0, 0.5, 0.25, -0.25])
    x = np.column_stack([np.ones(options.size), rng.standard_normal((options.size, 3))])
    y = (rng.random(options.size) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(int)
    with pm.Model() as pm_model:
        beta = pm.Normal("beta", 0, 2, shape=4)
        pm.Bernoulli("y", logit_p=pm.math.dot(pm.Data("x", x), beta), observed=y)
    begun = time.perf_counter()
    model = sm.from_pymc(pm_model)
    print(model, model.source.partition("\n\n")[0], sep="\n")  # the function of one row
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.5), control=sm.Taylor(fit))
    trace = sm.sample(model, kernel, 10_000, 0, 2, seed=1, start=[fit.state] * 2, progress=False)
    whole, read = time.perf_counter() - begun, trace.stats["beta"]
    print(arviz.summary(trace.to_arviz()).to_string(), f"\ntruth {truth}")
    print(f"read: {read['pulls'].sum() / read['everything'].sum():.3%} of the log likelihoods")
    told("races", float(trace.seconds.sum()), trace.draws["beta"])
    print(f"       {whole:.1f} s with translation, mode, control variate and, once, compilation")
    if options.nuts:
        start = time.perf_counter()
        with pm_model:
            nuts = pm.sample(1000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
        told("NUTS ", time.perf_counter() - start, nuts.posterior["beta"].to_numpy())


if __name__ == "__main__":
    main()
