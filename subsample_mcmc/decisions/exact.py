"""Read everything: the reference every other selector is compared with."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.decisions.rules.rule import ALL_IMPOSSIBLE, ALONE, EXACT, NOT_FINITE, Outcome
from subsample_mcmc.decisions.selector import Selector, failed, not_a_sum, possible_arms
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import Sources


@dataclass(frozen=True)
class Exact(Selector):
    """Sum every reward of every arm and take the largest total: no error, D N pulls.

    Example:
        >>> rewards = np.random.default_rng(0).normal([[0.0], [0.1], [0.3]], 1.0, (3, 50_000))
        >>> choice = sm.choose(rewards, selector=sm.Exact())
        >>> int(choice.arm), int(choice.pulls)
        (2, 150000)
    """

    guarantee: ClassVar[str] = "exact"
    takes_control: ClassVar[bool] = True

    def reads_everything(self, rows: int) -> bool:
        """Always."""
        return True

    def build(self, sources: Sources) -> Any:
        """The compiled choice."""
        return exact_choice(sources)

    def params(self, shape: Shape) -> Any:
        """Sizes per arm."""
        return (np.asarray(shape.sizes, dtype=np.int64),)

    def scratch(self, shape: Shape) -> Any:
        """None is needed."""
        return (np.zeros(1),)

    def resize(self) -> Any:
        """Sizes per arm."""
        return resize


@jit(inner=True)
def resize(params, scratch, rows):
    for arm in range(len(params[0])):
        params[0][arm] = rows


@memoised
def exact_choice(sources: Sources) -> Any:
    """choose() that streams every arm."""
    total = sources.total

    @jit(inner=True)
    def choose(rng, context, offsets, params, scratch):
        sizes, best, highest, pulls = params[0], -1, -np.inf, 0
        possible, only = possible_arms(offsets)
        if possible == 1:
            return Outcome(only, 0, 0, ALONE, 0, -1, -1)
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            value = total(context, arm, sizes[arm])
            pulls += sizes[arm]
            if not_a_sum(value):
                for other in range(arm + 1, len(offsets)):  # one pass for all, of rows elsewhere
                    if offsets[other] > -np.inf:
                        total(context, other, sizes[other])
                return failed(NOT_FINITE, arm, -1, pulls, 1)
            if offsets[arm] + value > highest:
                best, highest = arm, offsets[arm] + value
        if best < 0:
            return failed(ALL_IMPOSSIBLE, -1, -1, pulls, 1)
        return Outcome(best, pulls, 1, EXACT, 0, -1, -1)

    return choose
