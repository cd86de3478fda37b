"""Langevin goes where its gradient does not: into heavier tails, and beside bounds."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import langevin
from subsample_mcmc.numerics.jit import DISABLED

SIZE, RARE = 300, 6


def rare_level():
    """A logistic regression whose level in 6 rows has successes only: a long tail to the right."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(SIZE), np.arange(SIZE) < RARE])
    y = (rng.random(SIZE) < 0.3).astype(float)
    y[:RARE] = 1.0
    return x, y, sm.models.glm.logistic(x, y)


def tail_of(x, y, model, level=0.95):
    """The quantile of the level's coefficient, on a grid."""
    a, b = np.linspace(-2.0, 0.5, 121)[:, None], np.linspace(-4.0, 60.0, 6401)[None]
    many = model.data.x[RARE:, 0].size
    logp = y[RARE:].sum() * a - many * np.logaddexp(0.0, a)
    logp = logp + RARE * (a + b) - RARE * np.logaddexp(0.0, a + b)

    def prior(a, b):
        return model.log_prior(model.state(model.ints, np.array([a, b])))

    logp = logp + [[prior(one, 0.0)] for one in a[:, 0]]
    logp = logp + np.array([prior(0.0, one) for one in b[0]])
    p = np.exp(logp - logp.max()).sum(axis=0)
    return float(np.interp(level, np.cumsum(p) / p.sum(), b[0]))


def beyond(model, quantile, draws, seed=1):
    """The share of draws beyond a quantile, and its standard error by batches."""
    fit = sm.laplace(model, progress=False)
    kernel = sm.Langevin("beta", selector=sm.Exact(), control=sm.Taylor(fit))
    trace = sm.sample(model, kernel, draws, 1000, chains=4, seed=seed, progress=False)
    batches = (trace.draws["beta"][:, :, 1] > quantile).reshape(4 * 10, -1).mean(axis=1)
    return batches.mean(), batches.std(ddof=1) / np.sqrt(len(batches))


@pytest.mark.skipif(DISABLED, reason="a few million steps")
def test_tails_are_entered_and_left():
    """5% of the posterior lie beyond: found to half a percent or so. |z| of 40 batches below 6."""
    x, y, model = rare_level()
    share, error = beyond(model, tail_of(x, y, model), 100_000)
    assert error < 0.008
    assert abs(share - 0.05) < 6.0 * error


@pytest.mark.skipif(DISABLED, reason="a few million steps")
def test_without_walks_and_uncut_gradients_tails_are_not_seen(monkeypatch):
    """The mutant is exact, too, and never there: that is what the test above is for."""
    monkeypatch.setattr(sm.Langevin, "walks", 0.0)
    monkeypatch.setattr(langevin, "LONGEST", 0.0)
    x, y, model = rare_level()
    share, _ = beyond(model, tail_of(x, y, model), 100_000)
    assert share < 0.01


def beside_a_bound():
    """The share of draws of Gamma(.5, 5) in the upper thousandth of it, and its standard error.

    In free coordinates, log t, the gradient grows without end to the right.
    """
    model = sm.Model(
        lambda state, data, n: -data.y[n] * state.t[0], {"y": np.ones(5)}, {"t": 0.1},
        lambda state: -0.5 * np.log(state.t[0]), constraints={"t": sm.positive},
    )  # fmt: skip
    kernel = sm.Langevin("t", batch=5, selector=sm.Exact())
    t = sm.sample(model, kernel, 100_000, 1000, chains=4, seed=1, progress=False).draws["t"]
    shares = (stats.gamma(0.5, scale=0.2).cdf(t.reshape(40, -1)) > 0.999).mean(axis=1)
    return shares.mean(), shares.std(ddof=1) / np.sqrt(40)


@pytest.mark.skipif(DISABLED, reason="a few hundred thousand steps")
def test_tails_are_entered_where_a_gradient_has_no_end():
    """|z| of 40 batches below 6."""
    share, error = beside_a_bound()
    assert error < 0.0003
    assert abs(share - 0.001) < 6.0 * error
    assert share > 0.0004


@pytest.mark.skipif(DISABLED, reason="a few hundred thousand steps")
def test_without_walks_they_are_not(monkeypatch):
    monkeypatch.setattr(sm.Langevin, "walks", 0.0)
    assert beside_a_bound()[0] < 0.0002


def test_it_says_so():
    _, _, model = rare_level()
    kernel = sm.Langevin("beta", control=sm.Taylor(sm.laplace(model, progress=False)))
    assert "reads no data, one step in eight without" in kernel.describe(model)
    assert "batch 20, one step in eight" in sm.Langevin("beta", batch=20).describe(model)
    assert "one step" not in sm.Langevin("beta", step=0.1, correct=False).describe(model)
