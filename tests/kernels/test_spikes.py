"""Spike and slab: laws that enumeration gives, mutants, what is refused."""

import itertools
import math

import arviz as az
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels import spikes
from subsample_mcmc.kernels.columns import proposal
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.defaults.spikes import refuse_spikes
from tests.helpers.groups import sampled
from tests.helpers.spikes import mutated

IN = 0.3  # probability of an indicator
ON, OFF = math.log(IN) - 0.5 * math.log(2.0 * math.pi), math.log(1.0 - IN)


def log_prior(state):
    total = 0.0
    for j in range(len(state.beta)):
        if state.gamma[j] == 1:
            total += ON - 0.5 * state.beta[j] ** 2
        else:
            total += OFF
    return total


def model_of(given, d, **more):
    state = {"gamma": np.ones(d, int), "beta": np.zeros(d)}
    return sm.Model(given.predictors, given.data, state, log_prior, support={"gamma": 2}, **more)


def lines(rng, d=4, size=60):
    """A linear regression with correlated columns, whose coefficients are in doubt."""
    x = rng.standard_normal((size, d))
    x[:, 1] += 0.7 * x[:, 0]
    y = x @ np.array([0.5, 0.0, 0.25, 0.0])[:d] + rng.standard_normal(size)
    return model_of(sm.models.glm.gaussian(x, y), d), x, y


def enumerated(x, y):
    """(probability of each choice, mean of beta), by the normal's closed form."""
    d, weights, means = x.shape[1], [], []
    for choice in itertools.product((0, 1), repeat=d):
        on = np.flatnonzero(choice)
        precision = x[:, on].T @ x[:, on] + np.eye(len(on))
        pull = x[:, on].T @ y
        mean = np.linalg.solve(precision, pull)
        weights.append(
            0.5 * pull @ mean - 0.5 * np.linalg.slogdet(precision)[1]
            + len(on) * math.log(IN) + (d - len(on)) * math.log(1.0 - IN)
        )  # fmt: skip
        full = np.zeros(d)
        full[on] = mean
        means.append(full)
    weights = np.exp(np.array(weights) - max(weights))
    weights /= weights.sum()
    return weights, weights @ np.array(means)


def off(trace, chances, means):
    """Standard errors that choices' shares, and means of beta, are off; beyond 5 once in 10^5."""
    gamma = np.asarray(trace.draws["gamma"])[0]
    choice = gamma @ 2 ** np.arange(gamma.shape[1])[::-1]
    beta = np.asarray(trace.draws["beta"])[0]
    if not np.array_equal(beta != 0.0, gamma == 1):
        return math.inf
    found = []
    for k, chance in enumerate(chances):
        values = (choice == k).astype(float)
        if chance * len(values) > 100:
            size = float(az.ess(values[None], method="mean"))
            found.append(abs(values.mean() - chance) / math.sqrt(chance * (1.0 - chance) / size))
    for values, mean in zip(beta.T, means, strict=True):
        error = values.std() / math.sqrt(float(az.ess(values[None], method="mean")))
        found.append(abs(values.mean() - mean) / error)
    return max(found)


@pytest.mark.slow_for("True")
@pytest.mark.parametrize("controlled", [True, False])
def test_choices_have_the_probabilities_of_enumeration(rng, controlled):
    model, x, y = lines(rng)
    fit = sm.laplace(model, "beta")
    more = {"control": sm.Taylor(fit)} if controlled else {"selector": sm.Exact()}
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, **more)
    told = kernel.describe(model)
    assert ("Thinned()" if controlled else "Exact()") in told and "guarantee: exact" in told
    trace = sampled(model, kernel, 30_000, 100)
    chances, means = enumerated(x, y)
    assert 0.05 < chances.max() < 0.7 and off(trace, chances, means) < 5.0


