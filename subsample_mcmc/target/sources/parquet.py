"""Rows in files of Parquet, read by row groups in threads of this process; no cluster needed."""

import glob
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import warn
from subsample_mcmc.target.sources.arrow import declared, made_of, wanted_of
from subsample_mcmc.target.sources.local import LocalSource
from subsample_mcmc.target.sources.source import plural

ROW_GROUP = ", row group"
SETTLED = 2 * 10**9  # nanoseconds after which a file's time tells one change from the next
PART = 1 << 18  # rows: smaller row groups of a file are read together


@helpful
def parquet(path: Any, columns: Any = None) -> "ParquetSource":
    """Data in files of Parquet, for sm.Model(data=...): read in parts, never held in memory whole.

    path: of a file, or of a folder; or a pattern, "rows/*.parquet", whose files are read in the
        order of their names; or a list of them. Of other file systems, "s3://bucket/rows/".
        Names of folders in one that is given, "year=2020", are a column of numbers.
    columns: names of those that are read, or {name: column}; of several columns, a matrix is made:
        {"y": "y", "x": ["x0", "x1"]}. By default all. Only these are decoded. Numbers keep
        their type: float32 takes half the room of float64; of files that differ, the one that holds
        all. Lists of one length are matrices;
        dictionaries are codes of their labels, sorted: of ordered ones, too, which is warned of.

    Threads read row groups (best of 100,000 to 1,000,000 rows), as many at a time as there are
    cores; groups of which chains read single rows stay in memory, up to half a gigabyte.

    Example:
        >>> import pathlib, tempfile
        >>> import pyarrow, pyarrow.parquet
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> rng = np.random.default_rng(1)
        >>> for month in ("01", "02"):
        ...     table = pyarrow.table({"y": rng.normal(size=500), "x0": rng.normal(size=500),
        ...                            "x1": rng.normal(size=500), "day": np.arange(500)})
        ...     pyarrow.parquet.write_table(table, folder / f"{month}.parquet")
        >>> sm.parquet(folder / "*.parquet", columns={"y": "y", "x": ["x0", "x1"]})
        Parquet, 2 files, 1,000 rows, 2 columns
    """
    try:
        import pyarrow.dataset as files
    except ImportError:
        raise ImportError(
            "sm.parquet needs pyarrow: pip install 'subsample-mcmc[parquet]'."
        ) from None
    given = paths_of(path)
    found = files.dataset(given, format="parquet")
    if isinstance(given, str) and Path(given).is_dir():
        found = with_folders(found, given)
    return ParquetSource(found, columns)


def with_folders(dataset: Any, folder: str) -> Any:
    """The dataset, with names of folders below one, such as year=2020, as columns.

    Those that are whole numbers, and of which no file has a column itself.
    """
    if not any("=" in os.path.relpath(os.path.dirname(name), folder) for name in dataset.files):
        return dataset
    import pyarrow
    from pyarrow import dataset as files

    given = {"format": "parquet", "partition_base_dir": folder}
    try:
        every = files.dataset(folder, partitioning="hive", **given).partitioning.schema
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # a file has a column of that name
        return dataset
    own = {name for one in dataset.get_fragments() for name in one.physical_schema.names}
    fields = [f for f in every if f.name not in own and pyarrow.types.is_integer(f.type)]
    by_name = files.HivePartitioning(pyarrow.schema(fields))
    return files.dataset(folder, partitioning=by_name, **given) if fields else dataset


def paths_of(path: Any) -> Any:
    """What pyarrow is given: one path or address, or a list of files."""
    if isinstance(path, list | tuple):
        found: list[str] = []
        for one in path:
            part = paths_of(one)
            found += [part] if isinstance(part, str) else part
        if not found:
            raise ValueError("path=[] names no file.")
        return found
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path={path!r:.60}: give a path, a pattern, or a list of them.")
    text = os.fspath(path)
    if "://" in text:
        return text
    text = os.path.expanduser(text)
    if Path(text).exists():
        return text
    if not (matches := sorted(glob.glob(text, recursive=True))):
        raise FileNotFoundError(f"no file is there, or matches: {text}")
    return matches


class ParquetSource(LocalSource):
    """Fragments of a Dataset of pyarrow: row groups of Parquet, or whole files of other formats."""

    kind = "Parquet"

    def __init__(self, dataset: Any, columns: Any = None, threads: int | None = None):
        fragments = list(dataset.get_fragments())
        self.schema: Any = schema_of(dataset, fragments, columns)
        names = list(self.schema.names)
        self.wanted = wanted_of(columns, names, "dataset")
        self.fields = sorted({part for parts in self.wanted.values() for part in parts})
        parts: list[Any] = []
        self.places: list[str] = []
        lengths: list[int] | None = []
        self.files = 0
        for fragment in fragments:
            self.files += 1
            path = getattr(fragment, "path", "") or "in memory"
            if not hasattr(fragment, "row_groups"):
                parts.append(fragment)
                self.places.append(path)
                lengths = None
                continue
            for groups in together([group.num_rows for group in fragment.row_groups]):
                ids = [fragment.row_groups[i].id for i in groups]
                parts.append(fragment.subset(row_group_ids=ids))
                last = f"s {ids[0]} to {ids[-1]}" if len(ids) > 1 else f" {ids[0]}"
                self.places.append(f"{path}{ROW_GROUP}{last}")
                if lengths is not None:
                    lengths.append(sum(fragment.row_groups[i].num_rows for i in groups))
        self.filesystem: Any = getattr(dataset, "filesystem", None)
        self.written = {path: self.stamp(path) for path in getattr(dataset, "files", ())}
        self.opened = time.time_ns()
        loaders = [Decoded(self, fragment) for fragment in parts]
        kinds = {name: categories_of(dataset, name) for name in self.fields if self.coded(name)}
        super().__init__(loaders, declared(self.wanted, self.schema, kinds), lengths, threads)

    def coded(self, name: str) -> bool:
        """Does a column hold labels that have codes."""
        return hasattr(self.schema.field(name).type, "index_type")

    def stamp(self, path: str) -> tuple:
        """What differs after a file was written anew, though it may say so late."""
        found = self.filesystem.get_file_info(path)
        return found.size, found.mtime_ns

    def stamps(self) -> list[str | None]:
        """Sizes and times of files; none where one was written just before it was opened.

        A second change within the same tick of the clock would not show.
        """
        made = "" if self.read is LocalSource.read else None
        if made is None and hasattr(self.origin, "recipe"):
            made = self.origin.recipe()
        found: list[str | None] = []
        for place in self.places:
            size, time_written = self.written.get(place.partition(ROW_GROUP)[0], (None, None))
            known = size is not None and time_written is not None and made is not None
            settled = known and time_written < self.opened - SETTLED
            what = f"{place} {size} {time_written} {self.wanted} {made}"
            found.append(what if settled else None)
        return found

    def part_name(self, part: int) -> str:
        return f"part {part}: {self.places[part]}"

    def origins(self) -> str:
        return plural(self.files, "file")


