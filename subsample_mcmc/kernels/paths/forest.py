"""Who sees whom among the sites of a block: a forest, in an order in which parents come first.

Two sites see each other where a datum touches both, or where the prior of one reads the other. Of a
hidden Markov chain each site sees the one before it; in a forest there are no rings, and what is
summed over one site is a function of its parent alone.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from subsample_mcmc.kernels.sites.touches import by_datum, told_of


class Forest(NamedTuple):
    """Sites, and the data that each is asked about: its own, then those it shares with its parent.

    They stand in a row, touched[first[i]:first[i + 1]], from shared[i] on with the parent.
    """

    order: np.ndarray  # of the sites: each after its parent
    parent: np.ndarray  # by site; -1: it has none
    first: np.ndarray  # by site, and one more
    shared: np.ndarray  # by site
    touched: np.ndarray


class Rooted(NamedTuple):
    """An order of the sites, and the parent of each."""

    order: np.ndarray
    parent: np.ndarray


def forest_of(text: str, name: str, touches, size: int, walks: bool) -> Forest:
    """The forest of a block's sites; refuses data that see three of them, and rings.

    text: of the kernel, for messages. walks: does the prior of a site read the one before it.
    """
    indptr, indices = touches
    sites = len(indptr) - 1
    first, seen = by_datum(touches, size)
    several = np.diff(first)
    if several.max(initial=0) > 2:
        n = int(np.argmax(several > 2))
        raise ValueError(
            f"{text}: datum {n} sees {told_of(name, seen[first[n] : first[n + 1]])}: paths are "
            "drawn where a datum sees two sites at most. Let a site's value stand for several, as "
            f"of a state and the one before it, or take sm.Gibbs({name!r})."
        )
    both = np.flatnonzero(several == 2)
    pairs = np.stack([seen[first[both]], seen[first[both] + 1]], axis=1)
    if walks:
        number = np.arange(sites - 1)
        pairs = np.concatenate([pairs, np.stack([number, number + 1], axis=1)])
    order, parent = rooted(text, name, np.unique(np.sort(pairs, axis=1), axis=0), sites)
    owner = np.full(size, -1)  # whose part of the rows a datum stands in
    one = np.flatnonzero(several == 1)
    owner[one] = seen[first[one]]
    low, high = seen[first[both]], seen[first[both] + 1]
    owner[both] = np.where(parent[low] == high, low, high)
    rows = np.flatnonzero(owner >= 0)
    rows = rows[np.lexsort((several[rows], owner[rows]))]
    counts = np.bincount(owner[rows], minlength=sites)
    starts = np.concatenate([[0], np.cumsum(counts)])
    alone = np.bincount(owner[one], minlength=sites)
    return Forest(order, parent, starts, starts[:-1] + alone, rows.astype(indices.dtype))


def rooted(text: str, name: str, pairs: np.ndarray, sites: int) -> Rooted:
    """An order of sites, each after its parent, of these pairs; each tree begins with its first.

    The first of all trees hang on one more site, so that one search finds all of them.
    """
    low, high = pairs.reshape(-1, 2).T
    graph = csr_matrix((np.ones(len(low)), (low, high)), shape=(sites, sites))
    trees, tree = connected_components(graph, directed=False)
    if len(low) > sites - trees:
        within = np.bincount(tree[low], minlength=trees) >= np.bincount(tree, minlength=trees)
        ring = np.flatnonzero(tree == np.argmax(within))
        raise ValueError(
            f"{text}: sites see each other in a ring, such as among {told_of(name, ring[:4])}"
            f"{' ...' if len(ring) > 4 else ''}: paths are drawn where they form chains or trees. "
            f"Leave one of their links out, or take sm.Gibbs({name!r})."
        )
    roots = np.zeros(trees, dtype=np.int64)
    roots[tree[::-1]] = np.arange(sites)[::-1]  # the first of each
    ends = np.concatenate([low, np.full(trees, sites)]), np.concatenate([high, roots])
    graph = csr_matrix((np.ones(len(ends[0])), ends), shape=(sites + 1, sites + 1))
    order, parent = breadth_first_order(graph, sites, directed=False)
    parent = parent[:sites].astype(np.int64)
    parent[parent == sites] = -1
    return Rooted(order[1:].astype(np.int64), parent)
