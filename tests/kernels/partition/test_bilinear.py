"""Bilinear: what a fit finds in scores that are bilinear, and in scores that are not."""

import itertools

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.partition.bilinear import by_level
from subsample_mcmc.kernels.partition.cluster_race import level_of
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.partition.members import blocks_of
from subsample_mcmc.kernels.partition.pair_scores import random_pairs
from tests.helpers.claims import equal
from tests.helpers.partitions import model_of, noise_of, score, swept

TOKENS = 30  # of them, 0 to 4 a mention


def truth(data, i, j):
    """Bilinear: a constant, common tokens, two tables; plus noise of clusters and of pairs."""
    value = data.constant
    for a in range(data.start[i], data.start[i + 1]):
        for b in range(data.start[j], data.start[j + 1]):
            if data.token[a] == data.token[b]:
                value += data.coefficient * data.weight[a] * data.weight[b]
    if data.year[i] >= 0 and data.year[j] >= 0:
        value += data.years[data.year[i], data.year[j]]
    if data.kind[i] >= 0 and data.kind[j] >= 0:
        value += data.kinds[data.kind[i], data.kind[j]]
    # Uniform noise of unit variance: of a mention and a cluster (of another one), and of a pair.
    a, b = data.cluster[i], data.cluster[j]
    if data.tau > 0.0:
        value += data.tau * 3.4641016 * (noise_of(1000 + a, 7 * 1000 + b) - 0.5)
    return value + data.sigma * 3.4641016 * (noise_of(i, j) - 0.5)


def symmetric(rng, size):
    made = rng.normal(size=(size, size))
    return made + made.T


def mentions(rng, size, kind, tau=0.0, sigma=0.0, clusters=None):
    """Data of `truth`, and the tokens and categories that Bilinear is given."""
    lengths = rng.integers(0, 5, size)
    start = np.concatenate([[0], np.cumsum(lengths)])
    token = np.concatenate([rng.choice(TOKENS, k, replace=False) for k in lengths]).astype(np.int64)
    weight, year = rng.uniform(0.3, 1.5, len(token)), rng.integers(-1, 9, size)
    kinds = rng.integers(-1, 3, size)
    apart = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    gaps = rng.normal(size=9)
    table = {
        "same": np.where(apart == 0, 1.3, -0.4), "gap": gaps[apart], "free": symmetric(rng, 9),
        "given": 0.7 * (apart <= 1) - 0.2 * apart,
    }[kind]  # fmt: skip
    data = {
        "start": start[:-1], "token": token, "weight": weight, "year": year, "kind": kinds,
        "years": table, "kinds": symmetric(rng, 3), "constant": -0.6, "coefficient": 1.7,
        "tau": float(tau), "sigma": float(sigma),
        "cluster": np.zeros(size, np.int64) if clusters is None else clusters,
    }  # fmt: skip
    data["start"] = start  # one entry more than mentions: not the first array
    data = {"year": year, **data}
    given = [(apart <= 1).astype(float), apart.astype(float)] if kind == "given" else kind
    return data, {"word": (start, token, weight)}, {"year": (year, given), "kind": (kinds, "free")}


def scored(data, i, j):
    return truth(sm.Model(None, data, {"z": 0.0}).data, i, j)


# ---------------------------------------------------------------------------- a bilinear score
@pytest.mark.slow
@pytest.mark.slow_for("same", "gap", "free")
@pytest.mark.parametrize("kind", ["same", "gap", "free", "given"])
def test_a_bilinear_score_is_found_exactly(rng, kind):
    data, tokens, categories = mentions(rng, 150, kind)
    keys = rng.integers(4, size=150)
    made = sm.Bilinear.fit(truth, data, tokens, categories, keys, pairs=20_000, seed=1)
    assert made.explained == pytest.approx(1.0, abs=1e-12)
    for name in ("between", "within"):
        assert np.all(np.asarray(getattr(made, name)) < 1e-24)
    assert np.all(np.abs(made.shift) < 1e-12)
    assert made.tokens["word"][3] == pytest.approx(1.7, rel=1e-9)
    read = sm.Model(None, data, {"z": 0.0}).data
    for i, j in rng.integers(150, size=(60, 2)):
        if i != j and keys[i] == keys[j]:
            assert made.value(i, j) == pytest.approx(truth(read, i, j), rel=1e-9, abs=1e-9)
            assert made.value(i, j) == pytest.approx(made.value(j, i), rel=1e-12, abs=1e-12)
    # A race with it reads nothing and draws what exact sums draw.
    heat = np.geomspace(4.0, 0.5, 3)
    found, told = swept(
        model_of(data), GibbsPartition("y", truth, keys, control=made, temperature=heat), 3
    )
    assert told["pulls"] < 0.001 * told["everything"]
    exact = GibbsPartition("y", truth, keys, sm.Exact(), temperature=heat)
    assert np.array_equal(found, swept(model_of(data), exact, 3)[0])


