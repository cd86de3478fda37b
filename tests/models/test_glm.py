"""GLMs: right densities, derivatives and bounds, data that are not copied, and what is refused."""

import math
import pickle
from itertools import combinations_with_replacement as multisets
from itertools import product
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from scipy import optimize, special, stats

import subsample_mcmc as sm
from subsample_mcmc.models import glm
from subsample_mcmc.models.glm import columns, families
from subsample_mcmc.models.glm.scores import FOURTH, THIRD, derivatives_of
from subsample_mcmc.numerics.jets import intervals
from subsample_mcmc.numerics.jit import FLAGS, jit

SIZE, D = 40, 3
NU, SIGMA, DISPERSION, SHAPE = 3.0, 1.3, 2.5, 1.7
log, exp, mpf = mpmath.log, mpmath.exp, mpmath.mpf


# ------------------------------------------------------------------------------ every family
def draw(kind):
    """x, y of one kind, and an offset: always the same."""
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, D - 1))])
    y = {
        "real": rng.standard_normal(SIZE) * 2.0,
        "binary": np.arange(SIZE) % 2,
        "count": rng.poisson(3.0, SIZE),
        "positive": np.random.default_rng(8).gamma(2.0, 1.0, SIZE),
    }
    offset = rng.standard_normal(SIZE)
    return x, y[kind] if kind in y else np.arange(SIZE) % int(kind), offset


X, REAL, OFFSET = draw("real")
BINARY, COUNT = draw("binary")[1], draw("count")[1]
OF_EIGHT, POSITIVE = np.arange(SIZE) % 9, draw("positive")[1]


def gaussian_truth(eta, y, sigma=SIGMA):
    return -(((y - eta) / sigma) ** 2) / 2 - log(sigma) - log(2 * mpmath.pi) / 2


def student_truth(eta, y, sigma=SIGMA):
    half = mpf(NU) / 2
    constant = mpmath.loggamma(half + mpf(1) / 2) - mpmath.loggamma(half)
    z = (y - eta) / sigma
    return (
        constant - log(mpmath.pi * NU) / 2 - log(sigma) - (half + mpf(1) / 2) * log(1 + z * z / NU)
    )


def negative_binomial_truth(eta, y):
    mean, r = exp(eta), mpf(DISPERSION)
    return y * log(mean / (mean + r)) + r * log(r / (mean + r))


def gamma_truth(eta, y):
    shape = mpf(SHAPE)
    rate = shape * exp(-eta)
    return shape * log(rate) + (shape - 1) * log(y) - rate * y - mpmath.loggamma(shape)


def hurdle_truth(eta, zeros, y):
    if y == 0:
        return -log(1 + exp(-zeros))
    above = y * eta - log(mpmath.expm1(exp(eta))) - mpmath.loggamma(y + 1)
    return above - log(1 + exp(zeros))


def dispersed_hurdle_truth(eta, zeros, y):
    if y == 0:
        return -log(1 + exp(-zeros))
    r, ways = mpf(DISPERSION), mpmath.loggamma
    above = negative_binomial_truth(eta, y) + ways(y + r) - ways(r) - ways(y + 1)
    return above - log(-mpmath.expm1(-r * mpmath.log1p(exp(eta) / r))) - log(1 + exp(zeros))


def softmax_truth(*given):
    *eta, y = given
    return (0, *eta)[int(y)] - log(1 + sum(exp(e) for e in eta))


class Family(NamedTuple):
    """How to make the model, and its log factor by mpmath: truth(*eta, y)."""

    model: object
    truth: object
    count: int = 1  # of predictors


FAMILIES = {
    "gaussian": Family(lambda x: glm.gaussian(x, REAL, SIGMA), gaussian_truth),
    "gaussian, sigma unknown": Family(
        lambda x: glm.gaussian(x, REAL, sigma=None),
        lambda a, b, y: gaussian_truth(a, y, exp(b)),
        2,
    ),
    "student_t": Family(lambda x: glm.student_t(x, REAL, NU, SIGMA), student_truth),
    "student_t, sigma unknown": Family(
        lambda x: glm.student_t(x, REAL, NU, sigma=None),
        lambda a, b, y: student_truth(a, y, exp(b)),
        2,
    ),
    "logistic": Family(
        lambda x: glm.logistic(x, BINARY), lambda eta, y: -log(1 + exp((1 - 2 * y) * eta))
    ),
    "probit": Family(
        lambda x: glm.probit(x, BINARY),
        lambda eta, y: log(mpmath.erfc((1 - 2 * y) * eta / mpmath.sqrt(2)) / 2),
    ),
    "cloglog": Family(
        lambda x: glm.cloglog(x, BINARY, offset=OFFSET),
        lambda eta, y: log(-mpmath.expm1(-exp(eta))) if y else -exp(eta),
    ),
    "binomial": Family(
        lambda x: glm.binomial(x, OF_EIGHT, 8),
        lambda eta, y: y * eta - 8 * log(1 + exp(eta)),
    ),
    "poisson": Family(
        lambda x: glm.poisson(x, COUNT, offset=OFFSET), lambda eta, y: y * eta - exp(eta)
    ),
    "negative_binomial": Family(
        lambda x: glm.negative_binomial(x, COUNT, DISPERSION), negative_binomial_truth
    ),
    "gamma": Family(lambda x: glm.gamma_regression(x, POSITIVE, SHAPE), gamma_truth),
    "hurdle": Family(lambda x: glm.hurdle_poisson(x, COUNT), hurdle_truth, 2),
    "hurdle, dispersed": Family(
        lambda x: glm.hurdle_negative_binomial(x, COUNT, DISPERSION), dispersed_hurdle_truth, 2
    ),
    "softmax, 2": Family(lambda x: glm.softmax(x, BINARY), softmax_truth),
    "softmax, 3": Family(lambda x: glm.softmax(x, draw("3")[1]), softmax_truth, 2),
    "softmax, 4": Family(lambda x: glm.softmax(x, draw("4")[1]), softmax_truth, 3),
    "softmax, 7": Family(lambda x: glm.softmax(x, draw("7")[1]), softmax_truth, 6),
}
MODELS = {name: family.model(X) for name, family in FAMILIES.items()}
BOUNDED = [name for name, model in MODELS.items() if model.predictors.remainder is not None]
every = pytest.mark.parametrize("name", FAMILIES)


