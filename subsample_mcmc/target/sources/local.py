"""Parts that this process reads itself, in threads: arrays, memory maps, what has a loader."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from subsample_mcmc.target.sources.parts import (
    Parcel,
    SourceColumn,
    maker_of,
    of_arrays,
    take,
    take_together,
)
from subsample_mcmc.target.sources.source import Source

KEPT = 1 << 29  # bytes of loaded parts that are kept for requests of rows


class LocalSource(Source):
    """Parts that are read here: each a dict of arrays, or a function that returns one.

    columns: what they hold; by default as in the first part. lengths: rows of each part; by default
        those of arrays, and found by a pass where parts are functions. kept: bytes of what
        functions returned that are kept for the next rows.
    """

    kind = "Arrays"

    def __init__(
        self, parts: Sequence[Any], columns: dict[str, SourceColumn] | None = None,
        lengths: Any = None, threads: int | None = None, kept: int = KEPT,
    ):  # fmt: skip
        self.parts = list(parts)
        if columns is None:
            columns = columns_of_arrays(self.load(0)) if self.parts else {}
        if lengths is None and not any(callable(part) for part in self.parts):
            lengths = [len(next(iter(part.values()), ())) for part in self.parts]
        super().__init__(columns, len(self.parts), lengths)
        self.threads, self.kept = threads or os.cpu_count() or 1, kept
        self.window = 2 * self.threads
        # Rows of arrays are read alone: of those that are mapped, from the disk.
        self.probed = any(callable(part) for part in self.parts)
        self._pool: ThreadPoolExecutor | None = None
        self._loaded: dict[int, dict[str, np.ndarray]] = {}
        self._changing = threading.Lock()

    def load(self, part: int) -> dict[str, np.ndarray]:
        """The columns of a part."""
        given = self.parts[part]
        return given() if callable(given) else given

    def load_kept(self, parcel: Parcel, part: int) -> dict[str, np.ndarray]:
        """The columns that are made of a part, which are kept as long as there is room.

        Rows are drawn evenly from all parts, so what is kept is never thrown out for another: if
        parts that were used longest ago were, in a round of all none would be found again.
        """
        if (kept := self._loaded.get(part)) is not None:
            return kept
        make, given = maker_of(parcel), self.load(part)
        if make:  # read into memory of their own: a part that is read is there until the next is
            found = make(parcel.origin.raw(given, parcel), parcel)
        else:
            found = parcel.read(given, parcel)
        with self._changing:
            if self.bytes_kept() + nbytes(found) <= self.kept:
                self._loaded[part] = found
        return found

    def made_into(self, columns: dict[str, SourceColumn], read: Callable, origin: Any) -> Any:
        made = super().made_into(columns, read, origin)
        made._pool, made._loaded, made._changing = None, {}, threading.Lock()
        self.close()  # what is kept from here on is what is made
        return made

    def submit(self, work: Callable, jobs: list[tuple[int, tuple]], sent: Any) -> list[Any]:
        pool, kept = self.workers(), sent._replace(read=of_arrays)
        found = []
        for part, more in jobs:
            load, own = self.load, sent
            if work is take and self.room_for(part):
                load, own = partial(self.load_kept, sent), kept
            found.append(pool.submit(work, Later(load, part), own, *more))
        return found

    def submit_rows(self, jobs: list[tuple[int, tuple]], sent: Any) -> list[tuple[list[int], Any]]:
        """Rows of parts that are in memory together, in one task for each thread."""
        pool, found = self.workers(), []
        arrays = [p for p, _ in jobs if not callable(self.parts[p])]
        loaded = {p: self._loaded[p] for p, _ in jobs if p in self._loaded}
        rows = {p: some for p, (some,) in jobs}
        ways = (
            (arrays, [self.parts[p] for p in arrays], sent._replace(probed=False)),
            (list(loaded), [*loaded.values()], sent._replace(probed=False, read=of_arrays)),
        )
        for parts, data, own in ways:
            each = -(-len(parts) // self.threads)
            for first in range(0, len(parts), max(each, 1)):
                some = slice(first, first + each)
                wanted = [rows.pop(p) for p in parts[some]]
                task = pool.submit(take_together, data[some], own, parts[some], wanted)
                found.append((parts[some], task))
        left = [(part, (some,)) for part, some in rows.items()]
        return found + super().submit_rows(left, sent)

    def workers(self) -> ThreadPoolExecutor:
        """Threads that do the work."""
        with self._changing:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="rows")
            return self._pool

    def room_for(self, part: int) -> bool:
        """May what is made of a part be kept; if lengths are not known, it is seen later."""
        if not callable(self.parts[part]) or self._lengths is None:
            return callable(self.parts[part])
        each = sum(
            np.dtype(c.dtype).itemsize * int(np.prod(c.shape)) for c in self.columns.values()
        )
        return self.bytes_kept() + each * int(self._lengths[part]) <= self.kept

    def bytes_kept(self) -> int:
        """Of parts that are kept."""
        return sum(map(nbytes, list(self._loaded.values())))

    def result(self, handle: Future) -> Any:
        return handle.result()

    def drop(self, handles: list[Any]) -> None:
        for handle in handles:
            handle.cancel()

    def close(self) -> None:
        with self._changing:
            pool, self._pool = self._pool, None
            self._loaded.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


class Later:
    """A part that is loaded where it is looked at."""

    def __init__(self, load: Callable[[int], Any], part: int):
        self.load, self.part = load, part

    def __call__(self) -> Any:
        return self.load(self.part)


def nbytes(columns: dict[str, np.ndarray]) -> int:
    """Bytes of all columns."""
    return sum(array.nbytes for array in columns.values())


def columns_of_arrays(arrays: dict[str, Any]) -> dict[str, SourceColumn]:
    """What a dict of arrays holds."""
    return {n: SourceColumn(np.dtype(a.dtype), tuple(a.shape[1:])) for n, a in arrays.items()}


def parts_of(arrays: dict[str, Any], lengths: Sequence[int], **options: Any) -> LocalSource:
    """Arrays in memory, or mapped into it, cut into parts of these lengths, which may be 0."""
    stops = np.cumsum(lengths)
    sizes = {name: len(array) for name, array in arrays.items()}
    if set(sizes.values()) != {int(stops[-1])}:
        raise ValueError(f"parts of {stops[-1]} rows in all, and arrays of other lengths: {sizes}.")
    cuts = [
        slice(int(stop) - length, int(stop)) for stop, length in zip(stops, lengths, strict=True)
    ]
    parts = [{name: array[cut] for name, array in arrays.items()} for cut in cuts]
    return LocalSource(parts, columns_of_arrays(arrays), lengths, **options)
