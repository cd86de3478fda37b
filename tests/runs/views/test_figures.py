"""Figures of runs, plans and identifications: the numbers drawn are the report's, and all is told
apart without colour.
"""

import sys
from itertools import pairwise

import numpy as np
import pytest

from subsample_mcmc import style
from subsample_mcmc.bandits.identification import Identification, Identifications
from subsample_mcmc.runs.plan import Plan
from subsample_mcmc.runs.views.costs import ENDS
from subsample_mcmc.runs.views.figures import PANELS
from subsample_mcmc.runs.views.probabilities import ModelProbabilities
from tests.runs.test_trace import made

matplotlib = pytest.importorskip("matplotlib")
pyplot = pytest.importorskip("matplotlib.pyplot")

DECIDING = ("read", "margins", "errors", "ended")


@pytest.fixture(autouse=True)
def _closed():
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before, "a figure changed rcParams"
    pyplot.close("all")


def counts(rng, share, raced, audited=True, wrong=0, delta=0.05):
    """Statistics of a kernel of two decisions a draw, some of them audited."""
    shape = (4, 200)
    seen = (rng.random(shape) < 0.3) * (1 + (rng.random(shape) < 0.3)) if audited else 0
    errors = np.zeros(shape, dtype=int)
    if wrong:
        errors[tuple(np.argwhere(seen > 0)[:wrong].T)] = 1
    return {
        "steps": 2, "decisions": 2, "accepted": 1, "raced": raced, "retreated": 2 - raced,
        "pulls": rng.binomial(1000, share, shape), "everything": 1000, "early": 1,
        "audited": seen, "wrong": errors, "regret": 0.1 * errors,
        "margin": seen * rng.gamma(1.0, 5.0, shape), "variance": seen * rng.gamma(2.0, 10.0, shape),
    }  # fmt: skip


@pytest.fixture
def trace(rng):
    """Three kernels decide, one of them unaudited; a fourth does not."""
    draws = {name: rng.normal(size=(4, 200)) for name in "abcd"}
    stats = {
        "a": counts(rng, 0.3, 1), "b": counts(rng, 0.02, 2, wrong=3),
        "c": counts(rng, 0.9, 0, audited=False), "d": {"steps": 1},
    }  # fmt: skip
    kernels = {k: {"writes": [k]} for k in "abcd"}
    kernels["b"] |= {"delta": 0.01, "arms": 7}
    return made(draws, stats, kernels)


def names_of(axes):
    return [text.get_text().split("\n")[0] for text in axes.get_yticklabels()]


def of(axes, gid):
    return [line for line in axes.get_lines() if line.get_gid() == gid]


def looks(line):
    return str(line.get_linestyle()), str(line.get_marker())


# --------------------------------------------------------------------------------------- a trace
def test_all_panels_that_say_something(trace):
    axes = trace.plot()
    assert len(axes) == len(PANELS)
    (figure,) = {panel.figure for panel in axes}
    figure.canvas.draw()
    for panel in axes:
        assert panel.get_xlabel()
        assert panel.get_ylabel() or names_of(panel)
        texts = panel.findobj(matplotlib.text.Text)
        assert min(text.get_fontsize() for text in texts if text.get_text()) >= 8


def test_bars_are_as_long_as_the_reports_numbers(trace):
    rows = trace.report().rows
    assert len({row["ess_per_second"] for row in rows}) == 4
    for key in ("ess_per_second", "ess_per_million"):
        (axes,) = trace.plot(panels=key)
        assert names_of(axes) == list("abcd")
        widths = [bar.get_width() for bar in axes.patches]
        known = [row[key] if row[key] == row[key] else 0.0 for row in rows]
        assert widths == known and min(known[:3]) > 0.0
        texts = [text.get_text() for text in axes.texts]
        assert texts == [style.shown(row[key]) for row in rows]
    assert texts[-1] == "not known"  # "d" reads no rewards


