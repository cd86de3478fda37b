"""Coefficients that may be 0: where they are, their prior has no density, and none is flat."""

from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.spikes import left_out
from subsample_mcmc.target.constraints import real
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.model import Model


class LookedAtSpikes:
    """A key under which a model keeps which blocks are coefficients with indicators."""


def refuse_spikes(model: Model, kernel: Kernel | None = None) -> None:
    """Name the kernel of a prior that says nothing of beta[j] where gamma[j] is 0.

    No datum reads gamma, so any other kernel draws it by the prior alone, beside a flat density of
    beta[j]: a chain that converges, to a law that nobody means.

    kernel: refused if it draws gamma by Gibbs; None: whatever it were, but SpikeAndSlab.
    """
    drawn = set(model.variables)
    if kernel is not None:
        gibbs = [k for k in kernel.leaves() if isinstance(k, Gibbs) and k.pseudo is None]
        drawn = {name for leaf in gibbs for name in leaf.writes}
    switches = [
        name for name, v in model.variables.items()
        if v.block.discrete and v.support == 2 and name in drawn and unread(model, (name,))
    ]  # fmt: skip
    known = model.prepared.setdefault(LookedAtSpikes, {})
    for name, v in model.variables.items():
        if v.block.discrete or v.constraint.kind != real.kind:
            continue
        for switch in switches:
            fewer = v.block.length - model.variables[switch].block.length
            if fewer not in (0, 1):
                continue
            if (name, switch) not in known:
                try:
                    known[name, switch] = left_out(model, name, switch)
                except Exception:  # raised by the user's function, in a state that may be none
                    known[name, switch] = None
            if known[name, switch] is not None:
                raise ValueError(told(name, switch, v.block.length, fewer, known[name, switch]))


def told(name: str, switch: str, count: int, fewer: int, value: int) -> str:
    """What such a prior is, and which kernel moves it."""
    more = " with an indicator for the intercept, too, log_prior -inf where it is 0," * fewer
    more += f" with {switch}[j] = 0 for one that is left out," * value
    return (
        f"log_prior says nothing of {name}[j] where {switch}[j] is {value}, and no datum reads "
        f"{switch}: that is a coefficient which is 0 then, and sm.SpikeAndSlab moves it. Give that "
        f"kernel,{more or ' say'}: fit = sm.laplace(model, {name!r}, "
        f"given={{{switch!r}: np.ones({count}, int)}}); kernel = "
        f"sm.SpikeAndSlab({name!r}, {switch!r}, fit, control=sm.Taylor(fit)). Any "
        f"other would draw {switch} by the prior alone. If {name}[j] is not 0 then, "
        "add its density there, too."
    )
