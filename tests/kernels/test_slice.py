"""Slice: it leaves the posterior fixed, whatever the limits; frozen rows; refusals."""

import inspect
from math import cos, exp, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import slice as module
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.numerics.rows import WEYL
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM, not_uniform, uniform
from tests.helpers.models import (
    BERNOULLI,
    CATEGORICAL,
    EXPONENTIAL,
    NO_JACOBIAN,
    NORMAL,
    law_model,
    replicated,
    tally,
    walker,
)

COUNT = 20 if DISABLED else 10_000


def exact(width=1.0, **more):
    return sm.Slice("theta", width, sm.Exact(), adapt=False, **more)


# ---------------------------------------------- stationarity: the prior, data, k steps, the prior
CASES = {
    "real": (NORMAL, None),
    "positive": (EXPONENTIAL, sm.positive),
    "softplus": (EXPONENTIAL, sm.positive("softplus")),
    "cuberoot": (EXPONENTIAL, sm.positive("cuberoot")),
    "interval": (BERNOULLI, sm.interval(0.0, 1.0)),
    "simplex": (CATEGORICAL, sm.simplex),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("width", "most"), [(0.4, 2), (2.0, 50)])
def test_keeps_the_law(name, width, most, rng):
    """theta from the prior, data given theta, three steps: theta is a draw of its posterior."""
    model, kernel = law_model(*CASES[name]), exact(width, most=most)
    found, one, made = replicated(model, kernel, COUNT, rng, times=3)
    uniform(found)
    told = tally(one, made.words, "theta")
    assert (told["capped"] == 0) == (most == 50) or DISABLED


@pytest.mark.skipif(DISABLED, reason="thousands of slices")
def test_the_jacobian_is_part_of_the_target(rng):
    """The same kernel on the density that forgets it: the test above can fail."""
    found, _, _ = replicated(law_model(NO_JACOBIAN, sm.positive), exact(), COUNT, rng, times=3)
    not_uniform(found)


def test_keeps_the_law_with_raced_tests(rng):
    """Betting at delta 1e-6: many tests end early, and the law is kept as well as with Exact."""
    model = law_model(BERNOULLI, sm.interval(0.1, 0.9), 20 if DISABLED else 2000, 0.1, 0.9)
    racing = sm.Racing(sm.Betting(spread=log(9.0)), delta=1e-6, retreat=False)
    kernel = sm.Slice("theta", 2.0, racing, adapt=False)
    found, one, made = replicated(model, kernel, min(COUNT, 2000), rng, times=2)
    uniform(found)
    assert DISABLED or tally(one, made.words, "theta")["early"] > COUNT / 10


# ------------------------------------------------------------------------ three free coordinates
def face(state, data, n):
    return sm.log(state.theta[int(state.y[n])])


@sm.kernel(writes=("before", "theta", "y"))
def roll(rng, state, data):
    """Uniform probabilities of a die's faces, and throws of it."""
    theta, total = state.theta, 0.0
    for j in range(len(theta)):
        theta[j] = -log(1.0 - rng.random())
        total += theta[j]
    for j in range(len(theta)):
        theta[j] /= total
        state.before[j] = theta[j]
    for n in range(len(state.y)):
        u, at = rng.random() - theta[0], 0
        while u > 0.0 and at < len(theta) - 1:
            at += 1
            u -= theta[at]
        state.y[n] = at


def thrown(faces, kernel, size=8):
    """Probabilities before and after a kernel, and their laws given the throws."""
    equal_parts = np.full(faces, 1.0 / faces)
    state = {"before": equal_parts, "theta": equal_parts, "y": np.zeros(size)}
    model = sm.Model(face, {"n": np.arange(size)}, state, constraints={"theta": sm.simplex})
    one = walker(model, roll >> kernel)
    made = one.advance(COUNT)
    assert one.error is None, one.error
    draws = one.program.layout.draws(made.ints, made.floats)
    seen = np.stack([(draws["y"] == j).sum(axis=1) for j in range(faces)], axis=1)
    law = stats.beta(1 + seen, faces - 1 + size - seen)
    return law.cdf(draws["before"]), law.cdf(draws["theta"]), tally(one, made.words, "theta")


