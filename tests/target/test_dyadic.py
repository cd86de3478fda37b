"""Sums over rows in an order that no layout of the rows changes."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest

from subsample_mcmc.target import dyadic
from subsample_mcmc.target.dyadic import (
    BLOCK,
    SumsAndMaxima,
    Tree,
    aligned,
    blocks_of,
    in_threads,
    whole_blocks,
)

SIZES = (1, 2, 3, 7, 8, 31, 64, 65, 100)  # in blocks


def vectors(blocks, numbers=3, seed=0):
    """Of sizes so unlike that the order of additions shows in the last bits."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((blocks, numbers)) * 10.0 ** rng.integers(-8, 8, (blocks, 1))


def plain(values, combine):
    """The same as the definition says it, by recursion from the top."""
    if len(values) == 1:
        return values[0]
    half = 1 << ((len(values) - 1).bit_length() - 1)
    return combine(plain(values[:half], combine), plain(values[half:], combine))


@pytest.mark.parametrize(
    "combine", [np.add, np.maximum, SumsAndMaxima(2)], ids=["sums", "maxima", "both"]
)
@pytest.mark.parametrize("blocks", SIZES)
def test_any_order_gives_the_sum_of_the_definition(blocks, combine):
    values, rng = vectors(blocks), np.random.default_rng(1)
    wanted = plain(values, combine)
    for order in (range(blocks), range(blocks)[::-1], rng.permutation(blocks)):
        tree = Tree(combine)
        for block in order:
            tree.add(0, int(block), values[block])
        assert np.array_equal(tree.root(blocks), wanted)


@pytest.mark.parametrize("blocks", SIZES)
def test_any_partition_gives_the_same(blocks):
    values, rng = vectors(blocks, seed=2), np.random.default_rng(3)
    wanted = plain(values, np.add)
    for parts in (1, 2, 3, 5, 13):
        ends = np.sort(rng.integers(0, blocks + 1, parts - 1))  # uneven, and some of them empty
        ends = [0, *ends.tolist(), blocks]
        trees = []
        for first, last in pairwise(ends):
            trees.append(Tree())
            trees[-1].add_blocks(first, values[first:last])
            assert [node[:2] for node in trees[-1].nodes()] == aligned(first, last)
        whole = Tree()
        for k in rng.permutation(parts):
            whole.merge(pickle.loads(pickle.dumps(trees[k])).nodes())
        assert np.array_equal(whole.root(blocks), wanted)


def test_the_order_matters_here():
    """Else the tests above could not fail: sums in the order of arrival differ."""
    values = vectors(64)
    arrived = np.zeros(3)
    for block in np.random.default_rng(1).permutation(64):
        arrived = arrived + values[block]
    assert not np.array_equal(arrived, plain(values, np.add))


def test_few_nodes_are_held_when_blocks_come_in_order():
    tree = Tree()
    for block in range(1000):
        tree.add(0, block, np.ones(1))
        assert len(tree.nodes()) <= 10
    assert tree.root(1000)[0] == 1000.0


def test_aligned_nodes_cover_their_blocks_once():
    for first in range(20):
        for last in range(first, 40):
            found = [range(i << k, (i + 1) << k) for k, i in aligned(first, last)]
            assert [b for part in found for b in part] == list(range(first, last))
    assert aligned(0, 64) == [(6, 0)]


@pytest.mark.parametrize(
    ("first", "last", "size", "wanted"),
    [
        (0, 1000, 1000, (0, 4)),  # the last block is short, and whole
        (0, 999, 1000, (0, 3)),
        (0, 768, 1000, (0, 3)),
        (1, 1000, 1000, (1, 4)),
        (256, 512, 1000, (1, 2)),
        (257, 511, 1000, (2, 2)),  # no whole block
        (300, 300, 1000, (2, 2)),
        (0, 10, 10, (0, 1)),
        (990, 1000, 1000, (4, 4)),
        (768, 1000, 1000, (3, 4)),
    ],
)
def test_whole_blocks(first, last, size, wanted):
    assert whole_blocks(first, last, size) == wanted


def test_ragged_partitions_leave_less_than_two_blocks_of_rows():
    rng, size = np.random.default_rng(0), 5000
    for _ in range(200):
        first, last = np.sort(rng.integers(0, size + 1, 2)).tolist()
        begin, end = whole_blocks(first, last, size)
        rows = set(range(first, last)) - set(range(begin * BLOCK, min(end * BLOCK, size)))
        assert len(rows) < 2 * BLOCK
        assert all(first <= b * BLOCK and min((b + 1) * BLOCK, size) <= last
                   for b in range(begin, end))  # fmt: skip


def test_what_is_missing_or_twice_is_named():
    tree = Tree()
    tree.add_blocks(0, np.ones((5, 1)))
    with pytest.raises(ValueError, match="block 5 of 7 is missing"):
        tree.root(7)
    with pytest.raises(ValueError, match="other than 3 blocks"):
        tree.root(3)
    with pytest.raises(ValueError, match="added twice"):
        tree.add(0, 1, np.ones(1))
    with pytest.raises(ValueError, match="one, at least"):
        Tree().root(0)
    late = Tree()
    late.add(0, 0, np.ones(1))
    late.add(1, 0, np.ones(1))
    with pytest.raises(ValueError, match="twice"):
        late.root(2)


@pytest.mark.parametrize("blocks", [1, 5, 33, 257])
def test_threads_change_nothing(blocks, monkeypatch):
    values, seen = vectors(blocks), []

    def part(first, last):
        tree = Tree()
        tree.add_blocks(first, values[first:last])
        seen.append(last - first)
        return tree

    wanted = plain(values, np.add)
    for count in (1, 2, 3):
        monkeypatch.setattr(dyadic, "threads", lambda count=count: count)
        seen.clear()
        assert np.array_equal(in_threads(part, 0, blocks).root(blocks), wanted)
        assert sum(seen) == blocks
    two = in_threads(part, 0, blocks // 3).nodes() + in_threads(part, blocks // 3, blocks).nodes()
    tree = Tree()
    tree.merge(two)
    assert np.array_equal(tree.root(blocks), wanted)


def test_rounding_is_less_than_that_of_a_running_sum():
    values = np.random.default_rng(5).standard_normal((100_000, 1)) + 1e3
    tree = Tree()
    tree.add_blocks(0, values)
    exact, running = math.fsum(values[:, 0]), 0.0
    for value in values[:, 0].tolist():
        running += value
    assert abs(tree.root(len(values))[0] - exact) < 0.1 * abs(running - exact)


def test_blocks_of_few_rows():
    assert [blocks_of(n) for n in (1, 255, 256, 257, 512)] == [1, 1, 1, 2, 2]
