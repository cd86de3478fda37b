"""Ceilings of values at the inner ends of their shells, where what bends down is highest."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from tests.approx.test_many_values import above, compiled_only, control_of, regression


@compiled_only
@pytest.mark.parametrize("order", [2, 3])
def test_ceilings_hold_from_the_inner_end_of_a_shell(order):
    """Around a mode, at the centre and just beyond each radius, in many directions.

    Points drawn anywhere hardly ever lie there; and far from a mode, of few rows, slopes and
    remainders hide a ceiling that counts how far a polynomial bends down until the outer end.
    """
    model = regression(rows=5_000)
    fit = sm.laplace(model, "beta", given={"k": 11}, progress=False)
    prepared = prepared_for(model, control_of(order, {"beta": fit.state["beta"]}))
    kept, ways = prepared.ceilings, np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)
    sizes = np.concatenate([[0.0], kept.radii[:-1] * (1.0 + 1e-7)])
    directions = np.column_stack([np.cos(ways), np.sin(ways)])
    steps = (sizes[:, None, None] * directions).reshape(-1, 2) @ np.linalg.inv(kept.metric).T
    assert above(prepared, kept, kept.center + steps).min() >= 0.0
