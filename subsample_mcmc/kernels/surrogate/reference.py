"""The Gaussian that some blocks have given all others, by passes over the data at fixed points.

Around a point x* the log likelihood is s1'(x - x*) + (x - x*)' s2 (x - x*) / 2, plus a constant.
With the prior, and in free coordinates, that is the surrogate S. Its Gaussian has the mean that a
Newton step leads to; where that lies far from x*, the polynomial is made anew there. Where the
prior is dear, as those of thousands of sites that have a scale in common, S is this Gaussian.

The first point is the mean of a fit, the next follow from it, from the other blocks and from the
data: from nothing that is moved. So moves that leave S fixed are as good as any, however S was
found; see transition.py.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import (
    functions_of,
    jets_of,
    obstacle,
    preparing,
    told,
)
from subsample_mcmc.errors import CompileError
from subsample_mcmc.kernels.continuous import prior_of_blocks
from subsample_mcmc.kernels.proposals.learned import factor
from subsample_mcmc.numerics.jit import FLAGS, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    NUMBER,
    FunctionAddress,
    RecordAddress,
    call,
    call_both,
    pointer_to,
)
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.moved import BlockCoordinates, Moved, all_to_block
from subsample_mcmc.target.population import read_only
from subsample_mcmc.target.rewards import (
    Trial,
    example_context,
    of_state,
    place,
)

MANY = 64  # priors of sites, from which on they are asked at the two ends of a step alone
PASSES = 12  # polynomials that are made, at most: one or two, as a rule
FAR = 2.0  # squared, in standard deviations: from where on the next one is made
STEP = 0.1  # of differences of the surrogate, in the fit's standard deviations
FLAT = 1e-3  # curvature that a step uphill takes at least, where there is no peak
VALUE, FIRST, SECOND = 0, 1, 2  # columns of the sums along lines


class Lines(NamedTuple):
    """Along which lines the log likelihood is differentiated, and what came out."""

    slopes: np.ndarray  # (length,) of a candidate; of several lines at once (length, LANES)
    places: np.ndarray  # (d,) of the numbers that move, in a candidate
    pairs: np.ndarray  # (lines, 2) each along one or two of these; the second -1: of one
    sums: np.ndarray  # (lines, 3)


class LineRoom(NamedTuple):
    """What sums of derivatives along lines are made with."""

    state: Any  # the chain's, the moved blocks as points on lines
    lines: Lines


class Reference(NamedTuple):
    """What the surrogate is made with, and what it is."""

    trial: Trial
    coordinates: BlockCoordinates
    expand: Any  # (context, room, rows), called by its address; 0: no datum sees the blocks
    about: Any  # its LineRoom
    lines: Lines
    prior: Any  # (context): of what depends on the blocks, called by its address
    dear: int  # 1: it reads priors of many sites
    rows: int
    centre: np.ndarray  # (free,) where the first polynomial is made
    columns: np.ndarray  # (free, free) of the fit's Cholesky factor, as rows: z is in its units
    point: np.ndarray  # values where the last one was made: a candidate
    s1: np.ndarray  # (d,)
    s2: np.ndarray  # (d, d)
    # (3,) 1: there is a polynomial; how many were made; 1: a prior is no number.
    found: np.ndarray
    at: np.ndarray  # (free,) z of the point
    mean: np.ndarray  # (free,) z of the Gaussian
    curve: np.ndarray  # (free, free) its precision, and scratch
    own: np.ndarray  # (free, free) columns of its Cholesky factor, as rows
    slope: np.ndarray  # (free,)
    spare: np.ndarray  # (3, free)


USABLE, MADE, NO_PRIOR = 0, 1, 2


def pairs_of(count: int) -> np.ndarray:
    """Lines along each number, then along two."""
    each = [(i, -1) for i in range(count)]
    both = [(i, j) for i in range(count) for j in range(i)]
    return np.array([*each, *both], dtype=np.int64)


def lines_of(blocks: Moved) -> Lines:
    """Lines by the numbers of some blocks."""
    places = np.concatenate([np.arange(c, d) for _, _, c, d in blocks.ends])
    pairs, length = pairs_of(len(places)), blocks.block.length
    slopes = np.zeros(length if len(pairs) == 1 else (length, jets_of().LANES))
    return Lines(slopes, places, pairs, np.zeros((len(pairs), 3)))


def room_of_lines(model, blocks: Moved, lines: Lines, ints, floats) -> LineRoom:
    """The chain's state as the likelihood reads it for derivatives by some blocks alone."""
    start, slopes, parts = blocks.block.start, lines.slopes, []
    for block, values in zip(model.blocks, model.state(ints, floats), strict=True):
        if block.name in blocks.names:
            along = slopes[block.start - start : block.start - start + block.length]
            shape = (*values.shape, *slopes.shape[1:])
            parts.append(jets_of().point(values, read_only(along.reshape(shape))))
        else:
            parts.append(values)
    return LineRoom(model.record(*parts), lines)


