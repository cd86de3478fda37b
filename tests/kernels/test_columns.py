"""Spike and slab by columns: laws that enumeration and quadrature give, mutants, resumed runs."""

import math

import arviz as az
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.columns.sparse import sparse_mean
from subsample_mcmc.kernels.columns import flip, kept, proposal, sweep
from tests.helpers.groups import sampled
from tests.helpers.spikes import mutated
from tests.kernels.test_spikes import IN, enumerated, lines, model_of, off

GRID = np.linspace(-5.0, 5.0, 501)
STEP = GRID[1] - GRID[0]
NORMAL = np.exp(-0.5 * GRID**2) / math.sqrt(2.0 * math.pi) * STEP


def logistic(rng, size=24):
    """Few rows, two correlated columns: second-order sums are off by some tenths of a nat."""
    x = rng.standard_normal((size, 2))
    x[:, 1] += 0.7 * x[:, 0]
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [1.2, 0.4]))).astype(float)

    def factors(eta):
        return y[:, None] * eta - np.logaddexp(0.0, eta)

    return model_of(sm.models.glm.logistic(x, y), 2), factors, x


def poisson(rng, size=24):
    """Bounds of remainders grow with the distance; there are offsets."""
    x, time = rng.standard_normal((size, 2)), rng.uniform(0.5, 2.0, size)
    y = rng.poisson(time * np.exp(x @ [0.6, 0.2])).astype(float)
    given = sm.models.glm.poisson(x, y, exposure=time)

    def factors(eta):
        whole = eta + np.log(time)[:, None]
        return y[:, None] * whole - np.exp(whole)

    return model_of(given, 2), factors, x


def by_quadrature(factors, x):
    """(probability of each of the four choices, mean of beta)."""

    def height(a, b):
        return factors(a * x[:, 0, None] + b * x[:, 1, None]).sum(axis=0)

    level = height(0.0, np.zeros(1))[0]
    both = np.exp(np.stack([height(a, GRID) for a in GRID]) - level)
    one, two = np.exp(height(GRID, 0.0) - level), np.exp(height(0.0, GRID) - level)
    weights = np.array([
        (1 - IN) ** 2, IN * (1 - IN) * (two @ NORMAL), IN * (1 - IN) * (one @ NORMAL),
        IN**2 * (NORMAL @ both @ NORMAL),
    ])  # fmt: skip
    a = IN * (1 - IN) * (one * GRID) @ NORMAL + IN**2 * (NORMAL * GRID) @ both @ NORMAL
    b = IN * (1 - IN) * (two * GRID) @ NORMAL + IN**2 * NORMAL @ both @ (NORMAL * GRID)
    return weights / weights.sum(), np.array([a, b]) / weights.sum()


def kernel_of(model, selector=None, kind=sm.SpikeAndSlab):
    fit = sm.laplace(model, "beta")
    more = {} if selector is None else {"selector": selector}
    kernel = kind("beta", "gamma", fit, control=sm.Taylor(fit, order=2), **more)
    assert kernel.by_column(model)
    return kernel


def test_a_linear_regression_has_the_probabilities_of_enumeration(rng):
    model, x, y = lines(rng)
    kernel = kernel_of(model)
    told = kernel.describe(model)
    assert "Thinned()" in told and "guarantee: exact" in told and "one column" in told
    trace = sampled(model, kernel, 30_000, 100)
    assert trace.stats["beta+gamma"]["pulls"].sum() == 0  # the sums are all there is
    assert off(trace, *enumerated(x, y)) < 5.0


WAYS = {
    "points of a process": sm.Thinned(most=1e6, lost=1e6),
    "all rows in the place of points": sm.Thinned(most=0.0, lost=1e6),
    "all rows": sm.Thinned(lost=0.0),
    "both tests": sm.Thinned(most=1e6, lost=0.02),
}


@pytest.mark.slow_for("all rows", "points of a process")
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("made", [logistic, poisson])
def test_each_test_has_the_probabilities_of_quadrature(rng, made, name):
    model, factors, x = made(rng)
    trace = sampled(model, kernel_of(model, WAYS[name]), 40_000, 100)
    stats = trace.stats["beta+gamma"]
    assert stats["raced"].sum() > 3_000 if "points" in name[:6] else stats["exact"].sum() > 3_000
    assert off(trace, *by_quadrature(factors, x)) < 5.0


