"""Where no pilot of sm.Taylor has been, decisions read all data; and where it explains nothing."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import pilot, polynomial
from subsample_mcmc.numerics.jit import DISABLED, jit
from tests.helpers.claims import above, at_most

pytestmark = pytest.mark.skipif(DISABLED, reason="thousands of decisions by all data")

SIZE, DELTA, STEPS, CHAINS = 5_000, 0.001, 100, 40
ROOT = math.sqrt(SIZE)


def plateau(state, data, n):
    """Normal data; one row adds 20 nats from 5.3 standard deviations on, and nothing near by."""
    b = state.b[0]
    return -0.5 * (data.y[n] - b) ** 2 + data.w[n] * min(max(ROOT * b - 4.3, 0.0), 1.0)


def model_of_plateau():
    y, w = np.random.default_rng(0).standard_normal(SIZE), np.zeros(SIZE)
    w[17] = 20.0
    return sm.Model(plateau, {"y": y - y.mean(), "w": w}, {"b": 5.5 / ROOT})


CONTROL = sm.Taylor({"b": 0.0}, predict=False)
RACE = sm.Racing(delta=DELTA)
KERNELS = {
    "walk": lambda: sm.Metropolis("b", 4.0 / ROOT, selector=RACE, control=CONTROL, adapt=False),
    "slice": lambda: sm.Slice("b", 3.0 / ROOT, selector=RACE, control=CONTROL, adapt=False),
}  # fmt: skip


def wrong_of(kernel):
    """(steps with a wrong decision, steps) that begin 4.3 standard deviations off and farther."""
    trace = sm.sample(
        model_of_plateau(), kernel, STEPS, warmup=0, chains=CHAINS, seed=1, audit=1.0,
        progress=False,
    )  # fmt: skip
    draws, wrong = ROOT * trace.draws["b"], np.cumsum(trace.stats["b"]["wrong"], axis=1)
    before = np.column_stack([np.full(CHAINS, 5.5), draws[:, :-1]]) > 4.3
    return int((np.diff(wrong, prepend=0)[before] > 0).sum()), int(before.sum())


@pytest.mark.parametrize("name", KERNELS)
def test_chains_far_from_the_fit_do_not_lose_what_few_rows_say(name):
    assert len(CONTROL.always_read(model_of_plateau())) == 0  # no line was followed so far
    wrong, steps = wrong_of(KERNELS[name]())
    assert steps > 1_000
    at_most(wrong, steps, DELTA)


@pytest.mark.slow_for("walk")
@pytest.mark.parametrize("name", KERNELS)
def test_by_some_rows_they_would(name, monkeypatch):
    """The mutant: nothing counts as far."""

    @jit(inner="always")
    def never(trial, arm):
        return arm < 0

    monkeypatch.setattr(polynomial, "far", never)
    above(*wrong_of(KERNELS[name]()), DELTA, alarm=1e-4)


# ------------------------------------------------------------- control variates that explain little
def censored(state, data, n):
    z = (data.y[n] - state.b[0] - state.b[1] * data.x[n]) / state.s[0]
    if data.y[n] <= 0.0:
        return sm.log(0.5 * math.erfc(-z * math.sqrt(0.5)))
    return -0.5 * z * z - sm.log(state.s[0])


def of_one_above(size=3_000):
    """A censored regression of which one datum is above 0: the posterior is no Gaussian."""
    x, y = np.random.default_rng(4).standard_normal(size), np.zeros(size)
    x[0], y[0] = -2.0, 0.1
    return sm.Model(
        censored, {"x": x, "y": y}, {"b": np.array([-1.0, 0.0]), "s": 0.5},
        lambda state: -0.5 * np.sum(state.b**2) - state.s[0], constraints={"s": sm.positive},
    )  # fmt: skip


def shifted(size=SIZE):
    y = np.random.default_rng(0).standard_t(5, size)
    return sm.Model(
        lambda s, d, n: -3.0 * sm.log1p((d.y[n] - s.b[0]) ** 2 / 5.0), {"y": y}, {"b": 0.0}
    )


def test_what_explains_little_decides_nothing():
    """A race would go without it, and read as many rows as there are."""
    for model, slight in ((of_one_above(), True), (shifted(), False)):
        fit = sm.laplace(model, progress=False)
        control = sm.Taylor(fit)
        assert prepared_for(model, control).slight == slight
        kernel = sm.Metropolis(model.names, control=control).settled(model)
        assert isinstance(kernel.selector, sm.Exact if slight else sm.Racing)
        chosen = sm.Metropolis(model.names, control=control, selector=sm.Racing()).settled(model)
        assert isinstance(chosen.selector, sm.Racing)


def test_little_is_what_no_decision_trusts():
    """At half the usual distance, all configurations: as `trusted` of a decision asks."""
    limits, used = np.zeros((2, polynomial.LIMITS)), np.array([1, 4])
    parts = polynomial.Terms(*(np.zeros((2, 0)) for _ in polynomial.Terms._fields))
    parts = parts._replace(cubes=np.zeros(0), limits=limits)
    edge = 10.0 / (0.5**3 / 6.0), 10.0 / (1.0 / 6.0)  # sqrt(100) = 10 at .5 and at 1
    for first, second, little in ((1.01, 1.01, True), (0.99, 1.01, False), (1.01, 0.99, False)):
        limits[:, 4] = edge[0] * first, edge[1] * second
        assert pilot.explain_little(parts, used, 100) == little


@pytest.mark.slow
def test_defaults_of_tails_read_all_data():
    """Slices and walks by some rows ended in states that a row rules out: "yes", or an error."""
    kernel = sm.default_kernel(of_one_above(), progress=False)
    assert "no moves along the fit" in str(kernel)
    assert kernel.guarantee == "exact"
