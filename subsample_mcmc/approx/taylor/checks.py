"""What users claim of their predictors, checked on a few data before anything is built on it."""

from itertools import combinations_with_replacement as multisets
from itertools import product
from math import comb, factorial
from typing import Any

import numpy as np

from subsample_mcmc.approx.taylor.passes.roundings import OWN, UNIT
from subsample_mcmc.numerics.compared import in_numbers
from subsample_mcmc.target.predictors import WHAT_IT_BOUNDS

SAMPLED = 64  # data on which a claim of linearity is checked
BOUNDED = 16  # of these, on which a remainder is, and sizes are
STEPS = 8  # from each number to the next, over which derivatives are seen to round


def spaced_rows(size: int, count: int) -> np.ndarray:
    """Some rows, evenly spaced."""
    return np.unique(np.linspace(0, size - 1, count).astype(int))


def at_some(model, count: int) -> tuple[np.ndarray, Any]:
    """Evenly spaced data, and eta there as a function of the floats."""
    floats = model.floats.copy()
    state = model.state(np.zeros_like(model.ints), floats)  # whatever values it starts from
    rows = spaced_rows(model.size, SAMPLED)

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
    wrong = ~(np.abs(both - first - second + flat) <= 1e-9 * size)
    if wrong.any():
        i, k = (int(v[0]) for v in np.nonzero(wrong))
        raise ValueError(
            f"eta is not linear in the continuous blocks: at datum {rows[i]}, predictor {k}, two "
            f"steps change it by {both[i, k] - flat[i, k]:.6g} together and by "
            f"{first[i, k] + second[i, k] - 2 * flat[i, k]:.6g} one by one. Make what is linear "
            "the predictor, and the rest part of log_factor; or give log_likelihood itself."
        )


def check_eta(value) -> None:
    """Refuse what is neither a number nor a tuple of at least two floats."""
    if isinstance(value, tuple):
        if len(value) < 2:
            raise TypeError(f"eta returned {value!r}: one predictor is a float, not a tuple.")
        only_floats("eta", value)


def only_floats(name: str, value) -> None:
    """Refuse tuples of numbers that are not all floats: the compiler wants one type."""
    mixed = [v for v in value if not isinstance(v, float | np.floating)]
    if mixed:
        raise TypeError(f"{name} returned {value!r}: give floats only, {float(mixed[0])!r} say.")


def typical(model, count: int, point) -> np.ndarray:
    """By how much each predictor must move to change log_factor by about a nat: 1/sqrt|f''|."""
    rows, etas = at_some(model, count)
    found = np.ones(count)
    for k in range(count):
        curvatures = []
        for n, at in zip(rows[:16], etas(point)[:16], strict=True):

            def factor(h, n=n, at=at, k=k):
                moved = at.copy()
                moved[k] += h
                with np.errstate(all="ignore"):
                    eta = moved[0] if count == 1 else tuple(moved)
                    return float(model.predictors.log_factor(eta, model.data, n))

            h = max(abs(at[k]), 1.0)
            for _ in range(80):  # until a second difference stands out of the rounding
                bend = abs(factor(h) - 2.0 * factor(0.0) + factor(-h))
                if not bend <= 1e-2:
                    h *= 0.5
                elif bend < 1e-5 and h < 1e9:
                    h *= 1.9
                else:
                    break
            if 0.0 < bend <= 1e-2:
                curvatures.append(bend / (h * h))
        mean = float(np.mean(curvatures)) if curvatures else 0.0
        found[k] = 1.0 / np.sqrt(mean) if mean > 0.0 else max(float(np.abs(etas(point)).max()), 1.0)
    return found


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
        if count > 1:
            only_floats("derivatives", given.derivatives(tuple(at), model.data, n))
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
            allowed = 1e-3 * max(abs(own[i]), abs(seen)) + 1e-5 * (1.0 + np.abs(own).max())
            if not abs(own[i] - seen) <= allowed:
                raise ValueError(
                    f"derivatives says that the derivative of log_factor by predictor(s) {part} is "
                    f"{own[i]:.6g} at datum {n}, eta={tuple(at)}; differences say {seen:.6g}."
                )


