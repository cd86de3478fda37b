"""Correlated arms: a Gaussian prior over all means, and what pulls teach about it.

The posterior covariance is kept as F F' with F (K, d): a pull of arm a with noise s^2 and w = F_a
changes it to F (I - w w' / (s^2 + |w|^2)) F', and the bracket is the square of I - c w w', with
c = (1 - sqrt(s^2 / (s^2 + |w|^2))) / |w|^2. So F' = F - c (F w) w': O(K d) a pull, positive
semidefinite whatever the rounding, and a draw of all means is mean + F z. Variances are the squared
lengths of rows of F, never differences: near certainty these would be rounding alone. What was
learnt is taken back by learning it with the opposite precision.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategy import begin, note
from subsample_mcmc.numerics.jit import FLAGS, jit

SMALL_EIGENVALUE = 1e-12  # eigenvalues below this share of the largest are rounding
TOLD = 1e-14  # of the largest number of a covariance: differences that it can tell of
LOOKED = 2_000  # arms of which all pairs are looked at
SAME = 1e-14  # a smaller relative change leaves a variance as it is: equal arms stay equal
LEAST = 1e-8  # share of an arm's precision that must be left when some of it is taken back


class Prior(NamedTuple):
    """Mean (K,), root (K, d) of the covariance, noise variance of a pull (K,).

    sd (K,) is of the covariance as given: equal arms stay equal, to be told apart at random.
    """

    mean: np.ndarray
    root: np.ndarray
    noise: np.ndarray
    sd: np.ndarray


class Belief(NamedTuple):
    """The posterior of all means; `score` is room for what a strategy compares."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    offsets: np.ndarray  # (K,) what is known of each mean besides
    centre: np.ndarray  # (K,)
    sd: np.ndarray  # (K,)
    root: np.ndarray  # (K, d)
    pulled: np.ndarray  # (d,) the row of the arm that was pulled
    score: np.ndarray  # (K,)


def for_each_arm(value, arms: int) -> np.ndarray | None:
    """A number, or one for each arm, as an array; None if it is neither, or not finite."""
    found = np.asarray(value, dtype=float)
    if found.shape not in ((), (1,), (arms,)) or not np.isfinite(found).all():
        return None
    return np.broadcast_to(found, (arms,)).copy()


def prior_of(covariance, noise, mean, arms: int) -> Prior:
    """Checked, with the square root of the covariance."""
    covariance = np.asarray(covariance, dtype=float)
    if covariance.shape != (arms, arms) or not np.allclose(covariance, covariance.T, atol=1e-8):
        raise ValueError(
            f"covariance has shape {covariance.shape}: give a symmetric matrix of the prior "
            f"covariances of the means of {arms} arms."
        )
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    if values[0] < -1e-8 * values[-1] or not values[-1] > 0.0:
        raise ValueError(
            f"covariance has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}: none may be "
            "negative, and one must be positive."
        )
    keep = values > SMALL_EIGENVALUE * values[-1]
    root = vectors[:, keep] * np.sqrt(values[keep])
    refuse_lost(covariance, root)
    variance = for_each_arm(noise, arms)
    if variance is None or not np.all(variance > 0.0):
        raise ValueError(
            f"noise={noise!r:.60}: give the variance of one pull, above 0, or one for each arm."
        )
    centre = for_each_arm(mean, arms)
    if centre is None:
        raise ValueError(f"mean={mean!r:.60}: give a finite number, or one for each arm.")
    return Prior(centre, np.ascontiguousarray(root), variance, np.sqrt(np.diag(covariance)))


def refuse_lost(covariance: np.ndarray, root: np.ndarray) -> None:
    """Refuse what is so wide in one direction that differences of arms are rounding beside it."""
    some = np.unique(np.linspace(0, len(root) - 1, min(len(root), LOOKED)).astype(int))
    covariance, root = covariance[np.ix_(some, some)], root[some]
    given, kept = (
        np.add.outer(np.diag(c), np.diag(c)) - 2.0 * c for c in (covariance, root @ root.T)
    )
    told = given > TOLD * np.abs(covariance).max()  # less may be rounding of what was given
    lost = np.where(told, np.abs(kept - given) - 0.5 * given, 0.0)
    if not (lost > 0.0).any():
        return
    i, j = np.unravel_index(np.argmax(lost), lost.shape)
    size = np.abs(covariance).max()
    raise ValueError(
        f"covariance: arms {some[i]} and {some[j]} differ by a variance of {given[i, j]:.3g}, "
        f"which is rounding beside {size:.3g}. Give what all arms have in common, or the widest "
        "of them, a variance that is 1e6 times that of differences, say, which tells as little."
    )


def belief(prior: Prior) -> Belief:
    """Nothing pulled."""
    arms, width = prior.root.shape
    return Belief(
        *begin(arms), np.zeros(arms), prior.mean.copy(), prior.sd.copy(),
        prior.root.copy(), np.zeros(width), np.zeros(arms),
    )  # fmt: skip


@jit(inner=True, flags=FLAGS)
def along(row, other):
    """Their product."""
    total = 0.0
    for j in range(np.uint64(len(row))):
        total += row[j] * other[j]
    return total


@jit(inner=True, flags=FLAGS)
def take_from(row, other, times):
    """row - times * other, in place; its new squared length."""
    total = 0.0
    for j in range(np.uint64(len(row))):
        row[j] -= times * other[j]
        total += row[j] * row[j]
    return total


@jit(inner=True)
def weigh(state, arm, precision, surprise):
    """The posterior after an observation of an arm, of value centre + surprise / precision.

    Below 0, a precision is taken back; False if hardly any would be left.
    """
    centre, sd, root, pulled = state.centre, state.sd, state.root, state.pulled
    for j in range(len(pulled)):
        pulled[j] = root[arm, j]
    own = along(pulled, pulled)
    grow = 1.0 + own * precision
    if own <= 0.0 or grow < LEAST:
        return own <= 0.0  # known already, or nothing would be
    step, shrink = surprise / grow, precision / (grow * (1.0 + sqrt(1.0 / grow)))
    for k in range(len(centre)):
        shared = along(root[k], pulled)
        centre[k] += step * shared
        square = take_from(root[k], pulled, shrink * shared)
        if abs(precision) * shared * shared > SAME * grow * sd[k] * sd[k]:
            sd[k] = sqrt(square)
    return True


@jit(inner=True)
def learn(state, arm, reward, noise):
    """The posterior after one more pull."""
    note(state, arm, reward)
    weigh(state, arm, 1.0 / noise, (reward - state.centre[arm]) / noise)


@jit(inner=True)
def favourite(values, pulls):
    """Where the highest value is; of equal ones that of the arm pulled most."""
    best = 0
    for k in range(len(values)):
        if values[k] > values[best] or (values[k] == values[best] and pulls[k] > pulls[best]):
            best = k
    return best


@jit(inner=True)
def draw_means(state, rng, out):
    """A draw of all means from the posterior."""
    width = len(state.pulled)
    noise = state.pulled
    for j in range(width):
        noise[j] = rng.standard_normal()
    for k in range(len(out)):
        out[k] = state.centre[k] + along(state.root[k], noise)
