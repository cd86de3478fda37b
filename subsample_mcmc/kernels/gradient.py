"""The gradient of the log target in free coordinates, estimated from one mini-batch.

g_S(u) = d/du [log prior + log |dx/du| + (N/m) sum over n in S of l_n(x(u))]

It only says where to propose. Whatever function of u and S it is, a corrected kernel stays exact
as long as S is drawn independently of u: so differences are good enough, and a component may be 0
where it is not finite, at the edge of the support. The likelihood's own derivatives cost less where
log_likelihood compiles for them: LANES components at once, where differences take two evaluations
for each (numerics/jets/).

Anchored at a reference point (SGLD-CV; Baker, Fearnhead, Fox & Nemeth 2019) it is
g_S(u) - g_S(u*) + g_N(u*): the mini-batch estimates only the difference to a point whose gradient
over all N data is computed once. Near u* its variance falls with (u - u*)^2, where that of g_S(u)
alone is of order N^2/m: so a step of mini-batch gradients mixes like one of full ones.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import (
    FEW,
    functions_of,
    jets_of,
    obstacle,
    on_lines,
    preparing,
)
from subsample_mcmc.decisions.rules.rule import NOT_FINITE
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.errors import RewardError
from subsample_mcmc.kernels.base import BAD_PRIOR, BAD_PROPOSAL
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    NUMBER,
    FunctionAddress,
    RecordAddress,
    call_both,
    pointer_to,
)
from subsample_mcmc.numerics.rows import CHUNK, Rows, make_rows, put_back, row_kind, take
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.moved import Moved, all_to_block
from subsample_mcmc.target.rewards import (
    Trial,
    make_trial,
    nothing,
    place,
    prior_of,
    rewards,
)

DERIVATIVES = "derivatives"  # of log_likelihood itself, in the place of a gradient
STEP = 6e-6  # of a central difference: the cube root of the rounding error balances both errors


class GradientRoom(NamedTuple):
    """What sums of a user's gradient are made with."""

    batch: np.ndarray  # S
    one: np.ndarray  # the gradient of one datum
    shaped: Any  # the same memory, in the block's shape; of several blocks, a record of them
    sums: np.ndarray


class LinesRoom(NamedTuple):
    """What sums of the likelihood's own derivatives are made with."""

    batch: np.ndarray  # S
    state: Any  # the chain's state, on LANES lines
    slopes: np.ndarray  # (length, LANES) of the block
    sums: np.ndarray
    bad: np.ndarray  # (1,) the first datum whose log likelihood is none, or -1


class Slope(NamedTuple):
    """What a gradient is computed with."""

    probe: Trial  # with candidates of its own: the two ends of a difference
    rows: Rows
    batch: np.ndarray  # S; empty if the gradient reads no data
    weight: float  # N / m
    cost: int  # what a gradient reads: gradients of so many data ...
    each: int  # ... or, where it is made of differences, so many rewards for each coordinate
    up: np.ndarray  # (CHUNK,) rewards at either end
    down: np.ndarray
    point: np.ndarray  # free coordinates of an end
    sums: np.ndarray  # of the user's gradients, by component of the block
    gradient: Any  # the user's, called by its address with ...
    room: Any  # ... a GradientRoom; 0 without one
    bad: np.ndarray  # (1,) the datum to blame, or -1
    anchor: np.ndarray  # a reference point in free coordinates (reference_of), if there is one
    known: np.ndarray  # the gradient there, over all data
    spare: np.ndarray


