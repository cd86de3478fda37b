"""sm.plan: what a pilot measures of each kernel and control variate, and what it advises."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules.bnormal import b_normal
from subsample_mcmc.kernels.compose import Cycle, Mixture, Repeat, When, changed
from subsample_mcmc.runs.audit import with_selector
from subsample_mcmc.runs.chain import Program
from subsample_mcmc.runs.plan import BATCHES, Plan, controlled, simulated, variants
from subsample_mcmc.runs.views.costs import microseconds_of
from tests.helpers.claims import interval
from tests.helpers.laws import ALARM

SIZE = 20_000
STEPS = 200
VARIANTS = ["as given", "order 2", "order 3", "exact"]


def logistic(size, seed=2):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [-0.5, 0.4, -0.2]))).astype(float)
    return sm.models.glm.logistic(x, y)


@pytest.fixture(scope="module")
def fit():
    return sm.laplace(logistic(SIZE), progress=False)


def proposing(fit, **options):
    return sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.5), **options)


@pytest.fixture(scope="module")
def found(fit):
    """The plan of proposals that fit, decided by a race."""
    controls = {"order 2": sm.Taylor(fit, 2), "bins": sm.Bins(), "order 3": sm.Taylor(fit, 3)}
    kernel = proposing(fit, selector=sm.Racing(delta=0.01))
    return sm.plan(fit.model, kernel, controls, steps=STEPS, seed=3, progress=False)


# ------------------------------------------------------------------------------ what is measured
def row_of(found, variant):
    (row,) = [row for row in found.rows if row["variant"] == variant]
    return row


def test_a_row_for_every_variant(found):
    assert [row["variant"] for row in found.rows] == VARIANTS
    assert {row["kernel"] for row in found.rows} == {"beta"}
    assert set(found.decisions) == {("beta", variant) for variant in VARIANTS[:-1]}
    for variant in VARIANTS[:-1]:
        gaps, spreads = found.decisions["beta", variant]
        row = row_of(found, variant)
        assert 0.95 * STEPS < len(gaps) == len(spreads) <= STEPS
        assert row["G, nats"] == np.median(gaps) and row["N v, nats^2"] == np.median(spreads)
        assert gaps.min() > 0.0 and spreads.min() >= 0.0
    exact = row_of(found, "exact")
    assert exact["read"] == 0.5 and exact["predicted"] == 0.0  # the current state's sum is known
    assert np.isnan([exact["G, nats"], exact["N v, nats^2"], exact["expected"]]).all()
    assert all(row["us a decision"] > 0.0 for row in found.rows)


def test_a_control_variate_leaves_the_gap_and_takes_the_spread_away(found):
    """N v falls with the order, each time by a factor of the order of N; G is what it was."""
    spreads = [row_of(found, variant)["N v, nats^2"] for variant in VARIANTS[:-1]]
    assert spreads[1] < 1e-2 * spreads[0] and spreads[2] < 1e-2 * spreads[1]
    plain = found.decisions["beta", "as given"][0]
    for variant in VARIANTS[1:-1]:
        assert stats.ks_2samp(found.decisions["beta", variant][0], plain, method="asymp")[1] > ALARM
    # A nat or two, at a posterior standard deviation.
    assert 0.1 < np.median(plain) < 10.0
    shares = [row_of(found, variant)["read"] for variant in VARIANTS[:-1]]
    assert shares[0] > 0.5 and max(shares[1:]) < 0.2
    assert row_of(found, "as given")["predicted"] == 0.0
    assert row_of(found, "order 3")["predicted"] > 0.8
    assert row_of(found, "as given")["expected"] > 10.0 * row_of(found, "order 3")["expected"]


@pytest.mark.slow
def test_the_spread_is_that_of_the_differences(found, fit):
    """N v of a proposal, on paper: N times the variance of l_n(y) - l_n(x), x'(y - x) nearly."""
    x, y = fit.model.data.x, fit.model.data.y
    scores = x * (y - 1.0 / (1.0 + np.exp(-x @ fit.point)))[:, None]
    step = fit.factor @ np.random.default_rng(1).standard_normal((3, 4000))
    step *= np.sqrt(2.0 * (1.0 - np.sqrt(1.0 - 0.5**2)))  # of pcn in its own law
    expected = np.median(SIZE * (scores @ step).var(axis=0))
    # Medians of 200 dependent values: within a third.
    assert 0.67 < row_of(found, "as given")["N v, nats^2"] / expected < 1.5


