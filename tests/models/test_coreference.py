"""Author coreference: tokens, the 16 features of a pair, the fit, metrics, generator, loader."""

import gzip
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from subsample_mcmc.kernels.partition.members import blocks_of
from subsample_mcmc.models import coreference as co
from subsample_mcmc.models.coreference.author_names import focal, key, mark_of, parts, split
from subsample_mcmc.models.coreference.pair_score import labelled_pairs, moved
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.population import prepared

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "author_coref"
absent = pytest.mark.skipif(
    not SHARED.exists(), reason=f"the labelled mentions are not at {SHARED}"
)
COUNT = len(co.FEATURES)

FRAME = pd.DataFrame(
    {
        "block": ["j smith"] * 4 + ["w wang"] * 2 + [None],
        "title": [
            "Racing Gibbs", "gibbs racing of Arms", None, "Other words", "Arms", "Arms", "x y",
        ],
        "authors": [
            "J. K. Smith, A. Jones, B. Brown", "A. Q. Jones; Smith, John K.", "Jane L. Smith",
            "C. Green,J. Smith,B. Brown", "Wei Wang", None, "Nobody",
        ],
        "venue": ["ICML", "icml", "Annals of Stats", None, "ICML", "ICML", None],
        "year": [1990, 1991, 2020, None, 2000, 2000, 1980],
        "organization": ["Uni A", None, "Uni B", "Uni A", None, None, None],
        "label": ["a", "a", "b", "a", "a", None, "a"],
    }
)  # fmt: skip


@pytest.fixture
def small():
    return co.Mentions(FRAME)


def made_up(count=700, seed=3, **options):
    return co.Mentions(co.simulate(count, seed=seed, **options))


def random_score(rng, clip=8.0):
    return co.PairScore(rng.standard_normal(COUNT + 1), 0.3, clip)


# --------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("name", "words", "short"),
    [
        ("John K. Smith", ("john", "k", "smith"), "j smith"),
        ("J.K. Smith", ("j", "k", "smith"), "j smith"),
        ("Smith, John", ("john", "smith"), "j smith"),
        ("hussein m. abdel-wahab", ("hussein", "m", "abdelwahab"), "h abdelwahab"),
        ("Erdős Pál Jr.", ("erdos", "pal"), "e pal"),
        ("Wei Wang 0001", ("wei", "wang"), "w wang"),
        ("Plato", ("plato",), "plato"),
        ("Smith, John, Jr.", ("john", "smith"), "j smith"),  # no middle initial of "jr"
        ("Smith, Jr., John", ("john", "smith"), "j smith"),
        ("Smith Jr., John K. III", ("john", "k", "smith"), "j smith"),
        ("John Jr", ("john", "jr"), "j jr"),
        ("...", (), ""),
    ],
)
def test_names(name, words, short):
    assert parts(name) == words and key(name) == short


@pytest.mark.parametrize(
    ("names", "block", "which"),
    [
        (["A. Jones", "John Smith"], "j smith", 1),
        (["A. Jones", "John Smith"], "jsmith", 1),
        (["A. Jones", "J. Smith", "John Smith"], "John Smith", 2),
        (["A. Jones", "B. Smith"], "John Smith", 1),  # the surname at least
        (["A. Jones", "..."], "John Smith", 0),
        (["A. Jones", "J. Smith"], None, 0),
        ([], "j smith", 0),
    ],
)
def test_focal_author(names, block, which):
    assert focal(names, block) == which


def test_authors_are_split():
    assert split("A. B, C. D,") == ["A. B", "C. D"]
    assert split("B, A.; D, C.") == ["B, A.", "D, C."]
    assert split("John Smith, Jr., A. Doe") == ["John Smith", "A. Doe"]


