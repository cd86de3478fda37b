"""The continuous blocks that one move changes, as one vector of free coordinates.

Most kernels move one block. Where several move as one, each keeps its own constraint: their free
coordinates stand one after the other, in the order in which the blocks are named, and log |dx/du|
adds up. Candidates are a range of the state's floats, from the first of these blocks to the end of
the last; blocks in that range which are not named stand still, as candidates hold them as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.records import record
from subsample_mcmc.target.blocks import Variable, draw_discrete
from subsample_mcmc.target.constraints import (
    CHOLESKY,
    COORDINATES,
    INTERVAL,
    ORDERED,
    SIMPLEX,
    SIMPLEXES,
    inside,
    to_block,
    to_free,
)
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.population import read_only

block_at, free_at = (getattr(f, "py_func", f) for f in (to_block, to_free))
HOW = {kind: f"{text} " for text, kind in COORDINATES.items()}
HOW |= {INTERVAL: "logit ", SIMPLEX: "log ratios of ", ORDERED: "log differences of "}
HOW |= {SIMPLEXES: HOW[SIMPLEX], CHOLESKY: "atanh of partial correlations of "}


class BlockCoordinates(NamedTuple):
    """Constraints as numbers, one for each block, and room for two points."""

    kinds: np.ndarray
    limits: np.ndarray  # (blocks, 2) low and high
    ends: np.ndarray  # (blocks, 4) from and to in the free coordinates, from and to in a candidate
    u: np.ndarray  # free coordinates of the current values
    v: np.ndarray  # and of the proposal
    place: int  # in the integers: the site that tells how long the last block is; -1: none does
    lengths: np.ndarray  # by its value: free coordinates in use


@dataclass(frozen=True)
class Moved:
    """Some continuous blocks, in the order in which a kernel names them."""

    variables: tuple[Variable, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.block.name for v in self.variables)

    @cached_property
    def block(self) -> Block:
        """The range of the floats that candidates are values of, as if it were one block."""
        start = min(v.block.start for v in self.variables)
        length = max(v.block.start + v.block.length for v in self.variables) - start
        return Block("+".join(self.names), False, (length,), start)

    @property
    def between(self) -> int:
        """Numbers in that range that stand still."""
        return self.block.length - sum(v.block.length for v in self.variables)

    @cached_property
    def counts(self) -> list[int]:
        """Free coordinates of each block; of one that varies in length, of the longest."""
        return [v.constraint.free_length(v.block.length) for v in self.variables]

    @property
    def free(self) -> int:
        """Free coordinates in all."""
        return sum(self.counts)

    @property
    def varies(self) -> bool:
        """Does the last block vary in length."""
        return self.variables[-1].place >= 0

    @property
    def lengths(self) -> list[int]:
        """Free coordinates in use, one number for each length of the last block."""
        last = self.variables[-1]
        before = sum(self.counts[:-1])
        return [before + int(n) for n in last.lengths] if self.varies else [self.free]

    @cached_property
    def ends(self) -> np.ndarray:
        """Where each block stands: from and to in the free coordinates and in a candidate."""
        after = np.cumsum(self.counts)
        start = np.array([v.block.start - self.block.start for v in self.variables])
        length = [v.block.length for v in self.variables]
        return np.stack([after - self.counts, after, start, start + length], axis=1)

    def coordinates(self) -> BlockCoordinates:
        """What compiled steps read of it."""
        to = [v.constraint for v in self.variables]
        u, v = np.zeros((2, self.free))
        return BlockCoordinates(
            np.array([c.kind for c in to]), np.array([(c.low, c.high) for c in to]), self.ends,
            u, v, self.variables[-1].place,
            np.array(self.lengths if self.varies else [], dtype=np.int64),
        )  # fmt: skip

    def candidates(self, model, count: int = 2) -> np.ndarray:
        """Room for candidates, with what stands still where the last block is shorter."""
        return np.tile(self.of(model.floats), (count, 1))

    def of(self, floats: np.ndarray) -> np.ndarray:
        """The range of the floats, a view."""
        return floats[self.block.start : self.block.start + self.block.length]

    def views(self, values: np.ndarray, writeable: bool = True) -> Any:
        """A candidate as users' functions see it: an array; of several blocks, a record of them."""
        parts = []
        for v, (_, _, first, last) in zip(self.variables, self.ends, strict=True):
            part = values[first:last].reshape(v.block.shape or (1,))
            parts.append(part if writeable else read_only(part))
        return parts[0] if len(parts) == 1 else record(*self.names)(*parts)

    def blocks_at(self, u: np.ndarray, x: np.ndarray) -> float:
        """Write the blocks at free coordinates u into a candidate, in plain Python; log |dx/du|."""
        return sum(
            block_at(v.constraint.kind, v.constraint.low, v.constraint.high, u[a:b], x[c:d])
            for v, (a, b, c, d) in zip(self.variables, self.ends, strict=True)
        )

    def free_at(self, x: np.ndarray) -> np.ndarray:
        """Free coordinates of a candidate, in plain Python."""
        u = np.zeros(self.free)
        for v, (a, b, c, d) in zip(self.variables, self.ends, strict=True):
            free_at(v.constraint.kind, v.constraint.low, v.constraint.high, x[c:d], u[a:b])
        return u

    # --------------------------------------------------------------------------------- in words
    def sizes(self, count: int | None = None) -> str:
        """How many free coordinates there are, in words; count: where the last block varies."""
        count = self.free if count is None else count
        if len(self.names) == 1:
            return f"block {self.names[0]!r} has {count} free coordinates"
        counts = [*self.counts[:-1], count - sum(self.counts[:-1])]
        parts = [f"{n!r} ({c})" for n, c in zip(self.names, counts, strict=True)]
        return f"blocks {', '.join(parts[:-1])} and {parts[-1]} have {count} free coordinates"

    def text(self) -> str:
        """The free coordinates, by block: beta[3], log sigma."""
        parts = []
        for v, count in zip(self.variables, self.counts, strict=True):
            several = f"[{count}]" if v.block.shape else ""
            parts.append(f"{HOW.get(v.constraint.kind, '')}{v.block.name}{several}")
        return ", ".join(parts)


