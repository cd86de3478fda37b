"""Fits under priors with kinks at the mode: the Gaussian is about as wide as the posterior."""

import math
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.fit import kinks, marginal
from subsample_mcmc.approx.fit.hierarchy import HierarchyFit

SITES, ROWS = 80, 400
WIDTHS = [0.003, 0.03, 0.3]  # of priors, where data know the parameter to about .1


def of_mean(state, data, n):
    z = data.y[n] - state.a[data.group[n]]
    return -0.5 * z * z


def of_a(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def grouped(rng, prior, tau=0.5, mean=0.0):
    group = rng.integers(SITES, size=ROWS)
    y = mean + tau * rng.standard_normal(SITES)[group] + rng.standard_normal(ROWS)
    y += mean - y.mean()  # where the mode of mu is, or near
    return sm.Model(
        of_mean, {"y": y, "group": group}, {"a": np.zeros(SITES), "mu": 0.2, "tau": tau}, prior,
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_a},
    )  # fmt: skip


def law_of_mu(model, width, tau=0.5):
    """(mean, sd) of mu given tau, by quadrature: sites are normal, the prior is two-sided."""
    y, group = np.asarray(model.data.y), np.asarray(model.data.group)
    count = np.bincount(group, minlength=SITES)
    weight = count / (1.0 + count * tau**2)
    centre = np.bincount(group, y, minlength=SITES) / np.maximum(count, 1)
    grid = np.linspace(-1.0, 1.0, 400_001)
    heights = -0.5 * weight.sum() * grid**2 + (weight @ centre) * grid - np.abs(grid) / width
    return moments(grid, heights)