def test_one_author_among_lists_with_semicolons():
    """ "Smith, John" was two authors, and all such papers shared the coauthor john."""
    several = ["Smith, John; Doe, Ann", "Smith, John; Roe, Bob", "A. Doe, J. Smith"]
    frame = pd.DataFrame({"block": "j smith", "authors": [*several, "Smith, John", "Smith, John"]})
    mentions = co.Mentions(frame)
    assert mark_of(frame["authors"]) == ";"
    shared = [sorted(mentions.words("coauthors", i)) for i in range(5)]
    assert shared == [["a doe"], [], ["a doe"], [], []]
    assert not mentions.data["mention"][3:, 7].any()  # they have none at all
    plain = ["A. Doe, J. Smith", "J. Smith, B. Roe, C. Poe", "Smith, John", "Smith, J.; Doe, A."]
    assert mark_of(plain) == "," and split(plain[2], ",") == ["Smith", "John"]
    big = co.scale(frame, 8, seed=1)
    for i, text in enumerate(big["authors"]):
        names = split(text, mark_of(big["authors"]))
        assert key(names[focal(names, "j smith")]) == "j smith", (i, text)
        assert {key(name) for name in names} <= {"j smith", "a doe", "b roe"}, (i, text)
    alone = co.scale(pd.DataFrame({"block": ["j smith"], "authors": several[0]}), 40, seed=1)
    assert "Smith, John;" in alone["authors"].tolist()
    assert {name for i in range(40) for name in co.Mentions(alone).words("coauthors", i)} == {
        "a doe"
    }


def test_middle_initials_of_any_alphabet():
    """All that are none of a to z counted as the same one."""
    names = ["А. П. Иванов", "А. С. Иванов", "А. П. Иванов", "A. P. Ivanov", "A. S. Ivanov"]
    mentions = co.Mentions(pd.DataFrame({"block": "x", "authors": names}))
    codes = mentions.data["mention"][:, 6]
    assert codes[0] == codes[2] and len(set(codes.tolist())) == 4
    assert codes[3:].tolist() == [15, 18]
    np.testing.assert_array_equal(co.category_fields(mentions)["middle"].codes, codes)


# ------------------------------------------------------------------------------------ mentions
def test_mentions(small):
    assert small.size == len(small) == 7 and small.blocks == ["j smith", "w wang"]
    np.testing.assert_array_equal(small.block, [0, 0, 0, 0, 1, 1, -1])
    np.testing.assert_array_equal(small.years, [1990, 1991, 2020, -1, 2000, 2000, 1980])
    assert sorted(small.words("coauthors", 0)) == ["a jones", "b brown"]
    assert sorted(small.words("coauthors", 1)) == ["a jones"]
    assert small.words("coauthors", 3) == ["b brown"]  # C. Green is nobody else's coauthor
    assert sorted(small.words("title", 1)) == ["arms", "gibbs", "racing"]
    truth = small.truth
    assert truth[0] == truth[1] == truth[3] != truth[2] and truth[5] == -1
    assert truth[4] not in {truth[0], truth[2]}  # labels are unique within blocks only,
    assert truth[6] == -1  # and say nothing outside of them
    assert "in 2 blocks, 5 labelled" in repr(small)


def test_blank_labels_are_none(small):
    frame = small.frame.assign(label=["", " ", None, "", np.nan, "", ""])
    assert co.Mentions(frame).truth is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones(3, dtype=bool), "a mask of 7"),
        ([0.7], "dtype float64"),
        ([-1, 2], "-1 .* 2: mentions are 0 .. 6"),
        ([7], "mentions are 0 .. 6"),
        (np.zeros(7, dtype=bool), "some mentions"),
    ],
)
def test_refused_parts(small, rows, message):
    with pytest.raises(ValueError, match=message):
        small.take(rows)


@pytest.mark.slow
def test_a_control_variate_moves_with_the_bias():
    """Its levels, too: fitted at another bias it would have them there."""
    mentions = made_up(400)
    score = co.fit(mentions, pairs=20_000)
    one, other = (score.with_bias(bias).control(mentions, pairs=20_000) for bias in (0.0, 0.5))
    found = moved(one, 0.5)
    left, right, _ = labelled_pairs(mentions, 1000, 0)
    np.testing.assert_allclose(found.values(left, right), one.values(left, right) + 0.5)
    np.testing.assert_allclose(found.edges, np.asarray(one.edges) + 0.5)
    # Refitted edges are quantiles of another fit: nearer to those that moved than to the old ones.
    apart = np.abs(np.asarray(other.edges) - found.edges).mean()
    assert apart < np.abs(np.asarray(other.edges) - one.edges).mean()


@pytest.mark.slow
def test_residuals_are_measured_on_known_persons():
    """Mentions without a label are no cluster of their own; without any, a pilot finds clusters."""
    mentions = made_up(400)
    score = co.fit(mentions, pairs=20_000)
    whole = score.control(mentions, pairs=20_000)
    half = mentions.take(np.arange(mentions.size))
    half.truth = np.where(np.arange(mentions.size) % 2, -1, mentions.truth)
    known = mentions.take(np.arange(0, mentions.size, 2))
    seen, same = score.control(half, pairs=20_000), score.control(known, pairs=20_000)
    np.testing.assert_array_equal(seen.between, same.between)
    none = mentions.take(np.arange(mentions.size))
    none.truth = None
    unknown = score.control(none, pairs=20_000)
    assert unknown.explained == whole.explained and not np.array_equal(unknown.within, whole.within)


