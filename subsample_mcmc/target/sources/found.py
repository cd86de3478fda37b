"""What a user gave as data, recognised as a source of rows, without importing what is not there."""

from typing import Any

import numpy as np

from subsample_mcmc.target.data import as_array, as_fields
from subsample_mcmc.target.sources.local import LocalSource
from subsample_mcmc.target.sources.parts import SourceColumn
from subsample_mcmc.target.sources.source import Source

ROWS = 1 << 18  # at least so many are read together, if that is possible


def source_of(data: Any) -> Source | None:
    """Data that are read in parts as a source; None: they are in memory, or no data at all."""
    if isinstance(data, Source):
        return data
    fields = as_fields(data)
    if is_dask(data):
        from subsample_mcmc.target.sources.dask import dask_source

        return dask_source(data)
    if is_of_ray(data):
        from subsample_mcmc.target.sources.ray import ray_source

        return ray_source(data)
    if home(data) == "pyarrow" and hasattr(data, "get_fragments"):
        from subsample_mcmc.target.sources.parquet import ParquetSource

        return ParquetSource(data)
    if not isinstance(fields, dict) or not fields:
        return None
    if any(is_dask(value) for value in fields.values()):
        from subsample_mcmc.target.sources.dask import dask_source

        return dask_source(fields)
    if any(is_chunked(value) for value in fields.values()):
        return chunked(fields)
    return None


def home(value: Any) -> str:
    """The library that a value's class comes from."""
    return type(value).__module__.partition(".")[0]


def is_dask(value: Any) -> bool:
    """Is it a collection of dask, not xarray's way to say that it might be one."""
    return home(value) == "dask" and hasattr(type(value), "__dask_graph__")


def is_of_ray(value: Any) -> bool:
    """Is it a Dataset of ray, or a list of references."""
    if isinstance(value, list | tuple) and len(value):
        return all(home(one) == "ray" and hasattr(one, "task_id") for one in value)
    return home(value) == "ray" and hasattr(value, "iter_batches")


def is_chunked(value: Any) -> bool:
    """Is it an array of zarr or h5py, which reads from disk what is asked for."""
    return home(value) in ("zarr", "h5py") and hasattr(value, "chunks") and hasattr(value, "dtype")


def chunked(fields: dict[str, Any]) -> LocalSource:
    """Arrays of zarr or h5py, and such in memory, as a source that reads whole chunks."""
    sizes = {}
    fields = {
        name: as_array(value, name) if isinstance(value, np.ma.MaskedArray) else value
        for name, value in fields.items()
    }
    for name, value in fields.items():
        if not getattr(value, "ndim", 0):
            raise TypeError(
                f"data {name} is {type(value).__name__}, and others are arrays in files: give an "
                "array of as many rows; what stands in no row belongs into tables=."
            )
        sizes[name] = int(value.shape[0])
    if len(set(sizes.values())) > 1:
        raise ValueError(f"data have different lengths: {sizes}.")
    size = next(iter(sizes.values()))
    steps = [v.chunks[0] for v in fields.values() if is_chunked(v) and v.chunks]
    step = max(steps, default=ROWS)
    step *= max(1, -(-ROWS // step))  # whole chunks of the coarsest
    columns = {}
    for name, value in fields.items():
        kind = np.dtype(value.dtype).newbyteorder("=")
        if kind.kind not in "biuf":
            raise TypeError(f"data {name} is {value.dtype}: give numbers.")
        columns[name] = SourceColumn(kind, tuple(value.shape[1:]))
    starts = range(0, size, step)
    parts = [Sliced(fields, columns, start, min(start + step, size)) for start in starts]
    source = LocalSource(parts, columns, [min(step, size - start) for start in starts])
    source.kind = "/".join(sorted({home(v) for v in fields.values() if is_chunked(v)}))
    return source


class Sliced:
    """Reads consecutive rows of arrays."""

    def __init__(
        self, arrays: dict[str, Any], columns: dict[str, SourceColumn], start: int, stop: int
    ):
        self.arrays, self.columns = arrays, columns
        self.rows = slice(start, stop)

    def __call__(self) -> dict[str, np.ndarray]:
        return {
            name: np.asarray(array[self.rows]).astype(self.columns[name].dtype, copy=False)
            for name, array in self.arrays.items()
        }
