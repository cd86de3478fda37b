"""Bounds of plain likelihoods by intervals: every row's, at many points, and what has none."""

import math
import pickle
from itertools import combinations_with_replacement as multisets

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.found import bounds_found, derivatives_found, row_bounds
from subsample_mcmc.approx.taylor.found.derivatives_found import rows_of
from tests.helpers.marks import slow_but
from tests.helpers.models import tally, walker
from tests.helpers.plain_families import (
    gaussian_scale,
    linear,
    logistic_by_hand,
    negative_binomial,
    poisson,
    student_t,
    student_t_scale,
)
from tests.helpers.tall import Bench

SIZE, D = 1500, 3


@pytest.fixture(autouse=True)
def predictors_are_looked_for(monkeypatch):
    """Also in few data."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)


# ------------------------------------------------------------------------------------- the models
def logistic(state, data, n):
    e = linear(state, data, n)
    return data.y[n] * e - sm.softplus(e)


def branching(state, data, n):
    e = data.x[n] @ state.beta
    return sm.log_sigmoid(e) if data.y[n] > 0.5 else sm.log_sigmoid(-e)


def weibull(state, data, n):
    """Times y, censored where late."""
    shape = sm.exp(state.log_shape[0])
    z = shape * (sm.log(data.y[n]) - linear(state, data, n))
    return (0.0 if data.late[n] else state.log_shape[0] + z) - sm.exp(z)


def zero_inflated(state, data, n):
    e, z = linear(state, data, n), state.zeros[0]
    if data.y[n] == 0:
        return sm.logsumexp(sm.log_sigmoid(z), sm.log_sigmoid(-z) - sm.exp(e))
    return sm.log_sigmoid(-z) + data.y[n] * e - sm.exp(e)


def dispersed(state, data, n):
    """Negative binomial with a free dispersion."""
    e, r = linear(state, data, n), sm.exp(state.log_r[0])
    y = data.y[n]
    return (
        math.lgamma(y + r) - math.lgamma(r) + r * sm.log(r / (r + sm.exp(e)))
        + y * (e - sm.log(r + sm.exp(e)))
    )  # fmt: skip


def gamma_shape(state, data, n):
    """Gamma, of a shape that is affine: one lgamma, whose intervals are as tight as others'."""
    shape = 6.0 + linear(state, data, n)
    return (shape - 1.0) * sm.log(data.y[n]) - math.lgamma(shape) - data.y[n]


def power_law(state, data, n):
    return -((1.0 + (data.y[n] - linear(state, data, n)) ** 2) ** 0.7)


def wave(state, data, n):
    return math.cos(0.3 * linear(state, data, n)) * data.y[n]


def probit(state, data, n):
    return sm.log_normal_cdf(linear(state, data, n) * (2.0 * data.y[n] - 1.0))


def probit_by_probability(state, data, n):
    p = 0.01 + 0.98 * sm.normal_cdf(linear(state, data, n))
    return sm.log(p) if data.y[n] > 0.5 else sm.log(1.0 - p)


def tobit(state, data, n):
    """Normal, and censored where late."""
    z = (data.y[n] - linear(state, data, n)) * sm.exp(-state.log_sigma[0])
    return sm.log_normal_cdf(-z) if data.late[n] else -0.5 * z * z - state.log_sigma[0]


def mixture(state, data, n):
    """Of a regression and a level, in unknown shares."""
    z, one, two = state.share[0], data.y[n] - linear(state, data, n), data.y[n] - state.level[0]
    return sm.logsumexp(
        sm.log_sigmoid(z) - 0.5 * one * one, sm.log_sigmoid(-z) - 0.25 * two * two - 0.3466
    )


def student_t_of_all(state, data, n):
    """Location, scale and degrees of freedom."""
    nu = 2.0 + sm.exp(state.log_nu[0])
    z = (data.y[n] - linear(state, data, n)) * sm.exp(-state.log_sigma[0])
    return (
        math.lgamma(0.5 * nu + 0.5) - math.lgamma(0.5 * nu) - 0.5 * sm.log(nu)
        - state.log_sigma[0] - 0.5 * (nu + 1.0) * sm.log1p(z * z / nu)
    )  # fmt: skip


def secant(state, data, n):
    """A hyperbolic secant around it."""
    return -sm.log(math.cosh(data.y[n] - linear(state, data, n)))


