"""Strategies of fixed budget, against naive versions and against the numbers of their papers."""

from math import ceil, log, log2, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers import naive_bandits as naive
from tests.helpers.claims import above, at_most, equal
from tests.helpers.naive_bandits import bandit, pull, watch

B = sm.bandits
MEAN = np.array([0.6, 0.4, 0.0, -0.3, 0.5, 0.1, 0.2])
ALLOCATIONS = ("equal", "known-variance", "adaptive-variance")


def same(strategy, rule_of, mean=MEAN, seeds=3, rounds=1, sd=0.5):
    for seed in range(seeds):
        run = watch(strategy, mean, sd, seed)
        rule = rule_of()
        seen = naive.agrees(run, len(mean), rule[0] if isinstance(rule, tuple) else rule, rounds)
        yield run, seen, rule


# ------------------------------------------------------------------------- against naive versions
@pytest.mark.slow
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize(("count", "budget"), [(8, 700), (7, 61), (2, 50), (5, 15), (16, 1701)])
def test_halving_is_the_naive_one(allocation, count, budget, rng):
    mean, sd = rng.normal(0.0, 0.5, count), rng.uniform(0.1, 2.0, count)
    variances = sd**2 if allocation == "known-variance" else None
    for seed in range(2):
        run = watch(sm.SequentialHalving(budget, allocation, variances), mean, sd, seed)
        naive.check_halving(run, count, budget, allocation, variances)
        assert run.ended == "budget"


def test_known_variances_share_a_stage():
    """Lemma 1 of Lalitha et al.: N_i is n sigma_i^2 / sum sigma^2, up to rounding."""
    sd = np.array([1.0, 2.0, 0.5, 3.0])
    run = watch(sm.SequentialHalving(2000, "known-variance", sd**2), np.zeros(4), sd)
    np.testing.assert_allclose(
        np.bincount(run.arms[:1000], minlength=4), 1000 * sd**2 / (sd**2).sum(), atol=2
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["UCBE", "GapE", "GapEV"])
@pytest.mark.parametrize(("width", "hardness"), [(1.0, None), (1.0, 60.0), (3.0, 600.0)])
def test_gaps_are_the_naive_ones(name, width, hardness):
    strategy = getattr(B, name)(300, width, hardness)
    rounds = 2 if name == "GapEV" else 1
    rule = lambda: naive.by_gaps(name, 300, width, hardness)  # noqa: E731
    for run, seen, _ in same(strategy, rule, rounds=rounds):
        assert (seen.total, run.ended) == (300, "budget")
        assert run.answer == np.argmax(seen.means)


@pytest.mark.parametrize("hardness", [None, 40.0])
@pytest.mark.parametrize("shift", [0.0, -9.0, 9.0])
def test_u_gap_e_is_the_naive_one(hardness, shift):
    strategy, rule = B.UGapE(300, hardness=hardness), lambda: naive.u_gap_e(300, 1.0, hardness)
    for run, seen, (_, judged) in same(strategy, rule, MEAN + shift):
        assert seen.total == 300
        assert run.answer == min(judged)[1]


@pytest.mark.parametrize("by_variance", [False, True])
@pytest.mark.parametrize("budget", [150, 401])
def test_rejects_are_the_naive_ones(by_variance, budget):
    strategy = (B.VarianceRejects if by_variance else B.SuccessiveRejects)(budget)
    sd = np.linspace(0.3, 1.0, 7)
    for run, seen, (rule, active) in same(
        strategy, lambda: naive.rejects(7, budget, by_variance), sd=sd, rounds=0
    ):
        assert rule(seen) is None
        assert active == {run.answer}
        assert budget - 7 <= seen.total <= budget


def test_uniform_pulls_all_alike():
    run = watch(B.Uniform(25), MEAN)
    assert (len(run.arms), run.ended) == (25, "budget")
    assert (run.arms[:7] == run.arms[7:14]).all()
    assert sorted(run.arms[:7]) == list(range(7))


