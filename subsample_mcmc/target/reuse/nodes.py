"""Sums of the whole blocks of rows, kept, so that sums over these rows and more read the others.

A sum is the root of a tree of blocks of 256 rows. Rows that are appended leave the nodes of whole
blocks as they are, of which some twenty stand for all: with these, only what lies behind is read,
and the sum is that of all rows made anew, to the last bit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.target.dyadic import BLOCK, Node, Tree, blocks_of, in_threads

MOST_BYTES = 1 << 26  # of nodes that are kept beside the sums of a model


class WholeNodes:
    """Nodes of the whole blocks of some passes, by name: those of fewer rows, and those found.

    size: rows in all. before: what is known of fewer rows, by pass.
    """

    def __init__(self, size: int, before: dict[str, list[Node]] | None = None):
        self.size, self.whole = size, size // BLOCK
        self.before, self.found = before or {}, dict[str, list[Node]]()

    def first_unknown(self, name: str) -> int:
        """The block from which on rows must be read."""
        return max(((i + 1) << level for level, i, _ in self.before.get(name, ())), default=0)

    def root(
        self, name: str, part: Callable[[int, int], Tree], combine: Any = np.add
    ) -> np.ndarray:
        """The sum over all rows, in memory; part(first, last): the tree of some blocks."""
        tree = in_threads(part, self.first_unknown(name), self.whole, combine)
        return self.end(name, tree, in_threads(part, self.whole, blocks_of(self.size), combine))

    def end(self, name: str, tree: Tree, rest: Tree) -> np.ndarray:
        """The same of trees of the whole blocks that were read, and of the last one if it is short.

        What is known of those before is added.
        """
        tree.merge(self.before.get(name, ()))
        self.found[name] = tree.nodes()
        tree = tree.copy()
        tree.merge(rest.nodes())
        return tree.root(blocks_of(self.size))

    def kept(self) -> dict[str, list[Node]] | None:
        """What was found, if it is not too much to keep."""
        many = sum(value.nbytes for nodes in self.found.values() for *_, value in nodes)
        return self.found if many <= MOST_BYTES else None


def root_of(
    nodes: WholeNodes | None, name: str, part: Callable[[int, int], Tree], blocks: int,
    combine: Any = np.add,
) -> np.ndarray:  # fmt: skip
    """The sum of so many blocks; nodes: where those of this pass are kept, by its name."""
    if nodes is None:
        return in_threads(part, 0, blocks, combine).root(blocks)
    return nodes.root(name, part, combine)


def pass_name(what: str, keep: Any) -> str:
    """Of a pass over all rows, over those that are raced, or over the few others."""
    if not len(getattr(keep, "outliers", ())):
        return what
    return f"{what}, {'raced' if keep.others else 'few'}"


def as_tuple(nodes: dict[str, list[Node]] | None) -> Any:
    """Nodes as plain tuples; see `from_tuple`."""
    if nodes is None:
        return None
    return tuple((name, tuple(map(tuple, some))) for name, some in nodes.items())


def from_tuple(value: Any) -> dict[str, list[Node]] | None:
    """The inverse of `as_tuple`."""
    return None if value is None else {name: list(some) for name, some in value}
