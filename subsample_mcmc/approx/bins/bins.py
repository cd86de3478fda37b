"""sm.Bins: a quadratic in the data for every bin of them, at the current parameters.

Where a datum enters a likelihood through a few numbers, data that lie close together have nearly
the same log likelihood, whatever the parameters are. So h_n is a quadratic in y_n through values
of the likelihood at a few points of its bin, and its sum over n is known from each bin's moments.
It needs no reference point and no fit, serves posteriors of any shape, and arms that have nothing
to do with each other; it costs bins * (q^2 + q + 1) evaluations an arm, q the number of columns.
Where the posterior is narrow sm.Taylor leaves far less over. Given a fit, linear predictors are cut
like columns: predictor_cut.py and predictor_bins.py. (Chen & Ghahramani 2016, section 3.4
and appendix C.2; Wang, Chen, Smola & Xing 2013.)
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.bins.cut import BinSample, Cut, check_alone, cut, fields_of, fields_read
from subsample_mcmc.approx.bins.predictor_bins import make_near, predictor_functions
from subsample_mcmc.approx.bins.predictor_cut import PredictorBinning, predictor_cut, references
from subsample_mcmc.approx.bins.quadratics import (
    copy_table,
    interpolate,
    note,
    product,
    spread_of,
    stands,
    subtractor,
    take_over,
)
from subsample_mcmc.approx.control import (
    Bound,
    Control,
    ControlFunctions,
    Prepared,
    read_residuals,
)
from subsample_mcmc.approx.taylor.checks import check_affine, check_eta
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.rewards import Trial, probe, rewards
from subsample_mcmc.target.user_functions import plain


class Binned(NamedTuple):
    """The arrays of one chain."""

    probe: Trial  # its data are the points of all bins; it has no candidates
    rows: np.ndarray  # all of its rows
    values: np.ndarray  # (P, B) the log likelihoods there
    flat: np.ndarray  # (P B,) the same
    bins: np.ndarray
    reference: np.ndarray
    moments: np.ndarray
    inverse: np.ndarray
    coefficients: np.ndarray  # (arms, B, m) of h
    sums: np.ndarray  # (arms,) the sum of h
    known: np.ndarray  # (arms,) 1: these are of the state in the next two
    ints: np.ndarray  # (arms, ...)
    floats: np.ndarray
    where: np.ndarray  # (CHUNK,) the bins of a mini-batch
    steps: np.ndarray  # (q, CHUNK) y - reference
    sample: BinSample
    left: np.ndarray  # (arms, K B) the residuals of its rows
    sampled: np.ndarray  # (arms,) 1: these are of the arm's state


@dataclass(frozen=True, eq=False)
class Bins(Control):
    """A control variate in the data: a quadratic in each bin, fitted to the likelihood itself.

    For any model whose datum enters through a few numbers, data.y[n] and the like. Fields with at
    most 16 different values (labels, classes) split the data into groups; the others, at most
    three, are cut into quantiles within each group. No fit and no derivatives are needed, and
    smoothness is not: the sums are exact, whatever the residuals. Pass it as control= to Gibbs,
    Metropolis or Slice; one object serves all of them.

    columns: names of the fields to cut; default: all float fields with more than 16 values. Other
        float fields then count as constant in a bin.
    bins: how many in all, about: each of q columns is cut into bins^(1/q) quantiles. An arm costs
        bins * (q^2 + q + 1) evaluations of the likelihood at every decision, at points of
        the bins: `pulls` counts the data that are read, not these, which reports add.
    outliers: share of the data, those that lie farthest from their bin's mean or (with `fit`) may
        come to lie there, as rows of a rare level do, that every decision reads. Without them a few
        data of a heavy tail make races long: of data from t(1.5) they read 55%, with .01 4%, with
        a fifth, which the paper takes, 21%.
    fit: for models of sm.Predictors, whose eta may look at other rows (ARCH): sm.laplace(model), a
        dict of the continuous blocks' values, or a list of them, one for each configuration of
        the discrete blocks as in sm.Taylor. Then the predictors at the fit that vary over rows are
        cut like columns, by marginal quantiles, for each configuration anew; of the fields only
        those that log_factor reads count. Sums at any parameters come from moments of the bins'
        X_n, where eta_n = X_n x: an arm costs bins * d^2 / 2 multiplications for d parameters, and
        bins * (q^2 + q + 1) log factors, q now the number of columns and such predictors.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> kernel = sm.Gibbs("k", control=sm.Bins())
        >>> trace = sm.sample(model, kernel, draws=100, warmup=0, chains=1, seed=1)
        >>> float(trace.draws["k"].mean())
        3.0
    """

    columns: Any = None
    bins: int = 100
    outliers: float = 0.2
    fit: Any = field(default=None, repr=False)

    def __post_init__(self):
        given = (self.columns,) if isinstance(self.columns, str) else self.columns
        if given is not None:
            given = tuple(given) if isinstance(given, list | tuple) else ()
            if not given or not all(isinstance(name, str) for name in given):
                raise TypeError(f"columns={self.columns!r}: give names of data fields.")
            if len(set(given)) < len(given):
                raise ValueError(f"columns={self.columns!r}: each name once.")
        object.__setattr__(self, "columns", given)
        object.__setattr__(self, "bins", whole(self.bins, "bins", "the number of bins"))
        if not 0.0 <= self.outliers <= 0.5:
            raise ValueError(f"outliers={self.outliers!r}: give a share of the data, 0 .. 0.5.")

    # ------------------------------------------------------------------------------- the seam
    def check(self, model, block: str) -> None:
        """Refuse data that cannot be cut, and likelihoods that look beyond their datum."""
        if model.elsewhere is not None:
            raise ValueError(
                f"{self!r} groups rows in memory, and those of {model!r} are elsewhere: "
                f"{model.elsewhere.source}. Use control=sm.Taylor(fit)."
            )
        if model.tables:
            raise ValueError(
                f"Bins does not serve models with tables, {', '.join(model.tables)}: look up "
                "before what each datum reads, as a column of the data, or use sm.Taylor."
            )
        if self.fit is None:
            fields_of(model, self.columns)
            check_alone(model)
        else:
            points = references(self.fit, model)
            given, state = model.predictors, model.state(model.ints, model.floats)
            check_eta(plain(given.eta, "eta", "eta(state, data, n)")(state, model.data, 0))
            check_affine(model, given.count(model))
            fields_read(model, self.columns, points[0])

    def prepare(self, model) -> Prepared:
        """Cut the data, or predictors at the fit, and sum moments of each bin."""
        how = model, self.columns, self.bins, self.outliers
        if self.fit is None:
            return ColumnBins(model, cut(*how))
        return PredictorBins(model, predictor_cut(*how, self.fit))


class ColumnBins(Prepared):
    """Bins of the data's columns, of one model."""

    wanted = "a bound of the likelihood's third derivatives by the data"

    def __init__(self, model, made: Cut):
        self.model, self.cut, self.outliers = model, made, made.outliers
        count, q = made.reference.shape
        self.evaluations = 0, count * (q * q + q + 1)

    @cached_property
    def functions(self) -> ControlFunctions:
        """The compiled half."""
        fields = tuple(self.model.data._fields.index(name) for name in self.cut.columns)
        return bin_functions(fields)

    def bind(self, arms: int) -> Bound:
        """Arrays of one chain."""
        arrays = make_binned(self.model, self.cut, arms)
        return Bound(arrays, arrays)


