"""How hard a bandit is, by its true means: what the constants of UCB-E and its like are made of."""

import numpy as np

from subsample_mcmc.bandits.strategies.budget import GapEV, UGapE


def hardness_of_means(strategy: type, means, width=1.0, variances=None, epsilon=0.0, inside=True):
    """The hardness that a strategy's constant is made of, from true means (and variances).

    Two best arms are infinitely hard to tell apart, one arm is nothing to tell: both are refused,
    but for UGapE with epsilon above 0, which need not tell them apart.
    """
    means = np.asarray(means, dtype=float)
    if means.ndim != 1 or len(means) < 2 or not np.all(np.isfinite(means)):
        raise ValueError(f"means={means!r:.60}: give the finite means of two arms or more.")
    ordered = np.sort(means)
    gaps = np.where(means == ordered[-1], ordered[-1] - ordered[-2], ordered[-1] - means)
    if ordered[-1] == ordered[-2] and not (strategy is UGapE and epsilon > 0.0):
        raise ValueError(
            f"{np.sum(means == ordered[-1])} of {len(means)} arms have the highest mean, "
            f"{ordered[-1]}: nothing finite is the hardness of telling them apart. Pass "
            "hardness=None to the strategy, or use UGapE with epsilon above 0."
        )
    if strategy is UGapE:
        return float(np.sum(width**2 / np.maximum(0.5 * (gaps + epsilon), epsilon) ** 2))
    if strategy is GapEV:
        v = np.asarray(variances, dtype=float)
        if v.shape != means.shape or not np.all(v >= 0.0) or not np.all(np.isfinite(v)):
            raise ValueError(
                f"variances={variances!r:.60}: GapEV needs a number, 0 or more, for each of "
                f"{len(means)} arms."
            )
        return float(np.sum(((np.sqrt(v) + np.sqrt(v + 16.0 / 3.0 * width * gaps)) / gaps) ** 2))
    return float(np.sum((width**2 if inside else 1.0) / gaps**2))
