"""Look-ups beyond an array: found by one pass over the data, before anything is drawn or fitted.

Compiled code reads whatever lies beyond a block, a column or a table. So a user's function that
looks up anything but its own row and constants is first compiled with checks, and called for every
datum; where it fails it is called again as plain Python, which tells what was looked up and where.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import DISABLED, FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    NUMBER,
    FunctionAddress,
    RecordAddress,
    call_numbers,
    pointer_to,
)
from subsample_mcmc.target.lookups.guards import Beyond, guarded_function, sentence

SPAN = 1 << 17  # rows beyond which threads share the work
PATIENT = 100  # rows at which a function may raise something else
PLAIN = 100_000  # rows that are looked at in plain Python, evenly spaced
LAST = 2**63 - 1


class CheckedRows(NamedTuple):
    """What a checked function is called with, at which rows."""

    before: tuple  # arguments before the row
    after: tuple  # and after it
    at: np.ndarray  # (1,) the row that it is called for
    step: int


class CheckedCall(NamedTuple):
    """What a checked function is called with, once."""

    given: tuple


class CheckedLoop(NamedTuple):
    """A loop over rows, and what it is about, by their addresses: no type of the function."""

    run: Any  # (about, first, last)
    about: Any


@memoised
def loop_over(checked, unsigned: bool) -> Any:
    """loop(rows, first, last): the checked function, called for each row."""
    kind = np.uint64 if unsigned else np.int64

    @jit(inner="entry", user=True)
    def loop(rows, first, last):
        at = rows.at
        for i in range(first, last, rows.step):
            at[0] = i
            checked(*rows.before, kind(i & LAST), *rows.after)
        return 0.0

    return loop


@memoised
def called_once(checked) -> Any:
    """once(call, unused, unused): the checked function, called."""

    @jit(inner="entry", user=True)
    def once(call, first, last):
        checked(*call.given)
        return 0.0

    return once


@jit
def run_through(loop, first, last):
    """Call it for rows first .. last - 1."""
    call_numbers(loop.run, loop.about, first, last)


def first_beyond(function, before, after, rows: range, unsigned: bool = False) -> int:
    """The first row at which a function looks up what is not there; -1: none does.

    Also -1 if it cannot be compiled, which is reported elsewhere. Rows at which it raises
    something else are passed over.
    """
    if DISABLED:
        return -1  # see `explained`: plain Python is checked as it is called
    checked = jit(function, flags=FLAGS, user=True, inner="always", checked=True)
    run, beyond = loop_over(checked, unsigned), len(rows)

    def loop_of(at) -> Any:
        about = RecordAddress(CheckedRows(before, after, at, rows.step))
        return pointer_to(CheckedLoop(FunctionAddress(run, about, NUMBER, NUMBER), about))

    try:
        loop_of(np.zeros(1, dtype=np.int64))
    except Exception:
        return -1

    def part(span) -> int:
        at = np.array([rows[span[0]]])
        end, first, loop = rows[span[1] - 1] + 1, rows[span[0]], loop_of(at)
        for _ in range(PATIENT):
            try:
                run_through(loop, first, end)
                return -1
            except IndexError:
                return int(at[0])
            except Exception:
                first = int(at[0]) + rows.step
                if first >= end:
                    return -1
        return -1

    spans = [(i, min(i + SPAN, beyond)) for i in range(0, beyond, SPAN)]
    if len(spans) < 2:
        found = [part(span) for span in spans]
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(part, spans))
    return min((row for row in found if row >= 0), default=-1)


def raises_beyond(function, arguments: tuple) -> bool | None:
    """Does one call of a function look up what is not there; None if it cannot be compiled."""
    try:
        run = called_once(jit(function, flags=FLAGS, user=True, inner=True, checked=True))
        about = RecordAddress(CheckedCall(arguments))
        call = pointer_to(CheckedLoop(FunctionAddress(run, about, NUMBER, NUMBER), about))
    except Exception:  # numba stumbles over some Python
        return None
    try:
        run_through(call, 0, 1)
    except IndexError:
        return True
    except Exception:
        return False
    return False


def blamed(role: str, called, arguments: tuple, where: str) -> IndexError | None:
    """The error of a call where all is guarded, which tells what was looked up; or None."""
    try:
        with np.errstate(all="ignore"):
            called(*arguments)
    except Beyond as found:
        return IndexError(sentence(role, found, where, called))
    except IndexError as found:
        return IndexError(f"{role} looks up what is not there{where}: {found}. Correct the index.")
    except Exception:
        return None
    return None


def look(
    role: str, function, given: tuple, guarded: tuple, rows: range, where, unsigned: bool = False
) -> None:
    """Call a function (*before, n, *after) at each row, checked; raise if a look-up fails.

    given and guarded: (before, after), for machine code and for plain Python. where(n): words.
    """
    called = guarded_function(function)
    if DISABLED:
        for n in rows[:: max(1, len(rows) // PLAIN)]:
            if error := blamed(role, called, (*guarded[0], n, *guarded[1]), ""):
                raise blamed(role, called, (*guarded[0], n, *guarded[1]), where(n)) or error
        return
    n = first_beyond(function, given[0], given[1], rows, unsigned)
    if n >= 0:
        raise told(role, blamed(role, called, (*guarded[0], n, *guarded[1]), where(n)), where(n))


def look_once(role: str, function, given: tuple, guarded: tuple, where: str = "") -> None:
    """Call a function once, checked; raise if a look-up fails."""
    failed = None if DISABLED else raises_beyond(function, given)
    if failed is not False:
        error = blamed(role, guarded_function(function), guarded, where)
        if error or failed:
            raise told(role, error, where)


def told(role: str, error: IndexError | None, where: str) -> IndexError:
    """The error, or what is known where plain Python does not fail."""
    return error or IndexError(
        f"{role} looks up an index beyond an array{where}, when it is compiled: compare the "
        "indices with the lengths of what they are looked up in."
    )
