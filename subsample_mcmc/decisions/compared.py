"""Before a chain or a fit: log_likelihood and log_prior, as compiled, beside the same in Python.

At some data, the first and the last among them, and those at which columns of whole numbers are
least and greatest, in the initial state and in others, where all blocks have other values. Where
whole numbers are divided, also at data and values that are 0.
"""

import time
from collections.abc import Iterator

import numpy as np

from subsample_mcmc.numerics.compared import (
    extremes_of,
    in_numbers,
    in_python,
    refuse_apart,
    value_of,
    zeros_of,
)
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.moved import some_states
from subsample_mcmc.target.rewards import new_memory, prior_of, rewards_of, trial_of
from subsample_mcmc.target.user_functions import divides_whole, plain

ROWS, PLACES = 24, 4  # data, and states
TRIES = 12  # states at most, as the prior may rule some out: no data are read there
SECONDS, FEWEST = 0.3, 2  # that Python may take, beside so many data of a state
SAME = 1e-9  # of sums: their differences are not compared below
MOST_SITES = 10_000  # whose priors are called in Python
MOST_VALUES = 64  # of discrete blocks that are tried one by one where whole numbers are divided


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
    rng, left = np.random.default_rng(4), SECONDS
    some = rng.integers(0, model.size, size=ROWS)
    given = [model.log_likelihood, *(function for function, _, _ in model.priors)]
    whole = any(divides_whole(function) for function in given)
    rare = extremes_of(model.data, model.size)
    rare += zeros_of(model.data, model.size) if whole else []
    rows = np.unique(np.r_[0, min(1, model.size - 1), model.size - 1, rare, some])
    rows = rows.astype(np.int64)
    sites, done = any(v.touches is not None for v in model.variables.values()), 0
    states = [(*state, True) for state in some_states(model, TRIES, rng)]
    if whole:
        states += [(*state, False) for state in one_by_one(model)]
    for ints, floats, random in states:
        if left < 0.0:
            break
        if random and done == PLACES:
            continue
        none = Block("none", False, (0,), 0)
        trial = trial_of(
            model, ints, floats, new_memory(model), none, 1, None, (), rows if sites else None
        )
        if is_possible(model, ints, floats, trial):
            left -= check_data_in(model, ints, floats, trial, rows, sites, left)
            done += 1
    model.prepared[SameAsPython] = True


def one_by_one(model) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """States with one discrete block at each of its values in turn, the lowest first."""
    blocks = [v for v in model.variables.values() if v.place < 0 and v.block.discrete]
    for v in blocks:
        for value in range(min(v.support, MOST_VALUES // len(blocks))):
            ints = model.ints.copy()
            ints[v.block.start : v.block.start + v.block.length] = value
            yield ints, model.floats.copy()


def is_possible(model, ints, floats, trial) -> bool:
    """Compare the log prior in a state; say whether a chain would read data there."""
    state, found = model.state(ints, floats), np.zeros(1)
    try:
        ask_prior_of_state(pointer_to(trial), found)
    except Exception:
        return False  # raised by the user's function, in a state that may be none
    if sum(model.variables[name].sites for name in model.site_prior) > MOST_SITES:
        return bool(found[0] > -np.inf)

    def read(kind):
        value = 0.0
        for function, roles, sizes in model.priors:
            of_state = plain(function, "log_prior", "f(state)")
            for site in range(sizes["site"] if len(roles) > 1 else 1):
                more = (site,) if len(roles) > 1 else ()
                value += value_of(of_state, (in_numbers(state, kind), *more), (state, *more))
        return value

    def told():
        return "log_prior", f", in the state {model.show(ints, floats)}"

    wanted = refuse_apart(read, float(found[0]), told)
    if len(ints):
        compare_change(model, ints, trial, read, (wanted, float(found[0])), told)
    return bool(found[0] > -np.inf) and wanted != -np.inf


def compare_change(model, ints, trial, read, known: tuple[float, float], told) -> None:
    """Compare what other discrete values change: a sum over many sites hides what one adds.

    known: the log prior as it is, in Python and compiled.
    """
    kept, (plain, before), after = ints.copy(), known, np.zeros(1)
    for v in model.variables.values():
        if v.place < 0 and v.block.discrete:
            part = slice(v.block.start, v.block.start + v.block.length)
            ints[part] = (ints[part] + 1) % v.support
    try:
        ask_prior_of_state(pointer_to(trial), after)
        rounding = SAME * (abs(before) + abs(float(after[0])))
        changed = float(after[0]) - before
        if abs(in_python(read, float(after[0]), told) - plain - changed) > rounding:
            refuse_apart(lambda kind: read(kind) - plain, changed, lambda: changed_by(told))
    finally:
        ints[:] = kept


def changed_by(told) -> tuple[str, str]:
    """How to speak of a change."""
    what, where = told()
    return f"the change of {what} by other discrete values", where


def check_data_in(
    model, ints, floats, trial, rows: np.ndarray, sites: bool, left: float
) -> float:  # fmt: skip
    """Compare the log likelihood of some data in a state, of few if that takes longer than `left`.

    Returns the seconds that it took in Python: what is compiled the first time takes more.
    """
    state, given = model.state(ints, floats), plain(model.log_likelihood, "log_likelihood", "f")
    try:
        more = model.extra(state)
        compiled = np.zeros(len(rows))
        at = np.arange(len(rows)) if sites else rows
        rewards_of(pointer_to(trial), 0, at.astype(row_kind(model.size)), compiled)
    except Exception:
        return 0.0  # as above
    begun = time.thread_time()
    for i, n in enumerate(rows.tolist()):
        if i >= FEWEST and time.thread_time() - begun > left:
            break

        def read(kind, n=n):
            numbers = in_numbers(state, kind), in_numbers(model.data, kind)
            return value_of(given, (*numbers, n, *more), (state, model.data, n, *more))

        def told(n=n):
            datum = f"{n}{datum_of(model.data, n, model.size)}"
            return f"log_likelihood of datum {datum}", f", in the state {model.show(ints, floats)}"

        refuse_apart(read, float(compiled[i]), told)
    return time.thread_time() - begun