@pytest.mark.slow_for("0.5-1")
@pytest.mark.parametrize(("width", "most"), [(0.5, 1), (3.0, 4), (30.0, 3)])
def test_three_free_coordinates(width, most):
    """A simplex of four, with limits that bind."""
    before, after, told = thrown(4, exact(width, most=most))
    uniform({f"before {j}": before[:, j] for j in range(4)})
    uniform({f"after {j}": after[:, j] for j in range(4)})
    assert told["accepted"] + told["capped"] == 3 * told["steps"] == 3 * COUNT
    assert told["capped"] > 0


# ---------------------------------------------------------------- two hills: slices with a gap
SHARES, MEANS, WIDTHS = (0.8, 0.2), (-1.5, 1.5), (0.4, 0.8)


def nothing(state, data, n):
    return 0.0


def hills_prior(state):
    x, total = state.theta[0], 0.0
    for k in range(2):
        r = (x - MEANS[k]) / WIDTHS[k]
        total += SHARES[k] / WIDTHS[k] * exp(-0.5 * r * r)
    return log(total)


@sm.kernel(writes=("before", "theta"))
def climb(rng, state, data):
    """An exact draw."""
    k = 0 if rng.random() < SHARES[0] else 1
    noise = sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())
    state.theta[0] = state.before[0] = MEANS[k] + WIDTHS[k] * noise


def on_hills(kernel):
    """Where theta lies before and after a kernel: uniform, both."""
    state = {"before": MEANS[0], "theta": MEANS[0]}
    one = walker(sm.Model(nothing, {"n": np.arange(2)}, state, hills_prior), climb >> kernel)
    made = one.advance(COUNT)
    assert one.error is None, one.error
    parts = zip(SHARES, MEANS, WIDTHS, strict=True)
    u = sum(p * stats.norm.cdf((made.floats - mean) / width) for p, mean, width in parts)
    return u[:, 0], u[:, 1], tally(one, made.words, "theta")


@pytest.mark.parametrize(("width", "most"), [(0.5, 1), (0.5, 9), (3.0, 2), (6.0, 50)])
def test_reversible_where_slices_have_gaps(width, most):
    """From bin a to bin b as often as back; and no slice is given up unless the limit binds."""
    before, after, told = on_hills(exact(width, most=most))
    uniform({"before": before, "after": after})
    assert (told["capped"] == 0) == (most > 2) or DISABLED
    a, b = (np.minimum((6 * u).astype(int), 5) for u in (before, after))
    flow = np.zeros((6, 6), dtype=int)
    np.add.at(flow, (a, b), 1)
    for i in range(6):
        for j in range(i):
            equal(flow[i, j], flow[i, j] + flow[j, i], 0.5, ALARM / 15)


