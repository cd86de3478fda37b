"""The bridge from PyMC: generated functions against PyMC's own, refusals, posteriors."""

import inspect
import os
import pickle
import subprocess
import sys
import types
from functools import cache

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_jets import Jets, obstacle
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.progress import Bar
from tests.helpers.marks import WARNINGS_OF_PYMC
from tests.helpers.models import densities

try:
    import pymc as pm
    import pytensor.tensor as pt
except ImportError:  # then only the tests of the message run
    pm = None

with_pymc = pytest.mark.skipif(pm is None, reason="needs PyMC: pip install 'subsample-mcmc[pymc]'")
pytestmark = WARNINGS_OF_PYMC
N = 60


def data():
    rng = np.random.default_rng(1)
    found = types.SimpleNamespace()
    found.X = rng.standard_normal((N, 3))
    found.x = rng.standard_normal(N)
    found.y = (rng.random(N) < 0.4).astype(int)
    found.count = rng.poisson(3.0, N)
    found.group = rng.integers(5, size=N)
    found.wide = rng.standard_normal((N, 40))
    return found


D = data()


# ------------------------------------------------------------------------------------- models
def logistic():
    beta, a = pm.Normal("beta", 0, 2, shape=3), pm.Normal("a", 0, 3)
    pm.Bernoulli("y", logit_p=a + D.X @ beta, observed=D.y)


def logistic_data():
    X, y = pm.Data("X", D.X), pm.Data("y_data", D.y)
    beta = pm.Normal("beta", 0, 2, shape=3)
    pm.Bernoulli("y", p=pm.math.sigmoid(pm.math.dot(X, beta)), observed=y)


def wide():
    tau = pm.HalfCauchy("tau", 1)
    beta = pm.Normal("beta", 0, 1, shape=40)
    sigma = pm.HalfNormal("sigma", 2)
    pm.Normal("y", pm.math.dot(pm.Data("X", D.wide), beta * tau), sigma, observed=D.x)


def hierarchical():
    mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
    theta = pm.Normal("theta", mu, tau, shape=5)
    pm.Normal("y", theta[D.group], pm.Exponential("sigma", 1), observed=D.x)


def not_centred():
    group = pm.Data("group", D.group)
    mu, tau, z = pm.Normal("mu"), pm.LogNormal("tau"), pm.Normal("z", shape=(5, 2))
    sigma = pm.Uniform("sigma", 0.1, 7.0)
    pm.Normal("y", mu + tau * z[group, 0] + z[group, 1] * D.X[:, 0], sigma, observed=D.x)


def student():
    nu = pm.Gamma("nu", 2, 0.1)
    mean = pm.Normal("a") + pm.Normal("b") * D.X[:, 1] ** 2
    pm.StudentT("y", nu=nu + 1, mu=mean, sigma=pm.HalfStudentT("s", 3, 1), observed=D.x)


def negative_binomial():
    beta = pm.Laplace("beta", 0, 1, shape=3)
    pm.NegativeBinomial(
        "y", mu=pm.math.exp(D.X @ beta), alpha=pm.HalfCauchy("alpha", 2), observed=D.count
    )


def poisson():
    rate = pm.math.exp(pm.Normal("a") + 0.3 * D.x)
    pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 2, 2), mu=rate, observed=D.count)


def shared_discrete():
    """Components of which one, k, is shifted; s in 0, 1; a number of trials."""
    k, s = pm.Categorical("k", p=[0.2, 0.3, 0.5]), pm.Bernoulli("s", 0.3)
    mu = pm.Normal("mu", 0, 3, shape=3)
    m = pm.Binomial("m", 4, 0.5)
    pm.Normal("y", mu[k] + s * D.x + m, 1.0 + 0.5 * k, observed=D.X[:, 0])


def marginal_mixture():
    w = pm.Dirichlet("w", np.array([1.0, 2.0, 3.0]))
    mu = pm.Normal("mu", 0, 3, shape=3)
    pm.NormalMixture("y", w, mu, sigma=pm.HalfNormal("sigma", 1, shape=3), observed=D.x)


def mixture_of_two():
    w = pm.Dirichlet("w", np.ones(2))
    parts = [pm.Normal.dist(pm.Normal("mu"), 1.0), pm.StudentT.dist(4.0, mu=1.0, sigma=2.0)]
    pm.Mixture("y", w=w, comp_dists=parts, observed=D.x)


