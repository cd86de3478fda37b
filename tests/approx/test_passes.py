"""Passes over all rows: the same to the last bit, however many threads, and wherever rows lie."""

import math
from itertools import pairwise

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import coordinates
from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.derivatives_predictors import REMAINDERS, Linear
from subsample_mcmc.approx.taylor.derivatives_stencil import Stencil, stencil
from subsample_mcmc.approx.taylor.derivatives_user import Given
from subsample_mcmc.approx.taylor.found.derivatives_found import Every, Found
from subsample_mcmc.approx.taylor.references import some_totals, totals_at
from subsample_mcmc.approx.taylor.taylor import Keep
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target import dyadic
from subsample_mcmc.target.dyadic import BLOCK, RowBlocks, Tree, blocks_of

SIZES = (1, 255, 256, 257, 5000)
POINT = np.array([0.1, -0.2, 0.3])
BAR = Bar(delay=1e9)


# -------------------------------------------------------------------------------------- models
def data_of(size):
    """Columns whose sums round: of a few sizes."""
    rng = np.random.default_rng(size)
    x = rng.standard_normal((size, 3)) * [1.0, 0.3, 3.0]
    return {"x": x, "y": (rng.random(size) < 0.4).astype(float)}


def eta(state, data, n):
    return state.b[0] * data.x[n, 0] + state.b[1] * data.x[n, 1] + state.b[2] * data.x[n, 2]


def log_factor(eta, data, n):
    return data.y[n] * eta - sm.log1p(sm.exp(eta))


def remainder(eta, data, n):
    return 0.0963, 0.125


def log_likelihood(state, data, n):
    return log_factor(eta(state, data, n), data, n)


def derivatives(state, data, n, gradient, hessian):
    p = 1.0 / (1.0 + sm.exp(-eta(state, data, n)))
    for j in range(3):
        gradient[j] = (data.y[n] - p) * data.x[n, j]
        for k in range(3):
            hessian[j, k] = -p * (1.0 - p) * data.x[n, j] * data.x[n, k]


def model_of(data, predictors=False):
    """Logistic regression on three columns, plain or by predictors."""
    shown = sm.Predictors(eta, log_factor, remainder=remainder)
    return sm.Model(
        shown if predictors else log_likelihood,
        data,
        state={"b": np.zeros(3)},
        log_prior=lambda state: -0.5 * (state.b[0] ** 2 + state.b[1] ** 2 + state.b[2] ** 2),
    )


# ---------------------------------------------------------------------------------- the passes
# Each gives the tree of some blocks of a model whose first row begins block `origin` of all rows.
def shifted(keep, origin):
    """Weights of the rows of a partition."""
    return lambda first, last: keep(origin * BLOCK + first, origin * BLOCK + last)


def linear_sums(model, origin, keep, first, last):
    source = Linear(model, 3, True, model.floats)
    source.restore((WIDTHS,))
    return source.some_sums(model.ints, POINT, keep, BAR, first, last, origin)


def linear_remainders(model, origin, keep, first, last):
    source = Linear(model, 3, True, model.floats)
    source.restore((WIDTHS,))
    none = np.linalg.inv(np.diag([30.0, 10.0, 90.0]))
    return source.some_remainders(model.ints, POINT, keep, BAR, none, None, first, last, origin)


def jet_sums(model, origin, keep, first, last):
    source, lines = Jets(model, 3), np.eye(3)
    groups = source.states(model.ints, POINT, np.concatenate([lines, lines + lines[[1, 2, 0]]]))
    return source.some_totals(groups, source.blocks, keep, BAR, 1.0, first, last, origin)


def found_sums(model, origin, keep, first, last):
    source, scales = Found(model, 3), np.array([0.03, 0.1, 0.01])
    away = np.array([0.3, -0.2, 1.0])
    return source.some_sums(model.ints, POINT, keep, scales, away, BAR, first, last, origin)


def given_sums(model, origin, keep, first, last):
    source = Given(model, derivatives, True)
    return source.some_sums(model.ints, POINT, keep, BAR, first, last, origin)


def exact_totals(model, origin, keep, first, last):
    points = POINT + 0.01 * stencil(3)
    return some_totals(model, model.ints, points, first, last, origin)


def rises(model, origin, keep, first, last):
    blocks, values = RowBlocks([(0, model.size)]), POINT + 0.01 * stencil(3)
    return coordinates.rises(model, origin, model.ints, values, blocks, first=first, last=last)


