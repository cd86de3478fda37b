"""What residuals of all rows can bring back: a bound, and reached where rows are alike.

No chance decides here but which data there are.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.columns import flip, kept
from subsample_mcmc.kernels.columns.flip import make_flips
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import pointer_to
from tests.kernels.test_columns import kernel_of, model_of


@jit
def begin_at(tools, floats):
    kept.begin(tools, floats)


@jit
def go_to(tools, floats, k):
    kept.go(tools, floats, k)


@jit
def bounds_at(tools, k, value, out):
    out[0] = kept.sum_bound(tools, k, value)
    out[1] = kept.residual_bound(tools, k, value)
    out[2] = kept.square_after(tools, k, value)


def counts(rng, size, alike=False):
    x = rng.standard_normal((size, 3))
    if alike:
        x[:, 0], x[:, 1:] = 1.0, 0.05 * x[:, 1:]
    y = rng.poisson(np.exp(0.3 * x[:, 0])).astype(float)
    model = model_of(sm.models.glm.poisson(x, y), 3)
    columns = kernel_of(model).columns_of(model)
    return x, columns, kept.keep_predictors(model, columns)


def left(x, base, beta):
    """Residuals of Poisson rows, in closed form."""
    d = x @ beta - base
    return -np.exp(base) * (np.expm1(d) - d - 0.5 * d**2)


@pytest.mark.parametrize("size", [24, 64, 70])
def test_bounds_of_residuals_hold_and_are_reached_where_rows_are_alike(rng, size):
    """Cauchy-Schwarz is an equation there: half of a bound would be exceeded."""
    x, columns, own = counts(rng, size, alike=True)
    tools, base = pointer_to(own), x @ columns.point
    assert not columns.point[1:].any()  # so rates are alike, too
    out, nearest = np.zeros(3), np.zeros(2)

    for near, step in ((0.1, 0.01), (0.3, 0.02), (-0.2, -0.02), (0.5, 0.4), (-0.3, 0.8)):
        here = columns.point + np.array([near, 0.0, 0.0])
        there = here + np.array([step, 0.0, 0.0])
        begin_at(tools, here)
        bounds_at(tools, 0, there[0], out)
        r = left(x, base, there) - left(x, base, here)
        shares = abs(r.sum()) / out[0], np.abs(r).max() / out[1]
        assert max(shares) <= 1.0 + 1e-6, (near, step, shares)
        nearest = np.maximum(nearest, shares)
    assert np.all(nearest > 0.8), nearest


@pytest.mark.parametrize("size", [24, 64, 70])
def test_what_is_kept_is_that_of_the_state(rng, size):
    """As a sweep begins, after moves, and after one so far that sums need another unit."""
    x, columns, own = counts(rng, size)
    tools, beta, out = pointer_to(own), columns.point + np.array([0.3, -0.2, 0.1]), np.zeros(3)
    begin_at(tools, beta)
    base, now = x @ columns.point, own.now[0]
    for k, value in ((0, -0.4), (1, 0.7), (0, 0.0), (1, 50.0), (0, 4000.0), (1, -1.0)):
        bounds_at(tools, k, value, out)
        beta[k] = value
        go_to(tools, beta, k)
        step, gap = beta - columns.point, x @ beta - base
        assert now.square == pytest.approx(step @ columns.metric @ step, rel=1e-9) == out[2]
        assert now.far == pytest.approx(np.abs(gap).max(), rel=1e-6)
        assert now.wide == pytest.approx((gap**4).sum() ** 0.25, rel=1e-6)
        assert np.allclose(own.gradient, columns.slopes + columns.curvature @ step, rtol=1e-9)
        assert np.allclose(own.bend, columns.metric @ step, rtol=1e-9)
        assert now["size"] == pytest.approx(np.abs(beta) @ columns.largest)
        assert now["size"] <= now.limit == 2.0**51 * now.unit  # up to which sums are exact


AUDITED = np.dtype([("audited", int), ("regret", float), ("margin", float), ("variance", float)])


@jit
def audit_at(flips, tally, k, value):
    return flip.audit(flips, tally[0], k, value)


@pytest.mark.parametrize("size", [24, 70])
def test_an_audit_adds_up_what_is_left_over(rng, size):
    """By the predictors of all rows: of Poisson rows residuals are in closed form."""
    x, columns, own = counts(rng, size)
    flips = make_flips(own, sm.Thinned(most=1e6, lost=1e6), np.zeros(1))
    tally, base = np.zeros(1, dtype=AUDITED).view(np.recarray), x @ columns.point
    here = columns.point + np.array([0.3, -0.2, 0.1])
    there = here + np.array([0.0, 0.9, 0.0])
    begin_at(pointer_to(own), here)
    assert audit_at(pointer_to(flips), pointer_to(tally), 1, there[1]) == -1

    def second(beta):
        step = beta - columns.point
        return columns.slopes @ step + 0.5 * step @ columns.curvature @ step

    r, told = left(x, base, there) - left(x, base, here), tally[0]
    assert told.audited == 1 and (r < 0.0).any() and (r > 0.0).any()
    assert told.regret == pytest.approx(np.maximum(-r, 0.0).sum(), rel=1e-9)
    assert told.margin == pytest.approx(abs(second(there) - second(here) + r.sum()), rel=1e-9)
    assert told.variance == pytest.approx((r**2).sum() - r.sum() ** 2 / size, rel=1e-9)