def squared(state, data, n):
    z = data.y[n] - linear(state, data, n)
    return -2.5 * sm.log1p(z**2 / 4.0)


def times_itself(z):
    return z * z


def multiplied(state, data, n):
    """The same, by a helper."""
    return -2.5 * sm.log1p(times_itself(data.y[n] - linear(state, data, n)) / 4.0)


def squared_by_numpy(state, data, n):
    return -2.5 * sm.log1p(np.square(data.y[n] - linear(state, data, n)) / 4.0)


def twice(state, data, n):
    """Of which nobody knows that it is a square."""
    z, same = data.y[n] - linear(state, data, n), data.y[n] - linear(state, data, n)
    return -2.5 * sm.log1p(z * same / 4.0)


def fourth(state, data, n):
    z = data.y[n] - linear(state, data, n)
    return -0.5 * sm.log1p(z**4)


MODELS = {
    "logistic": (logistic, {}, "coin"), "branching": (branching, {}, "coin"),
    "poisson": (poisson, {}, "count"), "student t": (student_t, {}, "real"),
    "student t scale": (student_t_scale, {"log_sigma": 0.1}, "real"),
    "gaussian scale": (gaussian_scale, {"log_sigma": 0.1}, "real"),
    "negative binomial": (negative_binomial, {}, "count"),
    "weibull": (weibull, {"log_shape": 0.2}, "time"),
    "zero inflated": (zero_inflated, {"zeros": -1.0}, "count"),
    "dispersed": (dispersed, {"log_r": 0.5}, "spread"), "power": (power_law, {}, "real"),
    "gamma shape": (gamma_shape, {}, "shape"),
    "wave": (wave, {}, "count"), "probit": (probit, {}, "coin"),
    "probit by probability": (probit_by_probability, {}, "coin"), "secant": (secant, {}, "real"),
    "tobit": (tobit, {"log_sigma": 0.1}, "real"),
    "mixture": (mixture, {"share": 1.5, "level": 4.0}, "two"),
    "student t of all": (student_t_of_all, {"log_sigma": 0.1, "log_nu": 0.7}, "real"),
    "squared": (squared, {}, "real"), "multiplied": (multiplied, {}, "real"),
    "fourth": (fourth, {}, "real"), "twice": (twice, {}, "real"),
    "squared by numpy": (squared_by_numpy, {}, "real"),
}  # fmt: skip


def made(name, seed=0, size=SIZE, d=D):
    likelihood, more, kind = MODELS[name]
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, d - 1))])
    beta = np.linspace(0.4, -0.4, d)
    e = x @ beta
    y = {
        "coin": lambda: (rng.random(size) < 1.0 / (1.0 + np.exp(-e))) * 1.0,
        "spread": lambda: rng.poisson(np.exp(e) * rng.gamma(1.5, 1.0 / 1.5, size)),
        "count": lambda: rng.poisson(np.exp(e)) * (rng.random(size) < 0.8),
        "real": lambda: e + rng.standard_t(4, size), "shape": lambda: rng.gamma(6.0 + e),
        "two": lambda: np.where(
            rng.random(size) < 0.8, e, 4.0 + rng.standard_normal(size)
        ) + rng.standard_normal(size),
        "time": lambda: np.exp(e) * rng.weibull(1.2, size),
    }[kind]()  # fmt: skip
    data = {"x": x, "y": np.asarray(y, dtype=float), "late": y > np.quantile(y, 0.8), "sigma": 1.3,
            "nu": 4.0, "dispersion": 3.0}  # fmt: skip
    return sm.Model(likelihood, data, {"beta": beta, **more})


WIDE = ("mixture", "student t of all")  # three predictors: posteriors of few data are wide
# Differences of lgamma, and p and its logarithm, whose intervals do not know of each other.
LOOSE = {"dispersed": 1e-6, "student t of all": 1e-6, "probit by probability": 0.02}


def bounded(model, order=3, **options):
    """(what is prepared for a control variate, it), about the posterior mode."""
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=order, outliers=0.0, **options)
    return prepared_for(model, control), control


