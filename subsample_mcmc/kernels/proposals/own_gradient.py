"""Is a gradient of a user's own the derivative of the log likelihood; told by differences."""

import time
from typing import Any

import numpy as np

from subsample_mcmc.kernels.gradient import STEP
from subsample_mcmc.target.moved import moved
from subsample_mcmc.target.user_functions import plain, try_once

CHECKED = 50  # coordinates that are compared ...
ROWS, SECONDS = 256, 0.3  # ... of so many data, beside the ends, as far as they take no longer


def check_gradient(model, moving: tuple[str, ...], gradient) -> None:
    """Refuse a gradient that differs from central differences of log_likelihood.

    Uncompiled, at the initial state, on some data and at most CHECKED coordinates: a branch that
    few data take is met, too.
    """
    names = ("state", "data", "n") if model.prepare is None else ("state", "data", "n", "prepared")
    called = plain(gradient, "gradient", f"gradient({', '.join(names)}, out)")
    blocks, floats = moved(model, moving), model.floats.copy()
    state = model.state(model.ints.copy(), floats)
    part = blocks.of(floats)
    u = blocks.free_at(part.copy())

    def at(point, n) -> dict[str, Any]:
        """Arguments of the user's functions, with the blocks at free coordinates `point`."""
        blocks.blocks_at(point, part)
        return dict(zip(names, (state, model.data, n, *model.extra(state)), strict=True))

    def slope(j: int, n: int, low: float, high: float) -> float:
        """Of the log likelihood between two steps of a free coordinate, by its own value."""
        values = []
        for step in (low, high):
            point = u.copy()
            point[j] += step * max(1.0, abs(u[j]))
            value = try_once(model.log_likelihood, "log_likelihood", at(point, n))
            values.append((np.nan if value is None else value, point[j]))
        return (values[1][0] - values[0][0]) / (values[1][1] - values[0][1])

    def surely(j: int, n: int, own: float) -> bool:
        """Do differences on either side, and over more, agree with each other and not with it.

        They do not at a kink, nor where rounding is what they see.
        """
        ends = [(-16.0, 0.0), (0.0, 16.0), (-4.0, 4.0), (-64.0, 64.0)]
        seen = np.array([slope(j, n, a * STEP, b * STEP) for a, b in ends])
        middle = float(np.median(seen))
        near = np.abs(seen - middle) <= 0.01 * abs(middle) + 1e-4
        return bool(near.all() and abs(own - middle) > 0.05 * max(abs(own), abs(middle)) + 1e-3)

    def compare(n: int, some: bool = False) -> None:
        out = np.zeros(len(part))
        with np.errstate(all="ignore"):
            result = called(*at(u, n).values(), blocks.views(out))
        if result is not None:
            raise TypeError(
                f"gradient(..., n={n}, out) returned {result!r}: it must write the derivatives "
                f"with respect to {', '.join(moving)} into out, and return nothing."
            )
        for j in np.unique(np.linspace(0, len(u) - 1, CHECKED).astype(int)):
            ends = []
            for sign in (STEP, -STEP):
                point = u.copy()
                point[j] += sign * max(1.0, abs(u[j]))
                value = try_once(model.log_likelihood, "log_likelihood", at(point, n))
                ends.append((np.nan if value is None else value, point[j], part.copy()))
            (above, high, x), (below, low, y) = ends
            slopes, seen = (x - y) / (high - low), (above - below) / (high - low)
            own = float(out @ slopes)
            allowed = 1e-4 * max(abs(own), abs(seen)) + 1e-7 * (1.0 + abs(above))
            if not np.isfinite(seen) or abs(own - seen) <= allowed:
                continue
            if some and not surely(int(j), n, own):
                continue
            k = int(np.searchsorted(blocks.ends[:, 1], j, side="right"))
            first, start = blocks.ends[k, 0], blocks.ends[k, 2]
            where, scale = f"{moving[k]}[{j - first}]", slopes[start + j - first]
            if blocks.variables[k].constraint.together or scale == 0.0:
                where, scale = f"free coordinate {j - first} of {moving[k]}", 1.0
            raise ValueError(
                f"gradient says that the log likelihood of datum {n} has derivative "
                f"{own / scale:.6g} with respect to {where} at the initial state; central "
                f"differences of log_likelihood say {seen / scale:.6g}. Correct it, or leave it "
                "out: differences need no gradient."
            )

    rng, begun = np.random.default_rng(0), time.thread_time()
    for n in sorted({i * (model.size - 1) // 3 for i in range(4)}):
        compare(n)
    for n in rng.integers(model.size, size=ROWS).tolist():
        if time.thread_time() - begun > SECONDS:
            return
        try:
            compare(n, True)
        except IndexError:  # of which the check of look-ups tells more
            continue
