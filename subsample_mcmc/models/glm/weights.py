"""Weights of rows, as of a survey: the log likelihood of each, so many times."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from subsample_mcmc.models.glm.columns import Regression, all_are_here, first_wrong, per_row
from subsample_mcmc.models.glm.scores import TOGETHER
from subsample_mcmc.target.predictors import Predictors


def weighed(likelihood: Any, data: dict, rows: Regression, count: int = 1) -> Any:
    """A family's Predictors, of which it has so many, or plain log likelihood; with its weights."""
    given = (rows.others or {}).get("weights")
    if given is None:
        return likelihood
    weights = per_row(given, "weights", len(rows.x))
    wrong = first_wrong(weights, lambda piece: piece >= 0.0)
    if wrong is not None:
        raise ValueError(f"weights[{wrong[0]}] is {weights[wrong]:g}: give numbers from 0.")
    if all_are_here() and first_wrong(weights, lambda piece: piece == 0.0) is None:
        raise ValueError(
            "weights are all 0: no row says anything, and draws would be the prior's. Give more "
            f"than 0 to rows that count, or no weights= where all of the {len(weights):,} do."
        )
    data["weights"] = weights
    if rows.design is not None:  # predictions are of single data
        rows.design.forget("weights")
    if not isinstance(likelihood, Predictors):
        return times_weight(likelihood)
    eta = 0.0 if count == 1 else (0.0,) * count
    numbers = len(likelihood.derivatives(eta, SimpleNamespace(**data), 0))
    return replace(
        likelihood,
        log_factor=times_weight(likelihood.log_factor),
        derivatives=all_times_weight(likelihood.derivatives, numbers),
        remainder=likelihood.remainder and both_times_weight(likelihood.remainder),
        sizes=likelihood.sizes and all_times_weight(likelihood.sizes, 3),
    )


def times_weight(function: Any) -> Any:
    """A plain log likelihood, or a log factor: first is the state, or the predictors."""

    def weighted(first, data, n):
        return data.weights[n] * function(first, data, n)

    weighted.weights = "weights"  # type: ignore[attr-defined]  # no log density of one row
    return weighted


def both_times_weight(remainder: Any) -> Any:
    def weighted_remainder(eta, data, n):
        third, fourth = remainder(eta, data, n)
        return data.weights[n] * third, data.weights[n] * fourth

    return weighted_remainder


def all_times_weight(derivatives: Any, numbers: int) -> Any:
    """So many derivatives, written out: a tuple's length must be known when it is compiled.

    Those of one predictor read:

    w, f = data.weights[n], derivatives(eta, data, n)
    return (w * f[0], w * f[1], w * f[2],)
    """
    entries = [f"w * f[{i}]" for i in range(numbers)]
    parts = [entries[i : i + TOGETHER] for i in range(0, numbers, TOGETHER)]
    lines = [
        "def weighted_derivatives(eta, data, n):",
        "w, f = data.weights[n], derivatives(eta, data, n)",
        f"return {' + '.join('(' + ', '.join(part) + ',)' for part in parts)}",
    ]
    scope: dict[str, Any] = {"derivatives": derivatives, "__name__": __name__}
    exec("\n    ".join(lines), scope)
    return scope["weighted_derivatives"]
