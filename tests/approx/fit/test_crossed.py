"""Fits of crossed sites: normal models, whose laws are known, and dense Laplace of others."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import crossed, elimination
from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.hierarchy import CrossedFit
from subsample_mcmc.approx.fit.marginal import MarginalOfCrossed
from subsample_mcmc.errors import RewardError
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.runs import default_kernel
from subsample_mcmc.runs.fingerprint import spelled
from tests.helpers.laws import draws_have_the_law

LOG_2PI = math.log(2.0 * math.pi)
SITES = {"s": 50, "d": 20, "e": 4}
SIGMA = 1.2


# ---------------------------------------------------------------------- three factors, all normal
def normal(state, data, n):
    i, j = data.s[n], data.d[n]
    eta = state.b[0] + state.b[1] * data.x[n] + state.s[i, 0] + state.s[i, 1] * data.w[n]
    if j >= 0:  # some data see no site of d
        eta += state.d[j]
    z = (data.y[n] - eta - state.e[data.e[n]]) / SIGMA
    return -0.5 * z * z


def of_s(state, i):  # two numbers, correlated
    one, two = state.s[i, 0] / state.tau[0], state.s[i, 1]
    return -0.5 * (one * one + two * two + 0.6 * one * two) - sm.log(state.tau[0])


def of_d(state, i):
    return -0.5 * (state.d[i] - 0.3) ** 2 / state.nu[0] ** 2 - sm.log(state.nu[0])


def of_e(state, i):
    return -0.5 * state.e[i] ** 2


def log_prior(state):
    sds = state.tau[0] ** 2 + state.nu[0] ** 2
    return -0.5 * (state.b[0] ** 2 / 4.0 + state.b[1] ** 2 + sds)


def data_of(rng, rows=400):
    codes = {name: rng.integers(count, size=rows) for name, count in SITES.items()}
    codes["s"] %= SITES["s"] - 1  # one site is empty
    codes["d"][rng.random(rows) < 0.1] = -1
    numbers = {name: rng.standard_normal(rows) for name in "xw"}
    return codes | numbers | {"y": 1.0 + 1.5 * rng.standard_normal(rows)}


def touched(codes, count):
    """(indptr, indices), as some data see none."""
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    return np.concatenate([[0], np.cumsum(np.bincount(codes[order], minlength=count))]), order


def model_of(data, likelihood=normal, **more):
    given = {
        "constraints": {"tau": sm.positive, "nu": sm.positive},
        "touches": {"s": "s", "d": touched(data["d"], SITES["d"]), "e": "e"},
        "site_prior": {"s": of_s, "d": of_d, "e": of_e},
    } | more  # fmt: skip
    state = {
        "b": np.zeros(2), "e": np.zeros(SITES["e"]), "s": np.zeros((SITES["s"], 2)), "tau": 0.7,
        "d": np.zeros(SITES["d"]), "nu": 0.5,
    }  # fmt: skip
    return sm.Model(likelihood, data, state, log_prior, **given)


class Known:
    """Mean, covariance and log integral of b, e, s, d given the scales."""

    def __init__(self, data, tau, nu):
        rows, (s, d, e) = np.arange(len(data["y"])), (SITES[name] for name in "sde")
        self.b, self.e = np.arange(2), 2 + np.arange(e)
        self.s = 2 + e + np.arange(2 * s).reshape(s, 2)
        self.d = 2 + e + 2 * s + np.arange(d)
        size = 2 + e + 2 * s + d
        design = np.zeros((len(rows), size))
        design[:, 0], design[:, 1] = 1.0, data["x"]
        design[rows, self.e[data["e"]]], design[rows, self.s[data["s"], 0]] = 1.0, 1.0
        design[rows, self.s[data["s"], 1]] = data["w"]
        some = data["d"] >= 0
        design[rows[some], self.d[data["d"][some]]] = 1.0
        p = design.T @ design / SIGMA**2
        p[self.b, self.b] += 0.25, 1.0
        p[self.e, self.e] += 1.0
        p[self.s[:, 0], self.s[:, 0]] += tau**-2
        p[self.s[:, 1], self.s[:, 1]] += 1.0
        p[self.s[:, 0], self.s[:, 1]] += 0.3 / tau
        p[self.s[:, 1], self.s[:, 0]] += 0.3 / tau
        p[self.d, self.d] += nu**-2
        shift = design.T @ data["y"] / SIGMA**2
        shift[self.d] += 0.3 / nu**2
        self.covariance = np.linalg.inv(p)
        self.mean = self.covariance @ shift
        height = 0.5 * shift @ self.mean - 0.5 * np.sum(data["y"] ** 2) / SIGMA**2
        height -= 0.5 * d * (0.3 / nu) ** 2 + 0.5 * (tau**2 + nu**2)
        self.log_density = height - s * math.log(tau) - d * math.log(nu)
        self.integral = self.log_density + 0.5 * (
            size * LOG_2PI + np.linalg.slogdet(self.covariance)[1]
        )

    def at(self, names):
        return np.concatenate([np.ravel(getattr(self, name)) for name in names])


BLOCKS = ("b", "e", "s", "d")


@pytest.fixture(params=["dense", "sparse"])
def way(request, monkeypatch):
    """What is left when the largest factor is eliminated, as one matrix or as a sparse one."""
    if request.param == "sparse":
        monkeypatch.setattr(elimination, "DENSE", 0)
        monkeypatch.setattr(elimination, "LARGE", 0)


def fitted(model, *given, **more):
    """As where small factors are not fitted with what sites have in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("subsample_mcmc.approx.fit.by_sites.others_of",
                      lambda co, local: (tuple(n for n in co.blocks if n not in local),
                                         99 if len(local) == 1 else 0))  # fmt: skip
        return sm.laplace(model, *given, **more)


