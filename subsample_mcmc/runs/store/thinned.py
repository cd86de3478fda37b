"""Blocks of which not every draw is kept: sm.sample(keep={"z": 100}).

Draws 0, 100, 200, ... of a chain are, wherever a chunk of draws, a frame or a resumed run begins:
how many of them lie in a range of draws follows from where it begins.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import StoreError


class ThinnedBlock(NamedTuple):
    """A block, and of how many draws one is kept."""

    name: str
    discrete: bool
    shape: tuple[int, ...]
    every: int

    @property
    def length(self) -> int:
        """Numbers in it."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def kind(self) -> str:
        """As files have them."""
        return "<i8" if self.discrete else "<f8"

    @property
    def group(self) -> str:
        """Where ArviZ and files have its draws."""
        return f"posterior_every_{self.every}"

    def before(self, draw: int) -> int:
        """How many draws of it are kept before this one."""
        return -(-draw // self.every)

    def kept(self, first: int, draws: int) -> int:
        """How many of so many draws are kept."""
        return self.before(first + draws) - self.before(first)

    def rows(self, first: int) -> slice:
        """Which of some draws are kept; first: the number of the first of these."""
        return slice(-first % self.every, None, self.every)

    def empty(self, draws: int = 0) -> np.ndarray:
        """Room for so many kept draws."""
        return np.empty((draws, self.length), self.kind[1:])


def thinned_in(meta: dict[str, Any]) -> list[ThinnedBlock]:
    """Those of a run, from its header."""
    told = (meta.get("keep") or {}).get("every") or []
    return [ThinnedBlock(name, discrete, tuple(shape), k) for name, discrete, shape, k in told]


def joined(
    blocks: Sequence[ThinnedBlock], parts: Sequence[Sequence[np.ndarray]]
) -> tuple[np.ndarray, ...]:
    """Consecutive parts of the kept draws of each block, as one array each."""
    if not parts:
        return tuple(block.empty() for block in blocks)
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def as_bytes(
    blocks: Sequence[ThinnedBlock], given: Sequence[np.ndarray], first: int, draws: int
) -> bytes:
    """The kept ones of some draws as a frame holds them, block after block."""
    found = []
    given = given or [block.empty() for block in blocks]
    for block, values in zip(blocks, given, strict=True):
        wanted = block.kept(first, draws), block.length
        if values.shape != wanted or values.dtype.newbyteorder("<") != block.kind:
            raise ValueError(
                f"append was given {values.shape} of {values.dtype} of block {block.name!r}: of "
                f"draws {first} to {first + draws - 1}, {wanted} of {block.kind[1:]} are kept."
            )
        found.append(np.ascontiguousarray(values, block.kind).tobytes())
    return b"".join(found)


def from_bytes(
    blocks: Sequence[ThinnedBlock], data: bytes, at: int, first: int, draws: int
) -> tuple[np.ndarray, ...]:
    """The inverse of as_bytes, from a place in a frame's rows on."""
    found = []
    for block in blocks:
        count = block.kept(first, draws)
        flat = np.frombuffer(data, block.kind, count * block.length, at)
        found.append(flat.reshape(count, block.length))
        at += flat.nbytes
    return tuple(found)


def refuse_names(blocks: Sequence[ThinnedBlock], axes: Any) -> None:
    """Raise now what netCDF would refuse at the end: it uses each name of a group once."""
    for block in blocks:
        taken = {"chain", "draw"}.union(*(axes.of(b.name, len(b.shape)) for b in blocks))
        if block.name.replace("/", "|") in taken:
            raise StoreError(f"Block {block.name!r} has the name of a dimension: rename the block.")
