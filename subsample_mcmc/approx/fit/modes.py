"""Has a posterior other modes than the one that a fit is around: further searches, from elsewhere.

A chain that proposes from a fit around one mode, and starts there, sees no other, and nothing that
is computed of its draws can tell. So modes are looked for beforehand, from starts as far off as one
datum leaves the parameters uncertain.
"""

import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.fit.coordinates import Coordinates, windows
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.laplace import (
    FAILURES,
    Summed,
    laplace,
    way_of,
)
from subsample_mcmc.approx.fit.newton import (
    FLOOR,
    Local,
    begin,
    climb,
    deviations,
    several,
    spectrum,
)
from subsample_mcmc.approx.taylor.taylor import PATIENT
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.constraints import CHOLESKY, INTERVAL, ORDERED, REAL

SEARCHES = 8  # the first from the fit itself
RUNS, RUN = 16, 320  # of many data that are read: how many, and how long
BUDGET, PASSES = 2e9, 10  # operations that they may take, each with so many passes
EVALUATION = 50  # operations of one: of functions without derivatives, d^2 + d + 1 a datum
APART = 1.0  # standard deviations at the highest end by which ends of one mode differ, at most ...
ALIKE = 1.0  # ... and nats: a search that began at a saddle may end there
SLIGHT = 1e-3  # nats by which fits around one mode may differ
TOLERANCE = 1e-2  # standard deviations to which ends are found
# Parts whose signs are turned in all combinations, by twos, one by one; of more, all at once.
UNITS, PAIRED, MIRRORS = 4, 8, 16
BEYOND = 5.0  # standard deviations from the mode: a Gaussian is 12 nats lower there
CLIMBS = 8  # searches from such points at most
STEPS, SHARES = 20, (1.0, 0.3, 0.1, 0.03, 0.01)  # uphill, in parts of a step, each ...
SLIGHT_RISE = 0.005  # ... by this many nats at least
RISES = 0.25  # nats, along a direction that bends upward, by which a point is a saddle
HOPELESS = 1e6  # nats lower, where a search did not come to any mode
BETWEEN, BESIDE = (0.5, 0.25, 0.75), (0.9, 0.97, 0.99)  # of the way from one end to a lower one
NEAR = 10.0  # nats below the highest mode up to which another may have some of the mass


