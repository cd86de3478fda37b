"""How widely residuals differ: wider than typical where no row is always read."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.polynomial import HEAVY, apart, spread
from subsample_mcmc.numerics.jit import jit
from tests.helpers.tall import Bench


@jit
def told(trial, i, j, out):
    out[0], out[1] = spread(trial, i, j), apart(trial, i, j, trial.control.arrays.sums.raced, 6)


@pytest.mark.plain
@pytest.mark.parametrize(("outliers", "times"), [(0.0, HEAVY), (0.05, 1.0)])
def test_races_among_all_rows_take_rows_to_differ_more(outliers, times):
    """The typical spread is that of most rows; those that differ most are read always, or not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 2))
    model = sm.models.glm.logistic(x, (rng.random(600) < 0.4).astype(int))
    fit = sm.laplace(model, progress=False)
    away = np.vstack([np.zeros(2), rng.standard_normal((3, 2))])
    points = fit.state["beta"] + away @ fit.factor.T
    bench = Bench(model, sm.Taylor(fit, outliers=outliers), points)
    for arm in range(4):
        bench.residuals(arm)
    out = np.zeros(2)
    for i, j in ((0, 1), (1, 2), (3, 1)):
        told(bench.trial, i, j, out)
        assert out[0] == pytest.approx(times * out[1]) and out[1] > 0.0