class Decoded:
    """Reads the wanted columns of a fragment."""

    def __init__(self, source: ParquetSource, fragment: Any):
        self.source, self.fragment = source, fragment

    def __call__(self) -> Any:
        source = self.source
        try:
            table = self.fragment.to_table(
                columns=source.fields, schema=source.schema, use_threads=False
            )
        except OSError as error:
            path = getattr(self.fragment, "path", "")
            if path not in source.written or source.stamp(path) == source.written[path]:
                raise
            raise ValueError(
                f"rows changed between passes: {path} was written anew, and cannot be read as "
                "before. Give files that nobody writes."
            ) from error
        return made_of(table, source.columns, source.wanted)


def schema_of(dataset: Any, fragments: list, columns: Any) -> Any:
    """The types that columns have in all files: of numbers those that hold all of them.

    A dataset takes those of the first file, and others are cast to them: 7 to true, say. Refuses
    what is a number in some files only, and a column that some do not have.
    """
    schema = dataset.schema
    own = [(getattr(f, "path", "") or "in memory", f.physical_schema) for f in fragments]
    if columns is None:
        for path, one in own:
            if more := [name for name in one.names if name not in schema.names]:
                raise ValueError(
                    f"{path} has a column {more[0]!r}, and the first file has none: say which are "
                    "read, columns=[...], or write it to all files."
                )
        wanted = set(schema.names)
    else:
        every = [*schema.names, *(name for _, one in own for name in one.names)]
        made = wanted_of(columns, list(dict.fromkeys(every)), "dataset")
        wanted = {part for parts in made.values() for part in parts}
    in_files = {name for _, one in own for name in one.names}
    for name in sorted(wanted & in_files):  # others are of the folders' names
        if lacking := [path for path, one in own if name not in one.names]:
            raise ValueError(
                f"{lacking[0]} has no column {name!r}, which other files have: write it to all "
                "files, or give others, columns=[...]."
            )
        kinds = {path: one.field(name).type for path, one in own}
        at = schema.get_field_index(name)
        field = schema.field(at).with_type(common_type(name, kinds, schema.field(at).type))
        schema = schema.set(at, field)
    return schema


def common_type(name: str, kinds: dict[str, Any], declared: Any) -> Any:
    """The type of a column by its types in all files."""
    from pyarrow import from_numpy_dtype, types

    known = [(path, kind) for path, kind in kinds.items() if not types.is_null(kind)]
    found = {kind for _, kind in known}
    if len(found) < 2 or declared != known[0][1]:  # as somebody said who made the dataset
        return declared

    def is_number(kind: Any) -> bool:
        return types.is_integer(kind) or types.is_floating(kind)

    if all(map(is_number, found)):
        return from_numpy_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in found)))
    if any(is_number(kind) or types.is_boolean(kind) or types.is_nested(kind) for kind in found):
        (first, kind), (path, other) = known[0], next(one for one in known if one[1] != known[0][1])
        raise TypeError(
            f"data {name} is a column of type {kind} in {first}, and {other} in {path}: write it "
            "as numbers of one type to all files, or leave it out, columns=[...]."
        )
    return declared


def together(rows: list[int]) -> list[list[int]]:
    """Numbers of row groups that are read together: next to each other, PART rows if they fit."""
    runs: list[list[int]] = []
    total = 0
    for i, count in enumerate(rows):
        if not runs or total + count > PART:
            runs.append([])
            total = 0
        runs[-1].append(i)
        total += count
    return runs


def categories_of(dataset: Any, name: str) -> tuple:
    """The labels of a column, sorted: of all its rows, which are read for it.

    An order of their own is lost by that, which is said: pandas counts by it.
    """
    found: set = set()
    turned: list = []
    for batch in dataset.to_batches(columns=[name]):
        labels = [label for label in batch.column(0).dictionary.to_pylist() if label is not None]
        found |= set(labels)
        turned = turned or (labels if labels != sorted(labels) else [])
    made = tuple(sorted(found))
    if turned and dataset.schema.field(name).type.ordered:
        warn(
            f"data {name} has labels in an order of their own, {' < '.join(map(str, turned[:5]))}, "
            "and their codes here are those of the labels sorted: "
            f"{', '.join(f'{label} {code}' for code, label in enumerate(made[:5]))}. Where the "
            f"order matters, write a column of numbers, such as df[{name!r}].cat.codes."
        )
    return made
