"""Random walks, and what all proposals have in common."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.kernels.adapt import learn, step_size
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal


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


def no_numbers(blocks) -> ProposalNumbers:
    """Of a proposal without mean and covariance: room for noise."""
    room = np.zeros((2, blocks.free))
    return ProposalNumbers(np.zeros((1, 1)), np.zeros((1, 1, 1)), 0.0, 0.0, *room)


@jit(inner="always")
def learn_step(tuning, given, now, which, u, accepted):
    """What all proposals learn that do not say otherwise."""
    learn(tuning, now, u, accepted)


@dataclass(frozen=True, eq=False)
class RandomWalk:
    """A Gaussian step of the kernel's scale in every free coordinate."""

    free: ClassVar[bool] = True
    walks: ClassVar[bool] = True  # by steps of the kernel's scale
    learned: ClassVar[bool] = False  # does it know the Gaussian of the values after warm-up

    def pace(self, free: int) -> Pace:
        return Pace(0.0, 0.44 if free == 1 else 0.234, np.inf)

    def build(self) -> tuple[Any, Any]:
        return random_walk, learn_step

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
