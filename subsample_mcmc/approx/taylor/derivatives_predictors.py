"""Taylor residuals of a likelihood that sees the parameters through linear predictors.

With eta_n = X_n x, all derivatives by x are those by eta times columns of X_n: a few numbers per
datum, whatever the number of parameters. X_n itself is read off eta: it is affine, so differences
of it are exact. Where derivatives are differences too, they need not be accurate: the same numbers
stand in the residuals and in the sums, and sum_n h is what it is said to be. Sums are made in all
threads, along a tree of blocks of rows: the same data give the same sums, to the last bit.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from subsample_mcmc.approx.control import read_residuals
from subsample_mcmc.approx.taylor.checks import (
    check_affine,
    check_derivatives,
    check_eta,
    check_remainder,
    check_sizes,
    typical,
)
from subsample_mcmc.approx.taylor.passes.moments import (
    add_blocks,
    apart,
    numbers_of,
    places,
    scratch_of,
)
from subsample_mcmc.approx.taylor.passes.predictor_blocks import (
    PredictorBlock,
    PredictorRows,
    ReadRows,
    block_reader,
    read_lengths,
)
from subsample_mcmc.approx.taylor.passes.roundings import roundings_of
from subsample_mcmc.approx.taylor.polynomial import locate
from subsample_mcmc.approx.taylor.predictor_chunks import (
    GIVEN,
    chunk_of,
    every,
    read_given,
    reader_of,
    residuals_of,
    source_of,
)
from subsample_mcmc.approx.taylor.references import used_of
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.dyadic import (
    BLOCK,
    RowBlocks,
    SumsAndMaxima,
    Tree,
    blocks_of,
    each_part,
)
from subsample_mcmc.target.exact_sums import MASK, entry
from subsample_mcmc.target.reuse.nodes import pass_name, root_of
from subsample_mcmc.target.rewards import place
from subsample_mcmc.target.user_functions import plain


# ------------------------------------------------------- one datum's log factor in its predictors
def expanded(model, count: int, order: int) -> Any:
    """expand(e, data, n, widths) -> the partial derivatives of log_factor, as one tuple.

    All that there are, so that expansions of both orders share what is compiled with it.
    """
    predictors = model.predictors
    if predictors.derivatives is not None:
        given = jit(predictors.derivatives, flags=FLAGS, user=True, inner="always")
        last = 2 if cubic(model) else 1

        @jit(flags=FLAGS, inner="always")
        def expand(e, data, n, widths):
            return given(e, data, n)

        @jit(flags=FLAGS, inner="always")
        def expand_numbers(e, data, n, widths):
            f = given(e, data, n)  # whole numbers among them are as good
            return 1.0 * f[0], 1.0 * f[1], 1.0 * f[last]

        return expand_numbers if count == 1 else expand
    of_eta = jit(predictors.log_factor, flags=FLAGS, user=True, inner="always")
    if count == 1:

        @jit(flags=FLAGS, inner="always")
        def expand_one(e, data, n, widths):
            h = widths[0]
            up, middle, down = of_eta(e + h, data, n), of_eta(e, data, n), of_eta(e - h, data, n)
            upper, lower = of_eta(e + 2.0 * h, data, n), of_eta(e - 2.0 * h, data, n)
            return (
                (8.0 * (up - down) - (upper - lower)) / (12.0 * h),
                (16.0 * (up + down) - (upper + lower) - 30.0 * middle) / (12.0 * h * h),
                (upper - lower - 2.0 * (up - down)) / (2.0 * h * h * h),
            )

        return expand_one
    if count != 2 or order > 2:
        raise ValueError(
            f"{count} predictors at order {order} need Predictors(derivatives=...): differences "
            "serve one predictor, and two at second order."
        )

    @jit(flags=FLAGS, inner="always")
    def expand_two(e, data, n, widths):
        a, b, h, k = e[0], e[1], widths[0], widths[1]
        middle = of_eta((a, b), data, n)
        right, left = of_eta((a + h, b), data, n), of_eta((a - h, b), data, n)
        up, down = of_eta((a, b + k), data, n), of_eta((a, b - k), data, n)
        both = of_eta((a + h, b + k), data, n) + of_eta((a - h, b - k), data, n)
        return (
            (right - left) / (2.0 * h),
            (up - down) / (2.0 * k),
            (right - 2.0 * middle + left) / (h * h),
            (both - right - left - up - down + 2.0 * middle) / (2.0 * h * k),
            (up - 2.0 * middle + down) / (k * k),
        )

    return expand_two


def contraction(count: int, order: int) -> Any:
    """value(f, e, e0): the polynomial in e - e0 with partial derivatives f, without constant."""
    cubic = order > 2
    if count == 1:

        @jit(flags=FLAGS, inner="always")
        def of_one(f, e, e0):
            t = e - e0
            value = f[0] + 0.5 * f[1] * t
            if cubic:
                value += f[2] * (t * t) / 6.0
            return value * t

        return of_one

    @jit(flags=FLAGS, inner="always")
    def of_many(f, e, e0):
        value, at = 0.0, count
        for k in range(count):
            value += f[k] * (e[k] - e0[k])
        for k in range(count):
            for l in range(k, count):
                weight = 0.5 if k == l else 1.0
                value += weight * f[at] * (e[k] - e0[k]) * (e[l] - e0[l])
                at += 1
        if cubic:
            for k in range(count):
                for l in range(k, count):
                    for m in range(l, count):
                        weight = 1.0 if k < l < m else 1.0 / 6.0 if k == m else 0.5
                        product = (e[k] - e0[k]) * (e[l] - e0[l]) * (e[m] - e0[m])
                        value += weight * f[at] * product
                        at += 1
        return value

    return of_many


# --------------------------------------------------------------------------------------- the source
AWAY = 2.0  # standard deviations of a row's predictors at which its residual is looked at
MOST_BLOCKS, MOST_ADDED = 31, 128  # that are read at a time, and added up ...
CHUNK_BYTES = 1 << 22  # ... of these sums, at most
REMAINDERS = SumsAndMaxima(4)
LARGEST = 1e30  # of residuals that are told apart: in single precision, too
SMALL = (1e-2, 1e-3)  # of differences for one and two predictors, in units of their curvature


def cubic(model) -> bool:
    """Are there third derivatives: given, or of one predictor."""
    given, state = model.predictors, model.state(model.ints, model.floats)
    eta = plain(given.eta, "eta", "eta(state, data, n)")(state, model.data, 0)
    count = len(eta) if isinstance(eta, tuple) else 1
    if given.derivatives is None:
        return count == 1
    called = plain(given.derivatives, "derivatives", "derivatives(eta, data, n)")
    return len(called(eta, model.data, 0)) >= places(count, 3).used


@jit(inner=True)
def linear_residuals(trial, arm, rows, out):
    """l - h of a mini-batch."""
    own = trial.control.arrays
    place(trial, arm)
    locate(own, trial.ints, own.tables[arm])
    read_residuals(trial, arm, rows, out)


class Linear:
    """A source of derivatives: the predictors of a model."""

    needs = (
        "Predictors(derivatives=..., remainder=...): exact derivatives by eta, and a bound of the "
        "third and fourth"
    )
    nodes: Any = None  # where nodes of whole blocks are kept: WholeNodes

    def __init__(self, model, order: int, constant: bool, point=None):
        """point: a reference; None: another source has looked at the predictors (see `restore`)."""
        self.model, self.order, self.constant = model, order, constant
        self.blocks = RowBlocks([(0, model.size)])  # of the rows that are added up
        given = model.predictors
        state = model.state(model.ints, model.floats)
        first = plain(given.eta, "eta", "eta(state, data, n)")(state, model.data, 0)
        self.count = len(first) if isinstance(first, tuple) else 1
        self.widths = np.zeros(self.count)
        if point is not None:
            check_eta(first)
            check_affine(model, self.count)
            nat = typical(model, self.count, point)
            self.widths = SMALL[min(self.count, 2) - 1] * nat
            if given.derivatives is not None:
                check_derivatives(model, self.count, order, 0.1 * self.widths)
                if given.remainder is not None:
                    check_remainder(model, self.count, order, nat)
                    if self.rounds():
                        check_sizes(model, float(nat[0]))
        self.eta = jit(given.eta, flags=FLAGS, user=True, inner="always")
        self.of_eta = jit(given.log_factor, flags=FLAGS, user=True, inner="always")
        self.expand = expanded(model, self.count, order)

    def known(self) -> bool:
        """Are remainders bounded, whatever the parameters."""
        given = self.model.predictors
        return given.remainder is not None and given.derivatives is not None

    def within(self, ints, point) -> tuple[float, ...]:
        """The last of Terms.limits: their bounds hold everywhere."""
        return 0.0, 0.0, 0.0, 0.0, 0.0

    def told_bound(self) -> str:
        """Of what a polynomial leaves over, in words."""
        return "those of remainder" if self.known() else ""

    def kept(self) -> tuple:
        """What the sums were made with, besides the model."""
        return (self.widths,)

    def restore(self, kept: tuple) -> None:
        """The inverse of kept()."""
        (self.widths,) = kept

    def bind(self, ints, floats, steps) -> tuple[Any, Any]:
        """What the residuals of one chain need."""
        return (), source_of(self.model, ints, floats, self.widths)

    @cached_property
    def leave(self) -> Any:
        """Compiled (data, widths, here, there, rows, out): l - h, predictors moved to `here`."""
        of_eta, expand, of = self.of_eta, self.expand, entry(self.count)
        polynomial, constant = contraction(self.count, self.order), self.constant

        @jit(flags=FLAGS, disjoint=True, inner=True)
        def leave(data, widths, here, there, rows, out):
            for i in range(np.uint64(len(rows))):
                n = np.int64(rows[i]) & MASK
                e, e0 = of(here, i), of(there, i)
                value = of_eta(e, data, n) - polynomial(expand(e0, data, n, widths), e, e0)
                if constant:
                    value -= of_eta(e0, data, n)
                out[i] = value

        return leave

    @property
    def residuals(self) -> Any:
        """All of it is `reading`."""
        return linear_residuals

    @cached_property
    def reading(self) -> Any:
        """The hot loop: fills out with l - h of a mini-batch.

        First all predictors, then all log factors: the second loop vectorises.
        """
        look, leave = reader_of(self.eta, self.count), self.leave

        @jit(inner="entry")
        def read(context, source, arm, rows, out):
            widths, here, there = source.widths, source.here, source.there
            if arm != GIVEN:
                look(context.state, context.data, rows, here)
                look(source.reference, context.data, rows, there)
            leave(context.data, widths, here, there, rows, out)
            return 0.0

        return read

    # ----------------------------------------------------------------------------------- sums
    @cached_property
    def reader(self) -> Any:
        """Reads a block of rows: see block_reader. One for both orders."""
        given = self.model.predictors
        return block_reader(given, self.eta, self.of_eta, self.expand, self.count, self.told)

    @cached_property
    def told(self) -> int:
        """How many derivatives `expand` tells."""
        if self.count == 1:
            return 3
        return places(self.count, 3 if cubic(self.model) else 2).used

    def sums(self, ints, point, keep, bar, table: int = 0) -> Any:
        """(s0, s1, s2, s3) at a reference: one pass over the data.

        keep(first, last): weights 1 and 0 of rows, 0 for rows that are always read.
        """
        blocks, _ = self.blocks, self.reader  # compiled before there are threads

        def part(first, last):
            return self.some_sums(ints, point, keep, bar, first, last)

        total = root_of(self.nodes, pass_name("moments", keep), part, blocks.count)
        return apart(total, used_of(self.model, ints), len(point))

    def some_sums(self, ints, point, keep, bar, first: int, last: int, origin: int = 0) -> Tree:
        """The same sums of some blocks, one after the other, as a part of the tree of all.

        origin: which block of all rows the model's first row begins, where these are its own.
        """
        where, scratch = pointer_to(places(self.count, self.order)), scratch_of(self.count)
        numbers, tree = numbers_of(used_of(self.model, ints), self.order > 2), Tree()
        most = max(1, min(MOST_ADDED, CHUNK_BYTES // (8 * numbers)))
        rooms = dict[int, Any]()
        for block, begin, end, size in self.pieces(first, last, most):
            if size not in rooms:
                rooms[size] = self.room(ints, point, size, self.told, bounded=False)
            reader, rows, _ = rooms[size]
            sums = np.zeros((blocks_of(end - begin), numbers))
            add_blocks(reader, rows, where, begin, keep(begin, end), scratch, sums)
            tree.add_blocks(origin + block, sums)
            bar.update(end - begin)
        return tree

    def remainders(self, ints, point, keep, bar, inverse, scores=None) -> np.ndarray:
        """Remainder of the sum and of the largest row, growth, rounding: a second pass.

        scores: where what each row's residual may come to is written, if that is more.
        """
        blocks, _ = self.blocks, self.reader

        def part(first, last):
            return self.some_remainders(ints, point, keep, bar, inverse, scores, first, last)

        name = pass_name("remainders", keep)
        found = root_of(self.nodes, name, part, blocks.count, REMAINDERS)
        return self.limits_of(found)

    def rounds(self) -> bool:
        """Is it proved what rounding may do to sums."""
        return self.count == 1 and self.model.predictors.sizes is not None and self.known()

    def limits_of(self, found: np.ndarray) -> np.ndarray:
        """Of the root of a pass: remainders of the sum and of a row, growth, rounding; W1 to W3."""
        found = np.concatenate([found[[0, 4, 5, 6]], found[1:4]])
        if not np.all(np.isfinite(found[:4])):
            raise ValueError("remainder or log_factor is not finite at the reference.")
        return found if self.rounds() and np.all(np.isfinite(found)) else found[:4]

    def some_remainders(
        self, ints, point, keep, bar, inverse, scores, first: int, last: int, origin: int = 0
    ) -> Tree:
        """The same of some blocks, as a part of the tree of all."""
        tree = Tree(REMAINDERS)
        for chunk in self.chunks(ints, point, keep, bar, inverse, first, last):
            rho, r = chunk.rho, chunk.r
            if not np.all(r >= 0.0):
                raise ValueError(
                    f"remainder returned {r[~(r >= 0.0)][0]:.6g}: bounds cannot be negative or nan."
                )
            if scores is not None:
                own = scores[chunk.first : chunk.first + len(rho)]
                known = proved_scores(r, rho, self.order, self.model.predictors.growth)
                np.fmax(own, known, out=own, casting="same_kind")
            raced = chunk.weights > 0.0
            each = np.where(raced, r * rho ** (self.order + 1), 0.0)
            starts = np.arange(0, len(each), BLOCK)
            largest = each, np.where(raced, rho, 0.0), np.where(raced, np.abs(chunk.v), 0.0)
            found = [np.add.reduceat(each, starts)]
            found += list(chunk.off.T if len(chunk.off) else np.zeros((3, len(starts))))
            found += [np.maximum.reduceat(a, starts) for a in largest]  # nan is told at the end
            factors = np.array([1.0, 1.0, 1.0, 1.0, 1.0, self.model.predictors.growth, 1e-13])
            tree.add_blocks(origin + chunk.block, np.array(found).T * factors)
        return tree

    def row_bounds(self, ints, point, bar, inverse) -> np.ndarray:
        """Bounds of each row's residual at distance 1, but for factors that all rows share."""
        found, _ = np.zeros(self.model.size), self.reader

        def part(first, last):
            for chunk in self.chunks(ints, point, every, bar, inverse, first, last):
                past = chunk.first + len(chunk.v)
                found[chunk.first : past] = chunk.r * chunk.rho ** (self.order + 1)

        list(each_part(part, 0, self.blocks.count))
        return found

    def score(self, ints, point, bar, inverse, scores) -> None:
        """Raise scores to the residuals where a row's predictors are AWAY standard deviations off.

        Each predictor alone, and all of them together. For rows whose remainders have no bound.
        """
        count, _, _ = self.count, self.reader, self.reading
        ways = [*np.eye(count), *([np.ones(count), np.resize([1.0, -1.0], count)] * (count > 1))]
        kind = row_kind(self.model.size)

        def part(first, last):
            for chunk in self.chunks(ints, point, every, bar, inverse, first, last):
                rows = np.arange(chunk.first, chunk.first + len(chunk.v), dtype=kind)
                there, lengths, out = chunk.e, chunk.lengths, np.zeros((2, len(rows)))
                source = source_of(self.model, np.array(ints), point, self.widths, len(rows))
                source.here[:] = source.there[:] = there
                residuals = residuals_of(self.model, self.reading, source)
                read_given(residuals, rows, out[0])
                for way in ways:
                    for far in (AWAY, -AWAY):
                        source.here[:] = there + far * way[:, None] * lengths
                        read_given(residuals, rows, out[1])
                        off = np.minimum(np.abs(out[1] - out[0]), LARGEST)
                        off[~np.isfinite(out).all(axis=0)] = np.inf
                        scores[rows] = np.fmax(scores[rows], off)

        list(each_part(part, 0, self.blocks.count))

    def chunks(self, ints, point, keep, bar, inverse, first: int, last: int) -> Iterator[ReadRows]:
        """What is known of the rows of some blocks, a few blocks at a time.

        inverse: of the metric by which lengths are measured.
        """
        active, p = used_of(self.model, ints), self.count
        turned, t = np.ascontiguousarray(inverse[:active, :active]), np.zeros(BLOCK)
        own, rounds = pointer_to(roundings_of(turned, point, steps_of(point))), self.rounds()
        told, cubic, each = self.told * rounds, self.order > 2, np.zeros((2, BLOCK))
        rooms = dict[int, Any]()
        for block, begin, end, size in self.pieces(first, last, MOST_BLOCKS):
            if size not in rooms:
                rooms[size] = self.room(ints, point, size, told, bounded=True, sized=rounds)
            reader, read, there = rooms[size]
            rows = end - begin
            e, lengths, v, r = np.zeros((p, rows)), np.zeros((p, rows)), *np.zeros((2, rows))
            weights, off = keep(begin, end), np.zeros((rounds * blocks_of(rows), 3))
            read_lengths(
                reader, read, there, begin, turned, t, e, lengths, v, r, weights, own, cubic,
                each, off,
            )  # fmt: skip
            rho = lengths[0] if p == 1 else np.sqrt((lengths * lengths).sum(axis=0))
            yield ReadRows(block, begin, weights, e, lengths, rho, v, r, off)
            bar.update(rows)

    def pieces(self, first: int, last: int, most: int) -> Iterator[tuple[int, int, int, int]]:
        """(block, first row, past its last row, rows of each block) of at most so many blocks.

        A block that is short comes alone.
        """
        for block, begin, end in self.blocks.chunks(first, last, most):
            past = end - (end - begin) % BLOCK
            if begin < past:
                yield block, begin, past, BLOCK
            if past < end:
                yield block + (past - begin) // BLOCK, past, end, end - past

    def room(
        self, ints, point, size: int, derivatives: int, bounded: bool, sized: bool = False
    ) -> tuple:
        """(what reads a block of so many rows, at a point, what is read, and its predictors).

        derivatives: how many are read; bounded: are bounds of the remainder; sized: and sizes.
        """
        model, p, floats = self.model, self.count, point.copy()
        steps = steps_of(point)
        e, moved = np.zeros((2, p, size))
        x, f = np.zeros((p, used_of(model, ints), BLOCK)), np.zeros((derivatives, BLOCK))
        sizes = np.zeros((3 * sized, BLOCK))
        rows = PredictorRows(x, f, np.zeros(BLOCK), np.zeros(BLOCK * bounded), sizes)
        state = model.state(np.array(ints), floats)
        own = PredictorBlock(
            state, model.data, floats, steps, self.widths, e, moved, self.order, rows
        )
        return chunk_of(self.reader, own), pointer_to(rows), e


def steps_of(point: np.ndarray) -> np.ndarray:
    """By how much parameters are moved to read slopes: from far away differences lose digits."""
    return np.exp2(np.ceil(np.log2(np.maximum(np.abs(point), 1.0))))


def proved_scores(bounds, lengths, order: int, growth: float) -> np.ndarray:
    """Bounds of residuals where the predictors of each row are AWAY standard deviations off."""
    far = AWAY * lengths
    power = far ** (order + 1) / (24.0 if order > 2 else 6.0)
    return np.minimum(bounds * power * np.exp(np.minimum(growth * far, 300.0)), LARGEST)
