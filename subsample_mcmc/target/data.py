"""Data frames and their columns as arrays, without importing the library they come from.

Whatever has `.columns` and `.to_numpy` counts as a data frame, of pandas or polars; Tables of
pyarrow, Datasets of xarray and structured arrays are dicts of their columns. Whatever has `.isna`
is a column of pandas; numpy itself reads columns of other libraries. Rows are taken by position; of
indices see row_labels.py. A column that is a contiguous array of numbers is not copied. Missing
values (NaN, None, NaT, nulls, masks) are refused where data come in, and so are infinite ones: a
compiled function would add them up.
"""

from typing import Any

import numpy as np

COARSE = 0.01  # of a standard deviation: a float32 that steps by more blurs sums of differences
LOOKED = 1024  # numbers of a column that tell how coarse it is
WHOLE = 2.0**24  # up to here float32 holds every whole number
DIGITS = 2**53  # up to here a float holds every whole number
COLUMNS = 64  # of a matrix that are looked at
SHOWN = 4  # columns of a datum in a message
PIECE = 1 << 18  # numbers that are looked at together: they stay in the cache
MISSING = ("refuse", "infinite", "allow")  # what to do with missing values, and infinite ones


def is_frame(data: Any) -> bool:
    """Is it a data frame."""
    return hasattr(data, "to_numpy") and hasattr(data, "columns")


def refuse_elsewhere(value: Any, name: str) -> None:
    """Refuse what is read in parts from elsewhere, such as arrays of dask, zarr or h5py.

    numpy would read all of it into memory, without a word.
    """
    kind = type(value)
    if hasattr(kind, "__dask_graph__"):
        away, load = is_collection(value), ".compute()"
    elif hasattr(kind, "collect") and hasattr(kind, "columns"):  # a lazy frame of polars, spark's
        away, load = not hasattr(kind, "to_numpy"), ".collect()"
    else:
        away, load = hasattr(kind, "chunks") and hasattr(kind, "dtype"), "[:]"
    if not away:
        return
    library = kind.__module__.partition(".")[0]
    size = size_of(value)
    raise TypeError(
        f"{name} is {library}'s {kind.__name__}{size and ', ' + size}: chains read rows at "
        "random, so data must be in memory, or in a file that numpy maps. Read it yourself, "
        f"{name.rpartition(' ')[2]}{load}, a sample of its rows if that is too much, or write it "
        "to files once, np.save, and give np.load(path, mmap_mode='r')."
    )


def is_collection(value: Any) -> bool:
    """Is it a collection of dask, or an array of xarray that is not in memory."""
    return hasattr(type(value), "__dask_graph__") and value.__dask_graph__() is not None


def size_of(value: Any) -> str:
    """Shape and size of what is elsewhere, as far as it is known, in words."""
    shape = getattr(value, "shape", ())
    try:
        size = int(np.prod([int(n) for n in shape])) * np.dtype(value.dtype).itemsize
    except (TypeError, ValueError, AttributeError):
        return ""
    return f"{tuple(shape)} of {value.dtype}, {size_in_words(size)}"


def size_in_words(size: int) -> str:
    """Bytes, in words."""
    unit, power = next(((u, p) for u, p in (("GB", 9), ("MB", 6)) if size >= 10**p), ("kB", 3))
    return f"{size / 10**power:.3g} {unit}"


def as_fields(data: Any) -> Any:
    """Columns by name, of a dict or a named tuple; anything else as it is."""
    return data._asdict() if hasattr(data, "_asdict") else data


def by_name(data: Any) -> Any:
    """A data frame, or another table, as a dict of its columns; anything else as it is."""
    refuse_elsewhere(data, "data")
    if isinstance(data, np.ndarray) and data.dtype.names:  # of records
        if data.ndim != 1:
            raise ValueError(f"data has shape {data.shape}: give one record a datum, data.ravel().")
        refuse_names(list(data.dtype.names), "structured array")
        return {name: side_by_side(data[name]) for name in data.dtype.names}
    if hasattr(data, "data_vars") and hasattr(data, "sizes"):
        return by_rows(data)
    if hasattr(data, "column_names") and callable(getattr(data, "column", None)):  # of pyarrow
        refuse_names(list(data.column_names), "Table")
        return {name: data.column(name) for name in data.column_names}
    if not is_frame(data):
        return data
    refuse_names(list(data.columns), "data frame")
    return {name: data[name] for name in data.columns}


