"""Fits of many sites and of what they have in common: normal hierarchies, whose laws are known."""

import math
import pickle

import numpy as np
import pytest
from scipy import optimize, stats

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import marginal
from subsample_mcmc.approx.fit.hierarchy import HierarchyFit
from subsample_mcmc.approx.fit.sites import Sites
from subsample_mcmc.errors import RewardError
from tests.helpers.laws import draws_have_the_law

SITES, SIGMA = 40, 1.3
LOG_2PI = math.log(2.0 * math.pi)


@pytest.fixture(params=["jets", "differences"])
def way(request, monkeypatch):
    """Fits by derivatives of the data, and by differences of the density: both must be right."""
    monkeypatch.setattr(marginal, "WORTH", 0 if request.param == "jets" else math.inf)
    return request.param


# ------------------------------------------------------------------------- a normal hierarchy
def normal(state, data, n):
    g = data.group[n]
    eta = state.a[g, 0] + state.a[g, 1] * data.x[n] + state.b[g] * data.w[n]
    z = (data.y[n] - eta - state.slope[0] * data.v[n]) / SIGMA
    return -0.5 * z * z


def of_a(state, g):  # two numbers, correlated
    one, two = (state.a[g, 0] - state.mu[0]) / state.tau[0], state.a[g, 1]
    return -0.5 * (one * one + two * two + 0.6 * one * two) - math.log(state.tau[0])


def of_b(state, g):
    return -0.5 * (state.b[g] - 0.3 * state.a[g, 0]) ** 2  # which sees the same site of a


def log_prior(state):
    return -0.5 * (state.mu[0] ** 2 / 4.0 + state.slope[0] ** 2 + state.tau[0] ** 2)


def data_of(rng, rows=200):
    group = rng.integers(SITES - 2, size=rows)  # two sites are empty
    group[rng.random(rows) < 0.3] = 3  # and one has many
    return {
        "group": group, "x": rng.standard_normal(rows), "w": rng.standard_normal(rows),
        "v": rng.standard_normal(rows), "y": 1.0 + 2.0 * rng.standard_normal(rows),
    }  # fmt: skip


def model_of(data, log_likelihood=normal, prior=log_prior, **more):
    given = {
        "constraints": {"tau": sm.positive}, "touches": {"a": "group", "b": "group"},
        "site_prior": {"a": of_a, "b": of_b},
    } | more  # fmt: skip
    state = {
        "slope": 0.0, "a": np.zeros((SITES, 2)), "mu": 0.0, "b": np.zeros(SITES), "tau": 0.7,
    }  # fmt: skip
    return sm.Model(log_likelihood, data, state, prior, **given)


class Known:
    """Mean, covariance and log integral of slope, a, mu, b given tau: all is normal."""

    def __init__(self, data, tau):
        rows, size = len(data["y"]), 3 * SITES + 2
        self.slope, self.a = 0, 1 + np.arange(2 * SITES).reshape(SITES, 2)
        self.mu, self.b = 1 + 2 * SITES, 2 + 2 * SITES + np.arange(SITES)
        design, every, g = np.zeros((rows, size)), np.arange(rows), data["group"]
        design[:, self.slope], design[every, self.a[g, 0]] = data["v"], 1.0
        design[every, self.a[g, 1]], design[every, self.b[g]] = data["x"], data["w"]
        p = design.T @ design / SIGMA**2
        p[self.slope, self.slope] += 1.0
        p[self.mu, self.mu] += 0.25
        for i in range(SITES):
            one, two, three = np.zeros((3, size))
            one[self.a[i, 0]], one[self.mu] = 1.0 / tau, -1.0 / tau
            two[self.a[i, 1]] = 1.0
            three[self.b[i]], three[self.a[i, 0]] = 1.0, -0.3
            p += np.outer(one, one) + np.outer(two, two) + np.outer(three, three)
            p += 0.3 * (np.outer(one, two) + np.outer(two, one))
        self.covariance = np.linalg.inv(p)
        shift = design.T @ data["y"] / SIGMA**2
        self.mean = self.covariance @ shift
        height = 0.5 * shift @ self.mean - 0.5 * np.sum(data["y"] ** 2) / SIGMA**2
        self.log_density = height - 0.5 * tau**2 - SITES * math.log(tau)
        self.integral = self.log_density + 0.5 * (
            size * LOG_2PI + np.linalg.slogdet(self.covariance)[1]
        )

    def at(self, names):
        """Places of some blocks."""
        return np.concatenate([np.ravel(getattr(self, name)) for name in names])


