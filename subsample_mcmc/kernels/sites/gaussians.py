"""The Gaussian that each site learns in warm-up, and proposes from.

A random walk takes some five moves of one number, and more of several, to forget where it was.
What a site's data say of it is nearly normal, as a rule: a proposal from the normal distribution
that its values had in warm-up forgets at once. Now and then a site walks all the same, which serves
where its tails are heavier than the Gaussian's, or warm-up saw too little.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.kernels.adapt import SETTLED, WINDOW, Tuning
from subsample_mcmc.kernels.proposals import ProposalNumbers
from subsample_mcmc.numerics.jit import jit

WALKS = 1 / 8  # share of random walks among the proposals of a site that knows its Gaussian
TARGET = 0.55  # acceptance, below which beta falls: see sm.pcn
ABOVE = 0.5  # how far log beta may rise above 0: a few refusals do not take it below, then
# A chain seldom gets out of tails that are heavier than its proposals': these are drawn wider than
# what was seen, by 5%, and by as much again as a variance of so few draws may be off.
WIDER, DRAWS = 1.05, 10.0
SINGULAR = 1e-10  # of a variance: what others leave of it, from which on there is no Gaussian
SEEN, END, KNOWN = range(3)


class SiteGaussians(NamedTuple):
    """What sites know of their values, and what they see in the window of warm-up under way."""

    learns: int  # 0: nothing is learnt, all walk
    numbers: ProposalNumbers  # mean and factor of each site's Gaussian
    beta: Tuning
    window: np.ndarray  # (sites, 3) values seen, end of the window, is the Gaussian known
    mean: np.ndarray  # (sites, d) of the window
    cross: np.ndarray  # (sites, d, d) sums of products around it: the lower triangle


def make_gaussians(run, numbers: ProposalNumbers, sites: int, free: int, learns: bool):
    """Nothing known yet; registered with the chain's checkpoint."""
    rows = sites if learns else 0
    window, beta, unused = np.zeros((rows, 3)), np.zeros((rows, 6)), np.zeros(1)
    window[:, END] = WINDOW
    numbers = numbers._replace(
        mean=run.keep("gaussian_mean", np.zeros((rows, free))),
        columns=run.keep("gaussian_columns", np.zeros((rows, free, free))),
    )
    return SiteGaussians(
        int(learns), numbers,
        Tuning(TARGET, 0, ABOVE, run.keep("beta", beta), unused, unused, unused),
        run.keep("window", window), run.keep("window_mean", np.zeros((rows, free))),
        run.keep("window_cross", np.zeros((rows, free, free))),
    )  # fmt: skip


@jit(inner="always")
def walks(rng, known, site):
    """Does the site make a random walk."""
    if known.learns == 0 or known.window[site, KNOWN] == 0.0:
        return True
    return rng.random() < WALKS


@jit(inner="always")
def beta_of(known, site):
    """Beta of one site: a view."""
    beta = known.beta
    return Tuning(
        beta.target, beta.scaled, beta.most, beta.step[site], beta.scales, beta.mean, beta.square
    )


@jit(inner=True)
def factor(cross, scale, columns):
    """Write the Cholesky factor of scale * cross by columns; False, and nothing, if it has none.

    cross: its lower triangle, which is lost.
    """
    d = len(cross)
    for j in range(d):
        whole = cross[j, j] * scale
        for i in range(j, d):
            value = cross[i, j] * scale
            for k in range(j):
                value -= cross[i, k] * cross[j, k]
            if i > j:
                cross[i, j] = value / cross[j, j]
            elif value > SINGULAR * whole and value > 1e-300:
                cross[j, j] = value**0.5
            else:
                return False
    for j in range(d):
        for i in range(d):
            columns[j, i] = cross[i, j] if i >= j else 0.0
    return True


@jit(inner="always")
def watch(known, site, u, now):
    """Take note of a value in warm-up; at the end of a window, know its Gaussian."""
    if known.learns == 0 or now.warm == 0:
        return
    window, mean, cross = known.window[site], known.mean[site], known.cross[site]
    window[SEEN] += 1.0
    seen = window[SEEN]
    # mean_n = mean_(n-1) + change / n; products around it: (1 - 1/n) change change'.
    for i in range(len(u)):
        for j in range(i + 1):
            cross[i, j] += (1.0 - 1.0 / seen) * (u[i] - mean[i]) * (u[j] - mean[j])
    for i in range(len(u)):
        mean[i] += (u[i] - mean[i]) / seen
    # Beta and the step need time to fit a new Gaussian: none at the end of warm-up.
    late = now.warmup > 0 and now.iteration > SETTLED * now.warmup
    if seen < window[END] or late:
        return
    wider = WIDER * WIDER + DRAWS / seen
    if factor(cross, wider / seen, known.numbers.columns[site]):
        window[KNOWN] = 1.0
        for i in range(len(u)):
            known.numbers.mean[site, i] = mean[i]
    mean[:] = 0.0
    cross[:] = 0.0
    window[SEEN] = 0.0
    window[END] *= 2.0