def test_a_control_serves_mentions_of_other_years():
    """Learnt of two years, a gap of five has no score: it is fitted to the others themselves."""
    frame = co.simulate(300, seed=3)
    late = np.arange(len(frame)) % 2
    near, far = (co.Mentions(frame.assign(year=2000 + gap * late)) for gap in (1, 5))
    score = random_score(np.random.default_rng(1))
    served = score.control(near, far, pairs=20_000)
    own = score.control(far, pairs=20_000, clusters=None)
    assert np.array_equal(served.tables["year"][1], own.tables["year"][1])
    served.check_kinds(blocks_of(far.block))
    again = score.control(near, near, pairs=20_000)  # of these it knows all
    assert np.array_equal(again.between, score.control(near, pairs=20_000).between)


@pytest.mark.slow
def test_tuned_chooses_among_the_biases():
    mentions = made_up(300)
    score = co.fit(mentions, pairs=20_000)
    found = score.tuned(mentions, biases=(-4.0, 0.5), sweeps=8)
    assert found.bias == 0.5  # at -4 nobody is joined
    with pytest.raises(ValueError, match="biases is empty"):
        score.tuned(mentions, biases=())


def test_one_block_of_all():
    frame = co.simulate(300, largest=1.0)
    assert frame["block"].nunique() == 1 and len(frame) == 300


def test_tokens_are_sorted_unit_vectors():
    mentions = made_up()
    rows, data = mentions.data["mention"], mentions.data
    assert len(next(iter(data.values()))) == mentions.size and rows[-1, 4] == len(data["token"])
    assert data["token"].dtype == np.int32
    for i in range(mentions.size):
        for k in range(4):
            a, b = rows[i, k], rows[i, k + 1]
            assert np.all(np.diff(data["token"][a:b]) > 0)
            if k:  # less than 1 where tokens that nobody shares were left out
                assert np.sum(data["value"][a:b] ** 2) <= 1.0 + 1e-6


def test_take_keeps_everything(rng):
    mentions = made_up()
    rows = rng.permutation(mentions.size)[:200]
    part, score = mentions.take(rows), random_score(rng)
    left, right = rng.integers(0, 200, (2, 500))
    np.testing.assert_array_equal(
        score.scores(part, left, right), score.scores(mentions, rows[left], rows[right])
    )
    assert part.frame["title"].tolist() == mentions.frame["title"].iloc[rows].tolist()
    np.testing.assert_array_equal(part.truth, mentions.truth[rows])
    for i in (0, 7, 199):
        for field in co.FIELDS:
            assert part.words(field, i) == mentions.words(field, rows[i])
    again = mentions.take(np.arange(mentions.size))
    for name, array in mentions.data.items():
        np.testing.assert_array_equal(again.data[name], array)
    assert mentions.take(mentions.block == 0).size == np.sum(mentions.block == 0)
    with pytest.raises(ValueError, match="give the numbers of some mentions"):
        mentions.take([])


def test_halves():
    mentions = made_up()
    train, test = mentions.halves()
    assert train.size + test.size == mentions.size
    sizes = np.bincount(mentions.block)
    order = np.argsort(-sizes, kind="stable")
    assert set(np.unique(test.block)) == set(order[::2])
    assert set(np.unique(train.block)) == set(order[1::2])
    with pytest.raises(ValueError, match="cannot be halved"):
        mentions.take(mentions.block == 0).halves()


