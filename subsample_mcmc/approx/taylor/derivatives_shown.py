"""sm.derivatives: where a model's derivatives come from, and what they are worth.

Nothing is taken on trust: at random rows the polynomial is compared with log_likelihood itself,
half a posterior standard deviation from the reference, and a quarter. What it leaves over must be
little, and fall with the power of the order.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from subsample_mcmc.approx.control import controls_of
from subsample_mcmc.approx.taylor.derivatives_stencil import Stencil
from subsample_mcmc.approx.taylor.pilot import reader
from subsample_mcmc.approx.taylor.polynomial import (
    LIMITS,
    Sums,
    make_polynomial,
    polynomial_functions,
    terms,
)
from subsample_mcmc.approx.taylor.references import deviations_of, point_of, scales_of
from subsample_mcmc.approx.taylor.remainder import nothing
from subsample_mcmc.approx.taylor.taylor import FOUND, Taylor
from subsample_mcmc.calls import helpful
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.model import must_be_model
from subsample_mcmc.target.rewards import probe, rewards_of
from subsample_mcmc.target.user_functions import blaming

ROWS = 4096  # at random, at most
FAR = 0.5  # posterior standard deviations, of all coordinates together
TIMES = 5  # that residuals are timed


@dataclass(frozen=True)
class Derivatives:
    """What sm.derivatives found; str(...) says it in words."""

    way: str  # "predictors", "found predictors", "jets", "interpolation"
    why: str  # why nothing better serves, where something might
    order: int
    parameters: int
    nanoseconds: float  # of a residual of one row, log likelihood and polynomial
    rows: int  # at which the polynomial was compared with log_likelihood
    left: float  # root mean square of what it leaves over, of what log_likelihood changes by
    power: float  # of the distance, with which that falls; nan where it is rounding
    bound: str = ""  # of what is left over: within which distance, or why there is none

    def __str__(self) -> str:
        ways = {
            "predictors": "by sm.Predictors: each row sees the parameters through few numbers",
            FOUND: "by predictors found in log_likelihood",
            "jets": "by jets: log_likelihood itself, differentiated",
            "interpolation": f"by interpolation between {self.points} points",
        }
        fall = "it is rounding" if np.isnan(self.power) else f"falls as distance^{self.power:.2f}"
        lines = [
            f"derivatives of order {self.order} {ways[self.way]}",
            f"why not better: {self.why}" if self.why else "",
            f"one residual: {self.nanoseconds:,.0f} ns ({self.parameters} parameters)",
            f"at {self.rows:,} random rows, {FAR} standard deviations off, {self.left:.2g} of the "
            f"change of log_likelihood is left, and {fall}",
            f"bounds of it: {self.bound}" if self.bound else "",
        ]
        return "\n".join(line for line in lines if line)

    @property
    def points(self) -> int:
        """Of an interpolation."""
        return self.parameters * (self.parameters + 1) + 1


@helpful
def derivatives(model, fit=None, order: int | None = None) -> Derivatives:
    """Where sm.Taylor's derivatives of a model come from, what they cost, and a check of them.

    model: whose log likelihood is looked at.
    fit, order: as for sm.Taylor; default, the model's initial values, and the usual order.

    The data are passed over a few times, to find a posterior standard deviation.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     z = (data.y[n] - state.b[0] - state.b[1] * data.x[n]) * sm.exp(-state.log_sigma[0])
        ...     return -state.log_sigma[0] - 2.5 * sm.log1p(z * z / 4.0)
        >>> rng = np.random.default_rng(0)
        >>> data = {"x": rng.standard_normal(500), "y": rng.standard_normal(500)}
        >>> model = sm.Model(log_likelihood, data, {"b": [0.0, 0.0], "log_sigma": 0.0})
        >>> found = sm.derivatives(model)
        >>> found.way, found.order, round(found.power)
        ('jets', 3, 4)
    """
    must_be_model(model, "sm.derivatives(model)")
    model.notice_changes()
    if len(model.floats) == 0:
        raise ValueError("the model has no continuous block: there is nothing to differentiate by.")
    point = model.floats.copy() if fit is None else point_of(fit, model)
    with blaming(model):
        source, chosen, way, why = Taylor({}, order=order).source_of(
            model, [point], lambda table: model.ints.copy()
        )
        shown = Derivatives(way, why, chosen, len(point), 0, 0, 0, 0, told_bound(source))
        return measured(model, source, point, shown)


def told_bound(source) -> str:
    """Of what a polynomial leaves over, in words; empty where nobody asked for one."""
    return source.told_bound() if hasattr(source, "told_bound") else ""


def measured(model, source, point: np.ndarray, found: Derivatives) -> Derivatives:
    """With what residuals cost, and how large they are."""
    rng, d = np.random.default_rng(0), len(point)
    if isinstance(source, Stencil):  # with the steps that chains have
        source.references[0], source.factors[0] = point, scales_of(model, model.ints, point)
    away = rng.standard_normal(d)
    away *= FAR / np.linalg.norm(away) * deviations_of(model, model.ints, point)
    points = np.array([point, point + away, point + 0.5 * away])
    third = np.zeros((1, d, d * (d + 1) // 2)) if source.order > 2 else np.zeros((0, d, 1))
    zeros = terms(np.zeros(1), np.zeros((1, d)), np.zeros((1, d, d)), third, np.zeros((1, LIMITS)))
    sums = Sums(point[None], np.array([d]), np.eye(d)[None], zeros, zeros, nothing(1, d))
    bound = make_polynomial(model, sums, np.zeros(len(model.ints), dtype=np.int64), 3, source)
    functions = polynomial_functions(source.residuals, source.reading)
    none = np.zeros(0, dtype=np.int64)
    trial = probe(model, model.ints.copy(), point.copy(), points,
                  controls_of(model, functions, bound, 3, none))  # fmt: skip
    plain, read = probe(model, model.ints.copy(), point.copy(), points), reader(source.residuals)
    size = min(ROWS, model.size)
    rows = rng.permutation(model.size)[:size] if model.size < 10 * ROWS else np.unique(
        rng.integers(0, model.size, size)
    )  # fmt: skip
    rows = np.sort(rows).astype(row_kind(model.size))
    left, values = np.zeros((3, len(rows))), np.zeros((3, len(rows)))
    parts = np.array_split(np.arange(len(rows)), max(2, -(-len(rows) // CHUNK)))
    spent = []
    with np.errstate(all="ignore"):
        for _ in range(TIMES):
            for part in parts:  # what is known of one mini-batch is forgotten by the next
                begun = time.perf_counter()
                for arm in range(3):
                    own = np.zeros(len(part))
                    read(trial, arm, rows[part], own)
                    left[arm, part] = own
                spent.append((time.perf_counter() - begun) / (3 * max(len(part), 1)))
        for arm in range(3):
            rewards_of(plain, arm, rows, values[arm])
    change, far, near = (
        float(np.sqrt(np.mean(v**2)))
        for v in (values[1] - values[0], left[1] - left[0], left[2] - left[0])
    )
    real = near > 1e-13 * float(np.sqrt(np.mean(values[0] ** 2)))
    return replace(
        found, nanoseconds=1e9 * float(np.median(spent[len(parts) :])), rows=len(rows),
        left=far / max(change, 1e-300), power=float(np.log2(far / near)) if real else np.nan,
    )  # fmt: skip
