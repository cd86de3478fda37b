"""Regressions on rows that are elsewhere: the family is called on some rows, and then part by part.

So each part is checked as a matrix in memory is, and makes the columns that the model reads.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.models.glm.columns import some_of_all
from subsample_mcmc.numerics.digest import content
from subsample_mcmc.target.data import is_collection
from subsample_mcmc.target.elsewhere.rows import some_rows
from subsample_mcmc.target.model import move_elsewhere
from subsample_mcmc.target.reuse.append import parts_of
from subsample_mcmc.target.row_labels import row_labels_of
from subsample_mcmc.target.sources.checksums import array_hash
from subsample_mcmc.target.sources.found import source_of
from subsample_mcmc.target.sources.parts import Parcel, PassRoom, SourceColumn, common_rows
from subsample_mcmc.target.sources.source import Source
from subsample_mcmc.target.user_functions import tried_before

# Arguments with a number for each row.
BY_ROW = ("y", "weights", "offset", "exposure", "trials", "event", "upper")
ROOM = PassRoom()
X = "x"  # what the columns of a matrix are called, where they are one array


class Family(NamedTuple):
    """What makes the model's columns of those of a part; it travels to all parts."""

    function: Any
    terms: tuple[str, ...]  # columns that are x, side by side
    by_row: dict[str, str]  # arguments that are columns, and which
    others: dict[str, Any]  # arguments that are not
    read: Any  # of the source itself
    origin: Any
    columns: dict[str, SourceColumn]
    some: dict[str, np.ndarray]  # rows of all parts: what a family looks for in all rows is in them

    def model(self, columns: dict[str, np.ndarray], labels: Any = None, room: Any = None) -> Any:
        """The model of some rows; labels: of the coefficients; room: where x is made, if it is."""
        parts = [columns[name] for name in self.terms]
        x: Any = parts[0]
        if len(parts) > 1 or x.ndim != 2:
            parts = [part if part.ndim > 1 else part[:, None] for part in parts]
            x = np.concatenate(parts, axis=1, out=room and room.of("x", parts, 1))
        if labels is not None:
            import pandas

            # In the order of a matrix in memory, by rows: so products are the same to the last bit.
            x = pandas.DataFrame(x, columns=labels, copy=False)
        by_row = {name: columns[column] for name, column in self.by_row.items()}
        return self.function(x, **by_row, **self.others)

    def recipe(self) -> str | None:
        """What the columns are made by, beside the rows; None: that has no text."""
        function = f"{self.function.__module__}.{self.function.__qualname__}"
        others = {}
        for name, value in self.others.items():
            if callable(value):
                others[name] = content(value)
            elif np.ndim(value):
                others[name] = array_hash(np.asarray(value))
            else:
                others[name] = repr(value)
        found = f"{function} {self.terms} {self.by_row} {others} {self.columns}"
        return None if " at 0x" in found else found

    def raw(self, data: Any, parcel: Parcel) -> dict[str, np.ndarray]:
        """The columns of a part as they are given."""
        return self.read(data, parcel._replace(columns=self.columns, origin=self.origin))

    def made(
        self, raw: dict[str, np.ndarray], parcel: Parcel, room: Any = None
    ) -> dict[str, np.ndarray]:
        """The columns that the model reads, of some rows; room: where they are made."""
        if not common_rows(raw):
            return {name: np.zeros((0, *c.shape), c.dtype) for name, c in parcel.columns.items()}
        each = {name: [raw[name], self.some[name]] for name in self.some}
        both = {
            name: np.concatenate(two, out=room and room.of(f"column {name}", two, 0))
            for name, two in each.items()
        }
        with tried_before():
            made, count = self.model(both, room=room).data._asdict(), common_rows(raw)
        return {name: made[name][:count] for name in parcel.columns}


def by_parts(family: Any) -> Any:
    """A family that takes rows that are elsewhere, too: x a source, and y the name of a column.

    Or x and y arrays of dask, as all that is given by row.
    """
    signature = inspect.signature(family)

    @functools.wraps(family)
    def made(*given, **named):
        found = given_elsewhere(signature, given, named)
        if found is None:
            return of_rows_here(made, family(*given, **named), signature, given, named)
        source, terms, by_row, others = found
        return regression(made, source, terms, by_row, others)

    return made