def test_the_same_scores_of_other_mentions(rng):
    data, tokens, categories = mentions(rng, 150, "gap")
    made = sm.Bilinear.fit(truth, data, tokens, categories, pairs=20_000)
    others, other_tokens, other_categories = mentions(rng, 40, "gap")
    others |= {name: data[name] for name in ("years", "kinds")}
    moved = made.of(other_tokens, other_categories)
    moved.check(40)
    read = sm.Model(None, others, {"z": 0.0}).data
    for i, j in itertools.combinations(range(12), 2):
        assert moved.value(i, j) == pytest.approx(truth(read, i, j), rel=1e-9, abs=1e-9)
    # Years that the fit has not met: gaps are known up to 8, and "free" categories not at all.
    year = np.where(np.arange(40) == 3, 15, other_categories["year"][0])
    later = made.of(other_tokens, {"year": year, "kind": other_categories["kind"]})
    assert later.tables["year"][1].shape == (16, 16)
    assert later.tables["year"][1][15, 12] == pytest.approx(data["years"][0, 3], rel=1e-9)
    with pytest.raises(ValueError, match=r"categories\['kind'\] go to 3, but 3 were fitted"):
        made.of(other_tokens, {"year": year, "kind": np.full(40, 3)})


@pytest.mark.plain
def test_value_is_what_it_says():
    control = sm.Bilinear(
        tokens={
            "a": (np.array([0, 2, 3, 5]), np.array([5, 1, 1, 9, 5]), np.arange(1.0, 6.0), 2.0),
            "b": (np.array([0, 1, 1, 2]), np.array([0, 0]), np.array([3.0, -1.0]), 0.5),
        },
        tables={"t": (np.array([0, -1, 1]), np.array([[9.0, 4.0], [4.0, 9.0]]))},
        constant=0.25,
    )
    assert control.value(0, 1) == 0.25 + 2.0 * 2.0 * 3.0
    assert control.value(0, 2) == 0.25 + 2.0 * 1.0 * 5.0 - 0.5 * 3.0 + 4.0
    assert control.value(1, 2) == 0.25
    assert "tokens: a, b; tables: t" in repr(control)


# ----------------------------------------------------------------------------- what is left over
def test_pairs_are_drawn_alike(rng):
    blocks = blocks_of(np.array([0, 0, 1, 1, 1, 2]))
    one, other = random_pairs(blocks, 60_000, rng)
    expected = {(0, 1)} | set(itertools.combinations((2, 3, 4), 2))
    expected |= {(j, i) for i, j in expected}
    found, count = np.unique(np.column_stack([one, other]), axis=0, return_counts=True)
    assert {tuple(pair) for pair in found.tolist()} == expected
    for k in count:
        equal(int(k), 60_000, 1 / 8, 1e-6 / 8)
    with pytest.raises(ValueError, match="no two mentions share a candidate key"):
        random_pairs(blocks_of(np.arange(5)), 10, rng)


