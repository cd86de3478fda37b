"""Likelihoods as people write them: which way each goes, or why not a better one; and calibration.

Sums of derivatives are compared with those by hand, of numpy. The five kinds: np.dot in a loop,
helper functions, if/else by row, look-ups in tables by integer data, a closure.
"""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.derivatives_jets import DISABLED, Jets
from subsample_mcmc.approx.taylor.found import derivatives_found
from subsample_mcmc.approx.taylor.found.derivatives_found import Found
from subsample_mcmc.approx.taylor.taylor import FOUND, Keep
from subsample_mcmc.numerics.progress import Bar
from tests.helpers.claims import equal
from tests.helpers.laws import not_uniform, uniform

AS_PEOPLE_WRITE = pytest.mark.filterwarnings("ignore::subsample_mcmc.errors.SlowMathWarning")
SIZE = 40 if DISABLED else 400


@pytest.fixture(autouse=True)
def predictors_are_looked_for(monkeypatch):
    """Also in few data."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)


# --------------------------------------------------------------------------- np.dot in a loop
def softmax(state, data, n):
    top, total, own = 0.0, 1.0, 0.0
    for k in range(len(state.w)):
        score = np.dot(data.x[n], state.w[k])
        if data.y[n] == k + 1:
            own = score
        total += np.exp(score - top)
    return own - np.log(total)


def softmax_data(rng):
    x = rng.standard_normal((SIZE, 3))
    return {"x": x, "y": rng.integers(0, 3, SIZE)}, {"w": 0.3 * rng.standard_normal((2, 3))}


def softmax_gradient(data, w):
    scores = np.exp(np.column_stack([np.zeros(SIZE), data["x"] @ w["w"].T]))
    p = scores / scores.sum(axis=1, keepdims=True)
    hit = np.arange(3) == data["y"][:, None]
    return ((hit - p)[:, 1:].T @ data["x"]).ravel()


# ---------------------------------------------------------------------------- helper functions
def standardised(state, data, n):
    e = state.b[0]
    for j in range(data.x.shape[1]):
        e = e + state.b[j + 1] * data.x[n, j]
    return (data.log_t[n] - e) * math.exp(state.a[0]), state.a[0]


def log_hazard_and_survival(u, a):
    return a + u, -math.exp(u)


def weibull(state, data, n):
    """With censoring: an event counts its hazard."""
    u, a = standardised(state, data, n)
    hazard, survival = log_hazard_and_survival(u, a)
    return data.event[n] * hazard + survival


def weibull_data(rng):
    data = {"x": rng.standard_normal((SIZE, 2)), "log_t": np.log(rng.exponential(size=SIZE)),
            "event": (rng.random(SIZE) < 0.7).astype(float)}  # fmt: skip
    return data, {"b": np.array([0.2, 0.3, -0.1]), "a": 0.3}


def weibull_gradient(data, s):
    shape = np.exp(s["a"])
    u = (data["log_t"] - s["b"][0] - data["x"] @ s["b"][1:]) * shape
    slope = data["event"] - np.exp(u)
    x = np.column_stack([np.ones(SIZE), data["x"]])
    return np.append(-shape * slope @ x, np.sum(data["event"] + u * slope))


# ------------------------------------------------------------------------------ if/else by row
def inflated(state, data, n):
    """Zeros are of two kinds."""
    e = state.b[0] + state.b[1] * data.x[n]
    zero = -np.log1p(np.exp(-state.g[0]))
    some = zero - state.g[0]
    if data.y[n] == 0:
        return np.logaddexp(zero, some - np.exp(e))
    else:
        return some + data.y[n] * e - np.exp(e)


def inflated_data(rng):
    x = rng.standard_normal(SIZE)
    y = rng.poisson(np.exp(0.3 + 0.4 * x)) * (rng.random(SIZE) < 0.7)
    return {"x": x, "y": y}, {"b": np.array([0.3, 0.4]), "g": -0.8}


def inflated_gradient(data, s):
    rate, pi = np.exp(s["b"][0] + s["b"][1] * data["x"]), 1.0 / (1.0 + np.exp(-s["g"]))
    none = pi + (1.0 - pi) * np.exp(-rate)
    zero = data["y"] == 0
    by_e = np.where(zero, -(1.0 - pi) * np.exp(-rate) * rate / none, data["y"] - rate)
    by_g = np.where(zero, pi * (1.0 - pi) * (1.0 - np.exp(-rate)) / none, -pi)
    return np.array([by_e.sum(), by_e @ data["x"], by_g.sum()])


# ------------------------------------------------------------------- tables, by integer data
KNOWN = np.array([1.0, 0.5, 2.0])


def hierarchical(state, data, n):
    g = data.group[n]
    mean = state.alpha[g] + state.slope[g // 2] * data.x[n] + state.b[0] * data.table[data.row[n]]
    z = (data.y[n] - mean) / KNOWN[data.kind[n]]
    return -0.5 * z * z * math.exp(-2.0 * state.s[0]) - state.s[0]


def hierarchical_data(rng):
    data = {"group": rng.integers(0, 4, SIZE), "x": rng.standard_normal(SIZE),
            "kind": rng.integers(0, 3, SIZE), "row": rng.integers(0, SIZE, SIZE),
            "table": rng.standard_normal(SIZE), "y": rng.standard_normal(SIZE)}  # fmt: skip
    return data, {"alpha": 0.1 * rng.standard_normal(4), "slope": np.array([0.2, -0.3]),
                  "b": 0.4, "s": -0.1}  # fmt: skip


def hierarchical_gradient(data, s):
    g, table = data["group"], data["table"][data["row"]]
    mean = s["alpha"][g] + s["slope"][g // 2] * data["x"] + s["b"] * table
    z = (data["y"] - mean) / KNOWN[data["kind"]] * np.exp(-s["s"])
    r = z / KNOWN[data["kind"]] * np.exp(-s["s"])
    return np.concatenate([
        np.bincount(g, r, 4), np.bincount(g // 2, r * data["x"], 2),
        [r @ table, np.sum(z * z - 1.0)],
    ])  # fmt: skip


# --------------------------------------------------------------------------------- a closure
def robust_with(nu, link):
    """A likelihood that knows a number and a function of where it was made."""
    half = 0.5 * (nu + 1.0)

    def log_likelihood(state, data, n):
        z = data.y[n] - link(data.x[n] @ state.b)
        return -half * sm.log1p(z * z / nu)

    return log_likelihood


def bounded(e):
    return 2.0 * math.tanh(e)


def robust_data(rng):
    x = rng.standard_normal((SIZE, 3))
    return {"x": x, "y": rng.standard_t(4, SIZE)}, {"b": np.array([0.2, -0.1, 0.3])}


def robust_gradient(data, s):
    t = np.tanh(data["x"] @ s["b"])
    z = data["y"] - 2.0 * t
    return (5.0 * z / (4.0 + z * z) * 2.0 * (1.0 - t * t)) @ data["x"]


WELL = {
    "np.dot in a loop": (softmax, softmax_data, softmax_gradient),
    "helper functions": (weibull, weibull_data, weibull_gradient),
    "if/else by row": (inflated, inflated_data, inflated_gradient),
    "tables": (hierarchical, hierarchical_data, hierarchical_gradient),
    "a closure": (robust_with(4.0, bounded), robust_data, robust_gradient),
}


def gradient_of(model, at):
    """By jets, over all rows."""
    keep = Keep(np.zeros(0, dtype=np.int64))
    return Jets(model, 3).sums(model.ints, at, keep, Bar(delay=1e9))[1]


@pytest.mark.plain
@AS_PEOPLE_WRITE
@pytest.mark.parametrize("name", sorted(WELL))
def test_it_goes_the_best_way(name, rng):
    """Third order by predictors that are found; jets' gradients are those by hand, to 1e-10."""
    likelihood, make, gradient = WELL[name]
    data, state = make(rng)
    model = sm.Model(likelihood, data, state)
    assert sm.Taylor(state).way_of(model) == (FOUND, "")
    assert sm.Taylor(state).order_of(model) == 3
    want = gradient(data, state)
    assert np.abs(want).min() > 1e-3
    tight = 1e-10 * max(np.abs(want).max(), 1.0)
    np.testing.assert_allclose(gradient_of(model, model.floats.copy()), want, rtol=0.0, atol=tight)