def given_elsewhere(signature: inspect.Signature, given: tuple, named: dict) -> Any:
    """(source, columns of x, columns of other arguments, the rest); None: all is in memory."""
    try:
        arguments = dict(signature.bind(*given, **named).arguments)
    except TypeError:
        return None
    x = arguments.pop("x")
    shaped = {n: v for n, v in arguments.items() if is_collection(v)}
    if isinstance(x, str):
        return None
    if shaped and not is_collection(x) and np.ndim(x) == 2:
        name = next(iter(shaped))
        raise TypeError(
            f"x is {type(x).__name__}, and {name} is a collection of dask: give both as one, "
            f"dask.array.from_array(x, chunks=({name}.chunks[0], -1)), or {name}.compute()."
        )
    if isinstance(x, np.ndarray):
        return None
    for name, value in arguments.items():
        if name in BY_ROW and is_collection(x) and in_memory(value):
            raise TypeError(
                f"x is a collection of dask, and {name} is {type(value).__name__}: give it as one, "
                f"too, such as dask.array.from_array({name}, chunks=...), or the name of a column."
            )
    if hasattr(x, "assign") and shaped:  # a frame of dask, and columns beside it
        x = x.assign(**{named_as(n, v): v for n, v in shaped.items()})
        arguments |= {n: named_as(n, v) for n, v in shaped.items()}
        shaped = {}
    if not hasattr(x, "ndim") or hasattr(x, "columns"):
        source = source_of(x)
    else:
        source = None
    if source is not None:
        by_row = {n: v for n, v in arguments.items() if isinstance(v, str)}
        for name, column in by_row.items():
            if column not in source.columns:
                raise ValueError(
                    f"{name}={column!r} is no column of {source}: it has "
                    f"{', '.join(source.columns)}."
                )
        if "y" not in by_row:
            raise TypeError(
                f"y is {type(arguments.get('y')).__name__}: of rows that are elsewhere, y is the "
                f"name of a column, one of {', '.join(source.columns)}; x is all the others."
            )
        terms = tuple(name for name in source.columns if name not in by_row.values())
        if not terms:
            raise ValueError(f"{source} has no columns beside {', '.join(by_row.values())}.")
    else:
        if not shaped or (source := source_of({X: x, **shaped})) is None:
            return None
        terms, by_row = (X,), {name: name for name in shaped}
    others = {n: v for n, v in arguments.items() if n not in by_row}
    return source, terms, by_row, others


class FurtherRows(NamedTuple):
    """What makes the model's columns of further rows in memory: the family, which checks them."""

    function: Any
    others: dict[str, Any]  # arguments that are not by row
    by_row: tuple[str, ...]
    terms: list[str] | None  # names of the coefficients
    why: str = ""  # why there are none

    def __call__(self, rows: Any) -> Any:
        """Data of a model of these rows."""
        if self.why:
            raise ValueError(f"append: {self.why}: make a model of all rows.")
        wanted = ", ".join(self.by_row)
        if not isinstance(rows, Mapping) or set(rows) != set(self.by_row):
            given = ", ".join(map(str, rows)) if isinstance(rows, Mapping) else type(rows).__name__
            raise TypeError(
                f"rows={given}: of this model append {{name: array}} of what it was given by row: "
                f"{wanted}."
            )
        with some_of_all():
            model = self.function(**rows, **self.others)
        if terms_of(model) != self.terms:
            raise ValueError(
                f"x has the columns {terms_of(model)}, and the model {self.terms}: give the same."
            )
        return model.data


