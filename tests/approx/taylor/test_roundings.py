"""What rounding does to known sums is less than is allowed for it, and not by much: mpmath."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.passes.roundings import OWN, UNIT
from tests.helpers.tall import Bench

glm = sm.models.glm
DIGITS = 60


def shares(e):
    return 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))


def of_shares(first, scale, e):
    p, q = shares(e)
    return first(p, q), -scale * p * q, -scale * p * q * (q - p)


def of_tails(y, e, sigma, nu):
    k2 = 1 / (mpmath.mpf(sigma) ** 2 * mpmath.mpf(nu))
    z, m = y - e, (mpmath.mpf(nu) + 1) / 2
    b = 1 + k2 * z * z  # log b, and its derivatives by z, of which odd ones change sign
    one = 2 * k2 * z / b
    two = 2 * k2 / b - one**2
    three = -12 * k2**2 * z / b**2 + 16 * k2**3 * z**3 / b**3
    return m * one, -m * two, m * three


EXACT = {
    "gaussian": lambda y, e, _: ((y - e) / mpmath.mpf(0.7) ** 2, -1 / mpmath.mpf(0.7) ** 2, 0),
    "student_t": lambda y, e, _: of_tails(y, e, 0.7, 3.3),
    "logistic": lambda y, e, _: of_shares(lambda p, q: q if y == 1 else -p, 1, e),
    "binomial": lambda y, e, m: of_shares(lambda p, q: y * q - (m - y) * p, m, e),
    "poisson": lambda y, e, _: (y - mpmath.exp(e), -mpmath.exp(e), -mpmath.exp(e)),
    "negative_binomial": lambda y, e, _: of_shares(
        lambda p, q: y * q - 2.5 * p, y + 2.5, e - mpmath.mpf(float(np.log(2.5)))
    ),
}
MORE = {
    "gaussian": {"sigma": 0.7}, "student_t": {"sigma": 0.7, "nu": 3.3},
    "negative_binomial": {"dispersion": 2.5},
}  # fmt: skip


def responses(name, rng, size):
    if name in ("gaussian", "student_t"):
        return 3.0 * rng.standard_normal(size)
    return rng.integers(0, 2 if name == "logistic" else 9, size).astype(float)


def model_of(name, x, y, **more):
    given = {"trials": np.full(len(y), 9.0)} if name == "binomial" else {}
    return getattr(glm, name)(x, y, **MORE.get(name, {}), **given, **more)


@pytest.mark.parametrize("name", EXACT)
def test_derivatives_round_by_their_sizes(name, rng):
    """At most 64 units of each; a bound a hundred times smaller would be wrong."""
    model = model_of(name, np.ones((600, 1)), responses(name, rng, 600))
    given, worst = model.predictors, np.zeros(3)
    with mpmath.workdps(DIGITS):
        for n in range(600):
            e = float(rng.standard_normal() * 10.0 ** rng.uniform(-3.0, 1.3))
            found, sizes = (f(e, model.data, n) for f in (given.derivatives, given.sizes))
            wanted = EXACT[name](mpmath.mpf(float(model.data.y[n])), mpmath.mpf(e), 9)
            for k in range(3):
                off = abs(mpmath.mpf(float(found[k])) - wanted[k])
                assert off <= OWN * UNIT * sizes[k], (e, k)
                if sizes[k] > 0.0:
                    worst[k] = max(worst[k], float(off / (UNIT * sizes[k])))
    assert worst[:2].min() > 0.01 * OWN


def known(model, order, point, outliers=0):
    made = prepared_for(model, sm.Taylor({"beta": point}, order=order, outliers=outliers))
    return made.sums


def computed(sums, d):
    """The polynomial, as it is added up."""
    whole, total = sums.whole, 0.0
    for i in range(len(d)):
        total += d[i] * (whole.s1[0, i] + 0.5 * (whole.s2[0, i] @ d))
    if whole.cubes.size:
        of = [d[i] * d[j] * d[k] for i in range(len(d)) for j in range(i + 1) for k in range(j + 1)]
        total += float(whole.cubes[0] @ np.array(of)) / 6.0
    return total


def exact(name, x, y, order, point, beta, offset=0.0):
    """What it would be without rounding."""
    total, step = (
        mpmath.mpf(0),
        [mpmath.mpf(b) - mpmath.mpf(p) for b, p in zip(beta, point, strict=True)],
    )
    for row, answer in zip(x, y, strict=True):
        e = mpmath.fsum(
            mpmath.mpf(float(a)) * mpmath.mpf(p) for a, p in zip(row, point, strict=True)
        )
        e += mpmath.mpf(offset)
        t = mpmath.fsum(mpmath.mpf(float(a)) * s for a, s in zip(row, step, strict=True))
        one, two, three = EXACT[name](mpmath.mpf(float(answer)), e, 9)
        total += one * t + two * t**2 / 2 + (three * t**3 / 6 if order > 2 else 0)
    return total


def allowed(sums, beta, point):
    """By the theorem; known sums of decisions have a little more, as they are added to offsets."""
    size = float(np.linalg.norm(sums.metric[0] @ (beta - point)))
    one, two, three = sums.whole.limits[0, 12:15]
    return size * (one + size * (0.5 * two + size * three / 6.0))


@pytest.mark.filterwarnings(
    "ignore:x.* in the mean and at most:UserWarning"
)  # which is what it is about
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", EXACT)
def test_sums_are_off_by_less_than_is_allowed(name, order, rng):
    """Of centred columns, and of one whose mean is a thousand times its spread."""
    size = 300
    y = responses(name, rng, size)
    for mean in (0.0, 1e3):
        x = np.stack([np.ones(size), mean + rng.standard_normal(size)], axis=1)
        point = np.array([0.3 - 1e-3 * mean, 1e-3 + 0.1 * (mean == 0.0)])
        sums = known(model_of(name, x, y), order, point)
        assert sums.whole.limits[0, 15] == 1.0
        for _ in range(3):
            scaled = rng.standard_normal(2) * rng.uniform(0.1, 3.0)
            beta = point + np.linalg.solve(sums.metric[0], scaled)
            with mpmath.workdps(DIGITS):
                wanted = exact(name, x, y, order, point, beta)
                off = abs(mpmath.mpf(computed(sums, beta - point)) - wanted)
            assert off <= allowed(sums, beta, point)


def worst_of(rng, rows, name, base=0.0):
    """The largest part of what is allowed by which sums of rows that are all alike are off."""
    most = 0.0
    for _ in range(rows):
        x, point = np.full((256, 1), rng.uniform(0.5, 1.0)), base + rng.uniform(1.0, 3.0, 1)
        offset, y = -base * x[0, 0] if base else 0.0, np.ones(256)
        sums = known(
            model_of(name, x, y, **({"offset": np.full(256, offset)} if base else {})), 3, point
        )
        beta = point + 0.5 / sums.metric[0, 0, 0]
        with mpmath.workdps(DIGITS):
            wanted = 256 * exact(name, x[:1], y[:1], 3, point, beta, offset)
            off = abs(mpmath.mpf(computed(sums, beta - point)) - wanted)
        most = max(most, float(off) / allowed(sums, beta, point))
    return most


@pytest.mark.parametrize(("name", "base"), [("logistic", 0.0), ("poisson", 1e6)])
def test_a_hundredth_of_it_would_be_too_little(name, base, rng):
    """Rows that are all alike round alike; base: of terms that nearly cancel in the predictor."""
    assert 0.01 < worst_of(rng, 40, name, base) <= 1.0


def test_where_it_is_proved(rng):
    """Of one predictor whose sizes are told; else 1e-13 of the largest row for each, as ever."""
    x = np.stack([np.ones(5_000), rng.standard_normal(5_000)], axis=1)
    y = (rng.random(5_000) < 0.5).astype(float)
    model, point = glm.logistic(x, y), np.array([0.0, 0.1])
    weighted = glm.logistic(x, y, weights=np.full(5_000, 2.0))
    one, two = known(model, 3, point), known(weighted, 3, point)
    np.testing.assert_allclose(
        two.whole.limits[0, 12:15] / 2.0 ** np.array([0.5, 0.0, -0.5]), one.whole.limits[0, 12:15],
        rtol=1e-9,
    )  # fmt: skip
    many = known(glm.logistic(np.tile(x, (16, 1)), np.tile(y, 16)), 3, point)
    near, far = (
        allowed(sums, point + np.linalg.solve(sums.metric[0], [2.0, 2.0]), point)
        for sums in (one, many)
    )
    assert near < 0.02 * one.whole.limits[0, 3] * 5_000
    assert far < 4.01 * near  # it grows with the root of their number
    given = model.predictors
    plain = sm.Predictors(given.eta, given.log_factor, given.derivatives, given.remainder)
    other = sm.Model(plain, {"x": x, "y": y}, {"beta": np.zeros(2)})
    assert known(other, 3, point).whole.limits[0, 12:16].tolist() == [0.0] * 4
    several = glm.softmax(x, y.astype(int) + (x[:, 1] > 0.5))
    assert known_softmax(several).whole.limits[0, 15] == 0.0


def known_softmax(model):
    return prepared_for(model, sm.Taylor({"beta": np.zeros((2, 2))}, order=2)).sums


def poisson_of(sizes):
    """A regression of one's own, which says by what its derivatives round."""
    x = np.random.default_rng(1).standard_normal((5_000, 2))
    given = glm.poisson(x, np.ones(5_000)).predictors
    told = sm.Predictors(
        given.eta, given.log_factor, given.derivatives, given.remainder, growth=1.0, sizes=sizes
    )
    return sm.Model(told, {"x": x, "y": np.ones(5_000)}, {"beta": np.zeros(2)})


