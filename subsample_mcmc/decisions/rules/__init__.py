"""When an arm may be dropped: one file for each theorem.

rule.py says what a rule is and what a race offers it. A rule never knows what an arm means, nor
where its rewards come from: nothing of models, kernels or control variates enters here.
"""

from subsample_mcmc.decisions.rules.austerity import Confidence, TTest
from subsample_mcmc.decisions.rules.betting import Betting
from subsample_mcmc.decisions.rules.bnormal import b_normal, b_normal_table
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.rules.serfling import BernsteinSerfling

__all__ = [
    "BernsteinSerfling", "Betting", "Confidence", "Normal", "TTest", "b_normal", "b_normal_table",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