def change_point():
    tau = pm.DiscreteUniform("tau", 5, N - 1)
    a, b = pm.Exponential("a", 1), pm.Exponential("b", 1)
    pm.Poisson("y", pm.math.switch(np.arange(N) < tau, a, b), observed=D.count)


def softmax():
    beta = pm.Normal("beta", shape=(3, 4))
    pm.Categorical("y", logit_p=D.X @ beta, observed=D.count % 4)


def ordinal():
    """Cut points made of positive differences."""
    cuts = pt.concatenate([pt.zeros(1), pt.cumsum(pm.HalfNormal("steps", 1, shape=2))])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * D.x, cutpoints=cuts, observed=D.count % 4)


def two_responses():
    a, b = pm.Normal("a"), pm.HalfNormal("b")
    pm.Normal("y", a, b, observed=D.X)
    pm.Gamma("t", 2.0, b, observed=np.exp(D.x))
    pm.Potential("more", -pt.abs(a) * D.x**2)
    pm.Potential("prior", -((a - b) ** 2))


def censored():
    normal = pm.Normal.dist(pm.Normal("mu"), pm.HalfNormal("s"))
    pm.Censored("y", normal, lower=-1.0, upper=1.0, observed=np.clip(D.x, -1.0, 1.0))


def steps():
    """Neighbours of a long vector of parameters, and a matrix whose columns are the rows."""
    f = pm.Normal("f", shape=N + 1)
    mean = f[1:] - f[:-1] + pm.math.dot(pm.Normal("b", shape=3), pm.Data("XT", D.X.T))
    pm.Normal("y", mean, 3.0, observed=D.x)


def latent():
    """A label per row, which races see one row of."""
    w, mu = pm.Dirichlet("w", np.ones(3)), pm.Normal("mu", 0, 3, shape=3)
    z = pm.Categorical("z", p=w, shape=N)
    pm.Normal("y", mu[z], 1.0, observed=D.x)


def counted_from_the_end():
    """Places before the first of what is joined, sliced or stacked, most of them rare."""
    a, z = pm.Normal("a", shape=3), pm.DiscreteUniform("z", 0, 9, shape=2)
    group = D.group % 3
    group[[7, 41]] = -1
    mean = pt.concatenate([a, pt.zeros(1)])[group] + a[1:][-group % 2 - 1]
    pm.Normal("y", mean + pt.exp(a)[1:][z % 4 % 3 - 1].sum() * D.x, 1.0, observed=D.x)


def counted_truths():
    z, b = pm.Bernoulli("z", 0.5, shape=3), pm.Normal("b", shape=30)
    pm.Normal("y", (pt.eq(z, 1).sum() + pt.sum(b > 0.5)) * D.x, 1.0, observed=D.x)


def joined_rows():
    """Rows that see the one before, and first rows that are other ones than the rest."""
    a, b = pm.Normal("a"), pm.Normal("b")
    few = pt.exp(b * D.x[:20])
    joined = pt.concatenate([few + 1.0 / (1.0 + few), b + pt.zeros(N - 20)])
    pm.Normal("y", pt.roll(a * pt.as_tensor(D.x), 1) + joined, 1.0, observed=D.x)


MODELS = [
    counted_from_the_end, counted_truths, joined_rows,
    logistic, logistic_data, wide, hierarchical, not_centred, student, negative_binomial, poisson,
    shared_discrete, marginal_mixture, mixture_of_two, change_point, softmax, ordinal,
    two_responses, censored, steps, latent,
]  # fmt: skip


@cache
def built(make):
    """(PyMC model, the same with values on their natural scale, ours)."""
    from pymc.model.transform.conditioning import remove_value_transforms

    with pm.Model() as model:
        make()
    return model, remove_value_transforms(model), sm.from_pymc(model)


def somewhere(model, rng):
    """Values of all blocks, at random."""
    found = {}
    for name, v in model.variables.items():
        shape = v.block.shape
        if v.block.discrete:
            found[name] = rng.integers(v.support, size=shape)
        elif v.constraint == sm.simplex:
            found[name] = rng.dirichlet(np.ones(shape[0]))
        elif v.constraint == sm.positive:
            found[name] = np.exp(rng.normal(0.0, 0.5, shape))
        elif v.constraint.high < np.inf:
            found[name] = rng.uniform(v.constraint.low, v.constraint.high, shape)
        else:
            found[name] = rng.normal(0.0, 0.7, shape)
    return found


