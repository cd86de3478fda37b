"""GibbsPartition: laws of whole sweeps on partitions that can be listed; twins; restarts; reports.

A model of thousands of equal blocks gives thousands of independent sweeps in one step. Tests of
distributions cry wolf with probability 1e-6 each (laws.ALARM, Bonferroni inside).
"""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition.gibbs_partition import shuffle
from subsample_mcmc.numerics.jit import DISABLED, jit
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM, normalised, rows_equal, transitions
from tests.helpers.partitions import (
    codes_of,
    copies,
    log_target,
    model_of,
    partitions,
    records,
    score,
    score_many,
    sweep_matrix,
    swept,
)

EACH = 2000  # sweeps from every partition
EXACT = sm.Exact()


def symmetric(rng, size, scale=1.0):
    made = rng.normal(size=(size, size)) * scale
    return made + made.T


def counted(states, model, kernel, each=EACH, sweeps=1):
    """How often each partition followed each."""
    labels, told = swept(model, kernel, sweeps)
    before = np.repeat(np.arange(len(states)), each)
    after = codes_of(labels[-1].reshape(-1, states.shape[1]), states)
    return transitions(before, after, len(states)), told


# --------------------------------------------------------------------------------------- laws
SWEEPS = [("fixed", 1.0, 0.0), ("random", 1.7, 0.4), ("fixed", 0.6, -1)]


@pytest.mark.slow
@pytest.mark.parametrize(("scan", "temperature", "new"), SWEEPS)
def test_a_sweep_from_every_partition(rng, scan, temperature, new):
    scores, states = symmetric(rng, 5), partitions(5)
    assert len(states) == 52
    model, keys = copies(scores, np.repeat(states, EACH, axis=0))
    kernel = sm.GibbsPartition(
        "y", score, keys, EXACT, temperature=temperature, scan=scan, new=new, cores=1
    )
    expected = sweep_matrix(states, log_target(states, scores, new) / temperature, scan)
    counts, told = counted(states, model, kernel)
    rows_equal(counts, expected)
    assert told["decisions"] == told["exact"] == model.size
    assert told["pulls"] == told["everything"] == 4 * model.size
    # So few are all read by a race as well, with the same noise.
    race = sm.GibbsPartition("y", score, keys, temperature=temperature, scan=scan, new=new, cores=1)
    assert np.array_equal(counted(states, model, race)[0], counts)


def pairs_equal(labels, states, law, alarm=ALARM):
    """Fail if how often two mentions are together contradicts a law of partitions.

    Coarser than counts of partitions, and sharper: small errors add up.
    """
    size = states.shape[1]
    pairs = list(itertools.combinations(range(size), 2))
    for i, j in pairs:
        together = int((labels[:, i] == labels[:, j]).sum())
        p = float(law[states[:, i] == states[:, j]].sum())
        equal(together, len(labels), p, alarm / len(pairs))


def from_singletons(states, logp, sweeps):
    """The law of the partition after some sweeps in fixed order."""
    size = states.shape[1]
    law = np.eye(len(states))[codes_of(np.arange(size)[None, :], states)[0]]
    matrix = sweep_matrix(states, logp, "fixed")
    for _ in range(sweeps):
        law = law @ matrix
    return law


@pytest.mark.slow
def test_these_tests_can_fail(rng):
    """Mutants: a temperature 8% too high; a new cluster .08 too cheap; another order."""
    scores, states, count = symmetric(rng, 5), partitions(5), 60_000
    model, keys = copies(scores, np.tile(np.arange(5), (count, 1)))
    law = from_singletons(states, log_target(states, scores), 4)
    for given in ({}, {"temperature": 1.08}, {"new": 0.08}):
        kernel = sm.GibbsPartition("y", score, keys, EXACT, **({"scan": "fixed"} | given))
        labels = swept(model, kernel, 4)[0][-1].reshape(-1, 5)
        with pytest.raises(AssertionError, match="contradicts") if given else nullcontext():
            pairs_equal(labels, states, law)
    model, keys = copies(scores, np.repeat(states, EACH, axis=0))
    kernel = sm.GibbsPartition("y", score, keys, EXACT, scan="random")
    with pytest.raises(AssertionError, match="chance"):
        rows_equal(
            counted(states, model, kernel)[0],
            sweep_matrix(states, log_target(states, scores), "fixed"),
        )


