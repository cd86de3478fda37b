"""Rows that were appended to others: the parts of one source, then those of another."""

from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.target.sources.parts import Parcel
from subsample_mcmc.target.sources.source import Source


class JoinedSource(Source):
    """The parts of two sources of the same columns, each of which is read as it was."""

    def __init__(self, first: Source, second: Source):
        for name, column in first.columns.items():
            other = second.columns.get(name)
            if other != column:
                raise TypeError(
                    f"data {name} is {column.dtype}, shape {column.shape} a row, and of the "
                    f"appended rows {'missing' if other is None else other.dtype}"
                    f"{'' if other is None else f', shape {other.shape}'}: give the same columns, "
                    "of the same kinds and categories."
                )
        lengths = np.concatenate([first.lengths(), second.lengths()])
        super().__init__(first.columns, first.count + second.count, lengths)
        self.sources = first, second
        self.kind = first.kind
        self.seen = [*first.seen, *second.seen]
        self.looked = [*first.looked, *second.looked]
        self.glanced = first.glanced | {first.count + p: v for p, v in second.glanced.items()}
        self.window = max(first.window, second.window)

    def of(self, part: int) -> tuple[int, int]:
        """(which of the sources a part is of, its number there)."""
        count = self.sources[0].count
        return (0, part) if part < count else (1, part - count)

    def share(self, parcel: Parcel) -> Any:
        """What each of the sources reads by."""
        return [
            one.share(parcel._replace(read=one.read, origin=one.origin, probed=one.probed))
            for one in self.sources
        ]

    def submit(self, work: Callable, jobs: list[tuple[int, tuple]], sent: Any) -> list[Any]:
        found: list[Any] = [None] * len(jobs)
        for which, places, own in self.split(jobs):
            handles = self.sources[which].submit(work, own, sent[which])
            for place, handle in zip(places, handles, strict=True):
                found[place] = which, handle
        return found

    def submit_rows(self, jobs: list[tuple[int, tuple]], sent: Any) -> list[tuple[list[int], Any]]:
        found: list[tuple[list[int], Any]] = []
        for which, _, own in self.split(jobs):
            before = which * self.sources[0].count
            for parts, handle in self.sources[which].submit_rows(own, sent[which]):
                found.append(([part + before for part in parts], (which, handle)))
        return found

    def split(self, jobs: list[tuple[int, tuple]]) -> list[tuple[int, list[int], list]]:
        """Jobs by source: (which, where they stand among all, the same by its numbers of parts)."""
        found = []
        for which in (0, 1):
            places = [i for i, (part, _) in enumerate(jobs) if self.of(part)[0] == which]
            if places:
                own = [(self.of(jobs[i][0])[1], jobs[i][1]) for i in places]
                found.append((which, places, own))
        return found

    def result(self, handle: Any) -> Any:
        which, own = handle
        return self.sources[which].result(own)

    def drop(self, handles: list[Any]) -> None:
        for which, source in enumerate(self.sources):
            source.drop([own for one, own in handles if one == which])

    def close(self) -> None:
        for source in self.sources:
            source.close()

    def stamps(self) -> list[str | None]:
        return [stamp for source in self.sources for stamp in source.stamps()]

    def part_name(self, part: int) -> str:
        which, own = self.of(part)
        name = self.sources[which].part_name(own)
        return f"{name} of the appended rows" if which else name

    def origins(self) -> str:
        return " and ".join(source.origins() for source in self.sources)

    def made_into(self, columns: Any, read: Callable, origin: Any) -> Any:
        raise TypeError("rows that were appended belong to their model: append further ones to it.")
