"""The search for a mode: Newton's steps on a log density that is read a few times."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_stencil import quadratic, stencil
from subsample_mcmc.errors import RewardError
from subsample_mcmc.target.data import datum_of

MANY = 50_000  # data from which on the search begins on some of them
LIMIT = 100  # points that a search tries
FLAT = 1e-10  # eigenvalues below this part of the largest may be rounding, ...
FLOOR = 1e-4  # ... and are raised to this: 100 times the typical standard deviation
FEW = 64  # coordinates up to which all pairs are looked at, at once
SIGNS = 16  # directions along all coordinates
# Nats by which a sum over coordinates may differ from a log density along them: with steps of a
# hundredth of a standard deviation, 1e-5 of the curvature.
APART = 1e-9


# Nats that a step may lose for each kink of a prior, and for those of a likelihood: gradients over
# wide steps lead to the middle of the posterior, which is not its mode. Of -t |x| + g x these are
# at most .85.
OF_KINK = 1.0
SADDLE = 1e-6  # of the largest eigenvalue: what is further below 0 is no rounding
# Standard deviations from a mode, and nats that it is higher: 2 of a Gaussian, and there to one
# side, or to the other, within these.
WIDE, LEAST, MOST = 2.0, 0.1, 30.0
PARTS = ((10, 1.0), (25, 0.5), (LIMIT, 0.2))  # of steps across kinks, in searches up to so long


class Local(NamedTuple):
    """The log density around a point."""

    u: np.ndarray
    value: float
    gradient: np.ndarray
    curvature: np.ndarray  # the negative Hessian

    @property
    def usable(self) -> bool:
        return bool(np.isfinite(self.value) and np.all(np.isfinite(self.curvature)))


def spectrum(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(scale, eigenvalues, eigenvectors) of the matrix scaled to a diagonal of ones."""
    size = np.abs(np.diag(curvature))
    scale = 1.0 / np.sqrt(np.maximum(size, FLAT * size.max() + 1e-300))
    return scale, *np.linalg.eigh(scale[:, None] * curvature * scale)


def deviations(curvature: np.ndarray) -> np.ndarray:
    """Steps of one standard deviation in uncorrelated directions, one per column."""
    scale, values, vectors = spectrum(curvature)
    size = np.abs(values)
    return scale[:, None] * vectors / np.sqrt(np.maximum(size, FLOOR * size.max()))


def differences(rises, u: np.ndarray, steps: np.ndarray) -> Local:
    """The log density around u, by differences along the columns of `steps`.

    rises(points): the log density at the first of some points, and what it rises by at the others.
    """
    value, rise = rises(u + stencil(len(u)) @ steps.T)
    _, gradient, hessian = quadratic(np.append(0.0, rise), len(u))
    inverse = np.linalg.inv(steps)
    return Local(u, value, inverse.T @ gradient, -inverse.T @ hessian @ inverse)


def along_axes(rises, u: np.ndarray, steps: np.ndarray) -> Local:
    """The same by one step for each coordinate; of many, pairs are looked at where they matter.

    steps: (coordinates,). A log density that is a sum over coordinates rises along several by what
    it rises along each, whatever the steps; whether it is one is asked along some of all signs at
    random. Else pairs of one coordinate after the other are read, as all points of a stencil at
    once take the memory of their cube.
    """
    d = len(u)
    if d <= FEW:
        return differences(rises, u, np.diag(steps))
    ends = np.diag(steps)
    value, rise = rises(np.concatenate([u[None], u + ends, u - ends]))
    up, down = rise.reshape(2, d)
    hessian = np.diag(up + down)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (SIGNS, d))
    together = rises(np.concatenate([u[None], u + signs * steps]))[1]
    if not np.all(np.abs(together - np.where(signs > 0.0, up, down).sum(axis=1)) <= APART):
        for i in range(d - 1):
            end = ends[i] + ends[i + 1 :]
            both = rises(np.concatenate([u[None], u + end, u - end]))[1].reshape(2, -1).sum(axis=0)
            hessian[i, i + 1 :] = 0.5 * (both - (up + down)[i] - (up + down)[i + 1 :])
            hessian[i + 1 :, i] = hessian[i, i + 1 :]
    return Local(u, value, 0.5 * (up - down) / steps, -hessian / np.outer(steps, steps))


def widths(rises, u: np.ndarray) -> np.ndarray:
    """Steps along the coordinates at which the log density bends by about a nat."""
    wide = np.maximum(1.0, np.abs(u))
    steps = 1e-3 * wide
    for _ in range(10):
        ends = np.diag(steps)
        both = rises(np.concatenate([u[None], u + ends, u - ends]))[1].reshape(2, -1)
        bend = np.abs(both[0] + both[1])
        factor = np.clip(1.0 / np.sqrt(np.maximum(bend, 1e-10)), 1e-3, 1e3)
        steps = np.minimum(steps * np.where(np.isfinite(bend), factor, 0.01), 1e6 * wide)
        if np.all((bend > 0.1) & (bend < 10.0)):
            break
    return steps


