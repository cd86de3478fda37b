"""A scale is compared with rewards before a promise is made; by more pulls if few were repeated."""

import re

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.bandits.play import Player
from subsample_mcmc.bandits.scale import (
    ENOUGH,
    RewardsSeen,
    Spread,
    is_longer,
    is_wide_arm,
    is_wider,
    no_rewards,
    note_more,
    spread_of,
    together,
    within,
)

B = sm.bandits
SOON = {
    "LUCB": B.LUCB(), "LUCB++": B.LUCB(variant="++"), "elimination": B.SuccessiveElimination(),
    "top two": B.TopTwo(), "tracking": B.TrackAndStop(), "stopping": B.LILStopping(B.UCB1()),
    "inside": B.LILStopping(B.LUCB(scale=0.01), scale=10.0),
    "linear": sm.LinGapE(np.eye(3), noise=0.01, norm=0.05), "design": B.XYAllocation(np.eye(3)),
}  # fmt: skip
MORE = {"max_pulls": 100_000, "progress": False}


def wide(arm, rng):
    return (1.0 if arm == 1 else 0.0) + 25.0 * rng.standard_normal()


def narrow(arm, rng):
    return 100.0 * arm + rng.standard_normal()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", SOON)
@pytest.mark.filterwarnings("ignore:.*has no guarantee")
def test_a_run_that_ends_at_once_is_not_promised(name, compiled):
    """Rewards 25 and more times as wide as stated: 40 runs, of which most name a wrong arm."""
    runs = [
        sm.identify(wide, 3, SOON[name], seed=i, compiled=compiled or None, **MORE)
        for i in range(40 if compiled else 4)
    ]
    assert {run.guarantee for run in runs} == {"none"}
    assert np.mean([run.arm == 1 for run in runs if run.stopped_by == "own rule"] or [0]) < 0.9


def repeated(run):
    """Pulls beyond the first of each arm."""
    return int((run.pulls[run.pulls > 0] - 1).sum())


def test_pulls_beside_the_run_change_nothing_of_it():
    """Its pulls, means, answer and draws are those of a run that is cut off where it ended."""
    kept = B.LUCB(scale=1.0)
    run = sm.identify(narrow, 3, kept, seed=1, **MORE)
    assert run.guarantee == "bounded" and run.total < 10
    assert run.checks == ENOUGH - repeated(run) > 0
    assert f"{run.total} pulls and {run.checks} to check its scale, stopped" in repr(run)
    with pytest.warns(UserWarning, match="max_pulls left too few pulls to see whether rewards"):
        cut = sm.identify(narrow, 3, kept, seed=1, max_pulls=run.total, progress=False)
    assert cut.guarantee == "none" and cut.checks == 0
    for field in ("pulls", "means", "times", "history", "leaders", "arm", "stopped_by"):
        assert np.array_equal(getattr(run, field), getattr(cut, field)), field
    one, two = (sm.identify(narrow, 3, kept, seed=1, runs=9, cores=c, **MORE) for c in (1, 2))
    assert one.guarantee == "bounded" and one.checks == two.checks > 9 * 10
    assert np.array_equal(one.totals, two.totals) and one.totals.max() < 10


def test_long_runs_and_those_that_promise_nothing_are_left_alone():
    def near(arm, rng):
        return 0.5 * arm + rng.standard_normal()

    assert sm.identify(near, 3, B.LUCB(scale=1.0), seed=1, **MORE).checks == 0
    assert sm.identify(narrow, 3, sm.SequentialHalving(12), seed=1, **MORE).checks == 0
    assert sm.identify(narrow, 3, B.TopTwo(threshold="practice"), seed=1, **MORE).checks == 0
    assert sm.identify(narrow, 1, B.LUCB(), seed=1, **MORE).guarantee == "bounded"


def test_an_experiment_asks_until_the_scale_can_be_checked(tmp_path):
    for sd, promise in ((1.0, "bounded"), (50.0, "none")):
        rng, kept = np.random.default_rng(2), B.LUCB(scale=1.0)
        experiment, arms = sm.Experiment(kept, 3, seed=1), []
        while (arm := experiment.ask()) is not None:
            assert experiment.ask() == arm
            experiment.tell(1000.0 * arm + sd * rng.standard_normal())
            arms.append(arm)
            if len(arms) == 9:
                experiment.save(tmp_path / "run.npz")
                experiment = sm.Experiment.load(tmp_path / "run.npz", kept)
        with pytest.raises(ValueError, match="without ask"):
            experiment.tell(1.0)
        found = (pytest.warns if promise == "none" else none_warned)(UserWarning)
        with found:
            run = experiment.result()
        assert run.guarantee == promise and run.arm == 2
        assert len(arms) == run.total + run.checks and run.total == experiment.total
        assert repeated(run) + run.checks == ENOUGH


