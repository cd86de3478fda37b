"""GibbsPartition: candidate keys of every sort, and what is refused, with which words."""

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition.members import blocks_of, keys_of
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.chain import Program
from tests.helpers.partitions import model_of, records, score, swept

EXACT = sm.Exact()
TOGETHER = np.full((1, 1), 50.0)  # whoever may share a cluster does


def model(size=8, labels=None, **more):
    return model_of(records(np.zeros(size), TOGETHER) | more, labels)


def groups(candidates, given=None):
    """Which mentions end up together when all that may do: the blocks."""
    given = given or model()
    labels = swept(given, sm.GibbsPartition("y", score, candidates, EXACT, cores=1), 3)[0][-1]
    return sorted(np.flatnonzero(labels == y).tolist() for y in np.unique(labels))


# --------------------------------------------------------------------------------- candidates
ABC = [[0, 2], [1], [3], [4, 5, 6], [7]]


@pytest.mark.plain
@pytest.mark.parametrize(
    "keys",
    [
        ["a", None, "a", None, "b", "b", "b", "c"],
        ["a", "", "a", "", "b", "b", "b", "c"],
        np.array(["a", "", "a", "", "b", "b", "b", "c"]),
        np.array(["a", np.nan, "a", None, "b", "b", "b", "c"], dtype=object),
        pd.Series(["a", None, "a", pd.NA, "b", "b", "b", "c"]),
        [3, -1, 3, -7, 5, 5, 5, 0],
        np.array([3, -1, 3, -1, 5, 5, 5, 0], dtype=np.int8),
        [3.5, np.nan, 3.5, None, 0, 0, 0, 9],
        ("Müller", "", "Müller", None, "李", "李", "李", "x"),
        lambda data, i: None if i in (1, 3) else (0 if i in (0, 2) else 1 if i < 7 else 2),
    ],
    ids=["none", "empty", "U", "object", "series", "ints", "int8", "floats", "unicode", "function"],
)
def test_keys(keys):
    assert groups(keys) == ABC


@pytest.mark.plain
def test_a_field_of_the_data_holds_the_keys():
    given = model(block=np.array([3, -1, 3, -1, 5, 5, 5, 0]))
    assert groups("block", given) == ABC


@pytest.mark.plain
def test_no_candidates_at_all_and_all_of_them():
    assert groups([None] * 8) == [[i] for i in range(8)]
    assert groups(None) == [list(range(8))]
    assert groups([7] * 8) == [list(range(8))]
    assert groups(None, model(1)) == [[0]]
    kernel = sm.GibbsPartition("y", score, [None] * 8, cores=1)
    _, told = swept(model(), kernel, 2, audit=1.0)
    assert told["alone"] == told["decisions"] == 16 and told["pulls"] == told["audited"] == 0


@pytest.mark.plain
def test_blocks_are_sorted_and_every_mention_is_in_one(rng):
    keys = keys_of(rng.choice(["a", "b", "", "c"], 50), model(50))
    order, start = blocks_of(keys)
    assert sorted(order) == list(range(50)) and start[0] == 0 and start[-1] == 50
    for b in range(len(start) - 1):
        mine = order[start[b] : start[b + 1]]
        assert np.all(np.diff(mine) > 0) and len(set(keys[mine])) == 1
        assert len(mine) == 1 or keys[mine[0]] >= 0
    assert (np.diff(start) == 1).sum() >= (keys < 0).sum()


@pytest.mark.plain
def test_labels_that_blocks_share_are_told_apart(rng):
    """One label for all: every block starts as one cluster; then 0 1 0 1 ...: as two."""
    keys = np.array([2, 0, 1, 0, 2, 1, 0, 2])
    cold = sm.GibbsPartition("y", score, keys, EXACT, temperature=1e-6, cores=1)
    apart = np.full((1, 1), -50.0)
    for given in (np.zeros(8, dtype=int), np.arange(8) % 2, np.full(8, 7)):
        labels = swept(model(8, given), cold, 1)[0][0]
        assert all(len(set(labels[keys == k])) == 1 for k in range(3))
        assert len(set(labels)) == 3
        labels = swept(model_of(records(np.zeros(8), apart), given), cold, 1)[0][0]
        assert len(set(labels)) == 8 and set(labels) == set(range(8))


@pytest.mark.plain
def test_clusters_never_span_blocks(rng):
    size = 40 if DISABLED else 400
    keys = rng.integers(-1, 12, size)
    data = records(rng.integers(3, size=size), rng.normal(size=(1, 1)) * np.ones((3, 3)), scale=2.0)
    labels, _ = swept(
        model_of(data), sm.GibbsPartition("y", score, keys, temperature=3.0, cores=1), 6
    )
    for row in labels:
        owner = {}
        for y, key, i in zip(row, keys, range(size), strict=True):
            assert owner.setdefault(y, key if key >= 0 else (i,)) == (key if key >= 0 else (i,))


# ------------------------------------------------------------------------------------ refused
def refused(error, words, given=None, block="y", **more):
    with pytest.raises(error, match=words):
        Program(given or model(), sm.GibbsPartition(block, **({"similarity": score} | more)))


