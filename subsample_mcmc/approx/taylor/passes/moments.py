"""Moments of linear predictors: sums over rows of f_n X_n, f_n X_n X_n' and f_n X_n X_n X_n.

Block by block, column by column: a product of two slopes and a derivative is made once for all
third ones that it stands in, and each sum is of unlike coordinates once. The order of additions is
written out, so that a block's sums are a function of its rows.
"""

from itertools import combinations_with_replacement as multisets
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.passes.predictor_blocks import PredictorRows
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_number, pointer_to
from subsample_mcmc.target.dyadic import BLOCK


class Places(NamedTuple):
    """Where a partial derivative stands in the tuple that `derivatives` returns."""

    second: np.ndarray  # (p, p)
    third: np.ndarray  # (p, p, p)
    used: int  # how many there are


def places(count: int, order: int) -> Places:
    """First derivatives stand in the order of the predictors, then second and third ones."""
    second, third = np.zeros((count,) * 2, dtype=np.int64), np.zeros((count,) * 3, dtype=np.int64)
    at = count
    for k, l in multisets(range(count), 2):
        second[k, l] = second[l, k] = at
        at += 1
    for part in multisets(range(count), 3) if order > 2 else ():
        for k, l, m in permutations(part):
            third[k, l, m] = at
        at += 1
    return Places(second, third, at)


class MomentRoom(NamedTuple):
    """Room for products of a block's columns."""

    one: np.ndarray  # (p, BLOCK) second derivatives times a slope ...
    two: np.ndarray  # (p, p, BLOCK) ... or third ones ...
    three: np.ndarray  # (p, BLOCK) ... times two
    lanes: np.ndarray


def scratch_of(count: int) -> Any:
    """Room for so many predictors."""
    one, three = np.zeros((2, count, BLOCK))
    return pointer_to(MomentRoom(one, np.zeros((count, count, BLOCK)), three, np.zeros(LANES)))


# A sum over a block: LANES sums of every LANES-th number, and then those by halves. Written out,
# and compiled without leave to reorder, or to fuse a product with a sum: the same on every machine.
LANES = 32


@jit(disjoint=True, inner="always")
def sum_of_lanes(s):
    """The sum of LANES numbers, by halves; s is overwritten."""
    for i in range(np.uint64(16)):
        s[i] += s[i + np.uint64(16)]
    for i in range(np.uint64(8)):
        s[i] += s[i + np.uint64(8)]
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))


@jit(disjoint=True, inner=True)
def column_sum(a, s):
    """The sum of a column of a block."""
    for i in range(np.uint64(LANES)):
        low = (a[i] + a[i + np.uint64(32)]) + (a[i + np.uint64(64)] + a[i + np.uint64(96)])
        high = (a[i + np.uint64(128)] + a[i + np.uint64(160)]) + (
            a[i + np.uint64(192)] + a[i + np.uint64(224)]
        )
        s[i] = low + high
    return sum_of_lanes(s)


@jit(disjoint=True, inner="always")
def product_sum(a, b, s):
    """The sum of products of two columns of a block."""
    for i in range(np.uint64(LANES)):
        j, k, l = i + np.uint64(32), i + np.uint64(64), i + np.uint64(96)
        low = (a[i] * b[i] + a[j] * b[j]) + (a[k] * b[k] + a[l] * b[l])
        m, n = i + np.uint64(128), i + np.uint64(160)
        o, p = i + np.uint64(192), i + np.uint64(224)
        high = (a[m] * b[m] + a[n] * b[n]) + (a[o] * b[o] + a[p] * b[p])
        s[i] = low + high
    return sum_of_lanes(s)


@jit(disjoint=True, inner=True)
def put_product(a, b, out):
    """Write the products of two columns."""
    for i in range(np.uint64(BLOCK)):
        out[i] = a[i] * b[i]


@jit(disjoint=True, inner=True)
def add_product(a, b, out):
    """Add the products of two columns."""
    for i in range(np.uint64(BLOCK)):
        out[i] += a[i] * b[i]


