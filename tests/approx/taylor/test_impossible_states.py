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
            monkeypatch.setattr(pilot, "no_numbers", lambda *_: False)
            monkeypatch.setattr(pilot, "NO_ESTIMATE", np.nan)  # which no limit is beyond
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
    assert abs(right.mean() - exact.mean()) < 0.2 * exact.std()
    assert wrong.min() < low


D = 6


def half_space(state, data, n):
    total = 0.0
    for j in range(D):
        total += state.b[j]
    if total < data.low[n]:
        return -np.inf
    value = 0.0
    for j in range(D):
        value += data.x[n, j] * state.b[j]
    return data.y[n] * value - sm.exp(value)


def test_nor_where_no_line_that_is_looked_along_meets_the_row(monkeypatch):
    """Between the coordinates: it is not always read, and a race would not meet it either."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((SIZE, D)) * 0.4
    y = rng.poisson(np.exp(x @ np.full(D, 0.1))).astype(float)
    low = np.full(SIZE, -1e9)
    free = sm.Model(half_space, {"x": x, "y": y, "low": low}, {"b": np.zeros(D)})
    fit = sm.laplace(free, progress=False)
    # 1.5 standard deviations along the diagonal, where lines along coordinates come to 1.2.
    low[17] = fit.mean.sum() - 1.5 * np.sqrt(fit.covariance.sum())
    shares, known = [], pilot.bar_estimates
    for spoiled in (False, True):
        if spoiled:
            monkeypatch.setattr(pilot, "bar_estimates", lambda *given: known(*given[:2], False))
        model = sm.Model(half_space, {"x": x, "y": y, "low": low}, {"b": fit.mean})
        own = sm.laplace(model, progress=False)
        control = sm.Taylor(own)
        assert 17 not in control.always_read(model)
        kernel = sm.Metropolis("b", 0.1, sm.pcn(own), sm.Racing(), control=control)
        # One chain: where it ends, draws do not depend on how far another one has come.
        run = {"draws": 1_000, "warmup": 0, "chains": 1, "seed": 1, "progress": False, "audit": 0.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trace = sm.sample(model, kernel, start=[own.state], **run)
            except sm.RewardError as error:  # both arms are impossible: it came there
                assert spoiled
                trace = error.trace
        shares.append(float(np.mean(trace.draws["b"].sum(axis=-1) < low[17])))
    assert shares[0] == 0.0 and shares[1] > 0.01, shares


def test_what_the_prior_rules_out_bars_no_estimate():
    """There log likelihoods need not be numbers: chains never come there."""
    model, low = model_of(2)
    other, _ = model_of(2, log_prior=lambda state: -np.inf if state.a[0] < low else 0.0)
    known = []
    for one in (model, other):
        fit = sm.laplace(one, progress=False)
        sums = prepared_for(one, sm.Taylor(fit)).sums
        known.append(bool(sums.whole.limits[0, 5] < pilot.NO_ESTIMATE))
    assert known == [False, True]
