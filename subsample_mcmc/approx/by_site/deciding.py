"""How sm.Thinned decides about one site, or about what all rows see, by polynomials of sites.

With l_n the log likelihood of a row, P_n its polynomial of third order around the fit and R_n = l_n
- P_n, a move from w to w' changes the sum of l_n by that of P_n, which is known, and the sum of

    R_n(w') - R_n(w),  at most  M_n |Q_moved| max(|w|, |w'|)^3 |w' - w| / 6:

R_n has no derivatives at the fit up to the third; so along any u its first derivative at w is at
most the largest fourth derivative in the ball, times |Q'w|^3 |Q'u| / 6 (that of a symmetric form of
vectors of length 1 is reached where they are one vector, Banach 1938), and on the way from w to w'
no point lies farther out than both ends. |Q_moved| is what a row sees of what moves.

So rows are points of a Poisson process, whose rates these bounds are: of one site, drawn within it;
of all, first a site by what its rows come to together, then a row. The tests, and the proofs, are
those of decisions/thinned.py. Which test decides, and what is read, depends on bounds alone, which
are those of the way back.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.by_site.monomials import collapse, fill, gain_of_site
from subsample_mcmc.approx.thinning import beyond, weighed
from subsample_mcmc.decisions.rules.rule import (
    ALONE,
    EXACT,
    NOT_FINITE,
    PREDICTED,
    RACED,
    Outcome,
)
from subsample_mcmc.decisions.selector import failed, not_a_sum
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_residuals, call_rows
from subsample_mcmc.numerics.rows import uniform
from subsample_mcmc.target.rewards import place, remembered_total, sum_between, total

SITE, EVERY = 0, 1  # what moves: a site, or what all rows see
BELOW_ONE = 1.0 - 2.0**-53  # so that no row is drawn which weighs nothing


class SiteRoom(NamedTuple):
    """Of one chain."""

    own: np.ndarray  # (2, own monomials) of a site, at both arms
    common: np.ndarray  # (2, common monomials)
    w: np.ndarray  # (2, k) a site's numbers, in its units
    wide: np.ndarray  # (2, c) the common ones
    step: np.ndarray  # room for values, before they are in units
    together: np.ndarray  # (common monomials,) the polynomials of all sites where these stand
    rates: np.ndarray  # (sites + 1,) what bounds of sites come to, added up
    times: np.ndarray  # (sites + 1,) of each site: what weights are multiplied by; -1: it is read
    row: np.ndarray  # (1,) one that is read
    value: np.ndarray  # (1,) and its log likelihood
    slopes: np.ndarray  # (d,) of the line along which it is differentiated
    left: np.ndarray  # (3,) of an audit: sums of residuals, of max(-r, 0), of squares


class SiteControls(NamedTuple):
    """In the place of Controls."""

    outliers: np.ndarray  # there are none
    sums: Any  # SiteSums
    room: SiteRoom
    calls: Any  # of rows that sites touch, as `indices` of the sums list them
    target: np.recarray  # theirs
    start: int  # of the block whose sites move
    source: Any  # what `reader` reads
    reader: Any  # (context, source, arm, rows, out): takes polynomials of rows from out


class SiteParams(NamedTuple):
    """What a decision is made with."""

    most: float  # of a site's rows, or of all: bounds at which they are read
    lost: float  # bounds beyond which the auxiliary test decides


class SiteScratch(NamedTuple):
    """What a decision writes."""

    bound: np.ndarray  # (1,) a statistic: the sum over decisions of the bound that they met


@jit(inner="always")
def value_at(trial, arm, at):
    """A value of the state where an arm stands."""
    j = at - trial.target[0].start
    if 0 <= j < trial.target[0].length:
        return trial.candidates[arm, j]
    return trial.floats[at]


@jit(inner="always")
def place_site(trial, arm, site, out):
    """Write a site's numbers into out, in its units: their squared length."""
    sums, step, square = trial.control.sums, trial.control.room.step, 0.0
    places, inverse = sums.places, sums.inverse
    for i in range(places.shape[1]):
        at, value = places[site, i], 0.0
        step[i] = value_at(trial, arm, at) - sums.point[at]
        for j in range(i + 1):
            value += inverse[site, i, j] * step[j]
        out[i] = value
        square += value * value
    return square


