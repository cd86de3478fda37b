"""Kinks of log priors near a mode, such as that of -abs(b) / scale where b is 0.

Second differences over short steps say that such a prior holds its parameter very tightly: the
shorter the steps, the tighter. Over steps of the size of the posterior they say how wide that is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.approx.fit.newton import Local, along_axes
from subsample_mcmc.errors import warn

# Standard deviations over which a prior with a kink is taken: of -t |x| - x^2 / 2 the Gaussian is
# then as wide as the law, to 8%, whatever t is.
WIDE = 2.6
PARTS = (1.0, 0.5, 0.01)  # steps that are compared, in standard deviations; the last is short
ROUGH = 0.1  # how well the mode is known then, in standard deviations
SHORT = 0.01  # steps of what is smooth, to wide ones
BENT = 0.1  # the part by which curvatures over these may differ
ALIKE = 1.25  # the factor between standard deviations up to which those of short steps are kept
SCALES = (1.0, 10.0, 100.0, 1_000.0)  # of deviations, where a search ended at a kink and not there
ROUNDS = 60  # until a width is found
ANEW = 10  # times that a search begins, as it comes to further kinks

Prior = Callable[[np.ndarray], np.ndarray]  # log prior + log |dx/du| at points, one per row


def bends(prior: Prior, u: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The negative second derivative along each coordinate, by differences over these steps."""
    ends = np.diag(steps)
    values = prior(np.concatenate([u[None], u + ends, u - ends]))
    both = values[1 : len(u) + 1] + values[len(u) + 1 :]
    return (2.0 * values[0] - both) / steps**2