def test_hardness_of_means():
    mean, variance, b = np.array([0.2, 1.0, 0.7]), np.array([1.0, 0.5, 0.1]), 2.0
    gaps = np.array([0.8, 0.3, 0.3])
    assert B.hardness_of_means(B.UCBE, mean) == pytest.approx((1.0 / gaps**2).sum())
    assert B.hardness_of_means(B.GapE, mean, b) == pytest.approx((b**2 / gaps**2).sum())
    assert B.hardness_of_means(B.GapE, mean, b, inside=False) == pytest.approx((gaps**-2.0).sum())
    assert B.hardness_of_means(B.UGapE, mean, b, epsilon=0.4) == pytest.approx(
        (b**2 / np.maximum((gaps + 0.4) / 2.0, 0.4) ** 2).sum()
    )
    roots = np.sqrt(variance) + np.sqrt(variance + 16.0 / 3.0 * b * gaps)
    assert B.hardness_of_means(B.GapEV, mean, b, variance) == pytest.approx(
        (roots**2 / gaps**2).sum()
    )


# ------------------------------------------------------------------------------ the papers' numbers
COUNT, BUDGET = 64, 5000
LEVEL = 1.0 - np.sqrt(np.arange(COUNT) / COUNT)
SPREAD = np.where(np.arange(COUNT) % 2 == 0, 0.9 * LEVEL**2 + 0.1, 0.1)  # the best varies most


def perturbed(rng):
    """The problem of Lalitha et al. (2023), another one for each run."""
    mean = LEVEL + 0.05 * rng.standard_normal(COUNT)
    return bandit(mean, np.sqrt(SPREAD * rng.uniform(0.5, 1.5, COUNT)))


def wrong(selector, runs, seed=1):
    """Which runs were wrong; with one seed, all strategies meet the same problems."""
    found = sm.identify(
        pull, COUNT, selector, seed=seed, runs=runs, data=perturbed,
        truth=lambda data: data.mean, progress=False,
    )  # fmt: skip
    assert (found.totals <= BUDGET).all()
    return found.errors


def worse(one, other, alarm=1e-3):
    """Of the problems that only one of them solves, the other one solves more (McNemar's test)."""
    first, second = int((one & ~other).sum()), int((other & ~one).sum())
    above(first, first + second, 0.5, alarm)


def width_of(data):
    return float((data.mean + data.sd * sqrt(log(BUDGET))).max())


FAMILY = {
    "uniform": B.Uniform(BUDGET),
    "equal": sm.SequentialHalving(BUDGET),
    "known": lambda data: sm.SequentialHalving(BUDGET, "known-variance", data.sd**2),
    "adaptive": sm.SequentialHalving(BUDGET, "adaptive-variance"),
    "GapE": lambda data: B.GapE(
        BUDGET, width_of(data),
        24.0 / 144.0 * B.hardness_of_means(B.GapE, data.mean, inside=False), False,
    ),
    "GapEV": lambda data: B.GapEV(
        BUDGET, width_of(data),
        24.0 / 512.0 * B.hardness_of_means(B.GapEV, data.mean, width_of(data), data.sd**2),
    ),
}  # fmt: skip
# Lalitha et al. give both rivals the true hardness times c / c', with c' = 1 / (4 log2 K) = 1 / 24
# as halving has it, and c = 1 / 144 and 1 / 512 of their own theorems.
# Error rates of an independent implementation, and in how many runs they were measured.
KNOWN = {
    "uniform": (0.246, 2000), "equal": (0.124, 2000), "known": (0.076, 2000),
    "adaptive": (0.074, 2000), "GapE": (0.150, 300), "GapEV": (0.163, 300),
}  # fmt: skip


def near_that_of_another(name, errors):
    runs, rate, (known, before) = len(errors), errors.mean(), KNOWN[name]
    error = sqrt(known * (1.0 - known) * (1.0 / runs + 1.0 / before))
    assert abs(rate - known) < 4.0 * error, f"{rate} is not {known} +- {4.0 * error:.3f}"


