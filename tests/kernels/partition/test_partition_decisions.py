"""Decisions between clusters: raced ones against exact ones under the same Gumbels; boundaries.

A decision is wrong with probability at most delta whatever happened before it, so that the number
of wrong ones is at most binomial, though every decision changes the partition of the next.
"""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules import normal
from subsample_mcmc.decisions.rules.normal import union_boundaries
from subsample_mcmc.kernels.partition.cluster_race import (
    ContestNumbers,
    boundary,
    looks_before_all,
    next_target,
)
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.numerics.jit import DISABLED, jit
from tests.helpers.claims import above, at_most, below
from tests.helpers.partitions import model_of, records, score, swept

DELTA = 0.05
SIZES = (3000, 1500, 700, 300, 120, 50, 20, 8, 4, 3, 2, 1, 1, 1)
SMALL = (40, 12, 5, 3, 2, 1, 1)
PAPER = sm.Racing(sm.Normal(paired=False, side="eq27", prior=0.0), delta=DELTA, batch=3)
KINDS = 12


def scores_of(rng, sort, sizes=SIZES):
    """A partition with these sizes, in random order, and scores of its pairs.

    smooth: by kinds, plus noise. mixture: most pairs equal, a few large, as where few share a
    coauthor: members read first are often all equal.
    """
    size = sum(sizes)
    table = rng.normal(size=(KINDS, KINDS)) * 0.35
    table = table + table.T if sort == "smooth" else np.full((KINDS, KINDS), -0.2)
    more = {"scale": 1.0} if sort == "smooth" else {"rare": 0.03, "large": 6.0}
    data = records(rng.integers(KINDS, size=size), table, **more)
    return data, rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def told_by(data, labels, temperature, **more):
    kernel = sm.GibbsPartition("y", score, temperature=temperature, **more)
    return swept(model_of(data, labels), kernel, audit=1.0)[1]


def known_part(data):
    """The kinds' part of the score, and what the noise leaves over, the same in all clusters."""
    p, mean = data["rare"], data["rare"] * data["large"]
    within = data["scale"] ** 2 * np.pi**2 / 3 + p * (1.0 - p) * data["large"] ** 2
    tables = {"kind": (data["kind"], data["table"])}
    return sm.Bilinear(tables=tables, constant=mean, within=within)


def agrees(told, at_least_saved):
    assert told["audited"] == told["decisions"]
    at_most(int(told["wrong"]), int(told["audited"]), DELTA)
    assert told["pulls"] < at_least_saved * told["everything"]


# ---------------------------------------------------------------------------------- decisions
# At a temperature of 300 the first sweep breaks large clusters up: all sizes meet.
@pytest.mark.slow
@pytest.mark.parametrize("sort", ["smooth", "mixture"])
@pytest.mark.parametrize(("temperature", "saved"), [(1.0, 0.9), (300.0, 0.2)])
def test_within_delta_of_exact(rng, sort, temperature, saved):
    data, labels = scores_of(rng, sort)
    told = told_by(data, labels, temperature)
    agrees(told, saved)
    assert told["regret"] <= told["wrong"] * 400.0
    exact = told_by(data, labels, temperature, selector=sm.Exact())
    assert exact["wrong"] == 0 and exact["audited"] == exact["decisions"] == len(labels)
    assert exact["pulls"] == exact["everything"] == len(labels) * (len(labels) - 1)


