"""The density of what sites have in common, from which Laplace's approximation takes the sites.

By differences of it (Marginal), each of which looks for the modes of all sites anew: for any
function, and few data; of crossed sites by as few as serve (MarginalOfCrossed). Or by derivatives
(MarginalByJets): at one point the modes of sites, and derivatives of the data to third order; what
these say of the density nearby reads no data, so a Newton step takes a few passes. Fourth
derivatives are differences of third ones, once, at the end.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.crossed import CrossedSites
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.kinks import (
    deviations_of,
    kinks_at_end,
    kinks_near,
    kinks_within,
    with_kinks,
)
from subsample_mcmc.approx.fit.newton import Local, deviations, differences, widths
from subsample_mcmc.approx.fit.site_jets import NEAR as ROUGH
from subsample_mcmc.approx.fit.site_jets import SitesByJets, Tensors
from subsample_mcmc.approx.fit.sites import LIMIT, Settled, Sites, log_dets
from subsample_mcmc.approx.taylor.derivatives_jets import NotSmoothError, obstacle
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.lookups.reads import unread

STEP = 0.1  # of a difference, in standard deviations
NEAR = 0.03  # of a difference of expansions nearby, which read no data
CLOSER = 0.1  # times that, where scales multiply sites: errors of fourth order add up over these
FIRST = 1e-3  # ... before these are known, of numbers of the size of 1
ALONG = 0.02  # of a difference along single directions, which may be others each time
TELLS = 0.01, 3.0  # standard deviations of steps that tell of curvature
WORTH = 100_000_000  # evaluations that differences take, from which on jets are compiled
SOON, LATE = 10, 30  # Newton steps of sites from where they should be, and from where they were
ASTRAY = 8  # steps to where the density bends upwards, after which fourth derivatives are taken
STEPS = 12  # Newton's, of what sites have in common times those of sites, as a rule


class Marginal:
    """The density, by differences."""

    sites: Any  # Sites, or CrossedSites
    rough = 0  # it is read over short steps

    def __init__(self, coordinates: Coordinates, sites: Any, bar):
        self.coordinates, self.sites, self.bar, self.passes = coordinates, sites, bar, 0
        coordinates.floats = sites.floats  # whose sites are where they were put last
        self.u = sites.free()
        self.kinks = np.zeros(coordinates.size, dtype=bool)  # along which its prior has some
        self.last: Local | None = None  # where a search came to

    def put(self, point: np.ndarray) -> float:
        """Let what sites have in common be there: its log |dx/du|."""
        co = self.coordinates
        values, _, jacobian = co.lift(point)
        if jacobian[0] > -np.inf:
            for part in co.parts.values():
                self.sites.floats[part[5] : part[6]] = values[0, part[5] : part[6]]
        return float(jacobian[0])

    def at(
        self, point: np.ndarray, u: np.ndarray, learn: bool = False, limit: int = LIMIT
    ) -> tuple[float, Settled]:
        """(the log density at a point, the sites there); -inf: it has none."""
        co, sites = self.coordinates, self.sites
        before, jacobian = sites.passes, self.put(point)
        if not jacobian > -np.inf:
            return -np.inf, Settled(u, np.zeros((len(u), 0, 0)), -np.inf, -np.inf)
        found = sites.settle(u, learn, limit)
        self.bar.update((sites.passes - before) * co.count)
        if not found.usable:
            return -np.inf, found
        rest = sites.rest(sites.place(found.u)[1])
        return float(found.integral + rest + jacobian), found

    def rises(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density at the first point, and what it rises by at the others."""
        value, found = self.at(points[0], self.u, learn=True)
        if value == -np.inf:
            return value, np.full(len(points) - 1, -np.inf)
        self.u = found.u
        others = np.array([self.at(point, self.u)[0] for point in points[1:]])
        return value, others - value

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The log density around u; before: around a point not far away."""
        self.passes += 1
        with np.errstate(all="ignore"):
            steps = deviations(before.curvature) if before else np.diag(widths(self.rises, u))
            rises = self.rises_of_rest if self.kinks.any() else self.rises
            found = self.with_kinks(differences(rises, u, STEP * steps))
            self.last = found if found.usable else self.last
            return found

    # ------------------------------------------------------------------------ kinks of its prior
    def prior(self, points: np.ndarray) -> np.ndarray:
        """The log prior of what sites have in common, and log |dx/du|: no data are read."""
        found, u = np.full(len(points), -np.inf), self.sites.free()
        for i, point in enumerate(points):
            jacobian = self.put(point)
            if jacobian > -np.inf:
                found[i] = jacobian + self.sites.rest(self.sites.place(u)[1])
        return found

    def rises_of_rest(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density at the first point, and what it rises by at others but for its prior."""
        value, rises = self.rises(points)
        own = self.prior(points)
        return value, rises - (own[1:] - own[0])

    def with_kinks(self, rest: Local) -> Local:
        """What is known of the rest, and of a prior with kinks; without any, as it is."""
        return with_kinks(rest, self.prior, self.kinks) if self.kinks.any() else rest

    def kinks_found(self, at: Local | None, ended: bool) -> np.ndarray:
        """Along which coordinates its prior has kinks near a point; ended: a search, at a mode."""
        if at is None:
            return np.zeros(len(self.kinks), dtype=bool)
        with np.errstate(all="ignore"):
            if not ended:
                return kinks_at_end(self.prior, at.u, at.curvature)
            sd = deviations_of(at.curvature)
            known = self.kinks & kinks_within(self.prior, at.u, sd)
            return known | kinks_near(self.prior, at.u, sd)

    def check_smooth(self) -> None:
        """Differences say what the data do."""

    def sharpened(self, now: Local) -> Local:
        """The same where the search ended, as it was found."""
        return now

    def slopes_along(self, common: Fit, u: np.ndarray) -> np.ndarray:
        """By how much modes of sites move with one standard deviation along each factor column."""
        found = np.zeros((*u.shape, len(common.mean)))
        for j in range(len(common.mean)):
            ends = []
            for sign in (1.0, -1.0):
                point = common.mean + sign * STEP * common.factor[:, j]
                value, there = self.at(point, u)
                ends.append(there.u if value > -np.inf else u)
            found[..., j] = (ends[0] - ends[1]) / (2.0 * STEP)
        return found