@pytest.mark.slow_for("dense")
@pytest.mark.plain
def test_normal_crossed_effects_given_their_scales_are_fitted_exactly(way, rng):
    """Against the dense Gaussian: means, covariances of any blocks, evidence, densities, draws."""
    data = data_of(rng)
    fit, known = fitted(model_of(data), BLOCKS), Known(data, 0.7, 0.5)
    assert isinstance(fit, CrossedFit) and fit.factors == (("s",), ("d",), ("e",))
    assert fit.common.blocks == ("b",) and fit.blocks == BLOCKS
    for names in (("b",), ("e", "d"), ("d", "b", "s"), BLOCKS):
        mean, covariance = fit.gaussian(names)
        at = known.at(names)
        assert np.allclose(mean, known.mean[at], atol=1e-6)
        assert np.allclose(covariance, known.covariance[np.ix_(at, at)], atol=1e-6, rtol=1e-5)
    for name in "sde":
        mean, covariance = fit.sites(name)
        for g in range(SITES[name]):
            at = np.atleast_1d(getattr(known, name)[g])
            assert np.allclose(mean[g], known.mean[at], atol=1e-6)
            assert np.allclose(covariance[g], known.covariance[np.ix_(at, at)], rtol=1e-5)
    assert fit.log_density == pytest.approx(known.log_density, abs=1e-6)
    assert fit.log_evidence == pytest.approx(known.integral, abs=1e-5)
    state = fit.draw(rng)
    assert list(state) == list(BLOCKS) and state["s"].shape == (SITES["s"], 2)
    x = np.concatenate([np.ravel(state[name]) for name in BLOCKS])
    law = stats.multivariate_normal(known.mean, known.covariance)
    assert fit.log_prob(state) == pytest.approx(law.logpdf(x), abs=1e-3)


def test_without_pairs_of_sites_the_fit_would_be_another(rng, monkeypatch):
    """Factors taken for independent are too narrow: what the test before rests on."""
    data, filled = data_of(rng), crossed.Pattern.filled

    def independent(self, own, across):
        """The precision for Newton's steps; what is said of it, without the pairs."""
        whole, alone = filled(self, own, across), filled(self, own, [0.0 * b for b in across])
        whole.log_det, whole.blocks, whole.columns = alone.log_det, alone.blocks, alone.columns
        return whole

    monkeypatch.setattr(crossed.Pattern, "filled", independent)
    known = Known(data, 0.7, 0.5)
    fit = fitted(model_of(data), ("s", "d", "e"), given={"b": known.mean[known.b]})
    wide = np.linalg.inv(np.linalg.inv(known.covariance)[2:, 2:])
    for name in "sde":
        at = np.atleast_1d(getattr(known, name)[0]) - 2
        assert fit.sites(name)[1][0][0, 0] < 0.97 * wide[at[0], at[0]]
    sites = known.at(("s", "d", "e")) - 2
    logs = np.linalg.slogdet(wide[np.ix_(sites, sites)])[1]
    assert abs(fit.precision.log_det + logs) > 0.1