def test_how_decisions_ended(trace):
    (axes,) = trace.plot(panels=("ended",))
    rows = trace.report().rows[:3]
    assert names_of(axes) == list("abc")  # d makes no decisions
    drawn = {c.get_label(): [(b.get_x(), b.get_width()) for b in c] for c in axes.containers}
    some, rest = "decided by some rows", "raced, then all rows summed"
    assert list(drawn) == [some, rest]  # nothing else happened
    assert drawn[some] == [(0.0, row["raced"]) for row in rows] == [(0, 0.5), (0, 1), (0, 0)]
    assert drawn[rest] == [(row["raced"], row["retreated"]) for row in rows]
    hatches = [container[0].get_hatch() for container in axes.containers]
    assert len(set(hatches)) == len(hatches)


def test_share_read_along_the_run(trace):
    (axes,) = trace.plot(panels="read")
    lines = axes.get_lines()
    assert axes.get_yscale() == "log"
    rows = trace.report().rows
    for line, row in zip(lines, rows[:3], strict=True):
        assert line.get_label() == f"{row['kernel']}: {100 * row['read']:.3g}% in all"
        stats = trace.stats[row["kernel"]]
        last = stats["pulls"][:, -4:].sum() / stats["everything"][:, -4:].sum()
        assert line.get_ydata()[-1] == pytest.approx(last, rel=1e-12)  # windows of 200 / 50 draws
    assert len({looks(line) for line in lines}) == 3


def test_it_is_a_moving_share_with_gaps():
    pulls = np.tile(np.repeat([10, 0], 100), (4, 1))
    everything = np.tile(np.repeat([100, 0], 100), (4, 1))
    pulls[:, 50:100], pulls[:, :2] = 20, 0
    stats = {"decisions": 1, "raced": 1, "pulls": pulls, "everything": everything}
    theta = {"theta": np.zeros((4, 200))}
    (axes,) = made(theta, {"g": stats}).plot(panels="read")
    share = axes.get_lines()[0].get_ydata()
    np.testing.assert_allclose(share[[0, 3, 10, 50, 51, 53]], [0, 0.05, 0.1, 0.125, 0.15, 0.2])
    np.testing.assert_allclose(share[102], 0.2)
    assert np.isnan(share[103:]).all()
    low, high = axes.get_ylim()
    assert low < np.nanmin(share[share > 0]) and np.nanmax(share) < high
    axes.figure.canvas.draw()
    (axes,) = made(theta, {"g": stats | {"pulls": 0}}).plot(panels="read")
    assert axes.get_yscale() == "linear"  # nothing read, as when one arm is always alone
    axes.figure.canvas.draw()


def test_long_runs_are_thinned():
    at = style.thinned(1_000_000)
    assert len(at) <= style.MOST_POINTS and at[0] == 0 and at[-1] == 999_999
    assert style.thinned(5).tolist() == list(range(5)) and len(style.thinned(0)) == 0


def test_only_some_lines_can_be_told_apart(rng):
    stats = {f"k{i}": counts(rng, 0.01 * (i + 1), 1) for i in range(9)}
    (axes,) = made({"theta": rng.normal(size=(4, 200))}, stats).plot(panels="read")
    labels = [line.get_label().partition(":")[0] for line in axes.get_lines()]
    assert labels == [f"k{i}" for i in range(2, 9)]  # those that read most, in their order
    assert axes.get_legend().get_title().get_text() == "the 7 kernels that read most; 2 more"
    assert len({looks(line) for line in axes.get_lines()}) == 7