# ---------------------------------------------------------------------- every row, at many points
@pytest.mark.slow_for("student t scale-3")
@pytest.mark.slow_for("logistic-2", "student t scale-2")
@pytest.mark.filterwarnings("ignore:student_t calls")
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", slow_but(["logistic", "student t scale"], sorted(MODELS)))
def test_no_row_exceeds_its_bound(name, order, rng, monkeypatch, capsys):
    """At random points of the ball, at its rim, and where a row's own predictors are farthest."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model = made(name)
    prepared, control = bounded(model, order)
    assert prepared.proved, prepared.source.told_bound()
    point, own = prepared.sums.points[0], prepared.source.bounds
    known = own.of(model.ints, point)
    inverse = np.linalg.inv(prepared.sums.metric[0])
    d, far = len(point), known.reach * (1.0 - 1e-9)
    ways = rng.standard_normal((24, d))
    x = np.pad(model.data.x, ((0, 0), (0, d - D)))
    ways[:12] = x[rng.integers(0, SIZE, 12)] @ inverse
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    sizes = np.concatenate([np.full(12, far), far * rng.random(12)])
    steps = np.concatenate([ways, -ways]) * np.tile(sizes, 2)[:, None]
    bench = Bench(model, control, np.concatenate([point[None], point + steps @ inverse.T]))
    times, looked, share = {2: 6.0, 3: 24.0}[order], 0, 0.0
    at_home = bench.residuals(0)
    rounding = 1e-12 * (1.0 + np.abs(bench.values(0)).max())
    for k, size in enumerate(np.tile(sizes, 2)):
        left = np.abs(bench.residuals(1 + k) - at_home)
        most = known.rows * size ** (order + 1) / times
        assert np.all(left <= most + rounding), (name, k)
        looked += len(left)
        share = max(share, float(np.max(left / (most + rounding))))
    with capsys.disabled():
        print(f"\n{name}, order {order}: {looked} pairs, the tightest at {share:.2f} of its bound")
    assert looked >= 50_000 and share > LOOSE.get(name, 0.1)


@pytest.mark.slow_for("mixture")
@pytest.mark.filterwarnings("ignore:student_t calls")
@pytest.mark.parametrize(
    "name", slow_but(["logistic", "student t scale", "mixture"], sorted(MODELS))
)
def test_third_derivatives_lie_within_at_every_point(name, rng, monkeypatch):
    """Along directions at random, and along each row's own: jets at points of the ball."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model = made(name, size=2000 if name in WIDE else 200)
    prepared, _ = bounded(model, 2)
    point = prepared.sums.points[0]
    known = prepared.source.bounds.of(model.ints, point)
    inverse = np.linalg.inv(prepared.sums.metric[0])
    tight = np.zeros(model.size)
    for _ in range(12):
        step, way = rng.standard_normal((2, len(point)))
        step *= known.reach * rng.random() / np.linalg.norm(step)
        way /= np.linalg.norm(way)
        here = rows_of(model, model.ints, point + inverse @ step, np.ones(len(point)), model.size)
        every = np.ones(model.size)
        here.find(0, every)
        for direction in (way, step / np.linalg.norm(step)):
            seen = here.derive(0, every, np.zeros((0, 1)), inverse @ direction)[:, 0, 3]
            third = 6.0 * np.abs(seen)
            assert np.all(third <= known.rows * (1.0 + 1e-12))
            tight = np.maximum(tight, third / np.maximum(known.rows, 1e-300))
    assert tight.max() > (0.0 if name in LOOSE else 0.01)  # of so few data bounds are wide


