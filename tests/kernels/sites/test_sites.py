"""Continuous blocks whose sites see data of their own: laws, tables of touches, refusals."""

import math
import pickle

import arviz as az
import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.decisions.compared import SameAsPython
from subsample_mcmc.kernels.sites import by_site, watching
from subsample_mcmc.runs import default_kernel
from subsample_mcmc.runs.defaults import pilots
from subsample_mcmc.target.blocks import by_columns
from tests.helpers import runs
from tests.helpers.claims import equal
from tests.helpers.groups import (
    SIZES,
    data_of,
    errors_of,
    hierarchy,
    log_likelihood,
    log_prior,
    model_of,
    of_site,
    sampled,
    wrong,
)


# --------------------------------------------------------------------------------------- laws
def slices(**more):
    """The same moves as slices, of the mean and the scale too."""
    return sm.Slice("a", **more) >> sm.Slice(("mu", "tau"))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [hierarchy, slices])
def test_a_hierarchy_has_the_laws_that_are_known(kernel):
    trace = sampled(model_of(), kernel())
    assert not wrong(trace)


def test_slices_of_sites_read_the_data_of_each():
    trace = sampled(model_of(), slices(), 4_000)
    assert not wrong(trace)
    told = trace.stats["a"]
    # A test asks two states about one site: as many data as the sites have on average, twice.
    each = told["pulls"].sum() / told["decisions"].sum()
    assert 0.8 < each / (2.0 * sum(SIZES) / len(SIZES)) < 1.2
    assert (np.asarray(told["accepted"]) == len(SIZES)).all()
    assert trace.stats["mu+tau"]["pulls"].sum() == 0
    described = slices().describe(model_of())
    assert "a: Slice moves a site by site (7 sites); Exact()" in described
    assert "at most 80 data per site: summed exactly in one loop" in described
    assert "no datum depends on it: decided by the prior alone" in described


def test_widths_of_slices_are_learnt_site_by_site():
    """By what each site's law is wide: of no datum some 1, of 80 about a sixth."""
    trace = sampled(model_of(), slices(width=1e-3), 500, warmup=500)
    tests = trace.stats["a"]["decisions"].mean() / len(SIZES)
    assert tests < 6.5
    one = sampled(model_of(), slices(width=1.0, adapt=False), 500, warmup=500)
    assert one.stats["a"]["decisions"].mean() / len(SIZES) > tests + 0.3


@pytest.mark.parametrize("kernel", [hierarchy, slices])
def test_sites_with_many_data_are_raced(kernel):
    sizes = (40_000, 3, 0)
    racing = sm.Racing(delta=0.01, batch=100, retreat=False)
    trace = sampled(model_of(sizes), kernel(selector=racing), 2_000 if kernel is hierarchy else 700)
    told = trace.stats["a"]
    assert told["raced"].sum() > 300 and told["pulls"].sum() < 0.95 * told["everything"].sum()
    assert not wrong(trace, sizes)