@with_pymc
@pytest.mark.parametrize("make", MODELS)
def test_values_are_those_of_pymc(make, rng):
    _, natural, model = built(make)
    local = [rv for rv in natural.free_RVs if rv.name == "z" and make is latent]
    total = natural.compile_logp(jacobian=False, mode="FAST_COMPILE")
    terms = [*natural.observed_RVs, *(p for p in natural.potentials if p.type.ndim), *local]
    rows = natural.compile_logp(vars=terms, sum=False, jacobian=False, mode="FAST_COMPILE")
    for _ in range(3):
        point = somewhere(model, rng)
        given = {p.name: np.asarray(point[p.block] + p.shift) for p in model.parts}
        each, prior = densities(model, point)
        wanted = sum(np.asarray(part).reshape(N, -1).sum(axis=1) for part in rows(given))
        np.testing.assert_allclose(each, wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(each.sum() + prior, total(given), rtol=1e-9)
        assert np.ptp(each) > 0.0


@with_pymc
@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_compiled_functions_give_the_same(make, rng):
    model = built(make)[2]
    point = somewhere(model, rng)
    each, prior = densities(model, point)
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, point)
    state = model.state(ints, floats)
    compiled = {name: jit(getattr(model, name), user=True)
                for name in ("log_likelihood", "prepare", "log_prior")
                if getattr(model, name) is not None}  # fmt: skip
    made = (compiled["prepare"](state, model.data),) if "prepare" in compiled else ()
    found = [compiled["log_likelihood"](state, model.data, np.uint64(n), *made) for n in range(N)]
    np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(compiled["log_prior"](state), prior, rtol=1e-12)


@with_pymc
@pytest.mark.parametrize("make", [student, negative_binomial, hierarchical, marginal_mixture])
def test_derivatives_by_jets_are_those_of_pytensor(make, rng):
    """Gradients of the log likelihood, through what prepare makes."""
    _, natural, model = built(make)
    assert obstacle(model) == ""
    terms = [*natural.observed_RVs, *(p for p in natural.potentials if p.type.ndim)]
    names = [p.name for p in model.parts]
    values = [natural.rvs_to_values[natural[name]] for name in names]
    slopes = pt.grad(natural.logp(vars=terms, sum=True, jacobian=False), values,
                     disconnected_inputs="ignore")  # fmt: skip
    known = natural.compile_fn(slopes, inputs=values, point_fn=False, mode="FAST_COMPILE",
                               on_unused_input="ignore")  # fmt: skip
    for _ in range(2):
        point = somewhere(model, rng)
        ints, floats = model.ints.copy(), model.floats.copy()
        model.set_state(ints, floats, point)
        keep = Keep(np.zeros(0, dtype=np.int64))
        found = Jets(model, 3).sums(ints, floats, keep, Bar(delay=1e9))[1]
        wanted = known(*(np.asarray(point[p.block] + p.shift) for p in model.parts))
        for part, want in zip(model.parts, wanted, strict=True):
            block = model.variables[part.block].block
            own = found[block.start : block.start + block.length]
            np.testing.assert_allclose(own, np.ravel(want), rtol=1e-9, atol=1e-9)


@with_pymc
@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_every_model_has_derivatives_by_jets(make):
    assert obstacle(built(make)[2]) == ""


@with_pymc
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "student"])
def test_models_with_a_rare_level_are_decided_exactly(kind):
    """Their derivatives are bounded: softplus has no branch, and a square is known as one."""
    rng, size = np.random.default_rng(0), 12_000
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2)), np.arange(size) < 17])
    with pm.Model() as model:
        eta = pm.math.dot(pm.Data("x", x * 1.0), pm.Normal("beta", 0.0, 2.5, shape=4))
        if kind == "logistic":
            y = (rng.random(size) < 0.4) & ((np.arange(size) > 16) | (np.arange(size) == 3))
            pm.Bernoulli("y", logit_p=eta, observed=y.astype(int))
        else:
            pm.StudentT("y", nu=4.0, mu=eta, sigma=1.0, observed=rng.standard_t(4.0, size))
    found = sm.from_pymc(model)
    assert "bounds of it: by intervals" in str(sm.derivatives(found))
    kernel = sm.Metropolis("beta", control=sm.Taylor(sm.laplace(found, progress=False)))
    assert "Thinned()" in kernel.describe(found)


