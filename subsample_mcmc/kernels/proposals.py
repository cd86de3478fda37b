"""Where Metropolis proposes to go: random walk, preconditioned Crank-Nicolson, or the user's own.

A proposal is two compiled functions' worth in one: propose(rng, tuning, numbers, now, u, v, x, y)
writes where to go and returns log q(back) - log q(there). Those in free coordinates read u and
write v; a user's own reads the block x and writes y.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.jit import FLAGS, jit
from subsample_mcmc.kernels.adapt import step_size
from subsample_mcmc.kernels.noise import fill_normal
from subsample_mcmc.userfunction import plain


class Numbers(NamedTuple):
    """Run-time numbers of a proposal."""

    mean: np.ndarray
    factor: np.ndarray  # lower Cholesky factor of a covariance
    beta: float
    noise: np.ndarray  # scratch
    other: np.ndarray


def numbers(mean, factor, beta, length: int) -> Numbers:
    """Numbers with scratch of the right length."""
    return Numbers(mean, factor, float(beta), np.zeros(length), np.zeros(length))


@dataclass(frozen=True, eq=False)
class RandomWalk:
    """A Gaussian step of the kernel's scale in every free coordinate."""

    free: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    def build(self) -> Any:
        return random_walk

    def numbers(self, length: int, block: str) -> Numbers:
        return numbers(np.zeros(1), np.zeros((1, 1)), 0.0, length)


@jit(inner="always")
def random_walk(rng, tuning, given, now, u, v, x, y):
    fill_normal(rng, given.noise)
    step = step_size(tuning, now)
    for j in range(len(u)):
        v[j] = u[j] + step * tuning.scales[j] * given.noise[j]
    return 0.0


@dataclass(frozen=True, eq=False)
class Gaussian:
    """v = mean + (1 - beta^2)^1/2 (u - mean) + beta L z: leaves N(mean, L L') fixed."""

    mean: Any  # or a fit
    covariance: Any
    beta: float
    free: ClassVar[bool] = True
    adapts: ClassVar[bool] = False

    def build(self) -> Any:
        return gaussian

    def numbers(self, length: int, block: str) -> Numbers:
        mean, covariance = self.mean, self.covariance
        if hasattr(mean, "gaussian"):
            mean, covariance = mean.gaussian(block)
        mean = np.atleast_1d(np.asarray(mean, dtype=float))
        covariance = np.atleast_2d(np.asarray(covariance, dtype=float))
        if mean.shape != (length,) or covariance.shape != (length, length):
            raise ValueError(
                f"the proposal's mean has shape {mean.shape} and its covariance "
                f"{covariance.shape}: the block has {length} free coordinates."
            )
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise ValueError(
                "the proposal's covariance is not positive definite: add a little to its diagonal."
            ) from None
        return numbers(mean.copy(), np.ascontiguousarray(factor), self.beta, length)


@jit(inner=True)
def distance(given, u):
    """(u - mean)' C^-1 (u - mean), by forward substitution."""
    total, z = 0.0, given.other
    for i in range(len(u)):
        value = u[i] - given.mean[i]
        for j in range(i):
            value -= given.factor[i, j] * z[j]
        z[i] = value / given.factor[i, i]
        total += z[i] * z[i]
    return total


@jit(inner="always")
def gaussian(rng, tuning, given, now, u, v, x, y):
    fill_normal(rng, given.noise)
    keep = (1.0 - given.beta * given.beta) ** 0.5
    for i in range(len(u)):
        value = 0.0
        for j in range(i + 1):
            value += given.factor[i, j] * given.noise[j]
        v[i] = given.mean[i] + keep * (u[i] - given.mean[i]) + given.beta * value
    # Reversible with respect to N(mean, C): the ratio of proposals is that of its densities.
    return 0.5 * (distance(given, v) - distance(given, u))


def pcn(mean, covariance=None, beta: float = 0.3) -> Gaussian:
    """Preconditioned Crank-Nicolson around N(mean, covariance) of the free coordinates.

    pcn(fit), fit = sm.laplace(model), takes both from the fit. Where that Gaussian is the
    posterior, every proposal is accepted, whatever the dimension.
    """
    if not 0.0 < beta <= 1.0:
        raise ValueError(f"pcn(beta={beta!r}): give a step with 0 < beta <= 1; 1 is independence.")
    return Gaussian(mean, moments_given("pcn", mean, covariance), beta)


def independence(mean, covariance=None) -> Gaussian:
    """Proposals from N(mean, covariance) of the free coordinates, whatever the current state.

    independence(fit), fit = sm.laplace(model), takes both from the fit.
    """
    return Gaussian(mean, moments_given("independence", mean, covariance), 1.0)


def moments_given(name: str, mean, covariance) -> Any:
    """The covariance, unless the mean is a fit that has its own; refuses neither and both."""
    if hasattr(mean, "gaussian") == (covariance is None):
        return covariance
    raise TypeError(f"{name}({mean!r:.40}, ...): give a fit, or a mean and a covariance.")


@dataclass(frozen=True, eq=False)
class UserProposal:
    """draw(rng, current, out) writes a proposal; log_density(to, given) -> float, or None."""

    draw: Any
    log_density: Any
    free: ClassVar[bool] = False
    adapts: ClassVar[bool] = False

    def build(self) -> Any:
        return user_proposal(self.draw, self.log_density)

    def numbers(self, length: int, block: str) -> Numbers:
        return numbers(np.zeros(1), np.zeros((1, 1)), 0.0, length)


def user_proposal(draw, log_density) -> Any:
    """The compiled form of a user's two functions."""
    plain(draw, "proposal[0]", "draw(rng, current, out)")
    chosen = jit(draw, flags=FLAGS, user=True, inner=True)
    if log_density is None:

        @jit(inner=True)
        def symmetric(rng, tuning, given, now, u, v, x, y):
            chosen(rng, x, y)
            return 0.0

        return symmetric
    plain(log_density, "proposal[1]", "log_density(to, given) -> float")
    density = jit(log_density, flags=FLAGS, user=True, inner=True)

    @jit(inner=True)
    def corrected(rng, tuning, given, now, u, v, x, y):
        chosen(rng, x, y)
        return density(x, y) - density(y, x)

    return corrected


def proposal_of(given) -> Any:
    """The proposal a user asked for."""
    if given is None:
        return RandomWalk()
    if isinstance(given, Gaussian | RandomWalk):
        return given
    if callable(given):
        return UserProposal(given, None)
    if isinstance(given, tuple) and len(given) == 2 and callable(given[0]):
        return UserProposal(*given)
    raise TypeError(
        f"proposal={given!r}: give sm.pcn(mean, covariance), sm.independence(mean, covariance), "
        "draw(rng, current, out) if it is symmetric, or (draw, log_density(to, given))."
    )
