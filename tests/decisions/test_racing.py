"""Racing against Exact under the same Gumbels: rates, guards, retreat, unequal populations."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.racing import GATHER_COST, PATIENCE
from tests.helpers.claims import above, at_most
from tests.helpers.gumbels import against_exact, offsets, standardised, student, table

TEN = 0.74 ** np.arange(10)
TWO = np.array([0.6, 0.4])
NORMAL = sm.Normal(guard=False)


def symmetric(rng, kind, arms, size=20_000):
    return rng.standard_normal((arms, size)) if kind == "normal" else rng.random((arms, size))


def skewed(rng, kind, size=100_000):
    """One skewed arm beside a constant one: what a Metropolis ratio looks like."""
    first = {
        "lognormal1": lambda: np.exp(rng.standard_normal(size)),
        "lognormal2": lambda: np.exp(2.0 * rng.standard_normal(size)),
        "gamma": lambda: rng.gamma(0.15, size=size),
    }[kind]()
    return np.stack([first, np.zeros(size)])


@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize("delta", [0.01, 0.05])
def test_normal_keeps_delta_on_symmetric_rewards(rng, kind, delta):
    rewards = standardised(symmetric(rng, kind, 10), 0.1, TEN)
    racing = sm.Racing(NORMAL, delta=delta, batch=50, retreat=False)
    result = against_exact(rewards, racing, 1000)
    at_most(result.wrong, result.draws, delta)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize(("arms", "p"), [(10, TEN), (2, TWO)])
@pytest.mark.parametrize(("delta", "guard"), [(0.01, True), (0.05, False)])
def test_normal_keeps_delta_in_ten_thousand_draws(rng, kind, arms, p, delta, guard):
    rewards = standardised(symmetric(rng, kind, arms, 5_000), 0.2, p)
    racing = sm.Racing(sm.Normal(guard=guard), delta=delta, retreat=False)
    result = against_exact(rewards, racing, 10_000)
    at_most(result.wrong, result.draws, delta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "delta"), [("lognormal1", 0.01), ("lognormal2", 0.05), ("gamma", 0.01)]
)
def test_the_guard_keeps_delta_where_normal_alone_fails(rng, kind, delta):
    rewards = standardised(skewed(rng, kind), 0.1, TWO)
    guarded = against_exact(rewards, sm.Racing(sm.Normal(), delta=delta, retreat=False), 1_000)
    at_most(guarded.wrong, guarded.draws, delta)
    alone = against_exact(rewards, sm.Racing(NORMAL, delta=delta, retreat=False), 1_000)
    above(alone.wrong, alone.draws, delta)


def test_normal_without_guard_fails_on_a_skewed_difference(rng):
    rewards = standardised(skewed(rng, "lognormal2"), 0.1, TWO)
    alone = against_exact(rewards, sm.Racing(NORMAL, delta=0.01, retreat=False), 500)
    above(alone.wrong, alone.draws, 0.01)
    guarded = against_exact(rewards, sm.Racing(sm.Normal(), delta=0.01, retreat=False), 500)
    at_most(guarded.wrong, guarded.draws, 0.01)


def spikes(size=20_000, count=4):
    """A few rows decide everything: no batch that misses them can tell."""
    rewards = np.zeros((2, size))
    rewards[0, :] = 1e-3 * np.sin(np.arange(size))
    rewards[0, :: size // count] += 5.0
    rewards[0] -= 15.0 / size
    return rewards


def test_rare_spikes_defeat_the_guard_and_not_betting():
    rewards = spikes()
    guarded = against_exact(rewards, sm.Racing(sm.Normal(), delta=0.05, retreat=False), 500)
    above(guarded.wrong, guarded.draws, 0.05)
    width = float(np.ptp(rewards))
    betting = sm.Racing(sm.Betting(spread=width), delta=0.05, retreat=False)
    bounded = against_exact(rewards, betting, 500)
    at_most(bounded.wrong, bounded.draws, 0.05)


def test_marginal_variances_keep_delta_and_read_more(rng):
    rewards = standardised(symmetric(rng, "normal", 10), 3e-3, TEN)
    paired = against_exact(rewards, sm.Racing(NORMAL, delta=0.05, retreat=False), 1000)
    marginal_rule = sm.Normal(paired=False, guard=False)
    marginal = against_exact(rewards, sm.Racing(marginal_rule, delta=0.05, retreat=False), 1000)
    at_most(marginal.wrong, marginal.draws, 0.05)
    assert marginal.share_read > paired.share_read


@pytest.mark.plain
def test_constant_differences_are_no_information():
    rewards = np.zeros((3, 500))
    rewards[1] = 0.001  # differs, with zero variance: the paper's bound would be zero
    racing = sm.Racing(batch=16, retreat=False)
    choice = sm.choose(rewards, selector=racing, seed=1)
    assert choice == (1, 1500, 6, True, 0, "exhausted")


@pytest.mark.plain
def test_identical_arms_end_by_the_sums():
    choice = sm.choose(np.ones((4, 300)), selector=sm.Racing(batch=8, retreat=False), seed=1)
    assert choice.arm == 0
    assert choice.exact


# ------------------------------------------------------------------------------- the retreat
def test_the_retreat_decides_before_the_first_batch_when_data_are_few(rng):
    size = int(0.9 * 64 * GATHER_COST[0][1] / PATIENCE)
    choice = sm.choose(rng.standard_normal((10, size)), seed=1)
    assert choice.ended == "exact"
    assert choice.pulls == 10 * size


@pytest.mark.parametrize("size", [30_000, 300_000])
def test_the_retreat_bounds_the_cost_and_is_exact(size):
    population = student(size, size**-0.5)
    made = sm.draw(population, 50, seed=3)
    exact = sm.draw(population, 50, selector=sm.Exact(), seed=3)
    assert np.array_equal(made.arms, exact.arms)
    assert np.all(made.ended == "retreated")
    cost = next(c for rows, c in GATHER_COST if size <= rows)
    gathered = made.pulls - 10 * size
    assert np.all(gathered * cost <= PATIENCE * 10 * size)


def test_no_retreat_reads_at_most_everything():
    population = student(20_000, 20_000**-0.5)
    made = sm.draw(population, 20, selector=sm.Racing(retreat=False), seed=3)
    assert made.pulls.max() <= 10 * 20_000
    assert set(made.ended) <= {"raced", "exhausted"}


@pytest.mark.slow
def test_an_easy_wrong_decision_never_costs_twenty_nats():
    population = student(100_000, 0.5)
    draws = 100_000
    made = sm.draw(population, draws, seed=5, progress=False)
    totals = np.array([student_total(population, arm) for arm in range(10)])
    scores = totals + offsets(population, draws, 5)
    lost = scores.max(axis=1) - scores[np.arange(draws), made.arms]
    at_most(int((lost > 1e-6).sum()), draws, 0.05)
    assert lost.max() <= 20.0


def student_total(population, arm):
    r = population.data.y - population.data.mu[arm]
    return float(np.sum(-2.5 * np.log1p(r * r / 4.0)))


# ----------------------------------------------------------------- arms with rows of their own
@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_unequal_arms_decide_on_totals(rng, delta):
    wrong = 0
    draws = 2000
    racing = sm.Racing(sm.Normal(paired=False), delta=delta, batch=16, retreat=False)
    for k in range(draws):
        sizes = np.exp(rng.uniform(0.0, np.log(3000.0), size=8)).astype(int)
        rewards = [rng.normal(0.3 * rng.standard_normal() / np.sqrt(n), 1.0, n) for n in sizes]
        noise = 20.0 * rng.gumbel(size=8)
        choice = sm.choose(rewards, noise, racing, seed=k)
        scores = [row.sum() + g for row, g in zip(rewards, noise, strict=True)]
        wrong += choice.arm != int(np.argmax(scores))
    at_most(wrong, draws, delta)


@pytest.mark.plain
def test_unequal_arms_read_exactly_when_nothing_may_be_dropped():
    rewards = [np.full(1, 5.0), np.zeros(7), np.full(300, 0.01)]
    choice = sm.choose(rewards, selector=sm.Racing(sm.Normal(paired=False), batch=4), seed=1)
    assert choice.arm == 0


@pytest.mark.parametrize("rule", [sm.Normal(), sm.Betting(spread=1.0)])
def test_paired_rules_refuse_arms_with_rows_of_their_own(rule):
    with pytest.raises(ValueError, match="rows of their own"):
        sm.choose([np.zeros(300), np.zeros(400)], selector=sm.Racing(rule))


# ------------------------------------------------------------------------ schedule and symmetry
@pytest.mark.parametrize("growth", [1.25, 2.0, 4.0])
def test_any_schedule_keeps_delta(rng, growth):
    rewards = standardised(symmetric(rng, "normal", 2, 10_000), 0.1, TWO)
    racing = sm.Racing(NORMAL, delta=0.1, growth=growth, retreat=False)
    result = against_exact(rewards, racing, 2000)
    at_most(result.wrong, result.draws, 0.1)


@pytest.mark.plain
@pytest.mark.parametrize("shift", [-1e3, 0.0, 77.0])
def test_a_common_offset_changes_nothing(rng, shift):
    rewards = rng.standard_normal((3, 400)) + np.array([[0.0], [0.3], [0.6]])
    racing = sm.Racing(batch=16, retreat=False)
    plain = sm.choose(rewards, np.zeros(3), racing, seed=4)
    assert sm.choose(rewards, np.full(3, shift), racing, seed=4) == plain


@pytest.mark.plain
def test_renaming_arms_renames_the_winner(rng):
    rewards = rng.standard_normal((4, 400)) + np.array([[0.0], [0.3], [0.6], [0.1]])
    racing = sm.Racing(batch=16, retreat=False)
    order = np.array([2, 0, 3, 1])
    first = sm.choose(rewards, selector=racing, seed=4)
    second = sm.choose(rewards[order], selector=racing, seed=4)
    assert order[second.arm] == first.arm
    assert (second.pulls, second.rounds) == (first.pulls, first.rounds)


def test_pulls_stay_within_proposition_7(rng):
    size, arms, delta = 50_000, 4, 0.05
    # Every rival at the same distance: its paired gap is the smallest normalised gap.
    for distance in (0.02, 0.1, 0.5):
        rewards = rng.standard_normal((arms, size))
        rewards -= rewards.mean(axis=1, keepdims=True)
        rewards[0] += distance
        gap = min(distance / np.std(rewards[0] - rewards[i]) for i in range(1, arms))
        most = sm.expected_pulls(gap, size, arms, delta)
        racing = sm.Racing(NORMAL, delta=delta, retreat=False)
        pulls = [sm.choose(rewards, selector=racing, seed=s).pulls for s in range(300)]
        at_most(int(np.sum(np.array(pulls) > most)), 300, delta)
        assert most <= arms * size
    assert sm.expected_pulls(0.0, size, arms) == arms * size
    assert np.all(np.diff(sm.expected_pulls(np.linspace(0, 2, 50), size, arms)) <= 0)


def absurd_third(size=100_000):
    """Student's t data under Student's t, a fitted normal 8,400 nats behind, and what is absurd."""
    y = np.random.default_rng(0).standard_t(4, size)
    right = -2.5 * np.log1p(y * y / 4.0) - np.log(8.0 / 3.0)
    close, absurd = (
        -0.5 * (y / s) ** 2 - np.log(s * np.sqrt(2.0 * np.pi)) for s in (y.std(), 0.05)
    )
    rewards = np.array([right, close, absurd])
    assert rewards.sum(axis=1).argmax() == 0 and np.ptp(rewards[:2].sum(axis=1)) > 8_000.0
    return sm.Population(lambda data, arm, n: data[0][arm, n], (rewards,), 3, size)


@pytest.mark.slow
def test_no_draw_in_half_a_million_loses_more_than_twenty_nats():
    """Within delta some would: the paper's rule, the mutant, loses 8,400 in 56 of a million."""
    population = absurd_third()
    draws = sm.draw(population, 500_000, sm.Racing(), seed=1, progress=False)
    assert np.all(draws.arms == 0)
    mutant = sm.draw(population, 500_000, sm.Racing(sm.Normal(worst=np.inf)), seed=1)
    assert 10 < np.count_nonzero(mutant.arms) < 25_000