def kinks_near(prior: Prior, u: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Along which coordinates the prior has a kink within about half of these deviations.

    Second differences of a smooth function differ from its second derivative by the square of their
    step, so at half the step by a quarter; those of a kink are twice as large at half the step.
    """
    wide, half, least = (bends(prior, u, part * sd) for part in PARTS)
    apart = wide - least
    most = np.maximum(np.maximum(np.abs(wide), np.abs(least)), sd**-2.0)
    with np.errstate(all="ignore"):
        return (np.abs(apart) > BENT * most) & ((half - least) / apart > 0.5)


def deviations_of(curvature: np.ndarray) -> np.ndarray:
    """The standard deviation of each coordinate given the others."""
    size = np.abs(np.diag(curvature))
    return 1.0 / np.sqrt(np.maximum(size, 1e-20 * size.max() + 1e-300))


def kinks_at_end(prior: Prior, u: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """The same where a search failed: deviations may be those of the kink, and far too short."""
    sd, found = deviations_of(curvature), np.zeros(len(u), dtype=bool)
    for scale in SCALES:
        with np.errstate(all="ignore"):
            found |= kinks_near(prior, u, scale * sd)
    return found


def wide_steps(prior: Prior, u: np.ndarray, smooth: np.ndarray) -> np.ndarray:
    """Steps along each coordinate of WIDE standard deviations, which such steps themselves find.

    smooth: the curvature of all else along each coordinate.
    """
    sd = np.maximum(1.0, np.abs(u))
    for _ in range(ROUNDS):
        bent = np.maximum(smooth, 0.0) + bends(prior, u, WIDE * sd)
        bent = np.where(np.isfinite(bent) & (bent > 0.0), bent, 0.0)
        new = np.clip(1.0 / np.sqrt(np.maximum(bent, 1e-300)), 1e-3 * sd, 10.0 * sd)
        if np.allclose(new, sd, rtol=1e-3):
            break
        sd = new
    return WIDE * sd


def kinks_within(prior: Prior, u: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Along which coordinates wide steps see another curvature than short ones do."""
    wide, least = bends(prior, u, WIDE * sd), bends(prior, u, PARTS[-1] * sd)
    return np.abs(wide - least) > BENT * sd**-2.0


def with_kinks(rest: Local, prior: Prior, kinks: np.ndarray) -> Local:
    """What is known of all but the prior, and that, along its kinks over wide steps."""
    if not rest.usable:
        return rest
    wide = wide_steps(prior, rest.u, np.diag(rest.curvature))

    def rises(points: np.ndarray) -> tuple[float, np.ndarray]:
        own = prior(points)
        return 0.0, own[1:] - own[0]

    own = along_axes(rises, rest.u, np.where(kinks, wide, SHORT * wide))
    return rest._replace(
        gradient=rest.gradient + own.gradient, curvature=rest.curvature + own.curvature
    )


class EndedAtKinksError(ValueError):
    """A search ended at kinks that it did not know."""

    def __init__(self, kinks: np.ndarray):
        super().__init__()
        self.kinks = kinks  # along which coordinates


def past_kinks(
    search: Callable[[np.ndarray], tuple[Any, np.ndarray]], labels: list[str],
    deviations: Callable[[Any], np.ndarray],
) -> tuple[Any, np.ndarray]:  # fmt: skip
    """(what a search finds, along which coordinates are kinks), begun anew as it comes to some.

    Kinks beside a mode may tell little: where short steps find about the same, that is kept.

    search(kinks): (what is found, along which coordinates it is near kinks), where along `kinks`
        the prior is taken over wide steps.
    deviations(found): of each coordinate given the others.
    """
    kinks, first = np.zeros(len(labels), dtype=bool), None
    for _ in range(ANEW):
        try:
            found, near = search(kinks)
        except EndedAtKinksError as error:
            near = error.kinks
        else:
            if not np.any(near & ~kinks):
                if first is not None:
                    apart = np.abs(np.log(deviations(first) / deviations(found)))
                    if apart.max() < np.log(ALIKE):
                        return first, np.zeros_like(near)
                return found, near
            first = found if not kinks.any() else first
        kinks = kinks | near
    raise ValueError(
        "no posterior mode was found: log_prior has kinks wherever a search leads, along "
        f"{', '.join(labels[j] for j in np.flatnonzero(kinks)[:3])}. Give a smooth one."
    )


def searched(once: Callable[[np.ndarray, list], tuple], coordinates) -> tuple[tuple, np.ndarray]:
    """(what a search finds, along which coordinates are kinks of the log prior).

    once(kinks, tried): a tuple that begins with what climb returns; the log densities that are read
        are added to tried.
    """
    prior = coordinates.prior

    def search(kinks: np.ndarray) -> tuple[tuple, np.ndarray]:
        tried: list = []
        try:
            made = once(kinks, tried)
        except (ValueError, np.linalg.LinAlgError) as error:
            last = next((one.last for one in reversed(tried) if one.last), None)
            more = kinks if last is None else kinks_at_end(prior, last.u, last.curvature)
            if np.any(more & ~kinks):
                raise EndedAtKinksError(more) from error
            raise
        u, sd = made[0][0].u, deviations_of(made[0][0].curvature)
        near = kinks_near(prior, u, sd)
        return made, near | (kinks & kinks_within(prior, u, sd)) if kinks.any() else near

    return past_kinks(search, coordinates.labels, lambda made: deviations_of(made[0][0].curvature))


def warn_of_kinks(near: np.ndarray, labels: list[str]) -> None:
    """Say along which parameters the fit is approximate, if there are such."""
    if not near.any():
        return
    labels = [labels[j] for j in np.flatnonzero(near)]
    names = ", ".join(dict.fromkeys(labels))
    warn(
        f"the log prior has a kink near the mode along {names}: its curvature there is taken over "
        f"{WIDE:g} posterior standard deviations, so the fit's standard deviations along "
        f"{'it' if len(labels) == 1 else 'these'} are approximate, its log_evidence may be off by "
        "half a nat for each, and its mode is the middle of a Gaussian about as wide as the "
        "posterior. Chains that propose from it correct that."
    )
