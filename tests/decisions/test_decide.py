"""choose and draw: what they return, how they are seeded, and what they refuse."""

import math
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.special

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules.rule import Rule, RuleFunctions
from subsample_mcmc.numerics.jit import DISABLED, jit
from tests.helpers.claims import equal
from tests.helpers.gumbels import against_exact, standardised, student, student_log_density, table

EVERY = {
    "exact": sm.Exact(),
    "racing": sm.Racing(batch=16, retreat=False),
    "retreat": sm.Racing(),
    "betting": sm.Racing(sm.Betting(spread=50.0), batch=16, retreat=False),
    "serfling": sm.Racing(sm.BernsteinSerfling(spread=50.0), retreat=False),
    "lilucb": sm.LilUCB(scale=5.0),
}


# ------------------------------------------------------------------------------- what comes out
@pytest.mark.plain
@pytest.mark.parametrize("name", EVERY)
def test_every_selector_finds_a_clear_winner(rng, name):
    rewards = rng.standard_normal((4, 600))
    rewards[2] += 3.0
    choice = sm.choose(rewards, selector=EVERY[name], seed=1)
    assert choice.arm == 2
    assert choice.pulls <= 4 * 600 * 1.1
    assert choice.exact == (choice.dropped_early == 0)


@pytest.mark.parametrize("name", EVERY)
def test_every_selector_draws_from_the_distribution(rng, name):
    p = np.array([0.5, 0.3, 0.15, 0.05])
    rewards = standardised(rng.standard_normal((4, 400)), 1e-4, p)
    draws = 4000
    arms = sm.draw(table(rewards), draws, selector=EVERY[name], seed=2).arms
    for arm in range(4):
        # All these selectors are exact here or err far below what 4000 draws can see.
        equal(int((arms == arm).sum()), draws, p[arm])


def test_log_prior_counts_and_minus_infinity_excludes():
    population = table(np.zeros((3, 50)), log_prior=np.log([0.2, 0.8, 1e-300]) - [0, 0, np.inf])
    arms = sm.draw(population, 5000, seed=3).arms
    equal(int((arms == 1).sum()), 5000, 0.8)
    assert not np.any(arms == 2)


@pytest.mark.plain
def test_one_arm_costs_nothing():
    choice = sm.choose(np.zeros((1, 100)))
    assert choice == (0, 0, 0, True, 0, "alone")
    choice = sm.choose(np.zeros((3, 100)), offsets=[-np.inf, 0.0, -np.inf])
    assert (choice.arm, choice.pulls) == (1, 0)


@pytest.mark.plain
def test_few_rows_are_read_exactly_and_said_so(rng):
    rewards = rng.standard_normal((3, 100))
    choice = sm.choose(rewards, selector=sm.Racing(retreat=False))
    assert choice == (int(rewards.sum(axis=1).argmax()), 300, 1, True, 0, "exact")


def test_draws_report_what_they_cost():
    population = student(20_000, 0.5)
    made = sm.draw(population, 100, selector=sm.Racing(retreat=False), seed=1)
    assert len(made) == 100
    assert made.share_read == made.pulls.mean() / 200_000
    assert made.guarantee == "asymptotic"
    assert list(made.to_frame().columns) == ["arm", "pulls", "rounds", "dropped_early", "ended"]
    assert np.array_equal(made.exact, made.dropped_early == 0)
    assert "100 draws" in repr(made)


# ----------------------------------------------------------------------------------------- seeds
def test_seeds(rng):
    population = student(20_000, 0.5)
    first = sm.draw(population, 50, seed=7)
    again = sm.draw(population, 50, seed=np.random.default_rng(7))
    assert np.array_equal(first.arms, again.arms)
    assert np.array_equal(first.pulls, again.pulls)
    sequence = sm.draw(population, 50, seed=np.random.SeedSequence(7))
    assert np.array_equal(first.pulls, sequence.pulls)
    assert not np.array_equal(first.pulls, sm.draw(population, 50, seed=8).pulls)
    fresh = [sm.draw(population, 50).pulls for _ in range(2)]
    assert not np.array_equal(*fresh)
    generator = np.random.default_rng(7)
    sm.draw(population, 50, seed=generator)
    assert not np.array_equal(first.pulls, sm.draw(population, 50, seed=generator).pulls)


def test_selectors_share_their_gumbels():
    population = student(20_000, 0.5)
    arms = [sm.draw(population, 300, selector=s, seed=9).arms for s in (sm.Exact(), sm.Racing())]
    assert np.mean(arms[0] == arms[1]) > 0.95


def test_draws_do_not_depend_on_how_often_python_looks_in(monkeypatch):
    population = student(20_000, 0.5)
    whole = sm.draw(population, 300, seed=4)
    monkeypatch.setattr("subsample_mcmc.decisions.choose.PATIENT", 0.0)
    pieces = sm.draw(population, 300, seed=4)
    assert np.array_equal(whole.pulls, pieces.pulls)


