"""Whether data see a move of all sites of a block at once, and whether priors say it is of theirs.

Every datum is asked, in several states, before a chain runs: see `held_by_data`.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.kernels.sites.touches import called
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.blocks import draw_discrete
from subsample_mcmc.target.moved import change_all
from subsample_mcmc.target.rewards import probe, rewards_of
from subsample_mcmc.target.user_functions import plain

PLACES, SIZE = 6, 0.7  # states at which data are asked whether they see a move, and its size there
ROUNDING, MORE = 1e-11, 1e3  # of a log likelihood, and of 1; times that, and it is a change
SPAN = 1 << 14  # rows that are asked at a time
LOOKED_AT = 64  # sites whose priors are


def values(model, name: str | None, floats: np.ndarray) -> np.ndarray:
    """A view of a block in the floats; a zero, without one."""
    if name is None:
        return np.zeros(1)
    block = model.variables[name].block
    return floats[block.start : block.start + block.length]


def woven(kernel, model, manner, floats: np.ndarray, j: int, by: float):
    """The floats after the move of number j of the mean or scale, in plain Python."""
    after = floats.copy()
    a = values(model, kernel.sites, after).reshape(model.variables[kernel.sites].sites, -1)
    other = values(model, kernel.other, after)
    rows, columns = slice(None), slice(None)
    if kernel.of is not None:
        rows = np.asarray(kernel.of) == j
    elif len(other) > 1:
        columns = slice(j, j + 1)
    if kernel.stretches:
        centre = np.broadcast_to(values(model, manner.centre, floats), a.shape[1:])[columns]
        a[rows, columns] = centre + np.exp(manner.sign * by) * (a[rows, columns] - centre)
        other[j] *= np.exp(by)
    elif kernel.amounts is not None:
        a[:, 0] -= np.asarray(kernel.amounts) * by
        other[j] += by
    else:
        a[rows, columns] += manner.sign * by
        other[j] += by
    return after


class Held(NamedTuple):
    """What data were seen to say of a move."""

    by_all: bool  # in no state that was tried does a datum see it, and each sees the other alone
    where_seen: bool  # the same, but some do not see the other alone, either


def held_by_data(kernel, model, manner) -> Held:
    """Does no datum see moves in this manner.

    Every row is asked, at the initial state and at others, whose discrete values are any. Where one
    has no number, nothing is known. Nor is it of rows that do not see the mean or scale alone: what
    they would see elsewhere may be hidden here, as by an indicator, or where a loss is flat. Or
    they never see it, as differences of neighbours on a map.
    """
    if kernel.other not in model.variables or model.log_likelihood is None:
        return Held(False, False)
    rng = np.random.default_rng(0)  # the same states every time
    blind = np.ones(model.size, dtype=bool)
    for number in range(PLACES):
        ints, floats = model.ints.copy(), model.floats.copy()
        if number:
            change_all(model, ints, floats, rng)
            draw_discrete(model, ints, rng)
        after, alone = floats, floats.copy()
        for j in range(model.variables[kernel.other].block.length):  # all, each by its own size
            after = woven(kernel, model, manner, after, j, SIZE * (1.0 + rng.random()))
        values(model, kernel.other, alone)[:] = values(model, kernel.other, after)
        trial = probe(model, ints, floats.copy(), np.stack([floats, after, alone]))
        for first in range(0, model.size, SPAN):
            rows = np.arange(first, min(first + SPAN, model.size), dtype=row_kind(model.size))
            seen = np.zeros((3, len(rows)))
            with np.errstate(all="ignore"):
                for arm in range(3):
                    rewards_of(trial, arm, rows, seen[arm])
                rounding = ROUNDING * (1.0 + np.abs(seen[0]))
                same = np.abs(seen[1] - seen[0]) <= rounding
                blind[rows] &= ~(np.abs(seen[2] - seen[0]) > MORE * rounding)
            if not same.all():
                return Held(False, False)
    return Held(not blind.any(), not blind.all())


def check_common(kernel, model) -> None:
    """Refuse what is not the mean or scale of the sites' prior, where it is known."""
    of_site = model.site_prior.get(kernel.sites)
    if of_site is None:
        return
    of_site, rng = plain(of_site, "site_prior", "f(state, site)"), np.random.default_rng(0)
    ints, floats = model.ints.copy(), model.floats.copy()
    change_all(model, ints, floats, rng)
    variable = model.variables[kernel.sites]
    one = model.variables[kernel.other].block.length == 1
    columns = variable.block.length // variable.sites if one else 1
    fall = SIZE * columns if kernel.stretches else 0.0
    told = "scale" if kernel.stretches else "location"
    for j in range(model.variables[kernel.other].block.length):
        after = woven(kernel, model, kernel.manner(model), floats, j, SIZE)
        own = np.arange(variable.sites)
        own = own if kernel.of is None else own[np.asarray(kernel.of) == j]
        for site in rng.permutation(own)[:LOOKED_AT]:
            first, second = (
                called(of_site, model.state(ints.copy(), at), int(site)) for at in (floats, after)
            )
            if not abs(second - first + fall) <= 1e-8 * (1.0 + abs(first)):
                raise ValueError(
                    f"interweave({kernel.sites!r}, {told}={kernel.other!r}): the prior of site "
                    f"{site} goes from {first:.6g} to {second:.6g} where all sites and "
                    f"{kernel.other!r} move together, and that of a {told} would go to "
                    f"{first - fall:.6g}; nor do data see the same where they move against each "
                    f"other. Name the {told} of the sites' prior, or leave it out."
                )