def test_the_worst_that_an_error_may_cost(rng):
    """Large gaps are seen as soon as ever; an infinite cost is the paper's rule."""
    first = rng.standard_normal(50_000)
    for shift, same in ((2.0, True), (0.3, False)):  # 16 and 2.4 standard errors in a first batch
        rewards = np.array([first, first - shift - rng.standard_normal(50_000)])
        pulls = [
            int(sm.choose(rewards, selector=sm.Racing(sm.Normal(worst=worst)), seed=1).pulls)
            for worst in (20.0, 1e5, 1e300, np.inf)
        ]
        assert pulls[1] == pulls[2] == pulls[3] <= pulls[0]
        assert pulls[0] == pulls[1] if same else pulls[0] > pulls[1]
    for worst in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=f"worst={worst}: give the nats"):
            sm.Normal(worst=worst)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delta": 0.0}, "strictly between 0"),
        ({"delta": 1.5}, "strictly between 0"),
        ({"batch": 1}, "at least 2"),
        ({"batch": 2.5}, "whole number"),
        ({"growth": 1.0}, "between 1.01 and 16"),
    ],
)
def test_wrong_numbers_are_refused_with_value_and_remedy(wrong, message):
    with pytest.raises(ValueError, match=message):
        sm.Racing(**wrong)


