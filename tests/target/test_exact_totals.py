"""Exact sums: by chunks of predictors the same as one by one, and remembered, the same draws."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.references import some_totals
from subsample_mcmc.runs import parallel
from subsample_mcmc.target import exact_sums as totals
from subsample_mcmc.target.dyadic import BLOCK, Tree, blocks_of
from subsample_mcmc.target.rewards import probe, sum_of, sums_between
from tests.helpers import runs

N = 1200  # five blocks, the last of 176


# -------------------------------------------------------------------------------------- models
def eta_1(state, data, n):
    return state.b[0] + state.b[1] * data.x[n]


def etas_1(state, data, first, out):
    x = data.x[first:]
    for i in range(out.shape[1]):
        out[0, i] = state.b[0] + state.b[1] * x[i]


def factor_1(eta, data, n):
    z = data.y[n] - eta
    return -2.5 * sm.log1p(0.25 * z * z)


def eta_2(state, data, n):
    return eta_1(state, data, n), state.b[2]


def etas_2(state, data, first, out):
    etas_1(state, data, first, out)
    out[1] = state.b[2]


def factor_2(eta, data, n):
    z = (data.y[n] - eta[0]) * sm.exp(-eta[1])
    return -0.5 * z * z - eta[1]


def eta_3(state, data, n):
    return eta_1(state, data, n), state.b[2], state.b[2] * data.x[n] + state.k[0]


def etas_3(state, data, first, out):
    etas_2(state, data, first, out)
    for i in range(out.shape[1]):
        out[2, i] = state.b[2] * data.x[first + i] + state.k[0]


def factor_3(eta, data, n):
    z = (data.y[n] - eta[0]) * sm.exp(-eta[1])
    return -0.5 * z * z - eta[1] - 0.1 * eta[2] * eta[2]


FORMS = {
    1: (eta_1, factor_1, etas_1),
    2: (eta_2, factor_2, etas_2),
    3: (eta_3, factor_3, etas_3),
}


def model(count=1, size=N, etas=None, **changes):
    """A model of one, two or three predictors; etas: others than the right ones."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=size)
    eta, factor, right = FORMS[count]
    spec = {
        "log_likelihood": sm.Predictors(eta, factor, etas=etas or right),
        "data": {"x": x, "y": 0.3 + 0.5 * x + rng.normal(size=size)},
        "state": {"b": [0.2, -0.4, 0.1], "k": 1},
        "support": {"k": 6},
    }
    return sm.Model(**(spec | changes))


def asked(model, points):
    """The model's exact sums at several values of its floats, as a chain asks for them; the run."""
    points = np.atleast_2d(np.asarray(points, dtype=float))
    trial = probe(model, model.ints.copy(), model.floats.copy(), points)
    found = [sum_of(trial, p, model.size) for p in range(len(points))]
    return np.array(found), trial


def one_by_one(model, point):
    """The same sum in plain Python."""
    floats = model.floats.copy()
    floats[:] = point
    state = model.state(model.ints, floats)
    return math.fsum(model.log_likelihood(state, model.data, n) for n in range(model.size))


# -------------------------------------------------------------------------------------- chunks
@pytest.mark.parametrize("count", FORMS)
@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 1025, 1201])
def test_sums_by_chunks_are_the_sums(count, size):
    made = model(count, size)
    points = [made.floats, made.floats + 0.3, -made.floats]
    found, trial = asked(made, points)
    wanted = [one_by_one(made, point) for point in points]
    assert np.allclose(found, wanted, rtol=1e-10, atol=1e-10)
    assert trial.calls.context.record.room.shape == (count, min(BLOCK, size))


def between(trial, points, first, last):
    """Sums over rows first .. last - 1, at each point."""
    found = np.zeros(len(points))
    sums_between(trial, first, last, found)
    return found


