"""Derivatives of any likelihood that compiles for jets (numerics/jets/): one call for each line.

A residual takes the derivatives along its own step, so it costs a few evaluations whatever the
number of parameters. Sums take as many lines as a symmetric tensor has numbers: along e_i,
e_i + e_j, and of third order e_i - e_j and e_i + e_j + e_k, several at once. Steps are about a
posterior standard deviation, so that little cancels.

Jets know the function where it is read, and nowhere else. So before they are used they are asked
whether it is smooth there: whether each datum's derivatives are those along the opposite direction,
too, and whether their sum is what differences see at half a standard deviation. Where it is not, as
with abs(y - mu), interpolation is the better polynomial.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.polynomial import residuals_by_reading
from subsample_mcmc.approx.taylor.predictor_chunks import Keep, chunk_of, every, read_chunk
from subsample_mcmc.approx.taylor.references import scales_by
from subsample_mcmc.approx.taylor.tensors import by_pairs, first_bent, lines_of, tensors
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.dyadic import BLOCK, RowBlocks, Tree, blocks_of, each_part
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.population import read_only
from subsample_mcmc.target.reuse.nodes import pass_name, root_of
from subsample_mcmc.target.rewards import nothing, probe, rewards_of

FEW = 2  # parameters up to which interpolation is as fast, and an evaluation cheaper
CUBIC = 12  # parameters up to which third order is the default: 364 lines
MOST = 64  # parameters up to which second order is: 2,080 lines
SPAN = 1 << 13  # rows that one thread reads at a time
SAMPLE, RUNS = 20_000, 40  # rows at which jets are compared with differences, in so many runs
CONFIGURATIONS = 16  # of the discrete blocks in which they are, at most
HALF = 0.5  # standard deviations of these rows at which they are
CLOSE = 0.1  # the part by which curvatures may differ there
SLIGHT = 1e-3  # nats there that make no difference
SMOOTH = 0.1  # the part of a difference that is left at half the step; of kinks all over .25


FILLING = "it writes what depends on the parameters into an array (setitem)"


class NotSmoothError(Exception):
    """A likelihood that jets cannot serve at a reference; the message says why."""


class JetSource(NamedTuple):
    """What residuals are computed with."""

    reference: Any  # a state of Points, with the discrete values of the arm in hand
    steps: np.ndarray  # (arms, d) from there
    slopes: np.ndarray  # (d,) of the Points


class AlongLines(NamedTuple):
    """What coefficients of rows along LANES lines are added up with."""

    state: Any  # on these lines
    data: Any
    weights: np.ndarray  # of rows: 0, or not
    out: np.ndarray  # (blocks, 4, LANES), to which sums of values and coefficients are added
    each: np.ndarray  # (rows, 3, LANES), to which each row's are; no rows: to none


# ------------------------------------------------------------------------------ compiled for jets
def jets_of() -> Any:
    """The module that knows jets; imported where they are wanted."""
    if DISABLED:
        from subsample_mcmc.numerics.jets import plain

        return plain
    from subsample_mcmc.numerics.jets import operators

    return operators


def on_lines(model, ints, floats, slopes) -> Any:
    """The blocks as a user's function reads them, the continuous ones as points.

    slopes: (d,) of one line, or (d, LANES).
    """
    jets, parts = jets_of(), []
    for block, values in zip(model.blocks, model.state(ints, floats), strict=True):
        if block.discrete:
            parts.append(values)
            continue
        along = slopes[block.start : block.start + block.length]
        shape = (*values.shape, *slopes.shape[1:])
        parts.append(jets.point(values, read_only(along.reshape(shape))))
    return model.record(*parts)


def preparing(likelihood, prepare, filled: bool, several: bool) -> tuple:
    """(of_datum(state, data, n, made), prepare(state, data), may it allocate), readable for jets.

    What prepare makes of the parameters has derivatives, too, and is made once for many data.
    filled: arrays are, with what depends on the parameters; several: of LANES lines at once.
    """
    jets = jets_of()

    def readable(function):
        return jets.filling(function, several) if filled else jets.readable(function)

    likelihood = readable(likelihood)
    if prepare is not None:
        return likelihood, readable(prepare), True

    @jit(flags=FLAGS, inner="always")
    def of_datum(state, data, n, made):
        return likelihood(state, data, n)

    return of_datum, nothing, False


@memoised
def summing(likelihood, prepare, filled: bool) -> Any:
    """add(context, first), called by its address; context: AlongLines.

    Adds up coefficients of rows from `first` on whose weight is not 0, block by block.
    """
    jets = jets_of()
    of_datum, prepare, allocates = preparing(likelihood, prepare, filled, True)
    coefficients, add_lanes = jets.coefficients_in_lanes, jets.add_lanes
    no_lanes, lanes = jets.no_lanes, jets.LANES

    @jit(flags=FLAGS, inner="entry", user=allocates)
    def add(context, first):
        state, data, weights = context.state, context.data, context.weights
        out, each, made = context.out, context.each, prepare(context.state, context.data)
        for block in range(len(out)):
            value, one, two, three = 0.0, no_lanes(), no_lanes(), no_lanes()
            begin, end = block * BLOCK, block * BLOCK + BLOCK
            end = end if end < len(weights) else len(weights)
            for i in range(np.uint64(begin), np.uint64(end)):
                if weights[i] != 0.0:
                    c = coefficients(of_datum(state, data, (first + np.int64(i)) & MASK, made))
                    value += c[0]
                    one, two, three = one + c[1], two + c[2], three + c[3]
                    if len(each) > 0:
                        at = np.int64(i) * 3 * lanes
                        add_lanes(each, at, c[1])
                        add_lanes(each, at + lanes, c[2])
                        add_lanes(each, at + 2 * lanes, c[3])
            at = block * 4 * lanes
            add_lanes(out, at, value)
            add_lanes(out, at + lanes, one)
            add_lanes(out, at + 2 * lanes, two)
            add_lanes(out, at + 3 * lanes, three)
        return 0.0

    return add


@memoised
def subtracting(likelihood, prepare, filled: bool, cubic: bool) -> Any:
    """read(context, source, arm, rows, out): takes h of a mini-batch from rewards."""
    of_datum, prepare, allocates = preparing(likelihood, prepare, filled, False)
    coefficients = jets_of().coefficients

    # Slopes may overlap with what points hold; rows and `out` overlap with nothing.
    @jit(flags=FLAGS, disjoint=True, inner="entry", user=allocates)
    def read(context, source, arm, rows, out):
        reference, data = source.reference, context.data
        for j in range(len(source.slopes)):
            source.slopes[j] = source.steps[arm, j]
        made = prepare(reference, data)
        for i in range(np.uint64(len(rows))):
            c = coefficients(of_datum(reference, data, np.int64(rows[i]) & MASK, made))
            h = c[0] + c[1] + c[2]
            if cubic:
                h += c[3]
            out[i] -= h
        return 0.0

    return read


def add_along(add, state, data, first: int, weights, out=None, each=None) -> None:
    """Call what `summing` makes; see AlongLines."""
    lanes = jets_of().LANES
    out = np.zeros((blocks_of(len(weights)), 4, lanes)) if out is None else out
    each = np.zeros((0, 3, lanes)) if each is None else each
    chunk = chunk_of(add, AlongLines(state, data, weights, out, each))
    with np.errstate(all="ignore"):
        read_chunk(chunk, first)


# --------------------------------------------------------------------- which models they serve
class Asked:
    """A key under which a model keeps why it has no jets, and whether it fills arrays."""


ASKED, FILLED = Asked(), Asked()


def obstacle(model) -> str:
    """Why a model's log likelihood has no derivatives by jets; empty if it has."""
    if ASKED not in model.prepared:
        why, filled = found_obstacle(model, False), False
        if FILLING in why or "'PlainJet'" in why:  # plain Python puts it so
            filled = found_obstacle(model, True) == ""
        model.prepared[FILLED] = filled
        model.prepared[ASKED] = "" if filled else why
    return model.prepared[ASKED]