def log_factor(name, point, n):
    """log_factor(eta, data, n), uncompiled, of eta as a list."""
    return call(MODELS[name].predictors.log_factor, name, point, n)


def call(function, name, point, n):
    single = FAMILIES[name].count == 1
    return function(
        np.float64(point[0]) if single else tuple(map(np.float64, point)), MODELS[name].data, n
    )


def truth(name, point, n):
    return FAMILIES[name].truth(*map(mpf, map(float, point)), mpf(float(MODELS[name].data.y[n])))


def points(name, rng, size, scale=3.0):
    """Random predictors, with a moderate log sigma."""
    found = scale * rng.standard_normal((size, FAMILIES[name].count))
    if "unknown" in name:
        found[:, 1] = rng.uniform(-1.5, 1.5, size)
    return found


# --------------------------------------------------------------------------------- densities
def by_scipy(name, eta):
    """The log factors of all data, up to what depends on y alone, as the docstrings say."""
    e, r = eta[:, 0], DISPERSION
    if name.startswith("softmax"):
        scores = np.column_stack([np.zeros(SIZE), eta])
        return special.log_softmax(scores, axis=1)[np.arange(SIZE), labels(name)]
    if name.startswith("gaussian"):
        return stats.norm.logpdf(REAL, e, np.exp(eta[:, 1]) if "unknown" in name else SIGMA)
    if name.startswith("student_t"):
        return stats.t.logpdf(REAL, NU, e, np.exp(eta[:, 1]) if "unknown" in name else SIGMA)
    if name == "logistic":
        return stats.bernoulli.logpmf(BINARY, special.expit(e))
    if name == "probit":
        return np.where(BINARY == 1, stats.norm.logcdf(e), stats.norm.logsf(e))
    if name == "cloglog":
        return np.where(BINARY == 1, np.log(-np.expm1(-np.exp(e))), -np.exp(e))
    if name == "binomial":
        ways = special.gammaln(9.0) - special.gammaln(OF_EIGHT + 1) - special.gammaln(9 - OF_EIGHT)
        return stats.binom.logpmf(OF_EIGHT, 8, special.expit(e)) - ways
    if name == "gamma":
        return stats.gamma.logpdf(POSITIVE, SHAPE, scale=np.exp(e) / SHAPE)
    if name.startswith("hurdle"):
        law = stats.poisson(np.exp(e)) if name == "hurdle" else stats.nbinom(r, r / (r + np.exp(e)))
        above = special.log_expit(-eta[:, 1]) + law.logpmf(COUNT) - np.log1p(-law.pmf(0))
        return np.where(COUNT == 0, special.log_expit(eta[:, 1]), above)
    if name == "poisson":
        return stats.poisson.logpmf(COUNT, np.exp(e)) + special.gammaln(COUNT + 1.0)
    of_y = special.gammaln(COUNT + r) - special.gammaln(r) - special.gammaln(COUNT + 1.0)
    return stats.nbinom.logpmf(COUNT, r, r / (r + np.exp(e))) - of_y


@pytest.mark.plain
@every
def test_log_factors_are_those_of_scipy(name, rng):
    eta = points(name, rng, SIZE, 2.0)
    own = [log_factor(name, eta[n], n) for n in range(SIZE)]
    np.testing.assert_allclose(own, by_scipy(name, eta), rtol=1e-11, atol=1e-12)


def labels(name):
    return MODELS[name].data.y.astype(int)


EXTREME = (-740.0, -700.0, -300.0, -37.0, -1e-9, 0.0, 1e-9, 1.0, 37.0, 300.0, 700.0, 740.0)


