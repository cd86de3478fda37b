"""What runs beside the rows of one part: it reads its columns, looks at them, and does a task.

Functions here travel to workers by name, and what they work with as one parcel, pickled once a call
and opened once a worker.
"""

import pickle
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.target.data import wrong_values
from subsample_mcmc.target.sources.digests import digest_of

PARCELS = 4  # that a worker keeps open
PROBES = 64  # rows that tell whether a part was made anew with others
KEPT_BYTES = 1 << 26  # of one array of a thread, at most


class SourceColumn(NamedTuple):
    """What a column holds: numbers of a kind, the shape of one row of it, and what codes mean."""

    dtype: np.dtype
    shape: tuple[int, ...] = ()
    categories: tuple | None = None


class Parcel(NamedTuple):
    """What all parts of a call share."""

    columns: dict[str, SourceColumn]
    read: Callable[[Any, "Parcel"], dict[str, np.ndarray]]  # columns of what a part is
    origin: Any = None  # what `read` needs to know beside
    missing: str = "refuse"
    task: Callable | None = None
    shared: Any = None
    probed: bool = True  # requests of rows look at some others, too, whether they changed


class SeenPart(NamedTuple):
    """What was noticed of a part that was read whole."""

    rows: int
    digest: tuple[int, int]
    # Of NaN or infinite values, in the first column with some: name, kind, how many, first place.
    fault: Any = None
    probe: int = 0  # a digest of a few of its rows


class Taken(NamedTuple):
    """Some rows of a part; how many it has, and the digest of a few of them, if it was probed."""

    columns: dict[str, np.ndarray]
    rows: int
    probe: int | None


