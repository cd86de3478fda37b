"""Langevin: the density of its proposals, its gradients, and what it leaves fixed."""

import math

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import langevin
from subsample_mcmc.kernels.base import BoundStep
from subsample_mcmc.kernels.gradient import DERIVATIVES
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.runs.chain import LOOP, NOWHERE, Chunk, Program, Walker
from tests.helpers.runs import tools_of


def walker(model, kernel, seed=0, **options):
    return Walker(Program(model, kernel), np.random.SeedSequence(seed), **options)


def values_of(model, made):
    views = model.state(made.ints, made.floats)
    return {name: view.flatten() for name, view in zip(model.names, views, strict=True)}


# ---------------------------------------------------------------------- every kind of constraint
def shared(state, data):
    return 1.0 / state.s[0], math.log(state.s[0]), state.w


def likelihood(state, data, n, made):
    mean = 0.0
    for j in range(3):
        mean += state.a[j] * data.x[n, j]
    r = (data.y[n] - mean) * made[0]
    value = -0.5 * r * r - made[1] + sm.log(made[2][data.k[n]])
    value += sm.log(state.t[0]) - state.t[0] * data.e[n]
    value += 2.0 * sm.log(state.c[0]) - state.c[0] * data.e[n]
    return value - 0.5 * (data.y[n] - state.p[0]) ** 2 + data.e[n] * state.p[1]


def log_prior(state):
    value = -2.0 * state.s[0] + 1.5 * math.log(state.w[0]) - state.t[0] ** 2 - state.c[0]
    for j in range(3):
        value -= 0.5 * state.a[j] ** 2
    return value + state.p[0] - state.p[1] ** 2


def gradient_of_w(state, data, n, made, out):
    """Other components are left alone: out is zero on entry."""
    out[data.k[n]] += 1.0 / made[2][data.k[n]]


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
    return sm.Model(likelihood, data, state, log_prior, None, constraints, prepare=shared)


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


@pytest.mark.slow
def test_gradients_proposals_and_their_densities(monkeypatch):
    """Every quantity of a step against the same on paper, for each constraint and preconditioner.

    The gradient; v from u; log q(u|v,S) - log q(v|u,S) from scipy's Gaussian densities, both with
    the gradient on the same S; and the decision. Of steps that use the gradient: of the others
    test_langevin_tails.py tells.
    """
    monkeypatch.setattr(sm.Langevin, "walks", 0.0)
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
        sm.Langevin("w", step=0.1, gradient=gradient_of_w, **options),
    ]
    made, moved = walker(model, sm.cycle(*parts), seed=3), np.zeros(len(parts))
    out = Chunk(np.zeros((0, 0), dtype=int), np.zeros((0, 0)), np.zeros((0, 0), dtype=int))
    listed = made.main.tools.record  # of the cycle
    steps = [
        (p, pointer_to(BoundStep(*own)), own[1].record)
        for p, *own in zip(parts, *listed, strict=True)
    ]
    for _ in range(40):
        for i, (part, alone, tools) in enumerate(steps):
            block, push, tally = part.block, tools.push, tools.judge.tally[0]
            state = values_of(model, made)
            own = made.run.reads, made.run.before, NOWHERE
            LOOP(made.shared, alone, made.ints, made.floats, made.words, *own, out, 0, 1, 1, False)
            assert made.chain.now[0].code == 0
            x, y = tools.judge.trial.candidates
            np.testing.assert_array_equal(x, state[block])
            rows, h = tools.slope.batch, tally.scale
            assert len(set(rows.tolist())) == 7
            one_pass = part.source_of(model) is not None  # a gradient a datum, not differences
            assert one_pass == (part.own is not None or block in "aw")
            assert tally.gradients == 14 * (1 if one_pass else 2 * len(push.noise))
            np.testing.assert_allclose(h, part.step)
            (g, here), (back, there) = (
                in_coordinates(
                    block, at, slopes(block, state | {block: at}, model.data, rows, 30 / 7)
                )
                for at in (x, y)
            )
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
                model.record(
                    **{
                        name: value.reshape(model.variables[name].block.shape or (1,))
                        for name, value in (state | {block: at}).items()
                    }
                )
                for at in (x, y)
            ]
            offsets, priors = tools.judge.offsets, [log_prior(arm) for arm in arms]
            np.testing.assert_allclose(
                offsets[1] - priors[1], ratio + there - here, rtol=1e-5, atol=1e-5
            )
            assert offsets[0] < priors[0]  # the threshold: log of a uniform
            sums = [
                sum(likelihood(arm, model.data, n, shared(arm, model.data)) for n in range(30))
                for arm in arms
            ]
            assert not tools.slope.rows.bits.any()  # put back
            assert tally.accepted == (offsets[1] + sums[1] > offsets[0] + sums[0])
            moved[i] += tally.accepted
            state[block] = y if tally.accepted else x
            np.testing.assert_equal(values_of(model, made), state)
    assert np.all((moved > 0) & (moved < 40))