def test_the_advice_names_the_fastest(found):
    best = min(found.rows, key=lambda row: row["us a decision"])
    times = row_of(found, "exact")["us a decision"] / best["us a decision"]
    assert best["variant"] in ("order 2", "order 3")  # by orders of magnitude
    line, refused = found.advice
    assert line == f"beta: race, {best['variant']}: {times:.3g} times as fast as exact decisions."
    # A control variate that does not serve the model is said so, and the others are tried.
    assert refused.startswith("bins: not for this model. data x has shape (20000, 3): Bins needs")


def test_several_kernels_have_one_time_and_one_advice():
    rows = [
        {"kernel": kernel, "variant": variant, "us a decision": t}
        for variant, t in (("as given", 1.0), ("exact", 12.0)) for kernel in ("k", "mu")
    ]  # fmt: skip
    told, why = Plan(rows, {}, 1).advice
    assert told == "k, mu: race as given: 12 times as fast as exact decisions."
    assert why.startswith("Times are those of all 2 kernels together.")


def test_a_time_is_without_that_of_the_warm_up():
    for warmup, wanted in ((0, 1e3), (300, 250.0)):
        meta = {"warmup": warmup, "thin": 1}
        run = SimpleNamespace(meta=meta, shape=(1, 100), made=[100], seconds=np.array([0.4]))
        assert microseconds_of(run, 400) == pytest.approx(wanted)


def test_the_advice_of_times():
    def advice(fit=True, **times):
        rows = [{"kernel": "beta", "variant": name.replace("_", " "), "us a decision": t,
                 "fit": fit} for name, t in times.items()]  # fmt: skip
        return Plan(rows, {}, 1).advice

    (line,) = advice(as_given=2.0, order_2=3.0, exact=8.0)
    assert line == "beta: race as given: 4 times as fast as exact decisions."
    (line,) = advice(as_given=9.0, exact=8.0)
    assert line.startswith("beta: decide exactly, selector=sm.Exact(): no variant was faster")
    assert "A control variate near the mode" in line
    (line,) = advice(as_given=9.0, exact=8.0, fit=False)  # of discrete blocks alone
    assert line.endswith("no variant was faster.")
    (line,) = advice(as_given=8.0, exact=8.4)  # within the noise of a pilot
    assert line == "beta: racing and exact decisions take about the same time."
    (line,) = advice(as_given=9.0, order_2=3.0)  # where the model refuses to decide exactly
    assert line.startswith("beta") and "order 2" in line


def test_it_is_a_table(found):
    text = str(found)
    assert repr(found) == text
    lines = text.splitlines()
    assert lines[0].split()[:2] == ["kernel", "variant"] and "N v, nats^2" in lines[0]
    assert [line.partition("beta")[2].strip()[:8].strip() for line in lines[1:5]] == VARIANTS
    assert len({len(line) for line in lines[:5]}) == 1
    exact = lines[4].split()
    assert exact[:5] == ["beta", "exact", "-", "-", "-"] and exact[5] == "50.00%"
    assert lines[5] == "" and lines[6:8] == found.advice
    assert lines[8:] == ["", "# .best as code, which is .code", *found.code.splitlines()]
    frame = found.to_frame()
    assert list(frame["variant"]) == VARIANTS and len(frame) == 4


def test_it_is_a_figure(found):
    import matplotlib.pyplot as plt

    times, shares, gaps = found.plot()
    drawn = [line.get_xdata()[0] for line in times.get_lines() if len(line.get_xdata())]
    assert drawn == [row["us a decision"] for row in found.rows]
    np.testing.assert_array_equal(
        shares.get_lines()[1].get_xdata(), [row["expected"] for row in found.rows]
    )
    labels = gaps.get_legend_handles_labels()[1]
    assert [label.partition(" (")[0] for label in labels] == VARIANTS[:-1]
    assert {(row["arms"], row["delta"]) for row in found.rows[:3]} == {(2, 0.01)}
    times.figure.canvas.draw()
    plt.close("all")


