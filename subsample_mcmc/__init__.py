"""MCMC that reads only the data it needs: subsampling decisions, exact or at a stated risk.

    import subsample_mcmc as sm

    model = sm.Model(log_likelihood, data, state)      one datum's log likelihood, named blocks
    kernel = sm.Metropolis("mu") >> sm.Gibbs("k")      how a chain moves them
    trace = sm.sample(model, kernel)                   draws; print(trace.report()): their cost

Models           Model, Predictors, Population, from_pymc; positive, interval, simplex, ordered,
                 cholesky_corr; parquet: data in files, which need not fit in memory;
                 sm.models.glm, sm.models.arch, sm.models.coreference, sm.models.returns
Kernels          Gibbs, Metropolis (pcn, independence, delayed), Langevin, Slice, GibbsPartition,
                 MergeSplit, WangLandau, PseudoPrior, SpikeAndSlab, interweave, windows,
                 paths, SurrogateTransition, kernel; cycle (>>), mixture, repeat, when, side_by_side
Selectors        Racing, Exact, Thinned, LilUCB, SequentialHalving, LinGapE, BayesGap
Rules of races   Normal, Betting, BernsteinSerfling, TTest, Confidence; b_normal, expected_pulls
Fits             laplace: a Fit; of many groups, a HierarchyFit
Control variates Taylor, SiteTaylor, Bins, Bilinear, around a fit; derivatives, to look
Runs             sample, default_kernel, resume, load, audit, plan, Trace, cite;
                 predict: Predictions, data that a posterior says to come;
                 loo: LeaveOneOut; kfold: KFold, how well unseen data are predicted;
                 prior: a Trace of draws from the prior, to predict from
Single decisions choose, draw; identify, Experiment and sm.bandits for any bandit
In functions     log, log1p, exp, softplus, log_sigmoid, logsumexp, digamma, normal_cdf,
                 log_normal_cdf: right in the tails, and with known derivatives
Parts of yours   sm.extend: rules, selectors, control variates, strategies, kernels

help(sm.sample), help(sm.Metropolis), ...: each has an example. What is public stands here and in
sm.models, sm.bandits, sm.pymc and sm.extend. sm.kernels, sm.selectors, sm.rules and sm.bandits have
these names by room, sm.rules.Normal or sm.bandits.Experiment, which read better on their own; the
other modules are the package's own.
"""

import typing as _typing

__version__ = "0.2.0"  # before all imports: modules take it from here

from subsample_mcmc import bandits as bandits
from subsample_mcmc import extend as extend
from subsample_mcmc import kernels as kernels
from subsample_mcmc import models as models
from subsample_mcmc import pymc as pymc
from subsample_mcmc.approx.bins.bins import Bins
from subsample_mcmc.approx.by_site.control import SiteTaylor
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.hierarchy import HierarchyFit
from subsample_mcmc.approx.fit.laplace import laplace
from subsample_mcmc.approx.taylor.derivatives_shown import derivatives
from subsample_mcmc.approx.taylor.taylor import Taylor
from subsample_mcmc.bandits import selectors as selectors
from subsample_mcmc.bandits.experiment import Experiment
from subsample_mcmc.bandits.identification import Identification, Identifications
from subsample_mcmc.bandits.identify import identify
from subsample_mcmc.bandits.selectors.bayesgap import BayesGap
from subsample_mcmc.bandits.selectors.halving import SequentialHalving
from subsample_mcmc.bandits.selectors.lilucb import LilUCB
from subsample_mcmc.bandits.selectors.lingape import LinGapE
from subsample_mcmc.calls import helpful as _helpful
from subsample_mcmc.decisions import rules as rules
from subsample_mcmc.decisions.choose import Choice, Draws, choose, draw
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing, expected_pulls
from subsample_mcmc.decisions.rules.austerity import Confidence, TTest
from subsample_mcmc.decisions.rules.betting import Betting
from subsample_mcmc.decisions.rules.bnormal import b_normal, b_normal_table
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.rules.serfling import BernsteinSerfling
from subsample_mcmc.decisions.thinned import Thinned
from subsample_mcmc.errors import (
    CompileError,
    RewardError,
    SlowMathWarning,
    SpreadError,
    StoreError,
)
from subsample_mcmc.kernels.compose import cycle, mixture, repeat, when
from subsample_mcmc.kernels.custom import kernel
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.langevin import Langevin
from subsample_mcmc.kernels.metropolis import Metropolis, delayed
from subsample_mcmc.kernels.partition.bilinear import Bilinear
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.partition.merge_split import MergeSplit
from subsample_mcmc.kernels.paths.paths import paths
from subsample_mcmc.kernels.proposals.choose import independence, pcn
from subsample_mcmc.kernels.pseudoprior import PseudoPrior
from subsample_mcmc.kernels.sites.interweave import interweave
from subsample_mcmc.kernels.sites.side_by_side import side_by_side
from subsample_mcmc.kernels.sites.windows import windows
from subsample_mcmc.kernels.slice import Slice
from subsample_mcmc.kernels.spikes import SpikeAndSlab
from subsample_mcmc.kernels.surrogate.transition import SurrogateTransition
from subsample_mcmc.kernels.wanglandau import WangLandau
from subsample_mcmc.numerics.fastmath import exp, log, log1p
from subsample_mcmc.numerics.special import (
    digamma,
    log_normal_cdf,
    log_sigmoid,
    logsumexp,
    normal_cdf,
    softplus,
)
from subsample_mcmc.pymc import from_pymc
from subsample_mcmc.runs.audit import audit
from subsample_mcmc.runs.criticism.elpd import LeaveOneOut
from subsample_mcmc.runs.criticism.kfold import KFold, kfold
from subsample_mcmc.runs.criticism.loo import loo
from subsample_mcmc.runs.criticism.prior import prior
from subsample_mcmc.runs.default_kernel import DefaultKernel, default_kernel
from subsample_mcmc.runs.plan import Plan, plan
from subsample_mcmc.runs.predict import predict
from subsample_mcmc.runs.sample import load, resume, sample
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.runs.views.predictions import Predictions
from subsample_mcmc.target.constraints import (
    cholesky_corr,
    interval,
    ordered,
    positive,
    simplex,
)
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import Population
from subsample_mcmc.target.predictors import Predictors
from subsample_mcmc.target.sources.parquet import parquet

