"""Before a chain runs: log_likelihood and log_prior, as compiled, beside the same in Python.

At some data, the first and the last among them, in the initial state and in others, where all
blocks have other values.
"""

import time

import numpy as np

from subsample_mcmc.kernels.sites.touches import change_all, draw_discrete
from subsample_mcmc.numerics.compared import digits_of, in_numbers, refuse_apart, value_of
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.rewards import new_memory, prior_of, rewards_of, trial_of
from subsample_mcmc.target.user_functions import plain

ROWS, PLACES = 24, 4  # data, and states
SECONDS = 0.3  # that Python may take, beside the first state
MOST_SITES = 10_000  # whose priors are called in Python


class SameAsPython:
    """A key under which a model keeps that it was compared."""


@jit
def ask_prior_of_state(trial, out):
    """The log prior of the state as it is."""
    out[0] = prior_of(trial)


def check_compiled(model) -> None:
    """Refuse a model whose functions say something else where they are compiled."""
    if DISABLED or model.log_likelihood is None or SameAsPython in model.prepared:
        return
    rng, until = np.random.default_rng(4), time.monotonic() + SECONDS
    some = rng.integers(0, model.size, size=ROWS)
    rows = np.unique(np.r_[0, min(1, model.size - 1), model.size - 1, some]).astype(np.int64)
    sites = any(v.touches is not None for v in model.variables.values())
    for number in range(PLACES):
        if number and time.monotonic() > until:
            break
        ints, floats = model.ints.copy(), model.floats.copy()
        if number:
            with np.errstate(all="ignore"):
                change_all(model, ints, floats, rng)
                draw_discrete(model, ints, rng)
        none = Block("none", False, (0,), 0)
        trial = trial_of(
            model, ints, floats, new_memory(model), none, 1, None, (), rows if sites else None
        )
        check_prior_in(model, ints, floats, trial)
        check_data_in(model, ints, floats, trial, rows, sites)
    model.prepared[SameAsPython] = True


def check_prior_in(model, ints, floats, trial) -> None:
    """Compare the log prior in a state."""
    if sum(model.variables[name].sites for name in model.site_prior) > MOST_SITES:
        return
    state, found, wanted = model.state(ints, floats), np.zeros(1), 0.0
    for function, roles, sizes in model.priors:
        of_state = plain(function, "log_prior", "f(state)")
        for site in range(sizes["site"] if len(roles) > 1 else 1):
            more = (site,) if len(roles) > 1 else ()
            wanted += value_of(of_state, (in_numbers(state), *more), (state, *more))
    try:
        ask_prior_of_state(pointer_to(trial), found)
    except Exception:
        return  # raised by the user's function, in a state that may be none

    def told(i):
        return "log_prior", f", in the state {model.show(ints, floats)}"

    refuse_apart([wanted], found, told)


def check_data_in(model, ints, floats, trial, rows: np.ndarray, sites: bool) -> None:
    """Compare the log likelihood of some data in a state."""
    state, given = model.state(ints, floats), plain(model.log_likelihood, "log_likelihood", "f")
    try:
        more = model.extra(state)
        numbers = in_numbers(state), in_numbers(model.data)
        compiled = np.zeros(len(rows))
        at = np.arange(len(rows)) if sites else rows
        rewards_of(pointer_to(trial), 0, at.astype(row_kind(model.size)), compiled)
    except Exception:
        return  # as above
    wanted = [
        value_of(given, (*numbers, int(n), *more), (state, model.data, int(n), *more))
        for n in rows
    ]  # fmt: skip

    def told(i):
        datum = f"{rows[i]}{datum_of(model.data, int(rows[i]), model.size)}"
        return f"log_likelihood of datum {datum}", f", in the state {model.show(ints, floats)}"

    refuse_apart(wanted, compiled, told, digits_of(model.data))