BLOCKS = ("slope", "a", "mu", "b")


@pytest.mark.plain
def test_a_normal_hierarchy_given_its_scale_is_fitted_exactly(way, rng):
    """Against the dense Gaussian: means, covariances of any blocks, evidence, densities."""
    data = data_of(rng)
    fit, known = sm.laplace(model_of(data), BLOCKS), Known(data, 0.7)
    assert isinstance(fit, HierarchyFit) and fit.local == ("a", "b")
    assert fit.common.blocks == ("slope", "mu") and fit.blocks == BLOCKS
    for names in (("mu",), ("slope", "mu"), ("b", "mu", "a"), BLOCKS):
        mean, covariance = fit.gaussian(names)
        at = known.at(names)
        assert np.allclose(mean, known.mean[at], atol=1e-6)
        assert np.allclose(covariance, known.covariance[np.ix_(at, at)], atol=1e-6, rtol=1e-5)
    for name in ("a", "b"):
        mean, covariance = fit.sites(name)
        for g in (0, 3, SITES - 1):
            at = np.atleast_1d(getattr(known, name)[g])
            assert np.allclose(mean[g], known.mean[at], atol=1e-6)
            assert np.allclose(covariance[g], known.covariance[np.ix_(at, at)], rtol=1e-5)
    assert fit.log_density == pytest.approx(known.log_density, abs=1e-6)
    assert fit.log_evidence == pytest.approx(known.integral, abs=1e-5)
    state = fit.draw(rng)
    assert list(state) == list(BLOCKS) and state["a"].shape == (SITES, 2)
    x = np.concatenate([np.ravel(state[name]) for name in BLOCKS])
    law = stats.multivariate_normal(known.mean, known.covariance)
    assert fit.log_prob(state) == pytest.approx(law.logpdf(x), abs=1e-3)


def test_draws_have_the_law_of_the_fit(rng):
    fit = sm.laplace(model_of(data_of(rng)), BLOCKS)
    draws_have_the_law(fit, BLOCKS, 2_000, rng)


@pytest.mark.plain
def test_sites_alone_are_fitted_given_the_rest(rng):
    """Of a and b alone: what they have in common stands still where it is given."""
    data = data_of(rng)
    fit = sm.laplace(model_of(data), ("a", "b"), given={"mu": 0.4, "slope": -0.2})
    assert fit.common is None and fit.state["mu"] == 0.4
    known = Known(data, 0.7)
    p = np.linalg.inv(known.covariance)
    at, held = known.at(("a", "b")), known.at(("mu", "slope"))
    covariance = np.linalg.inv(p[np.ix_(at, at)])
    moved = p[np.ix_(at, held)] @ (np.array([0.4, -0.2]) - known.mean[held])
    mean, found = fit.gaussian(("a", "b"))
    assert np.allclose(mean, known.mean[at] - covariance @ moved, atol=1e-6)
    assert np.allclose(found, covariance, rtol=1e-5, atol=1e-8)
    x = np.append(known.mean[held], mean)
    x[:2] = 0.4, -0.2
    order = np.append(held, at)
    away = x - known.mean[order]
    height = known.log_density - 0.5 * away @ p[np.ix_(order, order)] @ away
    assert fit.log_density == pytest.approx(height, abs=1e-6)
    volume = 0.5 * (len(at) * LOG_2PI + np.linalg.slogdet(covariance)[1])
    assert fit.log_evidence == pytest.approx(height + volume, abs=1e-6)
    assert "given the rest of the state" in repr(fit)