# --------------------------------------------------------------------------------------- mutants
def mutant(old, new, width, most, **more):
    """The kernel after a change to the text of its module."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"slice.py no longer has one {old!r}"
    scope = {"__name__": module.__name__}
    exec(compile(source.replace(old, new), "<mutant of slice.py>", "exec"), scope)
    scope["SliceTools"] = module.SliceTools  # numba tells NamedTuples apart by their class
    return scope["Slice"]("theta", width, sm.Exact(), most=most, adapt=False, **more)


MUTANTS = {
    "all expansions to the left": (
        "left = min(int(rng.random() * (tools.most + 1)), tools.most)",
        "left = tools.most",
        0.4,
        2,
    ),
    "bracket starts at the point": ("low = here - width * rng.random()", "low = here", 0.4, 2),
    "a level for every test": (
        "offsets[0], offsets[1] = level, -np.inf",
        "offsets[0], offsets[1] = level + log(1.0 - chain.rng.random()), -np.inf",
        0.4,
        2,
    ),
    "no Jacobian": (
        "prior_at(trial, tools.prior, own, own + 1) + there",
        "prior_at(trial, tools.prior, own, own + 1)",
        2.0,
        50,
    ),
    "the old height for the next coordinate": (
        "height = tools.height[0]\n",
        "pass\n",
        2.0,
        50,
    ),
}


@pytest.mark.skipif(DISABLED, reason="thousands of slices")
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, rng):
    kernel = mutant(*MUTANTS[name])
    found, _, _ = replicated(law_model(CATEGORICAL, sm.simplex), kernel, COUNT, rng, times=3)
    not_uniform(found)


@pytest.mark.skipif(DISABLED, reason="thousands of slices")
@pytest.mark.parametrize("side", ["at > here", "True", "at < 0.5 * (low + high)"])
def test_shrinking_on_the_wrong_side_is_caught(side):
    """By the count of slices given up: what is left of the bracket is mostly not of the slice.

    Not by the law: the moves that remain are so nearly symmetric that 6e4 draws cannot tell.
    """
    _, _, told = on_hills(mutant("if at < here:", f"if {side}:", 6.0, 50))
    assert told["capped"] > COUNT / 10


# ------------------------------------------------------------------------------- limits and edges
def edge(state, data, n):
    if state.theta[0] > 1e4:
        return np.nan
    r = data.y[n] - state.theta[0]
    return -0.5 * r * r


def edge_prior(state):
    if state.theta[0] > 1e6:
        return np.nan
    return -np.inf if state.theta[0] < 0.2 else 0.0


def edges(size=200):
    y = np.random.default_rng(0).normal(0.3, 1.0, size)
    return sm.Model(edge, {"y": y}, {"theta": 0.4, "other": 0.0}, edge_prior)


def on_edges(kernel, draws, audit=0.0, warm=0):
    one = walker(
        edges(), kernel >> sm.Slice("other", 1.0, sm.Exact(), most=1, adapt=False), 1, audit
    )
    one.advance(warm, warm=True)
    return one, one.advance(draws if not DISABLED else min(draws, 5))


@pytest.mark.plain
def test_where_the_prior_is_zero_no_data_are_read():
    one, made = on_edges(exact(0.8), 2000)
    told = tally(one, made.words, "theta")
    assert made.floats[:, 0].min() >= 0.2
    assert told["alone"] > 0
    assert told["everything"] == 400 * (told["decisions"] - told["alone"])
    # x is remembered by all tests of a slice but the first: before it, the other block moved.
    assert 0.5 * told["everything"] < told["pulls"] < 0.75 * told["everything"]


@pytest.mark.plain
def test_a_capped_slice_keeps_the_point_and_is_counted():
    one, made = on_edges(exact(3.0, most=1), 500)
    told = one.program.layout.stats(made.words)["theta"]
    stayed = np.diff(made.floats[:, 0], prepend=0.4) == 0.0
    assert np.array_equal(stayed, told["capped"] == 1)
    assert np.array_equal(told["capped"] + told["accepted"], told["steps"])
    assert DISABLED or stayed.sum() > 0


@pytest.mark.plain
@pytest.mark.parametrize(("width", "words"), [
    (1e5, "log_likelihood is nan .*for a proposal for theta"), (1e8, "log prior is nan")
])  # fmt: skip
def test_errors_name_what_is_wrong_and_leave_the_state(width, words):
    one, made = on_edges(exact(width), 500)
    with pytest.raises(sm.RewardError, match=words):
        raise one.error
    assert len(made.floats) < 500
    assert 0.2 <= one.floats[0] <= 1.0


# ----------------------------------------------------------- adaptation, audits, and checkpoints
RACING = sm.Racing(sm.Normal(), delta=0.01, batch=16, retreat=False)


def test_the_width_adapts_in_warm_up_alone():
    widths, stuck = [], 1e-3
    for width in (stuck, 1.0, 1e3):
        one, made = on_edges(sm.Slice("theta", width, sm.Exact()), 300, warm=300)
        told = one.program.layout.stats(made.words)["theta"]
        widths.append(told["scale"][-1])
        assert np.all(told["scale"] == widths[-1])
        assert DISABLED or told["decisions"].mean() < 8.0
    assert DISABLED or max(widths) < 1.5 * min(widths)
    one, made = on_edges(sm.Slice("theta", stuck, sm.Exact(), adapt=False), 9, warm=50)
    assert np.all(one.program.layout.stats(made.words)["theta"]["scale"] == stuck)


@pytest.mark.plain
@pytest.mark.parametrize("frozen", [False, True])
def test_audits_change_no_draw(frozen):
    kernel = sm.Slice("theta", 0.3, RACING, frozen=frozen)
    _, without = on_edges(kernel, 300)
    one, audited = on_edges(kernel, 300, audit=1.0)
    assert np.array_equal(without.floats, audited.floats)
    told = tally(one, audited.words, "theta")
    assert told["audited"] == told["decisions"] > told["wrong"]
    assert told["accepted"] + told["capped"] == told["steps"] < told["decisions"]


@pytest.mark.plain
@pytest.mark.parametrize("frozen", [False, True])
def test_goes_on_from_a_checkpoint(frozen):
    kernel = sm.Slice("theta", 0.05, RACING, frozen=frozen)
    one, _ = on_edges(kernel, 3, warm=4)
    saved = one.checkpoint()
    assert saved["kernel 0.widths"][0] != 0.05
    for warm in (True, False):
        other, _ = on_edges(kernel, 1)
        one.restore(saved)
        other.restore(saved)
        one.advance(5, warm=warm)
        other.advance(2, warm=warm)
        other.advance(3, warm=warm)
        left, right = one.checkpoint(), other.checkpoint()
        assert all(np.array_equal(left[k], right[k]) for k in left if k != "counters")
        assert np.array_equal(one.advance(9).floats, other.advance(9).floats)


# ----------------------------------------------------------------------------------- frozen rows
@pytest.mark.plain
def test_frozen_rows_make_no_difference_to_exact_tests():
    _, fresh = on_edges(exact(0.3), 300)
    _, frozen = on_edges(exact(0.3, frozen=True), 300)
    assert np.array_equal(fresh.floats, frozen.floats)


@pytest.mark.plain
def test_frozen_tests_read_the_same_rows():
    """A slice moves the stream of rows as far as one test does, not as far as all of them."""
    moved = {}
    # With such a range no test ends early, so all read as much, up to rows drawn twice.
    racing = sm.Racing(sm.BernsteinSerfling(spread=1e9), batch=100, retreat=False)
    for frozen in (False, True):
        kernel = sm.Slice("theta", 0.3, racing, frozen=frozen, adapt=False)
        one, _ = on_edges(kernel, 0)
        start = int(one.chain.rows[0])
        told = tally(one, one.advance(20 if DISABLED else 300).words, "theta")
        steps = (int(one.chain.rows[0]) - start) * pow(int(WEYL), -1, 1 << 64) % (1 << 64)
        moved[frozen] = steps / (told["steps"] if frozen else told["decisions"] - told["alone"])
        assert told["early"] == 0
    assert moved[False] > 200
    assert 0.9 < moved[True] / moved[False] < 1.1


def test_frozen_rows_change_raced_draws():
    _, fresh = on_edges(sm.Slice("theta", 0.3, RACING, adapt=False), 300)
    _, frozen = on_edges(sm.Slice("theta", 0.3, RACING, adapt=False, frozen=True), 300)
    assert DISABLED or not np.array_equal(fresh.floats, frozen.floats)


# ------------------------------------------------------------------------- rows that are not met
CHANCES = np.array([0.02, 0.1, 0.5, 0.97])


def share_of_item(state, data, n):
    p = state.p[data.item[n]]
    return sm.log(p) if data.y[n] > 0.5 else sm.log1p(-p)


def share_of_one(state, data, n):
    return data.y[n] * state.theta[0] - sm.softplus(state.theta[0])


def shares_apart(kernel, rows=1_500) -> tuple[np.ndarray, np.ndarray, str]:
    """(z of means, z of standard deviations, what the report says) of four shares of their own."""
    rng = np.random.default_rng(0)
    item = rng.permutation(np.repeat(np.arange(4), rows))
    y = (rng.random(len(item)) < CHANCES[item]).astype(float)
    model = sm.Model(
        share_of_item, {"y": y, "item": item}, {"p": np.full(4, 0.5)},
        constraints={"p": sm.interval(0.0, 1.0)},
    )  # fmt: skip
    trace = sm.sample(model, kernel, 400, 100, chains=2, seed=1, audit=0.1, progress=False)
    law = stats.beta(np.bincount(item, y) + 1.0, np.bincount(item, 1.0 - y) + 1.0)
    x, ess = trace.draws["p"].reshape(-1, 4), trace.summary()["ess_bulk"].to_numpy()
    ratio = x.std(axis=0) / law.std()
    means = (x.mean(axis=0) - law.mean()) / law.std() * np.sqrt(ess)
    return means, (ratio - 1.0) * np.sqrt(2.0 * ess), trace.report().verdict.converged


@pytest.mark.skipif(DISABLED, reason="millions of evaluations")
def test_points_far_off_differ_by_rows_that_no_race_meets():
    """A share near 0: where it is 0 the few events say all. Standard deviations were 5 times off.

    By default all data are read; a race that somebody asks for errs still, and audits say so.
    """
    limit = stats.norm.isf(ALARM / 16.0)
    means, sds, told = shares_apart(sm.Slice("p"))
    assert np.abs(means).max() < limit and np.abs(sds).max() < limit
    assert told.startswith("yes: ")
    _, sds, told = shares_apart(sm.Slice("p", selector=sm.Racing()))
    assert sds.max() > 10.0 * limit
    assert not told.startswith("yes:") and "to a law that is not the posterior's" in told


def test_what_decides_where_nothing_is_said():
    model = sm.Model(share_of_one, {"y": np.arange(2_000) % 3 / 2.0}, {"theta": 0.0})
    control = sm.Taylor(sm.laplace(model, progress=False))
    for kernel, promised in (
        (sm.Slice("theta"), "exact"), (sm.Slice("theta", along=np.eye(1)), "exact"),
        (sm.Slice("theta", frozen=True), "asymptotic"),
        (sm.Slice("theta", selector=sm.Racing()), "asymptotic"),
    ):  # fmt: skip
        assert kernel.settled(model).guarantee == promised
    with_one = sm.Slice("theta", control=control).settled(model)
    assert type(with_one.selector) is type(
        sm.Metropolis("theta", control=control).settled(model).selector
    )


# ------------------------------------------------------------------------------ words and refusals
def test_what_is_promised():
    betting = sm.Racing(sm.Betting(spread=1.0))
    promised = [
        (sm.Slice("theta"), "asymptotic"), (exact(), "exact"), (exact(frozen=True), "exact"),
        (sm.Slice("theta", selector=betting), "bounded"),
        (sm.Slice("theta", selector=betting, frozen=True), "asymptotic"),
    ]  # fmt: skip
    for kernel, guarantee in promised:
        assert kernel.guarantee == guarantee
    kernel = sm.Slice("theta", selector=betting, frozen=True) >> sm.Slice("other", frozen=True)
    told = kernel.describe(edges())
    assert "guarantee: asymptotic (frozen rows: the tests of one slice err together)" in told
    assert "guarantee: exact (no datum depends on it: decided by the prior alone)" in told
    assert "theta: Slice moves theta; Exact(); guarantee: exact" in exact().describe(edges())


@pytest.mark.parametrize(("wrong", "words"), [
    ({"width": 0.0}, "width=0.0: give a positive number"),
    ({"width": -1.0}, "give a positive number"),
    ({"width": np.inf}, "give a positive number"),
    ({"width": [1.0, np.nan]}, "give a positive number"),
    ({"width": []}, "give a positive number"),
    ({"width": np.ones((2, 2))}, "give a positive number"),
    ({"most": 0}, "most=0: give how often"),
    ({"most": 2.5}, "most=2.5: give how often"),
    ({"selector": "exact"}, r"selector='exact': give a selector"),
])  # fmt: skip
def test_wrong_numbers_are_refused(wrong, words):
    with pytest.raises((ValueError, TypeError), match=words):
        sm.Slice("theta", **wrong)


def test_wrong_blocks_are_refused():
    model = law_model(CATEGORICAL, sm.simplex)
    with pytest.raises(ValueError, match=r"Slice\('z'\): the block is discrete; use sm\.Gibbs"):
        walker(model, sm.Slice("z"))
    with pytest.raises(ValueError, match=r"width has shape \(3,\): block 'theta' has 2 free"):
        walker(model, sm.Slice("theta", [1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="moves 'nothing', which is no block"):
        walker(model, sm.Slice("nothing"))


@pytest.mark.plain
def test_one_width_per_coordinate():
    one = walker(edges(), exact([0.3]) >> sm.Slice("other", selector=None, most=3))
    assert one.run.kept["0.widths"].tolist() == [0.3]
    assert one.run.kept["1.widths"].tolist() == [1.0]