def test_draws_have_the_law_of_the_fit(way, rng):
    fit = fitted(model_of(data_of(rng)), BLOCKS)
    draws_have_the_law(fit, BLOCKS, 1_000, rng)


def test_sites_alone_are_fitted_given_the_rest(rng):
    data = data_of(rng)
    fit = fitted(model_of(data), ("s", "d", "e"), given={"b": [0.4, -0.2]})
    assert fit.common is None and "given the rest of the state" in repr(fit)
    known = Known(data, 0.7, 0.5)
    p = np.linalg.inv(known.covariance)
    at, held = known.at(("s", "d", "e")), known.b
    covariance = np.linalg.inv(p[np.ix_(at, at)])
    moved = p[np.ix_(at, held)] @ (np.array([0.4, -0.2]) - known.mean[held])
    mean, found = fit.gaussian(("s", "d", "e"))
    assert np.allclose(mean, known.mean[at] - covariance @ moved, atol=1e-6)
    assert np.allclose(found, covariance, rtol=1e-5, atol=1e-8)


def test_scales_are_fitted_to_their_own_density(rng):
    """b, log tau and log nu with all sites integrated out, which is exact: all is normal."""
    data = data_of(rng)
    fit = fitted(model_of(data))

    def density(z):
        known = Known(data, math.exp(z[2]), math.exp(z[3]))
        at = known.b
        law = stats.multivariate_normal(known.mean[at], known.covariance[np.ix_(at, at)])
        return known.integral + z[2] + z[3] + law.logpdf(z[:2])

    check_common(fit, density)


def check_common(fit, density):
    """Mode, Hessian and height of what sites have in common, against a function of it."""
    mean, sd = fit.common.mean, np.sqrt(np.diag(fit.common.covariance))
    h, d, height = 0.05, len(mean), density(mean)
    steps, gradient, hessian = np.diag(h * sd), np.zeros(d), np.zeros((d, d))
    for i, e in enumerate(steps):
        near, far = ([density(mean + k * e), density(mean - k * e)] for k in (1.0, 2.0))
        gradient[i] = (8.0 * (near[0] - near[1]) - (far[0] - far[1])) / (12.0 * h)
        hessian[i, i] = (sum(far) - 2.0 * height) / (4.0 * h * h)
        for j, f in enumerate(steps[:i]):
            ends = [density(mean + e + f), density(mean - e - f)]
            ends += [-density(mean + e - f), -density(mean - e + f)]
            hessian[i, j] = hessian[j, i] = sum(ends) / (4.0 * h * h)
    known = np.linalg.inv(-hessian)
    # Where the density is highest is one Newton step away: one so short that it is there.
    assert np.all(np.abs(known @ gradient) < 2e-3)
    highest = height + 0.5 * gradient @ known @ gradient
    assert fit.common.log_density == pytest.approx(highest, abs=1e-4)
    assert np.allclose(fit.common.covariance / np.outer(sd, sd), known, atol=5e-3)


# ------------------------------------------------------------------- counts, and yes or no
def poisson(state, data, n):
    eta = state.b[0] + state.b[1] * data.x[n] + state.s[data.s[n]] + state.d[data.d[n]]
    return data.y[n] * eta - sm.exp(eta)


def logistic(state, data, n):
    eta = state.b[0] + state.b[1] * data.x[n] + state.s[data.s[n]] + state.d[data.d[n]]
    return data.y[n] * eta - sm.log1p(sm.exp(eta))