@pytest.mark.slow_for("differences")
def test_the_scale_is_fitted_to_its_own_density(way, rng):
    """tau, of which the joint density has no mode: its law with all else integrated out is known.

    It is a mode of slope, mu and log tau, whose density is that of tau times a Gaussian.
    """
    data = data_of(rng)
    fit = sm.laplace(model_of(data), tolerance=1e-5)

    mean, covariance = fit.gaussian("tau")
    mode, sd = mode_of_scale(data)
    assert mean[0] == pytest.approx(mode, abs=1e-3 * sd)
    assert covariance[0, 0] ** 0.5 == pytest.approx(sd, rel=5e-3)
    assert fit.common.coordinates.size == 3 and "no mode" in repr(fit)


def mode_of_scale(data):
    """(mode, sd) of log tau in the density of slope, mu and log tau, from the dense Gaussian."""

    def density(z):
        known = Known(data, math.exp(z[2]))
        at = known.at(("slope", "mu"))
        law = stats.multivariate_normal(known.mean[at], known.covariance[np.ix_(at, at)])
        return known.integral + z[2] + law.logpdf(z[:2])

    found = optimize.minimize(
        lambda z: -density(z), [0.0, 0.5, -0.3], method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-8, "maxiter": 4_000},
    )  # fmt: skip
    z, h = found.x, 0.01
    hessian = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            e, f = h * np.eye(3)[i], h * np.eye(3)[j]
            hessian[i, j] = (
                density(z + e + f) - density(z + e - f) - density(z - e + f) + density(z - e - f)
            ) / (4.0 * h * h)
    return z[2], np.linalg.inv(-hessian)[2, 2] ** 0.5


# ------------------------------------------------------------------------------ counts, and rates
def poisson(state, data, n):
    rate = state.a[data.group[n]] + state.slope[0] * data.x[n]
    return data.y[n] * rate - sm.exp(rate)


def poisson_of_rates(state, data, n):
    """The same, of exp(a)."""
    rate = state.a[data.group[n]] * sm.exp(state.slope[0] * data.x[n])
    return data.y[n] * sm.log(rate) - rate


def of_intercept(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def of_rate(state, g):
    z = (sm.log(state.a[g]) - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0]) - sm.log(state.a[g])


def counts(rng, rates=False, sites=100, rows=800):
    group, x = rng.integers(sites, size=rows), rng.standard_normal(rows)
    more = {"other": (group + 1) % sites, "tens": rng.integers(10, size=rows)}
    a = 0.2 + 0.6 * rng.standard_normal(sites)
    y = rng.poisson(np.exp(a[group] + 0.3 * x)).astype(float)
    given = {
        "constraints": {"tau": sm.positive} | ({"a": sm.positive} if rates else {}),
        "touches": {"a": "group"}, "site_prior": {"a": of_rate if rates else of_intercept},
    }  # fmt: skip
    return sm.Model(
        poisson_of_rates if rates else poisson, {"y": y, "x": x, "group": group} | more,
        {"a": np.full(sites, float(rates)), "slope": 0.0, "mu": 0.0, "tau": 1.0}, log_prior,
        **given,
    )  # fmt: skip


def laplace_of_counts(model):
    """density(slope, mu, log tau): sites taken out one by one, by derivatives known on paper."""
    data = {name: np.asarray(getattr(model.data, name)) for name in ("y", "x", "group")}
    sites = model.variables["a"].sites
    total = np.bincount(data["group"], data["y"], minlength=sites)

    def density(z):
        slope, mu, tau = z[0], z[1], math.exp(z[2])
        weight = np.bincount(data["group"], np.exp(slope * data["x"]), minlength=sites)
        a = np.full(sites, mu)
        for _ in range(60):
            rate = weight * np.exp(a)
            a += np.clip((total - rate - (a - mu) / tau**2) / (rate + tau**-2), -1.0, 1.0)
        rate = weight * np.exp(a)
        value = total @ a + slope * (data["x"] @ data["y"]) - rate.sum()
        value -= 0.5 * np.sum((a - mu) ** 2) / tau**2 + sites * z[2]
        value -= 0.5 * np.sum(np.log(rate + tau**-2)) - 0.5 * sites * LOG_2PI
        return value - 0.5 * (mu**2 / 4.0 + slope**2 + tau**2) + z[2]

    return density


