"""Priors of single sites, f(state, site), called from compiled code by their address."""

from typing import Any, NamedTuple

from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import NUMBER, FunctionAddress


@memoised
def of_site(prior) -> Any:
    """A prior of one site's value, to be called by its address."""

    @jit(inner="entry", user=True)
    def value(context, site, nothing):
        return 1.0 * prior(context.state, site)

    return value


def prior_by_address(prior, context) -> FunctionAddress:
    """A user's f(state, site), called with a context and a site."""
    function = of_site(jit(prior, flags=FLAGS, user=True, inner=True))
    return FunctionAddress(function, context, NUMBER, NUMBER)


class AskedPrior(NamedTuple):
    """A site's prior, and what it reads."""

    read: Any  # (context, site, nothing)
    context: Any
