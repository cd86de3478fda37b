"""Tall data for control variates: a few families in a few functions, and a bench to look inside.

One likelihood serves many models: what differs travels in data, so that little is compiled.
"""

import math
from typing import Any

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.control import controls_of, prepared_for
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.rows import CHUNK
from subsample_mcmc.target.exact_sums import new_memory
from subsample_mcmc.target.pointwise import Pointwise
from subsample_mcmc.target.rewards import place, probe, trial_of

GAUSSIAN, LOGISTIC, POISSON = range(3)
FAMILIES = {"gaussian": GAUSSIAN, "logistic": LOGISTIC, "poisson": POISSON}
CLASSIC = 0.1  # the largest third derivative of log(1 + e^t) is 1 / (6 sqrt(3)) = 0.0962
QUARTIC = 0.126  # and the largest fourth 1/8
EXACT = 1e-10  # of the mean, relative to the sum of |h|
MANY = 2_000  # rows: to compile the likelihood takes as long as to call it for some thousand


# ------------------------------------------------- one predictor: x'beta + effect * k, 3 families
def eta(state, data, n):
    value = data.effect[n] * state.k[0]
    for j in range(len(state.beta)):
        value += data.x[n, j] * state.beta[j]
    return value


def factor(e, data, n):
    if data.kind == LOGISTIC:
        t = e if data.y[n] > 0.5 else -e
        return -sm.log1p(sm.exp(-t)) if t > 0.0 else t - sm.log1p(sm.exp(t))
    if data.kind == POISSON:
        return data.y[n] * e - sm.exp(e)
    r = data.y[n] - e
    return -0.5 * r * r


def derivatives(e, data, n):
    if data.kind == LOGISTIC:
        p = 1.0 / (1.0 + sm.exp(-e))
        v = p * (1.0 - p)
        return data.y[n] - p, -v, -v * (1.0 - 2.0 * p)
    if data.kind == POISSON:
        m = sm.exp(e)
        return data.y[n] - m, -m, -m
    return data.y[n] - e, -1.0, 0.0


def remainder(e, data, n):
    if data.kind == LOGISTIC:
        return CLASSIC, QUARTIC
    if data.kind == POISSON:
        m = sm.exp(e)
        return m, m
    return 0.0, 0.0


def likelihood(state, data, n):
    return factor(eta(state, data, n), data, n)


def opaque(state, data, n):
    """The same, of which no derivatives are known: nobody differentiates floor."""
    e = eta(state, data, n)
    return factor(e, data, n) + 0.0 * math.floor(e)


def by_hand(state, data, n, gradient, hessian):
    """First and second derivatives by the blocks, for Taylor(derivatives=...)."""
    first, second, _ = derivatives(eta(state, data, n), data, n)
    for j in range(len(gradient)):
        gradient[j] = first * data.x[n, j]
        for k in range(len(gradient)):
            hessian[j, k] = second * data.x[n, j] * data.x[n, k]


def prior(state):
    value = 0.2 * state.k[0]
    for j in range(len(state.beta)):
        value -= 0.5 * state.beta[j] * state.beta[j]
    return value


@sm.kernel(writes="k")
def idle(rng, state, data):
    """For models whose discrete block has one value, or stays where it is."""


def predictors(kind, known=True, bounded=True) -> sm.Predictors:
    """known: derivatives are given; bounded: a remainder, too."""
    return sm.Predictors(
        eta, factor, derivatives if known else None, remainder if bounded else None,
        growth=1.0 if kind == POISSON else 0.0,
    )  # fmt: skip


def regression(
    name, size, d=2, source="given", configurations=1, seed=0, heavy=False, scale=1.0, effect=0.3
) -> tuple[sm.Model, dict]:
    """A model, and a dict of its reference: the coefficients that the data were drawn with.

    source: "given" derivatives with bounds, "loose": without, "differences"; or no predictors at
        all: a plain function, "jets", or one that only interpolation serves, "stencil".
    """
    kind = FAMILIES[name]
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, d)) * scale
    if heavy:  # a few rows with a lot of leverage
        x *= np.where(rng.random(size) < 0.02, 6.0, 1.0)[:, None]
    x[:, 0] = 1.0
    beta = np.linspace(0.3, -0.4, d)
    effects = effect * rng.standard_normal(size) if configurations > 1 else np.zeros(size)
    mean = x @ beta
    if kind == LOGISTIC:
        y = (rng.random(size) < 1.0 / (1.0 + np.exp(-mean))).astype(float)
    elif kind == POISSON:
        y = rng.poisson(np.exp(mean)).astype(float)
    else:
        y = mean + rng.standard_normal(size)
    data = {"x": x, "y": y, "effect": effects, "kind": kind}
    given: Any = opaque if source == "stencil" else likelihood
    if source not in ("stencil", "jets"):
        given = predictors(kind, source != "differences", source == "given")
    model = sm.Model(given, data, {"k": 0, "beta": beta + 0.01}, prior,
                     support={"k": configurations})  # fmt: skip
    return model, {"beta": fitted(kind, x, y, beta)}


