"""The proposal a user asks for: sm.pcn, sm.independence, functions of his own, or nothing."""

from typing import Any

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.kernels.proposals.gaussian import Gaussian
from subsample_mcmc.kernels.proposals.learned import Learned
from subsample_mcmc.kernels.proposals.own import UserProposal
from subsample_mcmc.kernels.proposals.walk import RandomWalk

DEFENSIVE = 1 / 32  # share of defensive proposals


@helpful
def pcn(
    mean=None, covariance=None, beta: float | None = None, defensive: float = DEFENSIVE
) -> Gaussian | Learned:
    """Preconditioned Crank-Nicolson around N(mean, covariance) of the free coordinates.

    pcn(fit), fit = sm.laplace(model), takes both from the fit, also those of several blocks that
    move as one; a mean given as numbers has their free coordinates in the order of their names.
    Where that Gaussian is the posterior, every proposal is accepted, whatever the dimension. A
    block of varying length takes a list of fits, one for each length.

    pcn() learns both in warm-up, from walks of the kernel's scale at first: for posteriors that are
    not fitted beforehand. One proposal in eight stays such a walk. It learns where the values lie,
    whatever else moves: what hangs on other blocks (an intercept beside effects) and so moves in
    small steps only, belongs in a kernel of its own.

    Sites that move one by one (touches) learn such Gaussians by themselves; pcn(fit), without beta,
    tells them those of a fit to begin with.

    mean: a fit, which has the covariance too; numbers; for a block of varying length, a list of
        fits; None: both are learnt.
    covariance: of the free coordinates, where mean is numbers.
    beta: how far a step goes, from 0 to 1, which is independence. None: .3 at first; warm-up
        adapts it until 55% of the proposals are accepted, or it is .95.
    defensive: share of the proposals that do not trust the Gaussian: half of them a random walk in
        its covariance, half draws from Student's t around its mean. Without them, 0, a posterior
        with heavier tails holds a chain there for very long.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.5), control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["accepted"].mean() > 0.9)  # this posterior is Gaussian
        True

    Without a fit:
        >>> kernel = sm.Metropolis("beta", proposal=sm.pcn(), selector=sm.Exact())
        >>> trace = sm.sample(model, kernel, draws=500, warmup=1_000, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["accepted"].mean() > 0.6)
        True
    """
    if beta is not None and not 0.0 < beta <= 1.0:
        raise ValueError(f"pcn(beta={beta!r}): give a step with 0 < beta <= 1; 1 is independence.")
    if mean is None:
        if covariance is not None or beta is not None or defensive != DEFENSIVE:
            raise TypeError(
                "pcn(...): covariance, beta and defensive are about a mean: give a fit, "
                "sm.pcn(fit, beta=0.5), or nothing, and warm-up learns all of it."
            )
        return Learned()
    return Gaussian(mean, moments_given("pcn", mean, covariance), beta, share(defensive))


@helpful
def independence(mean, covariance=None, defensive: float = DEFENSIVE) -> Gaussian:
    """Proposals from N(mean, covariance) of the free coordinates, whatever the current state.

    mean: as in sm.pcn; independence(fit), fit = sm.laplace(model), takes both from the fit.
    covariance, defensive: as in sm.pcn.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("beta", proposal=sm.independence(fit), control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["accepted"].mean() > 0.9)  # this posterior is Gaussian
        True
    """
    return Gaussian(mean, moments_given("independence", mean, covariance), 1.0, share(defensive))


def share(given) -> float:
    """The share of defensive proposals, checked."""
    if not (isinstance(given, int | float | np.number) and 0.0 <= given <= 1.0):
        raise ValueError(f"defensive={given!r}: give a share of the proposals, 0 .. 1.")
    return float(given)


def moments_given(name: str, mean, covariance) -> Any:
    """The covariance, unless the mean is a fit that has its own; refuses neither and both."""
    fit = isinstance(mean, list | tuple) and len(mean) > 0 and hasattr(mean[0], "gaussian")
    if (fit or hasattr(mean, "gaussian")) == (covariance is None):
        return covariance
    raise TypeError(f"{name}({mean!r:.40}, ...): give a fit, or a mean and a covariance.")


def proposal_of(given) -> Any:
    """The proposal a user asked for."""
    if given is None:
        return RandomWalk()
    if isinstance(given, Gaussian | RandomWalk | UserProposal):  # a kernel made from another
        return given
    if callable(given):
        return UserProposal(given, None)
    if isinstance(given, tuple) and len(given) == 2 and callable(given[0]):
        return UserProposal(*given)
    raise TypeError(
        f"proposal={given!r}: give sm.pcn(mean, covariance), sm.independence(mean, covariance), "
        "draw(rng, current, out) if it is symmetric, or (draw, log_density(to, given))."
    )
