"""Kernels of hierarchies, as code: sites one by one, all at once, and what they have in common."""

import json
from collections.abc import Iterator

from subsample_mcmc.approx.by_site.control import local_blocks
from subsample_mcmc.approx.by_site.expansion import why_not
from subsample_mcmc.kernels.base import check
from subsample_mcmc.kernels.continuous import read_by_sites
from subsample_mcmc.kernels.sites.asked import seen_behind
from subsample_mcmc.runs.defaults.code import FEW, OPTIONS, all_as_one, of_code
from subsample_mcmc.target.constraints import COORDINATES
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.moved import moved

MANY_ROWS = 100  # of a site, on average, from which on polynomials are tried
MOVES = 5  # of what all rows see, in a sweep: a move costs as much as some ten sites


def of_sites(
    model: Model, before: list[str], sites: list[str], setup: tuple[str, ...], local
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """(name, setup, code) of each candidate, the best bets first.

    before: code of the kernels of discrete blocks. sites: blocks whose sites see data of their own;
    local: those of them that a fit has site by site. setup: makes the fit, if there is one.
    """
    known = {name: ", proposal=sm.pcn(fit)" for name in local}
    own = [
        f"sm.Metropolis({json.dumps(name)}{known.get(name, '')}{OPTIONS})" for name in sites
    ]  # fmt: skip
    beside = [
        name for name, v in model.variables.items() if not v.block.discrete and name not in sites
    ]  # fmt: skip
    seen = [name for name in beside if not unread(model, (name,))]
    woven = interwoven(model, sites)
    for name, parts, more in in_windows(model, sites, own, beside):
        yield name, (), " >> ".join([*before, *parts, *beside_sites(model, beside), *more])
    ways = [("", setup if local else (), [*before, *own, *beside_sites(model, beside)])]
    if setup and beside:  # what sites have in common is drawn given them
        unseen = [name for name in beside if name not in seen]
        # Polynomials of few data know little of the tails; priors alone are no polynomials.
        few = bool(seen) and model.size < FEW * moved(model, tuple(seen)).free
        drawn = [
            f"sm.SurrogateTransition({all_as_one(names)}, fit)"
            for names in ([] if few else seen, unseen) if names
        ]  # fmt: skip
        if drawn:
            rest = beside_sites(model, seen) if few else []
            ways.insert(0, (", the rest by surrogates", setup, [*before, *own, *rest, *drawn]))
    if thinned := by_polynomials(model, sites, seen, local):
        unseen = [name for name in beside if name not in seen]
        drawn = [f"sm.SurrogateTransition({all_as_one(unseen)}, fit)"] if unseen else []
        lines = (*setup, "known = sm.SiteTaylor(fit)")
        ways.insert(0, (", by polynomials of each", lines, [*before, *thinned, *drawn]))
    for name, lines, parts in ways:
        if woven:
            yield f"sites, all of them at once as well{name}", lines, " >> ".join([*parts, *woven])
        yield f"sites by their own data{name}", lines, " >> ".join(parts)


def in_windows(
    model: Model, sites: list[str], own: list[str], beside: list[str]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """(name, code for each block of sites, for all of them at once): in windows, of sites in order.

    That is where a site's prior reads those before it; with each block that may be the scale of
    steps from a site to the next. own: code for the sites one by one.
    """
    scales = {name: scales_of_steps(model, name, beside) for name in sites if in_order(model, name)}
    if not scales:
        return
    more = interwoven(model, sites, tuple(scales))
    for k in range(max(1, *map(len, scales.values()))):
        parts = list(own)
        for i, name in enumerate(sites):
            if name in scales:
                given = "".join(f", scale={json.dumps(scale)}" for scale in scales[name][k : k + 1])
                parts[i] = f"sm.windows({json.dumps(name)}{given})"
        yield f"sites in windows{f' ({k + 1})' if k else ''}", parts, more


def in_order(model: Model, name: str) -> bool:
    """Does the prior of a site of this block read sites before it."""
    try:
        return name in model.site_prior and seen_behind(name, model) > 0
    except ValueError:  # which its kernels tell of
        return False


def scales_of_steps(model: Model, name: str, beside: list[str]) -> list[str]:
    """Positive blocks that the prior of sites reads, each of which may be the scale of steps."""
    width = model.variables[name].block.length // model.variables[name].sites
    return [
        other for other in beside if other in read_by_sites(model, name)
        and model.variables[other].constraint.kind in COORDINATES.values()
        and model.variables[other].block.length in (1, width)
    ]  # fmt: skip


def by_polynomials(model: Model, sites: list[str], seen: list[str], local) -> list[str]:
    """Code of kernels that read hardly a row: of sites of many rows, and of what all rows see.

    Empty where sites have few rows, or no polynomials serve.
    """
    if not sites or set(sites) != set(local) or set(local_blocks(model)) != set(local):
        return []
    if model.size < MANY_ROWS * model.variables[sites[0]].sites or why_not(model, tuple(local)):
        return []
    known = ", proposal=sm.pcn(fit), control=known)"
    parts = [f"sm.Metropolis({json.dumps(name)}{known}" for name in sites]
    if seen:
        parts.append(f"sm.repeat(sm.Metropolis({all_as_one(seen)}{known}, {MOVES})")
    return parts


def beside_sites(model: Model, names: list[str]) -> list[str]:
    """Code of kernels for what sites have in common: what no datum sees costs next to nothing."""
    unseen = [name for name in names if unread(model, (name,))]
    parts = [
        f"sm.Metropolis({json.dumps(name)}, proposal=sm.pcn(), selector=sm.Exact())"
        for name in names if name not in unseen
    ]  # fmt: skip
    if unseen:
        parts.append(f"sm.repeat(sm.Metropolis({all_as_one(unseen)}, proposal=sm.pcn()), 5)")
    return parts


def interwoven(model: Model, sites: list[str], ordered: tuple[str, ...] = ()) -> list[str]:
    """Code of moves of all sites with their mean or scale, of the blocks that are found to be such.

    Only where the prior of sites is known by itself: else whatever block might be one.
    ordered: sites in an order, whose windows move with the scale of their steps.
    """
    found: list[str] = []
    others = [
        other for other, v in model.variables.items()
        if not v.block.discrete and v.touches is None
    ]  # fmt: skip
    for name in (name for name in sites if name in model.site_prior):

        def serves(code: str) -> bool:
            try:
                check(of_code(code, (), {}), model, part=True)
            except (TypeError, ValueError):
                return False
            return True

        def code_of(name=name, **roles: str) -> str:
            given = "".join(f", {role}={json.dumps(other)}" for role, other in roles.items())
            return f"sm.interweave({json.dumps(name)}{given})"

        means = {other: code_of(location=other) for other in others}
        means = {other: code for other, code in means.items() if serves(code)}
        for other in others if name not in ordered else ():
            if serves(code := code_of(scale=other)):
                found.append(code)
                continue
            for mean in means:  # around which the sites are stretched
                if serves(code := code_of(location=mean, scale=other)):
                    found.append(code)
                    del means[mean]
                    break
        found += means.values()
    return found
