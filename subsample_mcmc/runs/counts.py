"""What kernels counted in every draw, in as little memory as it needs.

A chain's loop writes 8-byte words, one column for each statistic. Most columns say the same in
every draw, or are small numbers: here a column is one value where it never changed, else an array
of the smallest integers that hold it. They are read as the 8-byte words that they were.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from subsample_mcmc.target.layout import Layout

SIZES = (np.int8, np.int16, np.int32)


def narrow(column: np.ndarray) -> Any:
    """A column of words: its one value, or a copy in as few bytes as hold all of them."""
    low, high = column.min(), column.max()
    if low == high:
        return int(low)
    for size in SIZES:
        if np.iinfo(size).min <= low and high <= np.iinfo(size).max:
            return column.astype(size)
    return column.copy()


def joined(parts: list, lengths: list[int]) -> Any:
    """One column of several, one after the other."""
    first = parts[0]
    if all(isinstance(part, int) and part == first for part in parts):
        return first
    arrays = [
        np.full(n, part) if isinstance(part, int) else part
        for part, n in zip(parts, lengths, strict=True)
    ]
    whole = np.concatenate(arrays)
    return narrow(whole) if whole.itemsize == 8 else whole


class Counts:
    """The words of consecutive draws of one chain."""

    def __init__(self, length: int, columns: list):
        self.length, self.columns = length, columns

    @classmethod
    def of(cls, words: np.ndarray) -> "Counts":
        """From an array (draws, words)."""
        if not len(words):
            return cls(0, [0] * words.shape[1])
        return cls(len(words), [narrow(words[:, i]) for i in range(words.shape[1])])

    @classmethod
    def joined(cls, parts: "Sequence[Counts]") -> "Counts":
        """Of several runs of draws, one after the other."""
        parts = [part for part in parts if part.length] or list(parts[:1])
        lengths = [part.length for part in parts]
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(sum(lengths), [joined(list(column), lengths) for column in columns])

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return sum(c.nbytes for c in self.columns if not isinstance(c, int))

    def column(self, word: int) -> np.ndarray:
        """One word of every draw."""
        found = self.columns[word]
        if isinstance(found, int):
            return np.full(self.length, found, dtype=np.int64)
        return found.astype(np.int64)

    def words(self) -> np.ndarray:
        """All of them, an array (draws, words)."""
        found = np.empty((self.length, len(self.columns)), dtype=np.int64)
        for i, column in enumerate(self.columns):
            found[:, i] = column
        return found

    def total(self, word: int, kind: str) -> float:
        """The sum over all draws."""
        found = self.columns[word]
        if kind == "f8":
            if isinstance(found, int) and found == 0:
                return 0.0
            return float(self.column(word).view(float).sum())
        return found * self.length if isinstance(found, int) else int(found.sum(dtype=np.int64))


class KernelStats(Mapping):
    """What one kernel counted: arrays (chains, draws) by name, made when they are asked for."""

    def __init__(self, fields: dict[str, tuple[int, str]], chains: Sequence[Counts], length: int):
        self.fields, self.chains, self.length = fields, chains, length
        self.known: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.known:
            word, kind = self.fields[name]
            rows = [chain.column(word)[: self.length] for chain in self.chains]
            self.known[name] = np.stack(rows).view(kind)
        return self.known[name]

    def __contains__(self, name: Any) -> bool:
        return name in self.fields

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"KernelStats({', '.join(self.fields)})"

    def total(self, name: str) -> Any:
        """The sum over all chains and draws, without making the array; 0 of what is not counted."""
        if name not in self.fields:
            return 0
        word, kind = self.fields[name]
        if any(len(chain) != self.length for chain in self.chains):
            return self[name].sum().item()
        return sum(chain.total(word, kind) for chain in self.chains)


def stats_of(layout: Layout, chains: Sequence[Counts], length: int) -> dict[str, KernelStats]:
    """Statistics by kernel and name."""
    fields: dict[str, dict[str, tuple[int, str]]] = {}
    for column in layout.columns:
        fields.setdefault(column.kernel, {})[column.field] = column.word, column.kind
    return {kernel: KernelStats(own, chains, length) for kernel, own in fields.items()}