def test_missing_columns_and_labels():
    frame = pd.DataFrame({"title": ["one two", "two three"]})
    mentions = co.Mentions(frame)
    assert mentions.truth is None and np.all(mentions.block == -1)
    score = co.PairScore(np.zeros(COUNT + 1))
    assert score.scores(mentions, [0], [1]) == 0.0
    for call in (lambda: co.fit(mentions), lambda: score.auc(mentions)):
        with pytest.raises(ValueError, match="no labels"):
            call()
    with pytest.raises(ValueError, match="no labels, so there is no F1"):
        co.b_cubed([0, 1], mentions.truth)
    some = co.Mentions(pd.DataFrame({"title": ["a b"] * 3, "year": [1999, None, "2004"]}))
    np.testing.assert_array_equal(some.years, [1999, -1, 2004])
    for year in (1e12, "soon", -5, 1999.5):  # they were unknown, without a word
        with pytest.raises(ValueError, match="the year of mention 1"):
            co.Mentions(pd.DataFrame({"title": ["a b"] * 2, "year": [1999, year]}))
    empty = co.Mentions(pd.DataFrame({"title": [None, np.nan], "authors": ["", None]}))
    assert np.all(empty.data["mention"][:, 7] == 0) and score.scores(empty, [0], [1]) == 0.0


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pd.DataFrame({"name": ["a"]}), ValueError, r"columns \['name'\]: there must be `title`"),
        (pd.DataFrame({"title": []}), ValueError, "no rows"),
        ([1, 2], TypeError, "give a data frame"),
    ],
)
def test_refused_mentions(frame, error, message):
    with pytest.raises(error, match=message):
        co.Mentions(frame)


# ------------------------------------------------------------------------------------ features
def naive(frame, i, j):
    """The features from the table itself, by sets."""

    def tokens(k, field):
        if field != "coauthors":
            text = frame[field].iloc[k]
            text = text if isinstance(text, str) else ""
            words = {"".join(c for c in w if c.isalnum()) for w in text.lower().split()}
            return {w for w in words if len(w) > 1 and w not in {"of", "on", "in"}}
        names = split(frame["authors"].iloc[k])
        names.pop(focal(names, frame["block"].iloc[k]))
        return {key(name) for name in names}

    def rarities(field):
        counts = Counter(t for k in range(len(frame)) for t in tokens(k, field))
        return {t: np.log1p(len(frame) / n) for t, n in counts.items()}

    def cosine(field):
        rare = rarities(field)
        a, b = tokens(i, field), tokens(j, field)
        norm = np.sqrt(sum(rare[t] ** 2 for t in a) * sum(rare[t] ** 2 for t in b))
        return sum(rare[t] ** 2 for t in a & b) / norm if a and b else 0.0

    def letter(k):
        names = split(frame["authors"].iloc[k])
        words = parts(names[focal(names, frame["block"].iloc[k])])
        return words[1][0] if len(words) > 2 else ""

    a, b = tokens(i, "coauthors"), tokens(j, "coauthors")
    rare = sum(rarities("coauthors")[t] for t in a & b)
    title, venue, one, other = cosine("title"), cosine("venue"), letter(i), letter(j)
    years = frame["year"].iloc[[i, j]]
    gap = 0 if years.isna().any() else abs(int(years.iloc[0]) - int(years.iloc[1]))
    employed = frame["organization"].iloc[[i, j]].notna().all()
    return [
        float(bool(a & b)), np.log1p(len(a & b)), 0.1 * min(rare, 20.0), float(bool(a and b)),
        title, np.sqrt(title), venue, np.sqrt(venue),
        0.1 * min(gap, 20), float(years.notna().all() and gap <= 1),
        cosine("organization"), float(employed),
        float(one == other != ""), float("" not in {one, other} and one != other),
        float(one == other == ""), np.sqrt(title * venue),
    ]  # fmt: skip


def test_features_are_those_of_the_table(rng):
    frame = co.simulate(60, seed=5)
    mentions, out = co.Mentions(frame), np.empty(COUNT)
    data = prepared(mentions.data | {"weights": np.zeros(COUNT + 3)})
    compiled = jit(co.features)
    for i, j in rng.permuted(np.tile(np.arange(60), (40, 1)), axis=1)[:, :2]:
        wanted = naive(frame, i, j)
        co.features(data, i, j, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-7)
        compiled(data, i, j, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-7)


def test_similarity_is_symmetric_and_clipped(rng):
    mentions, score = made_up(), random_score(rng)
    left, right = rng.integers(0, mentions.size, (2, 20_000))
    f = score.scores(mentions, left, right)
    np.testing.assert_array_equal(f, score.scores(mentions, right, left))
    data = prepared(score.data(mentions))
    out = np.empty(COUNT)
    for k in range(50):
        assert co.similarity(data, left[k], right[k]) == pytest.approx(f[k], rel=1e-12)
        co.features(data, left[k], right[k], out)
        assert f[k] == pytest.approx(out @ score.weights[:-1] + score.weights[-1] + 0.3, abs=1e-9)
    tight = co.PairScore(score.weights, 0.3, 0.5).scores(mentions, left, right)
    np.testing.assert_array_equal(tight, np.clip(f, -0.5, 0.5))


