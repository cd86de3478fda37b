"""BayesGap and its rivals: one Gaussian posterior of all means, against its dense formula."""

from math import sqrt

import numpy as np
import pytest
from scipy import special, stats

import subsample_mcmc as sm
from subsample_mcmc.bandits.play import Player
from subsample_mcmc.bandits.prior_seen import off_prior
from subsample_mcmc.bandits.scale import RewardsSeen
from subsample_mcmc.bandits.strategies.posterior import log_improvement
from subsample_mcmc.numerics.jit import jit
from tests.helpers import naive_bandits as naive
from tests.helpers.claims import at_most, below
from tests.helpers.naive_bandits import bandit, pull, watch

B = sm.bandits
RIVALS = ("BayesUCB", "GPUCB", "ExpectedImprovement", "ProbabilityOfImprovement")
ALL = (*RIVALS, "Thompson", "BayesGap")
STUCK = "ProbabilityOfImprovement"  # by a hair: it may look at one arm for ever


def kernel(count, width=1.0, jitter=0.0):
    """exp(-(x - x')^2 / width^2) on [0, 10]."""
    x = np.linspace(0.0, 10.0, count)
    return np.exp(-(((x[:, None] - x) / width) ** 2)) + jitter * np.eye(count)


def make(name, budget, covariance, noise, **more):
    return getattr(B, name, sm.BayesGap)(budget, covariance, noise, **more)


# ----------------------------------------------------------------------------------- the posterior
@pytest.mark.slow_for("Thompson")
@pytest.mark.parametrize("name", ["Thompson", "BayesUCB", "BayesGap"])
def test_the_posterior_is_that_of_the_dense_formula(name, rng):
    """To 1e-8, over three hundred updates, with a noise of its own for every arm."""
    count, worst = 12, []
    covariance, mean = 4.0 * kernel(count, 2.0), rng.standard_normal(count)
    noise, truth = rng.uniform(0.05, 0.5, count), rng.standard_normal(count)

    def each(state, arms, rewards):
        if len(arms) % 50 == 0:
            centre, spread = naive.posterior(covariance, noise, mean, arms, rewards)
            worst.append(abs(state.centre - centre).max())
            worst.append(abs(state.root @ state.root.T - spread).max())
            # Near its end a variance is the difference of numbers of the prior's size.
            worst.append(abs(state.sd**2 - np.diag(spread)).max())

    strategy = make(name, 300, kernel(count, 2.0), noise, prior_scale=2.0, mean=mean)
    watch(strategy, truth, np.sqrt(noise), 1, each=each)
    assert len(worst) == 18
    assert max(worst) < 1e-8


def test_a_covariance_of_low_rank(rng):
    """Linear arms: the posterior of X theta is that of Bayesian regression (paper, section 3)."""
    X = rng.standard_normal((9, 3))
    truth, noise, eta = X @ np.array([1.0, -1.0, 0.5]), 0.3, 1.7
    strategy = B.BayesUCB(200, X @ X.T, noise, prior_scale=eta)
    run = watch(strategy, truth, sqrt(noise), 2)
    assert run.player.state.root.shape == (9, 3)
    x = X[run.arms]
    spread = np.linalg.inv(x.T @ x / noise + np.eye(3) / eta**2)
    theta = spread @ x.T @ run.rewards / noise
    np.testing.assert_allclose(run.player.state.centre, X @ theta, atol=1e-8)
    np.testing.assert_allclose(
        run.player.state.sd, np.sqrt(np.einsum("kd,de,ke->k", X, spread, X)), atol=1e-8
    )


def test_variances_near_certainty_keep_their_digits():
    """Noise of 1e-12 the prior's: differences of numbers of the prior's size would be rounding."""
    worst = []

    def each(state, arms, rewards):
        pulls = np.bincount(arms, minlength=2)
        exact = 1.0 / (1.0 + pulls / 1e-12)
        worst.append(abs(state.sd**2 / exact - 1.0).max())

    watch(B.BayesUCB(50, np.eye(2), 1e-12), [0.0, 0.0], 1e-6, 1, each=each)
    assert max(worst) < 1e-8


