"""Races of residuals that are rounding in most rows, and vary in a few or on one side of a kink."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx import control as controls
from subsample_mcmc.approx.taylor import pilot

DELTA = 0.001


def errors(model, kernel, draws, **more):
    """(wrong decisions, all of them, the draws), by an audit of each."""
    trace = sm.sample(
        model, kernel, draws=draws, warmup=200, chains=1, seed=1, audit=1.0, progress=False, **more
    )
    told = next(iter(trace.stats.values()))
    return int(told["wrong"].sum()), int(told["audited"].sum()), trace


# ------------------------------------------------------------------------ a control of one's own
def bent(state, data, n):
    """Normal, and in some rows a kink."""
    z = data.y[n] - state.mu[0]
    value = -0.5 * z * z
    if data.marked[n] > 0.5:
        value -= 40.0 * abs(state.mu[0] - 0.002)
    return value


def known_sum(state, arrays):
    m = state.mu[0]
    return -0.5 * (arrays.squares - 2.0 * m * arrays.total + arrays.count * m * m)


def residuals(state, data, arrays, rows, out):
    m = state.mu[0]
    for i in range(len(rows)):
        y = data.y[rows[i]]
        z = y - m
        value = -0.5 * z * z
        if data.marked[rows[i]] > 0.5:
            value -= 40.0 * abs(m - 0.002)
        out[i] = value + 0.5 * (y * y - 2.0 * m * y + m * m)


known_sum = sm.extend.jit(known_sum, flags=sm.extend.FLAGS)
residuals = sm.extend.jit(residuals, flags=sm.extend.FLAGS)


class Squares(sm.extend.Prepared):
    def __init__(self, y):
        arrays = sm.extend.record("count", "total", "squares")
        self.arrays = arrays(float(len(y)), float(y.sum()), float((y * y).sum()))

    @property
    def functions(self):
        return sm.extend.functions_of_state(known_sum, residuals)


@dataclass(frozen=True, eq=False)
class Quadratic(sm.extend.Control):
    """The normal part, by sums of y and of its square: what it leaves is rounding in most rows."""

    def prepare(self, model):
        return Squares(model.data.y)


def marked(share, size=20_000):
    rng = np.random.default_rng(0)
    y, some = rng.standard_normal(size), (rng.random(size) < share).astype(float)
    return sm.Model(bent, {"y": y, "marked": some}, {"mu": 0.0})


def walk(rule):
    walked = sm.Racing(rule, delta=DELTA)
    return sm.Metropolis("mu", scale=0.02, adapt=False, control=Quadratic(), selector=walked)


@pytest.mark.slow_for("0.02-rule1")
@pytest.mark.parametrize("rule", [sm.Normal(), sm.TTest()])
@pytest.mark.parametrize("share", [0.02, 0.005])
def test_few_rows_that_vary_are_not_noise(rule, share):
    """Chance of so many errors at DELTA: at most 1e-6. The mutant, below, makes more than that."""
    wrong, decided, trace = errors(marked(share), walk(rule), 1_000)
    assert stats.binom.sf(wrong - 1, decided, DELTA) > 1e-6, (wrong, decided)
    assert trace.draws["mu"].std() < 1e-3  # 40 nats for .0025 and one of 20,000 rows


def test_as_if_all_were_variance_they_are(monkeypatch):
    monkeypatch.setattr(controls, "grain_at", lambda *given: 0.0)
    wrong, decided, _ = errors(marked(0.02), walk(sm.Normal()), 1_000)
    assert stats.binom.sf(wrong - 1, decided, DELTA) < 1e-12, (wrong, decided)


def grain(model, floats=None):
    return controls.grain_at(model, model.ints, model.floats if floats is None else floats)


def shifted(y):
    return sm.Model(lambda state, data, n: data.y[n] + 0.0 * state.mu[0], {"y": y}, {"mu": 0.0})


def test_log_likelihoods_say_how_coarse_they_are():
    """Root mean squares: of 64 bits, and of 32, which round 2^29 times as much, if not whole."""
    y = np.random.default_rng(3).standard_normal(5_000)
    fine, coarse = grain(shifted(y)), grain(shifted(y.astype(np.float32)))
    assert fine == pytest.approx(np.sqrt(np.mean(y**2)), rel=0.05)
    assert coarse == pytest.approx(2.0**29 * fine, rel=1e-6)
    assert grain(shifted(np.rint(y))) < 2.0
    assert grain(shifted(y), np.full(1, np.nan)) == 0.0


def test_far_out_they_are_larger_than_where_chains_will_be():
    """The least of some states counts: else races would read on for nothing."""
    size = 5_000
    data = {"y": np.random.default_rng(0).standard_normal(size), "marked": np.zeros(size)}
    far = sm.Model(bent, data, {"mu": 1e6})
    assert controls.grain_of_residuals(far, Quadratic()) == pytest.approx(0.9, rel=0.2)
    assert controls.grain_of_residuals(far, None) == 0.0
    assert controls.grain_of_residuals(far, sm.Taylor({"mu": 0.0})) == 0.0


@dataclass(frozen=True)
class Frozen(sm.extend.Prepared):
    """What a user made a frozen dataclass."""

    arrays: object

    @property
    def functions(self):
        return sm.extend.functions_of_state(known_sum, residuals)


@dataclass(frozen=True, eq=False)
class OfFrozen(sm.extend.Control):
    def prepare(self, model):
        return Frozen(Squares(model.data.y).arrays)


def test_what_a_user_prepared_is_not_written_to():
    kernel = sm.Metropolis("mu", scale=0.02, adapt=False, control=OfFrozen())
    assert sm.sample(
        marked(0.02), kernel, draws=5, warmup=5, chains=1, seed=1, progress=False
    ).shape == (1, 5)


# ------------------------------------------------------------------------------------ sm.Taylor
AT, PULL, ROWS = 2.2, 3.0, 20_000  # where the kink is, in standard deviations of the smooth part


def kinked(state, data, n):
    """Normal, and in 2% of the rows a kink on one side of the reference."""
    z = data.y[n] - state.mu[0]
    return -0.5 * z * z - data.pull[n] * abs(state.mu[0] - data.kink[n])


def raced(draws=1_000):
    """At most points around the reference, all on one side of the kink, residuals are rounding."""
    rng, sd = np.random.default_rng(3), ROWS**-0.5
    y, some = rng.standard_normal(ROWS), rng.random(ROWS) < 0.02
    pull, kink = some * PULL / sd / some.sum(), np.full(ROWS, AT * sd)
    model = sm.Model(kinked, {"y": y - y.mean(), "pull": pull, "kink": kink}, {"mu": 0.0})
    walk = sm.Metropolis(
        "mu", scale=2.0 * sd, adapt=False, control=sm.Taylor({"mu": 0.0}),
        selector=sm.Racing(delta=DELTA),
    )  # fmt: skip
    return errors(model, walk, draws)


def test_on_one_side_of_a_kink_points_say_nothing_of_the_other():
    """Chance of so many errors at DELTA: at most 1e-6. The mutant makes more than that."""
    wrong, decided, _ = raced()
    assert stats.binom.sf(wrong - 1, decided, DELTA) > 1e-6, (wrong, decided)


def test_by_the_median_alone_they_would(monkeypatch):
    monkeypatch.setattr(pilot, "typical", np.median)
    wrong, decided, _ = raced()
    assert stats.binom.sf(wrong - 1, decided, DELTA) < 1e-12, (wrong, decided)


def test_the_median_serves_where_points_agree():
    rng = np.random.default_rng(2)
    smooth = rng.uniform(1.0, 2.0, 25)
    assert pilot.typical(smooth) == np.median(smooth)
    heavy = np.geomspace(1e-7, 2e-4, 25)  # as of an ARCH model, in 25 directions
    assert pilot.typical(heavy) == np.median(heavy)
    assert pilot.typical(np.append(1e-14 * smooth, 0.003)) == 0.003
    assert pilot.typical(np.array([1e-14, 2e-14, 1.5e-14])) == 1.5e-14


# --------------------------------------------------------------------------------------- audits
@pytest.mark.parametrize("common", [0.0, 1e7])
def test_audits_see_errors_beside_a_large_term_in_common(common):
    """A rule of no promise: its errors were within "rounding" of 1e12, which was taken for 10."""
    y = np.random.default_rng(5).standard_normal(20_000)

    def log_likelihood(state, data, n):
        return data.common[0] - abs(data.y[n] - state.mu[0])

    data = {"y": y, "common": np.full(len(y), common)}
    model = sm.Model(log_likelihood, data, {"mu": 0.0})
    halved = sm.SequentialHalving(4_000)
    kernel = sm.Metropolis("mu", scale=0.02, adapt=False, selector=halved)
    wrong, decided, _ = errors(model, kernel, 500)
    assert 0.1 < wrong / decided < 0.5
