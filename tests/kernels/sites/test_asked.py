"""What sees other sites than is said: refused before a chain runs, or ended as it runs."""

from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites import asked, by_site, watching
from subsample_mcmc.kernels.sites.independent import reads_before
from subsample_mcmc.target.blocks import by_columns
from subsample_mcmc.target.lookups.reads import columns_of_sites
from tests.helpers.claims import equal
from tests.helpers.groups import data_of, hierarchy, model_of


def one_mean(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.g[n]]) ** 2


def model_with(prior, sites, rest=None, start=None, **state):
    """A datum for each site, and a prior of a site's value."""
    rng = np.random.default_rng(2)
    data = {"y": rng.standard_normal(sites), "g": np.arange(sites)}
    start = np.zeros(sites) if start is None else start
    return sm.Model(
        one_mean, data, {"a": start, **state}, rest, touches={"a": "g"}, site_prior={"a": prior}
    )


# ------------------------------------------------------------------------------------------ priors
def autoregressive(state, i):
    before = state.a[i - 1] if i > 0 else 0.0
    return -2.0 * (state.a[i] - state.rho[0] * before) ** 2


def rooted(state, i):
    return -0.005 * state.a[0] ** 2 if i == 0 else -2.0 * (state.a[i] - state.a[0]) ** 2


def monotone(state, i):
    return -np.inf if i > 0 and state.a[i] < state.a[i - 1] else 0.0


def some_have(partner):
    def linked(state, i):
        if partner[i] >= 0:
            return -2.6 * (state.a[i] - 0.9 * state.a[partner[i]]) ** 2
        return -0.5 * state.a[i] ** 2

    return linked


def switched(state, i):
    return -0.5 * (state.a[i] - (state.a[0] if state.k[0] == 2 and i > 0 else 0.0)) ** 2


@pytest.mark.plain
def test_priors_that_join_sites_are_refused_wherever_a_chain_starts():
    """Where an indicator or distance hides it; of all sites, however few; and of sites after it."""
    refused = pytest.raises(ValueError, match=r"site_prior\['a'\] of site \d+ goes from .* other")
    for sites in (14, 24, 38, 40):
        with refused:
            sm.Metropolis("a").check(model_with(rooted, sites))
    for seed in range(4):
        partner, pick = np.full(500, -1), np.random.default_rng(seed).permutation(500)
        partner[pick[:1]] = pick[1:2]
        assert not 0 < pick[0] - pick[1] <= asked.BEHIND
        with refused:
            sm.Metropolis("a").check(model_with(some_have(partner), 500))
    for partner in (np.array([1, 2, -1]), np.array([1, -1, 1]), np.arange(9, -1, -1)):
        with refused:  # the site after it; both; some before and some after it
            sm.Metropolis("a").check(model_with(some_have(partner), len(partner)))
    with refused:
        sm.Metropolis("a").check(switched_model(10))


def switched_model(sites):
    """Sites look at the first one where k is 2, and it starts at 0."""
    return sm.Model(
        one_mean, data_of((1,) * sites) | {"g": np.arange(sites)}, {"a": np.zeros(sites), "k": 0},
        touches={"a": "g"}, site_prior={"a": switched}, support={"k": 3},
    )  # fmt: skip


@pytest.mark.plain
def test_how_many_sites_before_its_own_a_prior_reads():
    """Where a coefficient of 0, an indicator or distance hides it where the chain starts, too."""
    for rho in (0.0, 0.5):
        assert asked.seen_behind("a", model_with(autoregressive, 8, rho=rho)) == 1
    start = 2.0 * np.arange(6.0)
    assert asked.seen_behind("a", model_with(monotone, 6, start=start)) == 1
    for sites in (3, 9):
        assert asked.seen_behind("a", model_with(rooted, sites)) == sites - 1
    assert asked.seen_behind("a", switched_model(6)) == 5
    for apart in (1, 3, 8):
        partner = np.where(np.arange(30) < apart, -1, np.arange(30) - apart)
        assert asked.seen_behind("a", model_with(some_have(partner), 30)) == apart
    alone = model_with(lambda state, i: -0.5 * state.a[i] ** 2, 30)
    assert asked.seen_behind("a", alone) == 0
    asked.check_site_prior("a", alone)
    assert asked.sites_behind("a", alone) == 0  # as its code says
    with pytest.raises(ValueError, match="of a site reads the site before it, too"):
        asked.check_site_prior("a", model_with(autoregressive, 8, rho=0.5))


