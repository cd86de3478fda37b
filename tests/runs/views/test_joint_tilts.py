"""Probabilities of a block where others are tilted, by joint values: all tilts are undone."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views.probabilities import Joint, estimate, estimate_joint
from tests.helpers.claims import at_least, at_most

JOINT = np.array([[0.9, 0.1], [0.1, 0.9]]) * [[0.95], [0.05]]
JOINT /= JOINT.sum()
L00, L01, L10, L11 = np.log(JOINT).ravel().tolist()
TRUE = {"q": JOINT.sum(axis=1), "r": JOINT.sum(axis=0)}


def log_prior(state):
    if state.q[0] == 0:
        return L00 if state.r[0] == 0 else L01
    return L10 if state.r[0] == 0 else L11


def nothing(state, data, n):
    return 0.0 * data.y[n]


def sampled(kernel, **more):
    model = sm.Model(
        nothing, {"y": np.zeros(1)}, {"q": 0, "r": 0}, log_prior, support={"q": 2, "r": 2}
    )
    return sm.sample(model, kernel, 4_000, 500, chains=4, seed=1, progress=False, **more)


MOVES = sm.Gibbs("q", sm.Exact()) >> sm.Gibbs("r", sm.Exact())
TILT = MOVES >> sm.WangLandau("q", start=[0.0, 3.0], rate=0.01)
BOTH = TILT >> sm.WangLandau("r", start=[0.0, -1.0], rate=0.01)


@pytest.mark.parametrize("kernel", [TILT, BOTH], ids=["q", "q and r"])
def test_tilts_of_all_blocks_are_undone(kernel):
    """4 standard errors: 4 numbers, wrong by chance once in 4,000. Draws themselves are far off."""
    trace = sampled(kernel)
    assert abs((trace.draws["q"] == 0).mean() - TRUE["q"][0]) > 0.2
    for name, other in (("q", "r"), ("r", "q")):
        found = trace.model_probabilities(name)
        p, se = found.table["probability"], found.table["probability_se"]
        assert 0.0 < se[0] < 0.02 and abs(p[0] - TRUE[name][0]) < 4.0 * se[0]
        undone = {"q", "r"} if kernel is BOTH else {"q"}
        assert all(b in found.title for b in undone) or undone == {name}
        # Averages of another block over the posterior; and of this one, which are p itself.
        assert found.weights.sum() == pytest.approx(1.0)
        assert (found.weights * (trace.draws[name] == 0)).sum() == pytest.approx(p[0], abs=1e-6)
        if kernel is BOTH or name == "r":
            wanted = trace.model_probabilities(other).table["probability"]
            share = (found.weights * (trace.draws[other] == 0)).sum()
            assert share == pytest.approx(wanted[0], abs=1e-6)
    assert repr(trace.model_probabilities("r"))


def test_what_cannot_be_undone_is_refused():
    trace = sampled(TILT, keep={"r": True})
    with pytest.raises(ValueError, match="under the tilts of q, whose own draws were not kept"):
        trace.model_probabilities("r")


def test_more_joint_values_than_can_be_solved_for_are_refused(monkeypatch):
    monkeypatch.setattr("subsample_mcmc.runs.views.probabilities.MOST_JOINT", 3)
    with pytest.raises(ValueError, match="of which 4 were visited, and 3 can be solved for"):
        sampled(TILT).model_probabilities("r")


@pytest.mark.slow
def test_errors_of_sums_are_calibrated(rng):
    """Two standard errors cover the truth in 90% to 99% of 300 runs of draws from known laws."""
    tilts = np.array([[0.0, 1.0, 2.5, 2.0], [0.5, 0.5, 3.0, 1.0], [0.0, 2.0, 2.0, 2.0]])
    laws = JOINT.ravel() * np.exp(tilts)
    laws /= laws.sum(axis=1, keepdims=True)
    group, hits = np.array([0, 1, 0, 1]), 0
    for _ in range(300):
        values = np.array([rng.choice(4, 400, p=law) for law in laws])
        joint = Joint(values, tilts, group, [values % 2, values // 2], ["q"])
        found = estimate_joint(joint).summed(group, 2, np.full(2, 400.0))
        assert np.exp(found.log_p).sum() == pytest.approx(1.0)
        se, _ = found.error(np.exp)
        hits += abs(np.exp(found.log_p[0]) - TRUE["r"][0]) <= 2.0 * se[0]
    at_least(hits, 300, 0.90)
    at_most(hits, 300, 0.99)


def test_one_tilt_of_its_own_is_estimated_as_before(rng):
    values, tilts = rng.integers(0, 3, (2, 100)), np.zeros((2, 3))
    found = estimate(values, tilts)
    joint = Joint(values, tilts, np.arange(3), [values], [])
    np.testing.assert_allclose(estimate_joint(joint).log_p, found.log_p)
