"""Small models with parameters drawn from their priors, and data drawn from those.

Each returns (model, what was drawn by block). Sizes are drawn, too: a few rows to some thousands.
"""

import math

import numpy as np

import subsample_mcmc as sm

MODELS = {}


def drawn(function):
    """Make a function one of the models."""
    MODELS[function.__name__] = function
    return function


def one(value):
    return np.atleast_1d(np.asarray(value))


# ------------------------------------------------------------------------------- regressions
def design(rng, size, d):
    return np.column_stack([np.ones(size), rng.normal(size=(size, d - 1))])


@drawn
def logistic(rng):
    x, beta = design(rng, int(rng.integers(20, 400)), 3), rng.normal(size=3)
    y = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ beta))
    return sm.models.glm.logistic(x, y.astype(float), prior_sd=1.0), {"beta": beta}


@drawn
def poisson(rng):
    x, beta = design(rng, int(rng.integers(5, 60)), 4), 0.5 * rng.normal(size=4)
    years = rng.uniform(0.5, 2.0, len(x))
    y = rng.poisson(years * np.exp(x @ beta)).astype(float)
    return sm.models.glm.poisson(x, y, exposure=years, prior_sd=0.5), {"beta": beta}


@drawn
def gaussian(rng):
    """Of unknown scale."""
    x, beta, log_sigma = design(rng, int(rng.integers(8, 200)), 3), rng.normal(size=3), rng.normal()
    y = x @ beta + np.exp(2.0 * log_sigma) * rng.normal(size=len(x))
    model = sm.models.glm.gaussian(x, y, sigma=None, prior_sd=1.0)
    return model, {"beta": beta, "log_sigma": one(2.0 * log_sigma)}


def absolute(state, data, n):
    rest = data.y[n] - state.m[0] - state.b[0] * data.x[n]
    return -abs(rest) / state.s[0] - sm.log(state.s[0])


@drawn
def laplace_noise(rng):
    x, (m, b), s = rng.normal(size=int(rng.integers(4, 600))), rng.normal(size=2), rng.exponential()
    y = m + b * x + s * rng.laplace(size=len(x))
    model = sm.Model(
        absolute, {"x": x, "y": y}, {"m": 0.0, "b": 0.0, "s": 1.0},
        lambda state: -0.5 * (state.m[0] ** 2 + state.b[0] ** 2) - state.s[0],
        constraints={"s": sm.positive},
    )  # fmt: skip
    return model, {"m": one(m), "b": one(b), "s": one(s)}


# --------------------------------------------------------------------- numbers within bounds
def gamma_density(state, data, n):
    a, b = state.a[0], state.b[0]
    return a * sm.log(b) - math.lgamma(a) + (a - 1.0) * data.log_y[n] - b * data.y[n]


@drawn
def gamma(rng):
    a, b = rng.exponential(size=2)
    y = np.maximum(rng.gamma(a, 1.0 / b, int(rng.integers(3, 300))), 1e-300)
    model = sm.Model(
        gamma_density, {"y": y, "log_y": np.log(y)}, {"a": 1.0, "b": 1.0},
        lambda state: -state.a[0] - state.b[0],
        constraints={"a": sm.positive, "b": sm.positive},
    )  # fmt: skip
    return model, {"a": one(a), "b": one(b)}


@drawn
def multinomial(rng):
    p = rng.dirichlet(np.full(5, 0.5))
    k = rng.choice(5, size=int(rng.integers(1, 300)), p=p)
    model = sm.Model(
        lambda state, data, n: sm.log(state.p[data.k[n]]), {"k": k}, {"p": np.full(5, 0.2)},
        lambda state: np.sum(-0.5 * np.log(state.p)), constraints={"p": sm.simplex},
    )  # fmt: skip
    return model, {"p": p}


def below(state, data, n):
    return -sm.log(state.w[0]) if data.y[n] < state.w[0] else -np.inf


@drawn
def uniform(rng):
    w = rng.exponential()
    y = w * rng.random(int(rng.integers(1, 100)))
    model = sm.Model(
        below, {"y": y}, {"w": y.max() + 0.5}, lambda state: -state.w[0],
        constraints={"w": sm.positive},
    )  # fmt: skip
    return model, {"w": one(w)}


def zeros(state, data, n):
    p, r = state.p[0], state.r[0]
    if data.y[n] == 0:
        return sm.log(p + (1.0 - p) * sm.exp(-r))
    return sm.log(1.0 - p) + data.y[n] * sm.log(r) - r


@drawn
def zero_inflated(rng):
    p, r, size = rng.random(), 2.0 * rng.exponential(), int(rng.integers(3, 300))
    y = rng.poisson(r, size) * (rng.random(size) > p)
    model = sm.Model(
        zeros, {"y": y}, {"p": 0.5, "r": 1.0}, lambda state: -0.5 * state.r[0],
        constraints={"p": sm.interval(0.0, 1.0), "r": sm.positive},
    )  # fmt: skip
    return model, {"p": one(p), "r": one(r)}


