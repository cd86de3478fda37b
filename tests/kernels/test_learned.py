"""Proposals around a Gaussian that warm-up learns: laws, mutants, tails, what they save."""

import inspect
import math
from types import SimpleNamespace

import arviz as az
import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels.base import NOW
from subsample_mcmc.kernels.proposals import learned
from subsample_mcmc.kernels.proposals.walk import no_numbers
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import pointer_to
from tests.helpers.groups import errors_of, sampled


# Two rates, from two and from four events: in log rates far from normal.
def exponential(state, data, n):
    return sm.log(state.rate[data.which[n]]) - state.rate[data.which[n]] * data.y[n]


def rates():
    data = {"y": np.array([0.5, 1.5, 1.0, 1.0, 0.2, 1.8]), "which": np.array([0, 0, 1, 1, 1, 1])}
    state = {"rate": np.ones(2)}
    return sm.Model(exponential, data, state, lambda s: -(s.rate**2).sum() * 0.0,
                    constraints={"rate": sm.positive})  # fmt: skip


def off(trace):
    """Standard errors that the rates are off their gamma laws; beyond 5 once in 10^5 runs."""
    rate, found = np.asarray(trace.draws["rate"])[0], []
    for k, count, total in ((0, 2, 2.0), (1, 4, 4.0)):
        law = stats.gamma(count + 1.0, scale=1.0 / total)
        found += errors_of(stats.norm.ppf(law.cdf(rate[:, k])))
    return max(found)


def kernel_of(proposal, **more):
    return sm.Metropolis("rate", proposal=proposal, selector=sm.Exact(), **more)


def test_the_law_is_kept():
    trace = sampled(rates(), kernel_of(sm.pcn()), 40_000)
    assert off(trace) < 5.0
    assert 0.5 < trace.stats["rate"]["accepted"].mean() < 0.95


MUTANTS = {
    "the Gaussian is not corrected for": (
        "return gaussian(rng, of_one(known.beta, which), known.numbers, now, which, u, v)",
        "return 0.0 * gaussian(rng, of_one(known.beta, which), known.numbers, now, which, u, v)",
    ),
    "the coin sees the state": (
        "rng.random() < (WARM if now.warm == 1 else WALKS)",
        "u[0] < known.numbers.mean[0, 0]",
    ),
    "walks are corrected, too": ("        return 0.0\n", "        return 2.0 * (u[0] - v[0])\n"),
}


def mutated(old, new):
    """sm.pcn() with a mistake in it."""
    source = inspect.getsource(learned)
    assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
    scope = {"__name__": "mutant", "__file__": learned.__file__}
    exec(compile(source.replace(old, new), "<mutant of learned.py>", "exec"), scope)
    return scope["Learned"]()


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name):
    trace = sampled(rates(), kernel_of(mutated(*MUTANTS[name])), 40_000)
    assert off(trace) > 7.0


def test_nothing_is_learnt_after_warm_up():
    model, kernel = rates(), kernel_of(sm.pcn())
    short, long = (sampled(model, kernel, n, 400).draws["rate"] for n in (500, 2_000))
    assert np.array_equal(short, np.asarray(long)[:, :500])
    few, many = (sampled(model, kernel, n, 400)._states[0] for n in (10, 2_000))
    for name in ("gaussian_mean", "gaussian_columns", "window", "beta", "walk"):
        key = f"kernel 0.{name}"
        assert np.array_equal(few[key], many[key]) and few[key].any(), name


def watched(values, window=None, warmup=0, ended=None):
    """What is known after these values, one an iteration; window: the end of the first.

    ended: where it is noted of each value whether it ends a window.
    """
    d, ended = values.shape[1], np.zeros(len(values)) if ended is None else ended
    run = SimpleNamespace(keep=lambda name, array: array)
    known = learned.learned_numbers(run, no_numbers(SimpleNamespace(free=d)), 1, d, True)
    known.window[0, learned.END] = window or len(values)
    now = np.zeros(1, dtype=NOW).view(np.recarray)
    now.warm, now.warmup = 1, warmup
    watch_all(pointer_to(known), pointer_to(values), pointer_to(now), ended)
    return known


@jit
def watch_all(known, values, now, ended):
    for i in range(len(values)):
        now[0].iteration += 1
        learned.watch(known, 0, values[i], now[0])
        ended[i] = known.window[0, learned.SEEN] == 0.0


def worth(values):
    """Of how many independent values, by what each number keeps from one to the next."""
    jumps = (np.diff(values, axis=0) ** 2).sum(axis=0) / values.var(axis=0) / len(values)
    kept = max(0.0, (1.0 - 0.5 * jumps).max())
    return len(values) * (1.0 - kept) / (1.0 + kept)


@pytest.mark.plain
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
def test_what_values_are_worth_is_their_effective_number(kept, rng):
    noise = rng.standard_normal((20_000, 2))
    for i in range(1, len(noise)):  # the second number forgets at once
        noise[i, 0] = kept * noise[i - 1, 0] + math.sqrt(1.0 - kept**2) * noise[i, 0]
    assert worth(noise) == pytest.approx(20_000 * (1.0 - kept) / (1.0 + kept), rel=0.1)
    assert worth(noise) == pytest.approx(float(az.ess(noise[None, :, 0], method="mean")), rel=0.25)


