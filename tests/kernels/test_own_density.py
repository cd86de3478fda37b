"""Proposals of a user's own whose density is not what he says are refused, and no others.

A right one is told of with probability 1e-7 at most, by a bound that holds for any law; the test of
coverage counts how often sums pass the bound of 5%, and cries wolf with probability 1e-6.
"""

from functools import partial
from math import exp, lgamma, log, sqrt

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import metropolis
from subsample_mcmc.kernels.proposals import own_density
from subsample_mcmc.kernels.proposals.own_density import Points, SymmetricSums, said
from subsample_mcmc.target.moved import moved

POSITIVE, UNIT, SHARES = sm.positive, sm.interval(0.0, 1.0), sm.simplex


def model(start, constraint=None, log_prior=None):
    return sm.Model(
        lambda state, data, n: 0.0 * data.y[n], {"y": np.zeros(4)}, {"b": start}, log_prior,
        constraints=constraint and {"b": constraint},
    )  # fmt: skip


def own(*proposal):
    return sm.Metropolis(
        "b", proposal=proposal if len(proposal) > 1 else proposal[0], selector=sm.Exact()
    )


# ------------------------------------------------------------------------------- draws, densities
def factor(rng, current, out):
    out[0] = current[0] * exp(0.4 * rng.standard_normal())


def of_factor(to, given):
    z = log(abs(to[0] / given[0])) / 0.4
    return -0.5 * z * z - log(abs(to[0]))


def swapped(given, to):
    return of_factor(to, given)


def relative(rng, current, out):
    out[0] = current[0] + 0.3 * abs(current[0]) * rng.standard_normal()


def of_relative(to, given):
    sd = 0.3 * abs(given[0])
    return -0.5 * ((to[0] - given[0]) / sd) ** 2 - log(sd)


def without_its_scale(to, given):
    return -0.5 * ((to[0] - given[0]) / (0.3 * given[0])) ** 2


def cauchy(rng, current, out):
    for j in range(len(out)):
        out[j] = current[j] + rng.standard_cauchy()


def reflected(rng, current, out):
    out[0] = abs(current[0] + rng.standard_normal())


def skew(rng, current, out):
    out[0] = current[0] + rng.standard_exponential() - 1.0


def contracting(rng, current, out):
    for j in range(len(out)):
        out[j] = 0.95 * current[j] + sqrt(1.0 - 0.95**2) * rng.standard_normal()


def of_contracting(to, given):
    return -0.5 * sum((t - 0.95 * g) ** 2 for t, g in zip(to, given, strict=True)) / (1 - 0.95**2)


def shares(rng, current, out):
    for j in range(len(out)):
        out[j] = rng.standard_gamma(40.0 * current[j])
    out /= out.sum()


def of_shares(to, given):
    return sum((40.0 * g - 1.0) * log(t) - lgamma(40.0 * g) for t, g in zip(to, given, strict=True))


def without_its_constant(to, given):
    return sum((40.0 * g - 1.0) * log(t) for t, g in zip(to, given, strict=True))


def logits(rng, current, out):
    u = log(current[0] / (1.0 - current[0])) + 0.7 * rng.standard_normal()
    out[0] = 1.0 / (1.0 + exp(-u))


def of_logits(to, given):
    z = (log(to[0] / (1.0 - to[0])) - log(given[0] / (1.0 - given[0]))) / 0.7
    return -0.5 * z * z - log(to[0] * (1.0 - to[0]))


def one_of_them(rng, current, out):
    j = int(len(out) * rng.random())
    out[j] = current[j] + 0.1 * rng.standard_normal()


def factor_of_one(rng, current, out):
    j = int(len(out) * rng.random())
    out[j] = current[j] * exp(0.4 * rng.standard_normal())


def of_factor_of_one(to, given):
    return -sum(log(t) for t in to)  # symmetric in logarithms


def shifted(rng, current, out):
    out += 0.3 * rng.standard_normal()


def swapped_places(rng, current, out):
    order = rng.permutation(len(out))
    for j in range(len(out)):
        out[j] = current[order[j]]


def wrapped(rng, current, out):
    out[0] = (current[0] + 0.5 * rng.standard_normal()) % 6.0


def turned(rng, current, out):
    angle = 0.7
    if rng.random() < 0.5:
        out[0] = np.cos(angle) * current[0] - np.sin(angle) * current[1]
        out[1] = np.sin(angle) * current[0] + np.cos(angle) * current[1]
    else:
        out[:] = current + 0.5 * rng.standard_normal(2)


