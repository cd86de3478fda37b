"""What tells that an array was changed in place, and a hash of what it holds."""

import hashlib
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import DISABLED, jit

HASHED = 1 << 30  # bytes of an array that a fingerprint reads whole
WEYL, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53),
)  # fmt: skip
HALF = np.uint64(32)


@jit
def mixed(words, out):
    """Two sums of 64-bit words, each mixed with its place: plain sums stay where all signs flip."""
    total = other = np.uint64(0)
    for i in range(np.uint64(len(words))):
        h = (words[i] ^ (i * WEYL)) * FIRST
        h = (h ^ (h >> HALF)) * SECOND
        h ^= h >> HALF
        total += h
        other ^= h * WEYL
    out[0], out[1] = total, other


def checksum(array: np.ndarray) -> Any:
    """What differs after an array was changed in place, at the speed of memory."""
    if DISABLED or array.nbytes > HASHED or array.dtype.hasobject:
        return array_hash(array)
    flat_view = np.ascontiguousarray(written_once(array)).reshape(-1).view(np.uint8)
    if flat_view.ctypes.data % 8:
        flat_view = flat_view.copy()
    whole = len(flat_view) // 8 * 8
    words, out = flat_view[:whole].view(np.uint64), np.zeros(2, dtype=np.uint64)
    words.flags.writeable = False  # one type for all
    mixed(words, out)
    return array.shape, array.dtype.str, *out.tolist(), flat_view[whole:].tobytes()


def written_once(array: np.ndarray) -> np.ndarray:
    """Of what np.broadcast_to repeats, one."""
    once = (slice(0, 1) if step == 0 else slice(None) for step in array.strides)
    return array[(..., *once)]


def array_hash(array: np.ndarray) -> str:
    """A hash of an array's content; beyond a gigabyte, of evenly spaced parts of it."""
    made = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    array = written_once(array)
    flat_view = np.ascontiguousarray(array).ravel()
    if array.nbytes <= HASHED:
        made.update(flat_view.data if flat_view.size else b"")
    else:
        step = flat_view.size // 1024
        for i in range(1024):
            made.update(flat_view[i * step : i * step + HASHED // 1024 // array.itemsize].data)
    return made.hexdigest()