@pytest.mark.slow
def test_inclusions_are_those_of_decisions_by_all_rows(rng):
    """Twelve columns, some in doubt: within 5 standard errors, beyond which once in 10^5."""
    x = rng.standard_normal((300, 12))
    x[:, 1::2] += 0.6 * x[:, ::2]
    truth = np.array([0.9, -0.5, 0.4, 0.3, 0.25, -0.2] + [0.0] * 6)
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(float)
    model = model_of(sm.models.glm.logistic(x, y), 12)
    every = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"), sm.Exact())
    found = []
    for kernel, draws in ((kernel_of(model), 60_000), (every, 30_000)):
        gamma = np.asarray(sampled(model, kernel, draws, 200).draws["gamma"])[0].astype(float)
        size = np.array([float(az.ess(one[None], method="mean")) for one in gamma.T])
        found.append((gamma.mean(axis=0), gamma.var(axis=0) / size))
    (one, first), (two, second) = found
    assert ((two > 0.1) & (two < 0.9)).sum() >= 3
    assert np.abs(one - two).max() < 0.02
    assert (np.abs(one - two) / np.sqrt(first + second + 1e-12)).max() < 5.0


MUTANTS = {
    "the kept gradient stays": (
        kept, "add_scaled(kept.gradient, after - before, kept.curvature[k])", "pass",
    ),
    "the kept predictors stay": (
        kept, "move_column(kept.x[k], kept.sums, before * now.scale, after * now.scale)", "pass",
    ),
    "the kept pull stays": (
        sweep, "add_scaled(tools.pull, new - old, tools.precision[j])", "pass",
    ),
    "the prior of before is kept": (
        sweep, "trial.ints[at], tools.prior[0] = new, on, there", "trial.ints[at] = new, on",
    ),
    "a point rejects half as often": (flip, "* bound < -r", "* bound < -0.5 * r"),
    "what all rows say, turned round": (
        flip, "goes = ahead + found.total", "goes = ahead - found.total",
    ),
    "what residuals can bring back is forgotten": (
        flip, "reach = 1.000001 * sum_bound(", "reach = 0.0 * sum_bound(",
    ),
    "the test depends on where one is": (
        flip, "far = max(kept.now[0].square, square_after(kept, k, value))",
        "far = kept.now[0].square",
    ),
    "the new value's density is forgotten": (
        proposal, "ratio -= log_density(new, mean, sd)",
        "ratio -= 0.0 * log_density(new, mean, sd)",
    ),
    "the old value's density is forgotten": (
        proposal, "ratio += log_density(old, mean, sd)",
        "ratio += 0.0 * log_density(old, mean, sd)",
    ),
}  # fmt: skip


def test_a_step_is_as_likely_the_other_way(rng):
    walk = getattr(proposal.walk, "py_func", proposal.walk)
    for noise in [*rng.standard_normal((200, 2)), np.array([9.0, 1e-3])]:
        assert walk(noise * [-1.0, 1.0]) == -walk(noise) != 0.0


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(rng, name):
    model, factors, x = logistic(rng)
    kind = mutated(*MUTANTS[name])
    way = "points of a process" if "point" in name else "both tests"
    trace = sampled(model, kernel_of(model, WAYS[way], kind), 40_000, 100)
    assert off(trace, *by_quadrature(factors, x)) > 6.0


def test_no_mutant_is_like_the_kernel(rng):
    """What the mutants are made by changes nothing itself."""
    model, _, _ = logistic(rng)
    kind = mutated(kept, "MAGIC = 1.5 * 2.0**52", "MAGIC = 1.5 * 2.0**52")
    one, two = (
        sampled(model, kernel_of(model, WAYS["both tests"], k), 200, 10)
        for k in (kind, sm.SpikeAndSlab)
    )
    assert np.array_equal(one.draws["beta"], two.draws["beta"])


# ------------------------------------------------------------------------- with a block beside it
def eta(state, data, n):
    return state.a[0] + state.beta[0] * data.x[n, 0] + state.beta[1] * data.x[n, 1] + data.o[n]


def log_factor(eta, data, n):
    return data.y[n] * eta - sm.exp(eta)


def derivatives(eta, data, n):
    rate = sm.exp(eta)
    return data.y[n] - rate, -rate, -rate


def remainder(eta, data, n):
    rate = sm.exp(eta)
    return rate, rate


def prior_with_intercept(state):
    total = -0.5 * state.a[0] ** 2
    for j in range(2):
        if state.gamma[j] == 1:
            total += math.log(IN) - 0.5 * math.log(2.0 * math.pi) - 0.5 * state.beta[j] ** 2
        else:
            total += math.log(1.0 - IN)
    return total