def side_by_side(column: np.ndarray) -> Any:
    """A field of records as an array of its own: compiled code reads that many times as fast."""
    return column if isinstance(column, np.ma.MaskedArray) else np.ascontiguousarray(column)


def by_rows(data: Any) -> dict[str, Any]:
    """The variables of a Dataset of xarray, which share their first axis, or are numbers."""
    columns = {name: data[name] for name in data.data_vars}
    refuse_names(list(columns), "Dataset")
    first = {name: column.dims[0] for name, column in columns.items() if column.dims}
    if len(set(first.values())) > 1:
        told = ", ".join(f"{name} ({axis})" for name, axis in first.items())
        raise ValueError(
            f"the Dataset's variables have different first axes, {told}: give those of one, the "
            'data\'s, ds[["y", "x"]], with this axis first, ds.transpose("obs", ...).'
        )
    return {name: column if column.dims else column.item() for name, column in columns.items()}


def refuse_names(names: list[Any], what: str) -> None:
    """Refuse columns that cannot be read as data.name."""
    for name in names:
        if isinstance(name, tuple):
            raise ValueError(
                f"the {what} has columns of several levels, such as {name!r}, which cannot be "
                "read as data.name: give each one name, df.columns = ['y', 'x', ...]."
            )
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(
                f"the {what} has a column {name!r}, which cannot be read as data.name: rename "
                f"it, df.rename(columns={{{name!r}: 'x1'}}), or give the columns that are needed, "
                "df[['y', 'x']]."
            )
        if names.count(name) > 1:
            raise ValueError(
                f"the {what} has {names.count(name)} columns {name!r}: rename or drop all but one."
            )


