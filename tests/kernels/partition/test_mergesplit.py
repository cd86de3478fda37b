"""MergeSplit: one proposal against a twin that lists all of them; posteriors; races; restarts.

The twin knows only how moves are proposed: it looks their chances up in its list, both ways.
Tests of distributions cry wolf with probability 1e-6 each (laws.ALARM, Bonferroni inside).
"""

import importlib.util
import itertools
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules import normal
from subsample_mcmc.kernels.partition import merge_split as mergesplit
from subsample_mcmc.kernels.partition.merge_split import SPLITS, STEEP
from tests.helpers.claims import above, at_most
from tests.helpers.laws import normalised, rows_equal
from tests.helpers.partitions import (
    codes_of,
    copies,
    log_target,
    model_of,
    partitions,
    records,
    score,
    swept,
)
from tests.kernels.partition.test_partition import (
    bilinear,
    counted,
    pairs_equal,
    same_but_seconds,
    symmetric,
)

EXACT, DELTA = sm.Exact(), 0.05
EACH = 2000  # proposals from every partition


def moves_of(keys=None, similarity=score, moves=1.0, **more):
    """MergeSplit alone."""
    given = {"selector": EXACT, "cores": 1} | more
    return sm.MergeSplit(sm.GibbsPartition("y", similarity, keys, **given), moves=moves)


# ------------------------------------------------------------------------------- the twin
def proposals(states, scores, heat, known):
    """{(from, to, i, j, order of the others): probability}: every way to propose a change."""
    size, found = states.shape[1], defaultdict(float)
    code = {tuple(s): k for k, s in enumerate(states.tolist())}

    def number(clusters):
        first = {i: min(c) for c in clusters for i in c}
        return code[tuple(first[i] for i in range(size))]

    def orders(others):
        made = list(itertools.permutations(sorted(others)))
        return [(order, 1.0 / len(made)) for order in made]

    for (s, row), i in itertools.product(enumerate(states), range(size)):
        own = np.flatnonzero(row == row[i]).tolist()
        rest = [np.flatnonzero(row == y).tolist() for y in np.unique(row) if y != row[i]]
        means = [np.clip(scores[i, c].mean(), -STEEP, STEEP) for c in rest]
        pull = [np.exp(mean) if known else len(c) for mean, c in zip(means, rest, strict=True)]
        for c, attraction in zip(rest, pull, strict=True):
            to = number([*(r for r in rest if r is not c), own + c])
            for j in c:
                for order, p in orders({*own, *c} - {i, j}):
                    p *= (1 - SPLITS) / size * attraction / sum(pull) / len(c)
                    found[s, to, i, j, order] += p
        for j in {*own} - {i}:
            every_side = itertools.product((True, False), repeat=len(own) - 2)
            for (order, p), sides in itertools.product(orders({*own} - {i, j}), every_side):
                one, other, p = [i], [j], p * SPLITS / size / (len(own) - 1)
                for who, left in zip(order, sides, strict=True):
                    lean = scores[who, one[:4]].sum() - scores[who, other[:4]].sum()
                    p *= expit((lean if left else -lean) / heat)
                    (one if left else other).append(who)
                found[s, number([*rest, one, other]), i, j, order] += p
    return found


def move_matrix(states, scores, heat, new, known):
    """The transition matrix of one proposal; it is in detailed balance with the target."""
    logp = log_target(states, scores, new) / heat
    found, made = proposals(states, scores, heat, known), np.zeros((len(states), len(states)))
    for (s, to, *more), p in found.items():
        made[s, to] += min(p, found[to, s, *more] * np.exp(logp[to] - logp[s]))
    made[np.diag_indices(len(states))] += 1.0 - made.sum(axis=1)
    flow = normalised(logp)[:, None] * made
    assert np.allclose(flow, flow.T, rtol=1e-9, atol=1e-15) and made.min() >= 0.0
    return made


