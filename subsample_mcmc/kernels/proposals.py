"""Where Metropolis proposes to go: random walk, preconditioned Crank-Nicolson, or the user's own.

A proposal is one compiled function that draws and weighs: propose(rng, tuning, numbers, now, which,
u, v) writes where to go and returns log q(back) - log q(there). Those in free coordinates read u
and write v; a user's own reads and writes numbers.ends, the blocks themselves. `which`: the model
that a block of varying length belongs to, 0 for others.
"""

from dataclasses import dataclass
from math import log, log1p, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.errors import helpful
from subsample_mcmc.kernels.adapt import step_size
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    ABLE,
    FunctionAddress,
    RecordAddress,
    call_proposal,
    type_of,
)
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.user_functions import plain

OPTIMAL = 2.38  # over sqrt(d): the step of a random walk in standard deviations
FREEDOM = 4.0  # degrees of freedom of the t distribution of defensive proposals
DEFENSIVE = 1 / 32  # share of them
BETA, LARGEST = 0.3, 0.95  # of sm.pcn where none is given: at first, and the largest that is learnt


class Pace(NamedTuple):
    """What a kernel learns of a proposal's step in warm-up."""

    step: float  # at first; 0: the kernel's scale
    target: float  # acceptance
    largest: float


NO_PACE = Pace(0.0, 0.0, np.inf)  # it learns nothing


class ProposalNumbers(NamedTuple):
    """Run-time numbers of a proposal."""

    mean: np.ndarray  # (models, d)
    columns: np.ndarray  # (models, d, d) of lower Cholesky factors L of covariances, as rows
    beta: float  # 0: the kernel's step
    defensive: float
    noise: np.ndarray  # scratch
    other: np.ndarray
    own: Any = 0  # a user's functions (rng, ends), called by their address
    ends: Any = 0  # ... with these


class Ends(NamedTuple):
    """What a user's proposal reads and writes: the block's values, or a record of several blocks.

    Arrays in the chain's own memory, where the state stands and where the proposal is wanted.
    """

    current: Any  # read-only
    out: Any


def no_numbers(blocks) -> ProposalNumbers:
    """Of a proposal without mean and covariance: room for noise."""
    room = np.zeros((2, blocks.free))
    return ProposalNumbers(np.zeros((1, 1)), np.zeros((1, 1, 1)), 0.0, 0.0, *room)


@dataclass(frozen=True, eq=False)
class RandomWalk:
    """A Gaussian step of the kernel's scale in every free coordinate."""

    free: ClassVar[bool] = True
    walks: ClassVar[bool] = True

    def pace(self, free: int) -> Pace:
        return Pace(0.0, 0.44 if free == 1 else 0.234, np.inf)

    def build(self) -> Any:
        return random_walk

    def numbers(self, blocks) -> ProposalNumbers:
        return no_numbers(blocks)


@jit(inner="always")
def random_walk(rng, tuning, given, now, which, u, v):
    noise = given.noise[: len(u)]
    fill_normal(rng, noise)
    step = step_size(tuning, now)
    for j in range(len(u)):
        v[j] = u[j] + step * tuning.scales[j] * noise[j]
    return 0.0


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

    def pace(self, free: int) -> Pace:
        return NO_PACE if self.beta else Pace(BETA, 0.55, LARGEST)

    def build(self) -> Any:
        return gaussian

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


@helpful
def pcn(mean, covariance=None, beta: float | None = None, defensive: float = DEFENSIVE) -> Gaussian:
    """Preconditioned Crank-Nicolson around N(mean, covariance) of the free coordinates.

    pcn(fit), fit = sm.laplace(model), takes both from the fit, also those of several blocks that
    move as one; a mean given as numbers has their free coordinates in the order of their names.
    Where that Gaussian is the posterior, every proposal is accepted, whatever the dimension. A
    block of varying length takes a list of fits, one for each length.

    beta: how far a step goes, from 0 to 1, which is independence. None: .3 at first; warm-up
        adapts it until 55% of the proposals are accepted, or it is .95.
    defensive: share of the proposals that do not trust the Gaussian: half of them a random walk in
        its covariance, half draws from Student's t around its mean. Without them, 0, a posterior
        with heavier tails holds a chain there for very long.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.5), control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["accepted"].mean() > 0.9)  # this posterior is Gaussian
        True
    """
    if beta is not None and not 0.0 < beta <= 1.0:
        raise ValueError(f"pcn(beta={beta!r}): give a step with 0 < beta <= 1; 1 is independence.")
    return Gaussian(mean, moments_given("pcn", mean, covariance), beta, share(defensive))


