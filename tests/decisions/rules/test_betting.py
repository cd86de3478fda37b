"""Betting: fair under all orders of the rows, in realised error, and strict about its range."""

import itertools

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules import betting
from subsample_mcmc.decisions.rules.rule import OUT_OF_SPREAD
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.population import Shape
from tests.helpers.claims import at_most
from tests.helpers.naive import against_exact, every_order, mutant, table

DELTAS = (0.05, 0.3, 0.5, 0.9)
SIZES = [pytest.param(5, marks=pytest.mark.plain), 6, 7]


# ---------------------------------------------------------------------------------- enumeration
def tables(size, seed=0):
    """Rewards of 2 to 4 arms, by name: all kinds that a game might handle wrongly."""
    rng = np.random.default_rng(seed)
    for arms in (2, 3, 4):
        yield f"random {arms}", rng.normal(size=(arms, size))
        yield f"binary {arms}", rng.integers(0, 2, (arms, size)).astype(float)
        # One spike, in every arm at a row of its own: the mean is decided by a single row.
        spike = np.zeros((arms, size))
        spike[np.arange(arms), np.arange(arms)] = 1.0
        yield f"spikes {arms}", spike
        yield f"one spike {arms}", np.where(np.arange(arms)[:, None] == arms - 1, spike, 0.0)
        yield f"one hole {arms}", np.where(np.arange(arms)[:, None] == 0, -spike, 0.0)
        yield f"skewed {arms}", rng.exponential(size=(arms, size)) ** 4
        # The leader of the first rows is not that of the later ones: rivals switch.
        yield f"switching {arms}", np.cos(np.arange(size) * 2.1 + 2.0 * np.arange(arms)[:, None])
        yield f"equal {arms}", np.full((arms, size), 0.7)
        yield f"same row {arms}", np.tile(rng.normal(size=size), (arms, 1))


def rules(rewards):
    """Betting with each of its ways to declare a range, exactly as wide as the data."""
    differences = rewards[:, None] - rewards[None]  # [i, j] = l_i - l_j
    bounds = differences.min(axis=2), differences.max(axis=2)
    below = np.tri(len(rewards), k=-1, dtype=bool)
    yield sm.Betting(spread=np.ptp(rewards))
    yield sm.Betting(spread=np.ptp(rewards, axis=1))
    yield sm.Betting(bounds=bounds)
    yield sm.Betting(bounds=(bounds[0][below].min(), bounds[1][below].max()))


def offsets_for(rewards):
    """Offsets that make all arms tie, and that make one best by a little or by much."""
    tie = -rewards.sum(axis=1)
    first = np.eye(len(rewards))[0] * np.ptp(rewards)
    yield tie
    yield tie + 0.3 * first
    yield tie - first
    yield np.zeros(len(rewards))


def assert_fair(result, delta, where):
    """Exact statements, not statistical ones: the mean over all orders is the expectation."""
    assert result.ended.min() >= 0, f"{where}: ended with code {result.ended.min()}"
    for arm in np.flatnonzero(result.best):
        wealth = result.wealth[:, arm].mean()
        lost, dropped = result.lost[:, arm].mean(), 1.0 - result.survived[:, arm].mean()
        assert wealth <= 1.0 + 1e-12, f"{where}: arm {arm} is the best, its wealth is {wealth}"
        assert max(lost, dropped) <= delta, f"{where}: {arm} lost {lost}, dropped {dropped}"
    if result.best.sum() == 1:
        wrong = np.mean(result.arm != np.argmax(result.best))
        assert wrong <= delta, f"{where}: wrong arm with probability {wrong}"


def games(size):
    """What is enumerated: fewer cases with 5040 orders, and without the JIT."""
    deltas, batches = (DELTAS, (2,) if size < 6 else (2, 3)) if size < 7 else ((0.5,), (2, 3))
    for name, rewards in tables(size):
        for rule in rules(rewards):
            for offsets in offsets_for(rewards):
                for delta, batch in itertools.product(deltas, batches):
                    yield name, rewards, rule, offsets, delta, batch


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_games_are_fair_under_every_order_of_the_rows(size):
    dropped = 0.0
    # Some of them, at a step that has no divisor in common with the number of variants of each.
    step = 17 if DISABLED else {5: 1, 6: 3, 7: 7}[size]
    for name, rewards, rule, offsets, delta, batch in itertools.islice(games(size), 0, None, step):
        made = every_order(rule, rewards, offsets, delta, batch)
        assert_fair(made, delta, (name, rule, offsets, delta, batch))
        dropped = max(dropped, 1.0 - made.survived.mean())
    assert dropped > 0.1  # the games are played to win