def test_threads_may_draw_from_one_population():
    population = student(20_000, 0.5)
    expected = [sm.draw(population, 2000, seed=s).pulls for s in range(4)]
    got = [None] * 4

    def work(s):
        got[s] = sm.draw(population, 2000, seed=s).pulls

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))


# -------------------------------------------------------------------------------------- bad input
@pytest.mark.plain
@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (np.zeros((0, 5)), "at least one arm"),
        (np.zeros((3, 0)), "at least one arm and one reward"),
        ([], "no arm"),
        (np.zeros((2, 3, 4)), "1-D arrays"),
    ],
)
def test_no_arm_and_no_reward(rewards, message):
    with pytest.raises(ValueError, match=message):
        sm.choose(rewards)


@pytest.mark.plain
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_are_named_by_arm_and_datum(rng, name, bad):
    rewards = rng.standard_normal((3, 200))
    rewards -= rewards.mean(axis=1, keepdims=True)  # a tie: nobody may stop early
    rewards[1, 150] = bad
    with pytest.raises(sm.RewardError, match=f"arm 1 at datum 150 is {bad}"):
        sm.choose(rewards, selector=EVERY[name], seed=1)


@pytest.mark.plain
@pytest.mark.parametrize("name", EVERY)
def test_minus_infinity_kills_its_arm(rng, name):
    rewards = rng.standard_normal((3, 300)) * 0.1
    rewards[1] = 1.0
    rewards[1, ::2] = -np.inf
    choice = sm.choose(rewards, selector=EVERY[name], seed=1)
    assert choice.arm != 1


@pytest.mark.plain
@pytest.mark.parametrize("name", EVERY)
def test_all_arms_impossible(name):
    rewards = np.full((3, 300), -np.inf)
    with pytest.raises(sm.RewardError, match="all 3 arms are impossible"):
        sm.choose(rewards, selector=EVERY[name], seed=1)


def test_minus_infinity_costs_no_race_its_speed(rng):
    rewards = rng.standard_normal((4, 50_000)) + np.array([[0.0], [3.0], [0.0], [0.0]])
    rewards[2, ::3] = -np.inf
    choice = sm.choose(rewards, seed=1)
    assert choice.arm == 1
    assert choice.pulls < 2000


@pytest.mark.plain
@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0.0, np.nan], "offsets\\[1\\] is nan"),
        ([np.inf, 0.0], "offsets\\[0\\] is inf"),
        ([-np.inf, -np.inf], "-inf for all 2 arms"),
        ([0.0], "one number for each of 2 arms"),
    ],
)
def test_bad_offsets(offsets, message):
    with pytest.raises(ValueError, match=message):
        sm.choose(np.zeros((2, 10)), offsets=offsets)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"arms": 0}, ValueError, "arms=0"),
        ({"arms": 2.5}, ValueError, "arms=2.5"),
        ({"size": 0}, ValueError, "size=0"),
        ({"data": (np.zeros(0),)}, ValueError, "size=0"),
        ({"data": np.zeros(5)}, TypeError, "data is one ndarray: give a dict of arrays"),
        ({"data": (np.array(["a"]),)}, TypeError, "dtype"),
        ({"data": {"class": np.zeros(3)}}, ValueError, "class"),
        ({"log_prior": [0.0]}, ValueError, "log_prior has shape"),
        ({"log_prior": [0.0, np.nan]}, ValueError, "log_prior\\[1\\]"),
        ({"log_factor": "f"}, TypeError, "not a Python function"),
        ({"log_factor": lambda data, arm, n: data[0]}, TypeError, "array of shape"),
        ({"log_factor": lambda data, arm, n: "x"}, TypeError, "one float"),
        ({"log_factor": lambda data, arm, n: data[0][n] / nothing}, NameError, "nothing"),  # noqa: F821
    ],
)
def test_populations_are_checked_before_any_work(change, error, message):
    good = {"log_factor": lambda data, arm, n: 0.0, "data": (np.zeros(10),), "arms": 2}
    with pytest.raises(error, match=message):
        sm.Population(**{**good, **change})


def raises(data, arm, n):
    raise KeyError("my own mistake")


def test_a_users_mistake_shows_his_own_traceback():
    with pytest.raises(KeyError, match="my own mistake"):
        sm.Population(raises, (np.zeros(10),), 2)


def reads_two_arrays(data, arm, n):
    return data[0][n] - data[1][n]


def test_an_array_that_is_too_short_is_noticed_before_compiled_code_reads_past_it():
    with pytest.raises(IndexError) as caught:
        sm.Population(reads_two_arrays, (np.zeros(10), np.zeros(9)), 2)
    assert "n=9" in caught.value.__notes__[0]