@with_pymc
def test_a_new_axis_in_an_index_is_refused_or_right():
    try:  # pytensor 3 has made a reshape of it, which is compared with PyMC as all models are
        built(new_axis)
    except ValueError as error:
        if "np.newaxis stands in an index" not in str(error):
            raise


@with_pymc
def test_nan_is_not_lost():
    with pm.Model() as pm_model:
        a = pm.Normal("a", 3.0, 1.0)
        pm.Normal("y", pt.minimum(1.0, pt.log(a)) * D.x + pt.maximum(-9.0, a), 1.0, observed=D.x)
    each, _ = densities(sm.from_pymc(pm_model), {"a": np.array(-1.0)})
    assert np.isnan(each).all()  # as in PyMC: a point that is rejected


@with_pymc
def test_initial_values_and_names_that_are_no_python():
    with pm.Model() as pm_model:
        scale = pm.HalfNormal("lambda", initval=2.0)
        pm.Normal("y", 0.0, scale, observed=D.x)
    before = dict(pm_model.rvs_to_initial_values)
    model = sm.from_pymc(pm_model)
    assert model.names == ("lambda_",) and model.floats.tolist() == [2.0]
    assert pm_model.rvs_to_initial_values == before


@with_pymc
def test_what_pymc_stabilises_is_compared_with_stabilised_values():
    with pm.Model() as pm_model:
        m = pm.Normal("m", initval=1.0)
        pm.Bernoulli("y", p=1.0 / (1.0 + pt.exp(-900.0 * m * D.x)), observed=D.y)
    each, _ = densities(sm.from_pymc(pm_model), {"m": np.array(1.0)})
    assert np.isfinite(each).all() and each.min() < -745.0  # where exp alone is 0


@with_pymc
def test_names_constraints_and_supports():
    _, _, model = built(shared_discrete)
    supports = {name: v.support for name, v in model.variables.items()}
    assert supports == {"k": 3, "s": 2, "mu": 0, "m": 5}
    assert built(change_point)[2].variables["tau_minus_5"].support == N - 5
    marginal = built(marginal_mixture)[2].variables
    assert marginal["w"].constraint == sm.simplex and marginal["sigma"].constraint == sm.positive
    assert built(not_centred)[2].variables["sigma"].constraint == sm.interval(0.1, 7.0)
    assert built(poisson)[2].variables["psi"].constraint == sm.interval(0.0, 1.0)
    assert built(not_centred)[2].variables["z"].block.shape == (5, 2)
    touches = built(latent)[2].variables["z"].touches
    assert np.array_equal(touches[0], np.arange(N + 1)) and np.array_equal(touches[1], np.arange(N))


@with_pymc
def test_data_are_columns_and_what_rows_share_is_prepared():
    _, _, model = built(logistic_data)
    assert model.data._fields == ("X_0", "X_1", "X_2", "y_data")
    assert model.prepare is None and "exp" not in model.source.partition("def log_prior")[0]
    assert built(wide)[2].data.X.shape == (N, 40)  # read in a loop
    assert "log(" not in built(hierarchical)[2].source.partition("def prepare")[0]
    X, y = (built(logistic_data)[0][name] for name in ("X", "y_data"))
    before = densities(model, {"beta": np.ones(3)})[0]
    try:
        X.set_value(np.zeros((N, 3)))  # later changes are not seen
        assert np.array_equal(densities(model, {"beta": np.ones(3)})[0], before)
    finally:
        X.set_value(D.X)
    assert y.get_value().shape == (N,)


@with_pymc
def test_rows_are_checked():
    pm_model = built(logistic_data)[0]
    assert sm.from_pymc(pm_model, rows=["X", "y_data"]).source == built(logistic_data)[2].source
    with pytest.raises(ValueError, match=r"rows=\['X'\]: 'y_data' is read once per row, too"):
        sm.from_pymc(pm_model, rows=["X"])
    with pytest.raises(ValueError, match="'Z' is not among"):
        sm.from_pymc(pm_model, rows=["Z"])


# ----------------------------------------------------------------------------------- refusals
def multivariate():
    pm.MvNormal("y", np.zeros(N), np.eye(N) * pm.HalfNormal("s"), observed=D.x)


def across_rows():
    a = pm.Normal("a")
    pm.Normal("y", a * pt.sum(pt.exp(a * D.x)), 1.0, observed=D.x)


