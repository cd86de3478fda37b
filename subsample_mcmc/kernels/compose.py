"""Compositions of kernels: in turn, one of several, several times, or where a predicate holds.

Each leaves fixed what its parts leave fixed. A composition hands every part its own tools and the
chain, so that warm-up, errors and random streams reach all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.kernels.base import (
    BAD_PREDICATE,
    BoundStep,
    Kernel,
    Leaf,
    Step,
    run_step,
    worst,
)
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import (
    ABLE,
    Addresses,
    FunctionAddress,
    RecordAddress,
    call,
    call_step,
)
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.rewards import of_state
from subsample_mcmc.target.user_functions import plain


class CompositionStep:
    """The step of a composition: compiled, or in Python, where a part of it is plain Python."""

    def __init__(self, over: Any):
        """over(run): the step, where run(step, chain, tools) makes one of a part."""
        self.compiled = jit(over(call_step), inner="entry")
        self.plain = over(run_step)

    def at_work(self, tools: Any, parts: list[BoundStep]) -> BoundStep:
        """The composition at work; it is compiled if all its parts are."""
        python = ABLE and any(part.step.plain is not None for part in parts)
        step = Step(self.compiled, tools, plain=self.plain if python else None)
        return BoundStep(step, RecordAddress(tools))


class Composite(Kernel):
    """A kernel made of others."""

    parts: tuple[Kernel, ...]

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """The weakest of its parts."""
        return worst(part.guarantee for part in self.parts)

    @property
    def interpreted(self) -> bool:  # type: ignore[override]
        """Is one of its parts."""
        return any(part.interpreted for part in self.parts)

    def check_composed(self, model) -> None:
        for part in self.parts:
            part.check_composed(model)

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()

    def suspects(self, model, state) -> Iterator[tuple[Any, tuple]]:
        for part in self.parts:
            yield from part.suspects(model, state)

    def made_of(self, parts: tuple[Kernel, ...]) -> Kernel:
        """The same composition of other kernels."""
        return replace(self, parts=parts)  # type: ignore[type-var]

    def settled(self, model) -> Kernel:
        """With a selector in all parts."""
        return self.made_of(tuple(part.settled(model) for part in self.parts))

    def bound(self, *given: Any) -> list[BoundStep]:
        """Its parts at work; given: see Kernel.at_work."""
        return [part.at_work(*given) for part in self.parts]


class Single(Composite):
    """A kernel made of one other: field `part`."""

    part: Kernel

    @property
    def parts(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        return (self.part,)

    def made_of(self, parts: tuple[Kernel, ...]) -> Kernel:
        """The same composition of another kernel."""
        return replace(self, part=parts[0])  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Cycle(Composite):
    """One step of each part, in order."""

    parts: tuple[Kernel, ...]

    def text(self) -> str:
        return " >> ".join(part.text() for part in self.parts)

    def at_work(self, model, run, steps) -> BoundStep:
        parts = self.bound(model, run, steps)
        return CYCLE.at_work(CycleTools(*listed(parts)), parts)


class CycleTools(NamedTuple):
    """Its parts."""

    steps: Any
    tools: Any


def listed(parts: list[BoundStep]) -> tuple[Addresses, Addresses]:
    """(steps, tools) of some parts."""
    return Addresses(part.step for part in parts), Addresses(part.tools for part in parts)


def in_turn(run):
    """Each part once."""

    def step(chain, tools):
        for k in range(len(tools.steps)):
            run(tools.steps[k], chain, tools.tools[k])
            if chain.now[0].code != 0:
                break
        return 0.0

    return step


CYCLE = CompositionStep(in_turn)


@dataclass(frozen=True, eq=False)
class Mixture(Composite):
    """One part, drawn with given probabilities."""

    parts: tuple[Kernel, ...]
    weights: tuple[float, ...]

    def text(self) -> str:
        pairs = zip(self.parts, self.weights, strict=True)
        return "mixture(" + ", ".join(f"({p.text()}, {w:g})" for p, w in pairs) + ")"

    def at_work(self, model, run, steps) -> BoundStep:
        parts = self.bound(model, run, steps)
        weights = np.cumsum(self.weights) / sum(self.weights)
        return MIXTURE.at_work(MixtureTools(*listed(parts), weights), parts)


class MixtureTools(NamedTuple):
    """Its parts, and their cumulative weights."""

    steps: Any
    tools: Any
    weights: np.ndarray


def one_of(run):
    """The first part whose cumulative weight exceeds a uniform."""

    def step(chain, tools):
        u, k, last = chain.rng.random(), 0, len(tools.steps) - 1
        while k < last and not u < tools.weights[k]:
            k += 1
        run(tools.steps[k], chain, tools.tools[k])
        return 0.0

    return step


MIXTURE = CompositionStep(one_of)


@dataclass(frozen=True, eq=False)
class Repeat(Single):
    """Several steps of one kernel."""

    part: Kernel
    times: int

    def text(self) -> str:
        return f"repeat({self.part.text()}, {self.times})"

    def at_work(self, model, run, steps) -> BoundStep:
        parts = self.bound(model, run, steps)
        return REPEAT.at_work(RepeatTools(*parts[0], self.times), parts)


class RepeatTools(NamedTuple):
    """Its part, and how often that runs."""

    step: Any
    tools: Any
    times: int


def several_times(run):
    """The part so many times."""

    def step(chain, tools):
        for _ in range(tools.times):
            run(tools.step, chain, tools.tools)
            if chain.now[0].code != 0:
                break
        return 0.0

    return step


REPEAT = CompositionStep(several_times)


class WhenContext(NamedTuple):
    """What a predicate reads."""

    state: Any


class WhenTools(NamedTuple):
    """The predicate of a chain."""

    predicate: Any  # called by its address
    context: Any  # a WhenContext
    leaf: int
    step: Any
    tools: Any


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

    def at_work(self, model, run, steps) -> BoundStep:
        leaf, parts = run.leaf, self.bound(model, run, steps)
        about = RecordAddress(WhenContext(model.state(run.ints, run.floats)))
        predicate = of_state(jit(self.predicate, flags=FLAGS, user=True, inner=True))
        own = WhenTools(FunctionAddress(predicate, about), about, leaf, *parts[0])
        return WHEN.at_work(own, parts)


def where_it_holds(run):
    """The part, where the predicate is true of the state.

    A kernel that can leave the set it runs on would never come back to it.
    """

    def step(chain, tools):
        if holds(tools):
            run(tools.step, chain, tools.tools)
            if chain.now[0].code == 0 and not holds(tools):
                chain.now[0].code, chain.now[0].kernel = BAD_PREDICATE, tools.leaf
        return 0.0

    return step


WHEN = CompositionStep(where_it_holds)


def changed(kernel: Any, change: Any) -> Any:
    """The same composition of other kernels: change(leaf) for every one that moves something."""
    if isinstance(kernel, Composite):
        return kernel.made_of(tuple(changed(part, change) for part in kernel.parts))
    return change(kernel)


@helpful
def cycle(*kernels: Kernel) -> Kernel:
    """Kernels in turn; the same as first >> second.

    kernels: in their order.

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


@helpful
def mixture(*pairs: tuple[Kernel, float]) -> Kernel:
    """One of several kernels a step: pairs (kernel, weight).

    pairs: of a kernel and its weight each.

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


@helpful
def repeat(kernel: Kernel, times: int) -> Kernel:
    """A kernel several times in a row.

    kernel: what is repeated.
    times: how often.

    Example:
        >>> print((sm.Gibbs("k") >> sm.repeat(sm.Metropolis("mu"), 5)).text())
        Gibbs('k') >> repeat(Metropolis('mu'), 5)
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"repeat({kernel!r}): give a kernel such as sm.Gibbs('k').")
    return Repeat(kernel, whole(times, "times", "how often, at least 1"))


@helpful
def when(predicate, kernel: Kernel) -> Kernel:
    """A kernel only where predicate(state) holds, which the kernel must not change.

    That it does not is checked at every step: a kernel that could leave the set it runs on would
    not leave the posterior fixed.

    predicate(state) -> bool: where the kernel moves.
    kernel: that moves there.

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