def with_intercept(rng, size=60):
    """An intercept that another kernel moves: predictors of all rows follow it."""
    x, o = rng.standard_normal((size, 2)), rng.uniform(-0.5, 0.5, size)
    y = rng.poisson(np.exp(0.5 + o + x @ [0.3, 0.1])).astype(float)
    model = sm.Model(
        sm.Predictors(eta, log_factor, derivatives, remainder, growth=1.0),
        {"x": x, "o": o, "y": y}, {"a": 0.0, "gamma": np.ones(2, int), "beta": np.zeros(2)},
        prior_with_intercept, support={"gamma": 2},
    )  # fmt: skip
    fit = sm.laplace(model, ("a", "beta"))
    control = sm.Taylor(fit, order=2)
    spike = sm.SpikeAndSlab("beta", "gamma", fit, control=control)
    assert spike.by_column(model)
    return model, spike >> sm.Metropolis("a", selector=sm.Exact()), (x, o, y)


def by_summing(x, o, y):
    """The same as by_quadrature, the intercept integrated by a sum."""
    grid = np.linspace(-2.0, 2.5, 181)
    normal = np.exp(-0.5 * grid**2) * (grid[1] - grid[0]) / math.sqrt(2.0 * math.pi)
    sums = np.zeros((4, 3))  # of 1, and of both coefficients; by choice
    one = np.array([0.0])
    for k, (first, second) in enumerate([(one, one), (one, grid), (grid, one), (grid, grid)]):
        a, b, c = grid[:, None, None], first[:, None], second
        linear = y.sum() * a + (y @ x[:, 0]) * b + (y @ x[:, 1]) * c
        parts = np.exp(o[:, None, None] + x[:, 0, None, None] * b + x[:, 1, None, None] * c).sum(
            axis=0
        )
        density = np.exp(linear - np.exp(a) * parts - 0.5 * a**2 - level(y, o))
        weight = (normal[:, None] if len(first) > 1 else 1.0) * (normal if len(second) > 1 else 1.0)
        inside = (len(first) > 1) + (len(second) > 1)
        density = density.sum(axis=0) * weight * IN**inside * (1.0 - IN) ** (2 - inside)
        sums[k] = density.sum(), (density * b).sum(), (density * c).sum()
    return sums[:, 0] / sums[:, 0].sum(), sums[:, 1:].sum(axis=0) / sums[:, 0].sum()


def level(y, o):
    """Of the log likelihood, so that its exponential is a number."""
    rate = y.mean() / np.exp(o).mean()
    return y.sum() * math.log(rate) - rate * np.exp(o).sum()


def test_predictors_follow_blocks_that_others_move(rng):
    model, kernel, given = with_intercept(rng)
    trace = sampled(model, kernel, 40_000, 200)
    assert trace.stats["beta+gamma"]["raced"].sum() > 1_000
    assert off(trace, *by_summing(*given)) < 5.0


def test_a_mutant_that_does_not_follow_them_is_seen(rng):
    model, kernel, given = with_intercept(rng)
    moves = "if floats[k] != kept.floats[k]:"
    kind = mutated(kept, moves, moves.replace("if", "if k > 0 and"))
    spike, other = kernel.parts
    still = kind("beta", "gamma", spike.fit, control=spike.control)
    assert off(sampled(model, still >> other, 20_000, 200), *by_summing(*given)) > 7.0


# ------------------------------------------------------------------------------------ what is kept
def test_runs_resume_bit_for_bit(rng, tmp_path):
    """What is kept is a function of the state: a resumed run makes it anew."""
    model, kernel, _ = with_intercept(rng)
    path = tmp_path / "run.nc"
    whole = sampled(model, kernel, 300, 10)
    sampled(model, kernel, 77, 10, store=path)
    again = sm.resume(path, model, kernel, 300, progress=False)
    for name in ("beta", "gamma", "a"):
        assert np.array_equal(whole.draws[name], again.draws[name])
    for field, values in whole.stats["beta+gamma"].items():
        assert np.array_equal(values, again.stats["beta+gamma"][field]), field


def test_stored_runs_of_all_coefficients_are_not_resumed_by_columns(rng, tmp_path, monkeypatch):
    model, _, _ = logistic(rng)
    kernel, path = kernel_of(model), tmp_path / "run.nc"
    with monkeypatch.context() as patched:
        patched.setattr(sm.Taylor, "by_column", lambda *_: False)
        sampled(model, kernel, 20, 10, store=path)
    with pytest.raises(ValueError, match=r"data read by kernel beta\+gamma"):
        sm.resume(path, model, kernel, 40, progress=False)