@pytest.mark.slow
@AS_PEOPLE_WRITE
@pytest.mark.parametrize("name", sorted(WELL))
def test_what_is_left_over_has_the_fourth_power(name, rng):
    """Through the package's own look at a model: derivatives to the third are right, row by row."""
    likelihood, make, _ = WELL[name]
    data, state = make(rng)
    found = sm.derivatives(sm.Model(likelihood, data, state))
    assert (found.way, found.order, found.why) == (FOUND, 3, "")
    assert abs(found.power - 4.0) < 0.25, found


# ------------------------------------------------------------------------- and what does not
def least_absolute(state, data, n):
    return -abs(data.y[n] - data.x[n] @ state.b)


def in_place(state, data, n):
    scores = data.x[n] * state.b
    scores -= 1.0
    return -0.5 * (data.y[n] - scores.sum()) ** 2


def rounded(state, data, n):
    return -0.5 * (data.y[n] - round(100.0 * (data.x[n] @ state.b)) / 100.0) ** 2


@pytest.mark.parametrize(("likelihood", "words"), [
    (least_absolute, "kinks"), (in_place, "isub"), (rounded, "round"),
])  # fmt: skip
def test_or_says_why_not(likelihood, words, rng):
    data, state = robust_data(rng)
    model = sm.Model(likelihood, data, state)
    control = sm.Taylor(state, outliers=0.0)
    way, why = prepared_for(model, control).way
    assert way == "interpolation" and words in why, why
    kernel = sm.Metropolis("b", selector=sm.Racing(), control=control)
    assert f"by interpolation ({why})" in kernel.describe(model)


