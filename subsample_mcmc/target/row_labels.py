"""Labels of rows, the indices of pandas and xarray: what tells that rows stand in another order.

Rows are taken by position. A column, or a series that is given later, whose labels are those of the
data in another order would be taken for other rows, without a sign: it is refused.
"""

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


def row_labels_of(given: Mapping[str, Any], size: int) -> Any:
    """The labels of `size` rows, of the first that has any; None: none has."""
    found = (index_of(value) for value in given.values())
    return next((index for index in found if index is not None and len(index) == size), None)


def refuse_other_order(given: Mapping[str, Any]) -> None:
    """Refuse columns that have each other's rows in another order."""
    known: dict[int, tuple[str, Any]] = {}  # by length: tables may be shorter
    for name, value in given.items():
        index = index_of(value)
        if index is None:
            continue
        other, labels = known.setdefault(len(index), (name, index))
        refuse_other_labels(
            f"data {name}", index, other, labels,
            f"{name}.loc[{other}.index] of pandas, or give arrays, {name}.to_numpy(),",
        )  # fmt: skip


def refuse_other_rows(name: str, value: Any, labels: Any) -> None:
    """Refuse what is given by row, later than the data, and has its rows in another order.

    name: of the argument. labels: of the data's rows; None: not known.
    """
    index = index_of(value)
    if labels is None or index is None or len(index) != len(labels):
        return
    own = name.rpartition(" ")[2]
    refuse_other_labels(
        name, index, "the data", labels,
        f"{own}.loc[frame.index] of pandas, where frame has the data, or give an array, "
        f"{own}.to_numpy(),",
    )  # fmt: skip


def refuse_other_names(name: str, value: Any, labels: Any) -> None:
    """Refuse names of rows in another order: a series of them, or an index, its own labels.

    name, labels: as in refuse_other_rows.
    """
    series = hasattr(value, "get_indexer") and hasattr(value, "to_series")
    refuse_other_rows(name, value.to_series() if series else value, labels)


def refuse_labels(name: str, value: Any, labels: Any) -> None:
    """Refuse labels of rows where numbers of rows are asked for, if these are not the same.

    name, labels: as in refuse_other_rows.
    """
    is_index = hasattr(value, "get_indexer") and hasattr(value, "equals")
    if not is_index or labels is None or np.array_equal(labels, np.arange(len(labels))):
        return
    raise TypeError(
        f"{name} is an index of pandas, {value[:3].tolist()!r:.60} ..., and rows are taken by "
        f"position, 0 to {len(labels) - 1:,}: give frame.index.get_indexer({name}), where frame "
        f"has the data, or {name}.to_numpy() if these are positions."
    )


def in_words(label: Any) -> str:
    """A label as its user would write it."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def refuse_other_labels(name: str, index: Any, other: str, labels: Any, align: str) -> None:
    """Refuse an index that has the labels of another one in another order; warn of other labels."""
    if index.equals(labels):
        return
    k = int(np.argmax(np.asarray(index != labels)))
    told = (
        f"{name} has other row labels than {other}: in row {k} {in_words(index[k])}, where {other} "
        f"has {in_words(labels[k])}. Rows are taken by position"
    )
    if index.is_unique and len(index.difference(labels, sort=False)) == 0:
        raise ValueError(
            f"{told}, and these are the same rows in another order: align them before, {align} if "
            "labels say nothing."
        )
    few = name.rpartition(" ")[2]
    warn(f"{told}: give arrays, {few}.to_numpy(), if that is right.")
