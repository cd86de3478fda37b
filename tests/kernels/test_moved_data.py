"""Joint moves that read data: every selector decides as exact sums do, and runs are runs.

Where a race is all but sure, its chain is that of exact decisions, draw for draw. Where rows are
drawn by weight, moments are compared with quadrature, in Monte Carlo errors of 50 batch means: one
comparison in 100,000 fails.
"""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.models.glm import families
from tests.helpers.laws import ALARM
from tests.helpers.runs import same

LIMIT, BATCHES = 5.0, 50
NAMES = ("slope", "level")


def eta(state, data, n):
    return state.level[0] + state.slope[0] * data.x[n]


def prior(state):
    return -0.5 * state.level[0] ** 2 - state.slope[0]


def logistic(size=1_000):
    """A logistic line, whose slope is positive: residuals of a Taylor polynomial are bounded."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, size)
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(0.5 - 0.8 * x))).astype(float)
    given = sm.Predictors(
        eta, families.logistic, families.logistic_derivatives, families.logistic_remainder
    )
    state = {"level": -0.5, "slope": 0.8}
    return sm.Model(given, {"x": x, "y": y}, state, prior, constraints={"slope": sm.positive})


@pytest.fixture(scope="module")
def line():
    """The model, its fit, and the moments of the posterior by quadrature."""
    model = logistic()
    fit, data = sm.laplace(model), model.data
    (mean, covariance), nodes = fit.gaussian(NAMES), np.linspace(-6.0, 6.0, 121)
    u = [mean[i] + nodes * np.sqrt(covariance[i, i]) for i in (0, 1)]
    slope, level = np.exp(u[0])[:, None], u[1][None, :]
    log_density = -0.5 * level**2 - slope + u[0][:, None]  # with the Jacobian of log slope
    for x, y in zip(data.x, data.y, strict=True):
        at = level + slope * x
        log_density = log_density + y * at - np.logaddexp(0.0, at)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    values = moments(slope + 0.0 * level, level + 0.0 * slope)
    return model, fit, (weight * values).sum(axis=(1, 2))


def moments(slope, level):
    return np.stack([slope, level, slope**2, level**2, slope * level])


def right(trace, wanted):
    """Fail if the draws' moments are not those of the posterior."""
    found = moments(trace.draws["slope"], trace.draws["level"]).reshape(len(wanted), BATCHES, -1)
    means = found.mean(axis=2)
    error = means.std(axis=1, ddof=1) / np.sqrt(BATCHES)
    away = (means.mean(axis=1) - wanted) / error
    assert np.abs(away).max() < LIMIT, away
    assert np.all(error < 0.05 * found.std(axis=(1, 2)))  # close enough to tell


def sampled(model, kernel, draws=10_000, **more):
    given = {"warmup": 500, "chains": 1, "seed": 5, "progress": False} | more
    return sm.sample(model, kernel, draws=draws, **given)


@pytest.mark.slow_for("pcn")
@pytest.mark.parametrize("kind", ["pcn", "langevin", "own order"])
def test_thinned(line, kind):
    model, fit, wanted = line
    control = sm.Taylor(fit)
    kernel = {
        "pcn": sm.Metropolis(NAMES, proposal=sm.pcn(fit, beta=0.9), control=control),
        "langevin": sm.Langevin(NAMES, control=control),
        "own order": sm.Metropolis(
            NAMES[::-1], proposal=sm.independence(fit), selector=sm.Thinned(), control=control
        ),
    }[kind]
    assert "Thinned()" in kernel.describe(model)
    trace = sampled(model, kernel, draws=20_000)
    right(trace, wanted)
    told = trace.stats["+".join(kernel.writes)]
    assert told["accepted"].mean() > 0.5
    assert told["pulls"].sum() < 0.2 * told["everything"].sum()


def test_a_fit_in_another_order_is_not_the_fit(line):
    """The mutant of the above: free coordinates of one block given to the other."""
    model, fit, _ = line
    mean, covariance = fit.gaussian(NAMES)
    there, back = fit.gaussian(NAMES[::-1])
    assert np.array_equal(mean, there[::-1]) and np.array_equal(covariance, back[::-1, ::-1])
    swapped = sm.independence(there, back, defensive=0.0)
    rates = []
    for proposal in (sm.independence(fit, defensive=0.0), swapped):
        kernel = sm.Metropolis(NAMES, proposal=proposal, selector=sm.Exact())
        trace = sampled(model, kernel, draws=500, warmup=0)
        rates.append(trace.stats["slope+level"]["accepted"].mean())
    assert rates[0] > 0.8 and rates[1] < 0.1


