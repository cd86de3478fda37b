"""When strategies of fixed confidence stop, in blocks too, and what is promised then."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.bandits.play import Player
from subsample_mcmc.bandits.strategies.lil import lil_constants
from subsample_mcmc.bandits.strategies.top_two import base_of
from subsample_mcmc.bandits.strategy import ENDINGS
from tests.helpers import naive_bandits as naive
from tests.helpers.claims import at_most
from tests.helpers.naive_bandits import bandit, pull, watch

B = sm.bandits
ENDED = ("under way", "own rule", "stopping rule", "budget", "alone", "max_pulls")


def runs_of(strategy, mean, runs, seed=1, sd=0.5, **more):
    return sm.identify(
        pull, len(mean), strategy, seed=seed, runs=runs, data=bandit(mean, sd), truth=mean,
        progress=False, **more,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- blocks
@pytest.mark.parametrize("batch", [1000, 20])
@pytest.mark.parametrize("mean", [[0.0, 0.3], [0.0, 0.3, 0.1]])
def test_theory_keeps_delta_however_long_blocks_are(batch, mean):
    """Any arm dominates the others by a block: it must be on top again as well."""
    runs = runs_of(sm.LilUCB(0.1, "theory", 0.5, batch), np.array(mean), 400)
    assert (runs.stopped_by == "own rule").all()
    at_most(int(runs.errors.sum()), 400, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [7, 200])
@pytest.mark.parametrize("variant", ["heuristic", "theory"])
def test_lil_ucb_in_blocks_is_the_naive_one(variant, batch):
    mean = (1.0, 0.3, 0.0, -0.3) if variant == "heuristic" else (2.0, 0.6, 0.0, -0.6)
    for seed in range(1 if variant == "theory" else 3):  # which pulls for long
        run = watch(sm.LilUCB(0.1, variant, 0.5, batch), mean, 0.5, seed, 30_000)
        naive.agrees(run, 4, naive.lil_ucb(4, 0.1, 0.5, variant, batch))
        assert run.ended == "own rule"


@pytest.mark.parametrize("variant", ["lemma", "paper"])
def test_lil_stopping_ends_blocks(variant):
    """It looks after every pull, as the naive rule does, whatever was planned."""
    rule = B.LILStopping(sm.LilUCB(0.05, "theory", 0.5, 500), 0.05, variant=variant)
    run = watch(rule, (0.6, 0.0), 0.5, 1)
    assert (run.ended, run.answer) == ("stopping rule", 0)
    if variant == "lemma":
        inner = naive.lil_ucb(2, 0.05, 0.5, "theory", 500)
        naive.agrees(run, 2, naive.lil_stopping(inner, 2, 0.05, 0.5))


def test_a_verdict_stands_whatever_is_told_after_it():
    """Who has drawn a block already may tell all of it: counts do not fall below zero."""
    strategy = B.LILStopping(sm.LilUCB(0.05, "theory", 0.5, 1000), 0.05)
    player = Player(strategy, 2, np.random.SeedSequence(1), 10**6)
    now, verdict = player.state.now[0], player.state.verdict
    while verdict[0] < 0:
        arm = player.ask()
        for _ in range(int(now.count)):
            player.tell(float(arm))
            assert now.count >= 0
            if verdict[0] >= 0:
                break
    total = player.total
    for _ in range(300):  # against it
        player.tell(-5.0)
        assert now.count == 0
    assert player.total == total + 300 == player.state.pulls.sum()
    assert player.ask() is None
    assert ENDINGS[now.ended] == "stopping rule"
    assert player.answer() == 1


# -------------------------------------------------------------------------------------- promises
def test_what_lil_stopping_promises_depends_on_what_ended_the_run():
    def promises(strategy, **more):
        rule = B.LILStopping(strategy, 0.1, **more)
        return [rule.guarantee_when(ending) for ending in ENDED]

    bounded, none = "bounded", "none"
    #        under way, own rule, stopping rule, budget, alone, max_pulls
    theory, heuristic = sm.LilUCB(0.1, "theory", 0.5), sm.LilUCB(0.1, scale=0.5)
    assert promises(theory) == [none, bounded, bounded, none, bounded, none]
    assert promises(heuristic) == [none, none, bounded, none, bounded, none]
    assert promises(B.Uniform(50)) == [none, none, bounded, none, bounded, none]
    assert promises(theory, variant="paper") == [none, bounded, none, none, none, none]
    with pytest.raises(ValueError, match="one rule is enough"):
        promises(B.LILStopping(heuristic, 0.1, variant="paper"))


@pytest.mark.parametrize("strategy", [B.LUCB(), sm.LilUCB(0.1, "theory", 0.5), B.Uniform(10)])
def test_what_others_promise(strategy):
    promised = strategy.guarantee
    expected = ["none", promised, promised, "none", promised, "none"]
    assert [strategy.guarantee_when(ending) for ending in ENDED] == expected


@pytest.mark.parametrize("make", [B.TopTwo, B.TrackAndStop])
def test_thresholds_of_practice_promise_nothing(make):
    assert make(threshold="proved").guarantee == "bounded"
    assert make(threshold="practice").guarantee == "none"


def test_the_proof_asks_for_more_patience_than_its_authors_recommend():
    assert lil_constants("experiment", 0.1, 10).patience == 9.0
    assert lil_constants("theory", 0.1, 10).patience == pytest.approx(20.8, abs=0.05)
    assert lil_constants("theory", 0.01, 10).patience == pytest.approx(15.2, abs=0.05)
    for delta in (0.5, 0.1, 1e-3):
        found = lil_constants("theory", delta, 10).patience
        assert found == pytest.approx(naive.proved_patience(delta), rel=1e-12)
    # Nothing is left of what is added to the leading part at a delta that is next to nothing.
    assert 9.0 < lil_constants("theory", 1e-300, 10).patience < 9.2


# ------------------------------------------------------------------------------- extreme numbers
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: B.GPUCB(9, np.eye(3), 1.0, delta=0.0), "delta=0.0"),
        (lambda: B.ProbabilityOfImprovement(9, np.eye(3), 1.0, margin=np.nan), "margin=nan"),
        (lambda: sm.BayesGap(9, np.eye(3), 1.0, hardness=0.0), "hardness=0.0"),
        (lambda: sm.BayesGap(9, np.eye(3), 1.0, mean=[0.0, 1.0]).numbers(3), "mean=.*each arm"),
        (lambda: sm.BayesGap(9, np.eye(3), [1.0, np.nan, 1.0]).numbers(3), "noise=.*variance"),
        (lambda: sm.BayesGap(np.nan, np.eye(3), 1.0), "budget=nan"),
        (lambda: B.Uniform(np.inf), "budget=inf"),
        (lambda: B.Uniform(10**30), "budget=1000"),
        (lambda: B.UGapE(9, epsilon=-1.0), "epsilon=-1.0"),
        (lambda: B.LUCB(epsilon=np.inf), "epsilon=inf"),
        (lambda: B.TrackAndStop(every=0.5), "every=0.5"),
        (lambda: B.XYAllocation(np.eye(2), allocation="oracle", theta=[np.nan, 2.0]).numbers(2),
         "theta=.*2 finite numbers"),
        (lambda: B.XYAllocation(np.eye(2), allocation="oracle", theta=[1.0]).numbers(2),
         "theta=.*one for each column"),
    ],
)  # fmt: skip
def test_numbers_that_nobody_means_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_budgets_become_whole_numbers():
    assert B.Uniform(1e3) == B.Uniform(1000) and type(B.Uniform(1e3).budget) is int


@pytest.mark.parametrize("epsilon", [1e-9, 1e-150, 5e-324])
def test_accuracies_that_nobody_can_count_are_refused(epsilon):
    strategy = B.MedianElimination(epsilon)
    with pytest.raises(ValueError, match=r"epsilon=.*more than 4.6e\+18.*larger epsilon"):
        strategy.numbers(3)
    with pytest.raises(ValueError, match="larger epsilon"):
        strategy.most_pulls(3)
    with pytest.raises(ValueError, match="larger epsilon"):
        sm.identify(pull, 3, strategy, max_pulls=10, data=bandit([0.0] * 3), progress=False)


def test_scales_that_nobody_can_count_are_refused():
    with pytest.raises(ValueError, match=r"scale=1000000000\.0\) asks for .* pulls of 3 arms"):
        B.ExponentialGap(scale=1e9).numbers(3)
    assert B.ExponentialGap(scale=1e9).numbers(1)
    assert B.MedianElimination(1e-300).numbers(1)


TINIEST = 5e-324  # 1 / delta overflows


@pytest.mark.parametrize("make", [B.TopTwo, B.TrackAndStop])
def test_the_tiniest_delta_has_a_threshold(make):
    strategy = make(TINIEST)
    assert base_of(strategy, 1000) == pytest.approx(base_of(strategy, 10), rel=0.01)
    assert np.isfinite(base_of(strategy, 1000))


@pytest.mark.slow_for("strategy4")
@pytest.mark.parametrize(
    "strategy",
    [
        B.TopTwo(scale=0.5), B.TopTwo(scale=0.5, threshold="practice"), B.TrackAndStop(scale=0.5),
        B.TrackAndStop(scale=0.5, threshold="practice"), B.MedianElimination(3.9), B.LUCB(),
        B.LUCB(variant="++"), sm.LilUCB(scale=0.5), sm.LilUCB(0.1, "theory", 0.5),
        sm.LilUCB(0.1, "experiment", 0.5), B.SuccessiveElimination(), B.LILStopping(B.Uniform()),
    ],
)  # fmt: skip
def test_the_tiniest_delta_is_kept(strategy):
    """Pulls grow with log(1 / delta), 744 here: they do not stop at once, nor go on for ever."""
    run = watch(replace(strategy, delta=1e-3), [5.0, 0.0, 1.0])
    tiny = watch(replace(strategy, delta=TINIEST), [5.0, 0.0, 1.0])
    assert tiny.answer == 0
    assert tiny.ended in ("own rule", "stopping rule")
    assert len(run.arms) < len(tiny.arms) < 400 * log(1e3) * len(run.arms)