def test_sizes_of_ones_own():
    """Those that are too small are refused, by the noise of derivatives."""

    def right(eta, data, n):
        mean = sm.exp(eta)
        return data.y[n] + mean, mean, mean

    def small(eta, data, n):
        return 1.0, 1e-3 * sm.exp(eta), 1.0

    def none(eta, data, n):
        return 1.0, 1.0

    point = np.array([0.2, -0.1])
    model = poisson_of(right)
    own, wanted = known(model, 3, point), known(glm.poisson(model.data.x, model.data.y), 3, point)
    np.testing.assert_allclose(
        own.whole.limits[0, 12:16], wanted.whole.limits[0, 12:16], rtol=1e-12
    )
    with pytest.raises(
        ValueError, match=r"derivative 2 is off by at most 64 x .* by .* more than its slope"
    ):
        known(poisson_of(small), 3, point)
    with pytest.raises(TypeError, match=r"sizes returned \(1.0, 1.0\) at datum 0: three numbers"):
        known(poisson_of(none), 3, point)


@pytest.mark.parametrize("name", ["gaussian", "student_t"])
def test_sizes_are_right_far_from_0(name, rng):
    """Of seconds since 1970: between two numbers next to each other slopes change, too."""
    y = 1.7e9 + rng.standard_normal(2_000)
    model = model_of(name, np.ones((2_000, 1)), y, start=[float(np.median(y))], prior_sd=2e10)
    assert known(model, 3, np.array([np.median(y)])).whole.limits[0, 15] == 1.0


