"""What runs of a strategy count, where blocks of pulls end, and the second of a heap."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.bandits.heap import make_heap, put, runner_up
from subsample_mcmc.bandits.play import Player
from subsample_mcmc.numerics.jit import jit
from tests.helpers.naive_bandits import bandit, pull

B = sm.bandits
QUIET = {"progress": False}


B = sm.bandits


QUIET = {"progress": False}


def test_pulls_beside_a_run_are_of_its_budget():
    def far(arm, rng):
        return 1000.0 * arm + rng.standard_normal()

    kept = B.LUCB(scale=1.0)
    total = sm.identify(far, 2, kept, seed=1, **QUIET).total
    with pytest.warns(UserWarning, match="too few pulls"):
        run = sm.identify(far, 2, kept, seed=1, max_pulls=total + 3, **QUIET)
    assert (run.total, run.checks) == (total, 3)


@pytest.mark.filterwarnings("ignore:.*has no guarantee")
def test_early_errors_end_at_those_of_answers():
    """Runs that are over count by the arm that they named."""
    mean = np.array([0.0, 0.1])
    runs = sm.identify(
        pull,
        2,
        B.LUCB(scale=0.3, delta=0.5),
        seed=1,
        runs=200,
        truth=mean,
        data=bandit(mean, 2.0),
        **QUIET,
    )  # noise that makes errors
    assert runs.errors.any()
    assert runs.early[runs.times >= runs.totals.max()] == pytest.approx(runs.errors.mean())


def test_the_error_of_a_mean_total():
    runs = sm.identify(pull, 2, B.LUCB(), seed=1, runs=5, data=bandit([0.0, 1.0]), **QUIET)
    assert runs.mean_total()[1] == pytest.approx(stats.sem(runs.totals))


def several(data, arm, rng, count):
    rewards = np.empty(count)
    for i in range(count):
        rewards[i] = data.mean[arm] + data.sd[arm] * rng.standard_normal()
    return rewards


@pytest.mark.parametrize("compiled", [True, False])
def test_a_stopping_rule_ends_a_block_of_several(compiled):
    """Rewards that were drawn beyond the verdict count for nothing."""
    rule = B.LILStopping(sm.LilUCB(0.05, "theory", 0.5, 500), 0.05)
    given = {"data": bandit([0.6, 0.0]), "seed": 1, "progress": False}
    single, block = (sm.identify(f, 2, rule, compiled=compiled, **given) for f in (pull, several))
    assert single.stopped_by == block.stopped_by == "stopping rule"
    assert np.array_equal(single.pulls, block.pulls)


@pytest.mark.parametrize("compiled", [True, False])
def test_blocks_end_at_max_pulls(compiled):
    run = sm.identify(
        several,
        3,
        sm.SequentialHalving(6_000),
        3,
        501,
        compiled=compiled,
        data=bandit([0.0, 0.5, 0.2]),
        **QUIET,
    )
    assert run.total == 501


def test_rewards_and_choices_have_streams_of_their_own():
    player = Player(B.Uniform(4), 2, np.random.SeedSequence(0), 10)
    assert player.rewards.random() != player.choices.random()


@jit
def put_and_ask(heap, arm, key):
    put(heap, arm, key)
    return runner_up(heap)


@pytest.mark.parametrize("arms", [1, 2, 3, 4, 9])
def test_the_second_of_a_heap(arms, rng):
    """Whichever child of the top it is."""
    heap = make_heap(arms)
    for _ in range(300):
        arm, key = int(rng.integers(arms)), float(rng.integers(5))
        found = put_and_ask(heap, arm, key)
        keys = np.sort(heap.keys)
        assert found == (keys[-2] if arms > 1 else -np.inf)
        assert heap.keys[heap.order[0]] == keys[-1]
        assert np.array_equal(heap.order[heap.places], np.arange(arms))