def a_walk_if_k(state, i):
    mean = 0.9 * state.a[i - 1] if state.k[0] == 1 and i > 0 else 0.0
    return -0.5 * (state.a[i] - mean) ** 2


def a_walk_above_25(state, i):
    mean = state.a[i - 1] if i > 0 and state.a[i - 1] > 25.0 else 0.0
    return -0.5 * (state.a[i] - mean) ** 2


@pytest.mark.plain
def test_what_a_prior_was_not_seen_to_read_is_asked_all_the_same():
    """Of 77 numbers of sites a walk that an indicator turns on was not seen at 8."""
    unseen = 0
    for sites in (*range(3, 24), 30, 32):
        model = sm.Model(
            one_mean, {"y": np.zeros(sites), "g": np.arange(sites)}, {"a": np.zeros(sites), "k": 0},
            touches={"a": "g"}, site_prior={"a": a_walk_if_k}, support={"k": 2},
        )  # fmt: skip
        unseen += asked.seen_behind("a", model) == 0
        assert asked.sites_behind("a", model) == 1  # as its code says
    assert unseen > 0  # else this test would show nothing
    model = model_with(a_walk_above_25, 6)
    assert (asked.seen_behind("a", model), asked.sites_behind("a", model)) == (0, 1)


def lags_of_k(state, i):
    mean = 0.5 * state.a[i - state.k[0]] if state.k[0] > 0 and i >= state.k[0] else 0.0
    return -0.5 * (state.a[i] - mean) ** 2


@pytest.mark.plain
def test_where_the_code_does_not_say_how_many_the_most_are_asked():
    model = sm.Model(
        one_mean, {"y": np.zeros(12), "g": np.arange(12)}, {"a": np.zeros(12), "k": 0},
        touches={"a": "g"}, site_prior={"a": lags_of_k}, support={"k": 3},
    )  # fmt: skip
    assert asked.seen_behind("a", model) < 2  # of two that it may read
    assert asked.sites_behind("a", model) == asked.BEHIND

    def a_year_ago(state, i):
        before = state.a[i - 12] if state.k[0] == 2 and i > 11 else 0.0
        return -0.5 * (state.a[i] - before) ** 2

    for sites in (14, 20):  # seen or not
        model = sm.Model(
            one_mean, {"y": np.zeros(sites), "g": np.arange(sites)}, {"a": np.zeros(sites), "k": 0},
            touches={"a": "g"}, site_prior={"a": a_year_ago}, support={"k": 40},
        )  # fmt: skip
        with pytest.raises(ValueError, match=r"site_prior\['a'\] (reads a\[site - 12\]|of site)"):
            sm.Metropolis("a").check(model)


# What the code says where the first site is written as a[0]: how many before its own, or None.
def returned(state, i):
    if i == 0:
        return -0.5 * state.a[0] ** 2
    return -((state.a[i] - state.a[i - 1]) ** 2)


def chosen(state, i):
    return -((state.a[i] - state.a[i - 1]) ** 2) if i > 0 else -0.5 * state.a[0] ** 2


def otherwise(state, i):
    if i >= 1:
        z = state.a[i] - 0.5 * state.a[i - 1]
    else:
        z = state.a[0]
    return -z * z


def within(state, i):
    z = state.a[i]
    z -= state.a[i - 2] if i != 0 else 0.3 * state.a[0]
    return -z * z


