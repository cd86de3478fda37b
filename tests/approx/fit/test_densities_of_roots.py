"""The density of a fit in roots: draws below 0 are drawn anew, and what is left integrates to 1."""

import numpy as np
import pytest
from scipy import integrate

import subsample_mcmc as sm


@pytest.mark.plain
@pytest.mark.parametrize("kind", ["squareroot", "cuberoot"])
def test_what_is_drawn_has_a_density_that_integrates_to_1(kind):
    """One datum leaves a part of the Gaussian where there is no root."""
    model = sm.Model(
        lambda state, data, n: -0.5 * (state.rate[0] - data.y[n]) ** 2, {"y": np.array([-1.0])},
        {"rate": 1.0}, constraints={"rate": sm.positive(kind)},
    )  # fmt: skip
    fit = sm.laplace(model, progress=False)

    def density(z):  # of z = rate^(1/6), so that nothing is infinite at 0
        return np.exp(fit.log_prob({"rate": z**6})) * 6.0 * z**5

    assert fit.log_inside < -0.0005
    total, error = integrate.quad(density, 0.0, 3.0, epsabs=1e-9, limit=500)
    assert error < 1e-6 and total == pytest.approx(1.0, abs=1e-4)