def mostly_tiny(rng, current, out):
    size = 0.005 if rng.random() < 0.8 else 0.8
    out[0] = current[0] * exp(size * rng.standard_normal())


def on_a_circle(rng, current, out):
    out[:] = current + 0.3 * rng.standard_normal(3)
    out /= sqrt(np.sum(out**2))


def above_zero(state):
    return -state.b[0] if state.b[0] > 0.0 else -np.inf


RIGHT = {
    "factor": (model(1.3, POSITIVE), factor, of_factor),
    "factor of real numbers": (model(1.3), factor, of_factor),
    "of a prior": (model(1.3, None, above_zero), factor, of_factor),
    "relative": (model(1.3, POSITIVE), relative, of_relative),
    "cauchy": (model(np.zeros(3)), cauchy),
    "reflected": (model(0.4, POSITIVE), reflected),
    "contracting": (model(np.zeros(5)), contracting, of_contracting),
    "shares": (model([0.2, 0.3, 0.5], SHARES), shares, of_shares),
    "logits": (model(0.3, UNIT), logits, of_logits),
    "one of many at a time": (model(np.full(10, 0.1)), one_of_them),
    "one factor at a time": (model(np.full(5, 2.0), POSITIVE), factor_of_one, of_factor_of_one),
    "one of ordered ones": (model(np.arange(5.0) / 3.0, sm.ordered), one_of_them),
    "a shift of ordered ones": (model(np.arange(5.0), sm.ordered), shifted),
    "permutations": (model([1.0, 3.0, 2.0, 0.1], POSITIVE), swapped_places),
    "a circle that nobody declared": (model(1.0), wrapped),
    "a bound in the prior": (model(0.4, None, above_zero), reflected),
}
WRONG = {
    "factor": (model(1.3, POSITIVE), factor, "has no log_density.*symmetric in free coordinates"),
    "of a prior": (model(1.3, None, above_zero), factor, r"Give proposal=\(draw, log_density\)"),
    "swapped": (model(1.3, POSITIVE), factor, swapped, "Its arguments seem to be swapped"),
    "relative": (model(1.3, POSITIVE), relative, "is not symmetric"),
    "a scale": (model(1.3, POSITIVE), relative, without_its_scale, "is not that of draw"),
    "skew": (model(0.0), skew, "down more often than up"),
    "contracting": (model(np.zeros(5)), contracting, "towards its centre"),
    "shares": (model([0.2, 0.3, 0.5], SHARES), shares, without_its_constant, "is not that of draw"),
    "logits": (model(0.3, UNIT), logits, "symmetric in free coordinates"),
    "to one side": (model(np.zeros(2)), turned, "one way more than the other"),
    "rarely far": (model(1.0, POSITIVE), mostly_tiny, "symmetric in free coordinates"),
    "one factor at a time": (model(np.full(5, 2.0), POSITIVE), factor_of_one, "is not symmetric"),
}
REAL = {"of a prior", "skew", "contracting", "to one side"}  # which are warned of


@pytest.fixture(autouse=True)
def however_busy_the_machine(monkeypatch):
    monkeypatch.setattr(own_density, "SECONDS", 60.0)
    monkeypatch.setattr(own_density, "WALKED", 2_000)


@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_are_taken(name):
    one, *proposal = RIGHT[name]
    own(*proposal).check(one)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_told(name):
    one, *proposal, words = WRONG[name]
    if name in REAL:
        with pytest.warns(UserWarning, match=words):
            own(*proposal).check(one)
        own(*proposal).check(one)  # once
        return
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ValueError, match=words):
            own(*proposal).check(one)


def test_sets_without_a_volume_may_be_warned_of():
    """Points around a sphere are not on it: what is said names that."""
    with pytest.warns(UserWarning, match="no other values than some, as of a lattice or a circle"):
        own(on_a_circle).check(model([0.0, 0.0, 1.0]))


