"""Does a log_density of a user's own belong to what he draws; told by pairs of points.

Points x from a density p, proposals y from them, kept with probability
min(1, p(y) q(x | y) / (p(x) q(y | x))): if proposals have the law q, a pair is as likely as the
same one the other way round. So y - x, its sign and y^2 - x^2 of the pairs that are kept have laws
that are symmetric around 0, and by Hoeffding's inequality a sum of such is above t roots of its sum
of squares with probability exp(-t^2 / 2) at most, whatever these laws are. So are those of the
pairs with both ends in any set.
"""

import time
from collections.abc import Callable
from math import isfinite, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.target.constraints import LOG, REAL, plain_inside
from subsample_mcmc.target.moved import Moved, block_at, free_at
from subsample_mcmc.target.user_functions import plain

ALARM = 1e-7  # probability with which functions that belong together are refused, at most
FIRST = 256  # proposals from the initial state, which tell how long steps are
FEWEST = 4  # of these and the next, however long they take
WALKED = 20_000  # proposals at most, each from the one before, which tell where chains may go
WIDTHS = (2.0, 8.0)  # sds of p, in steps times the root of their number of coordinates
LOOKS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)  # points after which sums are looked at
BATCH = 500
SECONDS = 1.5  # of the processor that they may take; what there is then is looked at, too
TINY = 1e-7  # of a step: what has moved less has not moved, but was rounded
ERRORS = (ArithmeticError, ValueError)  # which users' functions raise where they have no value


class LookedAtProposals:
    """A key under which a model keeps the proposals that were looked at, with the blocks' names."""


class ProposedPairs(NamedTuple):
    """Points x and proposals y from them, one a row."""

    x: np.ndarray
    y: np.ndarray
    u: np.ndarray  # free coordinates of x, from those of the initial state
    v: np.ndarray  # and of y
    said: np.ndarray  # log q(x | y) - log q(y | x), as the user's functions have it
    jacobian: np.ndarray  # log |dy/dv| - log |dx/du|
    ratio: np.ndarray  # log p(y) - log p(x), of values of the blocks
    limit: np.ndarray  # kept if the log of the whole ratio is above it


class Unbalanced(NamedTuple):
    """Pairs that are not as likely the other way round."""

    kept: int
    z: float
    coordinate: int  # -1: the sum of all
    kind: int  # as in SymmetricSums.add
    points: int  # of a width, after which it was seen


def check_density(model, blocks: Moved, ends: Callable, proposal, text: str) -> None:
    """Refuse a user's proposal by which the acceptance rule would leave another law as it is.

    Uncompiled, around the initial state, where log_prior allows it and proposals go; other blocks
    stand still. Real numbers may have a set of their own that nobody declared, as a lattice: where
    it is they that are not right, that is a warning. What a function raises shows when it runs.

    ends: (floats, a candidate) -> what the functions read and write; text: the kernel's name.
    """
    done = model.prepared.setdefault(LookedAtProposals, set())
    this = (blocks.names, proposal.draw, proposal.log_density)
    if this in done:
        return
    done.add(this)
    try:
        with np.errstate(all="ignore"):
            points = Points(model, blocks, ends, proposal)
            found = points.unbalanced(said)
            if found is not None:
                points.look_closer(found)
                found = points.unbalanced(said)
            advice = "" if found is None else points.advice(found)
    except Exception:
        return
    if found is None:
        return
    message = told(found, blocks, proposal, text) + advice
    if points.is_real(found):
        warn(
            f"{message} If {' and '.join(blocks.names)} take no other values than some, as of a "
            "lattice or a circle, that is not seen here: compare a run with a posterior you know."
        )
        return
    done.remove(this)
    raise ValueError(message)


def told(found: Unbalanced, blocks: Moved, proposal, text: str) -> str:
    """What was seen, in words."""
    if proposal.log_density is None:
        what = "draw(rng, current, out) is not symmetric, and has no log_density"
    else:
        what = "log_density(to, given) is not that of draw(rng, current, out)"
    up = found.z > 0.0
    how = (
        f"{'up' if up else 'down'} on average",
        f"{'up' if up else 'down'} more often than {'down' if up else 'up'}",
        f"{'away from' if up else 'towards'} its centre",
        f"{'with' if up else 'against'} each other",
        "around the centre one way more than the other",
    )[found.kind]
    which = "" if found.coordinate < 0 else f", number {found.coordinate} of them"
    which += " and the next" if found.coordinate >= 0 and found.kind > 2 else ""
    return (
        f"{text}: {what}. In a trial, with a Gaussian around the initial state for the posterior, "
        f"{found.kept:,} accepted steps from draws of that Gaussian went {how} (free coordinates "
        f"{blocks.text()}{which}; z = {found.z:.1f}); those of a right proposal go neither way. "
    )


