"""What families draw, in plain Python, datum by datum, against their laws; more of formulas."""

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from subsample_mcmc.models import glm
from subsample_mcmc.models.glm import hurdles
from tests.helpers.claims import equal
from tests.helpers.family_laws import BETA, FAMILIES, made


def record_of(model, state):
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, state)
    return model.state(ints, floats)


def check_draws(model, state, n, below, seed):
    """Counts of 3,000 draws below places that 500 others give: an alarm in 10^6 a count."""
    rng, record = np.random.default_rng(seed), record_of(model, state)
    drawn = np.array([model.simulate(rng, record, model.data, n) for _ in range(3_500)])
    first, rest = drawn[:500], drawn[500:]
    whole = np.all(drawn == np.floor(drawn))
    most = max(int(np.quantile(drawn, 0.95)), 1)
    for v in range(most) if whole else np.quantile(first, [0.05, 0.3, 0.5, 0.8, 0.95]):
        equal(int((rest <= v).sum()), len(rest), float(below(v)), alarm=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_with_blocks_draw_by_their_laws(name):
    """As test_predictions_have_the_law, which is slow: in plain Python, of two data."""
    model, x, _, _ = made(name, 40)
    state = {"beta": BETA, **FAMILIES[name].blocks}
    for n in (3, 11):
        eta = float(x[n] @ BETA)
        check_draws(model, state, n, lambda v, e=eta: FAMILIES[name].below(v, e, state), n)


X = np.column_stack([np.ones(6), np.linspace(-1.5, 1.5, 6)])


COUNTS = np.array([0, 1, 2, 3, 0, 1])


SLOPES = np.array([0.6, 0.9])


def classes(v, eta):
    p = special.softmax([0.0, eta, -eta])
    return p[: int(v) + 1].sum()


GIVEN = {  # model, other blocks, and P(y <= v) of a predictor
    "gaussian": (glm.gaussian(X, COUNTS, 0.7), {},
                 lambda v, e: stats.norm.cdf(v, e, 0.7)),
    "student_t": (glm.student_t(X, COUNTS, 4.0, 0.5), {}, lambda v, e: stats.t.cdf(v, 4.0, e, 0.5)),
    "student_t, sigma unknown": (glm.student_t(X, COUNTS, 4.0, None), {"log_sigma": -1.0},
                                 lambda v, e: stats.t.cdf(v, 4.0, e, np.exp(-1.0))),
    "binomial": (glm.binomial(X, COUNTS, 7), {},
                 lambda v, e: stats.binom.cdf(v, 7, special.expit(e))),
    "negative_binomial": (glm.negative_binomial(X, COUNTS, 1.5), {},
                          lambda v, e: stats.nbinom.cdf(v, 1.5, 1.5 / (1.5 + np.exp(e)))),
    "gamma": (glm.gamma_regression(X, COUNTS + 0.5, 2.5), {},
              lambda v, e: stats.gamma.cdf(v, 2.5, scale=np.exp(e) / 2.5)),
    "softmax": (glm.softmax(X, COUNTS % 3, 3), {}, classes),
    "cloglog": (glm.cloglog(X, COUNTS > 0), {},
                lambda v, e: np.exp(-np.exp(e)) if v < 1 else 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_families_with_given_numbers_draw_by_their_laws(name):
    """Predictors of both signs: exp(-top) of softmax is 1 where all scores are below 0."""
    model, blocks, below = GIVEN[name]
    beta = np.stack([SLOPES, -SLOPES]) if name == "softmax" else SLOPES
    for n in (0, 5):
        eta = float(X[n] @ SLOPES)
        check_draws(model, {"beta": beta} | blocks, n, lambda v, e=eta: below(v, e), n)


def test_sizes_of_overdispersed_counts_hold_where_predictors_are_large():
    """Its z = eta - log r is rounded, more the larger it is: far below, of y = 0, all is that."""
    model = glm.negative_binomial(np.ones((2, 1)), np.array([0, 1]), 0.7)
    given, log_r, off = model.predictors, mpmath.mpf(float(model.data.log_dispersion)), 0.0
    with mpmath.workdps(60):
        for eta in np.linspace(-690.0, -300.0, 200):
            found, sizes = (f(float(eta), model.data, 0) for f in (given.derivatives, given.sizes))
            p = 1 / (1 + mpmath.exp(log_r - mpmath.mpf(float(eta))))
            wanted = -mpmath.mpf(0.7) * p
            rounded = abs(mpmath.mpf(float(found[0])) - wanted) / (mpmath.mpf(2) ** -53)
            assert rounded <= 64 * sizes[0], eta
            off = max(off, float(rounded / (64 * mpmath.mpf(0.7) * p)))
    assert off > 1.0  # without it, it would not hold


def test_numbers_beside_a_formula_are_those_of_other_frames():
    pytest.importorskip("formulaic")
    frame = pd.DataFrame({"age": np.linspace(-1.0, 1.0, 30), "ill": np.arange(30) % 5})
    model = glm.binomial("ill ~ age", frame, trials=8)
    assert np.array_equal(model.design(frame.iloc[:4])["trials"], np.full(4, 8.0))


@pytest.mark.parametrize("r", [0.3, 20.0])
def test_bounds_of_a_given_dispersion_are_the_largest_on_a_grid(r):
    """As those that are proved by intervals, which takes long: within 2%, and never passed."""

    def law(z):
        whole = mpmath.log1p(mpmath.exp(z))
        return z - (1 + r) * whole - mpmath.log(-mpmath.expm1(-r * whole))

    bounds, most = hurdles.largest(r), [0.0, 0.0]
    with mpmath.workdps(30):
        for z in np.linspace(-6.0, 6.0, 121):
            for k in (0, 1):
                most[k] = max(most[k], float(abs(mpmath.diff(law, mpmath.mpf(float(z)), 3 + k))))
    for found, bound in zip(most, bounds, strict=True):
        assert 0.98 * bound < found < bound


@pytest.mark.parametrize("kind", ["int16", "uint16", "int32", "uint32"])
def test_products_of_short_integers_have_all_their_digits(kind):
    """Also of those that a product of 32 bits has no room for."""
    pytest.importorskip("formulaic")
    a = np.array([30_000, 31_000, 32_000, 29_000, 28_000, 27_000])
    b = np.array([32_001, 30_003, 29_999, 31_001, 28_003, 32_011])
    frame = pd.DataFrame({"a": a.astype(kind), "b": b.astype(kind), "y": np.arange(6) % 2})
    model = glm.logistic("y ~ 0 + I(a * b * 4)", frame, prior_sd=np.inf)
    assert np.array_equal(model.data.x[:, 0], 4.0 * a * b)
