"""What is known of the sites of a model around a fit: their polynomials, and bounds of their rows.

Sites are those of all blocks that are numbered alike: the k numbers of each move in units of its
Gaussian given the rest, w = L_g^-1 (a_g - a*_g), the c numbers that all rows see in units of
theirs, sites integrated out. Any other units serve: they only make bounds wider.
"""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.by_site.local_bounds import COMMON, FOUND, OWN, RANK, VALUE, LocalBounds
from subsample_mcmc.approx.by_site.monomials import (
    SiteShape,
    directions_of,
    fitted,
    pairs_of,
    shape_of,
    size_of,
)
from subsample_mcmc.approx.control import Bound, ControlFunctions, Prepared
from subsample_mcmc.approx.fit.site_jets import SitesByJets
from subsample_mcmc.approx.fit.sites import columns_of
from subsample_mcmc.approx.taylor.derivatives_jets import (
    JetSource,
    functions_of,
    jets_of,
    obstacle,
    on_lines,
    subtracting,
)
from subsample_mcmc.approx.taylor.found.row_bounds import MOST as MOST_PREDICTORS
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.lookups.reads import handles_exceptions, unread

MOST = 8  # numbers that a row sees: of 8 a site has 165 coefficients
# Standard deviations beyond the usual distance up to which bounds hold: the first at which most
# sites have some.
FARTHER = (4.0, 2.0, 1.0)
ROUNDING = 4e-16  # of a value: of the two sums whose difference is a residual
PLACE = 4  # rows more than coefficients that a site must have, or it is summed


class SiteSums(NamedTuple):
    """Of one model and fit; shared by all chains."""

    shape: SiteShape
    coefficients: np.ndarray  # (sites + 1, size); last, of rows that see no site
    places: np.ndarray  # (sites, k) where the numbers of each stand in the state
    common: np.ndarray  # (c,) where the numbers stand that all rows see
    point: np.ndarray  # (d,) the fit
    inverse: np.ndarray  # (sites, k, k) L_g^-1
    inverse_common: np.ndarray  # (c, c)
    indptr: np.ndarray  # (sites + 2,) which of the rows are each site's
    indices: np.ndarray  # (rows,) site by site; last, those that see none
    weights: np.ndarray  # (2, rows) bounds of derivatives, by moves of sites, and of what is common
    upto: np.ndarray  # (2, rows) the same, added up within each site
    totals: np.ndarray  # (2, sites + 1) and of each site; inf: a row has no bound
    summed: np.ndarray  # (sites,) 1: has it so few rows that they are read
    reach: float  # of |w|, up to which bounds hold
    rounding: float  # of one residual


class SiteExpansion(Prepared):
    """Polynomials and bounds of all sites, by passes over the data."""

    proved = True

    def __init__(self, model, local: tuple[str, ...], point: np.ndarray):
        self.model, self.local = model, local
        self.sums = sums_of(model, local, point)
        k, c = self.sums.places.shape[1], len(self.sums.common)
        self.found = f"polynomials of {k} and {c} numbers by site, bounded"

    @property
    def few(self) -> int:
        """Sites whose rows are read: they are few, or have no bound."""
        return int(np.sum(self.sums.summed))

    @cached_property
    def functions(self) -> ControlFunctions:
        """What knows the model."""
        return ControlFunctions(None, None, reader=subtracting(*functions_of(self.model), True))

    def bind(self, arms: int) -> Bound:
        """The line along which residuals of one chain are read, from the fit."""
        point = self.sums.point.copy()
        slopes = np.zeros(len(point))
        state = on_lines(self.model, self.model.ints.copy(), point, slopes)
        # It copies no steps: who reads a row writes the slopes of what the row sees.
        return Bound(slopes, JetSource(state, np.zeros((arms, 0)), np.zeros(0)))