def test_margins_of_audited_decisions(trace):
    (axes,) = trace.plot(panels="margins")
    clouds = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
    assert [line.get_label() for line in clouds] == ["a", "b"]  # c was not audited
    assert len({line.get_marker() for line in clouds}) == 2
    for line, arms, delta in zip(clouds, (2, 7), (0.05, 0.01), strict=True):
        stats = trace.stats[line.get_label()]
        seen = stats["audited"] > 0
        x = np.sqrt(
            2 * np.log(arms / delta) * (stats["variance"] / np.maximum(1, stats["audited"]))
        )
        np.testing.assert_allclose(line.get_xdata(), x[seen])
        np.testing.assert_allclose(
            line.get_ydata(), (stats["margin"][seen] / stats["audited"][seen])
        )
        row = next(row for row in trace.report().rows if row["kernel"] == line.get_label())
        total = (line.get_ydata() * stats["audited"][seen]).sum() / stats["audited"].sum()
        assert total == pytest.approx(row["margin"])
        (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        assert low < line.get_xdata().min() and line.get_xdata().max() < high
        assert bottom < line.get_ydata().min() and line.get_ydata().max() < top
    # On the first line G is the spread, and half of the data are read.
    diagonals = [line for line in axes.get_lines() if line.get_linestyle() == "-"]
    slopes = [(line.get_ydata() / line.get_xdata())[0] for line in diagonals]
    np.testing.assert_allclose(slopes, [1.0, 3.0, np.sqrt(99.0), np.sqrt(999.0)])
    assert "reads 50%" in [text.get_text() for text in axes.texts]


def test_margins_without_spread_are_counted(rng):
    stats = counts(rng, 0.1, 1)
    seen = stats["audited"] > 0
    half = seen & (np.arange(200) % 2 == 0)
    stats["variance"] = np.where(half, 0.0, stats["variance"])
    (axes,) = made({"theta": rng.normal(size=(4, 200))}, {"g": stats}).plot(panels="margins")
    line = axes.get_lines()[0]
    assert line.get_label() == f"g ({half.sum()} of {seen.sum()} have no spread)"
    assert len(line.get_xdata()) == seen.sum() - half.sum() > 0
    stats["variance"] = 0.0
    (axes,) = made({"theta": rng.normal(size=(4, 200))}, {"g": stats}).plot(panels="margins")
    axes.figure.canvas.draw()  # no points, no lines of cost


def test_audited_errors_against_delta(trace):
    (axes,) = trace.plot(panels="errors")
    rows = trace.report().rows[:3]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    a, b, _ = rows
    assert labels == [f"a\n0 of {a['audited']} wrong", f"b\n3 of {b['audited']} wrong",
                      "c\nnot audited"]  # fmt: skip
    left = axes.get_xlim()[0]
    bounds = [(list(line.get_xdata()), line.get_ydata()[0]) for line in of(axes, "bounds")]
    assert bounds == [([left, a["error_upper"]], 0), ([b["error_lower"], b["error_upper"]], 1)]
    assert left < b["error_lower"] < 3 / b["audited"] < b["error_upper"]
    (rate,) = of(axes, "rate")
    assert (rate.get_xdata()[0], rate.get_ydata()[0]) == (3 / b["audited"], 1)
    deltas = [(line.get_xdata()[0], line.get_ydata()[0]) for line in of(axes, "delta")]
    assert deltas == [(0.05, 0), (0.01, 1), (0.05, 2)]
    legend = [handle.get_marker() for handle in axes.get_legend().legend_handles]
    assert len(set(legend)) == 3


def test_no_early_end_cannot_err(rng):
    stats = counts(rng, 1.0, 0) | {"early": 0}
    (axes,) = made({"theta": rng.normal(size=(4, 200))}, {"g": stats}).plot(panels="errors")
    assert not of(axes, "bounds")
    assert [text.get_text().strip() for text in axes.texts] == ["0: no arm was dropped early"]


def test_unaudited_panels_say_so(rng):
    stats = {"g": counts(rng, 0.1, 1, audited=False)}
    axes = made({"theta": rng.normal(size=(4, 200))}, stats).plot(panels=("margins", "errors"))
    for panel in axes:
        assert "audit=0.02" in panel.texts[0].get_text() and not panel.get_lines()


def test_a_trace_without_decisions_has_its_ess(rng):
    trace = made({"theta": rng.normal(size=(4, 200))}, {"own": {}})
    (axes,) = trace.plot()
    assert axes.get_xlabel() == "ESS (bulk, worst site) per second"
    assert axes.patches[0].get_width() == trace.report().rows[0]["ess_per_second"] > 0.0
    for panel in DECIDING:
        with pytest.raises(
            ValueError, match=r"\['own'\] made no decisions in 200 draws.* " + panel
        ):
            trace.plot(panels=panel)
    with pytest.raises(ValueError, match="and rewards read"):
        trace.plot(panels="ess_per_million")
    still = made({"theta": np.zeros((4, 200))}, {"own": {}})
    with pytest.raises(ValueError, match="made no decisions"):
        still.plot()


def test_own_axes_and_panels(trace):
    own = pyplot.subplots(1, 2)[1]
    found = trace.plot(own, ("ended", "read"))
    assert found[0] is own[0] and found[1] is own[1]
    assert own[0].get_xlabel().startswith("share of decisions") and own[1].get_yscale() == "log"
    assert len(pyplot.get_fignums()) == 1
    assert trace.plot(own[0], "ended")[0] is own[0]
    with pytest.raises(ValueError, match="axes has 2 parts: give 1"):
        trace.plot(own, "ended")
    for wrong in ("cost", ("read", "cost"), ()):
        with pytest.raises(ValueError, match="name some of read, margins, errors, ended, ess"):
            trace.plot(panels=wrong)


def test_strange_names_are_shown_as_they_are(rng):
    stats = {"_hidden": counts(rng, 0.1, 1), "a $b$ $": counts(rng, 0.1, 1)}
    axes = made({"theta": rng.normal(size=(4, 200))}, stats).plot()
    axes[0].figure.canvas.draw()
    texts = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert len(texts) == 2 and texts[0].startswith(" _hidden")


# ---------------------------------------------------------------------------------------- a plan
def planned(kernels=("k",)):
    rows, decisions, rng = [], {}, np.random.default_rng(0)
    for j, kernel in enumerate(kernels):
        for i, name in enumerate(("as given", "order 2", "exact")):
            known = name != "exact"
            rows.append({
                "kernel": kernel, "variant": name, "G, nats": 1.0, "N v, nats^2": 1.0,
                "expected": 0.2 / 10**i if known else np.nan,
                "read": [0.4, 0.0, 1.0][i], "predicted": 0.0, "arms": 5, "delta": 0.02,
                "us a decision": [90.0, 3.0, 1500.0][(i + j) % 3],
            })  # fmt: skip
            if known:
                decisions[kernel, name] = rng.gamma(1.0, 2.0, 50), rng.gamma(1.0, 10.0**-i, 50)
    return Plan(rows, decisions, 1000)


def test_times_of_a_plan():
    plan = planned()
    (axes,) = plan.plot(panels="times")
    lines = [line for line in axes.get_lines() if len(line.get_xdata())]
    assert [line.get_xdata()[0] for line in lines] == [r["us a decision"] for r in plan.rows]
    assert [line.get_marker() for line in lines] == ["o", "*", "o"]  # the fastest
    weights = [text.get_fontweight() for text in axes.get_yticklabels()]
    assert weights == ["normal", "bold", "normal"]
    assert names_of(axes) == ["as given", "order 2", "exact"]
    assert "order 2" in plan.advice[0]
    assert [text.get_text() for text in axes.texts] == ["90", "3", "1,500"]
    assert axes.get_legend().get_texts()[0].get_text() == "fastest"


def test_every_kernel_of_a_plan_has_its_fastest():
    axes = planned(("k", "m")).plot()
    assert names_of(axes[0])[3:] == ["m, as given", "m, order 2", "m, exact"]
    places = [line.get_ydata()[0] for line in axes[0].get_lines()]
    steps = [high - low for low, high in pairwise(places)]
    assert steps == pytest.approx([1.0, 1.0, 1.6, 1.0, 1.0])  # kernels stand apart
    markers = [line.get_marker() for line in axes[0].get_lines()]
    assert markers == ["o", "*", "o", "*", "o", "o"]
    labels = [text.get_text() for text in axes[2].get_legend().get_texts()]
    assert labels == ["k, as given", "k, order 2", "m, as given", "m, order 2"]
    axes[0].figure.canvas.draw()


def test_shares_of_a_plan():
    plan = planned()
    (axes,) = plan.plot(panels="shares")
    read, expected = axes.get_lines()
    left = axes.get_xlim()[0]
    assert read.get_xdata().tolist() == [0.4, left, 1.0]  # none is at the edge, and says so
    assert [text.get_text().strip() for text in axes.texts] == ["none"]
    np.testing.assert_array_equal(expected.get_xdata(), [r["expected"] for r in plan.rows])
    assert read.get_marker() != expected.get_marker() and left < 0.02


def test_gaps_of_a_plan():
    plan = planned()
    (axes,) = plan.plot(panels="gaps")
    assert axes.get_xscale() == axes.get_yscale() == "log"
    clouds = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
    assert [line.get_label() for line in clouds] == ["as given", "order 2"]
    for line, (gaps, variances) in zip(clouds, plan.decisions.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), gaps)
        np.testing.assert_allclose(line.get_xdata() ** 2, 2.0 * variances * np.log(5 / 0.02))
    with pytest.raises(ValueError, match="name some of times, shares, gaps"):
        plan.plot(panels="read")


