"""What a race makes of the members of a cluster that it has read: the score, and its variance."""

from types import SimpleNamespace

import numpy as np
import pytest

from subsample_mcmc.kernels.partition import cluster_race


def plain(name):
    """A function of a race, not compiled."""
    function = getattr(cluster_race, name)
    return getattr(function, "py_func", function)


SIZE, KNOWN, NOISE = 40, 7.5, -2.25


def contest_of(prior, spread, values, shift):
    """Of one cluster of which these were read, as differences to a typical one, too."""
    apart = np.asarray(values) - shift
    arm = SimpleNamespace(
        drawn=len(values), total=float(np.sum(values)), first=float(apart.sum()),
        second=float((apart * apart).sum()), spread=spread, noise=NOISE, score=0.0, variance=-1.0,
    )  # fmt: skip
    return SimpleNamespace(
        arms=[arm], members=SimpleNamespace(size=np.array([SIZE])), known=np.array([KNOWN]),
        numbers=SimpleNamespace(prior=prior),
    )  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("prior", [0.0, 1.0, 2.5])
def test_the_variance_of_a_score_is_that_of_a_sample_and_of_what_is_usual(prior, rng):
    """Of members without replacement; the usual spread is as good as so many of them."""
    for values in (rng.standard_normal(5) + 3.0, np.full(4, 1.7), rng.standard_normal(39)):
        contest, t = contest_of(prior, 0.8, values, values[0]), len(values)
        plain("estimate")(contest, 0)
        arm = contest.arms[0]
        squares = np.sum((values - values.mean()) ** 2) + prior * 0.8
        wanted = SIZE**2 * squares / (t - 1.0 + prior) / t * (SIZE - t) / (SIZE - 1.0)
        np.testing.assert_allclose(arm.score, KNOWN + NOISE + SIZE * values.mean(), rtol=1e-12)
        np.testing.assert_allclose(arm.variance, wanted, rtol=1e-9, atol=1e-12)
    contest = contest_of(prior, 0.8, rng.standard_normal(SIZE), 0.0)
    plain("estimate")(contest, 0)
    assert contest.arms[0].variance == 0.0  # all were read


@pytest.mark.plain
def test_what_is_known_of_a_cluster_leaves_so_much_open(monkeypatch):
    """Its mean is off by shift; the mean of members varies between clusters, and they within it."""
    monkeypatch.setitem(plain("low_and_high").__globals__, "level_of", plain("level_of"))
    left = SimpleNamespace(
        edges=np.array([0.0]), shift=np.array([0.3, -0.2]), between=np.array([0.05, 0.02]),
        within=np.array([0.7, 0.4]), reach=np.array([2.5]),
    )  # fmt: skip
    for known, at in ((-3.0, 0), (3.0, 1)):
        contest = contest_of(1.0, 0.0, [0.0], 0.0)
        contest.known[0], contest.sums = known, SimpleNamespace(left_over=left)
        contest.arms[0].score = known + NOISE
        low, high = plain("low_and_high")(contest, 0)
        middle = known + NOISE + SIZE * left.shift[at]
        wide = 2.5 * np.sqrt(SIZE**2 * left.between[at] + SIZE * left.within[at])
        np.testing.assert_allclose([low, high], [middle - wide, middle + wide], rtol=1e-12)
        assert contest.arms[0].spread == left.within[at]
