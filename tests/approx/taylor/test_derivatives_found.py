"""Predictors found in plain log likelihoods: their number, sums made of them, and what has none."""

import math
import pickle
from itertools import combinations_with_replacement as multisets

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.found import derivatives_found, row_slopes
from subsample_mcmc.approx.taylor.found.derivatives_found import (
    Every,
    Found,
    NoPredictorsError,
    predictors_of,
)
from subsample_mcmc.approx.taylor.taylor import FOUND, Keep
from subsample_mcmc.numerics.progress import Bar
from tests.helpers.models import walker
from tests.helpers.plain_families import linear, student_t_scale
from tests.helpers.tall import Bench, exact

SIZE = 400


def sums_of(source, at, keep=None):
    return source.sums(source.model.ints, np.array(at), keep or Every(), Bar(delay=1e9))


@pytest.fixture(autouse=True)
def predictors_are_looked_for(monkeypatch):
    """Also in few data."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)


# --------------------------------------------------------------- models, and how many predictors
def logistic(state, data, n):
    e = data.x[n] @ state.beta
    return data.y[n] * e - sm.softplus(e)


def by_hand(state, data, n):
    e = linear(state, data, n)
    return data.y[n] * e - max(e, 0.0) - sm.log1p(sm.exp(-abs(e)))


def grouped(state, data, n):
    """The rate of a Poisson law sees one of the groups, and a slope."""
    e = state.group[data.group[n]] + data.x[n, 0] * state.beta[0]
    return data.y[n] * e - sm.exp(e)


def two_sided(state, data, n):
    """A branch by data: one predictor there, two here."""
    e = linear(state, data, n)
    return -0.5 * (data.y[n] - e) ** 2 if data.x[n, 1] > 0.0 else -sm.exp(e + e * state.beta[0])


def factors(state, data, n):
    total = 1.0
    for j in range(6):
        total *= 1.0 + 0.1 * data.x[n, j] * state.beta[j] + 0.1 * state.beta[j + 1]
    return total


def hidden(state, data, n):
    """A predictor whose factor is 0 at the reference, where beta[0] = 0.5."""
    return (state.beta[0] - 0.5) * linear(state, data, n) - state.beta[2] ** 2


def rare(state, data, n):
    """At one datum all parameters matter, each by itself."""
    e, total = linear(state, data, n), 0.0
    if n == data.rare[n]:
        for j in range(len(state.beta)):
            total -= math.cos(state.beta[j]) * 1e-6
    return -0.5 * (data.y[n] - e) ** 2 + total


def sum_only(state, data, n):
    """Numbers with derivatives and affine ones are added: what is left at the end counts, too."""
    return linear(state, data, n) - sm.exp(state.beta[0]) + state.beta[1] * data.y[n]


def model_of(likelihood, rng, d=8, size=SIZE, **more):
    x = rng.standard_normal((size, d))
    beta = np.linspace(0.5, -0.5, d)
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ beta))) * 1.0
    data = {"x": x, "y": y, "group": np.arange(size) % 9, "rare": np.full(size, 301)}
    state = {"beta": beta, **more}
    return sm.Model(likelihood, data, state)


@pytest.mark.parametrize(("likelihood", "more", "count"), [
    (logistic, {}, 1), (by_hand, {}, 1), (student_t_scale, {"log_sigma": 0.1}, 2),
    (grouped, {"group": np.linspace(-1.0, 1.0, 9)}, 1), (two_sided, {}, 2), (hidden, {}, 3),
    (sum_only, {}, 2),
])  # fmt: skip
@pytest.mark.parametrize("order", [2, 3])
def test_predictors_are_counted_and_sums_are_those_of_lines(likelihood, more, count, order, rng):
    if "log_sigma" in more:
        x = rng.standard_normal((SIZE, 7))
        data = {"x": x, "y": rng.standard_normal(SIZE), "sigma": 1.0, "nu": 4.0}
        model = sm.Model(likelihood, data, {"beta": np.linspace(0.5, -0.5, 7), **more})
    else:
        model = model_of(likelihood, rng, **more)
    assert predictors_of(model) == (count, "")
    at = model.floats.copy()
    found, wanted = (sums_of(source(model, order), at) for source in (Found, Jets))
    for part in range(4):
        size = np.abs(wanted[part]).max(initial=0.0)
        np.testing.assert_allclose(found[part], wanted[part], rtol=1e-10, atol=1e-12 * size)
    outliers = np.array([3, 8, 301])
    for source in (found_source := Found(model, order), Jets(model, order)):
        sums_of(source, at)
    rest = [sums_of(s, at, Keep(outliers)) for s in (found_source, source)]
    for one, two in zip(*rest, strict=True):
        size = np.abs(two).max(initial=0.0)
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-11 * size)


@pytest.mark.plain
def test_plain_python_finds_them_too():
    rng = np.random.default_rng(0)
    for likelihood, count in ((logistic, 1), (two_sided, 2), (hidden, 3)):
        model = model_of(likelihood, rng, d=5, size=24)
        assert predictors_of(model) == (count, "")
        found, wanted = (sums_of(source(model, 3), model.floats.copy()) for source in (Found, Jets))
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12 * np.abs(two).max())


def test_third_order_of_forty_parameters(rng):
    """By hand: sums of f''' x x x, to 1e-10."""
    model = model_of(logistic, rng, d=40)
    x, e = model.data.x, model.data.x @ model.floats
    p = 1.0 / (1.0 + np.exp(-e))
    third = -p * (1.0 - p) * (1.0 - 2.0 * p)
    wanted = np.einsum("n,ni,nj,nk->ijk", third, x, x, x, optimize=True)
    control = sm.Taylor({"beta": model.floats}, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.way == (FOUND, "") and prepared.found == "found predictors of order 3"
    b, c = np.tril_indices(40)
    seen = prepared.sums.raced.s3[0] / np.where(b == c, 1.0, 2.0)
    np.testing.assert_allclose(seen, wanted[:, b, c], rtol=0.0, atol=1e-10 * np.abs(wanted).max())
    points = model.floats + 0.05 * rng.standard_normal((3, 40))
    bench = Bench(model, control, points)
    for arm in range(3):
        left = bench.values(arm).sum() - bench.means[arm] - bench.residuals(arm).sum()
        assert abs(left) <= 1e-12 * np.abs(bench.values(arm)).sum()


# --------------------------------------------------------------------------- what has none, and why
@pytest.mark.slow
def test_more_than_a_few_are_told(rng):
    model = model_of(factors, rng)
    control = sm.Taylor({"beta": model.floats}, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.way[0] == "jets" and prepared.found == "jets of order 3"
    assert "sees the parameters through more than 4 predictors" in control.text(model)
    exact(Bench(model, control, model.floats + 0.1 * rng.standard_normal((2, 8))))


@pytest.mark.slow
def test_a_row_that_differs_is_found_out(rng):
    """No sample of rows meets it; all rows are compared."""
    model = model_of(rare, rng)
    assert predictors_of(model) == (1, "")
    control = sm.Taylor({"beta": model.floats}, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.way[0] == "jets" and "datum 301" in prepared.way[1]
    assert "datum 301" in sm.Metropolis("beta", control=control).describe(model)
    exact(Bench(model, control, model.floats + 0.1 * rng.standard_normal((2, 8))))
    assert "why not better: datum 301" in str(sm.derivatives(model))


def test_what_is_not_confirmed_is_no_sum(rng, monkeypatch):
    """Mutants: a basis that lacks a predictor, or is not orthonormal, never passes."""
    model = model_of(two_sided, rng)
    whole = row_slopes.RowSlopes.find

    def lacking(self, first, weights):
        ranks = whole(self, first, weights)
        self.q[1] = 0.0
        return ranks

    def skewed(self, first, weights):
        ranks = whole(self, first, weights)
        self.q[0] *= 1.0 + 1e-4
        return ranks

    for mutant in (lacking, skewed):
        with monkeypatch.context() as patched:
            patched.setattr(derivatives_found.RowSlopes, "find", mutant)
            with pytest.raises(NoPredictorsError):
                sums_of(Found(model, 3), model.floats)
            prepared = prepared_for(model, sm.Taylor({"beta": model.floats}))
            assert prepared.way[0] == "jets" and prepared.way[1]


def test_without_looking_rows_differ_unseen(rng, monkeypatch):
    """What the comparison is for: without it the sums of `rare` would be wrong."""
    model = model_of(rare, rng)
    monkeypatch.setattr(derivatives_found, "compare", lambda *given: -1)
    monkeypatch.setattr(derivatives_found, "MOST", 4)
    off = sums_of(Found(model, 3), model.floats)[2] - sums_of(Jets(model, 3), model.floats)[2]
    assert np.abs(off).max() > 1e-9


# -------------------------------------------------------------------------------------------- draws
def test_exact_decisions_are_the_same(rng):
    """Bit for bit, with found predictors and without a control variate."""
    model, draws = model_of(logistic, rng, size=2000), []
    for control in (None, sm.Taylor({"beta": model.floats})):
        kernel = sm.Metropolis("beta", 0.05, selector=sm.Exact(), control=control, adapt=False)
        one = walker(model, kernel, seed=3)
        draws.append(one.advance(300).floats)
        assert one.error is None
    assert np.array_equal(*draws)


def test_what_is_prepared_can_be_sent(rng):
    model = model_of(logistic, rng)
    control = sm.Taylor({"beta": model.floats})
    prepared = prepared_for(model, control)
    again = pickle.loads(pickle.dumps(prepared))
    assert isinstance(again.source, Found) and again.way == prepared.way
    assert np.array_equal(again.sums.raced.s3, prepared.sums.raced.s3)


@pytest.mark.plain
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_derivatives_by_predictors_are_those_of_lines(count, rng):
    """The matrices that make partial derivatives of coefficients along lines."""
    turns, matrices, _ = derivatives_found.matrices_of(count, True)
    first, second = rng.standard_normal(count), rng.standard_normal((count,) * 2)
    third = rng.standard_normal((count,) * 3)
    second = second + second.T
    third = sum(np.transpose(third, p) for p in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0),
                                                 (2, 0, 1), (2, 1, 0)))  # fmt: skip
    along = np.zeros((1, 1 + len(turns), 4))
    for k, turn in enumerate(turns):
        along[0, 1 + k, 1:] = (
            first @ turn, turn @ second @ turn / 2.0,
            np.einsum("ijk,i,j,k", third, turn, turn, turn) / 6.0,
        )  # fmt: skip
    wanted = [*first, *(second[p] for p in multisets(range(count), 2)),
              *(third[p] for p in multisets(range(count), 3))]  # fmt: skip
    f = np.zeros((1, len(wanted)))
    row_slopes.fill_partials(along, matrices, f)
    np.testing.assert_allclose(f[0], wanted, atol=1e-12)