def test_signatures_hide_no_common_token():
    """Whoever shares a token shares a bit: else features would be 0 by mistake."""
    data = made_up().data
    rows, signature = data["mention"], data["signature"]
    bits = [signature[:, [0]], signature[:, [1, 4]], signature[:, [2]], signature[:, [3]]]
    for i, j in combinations(range(150), 2):
        for k in range(4):
            one, other = (data["token"][rows[n, k] : rows[n, k + 1]] for n in (i, j))
            if len(np.intersect1d(one, other)):
                assert (bits[k][i] & bits[k][j]).any()


# ----------------------------------------------------------------------------------------- fit
def test_fit_finds_the_minimum():
    mentions = made_up()
    score = co.fit(mentions, pairs=10**9, ridge=1e-3)
    left, right, same = labelled_pairs(mentions, 10**9, 0)
    assert score.pairs == len(left)
    x, data = np.empty((len(left), COUNT)), prepared(score.data(mentions))
    for k in range(len(left)):
        co.features(data, left[k], right[k], x[k])
    slope = 1.0 / (1.0 + np.exp(-(x @ score.weights[:-1] + score.weights[-1]))) - same
    np.testing.assert_allclose(x.T @ slope / len(left) + 1e-3 * score.weights[:-1], 0.0, atol=1e-5)
    assert np.mean(slope) == pytest.approx(0.0, abs=1e-5)
    assert score.auc(mentions) > 0.8
    assert "intercept" in str(score)


def test_pairs_are_all_pairs_within_blocks():
    mentions = made_up(120)
    mentions.truth[::7] = -1
    left, right, same = labelled_pairs(mentions, 10**6, 0)
    wanted = {
        (i, j) for i, j in combinations(range(120), 2)
        if mentions.block[i] == mentions.block[j] and min(mentions.truth[[i, j]]) >= 0
    }  # fmt: skip
    assert len(left) == len(wanted)
    assert {tuple(sorted(p)) for p in zip(left.tolist(), right.tolist(), strict=True)} == wanted
    np.testing.assert_array_equal(same, mentions.truth[left] == mentions.truth[right])
    some = labelled_pairs(mentions, 50, 1)
    found = {tuple(sorted(p)) for p in zip(some[0].tolist(), some[1].tolist(), strict=True)}
    assert len(found) == 50 and found <= wanted


def test_auc_counts_pairs(rng):
    mentions, score = made_up(120), random_score(rng)
    left, right, same = labelled_pairs(mentions, 10**6, 1)
    f = score.scores(mentions, left, right)
    above = np.subtract.outer(f[same], f[~same])
    wanted = np.mean(above > 0) + 0.5 * np.mean(above == 0)
    assert score.auc(mentions, pairs=10**6) == pytest.approx(wanted, rel=1e-12)


def test_bias_and_data(rng):
    mentions, score = made_up(120), random_score(rng)
    more = score.with_bias(1.3)
    assert (more.bias, more.clip, score.bias) == (1.3, 8.0, 0.3)
    np.testing.assert_array_equal(more.data(mentions)["weights"][-2:], [1.3, 8.0])
    assert next(iter(more.data(mentions))) == "mention"
    with pytest.raises(ValueError, match="read-only"):
        score.weights[0] = 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: co.PairScore(np.zeros(3)), r"weights has shape \(3,\)"),
        (lambda m: co.PairScore(np.full(COUNT + 1, np.nan)), "17 numbers that are not finite"),
        (lambda m: co.PairScore(np.zeros(COUNT + 1), bias=np.inf), "give a finite bias"),
        (lambda m: co.PairScore(np.zeros(COUNT + 1)).scores(m, [0], [7]), "mentions 0 .. 6"),
        (lambda m: co.PairScore(np.zeros(COUNT + 1)).scores(m, [0], [1, 2]), "one pair per entry"),
        (lambda m: co.fit(m, ridge=-1.0), "ridge=-1.0"),
        (lambda m: co.fit(m, pairs=0), "pairs=0"),
        (lambda m: co.fit(m.take([0, 1])), "pairs of both kinds"),
        (lambda m: co.PairScore(np.zeros(COUNT + 1)).auc(m.take([0, 1])), "no AUC exists"),
        (lambda m: co.fit(m.take([0, 4])), "no block has two labelled"),
    ],
)
def test_refused_scores(small, call, message):
    with pytest.raises(ValueError, match=message):
        call(small)


