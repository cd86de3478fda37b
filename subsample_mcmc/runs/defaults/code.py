"""Kernels of their code, so that the code that is shown is the code that ran."""

import json
from types import SimpleNamespace
from typing import Any

from subsample_mcmc.approx.by_site.control import SiteTaylor
from subsample_mcmc.approx.fit.laplace import laplace
from subsample_mcmc.approx.taylor.taylor import Taylor
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import repeat
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.metropolis import Metropolis
from subsample_mcmc.kernels.paths.paths import paths
from subsample_mcmc.kernels.proposals.choose import independence, pcn
from subsample_mcmc.kernels.pseudoprior import PseudoPrior
from subsample_mcmc.kernels.sites.interweave import interweave
from subsample_mcmc.kernels.sites.windows import windows
from subsample_mcmc.kernels.slice import Slice
from subsample_mcmc.kernels.surrogate.transition import SurrogateTransition

FEW = 10  # data for each parameter, below which no proposals follow a fit
OPTIONS = "<options>"  # in code that is written: where more may be given
NAMES = SimpleNamespace(  # what is written as sm.Gibbs, and so on
    Gibbs=Gibbs, Metropolis=Metropolis, Slice=Slice, Exact=Exact, Racing=Racing, Taylor=Taylor,
    SiteTaylor=SiteTaylor,
    PseudoPrior=PseudoPrior, SurrogateTransition=SurrogateTransition,
    pcn=pcn, independence=independence, laplace=laplace, interweave=interweave, repeat=repeat,
    windows=windows, paths=paths,
)  # fmt: skip


def of_code(code: str, setup, known: dict) -> Kernel:
    """What code makes, so that the code that is shown is the code that ran; known: by its lines."""
    scope: dict[str, Any] = {"sm": NAMES}
    for line in setup:
        name, _, value = line.partition(" = ")
        if line not in known:
            known[line] = eval(value, scope)
        scope[name] = known[line]
    return eval(code, scope)


def all_as_one(names: list[str]) -> str:
    """Blocks that move together, as code."""
    return json.dumps(names[0]) if len(names) == 1 else f"({', '.join(map(json.dumps, names))})"