def of_rows_here(function: Any, model: Any, signature: Any, given: tuple, named: dict) -> Any:
    """A model in memory, which knows what pandas calls its rows, and makes columns of further ones.

    Not in `made` itself: that is sent to workers, as it is written.
    """
    arguments = dict(signature.bind(*given, **named).arguments)
    model.row_labels = row_labels_of(arguments, model.size)
    by_row = tuple(n for n, v in arguments.items() if n == "x" or (n in BY_ROW and np.ndim(v)))
    others = {name: value for name, value in arguments.items() if name not in by_row}
    why = ""
    if isinstance(arguments["x"], str) or model.design is not None:
        why = "a formula makes columns of all rows together"
    elif "classes" in signature.parameters and others.get("classes") is None:
        why = "the classes were counted in y: give classes=K"
    model.more = FurtherRows(function, others, by_row, terms_of(model), why)
    return model


def terms_of(model: Any) -> list[str] | None:
    """Names of the coefficients, if they have any."""
    names = model.columns.get("x") if model.columns else None
    return None if names is None else [str(name) for name in names]


class FurtherParts(NamedTuple):
    """What makes the model's columns of further rows elsewhere."""

    family: Family
    columns: dict[str, SourceColumn]  # the model's

    def __call__(self, rows: Any) -> Source:
        """A source of these columns, of the rows of another."""
        raw = parts_of(rows)
        if dict(raw.columns) != self.family.columns:
            raise TypeError(
                f"rows have the columns {told_columns(raw.columns)}, and the model was made of "
                f"{told_columns(self.family.columns)}: give the same, of the same kinds."
            )
        family = self.family._replace(read=raw.read, origin=raw.origin)
        made = raw.made_into(self.columns, read_family, family)
        made.missing = "allow"  # the family looks itself
        return made


def told_columns(columns: dict[str, SourceColumn]) -> str:
    """Names and kinds, in words."""
    return ", ".join(f"{name} ({column.dtype})" for name, column in columns.items())


def in_memory(value: Any) -> bool:
    """Is it a column of numbers in this process."""
    return np.ndim(value) > 0 and not is_collection(value)


def named_as(argument: str, column: Any) -> str:
    """The name of a column that is given beside a frame."""
    return str(getattr(column, "name", None) or argument)


def regression(function: Any, source: Source, terms, by_row, others) -> Any:
    """The model of all rows of a source."""
    refuse_codes(source, [*terms, *by_row.values()])
    if "classes" in inspect.signature(function).parameters and others.get("classes") is None:
        raise TypeError(
            f"{function.__name__} counts the classes of y, and its rows are elsewhere: {source}. "
            "Give classes=K, the number of classes."
        )
    some = some_rows(source)
    family = Family(
        function, terms, by_row, others, source.read, source.origin, dict(source.columns), some
    )
    with some_of_all():
        model = family.model(some, labels_of(source, terms))
    columns = {
        name: SourceColumn(array.dtype, array.shape[1:])
        for name, array in model.data._asdict().items()
        if np.ndim(array) and name not in model.tables
    }
    made = source.made_into(columns, read_family, family)
    made.missing = "allow"  # the family looks itself
    move_elsewhere(model, made)
    model.more = FurtherParts(family, columns)
    return model


def refuse_codes(source: Source, names: list[str]) -> None:
    """Refuse columns of categories, whose codes are no numbers, as of data in memory."""
    for name in names:
        if (kinds := source.columns[name].categories) is not None:
            raise TypeError(
                f"data {name} is a column of categories, {', '.join(map(str, kinds[:4]))}: a "
                "regression would take their codes for numbers. Give a column of 0 and 1 for each "
                "of them but one, made where the data are; of a response, whole numbers."
            )


def labels_of(source: Source, terms: tuple[str, ...]) -> list[str] | None:
    """Names of the coefficients, if columns have any."""
    widths = [int(np.prod(source.columns[name].shape, dtype=int)) for name in terms]
    if len(terms) == 1 and source.columns[terms[0]].shape:
        return None
    return [
        name if not source.columns[name].shape else f"{name}[{j}]"
        for name, width in zip(terms, widths, strict=True)
        for j in range(width)
    ]


def read_family(data: Any, parcel: Parcel) -> dict[str, np.ndarray]:
    """The columns that the model reads, of a part; until the same thread reads the next one."""
    family = parcel.origin
    return family.made(family.raw(data, parcel), parcel, ROOM)
