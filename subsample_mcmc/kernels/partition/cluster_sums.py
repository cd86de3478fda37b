"""Sums of a bilinear score over whole clusters, kept up to date as mentions move.

The score of a pair is a constant, plus products of token weights summed over the tokens that both
have, plus entries of small tables by the categories of both. Its sum over a cluster then needs no
pair: for each token of the mention, the clusters that contain it (never more of them than mentions
have it), and for each table one number per cluster. A sum goes when the last mention with its token
leaves, and all are made anew for each sweep: rounding does not pile up.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit

JOINT = 32  # combinations of categories up to which tables are joined


class LeftOver(NamedTuple):
    """What a control variate leaves of a score, by level of its own mean over the cluster."""

    edges: np.ndarray  # (levels - 1,) ascending
    shift: np.ndarray  # (levels,) mean of what is left, per member
    between: np.ndarray  # (levels,) variance of a cluster's mean of it about that
    within: np.ndarray  # (levels,) variance inside a cluster
    reach: np.ndarray  # (1,) standard deviations at which an arm is ruled out unread
    bound: np.ndarray  # (3,) l, s, a: of N members with sum k: max(k + l N, s k + a N)


class ClusterSums(NamedTuple):
    """The pieces of a bilinear score, and their sums over the clusters as they are now."""

    constant: np.ndarray  # (1,)
    tokens: np.ndarray  # (mentions + 1,): where a mention's tokens start
    token: np.ndarray  # numbers of (block, token), sorted within a mention
    left: np.ndarray  # weight of a token in its mention, times the coefficient of its kind
    right: np.ndarray  # weight of a token in its mention
    lists: np.ndarray  # (tokens + 1,): where the list of a token's clusters starts
    blocks: np.ndarray  # (blocks + 1,): the tokens of a block
    used: np.ndarray  # (tokens,): clusters in the list
    cluster: np.ndarray  # their labels ...
    members: np.ndarray  # ... how many of their mentions have the token ...
    weight: np.ndarray  # ... and the sum of its weights
    category: np.ndarray  # (tables, mentions), -1 where there is none
    offset: np.ndarray  # (tables + 1,): where a table's categories start among all
    table: np.ndarray  # (categories of all tables, most categories): score of two categories
    column: np.ndarray  # (mentions, categories of all tables): sums over clusters, by label
    own: np.ndarray  # (mentions,): score of a mention with itself, which is in its cluster's sums
    left_over: LeftOver


@jit(inner="always")
def add_to_sums(s, i, y):
    """Mention i joins cluster y."""
    for k in range(s.tokens[i], s.tokens[i + 1]):
        t = s.token[k]
        at, end = s.lists[t], s.lists[t] + s.used[t]
        while at < end and s.cluster[at] != y:
            at += 1
        if at == end:
            s.cluster[at], s.members[at], s.weight[at] = y, 0, 0.0
            s.used[t] += 1
        s.members[at] += 1
        s.weight[at] += s.right[k]
    for k in range(len(s.category)):
        c = s.category[k, i]
        if c >= 0:
            for other in range(s.offset[k], s.offset[k + 1]):
                s.column[y, other] += s.table[s.offset[k] + c, other - s.offset[k]]


@jit(inner="always")
def take_from_sums(s, i, y, empty):
    """Mention i has left cluster y; empty: it was the last."""
    for k in range(s.tokens[i], s.tokens[i + 1]):
        t = s.token[k]
        at = s.lists[t]
        while s.cluster[at] != y:
            at += 1
        s.members[at] -= 1
        s.weight[at] -= s.right[k]
        if s.members[at] == 0:
            s.used[t] -= 1
            last = s.lists[t] + s.used[t]
            s.cluster[at], s.members[at] = s.cluster[last], s.members[last]
            s.weight[at] = s.weight[last]
    if empty:
        for other in range(s.column.shape[1]):
            s.column[y, other] = 0.0
        return
    for k in range(len(s.category)):
        c = s.category[k, i]
        if c >= 0:
            for other in range(s.offset[k], s.offset[k + 1]):
                s.column[y, other] -= s.table[s.offset[k] + c, other - s.offset[k]]


@jit(inner="always")
def sum_anew(s, m, b):
    """All sums of a block from its clusters."""
    for t in range(s.blocks[b], s.blocks[b + 1]):
        s.used[t] = 0
    for y in range(m.start[b], m.start[b + 1]):
        for other in range(s.column.shape[1]):
            s.column[y, other] = 0.0
    for k in range(m.start[b], m.start[b + 1]):
        add_to_sums(s, m.order[k], m.label[m.order[k]])


@jit(inner="always")
def cluster_scores(s, m, b, i, out):
    """The score of mention i, summed over each cluster of its block: out[label].

    Mention i has left its cluster, but not yet the sums, which are changed only if it moves.
    """
    lo = m.start[b]
    hi = lo + m.now[b].clusters
    own, tables = m.label[i], len(s.category)
    for k in range(lo, hi):
        y = m.alive[k]
        value = s.constant[0] * m.size[y]
        for j in range(tables):
            if s.category[j, i] >= 0:
                value += s.column[y, s.offset[j] + s.category[j, i]]
        out[y] = value
    for k in range(s.tokens[i], s.tokens[i + 1]):
        t, weight = s.token[k], s.left[k]
        for at in range(s.lists[t], s.lists[t] + s.used[t]):
            out[s.cluster[at]] += weight * s.weight[at]
    out[own] -= s.own[i] - s.constant[0]


@jit(inner="always")
def pair_score(s, i, j):
    """The score of one pair, of the same block."""
    value = s.constant[0]
    for k in range(len(s.category)):
        c, d = s.category[k, i], s.category[k, j]
        if c >= 0 and d >= 0:
            value += s.table[s.offset[k] + c, d]
    a, b = s.tokens[i], s.tokens[j]
    last_a, last_b = s.tokens[i + 1], s.tokens[j + 1]
    while a < last_a and b < last_b:
        t, u = s.token[a], s.token[b]
        if t == u:
            value += s.left[a] * s.right[b]
        a += 1 if t <= u else 0
        b += 1 if u <= t else 0
    return value


class Pieces(NamedTuple):
    """A bilinear score of all mentions, before blocks are known (kernels/partition/bilinear.py)."""

    constant: float
    tokens: tuple  # of (indptr, ids, values, coefficient)
    tables: tuple  # of (codes, table), codes -1 where missing
    left_over: LeftOver


def make_sums(pieces: Pieces, m) -> ClusterSums:
    """Room for the sums; tokens that only one mention of a block has are left out."""
    size = len(m.label)
    owner = np.empty(size, dtype=np.int64)  # the block of each mention
    owner[m.order] = np.repeat(np.arange(len(m.start) - 1), np.diff(m.start))
    mention, block, token, left, right = joined(pieces, owner)
    # One number per (block, token) that occurs twice or more; numbers of a block are consecutive.
    order = np.lexsort((token, block))
    changes = (np.diff(block[order]) != 0) | (np.diff(token[order]) != 0)
    number = np.concatenate([[0], np.cumsum(changes)]) if len(order) else np.zeros(0, np.int64)
    count = np.bincount(number, minlength=1)
    kept = count[number] > 1
    rows = order[kept]
    number = np.unique(number[kept], return_inverse=True)[1]
    mention, left, right = mention[rows], left[rows], right[rows]
    most = int(number.max(initial=-1)) + 1
    lists = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=most))])
    first = np.zeros(most, dtype=np.int64)
    first[number] = block[rows]
    blocks = np.searchsorted(first, np.arange(len(m.start)))
    again = np.lexsort((number, mention))
    starts = np.concatenate([[0], np.cumsum(np.bincount(mention, minlength=size))])
    tables = joint_tables(pieces.tables)
    widths = [len(table) for _, table in tables]
    offset = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    table = np.zeros((offset[-1], max(widths, default=1)))
    for (_, own), at in zip(tables, offset, strict=False):
        table[at : at + len(own), : len(own)] = own
    category = np.full((len(widths), size), -1, dtype=np.int64)
    for k, (codes, _) in enumerate(tables):
        category[k] = codes
    self_score = np.full(size, pieces.constant)
    np.add.at(self_score, mention, left * right)
    for codes, own in tables:
        self_score += np.where(codes >= 0, np.diag(own)[codes], 0.0)
    return ClusterSums(
        np.array([pieces.constant]), starts.astype(np.int64), number[again].astype(np.int64),
        left[again], right[again], lists.astype(np.int64), blocks.astype(np.int64),
        np.zeros(most, np.int64), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64),
        np.zeros(len(rows)), category, offset, table, np.zeros((size, offset[-1])),
        self_score, pieces.left_over,
    )  # fmt: skip


def joint_tables(tables: tuple) -> list[tuple[np.ndarray, np.ndarray]]:
    """Small tables as one table of combinations: every one is looked up for every cluster."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for codes, table in sorted(tables, key=lambda given: len(given[1])):
        codes, table = np.asarray(codes, dtype=np.int64), np.asarray(table, dtype=float)
        count = len(table) + 1  # the last one: missing
        full = np.zeros((count, count))
        full[:-1, :-1] = table
        codes = np.where(codes < 0, len(table), codes)
        if np.max(codes, initial=-1) < len(table):
            count, full = len(table), table
        if found and len(found[-1][1]) * count <= JOINT:
            before, known = found.pop()
            full = np.kron(known, np.ones((count, count))) + np.tile(full, (len(known),) * 2)
            codes = before * count + codes
        found.append((codes, full))
    return found


def joined(pieces: Pieces, owner: np.ndarray) -> tuple[np.ndarray, ...]:
    """All kinds of tokens in one list: mention, block, token, and the two weights."""
    mentions, tokens, left, right, above = [], [], [], [], 0
    for indptr, ids, values, coefficient in pieces.tokens:
        mentions.append(np.repeat(np.arange(len(owner)), np.diff(indptr)))
        tokens.append(np.asarray(ids, dtype=np.int64) + above)
        above += int(np.max(ids, initial=-1)) + 1
        right.append(np.asarray(values, dtype=float))
        left.append(coefficient * right[-1])
    empty = [np.zeros(0, dtype=np.int64)]
    mention = np.concatenate(mentions or empty)
    weights = [np.concatenate(w or [np.zeros(0)]) for w in (left, right)]
    return mention, owner[mention], np.concatenate(tokens or empty), *weights