@pytest.mark.parametrize("far", [1.0, 10.0])
def test_a_start_far_off_is_left(rng, far):
    """Sums of products are kept in units of what they may come to, however large that is."""
    model, factors, x = logistic(rng)
    start = [{"gamma": np.ones(2, int), "beta": np.array([far, -3.0 * far])}]
    trace = sampled(model, kernel_of(model), 20_000, 100, start=start)
    assert off(trace, *by_quadrature(factors, x)) < 5.0


def test_columns_are_single_precision_where_they_are_no_less_exact(rng):
    for kind in (np.float32, np.float64):
        x = rng.standard_normal((30, 3)).astype(kind)
        model = model_of(sm.models.glm.logistic(x, (x[:, 0] > 0.0).astype(float)), 3)
        found = kernel_of(model).control.columns(model)
        assert found.x.dtype == kind and np.array_equal(found.x.T, x)
        eta = x @ found.point
        assert np.allclose(found.there, eta, atol=1e-12)
        curvature = np.exp(eta) / (1.0 + np.exp(eta)) ** 2
        assert np.allclose(found.metric, (x.T * curvature) @ x.astype(float), atol=1e-9)


def test_small_coefficients_are_0_at_the_reference_given_the_others(rng):
    """By regressions on the columns that are left: of two that are much alike, one stays."""
    x = rng.standard_normal((400, 6))
    x[:, 1] = x[:, 0] + 0.05 * x[:, 1]
    x[:, 5] = 1.0  # beside the coefficients: it follows them
    x[:, 3] += 2.0
    y = x @ [0.8, 0.0, 0.5, 0.03, 0.0, 1.0] + rng.standard_normal(400)
    precision = x.T @ x
    covariance = np.linalg.inv(precision)
    found = sparse_mean(covariance @ x.T @ y, covariance, 5)
    on = np.flatnonzero(found)
    assert 2 in on and 5 in on and len(on) == 3 and np.isin(on, [0, 1, 2, 5]).all()
    assert np.allclose(found[on], np.linalg.lstsq(x[:, on], y, rcond=None)[0])


def test_predictors_are_kept_around_a_sparse_reference(rng):
    model, kernel, _ = with_intercept(rng)
    spike = kernel.parts[0]
    found = spike.columns_of(model)
    assert found is spike.columns_of(model)
    start = {name: model.variables[name].block.start for name in ("a", "beta")}
    beta = found.point[start["beta"] : start["beta"] + 2]
    whole = spike.fit.gaussian(("a", "beta"))[0]
    assert beta[1] == 0.0 != whole[2] and found.point[start["a"]] != whole[0]


def test_a_reference_is_that_of_its_own_fit(rng):
    """Not of one seen before with the same means and variances: draws would depend on it."""
    model, _, _ = logistic(rng)
    control, found = sm.Taylor(sm.laplace(model, "beta"), order=2), []
    for tied in (0.0, 0.03):
        kernel = sm.SpikeAndSlab("beta", "gamma", Tied(tied), control=control)
        found.append(kernel.columns_of(model).point)
    assert np.allclose(found, [[0.0, 1.0], [0.0, 0.625]])


class Tied:
    """A Gaussian of two coefficients, the first of which is small."""

    def __init__(self, covariance):
        self.covariance = covariance

    def gaussian(self, blocks):
        off = self.covariance
        return np.array([0.5, 1.0]), np.array([[0.04, off], [off, 0.04]])


@pytest.mark.plain
def test_what_columns_serve(rng):
    model, _, _ = logistic(rng)
    fit = sm.laplace(model, "beta")
    for control, selector, serves in (
        (sm.Taylor(fit, order=2), None, True), (sm.Taylor(fit), None, False),
        (sm.Taylor(fit, order=2), sm.Racing(), False), (None, None, False),
    ):  # fmt: skip
        more = {} if selector is None else {"selector": selector}
        kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=control, **more)
        assert bool(kernel.by_column(model)) == serves
    tall, _, _ = logistic(rng, 1_000)  # what is accepted reads a column, and sums are as cheap
    fit = sm.laplace(tall, "beta")
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit, order=2))
    assert not kernel.by_column(tall)


@pytest.mark.plain
def test_a_chain_of_columns_in_plain_python(rng):
    model, _, _ = logistic(rng)
    trace = sampled(model, kernel_of(model, WAYS["both tests"]), 30, 5)
    assert np.array_equal(trace.draws["beta"] != 0.0, trace.draws["gamma"] == 1)
    assert trace.stats["beta+gamma"]["accepted"].sum() > 20
    assert "Racing()" not in str(trace.report())  # all rows of one column are not dear


def no_number_at_5(eta, data, n):
    return data.y[n] * eta - sm.exp(eta) if n != 5 or eta < 3.0 else math.nan


