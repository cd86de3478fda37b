"""Model choice by Carlin & Chib (1995): parameters for the models that are not in use.

The state is the model k and its parameters theta_k. A draw of k given all of theta_1 .. theta_K,
where those of the other models come fresh from pseudo-priors psi_j, leaves

    pi(k) p(theta_k | k) prod_n f_n(theta_k) prod_{j != k} psi_j(theta_j)

fixed whatever psi is: so arm j of that draw has log pi(j) + log p(theta_j | j) - log psi_j(theta_j)
besides its likelihood (paper 000's Eq. 25 leaves the last two out). How often k moves depends on
how near psi_j is to the posterior of theta_j: it is all that Racing needs to be good at here.
"""

from dataclasses import dataclass
from math import log, pi
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.base import BAD_PRIOR
from subsample_mcmc.kernels.decision import decide, fail
from subsample_mcmc.kernels.proposals.gaussian import (
    add_correlated,
    by_columns,
    distance,
    gaussians,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal, gumbel
from subsample_mcmc.target.constraints import COORDINATES, to_block, to_free
from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.rewards import place, prior_of

free_at, block_at = (getattr(f, "py_func", f) for f in (to_free, to_block))


@dataclass(frozen=True, eq=False)
class PseudoPrior:
    """Gaussians from which the parameters of models not in use are drawn, anew at every step.

    Pass it to the kernel that chooses the model: sm.Gibbs("q", pseudo=sm.PseudoPrior(fits)).

    fit: a list of fits, one for each value of the discrete block: sm.laplace(model, "theta",
        given={"q": k}) or, better by far where posteriors are not Gaussian, its .matched().
    transform: coordinates in which they are Gaussian, "log", "softplus", "squareroot" or
        "cuberoot", for a block of sm.positive; default those of the model. Others are reached by
        linearising at the mode. Of values that may be near 0 a softplus Gaussian has too thin a
        tail.
    Draws outside the block's set (square roots below 0) make their model impossible at that step,
    which costs moves but no correctness.

    Example:
        >>> def log_likelihood(state, data, n):  # a line, or a parabola
        ...     mean = state.theta[0] + state.theta[1] * data.x[n]
        ...     if state.q[0] == 1:
        ...         mean += state.theta[2] * data.x[n] ** 2
        ...     return -0.5 * (data.y[n] - mean) ** 2
        >>> def log_prior(state):
        ...     used = 2 + state.q[0]
        ...     value = -0.919 * used  # its constant differs between the models
        ...     for j in range(used):
        ...         value -= 0.5 * state.theta[j] ** 2
        ...     return value
        >>> x = np.linspace(-1.0, 1.0, 2_000)
        >>> y = x - 0.3 * x**2 + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.Model(
        ...     log_likelihood, {"x": x, "y": y}, {"q": 0, "theta": np.zeros(3)}, log_prior,
        ...     support={"q": 2}, lengths={"theta": ("q", [2, 3])},
        ... )
        >>> fits = [sm.laplace(model, "theta", given={"q": k}) for k in range(2)]
        >>> kernel = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits)) >> sm.Metropolis(
        ...     "theta", proposal=sm.independence(fits)
        ... )
        >>> trace = sm.sample(model, kernel, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.draws["q"].mean() > 0.9)  # the parabola's posterior probability
        True
    """

    fit: Any
    transform: str | None = None

    def __post_init__(self):
        fits = list(self.fit) if isinstance(self.fit, list | tuple) else [self.fit]
        if not fits or not all(hasattr(fit, "gaussian") for fit in fits):
            raise TypeError(
                f"PseudoPrior({self.fit!r:.60}): give a list of fits, one for each model, such as "
                '[sm.laplace(model, "theta", given={"q": k}) for k in range(6)].'
            )
        if self.transform is not None and self.transform not in COORDINATES:
            raise ValueError(f"transform={self.transform!r}: give one of {list(COORDINATES)}.")
        object.__setattr__(self, "fit", tuple(fits))

    def __repr__(self) -> str:
        return f"PseudoPrior({len(self.fit)} fits, transform={self.transform!r})"

    def block_of(self, model, choice: str) -> str:
        """The continuous block that varies with the discrete one, or an error."""
        variables = model.variables
        if choice not in variables:
            raise ValueError(f"Gibbs({choice!r}, pseudo=...): the fits' model has no such block.")
        ruler = variables[choice].block
        found = [n for n, v in variables.items() if v.place == ruler.start and not v.support]
        if ruler.length != 1 or len(found) != 1:
            raise ValueError(
                f"Gibbs({choice!r}, pseudo=...): the parameters of the models must be one block "
                f"whose length goes with {choice!r}, a number: Model(lengths={{name: ({choice!r}, "
                f"...)}}). Such blocks are {found}."
            )
        return found[0]

    def check(self, model, choice: str) -> None:
        """Refuse models without such a block, and fits of others."""
        name = self.block_of(model, choice)
        variable = model.variables[name]
        if self.transform is not None and variable.constraint.kind not in COORDINATES.values():
            raise ValueError(f"transform={self.transform!r}: block {name!r} is not sm.positive.")
        mine = model.fingerprints()
        for k, fit in enumerate(self.fit):
            theirs = fit.model
            if theirs is not model and theirs.fingerprints() != mine:
                raise ValueError(f"fit {k} of PseudoPrior is of another model, or other data.")
            if fit.state[choice] != k:
                raise ValueError(
                    f"fit {k} of PseudoPrior was made at {choice}={fit.state[choice]}: give one "
                    f"for each value in order, made with given={{{choice!r}: {k}}}."
                )
        gaussians(list(self.fit), None, Moved((variable,)))

    def numbers(self, model, choice: str) -> "Inactive":
        """The Gaussians of one chain, in the coordinates where they are Gaussian."""
        variable = model.variables[self.block_of(model, choice)]
        means, factors = gaussians(list(self.fit), None, Moved((variable,)))
        kind, own = variable.constraint.kind, variable.constraint
        if self.transform is not None and COORDINATES[self.transform] != kind:
            kind = COORDINATES[self.transform]
            for mean, factor, length in zip(means, factors, variable.lengths, strict=True):
                x, here = np.zeros((2, length))
                block_at(own.kind, own.low, own.high, mean[:length], x)
                free_at(kind, own.low, own.high, x, here)
                slope = rate(own.kind, own, mean[:length]) / rate(kind, own, here)
                root = slope[:, None] * factor[:length, :length]
                mean[:length] = here
                factor[:length, :length] = np.linalg.cholesky(root @ root.T)
        levels = np.array(
            [
                np.log(np.diag(factor)[:length]).sum() + 0.5 * length * log(2.0 * pi)
                for factor, length in zip(factors, variable.lengths, strict=True)
            ]
        )
        room = np.zeros((4, means.shape[1]))
        return Inactive(
            kind, own.low, own.high, variable.lengths, means, by_columns(factors), levels, *room,
        )  # fmt: skip


def rate(kind: int, constraint, u: np.ndarray) -> np.ndarray:
    """dx/du of a positive block, value by value."""
    x = np.zeros(1)
    return np.exp([block_at(kind, constraint.low, constraint.high, u[j : j + 1], x)
                   for j in range(len(u))])  # fmt: skip


class Inactive(NamedTuple):
    """The Gaussians of one chain, from which parameters of models not in use are drawn."""

    kind: int  # coordinates of the Gaussians
    low: float
    high: float
    lengths: np.ndarray  # of the block in each model
    means: np.ndarray  # (K, d)
    columns: np.ndarray  # (K, d, d) of their lower factors
    levels: np.ndarray  # (K,) minus the log density of a Gaussian at its mean
    u: np.ndarray  # scratch
    noise: np.ndarray
    other: np.ndarray
    spare: np.ndarray


@jit(inner="always")
def fill(chain, tools, current):
    """Candidates and offsets of all arms; False if a prior is not a number."""
    trial, offsets, own = tools.judge.trial, tools.judge.offsets, tools.inactive
    now, target = chain.now[0], trial.target[0]
    for j in range(target.joint):  # before another arm stands in the state
        trial.candidates[current, j] = trial.floats[target.beside + j]
    for k in range(len(offsets)):
        m, x, mean, columns = own.lengths[k], trial.candidates[k], own.means[k], own.columns[k]
        u = own.u[:m]
        if k == current:
            to_free(own.kind, own.low, own.high, x, u)
            square = distance(mean, columns, own.other, u)
            slope = to_block(own.kind, own.low, own.high, u, own.spare)
        else:
            noise, square = own.noise[:m], 0.0
            fill_normal(chain.rng, noise)
            for i in range(m):
                u[i] = mean[i]
            add_correlated(columns, noise, u)
            for i in range(m):
                square += noise[i] * noise[i]
            slope = to_block(own.kind, own.low, own.high, u, x)
        offsets[k] = -np.inf
        noise_of_arm = gumbel(chain.rng) if tools.noisy == 1 else 0.0
        if slope > -np.inf:
            place(trial, k)
            value = prior_of(trial)
            if not_a_sum(value):
                fail(now, trial, BAD_PRIOR, k, -1)
                return False
            offsets[k] = value + tools.tilt[k] + slope + 0.5 * square + own.levels[k]
            offsets[k] += noise_of_arm
    return True


@jit(inner="always")
def choice_step(chain, tools):
    """Parameters for all other models, and a draw of the model."""
    trial = tools.judge.trial
    target = trial.target[0]
    tools.judge.tally[0].steps += 1
    current = trial.ints[target.start]
    if fill(chain, tools, current):
        decide(chain, tools.judge, current)
    else:
        place(trial, current)
