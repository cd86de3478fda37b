"""Decisions with a control variate: those of an exact chain, or wrong at most as often as said.

Chains with audit=1.0 make every decision again, exactly, under the same noise. Data are tall:
posteriors are narrow, and a race without control variate would read everything.
"""

import pickle
from math import sqrt

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.rows import CHUNK, make_rows, put_back, take
from tests.helpers import runs, tall
from tests.helpers.claims import at_most, interval
from tests.helpers.laws import ALARM, not_uniform, rows_within, uniform
from tests.helpers.models import tally, walker
from tests.helpers.runs import tools_of
from tests.helpers.tall import Bench, idle, regression

SIZE = 20_000
STEP = 0.03  # of a walk, about two posterior standard deviations
TOLD = ("decisions", "pulls", "predicted", "raced", "early", "audited", "wrong")


@pytest.fixture(scope="module")
def tall_model():
    """A logistic regression with rows of leverage."""
    return regression("logistic", SIZE, 3, heavy=True, seed=3)


def racing(rule=None, delta=1e-3, batch=64):
    return sm.Racing(rule or sm.Normal(), delta=delta, batch=batch, retreat=False)


def walk(selector, control=None, step=STEP, kind=sm.Metropolis):
    return idle >> kind("beta", step, selector=selector, control=control, adapt=False)


def chain(model, kernel, count, seed=1, start=None, label="beta"):
    """A chain's draws and tally; every decision is audited."""
    one = walker(model, kernel, seed, audit=1.0)
    if start is not None:
        one.floats[:] = start
    made = one.advance(count)
    assert one.error is None, one.error
    return made, tally(one, made.words, label)


# --------------------------------------------------------------------------- exact with and without
@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "poisson", "gaussian"])
def test_exact_decisions_are_the_same_with_and_without(family):
    """At every distance, with arms ruled out by proof: not one decision differs."""
    model, reference = regression(family, 2000, 3, heavy=True, scale=0.3, seed=4)
    for start in (reference["beta"], reference["beta"] + 0.5):
        plain, without = chain(model, walk(sm.Exact()), 400, start=start)
        for outliers, predict in ((0.0, True), (0.02, True), (0.02, False)):
            control = sm.Taylor(reference, order=2, outliers=outliers, predict=predict)
            made, told = chain(model, walk(sm.Exact(), control), 400, start=start)
            assert np.array_equal(made.floats, plain.floats)
            assert told["wrong"] == 0 and told["audited"] == told["decisions"] == 400
            assert told["accepted"] == without["accepted"] > 20
            assert told["predicted"] > 0 if predict else told["exact"] == 400


@pytest.mark.slow
def test_slices_are_the_same_with_and_without():
    """A slice has several coordinates, and several tests of each."""
    model, reference = regression("logistic", 1000, 2, seed=4)
    plain, without = chain(model, walk(sm.Exact(), kind=sm.Slice, step=0.2), 200)
    control = sm.Taylor(reference, order=2)
    made, told = chain(model, walk(sm.Exact(), control, kind=sm.Slice, step=0.2), 200)
    assert told["predicted"] > 0 and told["wrong"] == 0
    assert np.array_equal(made.floats, plain.floats)
    assert told["decisions"] == without["decisions"]


# --------------------------------------------------------------------------------- rates of error
def errors(model, reference, rule, delta, count=1500, **more):
    control = sm.Taylor(reference, order=2, **more)
    _, told = chain(model, walk(racing(rule, delta), control), count)
    return told


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 1e-3])
@pytest.mark.parametrize("rule", [sm.Normal(), sm.Betting()])
def test_errors_are_as_rare_as_said(rule, delta, tall_model):
    """Races of residuals, and predictions: wrong in at most a share delta of the decisions."""
    for outliers, predict in ((0.0, True), (0.02, False)):
        told = errors(*tall_model, rule, delta, outliers=outliers, predict=predict)
        assert told["audited"] == told["decisions"] == 1500
        at_most(told["wrong"], told["audited"], delta)
        assert 0.02 * told["decisions"] < told["accepted"] < 0.9 * told["decisions"]
        assert told["pulls"] < 0.5 * told["everything"]
        if predict:
            assert told["predicted"] > 0.3 * told["decisions"]
            unproved = 0 if rule.guarantee == "bounded" else told["predicted"]
            assert told["early"] <= told["raced"] + unproved  # a proof is no risk
        else:
            assert told["predicted"] == 0 and told["raced"] > 0.5 * told["decisions"]