def test_a_tie_is_a_martingale_until_an_arm_is_dropped():
    rewards = np.array([[1.0, 0, 2, 0, 0, 3], [0, 1.0, 0, 2, 3, 0]])
    made = every_order(sm.Betting(spread=3.0), rewards, [0.0, 0.0], 1e-9)
    assert made.wealth.mean(axis=0) == pytest.approx([1.0, 1.0], abs=1e-12)
    assert made.wealth.std() > 0.1


@pytest.mark.plain
def test_lower_bounds_of_differences():
    matrix = betting.lower_bounds((-2.0, 5.0), 2)  # -2 <= l_1 - l_0 <= 5
    assert matrix[1, 0] == -2.0 and matrix[0, 1] == -5.0
    low = np.array([[9.0, 9, 9], [-1, 9, 9], [-2, -3, 9]])
    high = np.array([[9.0, 9, 9], [10, 9, 9], [20, 30, 9]])
    matrix = betting.lower_bounds((low, high), 3)
    assert matrix.tolist() == [[0, -10, -20], [-1, 0, -30], [-2, -3, 0]]


# -------------------------------------------------------------------------------------- mutants
# Mistakes, as changes of the module's text. Which one is made is read from the length of an array
# when the game is played, so that all of them are one compilation.
MISTAKES = ("none", "bet after the row", "size after the row", "rival after the row",
            "replacement", "narrow range")  # fmt: skip
CHANGES = [
    (
        "bet = min(theta[k] * odds, cap)",
        "bet = min(theta[k] * odds, cap) if len(theta) != BETS + 1 or excess > 0.0 else 0.0",
    ),
    (
        "squared = memory.game[arm, 1] / memory.game[arm, 0]",
        """squared = memory.game[arm, 1] / memory.game[arm, 0]
        if len(memory.theta) == BETS + 2:
            squared = 1e-4 if race.values[rival, lo] > race.values[arm, lo] else 1.0""",
    ),
    (
        "    rival = race.now[0].leader if arm != race.now[0].leader else race.now[0].runner\n",
        """    rival = race.now[0].leader if arm != race.now[0].leader else race.now[0].runner
    for k in range(race.now[0].alive if rival >= 0 and len(memory.theta) == BETS + 3 else 0):
        other = race.alive[k]
        if other != arm and race.values[other, lo] > race.values[rival, lo]:
            rival = other
""",
    ),
    (
        "mean = balance / left",
        """mean = balance / left
        if len(theta) == BETS + 4:
            mean = (race.arms[arm].offset - race.arms[rival].offset) / size""",
    ),
    ("room = mean - least", "room = (mean - least) * (0.2 if len(theta) == BETS + 5 else 1.0)"),
]


def play_with(functions, mistake="none", orders=None, size=6):
    """The test above, shorter; raises AssertionError if it finds that the games are unfair."""
    for name, rewards in tables(size):
        for offsets in offsets_for(rewards):
            for delta in (0.05, 0.9):
                made = every_order(
                    sm.Betting(spread=np.ptp(rewards)), rewards, offsets, delta,
                    functions=functions, orders=orders, extra=MISTAKES.index(mistake),
                )  # fmt: skip
                assert_fair(made, delta, (name, offsets, delta))


@pytest.mark.slow
def test_enumeration_rejects_every_mistake():
    functions = mutant(betting, *CHANGES)
    play_with(functions)
    for mistake in MISTAKES[1:]:
        with pytest.raises(AssertionError, match=r"wealth is|lost"):
            play_with(functions, mistake)


@pytest.mark.parametrize("kind", ["sorted", "one order for all decisions"])
def test_enumeration_rejects_rows_that_are_not_fresh(kind):
    """Some order is unlucky for the best arm: whoever reuses it errs in every decision."""
    orders = np.array([[0, 1, 2, 3, 4, 5]] if kind == "sorted" else [[3, 1, 0, 5, 2, 4]])
    honest = sm.Betting().functions()
    with pytest.raises(AssertionError, match=r"wealth is|lost"):
        play_with(honest, orders=orders)


