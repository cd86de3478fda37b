"""Modes on the other side of 0, which searches from around the first one seldom come to."""

import warnings
from types import SimpleNamespace

import arviz
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import modes
from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.newton import Local

SIZE = 500
Y = 2.0 + np.random.default_rng(0).standard_normal(SIZE)
X = np.random.default_rng(1).standard_normal((SIZE, 6))


def product():
    """Factors that change their sign together."""
    return sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[0] * state.b[0]) ** 2, {"y": Y},
        {"a": 1.0, "b": 1.0}, lambda state: -0.125 * (state.a[0] ** 2 + state.b[0] ** 2),
    )  # fmt: skip


def size_of_one(centre=0.0):
    """What is only seen through its size."""
    return sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - abs(state.t[0])) ** 2, {"y": Y}, {"t": 1.0},
        lambda state: -0.5 * (state.t[0] - centre) ** 2,
    )  # fmt: skip


def loadings():
    """Six in a block, times the effect of what they make."""

    def log_likelihood(state, data, n):
        made = 0.0
        for j in range(6):
            made += data.x[n, j] * state.w[j]
        return -0.5 * (data.y[n] - state.effect[0] * made) ** 2

    y = X @ np.linspace(0.5, 1.0, 6) + np.random.default_rng(2).standard_normal(SIZE)
    return sm.Model(
        log_likelihood, {"x": X, "y": y}, {"w": np.full(6, 0.1), "effect": 1.0},
        lambda state: -0.5 * np.sum(state.w**2) - 0.5 * state.effect[0] ** 2,
    )  # fmt: skip


def one_of_several():
    """The fourth of a block of six is squared, and so is a distance from an interval's middle."""

    def log_likelihood(state, data, n):
        value = 4.0 * (state.p[0] - 0.5) ** 2
        for j in range(6):
            value += data.x[n, j] * (state.w[j] ** 2 if j == 3 else state.w[j])
        return -0.5 * (data.y[n] - value) ** 2

    y = X.sum(axis=1) + 0.36 + np.random.default_rng(2).standard_normal(SIZE)
    start = {"w": np.full(6, 0.5), "p": 0.7}
    return sm.Model(
        log_likelihood, {"x": X, "y": y}, start, lambda state: -0.5 * np.sum(state.w**2),
        constraints={"p": sm.interval(0.0, 1.0)},
    )  # fmt: skip


@pytest.mark.parametrize(("make", "turned"), [
    (product, [[0, 1]]),
    (size_of_one, [[0]]),
    (loadings, [[0, 1, 2, 3, 4, 5, 6]]),
    (one_of_several, [[3], [6]]),
])  # fmt: skip
def test_modes_of_the_other_sign_are_found(make, turned):
    fit = sm.laplace(make())
    found = modes.modes_of(fit)
    top = found.modes[0]
    for some in turned:
        other = top.copy()
        other[some] *= -1.0
        away = [np.linalg.norm(np.linalg.solve(fit.factor, mode - other)) for mode in found.modes]
        k = int(np.argmin(away))
        # Along a product a mode is a ridge, so these are half of a standard deviation apart.
        assert k > 0 and away[k] < 0.5 and found.heights[0] - found.heights[k] < 0.01
        assert any(found.modes[k] is mode for mode in found.near)


def test_a_prior_may_make_one_of_them_lower():
    """By (2 + 1)^2 / 2 less (2 - 1)^2 / 2 nats, about: less than the ten of what may count."""
    found = modes.modes_of(sm.laplace(size_of_one(1.0)))
    top, other = found.modes[:2]
    assert top[0] > 1.9 and other[0] < -1.9 and found.several and found.doubtful
    assert abs(found.heights[0] - found.heights[1] - 2.0 * top[0]) < 0.02


def test_coefficients_have_one_mode_and_no_further_search(monkeypatch):
    """Near 0 the other sign is in the same mode, far from it it is too low."""
    y = X @ [0.0, 0.01, -0.1, 0.5, 1.0, -3.0] + np.random.default_rng(3).standard_normal(SIZE)
    fit = sm.laplace(sm.models.glm.gaussian(X, y, sigma=1.0))
    found = modes.modes_of(fit)
    assert not found.several and found.searches == modes.SEARCHES == found.found[0]
    monkeypatch.setattr(modes, "BEYOND", 0.0)
    assert modes.modes_of(fit).searches > modes.SEARCHES  # in vain


