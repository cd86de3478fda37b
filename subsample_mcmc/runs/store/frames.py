"""The bytes of a run under way: a signature, then frames, each whole or recognisably not.

A frame is a head of fixed size (what it holds, two CRCs of that, and a CRC of itself) and its
bytes: a header frame holds the run's header as JSON, a draws frame some draws of one chain and the
checkpoint after them. Frames are written in one go at the end of the file, so a process that is
killed leaves whole frames and at most one torn tail. All numbers are little-endian; nothing is
pickled.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from subsample_mcmc.errors import StoreError
from subsample_mcmc.runs.store.thinned import from_bytes, joined, thinned_in
from subsample_mcmc.target.layout import Layout

HDF5 = b"\x89HDF\r\n\x1a\n"
SIGNATURE = b"\x89SMCMC1\n"  # 0x89 as HDF5 and PNG have it: no text begins so; 1 is the format
MARK = b"\x89SMframe"
HEADER, DRAWS = 0, 1
# mark, kind, chain, start, draws, seconds, bytes of rows and of the checkpoint, CRCs of both
HEAD = struct.Struct("<8sIIQQdQQII")
CRC = struct.Struct("<I")
HEAD_BYTES = HEAD.size + CRC.size
PIECE = 2**22  # bytes read at once to be checked
MANY = 2**23  # bytes of draws moved at once between the two forms
KINDS = "<i8", "<f8", "<i8"  # of ints, floats and words
ENTRY = struct.Struct("<HHH")  # in a checkpoint: bytes of a name, bytes of its dtype, dimensions


# "ints", "floats", "words", each (draws, ...); "thinned": those kept of each thinned block, a tuple
DrawnRows = dict[str, Any]


class StoredRun(Protocol):
    """What is stored, in either form; opened here or in netcdf.py."""

    meta: dict[str, Any]
    layout: Layout
    draws: list[int]  # per chain
    seconds: list[float]  # of sampling, per chain

    def checkpoint(self, chain: int) -> bytes:
        """What pack made of the state after the last draw; b"" if there is none."""

    def rows(self, chain: int) -> Iterator[DrawnRows]:
        """All draws of a chain in order, some megabytes at a time."""


class Frame(NamedTuple):
    """The head of a frame, and where its bytes begin."""

    kind: int
    chain: int
    start: int  # draws of this chain in earlier frames
    draws: int
    seconds: float
    rows: int  # bytes
    checkpoint: int  # bytes
    rows_crc: int
    checkpoint_crc: int
    at: int

    @property
    def end(self) -> int:
        return self.at + self.rows + self.checkpoint


def framed(
    kind: int,
    rows: bytes,
    checkpoint: bytes = b"",
    chain: int = 0,
    start: int = 0,
    draws: int = 0,
    seconds: float = 0.0,
) -> bytes:
    """One frame, ready to be written."""
    lengths = len(rows), len(checkpoint)
    crcs = zlib.crc32(rows), zlib.crc32(checkpoint)
    head = HEAD.pack(MARK, kind, chain, start, draws, seconds, *lengths, *crcs)
    return b"".join((head, CRC.pack(zlib.crc32(head)), rows, checkpoint))


def header_frame(meta: dict[str, Any]) -> bytes:
    """The frame that says what the run is; a later one replaces it."""
    return framed(HEADER, json.dumps(meta).encode())


def pack(checkpoint: dict[str, np.ndarray] | None) -> bytes:
    """Numeric arrays by name as bytes: name, dtype, shape and values of each; none for None."""
    if checkpoint is None:
        return b""
    parts = [struct.pack("<I", len(checkpoint))]
    for name, value in checkpoint.items():
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"checkpoint {name!r} is an array of {array.dtype}; only booleans and numbers are "
                "stored. Turn it into one or several arrays of numbers."
            )
        dtype = array.dtype.newbyteorder("<")
        texts = name.encode(), dtype.str.encode()
        parts += [ENTRY.pack(len(texts[0]), len(texts[1]), array.ndim), *texts]
        parts += [struct.pack(f"<{array.ndim}Q", *array.shape), array.astype(dtype).tobytes()]
    return b"".join(parts)


def unpack(data: bytes) -> dict[str, np.ndarray] | None:
    """The inverse of pack."""
    if not data:
        return None
    found, at = {}, 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        named, typed, ndim = ENTRY.unpack_from(data, at)
        at += ENTRY.size
        name = data[at : at + named].decode()
        dtype = np.dtype(data[at + named : at + named + typed].decode())
        at += named + typed
        shape = struct.unpack_from(f"<{ndim}Q", data, at)
        at += 8 * ndim
        count = int(np.prod(shape, dtype=int))
        values = np.frombuffer(data, dtype, count, at).reshape(shape)
        found[name] = values.astype(dtype.newbyteorder("="))  # a copy: writable, and our own
        at += count * dtype.itemsize
    return found


class UnderWay:
    """A journal that is open for reading: the frames that are whole now; a torn tail is left out.

    With verify every byte is checked against its CRC, else heads, checkpoints and the last frame.
    """

    def __init__(self, file: BinaryIO, path: Path, verify: bool):
        self._file, self._path = file, path
        found = self._scan(verify)
        headers = [frame for frame in found if frame.kind == HEADER]
        if not headers:
            raise StoreError(
                f"{path} has no whole header: the run was killed as it began, and nothing is "
                "stored. Delete it and sample again."
            )
        self.end = found[-1].end
        self.meta: dict[str, Any] = json.loads(_read(file, headers[-1].at, headers[-1].rows))
        self.layout, self.thinned = Layout.from_json(self.meta["layout"]), thinned_in(self.meta)
        self._frames: list[list[Frame]] = [[] for _ in range(int(self.meta["chains"]))]
        self.draws = [0] * len(self._frames)
        for frame in found:
            if frame.kind == DRAWS:
                self._add(frame)
        self.seconds = [frames[-1].seconds if frames else 0.0 for frames in self._frames]

    def _scan(self, verify: bool) -> list[Frame]:
        file, at = self._file, len(SIGNATURE)
        size = os.fstat(file.fileno()).st_size
        begin = file.read(len(SIGNATURE))
        if begin != SIGNATURE:
            raise StoreError(f"{self._path} {_what(begin, size)}")
        found: list[Frame] = []
        while (frame := _head(file, at, size)) is not None:
            if verify and not _intact(file, frame):
                break
            found.append(frame)
            at = frame.end
        if not verify and found and not _intact(file, found[-1]):
            at = found.pop().at - HEAD_BYTES
        if at < size and _frame_after(file, at + 1, size):
            raise StoreError(self._damaged(at))
        return found

    def _add(self, frame: Frame) -> None:
        stored = self.draws[frame.chain]
        if frame.start != stored:
            raise StoreError(
                f"{self._path} has draw {frame.start} of chain {frame.chain} where draw {stored} "
                "belongs: two processes wrote to it. Sample again, to another path."
            )
        self.draws[frame.chain] += frame.draws
        self._frames[frame.chain].append(frame)

    def _damaged(self, at: int) -> str:
        return (
            f"{self._path} is damaged at byte {at}: whole frames follow, so this is no torn tail "
            f"of a killed run. Take the file from a backup; or cut a copy there (truncate -s {at})"
            ", and sm.resume draws what is missing again."
        )

    def checkpoint(self, chain: int) -> bytes:
        """See StoredRun."""
        if not self._frames[chain]:
            return b""
        frame = self._frames[chain][-1]
        data = _read(self._file, frame.at + frame.rows, frame.checkpoint)
        if zlib.crc32(data) != frame.checkpoint_crc:
            raise StoreError(self._damaged(frame.at - HEAD_BYTES))
        return data

    def rows(self, chain: int) -> Iterator[DrawnRows]:
        """See StoredRun."""
        widths = self.layout.ints, self.layout.floats, self.layout.words
        held: list[list[np.ndarray]] = []
        kept: list[tuple[np.ndarray, ...]] = []
        size = 0
        for i, frame in enumerate(self._frames[chain], 1):
            data, at, parts = _read(self._file, frame.at, frame.rows), 0, []
            for width, kind in zip(widths, KINDS, strict=True):
                flat = np.frombuffer(data, kind, frame.draws * width, at)
                parts.append(flat.reshape(frame.draws, width))
                at += flat.nbytes
            held.append(parts)
            kept.append(from_bytes(self.thinned, data, at, frame.start, frame.draws))
            size += len(data)
            if size >= MANY or i == len(self._frames[chain]):
                whole = (np.concatenate(part) for part in zip(*held, strict=True))
                rows: DrawnRows = dict(zip(("ints", "floats", "words"), whole, strict=True))
                yield rows | {"thinned": joined(self.thinned, kept)}
                held, kept, size = [], [], 0


@contextmanager
def opened(path: Path, verify: bool = True) -> Iterator[UnderWay]:
    """A journal, open for reading."""
    with path.open("rb") as file:
        yield UnderWay(file, path, verify)


def _read(file: BinaryIO, at: int, count: int) -> bytes:
    """Bytes of a file from a position on; fewer at its end."""
    file.seek(at)
    return file.read(count)


def _head(file: BinaryIO, at: int, size: int) -> Frame | None:
    """The frame that begins at a position, or None if no frame fits there."""
    data = _read(file, at, HEAD_BYTES)
    if len(data) < HEAD_BYTES or CRC.unpack_from(data, HEAD.size)[0] != zlib.crc32(
        data[: HEAD.size]
    ):
        return None
    mark, *fields = HEAD.unpack_from(data)
    frame = Frame._make((*fields, at + HEAD_BYTES))
    return frame if mark == MARK and frame.end <= size else None


def _intact(file: BinaryIO, frame: Frame) -> bool:
    """Whether the bytes of a frame are those that were written."""
    file.seek(frame.at)
    for count, expected in (frame.rows, frame.rows_crc), (frame.checkpoint, frame.checkpoint_crc):
        crc = 0
        for at in range(0, count, PIECE):
            crc = zlib.crc32(file.read(min(PIECE, count - at)), crc)
        if crc != expected:
            return False
    return True


def _frame_after(file: BinaryIO, at: int, size: int) -> bool:
    """Whether a head lies anywhere behind a position (not memory-mapped: the file may shrink)."""
    while at < size:
        piece = _read(file, at, PIECE)
        hit = piece.find(MARK)
        if hit >= 0:
            if _head(file, at + hit, size) is not None:
                return True
            at += hit + 1
        else:
            at += max(1, len(piece) - len(MARK) + 1)
    return False


def _what(begin: bytes, size: int) -> str:
    """What a file is that is no journal of this format."""
    if size == 0:
        return "is empty: the run was killed as it began. Delete it and sample again."
    if begin == HDF5:
        return "is finished (netCDF), not under way: sm.resume goes further, sm.load reads it."
    if begin[:6] == SIGNATURE[:6] and len(begin) == len(SIGNATURE):
        return "is a run in another format: use the version of subsample_mcmc that wrote it."
    return (
        f"is not a run of subsample_mcmc (it begins with {begin!r}): give the file that "
        "sm.sample(store=...) wrote."
    )
