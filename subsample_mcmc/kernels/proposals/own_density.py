"""Does a log_density of a user's own belong to what he draws; told by pairs of points.

Points x from a density p, proposals y from them, kept with probability
min(1, p(y) q(x | y) / (p(x) q(y | x))): if proposals have the law q, a pair is as likely as the
same one the other way round. So y - x, its sign and y^2 - x^2 of the pairs that are kept have laws
that are symmetric around 0, and by Hoeffding's inequality a sum of such is above t roots of its sum
of squares with probability exp(-t^2 / 2) at most, whatever these laws are.
"""

import time
from collections.abc import Callable
from math import isfinite, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.target.constraints import REAL, plain_inside
from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.user_functions import plain

ALARM = 1e-9  # probability with which functions that belong together are refused, at most
FIRST = 64  # proposals from the initial state, which tell how long steps are
WIDTHS = (2.0, 8.0)  # sds of p, in steps times the root of their number of coordinates
LOOKS = (1_000, 4_000, 16_000, 64_000)  # points after which sums are looked at, ...
BATCH = 500
SECONDS = 0.8  # ... as far as they take no longer


class LookedAtProposals:
    """A key under which a model keeps the proposals that were looked at, with the blocks' names."""


class ProposedPairs(NamedTuple):
    """Points x and proposals y from them, one a row."""

    u: np.ndarray  # free coordinates of x, from those of the initial state
    v: np.ndarray  # and of y
    said: np.ndarray  # log q(x | y) - log q(y | x), as the user's functions have it
    jacobian: np.ndarray  # log |dy/dv| - log |dx/du|
    ratio: np.ndarray  # log p(y) - log p(x), of values of the blocks
    limit: np.ndarray  # kept if the log of the whole ratio is above it


class Unbalanced(NamedTuple):
    """ProposedPairs that are not as likely the other way round."""

    kept: int
    z: float
    coordinate: int  # -1: the sum of all
    kind: int  # 0 y - x, 1 its sign, 2 y^2 - x^2
    points: int  # of a width, after which it was seen


