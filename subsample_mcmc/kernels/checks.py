"""What is looked at before the first step: users' functions in a kernel, and the data's columns.

What a kernel of a user's looks up may depend on its own random numbers, so some steps are made, on
copies; what depends on these alone may show later, where the chain stands after 1, 2, 4, ... of its
turns: there they are called again.

A race without control variate learns from the rows it reads. Where a column has one value in all
but seventeen of a million rows, its first batch holds none of the seventeen, sees no variance in
what they decide, and the normal approximation calls that certainty. That much can be known before.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.base import Kernel, labelled
from subsample_mcmc.kernels.compose import Composite, When
from subsample_mcmc.kernels.custom import Custom, writable
from subsample_mcmc.kernels.partition.pair_scores import is_batched
from subsample_mcmc.numerics.bytecode import fields_read
from subsample_mcmc.numerics.compared import (
    Numbers,
    WholeByZeroError,
    apart,
    in_numbers,
    line_of_whole,
    refuse_apart,
)
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, compiles, jit
from subsample_mcmc.target.lookups.bounds import (
    State,
    at_state,
    check_model,
    impossible,
    look_at_part,
    reads_floats,
    states,
    suspects_of,
)
from subsample_mcmc.target.lookups.checked import look, look_once
from subsample_mcmc.target.lookups.guards import guarded_data, guarded_state
from subsample_mcmc.target.lookups.reads import trusted
from subsample_mcmc.target.moved import some_states

TRIES, SECONDS = 16, 0.2  # steps of a user's kernel that are tried, and how long at most
COMPARED, FEW = 4, 1_000  # of them that Python makes, too, and of how many rows
SLOW = 0.005  # seconds of a compiled step that Python does not make
REACHED = 500_000  # rows that are read again in states that chains have reached


class Compiled:
    """A key under which a model keeps whether users' kernels compile, by function."""


COMPILED = Compiled()


def free_blocks(kernel, model) -> list[str]:
    """Discrete blocks that a kernel of this package moves: they may take any value."""
    leaves = [leaf for leaf in kernel.leaves() if not isinstance(leaf, Custom)]
    moved = {name for leaf in leaves for name in leaf.writes}
    return [n for n, v in model.variables.items() if v.support and n in moved]


def check_run(kernel, model) -> None:
    """Refuse a model, or a user's function in a kernel, that looks up what is not there."""
    free = free_blocks(kernel, model)
    check_model(model, free)
    model = model.near
    labels = {id(leaf): label for label, leaf in labelled(kernel)}
    for at in states(model, free):
        if at.whole and not impossible(model, model.state(at.ints, at.floats)):
            look_at_parts(kernel, labels, model, at)
    for leaf in kernel.leaves():
        if getattr(leaf, "similarity", None) is not None:
            look_at_pairs(leaf, model)
        if isinstance(leaf, Custom):
            compare_steps(leaf, model)


def check_elsewhere(kernel, model) -> None:
    """Refuse kernels that read other rows than those which their decisions draw.

    Where rows are elsewhere, nobody could fetch these beforehand.
    """
    near = model.near
    state = near.state(near.ints, near.floats)
    for label, leaf in labelled(kernel):
        own = [(leaf.function, 2)] if isinstance(leaf, Custom) else [
            (function, place)
            for function, arguments in leaf.suspects(near, state)
            for place, value in enumerate(arguments)
            if value is near.data
        ]  # fmt: skip
        if any(reads_rows(function, place, model) for function, place in own):
            told = "reads data, and nobody knows which rows before it does"
        elif leaf.own_target or getattr(leaf, "cumulative", False):
            told = "needs all rows, one after the other"
        elif getattr(getattr(leaf, "selector", None), "thins", False):
            told = (
                "decides by sm.Thinned(), which keeps 16 bytes of each row in memory: give "
                "selector=sm.Racing(sm.Betting()), whose error has a bound"
            )
        elif leaf.elsewhere:
            told = leaf.elsewhere
        else:
            continue
        raise ValueError(
            f"kernel {label}, {leaf.text()}, {told}; the rows of {model!r} are elsewhere: "
            f"{model.elsewhere.source}."
        )