@pytest.mark.slow
def test_variances_help_and_halving_helps_more_as_in_another_implementation():
    """One set of problems for both: the rates, and which of them each strategy solves."""
    errors = {name: wrong(FAMILY[name], 2000) for name in ("uniform", "equal", "known", "adaptive")}
    for name, found in errors.items():
        near_that_of_another(name, found)
    worse(errors["uniform"], errors["equal"], 1e-6)
    worse(errors["equal"], errors["known"])
    worse(errors["equal"], errors["adaptive"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GapE", "GapEV"])
def test_error_rates_of_gaps_are_those_of_another_implementation(name):
    near_that_of_another(name, wrong(FAMILY[name], 700, 2))


def test_the_bound_of_successive_rejects():
    """K (K - 1) / 2 exp(-(n - K) / (logbar(K) H2)), Audibert et al. 2010, Theorem 2."""
    mean, budget = np.array([0.5, 0.0, 0.0, 0.0]), 250
    h2 = max((i + 1) / 0.25 for i in range(1, 4))
    bound = 6.0 * np.exp(-(budget - 4) / ((0.5 + 1 / 2 + 1 / 3 + 1 / 4) * h2))
    assert bound < 0.5
    runs = sm.identify(
        pull, 4, B.SuccessiveRejects(budget), seed=1, runs=500, data=bandit(mean), truth=mean,
        progress=False,
    )  # fmt: skip
    at_most(int(runs.errors.sum()), 500, bound)


def test_the_bound_of_sequential_halving():
    """3 log2 K exp(-n / (8 H2 log2 K)), Karnin et al. 2013, Theorem 4.1."""
    mean, budget = np.array([0.5, 0.0, 0.0, 0.0]), 700
    bound = 3.0 * 2.0 * np.exp(-budget / (8.0 * 16.0 * 2.0))
    assert bound < 0.5
    runs = sm.identify(
        pull, 4, sm.SequentialHalving(budget), seed=1, runs=500, data=bandit(mean), truth=mean,
        progress=False,
    )  # fmt: skip
    at_most(int(runs.errors.sum()), 500, bound)


# -------------------------------------------------------------------------------------- edge cases
BUDGETS = {
    "uniform": B.Uniform,
    "equal": sm.SequentialHalving,
    "known": lambda n: sm.SequentialHalving(n, "known-variance", [1.0, 2.0, 0.5]),
    "adaptive": lambda n: sm.SequentialHalving(n, "adaptive-variance"),
    "UCBE": B.UCBE,
    "UGapE": B.UGapE,
    "GapE": B.GapE,
    "GapEV": B.GapEV,
    "rejects": B.SuccessiveRejects,
    "by variance": B.VarianceRejects,
}


def play(strategy, mean, sd=0.5, **more):
    return sm.identify(
        pull, len(mean), strategy, seed=1, data=bandit(mean, sd), progress=False, **more
    )


@pytest.mark.parametrize("name", BUDGETS)
def test_one_arm_is_best_without_a_pull(name):
    known = sm.SequentialHalving(10, "known-variance", [1.0])
    run = play(known if name == "known" else BUDGETS[name](10), [0.3])
    assert (run.arm, run.total, run.stopped_by) == (0, 0, "alone")


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("sd", [0.0, 0.01])
def test_budgets_are_kept_and_nothing_is_promised(name, sd):
    for budget in (6, 7, 50, 333):
        run = play(BUDGETS[name](budget), [0.0, 1.0, 0.3], sd)
        assert run.total <= budget
        assert run.total >= budget - 3
        assert (run.arm, run.stopped_by, run.guaranteed) == (1, "budget", False)


@pytest.mark.parametrize("name", BUDGETS)
def test_equal_and_constant_rewards_end_by_the_budget(name):
    run = play(BUDGETS[name](100), [0.5, 0.5, 0.5], 0.0)
    assert run.arm in (0, 1, 2)
    assert 97 <= run.total <= 100


@pytest.mark.parametrize("name", [n for n in BUDGETS if n != "uniform"])
def test_budgets_below_one_pull_for_each_arm_are_refused(name):
    with pytest.raises(ValueError, match=r"budget=2\b.*3 arms"):
        play(BUDGETS[name](2), [0.0, 1.0, 0.3])


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("budget", [0, -3, 2.5])
def test_budgets_are_counts(name, budget):
    with pytest.raises(ValueError, match="budget="):
        BUDGETS[name](budget)


def test_max_pulls_ends_a_budget_early():
    run = play(sm.SequentialHalving(1000), [0.0, 3.0, 0.0], max_pulls=700)
    assert (run.arm, run.total, run.stopped_by) == (1, 700, "max_pulls")


def test_zero_variances_are_pulled_least():
    """Arms that do not vary are pulled as often as it takes to see that, and no more."""
    strategy = sm.SequentialHalving(900, "adaptive-variance")
    run = watch(strategy, [1.0, 0.5, 0.0], [0.0, 1.0, 0.0])
    first = run.arms[:450]
    assert np.bincount(first).tolist() == [13, 424, 13]
    assert run.answer == 0


def test_ties_are_cut_at_random():
    runs = sm.identify(
        pull, 4, sm.SequentialHalving(8), seed=1, runs=1000, data=bandit([0.5] * 4, 0.0),
        progress=False,
    )  # fmt: skip
    for count in np.bincount(runs.arms, minlength=4):
        equal(int(count), 1000, 0.25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sm.SequentialHalving(10, "mine"), "allocation='mine'"),
        (lambda: sm.SequentialHalving(10, "known-variance"), "variances are what"),
        (lambda: sm.SequentialHalving(10, variances=[1.0]), "variances are what"),
        (lambda: sm.SequentialHalving(10, delta=1.0), "delta=1.0"),
        (lambda: B.UCBE(10, width=0.0), "width="),
        (lambda: B.GapE(10, hardness=0.0), "hardness=0.0"),
    ],
)
def test_wrong_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("variances", [[1.0, 2.0], [1.0, -1.0, 0.0], [1.0, np.nan, 1.0]])
def test_variances_are_one_for_each_arm(variances):
    with pytest.raises(ValueError, match="variances="):
        play(sm.SequentialHalving(10, "known-variance", variances), [0.0, 1.0, 2.0])