MUTANTS = {
    "the new value's density is forgotten": (
        proposal, "ratio -= log_density(new, mean, sd)",
        "ratio -= 0.0 * log_density(new, mean, sd)",
    ),
    "the old value's density is forgotten": (
        proposal, "ratio += log_density(old, mean, sd)",
        "ratio += 0.0 * log_density(old, mean, sd)",
    ),
    "the prior sees the indicator of before": (
        spikes, "trial.ints[at] = on\n    offsets[1]", "trial.ints[at] = before\n    offsets[1]",
    ),
    "the mean depends on the coefficient": (spikes, "if k != j:", "if k != j or k == 0:"),
    "half of the answers are forgotten": (
        spikes, "if decide(chain, judge, 0) == 1:", "if decide(chain, judge, 0) == 1 and on == 0:",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(rng, name):
    model, x, y = lines(rng)
    kernel = mutated(*MUTANTS[name])("beta", "gamma", sm.laplace(model, "beta"), sm.Exact())
    assert off(sampled(model, kernel, 20_000, 100), *enumerated(x, y)) > 7.0


def test_a_logistic_regression_beside_quadrature(rng):
    x = rng.standard_normal((400, 2))
    y = (rng.random(400) < 1.0 / (1.0 + np.exp(-x @ [0.3, 0.15]))).astype(float)
    model = model_of(sm.models.glm.logistic(x, y), 2)
    grid = np.linspace(-2.0, 2.0, 401)
    step = grid[1] - grid[0]

    def height(a, b):
        eta = a * x[:, 0, None] + b * x[:, 1, None]
        return (y[:, None] * eta - np.logaddexp(0.0, eta)).sum(axis=0)

    normal = np.exp(-0.5 * grid**2) / math.sqrt(2.0 * math.pi) * step
    both = np.exp(np.stack([height(a, grid) for a in grid]) - height(0.0, 0.0))
    one, two = (np.exp(h - height(0.0, 0.0)) for h in (height(grid, 0.0), height(0.0, grid)))
    weights = np.array([
        (1 - IN) ** 2, IN * (1 - IN) * (two @ normal), IN * (1 - IN) * (one @ normal),
        IN**2 * (normal @ both @ normal),
    ])  # fmt: skip
    a = IN * (1 - IN) * (one * grid) @ normal + IN**2 * (normal * grid) @ both @ normal
    b = IN * (1 - IN) * (two * grid) @ normal + IN**2 * normal @ both @ (normal * grid)
    fit = sm.laplace(model, "beta")
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit))
    trace = sampled(model, kernel, 40_000, 100)
    total = weights.sum()
    assert off(trace, weights / total, np.array([a, b]) / total) < 5.0


def test_what_is_certain_is_seldom_asked(rng):
    x = rng.standard_normal((2_000, 2))
    y = x @ [2.0, 0.0] + rng.standard_normal(2_000)
    model = model_of(sm.models.glm.gaussian(x, y), 2)
    kernel = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"), sm.Exact())
    trace = sampled(model, kernel, 5_000, 10)
    gamma, told = np.asarray(trace.draws["gamma"])[0], trace.stats["beta+gamma"]
    asked = told["decisions"].sum() - gamma.sum() - 5_000  # fresh values, and column 1
    assert 20 < asked < 120 and gamma[:, 0].all()


def seldom(state):
    total = 0.0
    for j in range(len(state.beta)):
        if state.gamma[j] == 1:
            total += ON - 0.5 * state.beta[j] ** 2 - 20.0
    return total


def test_coefficients_that_are_0_throughout_do_not_stand_still(rng):
    """Their indicators say so; one that stands elsewhere does, and so does any of other kernels."""
    x = rng.standard_normal((2_000, 4))
    given = sm.models.glm.gaussian(x, 2.0 * x[:, 0] + rng.standard_normal(2_000))
    state = {"gamma": np.ones(4, int), "beta": np.zeros(4)}
    model = sm.Model(given.predictors, given.data, state, seldom, support={"gamma": 2})
    kernel = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"), selector=sm.Exact())
    trace = sm.sample(model, kernel, 300, 100, chains=2, seed=1, progress=False)
    assert np.all(trace.draws["gamma"] == [1, 0, 0, 0])
    assert trace.mixing("beta").held == 0
    assert trace.report().verdict.converged.startswith("yes, given gamma, which never moved: ")
    for value in (2.0, 0.0):  # which its indicator, that is 1, does not explain
        trace.draws["beta"][..., 0] = value
        assert trace.mixing("beta").held_one == "beta[0]"
    del trace.meta["kernels"][0]["zeros"]
    assert trace.mixing("beta").held == 4