# ------------------------------------------------------------------------- against naive versions
@pytest.mark.parametrize("name", RIVALS)
def test_rivals_are_the_naive_ones(name, rng):
    count, budget, noise = 8, 60, 0.09
    covariance, mean = 2.0 * kernel(count), rng.standard_normal(count)
    truth = rng.multivariate_normal(mean, covariance)
    for seed in range(2):
        strategy = make(name, budget, covariance, noise, mean=mean)
        run = watch(strategy, truth, 0.3, seed)
        rule = naive.by_posterior(name, covariance, np.full(count, noise), budget, mean)
        seen = naive.agrees(run, count, rule, rounds=0)
        centre, _ = naive.posterior(
            covariance, np.full(count, noise), mean, seen.arms, seen.rewards
        )
        assert (run.answer, run.ended, seen.total) == (np.argmax(centre), "budget", budget)


@pytest.mark.parametrize("budget", [6, 60])
@pytest.mark.parametrize(
    "more", [{}, {"epsilon": 0.2}, {"hardness": 30.0}, {"all_pulled": False}, {"judge_last": False}]
)
def test_bayes_gap_is_the_naive_one(budget, more, rng):
    count, noise = 10, 0.09
    covariance = 1.5 * kernel(count)
    truth = rng.multivariate_normal(np.zeros(count), covariance)
    given = {k: v for k, v in more.items() if k in ("epsilon", "hardness")}
    if "all_pulled" in more:
        given["spare"] = 0
    for seed in range(2):
        run = watch(sm.BayesGap(budget, covariance, noise, **more), truth, 0.3, seed)
        rule, judged = naive.bayes_gap(
            covariance, np.full(count, noise), budget, np.zeros(count), **given
        )
        seen = naive.agrees(run, count, rule, rounds=0)
        if more.get("judge_last", True):
            rule(seen)
        assert seen.total == budget
        assert run.answer in min(judged, key=lambda found: found[0])[1]


@pytest.mark.slow
def test_thompson_pulls_an_arm_as_often_as_it_may_be_best(rng):
    """The first pull: the law of the best arm under the prior, by ten thousand draws."""
    covariance, mean = kernel(6) * np.outer(*[np.linspace(0.5, 1.5, 6)] * 2), np.linspace(0, 0.5, 6)
    best = rng.multivariate_normal(mean, covariance, 10_000).argmax(axis=1)
    runs = sm.identify(
        pull, 6, B.Thompson(1, covariance, 0.25, mean=mean), seed=1, runs=4000,
        data=bandit(np.zeros(6)), progress=False,
    )  # fmt: skip
    table = np.array([np.bincount(best, minlength=6), 4000 * runs.pulls])
    assert stats.chi2_contingency(table).pvalue > 1e-4


# ------------------------------------------------------------------------------ the papers' numbers
def field(count):
    """Data: a draw of all means from the prior, another one for each run."""
    covariance = kernel(count) + 1e-9 * np.eye(count)
    root = np.linalg.cholesky(covariance)
    return lambda rng: bandit(root @ rng.standard_normal(count), 0.3)


def found(name, count, budget, runs, **more):
    strategy = make(name, budget, kernel(count), 0.09, **more)
    return sm.identify(
        pull, count, strategy, seed=1, runs=runs, data=field(count),
        truth=lambda data: data.mean, progress=False,
    )  # fmt: skip


