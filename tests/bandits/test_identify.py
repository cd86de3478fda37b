"""sm.identify: what it takes, what it returns, and what it says when something is wrong."""

import inspect
import signal
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from tests.helpers.claims import interval
from tests.helpers.naive_bandits import bandit, pull

B = sm.bandits
MEAN = np.array([0.0, 0.5, 0.2])
QUIET = {"data": bandit(MEAN), "progress": False}
HEURISTIC = sm.LilUCB(0.1, scale=0.5)


def lonely(arm, rng):
    return 0.4 * arm + rng.random()


def batched(data, arm, rng, count):
    rewards = np.empty(count)
    for i in range(count):
        rewards[i] = data.mean[arm] + data.sd[arm] * rng.standard_normal()
    return rewards


def at_fault(data, arm, rng):
    """Rewards of arm 1 are not numbers once in a while."""
    reward = data.mean[arm] + rng.random()
    if arm == 1 and rng.random() < 0.2:
        return data.bad
    return reward


def problem(rng):
    return bandit(np.append(rng.normal(0.0, 0.2, 3), 1.0))


# --------------------------------------------------------------------------------------- one run
def test_one_run_says_what_it_did():
    run = sm.identify(pull, 3, HEURISTIC, seed=1, **QUIET)
    assert run.arm == 1
    assert run.total == run.pulls.sum()
    np.testing.assert_allclose(run.means, MEAN, atol=0.4)
    assert (run.stopped_by, run.guarantee, run.guaranteed) == ("own rule", "none", False)
    assert run.seconds > 0.0
    assert repr(run).startswith(f"Identification(arm 1 of 3, {run.total:,} pulls, stopped by own")


def test_the_history_adds_up():
    run = sm.identify(pull, 3, HEURISTIC, seed=1, **QUIET)
    assert len(run.times) == len(run.history) == len(run.leaders)
    np.testing.assert_array_equal(run.history.sum(axis=1), run.times)
    assert (np.diff(run.times) > 0).all()
    assert run.times[0] == 1
    assert run.times[-1] <= run.total < 1.2 * run.times[-1] + 2
    assert (np.diff(run.history, axis=0) >= 0).all()
    assert (run.history[-1] <= run.pulls).all()
    assert set(run.leaders) <= {0, 1, 2}


def test_seeds_make_runs():
    def totals(seed):
        return sm.identify(pull, 3, HEURISTIC, seed=seed, runs=20, **QUIET).totals.tolist()

    assert totals(3) == totals(3) == totals(np.random.SeedSequence(3))
    assert totals(3) != totals(4)
    generator = np.random.default_rng(3)
    assert totals(generator) != totals(generator)  # it is advanced
    assert totals(np.random.default_rng(3)) == totals(np.random.default_rng(3))
    assert totals(None) != totals(None)


def test_a_run_by_itself_is_the_first_of_many():
    run = sm.identify(pull, 3, HEURISTIC, seed=5, **QUIET)
    runs = sm.identify(pull, 3, HEURISTIC, seed=5, runs=2, **QUIET)
    assert (runs.arms[0], runs.totals[0]) == (run.arm, run.total)


def test_max_pulls_ends_a_run_without_promise():
    run = sm.identify(pull, 3, B.LUCB(), seed=1, max_pulls=50, **QUIET)
    assert (run.total, run.stopped_by, run.guarantee) == (50, "max_pulls", "none")
    assert not run.guaranteed
    assert "guarantee 'none'" in repr(run)
    whole = sm.identify(pull, 3, B.LUCB(), seed=1, **QUIET)
    assert whole.guaranteed
    assert "guarantee 'bounded'" in repr(whole)
    # Enough pulls are enough; one less is not.
    for most, ending in ((whole.total, "own rule"), (whole.total - 1, "max_pulls")):
        for compiled in (True, False):
            run = sm.identify(pull, 3, B.LUCB(), 1, most, compiled=compiled, **QUIET)
            assert run.stopped_by == ending, (most, compiled)
    budget = sm.identify(pull, 3, sm.SequentialHalving(60), seed=1, max_pulls=60, **QUIET)
    assert budget.stopped_by == "budget"
    runs = sm.identify(pull, 3, B.LUCB(), 1, whole.total, runs=5, **QUIET)
    promised = "none" if (runs.stopped_by == "max_pulls").any() else "bounded"
    assert runs.guarantee == promised == "none"