def unbounded():
    pm.Normal("y", pm.Poisson("k", 3.0), observed=D.x)


def label_of_another_row():
    z = pm.Bernoulli("z", 0.5, shape=N)
    pm.Normal("y", z[D.group], observed=D.x)


def autoregression_of_rows():
    """Of more lags than priors of sites may read."""
    rho, first = np.full(12, 0.05), pm.Normal.dist(shape=12)
    u = pm.AR("u", rho=rho, sigma=1.0, init_dist=first, steps=N - 12)
    pm.Normal("y", u, observed=D.x)


def moving_support():
    k = pm.Binomial("k", pm.Categorical("n", p=[0.5, 0.5]), 0.5)
    pm.Normal("y", k * D.x, 1.0, observed=D.x)


def number_of_words():
    pm.Normal("y", pm.Normal("a"), observed=1.0)


def no_data():
    pm.Normal("a")


def no_parameter():
    pm.Normal("a")
    pm.Normal("y", 0.0, observed=D.x)


def bits():
    z = pm.DiscreteUniform("z", 0, 5)
    pm.Normal("y", pt.bitwise_and(z, 1) * D.x, 1.0, observed=D.x)


def new_axis():
    a = pm.Normal("a", shape=(5, 3))
    pm.Normal("y", a[D.group, None, 0][:, 0], 1.0, observed=D.x)


def odd_function():
    pm.Normal("y", pt.gammainc(pm.HalfNormal("a"), 1.0), observed=D.x)


def sum_of_all():
    a = pm.Normal("a")
    pm.Normal("y", a, observed=D.x)
    pm.Potential("all", pt.log(pt.sum(pt.exp(a * D.x))))


def potential_of_a_batch():
    x, y = pm.Minibatch(D.x, D.x + 1.0, batch_size=6)
    pm.Potential("fits", (N / 6) * pm.logp(pm.Normal.dist(pm.Normal("a") * x), y))


def missing_counts():
    y = np.ma.masked_array(np.arange(N), mask=np.arange(N) % 30 == 0)
    with pytest.warns(pm.exceptions.ImputationWarning):
        pm.Poisson("y", pm.HalfNormal("a"), observed=y)


@with_pymc
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (multivariate, "from_pymc, y: .*sm.Model"),
        (across_rows, "from_pymc, y: one row's log likelihood reads other rows .*sum over rows"),
        (unbounded, r"k is discrete and no Categorical, .* \(Poisson\)"),
        (moving_support, "n of k depends on n: the set of values"),
        (autoregression_of_rows, "u has a component for each of 60 rows"),
        (label_of_another_row, r"z has a value for each of 60 rows.*pm.Mixture"),
        (number_of_words, "y: it is one observed number"),
        (no_data, "no observed variable"),
        (no_parameter, "the likelihood of y has no parameters"),
        (bits, "y: bits of whole numbers have no translation"),
        (odd_function, "y: the function gammainc of numbers has no translation"),
        (potential_of_a_batch, "fits: this potential is made of pm.Minibatch.*total_size=."),
        (missing_counts, "y_unobserved are missing outcomes.*Drop rows without an outcome"),
        (sum_of_all, "all: this potential is one number made of data row by row.*without .sum"),
    ],
)
def test_what_is_refused(make, message):
    with pm.Model() as model:
        make()
    with pytest.raises(ValueError, match=message):
        sm.from_pymc(model)


@with_pymc
def test_a_wrong_translation_never_runs(monkeypatch):
    from subsample_mcmc.pymc import graph

    monkeypatch.setitem(graph.OPS, "Sub", "add")
    with pm.Model() as model:
        hierarchical()
    with pytest.raises(ValueError, match=r"the log likelihood of row .* as translated and .* PyMC"):
        sm.from_pymc(model)


# -------------------------------------------------------------------------------- without PyMC
WITHOUT = """
import sys
sys.modules["pymc"] = None  # as if it were not installed
import subsample_mcmc as sm
for use in (lambda: sm.from_pymc(1), lambda: sm.pymc.RacingGibbs, lambda: sm.pymc.RacingMetropolis):
    try:
        use()
    except ImportError as error:
        print(error)
"""


@pytest.mark.slow
def test_without_pymc_the_package_works_and_says_what_is_missing():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("pip install 'subsample-mcmc[pymc]'") == 3