def make_slope(model, run, blocks: Moved, batch: int, own: Any, controls: Any = ()) -> Slope:
    """Arrays for what moves; own: the gradient that the user gives; controls: their sums do.

    own may also be DERIVATIVES, those of the likelihood, or None: by differences.
    """
    block, free, ends = blocks.block, blocks.free, blocks.candidates(model)
    probe = make_trial(model, run, block, model.size, ends, None, controls)
    rows, one = make_rows((1 if controls else model.size,)), np.zeros(block.length)
    batch = 0 if controls else batch
    some, sums = np.arange(batch, dtype=row_kind(model.size)), np.zeros(block.length)
    gradient: Any = 0
    room: Any = 0
    bad = np.full(1, -1)
    if own is DERIVATIVES:
        whole = np.zeros((len(model.floats), jets_of().LANES))
        part = whole[block.start : block.start + block.length]
        state = on_lines(model, run.ints, run.floats, whole)
        room = RecordAddress(LinesRoom(some, state, part, sums, bad))
        adding = along_lines(*functions_of(model))
        gradient = FunctionAddress(adding, probe.calls.context, room, NUMBER)
    elif own is not None:
        room = RecordAddress(GradientRoom(some, one, blocks.views(one), sums))
        of_datum = jit(own, flags=FLAGS, user=True, inner=True)
        gradient = FunctionAddress(
            summing(model.compiled[1], of_datum), probe.calls.context, room, NUMBER
        )
    return Slope(
        probe, rows, some, model.size / max(batch, 1), 0 if own is None else batch,
        2 * batch if own is None else 0, np.zeros(CHUNK), np.zeros(CHUNK), np.zeros(free), sums,
        gradient, room, bad, np.zeros(free), np.zeros(free), np.zeros(free),
    )  # fmt: skip


@jit(inner=True)
def draw_batch(tools, stream):
    """Draw S anew, without replacement; all data need no drawing."""
    rows, batch, first = tools.rows, tools.batch, 0
    if len(batch) == 0 or len(batch) == tools.probe.target[0].rows:
        return
    while first < len(batch):
        count = min(CHUNK, len(batch) - first)
        start = take(rows, stream, 0, count)
        for i in range(count):
            batch[first + i] = rows.kept[start + i]
        first += count
    put_back(rows)


@jit(inner="always")
def prior_of_all(tools, about):
    return prior_of(tools.probe)


def central(prior: Any, along: Any) -> Any:
    """slopes(tools, to, u, point, g, about) -> 0 or what went wrong: central differences, into g.

    prior(tools, about): the log prior of the state. along(tools): what data add to a difference;
    nan says that a reward is none, -inf, that one is impossible. point: room for the ends.
    """

    @jit(inner=True)
    def slopes(tools, to, u, point, g, about):
        probe, code = tools.probe, 0
        ends = probe.candidates
        for j in range(len(u)):
            point[j] = u[j]
        for j in range(len(u)):
            g[j] = 0.0
            width = STEP * max(1.0, abs(u[j]))
            high, low = u[j] + width, u[j] - width  # as rounded: the width is high - low
            point[j] = high
            change = all_to_block(to, point, ends[0])
            point[j] = low
            change -= all_to_block(to, point, ends[1])
            point[j] = u[j]
            if not abs(change) < np.inf:
                continue  # neither prior nor data are asked off the support
            place(probe, 0)
            above = prior(tools, about)
            place(probe, 1)
            below = prior(tools, about)
            if not_a_sum(above) or not_a_sum(below):
                code = BAD_PRIOR
                continue
            change += above - below
            if not abs(change) < np.inf:
                continue
            change = (change + along(tools)) / (high - low)
            if change != change:
                code = NOT_FINITE
            elif abs(change) < np.inf:
                g[j] = change
        return code

    return slopes


def slope_of(own: Any, control=None):
    """slope(tools, to, u, g) -> 0 or what went wrong: writes g_S(u), or g with zeros.

    own: as of make_slope; control: whose it is instead.
    Leaves one of its own points in the state: the caller places what belongs there.
    """
    if control is not None:
        begin, along = known_gradient(control)
    else:
        begin, along = differences() if own is None else sums_of_data(own is DERIVATIVES)
    slopes = central(prior_of_all, along)

    @jit(inner=True)
    def slope(tools, to, u, g):
        probe, point = tools.probe, tools.point[: len(u)]
        tools.bad[0] = -1
        for j in range(probe.target[0].length):  # also what stands still, in a block or between
            still = probe.floats[probe.target[0].start + j]
            probe.candidates[0, j] = probe.candidates[1, j] = still
        code = begin(tools, to, u)
        found = slopes(tools, to, u, point, g, 0)
        return found if found != 0 else code

    return slope


