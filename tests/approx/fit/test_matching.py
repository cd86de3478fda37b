"""Fits with the posterior's own moments: against Gamma posteriors in coordinates of all kinds.

Errors are those that the importance sampler's effective draws state; each test cries wolf with
probability 1e-6 under the central limit theorem.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import importance as matching
from subsample_mcmc.target.constraints import COORDINATES, to_free
from tests.helpers.laws import ALARM

is_free = getattr(to_free, "py_func", to_free)
SEEDS = range(8)


# ------------------------------------------------- exponential data with one rate, or several, each
def eta(state, data, n):
    return state.theta[n % (data.first if state.q[0] == 0 else data.second)]


def factor(e, data, n):
    return sm.log(e) - e * data.y[n]


def derivatives(e, data, n):
    return 1.0 / e - data.y[n], -1.0 / (e * e), 2.0 / (e * e * e)


def prior(state):
    value = 0.0
    for j in range(data_lengths(state.q[0])):
        value -= state.theta[j]
    return value


def data_lengths(q):
    return 3 if q == 0 else 1


def rates(coordinates, size, models=1) -> sm.Model:
    """Three rates; with two models, the second has one."""
    y = np.random.default_rng(7).exponential(size=size) / 3.0
    return sm.Model(
        sm.Predictors(eta, factor, derivatives), {"y": y, "first": 3, "second": 1},
        {"q": 0, "theta": np.full(3, 2.0)}, prior, support={"q": models},
        constraints={"theta": sm.positive(coordinates)},
        lengths={"theta": ("q", (3, 1)[:models])},
    )  # fmt: skip


def laws(model, q=0):
    """The posteriors of the rates, and the log evidence."""
    y, m = model.data.y, data_lengths(q)
    sums, counts = (np.array([f(y[j::m]) for j in range(m)]) for f in (np.sum, np.size))
    evidence = (gammaln(1 + counts) - (1 + counts) * np.log1p(sums)).sum()
    return stats.gamma(1 + counts, scale=1.0 / (1.0 + sums)), float(evidence)


def free(kind, x):
    u = np.zeros(1)
    is_free(kind, 0.0, np.inf, np.array([x]), u)
    return u[0]


def known(law, coordinates):
    """Mean, variance and kurtosis of the free coordinates, by quadrature: (3, rates)."""
    kind, found = COORDINATES[coordinates], []
    for j in range(len(law.mean())):
        own = stats.gamma(law.args[0][j], scale=law.kwds["scale"][j])

        def moment(f, own=own):
            limits = own.ppf(1e-14), own.isf(1e-14)
            return integrate.quad(lambda x: f(free(kind, x)) * own.pdf(x), *limits, limit=200)[0]

        mean = moment(lambda u: u)
        variance = moment(lambda u, m=mean: (u - m) ** 2)
        found.append((mean, variance, moment(lambda u, m=mean: (u - m) ** 4) / variance**2))
    return np.array(found).T


def found(fit, control=None, draws=4000):
    """Matched fits of several seeds, and what their errors are divided by: effective draws."""
    fits, effective = [], []
    for seed in SEEDS:
        fits.append(fit.matched(control=control, draws=draws, seed=seed))
        made = matching.moments(fit.coordinates, fit.mean, fit.factor, control, draws,
                                np.random.default_rng(seed))  # fmt: skip
        effective.append(made.effective)
    return fits, np.array(effective)


def agree(fits, effective, law, evidence, coordinates, draws=4000):
    """Averages over seeds, which are independent: moments and evidence are the posterior's."""
    mean, variance, kurtosis = known(law, coordinates)
    sd, total = np.sqrt(variance), effective.sum()
    far = stats.norm.isf(ALARM / 2 / (2 * len(mean) ** 2 + 1))
    weights = effective / total
    means = weights @ np.array([fit.mean for fit in fits])
    assert np.all(np.abs(means - mean) < far * sd / np.sqrt(total)), (means, mean)
    covariance = np.tensordot(weights, [fit.covariance for fit in fits], 1) / 1.1
    # The mean is the draws' own: a part 1 / effective of the variance is missing.
    ratio = np.diag(covariance) / variance - 1.0
    assert np.all(np.abs(ratio) < far * np.sqrt((kurtosis - 1.0) / total) + 1.0 / effective.min())
    other = covariance / np.outer(sd, sd) - np.diag(np.diag(covariance) / variance)
    assert np.all(np.abs(other) < far / np.sqrt(total))
    error = np.sqrt(np.mean(draws / effective - 1.0) / draws / len(fits)) + 1e-9
    logs = np.array([fit.log_evidence for fit in fits])
    assert abs(logs.mean() - evidence) < far * error, (logs, evidence, error)


