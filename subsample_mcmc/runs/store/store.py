"""A run in one file: a journal while it is sampled, netCDF at the same path once it is complete.

At any moment the path holds one of the two, whole and readable: the other is made beside it and
takes its place by an atomic rename, whenever the process or the machine may die. Each is made from
the other some megabytes at a time, so memory does not grow with the number of draws.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from subsample_mcmc.errors import StoreError
from subsample_mcmc.runs.store import frames, netcdf
from subsample_mcmc.runs.store.journal import (
    Journal,
    held_file,
    must_be_free,
    refuse_other_layout,
)
from subsample_mcmc.runs.store.thinned import joined, thinned_in

__all__ = [
    "ChainData",
    "Journal",
    "Progress",
    "Stored",
    "finish",
    "must_be_free",
    "must_be_writable",
    "peek",
    "read",
    "reopen",
    "replace",
]

T = TypeVar("T")


class ChainData(NamedTuple):
    """All of one chain."""

    ints: np.ndarray  # (draws, layout.ints)
    floats: np.ndarray  # (draws, layout.floats)
    words: np.ndarray  # (draws, layout.words)
    checkpoint: dict[str, np.ndarray] | None  # after the last draw; None: nothing to go on from
    seconds: float  # of sampling so far
    thinned: tuple[np.ndarray, ...] = ()  # of blocks of which not every draw is kept (thinned.py)


class Stored(NamedTuple):
    """A run as it is stored."""

    meta: dict[str, Any]  # the header
    chains: list[ChainData]
    finished: bool  # netCDF, else a journal


class Progress(NamedTuple):
    """How far a run is, by chain: what is needed to go on with it."""

    meta: dict[str, Any]
    draws: list[int]
    checkpoints: list[dict[str, np.ndarray] | None]
    seconds: list[float]
    finished: bool


def read(path: str | os.PathLike) -> Stored:
    """Everything that is stored, also while another process writes; the file is not touched."""

    def everything(run: frames.StoredRun, finished: bool) -> Stored:
        return Stored(run.meta, [_chain(run, c) for c in range(len(run.draws))], finished)

    return _look(Path(path), everything, verify=True)


def peek(path: str | os.PathLike) -> Progress:
    """How far the run is, without reading its draws."""

    def progress(run: frames.StoredRun, finished: bool) -> Progress:
        states = [frames.unpack(run.checkpoint(c)) for c in range(len(run.draws))]
        return Progress(run.meta, run.draws, states, run.seconds, finished)

    return _look(Path(path), progress, verify=False)


def finish(path: str | os.PathLike) -> None:
    """Turns a complete journal into netCDF; a finished file is left as it is.

    Raises StoreError if draws are missing or the netCDF cannot be written; the journal is then
    whole, and sm.resume completes it.
    """
    path = Path(os.path.realpath(path))  # the file is replaced, not a link to it
    if _finished(path):
        with netcdf.opened(path):  # raises if it is somebody else's
            return
    made = _beside(path, "netcdf")
    # Held until it is replaced: nobody appends what would not be in the netCDF. That checks it too.
    with Journal.open(path) as journal, frames.opened(path, verify=False) as run:
        if set(journal.draws) != {run.meta["draws"]}:
            raise StoreError(
                f"{path} holds {', '.join(map(str, journal.draws))} draws (per chain) of "
                f"{run.meta['draws']}: the run is not complete, and sm.resume completes it."
            )
        try:
            netcdf.write(made, run)
            replace(made, path)
        except BaseException as error:
            made.unlink(missing_ok=True)
            if not isinstance(error, OSError | RuntimeError):  # HDF5 has both for a full disk
                raise
            raise StoreError(
                f"{path} cannot be turned into netCDF: {error}. All draws are safe in it, as a "
                "journal. Free some space (as much as the file has), then sm.resume finishes it."
            ) from error


def must_be_writable(path: str | os.PathLike) -> None:
    """Refuse a stored run that cannot be gone on with, before any work is done for it."""
    path = Path(os.path.realpath(path))
    if not _finished(path):
        os.close(held_file(path))
    elif not os.path.exists(made := _beside(path, "journal")):  # one that is there is written over
        must_be_free(made)


def reopen(path: str | os.PathLike, meta: dict[str, Any]) -> Journal:
    """A journal with all that is stored and a new header, to append to; a journal is opened."""
    path = Path(os.path.realpath(path))
    if not _finished(path):
        return Journal.open(path, meta)
    made = _beside(path, "journal")
    with netcdf.opened(path) as run:
        refuse_other_layout(path, run.meta, meta)
        journal = Journal.create(made, meta, over=True)
        try:
            if not _finished(path):
                raise OSError("another process has reopened it")
            for chain in range(len(run.draws)):
                for rows in run.rows(chain):
                    # No state: nobody goes on from the middle of a finished run.
                    journal.append(chain, **rows, checkpoint=None, seconds=0.0)
                none = netcdf.empty(run.layout, 0)
                state = frames.unpack(run.checkpoint(chain))
                journal.append(chain, **none, checkpoint=state, seconds=run.seconds[chain])
            replace(made, path)
            journal.path = path
        except BaseException as error:
            journal.close()
            made.unlink(missing_ok=True)
            if not isinstance(error, OSError | RuntimeError):
                raise
            raise StoreError(
                f"{path} cannot be reopened to go further: {error.__cause__ or error}. It is as it "
                "was. Free some space (as much as the file has) or wait for the other process, "
                "then try again."
            ) from error
    return journal


def _chain(run: frames.StoredRun, chain: int) -> ChainData:
    """All of a chain; its arrays are filled piece by piece, so they are in memory only once."""
    whole, at, kept = netcdf.empty(run.layout, run.draws[chain]), 0, []
    for rows in run.rows(chain):
        end = at + len(rows["words"])
        kept.append(rows.pop("thinned"))
        for name, part in rows.items():
            whole[name][at:end] = part
        at = end
    state = frames.unpack(run.checkpoint(chain))
    thinned = joined(thinned_in(run.meta), kept)
    return ChainData(**whole, checkpoint=state, seconds=run.seconds[chain], thinned=thinned)


def _look(path: Path, take: Callable[[frames.StoredRun, bool], T], verify: bool) -> T:
    """What take finds in a run, whichever form it has."""
    for last in (False, True):
        finished = _finished(path)
        run: AbstractContextManager = (
            netcdf.opened(path) if finished else frames.opened(path, verify)
        )
        try:
            with run as opened:
                return take(opened, finished)
        except StoreError:
            # The other form may have taken its place since we looked: look again, once.
            if last or _finished(path) == finished:
                raise
    raise AssertionError  # not reached


def _finished(path: Path) -> bool:
    """Whether a path holds netCDF (HDF5); refuses what cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(frames.HDF5)) == frames.HDF5
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}. Give the file that sm.sample(store=...) "
            "wrote."
        ) from error


def _beside(path: Path, kind: str) -> Path:
    """Where the other form is made: a fixed name, so what a killed process left is overwritten."""
    return path.with_name(f"{path.name}.{kind}-part")


def replace(made: Path, path: Path) -> None:
    """Puts a file in the place of another: also after a crash, one of them is there, whole."""
    if path.exists():
        shutil.copymode(path, made)
    with made.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(made, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