class Opposite:
    """Normal numbers, every second set those before with the other sign: starts on either side."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.last: np.ndarray | None = None

    def standard_normal(self, count: int) -> np.ndarray:
        """Some of them, as a Generator gives them."""
        if self.last is not None and len(self.last) == count:
            found, self.last = -self.last, None
        else:
            found = self.last = self.rng.standard_normal(count)
        return found


class Modes(NamedTuple):
    """What searches came to."""

    searches: int  # that ended at a mode
    modes: list[np.ndarray]  # in free coordinates, the highest first
    heights: list[float]
    found: list[int]  # by how many searches, each
    own: int  # which of them the fit is around

    def without_highest(self) -> "Modes":
        """The others."""
        return Modes(
            self.searches - self.found[0], self.modes[1:], self.heights[1:], self.found[1:],
            self.own - 1,
        )  # fmt: skip

    @property
    def several(self) -> bool:
        """Is there more than one."""
        return len(self.modes) > 1

    @property
    def near(self) -> list[np.ndarray]:
        """Those that may have some of the mass."""
        return [u for u, h in zip(self.modes, self.heights, strict=True)
                if h > self.heights[0] - NEAR]  # fmt: skip

    def told(self) -> str:
        """In words; empty where there is one."""
        if not self.several:
            return ""
        lower = ", ".join(f"{self.heights[0] - h:.3g}" for h in self.heights[1:4])
        more = ", ..." if len(self.heights) > 4 else ""
        return (
            f"{self.searches} searches came to {len(self.modes)} modes of the posterior: "
            f"{self.found[0]} to the highest, others to such as are {lower}{more} nats lower"
        )

    @property
    def doubtful(self) -> bool:
        """May there be mass elsewhere: a mode as high, or a higher one that no search came to."""
        return len(self.near) > 1 or 2 * self.found[0] < self.searches


def searches_of(co: Coordinates, kind: type) -> int:
    """How many are worth their time; fewer than two: none."""
    rows, d = min(co.model.size, RUNS * RUN), co.size
    each = EVALUATION * (d * d + d + 1) if issubclass(kind, Summed) else d * d
    return int(min(SEARCHES, BUDGET / (PASSES * rows * each)))


def modes_of(fit: Fit) -> Modes | None:
    """Look for other modes than that of a fit of all continuous blocks; None: it takes too long."""
    model, co = fit.model, Coordinates(fit.model, fit.blocks, fit.state)
    some = windows(model.size, RUNS, RUN) if model.size > 2 * RUNS * RUN else co.spans
    with np.errstate(all="ignore"), Bar(
        desc="other modes", unit="row", unit_scale=True, delay=PATIENT
    ) as bar:  # fmt: skip
        try:
            kind = way_of(co, some, fit.mean)
            count = searches_of(co, kind)
            if count < 2:
                return None
            likelihood = kind(co, some, bar)
            best, heights, ends = several(likelihood, fit.mean, count, Opposite(0), TOLERANCE)
        except FAILURES:
            return None
        top, spread = ends[int(np.argmax(heights))], deviations(best[0].curvature)
        more = [
            *climbed(likelihood, renamed(co, top), max(heights), fit.factor),
            *climbed(
                likelihood,
                away(mirrored(co, top), top, spread, fit.factor),
                max(heights),
                fit.factor,
            ),
        ]
        every = np.array([*heights, *(height for height, _ in more)])
        ends = np.array([*ends, *(end for _, end in more)])
        lost = [k for k in range(1, len(every)) if not is_mode(likelihood, every, ends, k)]
    every[lost] = np.nan
    return apart(spread, every, ends, likelihood)


def is_mode(likelihood, heights, ends: np.ndarray, k: int) -> bool:
    """Is an end higher than all around it, and no plain where a search gave up.

    The density of a scale near 0 and of effects that are all alike grows without end, and has no
    mass there: what a search comes to is a saddle.
    """
    top = max(heights[np.isfinite(heights)], default=-np.inf)
    return bool(heights[k] > top - HOPELESS) and is_summit(likelihood, ends[k])


def is_summit(likelihood, u: np.ndarray) -> bool:
    """Does the density rise from a point nowhere that its curvature leaves in doubt.

    Of kinks a curvature says what a few of them made of it: where it bends upward, it is asked.
    """
    try:
        here = begin(likelihood, u)
        scale, values, vectors = spectrum(here.curvature)
        size = np.abs(values).max()
        for value, vector in zip(values, vectors.T, strict=True):
            if value > -FLOOR * size:
                continue
            step = scale * vector / np.sqrt(abs(value))
            for sign in (1.0, -1.0):
                rises = [begin(likelihood, u + sign * t * step).value - here.value
                         for t in (1.0, 0.5, 0.25)]  # fmt: skip
                if rises[0] > RISES and min(rises) > 0.0:  # else another mode stands there
                    return False
    except FAILURES:
        return False
    return True


def stands_on_top(fit: Fit) -> bool:
    """Is a fit, of all data, at a mode, whatever its curvature says."""
    co = Coordinates(fit.model, fit.blocks, fit.state)
    with np.errstate(all="ignore"), Bar(desc="other modes", delay=PATIENT) as bar:
        try:
            return is_summit(way_of(co, co.spans, fit.mean)(co, co.spans, bar), fit.mean)
        except FAILURES:
            return False


def climbed(likelihood, starts: Iterable[np.ndarray], height: float, factor: np.ndarray) -> list:
    """(height, end) of searches from those of some points that may have some of the mass.

    Where kinks lead a search across a valley, another stays on this side of it.

    factor: of the fit's covariance.
    """
    found: list[tuple[float, np.ndarray]] = []
    climbs = 0
    for u in starts:
        try:
            start = begin(likelihood, u)
            if start.value <= height - NEAR:
                continue
            climbs += 1
            end = climb(likelihood, start, TOLERANCE)
            found.append((end[0].value + end[2], end[0].u + end[1]))
            if (own := on_this_side(likelihood, start, found[-1], factor)) is not None:
                found[-1] = own
        except FAILURES:
            pass
        if climbs == CLIMBS:
            break
    return found


def on_this_side(likelihood, now: Local, end: tuple[float, np.ndarray], factor) -> Any:
    """(height, end) of a search by short steps uphill; None where no valley is in between.

    By Newton's, which follow a ridge, and by the gradient's, as curvatures of kinks are none.
    """
    for _ in range(STEPS):
        pair = np.array([end[1], now.u])
        if are_one(likelihood, (end[0], now.value), pair, 0, 1):
            return None
        along = factor.T @ now.gradient
        step = factor @ along / max(float(np.linalg.norm(along)), 1e-300)
        scale, values, vectors = spectrum(now.curvature)
        size = np.maximum(np.abs(values), FLOOR * np.abs(values).max())
        newton = scale * (vectors @ (vectors.T @ (scale * now.gradient) / size))
        tried = [begin(likelihood, now.u + t * s) for s in (step, newton) for t in SHARES]
        tried.sort(key=lambda local: -local.value)
        for best in tried:
            if best.value < now.value + SLIGHT_RISE:
                return now.value, now.u
            if begin(likelihood, 0.5 * (now.u + best.u)).value > now.value:  # uphill all the way
                break
        else:
            return now.value, now.u
        now = best
    return None  # it still rises: along a ridge


def renamed(co: Coordinates, u: np.ndarray) -> Iterator[np.ndarray]:
    """Points at which the components have each other's values.

    Such as those of a mixture, whose labels are only names: blocks of one length are reversed, but
    for ordered ones, of which there is one order, and Cholesky factors, which have another shape.
    And blocks whose names end in numbers; of two, a share of one is what the other's lacks of 1.
    """
    floats = co.lift(u)[0][0]
    free = [
        v for v in co.variables
        if v.length(co.ints) == v.block.length and v.constraint.kind not in (CHOLESKY, ORDERED)
    ]  # fmt: skip
    for length in sorted({v.sites for v in free if v.sites > 1}):
        other = floats.copy()
        for v in free:
            if v.sites == length:
                part = part_of(v)
                other[part] = floats[part].reshape(length, -1)[::-1].ravel()
        yield co.free(other)
    if trading := numbered(free):
        other = floats.copy()
        for parts in trading:
            for to, of in zip(parts, parts[::-1], strict=True):
                other[to] = floats[of]
        point = co.free(other)
        yield point
        shares = [
            first for kind, _, _, first, past, *_ in co.parts.values()
            if kind == INTERVAL and past - first == 1
        ]  # fmt: skip
        if shares:
            point = point.copy()
            point[shares] *= -1.0
            yield point


def part_of(v: Any) -> slice:
    """Where a block stands among the continuous values."""
    return slice(v.block.start, v.block.start + v.block.length)


def numbered(variables: list) -> list[list[slice]]:
    """Where blocks stand that are called alike but for a number at the end, such as m1 and m2."""
    alike: dict[tuple, list[tuple[int, slice]]] = {}
    for v in variables:
        if found := re.fullmatch(r"(.*?)_?(\d+)", v.block.name):
            key = found[1], v.block.shape, v.constraint
            alike.setdefault(key, []).append((int(found[2]), part_of(v)))
    return [[part for _, part in sorted(some, key=lambda one: one[0])]
            for some in alike.values() if len(some) > 1]  # fmt: skip


def mirrored(co: Coordinates, u: np.ndarray) -> Iterator[np.ndarray]:
    """Points at which some coordinates have the other sign.

    Such as those of a product, whose factors change sign together, or of what is only squared: one
    datum does not leave these in doubt, so other searches seldom begin on the other side. All that
    may have either sign, blocks, and single numbers.
    """
    blocks = [
        np.arange(a, b) for kind, _, _, a, b, *_ in co.parts.values() if kind in (REAL, INTERVAL)
    ]
    numbers = [np.array([j]) for block in blocks for j in block]
    units = numbers if len(numbers) <= UNITS else blocks
    chosen = turned(units) if len(units) <= UNITS else [np.concatenate(units), *turned(units)]
    chosen += turned(numbers) if units is not numbers and len(numbers) <= MIRRORS else []
    for some in chosen:
        other = u.copy()
        other[some] = -u[some]
        yield other


def turned(units: list[np.ndarray]) -> list[np.ndarray]:
    """All of few parts by any number, of more by twos, and of many one by one."""
    most = len(units) if len(units) <= UNITS else 2 if len(units) <= PAIRED else 1
    sizes = range(1, most + 1) if len(units) <= MIRRORS else ()
    return [np.concatenate(some) for size in sizes for some in combinations(units, size)]


def away(points: Iterable[np.ndarray], u: np.ndarray, *spreads: np.ndarray) -> Iterator[np.ndarray]:
    """Those of some points that are beyond what one of some Gaussians around the mode has.

    Next to a kink a curvature may be next to nothing, where the fit's is of wider steps.
    """
    for point in points:
        if any(np.linalg.norm(np.linalg.solve(s, point - u)) > BEYOND for s in spreads):
            yield point


def apart(spread: np.ndarray, heights, ends: np.ndarray, likelihood=None) -> Modes:
    """Ends by the modes that they are of; spread: standard deviations at the highest, by column.

    Where a search stops at a kink, ends of one mode may lie apart: no valley is between them.
    """
    good = [k for k in np.argsort(-np.array(heights), kind="stable") if np.isfinite(heights[k])]
    modes: list[list[int]] = []  # searches that ended there
    for k in good:
        for mode in modes:
            off = np.linalg.norm(np.linalg.solve(spread, ends[k] - ends[mode[0]]))
            near = off < APART and heights[mode[0]] - heights[k] < ALIKE
            if near or (likelihood is not None and are_one(likelihood, heights, ends, mode[0], k)):
                mode.append(k)
                break
        else:
            modes.append([k])
    own = next((i for i, mode in enumerate(modes) if 0 in mode), 0)
    first = [mode[0] for mode in modes]
    return Modes(
        len(good), [ends[k] for k in first], [float(heights[k]) for k in first],
        [len(mode) for mode in modes], own,
    )  # fmt: skip


def are_one(likelihood, heights, ends: np.ndarray, high: int, low: int) -> bool:
    """Is there no valley between two ends; of one far lower it is looked for beside it, too.

    Where a search stopped at a kink, far below, it rises from there: that is no mode. But the fit's
    own, the first, is left for one: a higher one takes its place.
    """
    far = heights[low] < heights[high] - NEAR
    if far and low == 0:
        return False
    try:
        return all(
            begin(likelihood, ends[high] + share * (ends[low] - ends[high])).value
            > heights[low] - ALIKE for share in (*BETWEEN, *(BESIDE if far else ()))
        )  # fmt: skip
    except FAILURES:
        return False


def highest(fit: Fit, modes: Modes) -> tuple[Fit, str, Modes]:
    """(a fit around the highest mode, its code, the modes): the search starts there.

    Of many data some were read: if all of them say otherwise, the fit as it was. What is no mode
    after all, where a density grows without end, is left out.
    """
    while modes.own > 0:
        values = fit.coordinates.dict_of(fit.coordinates.lift(modes.modes[0])[0][0])
        given = {name: np.asarray(value, dtype=float).tolist() for name, value in values.items()}
        for name, v in fit.model.variables.items():  # discrete ones that the fit holds elsewhere
            if v.block.discrete and np.any(
                np.ravel(fit.state[name]) != fit.model.ints[v.block.start :][: v.block.length]
            ):
                given[name] = np.asarray(fit.state[name]).tolist()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = laplace(fit.model, given=given)
        except FAILURES:
            return fit, "", modes
        if not isinstance(found, Fit) or (
            found.repaired and not fit.repaired and not stands_on_top(found)
        ):
            modes = modes.without_highest()
            continue
        if found.log_density > fit.log_density + SLIGHT:
            return found, f"sm.laplace(model, given={given})", modes
        break
    return fit, "", modes
