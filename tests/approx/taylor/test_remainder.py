"""What sums leave over, learnt: its doubts hold, decisions by it err as rarely as said, or never.

Two models of 2,000 data, where the remainder is what keeps a decision from being made without data:
a logistic regression with a proved remainder, and ARCH(5). Rates of error are audited; each claim
cries wolf with probability 1e-6.
"""

from collections import OrderedDict

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx.control import make_controls, prepared_for
from subsample_mcmc.approx.taylor import pilot as pilots
from subsample_mcmc.approx.taylor import polynomial, remainder
from subsample_mcmc.approx.taylor.pilot import Probe, Probes
from subsample_mcmc.numerics import memo
from subsample_mcmc.numerics.jit import jit
from tests.helpers.claims import at_most, below
from tests.helpers.laws import ALARM
from tests.helpers.models import tally, walker
from tests.helpers.tall import idle, regression

SIZE = 2000


def raced(model, control):
    """What races with a control variate know."""
    return prepared_for(model, control, sm.Racing())


@sm.kernel(writes="q")
def same(rng, state, data):
    """For chains that stay in one model."""


class Case:
    """A model with a fit of all its continuous values, and what a chain needs besides."""

    def __init__(self, name):
        self.name = name
        if name == "logistic":
            self.model, _ = regression("logistic", SIZE, 3, heavy=True, seed=3)
            self.block, self.idle = "beta", idle
            self.fit = sm.laplace(self.model, "beta", progress=False)
        else:
            returns = sm.models.arch.simulate(SIZE, (0.2, 0.2, 0.12, 0.08, 0.05, 0.03), 6.0, seed=3)
            self.model = sm.models.arch.ARCH(returns, orders=(5,))
            self.block, self.idle = "theta", same
            self.fit = sm.laplace(self.model, "theta", progress=False).matched()
        self.control = sm.Taylor(self.fit)

    def kernel(self, selector, control="own", wide=1.0):
        """Steps to and fro over the posterior: from independent draws of the fit."""
        control = self.control if control == "own" else control
        walk = sm.Metropolis(self.block, proposal=sm.pcn(self.fit, beta=0.9 * wide),
                             selector=selector, control=control)  # fmt: skip
        return self.idle >> walk

    def chain(self, selector, count, control="own", seed=1, start=None, wide=1.0):
        one = walker(self.model, self.kernel(selector, control, wide), seed, audit=1.0)
        one.floats[:] = self.fit.point if start is None else start
        made = one.advance(count)
        assert one.error is None, one.error
        return made, one.program.layout.stats(made.words)[self.block]

    def fresh(self, count, seed=99):
        """(remainders, guesses, units of doubt, sizes) at draws that nothing was learnt from."""
        made = raced(self.model, self.control)
        rng, fit = np.random.default_rng(seed), self.fit
        u = fit.mean + rng.standard_normal((count, len(fit.mean))) @ fit.factor.T
        values, _, slopes = fit.coordinates.lift(u)
        return self.at(values[slopes > -np.inf], made)

    def at(self, points, made=None):
        made = made or raced(self.model, self.control)
        probes = Probes(self.model, made.source, made.strides, [self.fit])
        probe = Probe(probes, made.sums, 0, np.zeros(0, dtype=np.int64), points)
        left = probe.whole(1, 1 + len(probe.arms))
        told, sizes = probe.own.guesses[1:], probe.own.sizes[1:]
        return left, told[:, 0].copy(), told[:, 1].copy(), sizes.copy()


@pytest.fixture(scope="module", params=["logistic", pytest.param("arch", marks=pytest.mark.slow)])
def case(request):
    return Case(request.param)


@pytest.fixture(scope="module")
def logistic(request):
    return Case("logistic")


def learnt(case):
    return raced(case.model, case.control).sums.learnt