@jit(inner=True)
def add_block(where, rows, scratch, sums):
    """Write sum_n v_n, f_n X_n, f_n X_n X_n' and f_n X_n X_n X_n of the rows of a block.

    sums: one after the other, of unlike coordinates once, a >= b >= c; see `apart`.
    """
    x, f, s = rows.x, rows.f, scratch.lanes
    one, two, three = scratch.one, scratch.two, scratch.three
    p, d = x.shape[0], x.shape[1]
    second, third = 1 + d, 1 + d + d * (d + 1) // 2
    cubic = len(sums) > third
    sums[0] = column_sum(rows.v, s)
    for a in range(d):
        value = 0.0
        for k in range(p):
            value += product_sum(f[k], x[k, a], s)
            put_product(f[where.second[k, 0]], x[0, a], one[k])
            for l in range(1, p):
                add_product(f[where.second[k, l]], x[l, a], one[k])
            for l in range(k * cubic, p * cubic):
                put_product(f[where.third[k, l, 0]], x[0, a], two[k, l])
                for m in range(1, p):
                    add_product(f[where.third[k, l, m]], x[m, a], two[k, l])
        sums[1 + a] = value
        for b in range(a + 1):
            value = 0.0
            for k in range(p):
                value += product_sum(one[k], x[k, b], s)
            sums[second] = value
            second += 1
            if not cubic:
                continue
            for k in range(p):
                put_product(two[min(k, 0), max(k, 0)], x[0, b], three[k])
                for l in range(1, p):
                    add_product(two[min(k, l), max(k, l)], x[l, b], three[k])
            for c in range(b + 1):
                value = 0.0
                for k in range(p):
                    value += product_sum(three[k], x[k, c], s)
                sums[third] = value
                third += 1


@jit(inner=True)
def drop(weights, rows):
    """Leave out the rows whose weight is 0, whatever was read of them."""
    for i in range(len(weights)):
        if weights[i] == 0.0:
            rows.x[:, :, i] = 0.0
            rows.f[:, i] = 0.0
            rows.v[i] = 0.0


@jit
def add_blocks(reader, rows, where, first, weights, scratch, sums):
    """Write the sums of some blocks, one after the other: (blocks, numbers)."""
    for block in range(len(sums)):
        begin = block * BLOCK
        call_number(reader.read, reader.context, first + begin)
        drop(weights[begin : begin + BLOCK], rows)
        add_block(where, rows, scratch, sums[block])


def add_rows(where, q, f, values, weights, sums) -> None:
    """The same of a block that was read row by row: q (p, rows, d), f (rows, derivatives)."""
    (p, size, d), used = q.shape, f.shape[1]
    x, column = np.zeros((p, d, BLOCK)), np.zeros(BLOCK)
    rows = PredictorRows(x, np.zeros((used, BLOCK)), column, np.zeros(0), np.zeros((0, BLOCK)))
    rows.x[:, :, :size], rows.f[:, :size], rows.v[:size] = q.transpose(0, 2, 1), f.T, values
    drop_and_add(where, pointer_to(rows), weights, scratch_of(p), sums)


@jit
def drop_and_add(where, rows, weights, scratch, sums):
    """Leave rows out and add up the others."""
    drop(weights, rows)
    add_block(where, rows, scratch, sums)


def numbers_of(d: int, cubic: bool) -> int:
    """How many numbers sums of so many coordinates have, one block's in a row."""
    return 1 + d + d * (d + 1) // 2 + cubic * (d * (d + 1) * (d + 2) // 6)


def apart(sums: np.ndarray, d: int, room: int) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """(s0, s1, s2, s3) for `room` coordinates, of which the first d stand in the sums.

    The last two indices of s3 stand as pairs b >= c, those of unlike coordinates twice.
    """
    cubic = len(sums) > numbers_of(d, False)
    one, two = np.zeros(room), np.zeros((room, room))
    three = np.zeros((room, cubic * (room * (room + 1) // 2)))
    one[:d] = sums[1 : 1 + d]
    b, c = np.tril_indices(d)
    pairs = len(b)
    two[b, c] = two[c, b] = sums[1 + d : 1 + d + pairs]
    if cubic:
        whole, part = np.zeros((d, d, d)), sums[1 + d + pairs :]
        a = np.repeat(np.arange(d), np.arange(1, d + 1) * np.arange(2, d + 2) // 2)
        first = np.cumsum(np.arange(d) * np.arange(1, d + 1) // 2)
        at = np.arange(len(part)) - first[a]
        for i, j, k in permutations((a, b[at], c[at])):
            whole[i, j, k] = part
        three[:d, :pairs] = whole[:, b, c] * np.where(b == c, 1.0, 2.0)
    return float(sums[0]), one, two, three
