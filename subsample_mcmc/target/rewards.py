"""Arms tried in the state itself: the context of a decision, and the rewards of a model.

All kernels share one kind of context, so that a model's race is compiled once: an arm is a value
of one discrete site, or a row of candidate values for a continuous block, or both. It is tried by
writing it into the state; the chosen one is written last.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    RecordAddress,
    array,
    call,
    call_numbers,
    call_rows,
    call_touch,
    pointer_to,
)
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.dyadic import BLOCK
from subsample_mcmc.target.elsewhere.resident import known_sum, read_resident, refuse_rows_elsewhere
from subsample_mcmc.target.exact_sums import (
    carry,
    memory_of,
    new_memory,
    new_nodes,
    reading,
    reading_prepared,
    remembered,
    room_of,
    root,
)
from subsample_mcmc.target.layout import Block


class Sources(NamedTuple):
    """Compiled access to rewards, made from a one-datum function.

    rewards(context, arm, rows, out): fill out with one arm's rewards for a mini-batch.
    total(context, arm, size) -> float: the exact sum over all rows, no gather, no stores.
    prefetch(context, rows): read the data of a mini-batch once, before the first arm.
    """

    rewards: Any
    total: Any
    prefetch: Any


@jit(inner=True)
def prefetch_nothing(data, rows):
    """Small data are in the cache, or will be."""
    return 0.0


def prefetching_also(before, field, columns):
    """A prefetch that also reads one more array of the data."""

    @jit(flags=FLAGS, inner=True)
    def prefetch_vector(data, rows):
        value, column = before(data, rows), data[field]
        for i in range(np.uint64(len(rows))):
            value += column[np.uint64(rows[i])]
        return value

    @jit(flags=FLAGS, inner=True)
    def prefetch_matrix(data, rows):
        value, column = before(data, rows), data[field]
        for i in range(np.uint64(len(rows))):
            value += column[np.uint64(rows[i]), 0]
        return value

    return prefetch_matrix if columns else prefetch_vector


@memoised
def prefetching(large: tuple) -> Any:
    """prefetch(data, rows) of the arrays too big for the cache: (field, has columns) of each.

    A loop of bare loads has many misses under way at once; the same misses inside the reward's
    arithmetic wait for each other (N = 1e7: 14.5 against 9.8 us a draw; 1e6: 11.4 against 7.5).
    """
    prefetch = prefetch_nothing
    for field, columns in large:
        prefetch = prefetching_also(prefetch, field, columns)
    return prefetch


def touching(large: tuple, about: RecordAddress, row: Any) -> Any:
    """What reads a mini-batch of these arrays ahead, called by its address; 0: nothing need."""
    return FunctionAddress(looking(large), about, array(row)) if large else 0


@memoised
def looking(large: tuple) -> Any:
    """prefetch() of what is called by its address."""
    prefetch = prefetching(large)

    @jit(inner="entry")
    def look(context, rows):
        return prefetch(context.data, rows)

    return look


# --------------------------------------------------------------------------------- populations
class PopulationContext(NamedTuple):
    """What the log factor of a population reads."""

    data: Any


class PopulationCalls(NamedTuple):
    """A population's functions by their addresses: no type of its data."""

    context: Any  # a PopulationContext
    row: Any  # a number of the type that rows have
    rewards: Any  # (context, arm, rows, out)
    total: Any  # (context, arm, size)
    touch: Any  # (context, rows); 0 where all data stay in the cache


@jit(inner=True)
def population_rewards(calls, arm, rows, out):
    """Fill out with an arm's rewards."""
    call_rows(calls.rewards, calls.context, calls.row, arm, rows, out)


@jit(inner=True)
def population_total(calls, arm, size):
    """An arm's exact sum."""
    return call_numbers(calls.total, calls.context, arm, size)


@jit(inner=True)
def population_touch(calls, rows):
    """Read the data of a mini-batch before the first arm does."""
    return call_touch(calls.touch, calls.context, calls.row, rows) if calls.touch != 0 else 0.0


POPULATION = Sources(population_rewards, population_total, population_touch)


def calls_of_population(population) -> PopulationCalls:
    """The functions of a population, about its data."""
    read, add = reading_of(population.reward)
    about = RecordAddress(PopulationContext(population.context))
    row = row_kind(max(population.shape.sizes))
    return PopulationCalls(
        about, row(0), FunctionAddress(read, about, NUMBER, array(row), FLOATS),
        FunctionAddress(add, about, NUMBER, NUMBER), touching(population.large, about, row),
    )  # fmt: skip