@jit(inner="always")
def place_common(trial, arm, out):
    """The same of what all rows see."""
    sums, step, square = trial.control.sums, trial.control.room.step, 0.0
    for i in range(len(sums.common)):
        at, value = sums.common[i], 0.0
        step[i] = value_at(trial, arm, at) - sums.point[at]
        for j in range(i + 1):
            value += sums.inverse_common[i, j] * step[j]
        out[i] = value
        square += value * value
    return square


@jit(inner="always")
def apart(a, b):
    """How far two points are from each other."""
    square = 0.0
    for i in range(len(a)):
        square += (a[i] - b[i]) ** 2
    return square**0.5


@jit(inner=True)
def difference(trial, site, i):
    """R_n(there) - R_n(here) of the i-th of the rows, site by site; arm 1 is left in the state."""
    own, sums = trial.control, trial.control.sums
    room, count = own.room, len(sums.places)
    found, calls = 0.0, own.calls
    own.target[0].first = 0
    for arm in range(2):
        place(trial, arm)
        if site < count:
            for j in range(sums.places.shape[1]):
                at = sums.places[site, j]
                room.slopes[at] = trial.floats[at] - sums.point[at]
        for j in range(len(sums.common)):
            at = sums.common[j]
            room.slopes[at] = trial.floats[at] - sums.point[at]
        room.row[0] = i
        call_rows(calls.rewards, calls.context, calls.row, arm, room.row, room.value)
        room.row[0] = sums.indices[i]
        call_residuals(own.reader, calls.context, own.source, calls.row, arm, room.row, room.value)
        found = room.value[0] - found
    if site < count:
        for j in range(sums.places.shape[1]):
            room.slopes[sums.places[site, j]] = 0.0
    return found


@jit(inner="always")
def first_above(upto, low, high, value):
    """The first place from low on, below high, whose number is above a value."""
    last = high - 1
    while low < last:
        middle = (low + last) // 2
        if upto[middle] > value:
            last = middle
        else:
            low = middle + 1
    return low


@jit(inner="always")
def draw_row(stream, own, which, site):
    """The place of a row of a site, by its weight."""
    sums = own.sums
    u = min(uniform(stream), BELOW_ONE)
    low, high = sums.indptr[site], sums.indptr[site + 1]
    return first_above(sums.upto[which], low, high, u * sums.totals[which, site])


@jit(inner=True)
def thin(stream, trial, params, which, site, rate, gap, pulls, rounds):
    """Decide by points of a process whose rate is known, and what is known of the gap."""
    own = trial.control
    sums, room = own.sums, own.room
    auxiliary = rate > params.lost
    if not (auxiliary or gap > 0.0):
        return Outcome(0, pulls, rounds, PREDICTED if pulls == 0 else RACED, 0, -1, -1)
    time = -log(uniform(stream))
    while time < rate:
        g = site
        if which == EVERY:
            u = min(uniform(stream), BELOW_ONE)
            g = first_above(room.rates, 0, len(room.rates), u * rate)
        i = draw_row(stream, own, which, g)
        n, c = sums.indices[i], sums.weights[which, i] * room.times[g]
        r = difference(trial, g, i)
        pulls, rounds = pulls + 2, rounds + 1
        code = beyond(r, c, sums.rounding)
        if code != 0:
            return failed(code, 1, np.int64(n), pulls, rounds)
        added = weighed(r, c, uniform(stream), auxiliary)
        if not auxiliary and added < 0.0:
            return Outcome(0, pulls, rounds, RACED, 0, -1, -1)
        gap += added
        time -= log(uniform(stream))
    ended = PREDICTED if pulls == 0 else RACED
    return Outcome(1 if gap > 0.0 else 0, pulls, rounds, ended, 0, -1, -1)


