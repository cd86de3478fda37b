"""Categories of mentions: the tables of their pairs, and which kinds of pairs a fit has seen.

A fitted table has one coefficient for each kind of pairs, such as one year apart. Of a kind that no
scored pair was of it says nothing, whatever number stands there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.partition.members import Blocks

RANGE = 500  # ordered categories beyond which a table of all pairs is no longer sensible
GAP = 20  # largest difference of ordered categories that is told apart
FREE = 12  # categories up to which every pair of them may have a coefficient
ENOUGH = 20  # pairs of a kind by which its coefficient is known


def whole(name: str, given: Any) -> np.ndarray:
    """Integers; refuses what would be rounded."""
    array = np.asarray(given)
    if array.dtype.kind not in "iub" and not (
        array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(array == np.rint(array))
    ):
        raise ValueError(
            f"{name!r} has dtype {array.dtype}: codes, ids and indptr must be integers; code "
            "missing categories as -1."
        )
    return array.astype(np.int64)


def codes_of(name: str, given: Any, kind: Any = None) -> np.ndarray:
    """Categories, from codes or (codes, kind); ordered ones begin at 0."""
    codes = whole(name, given[0] if isinstance(given, tuple) else given)
    if isinstance(kind, str) and kind == "gap" and np.any(codes >= 0):
        codes = np.where(codes < 0, -1, codes - codes[codes >= 0].min())
        if codes.max() > RANGE:
            raise ValueError(
                f"categories[{name!r}] span {codes.max()}: at most {RANGE}; give coarser ones."
            )
    return np.where(codes < 0, -1, codes)


def columns_of(name: str, codes: Any, kind: Any) -> list[np.ndarray]:
    """The matrices of which a fitted table is a linear combination, by kind of categories."""
    size = int(np.max(codes, initial=0)) + 1
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    if isinstance(kind, str) and kind == "same":
        return [np.ones((size, size)), np.eye(size)]
    if isinstance(kind, str) and kind == "gap":
        return [(np.minimum(apart, GAP) == gap).astype(float) for gap in range(GAP + 1)]
    if isinstance(kind, str) and kind == "free":
        if size > FREE:
            raise ValueError(
                f'categories[{name!r}]: {size} categories are too many for "free" (at most '
                f'{FREE}): use "same" or "gap", or give matrices.'
            )
        found = []
        for a in range(size):
            for b in range(a + 1):
                matrix = np.zeros((size, size))
                matrix[a, b] = matrix[b, a] = 1.0
                found.append(matrix)
        return found
    if isinstance(kind, str):
        raise ValueError(
            f'categories[{name!r}]: kind={kind!r}; give "same", "gap", "free" or matrices.'
        )
    found = [np.asarray(matrix, dtype=float) for matrix in kind]
    if any(matrix.shape != found[0].shape or len(matrix) < size for matrix in found):
        raise ValueError(f"categories[{name!r}]: give matrices of at least {size} rows.")
    return found


def combined(basis: list[np.ndarray], coefficients: Any) -> np.ndarray:
    """The linear combination of some matrices: a fitted table."""
    return np.tensordot(np.asarray(coefficients, dtype=float), np.array(basis), axes=1)


# ------------------------------------------------------------------------------- kinds of pairs
@dataclass(frozen=True, eq=False)
class PairKinds:
    """Numbers for pairs of categories that the coefficients of a table tell apart; 0: one lacks."""

    kind: str  # "same", "gap", "free" or "given"
    patterns: Any = None  # of given matrices: which of them are not 0, numbered, by pair

    @staticmethod
    def of(kind: Any, basis: list[np.ndarray]) -> "PairKinds":
        """Those of a table by its kind, or by the matrices that were given."""
        if isinstance(kind, str):
            return PairKinds(kind)
        number = np.zeros(basis[0].size, dtype=np.int64)
        for matrix in basis:  # a pattern is a number, and those that occur are numbered anew
            both = 2 * number + (matrix.ravel() != 0.0)
            number = np.unique(both, return_inverse=True)[1].ravel()
        return PairKinds("given", 1 + number.reshape(basis[0].shape))

    def numbers(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Of pairs of codes."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        if self.kind == "same":
            found = np.where(one == other, 1, 2)
        elif self.kind == "gap":
            found = 1 + np.minimum(high - low, GAP)
        elif self.kind == "free":
            found = 1 + high * (high + 1) // 2 + low
        else:
            found = self.patterns[one, other]
        return np.where(low < 0, 0, found)

    def told(self, one: int, other: int) -> str:
        """A kind by one of its pairs, in words."""
        low, high = sorted((one, other))
        if low < 0:
            return "of which one has none"
        if self.kind == "same":
            return "that have the same" if low == high else "that have different ones"
        if self.kind == "gap":
            apart = high - low
            return f"that are {f'{GAP} or more' if apart >= GAP else apart} apart"
        return f"of categories {low} and {high}"


class LearntTable(NamedTuple):
    """What a fit knows of a table: its coefficients, and the kinds of pairs that tell of them."""

    kind: str
    coefficients: np.ndarray
    kinds: PairKinds
    seen: frozenset


class Runs(NamedTuple):
    """Mentions of one block and one category, which stand side by side."""

    mentions: np.ndarray
    first: np.ndarray
    length: np.ndarray
    block: np.ndarray  # of each run
    code: np.ndarray

    def pairs(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Runs (of one, of the other) of which pairs are, as many apart in their block at most."""
        for step in range(min(most, len(self.first) - 1) + 1):
            one = np.arange(len(self.first) - step)
            near = self.block[one] == self.block[one + step]
            if step == 0:
                near = self.length > 1
            elif not near.any():
                return
            yield one[near], one[near] + step