def check_density(model, blocks: Moved, ends: Callable, proposal, text: str) -> None:
    """Refuse a user's proposal by which the acceptance rule would leave another law as it is.

    Uncompiled, around the initial state, where log_prior allows it; other blocks stand still. What
    a function raises there shows when it runs.

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
            advice = "" if found is None else points.advice(found)
    except Exception:
        return
    if found is not None:
        done.remove(this)
        raise ValueError(told(found, blocks, proposal, text) + advice)


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
    )[found.kind]
    which = "" if found.coordinate < 0 else f", number {found.coordinate} of them"
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
        self.real = all(v.constraint.kind == REAL for v in blocks.variables)
        self.centre = blocks.free_at(self.x)
        self.step = self.usual_step()

    def usual_step(self) -> np.ndarray:
        """How far proposals from the initial state go, in each free coordinate."""
        rng, initial, found = np.random.default_rng(1), self.x.copy(), []
        for _ in range(FIRST):
            self.y[:] = initial
            self.draw(rng, self.ends.current, self.ends.out)
            if self.is_inside(self.y):
                found.append(self.blocks.free_at(self.y) - self.centre)
        usual = 0.1 * np.maximum(1.0, np.abs(self.centre))
        if not found:
            return usual
        away = np.abs(found)
        # The median, which a few long ones do not move; of coordinates that rarely move, the mean.
        typical = np.median(away, axis=0)
        typical = np.where(typical > 0.0, 1.5 * typical, np.mean(away, axis=0))
        return np.where((typical > 0.0) & np.isfinite(typical), typical, usual)

    def is_inside(self, values: np.ndarray) -> bool:
        """Are all numbers finite, and do the blocks of a candidate lie in their sets."""
        return bool(np.isfinite(values).all()) and all(
            plain_inside(v.constraint.kind, v.constraint.low, v.constraint.high, values[c:d])
            for v, (_, _, c, d) in zip(self.blocks.variables, self.blocks.ends, strict=True)
        )

    def is_allowed(self, which: int) -> bool:
        """Has x, 0, or y, 1, a prior density."""
        prior = self.model.log_prior
        return prior is None or isfinite(prior(self.states[which]))

    def placed(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates at free coordinates, one a row, and log |dx/du| of each."""
        x, jacobian = np.tile(self.x, (len(u), 1)), np.zeros(len(u))
        if self.real:
            for a, b, c, d in self.blocks.ends:
                x[:, c:d] = u[:, a:b]
        else:
            jacobian[:] = [self.blocks.blocks_at(*row) for row in zip(u, x, strict=True)]
        return x, jacobian

    def pairs(self, width: float, count: int, rng: np.random.Generator) -> ProposedPairs:
        """Proposals from `count` points, without those that have no density."""
        size = len(self.centre)
        scale = width * sqrt(size) * self.step
        u, limit = scale * rng.standard_normal((count, size)), np.log(1.0 - rng.random(count))
        (x, here), current, out = self.placed(self.centre + u), self.ends.current, self.ends.out
        y, said, rows = np.zeros_like(x), np.zeros(count), []
        for i in np.flatnonzero(np.isfinite(here)):
            self.x[:] = x[i]
            if not (self.real or self.is_inside(self.x)) or not self.is_allowed(0):
                continue
            self.y[:] = x[i]
            self.draw(rng, current, out)
            if not self.is_inside(self.y) or not self.is_allowed(1):
                continue
            if self.density is not None:
                said[i] = self.density(current, out) - self.density(out, current)
            y[i] = self.y
            rows.append(i)
        u, x, y = u[rows], x[rows], y[rows]
        if self.real:
            v, there = np.empty_like(u), np.zeros(len(rows))
            for a, b, c, d in self.blocks.ends:
                v[:, a:b] = y[:, c:d]
        else:
            v = np.array([self.blocks.free_at(row) for row in y]).reshape(u.shape)
            there = self.placed(v)[1]
        v -= self.centre
        jacobian = there - here[rows]
        far = 0.5 * (((u / scale) ** 2).sum(1) - ((v / scale) ** 2).sum(1))
        return ProposedPairs(u, v, said[rows], jacobian, far - jacobian, limit[rows])

    def unbalanced(
        self, ratio: Callable[[ProposedPairs], Any], points: int = 0
    ) -> Unbalanced | None:
        """What accepted steps by a ratio do that they would not by the right one.

        points: see so many of each width, however long they take.
        """
        begun, looks = time.monotonic(), len(LOOKS) * len(WIDTHS)
        most = sqrt(2.0 * log(2.0 * 3 * (len(self.centre) + 1) * looks / ALARM))
        walks = [(width, np.random.default_rng(2), SymmetricSums(self.step)) for width in WIDTHS]
        for before, now in zip((0, *LOOKS), LOOKS, strict=False):
            if before >= points > 0:
                return None
            for walk in list(walks):
                width, rng, sums = walk
                for _ in range(before, now, BATCH):
                    if not points and time.monotonic() - begun > SECONDS:
                        return None
                    try:
                        pairs = self.pairs(width, BATCH, rng)
                    except Exception:  # of the user's functions, so far from the initial state
                        walks.remove(walk)
                        break
                    sums.add(pairs, ratio(pairs))
                else:
                    if abs((worst := sums.worst(now)).z) > most:
                        return worst
        return None

    def advice(self, found: Unbalanced) -> str:
        """What to write instead, where a usual mistake would explain all."""
        as_many = found.points
        if self.density is not None:
            if self.unbalanced(lambda pairs: -pairs.said, as_many) is None:
                return "Its arguments seem to be swapped: the first is where draw went."
        elif not self.real and self.unbalanced(lambda pairs: pairs.jacobian, as_many) is None:
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
    """SymmetricSums over accepted pairs of what is as likely up as down."""

    def __init__(self, step: np.ndarray):
        self.step, self.kept = step, 0
        self.total, self.squares = np.zeros((2, 3, len(step) + 1))

    def add(self, pairs: ProposedPairs, ratio: np.ndarray) -> None:
        """Those of some more that are kept."""
        kept = ratio + pairs.ratio > pairs.limit
        self.kept += int(kept.sum())
        u, v = pairs.u[kept] / self.step, pairs.v[kept] / self.step
        for kind, found in enumerate((v - u, np.sign(v - u), v * v - u * u)):
            each = np.column_stack([found, found.sum(1)])
            self.total[kind] += each.sum(0)
            self.squares[kind] += (each * each).sum(0)

    def worst(self, points: int = 0) -> Unbalanced:
        """The sum that is farthest from 0, in roots of its sum of squares."""
        z = self.total / np.sqrt(np.maximum(self.squares, 1e-300))
        z = np.where(np.isfinite(z), z, 0.0)
        kind, at = divmod(int(np.argmax(np.abs(z))), z.shape[1])
        each = at if 1 < len(self.step) != at else -1
        return Unbalanced(self.kept, float(z[kind, at]), each, kind, points)
