"""Likelihoods that step within a few bins: races see how widely their residuals vary."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.bins import bins as module
from subsample_mcmc.approx.bins.cut import cut
from subsample_mcmc.approx.control import controls_of, sum_and_residuals
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.target.rewards import probe
from tests.helpers.claims import above, at_most
from tests.helpers.laws import ALARM

SIZE = 3_650


def of_years(seed: int, first: int = 18, last: int = 91):
    """Who is ill, by age in whole years: a change at 45."""
    rng = np.random.default_rng(seed)
    age = rng.integers(first, last, SIZE).astype(float)
    return age, rng.random(SIZE) < np.where(age < 45.0, 0.62, 0.45)


def change_of_years(seed: int = 0, **more):
    def log_likelihood(state, data, n):
        p = 0.62 if data.age[n] < state.k[0] + 18.0 else 0.45
        return sm.log(p) if data.ill[n] else sm.log(1.0 - p)

    age, ill = of_years(seed, **more)
    return sm.Model(log_likelihood, {"age": age, "ill": ill}, {"k": 20}, support={"k": 73})


def change_in_time():
    """The same along a continuous column, of 20,000 rows."""

    def log_likelihood(state, data, n):
        up = data.y[n] < state.t[0]
        return sm.log(0.6) if up == (data.z[n] > 0.5) else sm.log(0.4)

    rng = np.random.default_rng(0)
    y = rng.random(20_000)
    z = (rng.random(20_000) < np.where(y < 0.37, 0.6, 0.4)).astype(float)
    return sm.Model(
        log_likelihood, {"y": y, "z": z}, {"t": 0.37}, constraints={"t": sm.interval(0.0, 1.0)}
    )


def audited(model, kernel, draws: int, name: str) -> tuple[int, int]:
    """(wrong, audited) decisions."""
    trace = sm.sample(model, kernel, draws=draws, warmup=0, chains=1, seed=1, audit=1.0,
                      progress=False)  # fmt: skip
    told = trace.stats[name]
    return int(told["wrong"].sum()), int(told["audited"].sum())


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="thousands of decisions")
@pytest.mark.parametrize("outliers", [0.2, 0.0])
def test_errors_in_whole_years_are_within_delta(outliers, monkeypatch):
    """Some 5% were wrong at any delta, and P(k = 27) .52 or .08 for .71.

    Half the columns' values shared a bin then; without a bin for each they do so again.
    """
    monkeypatch.setattr("subsample_mcmc.approx.bins.cut.MANY", 0)
    for delta in (0.05, 0.001):
        control = sm.Bins(outliers=outliers)
        kernel = sm.Gibbs("k", sm.Racing(delta=delta), control=control)
        at_most(*audited(change_of_years(), kernel, 1_000, "k"), delta, ALARM)


@pytest.mark.skipif(DISABLED, reason="thousands of decisions")
@pytest.mark.parametrize("outliers", [0.2, 0.0])
def test_errors_along_a_continuous_column_are_within_delta(outliers):
    """35 and 69 of 3,000 were wrong, for want of rows that a batch of 64 met."""
    at_most(*audited(change_in_time(), walk(outliers), 3_000, "t"), 0.001, ALARM)


def walk(outliers: float):
    racing, control = sm.Racing(delta=0.001), sm.Bins(outliers=outliers)
    return sm.Metropolis("t", scale=0.01, selector=racing, control=control, adapt=False)


def step_beside_a_slope():
    """Where risk steps at an age, beside what it does smoothly: no residual is 0."""

    def log_likelihood(state, data, n):
        eta = state.a[0] + state.a[1] * (data.age[n] - 50.0)
        if data.age[n] > state.t[0]:
            eta += state.a[2]
        return eta * data.ill[n] - sm.softplus(eta)

    rng = np.random.default_rng(0)
    age = rng.uniform(20.0, 80.0, 20_000)
    eta = -0.5 + 0.01 * (age - 50.0) + 0.3 * (age > 45.0)
    ill = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return sm.Model(
        log_likelihood, {"age": age, "ill": ill}, {"a": np.array([-0.5, 0.01, 0.3]), "t": 45.0},
        lambda state: -0.5 * np.sum(state.a**2), constraints={"t": sm.interval(20.0, 80.0)},
    )  # fmt: skip


@pytest.mark.skipif(DISABLED, reason="thousands of decisions")
def test_errors_where_a_step_stands_beside_a_slope_are_within_delta():
    """Steps of both arms between the same two rows of a sample: 141 of 2,000 were wrong."""
    kernel = sm.Metropolis(
        ("a", "t"), scale=[0.02, 0.001, 0.02, 0.02], control=sm.Bins(), adapt=False,
        selector=sm.Racing(delta=0.001),
    )  # fmt: skip
    at_most(*audited(step_beside_a_slope(), kernel, 2_000, "a+t"), 0.001, ALARM)


@pytest.mark.slow_for("nothing is said")
@pytest.mark.skipif(DISABLED, reason="thousands of decisions")
@pytest.mark.parametrize("mutant", ["nothing is said", "a row in the middle", "one end alone"])
def test_without_the_sample_they_are_not(monkeypatch, mutant):
    """What is left out leaves 30 to 69 of 3,000 decisions wrong, where 3 may be."""
    real = module.bin_functions
    if mutant == "nothing is said":
        changed = lambda fields: real(fields)._replace(spread=None)  # noqa: E731
        monkeypatch.setattr(module, "bin_functions", changed)
    else:
        kept = [0] if mutant == "a row in the middle" else [0, 1]

        def less(*given):
            made = cut(*given)
            sample, count = made.sample, len(made.sample.shares)
            rows = sample.rows.reshape(-1, count)[kept].reshape(-1)
            return made._replace(sample=sample._replace(rows=rows, tame=sample.tame[kept]))

        monkeypatch.setattr(module, "cut", less)
    above(*audited(change_in_time(), walk(0.2), 3_000, "t"), 0.001, ALARM)


def test_columns_of_few_values_have_a_bin_for_each():
    """Two groups of 73 values: 146 bins for 100, in which nothing is left over."""
    model = change_of_years()
    made = cut(model, None, 100, 0.0)
    assert len(made.reference) == 146
    assert np.array_equal(made.reference[made.bins, 0], model.data.age)
    many = cut(model, None, 70, 0.0)  # 35 bins for 73 values of a group: more than twice as many
    assert len(many.reference) == 70


@pytest.mark.parametrize("outliers", [0.0, 0.2])
def test_the_sample_is_of_raced_rows_of_each_bin(outliers, rng):
    y, x = rng.standard_t(3, 5_000), rng.random(5_000)
    model = sm.Model(
        lambda state, data, n: -((data.y[n] - state.mu[0]) ** 2) * data.x[n], {"y": y, "x": x},
        {"mu": 0.0},
    )  # fmt: skip
    made = cut(model, None, 64, outliers)
    count = len(made.reference)
    rows = made.sample.rows.reshape(-1, count)
    assert len(rows) == 5  # one in the middle, two ends of each column
    assert np.array_equal(made.bins[rows], np.tile(np.arange(count), (5, 1)))
    assert not np.isin(rows, made.outliers).any()
    raced = np.setdiff1d(np.arange(5_000), made.outliers)
    share = np.bincount(made.bins[raced], minlength=count) / len(raced)
    np.testing.assert_allclose(made.sample.shares, share, rtol=1e-12)
    for b in range(count):
        own = raced[made.bins[raced] == b]
        ends = [f(column[own]) for column in (y, x) for f in (np.min, np.max)]
        seen = [column[rows[k, b]] for k, column in zip(range(1, 5), (y, y, x, x), strict=True)]
        assert seen == ends
        cubic = np.zeros(len(own))
        for k, column in enumerate((y, x)):
            d = (column[own] - made.reference[b, k]) * made.inverse[b, k]
            cubic += (d * (d * d - 1.0)) ** 2
        usual = cubic[own == rows[0, b]][0]
        assert abs(usual - cubic.mean()) == np.abs(cubic - cubic.mean()).min()
        at = [int(np.flatnonzero(own == row)[0]) for row in rows[:, b]]
        tame = np.minimum(1.0, cubic.mean() / np.maximum(cubic[at], 1e-300))
        np.testing.assert_allclose(made.sample.tame[:, b], tame, rtol=1e-6)


@pytest.mark.skipif(DISABLED, reason="compiled and plain values are compared")
def test_the_spread_is_that_of_the_residuals(rng):
    """Of a smooth likelihood within a factor of 2 of what all rows say; it counts what it reads."""
    y = rng.standard_normal(20_000)

    def log_likelihood(state, data, n):
        return -2.5 * sm.log1p((data.y[n] - state.mu[0]) ** 2)

    model = sm.Model(log_likelihood, {"y": y}, {"mu": 0.0})
    found = {}
    for outliers in (0.0, 0.2):
        control = sm.Bins(bins=40, outliers=outliers)
        prepared = control.prepare(model)
        trial, truth = residuals_at(model, prepared, np.array([[0.1], [0.4]]))
        spread, rows = spread_in(prepared.functions), prepared.cut.sample.rows
        told = spread(trial, 0, 1)
        assert 0.5 < told / truth < 2.0
        assert trial.pulls[0] == 2 * len(rows)
        assert spread(trial, 1, 0) == told and trial.pulls[0] == 2 * len(rows)
        found[outliers] = told
    assert found[0.2] < found[0.0]


def residuals_at(model, prepared, points):
    """(two arms at these values, how widely their residuals differ over all rows raced)."""
    controls = controls_of(model, prepared.functions, prepared.bind(2), 2, prepared.outliers)
    trial = probe(model, model.ints.copy(), np.zeros(points.shape[1]), points, controls)
    read = sum_and_residuals(prepared.functions)
    raced = np.setdiff1d(np.arange(model.size), prepared.outliers)
    raced = raced.astype(prepared.cut.sample.rows.dtype)
    left = np.zeros((2, len(raced)))
    for arm in range(2):
        for first in range(0, len(raced), 256):
            some = raced[first : first + 256]
            read(trial, arm, some, left[arm, first : first + len(some)])
    return trial, float(np.sqrt(np.mean((left[1] - left[0]) ** 2)))


def spread_in(functions):
    """Its compiled spread, called from Python."""
    spread = functions.spread

    @jit
    def told(trial, i, j):
        return spread(trial, i, j)

    return told


def test_bins_of_predictors_say_it_too():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(2_000), rng.standard_normal(2_000)])
    model = sm.models.glm.logistic(x, (rng.random(2_000) < 0.4).astype(float))
    control = sm.Bins(fit=sm.laplace(model, progress=False), bins=20)
    prepared = control.prepare(model)
    trial, truth = residuals_at(model, prepared, np.array([[-0.4, 0.0], [-0.1, 0.3]]))
    assert 0.5 < spread_in(prepared.functions)(trial, 0, 1) / truth < 2.0
