"""Data frames and their columns as arrays, without importing the library they come from.

Whatever has `.columns` and `.to_numpy` counts as a data frame, whatever has `.isna` as a column of
pandas; numpy itself reads columns of other libraries. Rows are taken by position: an index is not
read. A column that is a contiguous array of numbers already is not copied.
"""

from typing import Any

import numpy as np

COARSE = 0.01  # of a standard deviation: a float32 that steps by more blurs sums of differences
LOOKED = 1024  # numbers of a column that tell how coarse it is
WHOLE = 2.0**24  # up to here float32 holds every whole number
SHOWN = 4  # columns of a datum in a message


def is_frame(data: Any) -> bool:
    """Is it a data frame."""
    return hasattr(data, "columns") and hasattr(data, "to_numpy")


def by_name(data: Any) -> Any:
    """A data frame as a dict of its columns; anything else as it is."""
    if not is_frame(data):
        return data
    names = list(data.columns)
    for name in names:
        if isinstance(name, tuple):
            raise ValueError(
                f"the data frame has columns of several levels, such as {name!r}, which cannot be "
                "read as data.name: give each one name, df.columns = ['y', 'x', ...]."
            )
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(
                f"the data frame has a column {name!r}, which cannot be read as data.name: rename "
                f"it, df.rename(columns={{{name!r}: 'x1'}}), or give the columns that are needed, "
                "df[['y', 'x']]."
            )
        if names.count(name) > 1:
            raise ValueError(
                f"the data frame has {names.count(name)} columns {name!r}: rename or drop all but "
                "one."
            )
    return {name: data[name] for name in names}


def as_array(value: Any, name: str) -> np.ndarray:
    """What a user gave as an array; refuses columns that are no numbers, by name."""
    kind = getattr(value, "dtype", None)
    if is_frame(value):
        return matrix_of(value, name)
    if isinstance(value, np.ndarray) or not hasattr(value, "isna"):  # pandas alone has it
        return np.asanyarray(value)
    told = refused(value, kind, name)
    if told:
        raise told
    missing = int(np.sum(value.isna()))
    if missing and not isinstance(kind, np.dtype):
        first = int(np.argmax(np.asarray(value.isna())))
        raise ValueError(
            f"data {name} ({kind}) has {missing} missing values, the first in row {first}: drop "
            f"these rows before, df.dropna(subset=[{name!r}]), or fill them in."
        )
    found = value.to_numpy(dtype=getattr(kind, "numpy_dtype", None))
    return np.ascontiguousarray(found) if found.ndim == 1 else found


def refused(value: Any, kind: Any, name: str) -> TypeError | None:
    """Why a column's type cannot be data, and what to give instead."""
    given, code = f"data {name} is a column of type {kind}: ", getattr(kind, "kind", "f")
    if hasattr(kind, "categories"):
        return TypeError(
            f"{given}give numbers, df[{name!r}].cat.codes (0, 1, ... in the order of "
            f"df[{name!r}].cat.categories; -1 where it is missing)."
        )
    if code in "mM":
        return TypeError(
            f"{given}give numbers, such as (df[{name!r}] - df[{name!r}].min()) / "
            'pd.Timedelta("1D") for days.'
        )
    if code not in "biuf":
        gone = np.asarray(value.isna())
        held = next((v for v, none in zip(value, gone, strict=True) if not none), None)
        missing = (
            f"Missing are {int(gone.sum())}, the first in row {int(np.argmax(gone))}: drop these "
            f"rows before, df.dropna(subset=[{name!r}]). "
            if gone.any()
            else ""
        )
        return TypeError(
            f"{given}it holds {held!r}, say. {missing}Give numbers: pd.to_numeric(df[{name!r}]) "
            f"where they are spelled out, pd.factorize(df[{name!r}])[0] for codes of text; or "
            "leave the column out."
        )
    return None


def matrix_of(frame: Any, name: str) -> np.ndarray:
    """A data frame of numbers as a matrix, a column of numbers per column."""
    whole = frame.to_numpy()
    if whole.dtype.kind in "biuf" and whole.dtype != bool:  # not copied, if that can be
        return whole
    labels = list(frame.columns)
    if len(set(labels)) < len(labels):
        raise ValueError(f"data {name}: the data frame has columns of one name, {labels}: rename.")
    columns = [as_array(frame[label], str(label)) for label in labels]
    return np.column_stack(columns) if columns else whole


def coarse(array: np.ndarray) -> str:
    """What is lost by a float32 column whose values lie far from 0, in words; or nothing."""
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