# ---------------------------------------------------------------------------------------- design
def test_a_smaller_budget_of_errors_reads_more(found):
    """Of the decisions without control variate, which a race can seldom make early."""
    before = 0.0
    for error in (0.1, 1e-2, 1e-3, 1e-4):
        made = found.design("beta", "as given", error)
        assert set(made) == {"batch", "delta", "share", "error"}
        assert made["error"] <= error and made["batch"] in BATCHES
        assert 0.0 < before <= made["share"] <= 1.0 or not before
        before = made["share"]
        again = simulated(*found.decisions["beta", "as given"], SIZE, made["batch"], made["delta"])
        assert again == (made["share"] * SIZE, made["error"])
        sm.Racing(delta=made["delta"], batch=made["batch"])
    assert found.design("beta", "as given", 1e-4)["share"] > 0.5
    small = found.design("beta", "order 3")
    assert small["share"] == small["batch"] / SIZE == BATCHES[0] / SIZE and small["error"] == 0.0


def test_a_budget_that_nothing_meets(found):
    with pytest.raises(ValueError, match=r"no batch and delta err at most -1: use sm\.Exact"):
        found.design("beta", "as given", error=-1)


@pytest.mark.parametrize("key", [("gamma", "order 2"), ("beta", "order 4"), ("beta", "exact")])
def test_a_design_of_what_was_not_measured(found, key):
    """It says what there is."""
    with pytest.raises((KeyError, ValueError), match=r"order 2.*order 3"):
        found.design(*key)


def raced(rng, gap, spread, size, batch, delta, times):
    """(rows read, wrong) of races on Gaussian rewards: differences of known mean and variance."""
    rows, wrong = np.zeros(times), np.zeros(times, dtype=bool)
    bound = b_normal(delta, batch / size, "table1", 2.0)
    for t in range(times):
        d = rng.standard_normal(size)
        d = (d - d.mean()) / d.std() * np.sqrt(spread / size) + gap / size
        sums, n = np.cumsum(d), batch
        while n < size:
            if abs(size * sums[n - 1] / n) > bound * np.sqrt(spread * (size / n - 1.0)):
                break
            n *= 2
        rows[t] = min(n, size)
        wrong[t] = n < size and sums[n - 1] < 0.0
    return rows, wrong


@pytest.mark.parametrize(("gap", "delta"), [(0.7, 0.1), (3.0, 0.05), (15.0, 0.01)])
def test_simulated_races_are_races(gap, delta, rng):
    """Of the reward's N mean, in spreads: far below, at, and far above what a race resolves."""
    size, batch, times = 2048, 64, 3000
    rows, wrong = raced(rng, gap, 1.0, size, batch, delta, times)
    many = 400  # decisions, of 64 simulated races each
    mean, rate = simulated(np.full(many, gap), np.ones(many), size, batch, delta)
    error = rows.std() / np.sqrt(times) + rows.std() / np.sqrt(64 * many)
    assert abs(mean - rows.mean()) < 5.0 * error + 0.02 * rows.mean()
    low, high = interval(int(wrong.sum()), times, ALARM / 2)
    assert 0.95 * low - 1e-9 <= rate <= 1.05 * high
    assert (rows.mean() < 0.3 * size) == (gap > 10.0)


def test_simulated_spends_delta_where_all_is_noise():
    """Where arms are as good as equal, delta bounds the chance of a wrong one, and is used."""
    for delta in (0.1, 0.01):
        _, rate = simulated(np.full(2000, 1e-9), np.ones(2000), 2**15, 64, delta)
        assert 0.3 * delta < rate < 1.1 * delta


def test_decisions_without_spread_are_made_at_once():
    assert simulated(np.ones(10), np.zeros(10), 1000, 32, 0.05) == (32.0, 0.0)


