"""The modes of many sites, each of which sees data and a prior of its own, given all else.

Given the rest of the state sites are independent: their Hessian is one small block for each. So
all of them take a Newton step at once. All sites are shifted together, which is one pass over the
data, and sums over each site's data say what each of them gains.
"""

from math import log, pi
from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.decisions.compared import ask_prior_of_state
from subsample_mcmc.errors import RewardError
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_numbers, pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.constraints import REAL, ROOTS, to_block, to_free
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.rewards import new_memory, rewards_of, trial_of
from subsample_mcmc.target.user_functions import AskedPrior, prior_by_address

ROWS = 8192  # read at a time
STEP = 0.01  # of differences, in standard deviations of a site given all else
FIRST = 1e-3  # ... before these are known, of numbers of the size of 1
LIMIT = 100  # Newton steps
# Distances of all sites from their modes, added up, in standard deviations: what may be left. So
# much less than a difference of their marginal density is the error of its log determinants.
CLOSE = 1e-5
SLACK = 1e-7  # nats that a step may lose by rounding
SHIFT = 0.1  # of free coordinates, where sites are asked whether they see others
NONE = Block("none", False, (0,), 0)


@jit
def lift_sites(kind, low, high, u, x, width, out):
    """Write values of free coordinates; add log |dx/du| of each site's to out."""
    for i in range(len(u)):
        out[i // width] += to_block(kind, low, high, u[i : i + 1], x[i : i + 1])


@jit
def free_sites(kind, low, high, x, u):
    """Write free coordinates of values."""
    to_free(kind, low, high, x, u)


@jit
def add_priors(asked, out):
    """Add the log prior of each site."""
    for site in range(len(out)):
        out[site] += call_numbers(asked.read, asked.context, site, 0)


@jit
def add_rises(each, base, site_of, out):
    """Add to each site what its data gain: row by row, as totals would cancel."""
    for n in range(len(each)):
        if site_of[n] >= 0:
            out[site_of[n]] += each[n] - base[n]


@jit
def go_on(each, site_of, good, base):
    """Let base be what it is now, but for the data of sites that stay."""
    for n in range(len(each)):
        if site_of[n] < 0 or good[site_of[n]]:
            base[n] = each[n]


class Settled(NamedTuple):
    """All sites at their modes, given the rest of the state."""

    u: np.ndarray  # (sites, k) free coordinates
    precision: np.ndarray  # (sites, k, k) the negative Hessians
    height: float  # log likelihood + priors of sites + log |dx/du| at the modes
    integral: float  # log of its integral over all sites, by Laplace's approximation

    @property
    def usable(self) -> bool:
        """Is there a mode of each site."""
        return bool(np.isfinite(self.integral))


def columns_of(variables) -> dict[str, slice]:
    """Which numbers of a site are each block's: theirs one after the other."""
    ends = np.cumsum([0, *(v.block.length // v.sites for v in variables)]).tolist()
    return {v.block.name: slice(*ends[i : i + 2]) for i, v in enumerate(variables)}


def part_of(v, floats: np.ndarray) -> np.ndarray:
    """A view: the values of a block."""
    return floats[v.block.start : v.block.start + v.block.length]


def free_of(variables, floats: np.ndarray) -> np.ndarray:
    """(sites, k) free coordinates."""
    found = []
    for v in variables:
        to, own = v.constraint, np.zeros(v.block.length)
        free_sites(to.kind, to.low, to.high, part_of(v, floats), own)
        found.append(own.reshape(v.sites, -1))
    return np.concatenate(found, axis=1)


def place_at(variables, u: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Write the values of free coordinates; log |dx/du| of each site."""
    jacobian, columns = np.zeros(len(u)), columns_of(variables)
    with np.errstate(all="ignore"):
        for v in variables:
            to, at = v.constraint, columns[v.block.name]
            own, width = np.ascontiguousarray(u[:, at]).ravel(), at.stop - at.start
            if to.kind == REAL:
                part_of(v, floats)[:] = own
                continue
            lift_sites(to.kind, to.low, to.high, own, part_of(v, floats), width, jacobian)
    return jacobian


def sites_of_rows(model, name: str) -> np.ndarray:
    """The site of a block that each datum sees, or -1: none."""
    indptr, indices = model.variables[name].touches
    sites = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    if len(indices) and np.bincount(indices).max() > 1:
        n = int(np.argmax(np.bincount(indices)))
        seen = ", ".join(f"{name}[{site}]" for site in sites[indices == n][:3])
        raise ValueError(
            f"datum {n} sees {seen}: the sites of {name!r} are not independent given the rest, and "
            "a fit site by site would not see what they have in common. Hold the block, by fitting "
            "the others."
        )
    found = np.full(model.size, -1, dtype=np.int64)
    found[indices] = sites
    return found


class Sites:
    """All sites of some blocks, numbered alike; the rest of the state is what `floats` says."""

    def __init__(self, model, names: tuple[str, ...], ints: np.ndarray, floats: np.ndarray):
        self.model, self.names, self.ints, self.floats = model, names, ints, floats
        self.variables = [model.variables[name] for name in names]
        self.count = self.variables[0].sites
        self.site_of = sites_of_rows(model, names[0])
        self.size = sum(v.block.length // v.sites for v in self.variables)
        self.steps = FIRST * np.ones((self.count, self.size))
        self.passes, self.trouble = 0, ""
        for v in self.variables:
            if v.constraint.kind in ROOTS:
                raise ValueError(
                    f"block {v.block.name!r} is {v.constraint!r}, whose coordinates end at 0, "
                    "where a Gaussian of each site does not: give sm.positive."
                )
        trial = trial_of(model, ints, floats, new_memory(model), NONE, 1, None, ())
        context = trial.calls.context
        self.trial = pointer_to(trial)
        self.priors = [
            pointer_to(AskedPrior(prior_by_address(model.site_prior[n], context), context))
            for n in names
        ]

    def free(self) -> np.ndarray:
        """Free coordinates of the state as it is."""
        return free_of(self.variables, self.floats)

    def place(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Let the state be there: log |dx/du| and the log prior of each site."""
        jacobian, prior = place_at(self.variables, u, self.floats), np.zeros(self.count)
        return jacobian, self.prior() if np.all(jacobian > -np.inf) else prior

    def prior(self) -> np.ndarray:
        """The log prior of each site, as the state is."""
        found = np.zeros(self.count)
        with np.errstate(all="ignore"):
            for asked in self.priors:
                add_priors(asked, found)
        return found

    def rest(self, prior: np.ndarray) -> float:
        """The log prior of the state as it is, without that of its sites."""
        whole = np.zeros(1)
        with np.errstate(all="ignore"):
            ask_prior_of_state(self.trial, whole)
            return float(whole[0]) - float(prior.sum())

    def read(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log likelihood of each datum, log prior + log |dx/du| of each site) there."""
        jacobian, prior = self.place(u)
        with np.errstate(all="ignore"):
            return self.read_rows(), jacobian + prior

    def read_rows(self) -> np.ndarray:
        """The log likelihood of each datum, as the state is."""
        each, size = np.empty(self.model.size), self.model.size
        self.passes += 1
        for first in range(0, size, ROWS):
            last = min(first + ROWS, size)
            rows = np.arange(first, last, dtype=row_kind(size))
            rewards_of(self.trial, 0, rows, each[first:last])
        return each

    def rise(self, u, base, terms) -> np.ndarray:
        """By how much the log density of each site's part is above another's there."""
        each, own = self.read(u)
        return self.summed(each, base) + own - terms

    def summed(self, each: np.ndarray, base: np.ndarray) -> np.ndarray:
        """What the data of each site gain over others."""
        found = np.zeros(self.count)
        add_rises(each, base, self.site_of, found)
        return found

    def bend(self, u, base, terms) -> tuple[np.ndarray, np.ndarray]:
        """(gradient, negative Hessian) of each site, by differences."""
        at = stencil(self.size)[1:]
        return by_differences([self.rise(u + z * self.steps, base, terms) for z in at], self.steps)

    def settle(self, u: np.ndarray, learn: bool, limit: int = LIMIT) -> Settled:
        """The modes, from a start near them; learn: take steps of differences as they find them.

        limit: of Newton steps. Each site's is shortened where it does not rise.
        """
        nowhere = Settled(u, np.zeros((self.count, self.size, self.size)), -np.inf, -np.inf)
        base, terms = self.read(u)
        if not (np.isfinite(base).all() and np.isfinite(terms).all()):
            self.trouble = self.not_finite(base, terms)
            return nowhere
        share, coarse = np.ones(self.count), learn
        for _ in range(limit):
            gradient, precision = self.bend(u, base, terms)
            if not (np.isfinite(gradient).all() and np.isfinite(precision).all()):
                if not learn or self.steps.max() < 1e-9:
                    self.trouble = "sites lie at the edge of the support"
                    return nowhere
                self.steps *= 0.1  # a step of differences led off the support
                continue
            move, definite = newton(gradient, precision)
            square = np.sum(gradient * move, axis=1)
            if learn:
                bent = np.abs(np.diagonal(precision, axis1=1, axis2=2))
                # Of steps that rounding swallows, as of a narrower prior before, nothing is seen.
                unseen = np.where(self.steps < FIRST, 1e3 * self.steps, self.steps)
                wide = np.where(bent > 0.0, STEP / np.sqrt(np.maximum(bent, 1e-300)), unseen)
                close = np.allclose(wide, self.steps, rtol=0.1)
                self.steps, coarse = np.minimum(wide, 1e3 * self.steps), not close
            if np.sqrt(np.maximum(square, 0.0)).sum() <= CLOSE and not coarse:
                break
            v = u + share[:, None] * move
            each, own = self.read(v)
            good = self.summed(each, base) + own - terms >= -SLACK  # not, where it is none
            u, terms = np.where(good[:, None], v, u), np.where(good, own, terms)
            go_on(each, self.site_of, good, base)
            share = np.where(good, np.minimum(1.0, 4.0 * share), 0.25 * share)
        else:
            site = int(np.argmax(square))
            self.trouble = f"{self.names[0]}[{site}] has no mode: its log density still rises"
            return nowhere
        if not definite:
            low = np.linalg.eigvalsh(precision).min(axis=1)
            self.trouble = (
                f"{self.names[0]}[{int(np.argmin(low))}] is held by no datum and no prior"
            )
            return nowhere
        logs = np.linalg.slogdet(precision)[1]
        height = float(base.sum() + terms.sum() + 0.5 * square.sum())
        volume = 0.5 * (self.count * self.size * log(2.0 * pi) - float(logs.sum()))
        return Settled(u, precision, height, height + volume)

    # --------------------------------------------------------------------------------- checks
    def not_finite(self, base: np.ndarray, terms: np.ndarray) -> str:
        """Which log density is none."""
        for found, what in ((base, "log_likelihood of datum"), (terms, "site_prior of site")):
            bad = np.flatnonzero(~np.isfinite(found))
            if len(bad):
                return f"{what} {bad[0]} is {found[bad[0]]}"
        return ""

    def check(self) -> None:
        """Refuse data and priors that see sites which they should not: the fit would be wrong.

        Some of the sites are changed, then the others: what sees the rest must stay as it is.
        """
        u = self.free()
        base, terms = self.read(u)
        if self.not_finite(base, terms):
            raise RewardError(
                f"{self.not_finite(base, terms)} at the start: start inside the support, by "
                "given={...}; or correct the datum."
            )
        start, rng = u, np.random.default_rng(0)
        half = rng.random(self.count) < 0.5
        u, base, terms = elsewhere(self, u, base, terms, rng)
        rest = self.rest(self.place(u)[1])
        for some in (half, ~half):
            each, own = self.read(np.where(some[:, None], u + SHIFT, u))
            self.check_data(each, base, ~some)
            wrong = ~some & (own != terms)
            if wrong.any():
                raise ValueError(
                    f"site_prior of site {int(np.argmax(wrong))} of "
                    f"{' and '.join(map(repr, self.names))} changes with other sites: a fit site "
                    "by site would not see what they have in common."
                )
            if apart(self.rest(self.place(np.where(some[:, None], u + SHIFT, u))[1]), rest, terms):
                raise ValueError(
                    f"log_prior changes with {' or '.join(map(repr, self.names))}, which has a "
                    "site_prior: take the part with it out of log_prior, and into site_prior."
                )
        self.place(start)

    def check_data(self, each: np.ndarray, base: np.ndarray, still: np.ndarray) -> None:
        """Refuse data whose log likelihood changed, though their sites stood still."""
        wrong = np.append(still, True)[self.site_of] & (each != base)
        wrong &= ~(np.isnan(each) & np.isnan(base))
        if wrong.any():
            n = int(np.argmax(wrong))
            site = self.site_of[n]
            seen = f"{self.names[0]}[{site}]" if site >= 0 else "no site"
            raise ValueError(
                f"touches: datum {n} is said to see {seen}, but its log likelihood goes from "
                f"{base[n]:.6g} to {each[n]:.6g} where other sites change. Give each datum the "
                "site that it sees."
            )


def elsewhere(sites, u: np.ndarray, base, terms, rng) -> tuple:
    """(other free coordinates, what is read there): of products nothing is seen where one is 0."""
    other = u + SHIFT * rng.standard_normal(u.shape)
    each, own = sites.read(other)
    if np.isfinite(each).all() and np.isfinite(own).all():
        return other, each, own
    return u, base, terms


def apart(one: float, other: float, terms: np.ndarray) -> bool:
    """Do two log priors differ by more than rounding."""
    return abs(one - other) > 1e-9 * (abs(other) + np.abs(terms).sum() + 1.0)


def by_differences(rises: list, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(gradient, negative Hessian) of each site, from its rises at a stencil of these steps."""
    each, k = np.array(rises), steps.shape[1]
    up, down = each[0 : 2 * k : 2], each[1 : 2 * k : 2]
    gradient = 0.5 * (up - down).T / steps
    hessian = np.empty((len(steps), k, k))
    i = np.arange(k)
    hessian[:, i, i] = (up + down).T
    i, j = np.triu_indices(k, 1)
    both = each[2 * k :: 2] + each[2 * k + 1 :: 2]
    hessian[:, i, j] = hessian[:, j, i] = 0.5 * (both - (up + down)[i] - (up + down)[j]).T
    return gradient, -hessian / steps[:, :, None] / steps[:, None, :]


def log_dets(precision: np.ndarray) -> np.ndarray:
    """Log determinants, one a site; nan: it is not positive definite."""
    if precision.shape[1] == 1:
        bent = precision[:, 0, 0]
        return np.where(bent > 0.0, np.log(np.where(bent > 0.0, bent, 1.0)), np.nan)
    sign, logs = np.linalg.slogdet(precision)
    return np.where(sign > 0.0, logs, np.nan)


def newton(gradient: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, bool]:
    """(Newton's step of each site, by the sizes of its eigenvalues; are all of them positive)."""
    if precision.shape[1] == 1:
        bent = precision[:, 0, 0]
        size = np.maximum(np.abs(bent), 1e-10 * np.abs(bent).max() + 1e-300)
        return gradient / size[:, None], bool(np.all(bent > 0.0))
    try:
        np.linalg.cholesky(precision)
        return np.linalg.solve(precision, gradient[:, :, None])[:, :, 0], True
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(precision)
    size = np.abs(values)
    size = np.maximum(size, 1e-10 * size.max(axis=1, keepdims=True) + 1e-300)
    along = np.einsum("gji,gj->gi", vectors, gradient) / size
    return np.einsum("gij,gj->gi", vectors, along), False
