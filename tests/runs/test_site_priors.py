"""Priors of sites that are no densities, given what they read: said before a chain runs."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.defaults.site_priors import lacking
from tests.helpers import groups

SITES = 20


def scaled(state, site):
    return -0.5 * ((state.a[site] - state.mu[0]) / state.tau[0]) ** 2


def normal(state, site):
    return scaled(state, site) - sm.log(state.tau[0])


def student(state, site):
    z = (state.a[site] - state.mu[0]) / state.tau[0]
    return -2.5 * sm.log1p(z * z / 4.0)


def twice(state, site):
    return scaled(state, site) - 2.0 * sm.log(state.tau[0])


def of_two_scales(state, site):
    z = state.a[site] / (state.tau[0] * state.rho[0])
    return -0.5 * z * z


def of_variance(state, site):
    return -0.5 * (state.a[site] - state.mu[0]) ** 2 / state.tau[0]


def of_precision(state, site):
    return -0.5 * (state.a[site] - state.mu[0]) ** 2 * state.tau[0]


def normal_of_variance(state, site):
    return of_variance(state, site) - 0.5 * sm.log(state.tau[0])


def normal_of_precision(state, site):
    return of_precision(state, site) + 0.5 * sm.log(state.tau[0])


def flat(state, site):
    return 0.0


def steep(state, site):
    return -sm.exp((state.a[site] - state.mu[0]) ** 2 / state.tau[0])


def unlike(state, site):
    return -sm.exp(state.a[site] - state.mu[0]) / state.tau[0]


def rest(state):
    return -state.tau[0] - 0.5 * state.mu[0] ** 2 - state.rho[0]


def made_up_for(state):
    return rest(state) - SITES * math.log(state.tau[0])


def model_of(of_site, log_prior=rest, start=1.0, constraint=sm.positive, sites=SITES):
    rng = np.random.default_rng(0)
    data = {"y": rng.standard_normal(100), "group": np.arange(100) % sites}

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2

    state = {"a": np.zeros(sites), "mu": 0.0, "tau": start, "rho": 1.0}
    return sm.Model(
        log_likelihood, data, state, log_prior, touches={"a": "group"}, site_prior={"a": of_site},
        constraints={"tau": constraint, "rho": sm.positive},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of_site", "log_prior", "lack"),
    [
        (scaled, rest, 1.0), (student, rest, 1.0), (twice, rest, -1.0),
        (of_variance, rest, 0.5), (of_precision, rest, -0.5),
        (normal_of_variance, rest, 0.0), (normal_of_precision, rest, 0.0),
        (normal, rest, 0.0), (scaled, made_up_for, 0.0), (normal, made_up_for, 0.0),
        (of_two_scales, rest, 0.0), (steep, rest, 0.5), (unlike, rest, 0.0),
        (flat, rest, 0.0),  # of which nothing is known
    ],
)  # fmt: skip
def test_what_a_prior_of_sites_lacks(of_site, log_prior, lack):
    found, scales = lacking(model_of(of_site, log_prior), "a")
    assert found == pytest.approx(lack, abs=1e-6)
    assert scales == (("tau",) if lack else ())


PRIORS = {  # of mu and tau
    "half-normal": lambda s: -0.5 * s.mu[0] ** 2 - 0.5 * s.tau[0] ** 2,
    "narrow half-normal": lambda s: -0.5 * s.mu[0] ** 2 - 0.5 * (s.tau[0] / 0.1) ** 2,
    "wide": lambda s: -0.005 * s.mu[0] ** 2 - 0.01 * s.tau[0] ** 2,
    "exponential": lambda s: -0.5 * s.mu[0] ** 2 - s.tau[0],
    "half-Cauchy": lambda s: -0.5 * s.mu[0] ** 2 - math.log1p(s.tau[0] ** 2),
    "gamma": lambda s: -0.5 * s.mu[0] ** 2 + math.log(s.tau[0]) - 4.0 * s.tau[0],
    "inverse gamma": lambda s: -0.5 * s.mu[0] ** 2 - 3.0 * math.log(s.tau[0]) - 0.5 / s.tau[0],
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("sites", [8, 50, 500])
def test_log_prior_makes_up_for_it_or_not(name, sites):
    """Whatever it says of the scale besides, and wherever the initial state is."""
    for start in (0.1, 1.0, 3.0):

        def made_up(state):
            return PRIORS[name](state) - sites * math.log(state.tau[0])

        assert lacking(model_of(scaled, made_up, start, sites=sites), "a")[0] == 0.0
        found = lacking(model_of(scaled, PRIORS[name], start, sites=sites), "a")[0]
        assert found == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["between bounds", "steep at both ends", "lognormal"])
def test_where_log_prior_does_not_tell_nothing_is_said(name):
    given = {
        "between bounds": lambda tau: 0.0 if 0.01 < tau < 10.0 else -math.inf,
        "steep at both ends": lambda tau: -0.5 * tau**2 - 0.5 / tau,
        "lognormal": lambda tau: -0.5 * (math.log(tau) + 20.0) ** 2,
    }[name]

    def made_up(state):
        return given(state.tau[0]) - SITES * math.log(state.tau[0])

    assert lacking(model_of(scaled, made_up), "a")[0] == 0.0


def test_a_log_prior_that_overflows_is_no_reason_to_say_nothing():
    def steep_prior(state):
        return -state.tau[0] - math.exp(0.001 * state.tau[0])

    assert lacking(model_of(scaled, steep_prior), "a")[0] == pytest.approx(1.0)


def test_a_rate(rng):
    """Sites that are positive: -rate a without log(rate)."""
    data = {"y": rng.standard_exponential(100), "group": np.arange(100) % SITES}

    def log_likelihood(state, data, n):
        return -data.y[n] * state.a[data.group[n]] + sm.log(state.a[data.group[n]])

    for whole, lack in ((False, -1.0), (True, 0.0)):

        def of_site(state, site, whole=whole):
            own = -state.tau[0] * state.a[site]
            return own + sm.log(state.tau[0]) if whole else own

        model = sm.Model(
            log_likelihood, data, {"a": np.ones(SITES), "tau": 1.0}, lambda s: -s.tau[0],
            touches={"a": "group"}, site_prior={"a": of_site},
            constraints={"tau": sm.positive, "a": sm.positive},
        )  # fmt: skip
        assert lacking(model, "a")[0] == pytest.approx(lack, abs=1e-6)


def test_a_scale_between_0_and_a_bound():
    bounded_scale = sm.interval(0.0, 10.0)
    assert lacking(model_of(scaled, constraint=bounded_scale), "a")[0] == pytest.approx(1.0)
    assert lacking(model_of(normal, constraint=bounded_scale), "a")[0] == 0.0


def test_one_prior_of_two_blocks_of_as_many_sites():
    """a[i] ~ Normal(0, lam[i]^2), lam[i] ~ Exponential of mean tau: a density of both."""
    given = model_of(normal)

    def both(state, site):
        own = -sm.log(state.lam[site]) - 0.5 * (state.a[site] / state.lam[site]) ** 2
        return own - state.lam[site] / state.tau[0] - sm.log(state.tau[0])

    model = sm.Model(
        given.log_likelihood, given.data, {"a": np.zeros(SITES), "lam": np.ones(SITES), "tau": 1.0},
        lambda state: -state.tau[0], touches={"a": "group"}, site_prior={"a": both},
        constraints={"tau": sm.positive, "lam": sm.positive},
    )  # fmt: skip
    assert lacking(model, "a")[0] == 0.0


def test_its_integral_is_what_is_said():
    """By quadrature, of a Student density without its scale: twice as large, as 2 ** lack."""
    model = model_of(student)
    ints, floats = model.ints.copy(), model.floats.copy()
    z = np.linspace(-math.pi / 2, math.pi / 2, 4_001)[1:-1]
    sizes = []
    for tau in (0.7, 1.4):
        total = 0.0
        for at in z:
            state = model.state(ints, floats)
            floats[model.variables["tau"].block.start] = tau
            floats[model.variables["a"].block.start] = math.tan(at)
            total += math.exp(student(state, 0)) / math.cos(at) ** 2
        sizes.append(total)
    assert sizes[1] / sizes[0] == pytest.approx(2.0 ** lacking(model, "a")[0], rel=1e-4)


@pytest.mark.slow
def test_a_run_says_so_once():
    kernel = sm.Metropolis("a") >> sm.Metropolis(("mu", "tau", "rho"))
    given = {"draws": 2, "warmup": 2, "chains": 1, "seed": 1, "progress": False}
    model = model_of(scaled)
    with pytest.warns(
        UserWarning, match=r"no density of a site of 'a': where tau is twice.* is 2 tim"
    ):
        sm.sample(model, kernel, **given)
    sm.sample(model, kernel, **given)
    with pytest.warns(UserWarning, match="no density of a site of 'a'"):  # and not only pilots
        sm.default_kernel(model_of(scaled), progress=False)
    sm.sample(groups.model_of(), sm.Metropolis("a") >> sm.Metropolis(("mu", "tau")), **given)
