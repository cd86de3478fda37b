"""Where chains begin that were told nothing: discrete blocks at random, where there is mass.

Chains that all begin at one value of a discrete block, and never leave it, agree: what R-hat says
then holds given that value alone. Two bits of which only the parity is known are an example.
"""

from typing import Any

import numpy as np

from subsample_mcmc.decisions.compared import ask_prior_of_state
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.rewards import probe, sums_between

TRIES = 8  # configurations, of which the first with a finite log posterior is taken
MOST = 10_000  # sites of a block that begin anywhere: a run keeps where its chains began


def blocks_to_draw(model: Model) -> list[str]:
    """Discrete blocks that may begin anywhere; none of models whose data are elsewhere."""
    if model.elsewhere is not None or model.log_likelihood is None:
        return []
    return [
        name for name, v in model.variables.items() if v.block.discrete and v.block.length <= MOST
    ]


def anywhere(
    model: Model, state: dict[str, Any], names: list[str], rng: np.random.Generator
) -> dict[str, Any]:
    """A state with any values of some discrete blocks; as it was, if none is found to be allowed.

    state: values by name; blocks that are left out are as in the model.
    """
    for _ in range(TRIES):
        drawn = dict(state)
        for name in names:
            v = model.variables[name]
            drawn[name] = rng.integers(v.support, size=v.block.shape)
        if is_allowed(model, drawn):
            return drawn
    return state


def is_allowed(model: Model, state: dict[str, Any]) -> bool:
    """Is the log posterior of a state finite: one pass over the data."""
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, state)
    trial, found = probe(model, ints, floats), np.zeros(2)
    try:
        with np.errstate(all="ignore"):
            ask_prior_of_state(trial, found)
            if found[0] > -np.inf:
                sums_between(trial, 0, model.size, found[1:])
    except Exception:
        return False  # raised by the user's function, in a state that may be none
    return bool(np.isfinite(found).all())