@pytest.mark.slow
def test_pymc_is_not_imported_before_it_is_used():
    code = (
        "import sys, subsample_mcmc; sys.exit('pymc' in sys.modules or 'pytensor' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert not hasattr(sm.pymc, "RacingHMC")


# ---------------------------------------------------------------------- digests, stores, copies
PRINTED = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.pymc import test_pymc
for make in test_pymc.FINGERPRINTED:
    print(sorted(test_pymc.built(make)[2].fingerprints().items()))
"""
FINGERPRINTED = negative_binomial, marginal_mixture, two_responses


@with_pymc
@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process(request):
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # sets have another order there
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRINTED, str(request.config.rootpath)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    here = [sorted(built(make)[2].fingerprints().items()) for make in FINGERPRINTED]
    assert done.stdout.splitlines() == [str(one) for one in here]
    assert done.stdout.count("log_likelihood") == 3


@with_pymc
def test_models_pickle_and_their_source_can_be_read():
    for make in (marginal_mixture, latent):
        model = built(make)[2]
        again = pickle.loads(pickle.dumps(model))
        assert again.fingerprints() == model.fingerprints()
        assert again.names == model.names and again.parts == model.parts
        assert inspect.getsource(again.log_likelihood) in again.source


@with_pymc
@pytest.mark.slow
def test_a_stored_run_goes_on_with_a_model_made_again(tmp_path):
    model, kernel = built(logistic_data)[2], sm.Metropolis("beta", selector=sm.Exact())
    options = {"warmup": 20, "chains": 2, "seed": 1, "progress": False}
    whole = sm.sample(model, kernel, 60, **options)
    sm.sample(model, kernel, 30, **options, store=tmp_path / "run.nc")
    again = sm.from_pymc(built(logistic_data)[0])
    resumed = sm.resume(tmp_path / "run.nc", again, kernel, draws=60, progress=False)
    assert np.array_equal(resumed.draws["beta"], whole.draws["beta"])
    with pm.Model() as pm_model:
        pm.Bernoulli("y", logit_p=D.X @ pm.Normal("beta", 0, 3, shape=3), observed=D.y)
    other = sm.from_pymc(pm_model)
    with pytest.raises(ValueError, match=r"cannot be resumed: changed .*log_prior"):
        sm.resume(tmp_path / "run.nc", other, kernel, draws=90, progress=False)


# --------------------------------------------------------------------------------- posteriors
SHIFTS, PRIOR = np.array([0.0, 0.06, 0.12]), np.array([0.3, 0.3, 0.4])
Y = np.random.default_rng(7).normal(0.35, 1.0, 300)


def shifted():
    """A shared discrete k and a mean mu with prior Normal(0, .3^2)."""
    k, mu = pm.Categorical("k", p=PRIOR), pm.Normal("mu", 0.0, 0.3)
    pm.Normal("y", mu + pt.as_tensor(SHIFTS)[k], 1.0, observed=Y)


def enumerated():
    """(probabilities of k, posterior mean of mu): mu is integrated out."""
    variance = 1.0 / (len(Y) + 1.0 / 0.3**2)
    means = variance * (Y[:, None] - SHIFTS).sum(axis=0)
    logs = (
        np.log(PRIOR) + 0.5 * means**2 / variance - 0.5 * ((Y[:, None] - SHIFTS) ** 2).sum(axis=0)
    )
    p = np.exp(logs - logs.max())
    p /= p.sum()
    return p, float(p @ means)


def error_of(draws):
    """The Monte Carlo error of the mean of draws (chains, draws)."""
    import arviz

    ess = float(arviz.ess(np.asarray(draws, dtype=float), method="mean"))
    assert ess > 200, f"only {ess:.0f} effective draws"
    return float(np.std(draws)) / ess**0.5


def near(draws, truth, known_to=0.0):
    """Is the mean of draws right, to 5 errors: a false alarm in some 10^5, as ess is estimated."""
    error = float(np.hypot(error_of(draws), known_to))
    assert abs(float(np.mean(draws)) - truth) < 5.0 * error, (np.mean(draws), truth, error)


@with_pymc
@pytest.mark.slow
def test_a_shared_discrete_variable_has_its_enumerated_posterior():
    p, mean = enumerated()
    assert p.min() > 0.05
    model = built(shifted)[2]
    kernel = sm.Gibbs("k") >> sm.Metropolis("mu", scale=0.08)
    trace = sm.sample(model, kernel, 4000, 500, 4, seed=3, progress=False, cores=1)
    for k in range(3):
        near(trace.draws["k"] == k, p[k])
    near(trace.draws["mu"], mean)


@with_pymc
@pytest.mark.slow
def test_taylor_races_agree_with_nuts():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(5000), rng.standard_normal(5000)])
    y = (rng.random(5000) < 1.0 / (1.0 + np.exp(0.5 - X[:, 1]))).astype(int)
    with pm.Model() as pm_model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=pt.as_tensor(X) @ beta, observed=y)
        nuts = pm.sample(1000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    model = sm.from_pymc(pm_model)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.7), control=sm.Taylor(fit))
    trace = sm.sample(model, kernel, 5000, 100, 2, seed=1, start=[fit.state] * 2, progress=False)
    read = trace.stats["beta"]
    assert read["pulls"].sum() < 0.05 * read["everything"].sum()
    wanted = nuts.posterior["beta"].to_numpy()
    for j in range(2):
        near(trace.draws["beta"][..., j], wanted[..., j].mean(), error_of(wanted[..., j]))
        ratio = trace.draws["beta"][..., j].std() / wanted[..., j].std()
        assert 0.85 < ratio < 1.15  # sds of 1,000 and more effective draws: 2% each


def by_pymc(step, draws):
    with built(shifted)[0]:
        return pm.sample(draws, tune=500, chains=2, cores=1, random_seed=2, progressbar=False,
                         step=step(), compute_convergence_checks=False)  # fmt: skip


@with_pymc
@pytest.mark.slow
@pytest.mark.versions
def test_racing_gibbs_beside_nuts():
    p, mean = enumerated()
    found = by_pymc(lambda: [sm.pymc.RacingGibbs(["k"], translated=built(shifted)[2])], 2000)
    for k in range(3):
        near(found.posterior["k"] == k, p[k])
    near(found.posterior["mu"], mean)
    assert found.sample_stats["rows"].dtype == np.int64
    assert 0.0 < found.sample_stats["share"].mean() <= 1.0


@with_pymc
@pytest.mark.slow
def test_both_steps_without_nuts():
    p, mean = enumerated()
    found = by_pymc(
        lambda: [sm.pymc.RacingGibbs(["k"]), sm.pymc.RacingMetropolis(["mu"], scale=0.05)], 6000
    )
    for k in range(3):
        near(found.posterior["k"] == k, p[k])
    near(found.posterior["mu"], mean)
    assert 0.05 < found.sample_stats["accepted"].mean() < 0.95


@with_pymc
@pytest.mark.slow
def test_racing_metropolis_alone_moves_what_is_transformed():
    """Sigma, for which PyMC has sigma_log__: against a sum over a grid."""
    import cloudpickle
    from scipy import stats

    with pm.Model():
        pm.Normal("y", 0.0, pm.HalfNormal("sigma", 1.0), observed=Y)
        step = sm.pymc.RacingMetropolis(["sigma"])
        cloudpickle.loads(cloudpickle.dumps(step))  # as it goes to other processes
        found = pm.sample(4000, tune=500, chains=2, cores=1, random_seed=4, step=step,
                          progressbar=False, compute_convergence_checks=False)  # fmt: skip
    grid = np.linspace(0.8, 1.4, 4001)
    logs = stats.norm.logpdf(Y[:, None], 0.0, grid).sum(axis=0) + stats.halfnorm.logpdf(grid)
    p = np.exp(logs - logs.max())
    near(found.posterior["sigma"], float(grid @ p / p.sum()))


@with_pymc
def test_steps_refuse_what_they_cannot_move():
    with built(shifted)[0]:
        with pytest.raises(TypeError, match="translated"):
            sm.pymc.RacingGibbs(["k"], translated=3)
        with pytest.raises(ValueError, match="the block is continuous"):
            sm.pymc.RacingGibbs(["mu"], translated=built(shifted)[2])
        with pytest.raises(ValueError, match="a schedule of temperatures counts the iterations"):
            sm.pymc.RacingGibbs(["k"], temperature=np.linspace(5.0, 1.0, 50))
    assert sm.pymc.RacingGibbs.competence(None, False).name == "INCOMPATIBLE"


def short(step, model):
    with model:
        return pm.sample(100, tune=50, chains=1, cores=1, random_seed=1, progressbar=False,
                         step=[step], compute_convergence_checks=False)  # fmt: skip


@with_pymc
def test_steps_refuse_data_that_were_set_since():
    """They hold copies: PyMC's own steps beside them would see the new data."""
    with pm.Model() as model:
        data = pm.Data("d", Y)
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.Normal("y", mu, 1.0, observed=data)
        step = sm.pymc.RacingMetropolis([mu])
        first = short(step, model).posterior["mu"]
        step.stop_tuning()
        # Once more, with the same data: it tunes again, and what it learnt and drew is forgotten.
        assert np.array_equal(short(step, model).posterior["mu"], first)
        pm.set_data({"d": Y + 3.0})
        with pytest.raises(ValueError, match="data 'd' have changed since this step was made"):
            short(step, model)
        with pytest.raises(ValueError, match="translated= is of another model, or of other data"):
            sm.pymc.RacingMetropolis([mu], translated=step.translated)
        anew = short(sm.pymc.RacingMetropolis([mu]), model).posterior["mu"]
    assert float(anew[:, 50:].mean()) > 2.0


@with_pymc
def test_steps_refuse_the_translation_of_another_model():
    with pm.Model() as other:
        pm.Normal("y", pm.Normal("mu", 5.0, 0.01), 1.0, observed=Y)
    wrong = sm.from_pymc(other)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 10.0), pm.HalfNormal("s"), observed=Y)
    with pytest.raises(ValueError, match=r"translated= is of another model"):
        sm.pymc.RacingMetropolis(["mu"], model=model, translated=wrong)


