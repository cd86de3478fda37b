"""Sites whose priors read more than the mean that they go with: all of these count."""

from math import cos, log, pi, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM
from tests.helpers.models import walker

COUNT, SITES = 10_000, 4
WHICH = np.array([0, 0, 1, 1])


@sm.kernel(writes=("a", "dept"))
def fresh(rng, state, data):
    """Both from their prior."""
    total = 0.0
    for j in range(2):
        state.dept[j] = sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())
        total += state.dept[j]
    for i in range(4):
        state.a[i] = total + sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())


@pytest.mark.skipif(DISABLED, reason="thousands of moves")
def test_sites_that_stay_count_where_their_prior_reads_the_mean_that_moves():
    """Each site's mean is the sum of both of `dept`, and it moves with one of them.

    From draws of the prior, which no datum tells of, 20 moves lead to draws of it: of what a site
    differs from its mean by, half lies between the quartiles. False alarms once in 1e5.
    """
    model = sm.Model(
        lambda state, data, n: 0.0 * state.a[data.g[n]], {"g": np.arange(SITES)},
        {"a": np.zeros(SITES), "dept": np.zeros(2)},
        lambda state: -0.5 * (state.dept[0] ** 2 + state.dept[1] ** 2), touches={"a": "g"},
        site_prior={"a": lambda state, i: -0.5 * (state.a[i] - state.dept[0] - state.dept[1]) ** 2},
    )  # fmt: skip
    kernel = sm.interweave("a", location=("dept", WHICH))
    one = walker(model, fresh >> sm.repeat(kernel, 20))
    made = one.advance(COUNT)
    assert one.error is None, one.error
    draws = one.program.layout.draws(made.ints, made.floats)
    a, dept = draws["a"], draws["dept"]
    for i in range(SITES):
        inside = np.abs(a[:, i] - dept.sum(axis=1)) < 0.6744897501960817
        equal(np.count_nonzero(inside), COUNT, 0.5, ALARM)
    for j in range(2):
        equal(np.count_nonzero(np.abs(dept[:, j]) < 0.6744897501960817), COUNT, 0.5, ALARM)
