"""Some continuous blocks of a model as one vector of free coordinates, and back."""

from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import FunctionAddress, RecordAddress, call, pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.constraints import to_block, to_free
from subsample_mcmc.target.dyadic import BLOCK, RowBlocks, Tree, in_threads
from subsample_mcmc.target.rewards import example_context, of_state, probe, rewards_of

ROWS = 8192  # read at a time

free_at = getattr(to_free, "py_func", to_free)


class LiftTools(NamedTuple):
    """What points are lifted with."""

    floats: np.ndarray  # which the context's state shows
    prior: Any  # (context)
    context: Any
    kinds: np.ndarray  # of the parts: constraints, their limits, ends in u and in floats
    limits: np.ndarray
    ends: np.ndarray


@jit
def lift_points(tools, points, values, base):
    """See Coordinates.lift."""
    floats, kinds, limits, ends = tools.floats, tools.kinds, tools.limits, tools.ends
    for p in range(len(points)):
        total = 0.0
        for k in range(len(kinds)):
            u = points[p, ends[k, 0] : ends[k, 1]]
            x = floats[ends[k, 2] : ends[k, 3]]
            total += to_block(kinds[k], limits[k, 0], limits[k, 1], u, x)
        for j in range(len(floats)):
            values[p, j] = floats[j]
        base[p, 0] = total
        base[p, 1] = total + call(tools.prior, tools.context) if total > -np.inf else total


class Told:
    """A bar that hands on how many rows were read."""

    def __init__(self, tell):
        self.update = tell


