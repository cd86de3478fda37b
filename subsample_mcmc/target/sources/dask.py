"""Rows in collections of dask: data frames, and dicts of arrays or of columns.

With a client of a cluster (on this machine, Kubernetes, SSH, ...), functions run on its workers,
where the rows are; what a lost worker held is computed again by dask. Without one, threads of this
process compute parts, one each. Collections that are not persisted are computed anew in every pass.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.target.data import is_collection, refuse_names
from subsample_mcmc.target.sources.frames import of_dtype, of_frame, of_series
from subsample_mcmc.target.sources.local import LocalSource
from subsample_mcmc.target.sources.parts import Parcel, SourceColumn, as_declared, look, take
from subsample_mcmc.target.sources.source import Source

SOON, USUAL = 10, 0  # priorities: rows that a chain waits for, and passes
# Exceptions of distributed that say so, by name: they have moved between its modules.
GONE = {
    "ClosedClientError", "CommClosedError", "CancelledError", "FutureCancelledError",
    "FuturesCancelledError",
}  # fmt: skip
TASKS = 4  # of a pass for each thread of a worker, if it holds so many parts ...
MOST_PARTS = 16  # ... and a task looks at so many, at most
EVERY = 1 << 20  # parts of a pass that are handed to dask at a time: it has a queue of its own


def dask_source(data: Any) -> Source:
    """A data frame of dask, or a dict of its arrays or columns, as a source."""
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        refuse_names(list(data.columns), "data frame")
        columns = columns_of_frame(data._meta)
        parts, read, lengths = culled(data.to_delayed()), of_frame, None
    else:
        columns, parts, lengths = of_collections(dict(data))
        read = of_blocks
    futures = futures_in(parts)
    client = futures[0].client if futures else client_in_use()
    if client is None:
        return DaskThreads(parts, columns, lengths, read)
    refuse_scattered(client, [*(future.key for future in futures), *keys_outside(parts)])
    return DaskSource(client, parts, columns, lengths, read)


class DaskSource(Source):
    """Parts of collections of dask, on the workers of a client."""

    kind = "Dask"
    window = EVERY

    def __init__(
        self, client: Any, parts: list[Any], columns: dict[str, SourceColumn], lengths: Any,
        read: Callable,
    ):  # fmt: skip
        super().__init__(columns, len(parts), lengths)
        self.client, self.parts, self.read = client, parts, read  # type: ignore[method-assign]
        # What is in a worker's memory already: the first result that the part is made of.
        self.held = {p: some[0] for p, one in enumerate(parts) if (some := futures_in([one]))}

    def share(self, parcel: Parcel) -> Any:
        import dask
        from distributed.protocol.pickle import dumps

        # A task that gives the bytes: dask ships its result to each worker once, and makes it
        # again should it be lost.
        return dask.delayed(bytes, pure=False)(dumps(parcel))

    def submit(self, work: Callable, jobs: list[tuple[int, tuple]], sent: Any) -> list[Any]:
        import dask

        if work is look:
            return self.submit_looks(jobs, sent)
        run = dask.delayed(work, pure=False, traverse=False)
        calls = [run(self.parts[part], sent, *more) for part, more in jobs]
        with told_of_lost_workers():
            return self.client.compute(calls, priority=SOON) if calls else []

    def submit_looks(self, jobs: list[tuple[int, tuple]], sent: Any) -> list[Any]:
        """A look at each part, at some that a worker holds by one task: it takes milliseconds."""
        import dask

        workers = self.workers_of([part for part, _ in jobs])
        with told_of_lost_workers():
            threads = self.client.nthreads() if workers else {}
        groups, handles = list[list[int]](), list[Any]([None] * len(jobs))
        by_worker: dict[Any, list[int]] = {}
        for i, (part, _) in enumerate(jobs):
            if part in workers:
                by_worker.setdefault(workers[part], []).append(i)
            else:
                groups.append([i])
        for worker, own in by_worker.items():
            each = max(1, min(len(own) // (TASKS * threads.get(worker, 1)), MOST_PARTS))
            groups += [own[k : k + each] for k in range(0, len(own), each)]
        groups.sort()
        run = dask.delayed(look_each, pure=False, traverse=False)
        calls = [
            run([self.parts[jobs[i][0]] for i in group], sent, [jobs[i][1] for i in group])
            for group in groups
        ]
        with told_of_lost_workers():
            futures = self.client.compute(calls, priority=USUAL) if calls else []
        for group, future in zip(groups, futures, strict=True):
            shared = Together(future)
            for place, i in enumerate(group):
                handles[i] = OneOf(shared, place)
        return handles

    def workers_of(self, parts: list[int]) -> dict[int, Any]:
        """The worker of each part that one holds."""
        held = {p: self.held[p] for p in parts if p in self.held}
        with told_of_lost_workers():
            places = self.client.who_has(list(held.values())) if held else {}
        found = {p: places.get(future.key) for p, future in held.items()}
        return {p: workers[0] for p, workers in found.items() if workers}

    def submit_rows(self, jobs: list[tuple[int, tuple]], sent: Any) -> list[tuple[list[int], Any]]:
        """One task for all parts that a worker holds: a task of dask takes some milliseconds."""
        import dask

        workers = self.workers_of([part for part, _ in jobs])
        groups: dict[Any, list[tuple[int, np.ndarray]]] = {}
        alone = []
        for part, (rows,) in jobs:
            if part in workers:
                groups.setdefault(workers[part], []).append((part, rows))
            else:
                alone.append((part, (rows,)))
        found = super().submit_rows(alone, sent)
        for some in groups.values():
            parts, rows = [p for p, _ in some], [r for _, r in some]
            data = [self.parts[p] for p in parts] if len(parts) > 1 else self.parts[parts[0]]
            call = dask.delayed(take, pure=False, traverse=False)(data, sent, parts, rows)
            # Dask runs it where most of its data are, or elsewhere if that worker is gone.
            with told_of_lost_workers():
                found.append((parts, self.client.compute(call, priority=SOON)))
        return found

    def result(self, handle: Any) -> Any:
        with told_of_lost_workers():
            return handle.result()

    def drop(self, handles: list[Any]) -> None:
        futures = [h.shared.future if isinstance(h, OneOf) else h for h in handles]
        if futures:
            with suppress(Exception):  # the client may be closed
                self.client.cancel(futures)

    def part_name(self, part: int) -> str:
        return f"partition {part}"


class Together:
    """What one task makes of several parts."""

    def __init__(self, future: Any):
        self.future = future

    @cached_property
    def results(self) -> list[Any]:
        """Of each part; waits for them."""
        return self.future.result()


class OneOf(NamedTuple):
    """The result of one part of several."""

    shared: Together
    place: int

    def result(self) -> Any:
        """Waits for it; it is held here no longer."""
        found, self.shared.results[self.place] = self.shared.results[self.place], None
        return found


def look_each(data: list[Any], sent: Any, jobs: list[tuple]) -> list[Any]:
    """A look at each of several parts."""
    return [look(one, sent, *more) for one, more in zip(data, jobs, strict=True)]


class DaskThreads(LocalSource):
    """Parts of collections of dask, each computed in a thread of this process."""

    kind = "Dask"

    def __init__(
        self, parts: list[Any], columns: dict[str, SourceColumn], lengths: Any, read: Callable
    ):
        loaders = [Computed(self, read, part) for part in parts]
        super().__init__(loaders, columns, lengths)

    def part_name(self, part: int) -> str:
        return f"partition {part}"


class Computed:
    """Computes the columns of a part, in the thread that asks."""

    def __init__(self, source: Source, read: Callable, part: Any):
        self.source, self.read, self.part = source, read, part

    def __call__(self) -> dict[str, np.ndarray]:
        import dask

        (data,) = dask.compute(self.part, scheduler="synchronous")
        parcel = Parcel(self.source.columns, self.read, missing=self.source.missing)
        return self.read(data, parcel)


def of_blocks(data: dict[str, Any], parcel: Parcel) -> dict[str, np.ndarray]:
    """The columns of a dict of arrays and of columns of data frames."""
    return {
        name: of_series(data[name], name, column)
        if hasattr(data[name], "isna")
        else as_declared(data[name], name, column)
        for name, column in parcel.columns.items()
    }


def of_collections(data: dict[str, Any]) -> tuple[dict[str, SourceColumn], list[Any], Any]:
    """(columns, parts, their lengths) of a dict of arrays and columns: dicts of blocks."""
    refuse_names(list(data), "dict")
    arrays = {n: v for n, v in data.items() if hasattr(v, "chunks")}
    chunks = {n: v.chunks[0] for n, v in arrays.items() if v.ndim}
    for name, value in data.items():
        if not is_collection(value) or (name in arrays and not value.ndim):
            raise TypeError(
                f"data {name} is {type(value).__name__}, and others are collections of dask: give "
                f"it as one, too, dask.array.from_array({name}, chunks=...); what stands in no row "
                "belongs into tables=."
            )
    known = {n: c for n, c in chunks.items() if not np.isnan(c).any()}
    totals = {n: int(sum(c)) for n, c in known.items()}
    if len(set(totals.values())) > 1:
        raise ValueError(f"data have different lengths: {totals}.")
    if len(known) == len(data) and len(set(known.values())) > 1:  # cut as the coarsest of them is
        common = min(known.values(), key=len)
        arrays = {n: v.rechunk({0: common}) for n, v in arrays.items()}
    blocks, columns = {}, {}
    for name, value in data.items():
        if name in arrays:
            whole = arrays[name].rechunk(dict.fromkeys(range(1, value.ndim), -1))
            blocks[name] = culled(delayed_blocks(whole))
            columns[name] = SourceColumn(np.dtype(value.dtype), tuple(value.shape[1:]))
        else:
            blocks[name] = culled(value.to_delayed())
            columns |= columns_of_frame(value._meta.to_frame(name))
    counts = {name: len(found) for name, found in blocks.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"data are cut into different numbers of parts, {counts}, and the lengths of some are "
            "not known: repartition them alike, or x.compute_chunk_sizes() of dask arrays."
        )
    parts = [dict(zip(blocks, row, strict=True)) for row in zip(*blocks.values(), strict=True)]
    lengths = next(iter(known.values()), None) if len(known) == len(data) else None
    if lengths is not None:
        lengths = next(v.chunks[0] for v in arrays.values())
    return columns, parts, lengths


def columns_of_frame(meta: Any) -> dict[str, SourceColumn]:
    """What the columns of a data frame hold, by one of the same types without rows."""
    return {str(name): of_dtype(meta[name], str(name)) for name in meta.columns}


def delayed_blocks(array: Any) -> list[Any]:
    """The blocks of an array that is cut along its first axis."""
    parts = list(array.to_delayed().ravel())
    # Of an array that was persisted, graphs that are optimised have lost the results on workers,
    # which nobody would keep once the array itself is gone.
    if any(part.key not in part.dask for part in parts) or keys_outside(parts):
        parts = list(array.to_delayed(optimize_graph=False).ravel())
    return parts


def culled(parts: Any) -> list[Any]:
    """Each part with those tasks alone that it depends on; none, if a worker has it already."""
    from dask.delayed import Delayed
    from dask.optimization import cull

    graphs: dict[int, dict] = {}
    found = []
    for part in parts:
        graph = graphs.setdefault(id(part.dask), dict(part.dask))
        key = part.key
        while hasattr(graph.get(key), "target"):  # another name of what is meant
            key = graph[key].target
        future = future_of(graph.get(key))
        if future is not None:
            found.append(Delayed(future.key, {future.key: future}))
        else:
            found.append(Delayed(part.key, cull(graph, [part.key])[0]))
    return found


@contextmanager
def told_of_lost_workers() -> Iterator[None]:
    """Say what to do where a client is closed, or a cluster or what it held is gone."""
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        if name not in GONE:
            raise
        raise RuntimeError(
            f"the cluster of dask that the rows are on does not answer any more ({name}): its "
            "client was closed, its scheduler stopped, or parts that were persisted are lost. "
            "Connect anew, client = distributed.Client(address), and give collections to a new "
            "model; a run with store= goes on by sm.resume."
        ) from error


def client_in_use() -> Any:
    """The client of the cluster that is in use, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    with suppress(ValueError):
        return default_client()
    return None