def test_what_is_proved_is_never_wrong(tall_model):
    """At delta 1e-9, on the way from far off: predictions by proof, and bets."""
    model, reference = tall_model
    control = sm.Taylor(reference, order=2, outliers=0.0)  # so that some are raced
    kernel = walk(racing(sm.Betting(), 1e-9), control)
    for offset in (0.0, 0.3):
        _, told = chain(model, kernel, 1000, start=reference["beta"] + offset)
        assert told["wrong"] == 0
        assert told["predicted"] > 100 and told["raced"] > 10


@pytest.mark.slow
def test_mutants_err(tall_model):
    """Sums that are a nat off at a posterior standard deviation; predictions that dare too much."""
    model, reference = tall_model
    control = sm.Taylor(reference, order=2, predict=False)
    sums = prepared_for(model, control).sums.raced
    sums.s1[0] += 0.5 * np.sqrt(-np.diag(sums.s2[0]))
    _, told = chain(model, walk(racing(delta=1e-3), control), 1000)
    with pytest.raises(AssertionError, match="contradicts a rate"):
        at_most(told["wrong"], told["audited"], 1e-3)
    control = sm.Taylor(reference, order=2)
    prepared_for(model, control).sums.raced.limits[:] = 0.0
    _, told = chain(model, walk(sm.Exact(), control), 6000)
    assert told["wrong"] > 0


@pytest.mark.slow
def test_own_bounds_are_of_residuals_everywhere():
    """Bounds that the user declares for residuals hold far off, where plain rewards break them."""
    model, reference = regression("poisson", SIZE, 2, scale=0.3, seed=3)
    control, step = sm.Taylor(reference, order=2), 1e-3
    there = reference["beta"] + 0.5
    far = 6.0 * step  # no proposal of a hundred goes so far
    ends = there + far * np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    bench = Bench(model, control, ends)
    assert not bench.trusted_of(bench.trial, 0)
    found = np.array([bench.residuals(i) for i in range(4)])
    bound = 1.1 * np.abs(found - found[0]).max()
    kernel = walk(racing(sm.Betting(bounds=(-bound, bound)), 1e-9), control, step=step)
    one = walker(model, kernel)
    for _ in range(100):
        one.floats[:] = there
        one.advance(1)
        assert one.error is None, one.error


# -------------------------------------------------------------------------------------------- Gibbs
GIBBS = 1500


def conditional(model, beta):
    """Probabilities of k given beta."""
    logs = []
    for k in range(model.variables["k"].support):
        state = model.state(np.array([k]), np.array(beta))
        values = [model.log_likelihood(state, model.data, n) for n in range(model.size)]
        logs.append(model.log_prior(state) + np.sum(values))
    p = np.exp(np.array(logs) - max(logs))
    return p / p.sum()


@sm.kernel(writes="beta")
def held(rng, state, data):
    """For chains that stay where they are."""


@pytest.mark.slow
@pytest.mark.parametrize("source", ["loose", "stencil", "jets"])
def test_gibbs_with_sums_of_each_arm(source):
    """Draws of k are independent, of its conditional: every arm has a table of its own."""
    d = 3 if source == "jets" else 2
    model, reference = regression(
        "logistic", GIBBS, d, source, configurations=4, effect=0.025, seed=4
    )
    fits = [{"beta": reference["beta"] - 0.01 * k} for k in range(4)]
    start = reference["beta"] + 0.05
    law = conditional(model, start)
    assert law.min() > 0.1
    for predict in (False, True):
        control = sm.Taylor(fits, order=2, predict=predict, outliers=0.01)
        kernel = held >> sm.Gibbs("k", racing(delta=1e-3), control=control)
        made, told = chain(model, kernel, 5000, start=start, label="k")
        assert told["early"] > 0.5 * told["decisions"]
        assert told["pulls"] < 0.8 * told["everything"]
        at_most(told["wrong"], told["audited"], 1e-3)
        rows_within(np.bincount(made.ints[:, 0], minlength=4)[None], law[None], 1e-3)
        assert (told["predicted"] > 0) == predict
        # One decision is one, whether arms were ruled out before the race, in it, or both.
        assert told["early"] <= told["decisions"]


