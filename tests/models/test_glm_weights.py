"""Weights of rows in sm.models.glm: whole ones are copies, all of a family's parts have them."""

import pickle

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.runs.backends import pickled
from tests.helpers.family_laws import made
from tests.helpers.marks import slow_but
from tests.helpers.tall import EXACT, Bench

glm = sm.models.glm
SIZE = 240
RNG = np.random.default_rng(3)
X = np.column_stack([np.ones(SIZE), RNG.standard_normal((SIZE, 2))])
WEIGHTS = RNG.integers(0, 4, SIZE)
REAL, COIN = X @ [0.3, -0.5, 0.2] + RNG.standard_normal(SIZE), np.arange(SIZE) % 2
COUNT, OFFSET = RNG.poisson(2.0, SIZE), 0.3 * RNG.standard_normal(SIZE)


def copies(values):
    return np.repeat(values, WEIGHTS, axis=0)


# By name: make(x, y, more), y, more.
FAMILIES = {
    "gaussian": (glm.gaussian, REAL, {}),
    "gaussian, sigma unknown": (lambda x, y, **m: glm.gaussian(x, y, sigma=None, **m), REAL, {}),
    "student_t": (glm.student_t, REAL, {}),
    "student_t, unknown": (lambda x, y, **m: glm.student_t(x, y, sigma=None, **m), REAL, {}),
    "logistic": (glm.logistic, COIN, {}),
    "probit": (glm.probit, COIN, {}),
    "cloglog": (glm.cloglog, COIN, {"offset": OFFSET}),
    "binomial": (glm.binomial, COUNT, {"trials": COUNT + 2}),
    "poisson": (glm.poisson, COUNT, {"exposure": np.exp(OFFSET)}),
    "negative_binomial": (lambda x, y, **m: glm.negative_binomial(x, y, 2.0, **m), COUNT, {}),
    "negative_binomial, unknown": (glm.negative_binomial, COUNT, {}),
    "softmax": (glm.softmax, np.arange(SIZE) % 4, {}),
    "gamma": (lambda x, y, **m: glm.gamma_regression(x, y, 2.0, **m), np.exp(REAL), {}),
    "gamma, shape unknown": (glm.gamma_regression, np.exp(REAL), {}),
    "beta": (glm.beta_regression, 1.0 / (1.0 + np.exp(-REAL)), {}),
    "ordered": (lambda x, y, **m: glm.ordered_logistic(x[:, 1:], y, **m), np.arange(SIZE) % 3, {}),
    "ordered probit": (
        lambda x, y, **m: glm.ordered_probit(x[:, 1:], y, **m), np.arange(SIZE) % 3, {}
    ),
    "weibull": (glm.weibull, np.exp(REAL), {"event": COIN}),
    "log_normal": (glm.log_normal, np.exp(REAL), {"upper": np.exp(REAL) + COIN}),
    "zero_inflated_poisson": (glm.zero_inflated_poisson, COUNT, {}),
    "zero_inflated_negative_binomial": (glm.zero_inflated_negative_binomial, COUNT, {}),
    "hurdle_poisson": (glm.hurdle_poisson, COUNT, {}),
    "hurdle_negative_binomial": (
        lambda x, y, **m: glm.hurdle_negative_binomial(x, y, 2.0, **m), COUNT, {}
    ),
    "hurdle_negative_binomial, unknown": (glm.hurdle_negative_binomial, COUNT, {}),
}  # fmt: skip


def test_all_families_are_here():
    assert {name.partition(",")[0] for name in FAMILIES} | {
        "gamma_regression", "beta_regression", "ordered_logistic", "ordered_probit",
    } >= set(glm.__all__)  # fmt: skip


@pytest.mark.parametrize(
    "name", slow_but(["gaussian", "logistic", "poisson", "student_t", "weibull"], FAMILIES)
)
def test_a_row_of_weight_three_is_three_rows(name):
    """The same posterior, its height with all constants, and derivatives where there are some."""
    make, y, more = FAMILIES[name]
    model = make(X, y, weights=WEIGHTS, **more)
    same = make(copies(X), copies(y), **{k: copies(v) for k, v in more.items()})
    fits = [sm.laplace(m, progress=False) for m in (model, same)]
    np.testing.assert_allclose(fits[0].mean, fits[1].mean, atol=2e-5)
    size = np.diag(fits[1].covariance).max()  # searches end a little apart
    np.testing.assert_allclose(fits[0].covariance, fits[1].covariance, rtol=1e-3, atol=1e-3 * size)
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=5e-3)
    again = pickle.loads(pickled(model))
    assert again.fingerprints() == model.fingerprints()
    assert model.fingerprints() != make(X, y, **more).fingerprints()


