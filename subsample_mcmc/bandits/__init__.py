"""Best arms of bandits with any source of rewards: strategies that sm.identify plays."""

from subsample_mcmc.bandits.budget import UCBE, GapE, GapEV, UGapE
from subsample_mcmc.bandits.designs import XYAllocation
from subsample_mcmc.bandits.elimination import SuccessiveElimination, Uniform
from subsample_mcmc.bandits.hardness import hardness_of_means
from subsample_mcmc.bandits.lil import LILStopping
from subsample_mcmc.bandits.phases import ExponentialGap, MedianElimination
from subsample_mcmc.bandits.posterior import (
    GPUCB,
    BayesUCB,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
)
from subsample_mcmc.bandits.rejects import SuccessiveRejects, VarianceRejects
from subsample_mcmc.bandits.strategy import Strategy
from subsample_mcmc.bandits.toptwo import TopTwo
from subsample_mcmc.bandits.tracking import TrackAndStop
from subsample_mcmc.bandits.ucb import LUCB, UCB1

__all__ = [
    "GPUCB",
    "LUCB",
    "UCB1",
    "UCBE",
    "BayesUCB",
    "ExpectedImprovement",
    "ExponentialGap",
    "GapE",
    "GapEV",
    "LILStopping",
    "MedianElimination",
    "ProbabilityOfImprovement",
    "Strategy",
    "SuccessiveElimination",
    "SuccessiveRejects",
    "Thompson",
    "TopTwo",
    "TrackAndStop",
    "UGapE",
    "Uniform",
    "VarianceRejects",
    "XYAllocation",
    "hardness_of_means",
]


def __dir__() -> list[str]:
    return sorted(__all__)
