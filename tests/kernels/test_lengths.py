"""Blocks that vary in length: each kernel keeps each model's law, and what is not there stays put.

Three conjugate families, each of three models with 1, 2 and 4 parameters, whose posteriors and
evidences are known: so the joint law of model, parameters and data can be tested as in
test_metropolis.py. Every test cries wolf with probability 1e-6.
"""

from dataclasses import replace
from math import cos, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

import subsample_mcmc as sm
from subsample_mcmc import kernels
from tests.helpers.laws import normalised, not_uniform, uniform
from tests.helpers.models import tally, walker

LENGTHS = (1, 2, 4)
LOG_PRIOR = (log(0.2), log(0.3), log(0.5))  # of the models
LINE, RATE, CHANCE = range(3)  # regressions, exponential waiting times, coins
PAD = 0.625  # of components that are not there
HALF_LOG_2PI = 0.5 * log(2.0 * pi)


# ------------------------------------------------------------------------------------- the families
def eta(state, data, n):
    m = LENGTHS[state.q[0]]
    if data.kind != LINE:
        return state.theta[n % m]
    value = 0.0
    for j in range(m):
        value += data.x[n, j] * state.theta[j]
    return value


def factor(e, y, kind):
    if kind == LINE:
        return -0.5 * (y - e) * (y - e)
    if kind == RATE:
        return sm.log(e) - e * y
    return sm.log(e) if y > 0.5 else sm.log(1.0 - e)


def likelihood(state, data, n):
    if data.index[n] != n:  # whoever gets another n than the datum's own is stopped
        return np.nan
    return factor(eta(state, data, n), state.y[n], data.kind)


def prior(state):
    """Normal, exponential or uniform; of the components in use."""
    value, kind = LOG_PRIOR[state.q[0]], state.kind[0]
    for j in range(LENGTHS[state.q[0]]):
        t = state.theta[j]
        if kind == LINE:
            value -= 0.5 * t * t + HALF_LOG_2PI
        elif kind == RATE:
            value -= t
    return value


def gradient(state, data, n, out):
    """By theta, of the log likelihood of one datum."""
    m, y, e = LENGTHS[state.q[0]], state.y[n], eta(state, data, n)
    if data.kind == LINE:
        for j in range(m):
            out[j] = (y - e) * data.x[n, j]
    elif data.kind == RATE:
        out[n % m] = 1.0 / e - y
    else:
        out[n % m] = 1.0 / e if y > 0.5 else -1.0 / (1.0 - e)


@sm.kernel(writes=("q", "theta", "y", "kind"))
def fresh(rng, state, data):
    """One replication: a model and its parameters from the prior, and data given them."""
    u, kind = rng.random(), data.kind
    state.q[0] = 0 if u < 0.2 else (1 if u < 0.5 else 2)
    m = LENGTHS[state.q[0]]
    for j in range(len(state.theta)):
        u = 1.0 - rng.random()
        if j >= m:
            state.theta[j] = PAD
        elif kind == LINE:
            state.theta[j] = sqrt(-2.0 * log(u)) * cos(2.0 * pi * rng.random())
        else:
            state.theta[j] = -log(u) if kind == RATE else u
    for n in range(len(state.y)):
        e, u = 0.0, 1.0 - rng.random()
        if kind == LINE:
            for j in range(m):
                e += data.x[n, j] * state.theta[j]
            state.y[n] = e + sqrt(-2.0 * log(u)) * cos(2.0 * pi * rng.random())
        elif kind == RATE:
            state.y[n] = -log(u) / state.theta[n % m]
        else:
            state.y[n] = 1.0 if u <= state.theta[n % m] else 0.0


@sm.kernel(writes=("y", "kind"))
def still(rng, state, data):
    """For chains whose data are not drawn anew."""


def design(size):
    """Columns that are not orthogonal: parameters of one model depend on each other."""
    x = np.random.default_rng(3).standard_normal((size, 4))
    x[:, 1:] += 0.8 * x[:, :1]
    return x


def padded(kind, constraint=None, size=8, y=None, **more) -> sm.Model:
    """The models of one family; y is among the state, so that kernels can draw it."""
    data = {"index": np.arange(size), "x": design(size), "kind": kind}
    first = np.full(4, PAD)
    y = np.full(size, 0.5) if y is None else y
    return sm.Model(
        likelihood, data, {"q": 0, "theta": first, "y": y, "kind": kind}, prior,
        support={"q": 3, "kind": 3}, constraints=constraint and {"theta": constraint},
        lengths={"theta": ("q", LENGTHS)}, **more,
    )  # fmt: skip


