"""Bounds by intervals where a likelihood has branches: what is compared, and what has none."""

import re

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.found import bounds_found, derivatives_found, row_bounds
from tests.approx.taylor.test_pairs import ratios
from tests.helpers.models import tally, walker
from tests.helpers.tall import Bench

SIZE = 400
BETA = np.array([0.4, 0.3, -0.4])
DATA = np.column_stack([np.ones(SIZE), np.random.default_rng(0).standard_normal((SIZE, 2))])


@pytest.fixture(autouse=True)
def predictors_are_looked_for(monkeypatch):
    """Also in few data."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)


def model_of(likelihood, level=0.0):
    """Every other row: a regression. The rest: a likelihood in which beta[0] is compared only.

    level: with what; 0 is two posterior standard deviations off.
    """

    def log_likelihood(state, data, n):
        if data.even[n]:
            return -0.5 * (data.y[n] - data.x[n] @ state.beta) ** 2
        e = data.x[n, 1] * state.beta[1] + data.x[n, 2] * state.beta[2]
        return likelihood(state.beta[0] - data.level) - sm.softplus(e)

    y = DATA @ BETA + np.random.default_rng(1).standard_normal(SIZE)
    found = {"x": DATA, "y": y, "even": np.arange(SIZE) % 2 == 0, "level": 9.0}
    fit = sm.laplace(sm.Model(log_likelihood, found, {"beta": BETA}), progress=False)
    off = 2.0 * np.sqrt(fit.covariance[0, 0])
    found["level"] = float(fit.mean[0] + off) + level
    return sm.Model(log_likelihood, found, {"beta": fit.mean}), {"beta": fit.mean}


COMPARED = {
    "<": lambda a: 0.0 if a < 0.0 else 0.01, "<=": lambda a: 0.0 if a <= 0.0 else 0.01,
    ">": lambda a: 0.01 if a > 0.0 else 0.0, ">=": lambda a: 0.01 if a >= 0.0 else 0.0,
    "==": lambda a: 0.01 if a == 0.0 else 0.0, "!=": lambda a: 0.0 if a != 0.0 else 0.01,
    "max": lambda a: max(0.0, 0.1 * a), "min": lambda a: -min(0.0, -0.1 * a),
    "abs": lambda a: 0.1 * (abs(a) + a),
    "of two": lambda a: 0.01 if 2.0 * a > a else 0.0,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.plain
@pytest.mark.parametrize("name", sorted(COMPARED))
def test_what_is_compared_and_bends_nothing_is_known(name, monkeypatch):
    """A branch that changes in the ball leaves no bound, though no row bends in beta[0]."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model, at = model_of(COMPARED[name])
    prepared = prepared_for(model, sm.Taylor(at, outliers=0.0, order=3))
    if prepared.way[0] == "found predictors":
        why = prepared.source.bounds.why
        line = "the comparison in line [0-9]+ of (<lambda>|log_likelihood) .test_branches_found.py:"
        assert not prepared.proved and re.search(line, why), why
    else:  # it was seen to have a kink
        assert name in ("max", "min", "abs") and not prepared.proved


