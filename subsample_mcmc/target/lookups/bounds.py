"""Which of the users' functions are passed over all data, and in which states of the blocks.

An index may depend on data, so all rows are read; and on discrete blocks, so all rows are read at
their lowest and at their highest values, and some at each of those between. Where rows are
elsewhere, by one more pass over them.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.constraints import INTERVAL
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.lookups.checked import blamed, first_beyond, look, look_once
from subsample_mcmc.target.lookups.guards import (
    guarded,
    guarded_data,
    guarded_function,
    guarded_state,
)
from subsample_mcmc.target.lookups.reads import cannot_fail, trusted, turns_on_values

MOST_STATES = 64  # states of the discrete blocks, or arms, at which some rows are read
MOST_VALUES = 10_000  # of a site, that the prior is asked of
CORNERS = 6  # discrete sites up to which all their lowest and highest values are tried together
RANDOM = 32  # states with a value of its own at every site
MOST_SHOWN = 8  # sites of a block in a message
INSIDE = 1e-9  # of its width: how far inside an interval its ends are tried
SOME = 2_000_000  # rows, at all of these together
EVERY = 20_000_000  # rewards of a population that are all read


def spread(count: int, most: int) -> list[int]:
    """At most so many of the numbers below count, evenly spaced, with both ends."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, most))})


class State(NamedTuple):
    """Values of all blocks at which functions are called."""

    ints: np.ndarray
    floats: np.ndarray
    words: str = ""
    whole: bool = True  # for every datum, or for some


def states(model, free) -> Iterator[State]:
    """The states that are looked at, the initial one first.

    free: discrete blocks that take any value of their support.
    """
    yield State(model.ints.copy(), model.floats.copy())
    yield from interval_ends(model)
    blocks = [model.variables[name] for name in free if model.variables[name].support > 1]
    seen = {model.ints.tobytes()}
    top = max((v.support for v in blocks), default=0) - 1
    values = spread(top + 1, MOST_STATES) if blocks else []
    for value in sorted(values, key=lambda v: (v not in (0, top), v)):
        ints, words = model.ints.copy(), []
        for v in blocks:
            put = min(value, v.support - 1)
            ints[v.block.start : v.block.start + v.block.length] = put
            words.append(f"{v.block.name}={put}" + " at every site" * (v.block.length > 1))
        if ints.tobytes() not in seen:
            seen.add(ints.tobytes())
            yield State(ints, model.floats, f" with {', '.join(words)}", value in (0, top))
    for ints in possible_ends(model, blocks):
        if ints.tobytes() not in seen:
            seen.add(ints.tobytes())
            yield State(ints, model.floats, held(model, ints))
    for ints in mixed(model, blocks):
        if ints.tobytes() not in seen:
            seen.add(ints.tobytes())
            yield State(ints, model.floats, held(model, ints), False)


def possible_ends(model, blocks) -> Iterator[np.ndarray]:
    """The lowest and the highest value of single sites that the prior does not exclude."""
    for v in blocks if model.log_prior is not None else ():
        if v.block.length > 1:
            continue
        for values in (range(v.support), range(v.support - 1, -1, -1)):
            ints = model.ints.copy()
            for value in values[:MOST_VALUES]:
                ints[v.block.start] = value
                if not impossible(model, model.state(ints, model.floats)):
                    yield ints
                    break