def rises(
    model, origin: int, ints, values, blocks: RowBlocks | None = None, tell=lambda rows: None,
    first: int = 0, last: int | None = None,
) -> Tree:  # fmt: skip
    """See Coordinates.sums: of some blocks, by default all rows of a model, as a part of the tree.

    origin: which block of all rows the model's first row begins, where these are its own.
    """
    blocks, tree = blocks or RowBlocks([(0, model.size)]), Tree()
    trial = probe(model, ints.copy(), values[0].copy(), values)
    past = blocks.count if last is None else last
    for block, begin, end in blocks.chunks(first, past, ROWS // BLOCK):
        rows = np.arange(begin, end, dtype=row_kind(model.size))
        starts = np.arange(0, len(rows), BLOCK)
        base, each = np.zeros(len(rows)), np.empty(len(rows))
        found = np.empty((len(starts), len(values)))
        with np.errstate(all="ignore"):
            for p in range(len(values)):
                rewards_of(trial, p, rows, each)
                found[:, p] = np.add.reduceat(each - base, starts)
                base = base if p else each.copy()
        tree.add_blocks(origin + block, found)
        tell(len(rows))
    return tree


class Coordinates:
    """Some continuous blocks of a model as one vector of free coordinates; the rest is held."""

    def __init__(self, model, names, given: dict[str, Any]):
        every = [name for name, v in model.variables.items() if not v.support]
        names = every if names is None else [names] if isinstance(names, str) else list(names)
        wrong = [name for name in names or model.names[:1] if name not in every]
        if wrong:
            raise ValueError(
                f"{wrong[0]!r} is no continuous block of the model, which has {every}: fit these. "
                f"Discrete blocks are held at a value, which given={{{wrong[0]!r}: 0}} chooses."
            )
        self.model, self.ints, self.floats = model, model.ints.copy(), model.floats.copy()
        model.set_state(self.ints, self.floats, given)
        self.variables = [v for name, v in model.variables.items() if name in names]
        self.parts: dict[str, tuple] = {}  # kind, low, high, ends in u, ends in the floats
        self.size, end, self.count = 0, model.size, model.size  # count: of all data
        for v in self.variables:
            to, a, c = v.constraint, self.size, v.block.start
            length = v.length(self.ints)  # of a padded block, what it has in this state
            self.size += to.free_length(length)
            ends = a, self.size, c, c + length
            self.parts[v.block.name] = (to.kind, to.low, to.high, *ends)
        self.blocks = tuple(self.parts)
        self.spans = [(i, min(i + ROWS, end)) for i in range(0, end, ROWS)]  # of all rows

    @cached_property
    def labels(self) -> list[str]:
        """What free coordinates are named after."""
        found: list[str] = []
        for v in self.variables:
            to, (a, b) = v.constraint, self.parts[v.block.name][3:5]
            found += [self.model.axes.at(v.block, to.value_of(j)) for j in range(b - a)]
        return found

    def of_rows(self, rows: np.ndarray) -> "Coordinates":
        """The same of some rows, which are fetched where they are elsewhere."""
        some = copy(self)
        some.model = self.model.elsewhere.of_rows(rows)
        return some

    def free(self, floats: np.ndarray) -> np.ndarray:
        """Free coordinates of all continuous values of the model."""
        u = np.zeros(self.size)
        for kind, low, high, a, b, c, d in self.parts.values():
            free_at(kind, low, high, floats[c:d], u[a:b])
        return u

    def lift(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each point: all continuous values, log |dx/du| + log prior, and log |dx/du|."""
        floats, points = self.floats.copy(), np.ascontiguousarray(np.atleast_2d(points))
        values, base = np.empty((len(points), len(floats))), np.empty((len(points), 2))
        context = RecordAddress(example_context(self.model, self.ints.copy(), floats))
        prior = FunctionAddress(of_state(self.model.compiled[2]), context)
        parts = np.array(list(self.parts.values()))
        kinds, limits, ends = parts[:, 0].astype(int), parts[:, 1:3], parts[:, 3:].astype(int)
        tools = LiftTools(floats, prior, context, kinds, limits, ends)
        lift_points(pointer_to(tools), points, values, base)
        return values, base[:, 1], base[:, 0]

    def prior(self, points: np.ndarray) -> np.ndarray:
        """Log prior + log |dx/du| of each point."""
        return self.lift(points)[1]

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """dx/du, (continuous values, free coordinates)."""
        found = []
        for step in (2e-3, 1e-3):  # coordinates change on the scale of 1
            up, down = u + step * np.eye(self.size), u - step * np.eye(self.size)
            change = self.lift(up)[0] - self.lift(down)[0]
            found.append(change / np.diag(up - down)[:, None])
        return ((4.0 * found[1] - found[0]) / 3.0).T

    def sums(self, values: np.ndarray, spans, tell=lambda rows: None) -> np.ndarray:
        """The log likelihood of some rows at the first line of values, its rises at the others.

        spans: runs of rows, all of them where rows are elsewhere. A few blocks are read at all
        points while in the cache; totals of rows would cancel, rows do not.
        """
        away, blocks = self.model.elsewhere, RowBlocks(spans)
        if away is not None:
            return away.sum_over(rises, (self.ints, values), bar=Told(tell))

        def part(first, last):
            return rises(self.model, 0, self.ints, values, blocks, tell, first, last)

        return in_threads(part, 0, blocks.count).root(blocks.count)

    def not_finite(self, values: np.ndarray) -> int | None:
        """The first datum whose log likelihood is not finite at the first line of values."""
        if (away := self.model.elsewhere) is not None:
            known = [away.first_row(self.ints, values[0], no) for no in (False, True)]
            return min((row for row in known if row >= 0), default=None)
        trial = probe(self.model, self.ints.copy(), values[0].copy(), values)
        for span in self.spans:
            rows = np.arange(*span, dtype=row_kind(self.model.size))
            each = np.empty(len(rows))
            with np.errstate(all="ignore"):
                rewards_of(trial, 0, rows, each)
            found = np.flatnonzero(~np.isfinite(each))
            if len(found):
                return int(rows[found[0]])
        return None

    def show(self, u: np.ndarray) -> str:
        """The model's state at free coordinates u, in words."""
        return self.model.show(self.ints, self.lift(u)[0][0])

    def dict_of(self, floats: np.ndarray, variables=None) -> dict[str, Any]:
        """RowBlocks by name: the fitted ones, or others."""
        found: dict[str, Any] = {}
        for v in self.variables if variables is None else variables:
            block, array = v.block, self.ints if v.support else floats
            part = array[block.start : block.start + block.length].reshape(block.shape)
            found[block.name] = part.copy() if block.shape else part.item()
        return found


def windows(size: int, count: int, length: int) -> list[tuple[int, int]]:
    """Some of many data, in so many runs of this length: at most as many as there are."""
    starts = [i * size // count for i in range(count)]
    return [(start, min(start + length, size)) for start in starts]


def side_by_side(spans: list[tuple[int, int]], co: Coordinates) -> tuple[list, Coordinates]:
    """(spans, coordinates) of some rows that are elsewhere, and are fetched."""
    ends = np.cumsum([last - first for first, last in spans])
    rows = np.concatenate([np.arange(*span) for span in spans])
    found = [(int(b - (y - x)), int(b)) for b, (x, y) in zip(ends, spans, strict=True)]
    return found, co.of_rows(np.unique(rows))
