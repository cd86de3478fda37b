"""Scores of pairs: the user's function, compiled, and tried on some pairs."""

import inspect
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import RewardError
from subsample_mcmc.kernels.partition.members import Blocks
from subsample_mcmc.numerics.compared import in_numbers, refuse_apart, value_of
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    RecordAddress,
    array,
    call_rows,
    pointer_to,
)
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.user_functions import number, plain

MATES = 1000  # mentions of a block that are looked through
COMPARED = 4000  # pairs that tell whether a control variate is of these scores ...
FACTOR = 4.0  # ... which leaves at most so many times the variance that it says ...
ROUNDING = 1e-10  # ... or this part of the scores' own
LARGEST = 1e100  # scores beyond it would swallow all others in a sum
CALLS = "similarity(data, i, j) -> float, or similarity(data, i, rows, out) that fills out"


def is_batched(similarity: Any) -> bool:
    """Does it score a mention against several at once."""
    given = inspect.signature(plain(similarity, "similarity", CALLS)).parameters.values()
    count = sum(parameter.default is parameter.empty for parameter in given)
    if count not in (3, 4):
        raise TypeError(f"similarity takes {count} arguments: give {CALLS}.")
    return count == 4


def score_once(similarity: Any, data: Any, i: int, j: int) -> float:
    """The score of one pair, uncompiled."""
    called = plain(similarity, "similarity", CALLS)
    with np.errstate(all="ignore"):
        if is_batched(similarity):
            out, rows = np.full(1, np.nan), np.array([j])
            rows.flags.writeable = False  # they are the clusters' own
            called(data, i, rows, out)
            return float(out[0])
        return number(called(data, i, j), f"similarity(data, i={i}, j={j})")


def try_pairs(similarity: Any, data: Any, blocks: Any, pairs: int = 32) -> None:
    """Refuse a score that is no number or not symmetric, by looking at some pairs."""
    rng = np.random.default_rng(0)  # the same sample every time
    sizes = np.diff(blocks.start)
    large = np.flatnonzero(sizes > 1)
    for b in rng.choice(large, pairs) if len(large) else ():
        i, j = blocks.order[blocks.start[b] + rng.choice(sizes[b], 2, replace=False)].tolist()
        one, other = score_once(similarity, data, i, j), score_once(similarity, data, j, i)
        if not abs(one) < LARGEST:
            raise RewardError(wrong_pair(i, j, one))
        if abs(one - other) > 1e-9 * max(1.0, abs(one)):
            raise ValueError(
                f"similarity is {one!r} for mentions ({i}, {j}) and {other!r} for ({j}, {i}): it "
                "must be symmetric; average the two, or order the pair inside the function."
            )


def compare_pairs(similarity: Any, data: Any, blocks: Any, pairs: int = 32) -> None:
    """Refuse a score that says something else where it is compiled, which may have other integers.

    Of any pairs that may share a cluster, and of rows with the least and the most in a column.
    """
    if DISABLED or is_batched(similarity):
        return
    rng, place = np.random.default_rng(1), np.empty_like(blocks.order)
    place[blocks.order] = np.arange(len(blocks.order))
    columns = [c for c in data if np.ndim(c) == 1 and len(c) == len(place)]
    rows = [int(f(c)) for c in columns for f in (np.argmin, np.argmax)]
    rows += rng.integers(len(place), size=pairs).tolist()
    first, last = blocks.start[:-1], blocks.start[1:]
    found = []
    for i in rows:
        b = int(np.searchsorted(last, place[i], side="right"))
        among = blocks.order[first[b] : last[b]]
        near = set(among[:MATES].tolist())
        others = [int(rng.choice(among)), *(j for j in rows[: 2 * len(columns)] if j in near)]
        found += [(i, j) for j in others if j != i] + [(j, i) for j in others if j != i]
    if not found:
        return
    one, other = np.ascontiguousarray(np.array(found).T)
    try:
        compiled = scores_of(similarity, data, one, other)
    except Exception:
        return  # it does not compile, raises, or gives no number: of which others tell
    called = plain(similarity, "similarity", CALLS)
    for pair, value in zip(found, compiled.tolist(), strict=True):

        def read(kind, pair=pair):
            return value_of(called, (in_numbers(data, kind), *pair), (data, *pair))

        def told(pair=pair):
            return f"similarity of mentions {pair}", ""

        refuse_apart(read, value, told)


