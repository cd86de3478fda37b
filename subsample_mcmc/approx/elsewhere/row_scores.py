"""What the residual of each row may come to: a number for each; of many rows, what is asked of it.

By these scores it is found which rows every decision reads (taylor/influence.py), which asks for
the loudest, for a sample, and for sums. Up to DENSE rows all scores are kept. Of more rows that are
elsewhere only the answers are, some hundred megabytes whatever the number of rows: those that an
array of all scores gives.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_predictors import LARGEST

BATCH = 64  # rows that a race has read at its first look
# A row is loud if its residual, at AWAY standard deviations along the direction that moves it most,
# is more than LOUD nats in the estimate of a first batch that holds it, where it counts for
# N / BATCH rows; and more than influence.TYPICAL times the root mean square of the rows that are
# raced, for what all rows share a batch shows.
LOUD = 0.01
PIECE = 1 << 16  # rows at a time
SORTED = 10_000_000  # rows whose scores are sorted; of more, evenly spaced ones
DENSE = 1 << 23  # rows up to which rows that are elsewhere have all their scores in memory
MOST_KEPT = 1 << 21  # rows that every decision reads, at most


class Scores(NamedTuple):
    """What is asked of the scores of all rows."""

    above: (
        np.ndarray
    )  # those above limit_of(size), the largest first, as numbers that may be squared
    unknown: int  # how many are infinite
    rest: float  # the sum of squares of all others
    sample: np.ndarray  # of evenly spaced rows


class RowScores:
    """What is asked of the scores of many rows, which come in any order, each once.

    As an array of them is, it is written to by slices of consecutive rows.
    """

    def __init__(self, size: int):
        self.size, self.limit, self.step = size, limit_of(size), 1 + size // SORTED
        self.sample = np.zeros(-(-size // self.step), dtype=np.float32)
        self.rest = np.zeros(-(-size // PIECE))  # by piece
        self.unknown, self.dropped = 0, 0.0
        self.waiting: dict[int, tuple[np.ndarray, int]] = {}  # pieces of which some rows are here
        # The loudest rows so far: in ascending order, and those that came since. Of others, only
        # those as loud as `floor` may become one, if they stand before row `last`.
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        self.held, self.floor, self.last = 0, -np.inf, size

    def anew(self) -> "RowScores":
        """Others of as many rows."""
        return RowScores(self.size)

    def become(self, other: "RowScores") -> None:
        """Take others for these."""
        vars(self).update(vars(other))

    def __len__(self) -> int:
        return self.size

    def __setitem__(self, where: slice, found: np.ndarray) -> None:
        first, past = where.start, where.stop
        for index in range(first // PIECE, -(-past // PIECE)):
            begin, end = index * PIECE, min((index + 1) * PIECE, self.size)
            a, b = max(first, begin), min(past, end)
            own = found[a - first : b - first]
            if b - a == end - begin:
                self.take(index, own)
                continue
            piece, count = self.waiting.pop(index, (np.zeros(end - begin, dtype=np.float32), 0))
            piece[a - begin : b - begin] = own
            if count + b - a == end - begin:
                self.take(index, piece)
            else:
                self.waiting[index] = piece, count + b - a

    def take(self, index: int, piece: np.ndarray) -> None:
        """All scores of a piece are here."""
        first = index * PIECE
        skip = -first % self.step
        some = piece[skip :: self.step]
        place = (first + skip) // self.step
        self.sample[place : place + len(some)] = some
        self.rest[index] = quiet_squares(piece, self.limit)
        self.unknown += int(np.count_nonzero(np.isinf(piece)))
        loud = piece > self.floor
        if first < self.last:
            loud[: self.last - first] |= piece[: self.last - first] == self.floor
        if self.floor >= self.limit:
            self.drop(piece[~loud])
        places = np.flatnonzero(loud)
        if len(places):
            self.kept.append((first + places, piece[places]))
            self.held += len(places)
            if self.held >= 2 * MOST_KEPT:
                self.trim()

    def drop(self, values: np.ndarray) -> None:
        """Others are louder than these."""
        self.dropped += float(np.sum(clipped(values[values > self.limit]) ** 2))

    def trim(self) -> None:
        """Keep the loudest rows alone."""
        if not self.kept:
            return
        rows, values = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        order = np.argsort(rows)
        rows, values = rows[order], values[order]
        if len(rows) > MOST_KEPT:
            stay = loudest(values, MOST_KEPT)
            others = np.ones(len(rows), dtype=bool)
            others[stay] = False
            self.drop(values[others])
            rows, values = rows[stay], values[stay]
            self.floor = values.min()
            self.last = int(rows[values == self.floor].max())
        self.kept, self.held = [(rows, values)], len(rows)

    def scores(self) -> Scores:
        """What is asked of them."""
        if self.waiting or not self.kept:
            raise RuntimeError(f"scores of {len(self.waiting)} pieces of rows have not come.")
        self.trim()
        ((_, values),) = self.kept
        above = np.sort(clipped(values[values > self.limit]))[::-1]
        rest = sum(self.rest.tolist()) + self.dropped
        return Scores(above, self.unknown, rest, self.sample)

    def largest(self, count: int) -> np.ndarray:
        """The rows with the largest scores, at most MOST_KEPT, in ascending order."""
        self.trim()
        ((rows, values),) = self.kept
        return rows[loudest(values, count)]

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The scores of rows, in ascending order; 0 for those that are not among the loudest."""
        ((known, values),) = self.kept
        places = np.minimum(np.searchsorted(known, rows), len(known) - 1)
        return np.where(known[places] == rows, values[places], np.float32(0.0))