@contextmanager
def told_of(name, width):
    """Strong kinks are warned of; of weak ones a fit may say nothing where it is right without."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    found = [f"kink near the mode along {name}" in str(each.message) for each in told]
    assert all(found) and (found or width > 0.1)


def moments(grid, heights):
    weights = np.exp(heights - heights.max())
    mean = np.average(grid, weights=weights)
    return mean, math.sqrt(np.average((grid - mean) ** 2, weights=weights))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("way", [0.0, math.inf], ids=["jets", "differences"])
def test_a_kink_of_what_sites_have_in_common_is_told_and_taken_over_the_posterior(
    way, width, rng, monkeypatch
):
    """The sd of mu was that of a step of differences, or no mode was found."""
    monkeypatch.setattr(marginal, "WORTH", way)
    model = grouped(rng, lambda state: -abs(state.mu[0]) / width)
    with told_of("mu", width):
        fit = sm.laplace(model, ("a", "mu"))
    mean, sd = law_of_mu(model, width)
    assert isinstance(fit, HierarchyFit)
    assert math.sqrt(fit.common.covariance[0, 0]) == pytest.approx(sd, rel=0.15)
    assert fit.common.mean[0] == pytest.approx(mean, abs=0.25 * sd)


@pytest.mark.parametrize("way", [0.0, math.inf], ids=["jets", "differences"])
def test_others_are_fitted_beside_a_kink_as_without_it(way, rng, monkeypatch):
    """A scale, beside a mean that its prior holds near 0: as where the mean is held there."""
    monkeypatch.setattr(marginal, "WORTH", way)
    model = grouped(rng, lambda state: -abs(state.mu[0]) / 0.01 - state.tau[0])
    with pytest.warns(UserWarning, match="kink near the mode along mu:"):
        fit = sm.laplace(model)
    held = sm.laplace(model, ("a", "tau"), given={"mu": 0.0})
    (one,), ((bent,),) = fit.gaussian("tau")
    (two,), ((known,),) = held.gaussian("tau")
    assert one == pytest.approx(two, abs=0.1 * math.sqrt(known))
    assert bent == pytest.approx(known, rel=0.1)


def test_a_kink_far_from_the_mode_changes_nothing(rng):
    """It is smooth there; the same without a kink."""

    def fit_under(prior):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return sm.laplace(grouped(np.random.default_rng(3), prior, mean=4.0), ("a", "mu"))

    one, two = fit_under(lambda state: -abs(state.mu[0])), fit_under(lambda state: -state.mu[0])
    assert np.allclose(one.modes, two.modes, atol=1e-6)
    assert np.allclose(one.common.covariance, two.common.covariance, rtol=1e-4)


# ------------------------------------------------------------------------------ without sites
def lasso(width):
    def prior(state):
        value = 0.0
        for j in range(3):
            value -= abs(state.beta[j]) / width
        return value

    return prior


def of_line(state, data, n):
    eta = state.beta[0] * data.x[n, 0] + state.beta[1] * data.x[n, 1] + state.beta[2] * data.x[n, 2]
    return -0.5 * (data.y[n] - eta) ** 2


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("predictors", [True, False])
def test_coefficients_at_the_kink_of_their_prior(predictors, width, rng):
    """Columns are at right angles, so the posterior of each is known by quadrature."""
    x = np.linalg.qr(rng.standard_normal((200, 3)))[0] * 10.0
    y = x @ [0.0, 0.0, 5.0 + 0.01 / width] + rng.standard_normal(200)
    y -= x[:, 0] * (x[:, 0] @ y) / 100.0  # of the first, data say 0
    if predictors:
        model = sm.models.glm.gaussian(x, y, sigma=1.0, log_prior=lasso(width))
    else:
        model = sm.Model(of_line, {"x": x, "y": y}, {"beta": np.zeros(3)}, lasso(width))
    with told_of("beta[0]", width):
        fit = sm.laplace(model)
    for j in range(3):
        centre = x[:, j] @ y / 100.0
        grid = np.linspace(-1.0, 10.0, 2_200_001)
        mean, sd = moments(grid, -50.0 * (grid - centre) ** 2 - np.abs(grid) / width)
        assert math.sqrt(fit.covariance[j, j]) == pytest.approx(sd, rel=0.2)
        assert abs(fit.mean[j] - mean) < 0.4 * sd


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mean", [0.0, 0.05])
def test_the_evidence_is_within_half_a_nat_for_each_kink(width, mean, rng):
    """As the warning says; where it says nothing, much nearer."""
    y = rng.standard_normal(400)
    y += mean - y.mean()
    model = sm.Model(of_normal, {"y": y}, {"b": mean}, lambda state: -abs(state.b[0]) / width)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit = sm.laplace(model)
    assert all("off by half a nat for each" in str(each.message) for each in told)
    grid = np.linspace(-1.0, 1.0, 2_000_001)
    heights = -200.0 * (grid - mean) ** 2 - np.abs(grid) / width - 0.5 * np.sum((y - mean) ** 2)
    top = heights.max()
    known = top + math.log(np.exp(heights - top).sum() * (grid[1] - grid[0]))
    assert fit.log_evidence == pytest.approx(known, abs=0.5 if told else 0.15)


def of_normal(state, data, n):
    return -0.5 * (data.y[n] - state.b[0]) ** 2


def test_sharp_bends_that_are_smooth_are_no_kinks():
    """Second differences tell them by how they change with the step."""
    sd, at = np.ones(4), np.array([0.0, 0.3, 0.0, 5.0])

    def prior(points):
        a, b, c, d = points.T
        return -5.0 * np.abs(a) - np.log1p(3.0 * b * b) + np.cosh(c) - np.exp(d / 5.0)

    assert kinks.kinks_near(prior, at, sd).tolist() == [True, False, False, False]
    assert kinks.kinks_near(prior, at + 1.0, sd).tolist() == [False] * 4
    assert kinks.kinks_within(prior, at + 1.0, sd)[0]


@pytest.mark.parametrize("width", [0.003, 0.01])
def test_fits_of_appended_rows_know_the_kink(width, rng):
    """control.append: a mode that sums of derivatives have."""
    x = rng.standard_normal((6_000, 2))
    y = x @ [0.0, 1.0] + rng.standard_normal(6_000)

    def prior(state):
        return -abs(state.beta[0]) / width

    model = sm.models.glm.gaussian(x[:4_000], y[:4_000], sigma=1.0, log_prior=prior)
    with pytest.warns(UserWarning, match=r"kink near the mode along beta\[0\]"):
        control = sm.Taylor(sm.laplace(model))
    more = {"x": x[4_000:], "y": y[4_000:]}
    prepared_for(model, control)
    with pytest.warns(UserWarning, match=r"kink near the mode along beta\[0\]"):
        fit = control.append(model.append(more)).fit
    with pytest.warns(UserWarning, match="kink"):
        known = sm.laplace(sm.models.glm.gaussian(x, y, sigma=1.0, log_prior=prior))
    assert np.allclose(fit.covariance, known.covariance, rtol=0.1, atol=1e-8)
    assert np.all(np.abs(fit.mean - known.mean) < 0.2 * np.sqrt(np.diag(known.covariance)))
