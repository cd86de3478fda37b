"""What users claim of their predictors, checked on a few data before anything is built on it."""

from itertools import combinations_with_replacement as multisets
from typing import Any

import numpy as np

SAMPLED = 64  # data on which a claim of linearity is checked


def at_some(model, count: int) -> tuple[np.ndarray, Any]:
    """Evenly spaced data, and eta there as a function of the floats."""
    floats = model.floats.copy()
    state = model.state(model.ints, floats)
    rows = np.unique(np.linspace(0, model.size - 1, SAMPLED).astype(int))

    def etas(point):
        floats[:] = point
        found = [model.predictors.eta(state, model.data, n) for n in rows]
        return np.array(found, dtype=float).reshape(len(rows), count)

    return rows, etas


def check_affine(model, count: int) -> None:
    """Refuse predictors that are not affine in the continuous blocks, by a sample."""
    rows, etas = at_some(model, count)
    rng, base = np.random.default_rng(0), model.floats
    one, two = (rng.standard_normal(len(base)) for _ in range(2))
    flat, first, second = etas(base), etas(base + one), etas(base + two)
    both = etas(base + one + two)
    size = np.maximum.reduce([np.abs(v) for v in (flat, first, second, both)]) + 1e-300
    wrong = np.abs(both - first - second + flat) > 1e-9 * size
    if wrong.any():
        i, k = (int(v[0]) for v in np.nonzero(wrong))
        raise ValueError(
            f"eta is not linear in the continuous blocks: at datum {rows[i]}, predictor {k}, two "
            f"steps change it by {both[i, k] - flat[i, k]:.6g} together and by "
            f"{first[i, k] + second[i, k] - 2 * flat[i, k]:.6g} one by one. Make what is linear "
            "the predictor, and the rest part of log_factor; or give log_likelihood itself."
        )


def spread(model, count: int) -> np.ndarray:
    """The typical size of each predictor's differences over data."""
    _, etas = at_some(model, count)
    values = etas(model.floats + 1e-3) - etas(model.floats)
    found = np.maximum(etas(model.floats).std(axis=0), 1e3 * np.abs(values).mean(axis=0))
    return np.where(found > 0.0, found, 1.0)


def check_derivatives(model, count: int, order: int, widths) -> None:
    """Refuse derivatives that differ from differences of log_factor, by a sample."""
    given = model.predictors
    rows, etas = at_some(model, count)
    used = [part for k in range(1, order + 1) for part in multisets(range(count), k)]
    for n, at in zip(rows[:8], etas(model.floats)[:8], strict=True):

        def value(point, n=n):
            eta = point[0] if count == 1 else tuple(point)
            return np.array(flat_tuple(given.derivatives(eta, model.data, n)), dtype=float)

        def factor(point, n=n):
            return given.log_factor(point[0] if count == 1 else tuple(point), model.data, n)

        own = value(at)
        if len(own) < len(used):
            raise ValueError(
                f"derivatives returned {len(own)} numbers: order {order} of {count} predictors "
                f"needs {len(used)}."
            )
        for i, part in enumerate(used):  # of each one, differentiate the one before
            h = np.zeros(count)
            h[part[-1]] = widths[part[-1]]
            rest = part[:-1]
            if rest:
                j = used.index(rest)
                seen = (value(at + h)[j] - value(at - h)[j]) / (2.0 * h.sum())
            else:
                seen = (factor(at + h) - factor(at - h)) / (2.0 * h.sum())
            if abs(own[i] - seen) > 1e-3 * max(abs(own[i]), abs(seen)) + 1e-5 * (
                1.0 + np.abs(own).max()
            ):
                raise ValueError(
                    f"derivatives says that the derivative of log_factor by predictor(s) {part} is "
                    f"{own[i]:.6g} at datum {n}, eta={tuple(at)}; differences say {seen:.6g}."
                )


def flat_tuple(value) -> tuple:
    """What derivatives returned, or an error."""
    if not isinstance(value, tuple):
        raise TypeError(f"derivatives returned {value!r}: it must be a tuple of floats.")
    return value