def moved(model, names: tuple[str, ...]) -> Moved:
    """The blocks of a model by their names."""
    return Moved(tuple(model.variables[name] for name in names))


# ----------------------------------------------------------------------------- in compiled steps
@jit(inner="always")
def in_use(to, ints):
    """(u, v, which): free coordinates that the blocks have now, and the model they belong to."""
    if to.place < 0:
        return to.u, to.v, 0
    which = ints[to.place]
    return to.u[: to.lengths[which]], to.v[: to.lengths[which]], which


@jit(inner="always")
def all_to_free(to, x, u):
    """Write the free coordinates of a candidate into u: see to_free."""
    if len(to.kinds) == 1:
        to_free(to.kinds[0], to.limits[0, 0], to.limits[0, 1], x, u)
        return
    for k in range(len(to.kinds)):
        last = min(to.ends[k, 1], len(u))
        part, block = u[to.ends[k, 0] : last], x[to.ends[k, 2] : to.ends[k, 3]]
        to_free(to.kinds[k], to.limits[k, 0], to.limits[k, 1], block, part)


@jit(inner="always")
def all_to_block(to, u, x):
    """Write the blocks at free coordinates u into a candidate; log |dx/du|, -inf outside."""
    jacobian = 0.0
    if len(to.kinds) == 1:  # all of both arrays: cutting them took 20 ns of a step
        return to_block(to.kinds[0], to.limits[0, 0], to.limits[0, 1], u, x)
    for k in range(len(to.kinds)):
        last = min(to.ends[k, 1], len(u))
        part, block = u[to.ends[k, 0] : last], x[to.ends[k, 2] : to.ends[k, 3]]
        jacobian += to_block(to.kinds[k], to.limits[k, 0], to.limits[k, 1], part, block)
    return jacobian


@jit(inner="always")
def all_inside(to, x):
    """Do the blocks of a candidate lie in their sets."""
    for k in range(len(to.kinds)):
        block = x[to.ends[k, 2] : to.ends[k, 3]]
        if not inside(to.kinds[k], to.limits[k, 0], to.limits[k, 1], block):
            return False
    return True


# ------------------------------------------------------------------------------ other states
def changed(variable, values: np.ndarray, rng, size: float = 0.0) -> np.ndarray:
    """Other values of a block, every one of them allowed, and none as it was if there are two.

    size: of the steps of free coordinates, up and down, or in tenths of their size where they are
    large; 0: small ones, all upwards.
    """
    if variable.block.discrete:
        steps = rng.integers(1, max(variable.support, 2), size=len(values))
        return (values + steps) % variable.support
    blocks, other = Moved((variable,)), np.zeros(len(values))
    u = blocks.free_at(values)
    steps = rng.uniform(0.2, 1.0, len(u))
    if size > 0.0:
        steps *= rng.choice([-size, size], len(u)) * np.maximum(1.0, 0.1 * np.abs(u))
    blocks.blocks_at(u + steps, other)
    return other


def change_all(model, ints: np.ndarray, floats: np.ndarray, rng, size: float = 0.0) -> None:
    """Another state, with nothing at zero that might hide a dependence; size: see `changed`."""
    for v in model.variables.values():
        if v.place < 0:
            flat = (ints if v.block.discrete else floats)[v.block.start :]
            flat[: v.block.length] = changed(v, flat[: v.block.length], rng, size)


def some_states(model, count: int, rng) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(ints, floats) of the initial state, and of others, in which every block is another."""
    for number in range(count):
        ints, floats = model.ints.copy(), model.floats.copy()
        if number:
            with np.errstate(all="ignore"):
                change_all(model, ints, floats, rng)
                draw_discrete(model, ints, rng)
        yield ints, floats