@pytest.mark.slow_for("log")
@pytest.mark.parametrize("coordinates", ["log", "softplus", "squareroot", "cuberoot"])
def test_moments_and_evidence(coordinates):
    """Of a posterior that is not Gaussian there: the mode and its curvature are elsewhere."""
    model = rates(coordinates, 15)
    fit = sm.laplace(model, "theta", progress=False)
    law, evidence = laws(model)
    fits, effective = found(fit)
    assert np.all(effective > 2000)
    agree(fits, effective, law, evidence, coordinates)
    for one in fits:
        assert np.array_equal(one.point, fit.point) and one.log_density == fit.log_density
        np.testing.assert_allclose(one.factor @ one.factor.T, one.covariance, atol=1e-14)
    with pytest.raises(AssertionError):  # the fit itself would not pass
        agree([fit] * len(fits), effective, law, evidence, coordinates)


@pytest.mark.parametrize(("off", "narrow"), [(1.0, 0.7), (2.0, 0.5)])
def test_from_a_poor_fit(off, narrow):
    """Standard deviations off, and too narrow: rounds lead to the same posterior."""
    model = rates("squareroot", 15)
    fit = sm.laplace(model, "theta", progress=False)
    sd = np.sqrt(np.diag(fit.covariance))
    poor = replace(fit, mean=fit.mean + off * sd, covariance=narrow**2 * fit.covariance,
                   factor=narrow * fit.factor)  # fmt: skip
    fits, effective = found(poor)
    agree(fits, effective, *laws(model), "squareroot")


def test_inflation_and_seeds():
    model = rates("squareroot", 15)
    fit = sm.laplace(model, "theta", progress=False)
    one, two = fit.matched(inflate=1.0), fit.matched(inflate=2.0)
    np.testing.assert_allclose(two.covariance, 2.0 * one.covariance, rtol=1e-12)
    assert np.array_equal(one.mean, two.mean) and one.log_evidence == two.log_evidence
    assert np.array_equal(fit.matched(seed=3).mean, fit.matched(seed=3).mean)
    assert not np.array_equal(fit.matched(seed=3).mean, fit.matched(seed=4).mean)
    with pytest.raises((TypeError, ValueError), match="draws"):
        fit.matched(draws=0)


# --------------------------------------------------------------------- by sums of a control variate
@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 2])
def test_with_a_control_variate_and_no_data(models):
    """Moments and evidence are the same: also where only one model has a reference."""
    model = rates("cuberoot", 3000, models)
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(models)]
    control = sm.Taylor(fits if models > 1 else fits[0])
    for k, fit in enumerate(fits):
        law, evidence = laws(model, k)
        made, effective = found(fit, control)
        # Third order leaves a fourth: at some standard deviations, thousandths of a nat.
        agree(made, effective, law, evidence, "cuberoot")


@pytest.mark.parametrize("order", [2, 3])
def test_a_control_variate_that_does_not_reach(order):
    """Few data: far out a polynomial is anything. Right, or said to be wrong; no other way."""
    model = rates("cuberoot", 15, models=2)
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(2)]
    control = sm.Taylor(fits, order=order)
    for k, fit in enumerate(fits):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = fit.matched(control=control)
        if told:
            assert "did not lead" in str(told[0].message) and made is fit
        else:
            assert abs(made.log_evidence - laws(model, k)[1]) < 0.1


def test_it_says_that_it_cannot():
    """From a fit that is nowhere near, with few draws: the fit comes back, with a warning."""
    model = rates("log", 3000)
    fit = sm.laplace(model, "theta", progress=False)
    lost = replace(fit, mean=fit.mean + 4.0, covariance=1e-8 * fit.covariance,
                   factor=1e-4 * fit.factor)  # fmt: skip
    with pytest.warns(UserWarning, match="did not lead from the fit to the posterior of 3"):
        assert lost.matched(draws=100) is lost


def test_draws_of_a_matched_fit_are_better_proposals():
    """What it is for: an independence sampler accepts more."""
    model = rates("log", 15)
    fit = sm.laplace(model, "theta", progress=False)
    law, _ = laws(model)
    shares = []
    for one in (fit, fit.matched(inflate=1.0)):
        rng = np.random.default_rng(1)
        u = one.mean + rng.standard_normal((4000, 3)) @ one.factor.T
        x = np.exp(u)
        logs = (law.logpdf(x) + u).sum(axis=1)
        logs -= stats.multivariate_normal(one.mean, one.covariance).logpdf(u)
        weights = np.exp(logs - logs.max())
        shares.append(weights.sum() ** 2 / (weights @ weights) / 4000)
    assert shares[1] > shares[0]


def test_with_sums_the_evidence_is_that_of_the_data(rng):
    """Constants that sums leave out are part of it."""
    x = rng.normal(size=3_000)
    y = rng.poisson(np.exp(0.3 + 0.4 * x))
    model = sm.models.glm.poisson(np.column_stack([np.ones(3_000), x]), y)
    fit = sm.laplace(model, progress=False)
    known = fit.matched(draws=4_000, seed=1).log_evidence
    for order in (2, 3):
        found = fit.matched(control=sm.Taylor(fit, order=order), draws=4_000, seed=1)
        assert found.log_evidence == pytest.approx(known, abs=0.1)