@memoised
def along_lines(likelihood, prepare, filled: bool, several: bool) -> Any:
    """expand(context, room, rows), called by its address: sums along lines, of the first rows."""
    of_datum, prepare, allocates = preparing(likelihood, prepare, filled, several)
    jets = jets_of()

    if not several:
        coefficients = jets.coefficients

        @jit(flags=FLAGS, disjoint=True, inner=True)
        def add_one(state, data, made, rows, sums):
            value, first, second = 0.0, 0.0, 0.0
            for n in range(np.uint64(rows)):
                c = coefficients(of_datum(state, data, np.int64(n) & MASK, made))
                value += c[0]
                first += c[1]
                second += c[2]
            sums[0, VALUE], sums[0, FIRST], sums[0, SECOND] = value, first, second

        @jit(inner="entry", user=allocates)
        def expand(context, room, rows):
            room.lines.slopes[room.lines.places[0]] = 1.0
            made = prepare(room.state, context.data)
            add_one(room.state, context.data, made, rows, room.lines.sums)
            return 0.0

        return expand

    coefficients, lane, no_lanes = jets.coefficients_in_lanes, jets.lane, jets.no_lanes
    width = jets.LANES

    @jit(flags=FLAGS, disjoint=True, inner=True)
    def add_several(state, data, made, rows, sums):
        value, first, second = 0.0, no_lanes(), no_lanes()
        for n in range(np.uint64(rows)):
            c = coefficients(of_datum(state, data, np.int64(n) & MASK, made))
            value += c[0]
            first = first + c[1]
            second = second + c[2]
        for k in range(len(sums)):
            sums[k, VALUE], sums[k, FIRST] = value, lane(first, k)
            sums[k, SECOND] = lane(second, k)

    @jit(inner="entry", user=allocates)
    def expand_several(context, room, rows):
        lines = room.lines
        slopes, pairs, places = lines.slopes, lines.pairs, lines.places
        for low in range(0, len(pairs), width):
            for j in range(len(slopes)):
                for k in range(width):
                    slopes[j, k] = 0.0
            high = min(low + width, len(pairs))
            for k in range(low, high):
                slopes[places[pairs[k, 0]], k - low] = 1.0
                if pairs[k, 1] >= 0:
                    slopes[places[pairs[k, 1]], k - low] = 1.0
            made = prepare(room.state, context.data)
            add_several(room.state, context.data, made, rows, lines.sums[low:high])
        return 0.0

    return expand_several


class Differentiable:
    """A key under which a model keeps why some blocks have no derivatives."""


DIFFERENTIABLE = Differentiable()


def no_derivatives(model, blocks: Moved) -> str:
    """Why the log likelihood has no derivatives by these blocks alone; empty if it has."""
    known = model.prepared.setdefault(DIFFERENTIABLE, {})
    if blocks.names not in known:
        known[blocks.names] = obstacle(model) or asked(model, blocks)
    return known[blocks.names]


def asked(model, blocks: Moved) -> str:
    """See `no_derivatives`: compile, and read no row."""
    lines = lines_of(blocks)
    room = room_of_lines(model, blocks, lines, model.ints.copy(), model.floats.copy())
    expand = along_lines(*functions_of(model), len(lines.pairs) > 1)
    try:
        context = example_context(model)
        once = FunctionAddress(expand, RecordAddress(context), RecordAddress(room), NUMBER)
        if once.compiled:
            assert once.address
        else:
            expand(context, room, 1)
    except (CompileError, TypeError, ValueError, AttributeError, IndexError) as error:
        return f"log_likelihood has no derivatives by {' and '.join(blocks.names)}: {error!s:.200}"
    except NUMBA_ERRORS as error:
        return f"log_likelihood has no derivatives by {' and '.join(blocks.names)}: {told(error)}"
    return ""