def reads_rows(function, position: int, model) -> bool:
    """May a function read a column of rows that are elsewhere, from this argument."""
    fields = fields_read(getattr(function, "py_func", function), position)
    return fields is None or bool(fields & set(model.elsewhere.example))


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


def check_reached(kernel, model, ints, floats, among: int = 1) -> None:
    """Refuse a model, or a user's kernel, that looks up what is not there where a chain stood.

    among: how many such states are looked at, which share the rows.
    """
    shown = f" in a state that was reached, {model.show(ints, floats)}"
    at = State(ints.copy(), floats.copy(), shown)
    at_state(model, suspects_of(model), at, range(0, model.size, 1 + among * model.size // REACHED))
    look_at_parts(kernel, {id(leaf): label for label, leaf in labelled(kernel)}, model, at)


def look_at_kernel(leaf, model, at: State) -> None:
    """Make some steps of a user's kernel, on copies, if it compiles.

    In plain Python a look-up beyond an end raises by itself, and the kernel may keep things of its
    own, which steps that are no steps of the chain would change.
    """
    state, _ = writable(model, at.ints.copy(), at.floats.copy(), leaf.blocks)
    tried = np.random.default_rng(0), state, model.data
    known = model.prepared.setdefault(COMPILED, WeakKeyDictionary())
    if leaf.function not in known:  # asked again as chains run: compiling takes seconds
        known[leaf.function] = compiles(leaf.function, tried, FLAGS, checked=True)
    if known[leaf.function]:
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


def shortest(step: Any, *given: Any) -> float:
    """Seconds of the shortest of three calls: one may wait for a core."""
    found = np.inf
    for _ in range(3):
        begun = time.monotonic()
        step(*given)
        found = min(found, time.monotonic() - begun)
        if found <= SLOW:
            break
    return found


class SameSteps:
    """A key under which a model keeps which users' kernels were compared with Python."""


SAME_STEPS = SameSteps()


def compare_steps(leaf, model) -> None:
    """Refuse a user's kernel whose steps are others where they are compiled.

    From the initial state and others, each from one seed; of few rows, as Python takes its time. A
    kernel with random numbers of its own, np.random, is not compared.
    """
    done = model.prepared.setdefault(SAME_STEPS, WeakKeyDictionary())
    if DISABLED or leaf.function in done or leaf.obstacle(model):
        return
    done[leaf.function] = True
    few = [first_rows(v) if np.ndim(v) and len(v) == model.size else v for v in model.data]
    data = type(model.data)(*few) if hasattr(model.data, "_fields") else tuple(few)
    function = getattr(leaf.function, "py_func", leaf.function)
    compiled = jit(leaf.function, flags=FLAGS, user=True, checked=True)
    places = some_states(model, COMPARED, np.random.default_rng(6))
    until = time.monotonic() + SECONDS
    for seed, (ints, floats) in enumerate(places):

        def step(call, kind=None, seed=seed, ints=ints, floats=floats) -> np.ndarray:
            """What the blocks are after one step; kind: of the arrays that Python sees."""
            state, parts = writable(model, ints.copy(), floats.copy(), leaf.blocks)
            given = state, data
            if kind is not None:
                given = in_numbers(state, kind), in_numbers(data, kind)
            try:
                with np.errstate(all="ignore"):
                    call(np.random.default_rng(seed), *given)
            except Exception as error:  # in fewer rows, or another state: looked at elsewhere
                if kind is not None and isinstance(error, ZeroDivisionError):
                    if line := line_of_whole(error):
                        raise WholeByZeroError(line) from error
                return np.full(sum(len(p) for p in parts), np.nan)
            return np.concatenate([p.astype(float) for p in parts])

        def told(ints=ints, floats=floats) -> tuple[str, str]:
            return f"what kernel {leaf.label} writes", f" after {model.show(ints, floats)}"

        if seed and time.monotonic() > until:
            return
        ours, at = step(compiled), 0
        if shortest(step, compiled) > SLOW:  # in Python it takes some hundred times as long
            return
        try:
            plain = step(function, Numbers)
            differ = [i for i, both in enumerate(zip(ours, plain, strict=True)) if apart(*both)]
            if not differ or not np.array_equal(step(function, Numbers), plain, equal_nan=True):
                continue
            at = differ[0]
        except WholeByZeroError:
            pass  # told below

        def read(kind, step=step, at=at) -> float:
            return step(function, kind)[at]

        refuse_apart(read, ours[at], told)


def first_rows(column: np.ndarray) -> np.ndarray:
    """Some rows of a column, of the same type for the compiler."""
    few = column[:FEW].copy(order="K")
    few.flags.writeable = column.flags.writeable
    return few


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


# --------------------------------------------------------------- columns that are almost constant
SAMPLED = 1_000  # rows in which a column is first looked at
COMMON = 0.95  # share of them that have one value, if the column is almost constant
MISSED = 1.0  # rows with other values that a first batch holds on average, at most: it may miss all
WIDE = 256  # columns of a matrix that are looked at
PIECE = 1 << 20  # rows at a time
MANY = 100_000_000  # data beyond which nothing is counted


class Sparse(NamedTuple):
    """An almost constant column."""

    name: str  # as the user writes it
    value: float
    others: int  # rows with other values


def sparse_columns(model, batch: int) -> Iterator[Sparse]:
    """Columns in which so few rows differ from the rest that a first batch may hold none."""
    size = model.size
    if not 2 * batch < size <= MANY:
        return
    rows = np.unique(np.linspace(0, size - 1, SAMPLED).astype(np.int64))
    for name, values in zip(model.data._fields, model.data, strict=True):
        if not isinstance(values, np.ndarray) or values.ndim not in (1, 2) or len(values) != size:
            continue
        flat = values[:, None] if values.ndim == 1 else values[:, :WIDE]
        few = flat[rows]
        for j in range(flat.shape[1]):
            found, counts = np.unique(few[:, j], return_counts=True)
            value = found[np.argmax(counts)]
            if counts.max() < COMMON * len(rows) or value != value:
                continue
            most, others = MISSED * size / batch, 0
            for first in range(0, size, PIECE):
                others += int(np.count_nonzero(flat[first : first + PIECE, j] != value))
                if others > most:
                    break
            if 0 < others <= most:
                label = f"data.{name}" + (f"[n, {j}]" if values.ndim == 2 else "[n]")
                yield Sparse(label, float(value), others)


def warn_of_sparse_columns(kernel: Kernel, model) -> None:
    """Say which columns a kernel that races without control variate may never see."""
    known: dict[int, list[Sparse]] = {}
    for label, leaf in labelled(kernel):
        selector: Any = getattr(leaf, "selector", None)
        told = leaf.facts(model)
        batch = 0 if selector is None else selector.first_batch(model.size)
        if batch == 0 or told["guarantee"] != "asymptotic" or told["rows"] != model.size:
            continue
        if getattr(leaf, "control", None) is not None:
            continue
        if batch not in known:
            known[batch] = list(sparse_columns(model, batch))
        found = known[batch]
        if not found:
            continue
        name, value, count = min(found, key=lambda column: column.others)
        promised = "it promises" if selector.risk is None else f"delta={selector.risk:g}"
        more = f" ({len(found) - 1} more columns are alike)" if len(found) > 1 else ""
        warn(
            f"kernel {label}: {name} is {value:g} in all but {count:,} of {model.size:,} rows"
            f"{more}. A first batch of {batch} rows holds none of them with probability "
            f"{(1.0 - count / model.size) ** batch:.2g}, and a race that sees no variance may "
            f"decide wrongly more often than {promised}. {remedy(model)}"
        )


def remedy(model) -> str:
    """What there is for the model."""
    sure = "sm.Racing(sm.Betting(bounds=...)), if you know a range, or sm.Exact()."
    if len(model.floats) == 0:
        return f"Use {sure}"
    return (
        "Give it a control variate, control=sm.Taylor(sm.laplace(model)), which looks for rows by "
        f"which a decision may turn and reads them always; or {sure}"
    )
