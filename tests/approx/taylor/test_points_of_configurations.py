"""Interpolation, of many configurations of the discrete blocks: points that all of them share."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_stencil import Stencil
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.approx.taylor.references import configuration, strides_of
from subsample_mcmc.numerics.progress import Bar

LEVELS, BAR = 12, Bar(total=1)
NO_ROWS = Keep(np.zeros(0, dtype=np.int64))


@pytest.fixture(scope="module")
def model():
    y = 0.4 + np.random.default_rng(0).standard_t(4, 3000)
    return sm.Model(
        grid, {"y": y}, {"k": 3, "sigma": 1.0}, support={"k": LEVELS},
        constraints={"sigma": sm.positive},
    )  # fmt: skip


def grid(state, data, n):
    z = (data.y[n] - 0.1 * state.k[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


def of_all(model, scales):
    """A source whose configurations have references of their own."""
    source, strides = Stencil(model, LEVELS), strides_of(model)
    for table, scale in enumerate(scales):
        source.sums(configuration(strides, table), np.array([scale]), NO_ROWS, BAR, table)
    return source


def test_points_are_made_once_for_all_looks_and_chains(model):
    """They were made anew for each look at one configuration: of 1,000, a million matrices."""
    source = of_all(model, np.full(LEVELS, 1.1))
    ints, floats = model.ints.copy(), model.floats.copy()
    bound = [source.bind(ints, floats, np.zeros((1, 1)))[0] for _ in range(2)]
    assert bound[0].probe.candidates is bound[1].probe.candidates
    assert bound[0].inverse is bound[1].inverse
    assert bound[0].values is not bound[1].values  # what chains write into stays theirs


def test_points_follow_their_references(model):
    """Sums around another reference, and what is restored from a file, have points of their own."""
    source = of_all(model, np.full(LEVELS, 1.1))
    source.of_all()  # made, and then no more right
    moved = np.linspace(0.8, 1.4, LEVELS)
    for table, scale in enumerate(moved):
        ints = configuration(strides_of(model), table)
        source.sums(ints, np.array([scale]), NO_ROWS, BAR, table)
    points, inverse = source.of_all()
    assert np.array_equal(points.reshape(LEVELS, 3)[:, 0], moved)
    wanted = of_all(model, moved)
    assert np.array_equal(points, wanted.of_all()[0])
    assert np.array_equal(inverse[:, 0, 0], 1.0 / wanted.factors[:, 0, 0])
    source.restore(of_all(model, moved[::-1]).kept())
    assert np.array_equal(source.of_all()[0].reshape(LEVELS, 3)[:, 0], moved[::-1])