# -------------------------------------------------------------------------------- what is fixed
BOUND = 2.0
DRAWS = 40_000  # as many find either mutant below in each of the kernels: at chances below 1e-12


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


def leaves_the_joint_law_fixed(kernel, repeats, draws, seed, size=40, early=0.0):
    """The smallest p-value (Bonferroni) that (theta', y) has the law of (theta, y).

    Each draw: theta from the prior, y given theta, then a few steps from theta to theta'. Draws
    are independent, so tests need no autocorrelations; differences between theta' and theta at
    the same y are small, which makes them sharp (Geweke 2004, doi:10.1198/016214504000001132).
    """
    model = joint(size)
    made = walker(model, fresh >> sm.repeat(kernel, repeats), seed=seed)
    x, found, accepted, stopped, steps = model.data.x, [], 0, 0, 0
    while sum(len(f[0]) for f in found) < draws:
        chunk = made.advance(800_000 // size)
        assert made.error is None
        blocks = made.program.layout.draws(chunk.ints, chunk.floats)
        tally = made.program.layout.stats(chunk.words)["theta"]
        accepted, steps = accepted + tally["accepted"].sum(), steps + tally["steps"].sum()
        stopped += tally["early"].sum()
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
    # Else there is little to test.
    assert 0.2 < accepted / steps < 0.9 and stopped >= early * steps
    after, before = (np.concatenate(side) for side in zip(*found, strict=True))
    change = after - before
    z = np.abs(change.mean(axis=0)) / (change.std(axis=0) / np.sqrt(len(change)))
    values = [2.0 * stats.norm.sf(z).min()]
    values += [stats.kstest(after[:, j], "uniform", (-BOUND, 2 * BOUND)).pvalue for j in (0, 1)]
    return min(values) * (len(z) + 2)


def steps_of(selector, **options):
    settings = {"step": 0.35, "batch": 10, "adapt": False, "selector": selector}
    return sm.Langevin("theta", **(settings | options))


def pilot(state):
    """A rough log likelihood that reads no data."""
    return -(state.theta[0] ** 2) - 2.0 * state.theta[1] ** 2


@pytest.mark.slow
def test_leaves_the_posterior_fixed():
    kernel = steps_of(sm.Exact())
    assert leaves_the_joint_law_fixed(kernel, repeats=3, draws=DRAWS, seed=1) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scales", "matrix", "full", "delayed"])
def test_leaves_the_posterior_fixed_in_other_ways(kind):
    kernel = {
        "scales": steps_of(sm.Exact(), precondition=[0.7, 1.5]),
        "matrix": steps_of(sm.Exact(), precondition=[[1.0, -0.6], [-0.6, 0.8]]),
        "full": steps_of(sm.Exact(), batch=40, step=1.0),
        "delayed": sm.delayed(steps_of(sm.Exact()), pilot),
    }[kind]
    assert leaves_the_joint_law_fixed(kernel, repeats=3, draws=DRAWS, seed=2) > 1e-6


@pytest.mark.slow
def test_leaves_the_posterior_fixed_when_raced():
    """A fifth of the decisions end early; each may err with probability 1e-6."""
    betting = sm.Racing(sm.Betting(spread=4.01), delta=1e-6, batch=8, retreat=False)
    kernel = steps_of(betting, step=0.25, batch=200)
    p = leaves_the_joint_law_fixed(kernel, 3, draws=60_000, seed=4, size=400, early=0.2)
    assert p > 1e-6


true_ratio = langevin.ratio_of


def ignored(slope, again):
    """A mutant: as if proposals were symmetric."""
    return langevin.no_ratio


def one_ended(slope, again):
    """A mutant: the way back with the gradient from the start."""

    @jit(inner=True)
    def at_start(tools, to, u, g):
        return slope(tools, to, to.u, g)

    return true_ratio(at_start, again)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [ignored, pytest.param(one_ended, marks=pytest.mark.slow)])
