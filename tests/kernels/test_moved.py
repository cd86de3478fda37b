"""Several continuous blocks that move as one keep their joint law; mutants do not.

One replication draws all blocks from a law that is written down, makes a few joint steps, and
looks where each block lies in its law given those before it: uniformly (Rosenblatt 1952).
Replications are independent, so p-values are exact; each test cries wolf with probability 1e-6.
"""

from math import cos, exp, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import metropolis
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.runs.fingerprint import of_run
from subsample_mcmc.target.constraints import to_block
from tests.helpers.laws import not_uniform, uniform
from tests.helpers.models import tally, walker

COUNT = 40_000  # replications: a distribution function may be off by 0.013
LOW, HIGH = 0.2, 0.9
NAMES = ("rate", "share", "p", "theta")  # neither the order of the state nor next to each other


# ------------------------------------------- a simplex, a positive, a bounded and a real block
def likelihood(state, data, n):
    """Counts of three kinds, Poisson(2 rate share[n])."""
    mean = state.exposure[0] * state.rate[0] * state.share[n]
    return data.y[n] * sm.log(mean) - mean


def prior(state):
    z = (state.theta[0] - 3.0 * state.p[0]) / 0.5
    return -state.rate[0] - 0.5 * z * z


@sm.kernel(writes=("share", "theta", "exposure", "rate", "p"))
def fresh(rng, state, data):
    """An exact draw of all blocks given the exposure, which no joint move may change."""
    state.exposure[0] = 1.0 + 2.0 * rng.random()
    state.exposure[1] = -state.exposure[0]
    total, count = 0.0, 0
    for j in range(3):
        part = 0.0
        for _ in range(1 + int(data.y[j])):
            part -= log(1.0 - rng.random())
        count += int(data.y[j])
        state.share[j] = part
        total += part
    for j in range(3):
        state.share[j] /= total
    rate = 0.0
    for _ in range(1 + count):
        rate -= log(1.0 - rng.random())
    state.rate[0] = rate / (1.0 + state.exposure[0])
    state.p[0] = 0.2 + 0.7 * (1e-9 + (1.0 - 2e-9) * rng.random())
    noise = sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())
    state.theta[0] = 3.0 * state.p[0] + 0.5 * noise


def model(rate=sm.positive, log_likelihood=likelihood, exposure=(2.0, -2.0)):
    state = {"share": [0.5, 0.3, 0.2], "theta": 1.0, "exposure": exposure, "rate": 1.0, "p": 0.5}
    sets = {"share": sm.simplex, "rate": rate, "p": sm.interval(LOW, HIGH)}
    data = {"y": np.array([2.0, 1.0, 0.0])}
    return sm.Model(log_likelihood, data, state, prior, constraints=sets)


def ranks(draws):
    """Where each block lies in its law, given those before it."""
    share, p = draws["share"], draws["p"]
    return {
        "exposure": 0.5 * (draws["exposure"][:, 0] - 1.0),
        "rate": stats.gamma.cdf(draws["rate"] * (1.0 + draws["exposure"][:, 0]), 4),
        "share[0]": stats.beta.cdf(share[:, 0], 3, 3),
        "share[1]": stats.beta.cdf(share[:, 1] / (1.0 - share[:, 0]), 2, 1),
        "p": (p - LOW) / (HIGH - LOW),
        "theta": stats.norm.cdf((draws["theta"] - 3.0 * p) / 0.5),
    }


def replicated(target, kernel, count=COUNT, times=5):
    """Ranks after some joint steps from exact draws, and the kernel's counts."""
    one = walker(target, fresh >> sm.repeat(kernel, times))
    made = one.advance(count)
    assert one.error is None, one.error
    draws = one.program.layout.draws(made.ints, made.floats)
    assert np.array_equal(draws["exposure"][:, 1], -draws["exposure"][:, 0])
    assert np.abs(draws["share"].sum(axis=1) - 1.0).max() < 1e-12
    return ranks(draws), tally(one, made.words, kernel.label)


def joint(make=sm.Metropolis, *arguments, names=NAMES, **more):
    return make(names, *arguments, selector=sm.Exact(), adapt=False, **more)


def keeps_the_law(kernel, target=None, least=0.05, most=0.99):
    found, told = replicated(target or model(), kernel)
    uniform(found)
    moves = told["accepted"] / told["steps"]
    assert least < moves < most


