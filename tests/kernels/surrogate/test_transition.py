"""Surrogate transitions: laws, mutants, references that depend on what moves, what is refused."""

import inspect
import sys
import types

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels.surrogate import reference, transition
from subsample_mcmc.kernels.surrogate.reference import reference_numbers
from subsample_mcmc.target.layout import Run
from tests.helpers.groups import errors_of, model_of, of_site, sampled, scores_of_common

NOISE = 1.5


# ------------------------------------------------------------------------------ models
def beside_groups(state, data, n):
    z = data.y[n] - state.a[data.group[n]] - state.b[0] * data.x[n, 0] - state.b[1] * data.x[n, 1]
    return -0.5 * (z / NOISE) ** 2


def log_prior(state):
    return -0.5 * (state.mu[0] ** 2 + state.b[0] ** 2 + state.b[1] ** 2) - state.tau[0]


def hierarchy(rows=60, groups=5):
    """A normal hierarchy with two slopes, whose law given all else is normal."""
    rng = np.random.default_rng(2)
    group, x = rng.integers(groups, size=rows), rng.standard_normal((rows, 2))
    x[:, 1] += 0.5 * x[:, 0] + 0.4 * (group - 2.0)
    y = rng.standard_normal(groups)[group] + x @ [0.7, -0.4] + NOISE * rng.standard_normal(rows)
    return sm.Model(
        beside_groups, {"y": y, "x": x, "group": group},
        {"a": np.zeros(groups), "mu": 0.0, "tau": 1.0, "b": np.zeros(2)}, log_prior,
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip


def scores(model, trace):
    """The slopes as normal scores of their law given the groups."""
    x, y, group = model.data.x, model.data.y, model.data.group
    a, b = (np.asarray(trace.draws[name])[0] for name in ("a", "b"))
    precision = x.T @ x / NOISE**2 + np.eye(2)
    means = np.linalg.solve(precision, x.T @ (y[:, None] - a.T[group]) / NOISE**2).T
    return (b - means) @ np.linalg.cholesky(precision)


def line(state, data, n):
    z = (data.y[n] - state.b[0] * data.x[n]) / state.sigma[0]
    return -0.5 * z * z - sm.log(state.sigma[0])


def few_data(size=7):
    """A slope and a scale of very few data: far from normal, and log sigma, too."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(size)
    data = {"y": 0.5 * x + rng.standard_normal(size), "x": x}
    return sm.Model(
        line, data, {"b": 0.0, "sigma": 1.0}, lambda s: -abs(s.b[0]) - 0.5 * s.sigma[0],
        constraints={"sigma": sm.positive},
    )  # fmt: skip


def by_quadrature(model, trace):
    """b and sigma as normal scores of their marginal distribution functions."""
    x, y = model.data.x, model.data.y
    b, logs = np.linspace(-12.0, 12.0, 3_001), np.linspace(-4.0, 5.0, 1_801)
    squares = np.array([((y - at * x) ** 2).sum() for at in b])
    sigma = np.exp(logs)
    height = -0.5 * squares[:, None] / sigma**2 - (len(y) - 1) * logs  # d log sigma
    height += -abs(b)[:, None] - 0.5 * sigma
    mass = np.exp(height - height.max())
    found = []
    for name, grid, own in (("b", b, mass.sum(axis=1)), ("sigma", logs, mass.sum(axis=0))):
        values = np.asarray(trace.draws[name])[0]
        values = np.log(values) if name == "sigma" else values
        below = (np.cumsum(own) - 0.5 * own) / own.sum()
        found.append(stats.norm.ppf(np.clip(np.interp(values, grid, below), 1e-9, 1.0 - 1e-9)))
    return found


def hyper(groups=200):
    """Means and scales of sites: no datum sees them, and priors of many sites are dear."""
    rng = np.random.default_rng(8)
    group = np.repeat(np.arange(groups), 3)
    y = 0.5 + 0.8 * rng.standard_normal(groups)[group] + NOISE * rng.standard_normal(len(group))
    model = model_of(touches="group")
    return sm.Model(
        model.log_likelihood, {"y": y, "group": group},
        {"a": np.zeros(groups), "mu": 0.0, "tau": 1.0}, model.given[3],
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip


def transitions(fit, kernel=None, **more):
    kernel = kernel or sm.SurrogateTransition
    parts = sm.Metropolis("a"), sm.Metropolis(("mu", "tau")), kernel("b", fit, **more)
    return sm.cycle(*parts)


def tools_of(kernel, model, **values):
    """A kernel bound to a chain that stands where blocks have these values."""
    floats = model.floats.copy()
    for name, value in values.items():
        block = model.variables[name].block
        floats[block.start : block.start + block.length] = np.ravel(value)
    return kernel.bind(model, Run.over(model.ints.copy(), floats, np.zeros(99, dtype=np.int64)))


# -------------------------------------------------------------------------------- laws
def test_slopes_given_groups_are_normal():
    model = hierarchy()
    trace = sampled(model, transitions(sm.laplace(model)), 20_000)
    assert max(max(errors_of(z)) for z in scores(model, trace).T) < 5.0
    told = trace.stats["b"]
    assert told["accepted"].mean() > 0.95  # all but the walks: the surrogate is the law
    passes = told["gradients"] / model.size / 3.0  # three lines of two slopes
    assert set(np.unique(passes)) <= {1.0, 2.0} and passes.mean() < 1.5


@pytest.mark.slow_for("1")
@pytest.mark.parametrize("moves", [8, 1])
def test_scales_of_few_data_beside_quadrature(moves):
    model = few_data()
    kernel = sm.SurrogateTransition(("b", "sigma"), sm.laplace(model), moves)
    trace = sampled(model, kernel, 40_000)
    assert 0.2 < trace.stats["b+sigma"]["accepted"].mean() < 0.95  # it has something to correct
    assert max(max(errors_of(z)) for z in by_quadrature(model, trace)) < 5.0


@pytest.mark.parametrize("groups", [200, 40])
def test_scales_of_sites_given_the_sites(groups):
    """By the Gaussian of 200 sites' priors; those of 40 are asked with every move."""
    model = hyper(groups)
    fit = sm.laplace(model, ("mu", "tau"), given={"a": np.linspace(-1.0, 1.5, groups)})
    trace = sampled(model, sm.Metropolis("a") >> sm.SurrogateTransition(("mu", "tau"), fit), 20_000)
    told = trace.stats["mu+tau"]
    assert told["accepted"].mean() > 0.85 and told["pulls"].sum() == told["gradients"].sum() == 0
    a, mu, tau = (np.asarray(trace.draws[name])[0] for name in ("a", "mu", "tau"))
    for z in scores_of_common(a, mu, tau):
        assert max(errors_of(z)) < 5.0


MUTANTS = {
    "nothing is corrected": ("exact = gain - (reached - level)", "exact = 0.0"),
    "what the surrogate said counts twice": (
        "exact = gain - (reached - level)", "exact = gain",
    ),
    "proposals of the Gaussian count as a walk": (
        "if walk else log_density(own, here) - log_density(own, there)", "if walk else 0.0",
    ),
    "free coordinates have no Jacobian": (
        "prior = values_at(own, z, y)", "prior = 0.0 * values_at(own, z, y)",
    ),
    "the surrogate leans to where the chain stands": (
        "own.found[NO_PRIOR] = 0.0\n    for i", "own.s1[0] += 3.0 * tools.here[0]\n    for i",
    ),
    "the Gaussian follows the chain, and not its way back": (
        "own.found[NO_PRIOR] = 0.0\n    for i", "own.mean[0] += tools.here[0]\n    for i",
    ),
    "walks that all data decide go everywhere": (
        "if not alone:\n        exact",
        "gain = 50.0 if alone else gain\n    if not alone:\n        exact",
    ),
}  # fmt: skip
READS = {
    "it begins where the chain stands": (
        "own.at[i] = before[i] = 0.0", "own.at[i] = own.trial.candidates[0, i]",
    ),
    "it begins where it ended": ("own.at[i] = before[i] = 0.0", "own.at[i] = own.mean[i]"),
    "it is asked for where the chain stands": (
        "place(trial, 1)\n    call_both", "place(trial, 0)\n    call_both",
    ),
}  # fmt: skip


def mutated(old, new, alone=1 / 32):
    """SurrogateTransition with a mistake in one of its modules; alone: the share of such walks."""
    sources = [inspect.getsource(module) for module in (reference, transition)]
    assert sum(source.count(old) for source in sources) == 1, f"write the mutant anew: {old!r}"
    name = "subsample_mcmc.mutant_reference"  # records of the package are pointed to
    made = sys.modules[name] = types.ModuleType(name)
    made.__file__ = reference.__file__
    exec(compile(sources[0].replace(old, new), "<mutant>", "exec"), vars(made))
    scope = {"__name__": "subsample_mcmc.mutant_transition", "__file__": transition.__file__}
    source = (
        sources[1].replace(old, new).replace("ALONE = 1 / 8, 1 / 32", f"ALONE = 1 / 8, {alone}")
    )
    source = source.replace("subsample_mcmc.kernels.surrogate.reference", name)
    exec(compile(source, "<mutant>", "exec"), scope)
    return scope["SurrogateTransition"]


@pytest.mark.slow_for(*list(MUTANTS)[1:])
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name):
    model = few_data()
    kernel = mutated(*MUTANTS[name], 1 / 4)(("b", "sigma"), sm.laplace(model), 1)
    trace = sampled(model, kernel, 40_000)
    with np.errstate(all="ignore"):
        assert not max(max(errors_of(z)) for z in by_quadrature(model, trace)) < 7.0