@with_pymc
def test_steps_take_variables_as_those_of_pymc_do():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        k = pm.Bernoulli("k", 0.5)
        y = pm.Normal("y", mu + 0.1 * k, 1.0, observed=Y)
        for given in (mu, "mu", [mu], ["mu", mu], None):
            assert [v.name for v in sm.pymc.RacingMetropolis(given).vars] == ["mu"]
        assert [v.name for v in sm.pymc.RacingGibbs().vars] == ["k"]
        for given in ("nope", [y], ["y"]):
            with pytest.raises(ValueError, match=r"is no free variable of the model, which has mu"):
                sm.pymc.RacingMetropolis(given, model=model)


@with_pymc
def test_the_whole_part_of_a_number_has_a_range_of_its_own():
    """Of .5 to 4.7 it may be 0, where the start is nowhere near."""
    import pytensor.tensor as pt

    from subsample_mcmc.pymc import checking

    with pm.Model() as model:
        u, a = pm.Uniform("u", 0.5, 4.7), pm.Normal("a", 3.0, 1.0)
        pm.Normal("y", pt.switch(pt.cast(u, "int64") > 0, a, -a), 1.0, observed=Y)
    made = sm.from_pymc(model)
    point = {"u": np.array(0.7), "a": np.array(2.0)}
    found, _ = checking.ours(made, point, np.arange(made.size))
    wanted = -0.5 * (Y + 2.0) ** 2 - 0.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