@memoised
def reading_of(reward) -> tuple[Any, Any]:
    """(rewards, total) of a compiled one-datum function reward(data, arm, n) -> float."""

    # Compiled as if no two arrays overlapped: else every store to `out` makes LLVM reload what
    # the reward reads, 4x slower.
    @jit(flags=FLAGS, disjoint=True, inner="entry")
    def read(context, arm, rows, out):
        data = context.data
        for i in range(np.uint64(len(rows))):
            out[i] = reward(data, arm, np.uint64(rows[i]))
        return 0.0

    @jit(flags=FLAGS, inner="entry")
    def add(context, arm, size):
        data, value = context.data, 0.0
        for n in range(np.uint64(size)):
            value += reward(data, arm, n)
        return value

    return read, add


@jit
def population_rewards_of(calls, arm, rows, out):
    """An arm's rewards, callable from Python."""
    population_rewards(calls, arm, rows, out)


# -------------------------------------------------------------------------------------- models
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


class Context(NamedTuple):
    """What a model's functions read."""

    state: Any  # record of read-only views
    data: Any
    indices: np.ndarray  # data touched, all sites in a row
    target: np.recarray  # (1,) of TARGET
    room: np.ndarray  # (predictors, rows) of consecutive data, where the model has etas
    nodes: np.ndarray  # of an exact sum under way, as in Calls


class Calls(NamedTuple):
    """A model's functions by their addresses, and what they are about: no type of the model."""

    context: Any  # a Context
    row: Any  # a number of the type that rows have
    rewards: Any  # (context, arm, rows, out): of the arm that stands in the state
    total: Any  # (context, first, last): their sum over these rows, or the first block of them
    prior: Any  # (context): the log prior of the state
    touch: Any  # (context, rows): read a mini-batch's data once; 0: they stay in the cache
    by_block: int  # 1: total is of a block of rows
    nodes: np.ndarray  # of an exact sum under way: see target/exact_sums.py, `carry`


class Trial(NamedTuple):
    """Where arms are tried: the context of every reward of a model."""

    calls: Calls
    ints: np.ndarray
    floats: np.ndarray
    target: np.recarray  # (1,) of TARGET
    candidates: np.ndarray  # (arms, length) values of a continuous block
    indices: np.ndarray  # data touched, all sites in a row
    control: Any  # Controls, or () without a control variate
    known: np.ndarray  # exact sums, by the state that they are of
    pulls: np.ndarray  # (1,) where the kernel counts the rewards that it reads


@jit(inner="always")
def place(trial, arm):
    """Write an arm into the state.

    trial: as kernels' and control variates' functions get it.
    arm: its number.
    """
    target = trial.target[0]
    if target.site >= 0:
        trial.ints[target.start + target.site] = arm
        for j in range(target.joint):
            trial.floats[target.beside + j] = trial.candidates[arm, j]
    else:
        for j in range(target.length):
            trial.floats[target.start + j] = trial.candidates[arm, j]


EVERY_ROW = np.zeros(1, dtype=np.int64)  # of decisions about all data, which list none
EVERY_ROW.flags.writeable = False


def make_trial(
    model, run, block, rows: int, candidates=None, touched=None, controls: Any = (), beside=None
) -> Trial:
    """The context of one kernel on one block; beside: a continuous one that joins a site.

    touched: the data that each site touches, all in a row; None: all data.
    """
    rows -= len(controls.outliers) if controls else 0
    memory = memory_of(model, run)
    trial = trial_of(
        model, run.ints, run.floats, memory, block, rows, candidates, controls, touched, run.data
    )
    trial.target["leaf"] = run.leaf
    if beside is not None:
        trial.target["beside"], trial.target["joint"] = beside.start, beside.length
    return trial


def probe(model, ints, floats, candidates=None, controls: Any = (), rows=None, data=None) -> Trial:
    """The context without a chain: arms are rows of candidates, values of all continuous blocks.

    ints, floats: where arms are tried; they are written into. rows: of data that are read. data:
    in the place of the model's.
    """
    length = len(floats) if candidates is not None else 0
    every = Block("all", False, (length,), 0)
    rows = model.size if rows is None else rows
    rows -= len(controls.outliers) if controls else 0
    memory = new_memory(model)
    trial = trial_of(model, ints, floats, memory, every, rows, candidates, controls, data=data)
    return pointer_to(trial)