# --------------------------------------------------------------------------------- doubts and error
def test_the_stated_risk_is_kept(case):
    """Expected excess of errors over doubts, at fresh draws: at most RISK; careful ones: none."""
    left, said, unit, _ = case.fresh(4000)
    known = np.isfinite(unit)
    assert known.mean() > 0.99
    error, unit = np.abs(left - said)[known], unit[known]
    _, bold, careful = learnt(case).doubts[0]
    excess = np.maximum(error - bold * unit, 0.0)
    far = stats.norm.isf(ALARM)
    assert excess.mean() - far * excess.std() / np.sqrt(len(excess)) < remainder.RISK
    at_most(int((error > careful * unit).sum()), len(error), 1e-3)
    # It is worth its while: what is left over of what is left over is much smaller.
    assert np.median(error) < 0.2 * np.median(np.abs(left))


def test_doubts_that_are_too_small_are_noticed(case):
    left, said, unit, _ = case.fresh(4000)
    excess = np.maximum(np.abs(left - said) - 0.3 * unit, 0.0)[np.isfinite(unit)]
    far = stats.norm.isf(ALARM)
    assert excess.mean() - far * excess.std() / np.sqrt(len(excess)) > remainder.RISK


def test_nothing_is_said_of_where_nothing_was_seen(case):
    """Far from all points of the pilot, and along a single coordinate beyond them."""
    reach, scales = learnt(case).reach[0], learnt(case).scales[0]
    _, known, _, sizes = case.fresh(500)
    assert sizes.max() < 1.2 * reach[0] and np.any(known != 0.0)
    far = []
    for j in range(len(case.fit.point)):
        point = case.fit.point.copy()
        point[j] += 1.05 * reach[1] / scales[j]
        far.append(point)
    _, said, unit, _ = case.at(np.array(far))
    assert np.all(said == 0.0) and np.all(np.isinf(unit))


def test_nothing_is_said_beyond_what_was_seen_of_each_coordinate(case):
    """That one coordinate was seen ten deviations away says nothing of the others."""
    seen = pilots.drawn(case.fit, remainder.how_many(SIZE)) - case.fit.point
    far = np.tile(case.fit.point, (seen.shape[1], 1))
    far += np.diag(2.0 * np.abs(seen).max(axis=0))
    _, said, unit, _ = case.at(far)
    assert np.all(said == 0.0) and np.all(np.isinf(unit))


@pytest.mark.slow
def test_one_reference_for_models_of_all_lengths():
    """Learnt of each at draws from one of them: then at the others' posteriors it must not be used.

    Or its doubts must hold there as well: expected excess at most RISK.
    """
    returns = sm.models.arch.simulate(SIZE, (0.1, 0.3, 0.2, 0.1), 6.0, seed=3)
    model = sm.models.arch.ARCH(returns, orders=(1, 3))
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(2)]
    for given in fits:
        control = sm.Taylor(given)
        made = raced(model, control)
        probes = Probes(model, made.source, made.strides, [given] * 2)
        for k, fit in enumerate(fits):
            points = pilots.drawn(fit, 400)
            probe = Probe(probes, made.sums, k, np.zeros(0, dtype=np.int64), points)
            left = probe.whole(1, 1 + len(probe.arms))
            said, unit = probe.own.guesses[1:].T
            known, bold = np.isfinite(unit), made.sums.learnt.doubts[k, 1]
            excess = np.maximum(np.abs(left - said) - bold * np.where(known, unit, 0.0), 0.0)[known]
            if len(excess):
                error = stats.norm.isf(ALARM) * excess.std() / np.sqrt(len(excess))
                assert excess.mean() - error < remainder.RISK, (k, known.mean(), excess.mean())


def test_without_a_fit_nothing_is_learnt():
    """A dict says where to expand, and not where the posterior is."""
    model, reference = regression("logistic", SIZE, 3, heavy=True, seed=3)
    sums = raced(model, sm.Taylor(reference)).sums
    assert not sums.learnt.known.any()
    fit = sm.laplace(model, "beta", progress=False)
    assert not raced(model, sm.Taylor(fit, predict=False)).sums.learnt.known.any()
    assert raced(model, sm.Taylor(fit)).sums.learnt.known.all()