# ---------------------------------------------------------------------------- discrete blocks
def on_grid(state, data, n):
    z = (data.y[n] - 0.1 * state.k[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


@drawn
def grid(rng):
    k, sigma = int(rng.integers(100)), rng.exponential()
    y = 0.1 * k + sigma * rng.standard_t(4, int(rng.integers(3, 3_000)))
    model = sm.Model(
        on_grid, {"y": y}, {"k": 40, "sigma": 1.0}, lambda state: -state.sigma[0],
        support={"k": 100}, constraints={"sigma": sm.positive},
    )  # fmt: skip
    return model, {"k": one(k), "sigma": one(sigma)}


def before_and_after(state, data, n):
    rate = state.rate[1] if n >= state.tau[0] else state.rate[0]
    return data.y[n] * sm.log(rate) - rate


@drawn
def change_point(rng):
    tau, rate = int(rng.integers(80)), 3.0 * rng.exponential(size=2)
    y = rng.poisson(np.where(np.arange(80) >= tau, rate[1], rate[0])).astype(float)
    model = sm.Model(
        before_and_after, {"y": y}, {"tau": 40, "rate": np.ones(2)},
        lambda state: -(state.rate[0] + state.rate[1]) / 3.0, support={"tau": 80},
        constraints={"rate": sm.positive},
    )  # fmt: skip
    return model, {"tau": one(tau), "rate": rate}


def some_columns(state, data, n):
    eta = 0.0
    for j in range(3):
        eta += state.g[j] * state.b[j] * data.x[n, j]
    return -0.5 * (data.y[n] - eta) ** 2


@drawn
def indicators(rng):
    g, b, x = (
        rng.integers(2, size=3),
        rng.normal(size=3),
        design(rng, int(rng.integers(10, 200)), 3),
    )
    model = sm.Model(
        some_columns, {"x": x, "y": x @ (g * b) + rng.normal(size=len(x))},
        {"g": np.ones(3, dtype=int), "b": np.zeros(3)},
        lambda state: -0.5 * np.sum(state.b**2), support={"g": 2},
    )  # fmt: skip
    return model, {"g": g, "b": b}


def polynomial(state, data, n):
    mean = 0.0
    for j in range(state.q[0], -1, -1):
        mean = mean * data.x[n] + state.t[j]
    return -0.5 * (data.y[n] - mean) ** 2


def normal_prior(state):
    value = 0.0
    for j in range(state.q[0] + 1):
        value -= 0.5 * state.t[j] ** 2 + 0.5 * np.log(2.0 * np.pi)
    return value


@drawn
def degree(rng):
    q, t, x = int(rng.integers(4)), np.zeros(4), rng.uniform(-1.0, 1.0, int(rng.integers(4, 300)))
    t[: q + 1] = rng.normal(size=q + 1)
    model = sm.Model(
        polynomial, {"x": x, "y": np.polyval(t[::-1], x) + rng.normal(size=len(x))},
        {"q": 0, "t": np.zeros(4)}, normal_prior, support={"q": 4},
        lengths={"t": ("q", [1, 2, 3, 4])},
    )  # fmt: skip
    return model, {"q": one(q), "t": t[:1]}


# ------------------------------------------------------------------- labels, and hierarchies
def of_component(state, data, n):
    return -0.5 * (data.y[n] - state.mu[state.z[data.i[n]]]) ** 2


@drawn
def mixture(rng):
    size, mu = int(rng.integers(5, 60)), np.sort(2.0 * rng.normal(size=2))
    z = rng.integers(2, size=size)
    model = sm.Model(
        of_component, {"y": mu[z] + rng.normal(size=size), "i": np.arange(size)},
        {"z": np.zeros(size, dtype=int), "mu": np.array([-1.0, 1.0])},
        lambda state: -np.sum(state.mu**2) / 8.0, support={"z": 2},
        constraints={"mu": sm.ordered}, touches={"z": "i"},
    )  # fmt: skip
    return model, {"mu": mu, "z": z[:2]}


def of_group(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def groups(rng, most):
    count, mu, tau = int(rng.integers(5, 40)), rng.normal(), rng.exponential()
    a = mu + tau * rng.normal(size=count)
    return a, mu, tau, rng.integers(count, size=int(rng.integers(count, most * count)))


@drawn
def hierarchy(rng):
    a, mu, tau, g = groups(rng, 6)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.g[n]]) ** 2,
        {"y": a[g] + rng.normal(size=len(g)), "g": g},
        {"a": np.zeros(len(a)), "mu": 0.0, "tau": 1.0},
        lambda state: -0.5 * state.mu[0] ** 2 - state.tau[0], constraints={"tau": sm.positive},
        touches={"a": "g"}, site_prior={"a": of_group},
    )  # fmt: skip
    return model, {"a": a[:3], "mu": one(mu), "tau": one(tau)}


def of_row(state, data, n):
    eta = state.a[data.g[n]] + state.b[0] * data.x[n]
    return data.y[n] * eta - sm.softplus(eta)


@drawn
def logistic_hierarchy(rng):
    (a, mu, tau, g), b = groups(rng, 10), rng.normal()
    x = rng.normal(size=len(g))
    y = rng.random(len(g)) < 1.0 / (1.0 + np.exp(-a[g] - b * x))
    model = sm.Model(
        of_row, {"y": y.astype(float), "g": g, "x": x},
        {"a": np.zeros(len(a)), "mu": 0.0, "tau": 1.0, "b": 0.0},
        lambda state: -0.5 * (state.mu[0] ** 2 + state.b[0] ** 2) - state.tau[0],
        constraints={"tau": sm.positive}, touches={"a": "g"}, site_prior={"a": of_group},
    )  # fmt: skip
    return model, {"a": a[:3], "mu": one(mu), "tau": one(tau), "b": one(b)}
