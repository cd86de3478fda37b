"""Seconds, evaluations, bounds and effective draws, as reports have them."""

from types import SimpleNamespace

import arviz
import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.views.costs import (
    bounds_met,
    evaluations_of,
    microseconds_of,
    seconds_of,
    worst_of,
)
from subsample_mcmc.runs.views.predictions import Predictions
from subsample_mcmc.runs.views.probabilities import ALARM, Estimate, frozen, jackknife
from tests.runs.views.test_arviz import trace_of


def test_evaluations_of_a_control_variate_are_of_each_arm():
    total = {"pulls": 10, "decisions": 5}
    assert evaluations_of({"evaluations": (1, 2), "arms": 3}, total) == 2 * 2 + 2 * 3
    assert evaluations_of({"evaluations": (1, 2), "arms": 3, "proposes": True}, total) == 2 * 2 + 2


def test_seconds_of_chains_that_were_cut_are_of_warm_up_as_well():
    """100 steps of warm-up, and two a draw: 200 of 200 steps, and 200 of 300."""
    trace = SimpleNamespace(
        meta={"warmup": 100, "thin": 2}, shape=(2, 50), made=[50, 100], seconds=np.array([2.0, 3.0])
    )
    assert seconds_of(trace).tolist() == [2.0, 2.0]


def spread(count, error):
    """Estimates that each leave one part out, whose jackknife error is this."""
    signs = np.where(np.arange(count) % 2, -1.0, 1.0)
    return signs[:, None] * np.array([error]) / np.sqrt(count - 1)


def test_chains_disagree_where_their_variances_do():
    """Errors by chains against those by batches: the ratio of squares is beyond F's quantile."""
    limit = np.sqrt(stats.f.isf(ALARM, 3, 36))
    for times, disagree in ((0.95 * limit, False), (1.05 * limit, True)):
        batches, chains = spread(40, 1.0), spread(4, times)
        assert jackknife(batches)[0] == pytest.approx(1.0)
        assert jackknife(chains)[0] == pytest.approx(times)
        found = Estimate(np.zeros(1), batches, chains, np.full(1, 9.0), 1.0, np.zeros(1))
        error, apart = found.error(lambda p: p)
        assert apart.tolist() == [disagree]
        assert error[0] == pytest.approx(times if disagree else 1.0)


def test_a_summary_of_predictions_has_their_moments():
    values = np.random.default_rng(0).normal(2.0, 3.0, (2, 50))
    said = Predictions(None, np.arange(50), {"s": values}, "y", None, {"s": np.mean}, True)
    row = said.summary().loc["s"]
    assert row["mean"] == pytest.approx(values.mean()) and row["sd"] == pytest.approx(values.std())
    assert row["5%"] == pytest.approx(np.quantile(values, 0.05))


def test_shares_of_predicted_values_add_up_to_one():
    plt = pytest.importorskip("matplotlib.pyplot")
    values = np.random.default_rng(0).poisson(2.0, (2, 50, 7)).astype(float)
    said = Predictions(None, np.arange(50), {"": values}, "y", values[0, 0], {}, True)
    (panel,) = said.plot()
    mean = panel.patches[1].get_data().values
    assert mean.sum() == pytest.approx(1.0)
    plt.close("all")


def test_a_time_is_that_of_all_steps_of_draws_that_are_thinned():
    """Of 100 steps of warm-up, and 4 for each of 100 draws: a fifth is the warm-up's."""
    meta = {"warmup": 100, "thin": 4}
    run = SimpleNamespace(meta=meta, shape=(1, 100), made=[100], seconds=np.array([0.5]))
    assert microseconds_of(run, 400) == pytest.approx(1e6 * 0.8 * 0.5 / 400)


def test_draws_in_which_a_tilt_s_kernel_did_not_run_tell_nothing_of_it():
    """Their counts are zeros, which would be the tilt of value 0."""
    stats_of = {"steps": np.array([[1, 0, 1, 0]]), "value": np.array([[2, 0, 1, 0]]),
                "tilt": np.array([[0.5, 0.0, -0.3, 0.0]])}  # fmt: skip
    trace = SimpleNamespace(stats={"k": stats_of}, shape=(1, 4), learnt=lambda label, name: [None])
    np.testing.assert_array_equal(frozen(trace, "k", 3), [[np.nan, -0.3, 0.5]])


def test_bounds_that_were_met_are_those_of_one_decision():
    stats_of = {"bound": np.array([[3.0, 0.0, 8.0]]), "decisions": np.array([[1, 0, 4]])}
    assert bounds_met(stats_of).tolist() == [3.0, 2.0]


def tilted_trace():
    """Two chains of a block that has a tilt, and of another one: each has a law of its own."""
    rng = np.random.default_rng(4)
    model = sm.Model(lambda s, data, n: 0.0 * s.mu[0] + 0.0 * s.k[0], {"y": np.zeros(3)},
                     {"k": 0, "mu": 0.0}, support={"k": 3})  # fmt: skip
    mu = rng.normal(size=(2, 500)) + np.array([[0.0], [7.0]])
    mu[1, 1::2] = mu[1, ::2]
    told = [{"label": "tilt", "kind": "WangLandau", "block": "k", "values": 3, "arms": 3,
             "writes": ["k"]}]  # fmt: skip
    return mu, trace_of(model, {"k": rng.integers(0, 3, (2, 500)), "mu": mu}, told)


def test_effective_draws_of_chains_with_tilts_add_up():
    mu, trace = tilted_trace()
    each = [float(arviz.ess(chain[None], method="bulk")) for chain in mu]
    assert trace.mixing("mu").ess == pytest.approx(sum(each))


def test_a_summary_of_chains_with_tilts_is_of_each():
    mu, trace = tilted_trace()
    table = trace.summary("mu")
    for chain in (0, 1):
        row = table.loc[(chain, "mu")]
        assert row["mean"] == pytest.approx(mu[chain].mean())
        assert row["sd"] == pytest.approx(mu[chain].std(ddof=1))


def test_the_worst_r_hat_is_also_of_blocks_that_never_moved():
    """Chains that stand at values of their own have an R-hat without end, and no ESS."""
    moved_well = SimpleNamespace(ess=100.0, rhat=1.01, every=1, draws=500)
    stood = SimpleNamespace(ess=np.nan, rhat=np.inf, every=1, draws=500)
    found = worst_of([moved_well, stood], 2)
    assert found.rhat == np.inf and found.ess == 100.0 and found.iat == 10.0