def test_narrowed_bounds_are_caught(monkeypatch, rng):
    """A mutant: all that lies in the ball is taken to be at its centre."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    monkeypatch.setattr(bounds_found, "FARTHER", (8.0,))
    whole = row_bounds.RowBounds.bounds

    def at_the_centre(self, first, weights, radius, fewer=False):
        return whole(self, first, weights, 0.0, fewer)

    monkeypatch.setattr(row_bounds.RowBounds, "bounds", at_the_centre)
    model = made("poisson")
    prepared, control = bounded(model, 2)
    point, inverse = prepared.sums.points[0], np.linalg.inv(prepared.sums.metric[0])
    known = prepared.source.bounds.of(model.ints, point)
    step = model.data.x[3] @ inverse
    step *= known.reach / np.linalg.norm(step)
    bench = Bench(model, control, np.array([point, point + inverse @ step]))
    left = np.abs(bench.residuals(1) - bench.residuals(0))
    assert np.any(left > known.rows * known.reach**3 / 6.0 + 1e-9)


@pytest.mark.plain
@pytest.mark.parametrize("counts", [row_bounds.COUNTS, row_bounds.FEWER])
@pytest.mark.parametrize("degree", [3, 4])
def test_of_three_predictors_a_grid_of_directions_is_enough(degree, counts, rng):
    """Random forms, and powers of linear ones that are largest between directions."""
    every = rng.standard_normal((50_000, 3))
    every /= np.linalg.norm(every, axis=1)[:, None]
    grid, worst = row_bounds.directions(3, counts), 0.0
    powers = np.array(list(multisets(range(3), degree)))
    forms = rng.standard_normal((len(powers), 200))
    everywhere, seen = (np.abs(np.prod(a[:, powers], axis=2) @ forms) for a in (every, grid))
    worst = max((everywhere.max(axis=0) / seen.max(axis=0)).max(),
                (1.0 / np.abs(every[:2000] @ grid.T).max(axis=1) ** degree).max())  # fmt: skip
    assert (
        1.1 < worst <= row_bounds.loss(3, degree, counts)
    )  # without the loss it would be exceeded
    circle = 1.0 / np.cos(degree * np.pi / (2.0 * counts[3]))
    assert row_bounds.loss(3, degree, counts) == pytest.approx(circle**2)  # two circles, by proof


def test_bounds_are_those_by_hand(capsys):
    """Of a logistic regression: between the truth at the reference and the family's constant."""
    model = made("logistic", size=20_000, d=6)
    prepared, _ = bounded(model)
    point, inverse = prepared.sums.points[0], np.linalg.inv(prepared.sums.metric[0])
    x = model.data.x
    p = 1.0 / (1.0 + np.exp(-x @ point))
    v, length = p * (1.0 - p), np.linalg.norm(x @ inverse, axis=1)
    truth, rows = np.abs(v * (1.0 - 6.0 * v)) * length**4, prepared.source.row_bounds(
        model.ints, point, None, inverse
    )  # fmt: skip
    assert np.all(rows >= truth * (1.0 - 1e-9)) and np.all(rows <= 0.1251 * length**4)
    with capsys.disabled():
        print(f"\nlogistic: bounds are {rows.sum() / truth.sum():.3f} of the truth at the mode")
    assert rows.sum() < 1.6 * truth.sum()


# ------------------------------------------------------------------------- what has none, and why
@pytest.mark.plain
@pytest.mark.parametrize("rank", [-1, row_bounds.MOST + 1])
def test_rows_whose_slopes_are_not_known_have_none(rank, monkeypatch):
    """-1: a tape was written differently for some coordinates."""
    model = made("logistic", size=8)
    own = row_bounds.RowBounds(model, bounds_found.on_words, model.ints, model.floats,
                               np.eye(D), 2, 8)  # fmt: skip
    found = own.bounds(0, np.ones(8), 1.0)
    assert np.all(np.isfinite(found[0]))
    monkeypatch.setattr(own.slopes, "find", lambda first, weights: np.full(8, rank))
    assert np.all(own.bounds(0, np.ones(8), 1.0)[0] == np.inf)