# ------------------------------------------------------------------------------------- metrics
def test_b_cubed_of_a_worked_example():
    """Bagga and Baldwin's: {1-5}, {6,7}, {8-12} found as {1-5}, {6-12}, then {1-5,8-12}, {6,7}."""
    truth = np.repeat([0, 1, 2], [5, 2, 5])
    first = co.b_cubed(np.repeat([0, 1, 1], [5, 2, 5]), truth)
    assert first.precision == pytest.approx(16 / 21) and first.recall == 1.0
    second = co.b_cubed(np.repeat([0, 1, 0], [5, 2, 5]), truth)
    assert second.precision == pytest.approx(7 / 12) and second.recall == 1.0


def test_metrics_are_those_of_the_definitions(rng):
    labels, truth = rng.integers(0, 6, 80), rng.integers(-1, 8, 80)
    block = rng.integers(0, 3, 80)
    truth = np.where(truth < 0, -1, truth + 10 * block)
    known = np.flatnonzero(truth >= 0)
    cluster = labels + 100 * block
    parts_of = [], []
    for i in known:
        mine, his = cluster[known] == cluster[i], truth[known] == truth[i]
        parts_of[0].append(np.mean(his[mine]))
        parts_of[1].append(np.mean(mine[his]))
    found = co.b_cubed(labels, truth, block)
    assert found.precision == pytest.approx(np.mean(parts_of[0]))
    assert found.recall == pytest.approx(np.mean(parts_of[1]))
    assert found.f1 == pytest.approx(2 / (1 / found.precision + 1 / found.recall))
    joined = {p for p in combinations(known, 2) if cluster[p[0]] == cluster[p[1]]}
    one = {p for p in combinations(known, 2) if truth[p[0]] == truth[p[1]]}
    pairs = co.pairwise(labels, truth, block)
    assert pairs.precision == pytest.approx(len(joined & one) / len(joined))
    assert pairs.recall == pytest.approx(len(joined & one) / len(one))


def test_metrics_at_the_ends():
    truth = np.array([0, 0, 1, 1])
    assert co.b_cubed(truth + 5, truth) == co.pairwise(truth + 5, truth) == (1.0, 1.0, 1.0)
    alone = np.arange(4)
    assert co.pairwise(alone, truth) == (1.0, 0.0, 0.0)
    assert co.b_cubed(alone, truth)[:2] == (1.0, 0.5)
    assert co.b_cubed([0, 0, 0, 0], truth, block=[0, 0, 1, 1]).f1 == 1.0
    assert co.pairwise(alone, alone) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("labels", "truth", "error", "message"),
    [
        ([0, 1], [0], ValueError, "2 labels, 1 of truth"),
        ([0, 1], [-1, -1], ValueError, "no mention has a true label"),
        ([0.5, 1], [0, 1], TypeError, "one integer per mention"),
        ([[0, 1]], [0, 1], TypeError, r"labels has shape \(1, 2\)"),
    ],
)
def test_refused_labels(labels, truth, error, message):
    for metric in (co.b_cubed, co.pairwise):
        with pytest.raises(error, match=message):
            metric(labels, truth)


# ----------------------------------------------------------------------------------- generator
@pytest.mark.slow
def test_simulated_bibliography():
    frame = co.simulate(3000, seed=1)
    assert len(frame) == 3000
    pd.testing.assert_frame_equal(frame, co.simulate(3000, seed=1))
    assert not frame.equals(co.simulate(3000, seed=2))
    blocks = frame["block"].value_counts()
    assert 0.15 <= blocks.iloc[0] / 3000 <= 0.2 and len(blocks) >= 10
    people = frame.groupby(["block", "label"]).size()
    assert people.min() == 1 and people.max() >= 100 and (people == 1).sum() > 50
    assert frame.groupby("block")["label"].nunique().iloc[0] > 1
    for name in ("title", "venue", "year", "organization"):
        assert 0 < frame[name].isna().sum() < 2400
    assert frame["year"].dropna().between(1940, 2015).all()
    mentions = co.Mentions(frame)
    for i in range(0, 3000, 50):  # the mention's author is found, and is no coauthor
        names = split(frame["authors"][i])
        assert key(names[focal(names, frame["block"][i])]) == frame["block"][i]
    score = co.fit(mentions, pairs=50_000)
    assert 0.8 < score.auc(mentions) < 0.97  # neither hopeless nor trivial


