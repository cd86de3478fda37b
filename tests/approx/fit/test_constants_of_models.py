"""What a model's functions lack of its log density is in what fits say of it, of every kind."""

import numpy as np
import pytest

import subsample_mcmc as sm

LACKS, SITES = 7.25, 66  # sites: more than one Gaussian of all is made of


class Lacking(sm.Model):
    """As a model that was built of a PyMC one: terms that no parameter changes are not in it."""

    def constant(self) -> float:
        return LACKS


def normal(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - state.s[data.site[n]]) ** 2


def both(kind, rng_of_data=3):
    """The same model, with all that its density has, or without a constant."""
    rng = np.random.default_rng(rng_of_data)
    site = np.arange(2 * SITES) % SITES
    data = {"y": rng.standard_normal(2 * SITES), "site": site}
    return kind(
        normal, data, {"mu": 0.0, "s": np.zeros(SITES)}, lambda state: -0.5 * state.mu[0] ** 2,
        touches={"s": "site"}, site_prior={"s": lambda state, i: -0.5 * state.s[i] ** 2},
    )  # fmt: skip


@pytest.mark.parametrize("blocks", ["mu", "s", None], ids=["a Gaussian", "sites", "a hierarchy"])
def test_evidences_have_what_functions_lack(blocks):
    whole, lacking = (
        sm.laplace(both(kind), blocks, progress=False) for kind in (sm.Model, Lacking)
    )
    assert isinstance(whole, sm.HierarchyFit) == (blocks != "mu")
    np.testing.assert_allclose(lacking.log_evidence - whole.log_evidence, LACKS, rtol=1e-9)
    if blocks != "mu":
        np.testing.assert_allclose(lacking.log_density - whole.log_density, LACKS, rtol=1e-9)
