"""A likelihood that sees the parameters through a few linear predictors, as a GLM does."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from subsample_mcmc.target.blocks import draw_discrete
from subsample_mcmc.target.user_functions import plain

ROWS = 3  # in a row, where etas is compared with eta: at either end of the data, and ...
PLACES = 24  # ... at some between, and where data have the numbers that discrete blocks have
WHAT_IT_BOUNDS = (  # for errors
    "remainder must bound the third and fourth derivatives of log_factor along every direction of "
    "length 1, wherever the predictors may come to (growth: by which factor e^growth they may grow "
    "per unit)"
)


@dataclass(frozen=True, eq=False)
class Predictors:
    """log_factor(eta_n, data, n), eta_n linear in the continuous blocks: pass it to sm.Model.

    sm.Model(sm.Predictors(eta, log_factor), data, state) is the model with that log likelihood,
    of which sm.Taylor then needs derivatives in eta alone, a few numbers per datum.

    eta(state, data, n) -> float, or a tuple of floats: linear (affine) in every continuous block.
    log_factor(eta, data, n) -> float: of one datum. It may not read the state: what it depends on
        is a predictor, such as eta = (x'beta, log_sigma).
    derivatives(eta, data, n) -> tuple: the partial derivatives of log_factor by eta up to second
        or third order. One predictor: (f', f'') or (f', f'', f'''). Two, a and b: (a, b, aa, ab,
        bb) or with (aaa, aab, abb, bbb); and so on, in lexicographic order. Default: differences.
    remainder(eta, data, n) -> tuple: bounds (third, fourth) of the third and fourth derivative of
        t -> log_factor(e + t u) over all e and all directions u of length 1. What
        makes decisions provable; without it Betting refuses.
    growth: above 0, these bounds are those at eta itself, and grow at most like
        exp(growth |e - eta|).
    etas(state, data, first, out): the predictors of consecutive data in one call, for exact sums:
        writes those of datum first + i into out[0, i], or of several predictors, k into out[k, i].
        Loop over data innermost, along slices made before, x = data.x[first:]: this vectorises,
        where eta's loop over parameters does not (sm.models.glm: 1.4 to 5 times faster).
    sizes(eta, data, n) -> (first, second, third): what the derivatives of one predictor round by:
        each, as computed at eta, is off by at most 64 times 2^-53 of its size; and eta is a sum of
        parameters times numbers of the data, and of one number more. With it, and remainder, it is
        proved what rounding may do to decisions that read no row; without, it is allowed for by
        1e-13 of the largest log factor, for each row.

    Example:
        >>> def eta(state, data, n):
        ...     return state.a[0] + state.b[0] * data.x[n]
        >>> def log_factor(eta, data, n):
        ...     return data.y[n] * eta - sm.exp(eta)
        >>> data = {"x": np.linspace(-1.0, 1.0, 500), "y": np.arange(500.0) % 5}
        >>> model = sm.Model(sm.Predictors(eta, log_factor), data, state={"a": 0.0, "b": 0.0})
        >>> round(float(sm.laplace(model).state["a"]), 1)
        0.7
    """

    eta: Any
    log_factor: Any
    derivatives: Any = None
    remainder: Any = None
    growth: float = 0.0
    etas: Any = None
    sizes: Any = None

    def __post_init__(self):
        plain(self.eta, "eta", "eta(state, data, n) -> float or tuple of floats")
        plain(self.log_factor, "log_factor", "log_factor(eta, data, n) -> float")
        if self.derivatives is not None:
            plain(self.derivatives, "derivatives", "derivatives(eta, data, n) -> tuple")
        if self.remainder is not None:
            plain(self.remainder, "remainder", "remainder(eta, data, n) -> (third, fourth)")
        if self.etas is not None:
            plain(self.etas, "etas", "etas(state, data, first, out)")
        if self.sizes is not None:
            plain(self.sizes, "sizes", "sizes(eta, data, n) -> (first, second, third)")
        if not 0.0 <= self.growth < float("inf"):
            raise ValueError(f"growth={self.growth!r}: give a number, 0 or more.")

    def log_likelihood(self) -> Any:
        """The composition, as a plain function that can be compiled."""
        eta, log_factor = self.eta, self.log_factor

        def log_likelihood(state, data, n):
            return log_factor(eta(state, data, n), data, n)

        return log_likelihood

    def count(self, model) -> int:
        """How many predictors there are."""
        found = plain(self.eta, "eta", "eta")(model.state(model.ints, model.floats), model.data, 0)
        return len(found) if isinstance(found, tuple) else 1

    def check_etas(self, model) -> None:
        """Refuse etas that disagree with eta at some data, in some states."""
        eta, etas = plain(self.eta, "eta", "eta"), plain(self.etas, "etas", "etas")
        floats, count, rows = model.floats.copy(), self.count(model), min(ROWS, model.size)
        ints, rng = model.ints.copy(), np.random.default_rng(0)
        state, found = model.state(ints, floats), np.zeros((count, rows))
        if count == 1 and isinstance(eta(state, model.data, 0), tuple):
            raise TypeError("eta returned a tuple of one: one predictor is a float.")
        near, last = 1e-3 * rng.uniform(0.5, 1.5, len(floats)), model.size - rows
        for step in (0.0, near, near, near):  # at zeros many a mistake would not show
            floats[:] = model.floats + step
            if step is near:
                draw_discrete(model, ints, rng)
            places = {0, last, *rng.integers(0, last + 1, size=PLACES).tolist()}
            # A look-up by a discrete value is off by one there, or nowhere.
            places |= {min(max(int(k) - 1, 0), last) for k in ints[:PLACES]}
            for first in sorted(places):
                found[:] = np.nan
                try:
                    result = etas(state, model.data, first, found)
                    each = [eta(state, model.data, n) for n in range(first, first + rows)]
                except Exception:  # discrete values that do not go together
                    if step is near:
                        break
                    raise
                if result is not None:
                    raise TypeError(f"etas returned {result!r}: it must write into out.")
                wanted = np.array(each, dtype=float).reshape(rows, count).T
                size = np.abs(wanted).max(axis=1, keepdims=True)
                same = (np.abs(found - wanted) <= 1e-9 * size) | (found == wanted)
                wrong = np.argwhere(~(same | (np.isnan(found) & np.isnan(wanted))))
                if len(wrong):
                    k, i = (int(v) for v in wrong[0])
                    raise ValueError(
                        f"etas(state, data, first={first}, out) left {found[k, i]:.12g} in "
                        f"out[{k}, {i}], but eta of datum {first + i}, predictor {k}, is "
                        f"{wanted[k, i]:.12g}: both must be the same for every datum."
                    )
