"""The users' functions in a kernel, called with checks before the first step.

What a kernel of a user's looks up may depend on its own random numbers, so some steps are made, on
copies; what depends on these alone may show later, where the chain stands after 1, 2, 4, ... of its
turns: there they are called again.
"""

import time
from typing import Any

import numpy as np

from subsample_mcmc.kernels.compose import Composite, When
from subsample_mcmc.kernels.custom import Custom, writable
from subsample_mcmc.kernels.kernel import labelled
from subsample_mcmc.kernels.partition.pair_scores import is_batched
from subsample_mcmc.numerics.jit import FLAGS, compiles
from subsample_mcmc.target.bounds import (
    State,
    at_state,
    check_model,
    impossible,
    look_at_part,
    reads_floats,
    states,
    suspects_of,
)
from subsample_mcmc.target.guards import guarded_data, guarded_state
from subsample_mcmc.target.lookups import look, look_once
from subsample_mcmc.target.reads import trusted

TRIES, SECONDS = 16, 0.2  # steps of a user's kernel that are tried, and how long at most
REACHED = 500_000  # rows that are read again in states that chains have reached


def free_blocks(kernel, model) -> list[str]:
    """Discrete blocks that a kernel of this package moves: they may take any value."""
    own = {name for leaf in kernel.leaves() if isinstance(leaf, Custom) for name in leaf.writes}
    moved = {name for leaf in kernel.leaves() for name in leaf.writes}
    return [n for n, v in model.variables.items() if v.support and n in moved - own]


def check_run(kernel, model) -> None:
    """Refuse a model, or a user's function in a kernel, that looks up what is not there."""
    free = free_blocks(kernel, model)
    check_model(model, free)
    labels = {id(leaf): label for label, leaf in labelled(kernel)}
    for at in states(model, free):
        if at.whole and not impossible(model, model.state(at.ints, at.floats)):
            look_at_parts(kernel, labels, model, at)
    for leaf in kernel.leaves():
        if getattr(leaf, "similarity", None) is not None:
            look_at_pairs(leaf, model)


def look_at_parts(kernel, labels: dict[int, str], model, at: State) -> None:
    """Call the users' functions in a kernel at one state, where it would run."""
    state = model.state(at.ints, at.floats.copy())
    if isinstance(kernel, When):
        look_at_part("the predicate of when()", kernel.predicate, (state,), None, model, at.words)
        if not holds(kernel.predicate, state):
            return
    if isinstance(kernel, Composite):
        for part in kernel.parts:
            look_at_parts(part, labels, model, at)
        return
    if isinstance(kernel, Custom):
        look_at_kernel(kernel, model, at)
    for function, arguments in kernel.suspects(model, state):
        role = f"{role_of(function, kernel)} of kernel {labels[id(kernel)]}"
        look_at_part(role, function, arguments, kernel, model, at.words)


def holds(predicate, state) -> bool:
    """Is a predicate true; False if it is not even a truth value."""
    try:
        with np.errstate(all="ignore"):
            return bool(getattr(predicate, "py_func", predicate)(state))
    except Exception:
        return False


def role_of(function, leaf) -> str:
    """What a user's function is to a kernel."""
    parts = (leaf, getattr(leaf, "proposal", None))
    named = (name for part in parts for name, v in getattr(part, "__dict__", {}).items()
             if v is function)  # fmt: skip
    return next(named, getattr(function, "__name__", "a function"))


def is_doubtful(kernel, model) -> bool:
    """Can states be reached in which a look-up fails that did not where it was tried."""
    customs = any(isinstance(leaf, Custom) for leaf in kernel.leaves())
    sites = sum(model.variables[name].block.length for name in free_blocks(kernel, model))
    return customs or reads_floats(model) or (sites > 1 and bool(suspects_of(model)))


def check_reached(kernel, model, ints, floats) -> None:
    """Refuse a model, or a user's kernel, that looks up what is not there where a chain stands."""
    shown = f" in a state that was reached, {model.show(ints, floats)}"
    at = State(ints.copy(), floats.copy(), shown)
    at_state(model, suspects_of(model), at, range(0, model.size, 1 + model.size // REACHED))
    look_at_parts(kernel, {id(leaf): label for label, leaf in labelled(kernel)}, model, at)


def look_at_kernel(leaf, model, at: State) -> None:
    """Make some steps of a user's kernel, on copies, if it compiles.

    In plain Python a look-up beyond an end raises by itself, and the kernel may keep things of its
    own, which steps that are no steps of the chain would change.
    """
    state, _ = writable(model, at.ints.copy(), at.floats.copy(), leaf.blocks)
    tried = np.random.default_rng(0), state, model.data
    if compiles(leaf.function, tried, FLAGS, checked=True):
        return
    until = time.monotonic() + SECONDS
    for seed in range(TRIES):
        if seed and time.monotonic() > until:
            return
        arguments: list[Any] = []
        for guard in (False, True):
            state, _ = writable(model, at.ints.copy(), at.floats.copy(), leaf.blocks)
            data = guarded_data(model.data, model.size) if guard else model.data
            state = guarded_state(state) if guard else state
            arguments.append((np.random.default_rng(seed), state, data))
        look_once(f"kernel {leaf.label}", leaf.function, arguments[0], arguments[1], at.words)


def look_at_pairs(leaf, model) -> None:
    """Score each mention that is not alone with one that it may share a cluster with."""
    score, blocks = leaf.similarity, leaf.blocks(model)
    if trusted(score):
        return
    sizes = np.diff(blocks.start)
    last = blocks.start[1:] - 1
    after = np.arange(1, len(blocks.order) + 1)
    after[last] = blocks.start[:-1]  # of a block's last mention, its first
    partner = np.empty_like(blocks.order)
    partner[blocks.order] = blocks.order[after]
    alone = np.repeat(sizes == 1, sizes)[np.argsort(blocks.order, kind="stable")]
    partner[alone] = -1

    if is_batched(score):

        def pair(data, partner, n):
            if partner[n] >= 0:
                score(data, n, partner[n : n + 1], np.zeros(1))
    else:

        def pair(data, partner, n):
            if partner[n] >= 0:
                score(data, n, partner[n])

    seen = guarded_data(model.data, model.size)
    look(
        "similarity", pair, ((model.data, partner), ()), ((seen, partner), ()), range(model.size),
        lambda n: f" for mentions {n} and {partner[n]}",
    )  # fmt: skip