class MarginalOfCrossed(Marginal):
    """The density of what crossed sites have in common: each value of it takes a factorization.

    So a step of a search reads it along the directions in which it was uncorrelated before, and
    sites begin where they should be, as far as they followed until then.
    """

    sites: CrossedSites
    follow: np.ndarray | None = None  # (numbers, d) of modes of sites, by what is common

    def rises(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density at the first point, and what it rises by at the others."""
        value = self.move_to(points[0])
        if value == -np.inf:
            return value, np.full(len(points) - 1, -np.inf)
        others = [self.beside(point - points[0], point)[0] for point in points[1:]]
        return value, np.array(others) - value

    def move_to(self, point: np.ndarray) -> float:
        """The log density at a point, where sites are from then on; -inf: they stay."""
        before = self.sites.steps, self.sites.known
        value, found = self.at(point, self.u, learn=True)
        if value > -np.inf:
            self.u = found.u
        else:
            self.sites.steps, self.sites.known = before
        return value

    def beside(self, step: np.ndarray, point: np.ndarray) -> tuple[float, np.ndarray]:
        """(the log density, modes of sites) a step away from where sites are."""
        start = self.u if self.follow is None else self.u + self.follow @ step
        value, found = self.at(point, start)
        if value == -np.inf and self.follow is not None:
            value, found = self.at(point, self.u)
        return value, found.u

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The log density around u; before: around a point not far away."""
        if before is None:
            return super().around(u, before)
        self.passes += 1
        d, steps = len(u), ALONG * deviations(before.curvature)
        with np.errstate(all="ignore"):
            value = self.move_to(u)
            if value == -np.inf:
                return Local(u, value, np.zeros(d), np.eye(d))
            moves, rises = np.empty((len(self.u), d)), np.empty((2, d))
            for j, step in enumerate(steps.T):
                (rises[0, j], up), (rises[1, j], down) = (
                    self.beside(sign * step, u + sign * step) for sign in (1.0, -1.0)
                )
                moves[:, j] = 0.5 * (up - down)
            rises -= value
            if self.kinks.any():
                own = self.prior(np.concatenate([u[None], u + steps.T, u - steps.T]))
                rises -= (own[1:] - own[0]).reshape(2, d)
            if not np.isfinite(rises).all():
                return super().around(u, before)
            inverse = np.linalg.inv(steps)
            self.follow = moves @ inverse
            gradient = inverse.T @ (0.5 * (rises[0] - rises[1]))
            bent = -(rises[0] + rises[1])
            local = Local(u, value, gradient, inverse.T @ np.diag(bent) @ inverse)
            gradient = self.with_kinks(local).gradient
            known = steps.T @ updated(before, u, gradient) @ steps
            if bent.min() > 0.0 and np.diag(known).min() > 0.0:  # their correlations, and its sizes
                size = np.sqrt(bent / np.diag(known))
                local = local._replace(
                    curvature=inverse.T @ (known * np.outer(size, size)) @ inverse
                )
            self.last = self.with_kinks(local)
            return self.last

    def sharpened(self, now: Local) -> Local:
        """The same where the search ended, with all second derivatives."""
        found = super().around(now.u, now)
        return now._replace(curvature=found.curvature) if found.usable else now


def updated(before: Local, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The curvature of before, such that it agrees with a gradient elsewhere (BFGS)."""
    bent, step, change = before.curvature, u - before.u, before.gradient - gradient
    along, across = float(step @ change), bent @ step
    if not (along > 0.0 and TELLS[0] ** 2 < step @ across < TELLS[1] ** 2):
        return bent
    less = np.outer(across, across) / (step @ across)
    return bent - less + np.outer(change, change) / along


class SitesAt(NamedTuple):
    """Where derivatives were made, and what is known there."""

    point: np.ndarray  # (d,) free coordinates of what sites have in common
    u: np.ndarray  # (sites, k) of sites
    x: np.ndarray  # (sites, k) values of sites
    s: np.ndarray  # (c,) values that data see beside these
    tensors: Tensors
    terms: np.ndarray  # (sites,) log prior + log |dx/du| of each site
    base: float  # the log prior of the rest + log |dx/du| of what sites have in common
    logs: float  # half the log determinants of the sites' precisions


class Following(NamedTuple):
    """How sites follow what they have in common."""

    slopes: np.ndarray  # (sites, k, d) of modes of sites, by free coordinates of what is common
    twist: np.ndarray  # (sites, k) of half a site's log determinant, by its own coordinates


class MarginalByJets(Marginal):
    """The density, by derivatives of the data."""

    sites: SitesByJets
    place: SitesAt | None = None
    follow: Following
    curvature: np.ndarray  # (d, d) there, without fourth derivatives
    astray: int = 0  # steps of searches to places where it is not positive definite

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The log density around u; before: around a point not far away."""
        self.passes += 1
        with np.errstate(all="ignore"):
            value, found = -np.inf, None
            if self.place is not None:  # sites as they follow; else, as they were
                moved = self.place.u + self.follow.slopes @ (u - self.place.point)
                value, found = self.at(u, moved, True, SOON)
            if value == -np.inf:
                value, found = self.at(u, self.u, True, LATE)
            nothing = Local(u, -np.inf, np.zeros(len(u)), np.eye(len(u)))
            if found is None or value == -np.inf:
                return nothing
            steps = NEAR * deviations(before.curvature) if before else None
            for _ in range(1 if before else 2):
                own = np.diag(FIRST * np.maximum(1.0, np.abs(u))) if steps is None else steps
                place = self.placed(u, found.u)
                follow = self.followed(place, found.precision, own)
                if not (np.isfinite(place.base) and np.isfinite(follow.slopes).all()):
                    return nothing
                local = self.nearby(place, follow, own)._replace(value=value)
                steps = NEAR * deviations(local.curvature) if local.usable else own
            if local.usable:
                self.u, self.place, self.follow = found.u, place, follow
                self.curvature, self.last = local.curvature, local
                # Where a scale multiplies all sites a search without fourth derivatives may creep.
                upwards = bool(np.linalg.eigvalsh(local.curvature)[0] <= 0.0)
                self.astray += upwards
                if upwards and self.astray > ASTRAY:
                    deep = self.deeper(place, follow, local.curvature)
                    if np.isfinite(deep).all():  # and a gradient without what bends too much
                        gradient = self.nearby(place, follow, CLOSER * own).gradient
                        local = local._replace(gradient=gradient, curvature=deep)
            return local

    def placed(self, point: np.ndarray, u: np.ndarray) -> SitesAt:
        """Derivatives of the data at a point, and at these sites: a pass or a few."""
        sites, before = self.sites, self.sites.passes
        jacobian = self.put(point)
        tensors = sites.expand(u)
        self.bar.update((sites.passes - before) * self.coordinates.count)
        own, prior = sites.place(u)
        terms, base = own + prior, sites.rest(prior) + jacobian
        x = self.values_of_sites()
        logs = 0.5 * self.precision(u, tensors.first, tensors.second, terms)[2].sum()
        return SitesAt(point, u, x, sites.floats[sites.seen].copy(), tensors, terms, base, logs)

    def values_of_sites(self) -> np.ndarray:
        """(sites, k) values, as the state is."""
        own = self.sites
        parts = [own.floats[v.block.start : v.block.start + v.block.length] for v in own.variables]
        return np.concatenate([part.reshape(own.count, -1) for part in parts], axis=1)

    def precision(self, u, first, second, terms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(gradients, precisions, log determinants of these) of sites; terms: their priors at u."""
        gradient, precision = self.sites.in_free(u, first, second, self.sites.own(u, terms))
        return gradient, precision, log_dets(precision)

    def followed(self, place: SitesAt, precision: np.ndarray, steps: np.ndarray) -> Following:
        """How sites follow what they have in common: no data are read.

        steps: of differences of priors, by what sites have in common, one per column.
        """
        sites, t, u, d = self.sites, place.tensors, place.u, len(place.point)
        k, h = sites.size, sites.steps
        slope, _ = sites.rates(u)
        turn = np.zeros((len(u), k, d))
        for j in range(d):
            ends, seen = [], []
            for sign in (1.0, -1.0):
                self.put(place.point + sign * steps[:, j])
                seen.append(sites.floats[sites.seen].copy())
                both = [
                    sum(sites.place(u + e * h)) - sum(sites.place(u - e * h)) for e in np.eye(k)
                ]
                ends.append(0.5 * np.array(both).T / h)
            own = 0.5 * (ends[0] - ends[1])
            turn[:, :, j] = own + slope * (t.mixed @ (0.5 * (seen[0] - seen[1])))
        moves = np.linalg.solve(precision, turn) if k > 1 else turn / precision
        self.put(place.point)
        twist = np.zeros_like(u)
        far = 3.0 * h  # of a third derivative of the prior
        for a in range(k):
            ends = []
            for sign in (1.0, -1.0):
                away = u + sign * far * np.eye(k)[a]
                terms = sum(sites.place(away))
                first, second = t.near(self.values_of_sites() - place.x, np.zeros(len(place.s)))
                ends.append(self.precision(away, first, second, terms)[1])
            # Of a log determinant by the matrix: there it may be negative, which has no logarithm.
            turned = np.linalg.solve(precision, ends[0] - ends[1])
            twist[:, a] = 0.25 * np.trace(turned, axis1=1, axis2=2) / far[:, a]
        return Following(moves @ np.linalg.inv(steps), twist)

    def rise(self, place: SitesAt, follow: Following, point: np.ndarray) -> float:
        """By how much the log density is larger at another point, as far as derivatives tell.

        Sites are not at their modes there, but off by the square of the step. So what they would
        gain is of its fourth power, and left out; what their determinants would, is not.
        """
        sites, t = self.sites, place.tensors
        jacobian = self.put(point)
        if not jacobian > -np.inf:
            return -np.inf
        u = place.u + follow.slopes @ (point - place.point)
        logs_of_x, prior = sites.place(u)
        terms, rest = logs_of_x + prior, sites.rest(prior)
        dx, ds = self.values_of_sites() - place.x, sites.floats[sites.seen] - place.s
        gradient, precision, logs = self.precision(u, *t.near(dx, ds), terms)
        if sites.size == 1:
            move = gradient / precision[:, :, 0]
        else:
            move = np.linalg.solve(precision, gradient[:, :, None])[:, :, 0]
        rise = t.rise(dx, ds) + float(np.sum(terms - place.terms) - np.sum(follow.twist * move))
        own = 0.0 if self.kinks.any() else rest + jacobian - place.base
        return float(rise + own - 0.5 * logs.sum() + place.logs)

    def nearby(self, place: SitesAt, follow: Following, steps: np.ndarray) -> Local:
        """The log density around a place, but for fourth derivatives of data."""

        def rises(points: np.ndarray) -> tuple[float, np.ndarray]:
            return 0.0, np.array([self.rise(place, follow, point) for point in points[1:]])

        return self.with_kinks(differences(rises, place.point, steps))

    def sharpened(self, now: Local) -> Local:
        """The same with fourth derivatives: differences of gradients, each by passes of its own."""
        with np.errstate(all="ignore"):
            now = self.around(now.u, now)
            if self.place is None or not now.usable:
                return now
            self.check_smooth()
            return now._replace(curvature=self.deeper(self.place, self.follow, now.curvature))

    def deeper(self, place: SitesAt, follow: Following, curvature: np.ndarray) -> np.ndarray:
        """The curvature at a place with fourth derivatives, of one without."""
        d, steps, bends = len(place.point), CLOSER * NEAR * deviations(curvature), []
        for j in range(d):
            slopes = []
            for sign in (1.0, -1.0):
                point = place.point + sign * steps[:, j]
                there = self.placed(point, place.u + sign * follow.slopes @ steps[:, j])
                each = [self.rise(there, follow, point + step) for step in (*steps.T, *-steps.T)]
                slopes.append(0.5 * (np.array(each[:d]) - np.array(each[d:])))
            bends.append(0.5 * (slopes[0] - slopes[1]))
        inverse, found = np.linalg.inv(steps), np.array(bends)
        bent = -inverse.T @ (0.5 * (found + found.T)) @ inverse
        return self.with_kinks(Local(place.point, 0.0, np.zeros(d), bent)).curvature

    def check_smooth(self) -> None:
        """Raise NotSmoothError where derivatives do not say what the data do near the sites."""
        with np.errstate(all="ignore"):
            self.sites.check_smooth(self.u)
            if self.place is not None and len(self.sites.seen):
                self.check_common(self.place)

    def check_common(self, place: SitesAt) -> None:
        """The same of what all data see: kinks along these need not be any of a site's."""
        sites, sd = self.sites, deviations(self.curvature)
        far = np.max(np.abs(sd) / np.maximum(1.0, np.abs(place.point))[:, None], axis=0)
        sizes = STEP / np.maximum(1.0, far)
        self.put(place.point)
        base = sites.read(place.u)[0]
        for size, step in zip(sizes, (sizes * sd).T, strict=True):
            bend = told = 0.0
            for sign in (1.0, -1.0):
                if not self.put(place.point + sign * step) > -np.inf:
                    return
                each = sites.read(place.u + sign * self.follow.slopes @ step)[0]
                dx = self.values_of_sites() - place.x
                bend += float(np.sum(each - base))
                told += place.tensors.rise(dx, sites.floats[sites.seen] - place.s)
            # As parts of a whole curvature of 1, in standard deviations.
            if not abs(bend - told) < ROUGH * (size * size + abs(told)):
                raise NotSmoothError("log_likelihood is not smooth along what all data see")

    def slopes_along(self, common: Fit, u: np.ndarray) -> np.ndarray:
        """By how much modes of sites move with one standard deviation along each factor column."""
        return self.follow.slopes @ common.factor


def has_jets(model) -> bool:
    """Can its data be differentiated, where fits of sites want it."""
    return not DISABLED and model.elsewhere is None and not obstacle(model)


def worth_jets(co: Coordinates, local: tuple[str, ...]) -> bool:
    """Are derivatives there, and do differences take longer than to compile them."""
    variables = [co.model.variables[name] for name in local]
    k = sum(v.block.length // v.sites for v in variables)
    d = co.size - k * variables[0].sites
    cost = co.model.size * (d * d + d + 1) * (k * k + k + 2) * STEPS
    return cost >= WORTH and has_jets(co.model)


def marginal_of(
    model, co: Coordinates, local: tuple[str, ...], names: tuple[str, ...], bar, jets: bool
) -> Marginal:
    """The density of some blocks, from which those of sites are taken."""
    floats = co.floats.copy()
    own = Coordinates(model, names, co.dict_of(floats, model.variables.values()))
    if not jets:
        return Marginal(own, Sites(model, local, co.ints, floats), bar)
    places = [np.arange(*co.parts[n][5:7]) for n in names if not unread(model, (n,))]
    seen = np.concatenate([np.zeros(0, dtype=np.int64), *places])
    return MarginalByJets(own, SitesByJets(model, local, co.ints, floats, seen), bar)
