"""The fit of a hierarchy: of what sites have in common, then of the sites.

Sites are those of one factor, independent given the rest, or of several that are crossed, where a
datum sees a site of each.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.crossed import CrossedSites
from subsample_mcmc.approx.fit.fit import finished
from subsample_mcmc.approx.fit.hierarchy import CrossedFit, HierarchyFit
from subsample_mcmc.approx.fit.kinks import (
    ROUGH,
    EndedAtKinksError,
    deviations_of,
    past_kinks,
    warn_of_kinks,
)
from subsample_mcmc.approx.fit.marginal import (
    Marginal,
    MarginalOfCrossed,
    has_jets,
    marginal_of,
    worth_jets,
)
from subsample_mcmc.approx.fit.newton import several
from subsample_mcmc.approx.fit.sites import SHIFT, Settled, Sites
from subsample_mcmc.approx.taylor.derivatives_jets import NotSmoothError
from subsample_mcmc.approx.taylor.derivatives_stencil import MOST_PARAMETERS
from subsample_mcmc.errors import RewardError

MOST = 20  # free coordinates that sites may have in common: their density is read d^2 + d + 1 times
MOST_DENSE = 300  # free coordinates of sm.Predictors of which one Gaussian is made
FAILURES = (ValueError, np.linalg.LinAlgError)  # of a search


def is_local(model, name: str) -> bool:
    """Do the sites of a block see data, and have priors, of their own."""
    v = model.variables[name]
    return v.touches is not None and v.support == 0 and v.place < 0 and name in model.site_prior


def factors_of(co: Coordinates) -> list[tuple[str, ...]]:
    """Blocks that are fitted site by site, by those numbered alike; of most numbers first."""
    model = co.model
    left, found = [name for name in co.blocks if is_local(model, name)], []
    while left:
        first = max(left, key=lambda name: model.variables[name].block.length)
        own = model.variables[first].touches
        found.append(tuple(
            name for name in left
            if all(np.array_equal(a, b) for a, b in
                   zip(model.variables[name].touches, own, strict=True))
        ))  # fmt: skip
        left = [name for name in left if name not in found[-1]]
    return found


def goes_by_site(co: Coordinates) -> bool:
    """Are there sites, and too many numbers for one Gaussian of all."""
    most = MOST_PARAMETERS if co.model.predictors is None else MOST_DENSE
    return co.size > most and len(factors_of(co)) > 0


def others_of(co: Coordinates, local: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """(the other blocks of a fit, their free coordinates)."""
    names = tuple(name for name in co.blocks if name not in local)
    return names, sum(b - a for a, b in (co.parts[name][3:5] for name in names))


def common_blocks(co: Coordinates, local: tuple[str, ...]) -> tuple[str, ...]:
    """The other blocks of a fit, which must be few numbers."""
    names, size = others_of(co, local)
    if size > MOST:
        raise ValueError(
            f"beside the {co.model.variables[local[0]].sites:,} sites of {', '.join(local)} there "
            f"are {size:,} free coordinates of {', '.join(names)}, and at most {MOST} are fitted: "
            f"name fewer, sm.laplace(model, {local}), and the others are held."
        )
    return names


def fit_hierarchy(model, co: Coordinates, starts: int, rng, tolerance: float, bar) -> HierarchyFit:
    """What laplace returns of blocks some of which are fitted site by site.

    Few sites that are crossed with others, whose prior is known, are fitted with what these have in
    common: there is a mode of them, and it is found by derivatives.
    """
    factors = factors_of(co)
    if fits_crossed(co, factors):
        return fit_crossed(model, co, factors, starts, rng, tolerance, bar)
    return fit_factor(model, co, factors[0], starts, rng, tolerance, bar)


def fits_crossed(co: Coordinates, factors: list[tuple[str, ...]]) -> bool:
    """Are sites of several factors fitted together."""
    few = others_of(co, factors[0])[1] <= MOST
    return len(factors) > 1 and not (few and priors_known(co, factors))


def priors_known(co: Coordinates, factors: list[tuple[str, ...]]) -> bool:
    """Do priors of sites of all factors but the first stay as they are where all else changes."""
    model, floats = co.model, co.floats.copy()
    parts = [Sites(model, names, co.ints, floats) for names in factors[1:]]
    before = [part.prior() for part in parts]
    names = others_of(co, tuple(name for names in factors for name in names))[0]
    if names:
        own = Coordinates(model, names, co.dict_of(floats, model.variables.values()))
        values = own.lift(own.free(floats) + SHIFT)[0][0]
        for part in own.parts.values():
            floats[part[5] : part[6]] = values[part[5] : part[6]]
    return all(
        np.array_equal(part.prior(), known) for part, known in zip(parts, before, strict=True)
    )


def fit_crossed(
    model, co: Coordinates, factors: list, starts: int, rng, tolerance: float, bar
) -> HierarchyFit:
    """The fit of sites of several factors, and of what they have in common."""
    local = tuple(name for names in factors for name in names)
    names = common_blocks(co, local)
    if not names:
        return fit_sites(co, CrossedSites(model, factors, co.ints, co.floats.copy()))
    own = Coordinates(model, names, co.dict_of(co.floats, model.variables.values()))

    def density() -> Marginal:
        return MarginalOfCrossed(own, CrossedSites(model, factors, co.ints, co.floats.copy()), bar)

    return fit_past_kinks(density, own.labels, co, starts, rng, tolerance)


def fit_factor(
    model, co: Coordinates, local: tuple[str, ...], starts: int, rng, tolerance: float, bar
) -> HierarchyFit:
    """The fit of sites of one factor, and of what they have in common."""
    names = common_blocks(co, local)
    if not names:
        return fit_sites(co, Sites(model, local, co.ints, co.floats.copy()))
    state, jets = rng.bit_generator.state, worth_jets(co, local)
    labels = Coordinates(model, names, co.dict_of(co.floats, model.variables.values())).labels

    def fitted(jets: bool) -> HierarchyFit:
        """The fit, by derivatives or by differences."""
        rng.bit_generator.state = state

        def density() -> Marginal:
            return marginal_of(model, co, local, names, bar, jets)

        return fit_past_kinks(density, labels, co, starts, rng, tolerance)

    try:
        return fitted(jets)
    except (NotSmoothError, *FAILURES) as error:
        if jets and not isinstance(error, NotSmoothError):
            raise
        if not jets and (isinstance(error, RewardError) or not has_jets(model)):
            raise
        with suppress(NotSmoothError, *(() if jets else FAILURES)):
            return fitted(not jets)
        raise


def fit_past_kinks(
    density: Callable[[], Marginal], labels: list[str], co: Coordinates, starts: int, rng,
    tolerance: float,
) -> HierarchyFit:  # fmt: skip
    """The fit by a density, made anew where its prior turns out to have kinks."""
    state = rng.bit_generator.state

    def search(kinks: np.ndarray) -> tuple[HierarchyFit, np.ndarray]:
        rng.bit_generator.state = state
        marginal = density()
        marginal.kinks, near = kinks, max(tolerance, ROUGH) if kinks.any() else tolerance
        try:
            return fit_both(marginal, co, starts, rng, near)
        except FAILURES as error:
            more = marginal.kinks_found(marginal.last, ended=False)
            if np.any(more & ~kinks):
                raise EndedAtKinksError(more) from error
            marginal.check_smooth()
            raise

    def deviations(fit: HierarchyFit) -> np.ndarray:
        return deviations_of(np.linalg.inv(fit.common.covariance))  # type: ignore[union-attr]

    fit, near = past_kinks(search, labels, deviations)
    warn_of_kinks(near, labels)
    return fit


def fit_sites(co: Coordinates, sites: Any) -> HierarchyFit:
    """The fit of sites alone, given the rest of the state."""
    sites.check()
    now = usable(sites.settle(sites.free(), learn=True), sites, "the state that is given")
    rest = sites.rest(sites.place(now.u)[1]) + co.model.constant()
    slopes = np.zeros((*now.u.shape, 0))
    return made(co, sites, now, None, slopes, rest, now.integral + rest)


def fit_both(
    marginal: Marginal, co: Coordinates, starts: int, rng, tolerance: float
) -> tuple[HierarchyFit, np.ndarray]:
    """The fit of sites, and of what they have in common; and along which of that are kinks."""
    sites, own, model = marginal.sites, marginal.coordinates, co.model
    sites.check()
    start = own.free(sites.floats)
    usable(marginal.at(start, marginal.u, learn=True)[1], sites, own.show(start))
    now, heights, _ = several(marginal, start, starts, rng, tolerance)
    found = marginal.sharpened(now[0])
    gain, kinks = now[1:], marginal.kinks_found(found, ended=True)
    if found is not now[0]:
        move = np.linalg.solve(found.curvature, found.gradient)
        gain = (move, 0.5 * float(move @ found.gradient))
    mean = found.u + gain[0]
    now = usable(marginal.at(mean, marginal.u, learn=True)[1], sites, own.show(mean))
    common = finished(own, heights, marginal.passes, found, *gain)
    slopes = marginal.slopes_along(common, now.u)
    jacobian = marginal.put(mean)
    rest = sites.rest(sites.place(now.u)[1]) + jacobian + model.constant()
    point = sites.floats.copy()
    common = replace(common, point=point, state=co.dict_of(point, model.variables.values()))
    return made(co, sites, now, common, slopes, rest, common.log_evidence), kinks


def made(co, sites, now: Any, common, slopes, rest: float, evidence) -> HierarchyFit:
    """The fit, of sites that are at their modes."""
    floats, kind, more = sites.floats, HierarchyFit, {}
    state = co.dict_of(floats, co.model.variables.values())
    if isinstance(sites, CrossedSites):
        kind, covariances = CrossedFit, now.precision.blocks(sites.shapes)
        more = {"precision": now.precision, "factors": sites.factors}
    else:
        covariances = np.linalg.inv(now.precision)
    return kind(
        co.model, co.blocks, sites.names, common, floats.copy(), state, now.u,
        covariances, slopes, now.height + rest, float(evidence), sites.passes, **more,
    )  # fmt: skip


def usable(found: Settled, sites: Any, where: str) -> Settled:
    """Sites that have modes, or an error that says what is wrong."""
    if found.usable:
        return found
    raise RewardError(
        f"the sites of {', '.join(sites.names)} have no modes given the rest, at {where:.200}: "
        f"{sites.trouble}. Start inside the support, by given={{...}}, and give every site a prior "
        "that holds it, site_prior={...}."
    )