def test_arms_that_were_not_pulled_have_no_mean():
    run = sm.identify(pull, 3, HEURISTIC, seed=1, max_pulls=2, **QUIET)
    assert np.isnan(run.means).sum() == 1
    assert run.arm in np.flatnonzero(run.pulls)


# -------------------------------------------------------------------------------------- many runs
def test_the_number_of_cores_changes_nothing():
    found = [
        sm.identify(pull, 4, HEURISTIC, seed=2, runs=30, data=problem, cores=cores,
                    truth=lambda data: data.mean, progress=False)
        for cores in (1, 2)
    ]  # fmt: skip
    for name in ("arms", "totals", "stopped_by", "regrets", "pulls", "times", "early"):
        np.testing.assert_array_equal(*(getattr(runs, name) for runs in found))


def test_data_and_selectors_of_each_run():
    """Every run has a problem of its own; the strategy may know what only its data say."""
    asked = []

    def selector(data):
        asked.append(data.mean.copy())
        return sm.SequentialHalving(100, "known-variance", data.sd**2)

    runs = sm.identify(
        pull, 4, selector, seed=2, runs=20, data=problem, truth=lambda data: data.mean,
        progress=False,
    )  # fmt: skip
    assert len({tuple(mean) for mean in asked}) >= 20
    assert (runs.totals == 100).all()
    assert (runs.arms == 3).mean() > 0.8
    assert (runs.regrets >= 0.0).all()


def test_truth_gives_errors_and_regrets():
    one = sm.identify(pull, 3, B.Uniform(6), seed=1, truth=MEAN, **QUIET)
    assert one.regret == MEAN.max() - MEAN[one.arm]
    assert sm.identify(pull, 3, B.Uniform(6), seed=1, **QUIET).regret is None
    runs = sm.identify(pull, 3, B.Uniform(6), seed=1, runs=200, truth=MEAN, **QUIET)
    np.testing.assert_allclose(runs.regrets, MEAN.max() - MEAN[runs.arms])
    np.testing.assert_array_equal(runs.errors, runs.arms != 1)
    assert len(runs) == 200
    wrong = int(runs.errors.sum())
    rate, *limits = runs.error_rate()
    assert rate == wrong / 200
    np.testing.assert_allclose(limits, interval(wrong, 200))
    exact = stats.binomtest(wrong, 200).proportion_ci(0.8)
    np.testing.assert_allclose(runs.error_rate(0.8)[1:], [exact.low, exact.high])
    mean, error = runs.mean_total()
    assert (mean, error) == (6.0, 0.0)
    assert runs.pulls.sum() == pytest.approx(6.0)
    # The leader at the last look is the arm that is named.
    assert runs.times[-1] >= 6
    assert runs.early[runs.times == 6][0] == rate
    assert f"wrong in {rate:.2%}" in repr(runs)


def test_rates_of_none_and_of_all():
    runs = sm.identify(pull, 3, B.Uniform(300), seed=1, runs=10, truth=MEAN, **QUIET)
    assert runs.error_rate()[:2] == (0.0, 0.0)
    assert runs.error_rate()[2] == pytest.approx(1.0 - 0.025**0.1)
    wrong = sm.identify(pull, 3, B.Uniform(300), seed=1, runs=10, truth=-MEAN, **QUIET)
    low = wrong.error_rate()[1]
    assert wrong.error_rate() == (1.0, low, 1.0)
    assert low == pytest.approx(0.025**0.1)


def test_without_truth_nobody_knows_the_errors():
    runs = sm.identify(pull, 3, HEURISTIC, seed=1, runs=3, **QUIET)
    assert runs.regrets is None
    assert runs.early is None
    with pytest.raises(ValueError, match="truth was not given"):
        _ = runs.errors
    with pytest.raises(ValueError, match="truth was not given"):
        runs.error_rate()
    assert "wrong" not in repr(runs)