# ------------------------------------------------------------------------------- outliers, audits
@pytest.mark.slow
def test_an_audit_measures_what_is_raced():
    """Rows that every decision reads have no part in the variance of what is left to race."""
    model, reference = regression("poisson", 1024, 3, seed=5, scale=0.3)
    x = model.data.x.copy()
    x[5::100, 1:] = -4.0
    model = sm.Model(model.predictors, {**model.data._asdict(), "x": x}, {"k": 0, **reference},
                     support={"k": 1})  # fmt: skip
    variances, raced = [], []
    for outliers in (0.0, 0.05):
        control = sm.Taylor(reference, order=2, outliers=outliers, predict=False)
        ends = reference["beta"] + np.array([[0.0, 0.0, 0.0], [0.0, 0.05, 0.05]])
        bench = Bench(model, control, ends)
        raced.append(np.var(bench.residuals(1) - bench.residuals(0)))
        _, told = chain(model, walk(sm.Exact(), control, step=0.05), 200)
        variances.append(told["variance"] / told["audited"])
    assert raced[1] < 0.02 * raced[0]
    assert variances[1] < 0.2 * variances[0]


def test_outliers_are_paid_for(tall_model):
    model, reference = tall_model
    control = sm.Taylor(reference, order=2, outliers=0.02, predict=False)
    _, told = chain(model, walk(racing(delta=0.1), control), 100)
    assert told["pulls"] >= 100 * 2 * (0.02 * SIZE + 64)
    assert told["everything"] == 100 * 2 * SIZE


# -------------------------------------------------------------------------- the same draws again
def beside(walked):
    """With a kernel for k that can be pickled, where functions made by a decorator cannot."""
    return sm.Gibbs("k", sm.Exact()) >> walked.parts[-1]


def spec(source="given", **more):
    """A short run; everything in it is made anew at each call."""
    model, reference = regression("logistic", 3000, 2, source, seed=6)
    control = sm.Taylor(reference, order=2, outliers=0.01, predict=False)
    kernel = beside(walk(racing(sm.Betting(), 0.01), control, step=0.08))
    return {"model": model, "kernel": kernel, "progress": False} | more


def run(draws_kept=40, **more):
    return sm.sample(draws=draws_kept, warmup=10, chains=2, seed=5, audit=0.3, **(spec() | more))


@pytest.fixture(scope="module")
def whole():
    found = run()
    assert found.stats["beta"]["raced"].sum() > 40 and found.stats["beta"]["accepted"].sum() > 5
    return found


def test_threads_change_nothing(whole):
    assert runs.same(run(cores=2), whole) and runs.same(run(cores=1), whole)


def test_a_pickled_run_is_the_same(whole):
    """Together, and model and kernel apart; before and after the sums were made."""
    given = spec()
    for _ in range(2):
        model, kernel = pickle.loads(pickle.dumps((given["model"], given["kernel"])))
        assert runs.same(run(model=model, kernel=kernel), whole)
        apart = pickle.loads(pickle.dumps(given["kernel"]))
        assert runs.same(run(model=given["model"], kernel=apart), whole)
        run(**given)