@jit(flags=FLAGS, inner=True)
def difference(up, down, count):
    """Datum by datum: sums would cancel."""
    total = 0.0
    for i in range(np.uint64(count)):
        total += up[i] - down[i]
    return total


def differences():
    """(begin, along) from rewards at both ends: along() is sum over S of l_n(up) - l_n(down).

    nan says that a reward is none; -inf, that one is impossible.
    """

    @jit(inner=True)
    def begin(tools, to, u):
        return 0

    @jit(inner=True)
    def along(tools):
        total, first = 0.0, 0
        while first < len(tools.batch):
            count = min(CHUNK, len(tools.batch) - first)
            rows = tools.batch[first : first + count]
            rewards(tools.probe, 0, rows, tools.up[:count])
            rewards(tools.probe, 1, rows, tools.down[:count])
            change = difference(tools.up, tools.down, count)
            if not abs(change) < np.inf:
                for i in range(count):
                    if not_a_sum(tools.up[i]) or not_a_sum(tools.down[i]):
                        tools.bad[0] = rows[i]
                        return np.nan
                return -np.inf
            total += change
            first += count
        return tools.weight * total

    return begin, along


def sums_of_data(derivatives: bool):
    """(begin, along) from gradients of single data with respect to the block: the chain rule.

    begin() sums them over S; along() multiplies by x(up) - x(down), which is dx/du for any
    constraint. A user's gradient must be finite; where derivatives are not, they count as 0.
    """

    @jit(inner=True)
    def begin(tools, to, u):
        probe, sums = tools.probe, tools.sums
        for k in range(len(sums)):
            sums[k] = 0.0
        all_to_block(to, u, probe.candidates[0])
        place(probe, 0)
        call_both(tools.gradient, probe.calls.context, tools.room, 0)
        code = 0 if tools.bad[0] < 0 else NOT_FINITE
        for k in range(len(sums)):
            if not abs(sums[k]) < np.inf:
                sums[k], code = 0.0, code if derivatives else BAD_PROPOSAL
            sums[k] *= tools.weight
        return code

    return begin, along_sums


@memoised
def summing(prepare, of_datum) -> Any:
    """add(context, room, unused), called by its address: add up the gradients of a batch."""
    counts = prepare is not None  # what prepare allocates
    if prepare is None:
        prepare, one = nothing, of_datum

        @jit(flags=FLAGS, inner=True)
        def of_datum(state, data, n, made, out):
            one(state, data, n, out)

    @jit(flags=FLAGS, inner=True)
    def add_up(state, data, made, rows, out, shaped, sums):
        for i in range(len(rows)):
            for k in range(len(out)):
                out[k] = 0.0  # so that a gradient may also add, or leave zeros out
            of_datum(state, data, np.int64(rows[i]) & MASK, made, shaped)
            for k in range(len(out)):
                sums[k] += out[k]

    @jit(inner="entry", user=counts)
    def add(context, room, unused):
        made = prepare(context.state, context.data)
        add_up(context.state, context.data, made, room.batch, room.one, room.shaped, room.sums)
        return 0.0

    return add


@memoised
def along_lines(likelihood, prepare, filled: bool) -> Any:
    """add(context, room, unused), called by its address: add up the likelihood's derivatives."""
    of_datum, prepare, allocates = preparing(likelihood, prepare, filled, True)
    jets = jets_of()
    coefficients, lane, no_lanes = jets.coefficients_in_lanes, jets.lane, jets.no_lanes
    lanes = jets.LANES

    # Slopes are written outside: here no two arrays overlap.
    @jit(flags=FLAGS, disjoint=True, inner=True)
    def add_up(state, data, made, rows, bad, out):
        total = no_lanes()
        for i in range(np.uint64(len(rows))):
            c = coefficients(of_datum(state, data, np.int64(rows[i]) & MASK, made))
            total = total + c[1]
            if not_a_sum(c[0]):
                bad[0] = rows[i]
        for k in range(len(out)):
            out[k] += lane(total, k)

    @jit(inner="entry", user=allocates)
    def add(context, room, unused):
        slopes, sums = room.slopes, room.sums
        for first in range(0, len(sums), lanes):
            for j in range(len(sums)):
                for k in range(lanes):
                    slopes[j, k] = 1.0 if j == first + k else 0.0
            made = prepare(room.state, context.data)
            add_up(
                room.state, context.data, made, room.batch, room.bad, sums[first : first + lanes]
            )
        return 0.0

    return add


