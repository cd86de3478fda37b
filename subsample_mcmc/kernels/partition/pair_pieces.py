"""What a bilinear score is made of, as users give it: token lists and tables, checked."""

from typing import Any

import numpy as np

RANGE = 500  # ordered categories beyond which a table of all pairs is no longer sensible


def token_lists(name: str, given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, ids, values) as arrays; refuses lists that are not what they should be."""
    if len(given) != 3:
        raise ValueError(f"tokens[{name!r}] has {len(given)} parts: give (indptr, ids, values).")
    indptr, ids = whole(name, given[0]), whole(name, given[1])
    values = np.asarray(given[2], dtype=float)
    if len(indptr) < 2 or indptr[0] != 0 or np.any(np.diff(indptr) < 0) or indptr[-1] != len(ids):
        raise ValueError(
            f"tokens[{name!r}]: indptr must start at 0, never fall, and end at {len(ids)}, the "
            "number of ids."
        )
    if len(values) != len(ids) or not np.all(np.isfinite(values)):
        raise ValueError(f"tokens[{name!r}]: give one finite value for each of {len(ids)} ids.")
    owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((ids, owner))
    twice = (np.diff(ids[order]) == 0) & (np.diff(owner[order]) == 0)
    if twice.any() or np.min(ids, initial=0) < 0:
        who = owner[order][np.flatnonzero(twice)[0]] if twice.any() else int(owner[np.argmin(ids)])
        raise ValueError(
            f"tokens[{name!r}]: mention {who} has a token twice, or a negative one: add up the "
            "values of equal tokens, and number them from 0."
        )
    return indptr, ids, values


def weighted(name: str, given: Any) -> tuple:
    """Token lists and the coefficient of their products."""
    if len(given) != 4:
        raise ValueError(
            f"tokens[{name!r}] has {len(given)} parts: give (indptr, ids, values, coefficient)."
        )
    if not abs(given[3]) < np.inf:
        raise ValueError(f"tokens[{name!r}]: its coefficient is {given[3]}; it must be finite.")
    return (*token_lists(name, given[:3]), float(given[3]))


def scored(name: str, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Categories and the table of their scores."""
    if len(given) != 2:
        raise ValueError(f"tables[{name!r}] has {len(given)} parts: give (codes, table).")
    codes, table = whole(name, given[0]), np.asarray(given[1], dtype=float)
    size = len(table)
    if table.shape != (size, size) or not np.all(np.isfinite(table)):
        raise ValueError(f"tables[{name!r}]: give a square matrix of finite scores.")
    if not np.allclose(table, table.T, rtol=1e-12, atol=1e-12):
        raise ValueError(f"tables[{name!r}] is not symmetric: the order of a pair must not matter.")
    if np.max(codes, initial=-1) >= size:
        raise ValueError(
            f"tables[{name!r}]: codes must be integers below {size}, the size of the table; "
            "negative ones are missing."
        )
    return codes, table


def codes_of(name: str, given: Any, kind: Any = None) -> np.ndarray:
    """Categories, from codes or (codes, kind); ordered ones begin at 0."""
    codes = whole(name, given[0] if isinstance(given, tuple) else given)
    if isinstance(kind, str) and kind == "gap" and np.any(codes >= 0):
        codes = np.where(codes < 0, -1, codes - codes[codes >= 0].min())
        if codes.max() > RANGE:
            raise ValueError(
                f"categories[{name!r}] span {codes.max()}: at most {RANGE}; give coarser ones."
            )
    return np.where(codes < 0, -1, codes)


def whole(name: str, given: Any) -> np.ndarray:
    """Integers; refuses what would be rounded."""
    array = np.asarray(given)
    if array.dtype.kind not in "iub" and not (
        array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(array == np.rint(array))
    ):
        raise ValueError(
            f"{name!r} has dtype {array.dtype}: codes, ids and indptr must be integers; code "
            "missing categories as -1."
        )
    return array.astype(np.int64)
