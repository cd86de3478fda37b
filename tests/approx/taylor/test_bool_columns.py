"""Boolean columns have derivatives, found predictors and bounds: those of the same as floats."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.predictor_chunks import every
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.two_columns import columns_of, leaves, plain

POINT = np.array([0.3, -0.7, 0.2])


def product(state, data, n):
    eta = state.beta[0] * data.a[n] + state.beta[1] * data.b[n] + state.beta[2]
    return eta * data.y[n] - sm.softplus(eta)


def difference(state, data, n):
    eta = state.beta[0] * data.a[n] + state.beta[1] * data.b[n] + state.beta[2]
    one, other = data.y[n] - eta, eta - data.y[n]
    return -0.25 * (one * one + other * other) / (1.0 + data.y[n])


def indicator(state, data, n):
    eta = state.beta[0] * data.a[n] + state.beta[1] * data.b[n]
    eta += data.y[n]
    return -sm.log1p(eta * eta) if data.y[n] else -0.5 * (data.y[n] + eta) ** 2 - state.beta[2] ** 2


LIKELIHOODS = [plain, product, difference, indicator]


def models_of(likelihood, size=600, cut=None):
    """With floats, and with booleans."""
    columns = columns_of(size)
    for y in (columns["y"], columns["y"] == 1.0):
        data = {**columns, "y": y}
        yield sm.Model(likelihood, parts_of(data, cut) if cut else data, {"beta": np.zeros(3)})


@pytest.mark.plain
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_derivatives_are_those_of_floats(likelihood):
    one, other = (
        Jets(model, 3).along_lines(model.ints, POINT, every, None)
        for model in models_of(likelihood)
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(one[1]).min() > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", LIKELIHOODS[:3])
def test_predictors_are_found_and_bounded(likelihood):
    found = []
    for model in models_of(likelihood, 10_000):
        prepared = prepared_for(model, sm.Taylor(sm.laplace(model, progress=False)))
        assert prepared.how[2] == "found predictors" and prepared.source.known()
        found.append(list(leaves(prepared.sums)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [plain, indicator])
def test_rows_elsewhere(likelihood):
    """Draws of booleans are those of floats, and jets serve both."""
    drawn = []
    for model in models_of(likelihood, 2_000, [0, 1, 900, 1099]):
        fit = sm.laplace(model, progress=False)
        control = sm.Taylor(fit)
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=sm.Racing(), control=control)
        run = {"draws": 200, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
        drawn.append(sm.sample(model, kernel, start=[fit.state], **run).draws["beta"])
        assert prepared_for(model, control).how[2] == "jets"
    np.testing.assert_array_equal(*drawn)