@jit(inner=True)
def compare(stay, go, gap, read):
    """Decide by sums that were read."""
    if not_a_sum(stay) or not_a_sum(go):
        return failed(NOT_FINITE, 0 if not_a_sum(stay) else 1, -1, read, 1)
    return Outcome(1 if gap + go > stay else 0, read, 1, EXACT, 0, -1, -1)


@jit(inner="always")
def site_of(trial):
    """Which site moves."""
    target = trial.target[0]
    return (target.start - trial.control.start) // target.length


@jit(inner="always")
def rate_of_site(trial, site):
    """The rate of a site's process; inf: its rows are read."""
    own = trial.control
    sums, room = own.sums, own.room
    if sums.summed[site] == 1:
        return np.inf
    wide = place_common(trial, 0, room.wide[0])
    here = place_site(trial, 0, site, room.w[0])
    there = place_site(trial, 1, site, room.w[1])
    far = (wide + max(here, there)) ** 0.5
    if not far <= sums.reach:
        return np.inf
    times = far * far * far * apart(room.w[0], room.w[1]) / 6.0
    room.times[site] = times
    return times * sums.totals[SITE, site]


@jit(inner="always")
def known_of_site(trial, site):
    """By how much the polynomial of a site rises, of the monomials that the decision wrote."""
    sums, room = trial.control.sums, trial.control.room
    widths, here, there = sums.shape.widths, room.own[0], room.own[1]
    return gain_of_site(widths, sums.coefficients[site], here, there, room.common[0])


@jit(inner=True)
def with_all_known(trial, gap):
    """A gap, and by how much the polynomial of what all rows see rises, of these monomials."""
    room = trial.control.room
    for j in range(1, len(room.together)):
        gap += room.together[j] * (room.common[1, j] - room.common[0, j])
    return gap


@jit(inner=True)
def choose_site(stream, trial, offsets, params, scratch):
    """Stay or go, of one site."""
    if offsets[0] == -np.inf or offsets[1] == -np.inf:
        return Outcome(1 if offsets[1] > -np.inf else 0, 0, 0, ALONE, 0, -1, -1)
    own, rows, site = trial.control, trial.target[0].rows, site_of(trial)
    rate = rate_of_site(trial, site)
    scratch.bound[0] += min(rate, 1.0 * rows)
    if not rate <= params.most * rows:
        stay = total(trial, 0, rows)
        go = total(trial, 1, rows)
        return compare(offsets[0] + stay, offsets[1] + go, 0.0, 2 * rows)
    sums, room = own.sums, own.room
    fill(sums.shape.common, room.wide[0], room.common[0])
    fill(sums.shape.own, room.w[0], room.own[0])
    fill(sums.shape.own, room.w[1], room.own[1])
    gap = offsets[1] - offsets[0] + known_of_site(trial, site)
    return thin(stream, trial, params, SITE, site, rate, gap, 0, 0)


@jit(inner=True)
def rate_of_all(trial):
    """(rate of the process of all rows, rows of sites that are read), for what all rows see.

    Also writes the polynomials of all other sites where these stand, as one.
    """
    own = trial.control
    sums, room = own.sums, own.room
    here = place_common(trial, 0, room.wide[0])
    wide = max(here, place_common(trial, 1, room.wide[1]))
    step = apart(room.wide[0], room.wide[1]) / 6.0
    room.together[:] = 0.0
    rate, read, count = 0.0, 0, len(sums.places)
    for g in range(count + 1):
        square = place_site(trial, 0, g, room.w[0]) if g < count else 0.0
        far = (wide + square) ** 0.5
        if far <= sums.reach and sums.totals[EVERY, g] < np.inf:
            room.times[g] = far * far * far * step
            rate += room.times[g] * sums.totals[EVERY, g]
            if g == count:
                room.w[0] = 0.0
            fill(sums.shape.own, room.w[0], room.own[0])
            collapse(sums.shape.widths, sums.coefficients[g], room.own[0], room.together)
        else:
            room.times[g] = -1.0
            read += sums.indptr[g + 1] - sums.indptr[g]
        room.rates[g] = rate
    return rate, read