def test_normal_needs_delta_below_one_half():
    with pytest.raises(ValueError, match=r"delta=0\.6"):
        sm.choose(np.zeros((2, 1000)), selector=sm.Racing(delta=0.6))


def test_a_rule_must_be_a_rule():
    with pytest.raises(TypeError, match=r"sm\.Normal"):
        sm.Racing(rule="normal")


def test_table_of_rewards_is_not_copied():
    rewards = np.zeros((2, 100))
    population = table(rewards)
    rewards[1] = 50.0
    assert set(sm.draw(population, 5, seed=1).arms) == {1}


# --------------------------------------------------------------- impossible arms found too late
def late_deaths(size=50_000):
    """Two tied arms with one -inf each, and one that is possible, and worse."""
    rewards = np.zeros((3, size))
    rewards[:2] = 0.01 * np.sin(np.arange(size))
    rewards[2] = -0.05
    rewards[0, 7] = rewards[1, 11] = -np.inf
    return rewards


@pytest.mark.parametrize("retreat", [True, False])
def test_arms_dropped_for_one_that_proves_impossible_are_looked_at_again(retreat):
    for seed in range(10):
        racing = sm.Racing(sm.Normal(guard=False), retreat=retreat)
        choice = sm.choose(late_deaths(), selector=racing, seed=seed)
        assert choice.arm == 2