def test_it_is_learnt_for_races_alone(logistic):
    """By up to 10^8 evaluations; and before a race, whatever was made with it before."""
    model, control = logistic.model, sm.Taylor(logistic.fit)
    walk = {"proposal": sm.pcn(logistic.fit), "control": control}
    thinned = logistic.idle >> sm.Metropolis("beta", **walk)
    assert "Thinned()" in thinned.describe(model)
    options = {"chains": 1, "seed": 1, "progress": False, "start": [logistic.fit.state]}
    sm.sample(model, thinned, 20, 0, **options)
    known = prepared_for(model, control).sums.learnt
    assert not known.known.any() and not known.spreads.any()
    raced_walk = logistic.idle >> sm.Metropolis("beta", selector=sm.Racing(), **walk)
    late = sm.sample(model, raced_walk, 200, 0, **options)
    assert known.known.all() and known.spreads.all()
    assert np.asarray(late.stats["beta"]["predicted"]).any()
    walk["control"] = sm.Taylor(logistic.fit)
    raced_walk = logistic.idle >> sm.Metropolis("beta", selector=sm.Racing(), **walk)
    soon = sm.sample(model, raced_walk, 200, 0, **options)
    assert np.array_equal(soon.draws["beta"], late.draws["beta"])
    assert np.array_equal(soon.stats["beta"]["pulls"], late.stats["beta"]["pulls"])


# ---------------------------------------------------------------------------------- what is decided
def by_kind(told, kind):
    at = told[kind] > 0
    return int(told["wrong"][at].sum()), int(at.sum())


def race(delta, **more):
    return sm.Racing(delta=delta, **more)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "arch"])
def test_predicted_decisions_err_as_rarely_as_said(name):
    """One in a thousand at most at delta .05, in all seeds together; races within delta."""
    case, wrong, count = Case(name), 0, 0
    for seed in range(3):
        _, told = case.chain(race(0.05), 10_000, seed=seed)
        assert told["audited"].sum() == 10_000
        at_most(*by_kind(told, "raced"), 0.05)
        more, of = by_kind(told, "predicted")
        wrong, count = wrong + more, count + of
    assert count > 10_000
    below(wrong, count, 1e-3, 0.025)


def test_prediction_matters(logistic):
    """Most decisions read nothing; with what a pilot knew before, of the same, far fewer."""
    _, told = logistic.chain(race(0.05), 2000)
    before = sm.Taylor(logistic.fit)
    sums = raced(logistic.model, before).sums
    sums.learnt.known[:] = 0
    _, old = logistic.chain(race(0.05), 2000, before)
    assert told["predicted"].sum() > 0.7 * 2000
    assert old["predicted"].sum() < told["predicted"].sum()
    assert told["pulls"].sum() < old["pulls"].sum()


@pytest.mark.slow
def test_exact_draws_are_the_same(case):
    """Nothing that is only believed may decide for Exact: bit for bit the draws of no control."""
    count = 1500 if case.name == "logistic" else 400
    for start in (case.fit.point, case.fit.point * 1.3):
        made, told = case.chain(sm.Exact(), count, start=start)
        plain, _ = case.chain(sm.Exact(), count, None, start=start)
        assert made.floats.tobytes() == plain.floats.tobytes()
        assert told["wrong"].sum() == 0 and told["accepted"].sum() > 20
    assert (told["predicted"].sum() > 0) == prepared_for(case.model, case.control).proved


