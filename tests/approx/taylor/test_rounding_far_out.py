"""Residuals round by as much as log likelihoods are large: farther out they may be far larger."""

import numpy as np

from subsample_mcmc.approx.taylor.passes.roundings import rounding_of
from subsample_mcmc.numerics.jit import jit
from tests.approx.taylor.test_bounds_far_out import all_are_looked_for, closer  # noqa: F401
from tests.approx.taylor.test_bounds_found import bounded, made
from tests.helpers.tall import Bench


@jit
def rounding(trial, i, j):
    own = trial.control.arrays
    return rounding_of(own, own.sums.whole, i, j)


def test_rounding_far_out_is_of_the_values_there(monkeypatch):
    """Of a pair it is that of the farther one; what is allowed for nearby would be too little."""
    closer(monkeypatch)
    model = made("poisson")
    prepared, control = bounded(model)
    limits = prepared.sums.whole.limits[0]
    point, inverse = prepared.sums.points[0], np.linalg.inv(prepared.sums.metric[0])
    sizes = np.array([0.0, 0.5, 1.0 - 1e-9, 1.0 + 1e-9, 1.9]) * limits[7]
    points = point + np.outer(sizes, inverse[:, 0])
    bench = Bench(model, control, points)
    for arm in range(len(points)):
        bench.residuals(arm)
    assert limits[9] == 2.0 * limits[7] and limits[11] > 1.1 * limits[3] > 0.0
    for i in range(len(points)):
        for j in range(len(points)):
            right = limits[11] if max(i, j) > 2 else limits[3]
            assert rounding(bench.trial, i, j) == right
