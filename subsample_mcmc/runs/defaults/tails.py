"""Does a fit know the tails of a posterior: if not, proposals along it stand still out there.

A pilot, which begins at the fit, does not see it: it counts many effective draws of what lies
between the tails.
"""

import numpy as np

from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.runs.defaults.code import FEW
from subsample_mcmc.target.model import Model

OUT = 3.0  # standard deviations of the fit, at which the posterior is compared with it ...
ABOVE = 1.5  # ... and nats by which it may be higher there: a Gaussian's height is -4.5
MOST = 5e7  # rewards that this may read


def of_few_data(model: Model, fit: Fit) -> str:
    """Why no proposals along a fit of few data are tried; empty if there are more."""
    if model.size >= FEW * len(fit.mean):
        return ""
    return f"of {model.size:,} data and {len(fit.mean)} parameters it may know little of the tails"


def heavier(model: Model, fit: Fit) -> str:
    """Why none are tried where the posterior is not as the fit says; empty if it is."""
    far = nats_above(fit) if model.elsewhere is None else 0.0
    if far <= ABOVE:
        return ""
    return (
        f"{OUT:g} of its standard deviations out the posterior is {np.exp(min(far, 99.0)):,.2g} "
        "times as high as it is, and in such tails they stand still"
    )


def nats_above(fit: Fit) -> float:
    """By how much the log posterior is above the fit at most, some way out; 0: too much to read.

    Along the lines of two bases, each both ways: of the covariance's factor, and its axes where all
    deviations are 1.
    """
    size = len(fit.mean)
    if (4 * size + 1) * fit.model.size > MOST:
        return 0.0
    deviations = np.sqrt(np.diagonal(fit.covariance))
    lengths, axes = np.linalg.eigh(fit.covariance / np.outer(deviations, deviations))
    axes = deviations[:, None] * axes * np.sqrt(np.maximum(lengths, 0.0))
    steps = OUT * np.concatenate([fit.factor.T, axes.T])
    co = fit.coordinates
    with np.errstate(all="ignore"):
        values, base, _ = co.lift(
            np.concatenate([fit.mean[None], fit.mean + steps, fit.mean - steps])
        )
        rises = base[1:] - base[0] + co.sums(values, co.spans)[1:]
    return float(np.nanmax(np.append(rises, -np.inf))) + 0.5 * OUT**2
