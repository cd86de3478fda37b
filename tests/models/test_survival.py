"""Times that are known between two ends far apart: densities, posteriors, and bounds of rows."""

import mpmath
import numpy as np
import pytest
from scipy import special

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.found import bounds_found
from tests.helpers.tall import EXACT, Bench

glm = sm.models.glm
ONE = np.ones((2, 1))


def at(make, y, upper, eta, **blocks):
    """The log likelihood of one datum, beta[0] being its predictor."""
    model = make(ONE, np.array([y, 1.0]), upper=np.array([upper, 1.0]))
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, {"beta": [eta], **blocks})
    return float(model.log_likelihood(model.state(ints, floats), model.data, 0))


def weibull_between(y, upper, eta, log_shape):
    """log(exp(-h(y)) - exp(-h(upper))), h the hazards, with digits that none of them loses."""
    with mpmath.workprec(2000):
        shape = mpmath.exp(mpmath.mpf(log_shape))
        low, high = (
            mpmath.exp(shape * (mpmath.log(mpmath.mpf(t)) - eta)) if t else mpmath.mpf(0)
            for t in (y, upper)
        )
        return float(mpmath.log(-mpmath.expm1(-min(high - low, 1300))) - low)


def normal_between(y, upper, eta, log_sigma):
    """The same of the log-normal law, on the side where both tails are small."""
    with mpmath.workprec(400):
        sigma = mpmath.exp(mpmath.mpf(log_sigma))
        low, high = ((mpmath.log(mpmath.mpf(t)) - eta) / sigma for t in (y, upper))
        low, high = (low, high) if low > 0 else (-high, -low)
        tails = [mpmath.erfc(z / mpmath.sqrt(2)) / 2 for z in (low, high)]
        return float(mpmath.log(tails[0] - tails[1]))


# What was -inf, or -42.04 for next to 0, as exp(z) was 0 and exp(w) infinite.
CUT_OFF = [
    (1e-3, 1.0, 0.0, 5.0, -0.45867514538708),
    (1.0, 1e4, 5.0, 5.0, 0.0),
    (0.0, 1e-3, -1.0, 5.0, -876.788624158663),
]


@pytest.mark.plain
@pytest.mark.parametrize(("y", "upper", "eta", "log_shape", "known"), CUT_OFF)
def test_steep_weibull_times_are_not_cut_off(y, upper, eta, log_shape, known):
    own = at(glm.weibull, y, upper, eta, log_shape=log_shape)
    assert own == pytest.approx(known, rel=1e-12, abs=1e-300)
    assert weibull_between(y, upper, eta, log_shape) == pytest.approx(known, rel=1e-12, abs=1e-300)


@pytest.mark.plain
def test_ranges_of_all_widths(rng):
    """Of 300 ranges, a millionth to 1e8 times wide, and shapes up to 400: both families."""
    looked = 0
    for k in range(300):
        log_shape, eta = rng.uniform(-3.0, 6.0), rng.uniform(-6.0, 6.0)
        y = 10.0 ** rng.uniform(-7.0, 3.0)
        upper = y * np.exp(10.0 ** rng.uniform(-3.0, 1.2))
        truth = normal_between(y, upper, eta, -log_shape)
        own = at(glm.log_normal, y, upper, eta, log_sigma=-log_shape)
        assert own == pytest.approx(truth, rel=1e-8, abs=1e-12)
        y = 0.0 if k % 3 == 0 else y
        if y > 0.0 and np.exp(log_shape) * (np.log(y) - eta) > 700.0:
            continue  # a hazard that is no number
        truth = weibull_between(y, upper, eta, log_shape)
        own = at(glm.weibull, y, upper, eta, log_shape=log_shape)
        assert own == pytest.approx(truth, rel=1e-10, abs=1e-14), (y, upper, eta, log_shape)
        looked += 1
    assert looked > 200


def data_of(size, shape, seed):
    """A quarter of the times below 1 are known to be between 1e-6 and 1 only."""
    rng = np.random.default_rng(seed)
    times = rng.weibull(shape, size)
    early = (times < 1.0) & (rng.random(size) < 0.25)
    return np.where(early, 1e-6, times), np.where(early, 1.0, times), early