def none_warned(kind):
    """A context in which warnings are errors, as everywhere here."""
    from contextlib import nullcontext

    return nullcontext()


def test_the_scale_is_that_of_the_rule_that_ended_the_run():
    seen = RewardsSeen(np.full(3, 50), np.zeros(3), np.full(3, 50.0))
    for inner, own, own_rule, stopping in ((0.1, 1.0, True, False), (1.0, 0.1, False, True)):
        both = B.LILStopping(B.LUCB(scale=inner), scale=own)
        assert is_wider(spread_of(both, "own rule", seen)) == own_rule
        assert is_wider(spread_of(both, "stopping rule", seen)) == stopping
    assert spread_of(B.LILStopping(B.UCB1()), "own rule", seen) == Spread()  # promises nothing


def test_residuals_of_linear_arms_are_around_a_fit():
    """As least squares of all rewards has them; and rewards of that noise do not refute it."""
    rng = np.random.default_rng(0)
    features, theta = rng.standard_normal((40, 3)), np.array([1.0, -2.0, 0.5])
    arms = rng.integers(0, 40, 60)
    rewards = features[arms] @ theta + rng.standard_normal(60)
    more = no_rewards(40)
    for arm, reward in zip(arms, rewards, strict=True):
        note_more(more, arm, reward)
    residuals = rewards - features[arms] @ np.linalg.lstsq(features[arms], rewards)[0]
    found = spread_of(sm.LinGapE(features, noise=2.0), "own rule", more)
    np.testing.assert_allclose(found[:3], (60.0, 3.0, residuals @ residuals / 4.0))
    assert not is_wider(found) and not is_wider(found._replace(squares=60.0))
    assert is_wider(spread_of(B.XYAllocation(features, noise=0.4), "own rule", more))


@pytest.mark.filterwarnings("ignore:.*has no guarantee")
def test_a_norm_that_means_refute_promises_nothing():
    """Short features need a long vector: with the default norm all runs are wrong."""
    features, theta = np.array([[0.1, 0.0], [0.0, 0.05]]), np.array([10.0, 22.0])

    def pull(data, arm, rng):
        return data.means[arm] + 0.01 * rng.standard_normal()

    given = {"data": {"means": features @ theta}, "truth": features @ theta, "seed": 1} | MORE
    short, right = (sm.LinGapE(features, noise=0.01, norm=norm) for norm in (1.0, 25.0))
    one, many = sm.identify(pull, 2, short, **given), sm.identify(pull, 2, short, runs=9, **given)
    assert one.guarantee == many.guarantee == "none"
    assert many.errors.all() and one.stopped_by == "own rule"
    found = sm.identify(pull, 2, right, **given | {"max_pulls": 10**6})
    assert found.guarantee == "bounded" and found.arm == 1
    with pytest.warns(UserWarning, match="no vector within norm has such means"):
        sm.identify(pull, 2, sm.LinGapE(features, noise=0.01), **given)


def test_least_squares_within_a_norm_are_the_best_of_such_vectors():
    rng = np.random.default_rng(0)
    for _ in range(20):
        design, values = rng.standard_normal((6, 3)), rng.standard_normal(6)
        free = np.linalg.lstsq(design, values)[0]
        length = np.linalg.norm(free)
        np.testing.assert_allclose(within(design, values, 1.01 * length), free, atol=1e-12)
        found = within(design, values, 0.5 * length)
        assert abs(np.linalg.norm(found) - 0.5 * length) < 1e-9 * length
        slope = design.T @ (values - design @ found)  # points outward: no step inside is better
        np.testing.assert_allclose(slope / np.linalg.norm(slope), 2.0 * found / length, atol=1e-9)


def test_a_norm_that_is_right_is_not_refuted():
    """The vector has the very length that is given: 2,000 runs of as much noise as is stated."""
    rng, pulls = np.random.default_rng(3), np.full(5, 40)
    for _ in range(2_000):
        features, theta = rng.standard_normal((5, 3)), rng.standard_normal(3)
        means = features @ theta + rng.standard_normal(5) / np.sqrt(pulls)
        seen = RewardsSeen(pulls, means, rng.chisquare(pulls - 1.0))
        found = spread_of(
            sm.LinGapE(features, noise=1.0, norm=np.linalg.norm(theta)), "own rule", seen
        )
        assert not is_longer(found) and not is_wider(found)