@pytest.mark.parametrize("count", [1, 2, 9, 40])
def test_small_bibliographies(count):
    frame = co.simulate(count)
    assert len(frame) == count and co.Mentions(frame).size == count


def test_easy_bibliography():
    frame = co.simulate(400, missing=0.0, noise=0.0)
    assert frame.notna().all(axis=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mentions": 0}, "mentions=0"),
        ({"noise": 3.0}, "noise=3.0"),
        ({"missing": np.nan}, "missing=nan"),
        ({"largest": 0.0}, "largest=0.0"),
        ({"tail": 0.0}, "tail=0.0"),
    ],
)
def test_refused_bibliographies(options, message):
    with pytest.raises(ValueError, match=message):
        co.simulate(**options)


def test_scaled_bibliography():
    frame = co.simulate(300, seed=2)
    big = co.scale(frame, 5, seed=1)
    assert len(big) == 1500
    pd.testing.assert_frame_equal(big.iloc[::5].reset_index(drop=True), frame)
    for name in ("block", "label"):
        assert big[name].tolist() == np.repeat(frame[name].to_numpy(), 5).tolist()
    changed = (big["title"].to_numpy() != np.repeat(frame["title"].to_numpy(), 5)).mean()
    assert 0.5 < changed < 0.8
    apart = big["year"].astype(float) - np.repeat(frame["year"].astype(float).to_numpy(), 5)
    assert apart.abs().max() == 2.0
    for i in range(0, 1500, 7):
        names = split(big["authors"][i])
        assert key(names[focal(names, big["block"][i])]) == big["block"][i]
    pd.testing.assert_frame_equal(big, co.scale(frame, 5, seed=1))
    pd.testing.assert_frame_equal(co.scale(frame, 1), frame)
    with pytest.raises(ValueError, match="times=0"):
        co.scale(frame, 0)


def test_scaling_a_table_with_holes():
    big = co.scale(FRAME, 4)
    assert len(big) == 28 and co.Mentions(big).size == 28
    assert co.Mentions(co.scale(FRAME[["title"]], 2)).size == 14


# -------------------------------------------------------------------------------------- tables
def test_table_of_clusters(rng):
    mentions, score = made_up(300), random_score(rng)
    labels = mentions.truth
    table = co.table(mentions, labels, score)
    sizes = np.bincount(labels)
    assert len(table) == sizes[sizes > 1].sum()
    for _, rows in table.groupby(["block", "cluster"]):
        assert len(rows) == rows["size"].iloc[0] and rows["label"].nunique() == 1
        assert rows["score"].is_monotonic_decreasing
    assert table.groupby("block")["cluster"].min().eq(1).all()
    block, label = table["block"].iloc[0], table["label"].iloc[0]
    frame = mentions.frame
    members = np.flatnonzero((frame["block"] == block) & (frame["label"] == label))
    mean = [np.mean(score.scores(mentions, [i] * (len(members) - 1), members[members != i]))
            for i in members]  # fmt: skip
    found = table.query("block == @block and cluster == 1")["score"]
    np.testing.assert_allclose(np.sort(mean), np.sort(found), rtol=1e-9)
    assert len(co.table(mentions, labels, most=7)) == 7
    assert co.table(mentions, labels)["score"].isna().all()
    assert len(co.table(mentions, np.arange(300), score)) == 0


def test_refused_tables(small):
    with pytest.raises(ValueError, match="2 labels for 7 mentions"):
        co.table(small, [0, 1])
    assert "label" not in co.table(co.Mentions(FRAME.drop(columns="label")), [0] * 7)
    assert len(co.table(small, [0] * 7)) == 6  # who is in no block is in no cluster


