"""Slopes that are written on a tape, in plain Python: the arithmetic of tapes.py."""

import ctypes
from typing import Any

import numpy as np

LANES, MOST = 8, 24  # as in tapes.py


class PlainTraced:
    """Lanes, and the address of a tape; 0: they are on it, or on none."""

    __slots__ = ("lanes", "tape")
    __array_ufunc__ = None  # numbers of numpy leave operators to it

    def __init__(self, lanes: np.ndarray, tape: int):
        self.lanes, self.tape = lanes, tape

    def __add__(self, other):
        if isinstance(other, PlainTraced):
            return PlainTraced(self.lanes + other.lanes, self.tape | other.tape)
        return PlainTraced(self.lanes + other, self.tape)

    def __sub__(self, other):
        return self + (-1.0) * other

    def __rsub__(self, other):
        return (-1.0) * self + other

    def __mul__(self, other):
        if isinstance(other, PlainTraced):
            note(self)
            note(other)
            return PlainTraced(np.zeros(LANES), 0)
        return PlainTraced(self.lanes * other, self.tape)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        return PlainTraced(self.lanes / other, self.tape)


def note(slope: PlainTraced) -> None:
    """Write it on its tape, unless its mark is there."""
    mark = slope.lanes[0]
    if slope.tape == 0 or mark == 0.0:
        return
    words: Any = (ctypes.c_double * (1 + MOST * LANES)).from_address(slope.tape)
    tape = np.frombuffer(words, dtype=float)
    count = int(tape[0])
    kept = tape[1:].reshape(MOST, LANES)
    if mark in kept[: min(count, MOST), 0]:
        return
    if count < MOST:
        kept[count] = slope.lanes
    tape[0] = count + 1


def signs(slope: Any) -> Any:
    """1, 0 or -1: of a number, of lanes, or of what is written on tapes."""
    return (
        PlainTraced(np.sign(slope.lanes), 0) if isinstance(slope, PlainTraced) else np.sign(slope)
    )


def of_words(slopes: np.ndarray) -> Any:
    """Slopes as they are; or of words, those of LANES numbers and of an address."""
    if slopes.dtype != np.int64:
        return slopes
    return PlainTraced(slopes[:LANES].view(float).copy(), int(slopes[LANES]))
