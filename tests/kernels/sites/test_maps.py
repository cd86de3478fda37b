"""Levels of neighbouring areas, whose differences are rows of data: moved against their mean.

Rows of differences never see the mean beside the levels; data decide about moves of all levels, and
find nothing to object to. With normal data the posterior is normal.
"""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.defaults.hierarchies import interwoven

WIDE = 4
AREAS = WIDE * WIDE


def edges():
    """Pairs of areas of a square that touch each other."""
    number = np.arange(AREAS).reshape(WIDE, WIDE)
    right = np.column_stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
    down = np.column_stack([number[:-1].ravel(), number[1:].ravel()])
    return np.concatenate([right, down])


PAIRS = edges()
Y = 2.0 + np.random.default_rng(3).standard_normal(AREAS)
TAU, WEAK = 0.6, 0.01  # of differences; precision of a level by itself


def seen(state, data, n):
    if data.kind[n] == 0:
        return -0.5 * (data.y[n] - state.mu[0] - state.phi[data.a[n]]) ** 2
    return -0.5 * ((state.phi[data.a[n]] - state.phi[data.b[n]]) / TAU) ** 2


def of_area(state, i):
    return -0.5 * WEAK * state.phi[i] ** 2


def of_mean(state):
    return -0.05 * state.mu[0] ** 2


def on_a_map():
    every = np.arange(AREAS)
    data = {
        "kind": np.repeat([0, 1], [AREAS, len(PAIRS)]), "a": np.r_[every, PAIRS[:, 0]],
        "b": np.r_[every, PAIRS[:, 1]], "y": np.r_[Y, np.zeros(len(PAIRS))],
    }  # fmt: skip
    return sm.Model(
        seen, data, {"phi": np.zeros(AREAS), "mu": 0.0}, of_mean, touches={"phi": ("a", "b")},
        site_prior={"phi": of_area},
    )  # fmt: skip


def posterior():
    """Mean and covariance of the levels and their mean."""
    precision = np.zeros((AREAS + 1, AREAS + 1))
    precision[:AREAS, :AREAS] = (1.0 + WEAK) * np.eye(AREAS)
    precision[AREAS, :AREAS] = precision[:AREAS, AREAS] = 1.0
    precision[AREAS, AREAS] = AREAS + 0.1
    for a, b in PAIRS:
        for i, j in ((a, a), (b, b), (a, b), (b, a)):
            precision[i, j] += (1.0 if i == j else -1.0) / TAU**2
    covariance = np.linalg.inv(precision)
    return covariance @ np.r_[Y, Y.sum()], covariance


def sampled(kernel, draws):
    return sm.sample(
        on_a_map(), kernel, draws=draws, warmup=500, chains=1, seed=2, progress=False
    )  # fmt: skip


def test_levels_and_their_mean_have_their_posterior():
    mean, covariance = posterior()
    woven = sm.interweave("phi", location="mu")
    assert "against each other; all data are read" in woven.describe(on_a_map())
    trace = sampled(sm.Metropolis("phi") >> sm.Metropolis("mu") >> woven, 20_000)
    draws = np.concatenate([trace.draws["phi"][0], trace.draws["mu"][0].reshape(-1, 1)], axis=1)
    away = draws - mean
    numbers = np.concatenate([away, away * away[:, [AREAS]]], axis=1)
    numbers -= np.concatenate([np.zeros(AREAS + 1), covariance[:, AREAS]])
    batches = numbers.reshape(40, -1, numbers.shape[1]).mean(axis=1)
    errors = batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / math.sqrt(40))
    assert np.abs(errors).max() < 7.0  # of 34 numbers, 1 run in 10^6


def test_the_mean_mixes():
    """Without such moves the levels hold it."""
    moves, found = sm.Metropolis("phi") >> sm.Metropolis("mu"), []
    for kernel in (moves, moves >> sm.interweave("phi", location="mu")):
        found.append(float(sampled(kernel, 4_000).summary(["mu"])["ess_bulk"].iloc[0]))
    assert found[1] > 10.0 * found[0] and found[1] > 400.0, found


def test_defaults_try_them():
    assert interwoven(on_a_map(), ["phi"]) == ['sm.interweave("phi", location="mu")']


@pytest.mark.parametrize("hidden", [True, False])
def test_data_that_may_see_a_move_elsewhere_decide(hidden):
    """By an indicator that is off wherever they are tried: as before, exactly."""

    def behind_k(state, data, n):
        on = data.kind[n] == 0 or not hidden or state.k[0] == 900
        return (seen(state, data, n) if data.kind[n] == 0 else 0.0) - (
            0.5 * (0.3 - state.mu[0] - state.phi[data.a[n]]) ** 2 if on else 0.0
        )

    model = on_a_map()
    data = {k: np.array(getattr(model.data, k)) for k in model.data._fields}
    model = sm.Model(
        behind_k, data, {"phi": np.zeros(AREAS), "mu": 0.0, "k": 0}, of_mean,
        touches={"phi": ("a", "b")}, site_prior={"phi": of_area}, support={"k": 1_000},
    )  # fmt: skip
    manner = sm.interweave("phi", location="mu").manner(model)
    assert (manner.sign, manner.read) == (-1, hidden)
