"""sm.Thinned in Gibbs: draws from the conditional by rejection, and the default of kernels."""

import pickle

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.row_weights import alias_table
from subsample_mcmc.approx.taylor.checks import BOUNDED
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs import fingerprint
from tests.helpers.claims import equal
from tests.helpers.laws import first_transitions, rows_equal
from tests.helpers.logistic_parts import derivatives, log_factor, remainder, stay
from tests.helpers.weights import halved, without_rare

DRAWS = 200_000
ALARM = 1e-6
compiled_only = pytest.mark.skipif(DISABLED, reason="needs many draws")
STEPS = 0.9 * np.arange(-1, 2)  # what the three values add to the predictor


# ------------------------------------------------------------------------------- one discrete site
def eta(state, data, n):
    return state.beta[0] + 0.9 * (state.k[0] - 1.0) + state.beta[1] * data.x[n]


def regression(size, seed=0, bound=remainder, lean=0.3):
    """lean: log prior of each value more."""
    rng = np.random.default_rng(seed)
    x = 1.5 * rng.exponential(size=size)
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-0.3 - 0.4 * x))).astype(float)
    parts = sm.Predictors(eta, log_factor, derivatives, bound)
    start = {"k": 0, "beta": np.array([0.3, 0.4])}
    return sm.Model(
        parts, {"x": x, "y": y}, start, lambda state: lean * state.k[0], support={"k": 3}
    )


def law(values):
    """Probabilities of log weights."""
    found = np.exp(values - values.max())
    return found / found.sum()


def log_weights(model, fit, at, order):
    """Of each value of k given beta, without prior: all of it, and the polynomials alone.

    By formulas of their own.
    """
    x, y = np.asarray(model.data.x), np.asarray(model.data.y)
    whole, known = np.zeros((2, 3))
    for k, step in enumerate(STEPS):
        e = at[0] + step + at[1] * x
        e0 = fit[0] + step + fit[1] * x
        d, p = e - e0, 1.0 / (1.0 + np.exp(-e0))
        w = p * (1.0 - p)
        whole[k] = np.sum(y * e - np.logaddexp(0.0, e))
        known[k] = np.sum(y * e0 - np.logaddexp(0.0, e0) + (y - p) * d - w * d**2 / 2)
        if order > 2:
            known[k] -= np.sum(w * (1.0 - 2.0 * p) * d**3) / 6.0
    return whole, known


# (rows, order, how far beta is from the reference, share of outliers): every value's residuals are
# thinned, at both orders, also with a table of outliers; outliers of some values are read before;
# some values are summed before; all are.
AWAY = (1.0, -0.6)
CASES = {
    "thinned": (60, 2, 4.0, 0.0), "cubic": (60, 3, 4.0, 0.0), "rare": (60, 2, 4.0, 0.2),
    "read": (60, 2, 5.0, 0.2), "mixed": (60, 2, 5.0, 0.0), "summed": (60, 2, 9.0, 0.0),
}  # fmt: skip


def counted(case, seed=1, weights=None, selector=None):
    """(how often each value was drawn, statistics, the laws) of independent draws."""
    size, order, far, outliers = CASES[case]
    at = np.array([0.3, 0.4]) + far * np.array(AWAY) / np.sqrt(size)
    whole, known = log_weights(regression(size), (0.3, 0.4), at, order)
    lean = float(whole[0] - whole[1])  # so that two values are as probable as each other
    model = regression(size, lean=lean)
    control = sm.Taylor({"beta": np.array([0.3, 0.4])}, order=order, outliers=outliers)
    if weights is not None:
        prepared = prepared_for(model, control)
        prepared.__dict__["row_weights"] = weights(prepared.row_weights)
    draw = sm.Gibbs("k", selector or sm.Thinned(), control=control)
    kernel = draw >> sm.Metropolis("beta", proposal=stay, selector=sm.Exact())
    trace = sm.sample(
        model, kernel, draws=DRAWS, warmup=0, chains=1, seed=seed, progress=False,
        start=[{"k": 0, "beta": at}],
    )  # fmt: skip
    found = np.bincount(np.ravel(trace.draws["k"]), minlength=3)
    prior = lean * np.arange(3)
    wanted, alone, turned = whole, known, 2.0 * known - whole
    return found, trace.stats["k"], [law(v + prior) for v in (wanted, alone, turned)]


