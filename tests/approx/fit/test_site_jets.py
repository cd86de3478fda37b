"""Derivatives of sites' data, and fits by them, against formulas and against differences."""

import math
import sys

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import marginal as marginals
from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.marginal import Marginal, MarginalByJets, marginal_of
from subsample_mcmc.approx.taylor.derivatives_jets import NotSmoothError
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.numerics.progress import Bar

pytestmark = pytest.mark.skipif(DISABLED, reason="jets are compiled for fits of sites alone")
SITES, ROWS = 60, 500


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    monkeypatch.setattr(marginals, "WORTH", 0)


def rates(state, data, n):
    """Counts: two numbers of a site, and a slope and an offset that all data see."""
    g = data.group[n]
    eta = state.a[g, 0] * data.x[n] + state.b[g] * data.w[n]
    if g >= 0:
        eta += state.slope[0] * data.v[n] + state.slope[1] * data.q[n]
    return data.y[n] * eta - sm.exp(eta)


def of_a(state, g):
    z = (state.a[g, 0] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def of_b(state, g):
    return -sm.log(1.0 + (state.b[g] - 0.2 * state.a[g, 0]) ** 2) - 0.3 * state.b[g] ** 2


def of_positive(state, g):
    """The same of log b."""
    b = sm.log(state.b[g])
    return -sm.log(1.0 + (b - 0.2 * state.a[g, 0]) ** 2) - 0.3 * b**2 - b


def rates_of_positive(state, data, n):
    g = data.group[n]
    eta = state.a[g, 0] * data.x[n] + sm.log(state.b[g]) * data.w[n]
    eta += state.slope[0] * data.v[n] + state.slope[1] * data.q[n]
    return data.y[n] * eta - sm.exp(eta)


def log_prior(state):
    slope = state.slope[0] ** 2 + state.slope[1] ** 2
    return -0.5 * (state.mu[0] ** 2 / 4.0 + slope + state.tau[0] ** 2)


def data_of(rng):
    numbers = dict(zip("xwvq", 0.5 * rng.standard_normal((4, ROWS)), strict=True))
    group = rng.integers(SITES - 1, size=ROWS)  # the last site is empty
    return numbers | {"group": group, "y": rng.poisson(1.5, ROWS).astype(float)}


def model_of(data, likelihood=rates, positive=False):
    """Sites of a, of one column, and of b."""
    constraints = {"tau": sm.positive} | ({"b": sm.positive} if positive else {})
    state = {
        "a": np.zeros((SITES, 1)), "b": np.full(SITES, float(positive)), "mu": 0.1, "tau": 0.8,
        "slope": np.zeros(2),
    }  # fmt: skip
    return sm.Model(
        rates_of_positive if positive else likelihood, data, state, log_prior,
        constraints=constraints, touches={"a": "group", "b": "group"},
        site_prior={"a": of_a, "b": of_positive if positive else of_b},
    )  # fmt: skip


NAMES, POINT = ("mu", "tau", "slope"), np.array([0.2, -0.4, 0.1, -0.2])


def density_of(model, jets=True) -> Marginal:
    with Bar(desc="", delay=1e9) as bar:
        return marginal_of(model, Coordinates(model, None, {}), ("a", "b"), NAMES, bar, jets)


def test_derivatives_of_sites_are_those_of_a_formula(rng):
    """All of them of y eta - exp(eta): products of columns, times one number of each row."""
    data = data_of(rng)
    found = density_of(model_of(data))
    assert isinstance(found, MarginalByJets) and len(found.sites.seen) == 2
    found.put(POINT)
    u = 0.3 * rng.standard_normal((SITES, 2))
    t, g = found.sites.expand(u), data["group"]
    own = np.stack([data["x"], data["w"]], axis=1)
    other = np.stack([data["v"], data["q"]], axis=1)
    rate = np.exp((own * u[g]).sum(axis=1) + other @ POINT[2:])

    def by_site(each):
        total = np.zeros((SITES, *each.shape[1:]))
        np.add.at(total, g, each)
        return total

    def times(*columns):
        letters = "abcd"[: len(columns)]
        what = ",".join(f"n{letter}" for letter in letters)
        return np.einsum(f"n,{what}->n{letters}", -rate, *columns)

    close = {"rtol": 1e-9, "atol": 1e-9}
    assert np.allclose(t.first, by_site((data["y"] - rate)[:, None] * own), **close)
    assert np.allclose(t.second, by_site(times(own, own)), **close)
    assert np.allclose(t.third, by_site(times(own, own, own)), **close)
    assert np.allclose(t.mixed, by_site(times(own, other)), **close)
    assert np.allclose(t.bent, by_site(times(own, own, other)), **close)
    assert np.allclose(t.others, (data["y"] - rate) @ other, **close)
    assert np.allclose(t.curved, times(other, other).sum(axis=0), **close)
    dx = 1e-2 * rng.standard_normal((SITES, 2))
    for ds, close in ((np.zeros(2), 2e-6), (np.array([1e-2, -2e-2]), 2e-4)):
        there = np.exp((own * (u + dx)[g]).sum(axis=1) + other @ (POINT[2:] + ds))
        step = (own * dx[g]).sum(axis=1) + other @ ds
        wanted = np.sum(data["y"] * step - there + rate)
        assert t.rise(dx, ds) == pytest.approx(wanted, abs=close)
        first, second = t.near(dx, ds)
        each = by_site(np.einsum("n,na,nb->nab", -there, own, own))
        assert np.allclose(first, by_site((data["y"] - there)[:, None] * own), atol=4e-3)
        assert np.allclose(second, each, atol=1e-2)
        assert not np.allclose(t.second, each, atol=1e-2)  # so the third ones are used


@pytest.mark.parametrize("positive", [False, True])
def test_the_density_around_a_point_is_that_by_differences(rng, positive):
    """Value, gradient and Hessian, far from the mode; the Hessian needs fourth derivatives."""
    model = model_of(data_of(rng), positive=positive)
    found = []
    for jets in (True, False):
        density = density_of(model, jets)
        assert isinstance(density, MarginalByJets) is jets
        density.at(POINT, density.u, learn=True)
        now = density.around(POINT, None)
        found.append(density.sharpened(density.around(POINT, now)))
        if jets:
            third = now.curvature
            follow = density.follow.slopes
    one, two = found
    sd = np.sqrt(np.diag(np.linalg.inv(two.curvature)))
    assert one.value == pytest.approx(two.value, abs=2e-3)
    assert np.all(np.abs(one.gradient - two.gradient) * sd < 5e-3)
    scaled = np.outer(sd, sd)
    assert np.all(np.abs(one.curvature - two.curvature) * scaled < 5e-3)
    assert np.any(np.abs(third - two.curvature) * scaled > 5e-3)  # so they are not idle
    for j in range(4):
        step = 1e-3 * np.eye(4)[j]
        ends = [density.at(POINT + sign * step, density.u)[1].u for sign in (1.0, -1.0)]
        assert np.allclose(follow[:, :, j], (ends[0] - ends[1]) / 2e-3, atol=1e-3)


def test_fits_by_jets_are_fits_by_differences(rng, monkeypatch):
    model = model_of(data_of(rng))
    one = sm.laplace(model, tolerance=1e-5)
    monkeypatch.setattr(marginals, "WORTH", math.inf)
    two = sm.laplace(model, tolerance=1e-5)
    sd = np.sqrt(np.diag(two.common.covariance))
    assert np.all(np.abs(one.common.mean - two.common.mean) < 5e-3 * sd)
    apart = (one.common.covariance - two.common.covariance) / np.outer(sd, sd)
    assert np.abs(apart).max() < 1e-2
    assert np.allclose(one.modes, two.modes, atol=2e-3)
    assert np.allclose(one.covariances, two.covariances, rtol=1e-2, atol=1e-4)
    for name in ("a", "b"):
        assert np.allclose(one.sites(name)[1], two.sites(name)[1], rtol=1e-2, atol=1e-4)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-2)
    # Rows are what large models wait for: a pass is one of them, a likelihood or eight lines.
    assert one.passes < 300
    assert two.passes > 2_000


