"""A user's own kernel: a function of (rng, state, data) that updates its blocks in place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.errors import CompileError
from subsample_mcmc.kernels.base import BAD_PROPOSAL, GUARANTEES, Leaf
from subsample_mcmc.numerics.jit import FLAGS, compiles, jit
from subsample_mcmc.target.constraints import inside
from subsample_mcmc.target.user_functions import plain


class CustomTools(NamedTuple):
    """What a user's kernel works with, and what its writing is checked by."""

    state: Any  # writable where declared
    data: Any
    words: np.ndarray  # statistics: steps, then the user's ...
    told: np.ndarray  # ... which are floats
    ints: tuple[np.ndarray, ...]  # the discrete blocks that it writes
    floats: tuple[np.ndarray, ...]  # and the continuous ones
    supports: np.ndarray  # one for each of ints: the number of values
    constraints: np.ndarray  # one row for each of floats: kind, low, high
    leaf: int


@dataclass(frozen=True, eq=False)
class Custom(Leaf):
    """See sm.kernel."""

    own_target: ClassVar[bool] = True

    function: Any
    blocks: tuple[str, ...]
    stats: tuple[str, ...]
    guarantee: str = "exact"

    @property
    def writes(self) -> tuple[str, ...]:
        return self.blocks

    @property
    def label(self) -> str:
        return self.function.__name__

    @property
    def columns(self):  # type: ignore[override]
        """A count of steps, and what the user declared."""
        return (("steps", "i8"), *((name, "f8") for name in self.stats))

    def text(self) -> str:
        return f"{self.function.__name__}({', '.join(self.blocks)})"

    def facts(self, model=None) -> dict[str, Any]:
        """Adds who vouches for the guarantee, and whether it compiles."""
        told = super().facts(model) | {"kind": "user's kernel", "note": "as its author says"}
        if model is not None and (reason := self.obstacle(model)):
            told["note"] += f"; the chain's loop runs in Python: {reason.splitlines()[0]}"
        return told

    def obstacle(self, model) -> str:
        """Why the function cannot be compiled; empty if it can. Refuses undeclared writes."""
        state, _ = writable(model, model.ints.copy(), model.floats.copy(), self.blocks)
        reason = compiles(self.function, (np.random.default_rng(0), state, model.data), FLAGS)
        if "may only read" in reason:
            raise CompileError(
                f"{reason}\nThe kernel declares writes={self.blocks}: only these may change. "
                "Declare the other one too, or leave it alone."
            )
        return reason

    def build(self, model) -> Any:
        """The compiled step, or the plain one."""
        compiled = not self.obstacle(model)
        function = jit(self.function, flags=FLAGS, user=True, inner=True)
        function = function if compiled else self.function
        # user=True: what the function allocates and returns is counted, and released.
        wrap = jit(inner=True, user=True) if compiled else lambda f: f
        if not self.stats:

            @wrap
            def silent(chain, tools):
                tools.words[0] += 1
                function(chain.rng, tools.state, tools.data)

            return checked(silent, compiled, wrap)

        note = single(wrap) if self.told(model) == () else several(len(self.stats) - 1, wrap)

        @wrap
        def telling(chain, tools):
            tools.words[0] += 1
            note(function(chain.rng, tools.state, tools.data), tools.told)

        return checked(telling, compiled, wrap)

    def check(self, model) -> None:
        """Refuse a function that does not return its statistics."""
        if self.stats:
            self.told(model)

    def told(self, model) -> tuple[int, ...]:
        """The shape of what the function returns, seen by calling it once on a copy."""
        state, _ = writable(model, model.ints.copy(), model.floats.copy(), self.blocks)
        with np.errstate(all="ignore"):
            told = plain(self.function, "kernel", "mine(rng, state, data)")(
                np.random.default_rng(0), state, model.data
            )
        shape, count = np.shape(told), len(self.stats)
        if told is None or not (shape == (count,) or (shape == () and count == 1)):
            raise TypeError(
                f"kernel {self.label} returned {told!r}: it must return one number for each of "
                f"stats={self.stats}."
            )
        return shape

    def bind(self, model, run) -> CustomTools:
        """Its state, writable where declared, and its statistics."""
        state, parts = writable(model, run.ints, run.floats, self.blocks)
        leaf = run.leaf
        words = run.next_words(1 + len(self.stats))
        supports = np.array([model.variables[name].support for name in self.blocks], np.int64)
        ints = tuple(p for p in parts if p.dtype == np.int64) or (np.zeros(0, dtype=np.int64),)
        floats = tuple(p for p in parts if p.dtype == float) or (np.zeros(0),)
        supports = supports[supports > 0] if np.any(supports > 0) else np.zeros(1, np.int64)
        sets = [v.constraint for v in (model.variables[n] for n in self.blocks) if not v.support]
        constraints = np.array([(s.kind, s.low, s.high) for s in sets] or [(0, 0, 0)], float)
        told = words[1:].view(float)
        return CustomTools(
            state, model.data, words, told, ints, floats, supports, constraints, leaf
        )  # fmt: skip