# ------------------------------------------------------------------------------- realised error
def differences(name, size, rng):
    """Rewards of arm 1, arm 0 having none: as skewed as the name says, of unit deviation."""
    d = {
        "normal": rng.normal,
        "uniform": rng.random,
        "lognormal 1": lambda size: rng.lognormal(0.0, 1.0, size),
        "lognormal 2": lambda size: rng.lognormal(0.0, 2.0, size),
        "gamma .15": lambda size: rng.gamma(0.15, size=size),
        "spikes": lambda size: (np.arange(size) < max(size // 5000, 1)).astype(float),
    }[name](size=size)
    return (d - d.mean()) / d.std()


SYMMETRIC = ["normal", "uniform"]
KINDS = [*SYMMETRIC, "lognormal 1", "lognormal 2", "gamma .15", "spikes"]


def race_of(name, size, draws, delta, scale, sign, seed=7):
    """Errors of Betting and Serfling among draws of two arms with skewed differences."""
    rng = np.random.default_rng(seed)
    d = sign * scale / np.sqrt(size) * differences(name, size, rng)
    rewards = np.stack([np.zeros(size), d])
    each = np.ptp(rewards, axis=1)
    for rule in (sm.Betting(spread=np.ptp(d)), sm.BernsteinSerfling(spread=each)):
        selector = sm.Racing(rule=rule, delta=delta, retreat=False)
        yield rule, *against_exact(rewards, selector, draws, seed)


@pytest.mark.slow_for("normal-1.0")
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", KINDS)
def test_realised_error_is_at_most_delta(name, sign):
    """False alarms: 1e-6 for each of 12 x 3 x 2 counts."""
    for delta, scale in ((0.05, 3.0), (0.3, 0.5), (0.9, 3.0)):
        for rule, made, wrong in race_of(name, 5000, 1500, delta, scale, sign):
            at_most(wrong, len(made), delta)
            if name in {"normal", "uniform"} and scale < 1.0 and isinstance(rule, sm.Betting):
                assert made.share_read < 0.9  # and it is no exact sampler in disguise


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sign"),
    [(name, sign) for name in KINDS for sign in (1.0, -1.0)[: 1 + (name not in SYMMETRIC)]],
)
def test_realised_error_at_small_delta(name, sign):
    """At 1% rejected: bets after the row (a third is wrong), a range of a fifth (5%, of spikes)."""
    for delta, scale in ((0.01, 3.0), (0.05, 0.3)):
        for _, made, wrong in race_of(name, 8_000, 1_500, delta, scale, sign):
            at_most(wrong, len(made), delta)


@pytest.mark.parametrize("declare", ["spread", "per arm", "bounds"])
def test_realised_error_with_many_arms(declare, rng):
    rewards = 0.01 * rng.normal(size=(10, 4000)) + 0.01 * rng.exponential(size=4000)
    rewards -= rewards.mean(axis=1, keepdims=True)
    gaps = rewards[:, None] - rewards[None]
    rule = {
        "spread": sm.Betting(spread=np.ptp(rewards)),
        "per arm": sm.Betting(spread=np.ptp(rewards, axis=1)),
        "bounds": sm.Betting(bounds=(gaps.min(axis=2), gaps.max(axis=2))),
    }[declare]
    made, wrong = against_exact(rewards, sm.Racing(rule=rule, delta=0.1, retreat=False), 1500, 5)
    at_most(wrong, 1500, 0.1)
    assert made.share_read < 0.7
    assert np.count_nonzero(made.dropped_early) > 1000


def test_pulls_are_at_most_those_of_normal(rng):
    rewards = 1e-4 * rng.normal(size=(10, 100_000))
    pulls = {}
    for rule in (sm.Betting(spread=np.ptp(rewards)), sm.Normal()):
        selector = sm.Racing(rule=rule, delta=0.01, retreat=False)
        pulls[type(rule)] = sm.draw(table(rewards), 300, selector, seed=1).pulls.mean()
    assert pulls[sm.Betting] <= 1.2 * pulls[sm.Normal]


# --------------------------------------------------------------------- the range, and refusals
def near_tie(size=300, seed=3):
    rewards = np.random.default_rng(seed).random((3, size))
    return rewards - rewards.mean(axis=1, keepdims=True)


@pytest.mark.plain
@pytest.mark.parametrize("rule", [
    sm.Betting(spread=3.0), sm.Betting(spread=np.array([1.0, 1.0, 3.0])),
    sm.BernsteinSerfling(spread=1.0),
])  # fmt: skip
def test_a_reward_outside_the_spread_is_an_error_that_names_it(rule):
    rewards = near_tie()  # but for the row that breaks the range, so that all rows are read
    rewards[1, 17] = 40.0
    selector = sm.Racing(rule=rule, delta=1e-6, batch=4, retreat=False)
    with pytest.raises(sm.SpreadError, match=r"arm 1 at datum 17 is 40\.0") as error:
        sm.choose(rewards, selector=selector, seed=0)
    assert "outside the declared range" in str(error.value) and "wider" in str(error.value)


def test_a_difference_outside_the_bounds_is_found_at_every_row():
    """Two arms, so that each row that is read is a difference that was bounded."""
    rewards = np.array([[0.1, 0, 0.3, 0.1, 0, 0.1, 0], [0, 0.3, 0, 0.1, 0.2, 0, -5]])
    made = every_order(sm.Betting(bounds=(-0.5, 0.5)), rewards, [0.0, 0.0], 1e-9, batch=3)
    assert np.all(made.ended == OUT_OF_SPREAD)


def test_an_impossible_arm_dies_and_does_not_hide_a_range_violated():
    """Arm 2 dies at row 3. The others keep to their width before and after, but not over both."""
    rewards = np.array([[0.0, 1, 0, 5, 6, 5, 6], [0, 0, 1, 6, 5, 6, 5], [0, 0, 0, 0, 0, 0, 0]])
    rewards[2, 3] = -np.inf
    offsets = [0.0, rewards[0].sum() - rewards[1].sum(), 0.0]
    for spread in (6.0, np.full(3, 6.0)):
        made = every_order(sm.Betting(spread=spread), rewards, offsets, 1e-9, batch=3)
        assert np.all(made.ended >= 0) and not np.any(made.survived[:, 2])
        assert np.all(made.survived[:, :2])
    for spread in (5.5, np.full(3, 5.5)):
        made = every_order(sm.Betting(spread=spread), rewards, offsets, 1e-9, batch=3)
        assert np.all(made.ended == OUT_OF_SPREAD)


@pytest.mark.plain
def test_an_impossible_arm_is_certain_to_lose():
    rewards = near_tie(60)
    rewards[2, ::2] = -np.inf
    choice = sm.choose(
        rewards, [0.0, 0.5, 1e6], sm.Racing(sm.Betting(spread=1.0), 1e-9, 4, retreat=False), seed=0
    )
    assert choice.arm == 1 and choice.exact


@pytest.mark.plain
def test_an_impossible_reward_after_a_drop_is_outside_the_range():
    """The games in which arm 1 lost may have been against the arm that now proves impossible."""
    rewards = np.random.default_rng(0).random((3, 400))
    rewards[0] -= 0.9
    rewards[1:] += (rewards[2].mean() - rewards[1:].mean(axis=1))[:, None]
    rewards[2, 33] = -np.inf
    selector = sm.Racing(sm.Betting(spread=3.0), 0.05, 8, retreat=False)
    messages = set()
    for seed in range(20):
        try:
            assert sm.choose(rewards, selector=selector, seed=seed).arm == 1
        except sm.SpreadError as error:
            messages.add(str(error)[:46])
    assert messages == {"the reward of arm 2 at datum 33 is -inf, outsi"}


@pytest.mark.plain
@pytest.mark.parametrize(("rule", "words"), [
    (sm.Betting(), "no range.*spread=.*Normal"),
    (sm.Betting(spread=-1.0), "not negative"),
    (sm.Betting(spread=np.inf), "finite"),
    (sm.Betting(spread=[1.0, np.nan, 1.0]), "finite"),
    (sm.Betting(bounds=(1.0, -1.0)), "low <= high"),
    (sm.Betting(bounds=(-np.inf, 1.0)), "finite"),
    (sm.Betting(bounds=(-1.0,)), "low, high"),
    (sm.Betting(bounds=(np.zeros(2), 1.0)), "low, high"),
])  # fmt: skip
def test_refusals_say_what_to_do(rule, words):
    with pytest.raises(ValueError, match=words):
        sm.choose(near_tie(), selector=sm.Racing(rule), seed=0)


@pytest.mark.plain
def test_arms_with_rows_of_their_own_are_refused():
    with pytest.raises(ValueError, match=r"rows of their own.*paired=False"):
        sm.choose([np.zeros(300), np.zeros(200)], selector=sm.Racing(sm.Betting(spread=1.0)))
    assert sm.Betting(spread=1.0).params(Shape((300, 300), True), 0.1, 8, 2.0).target == 80.0
