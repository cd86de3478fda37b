"""Whether rows changed, at the speed of memory: a number of each part that add up to one of all.

Each row has a hash of 64 bits, h. The digest of rows is the polynomial sum over i of h_i z^(n-1-i)
modulo 2^64, twice, with other hashes and another odd z. So the digest of two parts, one behind the
other, is known from theirs: D(AB) = D(A) z^|B| + D(B). It depends on the values and the order of
all rows and not on how they are cut into parts, and needs no row number before all parts are known.

Two rows that change places change the sum by (h_i - h_j) (z^i - z^j). Modulo 2^64 the last factor
has at most 2 + log2|i - j| trailing zeros: at 2^32 rows 30 bits of each of the two sums are left.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

from subsample_mcmc.numerics.jit import jit

WEYL, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53),
)  # fmt: skip
ONE, OTHER = np.uint64(0xD1342543DE82EF95), np.uint64(0xAF251AF3B0F025B5)  # the two z, odd
HALF, SHORT = np.uint64(32), np.uint64(29)
ROWS = 1 << 12  # rows that are hashed together: they stay in the cache
MODULUS = 1 << 64


@jit
def add_words(words, keys, hashes):
    """Add the words of each row, each by a key of its own, to the hashes of these rows.

    Folded first: else changes of the highest bits of two words, both signs say, would cancel.
    """
    for i in range(np.uint64(words.shape[0])):
        total = hashes[i]
        for j in range(np.uint64(words.shape[1])):
            word = np.uint64(words[i, j])
            total += (word ^ (word >> HALF)) * keys[j]
        hashes[i] = total


@jit
def add_rows(hashes, rows, sums):
    """Go on with the two polynomials over the first rows of hashes; these become 0 again."""
    total, other = sums[0], sums[1]
    for i in range(np.uint64(rows)):
        h = hashes[i]
        h = (h ^ (h >> HALF)) * FIRST
        h ^= h >> SHORT
        total = total * ONE + h
        h = (h + WEYL) * SECOND
        other = other * OTHER + (h ^ (h >> HALF))
        hashes[i] = np.uint64(0)
    sums[0], sums[1] = total, other


def keys_of(start: int, count: int) -> np.ndarray:
    """Odd numbers of 64 bits that look random, those of word `start` and the next ones."""
    with np.errstate(over="ignore"):
        z = (np.arange(start + 1, start + count + 1, dtype=np.uint64)) * WEYL
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


def words_of(array: np.ndarray) -> np.ndarray:
    """The bits of each row as words of 32 or 64 bits: (rows, words)."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    size = rows.dtype.itemsize
    if size not in (1, 2, 4, 8):
        raise TypeError(f"a column of {array.dtype}: give numbers of at most 64 bits.")
    words = rows.view(f"u{size}")
    return words if size >= 4 else words.astype(np.uint32)


def digest_of(columns: dict[str, np.ndarray], count: int) -> tuple[int, int]:
    """The digest of these rows, of all columns in this order."""
    sums, hashes = np.zeros(2, np.uint64), np.zeros(min(ROWS, count), np.uint64)
    widths = [int(np.prod(a.shape[1:], dtype=int)) for a in columns.values()]
    starts = np.cumsum([0, *widths])
    keys = [keys_of(int(s), w) for s, w in zip(starts, widths, strict=False)]
    for start in range(0, count, ROWS):
        stop = min(start + ROWS, count)
        for array, own in zip(columns.values(), keys, strict=True):
            words = words_of(array[start:stop])
            words.flags.writeable = False  # one type for all
            add_words(words, own, hashes)
        add_rows(hashes, stop - start, sums)
    return int(sums[0]), int(sums[1])


def joined(parts: Iterable[tuple[int, tuple[int, int]]]) -> tuple[int, tuple[int, int]]:
    """(rows, digest) of parts one behind the other, from theirs."""
    rows, one, other = 0, 0, 0
    for count, (first, second) in parts:
        one = (one * pow(int(ONE), count, MODULUS) + first) % MODULUS
        other = (other * pow(int(OTHER), count, MODULUS) + second) % MODULUS
        rows += count
    return rows, (one, other)


def told(what: str, rows: int, digest: tuple[int, int]) -> str:
    """A hash of what the columns are and of all rows, as text."""
    text = f"{what} {rows} {digest[0]:016x} {digest[1]:016x}"
    return hashlib.sha256(text.encode()).hexdigest()
