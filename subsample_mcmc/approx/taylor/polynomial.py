"""A polynomial per datum, summed over all data once: h(x, n) and sum_n h(x, n) in O(d^2).

Around a reference x*, with d = x - x* over all continuous blocks, the sum over data is
s0 + s1'd + d' s2 d / 2 (+ a third-order term), one set of sums for each configuration of the
discrete blocks. Distances from the reference are a = |B d|, B'B = -s2 the curvature of the log
likelihood: in the posterior a^2 is about the number of parameters, whatever N is.

Sums come twice where some rows are always read: over the rows that are raced, and over all.
"""

from math import exp, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import Bound, ControlFunctions, read_residuals
from subsample_mcmc.approx.taylor.ceilings import NONE, Ceilings, write_ceilings
from subsample_mcmc.approx.taylor.passes.roundings import is_far, rounding_of, sum_rounding
from subsample_mcmc.approx.taylor.remainder import Learnt, guess
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.target.rewards import rewards

# ----------------------------------------------------------------------------- sums over the data
LIMITS = 17  # numbers that are known of remainders
BEYOND = 1e300  # nats: where nothing is known
FLOOR = 1e-12  # eigenvalues of the curvature below this part of the largest count as this


class Terms(NamedTuple):
    """Sums over some rows, by configuration of the discrete blocks."""

    s0: np.ndarray  # (K,)
    s1: np.ndarray  # (K, d)
    s2: np.ndarray  # (K, d, d)
    s3: np.ndarray  # (K, d, d (d + 1) / 2), products of two unlike coordinates twice; or empty
    cubes: np.ndarray  # (K, d (d + 1) (d + 2) / 6) its terms x_i x_j x_k, i >= j >= k; or empty
    # (K, LIMITS) remainder of the sum, of a row; growth; rounding; a pilot's remainders, of the sum
    # of absolute values and of the sum, and of a row's root mean square; the distance up to which
    # the first two hold, 0: everywhere; 1: they are those along all directions of some predictors;
    # a larger distance, 0: none, up to which so many times the first two hold, and rounding there;
    # three numbers of the sum's rounding (passes/roundings.py), 1: they are proved; the distance up
    # to which a pilot's remainder of the sum is believed.
    limits: np.ndarray


class Sums(NamedTuple):
    """What is known of a model; shared by all chains."""

    points: np.ndarray  # (K, d) references
    used: np.ndarray  # (K,) coordinates beyond these are not there
    metric: np.ndarray  # (K, d, d) B
    raced: Terms
    whole: Terms  # over all rows
    learnt: Learnt  # what the whole sum leaves over


def terms(s0, s1, s2, s3, limits) -> Terms:
    """Sums of all configurations, third-order ones also in their most compact form."""
    if not s3.size:
        return Terms(s0, s1, s2, s3, np.zeros((0, 1)), limits)
    d, parts = s1.shape[1], []
    for i in range(d):
        b, c = np.tril_indices(i + 1)
        same = (b == i).astype(int) + (c == i)  # of three indices, how often i is among the others
        parts.append(s3[:, i, : len(b)] * np.array([3.0, 1.5, 1.0])[same])
    return Terms(s0, s1, s2, s3, np.concatenate(parts, axis=1), limits)


def metric_of(curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, its inverse) with B'B = curvature, made positive definite where it is not."""
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    top = float(np.abs(values).max())
    if top == 0.0:  # nothing to measure distances by, and nothing that grows with them
        return np.eye(len(values)), np.eye(len(values))
    roots = np.sqrt(np.maximum(np.abs(values), FLOOR * top))
    return roots[:, None] * vectors.T, vectors / roots


def inverse_of(metric: np.ndarray, used: int) -> np.ndarray:
    """The inverse of a metric's part that is used; zeros beside it."""
    inverse = np.zeros_like(metric)
    inverse[:used, :used] = np.linalg.inv(metric[:used, :used])
    return inverse


# ----------------------------------------------------------------------------------- the polynomial
# Times the typical spread of residuals: for races among all rows, and with a small delta.
HEAVY, CAREFUL = 2.0, 3.0


