"""Rows that every decision reads: those few by which a decision may turn, and a batch seldom meets.

A level with seventeen rows among a million carries a coefficient alone. No mini-batch meets these
rows, and the polynomial of each is far off where the coefficient is two standard deviations away:
a race would see residuals without variance and decide for the polynomial. So each row is scored by
what its residual may come to, and rows too loud for a sample are read always.
"""

from typing import Any

import numpy as np

from subsample_mcmc.approx.elsewhere.row_scores import (
    BATCH,
    DENSE,
    MOST_KEPT,
    PIECE,
    RowScores,
    largest,
    limit_of,
    scores_of,
)
from subsample_mcmc.approx.taylor.derivatives_predictors import AWAY, LARGEST
from subsample_mcmc.approx.taylor.pilot import (
    POINTS,
    Probe,
    Probes,
    drawn,
    is_about,
    is_inside,
)
from subsample_mcmc.approx.taylor.references import configuration, used_of
from subsample_mcmc.decisions.racing import expected_pulls
from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.dyadic import BLOCK, Tree, blocks_of
from subsample_mcmc.target.rewards import probe, rewards_of

LOOKED = 500_000  # residuals, at least four a datum, by which a share of the rows is chosen
SHARES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2)  # of rows that are always read
TYPICAL = 8.0  # times the root mean square of rows that are raced: see LOUD
# Rows elsewhere up to which each has a score, where several configurations have one of each row.
SEVERAL = 1 << 25
MOST_ROWS = 0.05  # of all rows: more than these are no exception
FAR = 3.0  # standard deviations at which likelihoods without known predictors are looked at
NEAR = 0.5  # and those where, of third order, what is odd is told from a cubic
HALVINGS = 3  # of a line that leaves the parameters' limits, or where nothing is finite
TRIES = 2 * (HALVINGS + 1)  # of straight lines, then of such as stay within limits
SHORTEST = 0.125  # of lines: shorter ones tell of rounding
HELD = 0.1  # share of a coordinate's variance that the others leave: its line has little of its own


