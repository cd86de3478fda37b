"""Experiment: asking and telling is a run of identify, and goes on after a crash bit for bit."""

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.bandits.strategy import OWN_RULE, Steps, answer_mean, stop, tell_all
from subsample_mcmc.numerics.jit import jit

B = sm.bandits
MEANS = np.array([0.5, 0.2, 0.0, 0.3])
GRID = np.arange(4.0)
STRATEGIES = {
    "lil": sm.LilUCB(0.1, scale=0.5),
    "LIL stopping": B.LILStopping(B.UCB1(0.5), 0.1),
    "halving": sm.SequentialHalving(120),
    "BayesGap": sm.BayesGap(60, np.exp(-0.5 * (GRID[:, None] - GRID) ** 2), 0.25),
    "LinGapE, ratio": sm.LinGapE(np.eye(4) + 0.1, rule="ratio", noise=0.5, epsilon=0.1),
}


def pull(arm, rng):
    return MEANS[arm] + 0.5 * rng.standard_normal()


def told(experiment, rewards, pulls=10**9):
    """Ask and tell; the arms that were asked for."""
    arms = []
    while len(arms) < pulls and (arm := experiment.ask()) is not None:
        assert experiment.ask() == arm  # until it is told
        experiment.tell(pull(arm, rewards))
        arms.append(arm)
    return arms


def goes_on(strategy, tmp_path, most):
    """A run that is saved and loaded on its way is the run that is not."""
    whole, rewards = sm.Experiment(strategy, 4, 1, most), np.random.default_rng(2)
    arms = told(whole, rewards)
    first, rewards = sm.Experiment(strategy, 4, 1, most), np.random.default_rng(2)
    begun = told(first, rewards, 37)
    first.ask()
    first.save(tmp_path / "run.npz")
    second = sm.Experiment.load(tmp_path / "run.npz", strategy)
    assert second.total == 37 and begun + told(second, rewards) == arms
    a, b = whole.result(), second.result()
    assert a.arm == b.arm and a.stopped_by == b.stopped_by
    for field in ("pulls", "means", "times", "history", "leaders"):
        assert np.array_equal(getattr(a, field), getattr(b, field)), field


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_goes_on_where_it_was_saved(name, tmp_path):
    goes_on(STRATEGIES[name], tmp_path, 10**6)


def test_it_is_a_run_of_identify():
    run = sm.identify(pull, 4, STRATEGIES["lil"], seed=3)
    seed = np.random.SeedSequence(3).spawn(1)[0].spawn(2)[1]
    experiment = sm.Experiment(STRATEGIES["lil"], 4, seed)
    told(experiment, np.random.default_rng(np.random.SeedSequence(
        seed.entropy, spawn_key=(*seed.spawn_key, 0))))  # fmt: skip
    assert np.array_equal(experiment.result().pulls, run.pulls)


