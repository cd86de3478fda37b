"""Arms tried in the state itself: rewards of a model, and one decision with its bookkeeping.

All kernels share one kind of context, so that the machine code of a model's race is compiled once:
an arm is either a value of one discrete site or a row of candidate values for a continuous block.
It is tried by writing it into the state; the chosen one is written last.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.draws import WEYL, hashed
from subsample_mcmc.jit import FLAGS, jit
from subsample_mcmc.rules.race import ALONE, EXACT, EXHAUSTED, NOT_FINITE, RACED, RETREATED, Shape
from subsample_mcmc.selectors.selector import (
    Selector,
    Sources,
    not_a_sum,
    sources_of,
    touch_nothing,
)

TARGET = np.dtype(
    [
        ("start", np.int64),  # of the block in its flat array
        ("length", np.int64),
        ("site", np.int64),  # of a discrete block; -1: the block is continuous
        ("first", np.int64),  # where the site's part of `indices` starts, if it touches few data
        ("rows", np.int64),  # data that the decision is about
        ("leaf", np.int64),
    ],
    align=True,
)
MASK = np.int64(2**63 - 1)  # tells LLVM that an index is not negative
U11 = np.uint64(11)
SAMPLED = 1024  # rows that an audit measures the skewness of a difference on


class Trial(NamedTuple):
    """The context of every reward of a model."""

    state: Any  # record of read-only views
    data: Any
    ints: np.ndarray
    floats: np.ndarray
    target: np.recarray  # (1,) of TARGET
    candidates: np.ndarray  # (arms, length) values of a continuous block
    indices: np.ndarray  # data touched, all sites in a row


class Judge(NamedTuple):
    """What a decision needs: the arms, the selector's numbers and arrays, and the counts."""

    trial: Trial
    offsets: np.ndarray
    params: Any
    scratch: Any
    tally: np.recarray
    sample: np.ndarray  # rows, and rewards of two arms, that an audit looks at
    values: np.ndarray


@jit(inner=True)
def place(trial, arm):
    """Write an arm into the state."""
    target = trial.target[0]
    if target.site >= 0:
        trial.ints[target.start + target.site] = arm
    else:
        for j in range(target.length):
            trial.floats[target.start + j] = trial.candidates[arm, j]


def make_trial(model, run, block, rows: int, candidates=None, indices=None) -> Trial:
    """The context of one kernel on one block."""
    target = np.zeros(1, dtype=TARGET).view(np.recarray)
    target["start"], target["length"], target["rows"] = block.start, block.length, rows
    target["site"], target["leaf"] = 0 if block.discrete else -1, run.leaf
    empty = np.zeros((1, 1)) if candidates is None else candidates
    few = np.zeros(1, dtype=np.int64)
    few.flags.writeable = False
    return Trial(
        model.state(run.ints, run.floats), model.data, run.ints, run.floats, target, empty,
        few if indices is None else indices,
    )  # fmt: skip


def make_judge(model, run, trial, selector: Selector, arms: int, tally) -> Judge:
    """A kernel's means to decide between `arms` arms."""
    shape = Shape((int(trial.target[0].rows),) * arms, shared=True)
    kind = np.int32 if shape.sizes[0] < 2**31 else np.int64
    return Judge(
        trial, np.zeros(arms), selector.params(shape), selector.scratch(shape), tally,
        np.zeros(SAMPLED, dtype=kind), np.zeros((2, SAMPLED)),
    )  # fmt: skip


# ---------------------------------------------------------------------------------- rewards
@jit(inner=True)
def nothing(state, data):
    """For models without prepare."""
    return 0


_sources: dict[Any, Sources] = {}


def model_sources(model, touched: bool) -> Sources:
    """The batch functions of a model, over all data or over those that a site touches."""
    likelihood, prepare, _ = model.compiled
    large = () if touched else model.large
    key = (likelihood, prepare, large, touched)
    if key in _sources:
        return _sources[key]
    if prepare is None:
        prepare = nothing

        @jit(flags=FLAGS, inner="always")
        def one(state, data, n, made):
            return likelihood(state, data, n)
    else:

        @jit(flags=FLAGS, inner="always")
        def one(state, data, n, made):
            return likelihood(state, data, n, made)

    # `batch` promises that its arrays do not overlap: true, as long as no arm is placed inside.
    if touched:

        @jit(flags=FLAGS, disjoint=True, inner=True)
        def batch(state, data, indices, first, made, rows, out):
            for i in range(np.uint64(len(rows))):
                out[i] = one(state, data, indices[first + rows[i]] & MASK, made)

        @jit(flags=FLAGS, inner=True)
        def streamed(state, data, indices, first, made, size):
            value = 0.0
            for i in range(np.uint64(size)):
                value += one(state, data, indices[np.uint64(first) + i] & MASK, made)
            return value
    else:

        @jit(flags=FLAGS, disjoint=True, inner=True)
        def batch(state, data, indices, first, made, rows, out):
            for i in range(np.uint64(len(rows))):
                out[i] = one(state, data, np.int64(rows[i]) & MASK, made)

        @jit(flags=FLAGS, inner=True)
        def streamed(state, data, indices, first, made, size):
            value = 0.0
            for i in range(np.uint64(size)):
                value += one(state, data, np.int64(i) & MASK, made)
            return value

    # What prepare allocates must be counted, or it is never released.
    counts = prepare is not nothing

    @jit(inner=True, user=counts)
    def rewards(trial, arm, rows, out):
        place(trial, arm)
        made, first = prepare(trial.state, trial.data), trial.target[0].first
        batch(trial.state, trial.data, trial.indices, first, made, rows, out)

    @jit(inner=True, user=counts)
    def total(trial, arm, size):
        place(trial, arm)
        made, first = prepare(trial.state, trial.data), trial.target[0].first
        return streamed(trial.state, trial.data, trial.indices, first, made, size)

    _sources[key] = Sources(rewards, total, touching(large))
    return _sources[key]


