"""Composition: what each combinator means, draw for draw; own kernels; seeds; what is refused."""

import numpy as np
import pytest
import scipy.stats

import subsample_mcmc as sm
from subsample_mcmc.kernels.base import labelled
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.chain import Program
from tests.helpers import runs
from tests.helpers.claims import equal
from tests.helpers.models import (
    NORMAL,
    idle,
    law_model,
    smooth_table,
    still,
    table_model,
    tally,
    walker,
)

RACE = sm.Racing(delta=0.2, batch=8, retreat=False)
WALK = sm.Metropolis("theta", 0.8, selector=sm.Exact(), adapt=False)
Z = sm.Gibbs("z", sm.Exact())


def same(first, second):
    """Two chunks of draws hold the same states."""
    return np.array_equal(first.ints, second.ints) and np.array_equal(first.floats, second.floats)


# ------------------------------------------------------- kernels that write down that they ran
def nothing(state, data, n):
    return 0.0


def diary(length=64) -> sm.Model:
    """Who ran is written into `log`, as many entries as `at` says; `mark` is a switch."""
    return sm.Model(
        nothing, {"y": np.zeros(1)}, {"log": np.zeros(length, dtype=int), "at": 0, "mark": 0},
        support={"log": 10, "at": length + 1, "mark": 2},
    )  # fmt: skip


def scribe(number):
    @sm.kernel(writes=("log", "at"))
    def write(rng, state, data):
        state.log[state.at[0]] = number
        state.at[0] += 1

    return write


@sm.kernel(writes=("log", "at", "mark"))
def begin(rng, state, data):
    """A new page."""
    state.at[0] = 0
    for i in range(len(state.log)):
        state.log[i] = 0


@sm.kernel(writes="mark")
def switch(rng, state, data):
    state.mark[0] = 1 - state.mark[0]


def marked(state):
    return state.mark[0] == 1


A, B, C = scribe(1), scribe(2), scribe(3)


def pages(kernel, count=1, seed=1):
    """What was written at each step."""
    made = walker(diary(), begin >> kernel, seed).advance(count).ints
    return ["".join(str(v) for v in row[: row[64]]) for row in made]


