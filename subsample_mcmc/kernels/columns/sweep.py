"""A sweep over coefficients that may be 0, one after the other, with their predictors kept."""

from math import log
from typing import NamedTuple

import numpy as np

from subsample_mcmc.decisions.rules.rule import ALONE, NOT_FINITE, Outcome
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.base import BAD_PRIOR
from subsample_mcmc.kernels.columns.flip import Flips, audit, choose
from subsample_mcmc.kernels.columns.kept import add_scaled, begin, go, known_gap
from subsample_mcmc.kernels.columns.proposal import is_asked, proposed
from subsample_mcmc.kernels.decision import count_decision, count_end, fail
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import is_audited
from subsample_mcmc.target.rewards import Trial, prior_of


class ColumnTools(NamedTuple):
    """What a sweep over the coefficients works with."""

    trial: Trial
    flips: Flips
    tally: np.recarray
    first: int  # where the coefficients start in the floats
    indicators: int  # and these in the integers
    mean: np.ndarray
    precision: np.ndarray  # (d, d)
    chance: np.ndarray  # (d,) that a sweep asks whether a coefficient changes its indicator
    pull: np.ndarray  # (d,) precision times (coefficients - mean)
    noise: np.ndarray  # (2,)
    prior: np.ndarray  # (1,) the log prior of the state
    audited: int


@jit(inner=True)
def pull_anew(tools):
    """How the fit's Gaussian pulls at each coefficient."""
    for j in range(len(tools.mean)):
        tools.pull[j] = 0.0
    for k in range(len(tools.mean)):
        step = tools.trial.floats[tools.first + k] - tools.mean[k]
        add_scaled(tools.pull, step, tools.precision[k])


@jit(inner="always")
def count(chain, tools, made, k, value):
    """Count a decision; False after an error."""
    tally, now, trial, kept = tools.tally[0], chain.now[0], tools.trial, tools.flips.kept
    count_decision(tally, 2 * len(kept.sums))
    count_end(tally, made.ended)
    tally.pulls += made.pulls
    tally.rounds += made.rounds
    tally.distance += kept.now[0].square / len(kept.point)
    if made.ended < 0:
        fail(now, trial, made.ended, made.bad_arm, made.bad_row)
        return False
    if now.audit > 0.0 and tools.audited != 0 and is_audited(chain):
        row = audit(tools.flips, tally, k, value)
        if row >= 0:
            fail(now, trial, NOT_FINITE, 1, row)
            return False
    tally.accepted += made.arm
    return True


@jit(inner=True)
def column_move(chain, tools, j, on):
    """Propose coefficient j on (1) or off (0), and decide; False after an error."""
    trial, kept, now = tools.trial, tools.flips.kept, chain.now[0]
    at, k = tools.indicators + j, tools.first + j
    before, old = trial.ints[at], trial.floats[k]
    own = tools.precision[j, j]
    mean, sd = old - tools.pull[j] / own, 1.0 / own**0.5  # given the others
    new, ratio = proposed(chain, tools.noise, before, on, old, mean, sd)
    threshold = log(1.0 - chain.rng.random())
    trial.floats[k], trial.ints[at] = new, on
    here, there = tools.prior[0], prior_of(trial)
    trial.floats[k], trial.ints[at] = old, before
    if not_a_sum(here) or not_a_sum(there):
        fail(now, trial, BAD_PRIOR, 0 if not_a_sum(here) else 1, -1)
        return False
    if here == -np.inf or there == -np.inf:
        made = Outcome(1 if there > -np.inf else 0, 0, 0, ALONE, 0, -1, -1)
    else:
        ahead = there - here + ratio - threshold + known_gap(kept, k, new)
        made = choose(chain.rows, tools.flips, k, new, ahead)
    if not count(chain, tools, made, k, new):
        return False
    if made.arm == 1:
        trial.floats[k], trial.ints[at], tools.prior[0] = new, on, there
        add_scaled(tools.pull, new - old, tools.precision[j])
        go(kept, trial.floats, k)
    return True


@jit(inner="always")
def sweep_of_columns(chain, tools):
    """step(chain, tools): each coefficient is offered the other state, then a fresh value."""
    trial, first, d = tools.trial, tools.first, len(tools.mean)
    tools.tally[0].steps += 1
    for j in range(d):  # a start may contradict its indicators: they count
        if trial.ints[tools.indicators + j] == 0:
            trial.floats[first + j] = 0.0
    begin(tools.flips.kept, trial.floats)
    pull_anew(tools)
    tools.prior[0] = prior_of(trial)
    for j in range(d):
        asks = is_asked(chain, tools.chance[j], trial.ints[tools.indicators + j])
        if asks and not column_move(chain, tools, j, 1 - trial.ints[tools.indicators + j]):
            return
        if trial.ints[tools.indicators + j] == 1 and not column_move(chain, tools, j, 1):
            return
