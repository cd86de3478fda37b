"""The modes of sites of several factors that are crossed, given all else.

Such as students and lecturers, of whom a datum sees one each: sites of a factor are independent
given those of the others, not given the rest alone. So their precision has a block for each site
and one for each pair of sites that a datum sees, and all of them take Newton's step together.
"""

from math import log, pi
from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.fit.elimination import Eliminated, SiteRows
from subsample_mcmc.approx.fit.sites import (
    CLOSE,
    FIRST,
    LIMIT,
    SHIFT,
    SLACK,
    STEP,
    Settled,
    Sites,
    add_rises,
    apart,
    by_differences,
    columns_of,
    elsewhere,
    place_at,
)
from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.errors import RewardError

CHORDS = 8  # steps with a precision from nearby, before it is made anew
DAMPED = 1e-3  # the part of its diagonal that is added first, where it is not positive definite
DAMPINGS = 12  # ... each ten times the one before
LEAST = 1e-12  # of a step, before a search is given up


class Pairs(NamedTuple):
    """Pairs of sites of two factors that some datum sees."""

    one: int  # which factors
    other: int
    sites: np.ndarray  # (pairs, 2)
    of_rows: np.ndarray  # the pair of each datum; -1: none


class Bent(NamedTuple):
    """The log density around sites: first derivatives, and negative second ones."""

    gradient: np.ndarray  # of all numbers
    own: list  # (sites, k, k) of each factor
    across: list  # (pairs, k, k) of each of two factors

    @property
    def finite(self) -> bool:
        """Are all of them numbers."""
        parts = [self.gradient, *self.own, *self.across]
        return all(bool(np.isfinite(part).all()) for part in parts)


