"""Labels of rows, the indices of pandas and xarray: what tells that rows stand in another order.

Rows are taken by position. A column, or a series that is given later, whose labels are those of the
data in another order would be taken for other rows, without a sign: it is refused.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from subsample_mcmc.errors import warn


def index_of(value: Any) -> Any:
    """The labels of rows that pandas and xarray know; None: none are known."""
    if hasattr(value, "dims") and hasattr(value, "indexes"):  # an array of xarray
        index = value.indexes.get(value.dims[0]) if value.dims else None
    else:
        index = getattr(value, "index", None)
    return index if hasattr(index, "equals") and hasattr(index, "sort_values") else None


def is_index(value: Any) -> bool:
    """Is it an index of pandas: labels themselves."""
    return hasattr(value, "get_indexer") and hasattr(value, "equals")


def row_labels_of(given: Mapping[str, Any], size: int) -> Any:
    """The labels of `size` rows, of the first that has any; None: none has."""
    found = (index_of(value) for value in given.values())
    return next((index for index in found if index is not None and len(index) == size), None)


def with_categories(given: Mapping[str, Any], categories: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of categories, and one of the others that has labels."""
    known = (n for n, v in given.items() if n not in categories and index_of(v) is not None)
    first = next(known, None) if categories else None
    return {n: value for n, value in given.items() if n in categories or n == first}


def compared(index: Any, labels: Any) -> tuple[int, bool] | None:
    """(where indices of one length first differ, are they one in another order); None: equal."""
    if index.equals(labels):
        return None
    one, other = (np.asarray(each, dtype=object) for each in (index, labels))
    differ = np.array([a != b and not (a != a and b != b) for a, b in zip(one, other, strict=True)])
    if not differ.any():  # of other kinds, such as times in two zones
        return None
    return int(np.argmax(differ)), Counter(one) == Counter(other)


def refuse_other_order(given: Mapping[str, Any]) -> None:
    """Refuse columns that have each other's rows in another order; warn of other labels."""
    known: dict[int, tuple[str, Any]] = {}  # by length: tables may be shorter
    for name, value in given.items():
        index = index_of(value)
        if index is not None:
            other, labels = known.setdefault(len(index), (name, index))
            align = f"{name}.loc[{other}.index] of pandas, or give arrays, {name}.to_numpy(),"
            refuse_other_labels(f"data {name}", index, other, labels, align)


def refuse_other_rows(name: str, value: Any, labels: Any, others: bool = True) -> None:
    """Refuse what is given by row, later than the data, and has its rows in another order.

    name: of the argument. labels: of the data's rows; None: not known. others: warn of other labels
    than these, too; else they may be of something else.
    """
    index = None if labels is None else index_of(value)
    if index is None or len(index) != len(labels):
        return
    own = name.rpartition(" ")[2]
    align = (
        f"{own}.loc[frame.index] of pandas, where frame has the data, or give an array, "
        f"{own}.to_numpy(),"
    )
    refuse_other_labels(name, index, "the data", labels, align, others)


def refuse_other_names(name: str, value: Any, labels: Any) -> None:
    """Refuse names of rows in another order: a series of them, or the rows' own labels.

    name, labels: as in refuse_other_rows.
    """
    if is_index(value):  # names, and no labels of them, where the rows have but numbers
        value = None if are_numbers(labels) else value.to_series()
    refuse_other_rows(name, value, labels, others=False)


def are_numbers(labels: Any) -> bool:
    """Say labels no more than where rows stand, or nothing (None)."""
    return labels is None or np.array_equal(labels, np.arange(len(labels)))


def refuse_wrong_rows(rows: Any, labels: Any) -> None:
    """Refuse what picks rows, by labels where these are not numbers, or in another order.

    labels: as in refuse_other_rows.
    """
    if is_index(rows) and not are_numbers(labels):
        raise TypeError(
            f"rows is an index of pandas, {in_words(tuple(rows[:3]))} ..., and rows are taken by "
            f"position, 0 to {len(labels) - 1:,}: give frame.index.get_indexer(rows), where frame "
            "has the data, or rows.to_numpy() if these are positions."
        )
    refuse_other_rows("rows", rows, labels)


def refuse_other_labels(
    name: str, index: Any, other: str, labels: Any, align: str, others: bool = True
) -> None:
    """Refuse an index that has the labels of another one in another order; warn of other labels."""
    found = compared(index, labels)
    if found is None:
        return
    k, same = found
    told = (
        f"{name} has other row labels than {other}: in row {k} {in_words(index[k])}, where {other} "
        f"has {in_words(labels[k])}. Rows are taken by position"
    )
    if same:
        raise ValueError(
            f"{told}, and these are the same rows in another order: align them before, {align} if "
            "labels say nothing."
        )
    if others:
        warn(f"{told}: give arrays, {name.rpartition(' ')[2]}.to_numpy(), if that is right.")


def in_words(label: Any) -> str:
    """A label as its user would write it."""
    if isinstance(label, tuple):
        return f"({', '.join(map(in_words, label))})"
    return repr(label.item() if isinstance(label, np.generic) else label)