def test_a_careful_race_takes_the_careful_doubt(logistic):
    """Below delta .01, the largest error seen and twice that; Exact and Betting none at all."""
    likely = {
        str(selector): make_controls(logistic.control, logistic.model, selector, 2).likely
        for selector in (race(0.05), race(0.01), race(0.009), race(1e-4))
    }
    assert list(likely.values()) == [2, 2, 1, 1]
    for selector in (sm.Exact(), sm.Racing(sm.Betting(), delta=0.05)):
        assert make_controls(logistic.control, logistic.model, selector, 2).likely == 0
    doubts = learnt(logistic).doubts[0]
    assert doubts[2] >= 2.0 * doubts[1] > 0.0
    (_, bold), (_, careful) = (logistic.chain(race(d), 2000) for d in (0.01, 0.0099))
    assert careful["predicted"].sum() < bold["predicted"].sum()
    assert by_kind(careful, "predicted")[0] == 0


# ------------------------------------------------------------------------------ proofs with guesses
def bare_reach(trial, i, j, each, everything):
    """A mutant of `reach`: without what was learnt, which stands among the offsets."""
    own = trial.control.arrays
    parts = own.sums.whole if everything else own.sums.raced
    rounding = max(parts.limits[own.tables[i], 3], parts.limits[own.tables[j], 3])
    bound = polynomial.apart(trial, i, j, parts, 1 if each else 0)
    return bound + (rounding if each else rounding * trial.control.size)


def misled(case, reach=None):
    """A control variate whose guesses are thousands of nats off, rising along one coordinate."""
    control = sm.Taylor(case.fit)
    made = raced(case.model, control)
    made.sums.learnt.weights[:] = 0.0
    made.sums.learnt.weights[0, remainder.COMMON] = 1e4
    if reach is not None:
        made.functions = made.functions._replace(reach=reach)
    return control


@pytest.mark.slow
def test_proofs_hold_whatever_was_learnt(logistic):
    """Betting at delta 1e-9, and Exact: no decision is wrong, though guesses are nonsense."""
    race = sm.Racing(sm.Betting(), delta=1e-9)
    for control in (logistic.control, misled(logistic)):
        for selector in (race, sm.Exact()):
            for wide in (1.0, 0.1):
                _, told = logistic.chain(selector, 1000, control, wide=wide)
                assert told["wrong"].sum() == 0
        assert told["audited"].sum() == 1000
    _, told = logistic.chain(race, 1000)
    assert told["predicted"].sum() > 50


@pytest.mark.slow
def test_a_proof_without_the_guesses_is_none(logistic, monkeypatch):
    monkeypatch.setattr(memo, "_results", OrderedDict())
    mutant = misled(logistic, jit(bare_reach, inner="always"))
    _, told = logistic.chain(sm.Exact(), 1000, mutant)
    assert told["wrong"].sum() > 10


# ------------------------------------------------------------------- the variance floor of sm.Norma
def floored(case, factor, **more):
    """The same control variate, but for how widely it says that residuals vary."""
    control = sm.Taylor(case.fit, **{"outliers": 0.0, **more})
    sums = raced(case.model, control).sums
    sums.raced.limits[:, 6] *= factor
    sums.learnt.spreads[:] *= factor
    return control


def test_a_variance_floor_makes_races_read_on(logistic):
    """Nothing but the floor differs; where it is far above what is seen, all rows are read.

    Without the guard: that believes less in skewness where the variance is said to be larger.
    """
    found = {}
    selector = sm.Racing(sm.Normal(guard=False), delta=0.05, batch=16, retreat=False)
    for factor in (0.0, 1.0, 1e6):
        _, found[factor] = logistic.chain(selector, 1500, floored(logistic, factor, predict=False))
        assert found[factor]["predicted"].sum() == 0
    reads = {f: t["pulls"].mean() for f, t in found.items()}
    assert 1.1 * reads[0.0] < reads[1.0] < 0.1 * reads[1e6]
    assert found[1e6]["exhausted"].sum() >= 1499 and found[1e6]["wrong"].sum() == 0