RUNS = [(1.0, 0.0), (1.7, 0.6), (0.6, -1.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "new"), RUNS)
@pytest.mark.parametrize("known", [False, True], ids=["scores", "bilinear"])
def test_one_proposal_from_every_partition(rng, temperature, new, known):
    states = partitions(5)
    if known:
        control, scores = bilinear(rng, len(states) * EACH)
        more = {"similarity": None, "control": control}
    else:
        scores, more = 0.4 + symmetric(rng, 5), {}
    model, keys = copies(scores, np.repeat(states, EACH, axis=0))
    kernel = moves_of(keys, moves=0.2, temperature=temperature, new=new, **more)
    counts, told = counted(states, model, kernel, EACH)
    rows_equal(counts, move_matrix(states, scores, temperature, new, known))
    assert told["accepted"] == counts.sum() - np.trace(counts) > 0
    assert told["wrong"] == told["raced"] == 0 and (told["pulls"] == 0) == known
    assert told["decisions"] == told["predicted" if known else "exact"]


def test_attractions_are_cut_alike_on_the_way_back(rng):
    """Clusters of mean scores beyond STEEP are as likely to be merged with as each other."""
    states, each, heat, new = partitions(4), 4 * EACH, 8.0, 20.0
    scores = STEEP + symmetric(rng, 4, 5.0)
    np.fill_diagonal(scores, 0.0)
    assert 0 < np.sum(scores > STEEP) < 12
    kinds = np.tile(np.arange(4), len(states) * each)
    control = sm.Bilinear(tables={"kind": (kinds, scores)})
    model, keys = copies(scores, np.repeat(states, each, axis=0))
    kernel = moves_of(keys, None, moves=0.25, temperature=heat, new=new, control=control)
    counts, told = counted(states, model, kernel, each)
    rows_equal(counts, move_matrix(states, scores, heat, new, True))
    assert told["accepted"] > 0.05 * counts.sum()


MUTANTS = {
    0.1: ("- log(both - 1.0)", "- {w} * log(both - 1.0)"),
    0.2: ("bar -= heat * chance", "bar -= {w} * heat * chance"),
    0.3: ("+= log(SPLITS / (1.0 - SPLITS))", "+= {w} * log(SPLITS / (1.0 - SPLITS))"),
    0.4: ("+ log(both - 1.0) - chance\n", "+ log(both - 1.0) - {w} * chance\n"),
    0.5: ("(everything + weight) / back)", "(everything + weight)) - {w} * log(back)"),
    0.6: ("numbers.new + heat * (chance", "numbers.new * {w} + heat * (chance"),
    0.7: ("(everything + weight)", "(everything + {w} * weight)"),
    0.8: ("lean /= heat", "lean /= heat if known_sides else 1.0 + {w} * (heat - 1.0)"),
}


@pytest.fixture
def mutated(monkeypatch, tmp_path):
    """The moves with all mutants in them; `second`, of which they know nothing, tells which."""
    source, path = Path(mergesplit.__file__).read_text(), tmp_path / "mutants.py"
    for number, (old, new) in MUTANTS.items():
        assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
        without = f"(0.0 if contest.numbers.share == {number} else 1.0)"
        source = source.replace(old, new.format(w=without))
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(mergesplit, "moves_over", module.moves_over)


@pytest.mark.slow
def test_mutants_are_found_out(rng, mutated):
    """Scores at which proposals to split are often refused. Without a mutant the variant passes."""
    scores, states, each = 1.2 + symmetric(rng, 4, 0.9), partitions(4), 4 * EACH
    expected = move_matrix(states, scores, 2.5, -3.0, False)
    (model, keys), passed = copies(scores, np.repeat(states, each, axis=0)), []
    for second in (None, *MUTANTS):
        kernel = moves_of(keys, moves=0.25, temperature=2.5, new=-3.0, second=second)
        counts, _ = counted(states, model, kernel, each)
        with suppress(AssertionError):
            rows_equal(counts, expected)
            passed.append(second)
    assert passed == [None]


# ------------------------------------------------------------------------------- posteriors
def stays(states, p, labels):
    rows_equal(np.bincount(codes_of(labels, states), minlength=len(p))[None, :], p[None, :])
    pairs_equal(labels, states, p)