def kinked(state, data, n):
    g = data.group[n]
    eta = state.a[g, 0] + state.b[g] * data.w[n] + state.slope[0] * data.v[n]
    return -abs(data.y[n] - eta) - 0.5 * (data.y[n] - eta) ** 2


def test_likelihoods_with_kinks_are_left_to_differences(rng, monkeypatch):
    """Jets know nothing of a kink in the next row's way: the fit is that of differences."""
    smooth, bent = (density_of(model_of(data_of(rng), each)) for each in (rates, kinked))
    smooth.check_smooth()
    with pytest.raises(NotSmoothError):  # y - eta is 0 for some row, within a hundredth of a sd
        bent.check_smooth()

    def no(self):
        raise NotSmoothError("kinks")

    model = model_of(data_of(rng))
    monkeypatch.setattr(MarginalByJets, "check_smooth", no)
    one = sm.laplace(model)
    monkeypatch.setattr(marginals, "WORTH", math.inf)
    assert np.array_equal(one.modes, sm.laplace(model).modes)


def kinked_along_slope(state, data, n):
    """Smooth in what a site has, but not in what all data see: a median of a column."""
    return rates(state, data, n) - abs(state.slope[0] - data.v[n])


@pytest.mark.slow
def test_kinks_along_what_all_data_see_are_left_to_differences(rng, monkeypatch):
    """Jets see no curvature of a median, and the fit had the sd of the prior alone."""
    monkeypatch.setattr(sys.modules[__name__], "ROWS", 5_000)
    data = data_of(rng)
    smooth, bent = (density_of(model_of(data, each)) for each in (rates, kinked_along_slope))
    for density in (smooth, bent):
        density.at(POINT, density.u, learn=True)
        density.around(POINT, None)
        density.sites.check_smooth(density.u)
    smooth.check_smooth()
    with pytest.raises(NotSmoothError, match="along what all data see"):
        bent.check_smooth()
    model = model_of(data, kinked_along_slope)
    one = sm.laplace(model)
    monkeypatch.setattr(marginals, "WORTH", math.inf)
    assert np.array_equal(one.modes, sm.laplace(model).modes)


