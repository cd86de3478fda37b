"""What of each draw is kept: all blocks, or some, and functions of the state.

A chain makes all blocks of some draws at a time, a tenth of a second's worth; what is kept of them
is taken there. Checkpoints hold whole states, so a run that keeps little goes on as any other.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from subsample_mcmc.numerics.compared import in_numbers, refuse_apart, value_of
from subsample_mcmc.numerics.digest import content
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, compiles, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.records import similar
from subsample_mcmc.runs.store.thinned import ThinnedBlock
from subsample_mcmc.target.axes import RESERVED
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.lookups.checked import blamed, told
from subsample_mcmc.target.lookups.guards import guarded_function, guarded_state
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.moved import some_states
from subsample_mcmc.target.user_functions import called_with

PLACES, MOST_COMPARED = 4, 8  # states in which functions are called in Python, too; their numbers


@dataclass(frozen=True, eq=False)
class KeptDraws:
    """Blocks that are kept, also of some draws only, and functions of the state; of a model."""

    model: Model
    names: tuple[str, ...]
    functions: dict[str, Callable] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of what these return
    every: dict[str, int] = field(default_factory=dict)  # by block: of so many draws, one

    @property
    def everything(self) -> bool:
        """Are all draws kept as they are."""
        return self.names == self.model.names and not self.functions

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What is kept, and where it stands in arrays of integers and of floats."""
        made, at = [], {True: 0, False: 0}
        for name in self.names:
            known = self.model.variables[name].block
            made.append(known._replace(start=at[known.discrete]))
            at[known.discrete] += known.length
        for name, shape in self.shapes.items():
            made.append(Block(name, False, shape, at[False]))
            at[False] += made[-1].length
        return tuple(made)

    @cached_property
    def thinned(self) -> list[ThinnedBlock]:
        """Blocks of which not every draw is kept."""
        known = {name: self.model.variables[name].block for name in self.every}
        return [ThinnedBlock(n, b.discrete, b.shape, self.every[n]) for n, b in known.items()]

    def thinned_of(self, ints: np.ndarray, floats: np.ndarray, first: int) -> tuple:
        """What is kept of these blocks of some draws; first: the number of the first of them."""
        found = []
        for some in self.thinned:
            block = self.model.variables[some.name].block
            part = (ints if block.discrete else floats)[some.rows(first)]
            found.append(part[:, block.start : block.start + block.length].copy())
        return tuple(found)

    def of(self, ints: np.ndarray, floats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is kept of some draws: of all integers and all floats, arrays (draws, ...)."""
        known = [self.model.variables[name].block for name in self.names]
        spans = {
            kind: [np.arange(b.start, b.start + b.length) for b in known if b.discrete == kind]
            for kind in (True, False)
        }
        none = np.zeros(0, dtype=np.int64)
        kept = [
            values[:, np.concatenate([none, *spans[kind]])]
            for kind, values in ((True, ints), (False, floats))
        ]
        made = [self.values(name, ints, floats) for name in self.functions]
        return kept[0], np.concatenate([kept[1], *made], axis=1)

    @cached_property
    def loops(self) -> dict[str, tuple[Any, bool]]:
        """By function: its loop over draws, and whether it is compiled; found out once a run."""
        found, state = {}, self.model.state(self.model.ints, self.model.floats)
        for name, function in self.functions.items():
            compiled = not DISABLED and not compiles(function, (state,), FLAGS)
            called = jit(function, flags=FLAGS, user=True, inner="always", checked=True)
            single = self.shapes[name] == ()
            found[name] = loop_of(called, single) if compiled else plain_loop(function), compiled
        return found

    def values(self, name: str, ints: np.ndarray, floats: np.ndarray) -> np.ndarray:
        """What a function says of some draws: an array (draws, numbers)."""
        function, model = self.functions[name], self.model
        own = model.ints.copy(), model.floats.copy()
        state, (fill, compiled) = model.state(*own), self.loops[name]
        out = np.empty((len(ints), int(np.prod(self.shapes[name], dtype=int))))
        try:
            fill(ints, floats, *own, state, out)
        except IndexError as error:
            role, guarded, place = (
                f"keep[{name!r}]",
                guarded_state(state),
                f" at {model.show(*own)}",
            )
            found = blamed(role, guarded_function(function), (guarded,), place)
            raise (told(role, found, place) if compiled else found or error) from None
        return out


@memoised
def loop_of(function: Any, single: bool) -> Any:
    """fill(...): a function of the state at each of some draws, every look-up checked."""
    if single:

        @jit(user=True, inner=True)
        def put(state, row):
            row[0] = function(state)

    else:

        @jit(user=True, inner=True)
        def put(state, row):
            found = function(state)
            if found.size != len(row):
                raise ValueError("a function in keep returned an array of another shape")
            for i in range(len(row)):
                row[i] = found.flat[i]

    @jit(user=True, checked=True)
    def fill(drawn_ints, drawn_floats, ints, floats, state, out):
        for d in range(len(out)):
            for i in range(len(ints)):
                ints[i] = drawn_ints[d, i]
            for i in range(len(floats)):
                floats[i] = drawn_floats[d, i]
            put(state, out[d])

    return fill


def plain_loop(function: Callable) -> Callable:
    """The same in Python."""

    def fill(drawn_ints, drawn_floats, ints, floats, state, out):
        for d in range(len(out)):
            ints[:], floats[:] = drawn_ints[d], drawn_floats[d]
            found = np.ravel(function(state))
            if found.size != out.shape[1]:
                raise ValueError("a function in keep returned an array of another shape")
            out[d] = found

    return fill


def kept_of(given: Any, model: Model) -> KeptDraws:
    """What a user asks to keep, checked: None, names, or a dict of names and functions."""
    if given is None:
        return KeptDraws(model, model.names)
    if isinstance(given, Mapping):
        asked = dict(given)
    elif isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"keep={given!r:.60}: give names of blocks, such as {model.names[:1]!r}.")
    else:
        asked = dict.fromkeys(given, True)
    functions: dict[str, Callable] = {}
    for name, value in asked.items():
        if callable(value):
            if name in model.names or name in RESERVED or not isinstance(name, str):
                raise ValueError(f"keep[{name!r}]: a function needs a name that no block has.")
            functions[name] = getattr(value, "py_func", value)
        elif name not in model.names:
            raise ValueError(
                f"keep names {name!r}, which is no block of {model.names}."
                f"{similar(str(name), model.names)}"
            )
        elif not isinstance(value, bool) and (not isinstance(value, int) or value < 1):
            raise TypeError(
                f"keep[{name!r}]={value!r}: give True, or k, a whole number, to keep every k-th "
                "draw, or a function under a new name."
            )
    names = tuple(n for n in model.names if n in asked and asked[n] == 1)  # True, or every one
    every = {n: int(asked[n]) for n in model.names if n in asked and asked[n] > 1}
    if not names and not functions and not every:
        raise ValueError("keep is empty: name the blocks whose draws you want.")
    for name in (*names, *every):
        place = model.variables[name].place
        rulers = (n for n, v in model.variables.items() if v.support and v.block.start == place)
        if place >= 0 and (ruler := next(rulers)) not in names:
            raise ValueError(f"keep: {ruler} says how long {name} is: keep it, too, of each draw.")
    if taken := sorted(functions.keys() & {a for axes in model.axes.dims.values() for a in axes}):
        raise ValueError(f"keep[{taken[0]!r}]: an axis of a block has this name. Give another.")
    shapes = {name: shape_of(name, function, model) for name, function in functions.items()}
    kept = KeptDraws(model, names, functions, shapes, every)
    for name in functions:
        check_same(kept, name)
    return kept


def check_same(kept: KeptDraws, name: str) -> None:
    """Refuse a function that says something else where it is compiled, in one of some states."""
    model, rng = kept.model, np.random.default_rng(6)
    if DISABLED or not kept.loops[name][1]:
        return
    for number, (ints, floats) in enumerate(some_states(model, PLACES, rng)):
        try:
            compiled = kept.values(name, ints[None], floats[None])[0]
        except Exception:
            if not number:
                raise
            continue  # where no chain may come
        for i, value in enumerate(compiled[:MOST_COMPARED]):

            def read(kind, i=i, state=model.state(ints, floats)):
                return value_of(lambda s: np.ravel(kept.functions[name](s))[i],
                                (in_numbers(state, kind),), (state,))  # fmt: skip

            which = f"keep[{name!r}]" + (f", number {i}," if len(compiled) > 1 else "")
            place = f" at {model.show(ints, floats)}"
            refuse_apart(read, float(value), partial(tuple, (which, place)))


def shape_of(name: str, function: Callable, model: Model) -> tuple[int, ...]:
    """What a function returns, seen by calling it once."""
    state = model.state(model.ints.copy(), model.floats.copy())
    role, guarded = f"keep[{name!r}]", guarded_state(state)
    place = " in the initial state"
    if error := blamed(role, guarded_function(function), (guarded,), place):
        raise error
    value = called_with(function, f"keep[{name!r}]", {"state": state})
    if isinstance(value, list | tuple):
        raise TypeError(
            f"keep[{name!r}] returned {value!r:.60}: of several numbers return np.array([...])."
        )
    found = np.asarray(value)
    if found.dtype.kind not in "biuf" or found.size == 0:
        raise TypeError(
            f"keep[{name!r}] returned {found.tolist()!r:.60}: it must return a number, or an array "
            "of numbers."
        )
    return found.shape


def fingerprints(kept: KeptDraws) -> dict[str, str]:
    """What must be the same for a run to go on; nothing for one that keeps all."""
    if kept.everything:
        return {}
    functions = [f"{name}={content(function)}" for name, function in kept.functions.items()]
    every = [f"{name} of every {k}" for name, k in kept.every.items()]
    return {"what is kept": " ".join([*kept.names, *functions, *every])}
