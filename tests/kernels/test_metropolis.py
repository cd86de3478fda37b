"""Metropolis: each kernel must keep the joint law of parameters and data; mutants must not.

One replication draws theta from the prior and data given theta, makes a few steps, and looks where
theta lies in its posterior: uniformly, and independently of the other replications. So p-values
are exact (Kolmogorov-Smirnov); each test cries wolf with probability 1e-6.
"""

from dataclasses import replace
from math import cos, exp, log, pi, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels import metropolis
from subsample_mcmc.kernels.proposals.gaussian import Gaussian, distance, gaussian
from subsample_mcmc.kernels.proposals.walk import learn_step
from subsample_mcmc.numerics.jit import jit
from tests.helpers.laws import not_uniform, uniform
from tests.helpers.marks import slow_but
from tests.helpers.models import (
    BERNOULLI,
    CATEGORICAL,
    EXPONENTIAL,
    NO_JACOBIAN,
    NORMAL,
    conjugate,
    law_model,
    replicated,
    still,
    tally,
    walker,
)

COUNT = 100_000  # replications: a distribution function may be off by 0.008
SPACES = {
    "real": (NORMAL, None),
    "log": (EXPONENTIAL, sm.positive),
    "softplus": (EXPONENTIAL, sm.positive("softplus")),
    "squareroot": (EXPONENTIAL, sm.positive("squareroot")),
    "cuberoot": (EXPONENTIAL, sm.positive("cuberoot")),
    "interval": (BERNOULLI, sm.interval(0.0, 1.0)),
    "narrow": (BERNOULLI, sm.interval(0.2, 0.5)),
    "simplex": (CATEGORICAL, sm.simplex),
}


def space(name, size=6):
    kind, constraint = SPACES[name]
    low, high = (0.2, 0.5) if name == "narrow" else (0.0, 1.0)
    return law_model(kind, constraint, size, low, high)


def fixed(scale=0.8, **more):
    return sm.Metropolis("theta", scale, selector=sm.Exact(), adapt=False, **more)


def keeps_the_law(model, kernel, rng, count=COUNT, least=0.1, **more):
    """The law is kept, by a kernel that moves; its tally."""
    found, one, made = replicated(model, kernel, count, rng, **more)
    uniform(found)
    told = tally(one, made.words, "theta")
    assert least < told["accepted"] / told["steps"] < 0.99
    return told


# ------------------------------------------------------------------------------- each constraint
@pytest.mark.parametrize("name", SPACES)
def test_random_walk(rng, name):
    told = keeps_the_law(space(name), fixed(), rng)
    assert told["decisions"] == told["steps"] == 8 * COUNT
    assert told["everything"] == (told["decisions"] - told["alone"]) * 2 * 6
    ends = name in ("squareroot", "cuberoot")  # of its free coordinates
    assert (told["alone"] > 0) == ends


def test_one_scale_per_coordinate(rng):
    keeps_the_law(space("simplex"), fixed(np.array([0.2, 1.5])), rng)


def test_a_missing_jacobian_is_noticed(rng):
    """A prior that lacks 1/theta is what a walk in log coordinates without Jacobian aims at."""
    found, _, _ = replicated(law_model(NO_JACOBIAN, sm.positive), fixed(), COUNT, rng)
    not_uniform(found)


@pytest.mark.parametrize("name", slow_but(["real"], ["real", "log", "interval", "simplex"]))
def test_pcn_and_independence(rng, name):
    model = space(name)
    free = {"real": 2, "simplex": 2}.get(name, 1)
    covariance = np.array([[1.0, 0.5], [0.5, 0.8]])[:free, :free]
    mean = np.array([0.3, -0.2])[:free]
    for proposal in (
        sm.pcn(mean, covariance, 0.5), sm.independence(mean, covariance),
        sm.pcn(mean, covariance, 0.5, defensive=0.5),
    ):  # fmt: skip
        keeps_the_law(model, fixed(proposal=proposal), rng)


