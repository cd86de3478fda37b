"""Compiled functions say what the same functions say in Python: what a comparison of both needs.

Python's integers have no end; compiled ones have 64 bits, those of unsigned columns wrap below 0,
and 2 ** -k is a whole number, 0, if k is one. Such a function is another one where it is compiled,
and draws from another posterior, without a word.
"""

from typing import Any

import numpy as np

NEAR, LITTLE = 1e-4, 1e-6  # relative and absolute differences that rounding may make
FLOAT32 = 1e3  # times as much, where data have 7 digits
ADVICE = (
    "Integers of compiled code have 64 bits, unsigned ones wrap below 0, and 2 ** -k is 0 where k "
    "is an integer. Write such numbers as floats, 2.0 ** -k or float(n) ** 4, and give columns "
    "that are subtracted as int64 or float."
)


class Numbers(np.ndarray):
    """A view whose elements are Python's own numbers; but for truth values: ~True is -2 there."""

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return found.item() if isinstance(found, np.number) else found


def in_numbers(record: Any) -> Any:
    """A record or tuple of arrays and numbers, as Python sees lists."""
    values = [v.view(Numbers) if np.ndim(v) else np.asarray(v).item() for v in record]
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


def first_apart(plain: np.ndarray, compiled: np.ndarray, digits: float = 1.0) -> int:
    """The first place where two values differ by more than rounding, or -1.

    digits: FLOAT32 where numbers have few. What is no finite number in both is not compared.
    """
    known = np.isfinite(plain) & np.isfinite(compiled)
    plain, compiled = np.where(known, plain, 0.0), np.where(known, compiled, 0.0)
    size = np.maximum(np.abs(plain), np.abs(compiled))
    wrong = np.abs(plain - compiled) > digits * (NEAR * size + LITTLE)
    return int(np.argmax(wrong)) if wrong.any() else -1


def refuse_apart(wanted, compiled, told, digits: float = 1.0) -> None:
    """Raise where a function says something else; told(i): which value it is, and where."""
    i = first_apart(np.asarray(wanted), compiled, digits)
    if i >= 0:
        what, where = told(i)
        raise ValueError(
            f"{what} is {wanted[i]:.6g} in Python, and {compiled[i]:.6g} where it is "
            f"compiled{where}. {ADVICE}"
        )


def digits_of(record: Any) -> float:
    """How much rounding its columns make."""
    kinds = [np.asarray(v).dtype for v in record]
    return FLOAT32 if any(k.kind == "f" and k.itemsize < 8 for k in kinds) else 1.0
