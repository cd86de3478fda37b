"""Exact sums over all data: block by block, along the tree of dyadic.py; the last few remembered.

A sum is remembered by the complete state that it is of, to the last bit, so it cannot be stale:
nothing needs to be told when a block moves. All kernels of a chain share what is known, which is
part of its checkpoint; so what is read does not depend on where a run was stopped.

Last come the functions that read a model's rows: for its exact sums, and for mini-batches.
"""

from math import copysign
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.target.dyadic import BLOCK

MASK = np.int64(2**63 - 1)  # tells LLVM that an index is not negative
NODES = 64  # levels of a tree of blocks, at most
# Numbers of a state, and slots, beyond which looking for a state costs too much to be worth it.
NUMBERS, SLOTS, FEWEST = 128, 64, 4


# ------------------------------------------------------------------------------------ remembered
def new_memory(model) -> np.ndarray:
    """One row per remembered state: its values, then its exact sum; row 0: the last index written.

    Every sum that is asked for is written in turn, known or not, so what was used last stays. An
    arm chosen among K in one decision is asked for in the next: at most 2 K - 1 sums later.
    """
    numbers = len(model.ints) + len(model.floats)
    arms = [v.support for v in model.variables.values() if v.block.discrete]
    slots = max(FEWEST, *(2 * k for k in arms if 2 * k <= SLOTS), 0)
    memory = np.full((1 + slots if numbers <= NUMBERS else 1, numbers + 1), np.inf)
    memory[0] = 0.0
    return memory


def memory_of(model, run) -> np.ndarray:
    """What all kernels of one chain remember; part of its checkpoint."""
    if run.known is None:
        run.known = run.kept["totals"] = new_memory(model)
    return run.known


@jit(inner=True)
def stands(trial, slot):
    """Is the state in a slot the one that stands in the blocks, to the last bit."""
    known, floats, ints = trial.known, trial.floats, trial.ints
    for j in range(len(floats)):
        a, b = known[slot, j], floats[j]
        if a != b or copysign(1.0, a) != copysign(1.0, b):  # 0 and -0 are two
            return False
    for j in range(len(ints)):
        if known[slot, len(floats) + j] != ints[j]:
            return False
    return True


@jit(inner=True)
def find(trial):
    """The slot of the state as it is, or 0."""
    for slot in range(1, len(trial.known)):
        if stands(trial, slot):
            return slot
    return 0


@jit(inner=True)
def remember(trial, value):
    """Write the state as it is, and its sum."""
    known, floats, ints = trial.known, trial.floats, trial.ints
    slot = np.int64(known[0, 0]) + 1
    if slot == len(known):
        slot = 1
    known[0, 0] = slot
    for j in range(len(floats)):
        known[slot, j] = floats[j]
    for j in range(len(ints)):
        known[slot, len(floats) + j] = ints[j]
    known[slot, len(floats) + len(ints)] = value


def remembered(place, add_up) -> Any:
    """total(trial, arm, size) that reads no data for a state whose sum is known."""

    @jit(inner=True)
    def total(trial, arm, size):
        place(trial, arm)
        known, slot, awake = trial.known, 0, trial.target[0].asleep == 0
        if awake:
            slot = find(trial)
        if slot > 0:
            value = known[slot, known.shape[1] - 1]
            trial.pulls[0] -= trial.target[0].rows  # which the caller counts as read
        else:
            value = add_up(trial, size)
        if awake:
            remember(trial, value)
        return value

    return total


# ---------------------------------------------------------------------------------------- blocks
def new_nodes() -> np.ndarray:
    """One number for each level of the tree along which blocks are added up."""
    return np.zeros(NODES)


# Without the flags that let LLVM change the order of additions.
@jit(inner=True)
def carry(nodes, block, value):
    """Add the sum of the next block; nodes: of each 1 in the binary number `block`, a sum."""
    level = 0
    while (block >> level) & 1:
        value = nodes[level] + value
        level += 1
    nodes[level] = value


@jit(inner=True)
def root(nodes, rows):
    """The sum of all blocks that so many rows make: the same as dyadic.Tree gives."""
    blocks, value, level = (rows + BLOCK - 1) // BLOCK, 0.0, 0
    while blocks & 1 == 0 and blocks > 0:
        blocks >>= 1
        level += 1
    if blocks > 0:
        value = nodes[level]
    while blocks > 1:
        blocks >>= 1
        level += 1
        if blocks & 1:
            value = nodes[level] + value
    return value


def has_etas(model) -> bool:
    """Does the model know the predictors of many data at once."""
    return model.predictors is not None and model.predictors.etas is not None


def room_of(model) -> np.ndarray:
    """Room for the predictors of a block."""
    if not has_etas(model):
        return np.zeros((1, 1))
    return np.zeros((model.predictors.count(model), min(model.size, BLOCK)))


def entry(count: int) -> Any:
    """of(room, i): what log_factor takes of datum i, one number or a tuple."""

    @jit(inner="always")
    def of_one(room, i):
        return room[0, i]

    @jit(inner="always")
    def of_two(room, i):
        return room[0, i], room[1, i]

    def with_next(before, k):
        @jit(inner="always")
        def of_more(room, i):
            return (*before(room, i), room[k, i])

        return of_more

    of_all = of_one if count == 1 else of_two
    for k in range(2, count):
        of_all = with_next(of_all, k)
    return of_all