class Polynomial(NamedTuple):
    """The arrays of one chain."""

    sums: Sums
    strides: np.ndarray  # which configuration a discrete state is: sum of strides times values
    ints: np.ndarray  # of the reference point, with the discrete values of the arm in hand
    floats: np.ndarray
    steps: np.ndarray  # (arms, d) x - x*
    scaled: np.ndarray  # (arms, d) B (x - x*)
    sizes: np.ndarray  # (arms,) a
    tables: np.ndarray  # (arms,) the configuration; -1: nothing known yet
    values: np.ndarray  # (arms,) the sum of h there, over all rows
    guesses: np.ndarray  # (arms, 2) what it leaves over, as learnt, and how much that may be off
    pairs: np.ndarray  # scratch: products of two steps
    ceilings: Ceilings
    source: Any  # what the residuals need of arrays, or ()


def make_polynomial(
    model, sums: Sums, strides, arms: int, source, ceilings: Ceilings = NONE
) -> Bound:
    """Arrays of one chain over sums that all share; source.bind gives those of the residuals."""
    ints, floats = model.ints.copy(), sums.points[0].copy()
    d = len(floats)
    steps = np.zeros((arms, d))
    arrays, about = source.bind(ints, floats, steps)
    own = Polynomial(
        sums, strides, ints, floats, steps, np.zeros((arms, d)), np.zeros(arms),
        np.full(arms, -1), np.zeros(arms), np.zeros((arms, 2)), np.zeros(d * (d + 1) // 2),
        ceilings, arrays,
    )  # fmt: skip
    return Bound(own, about)


@jit(inner="always")
def table_of(own, ints):
    """Which configuration of the discrete blocks this is."""
    value = 0
    for i in range(len(own.strides)):
        value += own.strides[i] * ints[i]
    return value


@jit(inner="always")
def locate(own, ints, table):
    """Put the reference state where the arm in hand has its reference."""
    for i in range(len(ints)):
        own.ints[i] = ints[i]
    for j in range(len(own.floats)):
        own.floats[j] = own.sums.points[table, j]


@jit(inner=True)
def residuals_by_reading(trial, arm, rows, out):
    """l - h of a mini-batch: rewards, from which the source's `reading` takes h."""
    own = trial.control.arrays
    rewards(trial, arm, rows, out)
    locate(own, trial.ints, own.tables[arm])
    read_residuals(trial, arm, rows, out)


@jit(flags=FLAGS, inner=True)
def value_at(s1, s2, d):
    """s1'd + d' s2 d / 2."""
    total = 0.0
    for i in range(np.uint64(len(d))):
        row = 0.0
        for j in range(np.uint64(len(d))):
            row += s2[i, j] * d[j]
        total += d[i] * (s1[i] + 0.5 * row)
    return total


@jit(flags=FLAGS, inner=True)
def cubic_at(cubes, d, pairs):
    """The third-order term: x_i times the products of all pairs up to i."""
    total, at, first = 0.0, np.uint64(0), np.uint64(0)
    for i in range(np.uint64(len(d))):
        for k in range(np.uint64(i + 1)):
            pairs[at + k] = d[i] * d[k]
        at += np.uint64(i + 1)
        row = 0.0
        for q in range(at):
            row += cubes[first + q] * pairs[q]
        first += at
        total += d[i] * row
    return total / 6.0


@jit(flags=FLAGS, inner=True)
def apply(matrix, d, out, used):
    """out = matrix d; return its squared length. Beyond the first `used` both are zeros."""
    total = 0.0
    for i in range(np.uint64(used)):
        row = 0.0
        for j in range(np.uint64(used)):
            row += matrix[i, j] * d[j]
        out[i] = row
        total += row * row
    return total


@jit(inner="always")
def stands(own, trial, arm, table):
    """Is what is known of an arm about the state as it is: the same numbers, to the last bit."""
    if own.tables[arm] != table:
        return False
    for j in range(len(own.floats)):
        if own.steps[arm, j] != trial.floats[j] - own.sums.points[table, j]:
            return False
    return True


@jit(inner="always")
def sum_of(own, parts, table, steps):
    """(the polynomial of some rows, its third-order term)."""
    used, cubic = own.sums.used[table], 0.0
    value = parts.s0[table] + value_at(parts.s1[table], parts.s2[table], steps[:used])
    if len(parts.cubes) > 0:
        cubic = cubic_at(parts.cubes[table], steps[:used], own.pairs)
    return value + cubic, cubic


@jit(inner="always")
def believe(own, arm, steps, used, cubic):
    """Note what was learnt of the rest, which races ask for."""
    found = guess(own.sums.learnt, own.tables[arm], steps, used, own.sizes[arm], cubic)
    own.guesses[arm, 0], own.guesses[arm, 1] = found


@jit(inner="always")
def believe_nothing(own, arm, steps, used, cubic):
    """sm.Thinned does not ask."""


def sum_over_all(note: Any) -> Any:
    """sum(trial, arm) of h over all rows, at the arm that stands in the state.

    note: believe, or believe_nothing.
    """

    @jit(inner="always")
    def add_up(trial, arm):
        own = trial.control.arrays
        table, steps, scaled = table_of(own, trial.ints), own.steps[arm], own.scaled[arm]
        if stands(own, trial, arm, table):  # it was rejected, or did not move
            return own.values[arm]
        if len(own.tables) == 2 and stands(own, trial, 1 - arm, table):  # it was accepted
            for j in range(len(steps)):
                steps[j], scaled[j] = own.steps[1 - arm, j], own.scaled[1 - arm, j]
            own.tables[arm], own.sizes[arm] = table, own.sizes[1 - arm]
            own.values[arm] = own.values[1 - arm]
            for k in range(2):
                own.guesses[arm, k] = own.guesses[1 - arm, k]
            return own.values[arm]
        own.tables[arm] = table
        for j in range(len(steps)):
            steps[j] = trial.floats[j] - own.sums.points[table, j]
        used = own.sums.used[table]
        size = sqrt(apply(own.sums.metric[table], steps, scaled, used))
        value, cubic = sum_of(own, own.sums.whole, table, steps)
        own.sizes[arm], own.values[arm] = size, value
        note(own, arm, steps, used, cubic)
        return value

    return add_up


whole_sum, sum_alone = sum_over_all(believe), sum_over_all(believe_nothing)


@jit(inner="always")
def guessed_sum(trial, arm):
    """Sum of l over all rows: that of h, and what was learnt of the rest."""
    return whole_sum(trial, arm) + trial.control.arrays.guesses[arm, 0]


@jit(inner="always")
def raced_sum(trial, arm):
    """Sum of h over the raced rows, at the arm that stands in the state."""
    value, own = whole_sum(trial, arm), trial.control.arrays
    if len(trial.control.outliers) == 0:
        return value
    return sum_of(own, own.sums.raced, own.tables[arm], own.steps[arm])[0]


@jit(inner="always")
def distance(trial, arm):
    """a^2 per parameter."""
    own = trial.control.arrays
    return own.sizes[arm] * own.sizes[arm] / own.sums.used[own.tables[arm]]


@jit(inner="always")
def remainder(parts, table, size, which):
    """Bound of a residual at distance `size`, by the limits that column `which` holds."""
    times = 1.0
    if which < 2 and is_far(parts.limits[table], size):
        if size > parts.limits[table, 9]:
            return BEYOND
        times = parts.limits[table, 10]
    power = size * size * size / 6.0
    if len(parts.cubes) > 0:
        power *= size / 4.0
    bound = parts.limits[table, which] * power * times
    growth = min(parts.limits[table, 2] * size, 700.0)
    return bound if growth == 0.0 else bound * exp(growth)  # it is 1, and an exponential costs more


@jit(inner="always")
def apart(trial, i, j, parts, which):
    """Bound of |residual_i - residual_j| by one of the limits.

    |R(x_i) - R(x_j)| is at most both remainders together, and at most |x_i - x_j| times the
    largest gradient of R on the way, which is a remainder of one order less.
    """
    own = trial.control.arrays
    a, b = own.sizes[i], own.sizes[j]
    first, second = own.tables[i], own.tables[j]
    bound = remainder(parts, first, a, which) + remainder(parts, second, b, which)
    if first == second and max(a, b) > 0.0:
        square = 0.0
        for k in range(own.sums.used[first]):
            gap = own.scaled[i, k] - own.scaled[j, k]
            square += gap * gap
        far = max(a, b)
        order = 4.0 if len(parts.cubes) > 0 else 3.0
        bound = min(bound, remainder(parts, first, far, which) * order * sqrt(square) / far)
    return bound


@jit(inner="always")
def power_of(x, order):
    """x^2 or x^3: a power by name costs as much as all that surrounds it."""
    return x * x * x if order > 2.0 else x * x


@jit(inner="always")
def most_of(w, power):
    """The most of |a.s| |a.x|^power over a, all three of length 1; w = |s.x|; power: 2 or 3.

    a lies between s and x, where tan(t) = power tan(phi - t): t its angle to s, phi that of x.
    """
    w = min(max(w, 1e-9), 1.0)
    side, turn = sqrt(1.0 - w * w), (power + 1.0) * w
    slope = 2.0 * power * side / (turn + sqrt(turn * turn + 4.0 * power * side * side))
    c = 1.0 / sqrt(1.0 + slope * slope)
    return c * power_of(w * c + side * slope * c, power)


@jit(inner="always")
def between(own, order):
    """Two arms around one reference: (the larger distance, remainders there that bound their gap).

    Along the segment s = x_1 - x_0 a residual's slope is at most M |A s| |A x|^order / order!, with
    A the matrix of the row's predictors, and the mean of |A x|^order on the way at most that of its
    ends. Of A its length is known, the root of tr B, B = A'A. With one predictor |A s| is |a.s|.
    Several reach no farther: (|A s|^2, |A x|^2) = (s.Bs, x.Bx) is tr B times a mean of ((b.s)^2,
    (b.x)^2) over unit vectors b, which lie on an ellipse, or inside it where b leaves the plane of
    s and x: what grows with both is largest on the ellipse, for one b.
    """
    table, far = own.tables[0], max(own.sizes[0], own.sizes[1])
    square, first, second = 0.0, 0.0, 0.0
    for k in range(own.sums.used[table]):
        gap = own.scaled[1, k] - own.scaled[0, k]
        square += gap * gap
        first += gap * own.scaled[0, k]
        second += gap * own.scaled[1, k]
    step, mean = sqrt(square), 0.0
    for arm in range(2):
        size = own.sizes[arm]
        if size > 0.0 and step > 0.0:
            along = abs(first if arm == 0 else second) / (step * size)
            if own.sums.whole.limits[table, 8] > 0.0:  # |D[s, x, x, ..]| <= M |s| |x|^order: Banach
                along = 1.0
            mean += 0.5 * most_of(along, order) * power_of(size / far, order)
    # M far^(order + 1) / order! is order + 1 remainders at `far`. A margin for rounding.
    return far, (order + 1.0) * mean * step / max(far, 1e-300) * (1.0 + 1e-9)


@jit(inner="always")
def gap_of(own, parts, far, times):
    """Bound of the sum of |residual_1 - residual_0|: what both are, or what lies between them."""
    table = own.tables[0]
    both = remainder(parts, table, own.sizes[0], 0) + remainder(parts, table, own.sizes[1], 0)
    return min(both, remainder(parts, table, far, 0) * times)


@jit(inner="always")
def reach(trial, i, j, each, everything):
    """Bound of |residual_i - residual_j|, of one row or of the sum over the raced or all rows."""
    own = trial.control.arrays
    parts = own.sums.whole if everything else own.sums.raced
    rounding, bound = rounding_of(own, parts, i, j), apart(trial, i, j, parts, 1 if each else 0)
    if everything:  # what was learnt stands among the offsets
        bound += abs(own.guesses[i, 0]) + abs(own.guesses[j, 0])
    if each:
        return bound + rounding
    return bound + sum_rounding(trial, parts, i, j, everything, bound, rounding)


@jit(inner="always")
def residual_bounds(trial):
    """Of |residual_1 - residual_0|: bounds of the sum over raced rows, and over all; and more."""
    own, whole = trial.control.arrays, trial.control.arrays.sums.whole
    rounding = rounding_of(own, whole, 0, 1)
    far, times = between(own, 3.0 if len(whole.cubes) > 0 else 2.0)
    bound = gap_of(own, own.sums.raced, far, times)
    everywhere = gap_of(own, whole, far, times) if len(trial.control.outliers) > 0 else bound
    return bound, everywhere, rounding, own.tables[0]


@jit(inner="always")
def residual_bound(trial, arm):
    """Of |residual| at one arm: the same."""
    own, whole = trial.control.arrays, trial.control.arrays.sums.whole
    table, size = own.tables[arm], own.sizes[arm]
    if len(own.sums.points) == 1:  # residuals hold what is the same everywhere
        return np.inf, np.inf, 0.0, table
    bound = remainder(own.sums.raced, table, size, 0)
    everywhere = remainder(whole, table, size, 0) if len(trial.control.outliers) > 0 else bound
    return bound, everywhere, rounding_of(own, whole, arm, arm), table


@jit(inner="always")
def far(trial, arm):
    """Is an arm farther off than any pilot has been, of raced and whole sums alike."""
    own = trial.control.arrays
    return own.sizes[arm] > own.sums.raced.limits[own.tables[arm], 16]


@jit(inner="always")
def estimate(trial, i, j, everything):
    """What a pilot, with a margin, says of the sum, or of what was learnt of it."""
    own, learnt = trial.control.arrays, trial.control.arrays.sums.learnt
    if everything:
        which = trial.control.likely  # 1: careful, 2: at a stated risk
        doubt = own.guesses[i, 1] * learnt.doubts[own.tables[i], 3 - which]
        doubt += own.guesses[j, 1] * learnt.doubts[own.tables[j], 3 - which]
        if doubt < np.inf:
            limits = own.sums.whole.limits[:, 3]
            return doubt + max(limits[own.tables[i]], limits[own.tables[j]]) * trial.control.size
        if len(trial.control.outliers) > 0:  # no pilot knows the directions in which they decide
            return np.inf
    parts = own.sums.whole if everything else own.sums.raced
    if far(trial, i) or far(trial, j):  # where a kink may be
        return np.inf
    rounding = max(parts.limits[own.tables[i], 3], parts.limits[own.tables[j], 3])
    bound = apart(trial, i, j, parts, 5) + rounding * trial.control.size
    return bound + everything * (abs(own.guesses[i, 0]) + abs(own.guesses[j, 0]))


@jit(inner="always")
def spread(trial, i, j):
    """How widely residuals of two arms differ over the raced rows.

    Typically; more where rows with large residuals are among them, or where delta is small.
    """
    wide = 1.0 if len(trial.control.outliers) > 0 else HEAVY
    if trial.control.likely == 1:
        wide = CAREFUL
    own, known = trial.control.arrays, trial.control.arrays.sums.learnt.spreads
    first, second = known[own.tables[i]], known[own.tables[j]]
    if first > 0.0 and second > 0.0:
        one, two = first * own.guesses[i, 1], second * own.guesses[j, 1]
        if one + two < np.inf:
            return wide * sqrt(one * one + two * two)
    return wide * apart(trial, i, j, own.sums.raced, 6)


@jit(inner="always")
def trusted(trial, arm):
    """Are residuals likely to vary less than log likelihoods do.

    Their sum by less than sqrt(N) a: the spread of what a race without control variate estimates.
    """
    own = trial.control.arrays
    a = own.sizes[arm]
    limit = sqrt(trial.control.size) * max(a, 1.0)
    return remainder(own.sums.raced, own.tables[arm], a, 4) <= limit


@jit(inner="always")
def add_gradient(own, trial, start, out):
    """Write the derivatives of s(x), over all data, by the floats start .. start + len(out)."""
    table, known = table_of(own, trial.ints), own.sums.whole
    s1, s2, s3, steps = known.s1, known.s2, known.s3, own.steps[0][: own.sums.used[table]]
    own.tables[0] = -1  # these steps are not those of a decision
    for j in range(len(steps)):
        steps[j] = trial.floats[j] - own.sums.points[table, j]
    for i in range(len(out)):
        value = s1[table, start + i]
        for j in range(len(steps)):
            value += s2[table, start + i, j] * steps[j]
        if len(s3) > 0:
            at = 0
            for j in range(len(steps)):
                for k in range(j + 1):
                    value += 0.5 * s3[table, start + i, at] * steps[j] * steps[k]
                    at += 1
        out[i] = value


def polynomial_functions(residuals, reader=None) -> ControlFunctions:
    """The compiled half of a control variate whose sums are a polynomial."""
    return ControlFunctions(
        raced_sum, residuals, reach, distance, trusted, estimate, spread, guessed_sum, sum_alone,
        residual_bounds, residual_bound, write_ceilings, reader, far=far,
    )  # fmt: skip