def make_reference(model, blocks: Moved, fit, run, trial: Trial, seen: bool) -> Reference:
    """Arrays of one chain.

    fit: where the first polynomial is made, and in which units. seen: do data see the blocks.
    """
    mean, covariance = fit.gaussian(blocks.names)
    free, context, lines = blocks.free, trial.calls.context, lines_of(blocks)
    expand: Any = 0
    about: Any = 0
    if seen:
        about = RecordAddress(room_of_lines(model, blocks, lines, run.ints, run.floats))
        made = along_lines(*functions_of(model), len(lines.pairs) > 1)
        expand = FunctionAddress(made, context, about, NUMBER)
    prior, sites = prior_of_blocks(model, blocks.names)
    prior = jit(prior, flags=FLAGS, user=True, inner="always")
    d = len(lines.places)
    return Reference(
        trial, blocks.coordinates(), expand, about, lines,
        FunctionAddress(of_state(prior), context), int(sites > MANY), model.size,
        np.array(mean, dtype=float),
        np.ascontiguousarray(np.linalg.cholesky(np.atleast_2d(covariance)).T),
        np.zeros(blocks.block.length), np.zeros(d), np.zeros((d, d)), np.zeros(3),
        np.zeros(free), np.zeros(free), np.zeros((free, free)), np.zeros((free, free)),
        np.zeros(free), np.zeros((3, free)),
    )  # fmt: skip


# ---------------------------------------------------------------------------- in compiled steps
@jit(inner="always")
def to_units(own, u, z):
    """Write z of free coordinates: u = centre + L z."""
    for i in range(len(z)):
        value = u[i] - own.centre[i]
        for k in range(i):
            value -= own.columns[k, i] * z[k]
        z[i] = value / own.columns[i, i]


@jit(inner="always")
def values_at(own, z, x):
    """Write the blocks at z into a candidate; log |dx/du|, -inf outside."""
    u = own.coordinates.v
    for i in range(len(z)):
        value = own.centre[i]
        for k in range(i + 1):
            value += own.columns[k, i] * z[k]
        u[i] = value
    return all_to_block(own.coordinates, u, x)


@jit(inner="always")
def polynomial(own, x):
    """The log likelihood around the point, without its constant."""
    places, value = own.lines.places, 0.0
    for i in range(len(places)):
        step, along = x[places[i]] - own.point[places[i]], own.s1[i]
        for j in range(len(places)):
            along += 0.5 * own.s2[i, j] * (x[places[j]] - own.point[places[j]])
        value += along * step
    return value


@jit(inner=True)
def prior_at(own, z):
    """log prior + log |dx/du| at z, which is written into candidate 1."""
    trial, y = own.trial, own.trial.candidates[1]
    prior = values_at(own, z, y)
    if prior > -np.inf:
        place(trial, 1)
        prior += call(own.prior, trial.calls.context)
        place(trial, 0)
    if not prior < np.inf:  # not a number, or infinite
        own.found[NO_PRIOR] = 1.0
        return -np.inf
    return prior


@jit(inner="always")
def height(own, z):
    """The polynomial and all of the prior at z."""
    prior = prior_at(own, z)
    return prior + polynomial(own, own.trial.candidates[1]) if prior > -np.inf else -np.inf


@jit(inner="always")
def log_density(own, z):
    """Of the Gaussian, without its constant."""
    square, d = 0.0, len(z)
    for i in range(d):
        value = 0.0
        for k in range(i, d):
            value += own.own[i, k] * (z[k] - own.mean[k])
        square += value * value
    return -0.5 * square


@jit(inner="always")
def surrogate(own, z):
    """The surrogate at z; -inf outside."""
    if own.dear == 0 and own.found[USABLE] == 1.0:
        return height(own, z)
    return log_density(own, z) if values_at(own, z, own.trial.candidates[1]) > -np.inf else -np.inf


@jit(inner="always")
def expand_here(own):
    """Write the polynomial around the blocks at own.at; False where it has no numbers."""
    trial, y, sums = own.trial, own.trial.candidates[1], own.lines.sums
    if not values_at(own, own.at, y) > -np.inf:
        return False
    for j in range(len(y)):
        own.point[j] = y[j]
    if own.expand == 0:
        return True
    place(trial, 1)
    call_both(own.expand, trial.calls.context, own.about, own.rows)
    place(trial, 0)
    own.found[MADE] += 1.0
    d, line = len(own.s1), len(own.s1)
    for i in range(d):
        own.s1[i], own.s2[i, i] = sums[i, FIRST], 2.0 * sums[i, SECOND]
    for i in range(d):
        for j in range(i):
            bent = sums[line, SECOND] - sums[i, SECOND] - sums[j, SECOND]
            own.s2[i, j] = own.s2[j, i] = bent
            line += 1
    for line in range(len(sums)):
        if not abs(sums[line, VALUE] + sums[line, FIRST] + sums[line, SECOND]) < np.inf:
            return False
    return True