def test_a_run_is_resumed_bit_for_bit(whole, tmp_path):
    path = tmp_path / "run.nc"
    run(15, store=path)
    for total in (16, 40):
        found = sm.resume(path, draws=total, **spec())
    assert runs.same(found, whole) and runs.same_states(found, whole)
    model, reference = regression("logistic", 3000, 2, seed=6)
    other = sm.Taylor({"beta": reference["beta"] + 1e-12}, order=2, outliers=0.01, predict=False)
    kernel = beside(walk(racing(sm.Betting(), 0.01), other, step=0.08))
    with pytest.raises(ValueError, match=r"cannot be resumed: .*kernel beta"):
        sm.resume(path, draws=50, model=model, kernel=kernel, progress=False)


def both_executions():
    """Raced decisions of both kinds, in a form to compare."""
    found = {}
    model, reference = regression("logistic", 300, 2, seed=6)
    control = sm.Taylor(reference, order=2, outliers=0.02, predict=False)
    one = walker(model, walk(racing(sm.Betting(), 0.05, 16), control, step=0.2), 3, audit=0.2)
    made = one.advance(30)
    assert one.error is None, one.error
    told = tally(one, made.words, "beta")
    found["beta"] = made.floats.tolist()
    found["walk"] = [int(told[name]) for name in TOLD]
    model, reference = regression("logistic", 300, 2, "loose", configurations=4, effect=0.05)
    kernel = held >> sm.Gibbs("k", racing(batch=16), control=sm.Taylor(reference, order=2))
    one = walker(model, kernel, 3, audit=0.2)
    made = one.advance(30)
    assert one.error is None, one.error
    told = tally(one, made.words, "k")
    found["k"] = made.ints.ravel().tolist()
    found["sites"] = [int(told[name]) for name in TOLD]
    return found


@pytest.mark.skipif(DISABLED, reason="compares compiled and plain runs: needs the JIT")
@pytest.mark.slow
def test_compiled_and_plain_runs_decide_the_same():
    plain, compiled = runs.in_plain_python(__name__, "both_executions"), both_executions()
    np.testing.assert_allclose(plain.pop("beta"), compiled.pop("beta"), rtol=1e-9)
    assert plain == compiled
    walked = dict(zip(TOLD, plain["walk"], strict=True))
    assert walked["raced"] > 10 and walked["audited"] > 1
    assert len(set(plain["k"])) > 1


# ------------------------------------------------------------------- rows that are never drawn
@jit
def decide_often(rows, stream, batches, out):
    """One decision per line of `out`."""
    for t in range(len(out)):
        done = 0
        for k in range(len(batches)):
            at = take(rows, stream, 0, batches[k])
            for i in range(batches[k]):
                out[t, done + i] = rows.kept[at + i]
            done += batches[k]
        put_back(rows)