@pytest.mark.parametrize("order", [0, 2, 3])
def test_a_start_that_no_fresh_value_would_be_taken_from(order):
    """The posterior's tail there is far heavier than the Gaussian's, 9 standard deviations off."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    y = rng.poisson(np.exp(x @ [1.5, 0.2])).astype(float)
    model = model_of(sm.models.glm.poisson(x, y), 2)
    fit = sm.laplace(model, "beta")
    more = {"control": sm.Taylor(fit, order)} if order else {"selector": sm.Exact()}
    mean, covariance = fit.gaussian(("beta",))
    assert mean[0] > 9.0 * covariance[0, 0] ** 0.5
    for seed in range(4):
        kernel = sm.SpikeAndSlab("beta", "gamma", fit, **more)
        trace = sampled(model, kernel, 200, 200, seed=seed)  # from 0, with an indicator of 1
        found = np.asarray(trace.draws["beta"])[0, 100:, 0]
        assert abs(found.mean() - mean[0]) < 2.0 * covariance[0, 0] ** 0.5


def test_a_run_that_ended_before_a_draw_is_reported(rng, monkeypatch):
    model, _, _ = lines(rng)
    begin = parallel.Team.__init__

    def ended(team, *given):
        begin(team, *given)
        team.stop.set()

    monkeypatch.setattr(parallel.Team, "__init__", ended)
    trace = sampled(model, sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta")), 50, 10)
    assert trace.shape[1] == 0
    assert trace.report().verdict.converged.startswith("not known: 0 draws per chain are too few")


def test_columns_that_are_much_alike_are_asked_in_every_sweep(rng):
    """Given the other, each is certain; without it, it takes the other's place."""
    x = rng.standard_normal((2_000, 2))
    x[:, 1] = x[:, 0] + 0.04 * x[:, 1]
    y = x @ [0.15, 0.15] + rng.standard_normal(2_000)
    model = model_of(sm.models.glm.gaussian(x, y), 2)
    fit = sm.laplace(model, "beta")
    mean, covariance = fit.gaussian(("beta",))
    certain = 0.5 * mean**2 * np.diag(np.linalg.inv(covariance)) > spikes.HOPELESS
    trace = sampled(model, sm.SpikeAndSlab("beta", "gamma", fit, sm.Exact()), 2_000, 10)
    gamma, told = np.asarray(trace.draws["gamma"])[0], trace.stats["beta+gamma"]
    assert certain.any()
    assert told["decisions"].sum() - gamma.sum() > 3_900  # two a sweep, but for the last's own


@pytest.mark.parametrize("seed", range(4))
def test_what_is_certain_is_found_in_warm_up_by_a_start_without_it(seed, rng):
    x = rng.standard_normal((2_000, 2))
    y = x @ [2.0, 0.0] + rng.standard_normal(2_000)
    model = model_of(sm.models.glm.gaussian(x, y), 2)
    kernel = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"), sm.Exact())
    start = [{"gamma": np.zeros(2, int), "beta": np.zeros(2)}]
    trace = sampled(model, kernel, 200, 5, start=start, seed=seed)
    assert np.asarray(trace.draws["gamma"])[0, :, 0].all()


def test_a_start_that_contradicts_its_indicators(rng):
    model, x, y = lines(rng)
    kernel = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"), sm.Exact())
    start = [{"gamma": np.zeros(4, int), "beta": np.full(4, 9.0)}]
    trace = sampled(model, kernel, 20_000, 0, start=start)
    assert off(trace, *enumerated(x, y)) < 5.0