def tasks_of(parts: list[Any]) -> Iterator[tuple[Any, dict]]:
    """(task, graph) of all that parts are made of."""
    for part in parts:
        for block in part.values() if isinstance(part, dict) else [part]:
            for task in block.dask.values():
                yield task, block.dask


def futures_in(parts: list[Any]) -> list[Any]:
    """Results on workers that parts are made of."""
    held = (future_of(task) for task, _ in tasks_of(parts))
    return [future for future in held if future is not None]


def future_of(task: Any) -> Any:
    """The result on a worker that a task of a graph stands for; None: it is no such task."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Future

    both = (task, getattr(task, "value", None))
    return next((one for one in both if isinstance(one, Future)), None)


def keys_outside(parts: list[Any]) -> set:
    """What parts depend on and their tasks do not make: it is on workers."""
    return {
        key
        for task, graph in tasks_of(parts)
        for key in getattr(task, "dependencies", ())
        if key not in graph
    }


def refuse_scattered(client: Any, keys: list[Any]) -> None:
    """Refuse parts that were sent to workers, and that nobody could compute again."""
    gone: list = []
    with suppress(Exception):  # a scheduler that runs no functions of others
        gone = client.run_on_scheduler(without_recipe, keys=keys) if keys else []
    if gone:
        raise ValueError(
            f"{gone[0]} and {len(gone) - 1} others of which the data are made were scattered: dask "
            "cannot make them again when a worker is lost. Give what workers read themselves, "
            "dask.dataframe.read_parquet(path), or make with a function of yours, "
            "dask.dataframe.from_map(make_part, range(8)); .persist() keeps these in memory."
        )


def without_recipe(keys: list[Any], dask_scheduler: Any = None) -> list[str]:
    """What these keys depend on, or are, that the scheduler cannot compute again."""
    waiting = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    seen: set = set()
    while waiting:
        task = waiting.pop()
        if task not in seen:
            seen.add(task)
            waiting.extend(task.dependencies)
    return sorted(str(task.key) for task in seen if task.run_spec is None)