@pytest.mark.slow_for("log")
@pytest.mark.parametrize("coordinates", ["log", "softplus", "squareroot", "cuberoot"])
def test_random_walk(coordinates):
    keeps_the_law(joint(scale=0.5), model(sm.positive(coordinates)))


@jit(inner="always")
def first_only(to, u, x):
    """The mutant: log |dx/du| of the first block alone."""
    jacobian = 0.0
    for k in range(len(to.kinds)):
        part = u[to.ends[k, 0] : to.ends[k, 1]]
        block = x[to.ends[k, 2] : to.ends[k, 3]]
        added = to_block(to.kinds[k], to.limits[k, 0], to.limits[k, 1], part, block)
        jacobian += added if k == 0 or added == -np.inf else 0.0
    return jacobian


def test_a_forgotten_jacobian_of_the_second_block_is_noticed(monkeypatch):
    monkeypatch.setattr(metropolis, "all_to_block", first_only)
    found, _ = replicated(model(), joint(scale=0.5))
    assert stats.kstest(found["rate"], "uniform").pvalue > 1e-6  # the first block has its own
    not_uniform({name: found[name] for name in ("share[0]", "p")})


COVARIANCE = 0.3 * np.eye(5) + 0.1
MEAN = np.array([0.1, 0.8, 0.5, 0.1, 1.5])  # log rate, two log ratios, logit p, theta


