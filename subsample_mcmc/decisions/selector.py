"""What a selector is: how one decision is made, as a spec and a compiled function."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.rules.rule import Choice, Shape
from subsample_mcmc.numerics.jit import FLAGS, jit


class Sources(NamedTuple):
    """Compiled access to rewards, made from a one-datum function.

    rewards(context, arm, rows, out)   fill out with one arm's rewards for a mini-batch
    total(context, arm, size)          the exact sum over all rows, no gather, no stores
    touch(context, rows)               read the data of a mini-batch once, before the first arm
    """

    rewards: Any
    total: Any
    touch: Any


@dataclass(frozen=True, repr=False)
class Selector:
    """How a decision is made. A frozen spec; `build` gives the compiled half."""

    guarantee: ClassVar[str] = "exact"
    remedy: ClassVar[str] = ""  # what to do if audits find too many errors

    @property
    def promise(self) -> str:
        """What describe() and reports add to the guarantee."""
        return ""

    @property
    def risk(self) -> float | None:
        """The chance of an error that a decision may have; None if none is declared."""
        return getattr(self, "delta", None)

    def build(self, sources: Sources) -> Any:
        """Return choose(rng, context, offsets, params, scratch) -> Choice, compiled."""
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
            f"{type(self).__name__}() cannot serve sites that touch different numbers of data; use "
            "sm.Racing() or sm.Exact()."
        )


@jit(inner=True)
def touch_nothing(context, rows):
    """Small data are in the cache, or will be."""
    return 0.0


def touching(before, field, columns):
    """A touch that also reads one more array of the context."""

    @jit(flags=FLAGS, inner=True)
    def touch_vector(context, rows):
        value, array = before(context, rows), context[field]
        for i in range(np.uint64(len(rows))):
            value += array[np.uint64(rows[i])]
        return value

    @jit(flags=FLAGS, inner=True)
    def touch_matrix(context, rows):
        value, array = before(context, rows), context[field]
        for i in range(np.uint64(len(rows))):
            value += array[np.uint64(rows[i]), 0]
        return value

    return touch_matrix if columns else touch_vector


_sources: dict[Any, Sources] = {}


def sources_of(reward, large=()) -> Sources:
    """The batch functions of a compiled one-datum function reward(context, arm, n) -> float.

    large: (field, has columns) of the arrays too big for the cache. A loop of bare loads has many
    misses under way at once; the same misses inside the reward's arithmetic wait for each other
    (N = 1e7: 14.5 against 9.8 us a draw; 1e6: 11.4 against 7.5).
    """
    if (reward, large) in _sources:
        return _sources[reward, large]
    touch = touch_nothing
    for field, columns in large:
        touch = touching(touch, field, columns)

    # Compiled as if no two arrays overlapped: else every store to `out` makes LLVM reload what
    # the reward reads, 4x slower.
    @jit(flags=FLAGS, disjoint=True)
    def rewards(context, arm, rows, out):
        for i in range(np.uint64(len(rows))):
            out[i] = reward(context, arm, np.uint64(rows[i]))

    @jit(flags=FLAGS, inner=True)
    def total(context, arm, size):
        value = 0.0
        for n in range(np.uint64(size)):
            value += reward(context, arm, n)
        return value

    _sources[reward, large] = Sources(rewards, total, touch)
    return _sources[reward, large]


@jit(inner=True)
def failed(code, arm, row, pulls, rounds):
    """A Choice that Python turns into an exception."""
    return Choice(-1, pulls, rounds, code, 0, arm, row)


@jit(inner=True)
def not_a_sum(value):
    """True for nan and +inf; -inf is a legal sum."""
    return not value < np.inf