@pytest.mark.parametrize("outliers", [0.0, 0.01])
def test_what_decisions_allow_for(outliers, rng):
    """Of normal data nothing is left over but rounding: of both arms, as it is compiled."""
    x = np.stack([np.ones(2_000), rng.standard_normal(2_000)], axis=1)
    model, point = glm.gaussian(x, 3.0 * rng.standard_normal(2_000), sigma=0.7), np.zeros(2)
    points = np.array([[0.1, -0.2], [-0.05, 0.3]])
    bench = Bench(model, sm.Taylor({"beta": point}, order=2, outliers=outliers), points)
    sums = bench.prepared.sums
    wanted, metric, (one, two, _) = 0.0, sums.metric[0], sums.raced.limits[0, 12:15]
    for beta in points:
        size = np.linalg.norm(metric @ (beta - point))
        wanted += size * (one + 0.5 * size * two)
        moved = sums.whole.s1[0] @ beta + 0.5 * beta @ sums.whole.s2[0] @ beta
        wanted += 1e-15 * abs(sums.whole.s0[0] + moved)
    count = len(bench.prepared.outliers)
    assert (count > 0) == (outliers > 0.0)
    wanted += 2.0 * count * sums.whole.limits[0, 3]
    np.testing.assert_allclose(bench.reach(0, 1, False), wanted, rtol=1e-6)


def test_configurations_have_constants_of_their_own(rng):
    """What two of them round by is allowed for as ever."""

    def eta(state, data, n):
        return state.beta[0] * data.x[n, 0] + 0.5 * state.k[0]

    given = glm.gaussian(np.ones((2_000, 1)), rng.standard_normal(2_000))
    state = {"k": 0, "beta": np.zeros(1)}
    told = replace(given.predictors, eta=eta, etas=None)
    model = sm.Model(told, given.data, state, support={"k": 2})
    fits = [{"beta": np.zeros(1)}] * 2
    bench = Bench(model, sm.Taylor(fits, order=2), block="k", at=np.array([0.1]))
    limits = bench.prepared.sums.raced.limits
    assert limits[:, 15].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(bench.reach(0, 1, False), 2_000 * limits[:, 3].max(), rtol=1e-9)


def test_of_several_predictors_nothing_is_proved(rng):
    """Whatever sizes say."""
    given = glm.softmax(rng.standard_normal((2_000, 2)), rng.integers(0, 3, 2_000))
    told = replace(given.predictors, sizes=lambda eta, data, n: (1.0, 1.0, 1.0))
    model = sm.Model(told, given.data, {"beta": np.zeros((2, 2))})
    assert known_softmax(model).whole.limits[0, 12:16].tolist() == [0.0] * 4
