"""Which mentions may share a cluster: blocks of equal candidate keys.

Blocks are independent given nothing else: a sweep over one reads and writes its own mentions,
labels and stretches of every array, so that blocks can be worked on side by side.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Blocks(NamedTuple):
    """Mentions sorted by block; block b holds order[start[b]:start[b + 1]].

    Its clusters have the labels start[b] .. start[b + 1] - 1, so that no two blocks share one.
    """

    order: np.ndarray
    start: np.ndarray


def keys_of(candidates: Any, model: Any) -> np.ndarray:
    """One key per mention as integers; -1 where it is missing."""
    import pandas

    size = model.size
    if candidates is None:
        return np.zeros(size, dtype=np.int64)
    if isinstance(candidates, str):
        if candidates not in model.data._fields:
            raise ValueError(
                f"candidates={candidates!r} is no field of the data, which has "
                f"{model.data._fields}: give one of them, an array of keys, or key(data, i)."
            )
        given: Any = getattr(model.data, candidates)
    elif isinstance(candidates, Callable):  # type: ignore[arg-type]
        given = [candidates(model.data, i) for i in range(size)]
    else:
        given = candidates
    array = np.asarray(given) if not hasattr(given, "isna") else given
    if np.ndim(array) != 1 or len(array) != size:
        raise ValueError(
            f"candidates have shape {np.shape(array)}: give one key for each of {size} mentions."
        )
    # Whatever pandas calls missing, the empty string, and negative numbers: no candidates.
    keys = pandas.Series(array if hasattr(given, "isna") else list(given), dtype=object)
    numbers = pandas.to_numeric(keys, errors="coerce")
    strings = keys.map(lambda key: isinstance(key, str | bytes))
    missing = keys.isna() | (numbers < 0) & ~strings | keys.isin(["", b""])
    return pandas.factorize(keys.mask(missing), sort=False)[0].astype(np.int64)


def blocks_of(keys: np.ndarray) -> Blocks:
    """Mentions sorted by key; one without a key is a block of its own."""
    keys = keys.copy()
    alone = keys < 0
    keys[alone] = keys.max(initial=-1) + 1 + np.arange(alone.sum())
    order = np.argsort(keys, kind="stable").astype(np.int64)
    found = keys[order]
    first = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    return Blocks(order, np.concatenate([first, [len(keys)]]).astype(np.int64))


def canonical(labels: np.ndarray, blocks: Blocks) -> bool:
    """Do all labels lie in the range of their block."""
    sizes = np.diff(blocks.start)
    first = np.repeat(blocks.start[:-1], sizes)
    found = labels[blocks.order] - first
    return bool(np.all((found >= 0) & (found < np.repeat(sizes, sizes))))


def relabel(labels: np.ndarray, blocks: Blocks) -> None:
    """Give clusters the labels of their blocks, in place.

    Labels are read inside each block: equal ones in two blocks are two clusters.
    """
    sizes = np.diff(blocks.start)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    sorted_labels = labels[blocks.order]
    pairs = owner * np.int64(labels.max(initial=0) + 1) + sorted_labels
    distinct, codes = np.unique(pairs, return_inverse=True)  # sorted by block, then label
    block = distinct // np.int64(labels.max(initial=0) + 1)
    first = np.searchsorted(block, np.arange(len(sizes)))
    labels[blocks.order] = codes - first[owner] + blocks.start[:-1][owner]
