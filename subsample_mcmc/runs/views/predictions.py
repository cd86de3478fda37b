"""What a posterior predicts, beside what was observed: a table, figures, ArviZ's groups."""

from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.runs.views import arviz_groups
from subsample_mcmc.style import COLOURS, FILLS, SMALL, axes_of
from subsample_mcmc.target.axes import ROWS, Axes, in_nanoseconds

USUAL: dict[str, Callable] = {"mean": np.mean, "sd": np.std, "least": np.min, "largest": np.max}
BINS = 30
FEW = 40  # whole numbers that have a bin each
SHOWN = 200  # data sets in a figure
QUANTILES = (0.05, 0.95)


class Predictions:
    """Predicted data of each draw kept, or statistics of them, and what was observed.

    `dataset` is xarray's Dataset of dimensions chain, draw (numbers of the trace's draws) and, of
    whole data sets, "obs"; `summary`, `plot` and `to_arviz` are views of it.

    trace: that was predicted from.
    kept: numbers of its draws that were used.
    values: arrays (chains, draws, ...) by statistic; "" of whole data sets.
    name, observed, statistics: as in sm.predict.
    new: are these of other data than the model's.

    Example:
        >>> x = np.column_stack([np.ones(1_000), np.random.default_rng(0).normal(size=1_000)])
        >>> model = sm.models.glm.gaussian(x, x[:, 1] + np.sin(np.arange(1_000)))
        >>> trace = sm.sample(model, draws=50, warmup=100, chains=2, seed=1, progress=False)
        >>> said = sm.predict(model, trace, data={"x": x[:3]}, seed=2, progress=False)
        >>> said.dataset["y"].shape, said.summary().columns.tolist()
        ((2, 50, 3), ['mean', 'sd', '5%', '95%'])
    """

    def __init__(self, trace, kept, values, name, observed, statistics, new: bool):
        self.trace, self.kept, self.name, self.observed = trace, kept, name, observed
        self.statistics, self.new = statistics, new
        self.values = values  # by statistic; "" of whole data sets

    def __repr__(self) -> str:
        what = ", ".join(self.statistics) or f"{self.values[''].shape[2]:,} data"
        chains = self.trace.shape[0]
        return f"Predictions({chains} chains x {len(self.kept):,} draws: {what})"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.summary()._repr_html_()}"

    @property
    def dataset(self) -> Any:
        """Of whole data sets under the name that predict was given, of statistics under theirs."""
        import xarray

        labels = self.trace.axes.coords.get(ROWS)
        found = {}
        for name, array in self.values.items():
            dims = Axes().of(name, array.ndim - 2) if name else (ROWS,)
            found[name or self.name] = (("chain", "draw", *dims), array)
        coords = {"chain": np.arange(self.trace.shape[0]), "draw": self.kept}
        if not self.statistics:
            size = self.values[""].shape[2]
            named = labels is not None and not self.new
            coords[ROWS] = in_nanoseconds(labels) if named else np.arange(size)
        return xarray.Dataset(found, coords=coords)

    def of(self, statistic: Callable) -> np.ndarray:
        """A statistic of each predicted data set: an array (chains, draws).

        statistic(y) -> float: of one data set.
        """
        if self.statistics:
            raise ValueError(
                f"only {', '.join(self.statistics)} of each data set were kept: give others to "
                "sm.predict(statistics=...), or leave it out to keep whole data sets."
            )
        return np.array([[statistic(y) for y in chain] for chain in self.values[""]])

    def summary(self) -> Any:
        """A pandas table, a row per statistic: observed, and what is predicted.

        Of whole data sets: their mean, sd, least and largest values. P(>= observed) is the share of
        predicted data sets whose statistic is at least the observed one: near 0 or 1, the model
        does not make such data. It is nan where a statistic is, as of missing values.
        """
        import pandas

        rows = {}
        for name, (values, seen) in self.compared().items():
            for site in np.ndindex(values.shape[2:]):
                part, label = values[(..., *site)].ravel(), Axes().label(name, site)
                row = {} if seen is None else {"observed": float(seen[site])}
                row |= {"mean": part.mean(), "sd": part.std()}
                row |= {f"{q:.0%}": np.quantile(part, q) for q in QUANTILES}
                if seen is not None:
                    row["P(>= observed)"] = share_not_less(part, float(seen[site]))
                rows[label] = row
        return pandas.DataFrame.from_dict(rows, orient="index")

    def compared(self) -> dict[str, tuple[np.ndarray, Any]]:
        """By name: what statistics say of predicted data, and of those observed, or None."""
        if self.statistics:
            each = {name: (self.values[name], f) for name, f in self.statistics.items()}
        else:
            each = {name: (self.of(f), f) for name, f in USUAL.items()}
        if self.observed is None:
            return {name: (v, None) for name, (v, _) in each.items()}
        # As predicted data are: y ** 2 of short integers would be another statistic of these.
        seen = self.observed.astype(float)
        return {name: (v, np.asarray(f(seen), dtype=float)) for name, (v, f) in each.items()}

    def to_arviz(self) -> Any:
        """ArviZ's container: the draws that predictions are of, predictions, and observed data.

        Their group is posterior_predictive, as az.plot_ppc and its like take it, or predictions, of
        other data than were observed; of draws of sm.prior, prior_predictive.
        """
        law = arviz_groups.law_of(self.trace)
        drawn = arviz_groups.dataset(self.trace, self.trace.drawn, self.kept)
        groups = {law: drawn}
        named = "predictions" if self.new and law == "posterior" else f"{law}_predictive"
        groups[named] = self.dataset
        if self.observed is not None and not self.statistics:
            import xarray

            at = {ROWS: self.dataset.coords[ROWS].values}
            groups["observed_data"] = xarray.Dataset({self.name: (ROWS, self.observed)}, coords=at)
        return arviz_groups.contained(groups, drawn.attrs)

    def plot(self, axes: Any = None) -> Any:
        """What is predicted beside what was observed: matplotlib axes, an array of one per panel.

        Of whole data sets it shows how often values occur, with the middle 90% of predictions; of
        statistics a histogram of each, with the observed value as a line.

        axes: as many axes of matplotlib as there are statistics; None: of a new figure.
        """
        if not self.statistics:
            (panel,) = found = axes_of("predictions.plot", axes, 1)
            self.draw_values(panel)
            return found
        each = []
        for name, (values, seen) in self.compared().items():
            for site in np.ndindex(values.shape[2:]):
                value = None if seen is None else float(seen[site])
                each.append((Axes().label(name, site), values[(..., *site)].ravel(), value))
        found = axes_of("predictions.plot", axes, len(each))
        for panel, (name, part, value) in zip(found, each, strict=True):
            panel.hist(
                part, BINS, density=True, facecolor=FILLS[1], edgecolor="black", linewidth=0.4
            )
            if value is not None:
                share, label = share_not_less(part, value), f"observed: {value:.4g}"
                if share == share:
                    label += f"\n{100 * share:.3g}% predicted are not less"
                panel.axvline(value, color=COLOURS[1], linewidth=2, label=label)
                panel.legend(fontsize=SMALL)
            panel.set(xlabel=name, ylabel="density of predictions", yticks=[])
        return found

    def draw_values(self, panel: Any) -> None:
        """Shares of values in bins: bands of predictions, points of what was observed.

        panel: an axes of matplotlib.
        """
        array = self.values[""].reshape(-1, self.values[""].shape[2])
        array = array[np.unique(np.linspace(0, len(array) - 1, SHOWN).astype(int))]
        seen = [array.ravel()] if self.observed is None else [array.ravel(), self.observed]
        low, high = min(v.min() for v in seen), max(v.max() for v in seen)
        if all(np.all(v == np.rint(v)) for v in seen) and high - low < FEW:
            edges = np.arange(low, high + 2) - 0.5
        else:
            edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
        shares = np.array([np.histogram(y, edges)[0] for y in array]) / array.shape[1]
        bottom, top = np.quantile(shares, QUANTILES, axis=0)
        panel.stairs(top, edges, baseline=bottom, fill=True, color=FILLS[1], label="predicted, 90%")
        panel.stairs(shares.mean(axis=0), edges, color=COLOURS[0], label="predicted, mean")
        if self.observed is not None:
            counts = np.histogram(self.observed, edges)[0] / len(self.observed)
            middle = 0.5 * (edges[1:] + edges[:-1])
            panel.plot(middle, counts, "o", color=COLOURS[1], markersize=4, label="observed")
        panel.set(xlabel=self.name, ylabel="share of data")
        panel.legend(fontsize=SMALL)


def share_not_less(predicted: np.ndarray, observed: float) -> float:
    """Of predicted statistics, how many are at least the observed one; nan if any is no number."""
    if observed != observed or np.isnan(predicted).any():
        return np.nan
    return float(np.mean(predicted >= observed))
