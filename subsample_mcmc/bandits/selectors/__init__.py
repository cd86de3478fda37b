"""How a decision is made: exactly, by racing, or by a strategy of best-arm identification.

Exact, Racing and Thinned live in decisions/; here are the others, each a spec beside the compiled
loop that plays its strategy on the rewards of a decision. Start with lilucb.py, which like
lingape.py is one file; of BayesGap and sequential halving the loop stands apart from the spec. What
a strategy learns from a reward stands in strategies/; what an arm means does not enter.
"""

from subsample_mcmc.bandits.selectors.bayesgap import BayesGap
from subsample_mcmc.bandits.selectors.halving import SequentialHalving
from subsample_mcmc.bandits.selectors.lilucb import LilUCB
from subsample_mcmc.bandits.selectors.lingape import LinGapE
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.thinned import Thinned

__all__ = ["BayesGap", "Exact", "LilUCB", "LinGapE", "Racing", "SequentialHalving", "Thinned"]


def __dir__() -> list[str]:
    return sorted(__all__)