@jit(inner="always")
def forgetful(rng, tuning, given, now, which, u, v):
    """The mutant: every proposal is corrected as if the Gaussian had made it."""
    gaussian(rng, tuning, given, now, which, u, v)
    far = distance(given.mean[which], given.columns[which], given.other, v)
    return 0.5 * (far - distance(given.mean[which], given.columns[which], given.other, u))


class Forgetful(Gaussian):
    def build(self):
        return forgetful, learn_step


@pytest.mark.slow
def test_a_wrong_ratio_of_defensive_proposals_is_noticed(rng):
    proposal = Forgetful(np.array([0.3]), np.eye(1), 0.5, defensive=0.5)
    found, _, _ = replicated(space("log"), fixed(proposal=proposal), COUNT, rng)
    not_uniform(found)


def test_tails_heavier_than_the_gaussian_hold_no_chain():
    """A Laplace law has e^60 times the Gaussian's density at 12, and 1,000 is farther still."""

    def still_at(start, defensive):
        model = sm.Model(
            lambda state, data, n: 0.0 * data.y[n], {"y": np.zeros(2)}, {"theta": start},
            lambda state: -abs(state.theta[0]),
        )  # fmt: skip
        proposal = sm.independence([0.0], [[1.0]], defensive=defensive)
        return np.abs(walker(model, fixed(proposal=proposal)).advance(2000).floats[-500:]).mean()

    assert still_at(12.0, 0.0) == 12.0 and still_at(1e3, 0.0) == 1e3
    assert still_at(12.0, 1 / 32) < 5.0 and still_at(1e3, 1 / 32) < 5.0


@pytest.mark.slow
def test_a_proposal_that_knows_the_posterior_is_always_accepted():
    """Where the Gaussian is the posterior, pcn never rejects: its ratio cancels the target's."""
    model = sm.Model(
        lambda state, data, n: 0.0 * data.y[n], {"y": np.zeros(2)}, {"theta": [0.0, 1.0]},
        lambda state: -0.5 * (state.theta[0] ** 2 + 4.0 * (state.theta[1] - 1.0) ** 2),
    )  # fmt: skip
    proposal = sm.pcn([0.0, 1.0], np.diag([1.0, 0.25]), 0.4, defensive=0.0)
    one = walker(model, fixed(proposal=proposal))
    made = one.advance(2000)
    # The two cancel up to rounding, against which log u may be closer: once in 1e13.
    assert tally(one, made.words, "theta")["accepted"] == 2000


# ---------------------------------------------------------------------------------- own proposals
def window(rng, current, out):
    """Symmetric: a window for one coordinate, mass from one to another for several."""
    move = 0.5 * (rng.random() - 0.5)
    if len(out) == 1:
        out[0] = current[0] + move
    else:
        first = int(3.0 * rng.random())
        out[first] = current[first] + move
        second = (first + 1 + int(2.0 * rng.random())) % 3
        out[second] = current[second] - move


def stretch(rng, current, out):
    """A lognormal factor: not symmetric on the block itself."""
    out[0] = current[0] * exp(0.8 * sqrt(-2.0 * log(1.0 - rng.random())) * cos(pi * rng.random()))


def stretch_density(to, given):
    z = (log(to[0]) - log(given[0])) / 0.8
    return -0.5 * z * z - log(to[0])


@pytest.mark.parametrize("name", ["interval", "narrow", "simplex", "log"])
def test_own_symmetric_proposal(rng, name):
    """Proposals outside the set are rejected without reading any data."""
    told = keeps_the_law(space(name), fixed(proposal=window), rng)
    assert told["everything"] + 2 * 6 * told["alone"] == 8 * COUNT * 2 * 6
    assert 0 < told["pulls"] < told["everything"]  # some sums are remembered
    assert told["alone"] > 0


@pytest.mark.slow
def test_own_proposal_with_its_density(rng):
    keeps_the_law(space("log"), fixed(proposal=(stretch, stretch_density)), rng)


