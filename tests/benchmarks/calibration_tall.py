"""Models of some hundred to thirty thousand rows, with parameters drawn from their priors.

Rows enough that decisions read some of them. Each returns (model, what was drawn by block).
"""

import math

import numpy as np
from scipy import special

import subsample_mcmc as sm
from tests.benchmarks.calibration_models import design, one

TALL = {}


def drawn(function):
    """Make a function one of the models."""
    TALL[f"tall_{function.__name__}"] = function
    return function


def rows(rng, least=500, most=30_000) -> int:
    """A number of rows, of any order of magnitude alike."""
    return int(np.exp(rng.uniform(np.log(least), np.log(most))))


# ------------------------------------------------------------------------------- regressions
@drawn
def logistic_rare(rng):
    """One column is 1 in few rows."""
    size = rows(rng)
    x, beta = design(rng, size, 4), rng.normal(size=4)
    x[:, 3] = 0.0
    x[rng.choice(size, int(rng.integers(1, 25)), replace=False), 3] = 1.0
    y = rng.random(size) < special.expit(x @ beta)
    return sm.models.glm.logistic(x, y.astype(float), prior_sd=1.0), {"beta": beta}


@drawn
def student(rng):
    size, log_sigma = rows(rng), 2.0 * rng.normal()
    x, beta = design(rng, size, 3), rng.normal(size=3)
    y = x @ beta + np.exp(log_sigma) * rng.standard_t(3.0, size)
    model = sm.models.glm.student_t(x, y, nu=3.0, sigma=None, prior_sd=1.0)
    return model, {"beta": beta, "log_sigma": one(log_sigma)}


@drawn
def negative_binomial(rng):
    size, log_dispersion = rows(rng), 2.0 * rng.normal()
    x, beta = design(rng, size, 3), 0.7 * rng.normal(size=3)
    k = np.exp(log_dispersion)
    y = rng.poisson(np.exp(x @ beta) * rng.gamma(k, 1.0 / k, size)).astype(float)
    model = sm.models.glm.negative_binomial(x, y, prior_sd=0.7)
    return model, {"beta": beta, "log_dispersion": one(log_dispersion)}


@drawn
def ordered_levels(rng):
    size, cutpoints = rows(rng), np.sort(2.0 * rng.normal(size=3))
    x, beta = rng.normal(size=(size, 2)), 2.0 * rng.normal(size=2)
    y = np.digitize(x @ beta + rng.logistic(size=size), cutpoints)
    model = sm.models.glm.ordered_logistic(x, y, classes=4, prior_sd=2.0)
    return model, {"beta": beta, "cutpoints": cutpoints}


def of_survival(state):
    return -0.5 * (np.sum(state.beta**2) + state.log_shape[0] ** 2)


@drawn
def survival(rng):
    size, log_shape = rows(rng), rng.normal()
    x, beta = design(rng, size, 2), rng.normal(size=2)
    times = np.exp(x @ beta) * rng.weibull(np.exp(log_shape), size)
    times, last = np.maximum(times, 1e-300), rng.exponential(3.0, size)
    y, event = np.minimum(times, last), times <= last
    model = sm.models.glm.weibull(x, y, event, log_prior=of_survival)
    return model, {"beta": beta, "log_shape": one(log_shape)}


@drawn
def classes(rng):
    size, beta = rows(rng), rng.normal(size=(3, 2))
    x = design(rng, size, 2)
    scores = np.column_stack([np.zeros(size), x @ beta.T])
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return sm.models.glm.softmax(x, y, classes=4, prior_sd=1.0), {"beta": beta}


@drawn
def zero_inflated(rng):
    size, zeros, log_dispersion = rows(rng), 2.0 * rng.normal(), 2.0 * rng.normal()
    x, beta = design(rng, size, 2), 0.7 * rng.normal(size=2)
    k = np.exp(log_dispersion)
    y = rng.poisson(np.exp(x @ beta) * rng.gamma(k, 1.0 / k, size))
    y = (y * (rng.random(size) > special.expit(zeros))).astype(float)
    model = sm.models.glm.zero_inflated_negative_binomial(x, y, prior_sd=0.7)
    return model, {"beta": beta, "logit_zeros": one(zeros), "log_dispersion": one(log_dispersion)}


# ----------------------------------------------------------------- functions of a user's own
def two_scales(state, data, n):
    mean = state.b[0] + state.b[1] * data.x[n]
    log_scale = state.c[0] + state.c[1] * data.x[n]
    z = (data.y[n] - mean) * sm.exp(-log_scale)
    return -0.5 * z * z - log_scale


