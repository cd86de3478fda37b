"""Models with parameters of their own: ceilings at the current parameters say nothing of others."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM

MODELS, SHIFT = 16, 0.04


def eta(state, data, n):
    return state.theta[0] + SHIFT * (state.q[0] - 7.5) + state.theta[1] * data.x[n]


def log_factor(e, data, n):
    return -0.5 * (data.y[n] - e) * (data.y[n] - e)


def derivatives(e, data, n):
    return data.y[n] - e, -1.0, 0.0


def remainder(e, data, n):
    return 0.0, 0.0


@pytest.mark.skipif(DISABLED, reason="thousands of draws")
def test_thinned_draws_of_models_take_each_model_at_its_own_parameters():
    """16 lines that differ by a known shift: all have one evidence, and draws are uniform.

    Pseudo-priors are the posteriors, so each draw is independent of the one before. From the two in
    the middle it leads to the outer half as often as not; the parameters of those lie up to six
    standard deviations from where the chain is then, where their sums are far lower.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    model = sm.Model(
        sm.Predictors(eta, log_factor, derivatives, remainder),
        {"x": x, "y": rng.standard_normal(400)}, {"q": 0, "theta": np.zeros(2)},
        support={"q": MODELS}, lengths={"theta": ("q", (2,) * MODELS)},
    )  # fmt: skip
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(MODELS)]
    control = sm.Taylor(fits, order=2)
    kernel = sm.Gibbs("q", sm.Thinned(), control=control, pseudo=sm.PseudoPrior(fits))
    kernel = kernel >> sm.Metropolis("theta", selector=sm.Exact(), proposal=sm.pcn(fits, beta=0.9))
    trace = sm.sample(model, kernel, draws=8_000, warmup=0, chains=1, seed=1, progress=False)
    q = trace.draws["q"].ravel()
    for some in ((0, 1, 14, 15), (6, 7, 8, 9)):
        equal(int(np.isin(q, some).sum()), len(q), 0.25, ALARM)
    after = q[1:][np.isin(q[:-1], (7, 8))]
    equal(int(((after < 4) | (after > 11)).sum()), len(after), 0.5, ALARM)