def test_counts_are_fitted_as_on_paper(way, rng):
    model = counts(rng)
    density = laplace_of_counts(model)
    found = optimize.minimize(
        lambda z: -density(z), [0.0, 0.0, 0.0], method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-8, "maxiter": 4_000},
    )  # fmt: skip
    fit = sm.laplace(model, tolerance=1e-5)
    sd = np.sqrt(np.diag(fit.common.covariance))
    assert np.all(np.abs(fit.common.mean - found.x) < 2e-3 * sd)
    assert fit.common.log_density == pytest.approx(-found.fun, abs=1e-3)
    h = 0.05 * sd
    ends = [density(found.x + sign * h * e) for e in np.eye(3) for sign in (1.0, -1.0)]
    bend = (2.0 * -found.fun - np.add.reduceat(ends, [0, 2, 4])) / h**2
    assert np.allclose(bend, np.diag(np.linalg.inv(fit.common.covariance)), rtol=5e-3)


def test_sites_may_be_positive(way, rng):
    """Rates exp(a) have the fit of a: the same numbers in free coordinates, and in densities."""
    seed = int(rng.integers(2**31))
    one, two = (
        sm.laplace(counts(np.random.default_rng(seed), rates), tolerance=1e-6)
        for rates in (False, True)
    )
    assert np.allclose(one.modes, two.modes, atol=1e-6)
    assert np.allclose(one.covariances, two.covariances, rtol=1e-4)
    assert np.allclose(np.log(two.state["a"]), one.state["a"], atol=1e-6)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-4)
    state = two.draw(rng)
    assert (state["a"] > 0.0).all()
    jacobian = np.log(state["a"]).sum()
    same = one.log_prob(state | {"a": np.log(state["a"])}) - jacobian
    assert two.log_prob(state) == pytest.approx(same, abs=1e-2)
    assert two.log_prob(state | {"a": -state["a"]}) == -np.inf
    sd = two.to_frame()["sd"]
    want = two.state["a"] * np.sqrt(two.sites("a")[1][:, 0, 0])
    assert np.allclose(sd[[f"a[{g}]" for g in range(100)]], want)


def test_small_hierarchies_without_a_mode_are_fitted_as_well(way, rng):
    """Few sites with few data: the joint search goes where the scale is 0, and finds no mode."""
    model = counts(rng, sites=12, rows=20)
    fit = sm.laplace(model)
    assert isinstance(fit, HierarchyFit) and fit.common.blocks == ("slope", "mu", "tau")
    assert isinstance(sm.laplace(model, ("a", "slope")), sm.Fit)  # which has one, and stays dense


def test_a_fit_can_be_stored_and_shown(rng):
    fit = sm.laplace(counts(rng))
    again = pickle.loads(pickle.dumps(fit))
    assert np.array_equal(again.modes, fit.modes)
    assert "100 sites of 1 numbers" in repr(fit) and "slope" in fit._repr_html_()
    with pytest.raises(ValueError, match="was not fitted"):
        fit.gaussian("z")
    with pytest.raises(ValueError, match="no sites that were fitted"):
        fit.sites("mu")
    with pytest.raises(TypeError, match="too many numbers to expand"):
        sm.Taylor(fit)
    with pytest.raises(ValueError, match="log_prob needs"):
        fit.log_prob({"mu": 0.0})


# ----------------------------------------------------------------------------------- refusals
def sees_the_next(state, data, n):
    return poisson(state, data, n) + 0.1 * state.a[(data.group[n] + 1) % 100]


def of_neighbours(state, g):
    return of_intercept(state, g) + 0.1 * state.a[(g + 1) % 100]


def of_products(state, g):  # of sites that begin at 0
    return of_intercept(state, g) + 0.1 * state.a[g] * state.a[(g + 1) % 100]


def with_sites(state):
    return log_prior(state) - 0.1 * state.a[4] ** 2


