"""Draws of a hierarchy's fit that are wider than it: of what sites have in common, and of sites."""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.approx.fit.test_hierarchy import BLOCKS, data_of, model_of


@pytest.mark.plain
@pytest.mark.parametrize("blocks", [BLOCKS, ("a", "b")])
def test_wide_draws_are_wide_in_all_blocks(blocks):
    """All is linear: from one seed, three times as wide is three times as far from the modes.

    Starts of chains are drawn so. Where sites stay as near as they are in the fit, chains begin
    near each other, and R-hat cannot tell that they have not met.
    """
    fit = sm.laplace(model_of(data_of(np.random.default_rng(0))), blocks, progress=False)
    one, wide = (fit.draw(np.random.default_rng(1), times) for times in (1.0, 3.0))
    for name in blocks:
        mode = np.asarray(fit.state[name])
        assert np.any(one[name] != mode)
        assert wide[name] - mode == pytest.approx(3.0 * (one[name] - mode), rel=1e-9, abs=1e-12)