@pytest.mark.parametrize("size", [1, 255, 256, 257, 512, 1025, 5000])
@pytest.mark.parametrize("bare", [True, False])
def test_sums_in_machine_code_are_those_of_the_tree(bare, size):
    """To the last bit, whichever nodes of it are added up where; a running sum differs."""
    form = {"log_likelihood": sm.Predictors(eta_3, factor_3)} if bare else {}
    made, blocks = model(3, size, **form), blocks_of(size)
    points = made.floats + np.linspace(-1.0, 1.0, 9)[:, None]
    found, trial = asked(made, points)
    ends = [(k * BLOCK, min((k + 1) * BLOCK, size)) for k in range(blocks)]
    each = np.array([between(trial, points, *own) for own in ends])
    tree = Tree()
    tree.add_blocks(0, each)
    assert np.array_equal(found, tree.root(blocks))
    assert blocks < 20 or not np.array_equal(found, np.cumsum(each, axis=0)[-1])
    nodes = Tree()
    for first, last in ((0, blocks // 3), (blocks // 3, blocks)):
        nodes.merge(some_totals(made, made.ints, points, first, last).nodes())
    assert np.array_equal(found, nodes.root(blocks))


@pytest.mark.parametrize("count", FORMS)
def test_a_short_last_block_is_the_same_by_itself(count):
    """There predictors are computed for its rows alone, and in all data for 256."""
    whole = model(count, 300)
    last = {name: getattr(whole.data, name)[BLOCK:].copy() for name in ("x", "y")}
    points = whole.floats + np.linspace(-1.0, 1.0, 9)[:, None]
    own, _ = asked(model(count, 300 - BLOCK, data=last), points)
    assert np.array_equal(own, between(asked(whole, points)[1], points, BLOCK, 300))


def test_sums_by_chunks_give_the_same_chain():
    kernel = sm.Gibbs("k", sm.Exact()) >> sm.Metropolis("b", selector=sm.Exact())
    spec = {"draws": 50, "warmup": 50, "chains": 1, "seed": 4, "progress": False}
    bare = model(3, log_likelihood=sm.Predictors(eta_3, factor_3))
    one, other = sm.sample(model(3), kernel, **spec), sm.sample(bare, kernel, **spec)
    assert np.array_equal(one.draws["k"], other.draws["k"])
    assert np.array_equal(one.draws["b"], other.draws["b"])


@pytest.mark.slow
def test_a_user_may_write_whole_arrays():
    def etas(state, data, first, out):
        out[0] = state.b[0] + state.b[1] * data.x[first : first + out.shape[1]]

    made = model(1, 700, etas)
    assert np.allclose(asked(made, made.floats)[0], one_by_one(made, made.floats), rtol=1e-10)


def late(state, data, first, out):
    etas_1(state, data, first, out)
    if first + out.shape[1] == len(data.x):
        out[0, out.shape[1] - 1] += 1e-6


def flat(state, data, first, out):
    for i in range(out.shape[1]):  # right where b[1] is zero
        out[0, i] = state.b[0]


def shifted(state, data, first, out):
    for i in range(out.shape[1]):
        out[0, i] = state.b[0] + state.b[1] * data.x[i]


def unwritten(state, data, first, out):
    out[0, 0] = eta_1(state, data, first)


@pytest.mark.parametrize(
    ("etas", "start", "told"),
    [
        (late, 0.4, r"first=1197, out\) left .* in out\[0, 2\], but eta of datum 1199, pred"),
        (flat, 0.0, r"first=0, out\) left .* in out\[0, 0\], but eta of datum 0"),
        (shifted, 0.4, r"first=\d+, .* but eta of datum \d+"),
        (unwritten, 0.4, r"left nan in out\[0, 1\], but eta of datum 1,"),
    ],
)
def test_etas_that_differ_are_refused(etas, start, told):
    with pytest.raises(ValueError, match=told):
        model(1, etas=etas, state={"b": [0.2, start, 0.0], "k": 0})


def moved_by_one(state, data, first, out):
    """Of a change point: the datum at it is on the wrong side."""
    for i in range(out.shape[1]):
        out[0, i] = 0.0 if first + i <= state.k[0] else state.b[0]


def none_in_between(state, data, first, out):
    for i in range(out.shape[1]):
        gone = 300 <= first + i < 900
        out[0, i] = 0.0 if gone or first + i < state.k[0] else state.b[0]


@pytest.mark.parametrize("etas", [moved_by_one, none_in_between])
def test_etas_that_differ_at_few_data_are_refused(etas):
    """Neither of the first nor of the last, and only with some values of a discrete block."""
    with pytest.raises(ValueError, match=r"both must be the same for every datum"):
        sm.Model(
            sm.Predictors(
                lambda state, data, n: 0.0 if n < state.k[0] else state.b[0], factor_1, etas=etas
            ),
            {"y": np.zeros(N)}, {"b": [0.8], "k": 2 * N}, support={"k": 2 * N + 1},
        )  # fmt: skip


def test_what_are_no_etas_is_refused():
    with pytest.raises(TypeError, match="etas=3 is not a Python function"):
        sm.Predictors(eta_1, factor_1, etas=3)
    with pytest.raises(TypeError, match="etas returned 0: it must write into out"):
        model(1, etas=lambda state, data, first, out: 0)
    alone = sm.Predictors(lambda state, data, n: (state.b[0],), lambda eta, data, n: -eta[0],
                          etas=etas_1)  # fmt: skip
    with pytest.raises(TypeError, match="one predictor is a float"):
        model(log_likelihood=alone)


def test_etas_are_part_of_a_models_fingerprint():
    bare = model(log_likelihood=sm.Predictors(eta_1, factor_1)).fingerprints()

    def other(state, data, first, out):
        for i in range(out.shape[1]):
            out[0, i] = state.b[1] * data.x[first + i] + state.b[0]

    seen = [model(1).fingerprints(), model(1, etas=other).fingerprints(), bare]
    assert len({found["predictors"] for found in seen}) == 3
    assert model(1).fingerprints() == seen[0]
    assert all(found["log_likelihood"] == bare["log_likelihood"] for found in seen)


# ---------------------------------------------------------------------------------- remembered
EXACT = sm.Exact()
KERNELS = {
    "Gibbs and Metropolis": sm.Gibbs("k", EXACT) >> sm.Metropolis("b", selector=EXACT),
    "slice": sm.Gibbs("k", EXACT) >> sm.Slice("b", selector=EXACT),
    "Langevin": sm.Gibbs("k", EXACT) >> sm.Langevin("b", selector=EXACT, batch=50),
    "races that retreat": sm.Gibbs("k") >> sm.Metropolis("b"),
    "mixture": sm.mixture(
        (sm.Gibbs("k", EXACT), 0.5), (sm.repeat(sm.Metropolis("b", 0.02, selector=EXACT), 3), 0.5)
    ),
}


def chain(kernel, given=None, **more):
    spec = {"draws": 60, "warmup": 40, "chains": 2, "seed": 9, "progress": False} | more
    return sm.sample(given or model(3), kernel, **spec)


def counts(trace, *without):
    """All statistics, but for some."""
    return {
        (kernel, field): values.tobytes()
        for kernel, fields in trace.stats.items()
        for field, values in fields.items()
        if field not in without
    }


@pytest.mark.parametrize("name", KERNELS)
def test_draws_do_not_depend_on_what_is_remembered(name, monkeypatch):
    with_memory = chain(KERNELS[name])
    with monkeypatch.context() as patch:
        patch.setattr(totals, "NUMBERS", 3)
        without = chain(KERNELS[name])
    assert with_memory.draws["b"].tobytes() == without.draws["b"].tobytes()
    assert with_memory.draws["k"].tobytes() == without.draws["k"].tobytes()
    assert counts(with_memory, "pulls") == counts(without, "pulls")
    for kernel, told in with_memory.stats.items():
        read, all_of_it = told["pulls"].sum(), without.stats[kernel]["pulls"].sum()
        assert 0 <= read < 0.9 * all_of_it, kernel
        assert np.all(told["pulls"] % N == 0) or name == "races that retreat"


def test_metropolis_reads_each_datum_once():
    made = model(2, state={"b": [0.2, -0.4, 0.1]}, support=None)
    kernel = sm.Metropolis("b", 0.05, selector=EXACT, adapt=False)
    told = chain(kernel, made, warmup=0, chains=1).stats["b"]
    assert told["everything"].tolist() == [[2 * N] * 60]
    assert told["pulls"].tolist() == [[2 * N] + [N] * 59]


def test_gibbs_reads_each_value_but_one():
    kernel = sm.Gibbs("k", EXACT) >> sm.Metropolis("b", 0.1, selector=EXACT, adapt=False)
    trace = chain(kernel, warmup=0, chains=1)
    moved = trace.stats["b"]["accepted"][0]
    assert 5 < moved.sum() < 55
    # Metropolis always finds the current state; Gibbs one of six values if b moved, else all.
    assert trace.stats["b"]["pulls"].tolist() == [[N] * 60]
    assert trace.stats["k"]["pulls"].tolist() == [[6 * N, *(5 * N * moved[:-1])]]
    assert np.all(trace.stats["k"]["everything"] == 6 * N)


def test_a_sweep_over_sites_finds_the_current_value():
    def log_likelihood(state, data, n):
        z = data.y[n] - 0.1 * state.k[0] - 0.2 * data.x[n] * state.k[1] + 0.05 * state.k[2]
        return -0.01 * z * z

    made = model(log_likelihood=log_likelihood, state={"k": [0, 0, 0]}, support={"k": 7})
    told = chain(sm.Gibbs("k", EXACT), made, chains=1).stats["k"]
    assert np.all(told["pulls"] <= 3 * 6 * N) and told["pulls"].sum() > 60 * 2 * 6 * N


@pytest.mark.slow
def test_with_a_control_variate(rng):
    made = model(2, state={"b": [0.2, 0.5, 0.0]}, support=None)
    kernel = sm.Metropolis("b", 0.03, selector=EXACT, control=sm.Taylor(sm.laplace(made)))
    told = chain(kernel, made, chains=1).stats["b"]
    decided = told["decisions"] - told["predicted"]
    assert decided.sum() > 20
    assert 0 < told["pulls"].sum() < 0.8 * 2 * N * decided.sum()


def test_signs_of_zero_are_told_apart():
    def log_likelihood(state, data, n):
        return 1.0 if math.copysign(1.0, state.b[0]) > 0.0 else 2.0

    made = model(log_likelihood=log_likelihood, state={"b": [1.0]}, support=None)
    found, trial = asked(made, [[0.0], [-0.0], [0.0], [1e-300]])
    assert found.tolist() == [N, 2 * N, N, N]
    assert trial.pulls[0] == -N


def test_many_numbers_are_not_remembered():
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.b[0]) ** 2

    for length, lines in ((totals.NUMBERS, 1 + totals.FEWEST), (totals.NUMBERS + 1, 1)):
        made = model(log_likelihood=log_likelihood, state={"b": np.zeros(length)}, support=None)
        kernel = sm.Metropolis("b", 0.01, selector=EXACT, adapt=False)
        told = chain(kernel, made, draws=5, warmup=0, chains=1)
        assert told._checkpoints[0]["kernel totals"].shape == (lines, length + 1)
        assert told.stats["b"]["pulls"].sum() == (6 if lines > 1 else 10) * N


@pytest.mark.parametrize("name", ["Gibbs and Metropolis", "races that retreat"])
def test_an_audit_leaves_no_trace(name):
    plain, audited = chain(KERNELS[name]), chain(KERNELS[name], audit=0.5)
    assert plain.draws["b"].tobytes() == audited.draws["b"].tobytes()
    seen = ("audited", "wrong", "regret", "margin", "skewness", "variance")
    assert counts(plain, *seen) == counts(audited, *seen)
    assert audited.stats["b"]["audited"].sum() > 20 and audited.stats["b"]["wrong"].sum() == 0
    for one, other in zip(plain._checkpoints, audited._checkpoints, strict=True):
        assert one["kernel totals"].tobytes() == other["kernel totals"].tobytes()


def test_a_resumed_run_reads_the_same(tmp_path, monkeypatch):
    kernel, path = KERNELS["Gibbs and Metropolis"], tmp_path / "run.nc"
    whole = chain(kernel)
    assert runs.same(chain(kernel, cores=2), whole)
    chain(kernel, draws=17, store=path)
    found = sm.resume(path, model(3), kernel, draws=60, progress=False)
    assert runs.same(found, whole) and runs.same_states(found, whole)
    monkeypatch.setattr(parallel, "CHUNK_SECONDS", 0.0)  # a draw at a time
    found = chain(kernel, thin=1)
    assert runs.same(found, whole) and runs.same_states(found, whole)