def why_not(model, local: tuple[str, ...]) -> str:
    """Why there are no polynomials of a model's sites; empty: there may be."""
    if model.elsewhere is not None:
        return "its rows are elsewhere"
    if model.log_likelihood is None:
        return "the model has no log_likelihood"
    if model.compiled[1] is not None:
        return "prepare computes what rows read from all parameters"
    if why := obstacle(model):
        return why
    if handles_exceptions(model.log_likelihood):
        return "log_likelihood catches exceptions"
    for name, v in model.variables.items():
        if name in local:
            continue
        if not unread(model, (name,)):
            if v.block.discrete:
                return f"rows read block {name!r}, which is discrete"
            if v.place >= 0:
                return f"rows read block {name!r}, which varies in length"
            if v.touches is not None:
                return f"rows see sites of {name!r}, too, which are numbered in another way"
    for name in local:
        if model.variables[name].place >= 0:
            return f"block {name!r} varies in length"
        if name not in model.site_prior:
            return f"sites of {name!r} have no prior of their own: give sm.Model(site_prior=...)"
    k = sum(model.variables[n].block.length // model.variables[n].sites for n in local)
    c = len(common_places(model, local))
    if k + c > MOST:
        return (
            f"a row sees {k} numbers of its site and {c} that all rows see, and polynomials are "
            f"of at most {MOST}"
        )
    return ""


def common_places(model, local: tuple[str, ...]) -> np.ndarray:
    """Where continuous numbers stand that rows see beside those of their site."""
    found = [
        np.arange(v.block.start, v.block.start + v.block.length)
        for name, v in model.variables.items()
        if name not in local and not v.block.discrete and not unread(model, (name,))
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def numbered_alike(model, name: str) -> tuple[str, ...]:
    """The continuous blocks whose sites see the same rows as those of one, in the state's order."""
    own = model.variables[name].touches
    return tuple(
        other for other, v in model.variables.items()
        if v.touches is not None and not v.block.discrete
        and all(np.array_equal(a, b) for a, b in zip(v.touches, own, strict=True))
    )  # fmt: skip


def places_of(sites: SitesByJets) -> np.ndarray:
    """(sites, k): where each site's numbers stand in the state."""
    found = np.zeros((sites.count, sites.size), dtype=np.int64)
    columns = columns_of(sites.variables)
    for v in sites.variables:
        at = columns[v.block.name]
        flat = v.block.start + np.arange(v.block.length)
        found[:, at] = flat.reshape(sites.count, -1)
    return found


def sums_of(model, local: tuple[str, ...], point: np.ndarray) -> SiteSums:
    """Passes over the data for units and polynomials, then bounds of rows."""
    ints, common = model.ints.copy(), common_places(model, local)
    sites = SitesByJets(model, local, ints, point.copy(), common)
    places, k, c = places_of(sites), sites.size, len(common)
    units = units_of_sites(sites)
    wide = units_of_common(sites, places, units)
    lines = directions_of(k + c)
    coefficients = fitted(lines, along(sites, places, units, wide, lines), k, c)
    indptr, indices = model.variables[local[0]].touches
    others = np.flatnonzero(sites.site_of < 0)
    indices = np.concatenate([indices, others]).astype(np.int64)
    indptr = np.append(indptr, len(indices)).astype(np.int64)
    reach, found = bounded(model, ints, point, places, common, units, wide, indptr, indices)
    weights = np.ascontiguousarray(found[:, [OWN, COMMON]].T)
    upto, totals = np.zeros(weights.shape), np.zeros((2, len(indptr) - 1))
    for g, (a, b) in enumerate(pairwise(indptr)):
        upto[:, a:b] = np.cumsum(weights[:, a:b], axis=1)
        totals[:, g] = upto[:, b - 1] if b > a else 0.0
    broken = ~np.isfinite(coefficients).all(axis=1)
    totals[:, broken], coefficients[broken] = np.inf, 0.0
    counts = np.diff(indptr)[:-1]
    summed = (counts < size_of(k, c) + PLACE) | ~np.isfinite(totals[0, :-1])
    values = found[:, VALUE]
    return SiteSums(
        shape_of(k, c), coefficients, places, common, point.copy(), np.linalg.inv(units),
        np.linalg.inv(wide), indptr, indices, weights, upto, totals, summed.astype(np.int64), reach,
        ROUNDING * float(values[np.isfinite(values)].max(initial=0.0) + 1.0),
    )  # fmt: skip


def units_of_sites(sites: SitesByJets) -> np.ndarray:
    """(sites, k, k): factors of the covariance of each site's values, given the rest."""
    u = sites.free()
    base, terms = sites.read(u)
    if trouble := sites.not_finite(base, terms):
        raise ValueError(f"SiteTaylor: at the fit {trouble}.")
    precision = sites.bend(u, base, terms)[1]
    sites.place(u)
    try:
        if not np.isfinite(precision).all():
            raise np.linalg.LinAlgError
        np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        raise ValueError(
            "SiteTaylor: a site's density given the rest has no mode near the fit: give "
            "sm.laplace(model), or values near the posterior's mode."
        ) from None
    rate = sites.rates(u)[0]
    covariance = np.linalg.inv(precision) * rate[:, :, None] * rate[:, None, :]
    return np.linalg.cholesky(covariance)


def units_of_common(sites: SitesByJets, places: np.ndarray, units: np.ndarray) -> np.ndarray:
    """(c, c): a factor of the covariance of what all rows see, sites integrated out."""
    k, c = sites.size, len(sites.seen)
    if c == 0:
        return np.zeros((0, 0))
    size = np.maximum(np.abs(sites.floats[sites.seen]), 1.0)
    lines = directions_of(k + c)
    found = fitted(lines, along(sites, places, units, np.diag(size), lines), k, c)
    at = {t: i for i, t in enumerate(pairs_of(k, c))}
    bent = np.zeros((c, c))
    for i in range(c):
        for j in range(c):
            own = found[:, at[tuple(sorted((k + i, k + j)))]].sum()
            bent[i, j] = -own * (2.0 if i == j else 1.0)
    mixed = np.array([[found[:-1, at[a, k + j]] for j in range(c)] for a in range(k)])
    schur = bent - np.einsum("aig,ajg->ij", mixed, mixed)
    if not np.isfinite(schur).all():
        return np.diag(size)
    values, vectors = np.linalg.eigh(0.5 * (schur + schur.T))
    least = 1e-6 * max(float(np.abs(np.diag(bent)).max()), 1e-300)
    root = vectors / np.sqrt(np.maximum(values, least))
    return size[:, None] * np.linalg.cholesky(root @ root.T)


def along(sites: SitesByJets, places, units, wide, lines: np.ndarray) -> np.ndarray:
    """(lines, ORDER, sites + 1): coefficients of each site's rows along directions of w."""
    width, k, found = jets_of().LANES, sites.size, []
    for low in range(0, len(lines), width):
        some = lines[low : low + width]
        slopes = np.zeros((len(sites.floats), width))
        slopes[places, : len(some)] = np.einsum("gij,lj->gil", units, some[:, :k])
        slopes[sites.seen, : len(some)] = wide @ some[:, k:].T
        state = on_lines(sites.model, sites.ints.copy(), sites.floats.copy(), slopes)
        found.append(sites.summed_along(pointer_to(state), totals=False)[: len(some)])
    return np.concatenate(found)


def bounded(
    model, ints, point, places, common, units, wide, indptr, indices
) -> tuple[float, np.ndarray]:
    """(the distance up to which bounds hold, what is found of each row); inf: it has none."""
    k, c = places.shape[1], len(common)
    own = LocalBounds(model, ints, point, k + c, k)
    frame = np.zeros((k + c, k + c))
    frame[k:, k:] = wide
    at = np.concatenate([np.zeros(k, dtype=np.int64), common])
    bad = -1
    for far in FARTHER:
        reach, found = (k + c) ** 0.5 + far, np.zeros((len(indices), FOUND))
        lost, bad = 0, -1
        for g, (a, b) in enumerate(pairwise(indptr)):
            if a == b:
                continue
            if g < len(places):
                at[:k], frame[:k, :k] = places[g], units[g]
                good = own.of_site(indices[a:b], at, frame, reach, found[a:b])
            else:
                few = LocalBounds(model, ints, point, c, 0)
                good = c == 0 or few.of_site(indices[a:b], common, wide, reach, found[a:b])
            if not good:
                bad = bad if bad >= 0 else int(own.ranged.row[0])
                if found[a:b, RANK].max() > MOST_PREDICTORS:
                    bad = int(indices[a + int(np.argmax(found[a:b, RANK]))])
                found[a:b, :RANK] = np.inf
                lost += b - a
        if lost <= 0.5 * len(indices):
            return reach, found
    raise ValueError(
        f"SiteTaylor: most rows have no bound near the fit: at datum {bad}"
        f"{datum_of(model.data, bad, model.size)} {own.raised or told(found)}. "
        "sm.Exact() needs none."
    )


def told(found: np.ndarray) -> str:
    """What is wrong with rows that have no bound."""
    if (most := int(found[:, RANK].max())) > MOST_PREDICTORS:
        return (
            f"log_likelihood sees its site, and what all rows see, through {most} predictors, and "
            f"at most {MOST_PREDICTORS} are bounded"
        )
    return "a derivative of log_likelihood is not bounded"