@pytest.mark.slow_for("hurdle_poisson", "hurdle_negative_binomial")
@pytest.mark.parametrize("name", [
    "probit", "poisson", "student_t", "hurdle_poisson", "hurdle_negative_binomial",
])  # fmt: skip
def test_bounds_have_the_weights_too(name):
    """Sums of what is known are right, and residuals within three times those bounds of one row."""
    make, y, more = FAMILIES[name]
    model = make(X, y, weights=WEIGHTS, **more)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.proved
    state = model.state(model.ints, model.floats)
    eta = model.predictors.eta(state, model.data, 5)
    plain = make(X, y, **more)
    for part in ("remainder", "derivatives"):
        own, single = (getattr(m.predictors, part)(eta, m.data, 5) for m in (model, plain))
        np.testing.assert_allclose(own, WEIGHTS[5] * np.array(single))
    point = prepared.sums.points[0]
    steps = point + 0.1 * np.random.default_rng(0).standard_normal((6, len(point)))
    bench = Bench(model, control, steps)
    for arm in range(bench.arms):
        assert bench.error(arm) < EXACT


@pytest.mark.slow
def test_weighted_decisions_are_exact():
    """Thinned chains of a survey: as of exact ones, within 5 errors."""
    model, x, y, _ = made("ordered_logistic", 12_000)
    weights = np.random.default_rng(0).gamma(4.0, 0.25, 12_000)
    model = glm.ordered_logistic(x, y, weights=weights)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis(
        ("beta", "cutpoints"), proposal=sm.independence(fit), control=sm.Taylor(fit)
    )
    assert "guarantee: exact" in kernel.describe(model)
    trace = sm.sample(model, kernel, 2_000, 100, chains=2, seed=1, progress=False)
    table = trace.summary()
    mean = np.concatenate([fit.state["beta"], fit.state["cutpoints"]])
    assert np.all(np.abs(table["mean"] - mean) < 0.2 * table["sd"])  # Gaussian, but for 1/sqrt(N)
    off = sm.laplace(glm.ordered_logistic(x, y), progress=False).state["beta"] - fit.state["beta"]
    assert np.abs(off).max() > 1e-3  # they matter


def test_weights_by_a_formula():
    pytest.importorskip("formulaic")
    frame = pd.DataFrame({"age": X[:, 1], "vote": COIN, "weight": WEIGHTS})
    model = glm.logistic("vote ~ age", frame, weights="weight")
    assert np.array_equal(model.data.weights, WEIGHTS)
    given = glm.logistic("vote ~ age", frame, weights=WEIGHTS * 0.5)
    for m in (model, given):
        trace = sm.sample(m, draws=20, chains=1, seed=1, progress=False)
        said = sm.predict(m, trace, data=frame[["age"]].iloc[:4], seed=1, progress=False)
        assert said.values[""].shape == (1, 20, 4)


def test_log_likelihoods_times_weights_are_told_of():
    """ArviZ takes them for those of data, which sm.loo refuses."""
    for make, weights in ((glm.logistic, WEIGHTS), (glm.hurdle_poisson, WEIGHTS), (glm.probit, 1)):
        model = make(X, COIN, weights=weights * np.ones(SIZE))
        kernel = sm.Metropolis(tuple(model.names))
        trace = sm.sample(model, kernel, 20, 20, chains=2, seed=1, progress=False)
        for given in (lambda t, m: t.to_arviz(log_likelihood=m), lambda t, m: t.log_likelihood(m)):
            if weights is WEIGHTS:
                with pytest.warns(UserWarning, match=r"has row weights.*az\.loo and az\.compare"):
                    given(trace, model)
            else:
                given(trace, model)


@pytest.mark.parametrize(("weights", "words"), [
    (-1.0 * WEIGHTS, r"weights\[\d+\] is -\d: give numbers from 0"),
    (WEIGHTS[1:], r"weights has shape \(239,\)"),
    (np.where(np.arange(SIZE) == 3, np.nan, WEIGHTS), r"weights\[3\] is nan"),
    (0.0 * WEIGHTS, "weights are all 0: no row says anything"),
])  # fmt: skip
def test_bad_weights_are_refused(weights, words):
    for make in (glm.logistic, glm.hurdle_poisson):
        with pytest.raises(ValueError, match=words):
            make(X, COIN, weights=weights)