def influential(probes: Probes, sums, share: float) -> np.ndarray:
    """The rows, this share of all, whose residuals are largest at a few points of the posterior."""
    size, count = probes.model.size, int(share * probes.model.size)
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    scores, nothing = np.zeros(size), np.zeros(0, dtype=np.int64)
    points_in_all = int(np.clip(LOOKED // size, 4, POINTS))
    for table, fit in enumerate(probes.fits):
        ints = configuration(probes.strides, table)
        about = is_about(probes.model, fit, ints, probes.strides)
        points = drawn(fit, points_in_all) if about else None
        probe = Probe(probes, sums, table, nothing, points)
        arms = list(probe.arms) if points is not None else list(probe.arms)[1:POINTS:6]
        for arm in arms:
            for rows in pieces(size):
                found = np.abs(probe.residuals(arm, rows))
                scores[rows] += np.where(np.isfinite(found), found, np.inf) ** 2 / len(arms)
    return largest(scores, count)


def room_for_scores(model: Any, configurations: int) -> Any:
    """Where scores of all rows are written; None: there are too many of them, elsewhere."""
    few = DENSE if configurations == 1 else SEVERAL
    if model.elsewhere is None or model.size <= few:
        return np.zeros(model.size, dtype=np.float32)
    return RowScores(model.size) if configurations == 1 else None


def loud(scores: Any) -> np.ndarray:
    """The rows that no race should leave to chance, by their scores; see LOUD and TYPICAL.

    And as many more as pay. Where more than MOST_ROWS of all rows cannot be scored, they are no
    exception: no row is known to be louder than others.

    scores: an array, or RowScores.
    """
    size = len(scores)
    limit, most = limit_of(size), min(max(int(MOST_ROWS * size), 1), MOST_KEPT)
    loudest, unknown, rest, sample = scores_of(scores)
    if size <= 2 * BATCH or len(loudest) == 0 or unknown > most:
        return np.zeros(0, dtype=np.int64)
    # Sums of squares of what is left without the first 0, 1, 2, ... of the loudest.
    squares = np.cumsum(loudest[::-1] ** 2)[::-1] + rest
    typical = np.sqrt(squares / np.arange(size, size - len(loudest), -1))
    quiet = np.append(loudest <= np.maximum(limit, TYPICAL * typical), True)
    count = max(min(int(np.argmax(quiet)), most), unknown)
    return largest(scores, max(count, min(int(cheapest(sample, size) * size), MOST_KEPT)))


def cheapest(sample: np.ndarray, size: int) -> float:
    """What share of the rows to read always: theirs, and the race's by Prop. 7, cost least.

    For a decision on a nat at usual places, where residuals are some half of the scores.

    sample: scores of evenly spaced rows; size: how many rows there are.
    """
    costs = []
    ordered = 0.5 * np.minimum(np.sort(sample).astype(float), LARGEST)
    for share in SHARES:
        rest = ordered[: len(ordered) - int(share * len(ordered))]
        spread = size * float(np.mean(rest * rest))
        gap = 1.0 / np.sqrt(size * max(spread, 1e-300))
        costs.append(2.0 * share * size + expected_pulls(gap, size, 2))
    return SHARES[int(np.argmin(costs))]


def pieces(size: int) -> Any:
    """Consecutive rows, in the type that compiled code takes them in."""
    kind = row_kind(size)
    for first in range(0, size, PIECE):
        yield np.arange(first, min(first + PIECE, size), dtype=kind)


# ------------------------------------------------------------ scores without known predictors
def score_lines(probes: Probes, sums, table: int, scores: Any, bar) -> None:
    """Raise the scores of rows to what the log likelihood itself shows along some lines.

    One line for each coordinate: where the posterior mean of all others goes when this one moves.
    Where that leaves little of its own, as of the effects of levels that go up and down with an
    intercept, another one along which it moves alone, and with it the predictor of its level.
    Lines are straight in the parameters themselves, of which sums are polynomials: in the logarithm
    of a rate w, say, y log w is a line without any residual, and the ten events that tell of a rare
    one looked like all other rows. Where straight ones do not stay within the parameters' limits,
    they are made shorter, and those that are straight in free coordinates are looked at as well.
    The residual at FAR standard deviations is that to the parabola through -1, 0 and 1; it grows
    with the third power of the distance, and is reckoned back to AWAY. Of third order, what is the
    same both ways is that; of what is odd, two points more tell the cubic from what is left over.
    It grows with the fourth power, or a higher one.
    """
    model, cubic = probes.model, probes.source.order > 2
    ints = configuration(probes.strides, table)
    at = np.array([1.0, -1.0, FAR, -FAR, NEAR, -NEAR][: 6 if cubic else 4])
    centre, ways, place = lines(probes, sums, table, ints, at)
    if model.elsewhere is not None:
        score_lines_elsewhere(model, ints, centre, ways, place, cubic, scores, bar)
        return
    trial = probe(model, ints, centre[0].copy(), np.tile(centre, (1 + len(at), 1)))
    read = rewards_of
    middle, off = np.zeros(model.size), np.zeros(model.size, dtype=np.float32)
    seen, walked = np.zeros(len(ways), dtype=bool), tries_of(ways, place)
    with np.errstate(all="ignore"):
        for rows in pieces(model.size):
            read(trial, 0, rows, middle[rows[0] : rows[-1] + 1])
            bar.update(len(rows) / (len(ways) + 1))
        for which, tries in walked:
            for tried in tries:
                if (found := place(ways[which], tried)) is None:
                    continue
                trial.candidates[1:], length = found
                for rows in pieces(model.size):
                    off[rows] = residuals_at(read, trial, rows, middle[rows], len(at))
                if np.count_nonzero(np.isinf(off)) <= MOST_ROWS * model.size:
                    far = FAR * length
                    np.fmax(scores, (AWAY / far) ** (4 if cubic else 3) * off, out=scores)
                    seen[which] = True
                    break
            if tries[0] == 0:
                bar.update(model.size / (len(ways) + 1))
    warn_of_blind(int(np.count_nonzero(~seen)), len(ways))


def tries_of(ways: np.ndarray, place: Any) -> list[tuple[int, range]]:
    """Lines to look along: (which way, its tries until one tells of nearly all rows)."""
    found = []
    for which, way in enumerate(ways):
        found.append((which, range(HALVINGS + 1)))
        if place(way, 0) is None:  # shorter ones do not show what is farther off
            found.append((which, range(HALVINGS + 1, TRIES)))
    return found


def length_of(tried: int) -> float:
    """Of the lines of some try, of those of the first."""
    return float(0.5 ** (tried % (HALVINGS + 1)))


def score_lines_elsewhere(model, ints, centre, ways, place, cubic: bool, scores, bar) -> None:
    """The same where rows are elsewhere: all lines in one pass, which are made shorter together."""
    few, walked = isinstance(scores, RowScores), tries_of(ways, place)
    tried = [tries.start for _, tries in walked]
    while True:
        points, chosen, lengths = [], [], []
        for k, (which, tries) in enumerate(walked):
            while tried[k] < tries.stop:
                if (found := place(ways[which], tried[k])) is not None:
                    points.append(found[0])
                    lengths.append(found[1])
                    chosen.append(k)
                    break
                tried[k] += 1
        if not points:
            for rows in pieces(model.size) if few else ():  # nothing is known of any
                scores[int(rows[0]) : int(rows[-1]) + 1] = np.zeros(len(rows), dtype=np.float32)
            break
        each: Any = scores.anew() if few else np.zeros_like(scores)
        far = FAR * np.array(lengths)
        counts = model.elsewhere.sum_over(
            scores_along, (ints, centre, np.array(points), far, cubic), bar=bar, rows=each
        )
        unknown = np.array(chosen)[counts > MOST_ROWS * model.size]
        if not len(unknown):
            if few:
                scores.become(each)
            else:
                np.fmax(scores, each, out=scores)
            break
        for k in unknown:
            tried[k] += 1
    seen = {which for k, (which, tries) in enumerate(walked) if tried[k] < tries.stop}
    warn_of_blind(len(ways) - len(seen), len(ways))


def scores_along(model, begin: int, ints, centre, points, far, cubic: bool) -> tuple:
    """Of some rows, by how many each line is infinite; and what rows score along all of them."""
    trial = probe(
        model, np.array(ints), centre[0].copy(), np.tile(centre, (1 + points.shape[1], 1))
    )
    scores, tree = np.zeros(model.size, dtype=np.float32), Tree()
    counts = np.zeros((blocks_of(model.size), len(points)))
    with np.errstate(all="ignore"):
        for k, ends in enumerate(points):
            for rows in pieces(model.size):
                middle = np.zeros(len(rows))
                read = rewards_of
                read(trial, 0, rows, middle)
                trial.candidates[1:] = ends
                off = residuals_at(read, trial, rows, middle, len(ends)).astype(np.float32)
                power = (AWAY / far[k]) ** (4 if cubic else 3)
                scores[rows] = np.fmax(scores[rows], power * off)
                infinite = np.isinf(off)
                counts[:, k] += np.bincount(rows // BLOCK, infinite, len(counts))
    tree.add_blocks(begin, counts)
    return tree, scores


def warn_of_blind(blind: int, ways: int) -> None:
    """Say along how many directions no row could be looked at."""
    if blind:
        warn(
            f"sm.Taylor looks for rows by which a decision may turn along {ways} directions, and "
            f"along {blind} of them log_likelihood is not finite at a third of a posterior "
            "standard deviation from the fit: rows that matter there are not known. Audit the "
            "run, sm.sample(..., audit=0.05), or read a share of the rows always, outliers=0.01."
        )


def residuals_at(read, trial, rows, middle, points: int) -> np.ndarray:
    """The larger residual of each row at the two ends of a line; infinite where it is no number."""
    values, off = np.zeros((points, len(rows))), np.zeros(len(rows))
    for k in range(points):
        read(trial, 1 + k, rows, values[k])
    larger_of_ends(values, middle, off)
    return off


@jit
def larger_of_ends(values, middle, off):
    """What each row's log likelihoods leave over, at the points of `score_lines`."""
    points, scale = len(values), NEAR**3 - NEAR
    for i in range(len(off)):
        up, down, high, low = values[0, i], values[1, i], values[2, i], values[3, i]
        slope, bend = 0.5 * (up - down), 0.5 * (up + down) - middle[i]
        curve, all_of_them = middle[i] + FAR * FAR * bend, up + down + high + low
        if points == 4:
            over, under = abs(high - curve - FAR * slope), abs(low - curve + FAR * slope)
            largest_off = max(over, under)
        else:
            near = 0.5 * (values[4, i] - values[5, i])
            all_of_them += values[4, i] + values[5, i]
            third = (near - NEAR * slope) / scale
            odd = 0.5 * (high - low) - FAR * (slope - third) - FAR**3 * third
            largest_off = abs(0.5 * (high + low) - curve) + abs(odd)
        known = abs(all_of_them + curve) < np.inf
        off[i] = min(largest_off, LARGEST) if known else np.inf


def lines(probes: Probes, sums, table: int, ints, at) -> tuple[np.ndarray, np.ndarray, Any]:
    """(the reference, steps of a standard deviation, place).

    place(way, tried): (the points so many ways off, the length of this try's line in that of the
    first); None if parameters may not be there.
    """
    model, fit = probes.model, probes.fits[table]
    at = at[:, None]

    if is_about(model, fit, ints, probes.strides):
        factor, lift = fit.factor, fit.coordinates.lift
        centre, slopes = lift(fit.mean)[0], fit.coordinates.slopes(fit.mean)

        def place(way, tried):
            length = length_of(tried)
            if tried > HALVINGS:
                values, densities, _ = lift(fit.mean + at * (length * way))
            else:
                values = centre + at * (slopes @ (length * way))
                if not all(is_inside(model, value, ints) for value in values):
                    return None
                densities = lift(np.array([fit.coordinates.free(value) for value in values]))[1]
            return (values, length) if np.all(densities > -np.inf) else None
    else:
        used, point = used_of(model, ints), sums.points[table]
        factor, centre = np.linalg.inv(sums.metric[table][:used, :used]), point[None]
        # Directions in which the likelihood is flat would lead out of this world.
        limit = np.abs(point[:used]) + 1.0

        def place(way, tried):
            if tried > HALVINGS:
                return None
            longest = float((limit / np.maximum(FAR * np.abs(way), 1e-300)).min())
            length = length_of(tried) * min(1.0, longest)
            values = np.tile(point, (len(at), 1))
            values[:, :used] += at * (length * way)
            inside = all(is_inside(model, value, ints) for value in values)
            return (values, max(length, SHORTEST)) if inside else None

    return centre, ways_of(factor), place


def ways_of(factor: np.ndarray) -> np.ndarray:
    """Steps of a standard deviation, a row each; factor: of a covariance, F F'."""
    covariance, inverse = factor @ factor.T, np.linalg.inv(factor)
    sds, alone = np.sqrt(np.diag(covariance)), 1.0 / np.linalg.norm(inverse, axis=0)
    held = alone < np.sqrt(HELD) * sds
    return np.concatenate([(covariance / sds).T, np.diag(alone)[held]])