@jit(inner="always")
def bend(own):
    """Write slope and precision of the surrogate at own.at, by differences; are they numbers."""
    z, d = own.spare[0], len(own.at)
    for i in range(d):
        z[i] = own.at[i]
    middle = height(own, z)
    for i in range(d):
        z[i] = own.at[i] + STEP
        up = height(own, z)
        z[i] = own.at[i] - STEP
        down = height(own, z)
        z[i] = own.at[i]
        own.slope[i] = (up - down) / (2.0 * STEP)
        own.curve[i, i] = (2.0 * middle - up - down) / (STEP * STEP)
        if not abs(own.slope[i]) + abs(own.curve[i, i]) < np.inf:
            return False
    for i in range(d):
        for j in range(i):
            both = 0.0
            for sign in (STEP, -STEP):
                z[i], z[j] = own.at[i] + sign, own.at[j] + sign
                both += height(own, z)
            z[i], z[j] = own.at[i], own.at[j]
            # Along both at once the second difference is that of each and twice the mixed one.
            mixed = (2.0 * middle - both) / (STEP * STEP) - own.curve[i, i] - own.curve[j, j]
            own.curve[i, j] = 0.5 * mixed
            if not abs(mixed) < np.inf:
                return False
    return True


@jit(inner="always")
def backwards(own, step):
    """Solve L' x = step in place, L the factor of the Gaussian's precision."""
    d = len(step)
    for i in range(d - 1, -1, -1):
        value = step[i]
        for k in range(i + 1, d):
            value -= own.own[i, k] * step[k]
        step[i] = value / own.own[i, i]


@jit(inner="always")
def newton(own):
    """Write the Gaussian's mean and factor; its distance from the point, squared."""
    d, step, square = len(own.at), own.spare[1], 0.0
    for i in range(d):
        step[i] = own.slope[i] / max(abs(own.curve[i, i]), FLAT)
    if not factor(own.curve, 1.0, own.own):
        for i in range(d):  # no peak: uphill, each by the size of its own curvature
            own.mean[i] = own.at[i] + step[i]
            for j in range(d):
                own.own[i, j] = 1.0 if i == j else 0.0
        return np.inf
    for i in range(d):
        value = own.slope[i]
        for k in range(i):
            value -= own.own[k, i] * step[k]
        step[i] = value / own.own[i, i]
        square += step[i] * step[i]
    backwards(own, step)
    for i in range(d):
        own.mean[i] = own.at[i] + step[i]
    return square


@jit(inner="always")
def no_surrogate(own):
    """The fit's own Gaussian, where there are no derivatives."""
    own.found[USABLE] = 0.0
    for i in range(len(own.at)):
        own.at[i] = own.mean[i] = 0.0
        for j in range(len(own.at)):
            own.own[i, j] = 1.0 if i == j else 0.0


@jit(inner=True)
def refer(own):
    """Make surrogate and Gaussian from what stands still: candidate 0 is not read.

    Newton steps, half as long where they lead down, until one is short.
    """
    d, before, highest = len(own.at), own.spare[2], -np.inf
    for i in range(d):
        own.at[i] = before[i] = 0.0
    for number in range(PASSES):
        own.found[USABLE] = 1.0 if expand_here(own) else 0.0
        level = -np.inf
        if own.found[USABLE] == 1.0:
            level = own.lines.sums[0, VALUE] + height(own, own.at)
        if level == -np.inf and number in (0, PASSES - 1):
            no_surrogate(own)
            return
        if level < highest and number < PASSES - 1:
            for i in range(d):
                own.at[i] = 0.5 * (before[i] + own.at[i])
            continue
        if not bend(own):
            no_surrogate(own)
            return
        if newton(own) <= FAR or number == PASSES - 1:
            return
        highest = level
        for i in range(d):
            before[i], own.at[i] = own.at[i], own.mean[i]


@jit
def reference_again(pointer, out):
    """Make it from Python, and write its numbers: for the check that nothing moved is read."""
    refer(pointer)
    for i in range(len(pointer.mean)):
        out[i] = pointer.mean[i]


def reference_numbers(own: Reference) -> np.ndarray:
    """What the surrogate is, of the chain's state as it is."""
    out = np.zeros(len(own.mean))
    with np.errstate(all="ignore"):
        reference_again(pointer_to(own), out)
    parts = (out, own.own, own.point[own.lines.places], own.s1, own.s2)
    return np.concatenate([np.ravel(part) for part in parts])