# Another implementation, 100 runs each: ten arms and 50 pulls.
KNOWN = {
    "BayesGap": 0.07, "Thompson": 0.15, "ExpectedImprovement": 0.10,
    "ProbabilityOfImprovement": 0.64, "GPUCB": 0.05, "BayesUCB": 0.08,
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_error_rates_are_those_of_another_implementation(name):
    runs, known = 1000, KNOWN[name]
    rate = found(name, 10, 50, runs).error_rate()[0]
    error = sqrt(known * (1.0 - known) * (1.0 / runs + 1.0 / 100))
    assert abs(rate - known) < 4.0 * error, f"{rate} is not {known} +- {4.0 * error:.3f}"


def test_probability_of_improvement_is_worst():
    regret = {name: found(name, 50, 120, 60).regrets.mean() for name in ALL}
    worst = regret.pop(STUCK)
    assert worst > 5.0 * max(regret.values())


def test_fewer_pulls_than_arms():
    """100 arms, 40 pulls: exploration that left out one pull for each arm would not be any."""
    runs = found("BayesGap", 100, 40, 200)
    assert runs.regrets.mean() < 0.12
    below(int((runs.regrets > 0.5).sum()), 200, 0.2)
    clipped = found("BayesGap", 100, 40, 200, all_pulled=True)
    assert clipped.regrets.mean() > 3.0 * runs.regrets.mean()


def test_the_bound_of_the_paper():
    """Theorem 1: P(regret > eps) <= K T exp(-beta^2 / 2) with the true hardness."""
    count, budget, eps = 4, 2000, 0.4
    covariance, mean = np.eye(count), np.array([1.0, 0.0, -0.5, -1.0])
    gaps = np.array([1.0, 1.0, 1.5, 2.0])
    hard = (1.0 / np.maximum((gaps + eps) / 2.0, eps) ** 2).sum()
    beta = ((budget - count) / 0.25 + count) / (4.0 * hard)
    assert count * budget * np.exp(-beta / 2.0) < 0.05
    runs = sm.identify(
        pull, count, sm.BayesGap(budget, covariance, 0.25, epsilon=eps, hardness=hard), seed=1,
        runs=100, data=bandit(mean), truth=mean, progress=False,
    )  # fmt: skip
    at_most(int((runs.regrets > eps).sum()), 100, 0.05)


# -------------------------------------------------------------------------------------- edge cases
def play(strategy, mean, sd=0.3, **more):
    return sm.identify(
        pull, len(mean), strategy, seed=1, data=bandit(mean, sd), progress=False, **more
    )


@pytest.mark.parametrize("name", ALL)
def test_one_arm_is_best_without_a_pull(name):
    run = play(make(name, 10, [[1.0]], 0.1), [0.3])
    assert (run.arm, run.total, run.stopped_by) == (0, 0, "alone")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("budget", [1, 2, 40])
def test_budgets_are_kept_and_nothing_is_promised(name, budget):
    run = play(make(name, budget, kernel(3), 0.09), [0.0, 1.0, 0.2])
    assert (run.total, run.stopped_by, run.guaranteed) == (budget, "budget", False)
    assert run.arm == 1 or budget < 40 or name == STUCK


@pytest.mark.parametrize("name", ALL)
def test_constant_and_equal_rewards(name):
    assert play(make(name, 30, kernel(3), 0.09), [0.0, 1.0, 0.2], 0.0).arm == 1 or name == STUCK
    run = play(make(name, 30, kernel(3), 0.09), [0.2, 0.2, 0.2], 0.0)
    assert (run.total, run.arm in (0, 1, 2)) == (30, True)


@pytest.mark.parametrize("name", ALL)
def test_singular_priors_and_twins(name):
    """Arms 0 and 2 are one and the same; arm 3 is known beforehand."""
    root = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    run = play(make(name, 60, root @ root.T, 0.09), [1.0, 0.0, 1.0, 0.0])
    assert run.arm in (0, 2)


def test_ties_are_broken_at_random():
    """All arms look alike before the first pull."""
    for name in ("BayesGap", "GPUCB"):
        runs = sm.identify(
            pull, 3, make(name, 1, np.eye(3), 0.25), seed=1, runs=300, data=bandit([0.0] * 3),
            progress=False,
        )  # fmt: skip
        assert (300 * runs.pulls > 60).all()


@pytest.mark.slow
def test_equal_arms_are_equally_likely_to_be_pulled():
    """Two of ten look best: to go on from a random arm would take the first of them in 9 of 10.

    And where all are equal, all are as likely.
    """
    runs = sm.identify(
        pull, 10, sm.BayesGap(1, np.eye(10), 0.25), seed=1, runs=1000, data=bandit([0.0] * 10),
        progress=False,
    )  # fmt: skip
    assert stats.chisquare(1000 * runs.pulls).pvalue > 1e-4
    mean = np.r_[1.0, 1.0, np.zeros(8)]
    runs = sm.identify(
        pull, 10, sm.BayesGap(1, np.eye(10), 0.25, mean=mean), seed=1, runs=300,
        data=bandit([0.0] * 10), progress=False,
    )  # fmt: skip
    first, second = 300 * runs.pulls[:2]
    assert first + second == 300
    below(int(first), 300, 0.7)
    below(int(second), 300, 0.7)


@pytest.mark.parametrize("name", ["ExpectedImprovement", "ProbabilityOfImprovement"])
def test_improvements_that_are_hardly_possible_are_still_compared(name):
    """500, 250 and 150 standard deviations below an arm that is known: all are 0 as numbers."""
    strategy = make(name, 1, np.diag([0.0, 1.0, 4.0, 100.0 / 9.0]), 0.1, mean=[500.0, 0, 0, 0])
    for seed in range(5):
        run = sm.identify(pull, 4, strategy, seed, data=bandit([0.0] * 4), progress=False)
        assert run.pulls.tolist() == [0, 0, 0, 1]


def test_expected_improvement_is_the_formula_however_far_out():
    """By the normal law's own functions, and beyond them by a series in 1 / z^2."""

    @jit
    def fill(z, out):
        for i in range(len(z)):
            out[i] = log_improvement(z[i])

    z = np.array([0.0, -0.5, -1.0, -2.0, -8.0, -20.0, -24.9, -25.1, -30.0, -36.0])
    found = np.zeros(len(z))
    fill(z, found)
    mills = sqrt(np.pi / 2.0) * special.erfcx(-z / sqrt(2.0))
    exact = stats.norm.logpdf(z) + np.log1p(z * mills)
    np.testing.assert_allclose(found, exact, rtol=1e-10)
    fill(np.array([-1e3]), found)
    assert found[0] == pytest.approx(-5e5 - 0.5 * np.log(2.0 * np.pi) - np.log(1e6), rel=1e-9)


def test_gp_ucb_counts_as_far_as_it_is_asked():
    """K t^2 beyond 2^63: a whole number would be negative, and its logarithm nan."""
    most = 10**10
    player = Player(B.GPUCB(most, np.eye(3), 0.25), 3, np.random.SeedSequence(1), most, False)
    player.state.now[0].total = 4 * 10**9
    assert player.ask() is not None
    assert np.all(np.isfinite(player.state.score))


def test_of_equal_arms_the_one_pulled_most_is_named():
    for strategy in (B.BayesUCB(1, np.eye(3), 0.25), B.Thompson(1, np.eye(3), 0.25)):
        for seed in range(10):
            run = sm.identify(pull, 3, strategy, seed, data=bandit([0.0] * 3, 0.0), progress=False)
            assert run.arm == run.pulls.argmax()


def test_budgets_just_above_one_pull_for_each_arm_are_not_spent_on_that():
    """50 arms, 52 pulls: leaving one out for each, there is nothing left to explore by."""
    regret = found("BayesGap", 50, 52, 200).regrets.mean()
    spared = found("BayesGap", 50, 52, 200, all_pulled=True).regrets.mean()
    assert regret < 0.5 * spared


@pytest.mark.parametrize("name", ["BayesGap", "Thompson"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"covariance": np.ones((2, 2))}, "covariance has shape"),
        ({"covariance": np.triu(np.ones((3, 3)))}, "covariance has shape"),
        ({"covariance": -np.eye(3)}, "none may be negative"),
        ({"covariance": np.zeros((3, 3))}, "one must be positive"),
        ({"noise": 0.0}, "noise="),
        ({"noise": [1.0, np.nan, 1.0]}, "noise="),
        ({"budget": 0}, "budget=0"),
    ],
)
def test_wrong_numbers_are_refused(name, wrong, message):
    given = {"budget": 10, "covariance": np.eye(3), "noise": 0.1} | wrong
    with pytest.raises(ValueError, match=message):
        play(make(name, **given), [0.0, 1.0, 0.2])