@pytest.mark.slow
def test_two_blocks_that_take_turns(rng):
    """Each copy holds blocks of 3 and 4 mentions, whose indices alternate."""
    scores, odd = symmetric(rng, 7), np.array([0, 1, 0, 1, 0, 1, 1])
    parts = [np.flatnonzero(odd == k) for k in (0, 1)]
    states = [partitions(3), partitions(4)]
    each, pairs = 1000, [(a, b) for a in range(5) for b in range(15)]
    start = np.zeros((len(pairs), 7), dtype=np.int64)
    for row, (a, b) in zip(start, pairs, strict=True):
        row[parts[0]], row[parts[1]] = states[0][a], states[1][b]  # blocks share names
    start = np.repeat(start, each, axis=0)
    model, keys = copies(scores, start)
    keys = 2 * keys + np.tile(odd, len(start))
    kernel = sm.GibbsPartition("y", score, keys, EXACT, scan="random", new=0.3, temperature=1.4)
    labels = swept(model, kernel)[0][0].reshape(-1, 7)
    codes = [codes_of(labels[:, part], s) for part, s in zip(parts, states, strict=True)]
    before = np.repeat(np.arange(len(pairs)), each)
    found = transitions(before, 15 * codes[0] + codes[1], len(pairs))
    matrices = [
        sweep_matrix(s, log_target(s, scores[np.ix_(part, part)], 0.3) / 1.4, "random")
        for part, s in zip(parts, states, strict=True)
    ]
    rows_equal(found, np.kron(*matrices))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("temperature", "new"), [(1.0, 0.0), pytest.param(1.5, -0.7, marks=pytest.mark.slow)]
)
def test_the_posterior_of_877_partitions(rng, temperature, new):
    """Many chains from singletons, after as many sweeps as it takes to forget them."""
    sweeps, count = 24, 40_000
    scores, states = symmetric(rng, 7, 0.5), partitions(7)
    assert len(states) == 877
    logp = log_target(states, scores, new) / temperature
    p = normalised(logp)
    law = from_singletons(states, logp, sweeps)
    assert 0.5 * np.abs(law - p).sum() < 1e-6  # in total variation: count times that is little
    model, keys = copies(scores, np.tile(np.arange(7), (count, 1)))
    kernel = sm.GibbsPartition(
        "y", score, keys, EXACT, scan="fixed", temperature=temperature, new=new
    )
    labels, _ = swept(model, kernel, sweeps)
    found = labels[-1].reshape(-1, 7)
    rows_equal(np.bincount(codes_of(found, states), minlength=877)[None, :], p[None, :])
    pairs_equal(found, states, p)
    # The random scan leaves it fixed.
    kernel = sm.GibbsPartition("y", score, keys, EXACT, temperature=temperature, new=new)
    start = states[rng.choice(877, count, p=p)]
    labels, _ = swept(copies(scores, start)[0], kernel)
    found = labels[-1].reshape(-1, 7)
    rows_equal(np.bincount(codes_of(found, states), minlength=877)[None, :], p[None, :])
    pairs_equal(found, states, p)


def bilinear(rng, copies_of=1, size=5):
    """A control variate with tokens of two kinds and two tables, and its scores of each pair."""
    tokens = {}
    for name in ("title", "venue"):
        sets = [np.sort(rng.choice(4, k, replace=False)) for k in rng.integers(0, 4, size)]
        indptr = np.concatenate([[0], np.cumsum([len(s) for s in sets * copies_of])])
        ids = np.concatenate(sets * copies_of).astype(np.int64)
        values = np.tile(rng.normal(size=sum(len(s) for s in sets)), copies_of)
        tokens[name] = (indptr, ids, values, float(rng.normal()))
    tables = {
        name: (np.tile(rng.integers(-1, 3, size), copies_of), symmetric(rng, 3))
        for name in ("year", "initial")
    }
    made = sm.Bilinear(tokens, tables, constant=-0.2)
    one, other = np.indices((size, size)).reshape(2, -1)
    return made, made.values(one, other).reshape(size, size)