# ----------------------------------------------------------------------------- what is known of the
def groups(y, m):
    """Sums and counts of the data that depend on each of m parameters; y: (draws, data)."""
    sums = np.stack([y[:, j::m].sum(axis=1) for j in range(m)], axis=1)
    return sums, np.array([len(range(j, y.shape[1], m)) for j in range(m)])


def evidences(kind, y):
    """(draws, 3) log evidences, up to a constant of the data."""
    found = []
    for m in LENGTHS:
        if kind == LINE:
            x = design(y.shape[1])[:, :m]
            precision, score = np.eye(m) + x.T @ x, y @ x
            square = (score * np.linalg.solve(precision, score.T).T).sum(axis=1)
            found.append(0.5 * (square - np.linalg.slogdet(precision)[1]))
            continue
        s, n = groups(y, m)
        if kind == RATE:
            found.append((gammaln(1 + n) - (1 + n) * np.log1p(s)).sum(axis=1))
        else:
            found.append(betaln(1 + s, 1 + n - s).sum(axis=1))
    return np.stack(found, axis=1)


def probabilities(kind, y):
    """(draws, 3) posterior probabilities of the models."""
    logs = evidences(kind, y) + np.array(LOG_PRIOR)
    return np.array([normalised(line) for line in logs])


def scores(kind, m, theta, y):
    """Where theta lies in its posterior given a model: standard normal numbers, (draws, m)."""
    if kind == LINE:
        x = design(y.shape[1])[:, :m]
        precision = np.eye(m) + x.T @ x
        return (theta - np.linalg.solve(precision, x.T @ y.T).T) @ np.linalg.cholesky(precision)
    s, n = groups(y, m)
    if kind == RATE:
        law = stats.gamma(1 + n, scale=1.0 / (1.0 + s))
    else:
        law = stats.beta(1 + s, 1 + n - s)
    low = law.cdf(theta)
    return np.where(low < 0.5, stats.norm.ppf(low), stats.norm.isf(law.sf(theta)))


def ranks(kind, draws, rng) -> dict:
    """Uniform numbers of the model, of each parameter, and of the parameters' common distance."""
    q, theta, y = draws["q"], draws["theta"], draws["y"]
    p, at = probabilities(kind, y), np.arange(len(q))
    below = np.cumsum(p, axis=1)[at, q] - p[at, q]
    found = {"q": below + rng.random(len(q)) * p[at, q]}
    for k, m in enumerate(LENGTHS):
        own = q == k
        assert np.all(theta[own, m:] == PAD)  # what is not there has not moved
        z = scores(kind, m, theta[own, :m], y[own])
        found |= {f"theta[{j}] of {m}": stats.norm.cdf(z[:, j]) for j in range(m)}
        found[f"distance of {m}"] = stats.chi2.cdf((z**2).sum(axis=1), m)
    return found


def keeps_the_law(model, kernel, rng, count=60_000, times=4, least=0.1, label="theta", seed=1):
    """The joint law is kept, by a kernel that moves; its tally, and the draws."""
    one = walker(model, fresh >> sm.repeat(kernel, times), seed)
    made = one.advance(count)
    assert one.error is None, one.error
    draws = one.program.layout.draws(made.ints, made.floats)
    uniform(ranks(model.data.kind, draws, rng))
    told = tally(one, made.words, label)
    assert least < told["accepted"] / told["steps"]
    return told, draws


SPACES = {
    "real": (LINE, None),
    "log": (RATE, sm.positive),
    "softplus": (RATE, sm.positive("softplus")),
    "squareroot": (RATE, sm.positive("squareroot")),
    "cuberoot": (RATE, sm.positive("cuberoot")),
    "interval": (CHANCE, sm.interval(0.0, 1.0)),
}
# Gaussians in free coordinates, not too far from the posteriors of each space.
PLACES = {
    "real": (0.0, 0.5), "log": (0.0, 0.5), "softplus": (0.4, 0.6), "squareroot": (0.9, 0.3),
    "cuberoot": (0.95, 0.2), "interval": (0.0, 0.8),
}  # fmt: skip


