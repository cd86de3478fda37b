"""What pilots measure, where they begin, and which fits are apart."""

import importlib
import math
from types import SimpleNamespace

import numpy as np
import pytest

from subsample_mcmc.runs.defaults.configurations import are_apart
from subsample_mcmc.runs.plan import measured, rate_of, state_of


def test_what_a_plan_expects_is_of_the_rows_that_are_raced(monkeypatch):
    """Of three arms, and of rows that are always read: these are added, and not raced."""
    plan, asked = importlib.import_module("subsample_mcmc.runs.plan"), []

    def pulls(scaled, size, arms, delta):
        asked.append((scaled.tolist(), size, arms, delta))
        return np.full(len(scaled), 600.0)

    monkeypatch.setattr(plan, "expected_pulls", pulls)
    selector = SimpleNamespace(delta=0.02, dropping_rule=1, risk=1, thins=False)
    leaf = SimpleNamespace(
        selector=selector, prepared=lambda model: SimpleNamespace(outliers=np.arange(100)),
        facts=lambda model: {"arms": 3, "rows": 1_000, "continuous": False},
    )  # fmt: skip
    one = np.array([[1.0]])
    stats_of = {"audited": one, "margin": 6.0 * one, "variance": 4.0 * one}
    counted = {"pulls": one, "everything": one, "predicted": one, "decisions": one}
    pilots = plan.Pilots({"k": counted}, {"k": stats_of}, 1.0, 1.0)
    row = measured("as given", "k", leaf, pilots, SimpleNamespace(size=1_000), {})
    assert asked == [([6.0 / math.sqrt(900 * 4.0)], 900, 3, 0.02)]
    assert row["expected"] == pytest.approx(600.0 / 3_000 + 0.1)


def test_effective_draws_a_second_are_of_the_time_of_draws():
    """Four seconds, of which three were warm-up."""
    trace = SimpleNamespace(
        shape=(1, 100), meta={"warmup": 300}, seconds=np.array([4.0]),
        mixing=lambda name: SimpleNamespace(ess=50.0, moved=True),
    )  # fmt: skip
    assert rate_of(trace, SimpleNamespace(names=("a",))) == pytest.approx(50.0)


def test_pilots_begin_at_the_most_probable_of_several_fits():
    fits = [SimpleNamespace(log_evidence=value, state=value) for value in (-7.0, -2.0, -5.0)]
    assert state_of(fits) == -2.0 and state_of(fits[0]) == -7.0 and state_of(None) is None


@pytest.mark.parametrize(("distance", "apart"), [(1.5, False), (1.9, False), (2.1, True)])
def test_gaussians_of_unequal_width_are_apart_by_bhattacharyya_s_distance(distance, apart):
    """Around one place, of variances 1 and v: (1 + v) / (2 sqrt v) is the exponential of twice it.

    One alone is wider: half of the logarithm of the determinants is what they differ by.
    """
    root = np.exp(2.0 * distance) + np.sqrt(np.exp(4.0 * distance) - 1.0)
    one, other = (SimpleNamespace(mean=np.zeros(1), covariance=np.array([[v]]))
                  for v in (1.0, root**2))  # fmt: skip
    assert are_apart(one, other) == are_apart(other, one) == apart