@pytest.mark.slow
@pytest.mark.parametrize("scan", ["fixed", "random"])
def test_a_bilinear_score_is_drawn_from_its_sums(rng, scan):
    states = partitions(5)
    control, scores = bilinear(rng, len(states) * EACH)
    model, keys = copies(scores, np.repeat(states, EACH, axis=0))
    kernel = sm.GibbsPartition(
        "y", None, keys, control=control, scan=scan, temperature=1.3, new=0.5
    )
    assert kernel.guarantee == "exact"
    counts, told = counted(states, model, kernel)
    rows_equal(counts, sweep_matrix(states, log_target(states, scores, 0.5) / 1.3, scan))
    assert told["pulls"] == 0 and told["predicted"] == told["decisions"] == model.size
    if scan == "fixed":
        model, _ = copies(scores, np.tile(np.arange(5), (len(keys) // 5, 1)))
        labels = swept(model, kernel, 4)[0][-1].reshape(-1, 5)
        logp = log_target(states, scores, 0.5) / 1.3
        pairs_equal(labels, states, from_singletons(states, logp, 4))


@jit
def orders(stream, trials, scan, out):
    """How often each order of four comes up."""
    for _ in range(trials):
        for k in range(6):
            scan[k] = k
        shuffle(scan, stream, 1, 5)
        out[((scan[1] * 5 + scan[2]) * 5 + scan[3]) * 5 + scan[4]] += 1
    return scan[0] == 0 and scan[5] == 5


def test_all_orders_are_alike(rng):
    found, trials = np.zeros(5**4, dtype=np.int64), 200_000
    assert orders(
        rng.integers(2**63, size=1).astype(np.uint64), trials, np.zeros(6, dtype=np.int64), found
    )
    assert np.count_nonzero(found) == 24
    for k in found[found > 0]:
        equal(int(k), trials, 1 / 24, 1e-6 / 24)


# -------------------------------------------------------------------------------------- twins
def several(rng, size=None, **more):
    """Mentions of 6 kinds in some blocks, with noise in every score."""
    size = size or (30 if DISABLED else 600)
    table = symmetric(rng, 6, 0.5) - 0.3
    return records(rng.integers(6, size=size), table, **({"scale": 0.3} | more))


HEAT = np.geomspace(4.0, 0.3, 5)


def raced(keys=None, **more):
    return sm.GibbsPartition(
        "y", score, keys, **({"temperature": HEAT, "second": 0.2, "cores": 1} | more)
    )


@pytest.mark.plain
def test_scores_one_by_one_or_several_at_once(rng):
    data = several(rng)
    found = [
        swept(model_of(data), sm.GibbsPartition("y", given, temperature=HEAT), len(HEAT), audit=0.3)
        for given in (score, score_many)
    ]
    assert np.array_equal(found[0][0], found[1][0])
    del found[0][1]["seconds"], found[1][1]["seconds"]
    assert found[0][1] == found[1][1]


def test_cores_share_out_blocks_and_change_nothing(rng):
    data = several(rng)
    keys = rng.integers(12, size=len(data["kind"])) ** 2
    found = [
        swept(model_of(data), raced(keys, cores=c), 5, audit=a)
        for c, a in ((1, 0), (2, 0.5), (3, 0.0))
    ]
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][0], found[2][0])
    assert [told["audited"] > 0 for _, told in found] == [False, True, False]
    for name in ("pulls", "rounds", "decisions", "accepted"):
        assert len({int(told[name]) for _, told in found}) == 1


@pytest.mark.plain
def test_without_wrong_decisions_a_race_draws_what_exact_sums_draw(rng):
    data = several(rng)
    exact, _ = swept(model_of(data), raced(selector=EXACT), 5)
    careful = sm.Racing(sm.Normal(paired=False), delta=1e-9, batch=3)
    found, told = swept(model_of(data), raced(selector=careful), 5, audit=1.0)
    assert told["audited"] == told["decisions"] and told["wrong"] == 0
    assert np.array_equal(found, exact)
    assert DISABLED or told["pulls"] < told["everything"]


@pytest.mark.plain
def test_a_control_variate_that_is_the_score_reads_no_pair(rng):
    data = several(rng, scale=0.0)
    table = (data["kind"], data["table"])
    keys = rng.integers(4, size=len(data["kind"]))
    known = sm.Bilinear(tables={"kind": table})
    exact, _ = swept(model_of(data), raced(keys, selector=EXACT), 5)
    found, told = swept(model_of(data), raced(keys, control=known), 5, audit=1.0)
    assert np.array_equal(found, exact)
    assert told["pulls"] == told["wrong"] == 0
    alone = sm.GibbsPartition("y", None, keys, control=known, temperature=HEAT, cores=1)
    assert np.array_equal(swept(model_of(data), alone, 5)[0], exact)


# ----------------------------------------------------------------------------- runs and reports
def same_but_seconds(one, other):
    words = [c.word for c in one.layout.columns if c.field == "seconds"]
    for a, b in zip(one._arrays, other._arrays, strict=True):
        if a.shape[-1] == one.layout.words and a.dtype.kind == "i":
            a, b = (np.delete(np.asarray(x), words, axis=-1) for x in (a, b))
        if not np.array_equal(a, b):
            return False
    return True


def run(data, keys, **more):
    spec = {"draws": 6, "warmup": 1, "chains": 2, "seed": 4, "progress": False} | more
    return sm.sample(model_of(data), raced(keys), **spec)


def test_runs_resume_bit_for_bit_and_chains_stand_alone(rng, tmp_path):
    data = several(rng, 300)
    keys = rng.integers(5, size=300)
    whole = run(data, keys, draws=9, audit=0.2)
    run(data, keys, draws=4, audit=0.2, store=tmp_path / "run.nc")
    going = sm.resume(
        tmp_path / "run.nc", model=model_of(data), kernel=raced(keys), draws=9, progress=False
    )
    assert whole.draws["y"].shape == (2, 9, 300)
    assert np.array_equal(going.draws["y"], whole.draws["y"])
    assert same_but_seconds(going, whole)
    one = run(data, keys, draws=9, chains=1, cores=1, audit=0.2)
    assert np.array_equal(one.draws["y"][0], whole.draws["y"][0])
    assert not np.array_equal(whole.draws["y"][0], whole.draws["y"][1])
    told = whole.stats["y"]
    assert np.all(told["decisions"] == 300) and np.all(told["seconds"] > 0.0)
    sizes = np.bincount(keys)
    assert np.all(told["everything"] == (sizes * (sizes - 1)).sum())
    # Another partition, score or candidates is another run.
    with pytest.raises(ValueError, match="kernel"):
        sm.resume(
            tmp_path / "run.nc", model=model_of(data), kernel=raced(keys[::-1].copy()), draws=12,
            progress=False,
        )  # fmt: skip


@sm.kernel(writes="z")
def step_z(rng, state, data):
    """How many share the first mention's cluster, plus one of two."""
    together = 0.0
    for i in range(len(state.y)):
        together += 1.0 if state.y[i] == state.y[0] else 0.0
    state.z[0] = together + 0.25 * rng.random()


def test_composed_with_a_kernel_of_ones_own(rng):
    data = several(rng, 60)
    model = sm.Model(None, data, {"y": np.arange(60), "z": 0.0}, support={"y": 60})
    kernel = raced() >> step_z
    told = kernel.describe(model)
    assert "GibbsPartition moves y" in told and "asymptotic" in told
    assert "60 mentions in 1 blocks" in told
    trace = sm.sample(model, kernel, draws=8, warmup=0, chains=2, seed=2, audit=0.5, progress=False)
    y, z = trace.draws["y"], trace.draws["z"]
    assert np.array_equal(np.floor(z), (y == y[..., :1]).sum(axis=2))
    # What another kernel draws from the chain's generator changes later sweeps, not the first.
    alone = sm.sample(
        model_of(data), raced(), draws=8, warmup=0, chains=2, seed=2, progress=False
    ).draws["y"]
    assert np.array_equal(y[:, 0], alone[:, 0])
    report = str(trace.report())
    assert "y: 60 mentions in 1 blocks" in report and "guarantee: asymptotic" in report


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (
            sm.GibbsPartition("y", score, [0, 0, 1, None], EXACT),
            ["guarantee: exact", "in 3 blocks"],
        ),
        (sm.GibbsPartition("y", score, [0, 0, 1, None]), ["asymptotic", "2 mentions without"]),
        (
            sm.GibbsPartition(
                "y", None, control=sm.Bilinear(tables={"k": (np.arange(4), np.eye(4))})
            ),
            ["guarantee: exact", "no pair is read", "Exact()"],
        ),
    ],
    ids=["exact", "raced", "known"],
)
def test_described(kernel, said):
    told = kernel.describe(model_of(records(np.arange(4), np.eye(4))))
    assert all(text in told for text in said), told


def test_labels_are_names(rng):
    """The effective sample size is that of the size of one's cluster: names may be exchanged."""
    model = model_of(records(np.arange(6) % 2, [[0.4, -0.3], [-0.3, 0.4]]))
    kernel = sm.GibbsPartition("y", score, selector=sm.Exact(), cores=1)
    trace = sm.sample(model, kernel, draws=200, warmup=0, chains=2, seed=3, progress=False)
    found = trace.mixing("y")
    assert 0.0 < found.ess < 2000.0 and found.looked == 6
    for one in trace.draws["y"]:
        for labels in one:  # new names in every draw
            labels[:] = rng.permutation(6)[labels]
    assert trace.mixing("y").ess == found.ess