@pytest.mark.slow_for("-12_0")
@pytest.mark.plain
@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        (A >> B, "12"),
        (sm.cycle(A, B, C) >> A, "1231"),
        (sm.cycle(sm.cycle(A, B), sm.cycle(C)), "123"),
        (sm.repeat(A, 3) >> B, "1112"),
        (sm.repeat(A >> sm.repeat(B >> C, 2), 2), "1232312323"),
        (A >> A >> A, "111"),  # one object, three places
        (sm.when(marked, A) >> B, "2"),
        (switch >> sm.when(marked, A >> B) >> switch >> sm.when(marked, C), "12"),
        (sm.repeat(switch >> sm.when(marked, A), 4), "11"),
        (sm.mixture((A, 5.0)) >> B, "12"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_runs_when(kernel, written):
    assert pages(kernel) == [written]


@pytest.mark.plain
def test_a_mixture_draws_its_part_by_weight():
    """One uniform a step: with kernels that draw nothing, the parts are known beforehand."""
    count, weights = 50 if DISABLED else 20_000, np.array([0.5, 0.2, 1.3])
    kernel = sm.mixture((A, 0.5), (B, 0.2), (C >> A, 1.3))
    main = np.random.SeedSequence(1).spawn(3)[0]
    u = np.random.Generator(np.random.PCG64(main)).random(count)
    part = np.searchsorted(np.cumsum(weights) / weights.sum(), u, side="right")
    found = pages(kernel, count)
    assert found == [("1", "2", "31")[p] for p in part]
    for p, text in enumerate(("1", "2", "31")):
        equal(found.count(text), count, weights[p] / weights.sum(), 1e-6 / 3)


def test_nested_mixtures_multiply():
    count = 20_000
    kernel = sm.mixture((sm.mixture((A, 0.5), (B, 0.5)), 0.4), (sm.repeat(C, 2), 0.6))
    found = pages(kernel, count)
    for text, p in (("1", 0.2), ("2", 0.2), ("33", 0.6)):
        equal(found.count(text), count, p, 1e-6 / 3)


# ----------------------------------------------------------- the same, with kernels that decide
@pytest.mark.slow
def test_repeat_is_the_kernel_several_times():
    model = law_model(NORMAL)
    twice = still >> sm.repeat(WALK >> Z, 2)
    in_turn = sm.cycle(still, WALK, Z, WALK, Z)
    first, second = walker(model, twice), walker(model, in_turn)
    a, b = first.advance(500), second.advance(500)
    assert same(a, b)
    once, again = tally(second, b.words, "theta"), tally(second, b.words, "theta_2")
    both = tally(first, a.words, "theta")
    assert both["accepted"] == once["accepted"] + again["accepted"]
    assert both["steps"] == 1000


def test_thinning_is_repetition():
    model, kernel = law_model(NORMAL), still >> WALK >> Z
    thinned = walker(model, kernel).advance(200, thin=3)
    whole = walker(model, kernel).advance(600)
    assert np.array_equal(thinned.ints, whole.ints[2::3])
    assert np.array_equal(thinned.floats, whole.floats[2::3])
    assert np.array_equal(thinned.words[:, 0], np.full(200, 3))
    assert np.array_equal(
        thinned.words[:, 6], whole.words[:, 6].reshape(200, 3).sum(axis=1)
    )  # counts are summed over the steps of a draw


def test_chunks_do_not_matter():
    model, kernel = law_model(NORMAL), still >> WALK >> Z
    whole, parts = walker(model, kernel), walker(model, kernel)
    made = whole.advance(300)
    pieces = [parts.advance(count) for count in (1, 99, 200)]
    for k, name in enumerate(("ints", "floats", "words")):
        assert np.array_equal(getattr(made, name), np.concatenate([p[k] for p in pieces]))


# -------------------------------------------------------------------------------------- labels
def test_labels_are_unique():
    model = sm.Model(nothing, {"y": np.zeros(1)}, {"mu": 0.0, "mu_2": 0.0})
    first, second = sm.Metropolis("mu"), sm.Metropolis("mu_2")
    kernel = first >> first >> second >> sm.repeat(first, 2)
    assert [label for label, _ in labelled(kernel)] == ["mu", "mu_2", "mu_2_2", "mu_3"]
    columns = Program(model, kernel).layout.columns
    assert len({(c.kernel, c.field) for c in columns}) == len(columns)


# --------------------------------------------------------------------------------------- errors
def far(state):
    return state.theta[0] < 0.5


def test_a_kernel_that_changes_its_predicate_is_stopped():
    one = walker(law_model(NORMAL), still >> Z >> sm.when(far, WALK))
    made = one.advance(1000)
    assert isinstance(one.error, RuntimeError)
    assert "the predicate of when() no longer holds" in str(one.error)
    assert "kernel theta:" in str(one.error)
    assert len(made.ints) == one.drawn < 1000
    assert one.floats[0] < 0.5  # the last whole draw
    assert np.array_equal(one.floats, made.floats[-1])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (sm.cycle, ValueError, "at least one kernel"),
        (lambda: sm.cycle(WALK, "theta"), TypeError, "'theta'"),
        (lambda: WALK >> 3, TypeError, "cycle.3.*Gibbs"),
        (sm.mixture, ValueError, "at least one pair"),
        (lambda: sm.mixture(WALK), TypeError, "pairs"),
        (lambda: sm.mixture((WALK, 0.5), ("z", 0.5)), TypeError, "'z'"),
        (lambda: sm.mixture((WALK, -1.0)), ValueError, "weight -1.0"),
        (lambda: sm.mixture((WALK, np.nan)), ValueError, "weight nan"),
        (lambda: sm.mixture((WALK, 0.0), (Z, 1.0)), ValueError, "weight 0.0"),
        (lambda: sm.repeat("z", 3), TypeError, "'z'"),
        (lambda: sm.repeat(Z, 0), ValueError, "times=0"),
        (lambda: sm.repeat(Z, 1.5), ValueError, "times=1.5"),
        (lambda: sm.when(3, Z), TypeError, "predicate=3"),
        (lambda: sm.when(far, 3), TypeError, r"when\(..., 3\)"),
        (lambda: sm.kernel(writes=()), TypeError, "name the blocks"),
        (lambda: sm.kernel(nothing), TypeError, "name the blocks"),
        (lambda: sm.kernel(writes="z")(3), TypeError, "kernel=3"),
        (lambda: sm.kernel(writes="z", guarantee="good"), ValueError, "guarantee='good'"),
        (lambda: Program("model", Z), TypeError, "model='model'"),
        (lambda: Program(law_model(NORMAL), "z"), TypeError, "kernel='z'"),
        (lambda: Program(law_model(NORMAL), still), ValueError, "no kernel moves block 'theta'"),
        (
            lambda: Program(law_model(NORMAL), still >> WALK >> sm.Gibbs("w")),
            ValueError,
            "kernel w moves 'w', which is no block",
        ),
    ],
)
def test_what_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_guarantees_are_the_weakest_part():
    raced = sm.Gibbs("z", RACE)
    assert (WALK >> Z).guarantee == "exact"
    assert (WALK >> raced).guarantee == "asymptotic"
    mine = sm.kernel(writes="z", guarantee="unadjusted")(nothing)
    assert sm.mixture((WALK, 1.0), (sm.repeat(mine >> raced, 2), 1.0)).guarantee == "unadjusted"
    text = sm.when(far, sm.repeat(Z, 2) >> WALK).describe(law_model(NORMAL))
    assert text.startswith("when(far, repeat(Gibbs('z'), 2) >> Metropolis('theta'))")