class Points:
    """Points around the initial state, and a user's proposals from them."""

    def __init__(self, model, blocks: Moved, ends: Callable, proposal):
        self.model, self.blocks = model, blocks
        self.draw = plain(proposal.draw, "proposal[0]", "draw(rng, current, out)")
        self.density = proposal.log_density and plain(
            proposal.log_density, "proposal[1]", "log_density(to, given) -> float"
        )
        floats, others = model.floats.copy(), model.floats.copy()
        self.x, self.y = blocks.of(floats), blocks.of(others)
        self.ends = ends(floats, self.y)
        self.states = [model.state(model.ints.copy(), held) for held in (floats, others)]
        self.parts = list(zip(blocks.variables, blocks.ends, strict=True))
        self.low, self.high = (np.full(len(self.x), end) for end in (-np.inf, np.inf))
        for v, (_, _, c, d) in self.parts:
            if not v.constraint.together:
                self.low[c:d], self.high[c:d] = v.constraint.low, v.constraint.high
        self.ranges = list(zip(self.low.tolist(), self.high.tolist(), strict=True))
        self.together = [
            (v.constraint, c, d) for v, (_, _, c, d) in self.parts if v.constraint.together
        ]
        self.initial = self.x.copy()
        self.centre = self.coordinates(self.x[None])[0]
        self.among: tuple[Any, Any] = (-np.inf, np.inf)  # the pairs that count
        self.prior, self.seconds = None, SECONDS
        self.step = self.usual_step()

    # -------------------------------------------------------------------- where points stand
    def is_inside(self, values: np.ndarray) -> bool:
        """Are all numbers finite, and do the blocks of a candidate lie in their sets."""
        for value, (low, high) in zip(values.tolist(), self.ranges, strict=True):
            if not low < value < high:  # of few numbers, sooner than comparing arrays
                return False
        return all(
            plain_inside(constraint.kind, constraint.low, constraint.high, values[c:d])
            for constraint, c, d in self.together
        )

    def are_inside(self, values: np.ndarray) -> np.ndarray:
        """The same of many candidates, one a row."""
        found = np.all((values > self.low) & (values < self.high), axis=1)
        if self.together:
            found[found] = [self.is_inside(row) for row in values[found]]
        return found

    def is_allowed(self, which: int) -> bool:
        """Has x, 0, or y, 1, a prior density."""
        try:
            return self.prior is None or isfinite(self.prior(self.states[which]))
        except ERRORS:
            return False

    def placed(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates at free coordinates, one a row, and log |dx/du| of each.

        As Moved.blocks_at, but for all rows at once where that can be: else it takes most of the
        time, and fewer points are seen.
        """
        x, jacobian = np.tile(self.initial, (len(u), 1)), np.zeros(len(u))
        for v, (a, b, c, d) in self.parts:
            kind, low, high = v.constraint.kind, v.constraint.low, v.constraint.high
            if kind == REAL:
                x[:, c:d] = u[:, a:b]
            elif kind == LOG:
                x[:, c:d] = np.exp(u[:, a:b])
                jacobian += u[:, a:b].sum(1)
            else:
                jacobian += [
                    block_at(kind, low, high, own, place)
                    for own, place in zip(u[:, a:b], x[:, c:d], strict=True)
                ]
        return x, jacobian

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """The inverse of placed()."""
        u = np.zeros((len(x), self.blocks.free))
        for v, (a, b, c, d) in self.parts:
            kind, low, high = v.constraint.kind, v.constraint.low, v.constraint.high
            if kind == REAL:
                u[:, a:b] = x[:, c:d]
            elif kind == LOG:
                u[:, a:b] = np.log(x[:, c:d])
            else:
                for place, own in zip(x[:, c:d], u[:, a:b], strict=True):
                    free_at(kind, low, high, place, own)
        return u

    def proposed(self, rng: np.random.Generator, x: np.ndarray) -> bool:
        """Propose from x, which is where y is then; is that in its set, and allowed."""
        self.x[:] = self.y[:] = x
        self.draw(rng, self.ends.current, self.ends.out)
        return self.is_inside(self.y) and self.is_allowed(1)

    # ------------------------------------------------------------------- what proposals are like
    def usual_step(self) -> np.ndarray:
        """How far proposals from the initial state go, in each free coordinate that moves."""
        rng, end, reached = np.random.default_rng(1), time.thread_time() + 0.2 * SECONDS, []
        for number in range(FIRST):
            if self.proposed(rng, self.initial):
                reached.append(self.y.copy())
            if number >= FEWEST and time.thread_time() > end:
                break
        away = np.abs(self.coordinates(np.array([self.initial, *reached]))[1:] - self.centre)
        least = 1e-9 * np.maximum(1.0, np.abs(self.centre))
        least[self.of_real()] = 1e-9 * np.abs(self.centre)[self.of_real()]
        step = 0.1 * np.maximum(1.0, np.abs(self.centre))
        for j, far in enumerate(away.T):
            moved = far[np.isfinite(far) & (far > least[j])]
            if len(moved):
                step[j] = np.quantile(moved, 0.9) / 1.64  # a normal law's deviation
        return step

    def of_real(self) -> np.ndarray:
        """Which free coordinates are real numbers as they stand."""
        found = np.zeros(self.blocks.free, dtype=bool)
        for v, (a, b, _, _) in self.parts:
            found[a:b] = v.constraint.kind == REAL
        return found

    def look_closer(self, found: Unbalanced) -> None:
        """Only where log_prior is finite, which takes its time; real numbers, where they may go."""
        self.prior, self.seconds = self.model.log_prior, 2.0 * SECONDS
        if self.is_real(found):
            self.among = self.reached()

    def is_real(self, found: Unbalanced) -> bool:
        """Is it real numbers that are unbalanced, or among those that are."""
        real = self.of_real()
        alone = found.coordinate >= 0 and found.kind < 3
        return bool(real[found.coordinate] if alone else real.any())

    def reached(self) -> tuple[np.ndarray, np.ndarray]:
        """Between which values proposals go, each from the one before."""
        rng, at = np.random.default_rng(3), self.initial.copy()
        end, low, high = time.thread_time() + 0.5 * SECONDS, at.copy(), at.copy()
        for number in range(WALKED):
            if self.proposed(rng, at):
                at[:] = self.y
                np.minimum(low, at, out=low)
                np.maximum(high, at, out=high)
            if number >= FEWEST and time.thread_time() > end:
                break
        return low, high

    def pairs(self, width: float, count: int, rng: np.random.Generator, end=np.inf):
        """Proposals from `count` points, without those that have no density: ProposedPairs.

        end: of the time of the processor, after which no more are made.
        """
        scale = width * sqrt(len(self.centre)) * self.step
        u = scale * rng.standard_normal((count, len(scale)))
        limit = np.log(1.0 - rng.random(count))
        x, here = self.placed(self.centre + u)
        y, said, rows = np.zeros_like(x), np.zeros(count), []
        for i in np.flatnonzero(np.isfinite(here) & self.are_inside(x)).tolist():
            if time.thread_time() > end:
                break
            self.x[:] = x[i]
            if not (self.is_allowed(0) and self.proposed(rng, x[i])):
                continue
            if self.density is not None:
                current, out = self.ends.current, self.ends.out
                try:  # asked both ways: what has no value has none the other way round, either
                    said[i] = self.density(current, out) - self.density(out, current)
                except ERRORS:
                    continue
            y[i] = self.y
            rows.append(i)
        x, y = x[rows], y[rows]
        u, v = self.coordinates(x) - self.centre, self.coordinates(y) - self.centre
        jacobian = self.placed(self.centre + v)[1] - here[rows]
        far = 0.5 * (((u / scale) ** 2).sum(1) - ((v / scale) ** 2).sum(1))
        return ProposedPairs(x, y, u, v, said[rows], jacobian, far - jacobian, limit[rows])

    def unbalanced(
        self, ratio: Callable[[ProposedPairs], Any], points: int = 0
    ) -> Unbalanced | None:
        """What accepted steps by a ratio do that they would not by the right one.

        points: of each width, after which no more are made; `seen` are those that were.
        """
        self.seen, end = 0, time.thread_time() + self.seconds
        looks = (len(LOOKS) + 1) * len(WIDTHS)
        most = sqrt(2.0 * log(2.0 * SymmetricSums(self.step).count * looks / ALARM))
        walks = [(width, np.random.default_rng(2), SymmetricSums(self.step)) for width in WIDTHS]
        for before, now in zip((0, *LOOKS), LOOKS, strict=False):
            if before >= points > 0 or time.thread_time() > end:
                return None
            for walk in list(walks):
                width, rng, sums = walk
                for _ in range(before, now, BATCH):
                    try:
                        pairs = self.pairs(width, BATCH, rng, end)
                    except Exception:  # of draw, so far from the initial state
                        walks.remove(walk)
                        break
                    sums.add(pairs, ratio(pairs), self.among)
                if abs((worst := sums.worst(now)).z) > most:
                    return worst
            self.seen = now if time.thread_time() < end else before
        return None

    def advice(self, found: Unbalanced) -> str:
        """What to write instead, where a usual mistake would explain all."""
        as_many = min(4 * found.points, LOOKS[-1])  # it has to do well where this does badly

        def explains(ratio: Callable[[ProposedPairs], Any]) -> bool:
            return self.unbalanced(ratio, as_many) is None and self.seen >= as_many

        if self.density is not None:
            if explains(lambda pairs: -pairs.said):
                return "Its arguments seem to be swapped: the first is where draw went."
        elif not self.of_real().all() and explains(lambda pairs: pairs.jacobian):
            return (
                "It seems to be symmetric in free coordinates, which log_density must tell: of "
                "out[0] = current[0] * exp(s * rng.standard_normal()) it is "
                "-0.5 * ((log(to[0]) - log(given[0])) / s) ** 2 - log(to[0]). Give (draw, "
                "log_density), or leave proposal out: sm.Metropolis walks so by itself."
            )
        return (
            "Give proposal=(draw, log_density): log_density(to, given) is the log density of what "
            "draw(rng, given, out) writes, at to, with every term that depends on either."
        )


def said(pairs: ProposedPairs) -> np.ndarray:
    """The ratio as the user's functions have it."""
    return pairs.said


class SymmetricSums:
    """Sums over accepted pairs of what is as likely up as down."""

    def __init__(self, step: np.ndarray):
        size = len(step)
        self.step, self.kept, self.count = step, 0, 3 * (size + 1) + 2 * size * (size > 1)
        self.total, self.squares = np.zeros((2, 5, size + 1))

    def add(self, pairs: ProposedPairs, ratio: np.ndarray, among: tuple) -> None:
        """Those of some more that are kept, and have both ends between two points."""
        low, high = among
        within = (np.minimum(pairs.x, pairs.y) >= low) & (np.maximum(pairs.x, pairs.y) <= high)
        kept = (ratio + pairs.ratio > pairs.limit) & within.all(1)
        self.kept += int(kept.sum())
        u, v = pairs.u[kept] / self.step, pairs.v[kept] / self.step
        moves = v - u
        moves[np.abs(moves) < TINY] = 0.0
        one, other = u[:, :-1], u[:, 1:]
        first, second = moves[:, :-1], moves[:, 1:]
        for kind, found in enumerate((
            moves, np.sign(moves), moves * (v + u),
            first * other + one * second + first * second,  # products of two, after and before
            one * second - other * first,  # how far two turn around the centre
        )):  # fmt: skip
            many = found.shape[1]
            each = np.column_stack([found, found.sum(1)])
            self.total[kind, : many + 1] += each.sum(0)
            self.squares[kind, : many + 1] += (each * each).sum(0)

    def worst(self, points: int = 0) -> Unbalanced:
        """The sum that is farthest from 0, in roots of its sum of squares."""
        z = self.total / np.sqrt(np.maximum(self.squares, 1e-300))
        z = np.where(np.isfinite(z), z, 0.0)
        kind, at = divmod(int(np.argmax(np.abs(z))), z.shape[1])
        many = len(self.step) - (kind > 2)
        return Unbalanced(self.kept, float(z[kind, at]), at if 1 < many != at else -1, kind, points)