@pytest.mark.parametrize("level", [0.0, 90.0])
def test_rewards_far_off_the_prior_are_told_of(level, rng):
    """Of rewards near 90 the arm that was pulled first is named: a regret of .4 (.02)."""
    x = np.linspace(0.0, 1.0, 40)
    covariance, data = np.exp(-200.0 * (x[:, None] - x) ** 2), {"means": level + np.sin(3.0 * x)}

    def noisy(data, arm, rng):
        return data.means[arm] + 0.1 * rng.standard_normal()

    for kind, more in (
        (sm.BayesGap, {}), (sm.bandits.Thompson, {}), (sm.BayesGap, {"mean": level}),
    ):  # fmt: skip
        kept = kind(30, covariance, noise=0.01, **more)
        given = {"data": data, "truth": data["means"], "seed": 1, "progress": False}
        for runs in (1, 5):
            told = (
                "an arm's mean reward( of 5 of 5 runs)? lies .* standard deviations off the prior"
            )
            if level and not more:
                with pytest.warns(UserWarning, match=told):
                    found = sm.identify(noisy, 40, kept, runs=runs, **given)
            else:
                found = sm.identify(noisy, 40, kept, runs=runs, **given)
            assert np.mean(found.regret if runs == 1 else found.regrets) < (0.1 if more else 1.0)


