"""A model of the rows of another and further ones: the same functions, in memory or elsewhere."""

from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from subsample_mcmc.target.axes import ROWS
from subsample_mcmc.target.data import as_fields, by_name, in_order
from subsample_mcmc.target.elsewhere.rows import RowsElsewhere, some_rows, with_rows
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import prepared
from subsample_mcmc.target.reuse.subset import compare, of_lists, refuse_kinds
from subsample_mcmc.target.row_labels import refuse_other_order, row_labels_of
from subsample_mcmc.target.sources.found import source_of
from subsample_mcmc.target.sources.joined import JoinedSource
from subsample_mcmc.target.sources.local import LocalSource
from subsample_mcmc.target.sources.source import Source


class Grown(NamedTuple):
    """Which model has the first rows, and how many these are."""

    smaller: Any  # a weak reference
    rows: int


def append(model: Model, rows: Any) -> Model:
    """See Model.append."""
    refuse_kinds(model)
    touches, coords = model.given[6] or {}, model.given[11]
    if any(of_lists(value) for value in touches.values()):
        raise ValueError(
            "touches= lists the data of each site, and says nothing of further ones: name a column "
            "of sites, touches={'a': 'group'}, or make a model of all rows."
        )
    if model.categories or ROWS in coords:
        raise ValueError(
            f"{model!r} has categories of columns, or labels of rows, that further rows would not "
            "share: make a model of all rows."
        )
    made = in_memory(model, rows) if model.elsewhere is None else elsewhere(model, rows)
    made.columns, made.design, made.more = model.columns, model.design, model.more
    made.grown = Grown(ref(model), model.size)
    if model.elsewhere is None and model.row_labels is not None:
        own = row_labels_of(as_fields(by_name(rows)), made.size - model.size)
        made.row_labels = None if own is None else model.row_labels.append(own)
    return made


def in_memory(model: Model, rows: Any) -> Model:
    """Of arrays, which are copied."""
    if source_of(rows) is not None:
        raise TypeError(
            "the rows of this model are in memory, and those to append are elsewhere: read them "
            "into arrays, or make a model of all rows elsewhere, sm.Model(..., data=...)."
        )
    (given, by_row, first, log_prior, support, constraints, touches, prepare, lengths, missing,
     site_prior, coords, dims, simulate, tables) = model.given  # fmt: skip
    old = {name: value for name, value in by_row._asdict().items() if np.ndim(value)}
    if any(is_mapped(value) for value in old.values()):
        raise ValueError(
            "data of this model are mapped from a file, and to append rows would read it whole "
            "into memory: write the rows to the file, and make the model anew; or give both as "
            "parts that are read elsewhere, such as sm.parquet."
        )
    new = columns_of(model, rows, old)
    data = by_row._asdict() | {n: np.concatenate([old[n], new[n]]) for n in old}
    made = type(model)(
        given, data, first, log_prior, support, constraints, touches, prepare, lengths, missing,
        site_prior, coords, dims, simulate, tables,
    )  # fmt: skip
    before = np.arange(made.size) < model.size
    compare(made, model, np.flatnonzero(before), before)
    return made


def columns_of(model: Model, rows: Any, old: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of further rows, of the kinds that the model has."""
    if model.more is None:
        fields = prepared(in_orders(model, by_name(rows)), model.missing)
    else:
        fields = model.more(rows)
    if not hasattr(fields, "_asdict"):
        raise TypeError(f"rows={rows!r:.60}: give them by name, as data of sm.Model: {{'y': y}}.")
    shared = {n: v for n, v in model.given[1]._asdict().items() if not np.ndim(v)}
    for name, value in fields._asdict().items():  # the same number for all rows
        if np.ndim(value) == 0 and not np.array_equal(shared.get(name, ()), value, equal_nan=True):
            raise ValueError(
                f"data {name} of the appended rows is the number {value}, and of the model "
                f"{shared.get(name, 'no number')}: it is one for all rows. Leave it out, or make a "
                "model of all rows, with a column of it."
            )
    found = {n: v for n, v in fields._asdict().items() if np.ndim(v)}
    if set(found) != set(old):
        raise ValueError(
            f"rows have the columns {', '.join(found)}, and the model {', '.join(old)}: give the "
            "same."
        )
    for name, value in found.items():
        if not np.can_cast(value.dtype, old[name].dtype, "same_kind"):
            raise TypeError(
                f"data {name} is {old[name].dtype}, and of the appended rows {value.dtype}: give "
                "the same kind of numbers."
            )
        if value.shape[1:] != old[name].shape[1:]:
            raise ValueError(
                f"data {name} has shape {old[name].shape[1:]} a row, and of the appended rows "
                f"{value.shape[1:]}: give the same."
            )
    return {name: as_before(name, value, old[name].dtype) for name, value in found.items()}


def in_orders(model: Model, rows: Any) -> Any:
    """Rows whose matrices have the columns as the model has them, by their names."""
    fields = as_fields(rows)
    if not isinstance(fields, dict):
        return rows
    known = model.columns
    return {n: in_order(n, v, known[n]) if n in known else v for n, v in fields.items()}


def as_before(name: str, value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values in the kind of number that a column has, if they fit."""
    with np.errstate(all="ignore"):
        made = value.astype(dtype)
    lost = made != value if dtype.kind in "iu" else np.isinf(made) & ~np.isinf(value)
    if lost.any():
        row = int(np.argwhere(lost)[0][0])
        raise ValueError(
            f"data {name} is {dtype}, in which the appended row {row}, {value[row]}, has no place: "
            f"make the model of all rows, with {name} as {value.dtype}."
        )
    return made


def is_mapped(array: Any) -> bool:
    """Does an array stand in a file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def elsewhere(model: Model, rows: Any) -> Model:
    """Of parts, those of the model first: rows that are in memory become one more."""
    away: RowsElsewhere = model.elsewhere
    source = JoinedSource(away.source, model.more(rows) if model.more else parts_of(rows))
    made = with_rows(away.near, some_rows(source))
    RowsElsewhere(made, source).take(made)
    return made


def parts_of(rows: Any) -> Source:
    """A source of rows, or of arrays in memory."""
    if (source := source_of(rows)) is not None:
        return source
    found = as_fields(by_name(rows))
    if not isinstance(found, dict) or not found:
        raise TypeError(f"rows={rows!r:.60}: give them by name, as data of sm.Model: {{'y': y}}.")
    refuse_other_order(found)
    return LocalSource([{name: np.asarray(value) for name, value in found.items()}])


def new_rows(model: Model) -> Model:
    """A model of the appended rows alone: of views of these, or of their parts."""
    first = model.grown.rows
    if model.elsewhere is None:
        data = model.data._asdict().items()
        return with_rows(model, {
            name: value[first:] for name, value in data
            if np.ndim(value) and name not in model.tables
        })  # fmt: skip
    source = model.elsewhere.source.sources[1]
    made = with_rows(model.elsewhere.near, some_rows(source))
    RowsElsewhere(made, source).take(made)
    return made
