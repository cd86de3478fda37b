"""Arms tried in the state itself: the context of a decision, and the rewards of a model.

All kernels share one kind of context, so that a model's race is compiled once: an arm is a value
of one discrete site, or a row of candidate values for a continuous block, or both. It is tried by
writing it into the state; the chosen one is written last.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.exact_sums import (
    MASK,
    by_chunks,
    has_etas,
    memory_of,
    new_memory,
    remembered,
    room_of,
)
from subsample_mcmc.target.layout import Block


class Sources(NamedTuple):
    """Compiled access to rewards, made from a one-datum function.

    rewards(context, arm, rows, out)   fill out with one arm's rewards for a mini-batch
    total(context, arm, size)          the exact sum over all rows, no gather, no stores
    prefetch(context, rows)            read the data of a mini-batch once, before the first arm
    """

    rewards: Any
    total: Any
    prefetch: Any


@jit(inner=True)
def prefetch_nothing(context, rows):
    """Small data are in the cache, or will be."""
    return 0.0


def prefetching_also(before, field, columns):
    """A prefetch that also reads one more array of the context."""

    @jit(flags=FLAGS, inner=True)
    def prefetch_vector(context, rows):
        value, array = before(context, rows), context[field]
        for i in range(np.uint64(len(rows))):
            value += array[np.uint64(rows[i])]
        return value

    @jit(flags=FLAGS, inner=True)
    def prefetch_matrix(context, rows):
        value, array = before(context, rows), context[field]
        for i in range(np.uint64(len(rows))):
            value += array[np.uint64(rows[i]), 0]
        return value

    return prefetch_matrix if columns else prefetch_vector


@memoised
def sources_of(reward, large=()) -> Sources:
    """The batch functions of a compiled one-datum function reward(context, arm, n) -> float.

    large: (field, has columns) of the arrays too big for the cache. A loop of bare loads has many
    misses under way at once; the same misses inside the reward's arithmetic wait for each other
    (N = 1e7: 14.5 against 9.8 us a draw; 1e6: 11.4 against 7.5).
    """
    prefetch = prefetch_nothing
    for field, columns in large:
        prefetch = prefetching_also(prefetch, field, columns)

    # Compiled as if no two arrays overlapped: else every store to `out` makes LLVM reload what
    # the reward reads, 4x slower.
    @jit(flags=FLAGS, disjoint=True)
    def rewards(context, arm, rows, out):
        for i in range(np.uint64(len(rows))):
            out[i] = reward(context, arm, np.uint64(rows[i]))

    @jit(flags=FLAGS, inner=True)
    def total(context, arm, size):
        value = 0.0
        for n in range(np.uint64(size)):
            value += reward(context, arm, n)
        return value

    return Sources(rewards, total, prefetch)


TARGET = np.dtype(
    [
        ("start", np.int64),  # of the block in its flat array
        ("length", np.int64),
        ("site", np.int64),  # of a discrete block; -1: the block is continuous
        ("first", np.int64),  # where the site's part of `indices` starts, if it touches few data
        ("rows", np.int64),  # data that the decision is about
        ("leaf", np.int64),
        ("beside", np.int64),  # of a joint arm: where the floats start that go with the site
        ("joint", np.int64),  # and how many they are; else 0
        ("asleep", np.int64),  # not 0: exact sums are neither looked up nor remembered
    ],
    align=True,
)


class Trial(NamedTuple):
    """The context of every reward of a model."""

    state: Any  # record of read-only views
    data: Any
    ints: np.ndarray
    floats: np.ndarray
    target: np.recarray  # (1,) of TARGET
    candidates: np.ndarray  # (arms, length) values of a continuous block
    indices: np.ndarray  # data touched, all sites in a row
    control: Any  # Controls, or () without a control variate
    room: np.ndarray  # (predictors, rows) of consecutive data, where the model has etas
    known: np.ndarray  # exact sums, by the state that they are of
    pulls: np.ndarray  # (1,) where the kernel counts the rewards that it reads


@jit(inner="always")
def place(trial, arm):
    """Write an arm into the state."""
    target = trial.target[0]
    if target.site >= 0:
        trial.ints[target.start + target.site] = arm
        for j in range(target.joint):
            trial.floats[target.beside + j] = trial.candidates[arm, j]
    else:
        for j in range(target.length):
            trial.floats[target.start + j] = trial.candidates[arm, j]


def make_trial(
    model, run, block, rows: int, candidates=None, indices=None, controls: Any = (), beside=None
) -> Trial:
    """The context of one kernel on one block; beside: a continuous one that joins a site."""
    rows -= len(controls.outliers) if controls else 0
    memory = memory_of(model, run)
    trial = context(model, run.ints, run.floats, memory, block, rows, candidates, controls)
    trial.target["leaf"] = run.leaf
    if beside is not None:
        trial.target["beside"], trial.target["joint"] = beside.start, beside.length
    return trial if indices is None else trial._replace(indices=indices)


def probe(model, ints, floats, candidates=None, controls: Any = (), rows=None) -> Trial:
    """The context without a chain: arms are rows of candidates, values of all continuous blocks.

    ints, floats: where arms are tried; they are written into. rows: of data that are read.
    """
    length = len(floats) if candidates is not None else 0
    every = Block("all", False, (length,), 0)
    rows = model.size if rows is None else rows
    rows -= len(controls.outliers) if controls else 0
    trial = context(model, ints, floats, new_memory(model), every, rows, candidates, controls)
    return pointer_to(trial)


def context(
    model, ints, floats, memory, block, rows: int, candidates: Any, controls: Any
) -> Trial:  # fmt: skip
    """Where arms of a block are tried; memory: of exact sums."""
    target = np.zeros(1, dtype=TARGET).view(np.recarray)
    target["start"], target["length"], target["rows"] = block.start, block.length, rows
    target["site"] = 0 if block.discrete else -1
    target["asleep"] = int(len(memory) == 1)
    every_row = np.zeros(1, dtype=np.int64)
    every_row.flags.writeable = False
    return Trial(
        model.state(ints, floats), model.data, ints, floats, target,
        np.zeros((1, 1)) if candidates is None else candidates, every_row, controls,
        room_of(model), memory, np.zeros(1, dtype=np.int64),
    )  # fmt: skip


# ---------------------------------------------------------------------------------- rewards
@jit(inner=True)
def nothing(state, data):
    """For models without prepare."""
    return 0


def model_sources(model, touched: bool) -> Sources:
    """The batch functions of a model, over all data or over those that a site touches."""
    likelihood, prepare, _ = model.compiled
    chunks = by_chunks(model) if has_etas(model) and not touched else None
    return make_sources(likelihood, prepare, () if touched else model.large, touched, chunks)


@memoised
def make_sources(likelihood, prepare, large: tuple, touched: bool, chunks) -> Sources:
    """model_sources() of compiled functions; chunks: a faster exact sum, if there is one."""
    if prepare is None:
        prepare = nothing

        @jit(flags=FLAGS, inner="always")
        def one(state, data, n, prepared):
            return likelihood(state, data, n)
    else:

        @jit(flags=FLAGS, inner="always")
        def one(state, data, n, prepared):
            return likelihood(state, data, n, prepared)

    # `batch` promises that its arrays do not overlap: true, as long as no arm is placed inside.
    if touched:

        @jit(flags=FLAGS, disjoint=True, inner=True)
        def batch(state, data, indices, first, prepared, rows, out):
            for i in range(np.uint64(len(rows))):
                out[i] = one(state, data, indices[first + rows[i]] & MASK, prepared)

        @jit(flags=FLAGS, inner=True)
        def streamed(state, data, indices, first, prepared, size):
            value = 0.0
            for i in range(np.uint64(size)):
                value += one(state, data, indices[np.uint64(first) + i] & MASK, prepared)
            return value
    else:

        @jit(flags=FLAGS, disjoint=True, inner=True)
        def batch(state, data, indices, first, prepared, rows, out):
            for i in range(np.uint64(len(rows))):
                out[i] = one(state, data, np.int64(rows[i]) & MASK, prepared)

        @jit(flags=FLAGS, inner=True)
        def streamed(state, data, indices, first, prepared, size):
            value = 0.0
            for i in range(np.uint64(size)):
                value += one(state, data, np.int64(i) & MASK, prepared)
            return value

    # What prepare allocates must be counted, or it is never released.
    counts = prepare is not nothing

    @jit(inner=True, user=counts)
    def rewards(trial, arm, rows, out):
        place(trial, arm)
        prepared, first = prepare(trial.state, trial.data), trial.target[0].first
        batch(trial.state, trial.data, trial.indices, first, prepared, rows, out)

    @jit(inner=True, user=counts)
    def summed(trial, size):
        prepared, first = prepare(trial.state, trial.data), trial.target[0].first
        return streamed(trial.state, trial.data, trial.indices, first, prepared, size)

    add_up = chunks or summed

    @jit(inner=True)
    def total(trial, arm, size):
        place(trial, arm)
        return add_up(trial, size)

    if not touched:
        total = remembered(place, add_up)
    return Sources(rewards, total, prefetching_data(large))


def prefetching_data(large):
    """The selectors' prefetch, reading the data of a model's context."""
    inside = sources_of(nothing, large).prefetch
    if inside is prefetch_nothing:
        return inside

    @jit(inner=True)
    def prefetch(trial, rows):
        return inside(trial.data, rows)

    return prefetch


# ----------------------------------------------------------------------------- read from Python
def exact_sum_of(model) -> Any:
    """total(trial, arm, size) of a model, callable from Python."""
    return callable_total(model_sources(model, touched=False).total)


def rewards_of(model) -> Any:
    """rewards(trial, arm, rows, out) of a model, callable from Python."""
    return callable_rewards(model_sources(model, touched=False).rewards)


@memoised
def callable_total(total) -> Any:
    """The same function with a Python wrapper."""

    @jit
    def add_up(trial, arm, size):
        return total(trial, arm, size)

    return add_up


@memoised
def callable_rewards(rewards) -> Any:
    """The same function with a Python wrapper."""

    @jit
    def read(trial, arm, rows, out):
        rewards(trial, arm, rows, out)

    return read
