"""How a chain moves: kernels, what they propose, and how they are composed.

A kernel builds rewards and offsets, asks a selector (decision.py), and writes the winner into the
state. Start with base.py, what a kernel is, then decision.py, then continuous.py and metropolis.py
as the plainest example; gibbs.py for discrete blocks, partition/ for clusters of records. What does
not belong here: when an arm may be dropped (decisions/), what is known of a sum (approx/), loops
over draws, threads and files (runs/).
"""

from subsample_mcmc.kernels.compose import cycle, mixture, repeat, when
from subsample_mcmc.kernels.custom import kernel
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.langevin import Langevin
from subsample_mcmc.kernels.metropolis import Metropolis, delayed
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

__all__ = [
    "Gibbs", "GibbsPartition", "Langevin", "MergeSplit", "Metropolis", "PseudoPrior", "Slice",
    "SpikeAndSlab", "SurrogateTransition", "WangLandau", "cycle", "delayed", "independence",
    "interweave", "kernel", "mixture", "paths", "pcn", "repeat", "side_by_side", "when", "windows",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