NORMAL = sm.Normal(paired=False)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"temperature": 0.0}, "temperature=0.0: give a positive number, or an array"),
        ({"temperature": [1.0, -1.0]}, "give a positive number"),
        ({"temperature": []}, "give a positive number"),
        ({"temperature": np.inf}, "give a positive number"),
        ({"scan": "sorted"}, "scan='sorted': it must be \"random\" or \"fixed\""),
        ({"second": 1.0}, "second=1.0: give a share"),
        ({"second": 0}, "second=0: give a share"),
        ({"new": np.nan}, "new=nan: give the finite score"),
        ({"new": -np.inf}, "new=-inf: give the finite score"),
        ({"cores": 0}, "cores=0: give how many"),
        ({"cores": 1.5}, "cores=1.5: give how many"),
        ({"selector": sm.Racing(sm.Betting(spread=1.0))}, r"give sm.Racing\(sm.Normal\(paired=Fal"),
        ({"selector": sm.Racing()}, "compares arms row by row"),
        ({"selector": sm.LilUCB()}, r"give sm.Racing\(sm.Normal\(paired=False\)\)"),
        ({"candidates": [1, 2, 3]}, r"candidates have shape \(3,\): give one key for each of 8"),
        ({"candidates": "surname"}, "candidates='surname' is no field of the data"),
    ],
)  # fmt: skip
def test_values_that_cannot_be(more, words):
    refused(ValueError, words, **more)


class Abandoning(sm.extend.Selector):
    """An exact selector of a user's own that does not read everything."""


@pytest.mark.plain
def test_a_selector_that_would_not_be_asked_is_refused():
    refused(ValueError, r"give sm.Racing\(sm.Normal\(paired=False\)\)", selector=Abandoning())


@pytest.mark.plain
def test_types_that_cannot_be():
    refused(TypeError, "selector='exact': give sm.Exact", selector="exact")
    refused(TypeError, "needs a control variate that is the score", similarity=None)
    refused(TypeError, r"control=3: give an sm.Bilinear", control=3)
    refused(TypeError, "is not a Python function", similarity=3)


def asymmetric(data, i, j):
    return 1.0 if i < j else 0.0


def of_two(data, i):
    return 0.0


def uncompilable(data, i, j):
    return float(len({}.items()))


@pytest.mark.plain
def test_similarities_that_cannot_be():
    refused(ValueError, r"similarity is .* for mentions \(\d+, \d+\).*must be symmetric",
            similarity=asymmetric)  # fmt: skip
    refused(TypeError, "similarity takes 2 arguments: give similarity", similarity=of_two)
    if not DISABLED:
        refused(sm.CompileError, "uncompilable", similarity=uncompilable)


