"""A finished run as netCDF4, which arviz, xarray and ncdump read: one variable per block.

Groups as arviz wants them: /posterior has a variable per block, /sample_stats and /decisions have
one per statistic, named kernel_field, all with dimensions (chain, draw, ...). /subsample_mcmc holds
what else is needed to go on: the header as JSON, the checkpoints as bytes, the seconds. Values are
stored as they are, bit for bit, and rows are written and read a slice at a time, so memory stays
small whatever the number of draws.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import StoreError
from subsample_mcmc.runs.store.frames import MANY, DrawnRows, StoredRun
from subsample_mcmc.runs.store.padded import as_drawn, as_seen, padded_in, padded_thinned
from subsample_mcmc.runs.store.thinned import ThinnedBlock, refuse_names, thinned_in
from subsample_mcmc.target.axes import Axes
from subsample_mcmc.target.layout import DECISIONS, Layout

OURS = "subsample_mcmc"  # the group that says that we wrote the file
HELD = "values_of_components_not_in_use"  # ... where draws have nan for them
FORMAT = 1
CHUNK = 2**18  # bytes of a variable that are stored together


class StoredVariable(NamedTuple):
    """Where one netCDF variable lies in the flat arrays."""

    group: str
    name: str
    array: str  # "ints", "floats" or "words"
    start: int
    shape: tuple[int, ...]  # of a draw
    kind: str  # "<i8" or "<f8"
    axes: tuple[str, ...] = ()  # names of its axes

    @property
    def length(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def dimensions(self) -> tuple[str, ...]:
        return "chain", "draw", *self.axes

    def chunk(self, draws: int) -> int:
        """How many draws of a chain are stored together."""
        return max(1, min(draws, CHUNK // (8 * self.length)))

    def take(self, rows: DrawnRows) -> np.ndarray:
        """The values of some draws, (draws, *shape)."""
        part = rows[self.array][:, self.start : self.start + self.length]
        return np.ascontiguousarray(part).view(self.kind).reshape(-1, *self.shape)

    def put(self, rows: DrawnRows, values: np.ndarray) -> None:
        """The inverse of take: values go to their place in rows."""
        target = rows[self.array]
        flat = np.ascontiguousarray(values, self.kind).view(target.dtype)
        target[:, self.start : self.start + self.length] = flat.reshape(len(target), self.length)


def empty(layout: Layout, draws: int) -> DrawnRows:
    """Arrays for some draws of a chain, to be filled."""
    return {
        "ints": np.empty((draws, layout.ints), np.int64),
        "floats": np.empty((draws, layout.floats), np.float64),
        "words": np.empty((draws, layout.words), np.int64),
    }


def variables(layout: Layout, axes: Axes | None = None) -> list[StoredVariable]:
    """Every variable of a file, under the names that Trace.to_arviz gives them."""
    found: list[StoredVariable] = []
    axes = axes or Axes()
    dims = {"chain", "draw"}
    taken = set()
    for name, discrete, shape, start in layout.blocks:
        array, kind = ("ints", "<i8") if discrete else ("floats", "<f8")
        own, place = axes.of(name, len(shape)), ("posterior", name.replace("/", "|"))
        others = {n for _, n in taken}
        if place in taken or place[1] in {*dims, *own} or {*own} & others or (
            name not in axes.dims and {*own} & dims
        ):  # fmt: skip
            raise StoreError(
                f"Block {name!r} cannot be stored: netCDF uses each name once, also `chain`, "
                "`draw` and `<block>_dim_<axis>`, its names of dimensions. Rename the block."
            )
        taken.add(place)
        dims |= {*own}
        found.append(StoredVariable(*place, array, start, shape, kind, own))
    for kernel, field, kind, word in layout.columns:
        group = "decisions" if field in DECISIONS else "sample_stats"
        name = f"{kernel}_{field}".replace("/", "|")  # netCDF takes a slash for a group
        while (group, name) in taken:  # kernels "a" and "a_b" with fields "b_c" and "c"
            name += "_"
        taken.add((group, name))
        found.append(StoredVariable(group, name, "words", word, (), f"<{kind}"))
    # Words that no statistic names are kept too: what is read back is all that was stored.
    for word in sorted(set(range(layout.words)) - {column.word for column in layout.columns}):
        found.append(StoredVariable(OURS, f"word_{word}", "words", word, (), "<i8"))
    # A block without elements has no values to store, and netCDF takes length 0 for unlimited.
    return [variable for variable in found if variable.length]


def refuse_if_unwritable(meta: dict[str, Any]) -> None:
    """Raises now what would otherwise be raised after hours of sampling, when the file is made."""
    variables(Layout.from_json(meta["layout"]), axes_in(meta))
    refuse_names(thinned_in(meta), axes_in(meta))
    refuse_without_libraries()


def refuse_without_libraries() -> None:
    """Raises if what writes netCDF is not installed."""
    try:
        import h5netcdf  # noqa: F401
        import h5py  # noqa: F401, h5netcdf does not require it, and cannot write without it
    except ImportError as error:
        raise StoreError(
            f"A store ends as netCDF, and {error.name} is not installed: pip install h5netcdf h5py."
        ) from error


def write(path: Path, run: StoredRun) -> None:
    """Writes a whole file; all chains of the run must have the same number of draws."""
    import h5netcdf

    with ExitStack() as stack:
        place = stack.enter_context(path.open("w+b"))
        # Twice: HDF5 creates in empty files only, and must not even begin if there is no room.
        _reserve(place, space(run))
        place.truncate(0)
        file = stack.enter_context(h5netcdf.File(place, "w", invalid_netcdf=False))
        _reserve(place, space(run))  # HDF5 gives back at its end what it did not need
        for name, value in attributes(run.meta, np.array(run.seconds)).items():
            file.attrs[name] = value
        axes = axes_in(run.meta)
        listed = variables(run.layout, axes)
        created = [
            _create(file, variable, len(run.draws), run.draws[0], axes) for variable in listed
        ]
        thinned = thinned_in(run.meta)
        kept = [
            _create_thinned(file, block, len(run.draws), run.draws[0], axes) for block in thinned
        ]
        padded, held = padded_in(run.meta, run.layout), np.full(run.layout.floats, np.nan)
        shorter = padded_thinned(run.meta, run.layout, thinned)
        stood = [np.full(block.length, np.nan) for block in thinned]
        for chain in range(len(run.draws)):
            at = 0
            for drawn in run.rows(chain):
                rows = as_seen(padded, drawn, held)
                end = at + len(rows["words"])
                for variable, dataset in zip(listed, created, strict=True):
                    dataset[chain, at:end] = variable.take(rows)
                for i, (block, dataset) in enumerate(zip(thinned, kept, strict=True)):
                    part = {"ints": rows["ints"][block.rows(at)], "floats": rows["thinned"][i]}
                    shaped = as_seen(shorter[i], part, stood[i])["floats"].reshape(-1, *block.shape)
                    dataset[chain, block.before(at) : block.before(end)] = shaped
                at = end
        group = file.groups.get(OURS) or file.create_group(OURS)
        group.attrs["format"] = FORMAT
        group.attrs["meta"] = json.dumps(run.meta)
        group.attrs["draws"] = run.draws[0]
        ours = {"seconds": np.array(run.seconds, "<f8")}
        if padded:
            ours[HELD] = held
        ours |= {f"{HELD}_{i}": stood[i] for i in range(len(thinned)) if shorter[i]}
        for chain in range(len(run.draws)):
            ours[f"checkpoint_{chain}"] = np.frombuffer(run.checkpoint(chain), "u1")
        for name, values in ours.items():
            if len(values):
                group.dimensions[f"{name}_dim_0"] = len(values)
                group.create_variable(name, (f"{name}_dim_0",), values.dtype, data=values)


def attributes(meta: dict[str, Any], seconds: np.ndarray) -> dict[str, str | float]:
    """What ArviZ and a reader of the file should know of a run."""
    text = meta.get("describe") or ", ".join(k["label"] for k in meta.get("kernels", ()))
    found: dict[str, str | float] = {
        "inference_library": "subsample_mcmc",
        "inference_library_version": str(meta.get("version")),
        "version": str(meta.get("version")),
        "seed": str(meta.get("seed")),  # text: seeds may be wider than netCDF's integers
        "kernels": text,
        "guarantee": str(meta.get("guarantee")),
        "sampling_time": wall(seconds, meta.get("cores")),
    }
    if meta.get("law"):
        found["law"] = meta["law"]  # not the posterior, as the name of the group has it
    if blocks := tilted(meta):
        found["tilted"] = ", ".join(blocks)
    if labels := tempered(meta):
        found["tempered"] = ", ".join(labels)
    return found


def wall(seconds: np.ndarray, cores: int | None) -> float:
    """About how long chains ran side by side on some cores; None: on as many as they are."""
    together = float(np.sum(seconds)) / (cores or max(len(seconds), 1))
    return max(together, float(max(seconds, default=0.0)))


def axes_in(meta: dict[str, Any]) -> Axes:
    """Names of blocks' axes; runs that were stored before there were any have none."""
    return Axes.from_json(meta.get("axes") or {})