def test_signs_are_turned_of_what_may_have_either():
    """Blocks in all combinations where they are few, else by themselves and all at once."""

    few = sm.Model(
        lambda state, data, n: 0.0 * data.y[n], {"y": Y}, {"a": 1.0, "b": 2.0, "c": 3.0, "s": 1.0},
        constraints={"s": sm.positive},
    )  # fmt: skip
    co = Coordinates(few, None, {})
    points = list(modes.mirrored(co, np.array([1.0, 2.0, 3.0, 4.0])))
    assert len(points) == 7 and all(point[3] == 4.0 for point in points)
    assert len({tuple(np.sign(point)) for point in points}) == 7

    many = Coordinates(loadings(), None, {})
    points = list(modes.mirrored(many, np.arange(1.0, 8.0)))  # two blocks, of seven numbers
    assert sorted(int(np.sum(point < 0.0)) for point in points) == [1] * 8 + [2] * 21 + [6, 7]
    for count, pairs in ((6, 15), (12, 0)):
        parts = [np.array([j]) for j in range(count)]
        assert sorted(map(len, modes.turned(parts))) == [1] * count + [2] * pairs
    assert modes.turned([np.array([j]) for j in range(40)]) == []


def one_of_many(blocks):
    """A product of two of five blocks, or of two numbers of a block of six."""
    u = np.random.default_rng(4).standard_normal((SIZE, 6))
    y = 0.8 * u[:, 0] + u[:, 2:5].sum(axis=1) + np.random.default_rng(5).standard_normal(SIZE)
    if blocks:
        return sm.Model(
            lambda state, data, n: -0.5 * (
                data.y[n] - state.a[0] * state.b[0] * data.u[n, 0] - state.c[0] * data.u[n, 2]
                - state.d[0] * data.u[n, 3] - state.e[0] * data.u[n, 4]
            ) ** 2,
            {"y": y, "u": u}, {name: 0.5 for name in "abcde"},
            lambda state: -0.5 * (state.a[0] ** 2 + state.b[0] ** 2),
        )  # fmt: skip
    return sm.Model(
        lambda state, data, n: -0.5 * (
            data.y[n] - state.t[0] * state.t[1] * data.u[n, 0] - state.t[2] * data.u[n, 2]
            - state.t[3] * data.u[n, 3] - state.t[4] * data.u[n, 4] - state.t[5] * data.u[n, 5]
        ) ** 2,
        {"y": y, "u": u}, {"t": np.full(6, 0.5)}, lambda state: -0.5 * np.sum(state.t ** 2),
    )  # fmt: skip


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_blocks_whose_names_end_in_numbers_trade_places(share):
    """Means of a mixture as scalars, with an unknown share: all searches but one ended in one."""
    rng = np.random.default_rng(6)
    y = np.where(rng.random(SIZE) < share, 3.0, 0.0) + rng.standard_normal(SIZE)

    def log_likelihood(state, data, n):
        one = state.p[0] * sm.exp(-0.5 * (data.y[n] - state.m_1[0]) ** 2)
        return sm.log(one + (1.0 - state.p[0]) * sm.exp(-0.5 * (data.y[n] - state.m_2[0]) ** 2))

    model = sm.Model(
        log_likelihood, {"y": y}, {"m_1": 0.0, "m_2": 2.0, "p": 0.5, "m_other": 1.0},
        lambda state: -0.02 * (state.m_1[0] ** 2 + state.m_2[0] ** 2) - state.m_other[0] ** 2,
        constraints={"p": sm.interval(0.0, 1.0)},
    )  # fmt: skip
    fit = sm.laplace(model)
    points = list(modes.renamed(fit.coordinates, np.array([1.0, 2.0, 0.7, 5.0])))
    np.testing.assert_allclose(points, [[2.0, 1.0, 0.7, 5.0], [2.0, 1.0, -0.7, 5.0]], rtol=1e-12)
    found = modes.modes_of(fit)
    top, other = found.modes[:2]
    np.testing.assert_allclose(other, [top[1], top[0], -top[2], top[3]], atol=0.02)
    assert len(found.near) == 2 and found.found[1] >= 1


@pytest.mark.parametrize("blocks", [True, False])
def test_a_product_is_found_among_others(blocks):
    found = modes.modes_of(sm.laplace(one_of_many(blocks)))
    top = found.modes[0]
    assert any(np.allclose(mode[:2], -top[:2], atol=0.2) for mode in found.near[1:])
    assert not any(np.any(np.sign(mode[2:5]) < 0.0) for mode in found.near)


