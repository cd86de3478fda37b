"""Columns of data frames of pandas, parts of larger ones, as arrays of numbers."""

from typing import Any

import numpy as np

from subsample_mcmc.target.data import refused
from subsample_mcmc.target.sources.parts import MissingError, Parcel, SourceColumn, as_declared


def of_frame(data: Any, parcel: Parcel) -> dict[str, np.ndarray]:
    """The columns of a data frame."""
    return {name: of_series(data[name], name, column) for name, column in parcel.columns.items()}


def of_dtype(series: Any, name: str) -> SourceColumn:
    """What a column holds, by one of the same type without rows; refuses what is no number."""
    kind = series.dtype
    if hasattr(kind, "categories"):
        if not getattr(series.cat, "known", True) or "__UNKNOWN_CATEGORIES__" in kind.categories:
            raise TypeError(
                f"data {name} has categories that are not known before the data are read: "
                f"df[{name!r}] = df[{name!r}].cat.as_known() reads them once."
            )
        return SourceColumn(np.dtype(np.int64), (), tuple(kind.categories))
    if told := refused(series, kind, name):
        raise told
    return SourceColumn(np.dtype(getattr(kind, "numpy_dtype", kind)))


def of_series(series: Any, name: str, column: SourceColumn) -> np.ndarray:
    """A column as an array; nulls of floats are NaN, others are refused, and so are new labels."""
    if column.categories is not None:
        if tuple(series.cat.categories) != column.categories:
            known = set(column.categories)
            used = set(series.dropna().unique()) - known
            if used:
                raise ValueError(
                    f"data {name} has the label {next(iter(used))!r}, which is none of its "
                    "categories."
                )
            series = series.cat.set_categories(list(column.categories))
        codes = np.asarray(series.cat.codes, dtype=np.int64)
        refuse_gone(codes < 0, name)
        return codes
    kind = series.dtype
    if not isinstance(kind, np.dtype):
        gone = np.asarray(series.isna())
        if column.dtype.kind != "f":
            refuse_gone(gone, name)
            return as_declared(series.to_numpy(dtype=column.dtype), name, column)
        return as_declared(series.to_numpy(dtype=column.dtype, na_value=np.nan), name, column)
    return as_declared(np.ascontiguousarray(series.to_numpy()), name, column)


def refuse_gone(gone: np.ndarray, name: str) -> None:
    """Refuse missing values, by the first row that has one."""
    if gone.any():
        raise MissingError(name, "null", int(gone.sum()), (int(np.argmax(gone)),))
