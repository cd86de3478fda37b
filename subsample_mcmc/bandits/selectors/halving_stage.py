"""What sequential halving knows of the arms of one decision, and whom it keeps. See halving.py."""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.heap import Heap, put
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import CHUNK, Rows

LOOKS = 16  # batches that an arm may read in a stage: what a variance is estimated from
LEAST_BATCH = 8  # rows of a batch
DOUBLING = 32  # batches of one size; the next as many have twice the rows
NEVER = 1 << 62  # more batches than any arm has
HUGE = 1e300  # the worth of a batch where nothing is known

APART = np.dtype(
    [
        ("batches", np.int64),  # that the arm and the leader both have read, and that are counted
        ("total", float),  # of arm - leader
        ("centre", float),  # its mean per row, and squares around it, weighted by rows
        ("squares", float),
    ],
    align=True,
)


class HalvingParams(NamedTuple):
    """least: batches read by all arms alike; variances: of a reward, empty if not known."""

    size: int
    budget: int
    allocation: int
    least: int
    risk: float  # log(1 / delta)
    variances: np.ndarray


class HalvingScratch(NamedTuple):
    """Sums of the batches each arm has read, in the order in which all arms read them."""

    rows: Rows
    order: np.ndarray  # rows, as far as any arm has read
    sums: np.ndarray  # (arms, batches); an arm whose last one is -inf is out for good
    read: np.ndarray  # batches read by each arm
    alive: np.ndarray  # arms that are in
    score: np.ndarray
    worth: Heap  # of a further batch of each arm; -inf: none, or it is out
    apart: np.recarray  # (arms,) of APART
    leader: np.ndarray  # (1,) from whom they are apart
    values: np.ndarray
    died: np.ndarray  # (1,) has a living arm met -inf
    prefetched: np.ndarray  # (1,) a sum nobody reads: it keeps the prefetch from being left out


class StagePlan(NamedTuple):
    """Of one decision: rows of the first batches, and batches in all rows."""

    batch: int
    batches: int