# ------------------------------------------------------------------------------- identifications
def run_of(rng, arms=9, named=3):
    pulls = rng.integers(1, 1000, arms)
    pulls[named], pulls[5] = 5000, 0
    times = np.arange(1, 101)
    history = np.outer(times / 100, pulls).astype(int)
    means = np.where(pulls > 0, rng.normal(size=arms), np.nan)
    return Identification(
        named, pulls, means, "own rule", "bounded", 1.0, None, times, history, np.full(100, named)
    )


def test_a_run_of_identification(rng):
    run = run_of(rng)
    left, right = run.plot()
    shown = np.argsort(-run.pulls)[:7]
    assert [line.get_label() for line in left.get_lines()] == [
        f"arm {arm}" + (", named" if arm == 3 else "") for arm in shown
    ]
    for line, arm in zip(left.get_lines(), shown, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), run.history[:, arm])
    assert len({looks(line) for line in left.get_lines()}) == 7
    cloud, star = right.get_lines()
    pulled = run.pulls > 0
    np.testing.assert_array_equal(cloud.get_xydata().T, [run.pulls[pulled], run.means[pulled]])
    assert star.get_xydata().tolist() == [[5000.0, run.means[3]]]
    assert star.get_marker() != cloud.get_marker()
    told = {text.get_text(): text.xy for text in right.texts}
    assert told == {str(arm): (run.pulls[arm], run.means[arm]) for arm in shown}
    left.figure.canvas.draw()


