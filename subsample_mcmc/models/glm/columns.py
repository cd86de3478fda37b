"""What a GLM is given, checked in pieces: a matrix on disk is read once and never copied."""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.models.glm.formulas import by_formula, warn_of_unseen
from subsample_mcmc.target.data import as_array, is_frame, names_of_columns
from subsample_mcmc.target.population import numeric, whole
from subsample_mcmc.target.row_labels import refuse_other_order
from subsample_mcmc.target.user_functions import TRIED, noted

PIECE = 1 << 16  # numbers that are looked at together: what is made of them stays in the cache
LOOKED = 2048  # rows that tell how far from 0 a column lies, and how much it varies
PULLED = 3.0  # prior standard deviations: coefficients that need more are pulled to 0


def pieces(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Consecutive rows of an array, with the number of the first."""
    step = max(PIECE // max(array[:1].size, 1), 1)
    for start in range(0, len(array), step):
        yield start, np.asarray(array[start : start + step])


def first_wrong(array: np.ndarray, good: Callable) -> tuple[int, ...] | None:
    """Where the first value stands that is not good; None if all are."""
    for start, piece in pieces(array):
        wrong = ~good(piece)
        if wrong.any():
            row, *column = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            return start + int(row), *(int(j) for j in column)
    return None


def matrix(x) -> np.ndarray:
    """The design matrix: what was given, if it is an array."""
    x = numeric(as_array(x, "x"), "x")
    if x.ndim != 2:
        raise ValueError(
            f"x has shape {x.shape}: give a matrix of shape (N, d), a row per datum and a column "
            "per coefficient; one column alone is x.reshape(-1, 1)."
        )
    if 0 in x.shape:
        raise ValueError(
            f"x has shape {x.shape}: it needs at least one row and one column; for an intercept "
            "alone give np.ones((N, 1))."
        )
    wrong = first_wrong(x, np.isfinite)
    if wrong is not None:
        raise ValueError(
            f"x[{wrong[0]}, {wrong[1]}] is {x[wrong]}: every value must be a finite number. Drop "
            "such rows, or fill them in."
        )
    return x


class Regression(NamedTuple):
    """What a model is given, checked: a design matrix, a response, and their names."""

    x: np.ndarray
    y: np.ndarray
    terms: list[str] | None  # names of the coefficients
    classes: list[str] | None = None  # of a categorical response of a formula
    ordered: bool = True  # somebody said in which order they are
    design: Any = None  # how a formula makes the same of other frames
    others: Any = None  # what else is given by row


def terms_of(x) -> list[str] | None:
    """Names of the coefficients: those of a data frame's columns, if these differ."""
    names = names_of_columns(x)
    return names if names and len(set(names)) == len(names) else None


def per_row(values, name: str, size: int) -> np.ndarray:
    """One finite number per row of x: floats as they were given, all else as float64."""
    values = numeric(as_array(values, name), name)
    if values.shape != (size,):
        raise ValueError(
            f"{name} has shape {values.shape}: give one value per row of x, shape ({size},)."
        )
    if values.dtype.kind != "f":
        # AVX2 cannot convert 64-bit integers, and another dtype is another compilation.
        values = values.astype(np.float64)
    wrong = first_wrong(values, np.isfinite)
    if wrong is not None:
        raise ValueError(
            f"{name}[{wrong[0]}] is {values[wrong]}: every value must be a finite number. Drop "
            "such rows, or fill them in."
        )
    return values


def rows_of(x, y, most: int = 1, intercept: bool = True, **others) -> Regression:
    """The design matrix and y, or what a formula makes of a frame, given as y.

    most: classes that a categorical response of a formula may have; 1: none does. intercept: may
    there be one; else that of a formula is left out. others: what is given by row, too, and checked
    by itself.
    """
    if isinstance(x, str):
        made = by_formula(x, y, others, intercept)
        if made.classes is not None and len(made.classes) > most:
            usual = "numbers" if most < 2 else f"at most {most} classes, or numbers"
            raise ValueError(
                f"the formula {x!r} has a response of {len(made.classes)} classes, "
                f"{', '.join(made.classes[:6])}: this family needs {usual}."
            )
        refuse_other_order({"y": y, **made.others})
        if all_are_here():
            warn_of_unseen(made.design, y)
        return Regression(matrix(made.x), per_row(made.y, "y", len(made.x)), *made[2:])
    if isinstance(y, str) and is_frame(x):
        raise TypeError(
            f"y={y!r} beside a data frame: give a formula first, ({f'{y} ~ age'!r}, frame), say, "
            f"or two parts of the frame, (frame.drop(columns={y!r}), frame[{y!r}])."
        )
    refuse_other_order({"x": x, "y": y, **others})
    terms, x = terms_of(x), matrix(x)
    return Regression(x, per_row(y, "y", len(x)), terms, others=others)


def restricted(y: np.ndarray, good: Callable, needs: str) -> np.ndarray:
    """`y` if all its values are good."""
    wrong = first_wrong(y, good)
    if wrong is not None:
        raise ValueError(f"y[{wrong[0]}] is {y[wrong]:g}: {needs}.")
    return y


def zero_one(piece: np.ndarray) -> np.ndarray:
    return (piece == 0.0) | (piece == 1.0)


def count(piece: np.ndarray) -> np.ndarray:
    return (piece >= 0.0) & (piece == np.floor(piece))


def labelled(rows: Regression, classes, family: str, most: int, why: str) -> tuple[Any, int]:
    """Labels 0 .. K - 1, and K; why: what is wrong with one that does not occur."""
    y, given = restricted(rows.y, count, f"{family} needs labels, whole numbers from 0"), classes
    if rows.classes is not None:
        classes = given = len(rows.classes) if classes is None else classes
        if classes != len(rows.classes):
            raise ValueError(f"classes={classes}: the response has {', '.join(rows.classes)}.")
    if classes is None:
        classes = int(y.max()) + 1
        if classes < 2:
            raise ValueError("y has no label but 0: pass classes=K, the number of classes.")
    classes = whole(classes, "classes", f"the number of classes, from 2 to {most}")
    if not 2 <= classes <= most:
        raise ValueError(
            f"classes={classes}: {family} takes 2 to {most} classes; labels are 0 .. classes - 1."
        )
    if given is None or rows.classes is not None:
        seen = np.zeros(classes, dtype=bool)
        for _, piece in pieces(y):
            seen[piece.astype(int)] = True
        absent = int(np.argmin(seen))
        if not seen.all() and rows.classes is not None:
            warn(
                f"no row is of class {rows.classes[absent]} of the response: about it, and what is "
                "compared with it, the prior alone says something. Drop it if it cannot occur, "
                "frame.y.cat.remove_unused_categories() of a column y."
            )
        elif not seen.all():
            raise ValueError(
                f"y has no label {absent}, and labels up to {classes - 1}: {why}. Code them "
                "0 .. K - 1 without gaps, by np.unique(y, return_inverse=True)[1], or pass "
                f"classes={classes} if it may occur."
            )
    restricted(
        y, lambda piece: piece < classes,
        f"labels must be 0 .. {classes - 1}, because classes={classes}",
    )  # fmt: skip
    return y, classes


def positive(value: Any, name: str, meaning: str) -> float:
    """`value` as a positive finite float, or an error."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0.0 < number < np.inf:
        raise ValueError(f"{name}={value!r}: give {meaning}, a positive number.")
    return number


SOME: ContextVar[bool] = ContextVar("some", default=False)


def some_of_all():
    """Families that are made here have some of their rows: what all have alike, others may not."""
    return noted(SOME)


def all_are_here() -> bool:
    """May it be refused that all rows are alike."""
    return not (SOME.get() or TRIED.get())


def warn_of_columns(rows: Regression, prior_sd: Any, effect: float, cutpoints: bool) -> None:
    """Say that the default prior allows a column no effect: of years, or in units of thousands.

    effect: how much a column that matters changes a predictor, about; cutpoints: are there any,
    which are an intercept, too.
    """
    if TRIED.get() or not 0.0 < prior_sd < np.inf:
        return
    some = np.asarray(rows.x[:: max(1, len(rows.x) // LOOKED)], dtype=float)
    middle, varies = some.mean(axis=0), np.ptp(some, axis=0) > 0.0
    reach = np.where(varies, np.abs(some - middle).max(axis=0), 0.0)
    # Of the intercept; 0: there is none.
    unit = 1.0 if cutpoints else np.abs(middle[~varies]).max(initial=0.0)
    for j in np.flatnonzero((reach > 0.0) & (effect > 0.0)):
        slope = effect / reach[j]
        shift = slope * abs(middle[j]) / unit if unit > 0.0 else 0.0
        if max(slope, shift) <= PULLED * prior_sd:
            continue
        name = f"x[:, {j}]" + (f" ({rows.terms[j]})" if rows.terms else "")
        told = f"a coefficient of {slope:.3g}" if slope > shift else f"an intercept of {shift:.3g}"
        warn(
            f"{name} is {middle[j]:.4g} in the mean and at most {reach[j]:.3g} from there: to "
            f"change predictors by {effect:.3g} it needs {told}, and coefficients are Normal(0, "
            f"{prior_sd:g}^2) a priori, which pulls it to 0. Give (x - x.mean()) / x.std(), or "
            f"scale(x) in a formula, or prior_sd={10.0 * max(slope, shift):.1g}, say."
        )
        return


def initial(start, shape: tuple[int, ...]) -> np.ndarray:
    """Where beta starts; zeros by default."""
    beta = np.zeros(shape) if start is None else np.array(start, dtype=float)
    if beta.shape != shape:
        raise ValueError(
            f"start has shape {beta.shape}: beta has shape {shape}, a coefficient per column of x"
            f"{' and class but the first' if len(shape) > 1 else ''}."
        )
    return beta
