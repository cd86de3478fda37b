"""Sequential halving, with equal and unequal variances (Lalitha et al. 2023).

ceil(log2 K) stages of equal budgets; each spends its own on the arms that are left, and keeps the
better half by the means of that stage alone. What differs is who is pulled in a stage:
"equal", all arms alike (Karnin, Koren & Somekh 2013); "known-variance" (SHVar), the largest
variance / pulls; "adaptive-variance" (SHAdaVar), the largest upper bound of it,

    s^2 / (1 - 2 sqrt(log(1 / delta) / (N - 1))) / N,

after 4 log(1 / delta) + 2 pulls of every arm, without which the bound is negative and the arm
would never be pulled again. A stage that cannot afford these is spent equally. Arms without any
variance come last, the least pulled of them first; ties fall in a random order.

Stages pull arms in blocks: where max_pulls ends a run in the first stage, or its leader is looked
at there, arms that have had no turn yet are not compared, and the arm that is named is arbitrary.
"""

from math import ceil, floor, log, log2
from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.heap import Heap, make_heap, put
from subsample_mcmc.bandits.strategy import (
    BUDGET,
    Steps,
    begin,
    highest_inside,
    note,
    stop,
)
from subsample_mcmc.numerics.jit import jit

HALVING_ALLOCATIONS = {"equal": 0, "known-variance": 1, "adaptive-variance": 2}


class HalvingNumbers(NamedTuple):
    """least: pulls of every arm in a stage before adaptive allocation begins; log(1 / delta)."""

    budget: int
    stages: int
    allocation: int
    least: int
    risk: float
    variances: np.ndarray


class HalvingState(NamedTuple):
    """Arms that are left stand first in `order`; counts, centres and apart are of this stage."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    order: np.ndarray
    counts: np.ndarray
    centres: np.ndarray
    apart: np.ndarray
    heap: Heap


def halving_numbers(budget, arms, allocation, variances, delta) -> HalvingNumbers:
    """Numbers of a run; budget: pulls in all."""
    known = np.ones(arms) if variances is None else np.array(variances, dtype=float)
    if known.shape != (arms,) or not np.all(known >= 0.0) or not np.all(np.isfinite(known)):
        raise ValueError(
            f"variances={variances!r:.60}: give a number, 0 or more, for each of {arms} arms."
        )
    stages = max(ceil(log2(arms)), 1)
    if budget < arms * stages:
        raise ValueError(
            f"budget={budget} is shared among {stages} stages, and the first would not pull each "
            f"of {arms} arms once: arms that are not pulled would be dropped unseen. Give "
            f"budget={arms * stages} or more. sm.bandits.SuccessiveRejects() serves less, and "
            "sm.BayesGap, if arms are correlated, less than a pull for each."
        )
    return HalvingNumbers(
        budget, stages, HALVING_ALLOCATIONS[allocation],
        floor(-4.0 * log(delta) + 1.0) + 1, -log(delta), known,
    )  # fmt: skip


def halving_state(arms: int) -> HalvingState:
    """All arms are in."""
    state = HalvingState(
        *begin(arms), np.arange(arms), np.zeros(arms, dtype=np.int64), np.zeros(arms),
        np.zeros(arms), make_heap(arms),
    )  # fmt: skip
    state.now["left"] = arms
    return state


@jit(inner=True)
def lay_out(state, key):
    """The heap in the order of the stage, which is random: so ties are cut at random, too.

    Arms that are in have this key and stand first; the others have -inf.
    """
    order, heap = state.order, state.heap
    for i in range(len(order)):
        heap.keys[order[i]] = key if i < state.now[0].left else -np.inf
        heap.order[i] = order[i]
        heap.places[order[i]] = i


@jit(inner=True)
def keep_better_half(state):
    """By the means of the stage; arms that were not pulled are the worst."""
    now, order, heap = state.now[0], state.order, state.heap
    lay_out(state, -np.inf)
    for i in range(now.left):
        arm = order[i]
        put(heap, arm, state.centres[arm] if state.counts[arm] else -1e300)
    for i in range(now.left):
        order[i] = heap.order[0]
        put(heap, order[i], -np.inf)
    now.left = (now.left + 1) // 2


@jit(inner=True)
def open_stage(params, state, rng):
    """Begin a stage: fresh statistics, arms in random order so that ties are cut at random."""
    now, order = state.now[0], state.order
    spent = now.total
    if now.stage == params.stages - 1:  # the last one has what division left over
        now.goal = params.budget - spent
    else:
        now.goal = params.budget // params.stages
    now.cursor = 0
    for i in range(now.left - 1, 0, -1):
        j = np.int64(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]
    for i in range(now.left):
        arm = order[i]
        state.counts[arm] = 0
        state.centres[arm] = state.apart[arm] = 0.0
    lay_out(state, np.inf)
    adaptive = params.allocation == 2 and now.goal >= params.least * now.left
    now.first = 0 if params.allocation == 0 or (params.allocation == 2 and not adaptive) else 1


@jit(inner=True)
def halving_ask(params, state, rng):
    now, order = state.now[0], state.order
    if now.total == 0:
        open_stage(params, state, rng)
    if now.cursor == now.goal:
        keep_better_half(state)
        now.stage += 1
        if now.stage == params.stages:
            return stop(state, BUDGET)
        open_stage(params, state, rng)
    left = now.goal - now.cursor
    if now.first == 0:  # equally: the first arms take what division leaves over
        share, more = now.goal // now.left, now.goal % now.left
        behind = now.cursor - more * (share + 1)
        place = now.cursor // (share + 1) if behind < 0 else more + behind // share
        now.count = share + 1 if place < more else share
        arm = order[place]
    else:
        arm = state.heap.order[0]
        now.count = params.least if params.allocation == 2 and state.counts[arm] == 0 else 1
    now.count = min(now.count, left)
    now.cursor += now.count
    return arm


@jit(inner=True)
def priority(params, state, arm):
    """Variance / pulls, or its upper bound; of arms that do not vary, minus pulls."""
    count = state.counts[arm]
    if params.allocation == 1:
        return params.variances[arm] / count if params.variances[arm] > 0.0 else -float(count)
    lower = 1.0 - 2.0 * np.sqrt(params.risk / max(count - 1, 1))
    if lower <= 0.0:
        return np.inf
    if state.apart[arm] == 0.0:
        return -float(count)
    return state.apart[arm] / (count - 1) / lower / count


@jit(inner=True)
def halving_tell(params, state, arm, reward):
    note(state, arm, reward)
    state.counts[arm] += 1
    apart = reward - state.centres[arm]
    state.centres[arm] += apart / state.counts[arm]
    state.apart[arm] += apart * (reward - state.centres[arm])
    if state.now[0].first and state.now[0].count == 0:
        put(state.heap, arm, priority(params, state, arm))


@jit(inner=True)
def halving_answer(params, state):
    """The arm that was kept last; before that, the highest mean among those that are left.

    Of several the one that was pulled most, then one by the random order.
    """
    return highest_inside(state, state.order)


HALVING = Steps(halving_ask, halving_tell, halving_answer)