def test_stages_of_halving_are_log2():
    for count in (2, 3, 4, 5, 9):
        assert sm.SequentialHalving(100).numbers(count).stages == ceil(log2(count))


# ---------------------------------------------------------------------------------- small budgets
@pytest.mark.parametrize("make", [B.SuccessiveRejects, B.VarianceRejects])
def test_a_budget_of_one_pull_for_each_arm_is_spent(make):
    for count in (2, 3, 7, 20):
        run = watch(make(count), np.linspace(-2.0, -1.0, count), 0.0)
        assert sorted(run.arms) == list(range(count))
        assert (run.answer, run.ended) == (count - 1, "budget")


def test_rejects_never_exceed_their_budget():
    """The sum of all phases, by the formula and by a run."""
    for count in range(2, 40):
        log_bar = 0.5 + sum(1 / i for i in range(2, count + 1))
        for budget in range(count, 5 * count + 3):
            each = [
                max(ceil((budget - count) / (log_bar * (count + 1 - k)) - 1e-9), 1)
                for k in range(1, count)
            ]
            assert sum(each) + each[-1] <= budget
            if count in (2, 5, 17) and budget % 3 == 0:
                run = play(B.SuccessiveRejects(budget), np.linspace(0.0, 1.0, count).tolist())
                assert run.total == sum(each) + each[-1]
                assert run.pulls.min() >= 1


# --------------------------------------------------------------------------------------- hardness
@pytest.mark.parametrize("strategy", [B.UCBE, B.UGapE, B.GapE, B.GapEV])
def test_arms_that_nothing_tells_apart_have_no_hardness(strategy):
    variances = np.ones(3)
    with pytest.raises(ValueError, match=r"2 of 3 arms have the highest mean, 0\.5.*hardness=None"):
        B.hardness_of_means(strategy, [0.5, 0.1, 0.5], variances=variances)
    with pytest.raises(ValueError, match="means of two arms or more"):
        B.hardness_of_means(strategy, [0.5], variances=[1.0])
    with pytest.raises(ValueError, match="finite means"):
        B.hardness_of_means(strategy, [0.5, np.nan, 0.1], variances=variances)
    with pytest.raises(ValueError, match=r"hardness=inf: give a finite number above 0"):
        strategy(100, hardness=np.inf)
    with pytest.raises(ValueError, match="hardness=nan"):
        strategy(100, hardness=np.nan)


def test_u_gap_e_with_epsilon_need_not_tell_equal_arms_apart():
    assert B.hardness_of_means(B.UGapE, [0.5, 0.5], epsilon=0.1) == pytest.approx(200.0)


@pytest.mark.parametrize("variances", [None, [1.0], [1.0, -1.0], [1.0, np.inf]])
def test_gap_e_v_needs_variances(variances):
    with pytest.raises(ValueError, match=r"variances=.*each of 2 arms"):
        B.hardness_of_means(B.GapEV, [0.0, 1.0], variances=variances)
