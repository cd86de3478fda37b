"""Components that a draw does not have, where blocks vary in length: nan in files, as in views.

A chain keeps its initial values there. Whoever reads a file by ArviZ would take them for draws, so
they are nan in it, and stand once beside it; what is read back has them again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.runs.store.thinned import ThinnedBlock
from subsample_mcmc.target.layout import Layout


class PaddedBlock(NamedTuple):
    """Where a block that varies in length stands among the floats of a draw."""

    start: int
    length: int
    by: int  # the place among the integers of what says how long it is ...
    counts: np.ndarray  # ... and how long, by its value

    def unused(self, ints: np.ndarray) -> np.ndarray:
        """Of each draw, which components it does not have: (draws, length)."""
        return np.arange(self.length) >= self.counts[ints[:, self.by]][:, None]


def padded_in(meta: dict[str, Any], layout: Layout) -> list[PaddedBlock]:
    """The blocks of a run that vary in length, and are kept with what says how long."""
    places = {name: (start, int(np.prod(shape))) for name, _, shape, start in layout.blocks}
    return [
        PaddedBlock(*places[name], places[told["by"]][0], np.asarray(told["lengths"]))
        for name, told in (meta.get("lengths") or {}).items()
        if name in places and told["by"] in places
    ]


def padded_thinned(
    meta: dict[str, Any], layout: Layout, blocks: Sequence[ThinnedBlock]
) -> list[list[PaddedBlock]]:
    """The same of each block of which not every draw is kept, whose floats stand alone: or none."""
    places = {name: start for name, _, _, start in layout.blocks}
    lengths = meta.get("lengths") or {}
    return [
        [PaddedBlock(0, block.length, places[told["by"]], np.asarray(told["lengths"]))]
        if (told := lengths.get(block.name)) and told["by"] in places else []
        for block in blocks
    ]  # fmt: skip


def as_seen(blocks: list[PaddedBlock], rows: dict, held: np.ndarray) -> dict:
    """Some draws, with nan for components that they do not have.

    held: by float of a draw, the value that stood there; nan: not known yet, and noted here. One
    that is another stays: what is read back is what was drawn.
    """
    if not blocks:
        return rows
    floats = rows["floats"].copy()
    for block in blocks:
        part = floats[:, block.start : block.start + block.length]
        own = held[block.start : block.start + block.length]
        unused = block.unused(rows["ints"])
        for j in np.flatnonzero(unused.any(axis=0) & np.isnan(own)):
            own[j] = part[np.argmax(unused[:, j]), j]
        part[unused & (part == own)] = np.nan
    return rows | {"floats": floats}


def as_drawn(blocks: list[PaddedBlock], rows: dict, held: np.ndarray) -> None:
    """The inverse of as_seen, in place."""
    for block in blocks:
        part = rows["floats"][:, block.start : block.start + block.length]
        own = held[block.start : block.start + block.length]
        part[:] = np.where(np.isnan(part) & block.unused(rows["ints"]), own, part)
