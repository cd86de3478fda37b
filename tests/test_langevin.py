"""Langevin: the density of its proposals, its gradients, and what it leaves fixed."""

import math

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.chain import Program, Walker
from subsample_mcmc.jit import jit
from subsample_mcmc.kernels import langevin
from subsample_mcmc.kernels.gradient import draw_batch


def walker(model, kernel, seed=0, **options):
    return Walker(Program(model, kernel), np.random.SeedSequence(seed), **options)


# ---------------------------------------------------------------------- every kind of constraint
def likelihood(state, data, n):
    mean = 0.0
    for j in range(3):
        mean += state.a[j] * data.x[n, j]
    r = (data.y[n] - mean) / state.s[0]
    value = -0.5 * r * r - sm.log(state.s[0]) + sm.log(state.w[data.k[n]])
    value += sm.log(state.t[0]) - state.t[0] * data.e[n]
    value += 2.0 * sm.log(state.c[0]) - state.c[0] * data.e[n]
    return value - 0.5 * (data.y[n] - state.p[0]) ** 2 + data.e[n] * state.p[1]


def log_prior(state):
    value = -2.0 * state.s[0] + 1.5 * math.log(state.w[0]) - state.t[0] ** 2 - state.c[0]
    for j in range(3):
        value -= 0.5 * state.a[j] ** 2
    return value + state.p[0] - state.p[1] ** 2


def gradient_of_a(state, data, n, out):
    mean = 0.0
    for j in range(3):
        mean += state.a[j] * data.x[n, j]
    for j in range(3):
        out[j] = (data.y[n] - mean) / state.s[0] ** 2 * data.x[n, j]


def gradient_of_w(state, data, n, out):
    out[data.k[n]] = 1.0 / state.w[data.k[n]]


def everything():
    rng = np.random.default_rng(5)
    data = {
        "x": rng.normal(size=(30, 3)), "y": rng.normal(size=30), "k": rng.integers(0, 4, 30),
        "e": rng.exponential(size=30),
    }  # fmt: skip
    state = {
        "a": np.array([0.1, -0.2, 0.3]), "s": 1.2, "t": 0.8, "c": 0.9, "p": np.array([0.5, -0.3]),
        "w": np.array([0.1, 0.2, 0.3, 0.4]),
    }  # fmt: skip
    constraints = {
        "s": sm.positive, "t": sm.positive("softplus"), "c": sm.positive("cuberoot"),
        "p": sm.interval(-1.0, 2.0), "w": sm.simplex,
    }  # fmt: skip
    return sm.Model(likelihood, data, state, log_prior=log_prior, constraints=constraints)


def slopes(name, state, data, rows, weight):
    """d/dx of log prior and weighted log likelihood, on paper."""
    x, y, k, e = data.x[rows], data.y[rows], data.k[rows], data.e[rows]
    a, s, t, c, p, w = (state[n] for n in "astcpw")
    r = (y - x @ a) / s
    if name == "a":
        return -a + weight * (r / s) @ x
    if name == "s":
        return np.array([-2.0]) + weight * np.sum(r * r / s - 1 / s)
    if name == "t":
        return -2 * t + weight * np.sum(1 / t - e)
    if name == "c":
        return np.array([-1.0]) + weight * np.sum(2 / c - e)
    if name == "p":
        return np.array([1.0, -2 * p[1]]) + weight * np.array([np.sum(y - p[0]), np.sum(e)])
    return np.array([1.5 / w[0], 0, 0, 0]) + weight * np.bincount(k, minlength=4) / w


def in_coordinates(name, x, slope):
    """(d/du of the log target, log |dx/du|), on paper."""
    if name == "a":
        return slope, 0.0
    if name == "s":
        return slope * x + 1, np.log(x[0])
    if name == "t":
        return slope * (1 - np.exp(-x)) + np.exp(-x), np.log1p(-np.exp(-x[0]))
    if name == "c":
        u = np.cbrt(x)
        return slope * 3 * u * u + 2 / u, np.log(3 * u[0] ** 2)
    if name == "p":
        share = (x + 1) / 3
        return slope * 3 * share * (1 - share) + 1 - 2 * share, np.log(
            3 * share * (1 - share)
        ).sum()
    return (x * (slope - slope @ x) + 1 - 4 * x)[:-1], np.log(x).sum()