@pytest.mark.parametrize(("temperature", "saved"), [(1.0, 0.5), (300.0, 0.3)])
def test_within_delta_of_exact_with_a_control_variate(rng, temperature, saved):
    data, labels = scores_of(rng, "smooth")
    told = told_by(data, labels, temperature, control=known_part(data))
    agrees(told, saved)
    assert told["predicted"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("sort", ["smooth", "mixture"])
@pytest.mark.parametrize("controlled", [False, True])
def test_within_delta_of_exact_many_times(rng, sort, controlled):
    wrong = audited = 0
    for temperature in (0.5, 3.0, 30.0, 100.0, 300.0):
        for _ in range(2):
            data, labels = scores_of(rng, sort)
            more = {"control": known_part(data)} if controlled else {}
            told = told_by(data, labels, temperature, **more)
            wrong, audited = wrong + int(told["wrong"]), audited + int(told["audited"])
    at_most(wrong, audited, DELTA)


@pytest.mark.slow
def test_the_papers_rule_runs_and_lets_equal_scores_pass_for_certainty(rng):
    """A mean of three equal scores: without a prior its error is 0."""
    data, labels = scores_of(rng, "mixture")
    ours, papers = (
        told_by(data, labels, 1.0),
        told_by(data, labels, 1.0, selector=PAPER, second=0.1),
    )
    assert papers["pulls"] < ours["pulls"]
    above(int(papers["wrong"]), int(papers["audited"]), DELTA)
    at_most(int(ours["wrong"]), int(ours["audited"]), DELTA)


def test_a_boundary_that_is_too_low_is_found_out(rng, monkeypatch):
    """The mutant's boundary is .5 standard errors."""
    monkeypatch.setattr(normal, "union_boundaries", lambda *a, **k: np.full((41, 21), 0.5))
    data, labels = scores_of(rng, "smooth")
    told = told_by(data, labels, 1.0)
    above(int(told["wrong"]), int(told["audited"]), DELTA)
    with pytest.raises(AssertionError, match="contradicts"):
        agrees(told, 1.0)


def test_a_control_variate_that_claims_too_much_is_found_out(rng, monkeypatch):
    """It says that it leaves a hundredth of what it leaves: refused, and else wrong."""
    data, labels = scores_of(rng, "smooth")
    honest = known_part(data)
    bold = sm.Bilinear(tables=honest.tables, within=honest.within / 100)
    with pytest.raises(ValueError, match="control does not fit this similarity"):
        told_by(data, labels, 30.0, control=bold)
    monkeypatch.setattr(GibbsPartition, "compare", lambda self, model: None)
    told = told_by(data, labels, 30.0, control=bold)
    above(int(told["wrong"]), int(told["audited"]), DELTA)
    assert told["pulls"] < told_by(data, labels, 30.0, control=honest)["pulls"]


@pytest.mark.plain
def test_exact_decisions_are_audited_as_right(rng):
    data, labels = scores_of(rng, "smooth", SMALL if DISABLED else SIZES[3:])
    keys = rng.integers(3, size=len(labels))
    told = told_by(data, labels, 2.0, selector=sm.Exact(), candidates=keys, cores=1)
    assert told["wrong"] == 0 and told["audited"] == told["decisions"] == len(labels)
    assert told["margin"] > 0.0


# ------------------------------------------------------------------------------------- looks
@jit
def schedule(numbers, size, out):
    """Members read after every look."""
    count, drawn = 0, 0
    while drawn < size:
        drawn = next_target(numbers, size, drawn)
        out[count] = drawn
        count += 1
    return count, looks_before_all(numbers, size)


@jit
def bound_of(numbers, size, rivals):
    return boundary(numbers, size, rivals)


def numbers_with(share, growth=2.0, delta=DELTA, split=True):
    bounds = union_boundaries(delta, split=split)
    return ContestNumbers(3, share, growth, 1.0, 1.0, 0.0, bounds)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("size", "share", "expected"),
    [
        (1, 0.1, [1]),
        (3, 0.1, [3]),
        (4, 0.1, [4]),  # one left unread would cost a look of its own
        (5, 0.1, [3, 5]),
        (103, 0.1, [3, 13, 26, 52, 103]),  # as in the paper: three, a tenth, twice as many, ...
        (1000, -1.0, [3, 102, 204, 408, 816, 1000]),
        (2003, -1.0, [3, 23, 46, 92, 184, 368, 736, 1472, 2003]),
    ],
)
def test_how_many_members_each_look_reads(size, share, expected):
    out = np.zeros(100, dtype=np.int64)
    # 103 members: after 52 come 104, all of them.
    count, before = schedule(numbers_with(share), size, out)
    assert out[:count].tolist() == expected and before == count - 1


@pytest.mark.plain
def test_the_boundary_of_a_race():
    numbers = numbers_with(0.1)
    for rivals, counted in ((1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024)):
        found = bound_of(numbers, 103, rivals)
        assert found == pytest.approx(stats.norm.isf(DELTA / 4 / counted), rel=1e-12)
    assert bound_of(numbers, 4, 10) == 0.0  # all are read at once
    paper = numbers_with(0.1, split=False)
    for rivals in (1, 50):
        assert bound_of(paper, 103, rivals) == pytest.approx(stats.norm.isf(DELTA / 4), rel=1e-12)