def coded(data: Any, touches: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Data whose categorical columns that say a block's sites are codes, and their categories.

    Elsewhere a function would read the codes as numbers: there they are refused.
    """
    data = by_name(data)
    fields = as_fields(data)
    categories = {}
    for given in (touches or {}).values():
        for name in given if isinstance(given, list | tuple) else (given,):
            if not isinstance(name, str) or name in categories:
                continue
            value: Any = fields.get(name)
            if (others := labels_of(value)) is not None:
                kinds, labels = others
                categories[name] = np.array(kinds)
                codes = {label: code for code, label in enumerate(kinds)}
                gone = np.array([label not in codes for label in labels])
                if told := absent(gone):
                    raise ValueError(
                        f"data {name}, which says the site of each datum, has {told}: drop these "
                        "rows before."
                    )
                found = np.array([codes[label] for label in labels], dtype=np.int64)
                fields = fields | {name: found}
                continue
            if not hasattr(getattr(value, "dtype", None), "categories"):
                continue
            if not hasattr(value, "codes") and not hasattr(value, "cat"):
                continue
            if told := absent(value.isna()):
                raise ValueError(
                    f"data {name}, which says the site of each datum, has {told}: drop these rows "
                    f"before, df.dropna(subset=[{name!r}])."
                )
            found = value.codes if hasattr(value, "codes") else value.cat.codes
            categories[name] = np.asarray(value.dtype.categories)
            fields = fields | {name: found.astype(np.int64)}
        names = given if isinstance(given, list | tuple) else (given,)
        known = [(n, categories[n]) for n in names if isinstance(n, str) and n in categories]
        for name, found in known[1:]:  # codes of two lists would be sites of one block
            if not np.array_equal(found, known[0][1]):
                raise ValueError(
                    f"data {name} has other categories, or in another order, than {known[0][0]}, "
                    "and both say sites of one block: give both the same, kind = "
                    f"pd.CategoricalDtype(sorted(set(df.{known[0][0]}) | set(df.{name}))), "
                    f"df.{name}.astype(kind)."
                )
    if not categories:
        return data, categories
    return (type(data)(**fields) if hasattr(data, "_asdict") else fields), categories


def labels_of(column: Any) -> tuple[list[Any], list[Any]] | None:
    """(categories, label of each row) of a categorical column of polars or pyarrow; else None.

    Categories that have no order of their own are sorted.
    """
    if hasattr(getattr(column, "type", None), "index_type"):  # pyarrow's dictionaries
        labels = column.to_pylist()
    elif hasattr(column, "to_physical") and str(column.dtype).startswith(("Categorical", "Enum")):
        labels = column.to_list()
        if hasattr(column.dtype, "categories") and str(column.dtype).startswith("Enum"):
            return list(column.dtype.categories), labels
    else:
        return None
    return sorted({label for label in labels if label is not None}), labels


def columns_of(data: Any) -> dict[str, list[str]]:
    """Names of the columns of each matrix that has some."""
    fields = as_fields(data)
    found = {name: names_of_columns(value) for name, value in fields.items()}
    return {name: names for name, names in found.items() if names is not None}


def names_of_columns(matrix: Any) -> list[str] | None:
    """Of a data frame, a Table of pyarrow, an array of xarray; None: it has none."""
    if is_frame(matrix):
        return [str(name) for name in matrix.columns]
    if hasattr(matrix, "column_names") and callable(getattr(matrix, "column", None)):
        return [str(name) for name in matrix.column_names]
    if hasattr(matrix, "indexes") and len(getattr(matrix, "dims", ())) == 2:
        index = matrix.indexes.get(matrix.dims[1])
        return None if index is None else [str(name) for name in index]
    return None


def in_order(name: str, matrix: Any, terms: list[str]) -> Any:
    """The columns of a matrix that has names for them, in the order in which a model has them."""
    names = names_of_columns(matrix)
    if names is None or names == terms:
        return matrix
    if sorted(names) != sorted(terms) or len(set(names)) < len(names):
        if names == [str(j) for j in range(len(terms))]:
            return matrix  # numbers stand where nobody gave names
        raise ValueError(f"data {name} has the columns {names}: the model was given {terms}.")
    order = [names.index(term) for term in terms]
    if hasattr(matrix, "column_names"):
        return matrix.select(order)
    return matrix[[matrix.columns[j] for j in order]] if is_frame(matrix) else matrix[:, order]


def not_masked(
    value: Any, name: str, use: str = "fill it in, x.filled(...), or leave it out."
) -> Any:
    """What was given; refuses what is masked: numpy would read what stands below the mask."""
    if isinstance(value, np.ma.MaskedArray) and (gone := absent(np.ma.getmaskarray(value))):
        raise ValueError(f"{name} is a masked array with {gone}: {use}")
    return value


def array_of(value: Any, name: str) -> np.ndarray:
    """What numpy makes of a value; refuses lists of several lengths."""
    try:
        return np.asanyarray(value)
    except ValueError as error:
        raise ValueError(f"data {name} is no array: {error}") from error


def as_array(value: Any, name: str, missing: str = "refuse") -> np.ndarray:
    """What a user gave as an array; refuses columns that are no numbers, by name.

    missing="allow": nulls of a column of pandas become NaN.
    """
    if value is None:
        raise TypeError(f"data {name} is None: give an array.")
    refuse_elsewhere(value, f"data {name}")
    kind = getattr(value, "dtype", None)
    if is_frame(value):
        return matrix_of(value, name, missing)
    if isinstance(value, np.ma.MaskedArray):
        use = "drop these rows in all arrays before, or fill them in, x.filled(...); NaN are read "
        return np.asarray(not_masked(value, f"data {name}", f"{use}with missing='allow'."))
    if isinstance(value, np.ndarray) or not hasattr(value, "isna"):  # pandas alone has it
        found = array_of(value, name)
        return found if found.flags.aligned else found.copy()  # a field of packed records
    told = refused(value, kind, name)
    if told:
        raise told
    nulls = absent(value.isna()) if not isinstance(kind, np.dtype) else ""
    if nulls and missing == "allow":
        return np.ascontiguousarray(value.to_numpy(dtype=float, na_value=np.nan))
    if nulls:
        raise ValueError(
            f"data {name} ({kind}) has {nulls}: drop these rows before, "
            f"df.dropna(subset=[{name!r}]), or fill them in."
        )
    found = value.to_numpy(dtype=getattr(kind, "numpy_dtype", None))
    return np.ascontiguousarray(found) if found.ndim == 1 else found


def absent(gone: Any) -> str:
    """How many values are missing and where the first stands, in words; nothing if none is."""
    gone = np.asarray(gone)
    if not gone.any():
        return ""
    count, (row, *column) = int(gone.sum()), np.unravel_index(int(np.argmax(gone)), gone.shape)
    place = f"row {row}" + "".join(f", column {j}" for j in column)
    return f"{count:,} missing values, the first in {place}" if count > 1 else (
        f"1 missing value, in {place}"
    )  # fmt: skip


def absent_objects(array: np.ndarray) -> str:
    """The same of an array of objects or of times: None, NaN, NaT, pandas.NA."""
    import pandas

    return absent(pandas.isna(array)) if array.dtype.kind in "OmM" else ""


def wrong_values(
    array: np.ndarray, infinite: bool = False
) -> tuple[str, int, tuple[int, ...]] | None:
    """(kind, how many, where the first stands) of NaN in an array of floats; None: there are none.

    One pass, in pieces, without a copy. Infinite values count, too, unless they may be: infinite.
    """
    if array.dtype.kind != "f" or not array.size:
        return None
    once = (slice(0, 1) if step == 0 else slice(None) for step in array.strides)  # broadcast_to
    seen = np.atleast_1d(np.asarray(array)[(..., *once)])
    step = max(PIECE // max(seen[:1].size, 1), 1)
    tests = {"missing": np.isnan, "infinite": np.isinf}
    found = dict.fromkeys(tests, 0)
    first: dict[str, tuple[int, ...]] = {}
    with np.errstate(invalid="ignore"):
        for start in range(0, len(seen), step):
            piece = seen[start : start + step]
            least = piece.min()  # NaN, if there is one
            if least == least and (infinite or (least > -np.inf and piece.max() < np.inf)):
                continue
            for kind, test in tests.items():
                gone = test(piece)
                found[kind] += int(gone.sum())
                if gone.any() and kind not in first:
                    row, *column = np.unravel_index(int(np.argmax(gone)), gone.shape)
                    first[kind] = start + int(row), *(int(j) for j in column)
    kinds = ["missing"] if infinite else list(tests)
    wrong = next((kind for kind in kinds if kind in first), None)
    return None if wrong is None else (wrong, found[wrong], first[wrong])


def refuse_nan(array: np.ndarray, name: str, given: Any, infinite: bool = False) -> None:
    """Refuse NaN in an array of floats, and infinite values unless they may be.

    given: by the user.
    """
    wrong = wrong_values(array, infinite)
    if wrong is None:
        return
    kind, count, at = wrong
    labels = list(given.columns) if is_frame(given) else None
    place = f"row {at[0]}"
    for j in at[1:]:
        place += f", column {labels[j]!r}" if labels else f", column {j}"
    if nulls_in(given):
        gives = f"df.drop_nulls({name!r})" if hasattr(given, "drop_nulls") else "table.drop_null()"
        remedy = gives
    elif hasattr(given, "isna"):
        remedy = f"df.dropna(subset=[{name!r}])" if labels is None else f"{name}.dropna()"
    else:
        each = ".any(axis=1)" if array.ndim > 1 else ""
        remedy = f"keep = ~np.isnan({name}){each} and {name}[keep], for every array"
    raise refused_values(name, kind, count, place, f"drop these rows before, {remedy}, or")


def refused_values(name: str, kind: str, count: int, place: str, remedy: str) -> ValueError:
    """What is said of missing or infinite values. remedy: what to do, before "fill them in"."""
    if kind == "infinite":
        values = f"{count:,} infinite values, the first" if count > 1 else "1 infinite value,"
        return ValueError(
            f"data {name} has {values} in {place}: correct these rows, or drop them, for every "
            "array. If your function is right about infinity (a bound that is none, say), say "
            "missing='infinite'."
        )
    values = f"{count:,} missing values (NaN), the first" if count > 1 else "1 missing value (NaN),"
    return ValueError(
        f"data {name} has {values} in {place}: {remedy} fill them in. "
        "If your function tells NaN apart itself (math.isnan), say missing='allow'."
    )


def nulls_in(column: Any) -> int:
    """How many nulls a column of polars or pyarrow has, which numpy reads as NaN."""
    count = getattr(column, "null_count", 0)
    return int(count() if callable(count) else count)


def refused(value: Any, kind: Any, name: str) -> TypeError | None:
    """Why a column's type cannot be data, and what to give instead."""
    given, code = f"data {name} is a column of type {kind}: ", getattr(kind, "kind", "f")
    if code in "biuf" and not hasattr(kind, "categories"):
        return None
    gone = np.asarray(value.isna())
    missing = (
        f"Missing are {int(gone.sum())}, the first in row {int(np.argmax(gone))}: drop these "
        f"rows before, df.dropna(subset=[{name!r}]). "
        if gone.any()
        else ""
    )
    if hasattr(kind, "categories"):
        return TypeError(
            f"{given}give numbers, df[{name!r}].cat.codes (0, 1, ... in the order of "
            f"df[{name!r}].cat.categories; -1 where it is missing). {missing}".rstrip()
        )
    if code in "mM":
        return TypeError(
            f"{given}give numbers, such as (df[{name!r}] - df[{name!r}].min()) / "
            f'pd.Timedelta("1D") for days. {missing}'.rstrip()
        )
    if code not in "biuf":
        held = next((v for v, none in zip(value, gone, strict=True) if not none), None)
        return TypeError(
            f"{given}it holds {held!r}, say. {missing}Give numbers: pd.to_numeric(df[{name!r}]) "
            f"where they are spelled out, df[{name!r}] == {held!r} of a yes or no, "
            f"pd.factorize(df[{name!r}])[0] for codes of text, which tell sites and labels apart "
            f"and are no amounts (C({name}) in a formula has an effect of each); or leave the "
            "column out."
        )
    return None


def matrix_of(frame: Any, name: str, missing: str = "refuse") -> np.ndarray:
    """A data frame of numbers as a matrix, a column of numbers per column."""
    whole, labels = frame.to_numpy(), list(frame.columns)
    kinds = getattr(frame, "dtypes", ())
    coded = any(hasattr(kind, "categories") for kind in kinds)  # even numbers are names there
    if whole.dtype.kind in "biuf" and whole.dtype != bool and not coded:  # not copied, if possible
        return whole
    if len(set(labels)) < len(labels):
        raise ValueError(f"data {name}: the data frame has columns of one name, {labels}: rename.")
    columns = [as_array(frame[label], str(label), missing) for label in labels]
    return np.column_stack(columns) if columns else whole


def coarse(array: np.ndarray) -> str:
    """What is lost by numbers that lie far from 0, in words; or nothing.

    Of float32 columns, and of integers that have more digits than a float.
    """
    if array.ndim == 2 and array.dtype == np.float32:
        told = ((j, coarse(array[:, j])) for j in range(min(array.shape[1], COLUMNS)))
        return next((f"(its column {j}) {text}" for j, text in told if text), "")
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.ndim == 1:
        whole = array[:: max(1, len(array) // LOOKED)]
        longest = max(abs(int(whole.max())), abs(int(whole.min()))) if len(whole) else 0
        if longest <= DIGITS:
            return ""
        return (
            f"holds integers such as {longest}, which have more digits than a float: differences "
            f"from a float are rounded to {int(np.spacing(float(longest)))}. Subtract the least of "
            "them before, and divide by a unit."
        )
    if array.dtype != np.float32 or array.ndim != 1 or len(array) < 2:
        return ""
    seen = np.asarray(array[:: max(1, len(array) // LOOKED)], dtype=float)
    seen = seen[np.isfinite(seen)]
    if len(seen) and np.all(seen == np.rint(seen)) and np.abs(seen).max() < WHOLE:
        return ""  # counts, or codes: exact
    spread, largest = (float(seen.std()), float(np.abs(seen).max())) if len(seen) else (0.0, 0.0)
    step = float(np.spacing(np.float32(largest)))
    if not 0.0 < COARSE * spread < step:
        return ""
    return (
        f"is float32, whose numbers near {largest:.3g} lie {step:.2g} apart, while its standard "
        f"deviation is {spread:.2g}: differences between candidates drown in rounding. Subtract "
        "its mean in float64, before it is made float32, or keep it in float64."
    )


def datum_of(data: tuple, n: int, size: int) -> str:
    """The columns of datum n in words, such as " (y=-3, x=0.5)"; nothing if there are none."""
    names = getattr(data, "_fields", [f"data[{i}]" for i in range(len(data))])
    shown = [
        f"{name}={column[n]:.6g}"
        for name, column in zip(names, data, strict=True)
        if np.ndim(column) == 1 and len(column) == size
    ]
    more = ", ..." if len(shown) > SHOWN else ""
    return f" ({', '.join(shown[:SHOWN])}{more})" if shown else ""