def fits(found, wanted):
    """Do counts follow a law: each cell, and all of them."""
    for count, p in zip(found, wanted, strict=True):
        equal(int(count), int(found.sum()), float(p), ALARM)
    assert stats.chisquare(found, found.sum() * wanted).pvalue > ALARM


@pytest.mark.slow_for("thinned-1")
@compiled_only
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_conditional(case, seed):
    found, told, (wanted, polynomials, turned) = counted(case, seed)
    fits(found, wanted)
    share = {name: float(np.mean(told[name])) for name in ("predicted", "raced", "exact")}
    if case == "summed":
        assert share["exact"] == 1.0
        return
    assert share["exact"] == 0.0 and share["raced"] > 0.4, share
    assert (share["raced"] == 1.0) == (case in ("mixed", "read"))
    if case == "read":  # 12 outliers of one value or more, and no exact sum, which would be 60
        assert np.asarray(told["pulls"]).min() in (12, 24, 36)
    if case == "cubic":  # which leaves too little over to tell a wrong law
        return
    assert 0.5 * np.abs(wanted - polynomials).sum() > 0.02, "the polynomials alone would do"
    for wrong in (polynomials, turned):
        with pytest.raises(AssertionError):
            fits(found, wrong)


def squared(weights):
    made = [alias_table(own.astype(float) ** 2) for own in weights.bounds]
    keep, other = map(np.array, zip(*made, strict=True))
    return weights._replace(keep=keep, other=other)


def alike(weights):
    return weights._replace(keep=np.ones_like(weights.keep))


@compiled_only
@pytest.mark.parametrize("mutant", [halved, squared, alike, without_rare])
def test_mutants_do_not_follow_it(mutant):
    case = "rare" if mutant is without_rare else "thinned"
    found, _, (wanted, *_) = counted(case, weights=mutant)
    with pytest.raises(AssertionError):
        fits(found, wanted)


# ------------------------------------------------------------------------------- compositions
POINTS = np.array([[0.9, 0.6], [-0.3, 0.2]])


def flip(rng, current, out):
    """The other one of POINTS; their sum is exact."""
    out[0] = 0.9 - 0.3 - current[0]
    out[1] = 0.6 + 0.2 - current[1]


def row_values(x, y, point, step, order):
    """(log likelihoods, polynomials around (.3, .4)) of each row."""
    e, e0 = point[0] + step + point[1] * x, 0.3 + step + 0.4 * x
    d, p = e - e0, 1.0 / (1.0 + np.exp(-e0))
    w = p * (1.0 - p)
    known = y * e0 - np.logaddexp(0.0, e0) + (y - p) * d - w * d**2 / 2
    known -= w * (1.0 - 2.0 * p) * d**3 / 6.0 if order > 2 else 0.0
    return y * e - np.logaddexp(0.0, e), known


def matrices(model, lean, order):
    """(of a Gibbs draw of k, of a thinned flip, of Metropolis-Hastings'), on states (point, k)."""
    x, y = np.asarray(model.data.x), np.asarray(model.data.y)
    parts = [[row_values(x, y, point, step, order) for step in STEPS] for point in POINTS]
    whole = np.array([[own[0].sum() + lean * k for k, own in enumerate(row)] for row in parts])
    draw, flips, plain = np.zeros((3, 6, 6))
    for p in range(2):
        for k in range(3):
            draw[3 * p + k, 3 * p : 3 * p + 3] = law(whole[p])
            (here, known), (there, other) = parts[p][k], parts[1 - p][k]
            delta, r = (other - known).sum(), (there - other) - (here - known)
            accepted = min(1.0, np.exp(delta)) * np.exp(-np.maximum(-r, 0.0).sum())
            for matrix, chance in ((flips, accepted), (plain, min(1.0, np.exp(delta + r.sum())))):
                matrix[3 * p + k, 3 * (1 - p) + k] = chance
                matrix[3 * p + k, 3 * p + k] = 1.0 - chance
    return draw, flips, plain


def middle(state):
    return state.k[0] == 1


