"""Columns of the data that are almost constant: evidence that sits in rows a race seldom meets.

A race without control variate learns from the rows it reads. Where a column has one value in all
but seventeen of a million rows, its first batch holds none of the seventeen, sees no variance in
what they decide, and the normal approximation calls that certainty. That much can be known before.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.kernel import Kernel, labelled

SAMPLED = 1_000  # rows in which a column is first looked at
COMMON = 0.95  # share of them that have one value, if the column is almost constant
MISSED = 1.0  # rows with other values that a first batch holds on average, at most: it may miss all
FEW = 60  # batches of data up to which a race that may retreat does so before its first look
WIDE = 256  # columns of a matrix that are looked at
PIECE = 1 << 20  # rows at a time
MANY = 100_000_000  # data beyond which nothing is counted


class Sparse(NamedTuple):
    """An almost constant column."""

    name: str  # as the user writes it
    value: float
    others: int  # rows with other values


def sparse_columns(model, batch: int) -> Iterator[Sparse]:
    """Columns in which so few rows differ from the rest that a first batch may hold none."""
    size = model.size
    if not 2 * batch < size <= MANY:
        return
    rows = np.unique(np.linspace(0, size - 1, SAMPLED).astype(np.int64))
    for name, values in zip(model.data._fields, model.data, strict=True):
        if not isinstance(values, np.ndarray) or values.ndim not in (1, 2) or len(values) != size:
            continue
        flat = values[:, None] if values.ndim == 1 else values[:, :WIDE]
        few = flat[rows]
        for j in range(flat.shape[1]):
            found, counts = np.unique(few[:, j], return_counts=True)
            value = found[np.argmax(counts)]
            if counts.max() < COMMON * len(rows) or value != value:
                continue
            most, others = MISSED * size / batch, 0
            for first in range(0, size, PIECE):
                others += int(np.count_nonzero(flat[first : first + PIECE, j] != value))
                if others > most:
                    break
            if 0 < others <= most:
                label = f"data.{name}" + (f"[n, {j}]" if values.ndim == 2 else "[n]")
                yield Sparse(label, float(value), others)


def warn_of_sparse_columns(kernel: Kernel, model) -> None:
    """Say which columns a kernel that races without control variate may never see."""
    known: dict[int, list[Sparse]] = {}
    for label, leaf in labelled(kernel):
        selector: Any = getattr(leaf, "selector", None)
        told = leaf.facts(model)
        races = isinstance(selector, Racing) and told["guarantee"] == "asymptotic"
        if not races or getattr(leaf, "control", None) is not None or told["rows"] != model.size:
            continue
        batch = int(selector.batch or selector.rule.batch)
        if selector.retreat and model.size <= FEW * batch:
            continue
        if batch not in known:
            known[batch] = list(sparse_columns(model, batch))
        found = known[batch]
        if not found:
            continue
        name, value, count = min(found, key=lambda column: column.others)
        more = f" ({len(found) - 1} more columns are alike)" if len(found) > 1 else ""
        warn(
            f"kernel {label}: {name} is {value:g} in all but {count:,} of {model.size:,} rows"
            f"{more}. A first batch of {batch} rows holds none of them with probability "
            f"{(1.0 - count / model.size) ** batch:.2g}, and a race that sees no variance may "
            f"decide wrongly more often than delta={selector.delta:g}. {remedy(model)}"
        )


def remedy(model) -> str:
    """What there is for the model."""
    sure = "sm.Racing(sm.Betting(bounds=...)), if you know a range, or sm.Exact()."
    if len(model.floats) == 0:
        return f"Use {sure}"
    return (
        "Give it a control variate, control=sm.Taylor(sm.laplace(model)), which looks for rows by "
        f"which a decision may turn and reads them always; or {sure}"
    )
