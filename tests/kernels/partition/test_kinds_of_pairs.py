"""Kinds of pairs that a fitted control variate has seen: those it has not it must not serve."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition import bilinear
from subsample_mcmc.kernels.partition.categories import (
    ENOUGH,
    PairKinds,
    columns_of,
    possible,
    rare_pairs,
)
from subsample_mcmc.kernels.partition.members import blocks_of

SIZE = 300


def by_year(data, i, j):
    return 1.0 - 0.5 * abs(data.year[i] - data.year[j])


def by_level(data, i, j):
    if data.kind[i] != data.kind[j]:
        return -4.0
    return 3.0 if data.kind[i] == 3 else -2.0


def by_place(data, i, j):
    if data.kind[i] < 0 or data.kind[j] < 0:
        return -3.0
    return 1.0 if data.kind[i] == data.kind[j] else -2.0


def sampled(data, kernel):
    labels = np.arange(len(next(iter(data.values()))))
    model = sm.Model(None, data, {"y": labels}, support={"y": len(labels)})
    return sm.sample(model, kernel, draws=5, warmup=0, chains=1, seed=1, progress=False)


def years():
    learn = np.random.default_rng(0).integers(2000, 2004, SIZE)
    serve = learn.copy()
    serve[[7, 50]] = 2010
    return learn, serve


# --------------------------------------------------------------------------- other mentions
@pytest.mark.parametrize("similarity", [by_year, None])
def test_gaps_that_no_pair_had_are_refused(similarity):
    learn, serve = years()
    fitted = sm.Bilinear.fit(by_year, {"year": learn}, {}, {"year": (learn, "gap")})
    assert sampled({"year": learn}, sm.GibbsPartition("y", similarity, control=fitted)).shape == (
        1,
        5,
    )
    control = fitted.of({}, {"year": serve})
    kernel = sm.GibbsPartition("y", similarity, control=control)
    told = r"by 'year', of two mentions that are 7 apart \(mentions \d+ and (7|50)\)"
    with pytest.raises(ValueError, match=told):
        sampled({"year": serve}, kernel)
    if similarity is not None:
        with pytest.raises(ValueError, match=told):
            sampled({"year": serve}, sm.MergeSplit(kernel))
    # Keys by which they share no cluster with others.
    keys = (serve == 2010).astype(int)
    apart = sm.GibbsPartition("y", similarity, keys, control=control)
    assert sampled({"year": serve}, apart).shape == (1, 5)


@pytest.mark.parametrize(("score", "kind", "fitted", "served", "words"), [
    (by_level, "free", [0, 1, 3], [0, 1, 2, 3], "of categories 2 and 2"),
    (by_place, "same", [0, 1, 2], [0, 1, 2, -1], "of which one has none"),
    (by_place, "same", [0, -1], [0, 1, -1], "that have different ones"),
])  # fmt: skip
def test_other_kinds_are_refused_too(score, kind, fitted, served, words):
    one, other = np.resize(fitted, SIZE), np.resize(served, SIZE)
    made = sm.Bilinear.fit(score, {"kind": one}, {}, {"kind": (one, kind)})
    control = made.of({}, {"kind": other})
    with pytest.raises(ValueError, match=words):
        sampled({"kind": other}, sm.GibbsPartition("y", None, control=control))
    own = sm.Bilinear.fit(score, {"kind": other}, {}, {"kind": (other, kind)})
    for i, j in ((0, 1), (0, len(served)), (2, 2 + len(served)), (2, 3)):
        assert own.value(i, j) == pytest.approx(score(_Data(other), i, j), abs=1e-9)


class _Data:
    def __init__(self, kind):
        self.kind = kind


# ------------------------------------------------------------------------------- its own mentions
def rare(seed):
    kind = np.random.default_rng(0).integers(0, 3, 1500)
    kind[[100, 900]] = 3
    made = sm.Bilinear.fit(
        by_level, {"kind": kind}, {}, {"kind": (kind, "free")}, pairs=20_000, seed=seed
    )
    return made.value(100, 900)


@pytest.mark.parametrize("seed", range(4))
def test_a_pair_of_a_rare_kind_is_scored(seed):
    assert rare(seed) == pytest.approx(3.0, abs=1e-9)


def test_without_more_pairs_it_is_not_known(monkeypatch):
    """The one pair of 1,124,250 is among 20,000 once in 56 times; its coefficient was 0."""
    monkeypatch.setattr(bilinear, "rare_pairs", lambda *given: (given[3][:0], given[3][:0]))
    with pytest.raises(ValueError, match=r"of categories 3 and 3 \(mentions 100 and 900\)"):
        rare(0)
    monkeypatch.setattr(bilinear, "refuse_unseen", lambda *given: None)
    assert max(rare(seed) for seed in range(4)) < 0.0


def brute_force(keys, codes, kinds):
    """Pairs (i < j) by kind."""
    found = {}
    for i in range(len(codes)):
        for j in range(i + 1, len(codes)):
            if keys[i] == keys[j]:
                number = int(kinds.numbers(codes[i : i + 1], codes[j : j + 1])[0])
                found.setdefault(number, []).append((i, j))
    return found


@pytest.mark.parametrize("kind", ["same", "gap", "free", "given"])
@pytest.mark.parametrize("seed", range(3))
def test_kinds_are_those_of_all_pairs(kind, seed):
    rng = np.random.default_rng(seed)
    codes = rng.choice([-1, 0, 1, 2, 5, 9], 40, p=[0.1, 0.3, 0.3, 0.2, 0.05, 0.05])
    keys = rng.integers(0, 4, 40)
    apart = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    how = [(apart == 0) * 2.0, (apart == 4) * 1.0, apart * 1.0] if kind == "given" else kind
    kinds = PairKinds.of(how, columns_of("k", codes, how))
    wanted, blocks = brute_force(keys, codes, kinds), blocks_of(keys)
    found = possible(blocks, codes, kinds)
    assert set(found) == set(wanted)
    assert all(tuple(sorted(pair)) in wanted[number] for number, pair in found.items())
    few = np.array([pair for pairs in wanted.values() for pair in pairs[:1]])
    one, other = rare_pairs(blocks, codes, kinds, few[:, 0], few[:, 1], rng)
    if kind != "same":  # different is different: of neighbouring categories
        for number, pairs in wanted.items():
            own = kinds.numbers(codes[one], codes[other]) == number
            assert own.sum() == ENOUGH - 1
    drawn = {tuple(sorted(pair)) for pair in zip(one.tolist(), other.tolist(), strict=True)}
    assert drawn <= {pair for pairs in wanted.values() for pair in pairs}


def test_rare_pairs_are_drawn_evenly():
    """Of a kind: 10 pairs within a run and 15 across two, in 4,000 draws."""
    codes = np.array([0] * 5 + [3] * 3 + [6] * 5)
    kinds = PairKinds("gap")
    blocks, none = blocks_of(np.zeros(13, dtype=int)), np.zeros(0, dtype=int)
    wanted = brute_force(np.zeros(13), codes, kinds)
    counts = {number: dict.fromkeys(pairs, 0) for number, pairs in wanted.items()}
    rng = np.random.default_rng(0)
    for _ in range(200):
        one, other = rare_pairs(blocks, codes, kinds, none, none, rng)
        numbers = kinds.numbers(codes[one], codes[other])
        for number, i, j in zip(numbers.tolist(), one.tolist(), other.tolist(), strict=True):
            counts[number][min(i, j), max(i, j)] += 1
    for number, times in counts.items():
        assert sum(times.values()) == 200 * ENOUGH, number
        assert stats.chisquare(list(times.values())).pvalue > 1e-5


# ------------------------------------------------------------------------------- few values
@pytest.mark.parametrize("seed", range(6))
def test_scores_of_few_values_have_levels(seed):
    """Means of clusters differ by one rounding; two edges between the same numbers were one."""

    def score(data, i, j):
        return 0.1 if data.kind[i] == data.kind[j] else -0.3

    kind = np.random.default_rng(seed).integers(0, 2, 200)
    made = sm.Bilinear.fit(
        score, {"kind": kind}, {}, {"kind": (kind, "same")}, seed=seed, pairs=2_000
    )
    assert len(made.edges) <= 1 and made.explained == pytest.approx(1.0)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 2.0])
def test_a_score_that_is_always_the_same_is_explained(value):
    kind = np.zeros(200, dtype=int)

    def score(data, i, j):
        return data.level[0]

    data = {"kind": kind, "level": np.full(200, value)}
    made = sm.Bilinear.fit(score, data, {}, {"kind": (kind, "same")}, pairs=2_000)
    assert len(made.edges) == 0 and made.explained == pytest.approx(1.0)


def test_data_may_be_a_frame():
    learn, _ = years()
    of_dict, of_frame = (
        sm.Bilinear.fit(by_year, given({"year": learn}), {}, {"year": (learn, "gap")}, pairs=2_000)
        for given in (dict, pd.DataFrame)
    )
    assert np.array_equal(of_dict.tables["year"][1], of_frame.tables["year"][1])
    assert np.array_equal(of_dict.between, of_frame.between)
