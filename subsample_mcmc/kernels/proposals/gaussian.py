"""Proposals around a Gaussian that is given: preconditioned Crank-Nicolson, and independence."""

from dataclasses import dataclass
from math import log, log1p, sqrt
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.kernels.adapt import step_size
from subsample_mcmc.kernels.proposals.walk import NO_PACE, Pace, ProposalNumbers, learn_step
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal

OPTIMAL = 2.38  # over sqrt(d): the step of a random walk in standard deviations
FREEDOM = 4.0  # degrees of freedom of the t distribution of defensive proposals
BETA, LARGEST = 0.3, 0.95  # of sm.pcn where none is given: at first, and the largest that is learnt


@dataclass(frozen=True, eq=False)
class Gaussian:
    """v = mean + (1 - beta^2)^1/2 (u - mean) + beta L z: leaves N(mean, L L') fixed.

    Now and then, by a coin of its own, it does not trust the Gaussian: where the posterior's tails
    are heavier, a chain out there would see all its proposals refused. Then it makes a random walk,
    v = u + 2.38 d^-1/2 L z; or, as often, v is drawn from Student's t around the mean, which brings
    a chain home that starts far away. Each of the three is reversible, and so is their mixture.
    """

    mean: Any  # or a fit, or a list of them, one for each length of the block
    covariance: Any
    beta: float | None  # None: it is learnt
    defensive: float = 0.0
    free: ClassVar[bool] = True
    walks: ClassVar[bool] = False
    learned: ClassVar[bool] = False

    def pace(self, free: int) -> Pace:
        return NO_PACE if self.beta else Pace(BETA, 0.55, LARGEST)

    def build(self) -> tuple[Any, Any]:
        return gaussian, learn_step

    def sites(
        self, name: str, count: int, free: int, some: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """(means, lower factors) of some of the sites of a block, from a fit."""
        if not hasattr(self.mean, "sites") or self.beta is not None:
            raise ValueError(
                "the block has touches, and its sites move from what they learn, at first by "
                "random walks or from a fit: give proposal=sm.pcn(fit), fit = sm.laplace(model), "
                "or leave it out, or the model's touches."
            )
        means, covariances = self.mean.sites(name)
        if means.shape != (count, free):
            raise ValueError(
                f"the fit has {len(means):,} sites of {means.shape[1]} numbers, and {name!r} "
                f"{count:,} of {free}: fit this model."
            )
        return means[some], np.linalg.cholesky(covariances[some])

    def numbers(self, blocks) -> ProposalNumbers:
        means, factors = gaussians(self.mean, self.covariance, blocks)
        room = np.zeros((2, means.shape[1]))
        columns = by_columns(factors)
        beta = 0.0 if self.beta is None else float(self.beta)
        return ProposalNumbers(means, columns, beta, float(self.defensive), *room)


def gaussians(mean, covariance, blocks) -> tuple[np.ndarray, np.ndarray]:
    """(means, lower factors) in the free coordinates of blocks that move, by their lengths.

    mean, covariance: arrays, or a fit and None, or a list of fits and None.
    """
    free, wanted = blocks.free, blocks.lengths
    fits = isinstance(mean, list | tuple) and len(mean) > 0 and hasattr(mean[0], "gaussian")
    given = list(mean) if fits else [mean]
    if len(given) != len(wanted):
        last = blocks.names[-1]
        raise ValueError(
            f"{len(given)} means and covariances were given: block {last!r} has {len(wanted)} "
            f"lengths, {list(wanted)}; give a list of fits, one for each: "
            "[sm.laplace(model, ..., given={...: k}) for k in ...]."
        )
    means, factors = np.zeros((len(wanted), free)), np.zeros((len(wanted), free, free))
    for k, (one, length) in enumerate(zip(given, wanted, strict=True)):
        m, c = one.gaussian(blocks.names) if hasattr(one, "gaussian") else (one, covariance)
        m, c = np.atleast_1d(np.asarray(m, float)), np.atleast_2d(np.asarray(c, float))
        if m.shape != (length,) or c.shape != (length, length):
            raise ValueError(
                f"the proposal's mean has shape {m.shape} and its covariance {c.shape}: "
                f"{blocks.sizes(length)}."
            )
        means[k, :length] = m
        try:
            factors[k, :length, :length] = np.linalg.cholesky(c)
        except np.linalg.LinAlgError:
            raise ValueError(
                "the proposal's covariance is not positive definite: add a little to its diagonal."
            ) from None
    return means, factors


def by_columns(factors: np.ndarray) -> np.ndarray:
    """Their columns as rows: loops along these have no sums to wait for."""
    return np.ascontiguousarray(np.swapaxes(factors, 1, 2))


@jit(inner=True)
def add_correlated(columns, noise, out):
    """out += L z, in the order of the columns."""
    d = np.uint64(len(noise))
    for j in range(d):
        column, z = columns[j], noise[j]
        for i in range(j, d):
            out[i] += column[i] * z


@jit(inner=True)
def distance(mean, columns, z, u):
    """(u - mean)' C^-1 (u - mean), by forward substitution: the square of z = L^-1 (u - mean)."""
    d, total = np.uint64(len(u)), 0.0
    for i in range(d):
        z[i] = u[i] - mean[i]
    for j in range(d):
        column = columns[j]
        value = z[j] / column[j]
        z[j] = value
        total += value * value
        for i in range(j + np.uint64(1), d):
            z[i] -= column[i] * value
    return total


@jit(inner=True)
def defend(rng, mean, columns, noise, room, u, v):
    """A proposal that holds where the Gaussian is too thin: see Gaussian."""
    d = len(u)
    walk = rng.random() < 0.5
    step = OPTIMAL / sqrt(d)
    if not walk:  # chi squared with four degrees of freedom, over four: a product of two uniforms
        step = 1.0 / sqrt(-0.5 * log((1.0 - rng.random()) * (1.0 - rng.random())))
    v[:] = 0.0
    add_correlated(columns, noise, v)
    for i in range(d):
        v[i] = (u[i] if walk else mean[i]) + step * v[i]
    if walk:
        return 0.0
    there = log1p(distance(mean, columns, room, v) / FREEDOM)
    return 0.5 * (FREEDOM + d) * (there - log1p(distance(mean, columns, room, u) / FREEDOM))


@jit(inner="always")
def gaussian(rng, tuning, given, now, which, u, v):
    mean, columns, noise = given.mean[which], given.columns[which], given.noise[: len(u)]
    fill_normal(rng, noise)
    if given.defensive > 0.0 and rng.random() < given.defensive:
        return defend(rng, mean, columns, noise, given.other, u, v)
    beta = given.beta if given.beta > 0.0 else min(step_size(tuning, now), 1.0)
    keep = (1.0 - beta * beta) ** 0.5
    v[:] = 0.0
    add_correlated(columns, noise, v)
    for i in range(len(u)):
        v[i] = mean[i] + keep * (u[i] - mean[i]) + beta * v[i]
    # Reversible with respect to N(mean, C): the ratio of proposals is that of its densities. In
    # z = L^-1 (u - mean) the proposal is keep z + beta noise.
    near, far = distance(mean, columns, given.other, u), 0.0
    for i in range(len(u)):
        there = keep * given.other[i] + beta * noise[i]
        far += there * there
    return 0.5 * (far - near)