# ------------------------------------------------------------------------------- own kernels
@sm.kernel(writes="theta", stats=("moved", "where"))
def own(rng, state, data):
    state.theta[0] += rng.random() - 0.5
    return 1, state.theta[0]


@sm.kernel(writes="theta", stats=("moved", "where"))
def own_in_python(rng, state, data):
    state.theta[0] += rng.random() - 0.5
    return scipy.stats.norm.cdf(50.0), state.theta[0]  # scipy is not for the compiler


def test_a_kernel_that_does_not_compile_makes_the_same_draws_in_python():
    model = law_model(NORMAL)
    compiled, plain = (
        walker(model, still >> own >> WALK),
        walker(model, still >> own_in_python >> WALK),
    )
    assert compiled.program.compiled
    assert plain.program.compiled == DISABLED
    a, b = compiled.advance(300), plain.advance(300)
    np.testing.assert_allclose(a.floats, b.floats, rtol=1e-12)  # compilers may reorder sums
    ran, again = (c.program.layout.stats(w.words) for c, w in ((compiled, a), (plain, b)))
    assert np.array_equal(ran["theta"]["accepted"], again["theta"]["accepted"])
    np.testing.assert_allclose(ran["own"]["where"], again["own_in_python"]["where"], rtol=1e-12)
    assert "loop runs in Python" in (still >> own_in_python >> WALK).describe(model) or DISABLED
    told = compiled.program.layout.stats(a.words)["own"]
    assert np.array_equal(told["steps"], np.ones(300))
    assert np.array_equal(told["moved"], np.ones(300))
    # WALK moves on from there, or not.
    stayed = compiled.program.layout.stats(a.words)["theta"]["accepted"] == 0
    assert 0 < stayed.sum() < 300
    assert np.array_equal(told["where"][stayed], a.floats[stayed, 0])
    assert not np.any(told["where"][~stayed] == a.floats[~stayed, 0])


@sm.kernel(writes="theta", stats="where")
def one_number(rng, state, data):
    state.theta[0] = rng.random()
    return state.theta[0]


def test_one_statistic_may_be_a_number():
    one = walker(law_model(NORMAL), still >> one_number >> Z)
    made = one.advance(50)
    assert np.array_equal(
        one.program.layout.stats(made.words)["one_number"]["where"], made.floats[:, 0]
    )


@pytest.mark.parametrize("returned", [None, (1.0,), (1.0, 2.0, 3.0), 4.0])
def test_statistics_that_do_not_fit_are_refused(returned):
    def mine(rng, state, data):
        return returned

    kernel = sm.kernel(writes="theta", stats=("a", "b"))(mine)
    with pytest.raises(TypeError, match=r"kernel mine returned .*stats=\('a', 'b'\)"):
        Program(law_model(NORMAL), still >> kernel >> Z)


@sm.kernel(writes="theta")
def undeclared(rng, state, data):
    state.theta[0] = 1.0
    state.z[0] = 1


@sm.kernel(writes="theta")
def into_the_data(rng, state, data):
    data.index[0] = 7


@pytest.mark.plain
@pytest.mark.parametrize("kernel", [undeclared, into_the_data])
def test_what_was_not_declared_cannot_be_written(kernel):
    model = law_model(NORMAL)
    with pytest.raises((ValueError, sm.CompileError), match=r"read-only|may only read"):
        sm.sample(model, still >> kernel >> Z, 3, 0, chains=1, progress=False)
    assert model.data.index[0] == 0


