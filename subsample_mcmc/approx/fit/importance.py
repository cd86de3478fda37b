"""The moments of a posterior by importance sampling from a Gaussian near it.

At a mode a posterior need not look like itself: next to a boundary, or in many dimensions, mean
and covariance are elsewhere. Draws from a heavier-tailed relative of the Gaussian, weighted by the
posterior, tell; a second round from where the first led makes the weights more even.
"""

from math import log, pi
from typing import Any, NamedTuple

import numpy as np
import scipy

from subsample_mcmc.approx.control import make_controls, prepared_for
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.target.rewards import place, probe, sum_of

DEGREES = 10.0  # of the t distribution that is drawn from
ROUNDS = 8  # at most
MANY = 0.2  # share of effective draws at which it is there; short of it, all rounds are made
DOUBT = 0.5  # nats: sums of a control variate are believed up to that
PLENTY = 10.0  # effective draws for each coordinate: fewer cannot tell a covariance


class Moments(NamedTuple):
    """What the draws said."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float
    effective: float  # draws that equally weighted ones would be


def moments(coordinates, mean, factor, control, draws: int, rng) -> Moments:
    """Mean, covariance and evidence of the posterior in free coordinates.

    Round after round of draws, until weights are even enough twice in a row. Before, they may be
    tempered: a few draws in the right direction lead the next round there.
    """
    height, d, good, last = heights(coordinates, control), len(mean), 0, None
    for _ in range(ROUNDS):
        scale = np.sqrt(rng.chisquare(DEGREES, draws) / DEGREES)
        z = rng.standard_normal((draws, d)) / scale[:, None]
        u = mean + z @ factor.T
        drawn = scipy.special.gammaln(0.5 * (DEGREES + d)) - scipy.special.gammaln(0.5 * DEGREES)
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
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:  # a few draws have all the weight
            return Moments(mean, covariance, evidence, 0.0)
        good = good + 1 if power == 1.0 else 0
        last = Moments(mean, covariance, evidence, effective if good else 0.0)
        if good > 1 and effective > MANY * draws:
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

    Exact, or with a control variate by its sums, which read no data: but far from its reference,
    where a polynomial may lead anywhere, exact again.
    """
    model = coordinates.model
    exact, here = sum_of, coordinates.floats.copy()
    functions, controls, known, constant = None, (), None, 0.0
    if control is not None:
        control.check(model, coordinates.blocks[0])
        functions = prepared_for(model, control).functions
        if functions.whole is None:
            raise ValueError(f"matched: {control!r} knows no sums over all data: give sm.Taylor.")
        controls = make_controls(control, model, Racing(), 2)
        known = believing(functions)

    def trial_at(values):
        return probe(model, coordinates.ints.copy(), here.copy(), values, controls)

    if known is not None:  # sums may lack a constant, which an evidence does not
        middle = trial_at(coordinates.floats[None].copy())
        constant = exact(middle, 0, model.size) - known(middle, 0, 1)[0]

    def height(u: np.ndarray) -> np.ndarray:
        values, base, _ = coordinates.lift(u)
        found, trial = np.full(len(u), -np.inf), trial_at(values)
        with np.errstate(all="ignore"):
            for i in np.flatnonzero(base > -np.inf):
                value, doubt = known(trial, i, 0) if known is not None else (0.0, np.inf)
                sure = doubt < DOUBT
                found[i] = base[i] + (value + constant if sure else exact(trial, i, model.size))
        return np.where(np.isfinite(found), found, -np.inf)

    return height


@memoised
def believing(functions) -> Any:
    """known(trial, arm, into) -> (sum over all data, its doubt against the reference), compiled.

    into: 1 for the reference, to which those at 0 are compared.
    """
    whole, estimate = functions.whole, functions.estimate

    @jit
    def known_sum(trial, arm, into):
        place(trial, arm)
        value = whole(trial, into)
        return value, 0.0 if into == 1 else estimate(trial, 0, 1, True)

    return known_sum