def test_the_posterior_of_a_steep_law_is_that_of_quadrature():
    """Of shape 80: it was cut off where shape log(1e6) passes 700, at 50. Alarm: 1e-6."""
    y, upper, early = data_of(300, 80.0, 0)
    assert 30 < early.sum() < 70
    model = glm.weibull(np.ones((300, 1)), y, upper=upper)
    trace = sm.sample(
        model, sm.Slice(("beta", "log_shape")), 1_500, 300, chains=2, seed=1, progress=False,
        start=[{"beta": [0.0], "log_shape": np.log(40.0)}] * 2,
    )  # fmt: skip
    shapes = np.exp(trace.draws["log_shape"])
    ess = trace.summary().loc["log_shape", "ess_bulk"]
    eta, log_shape = np.meshgrid(np.linspace(-0.01, 0.01, 161), np.linspace(4.0, 4.8, 161))
    shape, known = np.exp(log_shape), np.log(y[~early])
    z = shape * (known[:, None, None] - eta)
    posterior = (log_shape + z - np.exp(z)).sum(axis=0) - 0.5 * (log_shape / 2.0) ** 2
    below = np.log(-np.expm1(-np.exp(-shape * eta)))  # of 1e-6 nothing is lost: exp(-1100)
    posterior += early.sum() * below - 0.5 * (eta / 10.0) ** 2
    weight = special.softmax(posterior)
    mean = float((weight * shape).sum())
    sd = float((weight * (shape - mean) ** 2).sum()) ** 0.5
    assert weight[[0, -1]].max() < 1e-6 and weight[:, [0, -1]].max() < 1e-6
    assert 75.0 < mean < 92.0
    assert ess > 400 and abs(shapes.mean() - mean) < 5.0 * sd / ess**0.5, (shapes.mean(), mean)
    assert shapes.std() == pytest.approx(sd, rel=0.15)


@pytest.mark.slow
def test_rows_of_a_steep_law_have_bounds_that_hold(rng, monkeypatch):
    """Of 10,000 data between ends, before one and beyond one: none exceeds its bound."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    size = 10_000
    x = np.column_stack([np.ones(size), rng.standard_normal(size)])
    times = np.exp(0.3 + 0.1 * x[:, 1]) * rng.weibull(40.0, size)
    kind = rng.integers(0, 4, size)
    y = np.choose(kind, [times, 0.9 * times, 0.0 * times, 0.95 * times])
    upper = np.choose(kind, [times, 1.1 * times, 1.1 * times, np.full(size, np.inf)])
    upper[kind == 1] = np.where(np.arange((kind == 1).sum()) % 2, 1e3, upper[kind == 1])
    model = glm.weibull(x, y, upper=upper)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=3, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.proved, prepared.source.told_bound()
    point, inverse = prepared.sums.points[0], np.linalg.inv(prepared.sums.metric[0])
    known = prepared.source.bounds.of(model.ints, point)
    ways = rng.standard_normal((16, 3))
    sizes = known.reach * np.where(np.arange(16) % 2, 1.0 - 1e-9, rng.random(16))
    steps = ways / np.linalg.norm(ways, axis=1)[:, None] * sizes[:, None]
    bench = Bench(model, control, np.concatenate([point[None], point + steps @ inverse.T]))
    at_home, share = bench.residuals(0), 0.0
    rounding = 1e-12 * (1.0 + np.abs(bench.values(0)).max())
    for k, far in enumerate(sizes):
        assert bench.error(1 + k) < EXACT
        left, most = np.abs(bench.residuals(1 + k) - at_home), known.rows * far**4 / 24.0
        assert np.all(left <= most + rounding), k
        share = max(share, float(np.max(left / (most + rounding))))
    assert share > 1e-3  # bounds a thousand times less would not hold


@pytest.mark.parametrize("family", [sm.models.glm.weibull, sm.models.glm.log_normal])
@pytest.mark.parametrize("what", ["event", "upper"])
def test_appended_times_are_censored_by_their_own_ends(family, what, rng):
    """As many rows as there were: the ends of those before would do, too, and be wrong."""
    x, y, seen = np.ones((80, 1)), rng.exponential(size=80), np.arange(80) % 3 == 0
    ends = {"event": seen, "upper": np.where(seen, y, 2.0 * y)}[what]
    old, new = ({"x": x[p], "y": y[p], what: ends[p]} for p in (slice(40), slice(40, 80)))
    bigger = family(**old).append(new)
    assert bigger.fingerprints() == family(x, y, **{what: ends}).fingerprints()
    del new[what]
    with pytest.raises(TypeError, match=f"given by row: x, y, {what}"):
        family(**old).append(new)
