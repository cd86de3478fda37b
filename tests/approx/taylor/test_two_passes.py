"""Residuals in two passes: those of one pass, and of models that have no second."""

import math
import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import controls_of
from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.found import derivatives_found
from subsample_mcmc.approx.taylor.found.derivatives_found import Found
from subsample_mcmc.approx.taylor.found.two_passes import has_two_passes
from subsample_mcmc.approx.taylor.polynomial import (
    LIMITS,
    Sums,
    make_polynomial,
    polynomial_functions,
    terms,
)
from subsample_mcmc.approx.taylor.remainder import nothing
from subsample_mcmc.approx.taylor.taylor import FOUND
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.rewards import probe
from tests.helpers import plain_families as plain
from tests.helpers.marks import slow_but
from tests.helpers.plain_families import linear
from tests.helpers.tall import Bench, exact, opened

SIZE = 1500  # more than a mini-batch


# ------------------------------------------------------------------------------ with two passes
def helper(e, y):
    return y * e - sm.softplus(e)


def by_helper(state, data, n):
    return helper(np.dot(data.x[n], state.beta), data.y[n])


def sliced(state, data, n):
    """Part of a block, a block of two axes, and a discrete one."""
    e = data.x[n, :3] @ state.beta[:3] + state.table[data.group[n] % 2, data.group[n] % 3]
    return -((data.y[n] - e - 0.1 * state.shift[0]) ** 2) * math.exp(-2.0 * state.log_sigma[0])


def mixed(state, data, n):
    """Two log densities, of which one is far smaller for most data."""
    e = linear(state, data, n)
    return sm.logsumexp(-0.5 * (data.y[n] - e) ** 2, state.log_sigma[0] - 2.0)


def joined(state, data, n):
    """logsumexp of two affine numbers; the larger of two; a power; an offset before the loop."""
    e = data.y[n]
    for j in range(len(state.beta)):
        e += data.x[n, j] * state.beta[j]
    both = sm.logsumexp(e, state.log_sigma[0]) + max(e, state.beta[0])
    return -both - abs(state.beta[1]) - (3.0 + 0.1 * state.beta[2]) ** 1.5 + 0.1 * e


def vectors(state, data, n):
    """Array expressions."""
    return -sm.exp((data.x[n] * state.beta).sum() + 0.1 * np.sum(state.beta[2:4]))


# --------------------------------------------------------------------------- with no second pass
def twice(state, data, n):
    e = linear(state, data, n)
    return -sm.exp(e) - sm.exp(0.1 * e + 0.5 * state.beta[0] * data.y[n])


def compares(state, data, n):
    """Smooth, and goes two ways."""
    e = linear(state, data, n)
    if e > 0.0:
        return data.y[n] * e - e - sm.log1p(sm.exp(-e))
    return data.y[n] * e - sm.log1p(sm.exp(e))


def compares_later(state, data, n):
    """The same, of a number that is not affine."""
    z = sm.exp(0.1 * linear(state, data, n))
    return -sm.log1p(z) if z > 1.0 else -sm.log(1.0 + z)


def without_place(state, data, n):
    """Of every third datum nothing is a parameter: a number becomes a line, and bends."""
    e = 0.5
    for j in range(len(state.beta) if data.group[n] else 0):
        e += data.x[n, j] * state.beta[j]
    return -sm.exp(0.1 * e)


def loops(state, data, n):
    total = 0.0
    for k in range(2):
        total -= sm.exp(0.1 * (state.beta[k] + state.beta[k + 1] * data.x[n, k]))
    return total


def model_of(likelihood, d=6, **more):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((SIZE, d))
    data = {
        "x": x, "y": rng.integers(0, 3, SIZE) * 1.0, "group": np.arange(SIZE) % 3,
        "sigma": 1.1, "nu": 5.0, "dispersion": 3.0,
    }  # fmt: skip
    state = {"beta": np.linspace(0.4, -0.4, d), "log_sigma": 0.1, **more}
    return sm.Model(likelihood, data, state)


