"""Sites that propose from a fit: from the first step on, with the laws that are known."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.default_kernel import DefaultKernel, candidates_of
from tests.helpers.groups import SIZES, model_of, sampled, wrong


def kernel_of(adapt, **more):
    """Sites, and what they have in common by walks that learn nothing."""
    common = sm.Metropolis(("mu", "tau"), scale=0.4, adapt=False)
    return sm.Metropolis("a", adapt=adapt, **more) >> sm.repeat(common, 3)


@pytest.mark.parametrize("adapt", [False, True])
def test_sites_propose_from_a_fit_from_the_first_step_on(adapt):
    """No warm-up: most proposals are accepted, values forget where they were, and laws are right.

    One proposal in eight is a walk. What the fit says of a site is its law with mu and tau
    integrated out, which of so few sites is much wider than that given these.
    """
    model = model_of()
    trace = sampled(model, kernel_of(adapt, proposal=sm.pcn(sm.laplace(model))), warmup=0)
    assert not wrong(trace)
    accepted = trace.stats["a"]["accepted"]
    assert accepted.sum() / (len(SIZES) * accepted.size) > 0.5
    walks = sampled(model, kernel_of(False, scale=0.1), 2_000, warmup=0)
    # 300 effective draws of 10,000, and 1 of 100, are far apart.
    assert trace.mixing("a").ess / 10_000 > 3.0 * walks.mixing("a").ess / 2_000


def test_warm_up_goes_on_learning_from_a_fit_that_is_wrong():
    """A fit a thousand times as narrow is left for what the values are seen to be.

    Only walks lead on before.
    """
    model = model_of()
    fit = sm.laplace(model)
    fit.covariances[...] *= 1e-6
    fit.slopes[...] *= 1e-3
    trace = sampled(model, kernel_of(True, proposal=sm.pcn(fit)), 5_000, warmup=5_000)
    assert not wrong(trace)
    accepted = trace.stats["a"]["accepted"]
    assert accepted.sum() / (len(SIZES) * accepted.size) > 0.4


def test_what_is_no_fit_of_sites_is_refused():
    model, other = model_of(), model_of((3, 4, 5))
    fit = sm.laplace(other)
    for proposal, match in (
        (sm.pcn(fit), "the fit has 3 sites of 1 numbers, and 'a' 7 of 1"),
        (sm.pcn(sm.laplace(model, "mu")), "block 'a' was not fitted"),
        (sm.pcn(sm.laplace(model), beta=0.5), "its sites move from what they learn"),
        (sm.independence(sm.laplace(model)), "its sites move from what they learn"),
        (sm.pcn(np.zeros(7), np.eye(7)), "its sites move from what they learn"),
        (lambda rng, current, out: None, "its sites move from what they learn"),
    ):
        with pytest.raises(ValueError, match=match):
            sampled(model, kernel_of(True, proposal=proposal), 10)


def test_fits_of_one_gaussian_know_their_sites():
    """Sites of a dense fit are blocks of its covariance; what is a value together has none."""
    model = model_of()
    fit = sm.laplace(model, "a")
    mean, covariance = fit.gaussian("a")
    means, covariances = fit.sites("a")
    assert np.array_equal(means[:, 0], mean)
    assert np.array_equal(covariances[:, 0, 0], np.diag(covariance))


def counted(state, data, n):
    eta = state.a[data.group[n]]
    return data.y[n] * eta - sm.exp(eta)


def of_intercept(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def test_default_kernels_begin_with_a_fit_of_many_sites(rng):
    """80 sites propose from it, and chains start around it, two standard deviations wide."""
    group = np.repeat(np.arange(80), 5)
    y = rng.poisson(np.exp(0.5 + 0.6 * rng.standard_normal(80))[group]).astype(float)
    model = sm.Model(
        counted, {"y": y, "group": group}, {"a": np.zeros(80), "mu": 0.0, "tau": 1.0},
        lambda state: -0.5 * (state.mu[0] ** 2 + state.tau[0] ** 2),
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_intercept},
    )  # fmt: skip
    found, _, fit, modes, *_ = candidates_of(model, None)
    assert modes is None and fit.local == ("a",)
    own = 'sm.Metropolis("a", proposal=sm.pcn(fit))'
    assert [c.name for c in found if own in c.code and c.setup == ("fit = sm.laplace(model)",)] == [
        "sites, all of them at once as well, the rest by surrogates",
        "sites by their own data, the rest by surrogates",
        "sites, all of them at once as well", "sites by their own data",
    ]  # fmt: skip
    assert 'sm.SurrogateTransition(("mu", "tau"), fit)' in found[0].code
    assert not any("Taylor" in c.code for c in found)
    kernel = DefaultKernel(found[0].kernel, found[0].code, "exact", model, (), fit)
    starts = np.array([kernel.start(rng)["a"] for _ in range(50)])
    z = (starts - fit.modes[:, 0]) / np.sqrt(fit.sites("a")[1][:, 0, 0])
    assert 1.8 < z.std() < 2.2  # of 4,000 numbers that depend on mu and tau little
