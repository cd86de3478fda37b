"""Where chains run beside threads: joblib's backends, and how a model gets there once.

A run goes out in many tasks of some seconds. What they share, the model and the kernel, is pickled
once a run and read once a worker: by way of a file where workers are on this machine, whose arrays
they map instead of copying them; by dask's scatter, or ray's object store, where they may be
elsewhere.
"""

import importlib
import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = ("threading", "sequential")  # joblib's backends in this process
BESIDE = ("loky", "multiprocessing")  # and in others on this machine
LARGE = 1 << 16  # bytes of an array that is mapped, not read
ALIGNED = 64  # bytes: where arrays begin in a file


def joblib_with(backend: str) -> Any:
    """The joblib module, if it is there and knows the backend; else what to install or to start."""
    try:
        import joblib
    except ImportError:
        raise ImportError(
            f"parallel={backend!r} needs joblib: pip install joblib; without it chains run in "
            "threads (parallel=None)."
        ) from None
    if not isinstance(backend, str):
        raise TypeError(
            f"parallel={backend!r:.60}: give the name of a joblib backend, such as 'loky', 'dask' "
            "or 'ray', or None for threads."
        )
    if backend in ("dask", "ray"):
        needed = {"dask": "distributed", "ray": "ray"}[backend]
        try:
            if backend == "ray":
                from ray.util.joblib import register_ray

                register_ray()
            else:
                importlib.import_module("distributed")
        except ImportError as error:
            raise ImportError(
                f"parallel={backend!r} needs {needed}, which cannot be imported ({error}): "
                f"pip install 'subsample-mcmc[{backend}]'; without it chains run in threads "
                "(parallel=None) or processes (parallel='loky')."
            ) from None
    try:
        with joblib.parallel_config(backend=backend):
            return joblib
    except ValueError as error:
        if backend == "dask":
            told = "it needs a client of your cluster, made before: client = distributed.Client() "
            told += "starts workers on this machine, Client(address) finds others"
        else:
            told = f"{error}. Give 'loky' (processes), 'dask', 'ray', or None for threads"
        raise ValueError(f"parallel={backend!r}: {told}.") from None


# --------------------------------------------------------------------------------------- parcels
@dataclass
class Here:
    """Things for tasks in this process."""

    things: Any

    def open(self) -> Any:
        """The things themselves."""
        return self.things


@dataclass
class Sent:
    """Things, pickled; the bytes travel as the backend sees fit."""

    data: bytes

    def open(self) -> Any:
        """The things, made anew."""
        return pickle.loads(self.data)


@dataclass
class Put:
    """Things in ray's object store."""

    reference: Any

    def open(self) -> Any:
        """The things, made anew."""
        import ray

        return pickle.loads(ray.get(self.reference))


@dataclass
class Filed:
    """Things in a file of this machine: large arrays, then the pickle that refers to them."""

    path: str
    spans: list[tuple[int, int]]  # of the arrays, and last of the pickle

    def open(self) -> Any:
        """The things; arrays are pages of the file, private where they may be written to."""
        with open(self.path, "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        *buffers, stream = (view[start:stop] for start, stop in self.spans)
        return pickle.loads(stream, buffers=buffers)


@contextmanager
def parcel(things: Any, backend: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(what each task gets, options of joblib.parallel_config), as long as the run lasts."""
    if backend in HERE:
        yield Here(things), {}
    elif backend in BESIDE:
        with tempfile.TemporaryDirectory(
            prefix="subsample-mcmc-", ignore_cleanup_errors=True
        ) as folder:
            yield filed(things, os.path.join(folder, "run")), {}
    elif backend == "ray":
        import ray

        if not ray.is_initialized():
            ray.init()
        yield Put(ray.put(pickled(things))), {}
    else:
        sent = Sent(pickled(things))
        # Once to each worker; other backends take the bytes along with every task.
        yield sent, {"scatter": [sent]} if backend == "dask" else {}


def as_sent(error: Exception) -> Exception:
    """An error that can go to another process: one that cannot would break all of them.

    A class whose __init__ takes other arguments than those that it hands on is not made again.
    """
    try:
        pickle.loads(pickled(error))
    except Exception:
        made = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            made.add_note(note)
        return made
    return error


def cloudpickle() -> Any:
    """The module, which joblib needs since 1.6, and had inside before."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return importlib.import_module("joblib.externals.cloudpickle")


def pickled(things: Any) -> bytes:
    """Things in bytes; functions of a script or a notebook by value."""
    return cloudpickle().dumps(things, protocol=5)


def filed(things: Any, path: str) -> Filed:
    """Write things to a file."""
    spans: list[tuple[int, int]] = []
    stream = io.BytesIO()
    with open(path, "wb") as file:

        def aside(buffer: pickle.PickleBuffer) -> bool:
            """Large arrays go into the file as they are; what returns True stays in the pickle."""
            raw = buffer.raw()
            if raw.nbytes < LARGE:
                return True
            file.seek(-file.tell() % ALIGNED, os.SEEK_CUR)
            spans.append((file.tell(), file.tell() + raw.nbytes))
            file.write(raw)
            return False

        base: Any = cloudpickle().Pickler

        class Pickler(base):
            def reducer_override(self, given):
                if isinstance(given, np.ndarray) and (where := in_file(given)):
                    return mapped, where
                return super().reducer_override(given)

        Pickler(stream, protocol=5, buffer_callback=aside).dump(things)
        spans.append((file.tell(), file.tell() + len(stream.getbuffer())))
        file.write(stream.getbuffer())
    return Filed(path, spans)


def in_file(array: np.ndarray) -> tuple | None:
    """Where a read-only array stands in a file that it is mapped from; None if it is not."""
    base: Any = array  # parts of a mapped array repeat its offset: only the whole knows its place
    while isinstance(base, np.ndarray) and not isinstance(base.base, mmap.mmap):
        base = base.base
    name = getattr(base, "filename", None)
    if name is None or base.mode == "c" or array.flags.writeable or not array.flags.forc:
        return None
    address = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    order = "C" if array.flags.c_contiguous else "F"
    path = str(Path(os.fsdecode(name)).resolve())
    return path, array.dtype, base.offset + address, array.shape, order


def mapped(path: str, dtype: np.dtype, offset: int, shape: tuple, order: Any) -> np.ndarray:
    """The array again, in another process."""
    return np.memmap(path, dtype, "r", offset, shape, order)