def has_derivatives(model, length: int) -> bool:
    """Does a block of this length take the likelihood's derivatives, rather than differences."""
    return length > FEW and model.predictors is None and obstacle(model) == ""


@jit(inner="always")
def along_sums(tools):
    """The chain rule: derivatives by the block times its difference between the two ends."""
    total, ends = 0.0, tools.probe.candidates
    for k in range(len(tools.sums)):
        total += tools.sums[k] * (ends[0, k] - ends[1, k])
    return total


def known_gradient(control):
    """(begin, along) from the sums of a control variate: no data are read."""
    add_gradient = control.gradient()

    @jit(inner=True)
    def begin(tools, to, u):
        probe = tools.probe
        all_to_block(to, u, probe.candidates[0])
        place(probe, 0)
        add_gradient(probe.control.arrays, probe, probe.target[0].start, tools.sums)
        return 0

    return begin, along_sums


# ------------------------------------------------------------------ anchored at a reference point
def reference_of(given, blocks: Moved) -> np.ndarray:
    """The reference point as a candidate, checked.

    given: values of the block, a fit or a dict that has them, or a control variate made from one.
    """
    given = getattr(given, "fit", given)  # of a control variate
    given = getattr(given, "state", given)  # of a fit
    point = np.zeros(blocks.block.length)
    for variable, (_, _, first, last) in zip(blocks.variables, blocks.ends, strict=True):
        point[first:last] = block_of(given, variable)
    return point


def block_of(given, variable) -> np.ndarray:
    """The reference point of one block."""
    block = variable.block
    if isinstance(given, dict):
        given = given.get(block.name)
    try:
        point = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"control={given!r:.60}: give a control variate, sm.Taylor(fit), or a point of block "
            f"{block.name!r}, such as sm.laplace(model)."
        ) from None
    if point.shape not in (block.shape, block.shape or (1,)) or not np.all(np.isfinite(point)):
        raise ValueError(
            f"control has shape {point.shape}: give a point of block {block.name!r}, of shape "
            f"{block.shape}, such as a posterior mode."
        )
    variable.constraint.check(block.name, point.ravel())
    return point.ravel()


def anchored(slope) -> Any:
    """slope() with the control variate: writes g_S(u) - g_S(u*) + g_N(u*)."""

    @jit(inner=True)
    def difference(tools, to, u, g):
        code = slope(tools, to, tools.anchor, tools.spare)
        if code == 0:
            code = slope(tools, to, u, g)
        for j in range(len(u)):
            g[j] += tools.known[j] - tools.spare[j]
        return code

    return difference


def anchor(slope, tools, full, blocks: Moved, point: np.ndarray, floats: np.ndarray) -> None:
    """Write u* and g_N(u*) into the tools of a chain: one pass over all data."""
    tools.anchor[:] = blocks.free_at(point)

    @jit
    def once(full, to, u, g):
        return slope(full, to, u, g)

    kept = floats.copy()  # slope() tries points in the state itself
    with np.errstate(all="ignore"):
        to = pointer_to(blocks.coordinates())
        code = once(pointer_to(full), to, tools.anchor, tools.known)
    floats[:] = kept
    if code != 0:
        raise RewardError(
            f"the gradient at the reference point {point} is not a number (datum "
            f"{int(full.bad[0])}): give a point where likelihood and prior are smooth, such as a "
            "posterior mode."
        )