@pytest.mark.slow_for("squared")
@pytest.mark.parametrize("name", ["squared", "multiplied", "squared by numpy", "fourth"])
def test_squares_are_known_not_to_be_negative(name, rng, monkeypatch):
    """Of rows that reach across 0, too: few data have a wide ball."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    monkeypatch.setattr(bounds_found, "FARTHER", (4.0,))
    product, _ = bounded(made("twice", size=25))
    assert not product.proved
    told = "(a square is known as one where it is written z ** 2, or z * z of one name)"
    assert told in product.source.told_bound()
    model = made(name, size=400 if name == "fourth" else 25)
    prepared, control = bounded(model)
    assert prepared.proved, prepared.source.told_bound()
    point = prepared.sums.points[0]
    known = prepared.source.bounds.of(model.ints, point)
    ways = rng.standard_normal((400, D))
    ways *= known.reach * (rng.random(400) ** (1 / 3) / np.linalg.norm(ways, axis=1))[:, None]
    across, most = 0, known.rows * np.linalg.norm(ways, axis=1)[:, None] ** 4 / 24.0
    inverse = np.linalg.inv(prepared.sums.metric[0])
    bench = Bench(model, control, np.concatenate([point[None], point + ways @ inverse.T]))
    y, x, home = np.asarray(model.data.y), np.asarray(model.data.x), bench.residuals(0)
    for k, way in enumerate(ways):
        assert np.all(np.abs(bench.residuals(1 + k) - home) <= most[k] + 1e-11), (name, k)
        ends = [y - x @ (point + sign * inverse @ way) for sign in (-1.0, 1.0)]
        across += int(np.sum(ends[0] * ends[1] < 0.0))
    assert across > 100


def test_bounds_of_no_use_far_out_leave_those_nearer_by():
    """At four standard deviations beyond they may add up to 10^7 nats, at one to few."""
    prepared, _ = bounded(made("student t scale", size=400))
    assert prepared.proved
    known = prepared.source.bounds.of(prepared.model.ints, prepared.sums.points[0])
    assert known.reach < 2.0 + 3.9


@pytest.mark.slow
def test_what_has_no_bound_is_told():
    by_hand = made("logistic")
    model = sm.Model(logistic_by_hand, by_hand.data._asdict(), {"beta": np.zeros(D)})
    prepared, _ = bounded(model)
    told = prepared.source.told_bound()
    line = "of logistic_by_hand (plain_families.py: return data.y[n] * e - max(e, 0.0) - "
    assert not prepared.proved and "at datum" in told and line in told
    assert "is not the same everywhere up to 2.7 from the reference" in told
    assert prepared.found == "found predictors of order 3"

    def angular(state, data, n):
        return -(math.atan(linear(state, data, n) - data.y[n]) ** 2)

    prepared, _ = bounded(sm.Model(angular, by_hand.data._asdict(), {"beta": np.zeros(D)}))
    assert not prepared.proved
    assert "does not compile for intervals" in prepared.source.told_bound()
    few, _ = bounded(made("student t scale", size=30))
    assert not few.proved and few.source.told_bound().startswith("none, as ")
    with pytest.raises(ValueError, match="bounds by intervals, which log_likelihood has none of"):
        _ = few.row_weights
    assert "bounds of it: none, as at datum" in str(sm.derivatives(model))
    assert "bounds of it: by intervals, up to 5.7 from" in str(sm.derivatives(by_hand))


def long_story(state, data, n):
    """More slopes than a tape holds."""
    e = linear(state, data, n)
    total = -0.5 * (data.y[n] - e) ** 2
    for j in range(40):
        total -= 0.01 * sm.exp(0.01 * j * e)
    return total


def four_of(state, data, n):
    e = linear(state, data, n)
    rest = sm.exp(state.beta[0]) + sm.exp(state.beta[1] * 0.1) + sm.exp(state.beta[2] * 0.1)
    return -0.5 * (data.y[n] - e) ** 2 - rest


@pytest.mark.slow
def test_what_a_tape_does_not_hold_has_no_bound():
    """Its sums are compared; what was not written might matter elsewhere in the ball."""
    given = made("logistic", d=4).data._asdict()
    prepared, _ = bounded(sm.Model(long_story, given, {"beta": np.full(4, 0.1)}))
    assert prepared.way[0] == "found predictors" and not prepared.proved
    given = made("logistic", d=5).data._asdict()
    prepared, _ = bounded(sm.Model(four_of, given, {"beta": np.full(5, 0.1)}))
    assert prepared.way[0] == "found predictors"
    assert "through 4 predictors: there are bounds for at most 3" in prepared.source.told_bound()


# -------------------------------------------------------------------------------------- decisions
@pytest.mark.slow
def test_thinned_decides_by_default_and_reads_all_beyond():
    model = made("logistic", size=4000)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit))
    assert "Thinned()" in kernel.describe(model) and "guarantee: exact" in kernel.describe(model)
    one = walker(model, kernel, seed=2)
    words = one.advance(800).words
    told = tally(one, words, "beta")
    assert one.error is None and told["pulls"] < 0.02 * told["everything"]
    far = walker(model, sm.Metropolis("beta", 1e-3, control=sm.Taylor(fit), adapt=False), seed=2)
    beyond = prepared_for(model, sm.Taylor(fit)).sums.whole.limits[0, [7, 9]].max()
    far.floats[:] = fit.mean + 2.0 * beyond * np.sqrt(np.diag(fit.covariance))
    told = tally(far, far.advance(20).words, "beta")
    assert far.error is None and told["exact"] == told["decisions"]


@pytest.mark.slow_for("weibull")
@pytest.mark.filterwarnings("ignore:student_t calls")
@pytest.mark.parametrize("name", ["student t scale", "weibull", "poisson"])
def test_rows_that_are_drawn_keep_within_their_bounds(name, monkeypatch):
    """Of pairs of states, near and far: each row that a decision reads is compared with its own."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model = made(name, size=900)
    fit = sm.laplace(model, progress=False)
    step = 1.5 * float(np.sqrt(np.diag(fit.covariance).min()))

    def walked(narrowed):
        control = sm.Taylor(fit, outliers=0.0)
        own = prepared_for(model, control)
        assert own.row_weights.units.all()  # made of what is known before it is narrowed
        own.sums.raced.limits[:, :2] *= narrowed
        parts = [sm.Metropolis(block, step, selector=sm.Thinned(most=1e9), control=control,
                               adapt=False) for block in model.names]  # fmt: skip
        kernel = parts[0] if len(parts) == 1 else parts[0] >> parts[1]
        one = walker(model, kernel, seed=5)
        one.floats[:] = fit.mean
        words = one.advance(1500).words
        return one.error, tally(one, words, "beta")["pulls"]

    error, pulls = walked(1.0)
    assert error is None and pulls > 500
    assert "exceeds the bound that was found by intervals" in str(walked(0.01)[0])  # a mutant