@pytest.mark.plain
@every
def test_log_factors_far_out(name, rng):
    """Finite and right where exp, 1 + exp and p (1 - p) lose all digits or overflow."""
    count = FAMILIES[name].count
    grid = [[e] * count for e in EXTREME] + [[e, -e, 1.0, 0.0, -1.0, 2.0][:count] for e in EXTREME]
    grid += list(rng.choice(EXTREME, (10, count)))
    if "unknown" in name:
        grid = np.array(grid)
        grid[:, 1] = np.maximum(grid[:, 1], -150.0)  # exp(1400) is no number
    for i, (point, more) in enumerate(product(grid, (0, 1))):
        n = (i // 2 + more) % 8  # two neighbours: one with y = 0, one with y = 1
        own = float(log_factor(name, point, n))
        with mpmath.workprec(2400):
            exact = truth(name, point, n)
            # Sums of terms of both signs have the rounding error of the terms.
            terms = 0.0
            if name.startswith(("poisson", "hurdle")):
                terms = abs(float(MODELS[name].data.y[n]) * point[0])
            elif name == "gamma":
                terms = 5.0 + SHAPE * abs(point[0])
            elif name.startswith(("gaussian", "student")):
                terms = 1.0 + abs(point[-1])
            if exact < -1e308:  # the exponential of 740 is no number
                assert own == -math.inf
                continue
            assert math.isfinite(own)
            assert abs(own - exact) <= 1e-13 * (abs(exact) + terms) + 1e-321, (point, n, own)


def test_a_share_that_is_almost_one_keeps_its_digits():
    """Log probabilities next to 0: -exp(-40), not -0.0."""
    model = glm.softmax(X, draw("3")[1])
    assert float(model.predictors.log_factor((0.0, 40.0), model.data, 2)) == pytest.approx(
        -2.0 * math.exp(-40.0), rel=1e-13
    )
    model = glm.logistic(X, BINARY)
    assert float(model.predictors.log_factor(40.0, model.data, 1)) == pytest.approx(
        -math.exp(-40.0), rel=1e-13
    )


def test_student_t_of_many_degrees_of_freedom_is_normal():
    model = glm.student_t(X, REAL, 1e13, SIGMA)
    own = [float(model.predictors.log_factor(0.5, model.data, n)) for n in range(SIZE)]
    np.testing.assert_allclose(own, stats.norm.logpdf(REAL, 0.5, SIGMA), rtol=1e-11)


# ------------------------------------------------------------------------------- derivatives
def partials(count, order):
    return [part for k in range(1, order + 1) for part in multisets(range(count), k)]


def check_derivatives(derivatives, function, count, order, point):
    """Compare with mpmath's differences at 70 digits."""
    own = derivatives
    parts = partials(count, order)
    assert len(own) == len(parts)
    with mpmath.workdps(70):
        exact = [
            mpmath.diff(
                function, tuple(map(mpf, point)), tuple(part.count(k) for k in range(count))
            )
            for part in parts
        ]
    size = max(abs(v) for v in exact)
    for part, value, right in zip(parts, own, exact, strict=True):
        assert abs(value - right) <= 1e-11 * abs(right) + 1e-14 * size, (point, part, value)


@every
def test_derivatives_are_those_of_the_log_factor(name, rng):
    family, model = FAMILIES[name], MODELS[name]
    order = 3 if family.count < 6 else 2
    end = 8.0 if name == "probit" else 30.0  # the rest of a normal law at 30 has 197 zeros
    far = [[v] * family.count for v in (-end, end)] if "unknown" not in name else []
    found = [*points(name, rng, 2 if family.count > 2 else 8).tolist(), *far[: 6 // family.count]]
    for i, point in enumerate(found):
        y = mpf(float(model.data.y[i]))
        own = call(model.predictors.derivatives, name, point, i)

        def function(*eta, y=y):
            return family.truth(*eta, y)

        check_derivatives(own, function, family.count, order, point)


def test_derivatives_are_written_for_any_number_of_classes():
    for classes, order in ((3, 3), (5, 3), (6, 3), (7, 2), (32, 2)):
        found = derivatives_of(classes)(
            tuple(np.linspace(-1.0, 1.0, classes - 1)), MODELS["softmax, 3"].data, 0
        )
        assert len(found) == len(partials(classes - 1, order))
        assert all(isinstance(v, float) for v in found)


# ------------------------------------------------------------------------------------ bounds
def along(name, point, n, u, order=3):
    """A directional derivative of the log factor: third, or fourth by differences of it."""
    count = FAMILIES[name].count
    if order == 3:
        values = call(MODELS[name].predictors.derivatives, name, point, n)
        own = partials(count, 3)
        return sum(
            values[i] * times(part) * np.prod([u[k] for k in part])
            for i, part in enumerate(own)
            if len(part) == 3
        )
    h = 2e-3
    near, far = (
        (along(name, point + t * u, n, u) - along(name, point - t * u, n, u)) / (2.0 * t)
        for t in (h, 2.0 * h)
    )
    return (4.0 * near - far) / 3.0


def times(part):
    """In how many orders the three indices occur."""
    return 6 // math.prod(math.factorial(part.count(k)) for k in set(part))


def direction(angles):
    """A unit vector from any vector of its length."""
    return np.asarray(angles) / (np.linalg.norm(angles) + 1e-300)


CUBIC = [name for name in BOUNDED if name not in ("gaussian", "softmax, 7")]


@pytest.mark.parametrize("name", CUBIC)
def test_bounds_hold_at_random_points_and_directions(name, rng):
    count = FAMILIES[name].count
    scales = 10.0 ** rng.uniform(-1.0, 1.3, (3_000, 1))
    etas = points(name, rng, 3_000, 1.0) * scales
    directions = rng.standard_normal((3_000, count))
    for i, (eta, u) in enumerate(zip(etas, directions, strict=True)):
        n = i % SIZE
        bound = call(MODELS[name].predictors.remainder, name, eta, n)
        unit = direction(u)
        assert abs(along(name, eta, n, unit)) <= bound[0] * (1 + 1e-12)
        if i % 4 == 0:
            assert abs(along(name, eta, n, unit, order=4)) <= bound[1] * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", CUBIC)
@pytest.mark.parametrize("order", [3, 4])
def test_bounds_are_reached_and_never_passed(name, order, rng):
    """The worst point and direction an optimiser finds, for several rows."""
    count = FAMILIES[name].count
    for n in (0, 13) if name.startswith("softmax") else range(0, SIZE, 13):  # labels 0 and another
        best = 0.0
        for _ in range(4 if count > 1 else 12):

            def ratio(v, n=n):
                eta = v[:count]
                bound = call(MODELS[name].predictors.remainder, name, eta, n)[order - 3]
                return -abs(along(name, eta, n, direction(v[count:]), order)) / bound

            start = (1.0 if count > 1 else 2.0) * rng.standard_normal(2 * count)
            options = {"maxfev": 250 * count**2, "fatol": 1e-9}
            found = optimize.minimize(ratio, start, method="Nelder-Mead", options=options)
            best = max(best, -found.fun)
        assert 0.9 < best < 1.0 + 1e-6, (n, best)


def residual(name, n, base, moved, order):
    """What the Taylor polynomial at `base` of order 2 or 3 misses at `moved`, and its bound."""
    count, model, step = FAMILIES[name].count, MODELS[name], np.asarray(moved) - base
    values = call(model.predictors.derivatives, name, base, n)
    terms = [log_factor(name, moved, n), -log_factor(name, base, n)]
    for value, part in zip(values, partials(count, 3), strict=False):
        if len(part) <= order:
            weight = math.prod(math.factorial(part.count(k)) for k in set(part))
            terms.append(-value * np.prod([step[k] for k in part]) / weight)
    bound = call(model.predictors.remainder, name, base, n)[order - 2]
    length = np.linalg.norm(step)
    bound *= length ** (order + 1) / math.factorial(order + 1)
    rounding = 1e-14 * sum(abs(t) for t in terms)
    return abs(sum(terms)), bound * math.exp(model.predictors.growth * length), rounding


@pytest.mark.slow_for("softmax, 4-3")
@pytest.mark.parametrize(
    ("name", "order"), [*((n, 2) for n in BOUNDED), *((n, 3) for n in ("gaussian", *CUBIC))]
)
def test_residuals_are_inside_their_range(name, order, rng):
    """Every row in turn, at 2,500 pairs: near ones, far ones, and those an optimiser likes best."""
    pairs = 1000 if name == "softmax, 7" else 2_500
    base = points(name, rng, pairs)
    moved = base + rng.standard_normal(base.shape) * 10.0 ** rng.uniform(-2.0, 1.0, (pairs, 1))
    for i in range(pairs):
        off, bound, rounding = residual(name, i % SIZE, base[i], moved[i], order)
        assert off <= bound * (1 + 1e-12) + rounding, (base[i], moved[i])
    count = FAMILIES[name].count
    for n in range(0, SIZE, 20):

        def ratio(v, n=n):
            step = v[count:] * max(1.0, 0.05 / (np.linalg.norm(v[count:]) + 1e-300))
            off, bound, rounding = residual(name, n, v[:count], v[:count] + step, order)
            return -max(off - rounding, 0.0) / (bound + 1e-300)

        start = rng.standard_normal(2 * count)
        found = optimize.minimize(ratio, start, method="Nelder-Mead", options={"maxfev": 300})
        assert -found.fun <= 1.0 + 1e-9, found.x


def test_cumulants_of_many_classes_are_bounded(rng):
    """All classes, any weights: the third and fourth cumulants of 0, u_1, .., u_(K-1), |u| = 1."""

    def cumulants(logits, u):
        p, values = special.softmax(logits), np.concatenate([[0.0], direction(u)])
        centred = values - p @ values
        fourth = p @ centred**4 - 3.0 * (p @ centred**2) ** 2
        return abs(p @ centred**3) / THIRD, abs(fourth) / FOURTH

    worst = 0.0
    for i in range(10_000):
        classes = 3 + i % 8
        logits = rng.standard_normal(classes) * 10.0 ** rng.uniform(-1.0, 1.0)
        third, fourth = cumulants(logits, rng.standard_normal(classes - 1))
        worst = max(worst, third, fourth)
    for classes in (3, 6, 10):
        for which in (0, 1):
            for _ in range(3):
                found = optimize.minimize(
                    lambda v, c=classes, w=which: -cumulants(v[:c], v[c:])[w],
                    rng.standard_normal(2 * classes - 1),
                    options={"maxiter": 300},
                )
                worst = max(worst, -found.fun)
    assert worst < 1.0 + 1e-9
    # Reached: two classes share all the probability, and the direction tells them apart.
    u = np.array([1.0, -1.0])
    skewed = np.log((3.0 + math.sqrt(3.0)) / (3.0 - math.sqrt(3.0)))
    assert cumulants(np.array([-40.0, skewed, 0.0]), u)[0] == pytest.approx(1.0)
    assert cumulants(np.array([-40.0, 0.0, 0.0]), u)[1] == pytest.approx(1.0)


@pytest.mark.plain
@pytest.mark.parametrize("nu", [0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("sigma", [0.1, 7.0])
def test_bounds_of_student_t_for_all_degrees_of_freedom(nu, sigma):
    """The largest values on a dense grid."""
    model = glm.student_t(X, REAL, nu, sigma)
    eta = REAL[0] + sigma * math.sqrt(nu) * np.linspace(-8.0, 8.0, 200_001)
    third = model.predictors.derivatives(eta, model.data, 0)[2]
    bound = model.predictors.remainder(0.0, model.data, 0)
    assert np.abs(third).max() == pytest.approx(bound[0], rel=1e-6)
    assert np.abs(np.gradient(third, eta)).max() == pytest.approx(bound[1], rel=1e-6)


def outwards(*ends):
    """An interval of these ends, wider by more than they are rounded."""
    low, high = np.min(ends, axis=0), np.max(ends, axis=0)
    return low - 1e-15 * np.abs(low), high + 1e-15 * np.abs(high)


def multiplied(one, *others):
    for other in others:
        one = outwards(*(a * b for a in one for b in other))
    return one


def difference(one, other):
    return outwards(one[0] - other[1], one[1] - other[0])


def of_an_event(low, high):
    """Intervals of the third and fourth derivatives of log(1 - exp(-u)), for many of u."""
    b = outwards(*(u / np.expm1(u) for u in (low, high)))  # falls with u
    r = outwards(*(-u / np.expm1(-u) for u in (low, high)))  # u + b, which rises
    c, s = difference((1.0, 1.0), b), difference((1.0, 1.0), r)
    rc, three = multiplied(r, c), (3.0, 3.0)
    inner = difference(multiplied(s, s, s), multiplied(three, s, rc))
    inner = difference(inner, difference(multiplied(rc, c), multiplied(b, r, s)))
    return multiplied(b, difference(multiplied(s, s), rc)), multiplied(b, inner)


def holds(bounds, low, high):
    """Are both at most u / 2 and these bounds, all over low .. high; else look at either half."""
    low, high = np.array([low]), np.array([high])
    while len(low):
        open_yet = np.zeros(len(low), dtype=bool)
        for (least, most), bound in zip(of_an_event(low, high), bounds, strict=True):
            if np.any(np.maximum(least, -most) > np.minimum(0.5 * high, bound)):
                return False
            open_yet |= np.maximum(-least, most) > np.minimum(0.5 * low, bound)
        low, high = low[open_yet], high[open_yet]
        assert np.all(high - low > 1e-8 * high), "neither proved nor refuted"
        middle = 0.5 * (low + high)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return True


def test_bounds_of_cloglog_hold_everywhere():
    """Proved by intervals for u from .05 to 60, and wrong if they were 1% less.

    Below, their series are -u/2 + u^2/3 - u^4/45 + ... and -u/2 + 2 u^2/3 - 4 u^4/45 + ..., which
    alternate from the second term on; above, they are less than 10 u^4 exp(-u).
    """
    bounds = families.EVENT_THIRD, families.EVENT_FOURTH
    assert holds(bounds, 0.05, 60.0)
    assert not holds((0.99 * bounds[0], bounds[1]), 0.05, 60.0)
    assert not holds((bounds[0], 0.99 * bounds[1]), 0.05, 60.0)


@jit
def largest_of_probit(ends, most):
    for i in range(len(ends) - 1):
        f = intervals.log_normal_cdf(ends[i], ends[i + 1])
        most[0] = max(most[0], 6.0 * max(abs(f[6]), abs(f[7])))
        most[1] = max(most[1], 24.0 * max(abs(f[8]), abs(f[9])))


def test_bounds_of_probit_hold_everywhere():
    """By the same intervals that bound users' functions: from -1000 to 40, in 10^5 pieces."""
    ends, most = np.zeros(100_001), np.zeros(2)
    ends[:50_000] = -np.geomspace(1e3, 1.0, 50_000)
    ends[50_000:] = np.linspace(-1.0, 40.0, 50_002)[1:]
    largest_of_probit(ends, most)
    bounds = np.array([families.PROBIT_THIRD, families.PROBIT_FOURTH])
    assert np.all(most <= bounds) and np.all(most > 0.99 * bounds), most


def test_bounds_of_a_gaussian_are_zero():
    model = MODELS["gaussian"]
    assert model.predictors.remainder(0.3, model.data, 0) == (0.0, 0.0)
    for name in ("gaussian, sigma unknown", "student_t, sigma unknown"):
        assert MODELS[name].predictors.remainder is None


# ------------------------------------------------------------------------- compiled, and data
def table(model):
    """fill(state, data, out): per datum log likelihood, log factor, derivatives, remainder."""
    given = model.predictors
    one, eta, factor, slopes = (
        jit(part, flags=FLAGS, user=True, inner="always")
        for part in (model.log_likelihood, given.eta, given.log_factor, given.derivatives)
    )
    bound = jit(given.remainder or none, flags=FLAGS, user=True, inner="always")

    @jit(flags=FLAGS)
    def fill(state, data, out):
        for n in range(np.uint64(len(data.y))):
            e = eta(state, data, n)
            found = slopes(e, data, n)
            out[n, 0], out[n, 1] = one(state, data, n), factor(e, data, n)
            for k in range(len(found)):
                out[n, 2 + k] = found[k]
            out[n, 2 + len(found)], out[n, 3 + len(found)] = bound(e, data, n)

    return fill


def none(eta, data, n):
    """The remainder of families that have none."""
    return -1.0, -1.0


def by_hand(model, state):
    """The same, uncompiled, from a matrix product."""
    given, rows = model.predictors, []
    beta = np.atleast_2d(state.beta)
    for n in range(model.size):
        eta = beta @ np.asarray(model.data.x[n], dtype=float)
        eta += model.data.offset[n] if "offset" in model.data._fields else 0.0
        e = tuple(eta) if len(eta) > 1 else eta[0]
        if "log_sigma" in model.names:
            e = (eta[0], state.log_sigma[0])
        if "logit_zeros" in model.names:
            e = (eta[0], state.logit_zeros[0])
        value = given.log_factor(e, model.data, n)
        bound = (given.remainder or none)(e, model.data, n)
        rows.append([value, value, *given.derivatives(e, model.data, n), *bound])
    return np.array(rows, dtype=float)


@every
def test_compiled_values_are_the_plain_ones(name, rng):
    model = FAMILIES[name].model(X)
    fill = table(model)
    for _ in range(3):
        state = model.state(model.ints, 0.7 * rng.standard_normal(len(model.floats)))
        expected = by_hand(model, state)
        out = np.zeros_like(expected)
        fill(state, model.data, out)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.plain
@pytest.mark.parametrize("name", ["student_t", "logistic", "softmax, 4"])
def test_predictors_and_likelihood_uncompiled(name, rng):
    model = FAMILIES[name].model(X)
    state = model.state(model.ints, 0.7 * rng.standard_normal(len(model.floats)))
    own = [model.log_likelihood(state, model.data, n) for n in range(model.size)]
    np.testing.assert_allclose(own, by_hand(model, state)[:, 0], rtol=1e-12)


LAYOUTS = {
    "float32": lambda x: x.astype(np.float32),
    "Fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x[:, ::-1], 2, axis=0)[::2, ::-1],
    "booleans": lambda x: x > 0.0,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_matrix_of_any_layout_is_read_where_it_is(layout, rng):
    x = LAYOUTS[layout](X)
    model = glm.logistic(x, BINARY)
    assert np.shares_memory(model.data.x, x)
    state = model.state(model.ints, rng.standard_normal(D))
    expected = by_hand(model, state)
    out = np.zeros_like(expected)
    table(model)(state, model.data, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_memory_mapped_data_are_read_where_they_are(tmp_path, rng, monkeypatch):
    x = np.memmap(tmp_path / "x", np.float32, "w+", shape=(SIZE, D))
    y = np.memmap(tmp_path / "y", np.float32, "w+", shape=(SIZE,))
    x[:], y[:] = X, COUNT
    monkeypatch.setattr(columns, "PIECE", 7)  # two rows at a time
    model = glm.poisson(x, y)
    assert np.shares_memory(model.data.x, x)
    assert np.shares_memory(model.data.y, y)
    state = model.state(model.ints, 0.3 * rng.standard_normal(D))
    expected = by_hand(model, state)
    out = np.zeros_like(expected)
    table(model)(state, model.data, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    x[31, 2] = np.nan
    with pytest.raises(ValueError, match=r"x\[31, 2\] is nan"):
        glm.poisson(x, y)
    x[31, 2], y[23] = 0.0, np.inf
    with pytest.raises(ValueError, match=r"y\[23\] is inf"):
        glm.poisson(x, y)
    y[23] = 1.5
    with pytest.raises(ValueError, match=r"y\[23\] is 1.5: poisson needs counts"):
        glm.poisson(x, y)


@pytest.mark.plain
def test_whole_numbers_become_floats_and_floats_stay():
    assert glm.logistic(X, BINARY).data.y.dtype == np.float64
    assert glm.logistic(X, BINARY.astype(bool)).data.y.dtype == np.float64
    assert glm.logistic(X.tolist(), BINARY.tolist()).size == SIZE
    for dtype in (np.float32, np.float64):
        y = COUNT.astype(dtype)
        offset = OFFSET.astype(dtype)
        model = glm.negative_binomial(X, y, 2, offset)
        assert np.shares_memory(model.data.y, y)
        assert np.shares_memory(model.data.offset, offset)


def test_numbers_do_not_recompile():
    pairs = (
        (glm.gaussian(X, REAL, 1.0), glm.gaussian(X, REAL, 2)),
        (glm.student_t(X, REAL, 3.0, 1.0), glm.student_t(X, REAL, 5.0, 2.0)),
        (glm.negative_binomial(X, COUNT, 1.0), glm.negative_binomial(X[:9], COUNT[:9], 7)),
        (glm.softmax(X, BINARY, 5), glm.softmax(X, draw("3")[1], 5)),
    )
    for first, second in pairs:
        assert first.fingerprints()["log_likelihood"] == second.fingerprints()["log_likelihood"]
        assert [type(v) for v in first.data] == [type(v) for v in second.data]


@pytest.mark.parametrize("name", ["gaussian, sigma unknown", "softmax, 4"])
def test_models_travel_to_other_processes(name):
    """By the pickles of joblib, which know functions made at run time."""
    cloudpickle = pytest.importorskip("cloudpickle")
    again = pickle.loads(cloudpickle.dumps(MODELS[name]))
    assert again.fingerprints() == MODELS[name].fingerprints()


# ------------------------------------------------------------------------- priors and start
@pytest.mark.plain
def test_priors():
    start = [0.5, -1.0, 2.0]
    model = glm.logistic(X, BINARY, prior_sd=3.0, start=start)
    state = model.state(model.ints, model.floats)
    expected = stats.norm.logpdf(start, 0.0, 3.0).sum()
    assert model.log_prior(state) == pytest.approx(expected)
    model = glm.gaussian(X, REAL, sigma=None, start=start)
    state = model.state(model.ints, model.floats)
    expected = stats.norm.logpdf(start, 0.0, 10.0).sum()
    spread = np.log(np.std(REAL))
    assert state.log_sigma[0] == pytest.approx(spread)
    assert model.log_prior(state) == pytest.approx(expected + stats.norm.logpdf(spread, 0.0, 2.0))
    model = glm.student_t(X, np.ones(SIZE), sigma=None, prior_sd=np.inf)
    state = model.state(model.ints, model.floats)
    assert state.log_sigma[0] == 0.0  # y does not vary
    assert model.log_prior(state) == pytest.approx(stats.norm.logpdf(0.0, 0.0, 2.0))
    model = glm.softmax(X, draw("3")[1], start=np.ones((2, D)), prior_sd=2.0)
    state = model.state(model.ints, model.floats)
    assert model.log_prior(state) == pytest.approx(2 * D * stats.norm.logpdf(1.0, 0.0, 2.0))

    def log_prior(state):
        return -abs(state.beta[0])

    assert glm.poisson(X, COUNT, log_prior=log_prior).log_prior is log_prior
    assert glm.gaussian(X, REAL, sigma=None, log_prior=log_prior).log_prior is log_prior


# ---------------------------------------------------------------------------------- refusals
def changed(array, at, value):
    made = np.array(array, dtype=float)
    made[at] = value
    return made


REFUSED = [
    (lambda: glm.logistic(REAL, BINARY), "x has shape (40,): give a matrix of shape (N, d)"),
    (lambda: glm.logistic(np.ones((40, 0)), BINARY), "x has shape (40, 0): it needs at least one"),
    (lambda: glm.logistic(np.ones((0, 3)), BINARY[:0]), "x has shape (0, 3)"),
    (lambda: glm.logistic(X.astype(np.float16), BINARY), "x has dtype float16"),
    (lambda: glm.logistic(X.astype(str), BINARY), "x has dtype <U"),
    (lambda: glm.logistic(changed(X, (5, 1), np.nan), BINARY), "x[5, 1] is nan: every value"),
    (lambda: glm.gaussian(changed(X, (0, 2), -np.inf), REAL), "x[0, 2] is -inf"),
    (lambda: glm.gaussian(X, changed(REAL, 7, np.nan)), "y[7] is nan: every value"),
    (lambda: glm.gaussian(X, REAL[:-1]), "y has shape (39,): give one value per row of x, shape"),
    (lambda: glm.gaussian(X, REAL[:, None]), "y has shape (40, 1)"),
    (lambda: glm.gaussian(X, REAL.astype(str)), "y has dtype <U"),
    (lambda: glm.logistic(X, 2 * BINARY), "y[1] is 2: logistic needs 0 and 1 (or booleans)"),
    (lambda: glm.logistic(X, changed(BINARY, 4, 0.5)), "y[4] is 0.5: logistic needs"),
    (lambda: glm.poisson(X, changed(COUNT, 3, -1)), "y[3] is -1: poisson needs counts"),
    (lambda: glm.poisson(X, changed(COUNT, 3, 0.5)), "y[3] is 0.5: poisson needs counts"),
    (lambda: glm.negative_binomial(X, -COUNT - 1, 1.0), "negative_binomial needs counts"),
    (lambda: glm.binomial(X, OF_EIGHT, 7), "y[8] is 8, of 7 trials: it must be at most these"),
    (lambda: glm.binomial(X, OF_EIGHT, 8.5), "trials[0] is 8.5: give whole numbers from 1"),
    (lambda: glm.binomial(X, OF_EIGHT, np.full(9, 8)), "trials has shape (9,)"),
    (lambda: glm.binomial(X, OF_EIGHT + 0.5, 9), "y[0] is 0.5: binomial needs"),
    (lambda: glm.poisson(X, COUNT, OFFSET[1:]), "offset has shape (39,)"),
    (lambda: glm.poisson(X, COUNT, changed(OFFSET, 2, np.nan)), "offset[2] is nan"),
    (lambda: glm.softmax(X, changed(BINARY, 6, 0.5)), "y[6] is 0.5: softmax needs labels"),
    (lambda: glm.softmax(X, changed(BINARY, 6, -2)), "y[6] is -2: softmax needs labels"),
    (lambda: glm.softmax(X, changed(BINARY, 6, 3), 3), "y[6] is 3: labels must be 0 .. 2"),
    (lambda: glm.softmax(X, 0 * BINARY), "y has no label but 0: pass classes=K"),
    (lambda: glm.softmax(X, BINARY, 1), "classes=1: softmax takes 2 to 32 classes"),
    (lambda: glm.softmax(X, 50 * BINARY), "classes=51: softmax takes 2 to 32 classes"),
    (lambda: glm.softmax(X, BINARY, 2.5), "classes=2.5: give the number of classes"),
    (lambda: glm.gaussian(X, REAL, 0.0), "sigma=0.0: give the standard deviation, or None"),
    (lambda: glm.gaussian(X, REAL, "a"), "sigma='a'"),
    (lambda: glm.student_t(X, REAL, sigma=-1.0), "sigma=-1.0: give the scale"),
    (lambda: glm.student_t(X, REAL, nu=np.nan), "nu=nan: give the degrees of freedom"),
    (lambda: glm.negative_binomial(X, COUNT, 0), "dispersion=0: give r in the variance"),
    (lambda: glm.negative_binomial(X, COUNT, "a"), "dispersion='a'"),
    (lambda: glm.logistic(X, BINARY, prior_sd=0.0), "prior_sd=0.0: give the coefficients'"),
    (lambda: glm.logistic(X, BINARY, prior_sd=X), "prior_sd=array"),
    (lambda: glm.logistic(X, BINARY, start=[0.0]), "start has shape (1,): beta has shape (3,)"),
    (lambda: glm.softmax(X, BINARY, start=np.zeros(3)), "beta has shape (1, 3), a coefficient"),
    (lambda: glm.logistic(X, BINARY, start=[0.0, np.nan, 0.0]), "every value must be finite"),
]


@pytest.mark.plain
@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_bad_input_is_refused(make, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert words in str(caught.value)


# -------------------------------------------------------------------------------------- runs
@pytest.mark.slow
def test_a_chain_finds_the_posterior(rng):
    x = np.column_stack([np.ones(300), rng.standard_normal(300)])
    y = rng.random(300) < special.expit(x @ [0.3, -0.8])
    model = glm.logistic(x, y, prior_sd=2.0)
    kernel = sm.Metropolis("beta", selector=sm.Exact())
    trace = sm.sample(model, kernel, draws=1500, warmup=500, chains=1, seed=3, progress=False)

    def minus_log_posterior(beta):
        z = np.where(y, 1.0, -1.0) * (x @ beta)
        return np.logaddexp(0.0, -z).sum() + beta @ beta / 8.0

    fit = optimize.minimize(minus_log_posterior, np.zeros(2))
    off = trace.draws["beta"][0].mean(axis=0) - fit.x
    assert np.all(np.abs(off) < np.sqrt(np.diag(fit.hess_inv)))


def test_labels_that_do_not_occur_are_refused(rng):
    """Class 0 is the reference: labels 1 .. K would have one that nobody has seen."""
    x = rng.standard_normal((30, 2))
    with pytest.raises(ValueError, match="y has no label 0, and labels up to 3"):
        glm.softmax(x, rng.integers(1, 4, size=30))
    with pytest.raises(ValueError, match=r"no label 1, .*pass classes=4"):
        glm.softmax(x, np.array([0, 2, 3] * 10))
    assert glm.softmax(x, 1 + np.arange(30) % 3, classes=4).variables["beta"].block.shape == (3, 2)


@pytest.mark.parametrize("family", [glm.gaussian, glm.student_t])
def test_units_that_the_prior_does_not_know_are_told(rng, family):
    x, y = np.ones((50, 1)), 4000.0 + rng.uniform(-900.0, 1000.0, size=50)
    for sigma in (1000.0, None):
        with pytest.warns(UserWarning, match=r"y lies .*from 0.*Give prior_sd=4e\+04"):
            family(x, y, sigma=sigma)
        family(x, y, sigma=sigma, prior_sd=4e4)
        family(x, y, sigma=sigma, log_prior=lambda state: 0.0)
        family(x, y / 1000.0, sigma=sigma)


LINKED = [glm.poisson, glm.logistic, glm.zero_inflated_poisson, glm.ordered_logistic]


@pytest.mark.parametrize("family", [*LINKED, glm.gaussian, glm.student_t])
def test_columns_that_the_prior_allows_no_effect_are_told(rng, family):
    """Years: a slope of .1 needs an intercept of -200, and was .03 (below); and small units."""
    year, one = rng.integers(2001, 2021, 400).astype(float), np.full(400, 0.1)
    y = (rng.random(400) < 0.5) * 1.0
    cuts = [] if family is glm.ordered_logistic else [one]
    with pytest.warns(UserWarning, match=r"x\[:, \d\] is 201\d in the mean.* an intercept of"):
        family(np.column_stack([*cuts, year]), y)
    with pytest.warns(UserWarning, match=r"x\[:, \d\] is .* it needs a coefficient of .*prior_sd="):
        family(np.column_stack([*cuts, 1e-4 * (year - 2010.5)]), y)
    centred = np.column_stack([*cuts, (year - 2010.5) / 6.0])
    rare = np.column_stack([centred, np.arange(400) == 7])  # a level of its own is no small unit
    for x, more in ((centred, {}), (rare, {}), (np.column_stack([*cuts, year]), {"prior_sd": 1e4})):
        family(x, y, **more)
    family(np.column_stack([*cuts, year]), y, log_prior=lambda state: 0.0)
    if cuts:
        family(year[:, None], y)  # without an intercept nothing else has to make up for it


def test_the_default_prior_pulls_slopes_of_years_to_zero(rng):
    """Why that is told: the mode of the same data, centred or not."""
    year = rng.integers(2001, 2021, 2_000).astype(float)
    y = (rng.random(2_000) < special.expit(0.1 * (year - 2010.5))) * 1.0
    columns = lambda x: np.column_stack([np.ones(2_000), x])  # noqa: E731
    with pytest.warns(UserWarning, match="scale"):
        model = glm.logistic(columns(year), y)
    pulled = sm.laplace(model, progress=False).state["beta"][1]
    free = sm.laplace(glm.logistic(columns(year - 2010.5), y), progress=False).state["beta"][1]
    wide = sm.laplace(glm.logistic(columns(year), y, prior_sd=1e4), progress=False)
    assert pulled < 0.5 * free and wide.state["beta"][1] == pytest.approx(free, rel=0.01)


# ------------------------------------------------------------------------------------ evidences
@pytest.mark.parametrize("dispersion", [None, 0.5, 3.0, 100.0, "binomial"])
def test_evidences_of_counts_have_all_terms(dispersion):
    """Beside quadrature: so families, and dispersions, can be compared by them."""
    rng = np.random.default_rng(0)
    y = rng.negative_binomial(3, 3 / 7.0, 2_000)
    x, grid = np.ones((2_000, 1)), np.linspace(0.8, 2.2, 4_001)
    if dispersion == "binomial":
        trials, grid = y + rng.integers(1, 5, 2_000), grid - 1.0
        model = glm.binomial(x, y, trials)
        law = [stats.binom.logpmf(y, trials, special.expit(b)).sum() for b in grid]
    elif dispersion is None:
        model = glm.poisson(x, y)
        law = [stats.poisson.logpmf(y, np.exp(b)).sum() for b in grid]
    else:
        model, r = glm.negative_binomial(x, y, dispersion), dispersion
        law = [stats.nbinom.logpmf(y, r, r / (r + np.exp(b))).sum() for b in grid]
    exact = special.logsumexp(law + stats.norm.logpdf(grid, 0.0, 10.0)) + np.log(grid[1] - grid[0])
    fit = sm.laplace(model)
    assert fit.log_evidence == pytest.approx(exact, abs=0.01)
    assert fit.matched(seed=1, inflate=1.0).log_evidence == pytest.approx(exact, abs=0.05)
    assert fit.starts[0] == pytest.approx(fit.log_density, abs=1e-6)