def single(wrap):
    """note(told, words) of one number."""

    @wrap
    def note(told, words):
        words[0] = told

    return note


def several(at: int, wrap):
    """note(told, words) of numbers 0 .. at, which need not be of one type."""
    before = several(at - 1, wrap) if at > 0 else None
    if before is None:

        @wrap
        def first(told, words):
            words[at] = told[at]

        return first

    @wrap
    def note(told, words):
        before(told, words)
        words[at] = told[at]

    return note


def checked(step, compiled: bool, wrap):
    """A step that stops the chain when it leaves a block outside its support or constraint."""
    within = inside if compiled else getattr(inside, "py_func", inside)

    @wrap
    def careful(chain, tools):
        step(chain, tools)
        good = True
        for k in range(len(tools.ints)):
            for value in tools.ints[k]:
                good = good and 0 <= value < tools.supports[k]
        for k in range(len(tools.floats)):
            constraint = tools.constraints[k]
            kind, low, high = constraint[0], constraint[1], constraint[2]
            good = good and within(kind, low, high, tools.floats[k])
        if not good:
            chain.now[0].code, chain.now[0].kernel = BAD_PROPOSAL, tools.leaf

    return careful


def writable(model, ints, floats, blocks) -> tuple[Any, list[np.ndarray]]:
    """The state with only these blocks open to writing; and these blocks, flat."""
    state, parts = model.state(ints, floats), []
    for name in blocks:
        block = model.variables[name].block
        whole = ints if block.discrete else floats
        flat = whole[block.start : block.start + block.length]
        parts.append(flat)
        state = state._replace(**{name: flat.reshape(block.shape or (1,))})
    return state, parts


def kernel(writes, stats=(), guarantee: str = "exact") -> Callable[[Any], Custom]:
    """Decorate mine(rng, state, data), which updates the blocks in `writes` in place.

    rng is a numpy Generator; other blocks are read-only. It is compiled; if it cannot be, the
    chain's loop runs in Python, with the same draws up to rounding. Some steps are tried first, on
    copies, with every look-up checked.

    writes: the name of a block, or several.
    stats: names of numbers that mine returns, one for each; without any it returns None.
    guarantee: what you know it leaves fixed ("exact", "unadjusted", ...); nothing here can check
        that for you, except a small model whose posterior you know.

    Example:
        >>> @sm.kernel(writes="mu")
        ... def refresh(rng, state, data):
        ...     state.mu[0] = data.y.mean() + rng.standard_normal() / np.sqrt(len(data.y))
        >>> print((refresh >> sm.Gibbs("k")).text())
        refresh(mu) >> Gibbs('k')
    """
    if callable(writes) or not writes:
        raise TypeError('kernel(writes=...): name the blocks it updates: @sm.kernel(writes="mu").')
    if guarantee not in GUARANTEES:
        raise ValueError(f"kernel(guarantee={guarantee!r}): it must be one of {GUARANTEES}.")
    names = (writes,) if isinstance(writes, str) else tuple(writes)
    told = (stats,) if isinstance(stats, str) else tuple(stats)

    def decorate(function) -> Custom:
        plain(function, "kernel", "mine(rng, state, data)")
        return Custom(function, names, told, guarantee)

    return decorate
