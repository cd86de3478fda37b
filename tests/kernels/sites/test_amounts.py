"""A slope against the sites that hold it; and priors of what does not move, which are not asked."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels import continuous
from tests.helpers.groups import errors_of, sampled
from tests.kernels.sites.test_interweave import OF, departments, mutated, off_departments

GROUPS, EACH = 6, 5


def line(state, data, n):
    z = data.y[n] - state.slope[0] * data.x[n] - state.a[data.group[n]]
    return -0.5 * z * z


def of_site(state, i):
    return -0.125 * state.a[i] ** 2  # sd 2


def lines(within=0.3):
    """Rows whose x is nearly that of their group."""
    rng, group = np.random.default_rng(3), np.repeat(np.arange(GROUPS), EACH)
    x = rng.standard_normal(GROUPS)[group] + within * rng.standard_normal(len(group))
    data = {"y": 0.5 * x + rng.standard_normal(len(x)), "x": x, "group": group}
    return sm.Model(
        line, data, {"a": np.zeros(GROUPS), "slope": 0.0},
        lambda state: -0.5 * state.slope[0] ** 2 / 100.0,
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip


def means_of(model):
    return np.bincount(model.data.group, model.data.x) / EACH


def slow_moves():
    return sm.Metropolis("a") >> sm.Metropolis("slope", selector=sm.Exact())


def off(trace, model):
    """Standard errors that the law of (slope, a) is off, which is normal."""
    design = np.zeros((model.size, 1 + GROUPS))
    design[:, 0], design[np.arange(model.size), 1 + model.data.group] = model.data.x, 1.0
    prior = np.diag([0.01] + [0.25] * GROUPS)
    covariance = np.linalg.inv(design.T @ design + prior)
    mean = covariance @ design.T @ model.data.y
    slope, a = (np.asarray(trace.draws[name])[0] for name in ("slope", "a"))
    values = np.column_stack([slope, a])
    z = (values - mean) / np.sqrt(np.diag(covariance))
    return max(max(errors_of(z[:, j])) for j in range(1 + GROUPS))


def test_a_slope_goes_against_sites_by_amounts():
    model = lines()
    kernel = slow_moves() >> sm.interweave("a", location="slope", amounts=means_of(model))
    assert "against each other, by amounts; all data are read" in kernel.describe(model)
    trace = sampled(model, kernel, 20_000)
    assert off(trace, model) < 5.0
    told = trace.stats["a+slope"]
    assert 0.3 < told["accepted"].mean() < 0.6 and told["pulls"].sum() > 0


MUTANTS = {
    "the slope goes farther up than down": (
        "y[tools.other + j] += by", "y[tools.other + j] += by + 0.3 * abs(by)",
    ),
    "sites go by amounts of their own value": (
        "y[at] += change * tools.amounts", "y[at] += change * y[at] * tools.amounts",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name):
    model = lines()
    mutant = mutated(*MUTANTS[name], "a", location="slope", amounts=means_of(model))
    assert off(sampled(model, slow_moves() >> mutant, 60_000), model) > 6.0


def test_what_amounts_are_for():
    """Within groups x differs little: the slope creeps with its groups, unless they go with it."""
    model, found = lines(0.1), []
    woven = sm.interweave("a", location="slope", amounts=means_of(model))
    for kernel in (slow_moves(), slow_moves() >> woven):
        found.append(float(sampled(model, kernel, 4_000).mixing("slope").ess))
    assert found[1] > 4.0 * found[0]


def test_where_no_datum_sees_it_none_is_read():
    model = lines(0.0)
    kernel = slow_moves() >> sm.interweave("a", location="slope", amounts=means_of(model))
    assert "what data see is held, and the prior decides" in kernel.describe(model)
    trace = sampled(model, kernel, 20_000)
    assert trace.stats["a+slope"]["pulls"].sum() == 0
    assert off(trace, model) < 5.0


def test_runs_resume_bit_for_bit(tmp_path):
    model, path = lines(), tmp_path / "run.nc"
    kernel = slow_moves() >> sm.interweave("a", location="slope", amounts=means_of(model))
    whole = sampled(model, kernel, 300, 100)
    sampled(model, kernel, 100, 100, store=path)
    again = sm.resume(path, model, kernel, 300, progress=False)
    assert all(np.array_equal(whole.draws[name], again.draws[name]) for name in ("a", "slope"))
    other = slow_moves() >> sm.interweave("a", location="slope", amounts=1.0 + means_of(model))
    with pytest.raises(ValueError, match=r"changed since it was started: kernel a\+slope"):
        sm.resume(path, model, other, 300, progress=False)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("amounts", "match"),
    [
        (np.ones(3), r"amounts have shape \(3,\): give a finite number for each of 6 sites"),
        (np.full(GROUPS, np.nan), r"give a finite number for each of 6 sites, how far it goes"),
    ],
)
def test_amounts_must_fit(amounts, match):
    with pytest.raises(ValueError, match=match):
        sm.interweave("a", location="slope", amounts=amounts).describe(lines())


@pytest.mark.plain
@pytest.mark.parametrize("given", [
    {"scale": "tau"}, {"location": ("slope", np.zeros(6, int))}, {"location": "m", "scale": "tau"},
])  # fmt: skip
def test_amounts_are_of_one_location(given):
    with pytest.raises(ValueError, match="they say how far sites go with one location for all"):
        sm.interweave("a", amounts=np.ones(6), **given)


@pytest.mark.plain
def test_amounts_are_of_sites_of_one_number():
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.g[n], 0]) ** 2,
        {"y": np.zeros(4), "g": np.array([0, 0, 1, 1])}, {"a": np.zeros((2, 3)), "b": 0.0},
        touches={"a": "g"},
    )  # fmt: skip
    with pytest.raises(ValueError, match="amounts are of sites of one number"):
        sm.interweave("a", location="b", amounts=np.ones(2)).describe(model)


# ------------------------------------------------------------------ priors of what does not move
def many_sites():
    """80 sites of a, whose prior has a scale, and 80 of b, whose prior has none."""
    rng, sites = np.random.default_rng(6), 80
    g, h = rng.integers(sites, size=(2, 400))

    def likelihood(state, data, n):
        z = data.y[n] - state.mu[0] - state.a[data.g[n]] - state.b[data.h[n]]
        return -0.5 * z * z

    def of_a(state, i):
        return -0.5 * (state.a[i] / state.tau[0]) ** 2 - sm.log(state.tau[0])

    def of_b(state, i):
        return -0.5 * state.b[i] ** 2

    return sm.Model(
        likelihood, {"y": rng.standard_normal(400), "g": g, "h": h},
        {"mu": 0.0, "a": np.zeros(sites), "b": np.zeros(sites), "tau": 1.0},
        lambda state: -0.5 * state.mu[0] ** 2 - state.tau[0],
        constraints={"tau": sm.positive}, touches={"a": "g", "b": "h"},
        site_prior={"a": of_a, "b": of_b},
    )  # fmt: skip


def test_priors_that_do_not_change_are_not_asked_and_draws_are_the_same(monkeypatch):
    model = many_sites()
    assert continuous.prior_of_blocks(model, ("mu",))[1] == 0
    assert continuous.prior_of_blocks(model, ("tau",))[1] == 80
    assert continuous.prior_of_blocks(model, ("b", "tau"))[1] == 160
    kernel = sm.Metropolis("a") >> sm.Metropolis("b") >> sm.Metropolis("tau")
    kernel = kernel >> sm.Slice("mu") >> sm.interweave("a", location="mu", scale="tau")
    draws = []
    for many in (continuous.MANY, 10_000):
        monkeypatch.setattr(continuous, "MANY", many)
        trace = sm.sample(model, kernel, draws=300, warmup=100, chains=1, seed=2, progress=False)
        draws.append([np.asarray(trace.draws[name]) for name in model.names])
    assert all(np.array_equal(*both) for both in zip(*draws, strict=True))


def test_a_prior_whose_code_does_not_tell_is_always_asked():
    model = many_sites()

    def of_b(state, i):
        return -0.5 * sum(v[i] for name, v in state._asdict().items() if name == "b") ** 2

    model.site_prior["b"] = of_b
    assert continuous.prior_of_blocks(model, ("mu",))[1] == 80


def test_departments_are_moved_by_the_priors_of_their_own():
    """A mutant that forgets one of them is seen."""
    kernel = sm.Metropolis("a") >> sm.Metropolis("dept")
    old, new = "in range(tools.indptr[j], tools", "in range(tools.indptr[j] + 1, tools"
    mutant = mutated(old, new, "a", location=("dept", OF))
    assert off_departments(sampled(departments(), kernel >> mutant, 20_000)) > 6.0