def of_one(state, i):
    z = state.s[i] / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def two_factors(rng, likelihood, asked=None, prior=log_prior, rows=500, **more):
    """The data of a likelihood; asked: another one that the model has."""
    s, d = rng.integers(SITES["s"], size=rows), rng.integers(SITES["d"], size=rows)
    x = rng.standard_normal(rows)
    effects = 0.7 * rng.standard_normal(SITES["s"])[s] + 0.5 * rng.standard_normal(SITES["d"])[d]
    eta = 0.2 + 0.4 * x + effects
    if likelihood is logistic:
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    data = {"y": y, "x": x, "s": s, "d": d, "other": (d + 1) % SITES["d"]}
    state = {
        "b": np.zeros(2), "s": np.zeros(SITES["s"]), "d": np.zeros(SITES["d"]), "tau": 1.0,
        "nu": 1.0,
    }  # fmt: skip
    given = {
        "constraints": {"tau": sm.positive, "nu": sm.positive}, "touches": {"s": "s", "d": "d"},
        "site_prior": {"s": of_one, "d": of_d},
    } | more  # fmt: skip
    return sm.Model(asked or likelihood, data, state, prior, **given)


def dense_laplace(model, likelihood):
    """density(b, log tau, log nu): sites taken out at once, by dense derivatives on paper."""
    data = {name: np.asarray(getattr(model.data, name)) for name in ("y", "x", "s", "d")}
    s, d, rows = SITES["s"], SITES["d"], np.arange(model.size)
    design = np.zeros((len(rows), s + d))
    design[rows, data["s"]], design[rows, s + data["d"]] = 1.0, 1.0

    def density(z):
        tau, nu = math.exp(z[2]), math.exp(z[3])
        prior = np.concatenate([np.full(s, tau**-2), np.full(d, nu**-2)])
        centre, u = np.concatenate([np.zeros(s), np.full(d, 0.3)]), np.zeros(s + d)
        for _ in range(50):
            eta = z[0] + z[1] * data["x"] + design @ u
            if likelihood is poisson:
                rate = weight = np.exp(eta)
                value = data["y"] @ eta - rate.sum()
            else:
                rate = 1.0 / (1.0 + np.exp(-eta))
                weight = rate * (1.0 - rate)
                value = data["y"] @ eta - np.log1p(np.exp(eta)).sum()
            p = (design.T * weight) @ design + np.diag(prior)
            move = np.linalg.solve(p, design.T @ (data["y"] - rate) - prior * (u - centre))
            if np.abs(move).max() < 1e-12:
                break
            u = u + move / max(1.0, np.abs(move).max())
        value -= 0.5 * prior @ (u - centre) ** 2 + s * z[2] + d * z[3]
        value += 0.5 * (s + d) * LOG_2PI - 0.5 * np.linalg.slogdet(p)[1]
        return value - 0.5 * (z[0] ** 2 / 4.0 + z[1] ** 2 + tau**2 + nu**2) + z[2] + z[3]

    return density


@pytest.mark.parametrize("likelihood", [poisson, logistic])
def test_others_are_fitted_as_by_dense_derivatives(likelihood, rng):
    model = two_factors(rng, likelihood)
    fit = fitted(model, tolerance=1e-5)
    check_common(fit, dense_laplace(model, likelihood))


@pytest.mark.slow
def test_positive_effects_have_the_fit_of_their_logarithms(rng):
    """The same numbers in free coordinates, and in densities."""

    def of_rate(state, i):
        z = sm.log(state.s[i]) / state.tau[0]
        return -0.5 * z * z - sm.log(state.tau[0]) - sm.log(state.s[i])

    def rates(state, data, n):
        eta = state.b[0] + state.b[1] * data.x[n] + state.d[data.d[n]]
        rate = state.s[data.s[n]] * sm.exp(eta)
        return data.y[n] * sm.log(rate) - rate

    one, effects = two_factors(rng, poisson), {"s": np.ones(SITES["s"]), "d": np.zeros(SITES["d"])}
    state = {"b": np.zeros(2), "tau": 1.0, "nu": 1.0} | effects
    two = sm.Model(
        rates, one.data, state, log_prior,
        constraints={"s": sm.positive, "tau": sm.positive, "nu": sm.positive},
        touches={"s": "s", "d": "d"}, site_prior={"s": of_rate, "d": of_d},
    )  # fmt: skip
    first, second = (fitted(model, tolerance=1e-6) for model in (one, two))
    assert np.allclose(first.modes, second.modes, atol=1e-4)
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-4)
    drawn = second.draw(rng)
    same = first.log_prob(drawn | {"s": np.log(drawn["s"])}) - np.log(drawn["s"]).sum()
    assert second.log_prob(drawn) == pytest.approx(same, abs=1e-2)
    want = second.state["s"] * np.sqrt(second.sites("s")[1][:, 0, 0])
    assert np.allclose(second.to_frame()["sd"][[f"s[{g}]" for g in range(SITES["s"])]], want)


