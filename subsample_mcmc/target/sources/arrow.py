"""Columns of tables of pyarrow as arrays of numbers, with names and shapes of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from subsample_mcmc.numerics.records import similar
from subsample_mcmc.target.data import refuse_names
from subsample_mcmc.target.sources.parts import MissingError, Parcel, SourceColumn, as_declared

Wanted = dict[str, list[str]]  # of which columns of a table a column is made: several: a matrix


def wanted_of(given: Any, names: Sequence[str], what: str) -> Wanted:
    """Which columns are read, as said by a list of names, or {name: name, or several}."""
    if given is None:
        given = list(names)
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Mapping):
        given = {name: name for name in given}
    wanted = {n: [v] if isinstance(v, str) else list(v) for n, v in given.items()}
    refuse_names(list(wanted), what)
    for parts in wanted.values():
        for part in parts:
            if part not in names:
                near = similar(part, tuple(names))
                raise ValueError(
                    f"columns= names {part!r}, which is no column of the {what}, which has "
                    f"{', '.join(map(str, names))}.{near}"
                )
    if not wanted or not all(wanted.values()):
        raise ValueError(f"columns={given!r} names no column of the {what}.")
    return wanted


def declared(wanted: Wanted, schema: Any, categories: dict[str, tuple]) -> dict[str, SourceColumn]:
    """What the wanted columns hold, by the schema of the table."""
    found = {}
    for name, parts in wanted.items():
        given = {part: of_type(schema.field(part).type, part, categories) for part in parts}
        one = given[parts[0]]
        if len(parts) > 1:
            for part, column in given.items():
                if column.shape or column.categories is not None:
                    raise ValueError(
                        f"columns={{{name!r}: {parts}}}: a matrix is made of columns of numbers, "
                        f"and {part!r} is {schema.field(part).type}."
                    )
            kind = np.result_type(*(column.dtype for column in given.values()))
            one = SourceColumn(np.dtype(kind), (len(parts),))
        found[name] = one
    return found


def of_type(kind: Any, name: str, categories: dict[str, tuple]) -> SourceColumn:
    """What a column of a type of pyarrow holds; refuses what is no number."""
    from pyarrow import types

    if hasattr(kind, "shape") and hasattr(kind, "value_type") and None not in kind.shape:
        return SourceColumn(of_type(kind.value_type, name, {}).dtype, tuple(kind.shape))  # tensors
    if types.is_fixed_size_list(kind):
        inner = of_type(kind.value_type, name, {})
        return SourceColumn(inner.dtype, (kind.list_size, *inner.shape))
    if types.is_dictionary(kind) and name in categories:
        return SourceColumn(np.dtype(np.int64), (), categories[name])
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return SourceColumn(np.dtype(kind.to_pandas_dtype()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        advice = f"give codes, table[{name!r}].dictionary_encode(), pd.factorize(df[{name!r}])[0],"
    elif types.is_temporal(kind):
        advice = "give numbers, such as days since the first day,"
    elif types.is_list(kind) or types.is_large_list(kind):
        advice = "give lists of one length, pyarrow.list_(pyarrow.float32(), 8),"
    else:
        advice = "give numbers"
    raise TypeError(
        f"data {name} is a column of type {kind}: {advice} or leave it out: columns=['y', ...] "
        "says which are read."
    )


def of_table(data: Any, parcel: Parcel) -> dict[str, np.ndarray]:
    """The columns of a table of pyarrow; parcel.origin says of what they are made."""
    return made_of(data, parcel.columns, parcel.origin)


def made_of(data: Any, columns: dict[str, SourceColumn], wanted: Wanted) -> dict[str, np.ndarray]:
    """The same of columns that are wanted."""
    found = {}
    for name, parts in wanted.items():
        column = columns[name]
        if len(parts) == 1:
            array = of_chunks(data.column(parts[0]), name, column)
        else:
            array = np.empty((data.num_rows, len(parts)), column.dtype)
            for j, part in enumerate(parts):
                array[:, j] = of_chunks(data.column(part), part, SourceColumn(column.dtype), True)
        found[name] = as_declared(array, name, column)
    return found


def of_chunks(given: Any, name: str, column: SourceColumn, cast: bool = False) -> np.ndarray:
    """A column of a table as an array. Nulls of floats are NaN, others are refused."""
    if column.categories is not None:
        return codes_of(given, name, column.categories)
    chunks = given.chunks if hasattr(given, "chunks") else [given]
    if column.shape:
        refuse_nulls(given, name)
        arrays = [flat(chunk, name).reshape(len(chunk), *column.shape) for chunk in chunks]
    else:
        if column.dtype.kind != "f":
            refuse_nulls(given, name)
        arrays = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    whole = arrays[0] if len(arrays) == 1 else np.concatenate(
        arrays or [np.zeros(0, column.dtype)]
    )  # fmt: skip
    return whole.astype(column.dtype, casting="safe", copy=False) if cast else whole


def flat(chunk: Any, name: str) -> np.ndarray:
    """All numbers of a chunk of lists of one length, or of tensors of pyarrow or ray."""
    if hasattr(chunk, "to_numpy_ndarray"):
        return chunk.to_numpy_ndarray()
    if not hasattr(chunk.type, "list_size"):
        return chunk.to_numpy(zero_copy_only=False)
    while hasattr(chunk.type, "list_size"):
        refuse_nulls(chunk, name)
        chunk = chunk.flatten()
    if chunk.type.to_pandas_dtype() not in (np.float16, np.float32, np.float64):
        refuse_nulls(chunk, name)
    return chunk.to_numpy(zero_copy_only=False)


def codes_of(given: Any, name: str, categories: tuple) -> np.ndarray:
    """Codes of a column's labels, in the order of the categories."""
    refuse_nulls(given, name)
    place = {label: code for code, label in enumerate(categories)}
    codes = []
    for chunk in given.chunks if hasattr(given, "chunks") else [given]:
        chunk = chunk if hasattr(chunk, "dictionary") else chunk.dictionary_encode()
        labels = chunk.dictionary.to_pylist()
        unknown = [label for label in labels if label not in place]
        if unknown and (used := set(chunk.unique().dictionary_decode().to_pylist()) & {*unknown}):
            raise ValueError(
                f"data {name} has the label {next(iter(used))!r}, which is none of its categories."
            )
        table = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
        codes.append(table[chunk.indices.to_numpy()] if len(chunk) else np.zeros(0, np.int64))
    return np.concatenate(codes) if codes else np.zeros(0, np.int64)


def refuse_nulls(given: Any, name: str) -> None:
    """Refuse nulls, by the first row that has one."""
    if given.null_count:
        gone = np.asarray(given.is_null())
        raise MissingError(name, "null", int(gone.sum()), (int(np.argmax(gone)),))
