"""The settings of Chen & Ghahramani (2016), appendix C.2, for examples/arch_model_selection.py.

Softplus coordinates; pseudo-priors by Laplace's approximation; parameters move by SGLD, gradients
of mini-batches, corrected by a race; the control variate is in the data, 100 bins of r_t and of
sigma_t^2 at the fit, and a fifth of the data are read by every decision. The paper tunes the step
to an acceptance of 36%; races look first at 50 rows, with delta = .05.
"""

from math import exp, log

import numpy as np
from tqdm import tqdm

import subsample_mcmc as sm

ACCEPTED = 0.36
BATCH = 50
# As printed: the guard of our Normal against few rewards, and the retreat to all of them, are ours.
RACING = sm.Racing(sm.Normal(guard=False), batch=BATCH, delta=0.05, retreat=False)
PILOT = 300  # steps that tell an acceptance
HALVINGS = 8  # of the interval of log steps
LOWEST, HIGHEST = 1e-8, 1.0


def settings(model):
    """(fits, control variate, sampler by name)."""
    from arch_model_selection import Sampler, best

    bar = tqdm(range(len(model.orders)), "fit of each order", unit="order")
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in bar]
    bins = sm.Bins(columns=("r2",), fit=fits, bins=100, outliers=0.2)
    start = best(fits).state
    isotropic = tuple(np.eye(order + 2) for order in model.orders)

    def sampler(name):
        raced = name == "raced"
        selector = RACING if raced else sm.Exact()
        how = {"control": bins if raced else None, "selector": selector}
        choice = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits), **how)

        def moves(step):
            fixed = {"step": step, "adapt": False, "precondition": isotropic}
            sgld = {"gradient": "minibatch", "batch": BATCH}
            return choice >> sm.Langevin("theta", **fixed, **sgld, **how)

        step = tuned(model, moves, start)
        return Sampler(name, lambda **tilt: moves(step) >> sm.WangLandau("q", **tilt), start)

    return fits, bins, sampler


def tuned(model, moves, start) -> float:
    """The step at which the paper's share of proposals is accepted, by bisection."""
    low, high = log(LOWEST), log(HIGHEST)
    bar = tqdm(range(HALVINGS), "step of SGLD", unit="pilot")
    for i in bar:
        middle = 0.5 * (low + high)
        trace = sm.sample(
            model, moves(exp(middle)), draws=PILOT, warmup=0, chains=1, seed=i, start=[start],
            progress=False,
        )  # fmt: skip
        stats = trace.stats["theta"]
        rate = float(stats["accepted"].sum() / stats["decisions"].sum())
        bar.set_postfix_str(f"{exp(middle):.2g}: {rate:.0%} accepted")
        low, high = (middle, high) if rate > ACCEPTED else (low, middle)
    return exp(0.5 * (low + high))


def planned(model, fits, sampler) -> str:
    """Pilots with each kind of control variate, without, and exactly: N v, data read, time."""
    controls = {
        "order 2": sm.Taylor(fits, order=2, outliers=0.01),
        "order 3": sm.Taylor(fits, order=3, outliers=0.01),
        "order 3, no outliers": sm.Taylor(fits, order=3),
        "bins": sm.Bins(columns=("r2",), fit=fits, bins=100, outliers=0.2),
        "bins, no outliers": sm.Bins(columns=("r2",), fit=fits, bins=100, outliers=0.0),
    }
    evidences = np.array([fit.log_evidence for fit in fits])
    kernel = sampler.tilted(start=-evidences)
    return f"\nControl variates, by pilots\n{sm.plan(model, kernel, controls, seed=0)}"
