"""Kernels of one partition leave one law fixed: others are refused, and controls of others."""

import re
from dataclasses import replace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition.members import Blocks, blocks_of, canonical, relabel

SIZE = 60


def similarity(data, i, j):
    return 0.5 * data.table[data.kind[i], data.kind[j]] + 0.3 * data.x[i] * data.x[j]


def biased(data, i, j):
    return similarity(data, i, j) + 0.8


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    table = rng.normal(size=(4, 4))
    return {"kind": rng.integers(4, size=SIZE), "x": rng.normal(size=SIZE),
            "table": np.broadcast_to(table + table.T, (SIZE, 4, 4))[0]}  # fmt: skip


def model_of(data):
    rest = {k: v for k, v in data.items() if k != "table"}
    return sm.Model(
        None, {**rest, "table": data["table"]}, {"y": np.arange(SIZE)}, support={"y": SIZE}
    )


def sampled(data, kernel):
    return sm.sample(model_of(data), kernel, 5, 3, chains=1, seed=1, progress=False)


KEYS = np.arange(SIZE) % 3


@pytest.mark.parametrize(("other", "words"), [
    ({}, "different candidates"),
    ({"candidates": KEYS[::-1].copy()}, "different candidates"),
    ({"candidates": KEYS, "new": -2.0}, "different new"),
    ({"candidates": KEYS, "temperature": 2.0}, "different temperature"),
    ({"candidates": KEYS, "similarity": biased}, "different similarity"),
    ({"candidates": "kind", "new": 1.0}, "different candidates and new"),
])  # fmt: skip
def test_two_targets_are_refused(data, other, words):
    own = sm.GibbsPartition("y", similarity, KEYS, selector=sm.Exact())
    second = sm.GibbsPartition("y", **{"similarity": similarity} | other)
    with pytest.raises(ValueError, match=words):
        sampled(data, own >> second)
    with pytest.raises(ValueError, match=words):
        sampled(data, own >> sm.MergeSplit(second))
    with pytest.raises(ValueError, match=words):
        sampled(data, sm.mixture((sm.MergeSplit(own), 0.5), (second, 0.5)))


def test_ways_to_decide_may_differ(data):
    own = sm.GibbsPartition("y", similarity, KEYS, selector=sm.Exact())
    heat = np.geomspace(4.0, 1.0, 3)
    other = sm.GibbsPartition("y", similarity, KEYS.copy(), scan="fixed", temperature=heat)
    assert sampled(data, own >> other >> sm.MergeSplit(own)).shape == (1, 5)


def test_draws_that_are_kept_while_it_cools_are_told(data):
    """Three sweeps of warm-up, and a schedule that comes to 1 after seven: four hot draws."""
    heat = np.r_[np.full(7, 8.0), 1.0]
    own = sm.GibbsPartition("y", similarity, KEYS, selector=sm.Exact(), temperature=heat)
    with pytest.warns(UserWarning, match=r"comes to 1 after 7 iterations.*warmup=3.*warmup=7"):
        report = sampled(data, own >> sm.MergeSplit(own)).report()
    told = "tempered, these draws are not the posterior's"
    assert re.search(rf"\by\b.*: {told}", report.verdict.given_up)
    # Moves that go with a schedule of their own, beside draws at temperature 1.
    cold = sm.GibbsPartition("y", similarity, KEYS, selector=sm.Exact())
    with pytest.warns(UserWarning, match=r"MergeSplit.*comes to 1 after 7 iterations"):
        report = sampled(data, cold >> sm.MergeSplit(own)).report()
    assert told in report.verdict.given_up


# --------------------------------------------------------------- a control that is of other scores
def control_of(data, **more):
    return sm.Bilinear.fit(
        similarity, data, {}, {"kind": (data["kind"], "free")}, pairs=4_000, **more
    )


def refused(data, control, score=similarity):
    kernel = sm.GibbsPartition("y", score, control=control)
    for one in (kernel, sm.MergeSplit(kernel)):
        with pytest.raises(ValueError, match="control does not fit this similarity"):
            sampled(data, one)


def test_a_control_of_these_scores_is_taken(data):
    control = control_of(data)
    assert sampled(data, sm.GibbsPartition("y", similarity, control=control)).shape == (1, 5)
    exact = sm.GibbsPartition("y", biased, control=control, selector=sm.Exact())
    assert sampled(data, exact).shape == (1, 5)  # which it does not use


def test_controls_of_other_scores_are_refused(data):
    """Of mentions in another order, of a score with another bias, and one that says it is all."""
    control = control_of(data)
    codes, table = control.tables["kind"]
    refused(data, replace(control, tables={"kind": (codes[::-1].copy(), table)}))
    refused(data, control, biased)
    refused(data, sm.Bilinear(tables={"kind": (data["kind"], np.eye(4))}))
    refused(data, replace(control, between=0.0, within=0.0))


def test_categories_that_no_pair_had_are_noticed(data):
    """Their scores are 0, or what the nearest say, and the control would be sure of them."""

    def by_kind(data, i, j):
        return 2.0 * data.table[data.kind[i], data.kind[j]]

    some = {**data, "kind": np.minimum(data["kind"], 2)}
    fitted = sm.Bilinear.fit(by_kind, some, {}, {"kind": (np.where(some["kind"] == 2, -1, some[
        "kind"]), "free")}, pairs=4_000)  # fmt: skip
    wide = replace(
        fitted, tables={"kind": (data["kind"], np.pad(fitted.tables["kind"][1], (0, 2)))}
    )
    by_hand = replace(wide, between=1e-9, within=1e-9, learnt=None)  # it knows of no fit
    refused(data, by_hand, by_kind)


@pytest.mark.parametrize("name", ["reach", "between", "within"])
def test_what_a_control_leaves_is_finite(name):
    tables = {"kind": (np.zeros(3, int), np.eye(1))}
    for value in (np.inf, np.nan, -1.0):
        with pytest.raises(ValueError, match="must be 0 or more, and finite"):
            sm.Bilinear(tables=tables, **{name: value})


# ------------------------------------------------------------------------------------------- labels
@pytest.mark.parametrize("top", [2**62, 2**53, 7])
def test_hashes_may_be_labels(top, rng):
    keys = rng.integers(2_000, size=5_000)
    labels = rng.integers(top, size=5_000)
    labels[rng.integers(5_000, size=2_000)] = labels[0]
    blocks: Blocks = blocks_of(keys)
    before = labels.copy()
    relabel(labels, blocks)
    assert canonical(labels, blocks)
    pairs = {
        (k, a): b for k, a, b in zip(keys.tolist(), before.tolist(), labels.tolist(), strict=True)
    }
    assert len(set(pairs.values())) == len(pairs) == len(np.unique(labels))
    assert all(pairs[k, a] == b for k, a, b in zip(keys, before, labels, strict=True))


def test_rows_of_a_batch_are_not_to_be_changed(data):
    def sorting(data, i, rows, out):
        rows.sort()
        for k in range(len(rows)):
            out[k] = similarity(data, i, rows[k])

    with pytest.raises(ValueError, match="read-only"):
        sampled(data, sm.GibbsPartition("y", sorting))