@pytest.mark.slow
def test_exact_decisions_are_the_same():
    model = made("branching", size=3000)
    fit = sm.laplace(model, progress=False)
    draws = []
    for control in (None, sm.Taylor(fit)):
        kernel = sm.Metropolis("beta", 0.03, selector=sm.Exact(), control=control, adapt=False)
        one = walker(model, kernel, seed=3)
        draws.append(one.advance(300).floats)
        assert one.error is None
    assert np.array_equal(*draws)


def test_what_is_prepared_can_be_sent():
    prepared, _ = bounded(made("weibull"))
    again = pickle.loads(pickle.dumps(prepared))
    assert again.proved and again.found == prepared.found
    ours, theirs = (p.row_weights for p in (prepared, again))
    assert np.array_equal(ours.bounds, theirs.bounds)


@pytest.mark.slow
@pytest.mark.plain
def test_plain_python_has_the_same_bounds(monkeypatch):
    """To rounding: of the same rows, by classes in the place of types."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    for name, wanted in WANTED.items():
        prepared, _ = bounded(made(name, size=60))
        assert prepared.proved
        rows = prepared.source.row_bounds(prepared.model.ints, prepared.sums.points[0], None, None)
        np.testing.assert_allclose(rows[:3], wanted, rtol=1e-4)


WANTED = {
    "logistic": [0.00071018, 0.00124205, 0.00109993],
    "branching": [0.00071018, 0.00124205, 0.00109993],
    "gamma shape": [0.00042153, 0.00094941, 0.00077071],
    "student t scale": [7669.52197266, 95402.7734375, 17154.4375],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "student t scale"])
def test_chains_have_the_posterior_of_exact_ones(name):
    """Means and squares of all coefficients, z of batch means; 1e-6 that one is above 5.5."""
    model = made(name, size=4000, seed=9)
    fit, found = sm.laplace(model, progress=False), []
    for selector, control in ((sm.Exact(), None), (sm.Thinned(), sm.Taylor(fit))):
        step = 2.0 * float(np.sqrt(np.diag(fit.covariance).min()))
        kernels = [
            sm.Metropolis(block, step, control=control, selector=selector, adapt=False)
            for block in model.names
        ]
        kernel = kernels[0] if len(kernels) == 1 else kernels[0] >> kernels[1]
        trace = sm.sample(model, kernel, draws=40_000, warmup=500, chains=2,
                          seed=1 if control is None else 2, progress=False)  # fmt: skip
        z = np.concatenate(
            [np.reshape(trace.draws[b], (2, 40_000, -1)) for b in model.names], axis=-1
        )
        z = (z - fit.mean) / np.sqrt(np.diag(fit.covariance))
        count = z.shape[-1]
        batches = np.concatenate([z, z**2], axis=-1).reshape(2 * 40, -1, 2 * count).mean(axis=1)
        found.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / len(batches)))
    apart = np.abs(found[0][0] - found[1][0]) / np.sqrt(found[0][1] + found[1][1])
    assert apart.max() < 5.5
