"""Where rewards come from: a user's function of an arm, compiled if it can be."""

import inspect
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import FLAGS, compiles, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import NUMBER, FunctionAddress, RecordAddress, pointer_to
from subsample_mcmc.target.guards import guarded_data
from subsample_mcmc.target.lookups import look_once
from subsample_mcmc.target.reads import cannot_fail, trusted
from subsample_mcmc.target.user_functions import plain, try_once

BLOCK = 4096  # rewards that pull(..., count) is asked for at a time, at most
ARMS = 1000  # that are pulled once before the first pull


class Pull:
    """A user's pull(arm, rng) -> float, or pull(arm, rng, count) -> array; data first if given."""

    def __init__(self, function: Any, data: Any, compiled: bool | None):
        self.function = function
        self.has_data = data is not None
        self.name = getattr(function, "__name__", "pull")
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

    def look(self, data, arms: int) -> None:
        """Refuse a function that looks up what is not there, by pulling each arm once."""
        has, roles = self.has_data, ("data",) * self.has_data + ("arm",)
        more = () if not self.batched else (2,)
        roles += ("",) * (1 + len(more))
        if trusted(self.function) or cannot_fail(self.function, roles, None, data, {"arm": arms}):
            return
        for arm in sorted({int(i) for i in np.linspace(0, arms - 1, min(arms, ARMS))}):
            given, seen = (
                (*((part,) if has else ()), arm, np.random.default_rng(arm), *more)
                for part in (data, guarded_data(data, -1) if has else None)
            )
            look_once("pull", self.function, given, seen, f" for arm {arm}")

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
        return [float(self.function(*given)) for _ in range(count)]

    @cached_property
    def read(self) -> Any:
        """What compiled code calls by its address: (context, arm, count) -> how many were made."""
        user = jit(self.function, flags=FLAGS, user=True)
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
