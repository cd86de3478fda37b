"""Derivatives of a log likelihood in which linear predictors were found.

Residuals are those of jets: of log_likelihood itself, along their own step, in two passes over a
mini-batch where that can be (two_passes.py). Sums are made of each
row's predictors: an orthonormal basis of the slopes that a tape holds (numerics/jets/tapes.py), the
derivatives along it, and moments of these, as of sm.Predictors. So a sum of third order takes two
or three calls a row, whatever the number of parameters, where lines take parameters^3 / 48.

Nothing is taken on trust: of every row that is added up, derivatives along a direction at random
are compared with those that its predictors give. Two polynomials that agree there are the same.
"""

from functools import cached_property
from typing import Any

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import (
    Jets,
    NotSmoothError,
    functions_of,
    on_lines,
    told,
)
from subsample_mcmc.approx.taylor.derivatives_predictors import linear_residuals, proved_scores
from subsample_mcmc.approx.taylor.found.bounds_found import bounds_of
from subsample_mcmc.approx.taylor.found.row_slopes import Kept, RowSlopes, compare, fill_partials
from subsample_mcmc.approx.taylor.found.two_passes import (
    both_passes,
    has_two_passes,
    source_of,
)
from subsample_mcmc.approx.taylor.passes.moments import (
    Places,
    add_rows,
    apart,
    numbers_of,
    places,
)
from subsample_mcmc.approx.taylor.references import scales_by
from subsample_mcmc.approx.taylor.tensors import lines_of, tensors
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import NUMBA_ERRORS
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.dyadic import BLOCK, Tree, in_threads, sum_of_rows

MOST = 4  # predictors of a row
# Data from which they, and bounds, are looked for where jets serve, too: of fewer a run takes less
# time than what is compiled for them, some seconds once a likelihood.
MANY = 10_000
CUBIC = 40  # parameters up to which third order is the default, as for sm.Predictors
SAMPLE = 64  # rows that are looked at beforehand
# By what derivatives of one row along a random direction may differ from those by its predictors:
# of all of them, and of the log likelihood; and those of all rows, in nats, and of all of them.
LOOSE, FLOOR, NATS, ROUNDING = 1e-6, 1e-12, 1e-7, 1e-10
ROUNDED = 1e-13  # of the largest log likelihood, by which a residual may be off


class NoPredictorsError(Exception):
    """A log likelihood that is not one of few predictors; the message says why."""


# ---------------------------------------------------------------------- which models have them
class PredictorsAsked:
    """The key under which a model keeps how many predictors its rows have."""


ASKED = PredictorsAsked()


def predictors_of(model) -> tuple[int, str]:
    """(how many predictors some rows have at the initial state, why they are not used)."""
    if ASKED not in model.prepared:
        model.prepared[ASKED] = looked_for(model)
    return model.prepared[ASKED]


def looked_for(model) -> tuple[int, str]:
    """See `predictors_of`; where they are as many as parameters, nothing is gained by them."""
    if model.prepare is not None:
        return 0, "no predictors are looked for in what prepare makes of the parameters"
    d = len(model.floats)
    scales = scales_by(np.zeros(d), model.floats)
    most, where = 0, 0
    try:
        rows = rows_of(model, model.ints, model.floats, scales, 1)
        with np.errstate(all="ignore"):
            for n in np.unique(np.linspace(0, model.size - 1, SAMPLE).astype(int)):
                rank = int(rows.find(int(n), np.ones(1))[0])
                if rank > most:
                    most, where = rank, int(n)
    except (CompileError, *NUMBA_ERRORS) as error:
        return 0, f"no predictors are found: {told(error)}"
    except (ImportError, AttributeError, TypeError, IndexError) as error:
        return 0, f"no predictors are found: {type(error).__name__}: {str(error)[:200]}"
    return most, too_many(model, where) if MOST < most < d else ""


def too_many(model, row: int) -> str:
    """Why they are not used."""
    return (
        f"datum {row}{datum_of(model.data, row, model.size)} sees the parameters through more than "
        f"{MOST} predictors"
    )


def rows_of(model, ints, point, scales, size: int) -> RowSlopes:
    """Room for some rows at a reference."""

    def on_tape(model, ints, floats, slopes):
        return pointer_to(on_lines(model, ints, floats, slopes))

    return RowSlopes(model, on_tape, ints, point, scales, size, MOST)