# --------------------------------------------------------------------------------- kinds of pulls
@pytest.mark.parametrize("strategy", [HEURISTIC, sm.SequentialHalving(100)])
def test_python_pulls_are_those_of_compiled_code(strategy):
    compiled = sm.identify(pull, 3, strategy, seed=3, compiled=True, **QUIET)
    plain = sm.identify(pull, 3, strategy, seed=3, compiled=False, **QUIET)
    np.testing.assert_array_equal(plain.pulls, compiled.pulls)
    np.testing.assert_allclose(plain.means, compiled.means, atol=1e-12)
    np.testing.assert_array_equal(plain.history, compiled.history)
    assert plain.arm == compiled.arm


@pytest.mark.parametrize("compiled", [True, False])
def test_batched_pulls_are_those_of_single_ones(compiled):
    strategy = sm.SequentialHalving(100)
    single = sm.identify(pull, 3, strategy, seed=3, **QUIET)
    several = sm.identify(batched, 3, strategy, seed=3, compiled=compiled, **QUIET)
    np.testing.assert_array_equal(single.pulls, several.pulls)
    np.testing.assert_allclose(single.means, several.means, atol=1e-12)


def test_pulls_without_data():
    run = sm.identify(lonely, 3, HEURISTIC, seed=1, progress=False)
    assert run.arm == 2


def test_what_does_not_compile_runs_as_python():
    import json

    def slow(arm, rng):
        return json.loads(f"{0.5 * arm}") + rng.random()

    run = sm.identify(slow, 3, HEURISTIC, seed=1, progress=False)
    assert run.arm == 2
    runs = sm.identify(slow, 3, sm.SequentialHalving(60), seed=1, runs=3, cores=2, progress=False)
    assert (runs.totals == 60).all()
    with pytest.raises(TypeError, match="compiled=True, but"):
        sm.identify(slow, 3, HEURISTIC, seed=1, compiled=True)


# ----------------------------------------------------------------------------------------- output
def test_frames():
    run = sm.identify(pull, 3, HEURISTIC, seed=1, **QUIET)
    frame = run.to_frame()
    assert (frame.index.name, list(frame.columns)) == ("arm", ["pulls", "mean"])
    assert frame["pulls"].sum() == run.total
    runs = sm.identify(pull, 3, HEURISTIC, seed=1, runs=4, **QUIET)
    assert list(runs.to_frame().columns) == ["arm", "pulls", "stopped_by"]
    runs = sm.identify(pull, 3, HEURISTIC, seed=1, runs=4, truth=MEAN, **QUIET)
    frame = runs.to_frame()
    assert (frame.index.name, len(frame)) == ("run", 4)
    assert list(frame.columns) == ["arm", "pulls", "stopped_by", "regret"]


def test_plots():
    from matplotlib import pyplot

    run = sm.identify(pull, 3, HEURISTIC, seed=1, **QUIET)
    assert len(run.plot()) == 2
    assert len(run.plot(most=1)[0].get_legend().get_texts()) == 1
    axes = pyplot.subplots(1, 2)[1]
    assert run.plot(axes)[0] is axes[0]
    with pytest.raises(ValueError, match="axes has 1 parts: give 2"):
        run.plot(axes[0])
    assert len(sm.identify(pull, 3, HEURISTIC, seed=1, runs=4, **QUIET).plot()) == 1
    runs = sm.identify(pull, 3, HEURISTIC, seed=1, runs=4, truth=MEAN, **QUIET)
    assert len(runs.plot()) == 2
    pyplot.close("all")


def test_progress_is_silent_or_shown(capfd):
    for runs in (1, 3):
        sm.identify(pull, 3, HEURISTIC, seed=1, runs=runs, **QUIET)
    assert capfd.readouterr() == ("", "")
    loud = {**QUIET, "progress": True}
    sm.identify(pull, 3, HEURISTIC, seed=1, **loud)
    assert "pulls" in capfd.readouterr().err
    sm.identify(pull, 3, HEURISTIC, seed=1, runs=3, **loud)
    assert "runs" in capfd.readouterr().err
    # Of a run of several rounds the bar lives on, though nobody knows its end.
    close = sm.LilUCB(delta=0.1, scale=1.0)
    sm.identify(lambda arm, rng: 0.1 * arm + rng.standard_normal(), 3, close, seed=1, progress=True)
    assert "pulls" in capfd.readouterr().err