@pytest.mark.slow
def test_errors_of_races_with_and_without_the_floor():
    """Residuals that vary by few rows: sixteen of two thousand do not meet them."""
    case = Case("arch")
    selector, found = sm.Racing(delta=0.05, batch=16, retreat=False), {}
    for factor in (0.0, 1.0):
        _, told = case.chain(selector, 8000, floored(case, factor))
        found[factor] = by_kind(told, "raced")
    at_most(*found[1.0], 0.05)
    assert found[0.0][0] / found[0.0][1] > found[1.0][0] / found[1.0][1]


def test_outliers_are_read_when_they_are_needed(logistic):
    """A decision by the sums over all rows reads nothing; others read the outliers first."""
    control = sm.Taylor(logistic.fit, outliers=0.02)
    count = len(control.always_read(logistic.model))
    assert count == 40
    _, told = logistic.chain(race(0.05), 3000, control)
    predicted = told["predicted"] > 0
    assert set(np.unique(told["pulls"][predicted])) <= {0, 2 * count}
    assert (told["pulls"][predicted] == 0).mean() > 0.8
    assert np.all(told["pulls"][~predicted & (told["alone"] == 0)] >= 2 * (count + 64))
    assert by_kind(told, "predicted")[0] <= 3
    _, exact = logistic.chain(sm.Exact(), 500, control)
    plain, _ = logistic.chain(sm.Exact(), 500, None)
    assert logistic.chain(sm.Exact(), 500, control)[0].floats.tobytes() == plain.floats.tobytes()
    assert exact["wrong"].sum() == 0


# ----------------------------------------------------------------------------------- the regression
def test_a_remainder_that_the_features_span_is_learnt_exactly(rng):
    """Powers of coordinates and functions of the distance: nothing is left over."""
    d, count = 3, 600
    steps = rng.standard_normal((count, d)) * [1.0, 0.1, 10.0]
    sizes = np.sqrt(((steps / [1.0, 0.1, 10.0]) ** 2).sum(axis=1))
    cubics = rng.standard_normal(count)
    left = 0.3 * steps[:, 0] ** 4 - 20.0 * steps[:, 1] ** 3 + 0.01 * sizes**4 + 0.1 * cubics
    own = remainder.nothing(1, d)
    remainder.learn(own, 0, steps, sizes, cubics, left)
    assert own.known[0] == 1
    assert own.doubts[0, 0] < 1e-9 * np.abs(left).max()


def test_few_points_learn_less(rng):
    own = remainder.nothing(1, 4)
    few = remainder.FEW - 1
    for count in (few, few + 1, 60, 300):
        steps, own = rng.standard_normal((count, 4)), remainder.nothing(1, 4)
        left = 1.0 + 0.1 * rng.standard_normal(count)
        remainder.learn(own, 0, steps, np.linalg.norm(steps, axis=1), np.zeros(count), left)
        assert own.known[0] == (count > few)
        if count == few + 1:  # one number, the mean
            assert np.count_nonzero(own.weights) == 1
    assert own.doubts[0, 0] == pytest.approx(0.0674, abs=0.02)  # the median of |N(0, .1)|
    with np.errstate(all="ignore"):
        bad = np.where(np.arange(count) % 2 == 0, np.nan, left)
        remainder.learn(own, 0, steps, np.linalg.norm(steps, axis=1), np.zeros(count), bad)
    assert np.all(np.isfinite(own.weights)) and np.all(np.isfinite(own.doubts))


def test_exact_sums_are_bought_where_they_are_cheap():
    assert remainder.how_many(1000) == remainder.POINTS
    assert remainder.how_many(10**6) == remainder.EVALUATIONS // 10**6
    assert remainder.how_many(10**8) < remainder.FEW
    assert pilots.how_many is remainder.how_many


def test_tallies_add_up(logistic):
    one = walker(logistic.model, logistic.kernel(race(0.05)), audit=1.0)
    one.floats[:] = logistic.fit.point
    told = tally(one, one.advance(500).words, "beta")
    ends = ("alone", "exact", "predicted", "raced", "exhausted", "retreated")
    assert sum(told[name] for name in ends) == told["decisions"] == 500
