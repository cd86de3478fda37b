"""Compositions of kernels: in turn, one of several, several times, or where a predicate holds.

Each leaves fixed what its parts leave fixed. A composition hands every part its own tools and the
chain, so that warm-up, errors and random streams reach all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.base import BAD_PREDICATE, Kernel, Leaf, worst
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import About, Entry, call
from subsample_mcmc.target.rewards import of_state
from subsample_mcmc.target.user_functions import plain


def compiled_or_not(inner: Any):
    """The decorator of compositions: compiled ones of compiled parts, else plain Python."""
    return jit(inner=True) if inner else lambda function: function


class Composite(Kernel):
    """A kernel made of others."""

    parts: tuple[Kernel, ...]

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """The weakest of its parts."""
        return worst(part.guarantee for part in self.parts)

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()

    def suspects(self, model, state) -> Iterator[tuple[Any, tuple]]:
        for part in self.parts:
            yield from part.suspects(model, state)

    def bind(self, model, run) -> tuple:
        return tuple(part.bind(model, run) for part in self.parts)


class Single(Composite):
    """A kernel made of one other: field `part`."""

    part: Kernel

    @property
    def parts(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        return (self.part,)


@dataclass(frozen=True, eq=False)
class Cycle(Composite):
    """One step of each part, in order."""

    parts: tuple[Kernel, ...]

    def text(self) -> str:
        return " >> ".join(part.text() for part in self.parts)

    def build(self, model, inner: Any) -> Any:
        return in_turn([part.build(model, inner) for part in self.parts], 0, inner)


def in_turn(steps, at: int, inner: Any):
    """step() that runs steps[at:] on tools[at:], folded so that each part meets its tools only."""
    first, wrap = steps[at], compiled_or_not(inner)
    if at == len(steps) - 1:

        @wrap
        def last(chain, tools):
            first(chain, tools[at])

        return last
    rest = in_turn(steps, at + 1, inner)

    @wrap
    def step(chain, tools):
        first(chain, tools[at])
        if chain.now[0].code == 0:
            rest(chain, tools)

    return step


@dataclass(frozen=True, eq=False)
class Mixture(Composite):
    """One part, drawn with given probabilities."""

    parts: tuple[Kernel, ...]
    weights: tuple[float, ...]

    def text(self) -> str:
        pairs = zip(self.parts, self.weights, strict=True)
        return "mixture(" + ", ".join(f"({p.text()}, {w:g})" for p, w in pairs) + ")"

    def build(self, model, inner: Any) -> Any:
        steps = [part.build(model, inner) for part in self.parts]
        choose, wrap = one_of(steps, 0, inner), compiled_or_not(inner)

        @wrap
        def step(chain, tools):
            choose(chain, tools[0], tools[1], chain.rng.random())

        return step

    def bind(self, model, run) -> tuple:
        return super().bind(model, run), np.cumsum(self.weights) / sum(self.weights)


def one_of(steps, at: int, inner: Any):
    """step() that runs the first part from `at` whose cumulative weight exceeds u."""
    first, wrap = steps[at], compiled_or_not(inner)
    if at == len(steps) - 1:

        @wrap
        def last(chain, tools, weights, u):
            first(chain, tools[at])

        return last
    rest = one_of(steps, at + 1, inner)

    @wrap
    def step(chain, tools, weights, u):
        if u < weights[at]:
            first(chain, tools[at])
        else:
            rest(chain, tools, weights, u)

    return step


@dataclass(frozen=True, eq=False)
class Repeat(Single):
    """Several steps of one kernel."""

    part: Kernel
    times: int

    def text(self) -> str:
        return f"repeat({self.part.text()}, {self.times})"

    def build(self, model, inner: Any) -> Any:
        once, wrap = self.part.build(model, inner), compiled_or_not(inner)

        @wrap
        def step(chain, tools):
            for _ in range(tools[1]):
                once(chain, tools[0])
                if chain.now[0].code != 0:
                    return

        return step

    def bind(self, model, run) -> tuple:
        return self.part.bind(model, run), self.times


class WhenContext(NamedTuple):
    """What a predicate reads."""

    state: Any


class WhenTools(NamedTuple):
    """The predicate of a chain."""

    predicate: Any  # called by its address
    context: Any  # a WhenContext
    leaf: int


@jit
def holds(own):
    """Is the predicate true of the state as it is; from Python, too."""
    return call(own.predicate, own.context) != 0.0


@dataclass(frozen=True, eq=False)
class When(Single):
    """A kernel that runs only where a predicate of the state holds."""

    predicate: Any
    part: Kernel

    def text(self) -> str:
        return f"when({getattr(self.predicate, '__name__', 'predicate')}, {self.part.text()})"

    def suspects(self, model, state) -> Iterator[tuple[Any, tuple]]:
        yield self.predicate, (state,)
        yield from super().suspects(model, state)

    def build(self, model, inner: Any) -> Any:
        once, wrap = self.part.build(model, inner), compiled_or_not(inner)

        # A kernel that can leave the set it runs on would never come back to it.
        @wrap
        def step(chain, tools):
            if holds(tools[1]):
                once(chain, tools[0])
                if chain.now[0].code == 0 and not holds(tools[1]):
                    chain.now[0].code, chain.now[0].kernel = BAD_PREDICATE, tools[1].leaf

        return step

    def bind(self, model, run) -> tuple:
        about = About(WhenContext(model.state(run.ints, run.floats)))
        predicate = of_state(jit(self.predicate, flags=FLAGS, user=True, inner=True))
        own = WhenTools(Entry(predicate, about), about, run.leaf)
        return self.part.bind(model, run), own


def changed(kernel: Any, change: Any) -> Any:
    """The same composition of other kernels: change(leaf) for every one that moves something."""
    if isinstance(kernel, Cycle | Mixture):
        return replace(kernel, parts=tuple(changed(part, change) for part in kernel.parts))
    if isinstance(kernel, Single):
        return replace(kernel, part=changed(kernel.part, change))  # type: ignore[type-var]
    return change(kernel)


def cycle(*kernels: Kernel) -> Kernel:
    """Kernels in turn; the same as first >> second.

    Example:
        >>> kernel = sm.cycle(sm.Gibbs("k"), sm.Metropolis("mu"))
        >>> kernel.text() == (sm.Gibbs("k") >> sm.Metropolis("mu")).text()
        True
    """
    parts: list[Kernel] = []
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"cycle({kernel!r}): give kernels such as sm.Gibbs('k').")
        parts.extend(kernel.parts if isinstance(kernel, Cycle) else (kernel,))
    if not parts:
        raise ValueError("cycle(): give at least one kernel.")
    return parts[0] if len(parts) == 1 else Cycle(tuple(parts))


def mixture(*pairs: tuple[Kernel, float]) -> Kernel:
    """One of several kernels a step: pairs (kernel, weight).

    Example:
        >>> near, far = sm.Metropolis("mu", scale=0.01), sm.Metropolis("mu", scale=1.0)
        >>> print(sm.mixture((near, 0.9), (far, 0.1)).text())
        mixture((Metropolis('mu'), 0.9), (Metropolis('mu'), 0.1))
    """
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Kernel)):
            raise TypeError(f"mixture({pair!r}): give pairs (kernel, weight).")
        if not 0.0 < pair[1] < np.inf:
            raise ValueError(f"mixture: weight {pair[1]!r} must be positive and finite.")
    if not pairs:
        raise ValueError("mixture(): give at least one pair (kernel, weight).")
    total = float(sum(weight for _, weight in pairs))
    return Mixture(tuple(k for k, _ in pairs), tuple(float(w) / total for _, w in pairs))


def repeat(kernel: Kernel, times: int) -> Kernel:
    """A kernel several times in a row.

    Example:
        >>> print((sm.Gibbs("k") >> sm.repeat(sm.Metropolis("mu"), 5)).text())
        Gibbs('k') >> repeat(Metropolis('mu'), 5)
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"repeat({kernel!r}): give a kernel such as sm.Gibbs('k').")
    if int(times) != times or times < 1:
        raise ValueError(f"repeat(times={times!r}): give a whole number, at least 1.")
    return Repeat(kernel, int(times))


def when(predicate, kernel: Kernel) -> Kernel:
    """A kernel only where predicate(state) holds, which the kernel must not change.

    That it does not is checked at every step: a kernel that could leave the set it runs on would
    not leave the posterior fixed.

    Example:
        >>> def far(state):
        ...     return abs(state.k[0]) > 3
        >>> print((sm.Gibbs("k") >> sm.when(far, sm.Metropolis("mu"))).text())
        Gibbs('k') >> when(far, Metropolis('mu'))
    """
    plain(predicate, "predicate", "predicate(state) -> bool")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"when(..., {kernel!r}): give a kernel such as sm.Gibbs('k').")
    return When(predicate, kernel)