# --------------------------------------------------------------------------------------- mistakes
@pytest.mark.parametrize("compiled", [None, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("runs", [1, 3])
def test_rewards_that_are_no_numbers_name_the_arm(compiled, bad, runs):
    data = {"mean": MEAN, "bad": bad}
    with pytest.raises(sm.RewardError, match=rf"at_fault returned {bad} for arm 1, pull \d+"):
        sm.identify(at_fault, 3, B.Uniform(500), seed=1, data=data, compiled=compiled, runs=runs,
                    progress=False)  # fmt: skip


@pytest.mark.parametrize("runs", [1, 2])
def test_mistakes_show_where_they_are(runs):
    def wrong(arm, rng):
        return missing * arm  # noqa: F821

    with pytest.raises(NameError, match="missing") as caught:
        sm.identify(wrong, 3, HEURISTIC, runs=runs, progress=False)
    assert any(entry.name == "wrong" for entry in caught.traceback)

    def far(data, arm, rng):
        return data.mean[arm + 7]

    with pytest.raises(IndexError) as caught:
        sm.identify(far, 3, HEURISTIC, runs=runs, **QUIET)
    assert any(entry.name == "far" for entry in caught.traceback)


def test_the_number_of_arguments():
    def one(arm):
        return 0.0

    def five(data, arm, rng, count, more):
        return 0.0

    with pytest.raises(TypeError, match=r"pull=one takes 1 arguments: give pull\(arm, rng\) -> "):
        sm.identify(one, 3, HEURISTIC)
    with pytest.raises(TypeError, match=r"takes 5 arguments: give pull\(data, arm, rng\) -> "):
        sm.identify(five, 3, HEURISTIC, **QUIET)
    with pytest.raises(TypeError, match=r"takes 2 arguments: give pull\(data, arm, rng\)"):
        sm.identify(lonely, 3, HEURISTIC, **QUIET)


@pytest.mark.parametrize("compiled", [True, False])
def test_what_batches_return(compiled):
    def short(data, arm, rng, count):
        return np.zeros(count + 1)

    def seldom_short(data, arm, rng, count):
        return np.zeros(count - (count > 5))

    for wrong in (short, seldom_short):
        with pytest.raises(TypeError, match=r"returned an array of shape \(\d+,\)"):
            sm.identify(wrong, 3, sm.SequentialHalving(60), compiled=compiled, **QUIET)


@pytest.mark.slow_for("False")
@pytest.mark.parametrize("compiled", [True, False])
def test_blocks_do_not_depend_on_the_clock(compiled, monkeypatch):
    """Batches are cut at 4,096 rewards and at max_pulls, however long a look takes."""
    asked = []

    def counted(data, arm, rng, count):
        asked.append(count)
        return data.mean[arm] + rng.standard_normal(count)

    source = counted if not compiled else batched
    strategy = sm.SequentialHalving(60_000)
    found = []
    for first in (1, 1024, 10**6):
        monkeypatch.setattr(sys.modules[sm.identify.__module__], "FIRST", first)
        asked.clear()
        run = sm.identify(source, 3, strategy, 3, 50_001, compiled=compiled, **QUIET)
        assert run.total == 50_001
        found.append((run.means.tolist(), asked[1:]))
    assert found[0] == found[1] == found[2]
    assert compiled or max(found[0][1]) == 4096


def test_what_has_a_default_is_no_count():
    def spread(data, arm, rng, scale=0.5):
        return data.mean[arm] + scale * rng.random()

    run = sm.identify(spread, 3, sm.SequentialHalving(60), seed=1, **QUIET)
    assert run.total == 60
    assert run.arm == 1


@pytest.mark.parametrize("runs", [1, 20])
def test_an_interrupt_leaves_what_there_is(runs):
    """Ctrl-C: a run as it stands; of many, those that were finished."""
    import _thread

    calls = []

    def slow(data, arm, rng):
        calls.append(arm)
        if len(calls) == 30_000:
            _thread.interrupt_main()
        return float(rng.random())

    # A test run started in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        strategy = sm.SequentialHalving(20_000 if runs > 1 else 200_000)
        run = sm.identify(slow, 3, strategy, seed=1, runs=runs, compiled=False, **QUIET)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) < 200_000
    if runs == 1:
        assert (run.stopped_by, run.guarantee) == ("interrupted", "none")
        assert run.total in (len(calls), len(calls) - 1)
    else:
        assert 1 <= len(run) < 20
        assert (run.totals == 20_000).all()


@pytest.mark.parametrize("kind", [Fraction, Decimal, str, np.float32, bool])
def test_a_reward_may_be_whatever_makes_a_float(kind):
    run = sm.identify(
        lambda arm, rng: kind(arm), 2, sm.SequentialHalving(20), seed=1, compiled=False,
        progress=False,
    )  # fmt: skip
    assert run.means.tolist() == [float(kind(0)), float(kind(1))]


@pytest.mark.parametrize("reward", [None, "one", [1.0], np.zeros(2)])
def test_a_reward_that_makes_none_is_told_of(reward):
    with pytest.raises(TypeError, match=r"\(arm=[01]\) returned"):
        sm.identify(
            lambda arm, rng: reward, 2, sm.SequentialHalving(20), compiled=False, progress=False
        )


INTERRUPTED = """
import signal
import subsample_mcmc as sm

class Interrupt(Exception):
    pass

def interrupt(*_):
    raise Interrupt

def pull(arm, rng):
    return 0.0

def run(pulls):
    sm.identify(pull, 3, sm.bandits.Uniform(), max_pulls=pulls, compiled=False, progress=False)

run(10)
signal.signal(signal.SIGALRM, interrupt)
caught = 0
for i in range(60):
    signal.setitimer(signal.ITIMER_REAL, 0.01 + 2e-5 * i)
    try:
        run(2_000)
    except Interrupt:
        caught += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(caught)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
def test_an_interrupt_at_any_moment_ends_no_process():
    """Of pulls in Python. A few may be lost, where numba looks at types: the next one is not."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arms": 0}, "arms=0"),
        ({"arms": 2.5}, "arms=2.5"),
        ({"runs": 0}, "runs=0"),
        ({"max_pulls": 0}, "max_pulls=0"),
        ({"cores": 0, "runs": 2}, "cores=0"),
        ({"truth": MEAN[:2]}, "truth=.*each of the 3 arms"),
        ({"truth": lambda data: [0.0, np.nan, 1.0], "runs": 2}, "truth=.*finite"),
    ],
)
def test_counts_are_counts(given, message):
    with pytest.raises(ValueError, match=message):
        sm.identify(pull, **({"arms": 3, "selector": HEURISTIC} | QUIET | given))