def test_gradients_proposals_and_their_densities():
    """Every quantity of a step against the same on paper, for each constraint and preconditioner.

    The gradient; v from u; log q(u|v,S) - log q(v|u,S) from scipy's Gaussian densities, both with
    the gradient on the same S; and the decision.
    """
    model = everything()
    mixing = np.array([[1.0, 0.4, 0.1], [0.4, 0.8, -0.2], [0.1, -0.2, 0.5]])
    options = {"selector": sm.Exact(), "batch": 7, "adapt": False}
    parts = [
        sm.Langevin("a", step=0.05, precondition=mixing, **options),
        sm.Langevin("s", step=0.02, **options),
        sm.Langevin("t", step=0.05, precondition=[0.7], **options),
        sm.Langevin("c", step=0.02, precondition=[[0.5]], **options),
        sm.Langevin("p", step=0.1, precondition=[1.5, 0.5], **options),
        sm.Langevin("w", step=0.1, precondition=mixing, **options),
        sm.Langevin("a", step=0.04, gradient=gradient_of_a, **options),
        sm.Langevin("w", step=0.1, gradient=gradient_of_w, **options),
    ]
    chain, moved = walker(model, sm.cycle(*parts), seed=3), np.zeros(len(parts))
    names = model.names
    for _ in range(40):
        state = dict(
            zip(names, (v.copy() for v in model.state(chain.ints, chain.floats)), strict=True)
        )
        chain.advance(1)
        assert chain.error is None
        for i, (part, tools) in enumerate(zip(parts, chain.tools, strict=True)):
            block, push, tally = part.block, tools.push, tools.judge.tally[0]
            x, y = (tools.judge.trial.candidates[arm].copy() for arm in (0, 1))
            np.testing.assert_array_equal(x, state[block])
            rows = tools.slope.batch
            assert len(set(rows.tolist())) == 7
            assert tally.gradients == 2 * tools.slope.cost
            assert tools.slope.cost == 7 * (1 if part.own else 2 * len(tools.coordinates.u))
            h = tally.scale
            np.testing.assert_allclose(h, part.step)
            ends = []
            for at in (x, y):
                slope = slopes(block, state | {block: at}, model.data, rows, 30 / 7)
                ends.append(in_coordinates(block, at, slope))
            (g, here), (back, there) = ends
            np.testing.assert_allclose(push.here, g, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(push.there, back, rtol=1e-6, atol=1e-6)
            M = np.eye(len(g)) if part.precondition is None else part.precondition
            M = np.diag(M**2) if M.ndim == 1 else M
            u, v = tools.coordinates.u, tools.coordinates.v
            np.testing.assert_allclose(
                v, u + h / 2 * M @ g + np.sqrt(h) * np.linalg.cholesky(M) @ push.noise, atol=1e-7
            )
            ratio = stats.multivariate_normal.logpdf(u, v + h / 2 * M @ back, h * M)
            ratio -= stats.multivariate_normal.logpdf(v, u + h / 2 * M @ g, h * M)
            arms = [
                model.record(**{k: np.atleast_1d(z) for k, z in (state | {block: at}).items()})
                for at in (x, y)
            ]
            offsets, priors = tools.judge.offsets, [log_prior(arm) for arm in arms]
            np.testing.assert_allclose(
                offsets[1] - priors[1], ratio + there - here, rtol=1e-5, atol=1e-5
            )
            assert offsets[0] < priors[0]  # the threshold: log of a uniform
            sums = [sum(likelihood(arm, model.data, n) for n in range(30)) for arm in arms]
            assert tally.accepted == (offsets[1] + sums[1] > offsets[0] + sums[0])
            moved[i] += tally.accepted
            if tally.accepted:
                state[block] = y
        for name, value in zip(names, model.state(chain.ints, chain.floats), strict=True):
            np.testing.assert_array_equal(state[name], value)
    assert np.all((moved > 0) & (moved < 40))


def prepared_likelihood(state, data, n, made):
    return -0.5 * (data.y[n] - made[0]) ** 2


def squares(state, data):
    return (state.m[0, 0] + state.m[0, 1] ** 2,)


def gradient_of_m(state, data, n, made, out):
    r = data.y[n] - made[0]
    out[0, 0] += r
    out[0, 1] += 2 * r * state.m[0, 1]


def test_full_gradient_with_prepare_and_a_shaped_block():
    """batch = N reads every datum; a gradient may add, and sees the block's shape."""
    y = np.random.default_rng(0).normal(size=1500)  # more than one call of `take` reads
    model = sm.Model(
        prepared_likelihood, {"y": y}, {"m": np.array([[0.2, 0.5]])}, prepare=squares
    )  # fmt: skip
    options = {"step": 1e-3, "selector": sm.Exact(), "adapt": False}
    kernel = sm.Langevin("m", batch=1500, **options) >> sm.Langevin(
        "m", gradient=gradient_of_m, batch=1400, **options
    )
    chain = walker(model, kernel)
    chain.advance(3)
    for tools, weight in zip(chain.tools, (1.0, 1500 / 1400), strict=True):
        rows, (a, b) = tools.slope.batch, tools.coordinates.u
        assert len(np.unique(rows)) == len(rows)
        r = weight * np.sum(y[rows] - a - b * b)
        np.testing.assert_allclose(tools.push.here, [r, 2 * b * r], rtol=1e-6)
        assert not tools.slope.rows.bits.any()  # put back


# -------------------------------------------------------------------------------- what is fixed
BOUND = 2.0


def logistic(state, data, n):
    eta = state.theta[0] * data.x[n, 0] + state.theta[1] * data.x[n, 1]
    return state.y[n] * eta - sm.log1p(sm.exp(eta))


@sm.kernel(writes=("theta", "start", "y"))
def fresh(rng, state, data):
    """Parameters from their prior, data given them."""
    for j in range(2):
        state.theta[j] = BOUND * (2.0 * rng.random() - 1.0)
        state.start[j] = state.theta[j]
    for n in range(len(state.y)):
        eta = state.theta[0] * data.x[n, 0] + state.theta[1] * data.x[n, 1]
        state.y[n] = 1 if rng.random() < 1.0 / (1.0 + math.exp(-eta)) else 0


def joint(size=40):
    """Data are a block, so that every draw has its own."""
    x = np.random.default_rng(2).uniform(-1.0, 1.0, (size, 2))
    return sm.Model(
        logistic,
        {"x": x},
        {"theta": np.zeros(2), "start": np.zeros(2), "y": np.zeros(size, dtype=int)},
        support={"y": 2},
        constraints={"theta": sm.interval(-BOUND, BOUND)},
    )


def leaves_the_joint_law_fixed(kernel, repeats, draws, seed):
    """The smallest p-value (Bonferroni) that (theta', y) has the law of (theta, y).

    Each draw: theta from the prior, y given theta, then a few steps from theta to theta'. Draws
    are independent, so tests need no autocorrelations; differences between theta' and theta at
    the same y are small, which makes them sharp (Geweke 2004, doi:10.1198/016214504000001132).
    """
    model = joint()
    made = walker(model, fresh >> sm.repeat(kernel, repeats), seed=seed)
    x, found, accepted, steps = model.data.x, [], 0, 0
    while sum(len(f[0]) for f in found) < draws:
        chunk = made.advance(20_000)
        assert made.error is None
        blocks = made.program.layout.draws(chunk.ints, chunk.floats)
        tally = made.program.layout.stats(chunk.words)["theta"]
        accepted, steps = accepted + tally["accepted"].sum(), steps + tally["steps"].sum()
        sides = []
        for theta in (blocks["theta"], blocks["start"]):
            eta, scores = theta @ x.T, blocks["y"] @ x
            value = np.sum(blocks["y"] * eta - np.logaddexp(0.0, eta), axis=1)
            sides.append(
                np.column_stack(
                    [theta, theta**2, theta[:, :1] * theta[:, 1:], theta * scores, value]
                )
            )
        found.append(sides)
    assert 0.2 < accepted / steps < 0.9  # else there is little to test
    after, before = (np.concatenate(side) for side in zip(*found, strict=True))
    change = after - before
    z = np.abs(change.mean(axis=0)) / (change.std(axis=0) / np.sqrt(len(change)))
    values = [2.0 * stats.norm.sf(z).min()]
    values += [stats.kstest(after[:, j], "uniform", (-BOUND, 2 * BOUND)).pvalue for j in (0, 1)]
    return min(values) * (len(z) + 2)


def steps_of(selector, **options):
    settings = {"step": 0.35, "batch": 10, "adapt": False, "selector": selector}
    return sm.Langevin("theta", **(settings | options))


def test_leaves_the_posterior_fixed():
    kernel = steps_of(sm.Exact())
    assert leaves_the_joint_law_fixed(kernel, repeats=3, draws=100_000, seed=1) > 1e-6


def redrawn(slope):
    """A mutant: S anew for the way back."""
    ratio = langevin_ratio(slope)

    @jit(inner=True)
    def wrong(chain, tools):
        draw_batch(tools.slope, chain.rows)
        return ratio(chain, tools)

    return wrong


langevin_ratio = langevin.ratio_of


def ignored(slope):
    """A mutant: as if proposals were symmetric."""
    return langevin.no_ratio


@pytest.mark.parametrize("mutant", [redrawn, ignored])
def test_mutants_do_not(mutant, monkeypatch):
    monkeypatch.setattr(langevin, "ratio_of", mutant)
    kernel = steps_of(sm.Exact())
    assert leaves_the_joint_law_fixed(kernel, repeats=3, draws=100_000, seed=1) < 1e-12