def test_a_prior_that_is_right_is_not_refuted(rng):
    """Means are drawn from it, and the widest of 200 arms looked at: 2,000 times."""
    kept, pulls = sm.BayesGap(9, 4.0 * np.eye(200), noise=0.5, mean=3.0), np.full(200, 2)
    for _ in range(2_000):
        means = 3.0 + np.sqrt(4.25) * rng.standard_normal(200)
        assert off_prior(kept, RewardsSeen(pulls, means, means)) == 0.0
    assert off_prior(kept, RewardsSeen(pulls, means + 20.0, means)) > 7.0


def test_bayes_gap_needs_the_noise_here():
    with pytest.raises(ValueError, match="identify needs the variance of one reward"):
        play(sm.BayesGap(10, np.eye(2)), [0.0, 1.0])


# ------------------------------------------------------------------- priors that are too wide
@pytest.mark.parametrize("covariance", [np.diag([1e13, 1.0, 1.0]), kernel(3) + 1e13])
@pytest.mark.parametrize("name", ["BayesGap", "Thompson"])
def test_differences_that_are_rounding_beside_a_wide_prior_are_refused(name, covariance):
    """They counted as known to be 0: wrong in 40 of 40 runs."""
    with pytest.raises(ValueError, match=r"differ by a variance of .* which is rounding beside 1"):
        play_out(name, covariance)


@pytest.mark.parametrize("covariance", [
    np.diag([1e9, 1.0, 1.0]), kernel(3) + 1e9, np.ones((3, 3)), kernel(40, 20.0),
    1e9 * np.ones((3, 3)), np.diag([0.0, 1.0, 2.0]),
])  # fmt: skip
def test_priors_that_numbers_can_tell_of_are_taken(covariance):
    """Of equal arms, and of those next to each other, nothing is lost."""
    play_out("BayesGap", covariance)


def play_out(name, covariance):
    means = np.zeros(len(covariance))

    def of_arm(data, arm, rng):
        return data.m[arm] + 0.1 * rng.standard_normal()

    strategy = make(name, 2 * len(covariance), covariance, 0.01)
    return sm.identify(
        of_arm, len(covariance), strategy, data={"m": means}, runs=1, seed=1, progress=False
    )