def test_runs_resume_bit_for_bit(rng, tmp_path):
    model, _, _ = lines(rng)
    fit, path = sm.laplace(model, "beta"), tmp_path / "run.nc"
    kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit))
    whole = sampled(model, kernel, 300, 10)
    sampled(model, kernel, 100, 10, store=path)
    again = sm.resume(path, model, kernel, 300, progress=False)
    for name in ("beta", "gamma"):
        assert np.array_equal(whole.draws[name], again.draws[name])


# --------------------------------------------------------------------------------------- refusals
def reads_both(state, data, n):
    return -0.5 * (data.y[n] - state.gamma[0] * state.beta[0]) ** 2


def reads_beta(state, data, n):
    return -0.5 * (data.y[n] - state.beta[0]) ** 2


def slab_everywhere(state):
    return -0.5 * state.beta[0] ** 2 - 1.0 * state.gamma[0]


@pytest.mark.plain
@pytest.mark.parametrize(
    ("likelihood", "prior", "more", "match"),
    [
        (reads_both, log_prior, {}, "log_likelihood reads 'gamma', or hands the state on"),
        (reads_beta, slab_everywhere, {}, r"with gamma\[0\] = 0 log_prior goes from .* changes"),
        (reads_beta, None, {}, "the model has no log_prior, which says how probable"),
        (reads_beta, None, {"gamma": np.ones(2, int)}, "2 indicators for 1 coefficients"),
        (reads_beta, None, {"support": {"gamma": 3}}, r"integers with support=\{'gamma': 2\}"),
        (reads_beta, None, {"constraints": {"beta": sm.positive}}, "'beta' must be real numbers"),
    ],
)
def test_models_that_do_not_suit_are_refused(rng, likelihood, prior, more, match):
    more = dict(more)
    state = {"gamma": more.pop("gamma", np.ones(1, int)), "beta": np.ones(1)}
    given = {"support": {"gamma": 2}} | more
    model = sm.Model(likelihood, {"y": rng.standard_normal(50)}, state, prior, **given)
    fit = sm.laplace(model, "beta")
    with pytest.raises(ValueError, match=match):
        sm.SpikeAndSlab("beta", "gamma", fit).describe(model)


@pytest.mark.plain
def test_others_that_move_coefficients_are_refused(rng):
    model, _, _ = lines(rng)
    kernel = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"))
    with pytest.raises(ValueError, match=r"so does Metropolis\('beta'\), which would take coeffi"):
        (kernel >> sm.Metropolis("beta")).describe(model)
    again = sm.SpikeAndSlab("beta", "gamma", kernel.fit)
    with pytest.raises(ValueError, match="which is a second one: each learns by itself"):
        (kernel >> again).describe(model)
    with pytest.raises(TypeError, match=r"fit=None: give sm.laplace\(model, 'beta', given="):
        sm.SpikeAndSlab("beta", "gamma", None)


def test_a_run_without_a_kernel_does_not_draw_indicators_by_their_prior_alone(rng):
    """Other kernels take a prior that says nothing of a coefficient for a flat one."""
    model = lines(rng)[0]
    with pytest.raises(ValueError, match=r"sm.SpikeAndSlab\('beta', 'gamma', fit") as told:
        sm.sample(model, draws=10, warmup=10, seed=1, progress=False)
    assert "log_prior says nothing of beta[j] where gamma[j] is 0" in str(told.value)


