"""Records with made-up pairwise scores, partitions small enough to list, and their laws.

One score function serves all tests, because a sweep takes seconds to compile: what differs travels
in the data.
"""

import itertools
from math import log

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Program, Walker
from tests.helpers.laws import normalised


def noise_of(i, j):
    """Uniform numbers that a pair always has, whatever its order."""
    h = (i * j * 7919 + (i + j) * 104729) & 0xFFFFFFFF
    for _ in range(3):
        h = (h * 1103515 + 12345) & 0xFFFFFFFF
        h ^= h >> 15
    return (h + 0.5) / 4294967296.0


def score(data, i, j):
    """By the kinds of both, plus noise of the pair, plus a rare large number."""
    if i + j == data.bad:
        return data.worst
    u = noise_of(i, j)
    value = data.table[data.kind[i], data.kind[j]] + data.scale * log(u / (1.0 - u))
    return value + data.large if u < data.rare else value


def score_many(data, i, rows, out):
    """The same, for several at once."""
    for k in range(len(rows)):
        out[k] = score(data, i, rows[k])


def records(kind, table, scale=0.0, rare=0.0, large=0.0, bad=-1, worst=np.nan):
    """The data that `score` reads; the pair with i + j == bad scores `worst`."""
    return {
        "kind": np.asarray(kind, dtype=np.int64), "table": np.asarray(table, dtype=float),
        "scale": float(scale), "rare": float(rare), "large": float(large), "bad": int(bad),
        "worst": float(worst),
    }  # fmt: skip


def model_of(data, labels=None) -> sm.Model:
    size = len(next(iter(data.values())))
    start = np.arange(size) if labels is None else np.array(labels, dtype=np.int64)
    return sm.Model(None, data, {"y": start}, support={"y": size})


def swept(model, kernel, sweeps=1, seed=1, audit=0.0):
    """Labels after each sweep, and sums of the statistics."""
    one = Walker(Program(model, kernel), np.random.SeedSequence(seed), audit)
    made = one.advance(sweeps)
    if one.error is not None:
        raise one.error
    label = next(c.kernel for c in one.program.layout.columns)
    stats = one.program.layout.stats(made.words)[label]
    return made.ints[:, : model.size], {name: v.sum() for name, v in stats.items()}


# --------------------------------------------------------------- partitions, one after the other
def partitions(size) -> np.ndarray:
    """All partitions: each mention is given the first of its cluster."""
    found = [()]
    for i in range(size):
        found = [(*p, first) for p in found for first in {*p, i}]
    return np.array(sorted(found))


def codes_of(labels, states) -> np.ndarray:
    """Which partition each line of labels is."""
    size = states.shape[1]
    first = (labels[:, :, None] == labels[:, None, :]).argmax(axis=2)
    powers = size ** np.arange(size)[::-1]
    return np.searchsorted(states @ powers, first @ powers)  # both in lexicographic order


def log_target(states, scores, new=0.0) -> np.ndarray:
    """Scores of pairs in the same cluster, and a price per cluster; every pair counts once."""
    found = new * (states == np.arange(states.shape[1])).sum(axis=1)
    for i, j in itertools.combinations(range(states.shape[1]), 2):
        found = found + np.where(states[:, i] == states[:, j], scores[i, j], 0.0)
    return found


def draw_of(states, logp, i) -> np.ndarray:
    """The transition matrix that draws the cluster of mention i given those of the others."""
    rest = np.delete(states, i, axis=1)
    apart = (rest[:, :, None] == rest[:, None, :]).argmax(axis=2)
    same = (apart[:, None, :] == apart[None, :, :]).all(axis=2)
    weights = np.where(same, np.exp(logp - logp.max())[None, :], 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def sweep_matrix(states, logp, scan) -> np.ndarray:
    """The transition matrix of a sweep; it leaves the target fixed."""
    each = [draw_of(states, logp, i) for i in range(states.shape[1])]
    if scan == "fixed":
        return np.linalg.multi_dot(each)
    orders = list(itertools.permutations(each))
    found = sum(np.linalg.multi_dot(order) for order in orders) / len(orders)
    p = normalised(logp)
    assert np.allclose(p @ found, p, atol=1e-14)
    return found


def copies(scores, start):
    """A model with a block for each line of `start`, all with these scores, and its keys."""
    count, size = start.shape
    data = records(np.tile(np.arange(size), count), scores)
    # Labels as the kernel names them: those of a block are its own stretch.
    return model_of(data, (start + size * np.arange(count)[:, None]).ravel()), np.repeat(
        np.arange(count), size
    )