class PassRoom(threading.local):
    """Arrays of a thread in which columns of one part after the other are made.

    Workers of dask give large arrays back to the system at once, and what is given anew by it costs
    more than what is written there.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def of(self, name: str, parts: list[np.ndarray], axis: int) -> np.ndarray:
        """Room for arrays one behind the other, or side by side."""
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        dtype = np.result_type(*parts)
        size = int(np.prod(shape, dtype=int)) * dtype.itemsize
        held = self.arrays.get(name)
        if held is None or len(held) < size:
            held = np.empty(size + size // 8, np.uint8)
            if size <= KEPT_BYTES:
                self.arrays[name] = held
        return held[:size].view(dtype).reshape(shape)


class MissingError(Exception):
    """A column of a part has values that are missing: name, kind, how many, where the first is."""


class Failed(NamedTuple):
    """An exception that is raised again where the call was made."""

    error: Exception


@lru_cache(maxsize=PARCELS)
def opened(data: bytes) -> Parcel:
    """A parcel as it was sent; once a worker."""
    return pickle.loads(data)


def parcel_of(sent: Any) -> Parcel:
    """A parcel, as it is in this process or as it was sent to another."""
    return opened(bytes(sent)) if isinstance(sent, bytes | bytearray | memoryview) else sent


def look(data: Any, sent: Any, part: int, first: int, checked: bool) -> tuple[SeenPart | None, Any]:
    """Read a part, notice what it holds, and do the task; (seen, result).

    first: its first global row; -1, if that is not known yet: nothing is done then but looking.
    checked: NaN and infinite values were looked for before.
    """
    seen = None
    try:
        parcel = parcel_of(sent)
        columns = parcel.read(data() if callable(data) else data, parcel)
        rows = common_rows(columns)
        infinite = parcel.missing == "infinite"
        fault = None
        if not checked and parcel.missing != "allow":
            found = ((name, wrong_values(a, infinite)) for name, a in columns.items())
            fault = next(((name, *wrong) for name, wrong in found if wrong), None)
        seen = SeenPart(rows, digest_of(columns, rows), fault, probe_of(columns, rows))
        if fault is not None or parcel.task is None or first < 0:
            return seen, None
        return seen, parcel.task(columns, first, part, parcel.shared)
    except MissingError as missing:
        return SeenPart(0, (0, 0), missing.args), None
    except Exception as error:
        return seen, Failed(error)


def take(data: Any, sent: Any, parts: Sequence[int], rows: Sequence[np.ndarray]) -> list[Any]:
    """Some rows of parts, by their numbers within each; data: of one part, or a list of several."""
    found: list[Any] = []
    for k, some in enumerate(rows):
        one = data[k] if len(parts) > 1 else data
        try:
            found.append(taken_of(one() if callable(one) else one, parcel_of(sent), some))
        except Exception as error:
            found.append(Failed(error))
    return found


def take_together(
    data: list[Any], sent: Any, parts: Sequence[int], rows: Sequence[np.ndarray]
) -> list[Any]:
    """The same of parts that are in memory, without a probe; columns are made of all rows at once.

    What goes wrong is said of one part: then it is done part by part.
    """
    parcel = parcel_of(sent)
    try:
        make = maker_of(parcel)
        given = [
            parcel.origin.raw(one, parcel) if make else parcel.read(one, parcel) for one in data
        ]
        counts = [common_rows(columns) for columns in given]
        joined = {
            name: np.concatenate(
                [np.asarray(one[name])[some] for one, some in zip(given, rows, strict=True)]
            )
            for name in given[0]
        }
        columns = make(joined, parcel) if make else joined
    except Exception:
        return take(data if len(parts) > 1 else data[0], sent, parts, rows)
    ends = np.cumsum([len(some) for some in rows])
    return [
        Taken({name: array[end - len(some) : end] for name, array in columns.items()}, count, None)
        for some, end, count in zip(rows, ends.tolist(), counts, strict=True)
    ]


def maker_of(parcel: Parcel) -> Any:
    """What makes columns of others, row by row; None: they are read as they are."""
    return getattr(parcel.origin, "made", None) if parcel.read is not of_arrays else None


def taken_of(data: Any, parcel: Parcel, some: np.ndarray) -> Taken:
    """Some rows of a part. Columns that are made of others, row by row, are made of these alone."""
    make = maker_of(parcel)
    given = parcel.origin.raw(data, parcel) if make else parcel.read(data, parcel)
    count = common_rows(given)
    if make is None:
        probe = probe_of(given, count) if parcel.probed else None
        return Taken({name: np.asarray(array)[some] for name, array in given.items()}, count, probe)
    few = places_of_probes(count if parcel.probed else 0)
    columns = make(
        {n: np.asarray(a)[np.concatenate([few, some])] for n, a in given.items()}, parcel
    )
    probe = None
    if parcel.probed:
        probe = digest_of({n: array[: len(few)] for n, array in columns.items()}, len(few))[0]
    return Taken({name: array[len(few) :] for name, array in columns.items()}, count, probe)


def places_of_probes(count: int) -> np.ndarray:
    """Rows that are spread evenly over a part."""
    return np.unique(np.linspace(0, count - 1, min(count, PROBES)).astype(np.int64))


def probe_of(columns: dict[str, np.ndarray], count: int) -> int:
    """A digest of rows that are spread evenly over a part."""
    places = places_of_probes(count)
    few = {name: np.asarray(array)[places] for name, array in columns.items()}
    return digest_of(few, len(places))[0]


def common_rows(columns: dict[str, np.ndarray]) -> int:
    """How many rows all columns of a part have; refuses columns of other lengths."""
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of one part have different lengths: {lengths}.")
    return next(iter(lengths.values()), 0)


def as_declared(array: np.ndarray, name: str, column: SourceColumn) -> np.ndarray:
    """An array of a part, if it is what the column says; other kinds of numbers are refused.

    Masked floats are NaN, others are refused: what stands below a mask is no value.
    """
    if isinstance(array, np.ma.MaskedArray):
        array = unmasked(array, name)
    array = np.asarray(array)
    if not len(array):
        return np.zeros((0, *column.shape), column.dtype)
    if array.dtype != column.dtype or array.shape[1:] != column.shape:
        raise TypeError(
            f"data {name} is {array.dtype} of shape {array.shape[1:]} a row here, and "
            f"{column.dtype} of shape {column.shape} elsewhere: give all parts the same."
        )
    return array


def unmasked(array: np.ma.MaskedArray, name: str) -> np.ndarray:
    """What a masked array holds."""
    gone = np.ma.getmaskarray(array)
    if not gone.any():
        return array.data
    if array.dtype.kind == "f":
        return array.filled(np.nan)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(gone)), gone.shape))
    raise MissingError(name, "null", int(gone.sum()), place)


def of_arrays(data: Any, parcel: Parcel) -> dict[str, np.ndarray]:
    """The columns of a dict of arrays."""
    return {n: as_declared(data[n], n, column) for n, column in parcel.columns.items()}