def limit_of(size: int) -> float:
    """Of a score, up to which no row is loud."""
    return LOUD * BATCH / size


def scores_of(given: Any) -> Scores:
    """What is asked of an array of all scores, or of what was kept of one."""
    if isinstance(given, RowScores):
        return given.scores()
    limit = limit_of(len(given))
    above = np.sort(clipped(given[given > limit]))[::-1]
    rest = sum(quiet_squares(part, limit) for part in in_parts(given))
    unknown = int(np.count_nonzero(np.isinf(given)))
    return Scores(above, unknown, rest, given[:: 1 + len(given) // SORTED])


def largest(scores: Any, count: int) -> np.ndarray:
    """The rows with the largest scores, in ascending order."""
    if not count:
        return np.zeros(0, np.int64)
    if isinstance(scores, RowScores):
        return scores.largest(count)
    if len(scores) > DENSE:
        return loudest(scores, count)
    return np.sort(np.argpartition(scores, -count)[-count:])


def loudest(values: np.ndarray, count: int) -> np.ndarray:
    """Where the largest values stand, in ascending order; of equal ones the first."""
    if count >= len(values):
        return np.arange(len(values))
    limit = np.partition(values, -count)[-count]
    chosen = values > limit
    equal = np.flatnonzero(values == limit)
    chosen[equal[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def typical_of(scores: Any, outliers: np.ndarray) -> float:
    """Root mean square of the scores of rows that are raced.

    Sums of their squares are added up: where all is taken away but them, nothing may be left.
    """
    told, limit = scores_of(scores), limit_of(len(scores))
    own = scores.at(outliers) if isinstance(scores, RowScores) else scores[outliers]
    loud = int(np.count_nonzero(own > limit))
    quiet = own[own <= limit].astype(float)
    left = max(told.rest - float(np.sum(quiet**2)), 0.0) + float(np.sum(told.above[loud:] ** 2))
    return float(np.sqrt(left / max(len(scores) - len(outliers), 1)))


def in_parts(scores: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive parts of an array."""
    for first in range(0, len(scores), PIECE):
        yield scores[first : first + PIECE]


def quiet_squares(scores: np.ndarray, limit: float) -> float:
    """The sum of squares of those that are not above the limit."""
    part = scores.astype(float)
    return float(np.sum(part[part <= limit] ** 2))


def clipped(scores: np.ndarray) -> np.ndarray:
    """Scores as numbers that may be squared."""
    return np.minimum(scores.astype(float), LARGEST)
