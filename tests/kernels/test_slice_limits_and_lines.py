"""Slices whose bracket meets its limit, and lines of blocks that vary in length."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM
from tests.helpers.models import walker

COUNT, PARTS = 10_000, 10


@sm.kernel(writes=("theta",))
def anywhere(rng, state, data):
    """Uniform between 0 and 1."""
    state.theta[0] = rng.random()


@pytest.mark.skipif(DISABLED, reason="thousands of slices")
@pytest.mark.parametrize(("width", "most"), [(0.15, 3), (0.2, 2), (0.45, 1)])
def test_a_limit_is_shared_between_both_sides(width, most):
    """Of a uniform law, at whose ends all slices end: 20 steps from a draw lead to a draw.

    Brackets that may grow as far to the right as to the left keep a law in its middle, and make
    the ends rarer: .15 of the draws are in the outer fifth then. One false alarm in 3e5.
    """
    model = sm.Model(
        lambda state, data, n: 0.0, {"n": np.arange(2)}, {"theta": 0.5},
        lambda state: 0.0 if 0.0 < state.theta[0] < 1.0 else -np.inf,
    )  # fmt: skip
    kernel = sm.Slice("theta", width, sm.Exact(), most=most, adapt=False)
    one = walker(model, anywhere >> sm.repeat(kernel, 20))
    made = one.advance(COUNT)
    assert one.error is None, one.error
    theta = one.program.layout.draws(made.ints, made.floats)["theta"].ravel()
    outer = np.count_nonzero((theta < 0.1) | (theta > 0.9))
    equal(outer, COUNT, 0.2, ALARM)


LENGTHS = (1, 2, 4)


@sm.kernel(writes=("q",))
def held(rng, state, data):
    """The model stays as it is."""


def log_likelihood(state, data, n):
    value = data.y[n]
    for j in range(LENGTHS[state.q[0]]):
        value -= data.x[n, j] * state.theta[j]
    return -0.5 * value * value


@pytest.mark.skipif(DISABLED, reason="thousands of slices")
@pytest.mark.parametrize("k", [0, 1, 2])
def test_each_length_has_lines_of_its_own(k):
    """Along the lines of its fit a Gaussian's coordinates are drawn as if one by one.

    Along those of the shortest model the others would stand still. Deviations of 4,000 draws, with
    an effective size above 2,000, are within 1.6 % of the right ones: five of these are allowed.
    """
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 4))
    x[:, 1:] += 0.8 * x[:, :1]
    model = sm.Model(
        log_likelihood, {"x": x, "y": rng.standard_normal(40)}, {"q": k, "theta": np.zeros(4)},
        support={"q": 3}, lengths={"theta": ("q", LENGTHS)},
    )  # fmt: skip
    fits = [sm.laplace(model, "theta", given={"q": j}, progress=False) for j in range(3)]
    kernel = sm.Slice("theta", 4.0, sm.Exact(), adapt=False, along=fits)
    one = walker(model, held >> kernel)
    made = one.advance(4_000)
    assert one.error is None, one.error
    theta = one.program.layout.draws(made.ints, made.floats)["theta"][:, : LENGTHS[k]]
    right = np.sqrt(np.diag(np.linalg.inv(x[:, : LENGTHS[k]].T @ x[:, : LENGTHS[k]])))
    assert theta.std(axis=0) == pytest.approx(right, rel=0.08)