def tilted(meta: dict[str, Any]) -> list[str]:
    """Blocks whose prior sm.WangLandau tilted."""
    return [kernel["block"] for kernel in meta.get("kernels", ()) if kernel.get("block")]


def tempered(meta: dict[str, Any]) -> list[str]:
    """Kernels that drew from other laws than the posterior's: their temperature was not 1."""
    return [kernel["label"] for kernel in meta.get("kernels", ()) if kernel.get("temperature")]


def unadjusted(meta: dict[str, Any]) -> list[str]:
    """Kernels without a decision that makes their draws the posterior's."""
    kernels = meta.get("kernels", ())
    return [kernel["label"] for kernel in kernels if kernel.get("guarantee") == "unadjusted"]


def _create_thinned(file: Any, block: ThinnedBlock, chains: int, draws: int, axes: Axes) -> Any:
    """An empty variable for the kept draws of a block, whose numbers are those of draws."""
    name = block.name.replace("/", "|")
    variable = StoredVariable(
        block.group, name, "", 0, block.shape, block.kind, axes.of(block.name, len(block.shape))
    )
    return _create(file, variable, chains, block.before(draws), axes, block.every)


def _create(
    file: Any, variable: StoredVariable, chains: int, draws: int, axes: Axes, every: int = 1
) -> Any:  # fmt: skip
    """An empty variable, with its dimensions and their coordinates; every: of draws, one."""
    group = file.groups.get(variable.group) or file.create_group(variable.group)
    sizes = zip(variable.dimensions, (chains, draws, *variable.shape), strict=True)
    for name, size in sizes:
        if name not in group.dimensions:
            group.dimensions[name] = size
            plain = np.arange(size) * (every if name == "draw" else 1)
            values, attrs = labels_in_file(axes.coords.get(name, plain))
            made = group.create_variable(name, (name,), values.dtype, data=values)
            for key, value in attrs.items():
                made.attrs[key] = value
    chunks = (1, variable.chunk(draws), *variable.shape)
    return group.create_variable(variable.name, variable.dimensions, variable.kind, chunks=chunks)