@drawn
def scale_by_column(rng):
    """The scale depends on a column as well."""
    x, b, c = rng.normal(size=rows(rng)), rng.normal(size=2), 0.5 * rng.normal(size=2)
    y = b[0] + b[1] * x + np.exp(c[0] + c[1] * x) * rng.normal(size=len(x))
    model = sm.Model(
        two_scales, {"x": x, "y": y}, {"b": np.zeros(2), "c": np.zeros(2)},
        lambda state: -0.5 * np.sum(state.b**2) - 2.0 * np.sum(state.c**2),
    )  # fmt: skip
    return model, {"b": b, "c": c}


def after_the_last(state, data, n):
    z = (data.y[n] - state.a[0] - state.phi[0] * data.before[n]) / state.s[0]
    return -0.5 * z * z - sm.log(state.s[0])


@drawn
def autoregression(rng):
    a, phi, s, size = rng.normal(), rng.uniform(-1.0, 1.0), rng.exponential(), rows(rng)
    y = np.zeros(size + 1)
    for n in range(size):
        y[n + 1] = a + phi * y[n] + s * rng.normal()
    model = sm.Model(
        after_the_last, {"y": y[1:], "before": y[:-1]}, {"a": 0.0, "phi": 0.0, "s": 1.0},
        lambda state: -0.5 * state.a[0] ** 2 - state.s[0],
        constraints={"phi": sm.interval(-1.0, 1.0), "s": sm.positive},
    )  # fmt: skip
    return model, {"a": one(a), "phi": one(phi), "s": one(s)}


def of_two(state, data, n):
    w, y = state.w[0], data.y[n]
    first = sm.log(w) - 0.5 * (y - state.mu[0]) ** 2
    second = sm.log(1.0 - w) - 0.5 * (y - state.mu[1]) ** 2
    top = max(first, second)
    return top + sm.log(sm.exp(first - top) + sm.exp(second - top))


@drawn
def sum_of_two(rng):
    """Of two Gaussians, summed over."""
    w, mu, size = rng.random(), np.sort(3.0 * rng.normal(size=2)), rows(rng)
    y = mu[(rng.random(size) > w).astype(int)] + rng.normal(size=size)
    model = sm.Model(
        of_two, {"y": y}, {"w": 0.5, "mu": np.array([-1.0, 1.0])},
        lambda state: -np.sum(state.mu**2) / 18.0,
        constraints={"w": sm.interval(0.0, 1.0), "mu": sm.ordered},
    )  # fmt: skip
    return model, {"w": one(w), "mu": mu}


def censored(state, data, n):
    s = state.s[0]
    z = (data.y[n] - state.b[0] - state.b[1] * data.x[n]) / s
    if data.y[n] <= 0.0:
        return sm.log(0.5 * math.erfc(-z * math.sqrt(0.5)))
    return -0.5 * z * z - sm.log(s)


@drawn
def censored_below(rng):
    """What is below 0 is told as 0."""
    x, b, s = rng.normal(size=rows(rng)), rng.normal(size=2), rng.exponential()
    y = np.maximum(0.0, b[0] + b[1] * x + s * rng.normal(size=len(x)))
    model = sm.Model(
        censored, {"x": x, "y": y}, {"b": np.zeros(2), "s": 1.0},
        lambda state: -0.5 * np.sum(state.b**2) - state.s[0], constraints={"s": sm.positive},
    )  # fmt: skip
    return model, {"b": b, "s": one(s)}


def two_rates(state, data, n):
    rate = state.rate[1] if data.t[n] >= state.tau[0] else state.rate[0]
    return data.y[n] * sm.log(rate) - rate


@drawn
def change_point(rng):
    """At one of two hundred times, of rows in any order."""
    tau, rate, size = int(rng.integers(200)), 3.0 * rng.exponential(size=2), rows(rng)
    t = rng.integers(200, size=size)
    y = rng.poisson(np.where(t >= tau, rate[1], rate[0])).astype(float)
    model = sm.Model(
        two_rates, {"t": t, "y": y}, {"tau": 100, "rate": np.ones(2)},
        lambda state: -(state.rate[0] + state.rate[1]) / 3.0, support={"tau": 200},
        constraints={"rate": sm.positive},
    )  # fmt: skip
    return model, {"tau": one(tau), "rate": rate}


def bent(state, data, n):
    x, k = data.x[n], state.knot[0]
    mean = state.b[0] + state.b[1] * x + state.b[2] * max(x - k, 0.0)
    z = (data.y[n] - mean) / state.s[0]
    return -0.5 * z * z - sm.log(state.s[0])


