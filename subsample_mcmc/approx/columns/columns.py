"""Columns of a linear predictor, and what second-order sums around a reference know of them.

With one predictor, eta_n = offset_n + x_n.b, a move of b_k by d changes the log likelihood by
g_k d + H_kk d^2 / 2, with g the gradient of the second-order sums where b stands, plus the
difference of each row's residual. That one is at most

    R_n |d x_nk| far_n^2 / 2 (times e^(growth far_n)),

far_n the farthest |eta_n - eta*_n| on the way, as the slope of a residual is at most
R_n |eta_n - eta*_n|^2 / 2: R_n bounds the third derivative, and eta* are the predictors at the
reference. Where all predictors are kept, far is known: no Cauchy-Schwarz over d coefficients, which
makes bounds sqrt(d)^3 times as wide.

Columns are kept one after the other, in single precision where they are no less exact in it: a
move reads one of them.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_predictors import Linear, steps_of
from subsample_mcmc.approx.taylor.passes.predictor_blocks import PredictorBlock, PredictorRows
from subsample_mcmc.approx.taylor.polynomial import metric_of
from subsample_mcmc.approx.taylor.predictor_chunks import chunk_of, every, read_chunk
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.dyadic import BLOCK

# Rows, over the square of how many coefficients there are, up to which it pays: a move that is
# accepted reads a column, a decision by sums over all coefficients costs their square.
PAYS = 10
EXPECTED = 0.125  # of the bound of what residuals take off, seen in logistic regressions
PATIENT = 2.0  # seconds after which a progress bar appears


class ColumnSums(NamedTuple):
    """Of one model and reference; shared by all chains."""

    x: np.ndarray  # (d, N) slopes of the predictor, float64 or float32
    offset: np.ndarray  # (N,) the predictors where all coefficients are 0
    there: np.ndarray  # (N,) and at the reference
    point: np.ndarray  # (d,) the reference
    slopes: np.ndarray  # (d,) derivatives of the log likelihood there
    curvature: np.ndarray  # (d, d)
    metric: np.ndarray  # (d, d) the same, turned round, and not negative in any direction
    largest: np.ndarray  # (d,) slopes of any row
    lengths: np.ndarray  # (2, d) roots of the sums of squares of a column, and of fourth powers
    losses: np.ndarray  # (d,) what residuals take off acceptance, over |d| and a squared distance
    third: float  # bound of the third derivative of a row at the reference
    growth: float
    steep: float  # the largest derivative there
    rounding: float  # of one row's residual
    source: Any  # where derivatives come from: Linear


def serves(model) -> bool:
    """Has a model one predictor with proved bounds, in memory, and few enough rows."""
    given, d = model.predictors, len(model.floats)
    if given is None or given.derivatives is None or given.remainder is None:
        return False
    if model.elsewhere is not None or model.size > PAYS * d * d:
        return False
    return given.count(model) == 1 and all(v.place < 0 for v in model.variables.values())


def columns_of(model, control, point: np.ndarray) -> ColumnSums:
    """Passes over the data, made once for a control variate and its reference."""
    known = model.prepared.setdefault(ColumnSums, WeakKeyDictionary()).setdefault(control, {})
    if (key := point.tobytes()) not in known:
        if model.noticed is None:
            model.notice_changes()  # later changes are of these data
        known[key] = make_columns(model, point)
    return known[key]


def make_columns(model, point: np.ndarray) -> ColumnSums:
    """Three passes: sums, slopes, and what is known of rows at the reference."""
    source, ints = Linear(model, 2, False, point), np.zeros_like(model.ints)
    bar = Bar(total=3 * model.size, desc="columns", unit="row", unit_scale=True, delay=PATIENT)
    with bar:
        _, slopes, curvature, _ = source.sums(ints, point, every, bar)
        x, offset = slopes_of(source, ints, bar)
        there, f, v, r = at_reference(source, ints, point, bar)
    if not (np.all(r >= 0.0) and np.all(np.isfinite(r))):
        raise ValueError(
            f"remainder returned {r[~((r >= 0.0) & np.isfinite(r))][0]:.6g}: bounds must be "
            "numbers, 0 or more."
        )
    if not (np.all(np.isfinite(v)) and np.all(np.isfinite(f[:2]))):
        raise ValueError("log_factor, or its derivatives, are not finite at the reference.")
    largest, sizes, *lengths = np.zeros((4, len(x)))
    for k, column in enumerate(x):
        size = np.abs(column.astype(float))
        largest[k], sizes[k], square = size.max(), size.sum(), size * size
        lengths[0][k], lengths[1][k] = square.sum() ** 0.5, (square * square).sum() ** 0.25
    third, bends = float(r.max()), max(float(np.abs(f[1]).sum()), 1e-300)
    return ColumnSums(
        x, offset, there, point, slopes, curvature, positive(-curvature), largest,
        np.array(lengths), EXPECTED * third * sizes / bends, third, float(model.predictors.growth),
        float(np.abs(f[0]).max()), 1e-13 * float(np.abs(v).max()), source,
    )  # fmt: skip


def positive(curvature: np.ndarray) -> np.ndarray:
    """It, or the nearest that measures no square below 0."""
    if np.linalg.eigvalsh(curvature)[0] >= 0.0:
        return curvature
    root = metric_of(curvature)[0]
    return root.T @ root


def slopes_of(source: Linear, ints, bar) -> tuple[np.ndarray, np.ndarray]:
    """(slopes, a column after the other; predictors where all coefficients are 0)."""
    model = source.model
    d, size = len(model.floats), model.size
    x, offset, rooms = np.zeros((d, size), np.float32), np.zeros(size), dict[int, Any]()
    for _, begin, end, rows in source.pieces(0, source.blocks.count, 1):
        if rows not in rooms:
            rooms[rows] = source.room(ints, np.zeros(d), rows, 0, bounded=False)
        reader, read, e = rooms[rows]
        read_chunk(reader, begin)
        found = read.x[0, :, :rows]
        x[:, begin:end], offset[begin:end] = found, e[0]
        if x.dtype == np.float32 and not np.array_equal(x[:, begin:end], found):
            x = x.astype(float)
            x[:, begin:end] = found
        bar.update(rows)
    return x, offset


def at_reference(source: Linear, ints, point, bar) -> tuple[np.ndarray, ...]:
    """(predictors, (2, N) derivatives, log factors, bounds of the third derivative)."""
    size = source.model.size
    there, v, r, f, rooms = *np.zeros((3, size)), np.zeros((2, size)), dict[int, Any]()
    for _, begin, end, rows in source.pieces(0, source.blocks.count, 1):
        if rows not in rooms:
            rooms[rows] = room_without_slopes(source, ints, point, rows)
        reader, read, e = rooms[rows]
        read_chunk(reader, begin)
        there[begin:end], f[:, begin:end] = e[0], read.f[:2, :rows]
        v[begin:end], r[begin:end] = read.v[:rows], read.r[:rows]
        bar.update(rows)
    return there, f, v, r


def room_without_slopes(source: Linear, ints, point, size: int) -> tuple:
    """See Linear.room: of a block of which no slopes are read."""
    model, floats = source.model, point.copy()
    e, moved = np.zeros((2, 1, size))
    rows = PredictorRows(
        np.zeros((1, 0, BLOCK)), np.zeros((source.told, BLOCK)), np.zeros(BLOCK), np.zeros(BLOCK),
        np.zeros((0, BLOCK)),
    )  # fmt: skip
    state = model.state(np.array(ints), floats)
    own = PredictorBlock(
        state, model.data, floats, steps_of(point), source.widths, e, moved, source.order, rows
    )
    return chunk_of(source.reader, own), rows, e
