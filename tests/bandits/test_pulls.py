"""What sm.identify makes of pulls: look-ups, integers, scales that the rewards refute, ties."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.bandits.scale import SURE, RewardsSeen, is_wider, spread_of
from subsample_mcmc.numerics.jit import DISABLED

compiled_only = pytest.mark.skipif(DISABLED, reason="nothing is compiled")


# ------------------------------------------------------------------------------------- look-ups
def bootstrapped(data, arm, rng):
    return data.table[arm, int(rng.random() * data.columns)]


@pytest.mark.parametrize("runs", [1, 8])
def test_look_ups_are_checked_in_the_data_of_every_run(runs):
    """Those of the first may be longer."""
    made = []

    def tables(rng):
        made.append(0)
        width = 1_000 if len(made) == 1 else 500
        return {"table": np.full((3, width), 0.5) + 0.1 * np.arange(3.0)[:, None], "columns": 1000}

    with pytest.raises(IndexError, match=r"pull|out of bounds"):
        sm.identify(bootstrapped, 3, sm.SequentialHalving(600), data=tables, runs=runs, seed=1,
                    progress=False)  # fmt: skip


@compiled_only
def test_a_row_that_is_seldom_one_too_far_is_refused():
    """The first pulls do not meet it."""
    data = {"table": np.ones((3, 1_000)), "columns": 1_001}
    with pytest.raises(IndexError, match=r"pull looks up an index beyond an array for arm \d"):
        sm.identify(bootstrapped, 3, sm.SequentialHalving(60_000), data=data, seed=1,
                    progress=False)  # fmt: skip


def test_a_look_up_of_the_arm_is_named():
    def short(data, arm, rng):
        return data.means[arm] + rng.random()

    with pytest.raises(IndexError, match=r"pull .*means.* for arm 2|out of bounds"):
        sm.identify(short, 3, sm.SequentialHalving(60), data={"means": np.zeros(2)}, seed=1)


@compiled_only
def test_python_pulls_are_made_as_often_as_is_counted():
    """Whoever pays by the pull, or replays a log, wants no others."""
    log = {0: [0.5] * 30, 1: [9.0] + [0.4] * 30, 2: [0.3] * 30}
    left, calls = {arm: iter(rewards) for arm, rewards in log.items()}, []

    def replayed(arm, rng):
        calls.append(arm)
        return next(left[arm])

    found = sm.identify(replayed, 3, sm.bandits.Uniform(30), seed=1)
    assert len(calls) == found.total == 30
    assert found.arm == 1 and found.means[1] == pytest.approx((9.0 + 9 * 0.4) / 10)


# ------------------------------------------------------------------- compiled and in Python
def powers(arm, rng):
    return float((arm + 1) ** 40)


def bytes_above(data, arm, rng):
    return float(data.r[arm] - data.low[0])


def noisy(arm, rng):
    return arm + rng.standard_normal() + rng.integers(0, 3) + rng.exponential()


@compiled_only
def test_integers_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match=r"pull of arm \d is .* in Python, and .* compiled"):
        sm.identify(powers, 4, sm.SequentialHalving(60), seed=1)
    assert sm.identify(noisy, 4, sm.SequentialHalving(400), seed=1).arm == 3


@compiled_only
def test_columns_without_a_sign_are_numbers_with_one():
    """90 - 95 was 2**64 - 5."""
    data = {"r": np.array([90, 200, 100], dtype=np.uint8), "low": np.array([95], dtype=np.uint8)}
    assert sm.identify(bytes_above, 3, sm.SequentialHalving(60), data=data, seed=1).arm == 1


# ------------------------------------------------------------------------------------- scales
def wide(data, arm, rng):
    return data.means[arm] + data.sd * rng.standard_normal()


WIDE = {"means": np.array([0.3, 0.0, 0.0]), "sd": 5.0}
BOUNDED = {
    "LUCB": sm.bandits.LUCB(), "LUCB++": sm.bandits.LUCB(variant="++"),
    "elimination": sm.bandits.SuccessiveElimination(), "top two": sm.bandits.TopTwo(),
    "stopping": sm.bandits.LILStopping(sm.bandits.UCB1()),
    "tracking": sm.bandits.TrackAndStop(),
}  # fmt: skip
TOLD = r"standard deviation of \d+\.?\d* times scale, which its bounds rest on: it has no guarantee"


@pytest.mark.parametrize("name", BOUNDED)
def test_scales_that_the_rewards_refute_have_no_guarantee(name):
    """Also where each run ends after one pull of each arm."""
    more = {"data": WIDE, "seed": 1, "progress": False, "max_pulls": 100_000}
    with pytest.warns(UserWarning, match=TOLD):
        many = sm.identify(wide, 3, BOUNDED[name], runs=100, truth=WIDE["means"], **more)
    assert many.guarantee == "none"


def test_a_run_whose_rewards_refute_its_scale_has_no_guarantee():
    data = {"means": np.array([0.0, 0.0, 1e-3]), "sd": 1.0}
    with pytest.warns(UserWarning, match=r"Give a scale (9|1\d)\.?\d* times as large"):
        found = sm.identify(wide, 3, sm.bandits.SuccessiveElimination(scale=0.1), data=data, seed=4,
                            progress=False)  # fmt: skip
    assert found.stopped_by == "own rule" and found.guarantee == "none" and found.total > 10


def test_a_scale_that_is_right_is_not_refuted():
    strategy = sm.bandits.LUCB(scale=5.0)
    data = {"means": np.array([9.0, 0.0, 0.0]), "sd": 5.0}
    many = sm.identify(wide, 3, strategy, data=data, runs=50, seed=1, progress=False)
    assert many.guarantee == "bounded"


def test_scales_of_strategies_that_data_choose_are_their_own():
    def data(rng):
        return {"means": np.array([1.0, 0.0, 0.0]), "sd": float(10.0 ** rng.uniform(-2.0, 1.0))}

    def right(data):
        return sm.bandits.LUCB(scale=data.sd)

    more = {"data": data, "runs": 40, "seed": 1, "progress": False}
    assert sm.identify(wide, 3, right, **more).guarantee == "bounded"

    def wrong(data):
        return sm.bandits.LUCB(scale=0.2 * data.sd)

    with pytest.warns(UserWarning, match=r"^the strategies: around .* (4\.|5).*times scale"):
        assert sm.identify(wide, 3, wrong, **more).guarantee == "none"


def refuted(rewards, scale):
    """Do arms that gave these rewards refute a scale."""
    of_each = [(len(own), own.mean(), ((own - own.mean()) ** 2).sum()) for own in rewards]
    seen = RewardsSeen(*np.array(of_each).T)
    return is_wider(spread_of(sm.bandits.LUCB(scale=scale), "own rule", seen))


def test_when_a_scale_is_refuted():
    """Never by rewards of that scale; and with probability near 1 by those 1.5 times as wide."""
    rng = np.random.default_rng(0)
    for count in (2, 10, 100, 10_000):
        for _ in range(200):
            assert not refuted(rng.standard_normal((3, count)), 1.0)
            assert not refuted(rng.integers(0, 2, (3, count)) * 1.0, 0.5)
    assert refuted(1.5 * rng.standard_normal((3, 200)), 1.0)
    # The bound is one: what Gaussian squares exceed with probability e^-20 is within it.
    for count in (6, 60, 600):
        low, high = 1.0, 100.0
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            found = 0.5 * count * (middle - 1.0 - np.log(middle)) > SURE
            low, high = (low, middle) if found else (middle, high)
        assert stats.chi2.logsf(count * high, count) < -SURE


# ------------------------------------------------------------------------------- budgets and ties
@pytest.mark.parametrize("allocation", ["equal", "known-variance", "adaptive-variance"])
def test_halving_refuses_budgets_that_leave_arms_unseen(allocation):
    more = {"variances": np.ones(8)} if allocation == "known-variance" else {}

    def sure(arm, rng):
        return float(arm)

    few, enough = (sm.SequentialHalving(b, allocation=allocation, **more) for b in (23, 24))
    with pytest.raises(ValueError, match=r"budget=23 is shared among 3 stages.*budget=24 or more"):
        sm.identify(sure, 8, few, seed=1)
    many = sm.identify(sure, 8, enough, truth=np.arange(8.0), runs=50, seed=1)
    assert not many.errors.any()


def test_means_that_are_equal_but_for_rounding_are_no_errors():
    truth = np.array([0.3, 0.1 + 0.2, 0.0])
    assert truth[0] != truth[1]

    def level(data, arm, rng):
        return data.means[arm] + 0.01 * rng.standard_normal()

    many = sm.identify(level, 3, sm.SequentialHalving(60), data={"means": truth}, truth=truth,
                       runs=40, seed=1, progress=False)  # fmt: skip
    assert set(many.arms) == {0, 1} and not many.errors.any() and not many.regrets.any()
    assert many.error_rate()[0] == 0.0 and many.early[-1] == 0.0
