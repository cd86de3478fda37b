"""Where bounds allow no thinning, decisions are those of Exact, number by number."""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.by_sums import model_of, reference_of
from tests.kernels.sites.test_by_sums import drawn


@pytest.mark.parametrize("far", [0.0, 3.0])
def test_what_is_read_in_full_is_decided_as_by_exact(far):
    """Rows that may be drawn are none; or all that is known is of places far off."""
    model = model_of("poisson", 3, 40)
    near = {name: value - far for name, value in reference_of(model, "poisson").items()}
    selector = sm.Thinned(most=0.0) if far == 0.0 else sm.Thinned()
    chains = []
    for more in ({"control": sm.SiteTaylor(near), "selector": selector}, {"selector": sm.Exact()}):
        kernel = sm.Metropolis("a", scale=0.2, **more) >> sm.Metropolis("slope", scale=0.1, **more)
        chains.append(drawn(model, kernel, 500))
    for name in ("a", "slope"):
        one, two = (np.asarray(chain.draws[name]) for chain in chains)
        np.testing.assert_array_equal(one, two)
        told = chains[0].stats[name]
        assert told["exact"].sum() == told["decisions"].sum() > 0
        assert 0.1 < told["accepted"].sum() / told["decisions"].sum() < 0.9