@pytest.mark.plain
@pytest.mark.parametrize("worst", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("selector", [None, EXACT], ids=["race", "exact"])
def test_a_score_that_is_no_number_is_found_at_once(worst, selector):
    given = model_of(records(np.zeros(2), TOGETHER, bad=1, worst=worst))
    refused(sm.RewardError, f"similarity is {worst} for mentions", given, selector=selector)


def run_with(size, bad, worst, **more):
    given = model_of(records(np.zeros(size), TOGETHER, bad=bad, worst=worst))
    kernel = sm.GibbsPartition("y", score, scan="fixed", cores=1, **more)
    return sm.sample(given, kernel, draws=3, warmup=0, chains=1, seed=1, progress=False)


@pytest.mark.parametrize("worst", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("more", [{"selector": EXACT}, {}], ids=["exact", "race"])
def test_a_score_that_is_no_number_is_found_while_running(worst, more):
    # Only the last two of 300 add up to 597: neither the first look at pairs nor the pilot's meet.
    with pytest.raises(
        sm.RewardError, match="is not finite, or beyond 1e100, for mentions"
    ) as caught:
        run_with(300, 597, worst, **more)
    found = str(caught.value)
    assert "298" in found and "299" in found and "give different candidate keys" in found


@pytest.mark.plain
def test_models_that_cannot_be():
    data = records(np.zeros(8), TOGETHER)

    def made(state, support, likelihood=None, prior=None):
        return sm.Model(likelihood, data, state, log_prior=prior, support=support)

    shape = made({"y": np.arange(7)}, {"y": 8})
    refused(ValueError, r"block 'y' has shape \(7,\); it must be integers", shape)
    refused(ValueError, "it must be integers, one label", made({"y": np.zeros(8)}, {}))
    refused(ValueError, "as many clusters as mentions: give 8",
            made({"y": np.arange(7).repeat([2, 1, 1, 1, 1, 1, 1])}, {"y": 7}))  # fmt: skip
    refused(ValueError, "no block of", block="labels")
    flat = records(np.zeros(8), np.zeros((8, 8)))
    of_data = sm.Model(zero, {"kind": flat["kind"]}, {"y": np.arange(8)}, support={"y": 8})
    refused(ValueError, r"leave out the model's log_likelihood: give sm.Model\(None", of_data)
    refused(ValueError, "log_prior depends on the labels.*price per cluster into new",
            made({"y": np.arange(8)}, {"y": 8}, prior=by_labels))  # fmt: skip
    Program(made({"y": np.arange(8)}, {"y": 8}, prior=by_nothing), sm.GibbsPartition("y", score))


def zero(state, data, n):
    return 0.0


def by_labels(state):
    total = 0.0
    for i in range(len(state.y)):
        total += 0.1 * state.y[i]
    return total


def by_nothing(state):
    return -1.5


@pytest.mark.plain
@pytest.mark.parametrize(
    "kernel", [sm.Gibbs("y", EXACT), sm.Metropolis("mu", 0.1, selector=EXACT)], ids=["y", "mu"]
)
def test_other_kernels_need_a_likelihood(kernel):
    start = {"y": np.arange(8), "mu": 0.0}
    given = sm.Model(None, records(np.zeros(8), TOGETHER), start, support={"y": 8})
    both = sm.GibbsPartition("y", score) >> kernel
    with pytest.raises(ValueError, match=r"the model has none: sm.Model\(None, \.\.\.\)"):
        Program(given, both)


@pytest.mark.plain
def test_a_model_without_likelihood_is_as_long_as_its_first_array():
    given = sm.Model(None, {"id": np.arange(5), "token": np.arange(99)}, {"y": np.arange(5)},
                     support={"y": 5})  # fmt: skip
    assert given.size == 5 and "no log_likelihood" in repr(given)
    for data in ({"weight": 2.0, "id": np.arange(5)}, {"id": np.zeros(0)}):
        with pytest.raises(ValueError, match=r"log_likelihood=None.*first"):
            sm.Model(None, data, {"y": np.arange(5)}, support={"y": 5})


@pytest.mark.plain
def test_a_control_of_another_size():
    table = (np.zeros(5, dtype=int), np.eye(1))
    refused(ValueError, "table 'year' is of 5 mentions, the model has 8: use `of",
            control=sm.Bilinear(tables={"year": table}))  # fmt: skip
    tokens = (np.arange(6), np.arange(5), np.ones(5), 1.0)
    refused(ValueError, "tokens 'title' are of 5 mentions, the model has 8: use `of",
            control=sm.Bilinear(tokens={"title": tokens}))  # fmt: skip


# ------------------------------------------------------------------------ odd keys and scores
@pytest.mark.plain
def test_a_matrix_of_keys():
    refused(ValueError, r"candidates have shape \(8, 2\)", candidates=np.zeros((8, 2)))


@pytest.mark.plain
def test_negative_keys_beside_missing_ones():
    assert groups([3, -1, 3, None, 5, 5, 5, -1]) == [[0, 2], [1], [3], [4, 5, 6], [7]]


@pytest.mark.plain
def test_scores_whose_sum_overflows():
    """Each is finite; the sweep must go on, or say so."""
    given = model_of(records(np.zeros(6), np.full((1, 1), -1e308)), np.zeros(6))
    try:
        labels, told = swept(given, sm.GibbsPartition("y", score, selector=EXACT, cores=1))
    except sm.RewardError:
        return
    assert told["decisions"] == 6 and len(set(labels[0])) == 6


# ----------------------------------------------------------------------- what is silently wrong
def level(data, i, j):
    return 0.2


PAIRED = {
    "must be together": lambda state: 0.0 if state.y[0] == state.y[1] else -1000.0,
    "must be apart": lambda state: -1000.0 if state.y[0] == state.y[1] else 0.0,
}


def handed_on(labels):
    return -1000.0 if labels.y[0] == labels.y[1] else 0.0


@pytest.mark.plain
@pytest.mark.parametrize("name", [*PAIRED, "handed on"])
def test_a_prior_of_two_labels_is_refused(name):
    """Of labels drawn at random almost all have the same prior."""
    prior = PAIRED.get(name, lambda state: 1.0 * handed_on(state))
    data, state = {"x": np.arange(40.0)}, {"y": np.arange(40)}
    given = sm.Model(None, data, state, prior, support={"y": 40})
    with pytest.raises(ValueError, match="log_prior depends on the labels"):
        sm.GibbsPartition("y", level, selector=EXACT).check(given)


def flagged(data, i, j):
    return 0.5 - 0.25 * 2 ** (data.flag[i] - data.flag[j])


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("split", [False, True])
def test_a_score_that_is_another_one_where_it_is_compiled_is_refused(split):
    """2 ** -1 is 0 where it is compiled: of 400 mentions three have a flag."""
    flags = np.zeros(400, dtype=int)
    flags[[17, 55, 301]] = 1
    kernel = sm.GibbsPartition("y", flagged, selector=EXACT)
    kernel = sm.MergeSplit(kernel) if split else kernel

    def run(column):
        given = sm.Model(None, {"flag": column}, {"y": np.arange(400)}, support={"y": 400})
        return sm.sample(given, kernel, 2, 1, chains=1, seed=1, progress=False)

    with pytest.raises(ValueError, match=r"similarity of mentions .* where it is compiled"):
        run(flags)
    run(flags.astype(float))