def labels_in_file(values: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
    """Labels along a dimension as netCDF has them, and what says that they are times."""
    import h5py

    if values.dtype.kind == "U":
        return values.astype(h5py.string_dtype()), {}
    if values.dtype.kind == "M":
        whole = np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D", "h", "m", "s")
        unit, code = ("seconds", "s") if whole else ("nanoseconds", "ns")
        units = {"units": f"{unit} since 1970-01-01", "calendar": "proleptic_gregorian"}
        return values.astype(f"M8[{code}]").astype("<i8"), units
    return values.astype("<f8" if values.dtype.kind == "f" else "<i8"), {}


def space(run: StoredRun) -> int:
    """Bytes that suffice for a file: the values, and generously what HDF5 adds to them."""
    chains, draws = len(run.draws), run.draws[0]
    total = (
        2**16 + 2 * len(json.dumps(run.meta)) + sum(len(run.checkpoint(c)) for c in range(chains))
    )
    axes = axes_in(run.meta)
    total += sum(64 * len(labels) for labels in axes.coords.values())  # texts have a heap of theirs
    blocks = thinned_in(run.meta)
    total += sum(
        8 * chains * (block.before(draws) + 1) * block.length + CHUNK * chains + 2**16
        for block in blocks
    )
    for variable in variables(run.layout, axes):
        chunk, dimensions = variable.chunk(draws), len(variable.dimensions)
        chunks = chains * -(-draws // chunk)
        total += chunks * (8 * variable.length * chunk + 64 * (dimensions + 1))
        total += 8 * (chains + draws + sum(variable.shape)) + 2**13 * (dimensions + 1)
    return total


def _reserve(file: Any, size: int) -> None:
    """Takes disk space before HDF5 needs it: HDF5 crashes the process when a disk is full."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}:
            raise


class Finished:
    """A file that is open for reading (as HDF5: looking names up in netCDF is slow)."""

    def __init__(self, file: Any, path: Path):
        group = file.get(OURS)
        if group is None or "meta" not in group.attrs:
            raise StoreError(
                f"{path} is netCDF or HDF5, but not a run of subsample_mcmc: there is no "
                f"/{OURS} in it. Give the file that sm.sample(store=...) wrote; arviz.from_netcdf "
                "and xarray.open_dataset read others."
            )
        if group.attrs["format"] != FORMAT:
            raise StoreError(
                f"{path} is written in format {group.attrs['format']}, and this version of "
                f"subsample_mcmc reads format {FORMAT}: use the version that wrote the file."
            )
        self._file, self._group = file, group
        self.meta: dict[str, Any] = json.loads(group.attrs["meta"])
        self.layout = Layout.from_json(self.meta["layout"])
        self.seconds = [float(s) for s in group["seconds"][...]]
        self.draws = [int(np.ravel(group.attrs["draws"])[0])] * len(self.seconds)

    def checkpoint(self, chain: int) -> bytes:
        """See StoredRun."""
        name = f"checkpoint_{chain}"
        return self._group[name][...].tobytes() if name in self._group else b""

    def _stored(self, variable: StoredVariable) -> Any:
        """Three statistics of decisions stood in sample_stats once."""
        found = self._file.get(f"{variable.group}/{variable.name}")
        return self._file[f"sample_stats/{variable.name}"] if found is None else found

    def rows(self, chain: int) -> Iterator[DrawnRows]:
        """See StoredRun."""
        axes = axes_in(self.meta)
        stored = [(v, self._stored(v)) for v in variables(self.layout, axes)]
        thinned = thinned_in(self.meta)
        shorter = padded_thinned(self.meta, self.layout, thinned)
        width = 8 * (self.layout.ints + self.layout.floats + self.layout.words)
        step = max(1, MANY // max(1, width))
        for start in range(0, self.draws[chain], step):
            stop = min(start + step, self.draws[chain])
            rows = empty(self.layout, stop - start)
            for variable, dataset in stored:
                variable.put(rows, dataset[chain, start:stop])
            if HELD in self._group:  # runs that were stored before have their values there
                as_drawn(padded_in(self.meta, self.layout), rows, self._group[HELD][...])
            rows["thinned"] = tuple(
                self._file[f"{block.group}/{block.name.replace('/', '|')}"][
                    chain, block.before(start) : block.before(stop)
                ].astype(block.kind[1:]).reshape(-1, block.length)
                for block in thinned
            )  # fmt: skip
            for i, block in enumerate(thinned):
                if shorter[i] and f"{HELD}_{i}" in self._group:
                    part = {"ints": rows["ints"][block.rows(start)], "floats": rows["thinned"][i]}
                    as_drawn(shorter[i], part, self._group[f"{HELD}_{i}"][...])
            yield rows


@contextmanager
def opened(path: Path) -> Iterator[Finished]:
    """A finished file, open for reading."""
    import h5py

    try:
        file = h5py.File(path, "r", rdcc_nbytes=0)  # read once, in order: a cache only takes memory
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(
            f"{path} begins like netCDF but cannot be opened ({error}): it is damaged or not "
            "whole. Take it from a backup or sample again."
        ) from error
    with file:
        yield Finished(file, path)