def test_a_run_refuses_them_too():
    with pytest.raises(ValueError, match=r"Metropolis\('b'\).*has no log_density"):
        sm.sample(model(1.3, POSITIVE), own(factor), draws=5, warmup=5, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_how_often_a_right_one_passes_the_bound(name):
    """Of 5%: sums of 400 points each, of 200 trials; a wrong one passes it in nearly all."""
    one, *proposal = RIGHT[name]
    found = passed(one, own(*proposal), 400)
    assert found <= stats.binom.isf(1e-6 / len(RIGHT), 200, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swapped", "relative", "a scale", "shares", "rarely far"])
def test_the_bound_has_power(name):
    one, *proposal, _ = WRONG[name]
    assert passed(one, own(*proposal), 1_000) > stats.binom.isf(1e-6, 200, 0.05)


def passed(one, kernel, points):
    """In how many of 200 trials some sum passes the bound that 5% do at most."""
    blocks = moved(one, kernel.writes)
    around = Points(one, blocks, partial(kernel.ends, blocks), kernel.proposal)
    around.prior, around.among = one.log_prior, around.reached()
    most = sqrt(2.0 * log(2.0 * SymmetricSums(around.step).count / 0.05))
    found = 0
    for seed in range(200):
        sums = SymmetricSums(around.step)
        with np.errstate(all="ignore"):
            pairs = around.pairs(2.0, points, np.random.default_rng(seed))
        sums.add(pairs, said(pairs), around.among)
        found += abs(sums.worst().z) > most
    return found


# ------------------------------------------------------------------------------------- the rest
def test_several_blocks_by_name():
    def both(rng, current, out):
        out.rate[0] = current.rate[0] * exp(0.5 * rng.standard_normal())
        out.at[0] = current.at[0] + rng.standard_normal() + out.rate[0] - current.rate[0]

    def of_both(to, given):
        z = log(to.rate[0] / given.rate[0]) / 0.5
        away = to.at[0] - given.at[0] - to.rate[0] + given.rate[0]
        return -0.5 * (z * z + away * away) - log(to.rate[0])

    one = sm.Model(
        lambda state, data, n: 0.0 * data.y[n], {"y": np.zeros(4)},
        {"at": 0.0, "still": np.zeros(2), "rate": 2.0}, constraints={"rate": sm.positive},
    )  # fmt: skip
    names = ("at", "rate")
    sm.Metropolis(names, proposal=(both, of_both), selector=sm.Exact()).check(one)
    with pytest.raises(ValueError, match="has no log_density"):
        sm.Metropolis(names, proposal=both, selector=sm.Exact()).check(one)


def test_a_model_is_looked_at_once():
    seen = []

    def counted(rng, current, out):
        seen.append(1)
        out[0] = current[0] + rng.standard_normal()

    one = model(0.0)
    own(counted).check(one)
    many = len(seen)
    own(counted).check(one)
    assert len(seen) == many > 1_000
    own(counted).check(model(0.0))
    assert len(seen) == 2 * many


def test_time_is_kept_to(monkeypatch):
    """Of functions that take a second a call, some are made."""
    monkeypatch.setattr(own_density, "SECONDS", 0.0)
    calls = []

    def dear(state):
        calls.append(1)
        return 0.0

    def counted(rng, current, out):
        calls.append(1)
        factor(rng, current, out)

    own(counted).check(model(1.3, POSITIVE, dear))
    assert len(calls) < 20


def test_what_functions_raise_shows_when_they_run():
    def by_logarithms(to, given):  # math.log raises below 0, where a real number may be
        return -0.5 * ((log(to[0]) - log(given[0])) / 0.4) ** 2

    with pytest.warns(UserWarning, match="is not that of draw"):
        own(factor, by_logarithms).check(model(1.3))

    def only_near(rng, current, out):
        if abs(current[0]) > 0.5:
            raise RuntimeError("too far")
        out[0] = current[0] + rng.standard_normal()

    own(only_near).check(model(0.0))
    own(only_near, lambda to, given: to.nothing).check(model(0.0))


def test_another_law_is_what_they_draw(monkeypatch):
    """What is refused here: a gamma law of shape 2 becomes one of shape 1."""
    monkeypatch.setattr(metropolis, "check_density", lambda *given: None)
    given = {"draws": 20_000, "warmup": 100, "chains": 1, "seed": 1, "progress": False}
    one = model(1.3, POSITIVE, lambda state: log(state.b[0]) - state.b[0])
    mean = {
        right: sm.sample(one, own(factor, of_factor) if right else own(factor), **given)
        .draws["b"].mean()
        for right in (True, False)
    }  # fmt: skip
    assert mean[False] < 1.3 and mean[True] > 1.7