@helpful
def independence(mean, covariance=None, defensive: float = DEFENSIVE) -> Gaussian:
    """Proposals from N(mean, covariance) of the free coordinates, whatever the current state.

    independence(fit), fit = sm.laplace(model), takes both from the fit; a list of fits serves a
    block of varying length. defensive: see sm.pcn.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("beta", proposal=sm.independence(fit), control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["accepted"].mean() > 0.9)  # this posterior is Gaussian
        True
    """
    return Gaussian(mean, moments_given("independence", mean, covariance), 1.0, share(defensive))


def share(given) -> float:
    """The share of defensive proposals, checked."""
    if not (isinstance(given, int | float | np.number) and 0.0 <= given <= 1.0):
        raise ValueError(f"defensive={given!r}: give a share of the proposals, 0 .. 1.")
    return float(given)


def moments_given(name: str, mean, covariance) -> Any:
    """The covariance, unless the mean is a fit that has its own; refuses neither and both."""
    fit = isinstance(mean, list | tuple) and len(mean) > 0 and hasattr(mean[0], "gaussian")
    if (fit or hasattr(mean, "gaussian")) == (covariance is None):
        return covariance
    raise TypeError(f"{name}({mean!r:.40}, ...): give a fit, or a mean and a covariance.")


@dataclass(frozen=True, eq=False)
class UserProposal:
    """draw(rng, current, out) writes a proposal; log_density(to, given) -> float, or None."""

    draw: Any
    log_density: Any
    free: ClassVar[bool] = False
    walks: ClassVar[bool] = False

    def pace(self, free: int) -> Pace:
        return NO_PACE

    def build(self) -> Any:
        return own_proposal

    def numbers(self, blocks) -> ProposalNumbers:
        return no_numbers(blocks)

    def address(self, rng: Any, ends: RecordAddress) -> FunctionAddress:
        """The two functions as one; rng: of the type that they are called with."""
        draw, log_density = self.draw, self.log_density
        plain(draw, "proposal[0]", "draw(rng, current, out)")
        chosen, density = jit(draw, flags=FLAGS, user=True, inner=True), None
        if log_density is not None:
            plain(log_density, "proposal[1]", "log_density(to, given) -> float")
            density = jit(log_density, flags=FLAGS, user=True, inner=True)
        kinds = (type_of(rng), ends) if ABLE else ()
        return FunctionAddress(users_proposal(chosen, density), *kinds)


@jit(inner=True)
def own_proposal(rng, tuning, given, now, which, u, v):
    return call_proposal(given.own, rng, given.ends)


@memoised
def users_proposal(chosen: Any, density: Any) -> Any:
    """A user's two functions as one that is called by its address; density: None if symmetric."""
    if density is None:

        @jit(inner="entry", user=True)
        def symmetric(rng, ends):
            chosen(rng, ends.current, ends.out)
            return 0.0

        return symmetric

    @jit(inner="entry", user=True)
    def corrected(rng, ends):
        current, out = ends.current, ends.out
        chosen(rng, current, out)
        return 1.0 * (density(current, out) - density(out, current))

    return corrected


def proposal_of(given) -> Any:
    """The proposal a user asked for."""
    if given is None:
        return RandomWalk()
    if isinstance(given, Gaussian | RandomWalk | UserProposal):  # a kernel made from another
        return given
    if callable(given):
        return UserProposal(given, None)
    if isinstance(given, tuple) and len(given) == 2 and callable(given[0]):
        return UserProposal(*given)
    raise TypeError(
        f"proposal={given!r}: give sm.pcn(mean, covariance), sm.independence(mean, covariance), "
        "draw(rng, current, out) if it is symmetric, or (draw, log_density(to, given))."
    )
