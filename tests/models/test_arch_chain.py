"""ARCH of unknown order, from data to probabilities: calibrated, and as bridge sampling says.

Simulation-based calibration: orders and parameters from the prior, returns given them by the
model's own likelihood (the first of them are fixed, and conditioned on). Then, over data sets, the
true order is k as often as the posterior probabilities of k add up to.
"""

import warnings

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.chain import Walker
from tests.benchmarks import arch_bridge
from tests.helpers.models import walker

pytestmark = pytest.mark.slow

SETS, SIZE, ORDERS = 200, 300, (1, 2, 3)
NU, ALPHA = (8.0, 1.0), (2.0, 12.0)  # Gamma priors under which most series stay where they are
FAR = 4.9  # standard deviations: 1e-6 on both sides
FIRST = (0.3, -0.4, 0.5)  # returns that are conditioned on


def simulated(rng):
    """An order of the prior, and returns given it."""
    k = int(rng.integers(len(ORDERS)))
    nu = rng.gamma(NU[0], 1.0 / NU[1])
    a = rng.gamma(ALPHA[0], 1.0 / ALPHA[1], ORDERS[k] + 1)
    r = np.empty(SIZE)
    r[: len(FIRST)] = FIRST
    z = rng.standard_t(nu, SIZE)
    for t in range(len(FIRST), SIZE):
        r[t] = z[t] * np.sqrt(a[0] + a[:0:-1] @ r[t - ORDERS[k] : t] ** 2)
    return k, r


def kernel(fits, selector, control):
    """Carlin-Chib, an independence sampler, and a walk, which goes where Gaussians are too thin."""
    given = {"selector": selector, "control": control}
    return (
        sm.Gibbs("q", pseudo=sm.PseudoPrior(fits), **given)
        >> sm.Metropolis("theta", proposal=sm.independence(fits), **given)
        >> sm.Metropolis("theta", 0.06, adapt=False, **given)
    )


def shares(model, selector, known, seed, draws):
    """Posterior probabilities of the orders: shares of visits of a chain."""
    fits = [
        sm.laplace(model, "theta", given={"q": k}, progress=False).matched(draws=500, seed=seed)
        for k in range(len(ORDERS))
    ]
    control = sm.Taylor(fits, order=2) if known else None
    one = walker(model, kernel(fits, selector, control), seed)
    one.floats[:] = fits[0].point
    one.advance(100, warm=True)
    made = one.advance(draws)
    assert one.error is None, one.error
    return np.bincount(made.ints[:, 0], minlength=len(ORDERS)) / draws


def calibrated(selector, known, draws=600):
    """Standardised sums of (true order is k) - p_k."""
    excess, variance = np.zeros(len(ORDERS)), np.zeros(len(ORDERS))
    sharp = 0.0
    for seed in range(SETS):
        k, r = simulated(np.random.default_rng((71, seed)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of means that are not 0, and Hessians near edges
            model = sm.models.arch.ARCH(r, ORDERS, nu_prior=NU, alpha_prior=ALPHA)
            p = shares(model, selector, known, seed, draws)
        excess += (np.arange(len(ORDERS)) == k) - p
        variance += p * (1.0 - p)
        sharp += p[k]
    return excess / np.sqrt(variance), sharp / SETS


@pytest.mark.parametrize("name", ["exact", "raced"])
def test_posterior_probabilities_are_calibrated(name):
    selector = sm.Exact() if name == "exact" else sm.Racing(delta=0.05, batch=16, retreat=False)
    z, sharp = calibrated(selector, known=False)
    assert np.abs(z).max() < FAR
    assert sharp > 0.45  # and say something: a third would be nothing


# -------------------------------------------------------------------------- against bridge sampling
KNOWN = (1, 3, 5)


@pytest.fixture(scope="module")
def bridged():
    """Returns of order 3, their log evidences by bridge sampling, and errors."""
    r = sm.models.arch.simulate(1505, (0.4, 0.12, 0.06, 0.05), 6.0, seed=12)
    r = r - r.mean()
    found = [arch_bridge.evidence(r, q, KNOWN[-1], replicates=5, draws=4000)[:2] for q in KNOWN]
    logs, errors = map(np.array, zip(*found, strict=True))
    return sm.models.arch.ARCH(r, KNOWN), logs, errors


@pytest.fixture(scope="module")
def fits(bridged):
    model = bridged[0]
    made = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(3)]
    return [fit.matched() for fit in made]


def test_matched_evidences_are_those_of_the_bridge(bridged, fits):
    _, logs, errors = bridged
    mine = np.array([fit.log_evidence for fit in fits])
    own = 0.02  # of 4,000 draws of which a quarter count
    prior = -np.log(3.0)  # of the orders, part of the model's
    assert np.all(np.abs(mine - prior - logs) < 3.5 * np.hypot(errors, own))


@pytest.mark.parametrize("name", ["exact", "raced"])
def test_orders_are_as_probable_as_the_bridge_says(bridged, fits, name):
    """Visits under a tilt towards equal shares, undone: log probabilities and their errors."""
    model, logs, errors = bridged
    control = sm.Taylor(fits)
    selector = sm.Exact() if name == "exact" else sm.Racing(delta=0.05)
    given = {"selector": selector, "control": control}
    kernel = (
        sm.Gibbs("q", pseudo=sm.PseudoPrior(fits), **given)
        >> sm.mixture(
            (sm.Metropolis("theta", proposal=sm.independence(fits), **given), 0.5),
            (sm.Langevin("theta", **given), 0.5),
        )
        >> sm.WangLandau("q", start=[-fit.log_evidence for fit in fits])
    )
    trace = sm.sample(
        model, kernel, draws=8000, warmup=2000, chains=4, seed=5, progress=False, audit=0.1,
        start=[{"theta": fits[0].point}] * 4,
    )  # fmt: skip
    found = trace.model_probabilities("q").table
    best = int(np.argmax(logs))
    p = logs - logs[best] - np.log(np.exp(logs - logs[best]).sum())
    # Of log p_k by the delta method: its own evidence's error, and the sum's.
    slopes = np.eye(3) - np.exp(p)
    error = np.sqrt((slopes**2 @ errors**2) + found["log_probability_se"].to_numpy() ** 2)
    assert error.max() < 0.15
    assert np.all(np.abs(found["log_probability"].to_numpy() - p) < 3.5 * error)
    told = trace.stats["q"]
    assert told["accepted"].mean() > 0.3  # matched Gaussians in cube roots: q moves
    if name == "raced":
        assert told["pulls"].sum() < 0.6 * told["everything"].sum()
        wrong, audited = told["wrong"].sum(), told["audited"].sum()
        assert stats.binom.sf(wrong - 1, audited, 0.05) > 1e-6


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_one_compiled_model_serves_all_data_sets():
    """Other returns of the same length compile nothing."""
    from numba.core.event import install_recorder

    compiled = []
    for seed in range(2):
        with install_recorder("numba:compile") as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = simulated(np.random.default_rng(seed))[1]
            model = sm.models.arch.ARCH(r, ORDERS, nu_prior=NU, alpha_prior=ALPHA)
            walk = sm.Metropolis("theta", 0.05, selector=sm.Exact())
            one: Walker = walker(model, stay >> walk)
            one.advance(2)
        compiled.append(len(recorder.buffer))
    assert compiled[1] == 0


@sm.kernel(writes="q")
def stay(rng, state, data):
    """For chains of one order."""