# --------------------------------------------------------------------------------- as it is used
def test_a_fit_is_stored_shown_and_proposed_from(rng):
    model = two_factors(rng, poisson)
    fit = fitted(model)
    again = pickle.loads(pickle.dumps(fit))
    assert np.array_equal(again.modes, fit.modes)
    assert np.array_equal(again.gaussian(("s", "d"))[1], fit.gaussian(("s", "d"))[1])
    assert "crossed sites: 50 of s; 20 of d; together" in repr(fit) and "tau" in fit._repr_html_()
    assert "tierney1986" in sm.cite(fit) and "rue2009" in sm.cite(fit)
    with pytest.raises(ValueError, match="no sites that were fitted"):
        fit.sites("b")
    with pytest.raises(TypeError, match="too many numbers to expand"):
        sm.Taylor(fit)
    kernel = sm.Metropolis("s", proposal=sm.pcn(fit)) >> sm.Metropolis("d", proposal=sm.pcn(fit))
    kernel >>= sm.SurrogateTransition("b", fit) >> sm.Metropolis(("tau", "nu"))
    trace = sm.sample(model, kernel, draws=200, warmup=100, seed=1, start=fit.start, progress=False)
    means = np.asarray(trace.draws["d"]).reshape(-1, SITES["d"]).mean(axis=0)
    sd = np.sqrt(fit.sites("d")[1][:, 0, 0])
    assert np.all(np.abs(means - fit.state["d"]) < 1.5 * sd)


def test_stored_runs_know_a_fit_again_by_what_it_is_made_from(way, rng):
    """Not by factors that were or were not needed yet, nor by where these lie in memory."""
    fit = fitted(two_factors(rng, poisson), ("s", "d"))
    before = spelled(fit)
    assert spelled(pickle.loads(pickle.dumps(fit))) == before
    fit.gaussian(("s", "d")), fit.draw(rng)
    assert spelled(fit) == before and " at 0x" not in before
    for name in ("own", "beside", "rest"):
        other = pickle.loads(pickle.dumps(fit))
        part = getattr(other.precision, name)
        (part if name == "own" else part.data)[0] += 1e-9
        assert spelled(other) != before


# ------------------------------------------------------------------------------------ refusals
def sees_the_next(state, data, n):
    return poisson(state, data, n) + 0.1 * state.d[(data.d[n] + 1) % 20]


def of_both(state, i):
    return of_one(state, i) + 0.1 * state.s[i] * state.d[i % 20]


def of_neighbours(state, i):
    return of_d(state, i) + 0.1 * state.d[(i + 1) % 20]


def with_sites(state):
    return log_prior(state) - 0.1 * state.d[4] ** 2


@pytest.mark.parametrize(
    ("match", "given"),
    [
        (r"datum \d+ is said to see d\[\d+\], but", {"asked": sees_the_next}),
        ("site_prior of site .* of 's' changes with sites of 'd'",
         {"site_prior": {"s": of_both, "d": of_d}}),
        ("site_prior of site .* of 'd' changes with other sites",
         {"site_prior": {"s": of_one, "d": of_neighbours}}),
        ("log_prior changes with 'd', which has a site_prior", {"prior": with_sites}),
        ("datum 0 sees d", {"touches": {"s": "s", "d": ("d", "other")}}),
    ],
)  # fmt: skip
def test_what_crossed_fits_cannot_serve_is_refused(rng, match, given):
    """Also where others than the own sites matter: the fit would be wrong."""
    with pytest.raises(ValueError, match=match):
        fitted(two_factors(rng, poisson, **given))


