"""A prior of one site's value that a kernel is given, compared with the model's log_prior.

`Gibbs("z", log_prior=f)` draws by f, so that no draw evaluates the prior of the whole state. Where
f and the model's log_prior differ, its draws are those of another model, and nothing shows it.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.sites.asked import asked, places
from subsample_mcmc.numerics.jit import NUMBA_ERRORS, jit
from subsample_mcmc.numerics.pointers import call_numbers, pointer_to
from subsample_mcmc.target.rewards import new_memory, prior_of, trial_of

SITES, FEWEST = 256, 4  # that are asked, if each asks the prior of the whole state
TERMS = 20_000_000  # of such priors, about as many as there are sites in one of them
ROUNDING = 1e-9  # of a log prior's size


class Compared:
    """A key under which a model keeps which priors of sites agreed with its own."""


class Own(NamedTuple):
    """A site's prior by its address, and the states that the model's log_prior is asked in."""

    prior: Any
    trial: Any


@jit
def ask_both(about, values, sites, arms, whole, own):
    """Both priors where each of some sites has the first of two values, and where the second."""
    trial = about.trial
    for i in range(len(sites)):
        site = sites[i]
        kept = values[site]
        for j in range(2):
            values[site] = arms[i, j]
            whole[i, j] = prior_of(trial)
        values[site] = kept
        for j in range(2):
            own[i, j] = call_numbers(about.prior, trial.calls.context, site, arms[i, j])


def check_own_prior(kernel, model, address) -> None:
    """Refuse a prior of one site's value that is not the model's.

    address(context): where the kernel's prior is. A model whose log_prior does not depend on the
    block has left the block's part to the kernel.
    """
    name, function = kernel.block, kernel.log_prior
    done = model.prepared.setdefault(Compared, set())
    if (model.given[3] is None and not model.site_prior) or (name, function) in done:
        return
    variable, rng = model.variables[name], np.random.default_rng(2)
    length, depends, told = variable.block.length, False, ""
    count = min(length, max(FEWEST, min(SITES, TERMS // length)))
    touched = kernel.touches(model)
    for place in places(model, name):
        trial = trial_of(
            model, place.ints, place.floats, new_memory(model), variable.block, 1, None, (),
            None if touched is None else touched[1],
        )  # fmt: skip
        try:
            about = pointer_to(Own(address(trial.calls.context), trial))
        except (*NUMBA_ERRORS, TypeError):
            return  # it does not compile, of which the chain tells more
        sites = np.sort(rng.choice(length, count, replace=False))
        first = rng.integers(variable.support, size=count)
        second = (first + rng.integers(1, max(variable.support, 2), size=count)) % variable.support
        arms = np.stack([first, second], axis=1)
        whole, own = np.zeros((2, count, 2))
        given = about, place.values, sites, arms, whole, own
        if not asked(place, lambda given=given: ask_both(*given)):
            continue
        with np.errstate(invalid="ignore"):
            changes = whole[:, 1] - whole[:, 0], own[:, 1] - own[:, 0]
            size = np.max(np.abs(np.where(np.isfinite(whole), whole, 0.0)), axis=1)
            size += np.max(np.abs(np.where(np.isfinite(own), own, 0.0)), axis=1)
            apart = np.abs(changes[0] - changes[1]) > ROUNDING * (1.0 + size)
        depends = depends or bool(np.any(np.abs(changes[0]) > ROUNDING * (1.0 + size)))
        if apart.any() and not told:
            i = int(np.argmax(apart))
            told = (
                f"{kernel.text()}: from {first[i]} to {second[i]} at site {sites[i]} log_prior "
                f"rises by {changes[1][i]:.6g}, and the model's log_prior by {changes[0][i]:.6g}, "
                f"in the state {model.show(place.ints, place.floats)}: draws would not be the "
                f"model's. Correct one of them, or take what depends on {name!r} out of the "
                "model's log_prior, if no other kernel needs it."
            )
    if depends and told:
        raise ValueError(told)
    done.add((name, function))
