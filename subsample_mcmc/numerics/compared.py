"""Compiled functions say what the same functions say in Python: what a comparison of both needs.

Python's integers have no end; compiled ones have 64 bits, 2 ** -k is a whole number, 0, if k is
one, and so are k // 0 and k % 0, where Python raises. Such a function is another one where it is
compiled, and draws from another posterior, without a word.
"""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.numerics.bytecode import DIVISIONS, instructions

NEAR, LITTLE = 1e-4, 1e-6  # relative and absolute differences that are never looked into
SHAKES = 8  # how often that is tried
MOST_COLUMNS = 16  # of whole numbers, whose extremes are looked at
LONG = 1 << 31  # integers from here on are no index
ROUNDED = 100.0  # times what the last digits of the arguments change: rounding may make so much
ADVICE = (
    "Integers of compiled code have 64 bits, unsigned ones of whole arrays wrap below 0, and "
    "2 ** -k is 0 where k is an integer. Write such numbers as floats, 2.0 ** -k or float(n) ** 4, "
    "and give what is subtracted as int64 or float. (Or terms of 10^11 and more cancel: no digit "
    "is left.)"
)


class WholeByZeroError(ArithmeticError):
    """A function divided whole numbers by 0; its argument says in which line."""


class Numbers(np.ndarray):
    """A view whose elements are Python's own numbers; but for truth values: ~True is -2 there."""

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return found.item() if isinstance(found, np.number) else found


class Widened(Numbers):
    """The same with Python's truth values, of which sums count, and rows of 64-bit integers."""

    def __getitem__(self, index):
        found = np.ndarray.__getitem__(self, index)
        if isinstance(found, np.generic):
            return found.item()
        return found.astype(np.int64) if found.dtype.kind in "iu" else found


class Shaken(Numbers):
    """The same where each float is, each time it is looked up, the next one above or below.

    So are integers that are no index, which arithmetic makes floats of.
    """

    rng = np.random.default_rng(0)

    def __getitem__(self, index):
        found = np.ndarray.__getitem__(self, index)
        if isinstance(found, np.integer) and abs(int(found)) >= LONG:
            found = np.float64(found)
        if found.dtype.kind != "f":
            return super().__getitem__(index)
        found = np.nextafter(found, self.rng.choice(np.array([-np.inf, np.inf], found.dtype)))
        return float(found) if isinstance(found, np.number) else found


def columns_of(data: Any, size: int) -> list[np.ndarray]:
    """The columns of whole numbers."""
    known = (column for column in data if isinstance(column, np.ndarray))
    return [c for c in known if c.dtype.kind in "iu" and c.ndim and c.size and len(c) == size]


def zeros_of(data: Any, size: int) -> list[int]:
    """The first datum at which each column of whole numbers is 0."""
    columns = (column for column in columns_of(data, size) if column.ndim == 1)
    found = ((column, int(np.argmin(column != 0))) for column in columns)
    return [first for column, first in found if not column[first]]


def extremes_of(data: Any, size: int) -> list[int]:
    """Data at which columns of whole numbers are least and greatest: few of them, wherever.

    Powers and products of these, and powers of 2, are what 64 bits may not hold.
    """
    found = []
    for column in columns_of(data, size)[:MOST_COLUMNS]:
        each = column.size // size
        found += [int(np.argmin(column)) // each, int(np.argmax(column)) // each]
    return found


def in_numbers(record: Any, kind: type[Numbers] = Numbers) -> Any:
    """A record or tuple of arrays and numbers, as Python sees lists."""
    values = [v.view(kind) if np.ndim(v) else np.asarray(v).item() for v in record]
    return type(record)(*values) if hasattr(record, "_fields") else tuple(values)


def value_of(function, *variants: tuple) -> float:
    """What a function gives of the first arguments that it can be called with; else nan.

    Raises WholeByZeroError where it divides whole numbers by 0. Of floats that is inf or nan where
    it is compiled, which may be meant.
    """
    for arguments in variants:
        try:
            with np.errstate(all="ignore"):
                return float(function(*arguments))
        except ZeroDivisionError as error:
            if line := line_of_whole(error):
                raise WholeByZeroError(line) from error
        except Exception:  # no number of this kind, or what compiled code bears
            continue
    return np.nan


def line_of_whole(error: ZeroDivisionError) -> str:
    """The line in which whole numbers were divided by 0; empty if it was something else."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or "float" in str(error):  # from Python 3.14 on it does not say of which kind
        return ""
    code = at.tb_frame.f_code
    line = linecache.getline(code.co_filename, at.tb_lineno).strip()
    done = next((i.argrepr for i in instructions(code) if i.offset == at.tb_lasti), "")
    if done not in DIVISIONS and "divmod(" not in line:
        return ""
    return f"line {at.tb_lineno} of {code.co_name}" + (f", `{line}`," if line else "")


def in_python(read: Callable[..., float], compiled: float, told: Callable[[], tuple]) -> float:
    """What a function says in Python; raises where that divides whole numbers by 0.

    Not where compiled code gives nan: that ends a run by itself.
    """
    try:
        return read(Numbers)
    except WholeByZeroError as error:
        if np.isnan(compiled):
            return np.nan
        what, where = told()
        raise ValueError(
            f"{what} is {compiled:.6g} where it is compiled{where}, and ZeroDivisionError in "
            f"Python: {error} divides a whole number by 0, which compiled code says is 0. Say what "
            "is meant there, by `if`, or leave such values out of the data or the support."
        ) from error


def apart(one: float, other: float) -> bool:
    """Do two values differ by more than little. What is no finite number is not compared."""
    if not (np.isfinite(one) and np.isfinite(other)):
        return False
    return abs(one - other) > NEAR * max(abs(one), abs(other)) + LITTLE


def is_rounding(read: Callable[..., float], plain: float, compiled: float) -> bool:
    """Do the last digits of what a function reads say so much, or another reading of its values.

    read(kind): the function in Python, with arrays of this kind.
    """

    def value(kind) -> float:
        try:
            return read(kind)
        except WholeByZeroError:
            return np.nan

    if not apart(value(Widened), compiled):
        return True
    changes = np.abs(np.array([value(Shaken) for _ in range(SHAKES)]) - plain)
    known = changes[np.isfinite(changes)]
    return len(known) > 0 and abs(plain - compiled) <= ROUNDED * float(known.max())


def refuse_apart(read: Callable[..., float], compiled: float, told: Callable[[], tuple]) -> float:
    """Raise where a function says something else; return what it says in Python.

    told(): (which value it is, where).
    """
    plain = in_python(read, compiled, told)
    if apart(plain, compiled) and not is_rounding(read, plain, compiled):
        what, where = told()
        raise ValueError(
            f"{what} is {plain:.6g} in Python, and {compiled:.6g} where it is compiled{where}. "
            f"{ADVICE}"
        )
    return plain
