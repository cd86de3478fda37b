"""Fits of few data whose likelihood has a kink at each: quantiles, absolute values, hinge loss.

Searches over wide steps went to and fro without end, and what was taken then was as narrow as one
kink: a hundredth of the posterior, 10 nats of evidence too low, without a warning.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import laplace
from subsample_mcmc.approx.fit.newton import Local, falls_around


def predictor(state, data, n):
    return state.b[0] + state.b[1] * data.x[n]


def hinge(eta, data, n):
    return -max(0.0, 1.0 - data.y[n] * eta)


def fifth(eta, data, n):
    """The check function of the fifth of all that is lowest."""
    rest = data.y[n] - eta
    return -0.2 * rest if rest > 0.0 else 0.8 * rest


def median(eta, data, n):
    return -abs(data.y[n] - eta)


LOSSES = {
    hinge: lambda y, eta: -np.maximum(0.0, 1.0 - y * eta),
    fifth: lambda y, eta: np.where(y > eta, -0.2, 0.8) * (y - eta),
    median: lambda y, eta: -np.abs(y - eta),
}


def log_prior(state):
    return -0.005 * (state.b[0] ** 2 + state.b[1] ** 2)


def data_of(loss, size, seed):
    rng = np.random.default_rng([seed, size])
    x = rng.standard_normal(size)
    y = 0.3 + 0.5 * x + rng.standard_t(3, size)
    return {"x": x, "y": np.sign(y) if loss is hinge else y}


def plain(loss):
    """The same as one function."""

    def log_likelihood(state, data, n):
        return loss(state.b[0] + state.b[1] * data.x[n], data, n)

    return log_likelihood


def by_grid(loss, data, fit):
    """(mean, standard deviations, log evidence) of the posterior."""
    mean, sd = fit.mean, np.full(2, 6.0 / np.sqrt(len(data["x"])))
    for _ in range(3):
        axes = [np.linspace(m - 6.0 * s, m + 6.0 * s, 61) for m, s in zip(mean, sd, strict=True)]
        points = np.array(np.meshgrid(*axes, indexing="ij")).reshape(2, -1).T
        eta = points[:, :1] + points[:, 1:] * data["x"]
        height = LOSSES[loss](data["y"], eta).sum(axis=1) - 0.005 * (points**2).sum(axis=1)
        weights = np.exp(height - height.max())
        cell = np.prod([axis[1] - axis[0] for axis in axes])
        evidence = height.max() + np.log(weights.sum() * cell)
        weights /= weights.sum()
        mean = weights @ points
        sd = np.sqrt(weights @ (points - mean) ** 2)
    return mean, sd, evidence


@pytest.mark.parametrize("kind", ["function", "predictors"])
@pytest.mark.parametrize(("loss", "size", "seed"), [
    (fifth, 60, 3), (fifth, 60, 4), (fifth, 60, 5), (fifth, 60, 7), (fifth, 300, 2),
    (fifth, 300, 10), (median, 60, 4), (median, 60, 7), (median, 60, 10), (hinge, 60, 4),
    (hinge, 300, 0), (hinge, 2_000, 9),
])  # fmt: skip
def test_they_are_about_as_wide_as_the_posterior(kind, loss, size, seed):
    """Within a factor of 1.5, half a standard deviation and half a nat; it was 60 to 200."""
    data = data_of(loss, size, seed)
    likelihood = plain(loss) if kind == "function" else sm.Predictors(predictor, loss)
    model = sm.Model(likelihood, data, {"b": np.zeros(2)}, log_prior)
    fit = sm.laplace(model, progress=False)
    mean, sd, evidence = by_grid(loss, data, fit)
    ratio = np.sqrt(np.diag(fit.covariance)) / sd
    assert np.all((ratio > 1 / 1.5) & (ratio < 1.5)), ratio
    assert np.all(np.abs(fit.mean - mean) < 0.6 * sd)
    assert abs(fit.log_evidence - evidence) < 0.6


@pytest.mark.parametrize(("values", "times", "start"), [
    ([0.0, 1.0, 2.0], [30, 40, 30], 0.0), ([1.0, 2.0, 3.0, 4.0, 5.0], [100] * 5, 1.0),
    ([3.0], [50], 1.0), ([3.0], [50], 0.0),
])  # fmt: skip
def test_few_values_have_wide_kinks(values, times, start):
    """Ties: between kinks the sum is straight, and steps as long as all of it seemed right."""
    y = np.repeat(values, times)

    def absolute(state, data, n):
        return -abs(data.y[n] - state.m[0])

    fit = sm.laplace(sm.Model(absolute, {"y": y}, {"m": start}), progress=False)
    middle = np.median(y)
    points = middle + np.linspace(-1.0, 1.0, 20_001)
    height = -np.abs(y[:, None] - points).sum(axis=0)
    weights = np.exp(height - height.max())
    sd = np.sqrt(np.average((points - middle) ** 2, weights=weights))
    assert 0.7 < np.sqrt(fit.covariance[0, 0]) / sd < 1.5
    assert abs(fit.mean[0] - middle) < 0.6 * sd


@pytest.mark.parametrize(("factor", "is_right"), [
    (1.0, True), (0.7, True), (30.0, False), (1e-3, False),
])  # fmt: skip
def test_an_end_is_one_if_the_density_falls_as_it_should(factor, is_right):
    """Of a Gaussian whose width is told right, and wrong."""

    def rises(points):
        own = -0.5 * (points**2).sum(axis=1)
        return 0.0, own[1:] - own[0]

    told = Local(np.zeros(2), 0.0, np.zeros(2), np.eye(2) / factor**2)
    assert falls_around(rises, (told, np.zeros(2), 0.0)) is is_right


def test_a_slope_without_end_is_no_mode():
    """It falls to the other side alone, as where a plane separates the data."""

    def rises(points):
        own = -np.logaddexp(0.0, -points[:, 0]) - 0.5 * points[:, 1] ** 2
        return 0.0, own[1:] - own[0]

    told = Local(np.array([20.0, 0.0]), 0.0, np.zeros(2), np.eye(2))
    assert not falls_around(rises, (told, np.zeros(2), 0.0))


def test_a_search_that_finds_no_end_says_so(monkeypatch, tmp_path):
    """What short steps found is told to be narrow, and is not kept: it would be without a word."""
    monkeypatch.setattr(laplace.Wide, "around", refused)
    for _ in range(2):
        model = sm.Model(plain(fifth), data_of(fifth, 60, 3), {"b": np.zeros(2)}, log_prior)
        model.remember(tmp_path / "kept")
        with pytest.warns(UserWarning, match="standard deviations are those of single kinks"):
            sm.laplace(model, progress=False)


def refused(*given):
    raise ValueError("no posterior mode was found")