# -------------------------------------------------------------------------------------- fields
def test_token_fields_give_the_features(rng):
    mentions = made_up()
    fields = co.token_fields(mentions)
    data, out = prepared(mentions.data | {"weights": np.zeros(COUNT + 3)}), np.empty(COUNT)

    def product(field, i, j):
        dense = np.zeros(field.ids.max(initial=0) + 1)
        a, b = (slice(field.indptr[n], field.indptr[n + 1]) for n in (i, j))
        dense[field.ids[a]] = field.values[a]
        return dense[field.ids[b]] @ field.values[b]

    order = np.argsort(mentions.truth, kind="stable")  # neighbours share much
    for i, j in zip(order[:300:3], order[1:301:3], strict=True):
        co.features(data, i, j, out)
        for name, k in (("title", 4), ("venue", 6), ("organization", 10)):
            assert product(fields[name], i, j) == pytest.approx(out[k], abs=1e-6)
        assert np.log1p(product(fields["coauthors"], i, j)) == pytest.approx(out[1])
        assert min(product(fields["rarity"], i, j), 20.0) == pytest.approx(10 * out[2], abs=1e-5)


def test_category_fields(small):
    fields = co.category_fields(small)
    assert [f.kind for f in fields.values()] == ["gap", "same"] + ["free"] * 4
    np.testing.assert_array_equal(fields["year"].codes, [10, 11, 40, -1, 20, 20, 0])
    np.testing.assert_array_equal(fields["middle"].codes, [10, 10, 11, -1, -1, -1, -1])
    np.testing.assert_array_equal(fields["has coauthors"].codes, [1, 1, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(fields["has organization"].codes, [1, 0, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(fields["has year"].codes, [1, 1, 1, 0, 1, 1, 1])
    np.testing.assert_array_equal(fields["has middle"].codes, [1, 1, 1, 0, 0, 0, 0])


# -------------------------------------------------------------------------------------- loader
def test_read(tmp_path):
    path = tmp_path / "mentions.csv.gz"
    lines = [
        "pub, Block,title,Authors,year,label", "1,j smith,Arms,J. Smith,1996,x",
        "1,j smith,Arms,J. Smith,1996,x", "2,j smith,null,J. Smith,,", "3,,NA,,2001,0",
    ]  # fmt: skip
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    frame = co.read(path)
    assert frame.attrs["duplicates"] == 1 and len(frame) == 3
    assert list(frame.columns) == [
        "pub", "block", "title", "authors", "year", "label", "venue", "organization"
    ]  # fmt: skip
    assert frame["title"].isna().tolist() == [False, True, False]
    assert frame["year"].tolist()[0] == 1996 and frame["year"].isna().sum() == 1
    mentions = co.Mentions(frame)
    np.testing.assert_array_equal(mentions.block, [0, 0, -1])
    np.testing.assert_array_equal(mentions.truth, [0, -1, -1])


def test_what_is_written_is_read(tmp_path):
    frame = co.simulate(200)
    frame.to_csv(tmp_path / "mentions.csv", index=False)
    back = co.read(tmp_path / "mentions.csv")
    one, other = co.Mentions(frame.drop_duplicates()), co.Mentions(back)
    for name, array in one.data.items():
        np.testing.assert_array_equal(array, other.data[name])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", r"columns \['a', 'b'\]: there must be `title` or `authors`"),
        ("", "is no CSV file"),
        ("title,year\nArms,19996\n", "year of mention 0 .* is '19996'"),
        ("title,year\nArms,1996\nLegs,soon\n", "year of mention 1 .* is 'soon'"),
        ("title,year\n", "no mentions"),
        ('title,year\n"Arms,1996\n', "is no CSV file"),
        ("title,block\nArms,j smith,\nLegs,j smith,\n", "more fields than the first one names"),
        ("title,block\nArms,Legs,j smith\n", "more fields than the first one names"),
        ("title, title\nArms,Legs\n", "two columns .title."),
    ],
)
def test_refused_files(tmp_path, text, message):
    path = tmp_path / "mentions.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        co.read(path)


def test_absent_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        co.read(tmp_path / "mentions.csv")


# ----------------------------------------------------------------------------------- real data
@pytest.mark.slow
@absent
@pytest.mark.parametrize(
    ("name", "dropped", "size", "blocks", "people", "auc"),
    [
        ("citeseerx_kim_14names", 763, 4255, 14, 480, 0.887),
        ("aminer_109names", 1, 7527, 109, 1546, 0.869),
    ],
)
def test_labelled_sets(name, dropped, size, blocks, people, auc):
    frame = co.read(SHARED / f"{name}.csv.gz")
    assert frame.attrs["duplicates"] == dropped
    mentions = co.Mentions(frame)
    assert (mentions.size, len(mentions.blocks)) == (size, blocks)
    assert len(np.unique(mentions.truth)) == people
    train, _ = mentions.halves()
    assert co.fit(train).auc(train) == pytest.approx(auc, abs=2e-3)
