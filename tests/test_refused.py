"""What was taken without a word, and gave numbers that mean nothing."""

from functools import partial

import numpy as np
import pytest

import subsample_mcmc as sm

Y = np.random.default_rng(0).standard_normal(50)
MASKED = np.ma.array([1e3, 0.0, 0.0], mask=[True, False, False])
HIDDEN = np.ma.array(np.where(np.arange(50) == 7, 999.0, Y), mask=np.arange(50) == 7)


def factor(data, arm, n):
    return -abs(data.y[n] - arm)


def of_one(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def simulated(rng, state, data, n):
    return rng.normal(state.mu[0], 1.0)


@pytest.fixture(scope="module")
def run():
    model = sm.Model(of_one, {"y": Y}, {"mu": 0.0}, simulate=simulated)
    return model, sm.sample(model, sm.Metropolis("mu"), 20, 20, 1, seed=1, progress=False)


def test_what_stands_below_a_mask_is_no_value(run):
    model, trace = run
    folds = np.ma.array(np.arange(50) % 2, mask=HIDDEN.mask)
    for call in (
        partial(sm.Population, factor, {"y": Y}, 3, log_prior=MASKED),
        partial(sm.choose, np.zeros((3, 50)), offsets=MASKED),
        partial(sm.predict, model, trace, observed=HIDDEN, progress=False),
        partial(trace.to_arviz, observed={"y": HIDDEN}),
        partial(sm.kfold, model, folds=folds, progress=False),
        partial(model.without, np.ma.array([3, 4], mask=[True, False])),
    ):
        with pytest.raises(ValueError, match=r"is a masked array with .*: (fill it in|give NaN)"):
            call()
    identified = partial(sm.bandits.identify, lambda rng, arm: rng.normal(), 3, seed=1)
    with pytest.raises(ValueError, match="truth is a masked array"):
        identified(sm.bandits.Uniform(30), truth=MASKED)
    free = np.ma.array(MASKED.data, mask=False)  # nothing is hidden
    assert int(sm.choose(np.zeros((3, 50)), offsets=free, seed=1).arm) == 0


def test_a_seed_in_the_place_of_a_selector():
    """0 was taken for none: two calls with it gave different draws."""
    population = sm.Population(factor, {"y": Y}, 3)
    for call in (partial(sm.draw, population, 5), partial(sm.choose, np.zeros((3, 50)), None)):
        for given in (0, 1, "", []):
            with pytest.raises((TypeError, AttributeError, ValueError)):
                call(given)


@pytest.mark.parametrize("seed", ["a", 1.5, -1, np.nan, [1, -2]])
def test_what_is_no_seed(run, seed):
    model, _ = run
    for call in (
        partial(sm.sample, model, sm.Metropolis("mu"), 2, 2, progress=False),
        partial(sm.choose, np.zeros((3, 50))), partial(sm.laplace, model, progress=False),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="give a whole number, 0 or more, such as 1"):
            call(seed=seed)


def test_shares_and_sizes_of_a_race_that_are_none():
    for first in (64, 1.5, [0.1, 64.0]):
        with pytest.raises(ValueError, match="is no share of the rows"):
            sm.b_normal(0.05, first)
    given = {"gap": 0.1, "size": 1_000, "arms": 5}
    for name, value in (
        ("size", -1_000), ("size", 0), ("size", 2.5), ("arms", 2.5), ("arms", -5), ("batch", -5),
        ("delta", 5.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name}={value}"):
            sm.expected_pulls(**given | {name: value})


def test_a_hardness_is_of_a_class():
    means, b = [0.9, 0.5, 0.4], sm.bandits
    for strategy in (b.GapEV(100), "GapEV", b.LUCB):
        with pytest.raises(TypeError, match="give one of the classes UCBE, UGapE, GapE and GapEV"):
            b.hardness_of_means(strategy, means, variances=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"epsilon=-0.3: give a regret"):
        b.hardness_of_means(b.UGapE, means, epsilon=-0.3)


def test_a_factor_that_is_none(run):
    fit = sm.laplace(run[0], progress=False)
    for inflate in (np.nan, 0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match=r"inflate=.*: give a factor above 0"):
            fit.matched(inflate=inflate)


def test_a_folder_is_no_file_to_delete(run, tmp_path, monkeypatch):
    model, trace = run
    monkeypatch.chdir(tmp_path)
    for path in ("", tmp_path):
        with pytest.raises(sm.StoreError, match="is a folder: give a file in it"):
            trace.save(path)
        with pytest.raises(sm.StoreError, match="is a folder: give a file in it"):
            sm.sample(model, sm.Metropolis("mu"), 2, 2, store=path, progress=False)
    with pytest.raises(ValueError, match="no block is named"):
        trace.summary([])
