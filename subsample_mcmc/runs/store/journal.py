"""A run under way, in a file that this process holds, appends to, and that others may read.

Every append is one frame (frames.py) and all or nothing: a full disk, an interrupt or a kill leaves
the frames before it. A torn tail that a killed process left is cut off by the next one.
"""

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from subsample_mcmc.errors import StoreError
from subsample_mcmc.runs.store import netcdf
from subsample_mcmc.runs.store.frames import (
    DRAWS,
    KINDS,
    SIGNATURE,
    UnderWay,
    framed,
    header_frame,
    pack,
)
from subsample_mcmc.runs.store.thinned import as_bytes, thinned_in
from subsample_mcmc.target.layout import Layout

try:
    import fcntl
except ImportError:  # not POSIX: a second writer is then not noticed
    fcntl = None  # type: ignore[assignment]


def hold(fd: int, path: Path) -> None:
    """Makes this process the only writer of a file, until fd is closed; refuses if it is not."""
    busy = False
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = True
        except OSError:
            pass  # a file system without locks: better unguarded than no store at all
    try:
        # Whoever held it may have replaced the file between our open and our lock.
        busy = busy or not os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        busy = True
    if busy:
        raise StoreError(
            f"{path} is being written, by another process or by another sm.sample or sm.resume in "
            "this one: wait for its end, or stop it. Reading it with sm.load is possible now."
        )


def refuse_other_layout(path: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Raises unless two headers describe the same blocks, statistics and chains."""
    for key, text in ("layout", "blocks or statistics"), ("chains", "number of chains"):
        if json.loads(json.dumps(new[key])) != old[key]:
            raise StoreError(
                f"{path} was sampled with other {text} than now: {key} was {old[key]} and is "
                f"{new[key]}. Resume with the model and the kernel of that run, or sample anew."
            )


def new_file(path: Path, over: bool = False) -> int:
    """An empty file, open; refuses a path that exists (but with over), or where nothing can be."""
    if os.path.isdir(path):  # also where nothing was given: the path is that of where one stands
        raise StoreError(f"{path} is a folder: give a file in it, such as {path / 'run.nc'}.")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | (0 if over else os.O_EXCL)
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError as error:
        raise StoreError(
            f"{path} exists already, and a run is never overwritten. Go on with it by "
            "sm.resume, or choose another path, or delete it."
        ) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be created: {error.strerror}. Its directory must exist and be "
            "writable: make it, or choose another path."
        ) from error


def must_be_free(path: str | os.PathLike) -> None:
    """Refuse a path at which no new run can be stored, before any work is done for it."""
    netcdf.refuse_without_libraries()
    os.close(new_file(Path(path)))
    Path(path).unlink()


def held_file(path: Path) -> int:
    """An existing file, open for appending by this process alone; refuses what cannot be that."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be opened for writing: {error.strerror}. To go on with a run, its "
            "file must exist and be writable."
        ) from error
    try:
        hold(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Journal:
    """A journal open for appending; this process holds it until close()."""

    def __init__(self, path: Path, fd: int, meta: dict[str, Any]):
        self.path, self.meta = path, meta
        self.layout, self.thinned = Layout.from_json(meta["layout"]), thinned_in(meta)
        self._fd = fd
        self._lock = threading.Lock()
        # End of the last whole frame, and draws per chain up to there. One object, so that an
        # interrupt between two assignments cannot make them disagree.
        self._safe: tuple[int, tuple[int, ...]] = (0, (0,) * int(meta["chains"]))
        self._torn = False

    @classmethod
    def create(cls, path: str | os.PathLike, meta: dict[str, Any], over: bool = False) -> "Journal":
        """A new journal; an existing path is refused (over: replaced, once nobody holds it)."""
        path, meta = Path(path), json.loads(json.dumps(meta))
        netcdf.refuse_if_unwritable(meta)
        fd = new_file(path, over)
        try:
            hold(fd, path)
        except BaseException:
            os.close(fd)  # and nothing is deleted: the file is somebody else's
            raise
        journal = cls(path, fd, meta)
        try:
            os.ftruncate(fd, 0)
            journal._write(SIGNATURE + header_frame(meta), journal._safe[1])
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return journal

    @classmethod
    def open(cls, path: str | os.PathLike, meta: dict[str, Any] | None = None) -> "Journal":
        """An existing journal, to append to: a torn tail is cut off, meta replaces the header."""
        path = Path(path)
        fd = held_file(path)
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                found = UnderWay(file, path, verify=True)
            journal = cls(path, fd, found.meta)
            os.ftruncate(fd, found.end)
            journal._safe = found.end, tuple(found.draws)
            if meta is not None:
                refuse_other_layout(path, found.meta, meta)
                journal._write(header_frame(meta), journal.draws)
                journal.meta = json.loads(json.dumps(meta))
        except BaseException:
            os.close(fd)
            raise
        return journal

    @property
    def draws(self) -> tuple[int, ...]:
        """Draws stored so far, per chain."""
        return self._safe[1]

    def append(
        self,
        chain: int,
        ints: np.ndarray,
        floats: np.ndarray,
        words: np.ndarray,
        checkpoint: dict[str, np.ndarray] | None,
        seconds: float,
        thinned: Sequence[np.ndarray] = (),
    ) -> None:
        """Stores the next draws of a chain (there may be none) and the checkpoint after them.

        thinned: of blocks of which not every draw is kept (thinned.py), those that are.
        """
        parts = []
        widths = (self.layout.ints, self.layout.floats, self.layout.words)
        for array, width, kind in zip((ints, floats, words), widths, KINDS, strict=True):
            if array.shape != (len(words), width) or array.dtype.newbyteorder("<") != kind:
                raise ValueError(
                    f"append was given an array of {array.dtype} of shape {array.shape}; the "
                    f"layout needs {kind[1:]} and ({len(words)}, {width}): draws, then values."
                )
            parts.append(np.ascontiguousarray(array, kind).tobytes())
        state = pack(checkpoint)
        with self._lock:
            draws = list(self.draws)
            if not 0 <= chain < len(draws):
                raise ValueError(f"chain={chain}, and the run has chains 0 to {len(draws) - 1}.")
            start = draws[chain]
            draws[chain] += len(words)
            rows = b"".join([*parts, as_bytes(self.thinned, thinned, start, len(words))])
            self._write(framed(DRAWS, rows, state, chain, start, len(words), seconds), tuple(draws))

    def _write(self, data: bytes, draws: tuple[int, ...]) -> None:
        """Writes whole frames or nothing."""
        if self._fd < 0 or self._torn:
            raise StoreError(f"{self.path} is closed: open it again with sm.resume.")
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
            self._safe = self._safe[0] + len(data), draws
        except BaseException as error:
            # An interrupt tears a frame as a full disk does: nothing may be appended behind it.
            try:
                os.ftruncate(self._fd, self._safe[0])
            except OSError:
                self._torn = True
            if not isinstance(error, OSError):
                raise
            raise StoreError(
                f"{self.path} cannot be written: {error.strerror}. The draws before are safe: "
                f"{', '.join(map(str, self.draws))} of {self.meta.get('draws')} (per chain). Free "
                "some space, then go on from there with sm.resume."
            ) from error

    def close(self) -> None:
        """Flushes the file to the disk and lets go of it."""
        with self._lock:
            if self._fd < 0:
                return
            fd, self._fd = self._fd, -1
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