@pytest.mark.slow_for("repeat")
@compiled_only
@pytest.mark.parametrize("kind", ["cycle", "mixture", "repeat", "when"])
def test_compositions_have_the_transitions_of_their_parts(kind):
    order, lean = 2, 0.2
    model = regression(12, lean=lean)
    control = sm.Taylor({"beta": np.array([0.3, 0.4])}, order=order, outliers=0.0)
    thinned = sm.Thinned(most=1e9, lost=1e9)
    draw = sm.Gibbs("k", control=control)
    move = sm.Metropolis("beta", proposal=flip, selector=thinned, control=control)
    g, m, plain = matrices(model, lean, order)
    inside = np.array([k == 1 for _ in range(2) for k in range(3)])
    kernel, wanted = {
        "cycle": (draw >> move, lambda g, m: g @ m),
        "mixture": (sm.mixture((draw, 0.4), (move, 0.6)), lambda g, m: 0.4 * g + 0.6 * m),
        "repeat": (draw >> sm.repeat(move, 3), lambda g, m: g @ m @ m @ m),
        "when": (
            sm.when(middle, move) >> sm.mixture((draw, 0.5), (move, 0.5)),
            lambda g, m: np.where(inside[:, None], m, np.eye(6)) @ (0.5 * g + 0.5 * m),
        ),
    }[kind]
    trace = sm.sample(
        model, kernel, draws=4 * DRAWS, warmup=0, chains=1, seed=3, progress=False,
        start=[{"k": 0, "beta": POINTS[0]}],
    )  # fmt: skip
    second = np.abs(np.asarray(trace.draws["beta"])[0, :, 0] - POINTS[1, 0]) < 0.1
    codes = 3 * second.astype(int) + np.ravel(trace.draws["k"])
    counts = first_transitions(codes, 6, 3_000)
    assert counts.sum(axis=1).min() == 3_000, counts
    rows_equal(counts, wanted(g, m))
    with pytest.raises(AssertionError):  # thinning costs acceptance, and that shows
        rows_equal(counts, wanted(g, plain))


@pytest.mark.plain
def test_plain_and_compiled_draws_are_of_the_same_law_and_seeds_repeat():
    model = regression(60)
    control = sm.Taylor(sm.laplace(model, progress=False), order=3)
    kernel = sm.Gibbs("k", control=control) >> sm.Metropolis("beta", control=control)
    runs = [
        sm.sample(model, kernel, 60, 20, chains=2, seed=5, cores=cores, progress=False)
        for cores in (1, 2)
    ]
    for name in ("k", "beta"):
        assert np.array_equal(runs[0].draws[name], runs[1].draws[name])
    assert len(np.unique(runs[0].draws["k"])) > 1


# ---------------------------------------------------------------------------------- joint arms
@pytest.mark.slow
def test_choices_of_models_have_their_posterior_probability():
    """A line or a parabola, logistic, with pseudo-priors: against a sum over a fine grid."""
    rng = np.random.default_rng(4)
    x = np.linspace(-2.0, 2.0, 30)
    y = (rng.random(30) < 1.0 / (1.0 + np.exp(-(0.5 * x + 0.3 * x**2)))).astype(float)

    def of_model(state, data, n):
        value = state.theta[0] + state.theta[1] * data.x[n]
        if state.q[0] == 1:
            value += state.theta[2] * data.x[n] ** 2
        return value

    def prior(state):
        value = -0.5 * (state.theta[0] ** 2 + state.theta[1] ** 2)
        if state.q[0] == 1:
            value += -0.5 * state.theta[2] ** 2 - 0.9189385332046727
        return value

    parts = sm.Predictors(of_model, log_factor, derivatives, remainder)
    model = sm.Model(
        parts, {"x": x, "y": y}, {"q": 0, "theta": np.zeros(3)}, prior, support={"q": 2},
        lengths={"theta": ("q", [2, 3])},
    )  # fmt: skip
    known = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(2)]
    modes = [np.ravel(fit.state["theta"]) for fit in known]
    modes[1] = modes[1] + np.sqrt(np.diag(known[1].covariance))  # off, so that residuals matter
    control = sm.Taylor([{"theta": mode} for mode in modes], order=2)
    choice = sm.Gibbs("q", pseudo=sm.PseudoPrior(known), control=control)
    moves = sm.Metropolis("theta", proposal=sm.independence(known), selector=sm.Exact())
    assert "Thinned()" in (choice >> moves).describe(model)
    trace = sm.sample(
        model, choice >> moves, draws=40_000, warmup=200, chains=4, seed=1, progress=False
    )
    assert np.mean(trace.stats["q"]["raced"]) > 0.05
    q = np.asarray(trace.draws["q"], dtype=float).reshape(4 * 25, -1).mean(axis=1)

    a = np.linspace(-4.5, 4.5, 91)
    grid = np.stack(np.meshgrid(a, a, a, indexing="ij"), axis=-1).reshape(-1, 3)
    weights, alone = np.zeros((2, 2))
    for k in range(2):
        points = grid if k else np.unique(grid[:, :2], axis=0)
        columns = np.array([np.ones(30), x, x**2])[: 2 + k]
        e, e0 = points @ columns, modes[k][: 2 + k] @ columns
        p, d = 1.0 / (1.0 + np.exp(-e0)), e - e0
        known_part = y * e0 - np.logaddexp(0.0, e0) + (y - p) * d - 0.5 * p * (1.0 - p) * d**2
        level = (a[1] - a[0]) ** (2 + k) * (2.0 * np.pi) ** (-0.5 * k)
        for into, rows in ((weights, y * e - np.logaddexp(0.0, e)), (alone, known_part)):
            into[k] = level * np.exp(rows.sum(axis=1) - 0.5 * (points**2).sum(axis=1)).sum()
    wanted = float(weights[1] / weights.sum())
    assert abs(alone[1] / alone.sum() - wanted) > 0.2, "the polynomials alone would do"
    assert abs(q.mean() - wanted) < 4.5 * q.std(ddof=1) / np.sqrt(len(q)), (q.mean(), wanted)


