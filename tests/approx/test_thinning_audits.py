"""An audit of sm.Thinned counts no row whose residual was part of what was known."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.numerics.jit import DISABLED
from tests.approx.test_thinning import (
    DRAWN,
    FORMS,
    NONE,
    ONE_SIGN,
    READ,
    flip_of,
    made,
    residuals,
)


@pytest.mark.plain
@pytest.mark.parametrize("outliers", [NONE, READ, DRAWN])
def test_an_audit_tells_what_thinning_costs_beside_outliers(outliers):
    """By formulas of its own, from both points. No chance but that of one seed."""
    x, y, model, fit, control = made(2, outliers=outliers)
    step = sm.Metropolis(
        "beta", proposal=flip_of(ONE_SIGN), selector=FORMS["factorised"], control=control
    )
    trace = sm.sample(
        model, step, 100 if DISABLED else 400, 0, chains=1, seed=1, audit=1.0, progress=False,
        start=[{"beta": ONE_SIGN[1]}],
    )  # fmt: skip
    told, (r, _) = trace.stats["beta"], residuals(x, y, model, fit, 2)
    rare = prepared_for(model, control).outliers
    assert (len(rare) > 0) == (outliers > 0.0)
    drawn = np.ones(len(r), dtype=bool)
    drawn[rare if outliers == READ else []] = False
    wanted = np.array([np.maximum(s * r[drawn], 0.0).sum() for s in (-1.0, 1.0)])
    if outliers == READ:
        assert np.abs(r[rare]).sum() > 0.01
    after = np.asarray(trace.draws["beta"])[0, :, 0] == ONE_SIGN[2][0]
    before = np.r_[False, after[:-1]]
    assert before.any() and not before.all()
    np.testing.assert_allclose(np.ravel(told["regret"]), wanted[before * 1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(told["variance"], len(r) * r.var(), rtol=1e-6)