def functions_of(model) -> tuple[Any, Any, bool]:
    """(log_likelihood, prepare or None, do they fill arrays)."""
    obstacle(model)
    return (*model.compiled[:2], model.prepared[FILLED])


def found_obstacle(model, filled: bool) -> str:
    """See `obstacle`."""
    d, name = len(model.floats), "log_likelihood" + " or prepare" * (model.prepare is not None)
    if d == 0:
        return "no block is continuous"
    try:
        jets = jets_of()
        slopes = np.zeros((d, jets.LANES))
        state = on_lines(model, model.ints.copy(), model.floats.copy(), slopes)
        likelihood, prepare, _ = model.compiled
        one_row = np.ones(int(DISABLED))  # compiled: of none
        add_along(summing(likelihood, prepare, filled), state, model.data, 0, one_row)
    except CompileError as error:
        return f"{name} does not compile for derivatives: {str(error)[:200]}"
    except NUMBA_ERRORS as error:
        return f"{name} does not compile for derivatives: {told(error)}"
    except (ImportError, AttributeError, TypeError, ValueError, IndexError) as error:
        return f"{name} has no derivatives: {type(error).__name__}: {str(error)[:200]}"
    return ""


def told(error: Exception) -> str:
    """What numba says is wrong, without how it came there."""
    lines = [line.strip(" -\x1b[0123456789m>") for line in str(error).splitlines()]
    starts = ("No implementation", "Unknown", "Cannot", "Invalid", "Use of", "log_likelihood is")
    named = [line for line in lines if line.startswith(starts)]
    places = [line for line in lines if line.startswith("File ") and ", line " in line]
    what = (named or [line for line in lines if line] or ["?"])[0][:160]
    if "setitem" in what:
        what = FILLING
    return what + (f" (line {places[-1].rpartition('line ')[2].rstrip(':')})" if places else "")