# --------------------------------------------------------------------------------- what is refused
@pytest.mark.plain
def test_where_draws_cannot_be_thinned():
    model = regression(60)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit)
    hot = sm.Gibbs("k", sm.Thinned(), control=control, temperature=2.0)
    with pytest.raises(ValueError, match="without a temperature"):
        sm.sample(model, hot >> sm.Metropolis("beta"), 2, progress=False)
    with pytest.raises(ValueError, match="give the kernel control="):
        sm.sample(model, sm.Gibbs("k", sm.Thinned()) >> sm.Metropolis("beta"), 2, progress=False)
    usual = sm.Gibbs("k", control=control, temperature=2.0) >> sm.Metropolis("beta")
    assert "Thinned" not in usual.describe(model)


def test_a_bound_that_is_too_small_is_named():
    """Of the data that no sample of the check of remainders looks at."""
    unseen = np.ones(60, dtype=bool)
    unseen[np.linspace(0, 59, BOUNDED).astype(int)] = False

    def far_too_small(e, data, n):
        return (1e-4, 1.25e-4) if unseen[n] else (0.1, 0.125)

    model = regression(60, bound=far_too_small)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=2)
    kernel = sm.Gibbs("k", control=control) >> sm.Metropolis("beta", selector=sm.Exact())
    with pytest.raises(sm.SpreadError, match=r"residual of .* at datum \d+ .*exceeds the bound"):
        sm.sample(model, kernel, draws=50_000, warmup=10, chains=1, seed=1, progress=False)


@pytest.mark.slow
@pytest.mark.plain
def test_values_that_data_do_not_see_are_drawn_from_their_prior():
    """One configuration for the likelihood: residuals are not known, but for a constant."""
    model = regression(60)
    x, y = np.asarray(model.data.x), np.asarray(model.data.y)

    def without(state, data, n):
        return state.beta[0] + state.beta[1] * data.x[n]

    parts = sm.Predictors(without, log_factor, derivatives, remainder)
    start = {"k": 0, "beta": np.array([0.3, 0.4])}
    blind = sm.Model(parts, {"x": x, "y": y}, start, lambda s: 0.3 * s.k[0], support={"k": 3})
    control = sm.Taylor(sm.laplace(blind, progress=False))
    rest = sm.Metropolis("beta", control=control)
    told = (sm.Gibbs("k", control=control) >> rest).describe(blind)
    assert "k: Gibbs moves k; Exact(); guarantee: exact (no datum depends on it" in told
    kernel = sm.Gibbs("k", sm.Thinned(), control=control) >> rest
    draws = 20_000 if not DISABLED else 300
    trace = sm.sample(blind, kernel, draws, 10, chains=1, seed=1, progress=False)
    found = np.bincount(np.ravel(trace.draws["k"]), minlength=3)
    assert stats.chisquare(found, draws * law(0.3 * np.arange(3))).pvalue > ALARM


# ------------------------------------------------------------------------------------ the default
def logistic(size=90):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(size), rng.standard_normal(size)])
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [0.2, 0.5]))).astype(float)
    return sm.models.glm.logistic(x, y)


