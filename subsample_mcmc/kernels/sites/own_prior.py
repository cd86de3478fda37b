"""A prior of one site's value that a kernel is given, compared with the model's log_prior.

`Gibbs("z", log_prior=f)` draws by f, so that no draw evaluates the prior of the whole state. Where
f and the model's log_prior differ, its draws are those of another model, and nothing shows it.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.custom import Custom
from subsample_mcmc.kernels.sites.asked import asked, places
from subsample_mcmc.numerics.jit import NUMBA_ERRORS, jit
from subsample_mcmc.numerics.pointers import call_numbers, pointer_to
from subsample_mcmc.target.lookups.reads import blocks_read
from subsample_mcmc.target.moved import change_all, changed
from subsample_mcmc.target.rewards import new_memory, prior_of, trial_of
from subsample_mcmc.target.user_functions import plain

FEWEST = 4  # sites that are asked, if each asks the prior of the whole state
TERMS = 20_000_000  # of such priors, about as many as there are sites in one of them
ROUNDING = 1e-9  # of a log prior's size


class Compared:
    """A key under which a model keeps which priors of sites agreed with its own, and which are all.

    By block and function: True where the model's log_prior does not depend on the block.
    """


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


def pairs_of(length: int, support: int, rng, size: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(sites, arms): at which sites two values are compared; all neighbours of all, if few.

    size: numbers of the whole state, all of which a prior may read.
    """
    size = max(length, size)
    count = min(length, max(FEWEST, TERMS // size))
    some = rng.choice(length, count, replace=False)
    sites = np.unique(np.r_[0, length - 1, some]) if count < length else np.arange(length)
    each = int(np.clip(TERMS // (4 * size * len(sites)), 1, support - 1)) if support > 1 else 1
    if each >= support - 1:
        first = np.tile(np.arange(max(support - 1, 1)), len(sites))
        second = np.minimum(first + 1, support - 1)
    else:
        first = rng.integers(support, size=each * len(sites))
        second = (first + rng.integers(1, support, size=len(first))) % support
    sites = np.repeat(sites, len(first) // len(sites))
    ends = np.r_[0, 0, length - 1, length - 1]  # and the first and the last value there
    first = np.r_[first, 0, support - 1, 0, support - 1]
    middle = max(support // 2, 0)
    second = np.r_[second, middle, middle, middle, middle]
    return np.r_[sites, ends], np.stack([first, second], axis=1)


def check_own_prior(kernel, model, address) -> None:
    """Refuse a prior of one site's value that is not the model's.

    address(context): where the kernel's prior is. A model whose log_prior does not depend on the
    block has left the block's part to the kernel.
    """
    name, function = kernel.block, kernel.log_prior
    done = model.prepared.setdefault(Compared, {})
    if (name, function) in done:
        return
    if model.given[3] is None and not model.site_prior:
        done[name, function] = True
        return
    variable, rng = model.variables[name], np.random.default_rng(2)
    depends, told = False, ""
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
        sites, arms = pairs_of(
            variable.block.length, variable.support, rng, len(model.ints) + len(model.floats)
        )
        whole, own = np.zeros((2, len(sites), 2))
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
                f"{kernel.text()}: from {arms[i, 0]} to {arms[i, 1]} at site {sites[i]} log_prior "
                f"rises by {changes[1][i]:.6g}, and the model's log_prior by {changes[0][i]:.6g}, "
                f"in the state {model.show(place.ints, place.floats)}: draws would not be the "
                f"model's. Correct one of them, or take what depends on {name!r} out of the "
                "model's log_prior, if no other kernel needs it."
            )
    if depends and told:
        raise ValueError(told)
    done[name, function] = not depends


def depends_on(prior, name: str, other: str, model) -> bool:
    """Does what a site's value adds to a prior change with another block, in plain Python."""
    v, rng = model.variables[name], np.random.default_rng(6)
    for away in (0.0, 3.0, 10.0):
        ints, floats = model.ints.copy(), model.floats.copy()
        with np.errstate(all="ignore"):
            if away:
                change_all(model, ints, floats, rng, away)
            w, state = model.variables[other], model.state(ints, floats)
            part = (ints if w.block.discrete else floats)[w.block.start :][: w.block.length]
            kept, others = part.copy(), changed(w, part, rng, away)
            for site in rng.integers(v.block.length, size=16).tolist():
                seen = []
                for values in (kept, others):
                    part[:] = values
                    try:
                        low, high = (prior(state, model.data, site, k) for k in (0, v.support - 1))
                        seen.append(float(high) - float(low))
                    except Exception:
                        seen.append(np.nan)
                part[:] = kept
                if seen[0] != seen[1] and not np.isnan(seen).any():
                    return True
    return False


def check_others(kernel, leaves, model) -> None:
    """Refuse kernels that would not see a prior which one kernel has, and the model has not.

    kernel: a Gibbs with a log_prior of its own, or none. It is part of the target, which another
    kernel of the block, or of a block that it depends on, would leave out.
    """
    name, own = kernel.block, kernel.log_prior
    known = model.prepared.get(Compared, {})
    if own is None or not known.get((name, own), False):
        return
    called = plain(own, "log_prior", "log_prior(state, data, site, arm)")
    read = blocks_read(called, model)
    if read is None:  # its code does not tell: it is asked
        others = [other for other in model.names if other != name]
        read = {other for other in others if depends_on(called, name, other, model)}
    read = read | {name}
    for leaf in leaves:
        both = read & set(leaf.writes)
        if leaf is kernel or not both or isinstance(leaf, Custom):
            continue
        if set(leaf.writes) == {name} and getattr(leaf, "log_prior", None) is own:
            continue
        also = "" if name in both else ", on which it depends"
        raise ValueError(
            f"{kernel.text()} has a log_prior that the model has not, and {leaf.text()} moves "
            f"{' and '.join(map(repr, sorted(both)))}{also}, without it: together they would draw "
            "from no one posterior. Put it into the model's log_prior, too, or into site_prior="
            f"{{{name!r}: ...}}: {kernel.text()} then still draws by its own."
        )