@sm.kernel(writes=("theta", "z"))
def off_its_support(rng, state, data):
    state.z[0] = 3


@sm.kernel(writes="theta")
def to_nan(rng, state, data):
    state.theta[1] = np.nan


@pytest.mark.plain
@pytest.mark.parametrize("kernel", [off_its_support, to_nan])
def test_values_that_are_none_stop_the_chain(kernel):
    one = walker(law_model(NORMAL), still >> kernel)
    made = one.advance(3)
    assert len(made.ints) == 0
    assert isinstance(one.error, ValueError)
    assert f"kernel {kernel.label}:" in str(one.error)
    assert "off its support" in str(one.error)


def in_scipy(state):
    return scipy.stats.norm.cdf(state.z[0])


def two_many(state, data):
    return 0.0


@pytest.mark.skipif(DISABLED, reason="is about what the compiler says")
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (still >> sm.delayed(WALK, in_scipy), "in_scipy cannot be compiled: .*norm"),
        (still >> sm.when(in_scipy, WALK), "in_scipy cannot be compiled: .*norm"),
        (WALK >> still >> sm.Gibbs("z", log_prior=two_many), "two_many .* takes 2 arg"),
    ],
)
def test_the_function_that_does_not_compile_is_named(kernel, words):
    with pytest.raises(sm.CompileError, match=words):
        Program(law_model(NORMAL), kernel).compile()


# ---------------------------------------------------------------------------------------- seeds
def both_raced():
    return idle >> sm.Gibbs("x", RACE) >> sm.Gibbs("z", RACE)


def run(rng, **more):
    model = table_model(smooth_table(rng, 256))
    given = {"draws": 200, "warmup": 20, "seed": 5, "progress": False} | more
    return lambda **last: sm.sample(model, both_raced(), **(given | last))


def equal_traces(first, second, chains=slice(None), but=()):
    for name, values in first.draws.items():
        assert np.array_equal(values[chains], second.draws[name][chains]), name
    for label, fields in first.stats.items():
        for name, values in fields.items():
            other = second.stats[label][name]
            assert name in but or np.array_equal(values[chains], other[chains]), (label, name)


@pytest.mark.slow
def test_the_same_seed_makes_the_same_draws(rng):
    sample = run(rng)
    four = sample(chains=4, cores=2)
    assert sum(four.stats["x"]["early"].sum(axis=1) > 0) == 4  # there were races
    equal_traces(four, sample(chains=4, cores=1))
    equal_traces(four, sample(chains=1), chains=slice(0, 1))
    audited = sample(chains=4, audit=0.5)
    assert audited.stats["x"]["audited"].sum() > 0
    told = ("audited", "wrong", "regret", "margin", "skewness", "variance")
    equal_traces(four, audited, but=told)
    other = sample(chains=4, seed=6)
    assert not np.array_equal(four.draws["x"], other.draws["x"])
    assert len({four.draws["x"][chain].tobytes() for chain in range(4)}) == 4


def chain_of_everything():
    """50 steps with discrete and continuous decisions, raced and exact, in a form to compare."""
    table = smooth_table(np.random.default_rng(1), 64)
    one = walker(table_model(table), both_raced())
    made = one.advance(50)
    kernel = still >> sm.Metropolis("theta", 0.8, selector=RACE, adapt=True) >> Z
    other = walker(law_model(NORMAL, size=32), kernel)
    other.advance(20, warm=True)
    moved = other.advance(50)
    ran = other.program.layout.stats(moved.words)
    return {
        "ints": made.ints.tolist(), "x": [int(v) for v in made.words[:, 5]],
        "z": moved.ints[:, 0].tolist(), "accepted": ran["theta"]["accepted"].tolist(),
        "pulls": ran["theta"]["pulls"].tolist(), "theta": moved.floats[:, :2].tolist(),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="compares compiled and plain runs: needs the JIT")
def test_compiled_and_plain_chains_choose_the_same():
    plain, compiled = runs.in_plain_python(__name__, "chain_of_everything"), chain_of_everything()
    theta = plain.pop("theta"), compiled.pop("theta")
    assert plain == compiled
    assert sum(plain["accepted"]) > 5
    np.testing.assert_allclose(*theta, rtol=1e-9)