def test_what_it_refuses(tmp_path):
    with pytest.raises(TypeError, match="give a strategy"):
        sm.Experiment(sm.Racing(), 3)
    experiment = sm.Experiment(STRATEGIES["lil"], 3, seed=1, max_pulls=5)
    with pytest.raises(ValueError, match="without ask"):
        experiment.tell(1.0)
    arm = experiment.ask()
    with pytest.raises(sm.RewardError, match=f"arm {arm} is nan"):
        experiment.tell(np.nan)
    assert experiment.ask() == arm
    experiment.save(tmp_path / "run.npz")
    with pytest.raises(sm.StoreError, match="another strategy"):
        sm.Experiment.load(tmp_path / "run.npz", sm.LilUCB(0.2, scale=0.5))
    assert not experiment.result().guaranteed and experiment.result().stopped_by == "under way"
    told(experiment, np.random.default_rng(1))
    assert experiment.result().stopped_by == "max_pulls" and experiment.total == 5
    with pytest.raises(ValueError, match="without ask"):
        experiment.tell(1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_what_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    experiment = sm.Experiment(STRATEGIES["lil"], 3, seed=1)
    experiment.save(path)
    with pytest.raises(sm.StoreError, match="cannot be read"):
        sm.Experiment.load(tmp_path / "other.npz", STRATEGIES["lil"])
    whole = path.read_bytes()
    for text in (b"", b"nothing of the kind", whole[:200]):
        path.write_bytes(text)
        with pytest.raises(sm.StoreError, match="cannot be read"):
            sm.Experiment.load(path, STRATEGIES["lil"])
    np.savez(path, other=np.zeros(3))
    with pytest.raises(sm.StoreError, match="cannot be read"):
        sm.Experiment.load(path, STRATEGIES["lil"])
    monkeypatch.setattr("subsample_mcmc.bandits.experiment.__version__", "0.0.1")
    experiment.save(path)
    monkeypatch.undo()
    with pytest.raises(sm.StoreError, match=r"version 0\.0\.1"):
        sm.Experiment.load(path, STRATEGIES["lil"])


def test_strategies_are_told_apart_by_content(tmp_path):
    path, covariance = tmp_path / "run.npz", np.exp(-0.5 * (GRID[:, None] - GRID) ** 2)
    given = covariance.copy()
    sm.Experiment(sm.BayesGap(60, given, 0.25), 4, seed=1).save(path)
    same = sm.BayesGap(60, np.asfortranarray(covariance), 0.25)
    assert sm.Experiment.load(path, same).total == 0  # the layout of an array is not its content
    with pytest.raises(sm.StoreError, match="another strategy"):
        sm.Experiment.load(path, sm.BayesGap(60, 1.001 * covariance, 0.25))


def test_what_a_strategy_of_ones_own_says_is_part_of_it(tmp_path):
    def strategy(limit):
        @jit
        def enough(total):
            return total >= limit

        @jit
        def ask(params, state, rng):
            if enough(state.now[0].total):
                return stop(state, OWN_RULE)
            state.now[0].count = 1
            return 0

        steps = Steps(ask, tell_all, answer_mean)

        class Mine(B.UCB1):
            def steps(self):
                return steps

        return Mine()

    path = tmp_path / "run.npz"
    for around in (lambda inner: inner, lambda inner: B.LILStopping(inner, 0.1)):
        sm.Experiment(around(strategy(5)), 3, seed=1).save(path)
        sm.Experiment.load(path, around(strategy(5)))
        with pytest.raises(sm.StoreError, match="another strategy"):
            sm.Experiment.load(path, around(strategy(6)))


def test_tables_are_told_apart_and_arrays_are_copied(tmp_path):
    path, frame = tmp_path / "run.npz", pd.DataFrame(np.eye(80))
    sm.Experiment(sm.BayesGap(60, frame, 0.25), 80, seed=1).save(path)
    changed = frame.copy()
    changed.iloc[40, 40] = 1.5  # where its repr has dots
    with pytest.raises(sm.StoreError, match="another strategy"):
        sm.Experiment.load(path, sm.BayesGap(60, changed, 0.25))
    features = np.eye(4) + 0.1
    for given, strategy in (
        (features, sm.LinGapE(features)),
        (features, B.XYAllocation(features)),
        (variances := np.ones(4), sm.SequentialHalving(100, "known-variance", variances)),
    ):
        experiment = sm.Experiment(strategy, 4, seed=1)
        assert not any(np.shares_memory(given, part) for part in experiment.player.params
                       if isinstance(part, np.ndarray))  # fmt: skip


EVERY = {
    "UCB1": B.UCB1(),
    "LUCB": B.LUCB(0.1),
    "LUCB++": B.LUCB(0.1, variant="++"),
    "Uniform": B.Uniform(90),
    "elimination": B.SuccessiveElimination(0.1),
    "median": B.MedianElimination(0.5, 0.3),
    "gap": B.ExponentialGap(0.2),
    "T3C": B.TopTwo(0.1, rule="T3C"),
    "TTTS": B.TopTwo(0.1, rule="TTTS"),
    "tracking": B.LILStopping(B.TrackAndStop(0.1), 0.1),
    "rejects": B.SuccessiveRejects(90),
    "variance": B.VarianceRejects(90),
    "UCBE": B.UCBE(90),
    "UGapE": B.UGapE(90),
    "GapEV": B.GapEV(90),
    "SHAdaVar": sm.SequentialHalving(90, "adaptive-variance"),
    "Thompson": B.Thompson(90, np.eye(4), 0.25),
    "EI": B.ExpectedImprovement(90, np.eye(4), 0.25),
    "greedy": sm.LinGapE(np.eye(4) + 0.1, noise=0.5, growth=0.5),
    "adaptive": B.XYAllocation(np.eye(4) + 0.1, noise=0.5, allocation="adaptive"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_strategy_goes_on_where_it_was_saved(name, tmp_path):
    goes_on(EVERY[name], tmp_path, 80)


def test_a_failed_save_leaves_the_last_one(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    experiment = sm.Experiment(STRATEGIES["lil"], 3, seed=1)
    experiment.save(path)
    before = path.read_bytes()
    experiment.ask()
    experiment.tell(1.0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("subsample_mcmc.bandits.experiment.replace", full)
    with pytest.raises(OSError, match="No space left"):
        experiment.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    assert path.read_bytes() == before


def test_time_goes_on_and_generators_are_advanced(tmp_path):
    generator = np.random.default_rng(3)
    first, second = (sm.Experiment(STRATEGIES["lil"], 50, generator) for _ in range(2))
    assert [first.ask()] != [second.ask()]
    first.before = 1000.0
    first.save(tmp_path / "run.npz")
    assert sm.Experiment.load(tmp_path / "run.npz", STRATEGIES["lil"]).result().seconds >= 1000.0
