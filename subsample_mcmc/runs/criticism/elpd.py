"""What cross-validation found: numbers, tables, a figure of k, what ArviZ compares."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.runs.criticism.sampling import SampleOfData, difference_of, total_of
from subsample_mcmc.style import COLOURS, SMALL, axes_of, thinned
from subsample_mcmc.target.axes import ROWS, in_nanoseconds, shown
from subsample_mcmc.target.row_labels import compared

NAMED = 5  # data with the largest k that a figure names
BAD = 1.0  # k beyond which importance sampling says nothing
MOST_COLUMNS = 8  # of the data, in the table of the worst


class ElpdDifference(NamedTuple):
    """How much better one model predicts than another: nats, summed over all data."""

    elpd: float  # above 0: the first model predicts better
    se: float  # as the data are a sample of those that might come
    subsampling_se: float  # as only a sample of the data was left out; 0 if all were


class LeaveOneOut:
    """Leave-one-out cross-validation of a model by PSIS, as sm.loo gives it.

    `elpd` is the expected log predictive density, summed over all data, with `se`, the standard
    error of such a sum; `p_loo` is the effective number of parameters. `elpd_i`, `p_i` and `k` are
    those of each of `rows`; k beyond `good_k` are not to be relied upon. With a sample of data,
    `subsampling_se` is the error of its estimate of `elpd`. `to_frame`, `worst`, `plot`,
    `to_arviz` and `difference` are views of these.

    model, trace: as in sm.loo.
    draws: how many were used, of all chains.
    found: of each row elpd, log mean likelihood, and Pareto k.
    rows: numbers of the data that these are of.
    sample: how the data were drawn, and by what the sample is scaled up; None where all were used.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - state.mu[0]) - 0.6931
        >>> y = np.append(np.random.default_rng(0).laplace(size=300), 40.0)
        >>> model = sm.Model(log_likelihood, {"y": y}, {"mu": 0.0})
        >>> trace = sm.sample(model, sm.Slice("mu"), draws=300, seed=1, progress=False)
        >>> found = sm.loo(model, trace, progress=False)
        >>> int(np.argmin(found.elpd_i)), found.counts
        (300, (301, 0, 0))
        >>> found.worst(3).columns.tolist()
        ['k', 'elpd', 'p', 'y']
    """

    def __init__(
        self,
        model: Any,
        trace: Any,
        draws: int,
        found: np.ndarray,
        rows,
        sample: SampleOfData | None,
    ):
        self.model, self.axes, self.draws = model, trace.axes, draws
        self.rows, self.size, self.sample = rows, model.size, sample
        self.elpd_i, self.k = found[:, 0], found[:, 2]
        self.p_i = found[:, 1] - found[:, 0]
        self.good_k = float(min(1.0 - 1.0 / np.log10(draws), 0.7))
        chances = None if sample is None else sample.chances
        flat = None if sample is None else np.zeros(self.size)
        near = None if sample is None else sample.surrogate
        self.elpd, self.se, self.subsampling_se = total_of(self.elpd_i, rows, near, chances)
        self.p_loo, _, self.p_loo_se = total_of(self.p_i, rows, flat, chances)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many k are good, are not, and say that nothing is known."""
        good = int(np.sum(self.k <= self.good_k))
        beyond = int(np.sum(~(self.k <= BAD)))
        return good, len(self.k) - good - beyond, beyond

    def __repr__(self) -> str:
        good, poor, beyond = self.counts
        error = "" if self.sample is None else f", of the sample {self.subsampling_se:,.3g}"
        extra = "" if self.sample is None else f" +- {self.p_loo_se:,.2g}"
        sampled = "" if self.sample is None else f"{len(self.rows):,} of "
        text = (
            f"LeaveOneOut(elpd {self.elpd:,.2f}, se {self.se:,.3g}{error}; p_loo "
            f"{self.p_loo:,.2f}{extra}; {sampled}{self.size:,} data, {self.draws:,} draws; "
            f"k: {good:,} up to {self.good_k:.2f}, {poor:,} up to {BAD:g}, {beyond:,} beyond"
        )
        if poor + beyond:
            text += f", the largest {self.k.max():.3g} in row {self.label(int(self.k.argmax()))}"
        return text + ")"

    def _repr_html_(self) -> str:
        head = f"<p>{self!r}</p>"
        return head + (self.worst()._repr_html_() if sum(self.counts[1:]) else "")

    @property
    def labels(self) -> np.ndarray:
        """What the rows are called: the model's labels of "obs", or their numbers."""
        return self.axes.coords[ROWS][self.rows] if ROWS in self.axes.coords else self.rows

    def label(self, i: int) -> str:
        """What the i-th of rows is called.

        i: a place in rows.
        """
        return shown(self.labels[i])

    def to_frame(self) -> Any:
        """A pandas table, a row per datum: k, elpd, and p, what the datum adds to p_loo."""
        import pandas

        columns = {"k": self.k, "elpd": self.elpd_i, "p": self.p_i}
        return pandas.DataFrame(columns, index=pandas.Index(self.labels, name=ROWS))

    def worst(self, count: int = 10) -> Any:
        """The same of the data whose k is largest, the largest first, with columns of the data.

        count: how many.
        """
        chosen = np.argsort(-np.nan_to_num(self.k, nan=np.inf), kind="stable")[:count]
        table = self.to_frame().iloc[chosen]
        at = self.rows[chosen]
        at = self.size - 1 - at if self.model.backwards else at
        columns = [
            (name, np.asarray(value)[at])
            for name, value in zip(self.model.data._fields, self.model.data, strict=True)
            if np.shape(value) == (self.size,) and name not in self.model.tables
        ]
        for name, values in columns[:MOST_COLUMNS]:
            table = table.assign(**{name if name not in table else f"data {name}": values})
        return table

    def difference(self, other: "LeaveOneOut") -> ElpdDifference:
        """How much better this model predicts than another one, of the same data, row by row.

        Of samples: sm.loo(..., size=, seed=) with the same numbers, so that most rows are the same.

        other: what sm.loo gave of the other model.
        """
        if not isinstance(other, LeaveOneOut):
            raise TypeError(f"other={other!r:.60}: give what sm.loo returned of the other model.")
        seeds = [one.sample and one.sample.seed for one in (self, other)]
        if self.size != other.size or seeds[0] != seeds[1]:
            raise ValueError(
                f"these are of {len(self.rows):,} of {self.size:,} data and of "
                f"{len(other.rows):,} of {other.size:,}, or of other rows: give sm.loo the same "
                "size and seed for both models."
            )
        warn_of_other_data(self.model, other.model)
        if self.sample is None or other.sample is None:
            return ElpdDifference(*total_of(self.elpd_i - other.elpd_i, self.rows, None, None))
        return ElpdDifference(
            *difference_of(
                (self.elpd_i, other.elpd_i), (self.rows, other.rows), (self.sample, other.sample)
            )
        )

    def to_arviz(self) -> Any:
        """ArviZ's ELPDData with pointwise values, which az.compare takes beside others."""
        import arviz
        import xarray

        if self.sample is not None:
            raise ValueError(
                f"only {len(self.rows):,} of {self.size:,} data were left out, and az.compare "
                "would take them for all. Compare by one.difference(other), or leave size out."
            )
        coords = {ROWS: in_nanoseconds(self.labels)}
        elpd, k = (xarray.DataArray(v, dims=ROWS, coords=coords) for v in (self.elpd_i, self.k))
        numbers = {
            "se": self.se, "n_samples": self.draws, "n_data_points": self.size,
            "warning": sum(self.counts[1:]) > 0, "pareto_k": k, "good_k": self.good_k,
            "scale": "log",
        }  # fmt: skip
        rng = np.random.default_rng(0)  # of a small one, the same class with all its fields
        drawn: dict[str, Any] = {"posterior": {"x": rng.normal(size=(1, 100))}}
        drawn["log_likelihood"] = {"y": -(rng.normal(size=(1, 100, 2)) ** 2)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if int(arviz.__version__.split(".")[0]) < 1:
                one = arviz.loo(arviz.from_dict(**drawn), pointwise=True, scale="log")
                numbers |= {"elpd_loo": self.elpd, "p_loo": self.p_loo}
                numbers["loo_i"] = elpd.rename("loo_i")
                return type(one)([numbers[key] for key in one.index], index=one.index)
            one = arviz.loo(arviz.from_dict(drawn), pointwise=True)
            numbers |= {"elpd": self.elpd, "p": self.p_loo, "elpd_i": elpd}
            weights = {"log_weights": None} if hasattr(one, "log_weights") else {}
            return dataclasses.replace(one, **numbers, **weights)

    def plot(self, axes: Any = None) -> Any:
        """Pareto k of each datum: matplotlib axes, an array of one.

        The data whose k is largest are named, if it is too large.

        axes: an axes of matplotlib; None: of a new figure.
        """
        (panel,) = found = axes_of("loo.plot", axes, 1)
        finite = np.isfinite(self.k)
        above = finite & (self.k > self.good_k)
        some = np.flatnonzero(finite & ~above)
        some = some[thinned(len(some))] if len(some) else some
        panel.plot(self.rows[some], self.k[some], ".", color=COLOURS[0], markersize=3)
        panel.plot(self.rows[above], self.k[above], "x", color=COLOURS[1], markersize=5)
        panel.axhline(self.good_k, color=COLOURS[6], linestyle="--", linewidth=1)
        panel.axhline(BAD, color=COLOURS[6], linestyle=":", linewidth=1)
        for i in np.argsort(-np.where(above, self.k, -np.inf))[: min(NAMED, int(above.sum()))]:
            panel.annotate(
                self.label(int(i)), (self.rows[i], self.k[i]), fontsize=SMALL,
                xytext=(3, 2), textcoords="offset points",
            )  # fmt: skip
        infinite = int(np.sum(~finite))
        more = f" ({infinite:,} infinite, not shown)" if infinite else ""
        panel.set(xlabel="datum", ylabel=f"Pareto k{more}")
        return found


def warn_of_other_data(one: Any, other: Any) -> None:
    """Say what tells that a datum of one model is not the same as that of the other's row."""
    labels = [model.axes.coords.get(ROWS) for model in (one, other)]
    named = all(known is not None for known in labels)
    if (named and not np.array_equal(labels[0], labels[1])) or in_another_order(one, other):
        warn(
            "rows of the two models have other labels: differences are those of one row and "
            "another. Give both models the same data, in the same order."
        )
    mine, its = outcomes(one), outcomes(other)
    if mine is None or its is None or mine.shape != its.shape:
        return
    differ = ~np.isclose(mine, its, rtol=1e-6, atol=0.0, equal_nan=True)  # single precision may do
    if differ.any():
        n = int(np.argmax(differ))
        warn(
            f"the models have other values y, {mine[n]:.6g} and {its[n]:.6g} in row "
            f"{n}: densities of other data, other units, or rows in another order cannot be "
            "compared. Give both models the same data, in the same order."
        )


def in_another_order(one: Any, other: Any) -> bool:
    """Have two models the same rows in another order, by what pandas or xarray call them."""
    both = one.row_labels, other.row_labels
    if any(known is None for known in both) or len(both[0]) != len(both[1]):
        return False
    found = compared(*both)
    return found is not None and found[1]


def outcomes(model: Any) -> Any:
    """The column y of a model, in its user's order; None if it has none of numbers."""
    column = np.asarray(getattr(model.data, "y", None))
    if column.shape != (model.size,) or column.dtype.kind not in "biuf":
        return None
    return (column[::-1] if model.backwards else column).astype(float)