def test_a_row_that_is_no_number_is_named(rng):
    x = rng.standard_normal((60, 2))
    x[5] = 3.0
    y = rng.poisson(np.exp(x @ [0.3, 0.0])).astype(float)
    y[5] = 40.0
    model = sm.Model(
        sm.Predictors(eta, no_number_at_5, derivatives, remainder, growth=1.0),
        {"x": x, "o": np.zeros(60), "y": y},
        {"a": 0.0, "gamma": np.ones(2, int), "beta": np.zeros(2)},
        prior_with_intercept, support={"gamma": 2},
    )  # fmt: skip
    point = {"a": 0.0, "beta": np.array([0.3, 0.0])}
    fit = sm.laplace(with_intercept(rng)[0], ("a", "beta"))
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(point, order=2))
    with pytest.raises(ValueError, match="datum 5"):
        sampled(model, kernel >> sm.Metropolis("a", selector=sm.Exact()), 2_000, 10)
    far = sm.SpikeAndSlab("beta", "gamma", Wide(9.0), control=sm.Taylor(point, order=2))
    with pytest.raises(ValueError, match="are not finite at the reference"):
        far.describe(model)


def test_audits_add_up_what_residuals_cost(rng):
    model, _, _ = logistic(rng)
    kernel = kernel_of(model, sm.Thinned(most=1e6, lost=1e6))
    one, two = (sampled(model, kernel, 2_000, 10, audit=share) for share in (0.0, 0.5))
    assert np.array_equal(one.draws["beta"], two.draws["beta"])
    stats = two.stats["beta+gamma"]
    assert stats["wrong"].sum() == 0 and stats["audited"].sum() > 1_000
    assert 0.0 < stats["regret"].sum() / stats["audited"].sum() < 1.0


class Wide:
    """A Gaussian that proposes coefficients at which rates are beyond all numbers."""

    def __init__(self, first=0.6):
        self.first = first

    def gaussian(self, blocks):
        return np.array([self.first, 0.2]), np.diag([0.05, 1e5])


def test_proposals_at_which_an_exponential_overflows_are_refused(rng):
    model, _, _ = poisson(rng)
    control = sm.Taylor(sm.laplace(model, "beta"), order=2)
    trace = sampled(model, sm.SpikeAndSlab("beta", "gamma", Wide(), control=control), 3_000, 100)
    stats = trace.stats["beta+gamma"]
    assert stats["exact"].sum() > 1_000 and stats["accepted"].sum() > 1_000
    assert np.abs(trace.draws["beta"]).max() < 10.0


def two_more(state):
    """With two discrete blocks that only the prior knows, and a number that it refuses above 2."""
    if state.tau[0] > 2.0:
        return math.nan
    total = -0.5 * state.tau[0] ** 2 + 0.4 * state.q[0] - 0.7 * state.r[0]
    for j in range(len(state.beta)):
        one = math.log(IN) - 0.919 - 0.5 * state.beta[j] ** 2
        total += one if state.gamma[j] == 1 else math.log(1.0 - IN)
    return total


def test_kernels_behind_it_are_told_by_their_own_numbers(rng):
    """It counted itself twice: others had the tilts of the one before, and errors no kernel."""
    given, start = logistic(rng)[0], {"gamma": np.ones(2, int), "beta": np.zeros(2)}
    model = sm.Model(
        given.predictors, given.data, start | {"tau": 0.0, "q": 0, "r": 0}, two_more,
        support={"gamma": 2, "q": 3, "r": 3},
    )  # fmt: skip
    fit = sm.laplace(model, "beta", progress=False)
    spikes = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit, 2))
    assert spikes.by_column(model)
    moves = spikes >> sm.Gibbs("q", sm.Exact()) >> sm.Gibbs("r", sm.Exact())
    tilts = sm.WangLandau("q") >> sm.WangLandau("r", rate=3.0)
    walk = sm.Metropolis("tau", scale=2.0, selector=sm.Exact(), adapt=False)
    calm = sm.Metropolis("tau", scale=1e-3, selector=sm.Exact(), adapt=False)
    trace = sampled(model, moves >> calm >> tilts, 50, 50)
    for label in ("q_tilt", "r_tilt"):
        stats = trace.stats[label]
        for chain, learnt in enumerate(trace.learnt(label, "tilt")):
            last = dict(zip(stats["value"][chain].tolist(), stats["tilt"][chain], strict=True))
            assert all(learnt[value] == tilt for value, tilt in last.items()), (learnt, last)
    with pytest.raises(sm.RewardError, match=r"kernel tau.*the log prior is nan"):
        sampled(model, moves >> walk, 200, 0)