def guesses(model, name, shift=0.0, wide=1.0) -> list:
    """A fit for each model: of no data, but with correlated coordinates."""
    mean, sd = PLACES[name]
    made = []
    for k, m in enumerate(LENGTHS):
        fit = sm.laplace(model, "theta", given={"q": k}, progress=False)
        covariance = (wide * sd) ** 2 * (0.7 * np.eye(m) + 0.3)
        u = mean + shift * sd * (-1.0) ** np.arange(m)
        factor_of = np.linalg.cholesky(covariance)
        made.append(replace(fit, mean=u, covariance=covariance, factor=factor_of))
    return made


def space(name, size=8, **more):
    return padded(*SPACES[name], size, **more)


def fixed(kind=sm.Metropolis, scale=0.4, **more):
    return kind("theta", scale, selector=sm.Exact(), adapt=False, **more)


# -------------------------------------------------------------------------------- within each model
@pytest.mark.slow_for("real")
@pytest.mark.parametrize("name", SPACES)
def test_random_walk(rng, name):
    told, _ = keeps_the_law(space(name), fixed(), rng)
    assert told["decisions"] == told["steps"] == 4 * 60_000
    # Free coordinates with an end: beyond it nothing is read.
    assert (told["alone"] > 0) == (name in ("squareroot", "cuberoot"))


@pytest.mark.parametrize("name", ["real", "squareroot", "interval"])
def test_pcn_and_independence(rng, name):
    model = space(name)
    fits = guesses(model, name)
    for proposal in (sm.pcn(fits, beta=0.5), sm.independence(fits)):
        keeps_the_law(model, fixed(proposal=proposal), rng, 40_000)


def langevin(**more):
    settings = {"step": 0.15, "batch": 3, "selector": sm.Exact(), "adapt": False}
    return sm.Langevin("theta", **(settings | more))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real", "softplus", "cuberoot", "interval"])
def test_langevin_by_derivatives(rng, name, monkeypatch):
    """One gradient a datum, of all components; beyond an end nothing is read."""
    model, step = space(name), 0.02 if name == "cuberoot" else 0.15
    with monkeypatch.context() as patched:
        patched.setattr(sm.Langevin, "walks", 0.0)  # each step has a gradient
        told, _ = keeps_the_law(model, langevin(step=step), rng, 40_000)
    beyond = 2 * 3 * told["steps"] - told["gradients"]
    assert 0 <= beyond < 0.05 * 2 * 3 * told["steps"]
    assert (beyond > 0) == (name == "cuberoot")
    matrices = tuple(0.3 * np.eye(m) + 0.1 for m in LENGTHS)
    again = langevin(step=2.0 * step, precondition=matrices, backward="fresh")
    keeps_the_law(model, again, rng, 40_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real", "cuberoot"])
def test_langevin_by_differences(rng, name, monkeypatch):
    """As of a likelihood that has no derivatives."""
    monkeypatch.setattr(kernels.langevin, "has_derivatives", lambda model, length: False)
    told, _ = keeps_the_law(space(name), langevin(step=0.02), rng, 40_000, least=0.05)
    # Two rewards a coordinate and gradient: how many depends on the model at hand.
    assert 2 * 2 * 3 * 1 < told["gradients"] / told["steps"] < 2 * 2 * 3 * 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real", "cuberoot"])
def test_langevin_by_a_gradient(rng, name):
    step = 0.02 if name == "cuberoot" else 0.15
    told, _ = keeps_the_law(space(name), langevin(step=step, gradient=gradient), rng, 40_000)
    assert told["gradients"] <= 2 * 3 * told["steps"]


@pytest.mark.parametrize("name", SPACES)
def test_slice(rng, name):
    told, _ = keeps_the_law(space(name), fixed(sm.Slice, 1.0), rng, 20_000, times=2)
    mean_length = sum(np.exp(w) * m for w, m in zip(LOG_PRIOR, LENGTHS, strict=True))
    assert told["capped"] == 0
    assert abs(told["accepted"] / told["steps"] - mean_length) < 0.1  # each coordinate moves


@sm.kernel(writes="theta")
def overreach(rng, state, data):
    """Not a kernel of this posterior: it also pulls the last parameter of the largest model."""
    if state.q[0] == 2:
        state.theta[3] *= 0.95


def test_a_kernel_that_is_none_is_noticed(rng):
    one = walker(space("log"), fresh >> fixed() >> overreach)
    made = one.advance(60_000)
    not_uniform(ranks(RATE, one.program.layout.draws(made.ints, made.floats), rng))


# ---------------------------------------------------------------------------------- raced decisions
@pytest.mark.slow
def test_races_see_the_components_in_use(rng):
    """Decisions of a race, made again exactly: every datum in all three models."""
    y = rng.exponential(size=2000)
    model = padded(RATE, sm.positive("cuberoot"), 2000, y=y)
    race = sm.Racing(delta=0.05, batch=32, retreat=False)
    for k, m in enumerate(LENGTHS):
        walk = sm.Metropolis("theta", 0.05 / sqrt(m), selector=race, adapt=False)
        one = walker(model, still >> elsewhere >> walk, audit=1.0)
        one.ints[model.variables["q"].block.start] = k
        made = one.advance(1500)
        assert one.error is None, one.error
        told = tally(one, made.words, "theta")
        assert told["audited"] == 1500 and told["raced"] > 100
        assert stats.binom.sf(told["wrong"] - 1, 1500, 0.05) > 1e-6
        theta = one.program.layout.draws(made.ints, made.floats)["theta"]
        assert np.all(theta[:, m:] == PAD) and len(np.unique(theta[:, m - 1])) > 20


@sm.kernel(writes="q")
def elsewhere(rng, state, data):
    """For chains that stay in one model."""


# ------------------------------------------------------------------- with known sums and gradients
def data_factor(e, data, n):
    return factor(e, data.y[n], data.kind)


def data_derivatives(e, data, n):
    y = data.y[n]
    if data.kind == LINE:
        return y - e, -1.0, 0.0
    return 1.0 / e - y, -1.0 / (e * e), 2.0 / (e * e * e)


def data_prior(state):
    value = LOG_PRIOR[state.q[0]]
    for j in range(LENGTHS[state.q[0]]):
        value -= state.theta[j]
    return value


@pytest.fixture(scope="module")
def controlled():
    """Rates with fixed data, a control variate, and exact draws of model and parameters."""
    rng, size, count = np.random.default_rng(8), 200, 5000
    y = rng.exponential(size=size) / np.array([1.0, 1.3])[np.arange(size) % 2]
    model = sm.Model(
        sm.Predictors(eta, data_factor, data_derivatives),
        {"y": y, "x": design(size), "kind": RATE}, {"q": 0, "theta": np.full(4, PAD)}, data_prior,
        support={"q": 3}, constraints={"theta": sm.positive("cuberoot")},
        lengths={"theta": ("q", LENGTHS)},
    )  # fmt: skip
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(3)]
    q = rng.choice(3, count, p=[0.25, 0.35, 0.4])
    theta = np.full((count, 4), PAD)
    for k, m in enumerate(LENGTHS):
        s, n = groups(y[None], m)
        theta[q == k, :m] = rng.gamma(1 + n, 1.0 / (1.0 + s[0]), ((q == k).sum(), m))
    return model, fits, sm.Taylor(fits), q, theta