# ------------------------------------------------------------------------------- what is planned
def test_controls_without_names_are_refused(fit):
    for given in (sm.Taylor(fit), [sm.Taylor(fit)]):
        with pytest.raises(TypeError, match=r"give them by name, such as \{'taylor': sm.Taylor"):
            sm.plan(fit.model, sm.Metropolis("beta"), given)


def test_a_kernel_without_decisions_is_refused(fit):
    idle = sm.Langevin("beta", step=1e-3, correct=False)
    with pytest.raises(ValueError, match=r"Langevin\('beta'\) makes no decisions: there is noth"):
        sm.plan(fit.model, idle)
    with pytest.raises(ValueError, match="makes no decisions"):
        sm.plan(fit.model, sm.repeat(idle, 3))


def test_variants_of_a_kernel(fit):
    own, other = sm.Taylor(fit, 3), sm.Taylor(fit, 2)
    kernel = proposing(fit, control=own)
    made = variants(kernel, {"other": other})
    assert list(made) == ["as given", "no control", "other", "exact"]
    assert made["as given"] is kernel and made["no control"].control is None
    assert made["other"].control is other and made["other"].proposal is kernel.proposal
    assert isinstance(made["exact"].selector, sm.Exact) and made["exact"].control is None
    assert isinstance(made["no control"].selector, sm.Racing)
    assert list(variants(proposing(fit), {})) == ["as given", "exact"]


def test_langevin_keeps_its_proposals_where_it_can(fit):
    """Without its control variate the gradient is a mini-batch's; the preconditioner stays."""
    taylor = sm.Taylor(fit)
    kernel = sm.Langevin("beta", control=taylor)
    without = controlled(kernel, None)
    assert without.control is None and without.gradient == "minibatch"
    assert np.array_equal(without.precondition, fit.covariance)
    assert controlled(kernel, sm.Taylor(fit, 2)).gradient == "control"
    assert controlled(sm.Langevin("beta", correct=False, step=1e-3), taylor).control is None


def two_blocks(state, data, n):
    r = data.y[n] - state.mu[0] - state.shift[0]
    return -0.5 * r * r


def pair_of_blocks(size=400):
    y = np.random.default_rng(1).standard_normal(size)
    return sm.Model(two_blocks, {"y": y}, {"mu": 0.0, "shift": 0.0},
                    lambda state: -0.5 * (state.mu[0] ** 2 + state.shift[0] ** 2))  # fmt: skip


AT = {"mu": 0.0, "shift": 0.0}


@pytest.mark.slow
def test_kernels_in_turn_have_rows_of_their_own():
    model = pair_of_blocks()
    kernel = sm.Metropolis("mu") >> sm.Metropolis("shift") >> sm.Metropolis("mu")
    made = sm.plan(
        model, kernel, {"Taylor": sm.Taylor(AT)}, steps=20, warmup=20, seed=1, progress=False
    )
    for label in ("mu", "shift", "mu_2"):
        rows = [row["variant"] for row in made.rows if row["kernel"] == label]
        assert rows == ["as given", "Taylor", "exact"]
    assert made.advice[0].startswith("mu, shift, mu_2: ") and len(made.advice) == 2


def test_a_kernel_that_the_model_refuses_is_refused():
    """As it is given: it is no variant that may be left out."""
    with pytest.raises(ValueError, match="no kernel moves block 'shift'"):
        sm.plan(pair_of_blocks(), sm.Metropolis("mu"), progress=False)


@pytest.mark.parametrize("own", [None, sm.Taylor(AT)], ids=["minibatch", "surrogate"])
@pytest.mark.parametrize("other", [sm.Taylor(AT, 2), sm.Bins(bins=10)], ids=["taylor", "bins"])
def test_every_control_variate_is_tried_where_langevin_is_among_the_kernels(own, other):
    """No point that would be stale, no gradient that is none: all variants are chains."""
    model = pair_of_blocks()
    kernel = sm.Langevin("mu", control=own) >> sm.Metropolis("shift", control=own)
    for name, variant in variants(kernel, {"other": other}).items():
        program = Program(model, variant)
        assert name != "other" or all(leaf.control is other for leaf in program.kernel.leaves())


