"""sm.Metropolis with sm.SiteTaylor: what it reads, says and refuses, and how runs go on."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.kernels.sites import side_by_side
from subsample_mcmc.runs.default_kernel import candidates_of
from tests.helpers.by_sums import data_of, model_of, of_site, poisson, prior_of_slope, reference_of


def kernel_of(model, control, **more):
    return sm.Metropolis("a", scale=0.1, control=control, **more) >> sm.Metropolis(
        "slope", scale=0.05, control=control, **more
    )


@pytest.fixture(scope="module")
def many():
    """Groups of so many rows that hardly any is read."""
    model = model_of("poisson", 4, 400)
    return model, sm.SiteTaylor(sm.laplace(model, progress=False))


def drawn(model, kernel, draws=300, **more):
    given = {"warmup": 100, "chains": 1, "seed": 4, "progress": False} | more
    return sm.sample(model, kernel, draws, **given)


def test_decisions_read_hardly_a_row(many):
    """Of 3,200 rewards a sweep over sites, and as many for the slope."""
    model, control = many
    trace = drawn(model, kernel_of(model, control), 2_000, warmup=500)
    for name, most in (("a", 60.0), ("slope", 300.0)):  # nearly all by decisions beyond the ball
        assert trace.stats[name]["pulls"].mean() < most
        assert trace.stats[name]["predicted"].sum() > 0.9 * trace.stats[name]["decisions"].sum()
        assert trace.stats[name]["accepted"].sum() / trace.stats[name]["decisions"].sum() > 0.2


def test_it_says_what_it_does(many):
    model, control = many
    told = kernel_of(model, control).describe(model)
    assert told.count("Thinned(); control: SiteTaylor(); guarantee: exact") == 2
    assert told.count("polynomials of 1 numbers of each site and 1 that all data see") == 2
    assert "are summed" not in told
    report = drawn(model, kernel_of(model, control)).report()
    assert "slope: polynomials of 1 numbers of each site" in str(report)


def test_sites_of_few_rows_are_summed_as_without():
    """Then decisions are those of Exact, number by number; how many are so is said."""
    data = data_of("poisson", 3, 8)
    model = model_of("poisson", 3, data=data)
    control = sm.SiteTaylor(reference_of(model, "poisson"))
    slope = sm.Metropolis("slope", scale=0.2, selector=sm.Exact())
    by_sums = sm.Metropolis("a", control=control) >> slope
    exact = sm.Metropolis("a", selector=sm.Exact()) >> slope
    assert "3 of 3 sites are summed: they have few data" in by_sums.describe(model)
    one, two = (drawn(model, kernel) for kernel in (by_sums, exact))
    np.testing.assert_array_equal(one.draws["a"], two.draws["a"])


def test_rows_that_see_no_site_count_for_what_all_rows_see():
    """Their polynomial is one of the slope alone; bounds are theirs, too."""
    rng = np.random.default_rng(5)
    data = data_of("poisson", 2, 60)
    group = np.where(rng.random(120) < 0.5, data["group"], -1)

    def likelihood(state, data, n):
        g = data.group[n]
        eta = state.slope[0] * data.x[n] + (state.a[g] if g >= 0 else 0.2)
        return data.y[n] * eta - sm.exp(eta)

    indices = np.concatenate([np.flatnonzero(group == g) for g in range(2)])
    indptr = np.array([0, (group == 0).sum(), (group >= 0).sum()])
    model = sm.Model(
        likelihood, data | {"group": group}, {"a": np.zeros(2), "slope": 0.0}, prior_of_slope,
        touches={"a": (indptr, indices)}, site_prior={"a": of_site},
    )  # fmt: skip
    control = sm.SiteTaylor({"a": np.full(2, 0.3), "slope": np.array([0.3])})
    sums = prepared_for(model, control).sums
    assert sums.indptr[-1] - sums.indptr[-2] == (group < 0).sum() > 0
    assert sums.totals[1, -1] > 0.0 and np.isfinite(sums.totals).all()
    wide = sm.Thinned(most=1e6)
    trace = drawn(model, kernel_of(model, control, selector=wide), 4_000, warmup=1_000)
    exact = drawn(model, kernel_of(model, None, selector=sm.Exact()), 4_000, warmup=1_000)
    for name in ("a", "slope"):
        one, two = (np.asarray(t.draws[name])[0].reshape(4_000, -1) for t in (trace, exact))
        assert np.all(np.abs(one.mean(axis=0) - two.mean(axis=0)) < 0.3 * two.std(axis=0))


def test_blocks_that_are_numbered_alike_are_one_site(rng):
    """An intercept and a rate of each group, in blocks of their own: both move, by both's rows."""
    group = np.sort(rng.integers(2, size=120))
    x = rng.random(120)
    y = rng.poisson(np.exp(0.5 + x)).astype(float)

    def likelihood(state, data, n):
        g = data.group[n]
        eta = state.a[g] + state.b[g] * data.x[n]
        return data.y[n] * eta - sm.exp(eta)

    model = sm.Model(
        likelihood, {"y": y, "x": x, "group": group}, {"a": np.zeros(2), "b": np.ones(2)},
        constraints={"b": sm.positive}, touches={"a": "group", "b": "group"},
        site_prior={"a": of_site, "b": lambda state, g: -0.5 * state.b[g] ** 2},
    )  # fmt: skip
    control = sm.SiteTaylor({"a": np.full(2, 0.5), "b": np.ones(2)})
    chains = []
    for more in ({"control": control, "selector": sm.Thinned(most=1e6)}, {"selector": sm.Exact()}):
        kernel = sm.Metropolis("a", scale=0.2, **more) >> sm.Metropolis("b", scale=0.2, **more)
        chains.append(drawn(model, kernel, 6_000, warmup=1_000))
    assert "of 2 numbers of each site and 0 that all" in kernel_of_both(control).describe(model)
    assert chains[0].stats["a"]["pulls"].sum() > 1_000
    for name in ("a", "b"):
        one, two = (np.asarray(t.draws[name])[0] for t in chains)
        assert np.all(np.abs(one.mean(axis=0) - two.mean(axis=0)) < 0.25 * two.std(axis=0))
        assert np.all(np.abs(np.log(one.std(axis=0) / two.std(axis=0))) < 0.2)


