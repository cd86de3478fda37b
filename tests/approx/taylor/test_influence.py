"""Rows that every decision reads: rare levels and huge covariates must not break delta.

The failure that these tests are about: a level with few rows, whose residuals no mini-batch meets,
so that a race sees no variance and decides for the polynomial. `outliers=0.0` is the mutant.
"""

import math
import pickle
import warnings

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.bins import bins
from subsample_mcmc.approx.bins import predictor_cut as predictorcut
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.elsewhere.row_scores import BATCH, LOUD
from subsample_mcmc.approx.taylor import influence
from subsample_mcmc.approx.taylor.influence import MOST_ROWS, loud
from subsample_mcmc.target.sources.local import parts_of
from tests.benchmarks.rarecases import Case, kernel_of, model_of
from tests.helpers.claims import above, at_most

DELTA = 0.001
FEW = Case("logistic", 10_000, (3,), 0.0, seed=3)  # a level of three zeros
PLAIN = Case("plain student_t", 3_000, huge="cauchy", seed=2)
HUGE = Case("student_t", 20_000, huge="carriers", kernel="walk")


def decisions(case, steps, **more):
    """(wrong, audited) of a chain in which every decision is audited."""
    model = model_of(case)
    fit = sm.laplace(model)
    control = sm.Taylor(fit, **more)
    kernel = kernel_of(case, fit, sm.Racing(delta=DELTA), control)
    trace = sm.sample(model, kernel, draws=steps, warmup=100, chains=1, seed=1, audit=1.0)
    stats = trace.stats["beta"]
    return int(stats["wrong"].sum()), int(stats["audited"].sum())


def test_rare_levels_do_not_break_delta():
    wrong, audited = decisions(FEW, 2_000)
    assert audited == 2_000
    at_most(wrong, audited, DELTA)


