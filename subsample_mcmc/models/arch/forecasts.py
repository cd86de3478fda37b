"""What draws of an ARCH model say: its parameters by order, and the next return."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

EVERY = "averaged"  # the row of all orders together


def draws_of(model, trace, weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, theta, weights) of all chains in a row; weights add up to 1."""
    q, theta = (np.asarray(trace.draws[name]) for name in ("q", "theta"))
    length = model.orders[-1] + 2
    if theta.shape[2:] != (length,):
        raise ValueError(
            f"the trace has theta of shape {theta.shape[2:]}: this model has ({length},)."
        )
    kernels = getattr(trace, "meta", {}).get("kernels", ())
    if weights is None and any(told.get("block") for told in kernels):
        weights = trace.model_probabilities("q").weights
    w = np.ones(q.shape) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != q.shape or not np.all((w >= 0.0) & (w < np.inf)) or not w.sum() > 0.0:
        raise ValueError(
            f"weights have shape {w.shape}: give numbers from 0, not all 0, of shape (chains, "
            f"draws) = {q.shape}."
        )
    return q.ravel(), theta.reshape(-1, length), w.ravel() / w.sum()


def groups(model, q) -> list[tuple[Any, np.ndarray]]:
    """Rows of a table: which draws each order has."""
    return [(order, q == k) for k, order in enumerate(model.orders)]


def summary(model, trace, weights=None) -> pd.DataFrame:
    """A row per order: posterior mean and sd of nu, a_0 and the sum of the other a_i."""
    q, theta, w = draws_of(model, trace, weights)
    rows = {}
    for order, mine in groups(model, q):
        x = theta[mine]
        row = {"probability": w[mine].sum(), "draws": int(mine.sum())}
        parts = {"nu": x[:, 0], "a_0": x[:, 1], "sum_a": x[:, 2 : 2 + order].sum(axis=1)}
        for name, values in parts.items():
            mean, sd = np.nan, np.nan
            if row["draws"]:
                own = w[mine] if row["probability"] > 0.0 else None  # too small for a number
                mean = np.average(values, weights=own)
                sd = np.sqrt(np.average(np.square(values - mean), weights=own))
            row |= {name: mean, f"{name}_sd": sd}
        rows[order] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("order")


def next_scales(model, q, theta) -> np.ndarray:
    """sigma^2 of the return after the last, draw by draw."""
    found = np.empty(len(q))
    for k, order in enumerate(model.orders):
        x = theta[q == k]
        found[q == k] = x[:, 1] + x[:, 2 : 2 + order] @ np.square(model.returns[: -order - 1 : -1])
    return found


def forecast(model, trace, level: float = 0.9, weights=None) -> pd.DataFrame:
    """A row per order and one averaged over them: the squared scale and the quantiles to come."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}: give the probability of the interval, between 0 and 1.")
    q, theta, w = draws_of(model, trace, weights)
    scales, low = next_scales(model, q, theta), 0.5 - 0.5 * level
    rows = {}
    for order, mine in [*groups(model, q), (EVERY, np.ones(len(q), dtype=bool))]:
        own = w[mine]
        row = {"probability": own.sum(), "sigma2": np.nan}
        row |= dict.fromkeys(("sigma2_low", "sigma2_high", "return_low", "return_high"), np.nan)
        if mine.any():
            own = np.ones(len(own)) if row["probability"] == 0.0 else own  # too small for a number
            own = own / own.sum()
            row["sigma2"] = float(own @ scales[mine])
            row["sigma2_low"], row["sigma2_high"] = quantiles(scales[mine], own, (low, 1.0 - low))
            high = mixture_quantile(1.0 - low, np.sqrt(scales[mine]), theta[mine, 0], own)
            row["return_low"], row["return_high"] = -high, high  # each part is symmetric about 0
        rows[order] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("order")


def quantiles(values, weights, levels) -> np.ndarray:
    """The least values at which weights, in order of values, add up to the levels."""
    order = np.argsort(values)
    along = np.cumsum(weights[order])
    return values[order][np.minimum(np.searchsorted(along, levels), len(values) - 1)]


def mixture_quantile(p, scale, nu, weights) -> float:
    """Quantile p > 1/2 of a weighted mixture of Student-t laws at 0."""
    each = scale * special.stdtrit(nu, p)

    def excess(x):
        return float(weights @ special.stdtr(nu, x / scale)) - p

    low, high = float(each.min()), float(each.max())
    # At the ends the signs are known, but for rounding.
    return high if excess(low) >= 0.0 or excess(high) <= 0.0 else optimize.brentq(excess, low, high)