def test_nor_does_a_kernel_that_was_given(rng):
    """It converged, to the prior's share of each indicator; steps of the user's may know better."""
    model = lines(rng)[0]
    given = {"draws": 2, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    rest = sm.Slice("beta")
    for kernel in (sm.Gibbs("gamma") >> rest, sm.mixture((rest, 0.5), (sm.Gibbs("gamma"), 0.5))):
        with pytest.raises(ValueError, match="would draw gamma by the prior alone"):
            sm.sample(model, kernel, **given)

    @sm.kernel(writes=("gamma", "beta"))
    def both(rng, state, data):
        state.gamma[0] = 1 if rng.random() < 0.5 else 0
        state.beta[0] = state.gamma[0] * rng.standard_normal()

    sm.sample(model, both, **given)


def slab(value):
    return -0.919 - 0.5 * value**2


SPIKED = {
    "the first is always in": (4, 0, lambda s, j: j == 0 or s.gamma[j] == 1, slab),
    "one fewer, of an intercept": (3, 0, lambda s, j: j == 0 or s.gamma[j - 1] == 1, slab),
    "one fewer, the intercept last": (3, 0, lambda s, j: j == 3 or s.gamma[j] == 1, slab),
    "1 is left out": (4, 1, lambda s, j: s.gamma[j] == 0, slab),
    "overflows": (4, 0, lambda s, j: s.gamma[j] == 1, lambda v: v - 2 * math.log(1 + math.exp(v))),
    "uniform": (4, 0, lambda s, j: s.gamma[j] == 1, lambda v: 0.0 if abs(v) < 9 else -math.inf),
}


@pytest.mark.parametrize("kind", SPIKED)
def test_however_such_a_prior_is_written(rng, kind):
    given, (many, value, is_in, density) = lines(rng)[0], SPIKED[kind]

    def spiked(state):
        return sum(density(state.beta[j]) if is_in(state, j) else -0.2 for j in range(4))

    state = {"gamma": np.ones(many, int), "beta": np.zeros(4)}
    model = sm.Model(given.predictors, given.data, state, spiked, support={"gamma": 2})
    with pytest.raises(ValueError, match=rf"of beta\[j\] where gamma\[j\] is {value}") as told:
        refuse_spikes(model)
    assert ("intercept" in str(told.value)) == (many == 3)


def test_a_constant_where_it_is_1_may_be_a_uniform_law(rng):
    """Beside a narrow law where it is 0, whose coefficient is not 0 then."""
    given = lines(rng)[0]

    def flat(state):
        return sum(
            -math.log(100.0) if g == 1 else 3.7 - 0.5 * (b / 0.01) ** 2
            for b, g in zip(state.beta, state.gamma, strict=True)
        )

    state = {"gamma": np.ones(4, int), "beta": np.zeros(4)}
    refuse_spikes(sm.Model(given.predictors, given.data, state, flat, support={"gamma": 2}))


VAGUE = {  # where indicators are 0; both are densities
    "wide": lambda value: -0.919 - math.log(1e8) - 0.5 * (value / 1e8) ** 2,
    "bounded": lambda value: -math.log(100.0) if abs(value) < 50.0 else -math.inf,
}


@pytest.mark.parametrize(
    "kind", ["a density at 0", "read by data", "as many, but no indicators", *VAGUE]
)
def test_other_priors_of_indicators_are_not_taken_for_spikes(rng, kind):
    """A mixture of two normals has a density where the indicator is 0: it is a law as it stands."""
    given = lines(rng)[0]

    def mixed(state):
        total = 0.0
        for j in range(len(state.beta)):
            sd = 1.0 if state.gamma[j] == 1 else 0.1
            total -= 0.5 * (state.beta[j] / sd) ** 2 + math.log(sd)
        return total

    def vague(state):
        return sum(
            slab(b) if g == 1 else VAGUE[kind](b)
            for b, g in zip(state.beta, state.gamma, strict=True)
        )

    def apart(state):
        return -0.5 * np.sum(state.beta**2) + 0.3 * np.sum(state.gamma)

    def read(state, data, n):
        return -0.5 * (data.y[n] - state.beta[0] * state.gamma[0]) ** 2

    state = {"gamma": np.ones(4, int), "beta": np.zeros(4)}
    if kind == "read by data":
        model = sm.Model(read, {"y": given.data.y}, state, log_prior, support={"gamma": 2})
    else:
        prior = {"a density at 0": mixed, "as many, but no indicators": apart}.get(kind, vague)
        model = sm.Model(given.predictors, given.data, state, prior, support={"gamma": 2})
    assert refuse_spikes(model) is None
    assert refuse_spikes(model, sm.Gibbs("gamma") >> sm.Slice("beta")) is None
