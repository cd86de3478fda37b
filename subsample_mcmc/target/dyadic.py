"""Sums over rows that do not depend on where the rows lie, nor on how many threads add them up.

Rows are added up in blocks of 256 consecutive ones, and blocks along a binary tree: node (level,
index) is node (level - 1, 2 index) plus node (level - 1, 2 index + 1). Where the data end, a node
without a right sibling stays as it is. So the order of all additions is known before anybody knows
which rows are where: whoever holds some whole blocks adds up what nodes these make, and the nodes
of all make the sum of all, the same to the last bit. (Pairwise summation; its rounding grows with
the logarithm of the number of blocks: Higham 1993.)
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import numpy as np

BLOCK = 256  # rows that are added up before any tree
# What stored runs say of their sums.
ORDER = f"blocks of {BLOCK}, moments of predictors in 32 lanes, along a binary tree"
FEWEST = 32  # blocks of one thread's part, at least
PARTS = 8  # parts for each thread, so that none waits long for the last

Node = tuple[int, int, np.ndarray]  # level, index, vector


def blocks_of(size: int) -> int:
    """How many blocks so many rows have; the last may be short."""
    return -(-size // BLOCK)


def whole_blocks(first: int, last: int, size: int) -> tuple[int, int]:
    """The blocks (first, last) that lie inside rows first .. last - 1, of `size` in all.

    The last block of all is whole where the data end. None: both are the same.
    """
    begin = blocks_of(first)
    end = blocks_of(size) if last == size else last // BLOCK
    return begin, max(begin, end)


def aligned(first: int, last: int) -> list[tuple[int, int]]:
    """The fewest nodes (level, index) that are made of blocks first .. last - 1."""
    found = []
    while first < last:
        low = first & -first if first else 1 << last.bit_length()
        level = min(low, 1 << (last - first).bit_length() - 1).bit_length() - 1
        found.append((level, first >> level))
        first += 1 << level
    return found


class RowBlocks:
    """The blocks of some rows: of all, or of runs of them, each cut from its own beginning.

    spans: runs (first, past) of rows, in order. Those that cover all rows may be cut anywhere where
    a block ends: their blocks are those of all rows.
    """

    def __init__(self, spans):
        self.spans = list(spans)
        self.ends = list(accumulate(blocks_of(last - first) for first, last in self.spans))
        self.count = self.ends[-1] if self.ends else 0

    def chunks(self, first: int, last: int, most: int) -> Iterator[tuple[int, int, int]]:
        """(block, first row, past its last row) of at most so many blocks of one run at a time."""
        while first < last:
            run = bisect_right(self.ends, first)
            low, high = self.spans[run]
            begin = low + BLOCK * (first - self.ends[run - 1] if run else first)
            past = min(first + most, last, self.ends[run])
            yield first, begin, min(begin + BLOCK * (past - first), high)
            first = past


class SumsAndMaxima:
    """Combines vectors whose first numbers are sums, and whose others are maxima."""

    def __init__(self, sums: int):
        self.sums = sums

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        found = np.maximum(left, right)
        np.add(left[..., : self.sums], right[..., : self.sums], out=found[..., : self.sums])
        return found


class Tree:
    """Vectors of blocks, combined along the tree as soon as two siblings are there.

    combine(left, right): of vectors, and of arrays of them; np.add, np.maximum or SumsAndMaxima.
    Block numbers are those among all rows: whoever holds rows from block k on counts from k.
    """

    def __init__(self, combine: Callable[[Any, Any], Any] = np.add):
        self.combine = combine
        self.known: dict[tuple[int, int], np.ndarray] = {}
        self.top = -1  # the highest level that there has been

    def add(self, level: int, index: int, value: np.ndarray) -> None:
        """Add a node, in any order; what is combined with it is there no more."""
        for up in range(level, self.top + 1):
            if (up, index >> (up - level)) in self.known:
                raise ValueError(f"node {index} of level {level} was added twice: add it once.")
        while (other := self.known.pop((level, index ^ 1), None)) is not None:
            value = self.combine(value, other) if index & 1 == 0 else self.combine(other, value)
            level, index = level + 1, index >> 1
        self.known[level, index] = value
        self.top = max(self.top, level)

    def add_blocks(self, first: int, values: np.ndarray) -> None:
        """Add blocks from `first` on: values (blocks, numbers)."""
        level = 0
        while len(values):
            if first & 1:
                self.add(level, first, values[0].copy())
                values, first = values[1:], first + 1
            if len(values) & 1:
                self.add(level, first + len(values) - 1, values[-1].copy())
                values = values[:-1]
            values = self.combine(values[0::2], values[1::2])
            level, first = level + 1, first >> 1

    def merge(self, nodes: Iterable[Node]) -> None:
        """Add the nodes of another tree, such as one of some rows that lie elsewhere."""
        for level, index, value in nodes:
            self.add(level, index, value)

    def fill(self, blocks: int, value: np.ndarray) -> None:
        """Add `value`, such as zeros, as each of the nodes that are missing of so many blocks."""
        ends = [(index << level, (index + 1) << level) for level, index, _ in self.nodes()]
        starts = [0, *(past for _, past in ends)]
        for first, last in zip(starts, [*(first for first, _ in ends), blocks], strict=True):
            for level, index in aligned(first, last):
                self.add(level, index, value)

    def copy(self) -> "Tree":
        """Another tree of the same nodes."""
        made = Tree(self.combine)
        made.known, made.top = dict(self.known), self.top
        return made

    def nodes(self) -> list[Node]:
        """What is there, in the order of the rows: (level, index, vector)."""
        order = sorted(self.known, key=lambda node: node[1] << node[0])
        return [(*node, self.known[node]) for node in order]

    def root(self, blocks: int) -> np.ndarray:
        """The sum of so many blocks, all of which must be there."""
        used = 0

        def value(level, index):
            nonlocal used
            if (level, index) in self.known:
                used += 1
                return self.known[level, index]
            middle = (2 * index + 1) << (level - 1) if level else 0
            if level == 0:
                raise ValueError(f"block {index} of {blocks} is missing: add it first.")
            left = value(level - 1, 2 * index)
            if middle >= blocks:
                return left
            return self.combine(left, value(level - 1, 2 * index + 1))

        if blocks < 1:
            raise ValueError(f"a sum of {blocks} blocks: there must be one, at least.")
        found = value((blocks - 1).bit_length(), 0)
        if used != len(self.known):
            raise ValueError(
                f"nodes of other than {blocks} blocks, or of the same block twice, were added."
            )
        return found


def sum_of_rows(values: np.ndarray) -> float:
    """The sum of one number for each row, along the tree."""
    return float(tree_of_rows(values).root(blocks_of(len(values)))[0])


def tree_of_rows(values: np.ndarray, first: int = 0) -> Tree:
    """The tree of one number for each row; first: the block that they begin with."""
    tree = Tree()
    tree.add_blocks(first, np.add.reduceat(values, np.arange(0, len(values), BLOCK))[:, None])
    return tree


# -------------------------------------------------------------------------------------- threads
def threads() -> int:
    """How many may add up at once: the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ranges(first: int, last: int, workers: int, fewest: int = FEWEST) -> list[tuple[int, int]]:
    """Parts (first, last) of some blocks, for so many threads; most are one node each."""
    length = max(fewest, (last - first) // (PARTS * workers))
    length = 1 << (length - 1).bit_length()
    ends = [*range(first - first % length + length, last, length), last]
    return list(zip([first, *ends], ends, strict=False)) if first < last else []


def each_part(
    part: Callable[[int, int], Any], first: int, last: int, fewest: int = FEWEST
) -> Iterator[Any]:
    """What part(first, last) returns of parts of some blocks, in their order; by all cores.

    fewest: blocks of one part, at least, whose work is worth a thread.
    """
    workers = threads()
    some = ranges(first, last, workers, fewest)
    if len(some) < 2 or workers < 2:  # to start threads would take as long
        yield part(first, last)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda one: part(*one), some)


def in_threads(
    part: Callable[[int, int], Tree], first: int, last: int, combine: Any = np.add,
    fewest: int = FEWEST,
) -> Tree:  # fmt: skip
    """The tree of blocks first .. last - 1: part(first, last) gives that of some of them.

    Parts are made by all cores; what they make does not depend on how many there are.
    """
    tree = Tree(combine)
    for found in each_part(part, first, last, fewest):
        tree.merge(found.nodes())
    return tree
