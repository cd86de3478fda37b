"""K-fold cross-validation: a model is sampled without each part of its data in turn."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import RewardError, warn
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.numerics.progress import Bar, quietly
from subsample_mcmc.numerics.random import root_of
from subsample_mcmc.numerics.records import similar
from subsample_mcmc.runs.criticism.elpd import ElpdDifference, warn_of_other_data
from subsample_mcmc.runs.criticism.loo import Leaver, States, refuse_other_laws, refuse_weights
from subsample_mcmc.runs.criticism.sampling import variance
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.target.axes import ROWS, shown
from subsample_mcmc.target.data import datum_of, not_masked
from subsample_mcmc.target.model import Model, must_be_model
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.row_labels import refuse_other_rows

APART = 1.05  # R-hat of a fold beyond which its chains disagree


class KFold:
    """K-fold cross-validation of a model, as sm.kfold gives it.

    `elpd` is the expected log predictive density, summed over all data, each under draws that had
    not seen its fold; `se` is the standard error of such a sum, of one over groups where whole
    groups were held out. `elpd_i` and `fold` are those of each datum, `rhat` of each fold.

    model: the one that was judged.
    fold: that each datum was in.
    elpd_i: log predictive density of each datum.
    rhat: the largest of each fold's run.
    units: number of the group that each datum was held out with, for the standard error.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - state.mu[0]) - 0.6931
        >>> y = np.random.default_rng(0).laplace(size=500)
        >>> model = sm.Model(log_likelihood, {"y": y}, {"mu": 0.0})
        >>> found = sm.kfold(model, sm.Slice("mu"), folds=5, draws=200, seed=1, progress=False)
        >>> np.bincount(found.fold).tolist(), found.to_frame().columns.tolist()
        ([100, 100, 100, 100, 100], ['fold', 'elpd'])
    """

    def __init__(self, model: Model, fold: np.ndarray, elpd_i: np.ndarray, rhat, units: np.ndarray):
        self.model, self.axes = model, model.axes
        self.fold, self.elpd_i, self.units = fold, elpd_i, units
        self.rhat = np.array(rhat)
        self.elpd, self.se = self.total(elpd_i)

    def total(self, values: np.ndarray) -> tuple[float, float]:
        """A sum over all data, and its error as that of a sum of independent groups.

        values: one for each datum.
        """
        sums = np.bincount(self.units, weights=values)
        return float(values.sum()), (len(sums) * variance(sums)) ** 0.5

    def __repr__(self) -> str:
        groups = int(self.units.max()) + 1
        by = f" in {groups:,} groups" if groups < len(self.fold) else ""
        return (
            f"KFold(elpd {self.elpd:,.2f}, se {self.se:,.3g}; {len(self.rhat)} folds of "
            f"{len(self.fold):,} data{by}; largest R-hat {np.max(self.rhat):.3f})"
        )

    def to_frame(self) -> Any:
        """A pandas table, a row per datum: its fold, and its log predictive density."""
        import pandas

        labels = self.axes.coords.get(ROWS, np.arange(len(self.fold)))
        columns = {"fold": self.fold, "elpd": self.elpd_i}
        return pandas.DataFrame(columns, index=pandas.Index(labels, name=ROWS))

    def difference(self, other: "KFold") -> ElpdDifference:
        """How much better this model predicts than another one, of the same data and folds.

        other: what sm.kfold gave of the other model.
        """
        if not isinstance(other, KFold):
            raise TypeError(f"other={other!r:.60}: give what sm.kfold returned of the other model.")
        if not np.array_equal(self.fold, other.fold):
            raise ValueError(
                "these have other folds: give sm.kfold the same folds, by and seed for both models."
            )
        warn_of_other_data(self.model, other.model)
        return ElpdDifference(*self.total(self.elpd_i - other.elpd_i), 0.0)


@helpful
def kfold(
    model: Model, kernel: Kernel | Callable[[Model], Kernel] | None = None, folds: Any = 10,
    by: str | None = None, draws: int = 1000, warmup: int = 1000, chains: int = 4, seed=None,
    progress: bool | None = None, cores: int | None = None,
) -> KFold:  # fmt: skip
    """K-fold cross-validation: how well each part of the data is predicted by the other parts.

    The model is sampled once a fold, model.without(its rows), and each datum of the fold is judged
    by the mean of its likelihood. Nothing is assumed of leaving out, as sm.loo does, at the price
    of as many runs. A block's entry of a datum that is left out, a[data.group[n]] of a new group,
    is drawn from its prior: then the prediction is one of a new group.

    model: as in sm.sample.
    kernel: as of sm.sample; or kernel(model) -> Kernel, made for each fold's model.
    folds: how many, at random and of equal size; or a number from 0 for each datum.
    by: a column of the data: data with one value of it are in one fold.
    draws, warmup, chains, cores: as in sm.sample, of each run.
    seed: as in sm.sample, of folds and runs.
    progress: as in sm.laplace.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, group = rng.normal(size=(600, 2)), np.repeat(np.arange(30), 20)
        >>> y = x[:, 0] + rng.normal(size=600)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> found = sm.kfold(
        ...     model, sm.Slice("beta"), folds=group % 3, draws=200, warmup=200, chains=2, seed=1,
        ...     progress=False,
        ... )
        >>> bool(abs(found.elpd + 600 * 1.42) < 60.0), len(found.rhat)
        (True, 3)
    """
    must_be_model(model, "sm.kfold(model, kernel)")
    refuse_weights(model, "sm.kfold")
    entropy, key = root_of(seed)

    def stream(*place: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(entropy, spawn_key=(*key, *place))

    cores = whole(os.cpu_count() or 1 if cores is None else cores, "cores", "how many, at least 1")
    units = units_of(model, by)
    refuse_other_rows("folds", folds, model.row_labels)
    fold = folds_of(folds, units, np.random.default_rng(stream(0)))
    count = int(fold.max()) + 1
    found, rhat = np.empty(model.size), []
    with quietly(progress), Bar(total=count, desc="folds", unit="fold", delay=1.0) as bar:
        for i in range(count):
            held = np.flatnonzero(fold == i)
            rest = model.without(held)
            chosen = kernel if kernel is None or isinstance(kernel, Kernel) else kernel(rest)
            try:
                trace = sample(
                    rest, chosen, draws, warmup, chains, stream(1, i), 0.0, progress=False,
                    cores=cores,
                )  # fmt: skip
            except Exception as error:
                error.add_note(f"Rows are numbered without those of fold {i}, which is held out.")
                raise
            refuse_other_laws(trace, "sm.kfold")
            rhat.append(largest_rhat(trace, model))
            total = trace.shape[0] * trace.shape[1]
            states = States(*(part.reshape(total, part.shape[2]) for part in trace.flat))
            found[held] = Leaver(model, states, 1.0, cores).means(states, held)
            if (bad := held[~(found[held] < np.inf)]).size:
                n = int(bad[0])
                raise RewardError(
                    f"log_likelihood is nan or inf at datum {n}"
                    f"{datum_of(model.data, n, model.size)} in a state that fits the other folds "
                    f"than {i}: it must be a number, or -inf."
                )
            bar.update()
    made = KFold(model, fold, found, rhat, units)
    if unknown := int(np.sum(np.isnan(made.rhat))):
        warn(
            f"nothing tells whether the chains of {unknown} of {count} folds agree: R-hat needs "
            "two chains or more, of four draws or more."
        )
    elif not np.all(made.rhat <= APART):
        worst = int(np.argmax(made.rhat))
        warn(
            f"chains of {int(np.sum(~(made.rhat <= APART)))} of {count} folds disagree: R-hat is "
            f"{made.rhat[worst]:.3f} in fold {worst}. Sample longer, or with another kernel."
        )
    return made


def largest_rhat(trace: Trace, model: Model) -> float:
    """Of all blocks; nan where one's is not known, inf where a continuous number stood still."""
    found = 1.0
    for name, variable in model.variables.items():
        mixing = trace.mixing(name)
        if mixing.held and not variable.block.discrete:
            return np.inf
        if mixing.moved and mixing.rhat != mixing.rhat:
            return np.nan
        found = max(found, mixing.rhat) if mixing.rhat == mixing.rhat else found
    return found