@pytest.mark.parametrize("name", READS)
def test_references_that_depend_on_what_moves_are_refused(name):
    model = hierarchy()
    kernel = mutated(*READS[name])("b", sm.laplace(model))
    with pytest.raises(ValueError, match="reference of its surrogate changes with b"):
        kernel.describe(model)


# ------------------------------------------------------------------- what the reference is
def with_offsets(state, data, n):
    eta = state.a[data.group[n]]
    for j in range(5):
        eta += state.b[j] * data.x[n, j]
    return data.y[n] * eta - sm.softplus(eta)


def many_slopes(start=0.0):
    """A logistic regression of five slopes beside groups."""
    rng = np.random.default_rng(6)
    x, group = rng.standard_normal((400, 5)), rng.integers(4, size=400)
    chance = 1.0 / (1.0 + np.exp(-(rng.standard_normal(4)[group] + x @ [1.0, -0.5, 0.3, 0.0, 0.2])))
    data = {"y": (rng.random(400) < chance).astype(float), "x": x, "group": group}
    return sm.Model(
        with_offsets, data, {"b": np.full(5, start), "a": np.zeros(4)},
        lambda s: -0.5 * (s.b * s.b).sum(), touches={"a": "group"},
        site_prior={"a": lambda s, g: -0.5 * s.a[g] ** 2},
    )  # fmt: skip


