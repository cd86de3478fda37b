"""Fields of the data that bins are made of, and likelihoods that look at nothing else.

A likelihood is evaluated at points of the bins: data of another length and order. So it must see
of a datum what stands in its row; with sm.Predictors that is asked of log_factor alone, as eta is
known at those points without data.
"""

from typing import Any

import numpy as np

from subsample_mcmc.target.constraints import SIMPLEX
from subsample_mcmc.target.user_functions import plain

MOST = 3  # columns: bins that are narrow in every one of them become too many
FEW = 16  # different values of a field that splits the data into groups
GLANCE = 4096  # rows that tell most fields with many values from those with few
CHECKED = 64  # data at which a likelihood is evaluated elsewhere
DONORS = 3  # rows that lend a field's value to others


# ------------------------------------------------------------------------------------- fields
def fields_of(model, columns: tuple[str, ...] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns to cut into bins, fields that split the data into groups), or an error."""
    return chosen_of(arrays_of(model, columns), columns, hint(model))


def arrays_of(model, columns: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    """The data's arrays by name; refuse columns that are not among them, or have no means."""
    arrays = {n: v for n, v in zip(model.data._fields, model.data, strict=True) if np.ndim(v)}
    for name in columns or ():
        if name not in arrays:
            raise ValueError(f"Bins(columns=...): {name!r} is not among the arrays {[*arrays]}.")
        if arrays[name].dtype.kind != "f":
            raise TypeError(
                f"Bins(columns=...): data {name} has dtype {arrays[name].dtype}, and bins have "
                "means: give it as .astype(float), or leave it out, if it has few values."
            )
    return arrays


def hint(model) -> str:
    """What else there is for likelihoods that see more than a few numbers of their row."""
    return ", or Bins(fit=...), which cuts predictors" if model.predictors is not None else ""


def chosen_of(arrays: dict[str, np.ndarray], columns, more: str = "") -> tuple[Any, Any]:
    """(columns, groups) among the arrays that matter, or an error."""
    few = []
    for name, array in arrays.items():
        if array.ndim > 1:
            raise ValueError(
                f"data {name} has shape {array.shape}: Bins needs one number a datum in each "
                f"field. Give a matrix as one array per column, or use sm.Taylor{more}."
            )
        if not np.all(np.isfinite(array)):
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"data {name} is {array[row]} in row {row}: it is in no bin.")
        if name in (columns or ()):
            continue
        if has_few(array):
            few.append(name)
        elif array.dtype.kind != "f":
            raise ValueError(
                f"data {name} has dtype {array.dtype} and more than {FEW} different values: "
                "neither a group nor a column to cut into bins. Give it as .astype(float), leave "
                "it out of the data, or use sm.Taylor."
            )
    chosen = tuple(n for n in arrays if n not in few) if columns is None else columns
    if len(chosen) > MOST:
        raise ValueError(
            f"{len(chosen)} columns {chosen}: bins that are narrow in each of them would be too "
            f"many. Bins serves {MOST}; name the ones that matter in columns=, or use sm.Taylor, "
            "which expands in the parameters."
        )
    return chosen, tuple(few)


def has_few(array: np.ndarray) -> bool:
    """Has it so few values that each may have bins of its own."""
    return len(np.unique(array[:GLANCE])) <= FEW and len(np.unique(array)) <= FEW


# --------------------------------------------------------------------- does a datum stand alone
def check_alone(model) -> None:
    """Refuse a likelihood that depends on more than the row's own numbers, by a sample."""
    rng = np.random.default_rng(0)  # the same sample every time
    rows = np.unique(rng.integers(model.size, size=CHECKED))
    # The same numbers at other indices, in data of another length.
    moved = np.append(rows[-1], rows[::-1])
    copied = [v[moved] if np.ndim(v) else v for v in model.data]
    small = type(model.data)(*copied)
    for state in states_near(model, rng):
        there = values_of(model, state, model.data, rows)
        here = values_of(model, state, small, np.arange(len(rows), 0, -1))
        for i in np.flatnonzero((there != here) & ~(np.isnan(there) & np.isnan(here))):
            raise ValueError(
                f"log_likelihood is {there[i]:.6g} at datum {rows[i]}, and {here[i]:.6g} where the "
                f"same numbers stand in row {len(rows) - i} of other data: it depends on n "
                "itself, on other rows or on their number. Bins needs a likelihood that reads "
                f"data.y[n] and the like; use sm.Taylor{hint(model)}."
            )


