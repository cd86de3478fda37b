"""Blocks that vary in length: does a function depend on components that are not in use.

A padded block keeps its initial values where a model is shorter. A prior or likelihood that counts
them there weighs models against each other by numbers that nobody chose.
"""

import time
from typing import Any

import numpy as np

from subsample_mcmc.kernels.sites.touches import at, called
from subsample_mcmc.target.constraints import to_block, to_free
from subsample_mcmc.target.lookups.bounds import spread
from subsample_mcmc.target.moved import change_all
from subsample_mcmc.target.user_functions import plain

ROWS, LENGTHS = 256, 32  # data, and values that say the length
SECONDS = 0.3  # that data may take, beside the first and the last of each length


class Padded:
    """A key under which a model keeps that this was looked at."""


def lengths_of(model) -> dict[str, Any]:
    """Of blocks that vary in length: which block says it, and the length by its value."""
    by_place = {v.block.start: name for name, v in model.variables.items() if v.block.discrete}
    return {
        name: {"by": by_place[v.place], "lengths": v.lengths.tolist()}
        for name, v in model.variables.items() if v.place >= 0
    }  # fmt: skip


def check_padding(model) -> None:
    """Refuse functions that read components which are not in use, in two states."""
    padded = [v for v in model.variables.values() if v.place >= 0]
    if not padded or Padded in model.prepared:
        return
    rng, begun = np.random.default_rng(5), time.thread_time()
    for elsewhere in (False, True):
        ints, floats = model.ints.copy(), model.floats.copy()
        if elsewhere:
            change_all(model, ints, floats, rng)
        for v in padded:
            for k in spread(len(v.lengths), LENGTHS):
                ints[v.place] = k
                if v.lengths[k] < v.block.length:
                    compare(model, v, ints, floats, rng, elsewhere, begun)
    model.prepared[Padded] = True


def compare(model, v, ints, floats, rng, elsewhere: bool, begun: float) -> None:
    """Refuse a function that changes with components of one block which are not in use."""
    state, used = model.state(ints, floats), int(v.length(ints))
    part = floats[v.block.start : v.block.start + v.block.length]
    kept, other = part.copy(), part.copy()
    u, c = np.zeros(len(part)), v.constraint
    python: Any = [getattr(f, "py_func", f) for f in (to_free, to_block)]
    python[0](c.kind, c.low, c.high, part, u)
    python[1](c.kind, c.low, c.high, u + rng.uniform(0.5, 1.5, len(u)), other)
    other[:used] = kept[:used]

    def both(read) -> tuple[float, float]:
        part[:] = kept
        before = read()
        part[:] = other
        after = read()
        part[:] = kept
        return before, after

    def refuse(what: str, values: tuple[float, float]) -> None:
        if values[0] != values[1] and not np.isnan(values).any():
            raise ValueError(
                f"{what} goes from {values[0]:.6g} to {values[1]:.6g} where {v.block.name}[{used}] "
                f"and those behind it change, though of {v.block.name} only {used} components are "
                f"in use in this state, {model.show(ints, floats)}: models would be weighed by "
                f"what they do not have. Read {v.block.name} up to the length that lengths= gives."
            )

    if model.log_prior is not None:
        prior = plain(model.log_prior, "log_prior", "log_prior(state)")
        try:
            refuse("log_prior", both(lambda: called(prior, state)))
        except (ArithmeticError, IndexError):
            return
        except ValueError as error:
            if not str(error).startswith("log_prior goes"):
                return  # its own, in a state that it need not know
            raise
    fixed = sorted({0, model.size - 1}) if model.log_likelihood is not None else []
    some = rng.integers(model.size, size=ROWS).tolist() if fixed else []
    for n in (*fixed, *some):
        if n not in fixed and time.thread_time() - begun > SECONDS:
            return
        refuse(
            f"log_likelihood of datum {n}", both(lambda n=n: at(model, state, int(n), elsewhere))
        )