def test_the_test_of_it_sees_mutants(mutant, monkeypatch):
    monkeypatch.setattr(langevin, "ratio_of", mutant)
    kernel = steps_of(sm.Exact())
    assert leaves_the_joint_law_fixed(kernel, repeats=3, draws=DRAWS, seed=1) < 1e-12


@pytest.mark.slow
def test_a_second_batch_for_the_way_back_is_exact_too():
    """(S, S') and (S', S) have the same law. Mutants differ less: 40,000 draws see one at 1e-4."""
    kernel = steps_of(sm.Exact(), backward="fresh")
    assert leaves_the_joint_law_fixed(kernel, repeats=3, draws=4 * DRAWS, seed=3) > 1e-6


# ------------------------------------------------------------------------------- plain SGLD
def edgy(state, data, n):
    t = state.theta[0]
    if data.mode == 1 and t < 0.0:
        return -np.inf
    if data.mode == 2 and t > 0.0:
        return np.nan
    return -0.5 * (data.y[n] - t) ** 2


def edgy_prior(state):
    if state.theta[0] < -1.0:
        return -np.inf
    return np.nan if state.theta[0] > 50.0 else 0.0


def slope_of_edgy(state, data, n, out):
    out[0] = data.y[n] - state.theta[0]
    if data.mode == 3 and state.theta[0] > 0.1:
        out[0] = np.nan


def edge(mode=0, start=0.0, size=100, mean=0.0):
    y = np.random.default_rng(8).normal(size=size)
    data = {"y": y - y.mean() + mean, "mode": mode}
    return sm.Model(edgy, data, {"theta": start}, log_prior=edgy_prior)


def sgld(step, **options):
    return sm.Langevin("theta", step=step, correct=False, **({"batch": 10} | options))


def test_sgld_refuses_what_is_off_the_support():
    """With steps that shrink as they say."""
    made = walker(edge(), sgld(0.5, batch=1, decay=0.3))
    chunk = made.advance(300)
    tally = made.program.layout.stats(chunk.words)["theta"]
    theta = np.concatenate([[0.0], chunk.floats[:, 0]])
    assert np.all(theta >= -1.0)
    np.testing.assert_array_equal(tally["accepted"], np.diff(theta) != 0.0)
    assert 0 < tally["accepted"].sum() < 300 and np.all(tally["steps"] == 1)
    assert not tally["decisions"].any() and not tally["pulls"].any()
    assert np.all(tally["gradients"] == 2)
    np.testing.assert_allclose(tally["scale"], 0.5 * (1.0 + np.arange(300)) ** -0.3)
    assert np.isclose(tools_of(made).tuning.step[0], 0.5 * np.log(0.5))  # nothing was learnt


@pytest.mark.slow
def test_sgld_is_biased_as_theory_says_and_the_correction_is_not():
    """A normal mean: theta' = a theta + noise, so the inflated variance is known."""
    size, batch, draws = 100, 10, 400_000
    model, h = edge(size=size), 0.5 / size
    a = 1.0 - h * size / 2.0
    of_mean = model.data.y.var() / batch * (size - batch) / (size - 1)
    noise = h + (h * size / 2.0) ** 2 * of_mean
    variance = noise / (1.0 - a * a)
    biased = walker(model, sgld(h)).advance(draws).floats[:, 0]
    error = np.sqrt(2.0 / draws * (1.0 + a * a) / (1.0 - a * a))
    measured, wide = biased.var() / variance, 5.0 * error
    assert abs(measured - 1.0) < wide
    # The interval excludes the posterior's variance, 1/N: SGLD's is inflated 2.4-fold.
    assert measured * variance * (1.0 - wide) > 2.0 / size
    made = walker(model, sm.Langevin("theta", batch=batch, selector=sm.Exact()))
    made.advance(2000, warm=True)
    exact = made.advance(draws).floats[:, 0]
    parts = (exact**2).reshape(200, -1).mean(axis=1) * size
    assert stats.ttest_1samp(parts, 1.0).pvalue > 1e-6
    low, high = parts.mean() + np.array([-5.0, 5.0]) * parts.std() / np.sqrt(200)
    assert low < 1.0 < high < 1.2


