"""MCMC that reads only the data it needs: subsampling decisions, exact or at a stated risk."""

from subsample_mcmc.decide import Choice, Draws, choose, draw
from subsample_mcmc.errors import CompileError, RewardError, SlowMathWarning, SpreadError
from subsample_mcmc.fastmath import exp, log, log1p
from subsample_mcmc.population import Population
from subsample_mcmc.rules.betting import Betting
from subsample_mcmc.rules.bnormal import b_normal, b_normal_table
from subsample_mcmc.rules.normal import Normal
from subsample_mcmc.rules.serfling import BernsteinSerfling
from subsample_mcmc.selectors.exact import Exact
from subsample_mcmc.selectors.lilucb import LilUCB
from subsample_mcmc.selectors.racing import Racing, expected_pulls

__version__ = "0.1.0"

__all__ = [
    "BernsteinSerfling",
    "Betting",
    "Choice",
    "CompileError",
    "Draws",
    "Exact",
    "LilUCB",
    "Normal",
    "Population",
    "Racing",
    "RewardError",
    "SlowMathWarning",
    "SpreadError",
    "b_normal",
    "b_normal_table",
    "choose",
    "draw",
    "exp",
    "expected_pulls",
    "log",
    "log1p",
]