@pytest.mark.plain
def test_kernels_decide_exactly_where_bounds_allow_it():
    model = logistic()
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit)
    for kernel in (
        sm.Metropolis("beta", control=control),
        sm.Metropolis("beta", control=control, selector=None),
        sm.Langevin("beta", control=control, precondition=fit),
        sm.repeat(sm.mixture((sm.Metropolis("beta", control=control), 1.0)), 2),
        pickle.loads(pickle.dumps(sm.Metropolis("beta", scale=0.2))),
    ):
        told, bounded = kernel.describe(model), "control" in kernel.describe(model)
        assert ("Thinned()" in told) == bounded and ("exact" in told) == bounded
        assert "Racing(" in kernel.describe()  # a model is what knows
    for kernel in (
        sm.Slice("beta", control=control),
        sm.Metropolis("beta", control=control, selector=sm.Racing()),
        sm.Metropolis("beta"),
    ):
        assert "Thinned" not in kernel.describe(model)
    trace = sm.sample(model, sm.Metropolis("beta", control=control), 20, 10, seed=1, progress=False)
    assert trace.meta["kernels"][0]["selector"] == "Thinned()"
    assert trace.meta["guarantee"] == "exact"
    assert "cornish2019" in sm.cite(trace)


@pytest.mark.plain
def test_a_selector_that_was_given_draws_as_before():
    """And where no residual is bounded, the default is what it was, with its fingerprint."""
    y = np.random.default_rng(0).normal(size=300)
    model = sm.Model(lambda s, d, n: -0.5 * (d.y[n] - s.mu[0]) ** 2, {"y": y}, {"mu": 0.0})
    control = sm.Taylor(sm.laplace(model, progress=False))
    for given in (None, control):
        usual, named = (
            sm.Metropolis("mu", control=given, **more) for more in ({}, {"selector": sm.Racing()})
        )
        marks = [fingerprint.of_run(model, kernel.settled(model)) for kernel in (usual, named)]
        assert marks[0] == marks[1]
        runs = [
            sm.sample(model, kernel, 40, 20, chains=1, seed=2, progress=False)
            for kernel in (usual, named)
        ]
        assert np.array_equal(runs[0].draws["mu"], runs[1].draws["mu"])


@pytest.mark.plain
def test_a_run_stored_under_the_old_default_is_not_gone_on_with_silently(tmp_path):
    model = logistic()
    control = sm.Taylor(sm.laplace(model, progress=False))
    path = tmp_path / "run.nc"
    raced = sm.Metropolis("beta", control=control, selector=sm.Racing())
    sm.sample(model, raced, 20, 10, chains=1, seed=1, store=path, progress=False)
    with pytest.raises(ValueError, match="changed since it was started: kernel beta"):
        sm.resume(path, model, sm.Metropolis("beta", control=control), draws=30, progress=False)
    longer = sm.resume(path, model, raced, draws=30, progress=False)
    assert longer.draws["beta"].shape[1] == 30


def test_plans_and_audits_know_the_default():
    model = logistic(3_000)
    control = sm.Taylor(sm.laplace(model, progress=False))
    kernel = sm.Metropolis("beta", control=control)
    found = sm.plan(model, kernel, steps=50, warmup=20, seed=1, progress=False)
    assert [row["variant"] for row in found.rows] == ["as given", "no control", "exact"]
    assert "as given" in str(found)
    report = sm.audit(model, sm.Racing(delta=0.01), kernel, steps=50, warmup=20, seed=1)
    assert report.rows[0]["audited"] == 50


@pytest.mark.plain
@pytest.mark.parametrize("case", ["thinned", "summed"])
def test_a_draw_tells_the_bound_of_the_value_drawn(case):
    """As it was before rows were read: at least what third derivatives allow, and not much more."""
    size, order, far, _ = CASES[case]
    d = far / np.sqrt(size) * (AWAY[0] + AWAY[1] * np.asarray(regression(size).data.x))
    least = 0.1 * np.sum(np.abs(d) ** 3) / 6.0
    control = sm.Taylor({"beta": np.array([0.3, 0.4])}, order=order, outliers=0.0)
    kernel = sm.Gibbs("k", sm.Thinned(), control=control)
    kernel >>= sm.Metropolis("beta", proposal=stay, selector=sm.Exact())
    at = {"k": 0, "beta": np.array([0.3, 0.4]) + far * np.array(AWAY) / np.sqrt(size)}
    trace = sm.sample(regression(size), kernel, 30, 0, chains=1, seed=1, start=[at], progress=False)
    told = trace.stats["k"]
    assert np.all(told["bound"] >= least) and np.all(told["bound"] < 3.0 * least)
    assert np.all(told["exact"] == (1 if case == "summed" else 0))