@pytest.mark.slow
def test_a_reference_point_takes_the_noise_of_the_batch_away():
    """A normal mean: gradients differ from those at the reference by the same for every datum."""
    size, batch, draws = 100, 10, 200_000
    model, h = edge(size=size), 0.5 / size
    a = 1.0 - h * size / 2.0
    cv = walker(model, sgld(h, control=0.3)).advance(draws).floats[:, 0]
    wide = 5.0 * np.sqrt(2.0 / draws * (1.0 + a * a) / (1.0 - a * a))
    assert abs(cv.var() / (h / (1.0 - a * a)) - 1.0) < wide  # as with full gradients
    made = walker(model, sm.Langevin("theta", batch=batch, selector=sm.Exact(), control=0.3))
    made.advance(2000, warm=True)
    exact = made.advance(draws).floats[:, 0]
    parts = (exact**2).reshape(200, -1).mean(axis=1) * size
    assert stats.ttest_1samp(parts, 1.0).pvalue > 1e-6


def test_a_reference_point_that_would_go_stale_or_is_off_the_support_is_refused():
    with pytest.raises(ValueError, match="would be stale"):
        Program(joint(), sm.Langevin("theta", batch=4, control=np.zeros(2)) >> fresh)
    with pytest.raises(ValueError, match="control has shape"):
        Program(edge(), sm.Langevin("theta", batch=4, control=np.zeros(2)))
    told = sm.Langevin("theta", batch=4, control=0.1, correct=False, step=1e-3).describe(edge())
    assert "SGLD-CV" in told and "unadjusted" in told


# ---------------------------------------------------------------------------- edges and mistakes
def test_the_edge_of_the_support_is_no_error():
    """A difference that reaches over it counts as 0, and the chain goes on."""
    made = walker(
        edge(mode=1, start=1e-7, mean=0.05),
        sm.Langevin("theta", step=1e-3, batch=10, adapt=False, selector=sm.Exact()),
    )
    chunk = made.advance(1)
    assert made.error is None and tools_of(made).push.here[0] == 0.0
    chunk = made.advance(500)
    assert made.error is None and np.all(chunk.floats >= 0.0) and len(np.unique(chunk.floats)) > 50


def test_numbers_that_are_none_stop_the_chain():
    options = {"batch": 10, "adapt": False, "selector": sm.Exact()}
    made = walker(edge(mode=2, start=-1e-7), sm.Langevin("theta", step=1e-3, **options))
    made.advance(5)
    assert isinstance(made.error, sm.RewardError)
    assert "at datum" in str(made.error) and "the current theta" in str(made.error)
    assert made.floats[0] == -1e-7
    made = walker(edge(start=49.9, mean=60.0), sgld(1.0))
    made.advance(50)
    assert isinstance(made.error, sm.RewardError) and "prior is nan" in str(made.error)