def test_sites_without_a_mode_are_told(rng):
    flat = two_factors(rng, poisson, site_prior={"s": of_one, "d": lambda state, i: 0.0})
    with pytest.raises(RewardError, match="of s, d have no modes"):
        fitted(flat, ("s", "d"), given={"b": [40.0, 0.0], "tau": 1e-3})


def test_a_place_without_modes_leaves_steps_as_they_were(rng):
    """Steps of differences that shrink at an edge of the support would see nothing elsewhere."""

    def up_to_b(state, i):
        return -np.inf if state.d[i] > state.b[0] else of_d(state, i)

    model = two_factors(rng, poisson, site_prior={"s": of_one, "d": up_to_b})
    floats = model.floats.copy()
    sites = crossed.CrossedSites(model, [("s",), ("d",)], model.ints.copy(), floats)
    own = Coordinates(model, ("b",), {"b": [9.0, 0.0]})
    density = MarginalOfCrossed(own, sites, Bar(disable=True))
    assert density.move_to(np.array([9.0, 0.0])) > -np.inf
    steps, u = sites.steps.copy(), density.u.copy()
    edge = float(sites.views(u)[1].max())
    assert density.move_to(np.array([edge, 0.0])) == -np.inf
    assert np.array_equal(sites.steps, steps) and np.array_equal(density.u, u)


@pytest.mark.slow
def test_few_crossed_sites_are_integrated_out_where_their_scale_is_fitted(rng):
    """With a known prior they are fitted with the rest, and not where no mode of both need be."""
    for prior, kind in ((of_e, sm.HierarchyFit), (of_scaled, CrossedFit)):
        fit = sm.laplace(with_few(rng, prior))
        assert type(fit) is kind and fit.local == (("s", "e") if kind is CrossedFit else ("s",))


def with_few(rng, prior):
    """A model of sites of s, and of a few of e with some prior."""
    model = two_factors(rng, poisson)
    data = {name: np.asarray(getattr(model.data, name)) for name in "yxs"}
    state = {"b": np.zeros(2), "s": np.zeros(SITES["s"]), "e": np.zeros(SITES["e"])}
    return sm.Model(
        small, data | {"e": data["s"] % SITES["e"]},
        state | {"tau": 1.0, "nu": 1.0, "c": np.zeros(10)}, with_more,
        constraints={"tau": sm.positive, "nu": sm.positive},
        touches={"s": "s", "e": "e"}, site_prior={"s": of_one, "e": prior},
    )  # fmt: skip


def small(state, data, n):
    eta = state.b[0] + state.s[data.s[n]] + state.e[data.e[n]]
    return data.y[n] * eta - sm.exp(eta)


def of_scaled(state, i):
    return -0.5 * (state.e[i] / state.nu[0]) ** 2 - sm.log(state.nu[0])


def with_more(state):
    return log_prior(state) - 0.5 * (state.c**2).sum()


def test_default_kernels_of_many_data_make_no_crossed_fit(rng, monkeypatch):
    """It takes longer than pilots of a run may: of few data it is made, and proposed from."""
    model = two_factors(rng, poisson)
    fit, setup, why = default_kernel.fitted(model)
    assert isinstance(fit, CrossedFit) and setup == ("fit = sm.laplace(model)",) and not why
    monkeypatch.setattr(default_kernel, "WORK", 0.0)
    fit, setup, why = default_kernel.fitted(model)
    assert fit is None and "500 data take too long" in why


@pytest.mark.slow
def test_default_kernels_fit_sites_beside_few_of_a_known_prior(rng, monkeypatch):
    """Those are fitted with what sites have in common, which is quick, of many data as well."""
    monkeypatch.setattr(default_kernel, "WORK", 0.0)
    fit, setup, why = default_kernel.fitted(with_few(rng, of_e))
    assert type(fit) is sm.HierarchyFit and setup == ("fit = sm.laplace(model)",) and not why
    fit, setup, why = default_kernel.fitted(with_few(rng, of_scaled))
    assert fit is None and "500 data take too long" in why