@dataclass(frozen=True)
class BrokenRule(Rule):
    def functions(self):
        return RuleFunctions(jit(lambda race, params, memory, arm: race.nonsense > 0))

    def params(self, shape, delta, batch, growth):
        return (1.0,)


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_a_broken_rule_is_not_blamed_on_the_reward():
    with pytest.raises(sm.CompileError, match=r"Racing\(rule=BrokenRule.*nonsense"):
        sm.draw(student(20_000, 0.5), selector=sm.Racing(BrokenRule()))


def cannot_compile(data, arm, n):
    return scipy.special.gammaln(data[0][n] + 1.0)


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_a_function_that_cannot_be_compiled_shows_its_line():
    population = sm.Population(cannot_compile, (np.zeros(10),), 2)
    with pytest.raises(sm.CompileError) as caught:
        sm.draw(population)
    assert "cannot_compile cannot be compiled" in str(caught.value)
    assert "return scipy.special.gammaln(data[0][n] + 1.0)" in str(caught.value)


def slow_maths(data, arm, n):
    return -math.log1p(data[0][n] ** 2)


def test_slow_maths_is_mentioned_once():
    with pytest.warns(sm.SlowMathWarning, match=r"sm\.log1p"):
        sm.Population(slow_maths, (np.zeros(10),), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sm.Population(slow_maths, (np.zeros(10),), 2)
        sm.Population(student_log_density, {"y": np.zeros(10), "mu": np.zeros(2)}, 2)


def test_selector_must_be_one():
    with pytest.raises(TypeError, match=r"sm\.Exact"):
        sm.choose(np.zeros((2, 10)), selector="exact")
    with pytest.raises(TypeError, match=r"sm\.Population"):
        sm.draw(np.zeros((2, 10)))


# ------------------------------------------------------------------------------- long work stops
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_control_c_stops_a_long_draw():
    script = """
        import signal, sys, threading, os
        import numpy as np, subsample_mcmc as sm
        def f(data, arm, n):
            return data.y[n] * arm
        population = sm.Population(f, {"y": np.zeros(100_000)}, 5)
        sm.draw(population, 2, selector=sm.Exact())
        # A test run started in the background inherits an ignored SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            sm.draw(population, 1_000_000, selector=sm.Exact(), progress=False)
        except KeyboardInterrupt:
            made = sm.draw(population, 3, selector=sm.Exact())
            print("stopped", len(made))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["stopped", "3"], done.stderr
    assert done.returncode != -signal.SIGINT


def test_progress_bar_on_request(capsys):
    sm.draw(student(20_000, 0.5), 2000, seed=1, progress=True)
    assert "draws" in capsys.readouterr().err


@pytest.mark.plain
def test_plain_and_compiled_runs_choose_these_arms():
    """The same file runs with and without the JIT: the arms are stored, not recomputed."""
    rewards = np.sin(np.arange(4)[:, None] + np.arange(500)) * 0.05
    rewards += np.array([[0.0], [0.004], [0.002], [-0.004]])
    arms = [2, 1, 1, 0, 1, 1, 1, 2]
    for name, selector in EVERY.items():
        made = sm.draw(table(rewards), 8, selector=selector, seed=11)
        assert made.arms.tolist() == arms, name
        if name == "racing":
            assert made.pulls.tolist() == [448, 1384, 1384, 1756, 1564, 1756, 1628, 1628]


def test_errors_are_rare_where_they_must_be(rng):
    rewards = standardised(rng.standard_normal((5, 5000)), 1e-3, 0.6 ** np.arange(5))
    for selector in (EVERY["exact"], sm.Racing(sm.Betting(spread=0.02), retreat=False)):
        result = against_exact(rewards, selector, 500)
        assert result.wrong <= 5


# ---------------------------------------------------------------------------- masks and frames
@pytest.mark.parametrize("listed", [False, True])
def test_masked_rewards_are_refused(listed):
    """What a mask hides would decide."""
    rewards = np.ma.masked_array(
        [[0.0, 0.0, 999.0], [1.0, 1.0, 1.0]], mask=[[0, 0, 1], [0, 0, 0]]
    )  # fmt: skip
    with pytest.raises(ValueError, match="masked array with 1 missing value"):
        sm.choose(list(rewards) if listed else rewards, selector=sm.Exact())


def test_a_frame_of_rewards_is_told_apart():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="one row for each arm"):
        sm.choose(pandas.DataFrame({"a": [1.0, 2.0]}))


def test_a_sum_that_overflows_is_told_as_one():
    with pytest.raises(sm.RewardError, match="rewards of arm 0 are finite, and their sum is not"):
        sm.choose(np.vstack([np.full(100, 1e308), np.zeros(100)]), selector=sm.Exact())