WITH = [
    plain.student_t, plain.student_t_scale, plain.gaussian_scale, plain.logistic,
    plain.logistic_by_hand, plain.poisson, plain.negative_binomial, by_helper, sliced, mixed,
    joined, vectors,
]  # fmt: skip
EACH = [(plain.poisson, 2), *((likelihood, 3) for likelihood in WITH)]
WITHOUT = [twice, compares, compares_later, without_place, loops]
MORE = {sliced: {"table": np.linspace(-0.3, 0.3, 6).reshape(2, 3), "shift": 0.0}}


def residuals(source, point, points) -> np.ndarray:
    """(points, rows) l - h less that at the first point, by a source's machine code."""
    model, d = source.model, len(point)
    third = np.zeros((1, d, d * (d + 1) // 2)) if source.order > 2 else np.zeros((0, d, 1))
    zeros = terms(np.zeros(1), np.zeros((1, d)), np.zeros((1, d, d)), third, np.zeros((1, LIMITS)))
    sums = Sums(point[None], np.array([d]), np.eye(d)[None], zeros, zeros, nothing(1, d))
    strides = np.zeros(len(model.ints), dtype=np.int64)
    bound = make_polynomial(model, sums, strides, len(points), source)
    functions = polynomial_functions(source.residuals, source.reading)
    controls = controls_of(model, functions, bound, len(points), np.zeros(0, dtype=np.int64))
    trial = probe(model, model.ints.copy(), point.copy(), points, controls)
    sum_of, read, _ = opened(functions)
    rows, found = np.arange(model.size, dtype=row_kind(model.size)), np.zeros((3, model.size))
    for arm in range(len(points)):
        sum_of(trial, arm)
        for first in range(0, model.size, CHUNK):
            part = slice(first, first + CHUNK)
            read(trial, arm, rows[part], found[arm, part])
    return found - found[0]


def sources_of(likelihood, order):
    """(in two passes, of lines, point, points around it, has it two passes)."""
    model = model_of(likelihood, **MORE.get(likelihood, {}))
    point = model.floats.copy()
    points = point + 0.3 * np.random.default_rng(5).standard_normal((3, len(point)))
    points[0] = point
    found = Found(model, order)
    two = has_two_passes(model, [point], lambda table: model.ints.copy())
    found.two_passes = True
    return found, Jets(model, order), point, points, two


@pytest.mark.filterwarnings("ignore::subsample_mcmc.errors.SlowMathWarning")
@pytest.mark.parametrize(
    ("likelihood", "order"),
    slow_but([(plain.poisson, 2), *((f, 3) for f in WITH[:4])], EACH),
)
def test_residuals_are_those_of_one_pass(likelihood, order):
    found, jets, point, points, two = sources_of(likelihood, order)
    assert two
    wanted = residuals(jets, point, points)
    assert np.abs(wanted).max() > 1e-4
    np.testing.assert_allclose(residuals(found, point, points), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("likelihood", WITHOUT)
def test_what_would_be_wrong_has_one_pass(likelihood):
    assert not sources_of(likelihood, 3)[-1]


def test_without_counting_it_would_be_wrong():
    """What the count is for: of two values at one place the second pass sees the last."""
    found, jets, point, points, _ = sources_of(twice, 3)
    off = residuals(found, point, points) - residuals(jets, point, points)
    assert np.abs(off).max() > 1e-2


def test_a_number_without_place_is_no_crash():
    """Where data are not what they were when they were looked at: an error, nothing is read."""
    found, _, point, points, _ = sources_of(without_place, 3)
    with pytest.raises(ArithmeticError, match="without place"):
        residuals(found, point, points)


def test_a_model_takes_them_and_goes_on_with_them(monkeypatch):
    """Also as it was sent to another process; and its sums are the exact ones."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)
    for likelihood, two in ((plain.poisson, True), (twice, False)):
        model = model_of(likelihood)
        point = model.floats.copy()
        points = point + 0.02 * np.random.default_rng(5).standard_normal((2, len(point)))
        values = map(np.array, model.state(model.ints, point))
        control = sm.Taylor(dict(zip(model.names, values, strict=True)))
        bench = Bench(model, control, points)
        source = bench.prepared.source
        assert bench.prepared.way == (FOUND, "") and source.two_passes is two
        assert source.constant is not two
        exact(bench)
        again = pickle.loads(pickle.dumps(bench.prepared)).source
        assert again.two_passes is two and again.constant is not two
