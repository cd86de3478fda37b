"""The rivals of BayesGap: one posterior of all means, other choices of what to pull.

All of them take a Gaussian prior over the means of all arms, so that a pull of one teaches about
its neighbours: a budget below one pull for each arm is enough where arms are correlated.
"""

from dataclasses import dataclass
from math import erfc, exp, log, log1p, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy

from subsample_mcmc.bandits.strategies.bayesgap import bayes_gap_tell
from subsample_mcmc.bandits.strategies.budget import best_two
from subsample_mcmc.bandits.strategies.gaussian import (
    Belief,
    Prior,
    belief,
    draw_means,
    favourite,
    prior_of,
)
from subsample_mcmc.bandits.strategy import (
    BUDGET,
    Steps,
    Strategy,
    check_delta,
    settle_budget,
    stop,
)
from subsample_mcmc.numerics.jit import jit

BAYES_UCB, GP_UCB, THOMPSON, EI, PI = range(5)
FAR = 25.0  # standard deviations beyond which a series is better than erfc, which ends at 37


class RuleNumbers(NamedTuple):
    """value: delta of GP-UCB, margin of PI."""

    prior: Prior
    budget: int
    rule: int
    value: float
    quantiles: np.ndarray  # of the normal law, 1 - 1 / t, of every pull if BayesUCB asks


@jit(inner=True)
def log_improvement(z):
    """log(pdf(z) + z cdf(z)) of the normal law, the expected improvement in standard deviations.

    In logs, because far out all are 0 as numbers, and no arm would be better than another.
    """
    level, square = -0.5 * z * z - 0.5 * log(2.0 * pi), 1.0 / (z * z) if z < -FAR else 0.0
    if z < -FAR:
        series = 1.0 - square * (3.0 - square * (15.0 - square * (105.0 - 945.0 * square)))
        return level + log(square * series)
    if z < -1.0:  # cdf / pdf, which does not vanish, but is all of the first term but 1 / z^2
        return level + log1p(z * 0.5 * erfc(-z / sqrt(2.0)) / exp(level))
    return log(exp(level) + z * 0.5 * erfc(-z / sqrt(2.0)))


@jit(inner=True)
def rule_ask(params, state, rng):
    now, score, centre, sd = state.now[0], state.score, state.centre, state.sd
    arms = len(centre)
    if now.total == params.budget:
        return stop(state, BUDGET)
    t = now.total + 1
    if params.rule == THOMPSON:
        draw_means(state, rng, score)
    elif params.rule == BAYES_UCB:
        for k in range(arms):
            score[k] = centre[k] + params.quantiles[now.total] * sd[k]
    elif params.rule == GP_UCB:
        level = log(1.0 * arms) + 2.0 * log(1.0 * t)  # as whole numbers K t^2 would overflow
        wide = sqrt(2.0 * (level + log(pi * pi / 6.0) - log(params.value)))
        for k in range(arms):
            score[k] = centre[k] + wide * sd[k]
    else:
        best = best_two(centre)[0]
        if params.rule == PI:
            best += params.value
        for k in range(arms):
            apart = centre[k] - best
            if sd[k] > 0.0:  # PI in standard deviations, EI in logs: as probabilities they saturate
                z = apart / sd[k]
                score[k] = z if params.rule == PI else log(sd[k]) + log_improvement(z)
            else:
                score[k] = np.inf if apart > 0.0 else -np.inf
    chosen, ties = 0, 0
    for k in range(arms):
        if k == 0 or score[k] > score[chosen]:
            chosen, ties = k, 1
        elif score[k] == score[chosen]:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = k
    now.count = 1
    return chosen


@jit(inner=True)
def rule_answer(params, state):
    """The highest posterior mean; of equal ones that of the arm pulled most."""
    return favourite(state.centre, state.pulls)


BY_POSTERIOR = Steps(rule_ask, bayes_gap_tell, rule_answer)


@dataclass(frozen=True, eq=False, repr=False)
class ByPosterior(Strategy):
    """What BayesUCB, GPUCB, Thompson, ExpectedImprovement and ProbabilityOfImprovement share.

    They name the arm with the highest posterior mean. See BayesGap for the arguments.
    """

    budget: int
    covariance: Any
    noise: Any
    prior_scale: float = 1.0
    mean: Any = 0.0
    rule = BAYES_UCB

    def __post_init__(self):
        settle_budget(self)

    def steps(self) -> Steps:
        """One pull at a time, O(K d)."""
        return BY_POSTERIOR

    def numbers(self, arms: int) -> RuleNumbers:
        """The prior's root, and quantiles."""
        covariance = self.prior_scale**2 * np.asarray(self.covariance, dtype=float)
        prior = prior_of(covariance, self.noise, self.mean, arms)
        value = getattr(self, "delta", getattr(self, "margin", 0.0))
        t = np.arange(1, (self.budget if self.rule == BAYES_UCB else 1) + 1) + 1.0
        return RuleNumbers(prior, self.budget, self.rule, value, scipy.special.ndtri(1.0 - 1.0 / t))

    def fresh(self, arms: int, params: Any) -> Belief:
        """The prior."""
        return belief(params.prior)

    def most_pulls(self, arms: int) -> int:
        """As given."""
        return self.budget


@dataclass(frozen=True, eq=False, repr=False)
class BayesUCB(ByPosterior):
    """The highest posterior quantile 1 - 1 / (t + 1) (Kaufmann, Cappe & Garivier 2012).

    budget, covariance, noise, prior_scale, mean: as in sm.BayesGap.
    """


@dataclass(frozen=True, eq=False, repr=False)
class GPUCB(ByPosterior):
    """The highest mean + sqrt(2 log(K t^2 pi^2 / (6 delta))) sd (Srinivas et al. 2010).

    budget, covariance, noise, prior_scale, mean: as in sm.BayesGap.
    delta: chance that some mean lies above its bound, of the paper's theorem.
    """

    delta: float = 0.05
    rule = GP_UCB

    def __post_init__(self):
        super().__post_init__()
        check_delta(self.delta)


@dataclass(frozen=True, eq=False, repr=False)
class Thompson(ByPosterior):
    """The best arm of a draw from the posterior.

    budget, covariance, noise, prior_scale, mean: as in sm.BayesGap.
    """

    rule = THOMPSON


@dataclass(frozen=True, eq=False, repr=False)
class ExpectedImprovement(ByPosterior):
    """The largest expected improvement over the highest posterior mean.

    budget, covariance, noise, prior_scale, mean: as in sm.BayesGap.
    """

    rule = EI


@dataclass(frozen=True, eq=False, repr=False)
class ProbabilityOfImprovement(ByPosterior):
    """The largest probability to improve on the highest posterior mean by a margin.

    budget, covariance, noise, prior_scale, mean: as in sm.BayesGap.
    margin: by which the highest mean is to be exceeded.
    """

    margin: float = 0.01
    rule = PI

    def __post_init__(self):
        super().__post_init__()
        if not 0.0 <= self.margin < np.inf:
            raise ValueError(f"margin={self.margin!r}: give a finite number, 0 or more.")
