"""Sequential halving as a selector: beside sm.Exact under the same Gumbels, and at its edges.

Where the difference of two arms is the same in every datum, a selector that compares arms on the
same rows cannot err, whatever it reads: that is tested by equality. Elsewhere errors are counted.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.claims import below
from tests.helpers.gumbels import offsets, standardised, table
from tests.helpers.laws import distance, distance_margin, normalised
from tests.helpers.models import tally, walker

ALLOCATIONS = ("equal", "known-variance", "adaptive-variance")


def halving(budget, allocation, arms):
    known = np.linspace(1.0, 2.0, arms) if allocation == "known-variance" else None
    return sm.SequentialHalving(budget, allocation, known)


def parallel(rng, arms, rows, spread=3.0):
    """Rewards of a common part and a constant of each arm, of a nat or so in all."""
    return spread * rng.standard_normal(rows) + rng.standard_normal((arms, 1)) / rows


def common_and_own(data, arm, n):
    return data.common[n] + data.own[arm]


def wide(rng, arms, rows):
    """The same kind of rewards without a table; and totals, but for what is common to all."""
    data = {"common": rng.standard_normal(rows), "own": rng.standard_normal(arms) / rows}
    return sm.Population(common_and_own, data, arms, size=rows), data["own"] * rows


# ---------------------------------------------------------------------------- what it finds
@pytest.mark.slow_for("equal")
@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_halving_never_errs_where_differences_are_constant(rng, allocation):
    count = 20 if DISABLED else 100
    for arms, rows, budget in ((2, 100, 30), (5, 1000, 200), (9, 700, 300), (16, 5000, 1000)):
        population = table(parallel(rng, arms, rows))
        exact = sm.draw(population, count, sm.Exact(), seed=1)
        found = sm.draw(population, count, halving(budget, allocation, arms), seed=1)
        assert np.array_equal(found.arms, exact.arms), (arms, rows, budget)
        assert found.pulls.max() <= budget < arms * rows


@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_halving_with_a_budget_for_everything_is_exact(rng, allocation):
    for arms, rows in ((2, 1), (3, 2), (2, 50), (7, 40)):
        population = table(rng.standard_normal((arms, rows)))
        exact = sm.draw(population, 100, sm.Exact(), seed=2)
        for budget in (arms * rows, arms * rows + 1, 10**30):
            found = sm.draw(population, 100, halving(budget, allocation, arms), seed=2)
            for field in ("arms", "pulls", "rounds", "dropped_early", "ended"):
                assert np.array_equal(getattr(found, field), getattr(exact, field)), field


@pytest.mark.plain
def test_halving_that_reads_all_rows_of_its_last_arms_is_right_about_them(rng):
    """Only arms far behind are dropped early: the last two are summed to the end."""
    rewards = rng.standard_normal((4, 400)) * 0.1
    rewards[:2] += 5.0
    count = 40 if DISABLED else 200
    exact = sm.draw(table(rewards), count, sm.Exact(), seed=3)
    found = sm.draw(table(rewards), count, sm.SequentialHalving(4 * 400 - 300), seed=3)
    assert np.array_equal(found.arms, exact.arms)
    assert not found.exact.any()


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_more_budget_fewer_errors_and_less_distance(rng, allocation):
    law = np.array([0.4, 0.2, 0.1, 0.1, 0.08, 0.06, 0.04, 0.02])
    rewards = standardised(rng.standard_normal((8, 4000)), 0.01, law)
    exact = sm.draw(table(rewards), 1500, sm.Exact(), seed=4)
    wrong, distances = [], []
    for budget in (500, 5_000, 25_000):
        found = sm.draw(table(rewards), 1500, halving(budget, allocation, 8), seed=4)
        wrong.append(int((found.arms != exact.arms).sum()))
        # Of the frequencies under the same Gumbels: draws that agree add no noise.
        counts = [np.bincount(made.arms, minlength=8) for made in (found, exact)]
        distances.append(0.5 * np.abs(counts[0] - counts[1]).sum() / 1500)
    assert wrong[0] > wrong[1] > wrong[2]
    assert distances[0] > distances[1] > distances[2]
    below(wrong[2], 1500, 0.25)


# ---------------------------------------------------------------------------- what it reads
@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_halving_never_reads_more_than_its_budget_and_uses_it(rng, allocation):
    for case in range(12 if DISABLED else 60):
        arms, rows = int(rng.integers(2, 40)), int(rng.integers(1 if case % 4 == 0 else 30, 3000))
        budget = int(rng.integers(1, (3 if case % 3 == 0 else 2 * rows) * arms))
        rewards = rng.standard_normal((arms, rows)) / rows
        made = sm.draw(table(rewards), 3, halving(budget, allocation, arms), seed=2)
        assert made.pulls.max() <= min(budget, arms * rows)
        assert made.arms.min() >= 0 and made.arms.max() < arms
        if budget >= arms * rows:
            assert np.all(made.pulls == arms * rows) and np.all(made.exact)
        else:
            assert not made.exact.any()
        if arms * rows > budget > 40 * arms:
            assert made.pulls.min() > 0.7 * min(budget, rows * arms / 2), (arms, rows, budget)


@pytest.mark.bounds
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_halving_reads_millions_of_rows(rng, allocation):
    """Batches of more rows than are taken at once; columns of data read ahead."""
    rows, budget = 1_300_000, 2_400_000
    population, totals = wide(rng, 2, rows)
    selector = halving(budget, allocation, 2)
    made = sm.draw(population, 5, selector, seed=5)
    assert np.array_equal(made.arms, (totals + offsets(population, 5, 5)).argmax(axis=1))
    assert 0.9 * budget < made.pulls.min() and made.pulls.max() <= budget
    (engine,) = population.engines.values()
    assert engine.idle[0].prefetched[0] != 0.0  # or the compiler may leave the reading out


@pytest.mark.bounds
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_many_arms_and_a_budget_of_two_rewards_of_each(rng, allocation):
    population, totals = wide(rng, 3000, 10_000)
    best = (totals + offsets(population, 30, 6)).argmax(axis=1)
    for budget in (6000, 9000, 50_000):
        made = sm.draw(population, 30, halving(budget, allocation, 3000), seed=6)
        assert np.array_equal(made.arms, best), budget
        assert 0.7 * budget < made.pulls.min() and made.pulls.max() <= budget


@pytest.mark.bounds
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_budget_below_two_rewards_of_each_arm_goes_to_the_highest_offsets(rng, allocation):
    population, totals = wide(rng, 3000, 10_000)
    known = offsets(population, 30, 7)
    for budget in (5999, 3000, 100, 5, 3, 1):
        made = sm.draw(population, 30, halving(budget, allocation, 3000), seed=7)
        entered = np.argsort(-known, axis=1)[:, : max(budget // 2, 1)]
        score = np.take_along_axis(totals + known, entered, axis=1)
        best = np.take_along_axis(entered, score.argmax(axis=1)[:, None], axis=1)[:, 0]
        assert np.array_equal(made.arms, best), budget
        assert made.pulls.max() <= budget
        assert made.pulls.min() > 0 or budget < 4
        assert not made.exact.any() and set(made.ended) == {"raced"}


# ---------------------------------------------------------------------------- impossible arms
@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_impossible_arms_and_bad_rewards(rng, allocation):
    selector = halving(300, allocation, 3)
    rewards = rng.standard_normal((3, 300)) * 0.1
    rewards[1] = 1.0
    rewards[1, ::2] = -np.inf
    assert sm.choose(rewards, selector=selector, seed=1).arm != 1
    rewards[1] = np.nan
    with pytest.raises(sm.RewardError, match="arm 1 at datum"):
        sm.choose(rewards, selector=selector, seed=1)
    with pytest.raises(sm.RewardError, match="all 3 arms are impossible"):
        sm.choose(np.full((3, 300), -np.inf), selector=selector, seed=1)
    choice = sm.choose(rng.standard_normal((3, 300)), [-np.inf, 0.0, -np.inf], selector)
    assert (choice.arm, choice.pulls) == (1, 0)


@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_winner_that_is_impossible_after_all_leaves_the_choice_to_those_dropped(allocation):
    rewards = np.zeros((4, 5000))
    rewards[:2] = 1.0
    rewards[:2, :200] = -np.inf
    returned = 0
    for seed in range(50):
        selector = halving(100, allocation, 4)
        choice = sm.choose(rewards, [0.0, 0.0, 0.0, 1.0], selector, seed)
        assert choice.pulls <= 100 and choice.arm != 2
        if choice.rounds > 2:  # those dropped in the first of two stages came back
            assert choice.arm == 3 and not choice.exact
            returned += 1
    assert returned >= 10


@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_arms_dropped_unread_come_back_if_all_that_entered_are_impossible(allocation):
    """Fifty of a hundred enter, at a reward each; then the others, ten of them impossible."""
    rewards = np.zeros((100, 1000))
    rewards[:60] = -np.inf
    choice = sm.choose(rewards, -np.arange(100.0), halving(100, allocation, 100), seed=1)
    assert (choice.arm, choice.pulls, choice.exact) == (60, 100, False)
    rewards[:] = -np.inf
    with pytest.raises(sm.RewardError, match="all 100 arms are impossible"):
        sm.choose(rewards, -np.arange(100.0), halving(100, allocation, 100), seed=1)


@pytest.mark.plain
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_decision_called_exact_is(rng, allocation):
    """Arms that die leave their budget to the others, who then may be read to the end."""
    claimed, wrong, draws = 0, 0, 10 if DISABLED else 40
    for case in range(12 if DISABLED else 24):
        arms, rows = int(rng.integers(3, 9)), int(rng.integers(20, 200))
        rewards = rng.standard_normal((arms, rows)) / np.sqrt(rows)
        doomed = rng.random(arms) < 0.5
        doomed[rng.integers(arms)] = False
        rewards[np.ix_(doomed, rng.random(rows) < (0.3, 0.03)[case % 2])] = -np.inf
        exact = sm.draw(table(rewards), draws, sm.Exact(), seed=8)
        for share in (0.3, 0.7, 0.9):
            budget = int(share * arms * rows)
            known = rng.exponential(size=arms) ** 3 if allocation == "known-variance" else None
            selector = sm.SequentialHalving(budget, allocation, known)
            found = sm.draw(table(rewards), draws, selector, seed=8)
            assert found.pulls.max() <= budget
            same = found.arms == exact.arms
            assert same[found.exact].all(), (arms, rows, budget)
            claimed, wrong = claimed + int(found.exact.sum()), wrong + int((~same).sum())
    assert min(claimed, wrong) > (20 if DISABLED else 100)


@pytest.mark.plain
def test_equals_are_decided_as_by_exact():
    for arms in (2, 3, 8, 33):
        for budget in (1, 50, 400):
            assert sm.choose(np.zeros((arms, 500)), None, sm.SequentialHalving(budget)).arm == 0


# ---------------------------------------------------------------------------- what it refuses
@pytest.mark.plain
def test_what_halving_refuses():
    with pytest.raises(ValueError, match="rows of their own"):
        sm.choose([np.zeros(50), np.zeros(60)], selector=sm.SequentialHalving(50))
    with pytest.raises(ValueError, match="allocation='best'"):
        sm.SequentialHalving(50, "best")
    with pytest.raises(ValueError, match="variances are what"):
        sm.SequentialHalving(50, "known-variance")
    with pytest.raises(ValueError, match="one number for each of 4 arms"):
        sm.choose(np.zeros((4, 100)), selector=sm.SequentialHalving(50, "known-variance", [1.0]))
    for bad in (np.nan, -1.0, np.inf):
        selector = sm.SequentialHalving(50, "known-variance", [1.0, bad])
        with pytest.raises(ValueError, match=r"variances=.*0 or more"):
            sm.choose(np.zeros((2, 100)), selector=selector)
    for bad in (0, -3, 10.5, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"budget=.*whole number"):
            sm.SequentialHalving(bad)


@pytest.mark.plain
def test_a_whole_float_is_a_budget():
    selector = sm.SequentialHalving(1e3)
    assert type(selector.budget) is int and selector == sm.SequentialHalving(1000)
    assert sm.choose(np.zeros((4, 1000)), selector=selector).pulls <= 1000


# ---------------------------------------------------------------------------- in a chain
def log_likelihood(state, data, n):
    return data.rewards[n, state.k[0]]


def test_a_chain_of_fixed_cost_says_that_nothing_bounds_its_error(rng):
    """One variable: states are independent draws. Audits bound how far their law is off."""
    rewards = rng.standard_normal((2000, 6)) * 0.01
    law = normalised(rewards.sum(axis=0))
    model = sm.Model(log_likelihood, {"rewards": rewards}, {"k": 0}, support={"k": 6})
    steps, shares = 2000, []
    for budget in (1500, 9000):
        kernel = sm.Gibbs("k", sm.SequentialHalving(budget))
        assert kernel.facts(model)["guarantee"] == "none"
        one = walker(model, kernel, audit=1.0)
        made = one.advance(steps)
        told = tally(one, made.words, "k")
        assert told["pulls"] <= budget * steps
        assert 0 < told["wrong"] < told["audited"] == steps
        shares.append(told["wrong"] / steps)
        apart = distance(np.bincount(made.ints[:, 0], minlength=6), law)
        assert apart <= shares[-1] + distance_margin(steps, law)
    assert shares[1] < 0.5 * shares[0]


@pytest.mark.slow
def test_descriptions_and_reports_say_what_is_not_promised(rng):
    rewards = rng.standard_normal((2000, 6)) * 0.01
    model = sm.Model(log_likelihood, {"rewards": rewards}, {"k": 0}, support={"k": 6})
    kernel = sm.Gibbs("k", sm.SequentialHalving(1500))
    said = "at most 1,500 rewards a decision, no bound on its error: audit it"
    assert kernel.describe(model).endswith(
        f"SequentialHalving(budget=1500); guarantee: none ({said})"
    )
    options = {"warmup": 10, "chains": 1, "seed": 1, "audit": 1.0, "progress": False}
    report = sm.sample(model, kernel, draws=300, **options).report()
    assert report.rows[0]["delta"] is None  # that of SHAdaVar's variances is no chance of an error
    assert f"k: {said}" in report.notes
    assert "your own kernel" not in str(report) and "smaller delta" not in str(report)
    assert any("Give a larger budget." in text for text in report.warnings)
    # Rewards that no features explain: a bound that rests on them is void, and audits say so.
    rewards[:, 2] += 0.003
    model = sm.Model(log_likelihood, {"rewards": rewards}, {"k": 0}, support={"k": 6})
    line = np.column_stack([np.ones(6), np.arange(6.0)])
    linear = sm.Gibbs("k", sm.LinGapE(line, noise=0.011, norm=0.01))
    assert "LinGapE(features=<6 x 2>, noise=0.011, norm=0.01)" in linear.describe(model)
    report = sm.sample(model, linear, draws=300, **options).report()
    assert any("Check that rewards are linear" in text for text in report.warnings)
    # Noise that rewards refute ends the chain.
    quiet = sm.Gibbs("k", sm.LinGapE(np.eye(6), noise=1e-6, norm=1e-6))
    with pytest.raises(sm.SpreadError, match="noise=1e-06"):
        sm.sample(model, quiet, draws=300, **options)


@pytest.mark.parametrize(
    "selector",
    [
        sm.SequentialHalving(1000, "known-variance", np.ones(9)),
        sm.SequentialHalving(1000, "adaptive-variance"),
        sm.SequentialHalving(1000),
        sm.BayesGap(6000, 9.0 * np.eye(9), batch=32),
        sm.LinGapE(np.eye(9), noise=0.1, norm=0.1),
        sm.LilUCB(),
    ],
    ids=lambda selector: type(selector).__name__,
)
def test_a_decision_does_not_depend_on_the_one_before(rng, selector):
    """Where arms tie in what they are worth, above all: nothing of a heap may be left over."""
    for seed in range(20):
        rewards = rng.standard_normal((9, 3000)) / 55.0
        fresh = sm.draw(table(rewards), 3, selector, seed=seed)
        used = table(rewards)
        sm.draw(used, 2, selector, seed=seed + 999)
        again = sm.draw(used, 3, selector, seed=seed)
        assert np.array_equal(fresh.arms, again.arms)
        assert np.array_equal(fresh.pulls, again.pulls)