@pytest.mark.plain
def test_union_boundaries():
    found = union_boundaries(0.05, 12)
    assert found.shape == (13, 21) and np.all(found[0] == 0.0)
    for k in (1, 5, 12):
        for c in (0, 3, 20):
            assert stats.norm.sf(found[k, c]) == pytest.approx(0.05 / k / 2**c, rel=1e-9)
    printed = union_boundaries(0.05, 12, split=False)
    assert printed.shape == (13, 1) and np.array_equal(printed[:, 0], found[:, 0])
    assert np.all(union_boundaries(0.9, 3)[1, 0] == 0.0)  # never below 0


# ------------------------------------------------------------ the same rule for lists of rewards
def three_lists(rng):
    """The first list is the best, because of a fifth of its rewards; the last one varies widely."""
    rare, wide = np.zeros(2000), 9.0 * rng.normal(size=2000)
    rare[:400] = 6.0
    lists = [rng.permutation(rare), 0.5 + 0.01 * rng.normal(size=2000), wide - wide.mean() + 0.4]
    assert np.argmax([x.sum() for x in lists]) == 0
    return lists


def choices(rng, prior, side):
    rule = sm.Normal(paired=False, side=side, prior=prior)
    racing = sm.Racing(rule, delta=DELTA, batch=3, retreat=False)
    lists, count = three_lists(rng), 2000
    found = [sm.choose(lists, selector=racing, seed=s) for s in range(count)]
    return sum(int(c.arm) != 0 for c in found), count


@pytest.mark.slow
@pytest.mark.parametrize("side", ["eq27", "table1"])
def test_a_prior_keeps_three_equal_draws_from_passing_for_certainty(rng, side):
    wrong, count = choices(rng, 0.0, side)
    above(wrong, count, 0.25)  # half of the first looks meet three zeros
    wrong, count = choices(rng, 1.0, side)
    below(wrong, count, 0.15)  # its promise is asymptotic


@pytest.mark.plain
def test_eq27_is_looser_than_what_shares_delta_among_arms(rng):
    """One column, no share: B = the quantile of delta / looks; larger budgets, lower boundaries."""
    from subsample_mcmc.decisions.rules.bnormal import read_boundary
    from subsample_mcmc.target.population import Shape

    shape = Shape(sizes=(2000,) * 8, shared=False)
    params = sm.Normal(paired=False, side="eq27").params(shape, 0.05, 3, 2.0)
    # 3, 6, ... 1536 of 2000: ten looks.
    assert read_boundary(params.line, 3 / 2000, 2.0) == pytest.approx(stats.norm.isf(0.005))
    assert read_boundary(params.line, 1.0, 2.0) == 0.0
    shared = sm.Normal(paired=False, side="eq5").params(shape, 0.05, 3, 2.0)
    assert read_boundary(shared.line, 3 / 2000, 2.0) > read_boundary(params.line, 3 / 2000, 2.0)


@pytest.mark.plain
@pytest.mark.parametrize("given", [{"side": "eq28"}, {"prior": -1.0}, {"prior": np.inf}])
def test_refused(given):
    with pytest.raises(ValueError, match=r"eq27|0 or more"):
        sm.Normal(paired=False, **given)


def test_clusters_ruled_out_unread_have_been_left_early():
    """Else a report would call the kernel exact, and audits would bound its errors by 0."""
    colour, noise = np.repeat(np.arange(4), 15), 0.05 * np.random.default_rng(0).normal(size=60)

    def similarity(data, i, j):
        return (3.0 if data.c[i] == data.c[j] else -3.0) + data.z[i] + data.z[j]

    model = sm.Model(None, {"c": colour, "z": noise}, state={"y": np.arange(60)}, support={"y": 60})
    tables = {"c": (colour, np.where(np.eye(4) > 0, 3.0, -3.0))}
    control = sm.Bilinear(tables=tables, between=0.01, within=0.01)
    kernel = sm.GibbsPartition("y", similarity, control=control)
    trace = sm.sample(model, kernel, draws=20, warmup=5, chains=1, seed=1, progress=False)
    told = trace.stats["y"]
    assert told["predicted"].sum() > 0 and told["early"].sum() >= told["predicted"].sum()