def kernel_of_both(control):
    return sm.Metropolis("a", control=control) >> sm.Metropolis("b", control=control)


@pytest.mark.plain
def test_plain_python_reads_what_compiled_code_does():
    model = model_of("poisson", 2, 20)
    control = sm.SiteTaylor(reference_of(model, "poisson"))
    kernel = kernel_of(model, control, selector=sm.Thinned(most=1e6))
    trace = drawn(model, kernel, 30, warmup=30, audit=1.0)
    for name in ("a", "slope"):
        stats = trace.stats[name]
        # Those that read everything are not audited.
        assert stats["audited"].sum() == (stats["decisions"] - stats["exact"]).sum() > 0
        assert stats["wrong"].sum() == 0 and stats["regret"].sum() > 0.0
        assert stats["pulls"].sum() > 0


def test_audits_change_no_draw_and_add_up_what_is_left_over(many):
    model, control = many
    plain, audited = (drawn(model, kernel_of(model, control), audit=share) for share in (0.0, 0.5))
    for name in ("a", "slope"):
        np.testing.assert_array_equal(plain.draws[name], audited.draws[name])
        lost = audited.stats[name]["regret"].sum() / audited.stats[name]["audited"].sum()
        assert 0.0 < lost < 0.05  # nats


def test_runs_go_on_bit_for_bit_and_chains_have_streams_of_their_own(many, tmp_path):
    model, control = many
    kernel = kernel_of(model, control)
    whole = drawn(model, kernel, 60, chains=2)
    path = tmp_path / "run.nc"
    drawn(model, kernel, 30, chains=2, store=path)
    again = sm.resume(path, model, kernel, draws=60, progress=False)
    for name in ("a", "slope"):
        np.testing.assert_array_equal(whole.draws[name], again.draws[name])
        assert not np.array_equal(whole.draws[name][0], whole.draws[name][1])


@pytest.mark.slow
def test_processes_draw_the_same(many):
    model, control = many
    kernel = kernel_of(model, control)
    one, two = (drawn(model, kernel, 40, chains=2, cores=2, parallel=how) for how in (None, "loky"))
    np.testing.assert_array_equal(one.draws["a"], two.draws["a"])


def test_sites_go_side_by_side(many, monkeypatch):
    """Parts have streams of their own; what is decided is the same, whatever the cores."""
    model, control = many
    sites, slope = sm.Metropolis("a", control=control), sm.Metropolis("slope", control=control)
    alone = drawn(model, sm.side_by_side(sites, 1) >> slope)
    monkeypatch.setattr(side_by_side, "LEAST", 25)  # so that there are several parts
    one, two = (drawn(model, sm.side_by_side(sites, cores) >> slope) for cores in (1, 2))
    np.testing.assert_array_equal(one.draws["a"], two.draws["a"])
    assert not np.array_equal(one.draws["a"], alone.draws["a"])