class PredictorBins(Prepared):
    """Bins of columns and predictors, of one model."""

    wanted = ColumnBins.wanted

    def __init__(self, model, made: PredictorBinning):
        self.model, self.cut, self.outliers = model, made, made.outliers
        self.evaluations = 0, len(made.cut.points) * made.cut.moments.shape[1]

    @cached_property
    def functions(self) -> ControlFunctions:
        """The compiled half."""
        return predictor_functions(self.model.predictors, self.cut)

    def bind(self, arms: int) -> Bound:
        """Arrays of one chain."""
        return make_near(self.model, self.cut, arms)


# ------------------------------------------------------------------------------- compiled half
def make_binned(model, made: Cut, arms: int) -> Binned:
    """Arrays of one chain over what all share."""
    count, q = made.inverse.shape
    points = count * (q * q + q + 1)
    values = np.zeros((points // count, count))
    trial = probe(model, model.ints.copy(), model.floats.copy(), rows=points, data=made.pseudo)
    return Binned(
        trial, np.arange(points, dtype=row_kind(model.size)), values,
        values.reshape(-1), made.bins, made.reference, made.moments, made.inverse,
        np.zeros((arms, *made.moments.shape)), np.zeros(arms), np.zeros(arms, dtype=np.int64),
        np.zeros((arms, len(model.ints)), dtype=np.int64), np.zeros((arms, len(model.floats))),
        np.zeros(CHUNK, dtype=np.int64), np.zeros((q, CHUNK)),
        made.sample, np.zeros((arms, len(made.sample.rows))), np.zeros(arms, dtype=np.int64),
    )  # fmt: skip


@jit(flags=FLAGS, inner=True)
def find_bins(data, own, rows):
    """Write the bins of a mini-batch. Bare loads: their cache misses do not wait for each other."""
    for i in range(np.uint64(len(rows))):
        own.where[i] = own.bins[np.uint64(rows[i])]


def with_column(before, field: int, k: int):
    """A reader of mini-batches that also takes one more column."""

    @jit(flags=FLAGS, inner=True)
    def read(data, own, rows):
        before(data, own, rows)
        column = data[field]
        for i in range(np.uint64(len(rows))):
            own.steps[k, i] = column[np.uint64(rows[i])] - own.reference[np.uint64(own.where[i]), k]

    return read


@jit(inner=True)
def bin_residuals(trial, arm, rows, out):
    """l - h of a mini-batch."""
    rewards(trial, arm, rows, out)
    read_residuals(trial, arm, rows, out)


@jit(inner=True)
def bin_sum(trial, arm):
    """The sum of h over all rows, at the arm that stands in the state."""
    own, probe = trial.control.arrays, trial.control.arrays.probe
    if stands(own, trial, arm):  # it was rejected, or did not move
        return own.sums[arm]
    mine, other = own.coefficients[arm], 1 - arm
    if len(own.sums) == 2 and stands(own, trial, other):  # it was accepted
        copy_table(own.coefficients[other], mine)
        own.sums[arm] = own.sums[other]
        note(own, trial, arm)
        take_over(own, arm, other)
    else:
        for i in range(len(trial.ints)):
            probe.ints[i] = trial.ints[i]
        for i in range(len(trial.floats)):
            probe.floats[i] = trial.floats[i]
        rewards(probe, 0, own.rows, own.flat)
        interpolate(own.values, own.inverse, mine)
        own.sums[arm] = product(mine, own.moments)
        note(own, trial, arm)
    return own.sums[arm]


bin_spread = spread_of(bin_residuals)


@memoised
def bin_functions(fields: tuple[int, ...]) -> ControlFunctions:
    """The compiled half for the places of columns among the data."""
    read, subtract = find_bins, subtractor(len(fields))
    for k, place in enumerate(fields):
        read = with_column(read, place, k)

    @jit(inner="entry")
    def reader(context, own, arm, rows, out):
        read(context.data, own, rows)
        subtract(own, own.coefficients[arm], out)
        return 0.0

    return ControlFunctions(bin_sum, bin_residuals, spread=bin_spread, reader=reader)