@pytest.mark.slow
def test_a_gradient_that_is_none_stops_the_chain_where_it_stands():
    """On the way back only it is no reason to stop; from there it is."""
    own = sm.Langevin("theta", 1e-2, slope_of_edgy, batch=10, adapt=False, selector=sm.Exact())
    made = walker(edge(mode=3), own)
    chunk = made.advance(500)
    assert isinstance(made.error, ValueError) and "is nan" in str(made.error)
    assert chunk.floats[-1, 0] > 0.1 and np.all(chunk.floats[:-1, 0] <= 0.1)


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ({"step": 0.0}, ValueError, 'step=0.0: give a positive number, or "auto"'),
        ({"step": "fast"}, ValueError, "step='fast': give a positive number"),
        ({"batch": 0}, ValueError, "batch=0: give a whole number of rows, at least 1"),
        ({"batch": 2.5}, ValueError, "batch=2.5: give a whole number"),
        ({"gradient": "autodiff"}, TypeError, "'autodiff' is not a Python function: give \"minib"),
        ({"backward": "new"}, ValueError, 'backward=.new.: it must be "same" or "fresh"'),
        ({"selector": 3}, TypeError, "selector=3: give a selector"),
        ({"decay": 0.5}, ValueError, "decay=0.5: give a power.*only with correct=False"),
        ({"correct": False}, ValueError, "correct=False decides nothing: give a number as step"),
        ({"correct": False, "step": 0.1, "selector": sm.Exact()}, ValueError, "neither a sel"),
        ({"batch": 101}, ValueError, "batch=101 exceeds the model's 100 data: give batch=100"),
        ({"batch": 256}, ValueError, "batch=256, the default, exceeds the model's 100 data"),
        ({"precondition": 2.0}, ValueError, r"shape \(\): give 1 positive scales, or a symm"),
        ({"precondition": [0.0]}, ValueError, "positive scales"),
        ({"precondition": [[-1.0]]}, ValueError, "positive definite matrix"),
    ],
)  # fmt: skip
def test_mistakes_are_named(spec, error, words):
    with pytest.raises(error, match=words):
        Program(edge(), sm.Langevin("theta", **({"batch": 10} | spec)))


def test_discrete_blocks_are_refused():
    with pytest.raises(ValueError, match=r"the block is discrete; use sm\.Gibbs"):
        Program(joint(), fresh >> sm.Langevin("y", batch=4))


def test_a_wrong_gradient_is_refused():
    def wrong(state, data, n, out):
        out[0] = state.theta[0] - data.y[n]

    def returns(state, data, n, out):
        return data.y[n] - state.theta[0]

    def wrong_share(state, data, n, made, out):
        out[data.k[n]] = 1.0 / state.w[data.k[n]] ** 2

    Program(edge(), sm.Langevin("theta", gradient=slope_of_edgy, batch=4))
    model = edge(start=0.5)
    slope = model.data.y[0] - 0.5
    words = rf"datum 0 has derivative {-slope:.6g} with respect to theta\[0\].*say {slope:.6g}\. C"
    with pytest.raises(ValueError, match=words):
        Program(model, sm.Langevin("theta", gradient=wrong, batch=4))
    with pytest.raises(TypeError, match="must write the derivatives with respect to theta"):
        Program(model, sm.Langevin("theta", gradient=returns, batch=4))
    others = sm.cycle(*(sm.Metropolis(name) for name in "astcp"))
    with pytest.raises(ValueError, match="with respect to free coordinate 0 of w"):
        Program(everything(), others >> sm.Langevin("w", gradient=wrong_share, batch=4))


def test_what_it_says_of_itself():
    model = edge()
    raced = sm.Langevin("theta", batch=10)
    told = raced.facts(model)
    assert told["guarantee"] == "asymptotic" and told["arms"] == 2 and told["delta"] == 0.05
    assert told["note"] == "gradient by central differences, batch 10, one step in eight without"
    assert sm.Langevin("theta", selector=sm.Exact()).guarantee == "exact"
    unadjusted = sgld(0.01, gradient=slope_of_edgy, decay=0.55)
    assert "no decision; guarantee: unadjusted (your gradient, batch 10; plain SGLD, nothing" in (
        unadjusted.describe(model)
    )
    assert "steps 0.01 (1 + t)^-0.55, t iterations before)" in unadjusted.describe(model)
    assert (raced >> unadjusted).guarantee == "unadjusted"


# ------------------------------------------------------------- derivatives of log_likelihood itself
def robust(state, data, n, made):
    """With prepare, a helper's loop, a branch, and a block of two axes; 11 parameters in b."""
    e = 0.0
    for i in range(state.b.shape[0]):
        for j in range(state.b.shape[1]):
            e += state.b[i, j] * data.x[n, i * 3 + j]
    z = (data.y[n] - e) * made[0]
    if data.k[n] == 0:
        return -2.5 * sm.log1p(z * z / 4.0) - made[1]
    return -0.5 * z * z - made[1] if data.k[n] == 1 else -np.logaddexp(0.0, -e)