if _typing.TYPE_CHECKING:
    from subsample_mcmc.cli.cite import cite

__all__ = [
    "BayesGap",
    "BernsteinSerfling",
    "Betting",
    "Bilinear",
    "Bins",
    "Choice",
    "CompileError",
    "Confidence",
    "DefaultKernel",
    "Draws",
    "Exact",
    "Experiment",
    "Fit",
    "Gibbs",
    "GibbsPartition",
    "HierarchyFit",
    "Identification",
    "Identifications",
    "KFold",
    "Langevin",
    "LeaveOneOut",
    "LilUCB",
    "LinGapE",
    "MergeSplit",
    "Metropolis",
    "Model",
    "Normal",
    "Plan",
    "Population",
    "Predictions",
    "Predictors",
    "PseudoPrior",
    "Racing",
    "RewardError",
    "SequentialHalving",
    "SiteTaylor",
    "Slice",
    "SlowMathWarning",
    "SpikeAndSlab",
    "SpreadError",
    "StoreError",
    "SurrogateTransition",
    "TTest",
    "Taylor",
    "Thinned",
    "Trace",
    "WangLandau",
    "audit",
    "b_normal",
    "b_normal_table",
    "cholesky_corr",
    "choose",
    "cite",
    "cycle",
    "default_kernel",
    "delayed",
    "derivatives",
    "digamma",
    "draw",
    "exp",
    "expected_pulls",
    "from_pymc",
    "identify",
    "independence",
    "interval",
    "interweave",
    "kernel",
    "kfold",
    "laplace",
    "load",
    "log",
    "log1p",
    "log_normal_cdf",
    "log_sigmoid",
    "logsumexp",
    "loo",
    "mixture",
    "normal_cdf",
    "ordered",
    "parquet",
    "paths",
    "pcn",
    "plan",
    "positive",
    "predict",
    "prior",
    "repeat",
    "resume",
    "sample",
    "side_by_side",
    "simplex",
    "softplus",
    "when",
    "windows",
]

for _made in [*globals().values(), *(vars(bandits)[n] for n in bandits.__all__)]:
    if isinstance(_made, type) and _made.__name__ in (*__all__, *bandits.__all__):
        _helpful(_made)  # a call that does not fit says what to write


def __getattr__(name: str) -> _typing.Any:
    """Import `cite` when it is asked for: it knows all models, and some of them need pandas."""
    if name == "cite":
        from subsample_mcmc.cli.cite import cite

        globals()[name] = cite
        return cite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    rooms = ("bandits", "extend", "kernels", "models", "pymc", "rules", "selectors")
    return sorted([*__all__, "__version__", *rooms])