def fitted(kind, x, y, beta) -> np.ndarray:
    """The maximum of the likelihood at k = 0, by Newton's method."""
    beta = beta.copy()
    for _ in range(30):
        e = x @ beta
        p = 1.0 / (1.0 + np.exp(-e))
        m = np.exp(np.minimum(e, 50.0))
        slope, bend = {
            LOGISTIC: (y - p, p * (1.0 - p)),
            POISSON: (y - m, m),
        }.get(kind, (y - e, np.ones(len(y))))
        beta = beta + np.linalg.solve((x * bend[:, None]).T @ x, x.T @ slope)
    return beta


# ------------------------------------------------------------ two and three predictors: softmax
def two_etas(state, data, n):
    shift = data.effect[n] * state.k[0]
    return (
        data.x[n, 0] * state.beta[0, 0] + data.x[n, 1] * state.beta[0, 1] + shift,
        data.x[n, 0] * state.beta[1, 0] + data.x[n, 1] * state.beta[1, 1],
    )


def three_etas(state, data, n):
    first, second = two_etas(state, data, n)
    return first, second, data.x[n, 0] * state.beta[2, 0] + data.x[n, 1] * state.beta[2, 1]


def two_factor(e, data, n):
    value = -sm.log(1.0 + sm.exp(e[0]) + sm.exp(e[1]))
    return value + (e[0] if data.y[n] == 1.0 else e[1] if data.y[n] == 2.0 else 0.0)


def three_factor(e, data, n):
    value = -sm.log(1.0 + sm.exp(e[0]) + sm.exp(e[1]) + sm.exp(e[2]))
    return value + (
        e[0]
        if data.y[n] == 1.0
        else e[1]
        if data.y[n] == 2.0
        else e[2]
        if data.y[n] == 3.0
        else 0.0
    )


def pair(a, b, same):
    """Minus the covariance of two indicators."""
    return -(a * (1.0 if same else 0.0) - a * b)


def triple(a, b, c, ab, ac, bc):
    """Minus the third cumulant of three indicators; ab: the first two are one."""
    every = a if ab and ac else 0.0
    return -(
        every - (a * c if ab else 0.0) - (a * b if ac else 0.0) - (a * b if bc else 0.0)
        + 2.0 * a * b * c
    )  # fmt: skip


def two_derivatives(e, data, n):
    total = 1.0 + sm.exp(e[0]) + sm.exp(e[1])
    a, b = sm.exp(e[0]) / total, sm.exp(e[1]) / total
    y = data.y[n]
    return (
        (1.0 if y == 1.0 else 0.0) - a, (1.0 if y == 2.0 else 0.0) - b,
        pair(a, a, True), pair(a, b, False), pair(b, b, True),
        triple(a, a, a, True, True, True), triple(a, a, b, True, False, False),
        triple(a, b, b, False, False, True), triple(b, b, b, True, True, True),
    )  # fmt: skip


def three_derivatives(e, data, n):
    total = 1.0 + sm.exp(e[0]) + sm.exp(e[1]) + sm.exp(e[2])
    a, b, c = sm.exp(e[0]) / total, sm.exp(e[1]) / total, sm.exp(e[2]) / total
    y = data.y[n]
    return (
        (1.0 if y == 1.0 else 0.0) - a, (1.0 if y == 2.0 else 0.0) - b,
        (1.0 if y == 3.0 else 0.0) - c,
        pair(a, a, True), pair(a, b, False), pair(a, c, False),
        pair(b, b, True), pair(b, c, False), pair(c, c, True),
        triple(a, a, a, True, True, True), triple(a, a, b, True, False, False),
        triple(a, a, c, True, False, False), triple(a, b, b, False, False, True),
        triple(a, b, c, False, False, False), triple(a, c, c, False, False, True),
        triple(b, b, b, True, True, True), triple(b, b, c, True, False, False),
        triple(b, c, c, False, False, True), triple(c, c, c, True, True, True),
    )  # fmt: skip


def softmax_remainder(e, data, n):
    """In a direction of length 1 scores differ by at most sqrt(2): cumulants of a bounded law."""
    return 2.0**1.5 * CLASSIC, 4.0 * QUARTIC


def softmax(size, count, source="given", configurations=1, seed=0) -> tuple[sm.Model, dict]:
    """count predictors of two coefficients each, by the given derivatives or by differences."""
    rng = np.random.default_rng(seed)
    x = np.stack([np.ones(size), rng.standard_normal(size)], axis=1)
    beta = np.linspace(-0.5, 0.6, 2 * count).reshape(count, 2)
    effect = 0.3 * rng.standard_normal(size) if configurations > 1 else np.zeros(size)
    scores = np.c_[np.zeros(size), x @ beta.T]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(float)
    functions = {
        2: (two_etas, two_factor, two_derivatives),
        3: (three_etas, three_factor, three_derivatives),
    }[count]
    given = sm.Predictors(
        functions[0], functions[1], functions[2] if source == "given" else None,
        softmax_remainder if source == "given" else None,
    )  # fmt: skip
    data = {"x": x, "y": y, "effect": effect, "kind": 0}
    model = sm.Model(given, data, {"k": 0, "beta": beta}, support={"k": configurations})
    return model, {"beta": beta + 0.02}


