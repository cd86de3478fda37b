"""What residuals look like around the reference: their size, and the rows they are largest at."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import controls_of
from subsample_mcmc.approx.taylor.polynomial import (
    Terms,
    make_polynomial,
    polynomial_functions,
    raced_sum,
    whole_sum,
)
from subsample_mcmc.approx.taylor.references import configuration
from subsample_mcmc.approx.taylor.remainder import FEW, how_many, learn
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.constraints import CHOLESKY, ORDERED, ROOTS
from subsample_mcmc.target.rewards import place, prior_of, probe, remembered_total

POINTS = 24  # drawn around the reference
ROWS = 4096  # read at each of them
MOST_DATA = 4_000_000  # data up to which the sum of all residuals is computed, at each point
READ = 10_000_000  # data, by one call of compiled code
SAFETY = 2.0  # times the largest residuals seen: what is believed of others
# What was seen is believed up to so many times the largest distance of these, and no farther than
# nearly all draws from a posterior of d parameters lie: sqrt(d) standard deviations, and 3 more.
BEYOND, FARTHER = 1.25, 3.0
AXES = 3.0  # standard deviations along each parameter, where few points are all that is looked at
NO_ESTIMATE = 1e300  # nats at any distance: more than any decision's
APART = 1e4  # times the median size of residuals: no smooth likelihood's directions differ so much
WIDTHS = (0.5, 1.0, 2.0)  # of the points' distances, in those of the posterior


class Probes(NamedTuple):
    """What the probes of all configurations share."""

    model: Any
    source: Any
    strides: np.ndarray
    fits: list  # what the references came from, by configuration


class Probe:
    """Residuals at points around the reference of one configuration, callable from Python."""

    def __init__(self, probes: Probes, sums, table: int, outliers, points=None, rows=None):
        """rows: those that are looked at, which are fetched where rows are elsewhere."""
        model, source, strides, fits = probes
        ints = configuration(strides, table)
        if points is None:
            points = around(model, sums, table, fits[table], ints, strides)
        points = np.concatenate([sums.points[table][None], points])
        bound = make_polynomial(model, sums, strides, len(points), source)
        own, functions = bound.arrays, polynomial_functions(source.residuals, source.reading)
        self.model, self.ints, self.points = model, ints, points
        here, self.fetched = model, None
        if model.elsewhere is not None:
            self.fetched = np.union1d(outliers, [0] if rows is None else rows).astype(np.int64)
            here = model.elsewhere.of_rows(self.fetched)
        controls = controls_of(here, functions, bound, len(points), self.places(outliers))
        floats = sums.points[table].copy()
        self.trial = probe(here, ints, floats, points, controls._replace(size=model.size))
        self.plain = probe(here, ints, floats, points)  # of one type, whatever the control
        self.arms = range(1, len(points))
        self.read, self.own = reader(source.residuals), own
        self.none: list[tuple] = []  # (rows, residuals of the reference at them), the last two

    def size(self, arm: int) -> float:
        """Distance of a point from the reference."""
        return float(self.own.sizes[arm])

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows stand among those that are in memory."""
        if self.fetched is None:
            return rows
        return np.searchsorted(self.fetched, rows).astype(row_kind(len(self.fetched)))

    def possible(self, arm: int) -> bool:
        """Is a point one that the prior allows."""
        inside = is_inside(self.model, self.points[arm], self.ints)
        return inside and bool(np.isfinite(prior_at(self.plain, arm)))

    def residuals(self, arm: int, rows: np.ndarray) -> np.ndarray:
        """Residuals of a point less those of the reference."""
        if not len(rows):
            return np.zeros(0)
        none = next((known for some, known in self.none if some is rows), None)
        if none is None:
            none = self.residuals_of(0, self.places(rows))
            self.none = [*self.none[-1:], (rows, none)]
        return self.residuals_of(arm, self.places(rows)) - none

    def residuals_of(self, arm: int, places: np.ndarray) -> np.ndarray:
        """Residuals of a point."""
        found = np.zeros(len(places))
        with np.errstate(all="ignore"):
            for first in range(0, len(places), CHUNK):
                part = slice(first, first + CHUNK)
                self.read(self.trial, arm, places[part], found[part])
        return found

    def whole(self, first: int, past: int) -> np.ndarray:
        """The sums of the residuals of all rows, by the exact totals, of arms first .. past - 1."""
        found, size = np.zeros(past - first), self.model.size
        if self.model.elsewhere is not None:
            arms = np.array([0, *range(first, past)])
            totals = self.model.elsewhere.sums_at(self.ints, self.points[arms])
            left_of_totals(self.trial, arms, totals, found)
            return found
        together = max(1, READ // size)  # now and then Python looks whether it is interrupted
        with np.errstate(all="ignore"):
            for begin in range(0, len(found), together):
                left_over(self.plain, self.trial, first + begin, size, found[begin:][:together])
        return found


def is_inside(model, floats, ints) -> bool:
    """Does every continuous block lie within its constraint."""
    for v in model.variables.values():
        given = v.constraint
        if not v.support:
            part = floats[v.block.start : v.block.start + v.length(ints)]
            if not np.all((given.low < part) & (part < given.high)):
                return False
            if given.kind == ORDERED and not np.all(part[:-1] < part[1:]):
                return False
            if given.kind == CHOLESKY and not np.all(part[:: int(given.high) + 1] > 0.0):
                return False
    return True


def is_about(model, fit, ints, strides) -> bool:
    """Is this a fit of all continuous blocks, in this configuration of the discrete ones."""
    every = tuple(name for name, v in model.variables.items() if not v.support)
    if getattr(fit, "blocks", ()) != every:
        return False
    own = [np.ravel(fit.state[name]) for name, v in model.variables.items() if v.support]
    seen = strides > 0
    return not own or bool(np.array_equal(np.concatenate(own)[seen], ints[seen]))


def drawn(fit, count: int, widths=(1.0,)) -> np.ndarray:
    """Continuous values drawn from a fit; widths: of its standard deviations, one after another."""
    steps = np.random.default_rng(0).standard_normal((count, len(fit.mean))) @ fit.factor.T
    u = fit.mean + np.resize(widths, count)[:, None] * steps
    for kind, _, _, a, b, _, _ in fit.coordinates.parts.values():
        u[:, a:b] = np.abs(u[:, a:b]) if kind in ROOTS else u[:, a:b]
    values, densities, _ = fit.coordinates.lift(u)
    return values[densities > -np.inf]  # where the prior is 0 no chain comes


def around(model, sums, table: int, fit, ints, strides) -> np.ndarray:
    """Points near a reference: of the fit, if it is one of all continuous blocks."""
    rng = np.random.default_rng(0)  # the same pilot every time
    if is_about(model, fit, ints, strides):
        points = drawn(fit, POINTS, WIDTHS)
        if how_many(model.size) >= FEW:  # many more are looked at by `study`
            return points
        return np.concatenate([points, moved(model, sums, table, along_axes(sums, table))])
    used = sums.used[table]
    steps = rng.standard_normal((POINTS, used))
    steps *= (np.resize(WIDTHS, POINTS) * sqrt(used) / np.linalg.norm(steps, axis=1))[:, None]
    away = np.linalg.solve(sums.metric[table][:used, :used], steps.T).T
    return moved(model, sums, table, np.concatenate([away, along_axes(sums, table)]))


def along_axes(sums, table: int) -> np.ndarray:
    """Steps to either side along each parameter, as the others follow it: a kink may be there."""
    used = sums.used[table]
    root = np.linalg.inv(sums.metric[table][:used, :used])
    covariance = root @ root.T
    ways = AXES * covariance / np.sqrt(np.diag(covariance))[:, None]
    return np.concatenate([ways, -ways])


def moved(model, sums, table: int, steps: np.ndarray) -> np.ndarray:
    """Points that are so far from a reference."""
    away = np.zeros((len(steps), len(model.floats)))
    away[:, : steps.shape[1]] = steps
    # Directions in which the likelihood is flat would lead out of this world.
    limit = np.abs(sums.points[table]) + 1.0
    away *= np.minimum(1.0, limit / np.maximum(np.abs(away), 1e-300)).min(axis=1)[:, None]
    return sums.points[table] + away


@jit
def prior_at(trial, arm):
    """The log prior of a point."""
    place(trial, arm)
    return prior_of(trial)


@jit
def left_over(plain, trial, first, size, out):
    """What the sums of h leave of the exact totals of arms, less that of the reference."""
    place(trial, 0)
    none = remembered_total(plain, 0, size) - whole_sum(trial, 0)
    for i in range(len(out)):
        place(trial, first + i)
        out[i] = remembered_total(plain, first + i, size) - whole_sum(trial, first + i) - none


@jit
def left_of_totals(trial, arms, totals, out):
    """The same of totals that are known; the first is that of the reference."""
    place(trial, arms[0])
    none = totals[0] - whole_sum(trial, arms[0])
    for i in range(len(out)):
        place(trial, arms[1 + i])
        out[i] = totals[1 + i] - whole_sum(trial, arms[1 + i]) - none


@memoised
def reader(residuals) -> Any:
    """read(trial, arm, rows, out), callable from Python."""

    @jit
    def read(trial, arm, rows, out):
        place(trial, arm)
        raced_sum(trial, arm)
        residuals(trial, arm, rows, out)

    return read


def pilot(probes: Probes, sums, outliers) -> bool:
    """Write the remainders that were seen, with a margin, into the limits; False if none was."""
    model, source = probes.model, probes.source
    rows, fixed = some_rows(model, outliers), outliers.astype(row_kind(model.size))
    raced = model.size - len(outliers)
    for table in range(len(sums.points) if len(rows) else 0):
        probe = Probe(probes, sums, table, outliers, rows=rows)
        # Of the raced sum of absolute values, a row, the raced and whole sums, a row's square.
        seen, squares, units, farthest = np.zeros(4), [], [], 0.0
        barred = unseen = False  # do data rule out a point; rows that are not always read
        known = probe.whole(1, 1 + len(probe.arms)) if model.size <= MOST_DATA else None
        for arm in probe.arms:
            found = probe.residuals(arm, rows)
            always = probe.residuals(arm, fixed)
            total = 0.0 if known is None else known[arm - 1]
            if no_numbers(found, always, total):
                if probe.possible(arm):
                    barred, unseen = True, unseen or not no_numbers(always)
                continue
            if not probe.size(arm) > 0.0:
                continue
            unit, out = unit_of(sums.raced, probe.size(arm)), 0.0
            left = both = raced * np.abs(found).mean()
            squares.append((found @ found) / len(found))
            units.append(unit)
            farthest = max(farthest, probe.size(arm))
            if known is not None:
                left = both = float(known[arm - 1])
            if len(outliers):
                out = float(always.sum())
                left, both = (left - out, both) if known is not None else (left, both + abs(out))
            each = (raced * np.abs(found).mean(), np.abs(found).max(), abs(left), abs(both))
            seen = np.fmax(seen, np.array(each) / unit)
        write(sums.raced, table, SAFETY * seen[[0, 1, 2]], source.known(), model.size)
        if squares:
            sums.raced.limits[table, 6] = typical(np.sqrt(squares) / np.array(units))
        farthest = min(BEYOND * farthest, sqrt(sums.used[table]) + FARTHER)
        sums.raced.limits[table, 16] = sums.whole.limits[table, 16] = farthest
        if len(outliers):
            write(sums.whole, table, SAFETY * seen[[0, 1, 3]], source.known(), model.size)
        if barred:
            bar_estimates(sums, table, unseen)
    return source.known() or bool(np.all(sums.raced.limits[:, 4] > 0.0))


def no_numbers(*residuals: Any) -> bool:
    """Is one of them no number: do data say that a point is impossible."""
    return not all(np.all(np.isfinite(some)) for some in residuals)


def bar_estimates(sums, table: int, unseen: bool) -> None:
    """No decision by estimates alone: some data rule out states that the prior allows.

    What a single row says there, -inf, is in no sum, and no pilot's point beside it tells of it.

    unseen: these data are not among those that are always read. Then no race would meet them, and
    nothing is taken for near enough to be decided by some rows.
    """
    for parts in (sums.raced, sums.whole):
        parts.limits[table, 5] = NO_ESTIMATE
        parts.limits[table, 16] = 0.0 if unseen else parts.limits[table, 16]
    sums.learnt.known[table] = 0


def typical(sizes: np.ndarray) -> float:
    """Of the sizes of residuals at some points the median, or the largest where it is far above.

    Where most points lie on one side of a kink all that they leave over is rounding, and a race
    would believe it of the others.
    """
    middle, most = float(np.median(sizes)), float(np.max(sizes))
    return most if most > APART * middle else middle


def explain_little(parts: Terms, used: np.ndarray, size: int) -> bool:
    """Do residuals vary as log likelihoods do, half as far off as most draws lie.

    Then hardly a decision trusts them: see `trusted` of polynomial.py. used: numbers that move.
    """
    far = 0.5 * np.sqrt(used)
    left = parts.limits[:, 4] * unit_of(parts, far)
    left *= np.exp(np.minimum(parts.limits[:, 2] * far, 700.0))
    return bool(np.all(left > sqrt(size) * np.maximum(far, 1.0)))


def unit_of(parts: Terms, size: Any) -> Any:
    """What a remainder at some distance is told in: it grows with the power of what is left out."""
    return size**4 / 24.0 if len(parts.cubes) else size**3 / 6.0


def some_rows(model, outliers) -> np.ndarray:
    """Rows at random, the same every time, of those that are not always read."""
    rng = np.random.default_rng(1)
    rows = np.sort(rng.choice(model.size, min(ROWS, model.size), replace=False))
    return np.setdiff1d(rows, outliers).astype(row_kind(model.size))


def study(probes: Probes, sums, outliers) -> None:
    """Learn what whole sums leave over, where exact ones are cheap enough."""
    count, none = how_many(probes.model.size), np.zeros(0, dtype=np.int64)
    always = outliers.astype(row_kind(probes.model.size))
    rows = always if len(always) else None
    for table, fit in enumerate(probes.fits):
        ints = configuration(probes.strides, table)
        barred = sums.whole.limits[table, 5] >= NO_ESTIMATE
        if count >= FEW and not barred and is_about(probes.model, fit, ints, probes.strides):
            probe = Probe(probes, sums, table, none, drawn(fit, count), rows)
            left = probe.whole(1, 1 + len(probe.arms))
            if no_numbers(left):  # at points that the prior allows: see `drawn`
                arms = np.asarray(probe.arms)[~np.isfinite(left)]
                told = [no_numbers(probe.residuals(arm, always)) for arm in arms]
                bar_estimates(sums, table, not all(told))
                continue
            own, used = probe.own, sums.used[table]
            steps, sizes, third = own.steps[1:], own.sizes[1:], np.zeros(len(left))
            if len(sums.whole.cubes):
                third = steps_cubed(sums.whole.s3[table], steps, used)
            learn(sums.learnt, table, steps, sizes, third, left)
            believe_less(sums.whole, table, sizes, left, used)
            out = [probe.residuals(arm, always).sum() for arm in probe.arms] if len(always) else 0.0
            believe_less(sums.raced, table, sizes, left - out, used)
    rows = some_rows(probes.model, outliers)
    for table in np.flatnonzero(sums.learnt.known).tolist() if len(rows) else ():
        probe = Probe(probes, sums, table, outliers, rows=rows)
        sums.learnt.spreads[table] = spread_of(probe, rows)


def believe_less(parts: Terms, table: int, sizes: np.ndarray, left: np.ndarray, used: int) -> None:
    """Of the sum the pilot's remainder is at least what many more points have left over.

    A few points may all lie on one side of a kink. Near the reference all that is left is rounding.
    """
    seen = np.isfinite(left) & (sizes > 0.5 * sqrt(used))
    if seen.any():
        most = float((np.abs(left[seen]) / unit_of(parts, sizes[seen])).max())
        parts.limits[table, 5] = max(parts.limits[table, 5], BEYOND * most)


def spread_of(probe: Probe, rows: np.ndarray) -> float:
    """By how much residuals of rows vary, in units of the doubt of what was learnt; 0: unknown."""
    ratios = []
    for arm in probe.arms:
        found = probe.residuals(arm, rows)
        if probe.size(arm) > 0.0 and np.all(np.isfinite(found)):
            ratios.append(np.sqrt((found @ found) / len(found)) / probe.own.guesses[arm, 1])
    ratios = [ratio for ratio in ratios if ratio > 0.0]  # no doubt is known beyond what was seen
    return typical(np.array(ratios)) if len(ratios) >= POINTS // 3 else 0.0


def steps_cubed(s3: np.ndarray, steps: np.ndarray, used: int) -> np.ndarray:
    """Third-order terms of the polynomial."""
    b, c = np.tril_indices(used)
    return np.array([d[:used] @ (s3[:used, : len(b)] @ (d[b] * d[c])) / 6.0 for d in steps])


def write(parts: Terms, table: int, seen: np.ndarray, known: bool, size: int) -> None:
    """Keep what was seen of one configuration; what is proved stays."""
    if not known:
        parts.limits[table, :2] = seen[:2]
        parts.limits[table, 3] = 1e-13 * (1.0 + abs(parts.s0[table]) / size)
    parts.limits[table, 4:6] = seen[[0, 2]]