@jit(inner=True)
def add_sites(trial, arm):
    """The sum of the rows of sites that are read, at an arm."""
    own, found = trial.control, 0.0
    place(trial, arm)
    for g in range(len(own.room.times)):
        if own.room.times[g] < 0.0:
            own.target[0].first = own.sums.indptr[g]
            found += sum_between(own.calls, 0, own.sums.indptr[g + 1] - own.sums.indptr[g])
    return found


@jit(inner=True)
def choose_common(stream, trial, offsets, params, scratch):
    """Stay or go, of what all rows see."""
    if offsets[0] == -np.inf or offsets[1] == -np.inf:
        return Outcome(1 if offsets[1] > -np.inf else 0, 0, 0, ALONE, 0, -1, -1)
    rows = trial.target[0].rows
    rate, read = rate_of_all(trial)
    scratch.bound[0] += min(rate + read, 1.0 * rows)
    if not rate + read <= params.most * rows:
        stay = remembered_total(trial, 0, rows)
        go = remembered_total(trial, 1, rows)
        return compare(offsets[0] + stay, offsets[1] + go, 0.0, 2 * rows)
    sums, room = trial.control.sums, trial.control.room
    for arm in range(2):
        fill(sums.shape.common, room.wide[arm], room.common[arm])
    gap = with_all_known(trial, offsets[1] - offsets[0])
    if read > 0:
        stay, go = add_sites(trial, 0), add_sites(trial, 1)
        if not_a_sum(stay) or not_a_sum(go) or stay == -np.inf:
            return failed(NOT_FINITE, 1 if not_a_sum(go) else 0, -1, 2 * read, 1)
        gap += go - stay
    return thin(stream, trial, params, EVERY, 0, rate, gap, 2 * read, 1 if read > 0 else 0)


# ----------------------------------------------------------------------------------------- audits
@jit(inner=True)
def add_residuals(trial, site, found):
    """Add up a site's residuals: (sum, that of max(-r, 0), of squares)."""
    sums = trial.control.sums
    for i in range(sums.indptr[site], sums.indptr[site + 1]):
        r = difference(trial, site, i)
        found[0] += r
        found[1] += max(-r, 0.0)
        found[2] += r * r


@jit(inner=True)
def count(case, found, gap, rows):
    """Write an audit down; an arm whose sum is no number, or -1."""
    tally = case.tally[0]
    if not abs(found[0]) < np.inf:
        return 1.0
    tally.audited += 1
    tally.regret += found[1]
    tally.margin += abs(gap + found[0])
    tally.variance += found[2] - found[0] * found[0] / rows
    return -1.0


@jit(inner="entry")
def audit_site(case, chosen):
    """What the factorised test costs at most, in nats of acceptance (approx/thinning.py)."""
    trial, offsets = case.trial, case.left
    if offsets[0] == -np.inf or offsets[1] == -np.inf:
        return -1.0
    rows, site = trial.target[0].rows, site_of(trial)
    rate = rate_of_site(trial, site)
    if not rate <= case.params.most * rows:  # all was read, at no cost
        return -1.0
    found = trial.control.room.left
    found[:] = 0.0
    add_residuals(trial, site, found)
    gap = offsets[1] - offsets[0] + known_of_site(trial, site)
    return count(case, found, gap, rows)


@jit(inner="entry")
def audit_common(case, chosen):
    """The same of what all rows see."""
    trial, offsets = case.trial, case.left
    if offsets[0] == -np.inf or offsets[1] == -np.inf:
        return -1.0
    rows = trial.target[0].rows
    rate, read = rate_of_all(trial)
    if not rate + read <= case.params.most * rows:
        return -1.0
    room, found = trial.control.room, trial.control.room.left
    found[:] = 0.0
    for g in range(len(room.times)):
        if room.times[g] >= 0.0:
            add_residuals(trial, g, found)
    gap = with_all_known(trial, offsets[1] - offsets[0])
    if read > 0:
        gap += add_sites(trial, 1) - add_sites(trial, 0)
    return count(case, found, gap, rows)
