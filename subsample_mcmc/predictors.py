"""A likelihood that sees the parameters through a few linear predictors, as a GLM does."""

from dataclasses import dataclass
from typing import Any

from subsample_mcmc.userfunction import plain


@dataclass(frozen=True, eq=False)
class Predictors:
    """log_factor(eta_n, data, n), eta_n linear in the continuous blocks: pass it to sm.Model.

    sm.Model(sm.Predictors(eta, log_factor), data, state) is the model with that log likelihood,
    of which sm.Taylor then needs derivatives in eta alone, a few numbers per datum.

    eta(state, data, n) -> float, or a tuple of floats: linear (affine) in every continuous block.
    log_factor(eta, data, n) -> float, of one datum. It may not read the state: what it depends on
        is a predictor, such as eta = (x'beta, log_sigma).
    derivatives(eta, data, n) -> tuple: the partial derivatives of log_factor by eta up to second
        or third order. One predictor: (f', f'') or (f', f'', f'''). Two, a and b: (a, b, aa, ab,
        bb) or with (aaa, aab, abb, bbb); and so on, in lexicographic order. Default: differences.
    remainder(eta, data, n) -> (third, fourth): bounds of the third and fourth derivative of
        t -> log_factor(e + t u) over all e and all directions u of length 1. With `growth` > 0
        the bounds are those at eta itself, and grow at most like exp(growth |e - eta|). What makes
        decisions provable; without it Betting refuses.
    """

    eta: Any
    log_factor: Any
    derivatives: Any = None
    remainder: Any = None
    growth: float = 0.0

    def __post_init__(self):
        plain(self.eta, "eta", "eta(state, data, n) -> float or tuple of floats")
        plain(self.log_factor, "log_factor", "log_factor(eta, data, n) -> float")
        if self.derivatives is not None:
            plain(self.derivatives, "derivatives", "derivatives(eta, data, n) -> tuple")
        if self.remainder is not None:
            plain(self.remainder, "remainder", "remainder(eta, data, n) -> (third, fourth)")
        if not 0.0 <= self.growth < float("inf"):
            raise ValueError(f"growth={self.growth!r}: give a number, 0 or more.")

    def log_likelihood(self) -> Any:
        """The composition, as a plain function that can be compiled."""
        eta, log_factor = self.eta, self.log_factor

        def log_likelihood(state, data, n):
            return log_factor(eta(state, data, n), data, n)

        return log_likelihood