# ------------------------------------------------- what knows the model, called by its address
# Each of these functions costs a new model some 40 ms, so there are no more than these, and what
# they call is inlined. `read` promises that its arrays do not overlap: true, as long as no arm is
# placed inside. No min(): numba compiles it as a function of its own, for each model anew.
def by_chunks(model) -> Any:
    """total(context, first, last) of the first block: predictors, then a loop over log factors.

    Both vectorise, where one loop over data with eta's own loop in it does not. The last block
    reads predictors of the one before, too, so that all have the length of `room`.
    """
    predictors = model.predictors
    of = entry(predictors.count(model))
    etas = jit(predictors.etas, flags=FLAGS, disjoint=True, user=True, inner=True)
    log_factor = jit(predictors.log_factor, flags=FLAGS, user=True, inner="always")

    @jit(flags=FLAGS, disjoint=True, inner="entry")
    def add(context, first, last):
        data, room, value = context.data, context.room, 0.0
        start = (first if first < last - room.shape[1] else last - room.shape[1]) & MASK
        etas(context.state, data, start, room)
        for i in range(np.uint64(first - start), np.uint64(room.shape[1])):
            value += log_factor(of(room, i), data, np.int64(np.uint64(start) + i) & MASK)
        return value

    return add


@memoised
def reading(likelihood, touched: bool) -> tuple[Any, Any]:
    """(rewards, total of the first block) of a compiled function."""
    if touched:

        @jit(flags=FLAGS, disjoint=True, inner="entry")
        def read(context, arm, rows, out):
            state, data, indices = context.state, context.data, context.indices
            first = context.target[0].first
            for i in range(np.uint64(len(rows))):
                out[i] = likelihood(state, data, indices[first + rows[i]] & MASK)
            return 0.0

        @jit(flags=FLAGS, inner="entry")
        def add(context, first, last):
            state, data, indices = context.state, context.data, context.indices
            start, value = context.target[0].first, 0.0
            past = first + BLOCK if first + BLOCK < last else last
            for i in range(np.uint64(start + first), np.uint64(start + past)):
                value += likelihood(state, data, indices[i] & MASK)
            return value
    else:

        @jit(flags=FLAGS, disjoint=True, inner="entry")
        def read(context, arm, rows, out):
            state, data = context.state, context.data
            for i in range(np.uint64(len(rows))):
                out[i] = likelihood(state, data, np.int64(rows[i]) & MASK)
            return 0.0

        @jit(flags=FLAGS, inner="entry")
        def add(context, first, last):
            state, data, value = context.state, context.data, 0.0
            past = first + BLOCK if first + BLOCK < last else last
            for i in range(np.uint64(first), np.uint64(past)):
                value += likelihood(state, data, np.int64(i) & MASK)
            return value

    return read, add


@memoised
def reading_prepared(likelihood, prepare, touched: bool) -> tuple[Any, Any]:
    """(rewards, total) of a function that reads what prepare makes, once for all rows.

    What prepare allocates is counted (user=True), or it would never be released.
    """
    if touched:

        @jit(flags=FLAGS, disjoint=True, inner="entry", user=True)
        def read(context, arm, rows, out):
            state, data, indices = context.state, context.data, context.indices
            prepared, first = prepare(state, data), context.target[0].first
            for i in range(np.uint64(len(rows))):
                out[i] = likelihood(state, data, indices[first + rows[i]] & MASK, prepared)
            return 0.0

        @jit(flags=FLAGS, inner="entry", user=True)
        def add(context, first, last):
            state, data, indices = context.state, context.data, context.indices
            prepared, start = prepare(state, data), context.target[0].first
            for low in range(first, last, BLOCK):
                value, high = 0.0, low + BLOCK if low + BLOCK < last else last
                for i in range(np.uint64(start + low), np.uint64(start + high)):
                    value += likelihood(state, data, indices[i] & MASK, prepared)
                carry(context.nodes, (low - first) // BLOCK, value)
            return root(context.nodes, last - first)
    else:

        @jit(flags=FLAGS, disjoint=True, inner="entry", user=True)
        def read(context, arm, rows, out):
            state, data = context.state, context.data
            prepared = prepare(state, data)
            for i in range(np.uint64(len(rows))):
                out[i] = likelihood(state, data, np.int64(rows[i]) & MASK, prepared)
            return 0.0

        @jit(flags=FLAGS, inner="entry", user=True)
        def add(context, first, last):
            state, data = context.state, context.data
            prepared = prepare(state, data)
            for low in range(first, last, BLOCK):
                value, high = 0.0, low + BLOCK if low + BLOCK < last else last
                for i in range(np.uint64(low), np.uint64(high)):
                    value += likelihood(state, data, np.int64(i) & MASK, prepared)
                carry(context.nodes, (low - first) // BLOCK, value)
            return root(context.nodes, last - first)

    return read, add