WIDTHS = np.array([1e-2])
PASSES = [
    linear_sums, linear_remainders, jet_sums, found_sums, given_sums, exact_totals, rises,
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("a_pass", PASSES)
def test_any_partition_gives_the_same_bits(a_pass, size):
    """Partitions are models of their own, of whole blocks, some of them of none."""
    data, rng, blocks = data_of(size), np.random.default_rng(7), blocks_of(size)
    outliers = np.arange(3, size, 97)
    keep, combine = Keep(outliers), REMAINDERS if a_pass is linear_remainders else np.add
    by_predictors = a_pass in (linear_sums, linear_remainders)

    def tree_of(ends):
        tree = Tree(combine)
        order = rng.permutation(len(ends) - 1)
        for first, last in zip(np.array(ends[:-1])[order], np.array(ends[1:])[order], strict=True):
            rows = slice(first * BLOCK, last * BLOCK)
            if first < last:
                own = model_of({name: v[rows] for name, v in data.items()}, by_predictors)
                found = a_pass(own, int(first), shifted(keep, int(first)), 0, blocks_of(own.size))
                tree.merge(found.nodes())
        return tree.root(blocks)

    whole = tree_of([0, blocks])
    assert np.all(np.isfinite(whole)) and np.any(whole != 0.0)
    for parts in (2, 3, 7):
        ends = sorted(rng.integers(0, blocks + 1, parts - 1).tolist())
        assert np.array_equal(tree_of([0, *ends, blocks]), whole)


def every_result(model, by_predictors):
    """What passes say of a model, from its sums to a fit."""
    outliers, found = np.arange(3, model.size, 97), []
    keep = Keep(outliers)
    if by_predictors:
        source = Linear(model, 3, True, model.floats)
        found += source.sums(model.ints, POINT, keep, BAR)
        inverse = np.linalg.inv(np.diag([30.0, 10.0, 90.0]))
        scores = np.zeros(model.size, dtype=np.float32)
        found += [source.remainders(model.ints, POINT, keep, BAR, inverse, scores), scores.copy()]
        found.append(source.row_bounds(model.ints, POINT, BAR, inverse))
        source.score(model.ints, POINT, BAR, inverse, scores)
        found.append(scores)
    else:
        for source in (Jets(model, 3), Found(model, 3)):
            found += source.sums(model.ints, POINT, Every(), BAR)
            found += source.sums(model.ints, POINT, keep, BAR)
        for source in (Given(model, derivatives, True), Stencil(model, 1)):
            found += source.sums(model.ints, POINT, keep, BAR)
        found.append(totals_at(model, model.ints, POINT + 0.01 * stencil(3)))
    fit = sm.laplace(model, progress=False)
    return [*found, fit.mean, fit.covariance, fit.log_density, fit.log_evidence]


@pytest.mark.parametrize("by_predictors", [True, False])
@pytest.mark.parametrize("size", [256, 257, 60_000])
def test_threads_and_their_parts_change_nothing(size, by_predictors, monkeypatch):
    model, rng = model_of(data_of(size), by_predictors), np.random.default_rng(1)
    monkeypatch.setattr(dyadic, "threads", lambda: 1)
    wanted = every_result(model, by_predictors)

    def uneven(first, last, workers, fewest=0):
        ends = [first, *np.sort(rng.integers(first, last + 1, 4)).tolist(), last]
        return list(pairwise(ends))

    for count, ranges in ((2, dyadic.ranges), (3, dyadic.ranges), (2, uneven), (3, uneven)):
        monkeypatch.setattr(dyadic, "threads", lambda count=count: count)
        monkeypatch.setattr(dyadic, "ranges", ranges)
        for one, other in zip(wanted, every_result(model, by_predictors), strict=True):
            assert np.array_equal(one, other)


def test_sums_are_as_exact_as_rounding_allows():
    """Against math.fsum of every row's number: within a few units of the last place."""
    data = data_of(5000)
    model = model_of(data, predictors=True)
    e = data["x"] @ POINT
    p = 1.0 / (1.0 + np.exp(-e))
    values = data["y"] * e - np.log1p(np.exp(e))
    slopes = (data["y"] - p) * data["x"][:, 2]
    bends = -p * (1.0 - p) * data["x"][:, 2] * data["x"][:, 1]
    given = Given(model_of(data), derivatives, True)
    s0, s1, s2, _ = given.sums(model.ints, POINT, Every(), BAR)
    for found, rows in ((s0, values), (s1[2], slopes), (s2[2, 1], bends)):
        assert abs(found - math.fsum(rows)) < 20 * np.finfo(float).eps * np.abs(rows).sum()
    s0, _, _, _ = Linear(model, 2, True, model.floats).sums(model.ints, POINT, Every(), BAR)
    assert abs(s0 - math.fsum(values)) < 20 * np.finfo(float).eps * np.abs(values).sum()