def test_own_proposal_without_its_density_is_noticed(rng, monkeypatch):
    monkeypatch.setattr(metropolis, "check_density", lambda *given: None)  # which refuses it
    found, _, _ = replicated(space("log"), fixed(proposal=stretch), COUNT, rng)
    not_uniform(found)


def writes_into_the_current(rng, current, out):
    current[0] += 1.0
    out[0] = current[0]


def met():
    """Raise what a proposal that writes where it may not meets, compiled or plain."""
    one = walker(space("log"), still >> fixed(proposal=writes_into_the_current))
    one.advance(1)
    raise one.error


@pytest.mark.plain
def test_a_proposal_cannot_change_the_current_value():
    with pytest.raises((sm.CompileError, ValueError), match=r"may only read|read-only"):
        met()


# -------------------------------------------------------------------- delayed acceptance, betting
def stand_in(state):
    return -0.9 * (state.theta[0] - 0.4) ** 2


@pytest.mark.parametrize("name", ["real", "softplus", "simplex"])
def test_delayed_acceptance(rng, name):
    told = keeps_the_law(space(name), sm.delayed(fixed(), stand_in), rng, least=0.05)
    assert 0.05 < told["decisions"] / told["steps"] < 0.95  # many end at the surrogate


def no_number(state):
    return np.nan if state.theta[0] > 0.7 else 0.0


def test_a_surrogate_that_is_no_number_is_an_error():
    one = walker(space("log"), still >> sm.delayed(fixed(), no_number))
    one.advance(1000)
    assert isinstance(one.error, ValueError)
    assert "surrogate" in str(one.error)


@pytest.mark.slow
def test_betting(rng):
    """theta in (.2, .8): rewards log theta, log(1 - theta) lie in an interval of width log 4."""
    model = law_model(BERNOULLI, sm.interval(0.2, 0.8), size=400, low=0.2, high=0.8)
    race = sm.Racing(sm.Betting(spread=log(4.0)), delta=1e-6, batch=16, retreat=False)
    kernel = sm.Metropolis("theta", 2.0, selector=race, adapt=False)
    told = keeps_the_law(model, kernel, rng, count=10_000)
    assert told["early"] > 0.1 * told["decisions"]
    assert told["pulls"] < 0.95 * told["everything"]


# --------------------------------------------------------------------------------- compositions
def at_zero(state):
    return state.z[0] == 0


def elsewhere(state):
    return state.z[0] != 0


