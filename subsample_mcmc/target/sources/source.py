"""What all sources of rows have in common: parts, passes over them, and rows by their numbers.

A kind of source gives five small methods, which say how a function is run beside a part: `share`,
`submit`, `result`, `drop`, `close`. It schedules nothing itself.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any

import numpy as np

from subsample_mcmc.target.data import refused_values
from subsample_mcmc.target.sources.digests import joined, told
from subsample_mcmc.target.sources.parts import (
    Failed,
    MissingError,
    Parcel,
    SeenPart,
    SourceColumn,
    look,
    of_arrays,
    take,
)

LOOKS = ("allow", "infinite", "refuse")  # what is looked for, the least first


class Ticket:
    """Rows that were asked for and are under way."""

    def __init__(self, groups: list[tuple[list[int], Any]]):
        self.groups = groups  # (parts, handle of what gives the rows of each)


class Source:
    """Rows that are elsewhere, in parts: what a pass over them, and a look at some, needs.

    The order of rows is that of the parts. Rows must not change: each part that is read whole is
    compared with what it held when it was read before.
    """

    kind = "Rows"
    read: Callable[[Any, Parcel], dict[str, np.ndarray]] = staticmethod(of_arrays)
    origin: Any = None  # what `read` needs to know beside the columns
    probed = True  # a look at some rows of a part looks at others, too, whether they changed
    window = 8  # parts of a pass that are under way at a time

    def __init__(self, columns: dict[str, SourceColumn], count: int, lengths: Any = None):
        """columns: by name; count: of parts; lengths: of parts, if they are known."""
        self.columns, self.count = columns, count
        self.missing = "refuse"  # NaN and infinite values, as Model's argument says
        self.seen: list[SeenPart | None] = [None] * count  # of parts that were read whole
        # Of others of which some rows were read: (rows, probe), as they were at first.
        self.glanced: dict[int, tuple[int, int]] = {}
        self.looked = [-1] * count  # for what: the place of `missing` in LOOKS
        self._lengths = None if lengths is None else as_lengths(lengths, count)
        self._counting = threading.RLock()
        self._rows_of: Any = None  # the parcel of requests, shared once

    # -------------------------------------------------------------- what a kind of source gives
    def share(self, parcel: Parcel) -> Any:
        """The parcel as `submit` hands it on: pickled here, shipped once to each worker."""
        return parcel

    def submit(self, work: Callable, jobs: list[tuple[int, tuple]], sent: Any) -> list[Any]:
        """Start work(data of a part, sent, *arguments) for each (part, arguments)."""
        raise NotImplementedError

    def submit_rows(self, jobs: list[tuple[int, tuple]], sent: Any) -> list[tuple[list[int], Any]]:
        """Start `take` of rows of parts: (parts, handle of a list); here of one part each."""
        handles = self.submit(take, [(part, ((part,), (rows,))) for part, (rows,) in jobs], sent)
        return [([part], handle) for (part, _), handle in zip(jobs, handles, strict=True)]

    def result(self, handle: Any) -> Any:
        """What came of it; waits for it."""
        raise NotImplementedError

    def drop(self, handles: list[Any]) -> None:
        """These results are not wanted any more."""

    def close(self) -> None:
        """Free what is held beside the rows themselves."""

    def part_name(self, part: int) -> str:
        """What a part is called in messages."""
        return f"part {part}"

    def stamps(self) -> list[str | None]:
        """Of each part, what differs once its rows are written anew; None: nothing says it."""
        return [None] * self.count

    def origins(self) -> str:
        """How many parts of which kind there are, in words."""
        return plural(self.count, "part")

    # --------------------------------------------------------------------------------- lengths
    def lengths(self) -> np.ndarray:
        """Rows of each part; found by a pass over all of them where nothing else says it."""
        with self._counting:
            if self._lengths is None:
                found = np.zeros(self.count, np.int64)
                for part, seen in self.looks(range(self.count)):
                    first = int(found[:part].sum())
                    self.judge(part, seen, first)
                    found[part] = seen.rows
                self._lengths = found
        return self._lengths

    def starts(self) -> np.ndarray:
        """The first global row of each part."""
        lengths = self.lengths()
        return np.cumsum(lengths) - lengths

    @property
    def size(self) -> int:
        """Rows of all parts."""
        return int(self.lengths().sum())

    def __len__(self) -> int:
        return self.size

    def name(self) -> str:
        """What it is, in words."""
        known = self._lengths is not None
        rows = plural(self.size, "row") if known else "rows not counted yet"
        return f"{self.kind}, {self.origins()}, {rows}, {plural(len(self.columns), 'column')}"

    def __repr__(self) -> str:
        return self.name()

    def made_into(self, columns: dict[str, SourceColumn], read: Callable, origin: Any) -> Any:
        """The same parts, of which `read` makes other columns."""
        made = copy(self)
        made.columns, made.read, made.origin = columns, read, origin  # type: ignore[method-assign]
        made.seen, made.looked, made.glanced = [None] * self.count, [-1] * self.count, {}
        made._rows_of = None
        return made

    # ---------------------------------------------------------------------------------- passes
    def map(
        self, task: Callable, shared: Any, parts: Iterable[int] | None = None, bar: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (part, task(columns, first, part, shared)) of all parts, in their order.

        task: a module-level function, called beside the rows: columns are arrays by name, first
            is the global row of their first. What it must not do is change them, or `shared`.
        bar: moves on by the rows of each part.
        """
        starts = self.starts()
        chosen = range(self.count) if parts is None else [int(p) for p in parts]
        jobs = [(p, (p, int(starts[p]), self.checked(p))) for p in chosen]
        for part, (seen, result) in self.passed(jobs, self.parcel(task, shared)):
            first = int(starts[part])
            if seen is not None:
                self.judge(part, seen, first)
            if isinstance(result, Failed):
                raise self.noted(result.error, part, first)
            if bar is not None:
                bar.update(int(self.lengths()[part]))
            yield part, result

    def parcel(self, task: Callable | None = None, shared: Any = None) -> Parcel:
        """What all parts of a call share."""
        return Parcel(self.columns, self.read, self.origin, self.missing, task, shared, self.probed)

    def passed(self, jobs: list[tuple[int, tuple]], parcel: Parcel) -> Iterator[tuple[int, Any]]:
        """Yield what `look` makes of each part, in order, a few of them under way at a time."""
        sent, waiting = self.share(parcel), deque(jobs)
        under_way: deque[tuple[int, Any]] = deque()
        try:
            while waiting or under_way:
                room = self.window - len(under_way)
                if room > 0 and waiting:
                    more = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                    handles = self.submit(look, more, sent)
                    under_way.extend((p, h) for (p, _), h in zip(more, handles, strict=True))
                part, handle = under_way[0]
                found = self.result(handle)
                under_way.popleft()
                yield part, found
        finally:
            self.drop([handle for _, handle in under_way])

    def looks(self, parts: Iterable[int]) -> Iterator[tuple[int, SeenPart]]:
        """Read these parts only to notice what they hold."""
        jobs = [(int(p), (int(p), -1, self.checked(int(p)))) for p in parts]
        for part, (seen, result) in self.passed(jobs, self.parcel()):
            if isinstance(result, Failed):
                raise self.noted(result.error, part)
            yield part, seen

    def checked(self, part: int) -> bool:
        """Was a part found to have no NaN, and nothing that may not be, by a look as strict."""
        return self.looked[part] >= LOOKS.index(self.missing)

    def judge(self, part: int, seen: SeenPart, first: int) -> None:
        """Remember what a part holds; refuse what is missing, and rows that changed."""
        if seen.fault is not None:
            raise self.refused(seen.fault, part, first)
        known = self.seen[part]
        if known is not None and known[:2] != seen[:2]:
            raise self.changed(part, first, known.rows, seen.rows)
        rows, probe = self.glanced.get(part, (seen.rows, seen.probe))
        if known is None and (rows, probe) != (seen.rows, seen.probe):
            raise self.changed(part, first, rows, seen.rows)
        if self._lengths is not None and self._lengths[part] != seen.rows:
            raise ValueError(
                f"{self.part_name(part)}, whose first is row {first}, holds {seen.rows} rows, and "
                f"{self._lengths[part]} were said: give its true length, or none at all."
            )
        self.seen[part] = seen
        self.looked[part] = max(self.looked[part], LOOKS.index(self.missing))

    def refused(self, fault: tuple, part: int, first: int) -> ValueError:
        """What is said of missing values. fault: see SeenPart."""
        name, kind, count, (row, *column) = fault
        place = f"row {first + row} ({self.part_name(part)})"
        place += "".join(f", column {j}" for j in column)
        remedy = "drop these rows where the data are made, or"
        if kind != "null":
            return refused_values(name, kind, count, place, remedy)
        values = f"{count:,} missing values, the first" if count > 1 else "1 missing value,"
        return ValueError(f"data {name} has {values} in {place}: {remedy} fill them in.")

    def changed(self, part: int, first: int, before: int, now: int) -> ValueError:
        """What is said of rows that are others than before."""
        counts = "" if before == now else f", {now} where there were {before}"
        return ValueError(
            f"rows changed between passes: {self.part_name(part)}, whose first is row {first}, "
            f"holds other values, or in another order, than when it was read before{counts}. Give "
            "data that stay as they are: files that nobody writes, random numbers with a seed."
        )

    def noted(self, error: Exception, part: int, first: int | None = None) -> Exception:
        """An exception of a part, with a note that names it."""
        rows = "" if first is None else f", whose first is row {first}"
        error.add_note(f"This happened in {self.part_name(part)}{rows}.")
        return error

    # ------------------------------------------------------------------------------------ rows
    def request(self, rows: Any) -> Ticket:
        """Start to fetch rows by their global numbers, sorted and distinct; see `receive`."""
        rows = np.asarray(rows, dtype=np.int64)
        if rows.ndim != 1 or (len(rows) > 1 and not (np.diff(rows) > 0).all()):
            raise ValueError("rows must be sorted, and distinct: np.unique(rows).")
        if len(rows) and not (rows[0] >= 0 and rows[-1] < self.size):
            raise IndexError(f"rows {rows[0]} to {rows[-1]}: there are rows 0 to {self.size - 1}.")
        starts = self.starts()
        ends = starts + self.lengths()
        bounds = np.searchsorted(rows, ends)  # of rows before the end of each part
        jobs, before = [], 0
        for part in np.flatnonzero(np.diff(bounds, prepend=0)):
            stop = int(bounds[part])
            jobs.append((int(part), (rows[before:stop] - starts[part],)))
            before = stop
        if self._rows_of is None:
            self._rows_of = self.share(self.parcel())
        return Ticket(self.submit_rows(jobs, self._rows_of))

    def receive(self, ticket: Ticket) -> dict[str, np.ndarray]:
        """The rows that were asked for, in their order; waits for them."""
        found: dict[int, Any] = {}
        starts = self.starts()
        for parts, handle in ticket.groups:
            for part, taken in zip(parts, self.result(handle), strict=True):
                first, seen = int(starts[part]), self.seen[part]
                if isinstance(taken, Failed):
                    self.cancel(ticket)
                    if isinstance(taken.error, MissingError):
                        raise self.refused(taken.error.args, part, first)
                    raise self.noted(taken.error, part, first)
                if taken.probe is not None:
                    now = taken.rows, taken.probe
                    before = self.glanced.setdefault(part, now)
                    rows, probe = before if seen is None else (seen.rows, seen.probe)
                    if (rows, probe) != now:
                        self.cancel(ticket)
                        raise self.changed(part, first, rows, taken.rows)
                found[part] = taken.columns
        ticket.groups = []
        none = {n: np.zeros((0, *c.shape), c.dtype) for n, c in self.columns.items()}
        order = [found[part] for part in sorted(found)]
        return {n: np.concatenate([a, *(part[n] for part in order)]) for n, a in none.items()}

    def cancel(self, ticket: Ticket) -> None:
        """The rows that were asked for are not wanted any more."""
        self.drop([handle for _, handle in ticket.groups])
        ticket.groups = []

    # --------------------------------------------------------------------------------- digests
    def noticed(self) -> list[SeenPart]:
        """What each part holds; parts that were not read whole before are read."""
        self.lengths()
        starts = self.starts()
        for part, seen in self.looks([p for p in range(self.count) if self.seen[p] is None]):
            self.judge(part, seen, int(starts[part]))
        return [seen for seen in self.seen if seen is not None]

    def digests(self) -> list[str]:
        """A hash of each part's rows, wherever it stands."""
        what = self.described()
        return [told(what, seen.rows, seen.digest) for seen in self.noticed()]

    def content(self) -> str:
        """A hash of all rows, which does not depend on how they are cut into parts."""
        return told(self.described(), *joined((s.rows, s.digest) for s in self.noticed()))

    def described(self) -> str:
        """What the columns are, in words."""
        return "; ".join(
            f"{name} {np.dtype(c.dtype).str} {c.shape} {c.categories}"
            for name, c in self.columns.items()
        )


def as_lengths(given: Any, count: int) -> np.ndarray:
    """Lengths of parts as whole numbers."""
    lengths = np.asarray(given, dtype=np.int64).reshape(-1)
    if len(lengths) != count or (lengths < 0).any():
        raise ValueError(f"lengths of {count} parts are needed, at least 0 each, not {given!r}.")
    lengths.flags.writeable = False
    return lengths


def plural(count: int, noun: str) -> str:
    """So many of them."""
    return f"{count:,} {noun}" + "s" * (count != 1)