def scale_of(state, data):
    return sm.exp(-state.s[0]), state.s[0]


def robust_slope(state, data, n, made, out):
    """By hand, of b."""
    e = np.sum(state.b.ravel() * data.x[n])
    z = (data.y[n] - e) * made[0]
    if data.k[n] == 0:
        factor = 5.0 * z * made[0] / (4.0 + z * z)
    elif data.k[n] == 1:
        factor = z * made[0]
    else:
        factor = 1.0 / (1.0 + math.exp(e))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = factor * data.x[n, i * 3 + j]


def robust_model(size=120):
    rng = np.random.default_rng(3)
    x, k = rng.normal(size=(size, 12)), rng.integers(0, 3, size)
    data = {"x": x, "y": x[:, 0] + rng.normal(size=size), "k": k}
    state = {"b": 0.1 * rng.normal(size=(4, 3)), "s": 0.2}
    return sm.Model(robust, data, state, prepare=scale_of)


def gradients(model, kernel, others, steps):
    """Gradients of some steps of the first of two kernels."""
    made, found = walker(model, kernel >> others, seed=4), []
    for _ in range(steps):
        made.advance(1)
        assert made.error is None
        found.append(tools_of(made)[0].push.here.copy())
    return np.array(found), made.floats.copy()


@pytest.mark.slow
@pytest.mark.plain
def test_gradients_of_plain_functions_are_their_derivatives():
    """Those by hand, to 1e-10; draws are the same but for the last digits."""
    model = robust_model()
    others = sm.Metropolis("s", 0.1, selector=sm.Exact(), adapt=False)
    options = {"step": 1e-3, "batch": 20, "selector": sm.Exact(), "adapt": False}
    found = [
        gradients(model, sm.Langevin("b", gradient=gradient, **options), others, 20)
        for gradient in (None, robust_slope)
    ]
    assert sm.Langevin("b").source_of(model) == DERIVATIVES
    size = np.abs(found[1][0]).max()
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10, atol=1e-10 * size)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)
    assert np.ptp(found[0][0], axis=0).min() > 0.1  # the chain moves


@pytest.mark.slow
def test_what_has_no_derivatives_takes_differences():
    """A cumulated sum, two parameters, linear predictors: and it says which."""
    x = np.random.default_rng(1).normal(size=(50, 3))

    def running(state, data, n):
        return -0.5 * (data.y[n] - np.cumsum(data.x[n] * state.beta)[-1]) ** 2

    data = {"x": x, "y": x[:, 0]}
    kernel = sm.Langevin("beta", batch=10)
    for model in (
        sm.Model(running, data, {"beta": np.zeros(3)}), sm.models.glm.gaussian(x, x[:, 0]),
    ):  # fmt: skip
        assert kernel.source_of(model) is None
        assert kernel.facts(model)["note"].startswith("gradient by central differences, batch 10")
    assert sm.Langevin("theta").source_of(lines(50)) is None
    told = sm.Langevin("b", batch=10).facts(robust_model())["note"]
    assert told.startswith("gradient by derivatives of log_likelihood, batch 10")


@pytest.mark.slow
def test_a_run_stored_by_differences_is_refused_to_derivatives(tmp_path, monkeypatch):
    """By name; one by derivatives goes on."""
    model, options = robust_model(), {"batch": 10, "selector": sm.Exact(), "adapt": False}
    kernel = sm.Langevin("b", step=1e-3, **options) >> sm.Metropolis(
        "s", 0.1, selector=sm.Exact(), adapt=False
    )

    def drawn(name):
        path = tmp_path / name
        sm.sample(model, kernel, 5, warmup=0, chains=1, seed=1, progress=False, store=path)
        return path

    now = drawn("now.nc")
    assert sm.resume(now, model, kernel, draws=8, progress=False).draws["b"].shape[1] == 8
    with monkeypatch.context() as patched:
        patched.setattr(langevin, "has_derivatives", lambda model, length: False)
        before = drawn("before.nc")
    with pytest.raises(ValueError, match=r"gradient for kernel b \(as given or by diff"):
        sm.resume(before, model, kernel, draws=8, progress=False)


