"""Compiled functions say what the same functions say in Python: what a comparison of both needs.

Python's integers have no end; compiled ones have 64 bits, those of unsigned columns wrap below 0,
and 2 ** -k is a whole number, 0, if k is one. Such a function is another one where it is compiled,
and draws from another posterior, without a word.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

NEAR, LITTLE = 1e-4, 1e-6  # relative and absolute differences that are never looked into
SHAKES = 8  # how often that is tried
LONG = 1 << 31  # integers from here on are no index
ROUNDED = 100.0  # times what the last digits of the arguments change: rounding may make so much
ADVICE = (
    "Integers of compiled code have 64 bits, unsigned ones wrap below 0, and 2 ** -k is 0 where k "
    "is an integer. Write such numbers as floats, 2.0 ** -k or float(n) ** 4, and give columns "
    "that are subtracted as int64 or float. (Or terms of 10^11 and more cancel: no digit is left.)"
)


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


def in_numbers(record: Any, kind: type[Numbers] = Numbers) -> Any:
    """A record or tuple of arrays and numbers, as Python sees lists."""
    values = [v.view(kind) if np.ndim(v) else np.asarray(v).item() for v in record]
    return type(record)(*values) if hasattr(record, "_fields") else tuple(values)


def value_of(function, *variants: tuple) -> float:
    """What a function gives of the first arguments that it can be called with; else nan."""
    for arguments in variants:
        try:
            with np.errstate(all="ignore"):
                return float(function(*arguments))
        except Exception:  # no number of this kind, or what compiled code bears
            continue
    return np.nan


def apart(one: float, other: float) -> bool:
    """Do two values differ by more than little. What is no finite number is not compared."""
    if not (np.isfinite(one) and np.isfinite(other)):
        return False
    return abs(one - other) > NEAR * max(abs(one), abs(other)) + LITTLE


def is_rounding(read: Callable[..., float], plain: float, compiled: float) -> bool:
    """Do the last digits of what a function reads say so much, or another reading of its values.

    read(kind): the function in Python, with arrays of this kind.
    """
    if not apart(read(Widened), compiled):
        return True
    changes = np.abs(np.array([read(Shaken) for _ in range(SHAKES)]) - plain)
    known = changes[np.isfinite(changes)]
    return len(known) > 0 and abs(plain - compiled) <= ROUNDED * float(known.max())


def refuse_apart(read: Callable[..., float], compiled: float, told: Callable[[], tuple]) -> float:
    """Raise where a function says something else; return what it says in Python.

    told(): (which value it is, where).
    """
    plain = read(Numbers)
    if apart(plain, compiled) and not is_rounding(read, plain, compiled):
        what, where = told()
        raise ValueError(
            f"{what} is {plain:.6g} in Python, and {compiled:.6g} where it is compiled{where}. "
            f"{ADVICE}"
        )
    return plain
