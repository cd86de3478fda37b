"""Equal arms: strategies ask for one of them at random, and name the one that was pulled most."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.bandits.strategy import begin, highest_mean, most_pulled
from subsample_mcmc.numerics.jit import jit
from tests.helpers.claims import equal
from tests.helpers.naive_bandits import bandit, pull, watch

B = sm.bandits
EVEN = [0.5] * 4

ASKS = {
    "UCB1": B.UCB1(),
    "LUCB": B.LUCB(),
    "LUCB++": B.LUCB(variant="++"),
    "EB-TCI": B.TopTwo(),
    "T3C": B.TopTwo(rule="T3C"),
    "Track-and-Stop": B.TrackAndStop(),
    "UCBE": B.UCBE(100),
    "UGapE": B.UGapE(100),
    "GapE": B.GapE(100),
    "GapEV": B.GapEV(100),
    "lil'UCB": sm.LilUCB(scale=0.5),
    "rejects": B.SuccessiveRejects(100),
}


def constant_runs(strategy, runs, max_pulls=None, mean=EVEN):
    return sm.identify(
        pull, len(mean), strategy, seed=1, runs=runs, max_pulls=max_pulls, data=bandit(mean, 0.0),
        progress=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ASKS)
def test_the_pull_after_the_first_round_is_of_any_arm(name):
    """All means are equal and all arms pulled alike: whose turn is it."""
    rounds = 2 if name == "GapEV" else 1
    next_arm, strategy = np.zeros(4, dtype=int), ASKS[name]
    for seed in range(300):
        run = watch(strategy, EVEN, 0.0, seed, 4 * rounds + 1)
        next_arm[run.arms[4 * rounds]] += 1
        assert run.answer == run.arms[4 * rounds]  # the most pulled of arms with equal means
    for count in next_arm:
        equal(int(count), 300, 0.25)


def test_the_challenger_is_any_of_those_that_beat_the_drawn_leader():
    """T3C: the evidence against each of them is 0, so none of them is the closest."""
    mean, pulled = [0.0, 0.2, 0.2, 0.2], np.zeros(4, dtype=int)
    for seed in range(100):
        run = watch(B.TopTwo(1e-9, 3.0, "T3C", beta=0.01), mean, 0.0, seed, 12)
        pulled += np.bincount(run.arms[4:], minlength=4)
    assert pulled[1:].max() < 1.3 * pulled[1:].min()


def test_answers_prefer_the_most_pulled():
    @jit
    def answers(state):
        return highest_mean(state), most_pulled(state)

    state = begin(4)
    state.means[:], state.pulls[:] = [9.0, 0.5, 0.5, 0.5], [0, 2, 7, 7]
    assert answers(state) == (2, 2)
    state.means[:], state.pulls[:] = [9.0, 0.2, 0.4, 10.0], [3, 7, 7, 1]
    assert answers(state) == (3, 2)


@pytest.mark.parametrize(
    "strategy",
    [
        B.SuccessiveElimination(), B.MedianElimination(0.5), B.Uniform(), B.SuccessiveRejects(100),
        sm.SequentialHalving(100),
    ],
)  # fmt: skip
def test_an_arm_that_was_never_pulled_is_not_named(strategy):
    """All rewards are below 0, where means begin."""
    runs = constant_runs(strategy, 40, 1, [-1.0] * 4)
    assert (runs.pulls > 0).all()  # in one run or another
    for seed in range(20):
        run = watch(strategy, [-1.0] * 4, 0.0, seed, 2)
        assert run.answer in run.arms


@pytest.mark.slow
@pytest.mark.parametrize("allocation", ["known-variance", "adaptive-variance", "equal"])
def test_halving_names_any_of_equal_arms(allocation):
    """Of equal keys the heap is laid out at random."""
    variances = [1.0] * 8 if allocation == "known-variance" else None
    first = np.zeros(8, dtype=int)
    for seed in range(80):  # enough to reject an arm that is never, or always, among the first
        run = watch(sm.SequentialHalving(24, allocation, variances), [0.5] * 8, 0.0, seed)
        first[np.unique(run.arms[:2])] += 1
        assert len(run.arms) == 24
    for count in first:
        equal(int(count), 80, 0.25)
    runs = constant_runs(sm.SequentialHalving(24, allocation, variances), 2000, None, [0.5] * 8)
    for count in np.bincount(runs.arms, minlength=8):
        equal(int(count), 2000, 0.125)


@pytest.mark.parametrize("variances", [[0.0] * 4, [0.0, 0.0, 0.0, 1.0]])
def test_known_variances_of_zero_share_the_pulls(variances):
    """All zero: alike. Some: those are pulled once, the others take what is left."""
    run = watch(sm.SequentialHalving(400, "known-variance", variances), [0.5, 0.4, 0.3, 0.2], 0.0)
    stage = np.bincount(run.arms[:200], minlength=4)
    assert stage.tolist() == ([50] * 4 if variances[3] == 0.0 else [1, 1, 1, 197])
    assert run.answer == 0


def test_rejects_by_variance_without_variances_pull_all_alike():
    run = watch(B.VarianceRejects(200), [0.5, 0.4, 0.3, 0.2], 0.0)
    pulls = np.bincount(run.arms, minlength=4)
    plain = np.bincount(watch(B.SuccessiveRejects(200), [0.5, 0.4, 0.3, 0.2], 0.0).arms)
    np.testing.assert_array_equal(pulls, plain)
    assert run.answer == 0
