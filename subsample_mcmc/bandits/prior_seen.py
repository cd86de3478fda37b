"""Is the Gaussian prior of strategies that learn by one as wide as the means that were seen.

An arm that was not pulled is believed to lie near the prior mean, 0 where nobody says another. Of
rewards near 90 the first arm to be pulled is then far above all others, and is the one that is
named. Nothing is promised of such a run, but it can be told.
"""

from math import log

import numpy as np

from subsample_mcmc.bandits.scale import SURE, RewardsSeen
from subsample_mcmc.bandits.selectors.bayesgap import BayesGap
from subsample_mcmc.bandits.strategies.posterior import ByPosterior
from subsample_mcmc.bandits.strategy import Strategy
from subsample_mcmc.errors import warn


def off_prior(strategy: Strategy, seen: RewardsSeen) -> float:
    """How many standard deviations an arm's mean lies off the prior, if it is refuted; else 0.

    If the prior is right, an arm's mean does so with probability e^-SURE at most.
    """
    own = getattr(strategy, "strategy", strategy)  # of LILStopping
    if not isinstance(own, BayesGap | ByPosterior) or not seen.pulls.any():
        return 0.0
    arms, pulled = len(seen.pulls), seen.pulls > 0
    variance = own.prior_scale**2 * np.diag(np.asarray(own.covariance, dtype=float))[pulled]
    noise, mean = (np.broadcast_to(value, (arms,))[pulled] for value in (own.noise, own.mean))
    apart = np.abs(seen.means[pulled] - mean) / np.sqrt(variance + noise / seen.pulls[pulled])
    times = float(apart.max())
    return times if 0.5 * times * times > SURE + log(arms) else 0.0


def warn_of_prior(name: str, times: float, runs: str = "") -> None:
    """Say that means lie so far off."""
    if times > 0.0:
        warn(
            f"{name}: an arm's mean reward{runs} lies {times:.3g} standard deviations off the "
            "prior, by which it judges arms that it has not pulled: give mean=, a level that "
            "rewards have, and a covariance as wide as means differ, or prior_scale=.",
        )