def test_one_wide_arm_is_not_hidden_by_many_pulls_of_narrow_ones():
    """50 rewards of 4 times the scale, among 9,000 of .3 times it: all together are narrow."""
    pulls = np.array([50, 4_500, 4_500])
    seen = RewardsSeen(pulls, np.zeros(3), pulls * np.array([16.0, 0.09, 0.09]))
    found = spread_of(B.LUCB(scale=1.0), "own rule", seen)
    assert found.squares < found.many and is_wide_arm(found) and is_wider(found)
    narrow = found._replace(arm_squares=55.0)
    assert is_wider(narrow.plus(found)) and is_wider(found.plus(narrow))
    assert not is_wider(narrow.plus(narrow)) and narrow.plus(found).arms == 6.0

    def pull(arm, rng):
        return (0.0, 0.3, 0.6)[arm] + (4.0, 0.3, 0.3)[arm] * rng.standard_normal()

    with pytest.warns(UserWarning, match="around the mean of one arm"):
        run = sm.identify(pull, 3, B.SuccessiveElimination(scale=1.0), seed=1, **MORE)
    assert run.guarantee == "none"


def test_the_scale_that_is_advised_is_not_the_widest_of_many_runs():
    """Of 2,000 runs the widest arm had 56 times the scale by chance, where all have 25 times it."""

    def pull(arm, rng):
        return (0.6, 0.5, 0.45, 0.3)[arm] + 0.5 * rng.standard_normal()

    for runs in (1, 300):
        with pytest.warns(UserWarning, match="around the means of their arms") as told:
            sm.identify(pull, 4, B.LUCB(scale=0.02), runs=runs, seed=7, **MORE)
        advised = float(re.search(r"Give a scale ([0-9.]+) times", str(told[0].message)).group(1))
        assert 15.0 < advised < 40.0


def test_rewards_of_two_parts_are_those_of_all():
    rng, parts = np.random.default_rng(1), (no_rewards(4), no_rewards(4), no_rewards(4))
    for _ in range(50):
        arm, reward, part = rng.integers(1, 4), 100.0 + rng.standard_normal(), rng.integers(2)
        for one in (parts[part], parts[2]):
            note_more(one, arm, reward)
    for one, other in zip(together(*parts[:2]), parts[2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_player_wants_no_more_than_enough():
    player = Player(B.LUCB(scale=1.0), 3, np.random.SeedSequence(0), 10**6)
    assert player.ask_more() is None  # under way


# --------------------------------------------------------------------------------- as selectors
REWARDS = np.random.default_rng(3).normal([[0.0], [0.1], [0.05]], 1.0, (3, 20_000))
LIL = {"variant": "theory", "scale": 1e-5}


@pytest.mark.parametrize(
    "selector",
    [sm.LilUCB(**LIL), sm.LilUCB(batch=7, **LIL), sm.LinGapE(np.eye(3), noise=1e-5, norm=1e-4)],
)
def test_decisions_by_a_scale_that_rewards_refute_are_refused(selector):
    with pytest.raises(sm.SpreadError, match=r"rewards of arm \d are outside the declared range"):
        sm.choose(REWARDS, selector=selector, seed=1)
    column = {"y": REWARDS[0]}

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - 0.01 * state.k[0]) ** 2

    model = sm.Model(log_likelihood, column, {"k": 0}, support={"k": 3})
    with pytest.raises(sm.SpreadError, match="breaks the range declared in Li"):
        sm.sample(model, sm.Gibbs("k", selector), draws=5, progress=False)


def test_decisions_of_one_wide_arm_or_means_beyond_the_norm_are_refused():
    """Arms are 30 nats better than each other for 64 rows; all rewards together are narrow."""
    few = REWARDS * np.array([[0.05], [0.05], [5.0]]) + np.array([[0.0], [3.0], [0.0]])
    for seed in range(3):
        with pytest.raises(sm.SpreadError, match="rewards of arm 2 are outside"):
            sm.choose(few, selector=sm.LilUCB(variant="theory", scale=1.5), seed=seed)
    short = 0.1 * np.eye(3)
    sm.choose(few, selector=sm.LinGapE(short, noise=5.0, norm=40.0), seed=1)
    steady = REWARDS * 0.05 + np.array([[0.0], [3.0], [0.0]])
    with pytest.raises(sm.SpreadError, match="or are farther from 0"):
        sm.choose(steady, selector=sm.LinGapE(short, noise=0.1), seed=1)


@pytest.mark.parametrize(
    "selector",
    [sm.LilUCB(variant="theory", scale=1.0), sm.LinGapE(np.eye(3), noise=1.0, norm=0.2),
     sm.LilUCB(scale=1e-5)],
)  # fmt: skip
def test_decisions_by_a_scale_that_is_right_are_made(selector):
    """Rewards of +-1 have exactly this scale; and the heuristic promises nothing."""
    signs = np.sign(REWARDS - REWARDS.mean(axis=1, keepdims=True))
    signs[1, :4_000] = 1.0
    for seed in range(20):
        sm.choose(signs, selector=selector, seed=seed)