def test_the_gaussian_is_that_of_newton_given_the_groups():
    """Fifteen lines of derivatives, in two passes; a mode that is far from the fit."""
    model, a = many_slopes(), np.array([2.0, -2.0, 1.0, 0.0])
    fit = sm.laplace(model, "b", given={"a": -a})
    tools = tools_of(sm.SurrogateTransition("b", fit), model, a=a)
    reference_numbers(tools.reference)
    x, y, offset = model.data.x, model.data.y, a[model.data.group]
    b = np.zeros(5)
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(-(x @ b + offset)))
        precision = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(5)
        b = b + np.linalg.solve(precision, x.T @ (y - p) - b)
    own, factor = tools.reference, tools.reference.columns.T
    mean, covariance = fit.gaussian("b")
    assert np.abs(np.linalg.solve(np.linalg.cholesky(precision).T, np.eye(5))).max() < 1.0
    found = own.own.T @ own.own  # of z; of b it is L^-T ... L^-1, L the fit's factor
    back = np.linalg.inv(factor)
    off = np.linalg.cholesky(precision).T @ (own.centre + factor @ own.mean - b)
    assert np.allclose(factor @ factor.T, covariance) and np.allclose(own.centre, mean)
    assert np.linalg.norm(off) < 0.2  # a Newton step from two standard deviations, at most
    assert np.allclose(back.T @ found @ back, precision, rtol=0.1, atol=0.1 * precision.max())


def test_a_fit_hundreds_of_standard_deviations_off_costs_passes_and_no_acceptance():
    """There the log likelihood is no peak: it bends upwards by the scale."""
    model = few_data(2_000)
    wide = sm.Model(
        line, {"y": 5.0 * model.data.y + 9.0 * model.data.x, "x": model.data.x},
        {"b": 0.0, "sigma": 1.0}, lambda s: 0.0, constraints={"sigma": sm.positive},
    )  # fmt: skip
    kernel = sm.SurrogateTransition(("b", "sigma"), sm.laplace(wide))
    told = sampled(model, kernel, 500, 100).stats["b+sigma"]
    assert told["accepted"].mean() > 0.9
    assert 2.0 < told["gradients"].mean() / 3.0 / model.size < 11.0