def test_without_the_rows_that_matter_they_do():
    """The mutant, and what all chains did before: the test above has power."""
    wrong, audited = decisions(FEW, 2_000, outliers=0.0)
    above(wrong, audited, DELTA, alarm=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", [PLAIN, HUGE], ids=lambda case: case.name)
def test_huge_covariates_do_not_break_delta(case):
    wrong, audited = decisions(case, 4_000)
    at_most(wrong, audited, DELTA)


@pytest.mark.slow
def test_rare_levels_do_not_break_bins(monkeypatch):
    """Their rows leave the bins that they were in; without a look at that, the mutant, it is 3%.

    .5% where a few rows of each bin still say how widely residuals vary.
    """
    case = Case("logistic", 20_000, (17,), 0.06)
    model = model_of(case)
    fit, rare = sm.laplace(model), set(np.flatnonzero(model.data.x[:, 5]))

    def wrong_of(control):
        kernel = kernel_of(case, fit, sm.Racing(delta=DELTA), control)
        trace = sm.sample(model, kernel, draws=2_000, warmup=100, chains=1, seed=1, audit=1.0)
        return int(trace.stats["beta"]["wrong"].sum())

    # Of a dict of values there is no covariance: the curvature at each coordinate serves.
    for given in (fit, dict(fit.state)):
        assert rare <= set(sm.Bins(fit=given).always_read(model))
    at_most(wrong_of(sm.Bins(fit=fit)), 2_000, DELTA)
    monkeypatch.setattr(predictorcut, "AWAY", 0.0)
    real = bins.predictor_functions
    monkeypatch.setattr(
        bins, "predictor_functions", lambda *given: real(*given)._replace(spread=None)
    )
    above(wrong_of(sm.Bins(fit=fit)), 2_000, DELTA, alarm=1e-4)


@pytest.mark.slow
def test_the_rows_of_a_rare_level_are_among_those_read():
    for family in ("logistic", "plain logistic"):
        case = Case(family, 20_000, (3, 17), 0.0)
        model = model_of(case)
        always = sm.Taylor(sm.laplace(model)).always_read(model)
        rare = np.flatnonzero(model.data.x[:, 5:].any(axis=1))
        assert len(rare) == sum(case.counts)
        assert set(rare) <= set(always)
        assert len(always) <= 100


def scale_model(case):
    """A likelihood of two predictors whose remainders have no bound: its scores are looked up."""
    x, y = case.draw()
    return sm.models.glm.student_t(x, y, nu=4.0, sigma=None)


@pytest.mark.slow
def test_predictors_without_a_bound_are_looked_at_where_they_may_come_to():
    model = scale_model(Case("student_t", 20_000, huge="carriers"))
    assert not prepared_for(model, sm.Taylor(sm.laplace(model))).proved
    always = sm.Taylor(sm.laplace(model)).always_read(model)
    assert set(np.flatnonzero(model.data.x[:, 5])) <= set(always)
    assert len(always) <= 200


@pytest.mark.slow
def test_where_no_row_stands_out_none_is_read_always():
    for case in (Case("logistic", 50_000), Case("student_t", 20_000)):
        model = model_of(case)
        assert len(sm.Taylor(sm.laplace(model)).always_read(model)) == 0
    model = model_of(Case("plain student_t", 20_000))  # a few by their own tails
    assert len(sm.Taylor(sm.laplace(model)).always_read(model)) < 20


def test_a_share_is_a_share():
    model = model_of(FEW)
    fit = sm.laplace(model)
    assert len(sm.Taylor(fit, outliers=0.01).always_read(model)) == 100
    assert len(sm.Taylor(fit, outliers=0.0).always_read(model)) == 0


# --------------------------------------------------------------------------------- which are loud
SIZE = 10_000
LIMIT = LOUD * BATCH / SIZE


@pytest.fixture
def alone(monkeypatch):
    """Without the rows that are read because it pays."""
    monkeypatch.setattr(influence, "cheapest", lambda sample, size: 0.0)


def test_rows_below_the_limit_are_not_loud(rng):
    assert len(loud(rng.random(SIZE) * LIMIT)) == 0


@pytest.mark.parametrize("size", [3.0 * LIMIT, 0.5, 1e25, np.inf])
def test_planted_rows_are_found(rng, alone, size):
    scores = (0.01 * LIMIT * rng.random(SIZE)).astype(np.float32)
    scores[[3, 77, 5_000]] = size
    assert loud(scores).tolist() == [3, 77, 5_000]
    scores[[4, 78]] = 2.0 * LIMIT, 30.0
    assert {3, 77, 78, 5_000} <= set(loud(scores)) <= {3, 4, 77, 78, 5_000}


def test_rows_that_all_are_alike_are_not_loud(rng, alone):
    """However large: every batch shows them."""
    assert len(loud(100.0 * LIMIT * (1.0 + rng.random(SIZE)))) == 0
    scores = np.where(rng.random(SIZE) < 0.1, 100.0 * LIMIT, 0.0)  # six rows of each batch
    assert len(loud(scores)) == 0


def test_where_many_cannot_be_scored_none_is_an_exception(alone):
    scores = np.full(SIZE, 1e-9)
    scores[: int(MOST_ROWS * SIZE)] = np.inf
    assert len(loud(scores)) == int(MOST_ROWS * SIZE)
    scores[: int(MOST_ROWS * SIZE) + 1] = np.inf
    assert len(loud(scores)) == 0


def test_more_are_read_where_that_pays():
    """A tenth of all rows, of a nat each: no race tells these from others."""
    scores = np.full(SIZE, 1e-9)
    scores[: SIZE // 10] = 1.0
    assert len(loud(scores)) == SIZE // 10


def test_few_rows_are_read_whole_anyway():
    assert len(loud(np.full(2 * BATCH, np.inf))) == 0


# ------------------------------------------------------------------------- what is looked along
def free_nu(state, data, n):
    """Normal data, so that the posterior of nu is very wide: three deviations are off its end."""
    nu = state.nu[0]
    z = data.y[n] - state.mu[0]
    return (
        math.lgamma(0.5 * nu + 0.5)
        - math.lgamma(0.5 * nu)
        - 0.5 * sm.log(nu)
        - (0.5 * nu + 0.5) * sm.log1p(z * z / nu)
    )


@pytest.mark.parametrize("known", [True, False])
def test_lines_stay_where_parameters_may_be(known):
    """Of a fit in its free coordinates; of a mere point in the parameters themselves."""
    y = np.random.default_rng(0).standard_normal(5_000)
    model = sm.Model(
        free_nu, {"y": y}, {"mu": 0.0, "nu": 20.0}, lambda state: -0.05 * state.nu[0],
        constraints={"nu": sm.positive},
    )  # fmt: skip
    fit = sm.laplace(model)
    control = sm.Taylor(fit if known else fit.state)
    assert len(control.always_read(model)) <= 0.03 * len(y)


# ------------------------------------------------------- few events, in other coordinates a line
MANY = 50_000
EVENTS = np.sort(np.random.default_rng(4).choice(MANY, 10, replace=False))
CUTS = [0, 1, 20_000, 20_001, MANY]


def share(state, data, n):
    return sm.log(state.p[0]) if data.y[n] == 1 else sm.log1p(-state.p[0])


def rate(state, data, n):
    return data.y[n] * sm.log(state.p[0]) - state.p[0]


def level(state, data, n):
    return sm.log(state.p[data.y[n]])


FORMS = {
    "share": (share, 0.5, sm.interval(0.0, 1.0)), "rate": (rate, 0.5, sm.positive),
    "softplus": (rate, 0.5, sm.positive("softplus")), "simplex": (level, [0.5, 0.5], sm.simplex),
}  # fmt: skip


def of_events(form, parts=False):
    """A model of 10 events among many rows, which the logarithm of their share is a line in."""
    log_likelihood, start, constraint = FORMS[form]
    y = np.zeros(MANY, dtype=int)
    y[EVENTS] = 1
    data = {"y": y}
    return sm.Model(
        log_likelihood, parts_of(data, np.diff(CUTS)) if parts else data, {"p": start},
        constraints={"p": constraint},
    )  # fmt: skip


@pytest.mark.parametrize(("form", "parts"), [
    *((form, False) for form in FORMS), ("rate", True), ("simplex", True),
])  # fmt: skip
def test_events_that_tell_of_a_rare_share_are_read(form, parts, monkeypatch):
    """In the logarithm of a rate y log w has no residual; the mutant looks along that."""
    model = of_events(form, parts)
    fit = sm.laplace(model, progress=False)
    assert set(EVENTS) <= set(sm.Taylor(fit).always_read(model))
    monkeypatch.setattr(influence, "is_inside", lambda *_: False)
    other = of_events(form, parts)
    other_fit = sm.laplace(other, progress=False)
    assert len(sm.Taylor(other_fit, order=2, predict=False).always_read(other)) == 0


@pytest.mark.parametrize("mutant", [False, True])
def test_decisions_about_a_rare_share_are_within_delta(mutant, monkeypatch):
    """Means of it were 14 standard errors off, with "yes": 7% of decisions were wrong."""
    if mutant:
        monkeypatch.setattr(influence, "is_inside", lambda *_: False)
    model = of_events("share")
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("p", 0.1, sm.pcn(fit), sm.Racing(delta=0.01), control=sm.Taylor(fit))
    run = {"draws": 1_000, "warmup": 200, "chains": 2, "seed": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stats = sm.sample(model, kernel, audit=1.0, start=[fit.state] * 2, **run).stats["p"]
    wrong, audited = int(stats["wrong"].sum()), int(stats["audited"].sum())
    assert audited == 2_000
    (above if mutant else at_most)(wrong, audited, 0.01)


def of_levels(state, data, n):
    """An intercept and an effect of each level: stable, so that no bound is found."""
    eta = state.a[0] + state.b[data.level[n]]
    if eta > 0.0:
        return data.y[n] * eta - eta - sm.log1p(sm.exp(-eta))
    return data.y[n] * eta - sm.log1p(sm.exp(eta))


@pytest.mark.parametrize("parts", [False, True])
def test_rare_levels_are_found_where_all_effects_go_up_and_down_together(parts, monkeypatch):
    """Held by a wide prior alone: along no coordinate's line does a level's predictor move.

    Four of them, which are alike: principal axes of their covariance are any mixtures.
    """
    rng = np.random.default_rng(1)
    size = 200_000
    level, rare = rng.integers(0, 2, size), np.sort(rng.choice(size, 16, replace=False))
    level[rare] = 2 + np.arange(16) // 4
    y = (rng.random(size) < np.array([0.4, 0.57, 0.0, 0.0, 0.0, 0.0])[level]).astype(float)
    y[rare[::4]] = 1.0
    data = {"y": y, "level": level}

    def found():
        model = sm.Model(
            of_levels, parts_of(data, [50_000, size - 50_000]) if parts else data,
            {"a": 0.0, "b": np.zeros(6)},
            lambda state: -5e-5 * (state.a[0] ** 2 + np.sum(state.b**2)),
        )  # fmt: skip
        fit = sm.laplace(model, progress=False)
        return set(sm.Taylor(fit).always_read(model))

    assert set(rare) <= found()
    monkeypatch.setattr(influence, "HELD", 0.0)
    assert not set(rare) & found()


def test_of_a_level_that_no_row_has_lines_are_curved(monkeypatch):
    """Of log p a standard deviation is 3: straight lines of an eighth of that leave the simplex."""
    y = np.random.default_rng(0).permutation(np.repeat([0, 1], [900, 600]))
    model = sm.Model(
        level, {"y": y}, {"p": np.full(3, 1 / 3)},
        lambda state: -0.9 * np.sum(np.log(state.p)), constraints={"p": sm.simplex},
    )  # fmt: skip
    fit = sm.laplace(model, progress=False)
    sm.Taylor(fit).always_read(model)  # without a warning, which would be an error
    monkeypatch.setattr(influence, "tries_of", lambda ways, place: [
        (which, range(influence.HALVINGS + 1)) for which in range(len(ways))
    ])  # fmt: skip
    with pytest.warns(UserWarning, match="is not finite at a third"):
        sm.Taylor(sm.laplace(model, progress=False), predict=False).always_read(model)


def with_large(state, data, n):
    z = data.y[n] - state.mu[0] * (data.large[n] if state.k[0] == 1 else 1.0)
    return -2.5 * sm.log1p(0.25 * z * z)


def test_every_configuration_is_looked_at():
    """A row that counts for one value of k alone, which the fit does not hold."""

    y = np.random.default_rng(0).standard_t(4, 5_000) + 1.0
    large = np.ones(5_000)
    large[17] = y[17] = 500.0
    model = sm.Model(with_large, {"y": y, "large": large}, {"mu": 1.0, "k": 0}, support={"k": 2})
    control = sm.Taylor(sm.laplace(model))
    assert 17 in control.always_read(model)
    copied = pickle.loads(pickle.dumps(control))
    assert np.array_equal(copied.always_read(model), control.always_read(model))


# ------------------------------------------------------------------- races without control variate
def warned(x, kernel=None, **more):
    """Warnings of a short chain on a column."""
    y = np.random.default_rng(1).standard_normal(len(x))

    def log_likelihood(state, data, n):
        z = data.y[n] - state.b[0] * data.x[n]
        return -0.5 * z * z

    model = sm.Model(log_likelihood, {"x": x, "y": y}, {"b": 0.0})
    kernel = kernel or sm.Metropolis("b", **more)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sm.sample(model, kernel, draws=2, warmup=2, chains=1, seed=1, progress=False)
    return [w for w in told if "in all but" in str(w.message)]


def test_a_column_that_is_almost_constant_is_told():
    x = np.zeros(20_000)
    x[[5, 500, 5_000]] = 1.0
    (told,) = warned(x)
    assert "kernel b: data.x[n] is 0 in all but 3 of 20,000 rows" in str(told.message)
    assert told.filename == __file__
    assert warned(x, selector=sm.Exact()) == []


def test_other_columns_are_not_told(rng):
    assert warned(np.ones(20_000)) == []
    assert warned((rng.random(20_000) < 0.1).astype(float)) == []
    assert warned(rng.standard_normal(20_000)) == []


# ------------------------------------------------------------------ what is odd along a direction
def with_odd(state, data, n):
    """Normal data, and a few that leave something odd over, of the fifth power at least."""
    b = state.b[0] - 1.0
    u = data.k[n] * b
    wave = math.sin(u) - u + u**3 / 6.0 if data.k[n] > 0.0 else 0.0
    return -0.5 * (data.y[n] - b) ** 2 + data.w[n] * wave


def odd_model(weight, size=5_000):
    """(model, reference): row 17 has this weight; u = 3 three standard deviations off.

    Farther than 3.3 the prior lets no chain go: sm.Taylor decides by all data where no pilot was.
    """
    y = np.random.default_rng(0).standard_normal(size)
    k, w = np.zeros(size), np.zeros(size)
    k[17], w[17] = math.sqrt(size), weight
    most = 3.3 / math.sqrt(size)
    model = sm.Model(
        with_odd, {"y": y - y.mean(), "k": k, "w": w}, {"b": 1.0},
        lambda state: 0.0 if abs(state.b[0] - 1.0) < most else -np.inf,
    )  # fmt: skip
    return model, {"b": 1.0}


def even_only(read, trial, rows, middle, points):
    """The rule before: what is the same both ways."""
    up, down, high, low = values = np.zeros((4, len(rows)))
    for k in range(4):
        read(trial, 1 + k, rows, values[k])
    off = np.abs(0.5 * (high + low) - middle - influence.FAR**2 * (0.5 * (up + down) - middle))
    return np.where(np.isfinite(off), off, np.inf)


def wrong_of(model, reference, steps=2_000):
    """Wrong decisions of a chain in which every one is audited."""
    control = sm.Taylor(reference, order=3, predict=False)
    kernel = sm.Metropolis("b", 0.03, selector=sm.Racing(delta=DELTA), control=control, adapt=False)
    trace = sm.sample(model, kernel, draws=steps, warmup=0, chains=1, seed=1, audit=1.0,
                      progress=False)  # fmt: skip
    assert int(trace.stats["b"]["audited"].sum()) == steps
    return int(trace.stats["b"]["wrong"].sum())


def test_a_row_that_is_odd_along_a_direction_is_seen(monkeypatch):
    """And read by every decision. Not seen, the mutant, it makes them wrong."""
    model, reference = odd_model(100.0)
    assert sm.Taylor(reference, order=3).way_of(model) == ("jets", "")
    assert sm.Taylor(reference, order=3).always_read(model).tolist() == [17]
    at_most(wrong_of(model, reference), 2_000, DELTA)
    monkeypatch.setattr(influence, "residuals_at", even_only)
    assert len(sm.Taylor(reference, order=3).always_read(model)) == 0
    above(wrong_of(model, reference), 2_000, DELTA, alarm=1e-4)


def test_scores_of_third_order_are_residuals(rng):
    """At FAR standard deviations, of what is even and of what is odd, to what the fits cannot."""
    size = 200
    powers = rng.standard_normal((6, size))  # of t^0 .. t^5

    def read(trial, arm, rows, out):
        t = [0.0, 1.0, -1.0, 3.0, -3.0, 0.5, -0.5][arm]
        out[:] = (powers[:, rows].T * t ** np.arange(6.0)).sum(axis=1)

    rows = np.arange(size)
    found = influence.residuals_at(read, None, rows, powers[0], 6)
    want = 72.0 * np.abs(powers[4]) + 210.0 * np.abs(powers[5])  # of 81 and 243
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)