def touching(large):
    """The selectors' touch, reading the data of a model's context."""
    inside = sources_of(nothing, large).touch
    if inside is touch_nothing:
        return inside

    @jit(inner=True)
    def touch(trial, rows):
        return inside(trial.data, rows)

    return touch


# --------------------------------------------------------------------------------- decisions
_deciders: dict[Any, Any] = {}


def decider(model, selector: Selector, touched: bool) -> Any:
    """decide(chain, judge, current) -> arm, compiled; -1 after an error, the state as it was."""
    sources = model_sources(model, touched)
    choose = selector.build(sources)
    if choose in _deciders:
        return _deciders[choose]
    rewards, total, _ = sources

    @jit(inner=True)
    def skewness_between(judge, best, second):
        """Skewness of the difference of two arms over evenly spaced rows."""
        trial, rows = judge.trial, judge.trial.target[0].rows
        count = min(rows, SAMPLED)
        for i in range(count):
            judge.sample[i] = i * rows // count
        rewards(trial, best, judge.sample[:count], judge.values[0, :count])
        rewards(trial, second, judge.sample[:count], judge.values[1, :count])
        mean, square, cube = 0.0, 0.0, 0.0
        for i in range(count):
            mean += (judge.values[0, i] - judge.values[1, i]) / count
        for i in range(count):
            d = judge.values[0, i] - judge.values[1, i] - mean
            square += d * d / count
            cube += d * d * d / count
        # -inf among the rewards, or no difference: nothing to measure.
        return abs(cube) / square**1.5 if square > 1e-28 * mean * mean else 0.0

    @jit(inner=True)
    def reconsider(judge, chosen):
        """Decide again, exactly, under the same offsets; return an arm that is no number, or -1."""
        trial, offsets, tally = judge.trial, judge.offsets, judge.tally[0]
        best, second, score, first, runner = -1, -1, -np.inf, -np.inf, -np.inf
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            value = offsets[arm] + total(trial, arm, trial.target[0].rows)
            if not_a_sum(value):
                return arm
            if arm == chosen:
                score = value
            if value > first:
                best, second, first, runner = arm, best, value, first
            elif value > runner:
                second, runner = arm, value
        tally.audited += 1
        # The same numbers added in another order: within rounding of the best is the best.
        if best != chosen and first - score > 1e-11 * abs(first):
            tally.wrong += 1
            tally.regret += first - score
        if second >= 0 and runner > -np.inf:
            tally.margin += first - runner
            tally.skewness += skewness_between(judge, best, second)
        return -1

    @jit(inner=True)
    def decide(chain, judge, current):
        trial, tally, now = judge.trial, judge.tally[0], chain.now[0]
        made = choose(chain.rows, trial, judge.offsets, judge.params, judge.scratch)
        possible = 0
        for arm in range(len(judge.offsets)):
            possible += 1 if judge.offsets[arm] > -np.inf else 0
        tally.decisions += 1
        tally.pulls += made.pulls
        tally.rounds += made.rounds
        tally.early += 1 if made.dropped_early > 0 else 0
        if possible > 1:
            tally.everything += possible * trial.target[0].rows
        if made.ended == ALONE:
            tally.alone += 1
        elif made.ended == EXACT:
            tally.exact += 1
        elif made.ended == RACED:
            tally.raced += 1
        elif made.ended == EXHAUSTED:
            tally.exhausted += 1
        elif made.ended == RETREATED:
            tally.retreated += 1
        else:
            row = made.bad_row
            if touched and row >= 0:
                row = trial.indices[trial.target[0].first + row]
            fail(now, trial, made.ended, made.bad_arm, row)
            place(trial, current)
            return -1
        if now.audit > 0.0:  # a stream of its own: draws are the same with and without audit
            chain.audits[0] += WEYL
            if (hashed(chain.audits[0]) >> U11) * 2.0**-53 < now.audit:
                none = reconsider(judge, made.arm)
                if none >= 0:  # a race may not have read the datum that is no number
                    fail(now, trial, NOT_FINITE, none, -1)
                    place(trial, current)
                    return -1
        tally.accepted += 1 if made.arm != current else 0
        place(trial, made.arm)
        return made.arm

    _deciders[choose] = decide
    return decide


@jit(inner=True)
def fail(now, trial, code, arm, row):
    """Stop the chain: what went wrong, and where."""
    now.code, now.kernel, now.arm, now.row = code, trial.target[0].leaf, arm, row