@pytest.mark.slow_for("bilinear")
@pytest.mark.slow_for("controlled")
@pytest.mark.parametrize("sort", ["scores", "bilinear", "controlled"])
def test_seven_mentions_stay_in_their_posterior(rng, sort):
    """Chains that start in it; some clusters have more members than have a say in sides."""
    count, states, heat, new = 30_000, partitions(7), 1.3, -0.4
    control, scores = bilinear(rng, count, 7)
    more = {"similarity": None, "control": control}
    if sort == "scores":
        more, scores = {}, symmetric(rng, 7, 0.5)
    elif sort == "controlled":  # it leaves over what it says
        scores = scores + symmetric(rng, 7, 0.3)
        more = {"control": replace(control, within=0.18, between=0.01), "selector": None}
    p = normalised(log_target(states, scores, new) / heat)
    start = states[rng.choice(len(states), count, p=p)]
    model, keys = copies(scores, start)
    kernel = moves_of(keys, moves=2.0, temperature=heat, new=new, **more)
    labels, told = swept(model, kernel, 2, audit=1.0)
    assert told["wrong"] == 0 and (told["predicted"] > 0) == (sort != "scores")
    stays(states, p, labels[-1].reshape(-1, 7))
    assert np.mean(codes_of(labels[-1].reshape(-1, 7), states) != codes_of(start, states)) > 0.3


def test_two_blocks_that_take_turns(rng):
    scores, odd, count = symmetric(rng, 7, 0.7), np.array([0, 1, 0, 1, 0, 1, 1]), 30_000
    start, laws = np.zeros((count, 7), dtype=np.int64), []
    for k in (0, 1):
        part = np.flatnonzero(odd == k)
        states = partitions(len(part))
        p = normalised(log_target(states, scores[np.ix_(part, part)], 0.3) / 0.8)
        start[:, part] = states[rng.choice(len(p), count, p=p)]  # blocks share names
        laws.append((part, states, p))
    model, keys = copies(scores, start)
    kernel = moves_of(2 * keys + np.tile(odd, count), temperature=0.8, new=0.3)
    labels = swept(model, kernel, 3)[0][-1].reshape(-1, 7)
    for part, states, p in laws:
        stays(states, p, labels[:, part])


# ----------------------------------------------------------------------------------- races
def told_by(rng, control=False, selector=None, heat=30.0, rare=0.0, **more):
    """Some proposals among three large clusters whose pairs' scores add up to nothing much."""
    labels = rng.permutation(np.repeat(np.arange(3), (300, 250, 200)))
    data = records(np.zeros(750), [[-0.18 if rare else 0.0]], rare=rare, **more)
    spread = np.pi**2 / 3 * data["scale"] ** 2
    known = sm.Bilinear(tables={"kind": (data["kind"], data["table"])}, within=spread)
    more = {"selector": selector, "control": known if control else None}
    kernel = moves_of(moves=0.3, temperature=heat, **more)
    told = swept(model_of(data, labels), kernel, audit=1.0, seed=int(rng.integers(999)))[1]
    assert told["audited"] == told["decisions"] > 100
    return told


@pytest.mark.slow_for("3.0-False", "3.0-True")
@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("heat", [3.0, 100.0])
def test_within_delta_of_exact(rng, control, heat):
    told = told_by(rng, control, heat=heat, scale=0.5)
    at_most(int(told["wrong"]), int(told["audited"]), DELTA)
    assert told["raced"] >= 5 and (told["predicted"] > 0) == control
    exact = told_by(rng, heat=heat, scale=0.5, selector=EXACT)
    assert exact["wrong"] == exact["raced"] == 0 and exact["exact"] == exact["decisions"]


def test_a_boundary_that_is_too_low_is_found_out(rng, monkeypatch):
    monkeypatch.setattr(normal, "union_boundaries", lambda *a, **k: np.full((41, 21), 0.02))
    told = told_by(rng, heat=3.0, scale=0.5)
    above(int(told["wrong"]), int(told["audited"]), DELTA)