@pytest.mark.slow
def test_fewer_data_than_a_minibatch():
    """Where the surrogate's gradient proposed, nothing else can: there are 60 data, not 256."""
    model, kernel = pair_of_blocks(60), sm.Langevin("mu", control=sm.Taylor(AT))
    made = sm.plan(
        model, kernel >> sm.Metropolis("shift"), steps=5, warmup=5, seed=1, progress=False
    )
    assert next(row["variant"] for row in made.rows if row["kernel"] == "mu") == "as given"
    assert len(made.advice) >= 2


# --------------------------------------------------------------------------- kernels in kernels
def anywhere(state):
    return True


@sm.kernel(writes="k")
def own(rng, state, data):
    """A kernel that decides nothing."""


def nested():
    """Every composition, three deep."""
    inner = sm.mixture((sm.Metropolis("a"), 1.0), (sm.repeat(sm.Slice("b"), 3), 3.0))
    plain = sm.Langevin("a", step=0.1, correct=False)
    return sm.Gibbs("k") >> sm.when(anywhere, inner) >> sm.repeat(own >> plain, 2)


def test_changed_keeps_the_structure():
    kernel, met = nested(), []

    def seen(leaf):
        met.append(leaf)
        return leaf

    made = changed(kernel, seen)
    assert met == list(kernel.leaves())  # each once, in the order in which they are bound
    assert made.text() == kernel.text() and list(made.leaves()) == met
    assert isinstance(made, Cycle) and len(made.parts) == 3
    when, repeat = made.parts[1:]
    assert isinstance(when, When) and when.predicate is anywhere
    assert isinstance(when.part, Mixture) and when.part.weights == (0.25, 0.75)
    assert isinstance(when.part.parts[1], Repeat) and when.part.parts[1].times == 3
    assert isinstance(repeat, Repeat) and repeat.times == 2
    assert changed(met[0], lambda leaf: "other") == "other"


def test_with_selector_reaches_every_decision():
    kernel, selector = nested(), sm.Racing(delta=1e-3)
    before = [getattr(leaf, "selector", None) for leaf in kernel.leaves()]
    made = with_selector(kernel, selector)
    after = [getattr(leaf, "selector", None) for leaf in made.leaves()]
    assert [s is selector for s in after] == [s is not None for s in before]
    assert sum(s is selector for s in after) == 3
    assert made.text() == kernel.text()
    assert [getattr(leaf, "selector", None) for leaf in kernel.leaves()] == before  # untouched
    kept = [leaf for leaf in kernel.leaves() if getattr(leaf, "selector", None) is None]
    assert all(leaf in list(made.leaves()) for leaf in kept)


def test_with_selector_keeps_control_variates(fit):
    control = sm.Taylor(fit)
    kernel = sm.repeat(proposing(fit, control=control) >> sm.Langevin("beta", control=control), 2)
    for leaf in with_selector(kernel, sm.Exact()).leaves():
        assert leaf.control is control and isinstance(leaf.selector, sm.Exact)


# ---------------------------------------------------------------------------------------- Ctrl-C
@pytest.mark.parametrize("stage", [0, 1, 2])  # as it is timed, timed again, audited
def test_ctrl_c_gives_the_pilots_that_are_done(stage, fit, monkeypatch):
    """A pilot that was cut short tells no time, and would have been one of few decisions."""
    pilots = importlib.import_module("subsample_mcmc.runs.plan")
    made, kernel = [], proposing(fit, selector=sm.Racing(delta=0.01))

    def stopping(model, variant, **options):
        trace = sm.sample(model, variant, **options)
        made.append(options.get("audit"))
        trace.interrupted = len(made) > first + stage
        return trace

    monkeypatch.setattr(pilots, "sample", stopping)
    monkeypatch.setattr(pilots, "BRIEF", np.inf)  # each is timed twice
    controls, first = {"order 2": sm.Taylor(fit, 2)}, 3
    found = sm.plan(fit.model, kernel, controls, steps=20, warmup=0, seed=3, progress=False)
    assert [row["variant"] for row in found.rows] == ["as given"] and len(made) == first + stage + 1
    assert "Stopped by Ctrl-C: without pilots of order 2, exact." in found.advice
    assert "without pilots of order 2" in str(found)
    first, made[:] = -1, []
    with pytest.raises(KeyboardInterrupt):
        sm.plan(fit.model, kernel, controls, steps=20, warmup=0, seed=3, progress=False)