# ------------------------------------------------------------------------------- calibration
DRAWN = 50  # of each chain: a rank is 0 .. 50


def counts_of(state, data, n):
    e = state.b[0]
    for j in range(1, len(state.b)):
        e += state.b[j] * data.x[n, j - 1]
    return data.y[n] * e - sm.exp(e)


def normal_prior(state):
    total = 0.0
    for j in range(len(state.b)):
        total -= 2.0 * state.b[j] ** 2
    return total


def ranks_of(seed):
    """Of the true coefficients among draws; odd seeds: by the default, even ones: by races.

    The default is exact where the bounds that intervals give are of use, as in most of these.
    """
    rng, size = np.random.default_rng([21, seed]), 1000
    b, x = 0.5 * rng.standard_normal(3), rng.standard_normal((size, 2))
    y = rng.poisson(np.exp(b[0] + x @ b[1:])).astype(float)
    model = sm.Model(counts_of, {"x": x, "y": y}, {"b": np.zeros(3)}, normal_prior)
    fit = sm.laplace(model)
    control = sm.Taylor(fit, predict=seed % 2 == 1)
    assert control.way_of(model) == (FOUND, "")
    decides = {} if seed % 2 else {"selector": sm.Racing()}
    kernel = sm.Metropolis("b", proposal=sm.pcn(fit, beta=0.8), control=control, adapt=False,
                           **decides)  # fmt: skip
    trace = sm.sample(model, kernel, draws=10 * DRAWN, warmup=20, chains=1, seed=seed,
                      progress=False)  # fmt: skip
    return (trace.draws["b"][0, ::10] < b).sum(axis=0)


def as_uniform(ranks):
    """Ranks as numbers that are uniform where the posterior is right."""
    spread = np.random.default_rng(0).random(ranks.shape)
    return {f"b[{j}]": ((ranks + spread) / (DRAWN + 1))[:, j] for j in range(3)}


@pytest.mark.slow
def test_calibration():
    """1,000 data sets from the prior: ranks are uniform, intervals cover as often as they say.

    What that would catch, at a chance of 1e-6 of crying wolf: draws that are off by a quarter of a
    posterior standard deviation, or, in every other data set, by half of one (Kolmogorov-Smirnov);
    and standard deviations that are a third too small or too large (Clopper-Pearson: of the values
    half in the middle half, to 8%).
    """
    ranks = np.array([ranks_of(seed) for seed in range(1000)])
    uniform(as_uniform(ranks))
    for low, high in ((13, 37), (5, 45)):
        for j in range(3):
            inside = int(np.sum((low <= ranks[:, j]) & (ranks[:, j] <= high)))
            equal(inside, 1000, (high - low + 1) / (DRAWN + 1), alarm=1e-6 / 6)


@pytest.mark.slow
def test_calibration_sees_wrong_sums(monkeypatch):
    """The mutant: gradients off by what moves the posterior by its standard deviation.

    In races; what is predicted has been compared with exact totals before, which correct it.
    """
    sums = Found.sums

    def off(self, *given):
        s0, s1, s2, s3 = sums(self, *given)
        return s0, s1 + np.sqrt(np.abs(np.diag(s2))), s2, s3

    monkeypatch.setattr(Found, "sums", off)
    not_uniform(as_uniform(np.array([ranks_of(seed) for seed in range(0, 300, 2)])), alarm=1e-4)