@pytest.mark.parametrize("selector", [None, "lil", sm.Racing()])
def test_a_selector_is_a_strategy(selector):
    with pytest.raises(TypeError, match=r"give a strategy such as sm\.LilUCB"):
        sm.identify(pull, 3, selector, **QUIET)
    with pytest.raises(TypeError, match=r"selector\(data\)=.*give a strategy such as"):
        sm.identify(pull, 3, lambda data: selector, **QUIET)


def test_a_strategy_of_ones_own_says_what_is_missing():
    class Certain(B.Uniform):
        guarantee = "exact"

    with pytest.raises(ValueError, match=r"Certain\.guarantee='exact': it must be one of none,"):
        sm.identify(pull, 3, Certain(9), **QUIET)
    with pytest.raises(TypeError, match=r"Strategy must define numbers\(\)"):
        sm.identify(pull, 3, B.Strategy(), **QUIET)


def test_all_strategies_are_told_of():
    """Every public strategy has a docstring, a promise, and its name in the package's list."""
    made = [getattr(B, name) for name in B.__all__]
    others = (sm.Experiment, sm.Identification, sm.Identifications)
    classes = [c for c in made if inspect.isclass(c) and c not in others]
    assert all(issubclass(c, B.Strategy) for c in classes) and {*others} <= {*made}
    # A dataclass without a docstring has one that begins with its name and its arguments.
    assert not [c for c in classes if c.__doc__.startswith(f"{c.__name__}(")]
    for strategy in (sm.LilUCB, sm.SequentialHalving, sm.LinGapE, sm.BayesGap):
        assert issubclass(strategy, B.Strategy)
