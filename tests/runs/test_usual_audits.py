"""Audits that nobody asked for: which runs have them, what they cost, and what they find out."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.decision import PART
from subsample_mcmc.runs.views.html_page import audits_of
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.claims import equal

RACE, EXACT = sm.Racing(), sm.Exact()
NAMES = ("mu", "k", "z")


def squares(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - 0.1 * state.k[0] - 0.01 * state.z[1]) ** 2


def of_mean(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def located(size=20_000):
    y = np.random.default_rng(0).standard_normal(size)
    state = {"mu": 0.0, "k": 0, "z": np.zeros(3, int)}
    return sm.Model(squares, {"y": y}, state, support={"k": 4, "z": 2})


def mean_of(size=20_000, far=()):
    y = np.random.default_rng(0).standard_normal(size)
    y[: len(far)] = far
    return sm.Model(of_mean, {"y": y}, {"mu": 0.0})


def walk(selector=RACE):
    return sm.Metropolis("mu", selector=selector, scale=0.01, adapt=False)


def run(model, kernel, draws=300, warmup=100, chains=2, **more):
    return sm.sample(model, kernel, draws, warmup, chains, seed=3, progress=False, **more)


def counts(trace, name, field="audited"):
    return int(trace.stats[name][field].sum())


def test_draws_are_the_same_with_them_and_without():
    model, kernel = located(), sm.Gibbs("k", RACE) >> walk() >> sm.Gibbs("z", RACE)
    usual, none, each = (run(model, kernel, audit=share) for share in (None, 0.0, 1.0))
    for other in (none, each):
        assert all(np.array_equal(usual.draws[n], other.draws[n]) for n in NAMES)
    for name in NAMES:
        assert counts(none, name) == 0 < counts(usual, name) <= counts(usual, name, "early")
        assert counts(each, name) == counts(each, name, "decisions")


def test_they_find_a_race_that_errs():
    """Twenty rows of 100,000 pull the mean by 13 standard deviations: a batch has none of them."""
    model, kernel = mean_of(100_000, far=np.full(20, 200.0)), sm.Metropolis("mu", selector=RACE)
    told = run(model, kernel, 1_000, 1_000, 4).report()
    assert told.rows[0]["wrong"] > 50 and "audited decisions by some rows were" in str(told)
    assert "so a draw may differ with probability" in str(told)
    silent = run(model, kernel, 1_000, 1_000, 4, audit=0.0).report()
    assert "no decision was audited, so nothing tells how often it errs" in str(silent)


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_they_read_a_fifth_of_what_decisions_read(size):
    """Or all that may be wrong is made again, where that is less; in warm-up nothing is."""
    kernel = sm.Metropolis("mu", selector=RACE, scale=0.3 / size**0.5, adapt=False)
    stats = run(mean_of(size), kernel, 4_000, 500).stats["mu"]
    for chain in range(2):
        again = 2 * size * stats["audited"][chain].sum()
        most = 2 * size * stats["early"][chain].sum()
        allowed = PART * stats["pulls"][chain].sum()
        assert 0.7 * min(allowed, most) <= again <= min(1.4 * allowed, most)


def of_both(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - 0.1 * state.k[0]) ** 2


def test_a_kernel_pays_for_its_own_alone():
    """A walk has as many beside a draw of many arms as without it."""
    model = sm.Model(of_both, {"y": located().data.y}, {"mu": 0.0, "k": 0}, support={"k": 40})
    trace = run(model, walk() >> sm.Gibbs("k", RACE), 2_000)
    alone = run(model, walk() >> sm.Gibbs("k", EXACT), 2_000)
    assert counts(trace, "mu") > 10 and counts(alone, "k") == 0
    equal(counts(trace, "mu"), counts(trace, "mu") + counts(alone, "mu"), 0.5, 1e-4)


# ------------------------------------------------------------------------------- a fair sample
def of_slope(state, data, n):
    return data.x[n] * state.mu[0]


def narrow(state):
    return 0.0 if 0.0 < state.mu[0] < 0.02 else -np.inf


def of_sites(state, data, n):
    return data.x[n] * state.z[data.site[n]]


def barred():
    """Most proposals are outside the prior, and cost nothing; of the others many decide wrongly."""
    x = np.random.default_rng(0).normal(-5e-2, 1e-2, 20_000)
    x[::1_000] = 52.0
    model = sm.Model(of_slope, {"x": x}, {"mu": 0.005}, narrow)
    return model, sm.Metropolis("mu", selector=RACE, scale=0.05, adapt=False), 20_000


def sites(rows, wrong, near=()):
    """Of so many rows each: `wrong` have three that no batch meets, those in `near` are ties."""
    rng, x = np.random.default_rng(0), []
    for s, n in enumerate(rows):
        x.append(rng.normal(-1e-2, 1e-3, n))
        if s in near:
            x[s] = rng.standard_normal(n) * 2 / n**0.5
            x[s] -= x[s].mean()
        elif s in wrong:
            x[s][rng.permutation(n)[:3]] = (0.01 * n + 1.0) / 3.0
    data = {"x": np.concatenate(x), "site": np.repeat(np.arange(len(rows)), rows)}
    model = sm.Model(of_sites, data, {"z": np.zeros(len(rows), int)}, support={"z": 2},
                     touches={"z": "site"})  # fmt: skip
    return model, sm.Gibbs("z", RACE)


def unequal():
    """One large site, which errs, among many small ones."""
    return *sites([60_000] + [2_000] * 20, wrong=[0]), 1_500


def first():
    """Those behind a tie, which all rows decide, in the order in which sites are visited."""
    return *sites([6_000] * 40, wrong=range(1, 9), near=[0]), 600


def last():
    """Those far from it."""
    return *sites([6_000] * 40, wrong=range(32, 40), near=[0]), 600


@pytest.mark.parametrize("made", [barred, unequal, first, last])
def test_those_that_err_are_audited_as_often_as_others(made):
    """The rate that a few audits say is that of these draws, of which all were audited."""
    model, kernel, draws = made()
    some, each = (run(model, kernel, draws, 100, 1, audit=share) for share in (None, 1.0))
    name = kernel.label
    early, wrong = counts(each, name, "early"), counts(each, name, "wrong")
    assert 0.02 < wrong / early < 0.98
    assert counts(some, name) > 20 and counts(some, name, "early") == early
    equal(counts(some, name, "wrong"), counts(some, name), wrong / early)
    row, truth = some.report().rows[0], wrong / counts(each, name, "decisions")
    assert row["error_lower"] <= truth <= row["error_upper"]
    assert row["error"] == row["early"] * row["wrong"] / row["audited"]


@pytest.mark.parametrize("selector", [
    EXACT, sm.Racing(sm.Betting(spread=50.0)),
], ids=["all data", "proved"])  # fmt: skip
def test_what_has_a_proof_has_none(selector):
    assert counts(run(mean_of(), walk(selector)), "mu") == 0
    assert counts(run(mean_of(), walk(selector), audit=0.5), "mu") > 0


@pytest.mark.parametrize("selector", [sm.SequentialHalving(4_000), sm.LilUCB(), RACE])
def test_what_promises_an_estimate_or_nothing_has_some(selector):
    kernel = sm.Gibbs("k", selector) >> walk(EXACT) >> sm.Gibbs("z", EXACT)
    assert counts(run(located(), kernel), "k") > 0


def test_rows_elsewhere_are_not_read_again():
    far = sm.Model(of_mean, parts_of({"y": mean_of().data.y}, [12_000, 8_000]), {"mu": 0.0})
    assert counts(run(far, walk(), 40, 0, 1), "mu") == 0


def of_place(state, data, n):
    return -abs(data.y[n] - 0.5 * state.k[0])


def test_few_are_told_of_as_few():
    """Unless they were asked for: races that read little leave little room for audits."""
    model = sm.Model(of_place, {"y": located(100_000).data.y}, {"k": 0}, support={"k": 6})
    trace = run(model, sm.Gibbs("k", RACE), 4_000)
    few, row = counts(trace, "k"), trace.report().rows[0]
    assert 0 < few < 10 and row["error_upper"] > row["delta"] and row["wrong"] == 0
    told = f"only {few} of 8,000 decisions were audited, so nothing tells"
    assert told in str(trace.report())
    asked = run(model, sm.Gibbs("k", RACE), 2_000, audit=0.001)
    assert 0 < counts(asked, "k") < 10 and "nothing tells" not in str(asked.report())


def test_a_run_that_goes_on_has_the_same(tmp_path):
    """Also one that was shorter at first: what is audited does not depend on the end."""
    model, kernel = mean_of(), walk()
    whole = run(model, kernel)
    run(model, kernel, draws=120, store=tmp_path / "run.nc")
    found = sm.resume(tmp_path / "run.nc", model, kernel, draws=300, progress=False)
    assert found.meta["audit"] is None is whole.meta["audit"]
    assert counts(whole, "mu") > 10
    for name in ("audited", "wrong", "margin"):
        assert np.array_equal(found.stats["mu"][name], whole.stats["mu"][name])


def test_the_page_says_how_many(tmp_path):
    model = mean_of()
    for selector, audit, told in ((EXACT, None, "none"), (RACE, 0.25, "25% of decisions")):
        trace = run(model, walk(selector), 60, audit=audit)
        assert audits_of(trace) == told
    trace = run(model, walk())
    assert audits_of(trace) == f"{counts(trace, 'mu')} decisions, unasked"
    trace.to_html(tmp_path / "page.html")
    assert audits_of(trace) in (tmp_path / "page.html").read_text()


def test_a_share_is_a_number_or_none():
    with pytest.raises(ValueError, match="between 0 and 1, or None"):
        run(mean_of(), walk(), audit=2.0)


def test_one_error_bounds_the_rate_no_wider_than_decisions_that_could_err():
    """A run in which few decisions stop early, and one audit finds one of them wrong."""
    model = mean_of(100_000)
    rows = [run(model, walk(), 1_000, 200, 2, audit=share).report().rows[0] for share in (0.02, 1)]
    for row in rows:
        assert row["error_upper"] <= max(row["early"], row["error_lower"])
    assert rows[1]["wrong"] > 0  # so errors there are