@pytest.mark.parametrize(
    "proposal",
    [
        sm.pcn(MEAN, COVARIANCE, 0.5),
        pytest.param(sm.independence(MEAN, COVARIANCE), marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_gaussian_proposals(proposal):
    keeps_the_law(joint(proposal=proposal))


def test_slice():
    found, told = replicated(model(), joint(sm.Slice), count=20_000, times=2)
    uniform(found)
    assert told["accepted"] > 0.99 * 5 * told["steps"]  # every free coordinate moves


def of_datum(state, data, n, out):
    mean, y = state.exposure[0] * state.rate[0] * state.share[n], data.y[n]
    out.rate[0] = (y - mean) / state.rate[0]
    out.share[n] = (y - mean) / state.share[n]


def wrong_of_datum(state, data, n, out):
    of_datum(state, data, n, out)
    out.share[n] += 0.5


@pytest.mark.slow
@pytest.mark.parametrize("gradient", ["minibatch", pytest.param(of_datum, marks=pytest.mark.slow)])
def test_langevin(gradient):
    keeps_the_law(joint(sm.Langevin, 0.2, gradient=gradient, batch=2))


def test_a_wrong_gradient_is_told_by_block():
    kernel = joint(sm.Langevin, 0.2, gradient=wrong_of_datum, batch=2)
    with pytest.raises(ValueError, match=r"respect to free coordinate 0 of share at the initial"):
        kernel.check(model())


@pytest.mark.slow_for("own gradient")
@pytest.mark.plain
@pytest.mark.parametrize("kind", ["walk", "slice", "differences", "own gradient"])
def test_what_stands_between_is_what_it_is_now(kind):
    """Not what it was when the chain was made: a gradient of that would only mix worse."""
    kernel = {
        "walk": joint(scale=0.5), "slice": joint(sm.Slice),
        "differences": joint(sm.Langevin, 0.2, batch=2),
        "own gradient": joint(sm.Langevin, 0.2, gradient=of_datum, batch=2),
    }[kind]  # fmt: skip
    found = []
    for first in (2.0, 50.0):
        one = walker(model(exposure=(first, -first)), fresh >> kernel)
        found.append(one.advance(20).floats)
        assert one.error is None
    assert np.array_equal(*found)


def stand_in(state):
    return -1.5 * (state.rate[0] - 1.0) ** 2 + 0.3 * log(state.share[0])


@pytest.mark.slow
def test_delayed_acceptance():
    keeps_the_law(sm.delayed(joint(scale=0.5), stand_in))


# -------------------------------------------------------------------- proposals of a user's own
def stretch(rng, current, out):
    """A factor for the rate, a step for theta: the proposal reads and writes blocks by name."""
    out.rate[0] = current.rate[0] * exp(rng.random() - 0.5)
    out.theta[0] = current.theta[0] + rng.random() - 0.5 + 0.2 * (out.rate[0] - current.rate[0])


def stretch_density(to, given):
    away = to.theta[0] - given.theta[0] - 0.2 * (to.rate[0] - given.rate[0])
    near = abs(log(to.rate[0] / given.rate[0])) <= 0.5 and abs(away) <= 0.5
    return -log(to.rate[0]) if near else -np.inf


def test_an_own_proposal_reads_and_writes_blocks_by_name():
    kernel = joint(proposal=(stretch, stretch_density), names=("theta", "rate"))
    keeps_the_law(kernel)


@pytest.mark.slow
def test_an_own_proposal_without_its_density_is_noticed(monkeypatch):
    monkeypatch.setattr(metropolis, "check_density", lambda *given: None)  # which refuses it
    found, _ = replicated(model(), joint(proposal=stretch, names=("theta", "rate")))
    not_uniform(found)


def writes_into_the_current(rng, current, out):
    current.rate[0] = 1.0


def outside(rng, current, out):
    out.rate[0] = -1.0


@pytest.mark.plain
def test_an_own_proposal_cannot_change_the_current_values():
    def met():
        names = ("theta", "rate")
        one = walker(model(), fresh >> joint(proposal=writes_into_the_current, names=names))
        one.advance(1)
        raise one.error

    with pytest.raises((sm.CompileError, ValueError), match=r"may only read|read-only"):
        met()


@pytest.mark.plain
def test_an_own_proposal_off_one_block_s_set_is_refused():
    one = walker(model(), fresh >> joint(proposal=outside, names=("theta", "rate")))
    told = tally(one, one.advance(20).words, "theta+rate")
    assert one.error is None
    assert told["accepted"] == 0 and told["alone"] == 20


# ---------------------------------------------------------------- several blocks as one block
def of_one(state, data, n):
    z = data.y[n] - state.b[0] - state.b[1]
    return -0.5 * z * z / state.b[2]


def of_three(state, data, n):
    z = data.y[n] - state.b0[0] - state.b1[0]
    return -0.5 * z * z / state.b2[0]


def of_one_prior(state):
    return -0.5 * state.b[0] ** 2 - state.b[1] - 3.0 * state.b[2]


def of_three_prior(state):
    return -0.5 * state.b0[0] ** 2 - state.b1[0] - 3.0 * state.b2[0]


def one_and_three(size):
    """A model of one positive block of three numbers, and the same of three blocks of one."""
    data, start = {"y": np.linspace(0.0, 3.0, size)}, [0.5, 0.7, 1.5]
    one = sm.Model(of_one, data, {"b": start}, of_one_prior, constraints={"b": sm.positive})
    state = dict(zip(("b0", "b1", "b2"), start, strict=True))
    of_each = dict.fromkeys(state, sm.positive)
    return one, sm.Model(of_three, data, state, of_three_prior, constraints=of_each)


KINDS = {
    "walk": lambda name: sm.Metropolis(name, selector=sm.Exact()),
    "pcn": lambda name: sm.Metropolis(
        name, proposal=sm.pcn(np.zeros(3), np.eye(3) + 0.2), selector=sm.Exact()
    ),
    "slice": lambda name: sm.Slice(name, selector=sm.Exact()),
    "langevin": lambda name: sm.Langevin(name, batch=3, selector=sm.Exact()),
}


@pytest.mark.slow_for("langevin")
@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_that_move_as_one_are_one_block_bit_for_bit(kind):
    """Proposals, decisions and what is learnt in warm-up."""
    size, draws = (4, 15) if DISABLED else (50, 400)
    one, three = one_and_three(size)
    found = []
    for target, names in ((one, "b"), (three, ("b0", "b1", "b2"))):
        run = walker(target, KINDS[kind](names))
        run.advance(draws, warm=True)
        made = run.advance(draws)
        assert run.error is None
        found.append(made.floats)
    assert np.array_equal(*found)
    assert len(np.unique(found[0][:, 0])) > 3


def test_a_tuple_of_one_is_the_block():
    one, _ = one_and_three(4)
    for kind, make in KINDS.items():
        assert make(("b",)).block == make(["b"]).block == "b", kind
        assert of_run(one, make(("b",))) == of_run(one, make("b"))


# ------------------------------------------------------------------- a block of varying length
def nothing(state, data, n):
    return 0.0 * data.y[n]


def varying_prior(state):
    value = -2.0 * state.rate[0]
    for j in range(1 + state.q[0]):
        value -= 0.5 * (state.theta[j] / state.rate[0]) ** 2 + log(state.rate[0])
    return value


@sm.kernel(writes=("q", "theta", "rate"))
def any_length(rng, state, data):
    state.q[0] = int(2.0 * rng.random())
    state.rate[0] = -0.5 * log(1.0 - rng.random())
    state.theta[1] = 0.25
    for j in range(1 + state.q[0]):
        noise = sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())
        state.theta[j] = state.rate[0] * noise


def varying():
    return sm.Model(
        nothing, {"y": np.zeros(2)}, {"theta": [0.1, 0.25], "q": 1, "rate": 0.5}, varying_prior,
        support={"q": 2}, constraints={"rate": sm.positive}, lengths={"theta": ("q", (1, 2))},
    )  # fmt: skip


def given(q):
    """A stand-in for a fit of rate and theta: what proposals ask of one."""

    class Guess:
        def gaussian(self, names):
            assert names == ("rate", "theta")
            return np.full(2 + q, -0.3), 0.6 * np.eye(2 + q) + 0.1

    return Guess()


def of_two(state):
    return state.q[0] == 1


@pytest.mark.slow_for("walk")
@pytest.mark.parametrize("kind", ["walk", "independence", "langevin", "composed"])
def test_the_last_block_may_vary_in_length(kind):
    if kind == "composed":
        walk = joint(scale=0.6, names=("rate", "theta"))
        slices = sm.when(of_two, joint(sm.Slice, names=("rate", "theta")))
        kernel = sm.mixture((walk, 0.7), (sm.repeat(slices >> walk, 2), 0.3))
    elif kind == "langevin":
        kernel = joint(sm.Langevin, 0.2, batch=1, names=("rate", "theta"))
    elif kind == "walk":
        kernel = joint(scale=0.6, names=("rate", "theta"))
    else:
        proposal = sm.independence([given(0), given(1)])
        kernel = joint(proposal=proposal, names=("rate", "theta"))
    one = walker(varying(), any_length >> sm.repeat(kernel, 5))
    made = one.advance(COUNT)
    assert one.error is None
    draws = one.program.layout.draws(made.ints, made.floats)
    rate, theta, q = draws["rate"], draws["theta"], draws["q"]
    assert np.all(theta[q == 0, 1] == 0.25)
    found = {
        "rate": stats.expon.cdf(rate, scale=0.5),
        "theta[0]": stats.norm.cdf(theta[:, 0] / rate),
        "theta[1]": stats.norm.cdf(theta[q == 1, 1] / rate[q == 1]),
    }
    uniform(found)
    told = tally(one, made.words, "rate+theta")
    assert 0.05 < told["accepted"] / told["steps"] < 0.99


# -------------------------------------------------------------------------------- what is said
@pytest.mark.plain
def test_what_is_said():
    kernel = sm.Metropolis(NAMES, selector=sm.Exact()) >> sm.Slice("theta", selector=sm.Exact())
    assert kernel.text() == "Metropolis(('rate', 'share', 'p', 'theta')) >> Slice('theta')"
    told = kernel.describe(model())
    assert "rate+share+p+theta: Metropolis moves rate, share, p, theta as one" in told
    assert "5 free coordinates (log rate, log ratios of share[2], logit p, theta)" in told
    assert "nothing moves 'exposure'" in told
    assert "theta: Slice moves theta; Exact()" in told


def test_labels_in_traces_and_reports():
    _, three = one_and_three(50)
    kernel = sm.Metropolis(("b0", "b2"), selector=sm.Exact()) >> sm.Slice("b1", selector=sm.Exact())
    trace = sm.sample(three, kernel, draws=200, warmup=100, chains=2, seed=1, progress=False)
    assert set(trace.stats) == {"b0+b2", "b1"}
    assert trace.stats["b0+b2"]["accepted"].shape == (2, 200)
    assert "b0+b2" in str(trace.report())
    assert len(np.unique(trace.draws["b2"])) > 20


@pytest.mark.plain
def test_wrong_tuples_are_refused():
    for make in (sm.Metropolis, sm.Slice, sm.Langevin):
        for names in ((), 3, ("rate", 3), {"rate": 1}):
            with pytest.raises(TypeError, match=r"give the name of a block, .*or a tuple of"):
                make(names)
        with pytest.raises(ValueError, match="name block 'p' once"):
            make(("p", "rate", "p"))
    with pytest.raises(TypeError, match="give the name of a block"):
        sm.Langevin((), step=0.1, correct=False)
    with pytest.raises(TypeError, match=r"give the name of one block, .* >> sm\.Gibbs\(.b.\)"):
        sm.Gibbs(("a", "b"))


@pytest.mark.plain
def test_wrong_blocks_are_refused():
    with pytest.raises(ValueError, match=r"moves 'rte', which is no block .* Did you mean 'rate'"):
        sm.Metropolis(("theta", "rte")).describe(model())
    with pytest.raises(ValueError, match=r"block 'q' is discrete, .*sm.Gibbs\('q'\)"):
        sm.Metropolis(("rate", "q")).check(varying())
    with pytest.raises(ValueError, match=r"'theta' varies in length.*\('rate', 'theta'\)"):
        sm.Metropolis(("theta", "rate")).check(varying())
    state, both = {"a": [0.1, 0.2], "b": [0.3, 0.4], "q": 0}, ("q", (1, 2))
    two = sm.Model(
        nothing, {"y": np.zeros(2)}, state, support={"q": 2}, lengths={"a": both, "b": both}
    )
    with pytest.raises(ValueError, match="only the last of several may: move it by a kernel"):
        sm.Metropolis(("a", "b")).check(two)
    with pytest.raises(ValueError, match="no kernel moves block 'exposure'"):
        sm.sample(model(), sm.Metropolis(NAMES), draws=1)


@pytest.mark.plain
def test_numbers_of_the_wrong_length_are_told_by_block():
    told = r"blocks 'rate' \(1\), 'share' \(2\), 'p' \(1\) and 'theta' \(1\) have 5 free"
    for kernel in (
        sm.Metropolis(NAMES, scale=[0.1, 0.2]), sm.Slice(NAMES, width=[1.0] * 4),
        sm.Metropolis(NAMES, proposal=sm.pcn(np.zeros(4), np.eye(4))),
        sm.Langevin(NAMES, precondition=np.eye(3), batch=1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=told):
            kernel.check(model())


@pytest.mark.plain
def test_a_second_name_where_numbers_belong():
    for make in (sm.Metropolis, sm.Slice):
        with pytest.raises(TypeError, match=rf"='p': .* sm.{make.__name__}\(\('rate', 'p'\)\)"):
            make("rate", "p")


def by_place(rng, current, out):
    out[0] = current[0]


def by_another_name(rng, current, out):
    out.beta[0] = current.rate[0]


def too_far(rng, current, out):
    out.share[3] = current.rate[0]


@pytest.mark.plain
def test_own_proposals_that_do_not_know_the_blocks_are_told_how():
    names = ("rate", "share")
    for draw, told in ((by_place, r"written by name"), (by_another_name, "there is no 'beta'")):
        with pytest.raises(TypeError, match=rf"{told}.* rate, share.*out.rate\[0\] = current"):
            sm.Metropolis(names, proposal=draw).check(model())
    kernel = sm.Metropolis(names, proposal=too_far) >> sm.Metropolis(("p", "theta", "exposure"))
    with pytest.raises(IndexError, match=r'beyond block "share": `out.share\[3\]`'):
        sm.sample(model(), kernel, draws=1, progress=False)


@pytest.mark.plain
def test_blocks_far_apart_are_warned_of():
    state = {"mu": 0.0, "groups": np.zeros(5_000), "tau": 1.0}
    far = sm.Model(nothing, {"y": np.zeros(2)}, state, constraints={"tau": sm.positive})
    with pytest.warns(UserWarning, match="5,000 numbers of other blocks stand between"):
        sm.Metropolis(("tau", "mu")).check(far)


def broken(state, data, n):
    return np.nan if state.rate[0] > 1.2 else likelihood(state, data, n)


def test_a_reward_that_is_no_number_tells_the_blocks_that_moved():
    given = model(log_likelihood=broken)
    one = walker(given, joint(scale=1.0) >> sm.Metropolis("exposure", 1e-9, selector=sm.Exact()))
    one.advance(500)
    assert isinstance(one.error, sm.RewardError)
    assert "for a proposal for rate, share, p, theta (share=[" in str(one.error)
    assert "exposure" not in str(one.error).partition(";")[0]
