"""Blocks in PyMC's free coordinates: their posteriors, and their draws as PyMC's variables."""

import pickle
import types

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from tests.helpers.marks import WARNINGS_OF_PYMC

pm = pytest.importorskip("pymc", reason="needs PyMC: pip install 'subsample-mcmc[pymc]'")
pytestmark = WARNINGS_OF_PYMC

X = np.linspace(-1.0, 1.0, 25)
Y = 0.4 * X + np.random.default_rng(2).standard_normal(25)
LOWEST = 0.5


def half_line():
    """A slope above 1/2, where the likelihood wants it lower: the posterior lies at the edge."""
    b = pm.TruncatedNormal("b", 1.0, 1.0, lower=LOWEST)
    pm.Deterministic("double", 2.0 * b)
    pm.Normal("y", b * X, 1.0, observed=Y)


def moments():
    """Posterior mean and standard deviation of b, by a sum over a grid."""
    b = LOWEST + np.linspace(0.0, 6.0, 60_001)[1:]
    logs = stats.norm.logpdf(Y[:, None], b * X[:, None], 1.0).sum(axis=0)
    p = np.exp(logs + stats.norm.logpdf(b, 1.0, 1.0))
    p /= p.sum()
    return p @ b, (p @ b**2 - (p @ b) ** 2) ** 0.5


def near(draws):
    """Is the mean right to 5 Monte Carlo errors (a false alarm in some 10^5), and the spread."""
    import arviz

    mean, sd = moments()
    ess = float(arviz.ess(draws, method="mean"))
    assert ess > 400
    assert abs(draws.mean() - mean) < 5.0 * sd / ess**0.5, (draws.mean(), mean, sd / ess**0.5)
    assert 0.85 < draws.std() / sd < 1.15 and draws.min() > LOWEST


@pytest.mark.slow
def test_the_jacobian_of_a_half_line_is_in_the_prior():
    with pm.Model() as pm_model:
        half_line()
    model = sm.from_pymc(pm_model)
    assert model.names == ("b_free",)
    kernel = sm.Metropolis("b_free", selector=sm.Exact())
    trace = sm.sample(model, kernel, 10_000, 500, chains=2, seed=1, progress=False, cores=1)
    found = sm.pymc.posterior(pm_model, trace)
    near(found["b"].to_numpy())
    np.testing.assert_allclose(found["double"], 2.0 * found["b"])
    np.testing.assert_allclose(found["b"], LOWEST + np.exp(trace.draws["b_free"]))


@pytest.mark.slow
def test_step_methods_move_it_too():
    with pm.Model():
        half_line()
        found = pm.sample(10_000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False,
                          step=[sm.pymc.RacingMetropolis(["b"], selector=sm.Exact())],
                          compute_convergence_checks=False)  # fmt: skip
    near(found.posterior["b"].to_numpy())