def check_remainder(model, count: int, order: int, widths) -> None:
    """Refuse a remainder that differences of the derivatives exceed, by a sample.

    A difference over its width is the next derivative somewhere between: beyond the bound, it
    proves that the bound is wrong. A bound that is too small may otherwise stay unseen: by it,
    hardly a row needs to be read.
    """
    given, rng = model.predictors, np.random.default_rng(0)
    rows, etas = at_some(model, count)
    parts = list(multisets(range(count), order))
    skipped = sum(comb(count + k - 1, k) for k in range(1, order))
    turns = rng.standard_normal((3, count)) if count > 1 else np.ones((1, 1))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    width = float(np.min(widths))

    def along(point, turn, n):
        """The derivative of this order in a direction."""
        eta = point[0] if count == 1 else tuple(point)
        values = given.derivatives(eta, model.data, n)[skipped:]
        found = 0.0
        for part, value in zip(parts, values, strict=False):
            times = factorial(order) / np.prod([factorial(part.count(k)) for k in set(part)])
            found += times * value * np.prod(turn[list(part)])
        return found

    some = np.linspace(0, len(rows) - 1, BOUNDED).astype(int)
    for n, at in zip(rows[some], etas(model.floats)[some], strict=True):
        for turn, far in product(turns, (-3.0, -1.0, 0.0, 1.0, 3.0)):
            with np.errstate(all="ignore"):
                middle, h = at + far * width * turn, 0.25 * width
                low, high = along(middle - h * turn, turn, n), along(middle + h * turn, turn, n)
                seen, rounding = abs(high - low) / (2.0 * h), 1e-10 * (abs(low) + abs(high)) / h
                eta = middle[0] if count == 1 else tuple(middle)
                bound = given.remainder(eta, model.data, n)[order - 2]
                allowed = float(bound * np.exp(given.growth * h))
            if seen > 1.0001 * allowed + rounding:
                raise ValueError(
                    f"remainder says that the derivative of order {order + 1} of log_factor is at "
                    f"most {allowed:.6g} in size at datum {n}, near eta={tuple(middle)}; "
                    f"differences of derivatives say {seen:.6g}. {WHAT_IT_BOUNDS}."
                )


def check_sizes(model, nat: float) -> None:
    """Refuse sizes below what derivatives of one predictor are seen to round by, by a sample.

    At numbers next to each other a derivative differs by its slope, and by twice what it rounds.
    nat: by how much a predictor moves usually.
    """
    given, (rows, etas) = model.predictors, at_some(model, 1)
    some = np.linspace(0, len(rows) - 1, BOUNDED).astype(int)
    data = in_numbers(model.data)  # numpy takes a float32 beside a number for another float32
    for n, at in zip(rows[some], etas(model.floats)[some], strict=True):
        e = float(at[0]) + 0.7 * nat
        sizes = given.sizes(e, data, n)
        if not isinstance(sizes, tuple) or len(sizes) != 3 or not all(m >= 0.0 for m in sizes):
            raise TypeError(
                f"sizes returned {sizes!r} at datum {n}: three numbers from 0 are needed, by which "
                "the first three derivatives round."
            )
        here, near = np.array(flat_tuple(given.derivatives(e, data, n)), float), e
        last = given.remainder(e, data, n)[len(here) - 2]  # how steep the last one is
        for _ in range(STEPS):
            near = float(np.nextafter(near, np.inf))
            step, moved = near - e, np.array(given.derivatives(near, data, n), float) - here
            # From far away numbers are so far apart that slopes change between them.
            bends = np.append(np.abs(here[2:]) + last * step, last)
            seen = np.abs(moved)
            seen[:-1] = np.abs(moved[:-1] - here[1:] * step) - 0.51 * bends * step * step
            seen[-1] -= 1.01 * last * step
            wrong = np.flatnonzero(seen > 2.0 * OWN * UNIT * np.array(sizes[: len(here)]))
            if len(wrong):
                k = int(wrong[0])
                raise ValueError(
                    f"sizes says that derivative {k + 1} is off by at most 64 x 2^-53 x "
                    f"{sizes[k]:.6g} at datum {n}, near eta={e!r}; between numbers next to each "
                    f"other it differs by {seen[k]:.3g} more than its slope says."
                )


def flat_tuple(value) -> tuple:
    """What derivatives returned, or an error."""
    if not isinstance(value, tuple):
        raise TypeError(f"derivatives returned {value!r}: it must be a tuple of floats.")
    return value