@drawn
def knot(rng):
    """A line that bends at an unknown place."""
    x, b, s = rng.uniform(-1.0, 1.0, rows(rng)), rng.normal(size=3), rng.exponential()
    knot = rng.uniform(-1.0, 1.0)
    y = b[0] + b[1] * x + b[2] * np.maximum(x - knot, 0.0) + s * rng.normal(size=len(x))
    model = sm.Model(
        bent, {"x": x, "y": y}, {"b": np.zeros(3), "knot": 0.0, "s": 1.0},
        lambda state: -0.5 * np.sum(state.b**2) - state.s[0],
        constraints={"knot": sm.interval(-1.0, 1.0), "s": sm.positive},
    )  # fmt: skip
    return model, {"b": b, "knot": one(knot), "s": one(s)}


# --------------------------------------------------------------------------------- hierarchies
def slopes(state, data, n):
    g = data.g[n]
    eta = state.a[g] + state.c[g] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def of_intercepts(state, g):
    z = (state.a[g] - state.m[0]) / state.ta[0]
    return -0.5 * z * z - sm.log(state.ta[0])


def of_slopes(state, g):
    z = (state.c[g] - state.m[1]) / state.tc[0]
    return -0.5 * z * z - sm.log(state.tc[0])


@drawn
def random_slopes(rng):
    """Of counts."""
    count, m, (ta, tc) = int(rng.integers(8, 60)), 0.5 * rng.normal(size=2), rng.exponential(0.4, 2)
    a, c = m[0] + ta * rng.normal(size=count), m[1] + tc * rng.normal(size=count)
    g = rng.integers(count, size=rows(rng, 500, 8_000))
    x = rng.uniform(-1.0, 1.0, len(g))
    y = rng.poisson(np.exp(a[g] + c[g] * x)).astype(float)
    model = sm.Model(
        slopes, {"y": y, "g": g, "x": x},
        {"a": np.zeros(count), "c": np.zeros(count), "m": np.zeros(2), "ta": 0.4, "tc": 0.4},
        lambda state: -2.0 * np.sum(state.m**2) - (state.ta[0] + state.tc[0]) / 0.4,
        constraints={"ta": sm.positive, "tc": sm.positive}, touches={"a": "g", "c": "g"},
        site_prior={"a": of_intercepts, "c": of_slopes},
    )  # fmt: skip
    return model, {"a": a[:2], "c": c[:2], "m": m, "ta": one(ta), "tc": one(tc)}


def crossed(state, data, n):
    eta = state.mu[0] + state.u[data.i[n]] + state.v[data.j[n]]
    return data.y[n] * eta - sm.softplus(eta)


def of_u(state, i):
    z = state.u[i] / state.su[0]
    return -0.5 * z * z - sm.log(state.su[0])


def of_v(state, j):
    z = state.v[j] / state.sv[0]
    return -0.5 * z * z - sm.log(state.sv[0])


@drawn
def people_and_questions(rng):
    """People and questions."""
    mu, (su, sv) = rng.normal(), rng.exponential(size=2)
    u = su * rng.normal(size=int(rng.integers(30, 200)))
    v = sv * rng.normal(size=int(rng.integers(5, 30)))
    size = rows(rng, 500, 8_000)
    i, j = rng.integers(len(u), size=size), rng.integers(len(v), size=size)
    y = rng.random(size) < special.expit(mu + u[i] + v[j])
    model = sm.Model(
        crossed, {"y": y.astype(float), "i": i, "j": j},
        {"mu": 0.0, "u": np.zeros(len(u)), "v": np.zeros(len(v)), "su": 1.0, "sv": 1.0},
        lambda state: -0.5 * state.mu[0] ** 2 - state.su[0] - state.sv[0],
        constraints={"su": sm.positive, "sv": sm.positive}, touches={"u": "i", "v": "j"},
        site_prior={"u": of_u, "v": of_v},
    )  # fmt: skip
    return model, {"mu": one(mu), "u": u[:2], "v": v[:2], "su": one(su), "sv": one(sv)}


def gamma_of_mean(state, data, n):
    a = state.a[0]
    return (
        a * sm.log(a)
        - math.lgamma(a)
        + (a - 1.0) * sm.log(data.y[n])
        - a
        * (
            sm.exp(-state.b[0] - state.b[1] * data.x[n]) * data.y[n]
            + state.b[0]
            + state.b[1] * data.x[n]
        )
    )


@drawn
def mean_and_shape(rng):
    x, b, a = rng.normal(size=rows(rng)), rng.normal(size=2), 0.2 + rng.exponential()
    y = np.maximum(np.exp(b[0] + b[1] * x) * rng.gamma(a, 1.0 / a, len(x)), 1e-300)
    model = sm.Model(
        gamma_of_mean, {"x": x, "y": y}, {"b": np.zeros(2), "a": 1.0},
        lambda state: (-0.5 * np.sum(state.b**2) - state.a[0]) if state.a[0] > 0.2 else -np.inf,
        constraints={"a": sm.positive},
    )  # fmt: skip
    return model, {"b": b, "a": one(a)}
