"""A heap of arms, the highest key on top, whose keys may change: O(log K) each."""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit


class Heap(NamedTuple):
    """`order` in heap order; `places`: where in it each arm stands."""

    keys: np.ndarray
    order: np.ndarray
    places: np.ndarray


def make_heap(arms: int, key: float = np.inf) -> Heap:
    """All arms with one key."""
    return Heap(np.full(arms, key), np.arange(arms), np.arange(arms))


@jit(inner=True)
def put(heap, arm, key):
    """Give an arm a new key and the place it deserves."""
    keys, order, places = heap.keys, heap.order, heap.places
    place, count = places[arm], len(order)
    keys[arm] = key
    while place > 0 and keys[order[(place - 1) // 2]] < key:
        above = (place - 1) // 2
        order[place] = order[above]
        places[order[place]] = place
        place = above
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and keys[order[below + 1]] > keys[order[below]]:
            below += 1
        if keys[order[below]] <= key:
            break
        order[place] = order[below]
        places[order[place]] = place
        place = below
    order[place] = arm
    places[arm] = place


@jit(inner=True)
def runner_up(heap):
    """The highest key but that on top; -inf if there is no other."""
    order, best = heap.order, -np.inf
    for place in range(1, min(3, len(order))):
        best = max(best, heap.keys[order[place]])
    return best
