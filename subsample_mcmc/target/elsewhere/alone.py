"""Whether a log likelihood reads its own row alone: where rows are elsewhere, it has no others."""

from typing import Any

import numpy as np

from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.moved import some_states

STATES, LOOKED = 4, 12  # states, and rows, in which it must say the same
SAME = 1e-9


def check_alone(near: Any, size: int) -> None:
    """Refuse a function that says something else of a row where it is alone, or far behind.

    near: a model of some rows; size: of all. Once the row is the only one, and then all rows are
    equal to it, as many as there are. A maximum of a column, its last row, its length, and a
    threshold of n are others then. In plain Python.
    """
    if near.log_likelihood is None:
        return
    columns = {n: a for n, a in near.data._asdict().items() if np.ndim(a) and n not in near.tables}
    rows = np.unique(np.linspace(0, near.size - 1, LOOKED).astype(int)).tolist()
    for ints, floats in some_states(near, STATES, np.random.default_rng(7)):
        state = near.state(ints, floats)
        for row in rows:
            wanted = value_of(near, state, near.data, row)
            if wanted is None:
                continue
            for count, places in ((1, (0,)), (size, (0, size // 3, size - 1))):
                data = near.data._replace(**{
                    n: np.broadcast_to(a[row], (count, *a.shape[1:])) for n, a in columns.items()
                })  # fmt: skip
                for n in places:
                    found = value_of(near, state, data, n)
                    if found is None or not is_same(found, wanted):
                        value = np.nan if found is None else found
                        raise ValueError(told(near, ints, floats, row, wanted, n, count, value))


def value_of(near: Any, state: Any, data: Any, n: int) -> float | None:
    """The log likelihood of a datum; None: Python raises an error."""
    try:
        with np.errstate(all="ignore"):
            return float(near.log_likelihood(state, data, n, *near.extra(state)))
    except (ArithmeticError, ValueError, IndexError):
        return None


def is_same(one: float, other: float) -> bool:
    """Are they equal, up to rounding; nan is nan."""
    if np.isnan(one) or np.isnan(other):
        return bool(np.isnan(one) and np.isnan(other))
    return one == other or abs(one - other) <= SAME * (1.0 + abs(other))


def told(near, ints, floats, row, wanted, n, count, found) -> str:
    """What is wrong, in words."""
    where = "it is the only one" if count == 1 else f"it is datum {n} of {count:,} equal ones"
    return (
        f"log_likelihood says {wanted:.6g} of a row{datum_of(near.data, row, near.size)}, and "
        f"{found:.6g} where {where}, in the state {near.show(ints, floats)}: it reads more than "
        "its own row, such as its number n, the last one, or the length or the maximum of a "
        "column. Rows that are elsewhere are read one by one: give what a datum depends on as a "
        "column, and what is made of all of them as a table, sm.Model(..., tables={...})."
    )