# -------------------------------------------------------------------------------------- the source
class Jets:
    """A source of derivatives: log_likelihood itself, compiled for jets."""

    needs = "sm.Predictors(..., remainder=...): a likelihood of linear predictors, with a bound"
    constant = True
    nodes: Any = None  # where nodes of whole blocks are kept: WholeNodes

    def __init__(self, model, order: int, spans=None, free=None):
        """spans: runs of rows, where not all are read; free: coordinates to differentiate by."""
        self.model, self.order = model, order
        size, d = model.size, len(model.floats)
        every = [(first, min(first + SPAN, size)) for first in range(0, size, SPAN)]
        self.spans = every if spans is None else spans
        self.blocks = RowBlocks(self.spans)
        self.free = np.arange(d) if free is None else np.asarray(free)
        self.full: dict[int, tuple] = {}  # sums over all rows, by configuration
        self.scales: dict[int, np.ndarray] = {}
        self.fixed: dict[int, np.ndarray] = {}  # those of fewer rows, whose lines are taken

    def known(self) -> bool:
        """No bound is known of a function that is only evaluated."""
        return False

    def kept(self) -> tuple:
        """Scales of the lines that sums were made along; residuals do not need them."""
        return tuple(self.scales.items())

    def restore(self, kept: tuple) -> None:
        """The inverse of kept()."""
        self.fixed = dict(kept)

    def bind(self, ints, floats, steps) -> tuple[Any, Any]:
        """The line of one chain."""
        slopes = np.zeros(len(floats))
        return (), JetSource(on_lines(self.model, ints, floats, slopes), steps, slopes)

    @property
    def residuals(self) -> Any:
        """Rewards, from which `reading` subtracts."""
        return residuals_by_reading

    @cached_property
    def reading(self) -> Any:
        """The hot loop."""
        likelihood, prepare, filled = functions_of(self.model)
        return subtracting(likelihood, prepare, filled, self.order > 2)

    # ------------------------------------------------------------------------------------- sums
    def sums(self, ints, point, keep, bar, table: int = 0) -> Any:
        """(s0, s1, s2, s3) at a reference, over the rows that are kept."""
        if len(keep.outliers) and table in self.full:
            few = self.of_rows(ints, point, keep.outliers, table)
            return tuple(a - b for a, b in zip(self.full[table], few, strict=True))
        found = self.along_lines(ints, point, keep, bar, self.fixed.get(table), table)
        self.full[table] = found
        return found

    def of_rows(self, ints, point, rows, table: int) -> tuple:
        """The same of a few rows."""
        only = Keep(rows, others=False)
        return self.along_lines(ints, point, only, None, self.scales[table], table)

    def along_lines(self, ints, point, keep, bar, scales=None, table: int = 0) -> tuple:
        """(s0, s1, s2, s3) of some rows: along the coordinates first, whose curvatures give scales.

        keep(first, last): weights of rows, 0 or not.
        """
        free, cubic, d = self.free, self.order > 2, len(point)
        lines = lines_of(len(free), cubic)
        unit, vectors = np.zeros((len(free), d)), np.zeros((len(lines), d))
        unit[np.arange(len(free)), free] = 1.0
        count = -(-len(lines) // jets_of().LANES)
        share = 1.0 / count
        first = self.totals(ints, point, unit, keep, bar, share, name="axes")
        if scales is None:
            scales = scales_by(2.0 * first[:, 2], point[free])
        self.scales[table] = scales
        for k, (where, signs) in enumerate(lines):
            vectors[k, free[list(where)]] = np.array(signs) * scales[list(where)]
        powers = scales[:, None] ** np.arange(4.0)
        found = np.concatenate([
            first * powers,
            self.totals(ints, point, vectors[len(free) :], keep, bar, share, name="lines"),
        ])  # fmt: skip
        if not np.all(np.isfinite(found)):
            raise NotSmoothError(
                "log_likelihood, or a derivative of it, is not finite at "
                f"{self.model.show(np.array(ints), point)}"
            )
        value, gradient, hessian, third = tensors(found, len(free), cubic)
        s1, s2 = np.zeros(d), np.zeros((d, d))
        s1[free], s2[np.ix_(free, free)] = gradient / scales, hessian / np.outer(scales, scales)
        if not cubic:
            return value, s1, s2, np.zeros((d, 0))
        third /= scales[:, None, None] * scales[:, None] * scales
        return value, s1, s2, by_pairs(third)

    def totals(
        self, ints, point, vectors, keep, bar=None, share=1.0, blocks: RowBlocks | None = None,
        name: str = "",
    ) -> np.ndarray:  # fmt: skip
        """(lines, 4): sums of value and coefficients along each vector; by all cores.

        blocks: of other rows than the source's. name: of the pass, if its nodes may be kept.
        """
        groups, blocks = self.states(ints, point, vectors), blocks or self.blocks
        nodes = self.nodes if name else None

        def part(first, last):
            return self.some_totals(groups, blocks, keep, bar, share, first, last)

        found = root_of(nodes, pass_name(name, keep), part, blocks.count)
        return found.reshape(-1, 4)[: len(vectors)]

    def some_totals(
        self, groups, blocks: RowBlocks, keep, bar, share: float, first: int, last: int, origin=0
    ) -> Tree:
        """The same of some blocks, as a part of the tree of all; groups: what `states` made.

        origin: which block of all rows the model's first row begins, where these are its own.
        """
        model, add, tree = self.model, summing(*functions_of(self.model)), Tree()
        lanes = jets_of().LANES
        for block, begin, end in blocks.chunks(first, last, SPAN // BLOCK):
            weights, count = keep(begin, end), blocks_of(end - begin)
            out = np.zeros((len(groups), count, 4, lanes))
            if weights.any():
                for group, own in zip(groups, out, strict=True):
                    add_along(add, group, model.data, begin, weights, own)
            tree.add_blocks(origin + block, out.transpose(1, 0, 3, 2).reshape(count, -1))
            if bar is not None:
                bar.update((end - begin) * share * len(groups))
        return tree

    def states(self, ints, point, vectors) -> list:
        """States on lines, LANES at a time; those that are left over do not move."""
        lanes, groups = jets_of().LANES, []
        for first in range(0, len(vectors), lanes):
            slopes = np.zeros((len(point), lanes))
            some = vectors[first : first + lanes]
            slopes[:, : len(some)] = some.T
            groups.append(pointer_to(on_lines(self.model, np.array(ints), point.copy(), slopes)))
        return groups

    # ------------------------------------------------------------------------------- is it smooth
    def check_smooth(self, points, configured) -> None:
        """Raise NotSmoothError where derivatives do not say what the function does nearby.

        points: references, by configuration; configured(table): its discrete values.
        """
        for table, point in enumerate(points):
            self.check_rows(configured(table), point)
        for table in range(0, len(points), 1 + len(points) // CONFIGURATIONS):
            self.check_sums(configured(table), points[table])

    def check_rows(self, ints, point) -> None:
        """Is a datum at a kink, or has no derivatives: compare opposite directions."""
        model, jets = self.model, jets_of()
        add, half = summing(*functions_of(model)), jets.LANES // 2
        scales = np.zeros(len(point))
        scales[self.free] = scales_by(np.zeros(len(self.free)), point[self.free])
        some = np.random.default_rng(0).standard_normal((half, len(point))) * scales
        group = self.states(ints, point, np.concatenate([some, -some]))[0]

        def part(first, last):
            for _, begin, end in self.blocks.chunks(first, last, SPAN // BLOCK):
                each = np.zeros((end - begin, 3, jets.LANES))
                add_along(add, group, model.data, begin, np.ones(end - begin), each=each)
                row = first_bent(each, self.order)
                if row >= 0:
                    return begin + row
            return -1

        bad = [row for row in each_part(part, 0, self.blocks.count) if row >= 0]
        if bad:
            raise NotSmoothError(
                f"log_likelihood is not smooth at the reference at datum {bad[0]}"
                f"{datum_of(model.data, bad[0], model.size)}"
            )

    def check_sums(self, ints, point) -> None:
        """Are there kinks between here and half a standard deviation off: compare curvatures."""
        d, free = len(point), self.free
        spans = some_of(self.spans)
        unit = np.zeros((len(free), d))
        unit[np.arange(len(free)), free] = 1.0
        sums = self.totals(ints, point, unit, every, blocks=RowBlocks(spans))
        for j, known in zip(free, 2.0 * sums[:, 2], strict=True):
            if not np.isfinite(known):
                raise NotSmoothError(f"log_likelihood has no second derivative by coordinate {j}")
            h = HALF / np.sqrt(abs(known)) if known else 1e-3 * max(abs(point[j]), 1e-2)
            h = min(h, 10.0 * max(abs(point[j]), 1.0))  # flat: not out of this world
            seen, noise = self.bend(ints, point, j, h, spans)
            for _ in range(0 if known else 5):  # wider, until it bends
                if abs(seen) > 0.01:
                    break
                h *= 4.0
                seen, noise = self.bend(ints, point, j, h, spans)
            wanted = known * h * h
            apart = abs(seen - wanted) - noise
            close = max(CLOSE * max(abs(seen), abs(wanted)), SLIGHT)
            if apart > close and known:
                # A smooth function differs from its second derivative by the square of the step,
                # and what that differs by the square again: at half the step by a sixteenth.
                half, more = self.bend(ints, point, j, 0.5 * h, spans)
                if abs(half - 0.25 * wanted) - more < SMOOTH * apart:
                    continue
            if apart > close:
                raise NotSmoothError(
                    f"the second derivative of log_likelihood by coordinate {j}, {known:.4g} over "
                    f"{sum(b - a for a, b in spans)} data, is {seen / (h * h):.4g} by differences "
                    "at half a standard deviation: it has kinks there"
                )

    def bend(self, ints, point, j: int, h: float, spans) -> tuple[float, float]:
        """(second difference over some rows, its rounding); 0 where it is not finite."""
        model, total, size = self.model, 0.0, 0.0
        points = np.tile(point, (3, 1))
        points[1, j] += h
        points[2, j] -= h
        trial = probe(model, np.array(ints), point.copy(), points)
        for first, last in spans:
            rows = np.arange(first, last, dtype=row_kind(model.size))
            values = np.zeros((3, len(rows)))
            with np.errstate(all="ignore"):
                for p in range(3):
                    rewards_of(trial, p, rows, values[p])
                total += float((values[1] - values[0] + (values[2] - values[0])).sum())
                size += float(np.abs(values[0]).sum())
        return (total, 1e-14 * size) if np.isfinite(total) else (0.0, np.inf)


def some_of(spans) -> list[tuple[int, int]]:
    """At most SAMPLE rows of these, in runs that lie far apart."""
    size = sum(last - first for first, last in spans)
    if size <= SAMPLE:
        return list(spans)
    taken = [spans[i * len(spans) // RUNS] for i in range(min(RUNS, len(spans)))]
    each = SAMPLE // len(taken)
    return [(first, min(first + each, last)) for first, last in dict.fromkeys(taken)]
