"""Langevin moves site by site: laws, mutants, what is read, what moves as one all the same."""

import inspect
import math

import arviz as az
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels import langevin
from subsample_mcmc.kernels.sites import langevin_sites as module
from tests.helpers import runs
from tests.helpers.groups import SIZES, errors_of, model_of, sampled, wrong
from tests.kernels.sites.test_interweave import of_rows


def hierarchy(**more):
    return sm.Langevin("a", **more) >> sm.Metropolis(("mu", "tau"))


def mutate(monkeypatch, old, new):
    """Let sm.Langevin move sites with a mistake in it, or one that is none."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
    scope = {"__name__": "mutant", "__file__": module.__file__}
    exec(compile(source.replace(old, new), "<mutant of langevin_sites.py>", "exec"), scope)
    monkeypatch.setattr(langevin, "sweep_of_slopes", scope["sweep_of_slopes"])


@pytest.mark.parametrize("given", [{}, {"step": 0.5, "adapt": False}])
def test_a_hierarchy_keeps_its_laws(given):
    trace = sampled(model_of(), hierarchy(**given), 20_000)
    assert not wrong(trace)


def test_each_site_learns_its_step():
    """Acceptance .574 of all, though variances differ by 16: data of a site are 10 or 160."""
    sizes = (10, 160) * 3
    draws = sampled(model_of(sizes), hierarchy(), 4_000).draws["a"]
    a = np.asarray(draws)[0]
    accepted = (np.diff(a, axis=0) != 0.0).mean(axis=0)
    assert (abs(accepted - 0.574) < 0.08).all()
    assert min(float(az.ess(np.ascontiguousarray(line)[None])) for line in a.T[1::2]) > 1_000.0


WAY_BACK = "ratio += 0.5 * (z[i] * z[i] - back * back)"
MUTANTS = {
    "nothing corrects it": (WAY_BACK, "ratio += 0.0 * back"),
    "the way back is pushed from u": (
        "tools.here[i] + tools.there[i]", "tools.here[i] + tools.here[i]",
    ),
    "the way back is not pushed": ("tools.here[i] + tools.there[i]", "tools.here[i]"),
    "the decision is about another site's prior": (
        "priors_at(chain, tools, site, ratio)", "priors_at(chain, tools, 3, ratio)",
    ),
    "the gradient is of another site": (
        "go_to(tools.probe, tools.start, tools.indptr, site)",
        "go_to(tools.probe, tools.start, tools.indptr, 3)",
    ),
    "the gradient is of the prior alone": ("total += change", "total += 0.0 * change"),
    "the gradient is twice as steep": ("total += change", "total += 2.0 * change"),
}  # fmt: skip
LEGAL = ("the gradient is of the prior alone", "the gradient is twice as steep")


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name, monkeypatch):
    mutate(monkeypatch, *MUTANTS[name])
    trace = sampled(model_of(), hierarchy(), 20_000)
    assert bool(wrong(trace)) == (name not in LEGAL)


def logistic(state, data, n):
    g = data.group[n]
    eta = state.a[g, 0] + state.a[g, 1] * data.x[n]
    return data.y[n] * eta - sm.softplus(eta)


def two_columns(rng, rows=40):
    group = np.repeat(np.arange(5), rows)
    x = rng.standard_normal(len(group))
    y = (rng.random(len(group)) < 1.0 / (1.0 + np.exp(-0.5 - x))).astype(float)
    return sm.Model(
        logistic, {"y": y, "x": x, "group": group}, {"a": np.zeros((5, 2))},
        touches={"a": "group"}, site_prior={"a": of_rows},
    )  # fmt: skip


def by_grid(model, g):
    """Means and sds of the two numbers of a site, by quadrature."""
    own = model.data.group == g
    y, x = model.data.y[own], model.data.x[own]
    at = np.linspace(-5.0, 5.0, 401)
    first, second = np.meshgrid(at, at, indexing="ij")
    logs = -0.5 * (first**2 + second**2)
    for k in range(len(y)):
        eta = first + second * x[k]
        logs += y[k] * eta - np.logaddexp(0.0, eta)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    means = [(weights * v).sum() for v in (first, second)]
    return [
        (m, math.sqrt((weights * (v - m) ** 2).sum()))
        for m, v in zip(means, (first, second), strict=True)
    ]


def test_the_numbers_of_a_site_move_together(rng):
    model = two_columns(rng)
    trace = sampled(model, sm.Langevin("a"), 20_000)
    draws = np.asarray(trace.draws["a"])[0]
    for g in range(5):
        for j, (mean, sd) in enumerate(by_grid(model, g)):
            assert max(errors_of((draws[:, g, j] - mean) / sd)) < 5.0, (g, j)
    assert trace.stats["a"]["decisions"].sum() == 5 * 20_000


def test_the_gradient_leads_where_a_walk_does_not(rng):
    """Of the same decisions twice as many effective draws, and more; not by a wrong gradient."""
    model = two_columns(rng)
    found = [
        min(
            float(az.ess(np.ascontiguousarray(line)[None]))
            for line in np.asarray(sampled(model, kernel, 4_000).draws["a"])[0].reshape(-1, 10).T
        )
        for kernel in (sm.Langevin("a"), sm.Metropolis("a", adapt=False, scale=0.4))
    ]
    assert found[0] > 2.0 * found[1]


def test_each_site_reads_its_own_data():
    """Two ends of a difference at both ends of a move, and the decision."""
    model, draws = model_of(), 500
    told = sampled(model, hierarchy(), draws).stats["a"]
    assert told["decisions"].sum() == draws * len(SIZES)
    assert told["pulls"].sum() == 2 * draws * model.size
    assert told["gradients"].sum() == 4 * draws * model.size


def test_runs_resume_bit_for_bit(tmp_path):
    model, path = model_of(), tmp_path / "run.nc"
    whole = sampled(model, hierarchy(), 300, 100)
    sampled(model, hierarchy(), 100, 100, store=path)
    again = sm.resume(path, model, hierarchy(), 300, progress=False)
    assert runs.same(whole, again)


def positive_rates(state, data, n):
    return data.y[n] * sm.log(state.a[data.group[n]]) - state.a[data.group[n]]


def test_a_constraint_and_a_start_far_off():
    """Counts of Poisson rates with a gamma prior, which begin a hundredth of what they are."""
    group = np.repeat(np.arange(4), [0, 3, 30, 300])
    y = np.random.default_rng(1).poisson(80.0, len(group)).astype(float)
    model = sm.Model(
        positive_rates, {"y": y, "group": group}, {"a": np.full(4, 0.8)},
        constraints={"a": sm.positive}, touches={"a": "group"},
        site_prior={"a": lambda state, i: 3.0 * sm.log(state.a[i]) - 0.05 * state.a[i]},
    )  # fmt: skip
    draws = np.asarray(sampled(model, sm.Langevin("a"), 20_000).draws["a"])[0]
    for g in range(4):
        shape, rate = 4.0 + y[group == g].sum(), 0.05 + (group == g).sum()
        z = (draws[:, g] - shape / rate) / (math.sqrt(shape) / rate)
        assert max(errors_of(z)) < 5.0, g


def test_sites_of_many_data_are_raced():
    group = np.repeat(np.arange(2), 5_000)
    y = np.random.default_rng(2).standard_normal(len(group)) + group
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2,
        {"y": y, "group": group}, {"a": np.zeros(2)}, touches={"a": "group"},
    )  # fmt: skip
    kernel = sm.Langevin("a", selector=sm.Racing(sm.Betting(bounds=(-60.0, 60.0))))
    assert "Racing" in kernel.describe(model) and "bounded" in kernel.describe(model)
    draws = np.asarray(sampled(model, kernel, 2_000).draws["a"])[0]
    for g in range(2):
        mean = y[group == g].mean()
        assert max(errors_of((draws[:, g] - mean) * math.sqrt(5_000.0))) < 5.0


@pytest.mark.parametrize("given", [
    {"correct": False, "step": 0.01}, {"precondition": np.ones(7)},
    {"gradient": lambda state, data, n, out: None, "batch": 3, "correct": False, "step": 0.1},
])  # fmt: skip
def test_what_is_about_all_data_moves_them_as_one(given):
    told = sm.Langevin("a", **({"batch": 8} | given))
    assert not told.by_site(model_of())
    assert hierarchy().parts[0].by_site(model_of())


def test_describe_says_so():
    told = hierarchy().describe(model_of()).splitlines()[1]
    assert "Langevin moves a site by site (7 sites); Exact(); guarantee: exact (at most 80" in told
    assert "along the gradient of these" in told


def test_a_datum_without_a_number_is_named():
    def of_datum(state, data, n):
        return sm.log(state.a[data.group[n]] + data.y[n])

    data = {"y": np.array([1.0, 1.0, -1.0, 1.0]), "group": np.array([0, 0, 1, 1])}
    model = sm.Model(of_datum, data, {"a": np.array([1.0, 0.5])}, touches={"a": "group"})
    with pytest.raises(sm.RewardError, match="datum 2"):
        sampled(model, sm.Langevin("a"), 10, 10)
