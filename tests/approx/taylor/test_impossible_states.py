"""States that a single datum rules out, by -inf, where the prior allows them: no estimate says so.

Points of a pilot at which some rows are -inf tell nothing of the size of residuals, and were left
out: sums alone decided, and 15% of the draws were of states of probability 0, with "yes".
"""

import warnings

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import pilot
from subsample_mcmc.target.sources.local import parts_of

SIZE = 5_000


def limited(state, data, n):
    if state.a[0] < data.low[n]:
        return -np.inf
    return data.y[n] * state.a[0] - sm.exp(state.a[0])


def model_of(seed, parts=False, log_prior=None):
    """Counts of rate 3, of which one says that the mode is within a deviation of the least."""
    rng = np.random.default_rng(seed)
    y = rng.poisson(3.0, SIZE).astype(float)
    mode, sd = np.log(y.mean()), y.sum() ** -0.5
    low = np.full(SIZE, -1e9)
    low[rng.integers(SIZE)] = mode - sd
    data = {"y": y, "low": low}
    given = parts_of(data, [2_000, 0, 3_000]) if parts else data
    return sm.Model(limited, given, {"a": mode}, log_prior), mode - sd


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("seed", [2, 5])
def test_no_draw_is_of_an_impossible_state(seed, parts, monkeypatch):
    """They are those of exact decisions; of the mutant some are impossible, or a run ends."""
    drawn = []
    for spoiled in (False, True):
        if spoiled:
            monkeypatch.setattr(pilot, "rule_out", lambda *_: False)
            monkeypatch.setattr(pilot, "NOTHING", np.nan)  # which no limit is beyond
        model, low = model_of(seed, parts)
        fit = sm.laplace(model, progress=False)
        run = {"draws": 500, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
        for selector in (sm.Racing(), sm.Exact()):
            kernel = sm.Metropolis("a", 0.1, sm.pcn(fit), selector, control=sm.Taylor(fit))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    trace = sm.sample(model, kernel, start=[fit.state] * 2, **run)
                except sm.RewardError:
                    assert spoiled and isinstance(selector, sm.Racing)
                    drawn.append(np.array([-np.inf]))
                else:
                    drawn.append(np.asarray(trace.draws["a"]))
    right, exact, wrong, _ = drawn
    assert right.min() >= low
    assert np.mean(right == exact) > 0.9
    assert wrong.min() < low


def test_what_the_prior_rules_out_bars_no_estimate():
    """There log likelihoods need not be numbers: chains never come there."""
    model, low = model_of(2)
    other, _ = model_of(2, log_prior=lambda state: -np.inf if state.a[0] < low else 0.0)
    known = []
    for one in (model, other):
        fit = sm.laplace(one, progress=False)
        sums = prepared_for(one, sm.Taylor(fit)).sums
        known.append(bool(sums.whole.limits[0, 5] < pilot.NOTHING))
    assert known == [False, True]