def runs_of(blocks: Blocks, codes: np.ndarray) -> Runs:
    """Mentions by block and category."""
    sizes = np.diff(blocks.start)
    block, code = np.repeat(np.arange(len(sizes)), sizes), codes[blocks.order]
    order = np.lexsort((code, block))
    block, code = block[order], code[order]
    new = (np.diff(block) != 0) | (np.diff(code) != 0)
    first = np.flatnonzero(np.concatenate([[True], new]))
    count = np.diff(np.concatenate([first, [len(code)]]))
    return Runs(blocks.order[order], first, count, block[first], code[first])


def steps_of(kinds: PairKinds, runs: Runs) -> int:
    """How far apart runs are of which all kinds of pairs are found."""
    return 1 if kinds.kind == "same" else len(runs.first)  # different is different


def possible(blocks: Blocks, codes: np.ndarray, kinds: PairKinds) -> dict[int, tuple[int, int]]:
    """Kinds of pairs that may share a cluster, and of each the mentions of one pair."""
    runs, found = runs_of(blocks, codes), {}
    for one, other in runs.pairs(steps_of(kinds, runs)):
        number = kinds.numbers(runs.code[one], runs.code[other])
        for kind, k in zip(*np.unique(number, return_index=True), strict=True):
            if int(kind) not in found:
                i, j = runs.first[one[k]], runs.first[other[k]]
                j += one[k] == other[k]  # two of one run
                found[int(kind)] = int(runs.mentions[i]), int(runs.mentions[j])
    return found


def rare_pairs(
    blocks: Blocks, codes: np.ndarray, kinds: PairKinds, one: np.ndarray, other: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """More pairs of those kinds of which fewer than ENOUGH are among the pairs that were drawn."""
    drawn = kinds.numbers(codes[one], codes[other])
    number, times = np.unique(drawn, return_counts=True)
    enough = number[times >= ENOUGH]
    runs = runs_of(blocks, codes)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for first, second in runs.pairs(steps_of(kinds, runs)):
        of_kind = kinds.numbers(runs.code[first], runs.code[second])
        rare = ~np.isin(of_kind, enough)
        found.append((of_kind[rare], first[rare], second[rare]))
    of_kind, first, second = (np.concatenate(x) for x in zip(*found, strict=True))
    left, right = [one[:0]], [other[:0]]
    for kind in np.unique(of_kind):
        have = int(times[number == kind].sum())
        own = np.flatnonzero(of_kind == kind)
        same = first[own] == second[own]
        work = runs.length[first[own]] * (runs.length[second[own]] - same.astype(float))
        k = own[rng.choice(len(own), ENOUGH - have, p=work / work.sum())]
        a, b = first[k], second[k]
        i = rng.integers(runs.length[a])
        j = rng.integers(runs.length[b] - (a == b))
        j += (a == b) & (j >= i)
        left.append(runs.mentions[runs.first[a] + i])
        right.append(runs.mentions[runs.first[b] + j])
    return np.concatenate(left), np.concatenate(right)


def refuse_unseen(name: str, learnt: LearntTable, codes: np.ndarray, blocks: Blocks) -> None:
    """Refuse mentions of which pairs are of a kind that the fit has not seen."""
    found = possible(blocks, codes, learnt.kinds)
    pairs = [pair for kind, pair in found.items() if kind not in learnt.seen]
    if not pairs:
        return
    shown = [
        f"{learnt.kinds.told(int(codes[i]), int(codes[j]))} (mentions {i} and {j})"
        for i, j in pairs[:3]
    ]
    more = f", and {len(pairs) - 3} more kinds" if len(pairs) > 3 else ""
    raise ValueError(
        f"control: no pair that it was fitted to is, by {name!r}, of two mentions "
        f"{', or '.join(shown)}{more}: it says nothing of their scores. Fit it to these mentions, "
        "sm.Bilinear.fit, or give them other candidate keys."
    )