WALK, Z = fixed(), sm.Gibbs("z", sm.Exact())
COMPOSITIONS = {
    "in turn": WALK >> Z,
    "one of two": sm.mixture((WALK, 0.7), (sm.repeat(Z, 2), 0.3)),
    "if": sm.when(at_zero, WALK) >> sm.when(elsewhere, conjugate) >> Z,
    # Every ordered pair of kernels occurs: what one leaves behind may be stale to the next.
    "everything": sm.mixture(
        (WALK, 2.0), (Z, 2.0), (conjugate, 0.5), (sm.delayed(WALK, stand_in), 2.0),
        (fixed(proposal=sm.pcn([0.0, 0.0], np.eye(2), 0.5)), 1.0),
        (Z >> sm.repeat(sm.when(at_zero, WALK), 3), 1.0),
    ),
    "gradients, walks, slices and labels": sm.mixture(
        (sm.Langevin("theta", 0.3, batch=3, selector=sm.Exact(), adapt=False), 1.0),
        (WALK, 1.0), (sm.Slice("theta", selector=sm.Exact()), 1.0), (Z, 1.0),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions(rng, name):
    keeps_the_law(space("real"), COMPOSITIONS[name], rng, least=0.02, moves_z=True)


@pytest.mark.slow
def test_a_predicate_that_its_kernel_changes_is_noticed_by_the_law_alone(rng):
    """What `when` refuses: moving z only from 0, and never back."""
    found, _, _ = replicated(space("real"), WALK >> biased, COUNT, rng, moves_z=True)
    not_uniform({"z": found["z"]})


@sm.kernel(writes="z")
def biased(rng, state, data):
    if state.z[0] == 0:
        state.z[0] = int(3.0 * rng.random())


# ------------------------------------------------------------------------------------ adaptation
def learnt(one):
    kept = one.run.kept.items()
    return {name: array.copy() for name, array in kept if name != "totals"}


@pytest.mark.slow
def test_nothing_adapts_after_warm_up():
    kernel = sm.mixture(
        (sm.Metropolis("theta", 3.0, selector=sm.Exact()), 1.0),
        (sm.repeat(sm.when(at_zero, sm.Metropolis("theta", selector=sm.Exact())) >> Z, 2), 1.0),
    )
    one = walker(space("real"), still >> kernel)
    start = learnt(one)
    assert len(start) == 8  # two kernels, four arrays each
    one.advance(2000, warm=True)
    warmed = learnt(one)
    changed = [name for name in start if not np.array_equal(start[name], warmed[name])]
    assert {name.partition(".")[2] for name in changed} >= {"step", "scales"}
    assert {name.partition(".")[0] for name in changed} == {"1", "2"}
    made = one.advance(3000)
    assert all(np.array_equal(array, warmed[name]) for name, array in learnt(one).items())
    scale = one.program.layout.stats(made.words)["theta"]["scale"]
    assert len(np.unique(scale[scale > 0.0])) == 1
    assert scale.max() == pytest.approx(np.exp(next(iter(warmed.values()))[1]), rel=1e-12)


def test_adaptation_meets_its_target():
    for scale in (1e-3, 30.0):
        one = walker(space("real"), still >> sm.Metropolis("theta", scale, selector=sm.Exact()))
        one.advance(5000, warm=True)
        told = tally(one, one.advance(5000).words, "theta")
        assert 0.15 < told["accepted"] / told["steps"] < 0.35  # around .234


def test_what_does_not_adapt():
    one_each = sm.Metropolis("theta", [0.5, 0.7], selector=sm.Exact())
    for kernel in (fixed(), fixed(proposal=sm.pcn([0.0, 0.0], np.eye(2))), one_each):
        one = walker(space("real"), still >> kernel)
        start = learnt(one)
        one.advance(500, warm=True)
        same = [n for n in start if np.array_equal(start[n], learnt(one)[n])]
        assert len(same) == (3 if kernel is one_each else 4)  # its step adapts, not its scales


def shaped(shape, d=20):
    """Logarithms of gamma variables: near normal where the shape is large."""

    def log_prior(state):
        total = 0.0
        for j in range(len(state.theta)):
            total += shape * state.theta[j] - np.exp(state.theta[j])
        return total

    start = {"theta": np.full(d, np.log(shape))}
    model = sm.Model(lambda s, data, n: 0.0 * data.y[n], {"y": np.zeros(2)}, start, log_prior)
    return model, sm.pcn(start["theta"], np.eye(d) / shape)


def test_the_beta_of_pcn_is_learnt():
    """Up to .95 where the Gaussian fits; else to 55% of acceptances, and the law is what it was."""
    for shape, low, high in ((1e6, 0.94, 0.9501), (3.0, 0.35, 0.75)):
        model, proposal = shaped(shape)
        one = walker(model, sm.Metropolis("theta", proposal=proposal, selector=sm.Exact()))
        one.advance(3000, warm=True)
        warmed = learnt(one)
        made = one.advance(40_000)
        assert all(np.array_equal(array, warmed[name]) for name, array in learnt(one).items())
        (beta,) = np.unique(one.program.layout.stats(made.words)["theta"]["scale"])
        assert low < beta < high
        accepted = tally(one, made.words, "theta")["accepted"] / 40_000
        assert accepted > 0.95 if shape > 3.0 else 0.45 < accepted < 0.65
        batches = made.floats.reshape(40, 1000, -1).mean(axis=1)
        off = batches.mean(axis=0) - float(sm.digamma(shape))
        assert np.abs(off / (batches.std(axis=0, ddof=1) / 40**0.5)).max() < 5.5  # t of 39
    kept = sm.Metropolis("theta", proposal=proposal, selector=sm.Exact(), adapt=False)
    for kernel, warm in ((kept, 500), (replace(kept, adapt=True), 0)):
        one = walker(model, kernel)
        if warm:
            one.advance(warm, warm=True)
        made = one.advance(10)
        (beta,) = np.unique(one.program.layout.stats(made.words)["theta"]["scale"])
        assert beta == pytest.approx(0.3, rel=1e-12)


# -------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"selector": "exact"}, TypeError, "selector='exact'"),
        ({"scale": 0.0}, ValueError, "scale=0.0"),
        ({"scale": [0.1, -1.0]}, ValueError, r"scale=\[0.1, -1.0\]"),
        ({"scale": np.eye(2)}, ValueError, "scale=array"),
        ({"scale": np.nan}, ValueError, "scale=nan"),
        ({"proposal": 3}, TypeError, "proposal=3"),
        ({"proposal": (1, 2)}, TypeError, r"proposal=\(1, 2\)"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        sm.Metropolis("theta", **arguments)


def test_wrong_proposals_are_refused():
    for beta in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match=f"beta={beta}"):
            sm.pcn([0.0], [[1.0]], beta)
    for share in (-0.1, 1.5, np.nan, "some"):
        with pytest.raises(ValueError, match=f"defensive={share!r}: give a share"):
            sm.independence([0.0], [[1.0]], share)
    model = space("real")
    for mean, covariance in (([0.0], [[1.0]]), ([0.0, 0.0], np.ones(2))):
        with pytest.raises(ValueError, match="2 free coordinates"):
            fixed(proposal=Gaussian(mean, covariance, 0.5)).check(model)
    with pytest.raises(ValueError, match="not positive definite"):
        fixed(proposal=sm.independence([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])).check(model)
    with pytest.raises(TypeError, match=r"proposal\[0\]"):
        walker(model, still >> fixed(proposal=np.add))
    with pytest.raises(TypeError, match=r"proposal\[1\]=5"):
        walker(model, still >> fixed(proposal=(window, 5)))


def test_wrong_blocks_are_refused():
    with pytest.raises(ValueError, match=r"Metropolis.'z'.*discrete"):
        sm.Metropolis("z").check(space("real"))
    with pytest.raises(ValueError, match=r"scale has shape \(3,\): block 'theta' has 2 free"):
        sm.Metropolis("theta", [0.1, 0.2, 0.3]).check(space("simplex"))


def test_delayed_refuses_what_does_not_accept_or_reject():
    with pytest.raises(TypeError, match="give a kernel that accepts or rejects"):
        sm.delayed(Z, stand_in)
    with pytest.raises(TypeError, match="surrogate=3"):
        sm.delayed(WALK, 3)
    assert sm.delayed(WALK, stand_in).surrogate is stand_in
    assert WALK.surrogate is None


def bad_density(to, given):
    return np.nan


def test_a_density_that_is_no_number_is_an_error():
    one = walker(space("log"), still >> fixed(proposal=(stretch, bad_density)))
    one.advance(10)
    assert isinstance(one.error, ValueError)
    assert "proposal density" in str(one.error)
    assert one.floats[0] == 0.7  # as it was before


def leaves_nan(rng, current, out):
    out[0] = sqrt(current[0] - 10.0) if current[0] < 10.0 else current[0]


def leaves_infinity(rng, current, out):
    out[0] = np.inf


def leaves_the_set(rng, current, out):
    out[0] = -1.0


@pytest.mark.parametrize("draw", [leaves_nan, leaves_infinity])
def test_a_proposal_that_is_no_number_is_an_error(draw):
    """It is no value outside the set, which is rejected: that cut the posterior off."""
    one = walker(space("log"), still >> fixed(proposal=draw))
    one.advance(10)
    assert isinstance(one.error, ValueError)
    assert "nan, infinite or off its support" in str(one.error)
    assert one.floats[0] == 0.7
    one = walker(space("log"), still >> fixed(proposal=leaves_the_set))
    one.advance(10)
    assert one.error is None
    assert one.floats[0] == 0.7