# ------------------------------------------------------------------------------- several kernels
@pytest.mark.slow
def test_several_kernels_are_compared_by_effective_draws(fit):
    kernels = {"walk": sm.Metropolis("beta", scale=0.001, adapt=False), "pCN": proposing(fit)}
    found = sm.plan(fit.model, kernels, {"order 2": sm.Taylor(fit, 2)}, steps=400, warmup=0, seed=1,
                    progress=False)  # fmt: skip
    names = [row["variant"] for row in found.rows]
    assert names == ["walk", "walk, order 2", "walk, exact", "pCN", "pCN, order 2", "pCN, exact"]
    rates = {row["variant"]: row["ESS a second"] for row in found.rows}
    assert rates["pCN, order 2"] > 5.0 * rates["pCN, exact"]  # by two orders of magnitude
    assert not rates["walk, order 2"] >= rates["pCN, order 2"]  # nan: it does not mix
    assert found.best is found.kernels["pCN, order 2"] and found.best.control.order == 2
    assert found.advice[0].startswith("pCN, order 2: ") and "It is `.best`" in found.advice[0]
    assert "ESS a second" in str(found) and "pCN, exact" in found._repr_html_()
    trace = sm.sample(fit.model, found.best, draws=50, warmup=0, start=[fit.state], chains=1,
                      progress=False)  # fmt: skip
    assert trace.shape == (1, 50)


def test_pilots_fit_into_a_time(fit, monkeypatch):
    """As many draws as that allows: by a clock that says 2 ms a draw, 4 where it is audited."""
    asked = []

    def run(model, kernel, **options):
        audited = 2.0 if options.get("audit") else 1.0
        asked.append((options["draws"], audited))
        trace = sm.sample(model, kernel, **options)
        trace.seconds = np.array([0.002 * audited * (options["draws"] + options["warmup"])])
        return trace

    monkeypatch.setattr(importlib.import_module("subsample_mcmc.runs.plan"), "sample", run)
    sm.plan(fit.model, proposing(fit), seconds=2.0, warmup=0, seed=1, progress=False)
    # A second for each of two variants, half of it to audit; what is exact needs no audit.
    assert asked == [(20, 1.0), (250, 1.0), (20, 2.0), (125, 2.0), (20, 1.0), (500, 1.0)]
    with pytest.raises(ValueError, match="seconds=0: give a positive number"):
        sm.plan(fit.model, proposing(fit), seconds=0)


@pytest.mark.slow
def test_kernels_that_always_decide_exactly_are_left_as_they_are():
    """Of sm.SurrogateTransition selector and control are no arguments: others are replaced."""
    rng = np.random.default_rng(0)
    group, x = rng.integers(8, size=400), rng.standard_normal(400)
    data = {"y": rng.poisson(np.exp(0.3 * x)).astype(float), "x": x, "group": group}

    def log_likelihood(state, data, n):
        eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
        return data.y[n] * eta - sm.exp(eta)

    model = sm.Model(
        log_likelihood, data, {"a": np.zeros(8), "slope": 0.0},
        lambda state: -0.5 * state.slope[0] ** 2, touches={"a": "group"},
        site_prior={"a": lambda state, g: -0.5 * state.a[g] ** 2},
    )  # fmt: skip
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("a") >> sm.SurrogateTransition("slope", fit)
    report = sm.audit(model, sm.Racing(batch=8), kernel, steps=20, warmup=5, seed=1)
    assert [row["selector"].split("(")[0] for row in report.rows] == ["Racing", "Exact"]
    found = sm.plan(model, kernel, steps=20, warmup=5, seed=1, progress=False)
    assert [row["kernel"] for row in found.rows] == ["a", "slope"] * 2
    assert controlled(kernel.parts[1], sm.Taylor(fit)) is kernel.parts[1]