def columns_of(longest: int) -> int:
    """Batches that so many rows can take: most if the first have one row each."""
    doublings = (longest // DOUBLING).bit_length()
    return min(longest, DOUBLING * (doublings + 1))


@jit(inner=True)
def stages_of(alive):
    """ceil(log2(alive)), at least 1."""
    stages = 1
    while 1 << stages < alive:
        stages += 1
    return stages


@jit(inner=True)
def plan_of(params, alive):
    """Batches so small that every arm may read LOOKS of them in the first stage.

    Later ones grow, to 1 / DOUBLING of what the arm has read: so an arm reads few batches however
    many rows it reads, and the first fit into a budget of one row for each arm.
    """
    share = params.budget // stages_of(alive) // alive
    batch = min(max(share // LOOKS, min(LEAST_BATCH, share), 1), CHUNK)
    before, size, count = 0, batch, 0
    while before + DOUBLING * size < params.size:
        before += DOUBLING * size
        size *= 2
        count += DOUBLING
    return StagePlan(batch, count + (params.size - before + size - 1) // size)


@jit(inner=True)
def rows_read(params, plan, batches):
    """Rows of the first batches."""
    size = plan.batch << (batches // DOUBLING)
    before = DOUBLING * (size - plan.batch)
    return min(before + batches % DOUBLING * size, params.size)


@jit(inner=True)
def rows_of(params, plan, batch):
    """Rows of one batch: the last may be short."""
    return rows_read(params, plan, batch + 1) - rows_read(params, plan, batch)


@jit(inner=True)
def follow(scratch, leader):
    """Distances are from this arm now."""
    if scratch.leader[0] != leader:
        scratch.leader[0] = leader
        for arm in range(len(scratch.apart)):
            own = scratch.apart[arm]
            own.batches = 0
            own.total = own.centre = own.squares = 0.0


@jit(inner=True)
def difference(params, scratch, plan, arm):
    """(mean of arm - leader per row, its variance) by the batches that both have read.

    Batch means have variances inversely proportional to their rows: weighted by these, their
    squares around the mean estimate the variance of a row without bias.
    """
    own, leader = scratch.apart[arm], scratch.leader[0]
    common = min(scratch.read[arm], scratch.read[leader])
    before = rows_read(params, plan, own.batches)
    for c in range(own.batches, common):
        apart, rows = scratch.sums[arm, c] - scratch.sums[leader, c], rows_of(params, plan, c)
        before += rows
        own.total += apart
        step = apart / rows - own.centre
        own.centre += step * rows / before
        own.squares += step * (apart / rows - own.centre) * rows
    own.batches = common
    variance = own.squares / (common - 1) if common > 1 else np.inf
    return own.total / max(before, 1), variance


@jit(inner=True)
def grade(params, scratch, plan, offsets, left):
    """Scores of the living arms in nats, and the highest of those that have read most.

    An arm without rows is taken to be as good as the leader but for its offset.
    """
    leader, highest = -1, -np.inf
    furthest = 0
    for k in range(left):
        furthest = max(furthest, scratch.read[scratch.alive[k]])
    for k in range(left):
        arm = scratch.alive[k]
        if scratch.read[arm] == furthest:
            total = 0.0
            for c in range(furthest):
                total += scratch.sums[arm, c]
            rows = max(rows_read(params, plan, furthest), 1)
            value = total / rows * params.size + offsets[arm]
            if leader < 0 or value > highest:
                leader, highest = arm, value
    follow(scratch, leader)
    for k in range(left):
        arm = scratch.alive[k]
        mean = difference(params, scratch, plan, arm)[0]
        scratch.score[arm] = highest + params.size * mean + offsets[arm] - offsets[leader]
    return leader


@jit(inner=True)
def better(scratch, arm, other):
    """By score; of equals the first, as in an exact decision."""
    score = scratch.score
    return score[arm] > score[other] or (score[arm] == score[other] and arm < other)


@jit(inner=True)
def keep_best(scratch, left, keep):
    """The best of the living arms in the first places, in any order (Hoare's selection)."""
    alive, low, high = scratch.alive, 0, left - 1
    while low < high:
        middle = (low + high) // 2
        alive[middle], alive[high] = alive[high], alive[middle]
        place = low
        for k in range(low, high):
            if better(scratch, alive[k], alive[high]):
                alive[k], alive[place] = alive[place], alive[k]
                place += 1
        alive[place], alive[high] = alive[high], alive[place]
        if place < keep:
            low = place + 1
        else:
            high = place - 1
    return keep


@jit(inner=True)
def keep_half(scratch, plan, left):
    """The better half of the living arms in the first places; how many are dropped early.

    A drop is certain where the arm's whole sum is less than another whole sum. It is early where
    any of the two is an estimate.
    """
    alive, sure = scratch.alive, -1
    for k in range(left):
        if scratch.read[alive[k]] == plan.batches:
            if sure < 0 or better(scratch, alive[k], sure):
                sure = alive[k]
    kept, early = keep_best(scratch, left, (left + 1) // 2), 0
    for k in range(kept, left):
        if scratch.read[alive[k]] < plan.batches or alive[k] == sure:
            early += 1
    return early


@jit(inner=True)
def dead(scratch, arm):
    """Has the arm met -inf in its last batch."""
    count = scratch.read[arm]
    return count > 0 and scratch.sums[arm, count - 1] == -np.inf


@jit(inner=True)
def enter(offsets, scratch, afresh):
    """All arms that are not known to be impossible are in; how many."""
    left = 0
    for arm in range(len(offsets)):
        if afresh:
            scratch.read[arm] = 0
        if offsets[arm] > -np.inf and not dead(scratch, arm):
            scratch.alive[left] = arm
            left += 1
    scratch.died[0] = False
    if afresh:
        scratch.leader[0] = -1
    return left


@jit(inner=True)
def bury(scratch, left):
    """Living arms without those that met -inf in their last batch; how many."""
    kept = 0
    for k in range(left):
        if not dead(scratch, scratch.alive[k]):
            scratch.alive[kept] = scratch.alive[k]
            kept += 1
    scratch.died[0] = False
    return kept


@jit(inner=True)
def worth_of(params, scratch, plan, arm):
    """What a further batch of an arm is worth: the variance of its distance from the leader.

    Known variances are those of rewards: they are added, as if the two arms had nothing in common.
    Where no variance is known yet, or it is zero, those that have read least come first.
    """
    count, leader = scratch.read[arm], scratch.leader[0]
    if count >= plan.batches:
        return -np.inf
    if params.allocation == 1:
        variance = params.variances[arm] + params.variances[leader]
    else:
        lower = 1.0 - 2.0 * np.sqrt(params.risk / max(count - 1, 1))
        variance = difference(params, scratch, plan, arm)[1]
        variance = variance / lower if lower > 0.0 else np.inf
    rows = rows_read(params, plan, count)
    if count == 0 or variance == np.inf:
        return HUGE / (1.0 + count)
    if variance == 0.0:
        return -float(count)
    return variance / rows * (1.0 - rows / params.size)


@jit(inner=True)
def weigh_all(params, scratch, plan, left):
    """Of all living arms but the leader, which reads along with those that overtake it."""
    heap = scratch.worth
    for arm in range(len(heap.keys)):  # places, too: a decision must not depend on the last one
        heap.keys[arm] = -np.inf
        heap.order[arm] = heap.places[arm] = arm
    for k in range(left):
        arm = scratch.alive[k]
        if arm != scratch.leader[0]:
            put(heap, arm, worth_of(params, scratch, plan, arm))


@jit(inner=True)
def wanted(scratch):
    """The living arm whose distance from the leader is known worst; -1: all rows are read."""
    top = scratch.worth.order[0]
    return top if scratch.worth.keys[top] > -np.inf else -1
