"""Rows in ray's object store: Datasets that were materialised, or references to parts.

Functions run on ray's workers, one a core, where the objects are; ray starts again what a lost
worker did.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from subsample_mcmc.target.data import refuse_names, size_in_words
from subsample_mcmc.target.sources.arrow import declared, of_table, wanted_of
from subsample_mcmc.target.sources.frames import of_dtype, of_frame
from subsample_mcmc.target.sources.local import columns_of_arrays
from subsample_mcmc.target.sources.parts import Failed, Parcel, SourceColumn, of_arrays, take
from subsample_mcmc.target.sources.source import Source


def ray_source(data: Any) -> Source:
    """A Dataset of ray, or a list of references to dicts of arrays, tables or data frames."""
    if isinstance(data, list | tuple):
        return RaySource(list(data))
    if not hasattr(data, "num_blocks") or "Materialized" not in type(data).__name__:
        size = None
        with suppress(Exception):
            size = data.size_bytes()
        held = f", of some {size_in_words(size)}" if size else ""
        raise TypeError(
            f"data is a Dataset of ray that is not computed{held}: every pass, and every look at "
            "some rows, would compute it anew. data.materialize() computes it once and keeps it in "
            "the cluster's memory; files of Parquet that this machine sees are read by "
            "sm.parquet(path) without."
        )
    parts, lengths = [], []
    for bundle in data.iter_internal_ref_bundles():
        parts += bundle.block_refs
        lengths += [block.num_rows for block in bundle.metadata]
    return RaySource(parts, None if None in lengths else lengths)


class RaySource(Source):
    """Parts in ray's object store."""

    kind = "Ray"

    def __init__(self, parts: Sequence[Any], lengths: Any = None):
        import ray

        if not len(parts):
            raise ValueError("data=[] has no part: give references to dicts of arrays, or tables.")
        must_be_started()
        self.parts = list(parts)
        self.functions: dict[Callable, Any] = {}
        # Of the first part, if nobody says it else: an empty one knows its types, too.
        found = ray.get(ray.remote(what_is_there).remote(self.parts[0]))
        if isinstance(found, Failed):
            raise self.noted(found.error, 0)
        columns, self.origin, self.read = found  # type: ignore[method-assign]
        super().__init__(columns, len(self.parts), lengths)
        self.cores = int(ray.cluster_resources().get("CPU", 1))
        self.window = 2 * self.cores + 2

    def share(self, parcel: Parcel) -> Any:
        import ray
        from ray import cloudpickle

        must_be_started()

        return ray.put(cloudpickle.dumps(parcel))

    def submit(self, work: Callable, jobs: list[tuple[int, tuple]], sent: Any) -> list[Any]:
        import ray

        must_be_started()
        if work not in self.functions:
            self.functions[work] = ray.remote(work)
        run = self.functions[work]
        return [run.remote(self.parts[part], sent, *more) for part, more in jobs]

    def submit_rows(self, jobs: list[tuple[int, tuple]], sent: Any) -> list[tuple[list[int], Any]]:
        """A task a core for the parts that a machine holds: each takes some milliseconds."""
        import ray

        must_be_started()
        places = places_of([self.parts[part] for part, _ in jobs])
        machines: dict[Any, list[tuple[int, np.ndarray]]] = {}
        for (part, (rows,)), place in zip(jobs, places, strict=True):
            machines.setdefault(place, []).append((part, rows))
        run = self.functions.setdefault(take_several, ray.remote(take_several))
        found = []
        for some in machines.values():
            step = -(-len(some) // max(self.cores // len(machines), 1))
            for start in range(0, len(some), step):
                parts, rows = zip(*some[start : start + step], strict=True)
                data = (self.parts[part] for part in parts)
                found.append((list(parts), run.remote(sent, parts, rows, *data)))
        return found

    def result(self, handle: Any) -> Any:
        import ray

        return ray.get(handle)

    def drop(self, handles: list[Any]) -> None:
        import ray

        for handle in handles:
            with suppress(Exception):  # it may be over
                ray.cancel(handle)

    def part_name(self, part: int) -> str:
        return f"part {part}"


def take_several(sent: Any, parts: Sequence[int], rows: Sequence[np.ndarray], *data: Any) -> Any:
    """Some rows of parts that are on one machine; runs on a worker."""
    return take(data if len(data) > 1 else data[0], sent, parts, rows)


def places_of(references: list[Any]) -> list[Any]:
    """A machine that holds each object; None, if nobody says it."""
    try:
        from ray.experimental import get_object_locations

        found = get_object_locations(references)
        return [next(iter(found[one]["node_ids"]), None) for one in references]
    except Exception:  # an interface that ray may change
        return [None] * len(references)


def must_be_started() -> None:
    """Refuse to go on without ray, which would start another one, that has none of the parts."""
    import ray

    if not ray.is_initialized():
        raise RuntimeError(
            "ray is not running in this process: ray.init() starts it, or finds your cluster, "
            "ray.init(address='auto'). Objects of a session that was shut down are gone: put the "
            "data into its store again, and make the model of them."
        )


def what_is_there(data: Any) -> Any:
    """(columns, origin, how they are read) of a part; runs on a worker."""
    try:
        if isinstance(data, dict):
            refuse_names(list(data), "dict")
            arrays = {name: np.asarray(array) for name, array in data.items()}
            return columns_of_arrays(arrays), None, of_arrays
        if hasattr(data, "column_names"):
            wanted = wanted_of(None, data.column_names, "table")
            return declared(wanted, data.schema, {}), wanted, of_table
        if hasattr(data, "columns") and hasattr(data, "to_numpy"):
            refuse_names(list(data.columns), "data frame")
            columns: dict[str, SourceColumn] = {n: of_dtype(data[n], n) for n in data.columns}
            return columns, None, of_frame
        raise TypeError(
            f"a part is {type(data).__name__}: give references to dicts of arrays, {{'y': y}}, to "
            "tables of pyarrow, or to data frames."
        )
    except Exception as error:
        return Failed(error)