def trial_of(
    model, ints, floats, memory, block, rows: int, candidates, controls, touched=None, data=None
) -> Trial:
    """Where arms of a block are tried; memory: of exact sums."""
    target = np.zeros(1, dtype=TARGET).view(np.recarray)
    target["start"], target["length"], target["rows"] = block.start, block.length, rows
    target["site"] = 0 if block.discrete else -1
    target["asleep"] = int(len(memory) == 1)
    indices = EVERY_ROW if touched is None else touched
    if data is None:
        refuse_rows_elsewhere(model)
        data = model.data
    state = model.state(ints, floats)
    context = Context(state, data, indices, target, room_of(model), new_nodes())
    return Trial(
        calls_of(model, context, touched is not None), ints, floats, target,
        np.zeros((1, 1)) if candidates is None else candidates, indices, controls, memory,
        np.zeros(1, dtype=np.int64),
    )  # fmt: skip


def example_context(model, ints=None, floats=None) -> Context:
    """A context like that of every decision about all data of a model: of the same types.

    ints, floats: what its state shows, if not the model's own.
    """
    state = model.state(
        model.ints if ints is None else ints, model.floats if floats is None else floats
    )
    target = np.zeros(1, dtype=TARGET).view(np.recarray)
    return Context(state, model.data, EVERY_ROW, target, room_of(model), new_nodes())


# ---------------------------------------------------------------------------------- rewards
@jit(inner="always")
def prior_of(trial):
    """The log prior of the state as it is."""
    return call(trial.calls.prior, trial.calls.context)


@jit(inner=True)
def rewards(trial, arm, rows, out):
    """Fill out with an arm's rewards; it is left in the state."""
    place(trial, arm)
    calls = trial.calls
    call_rows(calls.rewards, calls.context, calls.row, arm, rows, out)


@jit(inner=True)
def sum_between(calls, first, last):
    """The sum of the rewards of the arm in the state over rows first .. last - 1.

    What knows the model adds up a block; the tree of blocks is the same for all.
    """
    if calls.by_block == 0:
        return call_numbers(calls.total, calls.context, first, last)
    for count, low in enumerate(range(first, last, BLOCK)):
        carry(calls.nodes, count, call_numbers(calls.total, calls.context, low, last))
    return root(calls.nodes, last - first)


@jit(inner=True)
def add_up(trial, size):
    """The sum of the rewards of the arm in the state, over all rows."""
    return sum_between(trial.calls, 0, size)


@jit(inner=True)
def total(trial, arm, size):
    """An arm's exact sum; it is left in the state."""
    place(trial, arm)
    return add_up(trial, size)


@jit(inner=True)
def touch(trial, rows):
    """Read the data of a mini-batch before the first arm does."""
    calls = trial.calls
    return call_touch(calls.touch, calls.context, calls.row, rows) if calls.touch != 0 else 0.0


# Of data that a site touches, and of all data, whose sums are remembered: of any model.
remembered_total = remembered(place, add_up)
TOUCHED = Sources(rewards, total, touch)
ALL = Sources(rewards, remembered_total, touch)


def calls_of(model, context: Context, touched: bool) -> Calls:
    """The functions of a model, about this context."""
    likelihood, prepare, prior = model.compiled
    if prepare is not None:
        read, add = reading_prepared(likelihood, prepare, touched)
    else:
        read, add = reading(likelihood, touched)
    if model.chunks is not None and not touched:
        add = model.chunks
    by_block = int(prepare is None or add is model.chunks)
    if model.elsewhere is not None:
        read, add, by_block = read_resident(read), known_sum, 0
    about, row = RecordAddress(context), row_kind(model.size)
    return Calls(
        about, row(0),
        FunctionAddress(read, about, NUMBER, array(row), FLOATS),
        FunctionAddress(add, about, NUMBER, NUMBER),
        FunctionAddress(of_state(prior), about),
        touching(() if touched else model.large, about, row), by_block, context.nodes,
    )  # fmt: skip


@jit(inner=True)
def nothing(state, data):
    """For models without prepare."""
    return 0


@memoised
def of_state(function) -> Any:
    """A function of the state, a log prior say, to be called by its address."""

    @jit(inner="entry", user=True)
    def value(context):
        return 1.0 * function(context.state)

    return value


# ----------------------------------------------------------------------------- read from Python
@jit
def sum_of(trial, arm, size):
    """The exact sum of an arm, callable from Python."""
    return remembered_total(trial, arm, size)


@jit
def sums_between(trial, first, last, out):
    """Write each arm's sum over rows first .. last - 1: a node of its tree, if these rows are."""
    for arm in range(len(out)):
        place(trial, arm)
        out[arm] = sum_between(trial.calls, first, last)


@jit
def rewards_of(trial, arm, rows, out):
    """An arm's rewards, callable from Python."""
    rewards(trial, arm, rows, out)