@pytest.mark.slow
@pytest.mark.parametrize("name", ["langevin", "langevin of scales", "independence", "slice"])
def test_with_a_control_variate(controlled, name):
    """From independent draws of each posterior: after three steps they still are."""
    model, fits, control, q, theta = controlled
    given = {"selector": sm.Exact(), "adapt": False, "control": control}
    kernel = {
        "langevin": sm.Langevin("theta", 1.2, **given),
        "langevin of scales": sm.Langevin(
            "theta", 0.2, precondition=[0.05, 0.05, 0.06, 0.07], **given
        ),
        "independence": sm.Metropolis("theta", proposal=sm.independence(fits), **given),
        "slice": sm.Slice("theta", 0.2, **given),
    }[name]
    one, after = walker(model, elsewhere >> kernel), theta.copy()
    told = []
    for i in range(len(q)):
        one.ints[:], one.floats[:] = q[i], theta[i]
        made = one.advance(1, thin=3)
        after[i] = made.floats[0]
        told.append(made.words)
    assert one.error is None, one.error
    told, found = tally(one, np.concatenate(told), "theta"), {}
    assert told["gradients"] == 0
    assert (after != theta)[:, 0].mean() > 0.5
    y = model.data.y
    for k, m in enumerate(LENGTHS):
        own = q == k
        assert np.all(after[own, m:] == PAD)
        each = np.broadcast_to(y, (own.sum(), len(y)))
        z, before = (scores(RATE, m, t[own, :m], each) for t in (after, theta))
        found |= {f"theta[{j}] of {m}": stats.norm.cdf(z[:, j]) for j in range(m)}
        found[f"distance of {m}"] = stats.chi2.cdf((z**2).sum(axis=1), m)
        # The change of a statistic is a sharper test, by the central limit theorem.
        change = np.column_stack([z - before, z**2 - before**2])
        away = np.abs(change.mean(axis=0)) / change.std(axis=0) * sqrt(len(change))
        assert away.max() < stats.norm.isf(1e-6 / 28), (k, away)
    uniform(found)