@with_pymc
def test_logarithms_of_small_integers_are_those_of_single_precision():
    """PyMC's own: log(29 - 0 + 1) of eight bits. No reason to refuse a change point."""
    counts = np.random.default_rng(3).poisson(3, size=30)
    with pm.Model() as model:
        k, mu = pm.DiscreteUniform("k", 0, 29), pm.Exponential("mu", 1.0, shape=2)
        pm.Poisson("y", pm.math.switch(np.arange(30) < k, mu[0], mu[1]), observed=counts)
    assert sm.from_pymc(model).variables["k"].support == 30


@with_pymc
def test_transforms_are_those_of_pymc(rng):
    """Each block's coordinates in PyMC, there and back."""
    for make in (marginal_mixture, not_centred, poisson, change_point):
        pm_model, _, model = built(make)
        start = pm_model.initial_point()
        point = {k: v + 0.3 * rng.standard_normal(v.shape) if v.dtype.kind == "f" else v
                 for k, v in start.items()}  # fmt: skip
        names = [p.name for p in model.parts]
        values = pm_model.compile_fn(
            pm_model.replace_rvs_by_values([pm_model[n] for n in names]), mode="FAST_COMPILE"
        )(point)
        for part, value in zip(model.parts, values, strict=True):
            ours = part.natural(point[part.value_name])
            np.testing.assert_allclose(ours + part.shift, value, rtol=1e-12)
            back = part.value(ours)
            np.testing.assert_allclose(back, point[part.value_name], rtol=1e-9, atol=1e-12)