def climb(likelihood, now: Local, tolerance: float) -> tuple[Local, np.ndarray, float]:
    """(the log density where it was last read, the step from there to the mode, its rise).

    Newton's steps with |eigenvalues|, shortened where the log density does not rise as it should.
    Near a mode their length in posterior standard deviations is squared each time, up to a constant
    that the last two tell: the search ends when the next would be shorter than the tolerance.
    Over wide steps across kinks they need not shrink, and may go to and fro: then parts of them are
    taken.
    """
    co, last, runs, share = likelihood.coordinates, None, 0, 1.0
    if not now.usable:
        raise RewardError(f"the log density is not finite at {co.show(now.u)}.")
    for turn in range(LIMIT):
        scale, values, vectors = spectrum(now.curvature)
        along = vectors.T @ (scale * now.gradient)
        size = np.maximum(np.abs(values), FLAT * np.abs(values).max())
        move, sd = scale * (vectors @ (along / size)), np.sqrt(np.sum(along**2 / size))
        likelihood.bar.set_postfix_str(f"log density {now.value:.9g}, {sd:.2g} sd to go", False)
        ratio, bent, small = np.inf, np.inf, sd  # small: what the next step is to this one
        if last is not None:
            across = np.sqrt(max(move @ last[0] @ move, 1e-300))  # by the curvature before
            ratio, bent = across / last[1], (sd / across) ** 2
            if last[1] < 1.0 or co.count >= MANY:  # near enough to tell
                small = sd * max(sd / last[1] ** 2, co.count**-0.5)
        runs = runs + 1 if 0.9 < ratio < np.inf and bent < 0.7 else 0
        if runs >= 3 and sd < 0.1:
            break  # steps as long as before while the density levels off
        converged = sd * small <= tolerance and small <= 10.0 * tolerance
        rounding = sd < 1e-3 and ratio > 0.3 and abs(bent - 1.0) < 0.1
        if converged or rounding or (sd <= tolerance and ratio < 0.9):
            return now, move, float(0.5 * sd**2)
        if likelihood.rough:
            share = min(share, next(part for past, part in PARTS if turn < past))
        trial = likelihood.around(now.u + share * move, now)
        rise = trial.value - now.value
        lost = OF_KINK * (likelihood.kinks.sum() + likelihood.rough) + 1e-11 * abs(now.value)
        if trial.usable and rise >= 0.05 * share * sd**2 - lost:
            last = (now.curvature, max(sd, 1e-150)) if share == 1.0 else None
            now, share = trial, min(1.0, 4.0 * share)
        else:
            last, share = None, share / (4.0 if rise > -10.0 * share * sd**2 else 16.0)
    raise ValueError(
        f"no posterior mode was found: the log density, {now.value:.6g}, still rises along "
        f"{co.labels[np.argmax(np.abs(move))]} at {co.show(now.u)}. So it does where a plane "
        "separates the data, or where only a prior can hold values back: give a log_prior, such "
        "as -0.5 * (x / 10)**2, or start nearer, by given={...}."
    )


def falls_around(rises, found: tuple[Local, np.ndarray, float]) -> bool:
    """Does the log density fall, as far as it should, around what a search found.

    Wide steps may end anywhere on a plain, as far out where a plane separates the data: there it
    does not fall away from 0, but in all directions across that one. And where they are far too
    long, they may say so to each other.
    """
    now, move, _ = found
    scale, values, vectors = spectrum(now.curvature)
    sharp, u = values > FLAT * np.abs(values).max(), now.u + move
    if values.min() < -SADDLE * values.max():
        return False
    ends = WIDE * (scale[:, None] * vectors[:, sharp] / np.sqrt(values[sharp])).T
    falls = -rises(np.concatenate([u[None], u + ends, u - ends]))[1].reshape(2, -1)
    if not np.all(falls > LEAST) or np.any(falls.min(axis=0) > MOST):
        return False
    across = u @ now.curvature @ u
    if across <= WIDE**2:
        return True
    return bool(rises(np.array([u, u + WIDE / sqrt(across) * u]))[1][0] < -LEAST)


def begin(likelihood, u: np.ndarray) -> Local:
    """The log density around a start, or an error that says what is not finite."""
    found, co = likelihood.around(u, None), likelihood.coordinates
    if found.usable:
        return found
    values, base, _ = co.lift(u)
    datum = co.not_finite(values[:1]) if np.isfinite(base[0]) else None
    what = "log_prior, or the log density next to it,"
    if datum is not None:
        what = f"log_likelihood of datum {datum}{datum_of(co.model.data, datum, co.model.size)}"
    raise RewardError(
        f"{what} is not finite at {co.show(u)}: start inside the support, by given={{...}}, and "
        "declare where it ends, by constraints={'p': sm.interval(0, 1)}; or correct the datum."
    )


def several(likelihood, u, starts: int, rng, tolerance: float) -> tuple[Any, tuple, np.ndarray]:
    """The best of some searches, the log densities they came to, and where; nan: nowhere."""
    best, heights, trouble, spread = None, [-np.inf] * starts, None, np.eye(len(u))
    ends = np.full((starts, len(u)), np.nan)
    for k in range(starts):
        noise = spread @ rng.standard_normal(len(u)) if k else np.zeros(len(u))
        for halving in range(12 if k else 1):  # until the start is possible
            try:
                found = climb(likelihood, begin(likelihood, u + noise * 0.5**halving), tolerance)
                heights[k], ends[k] = found[0].value + found[2], found[0].u + found[1]
                best = found if heights[k] == max(heights) else best
                if k == 0:
                    u, spread = found[0].u, deviations(found[0].curvature)
                    spread *= sqrt(likelihood.coordinates.count)
            except (ValueError, np.linalg.LinAlgError) as error:
                trouble = trouble or error
                if isinstance(error, RewardError):
                    continue
            break
    if best is None and trouble:
        raise trouble
    return best, tuple(heights), ends