def taken(size, barred, batches, times, seed=1):
    """Rows of consecutive decisions, and the bookkeeping after them; `size` includes the barred."""
    rows = make_rows([size - len(barred)], np.asarray(barred))
    before = rows.bits.copy()
    assert np.unpackbits(before.view(np.uint8)).sum() == len(barred)
    out = np.zeros((times, sum(batches)), dtype=np.int64)
    stream = np.random.default_rng(seed).integers(2**64, size=1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        decide_often(rows, stream, np.array(batches), out)
    assert np.array_equal(rows.bits, before)
    assert np.array_equal(rows.bars, before if len(barred) else before[:0])
    assert not any(np.any(rows.part[f]) for f in ("drawn", "used", "wiped", "listed"))
    return out


@pytest.mark.plain
@pytest.mark.parametrize(("size", "share", "batches"), [
    (65, 0.5, (16, 16)), (200, 0.02, (64, 64, 68)), (700, 0.3, (490,)), (130, 0.5, (65,)),
    (9000, 0.01, (CHUNK,) * 8), (12_000, 0.5, (CHUNK, 500, CHUNK)),
    (70_000, 0.2, (CHUNK,) * 6), (1, 0.0, (1,)),
])  # fmt: skip
def test_barred_rows_are_never_drawn(size, share, batches, rng):
    """Through bits, an overwritten list and the listed rest; nothing is left behind."""
    barred = np.sort(rng.choice(size, int(share * size), replace=False))
    batches = [b for b in batches if b]
    while sum(batches) > size - len(barred):
        batches.pop()
    batches = batches or [size - len(barred)]
    for line in taken(size, barred, batches, 3):
        assert np.unique(line).size == line.size
        assert line.min() >= 0 and line.max() < size
        assert not np.isin(line, barred).any()


@pytest.mark.plain
@pytest.mark.parametrize("barred", [[0], [5], [1, 3], [0, 1, 2]])
@pytest.mark.parametrize("batches", [(1,), (2,), (1, 1), (1, 2)])
def test_every_order_of_the_others_is_equally_likely(barred, batches):
    size = 6
    free, m = np.setdiff1d(np.arange(size), barred), sum(batches)
    cells = len(free) ** m
    times = 3000 if DISABLED else 40_000
    found = np.searchsorted(free, taken(size, barred, batches, times)) @ len(free) ** np.arange(m)
    counts = np.bincount(found, minlength=cells)
    possible = [len(set(c)) == m for c in np.ndindex(*(len(free),) * m)]
    possible = np.array(possible).reshape((len(free),) * m).T.ravel()
    assert not counts[~possible].any()
    chance = stats.chisquare(counts[possible]).pvalue
    assert ALARM < chance < 1.0 - ALARM


def test_the_others_are_uniform_when_many():
    size = 5000
    barred = np.arange(0, size, 3)
    free = np.setdiff1d(np.arange(size), barred)
    for batches in ((64,), (CHUNK, CHUNK, 1000)):  # the last rows of the second are listed
        found = taken(size, barred, batches, 20_000 // batches[0] * 4)[:, -32:]
        counts = np.bincount(np.searchsorted(free, found.ravel()), minlength=len(free))
        # Rows of one decision are distinct: a chi-square of them is a little too small.
        chance = stats.chisquare(counts).pvalue
        assert chance > ALARM


@pytest.mark.skipif(DISABLED, reason="a large population")
def test_rows_of_a_race_are_never_outliers(tall_model):
    """Of the race's own bookkeeping, after a decision of a chain."""
    model, reference = tall_model
    control = sm.Taylor(reference, order=2, outliers=0.02, predict=False)
    one = walker(model, walk(racing(delta=0.1), control))
    one.advance(5)
    case = found_judge(tools_of(one)).case.record
    kept = case.scratch.rows.kept
    assert kept.any() and not np.isin(kept[kept > 0], control.always_read(model)).any()
    assert np.array_equal(case.scratch.rows.bits, case.scratch.rows.bars)
    assert case.trial.target[0].rows == SIZE - len(control.always_read(model))


def found_judge(tools):
    """The judge among nested tools."""
    if hasattr(tools, "judge"):
        return tools.judge
    parts = tools if isinstance(tools, tuple | list) else ()
    return next((j for j in map(found_judge, parts) if j is not None), None)


# ----------------------------------------------------------------- simulation-based calibration
SETS, ROWS = 2048, 400


def eta_of_set(state, data, n):
    return data.x[n] * state.theta[0], data.y[n, state.r[0]]


def set_product(e, data, n):
    """Logistic: y is a predictor, too, which no parameter moves."""
    return e[0] * e[1] - sm.log1p(sm.exp(e[0]))


def set_derivatives(e, data, n):
    p = 1.0 / (1.0 + sm.exp(-e[0]))
    return e[1] - p, e[0], -p * (1.0 - p), 1.0, 0.0


def set_remainder(e, data, n):
    return tall.CLASSIC, tall.QUARTIC


def set_prior(state):
    return -0.5 * state.theta[0] * state.theta[0]


@sm.kernel(writes=("r", "theta"))
def visit(rng, state, data):
    """The next data set, and the parameter it was drawn with."""
    state.r[0] = (state.r[0] + 1) % data.truth.shape[1]
    state.theta[0] = data.truth[0, state.r[0]]


@pytest.fixture(scope="module")
def replications():
    """Many data sets as the values of a discrete block, each with a reference of its own."""
    rng = np.random.default_rng(11)
    levels = np.linspace(-1.5, 2.0, 8)
    x = np.repeat(levels, ROWS // 8)
    truth = rng.standard_normal(SETS)
    y = (rng.random((ROWS, SETS)) < 1.0 / (1.0 + np.exp(-x[:, None] * truth))).astype(float)
    seen = y.reshape(8, ROWS // 8, SETS).sum(axis=1)
    theta = np.zeros(SETS)
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-levels[:, None] * theta))
        slope = (levels[:, None] * (seen - p * ROWS / 8)).sum(axis=0) - theta
        bend = (levels[:, None] ** 2 * p * (1.0 - p) * ROWS / 8).sum(axis=0) + 1.0
        theta += slope / bend
    data = {"x": x, "y": y, "truth": np.broadcast_to(truth, (ROWS, SETS)).copy()}
    predictors = sm.Predictors(eta_of_set, set_product, set_derivatives, set_remainder)
    model = sm.Model(predictors, data, {"r": SETS - 1, "theta": float(truth[-1])}, set_prior,
                     support={"r": SETS})  # fmt: skip
    return model, [{"theta": float(t)} for t in theta], levels, seen, 1.0 / np.sqrt(bend)


def ranks(found, replications):
    """Where each draw of theta lies in its posterior, by quadrature."""
    _, fits, levels, seen, deviation = replications
    centre = np.array([fit["theta"] for fit in fits])
    z = np.linspace(-9.0, 9.0, 901)
    grid = centre[:, None] + deviation[:, None] * z
    logs = -0.5 * grid**2
    for level, count in zip(levels, seen, strict=True):
        e = level * grid
        logs += count[:, None] * e - ROWS / 8 * np.logaddexp(0.0, e)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    areas = np.concatenate([np.zeros((SETS, 1)), np.cumsum(0.5 * (p[:, 1:] + p[:, :-1]), axis=1)],
                           axis=1)  # fmt: skip
    areas /= areas[:, -1:]
    at = (found - centre) / deviation
    return np.array([np.interp(a, z, area) for a, area in zip(at, areas, strict=True)])


TIMES = 6


def calibrated(replications, control, rule, delta):
    model = replications[0]
    step = sm.Metropolis(
        "theta", 0.2, selector=racing(rule, delta, 16), control=control, adapt=False
    )
    made, told = chain(model, visit >> sm.repeat(step, TIMES), SETS, label="theta")
    assert np.array_equal(np.sort(made.ints[:, 0]), np.arange(SETS))
    theta = np.empty(SETS)
    theta[made.ints[:, 0]] = made.floats[:, 0]
    return ranks(theta, replications), told


@pytest.mark.slow
def test_calibration_under_betting(replications):
    """theta of the prior, data given it, and steps at delta 1e-6: still a posterior draw.

    The same steps with sums that are off by half a nat at a standard deviation are not.
    """
    control = sm.Taylor(replications[1], order=2, outliers=0.0)  # one set of sums, to be put off
    found, told = calibrated(replications, control, sm.Betting(), 1e-6)
    uniform({"theta": found})
    assert told["wrong"] == 0 and told["raced"] + told["predicted"] > 0.5 * told["decisions"]
    assert 0.1 < told["accepted"] / told["decisions"] < 0.95
    prepared_for(replications[0], control).sums.raced.s1[:] += 0.7 / replications[4][:, None]
    mutant, _ = calibrated(replications, control, sm.Betting(), 1e-6)
    not_uniform({"theta": mutant})


@pytest.mark.slow
def test_the_bias_of_normal_is_at_most_its_errors(replications):
    """Each decision moves the law by at most the chance that it errs, which an audit counts."""
    control = sm.Taylor(replications[1], order=2, predict=False)
    for delta in (0.2, 0.01):
        found, told = calibrated(replications, control, sm.Normal(), delta)
        at_most(told["wrong"], told["audited"], delta)
        rate = interval(told["wrong"], told["audited"], ALARM / 2)[1]
        away = stats.kstest(found, "uniform").statistic
        assert away <= TIMES * rate + sqrt(np.log(4.0 / ALARM) / (2 * SETS))
        assert told["raced"] > 0.1 * told["decisions"]