@memoised
def matrices_of(count: int, cubic: bool) -> tuple[np.ndarray, Kept, Places]:
    """(lines as combinations of predictors, what makes derivatives of them, their places)."""
    lines = lines_of(count, cubic)
    turns = np.zeros((len(lines), count))
    for k, (where, signs) in enumerate(lines):
        turns[k, list(where)] = signs
    each = []
    for k in range(len(lines)):
        one = np.zeros((len(lines), 4))
        one[k] = 1.0
        each.append(tensors(one, count, cubic)[1:])
    two = np.triu_indices(count)
    first, second = (np.array([e[i] for e in each]) for i in (0, 1))
    third = np.zeros((0, len(lines)))
    if cubic:
        threes = [(a, b, c) for a in range(count) for b in range(a, count) for c in range(b, count)]
        third = np.array([[e[2][t] for e in each] for t in threes])
    own = Kept(first.T.copy(), second[:, two[0], two[1]].T.copy(), third)
    return turns, pointer_to(own), pointer_to(places(count, 3 if cubic else 2))


# -------------------------------------------------------------------------------------- the source
class Found(Jets):
    """Jets, whose sums are made by the predictors that were found in log_likelihood."""

    def __init__(self, model, order: int, several: bool = False):
        """several: are there several references."""
        super().__init__(model, order)
        self.several = several
        self.bounds: Any = None  # what `confirm` found of them
        self.two_passes = False  # are residuals to be had so (two_passes.py)

    def known(self) -> bool:
        """Is each row's remainder bounded, within a distance."""
        return self.bounds is not None and not self.bounds.why

    @property
    def constant(self) -> bool:  # type: ignore[override]
        """Does h have the value at the reference: with one reference it is the same everywhere."""
        return self.several or not self.two_passes

    @property
    def needs(self) -> str:  # type: ignore[override]
        """What a proof would need."""
        why = (
            "" if self.bounds is None else f", which log_likelihood has none of: {self.bounds.why}"
        )
        return f"bounds by intervals{why}"

    def told_bound(self) -> str:
        """Within which distance they hold, or why there are none."""
        if self.bounds is None:
            return ""
        if self.bounds.why:
            return f"none, as {self.bounds.why}"
        every = self.bounds.each.values()
        least, far = min(one.reach for one in every), min(one.far.reach for one in every)
        told = f"by intervals, up to {least:.1f} from the reference"
        if far > 0.0:
            times = max(one.far.times for one in every)
            told += f" ({times:.2g} times as large ones up to {far:.0f})"
        return f"{told} in posterior standard deviations"

    def within(self, ints, point) -> tuple[float, ...]:
        """The last of Terms.limits."""
        own = self.bounds.of(ints, point)
        far = own.far
        return own.reach, float(own.several), far.reach, far.times, ROUNDED * far.value

    def reaches_far(self) -> bool:
        """Has some reference bounds farther out, too."""
        return self.known() and any(one.far.reach > 0.0 for one in self.bounds.each.values())

    def remainders(self, ints, point, keep, bar, inverse, scores=None) -> np.ndarray:
        """Remainder of the sum and of the largest row, growth, rounding."""
        own = self.bounds.of(ints, point)
        raced = np.where(keep(0, self.model.size) > 0.0, own.rows, 0.0).astype(float)
        if scores is not None:
            known = proved_scores(own.rows.astype(float), np.ones(1), self.order, 0.0)
            np.fmax(scores, known, out=scores, casting="same_kind")
        rounding = ROUNDED * own.value
        return np.array([sum_of_rows(raced) * (1.0 + 1e-9), raced.max(), 0.0, rounding])

    def row_bounds(self, ints, point, bar, inverse) -> np.ndarray:
        """Bounds of each row's residual at distance 1, but for factors that all rows share."""
        return self.bounds.of(ints, point).rows.astype(float)

    def kept(self) -> tuple:
        """What takes a pass over the data."""
        return self.bounds, self.two_passes

    def restore(self, kept: tuple) -> None:
        """The inverse of kept()."""
        self.bounds, self.two_passes = kept

    def bind(self, ints, floats, steps) -> tuple[Any, Any]:
        """The line of one chain, or room for its mini-batches."""
        if not self.two_passes:
            return super().bind(ints, floats, steps)
        return (), source_of(self.model, ints, floats, steps)

    @property
    def residuals(self) -> Any:
        """Rewards, from which `reading` subtracts; of two passes, all of it is `reading`."""
        return linear_residuals if self.two_passes else super().residuals

    @cached_property
    def reading(self) -> Any:
        """The hot loop."""
        if not self.two_passes:
            return super().reading
        return both_passes(functions_of(self.model)[0], self.order > 2, self.constant)

    def confirm(self, references, configured) -> None:
        """Make the sums over all rows; raises NoPredictorsError."""
        with bar_of(3 * self.model.size * len(references)) as bar:
            for table, point in enumerate(references):
                self.sums(configured(table), point, Every(), bar, table)
            self.bounds = bounds_of(self, references, configured, bar)
        self.two_passes = has_two_passes(self.model, references, configured)

    def sums(self, ints, point, keep, bar, table: int = 0):
        """(s0, s1, s2, s3) at a reference, over the rows that are kept."""
        if table in self.full and not len(keep.outliers):
            return self.full[table]
        return super().sums(ints, point, keep, bar, table)

    def along_lines(self, ints, point, keep, bar, scales=None, table: int = 0) -> tuple:
        """(s0, s1, s2, s3) of some rows; their predictors are told apart in units of scales."""
        d, cubic = len(point), self.order > 2
        if scales is None:
            unit = np.eye(d)
            first = self.totals(ints, point, unit, keep)
            if not np.all(np.isfinite(first[:, : 4 if cubic else 3])):
                raise NotSmoothError(
                    "log_likelihood, or a derivative of it, is not finite at "
                    f"{self.model.show(np.array(ints), point)}"
                )
            scales = scales_by(2.0 * first[:, 2], point)
            self.scales[table] = scales
        away = np.random.default_rng(11).standard_normal(d)

        def part(first, last):
            return self.some_sums(ints, point, keep, scales, away, bar, first, last)

        total = in_threads(part, 0, self.blocks.count).root(self.blocks.count)
        seen, total = total[-2:], total[:-2]
        if not seen[0] <= NATS + ROUNDING * seen[1]:
            raise NoPredictorsError(
                f"predictors leave {seen[0]:.2g} nats of derivatives over all data unexplained"
            )
        s0, s1, s2, s3 = apart(total, d, d)
        b, c = np.tril_indices(d)
        s3 = s3 / (scales[:, None] * (scales[b] * scales[c])[None]) if cubic else np.zeros((d, 0))
        return s0, s1 / scales, s2 / np.outer(scales, scales), s3

    def some_sums(
        self, ints, point, keep, scales, away, bar, first: int, last: int, origin: int = 0
    ) -> Tree:
        """The same sums of some blocks, in units of scales, and what `compare` saw: of the tree.

        origin: which block of all rows the model's first row begins, where these are its own.
        """
        d, cubic, tree = len(point), self.order > 2, Tree()
        own = rows_of(self.model, ints, point, scales, BLOCK)
        for block, begin, end in self.blocks.chunks(first, last, 1):
            weights, sums = keep(begin, end), np.zeros(numbers_of(d, cubic))
            seen = np.zeros(2)
            if weights.any():
                with np.errstate(all="ignore"):
                    ranks = own.find(begin, weights)
                    count = int(np.clip(ranks.max(), 1, MOST))
                    turns, matrices, where = matrices_of(count, cubic)
                    q, f = own.q[:count, : len(weights)], np.zeros((len(weights), where.used))
                    q = np.ascontiguousarray(q)
                    along = own.derive(begin, weights, turns, away)
                    fill_partials(along, matrices, f)
                    bad = compare(
                        where, along, q, f, away, cubic, weights, LOOSE, FLOOR, np.zeros(count),
                        seen,
                    )  # fmt: skip
                    if bad >= 0 or ranks.min() < 0:
                        n = begin + (bad if bad >= 0 else int(ranks.argmin()))
                        raise NoPredictorsError(too_many(self.model, n))
                    add_rows(where, q, f, along[:, 0, 0], weights, sums)
            tree.add_blocks(origin + block, np.append(sums, seen)[None])
            if bar is not None:
                bar.update(end - begin)
        return tree


class Every:
    """Weights of rows that are all kept."""

    outliers = np.zeros(0, dtype=np.int64)

    def __call__(self, first: int, last: int) -> np.ndarray:
        return np.ones(last - first)


def bar_of(total: int) -> Bar:
    """Of one pass over the data for each configuration."""
    return Bar(total=total, desc="predictors", unit="row", unit_scale=True, delay=2.0)
