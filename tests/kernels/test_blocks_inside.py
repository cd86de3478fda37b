"""Own proposals of two blocks: each block has its own set, in whichever order they are named."""

from math import cos, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM
from tests.helpers.models import walker

COUNT = 10_000


@sm.kernel(writes=("p", "b"))
def fresh(rng, state, data):
    """p uniform between 0 and 1, b normal of deviation 2."""
    state.p[0] = rng.random()
    state.b[0] = 2.0 * sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())


def both(rng, current, out):
    out.p[0] = current.p[0] + 0.8 * (rng.random() - 0.5)
    out.b[0] = current.b[0] + 4.0 * (rng.random() - 0.5)


@pytest.mark.skipif(DISABLED, reason="thousands of steps")
@pytest.mark.parametrize("names", [("p", "b"), ("b", "p")])
def test_each_block_stays_within_its_own_set(names):
    """From draws of the law 20 steps lead to draws of it; each count cries wolf once in 1e6.

    Within the first block's ends b would not come above 1, or p would.
    """
    model = sm.Model(
        lambda state, data, n: 0.0, {"n": np.arange(2)}, {"p": 0.5, "b": 0.0},
        lambda state: -0.125 * state.b[0] ** 2, constraints={"p": sm.interval(0.0, 1.0)},
    )  # fmt: skip
    kernel = sm.Metropolis(names, selector=sm.Exact(), proposal=both)
    one = walker(model, fresh >> sm.repeat(kernel, 20))
    made = one.advance(COUNT)
    assert one.error is None, one.error
    draws = one.program.layout.draws(made.ints, made.floats)
    p, b = draws["p"].ravel(), draws["b"].ravel()
    assert p.min() > 0.0 and p.max() < 1.0
    equal(np.count_nonzero(p < 0.5), COUNT, 0.5, ALARM)
    equal(np.count_nonzero(b > 1.0), COUNT, float(stats.norm.sf(0.5)), ALARM)
    equal(np.count_nonzero(b < -1.0), COUNT, float(stats.norm.sf(0.5)), ALARM)
