"""Strategies of fixed confidence, against naive versions and against what their papers promise."""

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
import pytest
from scipy import optimize, stats

import subsample_mcmc as sm
from subsample_mcmc.bandits.strategies.elimination import RoundNumbers
from subsample_mcmc.bandits.strategies.lil import constant, lil_constants
from subsample_mcmc.bandits.strategies.top_two import base_of
from tests.helpers import naive_bandits as naive
from tests.helpers.claims import above, at_most, equal
from tests.helpers.naive_bandits import bandit, pull, watch

B = sm.bandits

SPARSE = np.array([0.5] + [0.0] * 9)


def runs_of(strategy, mean, runs, seed=1, sd=0.5, **more):
    return sm.identify(
        pull, len(mean), strategy, seed=seed, runs=runs, data=bandit(mean, sd), truth=mean,
        progress=False, **more,
    )  # fmt: skip


def same(strategy, rule_of, mean=(0.6, 0.3, 0.0, -0.3), seeds=3, most=3000, sd=0.5):
    """The package's pulls and stopping time are those of the naive rule."""
    for seed in range(seeds):
        run = watch(strategy, mean, sd, seed, most)
        naive.agrees(run, len(mean), rule_of())
    return run


# ------------------------------------------------------------------------- against naive versions
@pytest.mark.parametrize("variant", ["heuristic", "theory", "experiment"])
def test_lil_ucb_is_the_naive_one(variant):
    run = same(
        sm.LilUCB(0.1, variant, 0.5), lambda: naive.lil_ucb(4, 0.1, 0.5, variant),
        mean=(1.5, 0.3, 0.0, -0.3),
    )  # fmt: skip
    assert run.answer == np.bincount(run.arms).argmax()
    assert run.ended == ("own rule" if variant == "heuristic" else run.ended)


@pytest.mark.slow
def test_lil_stopping_is_the_naive_one():
    rule = B.LILStopping(B.Uniform(), 0.1)
    run = same(rule, lambda: naive.lil_stopping(naive.in_turn, 4, 0.1, 0.5))
    assert run.ended == "stopping rule"
    assert run.answer == 0

    def lil():
        return naive.lil_stopping(naive.lil_ucb(4, 0.05, 0.5, "theory"), 4, 0.05, 0.5)

    same(B.LILStopping(sm.LilUCB(0.05, "theory", 0.5), 0.05), lil)


def test_ucb1_is_the_naive_one():
    run = same(B.UCB1(0.5), lambda: naive.ucb1(0.5), most=500)
    assert run.ended == "max_pulls"


@pytest.mark.parametrize("radius", ["lemma", "hoeffding"])
def test_successive_elimination_is_the_naive_one(radius):
    strategy = B.SuccessiveElimination(0.1, 0.5, radius)
    run = same(strategy, lambda: naive.successive(4, 0.1, 0.5, radius))
    assert (run.answer, run.ended) == (0, "own rule")