@pytest.mark.plain
def test_values_that_keep_to_each_other_make_a_wider_gaussian(rng):
    free = rng.standard_normal((400, 2))
    slow = np.repeat(free[::8], 8, axis=0)  # 50 values, each of them eight times
    for values in (free, slow):
        lower = watched(values).numbers.columns[0].T
        wider = (1.0 + learned.WIDER / math.sqrt(2)) ** 2 + learned.DRAWS / worth(values)
        np.testing.assert_allclose(lower @ lower.T, wider * np.cov(values.T, bias=True))
    assert 15 < worth(slow) < 40 and worth(free) > 300


@pytest.mark.plain
@pytest.mark.parametrize(("warmup", "expected"), [
    (0, [50, 150, 350, 750]),  # an unknown end: each window is twice the one before
    (1_000, [50, 150, 350, 800]),  # one of 400 would leave too few for another
    (500, [50, 150, 400]),
    (200, [50, 150]),  # ten are left: not worth a wait
    (80, [64]),
    (40, []),
])  # fmt: skip
def test_the_last_window_takes_what_is_left(warmup, expected, rng):
    values = rng.standard_normal((warmup or 1_000, 1))
    ended = np.zeros(len(values))
    watched(values, 50, warmup, ended)
    assert (np.flatnonzero(ended) + 1).tolist() == expected


@pytest.mark.plain
def test_another_gaussian_is_tried_at_its_own_scale(rng):
    run = watched(rng.standard_normal((100, 3)))
    for tuning, first in ((run.beta, 0.0), (run.walk, math.log(learned.OPTIMAL / math.sqrt(3)))):
        step = tuning.step[0]
        assert step[learned.LOG_STEP] == step[learned.AVERAGE] == pytest.approx(first)
        assert step[learned.WEIGHT] == step[learned.STEPS] == 0.0


@pytest.mark.plain
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_factor_is_that_of_the_covariance(d, rng):
    values = rng.standard_normal((300, d)) @ rng.standard_normal((d, d)) + 3.0
    known = watched(values)
    wider = (1.0 + learned.WIDER / math.sqrt(d)) ** 2 + learned.DRAWS / worth(values)
    lower = known.numbers.columns[0].T
    np.testing.assert_allclose(lower @ lower.T, wider * np.atleast_2d(np.cov(values.T, bias=True)))
    np.testing.assert_allclose(known.numbers.mean[0], values.mean(axis=0))
    assert np.array_equal(lower, np.tril(lower)) and known.window[0].tolist() == [
        0.0,
        600.0,
        1.0,
        300.0,
    ]
    assert not known.cross.any() and not known.mean.any() and not known.jumps.any()


@pytest.mark.plain
def test_values_on_a_line_have_no_gaussian(rng):
    x = rng.standard_normal(100)
    known = watched(np.stack([x, 2.0 * x], axis=1))
    assert known.window[0].tolist() == [0.0, 200.0, 0.0, 100.0] and not known.numbers.columns.any()


def student(state):
    return -1.5 * math.log1p(state.b[0] ** 2 / 2.0)  # two degrees of freedom


def flat(state, data, n):
    return 0.0 * data.y[n]


def test_tails_heavier_than_the_gaussian_are_visited():
    model = sm.Model(flat, {"y": np.zeros(3)}, {"b": 0.0}, student)
    trace = sampled(model, sm.Metropolis("b", proposal=sm.pcn(), scale=2.0), 100_000, 2_000)
    b = np.asarray(trace.draws["b"]).ravel()
    z = stats.norm.ppf(stats.t(2).cdf(b))
    assert max(errors_of(z)) < 5.0
    beyond, share = np.abs(b) > 8.0, 2.0 * stats.t(2).sf(8.0)
    error = beyond.std() / np.sqrt(float(az.ess(beyond[None].astype(float), method="mean")))
    assert 0 < error < 0.5 * share and abs(beyond.mean() - share) < 5.0 * error


def correlated(state, data, n):
    a, b = state.b[0], state.b[1]
    return (-0.5 * (a + b) ** 2 - 500.0 * (a - b - data.y[n]) ** 2) / len(data.y)


def test_correlations_are_learnt():
    model = sm.Model(correlated, {"y": np.zeros(20)}, {"b": np.zeros(2)})
    found = {}
    for name, proposal in (("walk", None), ("learnt", sm.pcn())):
        kernel = sm.Metropolis("b", proposal=proposal, selector=sm.Exact())
        values = np.asarray(sampled(model, kernel, 4_000).draws["b"])[..., 0]
        found[name] = float(az.ess(values))
    assert found["learnt"] > 1_500.0 > 10.0 * found["walk"]


@pytest.mark.plain
@pytest.mark.parametrize("given", [{"beta": 0.5}, {"defensive": 0.0}, {"covariance": np.eye(2)}])
def test_what_goes_with_a_mean_is_refused_without(given):
    with pytest.raises(TypeError, match=r"are about a mean: give a fit, sm.pcn\(fit, beta=0.5\)"):
        sm.pcn(**given)


@pytest.mark.plain
def test_too_many_numbers_are_refused():
    model = sm.Model(flat, {"y": np.zeros(3)}, {"b": np.zeros(501)}, lambda s: -(s.b**2).sum())
    with pytest.raises(ValueError, match="at most 500 free coordinates: block 'b' has 501"):
        sm.Metropolis("b", proposal=sm.pcn()).describe(model)