def test_chains_come_home_from_far_off():
    model = many_slopes()
    kernel = sm.Metropolis("a") >> sm.SurrogateTransition("b", sm.laplace(model))
    start = [{"a": np.zeros(4), "b": np.full(5, 40.0)}]
    trace = sampled(model, kernel, 500, 50, start=start)
    assert np.abs(np.asarray(trace.draws["b"])).max() < 4.0


def test_a_start_that_is_far_off_needs_no_warm_up():
    """Walks that all data decide bring it home, where the surrogate says nothing."""
    model = few_data()
    kernel = sm.SurrogateTransition(("b", "sigma"), sm.laplace(model))
    trace = sampled(model, kernel, 4_000, 0, start=[{"b": 60.0, "sigma": 0.5}])
    assert abs(np.asarray(trace.draws["b"])[0, -1_000:]).max() < 20.0


# --------------------------------------------------------------------------- as all kernels
def test_runs_resume_bit_for_bit(tmp_path):
    model = hierarchy()
    fit, path = sm.laplace(model), tmp_path / "run.nc"
    whole = sampled(model, transitions(fit), 300, 50)
    sampled(model, transitions(fit), 100, 50, store=path)
    again = sm.resume(path, model, transitions(fit), 300, progress=False)
    for name in model.names:
        assert np.array_equal(np.asarray(whole.draws[name]), np.asarray(again.draws[name])), name


@pytest.mark.plain
def test_draws_are_those_of_plain_python():
    """The same numbers with and without the JIT: this runs a second time without."""
    model = hierarchy(20, 3)
    fit = sm.laplace(model, "b", given={"a": [0.5, 0.0, -0.5]})
    trace = sampled(model, transitions(fit), 5, 3)
    b = np.asarray(trace.draws["b"])[0, -1]
    assert np.allclose(b, [1.4622071, -0.9901603], rtol=1e-6)


@pytest.mark.parametrize(("block", "more", "told"), [
    ("b", {"moves": 0}, "moves=0"),
    ("k", {}, "no block"),
])  # fmt: skip
def test_what_is_refused(block, more, told):
    model = hierarchy()
    with pytest.raises(ValueError, match=told):
        sm.SurrogateTransition(block, sm.laplace(model), **more).describe(model)


def test_priors_of_sites_that_may_read_all_blocks_are_kept():
    """A method of the state hands on every block: such a prior is not left out of a ratio."""

    def by_method(state, site):
        return -0.5 * (state.a[site] - state._asdict()["mu"][0]) ** 2

    model = sm.Model(
        model_of().log_likelihood, {"y": np.zeros(3), "group": np.arange(3)},
        {"a": np.ones(3), "mu": 3.0}, touches={"a": "group"}, site_prior={"a": by_method},
    )  # fmt: skip
    prior, _ = reference.prior_of_blocks(model, ("mu",))
    assert prior(model.state(model.ints, model.floats)) == -6.0


def test_fits_that_do_not_serve_are_refused():
    model = hierarchy()
    with pytest.raises(TypeError, match="give sm"):
        sm.SurrogateTransition("b", {"b": 0.0})
    with pytest.raises(ValueError, match="the fit does not have it"):
        sm.SurrogateTransition("b", sm.laplace(model, "a")).describe(model)
    wide = sm.Model(
        lambda s, d, n: -0.5 * (d.y[n] - s.b.sum()) ** 2, {"y": np.zeros(9)}, {"b": np.zeros(31)},
        lambda s: -0.5 * (s.b * s.b).sum(),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"31 free coordinates.*at most 30"):
        sm.SurrogateTransition("b", sm.laplace(wide)).describe(wide)


def test_a_likelihood_without_derivatives_is_refused():
    def rounded(state, data, n):
        return -0.5 * (data.y[n] - np.floor(state.b[0]) - state.b[0]) ** 2

    def smooth(state, data, n):
        return -0.5 * (data.y[n] - state.b[0]) ** 2

    model, near = (
        sm.Model(own, {"y": np.zeros(9)}, {"b": 0.3}, lambda s: -0.5 * s.b[0] ** 2)
        for own in (rounded, smooth)
    )
    with pytest.raises(ValueError, match=r"(?s)derivatives.*sm.Metropolis needs none"):
        sm.SurrogateTransition("b", sm.laplace(near)).describe(model)