def test_an_arm_dropped_for_one_that_dies_in_the_race_is_looked_at_again(rng):
    """Arm 1 is dropped in favour of arm 0, which has a -inf; arm 2 is far behind, and noisy."""
    size, dead = 20_000, 0
    for seed in range(20):
        rewards = np.zeros((3, size))
        rewards[0] = 1e-6 + 1e-8 * rng.standard_normal(size)
        rewards[2] = rng.standard_normal(size) * 0.3
        rewards[2] += -0.01 - rewards[2].mean()
        rewards[0, rng.choice(size, 3, replace=False)] = -np.inf
        racing = sm.Racing(sm.Normal(guard=False), retreat=False)
        choice = sm.choose(rewards, selector=racing, seed=seed)
        assert choice.arm != 2
        dead += choice.arm == 1
    assert dead > 0  # at times the race ends before it meets one of the three


def test_a_declared_range_is_void_when_a_survivor_proves_impossible():
    racing = sm.Racing(sm.Betting(spread=1.0), retreat=False)
    with pytest.raises(sm.SpreadError, match="is -inf"):
        sm.choose(late_deaths(), selector=racing, seed=1)


def test_an_empty_arm_does_not_stop_the_race(rng):
    rewards = [rng.normal(mean, 1.0, 3000) for mean in (0.0, 1.0, 0.0)]
    racing = sm.Racing(sm.Normal(paired=False), retreat=False)
    alone = sm.choose(rewards, selector=racing, seed=1)
    beside = sm.choose([*rewards, np.zeros(0)], np.array([0, 0, 0, -50.0]), racing, seed=1)
    assert alone.arm == beside.arm == 1
    assert beside.pulls <= alone.pulls + 200


def test_touching_large_data_changes_nothing(monkeypatch):
    made = []
    for size in (0, 1 << 40):
        monkeypatch.setattr("subsample_mcmc.target.population.BIG", size)
        population = student(20_000, 0.5)
        assert len(population.large) == (size == 0)
        made.append(sm.draw(population, 200, selector=sm.Racing(retreat=False), seed=2))
    assert np.array_equal(made[0].arms, made[1].arms)
    assert np.array_equal(made[0].pulls, made[1].pulls)