def everywhere(state, i):
    return -(state.a[0] ** 2) - state.a[i]


def unless_k(state, i):
    if i > 0 and state.k[0] == 1:
        return -state.a[i]
    return -state.a[0]


def or_k(state, i):
    if i == 0 or state.k[0] == 1:
        return -state.a[0]
    return -state.a[i]


def afterwards(state, i):
    z = -state.a[i] if i != 0 else 0.0
    return z - state.a[0]


def turned_round(state, i):
    if not i == 0:  # noqa: SIM201
        return -state.a[0]
    return -state.a[i]


def of_the_second(state, i):
    if i == 1:
        return -state.a[0] - state.a[i]
    return -state.a[i]


def in_a_loop(state, i):
    total = 0.0
    for _ in range(3):
        if i > 0:
            continue
        total -= state.a[0]
    return total - state.a[0]


@pytest.mark.parametrize(("prior", "told"), [
    (returned, 1), (chosen, 1), (otherwise, 1), (within, 2), (everywhere, None), (unless_k, None),
    (or_k, None), (afterwards, None), (turned_round, None), (of_the_second, None),
    (in_a_loop, None),
])  # fmt: skip
def test_the_first_site_by_its_number(prior, told):
    """It is a site's own only where the code has asked that it is the first."""
    assert reads_before(prior, 1, "a", model_with(alone, 4, mu=0.0, k=0.0)) == told


def independent(state, i):
    return -0.5 * ((state.a[i] - state.mu[0]) / 0.7) ** 2


def given_the_other(state, i):
    return -0.5 * (state.b[i] - state.rho[0] * state.a[i]) ** 2


@pytest.mark.plain
def test_priors_of_another_block_and_the_rest_are_asked_elsewhere_too():
    data = {"y": np.zeros(5), "g": np.arange(5)}
    state = {"a": np.zeros(5), "b": np.zeros(5), "rho": 0.0, "mu": 0.0}

    def made(rest=None, **priors):
        return sm.Model(
            one_mean, data, state, rest, touches={"a": "g", "b": "g"}, site_prior=priors
        )

    sm.Metropolis("a").check(made(a=independent))
    sm.Metropolis("b").check(made(a=independent, b=given_the_other))
    with pytest.raises(ValueError, match=r"site_prior of another block, \d+, goes from"):
        sm.Metropolis("a").check(made(a=independent, b=given_the_other))
    with pytest.raises(ValueError, match=r"log_prior goes from .* where 'a' changes"):
        sm.Metropolis("a").check(made(lambda s: -s.rho[0] * s.a[2], a=independent))
    with pytest.raises(ValueError, match="site_prior of another block"):  # one function, twice
        sm.Metropolis("a").check(made(a=independent, b=independent))


def alone(state, i):
    return independent(state, i)


@pytest.mark.plain
def test_priors_of_single_sites_pass_once_a_model(monkeypatch):
    model, times = model_with(alone, 20, lambda state: -(state.mu[0] ** 2), mu=0.0), []
    ask = asked.ask_prior
    monkeypatch.setattr(asked, "ask_prior", lambda *given: times.append(1) or ask(*given))
    for _ in range(3):
        sm.Metropolis("a").check(model)
    assert len(times) == len(asked.AWAY) * len(asked.SIZES)


# -------------------------------------------------------------------------------------------- data
def seen_by_two(state, data, n):
    other = state.a[data.h[n]] if data.h[n] >= 0 else 0.0
    return -0.5 * (data.y[n] - state.a[data.g[n]] - other) ** 2