@pytest.mark.slow
@pytest.mark.plain
def test_where_it_does_not_change_in_the_ball_there_is_a_bound(monkeypatch):
    """And no row exceeds it, up to the distance that is told."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model, at = model_of(COMPARED[">"], level=1.0)
    control = sm.Taylor(at, outliers=0.0, order=3)
    prepared = prepared_for(model, control)
    assert prepared.proved
    reach, metric = prepared.sums.raced.limits[0, 7], prepared.sums.metric[0]
    rng, inverse = np.random.default_rng(3), np.linalg.inv(metric)
    ways = rng.standard_normal((4, 3))
    ways *= 0.999 * reach / np.linalg.norm(ways, axis=1, keepdims=True)
    points = np.concatenate([at["beta"][None], at["beta"] + ways @ inverse.T])
    bench = Bench(model, control, points)
    bounds = prepared.source.bounds.of(model.ints, at["beta"]).rows.astype(float)
    off = [np.abs(bench.residuals(arm) - bench.residuals(0)) for arm in range(1, len(points))]
    # The residual at a distance a is bounded by that at 1, times a^4 / 24.
    most = bounds * reach**4 / 24.0
    share = np.max(off / (most + 1e-12 * np.abs(bench.values(0)).max()))
    assert 0.01 < share < 1.0
    assert np.max(off / (0.005 * most + 1e-12)) > 1.0  # a mutant


def flat(state, data, n):
    """A parabola, whose bounds are 0; beyond 4 something else."""
    e = data.x[n] @ state.beta
    r = data.y[n] - e
    return -4.0 * abs(r) if e > 4.0 else r * (-r)


@pytest.mark.slow
def test_bounds_of_nothing_say_nothing_beyond_their_distance():
    """All rows are read there: decisions are those of Exact."""
    x = np.clip(DATA, -1.2, 1.2)
    y = x @ BETA + 0.3 * np.random.default_rng(1).standard_normal(SIZE)
    model = sm.Model(flat, {"x": x, "y": y}, {"beta": BETA})
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, outliers=0.0)
    assert prepared_for(model, control).proved
    near = walker(model, sm.Metropolis("beta", 1e-3, control=control, adapt=False), seed=2)
    found = tally(near, near.advance(50).words, "beta")
    assert found["pulls"] == 0 and found["decisions"] == 50
    drawn = []
    for selector, given in ((sm.Thinned(), control), (sm.Exact(), None)):
        kernel = sm.Metropolis("beta", 1e-2, selector=selector, control=given, adapt=False)
        far = walker(model, kernel, seed=2)
        far.floats[:] = [8.0, 0.0, 0.0]
        chunk = far.advance(50)
        found = tally(far, chunk.words, "beta")
        assert far.error is None and found["exact"] == found["decisions"] == 50
        drawn.append(chunk.floats.copy())
    assert np.array_equal(*drawn) and np.ptp(drawn[0], axis=0).min() > 0.0


def eccentric(state, data, n):
    """Kepler's equation by Newton's method, until it does not move."""
    mean = data.y[n] - data.x[n] @ state.beta
    angle = mean
    while True:
        step = (angle - 0.3 * np.sin(angle) - mean) / (1.0 - 0.3 * np.cos(angle))
        angle = angle - step
        if abs(step) < 1e-12:
            break
    return -0.5 * angle * angle


@pytest.mark.slow
@pytest.mark.plain
def test_a_loop_that_waits_for_a_comparison_ends():
    rows = slice(0, 40)
    data = {"x": DATA[rows], "y": (DATA @ BETA)[rows] + 0.1}
    model = sm.Model(eccentric, data, {"beta": BETA})
    prepared = prepared_for(model, sm.Taylor({"beta": BETA}, order=3, outliers=0.0))
    assert not prepared.proved


# ------------------------------------------------------------ numbers that are the same everywhere
def empty_sum(state, data, n):
    e = 0.0
    for j in range(data.m[n]):
        e += data.x[n, j] * state.beta[j]
    return -sm.softplus(1.5 * state.beta[0]) if e <= 0.0 else 0.1 * state.beta[0]


def empty_mean(state, data, n):
    e = 0.0
    for j in range(data.m[n]):
        e += data.x[n, j] * state.beta[j]
    none = e / max(data.m[n], 1) == 0.0
    return -sm.softplus(1.5 * state.beta[0]) if none else 0.1 * state.beta[0]


def empty_product(state, data, n):
    s = 1.0
    for j in range(data.m[n]):
        s *= sm.exp(state.beta[j])
    return -sm.softplus(1.5 * state.beta[0]) if np.sqrt(s) >= 1.0 else 0.1 * state.beta[0]


def empty_logarithm(state, data, n):
    s = 0.0
    for j in range(data.m[n]):
        s += state.beta[j]
    return -sm.softplus(1.5 * state.beta[0]) if np.log(s) < 0.0 else 0.1 * state.beta[0]


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore:empty_")
@pytest.mark.parametrize("likelihood", [empty_sum, empty_mean, empty_product, empty_logarithm])
def test_what_a_row_adds_up_to_without_terms_is_compared_as_it_is(likelihood):
    """Rows without terms bend, others do not; a bound of the others' branch would be 0.

    What is known to rounding only, and so not decided, leaves no bound.
    """
    data = {"x": np.ones((4, 2)), "m": np.array([0, 2, 0, 2])}
    model = sm.Model(likelihood, data, {"beta": np.array([2.0, 2.0])})
    scale, radius = 0.05, 2.0
    own = row_bounds.RowBounds(
        model, bounds_found.on_words, model.ints, model.floats, scale * np.eye(2), 3, 1
    )
    t = 1.5 * (2.0 + scale * np.linspace(-radius, radius, 401))
    p = 1.0 / (1.0 + np.exp(-t))
    v = p * (1.0 - p)
    true = np.abs(v * (1.0 - 6.0 * v)).max() * (1.5 * scale) ** 4
    for row in (0, 2):
        with np.errstate(all="ignore"):
            bound = own.bounds(row, np.ones(1), radius)[0, 0]
        if likelihood in (empty_sum, empty_mean) or bound < np.inf:
            assert true <= bound < 1.5 * true


def far_apart(state, data, n):
    """Saturated in one predictor, whose slope may be long; bent in the other."""
    e = 1e30 + data.x[n] * state.beta[0]
    return sm.log_sigmoid(e) - sm.softplus(state.beta[0] + state.beta[1])


@pytest.mark.plain
@pytest.mark.parametrize("long", [1.0, 1e6, 1e12, 1e15, 1e18])
def test_a_predictor_that_is_short_beside_another_is_not_forgotten(long):
    model = sm.Model(far_apart, {"x": np.full(2, long)}, {"beta": np.zeros(2)})
    own = row_bounds.RowBounds(
        model, bounds_found.on_words, model.ints, model.floats, np.eye(2), 3, 2
    )
    with np.errstate(all="ignore"):
        bound = own.bounds(0, np.ones(2), 0.5)[0]
    assert np.all(bound >= 0.125 * 4.0)  # of the fourth derivative of softplus, at 0
    assert np.all(bound < np.inf) == (long <= 1e12)


@pytest.mark.plain
def test_what_is_raised_leaves_no_bound(monkeypatch):
    """Where values are known between two ends only: the run goes on without bounds."""

    def raising(*given):
        raise ValueError("a scale must be positive")

    model, at = model_of(COMPARED[">"], level=1.0)
    monkeypatch.setattr(row_bounds, "bound_rows", raising)
    prepared = prepared_for(model, sm.Taylor(at, outliers=0.0, order=3))
    assert prepared.way[0] == "found predictors" and not prepared.proved
    told = "at datum 0.* log_likelihood raises ValueError: a scale must be positive, up to"
    assert re.search(told, prepared.source.bounds.why)


def catching(a):
    try:
        if a > 0.0:
            return 0.01
    except Exception:
        return 0.0
    return 0.0


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_what_catches_exceptions_has_none(level):
    """It would catch that a comparison is not decided."""
    model, at = model_of(catching, level)
    prepared = prepared_for(model, sm.Taylor(at, outliers=0.0, order=3))
    assert prepared.way[0] == "found predictors" and not prepared.proved
    assert prepared.source.bounds.why == "log_likelihood catches exceptions"


# ------------------------------------------------------------ pairs of states, two predictors
def skew(state, data, n):
    """Bent by a b^power, where a and b are the two predictors."""
    a = state.beta[0] * data.x[n]
    b = state.beta[1] * data.x[n] + state.beta[2] * data.z[n]
    bend = b * b if data.power == 2 else b * b * b
    return -0.5 * (a * a + b * b) + 0.05 * a * bend


@pytest.mark.slow_for("2")
@pytest.mark.parametrize("order", [2, 3])
def test_pairs_of_states_with_two_predictors(order, monkeypatch):
    """A move along a, where b stands far off: its angle in the parameters tells nothing."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    z = np.where(np.arange(100) < 4, [0.01, -0.01] * 50, 0.0)
    data = {"x": np.ones(100), "z": z, "power": order}
    model = sm.Model(skew, data, {"beta": np.zeros(3)})
    control = sm.Taylor({"beta": np.zeros(3)}, order=order, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.proved and prepared.sums.whole.limits[0, 8] == 1.0
    points = np.array([[0.0, 0.25, 0.0], [0.01, 0.25, 0.0], [0.1, 0.25, 0.5], [-0.2, 0.1, 0.0]])
    found = ratios(model, control, points)
    assert 0.5 < found.max() <= 1.0
    for part in (prepared.sums.raced, prepared.sums.whole):  # a mutant: as with one predictor
        part.limits[0, 8] = 0.0
    assert ratios(model, control, points).max() > 1.0
