"""What a selector is: how one decision is made, as a spec and a compiled function."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.decisions.rules.rule import Outcome, Rule
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import Sources


@dataclass(frozen=True, repr=False)
class Selector:
    """How a decision is made. A frozen spec; `build` gives the compiled half."""

    guarantee: ClassVar[str] = "exact"
    remedy: ClassVar[str] = ""  # what to do if audits find too many errors
    takes_control: ClassVar[bool] = False  # may rewards be residuals of a control variate
    thins: ClassVar[bool] = False  # does it draw rows by the bounds of their residuals
    by_default: ClassVar[bool] = False  # does it stand for what the model will say

    @property
    def itself(self) -> "Selector":
        """What decides where no model is known: itself, but for the one that stands for others."""
        return self

    @property
    def promise(self) -> str:
        """What describe() and reports add to the guarantee."""
        return ""

    @property
    def risk(self) -> float | None:
        """The chance of an error that a decision may have; None if none is declared."""
        return getattr(self, "delta", None)

    @property
    def dropping_rule(self) -> Rule | None:
        """The rule by which it drops arms, if it has one."""
        return None

    def reads_everything(self, rows: int) -> bool:
        """Would it read all of so few rows, one after the other, whatever they say."""
        return False

    def first_batch(self, rows: int) -> int:
        """How many of so many rows are read before an arm may be dropped; 0: all, or not known."""
        return 0

    def build(self, sources: Sources) -> Any:
        """Return choose(rng, context, offsets, params, scratch) -> Outcome, compiled."""
        raise TypeError(f"{type(self).__name__} must define build(): see decisions/selector.py.")

    def params(self, shape: Shape) -> Any:
        """Run-time numbers for a population; raises if the selector cannot serve it."""
        raise TypeError(f"{type(self).__name__} must define params(): see decisions/selector.py.")

    def scratch(self, shape: Shape) -> Any:
        """Arrays that `choose` writes in place, allocated once per population."""
        raise TypeError(f"{type(self).__name__} must define scratch(): see decisions/selector.py.")

    def resize(self) -> Any:
        """The compiled function (params, scratch, rows) that changes how many rows there are."""
        raise TypeError(
            f"{type(self).__name__}() serves decisions about all data, and not those of a block "
            "with touches, whose sites may see different numbers of them; use sm.Racing() or "
            "sm.Exact()."
        )


@jit(inner=True)
def failed(code, arm, row, pulls, rounds):
    """A Outcome that Python turns into an exception.

    code: what is wrong, a negative number.
    arm, row: whose reward it is; -1 of none.
    pulls, rounds: as in sm.extend.Outcome.
    """
    return Outcome(-1, pulls, rounds, code, 0, arm, row)


@jit(inner="always")
def possible_arms(offsets):
    """(how many arms are possible at all, the last of them)."""
    count, last = 0, -1
    for arm in range(len(offsets)):
        if offsets[arm] > -np.inf:
            count += 1
            last = arm
    return count, last


@jit(inner=True)
def not_a_sum(value):
    """True for nan and +inf; -inf is a legal sum.

    value: a number.
    """
    return not value < np.inf