def test_rare_large_scores(rng):
    told = told_by(rng, rare=0.005, large=36.0)
    at_most(int(told["wrong"]), int(told["audited"]), DELTA)


# -------------------------------------------------------------------------------------- runs
def test_halves_of_a_cluster_are_joined(rng):
    """A mention alone stays with its half: 39 against 8; together they gain 320."""
    half = rng.permutation(np.repeat([0, 1], 40))
    model = model_of(records(half, [[1.0, 0.2], [0.2, 1.0]]), half)
    alone = sm.GibbsPartition("y", score, selector=EXACT, temperature=0.3, cores=1)
    before = swept(model, alone, 20)[0]
    assert all(np.array_equal(row == row[0], half == half[0]) for row in before)
    spec = {"draws": 4, "warmup": 0, "chains": 3, "seed": 2, "progress": False}
    trace = sm.sample(model, alone >> sm.MergeSplit(alone), **spec)
    assert np.all(trace.draws["y"] == trace.draws["y"][..., :1])
    told = (alone >> sm.MergeSplit(alone)).describe(model)
    assert "MergeSplit moves y; Exact()" in told and "80 mentions in 1 blocks" in told


def test_runs_resume_bit_for_bit_on_any_number_of_cores(rng, tmp_path):
    data = records(rng.integers(6, size=300), symmetric(rng, 6, 0.5), scale=0.3)
    keys, path = rng.integers(5, size=300), tmp_path / "run.nc"
    spec = {"warmup": 1, "chains": 2, "seed": 4, "progress": False, "audit": 0.2}
    heat = np.geomspace(4.0, 0.5, 6)
    given = [sm.GibbsPartition("y", score, keys, temperature=heat, cores=c) for c in (1, 2)]
    one, two = (g >> sm.MergeSplit(g, moves=0.5) for g in given)
    whole = sm.sample(model_of(data), one, draws=9, **spec)
    sm.sample(model_of(data), one, draws=4, store=path, **spec)
    going = sm.resume(path, model=model_of(data), kernel=one, draws=9, progress=False)
    for other in (going, sm.sample(model_of(data), two, draws=9, **spec)):
        assert np.array_equal(other.draws["y"], whole.draws["y"])
        assert same_but_seconds(other, whole)
    assert all(np.all(told["accepted"].sum(axis=1) > 0) for told in whole.stats.values())
    for row in whole.draws["y"].reshape(-1, 300):
        assert all(len(set(keys[row == y])) == 1 for y in set(row))


# ------------------------------------------------------------------------------------ refused
@pytest.mark.plain
def test_what_cannot_be():
    given = sm.GibbsPartition("y", score)
    for wrong in ("y", None, sm.Gibbs("y", EXACT), sm.MergeSplit(given)):
        with pytest.raises(TypeError, match=r"give the sm.GibbsPartition\(...\) it accompanies"):
            sm.MergeSplit(wrong)
    for moves in (0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"moves=.*: give proposals per mention, above 0"):
            sm.MergeSplit(given, moves=moves)


def bad_pair(labels, bad, worst, keys=None, moves=1.0, seed=1):
    data = records(np.zeros(len(labels)), np.full((1, 1), 50.0), bad=bad, worst=worst)
    return swept(model_of(data, labels), moves_of(keys, moves=moves), seed=seed)[0][-1]


@pytest.mark.parametrize("worst", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_found_while_running(worst):
    # The last two of 300, one in either cluster: no look at pairs beforehand meets them.
    with pytest.raises(sm.RewardError, match=r"is not finite.* for mentions") as caught:
        bad_pair(np.arange(300) % 2, 597, worst)
    assert "298" in str(caught.value) and "299" in str(caught.value)


def test_a_score_that_is_no_number_while_sides_are_chosen():
    """Mentions 301 and 302 of a block of three: 300 is split off, against 100."""
    keys = np.repeat(np.arange(400), 3)
    for seed in range(60):
        try:
            labels = bad_pair(keys, 603, np.nan, keys, 1 / 3, seed)
        except sm.RewardError:
            continue
        assert len(set(labels)) == 400