def test_default_kernels_try_it_where_groups_have_many_rows():
    """First; and where they have few, not at all."""
    for rows, tried in ((120, True), (30, False)):
        found = candidates_of(model_of("poisson", 70, rows), "exact")[0]
        codes = [c.code for c in found if "control=known" in c.code]
        assert bool(codes) == tried
        assert not tried or (codes[0] == found[0].code and found[0].guarantee == "exact")


def kinked(state, data, n):
    return -abs(data.y[n] - state.a[data.group[n]] - state.slope[0] * data.x[n])


def crossed(state, data, n):
    eta = state.a[data.group[n]] + state.b[data.other[n]]
    return data.y[n] * eta - sm.exp(eta)


def test_what_it_does_not_serve_is_refused(many):
    model, control = many
    data, state = data_of("poisson", 3, 20), {"a": np.zeros(3), "slope": 0.0}
    at = sm.SiteTaylor({"a": np.full(3, 0.3), "slope": np.array([0.3])})

    def made(likelihood=poisson, state=state, data=data, **more):
        given = {"touches": {"a": "group"}, "site_prior": {"a": of_site}} | more
        return sm.Model(likelihood, data, state, prior_of_slope, **given)

    for kernel, of, match in (
        (sm.Metropolis("a", control=control, selector=sm.Exact()), model, "decisions that thin"),
        (sm.Metropolis("a", control=control, selector=sm.Racing()), model, "decisions that thin"),
        (sm.Metropolis(("a", "slope"), control=control), model, "sites of 'a' move one by one"),
        (sm.Langevin("slope", control=control), model, "SiteTaylor is for decisions of sm.Metro"),
        (sm.Slice("slope", control=control), model, "SiteTaylor is for decisions of sm.Metro"),
        (sm.delayed(sm.Metropolis("slope", control=control), lambda state: 0.0), model, "screens"),
        (sm.Metropolis("slope", control=at), made(touches={}, site_prior={}),
         "no continuous block has touches"),
        (sm.Metropolis("a", control=at), made(site_prior={}), "no prior of their own"),
        (sm.Metropolis("a", control=at), made(kinked), "not the same everywhere|no bound near"),
        (sm.Metropolis("mu", control=sm.SiteTaylor(
            {"a": np.full(3, 0.3), "slope": np.array([0.3]), "mu": np.zeros(1)})),
         made(state=state | {"mu": 0.0}), "no datum depends on it"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            kernel.describe(of)
    both = {"a": np.zeros(3), "b": np.zeros(2), "slope": 0.0}
    other = data | {"other": np.arange(60) % 2}
    two = made(
        crossed, both, other, touches={"a": "group", "b": "other"},
        site_prior={"a": of_site, "b": lambda state, g: -0.5 * state.b[g] ** 2},
    )  # fmt: skip
    with pytest.raises(ValueError, match="see sites of 'b', too"):
        sm.Metropolis(
            "a", control=sm.SiteTaylor({k: np.zeros(np.shape(v) or 1) for k, v in both.items()})
        ).describe(two)


def test_what_all_rows_see_is_not_decided_by_a_wrong_table_of_touches():
    """Sites need not move one by one, and then no other kernel asks whose rows are whose."""
    data, at = data_of("poisson", 3, 20), {"a": np.full(3, 0.3), "slope": np.array([0.3])}
    data["other"] = (data["group"] + 1) % 3
    state = {"a": np.zeros(3), "slope": 0.0}

    def kernel(touches):
        model = sm.Model(
            poisson, data, state, prior_of_slope, touches=touches, site_prior={"a": of_site}
        )
        joint = sm.Metropolis(("a", "slope"), selector=sm.Exact())
        return joint >> sm.Metropolis("slope", control=sm.SiteTaylor(at)), model

    right, wrong = kernel({"a": "group"}), kernel({"a": "other"})
    assert "polynomials of 1 numbers" in right[0].describe(right[1])
    with pytest.raises(ValueError, match="is said to see"):
        wrong[0].describe(wrong[1])


def test_sites_that_are_not_always_there_are_refused():
    """Also for what all rows see: their polynomials would be those of one length."""
    model = sm.Model(
        poisson, data_of("poisson", 3, 20), {"a": np.zeros(3), "slope": 0.0, "few": 0},
        prior_of_slope, support={"few": 2}, lengths={"a": ("few", [2, 3])},
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip
    at = sm.SiteTaylor({"a": np.full(3, 0.3), "slope": np.array([0.3])})
    with pytest.raises(ValueError, match="'a' varies in length"):
        sm.Metropolis("slope", control=at).describe(model)
