"""Priors of sites that lack a part which depends on a scale, as -log(tau): told once a model."""

import math
from collections.abc import Iterator

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.sites.touches import called
from subsample_mcmc.target.constraints import COORDINATES, REAL
from subsample_mcmc.target.lookups.reads import blocks_read
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.moved import some_states
from subsample_mcmc.target.user_functions import plain

STATES, SITES = 4, 8  # states, and sites in each, at which a prior is looked at
FACTORS = (2.0, 0.6)
ROUNDING = 1e-7  # of a log density
KINDS = (REAL, *COORDINATES.values())  # real and positive numbers


class LookedAtPriors:
    """A key under which a model keeps that its priors of sites were looked at."""


def warn_of_site_priors(model: Model) -> None:
    """Say which prior of sites has an integral that changes with a scale.

    -0.5 * (a / tau) ** 2 without -log(tau) lets tau grow, and chains agree about it.
    """
    if LookedAtPriors in model.prepared:
        return
    model.prepared[LookedAtPriors] = True
    for name in model.site_prior:
        try:
            lack, scales = lacking(model, name)
        except Exception:  # raised by the user's function, in a state that may be none
            continue
        if lack:
            power = "" if abs(lack) == 1.0 else f"{abs(lack):.3g} * "
            warn(
                f"site_prior[{name!r}] is no density of a site of {name!r}: where "
                f"{' and '.join(scales)} and all else that it reads are twice as large, its "
                f"integral is {2.0**lack:.3g} times as large, and log_prior does not make up for "
                f"it. It lacks a part that depends on them, as "
                f"{'-' if lack > 0.0 else '+'} {power}log({scales[0]}) would be."
            )


def lacking(model: Model, name: str) -> tuple[float, tuple[str, ...]]:
    """(by which power of a common factor the integral grows, the scales that the prior reads).

    Where f(c a; c mu, c tau) = f(a; mu, tau) + s log c for all c, the integral of exp f over the k
    numbers of a site grows as c^(k + s), and 0 is right. Of other priors nothing is known: 0.
    """
    v = model.variables[name]
    if not scalable(v):
        return 0.0, ()
    f = plain(model.site_prior[name], f"site_prior[{name!r}]", "f(state, site)")
    read = blocks_read(f, model)  # None: its code does not tell, and it may be all of them
    others = [
        n for n, variable in model.variables.items()
        if n != name and (read is None or n in read) and scalable(variable)
    ]  # fmt: skip
    scales = tuple(n for n in others if model.variables[n].constraint.kind != REAL)
    if not scales:
        return 0.0, ()
    found, most = [], 0.0
    for ints, floats in states(model):
        for factor in FACTORS:
            there = scaled(model, floats, (name, *others), factor)
            for site in some_sites(model, name):
                one, two = (called(f, model.state(ints.copy(), x), site) for x in (floats, there))
                found.append((two - one) / math.log(factor))
                most = max(most, abs(one), abs(two))
    if not np.all(np.isfinite(found)) or np.ptp(found) > ROUNDING * (1.0 + most):
        return 0.0, ()
    lack = v.block.length // v.sites + float(np.mean(found))
    if abs(lack) < ROUNDING * (1.0 + most):
        return 0.0, ()
    in_all = v.sites * lack
    return (0.0, ()) if makes_up(model, (name, *others), in_all) else (round(lack, 6), scales)


def scalable(v) -> bool:
    """Is a block still one where all of its numbers are multiplied by a factor."""
    return not v.block.discrete and v.place < 0 and v.constraint.kind in KINDS


def states(model: Model) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """States but the initial one, the same every time."""
    found = some_states(model, STATES, np.random.default_rng(0))
    next(found)
    return found


def some_sites(model: Model, name: str) -> list[int]:
    """Sites at random, the same every time."""
    sites = model.variables[name].sites
    return np.random.default_rng(1).permutation(sites)[:SITES].tolist()


def scaled(model: Model, floats: np.ndarray, names, factor: float) -> np.ndarray:
    """The floats with these blocks multiplied."""
    there = floats.copy()
    for name in names:
        block = model.variables[name].block
        there[block.start : block.start + block.length] *= factor
    return there


def makes_up(model: Model, names, in_all: float) -> bool:
    """Does log_prior change with a common factor as what all sites lack, rather than not."""
    rest = model.given[3]
    if rest is None:
        return False
    for ints, floats in states(model):
        there = scaled(model, floats, names, FACTORS[0])
        one, two = (float(rest(model.state(ints.copy(), x))) for x in (floats, there))
        change = (two - one) / math.log(FACTORS[0])
        if abs(change + in_all) < 0.5 * abs(in_all):
            return True
    return False