class CrossedSites:
    """All sites of several factors; the rest of the state is what `floats` says.

    Free coordinates are one vector: those of the largest factor's sites, then those of the next.
    """

    def __init__(self, model, factors: list[tuple[str, ...]], ints, floats):
        """factors: names of blocks whose sites are numbered alike, of each; the largest first."""
        self.model, self.ints, self.floats = model, ints, floats
        self.parts = [Sites(model, names, ints, floats) for names in factors]
        self.factors = tuple(factors)
        self.names = tuple(name for names in factors for name in names)
        self.variables = [v for part in self.parts for v in part.variables]
        self.shapes = [(part.count, part.size) for part in self.parts]
        self.ends = np.cumsum([0, *(n * k for n, k in self.shapes)]).tolist()
        self.size = self.ends[-1]
        self.steps = FIRST * np.ones(self.size)
        self.trouble = ""
        self.known: Eliminated | None = None  # a precision from nearby
        self.numbers = [(f, a) for f, (_, k) in enumerate(self.shapes) for a in range(k)]
        self.pairs = [
            self.pairs_of(f, h) for h in range(len(self.parts)) for f in range(h)
        ]  # fmt: skip
        self.pattern = Pattern(self.shapes, self.pairs)

    def pairs_of(self, one: int, other: int) -> Pairs:
        """Pairs of sites of two factors."""
        i, j = self.parts[one].site_of, self.parts[other].site_of
        n = self.shapes[other][0]
        both = (i >= 0) & (j >= 0)
        codes, places = np.unique(i[both] * n + j[both], return_inverse=True)
        of_rows = np.full(len(i), -1, dtype=np.int64)
        of_rows[both] = places
        return Pairs(one, other, np.stack([codes // n, codes % n], axis=1), of_rows)

    @property
    def passes(self) -> int:
        """Times that all data were read."""
        return self.parts[0].passes

    # ------------------------------------------------------------------------- as Sites has them
    def views(self, u: np.ndarray) -> list[np.ndarray]:
        """(sites, k) of each factor, views."""
        ends = zip(self.ends, self.ends[1:], self.shapes, strict=False)
        return [u[a:b].reshape(shape) for a, b, shape in ends]

    def free(self) -> np.ndarray:
        """Free coordinates of the state as it is."""
        return np.concatenate([part.free().ravel() for part in self.parts])

    def place(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Let the state be there: log |dx/du| and the log prior of each site."""
        both = zip(self.parts, self.views(u), strict=True)
        jacobian = np.concatenate([place_at(p.variables, own, self.floats) for p, own in both])
        if not np.all(jacobian > -np.inf):
            return jacobian, np.zeros(len(jacobian))
        return jacobian, np.concatenate([part.prior() for part in self.parts])

    def rest(self, prior: np.ndarray) -> float:
        """The log prior of the state as it is, without that of its sites."""
        return self.parts[0].rest(prior)

    def read(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log likelihood of each datum, log prior + log |dx/du| of each site) there."""
        jacobian, prior = self.place(u)
        with np.errstate(all="ignore"):
            return self.parts[0].read_rows(), jacobian + prior

    # -------------------------------------------------------------------------------- derivatives
    def moved(self, u: np.ndarray, numbers: list[tuple[int, float]]) -> np.ndarray:
        """All sites' numbers, by so many steps."""
        v = u.copy()
        for at, times in numbers:
            f, a = self.numbers[at]
            self.views(v)[f][:, a] += times * self.views(self.steps)[f][:, a]
        return v

    def summed(self, part: int, each, base, own, terms) -> np.ndarray:
        """What each site of a factor gains, by its data and its prior."""
        starts = np.cumsum([0, *(n for n, _ in self.shapes)])
        a, b = starts[part], starts[part + 1]
        found = own[a:b] - terms[a:b]
        add_rises(each, base, self.parts[part].site_of, found)
        return found

    def slope(self, u: np.ndarray, base: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """First derivatives by all numbers."""
        found = np.empty(self.size)
        for at, (f, a) in enumerate(self.numbers):
            up, down = (
                self.summed(f, *self.around(u, [(at, z)], base, terms)) for z in (1.0, -1.0)
            )
            self.views(found)[f][:, a] = 0.5 * (up - down) / self.views(self.steps)[f][:, a]
        return found

    def around(self, u, numbers, base, terms) -> tuple:
        """What `summed` needs, there."""
        each, own = self.read(self.moved(u, numbers))
        return each, base, own, terms

    def bend(self, u: np.ndarray, base: np.ndarray, terms: np.ndarray) -> Bent:
        """Derivatives by all numbers, and by pairs that a datum sees, by differences."""
        points = stencil(len(self.numbers))[1:]
        rises: list[list] = [[] for _ in self.parts]
        # Of each pair, what both numbers of two factors gain less what each does, both ways.
        mixed = [self.room(p) for p in self.pairs]
        for z in points:
            at = np.flatnonzero(z)
            given = self.around(u, [(int(i), float(z[i])) for i in at], base, terms)
            seen = [self.numbers[i] for i in at]
            if len({f for f, _ in seen}) == 1:
                rises[seen[0][0]].append(self.summed(seen[0][0], *given))
            for p, found in zip(self.pairs, mixed, strict=True):
                self.add_pair(p, seen, given[0], base, found)
        gradient, own = np.empty(self.size), []
        for f, part in enumerate(rises):
            slope, precision = by_differences(part, self.views(self.steps)[f])
            self.views(gradient)[f][:] = slope
            own.append(precision)
        steps, across = self.views(self.steps), []
        for p, found in zip(self.pairs, mixed, strict=True):
            one, other = steps[p.one][p.sites[:, 0]], steps[p.other][p.sites[:, 1]]
            across.append(-0.5 * found / (one[:, :, None] * other[:, None, :]))
        return Bent(gradient, own, across)

    def room(self, p: Pairs) -> np.ndarray:
        """(pairs, k, k) zeros."""
        return np.zeros((len(p.sites), self.shapes[p.one][1], self.shapes[p.other][1]))

    def add_pair(self, p: Pairs, seen: list, each, base, out: np.ndarray) -> None:
        """Add what data of each pair gain where numbers of these factors moved."""
        if not {f for f, _ in seen} <= {p.one, p.other}:
            return
        gained = np.zeros(len(p.sites))
        if len(seen) == 1:
            add_rises(each, base, p.of_rows, gained)
            f, a = seen[0]
            view = out[:, a] if f == p.one else out[:, :, a]
            view -= gained[:, None]
        elif seen[0][0] != seen[1][0]:
            add_rises(each, base, p.of_rows, gained)
            (_, a), (_, b) = sorted(seen)
            out[:, a, b] += gained

    # ------------------------------------------------------------------------------------ the mode
    def settle(self, u: np.ndarray, learn: bool, limit: int = LIMIT) -> Settled:
        """The mode, from a start near it; learn: take steps of differences as they find them."""
        nowhere = Settled(u, np.zeros((0, 0, 0)), -np.inf, -np.inf)
        base, terms = self.read(u)
        if not (np.isfinite(base).all() and np.isfinite(terms).all()):
            self.trouble = self.not_finite(base, terms)
            return nowhere
        if self.known is not None and not learn:
            u, base, terms = self.followed(u, base, terms)
        share, coarse = 1.0, learn
        for _ in range(limit):
            bent = self.bend(u, base, terms)
            if not bent.finite:
                if not learn or self.steps.max() < 1e-9:
                    self.trouble = "sites lie at the edge of the support"
                    return nowhere
                self.steps = 0.1 * self.steps  # a step of differences led off the support
                continue
            precision, definite = self.factored(bent)
            if precision is None:
                self.trouble = "the log density bends upwards wherever sites are moved"
                return nowhere
            move = precision.solve(bent.gradient)
            square = float(bent.gradient @ move)
            if learn:
                coarse = self.learn(bent)
            if (self.size * max(square, 0.0)) ** 0.5 <= CLOSE and not coarse:
                break
            v = u + share * move
            each, own = self.read(v)
            gain = np.sum(each - base) + np.sum(own - terms)
            if gain >= -SLACK:  # not, where it is none
                u, base, terms, share = v, each, own, min(1.0, 4.0 * share)
            else:
                share *= 0.25
            if share < LEAST:
                self.trouble = "they have no mode: the log density does not rise along any step"
                return nowhere
        else:
            self.trouble = "they have no mode: the log density still rises"
            return nowhere
        if not definite:
            self.trouble = "some are held by no datum and no prior"
            return nowhere
        if learn:
            self.known = precision
        height = float(base.sum() + terms.sum() + 0.5 * square)
        volume = 0.5 * (self.size * log(2.0 * pi) - precision.log_det)
        return Settled(u, precision, height, height + volume)  # type: ignore[arg-type]

    def followed(self, u: np.ndarray, base: np.ndarray, terms: np.ndarray) -> tuple:
        """Sites nearer to their modes, by the precision from nearby: it is not made anew."""
        assert self.known is not None
        before = np.inf
        for _ in range(CHORDS):
            gradient = self.slope(u, base, terms)
            if not np.isfinite(gradient).all():
                break
            move = self.known.solve(gradient)
            far = (self.size * max(float(gradient @ move), 0.0)) ** 0.5
            if far <= 0.1 * CLOSE or far > 0.5 * before:
                break
            each, own = self.read(u + move)
            if not np.sum(each - base) + np.sum(own - terms) >= -SLACK:
                break
            u, base, terms, before = u + move, each, own, far
        return u, base, terms

    def learn(self, bent: Bent) -> bool:
        """Let steps be a part of each number's standard deviation; were they far from that."""
        diagonal = [np.abs(np.diagonal(own, axis1=1, axis2=2)).ravel() for own in bent.own]
        size = np.concatenate(diagonal)
        # Of steps that rounding swallows, as of a narrower prior before, nothing is seen.
        unseen = np.where(self.steps < FIRST, 1e3 * self.steps, self.steps)
        wide = np.where(size > 0.0, STEP / np.sqrt(np.maximum(size, 1e-300)), unseen)
        far = not np.allclose(wide, self.steps, rtol=0.1)
        self.steps = np.minimum(wide, 1e3 * self.steps)
        return far

    def factored(self, bent: Bent) -> tuple[Eliminated | None, bool]:
        """(the precision, is it positive definite): else what is added to its diagonal makes it."""
        damping = 0.0
        for i in range(DAMPINGS):
            own = bent.own
            if damping:
                own = [block.copy() for block in own]
                for block in own:
                    at = np.arange(block.shape[1])
                    block[:, at, at] += damping * np.abs(block[:, at, at])
            try:
                found = self.pattern.filled(own, bent.across)
                if np.isfinite(found.log_det):
                    return found, not damping
            except np.linalg.LinAlgError:
                pass
            damping = DAMPED * 10.0**i
        return None, False

    # --------------------------------------------------------------------------------- checks
    def columns(self) -> dict[str, tuple[int, slice]]:
        """Which factor's sites each block is of, and which of their numbers."""
        found: dict[str, tuple[int, slice]] = {}
        for f, part in enumerate(self.parts):
            found |= {name: (f, at) for name, at in columns_of(part.variables).items()}
        return found

    def not_finite(self, base: np.ndarray, terms: np.ndarray) -> str:
        """Which log density is none."""
        bad = np.flatnonzero(~np.isfinite(base))
        if len(bad):
            return f"log_likelihood of datum {bad[0]} is {base[bad[0]]}"
        starts = np.cumsum([0, *(n for n, _ in self.shapes)])
        for part, first, last in zip(self.parts, starts, starts[1:], strict=False):
            if told := part.not_finite(np.zeros(0), terms[first:last]):
                return f"{told} of {part.names[0]}"
        return ""

    def check(self) -> None:
        """Refuse data and priors that see sites which they should not: the fit would be wrong.

        Some sites of a factor are changed, then the others: what sees the rest must stay as it is.
        """
        u = self.free()
        base, terms = self.read(u)
        if told := self.not_finite(base, terms):
            raise RewardError(
                f"{told} at the start: start inside the support, by given={{...}}; or correct the "
                "datum."
            )
        start, rng = u, np.random.default_rng(0)
        u, base, terms = elsewhere(self, u, base, terms, rng)
        rest = self.rest(self.place(u)[1])
        for f, part in enumerate(self.parts):
            half = rng.random(part.count) < 0.5
            for some in (half, ~half):
                v = u.copy()
                self.views(v)[f][some] += SHIFT
                each, own = self.read(v)
                part.check_data(each, base, ~some)
                self.check_priors(f, own == terms, ~some)
                if apart(self.rest(self.place(v)[1]), rest, terms):
                    raise ValueError(
                        f"log_prior changes with {' or '.join(map(repr, part.names))}, which has a "
                        "site_prior: take the part with it out of log_prior, and into site_prior."
                    )
        self.place(start)

    def check_priors(self, f: int, same: np.ndarray, still: np.ndarray) -> None:
        """Refuse priors of sites that changed where sites of factor f were, and not their own."""
        starts = np.cumsum([0, *(n for n, _ in self.shapes)])
        for h, part in enumerate(self.parts):
            own = same[starts[h] : starts[h + 1]]
            wrong = np.flatnonzero(~own & still) if h == f else np.flatnonzero(~own)
            if len(wrong):
                changes = "other sites" if h == f else f"sites of {self.parts[f].names[0]!r}"
                raise ValueError(
                    f"site_prior of site {wrong[0]} of {' and '.join(map(repr, part.names))} "
                    f"changes with {changes}: a fit of crossed sites would not see what they have "
                    "in common. Let the likelihood see both, as a sum of effects."
                )


class Pattern:
    """Where the numbers of a precision stand in the matrices that it is made of."""

    def __init__(self, shapes: list[tuple[int, int]], pairs: list[Pairs]):
        self.pairs = pairs
        n, k = shapes[0]
        first = np.cumsum([0, *(count * size for count, size in shapes[1:])])
        self.others = int(first[-1])
        rows, columns = [], []
        rest_rows, rest_columns = [], []
        for (count, size), start in zip(shapes[1:], first, strict=False):
            at = start + np.arange(count * size).reshape(count, size)
            i, j = np.broadcast_arrays(at[:, :, None], at[:, None, :])
            rest_rows.append(i.ravel())
            rest_columns.append(j.ravel())
        for p in pairs:
            size, other = shapes[p.one][1], shapes[p.other][1]
            i = p.sites[:, 0, None] * size + np.arange(size)
            j = first[p.other - 1] + p.sites[:, 1, None] * other + np.arange(other)
            i, j = np.broadcast_arrays(i[:, :, None], j[:, None, :])
            if p.one == 0:
                rows.append(i.ravel())
                columns.append(j.ravel())
            else:
                i = i + first[p.one - 1]
                rest_rows += [i.ravel(), j.ravel()]
                rest_columns += [j.ravel(), i.ravel()]
        row, column = np.concatenate(rows), np.concatenate(columns)
        self.order = np.lexsort((column, row))
        self.indptr = np.searchsorted(row[self.order], np.arange(n * k + 1))
        self.indices = column[self.order]
        self.rest = np.concatenate(rest_rows), np.concatenate(rest_columns)

    def filled(self, own: list, across: list) -> Eliminated:
        """The precision with these blocks."""
        from scipy.sparse import coo_array

        beside = [block.ravel() for p, block in zip(self.pairs, across, strict=True) if p.one == 0]
        rest = [block.ravel() for block in own[1:]]
        for p, block in zip(self.pairs, across, strict=True):
            if p.one:
                rest += [block.ravel(), block.ravel()]
        shape = self.others, self.others
        matrix = coo_array((np.concatenate(rest), self.rest), shape=shape).tocsr()
        data = np.concatenate(beside)[self.order]
        left = SiteRows(matrix.indptr, matrix.indices, matrix.data)
        return Eliminated(own[0], SiteRows(self.indptr, self.indices, data), left)
