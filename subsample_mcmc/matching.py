"""The moments of a posterior by importance sampling from a Gaussian near it.

At a mode a posterior need not look like itself: next to a boundary, or in many dimensions, mean
and covariance are elsewhere. Draws from a heavier-tailed relative of the Gaussian, weighted by the
posterior, tell; a second round from where the first led makes the weights more even.
"""

from math import log, pi
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from subsample_mcmc.control.reference import streamed, whole_state
from subsample_mcmc.jit import jit
from subsample_mcmc.kernels.controlled import make_controls
from subsample_mcmc.kernels.kernel import Run
from subsample_mcmc.kernels.trial import make_trial, model_sources, place
from subsample_mcmc.selectors.exact import Exact

DEGREES = 10.0  # of the t distribution that is drawn from
ROUNDS = 8  # at most
PLENTY = 10.0  # effective draws for each coordinate: fewer cannot tell a covariance


class Moments(NamedTuple):
    """What the draws said."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float
    effective: float  # draws that equally weighted ones would be


def moments(coordinates, mean, factor, control, draws: int, rng) -> Moments:
    """Mean, covariance and evidence of the posterior in free coordinates.

    Round after round of draws, until weights are even enough twice in a row. Before, they are
    tempered: a few draws in the right direction lead the next round there.
    """
    height, d, good, last = heights(coordinates, control), len(mean), 0, None
    for _ in range(ROUNDS):
        scale = np.sqrt(rng.chisquare(DEGREES, draws) / DEGREES)
        z = rng.standard_normal((draws, d)) / scale[:, None]
        u = mean + z @ factor.T
        drawn = gammaln(0.5 * (DEGREES + d)) - gammaln(0.5 * DEGREES)
        drawn += -0.5 * d * log(DEGREES * pi) - np.log(np.diag(factor)).sum()
        logs = height(u) - drawn + 0.5 * (DEGREES + d) * np.log1p((z * z).sum(axis=1) / DEGREES)
        top = float(logs.max())
        if not top > -np.inf:
            break
        evidence = top + log(np.exp(logs - top).mean())
        weights, power = tempered(logs - top, PLENTY * d)
        effective = 1.0 / float(weights @ weights)
        mean = weights @ u
        covariance = ((u - mean) * weights[:, None]).T @ (u - mean)
        factor = np.linalg.cholesky(covariance)
        good = good + 1 if power == 1.0 else 0
        last = Moments(mean, covariance, evidence, effective if good else 0.0)
        if good == 2:
            break
    return last or Moments(mean, factor @ factor.T, -np.inf, 0.0)


def tempered(logs: np.ndarray, plenty: float) -> tuple[np.ndarray, float]:
    """(weights, the power of them that leaves so many effective draws)."""
    power = 1.0
    while True:
        weights = np.exp(power * logs)
        # A few draws in the tail of an approximation may have any weight (Ionides 2008).
        weights = np.minimum(weights, weights.mean() * len(logs) ** 0.5)
        weights /= weights.sum()
        if 1.0 / float(weights @ weights) >= min(plenty, 0.5 * len(logs)) or power < 1e-3:
            return weights, power
        power *= 0.8


def heights(coordinates, control) -> Any:
    """height(u) -> log posterior densities at free coordinates, up to the evidence.

    Exact, or with a control variate by its sums: no data are read.
    """
    model, d = coordinates.model, len(coordinates.floats)
    controls = make_controls(control, model, Exact(), 1)
    run = Run(coordinates.ints.copy(), coordinates.floats.copy(), np.zeros(0, dtype=np.int64))
    if control is None:
        log_likelihood = streamed(model_sources(model, touched=False).total)
    else:
        log_likelihood = streamed(known(control.functions(model).whole))

    def height(u: np.ndarray) -> np.ndarray:
        values, base, _ = coordinates.lift(u)
        found = np.full(len(u), -np.inf)
        trial = make_trial(model, run, whole_state(d), model.size, values, None, controls)
        with np.errstate(all="ignore"):
            for i in np.flatnonzero(base > -np.inf):
                found[i] = base[i] + log_likelihood(trial, i, model.size)
        return np.where(np.isfinite(found), found, -np.inf)

    return height


_known: dict[Any, Any] = {}


def known(whole) -> Any:
    """A control variate's sum over all data, at a candidate."""
    if whole not in _known:

        @jit(inner=True)
        def at(trial, arm, size):
            place(trial, arm)
            return whole(trial, 0)

        _known[whole] = at
    return _known[whole]
