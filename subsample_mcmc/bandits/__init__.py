"""Best arms of bandits with any source of rewards: strategies that sm.identify plays.

Start with strategy.py, what a strategy is, then identify.py, the way in; play.py is the loop around
a strategy, pull.py calls the user's rewards, experiment.py takes them from the world. strategies/
has one file for each family of papers, selectors/ those that also make decisions of chains. Kernels
and what a chain moves do not enter: a strategy knows arms by their numbers and rewards alone.
"""

from subsample_mcmc.bandits.experiment import Experiment
from subsample_mcmc.bandits.identification import Identification, Identifications
from subsample_mcmc.bandits.identify import identify
from subsample_mcmc.bandits.selectors.bayesgap import BayesGap
from subsample_mcmc.bandits.selectors.halving import SequentialHalving
from subsample_mcmc.bandits.selectors.lilucb import LilUCB
from subsample_mcmc.bandits.selectors.lingape import LinGapE
from subsample_mcmc.bandits.strategies.budget import UCBE, GapE, GapEV, UGapE, hardness_of_means
from subsample_mcmc.bandits.strategies.designs import XYAllocation
from subsample_mcmc.bandits.strategies.elimination import SuccessiveElimination, Uniform
from subsample_mcmc.bandits.strategies.lil import LILStopping
from subsample_mcmc.bandits.strategies.phases import ExponentialGap, MedianElimination
from subsample_mcmc.bandits.strategies.posterior import (
    GPUCB,
    BayesUCB,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
)
from subsample_mcmc.bandits.strategies.rejects import SuccessiveRejects, VarianceRejects
from subsample_mcmc.bandits.strategies.top_two import TopTwo
from subsample_mcmc.bandits.strategies.tracking import TrackAndStop
from subsample_mcmc.bandits.strategies.ucb import LUCB, UCB1
from subsample_mcmc.bandits.strategy import Strategy

__all__: list[str] = [
    "GPUCB",
    "LUCB",
    "UCB1",
    "UCBE",
    "BayesGap",
    "BayesUCB",
    "ExpectedImprovement",
    "Experiment",
    "ExponentialGap",
    "GapE",
    "GapEV",
    "Identification",
    "Identifications",
    "LILStopping",
    "LilUCB",
    "LinGapE",
    "MedianElimination",
    "ProbabilityOfImprovement",
    "SequentialHalving",
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
    "identify",
]


def __dir__() -> list[str]:
    return sorted(__all__)
