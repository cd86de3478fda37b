"""The report: numbers that follow from counts, and each warning, given and withheld."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.base import DECIDES_EXACTLY
from subsample_mcmc.runs.views.costs import clopper_pearson
from tests.runs.test_trace import made

DRAWS = 1000  # of each of 4 chains: 4000 in all
RACING = {
    "steps": 1, "decisions": 2, "pulls": 100, "everything": 2000, "rounds": 4, "early": 2,
    "raced": 2,
}  # fmt: skip


def spread(total):
    """Counts per chain and draw that sum to `total`."""
    counts = np.zeros(4 * DRAWS, dtype=np.int64)
    counts[:] = total // counts.size
    counts[: total % counts.size] += 1
    return counts.reshape(4, DRAWS)


def counted(**totals):
    """RACING with some totals over the run."""
    return RACING | {f: spread(t) if isinstance(t, int) else t / 4000 for f, t in totals.items()}


@pytest.fixture
def theta(rng):
    return {"theta": rng.normal(size=(4, DRAWS, 2))}


@pytest.fixture
def report(theta):
    """The report of one kernel, given its counts, its entry in meta, and the rest of meta."""

    def build(stats, kernel=None, blocks=None, **meta):
        return made(blocks or theta, {"g": stats}, {"g": kernel or {}}, **meta).report()

    return build


def says(report, text):
    return [w for w in report.warnings if text in w]


# ----------------------------------------------------------------------------------- numbers
def test_clopper_pearson():
    assert clopper_pearson(0, 2995) == (0.0, pytest.approx(1 - 0.05 ** (1 / 2995)))
    assert clopper_pearson(0, 2995)[1] == pytest.approx(0.001, rel=1e-3)
    assert clopper_pearson(5, 5) == (pytest.approx(0.05 ** (1 / 5)), 1.0)
    # 3 of 20: the bounds at which 3 or more, and 3 or fewer, have probability .05.
    from scipy.stats import binom

    lower, upper = clopper_pearson(3, 20)
    assert binom.sf(2, 20, lower) == pytest.approx(0.05)
    assert binom.cdf(3, 20, upper) == pytest.approx(0.05)
    assert np.isnan(clopper_pearson(0, 0)).all()


def test_a_row_follows_from_counts(report):
    counts = counted(
        accepted=2000, audited=400, wrong=4, regret=6.0, margin=800.0, skewness=600.0,
        raced=6000, retreated=1600, alone=400,
    )  # fmt: skip
    (row,) = report(counts).rows
    expected = {
        "kernel": "g", "steps": 4000, "decisions": 8000, "decisions_per_draw": 2.0,
        "accepted": 0.25, "read": 0.05, "pulls_per_draw": 100.0, "alone": 0.05, "exact": 0.0,
        "raced": 0.75, "exhausted": 0.0, "retreated": 0.2, "audited": 400, "wrong": 4,
        "error": 0.01, "regret_wrong": 1.5, "regret_audited": 0.015, "margin": 2.0,
        "skewness": 1.5, "capped": 0.0,
    }  # fmt: skip
    for key, value in expected.items():
        assert row[key] == pytest.approx(value), key
    assert (row["error_lower"], row["error_upper"]) == clopper_pearson(4, 400)
    assert row["error_per_draw"] == pytest.approx(2 * row["error_upper"])
    assert row["iat"] == pytest.approx(4000 / row["ess"])
    assert row["bias_scale"] == pytest.approx(row["error_per_draw"] * max(1, row["iat"]))
    assert row["ess_per_million"] == pytest.approx(row["ess"] / 0.4)
    assert row["ess_per_second"] == pytest.approx(row["ess"] / 10)


def test_gradients_count_as_reading(report):
    (row,) = report({"steps": 1, "gradients": 100}).rows
    assert row["ess_per_million"] == pytest.approx(row["ess"] / 0.4)
    assert np.isnan([row["read"], row["accepted"], row["error"], row["bias_scale"]]).all()


def test_only_decisions_that_stop_early_can_err(report):
    """Few audits, none wrong: the rate is at most the share of decisions that dropped an arm."""
    bound = clopper_pearson(0, 400)[1]
    for early in (0, 8):
        (row,) = report(counted(audited=400, early=early)).rows
        assert row["error_upper"] == early / 8000 < bound
        assert row["error_per_draw"] == 2 * early / 8000
    (row,) = report(counted(audited=400, early=800)).rows
    assert row["error_upper"] == bound < 0.1
    # A wrong one was seen: it was one of these, whose share has a bound of its own.
    (row,) = report(counted(audited=400, early=8, wrong=1)).rows
    assert row["error_upper"] == clopper_pearson(8, 8000)[1] < clopper_pearson(1, 400)[1]
    (row,) = report(counted(audited=400, early=800, wrong=1)).rows
    assert row["error_upper"] == clopper_pearson(1, 400)[1]
    (row,) = report(counted(audited=0, early=8)).rows
    assert np.isnan(row["error_upper"])


def test_no_early_decision_no_bias(report):
    """Predictions that are proved count as none, however few are audited."""
    sure = counted(audited=4, early=0, raced=0, predicted=7000, exhausted=1000)
    found = report(sure, {"rows": 100_000})
    assert found.warnings == [] and found.rows[0]["bias_scale"] == 0.0


def test_where_all_were_audited_errors_are_counted_not_bounded(report):
    """No advice to audit more, and no bias of draws that are known to be those of exact ones."""
    right = report(counted(audited=8000))
    (row,) = right.rows
    assert row["error_per_draw"] == row["bias_scale"] == 0.0
    assert row["error_upper"] == clopper_pearson(0, 8000)[1]  # of other runs
    (note,) = [n for n in right.notes if "audited" in n]
    assert note.startswith("g: all 8,000 decisions were audited and none was wrong, so these draws")
    # Two thousand rows of a slow chain: a bound from as many audits would be above any limit.
    slow = {"theta": np.repeat(np.random.default_rng(1).normal(size=(4, 50)), 20, axis=1)}
    assert not says(report(counted(audited=8000), blocks=slow), "audit")
    nearly = report(counted(audited=7999), blocks=slow)
    assert not says(nearly, "audit") and any("more than there are" in n for n in nearly.notes)
    assert not [n for n in report(counted(audited=7999)).notes if "audited" in n]
    skewed = report(counted(audited=8000, skewness=32_000), {"asymptotic_normal": True})
    assert not says(skewed, "skewness") and any("|skewness| of 4" in n for n in skewed.notes)
    wrong = report(counted(audited=8000, wrong=80))
    assert wrong.rows[0]["error_per_draw"] == pytest.approx(2 * 0.01)
    (warning,) = says(wrong, "bias scale")
    assert "Audit" not in warning and warning.endswith("Use a smaller delta.")
    assert not [n for n in wrong.notes if "none was wrong" in n]


def test_a_sweep_adds_errors_up_to_certainty(report):
    (row,) = report(counted(decisions=400_000, audited=100)).rows
    assert 100 * clopper_pearson(0, 100)[1] > 1
    assert row["error_per_draw"] == 1.0


def test_several_kernels_and_their_own_blocks(rng):
    good = rng.normal(size=(4, DRAWS))
    slow = np.cumsum(good, axis=1)
    kernels = {"fast": {"writes": ["good"]}, "slow": {"writes": ["slow"]}, "none": {"writes": []}}
    stats = {"fast": RACING, "slow": RACING, "none": {}}
    trace = made({"good": good, "slow": slow}, stats, kernels)
    rows = {row["kernel"]: row for row in trace.report().rows}
    assert rows["fast"]["ess"] == trace.mixing("good").ess
    assert rows["slow"]["ess"] == trace.mixing("slow").ess < 100
    assert np.isnan(rows["none"]["ess"])
    assert says(trace.report(), "slow: its chains") and not says(trace.report(), "good: its")
    frame = trace.report().to_frame()
    assert list(frame.index) == ["fast", "slow", "none"]
    assert frame.loc["fast", "read"] == 0.05


def located(state, data, n):
    z = (data.y[n] - state.mu[0]) * sm.exp(-state.scale[0])
    return -2.5 * sm.log1p(z * z / 4.0) - state.scale[0]


def test_evaluations_and_microseconds_of_a_decision():
    """Interpolation takes seven points of two parameters, and one more; 50 bins three each."""
    y = np.random.default_rng(0).standard_t(4.0, 20_000)
    model = sm.Model(located, {"y": y}, {"mu": 0.0, "scale": 0.0})
    fit = sm.laplace(model, progress=False)
    for control, each, before in (
        (sm.Taylor(fit), 8, 0), (sm.Bins(bins=50, outliers=0.0), 1, 150), (None, 1, 0),
    ):  # fmt: skip
        kernel = sm.Metropolis(("mu", "scale"), control=control)
        trace = sm.sample(model, kernel, 150, 50, chains=1, seed=1, progress=False)
        row, counted = trace.report().rows[0], trace.stats[trace.report().rows[0]["kernel"]]
        read = counted.total("pulls") / counted.total("decisions")
        assert row["evaluations"] == pytest.approx(each * read + before)
        spent = 1e6 * trace.seconds.sum() * 150 / 200
        assert row["microseconds"] == pytest.approx(spent / counted.total("decisions"))
        assert "evaluations per decision" in str(trace.report())
    both = sm.Metropolis("mu") >> sm.Metropolis("scale")
    trace = sm.sample(model, both, 20, 5, chains=1, seed=1, progress=False)
    assert np.isnan([row["microseconds"] for row in trace.report().rows]).all()


# -------------------------------------------------------------------------------------- text
def part(text, title):
    """The lines below a title, as far as the next one."""
    lines = text.splitlines()
    rest = lines[lines.index(title) + 1 :]
    ends = [i for i, line in enumerate(rest) if line in ("Notes", "Decisions and their cost")]
    return rest[: min(ends, default=len(rest))]


def test_text_is_a_table_that_fits_a_terminal(rng):
    theta = rng.normal(size=(4, DRAWS))
    labels = [f"Gibbs('block{i}', control)" for i in range(7)]
    made_report = made({"theta": theta}, dict.fromkeys(labels, counted(audited=400))).report()
    text = str(made_report)
    assert repr(made_report) == text
    assert max(map(len, text.splitlines()[1:])) <= 100
    table = part(text, "Decisions and their cost")
    assert all(sum(label in line for line in table) == 1 for label in labels)
    cells = {line[:31].strip(): line[31:].split() for line in table if line}
    assert cells["data read"] == ["5%"] * len(cells["guarantee"])
    assert cells["audited"][0] == "400"
    assert float(cells["error per decision <= (95%)"][0]) == pytest.approx(0.00746, rel=1e-3)
    assert "bias scale, NOT a bound" in cells
    assert "nats lost per wrong one" not in cells  # nothing was wrong
    assert text.startswith("Trace(4 chains x 1,000 draws")
    assert made_report._repr_html_().startswith("<p>Trace(4 chains x 1,000 draws")
    assert "error per decision &lt;=" in made_report._repr_html_()


def test_predicted_decisions_have_a_line_where_there_are_any(report):
    title = "decided without data"
    counts = counted(audited=8000, raced=2000, predicted=6000)
    (line,) = [line for line in str(report(counts)).splitlines() if line.startswith(title)]
    assert line.split()[-1] == "75%"
    assert report(counts).rows[0]["predicted"] == 0.75
    assert report(counts).to_frame().loc["g", "predicted"] == 0.75
    assert title in str(report(RACING))  # 0%: it could have been
    assert title not in str(report({"steps": 1}))
    assert "only one arm" not in str(report(counts))  # 0% of how others end is left out
    assert "only one arm" in str(report(counts | {"alone": 1}))


def test_nothing_to_report(rng):
    alone = made({"theta": rng.normal(size=(2, 3))}, {}).report()
    assert alone.rows == [] and len(alone.to_frame()) == 0
    assert "3 draws per chain" in str(alone)
    nothing = made({"theta": np.zeros((2, 0))}, {"g": {}}).report()
    assert np.isnan(nothing.rows[0]["decisions_per_draw"])
    assert says(nothing, "0 draws per chain") and not says(nothing, "never moved")
    assert "g" in str(nothing)


def test_a_good_run_is_not_warned_about(report):
    assert report(counted(audited=8000)).warnings == []
    assert report(RACING | {"pulls": 2000}, {"guarantee": "exact", "selector": "Exact()"},
                  audit=0.0).warnings == []  # fmt: skip


# ---------------------------------------------------------------------------------- warnings
def test_audit_above_delta(report):
    counts = counted(audited=400, wrong=33)  # 20 expected; P(33 or more) = .003
    (warning,) = says(report(counts), "more than delta=0.05 allows")
    assert warning.startswith("g: 33 of 400 audited decisions were wrong (0.083, 95% bounds 0.061")
    assert warning.endswith("Decide exactly: selector=sm.Exact().") and "skewness" not in warning
    skewed = counts | {"skewness": 400 * 13.0 / 4000}
    (warning,) = says(report(skewed, {"asymptotic_normal": True}), "skewness")
    assert "more than delta=0.05 allows: differences have a mean |skewness| of 13" in warning
    (warning,) = says(report(counts, {"guarantee": "bounded"}), "more than delta")
    assert "Check the declared range" in warning
    within = counted(audited=400, wrong=28)  # P(28 or more) = .05
    assert not says(report(within), "more than delta")
    assert not says(report(counted(audited=400)), "more than delta")


def test_an_exact_kernel_that_errs(report):
    exact = {"guarantee": "exact", "selector": "Exact()", "delta": None}
    (warning,) = report(counted(audited=400, wrong=2, regret=1e-9), exact).warnings
    assert "2 of 400" in warning and "5e-10 nats" in warning and "ties" in warning


@pytest.mark.parametrize(
    ("skewness", "normal", "seen"), [(3.2, True, 1), (2.8, True, 0), (3.2, False, 0)]
)
def test_skewed_differences(report, skewness, normal, seen):
    """A warning until audits say that errors are as rare as delta; then a note."""
    facts = {"asymptotic_normal": normal}
    few = report(counted(audited=40, skewness=40 * skewness), facts)  # the bound is .072
    found = says(few, "skewness")
    assert len(found) == seen and not [n for n in few.notes if "skewness" in n]
    needed = "60 without an error would bound it by delta"
    assert all("|skewness| of 3.2, above 3" in w and needed in w for w in found)
    many = report(counted(audited=80, skewness=80 * skewness), facts)  # .037
    assert not says(many, "skewness") and len([n for n in many.notes if "skewness" in n]) == seen
    erred = report(counted(audited=80, wrong=1, skewness=80 * skewness), facts)
    found = says(erred, "skewness")
    assert len(found) == seen and all("Use sm.Betting with a range" in w for w in found)


def test_too_few_data_to_race(report):
    failed = counted(raced=400, retreated=4000, exhausted=2000, exact=1600, audited=8000)
    failed["pulls"] = 1600
    (warning,) = report(failed, {"rows": 900}).warnings
    assert "95% of decisions" in warning and "80% of all rewards" in warning
    assert "900 data are too few to race" in warning
    some = counted(raced=4000, retreated=4000, audited=8000)
    assert report(some, {"rows": 900}).warnings == []
    assert report(failed, {"rows": 900, "guarantee": "exact"}).warnings == []  # chosen, and said
    assert report(failed, {"rows": 900} | DECIDES_EXACTLY).warnings == []


def test_races_that_read_nearly_everything(report):
    counts = counted(audited=8000) | {"pulls": 1500}
    (warning,) = report(counts).warnings
    assert "decisions read 75% of all rewards" in warning and "sm.Taylor" in warning
    assert report(counts | {"pulls": 1300}).warnings == []
    assert report(counts, DECIDES_EXACTLY).warnings == []


def test_no_audit(report):
    (warning,) = report(RACING, audit=0.0).warnings
    assert warning.startswith("g: it is asymptotic") and "audit=0.01" in warning
    assert report(RACING | {"early": 0}, audit=0.0).warnings == []  # no decision could err
    assert report(RACING, {"guarantee": "bounded"}, audit=0.0).warnings == []


def test_unadjusted_and_unknown_kernels(report):
    (warning,) = report({"steps": 1}, {"guarantee": "unadjusted", "kind": "Langevin"}).warnings
    assert "bias is not controlled" in warning
    own = report({"steps": 1}, {"guarantee": "none", "kind": "mine", "note": "by hand"})
    assert own.warnings == []
    assert own.notes == ["g: your own kernel; nothing here checks it.", "g: by hand"]
    assert "Notes\n- g: your own" in str(own)


@pytest.mark.parametrize(
    ("proposes", "accepted", "change"),
    [
        (True, 80, "Lower"),
        (True, 7920, "Raise"),
        (True, 240, ""),
        (True, 7800, ""),
        (False, 80, ""),
    ],
)
def test_acceptance(report, proposes, accepted, change):
    found = report(counted(accepted=accepted, audited=8000), {"proposes": proposes}).warnings
    assert len(found) == bool(change)
    assert all(f"of proposals were accepted. {change} its scale" in w for w in found)


def test_proposals_that_fit_may_always_be_accepted(report):
    """A walk should then take longer steps; pcn around the posterior cannot do better."""
    always, hardly = counted(accepted=8000, audited=8000), counted(accepted=80, audited=8000)
    (warning,) = report(always, {"proposes": True}).warnings
    assert warning.startswith("g: 100.00% of proposals were accepted. Raise its scale")
    fits = {"proposes": True, "walks": False}
    assert report(always, fits).warnings == []
    (warning,) = report(hardly, fits).warnings
    assert "1.00% of proposals were accepted. Lower" in warning


@pytest.mark.parametrize(("rest", "warned"), [(40, False), (300, True)])
def test_a_chain_that_stands_still_for_long(report, rest, warned):
    """It moves two times in three: forty refusals in a row are too few to say, 300 no chance."""
    moved = np.ones((4, DRAWS), dtype=np.int64)
    moved[:, ::3] = 0
    moved[2, 500 : 500 + rest] = 0
    stats = RACING | {"decisions": 1, "early": 1, "raced": 1, "accepted": moved, "audited": 1}
    fits = {"proposes": True, "walks": False}
    found = report(stats, fits).warnings
    assert len(found) == warned
    if warned:
        assert f"stood still for {rest} draws in a row, where" in found[0]
        assert "in a tail that it seldom proposes" in found[0]
    assert report(stats, {"proposes": True, "walks": True}).warnings == []
    idle = stats | {"steps": (moved > 0).astype(np.int64)}  # of a mixture: it did not run
    assert report(idle, fits).warnings == []


@pytest.mark.parametrize(
    ("lost", "decisions", "warned"), [(3.0, 1, False), (4300.0, 1, True), (38.0, 30, False)]
)
def test_one_large_regret_is_told(report, lost, decisions, warned):
    """Within delta, and no draw that anybody wants; thirty of a nat in one sweep are none."""
    regret, wrong = np.zeros((4, DRAWS)), np.zeros((4, DRAWS), dtype=np.int64)
    regret[1, 70], wrong[1, 70] = lost, decisions
    stats = counted(audited=8000, regret=regret * 4000, wrong=wrong * 4000)
    found = report(stats, {"delta": 0.05}).warnings
    assert [w for w in found if "lost as much as" in w] == found[:warned]
    assert all("lost as much as 4.3e+03 nats each" in w for w in found[:warned])
    assert decisions > 1 or len(found) == warned


def test_the_kernel_says_whether_its_proposals_walk():
    assert sm.Metropolis("theta").facts()["walks"]
    assert not sm.Metropolis("theta", proposal=sm.pcn(0.0, 1.0)).facts()["walks"]
    assert not sm.Metropolis("theta", proposal=sm.independence(0.0, 1.0)).facts()["walks"]


@pytest.mark.parametrize(("squared", "warned"), [(9.1, True), (8.9, False), (0.0, False)])
def test_states_far_from_the_reference(report, squared, warned):
    """The squared distance is summed over decisions, 8000 of them; 9 is 3 standard deviations."""
    found = report(counted(audited=8000, distance=8000 * squared))
    assert found.rows[0]["distance"] == pytest.approx(squared)
    assert len(found.warnings) == warned
    for text in found.warnings:
        assert text.startswith("g: its states lie 3 posterior sd per parameter from the control")
        assert "Fit again where the chain is" in text
    exact = {"guarantee": "exact", "selector": "Exact()", "delta": None}
    counts = counted(audited=8000, distance=8000 * squared)
    assert len(report(counts, exact).warnings) == warned  # it costs time, not truth


def test_capped_slices(report):
    (warning,) = report({"steps": 1, "capped": spread(80)}).warnings
    assert "2.0% of steps gave up a slice" in warning
    assert report({"steps": 1, "capped": spread(20)}).warnings == []


def test_bias_that_errors_may_leave(report):
    stop = "a tenth of the Monte Carlo error"
    (warning,) = says(report(counted(audited=8000, wrong=80)), stop)
    assert "80 of 8,000" in warning and warning.endswith("Use a smaller delta.")
    # None was wrong: nothing to act on, and what would tell more.
    found = report(counted(audited=400))
    assert found.warnings == []
    (note,) = [note for note in found.notes if stop in note]
    needed = -np.log(0.05) * 2 * max(1, found.rows[0]["iat"]) * np.sqrt(found.rows[0]["ess"]) / 0.1
    assert "0 of 400" in note and "at most 0.75% are" in note
    assert needed < 8000 and f"About {needed:,.0f} audits would show" in note
    # One was, which may be chance: to know, audit more.
    found = report(counted(audited=3500, wrong=1))
    (warning,) = says(found, stop)
    assert warning.endswith("To know, audit more decisions, about 14,000.")
    each, limit = 2 * max(1, found.rows[0]["iat"]), 0.1 / np.sqrt(found.rows[0]["ess"])
    assert clopper_pearson(4, 14_000)[1] * each < limit < clopper_pearson(2, 7_000)[1] * each
    assert not [n for n in report(counted(audited=8000)).notes if stop in n]
    assert not says(report(counted(audited=400), {"guarantee": "exact"}), stop)
    # Slow mixing: no audit of this run would be enough.
    drift = np.cumsum(np.random.default_rng(1).normal(size=(4, DRAWS)), axis=1)
    found = report(counted(audited=400), blocks={"k": drift})
    assert not says(found, stop)
    assert any("more than there are decisions here" in note for note in found.notes)


def test_blocks_that_never_move(report, rng):
    stuck = np.arange(4)[:, None] + np.zeros((4, DRAWS), dtype=int)
    found = report(counted(audited=400), blocks={"k": stuck})
    (warning,) = found.warnings
    assert warning.startswith("k: it never moved in any chain")
    assert np.isnan(found.rows[0]["bias_scale"])
    fixed = {"theta": rng.normal(size=(4, DRAWS)), "data_like": np.ones((4, DRAWS))}
    assert report({"steps": 1}, {"writes": ["theta"]}, blocks=fixed).warnings == []
    partly = rng.normal(size=(4, DRAWS, 300))
    partly[..., 0] = 1.0
    found = report({"steps": 1}, blocks={"w": partly})
    (warning,) = found.warnings
    assert warning.startswith("w: w[0] never moved in any chain. It is continuous")
    assert found.notes == [
        "w: its ESS is the worst of 200 of 300 sites, evenly spaced.",
        "w: its ESS leaves out 1 that never moved.",
    ]


def test_draws_that_are_few_or_not_finite(report, rng):
    few = rng.normal(size=(1, 50))
    found = report({"steps": 1}, blocks={"theta": few}).warnings
    assert found[0].startswith("50 draws per chain: ESS and IAT need 100 or more")
    assert "theta: its ESS is" in found[1]
    bad = rng.normal(size=(4, DRAWS))
    bad[1, 2] = np.inf
    (warning,) = report({"steps": 1}, blocks={"theta": bad}).warnings
    assert warning.startswith("theta: it has draws that are not finite")


@pytest.mark.parametrize(
    ("kernel", "facts"),
    [
        (sm.Metropolis("mu"), {"subsamples": True, "takes_control": True, "proposes": True}),
        (sm.Metropolis("mu", selector=sm.Exact()), {"subsamples": False, "takes_control": False}),
        (sm.Langevin("mu", 0.1, batch=10, correct=False), {"subsamples": False, "parts": []}),
        (sm.Gibbs("k"), {"subsamples": True, "parts": ["Racing", "Normal"]}),
        (sm.Gibbs("k", sm.LilUCB()), {"subsamples": True, "takes_control": False}),
    ],
    ids=["raced", "exact", "uncorrected", "arms", "other selector"],
)
def test_facts_that_warnings_and_citations_go_by(kernel, facts):
    said = kernel.facts()
    assert {name: said[name] for name in facts} == facts


def test_of_discrete_blocks_alone_no_fit_is_made():
    data = {"y": np.zeros(10)}

    def of_both(state, data, n):
        return -state.k[0] * (data.y[n] - state.mu[0]) ** 2

    def of_one(state, data, n):
        return -state.k[0] * data.y[n] ** 2

    both = sm.Model(of_both, data, {"k": 1, "mu": 0.0}, support={"k": 3})
    one = sm.Model(of_one, data, {"k": 1}, support={"k": 3})
    assert [sm.Gibbs("k").facts(model)["continuous"] for model in (both, one)] == [True, False]
    assert sm.Gibbs("k").facts()["continuous"]  # of what model, nobody said


def test_runs_stored_before_kernels_told_these_facts_warn_as_they_did(report):
    moved = counted(accepted=40)
    for kind, warned in (("Metropolis", 1), ("Langevin", 1), ("Gibbs", 0)):
        old = report(moved, {"kind": kind})
        assert len(says(old, "of proposals were accepted. Lower")) == warned
    dear = counted(pulls=90 * 4000, everything=100 * 4000)
    assert says(report(dear), "so racing saves little. Give it a control variate")
    assert says(report(dear, {"continuous": False}), "so racing saves little. Use sm.Exact()")
    summed = {"delta": None, "guarantee": "unadjusted", "selector": "Exact()"}
    assert not says(report(dear, summed), "so racing saves little")


def test_thinned_decisions_that_read_all_are_told():
    """Exact, and dear: what reads fewer is said."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(300), rng.standard_normal((300, 4))])
    model = sm.models.glm.logistic(x, (rng.random(300) < 0.5).astype(float))
    control = sm.Taylor(sm.laplace(model))
    kernel = sm.Metropolis("beta", scale=1.0, adapt=False, control=control, selector=sm.Thinned())
    trace = sm.sample(model, kernel, draws=200, warmup=0, chains=1, seed=1, progress=False)
    told = [w for w in trace.report().warnings if "of its decisions read all data" in w]
    assert len(told) == 1 and "selector=sm.Racing() reads fewer" in told[0]


def test_warnings_come_in_the_order_of_what_they_cost(report, rng):
    """What makes draws wrong, then errors, then what may be stuck, poor estimates, lost time."""
    still, slow = np.ones((4, DRAWS)), np.repeat(rng.normal(size=(4, 50)), 20, axis=1)
    bad = rng.normal(size=(4, DRAWS))
    bad[0, 0] = np.nan
    blocks = {"slow": slow, "still": still, "bad": bad}
    counts = counted(accepted=80, audited=400, wrong=60)
    found = report(counts, {"proposes": True}, blocks, audit=0.0).warnings
    starts = [
        "bad: it has draws that are not finite", "g: 60 of 400 audited", "still: it never moved",
        "slow: its ESS is", "g: 1.00% of proposals",
    ]  # fmt: skip
    assert [w[: len(s)] for w, s in zip(found, starts, strict=True)] == starts