@pytest.mark.parametrize("kind", ["walk", "slice"])
def test_betting_is_exact_draw_for_draw(line, kind):
    model, fit, _ = line
    race = sm.Racing(sm.Betting(), delta=1e-9, batch=32, retreat=False)
    make = sm.Metropolis if kind == "walk" else sm.Slice
    raced = make(NAMES, selector=race, control=sm.Taylor(fit))
    draws = 3_000 if kind == "walk" else 300
    found = sampled(model, raced, draws)
    exact = sampled(model, make(NAMES, selector=sm.Exact()), draws)
    for name in NAMES:
        assert np.array_equal(found.draws[name], exact.draws[name])
    told = found.stats["slope+level"]
    assert told["pulls"].sum() < 0.5 * told["everything"].sum()


@pytest.mark.parametrize("family", [sm.models.glm.gaussian, sm.models.glm.student_t])
def test_races_with_an_unknown_scale(family):
    """Coefficients and log sigma as one: decisions err no more often than delta says."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(4_000), rng.standard_normal(4_000)])
    y = x @ [0.5, -1.0] + 0.7 * rng.standard_normal(4_000)
    model = family(x, y, sigma=None)
    fit = sm.laplace(model)
    kernel = sm.Metropolis(
        ("beta", "log_sigma"), proposal=sm.pcn(fit, beta=0.8), control=sm.Taylor(fit),
        selector=sm.Racing(delta=0.01),
    )  # fmt: skip
    trace = sampled(model, kernel, 3_000, audit=1.0, warmup=100)
    told = trace.stats["beta+log_sigma"]
    wrong, decisions = told["wrong"].sum(), told["audited"].sum()
    assert decisions > 2_500
    assert stats.binom.sf(wrong - 1, decisions, 0.01) > ALARM
    assert told["accepted"].mean() > 0.9
    assert told["pulls"].sum() < 0.2 * told["everything"].sum()
    sd = np.sqrt(np.diag(fit.covariance))
    drawn = np.concatenate([trace.draws["beta"][0], trace.draws["log_sigma"][0, :, None]], axis=1)
    error = 4.0 * sd / np.sqrt(trace.shape[1] / 10.0)
    assert np.all(np.abs(drawn.mean(axis=0) - fit.mean) < error)
    assert np.all(np.abs(drawn.std(axis=0) / sd - 1.0) < 0.25)


@pytest.mark.slow
def test_a_gradient_relative_to_a_reference_of_all_blocks(line):
    model, fit, wanted = line
    for control in (fit, fit.state):
        kernel = sm.Langevin(NAMES, control=control, batch=50, selector=sm.Exact())
        right(sampled(model, kernel, draws=20_000), wanted)
    with pytest.raises(ValueError, match="changes with the other blocks"):
        sm.Langevin("slope", control=fit, batch=50, selector=sm.Exact()).check(model)


# ------------------------------------------------------------------------------- runs are runs
def kernel_of(fit):
    walk = sm.Metropolis(NAMES, control=sm.Taylor(fit))
    pcn = sm.Metropolis(NAMES[::-1], proposal=sm.pcn(fit), selector=sm.Exact())
    return sm.mixture((walk, 0.6), (sm.repeat(pcn, 2), 0.4))


def test_resumed_and_parallel_runs_are_the_same(line, tmp_path):
    model, fit, _ = line
    kernel = kernel_of(fit)
    whole = sampled(model, kernel, 200, chains=2, warmup=150)
    sampled(model, kernel, 120, chains=2, warmup=150, store=tmp_path / "run.nc")
    on = sm.resume(tmp_path / "run.nc", model, kernel_of(fit), draws=200, progress=False)
    assert same(whole, on)
    assert same(whole, sampled(model, kernel, 200, chains=2, warmup=150, cores=1))
    with pytest.raises(ValueError, match="composition of kernels"):
        sm.resume(
            tmp_path / "run.nc", model, sm.Metropolis(NAMES), draws=300, progress=False
        )  # fmt: skip


@pytest.mark.slow
def test_processes_make_the_same_draws(line):
    pytest.importorskip("joblib")
    model, fit, _ = line
    there = sampled(model, kernel_of(fit), 50, chains=2, warmup=50, parallel="loky", cores=2)
    assert same(sampled(model, kernel_of(fit), 50, chains=2, warmup=50), there)


def test_a_plan(line):
    model, fit, _ = line
    kernel = sm.Metropolis(NAMES, proposal=sm.pcn(fit))
    found = sm.plan(model, kernel, {"taylor": sm.Taylor(fit)}, steps=200, warmup=50, seed=1)
    assert set(found.to_frame()["kernel"]) == {"slope+level"}
    assert "slope+level" in " ".join(found.advice)