@pytest.mark.plain
@pytest.mark.parametrize("row", [0, 1_234, 1_999])
def test_one_datum_that_a_table_leaves_out_is_found(row):
    """No sample of 64 of 2,000 need have it."""
    g, h = np.arange(2_000) % 7, np.full(2_000, -1)
    h[row] = (g[row] + 3) % 7
    model = sm.Model(
        seen_by_two, {"y": np.zeros(2_000), "g": g, "h": h}, {"a": np.zeros(7)}, touches={"a": "g"}
    )
    assert not watching.is_known(model, "a")
    with pytest.raises(ValueError, match=rf"datum {row} is said to see a\[{g[row]}\], but its log"):
        sm.Metropolis("a").check(model)
    h[row] = -1
    model = sm.Model(
        seen_by_two, {"y": np.zeros(2_000), "g": g, "h": h}, {"a": np.zeros(7)}, touches={"a": "g"}
    )
    sm.Metropolis("a").check(model)


@pytest.mark.plain
def test_of_very_many_data_some_are_asked(monkeypatch):
    monkeypatch.setattr(asked, "MOST", 500)
    monkeypatch.setattr(asked, "SPAN", 64)
    g, h = np.arange(2_000) % 7, np.full(2_000, -1)
    h[::2] = (g[::2] + 3) % 7
    columns = {"y": np.zeros(2_000), "g": g, "h": h}
    indptr = np.array([0, *np.cumsum(np.bincount(np.r_[g, h[::2]], minlength=7))])
    indices = np.concatenate([np.flatnonzero((g == k) | (h == k)) for k in range(7)])
    right = sm.Model(seen_by_two, columns, {"a": np.zeros(7)}, touches={"a": (indptr, indices)})
    sm.Metropolis("a").check(right)
    wrong = sm.Model(seen_by_two, columns, {"a": np.zeros(7)}, touches={"a": "g"})
    with pytest.raises(ValueError, match="is said to see"):
        asked.check_data("a", wrong)


# ------------------------------------------------------------------------------- as the chain runs
def hidden(state, data, n):
    sees = data.t[n] == 1 or state.k[0] == 3
    return -0.5 * (data.y[n] - (state.b[0] if sees else 0.0)) ** 2


def test_blocks_of_one_site_are_watched_too(monkeypatch):
    """The table has the first 20 data; in a state that no check tries, all see the site."""
    monkeypatch.setattr(by_site, "check_data", lambda *given: None)
    data = {"y": np.ones(200), "t": (np.arange(200) < 20).astype(int)}
    every, own = (np.array([0, k]) for k in (200, 20))

    def made(indptr):
        return sm.Model(
            hidden, data, {"k": 0, "b": np.zeros(1)}, lambda s: -0.5 * s.b[0] ** 2,
            support={"k": 4}, touches={"b": (indptr, np.arange(indptr[1]))},
        )  # fmt: skip

    kernel = sm.Gibbs("k") >> sm.Metropolis("b", selector=sm.Exact())
    given = {"warmup": 50, "chains": 1, "seed": 1, "progress": False}
    with pytest.raises(RuntimeError, match=r"touches\['b'\]: datum \d+ .*is said to see no site"):
        sm.sample(made(own), kernel, 500, **given)
    sm.sample(made(every), kernel, 100, **given)  # all see it: nobody is asked
    assert len(watching.looked_at(made(every), "b").rows) == 0


def of_cells(state, data, n):
    z = 1.0 * state.z[data.g[n], 0] + 0.5 * state.z[data.g[n], 1] if state.k[0] == 1 else 0.0
    return -0.5 * (data.y[n] - z) ** 2


def test_sites_of_discrete_blocks_are_single_numbers_not_rows(monkeypatch):
    """So a column of rows is no table of them, whatever the code seems to say."""
    g = np.arange(120) % 6
    model = sm.Model(
        of_cells, {"y": np.ones(120), "g": g}, {"k": 0, "z": np.zeros((6, 2), int)},
        support={"k": 3, "z": 2}, touches={"z": "g"},
    )  # fmt: skip
    assert columns_of_sites(model, "z") == () and not watching.is_known(model, "z")
    with pytest.raises(ValueError, match=r"touches\['z'\]: datum \d+ is said to see"):
        sm.Gibbs("z").check(model)