def grouped(group):
    """A matrix by groups and terms, a Cholesky factor, a label of each row."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    p = pm.Dirichlet("p", np.ones((3, 2)), dims=("place", "kind"))
    sigma, z = pm.HalfNormal("sigma"), pm.Categorical("z", p=[0.5, 0.5], shape=len(group))
    pm.Deterministic("cov", pm.math.dot(chol, chol.T))
    mean = pm.Deterministic("mean", p[group, 0] + chol[1, 0])
    pm.Normal("y", mean + z, sigma, observed=0.1 * group)


def test_draws_are_given_as_variables_of_pymc(rng):
    coords = {"place": ["a", "b", "c"], "kind": ["no", "yes"]}
    group = np.arange(20) % 3
    with pm.Model(coords=coords) as pm_model:
        grouped(group)
    shapes = {"chol_free": (3,), "p_free": (3, 1), "sigma": ()}
    assert set(sm.from_pymc(pm_model).names) == {*shapes, "z"}
    draws = {k: np.abs(rng.standard_normal((2, 5, *s))) for k, s in shapes.items()}
    draws["z"] = rng.integers(2, size=(2, 5, 20))
    trace = types.SimpleNamespace(draws=draws)
    found = sm.pymc.posterior(pm_model, trace)
    assert "mean" not in found and found["z"].shape == (2, 5, 20)  # an entry per row: asked for
    np.testing.assert_array_equal(found["sigma"], draws["sigma"])
    np.testing.assert_array_equal(found["z"], draws["z"])
    a, b, c = np.moveaxis(draws["chol_free"], -1, 0)
    np.testing.assert_allclose(found["cov"][..., 0, 1], np.exp(a) * b)
    np.testing.assert_allclose(found["cov"][..., 1, 1], b**2 + np.exp(2.0 * c))
    first = 1.0 / (1.0 + np.exp(-2.0 * draws["p_free"][..., 0]))  # PyMC's: softmax of (v, -v)
    np.testing.assert_allclose(found["p"].sel(kind="no"), first)
    assert list(found["p"].place.to_numpy()) == ["a", "b", "c"]
    mean = sm.pymc.posterior(pm_model, trace, ["mean"])["mean"]
    np.testing.assert_allclose(mean[..., 4], found["p"][..., 1, 0] + b)
    with pytest.raises(ValueError, match="'nope' is not among"):
        sm.pymc.posterior(pm_model, trace, ["nope"])
    del draws["sigma"]
    with pytest.raises(ValueError, match="no block 'sigma'"):
        sm.pymc.posterior(pm_model, trace)


def test_whole_numbers_beside_a_product_are_not_dropped():
    """Pytensor's way with products of matrices leaves k out of 1 - (X @ b + k)."""
    x = np.random.default_rng(3).normal(size=(len(Y), 3))
    with pm.Model() as pm_model:
        b, k = pm.Normal("b", shape=3), pm.Bernoulli("k", 0.3)
        pm.Normal("y", pm.math.dot(x, b) + k, 1.0, observed=Y)
        pm.Deterministic("q", 1.0 - (pm.math.dot(np.eye(3)[:2], b) + k))
    model = sm.from_pymc(pm_model)
    found = [
        model.log_likelihood(types.SimpleNamespace(b=np.full(3, 0.1), k=np.array([k])),
                             model.data, n)
        for k in (0, 1) for n in range(len(Y))
    ]  # fmt: skip
    wanted = stats.norm.logpdf(np.append(Y, Y - 1.0), np.tile(x @ np.full(3, 0.1), 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    draws = {"b": np.full((1, 2, 3), 0.1), "k": np.array([[0, 1]])}
    q = sm.pymc.posterior(pm_model, types.SimpleNamespace(draws=draws), "q")["q"]
    np.testing.assert_allclose(q[0], [[0.9, 0.9], [-0.1, -0.1]], atol=1e-12)


def test_minibatches_are_taken_for_all_data():
    with pm.Model() as pm_model:
        x, y = pm.Minibatch(X, Y, batch_size=5)
        pm.Normal("y", pm.Normal("b") * x, 1.0, observed=y, total_size=25)
    with pytest.warns(UserWarning, match="in place of pm.Minibatch the model has all 25 rows"):
        model = sm.from_pymc(pm_model)
    assert model.size == 25 and np.array_equal(model.data.y, Y)


def test_rows_of_other_lengths_come_behind():
    with pm.Model() as pm_model:
        a = pm.Normal("a")
        pm.Normal("y", a * X, 1.0, observed=Y)
        pm.Normal("t", a, 2.0, observed=np.array([1.0, 3.0, 7.0]))
    model = sm.from_pymc(pm_model)
    assert model.size == 28
    state = types.SimpleNamespace(a=np.array([0.7]))
    found = [model.log_likelihood(state, model.data, n) for n in range(28)]
    wanted = [*stats.norm.logpdf(Y, 0.7 * X, 1.0), *stats.norm.logpdf([1.0, 3.0, 7.0], 0.7, 2.0)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_effect_of_each_row_is_a_block_of_sites():
    with pm.Model() as pm_model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=25)
        pm.Poisson("y", pm.math.exp(u), observed=np.arange(25) % 4)
    model = sm.from_pymc(pm_model)
    assert np.array_equal(model.variables["u"].touches[1], np.arange(25))
    with pm.Model() as pm_model:  # its prior is no sum over rows: it is a block like any other
        u = pm.GaussianRandomWalk("u", init_dist=pm.Normal.dist(), shape=5)
        pm.Normal("y", u[np.array([0, 1, 1, 3, 4])], observed=np.arange(5.0))
    assert sm.from_pymc(pm_model).variables["u"].touches is None


def test_rows_that_have_a_prior_in_them_are_no_likelihoods_of_data():
    """Their elpd would be of y and of the effect together; PyMC's is of y alone."""
    rng = np.random.default_rng(4)
    y = rng.poisson(np.exp(1.0 + 0.5 * rng.normal(size=30)))

    def built(potential):
        with pm.Model() as made:
            mu = pm.Normal("mu")
            effect = pm.Normal("effect", mu, 0.5, shape=30 if potential is None else 4)
            rate = pm.math.exp(effect if potential is None else effect[np.arange(30) % 4])
            pm.Poisson("y", rate, observed=y)
            if potential is not None:
                pm.Potential("more", potential(effect))
        model = sm.from_pymc(made)
        return model, sm.sample(model, draws=20, warmup=20, chains=2, seed=1, progress=False)

    for potential, name in ((None, "effect"), (lambda e: -(e**4), "more")):
        model, trace = built(potential)
        assert model.beside == pickle.loads(pickle.dumps(model)).beside == (name,)
        for asked in (sm.loo, lambda m, t: t.log_likelihood(m),
                      lambda m, t: t.to_arviz(log_likelihood=m)):  # fmt: skip
            with pytest.raises(ValueError, match=f"the prior of {name} in them"):
                asked(model, trace)
    model, trace = built(lambda effect: -0.5 * (effect[np.arange(30) % 4] - np.log1p(y)) ** 2)
    assert model.beside == ()  # it says something of each datum
    assert trace.log_likelihood(model).log_likelihood.shape == (2, 20, 30)