def of_d(state, h):
    return -0.5 * state.d[h] ** 2


def with_d(state, data, n):
    eta = state.a[data.group[n]] + state.d[data.tens[n]] + state.slope[0] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def with_prior_of_d(state):
    value = log_prior(state)
    for h in range(10):
        value -= 0.5 * state.d[h] ** 2
    return value


@pytest.mark.slow
@pytest.mark.slow_for("differences")
def test_a_small_crossed_block_is_fitted_with_what_sites_have_in_common(way, rng):
    """Ten sites beside a hundred: with touches and a prior of each, or as any other block."""
    seed, state = int(rng.integers(2**31)), {"d": np.zeros(10)}
    one = of_counts(
        np.random.default_rng(seed), with_d, state=state,
        touches={"a": "group", "d": "tens"}, site_prior={"a": of_intercept, "d": of_d},
    )  # fmt: skip
    two = of_counts(np.random.default_rng(seed), with_d, with_prior_of_d, state=state)
    first, second = (sm.laplace(model, tolerance=1e-6) for model in (one, two))
    assert first.local == second.local == ("a",) and "d" in first.common.blocks
    assert np.allclose(first.common.mean, second.common.mean, atol=1e-6)
    assert np.allclose(first.modes, second.modes, atol=1e-6)
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-5)
    assert np.abs(first.state["d"]).max() > 0.01


def of_counts(rng, log_likelihood=poisson, prior=log_prior, state=(), **more):
    """A model of the same data."""
    given = {
        "constraints": {"tau": sm.positive}, "touches": {"a": "group"},
        "site_prior": {"a": of_intercept},
    } | more  # fmt: skip
    first = {"a": np.zeros(100), "slope": 0.0, "mu": 0.0, "tau": 1.0} | dict(state)
    return sm.Model(log_likelihood, counts(rng).data, first, prior, **given)


@pytest.mark.parametrize(
    ("match", "given"),
    [
        (r"datum \d+ is said to see a\[\d+\], but", {"log_likelihood": sees_the_next}),
        ("site_prior of site .* changes with other", {"site_prior": {"a": of_neighbours}}),
        ("site_prior of site .* changes with other", {"site_prior": {"a": of_products}}),
        ("log_prior changes with 'a', which has a site_prior", {"prior": with_sites}),
        ("whose coordinates end at 0", {"constraints": {"a": sm.positive("squareroot"),
                                                        "tau": sm.positive},
                                        "state": {"a": np.ones(100)}}),
        ("26 free coordinates .*at most 20 are fitted: name fewer", {"state": {"c": np.zeros(23)}}),
        ("datum 0 sees a", {"touches": {"a": ("group", "other")}}),
        ("too many for differences", {"site_prior": {}}),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_site_by_site_is_refused(rng, match, given):
    """Also where others than the own site matter: the fit would be wrong."""
    model = of_counts(rng, **given)
    with pytest.raises(ValueError, match=match):
        sm.laplace(model)


def test_sites_without_a_mode_are_named(rng):
    flat = of_counts(rng, site_prior={"a": lambda state, g: 0.0})
    with pytest.raises(RewardError, match=r"a\[\d+\] .*site_prior"):
        sm.laplace(flat, "a")
    nowhere = of_counts(rng, state={"a": np.full(100, 1e4)})
    with pytest.raises(RewardError, match=r"log_likelihood of datum 0 is -inf at the start"):
        sm.laplace(nowhere)


def test_steps_of_a_narrow_prior_are_forgotten_where_it_is_wide(rng):
    """Differences that see a prior of width 1e-14 see nothing elsewhere: rounding swallows them."""
    model = counts(rng)
    sites = Sites(model, ("a",), model.ints.copy(), model.floats.copy())
    tau = model.variables["tau"].block.start
    first = sites.settle(sites.free(), True)
    sites.floats[tau] = 1e-14
    sites.settle(first.u, True)
    assert sites.steps.max() < 1e-15
    sites.floats[tau] = 1.0
    again = sites.settle(first.u, True)
    assert again.usable and again.integral == pytest.approx(first.integral, abs=1e-6)
