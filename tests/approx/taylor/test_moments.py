"""Moments of predictors, block by block: against sums without rounding, and plain formulas."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement as multisets

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_predictors import Linear, cubic
from subsample_mcmc.approx.taylor.passes.moments import add_rows, apart, numbers_of, places
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.dyadic import BLOCK, Tree, blocks_of

UNIT = 2.0**-53  # by which a sum, or a product, of two numbers is off, at most
DEEP = 8  # additions between a row and the sum of its block
BAR = Bar(delay=1e9)
glm = sm.models.glm


def moments_of(q, f, values, weights, order):
    """What the package makes of a block of rows."""
    sums = np.zeros(numbers_of(q.shape[2], order > 2))
    where = pointer_to(places(len(q), order))
    add_rows(where, q, f, values, weights, sums)
    return sums


def short_numbers(rng, *shape):
    """Numbers of ten bits, of all sizes: products of five of them do not round."""
    return rng.integers(-1023, 1024, shape) * 2.0 ** rng.integers(-6, 6, shape)


def terms_of(q, f, values, order):
    """For each number of the sums, the terms of all rows, an array for each pair or triple."""
    p, where, d = len(q), places(len(q), order), q.shape[2]
    found, third = [[values]], []
    found += [[f[:, k] * q[k, :, a] for k in range(p)] for a in range(d)]
    for a, b in zip(*np.tril_indices(d), strict=True):
        pairs = [(k, l, q[k, :, a] * q[l, :, b]) for k in range(p) for l in range(p)]
        found.append([f[:, where.second[k, l]] * both for k, l, both in pairs])
        each = [(where.third[k, l, m], m, both) for k, l, both in pairs for m in range(p)]
        for c in range(b + 1) if order > 2 else ():
            third.append([f[:, at] * both * q[m, :, c] for at, m, both in each])
    return found + third


@pytest.mark.parametrize("rows", [1, 37, 255, 256])
@pytest.mark.parametrize("d", [1, 2, 5, 12])
@pytest.mark.parametrize("order", [2, 3])
def test_sums_of_a_block_round_as_often_as_their_tree_is_deep(rng, rows, d, order):
    """One predictor: products are exact here, so the error is that of eight additions."""
    q, f = short_numbers(rng, 1, rows, d), short_numbers(rng, rows, 3)
    values = short_numbers(rng, rows)
    found = moments_of(q, f, values, np.ones(rows), order)
    each = terms_of(q, f, values, order)
    assert len(each) == len(found)
    for value, (terms,) in zip(found, each, strict=True):
        size = math.fsum(np.abs(terms))
        assert abs(value - math.fsum(terms)) <= DEEP * UNIT * size


@pytest.mark.parametrize("p", [2, 3, 4])
@pytest.mark.parametrize("order", [2, 3])
def test_several_predictors(rng, p, order):
    """Products of two or three predictors with their derivatives: a few roundings more."""
    rows, d = 100, 3
    q, f = rng.standard_normal((p, rows, d)), rng.standard_normal((rows, places(p, order).used))
    values = rng.standard_normal(rows)
    found = moments_of(q, f, values, np.ones(rows), order)
    for value, terms in zip(found, terms_of(q, f, values, order), strict=True):
        all_terms = np.concatenate(terms)
        size = math.fsum(np.abs(all_terms))
        # Three products, and sums over the rows, and thrice over predictors; the test's products.
        assert abs(value - math.fsum(all_terms)) <= (DEEP + 3 + 3 * p + 3) * UNIT * size


def test_products_of_ordinary_numbers(rng):
    """Against sums of rational numbers: three products and eight additions."""
    rows, d = 256, 3
    q, f = rng.standard_cauchy((1, rows, d)), rng.standard_normal((rows, 3))
    found = moments_of(q, f, f[:, 0], np.ones(rows), 3)
    at = numbers_of(d, False)
    exact = [[Fraction(float(v)) for v in row] for row in q[0]]
    triples = [(a, b, c) for a in range(d) for b in range(a + 1) for c in range(b + 1)]
    for value, (a, b, c) in zip(found[at:], triples, strict=True):
        terms = [
            Fraction(float(g)) * x[a] * x[b] * x[c] for g, x in zip(f[:, 2], exact, strict=True)
        ]
        bound = (DEEP + 3.01) * UNIT * float(sum(map(abs, terms)))
        assert abs(Fraction(float(value)) - sum(terms)) <= bound


def test_rows_that_are_left_out_may_hold_anything(rng):
    rows, d = 200, 3
    q, f = rng.standard_normal((2, rows, d)), rng.standard_normal((rows, places(2, 3).used))
    values, weights = rng.standard_normal(rows), np.ones(rows)
    out = [3, 77, 199]
    weights[out] = 0.0
    wild_q, wild_f, wild = q.copy(), f.copy(), values.copy()
    q[:, out], f[out], values[out] = 0.0, 0.0, 0.0
    wild_q[:, out], wild_f[out], wild[out] = np.inf, np.nan, -np.inf
    found = moments_of(wild_q, wild_f, wild, weights, 3)
    assert np.array_equal(found, moments_of(q, f, values, np.ones(rows), 3))


def test_numbers_far_out_are_multiplied_in_an_order_that_does_not_overflow(rng):
    """x^3 is beyond all numbers, and the derivative, as of a saturated row, is next to 0."""
    q, f = np.full((1, 256, 2), 1e110), np.full((256, 3), 1e-300)
    found = moments_of(q, f, np.zeros(256), np.ones(256), 3)
    assert np.allclose(found[numbers_of(2, False) :], 256 * 1e30, rtol=1e-14)


def test_sums_are_taken_apart(rng):
    """Into arrays with room for more coordinates, pairs of unlike ones counted twice."""
    rows, d, room = 64, 4, 6
    q, f = rng.standard_normal((1, rows, d)), rng.standard_normal((rows, 3))
    values = rng.standard_normal(rows)
    s0, s1, s2, s3 = apart(moments_of(q, f, values, np.ones(rows), 3), d, room)
    x = np.zeros((rows, room))
    x[:, :d] = q[0]
    b, c = np.tril_indices(room)
    pairs = x[:, b] * x[:, c] * np.where(b == c, 1.0, 2.0)
    assert np.isclose(s0, values.sum(), rtol=1e-14)
    assert np.allclose(s1, f[:, 0] @ x, rtol=0.0, atol=1e-12)
    assert np.allclose(s2, np.einsum("n,na,nb->ab", f[:, 1], x, x), rtol=0.0, atol=1e-12)
    wanted = np.einsum("n,na,nq->aq", f[:, 2], x, pairs)
    inside = d * (d + 1) // 2  # of the pairs, those of coordinates that are there come first
    assert np.allclose(s3[:d, :inside], wanted[:d, :inside], rtol=0.0, atol=1e-12)
    assert not s3[d:].any() and not s3[:, inside:].any()


# ------------------------------------------------------------------------------------- families
def real(eta, rng):
    return eta + rng.standard_normal(len(eta))


def zero_one(eta, rng):
    return (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


def count(eta, rng):
    return rng.poisson(np.exp(np.minimum(eta, 3.0))).astype(float)


def classes(eta, rng):
    return rng.integers(0, 4, len(eta)).astype(float)


FAMILIES = {
    "gaussian": (lambda x, y: glm.gaussian(x, y, 0.7), real),
    "gaussian, sigma unknown": (lambda x, y: glm.gaussian(x, y, sigma=None), real),
    "student_t": (lambda x, y: glm.student_t(x, y, 3.0), real),
    "student_t, sigma unknown": (lambda x, y: glm.student_t(x, y, sigma=None), real),
    "logistic": (glm.logistic, zero_one),
    "probit": (glm.probit, zero_one),
    "cloglog": (lambda x, y: glm.cloglog(x, y, exposure=1.0 + x[:, 0] ** 2), zero_one),
    "binomial": (lambda x, y: glm.binomial(x, y, 99), count),
    "poisson": (lambda x, y: glm.poisson(x, y, offset=0.1 * x[:, 0]), count),
    "negative_binomial": (lambda x, y: glm.negative_binomial(x, y, 2.0), count),
    "gamma": (
        lambda x, y: glm.gamma_regression(x, y, 2.0), lambda eta, rng: np.exp(0.1 * real(eta, rng))
    ),
    "hurdle": (glm.hurdle_poisson, count),
    "softmax": (lambda x, y: glm.softmax(x, y, 4), classes),
}  # fmt: skip
LAYOUTS = {
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x,
    "columns": np.asfortranarray,
}


def plain_terms(model, point, order):
    """(q, f, values) of all rows, by the functions as they are, uncompiled."""
    given, n = model.predictors, model.size
    state = model.state(model.ints, point)
    etas = [given.eta(state, model.data, i) for i in range(n)]
    p, d = np.size(etas[0]), len(point)
    used = places(p, order).used
    f = np.array([np.ravel(given.derivatives(e, model.data, i))[:used] for i, e in enumerate(etas)])
    values = np.array([given.log_factor(e, model.data, i) for i, e in enumerate(etas)])
    q, zero = np.zeros((p, n, d)), np.zeros(d)
    for j in range(d):
        unit = zero.copy()
        unit[j] = 1.0
        there, here = model.state(model.ints, unit), model.state(model.ints, zero)
        for i in range(n):
            q[:, i, j] = np.subtract(
                given.eta(there, model.data, i), given.eta(here, model.data, i)
            )
    return q, f, values


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name, layout):
    """All sums are those of plain formulas: slopes are differences, and so round a little."""
    make, draw = FAMILIES[name]
    rng = np.random.default_rng(len(name))
    x = rng.standard_normal((300, 2)) * [1.0, 2.0]
    x = LAYOUTS[layout](np.column_stack([np.ones(300), x]) if name != "gamma" else x)
    y = draw(x @ np.resize([0.2, -0.4, 0.3], x.shape[1]), rng)
    model = make(x, y.astype(x.dtype))
    order = 3 if cubic(model) else 2
    point = model.floats + rng.uniform(-0.5, 0.5, len(model.floats))
    source, keep = Linear(model, order, True, point), Keep(np.array([5, 299]))
    tree = source.some_sums(model.ints, point, keep, BAR, 0, blocks_of(300))
    found = tree.root(blocks_of(300))
    q, f, values = plain_terms(model, point, order)
    kept = keep(0, 300) > 0.0
    for value, terms in zip(found, terms_of(q[:, kept], f[kept], values[kept], order), strict=True):
        all_terms = np.concatenate(terms)
        assert abs(value - math.fsum(all_terms)) <= 3e-14 * (math.fsum(np.abs(all_terms)) + 1e-3)


@pytest.mark.parametrize("d", range(1, 13))
def test_every_number_of_coefficients(d):
    """Logistic regression; rows that fill no block, the tree by hand."""
    rng = np.random.default_rng(d)
    x = rng.standard_normal((700, d))
    model = glm.logistic(x, zero_one(x.sum(axis=1), rng))
    point = rng.uniform(-1.0, 1.0, d)
    found = Linear(model, 3, False, point).sums(model.ints, point, Keep(np.zeros(0, int)), BAR)
    p = 1.0 / (1.0 + np.exp(-(x @ point)))
    f = np.stack([model.data.y - p, -p * (1.0 - p), -p * (1.0 - p) * (1.0 - 2.0 * p)], axis=1)
    values = np.where(model.data.y == 1.0, np.log(p), np.log1p(-p))
    tree = Tree()
    for block in range(3):
        rows = slice(block * BLOCK, (block + 1) * BLOCK)
        some = values[rows]
        tree.add_blocks(
            block, moments_of(x[None, rows], f[rows], some, np.ones(len(some)), 3)[None]
        )
    wanted = apart(tree.root(3), d, d)
    for one, other in zip(found, wanted, strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-11)
    third = sum(1 for _ in multisets(range(d), 3))
    assert numbers_of(d, True) - numbers_of(d, False) == third