# --------------------------------------------------------------------------- cumulative differences
def before_change(state, data, n):
    if data.series[n] == 2:
        return 0.0
    return -0.5 * (data.y[n] - (0.0 if n < state.k[data.series[n]] else 1.0)) ** 2


def test_cumulative_draws_of_sites_with_touches_read_the_right_data():
    """Two series in turns, each with its change point, and data of neither: laws, and draws."""
    rng, size = np.random.default_rng(2), 24
    series = np.r_[np.arange(size) % 2, np.full(size, 2)]
    y = rng.standard_normal(2 * size) + (np.arange(2 * size) >= np.array([8, 16, 0])[series])

    def drawn(touches):
        model = sm.Model(
            before_change, {"y": y, "series": series}, {"k": np.array([5, 5])},
            support={"k": size + 1}, touches=touches,
        )  # fmt: skip
        kernel = sm.Gibbs("k", cumulative=True)
        trace = sm.sample(model, kernel, 4_000, warmup=0, chains=1, seed=1, progress=False)
        return np.asarray(trace.draws["k"])[0]

    table = by_columns([series[:size]], 2)  # of the first data alone
    found = drawn({"k": table})
    assert np.array_equal(found, drawn(None))
    data = SimpleNamespace(y=y, series=series)
    for s in (0, 1):
        logs = np.array([
            sum(before_change(SimpleNamespace(k=[k, k]), data, n) for n in range(s, size, 2))
            for k in range(size + 1)
        ])  # fmt: skip
        p = np.exp(logs - logs.max())
        p /= p.sum()
        for low in (4, 8, 12, 16, 20):
            equal(int((found[:, s] < low).sum()), 4_000, p[:low].sum(), alarm=1e-6)


# -------------------------------------------------------------------------------------- interweave
@pytest.mark.plain
@pytest.mark.parametrize(("location", "scale"), [("a", None), ("a", "tau"), ("mu", "mu")])
def test_what_is_woven_are_blocks_that_differ(location, scale):
    kernel = hierarchy() >> sm.interweave("a", location=location, scale=scale)
    with pytest.raises(ValueError, match=r"must be three blocks|constraint"):
        kernel.describe(model_of())


def test_priors_are_asked_at_the_scale_of_the_sites():
    """At 1,000 a limit lies a hundred away: no step of 1 or 10 comes to it."""
    group = np.arange(60) % 6

    def likelihood(state, data, n):
        return -1e-6 * (data.y[n] - state.a[data.group[n]]) ** 2

    def of_site(state, i):
        return -0.5 * ((state.a[i] - 1000.0) / 500.0) ** 2

    def limited(state):
        for i in range(6):
            if state.a[i] > 1100.0:
                return -np.inf
        return 0.0

    model = sm.Model(
        likelihood, {"y": np.full(60, 1000.0), "group": group}, {"a": np.full(6, 1000.0)}, limited,
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip
    with pytest.raises(ValueError, match="log_prior goes from 0 to -inf where 'a' changes"):
        sm.sample(model, sm.Metropolis("a"), draws=5, warmup=5, chains=1, progress=False)


def test_priors_are_asked_where_other_blocks_are_far_away():
    """f(state, i) looks at the site after it where a switch is beyond 3, and it starts at .5."""
    group = np.arange(60) % 6

    def likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2

    def of_site(state, i):
        mean = state.a[i + 1] if state.on[0] > 3.0 and i < 5 else 0.0
        return -0.5 * (state.a[i] - mean) ** 2

    model = sm.Model(
        likelihood, {"y": np.zeros(60), "group": group}, {"a": np.zeros(6), "on": 0.5},
        lambda state: -0.5 * (state.on[0] - 6.0) ** 2,
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip
    kernel = sm.Metropolis("a") >> sm.Metropolis("on")
    with pytest.raises(ValueError, match=r"site_prior\['a'\] of site \d goes from"):
        sm.sample(model, kernel, draws=5, warmup=5, chains=1, progress=False)
