"""Bounds of rows of two predictors hold in all directions, also between those that were tried."""

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.by_site.local_bounds import COMMON, OWN
from tests.helpers.by_sums import Known, of_site, prior_of_slope


def quartic(state, data, n):
    """-(c a + s b)^4 multiplied out, which two predictors see, and what makes it have a mode."""
    a, b, c, s = state.a[data.group[n]], state.slope[0], data.c[n], data.s[n]
    p, q = c * a, s * b
    whole = p * p * p * p + 4.0 * p * p * p * q + 6.0 * p * p * q * q + 4.0 * p * q * q * q
    return -0.01 * (whole + q * q * q * q) - 0.5 * a * a - 0.5 * b * b


def test_bounds_hold_between_the_directions_tried():
    """The fourth derivative along its steepest direction is 24 |(c, s)|^4, in units of w."""
    angle = np.linspace(0.0, np.pi, 362)
    data = {"group": np.arange(362) % 2, "c": np.cos(angle), "s": np.sin(angle)}
    model = sm.Model(
        quartic, data, {"a": np.zeros(2), "slope": 0.0}, prior_of_slope,
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip
    known = Known(model, sm.SiteTaylor({"a": np.zeros(2), "slope": np.zeros(1)}))
    ratios = []
    for i, n in enumerate(known.sums.indices):
        unit = known.units[n % 2, 0, 0], known.wide[0, 0]
        square = (data["c"][n] * unit[0]) ** 2 + (data["s"][n] * unit[1]) ** 2
        for which in (OWN, COMMON):
            ratios.append(known.sums.weights[which, i] / (0.24 * square**2))
    ratios = np.sort(ratios)
    assert ratios[0] >= 1.0 and ratios[len(ratios) // 2] < 4.0, ratios
