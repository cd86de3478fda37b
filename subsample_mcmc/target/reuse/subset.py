"""A model of some of the data of another: the same functions, and the rows that remain."""

from typing import Any

import numpy as np

from subsample_mcmc.target.axes import ROWS
from subsample_mcmc.target.data import datum_of, not_masked
from subsample_mcmc.target.elsewhere.resident import refuse_rows_elsewhere
from subsample_mcmc.target.lookups.bounds import check_model
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.moved import some_states
from subsample_mcmc.target.pointwise import Pointwise
from subsample_mcmc.target.row_labels import refuse_wrong_rows

STATES = 4  # in which the data that remain must say what they said
MOST = 1_000_000  # data that are asked; of more, some evenly spaced, and neighbours of the others
NEAR = 8  # rows on either side of one that is left out
SAME = 1e-9


def without(model: Model, rows: Any) -> Model:
    """See Model.without."""
    refuse_rows_elsewhere(model, "model.without")
    refuse_wrong_rows(rows, model.row_labels)
    keep = kept_rows(rows, model.size)
    refuse_kinds(model)
    model.notice_changes()
    (given, by_row, first, log_prior, support, constraints, touches, prepare, lengths, missing,
     site_prior, coords, dims, simulate, tables) = model.given  # fmt: skip
    data = {}
    for name, value in zip(by_row._fields, by_row, strict=True):
        data[name] = part_of(np.asarray(value), keep) if np.ndim(value) else value
    touches = {
        name: rows_of_sites(value, keep) if of_lists(value) else value
        for name, value in (touches or {}).items()
    }
    if ROWS in coords:
        coords = coords | {ROWS: coords[ROWS][keep]}
    made = type(model)(
        given, data, first, log_prior, support, constraints, touches, prepare, lengths, missing,
        site_prior, coords, dims, simulate, tables,
    )  # fmt: skip
    made.categories, made.columns = model.categories, model.columns
    made.design, made.more = model.design, model.more
    made.row_labels = None if model.row_labels is None else model.row_labels[keep]
    if model.log_likelihood is not None:
        compare(model, made, np.flatnonzero(keep), keep)
    return made


def kept_rows(rows: Any, size: int) -> np.ndarray:
    """Which rows remain: of row numbers, or of booleans that say which are left out."""
    given = np.asarray(not_masked(rows, "rows"))
    if given.dtype == bool:
        if given.shape != (size,):
            raise ValueError(f"rows has shape {given.shape}: give {size} booleans, one a datum.")
        keep = ~given
    else:
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise TypeError(
                f"rows={rows!r:.60}: give numbers of rows, or booleans that say which are left out."
            )
        given = given.astype(np.int64)
        wrong = given[(given < 0) | (given >= size)]
        if wrong.size:
            raise ValueError(f"rows has {wrong[0]}: rows are 0 .. {size - 1}.")
        keep = np.ones(size, dtype=bool)
        keep[given] = False
    if not keep.any():
        raise ValueError(f"all {size} data would be left out: a model needs one, at least.")
    return keep


def refuse_kinds(model: Model) -> None:
    """Refuse models whose data are not one row a datum."""
    if model.log_likelihood is None:
        raise ValueError(
            f"{model!r} has no log_likelihood of single data: its kernels bring a target of their "
            "own, about all data together, and nothing says what is left of it without some."
        )
    if type(model).__reduce__ is not Model.__reduce__:
        raise ValueError(
            f"{type(model).__name__} makes its data itself, of series or of another model: leave "
            "rows out of what it is made of, and make it anew."
        )


def part_of(array: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The rows that remain; a view where they lie side by side."""
    rows = np.flatnonzero(keep)
    if rows[-1] - rows[0] == len(rows) - 1:
        return array[rows[0] : rows[-1] + 1]
    if 0 in array.strides[:1]:  # the same for every datum: it takes no memory
        return np.broadcast_to(array[0], (len(rows), *array.shape[1:]))
    return array[keep]


def of_lists(touches: Any) -> bool:
    """Are touches lists of data, site by site, and not names of columns."""
    return not isinstance(touches, str) and not all(isinstance(part, str) for part in touches)


def rows_of_sites(touches: Any, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The data of each site, (indptr, indices), by the numbers that they have without others."""
    indptr, indices = (np.asarray(part) for part in touches)
    stays = keep[indices]
    numbers = np.cumsum(keep) - 1
    ends = np.concatenate([[0], np.cumsum(stays)])
    return ends[indptr], numbers[indices[stays]]


def compare(model: Model, made: Model, rows: np.ndarray, keep: np.ndarray) -> None:
    """Refuse functions that read more of a datum than its own row, such as its number.

    rows: what the data of `made` are in the model.
    """
    places = np.arange(len(rows))
    if len(rows) > MOST:
        some = np.zeros(len(keep), dtype=bool)
        gone = np.flatnonzero(~keep)
        for step in range(-NEAR, NEAR + 1):
            some[np.clip(gone + step, 0, len(keep) - 1)] = True
        beside = np.flatnonzero(some[rows])
        even = np.linspace(0, len(rows) - 1, MOST).astype(np.int64)
        places = np.unique(np.concatenate([even, beside[:: max(1, len(beside) // MOST)]]))
    for one in (model, made):
        check_model(one)  # look-ups that are beyond an array in any of these states
    rng, both = np.random.default_rng(6), (Pointwise(model), Pointwise(made))
    before, after = np.empty((1, len(places))), np.empty((1, len(places)))
    for ints, floats in some_states(model, STATES, rng):
        both[0].into(before, ints[None], floats[None], rows[places])
        both[1].into(after, ints[None], floats[None], places)
        with np.errstate(invalid="ignore"):
            near = np.abs(after - before) <= SAME * (1.0 + np.abs(before))
        same = near | (before == after) | (np.isnan(before) & np.isnan(after))
        if not same.all():
            i = int(np.argmin(same[0]))
            n = int(rows[places[i]])
            raise ValueError(
                f"log_likelihood says {before[0, i]:.6g} of datum {n}"
                f"{datum_of(model.data, n, model.size)}, and {after[0, i]:.6g} where other data "
                f"are left out and it is datum {places[i]}, in the state "
                f"{model.show(ints, floats)}: it reads more than its own row, such as its number "
                "n, a neighbour, or what prepare makes of all data. Give what a datum depends on "
                "as columns: an entry z[n] of its own as z[data.own[n]], own=np.arange(N)."
            )