def short_table():
    """Touches that leave out a quarter of the data of every group with several."""
    indptr, indices = by_columns([data_of()["group"]], len(SIZES))
    sizes = [size - size // 4 for size in SIZES]
    kept = [indices[first : first + k] for first, k in zip(indptr, sizes, strict=False)]
    return np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(kept)


@pytest.mark.parametrize("kernel", [hierarchy, slices])
def test_data_that_are_left_out_would_be_seen(monkeypatch, kernel):
    with pytest.raises(ValueError, match=r"touches\['a'\]: datum \d+ is said to see no site"):
        sampled(model_of(touches=short_table()), kernel(), 5)
    monkeypatch.setattr(by_site, "check_touches", lambda *given: None)
    with pytest.raises(ValueError, match=r"touches\['a'\]: datum \d+ is said to see no site"):
        sampled(model_of(touches=short_table()), kernel(), 5)
    monkeypatch.setattr(by_site, "check_data", lambda *given: None)
    with pytest.raises(RuntimeError, match=r"touches\['a'\]: datum \d+ .*is said to see no site"):
        sampled(model_of(touches=short_table()), kernel(), 5)
    monkeypatch.setattr(watching, "is_known", lambda *given: True)
    assert wrong(sampled(model_of(touches=short_table()), kernel()))


def wider(state, site):
    return 0.75 * of_site(state, site)


@pytest.mark.filterwarnings("ignore:site_prior.*is no density:UserWarning")  # nor it is
@pytest.mark.parametrize("kernel", [hierarchy, slices])
def test_a_wrong_prior_of_a_site_would_be_seen(kernel):
    model = model_of()
    model.site_prior["a"] = wider  # of moves only: the whole prior is as it was
    model.prepared[SameAsPython] = True  # which would notice
    assert wrong(sampled(model, kernel()))


def of_pair(state, site):
    z0, z1 = state.a[site, 0] - 1.0, state.a[site, 1] / 2.0
    return -0.5 * (z0 * z0 + z1 * z1)


def of_line(state, data, n):
    g = data.group[n]
    z = data.y[n] - state.a[g, 0] - state.a[g, 1] * data.x[n]
    return -0.5 * z * z


@pytest.mark.parametrize("kernel", [sm.Metropolis("a"), sm.Slice("a", [1.0, 0.5])])
def test_several_numbers_of_a_site_move_together(rng, kernel):
    sizes, start = (0, 3, 60), np.zeros((3, 2))
    group = np.repeat(np.arange(3), sizes)
    x = rng.standard_normal(len(group)) + 1.0
    y = 0.3 * group + x + rng.standard_normal(len(group))
    model = sm.Model(
        of_line, {"y": y, "x": x, "group": group}, {"a": start}, touches={"a": "group"},
        site_prior={"a": of_pair},
    )  # fmt: skip
    trace = sampled(model, kernel, 10_000 if kernel.text().startswith("M") else 4_000)
    for g in range(3):
        rows = np.column_stack([np.ones(sizes[g]), x[group == g]])
        precision = rows.T @ rows + np.diag([1.0, 0.25])
        mean = np.linalg.solve(precision, rows.T @ y[group == g] + [1.0, 0.0])
        z = (np.asarray(trace.draws["a"])[0, :, g] - mean) @ np.linalg.cholesky(precision)
        assert max(*errors_of(z[:, 0]), *errors_of(z[:, 1])) < 5.0, g


def poisson(state, data, n):
    return data.y[n] * sm.log(state.rate[data.group[n]]) - state.rate[data.group[n]]


def gamma(state, site):
    return 2.0 * math.log(state.rate[site]) - state.rate[site]  # Gamma(3, 1)


@pytest.mark.parametrize("kernel", [sm.Metropolis("rate"), sm.Slice("rate")])
def test_constraints_hold_at_each_site(rng, kernel):
    sizes = (0, 4, 50)
    group = np.repeat(np.arange(3), sizes)
    y = rng.poisson(1.0 + group).astype(float)
    model = sm.Model(
        poisson, {"y": y, "group": group}, {"rate": np.ones(3)},
        constraints={"rate": sm.positive}, touches={"rate": "group"}, site_prior={"rate": gamma},
    )  # fmt: skip
    trace = sampled(model, kernel, 10_000 if kernel.text().startswith("M") else 4_000)
    for g in range(3):
        law = stats.gamma(3.0 + y[group == g].sum(), scale=1.0 / (1.0 + sizes[g]))
        z = stats.norm.ppf(law.cdf(np.asarray(trace.draws["rate"])[0, :, g]))
        assert max(errors_of(z)) < 5.0, g


# ------------------------------------------------------------------ the same as without touches
def one_mean(state, data, n):
    return -0.5 * (data.y[n] - state.a[0]) ** 2


def walks(by_site):
    return sm.Metropolis("a", selector=sm.Exact(), proposal=None if by_site else sm.pcn())


def sliced(by_site):
    return sm.Slice("a", selector=sm.Exact())


@pytest.mark.parametrize("kernel", [walks, sliced])
def test_one_site_that_sees_all_data_moves_as_a_block(rng, kernel):
    y = rng.standard_normal(200)
    every = (np.array([0, 200]), np.arange(200))
    traces = [
        sampled(
            sm.Model(one_mean, {"y": y}, {"a": np.zeros(1)}, touches=touches),
            kernel(bool(touches)), 500, 300,
        )
        for touches in ({}, {"a": every})
    ]  # fmt: skip
    first, second = (np.asarray(t.draws["a"]) for t in traces)
    assert len(np.unique(first)) > 100
    np.testing.assert_allclose(first, second, rtol=1e-9)


@pytest.mark.parametrize("kernel", [hierarchy, slices])
def test_the_whole_prior_does_where_sites_have_none(kernel):
    def whole(state):
        total = log_prior(state)
        for site in range(len(SIZES)):
            total += of_site(state, site)
        return total

    first = sampled(model_of(), kernel(), 300, 100)
    second = sampled(model_of(log_prior=whole, site_prior=None), kernel(), 300, 100)
    for name in ("a", "mu", "tau"):
        np.testing.assert_allclose(first.draws[name], second.draws[name], rtol=1e-6)


@pytest.mark.parametrize("kernel", [hierarchy, slices])
def test_runs_resume_bit_for_bit(tmp_path, kernel):
    model, path = model_of(), tmp_path / "run.nc"
    whole = sampled(model, kernel(), 400, 200)
    sampled(model, kernel(), 150, 200, store=path)
    again = sm.resume(path, model, kernel(), 400, progress=False)
    assert runs.same(whole, again)


@pytest.mark.plain
def test_models_are_made_anew_where_they_are_unpickled():
    model = model_of()
    again = pickle.loads(pickle.dumps(model))
    assert again.fingerprints() == model.fingerprints()
    assert list(again.site_prior) == ["a"]
    first, second = (sampled(m, hierarchy(), 50, 50).draws["a"] for m in (model, again))
    assert np.array_equal(first, second)


# ------------------------------------------------------------------------------- whose data decide
def test_what_no_datum_depends_on_reads_none():
    model = model_of()
    trace = sampled(model, hierarchy(), 200, 100)
    assert trace.stats["mu+tau"]["pulls"].sum() == 0
    told = hierarchy().describe(model)
    assert "no datum depends on it: decided by the prior alone" in told
    assert "a site by site (7 sites)" in told and "at most 80 data per site" in told


def around_mu(state):
    return -0.5 * (state.beta[0] - state.mu[0]) ** 2 - 0.5 * state.mu[0] ** 2


@pytest.mark.slow_for("None")
@pytest.mark.parametrize("selector", [None, sm.Thinned(), sm.Exact(), sm.Racing()])
def test_with_a_control_variate_too(rng, selector):
    x = rng.standard_normal((3_000, 1))
    y = (rng.random(3_000) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(float)
    given = sm.models.glm.logistic(x, y)
    state = {"mu": 0.0, "beta": np.zeros(1)}
    model = sm.Model(given.predictors, given.data, state, around_mu)
    control = sm.Taylor({"beta": np.ones(1), "mu": 0.5})
    parts = [sm.Metropolis(n, selector=selector, control=control) for n in ("mu", "beta")]
    trace = sampled(model, sm.cycle(*parts), 2_000)
    told = trace.stats
    assert (np.asarray(told["mu"]["steps"]) == 1).all()  # each counts in columns of its own
    assert (np.asarray(told["beta"]["steps"]) == 1).all()
    assert told["mu"]["pulls"].sum() == 0
    mu, beta = np.asarray(trace.draws["mu"])[0], np.asarray(trace.draws["beta"])[0, :, 0]
    assert max(errors_of((mu - beta / 2.0) * math.sqrt(2.0))) < 5.0


@pytest.mark.slow
def test_a_default_kernel_knows_sites(monkeypatch):
    kernel = sm.default_kernel(model_of(), promise="exact", progress=False)
    assert kernel.guarantee == "exact"
    trace = sampled(model_of(), kernel, 4_000)
    assert not wrong(trace)
    found = default_kernel.candidates_of(model_of(), "exact")[0]
    several = 'sm.repeat(sm.Metropolis(("mu", "tau"), proposal=sm.pcn()), 5)'
    woven = 'sm.interweave("a", location="mu", scale="tau")'
    own = 'sm.Metropolis("a", proposal=sm.pcn(fit))'
    for offered in (several, 'sm.SurrogateTransition(("mu", "tau"), fit)'):
        each = f"{own} >> {offered}"
        assert {f"{each} >> {woven}", each} <= {c.code for c in found}
    # Where no pilot tells anything, the best bet.
    monkeypatch.setattr(pilots, "effective", lambda *given: (0.0, 1.0))
    best, notes = pilots.by_pilots(model_of(), found, None, 1_000, False)
    assert best[0].code == found[0].code and all("did not mix in" in note for note in notes)


def helped(state, data, n):
    return read_there(state, data, n)


def read_there(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def test_what_a_helper_reads_is_read(rng):
    data = {"y": rng.standard_normal(300) + 3.0}
    model = sm.Model(helped, data, {"mu": 0.0, "other": 0.0}, prior)
    kernel = sm.Metropolis("mu", selector=sm.Exact()) >> sm.Metropolis("other")
    trace = sampled(model, kernel, 1_000)
    assert trace.stats["mu"]["pulls"].sum() > 0
    assert abs(float(np.asarray(trace.draws["mu"]).mean()) - 3.0) < 0.5


def prior(state):
    return -0.5 * state.other[0] ** 2


# ------------------------------------------------------------------------------ tables of touches
@pytest.mark.plain
def test_a_column_is_the_table_that_it_says(rng):
    columns = [rng.integers(9, size=500), rng.integers(9, size=500)]
    for given in (columns[:1], columns):
        indptr, indices = by_columns(given, 10)
        for site in range(10):
            seen = np.flatnonzero(np.any([c == site for c in given], axis=0))
            assert np.array_equal(np.sort(indices[indptr[site] : indptr[site + 1]]), seen)


def match(state, data, n):
    return sm.log_sigmoid(state.skill[data.winner[n]] - state.skill[data.loser[n]])


def test_a_datum_may_see_two_sites(rng):
    players, games = 6, 400
    pairs = np.array([rng.choice(players, 2, replace=False) for _ in range(games)])
    skill = np.linspace(-1.0, 1.0, players)
    gap = skill[pairs[:, 0]] - skill[pairs[:, 1]]
    won = rng.random(games) < 1.0 / (1.0 + np.exp(-gap))
    data = {
        "winner": np.where(won, pairs[:, 0], pairs[:, 1]),
        "loser": np.where(won, pairs[:, 1], pairs[:, 0]),
    }

    def model(touches):
        return sm.Model(
            match, data, {"skill": np.zeros(players)}, touches={"skill": touches},
            site_prior={"skill": lambda state, site: -0.5 * state.skill[site] ** 2},
        )  # fmt: skip

    trace = sampled(model(("winner", "loser")), sm.Metropolis("skill"), 2_000)
    whole = sampled(
        sm.Model(match, data, {"skill": np.zeros(players)}, lambda s: -0.5 * (s.skill**2).sum()),
        sm.Metropolis("skill", selector=sm.Exact()), 20_000, 4_000,
    )  # fmt: skip
    for site in range(players):
        both = [np.asarray(t.draws["skill"])[..., site] for t in (trace, whole)]
        errors = [v.std() / np.sqrt(float(az.ess(v, method="mean"))) for v in both]
        assert abs(both[0].mean() - both[1].mean()) < 5.0 * np.hypot(*errors), site
    with pytest.raises(ValueError, match=r"is said to see skill\[\d\], but its log likelihood"):
        sampled(model("winner"), sm.Metropolis("skill"), 5)


def hidden(state, data, n):
    return -abs(data.y[n] - state.gain[0] * state.z[data.group[n]])


@pytest.mark.plain
@pytest.mark.parametrize("sites", [np.zeros(4, int), np.zeros(4)])
def test_a_zero_does_not_hide_data_that_are_left_out(rng, sites):
    data = {"y": rng.standard_normal(300), "group": rng.integers(4, size=300)}
    data["wrong"] = (data["group"] + (np.arange(300) % 10 == 0)) % 4  # one in ten

    def model(column):
        return sm.Model(
            hidden, data, {"z": sites, "gain": 0.0}, touches={"z": column},
            support={"z": 3} if sites.dtype == int else {},
        )  # fmt: skip

    kernel = sm.Gibbs("z") if sites.dtype == int else sm.Metropolis("z")
    kernel.describe(model("group"))
    with pytest.raises(ValueError, match=r"is said to see z\[\d\], but its log likelihood goes"):
        kernel.describe(model("wrong"))


def label(state, data, n):
    return -abs(data.y[n] - state.z[data.group[n]])


def test_columns_serve_discrete_blocks(rng):
    group = rng.integers(4, size=300)
    data = {"y": group % 3 + rng.standard_normal(300), "group": group}
    order = np.argsort(group, kind="stable")
    table = (np.concatenate([[0], np.cumsum(np.bincount(group))]), order)
    first, second = (
        sampled(
            sm.Model(label, data, {"z": np.zeros(4, int)}, support={"z": 3}, touches={"z": t}),
            sm.Gibbs("z"), 200, 0,
        ).draws["z"]
        for t in ("group", table)
    )  # fmt: skip
    assert np.array_equal(first, second) and len(np.unique(first)) > 1
    equal(int(np.sum(np.asarray(first)[0, :, 1] == 1)), 200, *share_of(data, 1))


def share_of(data, site):
    y = data["y"][data["group"] == site]
    logp = np.array([-np.abs(y - k).sum() for k in range(3)])
    weights = np.exp(logp - logp.max())
    return (float(weights[1] / weights.sum()),)


# --------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("touches", "error", "match"),
    [
        ("grup", ValueError, r"column 'grup' is none of the data y, group. Did you mean 'group'"),
        ("y", TypeError, r"column 'y' has dtype float64, the value .* give whole numbers from 0"),
        (("group", 3), TypeError, r"give the name of a column of the data"),
        (3, TypeError, r"give the name of a column of the data"),
    ],
)
def test_tables_are_refused(touches, error, match):
    with pytest.raises(error, match=match):
        model_of(touches=touches)


@pytest.mark.plain
@pytest.mark.parametrize("value", [-1, len(SIZES)])
def test_codes_beyond_the_sites_are_refused(value):
    data = data_of()
    data["group"][17] = value
    with pytest.raises(ValueError, match=rf"column 'group' is {value} at datum 17: block 'a'"):
        sm.Model(
            lambda state, data, n: -data.y[n] * state.a[0], data,
            {"a": np.zeros(len(SIZES))}, touches={"a": "group"},
        )  # fmt: skip


def beyond(state, site):
    return -0.5 * (state.a[site] - 0.0 * state.a[site - 1]) ** 2


@pytest.mark.plain
def test_a_look_up_beyond_the_block_is_refused():
    with pytest.raises(IndexError, match=r"reads beyond block .a.: .state.a.site - 1.. asks for"):
        sampled(model_of(site_prior={"a": beyond}), hierarchy(), 5)


@pytest.mark.plain
def test_kernels_are_refused_that_are_about_all_data():
    model = model_of()
    fit = {"a": np.zeros(len(SIZES)), "mu": 0.0, "tau": 1.0}
    flat = sm.delayed(sm.Metropolis("a"), lambda state: 0.0)
    own = (lambda rng, current, out: None,)
    for kernel, match in (
        (sm.Metropolis("a", control=sm.Taylor(fit)), "and control is about all data"),
        (flat, "and surrogate is about all data"),
        (sm.Metropolis("a", proposal=own[0]), "its sites move from what they learn"),
        (sm.Metropolis("a", scale=np.ones(3)), "a site of 'a' has 1 numbers"),
        (sm.Slice("a", control=sm.Taylor(fit)), "and control is about all data"),
        (sm.Slice("a", np.ones(3)), "width has shape \\(3,\\): a site of 'a' has 1 numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            kernel.describe(model)
    with pytest.raises(ValueError, match="the values of a simplex move together"):
        sm.Model(
            log_likelihood, data_of(), {"a": np.full(len(SIZES), 1 / len(SIZES))},
            constraints={"a": sm.simplex}, touches={"a": "group"},
        )  # fmt: skip
    with pytest.raises(ValueError, match="site_prior names 'b', which is no block"):
        model_of(site_prior={"b": of_site})


def chained(state, site):
    after = state.a[site + 1] if site + 1 < len(state.a) else state.mu[0]
    return -0.5 * (state.a[site] - after) ** 2


def far(state, site):
    return -0.5 * (state.a[site] - 0.1 * state.a[(site + 5) % 7]) ** 2


def with_a(state):
    return log_prior(state) - 0.5 * state.a[3] ** 2


@pytest.mark.plain
def test_priors_of_sites_that_others_see_are_refused():
    for of_sites in (chained, far):
        with pytest.raises(
            ValueError, match=r"site_prior\['a'\] of site \d goes from .* other sites"
        ):
            hierarchy().describe(model_of(site_prior={"a": of_sites}))
    with pytest.raises(ValueError, match=r"log_prior goes from .* where 'a' changes"):
        hierarchy().describe(model_of(log_prior=with_a))
    state = {"a": np.zeros(len(SIZES)), "mu": 0.0, "tau": 1.0, "b": np.zeros(2)}
    both = {"a": of_site, "b": lambda state, site: -abs(state.b[site] - state.a[site])}
    model = sm.Model(
        log_likelihood, data_of(), state, log_prior, constraints={"tau": sm.positive},
        touches={"a": "group"}, site_prior=both,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"site_prior of another block, .* where 'a' changes"):
        sm.Metropolis("a").describe(model)
    whole = model_of(site_prior=None, log_prior=with_a)
    sm.Metropolis("a").describe(whole)  # every move reads all of it


@pytest.mark.plain
def test_many_sites_ask_for_a_prior_of_their_own():
    sizes = (1,) * 1_001
    with pytest.raises(ValueError, match=r"has 1001 sites.*site_prior=\{'a': f\}"):
        hierarchy().describe(model_of(sizes, log_prior=log_prior, site_prior=None))


@pytest.mark.plain
def test_a_bad_value_is_told_with_its_datum():
    data = data_of()
    data["y"][5] = np.inf
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2, data,
        {"a": np.zeros(len(SIZES))}, touches={"a": "group"}, missing="allow",
    )  # fmt: skip
    with pytest.raises(sm.RewardError, match="at datum 5"):
        sampled(model, sm.Metropolis("a"), 5)


# -------------------------------------------------------------------------- a word of advice
@pytest.mark.plain
def test_a_block_that_moves_as_one_is_told_of_its_sites():
    """Where all that is read of it are sites by a column; with touches, nothing is left to tell."""
    data = data_of([3] * 12)
    state = {"a": np.zeros(12), "mu": 0.0, "tau": 1.0}
    kinds = {"tau": sm.positive}
    bare = sm.Model(log_likelihood, data, state, log_prior, constraints=kinds)
    told = (
        "of 'a' a datum sees a[data.group[n]] alone, of 12: given touches={'a': 'group'} and "
        "site_prior={'a': f}, sm.Model lets each move by its own data"
    )
    for kernel in (sm.Metropolis("a"), sm.Metropolis(("mu", "a")), sm.Slice("a")):
        assert kernel.facts(bare)["note"] == told
    assert told in sm.Metropolis("a").describe(bare)
    assert sm.Metropolis("mu").facts(bare)["note"] == sm.Metropolis("tau").facts(bare)["note"]
    assert "touches" not in sm.Metropolis("mu").facts(bare)["note"]
    assert "touches=" not in sm.Metropolis("a").facts(model_of([3] * 12))["note"]
    few = sm.Model(log_likelihood, data_of([3] * 9), state | {"a": np.zeros(9)}, log_prior,
                   constraints=kinds)  # fmt: skip
    assert sm.Metropolis("a").facts(few)["note"] == ""
    trace = sampled(bare, hierarchy(), 2, 2)
    assert f"a: {told}" in trace.report().notes


@pytest.mark.slow
def test_a_default_kernel_tells_of_sites():
    data = data_of([3] * 12)
    state = {"a": np.zeros(12), "mu": 0.0, "tau": 1.0}
    bare = sm.Model(log_likelihood, data, state, log_prior, constraints={"tau": sm.positive})
    kernel = sm.default_kernel(bare, progress=False)
    assert any("touches={'a': 'group'}" in line for line in kernel.found)