# ----------------------------------------------------------------------------- looking inside
_inside: dict[Any, Any] = {}


def opened(functions) -> tuple:
    """(mean, residuals, reach, trusted) callable from Python."""
    if functions not in _inside:
        mean, residuals, reach, _, trusted = functions[:5]

        @jit
        def mean_of(trial, arm):
            place(trial, arm)
            return mean(trial, arm)

        @jit
        def residuals_of(trial, arm, rows, out):
            residuals(trial, arm, rows, out)

        _inside[functions] = mean_of, residuals_of, shared(reach, trusted)
    return _inside[functions]


def shared(reach, trusted):
    """Both, compiled once for all sources of derivatives."""
    if (reach, trusted) not in _inside:

        @jit
        def reach_of(trial, i, j, each):
            return reach(trial, i, j, each, False)

        @jit
        def trusted_of(trial, arm):
            return trusted(trial, arm)

        _inside[reach, trusted] = reach_of, trusted_of
    return _inside[reach, trusted]


class Bench:
    """A control variate at points of the continuous blocks, or at the values of a discrete one."""

    def __init__(self, model, control, points=None, ints=None, block=None, at=None):
        self.model, self.control = model, control
        self.ints = model.ints.copy() if ints is None else np.array(ints, dtype=np.int64)
        self.floats = model.floats.copy() if at is None else np.array(at, dtype=float)
        self.points = points
        arms = model.variables[block].support if block else len(points)
        self.arms = arms
        self.prepared = prepared_for(model, control)
        outliers = self.prepared.outliers
        bound, functions = self.prepared.bind(arms), self.prepared.functions
        controls = controls_of(model, functions, bound, arms, outliers)
        at = model, self.ints, self.floats
        if block:
            where, rows = model.variables[block].block, model.size - len(outliers)
            trial = trial_of(*at, new_memory(model), where, rows, points, controls)
            self.trial = pointer_to(trial)
        else:
            self.trial = probe(*at, points, controls)
        self.mean_of, self.residuals_of, pair = opened(self.prepared.functions)
        self.reach_of, self.trusted_of = pair
        self.raced = np.setdiff1d(np.arange(model.size), outliers)
        self.kind = np.int32 if model.size < 2**31 else np.int64
        # As a decision does: what is known of all arms first, and then their residuals.
        self.means = np.array([self.mean_of(self.trial, arm) for arm in range(arms)])

    def residuals(self, arm, rows=None) -> np.ndarray:
        """l - h of some rows, of all raced ones by default."""
        rows = self.raced if rows is None else rows
        out = np.zeros(len(rows))
        with np.errstate(all="ignore"):
            for first in range(0, len(rows), CHUNK):
                part = slice(first, first + CHUNK)
                self.residuals_of(self.trial, arm, rows[part].astype(self.kind), out[part])
        return out

    def values(self, arm, rows=None) -> np.ndarray:
        """l of some rows, by the user's own function; of many it is compiled, by itself."""
        rows = self.raced if rows is None else rows
        ints, floats = self.ints.copy(), self.floats.copy()
        if self.points is None:
            ints[self.trial.target[0].start] = arm
        else:
            floats[:] = self.points[arm]
        if len(rows) > MANY and not DISABLED:
            out = np.zeros((1, len(rows)))
            Pointwise(self.model).into(out, ints[None], floats[None], rows)
            return out[0]
        state = self.model.state(ints, floats)
        data, call = self.model.data, self.model.log_likelihood
        extra = self.model.extra(state)
        return np.array([call(state, data, n, *extra) for n in rows])

    def reach(self, i, j, each) -> float:
        return self.reach_of(self.trial, i, j, each)

    def error(self, arm) -> float:
        """How far the mean is from the sum of h over the raced rows, relative to that of |h|."""
        h = self.values(arm) - self.residuals(arm)
        return float(abs(self.means[arm] - h.sum()) / np.abs(h).sum())


def exact(bench):
    """The mean of every arm is the sum of h over exactly the raced rows."""
    for arm in range(bench.arms):  # one by one: a nan is no largest error
        assert bench.error(arm) < EXACT, f"the mean is off by {bench.error(arm):.1e} of sum |h|"


def spread(bench, i=0, j=1):
    """N v: N times the variance of what is raced between two arms."""
    apart = bench.residuals(i) - bench.residuals(j)
    return float(len(apart) * apart.var())
