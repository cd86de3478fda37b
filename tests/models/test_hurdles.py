"""Hurdles of sm.models.glm: bounds of their derivatives over all means, and numbers above 0."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.models.glm import hurdles
from tests.helpers.claims import equal
from tests.models.test_glm import of_an_event

glm, iv = sm.models.glm, mpmath.iv


def inside(low, high):
    """Are the derivatives of log(exp(u) - 1) at most what is claimed, all over low .. high."""
    third, fourth = of_an_event(low, high)
    u = iv.mpf([low, high])
    for value, claim in ((third, hurdles.HURDLE_THIRD), (fourth, hurdles.HURDLE_FOURTH)):
        if not float(abs(value + u).b) <= claim * low:
            middle = 0.5 * (low + high)
            if high - low < 1e-8 * high:
                return False
            return inside(low, middle) and inside(middle, high)
    return True


@pytest.mark.slow
def test_bounds_of_a_hurdle_hold_everywhere(monkeypatch):
    """Proved by intervals for u from .05 to 60, and wrong if they were 1% less.

    Below, their series are u/2 + u^2/3 - ... and u/2 + 2 u^2/3 - ..., above they are next to u.
    """
    assert inside(0.05, 60.0)
    for name in ("HURDLE_THIRD", "HURDLE_FOURTH"):
        with monkeypatch.context() as m:
            m.setattr(hurdles, name, 0.99 * getattr(hurdles, name))
            assert not inside(0.05, 60.0)


def slopes_of_one(r, low, high):
    """The third and fourth derivatives of log P(1) / (1 - P(0)) over log odds low .. high."""
    z = iv.mpf([low, high])
    p, q, whole = 1 / (1 + iv.exp(-z)), 1 / (1 + iv.exp(z)), iv.log(1 + iv.exp(z))
    v = p * q
    a1 = p / whole
    d = q - a1
    a2 = a1 * d
    a3 = a2 * d - a1 * (v + a2)
    a4 = a3 * d - 2 * a2 * (v + a2) - a1 * (v * (q - p) + a3)
    w = r * whole
    b = w / (iv.exp(w) - 1)
    mean, c, s = w + b, 1 - b, 1 - w - b
    e3, e4 = b * (s**2 - mean * c), b * (s**3 - 3 * s * mean * c - mean * c**2 + b * mean * s)
    third = (1 + r) * v * (q - p) + e3 * a1**3 + 3 * b * s * a1 * a2 + b * a3
    fourth = (1 + r) * v * (1 - 6 * v) + e4 * a1**4 + 6 * e3 * a1**2 * a2 + b * a4
    return third, fourth + b * s * (3 * a2**2 + 4 * a1 * a3)


def below(r, claims, low, high):
    """Are both at most these claims, all over low .. high; else look at either half.

    The third derivative is that in the middle, and as much more as the fourth may make it.
    """
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    fourth = float(abs(slopes_of_one(r, low, high)[1]).b)
    third = float(abs(slopes_of_one(r, middle, middle)[0]).b) + half * fourth
    if third <= claims[0] and fourth <= claims[1]:
        return True
    if half < 1e-6:
        return False
    return below(r, claims, low, middle) and below(r, claims, middle, high)


@pytest.mark.slow
@pytest.mark.parametrize("r", [0.3, 20.0])
def test_bounds_of_a_given_dispersion_hold_for_all_means(r):
    """Proved by intervals, and wrong if they were 1% less; see `largest` for what is beyond."""
    ends = -9.0 - max(math.log(r), 0.0), 30.0
    third, fourth = hurdles.largest(r)
    assert below(r, (third, fourth), *ends)
    assert not below(r, (0.99 * third, fourth), *ends)
    assert not below(r, (third, 0.99 * fourth), *ends)
    for end in ends:
        assert max(map(abs, map(float, (v.b for v in slopes_of_one(r, end, end))))) < 0.01


def test_fifth_derivatives_are_less_than_bounds_between_points_say():
    """Of softplus, and of log(1 - P(0)), from dispersions next to 0 to the Poisson law."""
    with mpmath.workdps(40):
        z = [0.25 * k for k in range(-20, 21)]
        most = max(abs(mpmath.diff(lambda t: mpmath.log1p(mpmath.exp(t)), at, 5)) for at in z)
        assert 0.95 * hurdles.SOFTPLUS_FIFTH < most < hurdles.SOFTPLUS_FIFTH
        for log_r in (-9, -2, 0, 2, 5, 12):
            r = mpmath.exp(log_r)

            def log_any(t, r=r):
                return mpmath.log(-mpmath.expm1(-r * mpmath.log1p(mpmath.exp(t))))

            most = max(abs(mpmath.diff(log_any, at - max(log_r, 0), 5)) for at in z)
            assert most < 0.8 * hurdles.ABOVE_FIFTH


@pytest.mark.plain
@pytest.mark.parametrize("r", [1e-6, 0.3, 4.0, 1e6])
@pytest.mark.parametrize("mean", [1e-200, 0.02, 1.0, 30.0])
def test_numbers_above_zero_have_the_law(r, mean, rng):
    """Of 5,000 draws, counted at the first numbers: an alarm in 10^6 a count."""
    drawn = np.array([hurdles.draw_above(rng, mean, r) for _ in range(5_000)])
    assert drawn.min() >= 1.0 and np.all(drawn == np.floor(drawn))
    with mpmath.workdps(450):
        share = mpmath.mpf(mean) / (mpmath.mpf(mean) + r)
        empty = (1 - share) ** mpmath.mpf(r)
        mass, total = empty * r * share, mpmath.mpf(0)
        for k in range(1, 60):
            total += mass / (1 - empty)
            mass *= (k + mpmath.mpf(r)) / (k + 1) * share
            if k < 6 or k % 10 == 0:
                equal(int((drawn <= k).sum()), len(drawn), min(float(total), 1.0), alarm=1e-6)


def test_a_large_dispersion_is_the_poisson_hurdle():
    """Of all parts: values, derivatives, and bounds that hold for the one and the other."""
    x, y = np.ones((12, 1)), np.arange(12) % 6
    one, other = glm.hurdle_poisson(x, y), glm.hurdle_negative_binomial(x, y, 1e9)
    for eta in ((-3.0, 0.4), (0.5, -1.0), (2.0, 3.0)):
        for n in range(6):
            for part, rtol in (("log_factor", 1e-6), ("derivatives", 1e-6)):
                own, limit = (getattr(m.predictors, part)(eta, m.data, n) for m in (other, one))
                np.testing.assert_allclose(own, limit, rtol=rtol, atol=1e-6)


def test_a_given_dispersion_is_the_unknown_one_there():
    """Two ways to write one law: a plain log likelihood, and predictors with derivatives."""
    x, y = np.ones((12, 1)), np.arange(12) % 6
    unknown, given = glm.hurdle_negative_binomial(x, y), glm.hurdle_negative_binomial(x, y, 1.7)
    for eta, zeros in ((-800.0, 0.3), (-20.0, 9.0), (0.3, -2.0), (90.0, 0.0)):
        found = []
        for model, more in ((unknown, {"log_dispersion": math.log(1.7)}), (given, {})):
            ints, floats = model.ints.copy(), model.floats.copy()
            model.set_state(ints, floats, {"beta": [eta], "logit_zeros": zeros} | more)
            state = model.state(ints, floats)
            found.append([float(model.log_likelihood(state, model.data, n)) for n in range(12)])
        assert np.isfinite(found).all()
        np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12 * abs(eta))


@pytest.mark.slow
def test_thinned_decisions_of_a_given_dispersion_are_exact():
    """Fewer data than there are, and the posterior of exact decisions: within five errors."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(20_000), rng.standard_normal(20_000)])
    mean = np.exp(x @ [0.4, 0.3])
    y = stats.nbinom.rvs(2.0, 2.0 / (2.0 + mean), random_state=rng)
    model = glm.hurdle_negative_binomial(x, y, 2.0)
    fit = sm.laplace(model, progress=False)
    found = []
    for kernel in (
        sm.Metropolis(("beta", "logit_zeros"), proposal=sm.pcn(fit, beta=0.8),
                      control=sm.Taylor(fit), selector=sm.Thinned()),
        sm.Metropolis(("beta", "logit_zeros"), proposal=sm.pcn(fit, beta=0.8),
                      selector=sm.Exact()),
    ):  # fmt: skip
        trace = sm.sample(model, kernel, 2_000, 100, chains=2, seed=3, progress=False)
        table = trace.summary()
        found.append((table["mean"], table["sd"] / np.sqrt(table["ess_bulk"]), trace))
    (mean, error, trace), (mean0, error0, _) = found
    told = trace.stats["beta+logit_zeros"]
    assert (
        trace.meta["guarantee"] == "exact" and told["pulls"].sum() < 0.5 * told["everything"].sum()
    )
    assert np.all(np.abs(mean - mean0) < 5.0 * np.hypot(error, error0))
