"""A source of derivatives whose passes are made where the rows are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.derivatives_predictors import Linear
from subsample_mcmc.target.dyadic import BLOCK, SumsAndMaxima, Tree, blocks_of

SOURCES = {"predictors": Linear, "jets": Jets}


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a part makes the source of its own rows."""

    way: str  # a key of SOURCES
    order: int
    constant: bool
    point: np.ndarray
    free: Any
    kept: tuple  # what the sums are made with

    def of(self, model: Any) -> Any:
        """The source of some rows."""
        source = made_by(self.way, model, self.order, self.constant, self.point, self.free)
        source.restore(self.kept)
        return source


def made_by(way: str, model: Any, order: int, constant: bool, point, free=None) -> Any:
    """A source of derivatives of a model whose rows are in memory."""
    if way == "predictors":
        return Linear(model, order, constant, point)
    return Jets(model, order, None, free)


class OverParts:
    """What Linear and Jets are of rows in memory: residuals are theirs, passes are made elsewhere.

    near: the source of a model of some rows, of the same functions.
    """

    def __init__(self, model: Any, way: str, order: int, constant: bool, point, free=None):
        self.model, self.order = model, order
        self.near = made_by(way, model.near, order, constant, point, free)
        self.how = way, order, constant, np.array(point), free

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "near":
            raise AttributeError(name)
        return getattr(self.near, name)

    @property
    def recipe(self) -> Recipe:
        """What parts make their source of."""
        return Recipe(*self.how, self.near.kept())

    def restore(self, kept: tuple) -> None:
        """The inverse of kept()."""
        self.near.restore(kept)

    def sums(self, ints, point, keep, bar, table: int = 0) -> tuple:
        """(s0, s1, s2, s3) at a reference: one pass over the data."""
        d, arguments = len(point), (self.recipe, ints, point, keep.outliers, table)
        found = self.model.elsewhere.sum_over(sums_of_blocks, arguments, bar=bar)
        return unpacked(found, d, self.order > 2)

    def remainders(self, ints, point, keep, bar, inverse, scores=None) -> np.ndarray:
        """Remainder of the sum and of the largest row, growth, rounding: a second pass."""
        arguments = (self.recipe, ints, point, keep.outliers, inverse, scores is not None)
        return self.model.elsewhere.sum_over(
            remainders_of_blocks, arguments, SumsAndMaxima(1), bar, rows=scores
        )

    def score(self, ints, point, bar, inverse, scores) -> None:
        """Raise scores to the residuals where a row's predictors are some way off."""
        found = np.zeros_like(scores)
        arguments = (self.recipe, ints, point, inverse)
        self.model.elsewhere.sum_over(scores_of_rows, arguments, bar=bar, rows=found)
        np.fmax(scores, found, out=scores)

    def row_bounds(self, *given) -> np.ndarray:
        """Bounds of all rows, which sm.Thinned would keep."""
        raise ValueError(
            "sm.Thinned() keeps 16 bytes of each row in memory, and these rows are elsewhere: use "
            "sm.Racing(sm.Betting()), whose error has a bound."
        )


def way_is(source: Any, way: str) -> bool:
    """Is it one over parts, of this kind."""
    return isinstance(source, OverParts) and source.how[0] == way


def packed(s0: float, s1, s2, s3) -> np.ndarray:
    """Sums as one vector."""
    return np.concatenate([[s0], s1, np.ravel(s2), np.ravel(s3)])


def unpacked(vector: np.ndarray, d: int, cubic: bool) -> tuple:
    """The inverse."""
    rest = vector[1 + d + d * d :]
    shape = (d, d * (d + 1) // 2 * cubic)
    return (
        float(vector[0]),
        vector[1 : 1 + d],
        vector[1 + d : 1 + d + d * d].reshape(d, d),
        rest.reshape(shape),
    )


class Without:
    """Weights of rows, 0 for those that every decision reads; rows are those of a part."""

    def __init__(self, outliers: np.ndarray, first: int, size: int):
        low, high = np.searchsorted(outliers, (first, first + size))
        self.outliers = outliers[low:high] - first

    def __call__(self, first: int, last: int) -> np.ndarray:
        weights = np.ones(last - first)
        low, high = np.searchsorted(self.outliers, (first, last))
        weights[self.outliers[low:high] - first] = 0.0
        return weights


class Unseen:
    """A bar that nobody looks at."""

    def update(self, rows: float) -> None:
        """Rows were read."""


def blocks_in(size: int) -> list[tuple[int, int]]:
    """Rows of each block."""
    return [(k * BLOCK, min((k + 1) * BLOCK, size)) for k in range(blocks_of(size))]


def sums_of_blocks(model: Any, begin: int, recipe: Recipe, ints, point, outliers, table) -> Tree:
    """Moments of some rows, by block."""
    source, tree = recipe.of(model), Tree()
    keep = Without(outliers, begin * BLOCK, model.size)
    for k, span in enumerate(blocks_in(model.size)):
        source.spans = (span,)
        tree.add(0, begin + k, packed(*source.sums(ints, point, keep, Unseen(), table)))
    return tree


def remainders_of_blocks(
    model: Any, begin: int, recipe: Recipe, ints, point, outliers, inverse, scored: bool
) -> tuple[Tree, np.ndarray | None]:
    """Remainders of some rows, by block; and their scores."""
    source, tree = recipe.of(model), Tree(SumsAndMaxima(1))
    keep = Without(outliers, begin * BLOCK, model.size)
    scores = np.zeros(model.size, dtype=np.float32) if scored else None
    for k, span in enumerate(blocks_in(model.size)):
        source.spans = (span,)
        own = None if scores is None else scores[slice(*span)]
        found = source.remainders(ints, point, keep, Unseen(), inverse, own)
        tree.add(0, begin + k, found)
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