def values_of(model, state, data, rows) -> np.ndarray:
    """The log likelihood, uncompiled; inf where it reads outside the data."""
    found = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        for i, n in enumerate(rows):
            try:
                made = () if model.prepare is None else (model.prepare(state, data),)
                found[i] = float(model.log_likelihood(state, data, int(n), *made))
            except IndexError:
                found[i] = np.inf
            except (ArithmeticError, ValueError):  # compiled code returns nan
                continue
    return found


def states_near(model, rng):
    """The initial state, where terms may vanish, and two others."""
    for shift in (0.0, 0.5, 0.5):
        ints, floats = model.ints.copy(), model.floats.copy()
        for variable in model.variables.values() if shift else ():
            block, kind = variable.block, variable.constraint
            part = slice(block.start, block.start + block.length)
            if block.discrete:
                ints[part] = rng.integers(variable.support, size=block.length)
                continue
            x = floats[part]
            room = np.minimum(np.minimum(x - kind.low, kind.high - x), 1.0 + np.abs(x))
            x += shift * room * rng.uniform(-1.0, 1.0, block.length)
            if kind.kind == SIMPLEX:
                x /= x.sum()
        yield model.state(ints, floats)


# ------------------------------------------------------------------------- what log_factor reads
def factors(model, etas: np.ndarray, data, rows) -> np.ndarray:
    """log_factor of rows at given predictors, uncompiled; inf where it reads outside the data."""
    call = plain(model.predictors.log_factor, "log_factor", "log_factor(eta, data, n)")
    found = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        for i, n in enumerate(rows):
            eta = float(etas[i, 0]) if etas.shape[1] == 1 else tuple(map(float, etas[i]))
            try:
                found[i] = float(call(eta, data, int(n)))
            except IndexError:
                found[i] = np.inf
            except (ArithmeticError, ValueError):  # compiled code returns nan
                continue
    return found


def fields_read(model, columns, point: np.ndarray) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns to cut, groups) among the fields that log_factor reads, by a sample; or an error."""
    arrays, rng = arrays_of(model, columns), np.random.default_rng(0)
    rows = np.unique(rng.integers(model.size, size=CHECKED))
    call = plain(model.predictors.eta, "eta", "eta(state, data, n)")
    state = model.state(np.zeros_like(model.ints), point.copy())
    etas = np.array([call(state, model.data, int(n)) for n in rows], dtype=float)
    etas = etas.reshape(len(rows), -1)[rng.permutation(len(rows))]  # any will do
    there = factors(model, etas, model.data, rows)
    moved = np.append(rows[-1], rows[::-1])  # the same numbers at other indices
    small = {n: v[moved] if np.ndim(v) else v for n, v in model.data._asdict().items()}
    backwards = np.arange(len(rows), 0, -1)

    def changed(data) -> np.ndarray:
        here = factors(model, etas, type(model.data)(**data), backwards)
        return np.flatnonzero((there != here) & ~(np.isnan(there) & np.isnan(here)))

    for i in changed(small):
        raise ValueError(
            f"log_factor at datum {rows[i]} differs from what it is where the same numbers stand "
            f"in row {len(rows) - i} of other data: it depends on n itself, on other rows or on "
            "their number. What looks at other rows belongs into eta; or use sm.Taylor."
        )
    read = {}
    for name, array in arrays.items():
        donors = rng.integers(model.size, size=DONORS)
        if array.ndim == 1 and has_few(array):  # one for each value: some may be rare
            donors = np.unique(array, return_index=True)[1]
        lent = [{**small, name: np.stack([array[donor]] * len(moved))} for donor in donors]
        if name in (columns or ()) or any(len(changed(data)) for data in lent):
            read[name] = array
    return chosen_of(read, columns)