@pytest.mark.parametrize("variant", ["1", "++"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_lucb_is_the_naive_one(variant, epsilon):
    strategy = B.LUCB(0.1, 0.5, variant, epsilon)
    run = same(strategy, lambda: naive.lucb(4, 0.1, 0.5, variant, epsilon))
    assert (run.answer, run.ended) == (0, "own rule")


@pytest.mark.parametrize("kind", ["proved", "practice"])
def test_top_two_is_the_naive_one(kind):
    strategy = B.TopTwo(0.1, 0.5, threshold=kind)
    same(strategy, lambda: naive.top_two(4, 0.1, 0.5, kind))


def test_the_coin_of_top_two_is_fair():
    run = watch(B.TopTwo(1e-300, 1.0, beta=0.3), [1.0, 0.0], 1.0, 3, 3000)
    later = run.arms[200:]  # who leads is clear by then
    equal(int((later == 0).sum()), len(later), 0.3)


@pytest.mark.slow_for("TTTS")
@pytest.mark.parametrize("rule", ["T3C", "TTTS"])
def test_sampled_top_two_stops_when_the_naive_one_does(rule, rng):
    mean = np.array([0.6, 0.0, 0.2])
    found = [naive.sampled_top_two(mean, 0.5, 0.1, rule, rng) for _ in range(150)]
    strategy = B.TopTwo(0.1, 0.5, rule, threshold="practice")
    runs = runs_of(strategy, mean, 1500)
    assert stats.ks_2samp(runs.totals, [total for total, _ in found]).pvalue > 1e-5
    at_most(int(runs.errors.sum()), 1500, 0.1)


@pytest.mark.parametrize("kind", ["proved", "practice"])
def test_track_and_stop_is_the_naive_one(kind):
    strategy = B.TrackAndStop(0.1, 0.5, kind, every=1)
    same(strategy, lambda: naive.track_and_stop(4, 0.1, 0.5, kind))


def test_weights_of_track_and_stop_are_the_maximum(rng):
    """T*^-1 = sup_w min_b w_1 w_b gap_b^2 / (2 (w_1 + w_b)): here with a general optimiser."""
    for count in (2, 3, 5):
        mean = np.sort(rng.normal(0.0, 1.0, count))[::-1]
        run = watch(B.TrackAndStop(1e-9, 1.0, every=1), mean, 1e-9, most=200)
        gaps = (mean[0] - mean[1:]) ** 2

        def shortfall(w, gaps=gaps):
            return w[0] * w[1:] * gaps / (w[0] + w[1:])

        start = np.append(np.full(count, 1.0 / count), 0.0)
        start[-1] = shortfall(start[:-1]).min()
        best = optimize.minimize(
            lambda z: -z[-1], start, method="SLSQP", bounds=[(1e-9, 1.0)] * count + [(0.0, None)],
            constraints=[
                {"type": "eq", "fun": lambda z: z[:-1].sum() - 1.0},
                {"type": "ineq", "fun": lambda z: shortfall(z[:-1]) - z[-1]},
            ], options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        assert best.success
        weights = run.player.state.weights
        np.testing.assert_allclose(weights, best.x[:-1], atol=1e-4)
        assert shortfall(weights).min() >= -best.fun * (1.0 - 1e-7)  # rewards are noisy, a little


def test_track_and_stop_pulls_in_the_optimal_shares():
    mean = np.array([1.0, 0.6, 0.2, 0.0])
    shares = naive.optimal_weights(mean)
    runs = runs_of(B.TrackAndStop(1e-30, 0.5, "practice"), mean, 20)
    np.testing.assert_allclose(runs.pulls / runs.pulls.sum(), shares, atol=0.03)
    # ... and in the number of pulls that no strategy can beat as delta goes to 0, but for a part.
    rate = 0.25 * 2.0 / min(shares[0] * s * (1.0 - m) ** 2 / (shares[0] + s)
                            for s, m in zip(shares[1:], mean[1:], strict=True))  # fmt: skip
    assert 0.9 < runs.mean_total()[0] / (rate * log(1e30)) < 1.25


def test_the_proved_threshold_is_that_of_the_paper():
    for count, delta in ((2, 0.1), (10, 0.05), (100, 1e-6), (10, 1e-300)):
        found = base_of(B.TopTwo(delta), count)
        exact = naive.threshold(count, delta, 2, "proved") - 4.0 * log(4.0)
        assert found == pytest.approx(exact, rel=1e-4)


def phases_of(run, count, delta, epsilon, scale=0.5):
    """Median elimination by hand, from the pulls of a run."""
    left, start, e, risk = set(range(count)), 0, epsilon / 4.0, delta / 2.0
    while len(left) > 1:
        each = int(np.ceil(4.0 * (2.0 * scale / e) ** 2 * log(3.0 / risk)))
        end = start + each * len(left)
        arms, rewards = run.arms[start:end], run.rewards[start:end]
        assert set(arms) == left
        assert (np.bincount(arms, minlength=count)[sorted(left)] == each).all()
        means = np.bincount(arms, rewards, count) / each
        left = set(sorted(left, key=means.item)[len(left) // 2 :])
        start, e, risk = end, 0.75 * e, risk / 2.0
    assert start == len(run.arms)
    return left


def test_median_elimination_is_the_naive_one():
    mean = [0.1, 0.0, 0.2, 0.05, -0.3]
    strategy = B.MedianElimination(2.0, 0.1)
    for seed in range(3):
        run = watch(strategy, mean, seed=seed)
        assert phases_of(run, 5, 0.1, 2.0) == {run.answer}
        assert strategy.most_pulls(5) == len(run.arms)


def test_exponential_gap_pulls_what_its_phases_ask_for():
    """With a large gap one phase is enough, and its pulls are known beforehand."""
    delta, mean = 0.1, [0.5, 0.0]
    run = sm.identify(pull, 2, B.ExponentialGap(delta), seed=1, data=bandit(mean), progress=False)
    first = int(np.ceil(2.0 * 8.0**2 * log(2.0 * 50.0 / delta)))
    median = B.MedianElimination(1.0 / 16.0, delta / 50.0).most_pulls(2)
    assert (run.arm, run.total, run.stopped_by) == (0, 2 * first + median, "own rule")


# ------------------------------------------------------------------------------ the papers' numbers
@pytest.mark.parametrize("count", [10, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_heuristic_needs_ten_times_the_hardness(count):
    mean = np.zeros(count)
    mean[0] = 0.5
    runs = runs_of(sm.LilUCB(0.1, scale=0.5), mean, 40)
    assert 8.0 < runs.mean_total()[0] / (4.0 * (count - 1)) < 12.0
    assert not runs.errors.any()


@pytest.mark.slow
def test_stopping_times_are_in_the_order_of_the_papers():
    """1-sparse, ten arms: the theory's stop is ninety times that of the heuristic."""
    mean, totals = SPARSE, {}
    for name, strategy in {
        "heuristic": sm.LilUCB(0.1, scale=0.5),
        "theory": sm.LilUCB(0.1, "theory", 0.5),
        "with the stop": B.LILStopping(sm.LilUCB(0.05, "theory", 0.5), 0.05),
        "in turn": B.LILStopping(B.Uniform(), 0.1),
        "LUCB": B.LUCB(0.1, 0.5),
        "LUCB++": B.LUCB(0.1, 0.5, "++"),
        "top two": B.TopTwo(0.1, 0.5),
        "practice": B.TopTwo(0.1, 0.5, threshold="practice"),
    }.items():
        runs = runs_of(strategy, mean, 100)
        at_most(int(runs.errors.sum()), 100, 0.1)
        totals[name] = runs.mean_total()[0]
    assert 60.0 < totals["theory"] / totals["heuristic"] < 120.0
    assert totals["with the stop"] < 0.25 * totals["theory"]
    assert totals["with the stop"] < totals["in turn"]
    assert totals["LUCB++"] < totals["LUCB"]
    assert totals["practice"] < totals["top two"] < totals["LUCB"]


def test_constants_of_lil_ucb():
    assert constant(0.01) == pytest.approx(naive.lemma(0.01), rel=1e-14)
    assert np.exp(lil_constants("theory", 0.1, 10).level) == pytest.approx(2.8e-8, rel=0.02)
    assert np.exp(lil_constants("experiment", 0.1, 10).level) == pytest.approx(1.1e-4, rel=0.05)
    assert lil_constants("heuristic", 0.1, 10)[::3] == (0.0, 2.0)


# -------------------------------------------------------------------------------------- guarantees
def crossings(level, factor, rng, walks=400, steps=20_000):
    """How many walks ever leave the bound, times a factor."""
    T = np.arange(1, steps + 1)
    # The width of LILStopping, with the level under test in place of its own.
    numbers = B.LILStopping(B.Uniform(), 0.05, 1.0).numbers(2)
    bound = factor * numbers.width * np.sqrt(T * np.log(np.log(numbers.inflate * T + 2.0) / level))
    return sum(bool((np.cumsum(rng.standard_normal(steps)) > bound).any()) for _ in range(walks))


def test_walks_seldom_leave_the_law_of_the_iterated_logarithm(rng):
    """The lemma's constant is vacuous at such levels, yet fewer than delta leave: loose, valid."""
    at_most(crossings(0.2, 1.0, rng), 400, 0.2)
    above(crossings(0.2, 0.5, rng), 400, 0.2)  # and a bound of half the width does not hold


@pytest.mark.slow
@pytest.mark.parametrize(("level", "known"), [(0.05, 0.021), (0.2, 0.106)])
def test_how_many_walks_leave(level, known, rng):
    found = crossings(level, 1.0, rng, 3000)
    assert abs(found / 3000 - known) < 5.0 * sqrt(2.0 * known * (1.0 - known) / 3000)
    at_most(found, 3000, level)


BOUNDED = {
    "lil'UCB, theory": sm.LilUCB(0.2, "theory", 0.5),
    "lil'UCB with LIL stopping": B.LILStopping(sm.LilUCB(0.1, "theory", 0.5), 0.1),
    "in turn with LIL stopping": B.LILStopping(B.Uniform(), 0.2),
    "successive elimination": B.SuccessiveElimination(0.2),
    "of Even-Dar et al.": B.SuccessiveElimination(0.2, radius="hoeffding"),
    "LUCB": B.LUCB(0.2),
    "LUCB++": B.LUCB(0.2, variant="++"),
    "EB-TCI": B.TopTwo(0.2, 0.5),
    "T3C": B.TopTwo(0.2, 0.5, "T3C"),
    "TTTS": B.TopTwo(0.2, 0.5, "TTTS"),
    "Track-and-Stop": B.TrackAndStop(0.2, 0.5),
}


@pytest.mark.slow_for("mean1-TTTS")
@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("mean", [[0.2, 0.0], [0.0, 0.3, 0.1, 0.1, 0.0]])
def test_errors_stay_below_delta(name, mean):
    strategy = BOUNDED[name]
    assert strategy.guarantee == "bounded"
    runs = runs_of(strategy, mean, 100)
    assert (runs.stopped_by != "max_pulls").all()
    at_most(int(runs.errors.sum()), 100, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in BOUNDED if n != "TTTS"])  # a posterior at each pull
@pytest.mark.parametrize(("mean", "most", "count"), [
    ([0.01, 0.0], 4_000, 400), ([0.0, 0.01, 0.0, 0.0, 0.0], 8_000, 250),
], ids=["two", "five"])  # fmt: skip
def test_errors_stay_below_delta_where_arms_are_nearly_equal(name, mean, most, count):
    """Where an answer is as good as drawn by lot, and most runs find none before they are ended.

    Bounds for noise of a quarter of what there is: 25% to 60% of the runs err, of most strategies.
    """
    runs = runs_of(BOUNDED[name], mean, count, seed=2, max_pulls=most)
    at_most(int((runs.errors & (runs.stopped_by != "max_pulls")).sum()), count, 0.2)


@pytest.mark.slow
def test_median_elimination_is_best_to_within_epsilon():
    mean = np.array([0.3, 0.0, 0.29, 0.1, 0.2])
    runs = runs_of(B.MedianElimination(0.1, 0.2), mean, 20)
    at_most(int((runs.regrets > 0.1).sum()), 20, 0.2)


@dataclass(frozen=True)
class Narrow(B.SuccessiveElimination):
    """A bound that is too narrow."""

    factor: float = 0.5

    def numbers(self, arms):
        lil, width, *rest = super().numbers(arms)
        return RoundNumbers(lil, self.factor * width, *rest)


@pytest.mark.slow
def test_the_tests_notice_bounds_that_are_too_narrow():
    """Half the radius: other stopping times. A tenth: too many errors."""
    mean = (0.2, 0.0)
    with pytest.raises(AssertionError, match=r"the rule (goes on|wants|stops)"):
        same(Narrow(0.2), lambda: naive.successive(2, 0.2, 0.5, "lemma"), mean)
    runs = runs_of(Narrow(0.2, factor=0.1), [0.1, 0.0], 1000)
    above(int(runs.errors.sum()), 1000, 0.2)


# -------------------------------------------------------------------------------------- edge cases
CONFIDENT = {
    **BOUNDED,
    "UCB1": B.LILStopping(B.UCB1(), 0.2),
    "median elimination": B.MedianElimination(3.0, 0.2),
    "exponential gaps": B.ExponentialGap(0.2),
    "heuristic": sm.LilUCB(0.2, scale=0.5),
}


@pytest.mark.parametrize("name", CONFIDENT)
def test_one_arm_is_best_without_a_pull(name):
    run = sm.identify(pull, 1, CONFIDENT[name], seed=1, data=bandit([3.0]), progress=False)
    assert (run.arm, run.total, run.stopped_by) == (0, 0, "alone")
    assert np.isnan(run.means).all()


@pytest.mark.slow_for("Track-and-Stop")
@pytest.mark.parametrize("name", BOUNDED)
def test_equal_means_go_on_to_max_pulls(name):
    run = sm.identify(
        pull, 3, BOUNDED[name], seed=4, max_pulls=2000, data=bandit([0.2] * 3), progress=False
    )
    assert (run.total, run.stopped_by, run.guaranteed) == (2000, "max_pulls", False)
    assert run.arm in (0, 1, 2)


@pytest.mark.parametrize("name", CONFIDENT)
def test_constant_rewards_are_told_apart(name):
    run = sm.identify(
        pull, 3, CONFIDENT[name], seed=1, max_pulls=3_000_000, data=bandit([0.0, 0.5, 0.1], 0.0),
        progress=False,
    )  # fmt: skip
    assert run.arm == 1
    np.testing.assert_array_equal(run.means, [0.0, 0.5, 0.1])


@pytest.mark.parametrize("name", BOUNDED)
def test_constant_equal_rewards_end_by_max_pulls(name):
    run = sm.identify(
        pull, 2, BOUNDED[name], seed=1, max_pulls=1000, data=bandit([0.5, 0.5], 0.0), progress=False
    )
    assert (run.total, run.guaranteed) == (1000, False)


@pytest.mark.parametrize("name", CONFIDENT)
@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, np.nan])
def test_delta_is_a_probability(name, delta):
    with pytest.raises(ValueError, match="delta="):
        replace(CONFIDENT[name], delta=delta)


# UCB1 pulls the other arms log(t) times: its pulls are exponential in what the stop needs.
TINY = [name for name in CONFIDENT if name not in ("exponential gaps", "UCB1")]


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_delta_takes_more_pulls_and_no_overflow(name):
    mean, made = [5.0, 0.0, 1.0], []
    for strategy in (CONFIDENT[name], replace(CONFIDENT[name], delta=1e-300)):
        run = sm.identify(
            pull, 3, strategy, seed=1, max_pulls=10**6, data=bandit(mean), progress=False
        )
        assert (run.arm, run.guaranteed) == (0, strategy.guarantee == "bounded")
        made.append(run.total)
    assert made[0] < made[1]


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "make",
    [
        B.UCB1, lambda s: B.LUCB(scale=s), lambda s: B.TopTwo(scale=s),
        lambda s: B.SuccessiveElimination(scale=s), lambda s: B.TrackAndStop(scale=s),
        lambda s: B.LILStopping(B.Uniform(), scale=s), lambda s: B.ExponentialGap(scale=s),
    ],
)  # fmt: skip
def test_a_scale_is_positive(make, scale):
    with pytest.raises(ValueError, match="scale="):
        make(scale)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: B.LUCB(variant="2"), 'variant=.2.: it must be "1" or'),
        (lambda: B.LUCB(epsilon=-1.0), "epsilon=-1.0"),
        (lambda: B.TopTwo(rule="best"), "rule='best'"),
        (lambda: B.TopTwo(beta=1.0), "beta=1.0"),
        (lambda: B.TopTwo(threshold="mine"), "threshold='mine'"),
        (lambda: B.TrackAndStop(threshold="mine"), "threshold='mine'"),
        (lambda: B.SuccessiveElimination(radius="my"), "radius='my'"),
        (lambda: B.LILStopping(B.Uniform(), variant="my"), "variant='my'"),
        (lambda: B.MedianElimination(0.0), "epsilon=0.0"),
    ],
)
def test_wrong_names_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_lil_ucb_needs_a_scale_here():
    with pytest.raises(ValueError, match="identify needs the sub-Gaussian scale"):
        sm.identify(pull, 2, sm.LilUCB(), data=bandit([0.0, 1.0]))