@pytest.mark.parametrize("kind", ["lasso", "absolute"])
def test_a_mode_with_kinks_is_one(kind):
    """Searches stop here and there at kinks: they were told of as up to nine modes."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1_000, 5))
    y = x @ [1.0, -0.5, 0.0, 0.0, 0.2] + rng.standard_normal(1_000)

    def squared(state, data, n):
        r = data.y[n]
        for j in range(5):
            r -= data.x[n, j] * state.b[j]
        return -0.5 * r * r

    def absolute(state, data, n):
        r = data.y[n]
        for j in range(5):
            r -= data.x[n, j] * state.b[j]
        return -abs(r)

    def lasso(state):
        return -20.0 * np.sum(np.abs(state.b))

    model = sm.Model(
        squared if kind == "lasso" else absolute, {"x": x, "y": y}, {"b": np.zeros(5)},
        lasso if kind == "lasso" else None,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kinks
        fit = sm.laplace(model)
    assert not modes.modes_of(fit).several


def test_chains_start_on_both_sides_and_the_report_says_no():
    """They agreed on one, "yes: R-hat 1.000", of a posterior that has half its mass on each."""
    with pytest.warns(UserWarning, match=r"(?s)came to 2 modes .* sign, sm\.positive"):
        trace = sm.sample(size_of_one(), draws=400, warmup=200, seed=1, progress=False)
    signs = np.sign(trace.draws["t"])
    assert sorted(signs.mean(axis=1)) == [-1.0, -1.0, 1.0, 1.0]
    assert "Converged  no" in str(trace.report())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = size_of_one(8.0)  # 32 nats lower on the other side
        assert sm.default_kernel(far, progress=False).modes.several is False


@pytest.mark.slow
@pytest.mark.parametrize("apart", [2.5, 3.5])
def test_no_fit_is_followed_around_one_of_several_modes(apart):
    """At 2.5 sd from 0 wrong decisions left the other side for good: P(t < 0) = .01, and "yes"."""
    y = np.random.default_rng(0).standard_normal(1_000)
    y += apart / np.sqrt(len(y)) - y.mean()
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - abs(state.t[0])) ** 2, {"y": y}, {"t": 0.1}
    )
    with pytest.warns(UserWarning, match="came to 2 modes"):
        trace = sm.sample(model, draws=4_000, warmup=500, seed=1, progress=False)
    told = sm.default_kernel(model, progress=False).found
    assert any("no moves along the fit: it is around one of 2 modes" in line for line in told)
    assert "(fit" not in trace.meta["chosen"]  # along its lines are slices, which any may be
    below = (trace.draws["t"] < 0.0).astype(float)
    effective = float(arviz.ess(below, method="mean"))  # of a probability of a half
    assert effective > 50.0
    assert abs(below.mean() - 0.5) < 3.9 * 0.5 / np.sqrt(effective)  # false alarm: 1 in 10,000


def funnel():
    """Eight groups, whose density grows without end where they are alike and tau is next to 0."""
    rng, group = np.random.default_rng(0), np.repeat(np.arange(8), 5)
    y = rng.standard_normal(40) + rng.standard_normal(8)[group] + 1.0

    def of_site(state, i):
        z = (state.a[i] - state.mu[0]) / state.tau[0]
        return -0.5 * z * z - sm.log(state.tau[0])

    return sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2,
        {"y": y, "group": group}, {"mu": 1.0, "tau": 1.0, "a": np.zeros(8)},
        lambda state: -state.mu[0] ** 2 / 18.0 - 2.0 * state.tau[0] ** 2,
        constraints={"tau": sm.positive("softplus")}, touches={"a": "group"},
        site_prior={"a": of_site},
    )  # fmt: skip


@pytest.mark.slow
def test_a_spike_without_mass_is_no_mode():
    """147 nats higher at tau = 5e-11, a saddle: pilots began there, and ended in an error."""
    model = funnel()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = sm.laplace(model, progress=False)
        seen = modes.modes_of(fit)
        assert modes.highest(fit, seen)[:2] == (fit, "")
        spike = np.full(len(fit.mean), 1.6539)
        spike[1] = -23.6436
        told = modes.Modes(7, [spike, fit.mean], [131.97, -15.35], [2, 5], 1)
        found, code, left = modes.highest(fit, told)
        assert (found, code) == (fit, "")
        assert (left.own, left.searches, left.heights) == (0, 5, [-15.35])
        trace = sm.sample(model, draws=300, warmup=300, seed=0, progress=False)
    assert 0.2 < float(np.median(trace.draws["tau"])) < 1.5


def test_ends_of_searches_that_gave_up_are_no_modes():
    """All counts are 0 or 1, which only the prior holds: the others ended 10^55 nats lower."""
    x = np.column_stack([np.ones(400), np.random.default_rng(0).standard_normal(400)])
    model = sm.models.glm.hurdle_poisson(x, np.repeat([0, 1], 200))
    seen = modes.modes_of(sm.laplace(model, progress=False))
    assert not seen.several and not seen.doubtful


@pytest.mark.parametrize(("size", "start"), [(41, 0.9), (41, -0.9), (400, 0.9), (400, -0.9)])
def test_modes_of_absolute_values_are_modes(size, start):
    """Curvatures next to kinks are what a few of them make of it: +71, +1 or -3."""
    y = 1.0 + 0.5 * np.random.default_rng(3).laplace(size=size)
    model = sm.Model(
        lambda state, data, n: -2.0 * abs(data.y[n] - state.t[0] * state.t[0]), {"y": y},
        {"t": start}, lambda state: -0.5 * (state.t[0] - 1.0) ** 2,
    )  # fmt: skip
    seen = modes.modes_of(sm.laplace(model, progress=False))
    signs = sorted(float(np.sign(u[0])) for u in seen.near)
    assert signs == [-1.0, 1.0] and seen.doubtful  # two nats apart: one of nine has the mass


@pytest.mark.parametrize("sd", [1.0, 0.3, 0.1])
def test_a_curved_ridge_is_one_mode(sd):
    """From b = -.985 the density rises all along a + b^2 = 1, though not on a straight line."""
    y = 1.0 + sd * np.random.default_rng(0).standard_normal(30)
    model = sm.Model(
        lambda state, data, n: -0.5 * ((data.y[n] - state.a[0] - state.b[0] ** 2) / sd) ** 2,
        {"y": y}, {"a": 0.0, "b": 1.0},
        lambda state: -0.5 * (state.a[0] ** 2 + (state.b[0] - 1.0) ** 2),
    )  # fmt: skip
    seen = modes.modes_of(sm.laplace(model, progress=False))
    assert len(seen.near) == 1 and not seen.doubtful


@pytest.mark.parametrize("seed", [106, 111])
def test_a_step_into_a_higher_mode_makes_no_saddle(seed):
    y = 1.0 + 0.5 * np.random.default_rng(seed).laplace(size=15)
    model = sm.Model(
        lambda state, data, n: -0.7 * abs(data.y[n] - state.t[0] * state.t[0]), {"y": y},
        {"t": 0.9}, lambda state: -0.5 * (state.t[0] - 1.0) ** 2,
    )  # fmt: skip
    assert len(modes.modes_of(sm.laplace(model, progress=False)).near) == 2


def test_a_saddle_is_no_summit():
    """In between two modes; one of the modes; and where a curvature of kinks says less."""

    class Likelihood:
        def __init__(self, value, curvature):
            self.value, self.curvature = value, np.array(curvature)
            self.coordinates = None

        def around(self, u, before):
            return Local(u, self.value(u), np.zeros(2), self.curvature)

    saddle = Likelihood(lambda u: -(u[0] ** 2) + u[1] ** 2, [[2.0, 0.0], [0.0, -2.0]])
    assert not modes.is_summit(saddle, np.zeros(2))
    kinked = Likelihood(lambda u: -abs(u).sum(), [[2.0, 0.0], [0.0, -2.0]])
    assert modes.is_summit(kinked, np.zeros(2))


def of_density(log_density):
    """What begin() asks of a likelihood: the value at a point."""
    d = np.eye(1)
    return SimpleNamespace(
        coordinates=None,
        around=lambda u, before: Local(u, float(log_density(u[0])), np.zeros(1), d),
    )


@pytest.mark.parametrize(("width", "count"), [(0.0, 1), (0.02, 2), (0.2, 2), (1.0, 2)])
def test_an_end_far_below_is_a_mode_if_a_valley_is_in_between(width, count):
    """Of a kink, where a search stopped, the density rises; beside a peak of its own it falls."""

    def log_density(x):
        slope = -20.0 * abs(x)
        return np.logaddexp(slope, -60.0 - 0.5 * ((x - 8.0) / width) ** 2) if width else slope

    heights, ends = [0.0, 0.0, log_density(8.0)], np.array([[0.0], [0.0], [8.0]])
    found = modes.apart(np.eye(1), heights, ends, of_density(log_density))
    assert len(found.modes) == count and found.own == 0
    # Where the fit itself stopped there, it is still one: a higher one takes its place.
    turned = modes.apart(np.eye(1), heights[::-1], ends[::-1], of_density(log_density))
    assert len(turned.modes) == 2 and turned.own == 1


def test_searches_that_stop_at_kinks_come_to_no_mode():
    """A regression of a quantile: one mode, and "3 modes, 76 and 1,890 nats lower"."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=8_000)
    y = 1.0 + 0.5 * x + rng.standard_t(3, len(x)) * (1.0 + 0.2 * np.abs(x))

    def log_likelihood(state, data, n):
        r = (data.y[n] - state.b[0] - state.b[1] * data.x[n]) / state.s[0]
        return -(0.9 * r if r > 0.0 else -0.1 * r) - sm.log(state.s[0])

    model = sm.Model(
        log_likelihood, {"y": y, "x": x}, {"b": np.zeros(2), "s": 1.0},
        lambda state: -state.s[0] - 0.05 * np.sum(state.b**2), constraints={"s": sm.positive},
    )  # fmt: skip
    found = modes.modes_of(sm.laplace(model, progress=False))
    assert found.searches > 1 and not found.several