def test_variances_of_what_is_left(rng):
    """tau of a mention and a cluster, sigma of a pair: 60 clusters of 20, all known.

    The means over LOOKED = 8000 clusters of 8 members of at most 60^2 / 2 different noises of
    clusters: each variance of uniform noise is found within 6 standard errors.
    """
    tau, sigma, clusters = 0.5, 0.8, np.repeat(np.arange(60), 20)
    clusters = rng.permutation(clusters)
    data, tokens, categories = mentions(rng, 1200, "gap", tau, sigma, clusters)
    made = sm.Bilinear.fit(truth, data, tokens, categories, clusters=clusters, pairs=40_000)
    # Relative standard error of the variance of n uniforms: sqrt((9/5 - 1) / n).
    about = 6.0 * np.sqrt(0.8 / 1800)
    assert np.mean(made.between) == pytest.approx(tau**2, rel=about)
    about = 6.0 * np.sqrt(0.8 / (8000 * 7))
    assert np.mean(made.within) == pytest.approx(sigma**2, rel=about)
    total = tau**2 + sigma**2
    assert np.all(np.abs(made.shift) < 0.2 * np.sqrt(total))
    scores = [made.value(i, j) for i, j in rng.integers(1200, size=(4000, 2)) if i != j]
    explained = np.var(scores) / (np.var(scores) + total)
    assert made.explained == pytest.approx(explained, abs=0.02)


def test_without_clusters_a_pilot_makes_some(rng):
    data, tokens, categories = mentions(rng, 400, "gap", 0.0, 0.5)
    keys = rng.integers(3, size=400)
    made = sm.Bilinear.fit(truth, data, tokens, categories, keys, pairs=20_000)
    again = sm.Bilinear.fit(truth, data, tokens, categories, keys, pairs=20_000)
    assert np.array_equal(made.between, again.between) and np.array_equal(made.edges, again.edges)
    assert np.mean(made.within) == pytest.approx(0.25, rel=6.0 * np.sqrt(0.8 / 8000))
    assert np.all(np.asarray(made.between) < 0.05)  # there is none but chance
    assert len(made.within) == len(made.edges) + 1 == len(made.shift) == len(made.between)


@pytest.mark.plain
def test_levels(rng):
    """Two levels with variances of their own, estimated apart; the control's mean says which."""
    count, size = 20_000, 6
    high = rng.random(count) < 0.5
    level = np.where(high, 5.0, -5.0) + rng.random(count)
    mean = np.where(high, 2.0, -1.0) + np.where(high, 0.3, 0.9) * rng.normal(size=count)
    left = mean[:, None] + np.where(high, 0.5, 1.5)[:, None] * rng.normal(size=(count, size))
    found = by_level(np.full(count, size), size * level, left.sum(axis=1), (left**2).sum(axis=1))
    at = np.searchsorted(found["edges"], 0.0)
    low, up = slice(0, at), slice(at + 1, None)  # the one across 0 may hold both
    for name, below, above in (
        ("shift", -1.0, 2.0), ("between", 0.81, 0.09), ("within", 2.25, 0.25),
    ):  # fmt: skip
        # Twenty clusters of the average are added to about 2500: within 1% and sampling error.
        assert np.allclose(found[name][low], below, rtol=0.2, atol=0.05), name
        assert np.allclose(found[name][up], above, rtol=0.2, atol=0.05), name

    class Left:
        edges = found["edges"]

    for value in (-9.0, -4.7, 0.0, 5.3, 9.0, *found["edges"]):
        expected = np.searchsorted(found["edges"], value, side="right")
        assert getattr(level_of, "py_func", level_of)(Left, value) == expected


# ------------------------------------------------------------------------------------ refused
GOOD = (np.array([0, 1, 2]), np.array([0, 1]), np.ones(2), 1.0)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ((np.array([1, 1, 2]), *GOOD[1:]), "indptr must start at 0, never fall, and end at 2"),
        ((np.array([0, 2, 1]), *GOOD[1:]), "indptr must start at 0"),
        ((np.array([0, 1, 3]), *GOOD[1:]), "indptr must start at 0"),
        ((*GOOD[:2], np.ones(3), 1.0), "one finite value for each of 2 ids"),
        ((*GOOD[:2], np.array([1.0, np.nan]), 1.0), "one finite value"),
        ((GOOD[0], np.array([0, -1]), *GOOD[2:]), "mention 1 has a token twice, or a negative"),
        ((np.array([0, 2, 2]), np.array([4, 4]), *GOOD[2:]), "mention 0 has a token twice"),
        ((*GOOD[:3], np.nan), "its coefficient is nan"),
    ],
)
def test_tokens_that_cannot_be(tokens, words):
    with pytest.raises(ValueError, match=rf"tokens\['t'\].*{words}"):
        sm.Bilinear(tokens={"t": tokens})


