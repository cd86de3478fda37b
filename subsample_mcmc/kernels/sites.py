"""The compiled half of Gibbs: one draw of one site, in three ways, and a sweep over sites."""

from typing import Any

import numpy as np

from subsample_mcmc.decisions.rules.rule import ALL_IMPOSSIBLE, NOT_FINITE
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.decision import fail
from subsample_mcmc.kernels.kernel import BAD_PRIOR
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import gumbel
from subsample_mcmc.target.rewards import model_sources, place

FIXED, RANDOM, WEIGHTED = range(3)


@jit(inner=True)
def nothing_to_resize(params, scratch, rows):
    """Every decision is about all data."""


def fill_offsets(prior, local_prior):
    """fill(chain, tools, site) -> bool: log prior plus Gumbel of every arm, all numbers."""
    if local_prior:

        @jit(inner=True)
        def of_arm(trial, site, arm):
            return prior(trial.state, trial.data, site, arm)
    else:

        @jit(inner=True)
        def of_arm(trial, site, arm):
            place(trial, arm)
            return prior(trial.state)

    @jit(inner="always")
    def fill(chain, tools, site):
        trial, offsets, now = tools.judge.trial, tools.judge.offsets, chain.now[0]
        # p^(1/T): rewards and prior over T against a Gumbel, or both against T Gumbels.
        heat = tools.temperatures[min(now.iteration, len(tools.temperatures) - 1)]
        for arm in range(len(offsets)):
            value = of_arm(trial, site, arm)
            if not_a_sum(value):
                fail(now, trial, BAD_PRIOR, arm, -1)
                return False
            offsets[arm] = value + tools.tilt[arm] + heat * gumbel(chain.rng)
        return True

    return fill


def one_site(decide, resize, prior, local_prior: bool, touched: bool):
    """at_site(chain, tools, site): one draw of one site."""
    fill = fill_offsets(prior, local_prior)

    @jit(inner="always")
    def at_site(chain, tools, site):
        trial = tools.judge.trial
        target = trial.target[0]
        target.site = site
        current = trial.ints[target.start + site]
        if touched:
            target.first = tools.indptr[site]
            target.rows = tools.indptr[site + 1] - target.first
            resize(tools.judge.params, tools.judge.scratch, target.rows)
        if not fill(chain, tools, site):
            place(trial, current)
            return
        decide(chain, tools.judge, current)

    return at_site


def local_decider(model, touched: bool):
    """decide() for few data: sums and an argmax, without a selector between."""
    total = model_sources(model, touched).total

    @jit(inner=True)
    def decide(chain, judge, current):
        trial, tally = judge.trial, judge.tally[0]
        rows = trial.target[0].rows
        best, highest = -1, -np.inf
        for arm in range(len(judge.offsets)):
            if judge.offsets[arm] == -np.inf:
                continue
            value = total(trial, arm, rows)
            tally.pulls += rows
            tally.everything += rows
            if not_a_sum(value):
                fail(chain.now[0], trial, NOT_FINITE, arm, -1)
                place(trial, current)
                return -1
            if judge.offsets[arm] + value > highest:
                best, highest = arm, judge.offsets[arm] + value
        if best < 0:
            fail(chain.now[0], trial, ALL_IMPOSSIBLE, -1, -1)
            place(trial, current)
            return -1
        tally.decisions += 1
        tally.exact += 1
        tally.accepted += 1 if best != current else 0
        place(trial, best)
        return best

    return decide


def cumulative_site(model, prior, local_prior: bool):
    """at_site() for an ordered support: arm a + 1 differs from arm a in datum a alone."""
    fill = fill_offsets(prior, local_prior)
    rewards = model_sources(model, False).rewards

    @jit(inner="always")
    def at_site(chain, tools, site):
        judge = tools.judge
        trial, tally = judge.trial, judge.tally[0]
        target = trial.target[0]
        target.site = site
        current = trial.ints[target.start + site]
        if not fill(chain, tools, site):
            place(trial, current)
            return
        row, before, after = judge.sample[:1], judge.values[0, :1], judge.values[1, :1]
        # -inf terms are counted, not added: later arms may lose them again. `bad` is relative to
        # arm 0, which has `first_bad` of them.
        best, highest, relative, bad, least, first_bad = 0, judge.offsets[0], 0.0, 0, 0, 0
        for arm in range(1, len(judge.offsets)):
            row[0] = arm - 1
            rewards(trial, arm - 1, row, before)
            rewards(trial, arm, row, after)
            if not_a_sum(before[0]) or not_a_sum(after[0]):
                at = arm - 1 if not_a_sum(before[0]) else arm
                fail(chain.now[0], trial, NOT_FINITE, at, arm - 1)
                place(trial, current)
                return
            if before[0] == -np.inf:
                first_bad += 1
                bad -= 1
            else:
                relative -= before[0]
            if after[0] == -np.inf:
                bad += 1
            else:
                relative += after[0]
            score = judge.offsets[arm] + relative
            if score > -np.inf and (bad < least or (bad == least and score > highest)):
                best, highest, least = arm, score, bad
        if highest == -np.inf or first_bad + least > 0:
            fail(chain.now[0], trial, ALL_IMPOSSIBLE, -1, -1)
            place(trial, current)
            return
        tally.decisions += 1
        tally.exact += 1
        tally.pulls += 2 * (len(judge.offsets) - 1)
        tally.everything += 2 * (len(judge.offsets) - 1)  # all that an exact draw takes
        tally.accepted += 1 if best != current else 0
        place(trial, best)

    return at_site


def sweep(at_site, inner: Any):
    """step(chain, tools): every site once, or as many sites drawn at random."""

    @jit(inner=inner)
    def step(chain, tools):
        trial = tools.judge.trial
        tools.judge.tally[0].steps += 1
        sites = trial.target[0].length
        for k in range(sites):
            site = k
            if tools.scan == RANDOM:
                site = min(int(chain.rng.random() * sites), sites - 1)
            elif tools.scan == WEIGHTED:
                u, low, high = chain.rng.random(), 0, sites - 1
                while low < high:
                    middle = (low + high) // 2
                    if tools.weights[middle] > u:
                        high = middle
                    else:
                        low = middle + 1
                site = low
            at_site(chain, tools, site)
            if chain.now[0].code != 0:
                return

    return step
