"""What a model's file remembers fits and sums by: whatever changes these changes their keys."""

from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.laplace import key_of_fit
from subsample_mcmc.approx.reuse.known_sums import key_of_sums

POINT = np.array([0.5, -1.0])


def fit_at(**more):
    """As much of a fit as pilots read."""
    given = {"blocks": ("beta",), "mean": POINT, "factor": np.eye(2), "state": {"k": 1}} | more
    return SimpleNamespace(**given)


def derivatives(state, data, n, gradient, hessian):
    gradient[0] = 1.0


def others(state, data, n, gradient, hessian):
    gradient[0] = 2.0


SUMS = {
    "a fit": {},
    "a point alone": {"fit": {"beta": POINT}},
    "another covariance": {"fit": fit_at(factor=2.0 * np.eye(2))},
    "another mean": {"fit": fit_at(mean=POINT + 1e-9)},
    "another value of what it holds": {"fit": fit_at(state={"k": 2})},
    "two fits": {"fit": [fit_at(), fit_at(factor=2.0 * np.eye(2))]},
    "rows that are always read": {"outliers": 0.01},
    "more of these": {"outliers": 0.02},
    "nothing learnt": {"predict": False},
    "second order": {"order": 2},
    "another way": {"way": "jets"},
    "another reference": {"references": [POINT + 1e-9]},
    "derivatives": {"derivatives": derivatives},
    "other derivatives": {"derivatives": others},
}


def key_of(fit=None, outliers="auto", predict=True, **how):
    """Of sums; None: their way is not kept."""
    control = SimpleNamespace(fit=fit or fit_at(), outliers=outliers, predict=predict)
    asked = {"derivatives": None, "order": 3, "way": "given", "references": [POINT]} | how
    return key_of_sums(control, tuple(asked.values()))


@pytest.mark.plain
def test_sums_that_were_asked_for_otherwise_have_another_key():
    keys = [key_of(**more) for more in SUMS.values()]
    assert len(set(keys)) == len(SUMS) and None not in keys
    assert keys == [key_of(**more) for more in SUMS.values()]
    assert key_of(way="found predictors") is None


FITS = {
    "as it is": {},
    "another start": {"given": {"beta": [0.5, 0.0]}},
    "another value of what is held": {"given": {"sigma": 2.0}},
    "another discrete value": {"given": {"k": 2}},
    "other blocks": {"blocks": None},
    "three searches": {"starts": 3},
    "of another seed": {"starts": 3, "seed": 1},
    "less exact": {"tolerance": 1e-3},
}


def key_of_one(blocks="beta", given=None, starts=1, seed=None, tolerance=1e-4):
    """Of a fit."""
    model = sm.Model(
        lambda state, data, n: -abs(data.y[n] - state.beta[0]), {"y": np.zeros(3)},
        {"k": 0, "beta": [0.0, 0.0], "sigma": 1.0}, support={"k": 3},
        constraints={"sigma": sm.positive},
    )  # fmt: skip
    return key_of_fit(Coordinates(model, blocks, given or {}), starts, seed, tolerance)


@pytest.mark.plain
def test_fits_that_were_asked_for_otherwise_have_another_key():
    keys = [key_of_one(**more) for more in FITS.values()]
    assert len(set(keys)) == len(FITS) and None not in keys
    assert key_of_one(seed=5) == keys[0]  # of one search no seed is used
    assert key_of_one(starts=2, seed=np.random.default_rng(0)) is None
