"""Priors of sites that lack a part which depends on a scale, as -log(tau): told once a model."""

import math
from collections.abc import Iterator

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.sites.touches import called
from subsample_mcmc.target.constraints import COORDINATES, INTERVAL, REAL
from subsample_mcmc.target.lookups.reads import blocks_read
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.moved import some_states
from subsample_mcmc.target.user_functions import plain

STATES, SITES = 4, 8  # states, and sites in each, at which a prior is looked at
FACTORS = (2.0, 0.6)
POWERS = (1.0, 2.0, -1.0, -2.0)  # of scales: sds, variances, rates, precisions
ENDS = ((1e-7, 1e-6), (1e6, 1e7))  # factors of scales between which a prior of them is looked at
ROUNDING, SMALL = 1e-7, 1e-5  # of a log density; of what it gains with the log of a factor
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
            are = "is" if len(scales) == 1 else "are"
            warn(
                f"site_prior[{name!r}] is no density of a site of {name!r}: where "
                f"{' and '.join(scales)} {are} twice as large, and all else that it reads in "
                f"proportion, its integral is {2.0**lack:.3g} times as large, and log_prior does "
                f"not make up for it. It lacks a part that depends on them, as "
                f"{'-' if lack > 0.0 else '+'} {power}log({scales[0]}) would be."
            )


def lacking(model: Model, name: str) -> tuple[float, tuple[str, ...]]:
    """(s, the scales that the prior reads): it lacks -s log(scale), of the product of them.

    Where f(c a; c mu, c^p tau) = f(a; mu, tau) + t log c for all c, the integral of exp f over the
    k numbers of a site grows as c^(k + t), and 0 is right: p is 1 of standard deviations, 2 of
    variances, -1 of rates, -2 of precisions. Of other priors nothing is known: 0.
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
    for power in POWERS if scales else ():
        powers = {n: power if n in scales else 1.0 for n in (name, *others)}
        grows = growth(model, f, name, powers)
        if grows is None:
            continue
        lack = v.block.length // v.sites + grows
        # A prior of this block and of others with as many sites, at once, is one of all of them.
        of_others = [
            powers[n] * (model.variables[n].block.length // v.sites)
            for n in others
            if model.variables[n].sites == v.sites and n not in model.site_prior
        ]
        together = {0.0}
        for numbers in of_others:
            together |= {total + numbers for total in together}
        if any(abs(lack + total) < SMALL for total in together):
            return 0.0, ()
        lack /= power
        return (0.0, ()) if makes_up(model, scales, v.sites * lack) else (round(lack, 6), scales)
    return 0.0, ()


def growth(model: Model, f, name: str, powers: dict[str, float]) -> float | None:
    """What f gains with the log of a factor of all blocks, each to its power; None: no constant."""
    found, most = [], 0.0
    for ints, floats in states(model):
        for factor in FACTORS:
            there = scaled(model, floats, powers, factor)
            for site in some_sites(model, name):
                one, two = (called(f, model.state(ints.copy(), x), site) for x in (floats, there))
                found.append((two - one) / math.log(factor))
                most = max(most, abs(one), abs(two))
    if not np.all(np.isfinite(found)) or np.ptp(found) > ROUNDING * (1.0 + most):
        return None
    return float(np.mean(found))


def scalable(v) -> bool:
    """Is a block still one where all of its numbers are multiplied by a factor."""
    from_zero = v.constraint.kind == INTERVAL and v.constraint.low == 0.0
    return not v.block.discrete and v.place < 0 and (from_zero or v.constraint.kind in KINDS)


def states(model: Model) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """States but the initial one, the same every time."""
    found = some_states(model, STATES, np.random.default_rng(0))
    next(found)
    return found


def some_sites(model: Model, name: str) -> list[int]:
    """Sites at random, the same every time."""
    sites = model.variables[name].sites
    return np.random.default_rng(1).permutation(sites)[:SITES].tolist()


def scaled(model: Model, floats: np.ndarray, powers, factor: float) -> np.ndarray:
    """The floats with these blocks multiplied, each by a power of the factor."""
    there = floats.copy()
    for name, power in powers.items():
        block = model.variables[name].block
        there[block.start : block.start + block.length] *= factor**power
    return there


def makes_up(model: Model, scales: tuple[str, ...], in_all: float) -> bool:
    """Has log_prior -in_all log(scale), of the scales alone; or does it not tell.

    At one end at least, of small scales or large ones, all else that it says of them vanishes or
    stands still; where neither does, as of a lognormal law, the mean of both is what is left. It is
    seen to be missing where at some end nothing near it is there.
    """
    rest = model.given[3]
    if rest is None:
        return False
    missing = False
    for ints, floats in states(model):
        slopes = [slope_of(model, rest, ints, floats, scales, *ends) for ends in ENDS]
        for slope in (*slopes, float(np.mean(slopes))):
            if abs(slope + in_all) < 0.5 * abs(in_all):
                return True
        missing = missing or any(abs(slope) < 0.5 * abs(in_all) for slope in slopes)
    return not missing


def slope_of(model: Model, rest, ints, floats, scales, low: float, high: float) -> float:
    """What log_prior gains with the log of a factor of the scales, between two of them."""
    found, powers = [], dict.fromkeys(scales, 1.0)
    for factor in (low, high):
        with np.errstate(all="ignore"):
            try:
                there = scaled(model, floats, powers, factor)
                found.append(float(rest(model.state(ints.copy(), there))))
            except ArithmeticError:  # compiled, exp(1e6) is infinite
                return math.inf
    return (found[1] - found[0]) / math.log(high / low)