@pytest.mark.plain
@pytest.mark.parametrize(
    ("codes", "table", "words"),
    [
        ([0, 1], np.ones((2, 3)), "give a square matrix"),
        ([0, 1], np.full((2, 2), np.inf), "give a square matrix of finite scores"),
        ([0, 1], [[0.0, 1.0], [2.0, 0.0]], "is not symmetric"),
        ([0, 2], np.eye(2), "codes must be integers below 2"),
    ],
)
def test_tables_that_cannot_be(codes, table, words):
    with pytest.raises(ValueError, match=rf"tables\['year'\].*{words}"):
        sm.Bilinear(tables={"year": (np.array(codes), table)})


@pytest.mark.plain
def test_other_things_that_cannot_be(rng):
    with pytest.raises(ValueError, match="needs tokens, tables, or both"):
        sm.Bilinear()
    tables = {"year": (np.array([0, 1]), np.eye(2))}
    for name in ("between", "within", "reach"):
        with pytest.raises(ValueError, match=f"{name}=-1.0: it must be 0 or more"):
            sm.Bilinear(tables=tables, **{name: -1.0})
    with pytest.raises(ValueError, match="within has 2 levels: 2 edges make 3"):
        sm.Bilinear(tables=tables, edges=(0.0, 1.0), within=(1.0, 2.0))
    data = {"kind": np.arange(20), "table": np.eye(20), "bad": -1, "worst": 0.0,
            "scale": 0.0, "rare": 0.0, "large": 0.0}  # fmt: skip
    for kind, words in (
        ("free", 'are too many for "free"'), ("near", "give \"same\", \"gap\", \"free\""),
        ([np.eye(3)], "give matrices of at least 20 rows"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            sm.Bilinear.fit(score, data, {}, {"kind": (np.arange(20), kind)})
    with pytest.raises(ValueError, match="no two mentions share a candidate key"):
        sm.Bilinear.fit(score, data, {}, {"kind": (np.arange(20), "same")}, np.arange(20))


def test_a_fit_names_the_pair_without_a_score(rng):
    data = {"kind": np.arange(20), "table": np.eye(20), "bad": 37, "worst": np.nan,
            "scale": 0.0, "rare": 0.0, "large": 0.0}  # fmt: skip
    with pytest.raises(sm.RewardError, match=r"nan for mentions 1[89] and 1[89]"):
        sm.Bilinear.fit(score, data, {}, {"kind": (np.arange(20), "same")}, pairs=5000)


# ------------------------------------------------------------------------ odd codes and numbers
UNSIGNED = np.array([0, 0, 1], dtype=np.uint8)


@pytest.mark.plain
@pytest.mark.parametrize("codes", [np.array([0, -5, 1]), UNSIGNED], ids=["low", "unsigned"])
def test_missing_codes_of_every_sort(codes):
    """Negative ones are missing, and unsigned ones are integers."""
    control = sm.Bilinear(tables={"t": (codes, np.array([[9.0, -4.0], [-4.0, 9.0]]))})
    model = sm.Model(None, {"t": np.arange(3)}, {"y": np.arange(3)}, support={"y": 3})
    labels, _ = swept(model, GibbsPartition("y", None, control=control, temperature=0.1, new=1.0))
    together = labels[0, 0] == labels[0, 1]
    assert together == (codes[1] == 0) and labels[0, 2] not in labels[0, :2]


@pytest.mark.plain
@pytest.mark.parametrize(
    "given",
    [{"edges": (1.0, 0.0)}, {"constant": np.nan}, {"shift": np.nan}],
    ids=["edges", "constant", "shift"],
)
def test_numbers_that_cannot_be(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        sm.Bilinear(tables={"year": (np.array([0, 1]), np.eye(2))}, **given)


@pytest.mark.plain
def test_categories_that_are_no_integers():
    with pytest.raises(ValueError, match="'year' has dtype float64: codes, ids and indptr"):
        sm.Bilinear(tables={"year": (np.array([0.5, 1.0]), np.eye(2))})