def mixed(model, blocks) -> Iterator[np.ndarray]:
    """States in which sites differ: an index may be made of several of them."""
    spans = [np.arange(v.block.start, v.block.start + v.block.length) for v in blocks]
    at = np.concatenate([np.zeros(0, dtype=np.int64), *spans])
    if len(at) < 2:
        return
    tops = np.concatenate([np.full(v.block.length, v.support - 1) for v in blocks])
    rng = np.random.default_rng(0)
    corners = itertools.product((0, 1), repeat=len(at)) if len(at) <= CORNERS else ()
    tried = [np.array(corner) * tops for corner in corners]
    count = int(np.clip(SOME // len(at), 2, RANDOM))
    tried += [rng.integers(0, tops + 1) for _ in range(count)]
    for values in tried:
        ints = model.ints.copy()
        ints[at] = values
        yield ints


def interval_ends(model) -> Iterator[State]:
    """Blocks of sm.interval at their lowest and their highest: an index may be int(state.t[0])."""
    given = [v for v in model.variables.values() if v.constraint.kind == INTERVAL]
    for low in (True, False) if given and reads_floats(model) else ():
        floats, words = model.floats.copy(), []
        for v in given:
            a, b = v.constraint.low, v.constraint.high
            end = a + INSIDE * (b - a) if low else b - INSIDE * (b - a)
            floats[v.block.start : v.block.start + v.block.length] = end
            words.append(f"{v.block.name}={end:.6g}")
        yield State(model.ints.copy(), floats, f" with {', '.join(words)}")


def reads_floats(model) -> bool:
    """May an index in one of the functions depend on the value of a float."""
    return any(turns_on_values(function) for _, function in suspects_of(model))


def check_model(model, free=(), ints=None) -> None:
    """Refuse a model whose functions look up what is not there.

    free: discrete blocks that take any value; ints: where they are held instead.
    """
    near = model.near  # of rows that are elsewhere, some
    suspects = suspects_of(near)
    if not suspects:
        return
    if model.noticed is None:
        model.notice_changes()  # later changes are of these data
    if ints is not None:
        words = "" if np.array_equal(ints, near.ints) else held(near, ints)
        chosen = [State(ints.copy(), near.floats, words)]
    else:
        chosen = list(states(near, free))
    few = max(1, sum(not one.whole for one in chosen))

    def unknown(looked_up: set, size: int) -> list[tuple[State, int, tuple]]:
        """(state, every how many rows, its key) of those that were not looked at."""
        found = []
        for one in chosen:
            step = 1 if one.whole else max(1, size * few // SOME)
            found.append((one, step, (one.ints.tobytes(), one.floats.tobytes(), step)))
        return [x for x in found if x[2] not in looked_up]

    for one, step, key in unknown(near.looked_up, near.size):
        at_state(near, suspects, one, range(0, near.size, step))
        near.looked_up.add(key)
    if model.elsewhere is None or all(role in OF_STATES for role, _ in suspects):
        return
    if left := unknown(model.looked_up, model.size):
        model.elsewhere.look_up(model, [(one, step) for one, step, _ in left])
        model.looked_up.update(key for *_, key in left)


def held(model, ints) -> str:
    """The discrete blocks in words, long ones abridged."""
    state, named = model.state(ints, model.floats), []
    for block in (b for b in model.blocks if b.discrete):
        values = getattr(state, block.name).ravel()
        shown = ", ".join(map(str, values[:MOST_SHOWN])) + ", ..." * (len(values) > MOST_SHOWN)
        named.append(f"{block.name}={shown if block.shape == () else f'[{shown}]'}")
    return f" with {', '.join(named)}"


def suspects_of(model) -> list[tuple[str, Any]]:
    """(role, function) of those that may look up what is not there, in the order of their calls."""
    state = model.state(model.ints, model.floats)
    found: list[tuple[str, Any, tuple]] = []
    if model.site_prior:
        if any(may_fail(f, roles, state, model, sizes) for f, roles, sizes in model.priors):
            found.append(("log_prior", model.log_prior, ()))
    elif model.log_prior is not None:
        found.append(("log_prior", model.log_prior, ("state",)))
    if model.prepare is not None:
        found.append(("prepare", model.prepare, ("state", "data")))
    parts = model.predictors
    if parts is not None:
        of_datum = ((parts.eta, ("state", "data", "n")), (parts.log_factor, ("", "data", "n")))
        if any(may_fail(f, roles, state, model) for f, roles in of_datum):
            found.append(("log_likelihood", model.log_likelihood, ()))
        for role in ("derivatives", "remainder"):
            given = getattr(parts, role)
            if given is not None and may_fail(given, ("", "data", "n"), state, model):
                found.append((role, after_eta(parts.eta, given), ()))
        if parts.etas is not None and not trusted(parts.etas):
            found.append(("etas", parts.etas, ()))
    elif model.log_likelihood is not None:
        roles = ("state", "data", "n", *(("",) if model.prepare is not None else ()))
        found.append(("log_likelihood", model.log_likelihood, roles))
    return [(n, f) for n, f, roles in found if not roles or may_fail(f, roles, state, model)]


def may_fail(function, roles, state, model, sizes=None) -> bool:
    """Is it to be called with checks; sizes: what its counting arguments count to, but for n."""
    if trusted(function):
        return False
    return not cannot_fail(function, roles, state, model.data, sizes or {"n": model.size})


def after_eta(eta, function) -> Any:
    """A function of predictors as one of the state."""

    def of_state(state, data, n):
        return function(eta(state, data, n), data, n)

    return of_state


OF_STATES = ("log_prior", "prepare")  # roles of functions that read no row


def first_row_beyond(model, at: State, step: int) -> int:
    """The first row at which a function looks up what is not there, at a state; -1: none does."""
    state, rows = model.state(at.ints, at.floats.copy()), range(0, model.size, step)
    if impossible(model, state):
        return -1
    suspects = [(role, f) for role, f in suspects_of(model) if role not in OF_STATES]
    found = [row_beyond(model, role, f, state, rows) for role, f in suspects]
    return min((row for row in found if row >= 0), default=-1)


def row_beyond(model, role: str, function, state, rows: range) -> int:
    """The same of one of the functions."""
    shown, data = guarded_state(state), guarded_data(model.data, model.size)
    if role == "etas":
        try:
            look_at_etas(model, function, state, shown, data, "")
        except IndexError:
            return 0  # one of them all
        return -1
    made, seen = prepared(model, state)
    if not DISABLED:
        return first_beyond(function, (state, model.data), made, rows)
    called = guarded_function(function)
    calls = ((n, blamed(role, called, (shown, data, n, *seen), "")) for n in rows)
    return next((n for n, error in calls if error is not None), -1)


def at_state(model, suspects, at: State, rows: range) -> None:
    """Call the functions at one state, over some rows."""
    state, words = model.state(at.ints, at.floats.copy()), at.words
    shown, data = guarded_state(state), guarded_data(model.data, model.size)
    made, seen = None, None

    def where(n) -> str:
        number = n if model.numbers is None else model.numbers[n]
        return f" at datum {number}{datum_of(model.data, n, model.size)}{words}"

    if impossible(model, state) and ("log_prior", model.log_prior) not in suspects:
        return
    for role, function in suspects:
        if role == "log_prior":
            look_once(role, function, (state,), (shown,), words)
            if impossible(model, state):
                return
        elif role == "prepare":
            look_once(role, function, (state, model.data), (shown, data), words)
        elif role == "etas":
            look_at_etas(model, function, state, shown, data, words)
        else:
            if made is None:
                made, seen = prepared(model, state)
            look(role, function, ((state, model.data), made), ((shown, data), seen), rows, where)


def impossible(model, state) -> bool:
    """Does the prior exclude a state, whose look-ups need not exist."""
    if model.log_prior is None:
        return False
    called = getattr(model.log_prior, "py_func", model.log_prior)
    try:
        with np.errstate(all="ignore"):
            return bool(float(called(state)) == -np.inf)
    except Exception:
        return False


def prepared(model, state) -> tuple[tuple, tuple]:
    """What prepare makes of a state, as it is and guarded."""
    made = model.extra(state)
    if not made:
        return (), ()
    return made, (tuple(guarded(v, f"array {i} of prepare") for i, v in enumerate(made[0])),)


def look_at_etas(model, etas, state, shown, data, words: str) -> None:
    """Call etas for the first and the last data, and some between."""
    count, size = model.predictors.count(model), model.size
    length = min(size, 512)
    out = np.zeros((count, length))
    for first in spread(size - length + 1, MOST_STATES):
        look_once(
            "etas", etas, (state, model.data, np.int64(first), out),
            (shown, data, first, guarded(out, "table out")), f" at data {first} on{words}",
        )  # fmt: skip


# ----------------------------------------------------------------------------------- populations
def check_population(population) -> None:
    """Refuse a log_factor that looks up what is not there, at some arm and datum."""
    data, size, arms = population.data, population.size, population.arms
    factor, roles = population.log_factor, ("data", "arm", "n")
    if trusted(factor) or population.looked_up:
        return
    if cannot_fail(factor, roles, None, data, {"arm": arms, "n": size}):
        return
    shown, all_of_them = guarded_data(data, size), arms * size <= EVERY
    chosen = range(arms) if all_of_them else spread(arms, 16 * MOST_STATES)
    step = 1 if all_of_them else max(1, size * len(chosen) // SOME)
    for arm in chosen:
        rows = range(0, size, 1 if arm in (0, arms - 1) else step)
        look(
            "log_factor", factor, ((data, arm), ()), ((shown, arm), ()), rows,
            lambda n, arm=arm: f" at datum {n}{datum_of(data, n, size)}, arm {arm}", unsigned=True,
        )  # fmt: skip
    population.looked_up.add(factor)


def look_at_part(role: str, function, arguments: tuple, leaf, model, words: str) -> None:
    """Call a function that a kernel was given: where it takes a datum, or a site, for each."""
    shown = tuple(shown_argument(value, model) for value in arguments)
    state = next((a for a in arguments if type(a) is model.record), None)
    places = [i for i, value in enumerate(arguments) if isinstance(value, np.int64)]
    roles = tuple("state" if a is state else "data" if a is model.data else "" for a in arguments)
    if len(places) == 1:
        roles = (*roles[: places[0]], "n", *roles[places[0] + 1 :])
    if trusted(function) or cannot_fail(function, roles, state, model.data, {"n": model.size}):
        return
    if not places:
        look_once(role, function, arguments, shown, words)
        return
    at, rows = places[0], range(model.size)
    others: list[tuple] = [()]
    if len(places) == 2:  # a site and its value, last
        v = model.variables[leaf.block]
        rows, others = (
            range(v.block.length),
            [(np.int64(i),) for i in spread(v.support, MOST_STATES)],
        )
    before, after = slice(0, at), slice(at + 1, len(arguments) - (len(others[0])))
    for more in others:
        given = (arguments[before], (*arguments[after], *more))
        seen = (shown[before], (*shown[after], *(int(i) for i in more)))
        site = f", value {more[0]}" if more else ""
        name = "site" if more else "datum"
        look(role, function, given, seen, rows,
             lambda n, name=name, site=site: f" at {name} {n}{site}{words}")  # fmt: skip


def shown_argument(value, model) -> Any:
    """A guarded view of an argument of a user's function."""
    if value is model.data:
        return guarded_data(value, model.size)
    if type(value) is model.record or hasattr(value, "_fields"):
        return guarded_state(value)
    if isinstance(value, tuple):
        return tuple(guarded(part, f"array {i} of prepare") for i, part in enumerate(value))
    return guarded(value, "table of its argument") if isinstance(value, np.ndarray) else value
