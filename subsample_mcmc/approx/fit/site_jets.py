"""Derivatives of each site's data by jets: a pass or two over the rows, whatever their number.

Each datum sees one site, so number a of all sites moves at once: sums over each site's data of what
jets say along such a line are derivatives by its own numbers. Lines that also move what all data
see, as a common slope, say how these change with it. Priors of sites read no row: they are asked at
a few points.
"""

from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.fit.sites import (
    STEP,
    Sites,
    by_differences,
    columns_of,
    lift_sites,
    part_of,
)
from subsample_mcmc.approx.taylor.derivatives_jets import (
    SPAN,
    AlongLines,
    NotSmoothError,
    functions_of,
    jets_of,
    on_lines,
    summing,
)
from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.approx.taylor.predictor_chunks import chunk_of, read_chunk
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.constraints import REAL
from subsample_mcmc.target.dyadic import blocks_of

BEND = 1e-3  # of free coordinates, in differences of how fast values change with them
NEAR = 0.1  # the part by which curvatures may differ from those by differences


class Tensors(NamedTuple):
    """Derivatives of the log likelihood by k values of each site, and by c that other data see."""

    first: np.ndarray  # (sites, k)
    second: np.ndarray  # (sites, k, k)
    third: np.ndarray  # (sites, k, k, k)
    mixed: np.ndarray  # (sites, k, c)
    bent: np.ndarray  # (sites, k, k, c)
    others: np.ndarray  # (c,) of all data
    curved: np.ndarray  # (c, c)

    def rise(self, dx: np.ndarray, ds: np.ndarray) -> float:
        """What the log likelihood gains by a step: in ds to second order, else to third."""
        along = np.einsum("gab,ga->gb", self.second, dx) + 2.0 * self.mixed @ ds
        deep = np.einsum("gabc,ga,gb->gc", self.third, dx, dx) / 3.0
        deep += np.einsum("gabj,ga,j->gb", self.bent, dx, ds)
        own = dx * (self.first + 0.5 * (along + deep))
        return float(own.sum() + self.others @ ds + 0.5 * ds @ self.curved @ ds)

    def near(self, dx: np.ndarray, ds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(first, second derivatives by each site's values) a step away."""
        turned = np.einsum("gabc,gc->gab", self.third, dx)
        with_others = self.bent @ ds
        first = self.first + self.mixed @ ds
        first += np.einsum("gab,gb->ga", self.second + 0.5 * turned + with_others, dx)
        return first, self.second + turned + with_others


class SiteLines(NamedTuple):
    """Along which lines jets go, and which sums of their coefficients are derivatives."""

    lines: list  # ((coordinate, sign), ...): a site's k numbers, then c that all data see
    few: int  # the first of them, that second derivatives by sites' own numbers take
    own: int  # ... of which sums over each site are wanted; of the rest, totals
    two: dict  # matrices of second derivatives: "own", "mixed", "others"
    three: dict  # of third derivatives: "own", "bent"


@memoised
def lines_between(k: int, c: int) -> SiteLines:
    """Lines for k numbers of each site, and c that all data see."""
    sites, others = range(k), range(k, k + c)
    found: list[tuple[tuple[int, int], ...]] = [((a, 1),) for a in sites]
    found += [((a, 1), (b, 1)) for a, b in combinations(sites, 2)]
    few = len(found)
    found += [((a, 1), (b, -1)) for a, b in combinations(sites, 2)]
    found += [tuple((a, 1) for a in three) for three in combinations(sites, 3)]
    found += [((j, 1),) for j in others]
    found += [((a, 1), (j, sign)) for a in sites for j in others for sign in (1, -1)]
    found += [((a, 1), (b, 1), (j, 1)) for a, b in combinations(sites, 2) for j in others]
    own = len(found)
    found += [((i, 1), (j, 1)) for i, j in combinations(others, 2)]
    two, three = solved(found, 2), solved(found[:own], 3)
    every = {
        "own": [(a, b) for a in sites for b in sites],
        "mixed": [(a, j) for a in sites for j in others],
        "others": [(i, j) for i in others for j in others],
    }
    deep = {
        "own": [(a, b, d) for a in sites for b in sites for d in sites],
        "bent": [(a, b, j) for a in sites for b in sites for j in others],
    }
    return SiteLines(found, few, own, picked(two, every), picked(three, deep))


def solved(lines: list, order: int) -> dict:
    """Each derivative of an order as a combination of the lines' coefficients."""
    terms = sorted({t for line in lines for t in products([p for p, _ in line], order)})
    system = np.zeros((len(lines), len(terms)))
    for i, line in enumerate(lines):
        signs = dict(line)
        for term in products([p for p, _ in line], order):
            value = 1.0
            for p in set(term):
                value *= signs[p] ** term.count(p) / factorial(term.count(p))
            system[i, terms.index(term)] = value
    inverse = np.linalg.pinv(system)
    inverse[np.abs(inverse) < 1e-9] = 0.0
    return dict(zip(terms, inverse, strict=True))


def products(places: list[int], order: int) -> list[tuple[int, ...]]:
    """Products of so many of these coordinates, each in order."""
    if order == 0:
        return [()]
    return [(p, *rest) for i, p in enumerate(places) for rest in products(places[i:], order - 1)]


def picked(known: dict, wanted: dict) -> dict:
    """Matrices, one row for each derivative that is wanted."""
    width = len(next(iter(known.values())))
    return {
        name: np.array([known[tuple(sorted(t))] for t in terms]).reshape(len(terms), width)
        for name, terms in wanted.items()
    }


@jit
def add_by_site(each, site_of, out):
    """Add each row's coefficients along lines to its site's; the last: rows that see none."""
    for i in range(len(site_of)):
        site = site_of[i]
        for degree in range(each.shape[1]):
            for k in range(each.shape[2]):
                out[site, degree, k] += each[i, degree, k]


class SitesByJets(Sites):
    """Sites whose data are differentiated as they stand; their priors by differences."""

    def __init__(self, model, names: tuple[str, ...], ints, floats, seen: np.ndarray):
        """seen: places of continuous values, beside the sites', on which data depend."""
        super().__init__(model, names, ints, floats)
        self.seen, self.lines = seen, lines_between(self.size, len(seen))
        self.wide = np.maximum(1.0, np.abs(floats[seen]))  # units of lines, of these
        self.rows = np.where(self.site_of < 0, self.count, self.site_of)
        self.add = summing(*functions_of(model))

    # ------------------------------------------------------------------------- passes over the data
    def along(self, lines: list, scales: np.ndarray, totals: bool) -> np.ndarray:
        """(lines, 3, sites + 1) coefficients along lines, in units of scales; of all rows (.., 1).

        scales: (sites, k), of each site's values.
        """
        width, found, model = jets_of().LANES, [], self.model
        columns = columns_of(self.variables)
        for low in range(0, len(lines), width):
            some = lines[low : low + width]
            slopes = np.zeros((len(self.floats), width))
            for i, line in enumerate(some):
                for p, sign in line:
                    if p >= self.size:
                        at = p - self.size
                        slopes[self.seen[at], i] = sign * self.wide[at]
                        continue
                    for v in self.variables:
                        a, b = (columns[v.block.name].start, columns[v.block.name].stop)
                        if a <= p < b:
                            part_of(v, slopes[:, i])[p - a :: b - a] = sign * scales[:, p]
            state = pointer_to(on_lines(model, self.ints.copy(), self.floats.copy(), slopes))
            found.append(self.summed_along(state, totals)[: len(some)])
        return np.concatenate(found) if found else np.zeros((0, 3, 1 if totals else self.count + 1))

    def summed_along(self, state, totals: bool) -> np.ndarray:
        """(LANES, 3, sites + 1) of all rows, on so many lines: a pass."""
        size, width, known = self.model.size, jets_of().LANES, dict[int, tuple]()
        out = np.zeros((1 if totals else self.count + 1, 3, width))
        self.passes += 1
        for first in range(0, size, SPAN):
            rows = self.rows[first : first + SPAN]
            if (length := len(rows)) not in known:
                sums = np.zeros((blocks_of(length), 4, width))
                each = np.zeros((0 if totals else length, 3, width))
                asked = AlongLines(state, self.model.data, np.ones(length), sums, each)
                known[length] = chunk_of(self.add, asked), sums, each
            chunk, sums, each = known[length]
            sums[:], each[:] = 0.0, 0.0
            with np.errstate(all="ignore"):
                read_chunk(chunk, first)
            if totals:
                out[0] += sums[:, 1:].sum(axis=0)
            else:
                add_by_site(each, rows, out)
        return out.transpose(2, 1, 0)

    def scales(self, u: np.ndarray) -> np.ndarray:
        """Units of lines, by each site's values: of the size of its standard deviations."""
        return self.steps / STEP * np.abs(self.rates(u)[0]) + 1e-300

    def expand(self, u: np.ndarray) -> Tensors:
        """All derivatives at free coordinates of the sites."""
        self.place(u)
        k, c, lines = self.size, len(self.seen), self.lines
        scale, wide = self.scales(u), self.wide
        own = self.along(lines.lines[: lines.own], scale, totals=False)
        rest = self.along(lines.lines[lines.own :], scale, totals=True)
        n = self.count
        first = own[:k, 0, :n].T / scale

        def derived(matrix, degree, shape):
            return (matrix @ own[:, degree, :n]).T.reshape(n, *shape)

        two, three = lines.two, lines.three
        each = two["own"][:, : lines.own], two["mixed"][:, : lines.own]
        second = derived(each[0], 1, (k, k)) / (scale[:, :, None] * scale[:, None, :])
        mixed = derived(each[1], 1, (k, c)) / (scale[:, :, None] * wide)
        third = derived(three["own"], 2, (k, k, k)) / (
            scale[:, :, None, None] * scale[:, None, :, None] * scale[:, None, None, :]
        )
        bent = derived(three["bent"], 2, (k, k, c)) / (
            scale[:, :, None, None] * scale[:, None, :, None] * wide
        )
        at = [lines.lines.index(((k + j, 1),)) for j in range(c)]
        others = own[at, 0].sum(axis=1) / wide
        curves = np.append(own[:, 1].sum(axis=1), rest[:, 1, 0])
        curved = (two["others"] @ curves).reshape(c, c) / np.outer(wide, wide)
        found = Tensors(first, second, third, mixed, bent, others, curved)
        if not all(np.isfinite(part).all() for part in found):
            raise NotSmoothError("a derivative of log_likelihood is not finite")
        size = np.abs(np.diag(curved))
        self.wide = np.where(size > 0.0, 1.0 / np.sqrt(np.maximum(size, 1e-300)), self.wide)
        return found

    # -------------------------------------------------------------------------- in free coordinates
    def rates(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(dx/du, d2x/du2) of each site's values."""
        one, two = np.ones_like(u), np.zeros_like(u)
        columns = columns_of(self.variables)
        for v in self.variables:
            to, at = v.constraint, columns[v.block.name]
            if to.kind == REAL:
                continue
            flat = np.ascontiguousarray(u[:, at]).ravel()

            def rate(z, to=to):
                x, logs = np.zeros(len(z)), np.zeros(len(z))
                lift_sites(to.kind, to.low, to.high, z.copy(), x, 1, logs)
                return x, np.exp(logs)

            ends = [rate(flat + step * BEND) for step in (-2.0, -1.0, 1.0, 2.0)]
            sign = np.sign(ends[3][0] - ends[0][0])
            narrow, wide = ends[2][1] - ends[1][1], ends[3][1] - ends[0][1]
            one[:, at] = (sign * rate(flat)[1]).reshape(len(u), -1)
            curve = sign * (8.0 * narrow - wide) / (12.0 * BEND)
            two[:, at] = curve.reshape(len(u), -1)
        return one, two

    def in_free(self, u, first, second, own) -> tuple[np.ndarray, np.ndarray]:
        """(gradient, negative Hessian) of each site, from those of its data and its prior."""
        slope, curve = self.rates(u)
        precision = own[1] - slope[:, :, None] * slope[:, None, :] * second
        i = np.arange(self.size)
        precision[:, i, i] -= curve * first
        return own[0] + slope * first, precision

    def own(self, u: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of priors and of log |dx/du| alone, by differences; terms: these at u."""
        at = stencil(self.size)[1:]
        return by_differences([sum(self.place(u + z * self.steps)) - terms for z in at], self.steps)

    def bend(self, u, base, terms) -> tuple[np.ndarray, np.ndarray]:
        """(gradient, negative Hessian) of each site."""
        own = self.own(u, terms)
        self.place(u)
        k, lines, scale = self.size, self.lines, self.scales(u)
        found = self.along(lines.lines[: lines.few], scale, totals=False)[:, :, : self.count]
        first = found[:k, 0].T / scale
        # Of these lines alone: along e_a + e_b, and along both.
        second = np.zeros((self.count, k, k))
        i, j = np.triu_indices(k, 1)
        each = found[:k, 1]
        second[:, np.arange(k), np.arange(k)] = 2.0 * each.T
        second[:, i, j] = second[:, j, i] = (found[k:, 1] - each[i] - each[j]).T
        second /= scale[:, :, None] * scale[:, None, :]
        return self.in_free(u, first, second, own)

    def check_smooth(self, u: np.ndarray) -> None:
        """Raise NotSmoothError where derivatives are not what the function does nearby."""
        base, terms = self.read(u)
        one, two = self.bend(u, base, terms)[1], super().bend(u, base, terms)[1]
        size = np.sqrt(np.abs(np.diagonal(one, axis1=1, axis2=2)))
        apart = np.abs(one - two) / (size[:, :, None] * size[:, None, :] + 1e-300)
        if not apart.max(initial=0.0) < NEAR:
            raise NotSmoothError("log_likelihood is not smooth near the modes of sites")