def squares(state, data, n):
    return -2.0 * (data.y[n] - state.a[data.group[n]] ** 2) ** 2


def of_root(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def test_a_site_whose_curvature_changes_sign_nearby_does_not_end_the_search(monkeypatch):
    """Of y = a^2 + noise near a = 0: the logarithm of a curvature beside the mode was none."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(100), 30)
    root = 1.0 + 0.5 * rng.standard_normal(100)
    root[0] = 0.1
    y = root[group] ** 2 + 0.5 * rng.standard_normal(3_000)
    y[:30] += 0.0065 - y[:30].mean()  # at the start a mode at .05, and a curvature of 1
    model = sm.Model(
        squares, {"y": y, "group": group}, {"a": np.full(100, 0.5), "mu": 0.0, "tau": 1.0},
        lambda state: -state.tau[0] - state.mu[0] ** 2 / 18.0, constraints={"tau": sm.positive},
        touches={"a": "group"}, site_prior={"a": of_root},
    )  # fmt: skip
    fits = []
    for worth in (0, math.inf):
        monkeypatch.setattr(marginals, "WORTH", worth)
        fits.append(sm.laplace(model))
    one, two = fits
    assert one.passes < two.passes
    sd = np.sqrt(np.diag(two.common.covariance))
    assert np.all(np.abs(one.common.mean - two.common.mean) < 5e-3 * sd)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-2)


def two_of_a_site(state, data, n):
    z = data.y[n] - state.a[data.group[n], 0] - state.a[data.group[n], 1] * state.c[0]
    return -2.0 * z * z


def of_two(state, g):
    square = state.a[g, 0] ** 2 + state.a[g, 1] ** 2
    return -0.5 * square / state.tau[0] ** 2 - 2.0 * sm.log(state.tau[0])


def test_a_ridge_of_what_multiplies_all_sites_is_followed():
    """Data know tau^2 (1 + c^2): without fourth derivatives the search creeps, and finds no mode.

    Sites are normal given c and tau, so the density of these is known.
    """
    rng = np.random.default_rng(0)
    group = rng.integers(100, size=1_500)
    y = 0.7 * rng.standard_normal(100)[group] + 0.5 * rng.standard_normal(1_500)
    model = sm.Model(
        two_of_a_site, {"y": y, "group": group}, {"a": np.zeros((100, 2)), "c": 1.0, "tau": 1.0},
        lambda state: -state.tau[0] - state.c[0] ** 2, constraints={"tau": sm.positive},
        touches={"a": "group"}, site_prior={"a": of_two},
    )  # fmt: skip
    count, total = np.bincount(group), np.bincount(group, y)

    def density(c, log_tau):
        wide = np.exp(2.0 * log_tau) * (1.0 + c * c)
        both = 0.25 + count * wide
        data = np.sum(2.0 * wide * total**2 / both - 0.5 * np.log(both))
        return data - np.exp(log_tau) + log_tau - c * c

    common = sm.laplace(model).common
    at, h = common.mean, 1e-3
    bent = [
        (density(*(at + step)) + density(*(at - step)) - 2.0 * density(*at)) / h**2
        for step in h * np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    ]
    across = 0.5 * (bent[2] - bent[0] - bent[1])
    wanted = np.linalg.inv(-np.array([[bent[0], across], [across, bent[1]]]))
    assert abs(at[0]) < 1e-2
    assert np.allclose(np.sqrt(np.diag(common.covariance)), np.sqrt(np.diag(wanted)), rtol=1e-2)


def test_a_search_that_differences_cannot_end_is_ended_by_jets(rng, monkeypatch):
    """Of few data differences go first; their rounding may look like a density without a mode."""

    def never(*_):
        raise ValueError("no posterior mode was found")

    model = model_of(data_of(rng))
    one = sm.laplace(model)
    monkeypatch.setattr(marginals, "WORTH", math.inf)
    monkeypatch.setattr(Marginal, "rises", never)
    assert np.array_equal(one.modes, sm.laplace(model).modes)
    monkeypatch.setattr(MarginalByJets, "around", never)
    with pytest.raises(ValueError, match="no posterior mode"):
        sm.laplace(model)


def test_a_search_does_not_stay_where_sites_have_no_modes(rng):
    """A start at a scale far too small: Newton's first steps lead where nothing is finite."""
    model = model_of(data_of(rng))
    near = sm.laplace(model, tolerance=1e-5)
    far = sm.laplace(model, given={"tau": 0.02, "mu": 2.0}, tolerance=1e-5)
    sd = np.sqrt(np.diag(near.common.covariance))
    assert np.all(np.abs(near.common.mean - far.common.mean) < 1e-2 * sd)
