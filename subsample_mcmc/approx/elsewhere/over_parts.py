"""A source of derivatives whose passes are made where the rows are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from subsample_mcmc.approx.taylor.checks import SAMPLED, spaced_rows
from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.derivatives_predictors import REMAINDERS, Linear
from subsample_mcmc.approx.taylor.passes.moments import apart
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.approx.taylor.references import used_of
from subsample_mcmc.target.dyadic import BLOCK, RowBlocks, Tree, blocks_of
from subsample_mcmc.target.reuse.nodes import pass_name


class Unseen:
    """A bar that nobody looks at."""

    def update(self, rows: float) -> None:
        """Rows were read."""


class Share:
    """A bar on which a pass counts as a part of one."""

    def __init__(self, bar: Any, share: float):
        self.bar, self.share = Unseen() if bar is None else bar, share

    def update(self, rows: float) -> None:
        """So many more were read."""
        self.bar.update(rows * self.share)


class Recipe:
    """How a part makes the source of its own rows."""

    def __init__(self, kind: type, arguments: tuple, kept: tuple):
        """kind: Linear or Jets; arguments: of it, behind the model; kept: see Linear.kept."""
        self.kind, self.arguments, self.kept = kind, arguments, kept
        self.once = threading.Lock()
        self.first: Any = None

    def __reduce__(self):
        return Recipe, (self.kind, self.arguments, self.kept)

    def of(self, model: Any) -> Any:
        """The source of some rows; what is checked and compiled is so once."""
        with self.once:
            if self.first is None:
                source = self.kind(model, *self.arguments)
                source.restore(self.kept)
                for name in ("reader", "reading"):  # compiled before there are threads
                    getattr(source, name, None)
                self.first = source
        own = copy(self.first)
        own.model = model
        own.blocks = RowBlocks([(0, model.size)])
        return own


@contextmanager
def written(scores: Any) -> Iterator[Any]:
    """Where a pass writes scores of rows, to which those that there are then rise."""
    if not isinstance(scores, np.ndarray):  # RowScores, which come once; or nobody asks for them
        yield scores
        return
    found = np.zeros_like(scores)
    yield found
    np.fmax(scores, found, out=scores)


class LinearOverParts(Linear):
    """sm.Predictors of rows that are elsewhere: residuals are read here, passes are made there."""

    def __init__(self, model: Any, order: int, constant: bool, point):
        near = model.near
        if model.predictors.derivatives is None:  # differences: steps are by the rows of memory
            near = model.elsewhere.of_rows(spaced_rows(model.size, SAMPLED))
        super().__init__(near, order, constant, point)
        self.all, self.arguments = model, (order, constant)

    @property
    def recipe(self) -> Recipe:
        """What parts make their source of."""
        return Recipe(Linear, self.arguments, self.kept())

    def sums(self, ints, point, keep, bar, table: int = 0) -> tuple:
        """(s0, s1, s2, s3) at a reference: one pass over the data."""
        arguments = self.recipe, ints, point, keep.outliers
        total = self.all.elsewhere.sum_over(
            moments, arguments, bar=bar, nodes=self.nodes, name=pass_name("moments", keep)
        )
        return apart(total, used_of(self.all, ints), len(point))

    def remainders(self, ints, point, keep, bar, inverse, scores=None) -> np.ndarray:
        """Remainder of the sum and of the largest row, growth, rounding: a second pass."""
        arguments = self.recipe, ints, point, keep.outliers, inverse, scores is not None
        with written(scores) as rows:
            found = self.all.elsewhere.sum_over(
                remainders, arguments, REMAINDERS, bar, rows=rows, nodes=self.nodes,
                name=pass_name("remainders", keep),
            )  # fmt: skip
        return self.limits_of(found)

    def score(self, ints, point, bar, inverse, scores) -> None:
        """Raise scores to the residuals where a row's predictors are some way off."""
        arguments = self.recipe, ints, point, inverse
        with written(scores) as rows:
            self.all.elsewhere.sum_over(scores_of_rows, arguments, bar=bar, rows=rows)

    def row_bounds(self, ints, point, bar, inverse) -> np.ndarray:
        """Bounds of all rows, which sm.Thinned would keep."""
        raise ValueError(
            "sm.Thinned() keeps 16 bytes of each row in memory, and these rows are elsewhere: use "
            "sm.Racing(sm.Betting()), whose error has a bound."
        )


class JetsOverParts(Jets):
    """Derivatives of the function itself, of rows that are elsewhere."""

    def __init__(self, model: Any, order: int, free=None):
        super().__init__(model.near, order, None, free)
        self.all, self.arguments = model, (order, None, self.free)

    def totals(
        self, ints, point, vectors, keep, bar=None, share=1.0, blocks: RowBlocks | None = None,
        name: str = "",
    ) -> np.ndarray:  # fmt: skip
        """(lines, 4): sums of value and coefficients along each vector: one pass over the data."""
        if blocks is not None:  # some rows, that are here
            return super().totals(ints, point, vectors, keep, bar, share, blocks)
        others = getattr(keep, "others", True)
        recipe = Recipe(Jets, self.arguments, ())
        total = self.all.elsewhere.sum_over(
            coefficients, (recipe, ints, point, vectors, keep.outliers, others),
            bar=Share(bar, share * len(self.states(ints, point, vectors))),
            nodes=self.nodes if name else None, name=pass_name(name, keep),
        )  # fmt: skip
        return total.reshape(-1, 4)[: len(vectors)]


# ----------------------------------------------------------------------------- what parts do
def moments(model: Any, begin: int, recipe: Recipe, ints, point, outliers) -> Tree:
    """Sums of predictors' derivatives and their moments."""
    source, keep = recipe.of(model), Keep(outliers, first=begin * BLOCK)
    return source.some_sums(ints, point, keep, Unseen(), 0, source.blocks.count, begin)


def remainders(
    model: Any, begin: int, recipe: Recipe, ints, point, outliers, inverse, scored: bool
) -> tuple[Tree, np.ndarray | None]:
    """Bounds of remainders, and the scores of rows."""
    source, keep = recipe.of(model), Keep(outliers, first=begin * BLOCK)
    scores = np.zeros(model.size, dtype=np.float32) if scored else None
    count = source.blocks.count
    tree = source.some_remainders(
        ints, point, keep, Unseen(), inverse, scores, 0, count, begin
    )  # fmt: skip
    return tree, scores


def scores_of_rows(
    model: Any, begin: int, recipe: Recipe, ints, point, inverse
) -> tuple[Tree, np.ndarray]:
    """What the residual of each row may come to, where no bound says so."""
    source, tree = recipe.of(model), Tree()
    scores = np.zeros(model.size, dtype=np.float32)
    source.score(ints, point, Unseen(), inverse, scores)
    tree.add_blocks(begin, np.zeros((blocks_of(model.size), 1)))
    return tree, scores


def coefficients(
    model: Any, begin: int, recipe: Recipe, ints, point, vectors, rows, others: bool
) -> Tree:
    """Sums of Taylor coefficients along some vectors."""
    source, keep = recipe.of(model), Keep(rows, others, begin * BLOCK)
    groups, blocks = source.states(ints, point, vectors), source.blocks
    return source.some_totals(groups, blocks, keep, None, 1.0, 0, blocks.count, begin)