def compare_control(similarity: Any, data: Any, blocks: Any, control: Any) -> None:
    """Refuse a control variate that is not what it says of these scores, by some random pairs.

    Where it rules clusters out nobody reads their scores: of other mentions, or of another score,
    it would take the place of similarity.
    """
    if np.all(np.diff(blocks.start) < 2):
        return
    pairs = random_pairs(blocks, COMPARED, np.random.default_rng(3))
    scores, known = scores_of(similarity, data, *pairs), control.values(*pairs)
    usual = control.pieces().left_over
    level = np.searchsorted(usual.edges, known, side="right")
    left = scores - known - usual.shift[level]
    rounding = ROUNDING * float(np.mean(scores**2) + np.mean(known**2))
    allowed = FACTOR * float(np.max(usual.between + usual.within)) + np.ptp(usual.shift) ** 2
    square, error = float(np.mean(left**2)), float(np.std(left**2)) / np.sqrt(len(left))
    mean, apart = float(np.mean(left)), float(np.sqrt(np.max(usual.between)))
    lies = abs(mean) - 5.0 * np.std(left) / np.sqrt(len(left)) > 3.0 * apart + np.ptp(usual.shift)
    if square - 5.0 * error > allowed + rounding or (lies and mean * mean > rounding):
        k = int(np.argmax(np.abs(left)))
        raise ValueError(
            f"control does not fit this similarity on these mentions: of {len(left)} random pairs "
            f"it leaves {mean:.3g} +- {np.sqrt(square):.3g}, where it says {apart:.3g}. Of "
            f"mentions {pairs[0][k]} and {pairs[1][k]} similarity is {scores[k]:.6g}, and the "
            f"control {known[k]:.6g}. Are its rows in another order, or its categories other ones "
            "than it was fitted to? Fit it to these, or say what it leaves: "
            f"dataclasses.replace(control, shift={mean:.3g}, between={np.var(left):.3g}, "
            "within=..., edges=())."
        )


def wrong_pair(i: int, j: int, value: float | None = None) -> str:
    """What is said of a score that is no number."""
    found = "not finite, or beyond 1e100," if value is None else f"{value}"
    return (
        f"similarity is {found} for mentions {i} and {j}: every pair that may share a cluster "
        "needs a finite score. For pairs that must not, give different candidate keys (a race may "
        "never read a few scores of -1e3; sm.Exact() does); for missing fields, the score of pairs "
        "of which nothing is known."
    )


class PairContext(NamedTuple):
    """What a similarity reads."""

    data: Any


class PairScores(NamedTuple):
    """A user's similarity by its address: no type of its data."""

    fill: Any  # (context, i, rows, out): scores of i and each of rows
    context: Any
    row: int  # a number of the type that rows have


def scores_by(similarity: Any, data: Any) -> Any:
    """Scores of pairs of these data; () without a similarity."""
    if similarity is None:
        return ()
    score = jit(similarity, flags=FLAGS, user=True, inner=is_batched(similarity) or "always")
    fill = filling_batches(score) if is_batched(similarity) else filling(score)
    about = RecordAddress(PairContext(data))
    return PairScores(FunctionAddress(fill, about, NUMBER, array(np.int64), FLOATS), about, 0)


@jit(inner="always")
def fill_scores(scores, i, rows, out):
    """Write the scores of i and each of rows."""
    call_rows(scores.fill, scores.context, scores.row, i, rows, out)


@memoised
def filling_batches(batch: Any) -> Any:
    """Of similarity(data, i, rows, out)."""

    @jit(inner="entry", user=True)
    def fill(context, i, rows, out):
        for k in range(len(out)):
            out[k] = np.nan  # what it forgets to fill is noticed
        batch(context.data, i, rows, out)
        return 0.0

    return fill


@memoised
def filling(score: Any) -> Any:
    """Of similarity(data, i, j)."""

    @jit(flags=FLAGS, inner=True, user=True)
    def each(data, i, rows, out):
        for k in range(len(rows)):
            out[k] = score(data, i & MASK, rows[k] & MASK)  # not negative, says the mask

    @jit(inner="entry", user=True)
    def fill(context, i, rows, out):
        each(context.data, i, rows, out)
        return 0.0

    return fill


def random_pairs(
    blocks: Blocks, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of different mentions of one block, all such pairs equally likely."""
    sizes = np.diff(blocks.start)
    work = sizes * (sizes - 1.0)
    if work.sum() == 0.0:
        raise ValueError("no two mentions share a candidate key: there is no pair to learn from.")
    b = rng.choice(len(sizes), count, p=work / work.sum())
    one = rng.integers(sizes[b])
    other = rng.integers(sizes[b] - 1)
    other += other >= one
    return blocks.order[blocks.start[b] + one], blocks.order[blocks.start[b] + other]


@jit
def score_pairs(scores, one, other, out):
    """Scores of some pairs, callable from Python."""
    for k in range(len(one)):
        fill_scores(scores, one[k], other[k : k + 1], out[k : k + 1])


def scores_of(similarity: Any, data: Any, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Scores of pairs; refuses those that are no numbers."""
    scores, out = pointer_to(scores_by(similarity, data)), np.zeros(len(one))
    with np.errstate(all="ignore" if DISABLED else "warn"):
        score_pairs(scores, one, other, out)
    wrong = np.flatnonzero(~(np.abs(out) < LARGEST))
    if len(wrong):
        k = wrong[0]
        raise RewardError(wrong_pair(int(one[k]), int(other[k]), float(out[k])))
    return out
