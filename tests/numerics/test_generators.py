"""Generators reach compiled code by address: an interrupt while numba takes one apart is fatal."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED

Y = np.random.default_rng(1).normal(size=300)


def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - state.k[0]) ** 2


def log_factor(data, arm, n):
    return -abs(data.y[n] - arm)


def pull(arm, rng):
    return rng.normal() + arm


@pytest.fixture
def handed_over(monkeypatch):
    """Names of the compiled functions that Python called with a Generator."""
    from numba.core import dispatcher

    seen, typed = [], dispatcher._DispatcherBase.typeof_pyval

    def within(value):
        alone = isinstance(value, np.random.Generator)
        return alone or (isinstance(value, tuple) and any(map(within, value)))

    def noted(self, value):
        if within(value):
            seen.append(self.py_func.__qualname__)
        return typed(self, value)

    monkeypatch.setattr(dispatcher._DispatcherBase, "typeof_pyval", noted)
    return seen


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_no_generator_is_handed_over_by_value(handed_over):
    model = sm.Model(
        log_likelihood, {"y": Y}, {"mu": 0.0, "k": 0}, support={"k": 3},
        simulate=lambda rng, s, d, n: s.mu[0] + rng.normal(),
    )  # fmt: skip
    kernel = sm.Metropolis("mu") >> sm.Slice("mu") >> sm.Langevin("mu") >> sm.Gibbs("k")
    trace = sm.sample(model, kernel, 30, 30, chains=2, seed=1, progress=False)
    sm.predict(model, trace, seed=1, progress=False)
    population = sm.Population(log_factor, {"y": Y}, arms=3)
    for selector in (sm.Racing(), sm.Exact(), sm.SequentialHalving(budget=300)):
        sm.draw(population, 5, selector, seed=1)
    for compiled in (False, True):
        sm.identify(
            pull, 3, sm.LilUCB(scale=1.0), max_pulls=200, compiled=compiled, seed=1, progress=False
        )
    experiment = sm.Experiment(sm.LilUCB(scale=1.0), 3, seed=1)
    for _ in range(20):
        experiment.tell(float(experiment.ask()))
    assert not handed_over