def test_runs_of_identification(rng):
    times, totals = np.arange(1, 101), np.array([60, 70, 80, 50])
    early, regrets = np.linspace(1.0, 0.25, 100), np.array([0.0, 0.3, 0.0, 0.0])
    pulls = np.array([3.5, 0.0, 61.5])
    runs = Identifications(
        np.array([2, 0, 2, 2]), totals, np.full(4, "budget"), regrets, pulls, "none", 1.0, times,
        early,
    )  # fmt: skip
    left, right = runs.plot()
    assert left.get_lines()[0].get_xydata().tolist() == [[0.0, 3.5], [2.0, 61.5]]
    line, rate = right.get_lines()
    np.testing.assert_array_equal(line.get_xydata().T, [times[:80], early[:80]])
    assert rate.get_ydata() == [0.25, 0.25] and looks(rate) != looks(line)
    box = right.patches[0].get_extents().transformed(right.transData.inverted())
    np.testing.assert_allclose([box.y0, box.y1], runs.error_rate()[1:])
    assert left.get_ylabel() == "mean pulls of 4 runs"


# -------------------------------------------------------------------------------- all together
def test_without_matplotlib_all_say_what_to_install(trace, rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    probabilities = ModelProbabilities("q", np.zeros((1, 50), dtype=np.int64), np.zeros((1, 3)))
    for figure in (trace.plot, planned().plot, run_of(rng).plot, probabilities.plot):
        with pytest.raises(ImportError, match=r"pip install 'subsample-mcmc\[plots\]'"):
            figure()


def test_styles_differ_without_colour():
    lines = [style.line_style(i) for i in range(style.MOST_LINES)]
    assert len({(str(one["linestyle"]), one["marker"]) for one in lines}) == style.MOST_LINES
    clouds = [style.point_style(i) for i in range(style.MOST_LINES)]
    assert len({(c["marker"], c["markerfacecolor"]) for c in clouds}) == style.MOST_LINES
    bars = [style.bar_style(i)["hatch"] for i in range(len(ENDS))]
    assert len(set(bars)) == len(ENDS)
