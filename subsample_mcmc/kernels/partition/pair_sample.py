"""What scores of pairs are made of: common tokens, categories, and what a fit of them leaves."""

from typing import Any

import numpy as np

from subsample_mcmc.kernels.partition.blocks import Blocks
from subsample_mcmc.kernels.partition.pair_scores import scores_of

GAP = 20  # largest difference of ordered categories that is told apart
FREE = 12  # categories up to which every pair of them may have a coefficient
LOOKED = 8000  # clusters that variances are measured on
MEMBERS = 8  # of each of them
LEVELS = 8
PRIOR = 20  # clusters of the average that every level is given


class Sample:
    """Token lists as a sparse matrix."""

    def __init__(self, indptr, ids, values):
        from scipy.sparse import csr_array

        shape = (len(indptr) - 1, int(np.max(ids, initial=-1)) + 1)
        self.matrix = csr_array((np.asarray(values, float), ids, indptr), shape=shape)

    def products(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Inner products of pairs of mentions."""
        return np.asarray(self.matrix[one].multiply(self.matrix[other]).sum(axis=1)).ravel()


def columns_of(name: str, codes: Any, kind: Any) -> list[np.ndarray]:
    """Matrices of which a table is to be a combination."""
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


def left_over(
    similarity: Any, data: Any, control: Any, blocks: Blocks, labels: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, Any]:  # fmt: skip
    """What similarity - control is, by levels of the control's own mean over a cluster.

    Half of the clusters looked at are the mention's own, which decide and fit worst.
    """
    sizes = np.diff(blocks.start)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    code = np.unique(
        np.column_stack([owner, labels[blocks.order]]), axis=0, return_inverse=True
    )[1].ravel()  # fmt: skip
    by_cluster = np.argsort(code, kind="stable")
    members = blocks.order[by_cluster]
    first = np.searchsorted(code[by_cluster], np.arange(code.max() + 2))
    from_block = code[blocks.start[:-1]]  # clusters of a block are numbered one after the other
    lowest = np.minimum.reduceat(code, blocks.start[:-1]) if len(code) else from_block
    count = np.maximum.reduceat(code, blocks.start[:-1]) - lowest + 1
    one, other, group = [], [], []
    for k in range(LOOKED):
        at = rng.integers(len(owner))
        own = code[at]
        cluster = own if k % 2 else lowest[owner[at]] + rng.integers(count[owner[at]])
        inside = members[first[cluster] : first[cluster + 1]]
        inside = inside[inside != blocks.order[at]]
        if len(inside) > MEMBERS:
            inside = rng.choice(inside, MEMBERS, replace=False)
        one += [blocks.order[at]] * len(inside)
        other += inside.tolist()
        group += [k] * len(inside)
    if not one:
        return {}
    pair = np.array(one), np.array(other)
    known = control.values(*pair)
    left = scores_of(similarity, data, *pair) - known
    number = np.bincount(group, minlength=LOOKED)
    kept = number > 0
    sums = [np.bincount(group, x, LOOKED)[kept] for x in (known, left, left**2)]
    return by_level(number[kept], *sums)


def by_level(number, known, total, square) -> dict[str, Any]:
    """Mean, variance between and variance within clusters, at each level, of sums over members."""
    level_by, mean = known / number, total / number
    # Between two values that occur: rounding must not carry a sum from one level to another.
    values = np.unique(level_by)
    at = np.searchsorted(values, np.quantile(level_by, np.arange(1, LEVELS) / LEVELS))
    at = np.unique(np.clip(at, 1, None)[np.clip(at, 1, None) < len(values)])
    edges = 0.5 * (values[at - 1] + values[at])
    at = np.searchsorted(edges, level_by, side="right")
    count = np.bincount(at, minlength=len(edges) + 1)
    inner, free = square - number * mean**2, number - 1.0

    def shrunk(top, bottom):
        """A ratio of sums in each level, with some clusters of the average added."""
        average = top.sum() / max(bottom.sum(), 1.0)
        above, below = (np.bincount(at, x, len(edges) + 1) for x in (top, bottom))
        weight = PRIOR * below.sum() / len(number)
        return (above + weight * average) / np.maximum(below + weight, 1e-300)

    within = np.maximum(shrunk(inner, free), 0.0)
    shift = np.bincount(at, mean, len(edges) + 1) / (count + PRIOR)
    between = shrunk((mean - shift[at]) ** 2 - within[at] / number, np.ones(len(number)))
    return {
        "edges": edges, "shift": shift, "within": within, "between": np.maximum(between, 0.0),
    }  # fmt: skip