# ------------------------------------------------------------------------------------ adaptation
def test_warm_up_leaves_what_is_not_there(rng):
    """Adaptation, starts and checkpoints of a block in a model shorter than the block."""
    model = space("softplus")
    for kernel in (
        sm.Metropolis("theta", selector=sm.Exact()), sm.Slice("theta", selector=sm.Exact()),
        sm.Langevin("theta", batch=4, selector=sm.Exact()),
    ):  # fmt: skip
        one = walker(model, still >> elsewhere >> kernel)
        one.ints[model.variables["q"].block.start] = 1
        one.advance(700, warm=True)
        saved = one.checkpoint()
        made = one.advance(50)
        assert np.all(made.floats[:, 2:4] == PAD)
        one.restore(saved)
        assert one.advance(50).floats.tobytes() == made.floats.tobytes()


# ------------------------------------------------------------------------------------------ refusal
def refused(text, **changes):
    given = {
        "log_likelihood": likelihood,
        "data": {"index": np.arange(8), "x": design(8), "kind": RATE},
        "state": {"q": 0, "theta": np.full(4, PAD), "y": np.ones(8), "kind": RATE},
        "support": {"q": 3, "kind": 3}, "lengths": {"theta": ("q", LENGTHS)},
    }  # fmt: skip
    with pytest.raises(ValueError, match=text):
        sm.Model(**(given | changes))


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ({"theta": ("q", (1, 2))}, "give 3 whole numbers"),
        ({"theta": ("q", (1, 2, 4, 4))}, "give 3 whole numbers"),
        ({"theta": ("q", (0, 2, 4))}, "from 1 to 4"),
        ({"theta": ("q", (1, 2, 5))}, "from 1 to 4"),
        ({"theta": ("q", (1.0, 2.0, 4.0))}, "whole numbers"),
        ({"theta": ("q", 4)}, "whole numbers"),
        ({"nothing": ("q", LENGTHS)}, "must be blocks of the state"),
        ({"theta": ("nothing", LENGTHS)}, "must be blocks of the state"),
        ({"theta": ("y", LENGTHS)}, "'y' must be one integer"),
        ({"q": ("kind", LENGTHS)}, "must be a vector of floats"),
    ],
)
def test_wrong_lengths(lengths, text):
    refused(text, lengths=lengths)


def test_wrong_blocks():
    more = {"y": np.ones(8), "kind": RATE}
    quarters, square = np.full(4, 0.25), np.full((2, 2), PAD)
    refused("no simplex", constraints={"theta": sm.simplex},
            state={"q": 0, "theta": quarters} | more)  # fmt: skip
    refused("must be one integer", state={"q": [0, 1], "theta": quarters} | more)
    refused("must be a vector", state={"q": 0, "theta": square} | more)


def anywhere(rng, current, out):
    out[0] = current[0]


def test_kernels_refuse():
    model = space("log")
    fits = guesses(model, "log")
    with pytest.raises(ValueError, match=r"varies in length, and a proposal of your own"):
        fixed(proposal=anywhere).check(model)
    for proposal in (sm.pcn(fits[:2]), sm.independence(fits[2]), sm.pcn([0.0], [[1.0]])):
        with pytest.raises(ValueError, match="block 'theta' has 3 lengths"):
            fixed(proposal=proposal).check(model)
    with pytest.raises(ValueError, match=r"block .theta. has 1 free coordinates"):
        fixed(proposal=sm.independence(fits[::-1])).check(model)
    with pytest.raises(ValueError, match=r"Gibbs\('q'\): other blocks vary in length"):
        walker(model, still >> fixed() >> sm.Gibbs("q", sm.Exact()))
    for given in (np.eye(4), tuple(np.eye(m) for m in (1, 2)), tuple(-np.eye(m) for m in LENGTHS)):
        with pytest.raises(ValueError, match="one for each of the lengths"):
            langevin(precondition=given).check(model)
    langevin(precondition=fits).check(model)
    for kernel in (fixed(scale=[0.1, 0.1]), fixed(sm.Slice, [1.0] * 3)):
        with pytest.raises(ValueError, match="4 free coordinates"):
            kernel.check(model)
