"""Draws from priors: their law, what is flat, what is predicted before there are data."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.criticism import prior

Y = np.random.default_rng(0).normal(size=200)


def log_likelihood(state, data, n):
    return -0.5 * ((data.y[n] - state.mu[0]) / state.sigma[0]) ** 2 - sm.log(state.sigma[0])


def log_prior(state):  # normal, gamma(3, 2), and a beta of a simplex of two
    value = -0.5 * ((state.mu[0] - 1.0) / 2.0) ** 2
    value += 2.0 * sm.log(state.sigma[0]) - 2.0 * state.sigma[0]
    return value + 1.0 * sm.log(state.w[0]) + 2.0 * sm.log(state.w[1]) + 0.7 * (state.k[0] == 2)


def model(prior=log_prior, **more):
    state = {"mu": 0.0, "sigma": 1.0, "w": [0.5, 0.5], "k": 0}
    return sm.Model(
        log_likelihood, {"y": Y}, state, prior, support={"k": 3},
        constraints={"sigma": sm.positive, "w": sm.simplex}, **more,
    )  # fmt: skip


def simulate(rng, state, data, n):
    return state.mu[0] + state.sigma[0] * rng.standard_normal()


@pytest.fixture(scope="module")
def drawn():
    return sm.prior(model(), 2000, seed=1, progress=False)


def test_draws_have_the_law_of_the_prior(drawn):
    """Each beside its law by Kolmogorov and Smirnov, on thinned draws; a false alarm in 10^6."""
    laws = {
        "mu": stats.norm(1.0, 2.0), "sigma": stats.gamma(3.0, scale=0.5), "w": stats.beta(2.0, 3.0),
    }  # fmt: skip
    for name, law in laws.items():
        values = drawn.draws[name][:, ::10]
        values = (values[..., 0] if name == "w" else values).ravel()
        assert stats.kstest(values, law.cdf).pvalue > 1e-6, name
        shifted = stats.kstest(1.15 * values, law.cdf).pvalue
        assert name != "sigma" or shifted < 1e-3  # what the test sees
    k = drawn.draws["k"][:, ::10].ravel()
    share = np.exp(0.7) / (2.0 + np.exp(0.7))
    assert stats.binomtest(int((k == 2).sum()), k.size, share).pvalue > 1e-6
    assert drawn.meta["law"] == "prior" and drawn.shape == (4, 2000)


def of_groups(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2


def of_site(state, site):
    return -0.5 * (state.a[site] / 3.0) ** 2


def test_sites_are_drawn_and_keep_their_names():
    group = pd.Categorical(np.tile(["x", "y", "z", "w"], 50))
    given = sm.Model(
        of_groups, pd.DataFrame({"y": Y, "group": group}), {"a": np.zeros(4)},
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip
    trace = sm.prior(given, 500, seed=2, progress=False)
    assert trace["a"].dims == ("chain", "draw", "group")
    values = trace.draws["a"][:, ::5].reshape(-1, 4)
    for site in range(4):
        assert stats.kstest(values[:, site], stats.norm(0.0, 3.0).cdf).pvalue > 1e-6


def test_predictions_before_there_are_data(drawn):
    found = sm.predict(model(), drawn, simulate, draws=100, seed=3, progress=False)
    groups = found.to_arviz()
    assert groups["prior_predictive"]["y"].shape == (4, 100, 200)
    assert "posterior" not in list(groups) and groups["prior"]["mu"].shape == (4, 100)
    # Of one draw all data share mu and sigma: the mean of them has variance 4 and a little.
    means = found.values[""].mean(axis=2)
    assert abs(means.mean() - 1.0) < 6.0 * 2.1 / 400**0.5 and 1.5 < means.std() < 2.6
    assert "prior" in list(drawn.to_arviz())


def test_posteriors_are_not_made_of_them(drawn, tmp_path):
    with pytest.raises(ValueError, match=r"from the prior: sm\.loo is of a posterior"):
        sm.loo(model(), drawn)
    drawn.save(tmp_path / "run.nc")
    assert sm.load(tmp_path / "run.nc").meta["law"] == "prior"
    kernel = sm.Slice("mu") >> sm.Slice("sigma") >> sm.Slice("w") >> sm.Gibbs("k")
    with pytest.raises(ValueError, match="law"):
        sm.resume(tmp_path / "run.nc", model(), kernel, 3000)


# -------------------------------------------------------------------------------- what is refused
def flat_in_mu(state):
    return 2.0 * sm.log(state.sigma[0]) - 2.0 * state.sigma[0]


def jeffreys(state):
    return -0.5 * state.mu[0] ** 2 - sm.log(state.sigma[0])


def nearly(state):  # flat in sigma itself, on all positive numbers
    return -0.5 * state.mu[0] ** 2


def cauchy(state):
    sigma = state.sigma[0]
    return -sm.log1p(state.mu[0] ** 2) - sm.log1p((sigma / 5.0) ** 2)


def huge(state):
    return -0.5 * (state.mu[0] / 1e6) ** 2 - state.sigma[0]


def bounded(state):
    return -np.inf if abs(state.mu[0]) > 50.0 else -state.sigma[0]


@pytest.mark.parametrize(("function", "what"), [
    (None, "mu grows"), (flat_in_mu, "mu grows"), (jeffreys, "sigma grows"),
    (nearly, "sigma grows"), (cauchy, None), (huge, None), (bounded, None),
])  # fmt: skip
def test_flat_priors_are_refused_and_wide_ones_are_not(function, what):
    given = sm.Model(log_likelihood, {"y": Y}, {"mu": 0.0, "sigma": 1.0}, function,
                     constraints={"sigma": sm.positive})  # fmt: skip
    if what is None:
        trace = sm.prior(given, 500, seed=1, progress=False)
        assert np.isfinite(trace.draws["mu"]).all()
    else:
        with pytest.raises(ValueError, match=f"the prior is flat, or nearly so, where {what}"):
            sm.prior(given, 500, seed=1, progress=False)


def differences(state):
    total = 0.0
    for i in range(4):
        total -= 0.5 * (state.b[i + 1] - state.b[i]) ** 2
    return total


def between_blocks(state):
    return -0.5 * (state.mu[0] + state.b[0]) ** 2 - 0.5 * (state.b[1] - state.b[0]) ** 2


def skew(state):
    return -0.5 * (state.b[0] - 3.0 * state.b[1]) ** 2


def of_b(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] - state.mu[0]) ** 2


@pytest.mark.parametrize(("function", "start", "words"), [
    (differences, {"b": np.zeros(5)}, "all components of b move together"),
    (between_blocks, {"mu": 0.0, "b": np.zeros(2)}, "blocks move together"),
    (skew, {"b": np.zeros(2)}, "chains on the prior alone do not agree about b"),
])  # fmt: skip
def test_flat_directions_are_refused(function, start, words):
    def of_first(state, data, n):
        return -0.5 * (data.y[n] - state.b[0]) ** 2

    given = sm.Model(of_first, {"y": Y}, start, function)
    with pytest.raises(ValueError, match=words):
        sm.prior(given, 300, seed=1, progress=False)


def test_models_that_bring_terms_of_their_own_are_refused():
    arch = sm.models.arch.ARCH(sm.models.arch.example_returns(60), (2, 3))
    with pytest.raises(ValueError, match="log_prior is not the whole prior"):
        sm.prior(arch)
    none = sm.Model(None, {"y": Y}, {"z": np.zeros(200, int)}, support={"z": 2})
    with pytest.raises(ValueError, match="log_prior is not the whole prior"):
        sm.prior(none)
    with pytest.raises(ValueError, match="needs two or more"):
        sm.prior(model(), chains=1)
    padded = sm.Model(
        lambda state, data, n: data.y[n] * state.t[0], {"y": Y}, {"q": 0, "t": np.zeros(2)},
        lambda state: -(state.t[0] ** 2), support={"q": 2}, lengths={"t": ("q", [1, 2])},
    )  # fmt: skip
    with pytest.raises(ValueError, match="block 't' varies in length"):
        sm.prior(padded)


@pytest.mark.slow
def test_a_centred_hierarchy_that_starts_at_its_mean_is_no_flat_prior():
    """There alone its density has no end as the scale falls to 0; it is that of a law."""
    sites = 30

    def seen(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2

    def of_site(state, i):
        z = (state.a[i] - state.mean[0]) / state.tau[0]
        return -0.5 * z * z - sm.log(state.tau[0])

    def model(prior):
        data = {"y": np.zeros(60), "group": np.arange(60) % sites}
        return sm.Model(
            seen, data, {"a": np.zeros(sites), "mean": 0.0, "tau": 1.0}, prior,
            constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_site},
        )  # fmt: skip

    proper = model(lambda state: -0.5 * state.mean[0] ** 2 - state.tau[0])
    trace = sm.prior(proper, 2_000, seed=1, progress=False, kernel=(
        sm.Slice("a") >> sm.Slice("mean") >> sm.Slice("tau")
        >> sm.interweave("a", location="mean", scale="tau")
    ))  # fmt: skip
    equal_in_law = stats.kstest(np.exp(-trace.draws["tau"][:, ::50].ravel()), "uniform")
    assert equal_in_law.pvalue > 1e-6
    for flat in (lambda state: -state.tau[0], lambda state: -0.5 * state.mean[0] ** 2):
        with pytest.raises(ValueError, match=r"the prior is flat|do not agree"):
            sm.prior(model(flat), 50, seed=1, progress=False)


WAYS = ("log", "softplus", "squareroot", "cuberoot")


def of_a_scale(way, power):
    """A gamma density of shape power + 1: a law where that is above 0."""
    return sm.Model(
        lambda state, data, n: -data.y[n] ** 2 / state.t[0], {"y": Y}, {"t": 1.0},
        lambda state: power * np.log(state.t[0]) - state.t[0],
        constraints={"t": sm.positive(way)},
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("power", [2.0, -0.5])
def test_positive_numbers_in_all_coordinates_have_their_law(way, power):
    """By Kolmogorov and Smirnov; a false alarm in 10^6."""
    drawn = sm.prior(of_a_scale(way, power), 2000, seed=1, progress=False)
    values = drawn.draws["t"][:, ::10].ravel()
    assert stats.kstest(values, stats.gamma(power + 1.0).cdf).pvalue > 1e-6
    assert stats.kstest(1.6 * values, stats.gamma(power + 1.0).cdf).pvalue < 1e-6


@pytest.mark.plain
@pytest.mark.parametrize("way", WAYS)
def test_no_law_has_a_density_that_rises_so_towards_0(way):
    with pytest.raises(ValueError, match="flat, or nearly so, where t falls"):
        sm.prior(of_a_scale(way, -1.0), progress=False)


def test_chains_that_disagree_are_refused_whatever_their_ess(monkeypatch):
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[0]) ** 2, {"y": np.zeros(3)},
        {"a": 0.0}, lambda state: -0.5 * state.a[0] ** 2,
    )  # fmt: skip
    told = SimpleNamespace(sites=1, ess=500.0, rhat=1.2, slowest="a")
    drawn = SimpleNamespace(mixing=lambda name: told)
    monkeypatch.setattr(prior, "sample", lambda *given, **more: drawn)
    with pytest.raises(ValueError, match=r"do not agree about a: R-hat is 1\.200, with 500 eff"):
        sm.prior(model, draws=1_000, chains=8, seed=1, progress=False)