def units_of(model: Model, by: str | None) -> np.ndarray:
    """Which data stay together, as numbers from 0: each by itself, or those of a group."""
    if by is None:
        return np.arange(model.size)
    if not isinstance(by, str):
        raise TypeError(
            f"by={type(by).__name__}: give the name of a column, one of "
            f"{', '.join(model.data._fields)}. An array with the fold of each datum goes to folds=."
        )
    if by not in model.data._fields:
        raise ValueError(
            f"by={by!r} is no column of the data, {', '.join(model.data._fields)}."
            f"{similar(str(by), model.data._fields)}"
        )
    column = np.asarray(getattr(model.data, by))
    if column.shape != (model.size,):
        raise ValueError(f"by={by!r} has shape {column.shape}: give a column, one value a datum.")
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def folds_of(given: Any, units: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The fold of each datum: groups in random order, each into the smallest fold so far."""
    size = len(units)
    if np.ndim(given):
        fold = np.asarray(not_masked(given, "folds"))
        if fold.shape != (size,) or fold.dtype.kind not in "iu":
            told = f"shape {fold.shape}" if fold.shape != (size,) else f"numbers of {fold.dtype}"
            raise ValueError(f"folds has {told}: give {size} whole numbers, or a few.")
        numbers = np.unique(fold)
        if len(numbers) < 2 or not np.array_equal(numbers, np.arange(len(numbers))):
            told = ", ".join(shown(n) for n in numbers[:6])
            raise ValueError(f"folds has the numbers {told}: give 0, 1, ... of two folds or more.")
        for unit in np.unique(units) if len(np.unique(units)) < size else ():
            if len(np.unique(fold[units == unit])) > 1:
                raise ValueError("folds splits a group of by=: leave one of them out.")
        return fold.astype(np.int64)
    sizes = np.bincount(units)
    count = whole(given, "folds", "how many, at least 2")
    if not 2 <= count <= len(sizes):
        raise ValueError(
            f"folds={count}: give 2 or more, and no more than there are "
            f"{'data' if len(sizes) == size else 'groups'}, {len(sizes):,}."
        )
    order = rng.permutation(len(sizes))
    of_unit, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(count, dtype=np.int64)
    if len(sizes) == size:
        of_unit[order] = np.arange(size) % count
    else:
        for unit in order:
            of_unit[unit] = np.argmin(filled)
            filled[of_unit[unit]] += sizes[unit]
    return of_unit[units]
