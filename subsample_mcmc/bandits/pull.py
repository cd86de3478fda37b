"""Where rewards come from: a user's function of an arm, compiled if it can be."""

import inspect
import time
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.compared import in_numbers, refuse_apart, value_of
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, compiles, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    NUMBER,
    FunctionAddress,
    RecordAddress,
    call_numbers,
    pointer_to,
)
from subsample_mcmc.target.lookups.checked import blamed, told
from subsample_mcmc.target.lookups.guards import guarded_data, guarded_function
from subsample_mcmc.target.lookups.reads import cannot_fail, trusted
from subsample_mcmc.target.user_functions import number, plain, try_once

BLOCK = 4096  # rewards that pull(..., count) is asked for at a time, at most
COMPARED = 32  # arms whose rewards are compared, compiled and in Python
SECONDS = 0.3  # that this may take, beside the first arm


class Pull:
    """A user's pull(arm, rng) -> float, or pull(arm, rng, count) -> array; data first if given."""

    def __init__(self, function: Any, data: Any, compiled: bool | None):
        if not callable(function):
            raise TypeError(f"pull={function!r:.60}: give a function, pull(arm, rng) -> float.")
        self.function = function
        self.has_data = data is not None
        self.name = getattr(function, "__name__", "pull")
        self.checked = True  # are its look-ups, where it is compiled
        given = ["data"] * self.has_data + ["arm", "rng"]
        asked = inspect.signature(getattr(function, "py_func", function)).parameters.values()
        count = sum(p.default is p.empty for p in asked)  # what has a default is not for us
        if count not in (len(given), len(given) + 1):
            raise TypeError(
                f"pull={self.name} takes {count} arguments: give pull({', '.join(given)}) -> one "
                f"float, or pull({', '.join(given)}, count) -> an array of so many rewards."
            )
        self.batched = count == len(given) + 1
        rng = np.random.default_rng(0)
        tried = (*((data,) if self.has_data else ()), 0, rng, *((2,) if self.batched else ()))
        reason = "asked for" if compiled is False else obstacle(function, tried, data)
        if reason and compiled:
            raise TypeError(f"compiled=True, but {reason}")
        self.obstacle = reason
        if not reason and self.batched:  # a mistake shows with an ordinary traceback
            self(data, 0, rng, 2)
        elif not reason:
            named = {"data": data} if self.has_data else {}
            try_once(plain(function, "pull", "pull(arm, rng)"), "pull",
                     {**named, "arm": 0, "rng": rng})  # fmt: skip

    def settle(self, data, arms: int) -> None:
        """Compile it with look-ups checked, if it may look up what is not there, and try it.

        Where it is called from Python, as one is that costs or remembers something, only those
        pulls are made that are counted.
        """
        if self.obstacle:
            return
        roles = ("data",) * self.has_data + ("arm", "") + ("",) * self.batched
        safe = trusted(self.function) or cannot_fail(
            self.function, roles, None, data, {"arm": arms}
        )
        self.checked = not safe
        if DISABLED:
            for arm in range(0 if safe else min(arms, COMPARED)):
                self.blame(data, arm, np.random.default_rng(arm), 2, sure=False)
            return
        self.compare(data, 0)  # which compiles it
        until = time.monotonic() + SECONDS
        for arm in sorted({int(i) for i in np.linspace(1, arms - 1, min(arms - 1, COMPARED))}):
            if time.monotonic() > until:
                break
            self.compare(data, arm)

    def compare(self, data, arm: int) -> None:
        """Refuse a function that says something else where it is compiled."""
        count, given = (2 if self.batched else 1), (data,) * self.has_data
        ours, theirs = np.random.default_rng(arm), np.random.default_rng(arm)
        source = self.rewards_for(data, theirs)
        try:
            if pull_some(pointer_to(source), arm, count) != count:
                return  # of which the run tells
        except IndexError:
            self.blame(data, arm, np.random.default_rng(arm), count)
        except Exception:
            return
        before = ours.bit_generator.state
        called = plain(self.function, "pull", "pull(arm, rng)")
        more = (count,) * self.batched

        def read(kind):
            ours.bit_generator.state = before
            numbers = tuple(in_numbers(part, kind) for part in given)
            value = value_of(
                lambda *all_: np.ravel(called(*all_))[-1],
                (*numbers, arm, ours, *more), (*given, arm, ours, *more),
            )  # fmt: skip
            # Other random numbers than compiled code draws say nothing.
            same = ours.bit_generator.state == theirs.bit_generator.state
            return value if same else np.nan

        refuse_apart(read, float(source.room[count - 1]), lambda: (f"pull of arm {arm}", ""))

    def blame(self, data, arm: int, rng, count: int, sure: bool = True) -> None:
        """Raise the error of a look-up that fails in Python, or else, if `sure`, that one does."""
        given = (arm, rng, *((count,) * self.batched))
        seen = (guarded_data(data, -1),) if self.has_data else ()
        where = f" for arm {arm}"
        error = blamed("pull", guarded_function(self.function), (*seen, *given), where)
        if sure or error:
            raise told("pull", error, where) from None

    def __call__(self, data, arm: int, rng, count: int):
        """`count` rewards of an arm, in Python."""
        given = (data, arm, rng) if self.has_data else (arm, rng)
        if self.batched:
            values = np.asarray(self.function(*given, count), dtype=float)
            if values.shape != (count,):
                raise TypeError(
                    f"{self.name}(arm={arm}, count={count}) returned an array of shape "
                    f"{values.shape}: give one reward for each pull."
                )
            return values
        return [self.one(self.function(*given), arm) for _ in range(count)]

    def one(self, reward: Any, arm: int) -> float:
        """A reward as a float, from whatever can be made one."""
        try:
            return float(reward)
        except (TypeError, ValueError):
            return number(reward, f"{self.name}(arm={arm})")  # says what is wrong

    @cached_property
    def read(self) -> Any:
        """What compiled code calls by its address: (context, arm, count) -> how many were made."""
        user = jit(self.function, flags=FLAGS, user=True, checked=self.checked)
        return (reading_blocks if self.batched else reading_one)(user, self.has_data)

    def rewards_for(self, data, rng) -> "Rewards":
        """Where a run's rewards come from."""
        room = np.zeros(BLOCK if self.batched else 1)
        about = RecordAddress(PullContext(data, rng, room))
        return Rewards(FunctionAddress(self.read, about, NUMBER, NUMBER), about, room)


