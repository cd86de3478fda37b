"""Coefficients that are certain in the fit are asked in few sweeps, on or off alike."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels import spikes
from tests.helpers.groups import sampled
from tests.kernels.test_columns import kernel_of
from tests.kernels.test_spikes import enumerated, lines, off


@pytest.mark.parametrize("by_column", [True, False])
def test_what_is_seldom_asked_is_so_whether_it_is_on_or_off(rng, monkeypatch, by_column):
    """In a quarter of all sweeps; 5 standard errors: a false alarm once in 10^5."""
    monkeypatch.setattr(spikes, "HOPELESS", 0.0)
    monkeypatch.setattr(spikes, "SELDOM", 0.25)
    model, x, y = lines(rng)
    exact = sm.SpikeAndSlab("beta", "gamma", sm.laplace(model, "beta"), sm.Exact())
    trace = sampled(model, kernel_of(model) if by_column else exact, 40_000, 100)
    gamma, told = np.asarray(trace.draws["gamma"])[0], trace.stats["beta+gamma"]
    asked = told["decisions"].sum() - gamma.sum()  # but for fresh values
    assert 0.2 < asked / gamma.size < 0.3
    assert off(trace, *enumerated(x, y)) < 5.0
