"""BayesGap (Hoffman, Shahriari & de Freitas 2014): gaps under a Gaussian prior of all means.

J is the arm of least possible regret, max over i != k of U_i - L_k with U, L = mean +- beta sd; j
the arm with the highest U besides (their Algorithm 1 prints argmin; its text and lemmas need
argmax). The less known of the two is pulled; the J of least regret at any time is named. Ties are
broken at random: before the first pull all arms may look alike, and a line of arms is symmetric.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategies.budget import best_two
from subsample_mcmc.bandits.strategies.gaussian import Prior, learn, prior_of
from subsample_mcmc.bandits.strategy import BUDGET, Steps, stop
from subsample_mcmc.numerics.jit import jit

HARD = 3.0  # standard deviations of the bounds by which the hardness is estimated
TIE = 1e-10  # of the widest bound: what differs by less differs by rounding
PRIME = 2**31 - 1  # squares of what is below do not overflow, which plain Python would warn of


class BayesGapNumbers(NamedTuple):
    """kappa: by eta^2; spare: pulls left out of the budget; hardness: below 0, estimated."""

    prior: Prior
    budget: int
    epsilon: float
    kappa: float
    spare: int
    hardness: float
    beta: float  # above zero: in place of the paper's
    last: int  # judge the last posterior, too


@jit(inner=True)
def fill_uppers(state, wide):
    """mean + wide sd of every arm; (the highest, its place, the highest but one)."""
    for k in range(len(state.centre)):
        state.score[k] = state.offsets[k] + state.centre[k] + wide * state.sd[k]
    return best_two(state.score)


@jit(inner=True)
def foremost(state):
    """(the arm with the highest mean, the highest lower bound of the others)."""
    leader, behind = 0, -np.inf
    for k in range(len(state.centre)):
        if state.centre[k] + state.offsets[k] > state.centre[leader] + state.offsets[leader]:
            leader = k
    for k in range(len(state.centre)):
        if k != leader:
            behind = max(behind, state.score[k] - 2.0 * HARD * state.sd[k])
    return leader, behind


@jit(inner=True)
def exploration(params, state):
    """The paper's beta: by the budget and the hardness, an upper bound of it where estimated."""
    hardness, noise, arms = params.hardness, 0.0, len(state.centre)
    if params.beta > 0.0:
        return params.beta
    if hardness <= 0.0:
        hardness = 0.0
        best, place, second = fill_uppers(state, HARD)
        leader, behind = foremost(state)
        for k in range(arms):
            lower = state.score[k] - 2.0 * HARD * state.sd[k]
            gap = (second if k == place else best) - lower
            if k == leader:  # its gap is that to the second: how far ahead it may be counts, too
                gap = max(gap, state.score[k] - behind)
            half = max(0.5 * (gap + params.epsilon), params.epsilon, 1e-12)
            hardness += 1.0 / (half * half)
    for k in range(arms):
        noise += params.prior.noise[k] / arms
    free = (params.budget - params.spare) / noise + params.kappa
    return sqrt(max(free, 0.0) / (4.0 * hardness))


@jit(inner=True)
def lot(salt, arm):
    """A number that is as good as random, for each arm its own."""
    x = (salt + 40503 * (arm + 1)) % PRIME
    x = (x * x + salt) % PRIME
    return x * x % PRIME


@jit(inner=True)
def wins_toss(salt, arm, other):
    """Which of two equal arms: every one of many is as likely to win them all."""
    return lot(salt, arm) > lot(salt, other)


@jit(inner=True)
def judge(params, state, salt):
    """The arm of least possible regret, that regret, its closest rival; ties by 31 random bits."""
    beta, arms, widest = exploration(params, state), len(state.centre), 0.0
    best, place, second = fill_uppers(state, beta)
    uppers, leader, rival, least = state.score, -1, -1, np.inf
    for k in range(arms):
        widest = max(widest, beta * state.sd[k])
    near = TIE * widest
    for k in range(arms):
        regret = (second if k == place else best) - (uppers[k] - 2.0 * beta * state.sd[k])
        equal = leader >= 0 and abs(regret - least) <= near
        if leader < 0 or (wins_toss(salt, k, leader) if equal else regret < least):
            leader = k
        least = min(least, regret)
    for k in range(arms):
        if k == leader:
            continue
        equal = rival >= 0 and abs(uppers[k] - uppers[rival]) <= near
        if rival < 0 or (wins_toss(salt, k, rival) if equal else uppers[k] > uppers[rival]):
            rival = k
    return leader, least, rival


@jit(inner=True)
def choose_arm(params, state, salt):
    """(the arm to pull, the least regret); notes who is to be named if none was less so far."""
    now = state.now[0]
    leader, least, rival = judge(params, state, salt)
    if now.total == 0 or least < now.value:
        now.value, now.second = least, leader
    return (rival if state.sd[rival] > state.sd[leader] else leader), least


@jit(inner=True)
def bayes_gap_ask(params, state, rng):
    now = state.now[0]
    over = now.total == params.budget
    if over and params.last == 0:
        return stop(state, BUDGET)
    arm = choose_arm(params, state, np.int64(rng.random() * PRIME))[0]
    if over:
        return stop(state, BUDGET)
    now.count = 1
    return arm


@jit(inner=True)
def bayes_gap_tell(params, state, arm, reward):
    learn(state, arm, reward, params.prior.noise[arm])


@jit(inner=True)
def bayes_gap_answer(params, state):
    """The arm whose regret was bounded best at any time."""
    return state.now[0].second


BAYES_GAP = Steps(bayes_gap_ask, bayes_gap_tell, bayes_gap_answer)


def bayes_gap_numbers(spec, arms: int, noise, beta: float = 0.0) -> BayesGapNumbers:
    """Numbers of an sm.BayesGap: the prior's root, and the paper's kappa / eta^2."""
    covariance = spec.prior_scale**2 * np.asarray(spec.covariance, dtype=float)
    prior = prior_of(covariance, noise, spec.mean, arms)
    variances = np.diag(covariance)[np.diag(covariance) > 0.0]
    spare = spec.budget >= 2 * arms if spec.all_pulled is None else spec.all_pulled
    hardness = -1.0 if spec.hardness is None else spec.hardness
    return BayesGapNumbers(
        prior, spec.budget, spec.epsilon, float(np.sum(1.0 / variances)), arms if spare else 0,
        hardness, beta, int(spec.judge_last),
    )  # fmt: skip