def walled(state, data, n):
    """Impossible above .5, a root at 0, no number below -.5."""
    total = 0.0
    for j in range(3):
        total += state.theta[j] * data.x[n, j]
    if state.theta[0] > 0.5:
        return -np.inf
    if state.theta[0] < -0.5:
        return np.nan
    return -0.5 * (data.y[n] - total) ** 2 + 0.0 * math.sqrt(abs(state.theta[1]))


@pytest.mark.slow
@pytest.mark.plain
def test_derivatives_that_are_none_count_as_nothing():
    """A datum that is none stops the chain and is named; -inf, or no derivative, is no error."""
    x = np.random.default_rng(1).normal(size=(30, 3))
    options = {"batch": 10, "adapt": False, "selector": sm.Exact()}
    kernel = sm.Langevin("theta", step=0.02, **options)

    def started(first):
        model = sm.Model(walled, {"x": x, "y": x[:, 0]}, {"theta": [0.4, 0.0, 0.0]})
        made = walker(model, kernel, seed=2)
        made.floats[:] = first
        return made

    assert kernel.source_of(started([0.4, 0.0, 0.0]).program.model) == DERIVATIVES
    made = started([0.4, 0.0, 0.0])
    chunk = made.advance(1)
    assert made.error is None and tools_of(made).push.here[1] == 0.0  # no derivative at a root's 0
    chunk = made.advance(200)
    assert made.error is None and 0.45 < chunk.floats[:, 0].max() <= 0.5
    made = started([-0.6, 0.1, 0.0])
    made.advance(1)
    assert isinstance(made.error, sm.RewardError) and "at datum" in str(made.error)


# ------------------------------------------------------------------------- warm-up and restarts
def line(state, data, n):
    r = data.y[n] - state.theta[0] - state.theta[1] * data.x[n]
    return -0.5 * r * r


def lines(size=300):
    rng = np.random.default_rng(4)
    x = rng.normal(size=size)
    return sm.Model(line, {"x": x, "y": x + rng.normal(size=size)}, {"theta": np.zeros(2)})


RACING = sm.Racing(batch=8, retreat=False)


@pytest.mark.plain
def test_restored_bit_for_bit_and_the_same_with_audit():
    """Everything learnt is in the checkpoint, whose chain goes on in another walker."""
    model = lines(60)
    kernel = sm.Langevin("theta", batch=16, selector=RACING)
    one = walker(model, kernel, seed=1)
    one.advance(110, warm=True)  # past the first window of scales
    saved = one.checkpoint()
    one.advance(20, warm=True)
    after = one.advance(30)
    assert np.ptp(tools_of(one).tuning.scales) > 0.0
    other = walker(model, kernel, seed=2, audit=1.0)
    other.restore(saved)
    other.advance(20, warm=True)
    again = other.advance(30)
    np.testing.assert_array_equal(after.floats, again.floats)
    assert len(np.unique(after.floats[:, 0])) > 10
    tally = other.program.layout.stats(again.words)
    assert np.all(tally["theta"]["audited"] == 1)
    for name, array in one.checkpoint().items():
        if name != "audits":
            np.testing.assert_array_equal(array, other.checkpoint()[name])


@pytest.mark.parametrize(("step", "batch"), [("auto", 1500), (9.0, 1400)])
def test_warm_up_finds_the_step(step, batch):
    """From 1/N and from far off, to an acceptance of 0.574; batches longer than `take` draws."""
    made = walker(lines(1500), sm.Langevin("theta", step, batch=batch, selector=RACING))
    first = 1.0 / 1500 if step == "auto" else step
    np.testing.assert_allclose(tools_of(made).tuning.step[0], 0.5 * np.log(first))
    made.advance(600, warm=True)
    assert len(np.unique(tools_of(made).slope.batch)) == batch
    chunk = made.advance(600)
    tally = made.program.layout.stats(chunk.words)["theta"]
    assert 0.4 < tally["accepted"].mean() < 0.75
    assert np.ptp(tally["scale"]) == 0.0