class PullContext(NamedTuple):
    """What a user's pull reads, and where its rewards go."""

    data: Any
    rng: Any
    room: np.ndarray


class Rewards(NamedTuple):
    """A user's pull by its address: no type of its data."""

    pull: Any  # (context, arm, count) -> how many rewards stand in room
    context: Any  # a PullContext
    room: np.ndarray


@jit
def pull_some(source, arm, count):
    """Rewards of one arm, from Python: how many."""
    return call_numbers(source.pull, source.context, arm, count)


def obstacle(function, tried, data) -> str:
    """Why a function does not compile, or its data cannot be handed over; empty if all is well."""
    try:
        pointer_to(PullContext(data, np.random.default_rng(0), np.zeros(1)))
        return compiles(function, tried, FLAGS)
    except Exception as error:  # numba stumbles over some Python: that runs as Python, too
        return f"{type(error).__name__}: {error}"


@memoised
def reading_one(function, has_data: bool) -> Any:
    """One reward."""
    if has_data:

        @jit(inner="entry", user=True)
        def read(context, arm, count):
            context.room[0] = function(context.data, arm, context.rng)
            return 1.0

    else:

        @jit(inner="entry", user=True)
        def read(context, arm, count):
            context.room[0] = function(arm, context.rng)
            return 1.0

    return read


@memoised
def reading_blocks(function, has_data: bool) -> Any:
    """Several of one arm."""
    if has_data:

        @jit(inner=True, user=True)
        def pulled(context, arm, count):
            return function(context.data, arm, context.rng, count)

    else:

        @jit(inner=True, user=True)
        def pulled(context, arm, count):
            return function(arm, context.rng, count)

    @jit(inner="entry", user=True)
    def read(context, arm, count):
        found = pulled(context, arm, count)
        for i in range(min(len(found), count)):
            context.room[i] = found[i]
        return 1.0 * len(found)

    return read
