"""A datum at the end of a bin that rules a value out, which all others favour."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED

TOP = 1.0


def log_likelihood(state, data, n):
    if state.k[0] == 0:
        return 0.0
    return 0.01 + 0.05 * np.sin(700.0 * data.y[n]) if data.y[n] < TOP else -np.inf


@pytest.mark.skipif(DISABLED, reason="reads all data again and again")
@pytest.mark.parametrize("bins", [1, 100])
def test_one_row_that_rules_a_value_out_is_seen(bins):
    """20,000 rows favour k = 1 by 200 nats, and the last makes it impossible: it is never drawn.

    A race that reads some hundreds is sure. But ends of bins are looked at, and where one is
    possible at one arm alone, a race reads on: no false alarms.
    """
    y = np.append(np.random.default_rng(0).uniform(0.0, 0.99, 40_000), 1.01)
    model = sm.Model(log_likelihood, {"y": y}, {"k": 0}, support={"k": 2})
    kernel = sm.Gibbs("k", sm.Racing(), control=sm.Bins(bins=bins, outliers=0.0))
    trace = sm.sample(model, kernel, draws=50, warmup=0, chains=1, seed=1, progress=False)
    assert not trace.draws["k"].any()
